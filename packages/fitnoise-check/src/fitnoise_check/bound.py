"""Check the bound that a plan states, and that its targets are met: section 8 of docs/plan_format.md.

The text names the numbers that are as stated, and those that are not computed here. It adds the bounds for mechanisms
of any kind that follow.
"""

from itertools import combinations
from math import asinh, exp, log1p, prod, sqrt

import numpy as np

from fitnoise_check.cells import Grid
from fitnoise_check.exact import Unknown, integer_matrix, need, subsets
from fitnoise_check.tables import tables_of
from fitnoise_check.totals import public_cells, within_totals, without_means


def check(part, request, spec, size, unit):
    """Yield the result as text; raise Wrong if a number is not as stated."""
    try:
        bound, worst, traded = computed(part, request, spec, size, unit)
    except Unknown as error:
        yield f"  its bound was not computed: {error}"
        return
    need(abs(bound / part["cost"]["bound"] - 1) < 1e-5, f"the weights prove {bound:.9g}, not as stated")
    need(worst is None or "budget" in request or worst <= 1 + 1e-9, "a variance is above its target")
    accuracy = "" if worst is None else f", variances at most {worst:.9g} times their targets"
    yield f"  bound as stated, {bound:.9g}{accuracy}"
    if "public" not in spec or (unit.is_exchanged and not spec["public"][0]["by"]):
        yield of_any_kind(max(0, bound - traded), "margins" in part["strategy"], request, spec, unit)


def of_any_kind(bound, pure, request, spec, unit):
    """Return the bounds for mechanisms that are unbiased near one data set, and for all with the targets for all data.

    docs/mathematics/unbiased_bound.md has the formulas.
    """
    delta = 0 if pure else spec.get("privacy", {}).get("delta", 1e-6)
    stated = f"epsilon >= {2 * asinh(sqrt(bound) / 2):.9g}" if pure else f"rho >= {log1p(bound) / 2:.9g}"
    low, high = 0.0, 2 * asinh(sqrt(bound / 2))
    if pure:
        low = high
    elif bound and min_variance(0.0, delta) * bound > 1:
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if min_variance(middle, delta) * bound > 1 else (low, middle)
    costs = [] if pure else [stated]
    costs += [] if "cell_budgets" in spec.get("privacy", {}) else [f"epsilon >= {low:.9g} at delta = {delta:.6g}"]
    numbers = " and any number of records" if unit.replaces and not unit.alone else ""
    return (
        f"  unbiased near one data set: {stated}; any kind, with the targets for all data{numbers}: {', '.join(costs)}"
    )


def min_variance(epsilon, delta):
    """Return a lower bound on the variance of one count whose noise is (epsilon, delta)-differentially private."""
    b, start = exp(-epsilon), (1 - delta) / (1 + exp(epsilon))
    g, k, power, powers, total = start, 0, 1.0, 0.0, 0.0
    while g > 0 and k < 10**5:
        k, total, powers = k + 1, total + 2 * (2 * k + 1) * g, powers + power
        g, power = b * (g - delta), b * power
    return total - (1 - 2 * start) * (k * power) ** 2 / ((1 + b) * powers)


