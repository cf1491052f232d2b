"""The law of stores: what each storage of a ledger must keep through kills, races, replaced files and cut tails."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import cast

from engines import POSTGRESQL, connected, postgresql
from fitnoise.errors import BudgetExceeded, LedgerError
from fitnoise.kernel.ledger import Account, Ledger, LedgerEntry
from fitnoise.kernel.ledger.sqlite import SqliteStore
from fitnoise.kernel.ledger.store import Row, Store
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import PrivacyUnit
from fitnoise.ledgers import PostgresStore, create, creation

SURVEY = Account("survey", PrivacyUnit())
RACERS = 4
SHARES = ("north", "south")
MOMENTS = ("begin", "append", "commit")  # a process is killed just after it


@dataclass(frozen=True)
class StoreKind:
    """A kind of store.

    Args:
        open: Opens the store at a path, and makes it if nothing is there.
        cut: Removes the last row of the store at a path, as a person with write access can.
        replace: Puts a copy in the place of the store at a path.
    """

    open: Callable[[Path], Store]
    cut: Callable[[Path], None]
    replace: Callable[[Path], None]


class LinesStore:
    """Rows as lines of JSON in a locked file: a store without SQL, which shows that the rules need none.

    A line without its end is the rest of a killed process, and is no row.
    """

    def __init__(self, path: Path) -> None:
        self.file: Path | None = path
        self.where = f"The ledger {path}"
        self.owner = (os.getpid(), threading.get_ident())
        self._path = path
        self._handle = path.open("a+b")
        self.opened_identity = self.identity()
        self.appended: list[Row] = []

    def identity(self) -> object:
        return (status := self._path.stat()).st_dev, status.st_ino

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[None]:
        fcntl.flock(self._handle, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
        self.appended = []
        try:
            yield
        finally:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def rows(self) -> Iterator[Row]:
        self._handle.seek(0)
        return iter([cast(Row, tuple(json.loads(line))) for line in self._handle if line.endswith(b"\n")])

    def append(self, row: Row) -> None:
        if row[0] != len([*self.rows(), *self.appended]) + 1:
            raise LedgerError("out-of-order", "The row does not follow the last one.", "", "Append in order.", "")
        self.appended.append(row)

    def commit(self) -> None:
        self._handle.seek(0)
        self._handle.truncate(sum(len(line) for line in self._handle if line.endswith(b"\n")))
        self._handle.write(b"".join(json.dumps(row).encode() + b"\n" for row in self.appended))
        self._handle.flush()
        os.fsync(self._handle.fileno())

    def close(self) -> None:
        self._handle.close()


def replace_file(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    copy.replace(path)


def cut_lines(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    os.truncate(path, sum(map(len, lines[:-1])))


def cut_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        ((trigger, sql),) = db.execute("SELECT name, sql FROM sqlite_master WHERE name = 'entries_stay'").fetchall()
        db.execute(f"DROP TRIGGER {trigger}")
        db.execute("DELETE FROM entries WHERE sequence = (SELECT max(sequence) FROM entries)")
        db.execute(sql)


def schema_of(path: Path) -> str:
    """Return the schema that has the store of a path in the tests' server of PostgreSQL."""
    return f"l{hashlib.sha256(str(path).encode()).hexdigest()[:20]}"


def postgresql_address(path: Path) -> str:
    """Return the address of the store of a path. Other processes find the server in their environment."""
    url = postgresql_url()
    return f"{url}{'&' if '?' in url else '?'}schema={schema_of(path)}"


@cache
def postgresql_url() -> str:
    return os.environ.get("FITNOISE_TEST_SERVER") or postgresql().render_as_string(hide_password=False).replace(
        ":@", "@"
    )


def open_postgresql(path: Path) -> Store:
    address = postgresql_address(path)
    with suppress(LedgerError):
        create(address)
    return PostgresStore(address)


def execute(*statements: str) -> None:
    """Execute statements in one transaction as the owner of the tests' server, who may do anything."""
    with connected(postgresql_url()) as db:
        for statement in statements:
            db.exec_driver_sql(statement)


