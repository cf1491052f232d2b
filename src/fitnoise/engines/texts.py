"""Texts in the columns of a database: numbers, dates and declared forms, in SQL.

**Purpose.** The definition is `fitnoise.kernel.formats.TextReader`, `codings.NUMBER_PATTERN` and
`dates.DATE_PATTERN`. A text has a number or a date only if it matches a pattern from its first character to its last.
Nothing is left to the engine's own reading. An engine may read 30 February as 1 March, or a number before other
letters.

**Method.** The columns go through several queries, one inside the other, so that no engine computes a part twice:

    column → text → without blanks → parts → the text that is coded → its number, or the part of its date

Every expression is total: it gives a text to a cast only where the pattern is met.
"""

# ruff: noqa: S608 - SQL holds names that a dialect has quoted, numbers, and texts in hexadecimal

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, final

from fitnoise.engines.dialects import Dialect
from fitnoise.engines.statements import Field, PersonColumn
from fitnoise.engines.text_functions import TextFunctions
from fitnoise.kernel.codings import NUMBER_PATTERN, SPACES
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.dates import DATE_PATTERN, DateField, DatePart
from fitnoise.kernel.formats import BLANKS, FIRST_SHORT_YEAR, NO_WIDTH, UNREAD, WIDE_BLANKS, TextReader

_NAME = re.compile(r"source\.(w[0-9]+)")

_MANTISSA = r"\A([+-]?[0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
_FRACTION = r"\A[+-]?[0-9]*(?:\.([0-9]*))?(?:[eE][+-]?[0-9]+)?"
_EXPONENT_SIGN = r"\A[+-]?[0-9]*(?:\.[0-9]*)?(?:[eE](-?)\+?[0-9]+)?"
_EXPONENT = r"\A[+-]?[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?0*([0-9]*))?"
"""The parts of a decimal number."""

_SHORT = r"[+-]?[0-9]{1,30}(?:\.[0-9]{0,30})?"
"""A decimal number that an engine reads at once."""

_DIGITS: Final = 800
"""The number of digits of a decimal number that, with one more for the rest, decide which double is nearest."""

_EXPONENT_DIGITS: Final = 10
"""The largest number of digits of an exponent that counts; with more, a number is zero or no double."""

_POWERS: Final = 400
"""The power of ten from which on a number is no double, and below whose reciprocal it is zero."""


@final
class Columns:
    """Columns that are computed from those of a relation, in queries one inside the other."""

    def __init__(self, d: Dialect) -> None:
        self._d = d
        self._columns: dict[str, tuple[int, str]] = {}
        self._names: dict[str, str] = {}

    @property
    def functions(self) -> TextFunctions:
        """The functions of texts of the engine."""
        return self._d.functions

    def __call__(self, expression: str, further: str = "") -> str:
        """Return the column of an expression, `source.w0`, `source.w1` and so on.

        Args:
            expression: SQL for columns of the relation, or for columns that this function returned.
            further: The name of a column that is not computed again; default a new name.
        """
        name = further or self._names.get(expression, "") or f"w{len(self._columns)}"
        depth = 1 + max((self._columns[x][0] for x in _NAME.findall(expression)), default=0)
        self._columns.setdefault(name, (depth, expression))
        if not further:
            self._names[expression] = name
        return f"source.{name}"

    def relation(self, relation: str) -> str:
        """Return SQL for a relation with all columns.

        Args:
            relation: The relation of the columns of the database.
        """
        for depth in range(1, 1 + max(x for x, _ in self._columns.values())):
            computed = [f"{sql} AS {name}" for name, (x, sql) in self._columns.items() if x == depth]
            earlier = [f"source.{name}" for name, (x, _) in self._columns.items() if x < depth]
            relation = f"(SELECT {', '.join(earlier + computed)} FROM {relation} source{self.functions.fence})"
        return relation

    def literal(self, text: str) -> str:
        """Return SQL for a text.

        Args:
            text: The text.
        """
        return self._d.characters(text, self.functions.literal)

    def _anchored(self, pattern: str) -> str:
        """Return SQL for a pattern that a text has from its first character to its last."""
        return self.literal(rf"\A(?:{pattern}){self.functions.end}")

    def matches(self, column: str, pattern: str) -> str:
        """Return SQL that is true if a text has a pattern from its first character to its last.

        Args:
            column: SQL for the text.
            pattern: The pattern, as Python has it.
        """
        return self.functions.matches.format(c=column, p=self._anchored(pattern))

    def group(self, column: str, pattern: str) -> str:
        """Return SQL for the first group of a pattern, which the text has from its first character to its last.

        Args:
            column: SQL for the text.
            pattern: The pattern, as Python has it, with one group.
        """
        return self.functions.group.format(c=column, p=self._anchored(pattern))

    def removed(self, column: str, pattern: str) -> str:
        """Return SQL for a text without all parts that have a pattern.

        Args:
            column: SQL for the text.
            pattern: The pattern, as Python has it.
        """
        return self.functions.removed.format(c=column, p=self.literal(pattern))

    def stripped(self, column: str, blanks: str) -> str:
        """Return SQL for a text without these characters around it.

        Args:
            column: SQL for the text.
            blanks: The characters.
        """
        return self.functions.stripped.format(c=column, a=self.literal(blanks))

    def integer(self, digits: str) -> str:
        """Return SQL for the integer in a text of digits; 0 for an empty text.

        Args:
            digits: SQL for the text.
        """
        return self._d.int64.format(x=f"COALESCE(NULLIF({digits}, ''), '0')")

    def padded(self, number: str, length: int) -> str:
        """Return SQL for the digits of a number, with zeros before them.

        Args:
            number: SQL for the number.
            length: The number of digits.
        """
        return f"LPAD({self._d.digits.format(x=number)}, {length}, '0')"

    def number(self, x: float) -> str:
        """Return SQL for a double.

        Args:
            x: The double, or infinity.
        """
        return self._d.number(x)

    def as_double(self, column: str) -> str:
        """Return SQL for a column of decimal numbers as doubles.

        Args:
            column: SQL for the column.
        """
        return self._d.decimal.format(c=column)


