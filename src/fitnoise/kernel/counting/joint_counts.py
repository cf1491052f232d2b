"""The counts over many margins, of records that come in batches. Part of the trust kernel.

**Purpose.** A record is one small integer per attribute: its cell. The cost of a margin is the computation of each
record's place in it. So margins can be counted jointly, in one table, and summed down from there. An engine chooses the
tables (:mod:`fitnoise.engines.joint_tables`). The choice changes no count, only the time: tables that do not hold each
margin once are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.counting._base import Lost, Margin, Margins, ProgressFilter
from fitnoise.kernel.counting.margins import blank, summed
from fitnoise.kernel.counting.persons import SHARE_KEY

BATCH_BYTES: Final = 2**26
"""The bytes of cells that are counted at a time; the working memory is about three times that."""

_BLOCK: Final = 2**16
"""The number of records whose places are computed at a time: few enough to stay in the processor's cache."""


@final
@dataclass(frozen=True)
class JointMargin:
    """A counted table, and the margins that are summed down from it.

    attributes: The attributes of the table, in the order of its axes.
    margins: True if the table is itself a requested margin, and so counted where its counts are stored.
    members: The requested margins that are summed down from the table, without the table itself.
    """

    attributes: Margin
    margins: bool
    members: tuple[Margin, ...]


TableChoice = Callable[[Sequence[Margin], Mapping[str, int], int], Sequence[JointMargin]]
"""A function that returns tables for margins, from the sizes of attributes and the number of records of a batch."""


def single_tables(margins: Sequence[Margin], sizes: Mapping[str, int], records: int) -> list[JointMargin]:
    """Return a table for each margin by itself."""
    del sizes, records  # the signature of a choice
    return [JointMargin(m, True, ()) for m in margins]


