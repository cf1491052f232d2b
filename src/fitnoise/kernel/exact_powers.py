"""Compute exact bounds of exponentials and logarithms, in fractions. The proofs of finite mechanisms rely on them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Protocol

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Floats, Integers

MIN_EPSILON = Fraction(1, 2**20)
"""The least ε of a question: below it, an answer is useless."""

MAX_EPSILON = Fraction(50)
"""The largest ε of a question: above it, an answer protects almost no one."""

DENSE_LIMIT = 4096
"""The largest number of results for which a matrix with an entry for every pair of results is made."""

ALPHA_POWER_BITS = 96
"""The exponent of the integer that stands for 1: powers of e^−ε are integers in units of 2^−ALPHA_POWER_BITS."""

# Bits of precision of α, relative to e^−ε.
_ALPHA_BITS = 64

# Binary digits after the point in bounds of e^x: 2⁻¹⁹² is far below every other rounding in a proof.
_WORK = 192

# Further digits of the working precision of `exp_bounds`: they absorb the roundings of the series and the squarings.
_GUARD = 32


class Graph(Protocol):
    """The properties of a query graph that proofs use."""

    @property
    def n(self) -> int:
        """The number of results."""

    @property
    def results(self) -> Sequence[object]:
        """The labels of the results."""

    @property
    def edges(self) -> Integers:
        """The pairs of neighbouring results, (E, 2)."""

    def distances(self) -> Floats:
        """Return the numbers of steps between results, (n, n), ∞ without a path."""


# --- Rationals --------------------------------------------------------------------------------------------


def rational(epsilon: float | Fraction) -> Fraction:
    """Return ε as an exact fraction; a float is a dyadic rational, and taken as such.

    Raises:
        WorkloadError: ε is not a number, or outside [2⁻²⁰, 50].
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | Fraction):
        raise WorkloadError(
            "epsilon-not-a-number",
            f"epsilon is a {type(epsilon).__name__}.",
            "",
            "Give a number or a Fraction.",
            "Nothing was made.",
            place="epsilon",
        )
    # Checked before the conversion: Fraction(inf) raises another error.
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:  # also refuses NaN
        raise WorkloadError(
            "epsilon-out-of-range",
            f"epsilon is {epsilon}.",
            f"It needs to be from {float(MIN_EPSILON):.0e} to {MAX_EPSILON}.",
            "Give a number in this range.",
            "Nothing was made.",
            place="epsilon",
        )
    return Fraction(epsilon)


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Return integers with low ≤ 2^bits e^x ≤ high, for x ≥ 0, whose difference is a few units.

    The function uses interval arithmetic, with lower ends rounded down and upper ends up. It squares the Taylor series
    of e^y, y = x/2^q < 1/2, q times.
    """
    q = (x.numerator // x.denominator).bit_length() + 1
    # Each squaring doubles the relative error, and e^x has x/ln 2 < x/0.69 bits before the point.
    precision = bits + 2 * q + math.ceil(x / Fraction(69, 100)) + _GUARD
    one = 1 << precision
    y_low = (x.numerator << precision) // (x.denominator << q)
    low = high = term_low = term_high = one
    k = 0
    # Upper ends are rounded up, so `term_high` never falls below 1.
    while term_high > 1:
        k += 1
        term_low = term_low * y_low // (k << precision)
        term_high = -(-term_high * (y_low + 1) // (k << precision))
        low, high = low + term_low, high + term_high
    # y < 1/2: each omitted term is at most half the one before, so together they are at most the last term taken.
    high += term_high
    for _ in range(q):
        low, high = low * low >> precision, -(-high * high >> precision)
    return low >> (precision - bits), -(-high >> (precision - bits))


def falling(alpha: Fraction, bits: int = ALPHA_POWER_BITS) -> Iterator[int]:
    """Yield integers p_0 = 2^bits, p_1, … ≈ α^k 2^bits, without end, 0 < α < 1.

    **Guarantees**

    - p_{k+1} = ⌈α p_k⌉: no step falls by more than the factor α, and no integer is 0.
    - Each p_k is above α^k 2^bits by less than 1/(1 − α).
    """
    power = 1 << bits
    while True:
        yield power
        power = -(-power * alpha.numerator // alpha.denominator)


def exp_below(x: Fraction) -> Fraction:
    """Return a rational number that is at most e^x, x ≥ 0, and at least e^x − 2⁻¹⁹⁰."""
    return Fraction(exp_bounds(x, _WORK)[0], 1 << _WORK)


def alpha_above(epsilon: Fraction) -> Fraction:
    """Return a dyadic rational below 1 that is at least e^−ε, and exceeds it by at most 2⁻⁶³ relative.

    Args:
        epsilon: ε, from 2⁻²⁰ to 50.
    """
    low = exp_bounds(epsilon, _WORK)[0]
    bits = _ALPHA_BITS + low.bit_length() - _WORK  # low ≥ 2^_WORK
    return Fraction(-(-(1 << bits + _WORK) // low), 1 << bits)


_MIN_STEP = Fraction(1, 2**190)
"""The least step of the search for a logarithm; for ratios nearer to 1 than a float shows, the search starts from 0."""


def log_above(ratio: Fraction) -> Fraction:
    """Return a rational number x that is at least log(ratio), ratio ≥ 1, and exceeds it by some 10⁻¹⁵ relative."""
    if ratio == 1:
        return Fraction(0)
    excess = ratio - 1
    guess = math.log1p(excess) if ratio < 2 else math.log(ratio.numerator) - math.log(ratio.denominator)
    x = Fraction(guess)
    # A step is about one unit in the last place of the guess, so few steps are needed.
    step = max(x / 2**52, _MIN_STEP)
    # The float only guesses: the loop ends when a lower bound of e^x proves e^x ≥ ratio.
    while exp_below(x) < ratio:
        x += step
        step *= 2
    return x


def ratio_above_epsilon(epsilon: Fraction, ratio: Fraction | None) -> PlanError:
    """Return the error for a mechanism whose privacy cost is not proven to be at most its ε.

    Args:
        epsilon: The ε of the mechanism.
        ratio: The largest ratio of two probabilities of one output, for neighbouring results; None if nothing bounds
            it.
    """
    logarithm = "The logarithm of the ratio of their chances"
    bound = "is not bounded" if ratio is None else f"is at most {float(log_above(ratio)):.17g}"
    return PlanError(
        "ratio-above-epsilon",
        f"Two neighbouring results could be distinguished by more than e^ε, ε = {float(epsilon):.17g}.",
        f"{logarithm} {bound}.",
        "Make the plan again.",
        "No mechanism was made.",
    )
