"""The integer strategy: what is measured, and its exact price. Part of the trust kernel.

Sector S measures (⊗_{a∈S} H_a ⊗_{a∉S} 1ᵀ) ⊗ (A_S B_S) x with independent discrete Gaussian noise of scale σ_S on every
entry. H_a = n_a I − J (for n_a = 2 the single row (1, −1)), A_S and B_S are integers, σ_S is a dyadic rational, so the
answers before noise are integers and the price is a rational number computed here, from these integers alone:

    prof(z, o) = Σ_S [Π_{a∈S} h_a] ‖(A_S B_S)_{·,o}‖² / σ_S²,    h_a = n_a (n_a − 1), or 1 for n_a = 2,

the same for every combination z of exchangeable values. Nothing an optimiser says enters.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Floats, equal_rows
from fitnoise.kernel.designs._base import HELD as DRAWN
from fitnoise.kernel.designs._base import (
    WRAP,
    Answers,
    Cells,
    Counts,
    Margin,
    attributes_not_increasing,
    measured_twice,
    noise_out_of_range,
)
from fitnoise.kernel.designs.linear import MAX_SCALE, GaussianDesign, axis_rows, centre, exact_precisions
from fitnoise.kernel.designs.parts import SAFE, Part, exact_matmul, largest_entry, named, split, times
from fitnoise.kernel.designs.relaxations import at_most
from fitnoise.kernel.designs.sets import MAX_SETS, dearest_set
from fitnoise.kernel.designs.ways import dearest_way
from fitnoise.kernel.units import Adjacency, Neighbours

HELD = 2**20
"""Entries of a stack of exact matrices held at once."""

MAX_REPLACE_PATTERNS = 2**14
"""Agreement patterns of two records examined one by one for replace-one neighbours."""

MAX_PRODUCTS = 2**20
"""Products of two columns, over all sectors, up to which pairs of records are examined, for a unit of which no two are
alike in some attributes; over all sectors and agreement patterns, up to which they are one by one."""


_Cost = TypeVar("_Cost", int, Fraction)

_Partners = list[tuple[int, int]]
"""What further records add beside one, and how many add that."""


@final
class _Cap(NamedTuple):
    """Of one unit at most so many records share a joint cell along these axes."""

    axes: frozenset[str]
    most: int


@final
@dataclass(frozen=True, eq=False)
class SectorStrategy:
    """What is measured in one sector: one of a :class:`StrategyGroup`, on its own.

    attributes: positions among the exchangeable attributes. sizes: n_a of each (≥ 2).
    mixing: A_S, integers, (k, k), invertible. basis: B_S, integers, (k, n_o). scale: σ_S, a float (hence dyadic) > 0.
    """

    attributes: tuple[int, ...]
    sizes: tuple[int, ...]
    mixing: Exact
    basis: NDArray[np.int64]
    scale: float

    @cached_property
    def rows(self) -> Exact:
        """A_S B_S, exact, shape (k, n_o)."""
        return exact_matmul(self.mixing, self.basis)

    @property
    def answers(self) -> int:
        """Number of noisy numbers: k times Π n_a (1 for n_a = 2)."""
        return len(self.basis) * math.prod(axis_rows(n) for n in self.sizes)

    def weight(self, agreeing: Iterable[int]) -> int:
        """Σ over the centred rows of h_z h_z' for two records that agree on exactly these exchangeable attributes."""
        same = set(agreeing)
        out = 1
        for a, n in zip(self.attributes, self.sizes, strict=True):
            if n == 2:
                out *= 1 if a in same else -1
            else:
                out *= n * (n - 1) if a in same else -n
        return out


