"""Time and memory of every stage against its size, with fitted exponents. Run: python benchmarks/growth.py [STAGE …]

Every line is a process of its own. It has the seconds of processors of the stage alone, with all threads and children,
and the growth of the process in megabytes. The exponents are those of least squares through the logarithms of the sizes
in the upper half, where fixed costs no longer hide the growth.

* start: a specification with n tables, from its file to a publication;
* count: n records of Parquet, five tables;
* plan: all prefixes of n cells, to 1e-6;
* plan, margins: n tables of three attributes, to 1e-6;
* places: n leaves of an uneven tree of three levels, declared from rows;
* plan, places: their tables, by level or by place, with any gap;
* measure: n numbers of one table, charged and drawn, counts given;
* write, verify: n numbers of one table.
"""

import argparse
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import numpy as np

import fitnoise as fn
from peak import forget_peak, peak_memory

NUMBERS = (10**4, 10**5, 10**6, 3 * 10**6, 10**7)
PLACES = (10**2, 10**3, 10**4, 10**5)
SIZES = {
    "start": (10, 100, 1000, 4000),
    "count": (10**5, 10**6, 10**7, 3 * 10**7),
    "plan": (8, 32, 128, 512, 1024),
    "plan, margins": (10, 120, 1140, 9880),
    "places": PLACES,
    "plan, places": PLACES,
    "measure": NUMBERS,
    "write": NUMBERS,
    "verify": NUMBERS,
}


