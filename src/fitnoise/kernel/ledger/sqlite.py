"""The store of a ledger in one file of SQLite, or in memory."""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, final

from fitnoise.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fitnoise.kernel.ledger.store import Row

_APPLICATION = int.from_bytes(b"fitn")  # PRAGMA application_id: how the file is known

FORMAT = 7
"""The PRAGMA user_version of the file.

Formats 1 to 5 identified accounts by sentences without cells of promised attributes. Format 6 named no answers, so that
the release of each of its charges seems unfinished.
"""

_BUSY_SECONDS = 30.0  # how long to wait for another process
MAX_BYTES = 2**28  # of the file; the ledger reads no larger file, from any source
MAX_TEXT = 2**26  # bytes of a text in it: a profile of three million cells

_SCHEMA = (
    """CREATE TABLE entries (sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, source TEXT NOT NULL,
    unit TEXT NOT NULL, rho TEXT NOT NULL, time TEXT NOT NULL, detail TEXT NOT NULL,
    previous TEXT NOT NULL, digest TEXT NOT NULL)""",
    """CREATE TRIGGER entries_stay BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'a ledger entry is never removed'); END""",
    """CREATE TRIGGER entries_keep BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'a ledger entry is never altered'); END""",
    # INSERT OR REPLACE overwrites a row and fires neither of the two above; it fires this one.
    """CREATE TRIGGER entries_follow BEFORE INSERT ON entries
    WHEN NEW.sequence IS NOT 1 + (SELECT coalesce(max(sequence), 0) FROM entries)
    BEGIN SELECT RAISE(ABORT, 'a ledger entry follows the last one'); END""",
)

# The last of these is what damaged pages do to the text of SQLite's own errors.
_FILE_ERRORS = (OSError, sqlite3.Error, UnicodeDecodeError)


