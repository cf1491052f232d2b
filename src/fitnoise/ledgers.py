"""Ledgers at addresses: the storage of a ledger in PostgreSQL, and the address of every ledger.

**Purpose.** A ledger is a file, or it lies on a server of PostgreSQL and has an address (`env:NAME`, or a URL without a
password). The rules of :class:`fitnoise.kernel.ledger.Ledger` are the same for both. Here is the storage on the server.
It keeps the guarantees of :class:`fitnoise.kernel.ledger.store.Store`; `tests/laws/stores.py` checks both storages.

    | SCHEMA.entries | one row for each entry; triggers refuse all other changes |
    | SCHEMA.ledger | one row: the format, and a random identity |
    | SCHEMA.turn | empty; a writer locks it |

**Statement.** An operation that writes is one serialisable transaction. It locks `turn` before its first query, and so
before its snapshot is taken. So it reads all entries committed before, and no other writer of fitnoise begins until it
ends. Other software may write without this lock. Then the primary key, the trigger or the serialisable transaction
refuses one of both.

**Repetition.** After a serialisation failure the store reads again. If it reads the same rows, the decision of the
rules holds, and the store repeats the transaction. If it reads other rows, it raises, and nothing was charged.

**Unknown outcomes.** If the connection is lost during a commit, the store connects again. It takes the lock, so the
lost transaction has ended, and looks for the very entry by its number and its digest. Only if it cannot connect, the
outcome stays unknown. The entry is then found by the next call, as after a killed process.

**Trust.** A mistake here can forget a charge. The ledger verifies the chain after each reading, so that a changed entry
is noticed. The owner of the tables can remove the triggers and the last entries, so publish as another role, and write
heads down elsewhere. No message states the address, the user or a text of the server.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from fitnoise.engines.databases import ENVIRONMENT, database
from fitnoise.engines.sources import reason_of
from fitnoise.errors import DataError, LedgerError
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.ledger.entries import COLUMNS
from fitnoise.kernel.ledger.rules import SERVERS, is_address
from fitnoise.kernel.ledger.sqlite import FORMAT, MAX_BYTES, MAX_TEXT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa

    from fitnoise.kernel.ledger.store import Row

__all__ = ["Ledger", "create", "creation", "exists", "is_address"]

R = TypeVar("R")

_MIN_VERSION: Final = 130000
"""The oldest server, as PostgreSQL numbers its versions: 13."""

_BUSY_SECONDS: Final = 30
"""The time for which a writer waits for its turn."""

_IDLE_SECONDS: Final = 600
"""The time after which the server ends the transaction of a writer that has stopped in its turn."""

_RETURN_SECONDS: Final = 30.0
"""The time for which the store looks for the outcome of a commit after the connection was lost."""

_PAUSE_SECONDS: Final = 0.5
"""The pause between two attempts to connect again."""

_REPETITIONS: Final = 5
"""The number of repetitions of a transaction after serialisation failures."""

_TEXTS: Final = (*COLUMNS[1:], "digest")
"""The columns of texts, after the number of an entry."""

_SCHEMA: Final = "fitnoise"
"""The schema of a ledger whose address names none."""

_KEEP: Final = "BEGIN RAISE EXCEPTION 'a ledger entry is never altered or removed'; END"

_FOLLOW: Final = (
    "BEGIN IF NEW.sequence IS DISTINCT FROM 1 + (SELECT coalesce(max(sequence), 0) FROM {schema}.entries) "
    "THEN RAISE EXCEPTION 'a ledger entry follows the last one'; END IF; RETURN NEW; END"
)

_PATH: Final = "search_path = pg_catalog, pg_temp"
"""Names mean those of PostgreSQL itself, before any that a user made."""

_NOTHING: Final = "This operation charged nothing and changed nothing."

_STATE: Final = """
SELECT current_setting('server_version_num')::int AS version, current_setting('server_encoding') AS encoding,
  current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous, c.oid::bigint AS oid,
  concat_ws(' ', c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity,
    EXISTS (SELECT FROM pg_rewrite r WHERE r.ev_class = c.oid)) AS kind,
  (SELECT string_agg(concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull), E'\\n'
    ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0) AS columns,
  (SELECT string_agg(concat_ws(' ', t.tgname, t.tgtype, t.tgenabled, t.tgqual IS NULL, p.prosrc), E'\\n'
    ORDER BY t.tgname) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE t.tgrelid = c.oid AND NOT t.tgisinternal) AS triggers
