"""Cumulative counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, final

from fitnoise.algebra import operators as op
from fitnoise.errors import WorkloadError
from fitnoise.request.attributes import Attribute
from fitnoise.request.views._base import Entry, KeyedView, RowOrder


@final
@dataclass(frozen=True)
class AtMost(KeyedView):
    """Every "at most this value" (cumulative counts): the row labelled v counts records with value ≤ v."""

    missing: bool = False
    key, kind = "cumulative", str | list[str]
    description = 'The attributes shown as "at most this value". If absent, no attribute is shown this way.'
    is_by_value, is_sum = False, False
    row_order, signed, is_causal = RowOrder.ATTRIBUTE, False, True
    heading_text, rows_text = "page.heading.cumulative", "page.rows.cumulative"
    column_text = "report.column.at_most"
    document = None

    @classmethod
    def parse(cls, entry: Entry) -> Self:
        """Return the view."""
        return cls(entry.missing)

    def operator(self, attribute: Attribute) -> op.Operator:
        """Return cumulative sums. Raise WorkloadError if the attribute has no order."""
        if not attribute.ordered:
            raise WorkloadError(
                "cumulative-needs-order",
                "The cumulative counts are of an attribute without an order.",
                "Cumulative counts need an ordered or a binned attribute.",
                "Show the attribute by value, or in groups.",
                "Nothing was planned.",
                place="cumulative",
            )
        # Prefix sums run over all cells. Those for missing values come last, and are no upper end.
        if not attribute.missing_cells:
            return op.Prefix(attribute.size)
        ends = ((0, i) for i in range(attribute.own_size))
        return op.Intervals(attribute.size, (*ends, *((i, i) for i in self._added(attribute))))

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """Return the upper ends."""
        return self._with_added(attribute.own_values, attribute)
