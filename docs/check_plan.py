"""Check what a plan of fitnoise charges without fitnoise: Python, numpy and docs/plan_format.md are all it takes.

python check_plan.py plan.json [SHA-256 that a release, a ledger or a publisher names]

Exit status 0: the charge is as stated, and so is what else was computed. 1: something is not as stated. 2: the charge
could not be computed, and why. It shares a format with fitnoise and no code: if they disagree, one of them is wrong.

`check_answers.py` and `check_bound.py`, beside it, check single answers and the bound.
"""

import hashlib
import json
import sys
from collections import Counter
from fractions import Fraction as Q
from importlib import import_module
from itertools import accumulate, combinations
from math import frexp, lcm, prod
from pathlib import Path

import numpy as np


class Wrong(Exception):
    """The plan is not what it says."""


class Unknown(Exception):
    """This program cannot say."""


def need(true, what, kind=Wrong):
    """Raise an exception unless something is true."""
    if not true:
        raise kind(what)


def whole(rows):
    """A matrix of Python's integers, which never overflow."""
    need(all(type(x) is int for row in rows for x in row), "a design is made of whole numbers")
    return np.array(rows, dtype=object).reshape(len(rows), -1)


def subsets(items):
    """All of them."""
    return (frozenset(x) for k in range(len(items) + 1) for x in combinations(items, k))


def cells_of(domain):
    """Section 2: how many cells attributes have, levels of places, and shares of levels."""
    out = {}
    for name, a in domain.items():
        own = a["high"] - a["low"] + 1 if "low" in a else len(a["cuts"]) + 1 if "cuts" in a else len(a.get("codes", ()))
        own = 2 if a["type"] == "amount" else own
        out[name] = own + len(a.get("places", ())) + len(a.get("missing", ()))
        for j, lower in enumerate(a.get("levels", ())):
            out[lower] = len({row[j] for row in a["places"]})
            for i, upper in enumerate(a["levels"][:j]):
                each = {*Counter(above for above, _ in {(row[i], row[j]) for row in a["places"]}).values()}
                out |= {f"{lower} in {upper}": min(each)} if len(each) == 1 else {}
    return out


