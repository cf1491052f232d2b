"""Every value on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from fitnoise.algebra import operators as op
from fitnoise.errors import WorkloadError
from fitnoise.request.attributes import Attribute
from fitnoise.request.views._base import RowOrder, View


@final
@dataclass(frozen=True)
class EachValue(View):
    """Every value on its own, and every cell for missing ones."""

    name_suffix = ""
    is_by_value, is_sum = True, False
    row_order, signed, is_causal = RowOrder.ATTRIBUTE, False, True
    heading_text, rows_text, column_text = None, None, None

    def left_out(self, attribute: Attribute) -> tuple[int, ...]:
        """Return no cell, because every cell is shown."""
        return ()

    def operator(self, attribute: Attribute) -> op.Operator:
        """Return the identity. Raise WorkloadError for an amount, because its cells hold no records."""
        if attribute.steps:
            raise WorkloadError(
                "amount-by-value",
                "The table shows an amount by its values.",
                "Of an amount, a table can have the sum (sum = …) or the mean (mean = …).",
                "Use sum or mean, or declare a Binned attribute on the same column to count records in bins.",
                "Nothing was planned.",
            )
        # Cells for missing values are included: by value, each is a row like any other.
        return op.Identity(attribute.size)

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """Return the values."""
        return attribute.values

    def labelled_cells(self, attribute: Attribute) -> slice:
        """Return all cells."""
        return slice(0, attribute.size)

    def rows(self, attribute: Attribute) -> int:
        """Return the number of values, without listing them."""
        return attribute.size


EACH = EachValue()
