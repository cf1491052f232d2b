"""What every solver takes and returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import final

from fitnoise.sectors import Floats

Progress = Callable[[int, float], None]
"""Called after each iteration with its number and the relative gap certified so far."""


class Status(StrEnum):
    """How a solve ended, as a sentence that says what to do."""

    CONVERGED = "the requested gap was reached"
    ITERATIONS = "stopped at the iteration limit; the plan is valid at the gap stated, more iterations may narrow it"
    STALLED = "no further progress in floating point; the plan is valid at the gap stated"


@final
@dataclass(frozen=True, eq=False)
class Solution:
    """Weights found by a solver, and what it believes of them (certificates are recomputed from the problem).

    primal: (p, q) whose covariance was cheapest. dual: (p, q) whose lower bound was highest.
    """

    primal: tuple[Floats, Floats]
    dual: tuple[Floats, Floats]
    upper: float
    lower: float
    iterations: int
    status: Status

    @property
    def gap(self) -> float:
        """Upper / lower − 1."""
        return self.upper / self.lower - 1
