"""Time and memory of counting many margins, against plain SQL of the same engine. Run: python benchmarks/counting.py

Every number is from a process of its own. It has the wall seconds of the counting alone, and the memory of the process,
before it and at its peak. All read the same file, with the engine's memory limited to 500 MB. The SQL gets the types of
the columns and checks no domain. It loads columns of CSV once, into a table. One GROUP BY per margin puts its counts
into the same arrays as fitnoise. The rows of the one GROUPING SETS query stay as they are. SQL is stopped after 300
seconds, or after those of --limit. Give numbers of records to run fewer: python benchmarks/counting.py 1000000.
"""

# ruff: noqa: S608 - SQL built from constants of the benchmark itself

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from peak import peak_memory

MEMORY = "500MB"


def generate(path, rows, attributes, cells):
    columns = ", ".join(f"(hash(i * {attributes} + {j}) % {cells})::INTEGER AS q{j}" for j in range(attributes))
    with duckdb.connect() as db:
        db.execute(f"COPY (SELECT {columns} FROM range({rows}) AS t(i)) TO '{path}'")


def ours(path, attributes, cells, margins):
    import fitnoise as fn
    from fitnoise.engines import DuckCounter
    from fitnoise.kernel.units import DataSource

    domain = fn.Domain({f"q{i}": fn.Ordered(0, cells - 1) for i in range(attributes)})
    before, start = peak_memory(), time.perf_counter()
    counts = DuckCounter.from_path(path, domain.axes, DataSource(), memory_limit=MEMORY).count(margins)
    return time.perf_counter() - start, before, sum(int(table.sum()) for table in counts.values())


def connected(path, attributes):
    db = duckdb.connect(config={"memory_limit": MEMORY})
    folder = tempfile.mkdtemp(dir=Path(path).parent)
    db.execute(f"SET temp_directory = '{folder}'")
    db.execute("SET enable_progress_bar = false")
    columns = ", ".join(f"'q{i}': 'INTEGER'" for i in range(attributes))
    csv = f"read_csv('{path}', header=true, delim=',', columns={{{columns}}})"
    if not path.endswith(".csv"):
        return db, f"read_parquet('{path}')"
    db.execute(f"CREATE TABLE records AS SELECT * FROM {csv}")  # once, not for each margin
    return db, "records"


def grouping_sets(path, attributes, _, margins):
    used = ", ".join(f"q{i}" for i in range(attributes))
    masks = ", ".join(
        f"grouping({', '.join(f'q{i}' for i in range(start, min(start + 60, attributes)))})"
        for start in range(0, attributes, 60)
    )
    sets = ", ".join("(" + ", ".join(m) + ")" for m in margins)
    before, start = peak_memory(), time.perf_counter()
    db, reader = connected(path, attributes)
    result = db.execute(f"SELECT {used}, {masks}, count(*) AS n FROM {reader} GROUP BY GROUPING SETS ({sets})")
    total = int(result.fetchnumpy()["n"].sum())
    return time.perf_counter() - start, before, total


def group_bys(path, attributes, cells, margins):
    before, start = peak_memory(), time.perf_counter()
    db, reader = connected(path, attributes)
    tables = {}
    for m in margins:
        names = ", ".join(m)
        groups = db.execute(f"SELECT {names}, count(*) AS n FROM {reader} GROUP BY {names}").fetchnumpy()
        positions = np.zeros(len(groups["n"]), dtype=np.int64)
        for a in m:
            positions = positions * cells + np.asarray(groups[a])
        tables[m] = np.zeros(cells ** len(m), dtype=np.int64)
        tables[m][positions] = groups["n"]
    return time.perf_counter() - start, before, sum(int(table.sum()) for table in tables.values())


WAYS = {"fitnoise": ours, "one GROUPING SETS query": grouping_sets, "one GROUP BY per margin": group_bys}


