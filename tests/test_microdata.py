"""Invented records whose tables are close to the integer tables of a release."""

import csv
import hashlib
import itertools
import json
import re
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitnoise as fn
from dense import table_matrix
from fitnoise import data
from fitnoise.messages import COMPLETE_LANGUAGES, english, translator
from fitnoise.reading import microdata as making
from fitnoise.reading.microdata import StatedRecords, document_place, make_records
from fitnoise.reading.parquet import pieces, read
from fitnoise.reading.questions import leaves
from fitnoise.reading.release_files import to_json
from fitnoise.reading.verification import MICRODATA
from fitnoise.solving.invented_records import CountTable, PossibleValues, invent, sort_records
from laws.releases import by_command, measured
from refused import refused
from replayed_noise import Replay
from test_integer_tables import COUNTED, LARGE, noisy
from tolerances import EXACT

WARNING = "These records are invented. Their tables are close to the published tables listed here,"

MANY = 10**6
"""More batches than any search here needs: it ends where it stalls."""


def integer_tables_for(domain, tables, counts, **options):
    """Integer tables of a release with replayed noise."""
    plan = fn.plan(fn.Workload(domain, tables))
    release = fn.Release(plan, measured(plan, np.asarray(counts), Replay(3)).answers[0])
    return fn.make_integer_tables(release, simulations=0, **options)


DOMAIN = fn.Domain(
    sex=fn.Categorical({"f": "female", "m": "male"}),
    age=fn.Ordered(0, 3, missing={"unknown": [-9]}),
    job=fn.Categorical(["none", "some", "many"]),
    region=fn.Categorical([1, 2]),
)
COUNTS = np.random.default_rng(4).poisson(12, DOMAIN.shape)


@cache
def paired(*pairs):
    """Integer tables by pairs of attributes."""
    return integer_tables_for(DOMAIN, [fn.table(*pair, margin=6) for pair in pairs], COUNTS)


ALL_PAIRS = tuple(itertools.combinations(DOMAIN, 2))


def cells_of(frame, domain):
    """Return the number of records in each joint cell of a domain: for attributes that no column shows in the first."""
    total = np.zeros(domain.shape)
    index = []
    for home in domain:
        names = [name for name in frame if name in domain and domain.attribute_of(name) == home]
        if not names:
            index.append(np.zeros(len(frame), dtype=int))
            continue
        name = max(names, key=domain.depth)
        labels = list(map(str, domain[name].values))
        first_leaves = [leaves(domain, name).tolist().index(i) for i in range(len(labels))]
        index.append(np.array([first_leaves[labels.index(str(x))] for x in frame[name]], dtype=int))
    np.add.at(total, tuple(index), 1)
    return total.ravel()


# --- the records ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [x for x in COUNTED if x != "total"])
def test_the_stated_distances_are_those_of_the_records(name):
    """Over the zoo; the matrices that count here share no code with the package."""
    tables = fn.make_integer_tables(noisy(name, "zcdp"), simulations=0)
    frame = fn.microdata(tables, batches=2000, anyway=True)
    document, domain = frame.attrs["microdata"], tables.release.plan.publication.domain
    cells = cells_of(frame, domain)
    assert len(frame) == document["records"]
    outside = []
    names = [table for table in tables if tables.publication(table).workload[table].attributes]
    for row, table in zip(document["tables"], names, strict=True):
        counts = table_matrix(tables.publication(table).workload[table], domain) @ cells
        unbiased, margins = map(np.ravel, tables.unbiased(table))
        for key, target in (("from_integers", tables[table]["value"].to_numpy()), ("from_released", unbiased)):
            off = np.abs(counts - target) / margins
            stated = {"rms": np.sqrt((off**2).mean()), "largest": off.max(), "share_within_1": (off <= 1).mean()}
            assert row[key] == pytest.approx(stated, rel=EXACT, abs=EXACT)
        outside.append(np.abs(counts - tables[table]["value"].to_numpy()) / margins > 1)
    assert document["share_outside_margin"] == pytest.approx(np.concatenate(outside).mean(), rel=EXACT)
    # no order: the records are sorted by the values of their attributes
    values = make_records(tables, 1, document["batches"], anyway=True).values
    assert (values == sort_records(np.random.default_rng(1).permutation(values.T).T)).all()


@pytest.mark.parametrize("name", LARGE)
def test_tables_of_many_cells_have_records(name):
    document = fn.microdata(fn.make_integer_tables(noisy(name, "zcdp"), simulations=0)).attrs["microdata"]
    assert document["share_outside_margin"] == 0


def test_one_table_with_all_attributes_is_expanded_exactly():
    tables = integer_tables_for(
        DOMAIN, [fn.table("job", "sex", "age", "region", margin=3), fn.table("sex", margin=2)], COUNTS
    )
    frame = fn.microdata(tables, anyway=True)
    counts = frame.groupby(["job", "sex", "age", "region"]).size()
    expected = tables["job by sex by age by region"]
    expected = expected[expected["value"] > 0].set_index(["job", "sex", "age", "region"])["value"]
    assert counts.to_dict() == {(a, b, str(c), d): n for (a, b, c, d), n in expected.items()}
    assert frame.attrs["microdata"]["batches"] == 0
    assert {row["from_integers"]["largest"] for row in frame.attrs["microdata"]["tables"]} == {0.0}


