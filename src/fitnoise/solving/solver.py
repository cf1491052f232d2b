"""The solver of plans: the fixed point to come near, the interior point to finish, the fixed point again if needed.

A fixed-point step has low cost and cannot fail far from the optimum, where Newton steps are cut short. The interior
point is quick near the optimum, where weights fade slowly.
"""

from __future__ import annotations

from dataclasses import replace

from fitnoise.solving import geometric_mean, interior_point
from fitnoise.solving._base import Progress, Solution, Status, Weights
from fitnoise.solving.problems import Problem

FIXED_POINT_EVALUATIONS = 14
"""The evaluations of the fixed point at the start. More come no nearer than Newton steps of equal duration."""


def solve(
    problem: Problem,
    *,
    start: Weights | None = None,
    gap: float = 1e-6,
    max_iterations: int = 2000,
    progress: Progress | None = None,
) -> Solution:
    """Minimise the problem until the bounds on the optimum meet upper/lower − 1 ≤ gap, or the iterations are used up.

    Args:
        problem: The problem.
        start: The weights (p, q) of a similar problem; None for equal weights.
        gap: The relative gap at which the function stops.
        max_iterations: The limit of evaluations of the fixed point plus Newton steps; each search of the fixed point
            can exceed it by one.
        progress: The function called by each search with its own iteration and gap.

    Returns:
        The best bounds of up to three searches: fixed point, interior point, fixed point. Each bound has its own
        weights. The status is CONVERGED exactly if `gap` was reached.

    Raises:
        PlanError: The problem cannot be evaluated at the start in floating point.
    """
    best = geometric_mean.solve(
        problem, start=start, gap=gap, max_iterations=min(FIXED_POINT_EVALUATIONS, max_iterations), progress=progress
    )
    remaining = max_iterations - best.iterations
    if best.gap > gap and remaining > 0:
        steps = min(interior_point.STEPS, remaining)
        best = _best(best, interior_point.solve(problem, best.dual, gap=gap, max_steps=steps, progress=progress), gap)
        remaining = max_iterations - best.iterations
    if best.gap > gap and remaining > 0:
        best = _best(best, geometric_mean.solve(problem, gap=gap, max_iterations=remaining, progress=progress), gap)
    return best


def _best(a: Solution, b: Solution, gap: float) -> Solution:
    """Return the better weights of two solutions for each side; the status is the later one's unless the gap is met."""
    primal, dual = (a if a.upper <= b.upper else b), (a if a.lower >= b.lower else b)
    both = replace(
        b,
        primal=primal.primal,
        upper=primal.upper,
        dual=dual.dual,
        lower=dual.lower,
        iterations=a.iterations + b.iterations,
    )
    return replace(both, status=Status.CONVERGED) if both.gap <= gap else both