@final
@dataclass(frozen=True, eq=False)
class StrategyGroup:
    """What is measured in the sectors of one group: K of them, over one basis.

    attributes: (K, s), positions among the exchangeable attributes, increasing along each row. sizes: n_a of each, (K,
        s), all ≥ 2. basis: B, integers, (k, n_o).
    mixing: A_S, integers, (K, k, k), invertible. scales: σ_S > 0, floats (hence dyadic), (K,).
    """

    attributes: NDArray[np.intp]
    sizes: NDArray[np.int64]
    basis: NDArray[np.int64]
    mixing: Exact
    scales: NDArray[np.float64]

    def __post_init__(self) -> None:
        k, count = len(self.basis), len(self.attributes)
        if k == 0 or self.basis.ndim != 2 or self.basis.dtype != np.int64:
            raise PlanError(
                "sector-basis-not-integers",
                "The basis of a sector is not a matrix of whole numbers of at most 62 bits.",
                "",
                "Give such a matrix.",
                "No strategy was made.",
            )
        whole = self.mixing.dtype == np.int64 or (
            self.mixing.dtype == object and all(type(x) is int for x in self.mixing.flat)
        )
        if self.mixing.shape != (count, k, k) or not whole:
            raise PlanError(
                "sector-mixing-misfit",
                "The mixing matrices of a group of sectors do not fit it.",
                "Each sector has one square matrix of whole numbers, with as many rows as the basis.",
                "Give one such matrix for each sector.",
                "No strategy was made.",
            )
        for name in ("attributes", "sizes", "mixing", "basis", "scales"):
            entries = np.array(getattr(self, name))  # whatever kind of array it was
            if entries.dtype == np.int64 and entries.size and largest_entry(entries) >= SAFE:
                raise PlanError(
                    "sector-integers-too-large",
                    "A 64-bit integer of a strategy is 2^62 or more.",
                    "64-bit integers of a strategy must stay below 2^62.",
                    "Give larger integers as integers of Python.",
                    "No strategy was made.",
                )
            entries.setflags(write=False)  # a price once computed stays the price of these integers
            object.__setattr__(self, name, entries)
        good = self.scales.dtype == np.float64 and self.scales.shape == (count,)
        if not (good and ((self.scales > 0) & (self.scales <= MAX_SCALE)).all()):  # also refuses NaN
            raise noise_out_of_range("sector")
        if self.attributes.dtype != np.intp or self.sizes.dtype != np.int64:  # in narrower types prices would wrap
            raise PlanError(
                "sector-types-too-narrow",
                "The attributes of a sector or their sizes are not 64-bit whole numbers.",
                "In narrower types prices could be wrong.",
                "Give both as 64-bit whole numbers.",
                "No strategy was made.",
            )
        if self.attributes.ndim != 2 or self.sizes.shape != self.attributes.shape or (self.sizes < 2).any():
            raise PlanError(
                "sector-attribute-without-values",
                "The attributes of a sector do not have one size of at least 2 each.",
                "",
                "Give the number of values of each attribute, at least 2.",
                "No strategy was made.",
            )
        if (np.diff(self.attributes, axis=1) <= 0).any():
            raise attributes_not_increasing("sector")

    def __len__(self) -> int:
        return len(self.attributes)

    @property
    def rank(self) -> int:
        """K, the rows of the basis."""
        return len(self.basis)

    def sector(self, i: int) -> SectorStrategy:
        """The i-th sector on its own."""
        attributes, sizes = tuple(self.attributes[i].tolist()), tuple(self.sizes[i].tolist())
        return SectorStrategy(attributes, sizes, self.mixing[i], self.basis, float(self.scales[i]))

    @cached_property
    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """The different columns of the basis, (k, u), and which of them each structured cell has, (n_o,)."""
        columns, which = np.unique(self.basis, axis=1, return_inverse=True)
        return columns, which.ravel()

    @cached_property
    def _columns(self) -> tuple[Exact, list[int]]:
        """‖(A_S B)_{·,o}‖² of every sector and different column o, exact, (K, u); and max |A_S B| of each sector."""
        columns = self.distinct[0]
        k, n = columns.shape
        squares, largest = [], []
        step = max(1, HELD // (k * n))
        for i in range(0, len(self), step):
            r = exact_matmul(self.mixing[i : i + step].reshape(-1, k), columns).reshape(-1, k, n)
            exact = r if largest_entry(r) ** 2 * k < SAFE and r.dtype != object else r.astype(object)
            squares.append((exact * exact).sum(axis=1))
            largest.append(np.maximum(r.max(axis=(1, 2)), -r.min(axis=(1, 2))).tolist())
        return np.concatenate(squares), [x for part in largest for x in part]

    @property
    def column_squares(self) -> Exact:
        """‖(A_S B)_{·,o}‖² of every sector, exact, (K, u), o running through the different columns of the basis."""
        return self._columns[0]

    @cached_property
    def answers(self) -> NDArray[np.int64]:
        """Number of noisy numbers of each sector, (K,): k times Π n_a (1 for n_a = 2)."""
        return np.asarray(self.rank * np.where(self.sizes == 2, 1, self.sizes).prod(axis=1))

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where the answers of each sector begin among those of the group, (K + 1,); last, how many there are."""
        return np.concatenate([[0], np.cumsum(self.answers)])

    @cached_property
    def weights(self) -> Exact:
        """Π h_a of every sector, exact, (K,): h_a = n_a (n_a − 1), or 1 for n_a = 2."""
        small = float((self.sizes.astype(np.float64) ** 2).prod(axis=1).max()) < 2.0**60
        n = self.sizes if small else self.sizes.astype(object)
        return np.asarray(np.where(n == 2, 1, n * (n - 1)).prod(axis=1))

    def magnitude(self, here: NDArray[np.intp], sizes: tuple[int, ...], records: int) -> int:
        """A bound on all entries, and partial sums, of these sectors' transformed counts of at most so many records."""
        largest: int = max(self._columns[1][i] for i in here)
        return records * max(1, largest) * math.prod(max(n - 1, 1) for n in sizes)

    def stacks(self) -> list[tuple[tuple[int, ...], NDArray[np.intp]]]:
        """The sectors by their sizes: the sizes, and which sectors have them."""
        return equal_rows(self.sizes)


@final
@dataclass(frozen=True, eq=False)
class Strategy(GaussianDesign):
    """All sectors that are measured together.

    over: the attributes. groups: the sectors, by group, none twice.

    **Guarantees**
        * `profile()` equals the squared column norms of the dense integer strategy divided by σ², exactly; with more
          than EXACT_SCALES different scales it is an upper bound, less than one part in 2⁸⁰ above;
        * `cost_squared` is the largest squared distance, in units of the noise, that one neighbouring pair
          can move the measured vector, as exactly (an upper bound where it says so).
    """

    over: Cells
    groups: tuple[StrategyGroup, ...]

    def __post_init__(self) -> None:
        sizes = np.array(self.sizes, dtype=np.int64)
        for g in self.groups:
            if self.over.steps and g.basis.shape[1] == self.cells:
                split(g.basis, self.over)  # whole between the ends of amounts
            inside = g.attributes.size == 0 or (g.attributes.min() >= 0 and g.attributes.max() < len(sizes))
            if g.basis.shape[1] != self.cells or not inside or (sizes[g.attributes] != g.sizes).any():
                raise PlanError(
                    "sector-misfits-domain",
                    "A sector of the strategy does not fit its domain.",
                    "The basis has one column for each structured cell, and attributes and sizes are those of the "
                    "domain.",
                    "Make the strategy for this domain.",
                    "No strategy was made.",
                )
        for width in {g.attributes.shape[1] for g in self.groups}:
            rows = np.concatenate([g.attributes for g in self.groups if g.attributes.shape[1] == width])
            short = max(len(sizes), 1) ** width < SAFE
            keys = rows @ (len(sizes) ** np.arange(width)) if short else rows
            if len(np.unique(keys, axis=0)) < len(rows):
                raise measured_twice("sector")

    @property
    def cells(self) -> int:
        """How many joint cells of structured attributes there are, n_o."""
        return self.over.size

    @cached_property
    def sectors(self) -> tuple[SectorStrategy, ...]:
        """All sectors one by one, in the order of the groups: for few of them."""
        return tuple(g.sector(i) for g in self.groups for i in range(len(g)))

    @property
    def runs(self) -> list[tuple[Floats, NDArray[np.int64]]]:
        """By group σ_S of each sector, and how many answers it has."""
        return [(g.scales, g.answers) for g in self.groups]

    @cached_property
    def _precisions(self) -> tuple[int, list[Exact]]:
        """A unit u, and u/σ² of every sector of each group as Python integers, (K,) each."""
        return exact_precisions([g.scales for g in self.groups])

    @cached_property
    def _profile(self) -> tuple[Fraction, ...]:
        unit, precisions = self._precisions
        total = np.zeros(self.cells, dtype=object)
        for g, precision in zip(self.groups, precisions, strict=True):
            values, which = np.unique(precision * g.weights.astype(object), return_inverse=True)
            total = total + (values @ _summed(g.column_squares, which.ravel(), len(values)))[g.distinct[1]]
        return tuple(Fraction(int(x), unit) for x in total)

    def profile(self) -> tuple[Fraction, ...]:
        """Squared cost of one record in each structured cell, the same for all exchangeable values."""
        return self._profile

    @property
    def group_costs(self) -> tuple[Fraction, ...]:
        """The sum, over the sectors of each group, of the squared cost of each on its own: its largest column over σ².

        At least the squared cost of the group.
        """
        unit, precisions = self._precisions
        out = []
        for g, precision in zip(self.groups, precisions, strict=True):
            largest = g.column_squares.max(axis=1).astype(object)
            out.append(Fraction(int((precision * g.weights.astype(object)) @ largest), unit))
        return tuple(out)

    def cost_squared(self, neighbours: Neighbours) -> Fraction:
        """Δ² for neighbours that differ in one record, exact.

        Add or remove one: max_o prof(o). Replace one: the maximum over pairs of cells of prof(o) + prof(o')
        − 2 Σ_S weight_S(T) ⟨(A B)_o, (A B)_o'⟩/σ_S², T the exchangeable attributes on which the two agree; with more
        than 14 exchangeable attributes of two values or more, the upper bound in which T is the worst in each sector.
        Where some of them are levels of one hierarchy, not every T is that of two records: then it is an upper bound.
        """
        largest = max(self.profile())
        if neighbours is Neighbours.ADD_OR_REMOVE_ONE:
            return largest
        return self._replace_one()

    def unit_cost(self, of: Adjacency) -> Fraction:
        """Δ² for one protected unit of up to g records.

        Of records that keep to a pattern, what comes and what goes costs at most :meth:`unit_profile`, hence both
        together at most four times that, where neighbours replace one: the smaller of that and of what any cost.
        """
        if of.by_cell:
            return max(self.unit_profile(of))
        whole = super().unit_cost(of)
        return min(whole, 4 * max(self.unit_profile(of))) if of.pattern else whole

    def unit_profile(self, of: Adjacency) -> tuple[Fraction, ...]:
        """For each structured cell h(o), such that records of one unit that come, or that go, cost at most their mean.

        With X the quadratic form of the strategy, vᵀXv the squared distance of data that differ by v, and m ≤ g records
        in the cells i: vᵀXv = Σ_ij X_ij, and X_ij ≤ ½ (X_ii + X_jj). So it is at most m Σ_i X_ii, the mean of m² X_ii:
        h(o) = g² prof(o).

        Where at most k of them lie in one joint cell of some attributes, let R_m(o) be X_ii and the m − 1 largest X_ij
        beside it: for each joint cell the largest X_ij of a record j that may lie there together with i, at most k
        times, k − 1 times in that of i itself. Then vᵀXv = Σ_i Σ_j X_ij ≤ Σ_i R_m(o_i), the mean of m R_m(o_i):

            h(o) = max over m ≤ g of m R_m(o)

        Any two records must differ where k = 1, agree in what is fixed, and be so far apart as is said. Records that
        nothing measured tells apart share their place, so k is larger there. Σ_i R_m(o_i) is also at most the sum of
        the m largest R_m of records in different joint cells, k in each: the h of all cells, where that is less.

        Where these joint cells c are of structured attributes, give each k places, and let Q_cc' be the largest X_ij of
        a record i in c and one j in c' that may stand beside it, Q_cc in one place the largest X_ii. Records i in the
        places τ of a unit, each in its own, have vᵀXv = Σ_i Σ_j X_ij ≤ Σ_{c,c'∈τ} Q_cc'. Hence the largest of these
        sums, over all sets of at most g places of which any two go together, is the h of all cells: exactly what a
        unit costs where Q has one X_ij in each entry (`dearest_set`); of too many sets what none of them exceeds
        (`at_most`). As its records agree in what is fixed, it is
        taken over the cells that agree with o in the structured ones of these.

        Where k = 1, but a record in c may be in one of several cells, or differ from others in exchangeable attributes,
        X_ij depends on the cells of i and j and on the attributes in which they agree. Records of a unit are a way
        through places, each with a cell and values: what the dearest of all ways costs (`dearest_way`) is the h of all
        cells, where it is less.

        Of all these h the one whose largest value is least. It is attained where one set of records fits all pairs.

        Means add, so several designs together, on the same records, cost at most the dearest sum of their h.
        """
        best = super().unit_profile(of)
        names = [a for a, _ in (*self.over.exchangeable, *self.over.structured)]
        found = ((of.along(names, attributes), most) for attributes, most in of.pattern.caps)
        caps = [_Cap(frozenset(axes), most * alike) for (axes, alike), most in found if alike is not None]
        for prices in self._in_pattern(caps, of) if caps else ():
            best = min(best, prices, key=max)
        return best

    def _in_pattern(self, caps: Sequence[_Cap], of: Adjacency) -> Iterator[tuple[Fraction, ...]]:
        """The h of all cells, by one cap and by another."""
        own, most = self.profile(), of.records
        if sum(map(len, self.groups)) * self.cells**2 << sum(n > 1 for n in self.sizes) > MAX_PRODUCTS:
            sizes = dict((*self.over.exchangeable, *self.over.structured))
            for cap in caps:  # two that share their joint cell cost at most the mean of both
                rest = math.prod(sizes[a] for a in cap.axes) - 1
                product = min(max(own), self.largest_product(cap.axes)) if rest else max(own)
                yield tuple(_together(x, [(x, cap.most - 1), (product, cap.most * rest)], most) for x in own)
            return
        unit, products, found, lowest = self._beside(caps, of)
        costs = [int(x * unit) for x in own]
        for cap, kinds in zip(caps, found, strict=True):
            others = self._partners(cap, kinds, lowest)
            prices = [_together(x, some, most) for x, some in zip(costs, others, strict=True)]
            yield tuple(Fraction(x, unit) for x in prices)
            if self.cells * most <= MAX_PRODUCTS:
                yield (Fraction(self._different(cap, costs, others, most), unit),) * self.cells
            sets = self._in_sets(cap, costs, kinds, products, lowest, of)
            if sets is not None:
                yield tuple(Fraction(x, unit) for x in sets)

    def _beside(
        self, caps: Sequence[_Cap], of: Adjacency
    ) -> tuple[int, dict[frozenset[int], Exact], list[dict[frozenset[int], Exact]], int]:
        """X_ij of a record with one that may be there beside it: a unit, these, the largest, and what is less than any.

        By the exchangeable attributes on which the two agree, (n_o, n_o). The largest for every cap by those of it on
        which they agree, (n_o, joint cells of its structured ones).
        """
        unit, grams = self._grams()
        every = (*self.over.exchangeable, *self.over.structured)
        fixed, _ = of.along([a for a, _ in every], of.pattern.fixed)
        free = [i for i, n in enumerate(self.sizes) if n > 1]
        held = {i for i in free if self.over.names[i] in fixed}
        near = ~self._differing([i for i, (a, _) in enumerate(self.over.structured) if a in fixed])
        for axis, (a, _) in enumerate(self.over.structured):
            along = self._along(axis)
            near &= abs(along[:, None] - along) >= dict(of.pattern.separation).get(a, 0)
        lowest = -2 * max(int(x * unit) for x in self.profile()) - 1
        found: list[dict[frozenset[int], Exact]] = [{} for _ in caps]
        products: dict[frozenset[int], Exact] = {}
        for same in (frozenset(x) for k in range(len(free) + 1) for x in itertools.combinations(free, k)):
            if not held <= same:
                continue
            pairs = near.copy()
            for cap in caps:
                if cap.most == 1 and self._inside(cap) <= same:
                    pairs &= self._differing(self._axes(cap))
            x = sum((s.weight(same) * g for s, g in grams), start=np.zeros(near.shape, dtype=object))
            products[same] = np.where(pairs, x, lowest)
            x = products[same].reshape(self.cells, *self.over.shape)
            for cap, kinds in zip(caps, found, strict=True):
                own = self._inside(cap) & same
                rest = tuple(1 + i for i in range(len(self.over.shape)) if i not in self._axes(cap))
                dearest = x.max(axis=rest).reshape(self.cells, -1)
                kinds[own] = np.maximum(kinds.get(own, dearest), dearest)
        return unit, products, found, lowest

    def _inside(self, cap: _Cap) -> frozenset[int]:
        """The exchangeable attributes of a cap that have two values or more."""
        return frozenset(i for i, (a, n) in enumerate(self.over.exchangeable) if a in cap.axes and n > 1)

    def _axes(self, cap: _Cap) -> list[int]:
        """The structured ones."""
        return [i for i, (a, _) in enumerate(self.over.structured) if a in cap.axes]

    def _partners(self, cap: _Cap, kinds: Mapping[frozenset[int], Exact], lowest: int) -> list[_Partners]:
        """For every structured cell what records that may be there beside one of it add, in a cap."""
        own = self._inside(cap)
        return [
            [
                (value, cap.most - 1 if (kind, w) == (own, at) else cap.most * self._others(own - kind))
                for kind, dearest in kinds.items()
                for w, value in enumerate(dearest[o].tolist())
                if value > lowest
            ]
            for o, at in enumerate(self._place_along(self._axes(cap)))
        ]

    def _in_sets(
        self,
        cap: _Cap,
        costs: Sequence[int],
        kinds: Mapping[frozenset[int], Exact],
        products: Mapping[frozenset[int], Exact],
        lowest: int,
        of: Adjacency,
    ) -> list[int] | None:
        """For every structured cell what no set of joint cells that one may have records in exceeds; None of too many.

        So many records as may share a joint cell have a number each, and so a place of their own. Where each has one,
        and in it may be in one of several cells, or of any value of other attributes, no way through them exceeds it.
        """
        slots, at = min(cap.most, of.records), np.array(self._place_along(self._axes(cap)))
        places = int(at.max()) + 1
        if self._inside(cap) or (places * slots) ** 2 > MAX_PRODUCTS:
            return None
        fixed, _ = of.along([a for a, _ in self.over.structured], of.pattern.fixed)
        common = np.array(self._place_along([i for i, (a, _) in enumerate(self.over.structured) if a in fixed]))
        limit, own = MAX_SETS // (int(common.max()) + 1), np.array(costs, dtype=object)
        prices: list[int] = []
        for group in range(int(common.max()) + 1):
            cells = [(common == group) & (at == place) for place in range(places)]
            x = np.array([kinds[frozenset()][here].max(axis=0) for here in cells]).repeat(slots, 0).repeat(slots, 1)
            together = x > lowest
            np.fill_diagonal(x, np.array([own[here].max() for here in cells], dtype=object).repeat(slots))
            found = dearest_set(x, together, of.records, limit)
            found = at_most(x, together, of.records) if found is None else found
            if found is None:
                return None
            if slots == 1:
                way = self._in_ways(np.flatnonzero(common == group), at, costs, products, lowest, of.records, found)
                found = found if way is None else min(found, way)
            prices.append(found)
        return [prices[group] for group in common]

    def _in_ways(
        self,
        cells: NDArray[np.intp],
        at: NDArray[np.intp],
        costs: Sequence[int],
        products: Mapping[frozenset[int], Exact],
        lowest: int,
        most: int,
        above: int,
    ) -> int | None:
        """What no way of a unit through places exceeds, one of its records in each, in some structured cells.

        None where it has no choice there, which is what `above` is about.
        """
        held = frozenset.intersection(*products)
        free = sorted(frozenset.union(*products) - held)
        here = cells[np.argsort(at[cells], kind="stable")]
        if not free and len(np.unique(at[here])) == len(here):
            return None
        every = (frozenset(a for i, a in enumerate(free) if code >> i & 1) for code in range(2 ** len(free)))
        x = np.stack([products[held | same][np.ix_(here, here)] for same in every])
        sizes = [self.sizes[a] for a in free]
        return dearest_way(x, x > lowest, [costs[o] for o in here], at[here].tolist(), sizes, most, above)

    def _others(self, differing: Collection[int]) -> int:
        """How many joint cells of exchangeable attributes differ from one in all of these, and in no other."""
        return math.prod(self.sizes[i] - 1 for i in differing)

    def _place_along(self, axes: Sequence[int]) -> list[int]:
        """The joint cell along some structured axes, in C order, of every structured cell."""
        out = np.zeros(self.cells, dtype=np.intp)
        for axis in axes:
            out = out * self.over.shape[axis] + self._along(axis)
        return [int(x) for x in out]

    def _along(self, axis: int) -> NDArray[np.intp]:
        """The cell of every structured cell along one axis."""
        return np.asarray(np.indices(self.over.shape)[axis].ravel())

    def _different(self, cap: _Cap, costs: Sequence[int], partners: Sequence[_Partners], most: int) -> int:
        """The largest sum, for m = 1, …, most, of the m largest R_m of records of which so many share a joint cell."""
        axes = [i for i, (a, _) in enumerate(self.over.structured) if a in cap.axes]
        slots = cap.most * math.prod(n for a, n in self.over.exchangeable if a in cap.axes)
        at = self._place_along(axes)
        lines = [[x for x, n in sorted(found, reverse=True) for _ in range(min(n, most))][:most] for found in partners]
        best, totals = 0, dict(enumerate(costs))
        for m in range(1, most + 1):
            dearest: dict[int, int] = {}
            for o, total in totals.items():
                dearest[at[o]] = max(total, dearest.get(at[o], total))
            some = sorted(dearest.values(), reverse=True)
            if len(some) * slots < m:
                break
            best = max(best, sum(x * min(slots, m - i * slots) for i, x in enumerate(some[: -(-m // slots)])))
            totals = {o: total + lines[o][m - 1] for o, total in totals.items() if len(lines[o]) >= m}
        return best

    def largest_product(self, once: Collection[str]) -> Fraction:
        """C, no less than X_ij for any two records that differ in one of these attributes, which are all measured by.

        Two that agree on the exchangeable attributes T, in structured cells o and o', have X_ij = Σ_S weight_S(T)
        ⟨(A B)_o, (A B)_o'⟩/σ_S²: the maximum over all T and o, o' that leave them different, exact. Where these are too
        many, the sum over sectors of the largest in each. Where even those are, by |X_ij| ≤ (X_ii X_jj)^½ in each
        sector, of which weight_S is 1/(n_a − 1) as large, at most, for two records that differ in a ∈ S.
        """
        apart = [i for i, (a, n) in enumerate(self.over.exchangeable) if a in once and n > 1]
        along = [i for i, (a, n) in enumerate(self.over.structured) if a in once and n > 1]
        free = [a for a, n in enumerate(self.sizes) if n > 1]
        products = sum(map(len, self.groups)) * self.cells**2
        if products > MAX_PRODUCTS:
            return max(self.profile()) if along else max(map(self._roughly, apart))
        differ, everywhere = self._differing(along), np.ones((self.cells, self.cells), dtype=bool)
        unit, grams = self._grams()
        best = []
        if products << len(free) > MAX_PRODUCTS:
            for one in [*apart, *([None] if along else [])]:
                worst = np.zeros(differ.shape, dtype=object)
                for s, g in grams:
                    weights = _weights(s, one)
                    worst = worst + np.maximum(max(weights) * g, min(weights) * g)
                best.append(worst[differ if one is None else everywhere].max())
            return Fraction(int(max(best)), unit)
        for same in (x for k in range(len(free) + 1) for x in itertools.combinations(free, k)):
            pairs = differ if set(apart) <= set(same) else everywhere
            if pairs.any():
                x = sum((s.weight(same) * g for s, g in grams), start=np.zeros(differ.shape, dtype=object))
                best.append(x[pairs].max())
        return Fraction(int(max(best)), unit)

    def _differing(self, axes: Sequence[int]) -> NDArray[np.bool_]:
        """Which two structured cells differ along one of these axes, (n_o, n_o)."""
        out = np.zeros((self.cells, self.cells), dtype=bool)
        for axis in axes:
            along = self._along(axis)
            out |= along[:, None] != along
        return out

    def _roughly(self, apart: int) -> Fraction:
        """No less than X_ij for any two records that differ in an exchangeable attribute."""
        unit, precisions = self._precisions
        total = Fraction(0)
        for g, precision in zip(self.groups, precisions, strict=True):
            largest = precision * g.weights.astype(object) * g.column_squares.max(axis=1).astype(object)
            inside = (g.attributes == apart).any(axis=1)
            total += sum(largest[~inside].tolist()) + Fraction(sum(largest[inside].tolist()), self.sizes[apart] - 1)
        return total / unit

    def _grams(self) -> tuple[int, list[tuple[SectorStrategy, Exact]]]:
        """A unit, and of every sector the products of its columns over σ², in it, (n_o, n_o)."""
        unit, precisions = self._precisions
        factors = [f for group in precisions for f in group]
        pairs = zip(self.sectors, factors, strict=True)
        return unit, [(s, exact_matmul(s.rows.T, s.rows).astype(object) * f) for s, f in pairs]

    def _replace_one(self) -> Fraction:
        unit, grams = self._grams()
        own = np.array([int(x * unit) for x in self.profile()], dtype=object)
        base = own[:, None] + own[None, :]
        best = 0
        if 2 ** sum(n > 1 for n in self.sizes) > MAX_REPLACE_PATTERNS:
            # weight_S(T) lies between that of full agreement and that of disagreement on one attribute
            worst = np.zeros((self.cells, self.cells), dtype=object)
            for s, g in grams:
                weights = _weights(s)
                worst = worst + np.maximum(-max(weights) * g, -min(weights) * g)
            return Fraction(max(int((base + 2 * worst).max()), 0), unit)
        free = [a for a, n in enumerate(self.sizes) if n > 1]
        always = [a for a, n in enumerate(self.sizes) if n == 1]
        for k in range(len(free) + 1):
            for same in itertools.combinations(free, k):
                agreeing = [*same, *always]
                cross = sum(
                    (s.weight(agreeing) * g for s, g in grams),
                    start=np.zeros((self.cells, self.cells), dtype=object),
                )
                best = max(best, int((base - 2 * cross).max()))  # the same cell twice gives 0
        return Fraction(best, unit)

    # --- as a design ------------------------------------------------------------------------------------

    def afresh(self, of: Adjacency) -> Strategy:
        """The same integers, with nothing computed of them before."""
        del of
        return replace(self, groups=tuple(replace(g) for g in self.groups))

    def in_parts(self, parts: int) -> Strategy:
        """With noise so many times: vᵀXv is convex in v, and v, in records, a mean of unit vectors and of 0."""
        return replace(self, groups=tuple(replace(g, scales=g.scales * parts) for g in self.groups))

    @cached_property
    def _parts(self) -> tuple[tuple[Part, ...], ...]:
        return tuple(split(g.basis, self.over) for g in self.groups)

    def margins(self) -> set[Margin]:
        """For each sector its attributes, with those that its queries depend on."""
        pairs = zip(self.groups, self._parts, strict=True)
        return {m for g, parts in pairs for part in parts for m in named(self.over, g.attributes, part.inner)}

    def exact(self, counts: Counts, of: Adjacency, records: int) -> Answers:
        """By group, (⊗H_a ⊗ A_S B_S) applied to the counts, one sector after the other."""
        del of  # the integers are the same whoever is protected
        return tuple(self._transformed(g, p, counts, records) for g, p in zip(self.groups, self._parts, strict=True))

    def _transformed(self, group: StrategyGroup, parts: tuple[Part, ...], counts: Counts, records: int) -> Exact:
        """Exact integers; modulo 2⁶⁴ where the matrices, and the public bound on the number of records, allow int64."""
        stacks = group.stacks()
        wide = group.mixing.dtype == object or any(group.magnitude(x, n, records) >= WRAP for n, x in stacks)
        dtype = np.dtype(object) if wide else np.dtype(np.int64)
        out = np.empty(group.starts[-1], dtype=dtype)
        for sizes, here in stacks:
            step = max(1, DRAWN // (math.prod(sizes) * max(part.queries.shape[1] for part in parts)))
            for i in range(0, len(here), step):
                some = here[i : i + step]
                values = self._stack(group, parts, counts, some, dtype)
                out[group.starts[some][:, None] + np.arange(values.shape[1])] = values
        return out

    def _stack(
        self,
        group: StrategyGroup,
        parts: tuple[Part, ...],
        counts: Counts,
        here: NDArray[np.intp],
        dtype: np.dtype[Any],
    ) -> Exact:
        """The exact answers of some sectors of a group, all of the same sizes, (K, answers)."""
        sizes = tuple(group.sizes[here[0]].tolist())
        basis_counts = np.zeros((len(here), math.prod(sizes), group.rank), dtype=dtype)
        for part in parts:
            held = [counts[m] for m in named(self.over, group.attributes[here], part.inner)]
            flat = np.stack(held).reshape(len(here) * math.prod(sizes), -1)
            answers = times(flat, part.queries.T, dtype)
            basis_counts[:, :, part.places] = answers.reshape(len(here), -1, len(part.places))
        if group.rank == 1:
            mixed = basis_counts * group.mixing[here]
        else:
            mixed = np.stack([times(x, a.T, dtype) for x, a in zip(basis_counts, group.mixing[here], strict=True)])
        out = mixed.reshape(len(here), *sizes, group.rank)
        for axis in range(len(sizes)):
            out = centre(out, 1 + axis)
        return out.reshape(len(here), -1)

    def told(self) -> list[tuple[int, list[int]]]:
        """How many sectors of which attributes."""
        return [(len(g), np.unique(g.attributes).tolist()) for g in self.groups]


def _weights(s: SectorStrategy, apart: int | None = None) -> list[int]:
    """Weights between which are those of all pairs of records, or of those that differ in one attribute.

    One that agrees on all others, and those that differ in a further one.
    """
    same = [a for a in s.attributes if a != apart]
    return [s.weight(same), *(s.weight(b for b in same if b != a) for a in same)]


def _together(own: _Cost, partners: Iterable[tuple[_Cost, int]], most: int) -> _Cost:
    """The largest, for m = 1, …, most, of m times what a record costs with the m − 1 dearest partners that there are.

    partners: what each adds, and how many there are of it. With the same for each further one it is a parabola in m:
    largest at an end, or beside its top.
    """
    best, m, total = own, 1, own
    for value, there in sorted(partners, reverse=True):
        n = min(there, most - m)
        top = n if value >= 0 else min(max(0, -(total + m * value) // (2 * value)), n)
        best = max(best, *((m + k) * (total + k * value) for k in {top, min(top + 1, n)}))
        m, total = m + n, total + n * value
    return best


def _summed(rows: Exact, which: NDArray[np.intp], count: int) -> Exact:
    """Exact sums of the rows of each kind, (count, n) of Python integers: 64-bit integers in two halves."""
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(count))
    if rows.dtype == object:
        return np.asarray(np.add.reduceat(rows[order], starts, axis=0))
    high, low = (np.add.reduceat(half[order], starts, axis=0) for half in (rows >> 31, rows & (2**31 - 1)))
    return np.asarray(high.astype(object) * 2**31 + low)
