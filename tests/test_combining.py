"""Several releases of the same records as one estimate."""

import json
import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import fitnoise as fn
from dense import joined, rebuilt_releases, workload_matrix
from fitnoise.errors import ReleaseError
from fitnoise.kernel import noise
from fitnoise.mechanisms.gaussian import planning
from fitnoise.messages import english
from fitnoise.reading import combining
from fitnoise.reading.linear_forms import Forms
from fitnoise.request.targets import z_score
from fitnoise.solving import sectors
from laws.plans import planned_quickly
from laws.releases import by_command, released
from refused import refused
from tolerances import EXACT, LOOSE, as_often_as

pytestmark = pytest.mark.usefixtures("one_duckdb")

DOMAIN = fn.Domain(
    sex=fn.Categorical({"f": "female", "m": "male"}),
    age=fn.Ordered(0, 4, missing={"unknown": [-9]}, if_missing="unknown"),
    geo=fn.Hierarchy(["state", "county"], [(s, f"{s}{i}") for s in "AB" for i in range(2)]),
    job=fn.Categorical(["none", "some", "many"]),
)
COUNTS = np.random.default_rng(5).integers(0, 9, DOMAIN.shape)
TABLES = {
    "one": [fn.table("sex", "job", margin=3), fn.table("state", "sex", margin=5), fn.table("sex", "age", margin=4)],
    "two": [fn.table("job", "county", margin=4), fn.table("job", "sex", margin=7), fn.table("sex", "job", margin=7)],
    "at most": [fn.table("sex", cumulative="age", margin=4), fn.table("state", margin=3)],
    "by value": [fn.table("sex", "job", margin=fn.ByAttribute("job", {"none": 2.0, "some": 3.0, "many": 9.0}))],
    "family": [fn.all_tables(2, ["sex", "job", "county"], margin=4)],
}


def planned(name, **options):
    make_plan = fn.plan if options.get("privacy") != "pure" else lambda w, privacy: planned_quickly(w)
    return make_plan(fn.Workload(DOMAIN, TABLES[name]), **options)


@cache
def release_of(name, privacy=None):
    return released(planned(name, **({} if privacy is None else {"privacy": privacy})), COUNTS)


def combine_same(*releases):
    return fn.combine(*releases, same_records=True)


def numbers(source):
    """All published numbers of a source as forms, tables in order."""
    workload = source.part.publication.workload
    forms = []
    for name in workload.tables.names:
        ((key, row),) = source.form(name, np.ones(workload[name].shape(workload.domain))).pieces.items()
        n = row.nnz
        forms.append(Forms(n, {key: sp.csr_array((np.ones(n), (range(n), row.indices)), shape=(n, row.shape[1]))}))
    return joined(forms)


def covariances(forms):
    i, j = np.divmod(np.arange(forms.length**2), forms.length)
    return forms.take(i).covariances(forms.take(j)).reshape(forms.length, -1)


def check(*releases):
    """Against generalised least squares over all that is published, written out."""
    rows, values = [], []
    combined = combine_same(*releases)
    widen = {n: combined._domain[n].size for n in combined._domain}
    for source in (s for r in releases for s in r._sources):
        workload = source.part.publication.workload
        forms = numbers(source)
        variances, vectors = np.linalg.eigh(covariances(forms))
        kept_axes = variances > 1e-11 * variances.max()
        whitened = (vectors[:, kept_axes] / np.sqrt(variances[kept_axes])).T
        wide = workload_matrix(fn.Workload(combined._domain, list(workload.tables))).astype(float)
        rows.append(whitened @ wide)
        values.append(whitened @ forms.values())
    assert wide.shape[1] == math.prod(widen.values())
    best = workload_matrix(combined._workload) @ np.linalg.pinv(np.concatenate(rows), rcond=1e-11)
    expected, covariance = best @ np.concatenate(values), best @ best.T
    stated = covariances(numbers(combined._combined))
    np.testing.assert_allclose(stated, covariance, atol=EXACT * covariance.max())
    means = {t.name for t in combined._workload.tables if t.averaged is not None}
    frames = [combined.counts_at_ends(name) if name in means else combined[name] for name in combined]
    value, error = (np.concatenate([f[column] for f in frames]) for column in ("value", "std_error"))
    np.testing.assert_allclose(value, expected, atol=LOOSE * np.abs(expected).max())
    np.testing.assert_allclose(error, np.sqrt(covariance.diagonal()), rtol=LOOSE)
    return combined


