"""The search for the costliest sets of records of one unit, for which a mechanism is planned.

If the sets are few enough, the search enumerates them. Otherwise it climbs: it stops at a set if no record added,
removed or exchanged for another leads to a costlier set. A climb can miss the costliest set, so nothing here proves a
bound.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import final

import numpy as np

from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.solving.certificates import AdmissibleSets, Free, Values, agreement
from fitnoise.solving.fixed_random import scrambled
from fitnoise.solving.record_sets import sets_of

Chosen = tuple[int, ...]
"""Structured cells, in increasing order."""

ValuedSet = tuple[bool | Values, Chosen]
"""A set of cells. The flag is True if all its records have equal values, and False if their values differ. A tuple
gives the values."""

MAX_CELLS_TIMES_VALUES = 2**12
"""The largest product of structured cells and joint values of the free attributes. Above it, sets of records of
different values are not searched."""

STARTING_SETS = 20
"""The number of starting sets: the costliest sets known so far."""

EXTRA_SETS = 10
"""The number of scattered starting sets, in addition to those known."""

STEPS = 1000
"""The largest number of steps of one search, far above the number that a search needs."""

MIN_RELATIVE_GAIN = 1e-12
"""The smallest gain of a step, as a share of the largest diagonal entry."""


@final
class CostlySets:
    """The costliest sets among all sets of records that one unit can have."""

    def __init__(self, admissible: AdmissibleSets) -> None:
        self.admissible = admissible
        self._n, self._part_of = len(admissible.compatible), admissible.part_of

    @cached_property
    def _all_sets(self) -> list[tuple[np.ndarray, np.ndarray]] | None:
        return sets_of(self.admissible.compatible, self.admissible.max_records, parts=self.admissible.parts)

    def initial_sets(self) -> list[Chosen]:
        """Return each single cell, and from each cell on one set that takes every compatible cell up to the cap.

        Where records are replaced, further sets alternate between added and removed records.
        """
        out: list[Chosen] = [(o,) for o in range(self._n)]
        for o in range(self._n):
            in_order = np.roll(np.arange(self._n), -o)
            out.append(self._filled(in_order))
            if self.admissible.parts > 1:
                half = self._n // 2
                out.append(self._filled((in_order + half * (np.arange(self._n) % 2)) % self._n))
        return list(dict.fromkeys(out))

    def _filled(self, in_order: Indices) -> Chosen:
        """Return the set that takes every compatible cell in this order, up to the cap."""
        chosen: list[int] = []
        room = [self.admissible.max_records] * self.admissible.parts
        for i in in_order.tolist():
            if room[self._part_of[i]] and i not in chosen and self.admissible.compatible[i, chosen].all():
                chosen.append(i)
                room[self._part_of[i]] -= 1
        return tuple(sorted(chosen))

    def find_costliest(self, x: Floats, starts: list[Chosen], count: int) -> list[tuple[float, Chosen]]:
        """Return the largest Σ_{i,j∈τ} x_ij found with their sets, costliest first, at most `count` of them.

        Args:
            x: The cost of each pair of cells, symmetric, (n_o, n_o).
            starts: The sets from which the search starts if there are too many sets to enumerate.
            count: The largest number of sets to return, at least 1.
        """
        if self._all_sets is None:
            value_by_set = {chosen: value for start in starts for chosen, value in [self._climb(x, start)]}
            return sorted(((v, c) for c, v in value_by_set.items()), reverse=True)[:count]
        twice, sums, out = np.where(np.eye(self._n, dtype=bool), x, 2 * x), np.zeros(self._n), []
        for parents, places in self._all_sets:
            last = places[:, -1]
            # A set's sum is that of its parent, the diagonal entry of its last cell and twice the cell's entries with
            # the others.
            sums = sums[parents] + sum(twice[i, last] for i in places.T)
            best = np.argsort(-sums, kind="stable")[:count]
            out += [(float(sums[i]), tuple(places[i].tolist())) for i in best]
        return sorted(out, reverse=True)[:count]

    def _climb(self, x: Floats, start: Chosen) -> tuple[Chosen, float]:
        inside = np.zeros(self._n, dtype=bool)
        inside[list(start)] = True
        single_costs, compatible, max_records = x.diagonal(), self.admissible.compatible, self.admissible.max_records
        incompatible = ~compatible & ~np.eye(self._n, dtype=bool)
        part_of = self._part_of
        # Without a least gain, rounding could lead the climb in circles.
        min_gain = MIN_RELATIVE_GAIN * float(single_costs.max())
        for _ in range(STEPS):
            y = x @ inside
            # the number of cells of the set that are incompatible with each cell
            hit = incompatible @ inside.astype(np.intp)
            # For a cell inside, y holds its own diagonal entry, so leaving gains x_oo − 2 y_o.
            gain = np.where(inside, single_costs - 2 * y, single_costs + 2 * y)
            gain[~inside & (hit > 0)] = -np.inf
            is_full = np.bincount(part_of[inside], minlength=self.admissible.parts) >= max_records
            gain[~inside & is_full[part_of]] = -np.inf
            if inside.sum() == 1:
                gain[inside] = -np.inf
            on, off = np.flatnonzero(inside), np.flatnonzero(~inside)
            # The pair that is exchanged is not together in the new set, so its entry leaves again.
            swap = (single_costs - 2 * y)[on][:, None] + (single_costs + 2 * y)[off] - 2 * x[np.ix_(on, off)]
            swap[hit[off] - incompatible[np.ix_(on, off)] > 0] = -np.inf
            swap[is_full[part_of[off]] & (part_of[on][:, None] != part_of[off])] = -np.inf
            flip = int(np.argmax(gain))
            best_swap = np.unravel_index(int(np.argmax(swap)), swap.shape) if swap.size else None
            if best_swap is not None and swap[best_swap] > max(gain[flip], min_gain):
                inside[[on[best_swap[0]], off[best_swap[1]]]] = False, True
            elif gain[flip] > min_gain:
                inside[flip] = ~inside[flip]
            else:
                break
        return tuple(np.flatnonzero(inside).tolist()), float(inside @ x @ inside)


@final
class CostlyMovingSets:
    """The costliest sets of records, where records may differ in the exchangeable attributes that are not fixed."""

    def __init__(self, admissible: AdmissibleSets) -> None:
        self.admissible = admissible
        max_records, n = admissible.max_records, len(admissible.compatible)
        # Only the equality of values matters, and m records show at most m different values.
        self._n, self._part_of = n, admissible.part_of
        self._sizes = [min(admissible.sizes[a], max_records * admissible.parts) for a in admissible.moving]
        self.kinds = math.prod(self._sizes)
        self._incompatible = ~admissible.compatible & ~np.eye(n, dtype=bool)

    @property
    def few(self) -> bool:
        """True if the search takes place: there are several joint values, and not too many."""
        return 1 < self.kinds <= MAX_CELLS_TIMES_VALUES // self._n

    @cached_property
    def _values(self) -> list[tuple[int, ...]]:
        return list(itertools.product(*map(range, self._sizes)))

    def find_costliest(
        self, products: Mapping[Free, Floats], starts: Sequence[ValuedSet], count: int
    ) -> list[tuple[float, ValuedSet]]:
        """Return the largest costs found with their sets, costliest first, at most `count` of them.

        Args:
            products: The costs X of pairs of cells, (n_o, n_o), by the free attributes of sectors. Two records add each
                X times χ of their values.
            starts: The costliest sets known, from which the search starts, as from some scattered ones.
            count: The largest number of sets to return, at least 1.
        """
        costs = np.sum([*products.values()], axis=0)
        others = np.eye(self._n) == 0
        values = np.array(self._values)
        # The costs of single records are in `costs`; values change the costs of pairs alone.
        parts = [(np.where(others, x, 0), agreement(values, free)) for free, x in products.items()]
        value_by_set: dict[ValuedSet, float] = {}
        for start in (*map(self._begun, starts), *map(self._scattered, range(EXTRA_SETS))):
            z, value = self._climb(costs.diagonal(), parts, start)
            value_by_set[self._normal_form(z)] = value
        return sorted(((value, one) for one, value in value_by_set.items()), key=lambda x: -x[0])[:count]

    def _begun(self, starts: ValuedSet) -> Indices:
        """Return the number of each cell's joint value in a set, and -1 for the other cells, (n_o,)."""
        (way, cells), z = starts, np.full(self._n, -1)
        index = {v: w for w, v in enumerate(self._values)}
        if isinstance(way, bool):
            z[list(cells)] = 0 if way else np.arange(len(cells)) % self.kinds
        else:
            z[list(cells)] = [index[v] for v in way]
        return z

    def _scattered(self, seed: int) -> Indices:
        """Return a set of cells: the number of each one's pseudorandom joint value, and -1 outside it, (n_o,).

        The set takes compatible cells in a pseudorandom order until no other fits. It is equal on every machine.
        """
        numbers = scrambled(np.arange(2 * self._n) + 2 * self._n * seed)
        z, room = np.full(self._n, -1), [self.admissible.max_records] * self.admissible.parts
        for o in np.argsort(numbers[: self._n]).tolist():
            if room[self._part_of[o]] and not (self._incompatible[o] & (z >= 0)).any():
                z[o] = int(numbers[self._n + o]) % self.kinds
                room[self._part_of[o]] -= 1
        return z

    def _normal_form(self, z: Indices) -> ValuedSet:
        """Return a set in normal form: values are numbered in the order of their first appearance."""
        cells = np.flatnonzero(z >= 0)
        columns = [list(x) for x in zip(*(self._values[w] for w in z[cells].tolist()), strict=True)]
        names = [dict(zip(dict.fromkeys(x), itertools.count(), strict=False)) for x in columns]
        values = tuple(zip(*([name[v] for v in x] for name, x in zip(names, columns, strict=True)), strict=True))
        return (True if len(set(values)) == 1 else values), tuple(cells.tolist())

    def _climb(self, costs: Floats, parts: Sequence[tuple[Floats, Floats]], z: Indices) -> tuple[Indices, float]:
        """Climb from a set to one that no record added, moved, removed or exchanged for another makes costlier.

        Args:
            costs: The cost of each single record, (n_o,).
            parts: For each kind of sectors, the costs of pairs, (n_o, n_o), and χ of every two joint values.
            z: The number of each cell's joint value, and -1 for cells outside the set, (n_o,).

        Returns:
            The set reached, in the form of `z`, and its cost.
        """
        z, min_gain, incompatible = z.copy(), MIN_RELATIVE_GAIN * float(costs.max()), self._incompatible
        for _ in range(STEPS):
            on, off = np.flatnonzero(z >= 0), np.flatnonzero(z < 0)
            inside = np.zeros((self._n, self.kinds))
            inside[on, z[on]] = 1
            worth = costs[:, None] + 2 * np.sum([x @ (inside @ agree) for x, agree in parts], axis=0)
            mine, hit = worth[on, z[on]], incompatible[:, on].sum(axis=1)
            gain = worth.copy()
            gain[on] -= mine[:, None]
            gain[off[hit[off] > 0]] = -np.inf
            part_of = self._part_of
            is_full = np.bincount(part_of[on], minlength=self.admissible.parts) >= self.admissible.max_records
            gain[off[is_full[part_of[off]]]] = -np.inf
            best_move = np.unravel_index(int(gain.argmax()), gain.shape)
            if gain[best_move] > min_gain:
                z[best_move[0]] = best_move[1]
                continue
            if len(on) > 1 and -mine.min() > min_gain:
                z[on[mine.argmin()]] = -1
                continue
            # Exchanges cost the most to evaluate, so they are tried last.
            cross = sum(x[np.ix_(on, off)][:, :, None] * agree[z[on]][:, None, :] for x, agree in parts)
            swap = worth[off][None] - 2 * cross - mine[:, None, None]
            swap[hit[off][None] - incompatible[np.ix_(on, off)] > 0] = -np.inf
            swap[is_full[part_of[off]] & (part_of[on][:, None] != part_of[off])] = -np.inf
            if not swap.size or swap.max() <= min_gain:
                break
            i, j, w = np.unravel_index(int(swap.argmax()), swap.shape)
            z[on[i]], z[off[j]] = -1, w
        value = sum(
            float((x * agree[np.ix_(z[on], z[on])]).sum()) for x, agree in ((x[np.ix_(on, on)], a) for x, a in parts)
        )
        return z, value + float(costs[on].sum())