def _is_text(d: Dialect, f: Field) -> bool:
    """Return True if the column of a field has texts that are to be read."""
    dated = f.read is not None and f.kind in {ColumnKind.TEXT, ColumnKind.FIXED}
    return not d.streams and (f.form is not None or f.kind is ColumnKind.NUMERAL or dated)


def read_texts(
    d: Dialect, relation: str, fields: Mapping[str, Field], conditions: Sequence[Field], person: PersonColumn | None
) -> tuple[str, dict[str, Field], list[Field], PersonColumn | None]:
    """Return SQL for the records with the texts of their columns read, and the fields and the id in its columns.

    A number that is read from a text is a double: NULL for an absent one, and infinite for a text that is no number.
    Where texts are codes of missing values, a further column holds the text, by the name with "t" behind it. Without
    texts to read, return the arguments.

    Args:
        d: The dialect of the engine.
        relation: The records, as the engine names them.
        fields: The columns of the attributes.
        conditions: The columns of the conditions.
        person: The column of the id; `None` without a bound.
    """
    if not any(_is_text(d, f) for f in (*fields.values(), *conditions)):
        return relation, dict(fields), list(conditions), person
    columns = Columns(d)
    read = {a: _read(d, columns, f) for a, f in fields.items()}
    conditions = [_read(d, columns, f) for f in conditions]
    person = None if person is None else replace(person, column=columns(person.column))
    return columns.relation(relation), read, conditions, person


def _read(d: Dialect, columns: Columns, f: Field) -> Field:
    """Return a field as it is read from the columns."""
    if not _is_text(d, f):
        return replace(f, column=columns(f.column))
    text = text_read(columns, f.column, f.form)
    if f.read is not None:
        return replace(f, kind=ColumnKind.DERIVED, column=columns(_date_part(d, columns, text, f.read)), read=None)
    if f.kind is ColumnKind.NUMERAL:
        column = columns(_double(columns, text))
        if f.has_texts:
            columns(text, further=f"{column.removeprefix('source.')}t")
        return replace(f, column=column, form=None)
    return replace(f, kind=ColumnKind.TEXT, column=text, form=None)


def text_read(columns: Columns, column: str, reader: TextReader | None) -> str:
    """Return the column of the texts of a column in their declared form.

    Args:
        columns: The columns to which it is added.
        column: SQL for the column.
        reader: The function that reads the texts; `None` for texts as they are.
    """
    functions = columns.functions
    text = columns(functions.raw.format(c=column))
    if reader is None:
        return text
    form, literal = reader.form, columns.literal
    if form.normalise:
        spaces = literal(" " * len(WIDE_BLANKS))
        composed = columns(functions.composed.format(c=text))
        text = columns(functions.mapped.format(c=composed, a=literal(WIDE_BLANKS + NO_WIDTH), b=spaces))
    if form.normalise or form.strip:
        text = columns(columns.stripped(text, BLANKS))
    cases = [f"WHEN {text} = {literal(x)} THEN {literal(meaning)}" for x, meaning in form.pairs]
    unread = []
    if reader.reads_numbers or reader.reads_dates:
        stripped = columns(columns.stripped(text, SPACES))
    if reader.reads_numbers:
        digits = stripped if reader.separator is None else f"REPLACE({stripped}, {literal(reader.separator)}, '')"
        number = f"REPLACE({digits}, {literal(reader.decimal)}, '.')"
        cases.append(f"WHEN {columns.matches(stripped, reader.number_pattern.pattern)} THEN {number}")
        unread.append(columns.matches(stripped, NUMBER_PATTERN.pattern))
    if reader.reads_dates:
        date = _date(columns, stripped, reader)
        cases.append(f"WHEN {date} IS NOT NULL THEN {date}")
        unread.append(columns.matches(stripped, DATE_PATTERN))
    if unread:
        cases.append(f"WHEN {' OR '.join(unread)} THEN CONCAT('{UNREAD}', {text})")
    return columns(f"CASE {' '.join(cases)} ELSE {text} END") if cases else text


