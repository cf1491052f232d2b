"""A workload as a direct sum of sectors: one exact representation from a dense matrix to huge domains.

An attribute is *exchangeable* if every table shows it value by value or not at all, with targets that do not depend on
its value. Otherwise it is *structured*. O is the product of the structured attributes (n_o cells). For every
combination of its exchangeable attributes, table A publishes the queries R_A (m_A × n_o) on O. Its matrix is (⊗_{a∈A} I
⊗_{a∉A} 1ᵀ) ⊗ R_A. The sectors are the subsets S of the tables' exchangeable attributes. Only B_S matters within S: an
integer basis of the rows that reach S, with R_A = L_{A,S} B_S. A dense matrix is the case of one sector. See
docs/mathematics/notation.md.

**Public totals.** The numbers x_F of records by attributes F can be public. E adds up the structured cells of each cell
of F. In the sectors of exchangeable attributes of F, R_A = L_{A,S} B_S + M E, and M x_F follows from the totals. A
sector without B_S is left out. Let P subtract from each row its mean over every cell of F. It takes E to 0, so R_A P =
L_{A,S} B_S P.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Array, Exact, Floats, Indices, equal_rows, physical_memory
from fitnoise.kernel.designs._base import CellStructure, Pieces, PublicCells
from fitnoise.kernel.designs.query_blocks import INT64_SAFE_LIMIT, largest_entry
from fitnoise.request.domain import Domain
from fitnoise.request.joint_axes import attributes_along, cells_along, joint_axis
from fitnoise.request.known_totals import KnownTotals
from fitnoise.request.workloads import (
    Family,
    Table,
    Workload,
    attributes_by_level,
    exchangeable_attributes,
    used_attributes,
)

MAX_STRUCTURED_CELLS = 20_000
"""The largest number of joint cells of the structured attributes. They are dense: a step takes k × n_o arrays and k × k
decompositions."""

MAX_MARGINS = 2**26
"""The largest number of pairs of a table and one of its margins that are planned together: about 100 bytes each."""

MAX_ROWS_PER_CELL = 4
"""The number of rows per structured cell, of at least 64, above which a table without amounts is kept by structure. Its
matrix would be larger than all that planning needs."""

MAX_MULTIPLE = 2**20
"""The bound of integers for rows of real numbers: a row of smaller multiples of its least entry is stored as integers.
"""

CENTRE_BITS = 22
"""The largest number of bits of the weights of a centre of columns. Their rounding costs about 2⁻²² of Δ²."""

_BASIS_BITS = 26
"""The number of bits of the entries of an integer basis. Strategy rows (another 20–40 bits) then stay exact and small.
"""


@final
@dataclass(frozen=True, eq=False)
class TablePlacement:
    """The position of a table: its exchangeable axes, and its queries on the structured cells.

    axes: Positions among the exchangeable attributes, in the table's own order; several for a level of a hierarchy.
    queries: R_A, (m_A, n_o): a matrix, or an operator if a matrix would be needlessly tall.
    variances: c_A, shape (m_A,).
    rows: The slice of the table's rows among the concatenated rows of all tables.
    inner_shape: The rows' shape along the structured attributes the table shows, in domain order.
    transpose: The axis order that turns (axes…, inner…) into the order of the table's columns.
    spans: The number of axes of each column; these axes are consecutive.
    """

    axes: tuple[int, ...]
    queries: Array | op.Operator
    variances: Floats
    rows: slice
    inner_shape: tuple[int, ...]
    transpose: tuple[int, ...]
    spans: tuple[int, ...]


@final
@dataclass(frozen=True, eq=False)
class TableGroup:
    """T tables that differ only in their exchangeable attributes and their targets, as arrays.

    tables: The numbers of the tables, (T,), increasing.
    axes: Positions among the exchangeable attributes, (T, a).
    queries, inner_shape, transpose, spans: See :class:`TablePlacement`.
    variances: The target variances, (T, m).
    starts: The place of each table's first row among the rows of all tables, (T,).
    cells: n_A, (T,): the number of joint values of each table's exchangeable attributes; by axis, that of its numbers.
    row_shift: The largest entry of each row of the queries less the requested row, (m,). It exists for a rank-deficient
        matrix of real numbers, whose basis is rounded to integers. None means that the queries are the requested ones.
    views: In a workload by axis, the queries along each axis of the tables, None for value by value; otherwise empty.
    moments: With amounts, the queries over the moments of their knots, in whole numbers (`_moments`).
    """

    tables: Indices
    axes: Indices
    queries: Array | op.Operator
    variances: Floats
    starts: Indices
    cells: Floats
    inner_shape: tuple[int, ...]
    transpose: tuple[int, ...]
    spans: tuple[int, ...]
    row_shift: Floats | None = None
    views: tuple[op.Operator | None, ...] = ()
    moments: Exact | None = None

    @cached_property
    def numbers(self) -> Indices:
        """The place of every row among those of all tables, (T, m)."""
        return np.asarray(self.starts[:, None] + np.arange(self.variances.shape[1]))

    def layout(self, i: int) -> TablePlacement:
        """Return the i-th of these tables on its own."""
        start, m = int(self.starts[i]), self.variances.shape[1]
        return TablePlacement(
            axes=tuple(self.axes[i].tolist()),
            queries=self.queries,
            variances=self.variances[i],
            rows=slice(start, start + m),
            inner_shape=self.inner_shape,
            transpose=self.transpose,
            spans=self.spans,
        )

    def columns(self, tables: Floats) -> Floats:
        """Return tables of one shape, (T, axes…, inner…), in the shape of their columns."""
        ordered = tables.transpose([0, *(1 + a for a in self.transpose)])
        cuts = np.cumsum([1, *self.spans])
        shape = (math.prod(ordered.shape[a:b]) for a, b in itertools.pairwise(cuts))
        return ordered.reshape(len(tables), *shape)

    def answers(self, x: Floats) -> Floats:
        """Apply R along the last axis of `x`: (…, n_o) → (…, m)."""
        return _applied(self.queries, x)

    def split_axes(self, columns: Floats, sizes: Sequence[int]) -> Floats:
        """Return a table in the shape of its columns as (axes…, rows), for axes of these sizes."""
        shape = np.array([*sizes, *self.inner_shape])[list(self.transpose)]
        return columns.reshape(shape).transpose(np.argsort(self.transpose)).reshape(*sizes, -1)


def _applied(a: Array | op.Operator, x: Floats) -> Floats:
    """Apply a matrix or an operator along the last axis: (…, n) → (…, m)."""
    if isinstance(a, np.ndarray):
        return np.asarray(x @ a.T)
    return np.asarray(np.moveaxis(a.mv(np.moveaxis(x, -1, 0)), 0, -1))


@final
@dataclass(frozen=True, eq=False)
class Members:
    """The tables of one group that reach the sectors of one group.

    tables: The number of the group of tables.
    lift: L, (m, k), or the tables' own operator if the basis is the identity.
    incidence: (K, T), with 1 if table A ⊇ S.
    """

    tables: int
    lift: Floats | op.Operator
    incidence: sp.csr_array

    @cached_property
    def by_table(self) -> sp.csr_array:
        """The incidence by table, (T, K)."""
        return sp.csr_array(self.incidence.T)

    def answers(self, x: Floats) -> Floats:
        """Apply L along the last axis of `x`: (…, k) → (…, m)."""
        return _applied(self.lift, x)

    def adjoint(self, y: Floats) -> Floats:
        """Apply the adjoint Lᵀ along the last axis of `y`: (…, m) → (…, k)."""
        if isinstance(self.lift, np.ndarray):
            return np.asarray(y @ self.lift)
        return np.asarray(np.moveaxis(self.lift.rmv(np.moveaxis(y, -1, 0)), 0, -1))


@final
@dataclass(frozen=True, eq=False)
class SectorGroup:
    """K sectors of equally many attributes that the same queries reach, as arrays, with one basis for all.

    attributes: Positions among the exchangeable attributes, (K, s), increasing along each row; rows in lexicographic
        order.
    sizes: n_a of each attribute, (K, s).
    basis: B, integers, (k, n_o), of full row rank.
    members: The tables that reach the sectors, by group of tables.
    """

    attributes: Indices
    sizes: NDArray[np.int64]
    basis: NDArray[np.int64]
    members: tuple[Members, ...]

    def __len__(self) -> int:
        return len(self.attributes)

    @property
    def is_identity(self) -> bool:
        """True if B is the identity: every structured cell on its own."""
        return is_identity(self.basis)

    @cached_property
    def multiplicity(self) -> Floats:
        """Π (n_a − 1) of each, (K,)."""
        return np.asarray((self.sizes - 1.0).prod(axis=1))

    @cached_property
    def volume(self) -> Floats:
        """Π n_a of each, (K,)."""
        return np.asarray(self.sizes.astype(np.float64).prod(axis=1))


@final
@dataclass(frozen=True, eq=False)
class TableBlock:
    """A part of a table that a decomposition by classes treats as a table (:mod:`fitnoise.solving.class_sectors`).

    table: The number of the table.
    columns: For each of its columns, the positions that the block shows.
    """

    table: int
    columns: tuple[Indices, ...]


@final
@dataclass(frozen=True, eq=False)
class Decomposition:
    """A workload in sectors.

    exchangeable, sizes: Names and sizes n_a of the exchangeable attributes that some table shows.
    structured, shape: Names and sizes of the structured attributes, in domain order; n_o = Π shape.
    tables: The tables, by group.
    groups: The sectors, by group; sectors of fewer attributes come first.
    query_shift: The largest distance of an answered query from the requested one, per record, measured in double
        precision. It is 0 if distinct cells span the queries. It is rounding (about 1e-15) if other integers span them.
        It is about 2⁻²⁶ of the largest entry if a rank-deficient matrix of real numbers has a basis rounded to
        integers.
    steps: For the structured attributes that are amounts, the number of steps from each knot to the next.
    blocks: By classes, the blocks of the tables: `tables` then numbers the blocks. Otherwise empty.
    public: The cells with public totals; None if no total is public.
    """

    exchangeable: tuple[str, ...]
    sizes: tuple[int, ...]
    structured: tuple[str, ...]
    shape: tuple[int, ...]
    tables: tuple[TableGroup, ...]
    groups: tuple[SectorGroup, ...]
    query_shift: float
    steps: Pieces = ()
    blocks: tuple[TableBlock, ...] = ()
    public: PublicCells | None = None

    @property
    def cell_structure(self) -> CellStructure:
        """The attributes, as a design names them."""
        exchangeable = tuple(zip(self.exchangeable, self.sizes, strict=True))
        structured = tuple(zip(self.structured, self.shape, strict=True))
        return CellStructure(exchangeable, structured, self.steps, self.public)

    def public_places(self, group: SectorGroup) -> Indices | None:
        """Return the cell of F of each structured cell, for sectors of attributes of F; None for other sectors."""
        if self.public is None or not set(group.attributes[0].tolist()) <= set(self.public.exchangeable):
            return None
        return np.array(self.public.places, dtype=np.intp)

    @property
    def has_centres(self) -> bool:
        """True if columns are centred in some sectors."""
        return any(self.public_places(g) is not None for g in self.groups)

    @property
    def cells(self) -> int:
        """n_o, the joint cells of the structured attributes."""
        return math.prod(self.shape)

    @cached_property
    def rows(self) -> int:
        """M, the rows of all tables."""
        return sum(g.variances.size for g in self.tables)

    @cached_property
    def variances(self) -> Floats:
        """Targets of all tables' rows, shape (M,)."""
        out = np.empty(self.rows)
        for g in self.tables:
            out[g.numbers] = g.variances
        return out

    @cached_property
    def numbers_per_row(self) -> Floats:
        """The number of published numbers that each row stands for: n_A of its table, (M,)."""
        out = np.empty(self.rows)
        for g in self.tables:
            out[g.numbers] = g.cells[:, None]
        return out

    @cached_property
    def _places(self) -> tuple[Indices, Indices]:
        """The group of every table, and its place there."""
        total = sum(len(g.tables) for g in self.tables)
        group, position = np.empty(total, dtype=np.intp), np.empty(total, dtype=np.intp)
        for i, g in enumerate(self.tables):
            group[g.tables], position[g.tables] = i, np.arange(len(g.tables))
        return group, position

    def group_of(self, t: int) -> tuple[TableGroup, int]:
        """Return the group of table t, and its place there."""
        group, position = self._places
        return self.tables[group[t]], int(position[t])

    def blocks_of(self, t: int) -> list[tuple[int, TableBlock]]:
        """Return the blocks of table t, each with its number; without classes there are none."""
        return [(i, block) for i, block in enumerate(self.blocks) if block.table == t]

    def parts_of(self, t: int) -> list[tuple[int, Any]]:
        """Return the parts of table t: for each a number, by which `group_of` finds it, and its index in the table."""
        return [(i, np.ix_(*block.columns)) for i, block in self.blocks_of(t)] if self.blocks else [(t, ...)]

    def table_numbers(self, group: TableGroup) -> Indices:
        """Return the number of the table of each table or block of a group."""
        return np.array([self.blocks[i].table for i in group.tables]) if self.blocks else group.tables

    def layout(self, t: int) -> TablePlacement:
        """Return the position of table t."""
        group, i = self.group_of(t)
        return group.layout(i)


