"""Many structured attributes in one table, in product form. Run: python benchmarks/product_form.py [several]

With a name of one of the tables it makes that alone.
Every line is one process of its own. *upper* is the cost of the integers of the plan, Δ² at variance 1 of every
number. *lower* is the bound on all mechanisms of its kind. For ranges both are those of the search, before integers,
because their table has more numbers than are published. *released* is counting, noise, all tables and the directory;
*verified* is the verification.
"""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from peak import peak_memory

PEOPLE = 100_000


def tables(attributes, values, prefix, orders):
    """All tables of some orders, the last attributes of them cumulative."""
    import fitnoise as fn

    domain = fn.Domain({f"a{i:02}": fn.Ordered(0, values - 1) for i in range(attributes)})
    late = list(domain)[attributes - prefix :]
    subsets = [t for k in orders for t in itertools.combinations(domain, k)]
    return fn.Workload(
        domain,
        [
            fn.table(*[a for a in t if a not in late], cumulative=[a for a in t if a in late], variance=1)
            for t in subsets
        ],
    )


def planned(attributes, values, prefix, orders, neighbours="add-or-remove-one"):
    """A plan, and how far it is from the bound."""
    import fitnoise as fn
    from fitnoise.mechanisms.gaussian import planning

    planning.MAX_DENSE_CELLS = planning.MAX_STRUCTURED_CELLS = 0
    workload = tables(attributes, values, prefix, orders)
    start = time.perf_counter()
    plan = fn.plan(workload, unit=fn.PrivacyUnit(neighbours=fn.Neighbours(neighbours)))
    return {
        "attributes": f"{attributes} of {values}, {prefix} by prefix",
        "neighbours": neighbours,
        "tables of": ", ".join(map(str, orders)),
        "tables": f"{len(workload.tables):,}",
        "upper": f"{float(plan.table_part.exact_cost):.4f}",
        "lower": f"{plan.bound:.4f}",
        "gap": f"{plan.gap:.2%}",
        "seconds": f"{time.perf_counter() - start:.1f}",
        "peak MB": f"{peak_memory():,.0f}",
    }


def several(attributes, values):
    """Plan all ordered pairs, the first by value and the second cumulative: with one matrix, and with joint bases."""
    import fitnoise as fn
    from fitnoise.mechanisms.gaussian import planning

    planning.MAX_DENSE_CELLS = planning.MAX_STRUCTURED_CELLS = 0
    domain = fn.Domain({f"a{i:02}": fn.Ordered(0, values - 1) for i in range(attributes)})
    pairs = itertools.permutations(domain, 2)
    workload = fn.Workload(domain, [fn.table(a, cumulative=b, variance=1, name=f"{a} by {b}") for a, b in pairs])
    start = time.perf_counter()
    plan = fn.plan(workload)
    seconds = time.perf_counter() - start
    planning.joint_bases.is_supported = lambda x: False
    joint_plan = fn.plan(workload)
    return {
        "values by prefix": f"{attributes} of {values}",
        "one matrix": f"{float(joint_plan.table_part.exact_cost):.4f}",
        "upper": f"{float(plan.table_part.exact_cost):.4f}",
        "lower": f"{plan.bound:.4f}",
        "gap": f"{plan.gap:.2%}",
        "scales": f"{sum(len(g.scales) for g in plan.table_part.strategy.groups):,}",
        "seconds": f"{seconds:.1f}",
        "peak MB": f"{peak_memory():,.0f}",
    }


def summed(attributes, values, orders):
    """The total error of all cumulative tables of some orders, at Δ² = 1."""
    import fitnoise as fn
    from fitnoise.mechanisms.gaussian import planning

    planning.MAX_DENSE_CELLS = 0
    workload = tables(attributes, values, attributes, orders)
    start = time.perf_counter()
    plan = fn.plan(workload, objective=fn.Objective("total-error"))
    total = float(plan.table_part.variances @ plan.table_part.decomposition.numbers_per_row)
    return {
        "total error, by prefix": f"{attributes} of {values}",
        "tables of": ", ".join(map(str, orders)),
        "upper": f"{float(plan.table_part.exact_cost) * total:.3f}",
        "lower": f"{plan.bound * total:.3f}",
        "root mean": f"{(float(plan.table_part.exact_cost) * total / plan.table_part.numbers) ** 0.5:.4f}",
        "at least": f"{(plan.bound * total / plan.table_part.numbers) ** 0.5:.4f}",
        "seconds": f"{time.perf_counter() - start:.1f}",
        "peak MB": f"{peak_memory():,.0f}",
    }


