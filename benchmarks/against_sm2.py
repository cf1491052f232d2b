"""fitnoise against SM-II, the paper's algorithm as printed: ratios of one run.

Run: python benchmarks/against_sm2.py

Both run in this process, on one BLAS thread. SM-II has the settings of its authors' program and the Hessian as printed,
in the basis I and in the paper's basis U. It stops by its own rule, or at --seconds (default 900). The columns:

* *fitnoise* is a complete plan, from W to integers, exact price and certificate, no worse than the result of SM-II.
  The gap to reach is SM-II's own excess over the certified bound, but no less than 1e-6.
* *ratio* is SM-II's seconds over those of fitnoise (with "over", SM-II had not ended: it is larger still).
* *then* is SM-II's excess at the time fitnoise was ready.
* *fitnoise at its time* is the excess of a plan to 1e-6, with its seconds.

An excess is Δ² over the best certified bound of the workload, less 1. Marginals are planned by sectors, as any user
would do; SM-II gets the same queries as a matrix.

Source: Xiao, Ding, Wang, Zhang, Kifer, PVLDB 14(10), 2021, sections 6 and 7; see docs/mathematics/fit_for_use.md.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import time

import numpy as np

import fitnoise as fn
from fitnoise_lab import gallery, soft_max
from fitnoise_lab.soft_max import AlgorithmVariant, Hessian, SoftMaxStatus

BASES = ("identity", "upper")
FINEST = 1e-6
"""Gap of the plan that is compared at SM-II's time, and the smallest gap of any plan."""
REPEATS = 3
"""Number of timings of each plan of fitnoise, which takes milliseconds; the quickest counts."""


def cases():
    """Name, W, c, and the same as tables where that is how one would ask."""
    rng = np.random.default_rng
    ranges = gallery.random_ranges(64, 128, rng(0))
    yield "prefix 64", gallery.prefix(64), 1.0, None
    yield "ranges 64", ranges, 1.0, None
    yield "ranges 64, targets U(1, 10)", ranges, gallery.random_targets(128, rng(7)), None
    yield "signs 64", gallery.random_signs(64, 128, rng(0)), 1.0, None
    yield "marginals 4³", gallery.marginals((4, 4, 4)), 1.0, gallery.marginal_tables((4, 4, 4))
    yield "PL94", gallery.pl94(), 1.0, None
    yield "prefix 256", gallery.prefix(256), 1.0, None
    yield "ranges 256", gallery.random_ranges(256, 512, rng(0)), 1.0, None
    yield "marginals 8³", gallery.marginals((8, 8, 8)), 1.0, gallery.marginal_tables((8, 8, 8))


def ours(w, c, tables, gap):
    """Return a complete plan, and the seconds of the quickest of its timings."""
    seconds = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        plan = fn.plan(tables or fn.matrix_workload(w, variances=c), gap=gap)
        seconds.append(time.perf_counter() - begun)
    return plan, min(seconds)


def compare(name, w, c, tables, limit):
    """One line for each basis."""
    w = np.asarray(w, dtype=float)
    ours(w, c, tables, 1e-2)  # what is loaded on first use is not timed
    fine, fine_seconds = ours(w, c, tables, FINEST)
    for basis in BASES:
        b, lifts = getattr(soft_max.bases(w), basis)
        begun = time.perf_counter()
        solution = soft_max.solve(
            b, lifts, c, hessian=Hessian.PRINTED, reading=AlgorithmVariant.CODE, max_seconds=limit
        )
        theirs = time.perf_counter() - begun
        excess = solution.cost_squared / fine.bound - 1
        same, seconds = ours(w, c, tables, min(max(excess, FINEST), 10.0))
        if same.cost_squared > max(solution.cost_squared, fine.bound * (1 + FINEST)):
            raise RuntimeError("fitnoise's plan is less accurate than SM-II's: the comparison would be unfair")
        clock, costs = solution.history.T
        then = np.minimum.accumulate(costs)[max(np.searchsorted(clock, seconds, side="right") - 1, 0)] / fine.bound - 1
        time_mark = "over " if solution.ending is SoftMaxStatus.TIME else ""
        at_its_time = f"{fine.gap:.0e} in {fine_seconds:.3f} s" if fine_seconds <= theirs else "not ready"
        print(
            f"| {name} | {'I' if basis == 'identity' else 'U'} | {time_mark}{theirs:.2f} "
            f"| {excess:.2%} | {seconds:.3f} "
            f"| {time_mark}{theirs / seconds:.0f} | {then:.1%} | {at_its_time} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description="Compare fitnoise with SM-II as printed, by ratios of one run.")
    parser.add_argument("--seconds", type=float, default=900.0, metavar="S", help="limit of each SM-II, default 900")
    limit = parser.parse_args().seconds
    print("| workload | basis | SM-II, s | excess | fitnoise, s | ratio | SM-II's excess then | fitnoise at its time |")
    print("|---" * 8 + "|")
    for name, w, c, tables in cases():
        compare(name, w, c, tables, limit)


if __name__ == "__main__":
    main()