PAIRS = [("one", "two"), ("one", "at most"), ("two", "by value"), ("family", "at most"), ("one",)]


@pytest.mark.parametrize("names", PAIRS, ids=" and ".join)
def test_all_is_as_by_dense_least_squares(names):
    check(*map(release_of, names))


def test_pure_releases_count_by_their_variance():
    check(release_of("one"), release_of("two", "pure"), release_of("at most", "pure"))


def test_releases_planned_by_axis_and_by_level_are_combined(monkeypatch):
    domain = fn.Domain(a=fn.Ordered(0, 3), b=fn.Ordered(0, 1), c=fn.Ordered(0, 2))
    tables = [fn.table("a", "b", cumulative="c", margin=3), fn.table(cumulative=["a", "c"], margin=4)]
    with monkeypatch.context() as here:
        here.setattr(planning, "MAX_DENSE_CELLS", 0)
        here.setattr(planning, "MAX_DENSE_CELLS_SLOW", 0)
        axes = fn.plan(fn.Workload(domain, tables))
    other = fn.plan(fn.Workload(domain, [fn.table("a", "c", margin=5)]))
    assert axes.order.mechanism == "fit-for-use-by-axis"
    check(*(released(p, np.ones(domain.shape, int)) for p in (axes, other)))
    places = fn.Hierarchy(["state", "county"], [("A", "A1"), ("B", "B1"), ("B", "B2"), ("C", "C1")])
    domain = fn.Domain(geo=places, b=fn.Ordered(0, 1))
    with monkeypatch.context() as here:
        here.setattr(planning, "MAX_DENSE_LEAVES", 0)
        here.setattr(planning, "MAX_DENSE_LEAVES_SLOW", 0)
        tree = fn.plan(fn.Workload(domain, [fn.table("state", "b", margin=3), fn.table("county", margin=4)]))
    other = fn.plan(fn.Workload(domain, [fn.table("county", "b", margin=6)]))
    assert tree.order.mechanism == "fit-for-use-by-level"
    check(*(released(p, np.ones(domain.shape, int)) for p in (tree, other)))


def test_parts_further_attributes_and_queries_of_all_cells_are_combined():
    small = fn.Domain(a=fn.Ordered(0, 2), b=fn.Ordered(0, 1))
    also = fn.Publication(fn.Workload(small, [fn.table("a", margin=3)]))
    parts = fn.plan(fn.Publication(fn.Workload(small, [fn.table("a", "b", margin=4)]), further_tables=(also,)))
    matrix = np.array([[1, 1, 0, 0, 2, 0], [0, 1, 1, 1, 0, 0]])
    queries = fn.plan(fn.matrix_workload(matrix, variances=[1.0, 4.0], domain=small))
    check(released(parts, np.ones(small.shape, int)), released(queries, np.ones(small.shape, int)))
    larger = fn.Domain(b=small["b"], c=fn.Ordered(0, 2))
    further = released(fn.plan(fn.Workload(larger, [fn.table("b", "c", margin=3)])), np.ones(larger.shape, int))
    combined = check(released(parts, np.ones(small.shape, int)), further)
    assert list(combined) == ["a by b", "a", "b by c"]
    with refused("release.queries-of-another-domain"):
        combine_same(released(queries, np.ones(small.shape, int)), further)


