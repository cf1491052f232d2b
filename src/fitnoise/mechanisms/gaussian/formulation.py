"""The convex problem of a publication in sectors, and the covariances from the solver's weights.

Number j stands for n_A published numbers of its table. Its lift is scaled by 1/√c_j and 1/n_A, so that the problem's
variances are the ratios var_j/c_j. Cells have the weight g²/r_o, so that the problem's cost is the protected unit's.
Equivalent tables and sectors are solved once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import final

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from fitnoise.algebra.backends import NUMPY, Backend
from fitnoise.algebra.operators import Operator
from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.mechanisms.gaussian.equitable_partitions import EquitablePartition
from fitnoise.solving import problems
from fitnoise.solving.certificates import (
    NO_RECORD,
    SINGLE_RECORDS,
    Evidence,
    Free,
    Kinds,
    ObjectiveTerms,
    RecordPairs,
    RecordSets,
)
from fitnoise.solving.problems import Block, Pairwise, Problem, QuerySource, SharedWeights
from fitnoise.solving.sectors import Decomposition, SectorGroup, afford

MAX_KINDS = 2**21
"""The largest number of kinds of pairs in memory, for replace-one neighbours."""

MAX_PAIRED_SECTORS = 4096
"""The largest number of sectors under replace-one neighbours: each has its own matrix of pairs."""

MAX_DROPPED_WEIGHT = 2e-8
"""Share of all weights, in the pairs of least weight, that the evidence may omit; the bound falls by about as much."""


@final
class AllPairs:
    """All kinds of pairs of records of a decomposition.

    Args:
        d: The decomposition.
        terms: The objective: whether a single record may also come or go, and the attributes in which two agree.

    Raises:
        WorkloadError: There are too many sectors.

    complete: True if these are all kinds. Above MAX_KINDS, only pairs that differ in every exchangeable attribute, or
    in all except one, are kept. If these are too many, only the former are kept. The plan is then optimal for those.
    """

    def __init__(self, d: Decomposition, terms: ObjectiveTerms) -> None:
        count = sum(len(g) for g in d.groups)
        if count > MAX_PAIRED_SECTORS:
            raise WorkloadError(
                "too-many-margins-to-replace-one",
                f"The tables have {count:,} margins, and the neighbours are replace-one.",
                f"At most {MAX_PAIRED_SECTORS:,} margins are planned for these neighbours, each separately.",
                "Publish fewer tables, or set add-or-remove-one neighbours, which protect more.",
                "Nothing was planned.",
            )
        # Two records always agree in an attribute of one value, and in those of `within`.
        always = sum(1 << a for a, n in enumerate(d.sizes) if n == 1) | terms.agreed
        free = [a for a in range(len(d.sizes)) if not always >> a & 1]
        places = None if terms.held is None else np.array(terms.held.places, dtype=np.intp)
        # The cost of a pair is symmetric, so unordered pairs of cells are enough; a cell pairs with itself, too.
        half = sum(n * (n + 1) // 2 for n in ([d.cells] if places is None else np.bincount(places).tolist()))
        self.complete = 2 ** len(free) * half <= MAX_KINDS
        if self.complete:
            codes = [sum(1 << a for i, a in enumerate(free) if x >> i & 1) for x in range(2 ** len(free))]
        else:
            codes = [0, *(1 << a for a in free)] if (1 + len(free)) * half <= MAX_KINDS else [0]
        self.patterns = [always | code for code in codes]
        self.kinds = problems.PairKinds(len(self.patterns), d.cells, terms.allows_add_or_remove, places)
        self._shapes = RecordPairs.from_keys((t, 0, 0) for t in self.patterns)

    def chi(self, attributes: tuple[int, ...], sizes: tuple[int, ...]) -> Floats:
        """Return χ_S of every pattern, for the sector of these attributes."""
        return self._shapes.chi(attributes, sizes)

    def evidence(self, p: Floats, q: Floats) -> Evidence:
        """Return the evidence with the pairs that have weight, less those of MAX_DROPPED_WEIGHT in all."""
        first_cells, second_cells = self.kinds.pairs
        # The lightest pairs are dropped first: each weight left out lowers the proven bound by about itself.
        order = np.argsort(p)
        support = np.sort(order[np.cumsum(p[order]) > MAX_DROPPED_WEIGHT * p.sum()])
        keys = []
        for i in support:
            pattern, pair = divmod(int(i), len(first_cells))
            if pattern < len(self.patterns):
                keys.append((self.patterns[pattern], int(first_cells[pair]), int(second_cells[pair])))
            else:
                keys.append((0, int(i) - len(self.patterns) * len(first_cells), NO_RECORD))
        return Evidence(p[support], q, RecordPairs.from_keys(keys))


@final
class Formulation:
    """The problem of a decomposed workload.

    Args:
        decomposition: The workload in sectors, with its targets.
        terms: The objective, the relative budgets and the unit.
        pairs: The kinds of pairs for replace-one neighbours; None for add-or-remove-one.
        record_kinds: Sets of records of one unit, if the terms state the attributes by which they differ.
        sets: Sets of records of one unit, if the terms state the possible ones. They are then the problem's cells. In
            a sector in which all records of a set have equal values, its column is the sum of theirs. In other sectors
            each record has its own column.
        backend: The backend of the matrices.

    Attributes:
        problem: The problem of the solvers. Its numbers are classes of equivalent numbers, with the sum of their
            weights.
        partition: The classes.
    """

    def __init__(
        self,
        decomposition: Decomposition,
        terms: ObjectiveTerms,
        *,
        pairs: AllPairs | None = None,
        record_kinds: Kinds = SINGLE_RECORDS,
        sets: RecordSets | None = None,
        backend: Backend = NUMPY,
    ) -> None:
        d = self.decomposition = decomposition
        self._pairs = pairs
        distinct = terms.distinct
        admissible = terms.sets if sets is not None else None
        nothing: Free = ()
        self._free = [[nothing] * len(g) if admissible is None else admissible.free(g) for g in d.groups]
        self._kinds = list(dict.fromkeys(x for group_free in self._free for x in group_free))
        codes = [np.array([self._kinds.index(x) for x in group_free], dtype=np.intp) for group_free in self._free]
        self._columns = None if sets is None else _Columns(sets, d.cells)
        self._roots = [
            np.ones(len(g)) if distinct is None else np.sqrt(distinct.factors(record_kinds, g)) for g in d.groups
        ]
        # A sector in which a set costs f times as much as a record has the weight √f, and its covariance is over √f.
        counted = [g.multiplicity * root for g, root in zip(d.groups, self._roots, strict=True)]
        self._multiplicity = counted
        # A complex number holds both parts: a sum of the two could be equal for unequal pairs.
        colours = [x + 1j * code for code, x in zip(codes, counted, strict=True)]
        self.partition = (
            EquitablePartition.from_decomposition(d, terms.weights, colours)
            if pairs is None
            else EquitablePartition.none(d)
        )
        chosen = self.partition.representatives
        # The variances of the problem are then the ratios var/c, so that every target is 1.
        self._scale = 1 / (d.variances * d.numbers_per_row**2)
        self._triangles: list[Floats] = []
        self._block_classes: list[tuple[int, Indices]] = []
        self._bases: list[Floats] = []
        blocks = [b for i, g in enumerate(d.groups) for b in self._blocks(i, g)]
        stacks = sum(len(b.multiplicity) * b.rank * (8 * b.rank + 2 * b.rows) for b in blocks if b.rank > 1)
        # Eight bytes a number: refused before the solver allocates the stacks of matrices.
        afford(8 * stacks, f"planning sectors of {max(b.rank for b in blocks):,} dimensions, all together,")
        columns, constraints, trade = self._columns, None, None
        self._owners = _cells(d, terms, pairs) if columns is None else columns.shared(float(terms.factor))
        if terms.weights is not None:
            shares = (terms.weights * d.variances)[chosen] * self.partition.counts
            if terms.trade is None:
                owner = np.zeros(len(shares), dtype=np.intp)
                constraints = SharedWeights(owner, shares / shares.sum(), 1)
            else:
                trade = terms.trade * shares
        self.problem = Problem(
            blocks,
            len(chosen),
            cells=self._owners,
            constraints=constraints,
            trade=trade,
            backend=backend,
        )

    def by_period(self, period: Indices) -> Problem:
        """Return this problem, for sets or single records, with independent noise on the cells of each period.

        Args:
            period: The period of every structured cell, (n_o,).
        """
        blocks, mine = [], self._columns  # one column a cell if there are no sets
        for block, columns, (i, here) in zip(self.problem.blocks, self._bases, self._block_classes, strict=True):
            cell_columns = np.eye(len(period)) if mine is None else mine.columns_for(self._free_of(i, here))
            source_rows = [_as_rows(s.lifts, block.frame) for s in block.sources]
            for one in np.unique(period):
                period_columns = columns[:, period == one]
                lifts = [x @ period_columns for x in source_rows]
                if any(x.any() for x in lifts):
                    sources = (replace(s, lifts=x) for s, x in zip(block.sources, lifts, strict=True))
                    blocks.append(Block(block.multiplicity, cell_columns[period == one], tuple(sources)))
        return Problem(blocks, self.problem.numbers, cells=self._owners)

    def _blocks(self, i: int, group: SectorGroup) -> list[Block]:
        """Return blocks for the classes of sectors of a group; classes with equal use of cells share a block."""
        triangle, columns = _orthonormal(group)
        classes = self.partition.sectors[i]
        multiplicity = self._multiplicity[i][classes.heads] * classes.counts
        chi = None
        loose = np.array([self._kinds.index(self._free[i][k]) for k in classes.heads.tolist()])
        if self._pairs is not None:
            sectors = zip(group.attributes.tolist(), group.sizes.tolist(), strict=True)
            chi = np.array([self._pairs.chi(tuple(a), tuple(n)) for a, n in sectors])
            # χ = 1 for every pattern: the records of every pair agree in these sectors' attributes.
            loose = (chi == 1).all(axis=1).astype(np.intp)
        out = []
        for kind in np.unique(loose).tolist():
            here = np.flatnonzero(loose == kind)
            block_columns, pairwise = columns, None
            frame = None if group.is_identity else triangle
            if self._columns is not None:
                block_columns = columns @ self._columns.columns_for(self._kinds[kind])
            if self._pairs is not None and chi is not None:
                pairwise = Pairwise(self._pairs.kinds, chi[here])
            self._triangles.append(triangle)
            self._block_classes.append((i, here))
            self._bases.append(columns)
            sources = self._sources(i, group, triangle, here)
            # A cost of two records that agree in the public attributes does not depend on the centre.
            public = self.decomposition.public_places(group) if self._pairs is None else None
            out.append(Block(multiplicity[here], block_columns, sources, frame, pairwise, public=public))
        return out

    def _free_of(self, i: int, here: Indices) -> Free:
        """Return the free attributes that some classes of a group's sectors, of one block, show."""
        return self._free[i][int(self.partition.sectors[i].heads[here[0]])]

    def _sources(self, i: int, group: SectorGroup, triangle: Floats, here: Indices) -> tuple[QuerySource, ...]:
        """Return the sources of a block: the answers of some classes of a group's sectors to the tables."""
        d, out = self.decomposition, []
        for m in group.members:
            tables, classes = d.tables[m.tables], self.partition.tables[m.tables]
            incidence = (m.incidence if self.partition.trivial else self.partition.reduced(i, m))[here]
            numbers = self.partition.number[tables.numbers[classes.heads]]
            scale = self._scale[tables.numbers[classes.heads]]
            if self._pairs is not None:
                # A block has a part of the group's sectors, and tables that reach none of them drop out.
                used = np.unique(incidence.indices)
                if not len(used):
                    continue
                numbers, scale, incidence = numbers[used], scale[used], incidence[:, used]
            lift = m.lift if isinstance(m.lift, Operator) else m.lift @ triangle.T
            is_identity = incidence.shape == (1, 1) and incidence.data.tolist() == [1.0]
            out.append(QuerySource(lift, numbers, scale, None if is_identity else sp.csr_array(incidence)))
        return tuple(out)

    def fold(self, q: Floats) -> Floats:
        """Return the weights of all numbers as weights of their classes."""
        return np.bincount(self.partition.number, q, minlength=len(self.partition.counts)).astype(np.float64)

    def unfold(self, q: Floats) -> Floats:
        """Return the weights of classes, split among their numbers."""
        return np.asarray((q / self.partition.counts)[self.partition.number])

    def precision_factors(self, p: Floats, q: Floats) -> list[Floats]:
        """Return F_S with F_SᵀF_S = Σ_S⁻¹ in the integer bases, scaled to the worst constraint: (K, k, k) by group."""
        return self.in_basis([z for _, z in self.problem.covariance_factors(p, q)])

    def products(self, p: Floats, q: Floats) -> dict[Free, Floats]:
        """Return X of two records in structured cells, (n_o, n_o), scaled to meet the worst constraint, in parts.

        Each part belongs to the free attributes that its sectors show. For two records, a part is multiplied by their
        agreement in these attributes.

        p: The solver's primal weights of cells or sets.
        q: Its weights of constraints.
        """
        out = {free: np.zeros((self.decomposition.cells,) * 2) for free in self._kinds}
        factors = [z for _, z in self.problem.covariance_factors(p, q)]
        for block, columns, (i, here), z in zip(
            self.problem.blocks, self._bases, self._block_classes, factors, strict=True
        ):
            rows = (np.sqrt(block.multiplicity)[:, None, None] * (z @ columns)).reshape(-1, columns.shape[1])
            out[self._free_of(i, here)] += rows.T @ rows
        return out

    def evidence(self, sets: RecordSets, p: Floats, q: Floats) -> Evidence:
        """Return the evidence with the sets that have weight, less those of MAX_DROPPED_WEIGHT in all."""
        order = np.argsort(p)
        support = np.sort(order[np.cumsum(p[order]) > MAX_DROPPED_WEIGHT * p.sum()]).tolist()
        weighted_sets = RecordSets(tuple(sets.cells[i] for i in support), tuple(sets.agreements[i] for i in support))
        return Evidence(p[support], q, sets=weighted_sets)

    def in_basis(self, factors: Sequence[Floats]) -> list[Floats]:
        """Return factors of Σ_S⁻¹ in the problem's coordinates, by block, as factors in the sectors' integer bases."""
        # B x = Rᵀ y where the problem's coordinates are y = Q x, so Σ⁻¹ = R⁻¹ ZᵀZ R⁻ᵀ.
        block_factors = [
            np.asarray(np.linalg.solve(triangle, z.swapaxes(-1, -2)).swapaxes(-1, -2), dtype=np.float64)
            for triangle, z in zip(self._triangles, factors, strict=True)
        ]
        group_factors = [
            np.empty((len(c), len(g.basis), len(g.basis)))
            for c, g in zip(self.partition.sectors, self.decomposition.groups, strict=True)
        ]
        for (i, here), f in zip(self._block_classes, block_factors, strict=True):
            group_factors[i][here] = f
        scaled = zip(group_factors, self.partition.sectors, self._roots, strict=True)
        return [f[classes.class_of] / np.sqrt(root)[:, None, None] for f, classes, root in scaled]


