"""The one door through which chance enters: exact discrete Gaussian noise.

Nothing else in fitnoise draws a random number that a release contains. There is no seed to give, no generator to
choose and no fallback: if the system's randomness fails, no noise is drawn and an error says so. Tests that need the
same noise twice replace these functions from outside.

Releases draw with `discrete_gaussians`, whose every step is below. `reference_gaussian` is OpenDP's sampler behind
the same checks, a hundred times slower: written by others, in another language, from another source of bits. The two
share no code that draws; the tests hold both to the exact law and to each other.

**The algorithm.** N_Z(0, σ²) by rejection from a two-sided geometric staircase, as in Algorithms 2 and 3 of Canonne,
Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020) [CKS20], with their ratio 1/e replaced by
1/2, which bits give exactly, and their acceptances made in one. Let t = 2^k ≥ (32/27) σ. Draw

    V with P(V = v) = 2^(−v−1);   R uniform on {0, …, t − 1};   a fair sign;   u uniform on [0, 1);

put X = V t + R and return ±X if u < p, with p = 2^V exp(−X²/(2σ²)); otherwise, or for a negative zero, start anew.

*Proof.* p is a probability: X ≥ V t gives X²/(2σ²) ≥ V² (32/27)²/2 = V² 512/729 ≥ V ln 2, as V is whole and
ln 2 < 0.6932 < 512/729. Every x ≥ 0 has one V and one R, so each of ±x comes out of one try with probability
½ · 2^(−V−1)/t · 2^V exp(−x²/(2σ²)) = exp(−x²/(2σ²))/(4t), and zero, of one sign only, with 1/(4t): in proportion to
N_Z(0, σ²). Tries are independent. ∎ A try succeeds with probability 0.25 to 0.53, whatever σ.

**The decision u < p** is the only one that is not a matter of bits, and no rounding decides it. Of u, 40 bits are
drawn. `_chance` computes p·2^40 in floating point to within half a unit, proven there from the four operations of IEEE
754 alone: no library's exponential is relied on. Where the 40 bits leave u within `_MARGIN` = 16 units of p (2^−35 of
tries), `_settle` repeats the try in integers of any size, with as many more bits of u, and of V, as it takes. So the
law is exact, provided floating point errs by less than 32 times what is proven of it.

What is relied on besides:

- **The scale.** A float is a dyadic rational, so the scale sampled with is the scale given, to the last bit.
- **The bits.** `os.urandom`: the operating system's generator, asked anew in every round of tries. Nothing is kept for
  later, so a fork cannot repeat it. OpenDP's published builds draw from OpenSSL's private generator
  (`RAND_priv_bytes`), which is seeded by the operating system and reseeds itself after a fork.
- **The range.** Integers here stay below 2^61 or are unbounded, as OpenDP's are; draws are clamped to int64 at the very
  end. With scale ≤ 2^55 a bound lies at least 2^8 standard deviations out, and is reached with probability
  < 2 exp(−2^15): less than 10^-14000.
- **Time.** How long a draw takes depends on the scale and on the noise itself, never on data, which are not here.

OpenDP before 0.14.2 divided rationals wrongly and sampled something else (variance 4.11 at scale 2); the test battery
is there to notice should either sampler do so again.

Why the noise is drawn on its own and handed back, instead of asking OpenDP to add it to the counts: that sum saturates,
and a saturating sum on top of integers that have wrapped is no post-processing of the exact mechanism. Noise drawn on
its own can be added in the arithmetic of the measurement itself, whatever that is.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp

from fitnoise.errors import FitnoiseError
from fitnoise.strategy import MAX_SCALE

__all__ = ["MAX_SCALE", "discrete_gaussian", "discrete_gaussians", "reference_gaussian"]

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_BLOCK = 2**14
"""Tries at once: what a round works on fits in a processor's cache."""

_CHUNK = 2**16
"""Draws per call of OpenDP: a few MB of Python integers at a time, in calls of about a second."""

_V_BITS = 23
_U_BITS = 40
"""A try's first word of 64 bits is a sign, the first bits of u, and the bits of V; its second holds R."""

