"""Numbers that readers compute from a release: counts by names, their errors, ratios, and intervals that hold."""

import itertools
import math
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fitnoise as fn
import zoo
from conftest import zoo_plan
from dense import joined
from fitnoise import messages
from fitnoise.errors import ReleaseError
from fitnoise.mechanisms import rebuilding
from fitnoise.mechanisms.gaussian import planning
from fitnoise.messages import ValueKind
from fitnoise.reading import labelled_numbers
from fitnoise.reading import linear_forms as reading_forms
from fitnoise.reading.areas import read_areas
from fitnoise.reading.estimates import Estimates
from fitnoise.reading.expressions import ask
from fitnoise.reading.labelled_numbers import RowLabels
from fitnoise.reading.laws import LaplaceSums, Normal, law
from fitnoise.reading.linear_forms import AnswerSource, Forms
from fitnoise.reading.ratio_intervals import inverted
from fitnoise.request.targets import z_score
from headed import terminal_columns
from laws.plans import planned_quickly
from laws.releases import answered, released
from refused import refused
from tolerances import EXACT, LOOSE, SIGNIFICANCE, as_often_as

PEOPLE = fn.Domain(
    sex=fn.Categorical({"f": "female", "m": "male"}),
    age=fn.Ordered(0, 9, missing={"unknown": [-9]}, if_missing="unknown"),
    geo=fn.Hierarchy(["state", "county"], [(s, f"{s}{i}") for s, n in (("A", 2), ("B", 3)) for i in range(n)]),
    job=fn.Categorical(["none", "some", "many"]),
)
TABLES = [
    fn.table("state", "sex", margin=3),
    fn.table("county", "sex", margin=5),
    fn.table("sex", cumulative="age", margin=4),
    fn.table("age", margin=6),
    fn.table("sex", "job", margin=3),
    fn.table(groups={"age": {"young": [0, 2], "old": [8, 9]}}, margin=4),
]
COUNTS = np.random.default_rng(5).integers(0, 9, PEOPLE.shape)

TERMINAL = messages.translator("en", typeset=False)


@cache
def plan(privacy="gaussian"):
    return (fn.plan if privacy == "gaussian" else planned_quickly)(fn.Workload(PEOPLE, TABLES))


@cache
def release_for(privacy="gaussian"):
    return released(plan(privacy), COUNTS)


@pytest.fixture
def quiet(without_noise):
    """A release without noise."""
    return released(plan(), COUNTS)


def many_plans():
    """Every kind of design that tables are rebuilt from."""
    yield from (zoo_plan(name) for name in zoo.WORKLOADS)
    pure = ("marginals", "crossed", "all ranges", "regular tree", "tree and structure", "missing values")
    yield from (planned_quickly(zoo.WORKLOADS[name]()) for name in pure)
    yield fn.plan(zoo.many_places())
    yield fn.plan(zoo.many_cells())


def random_form(source, table, rng, count=3):
    """A few numbers of a table, and sums of all along columns shown value by value, with random factors."""
    t, shape = source.part.publication.workload.tables[table], source.shape(table)
    factors = np.zeros(shape)
    for _ in range(count):
        by_value = [t.matrix is None and t.view(a).name_suffix == "" for a in t.attributes]
        ends = [
            n if is_by_value else n - 1 for n, is_by_value in zip(shape, by_value or [False] * len(shape), strict=True)
        ]
        factors[tuple(rng.integers(n) for n in ends)] += rng.normal()
    return Forms(1, {(source, table): sp.csr_array(factors.reshape(1, -1))})


def check_covariances(plan, rng, monkeypatch):
    for group, part in enumerate(plan.groups):
        source = AnswerSource(
            "", group, rebuilding.RebuiltTables(part, [np.zeros(n, np.int64) for n in part.estimation.lengths])
        )
        tables = min(len(part.publication.workload.tables), 6)
        for t, u in itertools.product(range(tables), repeat=2):
            f, h = random_form(source, t, rng), random_form(source, u, rng)
            pairs = f.covariances(h)
            monkeypatch.setattr(
                reading_forms, "MAX_PAIRS_SPARSE", 0
            )  # by all numbers of the tables, as for one combination
            joint = f.covariances(h)
            monkeypatch.undo()
            monkeypatch.setattr(
                reading_forms, "MAX_PAIRS_DIRECT", 0
            )  # by what they have in common, where that is known
            common = f.covariances(h)
            monkeypatch.undo()
            limit = math.sqrt(f.covariances(f)[0] * h.covariances(h)[0])
            assert abs(pairs - joint)[0] <= LOOSE * limit
            assert abs(pairs - common)[0] <= LOOSE * limit


@pytest.mark.slow
def test_covariances_of_pairs_equal_those_of_complete_combinations(rng, monkeypatch):
    for plan_case in many_plans():
        check_covariances(plan_case, rng, monkeypatch)


@pytest.mark.slow
def test_covariances_of_pairs_along_axes_and_down_trees(rng, monkeypatch):
    """Tables with several views of an axis, and places that part at every level."""
    with monkeypatch.context() as here:
        here.setattr(planning, "MAX_DENSE_CELLS", 0)
        here.setattr(planning, "MAX_DENSE_CELLS_SLOW", 0)
        domain = fn.Domain(a=fn.Ordered(0, 4), b=fn.Ordered(0, 1), c=fn.Ordered(0, 3), d=fn.Ordered(0, 2))
        tables = [
            fn.table("a", "b", cumulative="c", margin=3),
            fn.table(cumulative=["a", "c"], margin=4),
            fn.table("d", "a", ranges="c", margin=4),
            fn.table("b", "c", margin=5),
        ]
        axes = fn.plan(fn.Workload(domain, tables))
    rows = [(s, f"{s}{c}", f"{s}{c}{t}") for s in range(9) for c in range(8 + s * 3) for t in range(1 + (c + s) % 4)]
    domain = fn.Domain(b=fn.Ordered(0, 1), geo=fn.Hierarchy(["state", "county", "tract"], rows), d=fn.Ordered(0, 2))
    names_lists = [["state", "b"], ["county", "d"], ["tract", "b"], ["b"]]
    tree = fn.plan(fn.Workload(domain, [fn.table(*names, margin=3) for names in names_lists]))
    assert (axes.order.mechanism, tree.order.mechanism) == ("fit-for-use-by-axis", "fit-for-use-by-place")
    for plan_case in (axes, tree):
        for _ in range(4):
            check_covariances(plan_case, rng, monkeypatch)


