"""Plans, measurements and tables of huge domains: growth, stages, Adult. Run: python benchmarks/any_size.py [FOLDER]

Every line is one process of its own. FOLDER holds the Adult data as published with private-pgm: adult.csv (cell
numbers, a header line) and adult-domain.json (name: number of cells). Without FOLDER that table is left out.
"""

import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from peak import peak_memory

SIZE = 10
PUBLISHED = {(1,): 3.047, (2,): 6.359, (3,): 10.515}
"""RMSE of total-error optimal marginals of Adult at unit cost, per order on its own (ResidualPlanner, 2023)."""


def targets(kind, k, count, seed=0):
    import numpy as np

    return {"uniform": 1.0, "by order": float(k), "random": np.random.default_rng(seed + k).uniform(1, 10, count)}[kind]


def planned(attributes, order, kind):
    """All tables up to an order."""
    import fitnoise as fn

    start = time.perf_counter()
    domain = fn.Domain({f"a{i}": fn.Ordered(0, SIZE - 1) for i in range(attributes)})
    parts = [
        fn.all_tables(k, list(domain), variance=targets(kind, k, math.comb(attributes, k))) for k in range(1, order + 1)
    ]
    plan = fn.plan(fn.Workload(domain, parts))
    return {
        "tables": len(plan.table_part.tables),
        "numbers": plan.table_part.numbers,
        "gap": plan.gap,
        "seconds": time.perf_counter() - start,
        "megabytes": peak_memory(),
    }


def mixed_workload(attributes, kind):
    """Return all tables up to order 3; three ordered attributes are cumulative and meet only in pairs."""
    import fitnoise as fn

    domain = fn.Domain({f"a{i}": fn.Ordered(0, SIZE - 1) for i in range(attributes)})
    names = list(domain)
    ordered, rest = names[:3], names[3:]

    def family(k, *prefix):
        variance = targets(kind, k + len(prefix), math.comb(len(rest), k), seed=len(prefix))
        return fn.all_tables(k, rest, cumulative=list(prefix), variance=variance)

    parts = [family(k) for k in (1, 2, 3)]
    for a in ordered:
        parts += [fn.table(cumulative=a, variance=2.0), family(1, a), family(2, a)]
    for a, b in itertools.combinations(ordered, 2):
        parts += [fn.table(cumulative=[a, b], variance=2.0), family(1, a, b)]
    return fn.Workload(domain, parts)


def mixed(attributes, kind):
    """Plan `mixed_workload`."""
    import fitnoise as fn

    start = time.perf_counter()
    plan = fn.plan(mixed_workload(attributes, kind))
    return {
        "tables": len(plan.table_part.tables),
        "gap": plan.gap,
        "seconds": time.perf_counter() - start,
        "megabytes": peak_memory(),
    }


def stages(attributes, order, rows):
    """From targets to all tables, of rows made up: seconds of each stage."""
    import numpy as np
    import pandas as pd

    import fitnoise as fn
    from fitnoise.engines import open_counter
    from fitnoise.kernel import noise
    from fitnoise.kernel.measure import measure

    rng = np.random.default_rng(0)
    domain = fn.Domain({f"a{i}": fn.Ordered(0, SIZE - 1) for i in range(attributes)})
    people = pd.DataFrame({a: rng.integers(0, SIZE, rows, dtype=np.int8) for a in domain})
    spent = {"count": 0.0, "noise": 0.0}

    def timed(name, function):
        def wrapped(*args):
            start = time.perf_counter()
            result = function(*args)
            spent[name] += time.perf_counter() - start
            return result

        return wrapped

    start = time.perf_counter()
    parts = [fn.all_tables(k, list(domain), variance=100.0) for k in range(1, order + 1)]
    source = fn.DataSource(max_records=10**9)
    plan = fn.plan(fn.Workload(domain, parts), source=source)
    planned_at = time.perf_counter()
    counter = open_counter(people, domain.axes, source)
    counter.count = timed("count", counter.count)
    noise.discrete_gaussians = timed("noise", noise.discrete_gaussians)
    with fn.Ledger(":memory:") as ledger:
        measured = measure(plan.order, counter, ledger)
    after = time.perf_counter()
    result = fn.Release(plan, measured.answers[0])
    total, numbers = 0.0, 0
    rebuilt = 0.0
    stacks = result._rebuilt.stacks()
    while True:
        begin = time.perf_counter()
        stack = next(stacks, None)
        rebuilt += time.perf_counter() - begin
        if stack is None:
            break
        for t, values in zip(*stack, strict=True):
            shown_attributes = plan.publication.workload.tables[int(t)].attributes
            key = np.zeros(rows, dtype=np.int64)
            for a in shown_attributes:
                key = key * SIZE + people[a].to_numpy()
            error = values.ravel() - np.bincount(key, minlength=values.size)
            total, numbers = total + float((error**2).sum()), numbers + error.size
            if numbers > 2_000_000:  # enough to judge the errors by
                break
    return {
        "tables": len(plan.table_part.tables),
        "answers": plan.table_part.noisy_answers,
        "plan": planned_at - start,
        "count": spent["count"],
        "noise": spent["noise"],
        "rest": after - planned_at - spent["count"] - spent["noise"],
        "rebuild": rebuilt,
        "rmse": math.sqrt(total / numbers),
        "megabytes": peak_memory(),
    }