def decompose(
    workload: Workload,
    bases: Sequence[NDArray[np.int64]] | None = None,
    *,
    separate: Iterable[str] = (),
    by_level: bool = False,
    public: KnownTotals | None = None,
) -> Decomposition:
    """Put a workload in sectors.

    Args:
        workload: The tables.
        separate: Attributes whose values are not interchangeable for another reason, such as budgets of their own. They
            do not count with `by_level`.
        bases: One integer basis for each group of sectors, as stored in a plan; None lets the function choose them.
        by_level: True to treat each level of `levels_of_one_tree` as an attribute. Sectors of different levels then
            contain the same records. They are estimated and bounded together (:mod:`fitnoise.solving.trees`).
        public: The public totals, by attributes F; None if no total is public.

    Raises:
        WorkloadError: The structured attributes have too many joint cells for dense arrays or for the memory. Or the
            tables have too many margins, or the amounts too many steps. Or the bases are too few or too many. Or the
            queries are not combinations of the bases, or nearly dependent. Or all tables follow from public totals.

    **Guarantees**
        * The identity R_A = L_{A,S} B_S holds for every table and every sector it reaches, to 1e-7 of each row's
          largest entry. In sectors of attributes of F it is R_A P = L_{A,S} B_S P.
        * Every basis that the function chooses is integer and of full row rank.
        * The rows of different sectors, as released, are orthogonal, except for sectors `by_level`.

    Time and memory grow with the number of pairs of a table and one of its margins, not with the cells of the domain.
    """
    free, bound = attributes_by_level(workload) if by_level else exchangeable_attributes(workload, separate)
    width = workload.domain.sizes
    shape = tuple(width[a] for a in bound)
    if math.prod(shape) > MAX_STRUCTURED_CELLS:
        raise WorkloadError(
            "too-many-structured-cells",
            f"The attributes {bound} have ranges, groups, targets by value or a matrix, and "
            f"{math.prod(shape):,} joint cells.",
            f"An exact plan takes at most {MAX_STRUCTURED_CELLS:,} such cells.",
            f"Coarsen one of them, or show it by value with one target. {ways_out(workload.domain, bound)}".rstrip(),
            "Nothing was planned.",
        )
    tables = _TableGrouper(workload, free, bound).groups()
    sizes = np.array([width[a] for a in free], dtype=np.int64)
    joint = f"planning {math.prod(shape):,} joint cells of {bound}"
    cells = None if public is None else cells_of_totals(workload.domain, free, bound, public)
    # No group of tables has public totals, so the advice to plan one separately does not apply.
    fraction = 1.0 if cells else _max_cells_of_a_table(workload, bound) / math.prod(shape)
    afford(_min_memory(tables, cells), joint, fraction)
    steps = tuple((a, workload.domain.steps[a]) for a in bound if a in workload.domain.steps)
    knots = _Knots(shape, tuple(dict(steps).get(a, ()) for a in bound))
    groups, shift = sectors_of_tables(tables, sizes, bases, knots, cells)
    has_matrix = any(isinstance(x, Table) and x.matrix is not None for x in workload.tables.parts)
    real = (isinstance(x.queries, np.ndarray) and x.queries.dtype.kind == "f" and x.moments is None for x in tables)
    if shift > 0 and has_matrix and any(real):
        (group,) = groups  # a matrix makes everything structured. Its queries are L B exactly from here on
        for m in group.members:
            if isinstance(m.lift, np.ndarray):
                queries = m.lift @ group.basis
                if cells is not None:
                    places = np.array(cells.places, dtype=np.intp)
                    queries += cell_means(_matrix(tables[m.tables].queries) - queries, places)[:, places]
                row_shift = np.abs(queries - _matrix(tables[m.tables].queries)).max(axis=1)
                tables[m.tables] = replace(tables[m.tables], queries=queries, row_shift=row_shift)
    return Decomposition(
        tuple(free),
        tuple(sizes.tolist()),
        tuple(bound),
        shape,
        tables=tuple(tables),
        groups=tuple(groups),
        query_shift=shift,
        steps=steps,
        public=cells,
    )