def computed(part, request, spec, size, unit):
    """Return the bound that the plan's weights prove, the largest variance over its target, and the cost of variances.

    The cost of the variances is 0 unless the objective is hybrid.
    """
    sets, pairs, several = (part["weights"].get(k) for k in ("sets", "pairs", "together"))
    need(sets or not (unit.caps or several), "records of one unit keep to a pattern", Unknown)
    need(part["mechanism"] in ("fit-for-use", "pure-fit-for-use"), f"it is one of {part['mechanism']}", Unknown)
    tables = list(tables_of(request, spec, grid := Grid(part["strategy"], request, spec, size)))
    c, goal = np.concatenate([t.targets for t in tables]), request.get("objective", {})
    cells = np.concatenate([np.full(len(t.targets), t.cells) for t in tables])
    omega = cells * c ** {"inverse-variance": -1, "inverse-std-error": -0.5}.get(goal.get("weights"), 0)
    total, hybrid = (goal.get("goal") == kind for kind in ("total-error", "hybrid"))
    p, q = (np.array(part["weights"][k], dtype=float) for k in ("cells", "numbers"))
    need(np.isfinite([*p, *q]).all() and min([*p, *q]) >= 0 and p.sum() > 0, "weights are not valid")
    need(len(q) == (0 if total else len(c)), "the plan does not have one weight for each number")
    w = omega / (omega @ c) if total else q / c + goal["total_error_weight"] * omega if hybrid else q / c / q.sum()
    unit = grid.unit(unit)
    d = (of_sets if sets else moments)(p / p.sum() * (1 if sets else unit.records**2), sets or pairs, grid, unit)
    nu, weights = 0.0, np.split(w, np.cumsum([len(t.targets) for t in tables])[:-1])
    sectors = {s for t in tables for s in subsets([a for a in grid.free if a in t.free and size[a] > 1])}
    need(len(spec.get("public", ())) < 2, "there are several public totals")
    for s in sectors:
        stacked = [
            np.sqrt(x)[:, None] / t.cells * t.queries for t, x in zip(tables, weights, strict=True) if s <= t.free
        ]
        # The difference of two records of one public cell does not depend on its total.
        has_pairs = unit.replaces and (unit.within or not grid.public)
        root = d(s) if has_pairs else within_totals(d(s), public_cells(grid, s))
        nu += prod(size[a] - 1 for a in s) * np.linalg.svd(np.concatenate(stacked) @ root, compute_uv=False).sum()
    bound, worst, traded = 2 * nu - q.sum() if hybrid else nu**2, None, 0
    if "margins" not in part["strategy"]:
        achieved_variances = np.concatenate(achieved(tables, part["strategy"], size, grid))
        worst = omega @ achieved_variances / (omega @ c) if total else max(achieved_variances / c)
        traded = goal["total_error_weight"] * omega @ achieved_variances if hybrid else 0
    need("budget" not in request or worst is not None, "the accuracy of Laplace noise under a budget", Unknown)
    return bound / (worst if "budget" in request else 1), worst, traded


def moments(p, pairs, grid, unit):
    """Return a function that gives the root of D_S of a sector, from weights of cells or of pairs of records."""
    need((pairs is not None) == unit.replaces, "pairs need replaced records, and replaced records need pairs")
    if pairs is None:
        if budgets := grid.said.get("cell_budgets"):
            names = [a for a in grid.axes if a in budgets["attributes"]]
            r = np.reshape(budgets["values"], [grid.size[a] for a in budgets["attributes"]])
            r = r.transpose([budgets["attributes"].index(a) for a in names])
            r = r.reshape([n if a in names else 1 for a, n in zip(grid.axes, grid.shape, strict=True)])
            r = np.broadcast_to(r, grid.shape).ravel()
            p = np.divide(p, r, out=np.zeros_like(p), where=r > 0)
        root = np.diag(np.sqrt(p))
        return lambda sector: root
    need(min(map(grid.size.get, (*grid.free, *grid.axes)), default=2) > 1, "an attribute of one value", Unknown)
    cells, held = prod(grid.shape), [i for i, a in enumerate(grid.free) if a in unit.within]
    places = [x for a, x in grid.positions().items() if a in unit.within]

    def of_pairs(sector):
        d = np.zeros((cells, cells))
        for weight, (agree, i, j) in zip(p, pairs, strict=True):
            d[i, i] += weight
            need(i >= 0 and (j >= 0 or (j == -1 and unit.alone)), "no such record can be added or removed")
            need(all(agree >> b & 1 for b in held) and all(x[i] == x[j] for x in places), "a pair differs in within")
            if j >= 0:
                d[j, j] += weight
                chi = prod(1 if agree >> grid.free.index(a) & 1 else -1 / (grid.size[a] - 1) for a in sector)
                d[[i, j], [j, i]] -= weight * chi * (2 if i == j else 1)
        values, vectors = np.linalg.eigh(d)
        return vectors * np.sqrt(np.maximum(values, 0))

    return of_pairs


