"""Counting where the data are: in a database, of which only counts come back. Part of the trust kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from fitnoise.errors import DataError
from fitnoise.kernel.codings import Codes
from fitnoise.kernel.counting._base import Counter, Gauge, Margin, Margins, Progress
from fitnoise.kernel.counting.databases import Database, Session
from fitnoise.kernel.counting.dialects import FITTING, Kind, read_as
from fitnoise.kernel.counting.sources import wrong_type
from fitnoise.kernel.counting.statements import Field, count
from fitnoise.kernel.counting.trial import refuse_unless_right
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import DataSource


@final
class SqlCounter(Counter):
    """Counts the records of a table in a database, there.

    Nothing is held open between calls: a connection is made for each and closed, with its transaction, at its end.
    Before it counts, the engine is tried in the same session on known records.

    Args:
        database: where the table is, and how to get there.
        domain: the declared domain.
        source: which table it is, and what to do with records outside the domain.

    Raises:
        DataError: the database cannot be reached, or has no such table.
    """

    def __init__(self, database: Database, domain: Domain, source: DataSource) -> None:
        self._database = database
        self._domain = domain
        self._source = source
        self.check([])

    @property
    def drops(self) -> bool:
        """As the source says."""
        return self._source.drops

    def check(self, attributes: Sequence[str]) -> None:
        """Raise DataError for a missing or ambiguous column or one of the wrong type; reads no record."""
        with self._database.session(self._source.table) as session:
            for a in attributes:
                self._field(session, a)

    def count(self, margins: Sequence[Margin], progress: Progress | None = None) -> Margins:
        """All margins by one statement; beside the counts it takes some megabytes.

        An engine does not say how far it is: progress is told at the end, but for SQLite.

        Raises:
            DataError: also if the engine counts known records otherwise than is declared, or if the margins do not fit
                into one statement.
        """
        margins = list(dict.fromkeys(margins))
        if not margins:
            return {}
        asked = {a for m in margins for a in m}
        gauge = Gauge(progress)
        with self._database.session(self._source.table) as session:
            fields = {a: self._field(session, a) for a in self._domain.sizes if a in asked}
            refuse_unless_right(session.fetch, session.dialect, self._database.what, drop=self.drops)
            counts, outside = count(
                session.fetch, session.dialect, session.relation, fields, margins, gauge, drop=self.drops
            )
        if not self.drops:
            session.refuse(self._domain, outside)
        gauge.finish()
        return counts

    def _field(self, session: Session, a: str) -> Field:
        """The column of an attribute; DataError for one of a wrong type."""
        place, coding = session.place(self._domain, a), self._domain[a].coding
        kind, called = session.kinds[place]
        fitting, words = FITTING[read_as(coding)]
        if kind is None or kind not in fitting:
            raise wrong_type(self._domain, a, called, words)
        if kind is Kind.FIXED and isinstance(coding, Codes) and any(str(c).endswith(" ") for c in coding.codes):
            raise DataError(
                f"column {self._domain.column(a)!r} is of type {called}, whose texts end in no blank; attribute {a!r} "
                "declares a code that does. Leave the blanks out of the codes. Nothing was counted."
            )
        return Field(coding, kind, session.column(place))
