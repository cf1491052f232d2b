"""Access to a table in a database: addresses, connections, columns.

**Purpose.** This module opens a connection and describes the columns of a table. SQLAlchemy connects, and is loaded
when a database is: an extra. The module passes on no error text of SQLAlchemy or an engine, since it may quote a value,
a host or a user. No message states the place of a database or its user.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from fitnoise.engines.dialects import DIALECTS, SQLITE, Dialect
from fitnoise.engines.sources import Columns, not_counted, quietly
from fitnoise.engines.statements import NUMBER_FUNCTION, as_number
from fitnoise.engines.views import (
    STORED,
    VIEW,
    FoundView,
    NotProvenError,
    Relation,
    Selection,
    ViewProof,
    found_view,
    prove,
)
from fitnoise.errors import DataError
from fitnoise.kernel.counting.failures import not_opened
from fitnoise.kernel.counting.trial import ColumnKind
from fitnoise.kernel.formats import TextReader

if TYPE_CHECKING:
    import sqlalchemy as sa

ENVIRONMENT: Final = "env:"
"""The prefix of an address that is the name of a variable of the environment."""

ADVICE: Final = "Ask the owner of the database whether it is running, and whether you may read the table."

_URL = re.compile(r"(\w+)(\+\w+)?://")

_SECRET = re.compile("pass|pwd|secret|token|credential|private_key|access_key|auth", re.IGNORECASE)
"""Names of secret parameters of an address; a parameter with one of these in its name or value is not public."""

_NOTHING = "Nothing was read and nothing was charged."

_UNCHARGED = "Nothing was measured and nothing was charged."

_ROWS_PER_FETCH = 2**14
"""The number of rows fetched at a time."""

_MAX_TEXTS_REMEMBERED = 2**16
"""The largest number of different texts of a column whose reading in a declared form is remembered."""

_SQLITE_MAGIC = b"SQLite format 3\0"

_MAX_TABLES_IN_MESSAGE = 20
"""The largest number of tables that a message names."""


@final
@dataclass(frozen=True)
class Database:
    """A database, and the way to connect to it.

    engine: The SQLAlchemy engine of the caller, or one made from an address.
    dialect: The SQL and the settings of this kind of database.
    shared: True if `engine` is the caller's. Its other users must not get a connection whose session was changed.
    """

    engine: sa.Engine
    dialect: Dialect
    shared: bool = False

    @property
    def what(self) -> str:
        """The database, for messages, without its address or its user."""
        return f"the {self.dialect.label} database"

    @contextlib.contextmanager
    def session(self, table: str | None, promise: str | None = None) -> Iterator[DatabaseSession]:
        """Yield a session of its own, with one transaction that changes nothing, closed at the end.

        Args:
            table: The name of the table or view.
            promise: The promise of the publisher about a view (`DataSource.view`).

        Raises:
            DataError: The database cannot be reached, or has no such table.
            DataError: It is a view of which nothing is proved and nothing promised.
            DataError: The engine cannot count the table safely, or does not answer the questions about it.
        """
        unreached = DataError(
            "database-not-reached", f"No connection to {self.what} can be made.", "", ADVICE, _UNCHARGED
        )
        connection = quietly(self._connected, unreached)
        undescribed = DataError(
            "database-not-described", f"The tables of {self.what} cannot be described.", "", ADVICE, _UNCHARGED
        )
        try:
            yield quietly(partial(DatabaseSession.open_table, connection, self, table, promise), undescribed)
        finally:
            with contextlib.suppress(Exception):  # a connection may be lost; the error about that is already raised
                connection.close()

    def prepare(self, connection: sa.Connection) -> None:
        """Begin the transaction, with the settings that a count needs."""
        for statement in self.dialect.session:
            connection.exec_driver_sql(statement)

    def _connected(self) -> sa.Connection:
        connection = self.engine.connect()
        try:
            if self.dialect.isolation is not None:
                # The count, and the statement about dropped records after it, see one state of the table.
                connection = connection.execution_options(isolation_level=self.dialect.isolation)
            if self.shared and self.dialect.session:
                connection.detach()  # no one else gets it afterwards
            self.prepare(connection)
        except Exception:
            connection.close()
            raise
        return connection


@final
@dataclass(frozen=True)
class DatabaseSession(Columns):
    """A connection, and the table whose records are counted: its columns, and their contents, by the schema.

    kinds: For each column its kind, `None` for a type that is not read, and the schema's name of its type.
    relation: The table, in SQL.
    pages: The approximate number of pages, where the table can be read in pieces; otherwise 0.
    location: The schema of the table (`None` where SQLAlchemy names no default one) and its name.
    view: The promise or finding about a view; `None` for a table.
    proof: The proof that a view is row-wise; `None` without one.
    """

    connection: sa.Connection
    dialect: Dialect
    what: str
    names: tuple[str, ...]
    kinds: tuple[tuple[ColumnKind | None, str], ...]
    relation: str
    pages: int
    location: tuple[str | None, str]
    view: FoundView | None = None
    proof: ViewProof | None = None
    header: bool = False

    @classmethod
    def open_table(
        cls, connection: sa.Connection, database: Database, table: str | None, promise: str | None
    ) -> DatabaseSession:
        """Return the session with a table or view; raise DataError if it is missing or not read."""
        import sqlalchemy as sa

        d, view, proof = database.dialect, None, None
        if d.streams:
            _define(connection, NUMBER_FUNCTION, _number)
        schema, name, is_view = _find(sa.inspect(connection), table, database.what)
        what = f"{'view' if is_view else 'table'} {table!r} of {database.what}"
        location = schema, name
        if is_view:
            view, proof = found_view(what, promise, partial(_proof, connection, database, location))
        # The questions about a row-wise view are about its table.
        schema, name = location if proof is None else proof.table.name
        for question, answer, why in d.admits:
            query = sa.text(question + d.ending).bindparams(**_parameters(question, schema, name))
            failed = DataError(
                "database-check-failed",
                f"Fitnoise does not read {what}, because the database does not answer a necessary question.",
                why,
                ADVICE,
                _UNCHARGED,
            )
            row = quietly(partial(_fetch_one, connection, query), failed)
            if row is None or row[0] != answer:
                raise DataError(
                    "database-table-not-safe",
                    f"Fitnoise does not read {what}.",
                    why,
                    "Copy the table into a Parquet file, and count that file.",
                    _NOTHING,
                )
        schema, name = location
        pages = connection.execute(sa.text(d.pages), _parameters(d.pages, schema, name)).scalar() if d.pages else 0
        columns = sa.inspect(connection).get_columns(name, schema=schema)
        names = [c["name"] for c in columns]
        if d.columns:
            listed = connection.execute(sa.text(d.columns), _parameters(d.columns, schema, name)).scalars()
            names = [listed_name for _, listed_name in zip(names, listed, strict=True)]
        parts = [_as_stored(connection, x) for x in (schema, name) if x is not None]
        return cls(
            connection,
            d,
            what,
            tuple(map(str, names)),
            tuple(_kind(d, c["type"]) for c in columns),
            relation=".".join(d.quoted(part) for part in parts),
            pages=int(pages or 0),
            location=location,
            view=view,
            proof=proof,
        )

    def column(self, index: int) -> str:
        """Return SQL for a column of the relation, under the name `source`."""
        return f"source.{self.dialect.quoted(_as_stored(self.connection, self.names[index]))}"

    def in_format(self, index: int, reader: TextReader) -> str:
        """Return SQL for a column of SQLite whose texts are read in their declared form."""
        name, read = f"fitnoise_format_{index}", lru_cache(_MAX_TEXTS_REMEMBERED)(reader)
        # The numbers 1 and 1.0 are one key, so only texts are remembered.
        _define(self.connection, name, lambda value: read(value) if isinstance(value, str) else value)
        return f"{name}({self.column(index)})"

    def state(self) -> object:
        """Return a value that changes when records change, or the definitions by which a view is row-wise.

        The value is `None` for a table where a statement sees one state.
        """
        import sqlalchemy as sa

        query = self.dialect.state + self.dialect.ending
        if self.proof is not None:
            parts = (*self.proof.views, self.proof.table)
            return self._safely(lambda: [_relation(self.connection, self.dialect, *part.name) for part in parts])
        if not self.dialect.state:
            return None
        bound = sa.text(query).bindparams(**_parameters(query, *self.location))
        return self._safely(partial(_fetch_one, self.connection, bound))

    def fetch(self, statement: str) -> Iterator[Sequence[Sequence[Any]]]:
        """Run a statement without changes; yield its rows, some thousands at a time."""
        # Without parameters, a percent sign or colon in a name stays what it is.
        options = {"no_parameters": True, "stream_results": not self.dialect.at_once}
        with contextlib.ExitStack() as stack:

            def run() -> Any:
                result = self.connection.exec_driver_sql(statement, execution_options=options)
                return stack.enter_context(contextlib.closing(result))

            result = self._safely(run)
            while rows := self._safely(partial(result.fetchmany, _ROWS_PER_FETCH)):
                yield rows

    def _safely(self, action: Any) -> Any:
        return quietly(action, not_counted(self.what, ADVICE))


# --- addresses ------------------------------------------------------------------------------------------------


def is_database(data: Any) -> bool:
    """Return True if data are in a database: an address, an SQLite file, or an object of SQLAlchemy.

    Raises:
        DataError: A file cannot be opened to see if it is of SQLite.
    """
    if isinstance(data, (str, PathLike)):
        path = Path(data)
        return _is_address(data) or quietly(partial(_is_sqlite, path), not_opened(path))
    return type(data).__module__.partition(".")[0] == "sqlalchemy"


def database(data: Any) -> Database:
    """Return the database at `env:NAME`, a URL text without a password, an SQLite file, or SQLAlchemy's Engine or URL.

    Raises:
        DataError: There is no such variable or file.
        DataError: The URL is invalid, or a URL text, not in a variable, holds a password or another secret.
        DataError: The database is of an unknown kind, or the data are another object of SQLAlchemy.
        DataError: The package that connects to such a database is not installed.
    """
    try:
        import sqlalchemy as sa
    except ImportError:
        missing = True
    else:
        missing = False
    if missing:
        raise DataError(
            "sqlalchemy-missing",
            "The data are in a database, and the package SQLAlchemy is not installed.",
            "Fitnoise reads databases with SQLAlchemy.",
            "Run pip install 'fitnoise[sql]'.",
            _NOTHING,
        )
    if isinstance(data, sa.Engine):
        return Database(data, _dialect(data.dialect.name), shared=True)
    if isinstance(data, (str, PathLike)) and not _is_address(data):
        return _file(Path(data))
    if not isinstance(data, (str, sa.URL)):
        raise DataError(
            "database-address-invalid",
            f"The address of the database is an object of the type {type(data).__name__}.",
            "It must be a URL, env:NAME or an Engine of SQLAlchemy.",
            "Give one of these.",
            _NOTHING,
        )
    url = _url(data) if isinstance(data, str) else data
    dialect = _dialect(url.get_backend_name())
    if dialect is SQLITE:
        return _file(Path(url.database or ":memory:"))
    return Database(_engine(url, dialect), dialect)


def _is_address(data: Any) -> bool:
    """Return True if data are the address of a database that fitnoise knows: `env:NAME` or a URL of one of its engines.

    The reader of files refuses other texts with ://.
    """
    if not isinstance(data, str):
        return False
    engines = {name for d in DIALECTS.values() for name in (d.name, *d.also)}
    match = _URL.match(data)
    return data.startswith(ENVIRONMENT) or (match is not None and match[1] in engines)


def _is_sqlite(path: Path) -> bool:
    """Return True if the path is a file that begins as SQLite files do."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC


