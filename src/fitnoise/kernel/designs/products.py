"""Define products: strategies that measure axis by axis, for any number of joint cells, and their price. Trust kernel.

A set T of attributes measures m_T (⊗_{a∈T} H_a ⊗_{a∉T} 1ᵀ) x with independent discrete Gaussian noise of scale σ_T on
every entry. x has the counts of all joint cells. m_T and H_a are integers. H_a is the same in every T. It is any
matrix of the attribute's values, or its centring n_a I − J (the row (1, −1) for n_a = 2). So the answers before noise
are integers, and one record whose values are i_a moves them by

    Σ_T m_T²/σ_T² Π_{a∈T} g_a(i_a) ≤ Δ² = Σ_T m_T²/σ_T² Π_{a∈T} max_i g_a(i),     g_a(i) = ‖column i of H_a‖².

Every term grows with each g_a, so a record with the costliest value of every attribute costs Δ². The maximum over all
joint cells is exact, and needs no array over them. No result of an optimiser enters.

**A scale for every product of rows.** With several views of several attributes, σ_T may vary with the rows of the
factors, r = (r_a). A record then moves the answers of T by f_T(i) = Σ_r m_T²/σ_T(r)² Π_{a∈T} H_a(r_a, i_a)². A centring
has one scale for all rows, as above. A value that is costly in one set may be of low cost in another. Up to
`clusters.MAX_JOINT_CELLS` joint cells, or as many as one set has costs, the module finds the costliest cell. Beyond
that number it takes Σ_T max f_T, or a smaller claim of the plan that is proven
(:mod:`fitnoise.kernel.designs.clusters`).

**A record that is replaced.** Give column i of H_a one entry more, (G_a − g_a(i))^½, G_a = max g_a, in a row of its
own. Then all columns have the square G_a, and two of them keep the product they had. No distance becomes smaller, as
entries of ⊗ columns are only added. Let two records differ in the attributes D. Let x_a be the product of their two
columns, from κ_a, the least of any two, to G_a. The squared distance of the records is

    Σ_T m_T²/σ_T² 2 (Π_{a∈T} G_a − Π_{a∈T∩D} x_a Π_{a∈T∖D} G_a).

It is affine in every x_a, so it is largest where each x_a is at one of its ends. x_a = G_a gives the value without a in
D:

    Δ² ≤ max_D 2 Σ_T m_T²/σ_T² (Π_{a∈T} G_a − Π_{a∈T∩D} κ_a Π_{a∈T∖D} G_a),

with equality where all columns of each H_a have one square and all pairs of them one product. Every term is at least 0.
So attributes with one factor may be exchanged. Then each of the sets that become identical is charged as the costliest
of them, measured or not. The sum is at most the sum of every set's own maximum, and each maximum is at most 4 Π G_a.
Where σ_T varies with the rows, the module uses ‖x − y‖² ≤ 2 ‖x‖² + 2 ‖y‖², four times the price of one record.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Floats, read_only
from fitnoise.kernel.designs import clusters
from fitnoise.kernel.designs._base import (
    INT64_SAFE_BOUND,
    Answers,
    CellStructure,
    Counts,
    Margin,
    attributes_not_increasing,
    measured_twice,
    noise_out_of_range,
)
from fitnoise.kernel.designs.clusters import ClusterClaim, cluster_costs, varying
from fitnoise.kernel.designs.linear import MAX_SCALE, GaussianDesign, axis_rows, centre, centre_dot, exact_precisions
from fitnoise.kernel.designs.query_blocks import (
    INT64_SAFE_LIMIT,
    attribute_names,
    exact_matmul,
    largest_entry,
    multiply,
    refuse_amounts,
)
from fitnoise.kernel.designs.witness import invalid_claim, unproven_price
from fitnoise.kernel.units import Adjacency, Neighbours

MAX_CHOICES = 2**10
"""The largest number of sets D of differing attributes that are examined one by one for replace-one neighbours."""


@final
@dataclass(frozen=True, eq=False)
class Factor:
    """The queries on one attribute.

    Attributes:
        rows: H_a, 64-bit integers below 2⁶² in size, (r_a, n_a); None for the centring of the attribute.

    Raises:
        PlanError: The rows are not such a matrix, or it has no entry.
    """

    rows: NDArray[np.int64] | None

    def __post_init__(self) -> None:
        if self.rows is None:
            return
        rows = read_only(self.rows)
        if rows.ndim != 2 or rows.dtype != np.int64 or not rows.size or largest_entry(rows) >= INT64_SAFE_LIMIT:
            raise PlanError(
                "factor-not-integers",
                "A factor of a product has another type or shape, or an entry of 2^62 or more.",
                "It must be a 64-bit integer matrix with entries below 2^62 and at least one row and one column.",
                "Give such a matrix.",
                "No strategy was made.",
            )
        object.__setattr__(self, "rows", rows)

    def answers(self, n: int) -> int:
        """Return the number of answers along an axis of n values."""
        return axis_rows(n) if self.rows is None else len(self.rows)

    def largest(self, n: int) -> int:
        """Return the largest absolute entry, at least 1."""
        return max(n - 1, 1) if self.rows is None else max(largest_entry(self.rows), 1)

    def max_column_norm(self, n: int) -> int:
        """Return max_i ‖column i‖² in Python's integers: 64 bits would not hold it."""
        return int(self.squares(n).sum(axis=0).max())

    def squares(self, n: int) -> Exact:
        """Return the square of every entry in Python's integers, (r_a, n_a).

        A centring of n values, whose columns have equal squares, gives one number, (1, 1): the square of a column.
        """
        if self.rows is None:
            return np.array([[centre_dot(n, equal=True)]], dtype=object)
        return self.rows.astype(object) ** 2

    def nearest(self, n: int) -> int:
        """Return the least ⟨column i, column j⟩ of two values; with one value, its square."""
        if self.rows is None:
            return centre_dot(n, equal=n == 1)
        products = exact_matmul(self.rows.T, self.rows)
        # κ is over pairs of two values, so no column may count with itself.
        np.fill_diagonal(products, products.max())
        return int(products.min())

    def apply(self, counts: Exact, axis: int) -> Exact:
        """Return H_a applied along one axis, which then has an entry for each row of H_a, in the ring of the counts."""
        if self.rows is None:
            return centre(counts, axis)
        x = np.moveaxis(counts, axis, 0)
        out = multiply(self.rows, x.reshape(len(x), -1), counts.dtype)
        return np.moveaxis(out.reshape(-1, *x.shape[1:]), 0, axis)


