"""Conditions on records: all engines agree on them, apply them first, and reports state them."""

import contextlib
import datetime
import itertools
import json
import math
import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from engines import ENGINES, POSTGRESQL
from fitnoise.engines import open_counter, sql
from fitnoise.engines.dialects import DIALECTS
from fitnoise.engines.engine_check import refuse_unless_right
from fitnoise.engines.statements import Field, PersonColumn, _real, prepared
from fitnoise.errors import SpecError
from fitnoise.interfaces.render import lines
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.kernel.codings import Interval
from fitnoise.kernel.conditions import Condition, conditions
from fitnoise.kernel.counting import Dropped
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.measure import measure
from fitnoise.kernel.units import Account, Adjacency, DataSource, RecordBound
from fitnoise.messages import english
from fitnoise.reading.description import condition_message
from fitnoise.request.documents import Spec
from laws.counting import DROP, REFUSE, HistogramCounter, counted, leaks_nothing, same_counts
from laws.releases import by_command
from laws.reports import check_no_sentences, in_words
from records import Records, Sample
from refused import SECRET, refused
from test_databases import DUCKDB, GOLDEN_FILES, in_duckdb, post  # noqa: F401 - fixtures too

HOSTILE = "we\"ir`d [c]; --%s' {x} é"
"""A column's name."""

TEXTS = ["a", "A", "a ", "á", "", "it's", '"', "%s", "; --", "\\", "1", "01", "\U0001f600", None, "1.0", SECRET]
NUMBERS = [
    0, -0.0, 2, 2.0, 1.9999999999999998, 2.0000000000000004, -3, 0.1, 0.30000000000000004, 0.3, 2**53 - 1, 2**53, 7,
    2**53 + 1, 2**62, -(2**62), 1e300, 5e-324, math.nan, math.inf, -math.inf, None,
]  # fmt: skip

CONDITION_CASES = {
    "a text": (TEXTS, "a"),
    "texts": (TEXTS, ["it's", '"', "%s", "; --", "\\", "á", "\U0001f600", "1"]),
    "an empty text": (TEXTS, ["", "a"]),
    "digits, of numbers": ([1, 2, 3, -1, None], ["1", "01", "-1"]),
    "codes": (NUMBERS, {"values": [2, -3, 0]}),
    "truth": ([True, False, None], True),
    "any truth": ([True, False, None], [False, True]),
    "from, below": (NUMBERS, {"at_least": 0.3, "below": 7.5}),
    "up to": (NUMBERS, {"at_most": 2}),
    "above": (NUMBERS, {"above": 2}),
    "from": (NUMBERS, {"at_least": 2**53 - 1}),
    "above, below, far": (NUMBERS, {"above": 1e-320, "below": 9.2e18}),
}
"""Values that a column may hold, and a condition on it."""

FOLDERS = ["a text", "an empty text", "digits, of numbers", "any truth", "codes", "from, below"]
"""Conditions for names of folders: a name is read as a number, or not, for any bounds."""

KINDS = {str: ["string"], bool: ["bool"], int: ["int64", "double", "float", "decimal"]}
"""The types of columns that can hold values."""

PERSON = "person"


def column_types(case):
    """Return the types of columns that hold the requested values."""
    return ["int64"] if case.startswith("digits") else KINDS[type(CONDITION_CASES[case][0][0])]