def test_covariances_are_the_same_however_many_numbers_are_held_at_once(rng, monkeypatch):
    for plan_case in map(zoo_plan, ("marginals", "crossed", "uneven tree", "patterns")):
        part = plan_case.groups[0]
        source = AnswerSource(
            "", 0, rebuilding.RebuiltTables(part, [np.zeros(n, np.int64) for n in part.estimation.lengths])
        )
        f, h = (joined([random_form(source, t, rng) for _ in range(11)]) for t in (0, 1))
        for many in (reading_forms.MAX_PAIRS_DIRECT, 0):
            monkeypatch.setattr(reading_forms, "MAX_PAIRS_DIRECT", many)
            at_once = f.covariances(h)
            with monkeypatch.context() as here:
                here.setattr(reading_forms, "NUMBERS_PER_BATCH", 20)
                np.testing.assert_allclose(f.covariances(h), at_once, rtol=1e-12, atol=1e-12 * np.abs(at_once).max())
        monkeypatch.undo()


# --- counts ---------------------------------------------------------------------------------------------

WHERE = [
    ({}, slice(None), slice(None), slice(None), slice(None)),
    ({"sex": "f"}, 0, slice(None), slice(None), slice(None)),
    ({"sex": "female"}, 0, slice(None), slice(None), slice(None)),
    ({"sex": ["f", "m"], "job": "some"}, slice(None), slice(None), slice(None), 1),
    ({"age": (2, 5)}, slice(None), slice(2, 6), slice(None), slice(None)),
    ({"age": (0, 9), "sex": "m"}, 1, slice(0, 10), slice(None), slice(None)),
    ({"age": "unknown"}, slice(None), 10, slice(None), slice(None)),
    ({"age": {"values": [0, 3, 9]}, "sex": "f"}, 0, [0, 3, 9], slice(None), slice(None)),
    ({"state": "B"}, slice(None), slice(None), slice(2, 5), slice(None)),
    ({"county": ["A1", "B0"], "sex": "m"}, 1, slice(None), [1, 2], slice(None)),
    ({"state": "B", "county": ["A1", "B0", "B2"]}, slice(None), slice(None), [2, 4], slice(None)),
    ({"geo": "B1"}, slice(None), slice(None), 3, slice(None)),
]


@pytest.mark.parametrize(("where", "sex", "age", "geo", "job"), WHERE)
def test_counts_are_those_of_the_records(quiet, where, sex, age, geo, job):
    truth = COUNTS[sex][..., :, :, :] if isinstance(sex, slice) else COUNTS[[sex]]
    for axis, chosen in ((1, age), (2, geo), (3, job)):
        truth = truth[(slice(None),) * axis + (chosen if isinstance(chosen, (slice, list)) else [chosen],)]
    count = quiet.count(where)
    assert count.value == pytest.approx(truth.sum(), abs=1e-6)
    assert len(count) == 1
    assert quiet.count(**where).value == count.value


AREAS = {"north": ["A", "B1"], "south": ["B0", "A1"], "west": [("county", "A0")]}


def test_areas_are_unions_of_places_of_any_level(quiet):
    by_county = COUNTS.sum(axis=(1, 3))
    of_areas = np.stack([by_county[:, [0, 1, 3]].sum(1), by_county[:, [1, 2]].sum(1), by_county[:, 0]])
    counts = quiet.count(area=AREAS, by="sex")
    assert counts.labels == {"area": tuple(AREAS), "sex": ("female", "male")}
    np.testing.assert_allclose(counts.value, of_areas, atol=LOOSE)
    other = quiet.count({"area": AREAS}, by=["sex", "area"])
    np.testing.assert_allclose(other.value, of_areas.T, atol=LOOSE)
    assert quiet.count(area=["B1", "A", "A1"]).value == pytest.approx(of_areas[0].sum())
    assert list(quiet.count(area=AREAS)[["south", "north"]].value) == pytest.approx(of_areas.sum(1)[[1, 0]])
    assert quiet.count(area=AREAS)["south"].value == pytest.approx(of_areas[1].sum())
    assert counts["north", "male"].std_error == pytest.approx(quiet.count(area=AREAS["north"], sex="m").std_error)
    in_state = quiet.count(area=AREAS, state="A")
    assert in_state.labels == {"area": ("north", "south", "west")}
    assert quiet.count(area=AREAS, state="B").labels == {"area": ("north", "south")}
    np.testing.assert_allclose(in_state.value, by_county[:, [0, 1]].sum(0).dot([[1, 0, 1], [1, 1, 0]]), atol=LOOSE)


def test_areas_of_complete_states_use_tables_by_state(quiet):
    """So these need not be shown by county."""
    (piece,) = quiet.count(area=["A"], by="sex")._forms.pieces
    assert TABLES[piece[1]].attributes == ("state", "sex")
    assert quiet.count(area=["A"]).std_error == pytest.approx(quiet.count(state="A").std_error)
    assert quiet.count(area=["A0", "A1"]).std_error == pytest.approx(quiet.count(state="A").std_error)


