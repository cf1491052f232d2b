"""The SQL statement that counts many margins at once, and the reader of its result.

**Purpose.** This module writes one statement for all margins, and turns its rows into tables of counts.

    table → keys → [inside] → [first of each person] → GROUP BY keys → cells of the groups → places in the tables → sums

The statement groups records by the values read, and then codes the groups: it looks through a list of codes once a
group. It counts tables in one scan where the engine can (GROUPING SETS). One statement sees one state of the table, so
that no record that moves meanwhile is counted twice.
"""

# ruff: noqa: S608 - SQL holds names that a dialect has quoted, numbers, and codes in hexadecimal

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch
from itertools import pairwise
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.engines.dialects import Dialect, as_integer, coded, interval_sql, untranslated
from fitnoise.engines.joint_tables import joint_tables
from fitnoise.engines.rules import RuleColumn, RuledRows, Rules
from fitnoise.errors import DataError
from fitnoise.kernel.codings import (
    MAX_RANGE_CELLS,
    MAX_STEPS_FROM_ZERO,
    SPACES,
    Codes,
    Coding,
    CodingWithMissing,
    Interval,
    NumberCoding,
    Range,
    Steps,
    number,
)
from fitnoise.kernel.counting._base import Lost, Margin, Margins, ProgressFilter
from fitnoise.kernel.counting.joint_counts import sum_up
from fitnoise.kernel.counting.margins import blank
from fitnoise.kernel.counting.persons import ID_KEY
from fitnoise.kernel.counting.tally import Batch, PersonRule, persons_left_out, tally
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.dates import DateField
from fitnoise.kernel.domain import NO_RULES
from fitnoise.kernel.formats import TextReader
from fitnoise.kernel.units import NO_PATTERN, SHARES_PER_RECORD, Pattern

ASSUMED_RECORDS: Final = 10**7
"""The number of records for which tables are chosen: a public figure, since the true number is not public."""

MAX_TABLES_PER_STATEMENT: Final = 256
"""The largest number of tables in one statement. More take too long: a file, which streams, is better."""

_MAX_ATTRIBUTES_PER_SCAN: Final = 30
"""The largest number of attributes of one scan: one bit for each makes an integer on every engine."""

_PIECES: Final = (4, 24)
"""The least and the largest number of pieces of a table in one statement.

With fewer, an engine may prefer to read all for each; with more, few processors share evenly.
"""

_PAGES: Final = 2**10
"""The least number of pages of a piece."""

_PLACES: Final = 2**5
"""The largest number of places for every page, over all pieces: mostly fewer than there are records."""

_GROUPS: Final = 2**21
"""The largest number of places over all pieces: an engine may hold all groups to the end."""

Fetch = Callable[[str], Iterable[Sequence[Sequence[Any]]]]
"""A function that runs a statement and returns its rows, some thousands at a time."""


