"""What weighted sums of nested places cost: section 6 of docs/plan_format.md, for `check_plan.py`."""

from collections import Counter
from fractions import Fraction as Q
from math import prod

from check_plan import inverse_squares, need


def by_place(strategy, spec, size, unit):
    """Section 6: twice ρ of weighted sums of nested places."""
    part, inverse = inverse_squares([s for g in strategy["trees"] for _, own in g["scales"] for s in own])
    names = [x["level"] for x in strategy["levels"]]
    (tree,) = (a for a in spec["domain"].values() if names[0] in a.get("levels", ()))
    along = [tree["levels"].index(x) for x in names]
    lies, classes, above = [], [], None
    for x, at in zip(strategy["levels"], along, strict=True):
        places = [*dict.fromkeys(row[at] for row in tree["places"])]
        up = {row[at]: None if above is None else row[above] for row in tree["places"]}
        order, inside = [*dict.fromkeys(up.values())], Counter(up.values())
        need([inside[p] for p in order] == x["in_each"], "a tree is not that of the domain")
        need(len(x["classes"]) == len(places), "a place of a tree has no class")
        number = {p: i for i, p in enumerate(order)}
        lies.append([number[up[p]] for p in places])
        need(lies[-1] == sorted(lies[-1]), "the places of a tree are in another order than those above them")
        classes.append(x["classes"])
        above = at
    deep, sets = max(len(g["factors"]) for g in strategy["trees"]), set()
    total = [0] * (len(classes[deep - 1]) if deep else 1)
    for g in strategy["trees"]:
        scales, n = dict(g["scales"]), [size[a] for a in g["attributes"]]
        need(frozenset(g["attributes"]) not in sets and not {*names} & {*g["attributes"]}, "a set is measured twice")
        sets.add(frozenset(g["attributes"]))
        factor = g["multiple"] ** 2 * prod(1 if k == 2 else k * (k - 1) for k in n)
        factor = factor * Q(min(n), min(n) - 1) if unit.replaces and n else factor
        y = [inverse[scales[0][0]] if 0 in scales else 0]
        for level in range(1, deep + 1):
            y = [y[i] for i in lies[level - 1]]
            if level <= len(g["factors"]):
                k, own = g["factors"][level - 1], scales.get(level)
                need(all(type(x) is int and x > 0 for x in k), "a factor of a tree is a whole number above 0")
                y = [
                    k[c] ** 2 * x + (inverse[own[c]] if own else 0) for c, x in zip(classes[level - 1], y, strict=True)
                ]
        total = [a + factor * x for a, x in zip(total, y, strict=True)]
    return Q(max(total)) / part * (2 if unit.replaces else 1) * unit.records**2
