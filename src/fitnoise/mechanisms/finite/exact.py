"""Proven rounding: powers in integers, and linear systems in floats with a bound on the error.

**Trust.** A mistake here costs no privacy: each mechanism proves its charge from its own integers. The solutions of
Φ x = b, with a proven bound on their error, determine the existence of mechanisms and statements on accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.designs.graphs import QueryGraph
from fitnoise.kernel.exact_powers import ALPHA_POWER_BITS, DENSE_LIMIT, Graph, falling

_UNIT = 2.0**-53

_SMALL, _HELD = 1024, 2**21
"""Most results for which a graph keeps all its distances; number of distances that are computed at once above it."""


def powers(alpha: Fraction, count: int, bits: int = ALPHA_POWER_BITS) -> list[int]:
    """Return the first `count` of :func:`fitnoise.kernel.exact_powers.falling`."""
    return list(islice(falling(alpha, bits), count))


# --- Floats -----------------------------------------------------------------------------------------------


def hops(graph: Graph, limit: int = DENSE_LIMIT) -> Integers:
    """Return the steps between results, (n, n); n, more than any distance, for results that are not connected.

    Raises:
        PlanError: The graph has more than `limit` results.
    """
    if graph.n > limit:
        raise PlanError(
            "too-many-results-for-matrix",
            f"The question has {graph.n} results.",
            f"A matrix with a number for every pair of results is made for at most {limit}.",
            "Choose a coarser question, or a mechanism that needs no matrix.",
            "No mechanism was made.",
        )
    n = graph.n
    steps = np.full((n, n), n, dtype=np.int16 if n < 2**15 else np.int64)
    # Small graphs cache their distances.
    rows = graph.distances_from if isinstance(graph, QueryGraph) and n > _SMALL else None
    at_once = n if rows is None else max(1, _HELD // n)
    for start in range(0, n, at_once):
        stop = min(start + at_once, n)
        d = graph.distances() if rows is None else rows(np.arange(start, stop))
        # n stays where the distance is infinite, which no integer can be.
        np.copyto(steps[start:stop], d, casting="unsafe", where=np.isfinite(d))
    return steps


def kernel(steps: Integers, epsilon: Fraction) -> Floats:
    """Return Φ_ij = e^(−ε d(i, j)), (n, n), each within a part of `kernel_error`; 0 between components."""
    phi = np.exp(-float(epsilon) * steps)
    return np.where(steps < len(steps), phi, 0.0)


def kernel_error(steps: Integers, epsilon: Fraction) -> float:
    """Return the relative error of an entry of `kernel`, from ε, the product, and the exponential, taken as 4 ulp."""
    longest = int(steps[steps < len(steps)].max(initial=0))
    return 4 * _UNIT * (longest * float(epsilon) + 4)


@final
@dataclass(frozen=True, eq=False)
class ExactSolution:
    """A solution of a linear system, with a bound on its error.

    Attributes:
        x: The computed solution, (n,).
        error: (n,): the solution is unique and within this of x; ∞ everywhere if the matrix might be singular.
    """

    x: Floats
    error: Floats

    @property
    def proven(self) -> bool | None:
        """True or False with proof that the solution has no entry below 0, or has one; None if rounding hides it."""
        if (self.x - self.error >= 0).all():
            return True
        return False if (self.x + self.error < 0).any() else None


def solve(matrix: Floats, right: Floats, relative: float) -> ExactSolution:
    """Solve A x = b, with A and b known to a relative error in every entry.

    With R an approximate inverse and E = I − R A, a solution x* has x* − x = R (b − A x) + E (x* − x). If the largest
    row sum of |E| is below 1, A is regular. Then |x* − x| ≤ |R| |b − A x| + |E| 1 · max|x* − x| bounds the error. The
    right side is computed, with the rounding of its own sums added.

    **Guarantees**

    - If `error` is finite, every matrix and right-hand side within the relative error has exactly one solution, and
      that solution is within `error` of x. This rests on the rounding of IEEE 754 sums, in any order.
    """
    n = len(right)
    infinite = ExactSolution(np.zeros(n), np.full(n, np.inf))
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return infinite
    x = inverse @ right
    with np.errstate(over="ignore", invalid="ignore"):
        # One step of refinement: the residual enters the error bound.
        x = x + inverse @ (right - matrix @ x)
        slack = 1 + 8 * (n + 4) * _UNIT
        # The error of a sum of products, relative to the sum of their sizes.
        loss = relative + 2 * (n + 4) * _UNIT
        size, inverse_size = np.abs(matrix), np.abs(inverse)
        norm = np.abs(np.eye(n) - inverse @ matrix).sum(axis=1) + loss * (inverse_size @ size.sum(axis=1)) + n * _UNIT
        rest = np.abs(right - matrix @ x) + loss * (np.abs(right) + size @ np.abs(x))
        correction = inverse_size @ rest
        norm, correction = norm * slack, correction * slack
        # Written so that NaN is refused, too, as a number may have overflowed.
        if not norm.max() < 0.5:
            return infinite
        error = (correction + norm * (correction.max() / (1 - norm.max()))) * slack
    return ExactSolution(x, error + np.finfo(np.float64).tiny)
