"""Persons with many records: which are counted, on every engine the same, and what a person can move."""

import contextlib
import hashlib
import itertools
import json
import re
import sqlite3
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy as sa

import fitnoise as fn
import zoo
from engines import ENGINES, POSTGRESQL, SLOW, connected, postgresql
from fitnoise.engines import duck, engine_check, open_counter, sql
from fitnoise.engines.databases import Database
from fitnoise.engines.dialects import DIALECTS
from fitnoise.interfaces.cli import _run
from fitnoise.interfaces.render import document, lines
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.interfaces.reports.releases import release_report
from fitnoise.kernel import measure as measuring
from fitnoise.kernel.counting import Counter as Counting
from fitnoise.kernel.counting import Tally
from fitnoise.kernel.counting.persons import PersonSelector, person_id
from fitnoise.kernel.counting.trial import ColumnKind, PersonTrial
from fitnoise.kernel.designs.answers import AnswerDesign
from fitnoise.kernel.designs.questions import CellQuestion
from fitnoise.kernel.exact_powers import exp_below
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.order import Order
from fitnoise.kernel.units import NO_PATTERN, Account, DataSource, Pattern, RecordBound
from fitnoise.mechanisms.finite import geometric
from fitnoise.planning.free_queries import free_counts
from fitnoise.planning.plan import Plan
from fitnoise.request.documents import Spec
from fitnoise.request.finite_queries import FiniteQuery
from laws.counting import DROP, REFUSE, HistogramCounter, leaks_nothing, same_counts
from laws.reports import in_words
from records import Records
from refused import refused
from replayed_noise import Replay, law
from test_databases import DUCKDB, in_duckdb
from test_order import MARGINS as PURE
from test_order import SECTORS, order

ENFORCED = "fitnoise enforces this by the column 'pid'"
"""The statement on the enforced bound of persons."""

FEW = (
    "p7",
    "P7",
    "p7 ",
    " p7",
    "7",
    "07",
    "7.0",
    "é",
    "e\u0301",
    "ß",
    "ss",
    "'",
    "\\",
    "%s",
    "NULL",
    "a/1/2",
    "x" * 1000,
)
"""Ids that some engine somewhere takes for each other, or for something else."""

DOMAIN = fn.Domain(
    sex=fn.Categorical(["f", "m"]),
    age=fn.Ordered(0, 3, clip=True, missing={"not stated": [-1], "else": []}, if_outside="else"),
    place=fn.Hierarchy(["region", "town"], [("n", "a"), ("n", "b"), ("s", "c")]),
)
STORED = fn.Domain({**{a: DOMAIN[a] for a in DOMAIN}, "person": fn.Categorical(["p"]), "unused": fn.Ordered(0, 1)})
KINDS = {"sex": "string", "age": "int64", "place": "string", "person": "string", "unused": "int64"}
ATTRIBUTES = ("sex", "age", "place")
MARGINS = [ATTRIBUTES, ("sex",), ("region", "age"), ("town",), ()]

SOURCES = [
    "csv", "csv, all quoted, returns", "parquet pattern", "duckdb", "arrow table", "arrow stream by sevens",
    "arrow dictionary", "polars", "pandas", "pandas category", "pandas objects", *ENGINES,
]  # fmt: skip


def person_of(i, rng):
    """A person's records: few or many, equal or not, and the id."""
    n = 200 if i == 0 else int(rng.integers(1, 9))
    return [(*record(rng), FEW[i % len(FEW)] + (str(i) if i >= len(FEW) else ""), 0) for _ in range(n)]


def record(rng):
    return "fm"[rng.integers(2)], int(rng.integers(-1, 6)), "abc"[rng.integers(3)]


def people(n, seed=3):
    rng = np.random.default_rng(seed)
    return [x for i in range(n) for x in person_of(i, rng)]


def stored(rows, kinds=KINDS):
    columns = zip(*rows, strict=True) if rows else [[] for _ in STORED]
    return Records(STORED, {a: list(c) for a, c in zip(STORED, columns, strict=True)}, kinds)


def counter(source, rows, folder, max_records, pattern=NO_PATTERN, *, drop=True, kinds=KINDS):
    return opened(source, zoo.COUNTERS[source].make(stored(rows, kinds), folder), max_records, pattern, drop=drop)


def opened(source, data, max_records, pattern=NO_PATTERN, *, drop=True):
    where = DataSource(table=zoo.COUNTERS[source].table, outside_domain=DROP if drop else REFUSE)
    return open_counter(data, DOMAIN.axes, where, RecordBound("person", max_records, pattern))


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """Return a function that writes records for a kind of source once; no bound or pattern changes them."""

    @cache
    def make(source, rows):
        return zoo.COUNTERS[source].make(stored(rows), tmp_path_factory.mktemp("held"))

    return make


@lru_cache(maxsize=None, typed=True)
def record_cells(*values):
    return tuple(DOMAIN[a].cell(v) for a, v in zip(DOMAIN, values, strict=True))


def counted_records(rows, max_records, pattern=NO_PATTERN):
    """Return the counted records of each person, record by record: an independent implementation of the rule."""
    records_of = {}
    for *values, person, _ in rows:
        cell = record_cells(*values)
        if None not in cell and person not in (None, ""):
            text = "".join(f"{c + 1}/" for c in cell) + str(person)
            records_of.setdefault(str(person), []).append((hashlib.md5(text.encode()).hexdigest(), cell))  # noqa: S324
    counted = {}
    for p, x in records_of.items():
        counted[p] = in_pattern([cells for _, cells in sorted(x)], pattern)[:max_records]
    return counted


def in_pattern(line, pattern, domain=DOMAIN):
    """Return the cells of a person's records that keep to the pattern, taken first to last."""
    index = list(domain).index
    line = [c for c in line if all(c[index(a)] == line[0][index(a)] for a in pattern.fixed)]
    once = [(pattern.once_per, 1)] if pattern.once_per else []
    each = [((a,), n) for a, n in pattern.per_value] + [((a,), 1) for a, _ in pattern.separation]
    for names, n in once + each:
        keys = [[c[index(a)] for a in names] for c in line]
        line = [c for i, c in enumerate(line) if keys[:i].count(keys[i]) < n]
    for a, n in pattern.separation:
        line = [c for c in line if not any(0 < c[index(a)] - x[index(a)] < n for x in line)]
    return line


ONCE, BOTH = Pattern(("age",)), Pattern(("age", "sex"))
PATTERNS = [
    NO_PATTERN,
    ONCE,
    BOTH,
    Pattern(per_value=(("age", 2),)),
    Pattern(per_value=(("place", 2), ("sex", 3))),
    Pattern(separation=(("age", 2),)),
    Pattern(fixed=("sex",)),
    Pattern(("age",), fixed=("place", "sex")),
    Pattern(("place",), (("sex", 3),), (("age", 2),), ("sex",)),
]


def by_source(sources, *bounds):
    """Return sources with bounds: "csv" and each database with all of them, and slow ones with the last.

    All others are relations of DuckDB, as "csv" is, and one statement bounds every relation. So each of them has the
    last bound and two of the others, dealt out in turn.
    """
    dealt = itertools.cycle(bounds[:-1])
    relations = [s for s in sources if s != "csv" and s not in ENGINES] if len(bounds) > 3 else []
    dealt_bounds = {s: (next(dealt), next(dealt), bounds[-1]) for s in relations}
    return [(s, *b) for s in sources for b in (bounds[-1:] if s in SLOW else dealt_bounds.get(s, bounds))]