def test_free_answers_are_combined_with_those_of_the_same_records(tmp_path):
    domain = fn.Domain(a=fn.Ordered(0, 3), b=fn.Ordered(0, 2))
    base = fn.plan(fn.Workload(domain, [fn.table("a", groups={"b": {"low": 0}}, margin=3)]))
    groups = {"b": {"one": 1, "high": [1, 2]}}
    free = fn.plan_free(fn.Workload(domain, [fn.table("a", groups=groups, margin=3)]), base)
    releases = [fn.release(p, np.ones(domain.shape, int), ledger=tmp_path / "ledger.db") for p in (base, free)]
    combined = check(*releases)
    assert combined.count(a=2, b=0).std_error == pytest.approx(releases[0].count(a=2, b=0).std_error)
    assert combined.count(b=2, by="a").std_error.shape == (4,)


def test_releases_of_sums_are_combined():
    """Sums and counts of an amount, whose cells are the ends of its range, with a release that only counts."""
    domain = fn.Domain(a=fn.Ordered(0, 2), pay=fn.Amount(0, 8, step=2), b=fn.Ordered(0, 1))
    people = pd.DataFrame({"a": [0, 1, 1, 2], "b": [0, 0, 1, 1], "pay": [0, 2, 8, 6]})
    sums = [fn.table("a", sum="pay", margin=20), fn.table("a", margin=4)]
    means = [fn.table("a", "b", mean="pay", reference=4, margin=5), fn.table("b", margin=3)]
    one, two = (released(fn.plan(fn.Workload(domain, tables)), people) for tables in (sums, means))
    combined = check(one, two)
    for statistic in (lambda r: r.total("pay", by="a"), lambda r: r.count(by="a")):
        assert (statistic(combined).std_error < np.minimum(statistic(one).std_error, statistic(two).std_error)).all()
    low, high = combined.mean("pay", by="a").interval()
    assert ((low >= 0) & (high <= 8)).all()
    counts_only = released(fn.plan(fn.Workload(domain, [fn.table("a", margin=2)])), people)
    assert check(one, counts_only).total("pay").std_error <= one.total("pay").std_error


def test_errors_never_exceed_separate_ones_and_fall_where_both_have_data():
    one, two = release_of("one"), release_of("two")
    combined = combine_same(one, two)
    for where in ({"sex": "f"}, {"sex": "f", "job": "some"}, {"state": "A"}, {"county": "B1", "job": "many"}):
        separate = []
        for release in (one, two):
            try:
                separate.append(release.count(where).std_error)
            except ReleaseError:
                continue
        assert combined.count(where).std_error < min(separate)
    assert combined["sex by job"].equals(combine_same(one, two)["sex by job"])
    same = combine_same(two, one)
    np.testing.assert_allclose(same.count(by="sex").value, combined.count(by="sex").value)


def test_a_combination_answers_questions_like_a_release(without_noise):
    combined = combine_same(*(released(planned(name), COUNTS) for name in ("one", "two")))
    np.testing.assert_allclose(combined.count(by=["sex", "job"]).value, COUNTS.sum(axis=(1, 2)))
    assert combined.count(state="A", sex="f").value == pytest.approx(COUNTS[0, :, :2].sum())
    with_age = COUNTS[:, :5].sum(axis=(2, 3))
    assert combined.mean("age", by="sex").value == pytest.approx(with_age @ np.arange(5) / with_age.sum(axis=1))
    assert combined.quantile("age", 0.5).value == int(np.argmax(with_age.sum(axis=0).cumsum() * 2 >= with_age.sum()))
    assert list(combined) == ["sex by job", "state by sex", "sex by age", "job by county", "job by sex"]
    assert len(combined) == 5
    assert "job by sex" in combined
    assert "age" not in combined
    assert repr(combined) == (
        "<Combination of 2 releases, 5 tables: "
        "['sex by job', 'state by sex', 'sex by age', 'job by county', 'job by sex']>"
    )
    frame = combined["sex by job"]
    assert list(frame) == ["sex", "sex_code", "job", "value", "std_error", "moe"]
    np.testing.assert_allclose(frame["moe"], z_score(0.95) * frame["std_error"])
    joint = combined.estimate({"sex by job": np.ones((2, 3)), "sex by age": -np.ones((2, 6))})
    assert joint.value == pytest.approx(0, abs=1e-9)
    assert joint.std_error == pytest.approx(0, abs=1e-6)
    with pytest.raises(KeyError, match="no table 'x'"):
        combined["x"]
    with refused("release.coefficients-for-unknown-table"):
        combined.estimate({"x": np.ones(2)})
    with refused("release.attributes-not-crossed"):
        combined.count(age=3, by="county")


