"""Find the costliest set of places that are pairwise compatible, exactly.

| symbol | meaning |
|---|---|
| x (n, n) | integer cost of two records by their places |
| τ | a set of pairwise compatible places |

**Statement.** Records of one unit in the places τ cost Σ_{i,j∈τ} x_ij. This module finds the largest such sum.

**Method.** If all places are compatible, a unit may have a record in each, and x ≥ 0, τ is the set of all places.
Otherwise the module compares all sets one by one, and returns None if there are too many, because the problem is
NP-hard. No heuristic is used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.arrays import Exact, Indices, Integers

MAX_SETS = 2**20
"""The largest number of sets that are compared, in about a second: all those of 20 places, or of up to 3 of 180."""

MAX_PLACES = 2**8
"""The largest number of places whose sets are compared."""

DIGIT = 40
"""The number of bits of a digit: 64 bits hold the sum of as many digits as there are pairs of places."""

Sets = list[tuple[Indices, Indices]]
"""The sets of m places for m = 1, 2, …, as two arrays.

The first has the index of the set of m − 1 places that each set extends, (N,). The second has its places, (N, m).
"""


def sets_of(compatible: NDArray[np.bool_], max_size: int, limit: int = MAX_SETS, parts: int = 1) -> Sets | None:
    """Return all sets of pairwise compatible places; None above `limit` sets, or for too many places.

    For each size there are two arrays: the index of the smaller set that each set extends, and its places.

    Args:
        compatible: True for compatible places, symmetric, (n, n), n ≥ 1; the diagonal is ignored.
        max_size: The largest number of places of a set in each part, at least 1.
        limit: The largest number of sets, at least 0.
        parts: The number of parts of equally many places, one after the other.
    """
    # Places are added in increasing order, so that each set is built once.
    later = np.triu(compatible, 1)
    if len(later) > min(limit, MAX_PLACES):
        return None
    sets, free = np.arange(len(later))[:, None], later
    out, remaining = [(sets[:, 0], sets)], limit - len(later)
    part_of = np.arange(len(later)) * parts // len(later)
    while len(out) < max_size * parts:
        if len(out) >= max_size:
            sizes = np.stack([(part_of[sets] == part).sum(axis=1) for part in range(parts)], axis=1)
            free = free & (sizes < max_size)[:, part_of]
        if not free.any():
            break
        remaining -= int(np.count_nonzero(free))
        if remaining < 0:
            return None
        parents, last = np.nonzero(free)
        sets = np.column_stack([sets[parents], last])
        out.append((parents, sets))
        free = free[parents] & later[last]
    return out


def max_cost_set(
    x: Exact, compatible: NDArray[np.bool_], max_size: int, limit: int = MAX_SETS, parts: int = 1
) -> int | None:
    """Return the largest Σ_{i,j∈τ} x_ij over sets τ of pairwise compatible places.

    Args:
        x: The costs, symmetric, (n, n), n ≥ 1, Python integers. Entries of incompatible places are ignored.
        compatible: True for compatible places, symmetric, (n, n).
        max_size: The largest number of places of a set in each part, at least 1.
        limit: The largest number of sets to compare.
        parts: The number of parts of equally many places, one after the other.

    **Guarantees**
        * The result is the maximum itself, for integers of any size. The function returns None if it would have to
          compare more sets than `limit`, or sets of more than `MAX_PLACES` places.
    """
    here = np.eye(len(x), dtype=bool)
    # Without negative costs, no place lowers the sum.
    if len(x) <= max_size * parts and (compatible | here).all() and (x >= 0).all():
        return int(x.sum())
    sets = sets_of(compatible, max_size, limit, parts)
    if sets is None:
        return None
    digits, maxima = _digits(np.where(here, x, 2 * x)), []
    sums = np.zeros((len(digits), len(x)), dtype=np.int64)
    for parents, places in sets:
        # A set costs as much as its parent, plus the entries of its last place with all places of the set.
        sums = sums[:, parents] + sum(digits[:, i, places[:, -1]] for i in places.T)
        maxima.append(_largest(sums))
    return max(maxima)


def _digits(x: Exact) -> Integers:
    """Return the digits of integers, the lowest first and only the highest below 0, (d, …)."""
    count = int(abs(x).max()).bit_length() // DIGIT + 1
    lower = [x >> DIGIT * d & 2**DIGIT - 1 for d in range(count - 1)]
    return np.stack([*lower, x >> DIGIT * (count - 1)]).astype(np.int64)


def _largest(sums: Integers) -> int:
    """Return the largest of integers given in digits, (d, N); a digit may exceed its range."""
    rest, value = sums.copy(), 0
    for d in range(len(rest) - 1):
        rest[d + 1] += rest[d] >> DIGIT
        rest[d] &= 2**DIGIT - 1
    # With all digits but the highest within range, integers compare digit by digit from the highest.
    for d in reversed(range(len(rest))):
        value = (value << DIGIT) + int(rest[d].max())
        rest = rest[:, rest[d] == rest[d].max()]
    return value