def tables(cells):
    counts = {m: np.zeros([DOMAIN.sizes[a] for a in m], dtype=np.int64) for m in MARGINS}
    for sex, age, region in cells:
        cell = {"sex": sex, "age": age, "place": region, "town": region, "region": int(region == 2)}
        for m in MARGINS:
            counts[m][tuple(cell[a] for a in m)] += 1
    return counts


@pytest.fixture
def untried(one_engine, monkeypatch):
    """Engines that were tried elsewhere."""
    monkeypatch.setattr(sql, "refuse_unless_bounded", lambda *_, **__: None)


# --- the rule -----------------------------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("source", "max_records", "pattern"),
    by_source(SOURCES, (1, NO_PATTERN), (10**12, NO_PATTERN), (1, Pattern(("sex",))), *((3, p) for p in PATTERNS)),
)
def test_every_source_counts_the_same_records_of_each_person(source, max_records, pattern, held, untried):
    rows = people(25)
    expected = tables(x for records in counted_records(rows, max_records, pattern).values() for x in records)
    assert 25 * max_records >= expected[()] or max_records > 3
    for drop in (True, False):
        counter_opened = opened(source, held(source, tuple(rows)), max_records, pattern, drop=drop)
        counter_opened.check(["sex"])
        assert counter_opened.bound == RecordBound("person", max_records, pattern)
        same_counts(counter_opened.count(MARGINS), expected)
        same_counts(counter_opened.count([("sex",)]), {("sex",): expected["sex",]})
        assert counter_opened.count([]) == {}


@pytest.mark.parametrize("source", SOURCES)
def test_integers_are_ids_by_their_digits(source, tmp_path, untried):
    """The counted records of person 7 are the same with the id 7 and "7"."""
    rows = people(12)
    numbers = {name: 7 * i - 20 for i, name in enumerate(dict.fromkeys(x[3] for x in rows))}
    rows = [(*x[:3], numbers[x[3]], 0) for x in rows]
    expected = tables(x for records in counted_records(rows, 2).values() for x in records)
    same_counts(counter(source, rows, tmp_path, 2, kinds=KINDS | {"person": "int64"}).count(MARGINS), expected)


@pytest.mark.no_cover
@pytest.mark.parametrize("source", SOURCES)
def test_records_without_an_id_or_outside_are_dropped_or_refused(source, tmp_path, untried):
    """Also by attributes in no requested table; all are reported, and none has taken the place of another."""
    rows = people(9)
    odd = (
        [("f", 1, "a", None, 0)] * 5
        + [("f", 1, "a", "", 0)] * 2
        + [("x", 1, "a", "p7", 0)] * 30
        + [("f", None, "a", "p7", 0)]
    )
    expected = tables(x for records in counted_records(rows, 2).values() for x in records)
    same_counts(counter(source, odd + rows, tmp_path, 2).count(MARGINS), expected)
    refusing = counter(source, rows + odd, tmp_path, 2, drop=False)
    for margins in ([("age",)], MARGINS):
        with refused("data.records-without-id") as caught:
            refusing.count(margins)
        leaks_nothing(caught.value)
    with refused("data.records-outside-domain") as caught:
        counter(source, rows + odd[7:], tmp_path, 2, drop=False).count([("place",)])
    leaks_nothing(caught.value)


def test_no_records_are_zero_counts(tmp_path, untried):
    for source in SOURCES:
        same_counts(counter(source, [], tmp_path, 2, drop=False).count(MARGINS), tables([]))


@pytest.mark.parametrize(
    ("value", "name"),
    [("p", "p"), ("", None), (" ", " "), (7, "7"), (-7, "-7"), (np.int8(7), "7"), (7.0, None), (np.float64(7), None),
     (float("nan"), None), (True, None), (np.True_, None), (None, None), (b"p", None), ("\ud800", None),
     (10**30, "1" + "0" * 30), ("é" * 512, "é" * 512), ("é" * 512 + "x", None)],
)  # fmt: skip
def test_an_id_is_a_text_or_an_integer(value, name):
    assert person_id(value) == name


def test_python_objects_are_no_ids_for_each_other(tmp_path):
    """1 == 1.0 == True, and a float has several texts: other values than ids are dropped or reported, not guessed."""
    ids = [1, "1", 1.0, True, np.int64(1), "1.0", None, float("nan")]
    frame = pd.DataFrame(
        {"sex": ["f"] * 8, "age": [0, 1, 2, 2, 3, 3, 0, 0], "place": ["a"] * 8, "person": pd.Series(ids, dtype=object)}
    )
    counts = open_counter(frame, DOMAIN.axes, DataSource(outside_domain=DROP), RecordBound("person", 2)).count([()])
    assert counts[()] == 3  # two of "1", one of "1.0"
    with refused("data.records-without-id"):
        open_counter(frame, DOMAIN.axes, DataSource(), RecordBound("person", 2)).count([()])


@pytest.mark.slow
def test_values_of_sqlite_have_types_of_their_own(tmp_path):
    path = tmp_path / "x.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE people (person, sex TEXT, age INTEGER, place TEXT)")
        ids = ["1", 1, 1.0, b"1", None, "", "01"]
        db.executemany("INSERT INTO people VALUES (?, 'f', ?, 'a')", [(x, i % 4) for i, x in enumerate(ids * 2)])
        db.commit()
    counter_opened = open_counter(
        path, DOMAIN.axes, DataSource(table="people", outside_domain=DROP), RecordBound("person", 3)
    )
    assert counter_opened.count([()])[()] == 5  # three of "1", two of "01"
    with refused("data.records-without-id"):
        open_counter(path, DOMAIN.axes, DataSource(table="people"), RecordBound("person", 3)).count([()])


def test_records_are_held_by_person_and_handed_over_in_pieces(monkeypatch):
    monkeypatch.setattr("fitnoise.kernel.counting.persons._RECORDS_PER_BATCH", 2)
    persons = PersonSelector(3, ("a",))
    persons.add([b"a", b"a", b"b", b"a"], [(0, 7), (0, 7), (1, 8), (2, 9)])
    persons.add([b"b"] * 9, [(i % 2, 8) for i in range(9)])
    pieces = list(persons.iter_counted())
    assert [len(x) for x in pieces] == [2, len(pieces[-1])]
    counted = Counter()
    for cells, n in itertools.chain(*pieces):
        counted[cells] += n
    assert sum(counted.values()) == 6
    assert (counted[0, 7], counted[2, 9]) == (2, 1)
    once = PersonSelector(3, ("a",), Pattern(("a",)))
    once.add([b"a"] * 9, [(i % 4, 7) for i in range(9)])
    assert [n for part in once.iter_counted() for _, n in part] == [1, 1, 1]


# --- what a person can move: the audit of neighbours ----------------------------------------------------------------


