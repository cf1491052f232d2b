"""The protocol of all counters."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Margin = tuple[str, ...]
Margins = dict[Margin, NDArray[Any]]


class Counter(abc.ABC):
    """A source of records that can be counted over a declared domain.

    **Guarantees**
        * every array has the shape of its attributes, int64, in the order asked;
        * all margins are of the same records;
        * one record more in the data adds one to exactly one cell of every margin (or to none, when the record is
          outside the domain and the source says to drop it);
        * nothing stays open or locked between calls, which may come in any order and again.
    """

    @property
    @abc.abstractmethod
    def drops(self) -> bool:
        """Whether records outside the domain are left out, rather than refused: it decides what neighbours can do."""

    @abc.abstractmethod
    def check(self, attributes: Sequence[str]) -> None:
        """Raise DataError unless these attributes can be counted, as far as the schema tells; reads no record."""

    @abc.abstractmethod
    def count(self, margins: Sequence[Margin]) -> Margins:
        """Counts over each set of attributes, in one pass over the records.

        Raises:
            DataError: records outside the domain, where the source says to refuse them: how many, in which columns.
        """


def sum_down(margins: Margins, wanted: Margin) -> NDArray[Any]:
    """The margin over `wanted`, summed down from the smallest counted margin that holds it."""
    holders = [m for m in margins if set(wanted) <= set(m)]
    holder = min(holders, key=lambda m: margins[m].size)
    counts = margins[holder]
    kept = [a for a in holder if a in wanted]
    drop = tuple(i for i, a in enumerate(holder) if a not in wanted)
    summed = counts.sum(axis=drop, dtype=np.int64) if drop else counts
    return np.asarray(summed).transpose([kept.index(a) for a in wanted])
