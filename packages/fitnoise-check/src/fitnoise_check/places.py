"""The cost of weighted sums of nested places: section 6 of docs/plan_format.md."""

from collections import Counter
from fractions import Fraction as Q
from math import prod

from fitnoise_check.cells import rows_of
from fitnoise_check.exact import inverse_squares, need, subsets


def by_place(strategy, spec, size, unit):
    """Return twice ρ of weighted sums of nested places: section 6."""
    part, inverse = inverse_squares([s for g in strategy["trees"] for _, entry in g["scales"] for s in entry])
    names = [x["level"] for x in strategy["levels"]]
    (tree,) = (a for a in spec["domain"].values() if names[0] in a.get("levels", ()))
    depths, rows = [tree["levels"].index(x) for x in names], rows_of(tree)
    lies, classes, above = [], [], None
    for x, depth in zip(strategy["levels"], depths, strict=True):
        places = [*dict.fromkeys(row[depth] for row in rows)]
        up = {row[depth]: None if above is None else row[above] for row in rows}
        order, inside = [*dict.fromkeys(up.values())], Counter(up.values())
        need([inside[p] for p in order] == x["in_each"], "a tree is not that of the domain")
        need(len(x["classes"]) == len(places), "a place of a tree has no class")
        number = {p: i for i, p in enumerate(order)}
        lies.append([number[up[p]] for p in places])
        need(lies[-1] == sorted(lies[-1]), "the places of a tree are in another order than those above them")
        classes.append(x["classes"])
        above = depth
    deep, sets = max(len(g["factors"]) for g in strategy["trees"]), set()
    costs_by_set = {}  # by T, by deepest place: y, and by level U² y and U W y of the place above it
    for g in strategy["trees"]:
        scales, n = dict(g["scales"]), {a: size[a] for a in g["attributes"]}
        need(frozenset(n) not in sets and not {*names} & {*n}, "a set is measured twice")
        sets.add(frozenset(n))
        for k in g["factors"]:
            need(all(type(x) is int and x > 0 for x in k), "a factor of a tree is a whole number above 0")
        factors = [[k[c] for c in entry] for k, entry in zip(g["factors"], classes, strict=False)]
        min_products = [[1] * len(factors[-1] if factors else [1])]
        for k, up in zip(reversed(factors), reversed(lies[: len(factors)]), strict=True):
            light = [x * y for x, y in zip(k, min_products[0], strict=True)]
            by_parent = {}
            for i, x in zip(up, light, strict=True):
                by_parent[i] = min(x, by_parent.get(i, x))
            min_products.insert(0, [by_parent[i] for i in range(len(by_parent))])
        weight = g["multiple"] ** 2 * prod(1 if k == 2 else k * (k - 1) for k in n.values())
        y = [weight * inverse[scales[0][0]] if 0 in scales else 0]
        parts = [[(y[0], y[0] * min_products[0][0])]]
        for level in range(1, deep + 1):
            y, parts = [y[i] for i in lies[level - 1]], [[entry[i] for i in lies[level - 1]] for entry in parts]
            if level <= len(factors):
                k, entry = factors[level - 1], scales.get(level)
                own_weights = [weight * inverse[entry[c]] if entry else 0 for c in classes[level - 1]]
                y = [x**2 * z + w for x, z, w in zip(k, y, own_weights, strict=True)]
                parts = [[(x**2 * a, x * b) for x, (a, b) in zip(k, entry, strict=True)] for entry in parts]
                parts.append([(z, z * v) for z, v in zip(y, min_products[level], strict=True)])
        costs_by_set[tuple(n.items())] = [*zip(y, *parts, strict=True)]
    paths = set(zip(*costs_by_set.values(), strict=True))
    total = max(sum(y for y, *_ in entry) for entry in paths)
    if unit.replaces:
        single = total if unit.alone else 0
        min_products = [min((n for _, n in entry), default=0) for entry in costs_by_set]
        total = max(
            sum(y * (Q(n, n - 1) if n else 1) for (y, *_), n in zip(entry, min_products, strict=True))
            for entry in paths
        )
        used, kinds = sorted({a for entry in costs_by_set for a, _ in entry}), max(classes[deep - 1]) + 1 if deep else 1
        if (deep + 1) * len(costs_by_set) * kinds * 2 ** len(used) <= 2**24:
            total = min(
                total, max(differing_cost(costs_by_set, paths, d, m) for d in subsets(used) for m in range(deep + 1))
            )
        total = max(2 * total, single)
    return Q(total) / part * unit.records**2


def differing_cost(costs_by_set, paths, differing, m):
    """Return half of the cost of two records that differ in these attributes, and meet in a place of level m."""
    chi = [prod((Q(-1, n - 1) for a, n in sizes if a in differing), start=Q(1)) for sizes in costs_by_set]
    return max(
        sum(y - x * parts[min(m, len(parts) - 1)][x > 0] for x, (y, *parts) in zip(chi, sizes, strict=True))
        for sizes in paths
    )
