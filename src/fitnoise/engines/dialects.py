"""The differences between SQL engines.

**Purpose.** A record's cell is a function of that record and of the declarations. It depends on no other record,
collation, session, sample or time. So every expression here obeys four rules:

* It is total: it fails for none of the values, because an engine's message could quote the value.
* It compares texts as bytes, with codes in hexadecimal, so that no collation, padding or escape matters.
* It reads numbers only from columns of numbers, and infinite numbers and NaN are outside the domain.
* It names columns with their table, so that no alias hides one.

An engine is admitted by a trial in its own session (`refuse_unless_right`), not by its entry here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch, singledispatchmethod
from types import MappingProxyType
from typing import Final, final

from fitnoise.engines import text_functions
from fitnoise.engines.joint_tables import CountingTimes
from fitnoise.engines.text_functions import TextFunctions
from fitnoise.kernel.codings import (
    Code,
    Codes,
    Coding,
    CodingWithMissing,
    Cuts,
    Interval,
    NumberCoding,
    Range,
    Steps,
)
from fitnoise.kernel.counting.persons import MAX_ID_BYTES
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.dates import DateField, DatePart
from fitnoise.kernel.formats import Format

MAX_FINITE_FLOAT: Final = 1.7976931348623157e308
"""The largest finite double; no finite number exceeds it in size."""

_INTEGER_TEXT = re.compile("0|-?[1-9][0-9]{0,19}")
"""The decimal text of a whole number of at most 20 digits, the length of the largest unsigned 64-bit integer."""


NO_DATE: Final = 2**53
"""The number read off a value that is present and has no such number; every code is below it."""

_PRICES: Final = CountingTimes(record=300, table=1e6, cell=2e4)
"""The prices of a scan with several tables for a record, a table and a group.

