"""The fixed point of matrix geometric means, with guarded Anderson acceleration.

**Method** (letters as in :mod:`fitnoise.solving.problems`). The plain step is p_i ← p_i ((a_i + prof_i)/mean)^θ,
renormalised, and q_j ← q_j (var_j)^θ. Costs and variances are taken at the best scale of q. With θ = 1 and without
offsets it is a minorise–maximise step (ν never falls). θ = 1.9 is about twice as fast. Anderson acceleration works on
the weights themselves. On their logarithms, inactive weights run to −∞ and drag the extrapolation with them.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.solving._base import Incumbent, Progress, Solution, Status, Weights, attempt
from fitnoise.solving.problems import Evaluation, Problem

THETA = 1.9

MEMORY = 20
"""The number of Anderson differences kept; 10 is similar, 40 fails now and then."""

WARM_UP = 6
"""The number of plain steps before the first extrapolation."""

CLIP = (0.3, 3.0)
"""The multiples of the plain step between which an extrapolated weight stays; wider clips fail on hard cases."""

FLOORS = (1e-9, 1e-12, 1e-7, 1e-14)
"""The least share of a weight. The first is right most often; about one problem in fifty stalls and needs another."""

MAX_STALLED_ITERATIONS = 60
"""The evaluations without a fall of the gap by a fifth after which the floor changes."""


class Memory:
    """The differences of the last steps, for Anderson's extrapolation."""

    def __init__(self) -> None:
        self.steps: deque[Floats] = deque(maxlen=MEMORY + 1)
        self.points: deque[Floats] = deque(maxlen=MEMORY + 1)

    def clear(self) -> None:
        """Forget the last steps."""
        self.steps.clear()
        self.points.clear()

    def extrapolate(self, current: Floats, image: Floats) -> Floats | None:
        """Add this step, and return the combination of steps with the least residual, between `CLIP` times the image.

        None while there are fewer than 3 steps, and if the combination is not finite.
        """
        self.steps.append(image - current)
        self.points.append(image)
        if len(self.steps) < 3:
            return None
        df = np.diff(np.stack(self.steps, axis=1), axis=1)
        dg = np.diff(np.stack(self.points, axis=1), axis=1)
        # Steps become nearly parallel close to the optimum; the cutoff drops the directions that rounding made.
        gamma = np.linalg.lstsq(df, self.steps[-1], rcond=1e-8)[0]
        y = image - dg @ gamma
        return np.clip(y, CLIP[0] * image, CLIP[1] * image) if np.isfinite(y).all() else None


class _FixedPointSearch:
    """The state of the iteration: the current weights, the best seen, and the floor in force."""

    def __init__(self, problem: Problem, start: Weights | None) -> None:
        self.problem = problem
        self.scaled = problem.trade is None  # then only the shape of q matters, and its sum is kept at 1
        n, m = problem.cells, problem.constraints
        self.floors = list(FLOORS)
        if start is None:
            self.weights = np.concatenate([np.full(n, 1 / n), np.full(m, 1 / m if self.scaled else problem.trade_size)])
        else:
            self.weights = self._normalise(np.concatenate(start))
        evaluation = attempt(problem, self.weights)
        if evaluation is None:
            raise PlanError(
                "start-weights-not-finite",
                "The problem cannot be evaluated in floating point at the weights from which the search starts.",
                "Targets and queries must be of comparable size.",
                "Bring the targets or the queries closer together in size.",
                "Nothing was planned.",
            )
        self.best = Incumbent()
        self._accept(self.weights, evaluation.value)
        self.evaluations = 1
        self.memory = Memory()
        self.mark = (1, self.best.gap)

    def _normalise(self, w: Floats) -> Floats:
        n, floor = self.problem.cells, self.floors[0]
        p, q = w[:n] / w[:n].sum(), w[n:]
        p = np.maximum(p, floor)
        if self.scaled:
            q = np.maximum(q / q.sum(), floor)
            q = q / q.sum()
        else:
            q = np.maximum(q, floor * self.problem.trade_size)
        return np.concatenate([p / p.sum(), q])

    def _image(self) -> Floats:
        n, w = self.problem.cells, self.weights
        slopes = self.problem.natural(w[n:], self.value)[1]
        # At the optimum these multiples of the mean are 1 wherever p > 0.
        slopes[:n] /= float(w[:n] @ slopes[:n])
        return self._normalise(w * np.maximum(slopes, 1e-6) ** THETA)

    def _accept(self, weights: Floats, value: Evaluation) -> None:
        self.weights, self.value = weights, value
        self.best.update(weights, value.upper, value.lower)

    def advance(self) -> bool:
        """Take the extrapolated step unless the bound falls, else the plain one. Return False if neither works."""
        image = self._image()
        jump = self.memory.extrapolate(self.weights, image) if self.evaluations >= WARM_UP else None
        if jump is not None:
            jump = self._normalise(jump)
            trial = attempt(self.problem, jump)
            self.evaluations += 1
            # An extrapolated step may overshoot. The bound never falls at a plain step with θ = 1, so a fall rejects
            # the jump.
            if trial is not None and trial.value.lower >= self.value.lower - 1e-12 * abs(self.value.lower):
                self._accept(jump, trial.value)
                return True
            self.memory.clear()
        step = attempt(self.problem, image)
        self.evaluations += 1
        if step is None:
            return False
        self._accept(image, step.value)
        return True

    def stuck(self) -> bool:
        """Change the floor of weights if the gap has not fallen by a fifth for a while. Go on from the best weights.

        The function returns True only if no floor is left.
        """
        if self.best.gap < 0.8 * self.mark[1]:
            self.mark = (self.evaluations, self.best.gap)
        elif self.evaluations - self.mark[0] > MAX_STALLED_ITERATIONS:
            self.floors.pop(0)
            if not self.floors:
                return True
            self.mark = (self.evaluations, self.best.gap)
            self.memory.clear()
            evaluation = attempt(self.problem, self.best.dual)
            if evaluation is not None:
                self.weights, self.value = self.best.dual, evaluation.value
        return False


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
        problem: The problem.
        start: The weights (p, q) to start from; None for equal weights.
        gap: The relative gap at which the function stops.
        max_iterations: The limit of evaluations, which the last step can exceed by one; each costs one SVD per sector
            of rank > 1.
        progress: The function called with the number of evaluations and the gap so far.

    Returns:
        The best weights seen. Their status is CONVERGED exactly if `gap` was reached.

    Raises:
        PlanError: The problem cannot be evaluated at the start in floating point.
    """
    search = _FixedPointSearch(problem, start)
    status = Status.CONVERGED
    while search.best.gap > gap:
        if search.evaluations >= max_iterations:
            status = Status.ITERATIONS
            break
        if not search.advance() or search.stuck():
            status = Status.CONVERGED if search.best.gap <= gap else Status.STALLED
            break
        if progress is not None:
            progress(search.evaluations, search.best.gap)
    return search.best.solution(problem.cells, search.evaluations, status)
