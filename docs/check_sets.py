"""The costs of sets of records of one unit: section 4 of docs/plan_format.md.

`check_plan.py` uses this file.
"""

from itertools import accumulate
from math import comb, prod

import numpy as np
from check_many_sets import at_most
from check_plan import Unknown, need, subsets
from check_ways import by_ways

MAX_SETS = 2**20


def partners(sectors, unit):
    """Yield for each cap its attributes, their joint cell in each cell, k, the largest X for each place, and all X."""
    low, shape = -2 * max(sectors.own) - 1, [sectors.size[a] for a in sectors.axes]
    few = (
        len(sectors.parts) * sectors.cells**2 << len(sectors.free) <= MAX_SETS
        and sectors.cells * unit.records <= MAX_SETS
    )
    need(few, "records of a unit keep to a pattern, and cells are too many", Unknown)
    coordinates = dict(zip(sectors.axes, np.indices(shape).reshape(len(shape), sectors.cells), strict=True))
    is_allowed, caps, all_products = np.ones((sectors.cells, sectors.cells), bool), [], {}
    for a, x in coordinates.items():
        gap = abs(x[:, None] - x)
        is_allowed &= (gap >= unit.far.get(a, 0)) & ((gap == 0) | (a not in unit.fixed))
    for names, max_records in unit.caps:
        cap_coordinates = [x if a in names else 0 * x for a, x in coordinates.items()]
        joint_cells = np.ravel_multi_index(cap_coordinates, shape) if cap_coordinates else np.zeros(1, int)
        unseen = prod(sectors.size[a] for a in names - {*coordinates, *sectors.free})
        caps.append((names.intersection(sectors.free), joint_cells, max_records * unseen, {}))
    for same in (x for x in subsets(sectors.free) if unit.fixed.intersection(sectors.free) <= x):
        pairs = is_allowed.copy()
        for names, joint_cells, max_records, _ in caps:
            pairs &= (joint_cells[:, None] != joint_cells) | (max_records > 1) | (not names <= same)
        all_products[same] = x = np.where(pairs, sectors.products(same), low)
        for names, joint_cells, _, best in caps:
            for v in {*joint_cells.tolist()}:
                key, max_products = (names & same, v), x[:, joint_cells == v].max(axis=1)
                best[key] = np.maximum(best.get(key, max_products), max_products)
    for *cap, best in caps:
        yield *cap, {k: [x if x > low else None for x in products] for k, products in best.items()}, (all_products, low)


def set_costs(sectors, unit, stated):
    """Yield each bound on the cost of the records of a unit that keeps to a cap: section 4."""
    g = unit.records
    for names, joint_cells, max_records, best, all_ in partners(sectors, unit):
        sums, room, upper_bounds = [], max_records * prod(sectors.size[a] for a in names), [0]
        for o, v in enumerate(joint_cells.tolist()):  # R of m records: one in cell o, and the m − 1 costliest others
            partner_products = [
                (
                    x[o],
                    max_records - 1
                    if (s, w) == (names, v)
                    else max_records * prod(sectors.size[a] - 1 for a in names - s),
                )
                for (s, w), x in best.items()
                if x[o] is not None
            ]
            line = [x for x, n in sorted(partner_products, reverse=True) for _ in range(min(n, g - 1))][: g - 1]
            sums.append((v, list(accumulate([sectors.own[o], *line]))))
        yield max(m * x for _, line in sums for m, x in enumerate(line, 1))
        for m in range(1, g + 1):
            top = {}
            for v, line in (x for x in sums if len(x[1]) >= m):
                top[v] = max(top.get(v, line[m - 1]), line[m - 1])
            if len(top) * room < m:
                break
            upper_bounds.append(
                sum(x * max(0, min(room, m - i * room)) for i, x in enumerate(sorted(top.values())[::-1]))
            )
        yield max(upper_bounds)
        if not names:
            yield from prices(
                sectors, unit, joint_cells, max_records, {c: x for (_, c), x in best.items()}, all_, stated
            )


def prices(sectors, unit, joint_cells, max_records, partner_products, all_products, stated):
    """Yield the third bound of a cap, or nothing if there are too many sets: section 4.

    joint_cells: the joint cell of every cell. max_records: the largest number of records in a joint cell.
    partner_products: the largest X of a cell and a joint cell. all_products: X by the attributes in which two records
    agree, and the value that stands for two records that do not go together.
    """
    shape, slots = [sectors.size[a] for a in sectors.axes], min(max_records, unit.records)
    places = [(c, j) for c in sorted(partner_products) for j in range(slots)]
    if len(places) ** 2 > MAX_SETS:
        return
    common = np.zeros(sectors.cells, int)
    for a, i in zip(sectors.axes, np.indices(shape).reshape(len(shape), sectors.cells), strict=True):
        common = common * sectors.size[a] + i if a in unit.fixed else common
    room, costs = MAX_SETS // prod(sectors.size[a] for a in unit.fixed.intersection(sectors.axes)), []
    for group in sorted({*common.tolist()}):
        cells = {c: np.flatnonzero((common == group) & (joint_cells == c)).tolist() for c in partner_products}
        max_pairs = {
            (c, d): [partner_products[d][o] for o in cells[c] if partner_products[d][o] is not None]
            for c in cells
            for d in cells
        }
        max_pairs = {pair: max(x) for pair, x in max_pairs.items() if x}
        x = {(p, q): max_pairs[p[0], q[0]] for p in places for q in places if p != q and (p[0], q[0]) in max_pairs}
        x |= {(p, p): max(sectors.own[o] for o in cells[p[0]]) for p in places}
        largest = all_of(x, places, unit.records) or one_by_one(x, places, unit.records, room)
        if largest is None and len(places) > 256:
            return
        largest = largest or at_most(x, places, unit.records, stated)
        if slots == 1 and largest > stated:
            max_pairs = np.flatnonzero(common == group)
            max_pairs = max_pairs[np.argsort(joint_cells[max_pairs], kind="stable")]
            largest = min(largest, by_ways(sectors, *all_products, joint_cells, max_pairs, unit.records, int(stated)))
        costs.append(largest)
    yield max(costs)


def all_of(x, places, max_records):
    """Return the sum of all, if all places go together and no number is below 0; otherwise None."""
    is_complete = len(places) <= max_records and len(x) == len(places) ** 2 and min(x.values()) >= 0
    return sum(x.values()) if is_complete else None


def one_by_one(x, places, max_records, room):
    """Return the largest sum over all sets of places that go together, or None if there are more sets than `room`."""
    n, is_complete = len(places), len(x) == len(places) ** 2
    if n > min(256, room) or (is_complete and sum(comb(n, m) for m in range(1, min(max_records, n) + 1)) > room):
        return None
    best, sets, seen = 0, [((), 0, places)], 0
    for _ in range(max_records):
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
