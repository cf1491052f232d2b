"""Groups of values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, final

from fitnoise.algebra import operators as op
from fitnoise.errors import DomainError, WorkloadError
from fitnoise.request.attributes import Attribute
from fitnoise.request.selected_values import SelectedValues
from fitnoise.request.selections import Selection
from fitnoise.request.views._base import Entry, KeyedView, RowOrder


@final
@dataclass(frozen=True)
class Recode(KeyedView):
    """Named groups of values, which may leave values out.

    Two ranges are disjoint, or one lies within the other, such as a band within a total. Groups of single values may
    overlap in any way.
    """

    groups: tuple[tuple[str, Selection], ...]
    missing: bool = False
    key, kind = "groups", dict[str, dict[str, SelectedValues]]
    description = (
        "The attributes shown as groups, each by its name: a range, a list of codes or one value. A list is [first, "
        "last] for an attribute with an order. If absent, no attribute is shown this way."
    )
    is_by_value, is_sum = False, False
    row_order, signed, is_causal = RowOrder.NONE, False, False
    heading_text, rows_text, column_text = None, None, "report.column.groups"

    @classmethod
    def parse(cls, entry: Entry) -> Self:
        """Return the view. Raise WorkloadError for a group that is no range, list of codes or single value."""
        selections = []
        for name, values in entry.value.items():
            try:
                # Documents have texts as names: a number as a name would not be equal after it is read back.
                selections.append((str(name), Selection.parse(values)))
            except DomainError as error:
                raise WorkloadError(
                    "group-unusable",
                    f"The group {name!r} of {entry.attribute!r} cannot be used. {error.given}",
                    error.needed,
                    error.action,
                    "Nothing was planned.",
                    place=f"groups.{entry.attribute}.{name}",
                ) from None
        return cls(tuple(selections), entry.missing)

    @property
    def document(self) -> dict[str, Any]:
        """The values of each group."""
        return {name: values.document for name, values in self.groups}

    def left_out(self, attribute: Attribute) -> tuple[int, ...]:
        """Return the cells for missing values that no group names."""
        grouped = {i for group in self._cells(attribute) for i in group}
        return tuple(i for i in range(attribute.own_size, attribute.size) if i not in grouped)

    def _cells(self, attribute: Attribute) -> tuple[tuple[int, ...], ...]:
        cells = []
        for name, values in self.groups:
            try:
                cells.append(values.cells(attribute))
            except DomainError as error:
                raise error.with_place(f"groups.{name}") from None
        # Minus the last cell: of ranges with one start, the longest is sorted first and can contain the rest.
        spans = [(c[0], -c[-1], g) for g, c in zip(self.groups, cells, strict=True) if g[1].is_range(attribute)]
        _refuse_overlap(attribute, sorted(spans, key=lambda span: span[:2]))
        return tuple(cells)

    def unshown(self, attribute: Attribute) -> tuple[int, ...]:
        """Return the cells that no group counts."""
        return self._uncounted(attribute, itertools.chain.from_iterable(self._cells(attribute)))

    def operator(self, attribute: Attribute) -> op.Operator:
        """Return group sums. Raise DomainError for a value without a cell, and WorkloadError for an overlap."""
        return op.Groups(attribute.size, self._cells(attribute) + tuple((i,) for i in self._added(attribute)))

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """Return the names of groups, and of the cells that `missing` adds. Raise WorkloadError if two are equal."""
        groups = tuple(name for name, _ in self.groups)
        if len(set(groups)) != len(groups):
            raise WorkloadError(
                "group-twice",
                f"The table names a group twice: {list(groups)}.",
                "",
                "Give each group a name of its own.",
                "Nothing was planned.",
                place="groups",
            )
        return self._with_added(groups, attribute)


def _refuse_overlap(attribute: Attribute, spans: Sequence[tuple[int, int, tuple[str, Selection]]]) -> None:
    """Raise WorkloadError if two ranges overlap and neither contains the other.

    Args:
        attribute: The attribute of the groups, for the error.
        spans: For each range the first cell, minus the last cell, and the group. They are sorted by the first cell, and
            from the longest to the shortest for equal first cells.
    """
    around: list[tuple[int, str]] = []
    for start, end, (name, _) in spans:
        # The stack holds the ranges that contain the current start, the shortest on top.
        while around and around[-1][0] < start:
            around.pop()
        if around and around[-1][0] < -end:
            raise WorkloadError(
                "groups-overlap",
                f"The groups {around[-1][1]!r} and {name!r} both count {attribute.values[start]!r}, and "
                "neither lies within the other.",
                "Two ranges among the groups are disjoint, or one lies within the other.",
                "Let each range start after the one before it ends, or use ranges instead of groups.",
                "Nothing was planned.",
                place="groups",
            )
        around.append((-end, name))
