"""Classes of equivalent tables and sectors, by refinement of colours, so that the solver solves each class once.

**Statement.** A partition of tables and sectors is *equitable* if two conditions hold. All sectors of a class have
equally many tables of each class. All tables of a class have equally many sectors of each class. Some optimum is
constant on the classes of an equitable partition that separates targets and sizes.

**Proof.** Averaging dual weights over the classes commutes with the incidence of tables and sectors, and the bound ν is
concave in the weights. ∎

**Trust.** The coarsest such partition decides the size of the problem, and nothing else. Certificates are recomputed
from the complete problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.solving.fixed_random import scrambled
from fitnoise.solving.sectors import Decomposition, Members


@final
@dataclass(frozen=True, eq=False)
class IndexPartition:
    """A partition of n things: the class of each, (n,), and the first thing and the number of things of each class."""

    class_of: Indices
    heads: Indices
    counts: Floats

    @classmethod
    def from_colours(cls, colours: NDArray[Any]) -> IndexPartition:
        """Return the partition into things of one colour."""
        _, heads, class_of, counts = np.unique(colours, return_index=True, return_inverse=True, return_counts=True)
        return cls(class_of.ravel(), heads, counts.astype(np.float64))

    @classmethod
    def each(cls, n: int) -> IndexPartition:
        """Return the partition with one class for each thing."""
        return cls(np.arange(n), np.arange(n), np.ones(n))

    def __len__(self) -> int:
        return len(self.heads)


@final
@dataclass(frozen=True, eq=False)
class EquitablePartition:
    """Classes of equivalent tables and sectors, which share one weight and one covariance.

    tables, sectors: The classes, group by group.
    number: The class of every row of every table, (M,).
    representatives: A row of each class.
    counts: The number of rows of each class.
    trivial: True if every class has one row.
    """

    tables: tuple[IndexPartition, ...]
    sectors: tuple[IndexPartition, ...]
    number: Indices
    representatives: Indices
    counts: Floats
    trivial: bool

    @classmethod
    def from_decomposition(
        cls, d: Decomposition, weights: Floats | None, multiplicity: Sequence[Floats] | None = None
    ) -> EquitablePartition:
        """Return the coarsest equitable partition that separates targets, sizes and the numbers' weights.

        If no two tables of a group agree in these, every table and every sector is a class of its own.

        multiplicity: The weights of the sectors of each group, if they differ from the group's own.
        """
        weight_columns = np.zeros((d.rows, 0)) if weights is None else weights[:, None]
        colours = [
            _row_colours(np.column_stack([g.variances, g.cells, weight_columns[g.numbers].reshape(len(g.tables), -1)]))
            for g in d.tables
        ]
        # Refinement only splits classes: if all tables differ already, its steps are saved.
        if sum(len(c) for c in colours) == sum(len(g.tables) for g in d.tables):
            return cls.none(d)
        counted = [g.multiplicity for g in d.groups] if multiplicity is None else multiplicity
        tables, sectors = colours, [IndexPartition.from_colours(x) for x in counted]
        links = [(i, m.tables, _in_words(m.incidence)) for i, g in enumerate(d.groups) for m in g.members]
        # Unequal colours have equal words with negligible probability. A false merge costs only accuracy.
        before, now = -1, 0
        while before != now:
            before = now
            codes, seen = [scrambled(c.class_of) for c in tables], [scrambled(c.class_of) for c in sectors]
            for i, t, x in links:
                # A sum of words stands for the collection of the tables' colours, in any order.
                seen[i] = scrambled(seen[i]) + x @ codes[t]
            sectors = [IndexPartition.from_colours(x) for x in seen]
            codes, seen = [scrambled(c.class_of) for c in sectors], [scrambled(c.class_of) for c in tables]
            for i, t, x in links:
                seen[t] = scrambled(seen[t]) + x.T @ codes[i]
            tables = [IndexPartition.from_colours(x) for x in seen]
            # A step only splits classes, so an equal number of them ends the refinement.
            now = sum(len(c) for c in (*tables, *sectors))
        return cls._numbered(d, tables, sectors, trivial=False)

    @classmethod
    def none(cls, d: Decomposition) -> EquitablePartition:
        """Return the partition with one class for each table and each sector."""
        tables = [IndexPartition.each(len(g.tables)) for g in d.tables]
        return cls._numbered(d, tables, [IndexPartition.each(len(g)) for g in d.groups], trivial=True)

    @classmethod
    def _numbered(
        cls, d: Decomposition, tables: Sequence[IndexPartition], sectors: Sequence[IndexPartition], *, trivial: bool
    ) -> EquitablePartition:
        if trivial:
            rows = np.arange(d.rows)
            return cls(tuple(tables), tuple(sectors), rows, rows, np.ones(d.rows), trivial)
        number = np.empty(d.rows, dtype=np.intp)
        chosen: list[Indices] = []
        counts: list[Floats] = []
        start = 0
        for g, c in zip(d.tables, tables, strict=True):
            m = g.variances.shape[1]
            number[g.numbers] = start + c.class_of[:, None] * m + np.arange(m)
            chosen.append(g.numbers[c.heads].ravel())
            counts.append(np.repeat(c.counts, m))
            start += len(c) * m
        return cls(tuple(tables), tuple(sectors), number, np.concatenate(chosen), np.concatenate(counts), trivial)

    def reduced(self, i: int, m: Members) -> sp.csr_array:
        """Return for each class of sectors and each class of tables the share of these tables that contain one sector.

        i: The number of the group of sectors.
        m: The tables of one group that reach them.
        """
        rows, classes = self.sectors[i], self.tables[m.tables]
        # All sectors of a class reach equally many tables of each class, so the first one stands for them.
        incidence = m.incidence[rows.heads]
        class_of = classes.class_of
        sums = sp.csr_array((1 / classes.counts[class_of], (np.arange(len(class_of)), class_of)))
        return sp.csr_array(incidence @ sums)


def _in_words(x: sp.csr_array) -> sp.csr_array:
    """Return the incidence as 64-bit words, whose sums wrap."""
    return sp.csr_array((np.ones(x.nnz, np.uint64), x.indices, x.indptr), shape=x.shape)


def _row_colours(rows: Floats) -> IndexPartition:
    """Return the partition into equal rows."""
    # Rows are compared as bytes: a tolerance could merge different targets.
    raw = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1] * 8))).ravel()
    return IndexPartition.from_colours(raw)
