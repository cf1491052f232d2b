"""Counts that are already counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import DataError
from fitnoise.kernel.codings import Codes
from fitnoise.kernel.counting._base import Counter, Gauge, Margin, Margins, Progress
from fitnoise.kernel.counting.margins import blank, summed
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import LARGEST_BOUND


@final
class HistogramCounter(Counter):
    """A full array of counts, one per cell of the domain.

    Args:
        counts: integers ≥ 0, of the domain's shape or flat in C order.
        domain: the declared domain.
        drops: whether records may have been left out when the counts were made.
        max_records: a public bound on the number of records: `max_records` of the source.

    Raises:
        DataError: wrong shape, not integers, masked, negative (the error names no cell), or more records than
            `max_records`; or a domain with an amount, between whose ends records lie.
    """

    def __init__(
        self, counts: NDArray[Any], domain: Domain, *, drops: bool = False, max_records: int = LARGEST_BOUND
    ) -> None:
        self._drops = drops
        if domain.steps:
            raise DataError(
                f"an array of counts does not tell the amounts {list(domain.steps)}, between whose ends records lie: "
                "give the records. Nothing was measured."
            )
        if isinstance(counts, np.ma.MaskedArray):
            raise DataError("a masked array leaves counts out; fill it first. Nothing was measured.")
        if counts.dtype.kind not in "iu":
            raise DataError(f"counts are whole numbers; got an array of {counts.dtype}. Nothing was measured.")
        if counts.shape not in (domain.shape, (domain.size,)):
            raise DataError(
                f"counts need the domain's shape {domain.shape} or {domain.size} cells in a row; got {counts.shape}. "
                "Nothing was measured."
            )
        if int(counts.min()) < 0:
            raise DataError("counts of records cannot be negative. Nothing was measured.")
        if int(counts.max()) * counts.size > max_records and int(counts.sum(dtype=object)) > max_records:
            raise DataError(
                f"counts add to more than {max_records:,} records, which is max_records of the source: state a larger "
                "one, at most 2^62. Nothing was measured."
            )
        self._domain = domain
        self._attributes = tuple(domain)
        self._counts = counts.reshape(domain.shape).astype(np.int64)

    @property
    def drops(self) -> bool:
        """As the plan's source says: an array holds no records outside the domain, whatever became of them."""
        return self._drops

    def check(self, attributes: Sequence[str]) -> None:
        """Nothing to check: the array has every attribute of its domain."""

    def count(self, margins: Sequence[Margin], progress: Progress | None = None) -> Margins:
        """Sums over the other axes."""
        gauge = Gauge(progress)
        counts = blank(dict.fromkeys(margins), self._domain.sizes)
        for i, m in enumerate(counts):
            homes = tuple(dict.fromkeys(self._domain.home(a) for a in m))
            table = summed(self._counts, self._attributes, homes)
            if homes == m:
                counts[m] += table
            else:
                np.add.at(counts[m], tuple(self._cells(a, homes) for a in m), table)
            gauge((i + 1) / len(counts))
        gauge.finish()
        return counts

    def _cells(self, attribute: str, homes: Margin) -> NDArray[np.intp]:
        """Of every cell of some attributes, the cell of one of them, or of a level of one."""
        coding = self._domain[attribute].coding
        home = self._domain.home(attribute)
        above = coding.cells if isinstance(coding, Codes) and home != attribute else range(self._domain[attribute].size)
        cells = np.array(above, dtype=np.intp)
        place = homes.index(home)
        return cells.reshape([-1 if i == place else 1 for i in range(len(homes))])
