"""Define the integer strategy by sectors, with Gaussian noise, and its exact price. Part of the trust kernel.

Sector S measures (⊗_{a∈S} H_a ⊗_{a∉S} 1ᵀ) ⊗ (A_S B_S) x with independent discrete Gaussian noise of scale σ_S on every
entry.

| symbol | meaning |
|---|---|
| H_a | n_a I − J; for n_a = 2 the single row (1, −1) |
| A_S, B_S | integer matrices: mixing (k, k) and basis (k, n_o) |
| σ_S | noise scale, a dyadic rational |
| z, o | a combination of exchangeable values; a structured cell |
| x | the counts of all joint cells |

**Statement.** The answers before noise are integers. The price of a record is the same for every combination z of
exchangeable values:

    prof(z, o) = Σ_S [Π_{a∈S} h_a] ‖(A_S B_S)_{·,o}‖² / σ_S²,    h_a = n_a (n_a − 1), or 1 for n_a = 2.

It is a rational number that this module computes from these integers alone. No result of an optimiser enters.

**Public totals.** The numbers x_F of records by attributes F are public, and no answer may depend on them alone. E
adds up the structured cells of each cell of F. In a sector of attributes in F, the basis is a multiple of B − K E. Each
column of K is a mean of the columns of B in one cell of F. The answers are then A B x − A K x_F, with the price of the
columns A (b_o − k_F). On every cell of F, each row of A_S B_S thus has an entry ≤ 0 and one ≥ 0. No row is 0. The class
refuses other rows.

**Records replaced within F.** A record and its replacement agree in attributes F. Some of F are exchangeable. Each
structured cell o determines the others, and f(o) are its positions along them. Let T be the exchangeable attributes in
which the two records agree. Then, over all T that have the exchangeable attributes of F, and all o, o' with f(o) =
f(o'),

    Δ² = max prof(o) + prof(o') − 2 X_T(o, o'),    X_T(o, o') = Σ_S weight_S(T) ⟨(A B)_o, (A B)_o'⟩/σ_S².

*Proof.* The replacement changes x by e_i − e_j, with i = (z, o) and j = (z', o'). In sector S, column i of the queries
is (⊗_{a∈S} h_{z_a}) ⊗ (A B)_o, with h_v a column of H_a. A product of two columns of H_a is one number if they are
equal, and another if not. So the products of the columns i and j over σ_S² add up to X_T(o, o'), and those of column i
with itself to prof(o). The two records agree in F if and only if T has its exchangeable attributes and f(o) = f(o'). ∎

No centre in a sector of attributes in F changes this Δ²: columns i and j lose the same k_f(o). The rows there that the
class accepts all have a price, as a row that is constant on each cell of F would be 0. Each entry is at most a
difference of two entries in one cell of F. So a record that is added or removed has a finite price, too.
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
from fitnoise.kernel.arrays import Exact, Floats, equal_rows, read_only
from fitnoise.kernel.designs._base import (
    INT64_SAFE_BOUND,
    NUMBERS_PER_BATCH,
    Answers,
    CellStructure,
    Counts,
    Margin,
    PublicCells,
    attributes_not_increasing,
    measured_twice,
    noise_out_of_range,
)
from fitnoise.kernel.designs.linear import MAX_SCALE, GaussianDesign, centre, centre_dot, exact_precisions
from fitnoise.kernel.designs.query_blocks import (
    INT64_SAFE_LIMIT,
    QueryBlock,
    attribute_names,
    exact_matmul,
    largest_entry,
    multiply,
    split,
)
from fitnoise.kernel.designs.witness import MAX_NODES, Claim, RecordProblem, invalid_claim, unproven_price
from fitnoise.kernel.units import Adjacency, DomainShape, Neighbours

ENTRIES_PER_BATCH = 2**20
"""The largest number of entries of a stack of exact matrices that is held at once."""

MAX_REPLACE_PATTERNS = 2**14
"""The largest number of agreement patterns of two records that are examined one by one for replace-one neighbours."""

MAX_PRODUCTS = 2**20
"""The largest number of products of two columns for which pairs of records are examined, for a unit whose records must
differ in some attributes. It counts all sectors; with agreement patterns, it limits their examination one by one.
"""


_Cost = TypeVar("_Cost", int, Fraction)

_Additions = list[tuple[int, int]]
"""The amounts that further records add next to one record, each with the number of records that add this amount."""


@final
class Cap(NamedTuple):
    """A cap: at most `limit` records of one unit share a joint cell of some attributes.

    Attributes:
        exchangeable: The positions of the exchangeable ones that have two values or more.
        places: For every structured cell the number of its joint cell of the others, from 0 on.
        limit: The largest number of records.
    """

    exchangeable: frozenset[int]
    places: tuple[int, ...]
    limit: int


@final
class _Partners(NamedTuple):
    """The X_ij of a record with one that may occur next to it; X is the quadratic form of `Strategy.unit_profile`.

    Attributes:
        unit: The unit in which the X_ij are integers.
        products: The X_ij by the exchangeable attributes on which the two records agree, (n_o, n_o).
        by_cap: For every cap, arrays by its exchangeable attributes on which the two agree, (n_o, joint cells). Each
            has the largest X_ij of a record in a cell with one in a joint cell of the cap's other attributes.
        lowest: A number below all X_ij, which marks pairs that cannot occur.
    """

    unit: int
    products: dict[frozenset[int], Exact]
    by_cap: list[dict[frozenset[int], Exact]]
    lowest: int


@final
@dataclass(frozen=True, eq=False)
class SectorStrategy:
    """One sector of a :class:`StrategyGroup` by itself.

    Attributes:
        attributes: The positions among the exchangeable attributes.
        sizes: The number of values n_a ≥ 2 of each attribute.
        mixing: A_S, integers, (k, k), invertible.
        basis: B_S, integers, (k, n_o).
        scale: The noise scale σ_S > 0, a float (hence dyadic).
    """

    attributes: tuple[int, ...]
    sizes: tuple[int, ...]
    mixing: Exact
    basis: NDArray[np.int64]
    scale: float

    @cached_property
    def rows(self) -> Exact:
        """The product A_S B_S, exact, shape (k, n_o)."""
        return exact_matmul(self.mixing, self.basis)

    def weight(self, agreeing: Iterable[int]) -> int:
        """Return Π_{a∈S} ⟨column z_a, column z'_a⟩ of H_a, for two records with values z and z'.

        Args:
            agreeing: The positions of the exchangeable attributes on which the two records agree; they differ on all
                others of the sector.
        """
        same, pairs = set(agreeing), zip(self.attributes, self.sizes, strict=True)
        return math.prod(centre_dot(n, equal=a in same) for a, n in pairs)


_Grams = Sequence[tuple[SectorStrategy, Exact]]
"""The products of the columns of each sector over σ², (n_o, n_o)."""


@final
@dataclass(frozen=True, eq=False)
class StrategyGroup:
    """The sectors of one group: K of them, with one basis.

    Attributes:
        attributes: The positions among the exchangeable attributes, (K, s), increasing along each row.
        sizes: The number of values n_a ≥ 2 of each attribute, (K, s).
        basis: B, int64, (k, n_o), k ≥ 1.
        mixing: A_S, int64 or Python integers, (K, k, k), invertible. No price relies on this, so it is not checked.
        scales: The noise scales σ_S > 0, floats (hence dyadic), (K,).

    Raises:
        PlanError: A field has another type or shape, or an int64 integer is 2⁶² or more. Attributes are not increasing,
            or one has fewer than two values. Or the exact sampler cannot draw a scale.
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
        is_integer = self.mixing.dtype == np.int64 or (
            self.mixing.dtype == object and all(type(x) is int for x in self.mixing.flat)
        )
        if self.mixing.shape != (count, k, k) or not is_integer:
            raise PlanError(
                "sector-mixing-misfit",
                "The mixing matrices of a group of sectors do not fit it.",
                "Each sector has one square matrix of whole numbers, with as many rows as the basis.",
                "Give one such matrix for each sector.",
                "No strategy was made.",
            )
        for name in ("attributes", "sizes", "mixing", "basis", "scales"):
            entries = read_only(getattr(self, name))  # A subclass of arrays could change.
            if entries.dtype == np.int64 and entries.size and largest_entry(entries) >= INT64_SAFE_LIMIT:
                raise PlanError(
                    "sector-integers-too-large",
                    "A 64-bit integer of a strategy is 2^62 or more.",
                    "64-bit integers of a strategy must stay below 2^62.",
                    "Give larger integers as integers of Python.",
                    "No strategy was made.",
                )
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
        """The number k of rows of the basis."""
        return len(self.basis)

    def sector(self, i: int) -> SectorStrategy:
        """Return the i-th sector by itself."""
        attributes, sizes = tuple(self.attributes[i].tolist()), tuple(self.sizes[i].tolist())
        return SectorStrategy(attributes, sizes, self.mixing[i], self.basis, float(self.scales[i]))

    @cached_property
    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """The different columns of the basis, (k, u), and the index of the column of each structured cell, (n_o,)."""
        columns, which = np.unique(self.basis, axis=1, return_inverse=True)
        return columns, which.ravel()

    @cached_property
    def _columns(self) -> tuple[Exact, list[int]]:
        """The exact ‖(A_S B)_{·,o}‖² of every sector and different column o, (K, u), and max |A_S B| of each sector."""
        columns = self.distinct[0]
        k, n = columns.shape
        squares, largest = [], []
        # Blocks of sectors bound the memory of exact products.
        step = max(1, ENTRIES_PER_BATCH // (k * n))
        for i in range(0, len(self), step):
            r = exact_matmul(self.mixing[i : i + step].reshape(-1, k), columns).reshape(-1, k, n)
            # Below the limit, 64 bits hold the sum of k squares.
            exact = r if largest_entry(r) ** 2 * k < INT64_SAFE_LIMIT and r.dtype != object else r.astype(object)
            squares.append((exact * exact).sum(axis=1))
            largest.append(np.maximum(r.max(axis=(1, 2)), -r.min(axis=(1, 2))).tolist())
        return np.concatenate(squares), [x for part in largest for x in part]

    @property
    def column_squares(self) -> Exact:
        """The exact ‖(A_S B)_{·,o}‖² of every sector, (K, u); o runs through the different columns."""
        return self._columns[0]

    @cached_property
    def answers(self) -> NDArray[np.int64]:
        """The number of noisy answers of each sector, (K,): k times Π n_a, with 1 in place of n_a = 2."""
        return np.asarray(self.rank * np.where(self.sizes == 2, 1, self.sizes).prod(axis=1))

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The start of the answers of each sector in its group, (K + 1,); the last entry is the number of answers."""
        return np.concatenate([[0], np.cumsum(self.answers)])

    @cached_property
    def weights(self) -> Exact:
        """The exact Π h_a of every sector, (K,): h_a = n_a (n_a − 1), or 1 for n_a = 2."""
        # Π n_a² bounds all partial products. Below 2⁶⁰ in floats, it is below 2⁶² in integers.
        small = float((self.sizes.astype(np.float64) ** 2).prod(axis=1).max()) < 2.0**60
        n = self.sizes if small else self.sizes.astype(object)
        return np.asarray(np.where(n == 2, 1, n * (n - 1)).prod(axis=1))

    def magnitude(self, here: NDArray[np.intp], sizes: tuple[int, ...], records: int) -> int:
        """Return a bound on all entries, and partial sums, of these sectors' transformed counts.

        Args:
            here: The indices of sectors with these sizes.
            sizes: The number of values of each attribute.
            records: A bound on the number of records.
        """
        largest: int = max(1, *(self._columns[1][i] for i in here))
        return records * largest * math.prod(max(n - 1, 1) for n in sizes)

    def stacks(self) -> list[tuple[tuple[int, ...], NDArray[np.intp]]]:
        """Return the different sizes of sectors, each with the indices of its sectors."""
        return equal_rows(self.sizes)


@final
@dataclass(frozen=True, eq=False)
class Strategy(GaussianDesign):
    """All sectors that are measured together.

    Attributes:
        structure: The attributes of the tables, split into those with interchangeable values and the others.
        groups: The sectors by group; no two sectors have the same attributes.
        claim: The claimed price of records that keep to a pattern, with witnesses; None without a claim.

    Raises:
        PlanError: A sector does not fit the structure, or two have the same attributes. A basis has no integers between
            the knots of an amount. A row measures public totals. Or the claim has another class.

    **Guarantees**
        * `profile()` equals the squared column norms of the dense integer strategy divided by σ², exactly. With more
          than EXACT_SCALES different scales it is an upper bound, less than one part in 2⁸⁰ above.
        * `cost_squared` is the largest squared distance, in units of the noise, by which one neighbouring pair can move
          the measured vector. It is exact to the same degree, and an upper bound where its docstring states so.
    """

    structure: CellStructure
    groups: tuple[StrategyGroup, ...]
    claim: Claim | None = None

    def __post_init__(self) -> None:
        if self.claim is not None and type(self.claim) is not Claim:  # A subclass could prove anything.
            raise invalid_claim()
        sizes = np.array(self.sizes, dtype=np.int64)
        for g in self.groups:
            if self.structure.steps and g.basis.shape[1] == self.cells:
                split(g.basis, self.structure)  # Refuses a basis that has no integers between the knots of amounts.
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
            if self.structure.public is not None and _measures_totals(g, self.structure.public):
                raise PlanError(
                    "public-total-measured",
                    "A sector of the strategy measures public totals.",
                    "Among the cells of each public total, each of its rows has an entry of at most 0 and one of at "
                    "least 0; and each row has an entry that is not 0.",
                    "Plan again.",
                    "No strategy was made.",
                )
        for width in {g.attributes.shape[1] for g in self.groups}:
            rows = np.concatenate([g.attributes for g in self.groups if g.attributes.shape[1] == width])
            short = max(len(sizes), 1) ** width < INT64_SAFE_LIMIT
            keys = rows @ (len(sizes) ** np.arange(width)) if short else rows
            if len(np.unique(keys, axis=0)) < len(rows):
                raise measured_twice("sector")

    @cached_property
    def sectors(self) -> tuple[SectorStrategy, ...]:
        """All sectors one by one, in the order of the groups; for strategies with few sectors."""
        return tuple(g.sector(i) for g in self.groups for i in range(len(g)))

    @property
    def runs(self) -> list[tuple[Floats, NDArray[np.int64]]]:
        """The scales σ_S of the sectors and their numbers of answers, by group."""
        return [(g.scales, g.answers) for g in self.groups]

    @cached_property
    def _precisions(self) -> tuple[int, list[Exact]]:
        """A unit u, and u/σ² of every sector of each group as Python integers, (K,) each."""
        return exact_precisions([g.scales for g in self.groups])

    @cached_property
    def _record_costs(self) -> Exact:
        """The squared cost of one record in each structured cell, in the unit of the precisions, (n_o,)."""
        total = np.zeros(self.cells, dtype=object)
        for g, precision in zip(self.groups, self._precisions[1], strict=True):
            # Sectors with one weight over σ² are summed first, in 64 bits: then few long integers are multiplied.
            values, which = np.unique(precision * g.weights.astype(object), return_inverse=True)
            total = total + (values @ _summed(g.column_squares, which.ravel(), len(values)))[g.distinct[1]]
        return total

    def profile(self) -> tuple[Fraction, ...]:
        """Return the squared cost of one record in each structured cell, equal for all exchangeable values."""
        return tuple(Fraction(int(x), self._precisions[0]) for x in self._record_costs)

    @property
    def group_costs(self) -> tuple[Fraction, ...]:
        """The sum of the largest squared costs of the sectors of each group.

        The largest squared cost of a sector is its largest column over σ². The sum is at least the squared cost of the
        group.
        """
        return tuple(Fraction(int(x.sum()), self._precisions[0]) for x in self._largest_costs)

    @cached_property
    def _largest_costs(self) -> list[Exact]:
        """The largest squared cost of every sector of each group, in the unit of the precisions, (K,) each."""
        pairs = zip(self.groups, self._precisions[1], strict=True)
        return [p * g.weights.astype(object) * g.column_squares.max(axis=1).astype(object) for g, p in pairs]

    def cost_squared(
        self, neighbours: Neighbours, held: Collection[str] = (), grid: DomainShape | None = None
    ) -> Fraction:
        """Return Δ² for neighbours that differ in one record.

        A record and its replacement agree in the attributes `held`. Of these, only exchangeable ones count, and those
        whose position each structured cell determines, by the grid of the domain. An amount does not count, as its
        knots may depend on another attribute.

        Add or remove one: max_o prof(o), as exact as `profile`. Replace one: let T be the exchangeable attributes on
        which the two records agree. The method takes the maximum, over all T and pairs of cells (o, o') that two such
        records can have, of

            prof(o) + prof(o') − 2 Σ_S weight_S(T) ⟨(A B)_o, (A B)_o'⟩/σ_S².

        With more than 14 exchangeable attributes of two values or more, it returns an upper bound: it takes the worst T
        in each sector. Where some attributes are levels of one hierarchy, two records cannot have every T. Then the
        result is an upper bound, too.
        """
        if neighbours is Neighbours.ADD_OR_REMOVE_ONE:
            return max(self.profile())
        unit, grams = self._grams()
        agreed, places, _ = self._shared(Adjacency(grid=grid), {*held}.difference(dict(self.structure.steps)))
        base, pairs = self._record_costs[:, None] + self._record_costs, np.equal.outer(places, places)
        products: Iterable[Exact] = (x for _, x in self._products(grams, agreed))
        if 2 ** sum(n > 1 for a, n in enumerate(self.sizes) if a not in agreed) > MAX_REPLACE_PATTERNS:
            # weight_S(T) lies between that of full agreement and that of disagreement on one attribute
            products = [self._extreme(grams, np.minimum)]
        # Every X is at most that of a record with itself, so the same cell twice gives at least 0.
        return Fraction(max(int((base - 2 * x)[pairs].max()) for x in products), unit)

    def unit_cost(self, adjacency: Adjacency) -> Fraction:
        """Return Δ² for one protected unit of up to g records.

        Where neighbours add or remove a record, this is the largest value of :meth:`unit_profile`. Where they replace
        one, a pattern gives a second bound. The records that are removed cost at most `unit_profile`, and so do those
        that are added. Both together cost at most four times that. A claim may give a third one, on both together. The
        method returns the smallest of these and of the bound for any records.
        """
        if adjacency.by_cell:
            return max(self.unit_profile(adjacency))
        steps = (self.cost_squared(step, adjacency.unit.within, adjacency.grid) for step in adjacency.step_relations)
        bounds = [max(steps) * adjacency.records**2]
        if adjacency.pattern:
            bounds += [4 * max(self.unit_profile(adjacency)), *map(max, self._claimed(adjacency, "replaced"))]
        return min(bounds)

    def unit_profile(self, adjacency: Adjacency) -> tuple[Fraction, ...]:
        """Return h(o) of each structured cell; added, or removed, records of one unit cost at most their mean h.

        X is the quadratic form of the strategy: vᵀXv is the squared distance of data that differ by v. A unit has m ≤ g
        records in the cells i, so vᵀXv = Σ_ij X_ij.

        **Any records.** X_ij ≤ ½ (X_ii + X_jj). So the sum is at most m Σ_i X_ii, the mean of m² X_ii: h(o) = g²
        prof(o).

        **At most k records in one joint cell of some attributes.** Let R_m(o) be X_ii plus the m − 1 largest X_ij of
        further records j. Each joint cell offers the largest X_ij of a record j that may lie there together with i. It
        offers this value at most k times, and the joint cell of i offers it k − 1 times. Then vᵀXv = Σ_i Σ_j X_ij ≤ Σ_i
        R_m(o_i), the mean of m R_m(o_i):

            h(o) = max over m ≤ g of m R_m(o)

        Any two records must differ in these attributes where k = 1, agree in the fixed attributes, and keep the
        declared separation. Records that no measured attribute distinguishes share a joint cell, so k is larger there.

        *Joint cells with fewer records.* Let t ≤ k ≤ m of the records share the joint cell of i. Let l(o) be the
        excess, from 0 on, of the amount that this cell offers over the m-th largest amount of all. If l(o) > 0, R_m(o)
        has all k − 1 amounts of the cell, which are k − t too many. Amounts of at most the m-th largest take their
        place, and R_m(o) − (k − t) l(o) is a bound. So the records of a joint cell c add at most

            F_c(t) = max over o in c of t (R_m(o) − (k − t) l(o)).

        F_c is convex, and F_c(0) = 0. Consider all t with 0 ≤ t ≤ k and Σ t = m. Convex functions of them add up to
        most at a corner, where at most one joint cell has neither 0 nor k records. So vᵀXv is at most the largest sum
        of F_c(k) in ⌊m/k⌋ joint cells and of F_c of the rest in another one. For k > m it is at most m R_m. The largest
        of these numbers over m is the h of all cells where it is less. It is the exact cost where tables show one
        exchangeable attribute alone, that of the cap.

        **A claim.** The plan may claim a smaller h for one cap of structured attributes. The claim has one number for
        all cells that agree in the fixed structured attributes. It counts only if its witnesses prove it
        (:meth:`check_claim`).

        *Places.* Let the joint cells c be those of the cap, with k places in each. Let Q_cc' be the largest X_ij of a
        record i in c and a record j in c' that may occur together. Q_cc in one place is the largest X_ii. The records
        of a unit take the places τ, each its own place. So vᵀXv = Σ_i Σ_j X_ij ≤ Σ_{c,c'∈τ} Q_cc'.

        *Cells with values.* Let k = 1. Then X_ij depends on the cells of i and j, in different places, and on the
        exchangeable attributes in which they agree.

        Both are a `RecordProblem`. A bound on all of its sets is the h of all cells of the group.

        **Result.** The method returns the h whose largest value is least. Its bound is attained where one set of
        records fits all pairs. Means add: several designs on the same records cost together at most the largest value
        of the sum of their h.
        """
        caps = [cap for cap in self.caps(adjacency) if cap is not None]
        prices = self._in_pattern(caps, adjacency) if caps else ()
        return min([super().unit_profile(adjacency), *prices, *self._claimed(adjacency, "places", "moving")], key=max)

    def check_claim(self, adjacency: Adjacency) -> None:
        """Raise PlanError unless the witnesses prove the claim for this adjacency."""
        if self.claim is not None and not self._claimed(adjacency, "places", "moving", "replaced"):
            raise unproven_price()

    def check_within(self, adjacency: Adjacency) -> None:
        """Raise PlanError if a row measures totals by the attributes `within`, or cells do not determine all of these.

        In a sector of these attributes, each row has an entry that is not 0. On the cells of each total, it has an
        entry ≤ 0 and one ≥ 0. So it differs for some two records that agree in the attributes. The answers have a
        finite price for a record that is added or removed. Only where no record can be added or removed may totals be
        counted from the data.
        """
        held, public = adjacency.unit.within, self.structure.public
        agreed, places, cells_each = self._shared(adjacency, held)
        totals = PublicCells(tuple(agreed), places)
        is_shown = public is None or cells_each != 1 or any(_measures_totals(g, totals) for g in self.groups)
        if (held and is_shown) or ((held or self.fixes_size(adjacency)) and not adjacency.fixes_size):
            raise PlanError(
                "within-total-measured",
                "The plan measures a number that the published totals give, its tables lack an attribute of within, or "
                "its records can be left out.",
                "Totals leave by their file alone, for they are counted without noise.",
                "Use the plan as fitnoise wrote it, or plan again.",
                "Nothing was read and nothing was charged.",
                place="within",
            )

    def fixes_size(self, adjacency: Adjacency) -> bool:
        """Return True if totals that are counted from the data are published with the answers."""
        del adjacency
        return self.structure.public is not None and self.structure.public.is_counted_here

    def caps(self, adjacency: Adjacency) -> list[Cap | None]:
        """Return the caps of the pattern along the axes; None for one that gives no bound."""
        shared = ((self._shared(adjacency, names), limit) for names, limit in adjacency.pattern.caps)
        return [None if n is None else Cap(inside, places, limit * n) for (inside, places, n), limit in shared]

    def _shared(
        self, adjacency: Adjacency, names: Collection[str]
    ) -> tuple[frozenset[int], tuple[int, ...], int | None]:
        """Return where attributes lie: the first two fields of their :class:`Cap`, and the number of `shared_axes`."""
        positions = self.structure.positions(adjacency.grid)
        axes, copies = adjacency.shared_axes((*self.structure.names, *positions), names)
        inside = frozenset(i for i, (a, n) in enumerate(self.structure.exchangeable) if a in axes and n > 1)
        joint = np.array([np.zeros(self.cells, np.intp), *(x for a, x in positions.items() if a in axes)])
        # In C order, and only those in which some structured cell lies.
        places = np.unique(joint, axis=1, return_inverse=True)[1]
        return inside, tuple(places.ravel().tolist()), copies

    @property
    def _is_large(self) -> bool:
        """True if pairs of records are too many to examine."""
        return sum(map(len, self.groups)) * self.cells**2 << sum(n > 1 for n in self.sizes) > MAX_PRODUCTS

    def _in_pattern(self, caps: Sequence[Cap], adjacency: Adjacency) -> Iterator[tuple[Fraction, ...]]:
        """Yield the h of all cells by each cap and each method of :meth:`unit_profile` without a claim."""
        base, records = self.profile(), adjacency.records
        if self._is_large:
            for cap in caps:  # Two records that share their joint cell cost at most the mean of both.
                rest = len({*cap.places}) * math.prod(self.sizes[i] for i in cap.exchangeable) - 1
                product = min(max(base), self.largest_product(cap)) if rest else max(base)
                yield tuple(_max_set_cost(x, [(x, cap.limit - 1), (product, cap.limit * rest)], records) for x in base)
            return
        partners, costs = self._partner_products(caps, adjacency), self._record_costs.tolist()
        for cap, kinds in zip(caps, partners.by_cap, strict=True):
            others = self._partners(cap, kinds, partners.lowest)
            prices = [_max_set_cost(x, partners, records) for x, partners in zip(costs, others, strict=True)]
            yield tuple(Fraction(x, partners.unit) for x in prices)
            if self.cells * records <= MAX_PRODUCTS:
                shared = kinds[cap.exchangeable][range(self.cells), cap.places].tolist()
                yield (Fraction(self._different(cap, shared, others, records), partners.unit),) * self.cells

    def _claimed(self, adjacency: Adjacency, *kinds: str) -> list[tuple[Fraction, ...]]:
        """Return the h of all cells that is claimed of records of these kinds, if it is proven for this adjacency."""
        claim, groups = self.claim, self.fixed_groups(adjacency)
        # A bound of its own for each group: with fewer, cells would have none.
        if claim is None or not {*claim.kinds} <= {*kinds} or len(claim.bounds) != max(groups) + 1:
            return []
        if not claim.proves(self.record_problems(adjacency, claim.cap, claim.kinds)):
            return []
        return [tuple(Fraction(claim.bounds[group], self._precisions[0]) for group in groups)]

    def record_problems(
        self, adjacency: Adjacency, number: int, kinds: Sequence[str]
    ) -> Iterator[RecordProblem | None]:
        """Yield the problem of each group of cells that agree in the fixed attributes; None where no claim is checked.

        That is so where the cap gives no bound or has exchangeable attributes, and where pairs or places are too many.
        For cells with values it is so where the cap allows more than one record, too. For replaced records it is so if
        the pattern has fixed attributes, or the neighbours add or remove records.

        Args:
            adjacency: The neighbour relation, with a pattern.
            number: The index of the cap among those of the pattern.
            kinds: The records of each group, as in a :class:`Claim`.
        """
        all_caps = self.caps(adjacency)
        cap, caps = next(iter(all_caps[number:]), None), [x for x in all_caps if x is not None]
        is_foreign = "replaced" in kinds and (adjacency.by_cell or adjacency.pattern.fixed)
        if cap is None or self._is_large or cap.exchangeable or is_foreign:
            yield from (None for _ in kinds)
            return
        partners = self._partner_products(caps, adjacency)
        groups, positions = np.array(self.fixed_groups(adjacency)), np.array(cap.places)
        slots, products = min(cap.limit, adjacency.records), partners.by_cap[caps.index(cap)][frozenset()]
        for group, kind in enumerate(kinds):
            cells = np.flatnonzero(groups == group)
            cells = cells[np.argsort(positions[cells], kind="stable")]
            places, place_of = np.unique(positions[cells], return_inverse=True)
            if kind in ("moving", "replaced") and slots == 1:
                yield self._moving_problem(cells, place_of, partners, adjacency, 1 + (kind == "replaced"))
            elif kind != "places" or len(places) * slots > MAX_NODES:
                yield None
            else:
                starts = np.flatnonzero(np.diff(place_of, prepend=-1))
                x = np.maximum.reduceat(products[cells][:, places], starts, axis=0).repeat(slots, 0).repeat(slots, 1)
                compatible = (x > partners.lowest) & ~np.eye(len(x), dtype=bool)
                largest = tuple(np.maximum.reduceat(self._record_costs[cells], starts).repeat(slots).tolist())
                x = np.where(compatible, x, 0)
                yield RecordProblem(x[None], compatible[None], largest, tuple(range(len(x))), (), adjacency.records)

    def _moving_problem(
        self, cells: NDArray[np.intp], place_of: NDArray[np.intp], partners: _Partners, adjacency: Adjacency, parts: int
    ) -> RecordProblem:
        """Return the problem of records in these cells, with the values of attributes in which they may differ.

        With two parts, it is about records that are replaced.
        """
        held = frozenset.intersection(*partners.products)
        free = sorted(frozenset.union(*partners.products) - held)
        agreements = [held.union(a for i, a in enumerate(free) if code >> i & 1) for code in range(2 ** len(free))]
        x = np.stack([partners.products[same][np.ix_(cells, cells)] for same in agreements])
        compatible, costs = (x > partners.lowest) & (place_of[:, None] != place_of), self._record_costs[cells]
        if parts > 1:
            # Any record may be removed while any other one is added. Two equal ones cancel.
            products, others = dict(self._products(self._grams()[1], held)), np.ones_like(compatible)
            across = -np.stack([products[same][np.ix_(cells, cells)] for same in agreements])
            np.einsum("ii->i", others[-1])[:] = False
            x, compatible = np.block([[x, across], [across, x]]), np.block([[compatible, others], [others, compatible]])
            costs, place_of = np.tile(costs, 2), np.concatenate([place_of, place_of + place_of[-1] + 1])
        sizes, places = tuple(self.sizes[a] for a in free), tuple(place_of.tolist())
        return RecordProblem(x, compatible, tuple(costs.tolist()), places, sizes, adjacency.records, parts)

    def fixed_groups(self, adjacency: Adjacency) -> tuple[int, ...]:
        """Return the group of every structured cell: its joint cell along the fixed attributes of these cells."""
        return self._shared(adjacency, adjacency.pattern.fixed)[1]

    def _partner_products(self, caps: Sequence[Cap], adjacency: Adjacency) -> _Partners:
        """Return the X_ij of a record with one that may occur next to it."""
        unit, grams = self._grams()
        held, groups, _ = self._shared(adjacency, adjacency.pattern.fixed)
        allowed = np.equal.outer(groups, groups)
        for a, positions in self.structure.positions(adjacency.grid).items():
            allowed &= abs(positions[:, None] - positions) >= dict(adjacency.pattern.separation).get(a, 0)
        # |X_ij| is at most max X_ii, as X is positive semidefinite.
        lowest = -2 * max(self._record_costs) - 1
        by_cap: list[dict[frozenset[int], Exact]] = [{} for _ in caps]
        products: dict[frozenset[int], Exact] = {}
        for same, largest in self._products(grams, held):
            pairs = allowed.copy()
            for cap in caps:
                # Two records that agree on all exchangeable attributes of such a cap differ in a structured one.
                if cap.limit == 1 and cap.exchangeable <= same:
                    pairs &= np.not_equal.outer(cap.places, cap.places)
            products[same] = np.where(pairs, largest, lowest)
            for cap, kinds in zip(caps, by_cap, strict=True):
                agreeing, order = cap.exchangeable & same, np.argsort(cap.places, kind="stable")
                starts = np.flatnonzero(np.diff(np.array(cap.places)[order], prepend=-1))
                costliest = np.maximum.reduceat(products[same][:, order], starts, axis=1)
                kinds[agreeing] = np.maximum(kinds.get(agreeing, costliest), costliest)
        return _Partners(unit, products, by_cap, lowest)

    def _partners(self, cap: Cap, kinds: Mapping[frozenset[int], Exact], lowest: int) -> list[_Additions]:
        """Return, for every structured cell, the amounts that further records of a unit add under a cap."""
        # Of joint exchangeable cells, those that differ from one cell in exactly the attributes that are not in `kind`.
        others = {kind: math.prod(self.sizes[i] - 1 for i in cap.exchangeable - kind) for kind in kinds}
        return [
            [
                (value, cap.limit - 1 if (kind, w) == (cap.exchangeable, index) else cap.limit * others[kind])
                for kind, costliest in kinds.items()
                for w, value in enumerate(costliest[o].tolist())
                if value > lowest
            ]
            for o, index in enumerate(cap.places)
        ]

    def _different(self, cap: Cap, shared: Sequence[int], partners: Sequence[_Additions], max_size: int) -> int:
        """Return the largest of the sums of :meth:`unit_profile` over joint cells, for m = 1, …, `max_size`.

        Args:
            cap: The cap; it allows `limit` records in each joint cell, exchangeable values included.
            shared: For every structured cell, the amount that one more record in the same joint cell adds.
            partners: The amounts that further records add, for every structured cell.
            max_size: The largest number of records of a unit.
        """
        cells = math.prod(self.sizes[i] for i in cap.exchangeable)
        lines = [sorted((x for x, n in y for _ in range(min(n, max_size))), reverse=True)[:max_size] for y in partners]
        best, totals = 0, dict(enumerate(self._record_costs.tolist()))
        for m in range(1, max_size + 1):
            top = {cap.places[o]: total for o, total in sorted(totals.items(), key=lambda x: x[1])}
            ranked = sorted(top.values(), reverse=True)
            missing = -m % (size := min(cap.limit, m))
            complete, remaining = divmod((m - 1) // size, cells)
            if len(ranked) <= complete:
                break
            # The last joint cell has fewer records, and next to each of them are fewer that share its joint cell.
            few = {o: x - missing * sum(max(0, shared[o] - y) for y in lines[o][m - 1 : m]) for o, x in totals.items()}
            ends = ((size - missing) * x - size * max(0, top[cap.places[o]] - ranked[complete]) for o, x in few.items())
            best = max(best, size * (cells * sum(ranked[:complete]) + remaining * ranked[complete]) + max(ends))
            # A record with too few partners belongs to no larger set.
            totals = {o: total + lines[o][m - 1] for o, total in totals.items() if len(lines[o]) >= m}
        return best

    def largest_product(self, cap: Cap) -> Fraction:
        """Return C, at least X_ij for any two records in different joint cells of a cap that has several.

        Two records that agree on the exchangeable attributes T, in structured cells o and o', have

            X_ij = Σ_S weight_S(T) ⟨(A B)_o, (A B)_o'⟩/σ_S².

        The method adds up the largest value of each sector, over all T and o, o' that leave the records different.
        Where pairs of cells are too many, it uses |X_ij| ≤ (X_ii X_jj)^½ in each sector. For two records that differ in
        a ∈ S, weight_S is at most 1/(n_a − 1) times as large.
        """
        exchangeable, structured = cap.exchangeable, len({*cap.places}) > 1
        if sum(map(len, self.groups)) * self.cells**2 > MAX_PRODUCTS:
            return max(self.profile()) if structured else max(map(self._roughly, exchangeable))
        differ, everywhere = np.not_equal.outer(cap.places, cap.places), np.ones((self.cells, self.cells), dtype=bool)
        unit, grams = self._grams()
        # Records that differ in an exchangeable attribute may lie in one structured cell.
        kinds: list[tuple[int | None, NDArray[np.bool_]]] = [(a, everywhere) for a in exchangeable]
        kinds += [(None, differ)] if structured else []
        return Fraction(max(int(self._extreme(grams, np.maximum, a)[pairs].max()) for a, pairs in kinds), unit)

    def _roughly(self, attribute: int) -> Fraction:
        """Return a bound on X_ij for any two records that differ in the exchangeable attribute `attribute`."""
        total = Fraction(0)
        for g, largest in zip(self.groups, self._largest_costs, strict=True):
            inside = (g.attributes == attribute).any(axis=1)
            total += sum(largest[~inside].tolist()) + Fraction(sum(largest[inside].tolist()), self.sizes[attribute] - 1)
        return total / self._precisions[0]

    def _grams(self) -> tuple[int, _Grams]:
        """Return a unit, and for every sector the products of its columns over σ², in this unit, (n_o, n_o)."""
        unit, precisions = self._precisions
        pairs = zip(self.sectors, itertools.chain(*precisions), strict=True)
        return unit, [(s, exact_matmul(s.rows.T, s.rows).astype(object) * f) for s, f in pairs]

    def _products(self, grams: _Grams, held: frozenset[int]) -> Iterator[tuple[frozenset[int], Exact]]:
        """Yield exchangeable attributes with `held`, and the X_ij of records that agree on these alone, (n_o, n_o)."""
        free, nothing = [a for a, n in enumerate(self.sizes) if n > 1 and a not in held], self._extreme([], np.minimum)
        for same in (held.union(x) for k in range(len(free) + 1) for x in itertools.combinations(free, k)):
            yield same, sum((s.weight(same) * g for s, g in grams), start=nothing)

    def _extreme(self, grams: _Grams, choose: np.ufunc, attribute: int | None = None) -> Exact:
        """Return bounds on X_ij, (n_o, n_o): the sums of the least or the largest values of each sector.

        With `attribute`, they hold for records that differ in this attribute.
        """
        bounds = (choose(max(w) * g, min(w) * g) for w, g in ((_weights(s, attribute), g) for s, g in grams))
        return sum(bounds, start=np.zeros((self.cells, self.cells), dtype=object))

    # --- as a design ------------------------------------------------------------------------------------

    def scaled_by(self, parts: int) -> Strategy:
        """Return the strategy with `parts` times the noise, and without its claim.

        vᵀXv is convex in v, and v, in records, is a mean of unit vectors and of 0.
        """
        # The unit of a claim depends on the scales.
        return replace(self, groups=tuple(replace(g, scales=g.scales * parts) for g in self.groups), claim=None)

    @cached_property
    def _parts(self) -> tuple[tuple[QueryBlock, ...], ...]:
        return tuple(split(g.basis, self.structure) for g in self.groups)

    def margins(self) -> set[Margin]:
        """Return for each sector its attributes, with those on which its queries depend."""
        pairs = zip(self.groups, self._parts, strict=True)
        return {
            m for g, parts in pairs for part in parts for m in attribute_names(self.structure, g.attributes, part.inner)
        }

    def exact_answers(self, counts: Counts, adjacency: Adjacency, records: int) -> Answers:
        """Return one array for each group: (⊗H_a ⊗ A_S B_S) applied to the counts, one sector after the other."""
        del adjacency  # The integers do not depend on the protected unit.
        return tuple(self._transformed(g, p, counts, records) for g, p in zip(self.groups, self._parts, strict=True))

    def magnitude(self, records: int) -> int:
        """Return a bound on all exact answers, for at most `records` records."""
        return max((g.magnitude(here, sizes, records) for g in self.groups for sizes, here in g.stacks()), default=0)

    def _transformed(self, group: StrategyGroup, parts: tuple[QueryBlock, ...], counts: Counts, records: int) -> Exact:
        """Return exact integers, modulo 2⁶⁴ where the matrices and the public bound on records allow int64."""
        stacks = group.stacks()
        wide = group.mixing.dtype == object or any(
            group.magnitude(x, n, records) >= INT64_SAFE_BOUND for n, x in stacks
        )
        dtype = np.dtype(object) if wide else np.dtype(np.int64)
        out = np.empty(group.starts[-1], dtype=dtype)
        for sizes, here in stacks:
            step = max(1, NUMBERS_PER_BATCH // (math.prod(sizes) * max(part.queries.shape[1] for part in parts)))
            for i in range(0, len(here), step):
                chunk = here[i : i + step]
                values = self._stack(group, parts, counts, chunk, dtype)
                out[group.starts[chunk][:, None] + np.arange(values.shape[1])] = values
        return out

    def _stack(
        self,
        group: StrategyGroup,
        parts: tuple[QueryBlock, ...],
        counts: Counts,
        here: NDArray[np.intp],
        dtype: np.dtype[Any],
    ) -> Exact:
        """Return the exact answers of some sectors of a group, all of equal sizes, (K, answers)."""
        sizes = tuple(group.sizes[here[0]].tolist())
        basis_counts = np.zeros((len(here), math.prod(sizes), group.rank), dtype=dtype)
        for part in parts:
            held = [counts[m] for m in attribute_names(self.structure, group.attributes[here], part.inner)]
            flat = np.stack(held).reshape(len(here) * math.prod(sizes), -1)
            answers = multiply(flat, part.queries.T, dtype)
            basis_counts[:, :, part.places] = answers.reshape(len(here), -1, len(part.places))
        if group.rank == 1:
            mixed = basis_counts * group.mixing[here]
        else:
            mixed = np.stack([multiply(x, a.T, dtype) for x, a in zip(basis_counts, group.mixing[here], strict=True)])
        out = mixed.reshape(len(here), *sizes, group.rank)
        for axis in range(len(sizes)):
            out = centre(out, 1 + axis)
        return out.reshape(len(here), -1)

    def ledger_rows(self) -> list[tuple[int, list[int]]]:
        """Return the number of sectors of each group, with the positions of their attributes."""
        return [(len(g), np.unique(g.attributes).tolist()) for g in self.groups]


def _measures_totals(group: StrategyGroup, public: PublicCells) -> bool:
    """Return True if a row of a sector of public attributes keeps one sign on the cells of a public total, or is 0."""
    inside = np.isin(group.attributes, public.exchangeable).all(axis=1)
    rows = exact_matmul(group.mixing[inside].reshape(-1, group.rank), group.basis)
    by_cell = (rows[:, np.equal(public.places, f)] for f in {*public.places})
    return not rows.any(axis=1).all() or any((x.min(axis=1) > 0).any() or (x.max(axis=1) < 0).any() for x in by_cell)


def _weights(s: SectorStrategy, attribute: int | None = None) -> list[int]:
    """Return weights whose least and largest bound the weights of all pairs of records.

    With `attribute`, they bound those of all pairs that differ in this attribute. The first weight is that of a pair
    that agrees on all other attributes. Each further one is that of a pair that differs in exactly one of these.
    """
    same = [a for a in s.attributes if a != attribute]
    return [s.weight(same), *(s.weight(b for b in same if b != a) for a in same)]


def _max_set_cost(record_cost: _Cost, partners: Iterable[tuple[_Cost, int]], max_size: int) -> _Cost:
    """Return the largest value, for m ≤ `max_size`, of m times the cost of a record with its m − 1 costliest partners.

    Sizes m for which there are not enough partners do not count.

    Args:
        record_cost: The cost of the record alone.
        partners: The amount that each kind of partner adds, and the number of partners of this kind.
        max_size: The largest number of records, at least 1.
    """
    best, m, total = record_cost, 1, record_cost
    for value, there in sorted(partners, reverse=True):
        n = min(there, max_size - m)
        # A run of equal partners gives a parabola (m + k) (total + k value) in k, with this top. Its largest value is
        # at an end of the run, or next to its top.
        top = n if value >= 0 else min(max(0, -(total + m * value) // (2 * value)), n)
        best = max(best, *((m + k) * (total + k * value) for k in {top, min(top + 1, n)}))
        m, total = m + n, total + n * value
    return best


def _summed(rows: Exact, which: NDArray[np.intp], count: int) -> Exact:
    """Return exact sums of the rows of each kind, (count, n) of Python integers.

    Args:
        rows: Integers, (K, n).
        which: The kind of each row, (K,), from 0 to `count` − 1; every kind occurs.
        count: The number of kinds.
    """
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(count))
    if rows.dtype == object:
        return np.asarray(np.add.reduceat(rows[order], starts, axis=0))
    # Both halves of an integer have 31 bits, so 64 bits hold their sums.
    high, low = (np.add.reduceat(half[order], starts, axis=0) for half in (rows >> 31, rows & (2**31 - 1)))
    return np.asarray(high.astype(object) * 2**31 + low)