def stored(values, kind, source):
    """Records with these values in a column that no attribute reads, as far as the source holds them."""
    sample = Sample(fn.Categorical(["-"], column=HOSTILE), kind, [], [])
    converted = [float(x) if kind in ("double", "float") and isinstance(x, int) else x for x in values]
    held = source.held(sample, converted)
    domain = fn.Domain(c=sample.attribute, x=fn.Ordered(0, 2), y=fn.Categorical(["u", "v"]))
    columns = {"c": held * 6, "x": [i // len(held) % 4 if held else 0 for i in range(6 * len(held))]}
    columns["y"] = ["uvv"[i % 3] for i in range(len(columns["x"]))]
    return Records(domain, columns, {"c": kind, "x": "int64", "y": "string"})


DOMAIN = fn.Domain(x=fn.Ordered(0, 2), y=fn.Categorical(["u", "v"]))
MARGINS = [("x", "y"), ("y",), ()]


def cells_of(records, matching):
    all_cells = {a: [DOMAIN[a].cell(v) for v in records.values[a]] for a in DOMAIN}
    return {a: np.array([-1 if c is None else c for c in cells], dtype=int)[matching] for a, cells in all_cells.items()}


@pytest.fixture
def untried(one_engine, monkeypatch):
    """Engines that were tried elsewhere."""
    monkeypatch.setattr(sql, "refuse_unless_bounded", lambda *_, **__: None)


SOURCES = [s for s in zoo.COUNTERS if not s.startswith("histogram")]


# --- the law --------------------------------------------------------------------------------------------------------


def trapped(source, cases, counter):
    """Records of which one condition each decides, as they meet all others: what is where, and which meets them all.

    Every value stands in two records, one of which is outside. A value that is read in another way than declared adds
    or removes one in a cell of its own.
    """
    traps, where, seen = [], {}, set()
    for name, kind in ((a, kind) for a in cases for kind in column_types(a)):
        values, column = CONDITION_CASES[name][0], f"{HOSTILE} {len(where)}"
        if source == "excel":  # whose files have fifteen digits of a number
            values = [x for x in values if not isinstance(x, float) or float(f"{x:.15g}") == x]
        converted = [float(x) if kind in ("double", "float") and isinstance(x, int) else x for x in values]
        sample = Sample(fn.Categorical(["-"], column=column), kind, [], [])
        held = counter.held(sample, converted)
        if (identity := (name, repr(held))) in seen:  # what has no types holds one and the same of several
            continue
        seen.add(identity)
        (condition,) = conditions({column: CONDITION_CASES[name][1]})
        coding = condition.coding
        matches = [coding.cell(v) is not None for v in held]
        if kind not in ("decimal", "int64"):  # of which sources hold few
            assert any(matches)
            assert not all(matches) or name == "any truth"
        if any(matches):
            traps.append((sample, held, matches))
            where[column] = CONDITION_CASES[name][1]
    meets = np.array([m for _, _, matches in traps for m in matches], dtype=bool)
    columns = {f"c{i}": [] for i in range(len(traps))}
    for i, (_, held, _) in enumerate(traps):
        for j, (_, others, matches) in enumerate(traps):
            columns[f"c{j}"] += (
                [v for v in held for _ in range(2)] if i == j else [others[matches.index(True)]] * 2 * len(held)
            )
    domain = fn.Domain(trap=fn.Ordered(0, len(meets) - 1), **{a: DOMAIN[a] for a in DOMAIN})
    full_domain = fn.Domain(
        {a: s.attribute for a, (s, _, _) in zip(columns, traps, strict=True)} | {a: domain[a] for a in domain}
    )
    places = np.repeat(np.arange(len(meets)), 2)
    columns |= {"trap": places.tolist(), "x": [3 if i % 2 else i // 2 % 3 for i in range(len(places))]}
    columns["y"] = ["uvv"[i % 3] for i in range(len(places))]
    kinds = {a: s.kind for a, (s, _, _) in zip(columns, traps, strict=False)} | {
        "trap": "int64",
        "x": "int64",
        "y": "string",
    }
    return Records(full_domain, columns, kinds), domain, where, meets[places]


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("source", "cases"),
    [(s, [*CONDITION_CASES]) for s in SOURCES if s != "csv lake"]
    + [("csv lake", [a]) for a in FOLDERS],  # one column is in their names
    ids=lambda x: x if isinstance(x, str) else x[0] if len(x) == 1 else "",
)
def test_every_source_counts_the_records_that_meet_a_condition(source, cases, tmp_path, untried):
    """Records outside the condition are neither counted nor reported, with any values; those inside it are reported."""
    source_case = zoo.COUNTERS[source]
    records, domain, where, matching = trapped(source, cases, source_case)
    margins = [("trap",), *MARGINS]
    cells = {a: np.array([domain[a].coding.cell_of(v) for v in records.values[a]], dtype=int)[matching] for a in domain}
    data = source_case.make(records, tmp_path)
    dropping = open_counter(data, domain.axes, DataSource(table=source_case.table, outside_domain=DROP, where=where))
    dropping.check(["x"])
    assert dropping.drops
    assert dropping.where == conditions(where)
    same_counts(dropping.count(margins), counted(domain, cells, margins))
    out = {a: c < 0 for a, c in cells.items()}
    by_attribute = {a: int(x.sum()) for a, x in out.items() if x.any()}
    assert dropping.dropped == Dropped(int(matching.sum()), int(np.any([*out.values()], axis=0).sum()), by_attribute)
    telling = open_counter(data, domain.axes, DataSource(table=source_case.table, outside_domain=REFUSE, where=where))
    assert telling.drops
    with refused("data.records-outside-domain") as caught:
        telling.count(margins)
    leaks_nothing(caught.value)
    inside = {a: cells[a] for a in ("trap", "y")}
    same_counts(telling.count([("trap", "y"), ()]), counted(domain, inside, [("trap", "y"), ()]))
    if len(cases) > 1:  # each alone decides, too, without requests for the others
        one = list(where)[len(where) // 2]
        single = open_counter(
            data, domain.axes, DataSource(table=source_case.table, outside_domain=DROP, where={one: where[one]})
        )
        (condition,) = single.where
        matches = [condition.coding.cell(v) is not None for v in records.columns[one]]
        everything = {a: np.array([domain[a].coding.cell_of(v) for v in records.values[a]])[matches] for a in domain}
        same_counts(single.count(margins), counted(domain, everything, margins))


@pytest.mark.parametrize("source", ["csv", "csv lake", "parquet", "duckdb", "arrow table", "pandas objects", *ENGINES])
def test_all_conditions_are_met_by_one_record(source, tmp_path, untried):
    """Also on columns that attributes read, and with more codes than are looked through one by one."""
    source_case = zoo.COUNTERS[source]
    records = stored(["a", "b", "c"], "string", source_case)
    codes = [f"{i}" for i in range(200)] + ["a", "c"]
    where = {HOSTILE: codes, "x": {"above": 0}, "y": "v"}
    matching = np.array(
        [c in codes and x > 0 and y == "v" for c, x, y in zip(*records.values.values(), strict=True)], dtype=bool
    )
    source = DataSource(table=source_case.table, outside_domain=DROP, where=where)
    got = open_counter(source_case.make(records, tmp_path), DOMAIN.axes, source).count(MARGINS)
    cells = cells_of(records, matching)
    same_counts(got, counted(DOMAIN, {a: np.where(cells["x"] < 0, -1, c) for a, c in cells.items()}, MARGINS))
    assert 0 < got[()] < len(records)


@pytest.mark.no_cover
def test_engines_are_tried_before_they_count_by_conditions(tmp_path):
    for source in ENGINES:
        source_case = ENGINES[source]
        records = stored(NUMBERS, "double", source_case)
        where = DataSource(table=source_case.table, outside_domain=DROP, where={HOSTILE: {"at_least": 0.3}})
        assert open_counter(source_case.make(records, tmp_path), DOMAIN.axes, where).count([()])[()] > 0
    for flaw in ("coalesce(CAST({c} AS DOUBLE), 1)", "least(CAST({c} AS DOUBLE), 1.7976931348623157e308)"):
        with refused("data.engine-counts-differently"):
            refuse_unless_right(in_duckdb(), replace(DUCKDB, double=flaw), "the database", drop=True)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_sqlite_has_bounds_exactly(x):
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        assert db.execute(f"SELECT {_real(x)}").fetchone() == (x,)


def test_folders_that_no_record_can_meet_are_not_opened(tmp_path):
    """Filters go before the reading: a condition on a folder's column leaves the files of others alone."""
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        frame = pd.DataFrame({"x": [0, 1, 2]})
        frame.to_parquet(tmp_path / f"year={year}" / "part.parquet")
    counter = open_counter(tmp_path, DOMAIN_X.axes, DataSource(where={"year": "2021"}))
    assert counter.count([("x",)])["x",].tolist() == [1, 1, 1]
    broken = tmp_path / "year=2020" / "part.parquet"
    content = broken.read_bytes()
    start = content.index(b"PAR1") + 4
    broken.write_bytes(content[:start] + bytes(20) + content[start + 20 :])
    assert counter.count([("x",)])["x",].tolist() == [1, 1, 1]
    with refused("data.records-not-counted"):
        open_counter(tmp_path, DOMAIN_X.axes, DataSource()).count([("x",)])


DOMAIN_X = fn.Domain(x=fn.Ordered(0, 2))


# --- persons: conditions come before the bound ------------------------------------------------------------------------


def clinic(rng, persons=20):
    """Visits (person, x, y, year)."""
    return [visit(rng, f"p{i}") for i in range(persons) for _ in range(int(rng.integers(1, 9)))]


def visit(rng, person):
    return person, int(rng.integers(0, 4)), "uv"[rng.integers(2)], int(rng.integers(2019, 2022))


def visits(source, rows, folder, where, max_records=None):
    source_case = zoo.COUNTERS[source]
    domain = fn.Domain(p=fn.Categorical(["-"], column=PERSON), **{a: DOMAIN[a] for a in DOMAIN}, year=fn.Ordered(0, 1))
    columns = zip(*rows, strict=True) if rows else [[]] * 4
    kinds = {"p": "string", "x": "int64", "y": "string", "year": "int64"}
    data = source_case.make(Records(domain, {a: list(c) for a, c in zip(domain, columns, strict=True)}, kinds), folder)
    data_source = DataSource(table=source_case.table, outside_domain=DROP, where=where)
    bound = None if max_records is None else RecordBound(PERSON, max_records)
    return open_counter(data, DOMAIN.axes, data_source, bound).count(MARGINS)


WHERE = {"year": {"at_least": 2020}}


@pytest.mark.no_cover
@pytest.mark.parametrize("max_records", [None, 1, 3])
@pytest.mark.parametrize("source", ["csv", "parquet", "duckdb", "arrow table", "pandas objects", *ENGINES])
def test_filtering_is_as_having_no_other_records(source, max_records, tmp_path, untried):
    """So a record that meets no condition takes no other's place, under any bound."""
    rows = clinic(np.random.default_rng(3))
    expected = visits(source, [r for r in rows if r[3] >= 2020], tmp_path, {}, max_records)
    same_counts(visits(source, rows, tmp_path, WHERE, max_records), expected)
    assert 0 < expected[()] < len(rows)


@pytest.mark.no_cover
@pytest.mark.parametrize("source", ["csv", "arrow table", *ENGINES])
@pytest.mark.parametrize("max_records", [1, 3])
def test_a_person_moves_at_most_so_many_records_over_conditions(source, max_records, tmp_path, untried):
    """Persons come, go, move over the condition and become others: the audit of neighbours."""
    rng = np.random.default_rng(7)
    rows = clinic(rng)
    full = visits(source, rows, tmp_path, WHERE, max_records)
    for person in ("p0", "p3", "p7"):
        others = [r for r in rows if r[0] != person]
        rows_of_person = [r for r in rows if r[0] == person]
        less = visits(source, others[::-1], tmp_path, WHERE, max_records)
        rows_before = [(p, x, y, 2019) for p, x, y, _ in rows_of_person]
        same_counts(visits(source, rows_before + others, tmp_path, WHERE, max_records), less)
        for replacement in (
            rows_of_person,
            [visit(rng, person) for _ in range(50)],
            [visit(rng, "new") for _ in range(2)],
        ):
            now = visits(source, replacement + others, tmp_path, WHERE, max_records)
            gained = {m: now[m] - less[m] for m in MARGINS}
            inside = sum(r[3] >= 2020 and r[1] < 3 for r in replacement)
            assert all((x >= 0).all() and x.sum() == min(max_records, inside) for x in gained.values())
        changed = {
            m: full[m] - visits(source, [visit(rng, person), *others], tmp_path, WHERE, max_records)[m] for m in MARGINS
        }
        assert all(abs(x).sum() <= 2 * max_records for x in changed.values())


# --- columns that no condition can be met by --------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize("source", ["csv", "parquet pattern", "duckdb", "arrow table", "pandas", *ENGINES])
def test_columns_that_are_not_there_there_twice_or_of_another_type(source, tmp_path):
    source_case = zoo.COUNTERS[source]
    records = stored(["a", "b"], "string", source_case)
    data = source_case.make(records, tmp_path)

    def opened(where, **options):
        open_counter(data, DOMAIN.axes, DataSource(table=source_case.table, where=where)).check(["x"], **options)

    opened({HOSTILE.upper(): "a"})
    with refused("data.column-missing") as caught:
        opened({"Z": SECRET})
    leaks_nothing(caught.value)
    if source == "csv":  # where all is text
        return
    cases = [("x", True, "true/false")]
    if source in {"mariadb", "clickhouse"}:  # others read numbers from texts, too
        cases += [(HOSTILE, 1, "numbers"), (HOSTILE, {"below": 2}, "numbers")]
    for column, value, message in cases:
        with refused("data.condition-column-of-wrong-type") as caught:
            opened({column: value})
        assert message in str(caught.value)
        leaks_nothing(caught.value)


def test_a_column_that_is_there_twice():
    twice = pa.Table.from_arrays([pa.array(["p"]), pa.array(["p"]), pa.array([1])], ["c", "C", "x"])
    with refused("data.column-missing"):
        open_counter(twice, DOMAIN_X.axes, DataSource(where={"cC": "p"})).check(["x"])
    open_counter(twice, DOMAIN_X.axes, DataSource(where={"C": "p"})).check(["x"])
    other = pa.Table.from_arrays([pa.array(["p"]), pa.array(["p"]), pa.array([1])], ["Ab", "aB", "x"])
    with refused("data.column-ambiguous"):
        open_counter(other, DOMAIN_X.axes, DataSource(where={"ab": "p"})).check(["x"])


@pytest.mark.skipif(not POSTGRESQL, reason="there is no wheel with PostgreSQL for this platform")
def test_fixed_texts_end_in_no_blank(post):  # noqa: F811 - a fixture
    url = post("CREATE TABLE people (c CHAR(3), x INT)", "INSERT INTO people VALUES ('a', 1), ('b', 2)")
    source = DataSource(table="people", where={"c": "a"})
    assert open_counter(url, DOMAIN_X.axes, source).count([("x",)])["x",].tolist() == [0, 1, 0]
    with refused("data.code-with-final-blank"):
        open_counter(url, DOMAIN_X.axes, replace(source, where={"c": "a "}))


def test_dates_and_nested_values_are_of_no_type_that_is_compared():
    for value in (datetime.date(2024, 1, 1), [1], b"a"):
        frame = pa.table({"c": [value], "x": [1]})
        with refused("data.condition-column-of-wrong-type"):
            open_counter(frame, DOMAIN_X.axes, DataSource(where={"c": "2024-01-01"})).check(["x"])


# --- statements, read by a person -----------------------------------------------------------------------------------


def golden(name):
    """Conditions of every kind, in the words of an engine."""
    d = DIALECTS[name]
    conditions_by_column = {
        "sex": (["f", "é'"], ColumnKind.TEXT),
        "state": ("a", ColumnKind.FIXED),
        "year": ({"at_least": 2020, "below": 2025}, ColumnKind.INTEGER),
        "income": ({"above": 0.5}, ColumnKind.DOUBLE),
        "wealth": ({"at_most": 1e6}, ColumnKind.DECIMAL),
        "owner": (True, ColumnKind.TRUTH),
        "size": ({"values": [1, -7]}, ColumnKind.INTEGER),
        "far": ({"below": 1e300}, ColumnKind.INTEGER),
    }
    where = [
        Field(conditions({a: x})[0].coding, k, f"source.{d.quoted(a)}") for a, (x, k) in conditions_by_column.items()
    ]
    fields = {"age": Field(Interval(0), ColumnKind.INTEGER, f"source.{d.quoted('age')}")}
    person = PersonColumn(ColumnKind.TEXT, f"source.{d.quoted('id')}", ["age"], 1)
    relation = ".".join(d.quoted(part) for part in ("census", f"the {d.marks[1]} people"))
    return prepared(d, relation, where, fields, person)[0].replace(" AND ", "\nAND ") + "\n"


@pytest.mark.parametrize("name", DIALECTS)
def test_conditions_are_those_that_were_read_by_a_person(name):
    """Write them again with `python tests/test_conditions.py`, and read what changed."""
    assert (GOLDEN_FILES / f"{name}, where.sql").read_text(encoding="utf-8") == golden(name)


def test_without_conditions_the_table_is_the_relation():
    d = DIALECTS["postgresql"]
    assert prepared(d, "people", [], {}, None) == ("people", {}, None)
    where = [Field(Interval(0), ColumnKind.INTEGER, "source.a")]
    sql = "(SELECT 0 AS v0 FROM people source WHERE source.a >= 0)"
    assert prepared(d, "people", where, {}, None) == (sql, {}, None)


# --- statements about conditions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ({"a": 0.5}, "spec.condition-value-invalid"),
        ({"a": None}, "spec.condition-value-invalid"),
        ({"a": b"x"}, "spec.condition-value-invalid"),
        ({"a": {"x", "y"}}, "spec.condition-value-invalid"),
        ({"a": []}, "spec.condition-empty"),
        ({"a": ["x", 1]}, "spec.condition-values-invalid"),
        ({"a": ["x", "x"]}, "spec.condition-values-invalid"),
        ({"a": 2**53}, "spec.condition-values-invalid"),
        ({"a": "\ud800"}, "spec.condition-values-invalid"),
        ({"a": {}}, "spec.condition-keys-invalid"),
        ({"a": {"least": 3}}, "spec.condition-keys-invalid"),
        ({"a": {"at_least": 1, "above": 0}}, "spec.condition-bounds-invalid"),
        ({"a": {"at_most": 1, "below": 2}}, "spec.condition-bounds-invalid"),
        ({"a": {"at_least": 3, "below": 3}}, "spec.condition-values-invalid"),
        ({"a": {"above": 3, "below": 3.0000000000000004}}, "spec.condition-values-invalid"),
        ({"a": {"above": 1.7976931348623157e308}}, "spec.condition-values-invalid"),
        ({"a": {"below": -1.7976931348623157e308}}, "spec.condition-values-invalid"),
        ({"a": {"at_least": math.nan}}, "spec.condition-bound-invalid"),
        ({"a": {"at_least": math.inf}}, "spec.condition-bound-invalid"),
        ({"a": {"at_least": 2**60}}, "spec.condition-bound-invalid"),
        ({"a": {"at_least": True}}, "spec.condition-bound-invalid"),
        ({"a": {"at_least": "3"}}, "spec.condition-bound-invalid"),
        ({"": 1}, "spec.condition-column-invalid"),
        ({3: 1}, "spec.condition-column-invalid"),
        ({"\ud800": 1}, "spec.condition-column-invalid"),
        (5, "spec.where-not-a-mapping"),
        ((5,), "spec.where-not-a-mapping"),
        ((Condition("a", (1,)), Condition("a", (2,))), "spec.condition-repeated"),
        ((Condition("a", (1,)), 5), "spec.where-not-a-mapping"),
        ((type("Other", (Condition,), {})("a", (1,)),), "spec.where-not-a-mapping"),
    ],
)  # fmt: skip
def test_conditions_that_say_nothing_that_can_be_met(condition, code):
    with refused(code):
        DataSource(where=condition)


@pytest.mark.parametrize(
    ("condition", "action"),
    [
        ({"at_least": "3"}, "Write 3 without quotes."),
        ({"at_least": "2.5 "}, "Write 2.5 without quotes."),
        ({"at_least": "soon"}, "Correct this bound."),
        ({"least": 3}, "Did you mean 'at_least'?"),
        ({"value": [3]}, "Did you mean 'values'?"),
        ({"values": 3}, "Write one of these forms."),
        ({3: 3}, "Write one of these forms."),
        ({}, "Write one of these forms."),
    ],
)
def test_an_error_about_a_condition_says_what_to_write(condition, action):
    with refused("spec.condition-bound-invalid", "spec.condition-keys-invalid") as caught:
        DataSource(where={"a": condition})
    assert caught.value.action == action


def test_a_condition_has_codes_or_bounds():
    with refused("spec.condition-bounds-invalid"):
        Condition("a", (1,), at_least=3)
    assert Condition("a", (1, 2.0)).codes == (1, 2)


def test_one_meaning_has_one_form_and_words():
    one = DataSource(where={"b": np.int64(3), "a": ["y", "x"], "c": {"at_least": -0.0, "below": np.float64(2.5)}})
    two = DataSource(where={"c": {"below": 2.5, "at_least": 0.0}, "a": ("x", "y"), "b": 3})
    assert one == two
    assert hash(one) == hash(two)
    assert replace(one) == one
    stated = [english(condition_message(c)) for c in one.conditions]
    assert stated == ["'a' is one of 'x', 'y'", "'b' is 3", "'c' is at least 0 and below 2.5"]
    assert [c.document for c in one.conditions] == [["x", "y"], 3, {"at_least": 0, "below": 2.5}]
    assert type(one.conditions[2].at_least) is int
    (long,) = DataSource(where={"\x1b": [str(i) for i in range(100, 130)]}).conditions
    printed_values = ", ".join(f"'{i}'" for i in range(100, 108))
    assert english(condition_message(long)) == f"'\\x1b' is one of {printed_values}, or one of 22 more"
    (logical,) = DataSource(where={"t": True}).conditions
    assert english(condition_message(logical)) == "'t' is true"


def test_each_choice_of_bounds_is_stated_in_words():
    texts = {"at_least": "at least 1", "above": "above 1", "at_most": "at most 9", "below": "below 9"}
    choices = [(x,) for x in texts] + [(x, y) for x in ("at_least", "above") for y in ("at_most", "below")]
    for names in choices:
        bounds = {name: int(texts[name].split()[-1]) for name in names}
        (condition,) = DataSource(where={"c": bounds}).conditions
        assert english(condition_message(condition)) == f"'c' is {' and '.join(texts[x] for x in names)}"


@given(st.floats(allow_nan=False, allow_infinity=False, max_value=1e308), st.floats())
def test_bounds_mean_what_they_say(bound, x):
    finite = math.isfinite(x)
    for name, is_match in {
        "at_least": x >= bound,
        "above": x > bound,
        "at_most": x <= bound,
        "below": x < bound,
    }.items():
        with contextlib.suppress(SpecError):  # of the last number
            (condition,) = conditions({"a": {name: bound}})
            assert (condition.coding.cell(x) == 0) == (finite and is_match)
            assert condition.coding.cell(None) is None


# --- the plan, its price, its account, the release ------------------------------------------------------------------


SPEC = """
[data]
source = "register"
where = { country = "SI", year = { at_least = 2020, below = 2022 }, kind = ["a", "b"] }

[domain.sex]
type = "categorical"
codes = ["f", "m"]

[[tables]]
attributes = ["sex"]
margin = 5
"""


@pytest.fixture
def register(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    records = itertools.product("fm", ("SI", "AT", "si", ""), (2019, 2020, 2021, 2022, ""), "abc")
    rows = [",".join(map(str, x)) for x in records]
    (tmp_path / "people.csv").write_text("sex,country,year,kind\n" + "\n".join(rows * 50) + "\n", encoding="utf-8")
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    return tmp_path


def test_from_a_specification_to_a_verified_release(register, capsys):
    by_command("plan", "spec.toml", "-o", "plan.json")
    by_command("release", "plan.json", "people.csv", "--ledger", "ledger.db", "-o", "release")
    by_command("verify", "release", "--ledger", "ledger.db")
    output = "".join(capsys.readouterr())
    assert "FAILS" not in output
    texts = ["'country' is 'SI'", "'kind' is one of 'a', 'b'", "'year' is at least 2020 and below 2022"]
    assert all(x in output for x in texts)
    release = fn.Release.read("release")
    assert (release["sex"]["value"] - 200).abs().max() < 40  # 5 is the margin of 95 %
    path = register / "release" / "release.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    assert in_words(document["counted"]) == texts
    check_no_sentences(document)
    by_command("tables", "release", "sex")
    output = "".join(capsys.readouterr())
    assert all(f"counted: {x}" in output for x in texts)
    by_command("tables", "release", "sex", "--json")
    assert json.loads(capsys.readouterr().out)["tables"][0]["counted"] == texts
    by_command("ask", "release", "count(sex='f')")
    assert f"fitnoise counts the records for which {', '.join(texts)}" in capsys.readouterr().out
    by_command("ask", "release", "count(sex='f')", "--json")
    assert json.loads(capsys.readouterr().out)["counted"] == texts
    for claim in (document["counted"][:2], [], texts):
        path.write_text(json.dumps(document | {"counted": claim}), encoding="utf-8")
        assert not fn.verify("release").ok


def test_what_data_cannot_meet_costs_nothing(register, capsys):
    (register / "spec.toml").write_text(SPEC.replace("country =", "land ="), encoding="utf-8")
    by_command("plan", "spec.toml", "-o", "plan.json")
    by_command("release", "plan.json", "people.csv", "--ledger", "ledger.db", "-o", "release")
    assert "[data.column-missing]" in "".join(capsys.readouterr())
    assert not (register / "release").exists()
    with Ledger(register / "ledger.db") as ledger:
        assert ledger.entries() == []


def test_a_specification_and_python_say_the_same(register):
    publication = fn.load_spec("spec.toml")
    where = {"kind": ["b", "a"], "year": {"below": 2022, "at_least": 2020}, "country": ["SI"]}
    assert publication.source == fn.DataSource("register", where=where)
    spec = Spec.from_publication(publication)
    assert spec.publication() == publication
    assert Spec.from_toml(spec.to_toml()).publication() == publication
    plan = fn.plan(publication)
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash
    assert "fitnoise counts the records for which 'country' is 'SI'" in "\n".join(lines(plan_report(plan)))
    unfiltered = fn.plan(replace(publication, source=replace(publication.source, where={})))
    other = fn.plan(replace(publication, source=replace(publication.source, where=where | {"country": "AT"})))
    assert len({p.hash for p in (plan, unfiltered, other)}) == 3
    assert "where" not in unfiltered.to_json()
    assert "records are counted" not in "\n".join(lines(plan_report(unfiltered)))


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("{ a = 0.5 }", "spec.condition-value-invalid"),
        ("{ a = { at_last = 3 } }", "spec.several-problems"),
        ("{ a = { at_least = 3, below = 3 } }", "spec.condition-values-invalid"),
        ("{ a = 07:00:00 }", "spec.value-unusable"),
    ],
)
def test_errors_about_bad_specifications_name_the_place(condition, code):
    text = SPEC.replace('{ country = "SI", year = { at_least = 2020, below = 2022 }, kind = ["a", "b"] }', condition)
    with refused(code):
        Spec.from_toml(text).publication()


def test_records_come_and_go_and_are_charged_to_one_account():
    """Replacing a record may make it come or go; a filtered person has the same account as all others."""
    source = DataSource("register", where={"c": 1})
    assert fn.Domain(x=fn.Ordered(0, 2)).axes.leaves_out(source, None)
    swap = fn.PrivacyUnit("person", neighbours=fn.Neighbours.REPLACE_ONE)
    workload = fn.Workload(DOMAIN_X, [fn.table("x", margin=5), fn.table(margin=3)])
    filtered = fn.plan(workload, unit=swap, source=source)
    dropping = fn.plan(workload, unit=swap, source=DataSource("register", outside_domain="drop"))
    public = fn.KnownTotals((), "Register", "these data")
    refusing = fn.plan(workload, unit=swap, source=DataSource("register"), public=public)
    assert filtered.order.adjacency == Adjacency(swap, drops=True)
    assert filtered.loss.rho == dropping.loss.rho > refusing.loss.rho
    assert {p.order.account for p in (filtered, dropping, refusing)} == {Account("register", swap)}


def test_data_that_are_filtered_otherwise_than_was_planned_are_refused(tmp_path):
    plan = fn.plan(fn.Workload(DOMAIN_X, [fn.table("x", margin=5)]), source=DataSource("s", where={"c": 1}))
    frame = pd.DataFrame({"x": [0, 1], "c": [1, 1]})
    with Ledger(tmp_path / "l.db") as ledger:
        for where in ({}, {"c": 2}, {"c": {"values": [1, 2]}}, {"d": 1}):
            counter = open_counter(frame, DOMAIN_X.axes, DataSource("s", where=where, outside_domain="drop"))
            with refused("data.where-differs"):
                measure(plan.order, counter, ledger)
        counts = np.array([3, 4, 5])
        with refused("data.where-differs"):
            fn.release(plan, counts, ledger=ledger)
        assert HistogramCounter(counts, DOMAIN_X.axes).where == ()
        assert ledger.entries() == []
        assert fn.release(plan, frame, ledger=ledger)["x"]["value"].abs().max() < 40


def test_free_is_only_what_is_of_the_very_same_records():
    domain = fn.Domain(x=fn.Categorical(range(3)))
    recode = fn.Workload(domain, [fn.table("x", margin=5)])
    source = DataSource("s", where={"c": 1})
    plan = fn.plan(recode, source=source)
    other = fn.Publication(recode, fn.PrivacyUnit(), DataSource("s", where={"c": 2}))
    with refused("plan.free-of-another-source"):
        fn.plan_free(other, [plan])


if __name__ == "__main__":
    for listed in DIALECTS:
        (GOLDEN_FILES / f"{listed}, where.sql").write_text(golden(listed), encoding="utf-8")
