"""Where records come from, as DuckDB reads them. Part of the trust kernel.

Which cell a record falls into may depend on nothing but that record and public facts, or one record more could move
others. Hence nothing is guessed from the records: the columns of a CSV file are text and its delimiter is read off the
header line; columns of Python objects become text value by value (the engine would guess a type from a sample); several
files are one source only when they agree on columns and types; parts of a path are never columns.

Columns are handled by position: names decide once, in `places`, which column an attribute means.
"""

from __future__ import annotations

import abc
import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import duckdb

from fitnoise.errors import DataError

_T = TypeVar("_T")


class Unreadable(DataError):
    """The engine gave up on the records; another way of reading them may not."""


class Records(abc.ABC):
    """A source of records.

    what: the source, for messages.
    names: every column, as the source calls it, in order.
    advice: what to do when the records cannot be read.
    header: whether the names are the first line of a file, which might be a record instead.
    """

    what: str
    names: tuple[str, ...]
    advice: str
    header: bool

    @abc.abstractmethod
    def relation(self, connection: duckdb.DuckDBPyConnection, positions: Sequence[int], *, schema: bool = False) -> str:
        """SQL for a relation of these columns, named k0, k1, …; with `schema` its rows do not matter."""

    @abc.abstractmethod
    def untyped(self, position: int) -> bool:
        """Whether the column is text from which numbers and truth values are to be read."""

    @abc.abstractmethod
    def known(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        """How many records there are, where that is known without reading them; asked after `relation`."""

    def alone(self) -> Records | None:
        """The same records for one reader that starts at their beginning; None where it makes no difference."""
        return None

    def places(self, column: str) -> list[int]:
        """The columns of this name; when there is none, those that differ from it by capitals only."""
        exact = [i for i, name in enumerate(self.names) if name == column]
        return exact or [i for i, name in enumerate(self.names) if name.casefold() == column.casefold()]


def pick(reader: str, width: int, positions: Sequence[int]) -> str:
    """The columns at these positions of a reader with `width` columns, as k0, k1, …."""
    shown = ", ".join(f"c{p} AS k{i}" for i, p in enumerate(positions)) or "0 AS nothing"
    return f"(SELECT {shown} FROM {reader} AS source({', '.join(f'c{i}' for i in range(width))}))"  # noqa: S608 - quoted


@contextlib.contextmanager
def engine(memory_limit: str | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A fresh engine: no network, no Python variables, no secrets of the user, and nothing on the disk.

    **Guarantees**: it writes no temporary file, wherever it is stopped or killed. Records stream through it, so that it
    needs none; what does not fit its memory is an error.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "allow_persistent_secrets": "false",
        "temp_directory": "",  # none: a killed process would leave there what records say
    }
    if memory_limit is not None:
        config["memory_limit"] = memory_limit
    with duckdb.connect(config=config) as connection:
        connection.execute("SET enable_progress_bar = false")
        yield connection


def quietly(action: Callable[[], _T], message: str, advice: str) -> _T:
    """Run what may fail with words that quote the data; then raise DataError with our own words, and no context.

    It is :class:`Unreadable` unless memory is what is missing.
    """
    try:
        return action()
    except DataError:
        raise
    except Exception as error:  # also what frames raise while they hand over their columns
        reason = type(error).__name__
        line = re.match(r"Invalid Input Error: CSV Error on Line: (\d+)\n", str(error))
    if line:
        reason += f" at line {line[1]}"
    kind: type[DataError] = Unreadable
    if "Memory" in reason:
        kind, advice = DataError, "allow more memory, or ask for tables with fewer cells"
    raise kind(f"{message} ({reason}); {advice}. Nothing was measured and nothing was charged.") from None
