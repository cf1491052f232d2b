"""Views: what proves that one record of a table changes at most one row of a view, and what a publisher promises."""

import contextlib
import json
import shutil
import sqlite3
from collections import Counter
from dataclasses import replace
from functools import partial

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fitnoise as fn
from engines import MARIADB, POSTGRESQL, connected, mariadb, postgresql
from fitnoise.engines import databases, open_counter, views
from fitnoise.engines.sources import standing
from fitnoise.engines.views import NotProvenError, Selection, prove, read_definition
from fitnoise.interfaces.render import document
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.interfaces.reports.releases import release_report
from fitnoise.kernel.units import DataSource
from fitnoise.request.documents import Spec
from laws.counting import leaks_nothing
from refused import SECRET, refused

needs_postgresql = pytest.mark.skipif(not POSTGRESQL, reason="there is no wheel with PostgreSQL for this platform")
needs_mariadb = pytest.mark.skipif(MARIADB is None, reason="`make engines` tries it, where the system has it")

PLACES = ("sqlite", "duckdb", pytest.param("postgresql", marks=needs_postgresql))

TABLES = (
    "CREATE TABLE people (x INTEGER, y VARCHAR(9), z INTEGER)",
    "INSERT INTO people VALUES (0, 'a', 1), (1, 'b', 2), (1, 'c', 3)",
    "CREATE TABLE homes (h INTEGER, z INTEGER)",
    "INSERT INTO homes VALUES (1, 1), (1, 2), (2, 3)",
)

DOMAIN = fn.Domain(x=fn.Ordered(0, 1, clip=True))


class SqliteFile:
    """A database of SQLite, and its address."""

    language = "sqlite"

    def __init__(self, folder):
        self.address = folder / "people.sqlite"

    def run(self, *statements):
        with contextlib.closing(sqlite3.connect(self.address)) as db:
            rows = [db.execute(s).fetchall() for s in statements]
            db.commit()
        return rows[-1]


class DuckdbFile:
    """A file of DuckDB."""

    language = "duckdb"

    def __init__(self, folder):
        self.address = folder / "people.duckdb"

    def run(self, *statements):
        with duckdb.connect(self.address) as db:
            return [db.execute(s).fetchall() for s in statements][-1]


class Schema:
    """A schema of PostgreSQL that no other test uses, and the URL whose path finds it."""

    language = "postgres"
    number = 0

    def __init__(self, _):
        Schema.number += 1
        self.name = f"views{Schema.number}"
        self.address = postgresql().update_query_dict({"options": f"-csearch_path={self.name},public"})
        self.run(f"DROP SCHEMA IF EXISTS {self.name} CASCADE", f"CREATE SCHEMA {self.name}")

    def run(self, *statements):
        with connected(self.address) as db:
            results = [db.exec_driver_sql(s, execution_options={"no_parameters": True}) for s in statements]
            return [tuple(row) for row in results[-1]] if results[-1].returns_rows else []


KINDS = {"sqlite": SqliteFile, "duckdb": DuckdbFile, "postgresql": Schema}


@pytest.fixture(params=PLACES)
def base(request, tmp_path):
    """A database of each kind, with two tables."""
    release = KINDS[request.param](tmp_path)
    release.run(*TABLES)
    return release


def opened(base, view="v", promise=None):
    return open_counter(base.address, DOMAIN.axes, DataSource(table=view, view=promise))


def count(counter):
    return counter.count([("x",)])["x",].tolist()


# --- definitions ------------------------------------------------------------------------------------------------

ROW_WISE = {
    "SELECT x, y, z FROM people": [1, 2],
    "SELECT * FROM people": [1, 2],
    "SELECT p.* FROM people p": [1, 2],
    "SELECT p.x AS x, upper(p.y) AS y FROM people AS p WHERE p.z > 1": [0, 2],
    "SELECT x FROM people WHERE y IN ('a', 'b') AND NOT z = 7": [1, 1],
    "SELECT x FROM people WHERE y LIKE 'a%' OR z BETWEEN 2 AND 2": [1, 1],
    "SELECT CASE WHEN z > 2 THEN 0 ELSE x END AS x FROM people": [2, 1],
    "SELECT coalesce(nullif(x, 1), abs(-1)) AS x, round(z * 2 / 3 + 1 - 2) AS r FROM people": [1, 2],
    "SELECT x, CAST(z AS VARCHAR(9)) AS t, trim(y) || 'x' AS u, length(lower(y)) AS n FROM people": [1, 2],
    "SELECT x FROM people WHERE y IS NOT NULL AND z IS NOT NULL ORDER BY x": [1, 2],
    "SELECT x FROM people WHERE z <> 3": [1, 1],
}