class Unit:
    """Section 3: what one protected unit can change."""

    def __init__(self, spec, size):
        said, data = spec.get("privacy", {}), spec.get("data", {})
        self.fixed, self.far = frozenset(said.get("fixed", ())), said.get("separation", {})
        caps = [([a], n) for a, n in said.get("per_value", {}).items()] + [([a], 1) for a in self.far]
        caps += [(said["once_per"], 1)] if said.get("once_per") else []
        self.caps = [(frozenset(names) - self.fixed, n) for names, n in caps]
        room = [n * prod(size[a] for a in names) for names, n in self.caps]
        room += [-(-size[a] // n) for a, n in self.far.items() if a not in self.fixed]
        self.records = min([said.get("max_records", 1), *room])
        self.caps = self.caps if self.records > 1 else []
        usual = data.get("outside_domain", "refuse")
        ways = {a.get(x) or usual for a in spec["domain"].values() for x in ("absent", "outside")}
        drops = "drop" in ways or bool(data.get("where")) or (usual == "drop" and "id" in said)
        self.replaces = said.get("neighbours") == "replace-one"
        self.alone = not self.replaces or drops or said.get("max_records", 1) > 1 or "id" in said


def inverse_squares(scales):
    """A unit, and in it 1/s² of noise scales: exact, or rounded up where there are more than 64."""
    values = {text: Q(text) for text in scales}
    need(min(values.values()) > 0, "a noise scale is above 0")
    unit = lcm(*(s.numerator**2 for s in values.values()))
    if len(set(values.values())) > 64:
        unit = 2 ** max(0, 2 * frexp(max(values.values()))[1] + 96)
    return unit, {text: -(-unit * s.denominator**2 // s.numerator**2) for text, s in values.items()}


class Sectors:
    """Section 4: integers measured in sectors, with Gaussian noise."""

    def __init__(self, groups, size, axes):
        self.unit, inverse = inverse_squares([s for g in groups for s in g["scales"]])
        self.size, self.axes, self.parts = size, axes, []
        for g in groups:
            basis = whole(g["basis"])
            for names, mixing, scale in zip(g["attributes"], g["mixing"], g["scales"], strict=True):
                self.parts.append((frozenset(names), whole(mixing) @ basis, inverse[scale]))
        need(len({s for s, *_ in self.parts}) == len(self.parts), "a sector is measured twice")
        self.free, self.cells = sorted({a for s, *_ in self.parts for a in s if size[a] > 1}), basis.shape[1]
        self.own = sum(self.weight(s, s) * x * (m * m).sum(axis=0) for s, m, x in self.parts)

    def weight(self, sector, same):
        """What the centrings of a sector make of two records that agree on some attributes."""
        n = {a: self.size[a] for a in sector}
        return prod((1 if k == 2 else k * (k - 1)) if a in same else (-1 if k == 2 else -k) for a, k in n.items())

    def products(self, same):
        """X of every two cells, for records that agree on these exchangeable attributes and no other."""
        return sum(self.weight(s, same) * g for s, g in self.grams)

    def cost(self, unit, stated):
        """Twice ρ of one unit."""
        replaced, one, own, self.stated = 0, max(self.own), self.own, stated * self.unit
        if unit.replaces or unit.caps:
            self.grams = [(s, x * (m.T @ m)) for s, m, x in self.parts]
        if unit.replaces and len(self.free) <= 14:
            replaced = max(np.max(own[:, None] + own - 2 * self.products(same)) for same in subsets(self.free))
        elif unit.replaces:
            weights = {s: [self.weight(s, s), *(self.weight(s, s - {a}) for a in s)] for s, *_ in self.parts}
            least = sum(np.minimum(max(weights[s]) * g, min(weights[s]) * g) for s, g in self.grams)
            replaced = np.max(own[:, None] + own - 2 * least)
        cost = max(replaced, one if unit.alone else 0) * unit.records**2
        if unit.caps:
            apart = min(one * unit.records**2, *self.apart(unit))
            cost = min(cost, 4 * apart) if unit.replaces else apart
        return Q(int(cost), self.unit)

    def partners(self, unit):
        """By cap its attributes, their joint cell in each cell, and k; by cap and place the dearest X beside a cell."""
        low, shape = -2 * max(self.own) - 1, [self.size[a] for a in self.axes or ()]
        few = len(self.parts) * self.cells**2 << len(self.free) <= 2**20 and self.cells * unit.records <= 2**20
        known = few and self.axes is not None and self.cells == prod(shape)
        need(known, "records of a unit keep to a pattern, among places or too many pairs of cells", Unknown)
        at = dict(zip(self.axes, np.indices(shape).reshape(len(shape), self.cells), strict=True))
        near, caps, best = np.ones((self.cells, self.cells), bool), [], {}
        for a, x in at.items():
            gap = abs(x[:, None] - x)
            near &= (gap >= unit.far.get(a, 0)) & ((gap == 0) | (a not in unit.fixed))
        for names, most in unit.caps:
            along = sum((at[a] * prod(shape[: self.axes.index(a)]) for a in names & {*at}), np.zeros(self.cells, int))
            alike = prod(self.size[a] for a in names - {*at, *self.free})
            caps.append((names.intersection(self.free), along, most * alike))
        for same in (x for x in subsets(self.free) if unit.fixed.intersection(self.free) <= x):
            pairs = near.copy()
            for names, along, most in caps:
                pairs &= (along[:, None] != along) | (most > 1) | (not names <= same)
            x = np.where(pairs, self.products(same), low)
            for i, (names, along, _) in enumerate(caps):
                for v in {*along.tolist()}:
                    key, dearest = (i, names & same, v), x[:, along == v].max(axis=1)
                    best[key] = np.maximum(best.get(key, dearest), dearest)
        return caps, {k: [x if x > low else None for x in found] for k, found in best.items()}

    def apart(self, unit):
        """What a unit's records cost of which at most so many share a cell, by each bound."""
        g, (caps, best) = unit.records, self.partners(unit)
        for i, (names, along, most) in enumerate(caps):
            sums, room, dear = [], most * prod(self.size[a] for a in names), [0]
            for o, v in enumerate(along.tolist()):  # R of m records: one in cell o, and the m − 1 dearest beside it
                beside = [
                    (x[o], most - 1 if (s, w) == (names, v) else most * prod(self.size[a] - 1 for a in names - s))
                    for (j, s, w), x in best.items()
                    if j == i and x[o] is not None
                ]
                line = [x for x, n in sorted(beside, reverse=True) for _ in range(min(n, g - 1))][: g - 1]
                sums.append((v, list(accumulate([self.own[o], *line]))))
            yield max(m * x for _, line in sums for m, x in enumerate(line, 1))
            for m in range(1, g + 1):
                top = {}
                for v, line in (x for x in sums if len(x[1]) >= m):
                    top[v] = max(top.get(v, line[m - 1]), line[m - 1])
                if len(top) * room < m:
                    break
                dear.append(sum(x * max(0, min(room, m - i * room)) for i, x in enumerate(sorted(top.values())[::-1])))
            yield max(dear)
            if not names:
                yield from import_module("check_sets").prices(self, unit, along, most, best, i)


def margins(strategy, size, axes, unit):
    """Section 5: ε² of margins measured with Laplace noise."""
    need(axes is not None or not unit.replaces, "records are replaced, and margins are of places", Unknown)
    every = [c for m in strategy["margins"] for where, _ in m["rows"] for c in where]
    cells = max(every) + 1 if axes is None else prod(size[a] for a in axes)
    one, apart, near = np.zeros(cells, dtype=object), np.zeros(cells, dtype=object), 0
    for m in strategy["margins"]:
        rows = np.zeros((len(m["rows"]), cells), dtype=object)
        for row, (where, values) in zip(rows, m["rows"], strict=True):
            row[where] = whole([values])[0]
        one += abs(rows).sum(axis=0)
        alike = unit.replaces and all(size[a] == 1 for a in m["attributes"])
        near = near + sum(abs(row[:, None] - row) for row in rows) if alike else near
        apart += 0 if alike else abs(rows).sum(axis=0)
    step = max(max(one) if unit.alone else 0, np.max(near + apart[:, None] + apart) if unit.replaces else 0)
    return (unit.records * step / Q(strategy["scale"])) ** 2


def axis_by_axis(strategy, size, unit):
    """Section 6: twice ρ of products of what is measured of each attribute."""
    part, inverse = inverse_squares([s for g in strategy["sets"] for s in g["scales"]])
    square = {a: 1 if n == 2 else n * (n - 1) for a, n in size.items()}  # of what is centred
    for f in strategy["factors"]:
        square |= {a: max((whole(f["rows"]) ** 2).sum(axis=0)) for a in f["attributes"] if f["rows"]}
    sets = [x for g in strategy["sets"] for x in zip(g["attributes"], g["multiples"], g["scales"], strict=True)]
    total = sum(inverse[s] * m**2 * prod(square[a] for a in names) for names, m, s in sets)
    return Q(int(total), part) * (4 if unit.replaces else 1) * unit.records**2


def charge(strategy, asked, spec, size, unit, stated):
    """Twice ρ of some tables, or their ε². Stated: what it may be."""
    if "sets" in strategy:
        return axis_by_axis(strategy, size, unit)
    groups = strategy.get("margins") if isinstance(strategy, dict) else strategy
    free = {x for g in groups for names in g["attributes"] for x in ([names] if isinstance(names, str) else names)}
    used = {a for t in asked["tables"] for k in ("attributes", "among") for a in t.get(k, ())} - free
    used |= {*(asked.get("privacy", {}) if asked is spec else asked).get("cell_budgets", {}).get("attributes", ())}
    used = {*spec["domain"]} if any("matrix" in t for t in asked["tables"]) else used
    places = {x for a, d in spec["domain"].items() if "places" in d for x in (a, *d["levels"])}
    axes = None if used & places else [a for a in spec["domain"] if a in used]
    if "margins" in strategy:
        return margins(strategy, size, axes, unit)
    import_module("check_bound").between_ends(strategy, axes or (), size, spec["domain"])
    return Sectors(strategy, size, axes).cost(unit, stated)


def check(text, named=None):
    """What is found of a plan, line by line; Wrong or Unknown where it is not right."""
    digest, plan = hashlib.sha256(text).hexdigest(), json.loads(text)
    yield f"SHA-256 {digest}"
    need(named in (None, digest), "this is not the plan that was named")
    need(plan["fitnoise_plan"] in (2, 3), "a plan of another format", Unknown)
    spec, parts = plan["spec"], plan["tables"] if plan["fitnoise_plan"] == 3 else [plan]
    unit = Unit(spec, size := cells_of(spec["domain"]))
    for part, asked in zip(parts, [*([spec] if spec.get("tables") else []), *spec.get("also", ())], strict=True):
        stated, pure = Q(part["cost"]["cost_squared"]), "margins" in part["strategy"]
        cost = charge(part["strategy"], asked, spec, size, unit, stated)
        need(cost == stated, f"tables cost {float(cost)}, and the plan says otherwise")
        found = f"epsilon = {float(cost) ** 0.5:.9g}" if pure else f"rho = {float(cost) / 2:.9g}"
        yield f"tables by {part['mechanism']}: charge as stated, {found}"
        yield import_module("check_bound").check(part, asked, spec, size, unit)
    for q, m in zip(spec.get("finite", ()), plan.get("finite", ()), strict=True):
        found = import_module("check_answers").check(q, m, spec, size, unit)
        yield f"question {q['name']!r}: {found}, epsilon = {q['epsilon']}"


def main(path, *named):
    """Print what is found, and return the exit status."""
    try:
        for line in check(Path(path).read_bytes(), *named):
            print(line)
    except Unknown as error:
        print("cannot say:", error)
        return 2
    except (Wrong, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        print("NOT RIGHT:", error if isinstance(error, Wrong) else repr(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(import_module("check_plan").main(*sys.argv[1:]))