def _url(address: str) -> sa.URL:
    """Return the URL that an address is, or that its variable holds; the DataError for another quotes no part of it."""
    import sqlalchemy as sa

    is_variable = address.startswith(ENVIRONMENT)
    text = os.environ.get(address.removeprefix(ENVIRONMENT)) if is_variable else address
    if text is None and not re.fullmatch(r"[A-Za-z_]\w*", address.removeprefix(ENVIRONMENT)):
        raise DataError(
            "environment-name-invalid",
            f"The text after {ENVIRONMENT} is not the name of an environment variable.",
            "The variable must hold the URL of the database.",
            f"Write {ENVIRONMENT}NAME with the name of such a variable.",
            _NOTHING,
        )
    if text is None:
        raise DataError(
            "environment-variable-missing",
            f"The environment has no variable {address.removeprefix(ENVIRONMENT)!r}, which {address!r} names.",
            "It must hold the URL of the database.",
            "Set it, for example to postgresql://user:password@host/name.",
            _NOTHING,
        )
    url = None
    with contextlib.suppress(sa.exc.ArgumentError, ValueError):
        url = sa.make_url(text)
    if url is None:
        raise DataError(
            "database-url-invalid",
            f"The text in {address} is not a URL of a database."
            if is_variable
            else "The address is not a URL of a database.",
            "",
            "Write a URL such as postgresql://user@host/name.",
            _NOTHING,
        )
    parts = [*url.query, *map(str, url.query.values())]
    if not is_variable and (url.password is not None or any(map(_SECRET.search, parts))):
        raise DataError(
            "database-url-with-password",
            "The URL of the database has a password or another secret.",
            "Everyone who sees the command can read it.",
            "Put the URL into an environment variable, and write env:NAME.",
            _NOTHING,
        )
    return url


