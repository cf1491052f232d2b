"""Shared sums of tables: the groups of values that each column distinguishes, and the sums that two tables both have.

Every number of a table of counts is a sum of *atoms*, the groups of values that its columns distinguish, column by
column. Two tables share a sum under two conditions. Both columns of an attribute have the sum's groups as unions of
their own groups. An attribute that only one table shows can be summed over, which is possible if its groups hold all
values.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast, final

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from fitnoise.algebra import rules
from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Indices
from fitnoise.reading.questions import leaves, row_coefficients
from fitnoise.reading.refusals import UNMADE
from fitnoise.request.attributes import Attribute
from fitnoise.request.domain import Domain
from fitnoise.request.joint_axes import cells_along, without_classes
from fitnoise.request.views import AtMost, Average, Change, View
from fitnoise.request.workloads import Table

ATOM_TOLERANCE = 1e-9
"""The rounding allowed in the integers that make atoms of rows."""


@final
class LeafPartition:
    """Disjoint groups of the leaves of an attribute, compared by their leaves only.

    Args:
        groups: The group of every leaf, in any numbering from 0 on; below 0 without a group, (leaves,).

    Attributes:
        group_index: The group of every leaf, in the order of the groups' first leaves; −1 without a group, (leaves,).
        size: The number of groups.
    """

    def __init__(self, groups: Indices) -> None:
        codes, first_leaf, which = np.unique(groups, return_index=True, return_inverse=True)
        # the code of leaves without a group goes last, so that it takes no number from a group
        order = np.argsort(np.where(codes < 0, len(groups), first_leaf))
        rank = np.empty(len(codes), dtype=np.intp)
        rank[order] = np.arange(len(codes))
        self.group_index = np.where(groups < 0, -1, rank[which.ravel()])
        self.size = int(self.group_index.max()) + 1
        self._hash = hash(self.group_index.tobytes())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LeafPartition)
            and self._hash == other._hash
            and np.array_equal(self.group_index, other.group_index)
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def covers(self) -> bool:
        """True if every leaf is in a group."""
        return bool((self.group_index >= 0).all())

    def map_groups(self, groups: Indices) -> Indices | None:
        """Return, for each group of `groups`, the group of this partition that contains it.

        Without a group that contains it the result is −1. If some group here is not a union of groups of `groups`, the
        method returns None.

        Args:
            groups: The group of every leaf, from 0 on; −1 without a group, (leaves,).
        """
        inside = self.group_index >= 0
        if (groups[inside] < 0).any():
            return None
        out = np.full(int(groups.max()) + 1, -1, dtype=np.intp)
        out[groups[inside]] = self.group_index[inside]
        there = groups >= 0
        return out if np.array_equal(out[groups[there]], self.group_index[there]) else None

    def join(self, other: LeafPartition) -> LeafPartition:
        """Return the smallest unions of groups of both, without those that have a leaf without a group in one."""
        # a graph of all groups, joined where they have a leaf in common, and of one node for leaves without a group
        n, out = self.size + other.size, self.size + other.size
        mine = np.where(self.group_index < 0, out, self.group_index)
        theirs = np.where(other.group_index < 0, out, self.size + other.group_index)
        graph = sp.coo_array((np.ones(len(mine)), (mine, theirs)), shape=(n + 1, n + 1))
        _, label = connected_components(graph, directed=False)
        return LeafPartition(np.where(label[mine] == label[out], -1, label[mine]))


@final
@dataclass(frozen=True, eq=False)
class CountColumn:
    """A column of a table of counts.

    home: The attribute, hierarchy or joint axis of the column; the cells of a joint axis are its leaves. Attributes of
        one joint axis are one column of a table.
    atom_index: The atom of every leaf, −1 without an atom, (leaves,).
    atoms: The number of atoms.
    rows: The number of rows.
    atoms_from_rows: The integers that make atoms of rows, (atoms, rows); None if rows are atoms.
    rows_from_atoms: The rows as sums of atoms, (rows, atoms); None if there are not more rows than atoms.
    """

    home: str
    atom_index: Indices
    atoms: int
    rows: int
    atoms_from_rows: sp.csr_array | None = None
    rows_from_atoms: sp.csr_array | None = None

    @cached_property
    def parts(self) -> LeafPartition:
        """The atoms as groups, without their order."""
        return LeafPartition(self.atom_index)

    def summed(self, to: LeafPartition | None) -> sp.csr_array:
        """Return the matrix from rows to sums of atoms: to groups, or without groups to the sum of all."""
        sums = _merged(self.atom_index, self.atoms, to)
        return sums if self.atoms_from_rows is None else sp.csr_array(sums @ self.atoms_from_rows)


def home_and_leaves(domain: Domain, name: str) -> tuple[str, Indices]:
    """Return the attribute, hierarchy or joint axis of an attribute or level, and its cell for each leaf there.

    A joint axis with an amount is left out: it shares no counts. So is one with classes, which are no leaves
    (:func:`fitnoise.request.joint_axes.without_classes`).

    Args:
        domain: The domain.
        name: An attribute or a level. Attributes of one joint axis share its cells as leaves, and so their sums.
    """
    home, axes = domain.attribute_of(name), domain.axes
    listed = (one for one in axes.joint.values() if one.name not in domain.steps and not any(one.classes))
    joint = next((one for one in listed if home in axes.attributes_of(one.name)), None)
    return (home, leaves(domain, name)) if joint is None else (joint.name, cells_along(domain, joint, name))


def _with_leaves(column: CountColumn) -> CountColumn:
    """Return a column without atoms that have no leaf: their numbers are 0."""
    present = np.unique(column.atom_index[column.atom_index >= 0])
    if len(present) == column.atoms:
        return column
    position = np.full(column.atoms + 1, -1, dtype=np.intp)
    position[present] = np.arange(len(present))
    atoms_from_rows = sp.eye_array(column.rows) if column.atoms_from_rows is None else column.atoms_from_rows
    return CountColumn(
        column.home,
        position[column.atom_index],
        len(present),
        column.rows,
        sp.csr_array(sp.csr_array(atoms_from_rows)[present]),
        sp.csr_array(_rows_from_atoms(column)[:, present]),
    )


def _joined(columns: Sequence[CountColumn]) -> CountColumn:
    """Return columns of one home as one column, whose rows are all combinations of their rows, in C order."""
    if len(columns) == 1:
        return columns[0]
    sizes = [c.atoms for c in columns]
    inside = np.all([c.atom_index >= 0 for c in columns], axis=0)
    index = np.full(len(inside), -1, dtype=np.intp)
    index[inside] = np.ravel_multi_index([c.atom_index[inside] for c in columns], sizes)
    atoms_from_rows = _product(sp.eye_array(c.rows) if (m := c.atoms_from_rows) is None else m for c in columns)
    rows_from_atoms = _product(_rows_from_atoms(c) for c in columns)
    rows = math.prod(c.rows for c in columns)
    return _with_leaves(CountColumn(columns[0].home, index, math.prod(sizes), rows, atoms_from_rows, rows_from_atoms))


def _rows_from_atoms(column: CountColumn) -> sp.csr_array:
    """Return the rows of a column as sums of its atoms."""
    if column.rows_from_atoms is not None:
        return column.rows_from_atoms
    # Without more rows than atoms, the integers that make atoms of rows are invertible.
    inverse = (
        np.eye(column.atoms) if column.atoms_from_rows is None else np.linalg.inv(column.atoms_from_rows.toarray())
    )
    return sp.csr_array(np.rint(inverse))


_COUNTS = "Integer tables are made of tables of counts."

_NAME = "Name only tables that can be made integer tables."


def _column(domain: Domain, table: Table, name: str, view: View) -> CountColumn:
    """Return a column of a table of counts.

    Raises:
        ReleaseError: The column shows sums, changes or averages, or overlapping groups whose intersections it does not.
    """
    attribute, (home, leaf_cells) = domain[name], home_and_leaves(domain, name)
    if name in (*table.summed, *(table.averaged or ())[:1]):
        raise ReleaseError(
            "integer-table-of-sums",
            f"Table {table.name!r} shows sums of {name!r}.",
            _COUNTS,
            _NAME,
            UNMADE,
            place=table.name,
        )
    if isinstance(view, Change):
        raise ReleaseError(
            "integer-table-of-changes",
            f"Table {table.name!r} shows changes along {name!r}, which may be negative.",
            _COUNTS,
            _NAME,
            UNMADE,
            place=table.name,
        )
    if isinstance(view, Average):
        raise ReleaseError(
            "integer-table-of-averages",
            f"Table {table.name!r} shows averages along {name!r}, which may be fractions.",
            _COUNTS,
            _NAME,
            UNMADE,
            place=table.name,
        )
    if view.is_by_value:
        return _with_leaves(CountColumn(home, leaf_cells, attribute.size, attribute.size))
    cells = _atoms(view, attribute)
    atoms, rows = int(cells.max()) + 1, len(view.labels(attribute))
    inside = np.flatnonzero(cells >= 0)
    sums = sp.csr_array((np.ones(len(inside)), (cells[inside], inside)), shape=(atoms, attribute.size))
    coefficients = row_coefficients(view, attribute, sums)
    # coefficients that are no integers would not make integer atoms of integer rows
    if coefficients is None or np.abs(coefficients.data - np.rint(coefficients.data)).max() > ATOM_TOLERANCE:
        raise ReleaseError(
            "integer-table-of-overlaps",
            f"Table {table.name!r} does not show the overlap of the groups of {name!r}.",
            "Integer tables need the counts of all parts that groups have in common.",
            _NAME,
            UNMADE,
            place=table.name,
        )
    coefficients = sp.csr_array(coefficients[:, :rows])
    first_cells = np.unique(cells[inside], return_index=True)[1]
    rows_from_atoms = None
    if rows > atoms:
        # the cells of an atom are counted by the same rows, so one cell stands for all of them
        rows_from_atoms = sp.csr_array(rules.dense(view.operator(attribute))[:, inside[first_cells]].astype(np.float64))
    return _with_leaves(CountColumn(home, cells[leaf_cells], atoms, rows, coefficients, rows_from_atoms))


def _atoms(view: View, attribute: Attribute) -> Indices:
    """Return the atom of each cell of an attribute, −1 without one: cells counted by equal rows share an atom."""
    if isinstance(view, AtMost):
        # each row has one value more than the row before, so every value that a row adds is an atom
        out = np.full(attribute.size, -1, dtype=np.intp)
        out[: len(view.labels(attribute))] = np.arange(len(view.labels(attribute)))
        return out
    rows = rules.dense(view.operator(attribute))
    which = np.unique(rows, axis=1, return_inverse=True)[1].ravel()
    return LeafPartition(np.where(rows.any(axis=0), which, -1)).group_index


# --- shared sums ----------------------------------------------------------------------------------------

Sums = frozenset[tuple[str, LeafPartition]]
"""Sums over all attributes that are not named; for each named attribute, the groups that they distinguish."""


@final
@dataclass(frozen=True, eq=False)
class TableOverlap:
    """The shared sums of some tables of counts.

    tables: The columns of each table.
    orders: The order in which the columns of each table hold its numbers.
    having: For all sums that at least one table shows, the indices of the tables with these sums, finest sums first.
    public: The index of the table of public totals, the last one; None without public totals.
    """

    tables: Sequence[tuple[CountColumn, ...]]
    orders: Sequence[Indices]
    having: dict[Sums, list[int]]
    public: int | None = None

    @classmethod
    def from_tables(cls, domain: Domain, tables: Sequence[Table], public: Table | None = None) -> TableOverlap:
        """Return the shared sums of some tables.

        Args:
            domain: The domain of the tables.
            tables: The tables.
            public: A table of public totals. Its sums are shared ones, and it is not among the largest tables.

        Raises:
            ReleaseError: A table shows another statistic than counts, or counts without known atoms.
        """
        domain = without_classes(domain)
        workload_tables = [*tables, *([] if public is None else [public])]
        columns: dict[tuple[str, View], CountColumn] = {}
        for table in workload_tables:
            if table.matrix is not None:
                raise ReleaseError(
                    "integer-table-of-queries",
                    f"Table {table.name!r} shows explicit queries, which may not be counts.",
                    _COUNTS,
                    _NAME,
                    UNMADE,
                    place=table.name,
                )
            for name in table.attributes:
                if (name, table.view(name)) not in columns:
                    columns[name, table.view(name)] = _column(domain, table, name, table.view(name))
        all_columns, orders = list[tuple[CountColumn, ...]](), list[Indices]()
        for table in workload_tables:
            by_home: dict[str, list[int]] = {}
            own_columns = [columns[name, table.view(name)] for name in table.attributes]
            for position, column in enumerate(own_columns):
                by_home.setdefault(column.home, []).append(position)
            all_columns.append(tuple(_joined([own_columns[i] for i in positions]) for positions in by_home.values()))
            numbers = np.arange(math.prod(c.rows for c in own_columns)).reshape([c.rows for c in own_columns])
            orders.append(numbers.transpose([i for positions in by_home.values() for i in positions]).ravel())
        parts_by_home: dict[str, list[LeafPartition]] = {}
        for table_columns in all_columns:
            for column in table_columns:
                parts_by_home.setdefault(column.home, []).append(column.parts)
        groups = {home: _closed(dict.fromkeys(parts)) for home, parts in parts_by_home.items()}
        coarser = functools.cache(
            lambda home, part: [p for p in groups[home] if p.map_groups(part.group_index) is not None]
        )
        having: dict[Sums, list[int]] = {}
        for i, table_columns in enumerate(all_columns):
            choices = []
            for column in table_columns:
                options: list[LeafPartition | None] = [p for p in coarser(column.home, column.parts) if _tells(p)]
                # None sums over the attribute: only a column that counts every value can give this sum
                choices.append([None, *options] if column.parts.covers else options)
            for choice in itertools.product(*choices):
                key = frozenset((c.home, p) for c, p in zip(table_columns, choice, strict=True) if p is not None)
                having.setdefault(key, []).append(i)
        order = sorted(having, key=lambda key: -math.prod(p.size for _, p in key))
        last = None if public is None else len(tables)
        return cls(all_columns, orders, {key: having[key] for key in order}, last)

    def finest_sums(self, i: int) -> Sums:
        """Return all groups that a table distinguishes, by attribute."""
        return frozenset((c.home, c.parts) for c in self.tables[i] if _tells(c.parts))

    @cached_property
    def largest(self) -> list[int]:
        """The tables that no other table contains completely: of tables that show equal sums, the first."""
        out = []
        for i in range(len(self.tables)):
            sums = self.finest_sums(i)
            others = (j for j in self.having[sums] if j not in (i, self.public))
            if i != self.public and not any(j < i or self.finest_sums(j) != sums for j in others):
                out.append(i)
        return out

    def public_sums(self, i: int) -> Sums | None:
        """Return the finest sums of a table that public totals give; None if they give none."""
        return next((key for key, tables in self.having.items() if {i, self.public}.issubset(tables)), None)

    def links(self) -> Iterator[tuple[Sums, int, int]]:
        """Yield sums, each with the indices of two tables that have to agree on them.

        If these pairs agree, all tables agree on all their shared sums.
        """
        links: list[tuple[Sums, int, int]] = []
        for key, tables in self.having.items():
            if len(tables) > 1:
                # Tables that agree on a finer sum agree on this one. A link joins each further group of tables.
                above = dict(zip(tables, range(len(tables)), strict=True))
                finer = [(above[i], above[j]) for k, i, j in links if i in above and j in above and _finer(k, key)]
                ends = np.array(finer, dtype=np.intp).reshape(-1, 2).T
                graph = sp.coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(len(tables),) * 2)
                first_tables = np.unique(connected_components(graph, directed=False)[1], return_index=True)[1]
                new = [(key, tables[0], tables[k]) for k in np.sort(first_tables).tolist()[1:]]
                links += new
                yield from new

    def summed(self, i: int, key: Sums) -> sp.csr_array:
        """Return the matrix from a table's numbers to some of its sums, by attribute in alphabetical order."""
        partitions = dict(key)
        out = _product(c.summed(partitions.get(c.home)) for c in self.tables[i])
        names = [c.home for c in self.tables[i] if c.home in partitions]
        sizes = [partitions[name].size for name in names]
        # the columns of two tables may be in different orders, and their sums are compared one by one
        order = np.arange(math.prod(sizes)).reshape(sizes).transpose(np.argsort(names)).ravel()
        return self._of_numbers(i, sp.csr_array(out[order]))

    def _of_numbers(self, i: int, matrix: sp.csr_array) -> sp.csr_array:
        """Return a matrix from the numbers of a table, column by column, as one from its numbers in their order."""
        return sp.csr_array(matrix[:, np.argsort(self.orders[i])])

    @cached_property
    def common(self) -> list[Sums]:
        """The sums that more than one table shows, finest first."""
        return [key for key, tables in self.having.items() if len(tables) > 1]

    def nested(self) -> Iterator[tuple[int, int, sp.csr_array]]:
        """Yield pairs of shared sums of which one is a sum of the other: both indices, finer first, and the matrix."""
        for j, coarse in enumerate(self.common):
            partitions = dict(coarse)
            for i, fine in enumerate(self.common):
                if i != j and _finer(fine, coarse):
                    yield (
                        i,
                        j,
                        _product(
                            _merged(p.group_index, p.size, partitions.get(home))
                            for home, p in sorted(fine, key=lambda x: x[0])
                        ),
                    )

    def atoms(self, i: int) -> sp.csr_array | None:
        """Return the matrix from a table's numbers to its atoms; None if its numbers are the atoms."""
        if all(c.atoms_from_rows is None for c in self.tables[i]):
            return None
        factors = (sp.eye_array(c.rows) if c.atoms_from_rows is None else c.atoms_from_rows for c in self.tables[i])
        return self._of_numbers(i, _product(factors))

    def repeated(self, i: int) -> Iterator[sp.csr_array]:
        """Yield the combinations of a table's numbers that are 0, where its columns have more rows than atoms."""
        columns = self.tables[i]
        for k, column in enumerate(columns):
            if column.rows_from_atoms is not None and column.atoms_from_rows is not None:
                here = sp.csr_array(column.rows_from_atoms @ column.atoms_from_rows) - sp.eye_array(column.rows)
                factors = [here if j == k else sp.eye_array(c.rows) for j, c in enumerate(columns)]
                yield self._of_numbers(i, _product(factors))


