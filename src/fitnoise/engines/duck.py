"""Counting through DuckDB: files and frames, in one pass, streamed, with nothing on the disk.

**Purpose.** Each value of an attribute becomes a small integer: its cell, or the substitute of a cell (`codings`). The
engine reads the values and computes the cells. The cells stream out of the engine, and `joint_counts` counts them. So
neither holds the records, except where a bound needs the records of a person together. The code lists come from the
declared domain, never from the data. The module passes on no message of the engine, because messages quote values.

The module translates each coding of `codings`, and does not depend on the kinds of attributes. Before the engine
counts, the module tries it on known values of every type of column that the engine is about to read.
"""

# ruff: noqa: S608 - SQL holds names and numbers, and no text of the domain or the data

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial, singledispatch
from pathlib import Path
from typing import Any, TypeVar, final

import duckdb
import numpy as np

from fitnoise.engines.dialects import MAX_FINITE_FLOAT, untranslated
from fitnoise.engines.frames import from_frame
from fitnoise.engines.joint_tables import joint_tables
from fitnoise.engines.paths import FilePath
from fitnoise.engines.record_files import from_path
from fitnoise.engines.rules import RuledRows, Rules, rule_columns
from fitnoise.engines.sources import (
    DATE_COLUMN_TEXT,
    MAX_TEXTS_LOOKED_AT,
    ColumnRequest,
    Records,
    engine,
    not_counted,
    pick,
    quietly,
    standing,
    wrong_condition,
    wrong_id,
    wrong_type,
)
from fitnoise.engines.statements import kept_to, merged
from fitnoise.engines.streams import Column, iter_batches
from fitnoise.engines.windows import Window
from fitnoise.kernel.codings import (
    FALSE,
    REFUSED,
    SPACES,
    TRUE,
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
from fitnoise.kernel.counting._base import (
    DeclaredCounter,
    Dropped,
    Lost,
    Margin,
    Margins,
    Progress,
    ProgressFilter,
)
from fitnoise.kernel.counting.failures import UnreadableRecords
from fitnoise.kernel.counting.joint_counts import MarginCounts
from fitnoise.kernel.counting.persons import ID_KEY, MAX_ID_BYTES, SHARE_KEY, counted_by
from fitnoise.kernel.counting.tally import Batch, tally
from fitnoise.kernel.counting.trial import (
    ColumnKind,
    PersonTrial,
    codes_differently,
    known_days,
    known_values,
    refuse_unless_coded,
)
from fitnoise.kernel.dates import DATE_PATTERN, DateField, DatePart
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.formats import FORMATTED_TEXTS, Format, TextReader, column_reader, forms_met
from fitnoise.kernel.units import SHARES_PER_RECORD, DataSource, OutsideDomain, Pattern, RecordBound

_INTEGERS = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT",
    "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
}  # fmt: skip

_INT64_TYPES = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
"""Types of integers that a signed integer of 64 bits holds."""

_NUMBERS = _INTEGERS | {"FLOAT", "DOUBLE", "DECIMAL"}

_TEXTS = {"VARCHAR", "ENUM", "UUID"}

_READABLE_TYPES: dict[type[Code], tuple[set[str], str]] = {
    str: (_TEXTS | _INTEGERS, "texts"),
    int: (_NUMBERS, "numbers"),
    bool: ({"BOOLEAN"}, "true/false"),
}
"""Types from which codes of a kind are read without guessing, and their description."""

_STAMPS = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
"""Types of a date with a time and without a zone."""

_FORMATTED = {"VARCHAR", "ENUM"}
"""Types of texts that a declared format reads."""

_NOTHING = {"NULL"}
"""The type of a column without a single value."""

_BITS = {
    "TINYINT": (-7, 7), "SMALLINT": (-15, 15), "INTEGER": (-31, 31), "BIGINT": (-63, 63), "HUGEINT": (-127, 127),
    "UTINYINT": (0, 8), "USMALLINT": (0, 16), "UINTEGER": (0, 32), "UBIGINT": (0, 64), "UHUGEINT": (0, 128),
}  # fmt: skip
"""Exponents of the powers of two that bound the integers of a type."""

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)", re.ASCII)

_LONG = 18
"""The number of digits of a decimal number that 64 bits hold.

For longer numbers the engine rounds twice on the way to a double.
"""

_SETTINGS = (
    "preserve_insertion_order = false",
    # The records stream past the codes, never the reverse; and the CSV reader must not be made to cast what is only to
    # be tried, or it stops where that fails (https://github.com/duckdb/duckdb/issues/23818).
    # Nor is a window one that may become another aggregate. And what a file says of all its values, least, largest or
    # none missing, decides nothing: the cell of a record is read off that record.
    "disabled_optimizers = "  # noqa: ISC004 - one setting
    "'join_order,build_side_probe_side,type_pushdown,top_n_window_elimination,statistics_propagation'",
    "enable_progress_bar_print = false",
)

_SIZES = {"SMALLINT": 2**15, "INTEGER": 2**31, "BIGINT": 2**63}
"""Types of integers, with the number of cells that they hold."""

_MAX_TEXTS_REMEMBERED = 2**16
"""The largest number of different texts of a column whose reading in a declared form is remembered."""

_MAX_CODES_IN_CASE = 64
"""The largest number of codes that are looked through one by one.

A join takes less time for more, but 5 MB and a copy of all columns. With a hundred joins that does not fit 500 MB.
"""

_SINGLE = float(np.finfo(np.float32).max)
"""The largest finite number of single precision."""

_BATCH_BYTES = 2**24
"""The bytes of cells passed on at a time, as far as pieces of 2,048 records allow."""

_MAX_ARRAY_COLUMNS = 64
"""The largest number of columns that the engine hands over as a stream.

A stream takes a third of the time of frames; more columns would take too much memory.
"""

_PARTS = {DatePart.YEAR: "year", DatePart.QUARTER: "quarter", DatePart.MONTH: "month", DatePart.WEEKDAY: "isodow"}
"""Functions of a date."""

_T = TypeVar("_T")


class _ColumnContents(Enum):
    """The content of a column: text from which numbers and truth values are read, integers of 64 bits, or others."""

    UNTYPED = "untyped"
    INTEGER = "whole"
    ELSE = "else"


def _state(path: Path) -> tuple[int, ...] | None:
    """Return device, inode, length and time of change of the file at a path; `None` without a file."""
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
    return None


