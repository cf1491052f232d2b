"""The sources of records, as DuckDB reads them.

**Purpose.** A record's cell may depend only on that record and public facts; otherwise one more record could move
others. So the module guesses nothing from the records:

* The columns of a CSV file are text, and its delimiter is read off the header line.
* Columns of Python objects become text value by value, because the engine would guess a type from a sample.
* Several files are one source only when they agree on columns and types.
* Parts of a path are columns only as :mod:`fitnoise.engines.paths` states.

The module handles columns by position: names decide once, in `places`, the column of an attribute.
"""

from __future__ import annotations

import abc
import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, final

import duckdb

from fitnoise.engines.views import FoundView
from fitnoise.errors import DataError
from fitnoise.kernel.codings import OUTSIDE, REFUSED
from fitnoise.kernel.conditions import Condition
from fitnoise.kernel.counting import failures
from fitnoise.kernel.counting.persons import ID_KEY, IDS
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.formats import Format, TextReader
from fitnoise.kernel.units import RecordBound

_T = TypeVar("_T")

DATE_COLUMN_TEXT = ("dates, without a time zone", "dates with a time, without a time zone")
"""Descriptions of columns off which a date part is read, and off which an hour is read."""


MAX_TEXTS_LOOKED_AT = 10_000
"""The largest number of different texts of a column among which usual formats are looked for."""

FormsMet = Callable[[str], Sequence[Format]]
"""A function that returns the usual formats that would read texts of an attribute without a cell."""


def no_forms(attribute: str) -> Sequence[Format]:
    """Return no format, where texts are not read here."""
    del attribute
    return ()


class Columns:
    """Named columns of a source of records.

    what: The description of the source, for messages.
    names: Every column, as the source names it, in order.
    header: True if the names are the first line of a file, which might be a record instead.
    """

    what: str
    names: tuple[str, ...]
    header: bool

    @final
    def places(self, column: str) -> list[int]:
        """Return the positions of the columns of this name; without any, of those that differ by capitals only."""
        exact = [i for i, name in enumerate(self.names) if name == column]
        return exact or [i for i, name in enumerate(self.names) if name.casefold() == column.casefold()]

    @final
    def position(self, domain: Domain, attribute: str) -> int:
        """Return the column that holds an attribute; raise DataError unless there is exactly one."""
        return self._sole_position(domain, domain.column(attribute), f"the attribute {attribute!r}")

    @final
    def place_of_id(self, domain: Domain, column: str) -> int:
        """Return the column that identifies the unit of a record; raise DataError unless there is exactly one."""
        return self._sole_position(domain, column, "the id of the privacy unit")

    @final
    def place_of_condition(self, domain: Domain, condition: Condition) -> int:
        """Return the column that a condition is on; raise DataError unless there is exactly one."""
        return self._sole_position(domain, condition.column, "a condition on records")

    def _sole_position(self, domain: Domain, column: str, who: str) -> int:
        places = self.places(column)
        if len(places) > 1:
            raise DataError(
                "column-ambiguous",
                f"The data in {self.what} have {len(places)} columns called {column!r}, without regard to case.",
                f"One column is needed for {who}.",
                "Rename or drop the other columns.",
                "Nothing was counted.",
                place=column,
            )
        if not places:
            names = f"The columns are {sorted(self.names)}."
            if self.header:  # the text may be a record: an error repeats only parts of the domain
                there = [c for c in map(domain.column, domain) if self.places(c)]
                listed = f"only {', '.join(map(repr, there))}" if there else "no column"
                names = f"The first line names {listed} of the domain, and may not be a header line."
            raise DataError(
                "column-missing",
                f"The column {column!r} does not exist in {self.what}; it is needed for {who}.",
                names,
                "Rename the column, or name another one (column = …, id = …, where = …).",
                "Nothing was counted.",
                place=column,
            )
        return places[0]

    @final
    def refuse(
        self, domain: Domain, outside: Mapping[str, int], bound: RecordBound | None = None, forms: FormsMet = no_forms
    ) -> None:
        """Raise DataError if records outside are not left out, or have no id; the error states their numbers.

        Only the operator sees the error. It names forms of texts, and no text.

        outside: By attribute or rule, the number of records outside that are not left out; `ID_KEY` stands for the id.
        bound: The bound on the counted records of a unit; without one, the records need no id.
        forms: The function that returns the usual formats that would read texts of an attribute.
        """
        bad = {a: n for a, n in outside.items() if n}
        missing = bad.pop(ID_KEY, 0)
        if bound is not None and missing:
            raise DataError(
                "records-without-id",
                f"In {self.what}, {missing} records have no valid value in the id column {bound.id!r}.",
                f"{IDS}; an empty text, a number with a point and a truth value are not ids.",
                'Correct the data, or set outside_domain = "drop" to leave such records out of every table.',
                "Nothing was measured and nothing was charged.",
                place=bound.id,
                values={"records": missing},
            )
        refuse_impossible(self.what, {name: bad.pop(name) for name in domain.rules if name in bad})
        if bad:
            where = ", ".join(f"{n} in the column {domain.column(a)!r} (attribute {a!r})" for a, n in bad.items())
            ways = {OUTSIDE: 'outside_domain = "drop"', REFUSED: '"drop" where an attribute itself says "refuse"'}
            drop = ", or ".join(way for x, way in ways.items() if any(x in domain[a].coding.without_cell for a in bad))
            raise DataError(
                "records-outside-domain",
                f"In {self.what}, records have missing values or values outside the domain: {where}.",
                _needs_cells(domain, {a: usual for a in bad if (usual := forms(a))}),
                "Correct the data or the domain, declare how texts are written (decimal, thousands, date, zone, "
                "normalise, strip, lookup) or cells (missing, if_missing, if_outside), or set "
                f"{drop}, to leave such records out.",
                "Nothing was measured and nothing was charged.",
                values={"list": bad},
            )