def test_shares_of_areas_are_among_what_is_possible():
    few = {"one": ["A0"], "two": ["B1", "B2"]}
    release = release_for()
    shares = release.count(area=few, sex="f") / release.count(area=few)
    assert (shares.frame()["high"] <= 1).all()
    assert shares._possible[1].tolist() == [1.0, 1.0]
    assert (release.count(area=few) / release.count())._possible[1].tolist() == [1.0, 1.0]
    other = {"one": ["A1"], "two": ["B1", "B2"]}  # other places with equal names
    assert (release.count(area=few) / release.count(area=other))._possible[1].tolist() == [math.inf] * 2
    assert (release.count(state="A") / release.count(area=["A", "B1"]))._possible[1].tolist() == [1.0]
    assert (release.count(state="A") / release.count(area=few))._possible[1].tolist() == [math.inf] * 2


@pytest.mark.parametrize(
    ("area", "message"),
    [
        ("A0", "release.area-not-a-list"),
        ({"x": {"a": 1}}, "release.area-not-a-list"),
        ([], "release.area-without-places"),
        ({}, "release.areas-without-names"),
        ({3: ["A"]}, "release.areas-without-names"),
        (["A", "C"], "release.unknown-place-of-area"),
        ({"x": ["A"], "y": ["C7"]}, "release.unknown-place-of-area"),
        ([("county", "A")], "release.unknown-place-of-area"),
        ([("tract", "A")], "release.wrong-place-of-area"),
        ([("state", "A", 3)], "release.wrong-place-of-area"),
    ],
)
def test_areas_that_are_none_are_refused(area, message):
    with refused(message):
        release_for().count(area=area)


def test_areas_in_a_line_of_text():
    release = release_for()
    expected = release.count(area=AREAS, sex="f") / release.count(area=["A", "B1"])
    ratio = ask("count(sex='f') / count(area=['A', 'B1'])", release, areas=AREAS)
    np.testing.assert_array_equal(ratio.value, expected.value)
    text = "count(area={'north': ['A', 'B1'], 'south': ['B0', 'A1'], 'west': [('county', 'A0')]}, sex='f')"
    np.testing.assert_array_equal(ask(text, release).value, release.count(area=AREAS, sex="f").value)


def test_areas_are_refused_with_levels_and_where_places_are_not_shown():
    release = release_for()
    with refused("release.repeated-attribute"):
        release.count(area=AREAS, by="county")
    with refused("release.unknown-attribute"):
        release.count(area=["A"], by="area")
    with refused("release.no-record-chosen"):
        release.count(area={"x": ["A0"]}, state="B")
    with refused("release.attributes-not-crossed"):
        release.count(area=["A0"], job="some")
    domain = fn.Domain(a=fn.Hierarchy(["u", "v"], [(7, 7), (7, 8), (8, 9)]), area=fn.Ordered(0, 1))
    release_of_area = released(
        fn.plan(fn.Workload(domain, [fn.table("v", margin=3), fn.table("area", margin=3)])), np.ones((3, 2), dtype=int)
    )
    assert len(release_of_area.count(area=1)) == 1  # an attribute of that name is what it was
    single = fn.Domain(a=domain["a"])
    release_of_area = released(
        fn.plan(fn.Workload(single, [fn.table("v", margin=3), fn.table("u", margin=3)])), np.ones(3, dtype=int)
    )
    with refused("release.ambiguous-place-of-area"):
        release_of_area.count(area=[7])
    assert release_of_area.count(area=[("u", 7)]).std_error == release_of_area.count(u=7).std_error
    none = fn.Domain(b=fn.Ordered(0, 1))
    release_of_area = released(fn.plan(fn.Workload(none, [fn.table("b", margin=3)])), np.ones(2, dtype=int))
    with refused("release.areas-without-hierarchy"):
        release_of_area.count(area=[1])


def test_a_place_that_is_the_only_one_in_another_is_the_same():
    domain = fn.Domain(a=fn.Hierarchy(["u", "v"], [(7, 7), (8, 8), (8, 9)]))
    area_release = released(
        fn.plan(fn.Workload(domain, [fn.table("v", margin=3), fn.table("u", margin=4)])), np.ones(3, dtype=int)
    )
    assert area_release.count(area=[7]).std_error == pytest.approx(area_release.count(u=7).std_error)
    with refused("release.ambiguous-place-of-area"):
        area_release.count(area=[8])


def test_areas_from_a_file(tmp_path):
    file = tmp_path / "areas.csv"
    file.write_text("district,place\nnorth,A\n\nsouth,B0\nnorth,B1\n", encoding="utf-8-sig")
    assert read_areas(file, PEOPLE) == {"north": ["A", "B1"], "south": ["B0"]}
    file.write_text("district,county\nnorth,A0\nnorth,A\n")
    areas = read_areas(file, PEOPLE)
    assert areas == {"north": [("county", "A0"), ("county", "A")]}
    with refused("release.unknown-place-of-area"):
        release_for().count(area=areas)
    # an attribute that is no level has no places
    file.write_text("district,job\nnorth,A\n")
    assert read_areas(file, PEOPLE) == {"north": ["A"]}
    numbers = fn.Domain(a=fn.Hierarchy(["u", "v"], [(7, "7"), (7, "x")]))
    file.write_text("a,v\nnorth,7\n")
    assert read_areas(file, numbers) == {"north": [("v", "7")]}
    file.write_text("a,u\nnorth,7\n")
    assert read_areas(file, numbers) == {"north": [("u", 7)]}
    file.write_text("a,place\nnorth,7\n")
    with refused("release.ambiguous-code-of-areas"):
        read_areas(file, numbers)
    for content, message in (
        ("", "release.wrong-columns-of-areas"),
        ("a,b,c\n", "release.wrong-columns-of-areas"),
        ("a,b\nnorth\n", "release.incomplete-row-of-areas"),
        ("a,b\n,A\n", "release.incomplete-row-of-areas"),
    ):
        file.write_text(content)
        with refused(message):
            read_areas(file, PEOPLE)
    with refused("release.csv-file-unreadable"):
        read_areas(tmp_path / "none.csv", PEOPLE)
    file.write_bytes(b"\xff\xfe\x00")
    with refused("release.csv-file-unreadable"):
        read_areas(file, PEOPLE)


