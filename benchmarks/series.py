"""Costs of other mechanisms for persons who are in several periods of a series.

Run: python benchmarks/series.py [PYTHON]

PYTHON is one that can import jax_privacy: `python -m venv peer && peer/bin/pip install jax-privacy`, then
peer/bin/python. Without it its columns are left out.

All numbers are Δ² of one person with up to g records, each in another period. The noise of each mechanism is scaled to
the tightest target, and 1 is the cost of one record of one period alone. One program computes all charges from X in
integers (2⁴⁰ times as large): the exact cost of the costliest set of periods of a person. If there are too many sets it
computes an upper bound.

* *single, g²*: the plan for single records, charged as if the records of a person could be anywhere;
* *single*: the same plan, charged by sets of periods;
* *each alone*: independent noise on every period;
* *tree*: a binary tree;
* *root*: the square root of running totals;
* *band*: the best Toeplitz matrix of n/g bands for running totals, for the largest error, by jax_privacy;
* *dense*: the best lower-triangular matrix for the requested numbers and persons who come back after n/g periods, for
  the mean error, by jax_privacy.
"""

import json
import subprocess
import sys
import time

import numpy as np

import fitnoise as fn
from fitnoise.solving.record_sets import max_cost_set
from fitnoise.solving.relaxations import bounds

DIGITS = 2.0**40


def tree(n):
    """Counts of all nodes of a binary tree over n periods."""
    widths = (2**k for k in range(n.bit_length() + 1))
    rows = {tuple(a <= i < a + w for i in range(n)) for w in widths for a in range(0, n, w)}
    return np.array(sorted(rows), dtype=float)


