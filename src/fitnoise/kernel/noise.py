"""Draw exact discrete Gaussian and Laplace noise. Part of the trust kernel.

Nothing else in fitnoise draws a random number that a release contains. These functions take no seed and no generator,
and there is no fallback. If the system's randomness fails, the module draws no noise and raises an error. `measure` and
the draws of a series take a source of noise as an argument. Only tests give one; releases use this module.

Releases draw with `discrete_gaussians` and `discrete_laplaces`, whose every step is below. The tests compare them with
the exact laws, and with other samplers (:mod:`fitnoise_lab.reference_samplers`). :mod:`fitnoise.kernel.choices` makes
exact random choices from the bits that are read here.

**The laws.** Both give every integer x a probability in proportion to exp(−γ(|x|)):

    N_Z(0, σ²):  γ(x) = x²/(2σ²);     the discrete Laplace law of scale t:  γ(x) = x/t.

The discrete Laplace law is P(x) = (1 − q)/(1 + q) q^|x|, with q = exp(−1/t).

**The algorithm.** The sampler uses rejection from a two-sided geometric staircase. It follows Algorithms 2 and 3 of
Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020) [CKS20]. It replaces their ratio
1/e by 1/2, which bits give exactly, and makes their acceptances in one. Let w = 2^k ≥ 1 with w ≥ (32/27) σ, or w ≥
(16/23) t. Draw

    V with P(V = v) = 2^(−v−1);   R uniform on {0, …, w − 1};   a fair sign;   u uniform on [0, 1).

Put X = V w + R, and return ±X if u < p, with p = 2^V exp(−γ(X)). Otherwise, or for a negative zero, start again.

*Proof.* p is a probability, as γ(X) ≥ V ln 2. For N_Z, X ≥ V w gives γ ≥ V² (32/27)²/2 = V² 512/729 ≥ V ln 2, as V is
an integer and ln 2 < 0.6932 < 512/729. For the Laplace law γ ≥ V w/t ≥ V 16/23 ≥ V ln 2, as ln 2 < 0.6932 < 16/23.
Every x ≥ 0 has one V and one R. So one try returns each of ±x with probability ½ · 2^(−V−1)/w · 2^V exp(−γ(x)) =
exp(−γ(x))/(4w). It returns zero, of one sign only, with 1/(4w). These are in proportion to the law. Tries are
independent. ∎

For N_Z a try succeeds with probability 0.25 to 0.53, for every σ. For the Laplace law Σ q^|x| = (1 + q)/(1 − q) makes
this probability coth(1/(2t))/(4w), from 0.25 to 0.75. With w = 1, where t ≤ 23/16, the reason is 1 < coth(1/(2t)) ≤
coth(8/23) < 3, which is exp(16/23) > 2 again. With w ≥ 2, where 23/32 < t/w ≤ 23/16, the reason is y = 1/(2t) < 8/23
and 1 < y coth y < 1 + y²/3.

**The decision u < p** is the only one that does not follow from bits alone, and no rounding decides it. The sampler
draws 40 bits of u. `_threshold` computes p·2^40 in floating point to within half a unit. The proof there uses the four
operations of IEEE 754 alone, and no library's exponential. In 2^−35 of tries, the 40 bits leave u within `_MARGIN` = 16
units of p. In 2^−23 of tries, V does not show in the 23 bits that a try has for it. In both cases `_decide_exactly`
repeats the try in integers of any size, with as many more bits of u, and of V, as it takes. So the laws are exact,
provided floating point errs by less than 32 times its proven bound.

**Further assumptions and limits:**

- **The scale.** The scale sampled with is the scale given, to the last bit.
- **The bits.** They come from `os.urandom`, the operating system's generator, which every round of tries reads again.
  Nothing is kept for later.
- **The range.** Integers here stay below 2^61 or are unbounded. Only the very end, in `_wrapped`, makes 64 bits of
  them, modulo 2^64. With σ ≤ 2^55 a draw of N_Z needs more with probability < 2 exp(−2^15) < 10^-14000. A Laplace draw
  does so with probability q^(2^63) = exp(−2^63/t): 10^-110 for t = 2^55, 10^-200000 for t = 2^44. Clamping
  would be no more frequent, but pure differential privacy knows no exceptions, however rare. Reduction needs none where
  sums are taken modulo 2^64: there it is post-processing of the unbounded draw.
- **Time.** The time of a draw depends on the scale and on the noise itself. It never depends on data, which are not
  here.

**Separate noise.** These functions return the noise instead of adding it to counts. A sum that saturates, on top of
integers that have wrapped, is no post-processing of the exact mechanism. The caller can add separate noise in the
arithmetic of the measurement, whichever that is.

**Trust.** A mistake here can change the law of the noise, and so break the privacy promise of every release.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from fitnoise.errors import FitnoiseError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.checks import is_integer
from fitnoise.kernel.designs.linear import MAX_SCALE

__all__ = [
    "MAX_SCALE",
    "checked_run",
    "choose",
    "discrete_gaussian",
    "discrete_gaussians",
    "discrete_laplace",
    "discrete_laplaces",
]

T = TypeVar("T")

Flags = npt.NDArray[np.bool_]

_BLOCK = 2**14
"""The number of tries at once: the arrays of a round fit in a processor's cache."""