_MARGIN = 16
"""In units of 2^−40: decisions nearer to their threshold are made in integers. 32 times what `_chance` can err by."""

_GUARD = 16
"""Bits with which `_exp_bounds` computes beyond those it returns: with fewer it is no less right, only less sharp."""

_TOO_MANY = 2**60
"""Draws: more than any array holds."""

_INT64 = np.iinfo(np.int64)

_TAYLOR = (1 / 720, -1 / 120, 1 / 24, -1 / 6, 1 / 2, -1.0, 1.0)
"""exp(−s) to degree 6, highest power first."""

dp.enable_features("contrib")  # where OpenDP keeps what has not passed its whole vetting; make_gaussian is there


# --- What others call -------------------------------------------------------------------------------------


def discrete_gaussian(scale: float, size: int) -> Integers:
    """Draw `size` independent integers from N_Z(0, scale²): P(k) ∝ exp(−k² / (2 scale²)).

    One run of `discrete_gaussians`, with the same guarantees.

    Args:
        scale: The parameter σ, in units of the measurement: 0 < σ ≤ 2^55. Taken exactly.
        size: How many, at least 0.

    Returns:
        int64 array of shape (size,).

    Raises:
        TypeError: The scale is no `float` or `int`, or the size no `int` or `numpy.integer` (truth values are
            neither).
        ValueError: The scale is not finite, not positive, larger than 2^55, or a whole number that no float
            equals; or the size is negative, or more than an array can hold.
        FitnoiseError: The sampler failed, for want of randomness from the operating system.
    """
    sigma, count = _one(scale, size)
    return _draw(np.array([sigma]), np.array([count], dtype=np.int64))


def discrete_gaussians(scales: Floats, sizes: npt.NDArray[np.integer]) -> Integers:
    """Draw `sizes[i]` independent integers from N_Z(0, scales[i]²) for every i, one run after the other.

    Costs 0.07 to 0.15 µs a draw where there are thousands, in one run or in many, and at least 0.1 ms a call
    (`benchmarks/sampler.py`). Memory beside the result: a few MB, and 100 bytes a run.

    Args:
        scales: float64, shape (K,): the parameters σ, in units of the measurements: 0 < σ ≤ 2^55. Taken exactly.
        sizes: Integers, shape (K,): how many of each, at least 0.

    Returns:
        int64 array of shape (Σ sizes,).

    Raises:
        TypeError: The scales are no array of float64 with one axis, or the sizes no array of integers with one axis.
        ValueError: There are more of the one than of the other; a scale is not finite, not positive, or larger than
            2^55; a size is negative, or together they are more than an array can hold.
        FitnoiseError: The sampler failed, for want of randomness from the operating system.

    **Guarantees**

    - Exact distribution, all draws independent, on the assumptions in the head of this file: adding the result to
      integers makes a measurement of squared sensitivity s², in units of the scales, exactly s²/2-zCDP (CKS20,
      Theorem 14).
    - The variance is at most σ², and equals it to 1e-6 relative from σ = 1 up (CKS20, Section 3).
    - Every call is fresh: no seed, no state that a caller can set, save or restore, no bits kept for later.
    - All of the noise or none: an error hands out nothing.
    - No error names a scale.
    """
    if not isinstance(scales, np.ndarray) or scales.dtype != np.float64 or scales.ndim != 1:
        raise TypeError("the scales need to be an array of float64 with one axis; no noise was drawn")
    if not isinstance(sizes, np.ndarray) or sizes.dtype.kind not in "iu" or sizes.ndim != 1:
        raise TypeError("the sizes need to be an array of whole numbers with one axis; no noise was drawn")
    if scales.size != sizes.size:
        raise ValueError("there need to be as many scales as sizes; no noise was drawn")
    own = np.array(scales)  # what is checked is what is used, and no subclass
    counts = np.array(sizes).astype(object)
    _check(own.min(initial=1.0), own.max(initial=1.0), counts.min(initial=0), counts.sum())
    return _draw(own, counts.astype(np.int64))


