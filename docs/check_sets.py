"""What sets of records cost one unit, none of which share a place: the third bound of docs/plan_format.md, section 4.

Used by `check_plan.py`, beside it.
"""

from math import prod

import numpy as np

MOST = 2**20


def prices(sectors, unit, along, most, best, cap):
    """What a unit's records cost by the joint cells they lie in: one number, or nothing where sets are too many.

    along: the joint cell of every cell. most: records in each. best: by cap and joint cell the dearest X beside a cell.
    """
    beside = {c: best[cap, frozenset(), c] for c in along.tolist()}
    shape, slots = [sectors.size[a] for a in sectors.axes], min(most, unit.records)
    places = [(c, j) for c in sorted(beside) for j in range(slots)]
    if len(places) ** 2 > MOST:
        return
    common = np.zeros(sectors.cells, int)
    for a, i in zip(sectors.axes, np.indices(shape).reshape(len(shape), sectors.cells), strict=True):
        common = common * sectors.size[a] + i if a in unit.fixed else common
    room, found = MOST // prod(sectors.size[a] for a in unit.fixed.intersection(sectors.axes)), []
    for group in sorted({*common.tolist()}):
        cells = {c: np.flatnonzero((common == group) & (along == c)).tolist() for c in beside}
        near = {(c, d): [beside[d][o] for o in cells[c] if beside[d][o] is not None] for c in cells for d in cells}
        near = {pair: max(x) for pair, x in near.items() if x}
        x = {(p, q): near[p[0], q[0]] for p in places for q in places if p != q and (p[0], q[0]) in near}
        x |= {(p, p): max(sectors.own[o] for o in cells[p[0]]) for p in places}
        largest = all_of(x, places, unit.records) or one_by_one(x, places, unit.records, room)
        if largest is None:
            return
        found.append(largest)
    yield max(found)


def all_of(x, places, most):
    """The sum of all, where all go together and nothing is below 0."""
    whole = len(places) <= most and len(x) == len(places) ** 2 and min(x.values()) >= 0
    return sum(x.values()) if whole else None


def one_by_one(x, places, most, room):
    """The largest sum over all sets of places of which any two go together; None of more than there is room for."""
    if len(places) > min(256, room):
        return None
    best, sets, seen = 0, [((), 0, places)], 0
    for _ in range(most):
        longer = []
        for chosen, total, free in sets:
            seen += len(free)
            if seen > room:
                return None
            for i, p in enumerate(free):
                value = total + x[p, p] + 2 * sum(x[p, q] for q in chosen)
                best = max(best, value)
                longer.append(((*chosen, p), value, [q for q in free[i + 1 :] if (p, q) in x]))
        sets = longer
    return best
