"""Each store of a ledger obeys the law of stores, the law notices stores that do not, and the ledger rows that lie."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fitnoise.errors import LedgerError
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.ledger.sqlite import SqliteStore
from fitnoise.kernel.ledger.store import Row
from fitnoise.kernel.losses import Loss
from laws.stores import (
    KINDS,
    SURVEY,
    LinesStore,
    StoreKind,
    charge,
    check_cut,
    check_excluded,
    check_owner,
    check_replaced,
    check_rows,
    check_store,
    replace_file,
    row,
)
from refused import refused


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the folder for answers of ledgers on a server out of the home of the tester."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize("name", KINDS)
def test_each_store_obeys_the_law(name: str, tmp_path: Path) -> None:
    check_store(name, tmp_path)


def append_at_once(self: LinesStore, row: Row) -> None:
    self.appended = [row]
    self.commit()


def append_anywhere(self: LinesStore, row: Row) -> None:
    self.appended.append(row)


@contextmanager
def without_a_lock(self: LinesStore, *, write: bool) -> Iterator[None]:
    self.appended = []
    yield


@contextmanager
def suppressing(self: LinesStore, *, write: bool) -> Iterator[None]:
    self.appended = []
    with suppress(LedgerError):
        yield


@pytest.mark.parametrize(
    ("check", "member", "wrong", "fault"),
    [
        (check_rows, "append", append_at_once, "kept without a commit"),
        (check_rows, "append", append_anywhere, "out of order"),
        (check_rows, "commit", lambda _: None, "a row is lost"),
        (check_rows, "transaction", suppressing, "its error is suppressed"),
        (check_excluded, "transaction", without_a_lock, "two transactions write at once"),
        (check_replaced, "identity", lambda _: 1, "a replaced store is charged"),
        (
            check_owner,
            "owner",
            property(lambda _: (os.getpid(), threading.get_ident()), lambda *_: None),
            "another thread",
        ),
    ],
)
def test_the_law_notices_a_store_that_breaks_it(
    check: Callable[[StoreKind, Path], None],
    member: str,
    wrong: Any,
    fault: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LinesStore, member, wrong, raising=False)
    with pytest.raises(AssertionError, match=fault):
        check(KINDS["lines"], tmp_path)


def test_the_law_notices_a_tail_that_stays(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="a cut tail is charged"):
        check_cut(StoreKind(LinesStore, lambda _: None, replace_file), tmp_path)


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (lambda rows: rows[::-1], "entry-missing"),
        (lambda rows: [rows[0], *rows], "entry-missing"),
        (lambda rows: [*rows, rows[-1]], "entry-missing"),
        (lambda rows: rows[1:], "entry-missing"),
        (lambda rows: [rows[0], rows[2]], "entry-missing"),
        (lambda rows: [rows[0], (2, *rows[2][1:])], "entry-not-chained"),
        (lambda rows: [*rows[:2], (*rows[2][:4], "1/16", *rows[2][5:])], "entry-changed"),
        (lambda rows: [*rows[:2], (*rows[2][:4], 1, *rows[2][5:])], "entry-invalid"),
        (lambda rows: [*rows[:2], rows[2][:3] + rows[2][-2:]], "entry-invalid"),
        (lambda rows: rows[:2], "head-not-found"),
        (lambda rows: [], "head-not-found"),
    ],
)
def test_a_ledger_refuses_rows_that_are_not_those_it_wrote(
    lie: Callable[[list[Row]], list[Row]], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.from_store(LinesStore(tmp_path / "lines")) as ledger:
        for _ in range(3):
            charge(ledger)
        before, real = (tmp_path / "lines").read_bytes(), LinesStore.rows
        monkeypatch.setattr(LinesStore, "rows", lambda self: iter(lie(list(real(self)))))
        with refused(f"ledger.{code}"):
            charge(ledger)
    assert (tmp_path / "lines").read_bytes() == before


def test_a_store_that_is_no_ledger_stays_open_for_its_caller(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with Ledger.from_store(LinesStore(path)) as ledger:
        charge(ledger)
        charge(ledger)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[1])
    with closing(LinesStore(path)) as store:
        with refused("ledger.entry-missing"):
            Ledger.from_store(store)
        assert [row[0] for row in store.rows()] == [2]


def test_a_ledger_that_does_not_open_closes_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        charge(ledger)
        charge(ledger)
    closed, real = list[SqliteStore](), SqliteStore.close

    def close(self: SqliteStore) -> None:
        closed.append(self)
        real(self)

    monkeypatch.setattr(SqliteStore, "close", close)
    monkeypatch.setattr(SqliteStore, "rows", lambda self: iter([row(2)]))
    with refused("ledger.entry-missing"):
        Ledger(tmp_path / "ledger.db")
    assert len(closed) == 1


def test_only_operations_that_write_exclude_other_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes, real = list[bool](), LinesStore.transaction

    def transaction(self: LinesStore, *, write: bool) -> AbstractContextManager[None]:
        modes.append(write)
        return real(self, write=write)

    monkeypatch.setattr(LinesStore, "transaction", transaction)
    with Ledger.from_store(LinesStore(tmp_path / "lines")) as ledger:
        loss = Loss.concentrated(Fraction(1, 8))
        entry = charge(ledger)
        ledger.admit(SURVEY, loss, {})
        ledger.set_cap(SURVEY, Fraction(1))
        ledger.answer(entry, "a" * 64)
        assert modes == [False, True, True, True, True]
        modes.clear()
        ledger.quote(SURVEY, loss)
        ledger.balance(SURVEY)
        ledger.answered(entry)
        ledger.charges(SURVEY, "")
        ledger.series(SURVEY, "")
        ledger.accounts()
        ledger.entries()
        ledger.groups(SURVEY)
        ledger.head()
        ledger.verify()
    assert modes == [False] * 10


def test_a_ledger_on_lines_has_the_entries_of_one_in_sqlite(tmp_path: Path, standing_still: None) -> None:
    heads = set()
    for name, kind in KINDS.items():
        with Ledger.from_store(kind.open(tmp_path / name)) as ledger:
            charge(ledger)
            heads.add(ledger.head())
            assert ledger.file is not None
    assert len(heads) == 1
