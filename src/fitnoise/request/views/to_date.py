"""Sums that restart after a number of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from fitnoise.algebra import operators as op
from fitnoise.request.attributes import Attribute
from fitnoise.request.views._base import SteppedView


@final
@dataclass(frozen=True)
class ToDate(SteppedView):
    """The sum of each value and those before it in its season; a season is `steps` values, and the last can be shorter.

    With 12 months from January on these are years to date.
    """

    key = "to_date"
    description = (
        "The attributes shown as running sums that restart after a number of values (12 months from January: year to "
        "date): name = number. If absent, no attribute is shown this way."
    )
    signed, is_causal = False, True
    heading_text, rows_text, column_text = "page.heading.to_date", "page.rows.to_date", "report.column.to_date"

    def operator(self, attribute: Attribute) -> op.Operator:
        """Return sums over intervals of cells. Raise WorkloadError if the values have no sequence."""
        n = self._length(attribute, 1)
        return op.Intervals(attribute.size, tuple((i - i % self.steps, i) for i in range(n)))

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """Return the last value of each sum."""
        return attribute.own_values

    def labelled_cells(self, attribute: Attribute) -> slice:
        """Return the cell of the last value of each sum."""
        return slice(0, attribute.own_size)