def keeps(counts, max_records, pattern):
    """Return True if records, as counts by sex, age and place, keep to the bound and the pattern."""
    held = [
        dict(zip(ATTRIBUTES, c, strict=True)) for c in np.argwhere(counts).tolist() for _ in range(counts[tuple(c)])
    ]
    caps = [(pattern.once_per, 1)] if pattern.once_per else []
    caps += [((a,), n) for a, n in pattern.per_value]
    pairs = list(itertools.combinations(held, 2))
    return (
        len(held) <= max_records
        and all(max(Counter(tuple(r[a] for a in names) for r in held).values()) <= n for names, n in caps)
        and all(abs(x[a] - y[a]) >= n for x, y in pairs for a, n in pattern.separation)
        and all(x[a] == y[a] for x, y in pairs for a in pattern.fixed)
    )


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("source", "max_records", "pattern"),
    by_source(SOURCES, (1, NO_PATTERN), (10**12, NO_PATTERN), (3, PATTERNS[1]), (3, PATTERNS[-1])),
)
def test_every_source_tells_of_how_many_persons_records_are_left_out(source, max_records, pattern, held, untried):
    """It counts the persons with more records inside the domain than are counted; one more person adds one."""
    rows = people(25)
    rows = [(*x[:3], x[3] if i % 7 else None, 0) for i, x in enumerate(rows)] + [("x", 1, "a", "p7", 0)] * 30
    expected = 0
    for person, counted in counted_records(rows, max_records, pattern).items():
        records = [x[:3] for x in rows if x[3] == person]
        inside = [x for x in records if None not in (DOMAIN[a].cell(v) for a, v in zip(DOMAIN, x, strict=True))]
        expected += len(counted) < len(inside)
    assert (expected > 5) == (max_records < 10)
    for drop in (True, False):
        assert opened(source, held(source, tuple(rows)), max_records, pattern, drop=drop).left_out() == expected


def test_data_without_persons_do_not_count_left_out_records(tmp_path):
    path = tmp_path / "x.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE people (person TEXT, sex TEXT, age INTEGER, place TEXT)")
        db.commit()
    for data in (np.zeros(DOMAIN.shape, dtype=int), stored([]).arrow(), path):
        with refused("data.left-out-not-counted"):
            open_counter(data, DOMAIN.axes, DataSource(table="people")).left_out()


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("source", "max_records", "pattern"),
    by_source(["csv", "arrow table", "pandas objects", *ENGINES], (1, NO_PATTERN), *((4, p) for p in PATTERNS)),
)
def test_a_person_moves_at_most_so_many_records_and_nobody_else_s(source, max_records, pattern, held, untried):
    """Persons with many records come, go, move and become others, with hostile ids; the rest in another order."""
    rng, rows = np.random.default_rng(5), people(20, seed=8)

    def count(chosen_rows):
        return opened(source, held(source, tuple(chosen_rows)), max_records, pattern).count(MARGINS)

    full = count(rows)
    for person in (FEW[0], FEW[1], FEW[2], FEW[8]) if source not in SLOW else (FEW[0],):
        others = [x for x in rows if x[3] != person]
        less = count(others[i] for i in rng.permutation(len(others)))
        counted = tables(counted_records([x for x in rows if x[3] == person], max_records, pattern)[person])
        assert counted[()] > 0
        same_counts({m: full[m] - less[m] for m in MARGINS}, counted)
        assert keeps(full[ATTRIBUTES] - less[ATTRIBUTES], max_records, pattern)
        for name in (person, FEW[3], "someone else"):
            if name in {x[3] for x in others}:
                continue
            added = [(*record(rng), name, 0) for _ in range(int(rng.integers(1, 300)))]
            now = count((others + added)[i] for i in rng.permutation(len(others) + len(added)))
            gained = {m: now[m] - less[m] for m in MARGINS}
            assert all((x >= 0).all() and x.sum() > 0 for x in gained.values())
            assert keeps(gained[ATTRIBUTES], max_records, pattern)
            same_counts(gained, tables(counted_records(added, max_records, pattern)[name]))


@pytest.mark.no_cover
@pytest.mark.parametrize("pattern", PATTERNS)
def test_who_keeps_to_the_pattern_loses_nothing(pattern):
    """Three records of a person that keep to the pattern are all counted, and other triples in part."""
    cells = [(sex, age, region) for sex in range(2) for age in (0, 2, 5) for region in range(3)]
    kept_sets = 0
    for chosen in itertools.combinations_with_replacement(cells, 3):
        persons = PersonSelector(3, ATTRIBUTES, pattern)
        persons.add([b"p"] * 3, chosen)
        counted = np.zeros((2, 6, 3), dtype=int)
        for c, n in (x for part in persons.iter_counted() for x in part):
            counted[c] += n
        counts = np.zeros_like(counted)
        np.add.at(counts, tuple(np.array(chosen).T), 1)
        assert keeps(counted, 3, pattern)
        assert (counted <= counts).all()
        assert (counted == counts).all() == keeps(counts, 3, pattern)
        kept_sets += keeps(counts, 3, pattern)
    assert kept_sets > 0


@pytest.mark.no_cover
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_record_more_moves_as_many_records_of_its_person_as_others_pay_for(pattern):
    """Other units, such as a record, pay for this number if the records of persons are bounded."""
    rng, largest = np.random.default_rng(2), 0
    unit = fn.PrivacyUnit("person", 3, ADD, "person", *pattern)
    charges = DOMAIN.axes.adjacency(DataSource(outside_domain=DROP), unit).for_unit(fn.PrivacyUnit()).records
    for _ in range(400):
        records = [(*record(rng), "p", 0) for _ in range(int(rng.integers(1, 12)))]
        increased = [*records, (*record(rng), "p", 0)]
        before, after = (Counter(counted_records(x, 3, pattern)["p"]) for x in (records, increased))
        largest = max(largest, (after - before).total(), (before - after).total())
    assert largest <= charges
    assert not pattern.fixed or largest > 1


# --- columns that are no ids ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["double", "float", "decimal", "bool"])
@pytest.mark.parametrize("source", ["parquet pattern", "duckdb", "arrow table", "pandas", *ENGINES])
def test_ids_are_integers_or_texts(source, kind, tmp_path, untried):
    if (source, kind) == ("pandas", "decimal"):
        pytest.skip("a column of Python objects, of which none is an id")
    value = {"double": 7.0, "float": 7.0, "decimal": 7, "bool": True}[kind]
    rows = [("f", 1, "a", value, 0)] * 3
    with refused("data.id-column-of-wrong-type") as caught:
        counter(source, rows, tmp_path, 2, kinds=KINDS | {"person": kind}).check(["sex"])
    leaks_nothing(caught.value)


@pytest.mark.no_cover
@pytest.mark.parametrize("source", SOURCES)
def test_a_column_that_is_not_there_or_there_twice(source, tmp_path):
    source_maker = zoo.COUNTERS[source]
    data, where = source_maker.make(stored(people(2)), tmp_path), DataSource(table=source_maker.table)
    with refused("data.column-missing") as caught:
        open_counter(data, DOMAIN.axes, where, RecordBound("pid", 1)).check(["sex"])
    leaks_nothing(caught.value)
    open_counter(data, DOMAIN.axes, where, RecordBound("PERSON", 1)).check(["sex"])
    lacking = pa.table({"sex": ["f"], "place": ["a"], "person": ["p"]})
    with refused("data.column-missing"):
        open_counter(lacking, DOMAIN.axes, DataSource(), RecordBound("person", 1)).check(["sex"])
    twice = pa.Table.from_arrays([pa.array(["p"])] * 2, ["person", "Person"])
    with refused("data.column-ambiguous"):
        open_counter(twice, fn.Domain(person=fn.Categorical(["p"])).axes, DataSource(), RecordBound("PERSON", 1)).check(
            ["person"]
        )