They were measured on PostgreSQL, whose groups above some hundred thousand go to the disk.
"""


def untranslated(coding: Coding) -> TypeError:
    """Return the error for a coding for which an engine has no translation: a fault of the engine."""
    return TypeError(f"This engine does not translate the coding {type(coding).__name__}.")


@final
@dataclass(frozen=True)
class Dialect:
    """The form in which one engine states each expression that every engine can compute.

    name: The name in SQLAlchemy.
    also: The names that further packages have for the engine.
    label: The name in messages.
    marks: The opening and the closing mark around names; the second is doubled inside.
    encoding: The encoding of the bytes of `code` and `letters`.
    prices: The times by which the joint tables of a statement are chosen.
    functions: The functions by which numbers, dates and declared forms are read from texts; empty without them.

    Templates, {c} a column, {x} an expression, {v} a number, {h} bytes and {u} characters in hexadecimal:

    text: A column of texts, to be compared byte by byte.
    code: A literal text, in the form of `text`, to compare a column with.
    letters: A literal text.
    truth: 1, 0 or NULL.
    int64: An integer of 64 bits.
    double, decimal: A column as a double; NULL without a double.
    nothing: The condition that a column of decimals holds no number.
    constant: A double.
    count: The number of records, as 64 bits.
    added: The exact sum of any number of integers of 64 bits. An engine whose sum has 64 bits uses a longer type.

    types: The types to which a column of each kind can be cast, for the trial.
    odd: Numbers for the trial: the kind of the column, the literal, and the double as which it must be read. They are
    not finite, or would not survive a cast.
    dual: The FROM clause of a row of literals; empty where none is needed.

    digits: An integer as a text.
    joined: Two texts, {a} and {b}, as one.
    digest: The MD5 of the output of `text`, in hexadecimal. It is empty where the engine has none of UTF-8.
    bytes: The length of the output of `text`.
    person_key: The expression that distinguishes persons, where an engine sorts long texts badly.
    start: The first {n} bytes of the output of `text`, for the same purpose.
    longest: The length in bytes that every code must be below; `None` without a limit.
    integral: A finite number without its fraction, or the nearest integer.

    part: The part {p}, by name, that is read off a date.
    hour: The hour of a date with a time.
    dated, stamped: A date, and a date with a time, for the trial.
    finest: The digits after the second in the text of the last moment of a day.
    days: The first and the last date that exists.
    stamps: The names of types that have a time and no zone.
    texts: The names of types of texts that SQLAlchemy does not recognise as such.

    empty: True if the engine has an empty text.
    sets: True if one scan counts several tables (GROUPING SETS).
    listed: True if rows of literals are one list (VALUES); otherwise the engine would plan each SELECT for itself.
    streams: True if records are read out and coded here. Engines in the own process that sort in order to group need
    this.
    at_once: True if the rows, which are counts, are handed over in one piece: only one processor would work for a
    cursor.
    located: The column with the position of a record; empty without such a column.
    page: The position at which page {n} begins, where an engine can read some pages of a table.
    pages: A query, with :schema and :name, for the number of pages of a table; 0 if it is read completely.
    isolation: The isolation level, in SQLAlchemy's terms.
    session: Statements that run first.
    ending: The end of the statement.
    columns: A query, with :schema and :name, for the names of the columns in order, where SQLAlchemy mistakes some.
    state: A query, with :schema and :name, whose answer changes when records change. It is for engines whose statement
    may see several states of a table.
    admits: Queries, with :schema and :name of the table, with the answers that admit it and the reason of a refusal.
    They end as the statement does; otherwise a setting could answer them.
    language: The name of its SQL in sqlglot; empty where nothing is proved about views.
    relation: A query, with :schema and :name, for four facts about a relation. They are its kind ("table", "view",
    "stored"), and the definition of a view. The third is 1 if this uses functions, operators or types of users. The
    fourth changes when the relation is replaced.
    keep: A statement, with {relation}, after which no one can replace a view in this transaction; empty where the
    engine reads the current definition anyway.
    """

    name: str
    label: str
    text: str = "CAST({c} AS VARBINARY)"
    code: str = "X'{h}'"
    letters: str = ""
    encoding: str = "utf-8"
    truth: str = "CASE {c} WHEN 1 THEN 1 WHEN 0 THEN 0 END"
    int64: str = "CAST({x} AS BIGINT)"
    double: str = "CAST({c} AS DOUBLE PRECISION)"
    decimal: str = "CAST({c} AS DOUBLE PRECISION)"
    nothing: str = "{c} IS NULL"
    constant: str = "CAST('{v}' AS DOUBLE PRECISION)"
    count: str = "COUNT(*)"
    added: str = "SUM({x})"
    marks: str = '""'
    digits: str = "CAST({x} AS VARCHAR)"
    joined: str = "{a} || {b}"
    digest: str = ""
    bytes: str = "OCTET_LENGTH({c})"
    person_key: str = "{c}"
    start: str = "{c}"
    longest: int | None = None
    integral: str = "FLOOR({x})"
    types: Mapping[ColumnKind, str] = field(default_factory=dict)
    odd: tuple[tuple[ColumnKind, str, float], ...] = ()
    dual: str = ""
    part: str = "EXTRACT({p} FROM {c})"
    hour: str = "EXTRACT(HOUR FROM {c})"
    dated: str = "CAST('{v}' AS DATE)"
    stamped: str = "CAST('{v}' AS TIMESTAMP)"
    finest: str = ".999999"
    days: tuple[str, str] = ("0001-01-01", "9999-12-31")
    stamps: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    sets: bool = True
    listed: bool = False
    streams: bool = False
    at_once: bool = False
    empty: bool = True
    located: str = ""
    page: str = "{n}"
    pages: str = ""
    isolation: str | None = None
    session: tuple[str, ...] = ()
    ending: str = ""
    columns: str = ""
    state: str = ""
    admits: tuple[tuple[str, str | int, str], ...] = ()
    language: str = ""
    relation: str = ""
    keep: str = ""
    prices: CountingTimes = _PRICES
    functions: TextFunctions = text_functions.NONE

    def quoted(self, name: str) -> str:
        """Return SQL for a name with any characters."""
        opening, closing = self.marks[0], self.marks[1]
        return f"{opening}{name.replace(closing, 2 * closing)}{closing}"

    def literal(self, text: str) -> str:
        """Return SQL for a text, in the form in which texts are compared."""
        return self.characters(text, self.code)

    def characters(self, text: str, template: str) -> str:
        """Return SQL for a text by a template of its bytes {h} or its characters {u} in hexadecimal."""
        return template.format(h=text.encode(self.encoding).hex(), u="".join(f"\\+{ord(c):06x}" for c in text))

    def number(self, x: float) -> str:
        """Return SQL for a double, exactly."""
        return self.constant.format(v=repr(float(x)))

    def rows(self, names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
        """Return literals, row by row, as a query with columns of these names."""
        if self.listed:
            rows_sql = ", ".join(f"({', '.join(row)})" for row in rows)
            return f"SELECT * FROM (VALUES {rows_sql}) AS listed({', '.join(names)})"  # noqa: S608 - literals
        selects = (", ".join(f"{x} AS {name}" for x, name in zip(row, names, strict=True)) for row in rows)
        return " UNION ALL ".join(f"SELECT {row}{self.dual}" for row in selects)

    @property
    def reads_texts(self) -> bool:
        """True if the engine reads numbers, dates and declared forms from texts; `reads` says which forms."""
        return bool(self.functions.raw)

    def reads(self, form: Format) -> bool:
        """Return True if the engine reads texts in a declared form."""
        return self.reads_texts and not (form.normalise and not self.functions.composed)

    # --- persons: whose records they are (`persons`) --------------------------------------------------------

    def person(self, kind: ColumnKind, column: str) -> str:
        """Return SQL for an id as a text, in the form in which texts are compared, without the blanks of a fixed width.

        Args:
            kind: The kind of the column.
            column: SQL of the column of the id.
        """
        text = self.digits.format(x=column) if kind is ColumnKind.INTEGER else column
        return self.text.format(c=f"RTRIM({text})" if kind is ColumnKind.FIXED else text)

    def is_person(self, person: str) -> str:
        """Return SQL that is true for an id, and false or unknown for a missing, an empty or a long one."""
        return f"{self.bytes.format(c=person)} BETWEEN 1 AND {MAX_ID_BYTES}"

    def place_in_line(self, person: str, cells: Sequence[str]) -> str:
        """Return SQL for the digest that orders the records of a person; records of equal digest follow their cells.

        Args:
            person: SQL for the id, as `person` returns it.
            cells: SQL for each cell, from 1.
        """
        text = "''"
        for cell in cells:
            text = self.joined.format(a=text, b=self.joined.format(a=self.digits.format(x=cell), b="'/'"))
        return self.digest.format(x=self.joined.format(a=self.text.format(c=f"({text})"), b=person))

    # --- keys: what records are grouped by ---------------------------------------------------------------

    def key(self, coding: Coding, kind: ColumnKind, column: str) -> str:
        """Return SQL for the key of a column: for codes the value read, for other codings the cell, from 1.

        The key of other codings is 0 outside, and with missing-value categories −1 for an absent value.
        """
        if kind is ColumnKind.DERIVED:
            # `NO_DATE` would be clipped to the end of a range, or fall into the last bin.
            key = self._key(coding, ColumnKind.INTEGER, column)
            return key if coding.values.is_listed else f"CASE WHEN {column} = {NO_DATE} THEN 0 ELSE {key} END"
        return self._key(coding, kind, column)

    @singledispatchmethod
    def _key(self, coding: Coding, kind: ColumnKind, column: str) -> str:
        raise untranslated(coding)

    @_key.register
    def _(self, coding: Codes, kind: ColumnKind, column: str) -> str:
        return self._value(coding, kind, column, _longest(coding))

    @_key.register
    def _(self, coding: Interval, kind: ColumnKind, column: str) -> str:
        return f"CASE WHEN {self.is_met_sql(coding, kind, column)} THEN 1 ELSE 0 END"

    @_key.register
    def _(self, coding: Range, kind: ColumnKind, column: str) -> str:
        if kind is ColumnKind.INTEGER:
            return _integer_range(coding, column)
        return self._if_finite(x := self._double(kind, column), self._range(coding, x))

    @_key.register
    def _(self, coding: Cuts, kind: ColumnKind, column: str) -> str:
        if kind is ColumnKind.INTEGER:
            return self._integer_cuts(coding, column)
        return self._if_finite(x := self._double(kind, column), self._cuts(coding, x))

    @_key.register
    def _(self, coding: Steps, kind: ColumnKind, column: str) -> str:
        return self._if_finite(x := self._double(kind, column), self._steps(coding, x))

    @_key.register
    def _(self, coding: CodingWithMissing, kind: ColumnKind, column: str) -> str:
        return self._missing_key(coding.base, coding, kind, column)

    def _if_finite(self, x: str, cell: str) -> str:
        return f"CASE WHEN {self._finite(x)} THEN {cell} ELSE 0 END"

    def key_by(self, coding: Coding, kind: ColumnKind, column: str, cell: str) -> str:
        """Return the key of an amount whose range depends on `cell`: SQL for a cell from 1, below 1 for a missing cell.

        Args:
            coding: The coding of the amount.
            kind: The kind of the amount's column.
            column: SQL for the amount.
            cell: SQL for the cell of the attribute by which the ranges differ.
        """
        # The cell is written once, and not range by range, because engines limit the length of a statement.
        (default, _), *others = coding.ranges
        key = self.key(default, kind, column)
        if not others:
            return key
        number = " ".join(f"WHEN {c + 1} THEN {i}" for i, (_, cells) in enumerate(others, 1) for c in cells)
        keys = " ".join(f"WHEN {i} THEN {self.key(one, kind, column)}" for i, (one, _) in enumerate(others, 1))
        return f"CASE (CASE {cell} {number} ELSE 0 END) {keys} ELSE {key} END"

    @singledispatchmethod
    def _missing_key(self, values: Coding, coding: CodingWithMissing, kind: ColumnKind, column: str) -> str:
        """Return the key of a column where absent values differ from those outside; for codes, NULL is absent."""
        raise untranslated(values)

    def _texts(self, coding: CodingWithMissing, kind: ColumnKind, column: str, key: Callable[[int, int], str]) -> str:
        """Return the WHEN clauses by which texts that are codes of missing values get a key, from their place and cell.

        Only a column of numbers that were read from texts has such texts, and a column behind it (`texts.read_texts`).
        """
        texts = enumerate(coding.texts.items()) if kind is ColumnKind.NUMERAL else ()
        return "".join(f"WHEN {column}t = {self.literal(x)} THEN {key(i, cell)} " for i, (x, cell) in texts)

    @_missing_key.register
    def _(self, values: Codes, coding: CodingWithMissing, kind: ColumnKind, column: str) -> str:
        x, read = self._double(kind, column), self._value(values, kind, column, _longest(coding))
        if values.kind is bool:
            # Any key but 0, 1 and NULL is outside: a column of truth values can hold other numbers on some engines.
            return f"COALESCE({read}, CASE WHEN {column} IS NOT NULL THEN 2 END)"
        if values.kind is str or kind is ColumnKind.INTEGER:
            return read
        zero, is_read = self.number(0), self._finite(x)
        texts = self._texts(coding, kind, column, lambda i, _: self.number(i + 0.5))
        if texts:  # their keys are no whole numbers, and no other fraction is a key
            is_read += f" AND {x} = {self.integral.format(x=x)}"
        return (
            f"CASE {texts}WHEN {is_read} THEN {x} + {zero} WHEN NOT {self._absent(kind, column)} "
            f"THEN {self.number(MAX_FINITE_FLOAT)} END"  # an infinity is outside, and no code is this large
        )

    @_missing_key.register
    def _(self, values: NumberCoding, coding: CodingWithMissing, kind: ColumnKind, column: str) -> str:
        x = column if kind is ColumnKind.INTEGER else self._double(kind, column)
        coded = " ".join(
            f"WHEN {x} = {n if kind is ColumnKind.INTEGER else self.number(n)} THEN {cell + 1}"
            for n, cell in coding.numbers.items()
        )
        texts = self._texts(coding, kind, column, lambda _, cell: str(cell + 1))
        return (
            f"CASE {texts}WHEN {self._absent(kind, column)} THEN -1 {coded} ELSE {self.key(values, kind, column)} END"
        )

    def _absent(self, kind: ColumnKind, column: str) -> str:
        """Return SQL that is true if a column of numbers holds NULL or NaN; some engines order NaN above infinity."""
        if kind in {ColumnKind.DOUBLE, ColumnKind.NUMERAL}:
            # −NaN is NaN. So neither NaN nor −NaN is below the least number, in any order that the engine has for NaN.
            x, low = self._double(kind, column), self.number(-MAX_FINITE_FLOAT)
            return f"({column} IS NULL OR NOT ({self._finite(x)} OR {x} < {low} OR -{x} < {low}))"
        return f"({self.nothing.format(c=column)})" if kind is ColumnKind.DECIMAL else f"({column} IS NULL)"

    def _value(self, coding: Codes, kind: ColumnKind, column: str, longest: int) -> str:
        """Return SQL for the value read, in the form of `codes`: truth as 1 or 0, an integer, bytes or a double.

        longest: The number of bytes of the longest code.
        """
        if coding.kind is bool:
            return self.truth.format(c=column)
        if kind is ColumnKind.INTEGER:
            return column
        if coding.kind is str:
            text = self.text.format(c=f"RTRIM({column})" if kind is ColumnKind.FIXED else column)
            return self.start.format(c=text, n=longest + 1)  # a longer text is not a code
        x = self._double(kind, column)
        # −0.0 + 0.0 is 0.0: an engine that groups doubles by their bits would have two zeros.
        return f"CASE WHEN {self._finite(x)} THEN {x} + {self.number(0)} END"

    def _double(self, kind: ColumnKind, column: str) -> str:
        return (self.decimal if kind is ColumnKind.DECIMAL else self.double).format(c=column)

    def _finite(self, x: str) -> str:
        """Return SQL that is false or unknown for NULL, NaN (in any order of the engine) and infinities."""
        return f"{x} BETWEEN {self.number(-MAX_FINITE_FLOAT)} AND {self.number(MAX_FINITE_FLOAT)}"

    def _range(self, coding: Range, x: str) -> str:
        # Only numbers inside the range reach the cast to 64 bits, which would fail for larger ones.
        low, high = self.number(coding.low), self.number(coding.high)
        lowest, highest = (1, coding.size) if coding.clip else (0, 0)
        cell = f"{self.int64.format(x=f'{x} - {low}')} + 1"
        return (
            f"CASE WHEN {x} <> {self.integral.format(x=x)} THEN 0 WHEN {x} < {low} THEN {lowest} "
            f"WHEN {x} > {high} THEN {highest} ELSE {cell} END"
        )

    def _steps(self, coding: Steps, x: str) -> str:
        low, high, unit, start, stride = (self.number(v) for v in coding.arithmetic)
        cut = f"CASE WHEN {x} < {low} THEN {low} WHEN {x} > {high} THEN {high} ELSE {x} END"
        j = f"FLOOR((({cut}) * {unit} - {start}) / {stride})"
        # cut first, as a product that is too large is an error
        cell = f"{self.int64.format(x=j)} + {coding.cell_offset + 1}"
        if coding.valid is None:
            return cell
        min_valid, max_valid = map(self.number, coding.valid)
        return f"CASE WHEN {x} BETWEEN {min_valid} AND {max_valid} THEN {cell} ELSE 0 END"

    def _cuts(self, coding: Cuts, x: str) -> str:
        bins = " ".join(f"WHEN {x} < {self.number(c)} THEN {i}" for i, c in enumerate(coding.cuts, 1))
        return f"CASE {bins} ELSE {coding.size} END"

    def _integer_cuts(self, coding: Cuts, column: str) -> str:
        """Return SQL for the cell of an integer, from 1, and 0 for NULL."""
        # An integer is below a cut c if it is below ⌈c⌉. Beyond 2⁵³ numbers are read as doubles, and may be rounded.
        if max(map(abs, coding.cuts)) >= 2**53:
            x = self._double(ColumnKind.INTEGER, column)
            return f"CASE WHEN {column} IS NOT NULL THEN {self._cuts(coding, x)} ELSE 0 END"
        bins = " ".join(f"WHEN {column} < {math.ceil(c)} THEN {i}" for i, c in enumerate(coding.cuts, 1))
        return f"CASE {bins} WHEN {column} >= {math.ceil(coding.cuts[-1])} THEN {coding.size} ELSE 0 END"

    @singledispatchmethod
    def is_met_sql(self, coding: Coding, kind: ColumnKind, column: str) -> str:
        """Return SQL that is true if a column meets a condition, in a form that lets an engine leave parts unread."""
        raise untranslated(coding)

    @is_met_sql.register
    def _(self, coding: Codes, kind: ColumnKind, column: str) -> str:
        return self.inside(coding, kind, self.key(coding, kind, column))

    @is_met_sql.register
    def _(self, coding: Interval, kind: ColumnKind, column: str) -> str:
        if kind in {ColumnKind.INTEGER, ColumnKind.DERIVED} and all(
            abs(end) < 2**53 for end in (coding.low, coding.high) if math.isfinite(end)
        ):
            # Rounding to a double moves no integer across an end below 2⁵³, so the column is compared as it is.
            return interval_sql(coding, column, lambda end: str(math.ceil(end)), is_integer=True)
        return interval_sql(coding, self._double(kind, column), self.number)

    # --- dates: what is read off them (`dates`), as whole numbers ----------------------------------------------

    def derived(self, read: DateField, column: str) -> str:
        """Return SQL for the part read off a column of dates; NULL for NULL, `NO_DATE` without such a number."""
        y, m, d = (self.part.format(p=p, c=column) for p in ("YEAR", "MONTH", "DAY"))
        there = f"{y} BETWEEN 1 AND 9999 AND {m} BETWEEN 1 AND 12 AND {d} BETWEEN 1 AND 31"  # some have infinite dates
        return self.derived_from(read, (y, m, d, self.hour.format(c=column)), there, f"{column} IS NOT NULL")

    def derived_from(self, read: DateField, parts: tuple[str, str, str, str], there: str, present: str) -> str:
        """Return SQL for the part read off a date; NULL for an absent date, `NO_DATE` without such a number.

        Args:
            read: The part.
            parts: SQL for the year, the month, the day and the hour.
            there: SQL that is true for a date.
            present: SQL that is true for a value that is not absent.
        """
        y, m, d, hour = parts
        if read.on is not None:
            on = read.on
            there += f" AND {y} * 10000 + {m} * 100 + {d} <= {on.year * 10000 + on.month * 100 + on.day}"
            number = f"{on.year} - {y} - CASE WHEN {m} * 100 + {d} > {on.month * 100 + on.day} THEN 1 ELSE 0 END"
        elif read.part is DatePart.HOUR:
            number = hour
        elif read.part is DatePart.WEEKDAY:
            number = self._weekday(y, m, d)
        elif read.part is DatePart.DAY:
            number = f"{y} * 10000 + {m} * 100 + {d}"
        else:
            number = {DatePart.YEAR: y, DatePart.MONTH: m, DatePart.QUARTER: self._floor(f"{m} + 2", 3)}[read.part]
        return f"CASE WHEN {there} THEN {self.int64.format(x=number)} WHEN {present} THEN {NO_DATE} END"

    def _weekday(self, y: str, m: str, d: str) -> str:
        """Return SQL for the day of the week, from 1 for Monday to 7, by calendar arithmetic.

        Engines begin their weeks on other days. Source: Sakamoto's congruence; the year begins in March, and months are
        moved by `_MONTH_SHIFTS` days.
        """
        year = f"CASE WHEN {m} < 3 THEN {y} - 1 ELSE {y} END"
        shifts = " ".join(f"WHEN {i} THEN {days}" for i, days in enumerate(_MONTH_SHIFTS, 1))
        leap = f"{self._floor(year, 4)} - {self._floor(year, 100)} + {self._floor(year, 400)}"
        days = f"{year} + {leap} + CASE {m} {shifts} END + {d} + 6"
        return f"{days} - 7 * {self._floor(days, 7)} + 1"

    def _floor(self, x: str, n: int) -> str:
        # Engines differ in the division of two integers: 7 / 2 is 3 or 3.5.
        return f"FLOOR(({x}) / {self.number(n)})"

    # --- codes: which cell a group is ------------------------------------------------------------------------

    @singledispatchmethod
    def cell(self, coding: Coding, kind: ColumnKind, key: str) -> str:
        """Return SQL for the cell of a key, from 1, and 0 for a key without a cell."""
        raise untranslated(coding)

    @cell.register
    def _(self, coding: CodingWithMissing, kind: ColumnKind, key: str) -> str:
        return self._missing_cell(coding, kind, key, max(coding.absent, -1) + 1, max(coding.outside, -1) + 1)

    @cell.register
    def _(self, coding: NumberCoding, kind: ColumnKind, key: str) -> str:
        del coding, kind
        return key

    @cell.register
    def _(self, coding: Codes, kind: ColumnKind, key: str) -> str:
        codes = self.codes(coding, kind)
        if not codes:
            # No code fits the type of the column, and CASE needs a WHEN.
            return "0"
        when = " ".join(f"WHEN {key} = {code} THEN {coding.cells[i] + 1}" for i, code in codes.items())
        return f"CASE {when} ELSE 0 END"

    @singledispatchmethod
    def inside(self, coding: Coding, kind: ColumnKind, key: str) -> str:
        """Return SQL that is true if a key is in the domain."""
        raise untranslated(coding)

    @inside.register
    def _(self, coding: CodingWithMissing | NumberCoding, kind: ColumnKind, key: str) -> str:
        return f"{self.cell(coding, kind, key)} > 0"

    @inside.register
    def _(self, coding: Codes, kind: ColumnKind, key: str) -> str:
        codes = self.codes(coding, kind).values()
        return f"{key} IN ({', '.join(codes)})" if codes else "1 = 0"

    def is_counted_sql(self, coding: Coding, kind: ColumnKind, key: str, *, drop: bool) -> str:
        """Return SQL that is true if records with a key are kept; empty if all are."""
        lost = coding.dropped(drop=drop)
        if not lost:
            return ""
        if coding.values is coding:
            return self.inside(coding, kind, key)
        absent, outside = (int(x not in lost) for x in (coding.absent, coding.outside))
        return f"{self._missing_cell(coding, kind, key, absent, outside)} > 0"

    def _missing_cell(self, coding: Coding, kind: ColumnKind, key: str, absent: int, outside: int) -> str:
        """Return SQL for the cell of a key, from 1; absent values and those outside get the given numbers."""
        if not coding.values.is_listed:
            return f"CASE {key} WHEN 0 THEN {outside} WHEN -1 THEN {absent} ELSE {key} END"
        listed = coded(coding)
        codes = self.codes(listed, kind).items()
        when = " ".join(f"WHEN {key} = {code} THEN {listed.cells[i] + 1}" for i, code in codes)
        if kind is ColumnKind.NUMERAL:
            when += "".join(
                f" WHEN {key} = {self.number(i + 0.5)} THEN {c + 1}" for i, c in enumerate(coding.texts.values())
            )
        blank = f" OR {key} = {self.literal('')}" if coding.kind is str and kind is not ColumnKind.INTEGER else ""
        return f"CASE {when} WHEN {key} IS NULL{blank} THEN {absent} ELSE {outside} END"

    def codes(self, coding: Codes, kind: ColumnKind) -> dict[int, str]:
        """Return the codes that a column can hold, in the form of keys, by their position."""
        listed = enumerate(coding.codes)
        if coding.kind is bool:
            return {i: str(int(code)) for i, code in listed}
        if kind in {ColumnKind.INTEGER, ColumnKind.DERIVED}:
            return {i: str(n) for i, code in listed if (n := as_integer(code)) is not None}
        if coding.kind is str:
            return {i: self.literal(str(code)) for i, code in listed}
        return {i: self.number(float(code)) for i, code in listed}


_MONTH_SHIFTS = (0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4)
"""Days by which months are moved, modulo 7."""


def interval_sql(coding: Interval, x: str, constant: Callable[[float], str], *, is_integer: bool = False) -> str:
    """Return SQL that is true for a number in an interval: false or unknown for NULL, NaN and infinities.

    The engine may order NaN anywhere.

    constant: The function that returns SQL for an end.
    is_integer: True if `x` is an integer or NULL, so that an infinite end needs no comparison.
    """
    lower = [(">=", coding.low)] if math.isfinite(coding.low) else [] if is_integer else [(">=", -MAX_FINITE_FLOAT)]
    upper = [("<", coding.high)] if math.isfinite(coding.high) else [] if is_integer else [("<=", MAX_FINITE_FLOAT)]
    return " AND ".join(f"{x} {sign} {constant(end)}" for sign, end in lower + upper)


@singledispatch
def coded(coding: Coding) -> Codes:
    """Return all codes that a typed column can hold, with their cells: those of missing values after the others."""
    raise untranslated(coding)


@coded.register
def _(coding: Codes) -> Codes:
    return coding


@coded.register
def _(coding: CodingWithMissing) -> Codes:
    values = coded(coding.base)
    extra: dict[Code, int] = {}
    extra.update(coding.texts.items() if values.kind is str else ())
    extra.update((int(n), cell) for n, cell in coding.numbers.items())
    return Codes((*values.codes, *extra), (*values.cells, *extra.values()))


def _longest(coding: Coding) -> int:
    """Return the number of bytes of the longest code."""
    return max(len(str(code).encode()) for code in coded(coding).codes)


def as_integer(code: Code) -> int | None:
    """Return the integer from −2⁶³ to 2⁶⁴ − 1 whose value or decimal text is the code; `None` without one."""
    if isinstance(code, str) and not _INTEGER_TEXT.fullmatch(code):
        return None
    n = int(code)
    return n if -(2**63) <= n < 2**64 else None


def _integer_range(coding: Range, column: str) -> str:
    low, high = coding.low, coding.high
    shifted = f"{column} - {low}" if low >= 0 else f"{column} + {-low}"
    ends = f"WHEN {column} < {low} THEN 1 WHEN {column} > {high} THEN {coding.size} " if coding.clip else ""
    return f"CASE WHEN {column} BETWEEN {low} AND {high} THEN {shifted} + 1 {ends}ELSE 0 END"


_OVERFLOW = 2**1024 - 2**970
"""The least decimal number that is nearest to no double."""

_UNDER = f"{5**1075}e-1075"
"""The largest number that is nearest to zero, 2⁻¹⁰⁷⁵, exactly; PostgreSQL refuses to cast such numbers."""

_CASTABLE = f"CASE WHEN {{c}} > -{_OVERFLOW} AND {{c}} < {_OVERFLOW} THEN "
"""The beginning of a CASE that keeps decimals beyond all doubles from the cast, where they are an error."""

_FOREIGN_PARTS = (
    "WITH RECURSIVE parts AS (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = :schema AND c.relname = :name UNION SELECT x.oid FROM parts p JOIN LATERAL ("
    "SELECT i.inhrelid AS oid FROM pg_inherits i WHERE i.inhparent = p.oid "
    "UNION ALL SELECT d.refobjid FROM pg_rewrite r JOIN pg_depend d ON d.objid = r.oid "
    "WHERE r.ev_class = p.oid AND d.classid = CAST('pg_rewrite' AS regclass) "
    "AND d.refclassid = CAST('pg_class' AS regclass)) x ON true) "
    "SELECT count(*) FROM pg_class c JOIN parts p ON p.oid = c.oid WHERE c.relkind = 'f'"
)
"""The number of partitions, inheriting tables and tables of views, at any depth, that are stored outside this database.
The statement reads them, too, and another server may answer differently each time."""

_POSTGRESQL_RELATION = (
    "SELECT CASE WHEN c.oid <> to_regclass(format('%I.%I', n.nspname, c.relname)) THEN 'replaced' "
    "WHEN c.relkind IN ('r', 'p') THEN 'table' WHEN c.relkind = 'v' THEN 'view' WHEN c.relkind = 'm' THEN 'stored' "
    "ELSE 'other' END, CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid) END, "
    "CAST(EXISTS (SELECT 1 FROM pg_rewrite r JOIN pg_depend d ON d.objid = r.oid WHERE r.ev_class = c.oid "
    "AND d.classid = CAST('pg_rewrite' AS regclass) AND d.refclassid <> CAST('pg_class' AS regclass)) AS int), "
    "CAST(to_regclass(format('%I.%I', n.nspname, c.relname)) AS bigint) "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = :name"
)
"""The query for a relation. What `to_regclass` returns is the present relation, and the rest is of the transaction. The
text does not show a function that converts a type implicitly, and dependencies do."""

POSTGRESQL = Dialect(
    "postgresql",
    "PostgreSQL",
    text='CAST({c} AS TEXT) COLLATE "C"',
    code="U&'{u}'",  # a constant: a function such as `convert_from` would be called for every record
    letters="convert_from('\\x{h}', 'UTF8')",
    truth="CASE WHEN {c} THEN 1 WHEN NOT {c} THEN 0 END",
    digits="CAST({x} AS TEXT)",
    digest="md5(convert_to({x}, 'UTF8')) COLLATE \"C\"",
    stamps=("TIMESTAMP",),
    nothing="({c} IS NULL OR {c} = 'NaN')",
    decimal=f"{_CASTABLE}CASE WHEN abs({{c}}) <= {_UNDER} THEN 0 ELSE CAST({{c}} AS DOUBLE PRECISION) END END",
    types={
        ColumnKind.INTEGER: "BIGINT", ColumnKind.DOUBLE: "DOUBLE PRECISION", ColumnKind.DECIMAL: "NUMERIC",
        ColumnKind.TEXT: "TEXT", ColumnKind.NUMERAL: "TEXT",
        ColumnKind.FIXED: "CHAR(9)", ColumnKind.TRUTH: "BOOLEAN",
    },
    functions=text_functions.POSTGRESQL,
    odd=(
        (ColumnKind.DOUBLE, "'NaN'", math.nan), (ColumnKind.DOUBLE, "'Infinity'", math.inf),
        (ColumnKind.DOUBLE, "'-Infinity'", -math.inf), (ColumnKind.DECIMAL, "'NaN'", math.nan),
        (ColumnKind.DECIMAL, "'1e400'", math.inf),
        (ColumnKind.DECIMAL, "'-1e400'", -math.inf), (ColumnKind.DECIMAL, "'1e-400'", 0.0),
        (ColumnKind.DECIMAL, "'-1e-400'", 0.0),
        (ColumnKind.DECIMAL, f"'{_OVERFLOW}'", math.inf), (ColumnKind.DECIMAL, f"'{_OVERFLOW - 1}'", MAX_FINITE_FLOAT),
        (ColumnKind.DECIMAL, f"'{_UNDER}'", 0.0), (ColumnKind.DECIMAL, f"'{5**1075 + 1}e-1075'", 5e-324),
    ),
    located="ctid",
    page="CAST('({n},0)' AS tid)",
    pages=(  # pages of a plain table without children; before version 14, each piece would read the complete table
        "SELECT CASE WHEN CAST(current_setting('server_version_num') AS int) >= 140000 AND c.relkind = 'r' "
        "AND NOT c.relhassubclass AND a.amname = 'heap' "
        "THEN pg_relation_size(c.oid) / CAST(current_setting('block_size') AS int) ELSE 0 END "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_am a ON a.oid = c.relam "
        "WHERE n.nspname = :schema AND c.relname = :name"
    ),
    isolation="REPEATABLE READ",
    session=(
        "SET TRANSACTION READ ONLY",
        "SET LOCAL search_path = pg_catalog",  # no function of the user's by the name of one of these
        "SET LOCAL TimeZone = 'UTC'",
        "SET LOCAL standard_conforming_strings = on",
        "SET LOCAL row_security = off",  # which is an error where a policy would hide records
        "SET LOCAL enable_sort = off",  # it guesses too many groups, and sorts
        "SET LOCAL hash_mem_multiplier = 64",  # the memory that it may plan for; what is used follows the cells
        "SET LOCAL enable_tidscan = on",  # by which pages are read
        "SET LOCAL jit = off",  # without this, every process would compile the complete statement, with all its pieces
    ),
    at_once=True,
    admits=(
        (
            "SELECT current_setting('zero_damaged_pages') || current_setting('ignore_checksum_failure')",
            "offoff",
            "The settings zero_damaged_pages and ignore_checksum_failure must be off, or records may vanish.",
        ),
        (
            _FOREIGN_PARTS,
            0,
            "A part of it, such as a partition, is a foreign table; detach it, or store it as a table.",
        ),
    ),
    columns=(  # SQLAlchemy warns of types that it does not know
        "SELECT a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = :schema AND c.relname = :name "
        "AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    ),
    language="postgres",
    relation=_POSTGRESQL_RELATION,
    keep="LOCK TABLE {relation} IN ACCESS SHARE MODE",
)  # fmt: skip

SQLITE = Dialect(
    "sqlite",
    "SQLite",
    letters="CAST(X'{h}' AS TEXT)",
    stamps=("DATETIME", "TIMESTAMP"),
    types={
        ColumnKind.INTEGER: "INTEGER", ColumnKind.DOUBLE: "REAL", ColumnKind.DECIMAL: "NUMERIC",
        ColumnKind.TEXT: "TEXT", ColumnKind.NUMERAL: "TEXT", ColumnKind.TRUTH: "INTEGER",
    },
    odd=((ColumnKind.DOUBLE, "9e999", math.inf), (ColumnKind.DOUBLE, "-9e999", -math.inf)),
    streams=True,
    admits=(
        ("SELECT encoding FROM pragma_encoding", "UTF-8", "Its texts must be stored in UTF-8."),
        (
            "SELECT type IN ('table', 'view') FROM pragma_table_list "  # noqa: ISC004 - one question
            "WHERE name = :name COLLATE NOCASE AND schema = coalesce(:schema, 'main') COLLATE NOCASE",
            1,
            "It must be a plain table or a view.",
        ),
    ),
    language="sqlite",
    relation=(
        "SELECT type, (SELECT sql FROM sqlite_schema s WHERE s.type = 'view' AND s.name = l.name), 0, "
        "(SELECT schema_version FROM pragma_schema_version) FROM pragma_table_list l "
        "WHERE schema = 'main' AND coalesce(:schema, 'main') = 'main' COLLATE NOCASE AND name = :name COLLATE NOCASE"
    ),
)  # fmt: skip

_SORTED = 2**14
"""The number of bytes of a text that MySQL and MariaDB compare where they sort."""

MYSQL = Dialect(
    "mysql",
    "MySQL",
    marks="``",
    text="CAST(CONVERT({c} USING utf8mb4) AS BINARY)",
    letters="CONVERT(X'{h}' USING utf8mb4)",
    int64="CAST({x} AS SIGNED)",
    double="CAST({c} AS DOUBLE)",
    decimal="CAST({c} AS DOUBLE)",
    constant="CAST({v} AS DOUBLE)",
    stamped="CAST('{v}' AS DATETIME(6))",
    stamps=("DATETIME",),
    digits="CAST({x} AS CHAR)",
    joined="CONCAT({a}, {b})",
    digest="MD5({x})",
    # as texts in hexadecimal, whose length is bounded: sorting others takes `max_sort_length` bytes each
    person_key=f"CAST(CONVERT(HEX({{c}}) USING latin1) AS CHAR({2 * MAX_ID_BYTES}) CHARACTER SET latin1)",
    start="LEFT({c}, {n})",
    longest=_SORTED - 1,
    types={
        ColumnKind.INTEGER: "SIGNED", ColumnKind.DOUBLE: "DOUBLE", ColumnKind.DECIMAL: "DECIMAL(65, 30)",
        ColumnKind.TEXT: "CHAR",
        ColumnKind.FIXED: "CHAR(9)", ColumnKind.TRUTH: "SIGNED",
    },
    sets=False,
    isolation="REPEATABLE READ",
    session=(
        # nothing pads, nothing is guessed; quotes stay what SQLAlchemy found that they are
        "SET SESSION sql_mode = IF(FIND_IN_SET('ANSI_QUOTES', @@sql_mode), 'ANSI_QUOTES', 'STRICT_ALL_TABLES')",
        "SET SESSION sql_select_limit = 18446744073709551615",
        f"SET SESSION max_sort_length = {_SORTED}",  # texts with equal beginnings of this length would be one group
        f"SET SESSION sort_buffer_size = {_SORTED * 2**12}",  # it has to hold 15 records: 256 texts of that length
        "SET SESSION time_zone = '+00:00'",
    ),
    columns=(  # SQLAlchemy reads them off a statement, in which a backtick is doubled
        "SELECT column_name FROM information_schema.columns WHERE table_schema = :schema AND table_name = :name "
        "ORDER BY ordinal_position"
    ),
    admits=(
        (
            "SELECT engine FROM information_schema.tables WHERE table_schema = :schema AND table_name = :name",
            "InnoDB",
            "Its engine, or that of the table of a row-wise view, must be InnoDB. Others can change between reads.",
        ),
    ),
    language="mysql",
    relation=(
        "SELECT CASE t.table_type WHEN 'BASE TABLE' THEN 'table' WHEN 'VIEW' THEN 'view' ELSE 'other' END, "
        "v.view_definition, 0, t.create_time FROM information_schema.tables t LEFT JOIN information_schema.views v "
        "ON v.table_schema = t.table_schema AND v.table_name = t.table_name "
        "WHERE t.table_schema = :schema AND t.table_name = :name"
    ),
    prices=replace(_PRICES, record=1000),
)  # fmt: skip

MARIADB = replace(MYSQL, name="mariadb", label="MariaDB")

_LIMITED = ("read", "group_by", "result", "timeout", "sort", "distinct", "set", "join", "transfer")
"""The operations that ClickHouse may do partially, if its settings allow this, once a limit is reached."""

_LIMIT_SETTINGS = {
    **{f"{what}_overflow_mode": "'throw'" for what in _LIMITED},
    "read_overflow_mode_leaf": "'throw'",
    "additional_table_filters": "{}",
    "additional_result_filter": "''",
    "limit": "0",
    "offset": "0",
    "extremes": "0",
    "use_query_cache": "0",
    "apply_deleted_mask": "1",
    "skip_unavailable_shards": "0",
    "max_parallel_replicas": "1",
    "parallel_replicas_count": "0",
    "parallel_replica_offset": "0",
    "parallel_replicas_custom_key": "''",
    "optimize_using_constraints": "0",
}
"""Settings by which ClickHouse, from 24.3 on, reads all records, unchanged, and returns all counts.

