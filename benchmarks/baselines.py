"""Costs of other mechanisms at the same accuracy: the baselines of the fit-for-use paper, and its general methods.

Run: python benchmarks/baselines.py (it needs cvxpy and clarabel, which are for development only).

The baselines themselves are those of `fitnoise.baselines`. This file has their table, and two methods that ignore the
structure of the paper's problem: a semidefinite program, and gradient descent.

Source: Xiao, Ding, Wang, Zhang, Kifer: Optimizing fitness-for-use of differentially private linear queries, PVLDB
14(10), 2021, section 7.
"""

import math
from dataclasses import dataclass

import numpy as np

import fitnoise as fn
from fitnoise_lab import gallery
from fitnoise_lab.baselines import BASELINES, Mechanism, of_covariance


def targets(w, c):
    """The workload as doubles, and its targets as (m,)."""
    return np.asarray(w, dtype=float), np.broadcast_to(np.asarray(c, dtype=float), (len(w),))


# --- fit for use, by general methods ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Descent:
    """The end of a descent: the mechanism, the gradient steps taken, and True if its own criterion stopped it."""

    mechanism: Mechanism
    steps: int
    converged: bool


def soft_max(w, c, basis, covariance, t):
    """F(Σ) = sm_t(prof) + sm_t(var/c) with sm_t(a) = log(Σ exp(t a))/t, and its gradient (problem 4, equation 13)."""
    lift = w @ np.linalg.pinv(basis)
    try:
        np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return math.inf, covariance
    solved = np.linalg.solve(covariance, basis)
    cells, p = _soft((basis * solved).sum(axis=0), t)
    numbers, q = _soft(((lift @ covariance) * lift).sum(axis=1) / c, t)
    return cells + numbers, (lift.T * (q / c)) @ lift - (solved * p) @ solved.T


def _soft(a, t):
    """sm_t(a), and its gradient: weights that sum to 1."""
    e = np.exp(t * (a - a.max()))
    return a.max() + math.log(e.sum()) / t, e / e.sum()


def gradient_descent(w, c, *, basis=None, factor=2.0, slope_tolerance=1e-3, tolerance=1e-2, max_steps=20_000):
    """GD: problem 4 by Algorithm 1 of the paper, with the negative gradient for its Newton direction (section 7.1.2).

    It starts from input perturbation at t = 1. A step tries 1, ½, ¼, … times −∇F until F falls by 1 % of what the slope
    promises (Algorithm 3). Where ‖∇F‖² < `slope_tolerance` it ends if (d + m)/t < `tolerance`, and goes on with
    `factor` times t otherwise. The paper does not print its tolerances.

    basis: B, of full row rank, spanning the workload; None takes I. The path depends on it.
    """
    w, c = targets(w, c)
    basis = np.eye(w.shape[1]) if basis is None else np.asarray(basis, dtype=float)
    covariance, t, steps = basis @ basis.T, 1.0, 0
    lift = w @ np.linalg.pinv(basis)
    covariance *= 0.99 / (((lift @ covariance) * lift).sum(axis=1) / c).max()
    value, gradient = soft_max(w, c, basis, covariance, t)
    while True:
        slope = float((gradient**2).sum())
        if slope < slope_tolerance:
            if sum(w.shape) / t < tolerance:
                return Descent(of_covariance(w, c, basis, covariance), steps, converged=True)
            t *= factor
            value, gradient = soft_max(w, c, basis, covariance, t)
            continue
        size, enough = 1.0, False
        while not enough and size > 1e-12:
            there = covariance - size * gradient
            candidate = soft_max(w, c, basis, there, t)
            enough = candidate[0] <= value - 0.01 * size * slope
            size /= 2
        if not enough or steps == max_steps:
            return Descent(of_covariance(w, c, basis, covariance), steps, converged=False)
        covariance, (value, gradient) = there, candidate
        steps += 1


