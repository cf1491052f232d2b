"""Declared formats: texts in other forms, read as the forms that `codings` and `dates` read. An annex of the kernel.

**Purpose.** A publisher declares the forms of numbers, dates and texts in the data, for all columns or for one. A
format maps each text of a column to another text, and all attributes of the column read that text. So a format changes
the cell of a value, and nothing else: each record counts as before. Values that are no texts stay as they are.

**Statement.** The text of a column becomes, in this order:

1. with `normalise`, composed characters (Unicode NFC), with spaces for other blanks, and without characters of no
   width. With `normalise` or `strip`, the text also loses the blanks around it;
2. the text that `lookup` gives it, if it does;
3. where numbers are read from the column and `decimal` or `thousands` is stated: the number in digits with a point.
   Separators of thousands stand between groups of three digits, or nowhere: 1.234,5 and 1234,5, and not 1.23;
4. where dates are read from the column and `date` or `zone` is stated: the date as 2024-02-29 23:59:59.5. With a zone,
   a time with an offset becomes the local time there. A local time that a change of clocks skips is no date;
5. otherwise itself. But a text written as a number or a date without the declaration is neither: it gets a question
   mark before it.

**Trust.** Nothing is guessed: a text has one meaning or none, and none is a value outside the domain.
"""

from __future__ import annotations

import contextlib
import re
import unicodedata
import zoneinfo
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Final, final

from fitnoise.errors import SpecError
from fitnoise.kernel.codings import NUMBER_PATTERN, SPACES, Coding, as_csv_text, encodable
from fitnoise.kernel.dates import DATE_PATTERN, DateField
from fitnoise.kernel.domain import Axis, Domain
from fitnoise.kernel.units import DataSource

WIDE_BLANKS: Final = "\x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
"""The blanks of Unicode that are no `SPACES`."""

NO_WIDTH: Final = "\u200b\u2060\ufeff"
"""The characters without a width: between words, and the byte-order mark."""

BLANKS: Final = SPACES + WIDE_BLANKS + NO_WIDTH

DECIMALS: Final = ".,"
"""The possible marks between a whole number and its decimal places."""

SEPARATORS: Final = ".,'\u2019_ \xa0\u2009\u202f"
"""The possible separators of thousands."""

UNREAD: Final = "?"
"""The mark before a text that is not in the declared form, and would be a number or a date without it."""

FORMATTED_TEXTS: Final = (
    "1.234,5", "1,234.5", "1.23", "1.234", "12,5", "-1 234", "1\u202f234,5", "1'234", "1.234.567", ",5", "5,",
    "1.234,5e3", "+1.234", "1..234", "04/07/2020", "31.12.2020", "30.02.2020", "1.1.70", "2020-3-4",
    "2020-03-04T10:11:12Z", "2020-03-29 02:30:00", "2020-10-25 02:30:00.5", "2020-03-04 23:59:59.999999999-05:30",
    "0001-01-01T00:00+14",
    "9999-12-31 23:59-01", "Ko\u0308ln", "K\u00f6ln\u200b", "Bonn\u00a0", " Bonn\t", "85+", "\ufeffx", "?1.5",
)  # fmt: skip
"""Texts in other forms, for the trial of engines."""

DATED_TEXTS: Final = (
    "2024-02-29 23:59:59.999999999", "2023-12-31T00:00", "2023-02-29", "2024-04-31", "2024-13-01", "2024-00-10",
    "0000-01-01", "2024-01-01 24:00", "2024-01-01 10:60", " 2024-01-02\n", "2024-01-02 ", "2024-01-02\u00a0",
    "2024-1-2", "\u0662024-01-02", "2024-01-02 10:00:00Z", "2024-01-02 10", "2024-01-02x", "20240102", "", " ", "NA",
)  # fmt: skip
"""Texts that are dates or nearly are, for the trial of engines."""

