"""The trial of an engine: known records, counted by its own statements and compared.

**Purpose.** The trial admits an engine, since most engines can only run at their users' sites. It is one more statement
of the same session, over literals, so it needs no right to write. Each record has one value of interest and, for all
other attributes, plain ones that are inside. So each treatment of that value shows, and nothing else hides it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fitnoise.engines.dialects import READABLE_COLUMN_KINDS, ColumnKind, Dialect
from fitnoise.engines.statements import Fetch, Field, PersonColumn, count, left_out, prepared, reported
from fitnoise.errors import DataError
from fitnoise.kernel.codings import (
    DROPPED,
    OUTSIDE,
    REFUSED,
    Code,
    Codes,
    Coding,
    CodingWithMissing,
    Cuts,
    Interval,
    Range,
    Steps,
    cell_of,
    cells_of,
    class_coding,
    classified_by,
    read_as,
    steps_of,
    uncut,
    without_cell,
)
from fitnoise.kernel.counting._base import Margin, ProgressFilter
from fitnoise.kernel.counting.joint_counts import sum_up
from fitnoise.kernel.counting.persons import ID_KEY, PersonSelector, person_id
from fitnoise.kernel.dates import DateField, DatePart
from fitnoise.kernel.units import NO_PATTERN, Pattern

_TEXTS: Final = (
    "a", "", "A", "a ", " a", "á", "Á", "a\u0301", "ß", "ss", "ſ", "1", "01", "1.0", "'", "''", '"', "\\", "\\'",
    "\\x61", "%", "%s", "_", "{c}", ":a", "?", "--", "NULL", "null", "\t", "a\t", "a\n", "a\u00a0", "\u200b", "\uff41",
    "\U0001f600", "\u0130", "\u0131", "i", "I",
)  # fmt: skip
"""Texts that an engine may take for each other, or for a part of its own language."""

_CODINGS: Final[Mapping[str, Coding]] = {
    "texts": Codes(
        ("a", "A", "a ", " a", "á", "a\u0301", "ß", "1", "'", '"', "\\", "%s", "NULL", "\t", "\U0001f600", "\u0131")
    ),
    "words": Codes(("a", "A", "á", "ss")),
    "codes of digits": Codes(("1", "-3", "01", "0", "9007199254740993")),
    "codes": Codes((1, -3, 0, 17, 2**53 - 1)),
    "range": Range(-1, 3),
    "clipped": Range(0, 5, clip=True),
    "small, clipped": Range(-(2**53) + 1, -(2**53) + 2, clip=True),
    "bins": Cuts((-10.5, 0.0, 0.1, 2.5, 1000.0)),
    "far bins": Cuts((-1.7976931348623157e308, -1e300, 2.0**63, 1.8e19, 1.7976931348623157e308)),
    "truth": Codes((True, False)),
    "between": Interval(-0.5, 2.5),
    "whole numbers between": Interval(0.0, 17.0),
    "from": Interval(0.1),
    "below": Interval(high=2.0**53 + 2),
    "codes of few cells": Codes((5, 1, -3, 0), shared=(0, 1, 1, 0)),
}
"""The codings that are tried in every session."""

_MISSING_CODINGS: Final[Mapping[str, Coding]] = {
    "words, and absent ones": CodingWithMissing(Codes(("a", "A", "á", "ss")), (("'",), ("01", "-3")), absent=4),
    "words, and others": CodingWithMissing(Codes(("a", "1", "")), ((),), outside=3),
    "codes, and absent ones": CodingWithMissing(Codes((1, 0)), ((-3, 17),), absent=2),
    "codes, and others": CodingWithMissing(Codes((1, -3)), ((),), outside=2),
    "range, and absent ones": CodingWithMissing(Range(0, 5, clip=True), ((-3,), (17, -1)), absent=6),
    "range, and others": CodingWithMissing(Range(0, 5), ((), (-1,)), absent=6, outside=7),
    "bins, and absent ones": CodingWithMissing(Cuts((0.0, 2.5)), ((1000,),), absent=3),
    "truth, and absent ones": CodingWithMissing(Codes((True, False)), ((),), absent=2),
    "only yes, and others": CodingWithMissing(Codes((True,)), ((),), outside=1),
    "words, an empty one missing": CodingWithMissing(Codes(("a", "A")), (("", "á"),), absent=DROPPED, outside=REFUSED),
    "range, absent ones refused": CodingWithMissing(Range(0, 5), ((17,),), absent=REFUSED, outside=DROPPED),
    "bins, absent ones dropped": CodingWithMissing(Cuts((0.0, 2.5)), ((1000,),), absent=DROPPED),
    "truth, others dropped": CodingWithMissing(Codes((True,)), ((),), absent=1, outside=DROPPED),
}
"""The codings that are tried where the domain has missing-value categories."""

_AMOUNTS: Final[Mapping[str, Coding]] = {
    "amount": Steps(Fraction(-3, 2), Fraction(6), Fraction(1, 2)),
    "amount in hundredths": Steps(Fraction(0), Fraction(10), Fraction(1, 100)),
    "large amount": Steps(Fraction(-(2**40)), Fraction(2**40), Fraction(2**30)),
    "amount, and others": CodingWithMissing(
        Steps(Fraction(0), Fraction(5), Fraction(5, 2), (-11.0, 99.0)), ((-3,), ()), absent=3, outside=4
    ),
    "class": Range(0, 3),
    "amount by class": Steps(
        Fraction(-2),
        Fraction(8),
        Fraction(1),
        attribute="class",
        classes=tuple(Steps(-2 * s, 8 * s, s) for s in map(Fraction, ("0.5", "100", "0.5", "0.01"))),
    ),
}
"""The codings that are tried where the domain has amounts."""

_HELD: Final[Mapping[ColumnKind, tuple[Any, ...]]] = {
    ColumnKind.INTEGER: (
        1, 0, -1, -2, -3, 2, 3, 4, 5, 6, 17, 99, -10, -11, 1000, 2**31, -(2**31), 2**53 - 3, 2**53 - 2, 2**53 - 1,
        2**53, 2**53 + 1, 2**53 + 2, -(2**53) + 2, -(2**53) + 1, -(2**53), -(2**53) - 1, 2**62, 2**63 - 1,
        # Below 2⁶³ every 1,024th integer is a double: 2⁶³ − 512 rounds up to 2⁶³, and 2⁶³ − 513 down.
        2**63 - 512, 2**63 - 513, -(2**63) + 1,
    ),
    ColumnKind.DOUBLE: (
        1.0, 0.0, -0.0, 0.5, -0.5, 1.5, 2.0, 2.5, 2.4999999999999996, 3.0, 3.5, 4.0, -1.0, -1.5, -3.0, 5.0, 5.5, 17.0,
        -10.5, -10.6, 0.1, 0.09999999999999999, 1000.0, 999.9999999999999, 2.0**53, 2.0**53 - 1, 2.0**53 - 2,
        -(2.0**53) + 1, -(2.0**53), 2.0**63, 1.8e19, 1e100, -1e100, -1e300, 1e300,
    ),
    ColumnKind.DECIMAL: tuple(
        Decimal(n).scaleb(-7)
        for n in (10**7, 0, 5 * 10**6, -5 * 10**6, 15 * 10**6, 25 * 10**6, 24999999, 3 * 10**7, 30001000, -(10**7),
                  -15 * 10**6, -3 * 10**7, 5 * 10**7, 55 * 10**6, 17 * 10**7, -105 * 10**6, -106 * 10**6, 10**6, 999999,
                  10**10)
    ),
    ColumnKind.TEXT: _TEXTS,
    ColumnKind.FIXED: tuple(x for x in _TEXTS if not x.endswith(" ")),
    ColumnKind.TRUTH: (True, False),
}  # fmt: skip
"""Values of every kind of column, the first of which is plain: it is inside wherever that is possible."""


_DAYS: Final = (
    "2000-02-28", "2000-02-29", "2000-03-01", "1900-02-28", "1900-03-01", "2023-12-31", "2024-01-01", "2024-01-02",
    "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-06", "2024-01-07", "2024-02-29", "2024-04-30", "2024-05-01",
    "2024-06-30", "2024-07-01", "2024-08-31", "2024-09-30", "2024-10-01", "2024-11-30", "2024-12-31", "1970-01-01",
    "1969-12-31", "1583-01-01", "2100-02-28", "2100-03-01", "9999-12-31",
)  # fmt: skip
"""Days of every month and of the week, at the ends of years and of Februaries."""

_LAST: Final = 9999
"""The largest number that is read off a date, except for the day itself."""

_FIRST_DAY: Final = 20231230
"""The least number of the tried range where the day itself is read, 2023-12-30."""

_COUNTED: Final = 3
"""The largest number of counted records of each person of the trial, who has twice `_KINDS` records."""

_KINDS: Final = 6
"""The number of different records of each person."""

_ADDED: Final = CodingWithMissing(Steps(Fraction(-2), Fraction(30), Fraction(1, 2)), ((-3,),))
"""The coding of the amounts that are added up."""

_PAIRS: Final = ((0.25, 0.25), (-3.0, -3.0), (1e300, -1e300), (20.0, 25.5), (-7.5, 4.0), (5.0, -3.0))
"""Pairs of amounts of records that agree in everything else.