@pytest.mark.parametrize("once", [("region",), ("Age",), ("person",), ("sex", "week")])
def test_records_are_counted_once_per_attributes_of_the_domain(once):
    with refused("data.pattern-attribute-unknown"):
        open_counter(pa.table({"person": ["p"]}), DOMAIN.axes, DataSource(), RecordBound("person", 2, Pattern(once)))


def test_an_array_of_counts_knows_no_persons():
    assert (
        open_counter(np.zeros(DOMAIN.shape, dtype=int), DOMAIN.axes, DataSource(), RecordBound("person", 1)).bound
        is None
    )
    assert HistogramCounter(np.zeros(DOMAIN.shape, dtype=int), DOMAIN.axes).bound is None


# --- the trial ------------------------------------------------------------------------------------------------------

HASHED = replace(DUCKDB, digest="md5({x})", bytes="octet_length({c})")


def tried(d, kind=ColumnKind.TEXT, *, drop=True, pattern=NO_PATTERN, **options):
    engine_check.refuse_unless_bounded(in_duckdb(), d, "the database", kind, drop=drop, pattern=pattern, **options)


@pytest.mark.no_cover
@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("kind", [ColumnKind.TEXT, ColumnKind.INTEGER, ColumnKind.ANY])
@pytest.mark.parametrize("sets", [True, False])
def test_an_engine_that_counts_the_first_of_each_person_is_admitted(sets, kind, drop):
    for pattern in PATTERNS:
        tried(replace(HASHED, sets=sets), kind, drop=drop, pattern=pattern, uncounted=True)


FLAWS = {
    "capitals": {"text": "encode(lower(CAST({c} AS VARCHAR)))"},
    "blanks": {"text": "encode(rtrim(CAST({c} AS VARCHAR), ' '))"},
    "accents": {"text": "encode(strip_accents(CAST({c} AS VARCHAR)))"},
    "composed": {"text": "encode(nfc_normalize(CAST({c} AS VARCHAR)))"},
    "collation": {
        "text": "CAST({c} AS VARCHAR) COLLATE NOCASE",
        "code": "decode(from_hex('{h}'))",
        "bytes": "strlen({c})",
    },
    "short texts": {"text": "encode(left(CAST({c} AS VARCHAR), 255))"},
    "another digest": {"digest": "sha1({x})"},
    "digests that are all the same": {"digest": "md5(encode('x'))"},
    "empty ids": {"bytes": "1 + octet_length({c})"},
    "other digits": {"digits": "'+' || CAST({x} AS VARCHAR)"},
}


@pytest.mark.no_cover
@pytest.mark.parametrize("pattern", [NO_PATTERN, ONCE])
@pytest.mark.parametrize("flaw", FLAWS)
def test_an_engine_that_counts_others_is_not_admitted(flaw, pattern):
    with refused("data.engine-bounds-differently") as caught:
        tried(replace(HASHED, **FLAWS[flaw]), pattern=pattern)
    leaks_nothing(caught.value)


@pytest.mark.parametrize("pattern", PATTERNS[1:])
def test_an_engine_that_counts_persons_out_of_their_pattern_is_not_admitted(pattern, monkeypatch):
    original = engine_check.PersonColumn
    monkeypatch.setattr(engine_check, "PersonColumn", lambda *arguments: original(*arguments[:-1]))
    tried(HASHED)
    with refused("data.engine-bounds-differently"):
        tried(HASHED, pattern=pattern)


def test_an_engine_that_tells_other_records_without_an_id_is_not_admitted(monkeypatch):
    def fewer(*arguments, **options):
        counts, outside = count(*arguments, **options)
        return counts, {a: n and n - 1 for a, n in outside.items()}

    count = engine_check.count
    monkeypatch.setattr(engine_check, "count", fewer)
    tried(HASHED)
    with refused("data.engine-bounds-differently"):
        tried(HASHED, drop=False)


@pytest.mark.parametrize("pattern", [NO_PATTERN, PATTERNS[-1]])
@pytest.mark.parametrize("kind", [ColumnKind.TEXT, ColumnKind.INTEGER])
@pytest.mark.parametrize(("shares", "merge"), [(False, False), (True, False), (False, True)])
def test_duckdb_counts_the_declared_records_of_known_persons(kind, pattern, shares, merge, monkeypatch):
    monkeypatch.setattr(duck, "_BOUNDED", set())
    person_trial = PersonTrial(kind, NO_PATTERN if shares else pattern, shares, merge)
    assert {a: c.coding for a, c in person_trial.columns.items()} == {
        a: person_trial.domain[a].coding for a in person_trial.domain
    }
    duck._refuse_unless_bounded(person_trial)
    assert len(duck._BOUNDED) == 1


DUCKDB_FLAWS = {
    "an empty text is an id": ("_IS_ID", lambda _: "octet_length(p) BETWEEN 0 AND 1024"),
    "a long text is an id": ("_IS_ID", lambda _: "octet_length(p) >= 1"),
    "a record more counts": (
        "_bounded",
        lambda right: lambda *x, outside: right(*x[:3], x[3]._replace(max_records=4), outside=outside),
    ),
    "no rule is applied": ("kept_to", lambda _: lambda *_: iter(())),
    "no one is left out": ("_left_out_sql", lambda right: lambda *x: f"SELECT 0 FROM ({right(*x)}) persons"),
}
"""Faults of DuckDB's statements: the name that has the fault, and the faulty one made of the right one."""


@pytest.mark.no_cover
@pytest.mark.parametrize("flaw", DUCKDB_FLAWS)
def test_duckdb_counts_no_persons_if_its_statements_choose_others(flaw, monkeypatch):
    name, build = DUCKDB_FLAWS[flaw]
    monkeypatch.setattr(duck, "_BOUNDED", set())
    monkeypatch.setattr(duck, name, build(getattr(duck, name)))
    people = pa.table({"person": ["p"], "sex": ["f"]})
    opened = open_counter(
        people,
        fn.Domain(sex=fn.Categorical(["f"])).axes,
        DataSource(),
        RecordBound("person", 1, Pattern(once_per=("sex",))),
    )
    for action in (lambda: opened.count([()]), opened.left_out):
        with refused("data.engine-bounds-differently") as caught:
            action()
        leaks_nothing(caught.value)


@pytest.mark.no_cover
@pytest.mark.usefixtures("tried_once")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["string", "int64"])
def test_engines_are_tried_with_persons_before_they_count(engine, kind, tmp_path, monkeypatch):
    calls = []

    def asking(fetch, d, what, kind, *, drop, pattern, uncounted, shares, merge):
        calls.append((d.name, kind, pattern))
        assert not shares
        assert not merge
        assert uncounted == (len(calls) > 1)
        engine_check.refuse_unless_bounded(fetch, d, what, kind, drop=drop, pattern=pattern, uncounted=uncounted)

    monkeypatch.setattr(sql, "refuse_unless_bounded", asking)
    rows = [(*x[:3], 7 if kind == "int64" else "p", 0) for x in people(2)]
    for pattern in (NO_PATTERN, PATTERNS[-1]):
        calls.clear()
        counter_opened = counter(engine, rows, tmp_path, 2, pattern, drop=False, kinds=KINDS | {"person": kind})
        assert calls == []
        counted = counted_records([(*x[:3], str(x[3]), 0) for x in rows], 2, pattern)
        assert counter_opened.count([()])[()] == sum(map(len, counted.values()))
        assert counter_opened.left_out() == len(counted)
        assert calls == 2 * [(engine, {"string": ColumnKind.TEXT, "int64": ColumnKind.INTEGER}[kind], pattern)]


