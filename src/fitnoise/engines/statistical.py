"""Records in the files of statistical programs and spreadsheets: SPSS, SAS, Stata, Excel.

**Purpose.** The module reads such a file value by value as a CSV file would hold it. All its numbers are in double
precision, and 7.0 is the text "7". Labels of values, formats and dates are not applied: codes are the content of the
file. The system's missing values are missing. Values that a user of SPSS declared missing are read as their codes in
`.sav` and `.zsav` files. In `.por` files they are missing. An empty cell of a sheet is empty text, as it is in CSV.

Every value must be the record's own. A cell with a formula may depend on other records, so it is refused.
"""

from __future__ import annotations

import contextlib
import importlib
import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, final

import duckdb
import pandas as pd

from fitnoise.engines.frames import PandasRecords
from fitnoise.engines.sources import ColumnRequest, Records, not_read_as, quietly
from fitnoise.errors import DataError

PROGRAMS: Final = {".sav": "SPSS", ".zsav": "SPSS", ".por": "SPSS", ".sas7bdat": "SAS", ".xpt": "SAS", ".dta": "Stata"}
"""The programs that write files with these endings."""

_READERS = {
    ".sav": "read_sav", ".zsav": "read_sav", ".por": "read_por",
    ".sas7bdat": "read_sas7bdat", ".xpt": "read_xport", ".dta": "read_dta",
}  # fmt: skip

_ADVICE = "Check that the file is complete, of this format, and not protected."


@final
@dataclass(frozen=True, eq=False)
class StatisticalRecords(Records):
    """A file of SPSS, SAS or Stata; the needed columns are held in memory."""

    path: Path
    what: str
    names: tuple[str, ...]
    advice: str = _ADVICE
    header: bool = False

    def relation(self, connection: duckdb.DuckDBPyConnection, request: ColumnRequest) -> str:
        """Return SQL for the columns by position, read as columns of Python objects."""
        # pyreadstat takes an empty list of columns for all of them, and a limit of 0 for no limit.
        needed = list(dict.fromkeys(self.names[p] for p in request.positions or (0,)))
        frame, _ = _read(self.path, usecols=needed, row_limit=1 if request.schema else 0)
        objects = pd.DataFrame({f"c{i}": [*map(_integral, frame[name])] for i, name in enumerate(needed)}, dtype=object)
        positions = [needed.index(self.names[p]) for p in request.positions]
        return PandasRecords(objects, self.what, tuple(needed)).relation(
            connection, replace(request, positions=positions)
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """The file."""
        return (self.path,)

    def untyped(self, position: int) -> bool:
        """Return True: every column is untyped."""
        return True

    def holds_objects(self, position: int) -> bool:
        """Return True: every column is read as Python objects."""
        return True

    def known_size(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        """Return `None`: not all of these formats store the number."""
        return None


def from_program(path: Path) -> Records:
    """Return the records of a file of SPSS, SAS or Stata.

    Raises:
        DataError: The file cannot be read, or the package that reads it is not installed.
    """
    what = f"the file {path.name!r}"
    failed = not_read_as(what, PROGRAMS[path.suffix.lower()], _ADVICE)
    _, metadata = quietly(partial(_read, path, metadataonly=True), failed)
    return StatisticalRecords(path, what, tuple(metadata.column_names))


def from_sheet(path: Path, sheet: str | None) -> Records:
    """Return the records of a sheet of an Excel file: its first line names the columns.

    A line without any value is no record. With `sheet = None` the file must have one sheet.

    Raises:
        DataError: The file cannot be read, a sheet must be named, a column has no name, or cells hold formulas.
        DataError: The package that reads it is not installed.
    """
    return quietly(partial(_sheet, path, sheet), not_read_as(f"the file {path.name!r}", "Excel", _ADVICE))


def _sheet(path: Path, sheet: str | None) -> Records:
    with contextlib.closing(_library("openpyxl").load_workbook(path, read_only=True)) as book:
        titles = [s.title for s in book.worksheets]
        if sheet is None and len(titles) == 1:
            (sheet,) = titles
        if sheet not in titles:
            raise DataError(
                "sheet-not-found",
                f"The Excel file {path.name!r} has no sheet {sheet!r}."
                if sheet is not None
                else f"The Excel file {path.name!r} has several sheets, and none is named.",
                f"Its sheets are {titles}.",
                "Name the sheet in data.table or --table.",
                "Nothing was read.",
                place="data.table",
            )
        # The file states its dimensions. The package would read nothing beyond them.
        book[sheet].reset_dimensions()
        with contextlib.closing(book[sheet].iter_rows()) as lines:
            header, *rows = [[_cell(path, c) for c in line] for line in lines] or [[]]
    what = f"sheet {sheet!r} of {path.name!r}"
    names = tuple("" if name is None else str(name) for name in header)
    width = max((i for i, name in enumerate(names, 1) if name), default=0)
    if not width:
        raise DataError(
            "sheet-header-missing",
            f"The first line of {what} is empty.",
            "It must name the columns.",
            "Add a header line.",
            "Nothing was read.",
        )
    if any(x is not None for line in rows for x in line[width:]):
        raise DataError(
            "sheet-columns-without-name",
            f"Columns without a name in the first line of {what} have values.",
            "Every column with values needs a name.",
            "Name these columns, or remove them.",
            "Nothing was read.",
        )
    rows = [line for line in rows if any(x is not None for x in line)]
    columns = {i: [line[i] if i < len(line) else None for line in rows] for i in range(width)}
    return PandasRecords(pd.DataFrame(columns, dtype=object), what, names[:width], header=True)


def _cell(path: Path, cell: Any) -> object:
    """Return the content of a cell, `None` if it is empty or an error such as #N/A; raise DataError for a formula."""
    kind = getattr(cell, "data_type", None)  # an empty cell may have no type
    if kind == "f":
        raise DataError(
            "sheet-with-formula",
            f"The cell {cell.coordinate} of {path.name!r} is a formula.",
            "A formula may use other records, so that one record could change many.",
            "Paste its value there (paste special, values).",
            "Nothing was read.",
            place=cell.coordinate,
        )
    return None if kind == "e" else _integral(cell.value)


def _read(path: Path, **options: Any) -> Any:
    """Return a frame of numbers and texts, and the description of its columns."""
    read = getattr(_library("pyreadstat"), _READERS[path.suffix.lower()])
    if read.__name__ == "read_sav":
        # Values that a user declared missing then come as their codes, which the specification may name.
        options["user_missing"] = True
    return read(str(path), disable_datetime_conversion=True, **options)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        missing = DataError(
            "reader-missing",
            f"The package {name} is not installed.",
            "Fitnoise reads files of statistical programs and Excel with this package.",
            "Run pip install 'fitnoise[statistics]'.",
            "Nothing was read.",
        )
    raise missing


def _integral(value: object) -> object:
    """Return a float without a fraction as an integer, NaN as `None`, and any other value unchanged."""
    # So the number 7.0 and the text "7" are one code in a column of texts.
    if not isinstance(value, float):
        return value
    return int(value) if value.is_integer() else None if math.isnan(value) else value
