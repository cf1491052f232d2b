"""Proven roundings: exponentials and logarithms in integers, linear systems in floats with a bound on the error.

What is charged for a release rests on the first half: rationals with e^ε between them, in integer arithmetic alone.
What is said about accuracy rests on the second half: a solution of Φ x = b, and a proof of how far off it can be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, final

import numpy as np
import numpy.typing as npt

from fitnoise.errors import PlanError, WorkloadError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LEAST_EPSILON = Fraction(1, 2**20)
MOST_EPSILON = Fraction(50)
"""Below the least, 2⁻²⁰, nothing is learnt; beyond the most, nothing is protected."""
DENSE_LIMIT = 4096
"""Most results for which matrices with an entry for every pair of results are made."""

BITS = 96
"""Powers of e^−ε are integers, with this one for 1."""
_ALPHA_BITS = 64
_WORK = 192
_GUARD = 32
_UNIT = 2.0**-53


class Graph(Protocol):
    """What is used of a query graph."""

    @property
    def n(self) -> int:
        """Results."""

    @property
    def results(self) -> Sequence[object]:
        """Their labels."""

    @property
    def edges(self) -> Integers:
        """Pairs of neighbours, (E, 2)."""

    def distances(self) -> Floats:
        """Steps between results, (n, n), ∞ where there is no way."""


# --- Rationals --------------------------------------------------------------------------------------------


def rational(epsilon: float | Fraction) -> Fraction:
    """ε as the fraction that it is: a float is a dyadic rational, and taken as such.

    Raises:
        WorkloadError: ε is no number, or outside [2⁻²⁰, 50].
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | Fraction):
        raise WorkloadError(f"epsilon is a {type(epsilon).__name__}; give a Fraction or a number. Nothing was made.")
    if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:  # also refuses NaN
        raise WorkloadError(
            f"epsilon is {epsilon}; a number above 0 is needed, from {float(LEAST_EPSILON):.0e} to {MOST_EPSILON}. "
            "Nothing was made."
        )
    return Fraction(epsilon)


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers with low ≤ 2^bits e^x ≤ high, for x ≥ 0, a few units apart.

    Interval arithmetic: with y = x/2^q < 1/2 the Taylor series of e^y has positive terms, each at most half the one
    before it, so that what is left out is at most the last term taken; the sum is squared q times. Lower ends are
    rounded down, upper ends up.
    """
    q = max(0, (x.numerator // x.denominator).bit_length() + 1)
    precision = bits + 2 * q + math.ceil(x / Fraction(69, 100)) + _GUARD
    one = 1 << precision
    y_low = (x.numerator << precision) // (x.denominator << q)
    low = high = term_low = term_high = one
    k = 0
    while term_high > 1:
        k += 1
        term_low = term_low * y_low // (k << precision)
        term_high = -(-term_high * (y_low + 1) // (k << precision))
        low, high = low + term_low, high + term_high
    high += term_high
    for _ in range(q):
        low, high = low * low >> precision, -(-high * high >> precision)
    return low >> (precision - bits), -(-high >> (precision - bits))


def exp_below(x: Fraction) -> Fraction:
    """A rational at most e^x, x ≥ 0, and at most 2⁻¹⁹⁰ below it."""
    return Fraction(exp_bounds(x, _WORK)[0], 1 << _WORK)


def alpha_above(epsilon: Fraction) -> Fraction:
    """A dyadic rational proven to be at least e^−ε, and a part of at most 2⁻⁶³ above it; below 1."""
    low = exp_bounds(epsilon, _WORK)[0]
    bits = _ALPHA_BITS + max(0, low.bit_length() - _WORK)
    return Fraction(-(-(1 << bits + _WORK) // low), 1 << bits)


_LEAST_STEP = Fraction(1, 2**190)
"""Of the search for a logarithm; ratios nearer to 1 than a float can say begin with a guess of 0."""


def log_above(ratio: Fraction) -> Fraction:
    """A rational at least log(ratio), ratio ≥ 1, and a part of at most about 10⁻¹⁵ above it.

    A float is the guess, and `exp_below` the judge: e^x ≥ ratio is proven of the x that is returned.
    """
    if ratio == 1:
        return Fraction(0)
    excess = ratio - 1
    guess = math.log1p(excess) if ratio < 2 else math.log(ratio.numerator) - math.log(ratio.denominator)
    x = Fraction(guess)
    step = max(x / 2**52, _LEAST_STEP)
    while exp_below(x) < ratio:
        x += step
        step *= 2
    return x


def powers(alpha: Fraction, count: int, bits: int = BITS) -> list[int]:
    """Integers p_0 = 2^bits, p_k ≈ α^k 2^bits for k < count.

    **Guarantees**

    - p_{k+1} = ⌈α p_k⌉: never falling by more than the factor α, never 0, and above α^k 2^bits by less than 1/(1 − α).
    """
    found = [1 << bits]
    while len(found) < count:
        found.append(-(-found[-1] * alpha.numerator // alpha.denominator))
    return found[:count]


# --- Floats -----------------------------------------------------------------------------------------------


def hops(graph: Graph, limit: int = DENSE_LIMIT) -> Integers:
    """Steps between results, (n, n); n, more than any, where there is no way.

    Raises:
        PlanError: the graph has more than `limit` results.
    """
    if graph.n > limit:
        raise PlanError(
            f"the query has {graph.n} results; here every pair of them gets a number, which is done for at most "
            f"{limit}. Group results, or take a mechanism that needs no matrix. Nothing was made."
        )
    d = np.asarray(graph.distances(), dtype=np.float64)
    return np.where(np.isfinite(d), d, graph.n).astype(np.int64)


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