@final
class _Columns:
    """Sets of records as columns: a set has one column for every part of it whose records have equal values.

    In a sector the columns are mixed so that their squares add up to the mean cost of the set there.
    """

    def __init__(self, sets: RecordSets, cells: int) -> None:
        self._sets, self._parts = sets, [sets.parts(i) for i in range(len(sets))]
        self._owner = np.repeat(np.arange(len(sets)), [len(x) for x in self._parts])
        self._single = np.zeros((cells, len(self._owner)))
        part_cells = (
            [chosen[k] for k in part] for chosen, parts in zip(sets.cells, self._parts, strict=True) for part in parts
        )
        for i, part in enumerate(part_cells):
            is_removed, here = divmod(np.array(part), cells)
            np.add.at(self._single[:, i], here, 1 - 2 * is_removed)

    def columns_for(self, free: Free) -> Floats:
        """Return the columns in sectors that show these free attributes, (n_o, columns)."""
        out, start = self._single.copy(), 0
        for i, parts in enumerate(self._parts):
            here, heads = slice(start, start + len(parts)), [part[0] for part in parts]
            start += len(parts)
            # A single part agrees with itself, and needs no mixing.
            if len(parts) > 1:
                eigenvalues, axes = np.linalg.eigh(self._sets.agreement(i, free)[np.ix_(heads, heads)])
                out[:, here] = out[:, here] @ (axes * np.sqrt(np.maximum(eigenvalues, 0)))
        return out

    def shared(self, factor: float) -> SharedWeights:
        """Return the weights of sets as those of columns."""
        return SharedWeights(self._owner, np.full(len(self._owner), factor), len(self._sets))


