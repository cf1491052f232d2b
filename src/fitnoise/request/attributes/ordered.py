"""Whole numbers in a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, final

from pydantic import Field

from fitnoise.kernel.codings import Coding, Range, as_python
from fitnoise.kernel.dates import DateField
from fitnoise.request.attributes._base import (
    FILL_IN_MARK,
    MISSING_CODES_RULE,
    MISSING_HELP,
    Attribute,
    AttributeSection,
    CodingRule,
    Missing,
    check_column,
    unknown_value,
)


@final
@dataclass(frozen=True)
class Ordered(Attribute):
    """Whole numbers from `low` to `high`, ends included.

    With `clip=True` smaller values count as `low` and larger ones as `high` ("85 and over"). This is a declared coding
    of the data, not a repair. Otherwise values outside are outside the domain. `missing`, `if_missing`, `if_outside`
    and `date_part` are as for :class:`Categorical`. Codes of `missing` come before anything is clipped.

    Raises:
        DomainError: The bounds are not whole numbers below 2^53 in size, `low > high`, or there are more than
            ten million cells.
        DomainError: `clip`, the column, the date part or a part of `missing` is invalid.
    """

    kind, ordered, has_sequence, is_numeric = "ordered", True, True, True

    low: int
    high: int
    clip: bool = False
    column: str | None = None
    missing: Missing | None = field(default=None, kw_only=True)  # type: ignore[assignment]  # pairs, once it is made
    if_missing: str | None = field(default=None, kw_only=True)
    if_outside: str | None = field(default=None, kw_only=True)
    date_part: DateField | Mapping[str, Any] | str | None = field(default=None, kw_only=True)
    coding: Coding = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        coding = Range(self.low, self.high, self.clip)
        self._with_read(self.date_part, int)
        check_column(self.column)
        object.__setattr__(self, "low", coding.low)
        object.__setattr__(self, "high", coding.high)
        object.__setattr__(self, "clip", coding.clip)
        self._with_missing(coding, self.missing, self.if_missing, self.if_outside)

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The whole numbers themselves."""
        return tuple(range(self.low, self.high + 1))

    @property
    def coding_rules(self) -> tuple[CodingRule, ...]:
        """The rules for clipped values; empty without clipping."""
        if not self.clip:
            return ()
        codes = any(isinstance(code, int) for codes in dict(self.missing or ()).values() for code in codes)
        clipped: CodingRule = ("report.coding.range", {"low": self.low, "high": self.high})
        return (clipped, *([MISSING_CODES_RULE] if codes else []))

    @property
    def is_capped(self) -> bool:
        """True if the attribute clips."""
        return self.clip

    def largest(self, ceiling: float | None, cell: int | None = None) -> float:
        """Return the larger of both ends, in absolute value.

        Args:
            ceiling: No part of the result: a range has no ceilings.
            cell: No part of the result: one range holds for all classes.
        """
        del ceiling, cell
        return float(max(abs(self.low), abs(self.high)))

    def own_position(self, value: object) -> int:
        """Return the cell of a whole number in the range.

        Args:
            value: A whole number from `low` to `high`.

        Returns:
            The position of the cell, from 0.

        Raises:
            DomainError: The value is not such a number.
        """
        value = as_python(value)
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return value - self.low
        raise unknown_value(repr(value), f"It must be a whole number from {self.low} to {self.high}.")

    def own_examples(self, cell: int, class_cell: int) -> Sequence[Any]:
        """Return the whole number of a cell.

        Args:
            cell: The index of the cell, from 0.
            class_cell: Not used: only the range of an amount depends on another attribute.
        """
        del class_cell
        return (self.low + cell,)

    @property
    def limits(self) -> tuple[float, float]:
        """Both ends."""
        return self.low, self.high

    def declared(self) -> dict[str, Any]:
        """Return both ends, and the rule for values outside them."""
        return {"low": self.low, "high": self.high, "clip": self.clip}


class OrderedSpec(AttributeSection):
    """Whole numbers from low to high."""

    meaning = "whole numbers, of which tables may show cumulative counts and ranges"
    starter_keys: ClassVar[Mapping[str, tuple[str, str]]] = {
        "low": ("0", FILL_IN_MARK + "the least there may be"),
        "high": ("99", FILL_IN_MARK + "the largest"),
        "clip": ("true", "count smaller and larger ones at the ends"),
        "missing": ("{ unknown = [-1] }", MISSING_HELP),
    }

    type: Literal["ordered"] = Field(description="The kind of the attribute.")
    low: int = Field(description="The smallest value.")
    high: int = Field(description="The largest value.")
    clip: bool = Field(False, description="True to count smaller values as low and larger values as high.")

    def build(self, folder: Path | None) -> Attribute:
        """Return the attribute."""
        return Ordered(self.low, self.high, self.clip, self.column, **self._reading_options)