_KNOWN_NUMBERS = (
    "1,234,567.25", "1234567.25", "-12.5", "+.5", "7.", "1,000", "12,345,67", "1,23", "1,2345", "0,001.5", ",100",
    "1,,000", "1.2.3", "--1", "1e3", "1,234.5E-3", "1e400", "12.5e", "99" * 20 + ".5", "- 1", "1,234,56",
)  # fmt: skip
"""Numbers and texts that nearly are, with a comma for the separator and a point for the mark before decimal places."""

_KNOWN_TIMES = (
    (2024, 2, 29, 23, 59, 59), (2023, 2, 29, 0, 0, 0), (1900, 2, 29, 0, 0, 0), (2000, 2, 29, 1, 2, 3),
    (2024, 4, 31, 0, 0, 0), (2024, 13, 1, 0, 0, 0), (2024, 0, 10, 0, 0, 0), (2024, 1, 0, 0, 0, 0), (0, 1, 1, 0, 0, 0),
    (1, 1, 1, 0, 0, 0), (9999, 12, 31, 23, 59, 59), (2024, 1, 1, 24, 0, 0), (2024, 1, 1, 10, 60, 0),
    (2024, 1, 1, 10, 0, 60), (1969, 7, 8, 9, 10, 11), (2068, 12, 31, 12, 0, 0), (2024, 12, 32, 0, 0, 0),
)  # fmt: skip
"""Times, and numbers that are none: the year, the month, the day, the hour, the minute and the second."""

_OFFSETS = ("Z", "+01", "-0530", "+13:45", "+00:60", "-24:00", "")
"""Offsets, and texts that are none."""

_DIRECTIVES: Final = {
    "d": "[0-9]{1,2}", "m": "[0-9]{1,2}", "Y": "[0-9]{4}", "y": "[0-9]{2}", "H": "[0-9]{1,2}", "M": "[0-9]{2}",
    "S": "[0-9]{2}", "f": "[0-9]{1,9}", "z": "Z|[+-][0-9]{2}(?::?[0-9]{2})?",
}  # fmt: skip
"""The directives of a date, each with its pattern."""

_FULL: Final = {"d": "[0-9]{2}", "m": "[0-9]{2}", "H": "[0-9]{2}", "f": "[0-9]{6}"}
"""The patterns next to other digits, where a shorter number would be ambiguous."""

FIRST_SHORT_YEAR: Final = 69
"""Two digits from here on are years from 1969 on; smaller ones are years from 2000 on, as POSIX reads them."""

_OUTCOME = "Nothing was planned."

_NO_COLUMNS: tuple[tuple[str, Any], ...] = ()


