"""The kinds of sources that can be counted."""

import csv

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from engines import ENGINES
from records import (
    TEXT,
    Source,
    Stream,
    batch,
    cells,
    csv_file,
    csv_lake,
    csv_parts,
    database,
    dictionary,
    excel,
    histogram,
    names_of_folders,
    nullable,
    objects,
    pandas,
    parquet,
    parquet_like_columns,
    parquet_parts,
    polars,
    sliced,
    texts,
    typed,
)

COUNTERS = {
    "csv": csv_file("people.csv"),
    "csv, all quoted, returns": csv_file("people.CSV", quoting=csv.QUOTE_ALL, end="\r\n"),
    "csv, semicolons": csv_file('it\'s "ü"; 100%*.csv', delimiter=";"),
    "csv.gz in folders like columns": csv_file("1/2/people.csv.gz"),
    "tsv": csv_file("people.tsv", delimiter="\t"),
    "txt": csv_file("people.v2.txt", delimiter="|", quoting=csv.QUOTE_NONNUMERIC),
    "csv pattern": Source(csv_parts, texts),
    "csv lake": Source(csv_lake, names_of_folders),
    "parquet": Source(parquet, typed),
    "parquet pattern": Source(parquet_parts, typed),
    "parquet in folders like columns": Source(parquet_like_columns, typed),
    "duckdb": database("people"),
    "duckdb, ugly table": database('select "1"; -- .x'),
    "duckdb, schema": database("people", "census of 2014"),
    "duckdb, dots": database("people.v2", "a.b"),
    "excel": Source(excel, cells),
    "arrow table": Source(lambda records, _: records.arrow(), typed),
    "arrow table by ones": Source(lambda records, _: sliced(records.arrow(), 1), typed),
    "arrow batch": Source(batch, typed),
    "arrow dictionary": Source(dictionary, typed),
    "arrow stream": Source(lambda records, _: Stream(records.arrow()), typed),
    "arrow stream by sevens": Source(lambda records, _: Stream(sliced(records.arrow(), 7)), typed),
    "polars": polars(),
    "polars categorical": polars(lambda _: pl.Categorical),
    "polars enum": polars(pl.Enum),
    "pandas": pandas(),
    "pandas nullable": pandas(nullable),
    "pandas str": pandas(lambda kind: TEXT if kind == pa.string() else None),
    "pandas arrow": pandas(pd.ArrowDtype),
    "pandas category": pandas(lambda _: "category"),
    "pandas objects": pandas(lambda _: object, objects),
    "histogram": histogram(),
    "histogram in a row": histogram(np.ravel),
    "histogram of bytes": histogram(lambda counts: counts.astype(np.uint8)),
    "histogram of other ends": histogram(lambda counts: counts.astype(">i4")),
    **ENGINES,
}
"""Every kind of source that can be counted."""