def _needs_cells(domain: Domain, forms: Mapping[str, Sequence[Format]]) -> str:
    """Return the sentences about what is needed, with the usual formats that would read some texts."""
    sentences = ""
    for a, usual in forms.items():
        ways = " or ".join(map(_stated, usual))
        sentences += f" Some texts in the column {domain.column(a)!r} seem to be written with {ways}."
    return f"Every record needs a cell, unless the specification drops it.{sentences}"


def _stated(form: Format) -> str:
    """Return the keys of a format as a specification states them."""
    return " and ".join(f"{key} = {json.dumps(x, ensure_ascii=False)}" for key, x in form.document.items())


def refuse_impossible(what: str, numbers: Mapping[str, int]) -> None:
    """Raise DataError if there are records in cells that rules call impossible.

    what: The data, as the error names them.
    numbers: The number of such records by rule.
    """
    bad = ", ".join(f"{n} by the rule {name!r}" for name, n in numbers.items() if n)
    if bad:
        raise DataError(
            "records-impossible",
            f"In {what}, records have combinations that are declared impossible: {bad}.",
            "The numbers are exact and must not be published.",
            'Correct the data or the rules, or set outside = "drop" in [rules] to leave such records out of every '
            "table.",
            "Nothing was measured and nothing was charged.",
            values={"list": {name: n for name, n in numbers.items() if n}},
        )


def wrong_type(domain: Domain, attribute: str, kind: str, needed: str) -> DataError:
    """Return the error for a column of a type from which the attribute cannot be read."""
    return DataError(
        "column-of-wrong-type",
        f"The column {domain.column(attribute)!r} is of the type {kind}.",
        f"The attribute {attribute!r} needs {needed}.",
        "Convert the column, or declare the attribute differently.",
        "Nothing was counted.",
        place=domain.column(attribute),
    )


def wrong_condition(condition: Condition, kind: str, needed: str) -> DataError:
    """Return the error for a column of a type that a condition cannot be compared with."""
    return DataError(
        "condition-column-of-wrong-type",
        f"The column {condition.column!r} is of the type {kind}.",
        f"The condition on it needs {needed}.",
        "Convert the column, or change the condition.",
        "Nothing was counted.",
        place=condition.column,
    )


def wrong_id(bound: RecordBound, kind: str) -> DataError:
    """Return the error for an id in a column of another type."""
    return DataError(
        "id-column-of-wrong-type",
        f"The id column {bound.id!r} is of the type {kind}.",
        f"{IDS}; other types can write one value in several ways.",
        "Convert the column.",
        "Nothing was counted.",
        place=bound.id,
    )


@final
@dataclass(frozen=True)
class ColumnRequest:
    """The columns that are read from a source of records.

    positions: Their positions in `names`; the first becomes k0, the second k1, ….
    schema: True if only the types of the columns matter, and not the rows.
    person: The number i of the column k{i} that holds ids; `None` without one. If its type has other values too, values
    that are no ids are missing there.
    dates: The numbers i of the columns k{i} that hold dates, off which a part is read: Python's dates are written there
    as texts.
    formats: For columns k{i} of Python objects (`holds_objects`), the functions that read their texts.
    """

    positions: Sequence[int]
    schema: bool = False
    person: int | None = None
    dates: Collection[int] = ()
    formats: Mapping[int, TextReader] = field(default_factory=dict)