def test_an_engine_that_tells_of_other_persons_is_not_admitted(monkeypatch):
    original = engine_check.left_out
    monkeypatch.setattr(engine_check, "left_out", lambda *arguments, **options: original(*arguments, **options) - 1)
    tried(HASHED)
    with refused("data.engine-bounds-differently"):
        tried(HASHED, uncounted=True)


@pytest.mark.parametrize("name", ["mssql", "oracle"])
def test_engines_without_a_digest_of_utf_8_take_no_ids(name):
    where = Database(sa.create_engine("sqlite://"), DIALECTS[name])
    with refused("data.database-without-md5"):
        sql.SqlCounter(where, DOMAIN.axes, DataSource(table="people"), RecordBound("person", 1))


@pytest.mark.no_cover
@pytest.mark.skipif(not POSTGRESQL, reason="there is no wheel with PostgreSQL for this platform")
def test_fixed_texts_end_in_no_blank(monkeypatch):
    """Columns of CHAR(n), whose blanks some engines keep; and empty ones."""
    assert DIALECTS["postgresql"].person(ColumnKind.FIXED, "source.x") == 'CAST(RTRIM(source.x) AS TEXT) COLLATE "C"'
    with connected(postgresql()) as db:
        db.exec_driver_sql("CREATE TABLE fixed (person CHAR(4), sex TEXT, age INT, place TEXT)")
        for person in ("p", "p ", "P", "", "  "):
            db.exec_driver_sql(f"INSERT INTO fixed VALUES ('{person}', 'f', 1, 'a'), ('{person}', 'm', 1, 'a')")
    for max_records, expected in ((1, 2), (3, 5), (9, 6)):
        where = DataSource(table="fixed", outside_domain=DROP)
        assert (
            open_counter(postgresql(), DOMAIN.axes, where, RecordBound("person", max_records)).count([()])[()]
            == expected
        )
        for name in ("refuse_unless_right", "refuse_unless_bounded"):  # the trial is the same for all caps
            monkeypatch.setattr(sql, name, lambda *_, **__: None)


# --- what it costs, and on which account ---------------------------------------------------------------------------

ADD, REPLACE = fn.Neighbours
CELLS = fn.Domain(o=fn.Ordered(0, 1), a0=fn.Ordered(1, 3))


class ByPerson(Counting):
    """No records, of persons by an id."""

    def __init__(self, bound, shape=None):
        self._bound, self._shape = bound, shape

    drops = False

    @property
    def bound(self):
        return self._bound

    def check(self, attributes):
        pass

    def count(self, margins, progress=None):
        return {m: np.zeros(self._shape or [CELLS.sizes[a] for a in m], dtype=np.int64) for m in margins}


def by_id(max_records=2, neighbours=ADD, name="person", column="pid"):
    return fn.PrivacyUnit(name, max_records, neighbours, column)


def measured(base, ledger, bound="as ordered"):
    bound = base.unit.bound if bound == "as ordered" else bound
    return measuring.measure(base, ByPerson(bound), ledger, noise=Replay()).charge


BOUNDS = [RecordBound("pid", 3), RecordBound("PID", 2), RecordBound("pid", 1), RecordBound("pid", 2, Pattern(("o",)))]


@pytest.mark.parametrize("bound", [None, *BOUNDS])
def test_data_that_are_counted_otherwise_than_was_priced_are_refused(bound):
    for base, given_bound in ((order(SECTORS, unit=by_id()), bound), (order(SECTORS), RecordBound("pid", 2))):
        with Ledger(":memory:") as ledger:
            with refused("data.bound-differs"):
                measured(base, ledger, given_bound)
            assert ledger.entries() == []


@pytest.mark.parametrize("neighbours", fn.Neighbours)
def test_persons_by_an_id_pay_for_as_many_records_as_are_counted(neighbours):
    """Replacing costs at least as much as coming or going."""
    for max_records in (1, 2, 5):
        base = order(SECTORS, PURE, unit=by_id(max_records, neighbours))
        steps = (neighbours,) if neighbours is ADD else (REPLACE, ADD)
        assert base.loss.rho >= max(
            order(SECTORS, PURE, unit=fn.PrivacyUnit("x", max_records, s)).loss.rho for s in steps
        )
        if neighbours is ADD:
            assert base.loss.rho == order(SECTORS, PURE, unit=fn.PrivacyUnit("person", max_records)).loss.rho


def test_releases_of_any_number_of_records_are_charged_to_one_account():
    with Ledger(":memory:") as ledger:
        charges = [
            measured(order(SECTORS, unit=by_id(max_records), plan=f"{max_records:064}"), ledger).rho
            for max_records in (1, 12)
        ]
        (account,) = ledger.accounts()
        assert account == Account("homes", fn.PrivacyUnit("person", id="pid"))
        assert charges[1] > 100 * charges[0]
        assert ledger.balance(account).spent == sum(charges)


def test_what_releases_by_an_id_cost_others():
    """A record more may push out another; the same persons pay the same, however they are declared; others unknown."""
    base = order(SECTORS, unit=by_id(5))
    swap = order(SECTORS, unit=fn.PrivacyUnit("record", 1, REPLACE)).loss.rho
    assert base.cost(fn.PrivacyUnit()).rho == max(swap, order(SECTORS, unit=fn.PrivacyUnit()).loss.rho)
    assert base.cost(fn.PrivacyUnit("person", 3)).rho == base.loss.rho
    assert base.cost(by_id(1, name="home")) is None
    with Ledger(":memory:") as ledger:
        entry = measured(base, ledger)
        once, twice, home = (Account("homes", u) for u in (fn.PrivacyUnit(), PERSON, by_id(name="home")))
        assert entry.price(once).rho == 4 * entry.rho  # two changes of a person, for each record
        assert entry.price(twice).rho == entry.rho
        assert entry.price(home) is None
        with refused("ledger.cap-never-fits"):
            ledger.set_cap(home, Fraction(1))
        assert ledger.balance(once).spent == 4 * entry.rho


PERSON = fn.PrivacyUnit("person", 3)


@pytest.mark.parametrize("other", [fn.PrivacyUnit(), fn.PrivacyUnit("home", 5), fn.PrivacyUnit("home", 1, REPLACE)])
@pytest.mark.parametrize("neighbours", fn.Neighbours)
def test_what_earlier_releases_by_an_id_cost_is_never_less_than_it_was(other, neighbours):
    """The account does not state the number of counted records, so another unit's price does not bound the person's."""
    base = order(SECTORS, unit=by_id(12, neighbours=neighbours), units=(other,))
    later = [
        *(by_id(g, neighbours=n) for n in fn.Neighbours for g in (1, 12)),
        *(
            fn.PrivacyUnit(name, g, n)
            for name in ("person", "record", "home")
            for n in fn.Neighbours
            for g in (1, 3, 20)
        ),
        by_id(1, column="other"),
    ]
    with Ledger(":memory:") as ledger:
        entry = measured(base, ledger)
        for unit in later:
            charged, cost = entry.price(Account("homes", unit)), base.cost(unit)
            assert charged is None or (cost is not None and charged.rho >= cost.rho)
        charged = entry.price(Account("homes", by_id(1, neighbours=neighbours)))
        assert charged is not None
        assert charged.rho == entry.rho


