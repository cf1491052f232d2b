"""Changes from one value to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from fitnoise.algebra import operators as op
from fitnoise.request.attributes import Attribute
from fitnoise.request.views._base import SteppedView


@final
@dataclass(frozen=True)
class Change(SteppedView):
    """Each value minus the value `steps` before it; with the lag of a year, seasonal differences.

    The first `steps` values have no row, because no value is `steps` before them.
    """

    # One step has a meaning for changes alone, and only they can be named without a number.
    key, kind, min_steps = "change", str | dict[str, int], 1
    description = (
        "The attributes shown as changes from one value to the next, or name = distance between the two values (12 "
        "months: a year). If absent, no attribute is shown this way."
    )
    signed, is_causal = True, True
    heading_text, rows_text, column_text = "page.heading.change", "page.rows.change", "report.column.change"

    def unshown(self, attribute: Attribute) -> tuple[int, ...]:
        """Return the cells that no change counts: those in the middle, if values are fewer than twice the steps."""
        # Value i is the later one of a change from i = steps on, and the earlier one up to n − 1 − steps.
        return tuple(range(attribute.own_size - self.steps, self.steps))

    def operator(self, attribute: Attribute) -> op.Operator:
        """Return differences. Raise WorkloadError if the values have no sequence or are too few."""
        n = self._length(attribute, self.steps + 1)
        return op.Differences(attribute.size, tuple((i, i - self.steps) for i in range(self.steps, n)))

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """Return the later value of each difference."""
        return attribute.own_values[self.steps :]

    def labelled_cells(self, attribute: Attribute) -> slice:
        """Return the cell of the later value of each difference."""
        return slice(self.steps, attribute.own_size)
