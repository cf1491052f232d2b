"""The cost of products of measurements of attributes: section 6 of docs/plan_format.md, for `check_plan.py`."""

from fractions import Fraction as Q
from itertools import product as choices
from math import prod

import numpy as np
from check_plan import integer_matrix, inverse_squares, need

MAX_CHOICES = 1024
"""Sets of attributes in which two records differ: more are not enumerated."""

MAX_JOINT_CELLS, BALANCING_ROUNDS = 10**7, 40
"""Joint cells enumerated if rows have scales of their own; rounds that balance costs if there are more cells."""


def axis_by_axis(strategy, size, unit):
    """Return twice ρ of products of measurements of attributes: section 6."""
    part, inverse = inverse_squares([s for g in strategy["sets"] for s in g["scales"]])
    square = {a: 1 if n == 2 else n * (n - 1) for a, n in size.items()}  # for the centring
    nearest = {a: {1: 0, 2: -1}.get(n, -n) for a, n in size.items()}
    factor, squares = {a: (n, None) for a, n in size.items()}, {a: integer_matrix([[x]]) for a, x in square.items()}
    for f in strategy["factors"]:
        for a in f["attributes"] if f["rows"] else ():
            columns = integer_matrix(f["rows"])
            products = columns.T @ columns
            square[a] = max(products.diagonal())
            nearest[a] = min([*products[~np.eye(size[a], dtype=bool)], square[a]])
            factor[a], squares[a] = (size[a], str(f["rows"])), columns**2
    if any(len(g["scales"]) != len(g["attributes"]) for g in strategy["sets"]):
        max_cost = by_row(strategy["sets"], squares, inverse)
        return Q(max(max_cost * unit.alone, 4 * max_cost * unit.replaces), part) * unit.records**2
    sets = [x for g in strategy["sets"] for x in zip(g["attributes"], g["multiples"], g["scales"], strict=True)]
    weights = {frozenset(names): inverse[s] * m**2 for names, m, s in sets}
    total = sum(x * prod(square[a] for a in names) for names, x in weights.items()) if unit.alone else 0
    if unit.replaces:
        used = sorted({a for names in weights for a in names})
        kinds = [[a for a in used if factor[a] == value] for value in dict.fromkeys(factor[a] for a in used)]
        total = max(total, 2 * replaced(weights, square, nearest, [[a] for a in used], kinds))
    return Q(int(total), part) * unit.records**2


def by_row(groups, squares, inverse):
    """Return a bound on the cost of a record, if some sets have a scale for each product of rows."""
    costs = []
    for g in groups:
        remaining, fine = iter(g["scales"]), len(g["scales"]) != len(g["attributes"])
        shapes = [[len(squares[a]) if fine else 1 for a in names] for names in g["attributes"]]
        need(sum(map(prod, shapes)) == len(g["scales"]), "a set has neither one scale nor one for each product of rows")
        for names, m, shape in zip(g["attributes"], g["multiples"], shapes, strict=True):
            x = np.array([inverse[next(remaining)] * m**2 for _ in range(prod(shape))], dtype=object).reshape(shape)
            for i, a in enumerate(names):
                rows = squares[a] if x.shape[i] > 1 else squares[a].sum(axis=0, keepdims=True)
                x = np.moveaxis(np.tensordot(rows, x, (0, i)), 0, i)
            axes = tuple(a for a, n in zip(names, x.shape, strict=True) if n > 1)
            costs.append((axes, np.array(x, dtype=object).reshape([n for n in x.shape if n > 1])))
    size = dict(s for axes, x in costs for s in zip(axes, x.shape, strict=True))
    if prod(size.values()) > MAX_JOINT_CELLS:
        return evened(costs, size)
    first_axis, *rest = size or [None]
    max_cost = 0
    for i in range(size.get(first_axis, 1)):  # value by value of one attribute: memory
        total = np.zeros([size[a] for a in rest], dtype=object)
        for axes, x in costs:
            here = np.moveaxis(x, axes.index(first_axis), 0)[i] if first_axis in axes else x
            other_axes = [a for a in axes if a != first_axis]
            ordered = np.transpose(here, [other_axes.index(a) for a in rest if a in other_axes])
            total += np.reshape(ordered, [size[a] if a in other_axes else 1 for a in rest])
        max_cost = max(max_cost, np.max(total))
    return max_cost


def evened(costs, size):
    """Return a bound on the largest sum; it balances the cost of each value between the largest sets."""
    larger = {axes[:i] + axes[i + 1 :]: axes for axes, _ in costs for i in range(len(axes))}
    homes = [axes for axes, _ in costs]
    while any(home in larger for home in homes):
        homes = [larger.get(home, home) for home in homes]
    clusters = {home: np.zeros([size[a] for a in home], dtype=object) for home in homes}
    max_cost = sum(np.max(x) for _, x in costs)
    part = 2 ** max(0, int(max_cost * len(clusters)).bit_length() - 61) if len(clusters) > 1 else 1
    for home, (axes, x) in zip(homes, costs, strict=True):
        clusters[home] += np.reshape(-(-x // part), [size[a] if a in axes else 1 for a in home])
    for a in [a for _ in range(BALANCING_ROUNDS) for a in size] if len(clusters) > 1 else []:
        here = [np.moveaxis(x, home.index(a), 0) for home, x in clusters.items() if a in home]
        tops = [x.reshape(len(x), -1).max(axis=1) for x in here]
        for j, (x, top) in enumerate(zip(here, tops, strict=True)):
            x[...] = x + (-(-(sum(tops) - j) // len(here)) - top).reshape(-1, *[1] * (x.ndim - 1))
    return min(max_cost, sum(np.max(x) for x in clusters.values()) * part)


def replaced(weights, square, nearest, *groupings):
    """Return half of the cost of a replaced record: by the first small enough grouping, or set by set."""
    separate = sum(
        x * (prod(square[a] for a in t) - min(map(prod, choices(*({square[a], nearest[a]} for a in t)))))
        for t, x in weights.items()
    )
    for kinds in groupings:
        if prod(len(kind) + 1 for kind in kinds) <= MAX_CHOICES:
            max_weights, sums = {}, []
            for t, x in weights.items():
                key = tuple(len(t & {*kind}) for kind in kinds)
                max_weights[key] = max(x, max_weights.get(key, 0))
            for differ in choices(*(range(len(kind) + 1) for kind in kinds)):
                each = []
                for kind, d in zip(kinds, differ, strict=True):
                    e = [1]  # elementary symmetric polynomials
                    for y in [nearest[kind[0]]] * d + [square[kind[0]]] * (len(kind) - d):
                        e = [i + y * j for i, j in zip([*e, 0], [0, *e], strict=True)]
                    each.append(e)
                sums.append(
                    sum(x * prod(e[n] for e, n in zip(each, key, strict=True)) for key, x in max_weights.items())
                )
            return min(separate, sums[0] - min(sums))
    return separate
