"""The memory of what was spent, opening with its constitution: what no version may ever change.

1. **Append-only.** An entry is never altered, moved or removed: a mistake is paid for, not erased.
2. **Chained.** Every entry carries the SHA-256 of all it says and of the entry before it; nothing is decided
   from entries that were not verified in the same transaction.
3. **Spend first.** A charge is on the disk before :meth:`Ledger.charge` returns, hence before noise is drawn.
   A crash can waste budget, never forget it.
4. **Exact, rounded against us.** A cost is an exact rational, rounded *up* to a multiple of 2⁻⁶⁴. No floats.
5. **An unknown cost is infinite.** What cannot be priced, read or verified is refused.
6. **Nobody's data inside.** Only names, costs, times and what a plan says, which is made without data. The
   file is private to the publisher all the same, and made for its owner's eyes: it tells what was planned.

Costs are ρ of zero-concentrated differential privacy, which adds under composition (Bun and Steinke 2016):
an account has spent Σ ρ over its charges, and a charge fits when spent + ρ ≤ cap. That keeps the whole within
the cap even when each cost is chosen after seeing the releases before it (Feldman and Zrnic 2021, a privacy
filter). Whoever raises the cap makes a new promise, and the ledger keeps both.

**What a chain cannot tell.** It is no signature: who can write to the file can cut its tail, put back an old
copy or forge a new chain from the beginning. So write :meth:`Ledger.head` down elsewhere with each release,
and hand it to :meth:`Ledger.verify`. And one account has one file: two copies are two budgets.

Longer than other rooms on purpose: whoever checks the memory finds all of it on one page.
"""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
import sqlite3
import tempfile
import threading
import unicodedata
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, final

from fitnoise.errors import BudgetExceeded, LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GENESIS = "0" * 64  # the digest before the first entry
_APPLICATION = int.from_bytes(b"fitn")  # PRAGMA application_id: how the file is known
_FORMAT = 1  # PRAGMA user_version
_BUSY_SECONDS = 30.0  # how long to wait for another process
_MAX_BITS = 1000  # of the integers in a stored ρ, so that neither its float nor its digits overflow

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
_COLUMNS = ("sequence", "kind", "source", "unit", "rho", "time", "detail", "previous")  # then "digest"

_ADVICE = {
    sqlite3.SQLITE_BUSY: "another process holds it and did not let go in time; try again when it is done",
    sqlite3.SQLITE_READONLY: "it is read-only; ask its owner to write to it",
    sqlite3.SQLITE_NOTADB: "it is not a ledger; give the path of one, or of a file that does not exist yet",
    sqlite3.SQLITE_CORRUPT: "its pages are damaged; restore a copy, verify it against a head you wrote down",
    sqlite3.SQLITE_FULL: "its disk is full; free some space",
}
# The last of these is what damaged pages do to the text of SQLite's own errors.
_FILE_ERRORS = (OSError, sqlite3.Error, UnicodeDecodeError)