# --- numbers ----------------------------------------------------------------------------------------------------


def _double(columns: Columns, text: str) -> str:
    """Return SQL for the double that a text is: NULL for a blank one, and infinity for a text that is no number."""
    functions = columns.functions
    digits = columns(columns.stripped(text, SPACES))
    infinite = columns.number(float("inf"))
    there = columns.matches(digits, NUMBER_PATTERN.pattern)
    if not functions.decimal:
        number = functions.double.format(c=digits)
        return f"CASE WHEN {there} THEN {number} WHEN {digits} <> '' THEN {infinite} END"
    # Most numbers are short. Of others the engine gets few digits, and never a number that is far too large.
    short = columns.matches(digits, _SHORT)
    number = columns(f"CASE WHEN NOT {short} AND {there} THEN {digits} END")
    exponent = columns(columns.group(number, _EXPONENT))
    sign = columns(columns.group(number, _EXPONENT_SIGN))
    mantissa, fraction = columns(columns.group(number, _MANTISSA)), columns(columns.group(number, _FRACTION))
    leading = columns.removed(f"CONCAT({mantissa}, {fraction})", r"\A[+-]?0*")
    significant = columns(f"CASE WHEN {number} IS NOT NULL THEN {leading} END")
    rest = f"SUBSTR({significant}, {_DIGITS + 1})"
    rest = f"CASE WHEN {functions.matches.format(c=rest, p=columns.literal('[1-9]'))} THEN '1' ELSE '' END"
    start = columns(f"CASE WHEN {number} IS NOT NULL THEN CONCAT(SUBSTR({significant}, 1, {_DIGITS}), {rest}) END")
    long = f"LENGTH({exponent}) > {_EXPONENT_DIGITS}"
    power = f"CASE WHEN {long} THEN {10**_EXPONENT_DIGITS} ELSE {columns.integer(exponent)} END"
    power = f"CASE {sign} WHEN '-' THEN -1 ELSE 1 END * ({power})"
    power = columns(f"{power} - LENGTH({fraction}) + LENGTH({significant}) - LENGTH({start})")
    size = f"{power} + LENGTH({start})"
    minus = f"CASE WHEN SUBSTR({number}, 1, 1) = '-' THEN '-' ELSE '' END"
    number_sql = functions.decimal.format(c=f"CONCAT({minus}, {start}, 'e', {power})")
    decimal = columns(f"CASE WHEN {start} <> '' AND {size} BETWEEN -{_POWERS} AND {_POWERS} THEN {number_sql} END")
    return (
        f"CASE WHEN {number} IS NULL AND {short} THEN {functions.double.format(c=digits)} "
        f"WHEN {start} = '' OR {size} < -{_POWERS} THEN {columns.number(0)} "
        f"WHEN {decimal} IS NOT NULL THEN COALESCE({columns.as_double(decimal)}, {infinite}) "
        f"WHEN {digits} <> '' THEN {infinite} END"
    )


# --- dates ------------------------------------------------------------------------------------------------------


def _is_day(year: str, month: str, day: str) -> str:
    """Return SQL that is true if three numbers are a day of the Gregorian calendar, from the year 1 to 9999."""
    leap = f"MOD({year}, 4) = 0 AND (MOD({year}, 100) <> 0 OR MOD({year}, 400) = 0)"
    days = f"CASE WHEN {month} IN (4, 6, 9, 11) THEN 30 WHEN {month} <> 2 THEN 31 WHEN {leap} THEN 29 ELSE 28 END"
    return f"{year} BETWEEN 1 AND 9999 AND {month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND {days}"


