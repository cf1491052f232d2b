"""The input and the output of every solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import final

import numpy as np

from fitnoise.kernel.arrays import Floats
from fitnoise.solving.problems import Linearisation, Problem

Weights = tuple[Floats, Floats]
"""The weights (p, q) of the cells, summing to 1, and of the constraints."""

Progress = Callable[[int, float], None]
"""A function called after each step of a search, with its number and the relative gap of that search so far."""


class Status(StrEnum):
    """The reason why a solve ended, as the id of its sentence."""

    CONVERGED = "report.status.converged"
    ITERATIONS = "report.status.iterations"
    STALLED = "report.status.stalled"


@final
@dataclass(frozen=True, eq=False)
class Solution:
    """Weights found by a solver, and the bounds that it computed (certificates are recomputed from the problem).

    primal: Weights (p, q) of cells and constraints, with the covariance of lowest cost.
    dual: Such weights with the highest lower bound.
    upper: The cost of `primal`, as the solver computed it.
    lower: The bound of `dual`, as the solver computed it.
    iterations: The number of steps.
    status: The reason why the solver stopped.
    """

    primal: Weights
    dual: Weights
    upper: float
    lower: float
    iterations: int
    status: Status

    @property
    def gap(self) -> float:
        """The relative gap, upper / lower − 1."""
        return relative_gap(self.upper, self.lower)

    def raised(self, upper: float, status: Status) -> Solution:
        """Return this solution with a larger upper bound, and the status that explains it."""
        return replace(self, upper=upper, status=status)


def relative_gap(upper: float, lower: float) -> float:
    """Return upper/lower − 1; infinite while nothing is proven."""
    return upper / lower - 1 if lower > 0 else math.inf


def attempt(problem: Problem, w: Floats) -> Linearisation | None:
    """Return the problem at w = (p, q); None if it cannot be evaluated in floating point."""
    try:
        point = problem.linearise(w[: problem.cells], w[problem.cells :])
    # A step too far makes a Gram matrix singular in floating point; the caller then takes another one.
    except np.linalg.LinAlgError:
        return None
    return point if point.value.finite else None


class Incumbent:
    """The best bounds of a search, and their weights w = (p, q)."""

    def __init__(self) -> None:
        self.upper, self.lower = math.inf, 0.0
        self.primal = self.dual = np.zeros(0)

    def update(self, w: Floats, upper: float, lower: float) -> None:
        """Keep the weights if they are better than the best so far, for each side."""
        if upper < self.upper:
            self.upper, self.primal = upper, w
        if lower > self.lower:
            self.lower, self.dual = lower, w

    @property
    def gap(self) -> float:
        """The best upper over the best lower bound, less one."""
        return relative_gap(self.upper, self.lower)

    def solution(self, cells: int, iterations: int, status: Status) -> Solution:
        """Return the solution of a solver; the first `cells` weights are p."""
        return Solution(
            primal=(self.primal[:cells], self.primal[cells:]),
            dual=(self.dual[:cells], self.dual[cells:]),
            upper=self.upper,
            lower=self.lower,
            iterations=iterations,
            status=status,
        )