def summary(folder, tables, capsys, *options):
    """Return the sentence of the command on the number of records."""
    if not (folder / "release").exists():
        tables.release.write(folder / "release")
        tables.write(folder / "integers")
    count = len(list(folder.iterdir()))
    source = (f"{folder}/release", "--integers", f"{folder}/integers", "-o", f"{folder}/{count}.csv", "--anyway")
    capsys.readouterr()
    by_command("write", "microdata", *source, *options)
    return " ".join(capsys.readouterr().out.split())


def test_only_an_expansion_is_called_one(tmp_path, capsys):
    """A search can make no move: without batches, or because it starts with exact tables."""
    full, pair, exact = (tmp_path / name for name in ("full", "pair", "exact"))
    for folder in (full, pair, exact):
        folder.mkdir()
    one = integer_tables_for(DOMAIN, [fn.table(*DOMAIN, margin=3)], COUNTS)
    assert "the expansion of one table, which is exact" in summary(full, one, capsys)
    text = summary(pair, paired(*ALL_PAIRS), capsys, "--batches", "0")
    assert "records with sex, age, job, region. The search made no move." in text
    assert "expansion" not in text
    assert "of 3 batches" in summary(pair, paired(*ALL_PAIRS), capsys, "--batches", "3")
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), job=fn.Categorical(["a", "b"]), age=fn.Ordered(0, 1))
    chain = [fn.table("sex", "job", margin=2), fn.table("job", "age", margin=2)]
    tables = integer_tables_for(domain, chain, np.full(domain.shape, 60))
    records = make_records(tables, 60.0, None, anyway=False)
    assert (records.batches, records.share_outside, records.is_expansion) == (0, 0, False)
    assert "The search made no move." in summary(exact, tables, capsys)
    german = translator("de").texts["report.microdata.unmoved"]
    assert german == "{records} Datensätze mit {attributes}. Die Suche hat nichts geändert."


def test_an_equal_number_of_batches_gives_equal_records():
    tables = paired(*ALL_PAIRS)
    one = fn.microdata(tables, seconds=0.5, anyway=True)
    batches = one.attrs["microdata"]["batches"]
    other = fn.microdata(tables, batches=batches, anyway=True)
    assert batches > 100
    assert one.equals(other)
    assert not one.equals(fn.microdata(tables, batches=0, anyway=True))


@cache
def cps():
    """All pairs of five attributes of the packaged public records, with margins of ± 50."""
    records = pd.read_csv(data.path(data.CPS))
    spec = fn.load_spec(data.path(data.DEMO)).domain
    names = ("state", "status", "kids", "wages", "selfemp")
    domain = fn.Domain({name: spec[name] for name in names})
    counts = np.zeros(domain.shape, dtype=np.int64)
    np.add.at(counts, tuple(records[domain.column(name)].map(spec[name].cell).to_numpy() for name in names), 1)
    return integer_tables_for(domain, [fn.table(*pair, margin=50) for pair in itertools.combinations(names, 2)], counts)


def test_real_records_reach_their_tables_closely():
    """The bound does not depend on the machine, because the number of batches is given."""
    tables = cps()
    start, document = (fn.microdata(tables, batches=n, anyway=True).attrs["microdata"] for n in (0, 2000))
    assert len(document["tables"]) == 10
    assert document["share_outside_margin"] == 0
    assert max(row["from_integers"]["rms"] for row in document["tables"]) < 0.15
    assert max(row["from_released"]["rms"] for row in document["tables"]) < 1
    assert start["share_outside_margin"] > making.MAX_SHARE_OUTSIDE
    with refused("release.microdata-far-from-tables"):
        fn.microdata(tables, batches=0)


def test_labels_have_codes_and_missing_values_have_none():
    frame = fn.microdata(paired(*ALL_PAIRS), anyway=True, batches=100)
    assert list(frame) == ["sex", "sex_code", "age", "job", "region"]
    assert set(zip(frame["sex"], frame["sex_code"], strict=True)) == {("female", "f"), ("male", "m")}
    assert {*frame["age"]} == {"0", "1", "2", "3", "unknown"}
    assert frame["region"].dtype == np.int64
    domain = fn.Domain(a=fn.Categorical({"x": "long"}, missing={"none": ["-"]}), o=fn.Ordered(0, 1))
    tables = integer_tables_for(domain, [fn.table("a", "o", margin=2)], [[3, 4], [5, 6]])
    frame = fn.microdata(tables)
    assert list(frame) == ["a", "a_code", "o"]
    assert set(zip(frame["a"], frame["a_code"], strict=True)) == {("long", "x"), ("none", "none")}