def _dialect(name: str) -> Dialect:
    dialect = next((d for d in DIALECTS.values() if name in (d.name, *d.also)), None)
    if dialect is None:
        kinds = ", ".join(sorted(d.label for d in DIALECTS.values()))
        raise DataError(
            "database-kind-unknown",
            "The database is of an unknown kind.",
            f"Fitnoise reads {kinds}.",
            "Copy the table into a Parquet file, and count that file.",
            _NOTHING,
        )
    return dialect


def _engine(url: sa.URL, d: Dialect) -> sa.Engine:
    import sqlalchemy as sa

    missing = "its driver"
    try:
        # A pool would keep connections open, with their session settings, after the count.
        return sa.create_engine(url, poolclass=sa.NullPool, hide_parameters=True)
    except ImportError as error:
        missing = f"the package {error.name!r}"
    except sa.exc.NoSuchModuleError:
        missing = f"the package that connects SQLAlchemy with {d.label}, or the driver that the URL names"
    except Exception:  # its message may quote the URL
        missing = ""
    if missing:
        raise DataError(
            "database-driver-missing",
            f"A package that reads {d.label} is not installed.",
            f"Fitnoise needs {missing}.",
            "Install it with pip.",
            _NOTHING,
        )
    raise DataError(
        "database-url-unusable",
        f"The URL of the {d.label} database cannot be used.",
        "Its parameters must be those of the driver.",
        "Look for a wrong parameter.",
        _NOTHING,
    )


