"""The statements of the trial: its known records as literals of an engine's own language.

**Purpose.** The kernel has the records, and compares the counts (:mod:`fitnoise.kernel.counting.trial`). Here the
records become further statements of the session that will count, over literals, so it needs no right to write. Only
:func:`refuse_unless_dated` compares the counts here: those of days.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from fitnoise.engines.dialects import Dialect
from fitnoise.engines.rules import rule_columns
from fitnoise.engines.statements import Fetch, Field, PersonColumn, count, left_out, prepared, with_rules
from fitnoise.engines.texts import Columns, read_texts, text_read
from fitnoise.errors import DataError
from fitnoise.kernel.codings import DROPPED, REFUSED, Coding, Range
from fitnoise.kernel.counting import trial
from fitnoise.kernel.counting._base import Lost, Margin, Margins, ProgressFilter
from fitnoise.kernel.counting.trial import (
    FIRST_DAY,
    HELD,
    LAST_NUMBER,
    ColumnKind,
    PersonTrial,
    counts_known_records,
    known_days,
    ruled_domain,
    trial_columns,
)
from fitnoise.kernel.dates import DateField, DatePart
from fitnoise.kernel.domain import NO_RULES
from fitnoise.kernel.formats import DATED_TEXTS, TextReader, known_texts
from fitnoise.kernel.units import NO_PATTERN, DataSource, OutsideDomain, Pattern


def refuse_unless_right(
    fetch: Fetch,
    d: Dialect,
    what: str,
    *,
    drop: bool,
    with_missing: bool = False,
    amounts: bool = False,
    rules: OutsideDomain | None = None,
    numerals: bool = False,
) -> None:
    """Raise DataError if an engine counts known records otherwise than is declared.

    Args:
        fetch: The function that runs a statement in the session that will count.
        d: The dialect of the engine.
        what: The database in words, for the message.
        drop: True if records outside the domain will be dropped, and not reported.
        with_missing: True if absent values will be distinguished from those outside.
        amounts: True if amounts will be summed.
        rules: The action for records in impossible cells; default there are no rules about these.
        numerals: True if numbers will be read from texts.
    """
    # Another kind of column makes the statement longer, so it is tried only where it is read.
    kinds = [kind for kind in d.types if numerals or kind is not ColumnKind.NUMERAL]
    base = {**trial.CODINGS, **(trial.MISSING_CODINGS if with_missing else {})}
    parts = [base, trial.AMOUNTS] if amounts else [base]  # engines bound the length of a statement
    is_right = all(_right(fetch, d, codings, kinds, drop=drop) for codings in parts)
    ruled = {a: c for a, c in base.items() if a in trial.RULED}
    # Only if records are dropped do the tables show which ones a rule excludes. Their number can be right by accident.
    for action in dict.fromkeys((OutsideDomain.DROP, rules)) if rules is not None else ():
        is_right = is_right and _right(fetch, d, ruled, kinds, drop=drop, rules=action)
    if not is_right:
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
    trial_of_persons = PersonTrial(kind, pattern, shares, merge)
    fields = {a: Field(c.coding, c.kind, f"source.{a}") for a, c in trial_of_persons.columns.items()}
    rules = rule_columns(
        trial_of_persons.domain, DataSource(outside_rules=OutsideDomain.DROP if drop else OutsideDomain.REFUSE)
    )
    merged = ("z",) if merge else ()
    person = replace(
        PersonColumn(kind, "source.id", tuple(fields), trial_of_persons.limit, trial_of_persons.tried), merge=merged
    )
    ids = d.rows(["id", "many"], ([_literal(d, kind, x), str(n)] for x, n in trial_of_persons.persons))
    kinds = [f.kind for f in fields.values()]
    records = ([_literal(d, k, x) for k, x in zip(kinds, r, strict=False)] for r in trial_of_persons.records)
    rows = d.rows([*fields, "nth"], ([*literals, str(i)] for i, literals in enumerate(records)))
    columns = ", ".join(["id", *fields])
    relation = f"(SELECT {columns} FROM ({ids}) ids CROSS JOIN ({rows}) own WHERE nth < many)"  # noqa: S608 - literals
    margins, gauge, lost = trial_of_persons.margins(drop=drop), ProgressFilter(None), Lost() if drop else None
    fields = with_rules(d, fields, rules)
    counts, outside = count(
        fetch, d, relation, fields, margins, gauge, drop=drop, person=person, is_trial=True, lost=lost, rules=rules
    )
    dropped = outside if lost is None else lost.report(trial_of_persons.domain)
    number = left_out(fetch, d, relation, fields, person, drop=drop, rules=rules) if uncounted else None
    trial_of_persons.refuse_unless_right(counts, dropped, number, what=what)


def refuse_unless_formatted(fetch: Fetch, d: Dialect, what: str, reader: TextReader) -> None:
    """Raise DataError if an engine reads known texts in a declared form otherwise than is declared (`formats`).

    Args:
        fetch: The function that runs a statement in the session that will count.
        d: The dialect of the engine.
        what: The database in words, for the message.
        reader: The function that reads the texts.
    """
    texts = [x for x in known_texts(reader) if x or d.empty]
    columns = Columns(d)
    index, read = columns("source.number"), text_read(columns, "source.held", reader)
    literals = ([str(i), _literal(d, ColumnKind.TEXT, x)] for i, x in enumerate(texts))
    relation = columns.relation(f"({replace(d, listed=True).rows(['number', 'held'], literals)})")
    held = [tuple(row) for rows in fetch(f"SELECT {index}, {read} FROM {relation} source{d.ending}") for row in rows]  # noqa: S608 - literals
    if sorted(held) != [(i, reader(x)) for i, x in enumerate(texts)]:
        raise DataError(
            "engine-reads-forms-differently",
            f"A trial shows that {what} does not read known texts in their declared form.",
            "Your texts may be read wrongly, too.",
            "Copy the table into a Parquet file, and count that file.",
            "Nothing was read and nothing was charged.",
        )


def refuse_unless_dated(
    fetch: Fetch, d: Dialect, what: str, read: DateField, *, timed: bool, in_text: bool = False
) -> None:
    """Raise DataError if an engine reads other numbers off known dates than is declared (`dates`).

    Args:
        fetch: The function that runs a statement in the session that will count.
        d: The dialect of the engine.
        what: The database in words, for the message.
        read: The part that is read.
        timed: True if the dates have a time.
        in_text: True if the dates are texts, with a time or without.
    """
    # An engine that rounds the last moment of a day gives the next day.
    template, times = (d.stamped, (" 00:00:00", f" 23:59:59{d.finest}")) if timed else (d.dated, ("",))
    held = known_days(read, *d.days)
    days = [day + time for day in held for time in times]
    literals, kind = [template.format(v=day) for day in days], ColumnKind.DATE
    if in_text:
        days = [*held, *DATED_TEXTS]
        literals, kind = [_literal(d, ColumnKind.TEXT, day) for day in days], ColumnKind.TEXT
    rows = " UNION ALL ".join(f"SELECT {x} AS x{d.dual}" for x in literals)
    low = FIRST_DAY if read.part is DatePart.DAY else 0
    fields = {"x": Field(Range(low, low + LAST_NUMBER), kind, "source.x", read)}
    relation, fields, _, _ = read_texts(d, f"({rows})", fields, [], None)
    relation, fields, _ = prepared(d, relation, [], fields, None)
    counts, _ = count(fetch, d, relation, fields, [("x",)], ProgressFilter(None), drop=True, is_trial=True)
    expected = [n - low for day in days if (n := read.number(day)) is not None and 0 <= n - low <= LAST_NUMBER]
    if not np.array_equal(counts["x",], np.bincount(np.array(expected, dtype=int), minlength=LAST_NUMBER + 1)):
        raise DataError(
            "engine-reads-dates-differently",
            f"A trial shows that {what} does not read known dates as declared.",
            "Your dates may be read wrongly, too.",
            "Copy the table into a Parquet file, and count that file.",
            "Nothing was read and nothing was charged.",
        )


def _right(
    fetch: Fetch,
    d: Dialect,
    codings: Mapping[str, Coding],
    kinds: Collection[ColumnKind],
    *,
    drop: bool,
    rules: OutsideDomain | None = None,
) -> bool:
    """Return True if an engine counts known records by these codings, from these kinds of columns, as is declared.

    It also applies rules about them.
    """
    columns_tried, fields, records = trial_columns(kinds, codings), _fields(kinds, codings), list(_records(d, kinds))
    ruled = None if rules is None else ruled_domain(columns_tried)
    columns_of_rules = NO_RULES if ruled is None else rule_columns(ruled, DataSource(outside_rules=rules))
    by_rule = REFUSED if rules is OutsideDomain.REFUSE else DROPPED
    relation = _relation(d, kinds, fields, [sql for sql, _ in records])

    def count_known(
        columns: Collection[str], margins: Sequence[Margin], *, drop: bool, lost: Lost | None = None
    ) -> tuple[Margins, dict[str, int]]:
        applied = {name: rule for name, rule in columns_of_rules.items() if name in columns}
        used = with_rules(d, {a: fields[a] for a in columns if a not in applied}, applied)
        gauge = ProgressFilter(None)
        records, used, _, _ = read_texts(d, relation, used, [], None)
        return count(fetch, d, records, used, margins, gauge, drop=drop, is_trial=True, lost=lost, rules=applied)

    values = [x for _, x in records]
    return counts_known_records(count_known, columns_tried, values, drop=drop, ruled=ruled, by_rule=by_rule)


def _fields(kinds: Collection[ColumnKind], codings: Mapping[str, Coding]) -> dict[str, Field]:
    """Return the columns of the trial in the relation of known records."""
    columns = trial_columns(kinds, codings)
    return {a: Field(c.coding, c.kind, f"source.f{i}") for i, (a, c) in enumerate(columns.items())}


def _records(d: Dialect, kinds: Collection[ColumnKind]) -> Iterator[tuple[list[str], dict[ColumnKind, Any]]]:
    """Yield records with a column for every kind, as literals and as the values they stand for."""
    defaults = {kind: HELD[kind][0] for kind in kinds}
    literals = {kind: _literal(d, kind, x) for kind, x in defaults.items()}
    for kind in kinds:
        trials = [(_literal(d, kind, x), x) for x in (*HELD[kind], None) if x != "" or d.empty]
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


def _relation(
    d: Dialect, kinds: Iterable[ColumnKind], fields: Mapping[str, Field], records: Iterable[Sequence[str]]
) -> str:
    """Return SQL with a row for each field and each record.

    In the row, this field has the record's value, and all other fields have plain values.
    """
    names = {kind: f"held{i}" for i, kind in enumerate(kinds)}
    held = d.rows(list(names.values()), records)
    turns = d.rows(["turn"], ([str(i)] for i in range(len(fields))))
    columns = ", ".join(
        f"CASE WHEN turn = {i} THEN {names[f.kind]} ELSE {_literal(d, f.kind, HELD[f.kind][0])} END AS f{i}"
        for i, f in enumerate(fields.values())
    )
    return f"(SELECT {columns} FROM ({held}) held CROSS JOIN ({turns}) turns)"  # noqa: S608 - of literals above
