"""What no way of a unit through places exceeds, where its records may move: section 4 of docs/plan_format.md.

Used by `check_sets.py`, beside it.
"""

from itertools import product
from math import inf, prod

import numpy as np


def by_ways(sectors, every, low, along, cells, most, stated):
    """What the dearest way costs, through the places of these cells; infinite where there are too many to build up.

    every: X by the exchangeable attributes in which two records agree, `low` where they do not go together. What is
    stated takes the place of a known way: where all cost less, what is returned is no more than it.
    """
    free = sorted(frozenset.union(*every) - (held := frozenset.intersection(*every)))
    places, at = np.unique(along[cells], return_inverse=True)
    most = min(most, len(places))
    room = [min(sectors.size[a], most) for a in free]
    n, kinds = len(cells), prod(room)
    if len(places) > 128 or n * n * kinds > 2**23 or (not free and n == len(places)):
        return inf
    values = [dict(zip(free, v, strict=True)) for v in product(*map(range, room))]
    same = [[held | {a for a in free if v[a] == w[a]} for w in values] for v in values]
    own = [sectors.own[o] for o in cells]
    here = {s: x[np.ix_(cells, cells)] for s, x in every.items()}
    largest = max(*own, *(abs(v) for x in here.values() for v in x.ravel().tolist() if v > low))
    more = max(int(largest).bit_length() - 40, 0)
    up = {s: np.where(x > low, -(-x >> more), -(2**60)).astype(np.int64) for s, x in here.items()}
    pairs = np.zeros((len(places), len(places)), dtype=np.int64)
    for x in up.values():
        np.maximum.at(pairs, (at[:, None], at), x * (at[:, None] != at))
    found = longest(np.array([-(-v >> more) for v in own], np.int64), up, same, values, at, pairs, most, stated >> more)
    return inf if found is None else found << more


def longest(own, x, same, values, at, pairs, most, known):
    """The largest cost of a way, or less than what is known; None of more than 2²⁰ ways."""
    best, seen = 0, 0
    ways = [(0, np.tile(own, (len(values), 1)), -1, dict.fromkeys(values[0], 0))]
    for more in reversed(range(most)):
        longer = []
        for value, gains, last, met in ways:
            for k, v in enumerate(values):
                here = np.flatnonzero((at > last) & (gains[k] > -(2**59)))
                if any(v[a] > met[a] for a in v) or not len(here):
                    continue
                cost = value + gains[k, here]
                seen, best = seen + len(here), max(best, int(cost.max()))
                if more == 0:
                    continue
                after = np.maximum(gains + 2 * np.stack([x[s][here] for s in same[k]], axis=1), -(2**60))
                for i, o in enumerate(here.tolist()):
                    left = np.arange(len(pairs)) > at[o]
                    beside = np.sort(pairs * left, axis=1)[:, ::-1][:, : more - 1].sum(axis=1)
                    top = [after[i][:, at == p].max() + beside[p] for p in np.flatnonzero(left)]
                    if cost[i] + sum(sorted((max(t, 0) for t in top), reverse=True)[:more]) >= known:
                        longer.append((int(cost[i]), after[i], at[o], {a: max(met[a], v[a] + 1) for a in v}))
            if seen > 2**20:
                return None
        ways = longer
    return best