def test_another_id_is_another_person_of_whom_nothing_is_known():
    """300 rows of one person may be those of 100 under another id."""
    base = order(SECTORS, unit=by_id(1))
    other = by_id(1, column="other")
    assert base.cost(other) is None
    with Ledger(":memory:") as ledger:
        measured(base, ledger)
        with refused("ledger.cap-never-fits"):
            ledger.set_cap(Account("homes", other), Fraction(10**6))


def test_what_releases_without_an_id_cost_persons_by_one():
    """The cost is that of the bound declared for units of their name; without one, a cap refuses the release."""
    with Ledger(":memory:") as ledger:
        mine = measured(order(SECTORS, unit=by_id(1)), ledger).account
        promised = measured(order(SECTORS, unit=PERSON), ledger)
        assert promised.price(mine).rho == promised.rho
        ledger.set_cap(Account("homes", fn.PrivacyUnit()), Fraction(10**6))
        ledger.set_cap(mine, Fraction(10**6))
        with refused("ledger.cost-unbounded"):
            measured(order(SECTORS, unit=fn.PrivacyUnit()), ledger)


def test_plans_by_an_id_are_composed_with_no_others():
    with Ledger(":memory:") as ledger:
        measured(order(SECTORS, unit=by_id(), plan="1" * 64), ledger)
        with refused("plan.composed-plans-with-id"):
            measured(order(SECTORS, unit=by_id(), plan="2" * 64, composed_with=("1" * 64,)), ledger)


def test_records_are_counted_by_one_id():
    order(SECTORS, unit=by_id(), units=(by_id(neighbours=REPLACE), fn.PrivacyUnit("home", 5)))
    for other in (by_id(3), by_id(column="x"), by_id(name="home")):
        with refused("plan.unit-with-another-id"):
            order(SECTORS, unit=by_id(), units=(other,))


# --- from a specification to a release -------------------------------------------------------------------------------

SPEC = """
[data]
source = "clinic"

[privacy]
unit = "person"
id = "pid"
max_records = 3

[domain.sex]
type = "categorical"
codes = ["f", "m"]

[[tables]]
attributes = ["sex"]
margin = 5.0
"""


def write_spec(folder, extra="", max_records=3):
    (folder / "spec.toml").write_text(SPEC.replace("= 3", f"= {max_records}") + extra, encoding="utf-8")
    return fn.load_spec(folder / "spec.toml")


@pytest.mark.no_cover
def test_a_person_with_ten_thousand_records_counts_as_three(tmp_path, monkeypatch):
    """The held example: she moved one number by hundreds of standard errors. Her plan, release and ledger say how."""
    publication = write_spec(tmp_path)
    assert Spec.from_publication(publication).publication() == publication
    plan = fn.plan(publication)
    frame = pd.DataFrame({"pid": ["x"] * 10_000 + ["y", "z"], "sex": ["f"] * 10_000 + ["m", "f"]})
    release = fn.release(plan, frame, ledger=tmp_path / "l.db", directory=tmp_path / "r")
    assert (abs(release["sex"]["value"] - [4, 1]) < 40).all()
    assert fn.verify(tmp_path / "r").ok
    document = json.loads((tmp_path / "r" / "release.json").read_text())
    assert in_words(document["tables"][0]["universe"]) == [
        "counted: records of clinic",
        "counted: at most 3 records of each person",
    ]
    charge = document["charge"]
    assert charge["privacy_unit"] == {"id": "report.unit.add_or_remove_one", "unit": "person"}
    assert in_words(charge["records"])[:2] == ["at most 3 records of each person", ENFORCED]
    for report in (plan_report(plan), release_report(release)):
        text = "\n".join(lines(report))
        assert "fitnoise enforces this by the column 'pid'" in text
        assert "records of clinic, up to the bound on the records of one unit" in text
    for language, sentence in (("en", "of each person: at most 3"), ("de", "jeder Einheit („person“): höchstens 3")):
        page = fn.report(release, tmp_path / f"{language}.html", language=language).read_text(encoding="utf-8")
        assert f"{sentence}." in page
    with fn.Ledger(tmp_path / "l.db") as ledger:
        assert [a.sentence for a in ledger.accounts()] == ["one person (by 'pid'), add-or-remove-one"]
        entries = ledger.entries()
        wrong = {"pid": [1.0], "sex": ["f"]}
        for data in (frame.drop(columns="pid"), pd.DataFrame(wrong), frame.assign(pid=None), np.array([3, 4])):
            with refused(
                "data.bound-differs", "data.column-missing", "data.id-column-of-wrong-type", "data.records-without-id"
            ):
                fn.release(plan, data, ledger=ledger, again=True)
        assert ledger.entries() == entries


MONTHLY = """
[data]
source = "clinic"

[privacy]
unit = "person"
id = "pid"
max_records = 12
once_per = ["month"]

[domain.month]
type = "categorical"
codes = ["jan", "feb", "mar"]

[domain.sex]
type = "categorical"
codes = ["f", "m"]

[[tables]]
attributes = ["month", "sex"]
margin = 5.0
"""


@pytest.mark.no_cover
def test_a_person_with_ten_thousand_records_counts_once_a_month(tmp_path, capsys):
    """From a specification to a release that verifies; one that claims otherwise afterwards does not."""
    (tmp_path / "spec.toml").write_text(MONTHLY, encoding="utf-8")
    publication = fn.load_spec(tmp_path / "spec.toml")
    assert publication.unit == fn.PrivacyUnit("person", 12, ADD, "pid", ("month",))
    assert Spec.from_publication(publication).publication() == publication
    plan = fn.plan(publication)
    assert plan.rho < fn.plan(replace(publication, unit=replace(publication.unit, once_per=()))).rho / 12
    frame = pd.DataFrame({"pid": ["x"] * 9000, "month": ["jan", "feb", "mar"] * 3000, "sex": ["f"] * 9000})
    release = fn.release(plan, frame, ledger=tmp_path / "l.db", directory=tmp_path / "r")
    assert (abs(release["month by sex"]["value"] - [1, 0] * 3) < 40).all()
    assert fn.verify(tmp_path / "r").ok
    path = tmp_path / "r" / "release.json"
    charge = json.loads(path.read_text())["charge"]
    assert charge["privacy_unit"] == {"id": "report.unit.add_or_remove_one", "unit": "person"}
    limits = ["at most 12 records of each person", "at most one record of each person in each cell of month"]
    assert in_words(charge["records"])[:3] == [*limits, ENFORCED]
    assert "in each cell of month" in "\n".join(lines(release_report(release)))
    with fn.Ledger(tmp_path / "l.db") as ledger:
        assert [a.sentence for a in ledger.accounts()] == ["one person (by 'pid'), add-or-remove-one"]
        assert ledger.entries()[0].rho >= plan.loss.rho
    for old, new in (("report.records.once_per", "report.records.fixed"), ('"records": 12', '"records": 1')):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        assert not fn.verify(tmp_path / "r").ok
        path.write_text(text)
    path_of_plan = tmp_path / "r" / "plan.json"
    plan_text = path_of_plan.read_text()
    assert '"once_per"' in plan_text
    for claim in ("[]", '["sex"]'):
        path_of_plan.write_text(re.sub(r'"once_per":\s*\[\s*"month"\s*\]', f'"once_per": {claim}', plan_text))
        assert path_of_plan.read_text() != plan_text
        assert not fn.verify(tmp_path / "r").ok
    assert _run(["plan", str(tmp_path / "spec.toml"), "--json", "--max-records", "1,3,12"]) == 0
    one, three, twelve = json.loads(capsys.readouterr().out)["bounds"]
    assert one["rho"] < three["rho"] == twelve["rho"] < 3.1 * one["rho"]