FROM (SELECT to_regclass(:name)::oid AS oid) x LEFT JOIN pg_class c ON c.oid = x.oid
"""
"""The state of the server and of the table; `oid` is NULL where there is no table."""

_SERIALISATION: Final = ("40001", "40P01")
_UNIQUE: Final = "23505"


def exists(path: str | os.PathLike[str]) -> bool:
    """Return True for an address, and for the path of something that exists. Opening an address makes no ledger."""
    return is_address(path) or Path(path).exists()


def creation(schema: str, role: str | None = None) -> list[str]:
    """Return the SQL that makes an empty ledger.

    Args:
        schema: The schema of its tables.
        role: A role that may read and append; None grants nothing.
    """
    columns = ", ".join(f"{name} text NOT NULL" for name in _TEXTS)
    function = "CREATE FUNCTION {}.{}() RETURNS trigger LANGUAGE plpgsql SET {} AS $${}$$"
    changes = "UPDATE OR DELETE OR TRUNCATE"
    row, each = "FOR EACH ROW EXECUTE FUNCTION", "FOR EACH STATEMENT EXECUTE FUNCTION"
    statements = [
        f"CREATE SCHEMA IF NOT EXISTS {schema}",
        f"CREATE TABLE {schema}.entries (sequence bigint PRIMARY KEY, {columns})",
        f"CREATE TABLE {schema}.ledger (format int NOT NULL, id text NOT NULL)",
        f"CREATE TABLE {schema}.turn ()",
        f"INSERT INTO {schema}.ledger VALUES ({FORMAT}, '{uuid.uuid4().hex}')",  # noqa: S608 - plain names
        function.format(schema, "keep", _PATH, _KEEP),
        function.format(schema, "follow", _PATH, _FOLLOW.format(schema=schema)),
        f"CREATE TRIGGER entries_follow BEFORE INSERT ON {schema}.entries {row} {schema}.follow()",
        f"CREATE TRIGGER entries_keep BEFORE {changes} ON {schema}.entries {each} {schema}.keep()",
        f"CREATE TRIGGER ledger_keep BEFORE INSERT OR {changes} ON {schema}.ledger {each} {schema}.keep()",
        # These fire also for a session that applies changes of another server, where other triggers do not.
        *(f"ALTER TABLE {schema}.entries ENABLE ALWAYS TRIGGER entries_{name}" for name in ("follow", "keep")),
        f"ALTER TABLE {schema}.ledger ENABLE ALWAYS TRIGGER ledger_keep",
    ]
    if role is not None:
        _refuse_name("role", role)
        statements += [
            f"GRANT USAGE ON SCHEMA {schema} TO {role}",
            f"GRANT SELECT, INSERT ON {schema}.entries TO {role}",
            f"GRANT SELECT ON {schema}.ledger TO {role}",
            # A table without columns has nothing to update: PostgreSQL asks for this right to lock it.
            f"GRANT UPDATE ON {schema}.turn TO {role}",
        ]
    return statements


def create(address: str, role: str | None = None, *, run: bool = True) -> list[str]:
    """Make an empty ledger at an address, in one transaction, and return its SQL.

    Args:
        address: `env:NAME`, or the URL without a password. Its parameter `schema` names the schema.
        role: A role that may read and append; None grants nothing.
        run: False to return the SQL alone. The server is then not reached.

    Raises:
        LedgerError: The address is not one of PostgreSQL, or a name is not plain, or the server refuses.
    """
    server = _Server(address)
    statements = creation(server.schema, role)
    if run:
        with server.refusing(), server.connected() as connection:
            connection.exec_driver_sql("BEGIN")
            server.set_up(connection)
            if _state(connection, server.schema).oid is not None:
                raise LedgerError(
                    "ledger-exists",
                    f"{server.where} exists.",
                    "",
                    "Use it, or name another schema in the address.",
                    _NOTHING,
                )
            for statement in statements:
                connection.exec_driver_sql(statement)
            connection.exec_driver_sql("COMMIT")
    return statements


def _refuse_name(what: str, name: str) -> None:
    """Raise unless a name of SQL needs no quotes."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name):
        raise LedgerError(
            "name-not-plain",
            f"The name of the {what} is not plain.",
            "It has at most 63 small letters, digits and underscores, and begins with no digit.",
            f"Name another {what}.",
            "Nothing was charged and nothing was changed.",
        )


