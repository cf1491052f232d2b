"""A primal–dual interior point on the dual problem: the second-order finish.

**Statement** (letters as in :mod:`fitnoise.solving.problems`). Over w = (p, q) > 0 with Σp = 1, the function f(w) = (Σq
− a·p − 2ν(w)) / u is convex. ν is concave as a minimum of linear functions. u scales f to size 1: the bound at the
start, at least 1/1000 of the value there. The method is Newton's on ∇f(w) = z + κ 1_p, w∘z = τ. Once a step is centred,
τ falls tenfold, and further for pairs of records:

    (∇²f + diag(z/w)) dw = τ/w − ∇f + κ 1_p,   Σdp = 0,      dz = τ/w − z − (z/w)∘dw.

It keeps every weight positive, where ν is smooth. A weight at zero can take the rank of C or N with it, and the slope
of ν is infinite there.

**Method.** Conjugate gradients solve the linear system within Σdp = 0, from products of the Hessian with vectors alone.
The preconditioner is the Hessian's diagonal; for pairs of records, it joins the kinds of equal cells. The fixed point
needs hundreds of evaluations if weights fade slowly. This method then needs about a dozen, and a hundred products.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.solving._base import Incumbent, Progress, Solution, Status, Weights, attempt
from fitnoise.solving.problems import Linearisation, Problem

STEPS = 80
"""The largest number of Newton steps; a dozen are usual."""

PRODUCTS = 300
"""The largest number of Hessian–vector products per step."""

RESIDUAL = 1e-2
"""The relative accuracy of a step, in the preconditioner's norm; smaller ones cost products and save nothing."""

PAIRS_STEP_TOLERANCE = 1e-1
"""The relative accuracy of a step for pairs of records, where products take most of the time."""

TAU_FACTOR = 0.1
"""The factor of τ after a centred step."""

TAU_FACTOR_PAIRS = 0.03
"""The factor of τ after a centred step for pairs."""

CENTRING_FACTOR = 3.0
"""The bound of a centred step, in multiples of the mean of w∘z: the mean over all weights of |slope − slack| · weight.
A bound on the worst weight would make a third of all steps only centre. The error that conjugate gradients leave in a
step exceeds τ at some of many weights."""

MIN_START_WEIGHT = 1e-3
"""Twice the part of the mean weight, of p and of q each, to which the start raises its smallest weights."""

MAX_STEP_FRACTION = 0.99
"""The share of the way to the border that a step can go."""

SHORTEST = 1e-6
"""The shortest part of a step that is tried."""

PRECONDITIONER_SHIFT = 1e-9
"""The relative amount that keeps a block of the preconditioner from being singular."""


def solve(
    problem: Problem,
    start: Weights,
    *,
    gap: float = 1e-8,
    max_steps: int = STEPS,
    progress: Progress | None = None,
) -> Solution:
    """Minimise the problem from given weights, until upper/lower − 1 ≤ gap.

    Args:
        problem: The problem.
        start: (p, q), best within some tenths of the optimum.
        gap: The relative gap at which the function stops.
        max_steps: The largest number of Newton steps.
        progress: The function called with the step and the gap so far.

    Returns:
        The best weights seen. Their status is CONVERGED exactly if `gap` was reached.

    Raises:
        PlanError: The start cannot be evaluated in floating point.
    """
    search = InteriorPointSearch(problem, start)
    status = search.run(gap, max_steps, progress)
    return search.best.solution(problem.cells, search.steps, status)