def reference_gaussian(scale: float, size: int) -> Integers:
    """The same law as `discrete_gaussian`, arguments and errors too, drawn by OpenDP at about 10 µs a draw.

    An independent second sampler to compare with. Releases do not use it, and neither sampler stands in for the other.

    **Guarantees**

    - Exact distribution: OpenDP's sampler is Algorithm 3 of CKS20 in exact integer and rational arithmetic.
    - No error names the scale.
    """
    sigma, count = _one(scale, size)
    noise = np.empty(count, dtype=np.int64)
    for start in range(0, count, _CHUNK):
        part = noise[start : start + _CHUNK]
        part[:] = _opendp(sigma, part.size)
    return noise


def _one(scale: float, size: int) -> tuple[float, int]:
    """A scale and a size as they are used, or the error that says why not."""
    if isinstance(scale, bool) or not isinstance(scale, float | int):
        raise TypeError(f"the scale is a {type(scale).__name__}; it needs to be a float; no noise was drawn")
    if isinstance(size, bool) or not isinstance(size, int | np.integer):
        raise TypeError(f"the size is a {type(size).__name__}; it needs a whole number; no noise was drawn")
    _check(scale, scale, int(size), int(size))
    if float(scale) != scale:
        raise ValueError("the scale is a whole number that no float equals; no noise was drawn")
    return float(scale), int(size)


def _check(smallest: float, largest: float, fewest: int, together: int) -> None:
    """Refuse scales and sizes out of range."""
    if not smallest > 0:  # also refuses NaN
        raise ValueError("a scale is not a number above 0; no noise was drawn")
    if not largest <= MAX_SCALE:
        raise ValueError("a scale is above 2^55, where noise might not fit in 64 bits; no noise was drawn")
    if fewest < 0:
        raise ValueError("a size is below 0; no noise was drawn")
    if together >= _TOO_MANY:
        raise ValueError("a size is beyond what an array can hold; no noise was drawn")


# --- The sampler ------------------------------------------------------------------------------------------


def _draw(scales: Floats, sizes: Integers) -> Integers:
    """All runs, one after the other, shape (Σ sizes,).

    Every place of the result gets the first success among tries of its own. A round makes one try for each of up to
    `_BLOCK` places; those without success stay for the next, and the next places fill the gaps.
    """
    widths = _widths(scales)
    ends = np.cumsum(sizes)
    noise = np.empty(int(sizes.sum()), dtype=np.int64)
    places = runs = np.empty(0, dtype=np.int64)
    begun = 0  # places before this one have been tried for
    while begun < noise.size or places.size:
        until = min(noise.size, begun + _BLOCK - places.size)
        if begun < until:
            places = np.concatenate([places, np.arange(begun, until)])
            runs = np.concatenate([runs, _runs(ends, sizes, begun, until)])
            begun = until
        words = _words(2 * places.size).reshape(2, -1)
        values, accepted, open_ = _try(words[0], words[1], scales[runs], widths[runs])
        for i in np.flatnonzero(open_):
            run = runs[i]
            settled = _settle(int(words[0, i]), int(words[1, i]), float(scales[run]), int(widths[run]))
            if settled is not None:
                values[i], accepted[i] = settled, True
        done = np.flatnonzero(accepted)
        noise[places[done]] = values[done]
        left = np.flatnonzero(~accepted)
        places, runs = places[left], runs[left]
    return noise


def _runs(ends: Integers, sizes: Integers, start: int, stop: int) -> Integers:
    """The run of each place in start, …, stop − 1, where run i has sizes[i] places, the last one before ends[i]."""
    first = int(np.searchsorted(ends, start, side="right"))
    last = int(np.searchsorted(ends, stop, side="left")) + 1
    here = np.minimum(ends[first:last], stop) - np.maximum(ends[first:last] - sizes[first:last], start)
    return np.repeat(np.arange(first, last), here)


def _widths(scales: Floats) -> Integers:
    """The power of two t ≥ (32/27) σ for every scale, between 1 and 2^56, shape (K,).

    With σ = m 2^e and ½ ≤ m < 1, both exact: 2^e ≥ (32/27) σ if m ≤ 27/32, and 2^(e+1) > 2σ always.
    """
    mantissas, exponents = np.frexp(scales)
    return np.int64(1) << np.maximum(exponents.astype(np.int64) + (mantissas > 27 / 32), 0)