def _merged(groups: Indices, size: int, to: LeafPartition | None) -> sp.csr_array:
    """Return the matrix from groups of leaves to unions of them, or to the sum of all."""
    group_of = np.zeros(size, dtype=np.intp) if to is None else to.map_groups(groups)
    assert group_of is not None  # noqa: S101 - callers request only unions of these groups
    included = np.flatnonzero(group_of >= 0)
    shape = (1 if to is None else to.size, size)
    return sp.csr_array((np.ones(len(included)), (group_of[included], included)), shape=shape)


def _product(factors: Iterable[sp.sparray]) -> sp.csr_array:
    """Return the Kronecker product of some matrices; without any, that of a table of one number."""
    head, *rest = [cast("sp.csr_array", x) for x in factors] or [sp.csr_array(np.ones((1, 1)))]
    return sp.csr_array(functools.reduce(lambda x, y: sp.kron(x, y, format="csr"), rest, sp.csr_array(head)))


def _tells(parts: LeafPartition) -> bool:
    """Return True if groups distinguish more than the sum of all."""
    return parts.size != 1 or not parts.covers


def _closed(partitions: dict[LeafPartition, None]) -> list[LeafPartition]:
    """Return groups, with all their common unions."""
    out = list(partitions)
    for i, one in enumerate(out):  # the list grows meanwhile, so unions of unions have their turn
        for other in out[:i]:
            both = one.join(other)
            if both.size and both not in out:
                out.append(both)
    return out


def _finer(fine: Sums, coarse: Sums) -> bool:
    """Return True if the coarse sums are sums of the fine ones."""
    mine, theirs = dict(fine), dict(coarse)
    inside = all(home in mine and p.map_groups(mine[home].group_index) is not None for home, p in theirs.items())
    return inside and all(p.covers for home, p in mine.items() if home not in theirs)