The trial sees the effect of these settings on literals; it cannot see their effect on tables.
"""

_LATER = {
    "timeout_overflow_mode_leaf": "throw", "apply_patch_parts": "1", "ignore_cold_parts_seconds": "0",
    "partial_result_on_first_cancel": "0", "discard_query_data": "0", "select": "", "filter": "", "sort": "",
    "order": "", "page": "0",
}  # fmt: skip
"""More such settings, unknown to some versions, where naming one may be an error: their existence is queried."""

CLICKHOUSE = Dialect(
    "clickhouse",
    "ClickHouse",
    marks="``",
    text="CAST({c} AS Nullable(String))",
    code="unhex('{h}')",
    letters="unhex('{h}')",
    int64="accurateCastOrNull({x}, 'Int64')",  # which evaluates what no record needs, and must not fail there
    double="toFloat64({c})",
    decimal="toFloat64({c})",
    constant="toFloat64({v})",
    digits="toString({x})",
    digest="lower(hex(MD5({x})))",
    added="sum(toInt128({x}))",
    dated="CAST('{v}' AS Nullable(Date32))",
    days=("1900-01-01", "2299-12-31"),
    texts=("String",),
    also=("clickhousedb",),  # the package of its makers, clickhouse-connect
    types={
        ColumnKind.INTEGER: "Nullable(Int64)", ColumnKind.DOUBLE: "Nullable(Float64)",
        ColumnKind.DECIMAL: "Nullable(Decimal(38, 10))",
        ColumnKind.TEXT: "Nullable(String)", ColumnKind.TRUTH: "Nullable(Bool)",
    },
    odd=((ColumnKind.DOUBLE, "nan", math.nan), (ColumnKind.DOUBLE, "inf", math.inf),
        (ColumnKind.DOUBLE, "-inf", -math.inf)),
    ending=" SETTINGS " + ", ".join(f"{name} = {value}" for name, value in _LIMIT_SETTINGS.items()),
    admits=(
        (
            "SELECT engine IN ('MergeTree', 'ReplicatedMergeTree', 'SharedMergeTree') "  # noqa: ISC004 - one question
            "FROM system.tables WHERE database = coalesce(:schema, currentDatabase()) AND name = :name",
            1,
            "Its engine must be MergeTree, since fitnoise sees only there whether records change during the count.",
        ),
        (
            f"SELECT count() FROM system.settings WHERE name IN {tuple(_LATER)} "  # noqa: S608, ISC004 - one question
            f"AND (name, value) NOT IN {tuple(_LATER.items())}",
            0,
            f"These settings of the session must have their defaults: {', '.join(_LATER)}.",
        ),
        (
            "SELECT count() FROM system.row_policies "  # noqa: ISC004 - one question
            "WHERE database = coalesce(:schema, currentDatabase()) AND table IN (:name, '')",
            0,
            "No row policy may hide its records, which the right SHOW ROW POLICIES shows.",
        ),
    ),
    state=(  # which merging parts does not change
        "SELECT toString(groupArray((partition_id, newest, version, records))) FROM (SELECT partition_id, "
        "max(max_block_number) AS newest, sum(rows) AS records, "
        "max(toUInt64OrZero(extract(name, '_[0-9]+_[0-9]+_[0-9]+_([0-9]+)$'))) AS version FROM system.parts "
        "WHERE database = coalesce(:schema, currentDatabase()) AND table = :name AND active "
        "GROUP BY partition_id ORDER BY partition_id)"
    ),
    prices=replace(_PRICES, record=30),
)  # fmt: skip


def _warehouse(name: str, title: str, double: str) -> Dialect:
    """Return the dialect of an engine that counts in columns, has booleans, and calls its doubles `double`."""
    cast = f"CAST({{c}} AS {double})"
    return Dialect(
        name,
        title,
        truth="CASE WHEN {c} THEN 1 WHEN NOT {c} THEN 0 END",
        double=cast,
        decimal=cast,
        constant=f"CAST('{{v}}' AS {double})",
        added="SUM(CAST({x} AS DECIMAL(19, 0)))",
        types={
            ColumnKind.INTEGER: "BIGINT", ColumnKind.DOUBLE: double, ColumnKind.DECIMAL: "DECIMAL(38, 10)",
            ColumnKind.TEXT: "VARCHAR",
            ColumnKind.TRUTH: "BOOLEAN",
        },
        odd=tuple((ColumnKind.DOUBLE, x, float(x.strip("'"))) for x in ("'NaN'", "'Infinity'", "'-Infinity'")),
        prices=replace(_PRICES, record=30),
    )  # fmt: skip


BIGQUERY = replace(
    _warehouse("bigquery", "BigQuery", "FLOAT64"),
    marks="``",
    text="CAST({c} AS BYTES)",
    code="FROM_HEX('{h}')",
    letters="CAST(FROM_HEX('{h}') AS STRING)",
    int64="CAST({x} AS INT64)",
    digits="CAST({x} AS STRING)",
    digest="TO_HEX(MD5({x}))",
    added="SUM(CAST({x} AS NUMERIC))",
    stamped="CAST('{v}' AS DATETIME)",
    stamps=("DATETIME",),
    types={
        ColumnKind.INTEGER: "INT64", ColumnKind.DOUBLE: "FLOAT64", ColumnKind.DECIMAL: "NUMERIC",
        ColumnKind.TEXT: "STRING", ColumnKind.TRUTH: "BOOL",
    },
)  # fmt: skip

SNOWFLAKE = replace(
    _warehouse("snowflake", "Snowflake", "DOUBLE"),
    text="TO_BINARY(CAST({c} AS VARCHAR), 'UTF-8')",
    digest="MD5({x})",
    code="TO_BINARY('{h}', 'HEX')",
    letters="TO_VARCHAR(TO_BINARY('{h}', 'HEX'), 'UTF-8')",
    stamped="CAST('{v}' AS TIMESTAMP_NTZ)",
    finest=".999999999",
    stamps=("TIMESTAMP_NTZ",),
    odd=(
        (ColumnKind.DOUBLE, "'NaN'", math.nan),
        (ColumnKind.DOUBLE, "'inf'", math.inf),
        (ColumnKind.DOUBLE, "'-inf'", -math.inf),
    ),
    session=("ALTER SESSION SET TIMEZONE = 'UTC', ROWS_PER_RESULTSET = 0",),
)

TRINO = replace(
    _warehouse("trino", "Trino", "DOUBLE"),
    text="to_utf8(CAST({c} AS VARCHAR))",
    digest="lower(to_hex(md5({x})))",
    bytes="length({c})",
    letters="from_utf8(X'{h}')",
    stamped="CAST('{v}' AS TIMESTAMP(9))",  # without a number it is to the millisecond
    finest=".999999999",
    stamps=("TIMESTAMP",),
)

DATABRICKS = replace(
    _warehouse("databricks", "Databricks", "DOUBLE"),
    marks="``",
    text="CAST({c} AS BINARY)",
    int64="TRY_CAST({x} AS BIGINT)",
    integral="RINT({x})",  # others give a whole number of 64 bits, also of a larger one
    digits="CAST({x} AS STRING)",
    digest="md5({x})",
    letters="CAST(X'{h}' AS STRING)",
    stamped="CAST('{v}' AS TIMESTAMP_NTZ)",
    stamps=("TIMESTAMP_NTZ",),
    types={
        ColumnKind.INTEGER: "BIGINT", ColumnKind.DOUBLE: "DOUBLE", ColumnKind.DECIMAL: "DECIMAL(38, 10)",
        ColumnKind.TEXT: "STRING",
        ColumnKind.TRUTH: "BOOLEAN",
    },
)  # fmt: skip

SPARK = replace(
    DATABRICKS,
    name="spark",
    label="Spark",
    listed=True,
    types={**DATABRICKS.types, ColumnKind.NUMERAL: "STRING"},
    functions=text_functions.SPARK,
)
"""The dialect of Spark, which SQLAlchemy does not reach: a session of Spark runs the statement."""

_MSSQL_QUERY = (
    "SELECT CASE WHEN HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'VIEW DEFINITION') = 1 AND NOT EXISTS ({hidden} "
    "JOIN sys.objects o ON o.object_id = {of} JOIN sys.schemas s ON s.schema_id = o.schema_id "
    "WHERE s.name = COALESCE(:schema, SCHEMA_NAME()) AND o.name = :name) THEN 1 ELSE 0 END"
)
"""A query that returns 1 if the user may see all objects of a kind and the table has none; otherwise 0."""

MSSQL = Dialect(
    "mssql",
    "SQL Server",
    marks="[]",
    text="CAST(CAST({c} AS NVARCHAR(MAX)) AS VARBINARY(MAX))",
    code="0x{h}",
    letters="CAST(0x{h} AS NVARCHAR(MAX))",
    encoding="utf-16-le",
    double="CAST({c} AS FLOAT)",
    decimal="CAST({c} AS FLOAT)",
    constant="CAST('{v}' AS FLOAT)",
    part="DATEPART({p}, {c})",
    hour="DATEPART(HOUR, {c})",
    stamped="CAST('{v}' AS DATETIME2)",
    finest=".9999999",
    stamps=("DATETIME", "DATETIME2", "SMALLDATETIME"),
    count="COUNT_BIG(*)",
    types={
        ColumnKind.INTEGER: "BIGINT", ColumnKind.DOUBLE: "FLOAT", ColumnKind.DECIMAL: "DECIMAL(38, 10)",
        ColumnKind.TEXT: "NVARCHAR(MAX)",
        ColumnKind.FIXED: "NCHAR(9)", ColumnKind.TRUTH: "BIT",
    },
    isolation="SNAPSHOT",
    session=("SET ROWCOUNT 0",),
    admits=(
        (
            _MSSQL_QUERY.format(
                hidden="SELECT 1 FROM sys.security_predicates p JOIN sys.security_policies y "
                "ON y.object_id = p.object_id AND y.is_enabled = 1",
                of="p.target_object_id",
            ),
            1,
            "No security policy may hide its records, which the right VIEW DEFINITION shows.",
        ),
        (
            _MSSQL_QUERY.format(
                hidden="SELECT 1 FROM sys.masked_columns p", of="p.object_id AND p.is_masked = 1"
            ),
            1,
            "Its values must not be masked.",
        ),
    ),
)  # fmt: skip

ORACLE = Dialect(
    "oracle",
    "Oracle",
    text="({c}) COLLATE BINARY",
    code="UTL_I18N.RAW_TO_CHAR(HEXTORAW('{h}'), 'AL32UTF8')",
    letters="UTL_I18N.RAW_TO_CHAR(HEXTORAW('{h}'), 'AL32UTF8')",
    int64="CAST({x} AS NUMBER(19))",
    double="CAST({c} AS BINARY_DOUBLE)",
    decimal="CAST({c} AS BINARY_DOUBLE)",
    constant="{v}d",
    hour="EXTRACT(HOUR FROM CAST({c} AS TIMESTAMP(9)))",  # without a number it would be rounded to the microsecond
    dated="DATE '{v}'",
    stamped="TIMESTAMP '{v}'",
    finest=".999999999",
    stamps=("DATE", "TIMESTAMP"),
    types={
        ColumnKind.INTEGER: "NUMBER(19)", ColumnKind.DOUBLE: "BINARY_DOUBLE", ColumnKind.DECIMAL: "NUMBER",
        ColumnKind.TEXT: "VARCHAR2(999)",
        ColumnKind.FIXED: "CHAR(9)",
    },
    odd=((ColumnKind.DOUBLE, "'NaN'", math.nan), (ColumnKind.DOUBLE, "'Inf'", math.inf),
        (ColumnKind.DOUBLE, "'-Inf'", -math.inf)),
    dual=" FROM DUAL",
    empty=False,
    isolation="SERIALIZABLE",
    session=("ALTER SESSION SET NLS_COMP = BINARY NLS_SORT = BINARY TIME_ZONE = 'UTC'",),
)  # fmt: skip

DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {
        d.name: d
        for d in (
            POSTGRESQL, SQLITE, MYSQL, MARIADB, CLICKHOUSE, BIGQUERY, SNOWFLAKE, TRINO, DATABRICKS, MSSQL, ORACLE,
        )
    }
)  # fmt: skip
"""The dialects, by the names that SQLAlchemy has for them."""
