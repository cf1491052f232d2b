"""The cost of integers measured in sectors, with Gaussian noise: section 4 of docs/plan_format.md."""

from fractions import Fraction as Q
from functools import cached_property
from math import prod

import numpy as np

from fitnoise_check.exact import integer_matrix, inverse_squares, need, subsets
from fitnoise_check.sets import joint_cells_along, set_costs
from fitnoise_check.totals import check_rows, public_cells


class Sectors:
    """Integers measured in sectors with Gaussian noise: section 4."""

    def __init__(self, groups, size, grid):
        self.unit, inverse = inverse_squares([s for g in groups for s in g["scales"]])
        self.size, self.cells, self.parts = size, prod(size[a] for a in grid.axes), []
        self.positions = grid.positions()
        for g in groups:
            basis = integer_matrix(g["basis"])
            need(basis.shape[1] == self.cells, "a basis does not have a number for each structured cell")
            for names, mixing, scale in zip(g["attributes"], g["mixing"], g["scales"], strict=True):
                self.parts.append((frozenset(names), integer_matrix(mixing) @ basis, inverse[scale]))
        need(len({s for s, *_ in self.parts}) == len(self.parts), "a sector is measured twice")
        for sector, rows, _ in self.parts:
            check_rows(rows, public_cells(grid, sector))
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
        # No row is constant in the cells of totals by `within`: these are public totals, whose rows are checked above.
        own_costs, replaced, single_cost = self.own, 0, max(self.own) * unit.records**2
        if unit.replaces:
            places = joint_cells_along(self, unit.within)
            pairs = places[:, None] == places
            free = [a for a in self.free if a not in unit.within]
            kinds = (unit.within | same for same in subsets(free))
            products = map(self.products, kinds) if len(free) <= 14 else [self.lower_bound()]
            replaced = max(np.max((own_costs[:, None] + own_costs - 2 * x)[pairs]) for x in products) * unit.records**2
        cost = max(replaced, single_cost if unit.alone else 0)
        if unit.caps:
            by_sets, replaced = set_costs(self, unit, claim, proofs)
            by_sets = min(single_cost, *by_sets)
            # The removed records cost at most as much as the added ones, and both together four times that.
            cost = min(cost, 4 * by_sets, *replaced) if unit.replaces else by_sets
        return Q(int(cost), self.unit)