_V_BITS = 23
"""The number of bits of V in a try."""

_U_BITS = 40
"""The number of bits of u in a try. The first of its two words of 64 bits is a sign, 40 bits of u and 23 bits of V; the
second holds R.
"""

_MARGIN = 16
"""The distance to p, in units of 2^−40, below which integers decide: 32 times half a unit, which bounds the error."""

_GUARD = 16
"""The number of bits that `_exp_bounds` adds to those it returns. With fewer the bounds stay right, but are less
sharp.
"""

_MAX_DRAWS = 2**60
"""A number of draws above the size of any array."""

_LN2 = 0.6931471805599453
"""The float nearest to ln 2."""

_TAYLOR = (1 / 720, -1 / 120, 1 / 24, -1 / 6, 1 / 2, -1.0, 1.0)
"""The coefficients of exp(−s) to degree 6, highest power first."""

# --- The laws ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Law:
    """The parameters in which the discrete Gaussian and the discrete Laplace law differ.

    Attributes:
        steepness: A staircase of width w serves scales up to w times this number.
        gamma: γ in floating point, within 5 · 2^−53 relative, from x and the scale. x is an integer below 2^61, rounded
            to a float. The result is infinity beyond the largest float.
        ratio: γ as a numerator and a denominator, both integers, from x and the scale as a numerator and a denominator.
    """

    steepness: float
    gamma: Callable[[Floats, Floats], Floats]
    ratio: Callable[[int, int, int], tuple[int, int]]


def _half_square(x: Floats, scales: Floats) -> Floats:
    """Return x²/(2σ²); the errors of the rounded x and of the quotient each count twice, that of the square once."""
    gamma = x / scales
    gamma *= gamma
    gamma *= 0.5
    return gamma


def _exact_half_square(x: int, top: int, bottom: int) -> tuple[int, int]:
    """Return x²/(2σ²), with σ = top/bottom."""
    return (x * bottom) ** 2, 2 * top**2


def _exact_quotient(x: int, top: int, bottom: int) -> tuple[int, int]:
    """Return x/t, with t = top/bottom."""
    return x * bottom, top


def _wrapped(x: int) -> int:
    """Return the one integer of 64 bits that equals x modulo 2^64."""
    return (x + 2**63) % 2**64 - 2**63


_GAUSSIAN = _Law(steepness=27 / 32, gamma=_half_square, ratio=_exact_half_square)

_LAPLACE = _Law(steepness=23 / 16, gamma=np.divide, ratio=_exact_quotient)

# --- What others call -------------------------------------------------------------------------------------


def discrete_gaussian(scale: float, size: int) -> Integers:
    """Draw `size` independent integers from N_Z(0, scale²): P(k) ∝ exp(−k² / (2 scale²)).

    This is one run of `discrete_gaussians`, with the same guarantees.

    Args:
        scale: The parameter σ, in units of the measurement: 0 < σ ≤ 2^55. Taken exactly.
        size: The number of draws, at least 0.

    Returns:
        int64 array of shape (size,).

    Raises:
        TypeError: The scale is not a `float` or `int`, or the size is not an `int` or `numpy.integer` (truth values are
            neither).
        ValueError: The scale is not finite, not positive, larger than 2^55, or a whole number that no float equals. Or
            the size is negative, or more than an array can hold.
        FitnoiseError: The sampler failed, because the operating system gave no randomness.
    """
    return _draw_run(_GAUSSIAN, scale, size)


