"""The protocol of all counters."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, final

from numpy.typing import NDArray

from fitnoise.errors import DataError
from fitnoise.kernel.conditions import Condition
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import Bound, DataSource

Margin = tuple[str, ...]

Margins = dict[Margin, NDArray[Any]]

Progress = Callable[[float], None]
"""Told how much of the counting is done, from 0 to 1, rising. It follows the number of records: for a console only."""


class Counter(abc.ABC):
    """A source of records that can be counted over a declared domain.

    **Guarantees**
        * every array has the shape of its attributes, int64, in the order asked;
        * all margins are of the same records;
        * a record that does not meet the conditions is as one that is not there: it is neither counted nor told of, and
          takes no other's place;
        * without a bound, one record more in the data adds one to exactly one cell of every margin (or to none, when
          the record is outside the domain and the source says to drop it);
        * along an amount that is 1 − j to the first end and j to the other, 0 ≤ j ≤ K, in products of several, and all
          counts are whole numbers modulo 2⁶⁴ (:class:`fitnoise.kernel.domain.Amount`);
        * with a bound g, what is counted of each unit is a function of its own records, and at most g of them, or of
          what they become where amounts are added up: a unit more, with any number of records, adds what at most g
          records add to every margin, the same of them to all;
        * with a bound in shares (None), all counts are in parts of a record, and a unit more, with any number of
          records, adds as many parts for each that is inside to one cell of every margin, together at most PARTS;
        * nothing stays open or locked between calls, which may come in any order and again.
    """

    @property
    @abc.abstractmethod
    def drops(self) -> bool:
        """Whether records outside the domain are left out, rather than refused: it decides what neighbours can do."""

    @property
    def bound(self) -> Bound | None:
        """By which column it is told whose a record is, and how many of one person's are counted; None: all are."""
        return None

    @property
    def where(self) -> tuple[Condition, ...]:
        """What records must meet to be counted, all of it."""
        return ()

    @property
    def of(self) -> str | None:
        """What alone it has counts of (:func:`fitnoise.kernel.measure.sealed`); None: of whatever is asked."""
        return None

    @abc.abstractmethod
    def check(self, attributes: Sequence[str]) -> None:
        """Raise DataError unless these attributes can be counted, as far as the schema tells; reads no record."""

    def left_out(self) -> int:
        """Of how many units some records are inside and not counted, since one has more than the bound allows.

        A unit more or less, with any number of records, changes it by one at most.

        Raises:
            DataError: these data do not tell; or as :meth:`count`.
        """
        raise DataError(
            "these data do not tell of how many persons records are left out: ask no such question of them, or hand "
            "over their records. Nothing was measured and nothing was charged."
        )

    @abc.abstractmethod
    def count(self, margins: Sequence[Margin], progress: Progress | None = None) -> Margins:
        """Counts over each set of attributes, in one pass over the records.

        Memory is bounded by the counts, eight bytes each, some hundred bytes a margin, and a working memory that grows
        with neither.

        Args:
            margins: sets of attributes; one that is given twice is counted once.
            progress: told how much is done, rising, a hundred times at most; 1 only when all is counted. What it
                raises is passed on, and nothing is counted.

        Raises:
            DataError: records outside the domain, where the source says to refuse them: how many, in which columns;
                or counts that exceed the memory of the machine, before a record is read.
        """


class DeclaredCounter(Counter):
    """Counts by a declared domain, and says what this, the source and the bound say.

    domain: the declared domain. source: what to do with records outside it, and which are counted at all. bound: how
    many records of a person are counted, and by which column it is told whose they are; None: all.
    """

    def __init__(self, domain: Domain, source: DataSource, bound: Bound | None) -> None:
        self._domain, self._source, self._bound = domain, source, bound

    @property
    def drops(self) -> bool:
        """As the domain and the source say."""
        return self._domain.leaves_out(self._source, self._bound)

    @property
    def bound(self) -> Bound | None:
        """As it was told."""
        return self._bound

    @property
    def where(self) -> tuple[Condition, ...]:
        """As the source says."""
        return self._source.conditions


@final
class Gauge:
    """Passes on how much is done when that has risen by a hundredth; 1 is passed on once, at the end.

    Args:
        tell: who wants to know; None for nobody.
    """

    STEP = 0.01

    def __init__(self, tell: Progress | None) -> None:
        self._tell = tell
        self._told = 0.0

    def __call__(self, fraction: float) -> None:
        """So much is done, as far as can be told: a rough figure neither falls nor claims the end."""
        fraction = min(fraction, 1 - self.STEP)
        if self._tell is not None and fraction >= self._told + self.STEP:
            self._told = fraction
            self._tell(fraction)

    def finish(self) -> None:
        """All is done."""
        if self._tell is not None:
            self._tell(1.0)
