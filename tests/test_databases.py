"""Counting in databases: addresses, tables and columns, what an engine must not do, and from request to release."""

import contextlib
import copy
import itertools
import sqlite3
import threading
import warnings
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
from engines import ENGINES, POSTGRESQL, Embedded, connected, in_clickhouse, mariadb_table, postgresql
from fitnoise.engines import databases, engine_check, open_counter, sql, statements
from fitnoise.engines.dialects import DIALECTS, SQLITE, Dialect
from fitnoise.kernel.codings import Codes, CodingWithMissing, Interval, Steps
from fitnoise.kernel.counting import trial
from fitnoise.kernel.counting._base import ProgressFilter
from fitnoise.kernel.counting.persons import ID_KEY
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.dates import DateField, DatePart
from fitnoise.kernel.units import NO_PATTERN, DataSource, Pattern, RecordBound
from laws.counting import DROP, REFUSE, counted, in_cells, leaks_nothing, same_counts
from laws.releases import by_command
from refused import SECRET, refused
from test_counting import DOMAIN, MARGINS, NAMES, people

needs_postgresql = pytest.mark.skipif(not POSTGRESQL, reason="there is no wheel with PostgreSQL for this platform")

DUCKDB = replace(
    DIALECTS["trino"],
    name="duckdb",
    label="DuckDB",
    text="encode(CAST({c} AS VARCHAR))",
    code="from_hex('{h}')",
    letters="decode(from_hex('{h}'))",
    stamped="CAST('{v}' AS TIMESTAMP)",
    finest=".999999",
)
"""The dialect of an engine in this process that groups by sets. It runs statements of servers without a server."""


def in_duckdb(setup=()):
    """Runs statements of that dialect."""
    connection = duckdb.connect()
    for line in setup:
        connection.execute(line)
    return lambda statement: [connection.execute(statement).fetchall()]


SOURCE = DataSource(table="people")

NAMED_DOMAIN = fn.Domain({a: DOMAIN[a] for a in NAMES})
"""Without the attribute that no data have: records are dropped by all attributes of a domain."""


@pytest.fixture
def lite(tmp_path):
    """An SQLite file with a table, made by SQL."""

    def make(*statements):
        path = tmp_path / "people.sqlite"
        with contextlib.closing(sqlite3.connect(path)) as db:
            for s in statements:
                db.execute(s)
            db.commit()
        return path

    return make


@pytest.fixture
def post():
    """A schema of PostgreSQL with what these statements make; and its URL."""

    def make(*statements):
        schema = f"t{next(NUMBER)}"
        url = postgresql().update_query_dict({"options": f"-csearch_path={schema},public"})
        with connected(url) as db:
            db.exec_driver_sql(f"CREATE SCHEMA {schema}")
            for s in statements:
                db.exec_driver_sql(s, execution_options={"no_parameters": True})
        return url

    return make


NUMBER = itertools.count()

OTHERS = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
"""Connections of a server but one's own."""


def count_x(data, attribute, *, drop=False, table="people", column=None):
    source = DataSource(table=table, outside_domain=DROP if drop else REFUSE)
    if column is not None:
        attribute = copy.copy(attribute)
        object.__setattr__(attribute, "column", column)
    return open_counter(data, fn.Domain(x=attribute).axes, source).count([("x",)])["x",].tolist()


# --- statements, run by an engine of this process ---------------------------------------------------------------


def fields_of(domain, kinds):
    return {a: statements.Field(domain[a].coding, kinds[a], f'source."{domain.column(a)}"') for a in kinds}


SIZES = {"a": 3, "b": 2, "c": 4, "d": 1, "e": 5}
MARGIN = st.lists(st.sampled_from(list(SIZES)), unique=True, max_size=4).map(tuple)
FEW = fn.Domain(
    {a: fn.Ordered(0, n - 1) if i % 2 else fn.Categorical(range(n)) for i, (a, n) in enumerate(SIZES.items())}
)


@pytest.mark.no_cover
@settings(max_examples=40)
@given(
    st.lists(st.tuples(*(st.integers(-1, n) for n in SIZES.values())), max_size=12),
    st.lists(
        st.lists(st.sampled_from(list(SIZES)), unique=True, max_size=4).map(tuple), min_size=1, max_size=6, unique=True
    ),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 3, 30]),
)
def test_a_statement_counts_any_margins(rows, margins, drop, sets, scan_width):
    used = [a for a in SIZES if any(a in m for m in margins)]
    fields = fields_of(FEW, dict.fromkeys(used, ColumnKind.INTEGER))
    values = ", ".join(str(r) for r in rows) or f"({', '.join(['NULL'] * 5)})"
    relation = f"(SELECT * FROM (VALUES {values}) AS v({', '.join(SIZES)}) WHERE {str(bool(rows)).lower()})"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "_MAX_ATTRIBUTES_PER_SCAN", scan_width)
        d = replace(DUCKDB, sets=sets)
        got, outside = statements.count(in_duckdb(), d, relation, fields, margins, ProgressFilter(None), drop=drop)
    cells = {
        a: np.array([n if 0 <= (n := r[i]) < SIZES[a] else -1 for r in rows], dtype=int) for i, a in enumerate(SIZES)
    }
    refused_counts = {a: 0 if drop else int((cells[a] < 0).sum()) for a in used}
    assert outside == refused_counts
    if drop or not any(refused_counts.values()):
        same_counts(got, counted(FEW, {a: cells[a] for a in used} or {"": np.zeros(len(rows))}, margins))


