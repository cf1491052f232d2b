"""The protocol of all counters."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import DataError
from fitnoise.kernel.codings import DROPPED, OUTSIDE
from fitnoise.kernel.conditions import Condition
from fitnoise.kernel.counting.persons import ID_KEY
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import DataSource, RecordBound

Margin = tuple[str, ...]
"""The names of attributes, in the order of the axes of their table."""

Margins = dict[Margin, NDArray[Any]]
"""The counts over each set of attributes, an array with an axis for each attribute."""

Progress = Callable[[float], None]
"""A function that receives the counted fraction, from 0 to 1, rising.

The fraction depends on the number of records: show it only on a console.
"""


@final
@dataclass(frozen=True)
class Dropped:
    """The number of records that a count left out of every table because of their values.

    The numbers are exact: they are for the operator alone, as the records are, and never published.

    Attributes:
        records: The number of records that meet the conditions (`where`), including those that a bound leaves out.
        dropped: The number of these with a value outside the domain in an attribute that drops such records. Records
            without an id count too, where the source drops, and records that a rule calls impossible, where these are
            dropped. Records that a condition or a bound on persons leaves out are not among them.
        attributes: The number of these by attribute or rule; a record can be outside in several. Attributes and rules
            without one are absent.
        without_id: The number of these that have no id.
    """

    records: int
    dropped: int
    attributes: Mapping[str, int]
    without_id: int = 0

    @property
    def detail(self) -> str:
        """The numbers by attribute and rule, in words."""
        parts = [f"{a!r} {n:,}" for a, n in self.attributes.items()]
        return ", ".join([*parts, *([f"without an id {self.without_id:,}"] if self.without_id else [])])

    def exceeds(self, max_share: float) -> bool:
        """Return True if more than a share of the records is dropped; the share is read as written, 0.29 as 29/100."""
        return self.dropped > Fraction(str(max_share)) * self.records

    def __str__(self) -> str:
        """Return a sentence for the operator."""
        out = f"{self.dropped:,} of {self.records:,} records are left out of every table, outside the declared domain"
        detail = f": by attribute or rule {self.detail}" if self.dropped else ""
        return f"{out}{detail}. This is for you, and is not published."


@final
class Lost:
    """The number of records that were read, and of those that were dropped, updated while they are read."""

    def __init__(self) -> None:
        self.records = self.dropped = 0
        self._dropped_by: dict[str, int] = {}

    def find(self, cells: Mapping[str, NDArray[Any]], records: int, *, drop: bool) -> NDArray[np.bool_] | None:
        """Add all these records, and those that are dropped, to the numbers; return True for each dropped record.

        The result is (records,), or `None` if all are kept. One dropped cell drops the record.

        Args:
            cells: The cells by attribute, shape (records,) each; below 0 for a record without a cell (`codings`).
            records: The number of records.
            drop: True to drop OUTSIDE, as DROPPED is. Otherwise such a record is kept here, and refused later.
        """
        lost = (DROPPED, OUTSIDE) if drop else (DROPPED,)
        # Cells of an unsigned type cannot be below 0, so they need no pass over the records.
        signed = {a: c for a, c in cells.items() if c.dtype.kind == "i" and records and c.min() < 0}
        out = {a: np.logical_or.reduce([c == x for x in lost]) for a, c in signed.items()}
        any_lost = np.logical_or.reduce([*out.values()]) if out else np.zeros(0, dtype=np.bool_)
        dropped = int(any_lost.sum())
        self.add(records, dropped, {a: int(x.sum()) for a, x in out.items()})
        return any_lost if dropped else None

    def add(self, records: int, dropped: int, by_attribute: Mapping[str, int]) -> None:
        """Add a number of records, those dropped among them, and these by attribute; `ID_KEY` stands for the id."""
        self.records += records
        self.dropped += dropped
        for a, n in by_attribute.items():
            self._dropped_by[a] = self._dropped_by.get(a, 0) + n

    def report(self, domain: Domain) -> Dropped:
        """Return the numbers by attribute and rule; a level of a hierarchy counts for the hierarchy."""
        by_attribute = {domain.attribute_of(a): n for a, n in self._dropped_by.items() if n and a != ID_KEY}
        return Dropped(self.records, self.dropped, by_attribute, self._dropped_by.get(ID_KEY, 0))


class Counter(abc.ABC):
    """A source of records that can be counted over a declared domain.

    **Guarantees**
        * Every array has the shape of its attributes, int64, in the requested order.
        * All margins are of the same records.
        * A record that does not meet the conditions has no effect: it is neither counted nor reported, and takes no
          other record's place.
        * Without a bound, one more record in the data adds one to exactly one cell of every margin. It adds to none if
          it is outside the domain and the source or the attribute drops such records.
        * An amount has K steps, 0 ≤ j ≤ K. A record at step j adds 1 − j to the first end and j to the other. Further
          knots are counted as :func:`fitnoise.kernel.counting.joint_counts.sum_up` states. Several amounts multiply.
          All counts are whole numbers modulo 2⁶⁴ (:class:`fitnoise.kernel.codings.Steps`).
        * With a bound g, the counted records of each unit are a function of its own records. They are at most g of
          them, or of the merged records where amounts are added up. One more unit, with any number of records, adds to
          every margin the contribution of at most g records, the same records for all margins.
        * With a bound in shares (`max_records` is `None`), the unit of all counts is 2⁻²⁰ of a record, a part. One more
          unit, with any number of records, adds equal parts for each of its records inside, each to one cell of every
          margin. The sum of these parts is at most SHARES_PER_RECORD in each margin.
        * Nothing stays open or locked between calls, which may come in any order and repeatedly.
    """

    drops: bool
    """True if records outside the domain are left out, rather than refused; neighbours depend on it."""

    bound: RecordBound | None = None
    """The bound on counted records of a person, with the column of the id; `None` counts all."""

    where: tuple[Condition, ...] = ()
    """The conditions that a record must meet to be counted, all of them."""

    format: Any = None
    """The forms in which texts of the data are read (`DataSource.format`)."""

    fingerprint: str | None = None
    """The digest of the only counts that it can return (:func:`fitnoise.kernel.measure.sealed`), or `None`.

    `None` means that it counts any margins.
    """

    dropped: Dropped | None = None
    """The number of records that the last count dropped; None before it, where none can be, or if the data do not hold
    it."""

    @abc.abstractmethod
    def check(self, attributes: Sequence[str]) -> None:
        """Raise DataError unless these attributes can be counted, as far as the schema shows; read no record."""

    def left_out(self) -> int:
        """Return the number of units of which some records inside are not counted, because the bound excludes them.

        One more or one less unit, with any number of records, changes the result by one at most.

        Raises:
            DataError: These data do not hold the number; or see :meth:`count`.
        """
        raise DataError(
            "left-out-not-counted",
            "These data do not hold the number of units of which records are left out.",
            "Counting these units needs the records.",
            "Remove this question, or give the records.",
            "Nothing was measured and nothing was charged.",
        )

    @abc.abstractmethod
    def count(self, margins: Sequence[Margin], progress: Progress | None = None) -> Margins:
        """Return counts over each set of attributes, in one pass over the records.

        Memory is bounded by the counts, eight bytes each, some hundred bytes a margin, and a constant working memory.

        Args:
            margins: Sets of attributes; a set that is given twice is counted once.
            progress: A function that receives the counted fraction, rising, a hundred times at most; 1 only when all is
                counted. If it raises, the exception is passed on, and nothing is counted.

        Raises:
            DataError: Records are outside the domain, and the source refuses them. The text has their number and
                columns.
            DataError: The counts exceed the memory of the machine; no record was read.
        """


class DeclaredCounter(Counter):
    """A counter by a declared domain, with the properties that the domain, the source and the bound imply.

    domain: The declared domain.
    source: The data source, with the action for records outside the domain, and the conditions.
    bound: The bound on counted records of a person, with the column of the id; `None` counts all.
    """

    def __init__(self, domain: Domain, source: DataSource, bound: RecordBound | None) -> None:
        self._domain, self._source = domain, source
        self.drops, self.where, self.format = domain.leaves_out(source, bound), source.conditions, source.format
        self.bound = bound


@final
class ProgressFilter:
    """A gauge that forwards the counted fraction when it has risen by 0.01; `finish` forwards 1.

    Args:
        report_progress: The function that receives the fraction; with `None`, nothing is forwarded.
    """

    STEP = 0.01

    def __init__(self, report_progress: Progress | None) -> None:
        self._report_progress = report_progress
        self._reported = 0.0

    def __call__(self, fraction: float) -> None:
        """Forward the fraction, as a rough figure: the forwarded numbers neither fall nor reach 1."""
        # Rounding or an estimate of the engine may give 1 before all is counted. Only `finish` forwards 1.
        fraction = min(fraction, 1 - self.STEP)
        if self._report_progress is not None and fraction >= self._reported + self.STEP:
            self._reported = fraction
            self._report_progress(fraction)

    def finish(self) -> None:
        """Forward 1: all records are counted."""
        if self._report_progress is not None:
            self._report_progress(1.0)
