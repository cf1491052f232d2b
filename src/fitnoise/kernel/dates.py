"""Parts that are read off a date: an age, a year, an hour. Part of the trust kernel.

**Purpose.** Dates are of the Gregorian calendar, from 0001-01-01 to 9999-12-31, without a time zone, because zones
disagree on the day of one instant. A text is a date if it is written as one, 2024-02-29. It may have a time behind it,
2024-02-29 23:59:59.5 or with a T between, and spaces around it. An absent date has an absent part. Any other value that
is not a date has no part to read, and is outside.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, final

from fitnoise.errors import DomainError
from fitnoise.kernel.codings import SPACES, as_csv_text, is_absent

_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?"

DATE_PATTERN = rf"([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})([ T]{_TIME})?"
"""The pattern of a date in text, with or without a time."""


class DatePart(StrEnum):
    """The parts of a date that can be read off."""

    AGE = "age_on"
    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    WEEKDAY = "weekday"
    HOUR = "hour"
    DAY = "day"


@final
@dataclass(frozen=True)
class DateField:
    """A whole number that is read off a date.

    part: The age in completed years on the day `on`, the year, the quarter (1 to 4), or the month. Or the day of the
    week, from 1 for Monday to 7, or the hour (0 to 23). A date without a time has no hour and is outside. Only
    conditions use the day itself, 20241231.
    on: The day of an age; `None` for every other part.

    Let (y, m, d) be the date and (Y, M, D) the day `on`. The age is Y − y, less one where (M, D) is before (m, d) in
    the year. A person born on 29 February completes a year on 1 March where there is no such day. Before birth there is
    no age: such a value is outside, and no range clips it.
    """

    part: DatePart
    on: date | None = None

    def __post_init__(self) -> None:
        # The text "hour" equals DatePart.HOUR, and `number` compares parts by identity.
        kind = date if self.part is DatePart.AGE else type(None)
        if type(self.part) is not DatePart or type(self.on) is not kind:
            raise DomainError(
                "date-field-invalid",
                "A part of a date is not one of the known parts, with a day for an age and no other.",
                "",
                "Give a DatePart, with the day on which an age is computed.",
                "No attribute was made.",
                place="date_part",
            )

    def number(self, value: object) -> float | None:
        """Return the number; `None` for an absent value, and infinity for any other value without this number."""
        # No domain has infinity, so such a value is outside, not absent: the two can have different cells.
        text = dated(value)
        if text is None or is_absent(text, int):
            return None
        match, day = re.fullmatch(DATE_PATTERN, text.strip(SPACES)), None
        # The pattern admits 2023-02-30 and the year 0000, which are no days.
        with contextlib.suppress(ValueError):
            day = date(*map(int, match.groups()[:3])) if match else None
        if day is None or match is None:
            return math.inf
        if self.part is DatePart.HOUR:
            return math.inf if match[5] is None else int(match[5])
        return self._from_day(day)

    def _from_day(self, day: date) -> float:
        if self.on is not None:
            before = (self.on.month, self.on.day) < (day.month, day.day)
            return self.on.year - day.year - before if day <= self.on else math.inf
        return {
            DatePart.YEAR: day.year,
            DatePart.QUARTER: (day.month + 2) // 3,
            DatePart.MONTH: day.month,
            DatePart.WEEKDAY: day.isoweekday(),
            DatePart.DAY: day_number(day),
        }[self.part]

    @property
    def document(self) -> Any:
        """The part as a specification states it."""
        return self.part.value if self.on is None else {self.part.value: self.on.isoformat()}


def dated(value: object) -> str | None:
    """Return a date of Python as text, and any other value as `as_csv_text` returns it."""
    if isinstance(value, date):
        # A time with a zone is written with its offset. It matches no pattern, so it is outside.
        return str(value) if value == value else None  # noqa: PLR0124 - that of pandas may be none
    return as_csv_text(value)


def read(value: object) -> DateField | None:
    """Return the field that a user states as a word for a part of a date, such as "year".

    An age is stated as {"age_on": "2024-12-31"}. `None`, for a column whose values are read as they are, and a
    `DateField` are returned unchanged.

    Raises:
        DomainError: The given value is anything else, such as the word for the day, which only conditions use.
    """
    if value is None or isinstance(value, DateField):
        return value
    if isinstance(value, str) and value in {*DatePart} - {DatePart.AGE, DatePart.DAY}:
        return DateField(DatePart(value))
    if isinstance(value, Mapping) and list(value) == [DatePart.AGE.value]:
        day = as_day(value[DatePart.AGE.value])
        if day is not None:
            return DateField(DatePart.AGE, day)
    parts = ", ".join(f"'{part}'" for part in DatePart if part not in {DatePart.AGE, DatePart.DAY})
    raise DomainError(
        "date-part-invalid",
        f"The value of date_part is {value!r}.",
        f"It must be one of {parts}, or the age on a day.",
        'Write one of these words, or { age_on = "2024-12-31" }.',
        "No attribute was made.",
        place="date_part",
    )


def day_number(day: date) -> int:
    """Return the day as the number year · 10,000 + month · 100 + day, such as 20241231; later days are larger."""
    return day.year * 10000 + day.month * 100 + day.day


def as_day(value: object) -> date | None:
    """Return the day that a date, or a text such as "2024-12-31", is; `None` for anything else, such as a time."""
    if isinstance(value, str) and re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        with contextlib.suppress(ValueError):
            return date.fromisoformat(value)
    # A `datetime` is a `date` of Python, too.
    if isinstance(value, datetime) or not isinstance(value, date):
        return None
    return date(value.year, value.month, value.day)