def test_numbers_are_broken_down_by_values_and_levels(quiet):
    counts = quiet.count(by=["sex", "state"])
    assert counts.labels == {"sex": ("female", "male"), "state": ("A", "B")}
    totals = COUNTS.sum(axis=(1, 3))
    np.testing.assert_allclose(counts.value, np.stack([totals[:, :2].sum(axis=1), totals[:, 2:].sum(axis=1)], 1))
    ages = quiet.count(by="age")
    assert ages.labels["age"][-1] == "unknown"
    np.testing.assert_allclose(ages.value, COUNTS.sum(axis=(0, 2, 3)), atol=1e-6)
    with_age = quiet.count(by=("age", "sex"))  # only cumulated: those without an age are left out
    assert with_age.labels["age"] == tuple(range(10))
    np.testing.assert_allclose(with_age.value, COUNTS.sum(axis=(2, 3))[:, :10].T, atol=1e-6)
    in_b = quiet.count(by="county", state="B", county=["B2", "A0", "B0"])
    assert in_b.labels == {"county": ("B0", "B2")}
    np.testing.assert_allclose(in_b.value, COUNTS.sum(axis=(0, 1, 3))[[2, 4]], atol=1e-6)
    assert quiet.count(by="age", age=(3, 4)).labels == {"age": (3, 4)}
    assert (counts.universe, in_b.universe) == ("all records", "records with county B0, B2")


@pytest.mark.parametrize("privacy", ["gaussian", "pure"])
def test_sums_of_tables_are_computed_with_as_counts_are(privacy):
    release = release_for(privacy)
    women, everyone = release.sum("sex by job", sex="female"), release.count()
    same, confidence = release.count(sex="f"), release.sum("sex by job", confidence=0.5)
    for total, estimate in (
        (women / everyone, same / everyone),
        (everyone / women, everyone / same),
        (women / release.sum("sex by job"), same / everyone),
        (women - everyone, same - everyone),
        (everyone - women, everyone - same),
        (women + women, 2 * same),
        (sum([women, women]), same + same),
        (np.float64(3) * women / 2, 1.5 * same),
        (women * 2, same * 2),
        (-women, -same),
        (release.estimate({"sex by job": np.eye(2, 3)}) - women, release.estimate({"sex by job": np.eye(2, 3)}) - same),
    ):
        assert total.value == pytest.approx(estimate.value, abs=1e-6)
        assert total.interval() == pytest.approx(estimate.interval(), rel=1e-3, abs=1e-3)
    assert (confidence.estimates.confidence, (-confidence).confidence) == (0.5, 0.5)
    assert women.estimates.frame()["moe"].item() == women.moe
    assert (women / everyone).interval(1 - 1e-9)[0] >= 0  # counts are not negative


def test_sums_of_tables_are_refused_what_estimates_are():
    release = release_for()
    one, numbers = release.sum("sex by job"), release.count(by="sex")
    for compute in (
        lambda: one * numbers,
        lambda: numbers * one,
        lambda: one + 1,
        lambda: 1 - one,
        lambda: 1 / one,
        lambda: one / 0,
        lambda: one**2,
        lambda: one + release_for("pure").count(),
        lambda: fn.Estimate(1.0, 1.0, 2.0, 0.95) / numbers,
        lambda: numbers - fn.Estimate(1.0, 1.0, 2.0, 0.95),
    ):
        with refused(
            "release.different-releases-added",
            "release.division-by-zero",
            "release.estimate-without-release",
            "release.number-added-to-estimate",
            "release.number-divided-by-estimate",
            "release.power-of-estimates",
            "release.product-of-estimates",
        ):
            compute()
    with pytest.raises(TypeError, match="unsupported"):
        one / "records"


def test_which_sums_of_tables_are_counts_is_known():
    """A ratio may be negative if its sums have mixed signs or are not counts."""
    release = answered(zoo_plan("amounts"))
    of_counts = {"sex by age cumulative": np.eye(2, 4), "sex by pay mean": np.ones((2, 2))}
    assert release.estimate(of_counts).estimates._counts
    for other in ({"sex by pay sum": np.ones((2, 1))}, {"sex by age cumulative": -np.eye(2, 4)}):
        assert not release.estimate(of_counts | other).estimates._counts


@pytest.mark.parametrize("privacy", ["gaussian", "pure"])
def test_any_table_that_shows_the_attributes_gives_the_same_estimate(privacy):
    """The women, from four tables: value and error."""
    release = release_for(privacy)
    women = release.count(sex="f")
    for name in ("state by sex", "county by sex", "sex by job"):
        total = release.sum(name, sex="female")
        assert total.value == pytest.approx(float(women.value), abs=1e-6)
        assert total.std_error == pytest.approx(float(women.std_error), rel=LOOSE)
        assert total.moe == pytest.approx(float(women.moe()), rel=1e-3 if privacy == "pure" else LOOSE)
    women_in_b = release.count(sex="f", state="B")
    table = release["state by sex"]
    row = table[(table["state"] == "B") & (table["sex"] == "female")].iloc[0]
    assert [women_in_b.value, women_in_b.std_error] == pytest.approx([row["value"], row["std_error"]], rel=LOOSE)