def cut_postgresql(path: Path) -> None:
    table = f"{schema_of(path)}.entries"
    execute(
        f"ALTER TABLE {table} DISABLE TRIGGER entries_keep",
        f"DELETE FROM {table} WHERE sequence = (SELECT max(sequence) FROM {table})",
        f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER entries_keep",
    )


def replace_postgresql(path: Path) -> None:
    schema = schema_of(path)
    old = f"o{uuid.uuid4().hex}"
    execute(
        f"ALTER SCHEMA {schema} RENAME TO {old}",
        *creation(schema),
        f"INSERT INTO {schema}.entries SELECT * FROM {old}.entries ORDER BY sequence",
        f"ALTER TABLE {schema}.ledger DISABLE TRIGGER ledger_keep",
        f"UPDATE {schema}.ledger SET id = (SELECT id FROM {old}.ledger)",
        f"ALTER TABLE {schema}.ledger ENABLE ALWAYS TRIGGER ledger_keep",
    )


KINDS = {
    "sqlite": StoreKind(SqliteStore, cut_sqlite, replace_file),
    "lines": StoreKind(LinesStore, cut_lines, replace_file),
}
if POSTGRESQL:
    KINDS["postgresql"] = StoreKind(open_postgresql, cut_postgresql, replace_postgresql)


def row(sequence: int) -> Row:
    """Return a row that a store keeps, although no ledger believes it."""
    texts = ("charge", "", "1e0", "007", " \n\r\"'\\%;\u2028", "é東𝕏", "{}" * 50_000, "0" * 64)
    return (sequence, *texts)


def numbers(store: Store) -> list[int]:
    """Return the sequence numbers that a store holds."""
    with store.transaction(write=False):
        return [each[0] for each in store.rows()]


def append(store: Store, *sequence: int) -> None:
    """Append rows with these numbers, and commit."""
    with store.transaction(write=True):
        for number in sequence:
            store.append(row(number))
        store.commit()


def is_refused(act: Callable[[], object], *codes: str) -> bool:
    """Return True if an operation raises a LedgerError, with one of these codes if there are any."""
    try:
        act()
    except LedgerError as error:
        return not codes or error.code in codes
    return False


# --- The law ----------------------------------------------------------------------------------------------


def check_rows(kind: StoreKind, folder: Path) -> None:
    """Rows are kept by a commit alone, in order, with the texts that they had; gaps and repeats are refused."""
    path = folder / "rows"
    with closing(kind.open(path)) as store:
        with store.transaction(write=True):
            store.append(row(1))
        assert numbers(store) == [], "a row is kept without a commit"
        assert is_refused(partial(append, store, 1, 3)), "a row is out of order, or its error is suppressed"
        assert numbers(store) == [], "a row is kept after an error"
        append(store, 1, 2)
        for wrong in (2, 4, 0):
            assert is_refused(partial(append, store, wrong)), "a row is out of order, or its error is suppressed"
        store.close()
    with closing(kind.open(path)) as store, store.transaction(write=False):
        assert list(store.rows()) == [row(1), row(2)], "a row is lost or changed"


def check_excluded(kind: StoreKind, folder: Path) -> None:
    """A transaction that writes begins after another one has ended, and reads the rows of that one."""
    path, entered, read = folder / "excluded", threading.Event(), list[int]()

    def write_too() -> None:
        with closing(kind.open(path)) as other, other.transaction(write=True):
            entered.set()
            read.extend(each[0] for each in other.rows())

    second = threading.Thread(target=write_too)
    with closing(kind.open(path)) as store:
        with store.transaction(write=True):
            second.start()
            # A store that excludes the other writer passes after any time; one that does not is seen in this time.
            overlap = entered.wait(0.3)
            store.append(row(1))
            store.commit()
        second.join()
    assert not overlap, "two transactions write at once"
    assert read == [1], "a committed row is not read"