@final
@dataclass(frozen=True, eq=False)
class ProductGroup:
    """Measured sets of attributes of equal size: K of them.

    Attributes:
        attributes: The positions among all attributes, (K, s), increasing along each row.
        multiples: m_T, 64-bit integers from 1, (K,).
        scales: σ_T > 0, floats, (K,). Or for every set one scale for each product of rows of its factors, in C order,
            and set after set along one axis. A centring has one scale for all of its rows.

    Raises:
        PlanError: A field has another type or shape. A multiple is below 1, or 2⁶² or more. Attributes are not
            increasing. Or the exact sampler cannot draw a scale.
    """

    attributes: NDArray[np.intp]
    multiples: NDArray[np.int64]
    scales: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("attributes", "multiples", "scales"):
            object.__setattr__(self, name, read_only(getattr(self, name)))
        if self.attributes.ndim != 2 or self.attributes.dtype != np.intp:
            raise PlanError(
                "product-sets-not-positions",
                "The sets of attributes of a product are not rows of positions.",
                "Each set is one row of positions of attributes, in a matrix.",
                "Give such a matrix.",
                "No strategy was made.",
            )
        if (np.diff(self.attributes, axis=1) <= 0).any():
            raise attributes_not_increasing("product")
        is_integer = self.multiples.dtype == np.int64 and self.multiples.shape == (len(self.attributes),)
        if not (is_integer and ((self.multiples > 0) & (self.multiples < INT64_SAFE_LIMIT)).all()):
            raise PlanError(
                "product-multiples-out-of-range",
                "The multiples of a product do not fit its sets of attributes.",
                "Each set has one multiple, a whole number from 1 of at most 62 bits.",
                "Give one such multiple for each set.",
                "No strategy was made.",
            )
        good = self.scales.dtype == np.float64 and self.scales.ndim == 1 and len(self.scales) >= len(self.attributes)
        if not (good and ((self.scales > 0) & (self.scales <= MAX_SCALE)).all()):  # also refuses NaN
            raise noise_out_of_range("product")

    def __len__(self) -> int:
        return len(self.attributes)


