"""Ten tables counted in databases by one statement, against the engine's own ten GROUP BY of the same columns.

Run: python benchmarks/databases.py [records] [--engine postgresql duckdb clickhouse sqlite mariadb spark] [--turns 2]
[--alone] [--id] [--peak]

The engine's own statements read the columns as they are and code nothing. The statement of fitnoise compares texts byte
by byte, drops values outside the domain, and returns places. The ways take turns in one run, because their ratio is
more reliable than their seconds. The trial takes the same time for any records, and is left out. PostgreSQL is that of
the tests, from its wheel. ClickHouse is that of chdb, in this process, as DuckDB and SQLite are. MariaDB needs
`mariadbd`, Spark Java and pyspark.

--id: persons have one to four records each, scattered, of which three are counted; the engine's own statements count
all. --peak: megabytes that this process holds before each way, and at most during its last turn. They include DuckDB,
SQLite and ClickHouse, but not servers and Spark. Run each engine on its own then.

10⁸ records take some 8 GB of the disk (TMPDIR) in PostgreSQL and 1 GB in DuckDB, and little memory. The benchmark
removes its files at the end.
"""

# ruff: noqa: S608 - SQL of this script's own names

import argparse
import atexit
import contextlib
import os
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

os.environ.setdefault("FITNOISE_ENGINES", "all")

import duckdb
import sqlalchemy as sa

import engines
import fitnoise as fn
from fitnoise.engines import open_counter, sql
from fitnoise.kernel.units import DataSource, RecordBound
from peak import forget_peak, peak_memory

DOMAIN = fn.Domain(
    state=fn.Categorical([f"S{i:02d}" for i in range(51)]),
    status=fn.Categorical(["single", "joint", "separate", "head"]),
    age=fn.Ordered(0, 85),
    wages=fn.Binned([1.0, 1e4, 2.5e4, 5e4, 7.5e4, 1e5]),
    month=fn.Ordered(1, 12),
    edu=fn.Ordered(0, 9),
    sex=fn.Ordered(0, 1),
    occ=fn.Ordered(0, 19),
)
TABLES = [
    ("state", "status"), ("status", "age"), ("age", "sex"), ("state", "month"), ("edu", "occ"), ("age", "wages"),
    ("month", "edu"), ("state", "edu", "sex"), ("month", "occ"), ("status", "wages", "sex"),
]  # fmt: skip
COLUMNS = {
    "state": "'S' || lpad(CAST(mod(i * 7919, 51) AS VARCHAR), 2, '0')",
    "status": "CASE mod(i * 104729, 7) WHEN 0 THEN 'head' WHEN 1 THEN 'separate' WHEN 2 THEN 'joint' ELSE 'single' END",
    "age": "CAST(mod(i * 1299709, 86) AS INTEGER)",
    "wages": "CAST(mod(i * 15485863, 120011) AS DOUBLE PRECISION)",
    "month": "CAST(mod(i * 32452843, 12) + 1 AS INTEGER)",
    "edu": "CAST(mod(i * 49979687, 10) AS INTEGER)",
    "sex": "CAST(mod(i * 67867967, 2) AS INTEGER)",
    "occ": "CAST(mod(i * 86028121, 20) AS INTEGER)",
}
RAW = {
    a: f"width_bucket(wages, ARRAY{list(map(float, DOMAIN[a].coding.cuts))})" if a == "wages" else a for a in COLUMNS
}
RAW_CASES = RAW | {
    "wages": "CASE "
    + " ".join(f"WHEN wages < {c} THEN {i}" for i, c in enumerate(DOMAIN["wages"].coding.cuts))
    + " ELSE 6 END"
}


MAX_RECORDS = 3
"""Records of a person that are counted, with --id."""


def record_columns(records, by_id):
    """The columns of a record i, from 1; with an id persons of one to four records, as the last of ten says."""
    if not by_id:
        return COLUMNS
    j = f"mod(i * 15485863, {records})"
    position = f"CASE WHEN mod({j}, 10) < 1 THEN 0 WHEN mod({j}, 10) < 3 THEN 1 WHEN mod({j}, 10) < 6 THEN 2 ELSE 3 END"
    return COLUMNS | {"person": f"CAST(({j} - mod({j}, 10)) * 4 / 10 AS BIGINT) + {position}"}