@pytest.mark.no_cover
@settings(max_examples=40)
@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from(["a", "A", "b"]), st.integers(-1, 3), st.dates()), max_size=12),
    st.integers(0, 15),
    st.booleans(),
    st.sampled_from([1, 30]),
    st.sampled_from([(1, 1), (1, 3), (2, 24), (4, 24), (25, 24)]),
)
def test_every_record_is_in_one_piece(rows, pages, sets, scan_width, pieces):
    """This holds for any reported number of pages: here each page holds a record."""
    stored = ["CREATE TABLE people (x TEXT, y INTEGER, day DATE)"]
    stored += [f"INSERT INTO people VALUES ('{x}', {y}, '{day}')" for x, y, day in rows]
    domain = fn.Domain(x=fn.Categorical(["a", "b"]), y=fn.Ordered(0, 2), month=fn.Ordered(1, 6))
    fields = fields_of(domain, {"x": ColumnKind.TEXT, "y": ColumnKind.INTEGER})
    fields["month"] = statements.Field(domain["month"].coding, ColumnKind.DATE, "source.day", DateField(DatePart.MONTH))
    conditions_on_y = [statements.Field(Interval(low=0.0), ColumnKind.INTEGER, "source.y")]
    margins = [("x",), ("y", "month"), ("x", "y"), ()]
    queries = []

    def fetch(statement):
        queries.append(statement)
        return in_duckdb(stored)(statement)

    with pytest.MonkeyPatch.context() as patch:
        for limit, value in {
            "_MAX_ATTRIBUTES_PER_SCAN": scan_width,
            "_PIECES": pieces,
            "_PAGES": 1,
            "_PLACES": 2**20,
        }.items():
            patch.setattr(statements, limit, value)
        d = replace(DUCKDB, sets=sets, located="rowid")
        for conditions, used in ([], {a: fields[a] for a in "xy"}), (conditions_on_y, fields):
            used_margins = [m for m in margins if set(m) <= used.keys()]
            counts = []
            for n in (0, pages):
                relation, now, _ = statements.prepared(d, "people", conditions, used, None, n)
                counts.append(
                    statements.count(fetch, d, relation, now, used_margins, ProgressFilter(None), drop=True, pages=n)[0]
                )
            same_counts(*counts)
    for full_query, cut in zip(queries[::2], queries[1::2], strict=True):
        scans = full_query.count("UNION ALL") + 1
        n = min(pieces[1] // scans, pages)
        assert cut.count("UNION ALL") + 1 == scans * (n if n >= max(1, pieces[0]) else 1)


def test_attributes_of_one_column_are_distinguished():
    """Two keys that are the same SQL are one, or sets of them would be counted for each other."""
    domain = fn.Domain(
        sharp=fn.Categorical([0, 1, 2], column="x"), rough=fn.Categorical([2, 0], column="x"), y=fn.Ordered(0, 1)
    )
    fields = fields_of(domain, dict.fromkeys(domain, ColumnKind.INTEGER))
    relation = "(SELECT * FROM (VALUES (0, 0), (1, 1), (2, 1), (2, 0)) AS v(x, y))"
    margins = [("sharp",), ("rough",), ("rough", "y"), ("sharp", "rough"), ("y",)]
    for sets, cell in itertools.product([True, False], [1.0, 1e12]):
        d = replace(DUCKDB, sets=sets, prices=replace(DUCKDB.prices, cell=cell))
        got, outside = statements.count(in_duckdb(), d, relation, fields, margins, ProgressFilter(None), drop=True)
        assert got["sharp",].tolist() == [1, 0, 2]
        assert got["rough",].tolist() == [2, 1]
        assert got["rough", "y"].tolist() == [[1, 1], [1, 0]]
        assert got["sharp", "rough"].tolist() == [[0, 1], [0, 0], [2, 0]]
        assert not any(outside.values())


def test_what_does_not_fit_into_one_statement_is_refused():
    domain = fn.Domain({f"q{i}": fn.Ordered(1, 1) for i in range(64)})
    fields = fields_of(domain, dict.fromkeys(domain, ColumnKind.INTEGER))
    d = replace(DUCKDB, prices=replace(DUCKDB.prices, cell=1e12))
    closed = pytest.fail
    for margins in ([tuple(domain)], list(itertools.combinations(domain, 2))):
        with refused("data.too-many-joint-tables"):
            statements.count(closed, d, "t", fields, margins, ProgressFilter(None), drop=True)


def test_codes_that_a_column_cannot_hold_are_nowhere():
    domain = fn.Domain(
        words=fn.Categorical(["a", "01", str(2**64)], column="x"), mixed=fn.Categorical(["a", "1"], column="x")
    )
    fields = fields_of(domain, dict.fromkeys(domain, ColumnKind.INTEGER))
    relation = "(SELECT * FROM (VALUES (1), (2)) AS v(x))"
    for used, refused_counts in ({"mixed": fields["mixed"]}, {"mixed": 1}), (fields, {"words": 2, "mixed": 1}):
        _, outside = statements.count(
            in_duckdb(), DUCKDB, relation, used, [tuple(used)], ProgressFilter(None), drop=False
        )
        assert outside == refused_counts
    got, _ = statements.count(in_duckdb(), DUCKDB, relation, fields, [("mixed",)], ProgressFilter(None), drop=True)
    assert got["mixed",].tolist() == [0, 0]


# --- golden statements ------------------------------------------------------------------------------------------


GOLDEN = fn.Domain(
    sex=fn.Categorical(["f", "é'"]),
    age=fn.Ordered(0, 2, clip=True),
    income=fn.Binned([0, 2.5]),
    owner=fn.Categorical([True, False]),
    size=fn.Categorical([1, -7]),
)
GOLDEN_KINDS = {
    "sex": ColumnKind.TEXT,
    "age": ColumnKind.INTEGER,
    "income": ColumnKind.DOUBLE,
    "owner": ColumnKind.TRUTH,
    "size": ColumnKind.DECIMAL,
}
GOLDEN_FILES = Path(__file__).parent / "data" / "statements"


PATTERNS = {
    "once": Pattern(("income", "sex")),
    "in a pattern": Pattern((), (("age", 2),), (("income", 2),), ("sex", "owner")),
}


LARGE = 4100
"""Pages of a table that is counted in pieces."""


def golden(
    name,
    *,
    drop=False,
    by_id=False,
    pattern=NO_PATTERN,
    domain=GOLDEN,
    uncounted=False,
    max_records=3,
    pages=0,
    merge=(),
):
    """Three tables of four attributes, in the words of an engine, a line each layer; of persons by an id.

    pages: Number of pages; records are counted in pieces of them.
    uncounted: or how many persons have more records than are counted.
    max_records: how many are; None: all, in shares.
    merge: amounts that are added up before.
    """
    d = DIALECTS[name]
    fields = {a: statements.Field(domain[a].coding, k, f"source.{d.quoted(a)}") for a, k in GOLDEN_KINDS.items()}
    joint = [("sex", "age"), ("age", "income", "owner"), ("size",)]
    relation = ".".join(d.quoted(part) for part in ("census", f"the {d.marks[1]} people"))
    column = f"source.{d.quoted('id')}"
    person = (
        statements.PersonColumn(ColumnKind.TEXT, column, list(GOLDEN), max_records, pattern, merge) if by_id else None
    )
    if person is not None:
        fields[ID_KEY] = person.field(d)
        joint += [(ID_KEY,)]
    sql = (
        statements._uncounted(d, relation, fields, person, drop=drop)
        if uncounted
        else statements.statement(d, relation, fields, joint, drop=drop, person=person, pages=pages)
    )
    return sql.replace("FROM (", "FROM\n(") + "\n"


MISSING = fn.Domain(
    sex=fn.Categorical(["f", "m"], missing={"other": ["", "é'"]}, if_outside="other"),
    age=fn.Ordered(0, 2, clip=True, missing={"unknown": [-9]}, if_missing="unknown", if_outside="drop"),
    income=fn.Binned([0, 2.5], missing={"none": [-1]}, if_missing="none"),
    owner=fn.Categorical([True, False], missing={"unknown": ["?"]}, if_missing="unknown", if_outside="drop"),
    size=fn.Categorical([1, -7], missing={"unknown": [99]}, if_missing="drop", if_outside="unknown"),
)
"""The domain with cells for missing values; of other missing values some are dropped, and some reported."""


SUMMED = fn.Domain(
    sex=fn.Categorical(["f", "m"]),
    age=fn.Amount(0, 90, step=5),
    income=fn.Amount(-1, 2.5, step=0.5, missing={"none": [-9]}, if_missing="none"),
    owner=fn.Categorical([True, False]),
    size=fn.Amount(0, 7, valid=(-1, 99)),
)
"""The domain with amounts."""

ADDED = ("income", "size")
"""Those that are added up of persons."""


@pytest.mark.parametrize("name", [n for n, d in DIALECTS.items() if not d.streams])
def test_statements_of_amounts_are_those_that_were_read_by_a_person(name):
    file = GOLDEN_FILES / f"{name}, amounts.sql"
    assert file.read_text(encoding="utf-8") == golden(name, domain=SUMMED)


@pytest.mark.parametrize("name", [n for n, d in DIALECTS.items() if not d.streams])
def test_statements_with_missing_values_are_those_that_were_read_by_a_person(name):
    file = GOLDEN_FILES / f"{name}, missing.sql"
    assert file.read_text(encoding="utf-8") == golden(name, domain=MISSING, by_id=bool(DIALECTS[name].digest))


@pytest.mark.parametrize("name", [n for n, d in DIALECTS.items() if d.digest])
def test_statements_of_persons_are_those_that_were_read_by_a_person(name):
    file = GOLDEN_FILES / f"{name}, persons.sql"
    assert file.read_text(encoding="utf-8") == golden(name, drop=False, by_id=True)
    file = GOLDEN_FILES / f"{name}, persons in shares.sql"
    assert file.read_text(encoding="utf-8") == golden(name, drop=False, by_id=True, max_records=None)
    file = GOLDEN_FILES / f"{name}, persons added up.sql"
    assert file.read_text(encoding="utf-8") == golden(name, by_id=True, domain=SUMMED, merge=ADDED)
    file = GOLDEN_FILES / f"{name}, persons left out.sql"
    assert file.read_text(encoding="utf-8") == golden(name, by_id=True, pattern=PATTERNS["once"], uncounted=True)
    for kind, pattern in PATTERNS.items():
        file = GOLDEN_FILES / f"{name}, persons {kind}.sql"
        assert file.read_text(encoding="utf-8") == golden(name, drop=True, by_id=True, pattern=pattern)


@pytest.mark.parametrize("name", [n for n, d in DIALECTS.items() if d.pages])
def test_statements_in_pieces_are_those_that_were_read_by_a_person(name):
    file = GOLDEN_FILES / f"{name}, in pieces.sql"
    assert file.read_text(encoding="utf-8") == golden(name, pages=LARGE)


@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("name", [n for n, d in DIALECTS.items() if not d.streams])
def test_statements_are_those_that_were_read_by_a_person(name, drop):
    """Write them again with `python tests/test_databases.py`, and read what changed."""
    file = GOLDEN_FILES / f"{name}, {'drop' if drop else 'refuse'}.sql"
    assert file.read_text(encoding="utf-8") == golden(name, drop=drop)


# --- the trial ----------------------------------------------------------------------------------------------------


def tried(d, *, drop=True, outside=False):
    engine_check.refuse_unless_right(in_duckdb(), d, "the database", drop=drop, with_missing=outside)


@contextlib.contextmanager
def few(*names, stride=1, start=0):
    """A trial of some codings alone, these or every fourth: an engine plans a statement of all of them for seconds.

    The complete trial admits nothing that this one refuses, because it includes these codings.
    """
    with pytest.MonkeyPatch.context() as patch:
        for part in ("CODINGS", "MISSING_CODINGS"):
            codings = list(getattr(trial, part).items())
            patch.setattr(trial, part, {a: c for a, c in codings[start::stride] if a in names or not names})
        assert {*names} <= {*trial.CODINGS, *trial.MISSING_CODINGS}
        yield


def test_known_values_have_their_types():
    """The file holds lists, texts and numbers. Codings need tuples and fractions, and some columns need decimals."""
    steps = {"form": "Steps", "low": "-1", "high": "4", "step": "1/2", "attribute": "class"}
    assert trial._read(steps) == Steps(Fraction(-1), Fraction(4), Fraction(1, 2), attribute="class")
    missing = {"form": "Codes", "codes": ["a", "b"], "missing": [["c"], []], "outside": 3}
    assert trial._read(missing) == CodingWithMissing(Codes(("a", "b")), (("c",), ()), outside=3)
    assert set(map(type, trial.HELD[ColumnKind.DECIMAL])) == {Decimal}
    assert trial.HELD[ColumnKind.DECIMAL][:4] == (1, 0, Decimal("0.5"), Decimal("-0.5"))
    assert trial.HELD[ColumnKind.DOUBLE][-1] == 1e300
    assert trial.HELD[ColumnKind.TRUTH] == (True, False)
    assert trial.AMOUNTS["amount by class"].classes[3].high == Fraction(2, 25)


@pytest.mark.no_cover
@pytest.mark.parametrize(("drop", "outside"), [(True, False), (False, True)])
def test_an_engine_that_counts_as_declared_is_admitted(drop, outside):
    tried(DUCKDB, drop=drop, outside=outside)


@pytest.mark.no_cover
@pytest.mark.parametrize("start", range(4))
def test_an_engine_without_sets_that_counts_as_declared_is_admitted(start):
    """The engine evaluates all records for every margin again: a quarter of the codings at a time."""
    with few(stride=4, start=start):
        tried(replace(DUCKDB, sets=False), drop=False, outside=True)


def test_the_trial_tries_every_coding_and_every_kind():
    """Detects a record of the trial that would be dropped for what is plain in it, and so would try nothing."""
    codings = {**trial.CODINGS, **trial.MISSING_CODINGS}
    d = DIALECTS["postgresql"]
    fields = engine_check._fields(d.types, codings)
    assert {f.kind for f in fields.values()} == set(ColumnKind) - {
        ColumnKind.ANY,
        ColumnKind.DATE,
        ColumnKind.STAMP,
        ColumnKind.DERIVED,
    }
    assert {id(f.coding) for f in fields.values()} == {id(c) for c in codings.values()}
    records = [values for _, values in engine_check._records(d, d.types)]
    for a, f in fields.items():
        inside = [f.coding.cell(v[f.kind]) for v in records]
        assert None in inside or isinstance(f.coding, CodingWithMissing), a
        assert set(inside) >= {*range(f.coding.size)} or f.kind is not ColumnKind.DOUBLE or a.startswith("far"), a


@pytest.mark.usefixtures("tried_once")
@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgresql", marks=needs_postgresql)])
@pytest.mark.parametrize("drop", [True, False])
def test_levels_of_nested_places_are_counted_by_the_codes_of_leaves(tmp_path, engine, drop):
    """Several codes share a cell; two levels are read from one column."""
    rows = [("n", "n1", "t1"), ("n", "n1", "t2"), ("n", "n2", "t3"), ("s", "s1", "t4"), ("s", "s2", "t5")]
    domain = fn.Domain(geo=fn.Hierarchy(["region", "district", "tract"], rows), b=fn.Ordered(0, 1))
    records = [("t2", 1), ("t1", 1), ("t3", 0), ("t5", 1), ("t4", 0), ("t5", 0)] + [("t9", 1)] * drop
    url = postgresql() if engine == "postgresql" else f"sqlite:///{tmp_path / 'p.db'}"
    target = sa.create_engine(url, poolclass=sa.NullPool)
    table = sa.Table(f"places{drop}", sa.MetaData(), sa.Column("geo", sa.Text), sa.Column("b", sa.Integer))
    with target.begin() as connection:
        table.create(connection)
        connection.execute(table.insert(), [dict(zip(("geo", "b"), r, strict=True)) for r in records])
    source = DataSource(table=table.name, outside_domain="drop" if drop else "refuse")
    margins = [("region",), ("district", "b"), ("tract",), ("geo", "b")]
    counts = open_counter(target, domain.axes, source).count(margins)
    with target.begin() as connection:
        table.drop(connection)
    expected = {m: np.zeros([domain.sizes[a] for a in m], dtype=int) for m in margins}
    for tract, b in records:
        cells = {a: domain[a].cell(tract) for a in ("region", "district", "tract", "geo")} | {"b": b}
        for m in margins:
            if None not in cells.values():
                expected[m][tuple(cells[a] for a in m)] += 1
    assert all((counts[m] == expected[m]).all() for m in margins)
    assert counts["region",].tolist() == [3, 3]


@pytest.mark.parametrize(
    "row", [(0, None, 1), (0, -1, 1), (0, 4, 1), (1, 0, 1), (0, 0, -1), (0, 0), ("x", 0, 1), (0, 2**70, 1), (-1, 0, 1)]
)
def test_rows_that_no_right_engine_gives_are_refused(row):
    d, field = DIALECTS["postgresql"], statements.Field(fn.Ordered(0, 2).coding, ColumnKind.INTEGER, "source.x")
    with refused("data.database-answer-invalid"):
        statements.count(lambda _: [[row]], d, "people", {"x": field}, [("x",)], ProgressFilter(None), drop=True)
    counts, _ = statements.count(
        lambda _: [[(0, 3, 7)]], d, "people", {"x": field}, [("x",)], ProgressFilter(None), drop=True
    )
    assert counts["x",].tolist() == [0, 0, 7]


def test_what_mysql_calls_a_boolean_is_one():
    """A whole number that is shown one digit wide."""
    for width, kind in ((1, ColumnKind.TRUTH), (11, ColumnKind.INTEGER)):
        column = sa.Integer()
        column.display_width = width
        assert databases._kind(DIALECTS["mysql"], column) == (kind, "Integer")


@pytest.mark.parametrize("drop", [True, False])
def test_no_statement_of_the_trial_is_longer_than_clickhouse_takes(drop, monkeypatch):
    """2^18 bytes, as it comes: domains that have amounts, and cells for missing values, were refused."""
    queries, right = [], engine_check._right

    def recorded(_, d, codings, kinds, **how):
        assert not right(lambda statement: queries.append(statement) or [], d, codings, kinds, **how)
        return True

    monkeypatch.setattr(engine_check, "_right", recorded)
    monkeypatch.setattr(statements, "_lose", lambda *_, **__: None)  # a shorter statement, which needs an answer
    engine_check.refuse_unless_right(
        None, DIALECTS["clickhouse"], "the database", drop=drop, with_missing=True, amounts=True, rules=REFUSE
    )
    assert len(queries) == 4
    assert 2**16 < max(len(x.encode()) for x in queries) < 2**18


FLAWS = {
    ("texts", "words"): {
        "capitals": {"text": "encode(lower(CAST({c} AS VARCHAR)))", "code": "encode(lower(decode(from_hex('{h}'))))"},
        "accents": {"text": "encode(strip_accents(CAST({c} AS VARCHAR)))"},
        "composed": {"text": "encode(nfc_normalize(CAST({c} AS VARCHAR)))"},
        "blanks at the end": {"text": "encode(rtrim(CAST({c} AS VARCHAR), ' '))"},
        "blanks before": {"text": "encode(ltrim(CAST({c} AS VARCHAR), ' '))"},
        "collation": {"text": "CAST({c} AS VARCHAR) COLLATE NOCASE", "code": "decode(from_hex('{h}'))"},
    },
    ("bins", "far bins"): {
        "single precision": {"double": "CAST(TRY_CAST({c} AS FLOAT) AS DOUBLE)"},
        "missing numbers": {"double": "coalesce(CAST({c} AS DOUBLE), 0)"},
        "not a number": {"double": "CASE WHEN isnan(CAST({c} AS DOUBLE)) THEN 1 ELSE CAST({c} AS DOUBLE) END"},
        "infinity": {"double": "least(CAST({c} AS DOUBLE), 1.7976931348623157e308)"},
        "rounded decimals": {"decimal": "CAST(CAST({c} AS DECIMAL(38, 1)) AS DOUBLE)"},
        "constants": {"constant": "CAST(CAST('{v}' AS FLOAT) AS DOUBLE)"},
    },
    ("range", "truth"): {
        "cut numbers": {"double": "CAST(trunc(CAST({c} AS DOUBLE)) AS DOUBLE)"},
        "missing truth": {"truth": "CASE WHEN {c} THEN 1 ELSE 0 END"},
        "short integers": {"int64": "CAST(CAST({x} AS BIGINT) % 8 AS BIGINT)"},
        "counts": {"count": "CAST(COUNT(*) > 0 AS BIGINT)"},
    },
}
"""Dialects with a flaw, by the codings that reveal it."""


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("flaw", "codings"), {flaw: codings for codings, flaws in FLAWS.items() for flaw in flaws}.items()
)
def test_an_engine_with_a_flaw_is_not_admitted(flaw, codings):
    with few(*codings), refused("data.engine-counts-differently") as caught:
        tried(replace(DUCKDB, **FLAWS[codings][flaw]))
    leaks_nothing(caught.value)