@pytest.mark.parametrize("privacy", ["gaussian", "pure"])
def test_a_frame_is_that_of_the_table(privacy):
    release = release_for(privacy)
    frame, table = release.count(by=["sex", "job"]).frame(), release["sex by job"]
    assert list(frame.columns) == list(table.columns)
    assert frame[["sex", "job"]].equals(table[["sex", "job"]])
    np.testing.assert_allclose(frame["value"], table["value"], atol=1e-6)
    np.testing.assert_allclose(frame["moe"], table["moe"], rtol=1e-3 if privacy == "pure" else LOOSE)


def test_numbers_are_printed_with_their_margins(monkeypatch):
    """A console shows what `fitnoise ask` shows: a number and its margin or interval, row by row; of many the first."""
    release = release_for()
    one = release.count()
    value, moe = float(one.value), float(one.moe())
    assert str(one) == repr(one) == f"<1 estimate: {value:,.1f} ± {moe:.4g} at 95 %>"
    ratio = release.count(sex="f") / one
    low, high = ratio.interval()
    assert str(ratio) == f"<1 ratio: {ratio.value:.6g} from {low:.6g} to {high:.6g} at 95 %>"
    compared = {
        "1 difference of ratios": ratio - release.count(sex="m") / release.count(sex="f"),
        "1 number made of ratios": ratio + ratio * ratio,
        "1 quantile at 0.5": release.quantile("age", 0.5),
    }
    for summary, number in compared.items():
        low, high = number.interval()
        assert (number.summary, len(str(number).splitlines())) == (summary, 1)
        assert (
            f" from {TERMINAL.kind(ValueKind.NUMBER, low)} to {TERMINAL.kind(ValueKind.NUMBER, high)} at 95 %>"
            in str(number)
        )
    head, *rows = str(release.count(by=("sex", "age"))).splitlines()
    assert head == f"{len(rows) - 1} estimates by sex, age, each interval at 95 %:"
    frame = release.count(by=("sex", "age")).frame()
    expected = {
        "sex": frame["sex"].tolist(),
        "age": [str(x) for x in frame["age"]],
        "value": [f"{x:,.1f}" for x in frame["value"]],
        "standard error": [f"{x:.4g}" for x in frame["std_error"]],
        "margin ±": [f"{x:.4g}" for x in frame["moe"]],
    }
    assert terminal_columns(rows, expected) == expected
    none = release.count(sex="f") - release.count(sex="f")
    assert "–" in str(one / none)
    monkeypatch.setattr(labelled_numbers, "ROWS_PRINTED", 2)
    assert str(release.count(by=("sex", "age"))).splitlines() == [
        head,
        *rows[:3],
        f"… {len(rows) - 3} more: see frame()",
    ]
    monkeypatch.setattr(labelled_numbers, "MAX_PRINTED", 3)
    assert repr(release.count(by=("sex", "age"))) == f"<{len(rows) - 1} estimates by sex, age: see frame()>"


def test_numbers_without_an_interval_are_printed_with_the_reason():
    release = release_for()
    mixed = fn.combine(release, same_records=True).count() - release.count()
    assert str(mixed).startswith("<1 estimate: ")
    with pytest.raises(ReleaseError) as caught:
        mixed.frame()
    assert str(mixed) == f"<1 estimate: {caught.value}>"


def test_covariances_are_those_of_estimates_of_sums():
    counts = release_for().count(by=["state", "sex"])
    matrix = counts.covariance()
    np.testing.assert_allclose(np.sqrt(matrix.diagonal()).reshape(2, 2), counts.std_error, rtol=EXACT)
    np.testing.assert_allclose(matrix.sum(), release_for().count().std_error ** 2, rtol=LOOSE)
    one, other = counts["A", "female"], counts["B", "male"]
    assert (one - other).std_error ** 2 == pytest.approx(matrix[0, 0] + matrix[3, 3] - 2 * matrix[0, 3])
    assert (one - one).std_error == 0
    with refused("release.too-many-covariances"):
        Estimates(Forms(2500, {}), RowLabels({"x": tuple(range(2500))}, {"x": "x"}), 0.95).covariance()


def test_estimates_are_added_and_multiplied():
    release = release_for()
    women, men, all_ = (release.count(by="state", **w) for w in ({"sex": "f"}, {"sex": "m"}, {}))
    np.testing.assert_allclose((women + men).value, all_.value)
    np.testing.assert_allclose((women + men).std_error, all_.std_error, rtol=LOOSE)
    np.testing.assert_allclose((women + men - all_).std_error, 0, atol=1e-5)
    np.testing.assert_allclose((-2 * women / 4).value, -women.value / 2)
    np.testing.assert_allclose((women * np.float64(3)).std_error, 3 * women.std_error)
    both = release.count(by=["job"]) - women  # all with all
    assert list(both.labels) == ["job", "state"]
    assert both.value[2, 1] == pytest.approx(release.count(job="many").value - women["B"].value)
    turned = release.count(by=["sex", "state"]) - release.count(by=["state", "sex"])
    np.testing.assert_allclose(turned.value, 0, atol=1e-9)
    picked = release.count(by=["sex", "state"])["male", ["B", "A"]]
    assert picked.labels == {"state": ("B", "A")}
    np.testing.assert_allclose(picked.value, men.value[::-1])
    assert picked.summary == "2 estimates by state"
    assert release.count().summary == "1 estimate"