def test_tables_of_one_name_that_ask_something_else_are_numbered():
    table_sets = [fn.table("sex", name="t", margin=3)], [fn.table("job", name="T", margin=3)]
    combined = combine_same(*(released(fn.plan(fn.Workload(DOMAIN, tables)), COUNTS) for tables in table_sets))
    assert list(combined) == ["t", "T (2)"]


def test_single_noises_add_up_to_what_is_stated():
    """A combination as one of its releases' numbers: the same value, and the same variance."""
    releases = release_of("one"), release_of("two", "pure"), release_of("at most")
    counts = combine_same(*releases).count(by=["sex", "job"])
    sources = {s: s for r in releases for s in r._sources}
    for row in range(len(counts)):
        back = [sources[s].form(n, x) for s, tables in counts._forms.tensors(row).items() for n, x in tables.items()]
        total = back[0]
        for form in back[1:]:
            total = total.plus(form)
        assert total.values()[0] == pytest.approx(np.ravel(counts.value)[row])
        assert total.covariances(total)[0] == pytest.approx(np.ravel(counts.std_error)[row] ** 2, rel=EXACT)


def draws(plan, count):
    """Errors of many releases of empty data, per table, with the real sampler."""
    s = plan.table_part.strategy
    if plan.loss.epsilon is not None:
        return rebuilt_releases(plan, [noise.discrete_laplace(s.scale, count * n).reshape(count, n) for n in s.lengths])
    samples = [noise.discrete_gaussians(np.tile(g.scales, count), np.tile(g.answers, count)) for g in s.groups]
    return rebuilt_releases(plan, [x.reshape(count, -1) for x in samples])