def discrete_gaussians(scales: Floats, sizes: npt.NDArray[np.integer]) -> Integers:
    """Draw `sizes[i]` independent integers from N_Z(0, scales[i]²) for every i, one run after the other.

    A draw takes 0.07 to 0.15 µs with thousands of draws, in one run or in many. A call takes at least 0.1 ms
    (`benchmarks/sampler.py`). Memory other than the result: a few MB, and 100 bytes a run.

    Args:
        scales: The parameters σ, float64, shape (K,), in units of the measurements: 0 < σ ≤ 2^55. Taken exactly.
        sizes: The numbers of draws, integers of at least 0, shape (K,).

    Returns:
        int64 array of shape (Σ sizes,).

    Raises:
        TypeError: The scales are not an array of float64 with one axis, or the sizes not an array of integers with one
            axis.
        ValueError: The numbers of scales and sizes differ. A scale is not finite, not positive, or larger than 2^55. A
            size is negative, or together they are more than an array can hold.
        FitnoiseError: The sampler failed, because the operating system gave no randomness.

    **Guarantees**

    - The distribution is exact and all draws are independent, on the assumptions in the head of this file. So integers
      of squared sensitivity s², in units of the scales, plus this noise are an exactly s²/2-zCDP measurement (CKS20,
      Theorem 14).
    - The variance is at most σ², and equals it to 1e-6 relative from σ = 1 up (CKS20, Section 3).
    - Every call uses new bits: no seed, no state that a caller can set, save or restore, no bits kept for later.
    - An error returns no noise at all.
    - No error names a scale.
    """
    return _several(_GAUSSIAN, scales, sizes)


def discrete_laplace(scale: float, size: int) -> Integers:
    """Draw `size` independent integers from the discrete Laplace law: P(k) ∝ exp(−|k| / scale).

    This is one run of `discrete_laplaces`, with the same guarantees. Arguments and errors are those of
    `discrete_gaussian`.
    """
    return _draw_run(_LAPLACE, scale, size)


def discrete_laplaces(scales: Floats, sizes: npt.NDArray[np.integer]) -> Integers:
    """Draw `sizes[i]` independent integers from the discrete Laplace law of scales[i] for every i, run after run.

    P(k) = (1 − q)/(1 + q) q^|k|, q = exp(−1/t), for the scale t. Arguments, errors, memory and time are those of
    `discrete_gaussians`, with the scales t, in units of the measurements, in place of σ.

    **Guarantees**

    - The distribution is exact and all draws are independent, on the assumptions in the head of this file. So integers
      of L1 sensitivity s, in units of the scales, plus this noise are an exactly s-differentially private measurement.
      *Proof.* P(k)/P(k + d) = exp((|k + d| − |k|)/t) ≤ exp(|d|/t), an equality for k, d ≥ 0; factors of independent
      draws multiply. ∎
    - The privacy holds without exception where the sum is taken modulo 2^64, as int64 does: the sum is then that of
      unbounded draws, reduced.
    - In unbounded integers the privacy holds except for the event that a draw does not fit in int64. Its probability is
      below 10^-110 a draw.
    - The variance 2q/(1 − q)² is at most 2t². *Proof.* Σ k² q^k = q (1 + q)/(1 − q)³ gives the variance, which is
      2/(q^(−1/2) − q^(1/2))² = 1/(2 sinh²(1/(2t))), and sinh y ≥ y for y ≥ 0. ∎
    - Every call uses new bits: no seed, no state that a caller can set, save or restore, no bits kept for later.
    - An error returns no noise at all.
    - No error names a scale.
    """
    return _several(_LAPLACE, scales, sizes)


def choose(choice: Callable[..., T], /, *arguments: Any) -> T:
    """Return a choice among finitely many results, made with random bits of the operating system.

    Args:
        choice: The function that makes it (:mod:`fitnoise.kernel.choices`). Its first argument is a source of random
            words.
        arguments: Its other arguments.
    """
    return choice(_random_words, *arguments)


def _draw_run(law: _Law, scale: float, size: int) -> Integers:
    """Check and draw one run of a law."""
    parameter, count = checked_run(scale, size)
    return _draw(law, np.array([parameter]), np.array([count], dtype=np.int64))


