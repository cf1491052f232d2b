"""Check the charge of a plan of fitnoise without fitnoise, with Python, numpy and docs/plan_format.md alone.

python check_plan.py plan.json [SHA-256 that a release, a ledger or a publisher names]

Exit status 0: the charge and all other computed numbers are as stated. 1: something is not as stated. 2: the charge
could not be computed; the output says why. The program shares no code with fitnoise: if they disagree, one is wrong.

Copy all programs `check_*.py` into its folder.
"""

import hashlib
import json
import sys
from fractions import Fraction as Q
from functools import cached_property
from importlib import import_module
from itertools import combinations
from math import frexp, lcm, prod
from pathlib import Path

import numpy as np


class Wrong(Exception):
    """A number of the plan is not as the plan states it."""


class Unknown(Exception):
    """This program cannot compute the number."""


def need(true, what, kind=Wrong):
    """Raise an exception unless something is true."""
    if not true:
        raise kind(what)


def integer_matrix(rows):
    """Return a matrix of Python's integers, which never overflow."""
    need(all(type(x) is int for row in rows for x in row), "a design is made of whole numbers")
    return np.array(rows, dtype=object).reshape(len(rows), -1)


def subsets(items):
    """Return all subsets."""
    return (frozenset(x) for k in range(len(items) + 1) for x in combinations(items, k))