def group_bys(columns):
    """The engine's own statements."""
    return [
        f"SELECT {', '.join(columns[a] for a in m)}, count(*) FROM people GROUP BY "
        + ", ".join(map(str, range(1, len(m) + 1)))
        for m in TABLES
    ]


def by_sqlalchemy(engine, statements, *before):
    """The engine's own statements, in one connection."""

    def run():
        with engine.connect() as db:
            for statement in before:
                db.exec_driver_sql(statement)
            for statement in statements:
                db.exec_driver_sql(statement).fetchall()

    return run


def postgresql(records, by_id, single_process):
    """Return the ways to count in PostgreSQL, by name. single_process: True for one process, too."""
    engine = sa.create_engine(engines.postgresql())
    with engine.begin() as db:
        columns = ", ".join(f"{x.replace('VARCHAR', 'TEXT')} AS {a}" for a, x in record_columns(records, by_id).items())
        numbers = f"generate_series(1, {records}::bigint) AS t(i)"
        db.exec_driver_sql(f"CREATE UNLOGGED TABLE people AS SELECT {columns} FROM {numbers}")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        db.exec_driver_sql("VACUUM ANALYZE people")
    one = by_sqlalchemy(engine, group_bys(RAW), "SET max_parallel_workers_per_gather = 0")
    extra_ways = {"ten GROUP BY, one process": one} if single_process else {}
    raw = by_sqlalchemy(engine, group_bys(RAW))
    return {"ten GROUP BY": raw, **extra_ways, "fitnoise": ours(engines.postgresql(), records, by_id)}


