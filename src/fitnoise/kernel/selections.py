"""Values of an attribute as publishers and readers name them: one, a range, or several. Part of the trust kernel.

One notation has one meaning, in specifications, in Python and in expressions:

    14                        one value
    [0, 14]                   along an order the range from 0 to 14, ends included; without an order the codes 0 and 14
    {first = 0, last = 14}    the same range, in words
    {values = [0, 14]}        the values 0 and 14

Along an order a list of any other length is refused, so that a list of single values is never read as a range.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self, final

from fitnoise.errors import DomainError
from fitnoise.kernel.codings import plain
from fitnoise.kernel.domain import Attribute


class Form(StrEnum):
    """The notation of a selection."""

    ONE = "one"
    LIST = "list"
    RANGE = "range"
    VALUES = "values"


@final
@dataclass(frozen=True)
class Selection:
    """Values of an attribute, as they were written: which cells they are depends on the attribute.

    form: How they are written. items: The values; of a range its two ends.
    """

    form: Form
    items: tuple[Any, ...]

    @classmethod
    def parse(cls, written: Any) -> Self:
        """Read what was written.

        Args:
            written: A value, a list or tuple of values, {"first": …, "last": …} or {"values": […]}. A `range` of Python
                is a list of single values.

        Raises:
            DomainError: It is a mapping with other keys, or a set, whose order is not fixed.
        """
        if isinstance(written, cls):
            return written
        form, items = Form.LIST, written
        if isinstance(written, Mapping):
            if set(written) == {"first", "last"}:
                return cls(Form.RANGE, (plain(written["first"]), plain(written["last"])))
            form, items = Form.VALUES, written.get("values")
            if set(written) != {"values"} or not _is_list(items):
                raise DomainError(
                    f"values are named as {{ values = […] }}, or as a range {{ first = …, last = … }} with both ends; "
                    f"got {reprlib.repr(dict(written))}."
                )
        elif isinstance(written, range):
            form = Form.VALUES
        elif isinstance(written, Set):
            raise DomainError(f"values are named in a list, whose order is fixed; got a set, {reprlib.repr(written)}.")
        elif not _is_list(written):
            form, items = Form.ONE, (written,)
        return cls(form, tuple(plain(x) for x in items))

    @property
    def document(self) -> Any:
        """The notation of a specification that reads back as the same."""
        if self.form is Form.RANGE:
            return {"first": self.items[0], "last": self.items[1]}
        items = list(self.items)
        return items[0] if self.form is Form.ONE else items if self.form is Form.LIST else {"values": items}

    def is_range(self, attribute: Attribute) -> bool:
        """Return True if the selection is a range of this attribute.

        Args:
            attribute: Whose values are named.
        """
        return self.form is Form.RANGE or (self.form is Form.LIST and attribute.ordered)

    def cells(self, attribute: Attribute) -> tuple[int, ...]:
        """Return the cells of the values, in the order in which they are named; of a range from first to last.

        Args:
            attribute: Whose values are named.

        Raises:
            DomainError: A value is not declared; or what is written along an order is no range with two ends in order.

        **Guarantees**
            * A pair along an order is every cell from its first to its last value, and no cell for missing values.
            * `values` and lists of attributes without an order are the cells of the items, one each.
        """
        if not self.is_range(attribute):
            return tuple(attribute.position(x) for x in self.items)
        if not attribute.ordered:
            raise DomainError(
                f"{self._text} is a range, and the values of this attribute have no order: list its codes."
            )
        if len(self.items) != 2:
            raise DomainError(f"{self._text} is no range [first, last] of an attribute with an order. {self._ways}")
        for x in self.items:
            if x is None:
                raise DomainError(f"{self._text} is a range with one end: write both, the least and the largest value.")
            if isinstance(x, str) and x in attribute.beside:
                raise DomainError(
                    f"{self._text} is a range [first, last], and {x!r} is a cell for missing values, in no range. "
                    f"{self._ways}"
                )
        first, last = (attribute.own_position(x) for x in self.items)
        if first > last:
            raise DomainError(
                f"{self._text} is a range [first, last] that ends before it begins: write its least value first. "
                f"{self._ways}"
            )
        return tuple(range(first, last + 1))

    @property
    def _ways(self) -> str:
        return (
            f"Single values are {{ values = {self._text} }}, in Python {{'values': {self._text}}}; one value is "
            "written without a list."
        )

    @property
    def _text(self) -> str:
        return reprlib.repr(list(self.items))


def _is_list(written: object) -> bool:
    return isinstance(written, Iterable) and not isinstance(written, (str, bytes, Mapping, Set))