def _file(path: Path) -> Database:
    """Return the database of an SQLite file, opened for reading only; raise DataError without such a file."""
    import sqlalchemy as sa

    if not path.is_file():
        raise DataError(
            "sqlite-file-missing",
            f"The SQLite database {path.name!r} does not exist.",
            "",
            "Give the path of a database file.",
            _NOTHING,
            place=path.name,
        )
    address = f"{path.absolute().as_uri()}?mode=ro"
    creator = partial(sqlite3.connect, address, uri=True)
    return Database(sa.create_engine("sqlite://", creator=creator, poolclass=sa.NullPool), SQLITE)


# --- tables and columns -----------------------------------------------------------------------------------------


def _find(inspector: Any, table: str | None, what: str) -> tuple[str | None, str, bool]:
    """Return the schema and the name of a table, which may be written with a dot between them, and True for a view.

    Without it, a table whose name differs by capitals only is found, if there is one such. Views are looked for where
    there is no such table.

    Raises:
        DataError: There is no such table, or `table` is `None`.
    """
    default = inspector.default_schema_name
    tables = inspector.get_table_names(schema=default)
    if table is not None:
        # Names may hold dots themselves: the complete text as a name comes first, then each dot as the separator.
        dots = [i for i, c in enumerate(table) if c == "."]
        schemas = set(inspector.get_schema_names()) if dots else set()
        candidates = [(default, table), *((table[:i], table[i + 1 :]) for i in dots if table[:i] in schemas)]
        for is_view, (schema, name) in itertools.product((False, True), candidates):
            there = _views(inspector, schema) if is_view else inspector.get_table_names(schema=schema)
            # Case makes no difference if only one table fits.
            matches = [t for t in there if t.casefold() == name.casefold()]
            if name in there or len(matches) == 1:
                return schema, name if name in there else matches[0], is_view
    listed = sorted(tables)[:_MAX_TABLES_IN_MESSAGE] + ["…"] * (len(tables) > _MAX_TABLES_IN_MESSAGE)
    raise DataError(
        "database-table-not-found",
        f"The specification names no table of {what}."
        if table is None
        else f"The table {table!r} does not exist in {what}.",
        f"Its tables are {listed}.",
        "Name the table or view in data.table or --table, as table or schema.table.",
        _NOTHING,
        place="data.table",
    )


def _views(inspector: Any, schema: str | None) -> list[str]:
    """Return the names of the views of a schema, with those whose rows are stored."""
    names = []
    for list_views in (inspector.get_view_names, inspector.get_materialized_view_names):
        with contextlib.suppress(NotImplementedError):  # the engine has none, or SQLAlchemy does not list them
            names += list_views(schema=schema)
    return names