def _words(count: int) -> Integers:
    """That many words of 64 random bits from the operating system, never fewer."""
    failure, drawn = None, b""
    try:
        drawn = os.urandom(8 * count)
    except (OSError, NotImplementedError) as error:
        failure = type(error).__name__
    if failure is None and len(drawn) != 8 * count:
        failure = "too few bits"
    if failure is not None:  # raised out here: nothing of the error is kept
        raise FitnoiseError(f"the noise sampler failed ({failure}); no noise was drawn")
    return np.frombuffer(drawn, dtype=np.int64)


def _try(first: Integers, second: Integers, scales: Floats, widths: Integers) -> tuple[Integers, Flags, Flags]:
    """One try from each pair of random words: ±X, whether it is accepted, and whether that is still open.

    Arrays of one shape. First word, from the top: 1 bit of sign, 40 of u, 23 of V, which is the number of zeros they
    end with, or more if they are all zeros. Second word: R in its lowest k bits.

    With V ≥ 23, γ ≥ 371, and p and what `_chance` says of V = 23 are both below 2^−68, as shown there: such a try is
    refused, whatever V is, unless u is within the margin of zero, and then it is open.

    Whole numbers stay below 24 · 2^56 < 2^61.
    """
    weights = first | (1 << _V_BITS)
    weights &= -weights  # 2^V: the lowest bit that is one, at most 2^23
    x = np.bitwise_count(weights - 1).astype(np.int64) * widths + (second & (widths - 1))
    units = (first >> _V_BITS) & ((1 << _U_BITS) - 1)  # u lies in [units, units + 1) / 2^40
    sign = first >> 63  # 0, or −1 for a negative one
    gap = _chance(x, scales, weights) - units  # p − u lies in (gap − 1, gap] / 2^40, to within half a unit
    once = x + sign >= 0  # not a negative zero
    accepted = (gap >= 1 + _MARGIN) & once
    refused = (gap <= -_MARGIN) | ~once
    return (x ^ sign) - sign, accepted, ~(accepted | refused)


def _chance(x: Integers, scales: Floats, weights: Integers) -> Floats:
    """p·2^40 = 2^(40+V) exp(−γ), γ = x²/(2σ²), within a quarter, for V t ≤ x < (V+1) t and V ≤ 23.

    With s = γ/256: the Taylor polynomial of exp(−s), squared eight times. Beyond γ = 64 its value there.

    *Proof.* Let ε = 2^−53: each operation +, −, ×, ÷ and each conversion is exact but for a factor between 1 − ε and
    1 + ε; powers of two are exact. Terms of order ε² are left out; they are below 2^−80.

    p is small where γ is not: V² 512/729 ≤ γ gives V ln 2 ≤ 0.8272 √γ ≤ γ/4 + 0.6843 (means), so p ≤ 2 exp(−3γ/4).
    Hence p ≤ 1 (as known), γp ≤ 8/(3e) < 1 and γ⁷p ≤ 2 (28/(3e))⁷ < 3 · 7!.

    For γ ≤ 64, s ≤ 1/4:

    1. s has a relative error of 5ε (x twice, the quotient twice, the square), which moves exp(−s) by 5ε s relative.
    2. The polynomial leaves out at most s⁷/7!, less than 1.3 s⁷/7! relative to exp(−s) > 0.77.
    3. Horner's rule y_i = c_i + s y_{i+1} errs by e_i ≤ e_{i+1}/4 + ε (|c_i| unless dyadic + |y_{i+1}|/4 + |y_i|), with
       |y_i| ≤ 1, and ≤ ½ from i = 2 on: e_2 ≤ 1.5ε, e_1 ≤ 1.5ε, e_0 ≤ 1.7ε, less than 3ε relative.
    4. Eight squarings multiply relative errors by 256 and add 255ε.

    Together p is off by at most p (256 · (5ε γ/256 + 1.3 γ⁷/(7! 2^56) + 3ε) + 255ε) ≤ 1028ε + 4 · 2^−48 < 2^−42.

    For γ > 64, p ≤ 2 exp(−48), and what is computed is 2^V exp(−64) but for a factor between 1 ± 2^−10: both are below
    2^−68. Where x/σ or its square exceeds the largest float, infinity is cut like the rest.

    So p·2^40 is off by less than 1/4. Subtracting whole units below 2^40 adds at most 2^−13. Were rounding not to
    nearest, ε would double. ∎
    """
    with np.errstate(over="ignore"):
        s = x.astype(np.float64) / scales
        s *= s
    s *= 2.0**-9
    np.minimum(s, 0.25, out=s)
    y = np.full_like(s, _TAYLOR[0])
    for coefficient in _TAYLOR[1:]:
        y *= s
        y += coefficient
    for _ in range(8):
        y *= y
    y *= weights
    y *= 2.0**_U_BITS
    return y