class Unit:
    """The records that one protected unit can change: section 3."""

    def __init__(self, spec, size):
        privacy, data = spec.get("privacy", {}), spec.get("data", {})
        self.fixed, self.far = frozenset(privacy.get("fixed", ())), privacy.get("separation", {})
        caps = [(privacy["once_per"], 1)] if privacy.get("once_per") else []
        caps += [([a], n) for a, n in privacy.get("per_value", {}).items()] + [([a], 1) for a in self.far]
        self.caps = [(frozenset(names) - self.fixed, n) for names, n in caps]
        room = [n * prod(size[a] for a in names) for names, n in self.caps]
        room += [-(-size[a] // n) for a, n in self.far.items() if a not in self.fixed]
        self.records = min([privacy.get("max_records", 1), *room])
        self.caps = self.caps if self.records > 1 else []
        usual = data.get("outside_domain", "refuse")
        ways = {a.get(x) or usual for a in spec["domain"].values() for x in ("if_missing", "if_outside")}
        drops = "drop" in ways or bool(data.get("where")) or (usual == "drop" and "id" in privacy)
        self.replaces = privacy.get("neighbours") == "replace-one"
        self.alone = not self.replaces or drops or privacy.get("max_records", 1) > 1 or "id" in privacy


def inverse_squares(scales):
    """Return a unit, and in it 1/s² of noise scales: exact, or rounded up where there are more than 64."""
    values = {text: Q(text) for text in scales}
    need(min(values.values()) > 0, "a noise scale is above 0")
    unit = lcm(*(s.numerator**2 for s in values.values()))
    if len(set(values.values())) > 64:
        unit = 2 ** max(0, 2 * frexp(max(values.values()))[1] + 96)
    return unit, {text: -(-unit * s.denominator**2 // s.numerator**2) for text, s in values.items()}


class Sectors:
    """Integers measured in sectors with Gaussian noise: section 4."""

    def __init__(self, groups, size, axes):
        self.unit, inverse = inverse_squares([s for g in groups for s in g["scales"]])
        self.size, self.axes, self.cells, self.parts = size, axes, prod(size[a] for a in axes), []
        for g in groups:
            basis = integer_matrix(g["basis"])
            need(basis.shape[1] == self.cells, "a basis does not have a number for each structured cell")
            for names, mixing, scale in zip(g["attributes"], g["mixing"], g["scales"], strict=True):
                self.parts.append((frozenset(names), integer_matrix(mixing) @ basis, inverse[scale]))
        need(len({s for s, *_ in self.parts}) == len(self.parts), "a sector is measured twice")
        self.free = sorted({a for s, *_ in self.parts for a in s if size[a] > 1})
        self.own = sum(self.weight(s, s) * x * (m * m).sum(axis=0) for s, m, x in self.parts)

    def weight(self, sector, same):
        """Return w_S(T) of section 4: the sector is S, and two records agree on the attributes T."""
        n = {a: self.size[a] for a in sector}
        return prod((1 if k == 2 else k * (k - 1)) if a in same else (-1 if k == 2 else -k) for a, k in n.items())

    @cached_property
    def grams(self):
        """The products of every two columns, sector by sector."""
        return [(s, x * (m.T @ m)) for s, m, x in self.parts]

    def products(self, same):
        """Return X of every two cells, for records that agree on these exchangeable attributes and no other."""
        return sum(self.weight(s, same) * g for s, g in self.grams)

    def lower_bound(self):
        """Return a lower bound on X, for records that agree on any attributes."""
        weights = {s: [self.weight(s, s), *(self.weight(s, s - {a}) for a in s)] for s, *_ in self.parts}
        return sum(np.minimum(max(weights[s]) * g, min(weights[s]) * g) for s, g in self.grams)

    def cost(self, unit, claim, proofs):
        """Return twice ρ of one unit."""
        own_costs, replaced, single_cost = self.own, 0, max(self.own) * unit.records**2
        if unit.replaces:
            products = map(self.products, subsets(self.free)) if len(self.free) <= 14 else [self.lower_bound()]
            replaced = max(np.max(own_costs[:, None] + own_costs - 2 * x) for x in products) * unit.records**2
        cost = max(replaced, single_cost if unit.alone else 0)
        if unit.caps:
            by_sets = min(single_cost, *import_module("check_sets").set_costs(self, unit, claim, proofs))
            cost = min(cost, 4 * by_sets) if unit.replaces else by_sets  # the removed records, and the added ones
        return Q(int(cost), self.unit)


def dense(margin, cells):
    """Return the matrix of a margin, with a number for every structured cell: section 5."""
    rows = np.zeros((len(margin["rows"]), cells), dtype=object)
    for row, (where, values) in zip(rows, margin["rows"], strict=True):
        row[where] = integer_matrix([values])[0]
    return rows


def margins(strategy, size, axes, unit):
    """Return ε² of margins measured with Laplace noise: section 5."""
    one, two = 0, 0
    for m in strategy["margins"]:
        rows = dense(m, prod(size[a] for a in axes))
        column_sums = abs(rows).sum(axis=0)
        one += column_sums
        if unit.replaces:
            same = all(size[a] == 1 for a in m["attributes"])
            two += sum(abs(row[:, None] - row) for row in rows) if same else column_sums[:, None] + column_sums
    return (unit.records * max(max(one) if unit.alone else 0, np.max(two)) / Q(strategy["scale"])) ** 2


def charge(part, request, spec, size, unit):
    """Return twice ρ of some tables, or their ε²."""
    strategy, claim = part["strategy"], part["cost"].get("claim")
    if "trees" in strategy:
        return import_module("check_places").by_place(strategy, spec, size, unit)
    if "sets" in strategy:
        return import_module("check_products").axis_by_axis(strategy, size, unit, claim, part.get("proofs"))
    grid = (cells := import_module("check_cells")).Grid(strategy, request, spec, size)
    if "margins" in strategy:
        cells.between_knots([dense(m, prod(grid.shape)) for m in strategy["margins"]], grid)
        return margins(strategy, size, grid.axes, unit)
    cells.between_knots([integer_matrix(g["basis"]) for g in strategy], grid)
    return Sectors(strategy, size, grid.axes).cost(grid.unit(unit), claim, part.get("proofs", []))


def check(text, expected_digest=None):
    """Yield the result for a plan, line by line; raise Wrong or Unknown where a number fails."""
    plan = json.loads(text)
    digest = hashlib.sha256(import_module("check_witness").without_proofs(text, plan)).hexdigest()
    yield f"SHA-256 {digest}"
    need(expected_digest in (None, digest), "the plan has another SHA-256 than the given one")
    need(plan["fitnoise_plan"] == 4, "a plan of another format", Unknown)
    spec, parts = plan["spec"], plan["tables"]
    unit = Unit(spec, size := import_module("check_cells").cells_of(spec["domain"]))
    for part, request in zip(
        parts, [*([spec] if spec.get("tables") else []), *spec.get("further_tables", ())], strict=True
    ):
        stated, pure = Q(part["cost"]["cost_squared"]), "margins" in part["strategy"]
        cost = charge(part, request, spec, size, unit)
        need(cost == stated, f"tables cost {float(cost)}, not as stated")
        cost_text = f"epsilon = {float(stated) ** 0.5:.9g}" if pure else f"rho = {float(stated) / 2:.9g}"
        yield f"tables by {part['mechanism']}: charge as stated, {cost_text}"
        yield import_module("check_bound").check(part, request, spec, size, unit)
    for q, m in zip(spec.get("questions", ()), plan["questions"], strict=True):
        cost_text = import_module("check_answers").check(q, m, spec, size, unit)
        yield f"question {q['name']!r}: {cost_text}, epsilon = {q['epsilon']}"


def main(path, *digest):
    """Print the result, and return the exit status."""
    try:
        for line in check(Path(path).read_bytes(), *digest):
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
