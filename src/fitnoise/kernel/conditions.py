"""Conditions on records by their own columns: only records that meet them are counted. Part of the trust kernel.

**Purpose.** A condition is on one column of a record, and is met or not by that record alone. `codings` states the
rules for reading its values: texts byte by byte, numbers in double precision. An absent or an infinite value meets no
condition. An empty text is absent unless it is one of the condition's codes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, fields
from datetime import date
from typing import Any, TypeGuard, final

from fitnoise.errors import DomainError, SpecError, advise_name
from fitnoise.kernel.checks import is_plain
from fitnoise.kernel.codings import EXACT_FLOAT_LIMIT, Code, Codes, Interval, as_python, encodable, number
from fitnoise.kernel.dates import DateField, DatePart, as_day, day_number

_CONDITION_HELP = "a value, a list of texts, { values = [1, 2] }, or bounds such as { at_least = 2020, below = 2025 }"
"""The forms of a condition."""

_LAST = 10**8
"""A number above any day."""


@final
@dataclass(frozen=True)
class Condition:
    """A condition that a record must meet in a column to be counted.

    column: The column of the data.
    codes: One of these, all text, all whole numbers or all true/false, in order; empty where there are bounds.
    at_least, above, at_most, below: Bounds on a number, or on a day for dates; for a time its day counts.

    Raises:
        SpecError: There is no column, or there are neither codes nor bounds, or both.
        SpecError: There are two lower or two upper bounds, or one bound is a day and another a number.
        SpecError: A code is not a text, whole number or truth value, or a bound is not a finite number or a date. Or a
            whole number is 2^53 or more in size.
        SpecError: No column can hold all the codes, or no number lies between the bounds.
    """

    column: str
    codes: tuple[Code, ...] = ()
    at_least: float | date | None = None
    above: float | date | None = None
    at_most: float | date | None = None
    below: float | date | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column or not encodable(self.column):
            raise SpecError(
                "condition-column-invalid",
                f"A condition is on the column {self.column!r}.",
                "A column is named by a non-empty text.",
                "Name a column of the data.",
                "Nothing was planned.",
                place="where",
            )
        try:
            codes = tuple(_code(self.column, code) for code in self.codes)
            # The order of the codes must not change the hash of the plan. Codes of mixed types are refused below.
            object.__setattr__(self, "codes", tuple(sorted(codes)) if len({type(c) for c in codes}) == 1 else codes)
            for name, x in self.bounds.items():
                object.__setattr__(self, name, _bound(self.column, x))
            # To make the coding checks all else.
            _ = self.coding
        except DomainError as error:
            raise SpecError(
                "condition-values-invalid",
                f"The condition on {self.column!r} cannot be used. {error.given}",
                error.needed,
                error.action,
                "Nothing was planned.",
                place="where",
            ) from None

    @property
    def bounds(self) -> dict[str, float | date]:
        """The given bounds, by their names."""
        by_name = {f.name: getattr(self, f.name) for f in fields(self)[2:]}
        return {name: x for name, x in by_name.items() if x is not None}

    @property
    def coding(self) -> Codes | Interval:
        """The coding of the column: a value that meets the condition has a cell."""
        if not self.bounds and not self.codes:
            raise SpecError(
                "condition-empty",
                f"The condition on {self.column!r} has an empty list of values.",
                "",
                "Give at least one value, or remove the condition.",
                "Nothing was planned.",
                place="where",
            )
        if not self.bounds:
            return Codes(self.codes)
        low, high = (self.at_least, self.above), (self.at_most, self.below)
        if self.codes or None not in low or None not in high:
            raise SpecError(
                "condition-bounds-invalid",
                f"The condition on {self.column!r} has values and bounds, or two bounds on one side.",
                "It may have values, or a bound on each side.",
                "Keep the values, or at_least or above, at_most or below.",
                "Nothing was planned.",
                place="where",
            )
        days = [isinstance(x, date) for x in self.bounds.values()]
        if any(days) and not all(days):
            raise SpecError(
                "condition-bounds-mixed",
                f"The condition on {self.column!r} has a number and a date as bounds.",
                "Both bounds must be numbers, or both dates.",
                "Change one of the bounds.",
                "Nothing was planned.",
                place="where",
            )
        ends = {name: day_number(x) if isinstance(x, date) else x for name, x in self.bounds.items()}
        low_default, high_default = (0, _LAST) if any(days) else (-math.inf, math.inf)
        # Numbers of the data are doubles, so "above a" is "at least the next double", and "at most a" is "below" it.
        return Interval(
            max(ends.get("at_least", low_default), _next(ends.get("above", -math.inf))),
            min(ends.get("below", high_default), _next(ends.get("at_most", math.inf))),
        )

    @property
    def read(self) -> DateField | None:
        """The day that is read off a date in the column; `None` if no bound is a date."""
        return DateField(DatePart.DAY) if any(isinstance(x, date) for x in self.bounds.values()) else None

    @property
    def document(self) -> Any:
        """The entry of the column in a specification."""
        codes = list(self.codes)
        bounds = {name: x.isoformat() if isinstance(x, date) else x for name, x in self.bounds.items()}
        # A bare list of numbers is refused where it is read (`_condition`), because it could be a range.
        several = {"values": codes} if all(map(_is_number, codes)) else codes
        return bounds or (codes[0] if len(codes) == 1 else several)


def conditions(stated: object) -> tuple[Condition, ...]:
    """Return conditions from a user's form, {column: value, values or bounds}, ordered by column; all must be met.

    A list of numbers could be a range, so it is written {"values": […]}. A tuple of `Condition` is accepted, too.

    Raises:
        SpecError: The form is anything else, has two conditions for one column, or has an invalid one (`Condition`).
    """
    if isinstance(stated, tuple) and all(type(c) is Condition for c in stated):
        result = stated
    elif isinstance(stated, Mapping):
        result = tuple(_condition(column, value) for column, value in stated.items())
    else:
        raise SpecError(
            "where-not-a-mapping",
            f"The value of where is of the type {type(stated).__name__}.",
            "It must give each column one condition.",
            f"Give each column {_CONDITION_HELP}.",
            "Nothing was planned.",
            place="where",
        )
    if len({c.column for c in result}) < len(result):
        raise SpecError(
            "condition-repeated",
            "The value of where has two conditions on one column.",
            "Each column may have one condition.",
            "Write one condition with both bounds.",
            "Nothing was planned.",
            place="where",
        )
    return tuple(sorted(result, key=lambda c: c.column))


def _condition(column: Any, value: object) -> Condition:
    if isinstance(value, Mapping):
        names = [f.name for f in fields(Condition)[2:]]
        if set(value) == {"values"} and _is_list(value["values"]):
            return Condition(column, tuple(value["values"]))
        if not value or not set(value) <= set(names):
            raise SpecError(
                "condition-keys-invalid",
                f"The condition on {column!r} has the keys {list(value)}.",
                f"It must be {{ values = […] }}, or some of the bounds {', '.join(names)}.",
                advise_name(
                    next((key for key in value if key not in (*names, "values")), None),
                    [*names, "values"],
                    "Write one of these forms.",
                ),
                "Nothing was planned.",
                place="where",
            )
        return Condition(column, **value)
    if _is_list(value):
        codes = tuple(value)
        if codes and all(map(_is_number, codes)):
            raise SpecError(
                "condition-numbers-ambiguous",
                f"The condition on {column!r} is a list of numbers, which could mean single values or a range.",
                "The condition must say which of the two is meant.",
                "Write { values = [2020, 2024] } for two values, or { at_least = 2020, at_most = 2024 } for a range.",
                "Nothing was planned.",
                place="where",
            )
        return Condition(column, codes)
    if isinstance(value, date):
        return Condition(column, at_least=value, at_most=value)
    return Condition(column, (value,))  # type: ignore[arg-type]  # judged there


def _is_list(value: object) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Set, Mapping))


def _is_number(code: object) -> bool:
    return is_plain(as_python(code))


def _code(column: str, code: object) -> Code:
    """Return a code as a plain value of Python, 7.0 as 7; raise SpecError for anything but a text, integer or bool."""
    item: object = as_python(code)
    if isinstance(item, float) and item.is_integer():
        return int(item)
    if not isinstance(item, (str, int)):
        raise SpecError(
            "condition-value-invalid",
            f"The condition on {column!r} has the value {item!r}.",
            "A value must be a text, a whole number, true/false, or one date that is in no list.",
            f"Write {_CONDITION_HELP}.",
            "Nothing was planned.",
            place="where",
        )
    return item


def _bound(column: str, x: object) -> float | date:
    """Return a bound as a day, an int or a float; raise SpecError for anything else and for numbers out of range."""
    if (day := as_day(x)) is not None:
        return day
    bound: object = as_python(x)
    if not is_plain(bound) or not math.isfinite(bound) or (isinstance(bound, int) and abs(bound) >= EXACT_FLOAT_LIMIT):
        raise SpecError(
            "condition-bound-invalid",
            f"The condition on {column!r} has the bound {x!r}.",
            "It must be a finite number, below 2^53 in size for a whole number, or a date such as 2024-12-31.",
            f"Write {x.strip()} without quotes."
            if isinstance(x, str) and number(x) is not None
            else "Correct this bound.",
            "Nothing was planned.",
            place="where",
        )
    is_integer = float(bound).is_integer() and abs(bound) < EXACT_FLOAT_LIMIT
    return int(bound) if is_integer else bound  # 2020.0 and 2020 are one bound, so the document has one form


def _next(x: float) -> float:
    """Return the next larger double; for an infinite `x`, `x` itself."""
    return x if math.isinf(x) else math.nextafter(x, math.inf)