# --- The same try in integers -----------------------------------------------------------------------------


def _settle(first: int, second: int, scale: float, width: int) -> int | None:
    """What the try of these two words (as signed integers) comes to, without floating point: a draw, or nothing."""
    low = first & ((1 << _V_BITS) - 1)
    v = _zeros(low) if low else _V_BITS + _more_zeros()
    x = v * width + (second & (width - 1))
    if (first < 0 and x == 0) or not _below((first >> _V_BITS) & ((1 << _U_BITS) - 1), v, x, scale):
        return None
    return max(int(_INT64.min), min(int(_INT64.max), -x if first < 0 else x))


def _zeros(word: int) -> int:
    """How many zeros end a word that has a one."""
    return (word & -word).bit_length() - 1


def _more_zeros() -> int:
    """A fresh V: zeros before the first one in a sequence of random bits."""
    zeros = 0
    while not (word := int(_words(1)[0])):
        zeros += 64
    return zeros + _zeros(word)


def _below(units: int, v: int, x: int, scale: float) -> bool:
    """Decide u < p = 2^v exp(−x²/(2σ²)), where the first 40 bits of u are `units` and further ones are drawn as needed.

    With n bits, u lies in [units, units + 1)/2^n, and p in [low, high]/2^n by `_exp_bounds`. What is decided is right
    because these are disjoint. u = p has probability zero, so the loop ends.
    """
    top, bottom = scale.as_integer_ratio()
    bits = _U_BITS
    while True:
        low, high = _exp_bounds((x * bottom) ** 2, 2 * top**2, bits + v)
        if units + 1 <= low:
            return True
        if units >= high:
            return False
        units = units << 64 | int(_words(1)[0]) % 2**64
        bits += 64


def _exp_bounds(numerator: int, denominator: int, bits: int) -> tuple[int, int]:
    """Integers with low ≤ 2^bits exp(−γ) ≤ high, γ = numerator/denominator ≥ 0, not more than a few units apart.

    Interval arithmetic on integers: every lower end is rounded down and every upper end up. With s = γ/2^q < 1/8, the
    Taylor series of exp(−s) alternates and decreases, so what is left out is at most the next term; its sum is then
    squared q times. For γ ≥ bits, exp(−γ) < 2^−bits.
    """
    if numerator >= bits * denominator:
        return 0, 1
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
        low, high = (low - term_high, high - term_low) if k % 2 else (low + term_low, high + term_high)
    low, high = low - term_high, high + term_high
    for _ in range(q):
        low, high = low * low // one, -(-high * high // one)
    return low >> (precision - bits), -(-high >> (precision - bits))


# --- The other sampler ------------------------------------------------------------------------------------


def _opendp(scale: float, size: int) -> Integers:
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l2_distance(T=float)
    failure = None
    try:
        drawn = dp.m.make_gaussian(*space, scale=scale)([0] * size)
    except dp.OpenDPException as error:
        failure = error.variant
    if failure is not None:  # raised out here: the message of OpenDP, which may name the scale, is not kept
        raise FitnoiseError(f"the noise sampler failed ({failure}); no noise was drawn")
    return np.fromiter(drawn, dtype=np.int64, count=size)  # refuses fewer draws than asked for