def square_root(n):
    """The square root of running totals: a Toeplitz matrix (Fichtenberger, Henzinger, Upadhyay 2023)."""
    column = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, n))])
    return np.array([[column[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])


def charged(x, max_records):
    """Return the cost of the costliest set of periods, or an upper bound on it."""
    integers = np.array([[int(v) for v in row] for row in np.rint(x * DIGITS).astype(object)], dtype=object)
    all_allowed = np.ones(x.shape, dtype=bool)
    cost = max_cost_set(integers, all_allowed, max_records)
    return (bounds(integers, all_allowed, max_records)[0][0] if cost is None else cost) / DIGITS


PEER = """
import json, sys
import jax, jax.numpy as jnp
jax.config.update("jax_enable_x64", True)
from jax_privacy.matrix_factorization import dense, toeplitz
queries, max_periods = json.load(sys.stdin)
queries = jnp.array(queries)
n = queries.shape[1]
bands = max(n // max_periods, 1)
column = toeplitz.optimize_banded_toeplitz(n, bands=max(bands, 2), reduction_fn=jnp.max)
band = toeplitz.materialize_lower_triangular(column, n)
best = dense.optimize(n, epochs=max_periods, bands=bands, equal_norm=True, A=queries, max_optimizer_steps=1000)
json.dump([band.tolist(), best.tolist()], sys.stdout)
"""


def peers(queries, max_records, python):
    """The matrices that jax_privacy finds; None where it takes longer than some minutes, or fails."""
    request = json.dumps([queries.tolist(), max_records])
    try:
        process = subprocess.run(  # noqa: S603 - the interpreter named by the user
            [python, "-c", PEER], input=request, capture_output=True, text=True, timeout=200, check=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(str(getattr(error, "stderr", error))[-300:], file=sys.stderr)
        return [None, None]
    return [np.array(x) for x in json.loads(process.stdout)]


def mechanism(a, queries, max_records):
    """Return the cost of unit noise on the rows of a with least squares, scaled to variance 1 or less of each query."""
    inverse = np.linalg.pinv(a.T @ a)
    return charged(a.T @ a * np.einsum("ij,jk,ik->i", queries, inverse, queries).max(), max_records)


def planned(queries, max_records):
    """The plan, what it is proven to be near, and the one for single records."""
    domain = fn.Domain(month=fn.Ordered(1, queries.shape[1]))
    workload = fn.matrix_workload(queries, std_errors=np.ones(len(queries)), domain=domain)
    start = time.perf_counter()
    plan = fn.plan(workload, unit=fn.PrivacyUnit("person", max_records, once_per=["month"]))
    seconds, single = time.perf_counter() - start, fn.plan(workload)
    rows = np.concatenate(
        [g.mixing[0].astype(float) @ g.basis / g.scales[0] for g in single.table_part.strategy.groups]
    )
    return plan, seconds, float(single.table_part.exact_cost), charged(rows.T @ rows, max_records)


def number_text(value):
    """Four digits, or that it is not known."""
    return "–" if value is None else f"{value:.4g}"


def series():
    """Yield name, queries with a standard error of 1, and the number of records of one person."""
    for n, record_numbers in ((12, (3, 12)), (36, (3, 36)), (120, (3, 120))):
        months, totals = np.eye(n), np.tri(n)
        years = np.kron(np.eye(n // 12), np.ones(12))
        tables = {"months": months, "months, changes": np.vstack([months, np.diff(months, axis=0)])} if n == 12 else {}
        for times in (4, 2) if n == 12 else ():
            tables[f"months, year to date at {times}"] = np.vstack([months, totals / times])
        for max_records in record_numbers:
            for name, queries in (tables | {"running totals": totals}).items():
                yield f"{n}, {name}, {max_records}", queries, max_records
        if n > 12:
            yield f"{n}, months, years at 2, {n}", np.vstack([months, years / 2]), n


def moving():
    """Print the costs of plans by region: for persons who may move, the proven bound, and for those who stay."""
    print("\n| periods, tables by region, g | stays in one | may move | no less than | seconds |")
    print("|---" * 5 + "|")
    totals = [fn.table("region", cumulative="month", std_error=1)]
    changes = [fn.table("month", "region", std_error=1), fn.table("region", change="month", std_error=1)]
    for n, regions, name, tables in (
        (12, 2, "running totals", totals),
        (12, 3, "months, changes", changes),
        (12, 10, "months, changes", changes),
        (24, 4, "months, changes", changes),
        (36, 2, "running totals", totals),
    ):
        domain = fn.Domain(month=fn.Ordered(1, n), region=fn.Categorical([f"r{i}" for i in range(regions)]))
        line, seconds = [], 0.0
        for fixed in (["region"], []):
            start = time.perf_counter()
            unit = fn.PrivacyUnit("person", n, once_per=["month"], fixed=fixed)
            plan = fn.plan(fn.Workload(domain, tables), unit=unit)
            line, seconds = [*line, float(plan.table_part.exact_cost)], time.perf_counter() - start
        print(
            "|", " | ".join([f"{n}, {name}, {regions} regions, {n}", *map(number_text, [*line, plan.bound])]), end=" | "
        )
        print(f"{seconds:.1f} |", flush=True)


def main(python=None):
    """One line for each series; then one for each by region."""
    peer_columns = ["band", "dense"] if python else []
    print(
        "|",
        " | ".join(["periods, tables, g", "single, g²", "single", "each alone", "tree", "root", *peer_columns]),
        end=" | ",
    )
    print("plan | no less than | seconds |")
    print("|---" * (9 + len(peer_columns)) + "|")
    for name, queries, max_records in series():
        n = queries.shape[1]
        plan, seconds, single, recharged = planned(queries, max_records)
        factors = [np.eye(n), tree(n), square_root(n), *(peers(queries, max_records, python) if python else ())]
        others = [None if a is None else mechanism(a, queries, max_records) for a in factors]
        line = [max_records**2 * single, recharged, *others, float(plan.table_part.exact_cost), plan.bound]
        print("|", " | ".join([name, *map(number_text, line), f"{seconds:.1f}"]), "|", flush=True)
    moving()


if __name__ == "__main__":
    main(*sys.argv[1:])
