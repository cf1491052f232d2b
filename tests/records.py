"""Records as every kind of source holds them: what the zoo of counters is made of."""

import csv
import gzip
import io
import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any
from urllib.parse import quote

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat

import fitnoise as fn
from fitnoise.request.attributes import Attribute

UGLY = "select * from \"people\"; drop table 'people' -- ü, ;|"
QUOTED = "ü'\";--\n,|"
TEXT = "str" if pd.__version__ >= "3" else "string[python]"  # what pandas makes of text on its own

DECIMAL = "decimal"
STAMP = "timestamp[ns]"
DAY = "date32"
KINDS = {
    "string": str, "bool": bool, "double": float, "float": float, DECIMAL: Decimal, STAMP: pd.Timestamp, DAY: date,
}  # fmt: skip
"""Python's type for the values of a type of columns; other types have whole numbers."""


@dataclass(frozen=True)
class Sample:
    """An attribute with values of the data, as declared: those of every cell, and those outside the domain.

    kind: the type that its column has in sources with types.
    """

    attribute: Attribute
    kind: str
    cells: Sequence[Sequence[Any]]
    outside: Sequence[Any]

    @property
    def values(self):
        return [*(v for cell in self.cells for v in cell), *self.outside]


@dataclass(frozen=True)
class Records:
    """Records by attribute, and the type of each column."""

    domain: fn.Domain
    values: dict[str, list[Any]]
    kinds: dict[str, str]

    @property
    def columns(self):
        return {self.domain.column(a): v for a, v in self.values.items()}

    @property
    def types(self):
        return {self.domain.column(a): arrow_type(self.kinds[a]) for a in self.values}

    def arrow(self):
        return pa.table({c: pa.array(v, self.types[c]) for c, v in self.columns.items()})

    def part(self, rows):
        return Records(self.domain, {a: v[rows] for a, v in self.values.items()}, self.kinds)

    def __len__(self):
        return len(next(iter(self.values.values())))


@dataclass(frozen=True)
class Source:
    """A kind of source.

    make: what `open_counter` takes, of records and a folder.
    holds: a value as the source holds it, of a sample; ValueError when it cannot.
    table: which one of a DuckDB file.
    """

    make: Callable[[Records, Any], Any]
    holds: Callable[[Sample, Any], Any]
    table: str | None = None

    def held(self, sample, values):
        """Those of the values that the source can hold, as it holds them."""
        out = []
        for v in values:
            try:
                out.append(self.holds(sample, v))
            except ValueError:
                continue
        return out


def arrow_type(kind):
    return pa.decimal128(38, 3) if kind == DECIMAL else pa.type_for_alias(kind)


# --- what sources can hold ------------------------------------------------------------------------------


def typed(sample, value):
    """Values of the column's type, as they are."""
    if value is None:
        return None
    if type(value) is not KINDS.get(sample.kind, int):
        raise ValueError
    try:
        held = pa.scalar(value, arrow_type(sample.kind)).as_py()
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError) as error:
        raise ValueError from error
    if held != value and value == value:  # noqa: PLR0124 - not a number
        raise ValueError
    return value


