"""Which cells there are, and which attributes are alike by value: section 2 of docs/plan_format.md.

Used by `check_plan.py` and `check_bound.py`, beside it.
"""

from collections import Counter
from copy import copy
from fractions import Fraction as Q
from math import prod

import numpy as np
from check_plan import need, whole


def cells_of(domain):
    """Section 2: how many cells attributes have, levels of places, and shares of levels."""
    out = {}
    for name, a in domain.items():
        own = a["high"] - a["low"] + 1 if "low" in a else len(a["cuts"]) + 1 if "cuts" in a else len(a.get("codes", ()))
        own = len(knots(a)) if a["type"] == "amount" else own
        out[name] = own + len(a.get("places", ())) + len(a.get("missing", ()))
        for j, lower in enumerate(a.get("levels", ())):
            out[lower] = len({row[j] for row in a["places"]})
            for i, upper in enumerate(a["levels"][:j]):
                each = {*Counter(above for above, _ in {(row[i], row[j]) for row in a["places"]}).values()}
                out |= {f"{lower} in {upper}": min(each)} if len(each) == 1 else {}
    return out


def knots(a):
    """Section 2: the numbers of an amount between which records lie, exactly."""
    return [Q(str(x)) for x in (a["low"], *a.get("ceilings", ()), a["high"])]


def between_knots(strategy, grid):
    """Section 2: what is measured is whole for every step of an amount."""
    amounts = [(i, d) for i, d in enumerate((grid.domain[a] for a in grid.axes), 1) if d.get("type") == "amount"]
    for g in strategy if amounts else ():
        rows = whole(g["basis"]).reshape(-1, *grid.shape)
        for i, d in amounts:
            t = knots(d)
            for s in range(len(t) - 1, 0, -1):
                k = int((t[s] - t[s - 1]) / Q(str(d.get("step", 1))))
                rise = rows.take([s], i) - rows.take([s - 1], i)
                need(not (rise % k).any(), "what is measured is no whole number between two knots")
                rows = np.concatenate([rows.take(range(s), i), rise // k, rows.take(range(s + 1, rows.shape[i]), i)], i)


class Grid:
    """The attributes and levels of a domain: `free` ones, which are alike by value, and `axes`, the others."""

    def __init__(self, strategy, asked, spec, size):
        self.domain, self.size, self.depth, self.home = {}, size, {}, {}
        for home, a in spec["domain"].items():
            levels = a.get("levels", [])
            self.domain[home] = {"codes": [row[-1] for row in a["places"]], "rows": a["places"]} if levels else a
            self.depth[home], self.home[home] = max(len(levels) - 1, 0), home
            for i, level in enumerate(levels):
                self.domain[level] = {"codes": list(dict.fromkeys(row[i] for row in a["places"])), "rows": a["places"]}
                self.depth[level], self.home[level] = i, home
        groups = strategy["margins"] if isinstance(strategy, dict) else strategy
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

    def alike(self, home, names):
        """How many cells of an attribute share one joint cell of some of its levels and shares at most."""
        if home in names or not names or "rows" not in self.domain[home]:
            return 1 if home in names else self.size[home]
        rows = self.domain[home]["rows"]

        def place_in(row, name):
            upper = [x for x in self.depth if name not in self.domain and name.endswith(f" in {x}")]
            within = [x[self.depth[name]] for x in rows if all(x[self.depth[u]] == row[self.depth[u]] for u in upper)]
            return list(dict.fromkeys(within)).index(row[self.depth[name]]) if upper else row[self.depth[name]]

        return max(Counter(tuple(place_in(row, x) for x in names) for row in rows).values())

    def unit(self, unit):
        """A unit whose pattern goes by what is measured of attributes: levels and shares of places."""
        own, every = copy(unit), {*self.free, *self.axes}
        pieces = {home: frozenset(x for x in every if self.home[x] == home) for home in self.home.values()}
        own.fixed = frozenset().union(*(pieces[a] for a in unit.fixed))
        own.caps = [
            (frozenset().union(*(pieces[a] for a in names)), most * prod(self.alike(a, pieces[a]) for a in names))
            for names, most in unit.caps
        ]
        return own

    def shown(self, names):
        """Of some names the exchangeable attributes that they show, and by axis the name that lies along it."""
        deepest = {self.home[x]: x for x in sorted(names, key=self.depth.get)}
        free = {x for x in self.free if self.depth[x] <= self.depth.get(deepest.get(self.home[x]), -1)}
        return free, {a: deepest.get(self.home[a]) for a in self.axes}
