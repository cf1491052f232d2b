"""Records in files: CSV, Parquet and DuckDB. Part of the trust kernel."""

# ruff: noqa: S608 - SQL holds no text that `_literal` or `_quoted` has not quoted

from __future__ import annotations

import csv
import glob
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import final

import duckdb

from fitnoise.errors import DataError
from fitnoise.kernel.counting.sources import Records, engine, pick, quietly

_FORMS = {
    ".csv": "CSV", ".tsv": "CSV", ".txt": "CSV",
    ".parquet": "Parquet", ".pq": "Parquet",
    ".duckdb": "DuckDB", ".ddb": "DuckDB", ".db": "DuckDB",
}  # fmt: skip

_COMPRESSED = ".gz"
"""No .zst: the engine takes a file that was cut off for a whole one, and Python cannot check it yet."""

_DELIMITERS = ",;\t|"

_HEADER_LINES = 1000
"""Lines of a CSV file looked at for its header, whose names may hold line breaks."""

_BLOCK = 2**20

_ADVICE = {
    "CSV": "look for a line with another number of fields, a quote that does not close, mixed line ends, text that is "
    "not UTF-8, or a file that was cut off",
    "Parquet": "it may be damaged, or of another format",
    "DuckDB": "it may be damaged, of another format, or held open by another program",
}