def check_owner(kind: StoreKind, folder: Path) -> None:
    """A store says who opened it, so that another thread is refused."""
    refused = []
    with closing(kind.open(folder / "owner")) as store:
        Ledger.from_store(store)
        other = threading.Thread(
            target=lambda: refused.append(is_refused(lambda: Ledger.from_store(store), "ledger.opened-elsewhere"))
        )
        other.start()
        other.join()
    assert refused == [True], "another thread uses the store"


def check_replaced(kind: StoreKind, folder: Path) -> None:
    """A store that another one replaces is noticed: before a charge, and between charging and committing."""
    path = folder / "replaced"
    with Ledger.from_store(kind.open(path)) as ledger:
        charge(ledger)
        kind.replace(path)
        assert is_refused(lambda: charge(ledger), "ledger.file-replaced"), "a replaced store is charged"
    with closing(kind.open(path)) as store, store.transaction(write=True):
        assert store.identity() == store.opened_identity, "a store takes itself for another"
        kind.replace(path)
        assert store.identity() != store.opened_identity, "a replacement goes unnoticed"


def check_cut(kind: StoreKind, folder: Path) -> None:
    """A tail that was cut off is noticed by a ledger that saw it, and by a head that was written down."""
    path = folder / "cut"
    with Ledger.from_store(kind.open(path)) as ledger:
        charge(ledger)
        head = charge(ledger).sequence, ledger.head()[1]
        kind.cut(path)
        assert is_refused(lambda: charge(ledger), "ledger.head-not-found"), "a cut tail is charged"
    with Ledger.from_store(kind.open(path)) as ledger:
        assert ledger.verify() == 1, "more than the tail was cut"
        assert is_refused(lambda: ledger.verify(head), "ledger.head-not-found"), "a cut tail is verified"


def check_race(name: str, folder: Path) -> None:
    """Exactly those processes that fit under the cap succeed if several charge at the same moment."""
    path = folder / "race"
    with Ledger.from_store(KINDS[name].open(path)) as ledger:
        ledger.set_cap(SURVEY, Fraction(RACERS, 8))
    racers = [start("race", name, path) for _ in range(RACERS)]
    charged = sum(int(racer.communicate()[0]) for racer in racers)
    assert [racer.returncode for racer in racers] == [0] * RACERS
    with Ledger.from_store(KINDS[name].open(path)) as ledger:
        assert charged == RACERS, "a race charges more or less than the cap allows"
        assert ledger.balance(SURVEY).spent == Fraction(RACERS, 8)
        assert ledger.verify() == 1 + 2 * RACERS, "a race loses an entry"


def check_race_for_shares(name: str, folder: Path) -> None:
    """No share and not their sum exceeds its cap if several processes charge both shares at the same moment."""
    path = folder / "shares"
    with Ledger.from_store(KINDS[name].open(path)) as ledger:
        ledger.set_cap(SURVEY, Fraction(5, 8))
        for part in SHARES:
            ledger.set_cap(SURVEY, Fraction(3, 8), share=part)
    racers = [start("race_for_shares", name, path) for _ in range(RACERS)]
    charged = sum(int(racer.communicate()[0]) for racer in racers)
    assert [racer.returncode for racer in racers] == [0] * RACERS
    with Ledger.from_store(KINDS[name].open(path)) as ledger:
        spent = [ledger.balance(SURVEY, x).spent for x in SHARES]
        assert sorted(spent, key=str) == [Fraction(1, 4), Fraction(3, 8)], "a race exceeds the cap of a share"
        assert (charged, ledger.balance(SURVEY).spent) == (5, Fraction(5, 8)), "a race for shares exceeds the cap"
        assert ledger.verify() == 1 + len(SHARES) + 2 * len(SHARES) * RACERS, "a race loses an entry"