@pytest.mark.parametrize("count", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("privacy", [None, "pure"], ids=["Gaussian", "pure and Gaussian"])
def test_intervals_hold_as_often_as_they_say(privacy, count):
    """Over many pairs of releases: 20,000 detect a coverage of 94.2 %."""
    releases = release_of("one"), release_of("two", privacy)
    counts = combine_same(*releases).count(by=["sex", "job"])
    errors = {s: draws(r.plan, count) for r in releases for s in r._sources}
    for row in (0, 4):
        made_of = counts._forms.tensors(row)
        off = sum(
            errors[s][n].reshape(count, -1) @ x.ravel() for s, factors in made_of.items() for n, x in factors.items()
        )
        inside = (np.abs(off) <= np.ravel(counts.moe())[row])[:, None]
        assert as_often_as(inside, 0.95) if privacy is None else not as_often_as(inside, 0.9) or inside.mean() > 0.95
        assert np.mean(off**2) == pytest.approx(np.ravel(counts.std_error)[row] ** 2, rel=12 / math.sqrt(count))


def test_shares_and_medians_of_several_kinds_of_noise_have_intervals():
    one = release_of("one"), release_of("two", "pure")
    combined = combine_same(*one)
    ratio = combined.count(sex="f", by="job") / combined.count(by="job")
    low, high = ratio.interval()
    assert ((low < ratio.value) & (ratio.value < high) & (low > 0) & (high < 1)).all()
    ages = combined.quantile("age", 0.5)
    assert ages.interval()[0] <= ages.value <= ages.interval()[1]
    moe, error = combined.count().moe(), combined.count().std_error
    assert z_score(0.95) * error < moe < 2 * z_score(0.975) * error


# --- what is refused ------------------------------------------------------------------------------------


def invented(answer=7, domain=DOMAIN, **options):
    """A release that was never measured."""
    plan = fn.plan(fn.Workload(domain, [fn.table("sex", margin=3)]), **options)
    return fn.Release(plan, [np.full(n, answer) for n in plan.table_part.strategy.lengths])


OTHERS = {
    "another source": ({"source": fn.DataSource("b")}, "release.different-records"),
    "conditions": ({"source": fn.DataSource(where={"country": "SI"})}, "release.different-records"),
    "another unit": ({"unit": fn.PrivacyUnit("person", max_records=2)}, "release.different-records"),
    "left out": ({"source": fn.DataSource(outside_domain="drop")}, "release.different-records"),
    "another attribute": (
        {"domain": fn.Domain({**DOMAIN, "sex": fn.Categorical({"f": "woman", "m": "man"})})},
        "release.attribute-defined-differently",
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_releases_of_other_records_are_compared_never_combined(case):
    options, code = OTHERS[case]
    other = invented(**options)
    with refused(code):
        combine_same(release_of("one"), other)
    assert (release_of("one").count() - other.count()).moe() > 0


def test_persons_whose_records_are_chosen_by_other_attributes_are_not_combined():
    unit = fn.PrivacyUnit("person", 2, id="pid")
    smaller = fn.Domain(sex=DOMAIN["sex"], job=DOMAIN["job"])
    one, two, three = invented(1, unit=unit), invented(2, smaller, unit=unit), invented(3, unit=unit)
    with refused("release.different-records"):
        combine_same(one, two)
    assert combine_same(one, three).count().std_error == pytest.approx(one.count().std_error / math.sqrt(2))


def test_what_is_no_pair_of_releases_is_refused():
    one, two = release_of("one"), release_of("two")
    ages = fn.Domain(age=fn.Ordered(0, 4))
    median = fn.FiniteQuery.median("median", "age", people=50, epsilon=1)
    without_tables = fn.Release(fn.plan(fn.Workload(ages, []), questions=[median]), [], outputs=[0])
    for code, wrong in [
        ("release.same-records-not-stated", lambda: fn.combine(one, two)),
        ("release.combination-of-one-release", lambda: fn.combine(one)),
        ("release.wrong-type", lambda: fn.combine(one, two, same_records="yes")),
        ("release.repeated-release", lambda: combine_same(one, two, one)),
        ("release.wrong-type", lambda: combine_same(one, "two")),
        ("release.combined-without-tables", lambda: combine_same(one, without_tables)),
    ]:
        with refused(code):
            wrong()


def test_a_combination_is_not_compared_with_what_it_is_made_of():
    one, two = release_of("one"), release_of("two")
    combined, overlapping = combine_same(one, two), combine_same(one, release_of("at most"))
    for wrong in (
        (combined.count() - one.count()).moe,
        (combined.count() - one.count()).covariance,
        (combined.count() / two.count()).interval,
        lambda: (combined.count() - overlapping.count()).std_error,
    ):
        with refused("release.combination-with-its-release"):
            wrong()
    with refused("release.different-releases-added"):
        combined.count() + one.count()
    assert (combined.count() - release_of("at most").count()).std_error > 0


def test_too_much_at_once_is_refused(monkeypatch):
    wide = fn.Domain(a=fn.Ordered(0, 199), b=fn.Ordered(0, 199))
    plans = [
        fn.plan(fn.Workload(wide, [fn.table(cumulative=name, margin=m)])) for name, m in (("a", 9), ("b", 9), ("a", 8))
    ]
    *releases, third = [
        fn.Release(p, [np.full(n, i) for n in p.table_part.strategy.lengths]) for i, p in enumerate(plans)
    ]
    with refused("release.too-many-tables-combined") as raised:
        combine_same(*releases)
    assert raised.value.action == "Use the releases one by one."
    with refused("release.too-many-tables-combined") as raised:
        combine_same(*releases, third)
    assert raised.value.action == "Combine fewer releases, or use them one by one."
    with monkeypatch.context() as patch:
        patch.setattr(sectors, "MAX_STRUCTURED_CELLS", 10**6)
        patch.setattr(sectors, "physical_memory", lambda: 10**6)
        with refused("release.too-many-tables-combined") as raised:
            combine_same(*releases)
    assert raised.value.action == "Use the releases one by one, or combine them on a machine with more memory."
    monkeypatch.setattr(combining, "MAX_COMBINED_ROWS", 2)
    with refused("release.too-many-joint-cells"):
        combine_same(release_of("one"), release_of("at most"))


@pytest.mark.parametrize("high", [4_000, 4e9])
def test_counts_with_sums_of_large_amounts_are_combined(high):
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), pay=fn.Amount(0, high, step=high / 4_000))
    people = pd.DataFrame({"sex": ["f", "m"] * 50, "pay": [0.0, high / 2] * 50})
    table_sets = ([fn.table("sex", margin=m), fn.table("sex", sum="pay", margin=m * high)] for m in (5, 6))
    two = [released(fn.plan(fn.Workload(domain, tables)), people) for tables in table_sets]
    both = fn.combine(*two, same_records=True)
    for name in both:
        one, other = (r[name]["std_error"].max() for r in two)
        assert both[name]["std_error"].max() == pytest.approx((one**-2 + other**-2) ** -0.5, rel=1e-4)


# --- on the command line and on disk --------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_on_disk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("combined")
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), state=fn.Categorical(["A", "B", "C"]))
    for i, tables in enumerate(
        ([fn.table("sex", "state", margin=9)], [fn.table("sex", "state", margin=9), fn.table("sex", margin=3)])
    ):
        rebuilt = released(fn.plan(fn.Workload(domain, tables)), np.full(domain.shape, 50))
        rebuilt.write(folder / f"release{i}")
    return folder