def parquet(records, by_id):
    """Write a file of the records, removed at the end, and return its path."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    path = f"{folder}/people.parquet"
    columns = ", ".join(f"{x} AS {a}" for a, x in record_columns(records, by_id).items())
    with duckdb.connect() as db:
        db.execute("SET memory_limit = '4GB'")
        db.execute(f"COPY (SELECT {columns} FROM range(1, {records} + 1) AS t(i)) TO '{path}'")
    return path


def in_duckdb(records, by_id, _):
    """Return the ways to count a Parquet file."""
    path = parquet(records, by_id)

    def raw():
        with duckdb.connect() as db:
            db.execute(f"CREATE VIEW people AS SELECT * FROM '{path}'")
            for statement in group_bys(RAW_CASES):
                db.execute(statement).fetchall()

    return {"ten GROUP BY": raw, "fitnoise": ours(path, records, by_id)}


def clickhouse(records, by_id, _):
    """Return the ways to count in ClickHouse, embedded in this process."""
    statement = (
        f"CREATE TABLE people ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM file('{parquet(records, by_id)}')"
    )
    engines.Embedded().execute(statement)
    sa.dialects.registry.register("clickhouse", "engines", "Embedding")
    engine = sa.create_engine("clickhouse://", creator=engines.Embedded, poolclass=sa.NullPool)
    raw = by_sqlalchemy(engine, group_bys(RAW_CASES))
    return {"ten GROUP BY": raw, "fitnoise": ours(engine, records, by_id)}


KINDS = {"state": "VARCHAR(3)", "status": "VARCHAR(8)", "wages": "DOUBLE", "person": "BIGINT"}


def declared(records, by_id):
    """The statement that makes the table, empty."""
    columns = ", ".join(f"{a} {KINDS.get(a, 'INTEGER')}" for a in record_columns(records, by_id))
    return f"CREATE TABLE people ({columns})"


def sqlite(records, by_id, _):
    """Return the ways to count a SQLite file, which is read out and counted in this process."""
    source = Path(parquet(records, by_id))
    path = source.with_name("people.sqlite")
    with contextlib.closing(sqlite3.connect(path)) as db, duckdb.connect() as rows:
        db.execute(declared(records, by_id))
        cursor = rows.execute(f"SELECT * FROM '{source}'")
        while batch := cursor.fetchmany(10_000):
            db.executemany(f"INSERT INTO people VALUES ({', '.join('?' * len(batch[0]))})", batch)
        db.commit()
    raw = by_sqlalchemy(sa.create_engine(f"sqlite:///{path}"), group_bys(RAW_CASES))
    return {"ten GROUP BY": raw, "fitnoise": ours(path, records, by_id)}


def mariadb(records, by_id, _):
    """Return the ways to count in MariaDB, on a server that the benchmark starts."""
    source = Path(parquet(records, by_id))
    path = source.with_name("people.csv")
    with duckdb.connect() as db:
        db.execute(f"COPY (SELECT * FROM '{source}') TO '{path}' (HEADER false)")
    source.parent.chmod(0o755)  # the server may be of another user
    with engines.connected(engines.mariadb()) as db:
        db.exec_driver_sql("CREATE DATABASE census")
    url = engines.mariadb().set(database="census")
    with engines.connected(url) as db:
        db.exec_driver_sql(declared(records, by_id))
        db.exec_driver_sql(f"LOAD DATA INFILE '{path}' INTO TABLE people FIELDS TERMINATED BY ','")
    raw = by_sqlalchemy(sa.create_engine(url), group_bys(RAW_CASES))
    return {"ten GROUP BY": raw, "fitnoise": ours(url, records, by_id)}


def spark(records, by_id, _):
    """Return the ways to count in Spark, with two threads on this machine."""
    session, source = engines.spark(), Path(parquet(records, by_id))
    session.sql(f'CREATE TABLE people USING parquet LOCATION "{source.parent}"')

    def raw():
        for statement in group_bys(RAW_CASES):
            session.sql(statement).collect()

    return {"ten GROUP BY": raw, "fitnoise": ours("spark:people", records, by_id, None)}


def ours(data, records, by_id, table="people"):
    """The statement of a release, without its trial, which is the same for all sizes."""
    expected, bound = (records - records // 10, RecordBound("person", MAX_RECORDS)) if by_id else (records, None)

    def run():
        counts = open_counter(data, DOMAIN.axes, DataSource(table=table, outside_domain="drop"), bound).count(TABLES)
        if {int(counted.sum()) for counted in counts.values()} != {expected}:
            raise SystemExit("not all records were counted")

    return run


ENGINES = {
    "postgresql": postgresql,
    "duckdb": in_duckdb,
    "clickhouse": clickhouse,
    "sqlite": sqlite,
    "mariadb": mariadb,
    "spark": spark,
}


def main(records, engine, turns, single_process, by_id, peak):
    ways = ENGINES[engine](records, by_id, single_process)
    seconds, held = {way: [] for way in ways}, {}
    for _ in range(turns):
        for way, run in ways.items():
            forget_peak()
            before, start = peak_memory(), time.perf_counter()
            run()
            seconds[way].append(time.perf_counter() - start)
            held[way] = f" {before:.0f} | {peak_memory():.0f} |" if peak else ""
    what = f"; at most {MAX_RECORDS} records of a person" if by_id else ""
    print(
        f"\n{engine}, {records:,} records, ten tables of {sum(len(m) for m in TABLES)} columns{what}; {turns} turns.\n"
    )
    extra_columns = (" MB before | MB at most |", "---|---|") if peak else ("", "")
    print(f"| way | seconds | ratio |{extra_columns[0]}\n|---|---|---|{extra_columns[1]}")
    for way, times in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(times, seconds["ten GROUP BY"], strict=True))
        print(f"| {way} | {', '.join(f'{s:.2f}' for s in times)} | {ratio:.2f} |{held[way]}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("records", nargs="?", type=lambda x: int(float(x)), default=10**7)
    parser.add_argument("--engine", choices=ENGINES, nargs="+", default=["postgresql"])
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help="PostgreSQL's own statements in one process, too")
    parser.add_argument(
        "--id", action="store_true", help=f"persons, of each of whom at most {MAX_RECORDS} records are counted"
    )
    parser.add_argument("--peak", action="store_true", help="memory of this process, before and at most")
    arguments = parser.parse_args()
    sql.refuse_unless_right = sql.refuse_unless_bounded = lambda *_, **__: None
    for each in arguments.engine:
        main(arguments.records, each, arguments.turns, arguments.alone, arguments.id, arguments.peak)
