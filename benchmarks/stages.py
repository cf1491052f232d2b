"""Every stage against a floor for its time, in one run. Run: make bench, or python benchmarks/stages.py [--keep]

A line has the product and its floor. Most floors are the work of any program for the same result. It imports the same
libraries, writes the same bytes, or reads the same file by the engine's own SQL. Other floors are quick plans. Both
take turns, so that other work on the machine affects them equally. Seconds are those of processors, all threads and
children. The ratio is the least of the product over the least of the floor. The command compares it with the last
committed ratios in benchmarks/stages.json, and fails if a line is more than half above its own. `--keep` writes the
ratios.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import duckdb
import numpy as np

import fitnoise as fn

STORED_RATIOS = Path(__file__).with_name("stages.json")
SLOWER = 1.5
"""Smallest growth of a ratio that is reported; less comes from the machine."""

ONCE = "10,000,000 numbers, from targets to directory"
"""Takes half a minute: it has one turn."""

Way = Callable[[], object]


def spent(way: Way) -> float:
    """Seconds of all processors."""

    def so_far() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    before = so_far()
    way()
    return so_far() - before


def python(*arguments: str) -> Way:
    source = str(Path(__file__).parent.parent / "src")
    environment = os.environ | {"PYTHONPATH": source}
    return lambda: subprocess.run(  # noqa: S603 - itself
        [sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment
    )


def start(_: Path) -> Iterator[tuple[str, Way, Way]]:
    libraries = python("-c", "import numpy, pandas, duckdb")
    yield "`import fitnoise`", python("-c", "import fitnoise"), libraries
    yield "`fitnoise --help`", python("-m", "fitnoise", "--help"), libraries
    code = "import fitnoise as fn; fn.plan(fn.Workload(fn.Domain(a=fn.Ordered(0, 1)), [fn.table('a', margin=5)]))"
    yield "a tiny plan, from nothing", python("-c", code), libraries


def recode(_: Path) -> Iterator[tuple[str, Way, Way]]:
    codes = [f"c{i}" for i in range(100_000)]
    attribute = fn.Categorical(codes)
    places = {c: i for i, c in enumerate(codes)}
    yield "100,000 places of codes", lambda: [attribute.position(c) for c in codes], lambda: [places[c] for c in codes]


def write(folder: Path) -> Iterator[tuple[str, Way, Way]]:
    number = itertools.count()
    ledger = fn.Ledger(folder / "ledger.sqlite")

    def there() -> Path:
        return folder / str(next(number))

    def released(domain: fn.Domain, tables: list[fn.Table]) -> fn.Release:
        plan = fn.plan(fn.Workload(domain, tables), source=fn.DataSource(f"data {next(number)}"))
        return fn.release(plan, np.zeros(domain.shape, dtype=np.int64), ledger=ledger)

    long = released(fn.Domain(a=fn.Ordered(0, 999_999)), [fn.table("a", margin=10)])
    frame = long["a"]

    def by_engine() -> None:
        directory = there()
        with duckdb.connect() as db:
            db.register("frame", frame)
            db.execute(f"COPY frame TO '{directory}.csv'")
            db.execute(f"COPY (SELECT value FROM frame) TO '{directory}.parquet'")  # noqa: S608 - constant SQL

    yield "1,000,000 numbers, one table, written", lambda: long.write(there()), by_engine

    counts = np.zeros(10**7, dtype=np.int64)

    def from_targets() -> None:
        workload = fn.Workload(fn.Domain(a=fn.Ordered(0, len(counts) - 1)), [fn.table("a", margin=10)])
        plan = fn.plan(workload, source=fn.DataSource("from targets"))
        fn.release(plan, counts, ledger=ledger, directory=there(), again=True)

    def all_by_engine() -> None:
        directory, numbers = there(), "i AS a, random() AS value, random() AS std_error, random() AS moe"
        with duckdb.connect() as db:
            for form in ("csv", "parquet"):
                db.execute(f"COPY (SELECT {numbers} FROM range({len(counts)}) AS t(i)) TO '{directory}.{form}'")  # noqa: S608

    yield ONCE, from_targets, all_by_engine

    domain = fn.Domain({f"a{i}": fn.Categorical(["n", "y"]) for i in range(20)})
    plan = fn.plan(fn.Workload(domain, fn.all_tables(3, domain, margin=10)), source=fn.DataSource("many"))
    people = folder / "people.csv"
    people.write_text("\n".join([",".join(domain), *([",".join("n" * 20)] * 3)]) + "\n")
    many = fn.release(plan, people, ledger=ledger)
    first_path = many.write(there())
    contents = [p.read_bytes() for p in sorted(first_path.rglob("*")) if p.is_file()]

    def plainly() -> None:
        directory = there()
        directory.mkdir()
        for i, content in enumerate(contents):
            (directory / str(i)).write_bytes(content)

    def read() -> list[bytes]:
        return [p.read_bytes() for p in sorted(first_path.rglob("*")) if p.is_file()]

    yield f"{len(many):,} tables, written", lambda: many.write(there()), plainly
    yield f"{len(many):,} tables, verified", lambda: fn.verify(first_path), read


def count(folder: Path) -> Iterator[tuple[str, Way, Way]]:
    from fitnoise.engines import open_counter
    from fitnoise.kernel.units import DataSource

    rows, attributes = 5_000_000, 20
    path = folder / "records.parquet"
    columns = ", ".join(f"(hash(i * {attributes} + {j}) % 10)::INTEGER AS q{j}" for j in range(attributes))
    with duckdb.connect() as db:
        db.execute(f"COPY (SELECT {columns} FROM range({rows}) AS t(i)) TO '{path}'")  # noqa: S608 - constant SQL
    domain = fn.Domain({f"q{j}": fn.Ordered(0, 9) for j in range(attributes)})
    pairs = list(itertools.combinations(domain, 2))

    def grouped(margins: list[tuple[str, ...]]) -> None:
        with duckdb.connect() as db:
            for m in margins:
                names = ", ".join(m)
                db.execute(f"SELECT {names}, count(*) FROM '{path}' GROUP BY {names}").fetchnumpy()  # noqa: S608 - constant SQL

    for many in (1, 5, 20, 190):
        margins = pairs[:: len(pairs) // many][:many]
        yield (
            f"{rows:,} records of Parquet, {many} tables",
            lambda m=margins: open_counter(path, domain.axes, DataSource()).count(m),
            lambda m=margins: grouped(m),
        )


def plan(_: Path) -> Iterator[tuple[str, Way, Way]]:
    domain = fn.Domain(age=fn.Ordered(0, 255))
    prefixes = fn.Workload(domain, [fn.table(cumulative="age", margin=10)])
    matrix = np.tril(np.ones((256, 256))) + np.eye(256)
    yield "prefixes of 256, to 1e-6, compared with one SVD", lambda: fn.plan(prefixes), lambda: np.linalg.svd(matrix)
    yield "the same with pure ε", lambda: fn.plan(prefixes, privacy="pure"), lambda: fn.plan(prefixes)
    yield (
        "its first answer, with its proof",
        lambda: fn.plan(prefixes, privacy="pure", seconds=1e-3),
        lambda: fn.plan(prefixes),
    )
    ranges = fn.Workload(domain, [fn.table(ranges="age", margin=10)])
    yield "all ranges of 256, to 1e-6, compared with one SVD", lambda: fn.plan(ranges), lambda: np.linalg.svd(matrix)
    people = fn.Domain(age=fn.Ordered(0, 59), sex=fn.Categorical(["f", "m"]), region=fn.Categorical([*"abcdefgh"]))
    tables = [fn.table("sex", "region", margin=15), fn.table("sex", cumulative="age", margin=30)]
    workload = fn.Workload(people, tables)
    replaced = fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)
    yield (
        "replaced records, compared with added ones",
        lambda: fn.plan(workload, unit=replaced),
        lambda: fn.plan(workload),
    )


def answer(_: Path) -> Iterator[tuple[str, Way, Way]]:
    from fitnoise import finite

    query = finite.sum_query(people=800, largest=5)
    kernel = np.exp(-np.ceil(np.abs(np.subtract.outer(np.arange(query.n), np.arange(query.n))) / 5))
    yield (
        f"tight constraints, {query.n:,} results, proven, compared with one linear system",
        lambda: finite.tight_constraints(query, 1),
        lambda: np.linalg.solve(kernel, np.ones(query.n)),
    )


def measure(_: Path) -> Iterator[tuple[str, Way, Way]]:
    from fitnoise.kernel.noise import discrete_gaussians

    draw = np.random.default_rng(0)
    yield (
        "1,000,000 draws, compared with floats",
        lambda: discrete_gaussians(np.array([37.0]), np.array([10**6])),
        lambda: draw.normal(0, 37, 10**6),
    )


STAGES = (start, recode, write, count, plan, answer, measure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="write the ratios to be compared with next time")
    arguments = parser.parse_args()
    before = json.loads(STORED_RATIOS.read_text()) if STORED_RATIOS.exists() else {}
    ratios: dict[str, float] = {}
    slower = []
    print("| stage | s | floor s | ratio | before |\n|---|---|---|---|---|")
    for stage in STAGES:
        with tempfile.TemporaryDirectory() as folder:
            for name, ours, floor in stage(Path(folder)):
                took = [(spent(ours), spent(floor)) for _ in range(1 if name == ONCE else arguments.rounds)]
                own_seconds, floor_seconds = (min(x) for x in zip(*took, strict=True))
                ratios[name] = float(f"{own_seconds / floor_seconds:.3g}")
                if ratios[name] > SLOWER * before.get(name, ratios[name]):
                    slower.append(name)
                comparison = f"{ratios[name]:g} | {before.get(name, '')}"
                print(f"| {name} | {own_seconds:.2f} | {floor_seconds:.3f} | {comparison} |", flush=True)
    if arguments.keep:
        STORED_RATIOS.write_text(json.dumps(ratios, indent=1, ensure_ascii=False) + "\n")
    for name in slower:
        print(f"{name}: {ratios[name]:g} times its floor, {before[name]:g} before", file=sys.stderr)
    return int(bool(slower) and not arguments.keep)


if __name__ == "__main__":
    sys.exit(main())
