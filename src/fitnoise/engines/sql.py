"""Counting inside a database.

**Purpose.** Only counts leave the database, except for SQLite: its records are read out and counted in this process.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import final

from fitnoise.engines.databases import Database, DatabaseSession
from fitnoise.engines.dialects import coded
from fitnoise.engines.engine_check import (
    refuse_unless_bounded,
    refuse_unless_dated,
    refuse_unless_formatted,
    refuse_unless_right,
)
from fitnoise.engines.rules import rule_columns
from fitnoise.engines.sources import (
    DATE_COLUMN_TEXT,
    MAX_TEXTS_LOOKED_AT,
    no_forms,
    standing,
    wrong_condition,
    wrong_id,
    wrong_type,
)
from fitnoise.engines.spark import Spark, SparkTable
from fitnoise.engines.statements import Field, PersonColumn, count, left_out, prepared, reported, with_rules
from fitnoise.engines.texts import read_texts
from fitnoise.engines.views import refuse_replaced
from fitnoise.errors import DataError
from fitnoise.kernel.codings import Coding
from fitnoise.kernel.conditions import Condition
from fitnoise.kernel.counting._base import DeclaredCounter, Lost, Margin, Margins, Progress, ProgressFilter
from fitnoise.kernel.counting.persons import ID_KEY, counted_by
from fitnoise.kernel.counting.trial import READABLE_COLUMN_KINDS, ColumnKind
from fitnoise.kernel.dates import DateField, DatePart
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.formats import Format, column_reader, forms_met
from fitnoise.kernel.units import DataSource, RecordBound


@final
class SqlCounter(DeclaredCounter):
    """A counter of the records of a table inside a database.

    Nothing is held open between calls: a connection is made for each call and closed, with its transaction, at its end.
    Before it counts, the engine is tried in the same session on known records.

    Args:
        database: The database and its address; or Spark.
        domain: The declared domain.
        source: The data source, with its table, the conditions, and the action for records outside the domain.
        bound: The bound on counted records of a person, with the column of the id; `None` counts all.

    Raises:
        DataError: The database cannot be reached, has no such table, or cannot distinguish persons by an id.
        DataError: A column of an attribute that drops records, of a condition or of the id is missing, ambiguous, or of
            the wrong type. With a bound, this holds for the column of every attribute.
    """

    def __init__(
        self, database: Database | Spark, domain: Domain, source: DataSource, bound: RecordBound | None = None
    ) -> None:
        if bound is not None and not (database.dialect.digest or database.dialect.streams):
            raise DataError(
                "database-without-md5",
                f"An id is set, and {database.what} has no MD5 of texts in UTF-8.",
                "MD5 orders the records of each unit.",
                "Copy the table into a Parquet file, and count that file.",
                "Nothing was read and nothing was charged.",
                place="privacy.id",
            )
        super().__init__(domain, source, bound)
        self._database = database
        self._rules = rule_columns(domain, source)
        # A wrong table or column is an error here, where the data are named.
        with self._session() as session:
            self._check(session, [])
            self.view = session.view

    def _session(self) -> AbstractContextManager[DatabaseSession | SparkTable]:
        return self._database.session(self._source.table, self._source.view)

    def check(self, attributes: Sequence[str]) -> None:
        """Raise DataError for a missing or ambiguous column or one of the wrong type; read no record."""
        with self._session() as session:
            self._check(session, attributes)

    def _check(self, session: DatabaseSession | SparkTable, attributes: Sequence[str]) -> None:
        self._fields(session, [tuple(attributes)] if attributes else [])
        self._condition_fields(session)

    def count(self, margins: Sequence[Margin], progress: Progress | None = None) -> Margins:
        """Return all margins by one statement, in the memory of the counts and some megabytes.

        The engine first counts known records in a trial. One more statement counts dropped records, where records can
        be dropped. An engine does not report its progress: the gauge moves at the end only. SQLite's records are
        counted here as they come. With a bound, the process then holds the cells of all persons' records.

        Raises:
            DataError: The engine counts known records otherwise than is declared.
            DataError: The margins do not fit into one statement, or someone wrote to the table during the count.
        """
        margins = list(dict.fromkeys(margins))
        self.dropped = None
        if not margins:
            return {}
        gauge, lost = ProgressFilter(progress), Lost() if self._domain.drops_values(self._source, self.bound) else None
        with self._session() as session:
            relation, fields, person, pages = self._tried(session, margins)
            drop, used = self._source.drops, {a for m in margins for a in m}
            # Records outside an attribute are reported by a margin of that attribute.
            extra = [(a,) for a in reported(fields, drop=drop) if person is not None or a not in used]  # may be outside
            extra += [] if person is None or drop else [(ID_KEY,)]
            queried, d = [*margins, *extra], session.dialect
            refuse_replaced(session.what, self.view, session.view)
            with standing(session.what, session.state):
                counts, outside = count(
                    session.fetch,
                    d,
                    relation,
                    fields,
                    queried,
                    gauge,
                    drop=drop,
                    person=person,
                    pages=pages,
                    lost=lost,
                    rules=self._rules,
                )
        session.refuse(self._domain, outside, self.bound, self._forms_met if session.dialect.streams else no_forms)
        self.dropped = None if lost is None else lost.report(self._domain)
        gauge.finish()
        return {m: counts[m] for m in margins}

    def _forms_met(self, attribute: str) -> list[Format]:
        """Return the usual formats that would read texts of an attribute without a cell, from records of SQLite."""
        with self._session() as session:
            column = session.column(session.position(self._domain, attribute))
            where = f"FROM {session.relation} source WHERE typeof({column}) = 'text'"
            distinct = f"SELECT DISTINCT CAST({column} AS BLOB) {where} LIMIT {MAX_TEXTS_LOOKED_AT}"
            texts = [x.decode(errors="replace") for rows in session.fetch(distinct) for (x,) in rows]
        reader = column_reader(self._domain, self._source, self._domain.column(attribute))
        return forms_met(self._domain[attribute], reader, texts)

    def left_out(self) -> int:
        """Return the number of units with records left out, by one more statement.

        The engine first counts known records in a trial, as in :meth:`count`. Each person changes the result by one at
        most, by the records of that person alone.

        Raises:
            DataError: There is no bound, or all records count in shares; or see :meth:`count`.
        """
        with self._session() as session:
            relation, fields, person, _ = self._tried(session, [], uncounted=True)
            if person is None or person.cap is None:
                return super().left_out()
            with standing(session.what, session.state):
                drop, fetch, d = self._source.drops, session.fetch, session.dialect
                return left_out(fetch, d, relation, fields, person, drop=drop, rules=self._rules)

    def _tried(
        self, session: DatabaseSession | SparkTable, margins: Sequence[Margin], *, uncounted: bool = False
    ) -> tuple[str, dict[str, Field], PersonColumn | None, int]:
        """Try the engine; return SQL for the records, their fields, the column of the id and the number of pages.

        The column of the id is `None` without a bound, and the number is 0 for records that are read in one piece.

        uncounted: True to try also the number of persons with records left out.

        Raises:
            DataError: The engine counts known records otherwise than declared; or see `check`.
        """
        fields, person = self._fields(session, margins)
        drop, fetch, d, what = self._source.drops, session.fetch, session.dialect, self._database.what
        with_missing = any(f.coding.values is not f.coding for f in fields.values())
        amounts = not self._domain.steps.keys().isdisjoint(fields)
        rules = (self._source.outside_rules or self._source.outside_domain) if self._rules else None
        conditions = self._condition_fields(session)
        numerals = any(f.kind is ColumnKind.NUMERAL for f in (*fields.values(), *conditions))
        refuse_unless_right(
            fetch, d, what, drop=drop, with_missing=with_missing, amounts=amounts, rules=rules, numerals=numerals
        )
        if person is not None:
            shares = person.cap is None
            refuse_unless_bounded(
                fetch,
                d,
                what,
                person.kind,
                drop=drop,
                pattern=person.pattern,
                uncounted=uncounted and not shares,
                shares=shares,
                merge=bool(person.merge),
            )
        for f in (*fields.values(), *conditions):
            if f.read is not None and not d.streams:
                in_text = f.kind is ColumnKind.TEXT
                refuse_unless_dated(fetch, d, what, f.read, timed=f.kind is ColumnKind.STAMP, in_text=in_text)
        for reader in dict.fromkeys(f.form for f in (*fields.values(), *conditions)):
            if reader is not None:
                refuse_unless_formatted(fetch, d, what, reader)
        relation, fields, conditions, person = read_texts(d, session.relation, fields, conditions, person)
        # Pieces of a table go by the position of a record, which queries inside queries hide.
        pages = session.pages if relation == session.relation else 0
        relation, fields, person = prepared(d, relation, conditions, fields, person, pages)
        return relation, with_rules(d, fields, self._rules), person, pages

    def _fields(
        self, session: DatabaseSession | SparkTable, margins: Sequence[Margin]
    ) -> tuple[dict[str, Field], PersonColumn | None]:
        """Return the columns of all attributes by which records are counted, and of the id (`None` without a bound)."""
        used = [a for a in counted_by(self._domain, margins, self.bound, drop=self._source.drops) if a != ID_KEY]
        return {a: self._field(session, a) for a in used}, self._person(session)

    def _person(self, session: DatabaseSession | SparkTable) -> PersonColumn | None:
        """Return the column of the id, `None` without a bound; raise DataError for a column of a wrong type."""
        if self.bound is None:
            return None
        index = session.place_of_id(self._domain, self.bound.id)
        kind, type_name = session.kinds[index]
        if kind not in {ColumnKind.INTEGER, ColumnKind.TEXT, ColumnKind.FIXED, ColumnKind.ANY}:
            raise wrong_id(self.bound, type_name)
        _, limit, pattern, merge = self.bound
        return PersonColumn(kind, session.column(index), list(self._domain), limit, pattern, merge)

    def _field(self, session: DatabaseSession | SparkTable, a: str) -> Field:
        """Return the column of an attribute; raise DataError for one of a wrong type."""
        index, coding = session.position(self._domain, a), self._domain[a].coding
        type_name = session.kinds[index][1]
        read = self._domain[a].date_part
        kind = _kind_read(session, index, coding, read)
        fitting, types = READABLE_COLUMN_KINDS[coding.kind]
        if read is not None:
            timed = read.part is DatePart.HOUR
            fitting, types = _dated(session, timed=timed), DATE_COLUMN_TEXT[timed]
        if kind is None or kind not in fitting:
            raise wrong_type(self._domain, a, type_name, types)
        field = self._read(session, index, Field(coding, kind, "", read), self._domain.column(a))
        if read is not None:
            return field
        _refuse_blanks(coding, session.kinds[index][0], type_name, self._domain.column(a), f"the attribute {a!r}")
        longest = session.dialect.longest
        listed = coded(coding).codes if coding.kind is str else ()
        if longest is not None and any(len(str(c).encode()) >= longest for c in listed):
            raise DataError(
                "code-too-long-for-database",
                f"The attribute {a!r} declares a code of {longest:,} bytes or more.",
                f"{session.dialect.label} may take such a code for another one.",
                "Declare shorter codes, or copy the table into a Parquet file and count that file.",
                "Nothing was counted.",
                place=a,
            )
        return field

    def _read(self, session: DatabaseSession | SparkTable, index: int, field: Field, column: str) -> Field:
        """Return a field with SQL for its column, and the function that reads texts in their declared form.

        Raises:
            DataError: The engine does not read such a form.
        """
        reader, d = column_reader(self._domain, self._source, column), session.dialect
        if reader is not None and isinstance(session, DatabaseSession) and d.streams:
            return replace(field, column=session.in_format(index, reader))  # any column of SQLite may hold texts
        sql, held = session.column(index), session.kinds[index][0]
        reader = reader if held in {ColumnKind.TEXT, ColumnKind.FIXED} else None
        if reader is not None and not d.reads(reader.form):
            raise DataError(
                "format-not-read-in-database",
                f"A format is declared for the texts in the column {column!r}.",
                f"Fitnoise does not read such texts in {d.label}, because it has no exact way to do so.",
                "Store the column in its own type, or copy the table into a Parquet file and count that file.",
                "Nothing was counted.",
                place=column,
            )
        is_read = reader is not None or field.read is not None or field.kind is ColumnKind.NUMERAL
        if held is ColumnKind.FIXED and is_read:
            kind = ColumnKind.TEXT if field.kind is ColumnKind.FIXED else field.kind
            field, sql = replace(field, kind=kind), f"RTRIM({sql})"
        return replace(field, column=sql, form=reader)

    def _condition_fields(self, session: DatabaseSession | SparkTable) -> list[Field]:
        """Return the columns of all conditions; raise DataError for one of a wrong type."""
        return [self._condition(session, c) for c in self.where]

    def _condition(self, session: DatabaseSession | SparkTable, c: Condition) -> Field:
        index = session.place_of_condition(self._domain, c)
        type_name, kind = session.kinds[index][1], _kind_read(session, index, c.coding, c.read)
        fitting, types = READABLE_COLUMN_KINDS[c.coding.kind]
        if c.read is not None:
            fitting, types = _dated(session, timed=False), DATE_COLUMN_TEXT[0]
        if kind is None or kind not in fitting:
            raise wrong_condition(c, type_name, types)
        _refuse_blanks(c.coding, session.kinds[index][0], type_name, c.column, "the condition on it")
        return self._read(session, index, Field(c.coding, kind, "", c.read), c.column)


def _kind_read(
    session: DatabaseSession | SparkTable, index: int, coding: Coding, read: DateField | None
) -> ColumnKind | None:
    """Return the kind of a column as it is read by a coding: numbers are read from texts where an engine can."""
    kind = session.kinds[index][0]
    reads = ColumnKind.NUMERAL in session.dialect.types and coding.kind is int and read is None
    return ColumnKind.NUMERAL if reads and kind in {ColumnKind.TEXT, ColumnKind.FIXED} else kind


def _dated(session: DatabaseSession | SparkTable, *, timed: bool) -> frozenset[ColumnKind]:
    """Return the kinds of columns off which a date part is read; with `timed` those with an hour.

    In SQLite each value is tested, and has an hour or not. So have texts in the databases that read them.
    """
    d = session.dialect
    texts = {ColumnKind.DATE, ColumnKind.ANY} if d.streams else set()
    texts |= {ColumnKind.TEXT, ColumnKind.FIXED} if d.streams or d.reads_texts else set()
    return frozenset({ColumnKind.STAMP, *texts, *([] if timed else [ColumnKind.DATE])})


def _refuse_blanks(coding: Coding, kind: ColumnKind | None, type_name: str, column: str, who: str) -> None:
    """Raise DataError for a code that ends in a blank, if the column has texts of fixed length.

    Such texts are read without their final blanks.
    """
    listed = coded(coding).codes if coding.kind is str else ()
    if kind is ColumnKind.FIXED and any(str(c).endswith(" ") for c in listed):
        raise DataError(
            "code-with-final-blank",
            f"The column {column!r} is of the type {type_name}, and {who} declares a code that ends in a blank.",
            "fitnoise reads texts of this type without their final blanks.",
            "Remove the final blanks from the codes.",
            "Nothing was counted.",
            place=column,
        )