def cells_of_totals(domain: Domain, free: Sequence[str], bound: Sequence[str], public: KnownTotals) -> PublicCells:
    """Return the cells with public totals, with their origin; the arguments are those of `public_cells`."""
    cells = public_cells(domain, free, bound, public.attributes)
    return replace(cells, is_counted_here=public.is_counted_here)


def public_cells(domain: Domain, free: Sequence[str], bound: Sequence[str], public: Iterable[str]) -> PublicCells:
    """Return the cells with public totals.

    Args:
        domain: The domain.
        free: The exchangeable attributes.
        bound: The structured attributes.
        public: The attributes of the totals. Of those that are structured, joint cells are numbered in C order.
    """
    shape = tuple(domain.sizes[axis] for axis in bound)
    n = math.prod(shape)
    places, indices = np.zeros(n, dtype=np.intp), np.indices(shape).reshape(len(shape), n)
    axes = {home: i for i, axis in enumerate(bound) for home in attributes_along(domain, axis)}
    for a in (a for a in public if a not in free):
        one = joint_axis(domain, bound[axes[a]])
        position = indices[axes[a]] if one is None else cells_along(domain, one, a)[indices[axes[a]]]
        places = places * domain.sizes[a] + position
    return PublicCells(tuple(i for i, a in enumerate(free) if a in set(public)), tuple(places.tolist()))


def cell_means(rows: Array, places: Indices) -> Floats:
    """Return the mean of each row over each cell of F, (m, cells of F); 0 for a cell of F without structured cells.

    Args:
        rows: Rows over the structured cells, (m, n_o).
        places: The cell of F of each structured cell.
    """
    count = np.bincount(places)
    sums = np.array([np.bincount(places, row, minlength=len(count)) for row in rows]).reshape(-1, len(count))
    return np.asarray(sums / np.maximum(count, 1))


def without_totals(rows: Array, places: Indices) -> Floats:
    """Return the rows less their means over every cell of F; exactly 0 for those that are combinations of E."""
    out = rows - cell_means(rows, places)[:, places]
    out[np.abs(out).max(axis=1) <= 1e-12 * np.abs(rows).max(axis=1)] = 0
    return np.asarray(out)


def centred_bases(d: Decomposition, p: Floats) -> tuple[list[NDArray[np.int64]], list[Floats]]:
    """Return integer bases with columns centred in every cell of F, and the multiples that they hold of the old rows.

    A centred row is a multiple of the old one less its weighted mean over each cell of F. The integer weights of each
    cell of F add up to the multiple. So every combination of centred rows has the weighted mean 0 there.

    Args:
        d: The tables in sectors.
        p: The weights of the structured cells.
    """
    bases, multiples = [], []
    for g in d.groups:
        places, basis, factor = d.public_places(g), g.basis, np.ones(len(g.basis))
        if places is not None:
            bits = min(CENTRE_BITS, max(0, 59 - int(np.abs(basis).max()).bit_length()))
            weights = _shared_out(p, places, 1 << bits)
            sums = np.zeros((len(basis), int(places.max()) + 1), dtype=np.int64)
            np.add.at(sums.T, places, (basis * weights).T)
            centred = (basis << bits) - sums[:, places]
            common = np.gcd(np.gcd.reduce(centred, axis=1), 1 << bits)
            basis, factor = centred // common[:, None], (1 << bits) / common
        bases.append(basis)
        multiples.append(factor)
    return bases, multiples


def _shared_out(p: Floats, places: Indices, total: int) -> NDArray[np.int64]:
    """Return integers that are near multiples of the weights p, and add up to `total` in every cell of F."""
    sums = np.bincount(places, p)[places]
    shares = np.where(sums > 0, p / np.where(sums > 0, sums, 1), 1 / np.bincount(places)[places]) * total
    out = np.floor(shares).astype(np.int64)
    missing = np.where(np.bincount(places) > 0, total - np.bincount(places, out).astype(np.int64), 0)
    # The cells of F one after the other, each from its largest remainder on.
    order = np.lexsort((out - shares, places))
    count = np.bincount(places)
    position = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    out[order[position < missing[places[order]]]] += 1
    return np.asarray(out)


