"""The dearest way of one unit through places, where its records may move. Part of the trust kernel.

Records of one unit lie in different places, such as months. In each it has one of some cells, and values of attributes
that may be others there, such as a region. What two records cost together depends on their cells, and on the attributes
in which they agree: x_ij. The largest of these for each pair bounds what all of them cost, but no unit may have them
all: of three records in two regions two agree. So ways are built up place by place, each a set of records with their
cells and values, and are given up as soon as they cannot be the dearest. A way C, with k later records D at most, costs

    v(C) + Σ_{j∈D} (a_j + Σ_{l∈D∖j} x_jl) ≤ v(C) + the k largest max(b_p, 0) of the places p after C,

a_j = x_jj + 2 Σ_{c∈C} x_jc, and b_p the largest a_j there, and the k − 1 largest, from 0 on, of what a record of p and
one of another place after C may cost together. Where that is no more than a way that is known, nothing beyond C is
looked at. Values that no record of C has cost the same: of each attribute only the first of them is tried. What is left
is the dearest way, exact for x in fewer digits, rounded up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.arrays import Exact, Indices, Integers

DIGITS = 40
"""Bits of the whole numbers of which ways are built up: 64 hold all their sums."""

NEVER = -(2**60)
"""What a record gains that does not go with one of a way: whatever others add, it is far from any gain."""

MOST_PLACES = 2**7
"""Through which ways are built up."""

WAYS = 2**20
"""That are built up at most, in a second or two."""

TOGETHER = 2**23
"""Numbers that are held for them at once."""

AT_ONCE = 2**18
"""Numbers that are worked on at once."""

WORTH = 12
"""Ways are built up where a known one costs less than what is charged otherwise, by more than a part of 2¹²."""


def dearest_way(
    x: Exact,
    together: NDArray[np.bool_],
    own: Sequence[int],
    at: Sequence[int],
    sizes: Sequence[int],
    most: int,
    above: int,
) -> int | None:
    """What no way costs more than: the dearest; None of too many, or where it is hardly below `above`.

    Args:
        x: for every set of attributes in which two records agree, the a-th of them in bit a, what they cost together,
            by their cells, symmetric (2^f, n, n), Python integers; where two do not go together it does not matter.
        together: which go together, likewise; no two in one place.
        own: what one record costs, (n,), at least 0.
        at: the place of each cell, (n,), from 0 on, none below the one before; every place has a cell.
        sizes: how many values each attribute has, (f,).
        most: records of a way, at least 1.
        above: what no way exceeds, as is known.

    **Guarantees**
        * no way costs more; and one costs as much, but for a part of 2⁻³⁹ of the largest number for each two records.
    """
    places, n = np.array(at), len(own)
    count = int(places[-1]) + 1
    most = min(most, count)
    kinds = math.prod(min(size, most) for size in sizes)
    if count > MOST_PLACES or n * n * kinds > TOGETHER:
        return None
    values = np.array(list(itertools.product(*(range(min(size, most)) for size in sizes))), dtype=np.intp).T
    agreeing = np.zeros((kinds, kinds), dtype=np.intp)
    for a, of in enumerate(values):
        agreeing += (of[:, None] == of).astype(np.intp) << a
    x = np.where(together, x, 0)
    bits = max(int(max(*own, abs(x).max())).bit_length() - DIGITS, 0)
    alone = np.array([-(-v >> bits) for v in own], dtype=np.int64)
    beside = np.where(together, -(-x >> bits), NEVER).astype(np.int64)

    def longer(gains: Integers, kind: Indices, cell: Indices) -> Integers:
        """What further records add to ways, (N, kinds, n), with one of these values and in this cell each, (N,)."""
        return np.asarray(np.maximum(gains + 2 * beside[agreeing[kind], cell[:, None]], NEVER))

    first = np.broadcast_to(alone, (1, kinds, n))
    known = _climbed(longer, first, most)
    if known + (known >> WORTH) >= above >> bits:
        return None
    pairs = np.zeros((count, count), dtype=np.int64)
    np.maximum.at(pairs, (places[:, None], places), np.maximum(beside.max(axis=0), 0))
    top, later = tops(pairs)
    starts, step, left = np.searchsorted(places, np.arange(count)), max(AT_ONCE // (n * kinds), 1), WAYS
    ways = [(np.zeros(1, dtype=np.int64), first, np.zeros(1, dtype=np.intp), np.zeros((1, len(sizes)), dtype=np.intp))]
    for more in reversed(range(most)):
        found, held = [], 0
        for value, gains, begin, used in ways:
            tried = np.asarray((used[:, None, :] >= values.T).all(axis=2))
            free = tried[:, :, None] & later[begin][:, None, places] & (gains > NEVER >> 1)
            parent, kind, cell = np.nonzero(free)
            left -= len(parent)
            if left < 0:
                return None
            for i in range(0, len(parent), step):
                p, k, c = parent[i : i + step], kind[i : i + step], cell[i : i + step]
                reached, after = value[p] + gains[p, k, c], places[c] + 1
                known = int(reached.max(initial=known))
                if not more:
                    continue
                beyond = longer(gains[p], k, c)
                best = np.maximum.reduceat(beyond.max(axis=1), starts, axis=1)
                best = np.where(later[after], np.maximum(best + top[after, :, more - 1], 0), 0)
                alive = reached - np.partition(-best, more - 1, axis=1)[:, :more].sum(axis=1) > known
                held += int(alive.sum()) * n * kinds
                if held > TOGETHER:
                    return None
                met = np.maximum(used[p], values[:, k].T + 1)
                found.append((reached[alive], beyond[alive], after[alive], met[alive]))
        ways = found
    return known << bits


def _climbed(longer: Callable[[Integers, Indices, Indices], Integers], first: Integers, most: int) -> int:
    """What some way costs: the best of those that are had by adding the dearest to each record, and so on."""
    n = first.shape[2]
    value, gains = first[0, 0], longer(first.repeat(n, axis=0), np.zeros(n, dtype=np.intp), np.arange(n))
    known = int(value.max())
    for _ in range(most - 1):
        flat = gains.reshape(n, -1)
        best = flat.argmax(axis=1)
        value = np.maximum(value + flat[np.arange(n), best], NEVER)
        known = max(known, int(value.max()))
        gains = longer(gains, best // n, best % n)
    return known


def tops(beside: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Of places from one on, for each place, the sum of the so many largest it has beside it; and which these are.

    Args:
        beside: (n, n), at least 0, and 0 of a place and itself.

    Returns:
        (n + 1, n, n + 1), by where they begin, the place, and how many; (n + 1, n).
    """
    n = len(beside)
    later = np.asarray(np.arange(n) >= np.arange(n + 1)[:, None])
    out = np.zeros((n + 1, n, n + 1), dtype=np.int64)
    out[:, :, 1:] = np.cumsum(-np.sort(-beside * later[:, None, :], axis=2), axis=2)
    return out, later
