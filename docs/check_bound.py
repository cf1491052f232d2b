"""Check the bound that a plan states, and that its targets are met: section 8 of docs/plan_format.md.

`check_plan.py` calls it: what is not computed here is said, and what is as stated; Wrong where something is not.
"""

from fractions import Fraction as Q
from itertools import combinations
from math import log, prod
from statistics import NormalDist

import numpy as np
from check_answers import place
from check_plan import Unknown, need, subsets, whole
from check_sets import of_sets

WORDS = {"singles": 1, "pairs": 2, "triples": 3}
SPANS = {
    "prefix": lambda n, k: [(0, i + 1) for i in range(n)],
    "ranges": lambda n, k: combinations(range(n + 1), 2),
    "change": lambda n, k: [(i, i + 1) for i in range(n - k)],
    "average": lambda n, k: [(i, i + k) for i in range(n - k + 1)],
    "to_date": lambda n, k: [(i - i % k, i + 1) for i in range(n)],
}
KINDS = ("margin", "std_error", "variance", "max_deviation", "cv")


def between_ends(strategy, axes, size, domain):
    """Section 2: what is measured is whole for every step of an amount."""
    amounts = [(i, domain[a]) for i, a in enumerate(axes, 1) if domain[a]["type"] == "amount"]
    for g in strategy if amounts else ():
        rows = whole(g["basis"]).reshape(-1, *(size[a] for a in axes))
        for i, d in amounts:
            k = int((Q(str(d["high"])) - Q(str(d["low"]))) / Q(str(d.get("step", 1))))
            low, high, rest = np.split(rows, [1, 2], axis=i)
            need(not ((high - low) % k).any(), "what is measured is no whole number between two ends")
            rows = np.concatenate([low, low + (high - low) // k, rest], axis=i)


class Grid:
    """The attributes and levels of a domain: `free` ones, which are alike by value, and `axes`, the others."""

    def __init__(self, part, asked, spec, size):
        self.domain, self.size, self.depth, self.home = {}, size, {}, {}
        for home, a in spec["domain"].items():
            levels = a.get("levels", [])
            self.domain[home] = {"codes": [row[-1] for row in a["places"]], "rows": a["places"]} if levels else a
            self.depth[home], self.home[home] = max(len(levels) - 1, 0), home
            for i, level in enumerate(levels):
                self.domain[level] = {"codes": list(dict.fromkeys(row[i] for row in a["places"])), "rows": a["places"]}
                self.depth[level], self.home[level] = i, home
        groups = part["strategy"]["margins"] if "margins" in part["strategy"] else part["strategy"]
        named = {x for g in groups for names in g["attributes"] for x in ([names] if isinstance(names, str) else names)}
        for share in named - self.domain.keys():
            self.depth[share], self.home[share] = (own[share.split(" in ")[0]] for own in (self.depth, self.home))
        self.free = sorted(named, key=lambda x: (list(spec["domain"]).index(self.home[x]), self.depth[x]))
        self.said = asked.get("privacy", {}) if asked is spec else asked
        used = {a for t in asked["tables"] for k in ("attributes", "among") for a in t.get(k, ())}
        used |= {*self.said.get("cell_budgets", {}).get("attributes", ())}
        used = {*spec["domain"]} if any("matrix" in t for t in asked["tables"]) else used
        alike = {self.home[x] for x in self.free}
        left = [[x for x in used if self.home[x] == home] for home in spec["domain"] if home not in alike]
        self.axes = [max(own, key=lambda x: (self.depth[x], x)) for own in left if own]
        self.shape = [size[a] for a in self.axes]

    def shown(self, names):
        """Of some names the exchangeable attributes that they show, and by axis the name that lies along it."""
        deepest = {self.home[x]: x for x in sorted(names, key=self.depth.get)}
        free = {x for x in self.free if self.depth[x] <= self.depth.get(deepest.get(self.home[x]), -1)}
        return free, {a: deepest.get(self.home[a]) for a in self.axes}


class Table:
    """One table: its exchangeable attributes, its queries R of the structured cells, and its targets."""

    def __init__(self, t, names, x, grid, confidence):
        self.free, along = grid.shown(names)
        rows = {a: np.ones((1, grid.size[a])) if name is None else view(t, name, a, grid) for a, name in along.items()}
        self.queries = np.ones((1, 1))
        for a in grid.axes:
            self.queries = np.kron(self.queries, rows[a])
        if "matrix" in t:
            self.queries = np.array(t["matrix"], dtype=float)
            rows, along = {"query": self.queries}, {"query": x["by"] if isinstance(x, dict) else None}
        self.cells = prod(grid.size[a] for a in self.free)
        if isinstance(x, dict) and "by" in x:
            order = [-1 if name == x["by"] else 1 for name in along.values()]
            x = np.broadcast_to(np.reshape(by(x, t, grid), order), [len(r) for r in rows.values()]).ravel()
        self.targets = np.zeros(len(self.queries)) + variance(t, x, self.cells * len(self.queries), confidence)
        if "mean" in t:
            self.targets *= (t["reference"] / (grid.domain[t["mean"]]["high"] - grid.domain[t["mean"]]["low"])) ** 2


def view(t, name, axis, grid):
    """What a table shows of an attribute or level, as rows over the cells of an axis."""
    d, n, axis_of = grid.domain[name], grid.size[name], np.eye(grid.size[name])
    if "rows" in d:  # which place each cell of the axis lies in
        above = {row[grid.depth[axis]]: row[grid.depth[name]] for row in d["rows"]}
        codes = grid.domain[axis]["codes"]
        axis_of = np.array([[above[code] == own for code in codes] for own in d["codes"]], dtype=float)
    missing = list(d.get("missing", ()))
    own = n - len(missing)
    shows = next((v for v in SPANS if name in t.get(v, ())), None)
    if shows:
        k = shows == "prefix" or t[shows][name]
        spans = [(place(d, i), place(d, j) + 1) for i, j in k] if isinstance(k, list) else SPANS[shows](own, k)
        rows = np.array([[i <= o < j for o in range(own)] for i, j in spans], dtype=float)
        rows = np.eye(own)[k:] - rows if shows == "change" else rows / (k if shows == "average" else 1)
    elif name in t.get("recode", {}):
        cells = [{place(d, v) for v in group} for group in t["recode"][name].values()]
        cells = [{own + missing.index(c[1]) if isinstance(c, tuple) else c for c in group} for group in cells]
        rows = np.array([[o in group for o in range(n)] for group in cells], dtype=float)
    elif name in t.get("sum", ()):
        rows = np.linspace(d["low"], d["high"], own)[None]
    elif name == t.get("mean"):
        rows = np.eye(own)
    else:
        return axis_of
    rows = np.hstack([rows, np.zeros((len(rows), n - rows.shape[1]))])
    left = [o for o in range(own, n) if t.get("missing") and not rows[:, o].any()]
    return np.vstack([rows, np.eye(n)[left]]) @ axis_of


def by(x, t, grid):
    """A target for every row along an attribute."""
    if isinstance(x["values"], list):
        return x["values"]
    d, name = grid.domain[x["by"]], x["by"]
    shown = t.get("recode", {}).get(name)
    plain = "codes" in d and name not in [x for view in SPANS for x in t.get(view, ())]
    need(plain or shown, "targets are named by numbers or ranges", Unknown)
    shown = [*(shown or d.get("labels") or d["codes"]), *d.get("missing", ())]
    return [x["values"].get(str(v), x.get("default")) for v in shown]


def variance(t, x, many, confidence):
    """The variance that a target asks for: section 8."""
    kind, sure = next(k for k in KINDS if k in t), t.get("confidence", confidence)
    if isinstance(x, dict):
        x = x["coefficient"] * many ** x["power"]
        x = min(max(x, t[kind].get("least", 0)), t[kind].get("most", np.inf))
    if kind == "cv":
        at = t["reference"]
        return (np.asarray(x) * (at["total"] / many if isinstance(at, dict) else at)) ** 2
    if kind == "max_deviation":
        return (np.asarray(x) / -NormalDist().inv_cdf(-np.expm1(log(sure) / many) / 2)) ** 2
    by_kind = {"variance": lambda x: x, "std_error": lambda x: x**2}
    return by_kind.get(kind, lambda x: (x / NormalDist().inv_cdf((1 + sure) / 2)) ** 2)(np.asarray(x, dtype=float))


def tables_of(asked, spec, grid):
    """All tables, of patterns each one."""
    sure = spec.get("accuracy", {}).get("confidence", 0.95)
    sure = sure if asked is spec else asked.get("confidence", sure)
    for t in asked["tables"]:
        kind = next(k for k in KINDS if k in t)
        sets = list(combinations(t["among"], WORDS.get(t["all"], t["all"]))) if "all" in t else [()]
        each = t[kind] if isinstance(t[kind], list) else [t[kind]] * len(sets)
        for more, x in zip(sets, each, strict=True):
            yield Table(t, [*t.get("attributes", ()), *more], x, grid, sure)


def check(part, asked, spec, size, unit):
    """What is found, in words."""
    try:
        found, worst = computed(part, asked, spec, size, unit)
    except Unknown as error:
        return f"  its bound was not computed: {error}"
    need(abs(found / part["cost"]["bound"] - 1) < 1e-5, f"the weights prove {found:.9g}, and the plan says otherwise")
    need(worst is None or "budget" in asked or worst <= 1 + 1e-9, "a variance is above its target")
    near = "" if worst is None else f", variances at most {worst:.9g} times their targets"
    return f"  bound as stated, {found:.9g}{near}"


def computed(part, asked, spec, size, unit):
    """What the plan's weights prove that nothing costs less than; and the largest variance over its target."""
    sets, pairs, several = (part["weights"].get(k) for k in ("sets", "pairs", "together"))
    need(sets or not (unit.caps or several), "records of one unit keep to a pattern", Unknown)
    need(part["mechanism"] in ("fit-for-use", "pure-fit-for-use"), f"it is one of {part['mechanism']}", Unknown)
    tables = list(tables_of(asked, spec, grid := Grid(part, asked, spec, size)))
    c, goal = np.concatenate([t.targets for t in tables]), asked.get("objective", {})
    cells = np.concatenate([np.full(len(t.targets), t.cells) for t in tables])
    omega = cells * c ** {"inverse-variance": -1, "inverse-std-error": -0.5}.get(goal.get("weights"), 0)
    total, hybrid = (goal.get("goal") == kind for kind in ("total-error", "hybrid"))
    p, q = (np.array(part["weights"][k], dtype=float) for k in ("cells", "numbers"))
    need(np.isfinite([*p, *q]).all() and min([*p, *q]) >= 0 and p.sum() > 0, "a weight is a number from 0 on")
    need(len(q) == (0 if total else len(c)), "there is a weight for each number")
    w = omega / (omega @ c) if total else q / c + goal["trade"] * omega if hybrid else q / c / q.sum()
    d = (of_sets if sets else moments)(p / p.sum() * (1 if sets else unit.records**2), sets or pairs, grid, unit)
    nu, weights = 0.0, np.split(w, np.cumsum([len(t.targets) for t in tables])[:-1])
    for s in {s for t in tables for s in subsets([a for a in grid.free if a in t.free and size[a] > 1])}:
        over = [np.sqrt(x)[:, None] / t.cells * t.queries for t, x in zip(tables, weights, strict=True) if s <= t.free]
        nu += prod(size[a] - 1 for a in s) * np.linalg.svd(np.concatenate(over) @ d(s), compute_uv=False).sum()
    found, worst = 2 * nu - q.sum() if hybrid else nu**2, None
    if "margins" not in part["strategy"]:
        reached = np.concatenate(achieved(tables, part["strategy"], size))
        worst = omega @ reached / (omega @ c) if total else max(reached / c)
    need("budget" not in asked or worst is not None, "what a budget buys of pure noise", Unknown)
    return found / (worst if "budget" in asked else 1), worst


def moments(p, pairs, grid, unit):
    """By sector the root of what the weights of cells are, or of pairs of records."""
    need((pairs is not None) == unit.replaces, "weights of pairs go with records that are replaced")
    if pairs is None:
        if said := grid.said.get("cell_budgets"):
            names = [a for a in grid.axes if a in said["attributes"]]
            r = np.reshape(said["values"], [grid.size[a] for a in said["attributes"]])
            r = r.transpose([said["attributes"].index(a) for a in names])
            r = r.reshape([n if a in names else 1 for a, n in zip(grid.axes, grid.shape, strict=True)])
            r = np.broadcast_to(r, grid.shape).ravel()
            p = np.divide(p, r, out=np.zeros_like(p), where=r > 0)
        root = np.diag(np.sqrt(p))
        return lambda sector: root
    need(min(grid.size[a] for a in grid.free) > 1 if grid.free else True, "an attribute of one value", Unknown)
    cells = prod(grid.shape)

    def of_pairs(sector):
        d = np.zeros((cells, cells))
        for weight, (agree, i, j) in zip(p, pairs, strict=True):
            d[i, i] += weight
            need(i >= 0 and (j >= 0 or (j == -1 and unit.alone)), "no such record comes or goes")
            if j >= 0:
                d[j, j] += weight
                chi = prod(1 if agree >> grid.free.index(a) & 1 else -1 / (grid.size[a] - 1) for a in sector)
                d[[i, j], [j, i]] -= weight * chi * (2 if i == j else 1)
        values, vectors = np.linalg.eigh(d)
        return vectors * np.sqrt(np.maximum(values, 0))

    return of_pairs


def achieved(tables, groups, size):
    """The variance of every number of every table, from the integers."""
    out = [np.zeros(len(t.queries)) for t in tables]
    for g in groups:
        basis = whole(g["basis"]).astype(float)
        lifts = [np.linalg.lstsq(basis.T, t.queries.T, rcond=None)[0].T for t in tables]
        for names, mixing, scale in zip(g["attributes"], g["mixing"], g["scales"], strict=True):
            above, _, below = scale.partition("/")
            noise = np.linalg.inv(whole(mixing).astype(float)) * (int(above) / int(below or 1))
            for i, (t, lift) in enumerate(zip(tables, lifts, strict=True)):
                if t.free.issuperset(names):
                    need(np.abs(lift @ basis - t.queries).max() < 1e-6, "a table does not follow from what is measured")
                    spread = prod(0.25 if size[a] == 2 else (size[a] - 1) / size[a] ** 3 for a in names)
                    out[i] += ((lift @ noise) ** 2).sum(axis=1) * spread / prod(size[a] for a in t.free - {*names}) ** 2
    return out