SEVERAL, INNER, ROWS = "several tables", "query within", "several rows of one"
HOSTILE = {
    "SELECT a.x FROM people a, people b": SEVERAL,
    "SELECT x FROM people NATURAL JOIN homes": SEVERAL,
    "SELECT p.x FROM people p JOIN homes h ON p.z = h.z": SEVERAL,
    "SELECT p.x FROM people p LEFT JOIN homes h ON p.z = h.z": SEVERAL,
    "SELECT p.x FROM people p CROSS JOIN homes": SEVERAL,
    "SELECT x FROM people WHERE z IN (SELECT z FROM homes)": INNER,
    "SELECT x FROM people p WHERE EXISTS (SELECT 1 FROM homes h WHERE h.z = p.z)": INNER,
    "SELECT x FROM people WHERE z > (SELECT avg(z) FROM people)": INNER,
    "SELECT (SELECT count(*) FROM people) AS x FROM people": INNER,
    "SELECT x FROM (SELECT x, z FROM people) AS q": INNER,
    "WITH q AS (SELECT x FROM people) SELECT x FROM q": "common table expression",
    "SELECT count(x) AS x FROM people": "aggregates",
    "SELECT sum(x) AS x FROM people GROUP BY y": "groups rows",
    "SELECT x FROM people GROUP BY x": "groups rows",
    "SELECT max(x) AS x FROM people HAVING count(*) > 1": "groups rows",
    "SELECT DISTINCT x FROM people": "equal rows",
    "SELECT x FROM people LIMIT 2": "limits",
    "SELECT x FROM people ORDER BY z LIMIT 2 OFFSET 1": "limits",
    "SELECT row_number() OVER (ORDER BY z) AS x FROM people": "window",
    "SELECT sum(x) OVER (PARTITION BY y) AS x FROM people": "window",
    "SELECT x FROM people UNION ALL SELECT x FROM people": "several queries",
    "SELECT x FROM people EXCEPT SELECT x FROM people WHERE z = 1": "several queries",
    "SELECT x FROM people INTERSECT SELECT x FROM people": "several queries",
    "SELECT x FROM people WHERE random() > 0": "calls a function",
    "SELECT x, CURRENT_TIMESTAMP AS t FROM people": "calls a function",
    "SELECT 1 AS x": "something other than one named table",
    "SELECT x, replace(y, 'a', 'b') AS y FROM people": "calls a function",
}  # fmt: skip

OF_ONE_ENGINE = {
    "sqlite": {
        "SELECT x FROM people WHERE z IN homes2": "does not know",
        "SELECT x FROM people WHERE rowid < 3": "no column",
        "SELECT x FROM pragma_table_list, people": SEVERAL,
        "SELECT value AS x FROM json_each('[1, 2]')": "function",
        "SELECT name AS x FROM sqlite_master": "neither a table nor a view",
        "SELECT x FROM people /* why */": "comment",
        "SELECT x /* /* */ FROM people, homes -- */": "comment",
        'SELECT x, "a\u00a0b" AS q FROM people': "unusual",
        "VALUES (1), (2)": "not one SELECT",
    },
    "duckdb": {
        "SELECT unnest([x, x]) AS x FROM people": ROWS,
        "SELECT x FROM people USING SAMPLE 50%": "sample",
        "SELECT x FROM people QUALIFY row_number() OVER () = 1": "window",
        "SELECT range AS x FROM range(3)": "calls a function",
        "SELECT * EXCLUDE (y) FROM people": "",
        "SELECT rowid AS x FROM people": "no column",
        "SELECT people AS p, x FROM people": "no column",
        "SELECT x FROM duckdb_tables(), people": SEVERAL,
    },
    "postgresql": {
        "SELECT DISTINCT ON (x) x FROM people": "equal rows",
        "SELECT x FROM people TABLESAMPLE SYSTEM (50)": "sample",
        "SELECT x FROM ONLY people": "does not know",
        "SELECT generate_series(0, x) AS x FROM people": "function",
        "SELECT x FROM people, LATERAL (SELECT 1) q": SEVERAL,
        "SELECT x FROM people, generate_series(1, 2)": SEVERAL,
        "SELECT unnest(ARRAY[x, x]) AS x FROM people": ROWS,
        "SELECT x FROM people FETCH FIRST 1 ROWS ONLY": "limits",
        "SELECT x, xmin::text AS t FROM people": "no column",
        "SELECT x, ctid::text AS t FROM people": "no column",
        "SELECT x, tableoid::int AS t FROM people": "no column",
        "SELECT x, people AS p FROM people": "",
        "SELECT x FROM people WHERE current_user = 'a'": "calls a function",
        "SELECT x FROM people WHERE now() > '2020-01-01'": "calls a function",
        "SELECT x, nextval('numbers') AS n FROM people": "calls a function",
        "SELECT x, own(z) AS n FROM people": "defined in this database",
        "SELECT x FROM people WHERE z ### 3": "defined in this database",
        "SELECT x FROM people WHERE kind": "defined in this database",
        "SELECT relnatts AS x FROM pg_class": "neither a table nor a view",
        "SELECT x FROM people WHERE y::date > '2020-01-01'": "type",
        "SELECT count(*) FILTER (WHERE x = 1) AS x FROM people": "does not know",
        "SELECT x FROM ROWS FROM (generate_series(0, 1)) AS q(x)": "",
    },
}  # fmt: skip

