"""The counter of an array of counts, which has no records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.engines.rules import rule_columns
from fitnoise.engines.sources import refuse_impossible
from fitnoise.errors import DataError
from fitnoise.kernel.codings import REFUSED
from fitnoise.kernel.counting._base import Counter, Margin, Margins, Progress, ProgressFilter
from fitnoise.kernel.counting.margins import blank, summed
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import LARGEST_BOUND, DataSource


@final
class HistogramCounter(Counter):
    """A full array of counts, one per cell of the domain.

    Args:
        counts: Integers ≥ 0, of the domain's shape or flat in C order.
        domain: The declared domain.
        source: The data source, with a public bound on the number of records. It states if records may have been left
            out when the counts were made, and the action for counts in impossible cells. Default one that refuses.

    Raises:
        DataError: The counts have a wrong shape, are not integers, are masked, or are negative. The error names no
            cell.
        DataError: There are more records than `max_records`.
        DataError: The domain has an amount, between whose ends records lie.
    """

    def __init__(self, counts: NDArray[Any], domain: Domain, source: DataSource | None = None) -> None:
        source = DataSource(max_records=LARGEST_BOUND) if source is None else source
        max_records = source.max_records
        # An array has no ids, so no record was left out for a missing one.
        self.drops = domain.leaves_out(source, None)
        if domain.steps:
            raise DataError(
                "counts-without-amounts",
                f"The domain has the amounts {list(domain.steps)}, and the data are an array of counts.",
                "Amounts of records lie between the cells of an array.",
                "Give the records.",
                "Nothing was measured.",
            )
        if isinstance(counts, np.ma.MaskedArray):
            raise DataError(
                "counts-masked",
                "The array of counts is masked.",
                "Every cell needs a count.",
                "Fill the masked cells first.",
                "Nothing was measured.",
            )
        if counts.dtype.kind not in "iu":
            raise DataError(
                "counts-not-integers",
                f"The array of counts has the type {counts.dtype}.",
                "Counts must be integers.",
                "Convert the array to integers.",
                "Nothing was measured.",
            )
        if counts.shape not in (domain.shape, (domain.size,)):
            raise DataError(
                "counts-of-wrong-shape",
                f"The array of counts has the shape {counts.shape}.",
                f"It needs the shape {domain.shape} of the domain, or {domain.size} cells in one row.",
                "Reshape the array.",
                "Nothing was measured.",
            )
        if int(counts.min()) < 0:
            raise DataError(
                "counts-negative",
                "The array of counts has a negative number.",
                "A number of records is at least 0.",
                "Correct the counts.",
                "Nothing was measured.",
            )
        # The exact sum in Python's integers is slow, and needed only if the sum could exceed the bound.
        if int(counts.max()) * counts.size > max_records and int(counts.sum(dtype=object)) > max_records:
            raise DataError(
                "counts-above-max-records",
                f"The counts add up to more than {max_records:,} records, the max_records of the source.",
                "The bound must be at least the number of records.",
                "Set a larger max_records, at most 2^62.",
                "Nothing was measured.",
                place="data.max_records",
            )
        self._domain = domain
        self._attributes = tuple(domain)
        # The sum is at most 2⁶², so unsigned counts fit too.
        self._counts = counts.reshape(domain.shape).astype(np.int64)
        self._refused: dict[str, int] = {}
        rules = rule_columns(domain, source)
        cells = {a: self._cells(a, self._attributes) for rule in rules.values() for a in rule.names}
        for name, column in rules.items():
            is_left_out = np.broadcast_to(column.cells(cells) < 0, domain.shape)
            if column.action == REFUSED:
                self._refused[name] = int(self._counts[is_left_out].sum())
            else:
                self._counts[is_left_out] = 0

    def check(self, attributes: Sequence[str]) -> None:
        """Check nothing: the array has every attribute of its domain."""

    def count(self, margins: Sequence[Margin], progress: Progress | None = None) -> Margins:
        """Return the counts over each margin: sums of the array over the other axes, for levels of their leaves.

        Raises:
            DataError: There are records in impossible cells, and the source refuses them.
        """
        refuse_impossible("the array of counts", self._refused)
        gauge = ProgressFilter(progress)
        counts = blank(dict.fromkeys(margins), self._domain.sizes)
        for i, m in enumerate(counts):
            homes = tuple(dict.fromkeys(self._domain.attribute_of(a) for a in m))
            table = summed(self._counts, self._attributes, homes)
            if homes == m:
                counts[m] += table
            else:
                # Not an assignment: several places of a hierarchy fall into one cell of a level.
                np.add.at(counts[m], tuple(self._cells(a, homes) for a in m), table)
            gauge((i + 1) / len(counts))
        gauge.finish()
        return counts

    def _cells(self, attribute: str, homes: Margin) -> NDArray[np.intp]:
        """Return, for every cell of the attributes `homes`, the cell of one of them, or of a level of one.

        The array broadcasts to the shape of `homes`: it has their axes, each of length 1 except that of the attribute.
        """
        home = self._domain.attribute_of(attribute)
        tree = self._domain[home].tree
        size = self._domain[attribute].size
        cells = np.arange(size, dtype=np.intp) if tree is None else tree.above(self._domain.depth(attribute))
        axis = homes.index(home)
        return cells.reshape([-1 if i == axis else 1 for i in range(len(homes))])