def _several(law: _Law, scales: Floats, sizes: npt.NDArray[np.integer]) -> Integers:
    """Check and draw any number of runs of a law."""
    if not isinstance(scales, np.ndarray) or scales.dtype != np.float64 or scales.ndim != 1:
        raise TypeError("the scales need to be an array of float64 with one axis; no noise was drawn")
    if not isinstance(sizes, np.ndarray) or sizes.dtype.kind not in "iu" or sizes.ndim != 1:
        raise TypeError("the sizes need to be an array of whole numbers with one axis; no noise was drawn")
    if scales.size != sizes.size:
        raise ValueError("there need to be as many scales as sizes; no noise was drawn")
    checked = np.array(scales)  # The checked array is the one that is used, and no subclass.
    # Python's integers: a sum of int64 sizes could wrap around to a small total.
    counts = np.array(sizes).astype(object)
    _check(checked.min(initial=1.0), checked.max(initial=1.0), counts.min(initial=0), counts.sum())
    return _draw(law, checked, counts.astype(np.int64))


def checked_run(scale: float, size: int) -> tuple[float, int]:
    """Return a scale and a size as the sampler uses them; raise TypeError or ValueError as `discrete_gaussian` does."""
    if isinstance(scale, bool) or not isinstance(scale, float | int):
        raise TypeError(f"the scale is a {type(scale).__name__}; it needs to be a float; no noise was drawn")
    if not is_integer(size):
        raise TypeError(f"the size is a {type(size).__name__}; it needs a whole number; no noise was drawn")
    _check(scale, scale, int(size), int(size))
    if float(scale) != scale:
        raise ValueError("the scale is a whole number that no float equals; no noise was drawn")
    return float(scale), int(size)


def _check(smallest: float, largest: float, fewest: int, total: int) -> None:
    """Raise ValueError for scales and sizes out of range."""
    if not smallest > 0:  # also refuses NaN
        raise ValueError("a scale is not a number above 0; no noise was drawn")
    if not largest <= MAX_SCALE:
        raise ValueError("a scale is above 2^55, where noise might not fit in 64 bits; no noise was drawn")
    if fewest < 0:
        raise ValueError("a size is below 0; no noise was drawn")
    if total >= _MAX_DRAWS:
        raise ValueError("a size is beyond what an array can hold; no noise was drawn")


# --- The sampler ------------------------------------------------------------------------------------------


def _draw(law: _Law, scales: Floats, sizes: Integers) -> Integers:
    """Return all runs, one after the other, shape (Σ sizes,).

    Every place of the result gets the first success among tries of its own. A round makes one try for each of up to
    `_BLOCK` places. Places without success stay for the next round, and the next places fill the gaps.
    """
    widths = _widths(scales, law.steepness)
    ends = np.cumsum(sizes)
    noise = np.empty(int(sizes.sum()), dtype=np.int64)
    places = runs = np.empty(0, dtype=np.int64)
    begun = 0  # Places before this one have had a try.
    while begun < noise.size or places.size:
        until = min(noise.size, begun + _BLOCK - places.size)
        if begun < until:
            places = np.concatenate([places, np.arange(begun, until)])
            runs = np.concatenate([runs, _runs(ends, sizes, begun, until)])
            begun = until
        # Every round reads new bits and keeps none of them, so a fork cannot repeat noise.
        bits = _random_words(2 * places.size).reshape(2, -1)
        values, accepted, open_ = _try(law, bits[0], bits[1], scales[runs], widths[runs])
        # Floating point may not decide these tries. Integers repeat the same try, so the law stays exact.
        for i in np.flatnonzero(open_):
            run = runs[i]
            decided = _decide_exactly(law, int(bits[0, i]), int(bits[1, i]), float(scales[run]), int(widths[run]))
            if decided is not None:
                values[i], accepted[i] = decided, True
        done = np.flatnonzero(accepted)
        noise[places[done]] = values[done]
        pending = np.flatnonzero(~accepted)
        places, runs = places[pending], runs[pending]
    return noise


def _runs(ends: Integers, sizes: Integers, start: int, stop: int) -> Integers:
    """Return the run of each place in start, …, stop − 1, where run i has sizes[i] places, the last before ends[i]."""
    low = int(np.searchsorted(ends, start, side="right"))
    high = int(np.searchsorted(ends, stop, side="left")) + 1
    here = np.minimum(ends[low:high], stop) - np.maximum(ends[low:high] - sizes[low:high], start)
    return np.repeat(np.arange(low, high), here)


def _widths(scales: Floats, steepness: float) -> Integers:
    """Return the smallest power of two w ≥ 1 with scale ≤ steepness · w for every scale, shape (K,).

    Let scale = m 2^e, steepness = n 2^f and ½ ≤ m, n < 1, all exact. Then steepness · 2^(e−f) = n 2^e is at least the
    scale if and only if m ≤ n. Twice that is at least 2^e, above the scale. w is at most 2^56 for N_Z, and 2^55 for the
    Laplace law, since 2^55 = ½ 2^56.
    """
    mantissas, exponents = np.frexp(scales)
    mantissa, exponent = math.frexp(steepness)
    return np.int64(1) << np.maximum(exponents.astype(np.int64) - exponent + (mantissas > mantissa), 0)