def _not_postgresql() -> LedgerError:
    return LedgerError(
        "server-not-postgresql",
        "The address of the ledger is not that of a database of PostgreSQL.",
        "A ledger is a file, or is in PostgreSQL.",
        "Give the path of a file, or an address such as env:NAME or postgresql://host/name.",
        "Nothing was charged and nothing was changed.",
    )


def _engine(address: str) -> sa.Engine:
    """Return the engine of an address, or raise LedgerError."""
    try:
        return database(address).engine
    except DataError as error:
        failure = error
    if failure.slug in ("database-kind-unknown", "sqlite-file-missing"):  # in a variable
        raise _not_postgresql()
    is_missing = failure.slug == "sqlalchemy-missing"
    raise LedgerError(
        "address-unusable",
        "The ledger is in a database, and the package SQLAlchemy is not installed." if is_missing else failure.given,
        "" if is_missing else failure.needed,
        failure.action,
        "Nothing was charged and nothing was changed.",
    )


@final
class _Server:
    """A database of PostgreSQL and the schema of a ledger in it.

    Args:
        address: `env:NAME`, or a URL without a password.

    Raises:
        LedgerError: The address is not one of PostgreSQL, or cannot be used.
    """

    def __init__(self, address: str) -> None:
        if not re.match(rf"{ENVIRONMENT}|postgresql(\+\w+)?://", address):
            raise _not_postgresql()
        engine = _engine(address)
        if engine.dialect.name != "postgresql":
            raise _not_postgresql()
        import sqlalchemy as sa

        url = engine.url
        self.schema = str(url.query.get("schema", _SCHEMA))
        _refuse_name("schema", self.schema)
        self.where = f"The ledger in PostgreSQL (schema {self.schema})"
        options: dict[str, Any] = {}
        if engine.driver in ("psycopg", "psycopg2"):
            # A server that went away without a word is noticed after a minute, and not after hours.
            options = {"connect_timeout": 10, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
            options["tcp_user_timeout"] = 60_000
        if engine.driver == "psycopg":
            options["prepare_threshold"] = None  # a pooler may give each transaction another session
        self._engine = sa.create_engine(
            url.difference_update_query(["schema"]),
            poolclass=sa.NullPool,
            hide_parameters=True,
            isolation_level="AUTOCOMMIT",  # transactions are begun and ended by statements
            connect_args={key: x for key, x in options.items() if key not in url.query},
        )

    @contextmanager
    def connected(self) -> Iterator[sa.Connection]:
        """Yield a connection, closed at the end; a transaction in it that is not committed is rolled back."""
        connection = self.connect()
        try:
            yield connection
        finally:
            with suppress(Exception):
                connection.close()

    def connect(self) -> sa.Connection:
        """Return a connection, or raise LedgerError without the words of the driver, which name host and user."""
        reason = ""
        try:
            return self._engine.connect()
        except Exception as error:
            reason = reason_of(error)
        raise LedgerError(
            "server-not-reached",
            f"{self.where} is not reached, or the server refuses the login ({reason}).",
            "",
            "Check the address, the password and the server, then try again.",
            _NOTHING,
        )

    def set_up(self, connection: sa.Connection) -> None:
        """Set what the open transaction needs, for any settings of the role and the database."""
        settings = (
            _PATH,
            "row_security = off",
            "client_encoding = 'UTF8'",
            f"lock_timeout = '{_BUSY_SECONDS}s'",
            f"idle_in_transaction_session_timeout = '{_IDLE_SECONDS}s'",
        )
        connection.exec_driver_sql("; ".join(f"SET LOCAL {setting}" for setting in settings))

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Turn errors of the server into LedgerErrors that quote no text of the server."""
        import sqlalchemy as sa

        try:
            yield
        except (sa.exc.SQLAlchemyError, UnicodeError) as error:
            raise self.failure(error) from None

    def failure(self, error: Exception) -> LedgerError:
        """Return the LedgerError for an error of the server, by its SQLSTATE."""
        state = _sqlstate(error)
        failures = {
            "42501": LedgerError(
                "role-not-allowed",
                f"{self.where} cannot be used: the role lacks a right.",
                "A publisher reads and appends entries, and a reader reads them.",
                "Ask the owner of the ledger to grant these rights.",
                _NOTHING,
            ),
            "25006": LedgerError(
                "server-read-only",
                f"{self.where} cannot be used: the server or the session is read-only.",
                "",
                "Give the address of the server that takes changes.",
                _NOTHING,
            ),
            "55P03": LedgerError(
                "server-busy",
                f"{self.where} cannot be used: another process holds it and did not release it in time.",
                "",
                "Try again when that process is done.",
                _NOTHING,
            ),
            "53100": LedgerError(
                "server-disk-full",
                f"{self.where} cannot be used: the disk of the server is full.",
                "",
                "Free some space on the disk.",
                _NOTHING,
            ),
            **dict.fromkeys((*_SERIALISATION, _UNIQUE), _written_meanwhile(self.where)),
        }
        other = LedgerError(
            "server-refused",
            f"{self.where} cannot be used ({reason_of(error)}).",
            "",
            "Correct the cause, then try again.",
            _NOTHING,
        )
        return failures.get(state, other)


def _written_meanwhile(where: str) -> LedgerError:
    return LedgerError(
        "written-meanwhile",
        f"{where} got another entry during this operation, from software that does not wait for its turn.",
        "",
        "Run the command again.",
        _NOTHING,
    )


def _sqlstate(error: Exception) -> str:
    """Return the SQLSTATE of an error of SQLAlchemy; an empty text without one."""
    origin = getattr(error, "orig", None)
    return str(getattr(origin, "sqlstate", None) or getattr(origin, "pgcode", None) or "")


def _is_lost(error: Exception) -> bool:
    """Return True if an error ended the connection, so that the outcome of its statement is unknown."""
    # Class 57P: the server stops or ended the session. Class 08: the connection. Drivers often give no SQLSTATE.
    return bool(getattr(error, "connection_invalidated", False)) or _sqlstate(error)[:3] in ("57P", "080", "")


def _state(connection: sa.Connection, schema: str) -> Any:
    """Return the state of the server and of the table."""
    import sqlalchemy as sa

    return connection.execute(sa.text(_STATE), {"name": f"{schema}.entries"}).one()


@final
class PostgresStore:
    """The rows of a ledger in PostgreSQL: a :class:`fitnoise.kernel.ledger.store.Store`.

    Each transaction has its own connection, so that an open ledger keeps no session.

    Args:
        address: `env:NAME`, or the URL without a password. Its parameter `schema` names the schema of the tables.

    Raises:
        LedgerError: There is no ledger, or it has another format, or the server is too old or keeps no commits.
    """

    def __init__(self, address: str) -> None:
        self._server = _Server(address)
        self.where, self._schema = self._server.where, self._server.schema
        self.owner = (os.getpid(), threading.get_ident())
        self.opened_identity: object = None
        self._connection: sa.Connection | None = None
        self._appended: list[Row] = []
        with self.transaction(write=False):
            self.opened_identity = self.identity()
        # Answers wait next to this path until their release is in place: on this machine, as next to a file.
        self.file: Path | None = _state_folder() / self._id
        with suppress(OSError):  # who only reads needs no folder
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[None]:
        """Begin a transaction in a connection of its own, and roll it back unless it is committed."""
        self._write, self._appended, self._read_digest, self._committed = write, [], "", False
        with self._server.refusing():
            try:
                self._begin()
                yield
            finally:
                self._leave()

    def _begin(self) -> None:
        """Connect, begin the transaction, wait for the turn, and refuse a ledger that does not keep its rules."""
        self._leave()
        self._connection = connection = self._server.connect()
        connection.exec_driver_sql(
            "BEGIN ISOLATION LEVEL SERIALIZABLE, READ WRITE"
            if self._write
            else "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
        )
        self._server.set_up(connection)
        if self._write:
            # Before the first query: that takes the snapshot, which must not be older than the turn.
            connection.exec_driver_sql(f"LOCK TABLE {self._schema}.turn IN EXCLUSIVE MODE")
        self._check(_state(connection, self._schema))

    def _leave(self) -> None:
        """Close the connection; the server rolls back what was not committed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _check(self, state: Any) -> None:
        """Raise unless the server keeps commits, and the table and its triggers are those of a ledger."""
        if state.version < _MIN_VERSION:
            raise LedgerError(
                "server-too-old",
                f"{self.where} is on a server of version {state.version // 10_000}.",
                f"A ledger needs PostgreSQL {_MIN_VERSION // 10_000} or later.",
                "Use a later server.",
                _NOTHING,
            )
        if state.encoding != "UTF8" or state.fsync != "on":
            raise LedgerError(
                "server-settings-unsafe",
                f"{self.where} is on a server that may change or forget entries (fsync is {state.fsync}, the encoding "
                f"is {state.encoding}).",
                "A ledger needs a database in UTF8, on a server with fsync.",
                "Use such a database.",
                _NOTHING,
            )
        if state.oid is None:
            raise LedgerError(
                "no-ledger",
                f"The database of PostgreSQL has no ledger in the schema {self._schema}.",
                "",
                "Check the address, or make a ledger with `fitnoise ledger create`.",
                _NOTHING,
            )
        columns = "\n".join(["sequence bigint t", *(f"{name} text t" for name in _TEXTS)])
        follow = _FOLLOW.format(schema=self._schema)
        triggers = f"entries_follow 7 A t {follow}\nentries_keep 58 A t {_KEEP}"
        if (state.kind, state.columns, state.triggers) != ("r p f f f", columns, triggers):
            raise LedgerError(
                "tables-altered",
                f"{self.where} was altered: its table or its triggers are not those of a ledger.",
                "",
                "Restore a copy, and verify it against a head that you wrote down.",
                _NOTHING,
            )
        if state.synchronous == "off":
            self._run("SET LOCAL synchronous_commit = on")
        stated = self._run(f"SELECT format, id FROM ONLY {self._schema}.ledger").all()  # noqa: S608 - a plain name
        # The identity names a folder on this machine.
        if len(stated) != 1 or stated[0][0] != FORMAT or not re.fullmatch("[0-9a-f]{32}", stated[0][1]):
            raise LedgerError(
                "tables-format-unknown",
                f"{self.where} has another format than {FORMAT}, which this fitnoise reads and writes.",
                "",
                "Use the fitnoise that made it.",
                _NOTHING,
            )
        self._id = stated[0][1]

    def _run(self, statement: str, **values: object) -> Any:
        import sqlalchemy as sa

        assert self._connection is not None  # noqa: S101 - the methods of a store are called within a transaction
        return self._connection.execute(sa.text(statement), values)

    def _run_all(self, *statements: str) -> None:
        for statement in statements:
            self._run(statement)

    def rows(self) -> Iterator[Row]:
        """Return the committed rows, in order. A serialisation failure begins the transaction again."""
        yield from self._repeating(self._read, is_reading=True)

    def _read(self) -> list[Row]:
        """Return the committed rows, and remember their digest."""
        lengths = " + ".join(f"octet_length({name})" for name in _TEXTS)
        longest = ", ".join(f"octet_length({name})" for name in _TEXTS)
        size, longest_text = self._run(
            f"SELECT coalesce(sum({lengths}), 0), coalesce(max(greatest({longest})), 0) "  # noqa: S608 - plain names
            f"FROM ONLY {self._schema}.entries"
        ).one()
        if size > MAX_BYTES or longest_text > MAX_TEXT:
            raise LedgerError(
                "entries-too-large",
                f"{self.where} has {size:,} bytes, and its longest text has {longest_text:,}.",
                f"A ledger has at most {MAX_BYTES:,} bytes, and a text at most {MAX_TEXT:,}.",
                "Give the address of a ledger.",
                _NOTHING,
            )
        names = ", ".join((*COLUMNS, "digest"))
        result = self._run(f"SELECT {names} FROM ONLY {self._schema}.entries ORDER BY sequence")  # noqa: S608
        rows: list[Row] = [(int(row[0]), *row[1:]) for row in result]
        self._read_digest = _digest(rows)
        return rows

    def append(self, row: Row) -> None:
        """Add a row, or raise unless it follows the last one: a trigger compares their numbers."""
        if max(len(text.encode("utf-8", "surrogatepass")) for text in row[1:]) > MAX_TEXT:
            raise LedgerError(
                "entry-too-large",
                f"An entry for {self.where[0].lower()}{self.where[1:]} has a text of more than {MAX_TEXT:,} bytes.",
                "A text of an entry is at most that long.",
                "Charge a plan with fewer cells.",
                _NOTHING,
            )
        self._repeating(lambda: self._insert([row]))
        self._appended.append(row)

    def _insert(self, rows: list[Row]) -> None:
        columns = (*COLUMNS, "digest")
        names, values = ", ".join(columns), ", ".join(f":{name}" for name in columns)
        for row in rows:
            parameters = dict(zip(columns, row, strict=True))
            self._run(f"INSERT INTO {self._schema}.entries ({names}) VALUES ({values})", **parameters)  # noqa: S608

    def _repeating(self, step: Callable[[], R], *, is_reading: bool = False) -> R:
        """Do a step of the transaction; after a serialisation failure begin it again, and repeat its steps."""
        import sqlalchemy as sa

        read, remaining, is_repeated = self._read_digest, _REPETITIONS, False
        while True:
            try:
                if is_repeated:
                    self._begin()
                    if not is_reading:
                        self._read()
                        if self._read_digest != read:  # the decision of the rules was about other rows
                            raise _written_meanwhile(self.where)
                        self._insert(self._appended)
                return step()
            except sa.exc.DBAPIError as error:
                # Without the rows that were read, nothing can be compared.
                if _sqlstate(error) not in _SERIALISATION or not remaining or not (read or is_reading):
                    raise
                remaining, is_repeated = remaining - 1, True

    def identity(self) -> object:
        """Return the identity of the ledger and of its table; after a commit without a connection, the opened one."""
        import sqlalchemy as sa

        try:
            # The name means the table of now only after a further lock, with which the session learns of changes.
            if not self._committed:
                self._run_all("SAVEPOINT fresh", "SELECT FROM pg_am LIMIT 0", "ROLLBACK TO fresh")
            oid = self._run("SELECT to_regclass(:name)::oid::bigint", name=f"{self._schema}.entries").scalar()
        except sa.exc.DBAPIError as error:
            # A table with an open transaction is not replaced, so it was the opened one when the server committed.
            if not self._committed or not _is_lost(error):
                raise
            return self.opened_identity
        return (self._id, oid)

    def commit(self) -> None:
        """Commit on the disk of the server, and find out the outcome where the connection is lost meanwhile."""
        import sqlalchemy as sa

        try:
            self._repeating(lambda: self._run("COMMIT"))
        except sa.exc.DBAPIError as error:
            if not _is_lost(error):
                raise
            self._find_out()
        self._committed = True

    def _find_out(self) -> None:
        """Return if the appended rows were committed, or raise; connect again if this is needed."""
        if not self._appended:
            return
        end = time.monotonic() + _RETURN_SECONDS
        while True:
            try:
                with self._server.refusing():
                    self._begin()  # waits for the turn, so the lost transaction has ended
                    committed = [row for row in self._read() if row in self._appended]
            except LedgerError as error:
                if time.monotonic() > end:
                    raise LedgerError(
                        "commit-unknown",
                        f"{self.where} lost its connection during a commit.",
                        "Whether the entry was written is unknown.",
                        f"Look at the ledger before you try again. {error.action}",
                        "It is unknown whether this operation charged anything.",
                    ) from None
                time.sleep(_PAUSE_SECONDS)
            else:
                break
        if committed != self._appended:
            raise LedgerError(
                "connection-lost",
                f"{self.where} lost its connection before it committed.",
                "",
                "Run the command again.",
                _NOTHING,
            )

    def close(self) -> None:
        """Let go of the connection, if there is one."""
        self._leave()


def _state_folder() -> Path:
    """Return the folder of this user and machine for answers that wait for their release."""
    chosen = os.environ.get("XDG_STATE_HOME")
    try:
        return Path(chosen or Path.home() / ".local" / "state").absolute() / "fitnoise" / "ledgers"
    except RuntimeError:
        raise LedgerError(
            "state-folder-unknown",
            "This user has no home folder.",
            "Answers wait in a folder of this machine until their release is in place.",
            "Set XDG_STATE_HOME to a folder that stays.",
            "Nothing was charged and nothing was changed.",
        ) from None


def _digest(rows: list[Row]) -> str:
    return hashlib.sha256(repr(rows).encode("utf-8", "surrogatepass")).hexdigest()


SERVERS.append(PostgresStore)