def check_race_for_proposal(name: str, folder: Path) -> None:
    """Exactly one process succeeds if several charge one approved proposal at the same moment."""
    path = folder / "proposals"
    with Ledger.from_store(KINDS[name].open(path)) as ledger:
        ledger.set_cap(SURVEY, Fraction(RACERS), approval=True)
    racers = [start("race_for_proposal", name, path) for _ in range(RACERS)]
    charged = [racer.communicate()[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * RACERS
    with Ledger.from_store(KINDS[name].open(path)) as ledger:
        assert sorted(charged) == ["0"] * (RACERS - 1) + ["1"], "a proposal is not charged exactly once"
        assert (ledger.balance(SURVEY).spent, ledger.verify()) == (Fraction(1, 8), 2)


def check_kill(name: str, folder: Path) -> None:
    """A process killed around its commit leaves all of it or nothing, and a store that opens."""
    runs = [(moment, folder / f"killed-{moment}") for moment in MOMENTS]
    for _, path in runs:
        with Ledger.from_store(KINDS[name].open(path)) as ledger:
            charge(ledger)
    processes = [start("kill", name, path, moment) for moment, path in runs]
    for process, (moment, path) in zip(processes, runs, strict=True):
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        store = KINDS[name].open(path)
        assert numbers(store) == ([1, 2] if moment == "commit" else [1]), f"a kill after {moment} leaves another state"
        store.close()


def check_store(name: str, folder: Path) -> None:
    """Check the complete law for a kind of store.

    Args:
        name: Its key in `KINDS`, by which the other processes find it, too.
        folder: An empty folder.
    """
    for check in (check_rows, check_excluded, check_owner, check_replaced, check_cut):
        check(KINDS[name], folder)
    check_race(name, folder)
    check_race_for_shares(name, folder)
    check_race_for_proposal(name, folder)
    check_kill(name, folder)


# --- Other processes --------------------------------------------------------------------------------------


def charge(ledger: Ledger, **detail: str) -> LedgerEntry:
    """Charge 1/8."""
    return ledger.charge(SURVEY, Loss.concentrated(Fraction(1, 8)), detail)


def start(act: str, *arguments: object) -> subprocess.Popen[str]:
    """Return a process of its own that runs `race` or `kill` of this file."""
    command = [sys.executable, "-c", f"import sys; from laws import stores; stores.{act}(*sys.argv[1:])"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    if arguments[0] == "postgresql":
        environment |= {"FITNOISE_TEST_SERVER": postgresql_url()}
    return subprocess.Popen([*command, *map(str, arguments)], env=environment, stdout=subprocess.PIPE, text=True)


def race(name: str, path: str) -> None:
    """Try two charges, and print how many succeeded."""
    charged = 0
    for _ in range(2):
        with Ledger.from_store(KINDS[name].open(Path(path))) as ledger:
            try:
                charge(ledger)
                charged += 1
            except BudgetExceeded:
                pass
    sys.stdout.write(str(charged))


def race_for_shares(name: str, path: str) -> None:
    """Try two charges to each share, and print how many succeeded."""
    charged = 0
    for part in 2 * SHARES:
        with Ledger.from_store(KINDS[name].open(Path(path))) as ledger, suppress(BudgetExceeded):
            charge(ledger, share=part)
            charged += 1
    sys.stdout.write(str(charged))


def race_for_proposal(name: str, path: str) -> None:
    """Try to charge a proposal twice, and print how many charges succeeded."""
    charged = 0
    for _ in range(2):
        with Ledger.from_store(KINDS[name].open(Path(path))) as ledger:
            charge_again = partial(charge, ledger, proposal="0" * 64, proposed_by="ada", approved_by="ben")
            charged += not is_refused(charge_again, "ledger.proposal-charged-before")
    sys.stdout.write(str(charged))


def kill(name: str, path: str, moment: str) -> None:
    """Append a row, and stop without a word just after the moment."""

    def reach(now: str) -> None:
        if now == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    store = KINDS[name].open(Path(path))
    with store.transaction(write=True):
        reach("begin")
        store.append(row(2))
        reach("append")
        store.commit()
        reach("commit")
