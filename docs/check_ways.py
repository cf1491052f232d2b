"""The cost of the ways of a unit through places, if its records may move: section 4 of docs/plan_format.md.

`check_sets.py` uses this file.
"""

from itertools import product
from math import inf, prod

import numpy as np


def by_ways(sectors, all_products, low, joint_cells, cells, max_records, stated):
    """Return the cost of the costliest way through the places of these cells, or infinity if there are too many ways.

    all_products: X by the exchangeable attributes in which two records agree; `low` if they do not go together.
    `stated` takes the place of the cost of a known way. If all ways cost less, the result is at most `stated`.
    """
    free = sorted(frozenset.union(*all_products) - (held := frozenset.intersection(*all_products)))
    places, place_numbers = np.unique(joint_cells[cells], return_inverse=True)
    max_records = min(max_records, len(places))
    room = [min(sectors.size[a], max_records) for a in free]
    n, kinds = len(cells), prod(room)
    if len(places) > 128 or n * n * kinds > 2**23 or (not free and n == len(places)):
        return inf
    values = [dict(zip(free, v, strict=True)) for v in product(*map(range, room))]
    same = [[held | {a for a in free if v[a] == w[a]} for w in values] for v in values]
    own_costs = [sectors.own[o] for o in cells]
    here = {s: x[np.ix_(cells, cells)] for s, x in all_products.items()}
    largest = max(*own_costs, *(abs(v) for x in here.values() for v in x.ravel().tolist() if v > low))
    shift = max(int(largest).bit_length() - 40, 0)
    up = {s: np.where(x > low, -(-x >> shift), -(2**60)).astype(np.int64) for s, x in here.items()}
    pairs = np.zeros((len(places), len(places)), dtype=np.int64)
    for x in up.values():
        np.maximum.at(pairs, (place_numbers[:, None], place_numbers), x * (place_numbers[:, None] != place_numbers))
    cost = longest(
        np.array([-(-v >> shift) for v in own_costs], np.int64),
        up,
        same,
        values,
        place_numbers,
        pairs,
        max_records,
        stated >> shift,
    )
    return inf if cost is None else cost << shift


def longest(own_costs, x, same, values, place_numbers, pairs, max_records, known_cost):
    """Return the largest cost of a way, or less than `known_cost` if all cost less; None above 2²⁰ ways."""
    best, seen = 0, 0
    ways = [(0, np.tile(own_costs, (len(values), 1)), -1, dict.fromkeys(values[0], 0))]
    for remaining in reversed(range(max_records)):
        longer = []
        for value, gains, last, seen_values in ways:
            for k, v in enumerate(values):
                here = np.flatnonzero((place_numbers > last) & (gains[k] > -(2**59)))
                if any(v[a] > seen_values[a] for a in v) or not len(here):
                    continue
                cost = value + gains[k, here]
                seen, best = seen + len(here), max(best, int(cost.max()))
                if remaining == 0:
                    continue
                after = np.maximum(gains + 2 * np.stack([x[s][here] for s in same[k]], axis=1), -(2**60))
                for i, o in enumerate(here.tolist()):
                    is_later = np.arange(len(pairs)) > place_numbers[o]
                    partner_gains = np.sort(pairs * is_later, axis=1)[:, ::-1][:, : remaining - 1].sum(axis=1)
                    top = [after[i][:, place_numbers == p].max() + partner_gains[p] for p in np.flatnonzero(is_later)]
                    if cost[i] + sum(sorted((max(t, 0) for t in top), reverse=True)[:remaining]) >= known_cost:
                        longer.append(
                            (int(cost[i]), after[i], place_numbers[o], {a: max(seen_values[a], v[a] + 1) for a in v})
                        )
            if seen > 2**20:
                return None
        ways = longer
    return best
