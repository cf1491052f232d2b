"""Records in frames: Arrow, Polars and pandas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import duckdb
import numpy as np
import pandas as pd

from fitnoise.engines.sources import ColumnRequest, Records, engine, pick, quietly
from fitnoise.errors import DataError
from fitnoise.kernel.codings import as_csv_text
from fitnoise.kernel.counting.persons import person_id
from fitnoise.kernel.dates import dated
from fitnoise.kernel.formats import TextReader

PEOPLE: Final = "fitnoise_people"
"""The name of a frame inside the engine."""

_CONVERSIONS: Mapping[type, str] = {
    pd.PeriodDtype: "Convert with .dt.to_timestamp()",
    pd.IntervalDtype: "Convert to numbers, such as .array.left",
    pd.SparseDtype: "Convert with .sparse.to_dense()",
    np.dtypes.Complex64DType: "Convert to numbers, such as .to_numpy().real",
    np.dtypes.Complex128DType: "Convert to numbers, such as .to_numpy().real",
}
"""Types of pandas columns that the engine does not read, and the conversion to one that it reads."""

_UNREAD_ARROW_TYPE: Final = "decimal256"
"""The Arrow type that the engine does not read."""

_ADVICE = "Convert its columns to numbers, text or true/false, or read it into a table first."


@final
@dataclass(frozen=True, eq=False)
class FrameRecords(Records):
    """An Arrow or Polars frame, read where it is."""

    frame: Any
    what: str
    names: tuple[str, ...]
    advice: str = _ADVICE
    header: bool = False

    def relation(self, connection: duckdb.DuckDBPyConnection, request: ColumnRequest) -> str:
        """Return SQL for the columns by position; where the frame can select, it hands no others to the engine.

        Raise DataError for a column of a type that the engine does not read.
        """
        schema: Any = getattr(self.frame, "schema", None)
        for name in {self.names[i] for i in request.positions}:
            kinds = [str(f.type) for f in schema if f.name == name] if hasattr(schema, "get_all_field_indices") else []
            if any(kind.startswith(_UNREAD_ARROW_TYPE) for kind in kinds):
                raise DataError(
                    "arrow-type-not-read",
                    f"The column {name!r} is of the Arrow type {kinds[0]}.",
                    "Fitnoise does not read this type.",
                    "Cast it to decimal128 or float64.",
                    "Nothing was counted.",
                    place=name,
                )
        if request.positions and hasattr(self.frame, "select"):
            used = list(dict.fromkeys(self.names[i] for i in request.positions))
            connection.register(PEOPLE, self.frame.select(used))
            return pick(PEOPLE, len(used), [used.index(self.names[i]) for i in request.positions])
        connection.register(PEOPLE, self.frame)
        return pick(PEOPLE, len(self.names), request.positions)

    def untyped(self, position: int) -> bool:
        """Return False: Arrow has types."""
        return False

    def known_size(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        """Return the number of records; `None` for a frame without a length, such as a pure stream."""
        return len(self.frame) if hasattr(type(self.frame), "__len__") else None


@final
@dataclass(frozen=True, eq=False)
class PandasRecords(Records):
    """A pandas frame; its columns of Python objects are read as text, value by value."""

    frame: pd.DataFrame
    what: str
    names: tuple[str, ...]
    advice: str = _ADVICE
    header: bool = False

    def relation(self, connection: duckdb.DuckDBPyConnection, request: ColumnRequest) -> str:
        """Return SQL for the columns by position, without the index; raise DataError for an unread pandas type."""
        positions = request.positions
        for p in positions:
            way = next((way for kind, way in _CONVERSIONS.items() if isinstance(self._dtype(p), kind)), None)
            if way is not None:
                raise DataError(
                    "pandas-type-not-read",
                    f"The column {self.names[p]!r} is of the pandas type {self._dtype(p)}.",
                    "Fitnoise does not read this type.",
                    f"{way}.",
                    "Nothing was counted.",
                    place=self.names[p],
                )
        frame = self.frame.iloc[:0] if request.schema else self.frame
        texts = {
            i: person_id if i == request.person else dated if i in request.dates else as_csv_text
            for i in range(len(positions))
        }
        texts |= {i: partial(_in_form, reader, texts[i]) for i, reader in request.formats.items()}
        columns = {f"c{i}": _as_texts(frame.iloc[:, p], texts[i]) for i, p in enumerate(positions)}
        # A frame without columns would have no records for the engine.
        connection.register(PEOPLE, pd.DataFrame(columns or {"c0": np.zeros(len(frame), dtype=np.int8)}))
        return pick(PEOPLE, max(1, len(columns)), range(len(columns)))

    def untyped(self, position: int) -> bool:
        """Return True for columns of Python objects, or of categories that are Python objects."""
        return bool(self._dtype(position) == np.dtype(object))

    def holds_objects(self, position: int) -> bool:
        """Return True for columns of Python objects."""
        return self.untyped(position)

    def _dtype(self, position: int) -> Any:
        """Return the type of a column; for a column of categories the type of these."""
        dtype = self.frame.dtypes.iloc[position]
        return dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype

    def known_size(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        """Return the number of records."""
        return len(self.frame)


def from_frame(frame: Any) -> Records:
    """Return the records of a pandas, Polars or Arrow frame, or of another object that hands out an Arrow stream.

    Raises:
        DataError: The frame is lazy, a relation of DuckDB, can be read only once, or cannot be read.
    """
    what = f"the {type(frame).__name__}"
    if isinstance(frame, pd.DataFrame):
        return PandasRecords(frame, what, tuple(str(c) for c in frame.columns))
    if hasattr(type(frame), "collect"):
        raise DataError(
            "frame-not-collected",
            f"The data are a query that has not run, {what}.",
            "Fitnoise reads the result of a query.",
            "Collect it first.",
            "Nothing was read.",
        )
    if hasattr(type(frame), "read_next_batch"):  # some engines find no records, and no error, in an exhausted reader
        raise DataError(
            "frame-read-once",
            f"The data are {what}, which can be read only once.",
            "Fitnoise may need to read the records again.",
            "Read it into a table first (read_all).",
            "Nothing was read.",
        )
    if isinstance(frame, duckdb.DuckDBPyRelation):
        raise DataError(
            "duckdb-relation-foreign",
            f"The data are {what}, a relation of another DuckDB connection.",
            "Fitnoise cannot see the tables of another connection.",
            "Give its rows (to_arrow_table), or the database file.",
            "Nothing was read.",
        )
    failed = DataError(
        "frame-columns-not-read",
        f"The names of the columns of {what} cannot be read.",
        "",
        _ADVICE,
        "Nothing was measured and nothing was charged.",
    )
    names = quietly(lambda: _names(frame), failed)
    return FrameRecords(frame, what, names)


def _names(frame: Any) -> tuple[str, ...]:
    """Return the names of the columns as the frame has them."""
    # The engine renames duplicates, so its names serve only frames that show none themselves.
    names = getattr(getattr(frame, "schema", None), "names", None)  # an attribute in Arrow, a method in Polars
    if names is not None:
        return tuple(names() if callable(names) else names)
    with engine() as connection:
        connection.register(PEOPLE, frame)
        return tuple(name for name, *_ in connection.execute(f"DESCRIBE {PEOPLE}").fetchall())


def _in_form(reader: TextReader, text: Callable[[object], str | None], value: object) -> str | None:
    """Return a Python object as a text; texts are first read in their declared form."""
    return text(reader.value(value))


def _as_texts(column: pd.Series[Any], text: Callable[[object], str | None]) -> Any:
    """Return a column whose types the engine need not guess: Python objects as the texts that `text` returns."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        categories = pd.array(_as_texts(pd.Series(column.dtype.categories), text))
        # The type of such an array would depend on whether any value is missing.
        if isinstance(categories, pd.arrays.NumpyExtensionArray):
            categories = pd.array(categories.to_numpy())
        return categories.take(column.cat.codes.to_numpy(), allow_fill=True)
    if column.dtype == np.dtype(object):
        return pd.array([text(x) for x in column.array], dtype="string")
    return column.array