def test_cumulative_numbers_are_counted_by_their_differences():
    domain = fn.Domain(sex=fn.Categorical(["f", "m"]), age=fn.Ordered(0, 4))
    counts = np.random.default_rng(1).poisson(9, domain.shape)
    tables = integer_tables_for(domain, [fn.table("sex", cumulative="age", margin=4)], counts)
    frame = fn.microdata(tables)
    expected = tables["sex by age cumulative"]["value"].to_numpy().reshape(2, 5)
    numbers = [[((frame["sex"] == sex) & (frame["age"] <= age)).sum() for age in range(5)] for sex in "fm"]
    assert np.array_equal(numbers, expected)


def test_no_records_are_made_of_empty_tables():
    frame = fn.microdata(
        integer_tables_for(DOMAIN, [fn.table(*pair, margin=4) for pair in ALL_PAIRS[:2]], 0 * COUNTS), anyway=True
    )
    assert len(frame) == frame.attrs["microdata"]["records"]


# --- the search -------------------------------------------------------------------------------------------------------


@st.composite
def targets(draw):
    """Tables of random records by random columns: groups of values, and values that are not counted."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    records = np.stack([random.integers(0, n, 60) for n in sizes])
    shapes = [tuple(range(len(sizes)))[i : i + 2] for i in range(len(sizes) - 1)]
    shapes += [(i,) for i in range(len(sizes))]
    out = []
    for k, axes in enumerate(shapes):
        cells = [
            np.arange(sizes[a]) if k % 2 or len(axes) == 1 else random.integers(-1, sizes[a], sizes[a]) for a in axes
        ]
        blank = CountTable(axes, tuple(cells), np.zeros([sizes[a] for a in axes], dtype=np.int64))
        counts = blank.tally(records) + random.integers(0, 2, blank.counts.shape)
        out.append(CountTable(axes, tuple(cells), counts, int(random.integers(1, 9))))
    return sizes, out


def objective(tables, values):
    return sum(t.weight * int(((t.tally(values) - t.counts) ** 2).sum()) for t in tables)


@given(targets())
def test_a_search_never_makes_the_sum_of_squares_larger(case):
    sizes, tables = case
    values = [invent(sizes, tables, 60, batches=n, seconds=0)[0] for n in (0, 3, 60)]
    sums = [objective(tables, x) for x in values]
    assert sums == sorted(sums, reverse=True)
    for x in values:
        assert x.shape == (len(sizes), 60)
        assert (x >= 0).all()
        assert (x.max(axis=1) < sizes).all()


@given(targets(), st.integers(0, 2**32 - 1))
def test_a_search_keeps_to_possible_combinations(case, seed):
    """With totals by groups of values: of possible records, so that each has a possible completion."""
    sizes, tables = case
    random = np.random.default_rng(seed)
    axes = tuple(sorted(random.choice(len(sizes), int(random.integers(1, len(sizes) + 1)), replace=False).tolist()))
    possible = random.random([sizes[a] for a in axes]) < 0.5
    possible.flat[random.integers(possible.size)] = True
    people = np.stack([random.integers(0, n, 60) for n in sizes])
    people[list(axes)] = np.argwhere(possible)[random.integers(0, possible.sum(), 60)].T
    grouped = random.choice(len(sizes), int(random.integers(0, len(sizes) + 1)), replace=False).tolist()
    cells = tuple(random.integers(0, 2, sizes[a]) for a in grouped)
    totals = CountTable(tuple(grouped), cells, np.zeros([2] * len(grouped), dtype=np.int64))
    public = CountTable(totals.axes, cells, totals.tally(people)) if grouped else None
    sums = []
    for batches in (0, 3, 60):
        values, _ = invent(
            sizes, tables, 60, batches=batches, seconds=0, public=public, rules=[PossibleValues(axes, possible)]
        )
        assert possible[tuple(values[list(axes)])].all()
        assert public is None or np.array_equal(public.tally(values), public.counts)
        sums.append(objective(tables, values))
    assert sums == sorted(sums, reverse=True)


def test_a_search_ends_where_the_tables_are_met_or_nothing_moves():
    """The cells of the second table cannot be met: its total is another."""
    eye = 5 * np.eye(3, dtype=np.int64)
    cells = (np.arange(3), np.arange(3))
    values, done = invent((3, 3), [CountTable((0, 1), cells, eye)], 15, batches=MANY, seconds=0)
    assert done == 0
    assert np.array_equal(np.bincount(values[0] * 3 + values[1], minlength=9).reshape(3, 3), eye)
    single = CountTable((1,), (np.arange(3),), np.full(3, 9, dtype=np.int64))
    _, done = invent((3, 3), [CountTable((0, 1), cells, eye), single], 15, batches=MANY, seconds=0)
    assert 0 < done < 10**4


def test_a_search_ends_at_its_time_limit():
    table = CountTable((0, 1), (np.arange(2), np.arange(2)), np.ones((2, 2), dtype=np.int64))
    assert invent((2, 2), [table], 3, batches=None, seconds=-1.0)[1] == 0


# --- what is refused --------------------------------------------------------------------------------------------------


def test_tables_without_records_are_refused():
    age, sex = fn.Ordered(0, 3), fn.Categorical(["f", "m"])
    pair = fn.Domain(sex=sex, age=age)
    counts = np.full(pair.shape, 9)
    with refused("release.microdata-of-one-attribute"):
        fn.microdata(integer_tables_for(pair, [fn.table("sex", margin=2)], counts))
    with refused("release.microdata-of-one-attribute"):
        fn.microdata(integer_tables_for(pair, [fn.table(margin=2)], counts))
    groups = {"age": {"young": [0, 1], "old": [2, 3]}}
    with refused("release.microdata-without-values", key="age"):
        fn.microdata(integer_tables_for(pair, [fn.table("sex", groups=groups, margin=2)], counts))
    partial = [fn.table("sex", groups={"age": {"young": [0, 1]}}, margin=2)]
    partial.append(fn.table("age", groups={"sex": {"women": ["f"]}}, margin=2, name="women by age"))
    with refused("release.microdata-without-total"):
        fn.microdata(integer_tables_for(pair, partial, counts))
    amounts = fn.Domain(sex=sex, income=fn.Amount(0, 100, missing={"none": [-1]}))
    plan = fn.plan(fn.Workload(amounts, [fn.table("sex", count="income", margin=4)]))
    release = fn.Release(plan, [np.full(n, 50) for n in plan.table_part.strategy.lengths])
    with refused("release.microdata-of-amounts"):
        fn.microdata(fn.make_integer_tables(release, simulations=0))


def test_microdata_of_several_releases_are_refused_by_both_ways(tmp_path, monkeypatch, capsys):
    """The command reads one release only, and says so in place of the advice to give more of them."""
    plan = fn.plan(fn.Workload(DOMAIN, [fn.table("sex", "age", margin=6)]))
    releases = {x: fn.Release(plan, measured(plan, COUNTS, Replay(i)).answers[0]) for i, x in enumerate(("one", "two"))}
    tables = fn.make_integer_tables(releases, simulations=0)
    with refused("release.microdata-of-several-releases"):
        fn.microdata(tables)
    monkeypatch.chdir(tmp_path)
    tables.write("integers")
    releases["one"].write("one")
    by_command("write", "microdata", "one", "--integers", "integers", "-o", "people.csv")
    error = capsys.readouterr().err
    assert "The integer tables are of 2 releases, and not all of them are given." in error
    assert "make integer tables of this release alone" in error
    assert "Give all" not in error
    by_command("write", "report", "one", "--integers", "integers", "-o", "a.html")
    assert "Give all of these releases." in capsys.readouterr().err


def test_the_advice_is_about_the_limit_that_ended_the_search(monkeypatch):
    for limits, advice in [
        ({"batches": 0}, "Allow more than 0 batches. Or accept"),
        ({"batches": 2}, "Allow more than 2 batches. Or accept"),
        ({"batches": 2, "seconds": 9.0}, "Allow more than 2 batches. Or accept"),
        ({"seconds": 1e-9}, "Allow more than 1e-09 seconds. Or accept"),
    ]:
        with refused("release.microdata-far-from-tables") as caught:
            fn.microdata(cps(), **limits)
        assert advice in str(caught.value)
    search = making.invent

    def stalled(*arguments, **_):
        return search(*arguments, batches=2, seconds=0)

    monkeypatch.setattr(making, "invent", stalled)
    for limits in ({"batches": 10_000}, {"seconds": 10_000.0}):
        with refused("release.microdata-far-from-tables") as caught:
            fn.microdata(cps(), **limits)
        assert "because progress stalled" in str(caught.value)
        assert "Allow more" not in str(caught.value)


def test_the_document_names_the_rules_of_order_of_its_tables(tmp_path):
    domain = fn.Domain(work=fn.Categorical([1, 2]), home=fn.Categorical([1, 2]))
    plan = fn.plan(fn.Workload(domain, [fn.table("work", margin=6), fn.table("home", margin=6)]))
    release = fn.Release(plan, measured(plan, np.full((2, 2), 40), Replay(3)).answers[0])
    for rules in ([], ["work <= 2 * home"]):
        tables = fn.make_integer_tables(release, at_most=rules, simulations=0)
        frame = fn.microdata(tables, batches=5, anyway=True, path=tmp_path / f"{len(rules)}.csv")
        assert frame.attrs["microdata"]["at_most"] == rules
        document = document_place(tmp_path / f"{len(rules)}.csv")
        stated = json.loads(document.read_text(encoding="utf-8"))
        assert stated["at_most"] == rules
        document.write_text(to_json(stated | {"at_most": ["home <= work"]}), encoding="utf-8")
        altered = StatedRecords(tables, tmp_path / f"{len(rules)}.csv").check_tables()
        assert altered is not None
        assert altered.id == "report.fault.microdata"


def test_the_page_explains_every_key_of_the_document():
    page = Path(__file__).parents[1] / "docs" / "howto" / "make_microdata.md"
    rows = [line.split("|")[1] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert sorted(key for row in rows for key in re.findall("`([a-z_]+)`", row)) == sorted(making.KEYS)


def test_too_many_records_are_refused(monkeypatch):
    monkeypatch.setattr(making, "MAX_RECORDS", 10)
    with refused("release.too-many-records"):
        fn.microdata(paired(*ALL_PAIRS))


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"batches": -1}, "wrong-number-of-batches"),
        ({"seconds": 0.0}, "wrong-time-limit"),
        ({"seconds": float("nan")}, "wrong-time-limit"),
        ({"seconds": float("inf")}, "wrong-time-limit"),
        ({"path": "people.xlsx"}, "unknown-microdata-format"),
        ({"path": "people"}, "unknown-microdata-format"),
        ({"batches": "many"}, "wrong-type"),
    ],
)
def test_limits_and_names_are_checked(options, code):
    with refused(f"release.{code}"):
        fn.microdata(paired(*ALL_PAIRS), **options)


def test_no_file_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("mine")
    (tmp_path / "b.csv.microdata.json").write_text("mine")
    for name in ("a.csv", "b.csv"):
        with refused("release.place-exists"):
            fn.microdata(paired(*ALL_PAIRS), batches=0, anyway=True, path=tmp_path / name)
    with monkeypatch.context() as before_the_search, refused("release.folder-not-writable"):
        before_the_search.delattr(making, "make_records")
        fn.microdata(paired(*ALL_PAIRS), batches=0, anyway=True, path=tmp_path / "none" / "c.csv")
    write = making.replace_file

    def fails_later(path, content):
        if path.suffix != ".json":
            # no records are ever there without their warning
            assert WARNING in document_place(path).read_text(encoding="utf-8")
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(making, "replace_file", fails_later)
    with pytest.raises(KeyboardInterrupt):
        fn.microdata(paired(*ALL_PAIRS), batches=500, anyway=True, path=tmp_path / "d.csv")
    assert {p.name for p in tmp_path.iterdir()} == {"a.csv", "b.csv.microdata.json"}


# --- the warning ------------------------------------------------------------------------------------------------------


def texts(records, language):
    return [translator(language).write(message) for message in records.warnings]


def test_attributes_in_no_common_table_are_named():
    split = make_records(paired(("sex", "age"), ("job", "region")), 1, 5, anyway=True)
    assert texts(split, "en")[1] == (
        "No table shows sex with job, sex with region, age with job, age with region. In this file they are "
        "independent, and the truth may differ."
    )
    assert texts(split, "de")[1].startswith("Keine Tabelle zeigt sex mit job, sex mit region, age mit job")
    chain = make_records(paired(("sex", "age"), ("age", "job"), ("job", "region")), 1, 5, anyway=True)
    assert texts(chain, "en")[1] == (
        "No table shows sex with job, sex with region, age with region. In this file they depend on each other only "
        "through other attributes, and the truth may differ."
    )
    assert len(texts(make_records(paired(*ALL_PAIRS), 1, 5, anyway=True), "en")) == 1


def test_attributes_shown_only_in_groups_are_named():
    """A table by value takes the pair off the list; groups of one attribute alone do not put it there."""
    groups = {"age": {"young": [0, 1], "old": {"values": [2, 3, "unknown"]}}}
    in_groups = fn.table("sex", groups=groups, margin=6)
    others = [fn.table("age", "job", margin=6), fn.table(groups=groups, margin=4, name="age groups")]
    records = make_records(integer_tables_for(DOMAIN, [in_groups, *others], COUNTS), 1, 200, anyway=True)
    assert records.document()["grouped_pairs"] == [["sex", "age"]]
    assert texts(records, "en")[-1] == (
        "The tables show sex with age only in groups. Within a group, fitnoise combines the values at random or "
        "through other attributes, and the truth may differ."
    )
    assert texts(records, "de")[-1].startswith("Die Tabellen zeigen sex mit age nur in Gruppen. ")
    assert records.document()["separate_pairs"] == [{"attributes": ["sex", "job"], "linked": True}]
    tables = integer_tables_for(DOMAIN, [in_groups, *others, fn.table("sex", "age", margin=9)], COUNTS)
    records = make_records(tables, 1, 5, anyway=True)
    assert records.document()["grouped_pairs"] == []
    assert not any("only in groups" in text for text in texts(records, "en"))


def test_attributes_in_no_common_table_are_independent():
    frame = fn.microdata(paired(("sex", "age"), ("job", "region")), batches=1000, anyway=True)
    joint = pd.crosstab(frame["sex"], frame["job"]).to_numpy()
    product = np.outer(joint.sum(axis=1), joint.sum(axis=0)) / joint.sum()
    # χ² with 2 degrees of freedom: above 13.8 once in a thousand draws, and these draws are fixed
    assert ((joint - product) ** 2 / product).sum() < 13.8


def test_records_far_from_their_tables_say_so(tmp_path, capsys):
    """Their warning does not begin as that of close records, and verification states the share."""
    tables = cps()
    frame = fn.microdata(tables, batches=0, anyway=True, path=tmp_path / "people.parquet")
    outside = f"{frame.attrs['microdata']['share_outside_margin']:.1%}".replace("%", "\u202f%")
    warning = json.loads(document_place(tmp_path / "people.parquet").read_text())["warning"]
    assert warning["en"] == frame.attrs["warning"]
    assert warning["en"].startswith(
        "These records are invented. They are not close to the published tables listed here: "
        f"{outside} of their numbers are more than one margin from the integer tables. "
    )
    assert "Sie liegen nicht nahe an den hier genannten veröffentlichten Tabellen: " in warning["de"]
    assert "are close" not in warning["en"]
    assert "Tabellen liegen nahe" not in warning["de"]
    tables.release.write(tmp_path / "release")
    tables.write(tmp_path / "integers")
    assert checks(tmp_path, ".parquet") == dict.fromkeys(CLAIMS, True)
    options = ("--integers", f"{tmp_path}/integers", "--microdata", f"{tmp_path}/people.parquet")
    by_command("verify", f"{tmp_path}/release", *options)
    sentence = f"10 tables; {outside} of the numbers over one margin".replace("\u202f", "")
    assert sentence in capsys.readouterr().out


def test_no_output_lacks_the_warning(tmp_path, capsys):
    """Every output: the frame, both files and their document, the report on the terminal and as JSON."""
    tables = paired(*ALL_PAIRS)
    tables.release.write(tmp_path / "release")
    tables.write(tmp_path / "integers")
    german = translator("de").texts["report.microdata.warning"]
    frame = fn.microdata(tables, batches=20, anyway=True, path=tmp_path / "a.parquet")
    assert frame.attrs["warning"].startswith(WARNING)
    options = ("--integers", f"{tmp_path}/integers", "--batches", "20", "--anyway")
    outputs = []
    for name, arguments in (("b.parquet", ()), ("c.csv", ("--json",))):
        by_command("write", "microdata", f"{tmp_path}/release", *options, "-o", f"{tmp_path}/{name}", *arguments)
        outputs.append(capsys.readouterr().out)
    assert WARNING in " ".join(outputs[0].split())
    assert json.loads(outputs[1])["warnings"][0].startswith(WARNING)
    paths = [tmp_path / name for name in ("a.parquet", "b.parquet", "c.csv")]
    assert {p for p in tmp_path.iterdir() if p.is_file()} == {*paths, *map(document_place, paths)}
    for path in paths:
        document = json.loads(document_place(path).read_text(encoding="utf-8"))
        assert document["warning"]["en"].startswith(WARNING)
        assert document["warning"]["de"].startswith(german)
        assert list(document) == list(making.KEYS)
        if path.suffix == ".parquet":
            metadata = read(path, len(frame), 20)[1]
            assert list(metadata) == ["warning.en", "warning.de", "tables"]
            assert metadata == {k.decode(): v.decode() for k, v in pq.read_metadata(path).metadata.items()}
            assert metadata["warning.en"].startswith(WARNING)
            assert metadata["warning.de"].startswith(german)
            assert json.loads(metadata["tables"]) == list(tables)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


# --- the other program ------------------------------------------------------------------------------------------------


def test_the_lines_for_mbi_run_where_it_is_installed(tmp_path, monkeypatch):
    """The page gives mbi the tables of the demo with their exact noise: its tables are then close to the released."""
    pytest.importorskip("mbi")
    monkeypatch.chdir(tmp_path)
    by_command("new", "--demo", "-o", "demo")
    page = (Path(__file__).parents[1] / "docs" / "howto" / "make_microdata.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"^```{code-block} python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of JAX, about its own settings
        exec(lines, names)  # noqa: S102 - our own documents
    release, size = names["release"], names["size"]
    for table in names["tables"]:
        counts = np.asarray(names["people"].project(table).datavector()).reshape([size[a] for a in table])
        estimates = release.count(by=list(table))
        assert np.sqrt((((counts - estimates.value) / estimates.moe()) ** 2).mean()) < 1


# --- verification -----------------------------------------------------------------------------------------------------


@pytest.fixture
def microdata_folder(tmp_path):
    """A release, its integer tables, and records in both formats."""
    tables = paired(*ALL_PAIRS)
    tables.release.write(tmp_path / "release")
    tables.write(tmp_path / "integers")
    for ending in making.FORMATS:
        fn.microdata(tables, batches=50, anyway=True, path=tmp_path / f"people{ending}")
    return tmp_path


def checks(folder, ending):
    """Return the claims about microdata, in order, with True for each that holds."""
    verified = fn.verify(folder / "release", integers=folder / "integers", microdata=folder / f"people{ending}")
    return {c.claim.id: c.holds for c in verified.checks if "microdata" in c.claim.id}


CLAIMS = ["report.claim.microdata", "report.claim.microdata_tables", "report.claim.microdata_file"]


@pytest.mark.parametrize("ending", making.FORMATS)
def test_written_records_verify(microdata_folder, ending, capsys):
    assert checks(microdata_folder, ending) == dict.fromkeys(CLAIMS, True)
    verified = fn.verify(
        microdata_folder / "release",
        integers=microdata_folder / "integers",
        microdata=microdata_folder / f"people{ending}",
    )
    assert verified.ok
    assert MICRODATA not in verified.unchecked
    assert MICRODATA in fn.verify(microdata_folder / "release", integers=microdata_folder / "integers").unchecked
    options = ("--integers", f"{microdata_folder}/integers", "--microdata", f"{microdata_folder}/people{ending}")
    by_command("verify", f"{microdata_folder}/release", *options)
    assert "ok  the tables of the records, counted again, are as far as stated   6 tables" in capsys.readouterr().out


def change_one_record(path, space):
    """Write the file again with another age in one record, in order, as fitnoise would write it."""
    values = making._read_values(space, path)
    values[1, 0] = (values[1, 0] + 1) % space.sizes[1]
    records = making.InventedRecords(space, sort_records(values), 50, 0.0, True)
    path.write_bytes(b"".join(records.pieces(path)))


@pytest.mark.parametrize("ending", making.FORMATS)
def test_a_record_changed_by_one_is_found(microdata_folder, ending):
    """Its hash differs. If the document has the hash of the changed file, the counts differ."""
    path = microdata_folder / f"people{ending}"
    change_one_record(path, making.RecordSpace(paired(*ALL_PAIRS)))
    assert checks(microdata_folder, ending) == dict(zip(CLAIMS, (True, False, False), strict=True))
    document = json.loads(document_place(path).read_text())
    document["file"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    document_place(path).write_text(to_json(document))
    assert checks(microdata_folder, ending) == dict(zip(CLAIMS, (True, False, True), strict=True))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("share_outside_margin", 0.5),
        ("records", 1),
        ("separate_pairs", [1]),
        ("grouped_pairs", [1]),
        ("warning", {}),
        ("columns", []),
        ("tables", []),
    ],
)
def test_another_statement_is_found(microdata_folder, key, value):
    document_file = document_place(microdata_folder / "people.csv")
    document = json.loads(document_file.read_text())
    document_file.write_text(to_json({**document, key: value}))
    assert checks(microdata_folder, ".csv") == dict(zip(CLAIMS, (True, False, True), strict=True))


@pytest.mark.parametrize(
    "change",
    [
        {"plan": "0" * 64},
        {"integer_tables": "0" * 64},
        {"fitnoise_microdata": 2},
        {"batches": True},
        {"seconds": 1},
        {"anyway": 1},
        {"more": 1},
    ],
)
def test_a_document_of_other_tables_or_another_form_is_not_accepted(microdata_folder, change):
    document_file = document_place(microdata_folder / "people.csv")
    document_file.write_text(to_json({**json.loads(document_file.read_text()), **change}))
    assert checks(microdata_folder, ".csv") == {CLAIMS[0]: False}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"fitnoise_microdata": 1}'])
def test_a_damaged_document_is_not_accepted(microdata_folder, text):
    document_place(microdata_folder / "people.csv").write_text(text)
    assert checks(microdata_folder, ".csv") == {CLAIMS[0]: False}


HEADER = "sex,sex_code,age,job,region\n"

ROW = "female,f,0,none,1\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEADER,
        "sex,sex_code,age,job\n" + "female,f,0,none\n" * 10,
        HEADER + ROW,
        HEADER + "female,f,0,none\n" * 2,
        HEADER + ROW.replace("female", "other") * 2305,
        HEADER + ROW * 10**6,
        "\x00",
        '"' + "x" * 200_000,
        b"\xff\xfe",
    ],
)
def test_files_that_hold_no_such_records_are_not_accepted(microdata_folder, text):
    (microdata_folder / "people.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert checks(microdata_folder, ".csv") == dict(zip(CLAIMS, (True, False, False), strict=True))


def test_a_parquet_file_in_another_form_is_not_accepted(microdata_folder):
    path = microdata_folder / "people.parquet"
    pd.read_parquet(path).to_parquet(path)
    assert checks(microdata_folder, ".parquet") == dict(zip(CLAIMS, (True, False, False), strict=True))
    space = making.RecordSpace(paired(*ALL_PAIRS))
    columns = space.columns_of(making._read_values(space, microdata_folder / "people.csv"))
    # without the warning
    path.write_bytes(b"".join(pieces(columns, {})))
    assert checks(microdata_folder, ".parquet") == dict(zip(CLAIMS, (True, True, False), strict=True))
    path.write_bytes(b"".join(pieces({**columns, "sex_code": columns["sex"]}, {})))
    assert checks(microdata_folder, ".parquet") == dict(zip(CLAIMS, (True, True, False), strict=True))


def test_a_missing_file_is_not_accepted(microdata_folder):
    (microdata_folder / "people.csv").unlink()
    assert checks(microdata_folder, ".csv") == dict(zip(CLAIMS, (True, False, False), strict=True))


def fault(folder, name):
    """Return the text of the first claim about a file of microdata that fails."""
    verified = fn.verify(folder / "release", integers=folder / "integers", microdata=folder / name)
    return english(next(c.finding for c in verified.checks if not c.holds))


def test_a_fault_says_which_file_to_give(microdata_folder):
    """The document in place of its file, a file without its document, and a file that is not there."""
    people, document = microdata_folder / "people.csv", microdata_folder / "people.csv.microdata.json"
    finding = fault(microdata_folder, document.name)
    assert f"Give {str(people)!r}." in finding
    people.rename(microdata_folder / "other.csv")
    finding = fault(microdata_folder, "other.csv")
    assert "'other.csv' has no 'other.csv.microdata.json' next to it." in finding
    assert "give it the name that it had" in finding
    assert "people.csv' is missing or unreadable" in fault(microdata_folder, "people.csv")
    assert "none.csv' is missing or unreadable" in fault(microdata_folder, "none.csv")
    document.rename(microdata_folder / "other.csv.microdata.json")
    assert fault(microdata_folder, "other.csv") == "'other.csv' was written as 'people.csv': give it this name again"
    (microdata_folder / "other.csv").write_bytes(b"x")
    assert "'other.csv' was written" not in fault(microdata_folder, "other.csv")


@pytest.mark.parametrize("ending", [".CSV", ".Parquet"])
def test_endings_may_have_capitals(microdata_folder, ending):
    fn.microdata(paired(*ALL_PAIRS), batches=50, anyway=True, path=microdata_folder / f"PEOPLE{ending}")
    raw = (microdata_folder / f"PEOPLE{ending}").read_bytes()
    assert raw == (microdata_folder / f"people{ending.lower()}").read_bytes()
    verified = fn.verify(
        microdata_folder / "release",
        integers=microdata_folder / "integers",
        microdata=microdata_folder / f"PEOPLE{ending}",
    )
    assert verified.ok


def test_microdata_are_verified_with_their_integer_tables_only(microdata_folder):
    with refused("release.microdata-without-integer-tables", key="microdata"):
        fn.verify(microdata_folder / "release", microdata=microdata_folder / "people.csv")
    other = fn.make_integer_tables(
        fn.Release.read(microdata_folder / "release"), ["sex by age", "sex by job"], simulations=0
    )
    other.write(microdata_folder / "other")
    verified = fn.verify(
        microdata_folder / "release", integers=microdata_folder / "other", microdata=microdata_folder / "people.csv"
    )
    assert [c.holds for c in verified.checks if "microdata" in c.claim.id] == [False]


def test_integer_tables_that_are_wrong_make_no_records(microdata_folder, capsys):
    document_file = microdata_folder / "integers" / "whole.json"
    document = json.loads(document_file.read_text())
    document["tables"][0]["values"][0] += 1
    document_file.write_text(to_json(document))
    options = ("--integers", f"{microdata_folder}/integers", "-o", f"{microdata_folder}/more.csv")
    by_command("write", "microdata", f"{microdata_folder}/release", *options)
    assert "release.integer-tables-wrong" in capsys.readouterr().err
    assert not (microdata_folder / "more.csv").exists()


def test_texts_of_files_are_read_as_they_are(tmp_path):
    """Labels that a spreadsheet would run, numbers among texts, truth values, and quotes."""
    hostile = fn.Categorical({"=x": "=1+1", "'": "'a", ",": 'say "no", or not', "\n": "two\nlines"})
    domain = fn.Domain({"@a": hostile, "b": fn.Categorical([1, 2], missing={"none": [0]})})
    tables = integer_tables_for(domain, [fn.table("@a", "b", margin=2)], np.arange(12).reshape(4, 3) + 3)
    tables.release.write(tmp_path / "release")
    tables.write(tmp_path / "integers")
    frames = [fn.microdata(tables, path=tmp_path / f"people{ending}") for ending in making.FORMATS]
    assert frames[0].equals(pd.read_parquet(tmp_path / "people.parquet"))
    with (tmp_path / "people.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.reader(file))) == 1 + len(frames[0])
    for ending in making.FORMATS:
        assert checks(tmp_path, ending) == dict.fromkeys(CLAIMS, True)


def test_messages_of_records_have_both_languages():
    records = make_records(paired(("sex", "age"), ("age", "job"), ("region", "job")), 1, 5, anyway=True)
    assert {*records.warning} == {*COMPLETE_LANGUAGES}
    assert english(records.warnings[0]).startswith(WARNING)
