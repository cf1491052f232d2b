"""Ten tables counted in databases by one statement, against the engine's own ten GROUP BY of the same columns.

Run: python benchmarks/databases.py [records] [--engine postgresql duckdb] [--turns 2] [--alone]

The engine's own statements read the columns as they are and code nothing; ours compares texts byte by byte, drops what
is outside, and returns places. Ways take turns in one run, so that their ratio says more than their seconds. The trial,
which takes the same time whatever the records, is left out. PostgreSQL is that of the tests, from its wheel.

10⁸ records take some 8 GB of the disk (TMPDIR) in PostgreSQL and 1 GB in DuckDB, and little memory; what is made is
removed at the end.
"""

# ruff: noqa: S608 - SQL of this script's own names

import argparse
import atexit
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import duckdb

import fitnoise as fn
from fitnoise.kernel.counting import open_counter, sql
from fitnoise.kernel.units import DataSource

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
RAW_DUCKDB = RAW | {
    "wages": "CASE "
    + " ".join(f"WHEN wages < {c} THEN {i}" for i, c in enumerate(DOMAIN["wages"].coding.cuts))
    + " ELSE 6 END"
}


def group_bys(columns):
    """The engine's own statements."""
    return [
        f"SELECT {', '.join(columns[a] for a in m)}, count(*) FROM people GROUP BY "
        + ", ".join(map(str, range(1, len(m) + 1)))
        for m in TABLES
    ]


def postgresql(records, alone):
    """Ways to count, by name. alone: also in one process."""
    import sqlalchemy as sa

    import engines

    engine = sa.create_engine(engines.postgresql())
    with engine.begin() as db:
        told = ", ".join(f"{x.replace('VARCHAR', 'TEXT')} AS {a}" for a, x in COLUMNS.items())
        numbers = f"generate_series(1, {records}::bigint) AS t(i)"
        db.exec_driver_sql(f"CREATE UNLOGGED TABLE people AS SELECT {told} FROM {numbers}")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as db:
        db.exec_driver_sql("VACUUM ANALYZE people")

    def raw():
        with engine.connect() as db:
            for statement in group_bys(RAW):
                db.exec_driver_sql(statement).fetchall()

    def raw_alone():
        with engine.connect() as db:
            db.exec_driver_sql("SET max_parallel_workers_per_gather = 0")
            for statement in group_bys(RAW):
                db.exec_driver_sql(statement).fetchall()

    more = {"ten GROUP BY, one process": raw_alone} if alone else {}
    return {"ten GROUP BY": raw, **more, "ours": ours(engines.postgresql(), records)}


def in_duckdb(records, _):
    """The same, of a Parquet file."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    path = f"{folder}/people.parquet"
    told = ", ".join(f"{x} AS {a}" for a, x in COLUMNS.items())
    with duckdb.connect() as db:
        db.execute("SET memory_limit = '4GB'")
        db.execute(f"COPY (SELECT {told} FROM range(1, {records} + 1) AS t(i)) TO '{path}'")

    def raw():
        with duckdb.connect() as db:
            db.execute(f"CREATE VIEW people AS SELECT * FROM '{path}'")
            for statement in group_bys(RAW_DUCKDB):
                db.execute(statement).fetchall()

    return {"ten GROUP BY": raw, "ours": ours(path, records)}


def ours(data, records):
    """The statement of a release, without its trial, which is the same for all sizes."""

    def run():
        counts = open_counter(data, DOMAIN, DataSource(table="people", outside_domain="drop")).count(TABLES)
        if {int(table.sum()) for table in counts.values()} != {records}:
            raise SystemExit("not all records were counted")

    return run


ENGINES = {"postgresql": postgresql, "duckdb": in_duckdb}


def main(records, engine, turns, alone):
    ways = ENGINES[engine](records, alone)
    seconds = {way: [] for way in ways}
    for _ in range(turns):
        for way, run in ways.items():
            start = time.perf_counter()
            run()
            seconds[way].append(time.perf_counter() - start)
    print(f"\n{engine}, {records:,} records, ten tables of {sum(len(m) for m in TABLES)} columns; {turns} turns.\n")
    print("| way | seconds | ratio |\n|---|---|---|")
    for way, found in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(found, seconds["ten GROUP BY"], strict=True))
        print(f"| {way} | {', '.join(f'{s:.2f}' for s in found)} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("records", nargs="?", type=lambda x: int(float(x)), default=10**7)
    parser.add_argument("--engine", choices=ENGINES, nargs="+", default=["postgresql"])
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help="PostgreSQL's own statements in one process, too")
    given = parser.parse_args()
    sql.refuse_unless_right = lambda *_, **__: None
    for each in given.engine:
        main(given.records, each, given.turns, given.alone)
