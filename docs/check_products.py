"""What products of what is measured of each attribute cost: section 6 of docs/plan_format.md, for `check_plan.py`."""

from fractions import Fraction as Q
from itertools import product as choices
from math import prod

import numpy as np
from check_plan import inverse_squares, whole

MOST_CHOICES = 1024
"""Of what two records differ in, of which each is looked at."""


def axis_by_axis(strategy, size, unit):
    """Section 6: twice ρ of products of what is measured of each attribute."""
    part, inverse = inverse_squares([s for g in strategy["sets"] for s in g["scales"]])
    square = {a: 1 if n == 2 else n * (n - 1) for a, n in size.items()}  # of what is centred
    nearest = {a: {1: 0, 2: -1}.get(n, -n) for a, n in size.items()}
    factor = {a: (n, None) for a, n in size.items()}
    for f in strategy["factors"]:
        for a in f["attributes"] if f["rows"] else ():
            columns = whole(f["rows"])
            products = columns.T @ columns
            square[a] = max(products.diagonal())
            nearest[a] = min([*products[~np.eye(size[a], dtype=bool)], square[a]])
            factor[a] = (size[a], str(f["rows"]))
    sets = [x for g in strategy["sets"] for x in zip(g["attributes"], g["multiples"], g["scales"], strict=True)]
    weights = {frozenset(names): inverse[s] * m**2 for names, m, s in sets}
    total = sum(x * prod(square[a] for a in names) for names, x in weights.items()) if unit.alone else 0
    if unit.replaces:
        used = sorted({a for names in weights for a in names})
        kinds = [[a for a in used if factor[a] == own] for own in dict.fromkeys(factor[a] for a in used)]
        total = max(total, 2 * replaced(weights, square, nearest, [[a] for a in used], kinds))
    return Q(int(total), part) * unit.records**2


def replaced(weights, square, nearest, *groupings):
    """Half of what a record pays that is replaced: by the first grouping that is small enough, or set by set."""
    apart = sum(
        x * (prod(square[a] for a in t) - min(map(prod, choices(*({square[a], nearest[a]} for a in t)))))
        for t, x in weights.items()
    )
    for kinds in groupings:
        if prod(len(own) + 1 for own in kinds) <= MOST_CHOICES:
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