DEFINED = (  # what users of PostgreSQL can hide behind a view
    "CREATE SEQUENCE numbers",
    "CREATE FUNCTION own(int) RETURNS int LANGUAGE sql AS 'SELECT $1'",
    "CREATE FUNCTION compared(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT $1 < $2'",
    "CREATE OPERATOR ### (LEFTARG = int, RIGHTARG = int, FUNCTION = compared)",
    "CREATE TYPE mood AS (n int)",
    "CREATE FUNCTION drawn(mood) RETURNS boolean LANGUAGE sql AS 'SELECT random() < 0.5'",
    "CREATE CAST (mood AS boolean) WITH FUNCTION drawn(mood) AS IMPLICIT",
    "ALTER TABLE people ADD COLUMN kind mood",
)


@pytest.mark.parametrize("definition", ROW_WISE)
def test_a_row_wise_view_is_counted_without_a_promise(base, definition):
    base.run(f"CREATE VIEW v AS {definition}", "CREATE VIEW w AS SELECT x FROM v WHERE x >= 0")
    for view in "vw":
        counter = opened(base, view)
        assert counter.view.word == "row-wise"
        assert counter.view.filters == (view == "w" or "WHERE" in definition)
        assert count(counter) == ROW_WISE[definition]


@pytest.mark.parametrize("definition", HOSTILE)
def test_any_other_view_is_refused_with_the_reason_or_counted_as_promised(base, definition):
    refuses(base, definition, HOSTILE[definition], counted="random" not in definition)


@pytest.mark.parametrize(
    ("kind", "definition"),
    [
        pytest.param(kind, definition, marks=needs_postgresql if kind == "postgresql" else ())
        for kind, definitions in OF_ONE_ENGINE.items()
        for definition in definitions
    ],
)
def test_views_of_one_engine_are_refused(tmp_path, kind, definition):
    base = KINDS[kind](tmp_path)
    base.run(*TABLES, "CREATE VIEW homes2 AS SELECT z FROM homes", *(DEFINED if kind == "postgresql" else ()))
    refuses(base, definition, OF_ONE_ENGINE[kind][definition], counted=False)


def refuses(base, definition, reason, *, counted=True):
    base.run(f"CREATE VIEW v AS {definition}", "CREATE VIEW w AS SELECT * FROM v")
    for view in "vw":
        with refused("data.view-not-promised", key="data.view") as caught:
            opened(base, view)
        assert reason in caught.value.given
        assert "promised" in caught.value.action
        assert "nothing was charged" in str(caught.value)
        leaks_nothing(caught.value)
    if counted:
        counter = opened(base, "v", "promised")
        assert counter.view == views.FoundView("promised")
        total = sum(count(counter))
        assert total == base.run("SELECT count(x) FROM v")[0][0]


def test_a_refusal_quotes_nothing_of_a_definition(base):
    base.run(f"CREATE VIEW v AS SELECT x FROM people, homes WHERE y = '{SECRET}'")
    with refused("data.view-not-promised") as caught:
        opened(base)
    leaks_nothing(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "may not read"),
        ("", "may not read"),
        ("SELECT x FROM t; SELECT x FROM t", "not one SELECT"),
        ("DELETE FROM t", "not one SELECT"),
        ("SELECT x FROM", "not one SELECT"),
        ("SELECT " + "(" * 3000 + "x" + ")" * 3000 + " FROM t", "not one SELECT"),
        ("SELECT x # FROM t", "comment"),
        ("SELECT 'a\\' AS y, x FROM t", "backslash"),
        ("SELECT x\x0bFROM t", "unusual"),
        ("SELECT x FROM a.b.t", "something other than one named table"),
        ("SELECT x FROM t AS q (a)", "does not know (columns of TableAlias)"),
        ("SELECT other.x FROM t", "part of a column"),
        ("SELECT f(x) FROM t", "(f)"),
        ("SELECT s.f(x) FROM t", "does not know (Dot)"),
        ("SELECT CAST(x AS mood) FROM t", "type"),
        ("SELECT TRY_CAST(x AS INT) FROM t", "function"),
        ("SELECT x FROM t WHERE x > ?", "does not know (Placeholder)"),
        ("SELECT x FROM t FOR UPDATE", "does not know (locks of Select)"),
        ("SELECT x INTO u FROM t", "does not know (into of Select)"),
    ],
)
def test_text_of_which_nothing_is_proved(text, reason, caplog):
    with pytest.raises(NotProvenError) as caught:
        read_definition(text, "postgres")
    assert reason in str(caught.value)
    assert caplog.records == []