@final
@dataclass(frozen=True)
class Field:
    """A column as an attribute reads it.

    coding: The coding of the attribute or condition.
    kind: The kind of values in the column.
    column: SQL for the column, in a relation called `source`.
    read: The part that is read off dates in the column; `None` where the values themselves are read.
    form: The function that reads texts of the column in their declared form; `None` for texts as they are, and for a
    dialect that streams.
    """

    coding: Coding
    kind: ColumnKind
    column: str
    read: DateField | None = None
    form: TextReader | None = None

    @property
    def has_texts(self) -> bool:
        """True if another column holds the texts from which numbers are read, for codes of missing values."""
        return self.kind is ColumnKind.NUMERAL and bool(self.coding.texts)

    def cells(self, values: Sequence[bytes | float | None], classes: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the cell of each value that was read, shape (values,); below 0 for a value without a cell.

        classes: For an amount with a range by an attribute, the cells of that attribute.
        """
        if classes is not None:
            default, *others = ((cells_of(part, values), cells) for part, cells in self.coding.ranges)
            out = default[0]
            for part, cells in others:
                out = np.where(np.isin(classes, cells), part, out)
            return out
        if self.read is None:
            return cells_of(self.coding, values)
        texts = (v.decode(errors="replace") if isinstance(v, bytes) else v for v in values)
        return cells_of(self.coding, [*map(self.read.number, texts)])


@final
@dataclass(frozen=True)
class PersonColumn:
    """The column that identifies the unit of a record (`persons`), and the number of counted records of a unit.

    kind: The kind of values in the column.
    column: SQL for the column, as for a field.
    cap: The largest number of counted records of a person; `None` for shares of all.
    cells: The attributes by which records of a person are put in order.
    pattern: The pattern that the counted records of a person keep to.
    merge: Amounts that are added up for each person before records are selected.
    """

    kind: ColumnKind
    column: str
    cells: Sequence[str]
    cap: int | None
    pattern: Pattern = NO_PATTERN
    merge: tuple[str, ...] = ()

    @property
    def rule(self) -> PersonRule:
        """The rule that chooses the counted records of a person."""
        return PersonRule(self.cells, self.cap, self.pattern, self.merge)

    def read(self, fields: Mapping[str, Field]) -> dict[str, Field]:
        """Return the fields as they are read from records: amounts to be added up are not cut yet."""
        return {a: replace(f, coding=f.coding.uncut()) if a in self.merge else f for a, f in fields.items()}

    def field(self, d: Dialect) -> Field:
        """Return an attribute with one cell, in which a record lies if it has an id."""
        person = f"CASE WHEN {d.is_person(d.person(self.kind, self.column))} THEN 0 END"
        return Field(Range(0, 0), ColumnKind.INTEGER, person)


def count(
    fetch: Fetch,
    d: Dialect,
    relation: str,
    fields: Mapping[str, Field],
    margins: Sequence[Margin],
    gauge: ProgressFilter,
    *,
    drop: bool,
    person: PersonColumn | None = None,
    pages: int = 0,
    is_trial: bool = False,
    lost: Lost | None = None,
    rules: Rules = NO_RULES,
) -> tuple[Margins, dict[str, int]]:
    """Return the counts over margins of these fields, and for every attribute the number of records outside.

    With a `person`, only the first records of each person count, of those that are inside in all fields. Or all of them
    count in shares: the unit of counts is then 2⁻²⁰ of a record. All records outside an attribute are reported where a
    margin of that attribute is requested; `ID_KEY` stands for the id.

    Records that are dropped in any field are left out of all margins, and not reported. `drop` says if records outside
    a field are dropped where the field states no action. Other records without a cell are left out of the margins of
    the attributes that they are outside of.

    A relation of this number of `pages` is read in pieces, which changes no count (`statement`).

    All joint tables are of the same records. So they have equal totals, and equal counts in each cell of an attribute
    that they share, except for amounts. Where an engine reads several times, a write meanwhile mostly breaks this
    equality. With `is_trial`, the records are literals of the statement. A difference would then be a fault of the
    engine, and the caller checks the result itself.

    lost: The counter of dropped records: while they are read, or by a statement of its own.

    rules: The rules about impossible cells of the fields, for a dialect that streams; elsewhere they are fields
    (`with_rules`).

    Raises:
        DataError: More joint tables are needed than `MAX_TABLES_PER_STATEMENT`, or one has 2⁶³ places or more;
            nothing was read.
        DataError: The joint tables are not of the same records, or the engine returns something other than counts.
    """
    if d.streams:
        reader, codings = _streamed(fetch, relation, fields, person, rules)
        rule = None if person is None else person.rule
        return tally(reader, codings, margins, gauge, drop=drop, rule=rule, lost=lost, choose=joint_tables)
    fields = fields if person is None else {**fields, ID_KEY: person.field(d)}
    sizes = {a: f.coding.size for a, f in fields.items()}
    steps = {a: f.coding.pieces for a, f in fields.items()}
    counts = blank(margins, {a: f.coding.counted_size for a, f in fields.items()})
    joined = joint_tables(margins, sizes, ASSUMED_RECORDS, d.prices)
    joint = [t.attributes for t in joined]
    if len(joint) > MAX_TABLES_PER_STATEMENT or any(math.prod(_shape(fields, t)) >= 2**63 for t in joint):
        raise DataError(
            "too-many-joint-tables",
            f"Counting {len(margins):,} tables needs {len(joint):,} joint tables in one statement.",
            f"One statement counts at most {MAX_TABLES_PER_STATEMENT:,} joint tables, each with fewer than 2^63 cells.",
            "Copy the columns into a Parquet file and count that file, or plan fewer tables.",
            "Nothing was read and nothing was charged.",
        )
    outside = dict.fromkeys(fields, 0)
    unseen = dict.fromkeys(fields, -1) | {a: j for j, t in enumerate(joint) for a in t}  # the table that reports it
    shared = {(a, j): fields[a].coding.size for j, t in enumerate(joint) for a in t if not steps[a]}
    seen = {where: np.zeros(size + 1, dtype=np.int64) for where, size in shared.items()}
    records = np.zeros(len(joint), dtype=np.int64)
    for rows in fetch(statement(d, relation, fields, joint, drop=drop, person=person, pages=pages)):
        numbers = _integers(rows, [math.prod(_shape(fields, t)) for t in joint])
        for j in np.unique(numbers[0]):
            _, places, n = numbers[:, numbers[0] == j]
            cells = _cells(fields, joint[j], places)
            records[j] += n.sum()
            for a, c in cells.items():
                if (a, j) in seen:
                    np.add.at(seen[a, j], c, n)
                outside[a] += int(n[c == 0].sum()) if unseen[a] == j else 0
            inside = np.all([c > 0 for c in cells.values()], axis=0) if cells else np.full(len(n), fill_value=True)
            for m in (*joined[j].members, *([joint[j]] if joined[j].margins else [])):
                index = tuple(cells[a][inside] - 1 for a in m)
                if any(steps[a] for a in m):
                    sum_up(counts[m], index, [steps[a] for a in m], n[inside])
                else:
                    # A table without axes has one cell, and its index () takes one number.
                    np.add.at(counts[m], index, n[inside] if m else n[inside].sum())
    if not is_trial and (
        any(x != records[0] for x in records) or any((x != seen[a, unseen[a]]).any() for (a, _), x in seen.items())
    ):
        raise DataError(
            "database-table-changed",
            "The sums of joint tables differ, because someone wrote to the table during the count.",
            "One person may have been counted in two places.",
            "Count a copy, or count while no one writes to the table.",
            "Nothing was measured and nothing was charged.",
        )
    if lost is not None:
        _lose(fetch, d, relation, fields if person is None else person.read(fields), lost, drop=drop)
    return counts, outside


def _lose(fetch: Fetch, d: Dialect, relation: str, fields: Mapping[str, Field], lost: Lost, *, drop: bool) -> None:
    """Add the number of dropped records to `lost`, by a statement of its own; at least one field drops records."""
    read, keys, _ = _keyed(d, fields, drop=drop)
    tests = {a: c for a, f in fields.items() if (c := d.is_counted_sql(f.coding, f.kind, keys[a], drop=drop))}
    flags = ", ".join(f"CASE WHEN {c} THEN 0 ELSE 1 END AS l{i}" for i, c in enumerate(tests.values()))
    out = " + ".join(f"l{i}" for i in range(len(tests)))
    each = [f"CASE WHEN {out} > 0 THEN 1 ELSE 0 END", *(f"l{i}" for i in range(len(tests)))]
    sums = ", ".join(f"{d.int64.format(x=f'COALESCE(SUM({x}), 0)')} AS n{i}" for i, x in enumerate(each))
    flagged = f"SELECT {flags} FROM (SELECT {read} FROM {relation} source) records"
    statement = f"SELECT {d.int64.format(x=d.count)} AS n, {sums} FROM ({flagged}) lost{d.ending}"
    numbers = [x for rows in fetch(statement) for row in rows for x in row]
    records, dropped, *lost_by = _integers([(0, 0, x) for x in numbers], [1])[2].tolist()
    lost.add(records, dropped, dict(zip(tests, lost_by, strict=True)))


def _streamed(
    fetch: Fetch, relation: str, fields: Mapping[str, Field], person: PersonColumn | None, rules: Rules
) -> tuple[RuledRows, dict[str, Coding]]:
    """Return a reader of records with the columns of rules, and the codings of all columns."""
    codings = {a: f.coding for a, f in fields.items()} | {name: rule.coding for name, rule in rules.items()}
    return RuledRows(StreamedRows(fetch, relation, fields, person), rules), codings


def left_out(
    fetch: Fetch,
    d: Dialect,
    relation: str,
    fields: Mapping[str, Field],
    person: PersonColumn,
    *,
    drop: bool,
    rules: Rules = NO_RULES,
) -> int:
    """Return the number of persons of whom some records that are inside in all fields are not counted (`count`).

    Raises:
        DataError: The engine returns a value that no correct engine returns.
    """
    if d.streams:
        return persons_left_out(*_streamed(fetch, relation, fields, person, rules), person.rule)
    fields = {**fields, ID_KEY: person.field(d)}
    statement = _uncounted(d, relation, fields, person, drop=drop)
    return int(_integers([(0, 0, *row) for rows in fetch(statement) for row in rows], [1])[2].sum())


def _integers(rows: Sequence[Sequence[Any]], places: Sequence[int]) -> NDArray[np.int64]:
    """Return rows (table, place, count) as columns, shape (3, rows).

    places: The number of places of each table.

    Raises:
        DataError: A row is not three integers, or they are negative, or no table or place.
    """
    # −1 stands for an answer that is no list of three integers.
    numbers = np.full((3, 1), -1, dtype=np.int64)
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        numbers = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    # A number of no table gets the end 0, below which no place is.
    ends = np.append(np.array(places, dtype=np.int64), 0)
    if (numbers < 0).any() or (numbers[1] >= ends[np.minimum(numbers[0], len(places))]).any():
        raise DataError(
            "database-answer-invalid",
            "The database answered with something other than counts.",
            "",
            "Copy the table into a Parquet file, and count that file.",
            "Nothing was charged.",
        )
    return numbers


def prepared(
    d: Dialect,
    relation: str,
    conditions: Sequence[Field],
    fields: Mapping[str, Field],
    person: PersonColumn | None,
    pages: int = 0,
) -> tuple[str, dict[str, Field], PersonColumn | None]:
    """Return SQL for the records that meet all conditions, with the fields and the id in the columns of this SQL.

    The SQL also reads parts off dates, except for a dialect that streams: its records are coded in Python. Without
    conditions and parts to read, return the arguments.

    pages: The number of pages of the table. Unless it is 0, the SQL also has the position of each record.
    """
    dated = {a: f for a, f in fields.items() if f.read is not None and not d.streams}
    if not conditions and not dated:
        return relation, dict(fields), person
    read = {a: f.column if f.read is None or a not in dated else d.derived(f.read, f.column) for a, f in fields.items()}
    columns = [f"{x} AS v{i}" for i, x in enumerate(read.values())]
    columns += [f"{f.column}t AS v{i}t" for i, f in enumerate(fields.values()) if f.has_texts]
    columns += [] if person is None else [f"{person.column} AS p"]
    columns += [f"source.{d.located} AS {d.located}"] if pages else []
    where = " AND ".join(_is_met_sql(d, f) for f in conditions)
    chosen = f"(SELECT {', '.join(columns) or '0 AS v0'} FROM {relation} source{' WHERE ' if where else ''}{where})"
    now = {a: replace(f, column=f"source.v{i}") for i, (a, f) in enumerate(fields.items())}
    now |= {a: Field(f.coding, ColumnKind.DERIVED, now[a].column) for a, f in dated.items()}
    return chosen, now, None if person is None else replace(person, column="source.p")


def with_rules(d: Dialect, fields: Mapping[str, Field], rules: Rules) -> dict[str, Field]:
    """Return the fields and those of rules about impossible cells; a dialect that streams gets none of these."""
    return {**fields, **({} if d.streams else {name: _rule_field(d, fields, rule) for name, rule in rules.items()})}


def _rule_field(d: Dialect, fields: Mapping[str, Field], rule: RuleColumn) -> Field:
    """Return an attribute with one cell, in which a record lies unless the rule excludes it."""
    ruled = {a: fields[a] for a in rule.names}
    cells = {a: d.cell(f.coding, f.kind, d.key(f.coding, f.kind, f.column)) for a, f in ruled.items()}
    return Field(rule.coding, ColumnKind.INTEGER, rule.sql(cells, d.int64))


def _is_met_sql(d: Dialect, f: Field) -> str:
    """Return SQL that is true for records that meet the condition of a field; in SQLite by the type of each value."""
    if not d.streams:
        return d.is_met_sql(
            f.coding, *((f.kind, f.column) if f.read is None else (ColumnKind.DERIVED, d.derived(f.read, f.column)))
        )
    read = _read(f) if f.read is None else _DAY.format(t=f"trim({f.column}, {_BLANKS})", c=f.column)
    return _is_met(f.coding, read)


@singledispatch
def _is_met(coding: Coding, read: str) -> str:
    """Return SQL of SQLite that is true for a value read if it meets a condition."""
    raise untranslated(coding)


@_is_met.register
def _(coding: Interval, read: str) -> str:
    return interval_sql(coding, f"CAST({read} AS REAL)", _real)


@_is_met.register
def _(coding: Codes, read: str) -> str:
    codes = (f"X'{v.hex()}'" if isinstance(v, bytes) else f"{v:d}" for v in _places(coding))
    return f"{read} IN ({', '.join(codes)})"


# --- the statement -------------------------------------------------------------------------------------------


def statement(
    d: Dialect,
    relation: str,
    fields: Mapping[str, Field],
    joint: Sequence[Margin],
    *,
    drop: bool,
    person: PersonColumn | None = None,
    pages: int = 0,
) -> str:
    """Return SQL with a row (table, place, count) for every place of every joint table that has records.

    A place is that of the cells in C order, where a cell is from 1 to its size, and 0 outside. A relation of many pages
    is counted in pieces, which processors can share, and the pieces are added up. There are no pieces where the count
    of a record depends on other records of a person.

    Args:
        d: The dialect of the engine.
        relation: The records, as the engine names them.
        fields: The field of every attribute used.
        joint: The attributes of each table.
        drop: True to leave out records outside the domain in any of the fields, where a field does not state an action.
        person: The column of the id, where only the first records of each person count, or all in shares.
        pages: The approximate number of pages of the relation. The pieces cover all records for any true number.
    """
    each = d.count
    if person is not None:
        lined, chosen = _selected_records(d, relation, fields, person, drop=drop)
        keys = {a: f"k{i}" for i, a in enumerate(fields)}
        columns = [*keys.values(), *(["share"] if person.cap is None else [])]
        each = "COALESCE(SUM(share), 0)" if person.cap is None else d.count
        records = [f"SELECT {', '.join(columns)} FROM ({lined}) taken WHERE {chosen}"]
        # keys are cells
        fields = {a: Field(_numbered(f.coding.size), ColumnKind.INTEGER, "") for a, f in fields.items()}
        batches = list(_batches(d, keys, joint))
    else:
        read, keys, condition = _keyed(d, fields, drop=drop)
        batches = list(_batches(d, keys, joint))
        pieces = _pieces(d, pages, len(batches), sum(math.prod(_shape(fields, t)) for t in joint))
        records = [f"SELECT {read} FROM {relation} source{piece}" for piece in pieces]
        if condition:
            names = ", ".join(dict.fromkeys(keys.values()))
            records = [f"SELECT {names} FROM ({query}) chosen WHERE {condition}" for query in records]
    scans = [_scan(d, query, fields, keys, tables, each) for query in records for tables in batches]
    total = d.int64.format(x="SUM(n)")
    return f"SELECT j, place, {total} AS total FROM ({' UNION ALL '.join(scans)}) counted GROUP BY j, place{d.ending}"


def _pieces(d: Dialect, pages: int, scans: int, places: int) -> list[str]:
    """Return conditions on the position of a record; every record meets exactly one. A single one is empty.

    Pages are shared out evenly, and the last piece has no end. So the set of records does not depend on `pages`.

    Args:
        d: The dialect of the engine.
        pages: The approximate number of pages of the relation.
        scans: The number of scans of each piece.
        places: The number of places of all joint tables; each piece may count each of them again.
    """
    min_pieces, max_scans = _PIECES
    n = min(max_scans // scans, pages // _PAGES, pages * _PLACES // places, _GROUPS // places)
    n = n if n >= min_pieces else 1
    x, ends = f"source.{d.located}", [d.page.format(n=pages * i // n) for i in range(1, n)]
    return [
        f" WHERE {' AND '.join(filter(None, (low and f'{x} >= {low}', high and f'{x} < {high}')))}" if ends else ""
        for low, high in pairwise(["", *ends, ""])
    ]


def _uncounted(d: Dialect, relation: str, fields: Mapping[str, Field], person: PersonColumn, *, drop: bool) -> str:
    """Return SQL for the number of persons of whom fewer records are counted than are inside."""
    lined, _ = _selected_records(d, relation, fields, person, drop=drop, totals=True)
    who = d.person_key.format(c="p")
    counted = f"SELECT {who} AS who FROM ({lined}) taken WHERE good = 1 AND turn <= {person.cap}"
    total = d.int64.format(x=d.count)
    return f"SELECT {total} AS n FROM ({counted} GROUP BY {who} HAVING {d.count} < MAX(per_person)) persons{d.ending}"


def _keyed(d: Dialect, fields: Mapping[str, Field], *, drop: bool) -> tuple[str, dict[str, str], str]:
    """Return SQL for the keys of records, under names; the name of each field's key; the condition of records to keep.

    The condition is empty if all records are kept.
    """
    # Equal keys share one column: in GROUPING SETS, an engine may take two equal expressions for each other.
    names: dict[str, str] = {}
    keys = {a: _key(d, fields, f) for a, f in fields.items()}
    keys = {a: names.setdefault(key, f"k{len(names)}") for a, key in keys.items()}
    read = ", ".join(f"{key} AS {name}" for key, name in names.items()) or "0 AS k0"
    condition = " AND ".join(
        filter(None, (d.is_counted_sql(f.coding, f.kind, keys[a], drop=drop) for a, f in fields.items()))
    )
    return read, keys, condition


def _key(d: Dialect, fields: Mapping[str, Field], field: Field) -> str:
    """Return SQL for the key of records along a field (`Dialect.key`).

    For an amount with ranges by another attribute, the key depends on the cell of the record there.
    """
    classifier = field.coding.attribute
    if classifier is None:
        return d.key(field.coding, field.kind, field.column)
    other = fields[classifier]
    cell = d.cell(other.coding, other.kind, d.key(other.coding, other.kind, other.column))
    return d.key_by(field.coding, field.kind, field.column, cell)


def _selected_records(
    d: Dialect, relation: str, fields: Mapping[str, Field], person: PersonColumn, *, drop: bool, totals: bool = False
) -> tuple[str, str]:
    """Return SQL for records, and the condition of those that count or are reported (`persons`).

    The first records of each person inside the domain meet it. Records outside meet it if they are reported. Columns
    k0, k1, … are the cells of all fields. Records are put in order by cells, and not by the values read. Column good
    is 1 for records inside and 0 outside, and turn is a position in line. Where shares are counted there is no line:
    column share is then the count of a record, 1 for a record outside.

    totals: True to add the id, p, and the number of the person's records that are inside, per_person.
    """
    totals = totals or person.cap is None
    codings = {a: fields[a].coding for a in person.merge}
    fields = person.read(fields)
    read, keys, condition = _keyed(d, fields, drop=drop)
    inside = " AND ".join(d.inside(f.coding, f.kind, keys[a]) for a, f in fields.items())
    outside = bool(reported(fields, drop=drop))
    records = f"SELECT {read}, {d.person(person.kind, person.column)} AS p FROM {relation} source"
    cells = {a: d.cell(f.coding, f.kind, keys[a]) for a, f in fields.items()}
    names = {a: f"c{i}" for i, a in enumerate(fields)}
    coded = ", ".join(f"{cells[a]} AS {name}" for a, name in names.items())
    # Without records to report, the selection by `good` leaves out the dropped ones, too.
    where = f" WHERE {condition}" if condition and outside else ""
    rows = f"SELECT {coded}, p, CASE WHEN {inside} THEN 1 ELSE 0 END AS good FROM ({records}) records{where}"
    whose = ", ".join(["good", d.person_key.format(c="p")])
    if codings:
        rows, names = merged(rows, codings, names, whose, "good", "p, good", added=d.added, integer=d.int64, start=1)
        # Records outside are reported one by one, so none of them may vanish in a merge.
        rows += " OR good = 0"
    columns = [names[a] for a in person.cells]
    order = ", ".join([d.place_in_line("p", columns), *columns])
    held = ", ".join([*names.values(), "p", "good"])
    if totals:
        rows = f"SELECT {held}, {d.count} OVER (PARTITION BY {whose}) AS per_person FROM ({rows}) counted"
        held += ", per_person"
    listed = ", ".join(f"{name} AS k{i}" for i, name in enumerate(names.values()))
    if person.cap is None:  # the division has no remainder, so the result is an integer in any engine
        weight = d.int64.format(x=f"({SHARES_PER_RECORD} - MOD({SHARES_PER_RECORD}, per_person)) / per_person")
        weight = f"CASE WHEN good = 1 THEN {weight} ELSE 1 END AS share"
        return f"SELECT {listed}, good, {weight} FROM ({rows}) lined", "good = 1 OR good = 0" if outside else "good = 1"
    for further, so in kept_to(person.pattern, names, whose, order):
        rows = f"SELECT {held} FROM (SELECT {held}, {further} FROM ({rows}) ranked) firsts WHERE {so} OR good = 0"
    turn = f"ROW_NUMBER() OVER (PARTITION BY {whose} ORDER BY {order}) AS turn"
    chosen = f"turn <= {person.cap} OR good = 0" if outside else f"good = 1 AND turn <= {person.cap}"
    further = "p, per_person, " if totals else ""
    return f"SELECT {listed}, {further}good, {turn} FROM ({rows}) lined", chosen


def _numbered(size: int) -> Coding:
    """Return a coding with `size` cells: a range, or the steps of an amount above the limit of a range."""
    return Range(0, size - 1) if size < MAX_RANGE_CELLS else Steps(Fraction(0), Fraction(size - 1), Fraction(1))


def merged(
    records: str,
    codings: Mapping[str, Coding],
    names: Mapping[str, str],
    whose: str,
    good: str,
    held: str,
    *,
    added: str,
    integer: str,
    start: int,
) -> tuple[str, dict[str, str]]:
    """Return SQL that merges records of a person that agree except for amounts, which it adds up (`persons`).

    Also return the columns of cells, by attribute. The SQL ends in a condition, to which the condition of other records
    to keep may be added.

    Args:
        records: A statement for the cells of records; amounts to add up have the cells of their `uncut` codings. A
            number below `start` is no cell.
        codings: The codings of the amounts to add up, in which the sums are read.
        names: The columns of cells, by attribute.
        whose: The columns that distinguish records of one person from those of others.
        good: One of the columns in `whose`, which is true or 1 for records inside.
        held: Further columns to return.
        added: The template of a sum, from a dialect.
        integer: The template of a sum that is cut.
        start: The number of the first cell.
    """
    last = 2 * MAX_STEPS_FROM_ZERO + start
    # Records with any amounts merge; those in different missing-value categories do not.
    kinds = {a: f"CASE WHEN {names[a]} <= {last} THEN {start} ELSE {names[a]} END" for a in codings}
    group = ", ".join([whose, *(kinds.get(a, c) for a, c in names.items())])
    sums, columns, cells = [], dict(names), dict(names)
    for i, (a, coding) in enumerate(codings.items()):
        c, total, (low, width) = names[a], f"total{i}", coding.values.sum_range
        columns[a] = f"sum{i}"
        sums.append(f"{added.format(x=f'{c} - {MAX_STEPS_FROM_ZERO + start}')} OVER (PARTITION BY {group}) AS {total}")
        cell = (
            f"CASE WHEN {c} < {start} THEN {c} WHEN {c} > {last} THEN {c} - {2 * MAX_STEPS_FROM_ZERO - width} "
            f"WHEN {total} < {low} THEN {start} WHEN {total} > {low + width} THEN {start + width} "
            f"ELSE {total} - ({low - start}) END"
        )
        cells[a] = f"{integer.format(x=cell)} AS {columns[a]}"
    # All merged records are equal now, and any of them may stay. Some engines require an order: `good` is constant.
    turn = f"ROW_NUMBER() OVER (PARTITION BY {group} ORDER BY {good}) AS again"
    summed = f"SELECT {', '.join(names.values())}, {held}, {', '.join(sums)}, {turn} FROM ({records}) grouped"
    return f"SELECT {', '.join(cells.values())}, {held} FROM ({summed}) added WHERE again = 1", columns


def kept_to(pattern: Pattern, names: Mapping[str, str], whose: str, order: str) -> Iterator[tuple[str, str]]:
    """Yield, step by step, SQL for further columns, and for the condition of the records that keep to a pattern.

    Args:
        pattern: The pattern to keep (`persons`).
        names: The columns of cells, by attribute.
        whose: The columns that distinguish records of one person from those of others.
        order: The columns by which records are put in order.
    """
    if pattern.fixed:
        line = f"OVER (PARTITION BY {whose} ORDER BY {order})"
        firsts_of = {names[a]: f"first{i}" for i, a in enumerate(pattern.fixed)}
        firsts = ", ".join(f"FIRST_VALUE({c}) {line} AS {column}" for c, column in firsts_of.items())
        yield firsts, f"({' AND '.join(f'{c} = {column}' for c, column in firsts_of.items())})"
    for attributes, limit in pattern.caps:
        cell = ", ".join([whose, *(names[a] for a in attributes)])
        yield f"ROW_NUMBER() OVER (PARTITION BY {cell} ORDER BY {order}) AS again", f"again <= {limit}"
    for a, distance in pattern.separation:
        c = names[a]
        before = f"FIRST_VALUE({c}) OVER (PARTITION BY {whose} ORDER BY {c} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
        # its own cell where no record is before it
        yield f"{before} AS nearest", f"(nearest = {c} OR {c} - nearest >= {distance})"


def reported(fields: Mapping[str, Field], *, drop: bool) -> list[str]:
    """Return the fields in which a record can be outside without being left out."""
    return [a for a, f in fields.items() if f.coding.without_cell - f.coding.dropped(drop=drop)]


def _batches(d: Dialect, keys: Mapping[str, str], joint: Sequence[Margin]) -> Iterator[dict[int, Margin]]:
    """Yield, for each scan, the tables that it counts, by number.

    No two tables of a scan have the same keys. Several tables of a scan have at most `_MAX_ATTRIBUTES_PER_SCAN` keys
    together. Without `d.sets` each scan counts one table.
    """
    batch: dict[int, Margin] = {}
    sets: list[set[str]] = []
    for j, table in enumerate(joint):
        used = {keys[a] for a in table}
        if batch and not (d.sets and used not in sets and len(used.union(*sets)) <= _MAX_ATTRIBUTES_PER_SCAN):
            yield batch
            batch, sets = {}, []
        batch[j] = table
        sets.append(used)
    yield batch


def _scan(
    d: Dialect,
    records: str,
    fields: Mapping[str, Field],
    keys: Mapping[str, str],
    tables: Mapping[int, Margin],
    each: str,
) -> str:
    """Return SQL with rows (table, place, count) for records in these tables; a place may have several rows.

    each: SQL for the count of the records of a group.
    """
    used = [a for a in fields if any(a in t for t in tables.values())]
    columns = list(dict.fromkeys(keys[a] for a in used))
    cells = [f"{d.cell(fields[a].coding, fields[a].kind, keys[a])} AS c{i}" for i, a in enumerate(used)]
    places = {j: _cell_index(d, fields, used, t) for j, t in tables.items()}
    if len(tables) == 1:
        ((j, index),) = places.items()
        grouped = f"SELECT {', '.join([*columns, f'{each} AS n'])} FROM ({records}) keyed"
        grouped += f" GROUP BY {', '.join(columns)}" if columns else ""
        coded = f"SELECT {', '.join([*cells, 'n'])} FROM ({grouped}) grouped"
        return f"SELECT {j} AS j, {index} AS place, n FROM ({coded}) coded"
    members = {j: list(dict.fromkeys(keys[a] for a in t)) for j, t in tables.items()}
    sets = ", ".join(f"({', '.join(ks)})" for ks in members.values())
    # The number g of a group shows its table: bit i is 1 if column i is no key of the table.
    rolled = " + ".join(f"GROUPING({k}) * {2**i}" for i, k in enumerate(columns))
    counted = f"SELECT {', '.join(columns)}, {rolled} AS g, {each} AS n FROM ({records}) keyed"
    grouped = f"{counted} GROUP BY GROUPING SETS ({sets})"
    bits = {j: sum(2**i for i, k in enumerate(columns) if k not in ks) for j, ks in members.items()}
    number = " ".join(f"WHEN {g} THEN {j}" for j, g in bits.items())
    index = " ".join(f"WHEN {g} THEN {places[j]}" for j, g in bits.items())
    coded = f"SELECT {', '.join(cells)}, g, n FROM ({grouped}) grouped"
    return f"SELECT CASE g {number} END AS j, CASE g {index} END AS place, n FROM ({coded}) coded"


def _cell_index(d: Dialect, fields: Mapping[str, Field], used: Sequence[str], table: Margin) -> str:
    """Return SQL for the place of the cells of a table."""
    index = d.int64.format(x="0")
    for i, a in enumerate(table):
        # Each factor has 64 bits. A product of an engine's smaller integers could overflow.
        cell = d.int64.format(x=f"c{used.index(a)}")
        index = f"({index}) * {fields[a].coding.size + 1} + {cell}" if i else cell
    return index


def _shape(fields: Mapping[str, Field], table: Margin) -> tuple[int, ...]:
    """Return the shape of a joint table, with a cell for values outside before the others."""
    return tuple(fields[a].coding.size + 1 for a in table)


def _cells(fields: Mapping[str, Field], table: Margin, places: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Return the cells at places of a joint table, from 1, and 0 outside."""
    cells = {}
    for a in reversed(table):
        places, cells[a] = np.divmod(places, fields[a].coding.size + 1)
    return cells


# --- records that are read out, and coded here -----------------------------------------------------------------

NUMBER_FUNCTION = "fitnoise_number"
"""A function of the bytes of a text, which a session of SQLite has: the number that it is, or NULL (`as_number`)."""

_NUMBER = (
    "CASE typeof({c}) WHEN 'integer' THEN {c} WHEN 'real' THEN {c} "
    f"WHEN 'text' THEN {NUMBER_FUNCTION}(CAST({{c}} AS BLOB)) END"
)
_TRUTH = "CASE WHEN typeof({c}) = 'integer' THEN {c} END"
_TEXT = "CASE typeof({c}) WHEN 'text' THEN CAST({c} AS BLOB) WHEN 'integer' THEN {c} END"
_READ = {str: _TEXT, int: _NUMBER, bool: _TRUTH}
"""The values as SQLite reads them. There each value has a type of its own: bytes of texts, numbers, or NULL."""

_ANY = "CASE typeof({c}) WHEN 'text' THEN CAST({c} AS BLOB) WHEN 'blob' THEN NULL ELSE {c} END"
"""The value as SQLite reads it where absent values are distinguished from values outside the domain."""


_BLANKS = f"char({', '.join(str(ord(c)) for c in SPACES)})"

# SQLite has no regular expressions: this is `dates.DATE_PATTERN` behind the day, piece by piece.
_TIMED = (
    "substr({t}, 11) GLOB '[ T][0-2][0-9]:[0-5][0-9]*' AND substr({t}, 12, 2) < '24' AND (length({t}) = 16 OR "
    "substr({t}, 17) GLOB ':[0-5][0-9]*' AND (length({t}) = 19 OR "
    "substr({t}, 20) GLOB '.[0-9]*' AND length({t}) BETWEEN 21 AND 29 AND NOT substr({t}, 21) GLOB '*[^0-9]*'))"
)

_DAY = (
    "CASE WHEN typeof({c}) = 'text' AND length(CAST({t} AS BLOB)) = length({t}) "  # no letter of several bytes, no NUL
    "AND {t} GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]*' AND {t} NOT GLOB '0000*' "
    "AND date(substr({t}, 1, 10), '+0 days') = substr({t}, 1, 10) "  # SQLite turns 2023-02-30 into 2023-03-02
    f"AND (length({{t}}) = 10 OR {_TIMED}) "
    "THEN CAST(replace(substr({t}, 1, 10), '-', '') AS INTEGER) END"
)
"""The number of a day that SQLite has as a text (`dates`); NULL of what is no date."""


def _real(x: float) -> str:
    """Return SQL for a double, exactly: SQLite may read a decimal as a neighbouring double."""
    # A double is an integer of at most 53 bits and a power of 2. Products with powers of 2 are exact.
    numerator, denominator = x.as_integer_ratio()
    zeros, ones = max(0, numerator.bit_length() - 62), denominator.bit_length() - 1
    times = [f" * CAST({2 ** min(62, zeros - i)} AS REAL)" for i in range(0, zeros, 62)]
    parts = [f" / CAST({2 ** min(62, ones - i)} AS REAL)" for i in range(0, ones, 62)]
    return f"(CAST({numerator >> zeros} AS REAL){''.join(times + parts)})"


@final
@dataclass(frozen=True)
class StreamedRows:
    """The records of a table, read out and coded here: a reader (`Rows`).

    fetch: The function that runs a statement.
    relation: SQL for the records that meet the conditions.
    fields: The columns of the attributes.
    person: The column of the id; `None` without a bound.
    """

    fetch: Fetch
    relation: str
    fields: Mapping[str, Field]
    person: PersonColumn | None

    def batches(self, attributes: Sequence[str]) -> Generator[Batch]:
        """Yield the records with their cells, and with a person their ids, some thousands at a time."""
        fields = self.fields if self.person is None else self.person.read(self.fields)
        read = [_read(fields[a]) for a in attributes]
        read += [] if self.person is None else [_TEXT.format(c=self.person.column)]
        for rows in self.fetch(f"SELECT {', '.join(read) or '0'} FROM {self.relation} AS source"):
            columns = list(zip(*rows, strict=True))
            ids = None
            if self.person is not None:
                # An integer is its decimal text, as in all other engines. An empty id is a missing one.
                ids = [x if isinstance(x, bytes) else b"" if x is None else str(x).encode() for x in columns.pop()]
            cells = _coded(fields, dict(zip(attributes, columns, strict=False)))  # there is a column even for none
            yield Batch(cells, len(rows), ids)


def _coded(fields: Mapping[str, Field], columns: Mapping[str, Sequence[Any]]) -> dict[str, NDArray[Any]]:
    """Return the cells of columns as they are read, by field, in the order of the columns."""
    # An amount with ranges by another attribute needs the cells of that attribute, so it comes last.
    cells: dict[str, NDArray[Any]] = {}
    for a, values in sorted(columns.items(), key=lambda column: fields[column[0]].coding.attribute is not None):
        classifier = fields[a].coding.attribute
        cells[a] = fields[a].cells(values, None if classifier is None else cells[classifier])
    return {a: cells[a] for a in columns}


def _read(field: Field) -> str:
    has_missing = field.coding.values is not field.coding
    return (_ANY if has_missing else _READ[field.coding.kind if field.read is None else str]).format(c=field.column)


@singledispatch
def cells_of(coding: Coding, values: Sequence[bytes | float | None]) -> NDArray[Any]:
    """Return the cell of each value, shape (values,); below 0 for a value without a cell.

    values: Values as SQLite hands them over (`_READ`): the bytes of a text, a number, or `None`.
    """
    raise untranslated(coding)


@cells_of.register
def _(coding: NumberCoding, values: Sequence[bytes | float | None]) -> NDArray[Any]:
    return coding.vector(np.array(values, dtype=np.float64))  # None is not a number


@cells_of.register
def _(coding: Codes, values: Sequence[bytes | float | None]) -> NDArray[Any]:
    places = _places(coding)
    return np.fromiter((places.get(v, -1) for v in values), dtype=np.int64, count=len(values))


def _places(coding: Codes) -> dict[object, int]:
    """Return the cells of codes, by the form in which they are read."""
    places: dict[object, int] = {}
    for i, code in zip(coding.cells, coding.codes, strict=True):
        places[code.encode() if isinstance(code, str) else code] = i
        # SQLite can hold an integer in a column of texts, where its decimal text counts.
        if isinstance(code, str) and (n := as_integer(code)) is not None:
            places[n] = i
    return places


@cells_of.register
def _(coding: CodingWithMissing, values: Sequence[bytes | float | None]) -> NDArray[Any]:
    # Absent values are distinguished from those outside. Texts may be among numbers.
    kind = coding.kind
    typed = {str: (bytes, int), int: (int, float)}.get(kind, (int,))
    spaces = b"" if kind is str else SPACES.encode()
    texts: dict[object, int] = {c.encode(): i for c, i in coding.texts.items()}
    held = [v if kind is not int or v in texts else as_number(v) for v in values]
    cells = cells_of(coding.base, [v if isinstance(v, typed) else None for v in held])
    codes: dict[object, int] = texts | dict(coding.numbers.items())
    if kind is str:
        codes |= _places(coded(coding))
    if kind is bool:  # an integer is its decimal text
        codes |= {n: i for c, i in coding.texts.items() if (n := as_integer(c)) is not None}

    def cell_of(v: bytes | float | None, cell: int) -> int:
        # A float among texts or truth values is no code, and is not absent.
        if kind is not int and isinstance(v, float):
            return coding.outside
        blank = v is None or (isinstance(v, bytes) and not v.strip(spaces))
        return codes.get(v, cell if cell >= 0 else coding.absent if blank else coding.outside)

    return np.fromiter(map(cell_of, held, cells.tolist()), dtype=np.int64, count=len(values))


def as_number(value: bytes | float | None) -> bytes | float | None:
    """Return the number that the bytes of a text are; the value itself if it is no such text."""
    read = number(value.decode(errors="replace")) if isinstance(value, bytes) else None
    return value if read is None else read