def texts(_, value):
    """CSV: everything that has a text, as that text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value) if isinstance(value, (str, numbers.Number)) else "\r"
    if "\r" in text:  # lines would end in two ways, which is refused
        raise ValueError
    text.encode()  # half a letter is a ValueError too
    return text


def names_of_folders(sample, value):
    """CSV in folders called after a value, which end somewhere."""
    if len(text := texts(sample, value)) > 60:
        raise ValueError
    return text


def objects(_, value):
    """Columns of Python objects: everything."""
    return value


def inside(sample, value):
    """Counts have no place for what is outside."""
    if sample.attribute.cell(value) is None:
        raise ValueError
    return value


# --- files ------------------------------------------------------------------------------------------------


def csv_text(columns, delimiter=",", end="\n", quoting=csv.QUOTE_MINIMAL):
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()


def write_file(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def csv_file(name, **dialect):
    def make(records, folder):
        content = csv_text(records.columns, **dialect).encode()
        path = folder.joinpath(*like_columns(records, name))
        return write_file(path, gzip.compress(content) if name.endswith(".gz") else content)

    return Source(make, texts)


def like_columns(records, name):
    """Folders that look like a partition must not overwrite the columns of the file."""
    *folders, file = name.split("/")
    return [*(f"{c.replace('/', '')}={f}" for f, c in zip(folders, records.columns, strict=False)), file]


def csv_parts(records, folder):
    third = len(records) // 3
    for i, rows in enumerate((slice(0, third), slice(third, None))):
        write_file(folder / f"part {i}" / "it's; [1].csv", csv_text(records.part(rows).columns))
    write_file(folder / "part 0" / "it's; 1.csv", "not,to,be,read\n")
    return folder / "part ?" / "it's; [[]1].csv"


def csv_lake(records, folder):
    """The first column in the names of folders, the others in files below, as writers of many files do it."""
    column, *others = records.columns
    by_value = {"__HIVE_DEFAULT_PARTITION__": []}
    for row in zip(*records.columns.values(), strict=True):
        by_value.setdefault(row[0], []).append(row[1:])
    for value, rows in by_value.items():
        text = csv_text({c: [r[i] for r in rows] for i, c in enumerate(others)})
        write_file(folder / "lake" / f"{column}={quote(value, safe='')}" / "part-0.csv", text)
    write_file(folder / "lake" / "_SUCCESS", "")
    write_file(folder / "lake" / ".part-0.csv.crc", "not,to,be,read\n")
    return folder / "lake"


def parquet(records, folder):
    path = folder / 'it\'s "ü"; 100% [a] b?.parquet'
    pq.write_table(records.arrow(), path)
    pq.write_table(records.part(slice(0, 0)).arrow(), folder / 'it\'s "ü"; 100% a b?.parquet')
    return str(path)


def parquet_parts(records, folder):
    third = len(records) // 3
    for i, rows in enumerate((slice(0, third), slice(third, None))):
        pq.write_table(records.part(rows).arrow(), folder / f"part-{i}.parquet")
    return folder / "part-*.parquet"


def parquet_like_columns(records, folder):
    path = folder.joinpath(*like_columns(records, "1/2/people.pq"))
    path.parent.mkdir(parents=True)
    pq.write_table(records.arrow(), path)
    return path


def database(table, schema="main"):
    def make(records, folder):
        path = folder / 'it\'s; "ü".duckdb'
        path.unlink(missing_ok=True)
        with duckdb.connect(path) as db:
            db.register("frame", records.arrow())
            db.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
            db.execute(f'CREATE TABLE "{schema}"."{table.replace(chr(34), chr(34) * 2)}" AS SELECT * FROM frame')
            db.execute("CREATE TABLE decoy AS SELECT * FROM frame LIMIT 3")
        return path

    return Source(make, typed, table if schema == "main" else f"{schema}.{table}")


# --- files of statistical programs --------------------------------------------------------------------


def numbers_and_texts(sample, value):
    """Return a value as text or as a number in double precision; whole numbers become integers.

    Raises:
        ValueError: The files of the format cannot hold the value.
    """
    if sample.kind == "string":
        value = "" if value is None else value
        if not isinstance(value, str):
            raise ValueError
        if value != value.rstrip() or "\0" in value or not value.isprintable():
            raise ValueError
        return value
    if value is None:
        return None
    if type(value) not in (int, float, Decimal) or (type(value) is int and abs(value) > 10**60):
        raise ValueError
    x = float(value)
    if math.isnan(x):
        return None
    if x != value or abs(x) > 1e60 or 0 < abs(x) < 1e-60:  # SAS has the least room
        raise ValueError
    return int(x) if x.is_integer() else x


WRITERS = {
    "sav": pyreadstat.write_sav,
    "por": pyreadstat.write_por,
    "dta": partial(pyreadstat.write_dta, version=15),
    "xpt": pyreadstat.write_xport,
}


def program(ending):
    def make(records, folder):
        columns = {}
        for name, values in records.columns.items():
            text = records.types[name] == pa.string()
            columns[name] = pd.Series(values, dtype=object if text else float)
        path = folder / f"people.{ending}"
        path.unlink(missing_ok=True)
        WRITERS[ending](pd.DataFrame(columns), str(path))
        return path

    return Source(make, numbers_and_texts)


def cells(_, value):
    """Excel: texts without control characters, numbers, truth values."""
    if value is None or isinstance(value, bool):
        return "" if value is None else value  # an empty cell is what it is in CSV
    if isinstance(value, str):
        if not value.isprintable() or value.startswith("="):
            raise ValueError
        return value
    if type(value) not in (int, float) or not abs(value) < 1e300 or float(value) != value:
        raise ValueError
    if float(f"{value:.16g}") != value:  # openpyxl writes 16 digits
        raise ValueError
    return int(value) if float(value).is_integer() else value


def excel(records, folder):
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append([*records.columns, "line"])
    for i, row in enumerate(zip(*records.columns.values(), strict=True)):
        sheet.append([*(None if v == "" else v for v in row), i])
    book.save(folder / "people.xlsx")
    return folder / "people.xlsx"


# --- frames -----------------------------------------------------------------------------------------------


class Stream:
    """An Arrow stream and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def sliced(table, n):
    return pa.Table.from_batches(table.to_batches(max_chunksize=n), table.schema)


