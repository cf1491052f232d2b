"""Sets of records of one unit: what they cost, and what they prove. Sections 4 and 8 of docs/plan_format.md.

Used by `check_plan.py` and `check_bound.py`, beside it.
"""

from itertools import combinations
from math import prod

import numpy as np
from check_plan import Unknown, need

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


def of_sets(p, sets, grid, unit):
    """By sector the root of what the weights of sets of records are."""
    need(
        all(most == 1 and names <= {*grid.axes} for names, most in unit.caps),
        "several records of a unit alike",
        Unknown,
    )
    need(not unit.replaces and len(p) == len(sets), "there is a weight for each set of records")
    at = dict(zip(grid.axes, np.indices(grid.shape).reshape(len(grid.shape), -1), strict=True))
    for alike, *cells in sets:
        need(type(alike) is bool and 0 < len(cells) <= unit.records, "a set of records is none of one unit")
        need(min(cells) >= 0 and len({*cells}) == len(cells), "a set of records is none of cells")
        for i, j in combinations(cells, 2):
            differ = {a for a, x in at.items() if x[i] != x[j]}
            together = not differ & unit.fixed and all(differ & names for names, _ in unit.caps)
            far = all(abs(at[a][i] - at[a][j]) >= n for a, n in unit.far.items())
            need(together and far, "records that the evidence puts together are not one unit's")

    def moment(sector):
        d = np.zeros((prod(grid.shape), prod(grid.shape)))
        for weight, (alike, *cells) in zip(p, sets, strict=True):
            own = np.array(cells)
            d[(own[:, None], own) if alike or sector <= unit.fixed else (own, own)] += weight
        values, vectors = np.linalg.eigh(d)
        return vectors * np.sqrt(np.maximum(values, 0))

    return moment