@final
@dataclass(frozen=True, eq=False)
class SqlRecords(Records):
    """Files, or a table of a DuckDB file: `reader` is SQL, run after the statements of `setup`."""

    what: str
    names: tuple[str, ...]
    reader: str
    advice: str
    setup: tuple[str, ...] = ()
    header: bool = False

    def relation(self, connection: duckdb.DuckDBPyConnection, positions: Sequence[int], *, schema: bool = False) -> str:
        """The columns by position; the engine reads no others."""
        for statement in self.setup:
            connection.execute(statement)
        return pick(self.reader, len(self.names), positions)

    def untyped(self, position: int) -> bool:
        """Every column of a CSV file, which is what has a header line."""
        return self.header

    def known(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        """Written down in Parquet and DuckDB files."""
        if self.header:
            return None
        row = connection.execute(f"SELECT count(*) FROM {self.reader}").fetchone()
        return None if row is None else int(row[0])


def from_path(path: str | PathLike[str], table: str | None) -> Records:
    """A CSV or Parquet file, several of them (a pattern), or a table of a DuckDB file.

    Raises:
        DataError: no such file, a kind that cannot be told, or one that cannot be opened.
    """
    path = Path(path)
    form = _form(path)
    files = _files(path)
    message = f"{path.name!r} cannot be read as {form}"
    if form == "DuckDB":
        if len(files) > 1:
            raise DataError(f"{path.name!r} matches {len(files)} DuckDB files; give one. Nothing was read.")
        return quietly(partial(_duckdb, files[0], table), message, _ADVICE[form])
    read = _csv if form == "CSV" else _parquet
    first, *others = [quietly(partial(read, f), message, _ADVICE[form]) for f in files]
    different = next((f.name for f, other in zip(files[1:], others, strict=True) if other != first), None)
    if different is not None:
        raise DataError(
            f"the files {path.name!r} are not alike: {different!r} has other columns, or columns of other types, than "
            f"{files[0].name!r}. Make them alike, or release them apart. Nothing was counted."
        )
    reader = "read_csv" if form == "CSV" else "read_parquet"
    listed = ", ".join(_literal(_engine_path(f)) for f in files)
    return SqlRecords(
        what=f"the {'file' if len(files) == 1 else 'files'} {path.name!r}",
        names=first[0],
        reader=f"{reader}([{listed}], {first[2]})",
        advice=_ADVICE[form],
        header=form == "CSV",
    )


def _form(path: Path) -> str:
    """What the name says the file is."""
    suffixes = [s.lower() for s in path.suffixes]
    packed = bool(suffixes) and suffixes.pop() == _COMPRESSED
    form = _FORMS.get(suffixes[-1] if suffixes and packed else path.suffix.lower())
    if form is None or (packed and form != "CSV"):
        raise DataError(
            f"the format of {path.name!r} cannot be told from its name; give a .csv, .tsv or .txt file (also with "
            ".gz behind), a .parquet file or a .duckdb file. Nothing was read."
        )
    return form


def _files(path: Path) -> list[Path]:
    """The file; or what a pattern with *, ? or [ matches."""
    if path.is_file():
        return [path]
    if path.is_dir():
        raise DataError(
            f"{path.name!r} is a directory; give a file or a pattern such as {path.name}/*. Nothing was read."
        )
    found = sorted({Path(f) for f in glob.glob(str(path), recursive=True) if Path(f).is_file()})  # noqa: PTH207 - Path.glob takes no absolute pattern
    if not found:
        raise DataError(f"there is no data file {path.name!r}. Nothing was read.")
    return found


def _engine_path(path: Path) -> str:
    """Absolute, so that it is no address of a network; escaped, so that it is no pattern."""
    return glob.escape(str(path.absolute()))


_Columns = tuple[tuple[str, ...], tuple[str, ...], str]
"""Names, types, and the options of the engine's reader."""


def _csv(path: Path) -> _Columns:
    """The header line, read as a record; and that the engine, told to skip it, skips it and nothing else.

    Told so, it ignores what is wrong with that line: it may then find no records at all, without an error.
    """
    if path.suffix.lower() == _COMPRESSED:  # whole and undamaged? The engine does not look at the check sum
        with gzip.open(path) as file:
            while file.read(_BLOCK):
                pass
    literal = _literal(_engine_path(path))
    plain = "auto_detect=false, hive_partitioning=false"
    with engine() as connection:
        lines = connection.execute(
            f"SELECT line FROM read_csv({literal}, {plain}, strict_mode=false, header=false, delim='\x01', quote='', "
            f"escape='', columns={{'line': 'VARCHAR'}}) LIMIT {_HEADER_LINES}"
        ).fetchall()
        if not lines or not (lines[0][0] or "").strip():
            raise DataError(
                f"the CSV file {path.name!r} has no header line: it is empty, or its first line is. Nothing was read."
            )
        delimiters = "\t" if ".tsv" in path.suffixes else _DELIMITERS
        delimiter, width = _dialect([(line or "") + "\n" for (line,) in lines], delimiters)
        columns = ", ".join(f"'c{i}': 'VARCHAR'" for i in range(width))
        options = f"{plain}, strict_mode=true, delim='{delimiter}', quote='\"', escape='\"', columns={{{columns}}}"
        read = f"SELECT * FROM read_csv({literal}, {options}"
        header, *records = connection.execute(f"{read}, header=false) LIMIT 3").fetchall()
        if connection.execute(f"{read}, header=true) LIMIT 2").fetchall() != records:
            raise DataError(
                f"the records of {path.name!r} cannot be told from its header line: a byte-order mark before quoted "
                "column names does this. Save it without one. Nothing was read."
            )
    return tuple(name or "" for name in header), (), f"{options}, header=true"


def _dialect(lines: Sequence[str], delimiters: str) -> tuple[str, int]:
    """The delimiter that gives the header line most fields, and how many."""
    widths = {d: len(next(csv.reader(lines, delimiter=d))) for d in delimiters}
    best = max(widths, key=widths.__getitem__)
    return best, widths[best]


def _parquet(path: Path) -> _Columns:
    file = _literal(_engine_path(path))
    options = "hive_partitioning=false"
    with engine() as connection:
        nodes = connection.execute(f"SELECT name, num_children FROM parquet_schema({file})").fetchall()
        kinds = connection.execute(f"DESCRIBE SELECT * FROM read_parquet({file}, {options})").fetchall()
    names = []  # the schema in depth-first order, its root first; the engine's own names would hide doubles
    rest = iter(nodes[1:])
    for name, children in rest:
        names.append(name)
        below = children or 0
        while below:
            below += (next(rest)[1] or 0) - 1
    return tuple(names), tuple(kind for _, kind, *_ in kinds), options


def _duckdb(path: Path, table: str | None) -> Records:
    attach = f"ATTACH {_literal(str(path.absolute()))} AS source (READ_ONLY)"
    with engine() as connection:
        connection.execute(attach)
        tables = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'source' AND NOT internal"
        ).fetchall()
        known = {s + "." + t: (s, t) for s, t in tables} | {t: (s, t) for s, t in tables if s == "main"}
        folded = {name.lower(): parts for name, parts in known.items()}  # the engine ignores capitals too
        if table is None or table.lower() not in folded:
            raise DataError(
                f"{path.name!r} is a DuckDB database; say which of its tables {sorted(known)} holds the records "
                f"(data.table in the specification, or --table); got {table!r}. A view will not do, because nothing "
                "bounds what one record does to it: store it as a table. Nothing was read."
            )
        reader = "source." + ".".join(_quoted(part) for part in folded[table.lower()])
        columns = connection.execute(f"DESCRIBE {reader}").fetchall()
    return SqlRecords(
        what=f"table {table!r} of {path.name!r}",
        names=tuple(name for name, *_ in columns),
        reader=reader,
        advice=_ADVICE["DuckDB"],
        setup=(attach,),
    )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