def _random_words(count: int) -> Integers:
    """Return `count` words of 64 random bits from the operating system, never fewer."""
    failure, content = None, b""
    try:
        content = os.urandom(8 * count)
    except (OSError, NotImplementedError) as error:
        failure = type(error).__name__
    if failure is None and len(content) != 8 * count:
        failure = "too few bits"
    if failure is not None:  # Raised outside the handler, so that it keeps nothing of the error.
        raise FitnoiseError(
            "noise-sampler-failed",
            f"The operating system gave no random bits ({failure}).",
            "Noise needs random bits from the operating system.",
            "Repair the random generator of the operating system, then try again.",
            "No noise was drawn.",
        )
    return np.frombuffer(content, dtype=np.int64)


def _try(
    law: _Law, first_word: Integers, second_word: Integers, scales: Floats, widths: Integers
) -> tuple[Integers, Flags, Flags]:
    """Return one try from each pair of random words: ±X, True if it is accepted, and True if that is still open.

    All arrays have one shape. The first word has, from the top, 1 bit of sign, 40 of u, and 23 of V. V is the number of
    zeros that end these 23 bits, or more if they are all zeros. The second word has R in its lowest k bits. If all 23
    bits of V are zero, V is not known, and the try is open for every u.

    Integers stay below 24 · 2^56 < 2^61.
    """
    weights = first_word | (1 << _V_BITS)
    weights &= -weights  # 2^V: the lowest bit that is one, at most 2^23
    v = np.bitwise_count(weights - 1)
    x = v.astype(np.int64) * widths + (second_word & (widths - 1))
    units = (first_word >> _V_BITS) & ((1 << _U_BITS) - 1)  # u lies in [units, units + 1) / 2^40
    sign = first_word >> 63  # 0, or −1 for a negative one
    with np.errstate(over="ignore"):
        gamma = law.gamma(x.astype(np.float64), scales)
    gap = _threshold(gamma, v) - units  # p − u lies in (gap − 1, gap] / 2^40, to within half a unit
    # Zero with both signs would have twice its probability.
    once = x + sign >= 0  # not a negative zero
    is_settled = v < _V_BITS
    # The margin is 32 times the proven error of the threshold, so no rounding decides.
    accepted = (gap >= 1 + _MARGIN) & once & is_settled
    refused = ((gap <= -_MARGIN) | ~once) & is_settled
    return (x ^ sign) - sign, accepted, ~(accepted | refused)


