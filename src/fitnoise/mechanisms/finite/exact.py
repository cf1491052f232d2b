"""Proven roundings: exponentials and logarithms in integers, linear systems in floats with a bound on the error.

What is charged for a release rests on the first half: rationals with e^ε between them, in integer arithmetic alone.
What is said about accuracy rests on the second half: a solution of Φ x = b, and a proof of how far off it can be.
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
from fitnoise.kernel.exact import BITS, DENSE_LIMIT, Graph, falling

_UNIT = 2.0**-53

_SMALL, _HELD = 1024, 2**21
"""Results up to which a graph keeps all its distances; beyond, so many are computed at a time."""


def powers(alpha: Fraction, count: int, bits: int = BITS) -> list[int]:
    """The first `count` of :func:`fitnoise.kernel.exact.falling`."""
    return list(islice(falling(alpha, bits), count))


# --- Floats -----------------------------------------------------------------------------------------------


def hops(graph: Graph, limit: int = DENSE_LIMIT) -> Integers:
    """Steps between results, (n, n); n, more than any, where there is no way.

    Raises:
        PlanError: the graph has more than `limit` results.
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
    rows = graph.distances_from if isinstance(graph, QueryGraph) and n > _SMALL else None  # small ones are kept there
    at_once = n if rows is None else max(1, _HELD // n)
    for start in range(0, n, at_once):
        stop = min(start + at_once, n)
        d = graph.distances() if rows is None else rows(np.arange(start, stop))
        np.copyto(steps[start:stop], d, casting="unsafe", where=np.isfinite(d))
    return steps


def kernel(steps: Integers, epsilon: Fraction) -> Floats:
    """Φ_ij = e^(−ε d(i, j)), (n, n), each within a part of `kernel_error`; 0 where there is no way."""
    phi = np.exp(-float(epsilon) * steps)
    return np.where(steps < len(steps), phi, 0.0)


def kernel_error(steps: Integers, epsilon: Fraction) -> float:
    """Relative error of every entry of `kernel`: of ε, of the product, and of the exponential, taken to be 4 ulp."""
    longest = int(steps[steps < len(steps)].max(initial=0))
    return 4 * _UNIT * (longest * float(epsilon) + 4)


@final
@dataclass(frozen=True, eq=False)
class Solution:
    """A solution of a linear system, and how far off it can be.

    Attributes:
        x: (n,), as computed.
        error: (n,): the solution is unique and within this of x; ∞ everywhere if the matrix might be singular.
    """

    x: Floats
    error: Floats

    @property
    def proven(self) -> bool | None:
        """Whether the solution has no entry below 0: True, False, or None where rounding leaves it open."""
        if (self.x - self.error >= 0).all():
            return True
        return False if (self.x + self.error < 0).any() else None


def solve(matrix: Floats, right: Floats, relative: float) -> Solution:
    """Solve A x = b, where A and b are known to a relative error in every entry.

    With R an approximate inverse and E = I − R A, a solution x* has x* − x = R (b − A x) + E (x* − x). If the largest
    row sum of |E| is below 1, A is regular, and |x* − x| ≤ |R| |b − A x| + |E| 1 · max|x* − x| bounds the error; all
    on the right is computed, with the rounding of its own sums added.

    **Guarantees**

    - Where `error` is finite, every matrix and right-hand side within the relative error has exactly one solution, and
      it is within `error` of x. This rests on the rounding of IEEE 754 sums, in any order.
    """
    n = len(right)
    infinite = Solution(np.zeros(n), np.full(n, np.inf))
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return infinite
    x = inverse @ right
    with np.errstate(over="ignore", invalid="ignore"):
        x = x + inverse @ (right - matrix @ x)
        slack = 1 + 8 * (n + 4) * _UNIT
        loss = relative + 2 * (n + 4) * _UNIT  # of a sum of products, relative to the sum of their sizes
        size, inverse_size = np.abs(matrix), np.abs(inverse)
        left = np.abs(np.eye(n) - inverse @ matrix).sum(axis=1) + loss * (inverse_size @ size.sum(axis=1)) + n * _UNIT
        rest = np.abs(right - matrix @ x) + loss * (np.abs(right) + size @ np.abs(x))
        first = inverse_size @ rest
        left, first = left * slack, first * slack
        if not left.max() < 0.5:  # also where something overflowed
            return infinite
        error = (first + left * (first.max() / (1 - left.max()))) * slack
    return Solution(x, error + np.finfo(np.float64).tiny)