@final
class SqliteStore:
    """The rows of a ledger in a file of SQLite, or in memory: a :class:`fitnoise.kernel.ledger.store.Store`.

    Args:
        path: The file, made if it does not exist; its folder must exist. ``":memory:"`` makes a store that is forgotten
            when it is closed.

    Raises:
        LedgerError: The file is no ledger, has another format, is damaged, read-only or busy, or has a second name.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.file = None if os.fspath(path) == ":memory:" else Path(path).absolute()
        self.where = f"The ledger {self.file or 'in memory'}"
        self.owner = (os.getpid(), threading.get_ident())
        try:
            if self.file:
                _create(self.file)
            self.opened_identity: object = self.identity()  # before connecting: a swap in between is noticed later
            with ExitStack() as undo:
                self._db = undo.enter_context(closing(_connect(self.file)))
                if not self.file:
                    _initialise(self._db)
                _recognise(self._db, self.where)
                undo.pop_all()
        except _FILE_ERRORS as error:
            raise _file_failure(self.where, error) from error

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[None]:
        """Begin a transaction, and roll it back unless it is committed."""
        self._committing = ended = False
        try:
            # IMMEDIATE takes the lock for writing before a row is read.
            self._db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                yield
            finally:
                ended = not self._db.in_transaction
                if not ended:
                    self._db.execute("ROLLBACK")
        except _FILE_ERRORS as error:
            failure = _file_failure(self.where, error)
            if not (self._committing and ended):
                raise failure from error
            # The transaction ended while it was committed, so its rows may be in the file.
            raise LedgerError(
                "writing-unknown",
                failure.given,
                "Whether the entry was written is unknown.",
                f"Look at the ledger before you try again. {failure.action}",
                "It is unknown whether this operation charged anything.",
            ) from error

    def rows(self) -> Iterator[Row]:
        """Return the committed rows, in order, or raise if the table or a trigger was altered."""
        # Another trigger could alter or remove entries while one is appended.
        if {sql for (sql,) in self._db.execute("SELECT sql FROM sqlite_master")} != set(_SCHEMA):
            raise LedgerError(
                "schema-altered",
                f"{self.where} was altered: its table or its triggers are not those of a ledger.",
                "",
                "Restore a copy, and verify it against a head that you wrote down.",
                "This operation charged nothing and changed nothing.",
            )
        yield from self._db.execute("SELECT * FROM entries ORDER BY sequence")

    def append(self, row: Row) -> None:
        """Add a row, or raise unless it follows the last one: a trigger compares their numbers."""
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def identity(self) -> object:
        """Return device and inode of the file now at the path, zeros in memory; raise for a second name in use."""
        if self.file is None:
            return (0, 0)
        # A process that was killed while it made the ledger leaves a second name, which is removed here.
        if self.file.stat().st_nlink > 1:
            real = self.file.resolve()
            ours = re.compile(rf"\.{re.escape(real.name)}\.(unfinished-)?[a-z0-9_]{{8}}")  # as `_create` names it
            for other in real.parent.iterdir():
                with suppress(FileNotFoundError):
                    if ours.fullmatch(other.name) and other.samefile(real):
                        other.unlink()
        status = self.file.stat()
        if status.st_nlink > 1:
            raise LedgerError(
                "file-has-several-names",
                f"The ledger {self.file} has {status.st_nlink} names (hard links).",
                "An entry written under one name could be lost under another.",
                "Remove the other names, and make backups as copies.",
                "This operation charged nothing and changed nothing.",
            )
        return (status.st_dev, status.st_ino)

    def commit(self) -> None:
        """Sync the file, its journal and its folder, and end the transaction."""
        self._committing = True
        self._db.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


def _file_failure(where: str, error: Exception) -> LedgerError:
    """Return the error for a failure of SQLite or of the file system; `where` is the name of the ledger."""
    failures = {
        sqlite3.SQLITE_NOTADB: _not_a_ledger(where),
        sqlite3.SQLITE_CORRUPT: _damaged(where),
        sqlite3.SQLITE_BUSY: LedgerError(
            "ledger-busy",
            f"{where} cannot be used: another process holds it and did not release it in time.",
            "",
            "Try again when that process is done.",
            "This operation charged nothing and changed nothing.",
        ),
        sqlite3.SQLITE_READONLY: LedgerError(
            "read-only",
            f"{where} cannot be used: it is read-only, or it was moved while it was open.",
            "",
            "Ask its owner for permission to write to it, or open it again.",
            "This operation charged nothing and changed nothing.",
        ),
        sqlite3.SQLITE_FULL: LedgerError(
            "disk-full",
            f"{where} cannot be used: its disk is full.",
            "",
            "Free some space on the disk.",
            "This operation charged nothing and changed nothing.",
        ),
    }
    other = LedgerError(
        "ledger-unusable",
        f"{where} cannot be used: {error}.",
        "",
        "Correct the cause, then try again.",
        "This operation charged nothing and changed nothing.",
    )
    return failures.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, other)


def _not_a_ledger(where: str) -> LedgerError:
    """Return the error for a file of another kind."""
    return LedgerError(
        "not-a-ledger",
        f"{where} is not a ledger.",
        "",
        "Give the path of a ledger, or of a file that does not exist yet.",
        "This operation charged nothing and changed nothing.",
    )


def _damaged(where: str) -> LedgerError:
    """Return the error for damaged pages."""
    return LedgerError(
        "pages-damaged",
        f"{where} cannot be used: its pages are damaged.",
        "",
        "Restore a copy, and verify it against a head that you wrote down.",
        "This operation charged nothing and changed nothing.",
    )


def _create(path: Path) -> None:
    """Put an empty ledger at the path if nothing exists there; an existing path must be a file that is not empty."""
    if not path.parent.is_dir():
        raise LedgerError(
            "folder-missing",
            f"The folder {path.parent} of the ledger does not exist.",
            "",
            "Make the folder first.",
            "Nothing was charged and nothing was changed.",
        )
    if not path.exists():
        # The ledger is made under another name and linked into place when complete. So no crash and no other process
        # ever meets half a ledger, and an empty file can be refused. This needs a file system with hard links. Its
        # name is as durable as its first entry: synchronous=EXTRA also syncs the folder. mkstemp gives it mode 0600.
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.unfinished-", dir=path.parent)
        try:
            os.close(handle)
            with closing(_connect(Path(name))) as db:
                _initialise(db)
            try:
                path.hardlink_to(name)  # unlike a rename, this never replaces a file
            except OSError as error:
                if not isinstance(error, FileExistsError):  # else another process was first: then that is the ledger
                    raise LedgerError(
                        "hard-link-refused",
                        f"The file system of the folder {path.parent} refused a hard link ({error.strerror}).",
                        "A new ledger gets its name by one, so that no crash leaves half a ledger.",
                        "Keep the ledger on a local disk, or in PostgreSQL.",
                        "Nothing was charged and nothing was changed.",
                    ) from error
        finally:
            Path(name).unlink(missing_ok=True)  # another process that opens the ledger first may take it for a leftover
    if not path.is_file():
        raise LedgerError(
            "not-a-file",
            f"{path} is not a file, so it is not a ledger.",
            "",
            "Give another path.",
            "Nothing was charged and nothing was changed.",
        )
    size = path.stat().st_size
    if not size:
        raise LedgerError(
            "file-empty",
            f"The ledger {path} is empty, and may be the rest of a damaged ledger.",
            "",
            "Restore a copy, or delete the file.",
            "Nothing was charged and nothing was changed.",
        )
    if size > MAX_BYTES:
        raise LedgerError(
            "file-too-large",
            f"{path} has {size:,} bytes, and a ledger has at most {MAX_BYTES:,}.",
            "",
            "Give the path of a ledger.",
            "Nothing was charged and nothing was changed.",
        )


def _connect(path: Path | None) -> sqlite3.Connection:
    """Return a connection that creates no file, begins no transaction by itself and has touched nothing yet."""
    target = f"{path.as_uri()}?mode=rw" if path else ":memory:"
    db = sqlite3.connect(target, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT)
    db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")  # injective: bad bytes break a digest
    return db


def _initialise(db: sqlite3.Connection) -> None:
    """Make an empty database a ledger without entries."""
    marks = (f"PRAGMA application_id={_APPLICATION}", f"PRAGMA user_version={FORMAT}")
    for statement in ("PRAGMA synchronous=EXTRA", "BEGIN IMMEDIATE", *_SCHEMA, *marks, "COMMIT"):
        db.execute(statement)


def _recognise(db: sqlite3.Connection, where: str) -> None:
    """Refuse what is not a ledger, before touching it; then make its commits durable."""
    if db.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
        raise _not_a_ledger(where)
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != FORMAT:
        raise LedgerError(
            "format-unknown",
            f"{where} has format {version}, and this fitnoise reads and writes only format {FORMAT}.",
            "",
            "Use the fitnoise that wrote it, or open a new ledger whose caps leave out the spent budget of this one.",
            "Nothing was charged and nothing was changed.",
        )
    db.execute("PRAGMA trusted_schema=OFF")  # a schema from elsewhere runs no function with side effects
    (pages,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if pages != "ok":  # one flipped bit in a count of cells hides the last entry from the chain
        raise _damaged(where)
    db.execute("PRAGMA journal_mode=DELETE")  # one file, after any mode that another program left
    db.execute("PRAGMA synchronous=EXTRA")  # sync file, journal and folder at every commit
    db.execute("PRAGMA fullfsync=ON")  # on macOS a plain sync stops at the cache of the disk