def test_simultaneous_intervals_of_many_hold():
    counts = release_for().count(by=["state", "sex"])
    np.testing.assert_allclose(counts.moe(0.9), z_score(0.9) * counts.std_error)
    np.testing.assert_allclose(counts.moe(0.9, simultaneous=True), z_score(0.9 ** (1 / 4)) * counts.std_error)
    low, high = counts.interval(0.9)
    np.testing.assert_allclose(high - low, 2 * counts.moe(0.9))
    pure = release_for("pure").count(by=["state", "sex"])
    np.testing.assert_allclose(pure.moe(0.9, simultaneous=True), pure.moe(1 - 0.1 / 4))
    assert counts["A", "male"].moe(0.9, simultaneous=True) == pytest.approx(counts["A", "male"].moe(0.9))


REFUSED = [
    ({"height": 3}, None, "release.unknown-attribute"),
    ({}, ["height"], "release.unknown-attribute"),
    ({"sex": "x"}, None, "release.wrong-selection"),
    ({"age": (5, 2)}, None, "release.wrong-selection"),
    ({"age": (5, "unknown")}, None, "release.wrong-selection"),
    ({"age": (1, 2, 3)}, None, "release.wrong-selection"),
    ({"sex": {"first": "f", "last": "m"}}, None, "release.wrong-selection"),
    ({"job": "some", "age": 3}, None, "release.attributes-not-crossed"),
    ({"age": "unknown", "sex": "f"}, None, "release.rows-do-not-add-up"),
    ({}, ["state", "county"], "release.repeated-attribute"),
    ({}, ["sex", "sex"], "release.repeated-attribute"),
    ({"state": "A", "county": "B1"}, None, "release.no-record-chosen"),
    ({"sex": []}, None, "release.no-record-chosen"),
    ({"age": {"values": []}}, None, "release.no-record-chosen"),
    ({"sex": {"f": 1}}, None, "release.wrong-selection"),
]


@pytest.mark.parametrize(("where", "attributes", "code"), REFUSED)
def test_what_no_table_shows_is_refused(where, attributes, code):
    with refused(code):
        release_for().count(where, by=attributes)


def test_an_estimate_prints_its_number_and_margin():
    numbers = release_for().count(by="state")
    estimate = numbers["A"].to_estimate(0.99)
    assert str(fn.Estimate(1234.5678, 1.0, 20.4, 0.99)) == "1,234.6 ± 20.4 at 99 %"
    assert re.fullmatch(r"-?[0-9,]+(\.[0-9])? ± [0-9.]+ at 99 %", str(estimate)), str(estimate)
    assert numbers.interval(0.99)[1][0] == pytest.approx(estimate.value + estimate.moe)


def test_what_cannot_be_computed_is_refused():
    release = release_for()
    by_state = release.count(by="state")
    for code, wrong in [
        ("release.wrong-count-of-labels", lambda: by_state["A", "B"]),
        ("release.unknown-label-of-numbers", lambda: by_state["C"]),
        ("release.different-labels", lambda: by_state - release.count(by="state", state="A")),
        ("release.two-levels-compared", lambda: by_state - release.count(by="county")),
        ("release.division-by-zero", lambda: by_state / 0),
        ("release.factor-not-finite", lambda: by_state * math.nan),
        ("release.factor-not-finite", lambda: by_state * 10**400),
        ("release.factor-not-finite", lambda: by_state / 10**5000),
        ("release.more-than-one-number", by_state.to_estimate),
        ("release.different-releases-added", lambda: by_state + released(plan(), COUNTS).count(by="state")),
    ]:
        with refused(code):
            wrong()
    with refused("workload.confidence-out-of-range"):
        by_state.moe(95)
    for wrong in (lambda: by_state + "x", lambda: by_state - "x", lambda: by_state * True, lambda: by_state / None):
        with pytest.raises(TypeError):
            wrong()


def test_three_shown_in_pairs_only_and_groups_are_refused_by_name():
    domain = fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 1), c=fn.Ordered(0, 5), d=fn.Ordered(0, 1))
    groups = {"c": {"low": [0, 1], "middle": [2, 3], "any": [0, 5], "odd": {"values": [1, 3, 5]}}}
    tables = [fn.all_tables(2, ["a", "b", "d"], margin=3), fn.table(groups=groups, margin=3)]
    release = released(fn.plan(fn.Workload(domain, tables)), np.arange(48).reshape(2, 2, 6, 2))
    with refused("release.table-of-all-missing"):
        release.count(by=["a", "b", "d"])
    with refused("release.rows-do-not-add-up"):
        release.count(c=2)
    frame = release["c groups"]["value"]
    assert release.count(c=(0, 1)).value == pytest.approx(frame[0])
    assert release.count(c=(0, 3)).value == pytest.approx(frame[0] + frame[1])
    assert release.count(c=(4, 5)).value == pytest.approx(frame[2] - frame[1] - frame[0])  # the rest
    assert release.count(a=1).value == pytest.approx(release.sum("a by b", a=1).value)
    with refused("release.unknown-attribute"):
        release.count(e=0)


def test_an_attribute_of_no_table_is_named():
    domain = fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 1))
    release = released(fn.plan(fn.Workload(domain, [fn.table("a", margin=3)])), np.ones((2, 2), dtype=int))
    with refused("release.attribute-not-shown"):
        release.count(b=1)


# --- ratios ---------------------------------------------------------------------------------------------


class KnownLaw:
    """A law of one 2×2 covariance for every row, or of sums of Laplace noise."""

    def __init__(self, law, factors=None):
        self.law, self.factors = law, factors

    def __getattr__(self, name):
        return getattr(self.law, name)


