"""Bounds that no set of places exceeds, where sets are too many: section 4 of docs/plan_format.md.

`check_sets.py` uses this file.
"""

import numpy as np


def at_most(x, places, max_records, stated):
    """Return a bound that no set of places exceeds: by blocks, or else by Shor's relaxation.

    The relaxation starts from other numbers than fitnoise's. So the stated bound is right, and is returned, if it is
    the proven one or at most one part in 10⁴ more. If few enough sets are built, and none costs more than the stated
    bound, the result is at most the stated bound.
    """
    n, max_records = len(places), min(max_records, len(places))
    diagonal = [x[p, p] for p in places]
    form = [[x.get((p, q), -diagonal[i] - diagonal[j]) for j, q in enumerate(places)] for i, p in enumerate(places)]
    form = np.array(form, dtype=object)  # NumPy makes doubles of whole numbers on both sides of 2⁶³
    shift = max(abs(x) for row in form.tolist() for x in row).bit_length() - 80
    form = -(-form >> shift) if shift > 0 else form << -shift
    back = (lambda b: b << shift) if shift > 0 else (lambda b: b >> -shift)
    if n <= 128:
        known_cost = int(stated) >> 40 + shift if shift > -40 else int(stated) << -40 - shift
        if 0 < (cost := back(built_up((-(-form >> 40)).astype(np.int64), max_records, known_cost) << 40)) <= stated:
            return cost
    blocks = min(by_blocks(form, k, max_records) for k in range(1, n + 1) if n % k == 0)
    proven = relaxed(form, max_records)
    is_near = back(proven) <= stated <= back(proven + proven // 10_000) and stated <= back(blocks)
    return stated if is_near else back(min(blocks, proven))


def built_up(x, max_records, known_cost):
    """Return the cost of the costliest set that costs at least `known_cost`, or 0 if too many sets are built.

    The result is below `known_cost` only if all sets cost less.
    """
    n, off_diagonal = len(x), np.maximum(x - np.diag(x.diagonal()), 0)
    sets, best = [(0, x.diagonal(), 0)], 0
    for remaining in reversed(range(max_records)):
        longer = []
        rows = [
            np.sort(off_diagonal[j + 1 :, j + 1 :], axis=1)[:, ::-1][:, : max(remaining - 1, 0)].sum(axis=1)
            for j in range(n)
        ]
        for value, gains, begin in sets:
            for j in range(begin, n):
                cost, own_gains = value + int(gains[j]), gains[j + 1 :] + 2 * x[j, j + 1 :] + rows[j]
                best = max(best, cost)
                if remaining and cost + np.sort(np.maximum(own_gains, 0))[::-1][:remaining].sum() >= known_cost:
                    longer.append((cost, gains + 2 * x[j], j + 1))
        sets = longer
        if len(sets) > 2**18:
            return 0
    return best


def by_blocks(x, k, max_records):
    """Return the bound by blocks of k places: section 4, the first item."""
    n, diagonal = len(x), x.diagonal()
    within_blocks = x.reshape(n // k, k, n // k, k).sum(axis=(1, 3)).diagonal() - diagonal.reshape(-1, k).sum(axis=1)
    across = (x.sum() - diagonal.sum() - within_blocks.sum()) // max(n * (n - k), 1)
    inside = within_blocks // max(k * (k - 1), 1) - across
    best = {0: 0}
    for b, extra in enumerate(inside):
        here = range(b * k, b * k + k)
        rest = [[x[i, j] - across - (extra if j in here else 0) for j in range(n)] for i in here]
        rows = [sum(max(v, 0) for j, v in enumerate(row) if j != i) + row[i] for i, row in zip(here, rest, strict=True)]
        costs = [extra * m * m + sum(sorted(rows)[k - m :]) for m in range(k + 1)]
        longer = {}
        for m, value in best.items():
            for added, cost in enumerate(costs[: max_records - m + 1]):
                longer[m + added] = max(longer.get(m + added, value + cost), value + cost)
        best = longer
    return max(across * m * m + value for m, value in best.items() if m)


def relaxed(x, max_records):
    """Return Σ y + l (2g − n) + Σ |N − LLᵀ|, for y and l from Newton's method: section 4, the second item.

    The equations are not singular while the weight of the barrier is well above the rounding errors of doubles.
    At the last weight the bound is less than 10⁻⁷ above the least bound, for entries up to 1.
    """
    n, unit = len(x), 2.0**80
    q, k = np.zeros((2, n + 1, n + 1))
    q[1:, 1:] = x.astype(float) / unit / 4
    q[0] = q.sum(axis=0)
    q[:, 0] = [q[0].sum(), *q[0, 1:]]
    k[0, 1:] = k[1:, 0] = 1 / 4
    weight = np.abs(q).max() + 1e-9
    aim, point = np.append(np.ones(n + 1), max_records - n / 2), np.append(np.abs(q).sum(axis=0) + n * weight, weight)
    slack = lambda point: np.diag(point[:-1]) - q + point[-1] * k  # noqa: E731
    while n * weight > 1e-7:
        inverse = np.linalg.inv(slack(point))
        change = inverse @ k @ inverse
        slope = aim / weight - np.append(inverse.diagonal(), (inverse * k).sum() + 1 / point[-1])
        corner = np.array([[(change * k).sum() + point[-1] ** -2]])
        step = np.linalg.solve(
            np.block([[inverse**2, change.diagonal()[:, None]], [change.diagonal()[None], corner]]), -slope
        )
        decrement = -slope @ step
        point = point + step / (1 + decrement**0.5)
        weight /= 2 if decrement < 1 else 1
    *y, free = (int(v * unit) for v in point.tolist())
    free //= 2
    form = np.diag(np.array([sum(y) - free * n, *(4 * v for v in y[1:])], dtype=object))
    form[1:, 1:] -= x
    form[0, 1:] = form[1:, 0] = [free - 2 * v for v in y[1:]]
    root = np.linalg.cholesky(form.astype(float) / unit)
    root = np.array([[int(v * 2.0**40) for v in row] for row in root.tolist()], dtype=object)
    return sum(y) + free * (2 * max_records - n) + abs(form - root @ root.T).sum()
