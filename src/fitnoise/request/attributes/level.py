"""One level of nested places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

from fitnoise.kernel.codings import Code, Codes, as_python
from fitnoise.kernel.places import LeafCodes
from fitnoise.request.attributes._base import NAME, Attribute, attribute_document, listed_codes, unknown_value


@final
@dataclass(frozen=True)
class HierarchyLevel(Attribute):
    """One level of a hierarchy: a record lies in the place that holds its leaf. `Hierarchy` makes its levels.

    hierarchy: The hierarchy.
    depth: The depth of the level, 0 at the top.
    names: The name of each place, in the order of the codes; empty without names.
    """

    kind, ordered, has_sequence, is_numeric = "level", False, False, False

    hierarchy: Attribute = field(repr=False)
    depth: int
    names: tuple[str, ...] = ()
    column: None = field(init=False, default=None)
    coding: Codes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        assert self.hierarchy.tree is not None  # noqa: S101 - a hierarchy has one
        object.__setattr__(self, "coding", LeafCodes(self.hierarchy.tree, self.depth))

    @property
    def name(self) -> str:
        """The name of the level in tables."""
        return self.hierarchy.levels[self.depth]

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The codes of its places."""
        codes: tuple[str | int, ...] = self.coding.places.codes[self.depth]
        return codes

    @property
    def further_columns(self) -> dict[str, tuple[Code | float, ...]]:
        """The names of its places, if they are declared."""
        return {NAME: self.names} if self.names else {}

    @cached_property
    def _positions(self) -> dict[object, int]:
        return {code: i for i, code in enumerate(self.own_values)}

    def own_position(self, value: object) -> int:
        """Return the cell of a place's code; raise DomainError for any other value."""
        value = as_python(value)
        # The code 1 equals True and 1.0, which are no codes of places.
        position = self._positions.get(value) if type(value) is type(self.values[0]) else None
        if position is None:
            codes = [code for code, name in zip(self.own_values, self.names, strict=False) if name == value]
            raise unknown_value(
                repr(value),
                f"It is the name of {listed_codes(codes)}. Places of the level {self.name!r} are given by their codes."
                if codes
                else f"It must be a place of the level {self.name!r}.",
            )
        return position

    def own_examples(self, cell: int, class_cell: int) -> Sequence[Any]:
        """Return the codes of the leaves in a place.

        Args:
            cell: The index of the place, from 0.
            class_cell: Not used: only the range of an amount depends on another attribute.
        """
        del class_cell
        return [code for code, i in zip(self.coding.codes, self.coding.cells, strict=True) if i == cell]

    def declared(self) -> dict[str, Any]:
        """Return the depth of the level, and its hierarchy."""
        return {"depth": self.depth, "of": attribute_document(self.hierarchy)}