def _proof(connection: sa.Connection, database: Database, location: tuple[str | None, str]) -> ViewProof:
    """Return the proof that a view is row-wise; raise NotProvenError if its definition proves nothing."""
    d = database.dialect
    if not d.language:
        raise NotProvenError(f"fitnoise proves nothing about views of {d.label}")
    relation = _relation(connection, d, *location)
    if d.keep and relation is not None and relation.kind == VIEW:
        # The lock comes before the snapshot of the transaction, so that this has the definition that will be used.
        connection.rollback()
        database.prepare(connection)
        connection.exec_driver_sql(d.keep.format(relation=".".join(d.quoted(x) for x in location if x is not None)))
        relation = _relation(connection, d, *location)
    if relation is None or relation.kind not in {VIEW, STORED}:
        raise NotProvenError("it was replaced at this moment")

    def find(read: Selection) -> Relation | None:
        # Except in SQLite, definitions name the schema of every table, unless it is one of the system.
        return None if read.schema is None and not d.streams else _relation(connection, d, read.schema, read.table)

    return prove(relation, find, d.language)


def _relation(connection: sa.Connection, d: Dialect, schema: str | None, name: str) -> Relation | None:
    """Return a relation as its database describes it; `None` if it is missing.

    Raises:
        NotProvenError: It is a view that uses a function, an operator or a type of the user's.
    """
    import sqlalchemy as sa

    bound = sa.text(d.relation).bindparams(**_parameters(d.relation, schema, name))
    row = _fetch_one(connection, bound)
    if row is None:
        return None
    kind, definition, uses_others, state = row
    if uses_others:
        raise NotProvenError("it uses a function, an operator or a type that was defined in this database")
    if d.columns:
        names = connection.execute(sa.text(d.columns), _parameters(d.columns, schema, name)).scalars().all()
    else:
        names = [c["name"] for c in sa.inspect(connection).get_columns(name, schema=schema)]
    return Relation(kind, (schema, name), tuple(map(str, names)), definition, state)


def _as_stored(connection: sa.Connection, name: str) -> str:
    """Return a name as the engine stores it, where SQLAlchemy writes it in small letters (capitals do not matter)."""
    d = connection.dialect
    return str(d.denormalize_name(name)) if d.requires_name_normalize else name


def _define(connection: sa.Connection, name: str, function: Callable[[Any], Any]) -> None:
    """Give a session of SQLite a function of one value."""
    driver: Any = connection.connection.driver_connection
    driver.create_function(name, 1, function, deterministic=True)


def _number(value: bytes) -> float | None:
    """Return the number that the bytes of a text are; `None` without one."""
    read = as_number(value)
    return None if isinstance(read, bytes) else read


def _fetch_one(connection: sa.Connection, statement: sa.TextClause) -> Any:
    """Return the first row of a result; `None` if it is empty."""
    return connection.execute(statement).fetchone()


def _parameters(question: str, schema: str | None, name: str) -> dict[str, str | None]:
    return {k: v for k, v in (("schema", schema), ("name", name)) if f":{k}" in question}


def _kind(d: Dialect, column: Any) -> tuple[ColumnKind | None, str]:
    """Return the kind of a column, `None` for a type that is not read, and the name of its type.

    column: The type of the column, an object of SQLAlchemy.
    """
    import sqlalchemy as sa

    # A domain of PostgreSQL, which may be one of a domain, is read as the type that it restricts.
    while isinstance(inner := getattr(column, "data_type", None), sa.types.TypeEngine):
        column = inner
    # A subclass comes before its class: Float is a Numeric, and CHAR a String.
    kinds: list[tuple[Any, ColumnKind]] = [
        (sa.Boolean, ColumnKind.TRUTH), (sa.Float, ColumnKind.DOUBLE), (sa.Numeric, ColumnKind.DECIMAL),
        (sa.Integer, ColumnKind.INTEGER),
        (sa.CHAR, ColumnKind.FIXED), (sa.NCHAR, ColumnKind.FIXED), ((sa.String, sa.Uuid), ColumnKind.TEXT),
    ]  # fmt: skip
    column_kind = next((kind for types, kind in kinds if isinstance(column, types)), None)
    if d.streams and column_kind is ColumnKind.FIXED:  # SQLite pads no text, so a final blank is part of the value
        column_kind = ColumnKind.TEXT
    if column_kind is ColumnKind.INTEGER and getattr(column, "display_width", None) == 1:  # MySQL's BOOL is TINYINT(1)
        column_kind = ColumnKind.TRUTH
    zoned = getattr(column, "timezone", False) or getattr(column, "local_timezone", False)
    if isinstance(column, sa.DateTime) and type(column).__name__ in d.stamps and not zoned:
        column_kind = ColumnKind.STAMP
    elif isinstance(column, sa.Date):
        column_kind = ColumnKind.DATE
    if column_kind is None and d.streams and isinstance(column, sa.types.NullType):
        column_kind = ColumnKind.ANY
    elif column_kind is None and type(column).__name__ in d.texts:
        column_kind = ColumnKind.TEXT
    return column_kind, type(column).__name__