def _as_rows(lifts: Floats | Operator, frame: Floats | None) -> Floats:
    """Return the lifts of a source row by row."""
    if isinstance(lifts, np.ndarray):
        return lifts
    rows = lifts.mv(np.eye(lifts.shape[1]))
    return np.asarray(rows if frame is None else rows @ frame.T)


def _orthonormal(group: SectorGroup) -> tuple[Floats, Floats]:
    """Return (R, Q) with B = Rᵀ Q, Q of orthonormal rows and R triangular."""
    if group.is_identity:
        eye = np.eye(len(group.basis))
        return eye, eye
    q, r = sl.qr(group.basis.T.astype(np.float64), mode="economic")
    rows = np.ascontiguousarray(q.T, dtype=np.float64)
    rows[:, ~group.basis.any(axis=0)] = 0  # no row reaches these cells, so their rounding error is removed
    return np.asarray(r, dtype=np.float64), rows


def _cells(d: Decomposition, terms: ObjectiveTerms, pairs: AllPairs | None) -> SharedWeights | None:
    unit = float(terms.factor)
    if terms.relative is None and unit == 1:
        return None
    if pairs is not None:
        n = len(pairs.kinds)
        return SharedWeights(np.arange(n), np.full(n, unit), n)
    r = np.ones(d.cells) if terms.relative is None else terms.relative
    if any(g.basis[:, r == 0].any() for g in d.groups):
        raise PlanError(
            "query-of-cell-without-budget",
            "A query counts records of a cell whose relative budget is 0.",
            "No budget remains for an answer about these records.",
            "Leave the cell out of the query, or give it a budget.",
            "Nothing was planned.",
        )
    # A cell of budget 0 is in no query, so its weight does not matter, and 0 keeps it finite.
    with np.errstate(divide="ignore"):
        return SharedWeights(np.arange(d.cells), np.where(r > 0, unit / r, 0.0), d.cells)