def decompose_by_axis(workload: Workload) -> Decomposition:
    """Put a workload in sectors with every attribute as an axis of its own, for any queries along it.

    All numbers of a table are one row, with the target of the tightest. A structured attribute that every table shows
    is never summed over, so sectors without it are left out. Rows of different sectors are orthogonal only as far as a
    design makes them orthogonal (:mod:`fitnoise.solving.product_form`).

    Raises:
        WorkloadError: The tables have too many margins.
    """
    free, bound = exchangeable_attributes(workload)
    domain, names = workload.domain, [*free, *bound]
    sizes = np.array([domain.sizes[a] for a in names], dtype=np.int64)
    axes_of = axes_by_attribute(workload, free)
    bound_axis = {home: len(free) + i for i, a in enumerate(bound) for home in attributes_along(domain, a)}
    forms: dict[tuple[tuple[op.Operator | None, ...], tuple[int, ...]], list[tuple[int, list[int], float, float]]] = {}
    for number, t in enumerate(workload.tables):
        axes: list[int] = []
        views: list[op.Operator | None] = []
        for a in t.attributes:
            own_axes = axes_of[a] or [bound_axis[domain.attribute_of(a)]]
            query = None if axes_of[a] else t.query_matrix(domain, names[own_axes[0]], (a,))
            axes += own_axes
            views += [None if isinstance(query, op.Identity) else query] * len(own_axes)
        rows = [sizes[i] if view is None else view.shape[0] for i, view in zip(axes, views, strict=True)]
        spans = tuple(len(axes_of[a] or (0,)) for a in t.attributes)
        targets = t.variances(domain, workload.confidence)
        # Along an axis of stride 0 all targets are one, and the first stands for them: a large table has too many to
        # visit.
        target = float(targets[tuple(slice(None) if stride else 0 for stride in targets.strides)].min())
        forms.setdefault((tuple(views), spans), []).append((number, axes, target, math.prod(map(float, rows))))
    one = np.ones((1, 1), dtype=np.int64)
    tables = []
    for (asks, spans), equal_tables in forms.items():
        numbers, rows_of, variances, cells = zip(*equal_tables, strict=True)
        tables.append(
            TableGroup(
                tables=np.array(numbers, dtype=np.intp),
                axes=np.array(rows_of, dtype=np.intp).reshape(len(equal_tables), -1),
                queries=one,
                variances=np.array(variances)[:, None],
                starts=np.array(numbers, dtype=np.intp),
                cells=np.array(cells),
                inner_shape=(),
                transpose=tuple(range(len(asks))),
                spans=spans,
                views=asks,
            )
        )
    tables.sort(key=lambda g: int(g.tables[0]))
    groups, _ = sectors_of_tables(tables, sizes, None)
    shown_axes = [set(row) for g in tables for row in g.axes.tolist()]
    always = {i for i in range(len(free), len(names)) if sizes[i] > 1 and all(i in x for x in shown_axes)}
    nonempty = [x for x in (_showing(g, always) for g in groups) if len(x)]
    return Decomposition(tuple(names), tuple(sizes.tolist()), (), (), tuple(tables), tuple(nonempty), 0.0)


def _showing(group: SectorGroup, always: set[int]) -> SectorGroup:
    """Return the sectors of a group that show all of some attributes."""
    here = np.array([always <= set(row) for row in group.attributes.tolist()])
    members = tuple(replace(m, incidence=sp.csr_array(m.incidence[np.flatnonzero(here)])) for m in group.members)
    return replace(group, attributes=group.attributes[here], sizes=group.sizes[here], members=members)


def ways_out(domain: Domain, bound: Sequence[str]) -> str:
    """Return advice for structured amounts, or for levels with different numbers of places; "" without either."""
    amounts = [a for a in bound if a in domain.steps]
    if amounts:
        return (
            f"Each of the amounts {amounts} has at least 2 joint cells in any table, and no table shows it "
            "value by value. Show fewer of them, or give some a group of tables of their own (further_tables = …). "
        )
    for home in (home for a in bound for home in attributes_along(domain, a)):
        if domain[home].tree is not None:
            return (
                f"Levels of {home!r} with different numbers of places have no such limit where all attributes are "
                "shown value by value and nothing else is structured. Show the others by groups as values, or give "
                "each level a group of tables of its own (further_tables = …). "
            )
    return ""


def _max_cells_of_a_table(workload: Workload, bound: Sequence[str]) -> int:
    """Return the largest number of joint cells of some attributes that one table shows; all for a pattern of tables."""
    by_table = (x.attributes if isinstance(x, Table) else bound for x in workload.tables.parts)
    return max(math.prod(workload.domain.sizes[a] for a in bound if a in names) for names in by_table)


def afford(needed: float, what: str, fraction: float = 1.0) -> None:
    """Raise WorkloadError if arrays of this many bytes cannot fit.

    Args:
        needed: The bytes.
        what: The subject of the sentence.
        fraction: The largest fraction of the joint cells that one table has; memory grows with its square.
    """
    there = physical_memory()
    if needed > there:
        groups = "Give some tables a group of their own, which is planned separately (further_tables = …). "
        advice = groups if needed * fraction**2 <= there else ""
        raise WorkloadError(
            "too-little-memory",
            f"This machine has {there / 2**30:,.1f} GiB of memory, and {what} needs at least "
            f"{needed / 2**30:,.1f} GiB.",
            "",
            f"{advice}Coarsen an attribute that has ranges, groups or targets by value, let fewer tables share "
            "such attributes, or plan on a larger machine.",
            "Nothing was planned.",
        )


def _min_along(variances: Floats, axes: Sequence[int]) -> Floats:
    """Return the least value along some axes, where values differ only for levels that are planned by tree."""
    # Targets are broadcast: an axis of stride 0 repeats one value.
    varying = tuple(i for i in axes if variances.strides[i])
    minima = variances.min(axis=varying, keepdims=True) if varying else variances
    return minima[tuple(0 if i in axes else slice(None) for i in range(minima.ndim))]


def _min_memory(tables: Sequence[TableGroup], public: PublicCells | None) -> float:
    """Return the bytes that an evaluation of the largest sector takes: its matrices, decompositions and images.

    Centring rows on the cells of public totals needs them all, unless each cell of F is one structured cell.
    """
    is_centred = public is not None and len(set(public.places)) < len(public.places)
    matrices = [x.queries for x in tables if is_centred or isinstance(x.queries, np.ndarray)]
    n = tables[0].queries.shape[1]
    rows = sum(x.shape[0] for x in {id(q): q for q in matrices}.values())
    is_single = len(tables) == 1 and len(tables[0].tables) == 1
    k = min(n, tables[0].queries.shape[0]) if is_single else n
    return float(8 * (14 * k * k + 3 * k * n + 3 * k * rows))