def adult(folder):
    """Marginals of Adult at unit cost: total error, and the smallest largest error."""
    import numpy as np
    import pandas as pd

    import fitnoise as fn

    folder = Path(folder)
    sizes = json.loads((folder / "adult-domain.json").read_text(encoding="utf-8"))
    people = pd.read_csv(folder / "adult.csv")
    domain = fn.Domain({a: fn.Ordered(0, n - 1) for a, n in sizes.items()})
    out = []
    for orders in ((1,), (2,), (3,), (1, 2, 3)):
        workload = fn.Workload(domain, [fn.all_tables(k, list(domain), variance=1.0) for k in orders])
        for goal in (fn.Goal.TOTAL_ERROR, fn.Goal.FIT_FOR_USE):
            start = time.perf_counter()
            plan = fn.plan(workload, budget=fn.Budget(rho=Fraction(1, 2)), objective=fn.Objective(goal))
            seconds = time.perf_counter() - start
            with tempfile.TemporaryDirectory() as folder:
                released = fn.release(plan, people, ledger=Path(folder) / "ledger.db")
            release_seconds = time.perf_counter() - start - seconds
            squares = {k: [] for k in orders}
            for which, stack in released._rebuilt.stacks():
                for t, values in zip(which, stack, strict=True):
                    table = workload.tables[int(t)]
                    key = np.zeros(len(people), dtype=np.int64)
                    for a in table.attributes:
                        key = key * sizes[a] + people[a].to_numpy()
                    error = values.ravel() - np.bincount(key, minlength=values.size)
                    squares[len(table.attributes)].append(error**2)
            d = plan.table_part.decomposition
            expected = math.sqrt(float(plan.table_part.variances @ d.numbers_per_row / d.numbers_per_row.sum()))
            rmse = {k: math.sqrt(np.concatenate(v).mean()) for k, v in squares.items()}
            out.append(
                {
                    "orders": orders,
                    "goal": str(goal),
                    "expected": expected,
                    "largest": math.sqrt(plan.table_part.variances.max()),
                    "rmse": rmse,
                    "gap": plan.gap,
                    "plan": seconds,
                    "release": release_seconds,
                }
            )
    return out


CASES = {"planned": planned, "mixed": mixed, "stages": stages, "adult": adult}


def in_subprocess(name, *arguments):
    command = [sys.executable, __file__, "--one", name, *map(str, arguments)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603 - itself
    return json.loads(process.stdout)


def growth():
    print("All tables of up to 2 or 3 attributes of 10 values; gap 1e-6 requested; set-up included.\n")
    print("| attributes | order | targets | tables | numbers | gap | s | peak MB |\n|---|---|---|---|---|---|---|---|")
    for order, kind in itertools.product((2, 3), ("uniform", "by order", "random")):
        for n in (10, 20, 50, 100):
            r = in_subprocess("planned", n, order, kind)
            print(
                f"| {n} | {order} | {kind} | {r['tables']:,} | {r['numbers']:,} | {r['gap']:.1e} "
                f"| {r['seconds']:.2f} | {r['megabytes']:.0f} |",
                flush=True,
            )
    print("\nThe same up to order 3, of which 3 ordered attributes are published by prefix and meet in pairs (1,000")
    print("joint cells; the largest sectors have rank 271):\n")
    print("| attributes | targets | tables | gap | seconds | peak MB |\n|---|---|---|---|---|---|")
    for n, kind in ((20, "uniform"), (100, "uniform"), (20, "random"), (100, "random")):
        r = in_subprocess("mixed", n, kind)
        print(
            f"| {n} | {kind} | {r['tables']:,} | {r['gap']:.1e} | {r['seconds']:.1f} | {r['megabytes']:.0f} |",
            flush=True,
        )


def by_stage():
    print("\nFrom targets to tables, seconds of each stage (variance 100 for every number; RMSE of one release):\n")
    print("| attributes | order | rows | noisy answers | plan | count | noise | other | rebuild all | RMSE | peak MB |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for n, order, rows in ((20, 2, 10**6), (100, 2, 10**5), (40, 3, 10**5)):
        r = in_subprocess("stages", n, order, rows)
        print(
            f"| {n} | {order} | {rows:,} | {r['answers']:,} | {r['plan']:.2f} | {r['count']:.2f} | {r['noise']:.2f} "
            f"| {r['rest']:.2f} | {r['rebuild']:.2f} | {r['rmse']:.2f} | {r['megabytes']:.0f} |",
            flush=True,
        )


def of_adult(folder):
    print("\nAdult (14 attributes), marginals at unit cost (Δ² = 1):\n")
    print("Root of the mean variance, the figure published, the largest standard error, and one release:\n")
    print("| orders | goal | expected | published | largest | RMSE by order | gap | plan s | release s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for r in in_subprocess("adult", folder):
        published = PUBLISHED.get(tuple(r["orders"]), "") if r["goal"] == "total-error" else ""
        errors_text = ", ".join(f"{k}: {x:.2f}" for k, x in r["rmse"].items())
        print(
            f"| {', '.join(map(str, r['orders']))} | {r['goal']} | {r['expected']:.3f} | {published} "
            f"| {r['largest']:.3f} | {errors_text} | {r['gap']:.1e} | {r['plan']:.2f} | {r['release']:.2f} |"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        values = [int(x) if x.isdigit() else x for x in sys.argv[3:]]
        print(json.dumps(CASES[sys.argv[2]](*values)))
    else:
        growth()
        by_stage()
        if len(sys.argv) > 1:
            of_adult(sys.argv[1])