@final
class MarginCounts:
    """The counts over many margins, of records that come in batches.

    Args:
        margins: The margins to count.
        sizes: The number of cells per attribute, for at least the attributes used. With `SHARE_KEY` among them, records
            come with the parts that they count, below its size.
        gauge: The gauge that receives the counted fraction of the records read.
        steps: For attributes that are amounts, K_s: the numbers of steps from each knot to the next. A record comes as
            its step j, or as ∑ K_s + 1 and so on for missing-value categories.
        lost: The counter of records left out; default one of its own.
        choose: The choice of joint tables for margins without an amount; default a table for each margin.

    Raises:
        DataError: The counts exceed the memory of the machine.
        ValueError: When the first records are counted: the chosen tables do not hold each margin once.

    **Guarantees**
        * A record adds one, or its parts, to one cell of every margin, for any other records that come with it.
        * Along an amount it adds 1 − j times that to the first knot and J_s times to each other (`sum_up`). Several
          amounts multiply, modulo 2⁶⁴.
        * Memory, apart from the counts, is about three times `BATCH_BYTES`, if no batch of records is larger.
    """

    def __init__(
        self,
        margins: Sequence[Margin],
        sizes: Mapping[str, int],
        gauge: ProgressFilter,
        steps: Mapping[str, tuple[int, ...]] | None = None,
        lost: Lost | None = None,
        choose: TableChoice = single_tables,
    ) -> None:
        self._choose = choose
        self.lost = Lost() if lost is None else lost
        self._counts = blank(margins, sizes)
        self._used = {a: sizes[a] for m in margins for a in m}
        self._steps = {a: k for a, k in (steps or {}).items() if a in self._used}
        self._codes = self._used | {a: sum(k) + self._used[a] - len(k) for a, k in self._steps.items()}
        self._codes |= {SHARE_KEY: sizes[SHARE_KEY]} if SHARE_KEY in sizes else {}
        self._gauge = gauge
        self._joint: list[JointMargin] | None = None
        self._held: list[dict[str, NDArray[Any]]] = []
        self._records = 0
        # Records are held until they fill the working memory, so that each table is filled in few long passes.
        self._full = max(1, BATCH_BYTES // max(1, sum(_unsigned(s).itemsize for s in self._codes.values())))
        self._read = 0.0
        self._done = 0.0
        self.outside = dict.fromkeys((a for a in sizes if a != SHARE_KEY), 0)

    def take(self, cells: Mapping[str, NDArray[Any]], records: int, read: float = 0.0, *, drop: bool) -> None:
        """Add records, as `add` does; a record without a cell in one of the attributes counts in no table.

        DROPPED records, and with `drop` also OUTSIDE ones, are left out (`codings`). The number of any others without a
        cell is added to `outside`. After the first of them the tables take no more records: the numbers in `outside`
        suffice to refuse the data.
        """
        cells, records = self.keep(cells, records, drop=drop)
        if not any(self.outside.values()):
            self.add(cells, records, read)

    def keep(
        self, cells: Mapping[str, NDArray[Any]], records: int, *, drop: bool
    ) -> tuple[Mapping[str, NDArray[Any]], int]:
        """Return the cells and the number of records that are not left out; add those without a cell to `outside`."""
        if (out := self.lost.find(cells, records, drop=drop)) is not None:
            cells, records = {a: c[~out] for a, c in cells.items()}, int((~out).sum())
        for a, c in cells.items():
            if c.dtype.kind == "i" and records and c.min() < 0:
                self.outside[a] += int((c < 0).sum())
        return cells, records

    def add(self, cells: Mapping[str, NDArray[Any]], records: int, read: float = 0.0) -> None:
        """Add records that are inside in all attributes.

        Args:
            cells: The cells by attribute, shape (records,) each.
            records: The number of these records.
            read: The fraction of all records that has been read so far.
        """
        self._held.append({a: cells[a].astype(_unsigned(s)) for a, s in self._codes.items()})
        self._records += records
        self._read = max(read, self._read)
        # Reading is one half of the progress, and counting the other.
        self._gauge((self._read + self._done) / 2)
        if self._records >= self._full:
            self._count()

    def finish(self) -> Margins:
        """Return the counts of all records."""
        self._read = 1.0
        self._count()
        # A table that is a margin gathers all batches in its own counts, and its members are summed from it once.
        for joint in self._joint or ():
            if joint.margins:
                self._sum(joint, self._counts[joint.attributes])
        return self._counts

    def _count(self) -> None:
        """Count the held records in every table, and hold none of them any longer."""
        batch = {a: np.concatenate([h[a] for h in self._held]) for a in self._codes} if self._held else {}
        records, self._records, self._held = self._records, 0, []
        if not records:
            return
        if self._joint is None:
            summed_up = [m for m in self._counts if not self._steps.keys().isdisjoint(m)]
            counted = [m for m in self._counts if m not in summed_up]
            chosen = _checked_tables(self._choose(counted, self._used, records), counted)
            self._joint = [*chosen, *single_tables(summed_up, self._used, records)]
        rest = self._read - self._done
        for i, joint in enumerate(self._joint):
            self._fill(joint, batch, records)
            self._gauge((self._read + self._done + rest * (i + 1) / len(self._joint)) / 2)
        self._done = self._read

    def _fill(self, joint: JointMargin, batch: Mapping[str, NDArray[Any]], records: int) -> None:
        sizes = [self._used[a] for a in joint.attributes]
        columns = [batch[a] for a in joint.attributes]
        parts = batch[SHARE_KEY].astype(np.int64) if SHARE_KEY in batch else np.broadcast_to(np.int64(1), records)
        if not self._steps.keys().isdisjoint(joint.attributes):
            steps = [self._steps.get(a, ()) for a in joint.attributes]
            sum_up(self._counts[joint.attributes], columns, steps, parts)
        elif joint.margins:
            _tabulate(self._counts[joint.attributes].reshape(-1), columns, sizes, parts)
        else:
            table = np.zeros(math.prod(sizes), dtype=np.int64)
            _tabulate(table, columns, sizes, parts)
            self._sum(joint, table.reshape(sizes))

    def _sum(self, joint: JointMargin, table: NDArray[Any]) -> None:
        for m in joint.members:
            self._counts[m] += summed(table, joint.attributes, m)


def _checked_tables(tables: Sequence[JointMargin], margins: Sequence[Margin]) -> Sequence[JointMargin]:
    """Return tables that hold each of these margins once; raise ValueError for any others."""
    held = [m for t in tables for m in (*t.members, *([t.attributes] if t.margins else []))]
    is_inside = all(len({*t.attributes}) == len(t.attributes) for t in tables) and all(
        {*m} <= {*t.attributes} for t in tables for m in t.members
    )
    if sorted(held) != sorted(margins) or not is_inside:
        raise ValueError("the chosen tables do not hold each margin once")
    return tables


def _unsigned(size: int) -> np.dtype[Any]:
    """Return the smallest unsigned type that holds `size`, and so each cell or place below it."""
    return np.min_scalar_type(size)


def _tabulate(
    table: NDArray[np.int64], columns: Sequence[NDArray[Any]], sizes: Sequence[int], parts: NDArray[np.int64]
) -> None:
    """Add the parts of each record to its place in a flat table, in C order of the columns.

    columns: The cells of the records, shape (records,) each.
    parts: Shape (records,); the stride is 0 if one number holds for all records.
    """
    if not columns:
        table += parts.sum()
        return
    kind = _unsigned(len(table))
    is_constant = not parts.strides[0]  # one number for all of them, which is added faster
    for start in range(0, len(parts), _BLOCK):
        block = slice(start, start + _BLOCK)
        index = columns[0][block].astype(kind)
        for column, size in zip(columns[1:], sizes[1:], strict=True):
            # NumPy multiplies in the type of `index`, which must therefore hold `size` too (`_unsigned`).
            index *= size
            index += column[block]
        np.add.at(table, index.astype(np.intp), parts[0] if is_constant else parts[block])


def sum_up(
    counts: NDArray[np.int64],
    columns: Sequence[NDArray[Any]],
    steps: Sequence[tuple[int, ...]],
    records: NDArray[np.int64],
) -> None:
    """Add 1 − j to the first knot of an amount and J_s to each other knot s, for given numbers of records: modulo 2⁶⁴.

    j is the step of a record. J_s = min(max(j − K_1 − … − K_{s−1}, 0), K_s), which is j with two knots. Several amounts
    multiply.

    counts: The counts, with an axis for each column; changed in place.
    columns: For each row the step j, or ∑ K_s + 1 and so on for the cells after the knots; the cell without an amount.
    steps: For each column, the numbers K_s of steps from each knot to the next; empty without an amount.
    records: The number of records of each row.
    """
    table = counts.reshape(-1)
    for start in range(0, len(records), _BLOCK):
        block = slice(start, start + _BLOCK)
        terms = [(np.zeros(len(records[block]), dtype=np.intp), records[block])]
        for column, size, pieces in zip(columns, counts.shape, steps, strict=True):
            code = column[block].astype(np.int64)
            if not pieces:
                terms = [(index * size + code, weight) for index, weight in terms]
                continue
            k, last = len(pieces), sum(pieces)
            is_between = code <= last
            j, cell = np.where(is_between, code, 0), np.where(is_between, 0, code - last + k)
            passed = zip(pieces, np.cumsum((0, *pieces)), strict=False)  # j is 0 for a record in a cell after the knots
            knots = [(cell, 1 - j), *((s, np.clip(j - t, 0, n)) for s, (n, t) in enumerate(passed, 1))]
            # Products of 64-bit arrays wrap silently, as the counts do.
            terms = [(index * size + knot, weight * part) for index, weight in terms for knot, part in knots]
        for index, weight in terms:
            np.add.at(table, index, weight)
