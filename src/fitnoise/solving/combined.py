"""The solver plans use: the fixed point to come near, the interior point to finish, the fixed point again if it must.

The fixed point is cheap and cannot fail far from the optimum, where Newton steps are cut short; the interior point is
quick near it, where weights die out slowly.
"""

from __future__ import annotations

from dataclasses import replace

from fitnoise.solving import geometric_mean, interior_point
from fitnoise.solving._base import Progress, Solution, Status, Weights
from fitnoise.solving.problems import Problem

PLAIN = 14
"""Evaluations the fixed point may take first: more come no nearer than as many seconds of Newton steps."""


def solve(
    problem: Problem,
    *,
    start: Weights | None = None,
    gap: float = 1e-6,
    max_iterations: int = 2000,
    progress: Progress | None = None,
) -> Solution:
    """Minimise the problem until upper/lower − 1 ≤ gap.

    Args:
        problem: the problem.
        start: (p, q) of a problem like it; equal weights when not given.
        gap: relative gap at which to stop.
        max_iterations: evaluations and Newton steps allowed together.
        progress: told the iteration and the gap so far.

    Returns:
        The best weights seen by any of them; CONVERGED exactly when `gap` was reached.

    Raises:
        PlanError: the problem cannot be evaluated in floating point at all.
    """
    found = geometric_mean.solve(
        problem, start=start, gap=gap, max_iterations=min(PLAIN, max_iterations), progress=progress
    )
    left = max_iterations - found.iterations
    if found.gap > gap and left > 0:
        steps = min(interior_point.STEPS, left)
        found = _best(
            found, interior_point.solve(problem, found.dual, gap=gap, max_steps=steps, progress=progress), gap
        )
        left = max_iterations - found.iterations
    if found.gap > gap and left > 0:
        found = _best(found, geometric_mean.solve(problem, gap=gap, max_iterations=left, progress=progress), gap)
    return found


def _best(a: Solution, b: Solution, gap: float) -> Solution:
    """The better weights of two solutions, for each side; the status of the later one unless the gap is reached."""
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