def test_the_parts_that_a_definition_reads():
    text = 'CREATE VIEW "a AS b" (p, q) AS SELECT t.X, "Größe" FROM main.t WHERE z = \'é\''
    assert read_definition(text, "sqlite") == Selection("main", "t", frozenset({"x", "grösse", "z"}), True)


def test_without_sqlglot_nothing_is_proved(base, monkeypatch):
    base.run("CREATE VIEW v AS SELECT x FROM people")
    monkeypatch.setitem(__import__("sys").modules, "sqlglot", None)
    with refused("data.view-not-promised") as caught:
        opened(base)
    assert "sqlglot, which reads definitions" in caught.value.given
    assert count(opened(base, promise="promised")) == [1, 2]


def test_views_upon_views_end_somewhere(base):
    base.run("CREATE VIEW v0 AS SELECT x FROM people")
    base.run(*(f"CREATE VIEW v{i} AS SELECT x FROM v{i - 1}" for i in range(1, 18)))
    assert opened(base, "v16").view.word == "row-wise"
    with refused("data.view-not-promised") as caught:
        opened(base, "v17")
    assert "more than 16 views" in caught.value.given


# --- one row more or less ----------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.sampled_from(["x", "z", "1", "0", "-2", "NULL"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, inner).map(lambda t: f"coalesce({t[0]}, {t[1]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"CASE WHEN {t[0]} > {t[1]} THEN {t[2]} ELSE x END"),
        inner.map(lambda t: f"abs({t})"),
        inner.map(lambda t: f"CAST({t} AS INTEGER)"),
    ),
    max_leaves=4,
)
NOT_ROW_WISE = st.sampled_from(["max(x)", "(SELECT sum(x) FROM people)", "sum(z) OVER ()", "count(*)"])
COLUMNS = st.one_of(VALUES, VALUES, VALUES, VALUES, NOT_ROW_WISE)
CONDITIONS = st.one_of(
    st.just(""),
    st.tuples(VALUES, st.sampled_from(["=", "<", ">=", "<>"]), VALUES).map(lambda t: f" WHERE {' '.join(t)}"),
    VALUES.map(lambda t: f" WHERE {t} IS NOT NULL AND y IN ('a', 'b')"),
    VALUES.map(lambda t: f" WHERE y LIKE 'a%' OR {t} BETWEEN 0 AND 3"),
)
TAILS = st.sampled_from(["", "", "", " ORDER BY x", " LIMIT 2", " GROUP BY x, y, z"])
SOURCES = st.sampled_from(["people", "people", "people", "people AS p", "people, homes", "(SELECT * FROM people) q"])
DEFINITIONS = st.builds("SELECT {} AS a, {} AS b FROM {}{}{}".format, COLUMNS, VALUES, SOURCES, CONDITIONS, TAILS)
RECORDS = st.lists(
    st.tuples(st.sampled_from([None, 0, 1, 3]), st.sampled_from([None, "a", "b", "ab"]), st.integers(-2, 2)),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(DEFINITIONS, RECORDS, st.data())
def test_one_record_changes_at_most_one_row_of_what_is_called_row_wise(engine, definition, records, data):
    try:
        read_definition(definition, KINDS[engine].language)
    except NotProvenError:
        return
    i = data.draw(st.integers(0, len(records) - 1))
    connect = partial(sqlite3.connect, ":memory:") if engine == "sqlite" else duckdb.connect
    with contextlib.closing(connect()) as db:
        db.execute(TABLES[0])
        db.execute(TABLES[2])
        db.executemany("INSERT INTO homes VALUES (?, ?)", [(1, 1), (2, 2)])
        try:
            db.execute(f"CREATE VIEW v AS {definition}")
            rows = []
            for rows_now in (records, records[:i] + records[i + 1 :]):
                db.execute("DELETE FROM people")
                if rows_now:
                    db.executemany("INSERT INTO people VALUES (?, ?, ?)", rows_now)
                rows.append(Counter(db.execute("SELECT * FROM v").fetchall()))
        except (sqlite3.Error, duckdb.Error):
            return  # not a query of this engine
    assert rows[1] <= rows[0]
    assert (rows[0] - rows[1]).total() <= 1


def test_definitions_of_the_law_are_of_both_kinds():
    """So the law above tries what it states."""
    read = []

    @settings(max_examples=200, database=None, deadline=None)
    @given(DEFINITIONS)
    def tried(definition):
        with contextlib.suppress(NotProvenError):
            read_definition(definition, "sqlite")
            read.append(definition)

    tried()
    assert 20 < len({*read}) < 180


# --- views that someone replaces ------------------------------------------------------------------------------------


def test_a_view_that_is_replaced_after_it_was_opened_is_not_counted_as_before(base):
    base.run("CREATE VIEW v AS SELECT x FROM people")
    counter = opened(base)
    base.run("DROP VIEW v", "CREATE VIEW v AS SELECT a.x FROM people a, people b")
    with refused("data.view-not-promised", "data.view-replaced"):
        count(counter)
    base.run("DROP VIEW v", "CREATE VIEW v AS SELECT x FROM people WHERE x = 1")
    with refused("data.view-replaced") as caught:
        count(counter)
    assert "nothing was charged" in str(caught.value)
    base.run("DROP VIEW v", "CREATE TABLE v AS SELECT x FROM people")
    with refused("data.view-replaced"):
        count(counter)


def test_a_view_that_is_replaced_during_a_count_of_sqlite_is_noticed(tmp_path):
    base = SqliteFile(tmp_path)
    base.run(*TABLES, "CREATE VIEW w AS SELECT x, z FROM people", "CREATE VIEW v AS SELECT x FROM w")
    for change in (
        ("DROP VIEW w", "CREATE VIEW w AS SELECT x, z FROM people"),  # by itself: another state all the same
        ("DROP VIEW w", "CREATE VIEW w AS SELECT a.x, a.z FROM people a, people b"),
    ):
        with (
            databases.database(base.address).session("v") as session,
            refused("data.data-changed-while-read"),
            standing(session.what, session.state),
        ):
            base.run(*change)
    with refused("data.view-not-promised"):
        opened(base)


@needs_postgresql
def test_no_one_replaces_a_view_of_postgresql_between_its_proof_and_the_end_of_its_count(tmp_path):
    base = Schema(tmp_path)
    base.run(*TABLES, "CREATE VIEW w AS SELECT x FROM people", "CREATE VIEW v AS SELECT x FROM w")
    for view in "vw":
        with databases.database(base.address).session("v") as session, standing(session.what, session.state):
            with pytest.raises(Exception, match="lock timeout"):
                base.run("SET lock_timeout = 100", f"CREATE OR REPLACE VIEW {view} AS SELECT 1 AS x")
            ((rows,),) = next(session.fetch(f"SELECT count(*) FROM {session.relation}"))
            assert rows == 3


@needs_postgresql
def test_materialised_views_of_postgresql(tmp_path):
    base = Schema(tmp_path)
    base.run(
        *TABLES, "CREATE MATERIALIZED VIEW m AS SELECT x, upper(y) AS y FROM people",
        "CREATE VIEW v AS SELECT x FROM m", "CREATE MATERIALIZED VIEW mv AS SELECT x FROM v",
        "CREATE MATERIALIZED VIEW j AS SELECT h AS x FROM homes, people",
        "CREATE MATERIALIZED VIEW empty AS SELECT x FROM people WITH NO DATA", "DELETE FROM people WHERE x = 0",
    )  # fmt: skip
    # The rows are those of the last refresh.
    assert [count(opened(base, view)) for view in "mv"] == [[1, 2]] * 2
    for view, reason in {"mv": "stored", "j": "several tables"}.items():
        with refused("data.view-not-promised") as caught:
            opened(base, view)
        assert reason in caught.value.given
        assert sum(count(opened(base, view, "promised"))) == {"mv": 3, "j": 9}[view]
    with refused("data.records-not-counted", "data.database-not-described"):
        count(opened(base, "empty"))
    before = opened(base, "m")
    base.run("DROP MATERIALIZED VIEW m CASCADE", "CREATE MATERIALIZED VIEW m AS SELECT x FROM people WHERE x = 1")
    with refused("data.view-replaced"):
        count(before)


@needs_postgresql
def test_views_of_foreign_tables_are_refused_also_if_promised(tmp_path):
    base = Schema(tmp_path)
    base.run(
        "DROP FOREIGN DATA WRAPPER IF EXISTS other_views CASCADE", "CREATE FOREIGN DATA WRAPPER other_views",
        "CREATE SERVER other_views FOREIGN DATA WRAPPER other_views",
        "CREATE FOREIGN TABLE far (x INT) SERVER other_views", "CREATE VIEW v AS SELECT x FROM far",
        "CREATE VIEW w AS SELECT x FROM v",
    )  # fmt: skip
    for view in "vw":
        with refused("data.view-not-promised") as caught:
            opened(base, view)
        assert "neither a table nor a view" in caught.value.given
        with refused("data.database-table-not-safe"):
            opened(base, view, "promised")
    base.run("DROP FOREIGN DATA WRAPPER other_views CASCADE")


@needs_postgresql
def test_row_security_behind_a_view_is_an_error(tmp_path):
    base = Schema(tmp_path)
    base.run(
        *TABLES, "CREATE VIEW v AS SELECT x FROM people", "ALTER TABLE people ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE people FORCE ROW LEVEL SECURITY", "DROP ROLE IF EXISTS viewer", "CREATE ROLE viewer",
        f"GRANT ALL ON SCHEMA {base.name} TO viewer", "ALTER TABLE people OWNER TO viewer",
        "ALTER VIEW v OWNER TO viewer",
    )  # fmt: skip
    with refused("data.records-not-counted"):
        count(opened(base))
    base.run(f"DROP SCHEMA {base.name} CASCADE", "DROP ROLE viewer")


@needs_mariadb
def test_views_of_mariadb(tmp_path):
    with connected(mariadb()) as db:
        db.exec_driver_sql("CREATE OR REPLACE DATABASE views")
    url = mariadb().set(database="views")
    release = (
        *TABLES, "CREATE TABLE old (x INT) ENGINE = MyISAM", "CREATE FUNCTION own(n INT) RETURNS INT RETURN n",
        "CREATE VIEW v AS SELECT x, upper(y) AS y FROM people WHERE y IN ('a', 'b') AND z + 1 > 1 AND y <> 'ü'",
        "CREATE VIEW w AS SELECT x FROM v", "CREATE VIEW j AS SELECT p.x FROM people p, homes",
        "CREATE VIEW o AS SELECT x FROM old", "CREATE VIEW f AS SELECT own(x) AS x FROM people",
        "CREATE VIEW s AS SELECT table_rows AS x FROM information_schema.tables",
    )  # fmt: skip
    with connected(url) as db:
        for statement in release:
            db.exec_driver_sql(statement.replace("%", "%%"))
    opened_at = lambda view, promise=None: open_counter(url, DOMAIN.axes, DataSource(table=view, view=promise))  # noqa: E731
    assert [count(opened_at(view)) for view in "vw"] == [[1, 1]] * 2
    assert opened_at("v", "promised").view.word == "promised"
    for view, reason in {"j": "several tables", "f": "does not know", "s": "neither a table"}.items():
        with refused("data.view-not-promised") as caught:
            opened_at(view)
        assert reason in caught.value.given
        with refused("data.database-table-not-safe"):
            opened_at(view, "promised")
    with refused("data.database-table-not-safe"):
        opened_at("o", "promised")
    counter = opened_at("w")
    with connected(url) as db:
        db.exec_driver_sql("CREATE OR REPLACE VIEW v AS SELECT p.x FROM people p, homes")
    with refused("data.view-not-promised"):
        count(counter)


def test_what_a_file_of_duckdb_defines_itself_proves_nothing(tmp_path):
    base = DuckdbFile(tmp_path)
    base.run(
        *TABLES, "CREATE VIEW v AS SELECT lower(y) AS y, x FROM people", "CREATE SCHEMA s",
        "CREATE TABLE s.people (x INTEGER)", "CREATE VIEW s.w AS SELECT x FROM main.people",
        "USE s", "CREATE VIEW v AS SELECT x FROM people", "USE main",
        "CREATE TABLE moving (y INTEGER, x INTEGER GENERATED ALWAYS AS (CAST(random() * y AS INTEGER)))",
        "CREATE VIEW m AS SELECT x FROM moving",
    )  # fmt: skip
    assert [opened(base, view).view.word for view in ("v", "s.w", "S.W")] == ["row-wise"] * 3
    for view, reason in {"s.v": "does not name the schema", "m": "by chance or by the clock"}.items():
        with refused("data.view-not-promised") as caught:
            opened(base, view)
        assert reason in caught.value.given
    for defined in ("MACRO lower(a) AS random()", "TYPE mood AS ENUM ('a', 'b')"):
        base.run(f"CREATE {defined}")
        with refused("data.view-not-promised") as caught:
            opened(base)
        assert "defines functions or types" in caught.value.given
        base.run(f"DROP {' '.join(defined.split('(')[0].split()[:2])}")


def test_nothing_is_proved_where_an_engine_does_not_state_definitions(tmp_path, monkeypatch):
    base = SqliteFile(tmp_path)
    base.run(*TABLES, "CREATE VIEW v AS SELECT x FROM people")
    monkeypatch.setattr(databases, "SQLITE", replace(databases.SQLITE, language=""))
    with refused("data.view-not-promised") as caught:
        opened(base)
    assert "proves nothing about views of SQLite" in caught.value.given
    assert count(opened(base, promise="promised")) == [1, 2]


def test_a_relation_that_is_gone_proves_nothing():
    relation = views.Relation(views.VIEW, (None, "v"), ("x",), "SELECT x FROM t")
    with pytest.raises(NotProvenError, match="neither a table nor a view"):
        prove(relation, lambda _: None, "sqlite")


# --- plan, ledger, release ------------------------------------------------------------------------------------------


def planned(view=None, **options):
    source = DataSource("census", table="v", view=view)
    return fn.plan(fn.Workload(DOMAIN, [fn.table("x", margin=5)]), source=source, **options)


@pytest.fixture
def viewed(tmp_path):
    """A database with a row-wise view v, and a folder for releases."""
    base = SqliteFile(tmp_path)
    base.run(*TABLES, "CREATE VIEW v AS SELECT x, z FROM people")
    base.folder, base.ledger = tmp_path, tmp_path / "ledger.db"
    return base


def charges(ledger):
    with fn.Ledger(ledger) as book:
        return [e for e in book.entries() if e.kind == "charge"]


def test_a_proof_is_in_ledger_and_release(viewed):
    plan = planned()
    release = fn.release(plan, viewed.address, ledger=viewed.ledger, directory=viewed.folder / "out")
    assert release.entry.view == "row-wise"
    assert [e.detail["view"] for e in charges(viewed.ledger)] == ["row-wise"]
    description = json.loads((viewed.folder / "out" / "release.json").read_text("utf-8"))
    assert description["ledger"]["view"] == "row-wise"
    assert fn.Release.read(viewed.folder / "out").entry == release.entry
    assert fn.verify(viewed.folder / "out", ledger=viewed.ledger).ok
    assert [m.id for m in release.entry.messages()] == ["report.view.row_wise"]
    (statement,) = document(release_report(release))["view"]
    assert "at most one row" in statement


def test_a_promise_is_in_plan_ledger_release_and_reports(viewed):
    viewed.run("DROP VIEW v", "CREATE VIEW v AS SELECT x FROM people, homes LIMIT 5")
    plan = planned("promised")
    assert fn.Plan.from_json(plan.to_json()).publication.source.view == "promised"
    release = fn.release(plan, viewed.address, ledger=viewed.ledger, directory=viewed.folder / "out")
    assert [e.detail["view"] for e in charges(viewed.ledger)] == ["promised"]
    description = json.loads((viewed.folder / "out" / "release.json").read_text("utf-8"))
    assert description["spec"]["data"]["view"] == description["ledger"]["view"] == "promised"
    assert description["charge"]["records"][0]["id"] == "report.view.promised"
    assert fn.verify(viewed.folder / "out", ledger=viewed.ledger).ok
    (statement,) = document(plan_report(plan))["records_of_units"]
    assert "promises that one record changes one row" in statement
    assert release.entry.messages() == ()
    # The promise is stated for any data.
    fn.release(plan, pd.DataFrame({"x": [0, 1]}), ledger=viewed.folder / "other.db")
    assert [e.detail["view"] for e in charges(viewed.folder / "other.db")] == ["promised"]


@pytest.mark.parametrize("word", [None, "promised", "proved", 1, ["row-wise"]])
def test_another_word_in_a_release_is_noticed(viewed, word):
    fn.release(planned(), viewed.address, ledger=viewed.ledger, directory=viewed.folder / "out")
    path = viewed.folder / "out" / "release.json"
    document = json.loads(path.read_text("utf-8"))
    document["ledger"]["view"] = word
    if word is None:
        del document["ledger"]["view"]
    path.write_text(json.dumps(document), "utf-8")
    checks = fn.verify(viewed.folder / "out", ledger=viewed.ledger).checks
    assert not all(c.holds for c in checks)
    if word in (None, "promised"):
        assert "report.fault.view" in {c.finding.id for c in checks if not c.holds}
    else:
        with refused("release.entry-not-named"):
            fn.Release.read(viewed.folder / "out")


def test_a_view_without_proof_is_refused_before_a_charge(viewed):
    viewed.run("DROP VIEW v", "CREATE VIEW v AS SELECT DISTINCT x FROM people")
    with refused("data.view-not-promised") as caught:
        fn.release(planned(), viewed.address, ledger=viewed.ledger)
    assert caught.value.outcome == "Nothing was measured and nothing was charged."
    assert not viewed.ledger.exists()


def test_a_view_that_leaves_out_records_has_no_public_number_of_them(viewed):
    """If a record replaces another, either can be left out, and then one is added or removed."""
    unit, public = fn.PrivacyUnit("person", 1, fn.Neighbours.REPLACE_ONE), fn.KnownTotals((), "Register", "these data")
    plan = planned(unit=unit, public=public)
    fn.count(plan, viewed.address, viewed.folder / "counts", unsealed=True)
    viewed.run("DROP VIEW v", "CREATE VIEW v AS SELECT x FROM people WHERE z > 1")
    with refused("data.view-leaves-out-records", key="data.view"):
        fn.count(plan, viewed.address, viewed.folder / "more", unsealed=True)
    assert not (viewed.folder / "more").exists()
    fn.release(planned(), viewed.address, ledger=viewed.ledger)


def test_a_counter_cannot_bring_a_promise_that_the_plan_lacks(viewed):
    counter = opened(viewed, promise="promised")
    with refused("data.view-promised-elsewhere", key="data.view"):
        fn.release(planned(), counter, ledger=viewed.ledger)
    assert np.isfinite(fn.release(planned("promised"), counter, ledger=viewed.ledger)["x"]["value"]).all()


def test_an_unfinished_charge_is_finished_with_the_same_kind_of_data(viewed, monkeypatch):
    shutil.copy(viewed.address, viewed.folder / "table.sqlite")
    other = SqliteFile(viewed.folder)
    other.address = viewed.folder / "table.sqlite"
    other.run("DROP VIEW v", "CREATE TABLE v AS SELECT x FROM people")
    from fitnoise.kernel import answer_files

    with monkeypatch.context() as patch:

        def fail(*_, **__):
            raise KeyboardInterrupt

        patch.setattr(answer_files.Room, "keep", fail)
        with pytest.raises(KeyboardInterrupt):
            fn.release(planned(), viewed.address, ledger=viewed.ledger)
    assert len(charges(viewed.ledger)) == 1
    with refused("ledger.charged-for-another-view"):
        fn.release(planned(), other.address, ledger=viewed.ledger)
    assert fn.release(planned(), viewed.address, ledger=viewed.ledger).entry.view == "row-wise"
    assert len(charges(viewed.ledger)) == 1


def test_the_word_of_a_series_is_that_of_its_charge(tmp_path):
    base = SqliteFile(tmp_path)
    base.run(
        "CREATE TABLE people (x INTEGER, q INTEGER)", "INSERT INTO people VALUES (0, 1), (1, 2)",
        "CREATE VIEW v AS SELECT x, q FROM people",
    )  # fmt: skip
    domain = fn.Domain(q=fn.Ordered(1, 2), x=fn.Ordered(0, 1))
    source = DataSource("census", table="v")
    plan = fn.plan(fn.Workload(domain, [fn.table("q", "x", margin=9)]), source=source, series="q")
    for period in (1, 2):
        release = fn.release(
            plan, base.address, ledger=tmp_path / "l.db", series=tmp_path / "series", period=period,
            directory=tmp_path / f"out{period}",
        )  # fmt: skip
        assert release.entry.view == "row-wise"
        assert fn.verify(tmp_path / f"out{period}", ledger=tmp_path / "l.db").ok


@pytest.mark.parametrize("word", ["row-wise", "Promised", "", 1, True])
def test_a_promise_has_one_word(word):
    with refused("spec.view-word-unknown", key="data.view") as caught:
        planned(word)
    assert "No plan was made" in str(caught.value)


def test_a_specification_states_the_promise():
    text = (
        '[data]\ntable = "v"\nview = "{}"\n[domain.x]\ntype = "ordered"\nlow = 0\nhigh = 1\n[[tables]]\n'
        'attributes = ["x"]\nmargin = 5\n'
    )
    spec = Spec.from_toml(text.format("promised"))
    assert spec.publication().source.view == "promised"
    toml = Spec.from_publication(spec.publication()).to_toml()
    assert Spec.from_toml(toml).publication() == spec.publication()
    with refused("spec.wrong-type", key="data.view"):
        Spec.from_toml(text.format("proved"))
