"""The counter of coded rows: persons, dropped records and margins. Part of the trust kernel.

**Purpose.** A reader opens data, reads records and codes them. It hands the coded rows over, and counts nothing: it
drops no record, chooses no record of a person, and knows no plan. :func:`tally` counts the rows of every such reader.

**Statement.** The rows are the records that meet the conditions. Of these, DROPPED records are left out, and with
`drop` also OUTSIDE ones; `lost` receives their numbers. All others without a cell are reported by attribute, for the
caller to refuse. With a bound, `persons` chooses among the records that have a cell in every attribute and an
id.

**Trust.** The counts are right if the reader keeps R1 to R3 (:class:`Rows`). The module refuses rows that no reader
means: columns of another length, a cell that the coding lacks, a missing column.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import DataError
from fitnoise.kernel.codings import OUTSIDE, Coding
from fitnoise.kernel.counting._base import Lost, Margin, Margins, ProgressFilter
from fitnoise.kernel.counting.joint_counts import MarginCounts, TableChoice, single_tables
from fitnoise.kernel.counting.persons import ID_KEY, MAX_ID_BYTES, SHARE_KEY, PersonSelector
from fitnoise.kernel.units import NO_PATTERN, SHARES_PER_RECORD, Pattern


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """Records as a reader hands them over.

    cells: The cells by attribute, shape (records,) each; below 0 for a record without a cell (`codings`). Along an
        amount the step j, or K + 1 and so on for missing-value categories; steps from zero (`uncut`) if it is merged.
    records: The number of records.
    persons: With a bound, the id of each record, in UTF-8; empty bytes for a record without one.
    read: The fraction of all records that has been read so far.
    """

    cells: Mapping[str, NDArray[Any]]
    records: int
    persons: Sequence[bytes] | None = None
    read: float = 0.0


class Rows(Protocol):
    """A reader that hands over coded records.

    **Guarantees**
        * R1: Each record of the data is one row of one batch, at most once, if it meets the conditions. No other record
          changes its cells: neither by its values or its place, nor by a type that is guessed from it. All rows are of
          one state of the data.
        * R2: The cells of a row are those of `codings` for the record's values, or one of the three numbers for no
          cell.
        * R3: The id of a row is the record's own, in the form of `persons`.
        * No error quotes a value of the data: `tally` passes the errors of a reader on.
    """

    def batches(self, attributes: Sequence[str]) -> Generator[Batch]:
        """Yield the records with their cells in these attributes, and with a bound their ids.

        attributes: The attributes of all margins, and those that drop records; with a bound all of the domain.
        """


@final
@dataclass(frozen=True)
class PersonRule:
    """The rule that chooses the counted records of a person (`persons`).

    order: The attributes by whose cells records of a person are put in order.
    limit: The largest number of counted records of a person; `None` for shares of all.
    pattern: The pattern that the counted records of a person keep to.
    merge: Amounts that are added up for each person before records are selected.
    """

    order: Sequence[str]
    limit: int | None
    pattern: Pattern = NO_PATTERN
    merge: tuple[str, ...] = ()

    def selector(self, codings: Mapping[str, Coding]) -> PersonSelector:
        """Return an empty collection of persons, whose records come with cells in the order of `columns`."""
        return PersonSelector(self.limit, self.order, self.pattern, {a: codings[a] for a in self.merge})

    def columns(self, codings: Mapping[str, Coding]) -> list[str]:
        """Return all attributes of the records, first those that put them in order."""
        return [*self.order, *(a for a in codings if a not in self.order)]


def tally(
    rows: Rows,
    codings: Mapping[str, Coding],
    margins: Sequence[Margin],
    gauge: ProgressFilter,
    *,
    drop: bool,
    rule: PersonRule | None = None,
    lost: Lost | None = None,
    choose: TableChoice = single_tables,
) -> tuple[Margins, dict[str, int]]:
    """Return the counts over margins of the rows, and for every attribute the reported number of records outside.

    With a rule, the records that have a cell in every attribute and an id are held until all are read.

    Args:
        rows: The reader.
        codings: The codings of the attributes in the rows.
        margins: Sets of these attributes; with a rule `ID_KEY` stands for the id.
        gauge: The gauge that receives the counted fraction.
        drop: True to drop records outside where the attribute states no action.
        rule: The rule for persons; `None` counts all records.
        lost: The counter of dropped records; default none is kept.
        choose: The choice of joint tables; default a table for each margin.

    Raises:
        DataError: The counts exceed the memory of the machine; no record was read.
        DataError: The rows are not records of these codings.
    """
    sizes = {a: coding.counted_size for a, coding in codings.items()} | ({} if rule is None else {ID_KEY: 1})
    sizes |= {SHARE_KEY: SHARES_PER_RECORD + 1} if rule is not None and rule.limit is None else {}
    steps = {a: k for a, coding in codings.items() if (k := coding.pieces)}
    counts = MarginCounts(margins, sizes, gauge, steps, lost, choose)
    if rule is None:
        for cells, _, records, read in _checked(rows, codings, rule):
            counts.take(cells, records, read, drop=drop)
        return counts.finish(), counts.outside
    persons, order = rule.selector(codings), rule.columns(codings)
    for cells, ids, records, _ in _checked(rows, codings, rule):
        counts.keep(cells, records, drop=drop)
        _hold(persons, ids, cells, order)
    for batch in persons.iter_counted():
        chosen, n = np.array([c for c, _ in batch]), np.array([n for _, n in batch])
        chosen, columns = (chosen, {SHARE_KEY: n}) if rule.limit is None else (np.repeat(chosen, n, axis=0), {})
        columns |= dict(zip(order, chosen.T, strict=True)) | {ID_KEY: np.zeros(len(chosen), dtype=np.int64)}
        counts.add(columns, len(chosen))
    return counts.finish(), counts.outside


def persons_left_out(rows: Rows, codings: Mapping[str, Coding], rule: PersonRule) -> int:
    """Return the number of persons of whom some records that have a cell in every attribute are not counted.

    Raises:
        DataError: The rows are not records of these codings.
    """
    persons, order = rule.selector(codings), rule.columns(codings)
    for cells, ids, _, _ in _checked(rows, codings, rule):
        _hold(persons, ids, cells, order)
    return persons.left_out()


def _hold(
    persons: PersonSelector, ids: Sequence[bytes], cells: Mapping[str, NDArray[Any]], order: Sequence[str]
) -> None:
    """Add to `persons` the records that have a cell in every attribute, with their cells in the given order."""
    inside = np.flatnonzero(np.all([c >= 0 for c in cells.values()], axis=0))
    persons.add([ids[int(i)] for i in inside], zip(*(cells[a][inside].tolist() for a in order), strict=True))


def _checked(
    rows: Rows, codings: Mapping[str, Coding], rule: PersonRule | None
) -> Iterator[tuple[dict[str, NDArray[Any]], Sequence[bytes], int, float]]:
    """Yield the cells of records, their ids, their number, and the fraction read so far.

    With a rule, `ID_KEY` is among the cells: 0 for an id, OUTSIDE for none.
    """
    merged = () if rule is None else rule.merge
    read_codings = {a: coding.uncut() if a in merged else coding for a, coding in codings.items()}
    with contextlib.closing(rows.batches([*codings])) as batches:
        for batch in batches:
            if not _is_coded(batch, read_codings) or (rule is not None and not _has_ids(batch)):
                raise DataError(
                    "rows-not-records",
                    "The reader of the data handed over rows that are not records of the domain.",
                    "Each row has one cell of each attribute.",
                    "Copy the data into a Parquet file, and count that file.",
                    "Nothing was measured and nothing was charged.",
                )
            cells, ids = {**batch.cells}, () if batch.persons is None else batch.persons
            if rule is not None:
                cells[ID_KEY] = np.array([0 if 0 < len(x) <= MAX_ID_BYTES else OUTSIDE for x in ids], dtype=np.int64)
            yield cells, ids, batch.records, batch.read


def _is_coded(batch: Batch, codings: Mapping[str, Coding]) -> bool:
    """Return True if a batch has a column of each attribute with cells of its coding."""
    shape = (batch.records,)
    return batch.cells.keys() == codings.keys() and all(
        type(c) is np.ndarray and c.shape == shape and c.dtype.kind in "iu" and _are_cells(c, codings[a])
        for a, c in batch.cells.items()
    )


def _are_cells(column: NDArray[Any], coding: Coding) -> bool:
    """Return True if each number is a cell of the coding, or one of the numbers by which it states no cell."""
    if not len(column):
        return True
    # DROPPED along a coding that drops nothing would leave out a record that the data source refuses.
    no_cells = set() if int(column.min()) >= 0 else {*np.unique(column[column < 0]).tolist()}
    return int(column.max()) < coding.size and no_cells <= coding.without_cell


def _has_ids(batch: Batch) -> bool:
    """Return True if a batch has the bytes of an id for each record: of texts, two forms could be one person."""
    ids = batch.persons
    return isinstance(ids, Sequence) and len(ids) == batch.records and {*map(type, ids)} <= {bytes}