def ranges(values):
    """All ranges of two attributes at once: the square of what one costs."""
    import fitnoise as fn
    from fitnoise.solving import cores
    from fitnoise.solving.product_form import ProductProblem, solve
    from fitnoise.solving.sectors import decompose_by_axis

    domain = fn.Domain(a=fn.Ordered(1, values), b=fn.Ordered(1, values))
    all_ranges = [(i, j) for i in range(1, values + 1) for j in range(i, values + 1)]
    workload = fn.Workload(domain, [fn.table(ranges={"a": all_ranges, "b": all_ranges}, variance=1)])
    start = time.perf_counter()
    problem = ProductProblem.from_decomposition(decompose_by_axis(workload))
    form, weights = solve(problem)
    return {
        "all ranges of": f"{values} × {values}",
        "upper": f"{form.value:.4f}",
        "lower": f"{cores.lower_bound(problem, cores.raised(problem, weights)):.4f}",
        "seconds": f"{time.perf_counter() - start:.1f}",
        "peak MB": f"{peak_memory():,.0f}",
    }


def released(attributes, values):
    """From targets to a verified directory: all pairs, cumulative in both."""
    import tempfile

    import numpy as np
    import pandas as pd

    import fitnoise as fn

    workload = tables(attributes, values, attributes, (2,))
    start = time.perf_counter()
    plan = fn.plan(fn.Publication(workload, source=fn.DataSource(max_records=2**24)))
    ready = time.perf_counter()
    rng = np.random.default_rng(0)
    data = pd.DataFrame({a: rng.integers(0, values, PEOPLE) for a in workload.domain})
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        fn.release(plan, data, ledger=f"{folder}/ledger.db", directory=f"{folder}/out")
        done = time.perf_counter()
        if not all(check.holds for check in fn.verify(f"{folder}/out").checks):
            raise SystemExit("a release does not hold")
        verified = time.perf_counter()
    return {
        "attributes": f"{attributes} of {values}",
        "joint cells": f"{values**attributes:.0e}",
        "noisy numbers": f"{plan.table_part.noisy_answers:,}",
        "published": f"{plan.table_part.numbers:,}",
        "planned s": f"{ready - start:.1f}",
        "released s": f"{done - begun:.1f}",
        "verified s": f"{verified - done:.1f}",
        "peak MB": f"{peak_memory():,.0f}",
    }


CASES = [
    *(
        ("planned", (n, k, n, (2,)))
        for n, k in ((3, 3), (3, 6), (3, 10), (5, 10), (5, 20), (10, 10), (20, 10), (10, 100), (20, 100), (40, 10))
    ),
    ("planned", (5, 10, 5, (1, 2, 3))),
    ("planned", (20, 10, 6, (1, 2, 3))),
    *(("planned", (n, k, n, (2,), "replace-one")) for n, k in ((3, 4), (3, 6), (4, 4), (5, 10), (10, 10))),
    *(("several", x) for x in ((2, 6), (3, 6), (2, 40), (2, 100), (5, 10), (5, 20), (10, 10))),
    *(("summed", x) for x in ((2, 8, (1, 2)), (10, 10, (0, 1, 2)), (20, 10, (0, 1, 2)))),
    ("ranges", (64,)),
    ("ranges", (128,)),
    ("released", (3, 100)),
    ("released", (10, 100)),
]


def run(which, arguments):
    """One line, from a process of its own."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, which, json.dumps(arguments)]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)  # noqa: S603


def main(names):
    last = None
    for which, arguments in (case for case in CASES if not names or case[0] in names):
        line = run(which, arguments)
        if which != last:
            print("\n|", " | ".join(line), "|\n|", "---|" * len(line), sep="")
        print("|", " | ".join(map(str, line.values())), "|", flush=True)
        last = which


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(
            json.dumps(
                {f.__name__: f for f in (planned, several, summed, ranges, released)}[sys.argv[1]](
                    *json.loads(sys.argv[2])
                )
            )
        )
    else:
        main(sys.argv[1:])