def spent():
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def start(size, folder):
    wide = next(n for n in range(2, 999) if n * (n - 1) // 2 >= size)
    lines = [f'[domain.a{i}]\ntype = "categorical"\ncodes = ["n", "y"]\n' for i in range(wide)]
    pairs = itertools.islice(itertools.combinations(range(wide), 2), size)
    lines += [f'[[tables]]\nattributes = ["a{i}", "a{j}"]\nmargin = 10\n' for i, j in pairs]
    path = folder / "spec.toml"
    path.write_text("\n".join(lines))
    return lambda: fn.load_spec(path)


def count(size, folder):
    import duckdb

    from fitnoise.engines import open_counter
    from fitnoise.kernel.units import DataSource

    path = folder / "records.parquet"
    columns = ", ".join(f"(hash(i * 10 + {j}) % 10)::INTEGER AS q{j}" for j in range(10))
    with duckdb.connect() as db:
        db.execute(f"COPY (SELECT {columns} FROM range({size}) AS t(i)) TO '{path}'")  # noqa: S608 - constant SQL
    domain = fn.Domain({f"q{j}": fn.Ordered(0, 9) for j in range(10)})
    tables = [(f"q{j}", f"q{j + 1}") for j in range(5)]
    return lambda: open_counter(path, domain.axes, DataSource()).count(tables)


def plan(size, _):
    prefixes = fn.Workload(fn.Domain(a=fn.Ordered(0, size - 1)), [fn.table(cumulative="a", margin=10)])
    return lambda: fn.plan(prefixes)


def margins(size, _):
    wide = next(n for n in range(3, 99) if math.comb(n, 3) >= size)
    domain = fn.Domain({f"a{i}": fn.Categorical(["n", "y"]) for i in range(wide)})
    chosen = itertools.islice(itertools.combinations(domain, 3), size)
    workload = fn.Workload(domain, [fn.table(*names, margin=10) for names in chosen])
    return lambda: fn.plan(workload)


def rows_of_places(size):
    """Return as many tracts, about 27 in a county and 60 counties in a state, of very different sizes."""
    rng = np.random.default_rng(0)
    rows = [("",)]
    for n in (max(2, size // 1600), max(4, size // 27), size):
        weights = rng.lognormal(0, 1, len(rows))
        below = 1 + rng.multinomial(n - len(rows), weights / weights.sum())
        rows = [(*row, f"{row[-1]}-{i}") for row, many in zip(rows, below, strict=True) for i in range(many)]
    return [row[1:] for row in rows]


def places(size, _):
    rows = rows_of_places(size)
    return lambda: fn.Hierarchy(["state", "county", "tract"], rows)


def plan_places(size, folder):
    from fitnoise.mechanisms.gaussian import planning

    planning.MAX_DENSE_LEAVES = planning.MAX_DENSE_LEAVES_SLOW = 0  # small trees, too, as large ones are
    domain = fn.Domain(geo=places(size, folder)(), sex=fn.Ordered(0, 1), age=fn.Ordered(0, 9))
    tables = [fn.table("age", "sex", margin=100), fn.table("state", "age", "sex", margin=50)]
    tables += [fn.table("county", "age", margin=40), fn.table("tract", margin=30), fn.table("tract", "sex", margin=40)]
    workload = fn.Workload(domain, tables)
    return lambda: fn.plan(workload)


def measured(size, folder):
    domain = fn.Domain(a=fn.Ordered(0, size - 1))
    plan = fn.plan(fn.Workload(domain, [fn.table("a", margin=10)]), source=fn.DataSource("grown"))
    counts = np.zeros(size, dtype=np.int64)
    return lambda: fn.release(plan, counts, ledger=fn.Ledger(folder / "ledger.sqlite"), again=True)


def write(size, folder):
    released = measured(size, folder)()
    return lambda: released.write(folder / "release")


def verify(size, folder):
    release_path = write(size, folder)()
    return lambda: fn.verify(release_path)


STAGES = {
    "start": start,
    "count": count,
    "plan": plan,
    "plan, margins": margins,
    "places": places,
    "plan, places": plan_places,
    "measure": measured,
    "write": write,
    "verify": verify,
}


def one(stage, size):
    with tempfile.TemporaryDirectory() as folder:
        for n in (SIZES[stage][0], size):  # the first time imports what is needed
            directory = Path(tempfile.mkdtemp(dir=folder))
            way = STAGES[stage](n, directory)
            forget_peak()
            held, before = peak_memory(), spent()
            way()
            took = spent() - before
    return {"seconds": took, "megabytes": max(peak_memory() - held, 0.0)}


def in_subprocess(stage, size):
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent / "src")}
    command = [sys.executable, __file__, "--one", stage, str(size)]
    process = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603 - itself
    return json.loads(process.stdout)


def exponent(points):
    """Least squares of log y on log x over the upper half of the sizes; nan where nothing can be seen."""
    upper = [(math.log(x), math.log(y)) for x, y in points[(len(points) - 1) // 2 :] if y > 0]
    if len(upper) < 2:
        return math.nan
    xs, ys = zip(*upper, strict=True)
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mx) * (y - my) for x, y in upper) / sum((x - mx) ** 2 for x in xs)


def main(stages):
    print("| stage | size | s | MB |\n|---|---|---|---|")
    fitted = []
    for stage in stages:
        results = []
        for size in SIZES[stage]:
            r = in_subprocess(stage, size)
            results.append((size, r["seconds"], r["megabytes"]))
            print(f"| {stage} | {size:,} | {r['seconds']:.3g} | {r['megabytes']:.0f} |", flush=True)
        powers = [exponent([(n, x[i]) for n, *x in results]) for i in (0, 1)]
        (small, quick, _), (large, long, much) = results[0], results[-1]
        sizes = f"{small:,} to {large:,} | {quick:.2g} | {long:.3g} | {much:.0f}"
        fitted.append(f"| {stage} | {sizes} | {powers[0]:.2f} | {powers[1]:.2f} |")
    print("\n| stage | sizes | s, smallest | s, largest | MB, largest | time ~ size^ | memory ~ size^ |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join(fitted))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(sys.argv[2], int(sys.argv[3]))))
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument(
            "stages", nargs="*", metavar="STAGE", help=f"of {', '.join(STAGES)}; all when none is named"
        )
        main(parser.parse_args().stages or STAGES)