def ceil_dyadic(rho: Fraction, bits: int = 64) -> Fraction:
    """The least multiple of 2^−bits that is at least ρ: ⌈ρ·2^bits⌉ / 2^bits.

    Raises:
        LedgerError: ρ is not a ``Fraction``. A float is refused: what it was before rounding is unknown.

    **Guarantees**: ρ ≤ result < ρ + 2^−bits; a multiple of 2^−bits is returned unchanged; monotone in ρ.
    """
    if not isinstance(rho, Fraction):
        raise _error(f"ρ must be a Fraction, not {reprlib.repr(rho)}: a cost not known exactly is infinite")
    scale = 1 << bits
    return Fraction(-(-rho.numerator * scale // rho.denominator), scale)


@final
@dataclass(frozen=True)
class Account:
    """What is protected: one balance per account.

    Args:
        source: name of the data source.
        unit: the privacy unit and its neighbouring relation, e.g. ``"one record, add-or-remove-one"``.

    Raises:
        LedgerError: a name is not a string, is empty, has spaces around it or an unprintable character, or
            is not in Unicode NFC: one source spelt in two ways would have two budgets.
    """

    source: str
    unit: str

    def __post_init__(self) -> None:
        for name in (self.source, self.unit):
            if not isinstance(name, str) or not name or not name.isprintable() or name != _spelt(name):
                raise _error(
                    f"{reprlib.repr(name)} cannot name an account: give printable text in Unicode NFC, "
                    "not empty, without spaces around it"
                )


@final
@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Args:
        sequence: 1, 2, 3, … without a gap.
        kind: ``"cap"`` (a new limit), ``"charge"`` (spent) or ``"refusal"`` (asked for, not spent).
        account: what is protected.
        rho: the cap, any ρ ≥ 0; or the cost charged or refused, a positive multiple of 2⁻⁶⁴.
        time: UTC, ISO 8601, to the second, by the machine's clock: information, not evidence.
        detail: a JSON object without floats.
        previous: digest of the entry before; :data:`GENESIS` for the first.
        digest: SHA-256 (hex) of the other columns as canonical JSON: sorted keys, no spaces, ASCII.

    Raises:
        LedgerError: the kind is unknown, or ρ is not what the kind allows.
    """

    sequence: int
    kind: str
    account: Account
    rho: Fraction
    time: str
    detail: Mapping[str, Any]
    previous: str
    digest: str

    def __post_init__(self) -> None:
        sound = self.rho >= 0 if self.kind == "cap" else self.rho > 0 and ceil_dyadic(self.rho) == self.rho
        if self.kind not in {"cap", "charge", "refusal"} or not sound:
            raise _error(f"there is no entry of kind {self.kind!r} with ρ = {self.rho}")


@final
@dataclass(frozen=True)
class Quote:
    """What a charge would do; nothing is changed.

    Args:
        account: what is protected.
        rho: what would be charged: the cost rounded up to a multiple of 2⁻⁶⁴.
        spent: the sum of the charges so far.
        cap: the cap in force, the last one set; None when there is none.
        remaining: max(cap − spent, 0), exactly; None when there is no cap. The largest charge that fits is
            ``remaining`` rounded *down* to a multiple of 2⁻⁶⁴.
        fits: there is no cap, or spent + rho ≤ cap.
    """

    account: Account
    rho: Fraction
    spent: Fraction
    cap: Fraction | None
    remaining: Fraction | None
    fits: bool


@final
class Ledger:
    """An append-only file of caps, charges and refusals, shared safely between processes.

    A ledger is used by the thread that opened it; other threads and processes open the same path. Each call
    is one transaction that reads and verifies the whole chain (about 0.1 ms an entry).

    Args:
        path: the file, made if there is none (its folder must exist); ``":memory:"`` for a ledger that is
            forgotten when it is closed.

    Raises:
        LedgerError: from any method: the file is no ledger, or a newer one, or was altered, replaced, is
            read-only or busy; or an argument is not exact. Draw no noise after it.

    **Guarantees**

    * spent = Σ charges, exactly: in any order, over re-opening, over processes.
    * No charge takes spent above the cap in force, however many processes race for it.
    * When ``charge`` returns, the entry is on the disk; when it raises a LedgerError, nothing was charged,
      unless the error says that this is unknown (the disk failed while committing).
    * A process killed at any moment leaves its entry whole or absent, and a file that opens and verifies.
    * SQL cannot update, delete or replace an entry; when the triggers were removed first, the chain shows it.
    * One damaged byte in the file is refused, or changes nothing that is read.
    * While it is open, a ledger raises if its file was replaced, or if an entry it has seen is gone.
    * A file that is no ledger is refused and left as it was, byte for byte. So is an empty file, which may be
      what is left of a ledger.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = None if os.fspath(path) == ":memory:" else Path(path).absolute()
        self._where = f"the ledger {self._path or 'in memory'}"
        self._owner = (os.getpid(), threading.get_ident())
        self._seen = (0, GENESIS)
        try:
            if self._path:
                _create(self._path)
            self._file = _identity(self._path)  # before connecting: a swap in between is noticed later
            with ExitStack() as undo:
                self._db = undo.enter_context(closing(_connect(self._path)))
                if not self._path:
                    _initialise(self._db)
                _recognise(self._db, self._where)
                self.verify()
                undo.pop_all()
        except _FILE_ERRORS as error:
            raise self._failure(error) from error

    def quote(self, account: Account, rho: Fraction) -> Quote:
        """What charging ρ ≥ 0 to the account would do now. Another process may charge before you do."""
        cost = _checked(account, rho)
        with self._transaction("BEGIN") as chain:
            return _quote(chain, account, cost)

    def balance(self, account: Account) -> Quote:
        """The quote of a zero charge."""
        return self.quote(account, Fraction(0))

    def charge(self, account: Account, rho: Fraction, detail: Mapping[str, Any]) -> Entry:
        """Spend ρ > 0, rounded up to a multiple of 2⁻⁶⁴: on the disk before this returns.

        Raises:
            BudgetExceeded: it does not fit. That is recorded as a refusal; nothing was charged.
            LedgerError: ρ is not a positive ``Fraction``; ``detail`` is not a JSON object without floats.
        """
        cost = _checked(account, rho)
        if not cost:
            raise _error("a charge must be positive, not 0: no release is free, and an unknown cost is infinite")
        with self._transaction("BEGIN IMMEDIATE") as chain:
            quote = _quote(chain, account, cost)
            entry = self._append(chain, "charge" if quote.fits else "refusal", account, cost, detail)
        if entry.kind == "refusal":
            raise BudgetExceeded(_refusal(quote, entry))
        return entry

    def set_cap(self, account: Account, rho: Fraction, *, reason: str = "") -> Entry:
        """Put a cap ρ ≥ 0 in force, exactly as given. Earlier caps stay in the ledger.

        It may lie below what is spent: then nothing fits any more.
        """
        cap = _checked(account, rho, rounded=False)
        with self._transaction("BEGIN IMMEDIATE") as chain:
            return self._append(chain, "cap", account, cap, {"reason": reason} if reason else {})

    def accounts(self) -> list[Account]:
        """Every account named so far, in order of appearance."""
        return list(dict.fromkeys(entry.account for entry in self.entries()))

    def entries(self, account: Account | None = None) -> list[Entry]:
        """Every entry, or every entry of one account, oldest first."""
        with self._transaction("BEGIN") as chain:
            return [entry for entry in chain if account is None or entry.account == account]

    def head(self) -> tuple[int, str]:
        """Sequence and digest of the last entry; (0, :data:`GENESIS`) of an empty ledger. Write it down."""
        with self._transaction("BEGIN") as chain:
            return _head(chain)

    def verify(self, expected_head: tuple[int, str] | None = None) -> int:
        """Recompute every digest; return the number of entries.

        Args:
            expected_head: a :meth:`head` written down earlier, through which the chain must pass. Without
                one, a tail cut off, or a chain forged from its beginning, cannot be detected.

        Raises:
            LedgerError: names the first entry that is missing, out of place or changed.
        """
        with self._transaction("BEGIN") as chain:
            self._passes(chain, expected_head or (0, GENESIS))
            return len(chain)

    def close(self) -> None:
        """Let go of the file. Closing twice does no harm."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self, begin: Literal["BEGIN", "BEGIN IMMEDIATE"]) -> Iterator[list[Entry]]:
        """Lend the verified chain; what is appended meanwhile is committed at the end, or not at all."""
        if self._owner != (os.getpid(), threading.get_ident()):
            raise _error(f"{self._where} was opened by another thread or process: open it in this one")
        committing = ended = False
        try:
            self._db.execute(begin)
            try:
                chain = self._read()
                yield chain
                committing = True
                self._db.execute("COMMIT")
                self._seen = _head(chain)
            finally:
                ended = not self._db.in_transaction
                if not ended:
                    self._db.execute("ROLLBACK")
        except _FILE_ERRORS as error:
            raise self._failure(error, unknown=committing and ended) from error

    def _read(self) -> list[Entry]:
        """The whole chain, verified inside the transaction that will use it."""
        if self._file != _identity(self._path):
            raise _error(f"{self._where} was replaced by another file since it was opened: open it again")
        chain: list[Entry] = []
        for row in self._db.execute("SELECT * FROM entries ORDER BY sequence"):
            self._follow(chain, row)
        if {sql for (sql,) in self._db.execute("SELECT sql FROM sqlite_master")} != set(_SCHEMA):
            raise self._altered("its table or its triggers are not those of a ledger")
        self._passes(chain, self._seen)
        return chain

    def _follow(self, chain: list[Entry], row: tuple[Any, ...]) -> None:
        """Verify one row against the chain before it, and lengthen the chain by it."""
        last, digest = _head(chain)
        if row[0] != last + 1:
            raise self._altered(f"entry {last + 1} is missing, the next one is numbered {row[0]}")
        if row[-2] != digest:
            raise self._altered(f"entry {last + 1} does not follow the entry before it")
        try:
            entry, recomputed = _entry(row), _digest(row[:-1])
        except (LedgerError, TypeError, ValueError, ZeroDivisionError) as error:
            raise self._altered(f"entry {last + 1} is not what a ledger writes") from error
        if entry.digest != recomputed:
            raise self._altered(f"entry {last + 1} was changed after it was written")
        chain.append(entry)

    def _append(
        self, chain: list[Entry], kind: str, account: Account, rho: Fraction, detail: Mapping[str, Any]
    ) -> Entry:
        """Write the next entry within the open transaction, and lengthen the chain by it."""
        last, previous = _head(chain)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        columns = (last + 1, kind, account.source, account.unit, str(rho), now, _object(detail), previous)
        row = (*columns, _digest(columns))
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._follow(chain, row)  # what is handed out is what the next reader will read
        return chain[-1]

    def _passes(self, chain: list[Entry], head: tuple[int, str]) -> None:
        """Raise unless the chain passes through the head."""
        sequence, digest = head
        if not 0 <= sequence <= len(chain) or _head(chain[:sequence])[1] != digest:
            raise self._altered(
                f"none of its {len(chain)} entries is entry {sequence} with digest {digest}; "
                "its tail was cut off, or it was rewritten, or it is another ledger"
            )

    def _altered(self, what: str) -> LedgerError:
        return _error(f"{self._where} was altered: {what}; restore a copy and verify it against a known head")

    def _failure(self, error: Exception, *, unknown: bool = False) -> LedgerError:
        advice = _ADVICE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, str(error))
        if unknown:
            advice += "; whether the entry was recorded is unknown: draw no noise, and look before trying again"
            return LedgerError(f"cannot use {self._where}: {advice}")
        return _error(f"cannot use {self._where}: {advice}")


def _create(path: Path) -> None:
    """Put an empty ledger at the path unless something is there; what is there must be a file, and not empty.

    It is made under another name and linked into place when complete, so that no crash and no other process
    ever meets half a ledger, and an empty file can be refused (this needs a file system with hard links).
    Its name is as durable as its first entry: synchronous=EXTRA also syncs the folder.
    """
    if not path.parent.is_dir():
        raise _error(f"the folder {path.parent} of the ledger does not exist: make it first")
    if not path.exists():
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # for its owner's eyes: 0600
        try:
            os.close(handle)
            with closing(_connect(Path(name))) as db:
                _initialise(db)
            with suppress(FileExistsError):  # another process was first: then that one is the ledger
                path.hardlink_to(name)  # unlike a rename, this never replaces a file
        finally:
            Path(name).unlink()
    if not path.is_file():
        raise _error(f"{path} is not a file, so it is no ledger: give another path")
    if not path.stat().st_size:
        raise _error(f"{path} is empty, maybe what is left of a ledger: restore its copy, or delete it")


def _identity(path: Path | None) -> tuple[int, int]:
    """Which file the path leads to: device and inode."""
    status = path.stat() if path else None
    return (status.st_dev, status.st_ino) if status else (0, 0)


def _connect(path: Path | None) -> sqlite3.Connection:
    """A connection that creates no file, begins no transaction by itself and has touched nothing yet."""
    target = f"{path.as_uri()}?mode=rw" if path else ":memory:"
    db = sqlite3.connect(target, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")  # injective: bad bytes break a digest
    return db


def _initialise(db: sqlite3.Connection) -> None:
    """Make an empty database a ledger without entries."""
    marks = (f"PRAGMA application_id={_APPLICATION}", f"PRAGMA user_version={_FORMAT}")
    for statement in ("PRAGMA synchronous=EXTRA", "BEGIN IMMEDIATE", *_SCHEMA, *marks, "COMMIT"):
        db.execute(statement)


def _recognise(db: sqlite3.Connection, where: str) -> None:
    """Refuse what is not a ledger, before touching it; then make its commits durable."""
    if db.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
        raise _error(f"{where} is not a ledger but another database: give another path")
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != _FORMAT:
        raise _error(f"{where} has format {version}, this fitnoise reads format {_FORMAT}: upgrade fitnoise")
    db.execute("PRAGMA trusted_schema=OFF")  # a schema from elsewhere runs no function with side effects
    (pages,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if pages != "ok":  # one flipped bit in a count of cells hides the last entry from the chain
        raise _error(f"the pages of {where} are damaged: restore a copy and verify it against a known head")
    db.execute("PRAGMA journal_mode=DELETE")  # one file, whatever mode another program left it in
    db.execute("PRAGMA synchronous=EXTRA")  # sync file, journal and folder at every commit
    db.execute("PRAGMA fullfsync=ON")  # on macOS a plain sync stops at the cache of the disk


def _error(what: str) -> LedgerError:
    return LedgerError(f"{what}; nothing was charged, nothing was changed")


def _spelt(name: str) -> str:
    return unicodedata.normalize("NFC", name).strip()


def _checked(account: Account, rho: Fraction, *, rounded: bool = True) -> Fraction:
    """ρ ≥ 0, rounded up to a multiple of 2⁻⁶⁴ or as it is, and short enough to be written."""
    if not isinstance(account, Account):
        raise _error(f"{reprlib.repr(account)} is not an Account: name a source and a unit")
    above = ceil_dyadic(rho)  # also refuses what is no Fraction
    amount = above if rounded else rho
    if rho < 0 or max(amount.numerator.bit_length(), amount.denominator.bit_length()) > _MAX_BITS:
        limits = f"at least 0 and a ratio of integers of at most {_MAX_BITS} bits"
        raise _error(f"ρ must be {limits}, not {reprlib.repr(rho)}")
    return amount


def _quote(chain: list[Entry], account: Account, cost: Fraction) -> Quote:
    """The arithmetic: spent = Σ charges; cap = the last one; fits ⟺ spent + cost ≤ cap."""
    own = [entry for entry in chain if entry.account == account]
    spent = sum((entry.rho for entry in own if entry.kind == "charge"), Fraction(0))
    cap = next((entry.rho for entry in reversed(own) if entry.kind == "cap"), None)
    if cap is None:
        return Quote(account, cost, spent, None, None, fits=True)
    return Quote(account, cost, spent, cap, max(cap - spent, Fraction(0)), fits=spent + cost <= cap)


def _refusal(quote: Quote, entry: Entry) -> str:
    cost, spent, left, cap = quote.rho, quote.spent, quote.remaining or Fraction(0), quote.cap or Fraction(0)
    return (
        f"a cost of ρ = {_words(cost)} does not fit into the ρ = {_words(left)} that is left for "
        f"{quote.account.source!r} ({quote.account.unit}), with {_words(spent)} of {_words(cap)} spent: "
        f"it is {_words(cost - left)} too much (costs are rounded up to multiples of 2⁻⁶⁴); ask for less "
        f"accuracy or raise the cap; entry {entry.sequence} remembers it; nothing was charged, draw no noise"
    )


def _words(rho: Fraction) -> str:
    return str(rho) if rho.denominator < 10**6 else f"about {float(rho):.6g}"


def _head(chain: list[Entry]) -> tuple[int, str]:
    return (chain[-1].sequence, chain[-1].digest) if chain else (0, GENESIS)


def _json(value: object) -> str:
    """Canonical JSON: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _object(detail: Mapping[str, Any]) -> str:
    """The canonical JSON of a detail, if it reads back as it was given (floats are read back as text)."""
    try:
        text = _json(dict(detail))
        faithful = json.loads(text, parse_float=str) == detail
    except (TypeError, ValueError, RecursionError):
        faithful = False
    if not faithful:
        raise _error(
            "a detail must be a JSON object that reads back as it was given: its keys text, lists instead of "
            'tuples, and no floats, which are not exact (write a ratio as "1/3")'
        )
    return text


def _digest(columns: tuple[Any, ...]) -> str:
    return hashlib.sha256(_json(dict(zip(_COLUMNS, columns, strict=True))).encode("ascii")).hexdigest()


def _entry(row: tuple[Any, ...]) -> Entry:
    sequence, kind, source, unit, rho, time, detail, previous, digest = row
    exact = Fraction(*map(int, rho.split("/")))
    return Entry(sequence, kind, Account(source, unit), exact, time, json.loads(detail), previous, digest)