class InteriorPointSearch:
    """The state of the iteration: weights w, their slopes' slacks z, and the best bounds seen."""

    def __init__(self, problem: Problem, start: Weights) -> None:
        self.problem = problem
        p, q = (np.maximum(x, MIN_START_WEIGHT / x.size * x.sum() / 2) for x in start)
        p = p / p.sum()
        evaluation = attempt(problem, np.concatenate([p, q]))
        if evaluation is not None:
            # Costs and variances change with the roots of q, so the best scale of q is known.
            q = q * problem.natural(q, evaluation.value)[0]
            evaluation = attempt(problem, np.concatenate([p, q]))
        if evaluation is None:
            raise PlanError(
                "starting-weights-not-finite",
                "The weights at the start cannot be evaluated in floating point.",
                "Targets and queries must be of comparable size.",
                "Bring the targets or the queries closer together in size.",
                "Nothing was planned.",
            )
        self.steps = 0
        self.best = Incumbent()
        self.unit = max(evaluation.value.lower, 1e-3 * evaluation.value.upper)
        w = np.concatenate([p, q])
        # z needs the gradient, and the gradient needs z for κ: the first pass takes z = 0.
        self.z = np.zeros_like(w)
        self._stand(w, evaluation)
        # With w∘z = τ, the gap is about the number of weights times τ.
        tau = max(0.5 * min(self.best.gap, 10.0) / len(w), 1e-14)
        self.z = np.maximum(self.gradient, tau / w)
        self._stand(w, evaluation)

    def run(self, gap: float, max_steps: int, progress: Progress | None = None) -> Status:
        """Go on until the gap, the limit or the end of floating point."""
        while self.best.gap > gap:
            if self.steps >= max_steps:
                return Status.ITERATIONS
            if not self.advance():
                return Status.STALLED
            if progress is not None:
                progress(self.steps, self.best.gap)
        return Status.CONVERGED

    def _stand(self, w: Floats, linearisation: Linearisation) -> None:
        self.w, self.evaluation = w, linearisation
        n, v = self.problem.cells, linearisation.value
        rise = (self.problem.offsets + v.profile) / self.unit
        level = float(w[:n] @ (rise + self.z[:n]))  # κ: what z would be complementary to
        self.gradient = np.concatenate([level - rise, (1 - v.ratios) / self.unit])
        self.best.update(w, v.upper, v.lower)

    def advance(self) -> bool:
        """Take one Newton step. Return False if no part of it lowers the barrier function in floating point."""
        self.steps += 1
        w, z = self.w, self.z
        mean = float(w @ z) / len(w)
        centred = float(np.abs((self.gradient - z) * w).mean()) <= CENTRING_FACTOR * mean
        fall = TAU_FACTOR_PAIRS if self.problem.pairs else TAU_FACTOR
        tau = (fall if centred else 1.0) * mean
        dw = self._newton(tau / w - self.gradient, z / w)
        dz = tau / w - z - z / w * dw
        length = _to_border(w, dw)
        before = self._barrier(self.evaluation, w, tau)
        slope = float((self.gradient - tau / w) @ dw)
        while length >= SHORTEST:
            trial = w + length * dw
            # Conjugate gradients keep Σdp = 0 up to rounding only.
            trial[: self.problem.cells] /= trial[: self.problem.cells].sum()
            there = attempt(self.problem, trial)
            # Near the optimum f falls by less than its rounding, which 1e-13 allows for.
            if there is not None and self._barrier(there, trial, tau) <= before + 1e-4 * length * slope + 1e-13:
                # The clip keeps w∘z within a factor 100 of τ; otherwise z drifts when dw was cut short.
                self.z = np.clip(z + _to_border(z, dz) * dz, 0.01 * tau / trial, 100 * tau / trial)
                self._stand(trial, there)
                return True
            length /= 2
        return False

    def _newton(self, right: Floats, shift: Floats) -> Floats:
        """Solve (∇²f + diag(shift)) x = right + κ 1_p within Σx_p = 0 by preconditioned conjugate gradients."""
        n = self.problem.cells
        among = self.evaluation.among_patterns()
        approximate = self._approximate_inverse(shift, among)
        enough = RESIDUAL if among is None else PAIRS_STEP_TOLERANCE
        inverse = approximate(np.concatenate([np.ones(n), np.zeros(len(right) - n)]))[:n]
        inverse_sum = float(inverse.sum())

        def precondition(r: Floats) -> Floats:
            y = approximate(r)
            # This projection, in the metric of the preconditioner, keeps every direction within Σdp = 0.
            y[:n] -= inverse * (float(y[:n].sum()) / inverse_sum)
            return y

        x = np.zeros_like(right)
        r = right.copy()
        y = precondition(r)
        direction = y.copy()
        size = start = float(r @ y)
        for _ in range(PRODUCTS):
            if size <= enough**2 * start:
                break
            image = self.evaluation.hessian_times(direction) / self.unit + shift * direction
            step = size / float(direction @ image)
            x += step * direction
            r -= step * image
            y = precondition(r)
            size, last = float(r @ y), size
            direction = y + size / last * direction
        return x

    def _approximate_inverse(self, shift: Floats, among: Floats | None) -> Callable[[Floats], Floats]:
        """Return the inverse of an approximation of ∇²f + diag(shift).

        The approximation is its diagonal, with kinds of one pair of cells together.
        """
        diagonal = self.evaluation.diagonal() / self.unit + shift
        if among is None:
            return lambda r: np.asarray(r / diagonal)
        patterns = among.shape[1]
        size, index = among.shape[0] * patterns, np.arange(patterns)
        among = among / self.unit
        among[:, index, index] = (
            among[:, index, index] * (1 + PRECONDITIONER_SHIFT) + shift[:size].reshape(patterns, -1).T
        )
        inverse = np.linalg.inv(among)

        def apply(r: Floats) -> Floats:
            y = np.asarray(r / diagonal)
            here = r[:size].reshape(patterns, -1).T[:, :, None]
            y[:size] = (inverse @ here)[:, :, 0].T.ravel()
            return y

        return apply

    def _barrier(self, linearisation: Linearisation, w: Floats, tau: float) -> float:
        """Return f(w) − τ Σ log w."""
        n = self.problem.cells
        f = float(w[n:].sum()) - float(self.problem.offsets @ w[:n]) - 2 * linearisation.value.nu
        return f / self.unit - tau * float(np.log(w).sum())


def _to_border(x: Floats, dx: Floats) -> float:
    """Return the longest part of a step, at most 1, that keeps x positive with room to spare."""
    ahead = dx < 0
    return min(1.0, MAX_STEP_FRACTION * float((-x[ahead] / dx[ahead]).min())) if ahead.any() else 1.0