def test_releases_are_combined_on_the_command_line(two_on_disk, capsys, tmp_path):
    folders = [str(two_on_disk / f"release{i}") for i in (0, 1)]
    by_command("combine", *folders, "--same-records", "-o", str(tmp_path / "both"), "--json")
    document = json.loads(capsys.readouterr().out)
    both = fn.combine(*map(fn.Release.read, folders), same_records=True)
    assert [t["table"] for t in document["tables"]] == list(both)
    for table in document["tables"]:
        assert table["std_error"] == pytest.approx(both[table["table"]]["std_error"].max())
        assert table["gain"] >= 1 - 1e-9
    assert document["tables"][0]["gain"] > 1.2
    files = sorted(x.name for x in (tmp_path / "both").iterdir())
    assert files == ["combination.json", "sex.csv", "sex_by_state.csv"]
    assert both.document() == json.loads((tmp_path / "both" / "combination.json").read_text(encoding="utf-8"))
    for ending in ("html", "xlsx"):
        by_command("combine", *folders, "--same-records", "-o", str(tmp_path / f"both.{ending}"))
        assert (tmp_path / f"both.{ending}").stat().st_size > 1000
    capsys.readouterr()
    by_command("combine", *folders, "--same-records", "--table", "sex")
    printed = capsys.readouterr()
    assert printed.out == (tmp_path / "both" / "sex.csv").read_text(encoding="utf-8")
    assert printed.err.endswith("\nassumed, not checked: all releases count the same records\n")
    by_command("combine", *folders, "--same-records")
    assert "2 releases as one estimate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "[release.same-records-not-stated]"),
        (["--same-records", "--table", "age"], "[release.unknown-table]"),
        (["--same-records", "-o", "release0/x"], "release"),
        (["--same-records", "-o", "full"], "exists already"),
    ],
)
def test_what_is_not_combined_on_the_command_line(two_on_disk, arguments, message, capsys, monkeypatch):
    monkeypatch.chdir(two_on_disk)
    (two_on_disk / "full").mkdir(exist_ok=True)
    (two_on_disk / "full" / "of").touch()
    by_command("combine", "release0", "release1", *arguments)
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert sorted(x.name for x in two_on_disk.iterdir()) == ["full", "release0", "release1"]


