"""Choose among finitely many results with exact probabilities. Part of the trust kernel, in the annex.

**Purpose.** A question with finitely many answers gets a drawn answer, not a count with added noise. `categorical`
chooses among results with probabilities given as integers. `by_distance` and `clamped` draw a point of a box near the
true one.

**Randomness.** The first argument of each function, `read_words`, returns a requested number of words of 64 random
bits. A measurement passes the words of the operating system (:func:`fitnoise.kernel.noise.choose`). This module draws
none of its own, so planning can import it.

**Trust.** A mistake here can change the law of an answer, and so break the privacy promise of a question.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from fitnoise.kernel.arrays import Integers
from fitnoise.kernel.checks import is_integer

WordReader = Callable[[int], Integers]
"""The type of a function that returns the given number of words of 64 random bits, as int64."""

_BLOCK = 2**14
"""The number of tries at once: the arrays of a round fit in a processor's cache."""

_MAX_CHOICES = 2**60
"""A number of choices above the size of any array."""

_WORDS_PER_READ = 32
"""The number of words read at once, where they are used one by one."""


def categorical(read_words: WordReader, weights: Sequence[int] | npt.NDArray[Any]) -> int:
    """Draw one index i with probability weights[i] / Σ weights, exactly.

    This is one draw of `categoricals`, with the same argument, errors and guarantees.
    """
    return int(categoricals(read_words, weights, 1)[0])


def categoricals(read_words: WordReader, weights: Sequence[int] | npt.NDArray[Any], size: int) -> Integers:
    """Draw `size` independent indices, each i with probability weights[i] / Σ weights, exactly.

    Let N = Σ weights, and let 2^b be the smallest power of two that is at least N. A try takes new random bits, the
    first b of which are an integer u, and succeeds if u < N. It gives the number of partial sums w_0, w_0 + w_1, … that
    are at most u. *Proof.* Given u < N, u is uniform on {0, …, N − 1}, and exactly weights[i] of these numbers give i.
    ∎

    Args:
        read_words: The source of random words.
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

    - The distribution is exact and all draws are independent, provided the random words are: nothing is
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
    if size < 0:
        raise ValueError("a size is below 0; no noise was drawn")
    if size >= _MAX_CHOICES:
        raise ValueError("a size is beyond what an array can hold; no noise was drawn")
    bits = (sums[-1] - 1).bit_length()
    length = max(1, -(-bits // 64))
    # The words of u are compared with these, as the first bits of some words.
    ends = [end << (64 * length - bits) for end in sums]
    tops = np.array([end >> 64 * (length - 1) for end in ends if end >> 64 * length == 0], dtype=np.uint64)
    draws = np.empty(int(size), dtype=np.int64)
    done = 0
    while done < draws.size:
        random_bits = read_words(length * min(_BLOCK, draws.size - done)).view(np.uint64).reshape(-1, length)
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
    read_words: WordReader,
    alpha: Fraction,
    steps: Sequence[int],
    weights: npt.NDArray[np.int64],
    top: int,
    point: Sequence[int],
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
        read_words: The source of random words.
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

    - The distribution is exact, provided the random words are: integers decide, and nothing is rounded or cut
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
    stream = _stream(read_words)
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


def clamped(
    read_words: WordReader, alpha: Fraction, steps: Sequence[int], shape: Sequence[int], point: Sequence[int]
) -> tuple[int, ...]:
    """Draw an integer point with a probability in proportion to α^d(place, o), and clamp it to a box.

    The place is `point`, and d is the distance of :func:`by_distance`. The draw takes steps 1 and 2 of that function
    once. Each coordinate beyond an end of the box is then moved to that end.

    Args:
        read_words: The source of random words.
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

    - The guarantees of :func:`by_distance` hold, except those about tries, since one draw is enough. All that is read
      and done before clamping has the same law for every place.
    """
    centre, axes = _checked_box(alpha, steps, shape, point)
    x = next(_points(_stream(read_words), alpha, axes, centre))
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


def _stream(read_words: WordReader) -> Iterator[int]:
    """Yield new words of 64 random bits without end, read a few at a time; unused words are discarded."""
    while True:
        yield from read_words(_WORDS_PER_READ).view(np.uint64).tolist()


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
