"""Pure plans against the usual strategies, and against Gaussian noise. Run: python benchmarks/pure.py

Prefixes and all ranges of n cells, total error and worst error. Every strategy is scaled to ε = 1. A ratio is its error
over twice the certified Gaussian bound, which no strategy with Laplace noise can beat. The column of fitnoise is a
complete plan: bound, search, integers and exact ε; its ratio is computed from the integers. Its seconds are wall time
of one process with one BLAS thread. The last columns compare with Gaussian noise at the same ε and δ = 1e-6. They have
the ratio of its error to that of fitnoise, by the exact curve and by the optimal conversion of ρ-zCDP.

Identity, H₂, the best hierarchy of equal weights (any branching, root or none) and the Haar wavelet are those of the
paper: Li, Hay, Rastogi, Miklau, McGregor: Optimizing linear counting queries under differential privacy, PODS 2010.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import time

import numpy as np
import scipy.linalg as sl

import fitnoise as fn
from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from fitnoise.mechanisms.laplace import planning as matrix
from fitnoise.mechanisms.laplace.hierarchies import hierarchy
from fitnoise.request import curves
from fitnoise_lab import strategies

EPSILON, DELTA = 1.0, 1e-6
BRANCHES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 32)


def workload(kind, n):
    domain = fn.Domain(o=fn.Ordered(0, n - 1))
    return fn.Workload(
        domain, [fn.table(cumulative="o", variance=1) if kind == "prefix" else fn.table(ranges="o", variance=1)]
    )


def queries(kind, n):
    return op.Prefix(n) if kind == "prefix" else op.Intervals(n, tuple((i, j) for i in range(n) for j in range(i, n)))


def cost(kind, n, a, total):
    """|A|₁² times the total, or the largest, of w(AᵀA)⁻¹wᵀ."""
    a = np.asarray(a, dtype=float)
    covariance = sl.cho_solve(sl.cho_factor(a.T @ a), np.eye(n))
    v = rules.row_variances(queries(kind, n), covariance)
    return float(np.abs(a).sum(axis=0).max() ** 2 * (v.sum() if total else v.max()))


def best_hierarchy(kind, n, total):
    candidates = []
    for b in BRANCHES:
        if b < n:
            tree = hierarchy(n, b)
            candidates += [(cost(kind, n, a, total), b, root) for a, root in ((tree, "root"), (tree[1:], "no root"))]
    return min(candidates)


def line(kind, n, total):
    goal = fn.Objective(fn.Goal.TOTAL_ERROR if total else fn.Goal.FIT_FOR_USE)
    publication = fn.Publication(workload(kind, n), objective=goal, privacy=fn.Privacy.PURE)
    begun = time.perf_counter()
    plan = matrix.search(publication).part
    seconds = time.perf_counter() - begun
    rows = plan.numbers
    bound = plan.bound * (rows if total else 1)  # the total of unit targets is their number
    tree, b, root = best_hierarchy(kind, n, total)
    others = [cost(kind, n, a, total) for a in (np.eye(n), hierarchy(n, 2), strategies.haar(n))]
    converted = curves.zcdp_rho(EPSILON, DELTA)
    exact = curves.lattice_mu(EPSILON, DELTA) ** 2 / 2
    gaussian = [EPSILON**2 / 2 / rho / plan.ratio for rho in (2 * exact, 2 * converted)]
    return [
        f"{kind} {n}",
        "total" if total else "worst",
        f"{plan.ratio:.3f}",
        f"{seconds:.1f}",
        *(f"{x / bound:.2f}" for x in others[:2]),
        f"{tree / bound:.2f} ({b}, {root})",
        f"{others[2] / bound:.2f}",
        *(f"{x:.2f}" for x in gaussian),
    ]


def main():
    parser = argparse.ArgumentParser(description="Pure plans against the usual strategies.")
    parser.add_argument("--largest", type=int, default=1024, metavar="N", help="cells of the largest, default 1024")
    largest = parser.parse_args().largest
    head = [
        "workload",
        "error",
        "fitnoise",
        "s",
        "identity",
        "H₂",
        "best H_b",
        "wavelet",
        "Gaussian",
        "by ρ-zCDP",
    ]
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for n in (64, 128, 256, 512, 1024):
        for kind in ("prefix", "ranges"):
            for total in (True, False):
                if n <= largest and (kind == "prefix" or total or n <= 256):
                    print(f"| {' | '.join(line(kind, n, total))} |", flush=True)


if __name__ == "__main__":
    main()