def test_a_combination_that_cannot_be_written_leaves_nothing(two_on_disk, tmp_path, monkeypatch):
    both = fn.combine(*(fn.Release.read(two_on_disk / f"release{i}") for i in (0, 1)), same_records=True)

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with refused("release.place-not-writable"):
        both.write(tmp_path / "both")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def combined(two_on_disk, tmp_path):
    fn.combine(*(fn.Release.read(two_on_disk / f"release{i}") for i in (1, 0)), same_records=True).write(tmp_path / "c")
    return tmp_path / "c"


def test_a_combination_is_verified_with_its_releases(two_on_disk, combined, capsys):
    one, other = (str(two_on_disk / f"release{i}") for i in (0, 1))
    by_command("verify", one, "--combination", str(combined), "--with-release", other)
    output = capsys.readouterr().out
    assert "release1: the dual weights prove the bound" in output
    assert "the person who combined them states" in output
    assert not fn.verify(one, combination=combined).ok  # one of the two is not given
    assert not fn.verify(one, combination=combined, with_releases=[other, other]).ok
    value = fn.combine(*map(fn.Release.read, (one, other)), same_records=True)["sex"]["value"][0]
    away = math.copysign(1, value - first_number(combined / "sex.csv"))  # the number lies between two of six decimals
    for off, same in ((1e-6, True), (3e-6, False)):  # another machine may round the last digit otherwise
        alter(combined / "sex.csv", away * off)
        assert fn.verify(one, combination=combined, with_releases=[other]).ok == same


def first_number(table):
    return float(table.read_text(encoding="utf-8").splitlines()[1].split(",")[1])


def alter(table, off):
    text, number = table.read_text(encoding="utf-8"), first_number(table)
    old_text = text.splitlines()[1].split(",")[1]
    table.write_text(text.replace(old_text, f"{number + off:.6f}", 1), encoding="utf-8")


@pytest.mark.parametrize("what", ["a value", "a label", "another file", "a release", "a table less", "no document"])
def test_what_was_altered_in_a_combination_is_noticed(two_on_disk, combined, what):
    one, other = (two_on_disk / f"release{i}" for i in (0, 1))
    table, document = combined / "sex.csv", combined / "combination.json"
    text = table.read_text(encoding="utf-8")
    if what == "a value":
        alter(table, 1e-4)
    elif what == "a label":
        table.write_text(text.replace("f,", "F,", 1), encoding="utf-8")
    elif what == "another file":
        (combined / "more.csv").write_text("", encoding="utf-8")
    elif what == "no document":
        document.unlink()
    else:
        stated = json.loads(document.read_text(encoding="utf-8"))
        if what == "a release":
            stated["releases"][0]["answers"] = stated["releases"][1]["answers"]
        else:
            stated["tables"].pop()
        document.write_text(json.dumps(stated), encoding="utf-8")
    checks = fn.verify(one, combination=combined, with_releases=[other]).checks
    assert [c.holds for c in checks if english(c.claim).startswith(("the combination", "its tables"))][-1] is False


def test_other_releases_are_verified_only_with_a_combination(two_on_disk):
    with refused("release.other-releases-without-tables"):
        fn.verify(two_on_disk / "release0", with_releases=[two_on_disk / "release1"])