PANEL = """
[data]
source = "clinic"

[privacy]
unit = "person"
id = "pid"
max_records = 12
fixed = ["sex"]
separation = { month = 3 }
per_value = { clinic = 2 }

[domain.month]
type = "ordered"
low = 1
high = 12

[domain.sex]
type = "categorical"
codes = ["f", "m"]

[domain.clinic]
type = "categorical"
codes = ["c", "d"]

[[tables]]
attributes = ["sex"]
cumulative = "month"
margin = 5.0
"""


def test_a_pattern_goes_from_a_specification_to_a_release_that_verifies(tmp_path):
    """A person in every month, once as a woman, has at most four counted records, and costs no more."""
    (tmp_path / "spec.toml").write_text(PANEL, encoding="utf-8")
    publication = fn.load_spec(tmp_path / "spec.toml")
    pattern = {"per_value": {"clinic": 2}, "separation": {"month": 3}, "fixed": ["sex"]}
    assert publication.unit == fn.PrivacyUnit("person", 12, ADD, "pid", **pattern)
    assert Spec.from_publication(publication).publication() == publication
    plan = fn.plan(publication)
    assert Plan.from_json(plan.to_json()).hash == plan.hash
    anywhere = fn.plan(replace(publication, unit=fn.PrivacyUnit("person", 4, ADD, "pid")))
    assert plan.loss.rho < anywhere.loss.rho
    months = [1, 4, 7, 10, 12, 3]  # 3, 4 and 12 follow another one too soon
    people = 500
    frame = pd.DataFrame(
        {
            "pid": np.repeat(np.arange(people), len(months)),
            "month": months * people,
            "sex": ["m"] * (len(months) * people),
            "clinic": ["c", "d"] * (len(months) * people // 2),
        }
    )
    release = fn.release(plan, frame, ledger=tmp_path / "l.db", directory=tmp_path / "r")
    counting = open_counter(frame, publication.workload.domain.axes, publication.source, publication.unit.bound)
    counted = int(counting.count([()])[()])
    assert people < counted < 4 * people
    men = release["sex by month cumulative"].query("sex == 'm'")["value"]
    assert abs(men.iloc[-1] - counted) < 40
    assert fn.verify(tmp_path / "r").ok
    stated_records = json.loads((tmp_path / "r" / "release.json").read_text())["charge"]["records"]
    limits = [
        "at most 12 records of each person",
        "at most 2 records of each person for each value of clinic",
        "records of one person are at least 3 steps from each other in month",
        "all records of one person agree in sex",
    ]
    assert in_words(stated_records)[:5] == [*limits, ENFORCED]
    promised = replace(publication, unit=replace(publication.unit, id=None))
    records = document(plan_report(fn.plan(promised)))["records_of_units"]
    assert records == [*limits, "this is assumed, not checked"]
    assert fn.plan(promised).loss.rho == plan.loss.rho


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('"sex"]', '"Sex"]', "spec.pattern-attribute-unknown"),
        ("month = 3 }", "sex = 3 }", "spec.separation-needs-order"),
        ("high = 12", "high = 12\nmissing = { gone = [-1] }", "spec.separation-needs-order"),
        ("clinic = 2", "town = 2", "spec.pattern-attribute-unknown"),
        ("clinic = 2", "clinic = 0", "spec.unit-limits-invalid"),
        ('unit = "person"\nid = "pid"', "", "spec.pattern-needs-unit-name"),
    ],
)
def test_a_pattern_that_cannot_be_kept_is_refused(tmp_path, old, new, code):
    assert old in PANEL
    (tmp_path / "spec.toml").write_text(PANEL.replace(old, new, 1), encoding="utf-8")
    with refused(code):
        fn.load_spec(tmp_path / "spec.toml")


def test_once_per_an_unknown_attribute_is_refused(tmp_path):
    for wrong, code in (
        ('["sex", "week"]', "spec.pattern-attribute-unknown"),
        ('["sex", "sex"]', "spec.unit-attributes-invalid"),
    ):
        (tmp_path / "spec.toml").write_text(MONTHLY.replace('["month"]', wrong, 1), encoding="utf-8")
        with refused(code):
            fn.load_spec(tmp_path / "spec.toml")


def test_each_unchecked_assumption_is_stated(tmp_path):
    plan = fn.plan(fn.Workload(CELLS, [fn.table("o", margin=9)]), unit=PERSON, other_units=[fn.PrivacyUnit("home", 9)])
    release = fn.release(plan, np.zeros((2, 3), dtype=int), ledger=tmp_path / "l.db", directory=tmp_path / "r")
    charge = json.loads((tmp_path / "r" / "release.json").read_text())["charge"]
    assumed = "this is assumed, not checked"
    assert in_words(charge["records"]) == ["at most 3 records of each person", assumed]
    assert in_words(charge["other_units"][0]["records"]) == ["at most 9 records of each home", assumed]
    for report in (plan_report(plan), release_report(release)):
        text = "\n".join(lines(report))
        assert re.search(r"of each person\n +this is assumed, not checked\n", text)
        assert re.search(r"of each home\n +this is assumed, not checked", text)
    single = fn.plan(fn.Workload(CELLS, [fn.table("o", margin=9)]))
    assert "assumed" not in "\n".join(lines(plan_report(single)))


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        ('[[privacy.other_units]]\nunit = "home"\npersons = 5\n', "spec.persons-with-id"),
        (
            '[[privacy.other_units]]\nunit = "person"\nmax_records = 4\nneighbours = "replace-one"\n',
            "spec.units-look-alike",
        ),
    ],
)
def test_invalid_further_units_with_an_id_are_refused(tmp_path, extra, code):
    with refused(code):
        write_spec(tmp_path, extra)


def test_other_relations_of_the_same_persons_have_the_same_id(tmp_path):
    extra = '[[privacy.other_units]]\nunit = "person"\nmax_records = 3\nneighbours = "replace-one"\n'
    assert write_spec(tmp_path, extra).other_units == (by_id(3, REPLACE),)


def test_other_relations_of_the_same_persons_are_charged_separately(tmp_path):
    extra = '[[privacy.other_units]]\nunit = "person"\nmax_records = 3\nneighbours = "replace-one"\n'
    plan = fn.plan(write_spec(tmp_path, extra))
    assert plan.other_losses[0][1].rho >= plan.loss.rho
    fn.release(plan, pa.table({"pid": ["x"], "sex": ["f"]}), ledger=tmp_path / "l.db")
    with fn.Ledger(tmp_path / "l.db") as ledger:
        assert {a.sentence for a in ledger.accounts()} == {f"one person (by 'pid'), {n}" for n in fn.Neighbours}