def achieved(tables, groups, size, grid):
    """Return the variance of every number of every table, from the integers."""
    out = [np.zeros(len(t.queries)) for t in tables]
    for g in groups:
        public = public_cells(grid, {*g["attributes"][0]})
        basis = without_means(integer_matrix(g["basis"]).astype(float), public)
        queries = [without_means(t.queries, public) for t in tables]
        # Rows of the basis are brought to one size: an amount has up to 2³⁰ steps.
        largest = np.maximum(np.abs(basis).max(axis=1, keepdims=True), 1e-9)
        lifts = [np.linalg.lstsq((basis / largest).T, q.T, rcond=None)[0].T / largest.T for q in queries]
        for names, mixing, scale in zip(g["attributes"], g["mixing"], g["scales"], strict=True):
            above, _, below = scale.partition("/")
            noise = np.linalg.inv(integer_matrix(mixing).astype(float)) * (int(above) / int(below or 1))
            for i, (t, lift) in enumerate(zip(tables, lifts, strict=True)):
                if t.free.issuperset(names):
                    need(np.abs(lift @ basis - queries[i]).max() < 1e-6, "a table does not follow from the integers")
                    centring = prod(0.25 if size[a] == 2 else (size[a] - 1) / size[a] ** 3 for a in names)
                    out[i] += (
                        ((lift @ noise) ** 2).sum(axis=1) * centring / prod(size[a] for a in t.free - {*names}) ** 2
                    )
    return out


def of_sets(p, sets, grid, unit):
    """Return a function that gives the root of D_S of a sector, from weights of sets of records."""
    coordinates = grid.positions()
    is_known = all(max_records == 1 and names <= {*coordinates} for names, max_records in unit.caps)
    need(is_known, "several records of a unit may be equal", Unknown)
    need(len(p) == len(sets), "the plan does not have one weight for each set of records")
    need(unit.alone or not unit.replaces, "a set of records needs records that can be added or removed alone")
    n = prod(grid.shape)
    free = [a for a in grid.free if a not in unit.fixed]
    for way, *cells in sets:
        is_valid = type(way) is bool or (type(way) is list and [len(free)] * len(cells) == [len(v) for v in way])
        # Numbers from n on are cells from which records are removed.
        parts = [[i % n for i in cells if i // n == part] for part in range(1 + unit.replaces)]
        is_valid = is_valid and cells and max(map(len, parts)) <= unit.records
        need(is_valid and sum(map(len, parts)) == len(cells), "one unit cannot have a set of records of the plan")
        agreed = [x for v in ([] if type(way) is bool else way) for x in zip(free, v, strict=True)]
        need(all(type(v) is int and 0 <= v < grid.size[a] for a, v in agreed), "an attribute lacks a value")
        need(len({*cells}) == len(cells), "a set of records does not name different cells")
        for i, j in (pair for part in parts for pair in combinations(part, 2)):
            differ = {a for a, x in coordinates.items() if x[i] != x[j]}
            is_one_unit = not differ & unit.fixed and all(differ & names for names, _ in unit.caps)
            is_separated = all(abs(coordinates[a][i] - coordinates[a][j]) >= n for a, n in unit.far.items())
            need(is_one_unit and is_separated, "one unit cannot have the records of a set of the plan")

    def moment(sector):
        d = np.zeros((n, n))
        for weight, (way, *cells) in zip(p, sets, strict=True):
            removed, cell_array = divmod(np.array(cells), n)
            if type(way) is bool:
                chi = np.eye(len(cells)) if not (way or sector <= unit.fixed) else np.ones(len(cells) ** 2)
            else:
                values, moving = [dict(zip(free, v, strict=True)) for v in way], sector.intersection(free)
                pairs = ((v, w) for v in values for w in values)
                chi = [prod(1 if v[a] == w[a] else -1 / (grid.size[a] - 1) for a in moving) for v, w in pairs]
            signs = np.outer(1 - 2 * removed, 1 - 2 * removed)
            np.add.at(d, (cell_array[:, None], cell_array), weight * np.reshape(chi, (-1, len(cells))) * signs)
        values, vectors = np.linalg.eigh(d)
        return vectors * np.sqrt(np.maximum(values, 0))

    return moment