@final
class DuckCounter(DeclaredCounter):
    """A counter of records that DuckDB can read. Make one with `from_path` or `from_frame`.

    Nothing is held open between calls: an engine is started for each call and closed, with every file, at its end.

    Args:
        records: The source of the records.
        domain: The declared domain.
        source: The data source, with the conditions and the action for records outside the domain.
        bound: The bound on counted records of a person, with the column of the id; `None` counts all.
        memory_limit: The memory limit of the engine, such as "4GB"; default 80 % of the machine. Records stream through
            the engine, except with a bound: it then holds all of them, coded. Records that do not fit are refused.
    """

    def __init__(
        self,
        records: Records,
        domain: Domain,
        source: DataSource,
        *,
        bound: RecordBound | None = None,
        memory_limit: str | None = None,
    ) -> None:
        super().__init__(domain, source, bound)
        self._rules = rule_columns(domain, source)
        self._records = records
        self.view = records.view
        self._memory_limit = memory_limit

    @classmethod
    def from_path(
        cls,
        data: FilePath | Sequence[FilePath],
        domain: Domain,
        source: DataSource,
        *,
        bound: RecordBound | None = None,
        memory_limit: str | None = None,
    ) -> DuckCounter:
        """Open files of any format that `record_files` reads; raise DataError when that fails."""
        return cls(from_path(data, source.table, source.view), domain, source, bound=bound, memory_limit=memory_limit)

    @classmethod
    def from_frame(
        cls, frame: Any, domain: Domain, source: DataSource, *, bound: RecordBound | None = None
    ) -> DuckCounter:
        """Read an Arrow, Polars or pandas frame where it is; raise DataError when that fails."""
        return cls(from_frame(frame), domain, source, bound=bound)

    def check(self, attributes: Sequence[str]) -> None:
        """Raise DataError for a missing or ambiguous column or one of the wrong type; look at no record."""
        self._safely(partial(self._check, attributes))

    def count(self, margins: Sequence[Margin], progress: Progress | None = None) -> Margins:
        """Return all margins in one pass, in the memory of the counts, the engine's memory limit and about 300 MB.

        Records that several readers cannot read in parallel are read once more, by one. With a bound, one more pass
        counts the dropped records, where records can be dropped.
        """
        self.dropped = None
        if not margins:
            return {}
        self._refuse_unless_bounded()
        gauge = ProgressFilter(progress)
        counts, self.dropped = self._read(lambda duck: duck._counted(margins, gauge, informed=progress is not None))
        gauge.finish()
        return counts

    def left_out(self) -> int:
        """Return the number of units with records left out, in one more pass; the engine holds all cells meanwhile.

        Raises:
            DataError: There is no bound, or all records count in shares; or see :meth:`count`.
        """
        bound = self.bound
        if bound is None or bound.max_records is None:
            return super().left_out()
        self._refuse_unless_bounded()
        return self._read(lambda duck: duck._uncounted(bound))

    def _refuse_unless_bounded(self) -> None:
        """Raise DataError if the engine chooses other records of known persons than is declared."""
        if self.bound is not None:
            _, limit, pattern, merge = self.bound
            for kind in (ColumnKind.TEXT, ColumnKind.INTEGER):
                _refuse_unless_bounded(PersonTrial(kind, pattern, limit is None, bool(merge)))

    def _read(self, action: Callable[[DuckCounter], _T]) -> _T:
        """Return the result of an action on the records; repeat it with one reader where several cannot read them.

        Raise DataError if a file changed meanwhile.
        """
        with standing(self._records.what, lambda: [*map(_state, self._records.files)]):
            try:
                return action(self)
            except UnreadableRecords:
                records = self._records.for_single_reader()
                if records is None:
                    raise
            retry = DuckCounter(records, self._domain, self._source, bound=self.bound, memory_limit=self._memory_limit)
            return action(retry)

    def _counted(
        self, margins: Sequence[Margin], gauge: ProgressFilter, *, informed: bool
    ) -> tuple[Margins, Dropped | None]:
        drop = self._source.drops
        sizes = counted_by(self._domain, margins, self.bound, drop=drop)
        names = [a for a in sizes if a != ID_KEY]
        reader, lost = _DuckRows(self, informed), Lost()
        if self.bound is None:
            codings = {a: self._domain[a].coding for a in names} | {a: x.coding for a, x in self._rules.items()}
            rows = RuledRows(reader, self._rules)
            counts, outside = tally(rows, codings, margins, gauge, drop=drop, lost=lost, choose=joint_tables)
        else:
            # The engine itself chooses the records of each person (`_bounded`).
            sizes |= {SHARE_KEY: SHARES_PER_RECORD + 1} if self.bound.max_records is None else {}
            sizes |= dict.fromkeys(self._rules, 1)
            tables = MarginCounts(margins, sizes, gauge, self._domain.steps, choose=joint_tables)
            with contextlib.closing(reader.batches(names)) as batches:
                for batch in batches:
                    tables.take(batch.cells, batch.records, batch.read, drop=drop)
            counts, outside = tables.finish(), tables.outside
        self._records.refuse(self._domain, outside, self.bound, self._forms_met)
        counts = {m: counts[m] for m in margins}
        if not self._domain.drops_values(self._source, self.bound):
            return counts, None
        lost = lost if self.bound is None else self._lost(names, self.bound)
        return counts, lost.report(self._domain)

    def _forms_met(self, attribute: str) -> list[Format]:
        """Return the usual formats that would read texts of an attribute without a cell."""
        position, column = self._records.position(self._domain, attribute), self._domain.column(attribute)
        with engine(self._memory_limit) as connection:
            dates = [0] if self._domain[attribute].date_part is not None else []
            relation = self._records.relation(connection, ColumnRequest([position], dates=dates))
            distinct = f"SELECT DISTINCT CAST(k0 AS VARCHAR) FROM {relation} LIMIT {MAX_TEXTS_LOOKED_AT}"
            texts = [x for (x,) in self._safely(lambda: connection.execute(distinct).fetchall()) if x is not None]
        return forms_met(self._domain[attribute], column_reader(self._domain, self._source, column), texts)

    def _lost(self, names: Sequence[str], bound: RecordBound) -> Lost:
        """Return the numbers of dropped records, in one more pass: with a bound the engine does not hand them over."""
        drop = self._source.drops
        out = {a: self._domain[a].coding.dropped(drop=drop) for a in names}
        out |= {name: rule.coding.dropped(drop=drop) for name, rule in self._rules.items()}

        def query(sql: str, columns: Mapping[str, str]) -> str:
            tests = [f"{columns[a]} IN ({', '.join(map(str, sorted(x)))})" for a, x in out.items() if x]
            tests += [f"NOT coalesce({_IS_ID}, false)"] if drop else []
            sums = ", ".join(f"count(*) FILTER (WHERE {x})" for x in [" OR ".join(tests), *tests])
            return f"SELECT count(*), {sums} FROM ({sql}) coded"

        records, lost, *lost_by = self._row(names, query)
        result = Lost()
        result.add(records, lost, dict(zip([*(a for a, x in out.items() if x), ID_KEY], lost_by, strict=False)))
        return result

    def _uncounted(self, bound: RecordBound) -> int:
        used = [a for a in counted_by(self._domain, [], bound, drop=self._source.drops) if a != ID_KEY]
        return self._row(used, lambda sql, columns: _left_out_sql(sql, columns, self._domain, bound))[0]

    def _row(self, used: Sequence[str], statement: Callable[[str, Mapping[str, str]], str]) -> list[int]:
        """Return the numbers in the single row of a statement about the cells of all records (`_cells`)."""
        with engine(self._memory_limit) as connection:
            for setting in _SETTINGS:
                connection.execute(f"SET {setting}")
            sql, columns, codes = self._cells(used, *self._relation(connection, used))
            sql, columns = _with_rules(sql, columns, self._rules)
            rows = self._safely(lambda: connection.execute(statement(sql, columns), codes).fetchall())
        return [int(x) for x in rows[0]]

    def _safely(self, action: Callable[[], _T]) -> _T:
        return quietly(action, not_counted(self._records.what, self._records.advice))

    def _check(self, attributes: Sequence[str]) -> None:
        with engine(self._memory_limit) as connection:
            used = counted_by(self._domain, [tuple(attributes)], self.bound, drop=self._source.drops)
            self._relation(connection, list(used), schema=True)

    def _relation(
        self, connection: duckdb.DuckDBPyConnection, attributes: Sequence[str], *, schema: bool = False
    ) -> tuple[str, list[_ColumnContents]]:
        """Return SQL for the columns of these attributes, of the conditions and of the id, as k0, k1, ….

        Also return the contents of each of these columns. Raise DataError for a column that is missing, ambiguous or of
        the wrong type, and for an engine that fails its trial.

        schema: True if only the types of columns matter; the engine is not tried then.
        """
        attributes = [a for a in attributes if a != ID_KEY]
        positions = [self._records.position(self._domain, a) for a in attributes]
        positions += [self._records.place_of_condition(self._domain, c) for c in self.where]
        if self.bound is not None:
            positions.append(self._records.place_of_id(self._domain, self.bound.id))
        codings = self._codings(attributes)
        dates = [*(self._domain[a].date_part for a in attributes), *(c.read for c in self.where)]
        derived = {i: read for i, read in enumerate(dates) if read is not None}
        person = None if self.bound is None else len(codings)
        columns = [*map(self._domain.column, attributes), *(c.column for c in self.where)]
        readers = dict(enumerate(column_reader(self._domain, self._source, column) for column in columns))
        formats = {i: reader for i, reader in readers.items() if reader is not None}
        objects = {i: reader for i, reader in formats.items() if self._records.holds_objects(positions[i])}
        relation = self._records.relation(connection, ColumnRequest(positions, schema, person, derived, objects))
        rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
        untyped, kinds = [self._records.untyped(p) for p in positions], [_kind(row[1]) for row in rows]
        texts = {i: reader for i, reader in formats.items() if i not in objects and kinds[i] in _FORMATTED}
        if texts:
            relation = _in_format(connection, relation, len(rows), texts)
            rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
            kinds = [_kind(row[1]) for row in rows]
        for i, (coding, kind) in enumerate(zip(codings, kinds, strict=False)):  # a relation has a column even for none
            if i in derived:
                untyped[i] = False
                timed = derived[i].part is DatePart.HOUR
                fitting, types = _STAMPS | {"VARCHAR"} | (set() if timed else {"DATE"}), DATE_COLUMN_TEXT[timed]
            else:
                fitting, types = _READABLE_TYPES[coding.kind]
            # Numbers are read from texts, and so is truth where a text code such as "NA" is among its values.
            untyped[i] |= i not in derived and kind == "VARCHAR" and (coding.kind is int or bool(coding.texts))
            if not untyped[i] and kind not in fitting | _NOTHING:
                if i < len(attributes):
                    raise wrong_type(self._domain, attributes[i], kind, types)
                raise wrong_condition(self.where[i - len(attributes)], kind, types)
        if self.bound is not None and (kind := kinds[-1]) not in _INTEGERS | _TEXTS | _NOTHING:
            raise wrong_id(self.bound, kind)
        has_integers = [k in _INT64_TYPES and i not in derived for i, k in enumerate(kinds)]
        held = [
            _ColumnContents.UNTYPED if free else _ColumnContents.INTEGER if w else _ColumnContents.ELSE
            for free, w in zip(untyped, has_integers, strict=False)
        ]
        described = [row[1] for row in rows]
        targets = [coding.kind for coding in codings]
        reads = [
            _read(f"people.k{i}", described[i], targets[i] if i < len(targets) else None, derived.get(i))
            for i in range(len(rows))
        ]
        # Each type is tried before the first record is read. A look at the schema alone needs no trial.
        for i, kind in enumerate(kinds[: 0 if schema else len(codings)]):
            if kind not in _NOTHING:
                type_name = "VARCHAR" if kind in _TEXTS else described[i]
                _refuse_unless_right(connection, (type_name, held[i], self._records.header, targets[i], derived.get(i)))
        if any(read != f"people.k{i}" for i, read in enumerate(reads)):
            relation = f"(SELECT {', '.join(f'{x} AS k{i}' for i, x in enumerate(reads))} FROM {relation} AS people)"
        return relation, held

    def _codings(self, attributes: Sequence[str]) -> list[Coding]:
        """Return the codings of these attributes, and of the conditions; uncut for amounts to be added up."""
        added = () if self.bound is None else self.bound.merge
        pairs = ((a, self._domain[a].coding) for a in attributes)
        return [*(coding.uncut() if a in added else coding for a, coding in pairs), *(c.coding for c in self.where)]

    def _stream(self, used: Sequence[str], *, informed: bool) -> Generator[Batch]:
        """Yield the cells of all records, some thousands at a time; the engine reads a little ahead meanwhile."""
        with engine(self._memory_limit) as connection:
            for setting in _SETTINGS:
                connection.execute(f"SET {setting}")
            relation, held = self._relation(connection, used)
            size = self._records.known_size(connection) if informed else None
            connection.execute(f"SET enable_progress_bar = {str(informed and size is None).lower()}")
            few = len(used) <= _MAX_ARRAY_COLUMNS
            # With a bound the engine itself needs the cells, to put the records of a person in order.
            windows = self._windows(used, held) if few and self.bound is None else {}
            sql, names, codes = self._cells(used, relation, held, windows)
            if self.bound is not None:
                refused = any(REFUSED in self._domain[a].coding.without_cell for a in used)
                refused |= any(rule.action == REFUSED for rule in self._rules.values())
                outside = refused or not self._source.drops
                sql, names = _with_rules(sql, names, self._rules)
                sql = _bounded(sql, names, self._domain, self.bound, outside=outside)
                names |= {ID_KEY: "person"} | ({SHARE_KEY: "share"} if self.bound.max_records is None else {})
            # 2,048 records are the engine's unit, and a cell has four bytes in most columns.
            pieces = max(1, _BATCH_BYTES // (2048 * 4 * max(1, len(used))))
            rest: Generator[tuple[list[Column], int]]
            if few:
                rest = iter_batches(connection.sql(sql, params=codes or None), 2048 * pieces)
            else:
                rest = _framed(connection.execute(sql, codes), pieces)
            with contextlib.closing(rest):
                records = 0
                for columns, count in rest:
                    records += count
                    read = connection.query_progress() / 100 if size is None else records / max(records, size)
                    parts = dict(zip(names, columns, strict=False))
                    cells = {a: windows[a].cells_of(*c) if a in windows else c[0] for a, c in parts.items()}
                    yield Batch(cells, count, read=read)

    def _windows(self, used: Sequence[str], held: Sequence[_ColumnContents]) -> dict[str, Window]:
        """Return the windows of the attributes whose numbers, not cells, the engine hands over, by attribute."""
        windows = {
            a: Window.from_coding(self._domain[a].coding)
            for a, contents in zip(used, held, strict=False)
            if contents is _ColumnContents.INTEGER
        }
        return {a: window for a, window in windows.items() if window is not None}

    def _cells(
        self, used: Sequence[str], relation: str, held: Sequence[_ColumnContents], windows: Collection[str] = ()
    ) -> tuple[str, dict[str, str], dict[str, Any]]:
        """Return SQL for cells and the id; the columns of cells, by attribute; named parameters.

        The SQL returns all records that meet the conditions.

        relation, held: See `_relation`.
        windows: Attributes whose numbers, not cells, are returned.
        """
        codings = self._codings(used)
        fields, conditions = [], []
        joins: dict[str, None] = {}
        codes: dict[str, Any] = {}

        def cell_of(i: int, coding: Coding) -> str:
            group = coding.attribute
            if group is not None:
                ranges = [(cell_of(i, part), cells) for part, cells in coding.ranges]
                j = used.index(group)  # only looked at where there are several, as all that is called by name is used
                return _cell_by(cell_of(j, codings[j]), ranges) if len(ranges) > 1 else ranges[0][0]
            # A join that several cells need is named once.
            cell, join = _cell(coding, i, csv=self._records.header, held=held[i])
            joins.setdefault(join)
            codes.update(_lists(coding, i, untyped=held[i] is _ColumnContents.UNTYPED))
            return cell

        for i, coding in enumerate(codings):
            if i < len(used) and used[i] in windows:
                fields.append(f"people.k{i} AS a{i}")
            elif i < len(used):
                kind = next(kind for kind, size in _SIZES.items() if coding.size <= size)
                fields.append(f"CAST({cell_of(i, coding)} AS {kind}) AS a{i}")
            else:
                conditions.append(f"{cell_of(i, coding)} >= 0")
        person = [] if self.bound is None else [f"encode(CAST(people.k{len(codings)} AS VARCHAR)) AS p"]
        columns = ", ".join(fields + person) or "0 AS nothing"
        sql = f"SELECT {columns} FROM {relation} AS people {' '.join(joins)}"
        sql += f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return sql, {a: f"a{i}" for i, a in enumerate(used)}, codes


@final
@dataclass(frozen=True, eq=False)
class _DuckRows:
    """The records that DuckDB reads and codes: a reader (`Rows`).

    With a bound, it hands over the counted records alone, and those outside if they are to be reported.

    counter: The counter of the records.
    informed: True if the progress is reported.
    """

    counter: DuckCounter
    informed: bool

    def batches(self, attributes: Sequence[str]) -> Generator[Batch]:
        """Yield the records that meet the conditions, some thousands at a time."""
        with contextlib.closing(self.counter._stream(attributes, informed=self.informed)) as stream:
            while batch := self.counter._safely(partial(next, stream, None)):
                yield batch


def _framed(result: duckdb.DuckDBPyConnection, pieces: int) -> Generator[tuple[list[Column], int]]:
    """Yield columns and a number of records as `iter_batches` does, for columns without missing values.

    pieces: The number of pieces, of 2,048 records each, at a time.
    """
    while len(frame := result.fetch_df_chunk(pieces)):
        yield [(frame[name].to_numpy(), None) for name in frame.columns], len(frame)


def _bounded(records: str, columns: Mapping[str, str], domain: Domain, bound: RecordBound, *, outside: bool) -> str:
    """Return SQL for the first records of each person (`persons`), or for all with their shares.

    If `outside` is set, the SQL also returns all records outside.

    Args:
        records: A statement for the cells of all records, below 0 outside, and the bytes of the id, p.
        columns: The columns of cells to return, by attribute.
        domain: The domain by whose attributes records of a person are put in order.
        bound: The number of counted records of each person, and their pattern.
        outside: True to return records outside too.
    """
    person = f"CAST(CASE WHEN {_IS_ID} THEN 0 ELSE -1 END AS SMALLINT) AS person"
    if bound.max_records is None:
        # The division rounds down, so the records of a person add up to at most one record.
        weight = f"CAST({SHARES_PER_RECORD} // count(*) OVER (PARTITION BY inside, p) AS INTEGER) AS share"
        taken = "" if outside else " WHERE inside"
        selected = ", ".join(columns.values())
        return f"SELECT {selected}, {person}, {weight} FROM ({_inside(records, columns)}) records{taken}"
    taken = f"turn <= {bound.max_records} OR NOT inside" if outside else f"inside AND turn <= {bound.max_records}"
    lined, names = _lined(records, columns, domain, bound)
    return f"SELECT {', '.join(names.values())}, {person} FROM ({lined}) lined WHERE {taken}"


def _left_out_sql(records: str, columns: Mapping[str, str], domain: Domain, bound: RecordBound) -> str:
    """Return SQL for the number of persons of whom fewer records are counted than are inside."""
    lined, _ = _lined(records, columns, domain, bound, further=", count(*) OVER (PARTITION BY inside, p) AS per_person")
    taken = f"SELECT p FROM ({lined}) lined WHERE inside AND turn <= {bound.max_records}"
    return f"SELECT count(*) FROM ({taken} GROUP BY p HAVING count(*) < max(per_person)) persons"


def _with_rules(records: str, columns: Mapping[str, str], rules: Rules) -> tuple[str, dict[str, str]]:
    """Return SQL with a column for each rule about impossible cells, as if it were an attribute; and all columns."""
    int64 = "CAST({x} AS BIGINT)"
    cells = {a: f"greatest({int64.format(x=column)}, -1) + 1" for a, column in columns.items()}
    flags = [
        f"CAST({rule.action} * {rule.sql(cells, int64)} AS SMALLINT) AS r{i}" for i, rule in enumerate(rules.values())
    ]
    names = {**columns, **{name: f"r{i}" for i, name in enumerate(rules)}}
    return f"SELECT {', '.join(['*', *flags])} FROM ({records}) ruled" if rules else records, names


_IS_ID = f"octet_length(p) BETWEEN 1 AND {MAX_ID_BYTES}"
"""SQL that is true if p is an id."""


def _lined(
    records: str, columns: Mapping[str, str], domain: Domain, bound: RecordBound, further: str = ""
) -> tuple[str, Mapping[str, str]]:
    """Return SQL for the records inside that keep to the pattern and for all outside; and the columns of cells.

    The SQL has the further columns p, `inside`, and `turn`: the place of a record among those of its person.

    further: SQL for a further column over all records of a person, called per_person; empty without one.
    """
    coded, codings = _inside(records, columns), {a: domain[a].coding for a in bound.merge}
    if codings:
        integer, held = "CAST({x} AS INTEGER)", "p, inside"
        coded, columns = merged(
            coded, codings, columns, "inside, p", "inside", held, added="sum({x})", integer=integer, start=0
        )
        coded += " OR NOT inside"
    # The text of the digest counts cells from 1 (`persons`), and the engine from 0.
    line = ", ".join(f"CAST({columns[a]} AS BIGINT) + 1, '/'" for a in domain)
    order = ", ".join([f"md5(encode(concat({line})) || p)", *(columns[a] for a in domain)])
    coded = f"SELECT *{further} FROM ({coded}) every"
    held = ", ".join([*columns.values(), "p", "inside", *(["per_person"] if further else [])])
    for ranks, rule in kept_to(bound.pattern, columns, "inside, p", order):
        coded = f"SELECT {held} FROM (SELECT {held}, {ranks} FROM ({coded}) ranked) firsts WHERE {rule} OR NOT inside"
    return f"SELECT *, row_number() OVER (PARTITION BY inside, p ORDER BY {order}) AS turn FROM ({coded}) line", columns


def _inside(records: str, columns: Mapping[str, str]) -> str:
    """Return SQL for all records, with a column that is true for records inside."""
    inside = " AND ".join([*(f"{c} >= 0" for c in columns.values()), f"coalesce({_IS_ID}, false)"])
    return f"SELECT *, {inside} AS inside FROM ({records}) coded"


def _read(column: str, described: str, kind: type[Code] | None, read: DateField | None) -> str:
    """Return SQL for the values read from a column of a type: parts of dates, long numbers as doubles, or the column.

    described: The engine's name of the type.
    kind: The type as which the column is read; `None` for ids.
    read: The part that is read off dates; `None` where the values themselves are read.
    """
    if read is not None:
        return _derived(read, column, _kind(described))
    decimal = _DECIMAL.fullmatch(described)
    long = int(decimal[1]) > _LONG if decimal else described in {"HUGEINT", "UHUGEINT"}
    # by way of a text, which is rounded once: the engine's own cast of such numbers rounds twice
    return f"try_cast(CAST({column} AS VARCHAR) AS DOUBLE)" if long and kind is int else column


def _in_format(
    connection: duckdb.DuckDBPyConnection, relation: str, width: int, readers: Mapping[int, TextReader]
) -> str:
    """Return SQL for a relation of columns k0, k1, … whose texts are read in their declared forms.

    Raise DataError if the engine does not hand over known texts as they are. It calls the readers, so they need no
    translation.

    width: The number of columns.
    readers: The functions that read texts, by column.
    """
    columns = [f"people.k{i}" for i in range(width)]
    for i, reader in readers.items():
        name = f"fitnoise_format_{i}"
        read = lru_cache(_MAX_TEXTS_REMEMBERED)(reader)
        connection.create_function(name, read, ["VARCHAR"], "VARCHAR")
        tried_texts = [*known_values(ColumnKind.TEXT), *known_values(ColumnKind.NUMERAL), *FORMATTED_TEXTS]
        texts = f"SELECT unnest($known) AS v, unnest(range({len(tried_texts)})) AS n"
        tried = connection.execute(f"SELECT {name}(v) FROM ({texts}) texts ORDER BY n", {"known": tried_texts})
        if [x for (x,) in tried.fetchall()] != [*map(reader, tried_texts)]:
            raise codes_differently("DuckDB")
        columns[i] = f"{name}(CAST({columns[i]} AS VARCHAR))"
    return f"(SELECT {', '.join(f'{x} AS k{i}' for i, x in enumerate(columns))} FROM {relation} AS people)"


_BOUNDED: set[tuple[ColumnKind, Pattern, bool, bool]] = set()
"""The trials of persons that this process made and found right: the kind of ids, the rules, shares, merged amounts."""


def _refuse_unless_bounded(person_trial: PersonTrial) -> None:
    """Raise DataError if the engine chooses other records of known persons than is declared."""
    key = person_trial.kind, person_trial.tried, person_trial.shares, person_trial.merge
    if key in _BOUNDED:
        return
    bound = RecordBound("id", person_trial.limit, person_trial.tried, ("z",) if person_trial.merge else ())
    source = DataSource(outside_domain=OutsideDomain.DROP)
    counter = DuckCounter(_KnownPersons(person_trial), person_trial.domain, source, bound=bound)
    counts, dropped = counter._counted(person_trial.margins(drop=True), ProgressFilter(None), informed=False)
    number = None if person_trial.shares else counter._uncounted(bound)
    action = "Install the version that fitnoise requires."
    person_trial.refuse_unless_right(counts, dropped or {}, number, what="DuckDB", action=action)
    _BOUNDED.add(key)


@final
@dataclass(frozen=True, eq=False)
class _KnownPersons(Records):
    """The records of a trial of persons."""

    person_trial: PersonTrial
    what: str = "the trial"
    names: tuple[str, ...] = ("id", "x", "y", "z")
    advice: str = ""
    header: bool = False

    def relation(self, connection: duckdb.DuckDBPyConnection, request: ColumnRequest) -> str:
        """Return SQL for literals."""
        kinds = (ColumnKind.INTEGER, ColumnKind.TEXT, ColumnKind.DOUBLE)
        ids = ", ".join(f"({_literal(self.person_trial.kind, x)}, {n})" for x, n in self.person_trial.persons)
        rows = [", ".join(map(_literal, kinds, record)) for record in self.person_trial.records]
        records = ", ".join(f"({row}, {i})" for i, row in enumerate(rows))
        crossed = f"(VALUES {ids}) AS ids(id, many), (VALUES {records}) AS records(x, y, z, nth)"
        return pick(f"(SELECT id, x, y, z FROM {crossed} WHERE nth < many)", len(self.names), request.positions)

    def untyped(self, position: int) -> bool:
        """Return False: the columns have types."""
        return False

    def known_size(self, connection: duckdb.DuckDBPyConnection) -> int | None:
        """Return the number of records."""
        return sum(n for _, n in self.person_trial.persons)


def _literal(kind: ColumnKind, x: Any) -> str:
    """Return a value of a kind of column as SQL."""
    if isinstance(x, str):
        return f"decode(from_hex('{x.encode().hex()}'))"
    name = {ColumnKind.INTEGER: "BIGINT", ColumnKind.DOUBLE: "DOUBLE"}.get(kind, "VARCHAR")
    return f"CAST({'NULL' if x is None else repr(x)} AS {name})"


_Tried = tuple[str, _ColumnContents, bool, type[Code], DateField | None]
"""A tried column: the engine's name of its type, its contents, True for CSV, the type of its codes, its date part."""

_RIGHT: set[_Tried] = set()
"""The types that this process tried and found right: the engine is a part of the process, and does not change."""


def _refuse_unless_right(connection: duckdb.DuckDBPyConnection, tried: _Tried) -> None:
    """Raise DataError if the engine codes known values, in a column of the tried kind, otherwise than declared."""
    if tried in _RIGHT:
        return
    described, held, csv, kind, read = tried
    trials = _values_of_type(described, held) if read is None else _dates_of_type(described, read)
    read_sql = _read("people.k0", described, kind, read)
    texts = f"SELECT unnest($known) AS v, unnest(range({len(trials)})) AS n"
    column = f"SELECT {read_sql} AS k0, n FROM (SELECT CAST(v AS {described}) AS k0, n FROM ({texts}) texts) people"

    def cells(coding: Coding) -> list[int]:
        cell, join = _cell(coding, 0, csv=csv, held=held)
        lists = _lists(coding, 0, untyped=held is _ColumnContents.UNTYPED) | {"known": [text for text, _ in trials]}
        rows = connection.execute(f"SELECT {cell} FROM ({column}) AS people {join} ORDER BY n", lists).fetchall()
        return [int(x) for (x,) in rows]

    # A CSV file has no null: the engine returns an empty field as NULL.
    values = [("" if csv and x is None else x) if read is None else read.number(x) for _, x in trials]
    refuse_unless_coded(cells, "DuckDB", kind, values, read)
    _RIGHT.add(tried)


def _values_of_type(described: str, held: _ColumnContents) -> list[tuple[str | None, Any]]:
    """Return known values of a type, as texts that are cast to it, each with its value."""
    kind, decimal = _kind(described), _DECIMAL.fullmatch(described)
    values: list[Any]
    if kind in _BITS:
        low, high = (math.copysign(1, n) * 2 ** abs(n) if n else 0 for n in _BITS[kind])
        values = [n for n in (*known_values(ColumnKind.INTEGER), int(low), int(high) - 1) if low <= n < high]
    elif decimal is not None:
        digits, places = int(decimal[1]), int(decimal[2])
        ends = [Decimal(f"{n}E-{places}") for n in (10**digits - 1, 1 - 10**digits, 1, -1)]
        # A value with more decimal places than the type would be rounded by the cast, before the trial begins.
        exact = [x for x in known_values(ColumnKind.DECIMAL) if 10**places % x.as_integer_ratio()[1] == 0]
        values = [*(x for x in exact if abs(x) < 10 ** (digits - places)), *ends]
    elif kind in {"FLOAT", "DOUBLE"}:
        values = [*known_values(ColumnKind.DOUBLE), math.nan, math.inf, -math.inf]
        values = values if kind == "DOUBLE" else [float(np.float32(x)) for x in values if abs(x) <= _SINGLE or x - x]
    elif kind == "BOOLEAN":
        values = [True, False]
    else:
        values = [
            *known_values(ColumnKind.TEXT),
            *(known_values(ColumnKind.NUMERAL) if held is _ColumnContents.UNTYPED else ()),
        ]
    return [(None if x is None else _text(x), x) for x in (*values, None)]


def _text(x: Any) -> str:
    """Return a value as a text that is cast to its type."""
    return x if isinstance(x, str) else f"{x:f}" if isinstance(x, Decimal) else str(x).lower()


def _dates_of_type(described: str, read: DateField) -> list[tuple[str | None, str | None]]:
    """Return known dates of a type as texts, each with its value, which is the same text; and an absent one (`None`).

    A type with a time has each date at the first and the last moment of the day that the type holds, and after noon.
    """
    kind = _kind(described)
    ends = {"DATE": None, "TIMESTAMP_S": "", "TIMESTAMP_MS": ".999", "TIMESTAMP": ".999999"}
    last = ends.get(kind, ".999999999")
    # 64 bits of nanoseconds reach from 1677 to 2262.
    days = known_days(read, "1678-01-01", "2262-01-01") if kind == "TIMESTAMP_NS" else known_days(read)
    times = [""] if last is None else [" 00:00:00", f" 23:59:59{last}", " 12:59:59"]
    return [(None, None), *((day + time,) * 2 for day in days for time in times)]


def _derived(read: DateField, column: str, kind: str) -> str:
    """Return SQL for the part read off a column: NULL for absent values, infinite where there is no such number.

    For a time, the day is that in which it lies.
    """
    if kind in _NOTHING | {"VARCHAR"}:
        text = f"trim(CAST({column} AS VARCHAR), '{SPACES}')"
        day = f"CASE WHEN regexp_full_match({text}, '{DATE_PATTERN}') THEN try_cast({text}[:10] AS DATE) END"
        absent, hour = f"{column} IS NULL OR {text} = ''", f"try_cast({text}[12:13] AS DOUBLE)"
    else:
        stamp = column if kind == "DATE" else f"try_cast({column} AS TIMESTAMP)"
        if kind == "TIMESTAMP_NS":
            # The engine's own cast rounds to microseconds: the last nanosecond of a day would fall into the next day.
            below = f"CASE WHEN epoch_ns({column}) % 1000 < 0 THEN 1 ELSE 0 END"  # a division goes towards zero
            stamp = f"make_timestamp(epoch_ns({column}) // 1000 - {below})"
        day, absent, hour = f"try_cast({stamp} AS DATE)", f"{column} IS NULL", f"hour({stamp})"
    is_dated = f"({day}) BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
    if read.part is DatePart.HOUR:
        value = hour
    elif read.part is DatePart.DAY:
        value = f"year({day}) * 10000 + month({day}) * 100 + day({day})"
    elif read.on is None:
        value = f"{_PARTS[read.part]}({day})"
    else:
        on, month_day = read.on, f"month({day}) * 100 + day({day})"
        born = f"DATE '{on.isoformat()}'"
        turned = f"{on.year} - year({day}) - CASE WHEN {on.month * 100 + on.day} < {month_day} THEN 1 ELSE 0 END"
        value = f"CASE WHEN ({day}) <= {born} THEN {turned} END"
    number = f"coalesce(CAST({value} AS DOUBLE), CAST('inf' AS DOUBLE))"
    return f"CASE WHEN {absent} THEN NULL WHEN {is_dated} THEN {number} ELSE CAST('inf' AS DOUBLE) END"


def _kind(described: str) -> str:
    """Return the name of a type, without lengths and without the values of an enumeration; "LIST" for any list."""
    return "LIST" if described.endswith("]") else described.split("(")[0].strip('"')


@singledispatch
def _cell(coding: Coding, i: int, *, csv: bool, held: _ColumnContents) -> tuple[str, str]:
    """Return SQL for the cell of column k{i}, below 0 without a cell, and for its join; "" if it needs no join."""
    raise untranslated(coding)


@_cell.register
def _(coding: CodingWithMissing, i: int, *, csv: bool, held: _ColumnContents) -> tuple[str, str]:
    column, kind = f"people.k{i}", coding.kind
    text, x = f"CAST({column} AS VARCHAR)", _number(column, held)
    value, join = _cell(coding.base, i, csv=csv, held=held)
    untyped = held is _ColumnContents.UNTYPED
    lookups = []
    if coding.texts and (untyped or kind is str):
        read = f"coalesce({text}, '')" if csv and "" in coding.texts else text
        # Codes are looked up before the values: a range would clip them.
        lookups.append((f"list_position($t{i}, encode({read}))", f"$u{i}"))
    if coding.numbers:
        lookups.append((f"list_position($n{i}, {x})", f"$m{i}"))
    coded = " ".join(f"WHEN {index} > 0 THEN {cells}[{index}]" for index, cells in lookups)
    if kind is str:
        absent = f"{column} IS NULL OR {text} = ''"
    elif untyped:
        absent = f"{column} IS NULL OR trim({text}, '{SPACES}') = ''"
    else:
        absent = f"{column} IS NULL" if kind is bool else f"{column} IS NULL OR isnan({x})"
    rest = f"WHEN {absent} THEN {coding.absent} ELSE {coding.outside}"
    return f"CASE {coded} WHEN ({value}) >= 0 THEN {value} {rest} END", join


def _cell_by(column: str, ranges: Sequence[tuple[str, Sequence[int]]]) -> str:
    """Return SQL for the cell of an amount whose range depends on the cell in `column`.

    A record without a cell in `column` is read in the first range.

    ranges: For each range, SQL for the amount's cell, and the cells in `column` that have this range.
    """
    (default, _), *others = ranges
    when = " ".join(f"WHEN ({column}) IN ({', '.join(map(str, cells))}) THEN {cell}" for cell, cells in others)
    return f"CASE {when} ELSE {default} END"


@_cell.register
def _(coding: Codes, i: int, *, csv: bool, held: _ColumnContents) -> tuple[str, str]:
    code = _code(coding, f"people.k{i}", csv=csv, held=held)
    if coding.shared is None and coding.size <= _MAX_CODES_IN_CASE:
        return f"coalesce(list_position($c{i}, {code}), 0) - 1", ""
    cells = f"range(len($c{i}))" if coding.shared is None else f"$s{i}"
    # Codes differ from each other, so the join finds at most one for a record, and no record counts twice.
    listed = f"(SELECT unnest($c{i}) AS code, unnest({cells}) AS cell) AS l{i}"
    return f"coalesce(l{i}.cell, -1)", f"LEFT JOIN {listed} ON l{i}.code = {code}"


@_cell.register
def _(coding: Interval, i: int, *, csv: bool, held: _ColumnContents) -> tuple[str, str]:
    x = _number(f"people.k{i}", held)
    ends = [f"{x} {sign} CAST('{e!r}' AS DOUBLE)" for sign, e in (("<", coding.low), (">=", coding.high))]
    return f"CASE WHEN {_no_number(x)} OR {' OR '.join(ends)} THEN -1 ELSE 0 END", ""


@_cell.register
def _(coding: Range, i: int, *, csv: bool, held: _ColumnContents) -> tuple[str, str]:
    return _range(coding, f"people.k{i}", held), ""


@_cell.register
def _(coding: Steps, i: int, *, csv: bool, held: _ColumnContents) -> tuple[str, str]:
    x = _number(f"people.k{i}", held)
    low, high, unit, start, stride = (_double(v) for v in coding.arithmetic)
    outside = _no_number(x)
    if coding.valid is not None:
        outside += f" OR {x} < {_double(coding.valid[0])} OR {x} > {_double(coding.valid[1])}"
    # The operations of `Steps.cell`, in its order: doubles round equally everywhere only in equal steps.
    nearest = f"floor((least(greatest({x}, {low}), {high}) * {unit} - {start}) / {stride})"
    nearest = f"{nearest} + {_double(coding.cell_offset)}" if coding.is_uncut else nearest
    kind = "BIGINT" if coding.is_uncut else "INTEGER"
    j = f"CAST(least(greatest({nearest}, {_double(0)}), {_double(coding.max_step)}) AS {kind})"
    return f"CASE WHEN {outside} THEN -1 ELSE {j} END", ""


@_cell.register
def _(coding: Cuts, i: int, *, csv: bool, held: _ColumnContents) -> tuple[str, str]:
    x = _number(f"people.k{i}", held)
    bins = " ".join(f"WHEN {x} < {_double(cut)} THEN {cell}" for cell, cut in enumerate(coding.cuts))
    last = f"WHEN {x} <= {_double(MAX_FINITE_FLOAT)} THEN {coding.size - 1}"  # NaN is above all, NULL nowhere
    return f"CASE WHEN {x} < {_double(-MAX_FINITE_FLOAT)} THEN -1 {bins} {last} ELSE -1 END", ""


def _no_number(x: str) -> str:
    """Return SQL that is true for NULL, NaN and infinities."""
    return f"{x} IS NULL OR isnan({x}) OR isinf({x})"


def _number(column: str, held: _ColumnContents) -> str:
    """Return SQL for a column as a double, NULL if it holds no number.

    NaN and infinities remain, and callers refuse them.

    The engine itself would also read digits that are grouped by underscores, and a minus after a plus.
    """
    x = f"try_cast({column} AS DOUBLE)"
    free = f"contains({column}, '_') OR contains({column}, '+-')"
    return f"CASE WHEN {free} THEN NULL ELSE {x} END" if held is _ColumnContents.UNTYPED else x


def _range(coding: Range, column: str, held: _ColumnContents) -> str:
    """Return SQL for the cell of a range, −1 for any other value.

    The ends are exact in doubles. So an integer has the same cell by itself as by the double nearest to it.
    """
    below, above = (0, coding.size - 1) if coding.clip else (-1, -1)
    if held is _ColumnContents.INTEGER:
        # The difference is computed only inside the range, where it cannot overflow.
        n = f"CAST({column} AS BIGINT)"
        clipped = f" WHEN {n} < {coding.low} THEN {below} WHEN {n} > {coding.high} THEN {above}" if coding.clip else ""
        inside = f"WHEN {n} BETWEEN {coding.low} AND {coding.high} THEN CAST({n} - ({coding.low}) AS INTEGER)"
        return f"CASE {inside}{clipped} ELSE -1 END"
    x = _number(column, held)
    return (
        f"CASE WHEN {x} IS NULL OR isnan({x}) OR isinf({x}) OR {x} <> floor({x}) THEN -1 "
        f"WHEN {x} < {coding.low} THEN {below} WHEN {x} > {coding.high} THEN {above} "
        f"ELSE CAST({x} - ({coding.low}) AS INTEGER) END"
    )


def _double(x: float) -> str:
    """Return SQL for a double."""
    return f"CAST('{float(x)!r}' AS DOUBLE)"


def _code(coding: Codes, column: str, *, csv: bool, held: _ColumnContents) -> str:
    """Return SQL for the value that is compared with the codes: it equals at most one code, or it would count twice."""
    if coding.kind is str:
        text = f"CAST({column} AS VARCHAR)"
        if csv and "" in coding.codes:
            text = f"coalesce({text}, '')"
        return f"encode({text})"  # bytes: a collation of the data would equate several codes
    if coding.kind is int:
        return _number(column, held)
    if held is not _ColumnContents.UNTYPED:
        return column
    word = f"lower(trim({column}, '{SPACES}'))"
    true, false = (", ".join(f"'{w}'" for w in texts) for texts in (TRUE, FALSE))
    return f"CASE WHEN {word} IN ({true}) THEN true WHEN {word} IN ({false}) THEN false END"


@singledispatch
def _lists(coding: Coding, i: int, *, untyped: bool) -> dict[str, Any]:
    """Return the named parameters of the SQL for a cell of column k{i}: codes, and the cells of codes."""
    raise untranslated(coding)


@_lists.register
def _(coding: CodingWithMissing, i: int, *, untyped: bool) -> dict[str, Any]:
    lists = _lists(coding.base, i, untyped=untyped)
    if coding.texts and (untyped or coding.kind is str):
        lists |= {f"t{i}": [c.encode() for c in coding.texts], f"u{i}": list(coding.texts.values())}
    if coding.numbers:
        lists |= {f"n{i}": [float(c) for c in coding.numbers], f"m{i}": list(coding.numbers.values())}
    return lists


@_lists.register
def _(coding: NumberCoding, i: int, *, untyped: bool) -> dict[str, Any]:
    return {}


@_lists.register
def _(coding: Codes, i: int, *, untyped: bool) -> dict[str, Any]:
    return {f"c{i}": _codes(coding)} | ({} if coding.shared is None else {f"s{i}": coding.shared})


def _codes(coding: Codes) -> list[bytes | float | bool]:
    """Return the codes in the form of `_code`."""
    return [c.encode() if isinstance(c, str) else c if isinstance(c, bool) else float(c) for c in coding.codes]