class Joint:
    """Normal noise of given covariances, (J, 2, 2)."""

    normal, slack = True, 0.0

    def __init__(self, covariances):
        self.covariances = covariances

    def half_widths(self, factors, confidence):
        return z_score(confidence) * np.sqrt(np.einsum("ji,jik,jk->j", factors, self.covariances, factors))


class Unnamed(Joint):
    """A number not known to be normal has intervals from bisection."""

    normal = False


COVARIANCE = np.array([[7.65**2, 0.47 * 7.65**2], [0.47 * 7.65**2, 10.52**2]])
FINITE = {"allow_nan": False, "allow_infinity": False}


@given(
    a=st.floats(-60, 60, **FINITE),
    b=st.floats(-60, 60, **FINITE),
    possible=st.sampled_from([(0.0, 1.0), (0.0, math.inf), (-math.inf, math.inf), (-2.0, 3.0)]),
    correlation=st.floats(-0.99, 0.99),
    scale=st.sampled_from([1e-3, 1.0, 1e4]),
)
@settings(deadline=None, max_examples=300)
def test_an_interval_of_a_ratio_holds_what_is_not_rejected_and_no_more(a, b, possible, correlation, scale):
    """Every candidate on a fine grid is in the interval where it is not rejected, and the ends are not rejected."""
    sd = np.array([7.0 * scale, 10.0])
    v = np.outer(sd, sd) * np.array([[1, correlation], [correlation, 1]])
    for noise_law in (Joint(v[None]), Unnamed(v[None])):
        possible_here = tuple(np.array([x * scale if abs(x) > 1 else x]) for x in possible)
        values = np.array([a * scale]), np.array([b])
        low, high, is_bounded = (x[0] for x in inverted(noise_law, values, possible_here, 0.95))
        assert possible_here[0] <= low <= high <= possible_here[1]
        assert is_bounded == (abs(b) > z_score(0.95) * 10)

        def excess(r, values=values, noise_law=noise_law):
            factors = np.stack([np.ones_like(r), -r], axis=1)
            width = np.sqrt(np.einsum("ji,ik,jk->j", factors, v, factors)) * z_score(0.95)
            return np.abs(values[0] - r * values[1]) - width

        grid = scale * np.tan(np.linspace(-1.57, 1.57, 4001))
        grid = grid[(grid >= possible_here[0]) & (grid <= possible_here[1])]
        inside = grid[excess(grid) <= 0]
        slack = 1e-7 * (1 + np.abs(inside))
        assert ((inside >= low - slack) & (inside <= high + slack)).all()
        for end in (low, high):
            if len(inside) and np.isfinite(end):
                reach = 1e-5 * (abs(a * scale) + abs(end * b) + np.sqrt(v[0, 0] + end**2 * v[1, 1]))
                assert excess(np.array([end]))[0] <= reach


def test_both_ways_to_an_interval_agree(rng):
    values = rng.normal(0, 40, (2, 4000))
    v = np.broadcast_to(COVARIANCE, (4000, 2, 2))
    for possible in ((0.0, 1.0), (0.0, math.inf), (-math.inf, math.inf)):
        ends = tuple(np.full(4000, x) for x in possible)
        closed, searched = (inverted(law, tuple(values), ends, 0.95) for law in (Joint(v), Unnamed(v)))
        np.testing.assert_array_equal(closed[2], searched[2])
        for one, other in zip(closed[:2], searched[:2], strict=True):
            np.testing.assert_allclose(np.arctan(one), np.arctan(other), atol=1e-9)


HARD = [(650, 1600), (30, 200), (3, 40), (0, 40), (3, 12), (0, 3), (1, 1)]


@pytest.mark.parametrize(("a", "b"), HARD)
def test_intervals_of_shares_hold_for_any_counts(a, b, rng):
    """40,000 draws of Gaussian noise: detects a coverage of 94.4 %."""
    draws = rng.multivariate_normal([a, b], COVARIANCE, 40_000)
    ones = np.ones(40_000)
    law = Joint(np.broadcast_to(COVARIANCE, (40_000, 2, 2)))
    for possible in ((0 * ones, ones), (-math.inf * ones, math.inf * ones)):
        low, high, _ = inverted(law, tuple(draws.T), possible, 0.95)
        inside = (low <= a / b) & (a / b <= high)
        # hulls hold more than what is not rejected, and what is cut to the possible no less
        assert stats.binom.cdf(inside.sum(), 40_000, 0.95) > SIGNIFICANCE
        if b > 100:
            assert as_often_as(inside[:, None], 0.95)


@pytest.mark.parametrize("n", [300, pytest.param(1500, marks=pytest.mark.slow)])
def test_intervals_of_shares_of_a_pure_release_hold(n, rng):
    """Draws of the noise of a pure release, a share at a time: 1,500 detect a coverage of 92.2 %."""
    release = release_for("pure")
    ratio = release.count(sex="f", state="A") / release.count(state="A")
    law = ratio._law
    assert isinstance(law, LaplaceSums)
    (group,) = law._identical_laws
    ((columns, counts),), (t,) = group.sums, law._scales
    coefficients = np.repeat(columns, counts.astype(int), axis=1)
    p = -math.expm1(-1 / t)
    rows = KnownLaw(law)
    rows.__dict__["covariances"] = np.broadcast_to(law.covariances, (n, 2, 2))
    rows.__dict__["half_widths"] = lambda f, gamma: LaplaceSums.half_widths(repeated, f, gamma)
    repeated = LaplaceSums(law.forms)
    repeated.__dict__["_identical_laws"] = [replace(group, rows=np.arange(n))]
    for a, b in ((300, 900), (3, 9), (0, 6)):
        draws = (rng.geometric(p, (n, coefficients.shape[1])) - rng.geometric(p, (n, coefficients.shape[1]))).astype(
            float
        )
        values = tuple((np.array([a, b]) + draws @ coefficients.T).T)
        low, high, _ = inverted(rows, values, (np.zeros(n), np.ones(n)), 0.95)
        inside = (low <= a / b) & (a / b <= high)
        assert stats.binom.cdf(inside.sum(), n, 0.95) > SIGNIFICANCE
        if a == 300:
            assert as_often_as(inside[:, None], 0.95, slack=0.002)


