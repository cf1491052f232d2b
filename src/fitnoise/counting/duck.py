"""Counting through DuckDB: files and frames, in one pass, out of core. Part of the trust kernel.

Each attribute becomes a small integer (its cell, or −1 when the value is missing or not declared), and all margins are
counted by one GROUPING SETS query. The code lists come from the declared domain, never from the data. Messages of the
engine are not passed on: they quote values.

How values are read, the same from every source:

* numbers in double precision; from text (CSV, Python objects) as decimal numbers, spaces around them ignored. Codes
  that are whole numbers are compared as numbers: "1", "01" and "1.0" are the code 1.
* text codes byte by byte: capitals, spaces and collations count. A whole number is also its decimal text.
* true/false from text as true, t, yes, y, 1 and false, f, no, n, 0, whatever their capitals.
* missing: null, NaN, and empty text in CSV, unless "" is a declared code. Infinite numbers are outside every domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, singledispatch
from os import PathLike
from typing import Any, TypeVar, final

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fitnoise.counting._base import Counter, Margin, Margins
from fitnoise.counting.files import from_path
from fitnoise.counting.frames import from_frame
from fitnoise.counting.sources import Records, engine, quietly
from fitnoise.domain import Attribute, Binned, Categorical, Domain, Ordered
from fitnoise.errors import DataError
from fitnoise.publication import DataSource

_INTEGERS = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT",
    "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
}  # fmt: skip
_NUMBERS = _INTEGERS | {"FLOAT", "DOUBLE", "DECIMAL"}
_TEXTS = {"VARCHAR", "ENUM", "UUID"}
_NOTHING = {"NULL"}
"""The type of a column without a single value."""

_MASK = 60
"""Columns per call of grouping(), whose answer is a 64-bit integer."""

_T = TypeVar("_T")
_Cells = Mapping[str, NDArray[Any]]


@final
class DuckCounter(Counter):
    """Counts records that DuckDB can read. Make one with `from_path` or `from_frame`.

    Nothing is held open between calls: an engine is started for each and closed, with every file, at its end.

    Args:
        records: where they come from.
        domain: the declared domain.
        source: what to do with records outside the domain.
        memory_limit: of the engine, such as "4GB"; default 80 % of the machine. Beyond it, it works on disk.
    """

    def __init__(
        self, records: Records, domain: Domain, source: DataSource, *, memory_limit: str | None = None
    ) -> None:
        self._records = records
        self._domain = domain
        self._source = source
        self._memory_limit = memory_limit

    @classmethod
    def from_path(
        cls, path: str | PathLike[str], domain: Domain, source: DataSource, *, memory_limit: str | None = None
    ) -> DuckCounter:
        """Open a CSV, Parquet or DuckDB file (or a pattern of CSV or Parquet files); DataError when that fails."""
        return cls(from_path(path, source.table), domain, source, memory_limit=memory_limit)

    @classmethod
    def from_frame(
        cls, frame: Any, domain: Domain, source: DataSource, *, memory_limit: str | None = None
    ) -> DuckCounter:
        """Read an Arrow, Polars or pandas frame where it is; DataError when that fails."""
        return cls(from_frame(frame), domain, source, memory_limit=memory_limit)

    @property
    def drops(self) -> bool:
        """As the source says."""
        return self._source.drops

    def check(self, attributes: Sequence[str]) -> None:
        """Raise DataError for a missing or ambiguous column or one of the wrong type; reads no record."""
        self._safely(partial(self._check, attributes))

    def count(self, margins: Sequence[Margin]) -> Margins:
        """All margins in one pass."""
        if not margins:
            return {}
        used = [a for a in self._domain if any(a in m for m in margins)]
        result = self._safely(partial(self._query, used, list(dict.fromkeys(margins))))
        tables: Margins = {}
        outside: dict[str, int] = {}
        for m in margins:
            here = _rows_of(result, used, m)
            records = result["records"][here]
            inside = np.ones(len(records), dtype=bool)
            flat = np.zeros(len(records), dtype=np.int64)
            for a in m:
                cell = result[_cell(used, a)][here]
                outside[a] = int(records[cell < 0].sum())
                inside &= cell >= 0
                flat = flat * self._domain[a].size + cell
            shape = [self._domain[a].size for a in m]
            table = np.zeros(math.prod(shape), dtype=np.int64)
            table[flat[inside]] = records[inside]
            tables[m] = table.reshape(shape)
        bad = {a: outside[a] for a in used if outside[a]}
        if bad:
            told = ", ".join(f"{self._domain.column(a)!r} {n} (attribute {a!r})" for a, n in bad.items())
            raise DataError(
                f"{self._records.what} has records whose values are missing or outside the declared domain, in column "
                f'{told}. Correct the data or the domain, or declare outside_domain = "drop" to leave such records out '
                "of every table. Nothing was measured and nothing was charged."
            )
        return tables

    def _position(self, attribute: str) -> int:
        """The column that holds an attribute; DataError when there is none, or several."""
        records, column = self._records, self._domain.column(attribute)
        places = records.places(column)
        if len(places) > 1:
            raise DataError(
                f"{records.what} has {len(places)} columns called {column!r} (capitals aside), which attribute "
                f"{attribute!r} needs; which one is meant cannot be told. Rename or drop the others. "
                "Nothing was counted."
            )
        if not places:
            names = f"it has {sorted(records.names)}."
            if records.header and not any(records.places(self._domain.column(a)) for a in self._domain):
                names = "its first line names no column of the domain: is that a header line?"
            raise DataError(
                f"{records.what} has no column {column!r}, which attribute {attribute!r} needs; {names} "
                "Rename the column, or declare which one holds the attribute (column = …). Nothing was counted."
            )
        return places[0]

    def _safely(self, action: Callable[[], _T]) -> _T:
        return quietly(action, f"the records of {self._records.what} cannot be counted", self._records.advice)

    def _check(self, attributes: Sequence[str]) -> None:
        with engine(self._memory_limit) as connection:
            self._relation(connection, attributes, schema=True)

    def _relation(
        self, connection: duckdb.DuckDBPyConnection, attributes: Sequence[str], *, schema: bool = False
    ) -> tuple[str, list[bool]]:
        """SQL for the columns of these attributes as k0, k1, …, and which are untyped; DataError for a wrong type."""
        positions = [self._position(a) for a in attributes]
        relation = self._records.relation(connection, positions, schema=schema)
        rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()  # noqa: S608 - quoted by Records
        untyped = [self._records.untyped(p) for p in positions]
        for a, free, row in zip(attributes, untyped, rows, strict=False):  # a relation has a column even for none
            kind = _kind(row[1])
            fitting, words = _fitting(self._domain[a])
            if not free and kind not in fitting | _NOTHING:
                raise DataError(
                    f"column {self._domain.column(a)!r} is of type {kind}; attribute {a!r} needs {words}. "
                    "Convert the column, or declare the attribute differently. Nothing was counted."
                )
        return relation, untyped

    def _query(self, used: Sequence[str], margins: Sequence[Margin]) -> _Cells:
        """The rows of one GROUPING SETS query: cells, which margin (as masks of what is summed out), and records."""
        with engine(self._memory_limit) as connection:
            relation, untyped = self._relation(connection, used)
            joins: list[str] = []
            fields: list[str] = []
            for i, a in enumerate(used):
                attribute, column = self._domain[a], f"people.k{i}"
                if not isinstance(attribute, Categorical):
                    fields.append(f"{_cell_expression(attribute, column)} AS {_cell(used, a)}")
                    continue
                codes = pd.DataFrame({"code": list(attribute.codes), "cell": np.arange(attribute.size, dtype=np.int32)})
                connection.register(f"codes{i}", codes)
                here, there = _keys(attribute, column, f"codes{i}.code", csv=self._records.header, untyped=untyped[i])
                joins.append(f"LEFT JOIN codes{i} ON {there} = {here}")
                fields.append(f"coalesce(codes{i}.cell, -1) AS {_cell(used, a)}")
            cells = [_cell(used, a) for a in used]
            masks = [f"grouping({', '.join(cells[i : i + _MASK])}) AS m{i}" for i in range(0, len(cells), _MASK)]
            sets = ", ".join("(" + ", ".join(_cell(used, a) for a in m) + ")" for m in margins)
            where = " AND ".join(f"{c} >= 0" for c in cells if self.drops) or "true"
            sql = (
                f"WITH coded AS (SELECT {', '.join(fields) or '0 AS nothing'} FROM {relation} AS people "  # noqa: S608 - no text of the domain or the data
                f"{' '.join(joins)}) SELECT {', '.join([*cells, *masks, 'count(*) AS records'])} "
                f"FROM coded WHERE {where} GROUP BY GROUPING SETS ({sets})"
            )
            result = connection.execute(sql).fetchnumpy()
        return {name: np.asarray(column).astype(np.int64) for name, column in result.items()}


def _cell(used: Sequence[str], attribute: str) -> str:
    return f"a{used.index(attribute)}"


def _rows_of(result: _Cells, used: Sequence[str], margin: Margin) -> NDArray[np.bool_]:
    """Which rows of the result belong to a margin: grouping() sets a bit, first column highest, where it sums out."""
    here = np.ones(len(result["records"]), dtype=bool)
    for start in range(0, len(used), _MASK):
        mask = 0
        for a in used[start : start + _MASK]:
            mask = 2 * mask + (a not in margin)
        here &= result[f"m{start}"] == mask
    return here


def _kind(described: str) -> str:
    """A type without its lengths, or the values of its enumeration."""
    return "LIST" if described.endswith("]") else described.split("(")[0].strip('"')


@singledispatch
def _cell_expression(attribute: Attribute, column: str) -> str:
    raise DataError(f"attributes of kind {type(attribute).__name__} cannot be counted in a table ({column}).")


@_cell_expression.register
def _(attribute: Ordered, column: str) -> str:
    x = f"try_cast({column} AS DOUBLE)"
    below, above = ("0", str(attribute.size - 1)) if attribute.clip else ("-1", "-1")
    return (
        f"CASE WHEN {x} IS NULL OR isnan({x}) OR isinf({x}) OR {x} <> floor({x}) THEN -1 "
        f"WHEN {x} < {attribute.low} THEN {below} WHEN {x} > {attribute.high} THEN {above} "
        f"ELSE CAST({x} - ({attribute.low}) AS INTEGER) END"
    )


@_cell_expression.register
def _(attribute: Binned, column: str) -> str:
    x = f"try_cast({column} AS DOUBLE)"
    bins = " ".join(f"WHEN {x} < CAST('{cut!r}' AS DOUBLE) THEN {i}" for i, cut in enumerate(attribute.cuts))
    return f"CASE WHEN {x} IS NULL OR isnan({x}) OR isinf({x}) THEN -1 {bins} ELSE {len(attribute.cuts)} END"


def _keys(attribute: Categorical, column: str, code: str, *, csv: bool, untyped: bool) -> tuple[str, str]:
    """What is compared: of the record, of the code. A record equals at most one code, or it would count twice."""
    if isinstance(attribute.codes[0], str):
        text = f"CAST({column} AS VARCHAR)"
        if csv and "" in attribute.codes:
            text = f"coalesce({text}, '')"
        return f"encode({text})", f"encode({code})"  # bytes: a collation of the data would equate several codes
    if isinstance(attribute.codes[0], bool):
        word = f"lower(trim({column}))"
        truth = f"CASE WHEN {word} IN ('true', 't', 'yes', 'y', '1') THEN true "
        truth += f"WHEN {word} IN ('false', 'f', 'no', 'n', '0') THEN false END"
        return truth if untyped else column, code
    return f"try_cast({column} AS DOUBLE)", f"CAST({code} AS DOUBLE)"


def _fitting(attribute: Attribute) -> tuple[set[str], str]:
    """DuckDB types an attribute can be read from without guessing, and what to call them."""
    if not isinstance(attribute, Categorical) or type(attribute.codes[0]) is int:
        return _NUMBERS, "numbers"
    return ({"BOOLEAN"}, "true/false") if isinstance(attribute.codes[0], bool) else (_TEXTS | _INTEGERS, "texts")