def _threshold(gamma: Floats, v: npt.NDArray[np.uint8]) -> Floats:
    """Return p·2^40 = 2^(40+V) exp(−γ) within a quarter, for V < 23 and γ ≥ V ln 2, given γ within 5 · 2^−53 relative.

    Let E = γ − V ln 2 and s = E/256. The result is the Taylor polynomial of exp(−s), squared eight times. Beyond E = 64
    it is the value there.

    *Proof.* Let ε = 2^−53. Each operation +, −, ×, ÷ and each conversion is exact except for a factor between 1 − ε and
    1 + ε; powers of two are exact. Terms of order ε² are left out; they are below 2^−80.

    p = exp(−E) with E ≥ 0. Hence p ≤ 1, Ep ≤ 1/e and E⁷p ≤ (7/e)⁷ < 7!/6. γ itself may be large where p is not, but is
    never above E + 22 ln 2 < E + 16.

    For E ≤ 64, s ≤ 1/4:

    1. The error of E has three terms: 5ε γ (as given), 2ε V ln 2 (`_LN2` and the product), and ε E (the difference).
       Their sum is at most 6ε E + 7ε · 16. It moves exp(−E) by that much, relative; so p by at most 6ε/e + 112ε < 115ε.
       Where rounding makes E negative, zero is nearer.
    2. The polynomial leaves out at most s⁷/7!, less than 1.3 s⁷/7! relative to exp(−s) > 0.77.
    3. Horner's rule y_i = c_i + s y_{i+1} errs by e_i ≤ e_{i+1}/4 + ε (|c_i| unless dyadic + |y_{i+1}|/4 + |y_i|). With
       |y_i| ≤ 1, and ≤ ½ from i = 2 on: e_2 ≤ 1.5ε, e_1 ≤ 1.5ε, e_0 ≤ 1.7ε, less than 3ε relative.
    4. Eight squarings multiply relative errors by 256 and add 255ε.

    Together the error of p is at most 115ε + p (256 · (1.3 E⁷/(7! 2^56) + 3ε) + 255ε) ≤ 1138ε + 56 · 2^−56 < 2^−42.

    Where E, or its computed value, is above 64, p is below 2^−90. So is the computed p: 2^−92.3 except for a factor
    between 1 ± 2^−10. Where γ exceeds the largest float, infinity is cut off like the rest.

    So the error of p·2^40 is less than 1/4. Subtracting integers below 2^40 adds at most 2^−13. If rounding were not to
    nearest, ε would double. ∎
    """
    s = gamma - v * _LN2
    s *= 2.0**-8
    np.clip(s, 0.0, 0.25, out=s)
    y = np.full_like(s, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        y *= s
        y += coefficient
    for _ in range(8):
        y *= y
    y *= 2.0**_U_BITS
    return y


# --- The same try in integers -----------------------------------------------------------------------------


def _decide_exactly(law: _Law, first_word: int, second_word: int, scale: float, width: int) -> int | None:
    """Return the draw of the try of these two words, as signed integers, or None if it fails, without any float."""
    low = first_word & ((1 << _V_BITS) - 1)
    v = _zeros(low) if low else _V_BITS + _more_zeros()
    x = v * width + (second_word & (width - 1))
    # A float is a dyadic rational, so this is the given scale, to the last bit.
    gamma = law.ratio(x, *scale.as_integer_ratio())
    if (first_word < 0 and x == 0) or not _below((first_word >> _V_BITS) & ((1 << _U_BITS) - 1), v, *gamma):
        return None
    # Only this integer can need more than 64 bits. It is reduced as sums of int64 are. Clamping would be an exception
    # from pure differential privacy.
    return _wrapped(-x if first_word < 0 else x)


def _zeros(word: int) -> int:
    """Return the number of zeros that end a word that has a one."""
    return (word & -word).bit_length() - 1


def _more_zeros() -> int:
    """Return a new V: the number of zeros before the first one in a sequence of random bits."""
    zeros = 0
    while not (word := int(_random_words(1)[0])):
        zeros += 64
    return zeros + _zeros(word)


def _below(units: int, v: int, numerator: int, denominator: int) -> bool:
    """Return True if u < p = 2^v exp(−γ), with the first 40 bits of u in `units` and further ones drawn as needed.

    γ = numerator/denominator. With n bits, u lies in [units, units + 1)/2^n, and p in [low, high]/2^n by `_exp_bounds`.
    The decision is right because it is made when these are disjoint. u = p has probability zero, so the loop ends.
    """
    bits = _U_BITS
    while True:
        low, high = _exp_bounds(numerator, denominator, bits + v)
        if units + 1 <= low:
            return True
        if units >= high:
            return False
        units = units << 64 | int(_random_words(1)[0]) % 2**64
        bits += 64


def _exp_bounds(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Return integers with low ≤ 2^bits exp(−γ) ≤ high, γ = numerator/denominator ≥ 0, that differ by a few units.

    The function uses interval arithmetic on integers: every lower end is rounded down and every upper end up. With s =
    γ/2^q < 1/8, the Taylor series of exp(−s) alternates and decreases, so the omitted part is at most the next term.
    Its sum is then squared q times. For γ ≥ bits, exp(−γ) < 2^−bits.
    """
    if numerator >= bits * denominator:
        return 0, 1
    # 2^(q − 3) is above γ, hence s < 1/8.
    q = (numerator // denominator).bit_length() + 3
    precision = bits + 2 * q + _GUARD
    one = 1 << precision
    s_low = (numerator << (precision - q)) // denominator
    s_high = s_low + 1
    low = high = term_low = term_high = one
    k = 0
    while term_high > 1:
        k += 1
        term_low = term_low * s_low // (k * one)
        term_high = -(-term_high * s_high // (k * one))
        # The upper end of a subtracted term belongs to the lower bound.
        low, high = (low - term_high, high - term_low) if k % 2 else (low + term_low, high + term_high)
    # The omitted part is at most the next term, which is no larger than the last one.
    low, high = low - term_high, high + term_high
    for _ in range(q):
        low, high = low * low // one, -(-high * high // one)
    return low >> (precision - bits), -(-high >> (precision - bits))
