"""A primal–dual interior point on the dual problem: the second-order finish.

Over w = (p, q) > 0 the function φ(w) = Σw − 2 log ν(w) is convex (ν is a minimum of functions linear in w, so it is
concave) and, because ν is homogeneous of degree ½ in p and in q, its minimiser has Σp = Σq = 1 by itself: the dual
problem with bounds as its only constraints. Newton's method on ∇φ(w) = z, w∘z = τ, with τ falling tenfold once a
step is centred,

    (∇²φ + diag(z/w)) dw = τ/w − ∇φ,      dz = τ/w − z − (z/w)∘dw,

keeps every weight positive, where ν is smooth: a weight at zero can take the rank of C or N with it, and the slope of
ν is infinite there. The linear system is solved by conjugate gradients, preconditioned by its diagonal, from products
of the Hessian with vectors alone. Where the fixed point needs hundreds of evaluations because weights die out slowly,
this needs about twenty, and a hundred products.
"""

from __future__ import annotations

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.problems import FitForUse, Linearisation
from fitnoise.sectors import Floats
from fitnoise.solvers._base import Incumbent, Progress, Solution, Status

STEPS = 80
"""Newton steps allowed; twenty are usual."""
PRODUCTS = 300
"""Hessian–vector products per step."""
RESIDUAL = 1e-2
"""Relative accuracy of a step, in the preconditioner's norm; smaller ones cost products and save nothing."""
FALL = 0.1
"""Factor of τ after a centred step."""
NEAREST = 1e-3
"""Least share of all weights together that the start gives to its smallest weights."""
BORDER = 0.99
"""Part of the way to the border that a step may go."""
SHORTEST = 1e-6


def solve(
    problem: FitForUse,
    start: tuple[Floats, Floats],
    *,
    gap: float = 1e-8,
    max_steps: int = STEPS,
    progress: Progress | None = None,
) -> Solution:
    """Minimise Δ² under the targets from given weights, until upper/lower − 1 ≤ gap.

    Args:
        problem: the problem.
        start: (p, q), best within some tenths of the optimum.
        gap: relative gap at which to stop.
        max_steps: Newton steps allowed.
        progress: told the step and the gap so far.

    Returns:
        The best weights seen; CONVERGED exactly when `gap` was reached.

    Raises:
        PlanError: the start cannot be evaluated in floating point.
    """
    search = _Search(problem, start)
    status = Status.CONVERGED
    while search.best.gap > gap:
        if search.steps >= max_steps:
            status = Status.ITERATIONS
            break
        if not search.advance():
            status = Status.STALLED
            break
        if progress is not None:
            progress(search.steps, search.best.gap)
    return search.best.solution(problem.cells, search.steps, status)


class _Search:
    """Where the iteration stands: weights w, their slopes' slacks z, and the best bounds seen."""

    def __init__(self, problem: FitForUse, start: tuple[Floats, Floats]) -> None:
        self.problem = problem
        w = np.concatenate([x / x.sum() for x in start])
        w = np.maximum(w, NEAREST / len(w))
        at = _linearise(problem, w)
        if at is None:
            raise PlanError("the weights to start from cannot be evaluated in floating point. Nothing was planned.")
        self.steps = 0
        self.best = Incumbent()
        self._stand(w, at)
        tau = max(0.5 * self.best.gap / len(w), 1e-14)
        self.z = np.maximum(self.gradient, tau / w)

    def _stand(self, w: Floats, at: Linearisation) -> None:
        self.w, self.at = w, at
        self.gradient = 1 - at.slopes / at.value.nu
        n = self.problem.cells
        lower = at.value.lower / float(w[:n].sum() * w[n:].sum())  # ν is homogeneous of degree ½ in each
        self.best.see(w, at.value.upper, lower)

    def advance(self) -> bool:
        """One Newton step; False when none of it lowers the barrier function in floating point."""
        self.steps += 1
        w, z = self.w, self.z
        mean = float(w @ z) / len(w)
        centred = float(np.abs((self.gradient - z) * w).max()) <= mean
        tau = (FALL if centred else 1.0) * mean
        dw = self._newton(tau / w - self.gradient, z / w)
        dz = tau / w - z - z / w * dw
        length = _to_border(w, dw)
        before = _barrier(self.at, w, tau)
        slope = float((self.gradient - tau / w) @ dw)
        while length >= SHORTEST:
            trial = w + length * dw
            there = _linearise(self.problem, trial)
            if there is not None and _barrier(there, trial, tau) <= before + 1e-4 * length * slope + 1e-13:
                self._stand(trial, there)
                self.z = np.clip(z + _to_border(z, dz) * dz, 0.01 * tau / trial, 100 * tau / trial)
                return True
            length /= 2
        return False

    def _newton(self, right: Floats, shift: Floats) -> Floats:
        """Solve (∇²φ + diag(shift)) x = right by preconditioned conjugate gradients."""
        diagonal = self.at.diagonal() + shift
        x = np.zeros_like(right)
        r = right.copy()
        y = r / diagonal
        direction = y.copy()
        size = start = float(r @ y)
        for _ in range(PRODUCTS):
            if size <= RESIDUAL**2 * start:
                break
            image = self.at.hessian_times(direction) + shift * direction
            step = size / float(direction @ image)
            x += step * direction
            r -= step * image
            y = r / diagonal
            size, last = float(r @ y), size
            direction = y + size / last * direction
        return x


def _linearise(problem: FitForUse, w: Floats) -> Linearisation | None:
    try:
        at = problem.linearise(w[: problem.cells], w[problem.cells :])
    except np.linalg.LinAlgError:
        return None
    return at if at.value.finite and at.value.nu > 0 else None


def _barrier(at: Linearisation, w: Floats, tau: float) -> float:
    """φ(w) − τ Σ log w."""
    return float(w.sum() - 2 * np.log(at.value.nu) - tau * np.log(w).sum())


def _to_border(x: Floats, dx: Floats) -> float:
    """The longest part of a step, at most 1, that keeps x positive with room to spare."""
    ahead = dx < 0
    return min(1.0, BORDER * float((-x[ahead] / dx[ahead]).min())) if ahead.any() else 1.0
