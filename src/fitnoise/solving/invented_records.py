"""Records whose tables come near given tables of counts: a start from a tree of pairs, then moves of single values.

The search makes the sum Σ_T w_T ‖n_T − t_T‖² small. It ends in a local minimum at best, and proves nothing.

    t_T     the given counts of table T
    n_T     the counts of the records in the cells of T
    w_T     the weight of T, an integer

1. *Start*: the public totals, if there are any, give the values of their attributes. All others follow a spanning
   forest of largest mutual information between pairs of attributes. Each attribute is drawn given its neighbour in the
   tree. Without a neighbour, its values are shuffled. Rules leave the values that some possible record has, given
   what was drawn and the public totals of what was not.
2. *Moves*: a batch proposes new values of one attribute for some records, drawn from one table given the other values
   of the record there. The proposals of a batch take their turns, and each is taken if the sum then falls. So no move
   disturbs another. No move changes the cell of a record among the public totals, and none leads to an impossible one.

Counts, weights and sums are integers, and the draws are fixed. Equal tables and an equal number of batches give equal
records. Only the time limit depends on the machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.arrays import Indices, Integers
from fitnoise.solving.fixed_random import FixedGenerator

Mask = NDArray[np.bool_]

PROPOSALS_PER_BATCH = 1024
"""The number of proposals of a batch."""

STALL_ROUNDS = 100
"""The number of rounds between two looks at the progress. A round has a batch for each column of each table."""

STALL_FACTOR = 0.99
"""The search ends if the sum of squares falls to no less than this part of its value at the look before."""

FACTOR = 1000
"""The weight of a counted record in the draws of new values; every cell adds a weight of 1."""

INFORMATION_DECIMALS = 9
"""The decimals of mutual information that are compared: the last digits depend on the machine."""


@final
@dataclass(frozen=True, eq=False)
class CountTable:
    """A table of counts, given as a target.

    axes: The attribute of each column.
    cells: For each column the cell of every value of its attribute; −1 for a value that the column does not count.
    counts: The given counts, one axis for each column.
    weight: The weight of the table in the sum of squares, from 1 on.
    """

    axes: tuple[int, ...]
    cells: tuple[Indices, ...]
    counts: Integers
    weight: int = 1

    @cached_property
    def _steps(self) -> tuple[Indices, ...]:
        """For each column and value the part of the position in the flat table; its size if it is not counted."""
        strides = [math.prod(self.counts.shape[i + 1 :]) for i in range(len(self.axes))]
        return tuple(np.where(x < 0, self.counts.size, x * s) for x, s in zip(self.cells, strides, strict=True))

    def positions(self, values: Indices) -> Indices:
        """Return the position of each record in the flat table; the table's size for records that it does not count.

        values: The value of each attribute for each record, (attributes, records).
        """
        total = np.zeros(values.shape[1], dtype=np.intp)
        for axis, steps in zip(self.axes, self._steps, strict=True):
            total += steps[values[axis]]
        return np.minimum(total, self.counts.size)

    def tally(self, values: Indices) -> Integers:
        """Return the counts of records, in the shape of the table.

        values: The value of each attribute for each record, (attributes, records).
        """
        size = self.counts.size
        counts = np.bincount(self.positions(values), minlength=size + 1)[:size]
        return np.asarray(counts.reshape(self.counts.shape), dtype=np.int64)

    def is_each_value(self, column: int) -> bool:
        """Return True if the cells of a column are the values of its attribute, one by one."""
        cells = self.cells[column]
        return len(cells) == self.counts.shape[column] and bool((np.sort(cells) == np.arange(len(cells))).all())

    @cached_property
    def is_complete(self) -> bool:
        """True if the table counts every record."""
        return all(bool((x >= 0).all()) for x in self.cells)

    def summed(self, columns: Sequence[int]) -> Integers:
        """Return the counts by some columns, in their order and by value; each of them shows every value."""
        others = tuple(i for i in range(len(self.axes)) if i not in columns)
        # `sum` leaves the columns in the order of the table
        counts = self.counts.sum(axis=others).transpose(np.argsort(np.argsort(columns)))
        return np.asarray(counts[np.ix_(*(self.cells[i] for i in columns))])

    def expanded(self) -> dict[int, tuple[Indices, Indices]]:
        """Return for each attribute the cell of every value, and the cells of the counted records, in order."""
        index = np.repeat(np.arange(self.counts.size), self.counts.ravel())
        return dict(
            zip(self.axes, zip(self.cells, np.unravel_index(index, self.counts.shape), strict=True), strict=True)
        )

    def split(self, axis: int) -> tuple[tuple[tuple[int, Indices], ...], Indices]:
        """Return the parts of a position: attribute and steps of other columns, and the steps of one attribute."""
        pairs = list(zip(self.axes, self._steps, strict=True))
        steps_of_axis = [steps for a, steps in pairs if a == axis]
        others = tuple((a, steps) for a, steps in pairs if a != axis)
        return others, np.asarray(sum(steps_of_axis[1:], steps_of_axis[0]))


@final
@dataclass(frozen=True, eq=False)
class PossibleValues:
    """The possible combinations of values of some attributes.

    axes: The attributes.
    possible: True for the possible combinations, in the shape of the values.
    """

    axes: tuple[int, ...]
    possible: Mask

    def restrict(
        self, axis_cells: Mapping[int, tuple[Indices, Indices]], records: int, axis: int | None = None
    ) -> tuple[Mask, Indices]:
        """Return the possible values of an attribute for each record, given what is known of the others.

        Args:
            axis_cells: For each known attribute the cell of every value, and the cell of each record.
            records: The number of records.
            axis: The attribute; None to ask only whether a record is possible.
        """
        possible, rows = self.possible, np.zeros(records, dtype=np.intp)
        for i, other in enumerate(self.axes):
            if other == axis:
                continue
            cells, record_cells = axis_cells.get(
                other, (np.zeros(possible.shape[i], dtype=np.intp), np.zeros_like(rows))
            )
            joined = np.zeros((_count_cells(cells, record_cells), *np.delete(possible.shape, i)), dtype=bool)
            np.logical_or.at(joined, cells, np.moveaxis(possible, i, 0))
            possible = np.moveaxis(joined, 0, i)
            rows = rows * possible.shape[i] + record_cells
        size = 1 if axis is None else possible.shape[self.axes.index(axis)]
        by_row = (possible if axis is None else np.moveaxis(possible, self.axes.index(axis), -1)).reshape(-1, size)
        rows, row_of = np.unique(rows, return_inverse=True)
        kinds, kind_of = np.unique(by_row[rows], axis=0, return_inverse=True)
        return kinds, kind_of.ravel()[row_of]

    def allows(self, values: Indices) -> Mask:
        """Return True for each possible record.

        values: The value of each attribute for each record, (attributes, records).
        """
        return np.asarray(self.possible[tuple(values[axis] for axis in self.axes)])


@final
class _Proposals:
    """New values of one attribute, drawn from a table given the values of the other columns.

    Args:
        table: The table.
        column: A column that shows every value.
    """

    def __init__(self, table: CountTable, column: int) -> None:
        self.axis = table.axes[column]
        others = [i for i in range(len(table.axes)) if i != column]
        counts = np.moveaxis(table.counts, column, -1)
        self._size = counts.shape[-1]
        rows = counts.size // self._size
        strides = [math.prod(counts.shape[i + 1 : -1]) for i in range(len(others))]
        cells = [table.cells[i] for i in others]
        self._steps = [
            (table.axes[i], np.where(x < 0, rows, x * stride))
            for i, x, stride in zip(others, cells, strides, strict=True)
        ]
        self._rows = rows
        # the last row is for records that the table does not count: all values are then equally likely
        chances = np.concatenate([FACTOR * np.maximum(counts, 0).ravel() + 1, np.ones(self._size, dtype=np.int64)])
        self._sums = np.cumsum(chances)
        self._starts = np.concatenate([[0], self._sums[self._size - 1 :: self._size]])
        self._values = np.argsort(table.cells[column])

    def draw(self, values: Indices, records: Indices, fixed: FixedGenerator) -> Indices:
        """Return a new value for each of some records."""
        row = np.zeros(len(records), dtype=np.intp)
        for axis, steps in self._steps:
            row += steps[values[axis, records]]
        row = np.minimum(row, self._rows)
        start = self._starts[row]
        chosen = np.floor(fixed.uniform(0.0, 1.0, (len(records),)) * (self._starts[row + 1] - start)).astype(np.int64)
        cells = np.searchsorted(self._sums, start + chosen, side="right") - row * self._size
        return np.asarray(self._values[cells])


@final
class _Search:
    """The records of a search, with the differences of their tables from the given ones.

    Args:
        values: The value of each attribute for each record, (attributes, records); the search changes them.
        tables: The given tables.
        public: Public totals: a record keeps the cell of each of their attributes.
        rules: The possible values, for each attribute of a rule.
    """

    def __init__(
        self,
        values: Indices,
        tables: Sequence[CountTable],
        public: CountTable | None,
        rules: Mapping[int, PossibleValues],
    ) -> None:
        self.values, self._rules = values, rules
        self._kept = {} if public is None else dict(zip(public.axes, public.cells, strict=True))
        self._fixed = FixedGenerator(1 << 48)  # the start draws from the beginning of the sequence
        # One vector of all tables. Each ends with a cell of weight 0, for records that the table does not count.
        sizes = [table.counts.size + 1 for table in tables]
        offsets = np.cumsum([0, *sizes])[:-1].tolist()
        self._weights = np.repeat([table.weight for table in tables], sizes)
        self._weights[np.cumsum(sizes) - 1] = 0
        self._off = np.concatenate([np.append((t.tally(values) - t.counts).ravel(), 0) for t in tables])
        self.objective = sum(int(w) * int(x) ** 2 for w, x in zip(self._weights, self._off, strict=True))
        placed = list(zip(offsets, tables, strict=True))
        self._by_axis = [
            [(offset, t.counts.size, *t.split(axis)) for offset, t in placed if axis in t.axes]
            for axis in range(len(values))
        ]

    def move(self, proposals: _Proposals) -> None:
        """Propose a batch of new values, and take those with which the objective falls."""
        count = self.values.shape[1]
        records = np.unique(self._fixed.integers(0, count, (min(PROPOSALS_PER_BATCH, count),)))
        values = proposals.draw(self.values, records, self._fixed)
        here = self.values[proposals.axis, records]
        differs = values != here
        if (cells := self._kept.get(proposals.axis)) is not None:
            differs &= cells[values] == cells[here]
        if (rule := self._rules.get(proposals.axis)) is not None:
            proposed = self.values[:, records]
            proposed[proposals.axis] = values
            differs &= rule.allows(proposed)
        records, values, here = records[differs], values[differs], here[differs]
        leaves, enters = self._cells(proposals.axis, records, here, values)
        gains = self._weights[enters] * (2 * self._off[enters] + 1)
        gains += self._weights[leaves] * (1 - 2 * self._off[leaves])
        changes = np.where(enters == leaves, 0, gains).sum(axis=0)
        taken, shifts = self._choose(np.flatnonzero(changes < 0), changes, leaves, enters)
        if taken:
            self.values[proposals.axis, records[taken]] = values[taken]
            self._off[list(shifts)] += list(shifts.values())

    def _cells(self, axis: int, records: Indices, here: Indices, values: Indices) -> tuple[Indices, Indices]:
        """Return the cells that records leave and enter, one row for each table with the attribute."""
        tables = self._by_axis[axis]
        leaves, enters = np.empty((2, len(tables), len(records)), dtype=np.intp)
        for k, (offset, size, others, own_steps) in enumerate(tables):
            rest = np.zeros(len(records), dtype=np.intp)
            for other, steps in others:
                rest += steps[self.values[other, records]]
            leaves[k] = offset + np.minimum(rest + own_steps[here], size)
            enters[k] = offset + np.minimum(rest + own_steps[values], size)
        return leaves, enters

    def _choose(
        self, candidates: Indices, changes: Integers, leaves: Indices, enters: Indices
    ) -> tuple[list[int], dict[int, int]]:
        """Return the proposals that are taken, and by how much they change the count of each cell.

        candidates: The proposals with which the objective would fall if each were alone.
        """
        taken, shifts = list[int](), dict[int, int]()
        both = np.concatenate([leaves[:, candidates], enters[:, candidates]]).T
        weights = self._weights[both]
        half = len(leaves)
        rows = zip(candidates.tolist(), changes[candidates].tolist(), both.tolist(), weights.tolist(), strict=True)
        for number, single_change, cells, weight in rows:
            change = single_change
            # earlier moves of the batch changed some cells; the change of a square is linear in these
            for k, cell in enumerate(cells):
                if cell in shifts:
                    change += (2 if k >= half else -2) * weight[k] * shifts[cell]
            if change < 0:
                for k, cell in enumerate(cells):
                    shifts[cell] = shifts.get(cell, 0) + (1 if k >= half else -1)
                taken.append(number)
                self.objective += change
        return taken, shifts


def invent(
    sizes: Sequence[int],
    tables: Sequence[CountTable],
    records: int,
    *,
    batches: int | None,
    seconds: float,
    public: CountTable | None = None,
    rules: Sequence[PossibleValues] = (),
) -> tuple[Indices, int]:
    """Return records whose tables come near the given ones, and the number of batches that were done.

    Args:
        sizes: The number of values of each attribute.
        tables: The given tables. For each attribute, at least one of them has a column that shows every value.
        records: The number of records.
        batches: The largest number of batches; None for the time limit instead.
        seconds: The time limit, without a number of batches.
        public: Public totals, which the records have exactly: their sum is the number of records.
        rules: The possible values of attributes, which are in one rule each. A record of each total is possible.

    Returns:
        The value of each attribute for each record, (attributes, records), sorted; and the number of batches. The
        search ends earlier if all tables are met, or if progress stalls.
    """
    by_axis = {axis: rule for rule in rules for axis in rule.axes}
    search = _Search(_start(sizes, tables, records, public, by_axis), tables, public, by_axis)
    fixed = set[int]() if public is None else {a for i, a in enumerate(public.axes) if public.is_each_value(i)}
    columns = [(t, i) for t in tables for i, a in enumerate(t.axes) if t.is_each_value(i) and a not in fixed]
    columns.sort(key=lambda pair: pair[0].axes[pair[1]])
    proposals = [_Proposals(t, i) for t, i in columns]
    end, done, before = time.monotonic() + seconds, 0, search.objective
    while columns and search.objective and (done < batches if batches is not None else time.monotonic() < end):
        search.move(proposals[done % len(proposals)])
        done += 1
        if done % (STALL_ROUNDS * len(proposals)) == 0:
            if search.objective >= STALL_FACTOR * before:
                break
            before = search.objective
    return sort_records(search.values), done


def expand(table: CountTable) -> Indices:
    """Return the records of a table that shows every value of all attributes, (attributes, records), sorted."""
    counts = table.summed(np.argsort(table.axes).tolist())
    return np.stack(np.unravel_index(np.repeat(np.arange(counts.size), counts.ravel()), counts.shape))


def sort_records(values: Indices) -> Indices:
    """Return records in the order of their values, first attribute first: their order then says nothing.

    values: The value of each attribute for each record, (attributes, records).
    """
    return np.asarray(values[:, np.lexsort(values[::-1])])


# --- the start --------------------------------------------------------------------------------------------------------


def _start(
    sizes: Sequence[int],
    tables: Sequence[CountTable],
    records: int,
    public: CountTable | None,
    rules: Mapping[int, PossibleValues],
) -> Indices:
    """Return possible records drawn along a spanning forest of pairs of attributes, (attributes, records)."""
    fixed, pairs = FixedGenerator(), _pairs(tables)
    information = {key: _mutual_information(counts) for key, counts in pairs.items()}
    values = np.zeros((len(sizes), records), dtype=np.intp)
    axis_cells = {} if public is None else public.expanded()
    done: set[int] = set()

    def draw(axis: int, condition: Indices, choices: Sequence[Integers]) -> None:
        """Draw the values of an attribute, and note it as known."""
        if axis in rules:
            kinds, kind_of = rules[axis].restrict(axis_cells, records, axis)
        else:
            kinds, kind_of = np.ones((1, sizes[axis]), dtype=bool), np.zeros(records, dtype=np.intp)
        values[axis] = _draw_given(condition, choices, kinds, kind_of, fixed)
        axis_cells[axis] = np.arange(sizes[axis]), values[axis]
        done.add(axis)

    for axis, (cells, record_cells) in list(axis_cells.items()):
        inside = cells == np.arange(_count_cells(cells, record_cells))[:, None]
        draw(axis, record_cells, [np.where(inside, _single(tables, axis), 0), inside.astype(np.int64)])
    for root in range(len(sizes)):
        if root not in done:
            single = _single(tables, root)[None]
            draw(root, np.zeros(records, dtype=np.intp), [single, np.ones_like(single)])
        while edges := [key for key in information if (key[0] in done) != (key[1] in done)]:
            one, other = max(edges, key=lambda key: (information[key], -edges.index(key)))
            counts = pairs[one, other]
            condition, axis = (one, other) if one in done else (other, one)
            by_condition = counts if condition == one else counts.T
            marginal = np.broadcast_to(_single(tables, axis), by_condition.shape)
            draw(axis, values[condition], [by_condition, marginal, np.ones_like(by_condition)])
    return values


def _count_cells(cells: Indices, record_cells: Indices) -> int:
    """Return the number of cells of an attribute, of its values and of records."""
    return int(max(cells.max(), record_cells.max(initial=0))) + 1


def _pairs(tables: Sequence[CountTable]) -> dict[tuple[int, int], Integers]:
    """Return the counts of each pair of attributes that a table shows by value, preferably from complete tables."""
    pairs: dict[tuple[int, int], Integers] = {}
    for table in sorted(tables, key=lambda t: not t.is_complete):
        columns = [i for i in range(len(table.axes)) if table.is_each_value(i)]
        for k, i in enumerate(columns):
            for j in columns[k + 1 :]:
                low, high = (i, j) if table.axes[i] < table.axes[j] else (j, i)
                key = (table.axes[low], table.axes[high])
                if key[0] != key[1] and key not in pairs:
                    pairs[key] = table.summed([low, high])
    return pairs


def _single(tables: Sequence[CountTable], axis: int) -> Integers:
    """Return the counts of the values of an attribute; from a complete table if possible."""
    candidates = [(t, i) for t in tables for i, a in enumerate(t.axes) if a == axis and t.is_each_value(i)]
    table, column = min(candidates, key=lambda pair: not pair[0].is_complete)
    return table.summed([column])


def _mutual_information(counts: Integers) -> float:
    """Return the mutual information of the rows and columns of a table, in nats, rounded."""
    shares = np.maximum(counts, 0) / max(int(counts.sum()), 1)
    products = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    inside = shares > 0
    return round(float((shares[inside] * np.log(shares[inside] / products[inside])).sum()), INFORMATION_DECIMALS)


def _apportion(counts: Integers, total: int) -> Integers:
    """Return integers in proportion to counts that add up to a total: floors, then the largest remainders."""
    floors, remainders = np.divmod(counts * total, counts.sum())
    floors[np.argsort(-remainders, kind="stable")[: total - int(floors.sum())]] += 1
    return np.asarray(floors)


def _draw_given(
    condition: Indices, choices: Sequence[Integers], kinds: Mask, kind_of: Indices, fixed: FixedGenerator
) -> Indices:
    """Return the values of an attribute, given those of another.

    condition: The value of the other attribute for each record, (records,).
    choices: Counts of both, (values of the other attribute, values). The first that counts a possible value is used.
    kinds: True for the possible values, one row for each kind of records.
    kind_of: The kind of each record.
    """
    out = np.empty_like(condition)
    keys = condition * len(kinds) + kind_of
    order = np.argsort(keys, kind="stable")
    unique_keys, starts = np.unique(keys[order], return_index=True)
    for key, start, end in zip(unique_keys, starts, np.append(starts, len(keys))[1:], strict=True):
        row, kind = divmod(int(key), len(kinds))
        possible = (np.where(kinds[kind], np.maximum(counts[row], 0), 0) for counts in choices)
        each = np.repeat(np.arange(kinds.shape[1]), _apportion(next(x for x in possible if x.any()), end - start))
        out[order[start:end]] = _shuffled(each, fixed)
    return out


def _shuffled(values: Indices, fixed: FixedGenerator) -> Indices:
    return np.asarray(values[np.argsort(fixed.uniform(0.0, 1.0, (len(values),)), kind="stable")])