@pytest.mark.no_cover
@pytest.mark.parametrize("codings", FLAWS)
def test_an_engine_without_a_flaw_is_admitted_by_the_same_codings(codings):
    with few(*codings):
        tried(DUCKDB)


@pytest.mark.no_cover
def test_empty_texts_are_tried_where_there_are_some():
    none = replace(DUCKDB, text="encode(nullif(CAST({c} AS VARCHAR), ''))")
    with few("texts", "words", "words, and others", "words, an empty one missing"):
        tried(none)
        tried(replace(none, empty=False), outside=True)
        with refused("data.engine-counts-differently"):
            tried(none, outside=True)


LEFT_OUT = ("words, an empty one missing", "range, absent ones refused")
"""Codings that drop some missing values, and refuse some."""


@pytest.mark.no_cover
@pytest.mark.parametrize("drop", [True, False])
def test_an_engine_that_leaves_out_others_is_not_admitted(drop, monkeypatch):
    """Detects one that keeps what an attribute drops, or drops what it refuses."""
    is_counted_sql = Dialect.is_counted_sql
    for wrong in (
        lambda self, coding, kind, key, *, drop: is_counted_sql(self, coding, kind, key, drop=drop) and "1 = 1",
        lambda self, coding, kind, key, *, drop: f"{self.cell(coding, kind, key)} > 0",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(Dialect, "is_counted_sql", wrong)
            with few("words", *LEFT_OUT), refused("data.engine-counts-differently"):
                tried(DUCKDB, drop=drop, outside=True)
    with few("words", *LEFT_OUT):
        tried(DUCKDB, drop=drop, outside=True)


@pytest.mark.no_cover
def test_integers_of_an_untyped_column_are_texts_where_booleans_are_read(lite):
    values = [1, 0, 9, 9.0, "9", 8, None, "", "yes", 1.0]
    path = lite(
        "CREATE TABLE people (x)",
        "INSERT INTO people VALUES " + ", ".join("(NULL)" if v is None else f"({v!r})" for v in values),
    )
    attribute = fn.Categorical([True], missing={"unknown": ["9"], "none": []}, if_missing="none", if_outside="unknown")
    read = [v for v in values if v not in ("yes",)]  # of texts no truth values: databases guess none
    expected = [sum(attribute.cell(v) == c for v in read) for c in range(3)]
    expected[1] += 1
    assert count_x(path, attribute) == expected
    attribute = fn.Categorical([True], missing={"unknown": ["9"]})
    assert count_x(path, attribute, drop=True) == [1, 2]


def test_an_engine_that_tells_other_records_outside_is_not_admitted(monkeypatch):
    def fewer(*arguments, **options):
        counts, outside = count(*arguments, **options)
        return counts, outside | {a: n - 1 for a, n in [*outside.items()][:1] if n}

    count = engine_check.count
    monkeypatch.setattr(engine_check, "count", fewer)
    with few("words", "codes", "range"):
        tried(DUCKDB)
        with refused("data.engine-counts-differently"):
            tried(DUCKDB, drop=False)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_count_begins_with_a_trial(engine, tmp_path, monkeypatch):
    data = ENGINES[engine].make(people(20, source=ENGINES[engine]), tmp_path)
    trials = []
    monkeypatch.setattr(sql, "refuse_unless_right", lambda fetch, d, what, **how: trials.append((d.name, what, how)))
    counter = open_counter(data, NAMED_DOMAIN.axes, replace(SOURCE, outside_domain=DROP))
    counter.check(NAMES)
    assert trials == []
    counter.count(MARGINS)
    counter.count([("sex",)])
    what = "Spark" if engine == "spark" else f"the {DIALECTS[engine].label} database"
    tried_with = {"drop": True, "with_missing": True, "amounts": False, "rules": None, "numerals": False}
    assert trials == 2 * [(engine, what, tried_with)]


# --- the suite of all engines -------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_record_moves_one_cell_of_every_margin(engine, tmp_path, one_engine):
    """One comes, goes, or becomes another; the rest are stored in another order. What is counted is hers alone."""
    source, rng = ENGINES[engine], np.random.default_rng(7)
    everyone = people(50, spoilt=0.1, source=source)

    def counter(records):
        return open_counter(source.make(records, tmp_path), NAMED_DOMAIN.axes, replace(SOURCE, outside_domain=DROP))

    cells = in_cells(everyone)
    inside = np.all([cells[a] >= 0 for a in cells], axis=0)
    assert 5 < inside.sum() < 45
    full = counter(everyone).count(MARGINS)
    for i in rng.choice(50, 8, replace=False):
        order = rng.permutation([j for j in range(50) if j != i])
        less = counter(replace(everyone, values={a: [v[j] for j in order] for a, v in everyone.values.items()}))
        for m, counts in less.count(MARGINS).items():
            decrease = full[m] - counts
            assert decrease.sum() == np.abs(decrease).sum() == inside[i]
            assert not inside[i] or decrease[tuple(cells[a][i] for a in m)] == 1


@pytest.mark.no_cover
def test_sqlite_files_and_their_types(lite):
    path = lite(
        "CREATE TABLE people (x INTEGER, y, z TEXT, t BOOLEAN, c CHAR(3), g AS (x + 1))",
        f"INSERT INTO people VALUES (1, 1, '1', 1, 'a'), ('{SECRET}', '1', 1, 0, 'a '), (2.0, 1.0, 'é', 2, 'a ')",
        "INSERT INTO people VALUES (2.5, x'31', 1.0, NULL, 'b')",
    )

    def count_column(column, attribute):
        return count_x(
            path, replace(attribute, column=column) if isinstance(attribute, fn.Ordered) else attribute, drop=True
        )

    assert count_column("x", fn.Ordered(0, 3)) == [0, 1, 1, 0]
    assert count_column("y", fn.Ordered(0, 3)) == [0, 3, 0, 0]
    assert count_column("z", fn.Ordered(0, 3)) == [0, 3, 0, 0]
    assert count_column("g", fn.Ordered(0, 3)) == [0, 1, 1, 1]  # 'X…' + 1 is 1 for SQLite
    assert count_column("z", fn.Categorical(["1", "é", "1.0"], column="z")) == [2, 1, 1]
    assert count_column("c", fn.Categorical(["a", "a "], column="c")) == [1, 2]  # SQLite pads no text
    source = DataSource(table="people", where={"c": "a "})
    domain = fn.Domain(z=fn.Categorical(["1", "é"]))
    assert open_counter(path, domain.axes, source).count([("z",)])["z",].tolist() == [1, 1]
    assert count_column("y", fn.Categorical(["1", "é"], column="y")) == [2, 0]
    assert count_column("t", fn.Categorical([True, False], column="t")) == [1, 1]
    assert count_column("y", fn.Categorical([True, False], column="y")) == [1, 0]
    with refused("data.column-of-wrong-type"):
        count_column("t", fn.Ordered(0, 1))


def test_texts_of_sqlite_that_are_not_utf_8(lite):
    path = lite("PRAGMA encoding = 'UTF-16'", "CREATE TABLE people (x TEXT)", "INSERT INTO people VALUES ('a')")
    with refused("data.database-table-not-safe"):
        count_x(path, fn.Categorical(["a"]))
    path.unlink()
    path = lite(
        "CREATE TABLE people (x TEXT)", "INSERT INTO people VALUES (CAST(x'ff61' AS TEXT)), ('a' || char(0) || 'b')"
    )
    assert count_x(path, fn.Categorical(["a", "a\0b"]), drop=True) == [0, 1]


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", ["", "TEXT", "REAL"])
def test_fractions_among_texts_are_outside(lite, kind):
    """SQLite keeps in a column of texts what it was given; a fraction has more texts than one."""
    path = lite(f"CREATE TABLE people (x {kind})", "INSERT INTO people VALUES ('a'), (NULL), (1.5), (' '), ('1.5')")
    if kind == "REAL":
        with refused("data.column-of-wrong-type"):
            count_x(path, fn.Categorical(["a"], missing={"no": [], "else": []}, if_missing="no", if_outside="else"))
        return
    codes = fn.Categorical(["a"], missing={"no": [], "else": []}, if_missing="no", if_outside="else")
    assert count_x(path, codes) == [1, 1, 3]


@pytest.mark.no_cover
def test_a_view_a_virtual_table_and_no_table_are_refused(lite):
    path = lite(
        "CREATE TABLE people (x INTEGER)", 'CREATE TABLE "ugly.one" (x INTEGER)', "CREATE VIEW v AS SELECT 1 AS x",
        "CREATE VIRTUAL TABLE f USING fts5 (x)", *(f"CREATE TABLE t{i} (x)" for i in range(40)),
    )  # fmt: skip
    with refused("data.view-not-promised"):
        count_x(path, fn.Ordered(0, 1), table="v")
    for table in (None, "none", "main.none", "x.people", 'people"; DROP TABLE people; --'):
        with refused("data.database-table-not-found") as caught:
            count_x(path, fn.Ordered(0, 1), table=table)
        leaks_nothing(caught.value)
    with refused("data.database-table-not-safe"):
        count_x(path, fn.Ordered(0, 1), table="f")
    for table in ("PEOPLE", "main.people", "ugly.one", "main.ugly.one"):
        assert count_x(path, fn.Ordered(0, 1), table=table) == [0, 0]


def test_an_sqlite_file_is_neither_made_nor_changed_nor_held(lite, tmp_path):
    path = lite("PRAGMA journal_mode = WAL", "CREATE TABLE people (x INTEGER)", "INSERT INTO people VALUES (1)")
    before = path.read_bytes()
    counter = open_counter(path, fn.Domain(x=fn.Ordered(0, 1)).axes, SOURCE)
    assert counter.count([("x",), ()])[()] == 1
    assert path.read_bytes() == before
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO people VALUES (0)")
        db.commit()
        assert counter.count([("x",)])["x",].tolist() == [1, 1]
    for address in (f"sqlite:///{tmp_path}/none.db", "sqlite://", "sqlite:///:memory:"):
        with refused("data.sqlite-file-missing"):
            open_counter(address, DOMAIN.axes, SOURCE)
    assert not (tmp_path / "none.db").exists()


def test_a_database_that_is_damaged_or_locked_is_refused_without_a_word_of_it(lite, tmp_path):
    path = lite(
        "CREATE TABLE people (x INTEGER, y TEXT)", *(f"INSERT INTO people VALUES ({i}, '{SECRET}')" for i in range(900))
    )
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(255 - b for b in content[4096:])
    (tmp_path / "damaged.db").write_bytes(content)
    with refused("data.records-not-counted") as caught:
        count_x(tmp_path / "damaged.db", fn.Ordered(0, 999))
    leaks_nothing(caught.value)
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("BEGIN EXCLUSIVE")
        with refused("data.database-not-described") as caught:
            count_x(path, fn.Ordered(0, 999))
    leaks_nothing(caught.value)


def test_no_margins_and_no_attributes(lite):
    path = lite("CREATE TABLE people (x INTEGER)", "INSERT INTO people VALUES (1), (NULL), (7)")
    counter = open_counter(path, fn.Domain(x=fn.Ordered(0, 1)).axes, SOURCE)
    assert counter.count([]) == {}
    assert counter.count([()])[()] == 3
    fractions = []
    with refused("data.records-outside-domain"):
        counter.count([("x",)], fractions.append)
    assert 1 not in fractions
    counter.count([(), ()], fractions.append)
    assert fractions[-1] == 1


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tried_once")
@pytest.mark.no_cover
@needs_postgresql
def test_columns_of_postgresql(post):
    url = post(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE people (c CHAR(4), v VARCHAR(9), n NUMERIC, r REAL, m mood, u UUID, j JSON, d DATE, b BYTEA, "
        "k0 INT)",
        "INSERT INTO people VALUES ('a', 'a ', 'NaN', 0.1, 'ok', '5d2b1c1e-7b7d-4d1f-9b39-4a3a4a1c2d3e', "
        f"'\"{SECRET}\"', '2020-01-01', 'a', 1), ('A ', 'á', '1e400', 'NaN', 'sad', NULL, NULL, NULL, NULL, 0), "
        "(' a', 'a%s{c}', '1e-400', '-Infinity', NULL, NULL, NULL, NULL, NULL, 2), "
        "(NULL, NULL, 1.00, 1, NULL, NULL, NULL, NULL, NULL, NULL)",
    )  # fmt: skip

    def count_column(column, attribute):
        return count_x(url, attribute(column), drop=True)

    assert count_column("c", lambda c: fn.Categorical(["a", "A", " a"], column=c)) == [1, 1, 1]
    assert count_column("v", lambda c: fn.Categorical(["a", "a ", "á", "a%s{c}"], column=c)) == [0, 1, 1, 1]
    assert count_column("n", lambda c: fn.Ordered(0, 1, column=c)) == [1, 1]
    assert count_column("n", lambda c: fn.Binned([0, 5e-324], column=c)) == [0, 1, 1]
    assert count_column("r", lambda c: fn.Binned([0.1, 0.11], column=c)) == [0, 1, 1]
    assert count_column("m", lambda c: fn.Categorical(["ok", "sad"], column=c)) == [1, 1]
    assert count_column("u", lambda c: fn.Categorical(["5d2b1c1e-7b7d-4d1f-9b39-4a3a4a1c2d3e"], column=c)) == [1]
    assert count_column("k0", lambda c: fn.Ordered(0, 2, column=c)) == [1, 1, 1]
    for column, kind in {"j": "JSON", "d": "DATE", "b": "BYTEA"}.items():
        with refused("data.column-of-wrong-type") as caught:
            count_column(column, lambda c: fn.Categorical([SECRET], column=c))
        assert kind in str(caught.value)
    with refused("data.code-with-final-blank"):
        count_column("c", lambda c: fn.Categorical(["a ", "b"], column=c))
    assert count_column("v", lambda c: fn.Ordered(0, 1, column=c)) == [0, 0]
    leaks_nothing(caught.value)


@pytest.mark.no_cover
@pytest.mark.usefixtures("tried_once")
@needs_postgresql
def test_domains_of_postgresql_are_read_as_the_types_that_they_restrict(post):
    url = post(
        "CREATE DOMAIN code AS VARCHAR(3)",
        "CREATE DOMAIN known AS code CHECK (VALUE <> '')",
        "CREATE DOMAIN age AS SMALLINT",
        "CREATE DOMAIN fixed AS CHAR(4)",
        "CREATE DOMAIN born AS DATE",
        "CREATE DOMAIN instant AS TIMESTAMPTZ",
        "CREATE DOMAIN several AS INT[]",
        "CREATE TABLE people (c code, k known, a age, f fixed, b born, i instant, s several)",
        "INSERT INTO people (c, k, a, f, b) VALUES ('a', 'A', 1, 'x', '2020-01-01'), ('á', 'a', 2, 'x ', '2021-12-31')",
    )
    attributes = {
        "c": fn.Categorical(["a", "á"], column="c"),
        "k": fn.Categorical(["a", "A"], column="k"),
        "a": fn.Ordered(1, 2, column="a"),
        "b": fn.Ordered(2020, 2021, column="b", date_part="year"),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no warning of SQLAlchemy
        assert {c: count_x(url, x) for c, x in attributes.items()} == {c: [1, 1] for c in attributes}
        assert count_x(url, fn.Categorical(["x"], column="f")) == [2]
    for column, attribute in {
        "i": fn.Ordered(2020, 2021, column="i", date_part="year"),
        "s": fn.Ordered(1, 2, column="s"),
    }.items():
        with refused("data.column-of-wrong-type", key=column):
            count_x(url, attribute)


def test_texts_of_postgresql_without_capitals_are_read_letter_by_letter():
    kind = databases._kind(DIALECTS["postgresql"], sa.dialects.postgresql.CITEXT())
    assert kind == (ColumnKind.TEXT, "CITEXT")


@pytest.mark.usefixtures("tried_once")
@needs_postgresql
def test_tables_of_postgresql(post):
    url = post(
        "CREATE TABLE people (x INT)", "INSERT INTO people VALUES (1)", "CREATE VIEW v AS SELECT * FROM people",
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM people", 'CREATE TABLE "odd.one" (x INT)',
        "CREATE TABLE parts (x INT) PARTITION BY LIST (x)", "CREATE TABLE part PARTITION OF parts FOR VALUES IN (1)",
        "INSERT INTO parts VALUES (1), (1)",
    )  # fmt: skip
    schema = url.query["options"].partition("=")[2].partition(",")[0]
    for table, counts in {"people": [0, 1], f"{schema}.people": [0, 1], "parts": [0, 2], "odd.one": [0, 0]}.items():
        assert count_x(url, fn.Ordered(0, 1), table=table) == counts
    for table in ("v", "m", f"{schema}.v"):
        assert count_x(url, fn.Ordered(0, 1), table=table) == [0, 1]
    with refused("data.database-table-not-found"):
        count_x(url, fn.Ordered(0, 1), table="none.people")


@pytest.mark.usefixtures("tried_once")
@needs_postgresql
@pytest.mark.parametrize(
    ("before", "part", "after"),
    [
        ([], "(x INT) INHERITS (people)", []),
        (["CREATE TABLE child () INHERITS (people)"], "(x INT) INHERITS (child)", []),
        (["CREATE TABLE parts (x INT) PARTITION BY LIST (x)"], "PARTITION OF parts FOR VALUES IN (1)", []),
        (
            ["CREATE TABLE parts (x INT) PARTITION BY LIST (x)",
             "CREATE TABLE inner_parts PARTITION OF parts FOR VALUES IN (0, 1) PARTITION BY LIST (x)",
             "CREATE TABLE near PARTITION OF inner_parts FOR VALUES IN (0)"],
            "PARTITION OF inner_parts FOR VALUES IN (1)",
            ["ALTER TABLE inner_parts DETACH PARTITION far"],
        ),
    ],
    ids=["inherits", "inherits from a child", "partition", "partition of a partition"],
)  # fmt: skip
def test_a_foreign_table_among_partitions_or_children_is_refused(post, before, part, after):
    """The refusal covers every table that reads the foreign one, and no other table."""
    server = f"far{next(NUMBER)}"
    table = "parts" if "PARTITION" in part else "people"
    url = post(
        "CREATE TABLE people (x INT)", "INSERT INTO people VALUES (1)", *before,
        f"CREATE FOREIGN DATA WRAPPER {server}", f"CREATE SERVER {server} FOREIGN DATA WRAPPER {server}",
        f"CREATE FOREIGN TABLE far {part} SERVER {server}", "CREATE TABLE own (x INT)",
        "INSERT INTO own VALUES (0), (1)",
    )  # fmt: skip
    schema = url.query["options"].partition("=")[2].partition(",")[0]
    for name in (table, f"{schema}.{table}"):
        with refused("data.database-table-not-safe") as caught:
            count_x(url, fn.Ordered(0, 1), table=name)
        leaks_nothing(caught.value)
    with refused("data.database-table-not-found"):
        count_x(url, fn.Ordered(0, 1), table="far")
    assert count_x(url, fn.Ordered(0, 1), table="own") == [1, 1]
    with connected(url) as db:
        for statement in after or ["DROP FOREIGN TABLE far"]:
            db.exec_driver_sql(statement)
    assert sum(count_x(url, fn.Ordered(0, 1), table=table)) == (1 if table == "people" else 0)


@needs_postgresql
def test_functions_and_orders_of_the_user_change_nothing(post):
    url = post(
        "CREATE TABLE people (x DOUBLE PRECISION)", "INSERT INTO people VALUES (1), (1.5)",
        "CREATE FUNCTION floor(double precision) RETURNS double precision LANGUAGE sql AS 'SELECT $1'",
        "CREATE FUNCTION abs(numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 0::numeric'",
    )  # fmt: skip
    schema = url.query["options"].partition("=")[2].partition(",")[0]
    url = url.update_query_dict({"options": f"-csearch_path={schema},pg_catalog"})
    with connected(url) as db:
        assert db.exec_driver_sql("SELECT floor(1.5::double precision)").scalar() == 1.5
    assert count_x(url, fn.Ordered(0, 1), drop=True) == [0, 1]


@needs_postgresql
def test_a_policy_that_hides_records_is_an_error_and_no_part_of_the_counts(post):
    role = f"reader{next(NUMBER)}"
    url = post(
        "CREATE TABLE people (x INT)", "INSERT INTO people VALUES (0), (1)", "CREATE TABLE closed (x INT)",
        "ALTER TABLE people ENABLE ROW LEVEL SECURITY", "CREATE POLICY p ON people USING (x = 1)",
        f"CREATE ROLE {role} LOGIN", f"GRANT SELECT ON people TO {role}",
        f"DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO {role}', current_schema()); END $$",
    )  # fmt: skip
    url = url.set(username=role)
    for table in ("people", "closed"):
        with refused("data.records-not-counted") as caught:
            count_x(url, fn.Ordered(0, 1), table=table)
        leaks_nothing(caught.value)
        assert role not in str(caught.value)


@needs_postgresql
@pytest.mark.parametrize("setting", ["zero_damaged_pages", "ignore_checksum_failure"])
def test_settings_by_which_damaged_pages_have_no_records_are_refused(post, setting):
    url = post("CREATE TABLE people (x INT)", "INSERT INTO people VALUES (1)")
    assert count_x(url, fn.Ordered(0, 1)) == [0, 1]
    url = url.update_query_dict({"options": f"{url.query['options']} -c{setting}=on"})
    with refused("data.database-table-not-safe"):
        count_x(url, fn.Ordered(0, 1))


def test_a_table_that_changes_between_two_states_is_refused(lite, monkeypatch):
    """Engines without transactions state in which state they are, for any count."""
    path = lite("CREATE TABLE people (x INTEGER, p TEXT)", "INSERT INTO people VALUES (1, 'a'), (0, 'a')")
    domain, bound = fn.Domain(x=fn.Ordered(0, 1)), RecordBound("p", 1)
    for state, moves in {"SELECT count(*) FROM people WHERE :name = 'people'": False, "SELECT random()": True}.items():
        monkeypatch.setattr(databases, "SQLITE", replace(SQLITE, state=state))
        counter = open_counter(path, domain.axes, SOURCE, bound)
        for count in (counter.left_out, lambda counter=counter: counter.count([()])[()]):
            if not moves:
                assert count() == 1
                continue
            with refused("data.data-changed-while-read"):
                count()


def test_names_of_columns_are_those_that_the_engine_tells(lite, monkeypatch):
    path = lite("CREATE TABLE people (x INTEGER, y INTEGER)")
    query = "SELECT upper(name) FROM pragma_table_info(:name)"
    monkeypatch.setattr(databases, "SQLITE", replace(SQLITE, columns=query))
    with databases.database(path).session("people") as session:
        assert session.names == ("X", "Y")
    monkeypatch.setattr(databases, "SQLITE", replace(SQLITE, columns=f"{query} LIMIT 1"))
    with refused("data.database-not-described"):
        count_x(path, fn.Ordered(0, 1))


def test_a_question_that_a_table_does_not_answer_is_an_error(lite, monkeypatch):
    path = lite("CREATE TABLE people (x INTEGER)")
    monkeypatch.setattr(databases, "SQLITE", replace(SQLITE, admits=((f"SELECT {SECRET}", 1, "it may be hidden"),)))
    with refused("data.database-check-failed") as caught:
        count_x(path, fn.Ordered(0, 1))
    leaks_nothing(caught.value)


@needs_postgresql
@pytest.mark.parametrize("max_pieces", [4, 24])
def test_large_tables_of_postgresql_are_read_in_pieces(post, monkeypatch, max_pieces):
    """Large tables are read by pages, some of them empty. Other tables, and records by an id, are read at once."""
    many = "SELECT i % 2, 'p' || i % 7, repeat('x', 500) FROM generate_series(1, 900) AS t(i)"
    url = post(
        "CREATE TABLE people (x INT, id TEXT, filling TEXT)", f"INSERT INTO people {many}",
        "DELETE FROM people WHERE ctid < '(20,0)' OR ctid > '(30,5)'", "UPDATE people SET x = 1 - x WHERE id = 'p3'",
        "CREATE TABLE above (x INT, id TEXT, filling TEXT)", "CREATE TABLE below () INHERITS (above)",
        f"INSERT INTO above {many}", f"INSERT INTO below {many}",
        "CREATE TABLE parts (x INT, id TEXT, filling TEXT) PARTITION BY LIST (x)",
        "CREATE TABLE part PARTITION OF parts DEFAULT", f"INSERT INTO parts {many}",
    )  # fmt: skip
    with connected(url) as db:
        counts = dict(db.exec_driver_sql("SELECT x, count(*) FROM people GROUP BY x").fetchall())
        size = db.exec_driver_sql("SELECT pg_relation_size('people') / 8192").scalar()
    queries, fetch = [], databases.DatabaseSession.fetch
    monkeypatch.setattr(databases.DatabaseSession, "fetch", lambda s, sql: queries.append(sql) or fetch(s, sql))
    monkeypatch.setattr(sql, "refuse_unless_right", lambda *_, **__: None)
    monkeypatch.setattr(statements, "_PIECES", (4, max_pieces))
    x = fn.Ordered(0, 1)
    for pages, pieces in {size + 1: 1, size // 4 + 1: 1, size // 4: 4, 1: max_pieces}.items():
        monkeypatch.setattr(statements, "_PAGES", pages)
        assert count_x(url, x) == [counts[0], counts[1]]
        assert queries.pop().count("SELECT 0 AS j") == pieces
    assert count_x(url, x, table="above") == [900, 900]
    assert count_x(url, x, table="parts") == [450, 450]
    counter = open_counter(url, fn.Domain(x=x).axes, SOURCE, RecordBound("id", 3))
    assert counter.count([("x",)])["x",].sum() == 21
    assert not any("ctid <" in s for s in queries)


@needs_postgresql
@pytest.mark.parametrize("cut", [False, True])
def test_all_is_counted_as_it_stood_at_the_beginning(post, monkeypatch, cut, request):
    """Detects a person who moves between two reads and is counted twice: a writer is at work after the trial."""
    if cut:
        request.getfixturevalue("in_pieces")
    url = post("CREATE TABLE people (x INT, y INT)", "INSERT INTO people VALUES (0, 0), (1, 1)")

    def then_write(*arguments, **options):
        engine_check.refuse_unless_right(*arguments, **options)
        with connected(url) as db:
            db.exec_driver_sql("UPDATE people SET x = 1 - x, y = 1 - y WHERE x = 0")
            db.exec_driver_sql("INSERT INTO people VALUES (1, 1)")

    monkeypatch.setattr(sql, "refuse_unless_right", then_write)
    domain = fn.Domain(x=fn.Ordered(0, 1), y=fn.Ordered(0, 1))
    counts = open_counter(url, domain.axes, SOURCE).count([("x",), ("y",)])
    assert [c.tolist() for c in counts.values()] == [[1, 1], [1, 1]]


@needs_postgresql
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a cursor whose connection is gone
@pytest.mark.parametrize("drop", [True, False])
def test_a_connection_that_is_lost_or_times_out_charges_nothing(post, drop, monkeypatch, tmp_path):
    url = post("CREATE TABLE people (x INT)", "INSERT INTO people SELECT 1 FROM generate_series(1, 200000)")
    workload = fn.Workload(fn.Domain(x=fn.Ordered(0, 1)), [fn.table("x", margin=5)])
    source = replace(SOURCE, outside_domain=DROP if drop else REFUSE)
    plan = fn.plan(workload, source=source)

    def then_kill(*_, **__):
        with connected(url) as db:
            db.exec_driver_sql(f"SELECT pg_terminate_backend(pid) {OTHERS}")

    with monkeypatch.context() as patch:
        patch.setattr(sql, "refuse_unless_right", then_kill)
        with refused("data.records-not-counted") as caught:
            fn.release(plan, url, ledger=tmp_path / "l.db")
    leaks_nothing(caught.value)

    def then_time_out(fetch, *_, **__):
        """Only the count has a limit: a busy machine may be slow to connect."""
        assert list(fetch("SELECT set_config('statement_timeout', '1ms', false)"))

    monkeypatch.setattr(sql, "refuse_unless_right", then_time_out)
    with refused("data.records-not-counted") as caught:
        fn.release(plan, url, ledger=tmp_path / "l.db")
    leaks_nothing(caught.value)
    with fn.Ledger(tmp_path / "l.db") as ledger:
        assert ledger.entries() == []


# --- MariaDB --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("tried_once")
@pytest.mark.skipif("mariadb" not in ENGINES, reason="`make engines` tries it, where the system has it")
def test_tables_and_sessions_of_mariadb(monkeypatch):
    url = mariadb_table(people(0, source=ENGINES["mariadb"]))
    with connected(url) as db:
        for line in (
            "CREATE TABLE loose (x INT) ENGINE = MyISAM",
            "CREATE TABLE merged (x INT) ENGINE = MERGE UNION = (loose)",
            "CREATE TABLE parts (x INT) PARTITION BY LIST (x) (PARTITION a VALUES IN (0), PARTITION b VALUES IN (1))",
            "INSERT INTO parts VALUES (0), (1), (1)",
            "CREATE TABLE t (c CHAR(3), v VARCHAR(9) CHARACTER SET latin1, b BOOLEAN, n INT)",
            f"INSERT INTO t VALUES ('a ', 'á', 1, 5), ('A', 'a ', 0, 7), ('{SECRET[:3]}', 'A', 2, 9)",
            "CREATE VIEW v AS SELECT n AS x FROM t",
        ):
            db.exec_driver_sql(line)
    init = "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES,NO_BACKSLASH_ESCAPES', sql_select_limit = 1"
    engine = sa.create_engine(url, connect_args={"init_command": init})
    longest = ["x" * 16_000 + end for end in ("", "a", "b", "A")]
    with connected(url) as db:
        db.exec_driver_sql("CREATE TABLE long_texts (c LONGTEXT)")
        for text in (*longest, longest[0] + "aa", longest[0] * 9):
            db.exec_driver_sql("INSERT INTO long_texts VALUES (%s)", (text,))
    codes = fn.Categorical(longest, missing={"other": ["none"]}, if_outside="other", column="c")
    assert count_x(url, codes, table="long_texts") == [1, 1, 1, 1, 2]
    for data in (url, engine):
        assert count_x(data, fn.Categorical(["a", "A"], column="c"), drop=True, table="t") == [1, 1]
        assert count_x(data, fn.Categorical(["á", "a", "a ", "A"], column="v"), drop=True, table="t") == [1, 0, 1, 1]
        assert count_x(data, fn.Categorical([True, False], column="b"), drop=True, table="t") == [1, 1]
        assert count_x(data, fn.Ordered(5, 9, column="n"), table=f"{url.database}.t") == [1, 0, 1, 0, 1]
    with connected(url) as db:
        db.exec_driver_sql("CREATE TABLE moving (x INT, y INT)")
        db.exec_driver_sql("INSERT INTO moving VALUES (0, 0), (1, 1)")

    def then_write(*_, **__):
        with connected(url) as db:
            db.exec_driver_sql("UPDATE moving SET x = 1 - x, y = 1 - y WHERE x = 0")
            db.exec_driver_sql("INSERT INTO moving VALUES (1, 1)")

    monkeypatch.setattr(sql, "refuse_unless_right", then_write)
    moving = fn.Domain(x=fn.Ordered(0, 1), y=fn.Ordered(0, 1))
    counts = open_counter(url, moving.axes, DataSource(table="moving")).count([("x",), ("y",)])
    assert counts["x",].tolist() == counts["y",].tolist()  # of one state: a snapshot begins with the first read
    assert counts["x",].tolist() in ([1, 1], [0, 3])
    for table in ("loose", "merged"):
        with refused("data.database-table-not-safe"):
            count_x(url, fn.Ordered(0, 1), table=table)
    assert count_x(url, fn.Ordered(0, 1), table="parts") == [1, 2]
    with pytest.raises(sa.exc.DatabaseError, match="mix of handlers"), connected(url) as db:  # so no part is another's
        db.exec_driver_sql(
            "CREATE TABLE mixed (x INT) ENGINE = InnoDB PARTITION BY LIST (x) "
            "(PARTITION a VALUES IN (0), PARTITION b VALUES IN (1) ENGINE = MyISAM)"
        )
    with refused("data.records-outside-domain"):  # the view is row-wise, so it is read
        count_x(url, fn.Ordered(0, 1), table="v")
    engine.dispose()


# --- ClickHouse -----------------------------------------------------------------------------------------------------

needs_clickhouse = pytest.mark.skipif("clickhouse" not in ENGINES, reason="`make engines` tries it, where it is")

PIECEMEAL = "max_block_size = 10000, max_threads = 1, max_rows_to_read"

PARTS_OF = {
    "a limit of a server": f"{PIECEMEAL}_leaf = 100000, read_overflow_mode_leaf = 'break'",
    "a limit": f"{PIECEMEAL} = 100000, read_overflow_mode = 'break'",
    "a filter": "additional_table_filters = {'d_settings.people': 'x = 1'}",
    "what was deleted": "apply_deleted_mask = 0",
    "one replica's part": "enable_parallel_replicas = 1, max_parallel_replicas = 3, parallel_replicas_count = 3, "
    "parallel_replica_offset = 1, parallel_replicas_mode = 'sampling_key'",
}
"""Settings of a session with which ClickHouse counts other records than there are, without a word."""

REFUSED_SETTINGS = {
    "timeout_overflow_mode_leaf": "'break'", "apply_patch_parts": 0, "ignore_cold_parts_seconds": 9,
    "partial_result_on_first_cancel": 1, "discard_query_data": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def many():
    """A table of ClickHouse with records that were deleted."""
    db = Embedded()
    for line in (
        "CREATE DATABASE d_settings", "USE d_settings",
        "CREATE TABLE people (x Int64, k UInt64) ENGINE = MergeTree ORDER BY k SAMPLE BY k",
        "INSERT INTO people SELECT number % 3, intHash64(number) FROM numbers(600000)",
        "DELETE FROM people WHERE x = 2",
    ):  # fmt: skip
        db.execute(line)


@needs_clickhouse
@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("case", PARTS_OF)
def test_settings_by_which_clickhouse_counts_some_records_do_nothing_or_are_an_error(case, monkeypatch):
    data, x = in_clickhouse("d_settings", PARTS_OF[case]), fn.Ordered(0, 2)
    all_counts = [200_000, 200_000, 0]
    assert count_x(in_clickhouse("d_settings"), x) == all_counts
    if "limit" in case:
        with refused("data.records-not-counted") as caught:
            count_x(data, x)
        leaks_nothing(caught.value)
    else:
        assert count_x(data, x) == all_counts
    unguarded = replace(DIALECTS["clickhouse"], ending="", admits=())
    monkeypatch.setattr(databases, "DIALECTS", {"clickhouse": unguarded})
    assert count_x(data, x) != all_counts


@needs_clickhouse
@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("name", REFUSED_SETTINGS)
def test_settings_of_some_versions_of_clickhouse_are_refused(name):
    with refused("data.database-table-not-safe") as caught:
        count_x(in_clickhouse("d_settings", f"{name} = {REFUSED_SETTINGS[name]}"), fn.Ordered(0, 2))
    leaks_nothing(caught.value)


@needs_clickhouse
@pytest.mark.usefixtures("many")
@pytest.mark.parametrize(
    "write",
    [
        "INSERT INTO moving SELECT 1, 1",
        "ALTER TABLE moving UPDATE y = 2 WHERE x = 1",
        "DELETE FROM moving WHERE x = 0",
        None,
    ],
)
def test_a_table_of_clickhouse_that_changes_while_it_is_counted_is_refused(write, monkeypatch):
    """And not for parts that are merged, of the same records."""
    db = Embedded("d_settings")
    db.execute("DROP TABLE IF EXISTS moving")
    db.execute("SET mutations_sync = 2")
    db.execute("CREATE TABLE moving (x Int64, y Int64) ENGINE = MergeTree ORDER BY tuple() PARTITION BY x % 2")
    for _ in range(3):
        db.execute("INSERT INTO moving VALUES (0, 0), (1, 1)")
    run = sql.count

    def then_write(*arguments, **options):
        result = run(*arguments, **options)
        db.execute("OPTIMIZE TABLE moving FINAL" if write is None else write)
        return result

    data = in_clickhouse("d_settings")
    monkeypatch.setattr(sql, "refuse_unless_right", lambda *_, **__: None)
    monkeypatch.setattr(sql, "count", then_write)
    if write is None:
        assert count_x(data, fn.Ordered(0, 1), table="moving") == [3, 3]
        return
    with refused("data.data-changed-while-read"):
        count_x(data, fn.Ordered(0, 1), table="moving")


@needs_clickhouse
def test_tables_of_clickhouse_with_a_policy_are_refused():
    """This also holds if the engine does not state whether there is one."""
    db = Embedded()
    for line in (
        "CREATE DATABASE hidden", "USE hidden", "CREATE TABLE people (x Int64) ENGINE = MergeTree ORDER BY x",
        "INSERT INTO people VALUES (0), (1)", "CREATE VIEW v AS SELECT 1 AS x",
        "CREATE TABLE plain (x Int64) ENGINE = MergeTree ORDER BY x",
    ):  # fmt: skip
        db.execute(line)
    data = in_clickhouse("hidden")
    assert count_x(data, fn.Ordered(0, 1), table="plain") == [0, 0]
    for table in ("people", "v"):
        with refused("data.database-table-not-safe") as caught:
            count_x(data, fn.Ordered(0, 1), table=table)
        leaks_nothing(caught.value)


# --- addresses --------------------------------------------------------------------------------------------------------

PASSWORD = "hunter2-Xk7secret"  # noqa: S105 - that no message may repeat
HIDDEN = f"postgresql://alice:{PASSWORD}@127.0.0.1:9/census"


def test_addresses_that_cannot_be_used(monkeypatch, tmp_path):
    monkeypatch.setenv("CENSUS", HIDDEN)
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("BROKEN", f"{PASSWORD}@nowhere")
    monkeypatch.setenv("PORT", f"postgresql://alice:{PASSWORD}@127.0.0.1:{PASSWORD}/census")
    monkeypatch.setenv("OTHER", f"informix://alice:{PASSWORD}@127.0.0.1/census")
    monkeypatch.setenv("DRIVER", f"postgresql+pg8000://alice:{PASSWORD}@127.0.0.1/census")
    monkeypatch.setenv("UNKNOWN", f"postgresql+nothing://alice:{PASSWORD}@127.0.0.1/census")
    monkeypatch.setenv("WAREHOUSE", f"snowflake://alice:{PASSWORD}@127.0.0.1/census")
    monkeypatch.setenv("ODD", f"postgresql://alice:{PASSWORD}@127.0.0.1/census?port=x&port=y&host=a")
    for data, code in {
        "env:NONE": "data.environment-variable-missing",
        "env:": "data.environment-name-invalid",
        "env:postgresql://u:hidden@h/db": "data.environment-name-invalid",
        "env:EMPTY": "data.database-url-invalid",
        "env:BROKEN": "data.database-url-invalid",
        "env:PORT": "data.database-url-invalid",
        "env:OTHER": "data.database-kind-unknown",
        "env:DRIVER": "data.database-driver-missing",
        "env:UNKNOWN": "data.database-driver-missing",
        "env:WAREHOUSE": "data.database-driver-missing",
        "env:CENSUS": "data.database-not-reached",
        "env:ODD": "data.database-url-unusable",
        HIDDEN: "data.database-url-with-password",
        f"postgresql:///census?password={PASSWORD}": "data.database-url-with-password",
        "mysql://": "data.database-driver-missing",
        sa.URL.create("oracle", "alice", PASSWORD): "data.database-driver-missing",
        sa.select(1): "data.database-address-invalid",
    }.items():
        with refused(code) as caught:
            open_counter(data, DOMAIN.axes, SOURCE)
        leaks_nothing(caught.value)
        assert not any(x in str(caught.value) for x in (PASSWORD, "alice", "127.0.0.1", "nowhere"))


def test_a_network_is_still_none(tmp_path):
    for data in ("https://example.org/people.csv", "s3://bucket/people.parquet", "informix://host/x"):
        with refused("data.data-over-network"):
            open_counter(data, DOMAIN.axes, SOURCE)


def test_an_error_names_sqlalchemy_where_it_is_missing(monkeypatch, lite):
    path = lite("CREATE TABLE people (x INTEGER)")
    monkeypatch.setitem(__import__("sys").modules, "sqlalchemy", None)
    with refused("data.sqlalchemy-missing") as caught:
        open_counter(path, DOMAIN.axes, SOURCE)
    leaks_nothing(caught.value)


@pytest.mark.no_cover
def test_an_engine_of_the_user_is_left_as_it_was(lite):
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    with engine.begin() as db:
        db.exec_driver_sql("CREATE TABLE people (x INTEGER)")
        db.exec_driver_sql("INSERT INTO people VALUES (1)")
    assert count_x(engine, fn.Ordered(0, 1)) == [0, 1]
    assert count_x(engine, fn.Ordered(0, 1)) == [0, 1]


@needs_postgresql
def test_a_session_of_the_users_pool_is_not_changed(post):
    url = post("CREATE TABLE people (x INT)", "INSERT INTO people VALUES (1)")
    engine = sa.create_engine(url, pool_size=1, max_overflow=0)
    with engine.connect() as db:
        before = db.exec_driver_sql("SELECT pg_backend_pid()").scalar()
    assert count_x(engine, fn.Ordered(0, 1)) == [0, 1]
    with engine.connect() as db:
        assert db.exec_driver_sql("SELECT pg_backend_pid()").scalar() != before
        assert db.exec_driver_sql("SHOW enable_sort").scalar() == "on"
    engine.dispose()


@needs_postgresql
def test_servers_do_not_keep_connections_of_ours(post):
    url = post("CREATE TABLE people (x INT)", "INSERT INTO people VALUES (7)")
    counter = open_counter(url, fn.Domain(x=fn.Ordered(0, 1)).axes, SOURCE)
    with refused("data.records-outside-domain"):
        counter.count([("x",)])
    with connected(url) as db:
        for _ in range(50):
            if not db.exec_driver_sql(f"SELECT count(*) {OTHERS}").scalar():
                break
            threading.Event().wait(0.02)
        else:
            pytest.fail("a connection was left open")


def test_a_session_that_cannot_be_set_is_closed(lite, monkeypatch):
    path = lite("CREATE TABLE people (x INTEGER)")
    monkeypatch.setattr(databases, "SQLITE", replace(SQLITE, session=("SELECT 1", f"SET {SECRET} = 1")))
    with refused("data.database-not-reached") as caught:
        open_counter(path, DOMAIN.axes, SOURCE)
    leaks_nothing(caught.value)


def test_codes_that_an_engine_confuses_are_refused(lite, monkeypatch):
    path = lite("CREATE TABLE people (x TEXT)", "INSERT INTO people VALUES ('abcd')")
    monkeypatch.setattr(databases, "SQLITE", replace(SQLITE, longest=5))
    assert count_x(path, fn.Categorical(["abcd"])) == [1]
    with refused("data.code-too-long-for-database"):
        count_x(path, fn.Categorical(["abcd", "abcé"]))


def test_tables_that_are_not_of_the_same_records_are_refused():
    """Detects a writer between the scans of an engine without transactions: a person may have been in two places."""
    d, margins = DIALECTS["clickhouse"], [("x", "y"), ("y", "z")]
    attributes = {a: fn.Ordered(1, 3000) for a in "xyz"}
    fields = {a: statements.Field(x.coding, ColumnKind.INTEGER, f"source.{a}") for a, x in attributes.items()}

    def counts(*rows):
        placed = [(j, y_code * 3001 + last, n) for j, y_code, last, n in rows]
        return statements.count(lambda _: [placed], d, "people", fields, margins, ProgressFilter(None), drop=False)[0]

    assert counts((0, 1, 2, 5), (1, 2, 3, 5))["x", "y"][0, 1] == 5
    assert counts((0, 1, 2, 5), (0, 1, 3, 1), (1, 3, 3, 1), (1, 2, 7, 5))["y", "z"][1, 6] == 5
    one_more, shifted = (1, 2, 9, 1), (1, 4, 9, 1)
    for rows in ([(1, 2, 3, 5), one_more], [(1, 2, 3, 4), shifted], []):
        with refused("data.database-table-changed") as caught:
            counts((0, 1, 2, 5), *rows)
        leaks_nothing(caught.value)


def test_clickhouse_is_known_by_the_package_of_its_makers():
    """Columns as clickhouse-connect 1.12 reports them to SQLAlchemy; only types that are texts there are texts."""
    d = databases._dialect("clickhousedb")
    assert d is databases._dialect("clickhouse") is DIALECTS["clickhouse"]
    assert databases.is_database("clickhousedb://user@host/db")
    assert not databases.is_database("otherdb://user@host/db")
    kinds = {"String": ColumnKind.TEXT, "UUID": None, "Enum8": None}
    types = {name: type(name, (sa.types.UserDefinedType,), {})() for name in kinds}
    assert {name: databases._kind(d, x)[0] for name, x in types.items()} == kinds
    assert databases._kind(DIALECTS["trino"], types["String"]) == (None, "String")


def test_names_are_those_that_the_engine_has():
    """SQLAlchemy writes them in small letters where capitals do not matter; a quoted name has to have them."""
    for capitals, stored_name in {True: "PEOPLE", False: "people"}.items():
        d = SimpleNamespace(requires_name_normalize=capitals, denormalize_name=str.upper)
        assert databases._as_stored(SimpleNamespace(dialect=d), "people") == stored_name


# --- from request to release -------------------------------------------------------------------------------------

SPEC = """
[data]
source = "census"
table = "people"
outside_domain = "drop"

[domain.sex]
type = "categorical"
codes = ["f", "m"]

[domain.age]
type = "ordered"
low = 0
high = 4

[[tables]]
attributes = ["sex"]
cumulative = ["age"]
margin = 5.0

[[tables]]
attributes = ["sex"]
margin = 4.0
"""


def filled(execute):
    """Records of two attributes, some outside."""
    execute("CREATE TABLE people (sex VARCHAR(9), age INTEGER, name VARCHAR(99))")
    rows = [(s, a) for s in "fmx" for a in range(6) for _ in range(40 + a)]
    execute("INSERT INTO people VALUES " + ", ".join(f"('{s}', {a}, '{SECRET}')" for s, a in rows))
    return {s: sum(1 for x, a in rows if x == s and a < 5) for s in "fm"}


@pytest.mark.no_cover
@pytest.mark.parametrize("engine", [e for e in ENGINES if e not in ("mariadb", "spark")])
def test_from_a_specification_to_a_verified_release(engine, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    if engine == "sqlite":
        with contextlib.closing(sqlite3.connect(tmp_path / "people.db")) as db:
            truth = filled(db.execute)
            db.commit()
        url, data = None, "people.db"
        secrets = [SECRET, str(tmp_path)]
    else:
        schema, role = f"e{next(NUMBER)}", f"alice{next(NUMBER)}"
        url = postgresql().update_query_dict({"options": f"-csearch_path={schema}"})
        with connected(url) as db:
            db.exec_driver_sql(f"CREATE SCHEMA {schema}")
            truth = filled(db.exec_driver_sql)
            db.exec_driver_sql(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
            db.exec_driver_sql(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
            db.exec_driver_sql(f"GRANT SELECT ON people TO {role}")
        url = url.set(username=role, password=PASSWORD)
        monkeypatch.setenv("CENSUS_URL", url.render_as_string(hide_password=False))
        data, secrets = "env:CENSUS_URL", [SECRET, role, PASSWORD, url.query["host"]]
    for command in (
        ["plan", "spec.toml", "-o", "plan.json"],
        ["release", "plan.json", data, "--ledger", "ledger.db", "-o", "release"],
        ["verify", "release", "--ledger", "ledger.db"],
        ["release", "plan.json", data, "--table", "none", "--ledger", "ledger.db", "-o", "again", "--again"],
    ):
        by_command(*command)
    output = "".join(capsys.readouterr())
    assert "The table 'none' does not exist in" in output
    plan = fn.Plan.from_json((tmp_path / "plan.json").read_text(encoding="utf-8"))
    assert fn.verify(tmp_path / "release").ok
    released = fn.release(plan, data, ledger=tmp_path / "ledger.db", directory=tmp_path / "python", again=True)
    for sex, value in zip("fm", released["sex"]["value"], strict=True):
        assert abs(value - truth[sex]) < 40
    with fn.Ledger(tmp_path / "ledger.db") as ledger:
        assert sum(e.kind == "charge" for e in ledger.entries()) == 2
    for path in (p for p in tmp_path.rglob("*") if p.is_file() and p.name != "people.db"):
        output += path.read_bytes().decode("latin-1")
    assert not [s for s in secrets if s in output]


if __name__ == "__main__":
    GOLDEN_FILES.mkdir(exist_ok=True)
    for listed in DIALECTS:
        for policy in ("drop", "refuse"):
            if not DIALECTS[listed].streams:
                file = GOLDEN_FILES / f"{listed}, {policy}.sql"
                file.write_text(golden(listed, drop=policy == "drop"), encoding="utf-8")
        if not DIALECTS[listed].streams:
            file = GOLDEN_FILES / f"{listed}, missing.sql"
            content = golden(listed, domain=MISSING, by_id=bool(DIALECTS[listed].digest))
            file.write_text(content, encoding="utf-8")
            file = GOLDEN_FILES / f"{listed}, amounts.sql"
            file.write_text(golden(listed, domain=SUMMED), encoding="utf-8")
        if DIALECTS[listed].pages:
            file = GOLDEN_FILES / f"{listed}, in pieces.sql"
            file.write_text(golden(listed, pages=LARGE), encoding="utf-8")
        if DIALECTS[listed].digest:
            file = GOLDEN_FILES / f"{listed}, persons.sql"
            file.write_text(golden(listed, drop=False, by_id=True), encoding="utf-8")
            file = GOLDEN_FILES / f"{listed}, persons in shares.sql"
            file.write_text(golden(listed, drop=False, by_id=True, max_records=None), encoding="utf-8")
            file = GOLDEN_FILES / f"{listed}, persons added up.sql"
            file.write_text(golden(listed, by_id=True, domain=SUMMED, merge=ADDED), encoding="utf-8")
            file = GOLDEN_FILES / f"{listed}, persons left out.sql"
            content = golden(listed, by_id=True, pattern=PATTERNS["once"], uncounted=True)
            file.write_text(content, encoding="utf-8")
            for kind, pattern in PATTERNS.items():
                file = GOLDEN_FILES / f"{listed}, persons {kind}.sql"
                file.write_text(golden(listed, drop=True, by_id=True, pattern=pattern), encoding="utf-8")
