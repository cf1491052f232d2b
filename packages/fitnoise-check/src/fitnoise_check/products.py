"""The cost of products of measurements of attributes: section 6 of docs/plan_format.md."""

from fractions import Fraction as Q
from itertools import product as choices
from math import prod

import numpy as np

from fitnoise_check.exact import integer_matrix, inverse_squares, need

MAX_CHOICES = 1024
"""Sets of attributes in which two records differ: more are not enumerated."""

MAX_JOINT_CELLS, MAX_CELLS = 10**7, 2**27
"""Joint cells enumerated if rows have scales of their own, also of a cluster; cells of all clusters of a proof.

The costs of one set, or of all sets, may be more numbers. Then these are the limits.
"""


def axis_by_axis(strategy, size, unit, claim=None, proofs=()):
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
        max_cost = by_row(strategy["sets"], squares, inverse, size, claim, proofs)
        return Q(max(max_cost * unit.alone, 4 * max_cost * unit.replaces), part) * unit.records**2
    need(claim is None, "a product whose sets have one scale each claims a price")
    sets = [x for g in strategy["sets"] for x in zip(g["attributes"], g["multiples"], g["scales"], strict=True)]
    weights = {frozenset(names): inverse[s] * m**2 for names, m, s in sets}
    total = sum(x * prod(square[a] for a in names) for names, x in weights.items()) if unit.alone else 0
    if unit.replaces:
        used = sorted({a for names in weights for a in names})
        kinds = [[a for a in used if factor[a] == value] for value in dict.fromkeys(factor[a] for a in used)]
        total = max(total, 2 * replaced(weights, square, nearest, [[a] for a in used], kinds))
    return Q(int(total), part) * unit.records**2


def by_row(groups, squares, inverse, sizes, claim, proofs):
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
    if claim is not None:
        need(proven(costs, sizes, int(claim["at"]), *proofs), "the claim of a product is not proven")
    if prod(size.values()) > max([MAX_JOINT_CELLS, *(x.size for _, x in costs)]):
        each = sum(np.max(x) for _, x in costs)
        return each if claim is None else min(each, int(claim["at"]))
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


def proven(costs, sizes, claim, proof):
    """Return True if no joint cell costs more than the claim: clusters and λ of section 6."""
    clusters, homes, levels, shift = (proof[key] for key in ("clusters", "homes", "levels", "shift"))
    need(proof["kind"] == "clusters" and set(homes) == {*range(len(clusters))}, "a proof lacks a home")
    need(all(type(v) is int for v in [shift, *homes]) and 0 <= shift <= 2**13, "a proof has another form")
    cells, order = [prod(sizes[a] for a in c) for c in clusters], [a for a, n in sizes.items() if n > 1]
    numbers = [x.size for _, x in costs]
    need(max(cells) <= max([MAX_JOINT_CELLS, *numbers]), "a cluster has too many cells")
    need(sum(cells) <= max(MAX_CELLS, sum(numbers)), "a proof has too many cells")
    lists = [*clusters, *(list(axes) for axes, _ in costs)]
    need(all(c == sorted({*c}, key=order.index) for c in lists), "attributes are not in the order of the domain")
    sums, arrays = {a: [0] * sizes[a] for c in clusters for a in c}, []
    largest = [sum(max(map(abs, row)) for row in rows) for rows in levels]
    for cluster, rows in zip(clusters, levels, strict=True):
        total = np.zeros([sizes[a] for a in cluster], dtype=object)
        for i, (a, row) in enumerate(zip(cluster, rows, strict=True)):
            need(len(row) == sizes[a] and all(type(v) is int for v in row), "a proof is made of whole numbers")
            need(all(abs(v) * len(clusters) < 2**61 for v in row), "a proof has a whole number out of range")
            sums[a] = [x + v for x, v in zip(sums[a], row, strict=True)]
            total += np.array(row, dtype=object).reshape([-1 if j == i else 1 for j in range(total.ndim)])
        arrays.append(total)
    need(not any(map(any, sums.values())), "what a proof adds to the costs of a value does not add up to 0")
    for (axes, x), home in zip(costs, homes, strict=True):
        need({*axes} <= {*clusters[home]}, "the home of a set lacks one of its attributes")
        largest[home] -= -np.max(x) >> shift
        arrays[home] += np.reshape(-(-x >> shift), [sizes[a] if a in axes else 1 for a in clusters[home]])
    need(max(largest) < 2**63, "a cluster has a number beyond 64 bits")
    return sum(np.max(x) for x in arrays) << shift <= claim


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
