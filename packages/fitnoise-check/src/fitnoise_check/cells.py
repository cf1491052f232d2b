"""The cells of a domain, and the exchangeable attributes: section 2 of docs/plan_format.md."""

from collections import Counter
from copy import copy
from itertools import accumulate, pairwise
from math import prod
from operator import mul

import numpy as np

from fitnoise_check.amounts import cells_within_cuts, knots, steps_of
from fitnoise_check.exact import Unknown, class_of, need
from fitnoise_check.totals import is_exchangeable

TYPES = ("amount", "binned", "categorical", "hierarchy", "ordered")


def cells_of(domain):
    """Return the numbers of cells of attributes, of levels of places, and of shares of levels: section 2."""
    out = {}
    for name, a in domain.items():
        need(a["type"] in TYPES, f"the cells of {name!r}, of type {a['type']!r}", Unknown)
        cells = len(a["cuts"]) + 1 if "cuts" in a else len(a.get("codes", ()))
        cells = len(knots(a)) if a["type"] == "amount" else a["high"] - a["low"] + 1 if "low" in a else cells
        many = [*accumulate(a.get("children", ()), mul)]  # places of each level
        out[name] = cells + len(a.get("places", ())) + sum(many[-1:]) + len(a.get("missing", ()))
        for j, lower in enumerate(a.get("levels", ())):
            out[lower] = many[j] if many else len({row[j] for row in a["places"]})
            for i, upper in enumerate(a["levels"][:j]):
                pairs = () if many else {(row[i], row[j]) for row in a["places"]}
                each = {many[j] // many[i]} if many else {*Counter(above for above, _ in pairs).values()}
                out |= {f"{lower} in {upper}": min(each)} if len(each) == 1 else {}
    return out


def rows_of(a):
    """Return the codes of every leaf of nested places, level by level, from `places` or `children`: section 2."""
    rows = [()]
    for n in a.get("children", ()):
        codes = [str(i).zfill(len(str(n))) for i in range(1, n + 1)]
        rows = [(*row, "".join(row[-1:]) + number) for row in rows for number in codes]
    return a.get("places", rows)


class Places(dict):
    """A level of nested places; the lists `codes` and `rows` are computed at each access."""

    def __init__(self, a, depth):
        super().__init__(codes=None, rows=None)
        self.of, self.depth = a, depth

    def __getitem__(self, key):
        rows = rows_of(self.of)
        return rows if key == "rows" else [*dict.fromkeys(row[self.depth] for row in rows)]


def joint_axes(plan):
    """Return the joint axes of a plan by name: their attributes, and the cell of each in every joint cell."""
    out = {" × ".join(x["attributes"]): (x["attributes"], x["cells"]) for x in plan.get("joint_axes", ())}
    domain = plan["spec"]["domain"]
    for names, cells in out.values():
        need(all(type(x) is int for cell in cells for x in cell), "a joint cell is made of whole numbers")
        if "amount" in [domain.get(a, {}).get("type") for a in names]:
            need(cells == cells_within_cuts(*names, plan["spec"]), "an amount within cuts has other steps")
    return out


def class_axes(plan, size):
    """Return the axes of classes of several values by name: joint axis, attribute, class, and number of values."""
    out = {}
    for x in plan.get("joint_axes", ()):
        for a in (a for a in x["attributes"] if a in x.get("classes", {})):
            row, column = x["classes"][a], [cell[x["attributes"].index(a)] for cell in x["cells"]]
            need(
                len(row) == size[a] and {*map(type, row)} == {int}, "an attribute does not have one class for each cell"
            )
            need(
                0 <= min(row) <= max(row) < len(row),
                "an attribute has a class that is not from 0 to its number of cells",
            )
            need({*column} <= {*range(max(row) + 1)}, "a joint cell has a class that its attribute lacks")
            for k, n in sorted(Counter(row).items()):
                out |= {f"{a} in class {k}": (" × ".join(x["attributes"]), a, k, n)} if n > 1 else {}
    return out


class Grid:
    """The attributes and levels of a domain: `free` holds the exchangeable ones, `axes` the structured ones."""

    def __init__(self, strategy, request, spec, size):
        self.domain, self.size, self.depth, self.home = {}, size, {}, {}
        for home, a in spec["domain"].items():
            levels = a.get("levels", [])
            self.domain[home] = Places(a, len(levels) - 1) if levels else a
            self.depth[home], self.home[home] = max(len(levels) - 1, 0), home
            for i, level in enumerate(levels):
                self.domain[level] = Places(a, i)
                self.depth[level], self.home[level] = i, home
        groups = strategy["margins"] if isinstance(strategy, dict) else strategy
        measured = {
            x for g in groups for names in g["attributes"] for x in ([names] if isinstance(names, str) else names)
        }
        # Public attributes may be in no measured sector.
        self.public = {a for totals in spec.get("public", ()) for a in totals["by"]} if spec.get("public") else None
        measured |= {a for a in self.public or () if is_exchangeable(a, spec, request)}
        self.classes, self.classed = spec.get("classes", {}), spec.get("classed", {})
        for name in measured - self.domain.keys():
            upper = name.split(" in ")[0]
            of_share = (self.depth.get(upper), self.home.get(upper))
            self.depth[name], self.home[name] = (0, self.classes[name][0]) if name in self.classes else of_share
        order = [*spec["domain"], *self.classes]
        self.free = sorted(
            measured, key=lambda x: (order.index(x if x in self.classes else self.home[x]), self.depth[x])
        )
        self.said = request.get("privacy", {}) if request is spec else request
        used = {a for t in request["tables"] for k in ("attributes", "pattern_attributes") for a in t.get(k, ())}
        used |= {class_of(spec["domain"][a]) or a for t in request["tables"] for a in t.get("sum", ())}
        used |= {*self.said.get("cell_budgets", {}).get("attributes", ())}
        used = {*spec["domain"]} if any("matrix" in t for t in request["tables"]) else used
        homes = {self.home[x] for x in self.free}
        by_home = {home: [x for x in used if self.home[x] == home] for home in spec["domain"] if home not in homes}
        self.listed, self.joint, by_attribute = spec.get("joint", {}), {}, {}
        for name, (names, cells) in self.listed.items():
            if sum(bool(by_home.get(self.home[a])) for a in names) > 1:
                columns = dict(zip(names, zip(*cells, strict=True), strict=True))
                # An attribute with a different cell in each joint cell, in order, stands for all.
                # Of an amount, steps are listed.
                serving = (a for a in names if columns[a] == tuple(range(size[a])))
                axis = name if any(self.gaps(name)) or self.classed.get(name) else next(serving, name)
                self.joint[axis] = columns
                by_attribute |= {self.home[a]: axis for a in names}
                self.domain.setdefault(axis, {})
                self.home[axis], self.depth[axis] = self.home.get(axis, axis), self.depth.get(axis, 0)
        deepest = {home: max(x, key=lambda x: (self.depth[x], x)) for home, x in by_home.items() if x}
        axes = (by_attribute.get(home, deepest.get(home)) for home in spec["domain"])
        self.axes = [*dict.fromkeys(x for x in axes if x is not None)]
        self.shape = [size[a] for a in self.axes]

    def gaps(self, axis):
        """Return the steps from each cell of an axis to the next, 0 where it is no knot of the same amount."""
        names, cells = self.listed.get(axis, ((), ()))
        for a in (a for a in names if self.domain[a].get("type") == "amount"):
            last = sum(steps_of(self.domain[a]))
            return [v - u if b == c and v <= last else 0 for (b, u), (c, v) in pairwise(cells)]
        one = self.domain.get(axis, {})
        return steps_of(one) if one.get("type") == "amount" else []

    def cells_per_joint_cell(self, home, names):
        """Return the largest number of cells of an attribute in one joint cell of some of its levels and shares."""
        if home in names or not names or "rows" not in self.domain[home]:
            return 1 if home in names else self.size[home]
        above = {n: [x for x in self.depth if n not in self.domain and n.endswith(f" in {x}")] for n in names}
        if many := self.domain[home].of.get("children"):
            levels = [(max((self.depth[u] for u in upper), default=-1), self.depth[n]) for n, upper in above.items()]
            return prod(k for i, k in enumerate(many) if not any(up < i <= low for up, low in levels))
        rows = self.domain[home]["rows"]

        def place_in(row, name):
            upper = above[name]
            siblings = [x[self.depth[name]] for x in rows if all(x[self.depth[u]] == row[self.depth[u]] for u in upper)]
            return list(dict.fromkeys(siblings)).index(row[self.depth[name]]) if upper else row[self.depth[name]]

        return max(Counter(tuple(place_in(row, x) for x in names) for row in rows).values())

    def positions(self):
        """Return the place of every structured cell along each axis and each attribute of a joint axis: section 2."""
        shape, out = [self.size[a] for a in self.axes], {}
        for axis, x in zip(self.axes, np.indices(shape).reshape(len(shape), prod(shape)), strict=True):
            for name, (names, cells) in self.listed.items():
                columns = dict(zip(names, map(np.array, zip(*cells, strict=True)), strict=True))
                classed = self.classed.get(name, {})  # A class is no cell of its attribute.
                by_cell = {a: column for a, column in columns.items() if a not in classed}
                if axis == name or (axis in by_cell and columns[axis].tolist() == [*range(self.size[axis])]):
                    out |= {a: column[x] for a, column in by_cell.items()}
            out[axis] = x
        return out

    def unit(self, unit):
        """Return the unit with a pattern in terms of the measured attributes, levels and shares of places."""
        copied, all_names = copy(unit), {*self.free, *self.positions()}
        pieces = {home: frozenset(x for x in all_names if self.home[x] == home) for home in self.home.values()}
        copied.fixed = frozenset().union(*(pieces[a] for a in unit.fixed))
        copied.caps = [
            (
                frozenset().union(*(pieces[a] for a in names)),
                max_records * prod(self.cells_per_joint_cell(a, pieces[a]) for a in names),
            )
            for names, max_records in unit.caps
        ]
        return copied

    def shown_axes(self, names):
        """Return the exchangeable attributes that some names show, and for each axis the names that lie along it."""
        deepest = {self.home[x]: x for x in sorted(names, key=self.depth.get)}
        free = {x for x in self.free if self.depth[x] <= self.depth.get(deepest.get(self.home[x]), -1)}
        homes = {a: [self.home[x] for x in self.joint.get(a, (a,))] for a in self.axes}
        return free, {a: [deepest[h] for h in homes[a] if h in deepest] for a in self.axes}