@final
@dataclass(frozen=True)
class Format:
    """The forms in which texts of a source are written. What is not stated is read as without a format.

    Args:
        decimal: The mark before the decimal places of numbers, "." or ",".
        thousands: The separator of groups of three digits of numbers, such as "." or " ".
        date: The form of dates, such as "%d.%m.%Y". It has %d, %m and one of %Y and %y (1969 to 2068), and may have %H,
            %M, %S, %f and, with a zone, %z.
        zone: The time zone of local times, such as "Europe/Vienna". Times with an offset or Z are read as local times
            there.
        normalise: True for texts that are composed (NFC), with plain spaces, and without blanks around them.
        strip: True for texts without blanks around them.
        lookup: Texts with their meaning: {"85+": 85}. A value is a text or a number.
        columns: Formats of single columns; what one of them states replaces what is stated here.

    Raises:
        SpecError: One of these is not as stated, or no text could be read in the format.
    """

    decimal: str | None = None
    thousands: str | None = None
    date: str | None = None
    zone: str | None = None
    normalise: bool | None = None
    strip: bool | None = None
    lookup: Mapping[str, str | float] | tuple[tuple[str, str], ...] | None = None
    columns: Mapping[str, Format] | tuple[tuple[str, Format], ...] = _NO_COLUMNS

    def __post_init__(self) -> None:
        self._check_numbers()
        for key in ("normalise", "strip"):
            if getattr(self, key) not in (None, True, False):
                raise _invalid(key, getattr(self, key), "It must be true or false.", f"Set {key} to true or false.")
        if self.zone is not None and (not isinstance(self.zone, str) or zone_named(self.zone) is None):
            raise _invalid(
                "zone",
                self.zone,
                "It must be the name of a time zone that this machine knows, such as Europe/Vienna or UTC.",
                "Write such a name.",
            )
        if self.date is not None:
            date_pattern(self.date, has_zone=self.zone is not None)
        if self.lookup is not None:
            object.__setattr__(self, "lookup", tuple(sorted(_pairs(self.lookup))))
            self._check_lookup()
        pairs = self.columns.items() if isinstance(self.columns, Mapping) else self.columns
        object.__setattr__(self, "columns", tuple(sorted(pairs, key=lambda pair: str(pair[0]))))
        for column, form in self.by_column.items():
            if not isinstance(column, str) or not column or type(form) is not Format or form.columns:
                raise _invalid(
                    "columns",
                    column,
                    "It must give names of columns a format each, which has no columns itself.",
                    'Write a table such as [data.columns.income] with decimal = ",".',
                )
            # To join both formats checks what they state together.
            with _located(f"columns.{column}"):
                self.in_column(column)

    def _check_numbers(self) -> None:
        for key, marks in (("decimal", DECIMALS), ("thousands", SEPARATORS)):
            mark = getattr(self, key)
            if mark is not None and (not isinstance(mark, str) or len(mark) != 1 or mark not in marks):
                raise _invalid(key, mark, f"It must be one character of {list(marks)}.", "Write one of these.")
        if self.thousands is not None and self.thousands == (self.decimal or "."):
            raise _invalid(
                "thousands",
                self.thousands,
                "It is also the mark before decimal places, which is a point unless decimal states another.",
                'Set decimal, such as decimal = ",", or another separator.',
            )

    def _check_lookup(self) -> None:
        for text, _ in self.pairs:
            if not text or ((self.normalise or self.strip) and clean(text, composed=bool(self.normalise)) != text):
                raise _invalid(
                    "lookup",
                    text,
                    "A text of lookup must not be empty, and must be as normalise and strip leave it.",
                    "Write the text without blanks around it, and in composed characters.",
                )

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The texts of `lookup`, each with its meaning."""
        return self.lookup if isinstance(self.lookup, tuple) else ()

    @property
    def by_column(self) -> dict[str, Format]:
        """The formats of single columns."""
        return dict(self.columns)

    def in_column(self, column: str) -> Format:
        """Return the format of one column.

        Args:
            column: The name of the column, as attributes and conditions state it.
        """
        column_form = self.by_column.get(column, Format())
        stated = {f.name: x for f in fields(column_form)[:-1] if (x := getattr(column_form, f.name)) is not None}
        return replace(self, columns=(), **stated)

    @property
    def document(self) -> dict[str, Any]:
        """All that is stated, as a specification states it."""
        stated = {f.name: x for f in fields(self)[:6] if (x := getattr(self, f.name)) is not None}
        stated |= {} if self.lookup is None else {"lookup": dict(self.pairs)}
        columns = {column: form.document for column, form in self.by_column.items()}
        return stated | ({"columns": columns} if columns else {})

    def key(self, column: str) -> list[dict[str, Any]]:
        """Return all that decides how texts of a column are read; nothing without a format.

        Args:
            column: The name of the column.
        """
        return [document] if (document := self.in_column(column).document) else []


def _pairs(lookup: object) -> Iterator[tuple[str, str]]:
    """Yield the texts of a lookup with their meanings as texts; raise SpecError for another form."""
    pairs = lookup.items() if isinstance(lookup, Mapping) else lookup
    for pair in pairs if isinstance(pairs, Iterable) else [lookup]:
        text, value = pair if isinstance(pair, tuple) and len(pair) == 2 else (None, None)
        meaning = None if isinstance(value, bool) else as_csv_text(value)
        if not isinstance(text, str) or not encodable(text) or meaning is None:
            raise _invalid(
                "lookup", pair, "It must give texts their meanings.", 'Write a table such as { "85+" = 85 }.'
            )
        yield text, meaning


def _invalid(key: str, value: object, needed: str, action: str) -> SpecError:
    return SpecError("format-invalid", f"The value of {key} is {value!r}.", needed, action, _OUTCOME, place=key)


@contextlib.contextmanager
def _located(where: str) -> Iterator[None]:
    """Give an error of a format of a column the place of that column."""
    try:
        yield
    except SpecError as error:
        raise error.with_place(f"{where}.{error.place}") from None


# --- reading ----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class TextReader:
    """The function that reads texts of one column in its declared format.

    form: The format of the column.
    numbers: True if numbers are read from the column.
    dates: True if dates are read from it.
    """

    form: Format
    numbers: bool
    dates: bool

    @cached_property
    def meanings(self) -> dict[str, str]:
        """The texts of the lookup with their meanings."""
        return dict(self.form.pairs)

    @property
    def reads_numbers(self) -> bool:
        """True if numbers are written in a declared form."""
        return self.numbers and (self.form.decimal is not None or self.form.thousands is not None)

    @property
    def reads_dates(self) -> bool:
        """True if dates are written in a declared form."""
        return self.dates and (self.form.date is not None or self.form.zone is not None)

    @property
    def decimal(self) -> str:
        """The mark before the decimal places."""
        return self.form.decimal or "."

    @property
    def separator(self) -> str | None:
        """The separator of thousands, as it is in texts that are already normalised; `None` without one."""
        thousands = self.form.thousands
        return clean(f"0{thousands}0", composed=True)[1] if thousands and self.form.normalise else thousands

    @property
    def number_pattern(self) -> re.Pattern[str]:
        """The pattern of numbers in their declared form, without spaces around them."""
        return number_pattern(self.decimal, self.separator)

    @property
    def date_pattern(self) -> re.Pattern[str]:
        """The pattern of dates in their declared form, with a group for each directive."""
        form = self.form
        return _ISO_PATTERN if form.date is None else date_pattern(form.date, has_zone=form.zone is not None)

    def __bool__(self) -> bool:
        form = self.form
        return bool(form.normalise or form.strip or form.pairs) or self.reads_numbers or self.reads_dates

    def __call__(self, text: str) -> str:
        """Return the text that is coded.

        Args:
            text: A text of the column.
        """
        form = self.form
        if form.normalise or form.strip:
            text = clean(text, composed=bool(form.normalise))
        if text in self.meanings:
            return self.meanings[text]
        stripped = text.strip(SPACES)
        if self.reads_numbers and self.number_pattern.fullmatch(stripped):
            digits = stripped if self.separator is None else stripped.replace(self.separator, "")
            return digits.replace(self.decimal, ".")
        if self.reads_dates and (match := self.date_pattern.fullmatch(stripped)) is not None:
            read = _date(form, match)
            if read is not None:
                return read
        unread = (self.reads_numbers and NUMBER_PATTERN.fullmatch(stripped)) or (
            self.reads_dates and re.fullmatch(DATE_PATTERN, stripped)
        )
        return UNREAD + text if unread else text

    def value(self, value: object) -> object:
        """Return the value that is coded: texts as this function reads them, other values as they are.

        Args:
            value: A value of the column.
        """
        return self(value) if isinstance(value, str) else value


def known_texts(reader: TextReader) -> list[str]:
    """Return texts for the trial of an engine that reads a declared form: in the form, nearly in it, and in others.

    Args:
        reader: The function that reads the texts.
    """
    form = reader.form
    in_form = [text for text, _ in form.pairs]
    if reader.reads_numbers:
        marks = {",": form.thousands or "", ".": reader.decimal}
        in_form += ["".join(marks.get(c, c) for c in text) for text in _KNOWN_NUMBERS]
    if reader.reads_dates:
        date = form.date or "%Y-%m-%d %H:%M:%S%z"
        in_form += [_in_form(date, x, _OFFSETS[i % len(_OFFSETS)]) for i, x in enumerate(_KNOWN_TIMES)]
        in_form += [_in_form(date, x, "", short=True) for x in _KNOWN_TIMES]
    nearly = [
        y for x in in_form for y in (f" {x}\t", f"{x}\n", f"\n{x}", f"{x}\u00a0", f"{x}\u200b", f"{x}x", f"\u0663{x}")
    ]
    if reader.reads_dates and form.zone is not None:
        in_form += [_in_form(date, x, z) for x in _changes(form.zone) for z in ("", "Z")]
    return list(dict.fromkeys(("", " ", *FORMATTED_TEXTS, *DATED_TEXTS, *in_form, *nearly)))


def _in_form(date: str, numbers: Sequence[int], offset: str, *, short: bool = False) -> str:
    """Return a time in a declared form; with `short`, days and months have no zeros before them."""
    texts = {x: f"{n:02}" for x, n in zip("YmdHMS", numbers, strict=True)}
    texts |= {"Y": f"{numbers[0]:04}", "y": texts["Y"][-2:], "f": "250000", "z": offset, "%": "%"}
    texts |= {"d": str(numbers[2]), "m": str(numbers[1]), "f": "5"} if short else {}
    return re.sub("%(.)", lambda directive: texts[directive[1]], date)


@cache
def _changes(zone: str) -> tuple[tuple[int, ...], ...]:
    """Return local times around the changes of the clocks of a zone, from 1900 to 2040 and in 2500."""
    there, second = zone_named(zone), timedelta(seconds=1)

    def offset(moment: datetime) -> timedelta:
        return moment.replace(tzinfo=UTC).astimezone(there).replace(tzinfo=None, fold=0) - moment

    out: list[tuple[int, ...]] = []
    days = [datetime(y, 1, 1) + timedelta(n) for y in (*range(1900, 2041), 2500) for n in range(366)]  # noqa: DTZ001
    for (day, before), (next_day, after) in pairwise(zip(days, map(offset, days), strict=True)):
        start, end = day, next_day
        while before != after and end - start > second:
            middle = start + (end - start) // (2 * second) * second
            start, end = (middle, end) if offset(middle) == before else (start, middle)
        moments = (end + before - second, end + before, end + after - second, end + after) if before != after else ()
        out += [x.timetuple()[:6] for x in moments]
    return tuple(out)


def column_reader(domain: Domain, source: DataSource, column: str) -> TextReader | None:
    """Return the function that reads texts of a column; `None` if no declared format changes one.

    Args:
        domain: The domain, whose attributes decide what is read from the column.
        source: The source, with its format and its conditions.
        column: The name of the column, as attributes and conditions state it.
    """
    if source.format is None:
        return None
    return TextReader(source.format.in_column(column), *used_forms(domain, source, column)) or None


def used_forms(domain: Domain, source: DataSource, column: str) -> tuple[bool, bool]:
    """Return True if an attribute or a condition reads numbers from a column, and True if one reads dates.

    Args:
        domain: The domain.
        source: The source, with its conditions.
        column: The name of the column, as attributes and conditions state it.
    """
    uses: list[tuple[DateField | None, Coding]] = [
        (axis.date_part, axis.coding) for name, axis in domain.entries if domain.column(name) == column
    ]
    uses += [(c.read, c.coding) for c in source.conditions if c.column == column]
    numbers = any(part is None and coding.kind is int for part, coding in uses)
    return numbers, any(part is not None for part, _ in uses)


def clean(text: str, *, composed: bool) -> str:
    """Return a text without blanks around it.

    Args:
        text: The text.
        composed: True for composed characters and plain spaces, too.
    """
    if composed:
        text = unicodedata.normalize("NFC", text).translate(_SPACE_OF)
    return text.strip(BLANKS)


_SPACE_OF = {**{ord(c): " " for c in WIDE_BLANKS}, **{ord(c): None for c in NO_WIDTH}}


@cache
def number_pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    """Return the pattern of numbers in a declared form.

    Args:
        decimal: The mark before the decimal places.
        thousands: The separator of thousands, or `None` without one.
    """
    mark = re.escape(decimal)
    grouped = "" if thousands is None else rf"[0-9]{{1,3}}(?:{re.escape(thousands)}[0-9]{{3}})+|"
    return re.compile(rf"[+-]?(?:(?:{grouped}[0-9]+)(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][+-]?[0-9]+)?")


@cache
def date_pattern(date: str, *, has_zone: bool) -> re.Pattern[str]:
    """Return the pattern of dates in a declared form, with a group for each directive.

    Args:
        date: The form.
        has_zone: True if a zone is declared, so that the form may have an offset.

    Raises:
        SpecError: The form is not as `Format` states.
    """
    parts = re.findall("%.|[^%]|%$", date, re.DOTALL) if isinstance(date, str) else []
    directives = [part[1] for part in parts if len(part) == 2 and part != "%%"]
    stated = set(directives)
    needs = (("M", "H"), ("S", "M"), ("f", "S"), ("z", "H"))
    good = {"d", "m"} <= stated <= set(_DIRECTIVES) and len(stated & {"Y", "y"}) == 1
    good = good and len(stated) == len(directives) and "%" not in parts and encodable(date)
    if not good or any(part in stated and larger not in stated for part, larger in needs):
        raise _invalid(
            "date",
            date,
            "It must have %d, %m and one of %Y and %y once each, and may have %H, %M, %S, %f and %z, each with the one "
            "before it.",
            'Write a form such as "%d.%m.%Y" or "%Y-%m-%d %H:%M:%S".',
        )
    if "z" in stated and not has_zone:
        raise _invalid("date", date, "A form with an offset (%z) needs a zone.", 'Set zone, such as zone = "UTC".')
    out = []
    for before, part, after in zip(["", *parts], parts, [*parts[1:], ""], strict=False):
        if len(part) == 1 or part == "%%":
            out.append(re.escape(part[-1]))
        else:
            has_neighbour = any(x.isdigit() or (len(x) == 2 and x not in ("%%", "%z")) for x in (before, after))
            pattern = _FULL.get(part[1]) if has_neighbour else None
            out.append(f"(?P<{part[1]}>{pattern or _DIRECTIVES[part[1]]})")
    return re.compile("".join(out))


_ISO_PATTERN = re.compile(
    rf"(?P<Y>{_DIRECTIVES['Y']})-(?P<m>{_FULL['m']})-(?P<d>{_FULL['d']})(?:[ T](?P<H>{_FULL['H']}):(?P<M>[0-9]{{2}})"
    rf"(?::(?P<S>[0-9]{{2}})(?:\.(?P<f>{_DIRECTIVES['f']}))?)?(?P<z>{_DIRECTIVES['z']})?)?"
)
"""The pattern of a date as `dates` reads it, with an offset behind its time."""


def _date(form: Format, match: re.Match[str]) -> str | None:
    """Return a date as `dates` reads it; `None` for a text in the declared form that is no date."""
    parts = {name: x for name, x in match.groupdict().items() if x is not None}
    year = int(parts["Y"]) if "Y" in parts else int(parts["y"])
    if "y" in parts:
        year += 1900 if year >= FIRST_SHORT_YEAR else 2000
    rest = [int(parts.get(name, "0")) for name in "mdHMS"]
    # The numbers can be those of no day or time, an offset can be a day or more, and a year can pass 9999.
    with contextlib.suppress(ValueError, OverflowError):
        moment = datetime(year, *rest)  # type: ignore[arg-type]  # noqa: DTZ001 - five numbers of a local time
        if "H" not in parts:
            return moment.date().isoformat()
        local = moment if form.zone is None else _local(moment, parts.get("z"), form.zone)
        fraction = f".{parts['f']}" if "f" in parts else ""
        return None if local is None else f"{local.isoformat(' ')}{fraction}"
    return None


def _local(moment: datetime, offset: str | None, zone: str) -> datetime | None:
    """Return the local time of a moment in a zone; `None` for a local time that does not exist.

    Args:
        moment: A local time in the zone, or the time with the offset.
        offset: The offset of the time from UTC, or `None` for a local time.
        zone: The name of the zone.
    """
    there = zone_named(zone)
    if offset is None:
        # A local time that a change of clocks skips becomes another one on the way to UTC and back.
        back = moment.replace(tzinfo=there).astimezone(UTC).astimezone(there)
        return moment if back.replace(tzinfo=None, fold=0) == moment else None
    minutes = 0
    if offset != "Z":
        hours, rest = int(offset[1:3]), int(offset[3:].lstrip(":") or "0")
        if rest > 59:
            return None
        minutes = (-1 if offset[0] == "-" else 1) * (60 * hours + rest)
    return moment.replace(tzinfo=timezone(timedelta(minutes=minutes))).astimezone(there).replace(tzinfo=None, fold=0)


@cache
def zone_named(name: str) -> tzinfo | None:
    """Return the time zone of a name; `None` if this machine does not know it.

    Args:
        name: The name, such as Europe/Vienna.
    """
    if name == "UTC":
        return UTC
    with contextlib.suppress(ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return zoneinfo.ZoneInfo(name)
    return None


# --- forms that texts seem to have -------------------------------------------------------------------------------

_NUMBER_FORMS = (
    Format(decimal=","),
    *(Format(thousands=mark) for mark in ",'\u2019 \xa0\u202f"),
    *(Format(decimal=",", thousands=mark) for mark in ". \xa0\u202f'"),
)

_DAYS = (
    "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y-%m-%d", "%Y%m%d",
    "%d.%m.%y", "%d/%m/%y", "%m/%d/%y",
)  # fmt: skip

_DATE_FORMS = (
    Format(zone="UTC"),
    *(Format(date=day + time) for time in ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S") for day in _DAYS),
)

_TEXT_FORMS = (Format(strip=True), Format(normalise=True))


def forms_met(axis: Axis, reader: TextReader | None, texts: Iterable[str]) -> list[Format]:
    """Return the usual formats that read most of the texts that have no cell; none if no format reads one.

    Several formats are returned where they read equally many, such as both orders of day and month.

    Args:
        axis: The axis that reads the column.
        reader: The function that reads texts in the declared format, or `None` without one.
        texts: Texts of the column.
    """
    if axis.coding.attribute is not None:  # whose cell is needed, and one column is at hand
        return []
    form = Format() if reader is None else reader.form
    without_cell = [text for text in texts if axis.cell(text if reader is None else reader(text)) is None]
    kind, part = axis.coding.kind, axis.date_part
    usual = _DATE_FORMS if part is not None else _NUMBER_FORMS if kind is int else _TEXT_FORMS
    numbers: dict[Format, int] = {}
    for each in usual:
        stated = {key: x for key, x in each.document.items() if getattr(form, key) is None}
        with contextlib.suppress(SpecError):  # what is declared may exclude it
            tried = TextReader(replace(form, **stated), part is None and kind is int, part is not None)
            numbers[each] = sum(axis.cell(tried(text)) is not None for text in without_cell)
    max_read = max(numbers.values(), default=0)
    # A form with fewer keys is the simpler reason.
    best = [each for each, n in numbers.items() if n == max_read > 0]
    return [each for each in best if len(each.document) == min(len(x.document) for x in best)]