@pytest.mark.parametrize("budget", ["", "[budget]\nrho = 0.5\n"])
def test_what_other_bounds_cost_is_shown_without_data(budget, tmp_path, capsys):
    """With targets the price grows with the square; with a budget margins grow."""
    extra = '[[privacy.other_units]]\nunit = "person"\nmax_records = 3\nneighbours = "replace-one"\n'
    write_spec(tmp_path, extra + budget)
    plan = ["plan", str(tmp_path / "spec.toml"), "--json", "--max-records"]
    assert _run([*plan, "1,2,8"]) == 0
    one, two, eight = json.loads(capsys.readouterr().out)["bounds"]
    assert [x["max_records"] for x in (one, two, eight)] == [1, 2, 8]
    grows = "factor" if budget else "rho"
    assert two[grows] / one[grows] == pytest.approx(2 if budget else 4, rel=1e-6)
    assert eight[grows] / one[grows] == pytest.approx(8 if budget else 64, rel=1e-6)
    for wrong in ("0", "1,,2", "1.5", "10000000000000", "one", "-1", ""):
        assert _run([*plan, wrong]) == 2
        message = json.loads(capsys.readouterr().err)["error"]["message"]
        assert message.startswith(f"--max-records is {wrong!r}. It needs whole numbers from 1 to 10^12")


def test_publications_by_an_id(tmp_path):
    workload = fn.Workload(CELLS, [fn.table("o", margin=9)])
    with refused("spec.composed-plans-with-id"):
        fn.Publication(workload, by_id(), composed_with=("1" * 64,))
    with refused("spec.further-unit-with-id"):
        fn.Publication(workload, by_id(), other_units=(by_id(name="home"),))
    with refused("spec.units-look-alike"):
        fn.Publication(workload, by_id(), other_units=(fn.PrivacyUnit("person", 2, REPLACE),))
    old = fn.table(groups={"a": {"old": 2, "oldest": 3}}, margin=fn.ByAttribute("a", [3, 9]))
    uneven = fn.Workload(fn.Domain(a=fn.Ordered(0, 3)), [old])
    for unit in (fn.PrivacyUnit("person", 2), by_id()):  # of which records pay less, depends on which are counted
        plan = fn.plan(uneven, unit=unit)
        text = "\n".join(lines(plan_report(plan)))
        assert (free_counts(plan) == ()) == (unit.id is not None)
        assert ("free" not in text) == (unit.id is not None)
    swap = fn.plan(workload, unit=by_id(1, REPLACE))
    public = fn.plan(workload, unit=fn.PrivacyUnit("person", 1, REPLACE), public=fn.KnownTotals((), "the register"))
    assert swap.rho >= public.rho * (1 - 1e-9)


LEFT_OUT = """
[[questions]]
name = "persons with more"
query = "left_out"
people = 1000
epsilon = "1/2"
"""


@pytest.mark.no_cover
def test_of_how_many_persons_records_are_left_out_goes_to_a_release_that_verifies(tmp_path, monkeypatch):
    """For its own ε, however many records of a person are counted; the truth is looked up before the charge."""
    plans = [fn.plan(write_spec(tmp_path, LEFT_OUT, max_records)) for max_records in (1, 3)]
    one, three = (p.order.losses[-1].epsilon for p in plans)
    assert 0 < one == three <= Fraction(1, 2)
    assert Spec.from_publication(plans[1].publication).publication() == plans[1].publication
    truths, answer = [], CellQuestion.answer
    monkeypatch.setattr(CellQuestion, "answer", lambda *arguments: truths.append(answer(*arguments)) or truths[-1])
    rows = pa.table({"pid": np.repeat([*range(40)], [4] * 9 + [3] * 31), "sex": ["f"] * 129})
    release = fn.release(plans[1], rows, ledger=tmp_path / "l.db", directory=tmp_path / "r")
    assert truths == [9]
    assert 0 <= release.finite["persons with more"].value <= 1000
    assert fn.verify(tmp_path / "r").ok
    charge = json.loads((tmp_path / "r" / "release.json").read_text())["charge"]
    assert charge["records"][-1] == {"id": "report.records.left_out", "question": "persons with more"}
    statement = "the question 'persons with more' estimates the number of units with records left out"
    assert statement in "\n".join(lines(plan_report(plans[1])))
    with Ledger(":memory:") as ledger:
        with refused("data.left-out-not-counted"):
            measuring.measure(plans[1].order, ByPerson(plans[1].publication.unit.bound, (2,)), ledger)
        assert ledger.entries() == []


def test_left_out_of_the_persons_is_the_same_question(tmp_path):
    """[privacy.left_out] is short for one of [[questions]]; it needs an id, and its errors name that section."""
    long = LEFT_OUT.replace("persons with more", "left_out")
    longer, short = (
        write_spec(tmp_path, text) for text in (long, '[privacy.left_out]\npeople = 1000\nepsilon = "1/2"\n')
    )
    assert short == longer
    assert Spec.from_publication(short).publication() == short
    with_name = write_spec(tmp_path, '[privacy.left_out]\nname = "more"\npeople = 9\nepsilon = 1\n')
    assert [q.name for q in with_name.questions] == ["more"]
    with refused("workload.people-out-of-range"):
        write_spec(tmp_path, "[privacy.left_out]\npeople = 0\nepsilon = 1\n")


def test_the_answer_on_left_out_records_differs_by_what_is_charged():
    """For every true number of persons, and one more or less; with the same mechanism for any number of records."""
    query = FiniteQuery.left_out("x", people=4, epsilon=1)
    adjacency = DOMAIN.axes.adjacency(DataSource(), by_id(7))
    design = AnswerDesign(
        query.in_domain(DOMAIN),
        DOMAIN.axes,
        geometric(query.graph(DOMAIN, adjacency), query.terms.record_epsilon(adjacency)),
    ).without_cache(adjacency)
    rows = []
    for n in range(7):
        source = Replay()
        design.draw(design.exact_answers(Tally({}, n), adjacency, 2**40), source)
        rows.append(law(*source.laws[0]))
    assert len(set(rows[:5])) == 5
    assert rows[4] == rows[5] == rows[6]
    max_ratio = exp_below(design.loss(adjacency).epsilon)
    for one, other in itertools.pairwise(rows + rows[::-1]):
        lhs, right = max_ratio.denominator * sum(other), max_ratio.numerator * sum(one)
        assert all(x * lhs <= y * right for x, y in zip(one, other, strict=True))
    with refused("plan.left-out-needs-id"):
        Order(DOMAIN.axes, DataSource(), PERSON, (design,), "0" * 64, "test design")
    base = Order(DOMAIN.axes, DataSource(), by_id(7), (design,), "0" * 64, "test design")
    assert base.cost(by_id(7, REPLACE)).epsilon == base.loss.epsilon == design.mechanism.log_ratio()
    assert base.cost(fn.PrivacyUnit()).epsilon == base.loss.epsilon
    assert base.cost(fn.PrivacyUnit("home", 9)).epsilon == 9 * base.loss.epsilon  # of as many persons
    assert base.cost(fn.PrivacyUnit("town", 10**9)) is None  # so little a person that no mechanism is made for it