def _date_part(d: Dialect, columns: Columns, text: str, read: DateField) -> str:
    """Return SQL for the part that is read off a date in a text."""
    stripped = columns(columns.stripped(text, SPACES))
    date = columns(f"CASE WHEN {columns.matches(stripped, DATE_PATTERN)} THEN {stripped} END")
    year, month, day = (
        columns(d.int64.format(x=f"SUBSTR({date}, {start}, {length})")) for start, length in ((1, 4), (6, 2), (9, 2))
    )
    hour = columns(f"CASE WHEN LENGTH({date}) > 10 THEN {d.int64.format(x=f'SUBSTR({date}, 12, 2)')} END")
    there = _is_day(year, month, day) + (f" AND {hour} IS NOT NULL" if read.part is DatePart.HOUR else "")
    return d.derived_from(read, (year, month, day, hour), there, f"{stripped} <> ''")


def _date(columns: Columns, stripped: str, reader: TextReader) -> str:
    """Return the column of the dates in their declared form, as `dates` reads them; NULL for no such date."""
    pattern, zone = reader.date_pattern, reader.form.zone
    matched = columns(f"CASE WHEN {columns.matches(stripped, _grouped(pattern))} THEN {stripped} END")
    parts = {name: columns(columns.group(matched, _grouped(pattern, name))) for name in pattern.groupindex}
    numbers = {name: columns(columns.integer(part)) for name, part in parts.items() if name not in ("f", "z")}
    if "y" in numbers:
        year = numbers["y"]
        numbers["Y"] = columns(f"{year} + CASE WHEN {year} >= {FIRST_SHORT_YEAR} THEN 1900 ELSE 2000 END")
    year, month, day = (numbers[name] for name in "Ymd")
    limits = {"H": 23, "M": 59, "S": 59}
    good = " AND ".join([_is_day(year, month, day), *(f"{numbers[x]} <= {n}" for x, n in limits.items() if x in parts)])
    date = f"CONCAT({columns.padded(year, 4)}, '-', {columns.padded(month, 2)}, '-', {columns.padded(day, 2)})"
    if "H" not in parts:
        return columns(f"CASE WHEN {good} THEN {date} END")
    hour, minute, second = (numbers.get(x, "0") for x in "HMS")
    timed = f"{good} AND {parts['H']} <> ''"
    if zone is None:
        time = ", ':', ".join(columns.padded(x, 2) for x in (hour, minute, second))
        local = columns(f"CASE WHEN {timed} THEN CONCAT({date}, ' ', {time}) END")
    else:
        local = _local(columns, timed, (year, month, day, hour, minute, second), parts.get("z"), zone)
    fraction = parts.get("f")
    end = "" if fraction is None else f", CASE WHEN {fraction} <> '' THEN CONCAT('.', {fraction}) ELSE '' END"
    untimed = f"{good} AND {parts['H']} = ''"
    return columns(f"CASE WHEN {untimed} THEN {date} WHEN {local} IS NOT NULL THEN CONCAT({local}{end}) END")


def _local(columns: Columns, good: str, numbers: Sequence[str], offset: str | None, zone: str) -> str:
    """Return the column of local times in a zone; NULL for a time that does not exist there.

    Args:
        columns: The columns to which it is added.
        good: SQL that is true if the numbers are a time.
        numbers: SQL for the year, the month, the day, the hour, the minute and the second.
        offset: SQL for the offset, Z or an empty text; `None` if the form has no offset.
        zone: The name of the zone.
    """
    functions, z = columns.functions, columns.literal(zone)
    parts = dict(zip("ymdhis", numbers, strict=True))
    moment = columns(f"CASE WHEN {good} THEN {functions.moment.format(**parts)} END")
    utc = functions.to_utc.format(x=moment, z=z)
    if offset is not None:
        hours = columns(columns.integer(f"SUBSTR({offset}, 2, 2)"))
        rest = columns(columns.integer(f"REPLACE(SUBSTR({offset}, 4), ':', '')"))
        west = f"CASE SUBSTR({offset}, 1, 1) WHEN '-' THEN 1 ELSE -1 END * ({hours} * 60 + {rest})"
        exists = f"{hours} < 24 AND {rest} < 60"
        west = columns(f"CASE WHEN {exists} THEN {west} END")
        shifted = functions.later.format(x=moment, n=west)
        utc = f"CASE WHEN {offset} = '' THEN {utc} ELSE {shifted} END"
    utc = columns(utc)
    there = columns(functions.from_utc.format(x=utc, z=z))
    years = " AND ".join(f"EXTRACT(YEAR FROM {x}) BETWEEN 1 AND 9999" for x in (utc, there))
    is_local = f"{there} = {moment}" if offset is None else f"({offset} <> '' OR {there} = {moment})"
    return columns(f"CASE WHEN {years} AND {is_local} THEN {functions.formatted.format(x=there)} END")


def _grouped(pattern: re.Pattern[str], name: str = "") -> str:
    """Return a pattern whose only group is the named one."""
    return re.sub(r"\(\?P<(\w)>", lambda group: "(" if group[1] == name else "(?:", pattern.pattern)
