"""The costs of sets of records of one unit: section 4 of docs/plan_format.md."""

from itertools import accumulate, product
from math import prod

import numpy as np

from fitnoise_check.exact import Unknown, need, subsets
from fitnoise_check.witness import proven

MAX_SETS = 2**20


def partners(sectors, unit):
    """Yield for each cap its attributes, their joint cell in each cell, k, the largest X for each place, and all X."""
    low = -2 * max(sectors.own) - 1
    few = (
        len(sectors.parts) * sectors.cells**2 << len(sectors.free) <= MAX_SETS
        and sectors.cells * unit.records <= MAX_SETS
    )
    need(few, "records of a unit keep to a pattern, and cells are too many", Unknown)
    is_allowed, caps, all_products = np.ones((sectors.cells, sectors.cells), bool), [], {}
    for a, x in sectors.positions.items():
        gap = abs(x[:, None] - x)
        is_allowed &= (gap >= unit.far.get(a, 0)) & ((gap == 0) | (a not in unit.fixed))
    for names, max_records in unit.caps:
        joint_cells = joint_cells_along(sectors, names)
        unseen = prod(sectors.size[a] for a in names - {*sectors.positions, *sectors.free})
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


def joint_cells_along(sectors, names):
    """Return the number of the joint cell of some attributes for every structured cell, in C order."""
    columns = [np.zeros(sectors.cells, int), *(x for a, x in sectors.positions.items() if a in names)]
    return np.unique(np.array(columns), axis=1, return_inverse=True)[1].ravel()


def set_costs(sectors, unit, claim, proofs):
    """Return the bounds on the cost of the records of a unit in a pattern, and those of replaced ones: section 4."""
    bounds, claims = [*unclaimed(sectors, unit, results := [*partners(sectors, unit)])], []
    if claim is not None:
        need(0 <= claim["cap"] < len(unit.caps), "the claim names a cap that the pattern does not have")
        claims.append(claimed(sectors, unit, results[claim["cap"]], claim, proofs))
    is_replaced = claim is not None and claim["groups"][0]["of"] == "replaced"
    return (bounds, claims) if is_replaced else (bounds + claims, [])


def unclaimed(sectors, unit, results):
    """Yield the two bounds of each cap."""
    g = unit.records
    for names, joint_cells, max_records, best, _ in results:
        sums, copies, upper_bounds = [], prod(sectors.size[a] for a in names), [0]
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
            line = [x for x, n in sorted(partner_products, reverse=True) for _ in range(min(n, g))][:g]
            shared = best[names, v][o]  # of a record in the same joint cell
            excess = [0 if shared is None else max(0, shared - x) for x in line]
            sums.append((v, [*accumulate([sectors.own[o], *line])][:g], excess))
        yield max(m * x for _, line, _ in sums for m, x in enumerate(line, 1))
        for m in range(1, g + 1):
            k, there = min(max_records, m), [(v, line[m - 1], e[m - 1 : m]) for v, line, e in sums if len(line) >= m]
            top = {v: max(x for w, x, _ in there if w == v) for v, *_ in there}
            full, rest = divmod(m, k)
            if len(top) * copies < full + (rest > 0):
                break
            total = of_costliest(top, copies, full)
            upper_bounds.append(k * total)
            if rest:  # one joint cell has fewer records, and they have fewer partners in it
                following = of_costliest(top, copies, full + 1) - total  # it replaces that cell among the costliest
                upper_bounds[-1] = max(
                    k * (total - max(0, top[v] - following)) + rest * (x - (k - rest) * sum(e)) for v, x, e in there
                )
        yield max(upper_bounds)


def of_costliest(top, copies, count):
    """Return the sum of the costliest joint cells, each of which is there as often as there are copies."""
    total = 0
    for x in sorted(top.values(), reverse=True):
        taken = min(copies, count)
        total, count = total + taken * x, count - taken
    return total