def test_shares_are_from_0_to_1_and_other_ratios_of_counts_not_negative():
    release = release_for()
    women = release.count(by="state", sex="f")
    cases = [
        (women / release.count(by="state"), 1.0),
        (women / release.count(), 1.0),
        (women["A"] / release.count(state="A"), 1.0),
        (women["A"] / release.count(state=["A", "B"]), 1.0),
        (release.count(by="county") / release.count(), 1.0),
        (women[["A"]] / release.count(by="state")[["A"]], 1.0),
        (release.count(by="state") / women, math.inf),
        (women / release.count(sex="m", by="state"), math.inf),
        (women["A"] / release.count(state="B"), math.inf),
        (women / (women + release.count(by="state", sex="m")), math.inf),
        (women / released(plan(), COUNTS).count(by="state"), math.inf),
        (3 * women / release.count(by="state"), math.inf),
    ]
    for ratio, high in cases:
        assert (ratio._possible[0] == 0).all()
        assert (ratio._possible[1] == high).all()
    change = (women["A"] - women["B"]) / women["A"]
    assert change._possible[0] == [-math.inf]


def test_ratios_are_rates_and_growth():
    release, later = release_for(), released(plan(), COUNTS + 3)
    ratio = release.count(by="state", sex="f") / release.count(by="state")
    frame = ratio.frame()
    assert list(frame.columns) == ["state", "value", "low", "high", "is_significant"]
    assert frame["is_significant"].all()
    assert (frame["low"] < frame["value"]).all()
    assert (frame["value"] < frame["high"]).all()
    wider = ratio.frame(simultaneous=True)
    assert (wider["low"] < frame["low"]).all()
    np.testing.assert_allclose((1000 * ratio).frame()[["value", "low", "high"]], 1000 * frame[["value", "low", "high"]])
    turned = (1 - ratio / 2).frame()
    np.testing.assert_allclose(turned["low"], 1 - frame["high"] / 2)
    np.testing.assert_allclose((-ratio).frame()["value"], -frame["value"])
    np.testing.assert_allclose((ratio + 1).value - 1, ratio.value)
    np.testing.assert_allclose((2 + ratio * 3).value, 2 + 3 * ratio.value)
    one = ratio["A"]
    assert one.is_significant
    assert one.interval() == pytest.approx((frame["low"][0], frame["high"][0]))
    assert ratio.summary == "2 ratios by state"
    assert len(one) == 1
    growth = later.count() / release.count() - 1
    covariance = growth._law.covariances[0]
    assert covariance[0, 1] == 0  # another noise
    assert growth.interval(0.99)[0] < growth.value < growth.interval(0.99)[1]
    same = release.count() / fn.Release(release.plan, release.answers).count()
    assert same.interval() == pytest.approx((1, 1))  # the same answers, read twice
    rate = 1000 * release.count(sex="f") / 81_300
    assert rate.value == pytest.approx(float(release.count(sex="f").value) / 81.3)


def test_a_denominator_that_may_be_zero_leaves_rays():
    domain = fn.Domain(a=fn.Ordered(0, 1), b=fn.Ordered(0, 1))
    release = released(fn.plan(fn.Workload(domain, [fn.table("a", "b", margin=50)])), np.ones((2, 2), dtype=int))
    cells = release.count(by=["a", "b"])
    wide = cells[0, 0] / cells[1, 1]
    low, high = wide.interval(0.999999)
    assert (low, high) == (0, math.inf)
    assert not (cells[0, 0] / (cells[1, 1] - cells[1, 1])).is_significant
    assert math.isnan((cells[0, 0] / (cells[1, 1] - cells[1, 1])).value)


def test_noises_of_different_kinds_share_what_may_be_missed():
    """Half each: what is missed is missed by the one or by the other."""
    one, other = (release_for(kind).count(by="state") for kind in ("gaussian", "pure"))
    assert isinstance(law(one._forms), Normal)
    np.testing.assert_allclose((one - other).moe(0.9), one.moe(0.95) + other.moe(0.95), rtol=1e-12)
    np.testing.assert_allclose((one - 3 * other).std_error, np.hypot(one.std_error, 3 * other.std_error))
    growth = one / other
    for low, high, a, b in zip(*growth.interval(0.9), one.value, other.value, strict=True):
        for r, inside in ((low, True), (high, True), (low - 1e-3, False), (high + 1e-3, False)):
            width = one.moe(0.95)[0] + abs(r) * other.moe(0.95)[0]  # both states have equal designs
            assert (abs(a - r * b) <= 1.01 * width) if inside else (abs(a - r * b) > width)


def test_simultaneous_intervals_hold_at_once(rng):
    """Šidák for correlated Gaussian sums, 20,000 draws: all hold as often as promised, and not much more often."""
    counts = release_for().count(by=["county", "sex"])
    errors = rng.multivariate_normal(np.zeros(len(counts)), counts.covariance(), 20_000)
    held = (np.abs(errors) <= np.ravel(counts.moe(0.95, simultaneous=True))).all(axis=1)
    assert stats.binom.cdf(held.sum(), 20_000, 0.95) > SIGNIFICANCE
    assert held.mean() < 0.97