def interior_point(w, c):
    """Solve problem 1 as one semidefinite program by Clarabel (IPM, section 7.1.1).

    The program minimises max_i b_iᵀ X b_i for an orthonormal basis B of the rows of W. Its constraints are
    l_jᵀ Σ l_j ≤ c_j and [[X, I], [I, Σ]] ⪰ 0, that is Σ ⪰ X⁻¹.
    The mechanism is that of X⁻¹, scaled. Needs cvxpy and clarabel.
    """
    import cvxpy as cp

    w, c = targets(w, c)
    rank = np.linalg.matrix_rank(w)
    basis = np.linalg.svd(w)[2][:rank]
    lift = (w / np.sqrt(c)[:, None]) @ basis.T
    both, level, eye = cp.Variable((2 * rank, 2 * rank), PSD=True), cp.Variable(), np.eye(rank)
    precision, covariance = both[:rank, :rank], both[rank:, rank:]
    constraints = [
        both[:rank, rank:] == eye,
        cp.sum(cp.multiply(precision @ basis, basis), axis=0) <= level,
        cp.sum(cp.multiply(lift @ covariance, lift), axis=1) <= 1,
    ]
    cp.Problem(cp.Minimize(level), constraints).solve(solver="CLARABEL")
    return of_covariance(w, c, basis, np.linalg.inv(precision.value))


# --- the table -------------------------------------------------------------------------------------------------


def cases():
    """Name, workload and targets: the paper's, at sizes that take seconds."""
    rng = np.random.default_rng
    ranges = gallery.random_ranges(64, 128, rng(0))
    signs = gallery.random_signs(64, 128, rng(0))
    fair = gallery.random_signs(64, 128, rng(0), heads=0.5)
    return [
        ("prefix 64", gallery.prefix(64), 1.0),
        ("identity and sum 64", gallery.identity_and_sum(64), 1.0),
        ("PL94", gallery.pl94(), 1.0),
        ("ranges 64", ranges, 1.0),
        ("ranges 64, targets U(1, 10)", ranges, gallery.random_targets(128, rng(7))),
        ("signs 64", signs, 1.0),
        ("signs 64, targets U(1, 10)", signs, gallery.random_targets(128, rng(7))),
        ("fair signs 64", fair, 1.0),
        ("fair signs 64, targets U{1 … 10}", fair, gallery.random_targets(128, rng(7), is_integer=True)),
        ("age pyramids", gallery.age_pyramids(), 1.0),
        ("marginals 4³", gallery.marginals((4, 4, 4)), 1.0),
        ("WRelated 64", gallery.wrelated(64, 32, 32, rng(0)), 1.0),
    ]


def main():
    print("Δ² of the certified optimum, and the Δ² of each baseline as a multiple of the optimum.\n")
    print("| workload | optimum | " + " | ".join(BASELINES) + " |")
    print("|---" * (len(BASELINES) + 2) + "|")
    for name, w, c in cases():
        best = float(fn.plan(fn.matrix_workload(w, variances=c)).table_part.exact_cost)
        ratios = [f"{make(w, c).cost / best:.3f}" for make in BASELINES.values()]
        print(f"| {name} | {best:.6f} | " + " | ".join(ratios) + " |", flush=True)
    print("\nPrefixes by general methods: Δ², and how far above the certified bound.\n")
    print("| cells | bound | interior point | | gradient descent | | steps |")
    print("|---" * 7 + "|")
    for n in (2, 4, 8, 16):
        w = gallery.prefix(n)
        bound = fn.plan(fn.matrix_workload(w, variances=1), gap=1e-9).bound
        conic, descent = interior_point(w, 1.0).cost, gradient_descent(w, 1.0)
        descent_cost = descent.mechanism.cost
        ended = f"{descent.steps:,}" + ("" if descent.converged else ", not converged")
        above = [f"{x:.6f} | {x / bound - 1:.1e}" for x in (conic, descent_cost)]
        print(f"| {n} | {bound:.6f} | {' | '.join(above)} | {ended} |")


if __name__ == "__main__":
    main()
