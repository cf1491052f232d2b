"""Counting through DuckDB: files and frames, in one pass, streamed, with nothing on the disk. Part of the trust kernel.

Each attribute becomes a small integer: its cell, or −1 when the value is missing or not declared. The engine reads,
understands and codes; the cells stream out of it and are counted in `tables`, so that neither holds the records. The
code lists come from the declared domain, never from the data. Messages of the engine are not passed on: they quote
values.

What a value means is declared in `codings`; here is the translation of the three codings, and no question about kinds
of attributes. It differs in one thing: a whole number of more than 64 bits may become the other double beside it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from functools import partial
from os import PathLike
from typing import Any, TypeVar, final

import duckdb
from numpy.typing import NDArray

from fitnoise.kernel.codings import FALSE, SPACES, TRUE, Code, Codes, Coding, Range
from fitnoise.kernel.counting._base import Counter, Gauge, Margin, Margins, Progress
from fitnoise.kernel.counting.files import from_path
from fitnoise.kernel.counting.frames import from_frame
from fitnoise.kernel.counting.sources import Records, Unreadable, engine, quietly, wrong_type
from fitnoise.kernel.counting.tables import Tables
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import DataSource

_INTEGERS = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT",
    "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
}  # fmt: skip

_NUMBERS = _INTEGERS | {"FLOAT", "DOUBLE", "DECIMAL"}

_TEXTS = {"VARCHAR", "ENUM", "UUID"}

_FITTING: dict[type[Code], tuple[set[str], str]] = {
    str: (_TEXTS | _INTEGERS, "texts"),
    int: (_NUMBERS, "numbers"),
    bool: ({"BOOLEAN"}, "true/false"),
}
"""Types from which codes of a kind are read without guessing, and what to call them."""

_NOTHING = {"NULL"}
"""The type of a column without a single value."""

_SETTINGS = (
    "preserve_insertion_order = false",
    # The records stream past the codes, never the reverse; and the CSV reader must not be made to cast what is only to
    # be tried, or it stops where that fails (https://github.com/duckdb/duckdb/issues/23818).
    "disabled_optimizers = 'join_order,build_side_probe_side,type_pushdown'",
    "enable_progress_bar_print = false",
)

_LISTED = 64
"""Codes that are looked through one by one. A join takes less time for more, but 5 MB and a copy of all columns: with a
hundred joins that does not fit 500 MB."""

_HANDED = 2**24
"""Bytes of cells that the engine hands over at a time, as far as its own pieces of 2,048 records allow."""

_T = TypeVar("_T")

_Chunk = tuple[dict[str, NDArray[Any]], int, float]
"""The cell of each record by attribute, −1 where it is outside; how many; how much has been read."""


@final
class DuckCounter(Counter):
    """Counts records that DuckDB can read. Make one with `from_path` or `from_frame`.

    Nothing is held open between calls: an engine is started for each and closed, with every file, at its end.

    Args:
        records: where they come from.
        domain: the declared domain.
        source: what to do with records outside the domain.
        memory_limit: of the engine, such as "4GB"; default 80 % of the machine. Records stream through it:
            it need not hold them, and what does not fit is refused.
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

    def count(self, margins: Sequence[Margin], progress: Progress | None = None) -> Margins:
        """All margins in one pass; beside the counts and the memory allowed to the engine it takes about 300 MB.

        Records that several readers cannot read side by side are read once more, by one.
        """
        if not margins:
            return {}
        gauge = Gauge(progress)
        try:
            counts = self._counted(margins, gauge, informed=progress is not None)
        except Unreadable:
            alone = self._records.alone()
            if alone is None:
                raise
            again = DuckCounter(alone, self._domain, self._source, memory_limit=self._memory_limit)
            counts = again._counted(margins, gauge, informed=progress is not None)
        gauge.finish()
        return counts

    def _counted(self, margins: Sequence[Margin], gauge: Gauge, *, informed: bool) -> Margins:
        asked = {a for m in margins for a in m}
        sizes = {a: n for a, n in self._domain.sizes.items() if a in asked}
        tables = Tables(margins, sizes, gauge)
        with contextlib.closing(self._stream(list(sizes), informed=informed)) as stream:
            while chunk := self._safely(partial(next, stream, None)):
                tables.take(*chunk, drop=self.drops)
        if not self.drops:
            self._records.refuse(self._domain, tables.outside)
        return tables.finish()

    def _safely(self, action: Callable[[], _T]) -> _T:
        return quietly(action, f"the records of {self._records.what} cannot be counted", self._records.advice)

    def _check(self, attributes: Sequence[str]) -> None:
        with engine(self._memory_limit) as connection:
            self._relation(connection, attributes, schema=True)

    def _relation(
        self, connection: duckdb.DuckDBPyConnection, attributes: Sequence[str], *, schema: bool = False
    ) -> tuple[str, list[bool]]:
        """SQL for the columns of these attributes as k0, k1, …, and which are untyped; DataError for a wrong type."""
        positions = [self._records.place(self._domain, a) for a in attributes]
        relation = self._records.relation(connection, positions, schema=schema)
        rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()  # noqa: S608 - quoted by Records
        untyped = [self._records.untyped(p) for p in positions]
        for a, free, row in zip(attributes, untyped, rows, strict=False):  # a relation has a column even for none
            kind = _kind(row[1])
            coding = self._domain[a].coding
            fitting, words = _FITTING[coding.kind if isinstance(coding, Codes) else int]
            if not free and kind not in fitting | _NOTHING:
                raise wrong_type(self._domain, a, kind, words)
        return relation, untyped

    def _stream(self, used: Sequence[str], *, informed: bool) -> Generator[_Chunk]:
        """The cells of all records, some thousands at a time; the engine reads on meanwhile, but not far."""
        with engine(self._memory_limit) as connection:
            for setting in _SETTINGS:
                connection.execute(f"SET {setting}")
            relation, untyped = self._relation(connection, used)
            known = self._records.known(connection) if informed else None
            connection.execute(f"SET enable_progress_bar = {str(informed and known is None).lower()}")
            codings = [self._domain[a].coding for a in used]
            fields, joins = [], []
            for i, (coding, free) in enumerate(zip(codings, untyped, strict=True)):
                cell, join = _cell(coding, i, csv=self._records.header, untyped=free)
                fields.append(f"CAST({cell} AS {'SMALLINT' if coding.size <= 2**15 else 'INTEGER'}) AS a{i}")
                joins.append(join)
            codes: dict[str, Any] = {f"c{i}": _codes(c) for i, c in enumerate(codings) if isinstance(c, Codes)}
            codes |= {f"s{i}": c.shared for i, c in enumerate(codings) if isinstance(c, Codes) and c.shared is not None}
            sql = f"SELECT {', '.join(fields) or 'nothing'} FROM {relation} AS people {' '.join(joins)}"  # noqa: S608 - no text of the domain or the data
            result = connection.execute(sql, codes)
            records, pieces = 0, max(1, _HANDED // (2048 * 4 * max(1, len(used))))
            while len(frame := result.fetch_df_chunk(pieces)):
                records += len(frame)
                read = connection.query_progress() / 100 if known is None else records / max(records, known)
                yield {a: frame[f"a{i}"].to_numpy() for i, a in enumerate(used)}, len(frame), read


def _kind(described: str) -> str:
    """A type without its lengths, or the values of its enumeration."""
    return "LIST" if described.endswith("]") else described.split("(")[0].strip('"')


def _cell(coding: Coding, i: int, *, csv: bool, untyped: bool) -> tuple[str, str]:
    """SQL for the cell of column k{i}, −1 where it is outside, and for what has to be joined to tell."""
    column = f"people.k{i}"
    if isinstance(coding, Codes):
        code = _code(coding, column, csv=csv, untyped=untyped)
        if coding.shared is None and coding.size <= _LISTED:
            return f"coalesce(list_position($c{i}, {code}), 0) - 1", ""
        cells = f"range(len($c{i}))" if coding.shared is None else f"$s{i}"
        listed = f"(SELECT unnest($c{i}) AS code, unnest({cells}) AS cell) AS l{i}"
        return f"coalesce(l{i}.cell, -1)", f"LEFT JOIN {listed} ON l{i}.code = {code}"
    x = f"try_cast({column} AS DOUBLE)"
    outside = f"{x} IS NULL OR isnan({x}) OR isinf({x})"
    if isinstance(coding, Range):
        below, above = (0, coding.size - 1) if coding.clip else (-1, -1)
        return (
            f"CASE WHEN {outside} OR {x} <> floor({x}) THEN -1 "
            f"WHEN {x} < {coding.low} THEN {below} WHEN {x} > {coding.high} THEN {above} "
            f"ELSE CAST({x} - ({coding.low}) AS INTEGER) END"
        ), ""
    bins = " ".join(f"WHEN {x} < CAST('{cut!r}' AS DOUBLE) THEN {cell}" for cell, cut in enumerate(coding.cuts))
    return f"CASE WHEN {outside} THEN -1 {bins} ELSE {coding.size - 1} END", ""


def _code(coding: Codes, column: str, *, csv: bool, untyped: bool) -> str:
    """What of a record is compared with the codes: a record equals at most one code, or it would count twice."""
    if coding.kind is str:
        text = f"CAST({column} AS VARCHAR)"
        if csv and "" in coding.codes:
            text = f"coalesce({text}, '')"
        return f"encode({text})"  # bytes: a collation of the data would equate several codes
    if coding.kind is int:
        return f"try_cast({column} AS DOUBLE)"
    if not untyped:
        return column
    word = f"lower(trim({column}, '{SPACES}'))"
    true, false = (", ".join(f"'{w}'" for w in words) for words in (TRUE, FALSE))
    return f"CASE WHEN {word} IN ({true}) THEN true WHEN {word} IN ({false}) THEN false END"


def _codes(coding: Codes) -> list[bytes | float | bool]:
    """The codes as `_code` has them."""
    return [c.encode() if isinstance(c, str) else c if isinstance(c, bool) else float(c) for c in coding.codes]
