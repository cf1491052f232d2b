"""Ranges of values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, final

from fitnoise.algebra import operators as op
from fitnoise.errors import WorkloadError
from fitnoise.kernel.checks import describe_value
from fitnoise.kernel.codings import as_python
from fitnoise.request.attributes import Attribute
from fitnoise.request.selected_values import ValuePair
from fitnoise.request.selections import Form, Selection
from fitnoise.request.views._base import Entry, KeyedView, RowOrder


@final
@dataclass(frozen=True)
class Ranges(KeyedView):
    """Intervals of values, ends included.

    bounds: The first and the last value of each interval; None for all intervals.
    """

    bounds: tuple[tuple[Any, Any], ...] | None = None
    missing: bool = False
    key, kind = "ranges", str | dict[str, Literal["all"] | list[ValuePair]]
    description = (
        "The attributes shown as ranges with both ends included: a name for all ranges, or name = [[first, last], …]. "
        "If absent, no attribute is shown this way."
    )
    is_by_value, is_sum = False, False
    row_order, signed, is_causal = RowOrder.NONE, False, False
    heading_text, rows_text, column_text = None, None, "report.column.ranges"

    @classmethod
    def parse(cls, entry: Entry) -> Self:
        """Return the view. Raise WorkloadError unless the ranges are pairs."""
        if entry.value is None or isinstance(entry.value, str):  # "all"
            return cls(None, entry.missing)
        pairs = [x if isinstance(x, (list, tuple)) else () for x in entry.value]
        if not all(len(x) == 2 for x in pairs):
            raise WorkloadError(
                "ranges-not-pairs",
                f"The ranges of {entry.attribute!r} are {describe_value(entry.value)}, and some are not pairs.",
                "Ranges are a list of pairs, [[first, last], …].",
                "Give both ends of each range.",
                "Nothing was planned.",
                place="ranges",
            )
        return cls(tuple((x, y) for x, y in pairs), entry.missing)

    @property
    def document(self) -> str | list[list[Any]]:
        """The ends of the ranges, or "all"."""
        return "all" if self.bounds is None else [[as_python(x) for x in ends] for ends in self.bounds]

    def _cells(self, attribute: Attribute) -> tuple[tuple[int, int], ...]:
        if not attribute.ordered:
            raise WorkloadError(
                "ranges-need-order",
                "The ranges are of an attribute without an order.",
                "Ranges need an ordered or a binned attribute.",
                "Show groups of the attribute instead.",
                "Nothing was planned.",
                place="ranges",
            )
        # Intervals of one value are among all intervals, so every value is counted.
        if self.bounds is None:
            n = attribute.own_size
            if n > 2048:
                raise WorkloadError(
                    "too-many-ranges",
                    f"All ranges of {n} values are {n * (n + 1) // 2} queries.",
                    "All ranges are supported for at most 2048 values.",
                    "Name the ranges to publish.",
                    "Nothing was planned.",
                    place="ranges",
                )
            return tuple((i, j) for i in range(n) for j in range(i, n))
        cells = (Selection(Form.RANGE, (a, b)).cells(attribute) for a, b in self.bounds)
        # The cells of a range are consecutive, so two positions describe it.
        return tuple((positions[0], positions[-1]) for positions in cells)

    def unshown(self, attribute: Attribute) -> tuple[int, ...]:
        """Return the cells that no range counts."""
        if self.bounds is None:
            return ()
        return self._uncounted(attribute, (i for start, end in self._cells(attribute) for i in range(start, end + 1)))

    def operator(self, attribute: Attribute) -> op.Operator:
        """Return interval sums. Raise WorkloadError for an attribute without an order, or too many intervals."""
        return op.Intervals(attribute.size, self._cells(attribute) + tuple((i, i) for i in self._added(attribute)))

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """Return texts such as "18 – 64"."""
        v = attribute.values
        spans = tuple(str(v[i]) if i == j else f"{v[i]} – {v[j]}" for i, j in self._cells(attribute))
        return self._with_added(spans, attribute)