def batch(records, _):
    return pa.RecordBatch.from_arrays([c.combine_chunks() for c in records.arrow().columns], names=[*records.columns])


def dictionary(records, _):
    table = records.arrow()
    columns = {
        c: table[c] if pa.types.is_decimal(t) else table[c].dictionary_encode() for c, t in records.types.items()
    }
    return pa.table(columns)


def polars(text=None):
    """A Polars frame, its texts of another type."""

    def make(records, _):
        kinds = {}
        for c, t in records.types.items():
            if text is not None and t == pa.string():
                kinds[c] = text(sorted({v for v in records.columns[c] if v is not None}))
        return pl.from_arrow(records.arrow()).cast(kinds)

    return Source(make, typed)


def pandas(dtypes=None, holds=typed):
    """A pandas frame, its columns of other dtypes, by type; without, as Arrow hands them over."""

    def make(records, _):
        index = np.zeros(len(records), dtype=int)  # not even unique: the index is nothing that is counted
        columns = {}
        for c, column in records.columns.items():
            dtype = dtypes and dtypes(records.types[c])
            is_plain = dtype in (None, "category")
            values = pa.array(column, records.types[c]).to_pandas(integer_object_nulls=True) if is_plain else column
            columns[c] = pd.Series(values, dtype=dtype)
        return pd.DataFrame(columns).set_axis(index, axis=0)

    return Source(make, holds)


def nullable(kind):
    """The dtypes of pandas that know missing values."""
    if pa.types.is_decimal(kind) or pa.types.is_temporal(kind):
        return None
    names = {pa.string(): "string", pa.bool_(): "boolean", pa.float64(): "Float64", pa.float32(): "Float32"}
    return names.get(kind) or str(kind).replace("i", "I", 1).replace("uI", "UI")


# --- counts -----------------------------------------------------------------------------------------------


def histogram(shape=lambda counts: counts):
    """Counts of all cells of the domain; of an attribute that is not in the records, all in its first cell."""

    def make(records, _):
        domain = records.domain
        counts = np.zeros(domain.shape, dtype=np.int64)
        for i in range(len(records)):
            counts[tuple(domain[a].cell(records.values[a][i]) if a in records.values else 0 for a in domain)] += 1
        return shape(counts)

    return Source(make, inside)


def frame_of(domain, cells, values=None):
    """Records in these cells (one row of positions each; of amounts at their ends), as a pandas frame.

    values: for each attribute the values of its cells; `examples` gives those of other attributes and cells.
    """
    columns = {}
    for i, a in enumerate(domain):
        places, steps = range(domain[a].size), domain[a].steps
        if steps:
            last_knot = sum(steps)
            places = (*np.cumsum((0, *steps)).tolist(), *range(last_knot + 1, last_knot + domain[a].size - len(steps)))
        given_values = values[a] if values else []
        classifier = domain[a].coding.attribute
        classes = np.zeros(len(cells), dtype=int) if classifier is None else cells[:, list(domain).index(classifier)]
        values_by_class = {
            w: [*given_values, *(domain[a].examples(code, w) for code in places[len(given_values) :])]
            for w in set(classes.tolist())
        }
        columns[domain.column(a)] = [
            values_by_class[w][c][k % len(values_by_class[w][c])]
            for k, (c, w) in enumerate(zip(cells[:, i], classes.tolist(), strict=True))
        ]
    return pd.DataFrame(columns)
