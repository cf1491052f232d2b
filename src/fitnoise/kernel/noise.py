"""Draw exact discrete Gaussian and Laplace noise, and make exact random choices. Part of the trust kernel.

Nothing else in fitnoise draws a random number that a release contains. Callers can give no seed and choose no
generator, and there is no fallback. If the system's randomness fails, the module draws no noise and raises an error.
Tests that need the same noise twice replace these functions from outside.

Releases draw with `discrete_gaussians` and `discrete_laplaces`, whose every step is below. The tests compare them with
the exact laws, and with other samplers (:mod:`fitnoise_lab.reference_samplers`). `categorical` chooses among
finitely many results, with probabilities given as integers.

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
  does so with probability 2 q^(2^63)/(1 + q) < 2 exp(−2^63/t): 10^-110 for t = 2^55, 10^-200000 for t = 2^44. Clamping
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

import itertools
import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from fitnoise.errors import FitnoiseError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.checks import is_integer
from fitnoise.kernel.designs.linear import MAX_SCALE

__all__ = [
    "MAX_SCALE",
    "by_distance",
    "categorical",
    "categoricals",
    "checked_run",
    "clamped",
    "discrete_gaussian",
    "discrete_gaussians",
    "discrete_laplace",
    "discrete_laplaces",
]

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

_WORDS_PER_READ = 32
"""The number of words read at once, where they are used one by one."""

_MAX_DRAWS = 2**60
"""A number of draws above the size of any array."""

_INT64 = np.iinfo(np.int64)

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


def categorical(weights: Sequence[int] | npt.NDArray[Any]) -> int:
    """Draw one index i with probability weights[i] / Σ weights, exactly.

    This is one draw of `categoricals`, with the same argument, errors and guarantees.
    """
    return int(categoricals(weights, 1)[0])


def categoricals(weights: Sequence[int] | npt.NDArray[Any], size: int) -> Integers:
    """Draw `size` independent indices, each i with probability weights[i] / Σ weights, exactly.

    Let N = Σ weights, and let 2^b be the smallest power of two that is at least N. A try takes new random bits, the
    first b of which are an integer u, and succeeds if u < N. It gives the number of partial sums w_0, w_0 + w_1, … that
    are at most u. *Proof.* Given u < N, u is uniform on {0, …, N − 1}, and exactly weights[i] of these numbers give i.
    ∎

    Args:
        weights: Whole numbers of any size, none below 0, not all 0; an array with one axis, or a sequence.
        size: The number of draws, at least 0.

    Returns:
        int64 array of shape (size,).

    Raises:
        TypeError: The weights are not an array with one axis or a sequence, of `int` or `numpy.integer`. Or the size is
            of neither type (truth values are not).
        ValueError: A weight is negative, all are zero, or there are none. Or the size is negative, or more than an
            array can hold.
        FitnoiseError: The sampler failed, because the operating system gave no randomness.

    **Guarantees**

    - The distribution is exact and all draws are independent, provided the bits of `os.urandom` are: nothing is
      rounded.
    - An index of weight zero is never drawn.
    - A try succeeds with probability N/2^b > 1/2, whichever index it then gives. So the number of random words that are
      read depends on N, on the size and on the random bits, never on the drawn index. It does not distinguish rows of
      weights with one total, and where N is a power of two it is fixed.
    - Every partial sum is formed and kept, for every index that may be drawn. Only the search depends on the index: the
      number of its comparisons differs by at most one between indices. The place of an index shows in the caches and in
      nanoseconds. With a probability below 2^−63 for each weight, the time to compare u shows as well. Constant time is
      not claimed.
    - Every call uses new bits: no seed, no state that a caller can set, save or restore, no bits kept for later.
    - An error returns no draw at all. No error names a weight.
    """
    sums = _partial_sums(weights)
    if not is_integer(size):
        raise TypeError(f"the size is a {type(size).__name__}; it needs a whole number; no noise was drawn")
    _check(1.0, 1.0, int(size), int(size))
    bits = (sums[-1] - 1).bit_length()
    length = max(1, -(-bits // 64))
    # The words of u are compared with these, as the first bits of some words.
    ends = [end << (64 * length - bits) for end in sums]
    tops = np.array([end >> 64 * (length - 1) for end in ends if end >> 64 * length == 0], dtype=np.uint64)
    draws = np.empty(int(size), dtype=np.int64)
    done = 0
    while done < draws.size:
        random_bits = _random_words(length * min(_BLOCK, draws.size - done)).view(np.uint64).reshape(-1, length)
        indices = np.searchsorted(tops, random_bits[:, 0], side="right")
        if length > 1:
            lowest = np.searchsorted(tops, random_bits[:, 0], side="left")
            for i in np.flatnonzero(lowest < indices):  # A first word equals that of an end, so the other words decide.
                u = int.from_bytes(random_bits[i].astype(">u8").tobytes(), "big")
                indices[i] = lowest[i] + sum(end <= u for end in ends[lowest[i] : indices[i]])
        # u ≥ N gives no draw. The try is repeated, so no index is favoured.
        good = indices[indices < len(sums)]
        draws[done : done + good.size] = good
        done += good.size
    return draws


def _partial_sums(weights: Sequence[int] | npt.NDArray[Any]) -> list[int]:
    """Return w_0, w_0 + w_1, …, the last of them positive; raise an error for invalid weights."""
    listed = isinstance(weights, Sequence) and not isinstance(weights, str | bytes)
    if not listed and not (isinstance(weights, np.ndarray) and weights.ndim == 1):
        raise TypeError("the weights need to be a sequence, or an array with one axis; no noise was drawn")
    numbers = list(weights)
    if not all(is_integer(w) for w in numbers):
        raise TypeError("the weights need to be whole numbers; no noise was drawn")
    integers = [int(w) for w in numbers]
    if not any(integers):
        raise ValueError("no weight is above 0; no noise was drawn")
    if min(integers) < 0:
        raise ValueError("a weight is below 0; no noise was drawn")
    return list(itertools.accumulate(integers))


def by_distance(
    alpha: Fraction, steps: Sequence[int], weights: npt.NDArray[np.int64], top: int, point: Sequence[int]
) -> tuple[int, ...]:
    """Draw one point o of a box with a probability in proportion to α^d(place, o) · weights[o], exactly.

    The place is `point`, and d(x, y) = max_k ⌈|x_k − y_k| / steps_k⌉. The row of probabilities is never formed. A try
    has three steps:

    1. Draw m ≥ 0 with P(m) ∝ α^m B_m. Here B_m = Π_k (2 m steps_k + 1) is the number of integer points x with d(place,
       x) ≤ m. With B_m = Σ_j c_j C(m, j), where c_j ≥ 0 are its differences at 0, this is a mixture. Draw j with weight
       c_j α^j / (1 − α)^(j + 1), and then m = j + G_0 + … + G_j, with P(G = g) = (1 − α) α^g.
    2. Draw a point x, uniform among these B_m.
    3. Take x with probability weights[x] / top if it is in the box, and never otherwise; else start again.

    *Proof.* Σ_m C(m, j) α^m = α^j / (1 − α)^(j + 1), and G_0 + … + G_j is m − j with probability C(m, j) α^(m − j) (1 −
    α)^(j + 1). So step 1 gives m with probability α^m B_m / K, K = Σ_m α^m B_m. Step 2 gives x with probability Σ_{m ≥
    d} α^m / K = α^d / ((1 − α) K), d = d(place, x). ∎

    Each weight that is read is also compared with `top`, as reading all of them would take longer than drawing.

    Args:
        alpha: α, 0 < α < 1. Fastest where it is a multiple of 2^−64. A try reads on the order of 1/(1 − α) words.
        steps: One number of at least 1 for every axis.
        weights: int64, an axis for every step; none below 0, and one above 0. Without one above 0 the draw never ends.
        top: An upper bound on the largest weight, above 0.
        point: The true position in the box, from 0, one number for every axis.

    Returns:
        The drawn point o.

    Raises:
        TypeError: α is not a fraction, the weights are not an array of int64, or another argument is not an integer.
        ValueError: α, a step or `top` is out of range, the numbers of axes differ, or the place is not in the box. Or a
            weight that was read is not from 0 to `top`.
        FitnoiseError: The sampler failed, because the operating system gave no randomness.

    **Guarantees**

    - The distribution is exact, provided the bits of `os.urandom` are: integers decide, and nothing is rounded or cut
      off.
    - A try succeeds with probability Σ_o α^d(place, o) weights[o] / (top Σ_x α^d(place, x)). The last sum, over all
      integer points, is the same for every place. So the number of tries has one law for all places with one sum of
      discounted weights.
    - Before its end, a try depends on m and x − place alone, whose law is the same for every place. This covers all
      that it reads and does: where x is outside the box, it reads the weight at the nearest place of the box. The
      position of this weight shows in the caches, in nanoseconds: constant time is not claimed.
    - Every call uses new bits: no seed, no state that a caller can set, save or restore, no bits kept for later.
    - No error names a weight or the place.
    """
    if not isinstance(weights, np.ndarray) or weights.dtype != np.int64:
        raise TypeError("the weights need to be an array of int64; no noise was drawn")
    if not is_integer(top):
        raise TypeError("the largest weight needs to be a whole number; no noise was drawn")
    if top < 1:
        raise ValueError("the largest weight is below 1; no noise was drawn")
    centre, axes = _checked_box(alpha, steps, weights.shape, point)
    stream = _stream()
    points = _points(stream, alpha, axes, centre)
    while True:
        x = next(points)
        # A weight is read for every x, also outside the box, so that a try does the same for all places.
        inside = tuple(min(max(k, 0), s - 1) for k, s in zip(x, weights.shape, strict=True))
        weight = int(weights[inside])
        if not 0 <= weight <= top:
            raise ValueError("a weight is not from 0 to the largest one that was given; no noise was drawn")
        taken = _uniform(stream, int(top)) < weight
        if taken and inside == tuple(x):
            return inside


def clamped(alpha: Fraction, steps: Sequence[int], shape: Sequence[int], point: Sequence[int]) -> tuple[int, ...]:
    """Draw an integer point with a probability in proportion to α^d(place, o), and clamp it to a box.

    The place is `point`, and d is the distance of :func:`by_distance`. The draw takes steps 1 and 2 of that function
    once. Each coordinate beyond an end of the box is then moved to that end.

    Args:
        alpha: α, 0 < α < 1.
        steps: One number of at least 1 for every axis.
        shape: The shape of the box.
        point: The true position in the box, from 0.

    Returns:
        A place in the box.

    Raises:
        TypeError: α is not a fraction, or another argument is not an integer.
        ValueError: α or a step is out of range, the numbers of axes differ, or the place is not in the box.
        FitnoiseError: The sampler failed, because the operating system gave no randomness.

    **Guarantees**

    - The guarantees of :func:`by_distance` hold. All that is read and done before clamping has the same law for every
      place.
    """
    centre, axes = _checked_box(alpha, steps, shape, point)
    x = next(_points(_stream(), alpha, axes, centre))
    return tuple(min(max(k, 0), int(s) - 1) for k, s in zip(x, shape, strict=True))


def _points(stream: Iterator[int], alpha: Fraction, axes: list[int], centre: list[int]) -> Iterator[list[int]]:
    """Yield independent points x without end, over all integer points: P(x) ∝ α^d(centre, x), steps 1 and 2 above."""
    p, q = alpha.numerator, alpha.denominator
    counts = [math.prod(2 * m * v + 1 for v in axes) for m in range(len(axes) + 1)]
    mixture = []
    for j in range(len(counts)):
        # c_j α^j / (1 − α)^(j + 1) with α = p/q, times (q − p)^(axes + 1) / q, which is the same for all j.
        mixture.append(counts[0] * p**j * (q - p) ** (len(axes) - j))
        counts = [after - before for before, after in itertools.pairwise(counts)]
    sums = list(itertools.accumulate(mixture))
    while True:
        j = bisect_right(sums, _uniform(stream, sums[-1]))
        m = j + sum(_successes(stream, p, q) for _ in range(j + 1))
        yield [i + _uniform(stream, 2 * m * v + 1) - m * v for i, v in zip(centre, axes, strict=True)]


def _checked_box(
    alpha: Fraction, steps: Sequence[int], shape: Sequence[int], point: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the place and the steps as Python's integers; raise TypeError or ValueError as `clamped` does."""
    if not isinstance(alpha, Fraction):
        raise TypeError(f"alpha is a {type(alpha).__name__}; it needs to be a Fraction; no noise was drawn")
    if not all(is_integer(n) for n in (*steps, *point, *shape)):
        raise TypeError("steps, places and the shape need to be whole numbers; no noise was drawn")
    if not 0 < alpha < 1 or min(steps, default=0) < 1:
        raise ValueError("alpha is not between 0 and 1, or a step is below 1; no noise was drawn")
    if not len(steps) == len(point) == len(shape):
        raise ValueError("steps, place and box need equally many axes; no noise was drawn")
    if not all(0 <= i < s for i, s in zip(point, shape, strict=True)):
        raise ValueError("the place is not in the box; no noise was drawn")
    # Python's integers do not overflow in products of steps and of draws of any size.
    return [int(i) for i in point], [int(v) for v in steps]


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


def _stream() -> Iterator[int]:
    """Yield new words of 64 random bits without end, read a few at a time; unused words are discarded."""
    while True:
        yield from _random_words(_WORDS_PER_READ).view(np.uint64).tolist()


def _uniform(stream: Iterator[int], count: int) -> int:
    """Return a number of 0, …, count − 1, each equally likely.

    It is the first bits of some words; they are drawn again while they are no such number.
    """
    bits = (count - 1).bit_length()
    length = -(-bits // 64)
    while True:
        u = 0
        for _ in range(length):
            u = u << 64 | next(stream)
        u >>= 64 * length - bits
        # A remainder would favour small numbers, so u is drawn again instead.
        if u < count:
            return u


def _successes(stream: Iterator[int], p: int, q: int) -> int:
    """Return the number of successes of probability p/q before the first failure."""
    count = 0
    while _uniform(stream, q) < p:
        count += 1
    return count


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