def one(way, path, rows, attributes, cells, margins):
    seconds, before, total = WAYS[way](path, attributes, cells, margins)
    if total != rows * len(margins):
        raise SystemExit(f"{way} counted {total} records")
    return {"seconds": seconds, "before": before, "peak": peak_memory()}


def in_subprocess(way, path, rows, attributes, cells, width, *, limit):
    command = [sys.executable, __file__, "--one", way, path, *map(str, (rows, attributes, cells, width))]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    try:
        process = subprocess.run(  # noqa: S603 - itself
            command, capture_output=True, check=False, text=True, env=environment, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return None
    if process.returncode:
        raised = [line for line in process.stderr.splitlines() if line.startswith("_duckdb.")]
        return raised[-1].split(":")[0].removeprefix("_duckdb.") if raised else f"failed with {process.returncode}"
    return json.loads(process.stdout)


def line(what, rows, attributes, cells, width, form, *, limit):
    margins = len(set_of(attributes, width))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/data.{form}"
        subprocess.run(  # noqa: S603 - itself
            [sys.executable, __file__, "--generate", path, *map(str, (rows, attributes, cells))], check=True
        )
        size = Path(path).stat().st_size / 1e6
        mine = in_subprocess("fitnoise", path, rows, attributes, cells, width, limit=None)
        line_start = f"{what} | {rows:,} | {form}, {size:,.0f} MB | {margins:,}"
        for way in WAYS:
            got = mine if way == "fitnoise" else in_subprocess(way, path, rows, attributes, cells, width, limit=limit)
            if got is None:
                figures = f"over {limit:g} | over {limit / mine['seconds']:.2g} | "
            elif isinstance(got, str):
                figures = f"{got} | | "
            else:
                times = got["seconds"] / mine["seconds"]
                figures = f"{got['seconds']:.2f} | {times:.2g} | {got['before']:,.0f} → {got['peak']:,.0f}"
            print(f"| {line_start} | {way} | {figures} |", flush=True)
            line_start = "| | | "


def set_of(attributes, width):
    """All sets of `width` of the attributes; one of all of them when that is their number."""
    return list(itertools.combinations([f"q{i}" for i in range(attributes)], width))


def main(rows, limit):
    print(
        f"The engine's memory is limited to {MEMORY}; SQL is stopped after {limit:g} seconds. Python "
        f"{platform.python_version()}, DuckDB {duckdb.__version__}, NumPy {np.__version__}, {os.cpu_count()} cores.\n"
    )
    print("| margins | records | file | how many | way | seconds | ratio | MB |\n|---|---|---|---|---|---|---|---|")
    for n in rows:
        for form in ("parquet", "csv"):
            line("20 attributes of 10, all pairs", n, 20, 10, 2, form, limit=limit)
    line("100 attributes of 10, all pairs", 100_000, 100, 10, 2, "parquet", limit=limit)
    line("40 attributes of 10, all triples", 100_000, 40, 10, 3, "parquet", limit=limit)
    line("100 attributes of 2, all triples", 100_000, 100, 2, 3, "parquet", limit=limit)
    line("100 attributes of 10, all triples", 100_000, 100, 10, 3, "parquet", limit=limit)
    for n in rows:  # few margins, some with more cells than there are records
        line("1 attribute of 10", n, 1, 10, 1, "parquet", limit=limit)
        line("1 attribute of 100,000", n, 1, 100_000, 1, "parquet", limit=limit)
        line("25 attributes of 2, all at once", n, 25, 2, 25, "parquet", limit=limit)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--generate"]:
        generate(sys.argv[2], *map(int, sys.argv[3:]))
    elif sys.argv[1:2] == ["--one"]:
        records, used, values, joint = map(int, sys.argv[4:])
        print(json.dumps(one(sys.argv[2], sys.argv[3], records, used, values, set_of(used, joint))))
    else:
        parser = argparse.ArgumentParser()
        parser.add_argument("rows", nargs="*", type=int, default=[10**6, 10**7])
        parser.add_argument("--limit", type=float, default=300)
        arguments = parser.parse_args()
        main(arguments.rows, arguments.limit)
