"""What products of what is measured of each attribute cost: section 6 of docs/plan_format.md, for `check_plan.py`."""

from fractions import Fraction as Q
from itertools import product as choices
from math import prod

import numpy as np
from check_plan import inverse_squares, need, whole

MAX_CHOICES = 1024
"""Of what two records differ in, of which each is looked at."""

MAX_JOINT_CELLS, BALANCING_ROUNDS = 10**7, 40
"""Joint cells that are all looked at where rows have scales of their own, and how often costs are evened out beyond."""


def axis_by_axis(strategy, size, unit):
    """Section 6: twice ρ of products of what is measured of each attribute."""
    part, inverse = inverse_squares([s for g in strategy["sets"] for s in g["scales"]])
    square = {a: 1 if n == 2 else n * (n - 1) for a, n in size.items()}  # of what is centred
    nearest = {a: {1: 0, 2: -1}.get(n, -n) for a, n in size.items()}
    factor, squares = {a: (n, None) for a, n in size.items()}, {a: whole([[x]]) for a, x in square.items()}
    for f in strategy["factors"]:
        for a in f["attributes"] if f["rows"] else ():
            columns = whole(f["rows"])
            products = columns.T @ columns
            square[a] = max(products.diagonal())
            nearest[a] = min([*products[~np.eye(size[a], dtype=bool)], square[a]])
            factor[a], squares[a] = (size[a], str(f["rows"])), columns**2
    if any(len(g["scales"]) != len(g["attributes"]) for g in strategy["sets"]):
        most = by_row(strategy["sets"], squares, inverse)
        return Q(max(most * unit.alone, 4 * most * unit.replaces), part) * unit.records**2
    sets = [x for g in strategy["sets"] for x in zip(g["attributes"], g["multiples"], g["scales"], strict=True)]
    weights = {frozenset(names): inverse[s] * m**2 for names, m, s in sets}
    total = sum(x * prod(square[a] for a in names) for names, x in weights.items()) if unit.alone else 0
    if unit.replaces:
        used = sorted({a for names in weights for a in names})
        kinds = [[a for a in used if factor[a] == own] for own in dict.fromkeys(factor[a] for a in used)]
        total = max(total, 2 * replaced(weights, square, nearest, [[a] for a in used], kinds))
    return Q(int(total), part) * unit.records**2


def by_row(groups, squares, inverse):
    """What a record costs at most where some sets have a scale for each product of rows."""
    costs = []
    for g in groups:
        left, fine = iter(g["scales"]), len(g["scales"]) != len(g["attributes"])
        shapes = [[len(squares[a]) if fine else 1 for a in names] for names in g["attributes"]]
        need(sum(map(prod, shapes)) == len(g["scales"]), "a set has one scale, or one for each product of rows")
        for names, m, shape in zip(g["attributes"], g["multiples"], shapes, strict=True):
            x = np.array([inverse[next(left)] * m**2 for _ in range(prod(shape))], dtype=object).reshape(shape)
            for i, a in enumerate(names):
                rows = squares[a] if x.shape[i] > 1 else squares[a].sum(axis=0, keepdims=True)
                x = np.moveaxis(np.tensordot(rows, x, (0, i)), 0, i)
            kept = tuple(a for a, n in zip(names, x.shape, strict=True) if n > 1)
            costs.append((kept, np.array(x, dtype=object).reshape([n for n in x.shape if n > 1])))
    size = dict(s for kept, x in costs for s in zip(kept, x.shape, strict=True))
    if prod(size.values()) > MAX_JOINT_CELLS:
        return evened(costs, size)
    first, *rest = size or [None]
    most = 0
    for i in range(size.get(first, 1)):  # value by value of one attribute: memory
        total = np.zeros([size[a] for a in rest], dtype=object)
        for kept, x in costs:
            here = np.moveaxis(x, kept.index(first), 0)[i] if first in kept else x
            own = [a for a in kept if a != first]
            ordered = np.transpose(here, [own.index(a) for a in rest if a in own])
            total += np.reshape(ordered, [size[a] if a in own else 1 for a in rest])
        most = max(most, np.max(total))
    return most


def evened(costs, size):
    """A bound on the largest sum, by the largest sets, between which is evened out what each value costs."""
    larger = {kept[:i] + kept[i + 1 :]: kept for kept, _ in costs for i in range(len(kept))}
    homes = [kept for kept, _ in costs]
    while any(home in larger for home in homes):
        homes = [larger.get(home, home) for home in homes]
    clusters = {home: np.zeros([size[a] for a in home], dtype=object) for home in homes}
    most = sum(np.max(x) for _, x in costs)
    part = 2 ** max(0, int(most * len(clusters)).bit_length() - 61) if len(clusters) > 1 else 1
    for home, (kept, x) in zip(homes, costs, strict=True):
        clusters[home] += np.reshape(-(-x // part), [size[a] if a in kept else 1 for a in home])
    for a in [a for _ in range(BALANCING_ROUNDS) for a in size] if len(clusters) > 1 else []:
        here = [np.moveaxis(x, home.index(a), 0) for home, x in clusters.items() if a in home]
        tops = [x.reshape(len(x), -1).max(axis=1) for x in here]
        for j, (x, top) in enumerate(zip(here, tops, strict=True)):
            x[...] = x + (-(-(sum(tops) - j) // len(here)) - top).reshape(-1, *[1] * (x.ndim - 1))
    return min(most, sum(np.max(x) for x in clusters.values()) * part)


def replaced(weights, square, nearest, *groupings):
    """Half of what a record pays that is replaced: by the first grouping that is small enough, or set by set."""
    apart = sum(
        x * (prod(square[a] for a in t) - min(map(prod, choices(*({square[a], nearest[a]} for a in t)))))
        for t, x in weights.items()
    )
    for kinds in groupings:
        if prod(len(own) + 1 for own in kinds) <= MAX_CHOICES:
            dearest, sums = {}, []
            for t, x in weights.items():
                key = tuple(len(t & {*own}) for own in kinds)
                dearest[key] = max(x, dearest.get(key, 0))
            for differ in choices(*(range(len(own) + 1) for own in kinds)):
                each = []
                for own, d in zip(kinds, differ, strict=True):
                    e = [1]  # elementary symmetric polynomials
                    for y in [nearest[own[0]]] * d + [square[own[0]]] * (len(own) - d):
                        e = [i + y * j for i, j in zip([*e, 0], [0, *e], strict=True)]
                    each.append(e)
                sums.append(sum(x * prod(e[n] for e, n in zip(each, key, strict=True)) for key, x in dearest.items()))
            return min(apart, sums[0] - min(sums))
    return apart