In this order: two rounded one by one, two missing-value codes, two far outside the range, sums above and below the
range. In the last, one value is a missing-value code.
"""

_IDS: Final[Mapping[ColumnKind, tuple[Any, ...]]] = {
    ColumnKind.TEXT: (
        "p7",
        "P7",
        "p7 ",
        "",
        " ",
        "7",
        "07",
        *_TEXTS,
        *("long " * 204 + x for x in ("", "x", "X", "x ", "long ")),
    ),
    ColumnKind.FIXED: ("p7", "P7", "7", "07", "", *_HELD[ColumnKind.FIXED]),
    ColumnKind.INTEGER: (7, 70, *_HELD[ColumnKind.INTEGER]),
}
"""The ids, by the kind of the column that holds them."""


def refuse_unless_right(
    fetch: Fetch, d: Dialect, what: str, *, drop: bool, with_missing: bool = False, amounts: bool = False
) -> None:
    """Raise DataError if an engine counts known records otherwise than is declared.

    Args:
        fetch: The function that runs a statement in the session that will count.
        d: The dialect of the engine.
        what: The database in words, for the message.
        drop: True if records outside the domain will be dropped, and not reported.
        with_missing: True if absent values will be distinguished from those outside.
        amounts: True if amounts will be summed.
    """
    base = {**_CODINGS, **(_MISSING_CODINGS if with_missing else {})}
    parts = [base, _AMOUNTS] if amounts else [base]  # two statements, as engines bound the length of a statement
    if not all(_right(fetch, d, codings, drop=drop) for codings in parts):
        raise DataError(
            "engine-counts-differently",
            f"A trial shows that {what} does not count known records as declared.",
            "Your records may be counted wrongly, too, such as texts that differ in case.",
            "Copy the table into a Parquet file, and count that file.",
            "Nothing was read and nothing was charged.",
        )


def refuse_unless_bounded(
    fetch: Fetch,
    d: Dialect,
    what: str,
    kind: ColumnKind,
    *,
    drop: bool,
    pattern: Pattern = NO_PATTERN,
    uncounted: bool = False,
    shares: bool = False,
    merge: bool = False,
) -> None:
    """Raise DataError if an engine counts other records of made-up persons than is declared (see `persons`).

    Args:
        fetch: The function that runs a statement in the session that will count.
        d: The dialect of the engine.
        what: The database in words, for the message.
        kind: The kind of the column of ids.
        drop: True if records outside the domain will be dropped, and not reported.
        pattern: The pattern to which the counted records of one person keep; the trial uses sample rules of the same
            kinds.
        uncounted: True if the engine will also return the number of persons with records left out.
        shares: True if all records are counted in shares; persons of the trial have different numbers of records then.
        merge: True if amounts of records that agree in everything else are added up.
    """
    # A kind without a type of its own, such as SQLite's columns of any type, is tried as one of texts.
    kind = kind if kind in d.types else ColumnKind.TEXT
    margins: list[Margin] = [("x", "y"), ("y",), *([] if drop else [("x",), (ID_KEY,)])]
    margins += [("x", "z", ID_KEY)] if merge else []
    # Sample rules of the kinds that the real pattern has: its attributes do not exist in the trial.
    tried = Pattern(
        ("x",) if pattern.once_per else (),
        (("y", 2),) if pattern.per_value else (),
        (("x", 2),) if pattern.separation else (),
        ("y",) if pattern.fixed else (),
    )
    limit = None if shares else _COUNTED
    fields = {
        "x": Field(Range(0, _KINDS - 1), ColumnKind.INTEGER, "source.x"),
        "y": Field(_CODINGS["words"], ColumnKind.TEXT, "source.y"),
        **({"z": Field(_ADDED, ColumnKind.DOUBLE, "source.z")} if merge else {}),
    }
    person = replace(PersonColumn(kind, "source.id", tuple(fields), limit, tried), merge=("z",) if merge else ())
    held = {_literal(d, kind, x): person_id(x) for x in (*_IDS[kind], None)}
    texts = ("a", "A")
    trials = [(x, texts[x % 2], pair[i]) for i in range(2) for x, pair in enumerate(_PAIRS)]
    # A share depends on the number of records of a person, so persons have different numbers of records.
    many = [1 + i % len(trials) if shares else len(trials) for i in range(len(held))]
    ids = d.rows(["id", "many"], ([sql, str(n)] for sql, n in zip(held, many, strict=True)))
    added = ([_literal(d, ColumnKind.DOUBLE, z)] if merge else [] for _, _, z in trials)
    literals = ([str(x), _literal(d, ColumnKind.TEXT, y), *z] for (x, y, _), z in zip(trials, added, strict=True))
    rows = d.rows([*fields, "nth"], ([*cells, str(i)] for i, cells in enumerate(literals)))
    columns = ", ".join(["id", *fields])
    relation = f"(SELECT {columns} FROM ({ids}) ids CROSS JOIN ({rows}) own WHERE nth < many)"  # noqa: S608 - literals
    counts, outside = count(
        fetch, d, relation, fields, margins, ProgressFilter(None), drop=drop, person=person, is_trial=True
    )
    persons = PersonSelector(limit, person.cells, tried, {"z": _ADDED} if merge else {})
    trial_cells = [(x, x % 2, *((cell_of(uncut(_ADDED), z),) if merge else ())) for x, _, z in trials]
    for name, n in zip(held.values(), many, strict=True):
        if name is not None:
            persons.add([name.encode()] * n, trial_cells[:n])
    taken = [x for batch in persons.iter_counted() for x in batch]
    expected = {m: np.zeros_like(counts[m]) for m in margins if m != (ID_KEY,)}
    for m, out in expected.items():
        names = [a for a in m if a != ID_KEY]
        axes, steps = [person.cells.index(a) for a in names], [steps_of(fields[a].coding) for a in names]
        table, codes = out.reshape(out.shape[: len(axes)]), np.array([c for c, _ in taken])  # of ids there is one cell
        sum_up(table, [codes[:, i] for i in axes], steps, np.array([n for _, n in taken]))
    missing = sum(n for name, n in zip(held.values(), many, strict=True) if name is None)
    right = not uncounted or left_out(fetch, d, relation, fields, person, drop=drop) == persons.left_out()
    right = right and all(np.array_equal(counts[m], expected[m]) for m in expected)
    if not right or not (drop or outside == {**dict.fromkeys(fields, 0), ID_KEY: missing}):
        raise DataError(
            "engine-bounds-differently",
            f"A trial shows that {what} does not count the declared records of known units.",
            "Your records may be counted wrongly, too, such as ids that differ in case.",
            "Copy the table into a Parquet file, and count that file.",
            "Nothing was read and nothing was charged.",
        )


def known_values(kind: ColumnKind) -> tuple[Any, ...]:
    """Return values of a kind of column, the first of which is plain."""
    return _HELD[kind]


def known_days(read: DateField, first_day: str = "0001-01-01", last_day: str = "9999-12-31") -> list[str]:
    """Return days of every month and of the week, at the ends of years and of Februaries, as texts such as 2024-02-29.

    All are from `first_day` to `last_day`, both included. The day of an age is among them.
    """
    birthdays = () if read.on is None else (read.on.isoformat(),)
    return [day for day in dict.fromkeys((*_DAYS, *birthdays)) if first_day <= day <= last_day]


def refuse_unless_coded(
    cells: Callable[[Coding], Sequence[int]], what: str, kind: type[Code], values: Sequence[Any], read: DateField | None
) -> None:
    """Raise DataError if an engine codes known values of a column otherwise than is declared (`codings`).

    Args:
        cells: The function that returns the engine's cells of these values, by a coding.
        what: The description of the engine, for the message.
        kind: The type as which the column is read.
        values: The content of the column, or the parts read off its dates.
        read: The part read off dates; `None` for values.
    """
    low = _FIRST_DAY if read is not None and read.part is DatePart.DAY else 0
    all_codings = (*_CODINGS.values(), *_MISSING_CODINGS.values(), *_AMOUNTS.values())
    codings = all_codings if read is None else (Range(low, low + _LAST), Interval(low + 1.0, low + 2024.0))
    for coding in codings:
        # One column is tried alone, so the class of an amount is not at hand.
        is_tried = read_as(coding) is kind and classified_by(coding) is None
        if is_tried and list(cells(coding)) != [cell_of(coding, x) for x in values]:
            raise DataError(
                "engine-codes-differently",
                f"A trial shows that {what} does not read known values as declared, such as the last nanosecond of a "
                "day.",
                "Your values may be read wrongly, too.",
                "Install the version that fitnoise requires.",
                "Nothing was counted and nothing was charged.",
            )


def refuse_unless_dated(fetch: Fetch, d: Dialect, what: str, read: DateField, *, timed: bool) -> None:
    """Raise DataError if an engine reads other numbers off known dates than is declared (`dates`).

    Args:
        fetch: The function that runs a statement in the session that will count.
        d: The dialect of the engine.
        what: The database in words, for the message.
        read: The part that is read.
        timed: True if the dates have a time.
    """
    # An engine that rounds the last moment of a day gives the next day.
    template, times = (d.stamped, (" 00:00:00", f" 23:59:59{d.finest}")) if timed else (d.dated, ("",))
    held = known_days(read, *d.days)
    days = [day + time for day in held for time in times]
    rows = " UNION ALL ".join(f"SELECT {template.format(v=day)} AS x{d.dual}" for day in days)
    low = _FIRST_DAY if read.part is DatePart.DAY else 0
    fields = {"x": Field(Range(low, low + _LAST), ColumnKind.DATE, "source.x", read)}
    relation, fields, _ = prepared(d, f"({rows})", [], fields, None)
    counts, _ = count(fetch, d, relation, fields, [("x",)], ProgressFilter(None), drop=True, is_trial=True)
    expected = [n - low for day in days if (n := read.number(day)) is not None and 0 <= n - low <= _LAST]
    if not np.array_equal(counts["x",], np.bincount(np.array(expected, dtype=int), minlength=_LAST + 1)):
        raise DataError(
            "engine-reads-dates-differently",
            f"A trial shows that {what} does not read known dates as declared.",
            "Your dates may be read wrongly, too.",
            "Copy the table into a Parquet file, and count that file.",
            "Nothing was read and nothing was charged.",
        )


def _right(fetch: Fetch, d: Dialect, codings: Mapping[str, Coding], *, drop: bool) -> bool:
    """Return True if an engine counts known records by these codings as is declared."""
    fields, records = _fields(d, codings), list(_records(d))
    cells = _cells(fields, [values for _, values in records])
    relation = _relation(d, fields, [sql for sql, _ in records])
    # Records that a field refuses are left out of its tables alone, and reported: the second count below tries this.
    counted = {a: f for a, f in fields.items() if REFUSED not in without_cell(f.coding)}
    margins: list[Margin] = [*((a,) for a in counted), *pairwise(counted), ()]
    counts, _ = count(fetch, d, relation, counted, margins, ProgressFilter(None), drop=True, is_trial=True)
    # With `drop`, all margins are of the records that are inside in all of these fields.
    inside = np.all([cells[a] >= 0 for a in counted], axis=0)
    right = True
    for m in margins:
        expected = np.zeros([cells_of(fields[a].coding) for a in m], dtype=np.int64)
        columns, steps = [cells[a][inside] for a in m], [steps_of(fields[a].coding) for a in m]
        if any(steps):
            sum_up(expected, columns, steps, np.ones(inside.sum(), dtype=np.int64))
        else:
            np.add.at(expected, tuple(columns), 1 if m else inside.sum())
        right &= np.array_equal(counts[m], expected)
    if right and reported(fields, drop=drop):
        _, outside = count(
            fetch, d, relation, fields, [(a,) for a in fields], ProgressFilter(None), drop=drop, is_trial=True
        )
        is_kept = ~np.any([np.isin(c, [DROPPED, *([OUTSIDE] if drop else [])]) for c in cells.values()], axis=0)
        right = outside == {a: int((c[is_kept] < 0).sum()) for a, c in cells.items()}
    return bool(right)


def _fields(d: Dialect, codings: Mapping[str, Coding]) -> dict[str, Field]:
    """Return a field, by a name of its own, for each kind of column and each coding that can be read from it.

    Codings for which the plain value of the kind is outside are left out.
    """
    fitting = [
        (f"{name} of {kind}", _of_kind(coding, kind), kind)
        for kind in d.types
        for name, coding in codings.items()
        if kind in READABLE_COLUMN_KINDS[read_as(coding)][0]
        and class_coding(coding, 0).cell(_HELD[kind][0]) is not None
    ]
    return {name: Field(coding, kind, f"source.f{i}") for i, (name, coding, kind) in enumerate(fitting)}


def _of_kind(coding: Coding, kind: ColumnKind) -> Coding:
    """Return the coding; an amount with a range by another field gets that field in the same kind of column."""
    return (
        replace(coding, attribute=f"{coding.attribute} of {kind}")
        if isinstance(coding, Steps) and coding.attribute
        else coding
    )


def _records(d: Dialect) -> Iterator[tuple[list[str], dict[ColumnKind, Any]]]:
    """Yield records with a column for every kind, as literals and as the values they stand for."""
    defaults = {kind: _HELD[kind][0] for kind in d.types}
    literals = {kind: _literal(d, kind, x) for kind, x in defaults.items()}
    for kind in d.types:
        trials = [(_literal(d, kind, x), x) for x in (*_HELD[kind], None) if x != "" or d.empty]
        trials += [(f"CAST({sql} AS {d.types[kind]})", x) for k, sql, x in d.odd if k is kind]
        for sql, x in trials:
            yield [*(literals | {kind: sql}).values()], defaults | {kind: x}


def _literal(d: Dialect, kind: ColumnKind, x: Any) -> str:
    """Return a value of a column of a kind, as SQL of the engine."""
    if x is None:
        sql = "NULL"
    elif isinstance(x, str):
        sql = d.letters.format(h=x.encode(d.encoding).hex())
    elif isinstance(x, float):
        sql = d.number(x)
    else:
        sql = f"'{x}'" if isinstance(x, Decimal) else str(int(x))
    return f"CAST({sql} AS {d.types[kind]})"


def _relation(d: Dialect, fields: Mapping[str, Field], records: Iterable[Sequence[str]]) -> str:
    """Return SQL with a row for each field and each record.

    In the row, this field has the record's value, and all other fields have plain values.
    """
    held = d.rows([f"{kind}_held" for kind in d.types], records)
    turns = d.rows(["turn"], ([str(i)] for i in range(len(fields))))
    columns = ", ".join(
        f"CASE WHEN turn = {i} THEN {f.kind}_held ELSE {_literal(d, f.kind, _HELD[f.kind][0])} END AS f{i}"
        for i, f in enumerate(fields.values())
    )
    return f"(SELECT {columns} FROM ({held}) held CROSS JOIN ({turns}) turns)"  # noqa: S608 - of literals above


def _cells(fields: Mapping[str, Field], values: Sequence[Mapping[ColumnKind, Any]]) -> dict[str, NDArray[np.int64]]:
    """Return the cells of the rows of `_relation`, by field: OUTSIDE, DROPPED or REFUSED for a value without a cell.

    Each array has the shape (fields · records,), the rows of the first field first.
    """
    cells: dict[str, NDArray[np.int64]] = {}
    for i, (a, f) in enumerate(fields.items()):
        classifier = classified_by(f.coding)
        held = [_HELD[f.kind][0]]
        if classifier is None:
            out = np.full((len(fields), len(values)), f.coding.cell(*held))
            out[i] = [cell_of(f.coding, v[f.kind]) for v in values]
        else:  # the plain value in every class, and all values in the plain one
            kinds = cells[classifier].reshape(len(fields), len(values))
            out = np.array([[cell_of(class_coding(f.coding, int(x)), *held) for x in row] for row in kinds])
            out[i] = [cell_of(class_coding(f.coding, int(x)), v[f.kind]) for x, v in zip(kinds[i], values, strict=True)]
        cells[a] = out.ravel()
    return cells
