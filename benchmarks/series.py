"""Series for persons who are in several periods: what mechanisms of others cost them. Run: python benchmarks/series.py

All numbers are Δ² of one person of up to g records, none two in one period, with the noise of each mechanism scaled to
the tightest target; 1 is what one record of one period costs alone. All are charged by the same program: the dearest
set of periods that she can be in, exact, from X in whole numbers (2⁴⁰ times as large). *Single, g²* is the plan for
single records, charged as if her records could be anywhere; *single* the same plan, charged so. *Each alone* is
independent noise on every period, *tree* a binary tree, *root* the square root of running totals.
"""

import time

import numpy as np

import fitnoise as fn
from fitnoise.kernel.designs.sets import dearest_set

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


def charged(x, most):
    """What the dearest set of periods costs; None where sets are too many."""
    whole = np.array([[int(v) for v in row] for row in np.rint(x * DIGITS).astype(object)], dtype=object)
    found = dearest_set(whole, np.ones(x.shape, dtype=bool), most)
    return None if found is None else found / DIGITS


def mechanism(a, asked, most):
    """Unit noise on the rows of a, least squares, scaled so that every row of what is asked has variance 1 at most."""
    inverse = np.linalg.pinv(a.T @ a)
    return charged(a.T @ a * np.einsum("ij,jk,ik->i", asked, inverse, asked).max(), most)


def planned(asked, most):
    """The plan, what it is proven to be near, and the one for single records."""
    domain = fn.Domain(month=fn.Ordered(1, asked.shape[1]))
    workload = fn.matrix_workload(asked, std_errors=np.ones(len(asked)), domain=domain)
    start = time.perf_counter()
    plan = fn.plan(workload, unit=fn.PrivacyUnit("person", most, once_per=["month"]))
    seconds, single = time.perf_counter() - start, fn.plan(workload)
    rows = np.concatenate([g.mixing[0].astype(float) @ g.basis / g.scales[0] for g in single.strategy.groups])
    return plan, seconds, float(single.exact_cost), charged(rows.T @ rows, most)


def said(value):
    """Four digits, or that it is not known."""
    return "?" if value is None else f"{value:.4g}"


def main():
    """One line for each series."""
    print("| periods, tables, g | single, g² | single | each alone | tree | root | plan | no less than | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for n, every in ((12, (3, 12)), (36, (3,)), (120, (3,))):
        months, totals = np.eye(n), np.tri(n)
        tables = {"months, changes": np.vstack([months, np.diff(months, axis=0)])} if n == 12 else {}
        for times in (4, 2) if n == 12 else ():
            tables[f"months, year to date at {times}"] = np.vstack([months, totals / times])
        for name, asked in (tables | {"running totals": totals}).items():
            for most in every:
                plan, seconds, single, recharged = planned(asked, most)
                others = [mechanism(a, asked, most) for a in (months, tree(n), square_root(n))]
                line = [most**2 * single, recharged, *others, float(plan.exact_cost), plan.bound]
                print("|", " | ".join([f"{n}, {name}, {most}", *map(said, line), f"{seconds:.1f}"]), "|", flush=True)


if __name__ == "__main__":
    main()