class _TableGrouper:
    """The tables of a workload, sorted into groups."""

    def __init__(self, workload: Workload, free: Sequence[str], bound: Sequence[str]) -> None:
        self.workload, self.free, self.bound = workload, free, bound
        self.sizes = np.array([workload.domain.sizes[a] for a in free], dtype=np.float64)
        self.axes = axes_by_attribute(workload, free)
        self.axis = {home: a for a in bound for home in attributes_along(workload.domain, a)}
        self.queries: dict[op.Operator, Array | op.Operator] = {}
        self.moments: dict[int, Exact] = {}
        self.steps = [workload.domain.steps.get(a, ()) for a in bound]
        self.pieces: dict[tuple[Any, ...], list[tuple[Indices, Indices, Floats, tuple[Any, ...]]]] = {}
        self.rows = np.empty(len(workload.tables), dtype=np.intp)

    def groups(self) -> list[TableGroup]:
        """Return the groups, in the order of their first tables."""
        for start, part in zip(self.workload.tables.starts.tolist(), self.workload.tables.parts, strict=False):
            if isinstance(part, Family):
                self._family(part, start)
            else:
                self._table(part, start)
        starts = np.cumsum(self.rows) - self.rows
        out = []
        for pieces in self.pieces.values():
            tables, axes, variances = (np.concatenate(x) for x in list(zip(*pieces, strict=True))[:3])
            queries, inner, transpose, spans = pieces[0][3]
            cells = self.sizes[axes].prod(axis=1)
            out.append(
                TableGroup(
                    tables=tables,
                    axes=axes,
                    queries=queries,
                    variances=variances,
                    starts=starts[tables],
                    cells=cells,
                    inner_shape=inner,
                    transpose=transpose,
                    spans=spans,
                    moments=self.moments.get(id(queries)),
                )
            )
        return sorted(out, key=lambda g: int(g.tables[0]))

    def _table(self, t: Table, number: int) -> None:
        domain = self.workload.domain
        targets = t.variances(domain, self.workload.confidence)
        numbers = np.array([number])
        if t.matrix is not None:
            m = t.matrix.shape[0]
            self._add(numbers, np.zeros((1, 0), np.intp), targets.reshape(1, m), t.matrix.matrix, (m,), ((0,), (1,)))
            return
        outer, inner = self._split_attributes(t.attributes)
        ordered = targets.transpose([t.attributes.index(a) for a in (*outer, *inner)])
        rows = _min_along(ordered, range(len(outer)))
        axes = np.array([[i for a in outer for i in self.axes[a]]], dtype=np.intp).reshape(1, -1)
        order = self._order(t.attributes, outer, inner)
        self._add(numbers, axes, rows.reshape(1, -1), self._structured_queries(t, inner), rows.shape, order)

    def _split_attributes(self, attributes: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the attributes shown along exchangeable axes, in order; and the others, in domain order."""
        inner = {self.workload.domain.attribute_of(a): a for a in attributes if not self.axes.get(a)}
        return [a for a in attributes if self.axes.get(a)], [inner[home] for home in self.axis if home in inner]

    def _order(
        self, attributes: Sequence[str], outer: Sequence[str], inner: Sequence[str]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the order of axes that sorts them by a table's attributes, and the number of axes of each of these."""
        spans = {a: len(self.axes.get(a) or (0,)) for a in attributes}
        now = [(a, i) for a in (*outer, *inner) for i in range(spans[a])]
        transpose = tuple(now.index((a, i)) for a in attributes for i in range(spans[a]))
        return transpose, tuple(spans[a] for a in attributes)

    def _family(self, family: Family, start: int) -> None:
        """Split a family by the structured attributes and levels that its tables show.

        The tables of each part differ only in exchangeable attributes.
        """
        domain, template = self.workload.domain, family.template
        targets = family.variances(domain, self.workload.confidence)
        position = np.array(
            [*(self.axes[a][0] if len(self.axes[a]) == 1 else -1 for a in family.pattern_attributes)], dtype=np.intp
        )
        position = position[family.combinations]
        pattern = np.where(position < 0, family.combinations, -1)
        for codes, here in equal_rows(pattern):
            # Names that start with a null stand for exchangeable attributes, which differ from table to table.
            unlike = {family.pattern_attributes[a] for a in codes if a >= 0}
            names = [f"\0{i}" if a < 0 else family.pattern_attributes[a] for i, a in enumerate(codes)] + list(
                template.attributes
            )
            exchangeable = [a for a in names if a.startswith("\0")]
            others, inner = self._split_attributes([a for a in names if a not in exchangeable])
            outer = [*exchangeable, *others]
            varying = [i for i, a in enumerate(codes) if a < 0]
            other_axes = [i for a in others for i in self.axes[a]]
            axes = np.empty((len(here), len(varying) + len(other_axes)), dtype=np.intp)
            axes[:, : len(varying)] = position[here][:, varying]
            axes[:, len(varying) :] = other_axes
            rows: Array = targets[here]
            # From the last axis back, so that the places of the others do not move.
            for j, a in reversed(list(enumerate(template.attributes))):
                if self.axes[a]:
                    rows = _min_along(rows, [1 + j])
            row_names = [a for a in template.attributes if not self.axes[a]]  # the axes of rows now
            rows = rows.transpose([0, *(1 + row_names.index(a) for a in inner if a in row_names)])
            widths = [domain[a].size if a in unlike else len(template.view(a).labels(domain[a])) for a in inner]
            rows = rows.reshape(-1, *(1 if a in unlike else n for a, n in zip(inner, widths, strict=True)))
            # Attributes that differ from table to table have one target for all their values.
            rows = np.broadcast_to(rows, (len(here), *widths)).reshape(len(here), -1)
            order = self._order(names, outer, inner)
            self._add(start + here, axes, rows, self._structured_queries(template, inner), tuple(widths), order)

    def _structured_queries(self, t: Table, attributes: Sequence[str]) -> Array | op.Operator:
        """Return R: the queries of a table on the structured cells if it shows these of their attributes."""
        domain = self.workload.domain
        factors = [
            t.query_matrix(domain, axis, [a for a in attributes if self.axis[domain.attribute_of(a)] == axis])
            for axis in self.bound
        ]
        operator = op.Kronecker(tuple(factors)) if factors else op.Identity(1)
        # Equal operators share one array: `_add` and `sectors_of_tables` recognise equal queries by its id.
        if operator not in self.queries:
            amounts = any(self.steps)
            tall = operator.shape[0] > MAX_ROWS_PER_CELL * max(operator.shape[1], 64) and not amounts
            if not tall:
                m, n = operator.shape
                afford(8 * m * n, f"the matrix of the {m:,} × {n:,} queries of table {t.name!r}")
            self.queries[operator] = operator if tall else rules.dense(operator)
            if amounts:
                self.moments[id(self.queries[operator])] = _moments(factors, self.steps)
        return self.queries[operator]

    def _add(
        self,
        tables: Indices,
        axes: Indices,
        variances: Floats,
        queries: Array | op.Operator,
        inner_shape: tuple[int, ...],
        order: tuple[tuple[int, ...], tuple[int, ...]],
    ) -> None:
        self.rows[tables] = variances.shape[1]
        key = (axes.shape[1], id(queries), inner_shape, order)
        self.pieces.setdefault(key, []).append((tables, axes, variances, (queries, inner_shape, *order)))


def _moments(factors: Sequence[op.Operator], steps: Sequence[tuple[int, ...]]) -> Exact:
    """Return queries as combinations of (1, …, 1) and, for each s, (−K_s before knot s, K_s from it on).

    K_s is the number of steps from knot s − 1 to knot s. These rows replace the knots. The first is the number of
    records. Each other row is the amount above the middle between two knots less the amount below it. With two knots
    the rows are (1, 1) and (−K, K). Each query is multiplied by the number that makes it integer, and divided by the
    common factor of its entries.
    """
    out = np.ones((1, 1), dtype=object)
    for factor, pieces in zip(factors, steps, strict=True):
        # A factor of a row does not matter, because each row is scaled to integers.
        queries = rules.dense(factor.split_weights()[0]).astype(object)
        if pieces:
            # A query of an amount is a/2 times (1, …, 1) plus Σ b_s/2 times the row of knot s, with a the sum of its
            # first and last entry and b_s its rise at s over K_s. Everything is doubled, and the common multiple makes
            # each rise divisible.
            gaps, _, last = _gaps(pieces, queries.shape[1])
            queries = queries * math.lcm(*filter(None, pieces))
            rises = np.diff(queries, axis=1, prepend=0) // np.maximum(gaps, 1)
            queries = np.where(gaps == 0, queries + queries[:, last], rises)
        out = np.kron(out, queries)
    common = np.gcd.reduce(out, axis=1)
    return np.asarray(out // np.maximum(common, 1)[:, None])


def _gaps(pieces: Sequence[int], size: int) -> tuple[Exact, Indices, Indices]:
    """Return the steps from each cell to the next, and the first and the last cell of the amount of each cell.

    The number of steps is given at the second cell of both. It is 0 at the first cell of each amount, and at a cell
    without an amount, which is its own first and last cell.
    """
    gaps = np.array([0, *pieces, *[0] * (size - 1 - len(pieces))], dtype=object)
    starts = np.flatnonzero(gaps == 0)
    lengths = np.diff(starts, append=size)
    return gaps, np.repeat(starts, lengths), np.repeat(starts + lengths - 1, lengths)


@final
@dataclass(frozen=True)
class _Knots:
    """The structured cells.

    shape: The sizes of the attributes.
    steps: K_s of each amount, the numbers of steps from each knot to the next; empty for other attributes. A 0 starts
        another amount of a joint axis.
    """

    shape: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]

    def basis(self, moments: Sequence[Exact]) -> NDArray[np.int64]:
        """Return an integer basis of the span of queries, from their moments.

        Its rows are integer between the knots too.

        Raises:
            WorkloadError: The integers are too large to be measured in 64 bits.
        """
        rows = np.concatenate(moments)
        small = int(np.abs(rows).max()) < 2**53
        merged = integer_basis(rows.astype(np.int64 if small else np.float64)).astype(object)
        out = merged.reshape(-1, *self.shape)
        for axis, pieces in enumerate(self.steps, 1):
            if pieces:
                gaps, first_cells, last_cells = _gaps(pieces, self.shape[axis - 1])
                ordered = np.moveaxis(out, axis, -1)
                passed = (gaps * ordered).cumsum(axis=-1)
                centred = 2 * passed - passed[..., first_cells] - passed[..., last_cells]
                out = np.moveaxis(ordered[..., first_cells] + centred, -1, axis)
        # Between the knots, the multipliers of counts are larger by up to this factor.
        growth = 3 ** sum(len(pieces) > 1 for pieces in self.steps)
        if not small or largest_entry(out) * growth >= INT64_SAFE_LIMIT:
            raise WorkloadError(
                "too-many-amount-steps",
                "The amounts have too many steps between the ends of their ranges to be measured together.",
                "Sums are measured in 64-bit whole numbers.",
                "Declare larger steps, or give some amounts a group of tables of their own (further_tables = …).",
                "Nothing was planned.",
            )
        return out.reshape(len(out), -1).astype(np.int64)


def axes_by_attribute(workload: Workload, free: Sequence[str]) -> dict[str, list[int]]:
    """Return the exchangeable axes along which tables show each of their attributes; none for structured attributes."""
    domain = workload.domain
    places: dict[str, list[int]] = {}
    for i, a in enumerate(free):
        places.setdefault(domain.attribute_of(a), []).append(i)
    return {
        a: _down_to(domain, free, places.get(domain.attribute_of(a), ()), domain.depth(a))
        for a in used_attributes(workload)
    }


def _down_to(domain: Domain, free: Sequence[str], places: Sequence[int], depth: int) -> list[int]:
    """Return the axes along which a level lies: its own axis; otherwise the axis above it and the shares from there."""
    at_depth = [i for i in places if free[i] in domain and domain.depth(free[i]) == depth]
    return at_depth or [i for i in places if domain.depth(free[i]) <= depth]


def sectors_of_tables(
    tables: Sequence[TableGroup],
    sizes: NDArray[np.int64],
    bases: Sequence[NDArray[np.int64]] | None,
    knots: _Knots | None = None,
    public: PublicCells | None = None,
) -> tuple[tuple[SectorGroup, ...], float]:
    """Return the sectors of tables, by group, and the largest shift of a query (:func:`lift`).

    Args:
        tables: The tables, by group.
        sizes: The number of values of each exchangeable attribute.
        bases: One integer basis for each group of sectors; None lets the function choose them.
        knots: The structured cells, if some are knots of amounts.
        public: The cells with public totals; None without public totals.

    Raises:
        WorkloadError: As for :func:`decompose`.
    """
    subsets, incidences = _margins(tables, sizes)
    total = sum(len(s) for s in subsets)
    number = {key: i for i, key in enumerate(dict.fromkeys(id(g.queries) for g in tables))}
    distinct = {number[id(g.queries)]: g.queries for g in tables}
    moments = {number[id(g.queries)]: g.moments for g in tables if g.moments is not None}
    order = np.repeat(np.arange(len(subsets)), [len(s) for s in subsets])
    touched = np.zeros((len(distinct), total), dtype=bool)
    for g, pairs in zip(tables, incidences, strict=True):
        touched[number[id(g.queries)], pairs[0]] = True
    is_public = np.zeros(total, dtype=bool)
    if public is not None:
        is_public = np.concatenate([np.isin(x, public.exchangeable).all(axis=1) for x in subsets])
    kind = order
    for row in (*touched, is_public):
        # Numbering the kinds again for each query keeps the codes small, however many queries there are.
        kind = np.unique(2 * kind + row, return_inverse=True)[1].ravel()
    first_sectors = np.full(int(kind.max()) + 1, total, dtype=np.intp)
    np.minimum.at(first_sectors, kind, np.arange(total))
    rank = np.argsort(np.argsort(first_sectors))[kind]  # groups in the order of their first sectors
    names = np.sort(first_sectors)
    inside = np.empty(total, dtype=np.intp)  # the place of each sector in its group
    by_group = np.argsort(rank, kind="stable")
    count = np.bincount(rank)
    inside[by_group] = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    members: list[list[tuple[int, sp.csr_array]]] = [[] for _ in names]
    for t, (g, (sector, table)) in enumerate(zip(tables, incidences, strict=True)):
        where = np.argsort(rank[sector], kind="stable")
        cuts = np.searchsorted(rank[sector][where], np.arange(len(names) + 1))
        for i, (a, b) in enumerate(itertools.pairwise(cuts.tolist())):
            if a < b:
                rows, columns = inside[sector[where[a:b]]], table[where[a:b]]
                shape = (int(count[i]), len(g.tables))
                members[i].append((t, sp.csr_array((np.ones(b - a), (rows, columns)), shape=shape)))
    queries = _Bases(distinct, moments, knots, public)
    keys = [tuple(np.flatnonzero(touched[:, begin]).tolist()) for begin in names.tolist()]
    inside = is_public[names].tolist()
    # A group whose rows all follow from public totals is not measured.
    measured = [i for i in range(len(names)) if not inside[i] or len(queries.basis(keys[i], inside=True))]
    _check_groups(len(measured), None if bases is None else len(bases))
    out: list[SectorGroup] = []
    worst = 0.0
    offsets = np.cumsum([0, *(len(s) for s in subsets)])
    for position, i in enumerate(measured):
        basis = queries.basis(keys[i], inside=inside[i]) if bases is None else np.ascontiguousarray(bases[position])
        lifts, shift = queries.lifts(keys[i], basis, inside=inside[i])
        worst = max(worst, shift)
        s = int(order[names[i]])
        attributes = subsets[s][np.flatnonzero(rank == i) - offsets[s]]
        group_members = tuple(Members(t, lifts[number[id(tables[t].queries)]], x) for t, x in members[i])
        out.append(SectorGroup(attributes, sizes[attributes], basis, group_members))
    return tuple(out), worst


def _check_groups(measured: int, stated: int | None) -> None:
    """Raise WorkloadError if no group of sectors is measured, or if there are bases for another number of them."""
    if not measured:
        raise WorkloadError(
            "public-knows-all-tables",
            "All tables follow from the public totals.",
            "A release needs a number that is not public.",
            "Add a table that shows another attribute, or remove the public totals.",
            "Nothing was planned.",
        )
    if stated not in (None, measured):
        raise WorkloadError(
            "bases-misfit",
            f"There are bases for {stated} groups of sectors, and the tables have {measured} such groups.",
            "",
            "Give one basis for each group.",
            "Nothing was planned.",
        )


@final
class _Bases:
    """The bases of sectors, and the lifts of queries over them. Sectors that the same queries reach share both.

    Args:
        distinct: The different queries, by number.
        moments: Those with amounts, over the moments of their knots.
        knots: The structured cells.
        public: The cells with public totals.
    """

    def __init__(
        self,
        distinct: Mapping[int, Array | op.Operator],
        moments: Mapping[int, Exact],
        knots: _Knots | None,
        public: PublicCells | None,
    ) -> None:
        self._distinct, self._moments, self._knots = distinct, moments, knots
        self._places = np.array([] if public is None else public.places, dtype=np.intp)
        self._bases: dict[tuple[tuple[int, ...], bool], NDArray[np.int64]] = {}
        self._lifts: dict[tuple[tuple[int, ...], bool, bytes], tuple[dict[int, Floats | op.Operator], float]] = {}

    def basis(self, keys: tuple[int, ...], *, inside: bool) -> NDArray[np.int64]:
        """Return a basis of some queries; `inside`, up to combinations of E, which may be empty."""
        if (keys, inside) not in self._bases:
            if self._moments and self._knots is not None:
                basis = self._knots.basis([self._moments[k] for k in keys])
            else:
                basis = _basis_of([self._distinct[k] for k in keys])
            self._bases[keys, inside] = _basis_up_to_totals(basis, self._places) if inside else basis
        return self._bases[keys, inside]

    def lifts(
        self, keys: tuple[int, ...], basis: NDArray[np.int64], *, inside: bool
    ) -> tuple[dict[int, Floats | op.Operator], float]:
        """Return the lift of each query over a basis, and the largest shift (:func:`lift`)."""
        key = keys, inside, basis.tobytes()
        if key not in self._lifts:
            lifted, shift = _lifts([self._distinct[k] for k in keys], basis, self._places if inside else None)
            self._lifts[key] = dict(zip(keys, lifted, strict=True)), shift
        return self._lifts[key]


def _margins(
    tables: Sequence[TableGroup], sizes: NDArray[np.int64]
) -> tuple[list[Indices], list[tuple[Indices, Indices]]]:
    """Return all subsets of the tables' attributes of two values or more, and the tables that contain each.

    Returns:
        The subsets by their size s, (K_s, s), each sorted, in lexicographic order; their numbers are consecutive. And
        for every group of tables the pairs (subset, table) with the subset in the table, as two arrays.

    Raises:
        WorkloadError: There are too many pairs.
    """
    pairs = sum(len(g.tables) * 2.0 ** g.axes.shape[1] for g in tables)
    if pairs > MAX_MARGINS:
        raise WorkloadError(
            "too-many-margins",
            f"The tables have {pairs:,.0f} margins, counted table by table.",
            f"A plan takes at most {MAX_MARGINS:,} margins.",
            "Publish fewer tables, or tables of fewer attributes.",
            "Nothing was planned.",
        )
    rows = [np.sort(g.axes, axis=1) for g in tables]
    position: list[dict[tuple[int, ...], Indices]] = [{(): np.zeros(len(r), dtype=np.intp)} for r in rows]
    subsets = [np.zeros((1, 0), dtype=np.intp)]
    for s in range(1, max((r.shape[1] for r in rows), default=0) + 1):
        places = [(i, c) for i, r in enumerate(rows) for c in itertools.combinations(range(r.shape[1]), s)]
        codes = []
        for i, c in places:
            before, last = position[i][c[:-1]], rows[i][:, c[-1]]
            # An attribute of one value has no contrast, and so no sector.
            real = (before >= 0) & (sizes[last] > 1)
            # The number of the subset without its last attribute, and that attribute, identify a subset of any size.
            codes.append(np.where(real, before * len(sizes) + last, -1))
        keys = np.unique(np.concatenate([x[x >= 0] for x in codes])) if codes else np.zeros(0, dtype=np.intp)
        if not len(keys):
            break
        before, last = np.divmod(keys, len(sizes))
        subsets.append(np.column_stack([subsets[-1][before], last]))
        for (i, c), x in zip(places, codes, strict=True):
            position[i][c] = np.where(x >= 0, np.searchsorted(keys, x), -1)
    offsets = np.cumsum([0, *(len(s) for s in subsets)])
    incidences = []
    for r, names in zip(rows, position, strict=True):
        sector = np.concatenate([np.where(x >= 0, x + offsets[len(c)], -1) for c, x in names.items()])
        table = np.tile(np.arange(len(r)), len(names))
        incidences.append((sector[sector >= 0], table[sector >= 0]))
    return subsets, incidences


def _basis_up_to_totals(basis: NDArray[np.int64], places: Indices) -> NDArray[np.int64]:
    """Return rows that span those of a basis up to combinations of E, (k, n_o), independent up to these.

    In every cell of F, the rows are 0 in one structured cell. So no combination of them is above 0 in all of its cells.
    """
    rest = without_totals(basis, places)
    largest = np.abs(rest).max(axis=1, keepdims=True)
    rest = rest / np.where(largest > 0, largest, 1)
    if not rest.any():
        return basis[:0]
    rows = basis[np.sort(sl.qr(rest.T, mode="r", pivoting=True)[1][: _rank(rest)])]
    # The column of least entries keeps the integers small, and those that are 0.
    order = np.lexsort((np.abs(rows).sum(axis=0), places))
    _, starts, cells = np.unique(places[order], return_index=True, return_inverse=True)
    which = np.empty_like(cells)
    which[order] = cells
    return np.ascontiguousarray(rows - rows[:, order[starts]][:, which])


def is_identity(basis: NDArray[np.int64]) -> bool:
    """Return True if a basis is the identity matrix."""
    k, n = basis.shape
    return k == n and bool((basis.diagonal() == 1).all()) and int(np.abs(basis).sum()) == k


def _basis_of(queries: Sequence[Array | op.Operator]) -> NDArray[np.int64]:
    """Return an integer basis of the span of all these queries."""
    matrices = [x for x in queries if isinstance(x, np.ndarray)]
    if len(matrices) == len(queries):
        return integer_basis(np.concatenate(matrices))
    # WᵀW has the rows' span and its equal columns; when its rank is full, so is W's
    grams = [x if isinstance(x, np.ndarray) else rules.gram(x) for x in queries]
    basis = integer_basis(np.concatenate(grams))
    return basis if is_identity(basis) else integer_basis(np.concatenate([_matrix(x) for x in queries]))


def _matrix(queries: Array | op.Operator) -> Array:
    return queries if isinstance(queries, np.ndarray) else rules.dense(queries)


def _lifts(
    queries: Sequence[Array | op.Operator], basis: NDArray[np.int64], places: Indices | None
) -> tuple[list[Floats | op.Operator], float]:
    """Return L of each matrix, or the operator itself over the identity; and the largest shift (:func:`lift`).

    places: The cells of F, if rows count only up to combinations of E.
    """
    is_trivial = is_identity(basis)
    matrices = [_matrix(x) for x in queries if isinstance(x, np.ndarray) or not is_trivial]
    if places is not None:
        lifted, shift = lift(without_totals(np.concatenate(matrices), places), without_totals(basis, places))
    else:
        lifted, shift = lift(np.concatenate(matrices), basis) if matrices else (np.zeros((0, 0)), 0.0)
    parts = iter(np.split(lifted, np.cumsum([len(x) for x in matrices])[:-1]))
    return [
        np.ascontiguousarray(next(parts)) if isinstance(x, np.ndarray) or not is_trivial else x for x in queries
    ], shift


def no_possible_record(table: str) -> WorkloadError:
    """Return the error of a table all of whose numbers are 0 by the rules."""
    return WorkloadError(
        "no-possible-record",
        f"{table} counts only combinations of values that no record can have.",
        "All numbers of such a table are 0.",
        "Remove this table, or correct the rules or its groups.",
        "Nothing was planned.",
    )


def integer_basis(rows: Array) -> NDArray[np.int64]:
    """Return an integer basis B of the row space, shape (rank, n_o).

    Equal columns are merged first. If the distinct non-zero columns are as many as the rank, B has their 0/1
    indicators, in order of appearance. These are the identity if all columns differ and none is 0. If the columns are
    more than the rank, B has as many pivoted rows as the rank. They are scaled to integers: exactly if their binary
    fractions allow 26 bits.

    Raises:
        WorkloadError: All rows are 0.
    """
    # A strategy rounded entry by entry, without an integer basis, would leave the row space and bias the answers.
    unique, where = np.unique(_integer_rows(rows), axis=1, return_inverse=True)
    where = where.ravel()
    zero = np.asarray(~unique.any(axis=0))
    distinct = np.unique(unique[:, ~zero], axis=0)
    distinct = distinct[distinct.any(axis=1)]
    if not len(distinct):
        raise no_possible_record("A table")
    normalised = distinct / np.abs(distinct).max(axis=1, keepdims=True)  # the scale of queries must not matter
    rank = _rank(normalised)
    if rank == distinct.shape[1]:
        merged = np.eye(rank, dtype=np.int64)
    else:
        pivots = sl.qr(normalised.T, mode="r", pivoting=True)[1][:rank]
        merged = _to_integers(distinct[np.sort(pivots)])
    full = np.zeros((rank, unique.shape[1]), dtype=np.int64)
    full[:, ~zero] = merged
    expanded = full[:, where]
    if rank == distinct.shape[1]:
        # `np.unique` sorted the columns; this restores their order of appearance.
        expanded = expanded[np.argsort(expanded.argmax(axis=1))]
    return np.ascontiguousarray(expanded)


def lift(rows: Array, basis: Array) -> tuple[Floats, float]:
    """Return (L, shift): L with rows = L B as nearly as possible, and max|rows − L B|.

    The shift is 0 for indicators of the equal columns of these rows.

    Raises:
        WorkloadError: The basis does not have one column for each cell. Or a row differs from the combination found by
            more than 1e-7 of its largest entry.
    """
    if basis.ndim != 2 or basis.shape[1] != rows.shape[1]:
        raise WorkloadError(
            "basis-shape-wrong",
            "A basis does not have one column for each cell.",
            "",
            "Give a basis with one column for each cell.",
            "Nothing was planned.",
        )
    if ((basis == 0) | (basis == 1)).all() and (basis.sum(axis=0) <= 1).all() and basis.any(axis=1).all():
        out = rows[:, basis.argmax(axis=1)].astype(np.float64)  # disjoint groups of equal columns
    else:
        q, r = sl.qr(basis.T.astype(np.float64), mode="economic")
        with np.errstate(all="ignore"):  # an invalid basis gives NaN, which the check below refuses
            out = np.full((len(rows), len(basis)), math.nan)
            if r.shape[0] == r.shape[1] and r.diagonal().all():
                out = np.asarray(np.linalg.solve(r, (rows @ q).T).T, dtype=np.float64)
                # A step of refinement takes the error of an ill-conditioned basis down to rounding.
                out += np.linalg.solve(r, ((rows - out @ basis) @ q).T).T
    off = np.abs(out @ basis - rows).max(axis=1)
    if not (off <= 1e-7 * np.abs(rows).max(axis=1)).all():
        raise WorkloadError(
            "queries-not-in-basis",
            "The queries of a sector are not combinations of its basis: they are nearly dependent, or "
            "the basis belongs to other queries.",
            "",
            "Remove queries that are almost combinations of others.",
            "Nothing was planned.",
        )
    return np.ascontiguousarray(out), float(off.max())


def _rank(a: Array) -> int:
    """Return the numerical rank: the number of singular values above rounding.

    A Cholesky factor is quicker if it shows that all of them are.
    """
    m, n = a.shape
    if m >= n:
        gram = a.astype(np.float64).T @ a.astype(np.float64)
        gram[np.diag_indices(n)] -= 1e-10 * gram.trace()
        with contextlib.suppress(sl.LinAlgError):
            sl.cholesky(gram, overwrite_a=True)
            return int(n)  # every singular value is above 1e-5 of the largest
    s = sl.svdvals(a.astype(np.float64))
    return int((s > s[0] * max(a.shape) * np.finfo(np.float64).eps).sum())


def _integer_rows(rows: Array) -> Array:
    """Return rows divided by their least entries, if all quotients are small integers; otherwise the rows.

    Averages are such rows.
    """
    if rows.dtype.kind != "f":
        return rows
    size = np.abs(rows)
    minima = np.where(size > 0, size, np.inf).min(axis=1, keepdims=True)
    minima[~np.isfinite(minima)] = 1.0
    quotients = np.rint(rows / minima)
    is_integer = (np.abs(quotients * minima - rows) <= 4 * np.finfo(np.float64).eps * size).all() and np.abs(
        quotients
    ).max() < MAX_MULTIPLE
    return quotients.astype(np.int64) if is_integer else rows


def _to_integers(a: Array) -> NDArray[np.int64]:
    """Return each row times a power of two, as integers: exact if 26 bits allow it, rounded otherwise."""
    if a.dtype.kind == "i":
        return a.astype(np.int64)
    exponents = _BASIS_BITS - np.frexp(np.abs(a).max(axis=1))[1]
    integers = np.rint(np.ldexp(a, exponents[:, None])).astype(np.int64)
    common = np.gcd.reduce(np.abs(integers), axis=1)
    return np.asarray(integers // (common & -common)[:, None])
