"""Find the costliest way of one unit through places, where its records may move.

Records of one unit lie in different places, such as months. In each place a record has one of some cells, and values of
attributes that may differ there, such as a region. The joint cost x_ij of two records depends on their cells, and on
the attributes in which they agree. The largest x_ij of each pair bounds the cost of all of them. But no unit may have
all of these: of three records in two regions two agree.

**Method.** The module builds ways place by place, each a set of records with their cells and values. It discards a way
as soon as the way cannot be the costliest. A way C of cost v(C), with at most k later records D, costs

    v(C) + Σ_{j∈D} (a_j + Σ_{l∈D∖j} x_jl) ≤ v(C) + the k largest max(b_p, 0) of the places p after C.

Here a_j = x_jj + 2 Σ_{c∈C} x_jc. b_p has two terms: the largest a_j in p, and the k − 1 largest joint costs, from 0 on.
A joint cost is that of a record of p and one of another place after C. If this bound is at most the cost of a known
way, the module examines nothing beyond C. The result is the cost of the costliest way, exact for x in fewer digits,
rounded up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.arrays import Exact, Indices, Integers

DIGITS = 40
"""The number of bits of the integers of which ways are built up: 64 bits hold all their sums."""

FORBIDDEN_GAIN = -(2**60)
"""The gain of a record that may not occur next to one of a way; no sum of further gains makes up for it."""

MAX_PATH_PLACES = 2**7
"""The largest number of places through which ways are built up."""

MAX_PATHS = 2**20
"""The largest number of ways that are built up, in a second or two."""

MAX_NUMBERS_HELD = 2**23
"""The largest number of values that are held for ways at once."""

NUMBERS_PER_BATCH = 2**18
"""The largest number of values that are processed at once."""

MIN_GAIN_BITS = 12
"""The exponent of the least gain: ways are built up if a known one, plus its 2¹²-th part, costs less than `above`."""


def max_cost_path(
    x: Exact,
    compatible: NDArray[np.bool_],
    costs: Sequence[int],
    positions: Sequence[int],
    sizes: Sequence[int],
    max_size: int,
    above: int,
) -> int | None:
    """Return a bound on the cost of every way: the cost of the costliest one.

    Args:
        x: The joint cost of two records by their cells, symmetric (2^f, n, n), Python integers. The first axis is the
            set of attributes in which they agree, the a-th of them in bit a. Entries of pairs that may not occur
            together are ignored.
        compatible: True for pairs that may occur together, symmetric (n, n); no two in one place.
        costs: The cost of one record, (n,), at least 0.
        positions: The place of each cell, (n,), from 0 on, not decreasing; every place has a cell.
        sizes: The number of values of each attribute, (f,).
        max_size: The largest number of records of a way, at least 1.
        above: A known bound on the cost of every way.

    Returns:
        The bound. None if there are too many places, values or ways. Also None if a way that is built greedily costs
        at most slightly less than `above`.

    **Guarantees**
        * No way costs more.
        * One way costs as much, except for a part of 2⁻³⁹ of the largest number for each two records.
    """
    places, n = np.array(positions), len(costs)
    count = int(places[-1]) + 1
    max_size = min(max_size, count)
    kinds = math.prod(min(size, max_size) for size in sizes)
    if count > MAX_PATH_PLACES or n * n * kinds > MAX_NUMBERS_HELD:
        return None
    values = np.array(list(itertools.product(*(range(min(size, max_size)) for size in sizes))), dtype=np.intp).T
    agreeing = np.zeros((kinds, kinds), dtype=np.intp)
    for a, codes in enumerate(values):
        agreeing += (codes[:, None] == codes).astype(np.intp) << a
    # Pairs that cannot occur must not set the number of digits.
    x = np.where(compatible, x, 0)
    bits = max(int(max(*costs, abs(x).max())).bit_length() - DIGITS, 0)
    # Fewer digits, rounded up, so that the result stays a bound.
    single_costs = np.array([-(-v >> bits) for v in costs], dtype=np.int64)
    pair_gains = np.where(compatible, -(-x >> bits), FORBIDDEN_GAIN).astype(np.int64)

    def longer(gains: Integers, kind: Indices, cell: Indices) -> Integers:
        """Return the gains of further records, (N, kinds, n), after a record of a kind in a cell, (N,), joins."""
        return np.asarray(np.maximum(gains + 2 * pair_gains[agreeing[kind], cell[:, None]], FORBIDDEN_GAIN))

    start = np.broadcast_to(single_costs, (1, kinds, n))
    lower_bound = _climbed(longer, start, max_size)
    if lower_bound + (lower_bound >> MIN_GAIN_BITS) >= above >> bits:
        return None
    pairs = np.zeros((count, count), dtype=np.int64)
    np.maximum.at(pairs, (places[:, None], places), np.maximum(pair_gains.max(axis=0), 0))
    top, later = tops(pairs)
    starts, step, budget = (
        np.searchsorted(places, np.arange(count)),
        max(NUMBERS_PER_BATCH // (n * kinds), 1),
        MAX_PATHS,
    )
    ways = [(np.zeros(1, dtype=np.int64), start, np.zeros(1, dtype=np.intp), np.zeros((1, len(sizes)), dtype=np.intp))]
    for remaining in reversed(range(max_size)):
        next_ways, held = [], 0
        for value, gains, begin, used in ways:
            # Values that no record of the way has cost the same, so of each attribute only the first of them is tried.
            tried = np.asarray((used[:, None, :] >= values.T).all(axis=2))
            # No sum of later gains lifts a forbidden record above half of FORBIDDEN_GAIN.
            free = tried[:, :, None] & later[begin][:, None, places] & (gains > FORBIDDEN_GAIN >> 1)
            parent, kind, cell = np.nonzero(free)
            budget -= len(parent)
            if budget < 0:
                return None
            for i in range(0, len(parent), step):
                p, k, c = parent[i : i + step], kind[i : i + step], cell[i : i + step]
                total, after = value[p] + gains[p, k, c], places[c] + 1
                lower_bound = int(total.max(initial=lower_bound))
                if not remaining:
                    continue
                new_gains = longer(gains[p], k, c)
                best = np.maximum.reduceat(new_gains.max(axis=1), starts, axis=1)
                best = np.where(later[after], np.maximum(best + top[after, :, remaining - 1], 0), 0)
                alive = total - np.partition(-best, remaining - 1, axis=1)[:, :remaining].sum(axis=1) > lower_bound
                held += int(alive.sum()) * n * kinds
                if held > MAX_NUMBERS_HELD:
                    return None
                values_used = np.maximum(used[p], values[:, k].T + 1)
                next_ways.append((total[alive], new_gains[alive], after[alive], values_used[alive]))
        ways = next_ways
    return lower_bound << bits


def _climbed(longer: Callable[[Integers, Indices, Indices], Integers], first_gains: Integers, max_size: int) -> int:
    """Return a lower bound of the largest cost: that of the costliest set of records which a greedy search builds.

    One search starts in each cell, and adds the costliest record each time.
    """
    n = first_gains.shape[2]
    value, gains = first_gains[0, 0], longer(first_gains.repeat(n, axis=0), np.zeros(n, dtype=np.intp), np.arange(n))
    best_value = int(value.max())
    for _ in range(max_size - 1):
        flat = gains.reshape(n, -1)
        best = flat.argmax(axis=1)
        value = np.maximum(value + flat[np.arange(n), best], FORBIDDEN_GAIN)
        best_value = max(best_value, int(value.max()))
        gains = longer(gains, best // n, best % n)
    return best_value


def tops(partners: Integers) -> tuple[Integers, NDArray[np.bool_]]:
    """Return for each first place, and each place, the sums of its largest entries with places from the first one on.

    Args:
        partners: The entry of each pair of places, (n, n), at least 0, and 0 of a place and itself.

    Returns:
        The sums by first place, place, and number of entries, (n + 1, n, n + 1). And True for the places from each
        first place on, (n + 1, n).
    """
    n = len(partners)
    later = np.asarray(np.arange(n) >= np.arange(n + 1)[:, None])
    out = np.zeros((n + 1, n, n + 1), dtype=np.int64)
    out[:, :, 1:] = np.cumsum(-np.sort(-partners * later[:, None, :], axis=2), axis=2)
    return out, later
