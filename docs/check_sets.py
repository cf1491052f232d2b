"""Sets of records of one unit: what they cost, and what they prove. Sections 4 and 8 of docs/plan_format.md.

Used by `check_plan.py` and `check_bound.py`, beside it.
"""

from itertools import accumulate
from math import comb, prod

import numpy as np
from check_many_sets import at_most
from check_plan import Unknown, need, subsets
from check_ways import by_ways

MOST = 2**20


def partners(sectors, unit):
    """By cap its attributes, their joint cell in each cell, and k; by place the dearest X beside a cell; and all X."""
    low, shape = -2 * max(sectors.own) - 1, [sectors.size[a] for a in sectors.axes]
    few = len(sectors.parts) * sectors.cells**2 << len(sectors.free) <= MOST and sectors.cells * unit.records <= MOST
    need(few, "records of a unit keep to a pattern, and cells are too many", Unknown)
    at = dict(zip(sectors.axes, np.indices(shape).reshape(len(shape), sectors.cells), strict=True))
    near, caps, every = np.ones((sectors.cells, sectors.cells), bool), [], {}
    for a, x in at.items():
        gap = abs(x[:, None] - x)
        near &= (gap >= unit.far.get(a, 0)) & ((gap == 0) | (a not in unit.fixed))
    for names, most in unit.caps:
        within = [x if a in names else 0 * x for a, x in at.items()]
        along = np.ravel_multi_index(within, shape) if within else np.zeros(1, int)
        unseen = prod(sectors.size[a] for a in names - {*at, *sectors.free})
        caps.append((names.intersection(sectors.free), along, most * unseen, {}))
    for same in (x for x in subsets(sectors.free) if unit.fixed.intersection(sectors.free) <= x):
        pairs = near.copy()
        for names, along, most, _ in caps:
            pairs &= (along[:, None] != along) | (most > 1) | (not names <= same)
        every[same] = x = np.where(pairs, sectors.products(same), low)
        for names, along, _, best in caps:
            for v in {*along.tolist()}:
                key, dearest = (names & same, v), x[:, along == v].max(axis=1)
                best[key] = np.maximum(best.get(key, dearest), dearest)
    for *cap, best in caps:
        yield *cap, {k: [x if x > low else None for x in found] for k, found in best.items()}, (every, low)


def apart(sectors, unit, stated):
    """What a unit's records cost of which at most so many share a cell, by each bound."""
    g = unit.records
    for names, along, most, best, all_ in partners(sectors, unit):
        sums, room, dear = [], most * prod(sectors.size[a] for a in names), [0]
        for o, v in enumerate(along.tolist()):  # R of m records: one in cell o, and the m − 1 dearest beside it
            beside = [
                (x[o], most - 1 if (s, w) == (names, v) else most * prod(sectors.size[a] - 1 for a in names - s))
                for (s, w), x in best.items()
                if x[o] is not None
            ]
            line = [x for x, n in sorted(beside, reverse=True) for _ in range(min(n, g - 1))][: g - 1]
            sums.append((v, list(accumulate([sectors.own[o], *line]))))
        yield max(m * x for _, line in sums for m, x in enumerate(line, 1))
        for m in range(1, g + 1):
            top = {}
            for v, line in (x for x in sums if len(x[1]) >= m):
                top[v] = max(top.get(v, line[m - 1]), line[m - 1])
            if len(top) * room < m:
                break
            dear.append(sum(x * max(0, min(room, m - i * room)) for i, x in enumerate(sorted(top.values())[::-1])))
        yield max(dear)
        if not names:
            yield from prices(sectors, unit, along, most, {c: x for (_, c), x in best.items()}, all_, stated)


def prices(sectors, unit, along, most, beside, every, stated):
    """What a unit's records cost by the joint cells they lie in: one number, or nothing where sets are too many.

    along: the joint cell of every cell. most: records in each. beside: by joint cell the dearest X beside a cell.
    every: X by the attributes in which two agree, and what it is where they do not go together.
    """
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
        if largest is None and len(places) > 256:
            return
        largest = largest or at_most(x, places, unit.records, stated)
        if slots == 1 and largest > stated:
            near = np.flatnonzero(common == group)
            near = near[np.argsort(along[near], kind="stable")]
            largest = min(largest, by_ways(sectors, *every, along, near, unit.records, int(stated)))
        found.append(largest)
    yield max(found)


def all_of(x, places, most):
    """The sum of all, where all go together and nothing is below 0."""
    whole = len(places) <= most and len(x) == len(places) ** 2 and min(x.values()) >= 0
    return sum(x.values()) if whole else None


def one_by_one(x, places, most, room):
    """The largest sum over all sets of places of which any two go together; None of more than there is room for."""
    n, every = len(places), len(x) == len(places) ** 2
    if n > min(256, room) or (every and sum(comb(n, m) for m in range(1, min(most, n) + 1)) > room):
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
