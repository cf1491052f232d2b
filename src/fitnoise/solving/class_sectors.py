"""Sectors of tables whose attributes have classes of interchangeable values.

Rules treat the values of one class in the same way, and tables show each value by itself. So the values of a class can
be exchanged, and those of different classes cannot.

| letter | meaning |
|---|---|
| a, k | an attribute with classes; one of its classes, of n_{a,k} values |
| κ | a combination of classes, one of each such attribute: a structured cell |
| A, α | a table; classes of the attributes with classes that it shows |

**Form.** Each class (a, k) of two values or more is an exchangeable attribute of its own, and classes are structured. A
table is split into one block for each α. The block has the axes (a, α_a), and its one row of structured cells counts
κ_A = α. A sector is a set of axes (a, k). Two classes of one attribute are never in one sector, because no block shows
both. The rows of a sector with (a, k) are 0 at the κ of other classes. So a position of their records along (a, k)
never matters, and the formulas of sectors hold as they are. With one class of each attribute, these are the sectors of
:mod:`fitnoise.solving.sectors`; with classes of one value, structured cells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Array, Indices
from fitnoise.kernel.domain import class_axis
from fitnoise.request.impossible_rules import Mask
from fitnoise.request.joint_axes import attributes_along, class_sizes, classes_along, joint_axis
from fitnoise.request.workloads import Table, Workload, exchangeable_attributes, used_attributes
from fitnoise.solving.sectors import (
    MAX_STRUCTURED_CELLS,
    Decomposition,
    TableBlock,
    TableGroup,
    axes_by_attribute,
    no_possible_record,
    sectors_of_tables,
)

MAX_BLOCKS = 2**13
"""The largest number of blocks of all tables: each is placed in its sectors on its own."""


def decompose_by_class(
    workload: Workload,
    classes: Mapping[str, Indices],
    separate: Collection[str],
    is_possible: Callable[[Sequence[str]], Mask] | None = None,
    bases: Sequence[NDArray[np.int64]] | None = None,
) -> Decomposition:
    """Put a workload in sectors if some attributes have classes of interchangeable values.

    Attributes of a joint axis have the classes of this axis, too, and its cells are structured cells.

    Args:
        workload: The tables, without explicit queries.
        classes: For each attribute with classes, the class of each value, from 0 on. Each table shows it value by value
            or not at all.
        separate: Further attributes whose values are not interchangeable.
        is_possible: A function of the structured attributes that returns True for their possible joint cells, in C
            order. The impossible ones, and numbers that count only these, are then left out. None keeps all.
        bases: One integer basis for each group of sectors, as stored in a plan; None lets the function choose them.

    Raises:
        WorkloadError: There are too many combinations of classes, or too many blocks. Or all numbers of a table are 0.
    """
    domain = workload.domain
    free, bound = exchangeable_attributes(workload, [*separate, *classes])
    shape = tuple(int(classes[a].max()) + 1 if a in classes else domain.sizes[a] for a in bound)
    labels_of = {a: classes[a] for a in bound if a in classes}
    labels_of |= classes_along(domain, bound, used_attributes(workload))
    members = {a: [np.flatnonzero(row == k) for k in range(int(row.max()) + 1)] for a, row in labels_of.items()}
    lengths_of = {a: domain.sizes[a] for a in free} | class_sizes(labels_of)
    names, lengths = list(lengths_of), list(lengths_of.values())
    if math.prod(shape) > MAX_STRUCTURED_CELLS:
        raise WorkloadError(
            "too-many-class-combinations",
            f"The attributes {bound} have {math.prod(shape):,} combinations of classes of values that rules and tables "
            "treat in the same way.",
            f"At most {MAX_STRUCTURED_CELLS:,} combinations of classes are estimated.",
            "Use rules on fewer attributes.",
            "Nothing was planned.",
        )
    possible = None if is_possible is None else is_possible(bound)
    cutter = _BlockCutter(workload, free, bound, members, names, possible)
    is_planned = len(labels_of) > len(classes)
    tables: list[TableGroup] = []
    blocks: list[TableBlock] = []
    start = 0
    for number, table in enumerate(workload.tables):
        before = len(blocks)
        for block, group in cutter.blocks(table, number, start, before):
            blocks.append(block)
            tables.append(group)
            start += group.variances.size
            if len(blocks) > MAX_BLOCKS:
                raise WorkloadError(
                    "too-many-blocks-of-tables",
                    f"Rules divide the tables into more than {MAX_BLOCKS:,} blocks.",
                    "Each block shows one class of each attribute of the rules.",
                    "Use rules on fewer attributes.",
                    "Nothing was planned.",
                )
        if is_planned and len(blocks) == before:
            raise no_possible_record(f"The table {table.name!r}")
    groups, shift = sectors_of_tables(tables, np.array(lengths, dtype=np.int64), bases)
    if possible is not None:
        bound, shape = [POSSIBLE], (int(possible.sum()),)
    return Decomposition(
        tuple(names), tuple(lengths), tuple(bound), shape, tuple(tables), groups, shift, blocks=tuple(blocks)
    )


POSSIBLE = "possible combinations"
"""The structured axis of the possible joint cells, which are listed."""


class _BlockCutter:
    """The blocks of tables.

    workload, free, bound: The tables, and the exchangeable and structured attributes.
    members: For each attribute with classes the values of each class.
    names: The names of all exchangeable axes.
    possible: True for the structured cells that remain; None for all.
    """

    def __init__(
        self,
        workload: Workload,
        free: Sequence[str],
        bound: Sequence[str],
        members: Mapping[str, Sequence[Indices]],
        names: Sequence[str],
        possible: Mask | None,
    ) -> None:
        self._workload, self._bound, self._members, self._names = workload, bound, members, names
        self._possible = possible
        self._axes = axes_by_attribute(workload, free)
        self._axis = {home: a for a in bound for home in attributes_along(workload.domain, a)}
        self._queries: dict[tuple[object, ...], Array] = {}

    def blocks(
        self, table: Table, number: int, start: int, first_block: int
    ) -> Iterator[tuple[TableBlock, TableGroup]]:
        """Yield the blocks of a table, each with its position among all tables of a decomposition.

        Args:
            table: The table.
            number: Its index in the workload.
            start: The number of rows of all blocks before.
            first_block: The number of blocks before.
        """
        domain, shape = self._workload.domain, table.shape(self._workload.domain)
        targets = table.variances(domain, self._workload.confidence)
        classed = [a for a in table.attributes if a in self._members]
        index = 0
        for alpha in itertools.product(*(range(len(self._members[a])) for a in classed)):
            chosen = dict(zip(classed, alpha, strict=True))
            queries = self._structured_queries(table, chosen)
            if not queries.any():
                continue
            columns = tuple(
                self._members[a][chosen[a]] if a in chosen else np.arange(n)
                for a, n in zip(table.attributes, shape, strict=True)
            )
            # Columns along exchangeable axes come first; a class of one value has none.
            by_column = [self._column_axes(a, chosen) for a in table.attributes]
            outer = [i for i, axes in enumerate(by_column) if axes]
            inner = sorted(
                (i for i, axes in enumerate(by_column) if not axes), key=lambda i: self._order(table.attributes[i])
            )
            now = [(i, j) for i in (*outer, *inner) for j in range(len(by_column[i]) or 1)]
            spans = tuple(len(axes) or 1 for axes in by_column)
            transpose = tuple(now.index((i, j)) for i, n in enumerate(spans) for j in range(n))
            axes = [x for i in outer for x in by_column[i]]
            inner_shape = tuple(len(columns[i]) for i in inner)
            # Exchangeable columns have one target, so the least one stands for them.
            rows = targets[np.ix_(*columns)].transpose([*outer, *inner]).reshape(-1, math.prod(inner_shape)).min(axis=0)
            group = TableGroup(
                tables=np.array([first_block + index]),
                axes=np.array([axes], dtype=np.intp).reshape(1, -1),
                queries=queries,
                variances=rows[None],
                starts=np.array([start]),
                cells=np.array([math.prod((float(len(columns[i])) for i in outer), start=1.0)]),
                inner_shape=inner_shape,
                transpose=transpose,
                spans=spans,
            )
            start, index = start + len(rows), index + 1
            yield TableBlock(number, columns), group

    def _order(self, attribute: str) -> int:
        """Return the position of a structured attribute among all, in the order of the domain."""
        return [*self._axis].index(self._workload.domain.attribute_of(attribute))

    def _column_axes(self, attribute: str, chosen: Mapping[str, int]) -> list[int]:
        """Return the exchangeable axes along which a block shows an attribute."""
        if attribute not in chosen:
            return list(self._axes.get(attribute, ()))
        name = class_axis(attribute, chosen[attribute])
        return [self._names.index(name)] if name in self._names else []

    def _structured_queries(self, table: Table, chosen: Mapping[str, int]) -> Array:
        """Return the queries of a block on the structured cells; equal ones are one array."""
        domain = self._workload.domain
        factors: list[op.Operator] = []
        for axis in self._bound:
            displayed = [a for a in table.attributes if self._axis.get(domain.attribute_of(a)) == axis]
            if axis in self._members:
                classes = len(self._members[axis])
                row = np.ones((1, classes)) if axis not in chosen else np.eye(classes)[[chosen[axis]]]
                factors.append(op.Dense(row.astype(np.int64)))
                continue
            by_value = sorted((a for a in displayed if a not in chosen), key=self._order)
            factor = table.query_matrix(domain, axis, by_value)
            joint = joint_axis(domain, axis)
            if joint is not None and any(joint.classes):
                # A block counts only the cells of its classes.
                inside = [joint.column(a) == chosen[a] for a in displayed if a in chosen]
                factor = op.Dense(rules.dense(factor) * np.all([np.ones(len(joint.cells), bool), *inside], axis=0))
            factors.append(factor)
        operator = op.Kronecker(tuple(factors))
        key = (operator.shape, operator)
        if key not in self._queries:
            queries = rules.dense(operator)
            self._queries[key] = queries if self._possible is None else queries[:, self._possible]
        return self._queries[key]
