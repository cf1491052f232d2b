"""The dearest set of places of which any two go together, exact. Part of the trust kernel.

Records of one unit that lie in different places cost Σ_{i,j∈τ} x_ij, τ the set of these places and x a matrix of whole
numbers. The largest of these sums is NP-hard to find in general. So it is found where that takes few steps, and nowhere
else: where all places go together and no number is below 0 it is that of all of them; otherwise all sets there are are
looked at, one by one, if they are not too many. Nothing is searched for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.arrays import Exact, Indices, Integers

MAX_SETS = 2**20
"""Sets that are looked at one by one, in about a second: all those of 20 places, or of up to 3 of 180."""

MAX_PLACES = 2**8
"""Places of which sets are looked at."""

DIGIT = 40
"""Bits of a digit: 64 hold the sum of as many as there are pairs of places."""

Sets = list[tuple[Indices, Indices]]
"""For m = 1, 2, …: of each set of m places the one of m − 1 that it adds its last to, (N,), and its places, (N, m)."""


def sets_of(together: NDArray[np.bool_], most: int, limit: int = MAX_SETS) -> Sets | None:
    """All sets of 1 to `most` places of which any two go together; None of more than `limit`, or of too many places.

    Args:
        together: symmetric (n, n), n ≥ 1; of a place and itself it does not matter.
        most: at least 1.
        limit: at least 0.
    """
    later = np.triu(together, 1)
    if len(later) > min(limit, MAX_PLACES):
        return None
    sets, free = np.arange(len(later))[:, None], later
    out, left = [(sets[:, 0], sets)], limit - len(later)
    while len(out) < most and free.any():
        left -= int(np.count_nonzero(free))
        if left < 0:
            return None
        parents, last = np.nonzero(free)
        sets = np.column_stack([sets[parents], last])
        out.append((parents, sets))
        free = free[parents] & later[last] if len(out) < most else free
    return out


def dearest_set(x: Exact, together: NDArray[np.bool_], most: int, limit: int = MAX_SETS) -> int | None:
    """The largest Σ_{i,j∈τ} x_ij over sets τ of 1 to `most` places of which any two go together.

    Args:
        x: symmetric (n, n), n ≥ 1, Python integers; where two places do not go together it does not matter.
        together: symmetric (n, n), likewise.
        most: at least 1.
        limit: at most so many sets are looked at.

    **Guarantees**
        * the maximum itself, whatever the size of the integers; or None, where there are more sets to look at.
    """
    here = np.eye(len(x), dtype=bool)
    if len(x) <= most and (together | here).all() and (x >= 0).all():
        return int(x.sum())
    sets = sets_of(together, most, limit)
    if sets is None:
        return None
    digits, found = _digits(np.where(here, x, 2 * x)), []
    sums = np.zeros((len(digits), len(x)), dtype=np.int64)
    for parents, places in sets:
        sums = sums[:, parents] + sum(digits[:, i, places[:, -1]] for i in places.T)
        found.append(_largest(sums))
    return max(found)


def _digits(x: Exact) -> Integers:
    """Digits of integers, the lowest first and only the highest below 0, (d, …)."""
    count = int(abs(x).max()).bit_length() // DIGIT + 1
    lower = [x >> DIGIT * d & 2**DIGIT - 1 for d in range(count - 1)]
    return np.stack([*lower, x >> DIGIT * (count - 1)]).astype(np.int64)


def _largest(sums: Integers) -> int:
    """The largest of integers in digits, which may be larger than digits are, (d, N)."""
    rest, value = sums.copy(), 0
    for d in range(len(rest) - 1):
        rest[d + 1] += rest[d] >> DIGIT
        rest[d] &= 2**DIGIT - 1
    for d in reversed(range(len(rest))):
        value = (value << DIGIT) + int(rest[d].max())
        rest = rest[:, rest[d] == rest[d].max()]
    return value