class Records(Columns, abc.ABC):
    """A source of records that DuckDB reads.

    advice: The action to take when the records cannot be read.
    """

    advice: str

    view: FoundView | None = None
    """The promise or finding about a view; `None` for other records."""

    @abc.abstractmethod
    def relation(self, connection: duckdb.DuckDBPyConnection, request: ColumnRequest) -> str:
        """Return SQL for a relation of the requested columns, as k0, k1, …."""

    @abc.abstractmethod
    def untyped(self, position: int) -> bool:
        """Return True if the column at a position of `names` is text from which numbers and truth values are read."""

    @abc.abstractmethod
    def known_size(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        """Return the number of records; `None` if it is not known without reading them. Call it after `relation`."""

    def holds_objects(self, position: int) -> bool:
        """Return True if a column has Python objects, whose texts `relation` itself reads in their declared form."""
        return False

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of this machine that are read when the records are counted."""
        return ()

    def for_single_reader(self) -> Records | None:
        """Return these records for one reader that starts at their beginning; `None` where it makes no difference."""
        return None


@contextlib.contextmanager
def standing(what: str, state: Callable[[], object]) -> Iterator[None]:
    """Raise DataError if the state of the records differs before and after the body of the `with` statement."""
    before = state()
    yield
    if state() != before:
        raise DataError(
            "data-changed-while-read",
            f"The data changed while fitnoise read {what}.",
            "A record may have been counted in two places, or in none.",
            "Count a copy, or count while no one writes to the data.",
            "Nothing was measured and nothing was charged.",
        )


def pick(reader: str, width: int, positions: Sequence[int]) -> str:
    """Return SQL for the columns at these positions of a reader with `width` columns, as k0, k1, …."""
    # Positions are the only names: the reader's columns may have any names, also repeated ones.
    columns = ", ".join(f"c{p} AS k{i}" for i, p in enumerate(positions)) or "0 AS nothing"
    return f"(SELECT {columns} FROM {reader} AS source({', '.join(f'c{i}' for i in range(width))}))"  # noqa: S608 - quoted


@contextlib.contextmanager
def engine(memory_limit: str | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a fresh engine: no network, no Python variables, no secrets of the user, and nothing on the disk.

    **Guarantees**: The engine writes no temporary file, also if it is stopped or killed at any point. Records stream
    through it, so that it needs no such file; records that do not fit its memory are an error.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "allow_persistent_secrets": "false",
        "temp_directory": "",  # none: a killed process would leave records there
    }
    if memory_limit is not None:
        config["memory_limit"] = memory_limit
    # A new database in memory: tables of other connections of this process are not visible in it.
    with duckdb.connect(config=config) as connection:
        connection.execute("SET enable_progress_bar = false")
        yield connection


def _sqlstate(error: Exception) -> str:
    """Return the SQLSTATE code of an error of a database or Spark; another text, or none, if it has no code."""
    with contextlib.suppress(Exception):  # Spark asks a process that may be gone
        state = error.getSqlState() if hasattr(error, "getSqlState") else getattr(error, "orig", None)
        return str(getattr(state, "sqlstate", state))
    return ""


def reason_of(error: Exception) -> str:
    """Return the kind of an engine's error, with its SQLSTATE code and the line of a CSV file, without its text."""
    reason = type(error).__name__
    state = _sqlstate(error)
    thrown = re.match(r"An error occurred while calling \S+\n: (?:\w+\.)*([A-Z]\w*)\b", str(error))
    line = re.match(r"Invalid Input Error: CSV Error on Line: (\d+)\n", str(error))
    if thrown and reason == "Py4JJavaError":
        reason = thrown[1]  # Java's name of the failure
    if re.fullmatch("[0-9A-Z]{5}", state):  # any other text may hold a value
        reason += f", SQLSTATE {state}"
    if line:
        reason += f" at line {line[1]}"
    return reason


def quietly(action: Callable[[], _T], failed: DataError) -> _T:
    """Run an action of an engine (:func:`fitnoise.kernel.counting.failures.quietly`); errors state the engine's reason.

    Args:
        action: The function to run. It may raise any error, and a DataError passes unchanged.
        failed: The error for a failed action. The error that is raised adds the kind of the failure to it.

    Raises:
        UnreadableRecords: The action failed. The code, the given sentence and the outcome are those of `failed`.
        DataError: Memory was exhausted, or the action raised this error.
    """
    return failures.quietly(action, failed, reason_of)


def not_counted(what: str, advice: str) -> DataError:
    """Return the error for records that an engine cannot count.

    Args:
        what: The data, as the error names them.
        advice: Sentence that says what to do.
    """
    return DataError(
        "records-not-counted",
        f"The records of {what} cannot be counted.",
        "",
        advice,
        "Nothing was measured and nothing was charged.",
    )


def not_read_as(what: str, file_format: str, advice: str) -> DataError:
    """Return the error for files that cannot be read in their format.

    Args:
        what: The files, as the error names them.
        file_format: The format that their name shows.
        advice: Sentence that says what to do.
    """
    return DataError(
        "data-file-not-read",
        f"Fitnoise cannot read {what} as {file_format}.",
        "",
        advice,
        "Nothing was measured and nothing was charged.",
    )