def claimed(sectors, unit, cap, claim, proofs):
    """Return the cost that the plan claims for a cap; raise Wrong unless its proofs prove it."""
    names, joint_cells, max_records, partner_products, (all_products, low) = cap
    need(not names, "the claim is for a cap of exchangeable attributes")
    slots, common = min(max_records, unit.records), joint_cells_along(sectors, unit.fixed)
    need(
        max(common) + 1 == len(claim["groups"]) == len(proofs),
        "the claim does not have one price for each group of cells",
    )
    costs = []
    for group, (stated, proof) in enumerate(zip(claim["groups"], proofs, strict=True)):
        cells = np.flatnonzero(common == group)
        cells = cells[np.argsort(joint_cells[cells], kind="stable")]
        if stated["of"] == "places":
            problem = by_place(sectors, joint_cells, cells, slots, {c: x for (_, c), x in partner_products.items()})
        else:
            need(stated["of"] in ("moving", "replaced") and slots == 1, "the claim is for records of an unknown kind")
            parts = 1 + (stated["of"] == "replaced")
            need(parts == 1 or (unit.replaces and not unit.fixed), "the claim is for records that are not replaced")
            problem = by_node(sectors, joint_cells, cells, unit.records, all_products, low, parts)
        costs.append(int(stated["at"]))
        need(proven(problem, unit.records, costs[-1], proof), "the claimed price is not proven")
    return max(costs)


def by_place(sectors, joint_cells, cells, slots, partner_products):
    """Return the problem of places: a node for each record of a joint cell, and the largest X of two nodes."""
    cells_of = {c: [o for o in cells.tolist() if joint_cells[o] == c] for c in sorted({*joint_cells[cells].tolist()})}
    nodes = [(c, j) for c in cells_of for j in range(slots)]
    x, compatible = np.zeros((len(nodes),) * 2, dtype=object), np.zeros((len(nodes),) * 2, dtype=bool)
    for (i, p), (j, q) in product(enumerate(nodes), enumerate(nodes)):
        pairs = [v for o in cells_of[p[0]] if (v := partner_products[q[0]][o]) is not None]
        if i == j:
            x[i, j] = max(sectors.own[o] for o in cells_of[p[0]])
        elif pairs:
            x[i, j], compatible[i, j] = max(pairs), True
    return x, compatible, [*range(len(nodes))], [()] * len(nodes), 1


def by_node(sectors, joint_cells, cells, max_records, all_products, low, parts):
    """Return the problem of moving records: a node for each cell and all values in which records may differ.

    With two parts, the nodes of added records come first, and then those of removed ones.
    """
    free = sorted(frozenset.union(*all_products) - (held := frozenset.intersection(*all_products)))
    where = np.unique(joint_cells[cells], return_inverse=True)[1]
    room = [min(sectors.size[a], max_records * parts) for a in free]
    nodes = [(o, p, v) for o, p in zip(cells, where.tolist(), strict=True) for v in product(*map(range, room))]
    nodes = [(s, o, p + s * (max(where) + 1), v) for s in range(parts) for o, p, v in nodes]
    need(len(nodes) <= 2**10, "moving records have too many cells and values", Unknown)
    x, compatible = np.zeros((len(nodes),) * 2, dtype=object), np.zeros((len(nodes),) * 2, dtype=bool)
    for (i, (s, o, p, v)), (j, (r, u, q, w)) in product(enumerate(nodes), enumerate(nodes)):
        same = held | {a for a, b, c in zip(free, v, w, strict=True) if b == c}
        if i == j:
            x[i, j] = sectors.own[o]
        elif s != r:
            x[i, j], compatible[i, j] = -sectors.products(same)[o, u], (o, v) != (u, w)
        elif p != q and all_products[same][o, u] > low:
            x[i, j], compatible[i, j] = all_products[same][o, u], True
    return x, compatible, [p for _, _, p, _ in nodes], [v for *_, v in nodes], parts