@final
@dataclass(frozen=True, eq=False)
class ProductStrategy(GaussianDesign):
    """All sets of attributes that are measured together.

    Attributes:
        structure: The attributes, all as `exchangeable` ones; no array has their joint cells.
        factors: The factor of each attribute.
        groups: The sets, at least one group, no set twice.
        claim: The claimed price of one record, with its witness; None without a claim.

    Raises:
        PlanError: There is an amount or a structured attribute, nothing is measured, a field does not fit the others,
            or the claim has another class.

    **Guarantees**
        * `max_record_cost` is the largest squared column norm of the dense integer strategy divided by σ², exactly.
          With more than EXACT_SCALES different scales it is an upper bound, less than one part in 2⁸⁰ above. The first
          two sentences hold if `is_exact`. Else it is an upper bound.
        * `cost_squared` is at least the largest squared distance, in units of the noise, by which one neighbouring pair
          can move the answers. Where neighbours add or remove a record, it is `max_record_cost`. Where they replace
          one, it is at most four times `max_record_cost`.
    """

    structure: CellStructure
    factors: tuple[Factor, ...]
    groups: tuple[ProductGroup, ...]
    claim: ClusterClaim | None = None

    def __post_init__(self) -> None:
        if self.claim is not None and type(self.claim) is not ClusterClaim:  # A subclass could prove anything.
            raise invalid_claim()
        refuse_amounts(self.structure)
        if not self.groups:
            raise PlanError(
                "product-empty",
                "The product measures nothing.",
                "A product that measures nothing has no price.",
                "Give at least one set of attributes to measure.",
                "No strategy was made.",
            )
        wide = [n if f.rows is None else f.rows.shape[1] for f, n in zip(self.factors, self.sizes, strict=False)]
        if self.structure.structured or len(self.factors) != len(self.sizes) or wide != list(self.sizes):
            raise PlanError(
                "factors-misfit-domain",
                "The factors of the product do not fit its domain.",
                "Each attribute has one factor with one column for each value, and no attribute is structured.",
                "Give one such factor for each attribute.",
                "No strategy was made.",
            )
        if any(
            g.attributes.size and not 0 <= g.attributes.min() <= g.attributes.max() < len(wide) for g in self.groups
        ):
            raise PlanError(
                "product-sets-misfit-domain",
                "A set of attributes of the product names an attribute that its domain does not have.",
                "",
                "Name attributes of the domain by their positions.",
                "No strategy was made.",
            )
        sets = [tuple(row) for g in self.groups for row in g.attributes.tolist()]
        if len(set(sets)) < len(sets):
            raise measured_twice("set of attributes")
        if any(len(g.scales) != sum(map(math.prod, shapes)) for g, shapes in zip(self.groups, self.grids, strict=True)):
            raise PlanError(
                "product-scales-misfit",
                "The noise of the product does not fit its sets of attributes.",
                "Each group has one scale for each set, or one for each product of rows of its factors.",
                "Give that many scales.",
                "No strategy was made.",
            )

    @cached_property
    def shapes(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The shape of the answers of every set, by group."""
        rows = [f.answers(n) for f, n in zip(self.factors, self.sizes, strict=True)]
        return tuple(tuple(tuple(rows[a] for a in axes) for axes in g.attributes.tolist()) for g in self.groups)

    @cached_property
    def counts(self) -> tuple[NDArray[np.int64], ...]:
        """The number of answers of each set, by group."""
        return tuple(np.array([math.prod(x) for x in shapes], dtype=np.int64) for shapes in self.shapes)

    @cached_property
    def grids(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The shape of the scales of every set, by group; 1 along an attribute whose rows have one scale."""
        rows = [1 if f.rows is None else len(f.rows) for f in self.factors]
        return tuple(
            tuple(tuple(1 if len(g.scales) == len(g) else rows[a] for a in axes) for axes in g.attributes.tolist())
            for g in self.groups
        )

    @property
    def joint(self) -> bool:
        """True if scales vary within a set."""
        return any(len(g.scales) > len(g) for g in self.groups)

    def by_set(self, values: Sequence[NDArray[Any]]) -> list[list[NDArray[Any]]]:
        """Return values, one for each scale, as one array for each set, by group.

        An array has an axis for each attribute of its set, of length 1 where all rows share a scale (`grids`).

        Args:
            values: For each group an array with one axis: a number for each of its scales.
        """
        out = []
        for x, grids in zip(values, self.grids, strict=True):
            parts = np.split(x, np.cumsum([math.prod(shape) for shape in grids])[:-1]) if grids else []
            out.append([part.reshape(shape) for part, shape in zip(parts, grids, strict=True)])
        return out

    @cached_property
    def runs(self) -> tuple[tuple[Floats, NDArray[np.int64]], ...]:
        """The scales by group, each with its number of consecutive answers: 1 where scales vary within sets."""
        out = []
        for g, sizes, shapes, scales in zip(
            self.groups, self.counts, self.shapes, self.by_set([g.scales for g in self.groups]), strict=True
        ):
            if len(g.scales) == len(g):
                out.append((g.scales, sizes))
                continue
            expanded = [np.broadcast_to(x, shape).ravel() for x, shape in zip(scales, shapes, strict=True)]
            out.append((np.concatenate(expanded), np.ones(int(sizes.sum()), dtype=np.int64)))
        return tuple(out)

    @cached_property
    def _weighed(self) -> tuple[int, tuple[dict[tuple[int, ...], Exact], ...]]:
        """A unit, and by group every set of attributes with m²/σ² as integers in this unit."""
        unit, precisions = exact_precisions([g.scales for g in self.groups])
        out = []
        for g, parts in zip(self.groups, self.by_set(precisions), strict=True):
            sets = zip(g.attributes.tolist(), parts, g.multiples.tolist(), strict=True)
            out.append({tuple(a): np.array(x * m**2, dtype=object) for a, x, m in sets})
        return unit, tuple(out)

    @cached_property
    def _max_column_norms(self) -> list[int]:
        """G_a of every attribute."""
        return [f.max_column_norm(n) for f, n in zip(self.factors, self.sizes, strict=True)]

    def _by_cell(self, attributes: Sequence[int], precisions: Exact) -> Exact:
        """Return f_T of the cells of a set; an axis has all values of its attribute, or 1 if these cost the same."""
        x = precisions
        for axis, a in enumerate(attributes):
            squares = self.factors[a].squares(self.sizes[a])
            axis_squares = squares.sum(axis=0, keepdims=True) if x.shape[axis] == 1 else squares
            x = np.moveaxis(np.tensordot(axis_squares, x, (0, axis)), 0, axis)
        return x

    def _max_cost(self, attributes: Sequence[int], precisions: Exact) -> int:
        """Return the largest f_T; where scales do not vary, it is that of the costliest value of every attribute."""
        if precisions.size == 1:
            # f_T is a product of one factor for each attribute, so no array is needed.
            return int(precisions.item() * math.prod(self._max_column_norms[a] for a in attributes))
        return int(self._by_cell(attributes, precisions).max())

    @cached_property
    def group_costs(self) -> tuple[Fraction, ...]:
        """Bounds on the squared cost of each group: the sum, over its sets, of the largest squared cost of a record."""
        unit, groups = self._weighed
        return tuple(Fraction(sum(self._max_cost(axes, x) for axes, x in sets.items()), unit) for sets in groups)

    @cached_property
    def max_record_cost(self) -> Fraction:
        """The squared cost Σ_T m_T²/σ_T² Π max g of a record with the costliest value of every attribute.

        Where scales vary within sets, it is the costliest joint cell, or the bound in the head of this module.
        """
        if self.is_exact:
            return self._costliest_cell() if self.joint else sum(self.group_costs, Fraction(0))
        each = sum(self.group_costs, Fraction(0))
        # A claim may be proven and still be above the sum of maxima.
        return each if self._claimed is None else min(each, self._claimed)

    @cached_property
    def is_exact(self) -> bool:
        """True if the price of one record is the cost of the costliest joint cell: no claim can be smaller."""
        if not self.joint:
            return True
        sets = [t for g in self.groups for t in g.attributes.tolist()]
        # A centring costs the same for every value.
        shapes: list[dict[int, int]] = [{a: self.sizes[a] for a in t if self.factors[a].rows is not None} for t in sets]
        cells = math.prod({a: n for shape in shapes for a, n in shape.items()}.values())
        # An array of as many cells as one set has costs takes less memory than the costs.
        return cells <= max(clusters.MAX_JOINT_CELLS, *(math.prod(shape.values()) for shape in shapes))

    def costs_by_set(self) -> dict[tuple[int, ...], Exact]:
        """Return f_T of every set in the unit of the design, in the order of the sets."""
        return {t: self._by_cell(t, x) for sets in self._weighed[1] for t, x in sets.items()}

    @cached_property
    def _claimed(self) -> Fraction | None:
        """The claimed price of one record, or None unless it is proven."""
        if self.claim is None or not self.joint or not self.claim.proves(self.costs_by_set(), self.sizes):
            return None
        return Fraction(self.claim.bound, self._weighed[0])

    def check_claim(self, adjacency: Adjacency) -> None:
        """Raise PlanError unless the claim is proven; a claim on one record holds for every adjacency."""
        del adjacency
        if self.claim is not None and self._claimed is None:
            raise unproven_price()

    def _costliest_cell(self) -> Fraction:
        """Return the largest Σ_T f_T of all joint cells."""
        costs = self.costs_by_set()
        axes = tuple(sorted({a for t, x in costs.items() for a in varying(t, x)}))
        # Sums stay below 2⁶²: no 64-bit integer wraps around.
        shift = max(0, sum(int(x.max()) for x in costs.values()).bit_length() - 61)
        rounded = cluster_costs(costs, axes, self.sizes, shift)
        # Each of the costs was rounded up by less than 1, so a cell further below the maximum cannot be costliest.
        best = dict(zip(axes, np.nonzero(np.atleast_1d(rounded > rounded.max() - len(costs))), strict=False))
        # The costliest of these cells is found with the exact costs.
        cells = [x[tuple(best[a] if n > 1 else 0 for a, n in zip(t, x.shape, strict=True))] for t, x in costs.items()]
        return Fraction(int(np.max(sum(cells))), self._weighed[0])

    def profile(self) -> tuple[Fraction, ...]:
        """Return one number, the squared cost of the costliest joint cell."""
        return (self.max_record_cost,)

    def cost_squared(self, neighbours: Neighbours) -> Fraction:
        """Return Δ² for neighbours that differ in one record: exact, or the bound in the head of this module."""
        if neighbours is Neighbours.ADD_OR_REMOVE_ONE:
            return self.max_record_cost
        # ‖x − y‖² ≤ 2 ‖x‖² + 2 ‖y‖² holds for all scales; the closer bound needs one scale for each set.
        return 4 * self.max_record_cost if self.joint else self._replaced

    @cached_property
    def _replaced(self) -> Fraction:
        """The bound in the head of this module, by sets D.

        Up to MAX_CHOICES, D runs over sets of attributes, else over numbers of attributes of each factor. If these
        are more than MAX_CHOICES as well, the result is the sum of every set's own maximum. It never exceeds that sum.
        """
        unit, groups = self._weighed
        weights = {axes: int(x.item()) for sets in groups for axes, x in sets.items()}
        nearest = [f.nearest(n) for f, n in zip(self.factors, self.sizes, strict=True)]
        used = sorted({a for axes in weights for a in axes})
        by_factor: dict[tuple[int, bytes], list[int]] = {}
        for a in used:
            rows = self.factors[a].rows
            # The size is the number of columns, so equal bytes are equal matrices.
            by_factor.setdefault((self.sizes[a], b"" if rows is None else rows.tobytes()), []).append(a)
        worst = self._sum_of_maxima(weights, nearest)
        for kinds in ([[a] for a in used], list(by_factor.values())):
            if math.prod(len(kind) + 1 for kind in kinds) <= MAX_CHOICES:
                worst = min(worst, self._among(weights, nearest, kinds))
                break
        return Fraction(2 * worst, unit)

    def _sum_of_maxima(self, weights: Mapping[tuple[int, ...], int], nearest: Sequence[int]) -> int:
        """Return half of the sum of every set's own maximum over D."""
        total = 0
        for axes, x in weights.items():
            low = high = 1
            for a in axes:
                # The distance is affine in every x_a, so it is largest where each x_a is at one of its ends.
                ends = [y * z for y in (low, high) for z in (self._max_column_norms[a], nearest[a])]
                low, high = min(ends), max(ends)
            total += x * (math.prod(self._max_column_norms[a] for a in axes) - low)
        return total

    def _among(
        self, weights: Mapping[tuple[int, ...], int], nearest: Sequence[int], kinds: Sequence[Sequence[int]]
    ) -> int:
        """Return half of the maximum over D, where D is known only by its number of attributes of each kind."""
        kind = {a: k for k, axes in enumerate(kinds) for a in axes}
        types: dict[tuple[tuple[int, int], ...], int] = {}
        for axes, x in weights.items():
            key = tuple(sorted(Counter(kind[a] for a in axes).items()))
            # Attributes with one factor are exchanged: each of the sets that become identical is charged as the
            # costliest.
            types[key] = max(x, types.get(key, 0))

        def product(k: int, differ: int, count: int) -> int:
            """Return the sum of Π κ Π G over all choices of `count` attributes of a kind with `differ` in D."""
            n, a = len(kinds[k]), kinds[k][0]
            return sum(
                math.comb(differ, j)
                * math.comb(n - differ, count - j)
                * nearest[a] ** j
                * self._max_column_norms[a] ** (count - j)
                for j in range(count + 1)
            )

        tables = [
            [[product(k, d, t) for t in range(len(axes) + 1)] for d in range(len(axes) + 1)]
            for k, axes in enumerate(kinds)
        ]
        choices = itertools.product(*(range(len(axes) + 1) for axes in kinds))
        sums = [sum(x * math.prod(tables[k][d[k]][t] for k, t in key) for key, x in types.items()) for d in choices]
        return sums[0] - min(sums)

    # --- as a design ------------------------------------------------------------------------------------

    def scaled_by(self, parts: int) -> ProductStrategy:
        """Return the strategy with `parts` times the noise, and no claim: squared distances are convex (`sectors`)."""
        # The unit of a claim depends on the scales.
        return replace(self, groups=tuple(replace(g, scales=g.scales * parts) for g in self.groups), claim=None)

    def margins(self) -> set[Margin]:
        """Return the sets of attributes that are measured."""
        return {m for g in self.groups for m in attribute_names(self.structure, g.attributes, ())}

    def exact_answers(self, counts: Counts, adjacency: Adjacency, records: int) -> Answers:
        """Return, by group, m_T (⊗_{a∈T} H_a) applied to the counts of T along one axis after the other."""
        del adjacency  # The integers do not depend on the protected unit.
        return tuple(self._transformed(g, counts, records) for g in self.groups)

    def magnitude(self, records: int) -> int:
        """Return a bound on all exact answers, for at most `records` records."""
        return records * max(map(self._max_entry, self.groups), default=1)

    def _max_entry(self, group: ProductGroup) -> int:
        """Return a bound on the entries of a group's queries."""
        largest = [f.largest(n) for f, n in zip(self.factors, self.sizes, strict=True)]
        sets = zip(group.multiples.tolist(), group.attributes.tolist(), strict=True)
        return max((m * math.prod(largest[a] for a in axes) for m, axes in sets), default=1)

    def _transformed(self, group: ProductGroup, counts: Counts, records: int) -> Exact:
        """Return exact integers, modulo 2⁶⁴ where the factors and the public bound on records allow int64."""
        wide = records * self._max_entry(group) >= INT64_SAFE_BOUND
        dtype: np.dtype[Any] = np.dtype(object) if wide else np.dtype(np.int64)
        sets = zip(group.multiples.tolist(), group.attributes.tolist(), strict=True)
        # A group without sets has no answers, and NumPy does not concatenate an empty list.
        out: list[Exact] = [np.zeros(0, dtype=dtype)]
        for (m, axes), margin in zip(sets, attribute_names(self.structure, group.attributes, ()), strict=True):
            values = np.asarray(counts[margin]).astype(dtype).reshape([self.sizes[a] for a in axes])
            for axis, a in enumerate(axes):
                values = self.factors[a].apply(values, axis)
            out.append(m * values.ravel())
        return np.concatenate(out)

    def ledger_rows(self) -> list[tuple[int, list[int]]]:
        """Return the number of sets of each group, with the positions of their attributes."""
        return [(len(g), np.unique(g.attributes).tolist()) for g in self.groups]
