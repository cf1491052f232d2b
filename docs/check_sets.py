"""Sets of records of one unit: what they cost, and what they prove. Sections 4 and 8 of docs/plan_format.md.

Used by `check_plan.py` and `check_bound.py`, beside it.
"""

from itertools import combinations
from math import comb, prod

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
        if largest is None and len(places) > 256:
            return
        found.append(largest or at_most(x, places, unit.records, sectors.stated))
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


def at_most(x, places, most, stated):
    """What no set of places exceeds, where there are too many to look at: by blocks, or else by Shor's relaxation.

    That is proven here from other numbers than fitnoise's. So what is stated is right if it is what is proven, or up to
    one part in 10⁴ more: then it is returned.
    """
    n, most = len(places), min(most, len(places))
    own = [x[p, p] for p in places]
    form = [[x.get((p, q), -own[i] - own[j]) for j, q in enumerate(places)] for i, p in enumerate(places)]
    form = np.array(form, dtype=object)  # NumPy makes doubles of whole numbers on both sides of 2⁶³
    more = max(abs(x) for row in form.tolist() for x in row).bit_length() - 80
    form = -(-form >> more) if more > 0 else form << -more
    back = (lambda b: b << more) if more > 0 else (lambda b: b >> -more)
    blocks = min(by_blocks(form, k, most) for k in range(1, n + 1) if n % k == 0)
    proven = relaxed(form, most)
    near = back(proven) <= stated <= back(proven + proven // 10_000) and stated <= back(blocks)
    return stated if near else back(min(blocks, proven))


def by_blocks(x, k, most):
    """m² times the mean of what is across blocks of k places, and more for what is within them, the rest by rows."""
    n, alone = len(x), x.diagonal()
    own = x.reshape(n // k, k, n // k, k).sum(axis=(1, 3)).diagonal() - alone.reshape(-1, k).sum(axis=1)
    across = (x.sum() - alone.sum() - own.sum()) // max(n * (n - k), 1)
    inside = own // max(k * (k - 1), 1) - across
    best = {0: 0}
    for b, extra in enumerate(inside):
        here = range(b * k, b * k + k)
        rest = [[x[i, j] - across - (extra if j in here else 0) for j in range(n)] for i in here]
        rows = [sum(max(v, 0) for j, v in enumerate(row) if j != i) + row[i] for i, row in zip(here, rest, strict=True)]
        costs = [extra * m * m + sum(sorted(rows)[k - m :]) for m in range(k + 1)]
        longer = {}
        for m, value in best.items():
            for more, cost in enumerate(costs[: most - m + 1]):
                longer[m + more] = max(longer.get(m + more, value + cost), value + cost)
        best = longer
    return max(across * m * m + value for m, value in best.items() if m)


def relaxed(x, most):
    """Σ y + l (2g − n) + Σ |N − LLᵀ|, for y and l from Newton's method, and N and L as the format says."""
    n, unit = len(x), 2.0**80
    q, k = np.zeros((2, n + 1, n + 1))
    q[1:, 1:] = x.astype(float) / unit / 4
    q[0] = q.sum(axis=0)
    q[:, 0] = [q[0].sum(), *q[0, 1:]]
    k[0, 1:] = k[1:, 0] = 1 / 4
    weight = np.abs(q).max() + 1e-9
    aim, at = np.append(np.ones(n + 1), most - n / 2), np.append(np.abs(q).sum(axis=0) + n * weight, weight)
    slack = lambda at: np.diag(at[:-1]) - q + at[-1] * k  # noqa: E731
    while n * weight > 1e-7:  # a tenth of what is added: further on, floating point makes this singular
        inverse = np.linalg.inv(slack(at))
        moved = inverse @ k @ inverse
        slope = aim / weight - np.append(inverse.diagonal(), (inverse * k).sum() + 1 / at[-1])
        corner = np.array([[(moved * k).sum() + at[-1] ** -2]])
        step = np.linalg.solve(
            np.block([[inverse**2, moved.diagonal()[:, None]], [moved.diagonal()[None], corner]]), -slope
        )
        far = -slope @ step
        at = at + step / (1 + far**0.5)
        weight /= 2 if far < 1 else 1
    *y, free = (int(v * unit) for v in at.tolist())
    free //= 2
    form = np.diag(np.array([sum(y) - free * n, *(4 * v for v in y[1:])], dtype=object))
    form[1:, 1:] -= x
    form[0, 1:] = form[1:, 0] = [free - 2 * v for v in y[1:]]
    root = np.linalg.cholesky(form.astype(float) / unit)
    root = np.array([[int(v * 2.0**40) for v in row] for row in root.tolist()], dtype=object)
    return sum(y) + free * (2 * most - n) + abs(form - root @ root.T).sum()


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
