"""Moving averages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from fitnoise.algebra import operators as op
from fitnoise.request.attributes import Attribute
from fitnoise.request.views._base import SteppedView


@final
@dataclass(frozen=True)
class Average(SteppedView):
    """Moving averages: the mean of each value and the `steps` − 1 values before it.

    The first `steps` − 1 values have no row, because too few values precede them. The targets refer to the published
    mean.
    """

    key = "average"
    description = (
        "The attributes shown as moving averages: name = number of values in each average. If absent, no attribute is "
        "shown this way."
    )
    signed, is_causal = False, True
    heading_text, rows_text, column_text = "page.heading.average", "page.rows.average", "report.column.average"

    def operator(self, attribute: Attribute) -> op.Operator:
        """Return means over intervals of cells. Raise WorkloadError if the values have no sequence or are too few."""
        n = self._length(attribute, self.steps)
        # A mechanism measures the sums of these means, in whole numbers.
        return op.Averages(attribute.size, tuple((i, i + self.steps - 1) for i in range(n - self.steps + 1)))

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """Return the last value of each mean."""
        return attribute.own_values[self.steps - 1 :]

    def labelled_cells(self, attribute: Attribute) -> slice:
        """Return the cell of the last value of each mean."""
        return slice(self.steps - 1, attribute.own_size)
