"""Counts of records with a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, final

from fitnoise.algebra import operators as op
from fitnoise.errors import WorkloadError
from fitnoise.request.attributes import Attribute
from fitnoise.request.views._base import Entry, KeyedView, RowOrder


@final
@dataclass(frozen=True)
class NonMissing(KeyedView):
    """The number of records with a value: those in no cell for missing values.

    A sum of the attribute adds up these records.
    """

    key, kind = "count", str | list[str]
    description = (
        "The attributes that need a value: the table leaves out records whose value is missing. If absent, the table "
        "counts these records too."
    )
    is_by_value, is_sum = False, False
    row_order, signed, is_causal = RowOrder.NONE, False, False
    heading_text, rows_text, column_text = None, "page.rows.count", "report.column.non_missing"
    document = None

    @classmethod
    def parse(cls, entry: Entry) -> Self:
        """Return the view, which has no choices."""
        del entry
        return cls()

    def operator(self, attribute: Attribute) -> op.Operator:
        """Return one query that adds up the own cells. Raise WorkloadError if the attribute has no other cells."""
        if not attribute.missing_cells:
            raise WorkloadError(
                "count-needs-missing",
                "The attribute of count has no cells for missing values.",
                "Without such cells, the count is the number of all records.",
                "Leave count out, or declare cells for missing values (missing = … of the attribute).",
                "Nothing was planned.",
                place="count",
            )
        return op.Groups(attribute.size, (tuple(range(attribute.own_size)),))

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """Return the key."""
        return (self.key,)
