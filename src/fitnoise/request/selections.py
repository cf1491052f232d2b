"""Values of an attribute as publishers and readers name them: one, a range, or several.

**Purpose.** One notation has one meaning, in specifications, in Python and in expressions:

    14                        one value.
    [0, 14]                   with an order the range from 0 to 14, ends included; without an order the codes 0 and 14.
    {first = 0, last = 14}    the same range, in words.
    {values = [0, 14]}        the values 0 and 14.

Along an order a list of any other length is refused, so that a list of single values is never read as a range.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, final

from fitnoise.errors import DomainError
from fitnoise.kernel.codings import as_python
from fitnoise.request.attributes import Attribute


class Form(StrEnum):
    """The notation of a selection."""

    ONE = "one"
    LIST = "list"
    RANGE = "range"
    VALUES = "values"


@final
@dataclass(frozen=True)
class Selection:
    """Values of an attribute, as they were written; `cells` returns their cells for an attribute.

    form: The notation.
    items: The values; for a range its two ends.
    """

    form: Form
    items: tuple[Any, ...]

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Return the selection that one of the four notations writes.

        Args:
            value: A value, a list or tuple, {"first": …, "last": …} or {"values": […]}; or a selection, which is
                returned. A `range` of Python means the single values in it, like {"values": […]}.

        Raises:
            DomainError: The value is a mapping with other keys or without a list of values, or a set, whose order is
                not fixed.

        **Guarantees**
            * A list or tuple becomes a range only where the attribute has an order (`is_range`).
        """
        if isinstance(value, cls):
            return value
        form, items = Form.LIST, value
        if isinstance(value, Mapping):
            if set(value) == {"first", "last"}:
                # Mappings come before lists: iterating over a mapping would yield its keys.
                return cls(Form.RANGE, (as_python(value["first"]), as_python(value["last"])))
            form, items = Form.VALUES, value.get("values")
            if set(value) != {"values"} or not _is_list(items):
                raise DomainError(
                    "selection-keys-invalid",
                    f"The values are written as {reprlib.repr(dict(value))}.",
                    "Values need the one key values with a list, and a range needs the keys first and last.",
                    "Write { values = […] } or { first = …, last = … }.",
                    "Nothing was selected.",
                )
        # `range(0, 15)` excludes its end, so it must not become a pair of ends that includes both.
        elif isinstance(value, range):
            form = Form.VALUES
        elif isinstance(value, Set):
            raise DomainError(
                "selection-is-a-set",
                f"The values are written as the set {reprlib.repr(value)}.",
                "The order of the values must be fixed.",
                "Write the values as a list.",
                "Nothing was selected.",
            )
        elif not _is_list(value):
            form, items = Form.ONE, (value,)
        return cls(form, tuple(as_python(x) for x in items))

    @property
    def document(self) -> Any:
        """The notation of a specification from which `parse` returns an equal selection."""
        if self.form is Form.RANGE:
            return {"first": self.items[0], "last": self.items[1]}
        items = list(self.items)
        return items[0] if self.form is Form.ONE else items if self.form is Form.LIST else {"values": items}

    def is_range(self, attribute: Attribute) -> bool:
        """Return True if the selection is a range of this attribute.

        Args:
            attribute: The attribute of the values.
        """
        return self.form is Form.RANGE or (self.form is Form.LIST and attribute.ordered)

    def cells(self, attribute: Attribute) -> tuple[int, ...]:
        """Return the cells of the values, in the order in which they are named; of a range from first to last.

        Args:
            attribute: The attribute of the values.

        Raises:
            DomainError: A value is not declared, or the attribute of a range has no order.
            DomainError: A list along an order is no range with two ends in order.
            DomainError: An end of a range is `None` or a missing-value category.

        **Guarantees**
            * A pair along an order gives every cell from its first to its last value, and no cell for missing values.
            * `values`, and a list without an order, give one cell for each item, in the order of the items.
        """
        if not self.is_range(attribute):
            return tuple(attribute.position(x) for x in self.items)
        if not attribute.ordered:
            raise DomainError(
                "range-without-order",
                f"The values {self._text} are written as a range.",
                "The values of this attribute have no order.",
                "List its codes.",
                "Nothing was selected.",
            )
        if len(self.items) != 2:
            raise DomainError(
                "range-not-a-pair",
                f"The list {self._text} is not a range [first, last].",
                "Along an order, a list must be a range.",
                self._ways,
                "Nothing was selected.",
            )
        for x in self.items:
            if x is None:
                raise DomainError(
                    "range-with-one-end",
                    f"The range {self._text} has one end.",
                    "A range needs both ends.",
                    "Write both ends, the least and the largest value.",
                    "Nothing was selected.",
                )
            # Missing-value categories have no place in the order, although their cells follow those of the values.
            if isinstance(x, str) and x in attribute.missing_cells:
                raise DomainError(
                    "range-of-missing-cell",
                    f"The range {self._text} has the end {x!r}, which is a cell for missing values.",
                    "No range includes such a cell.",
                    self._ways,
                    "Nothing was selected.",
                )
        start, stop = (attribute.own_position(x) for x in self.items)
        if start > stop:
            raise DomainError(
                "range-ends-reversed",
                f"The range {self._text} ends before it starts.",
                "A range needs its least value first.",
                f"Exchange the ends. {self._ways}",
                "Nothing was selected.",
            )
        return tuple(range(start, stop + 1))

    @property
    def _ways(self) -> str:
        return (
            f"Single values are {{ values = {self._text} }}, in Python {{'values': {self._text}}}; one value is "
            "written without a list."
        )

    @property
    def _text(self) -> str:
        return reprlib.repr(list(self.items))


def _is_list(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping, Set))
