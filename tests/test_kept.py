"""Answers that are kept until their release is in place: files, modules, the ledger, and a charge that is finished."""

import errno
import hashlib
import json
import os
import struct
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import fitnoise as fn
from fitnoise.errors import DataError, FitnoiseError, LedgerError
from fitnoise.kernel import answer_files, disk
from fitnoise.kernel.answer_files import AnswerFolder, Room, read, room_for, serialise
from fitnoise.kernel.arrays import answers_digest
from fitnoise.kernel.disk import Draft, clear_drafts, hold, lock, sync_names
from fitnoise.kernel.ledger import Account, DrawnPeriod, Ledger
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.measure import Stages, is_unfinished, measure
from laws.counting import HistogramCounter
from refused import refused
from replayed_noise import Replay

DOMAIN = fn.Domain(a=fn.Ordered(0, 2), b=fn.Categorical(["x", "y"]))
PLAN = fn.plan(fn.Workload(DOMAIN, [fn.table("a", margin=3), fn.table(margin=2)]))
OTHER = fn.plan(fn.Workload(DOMAIN, [fn.table("a", margin=4)]))
COUNTS = np.arange(6).reshape(3, 2)
ME = Account("people", fn.PrivacyUnit())
HOMES = Account("default", fn.PrivacyUnit("household", 9))
SMALL_LOSS = Loss.of_epsilon(Fraction(1, 8), by_cell=False)


@pytest.fixture
def book(tmp_path):
    with Ledger(tmp_path / "ledger.db") as ledger:
        yield ledger


def measured(ledger, order=PLAN.order, source=None, counts=COUNTS, **options):
    return measure(order, HistogramCounter(counts, DOMAIN.axes), ledger, noise=source or Replay(3), **options)


def failing(number, text="no luck"):
    def fail(*_args, **_options):
        raise OSError(number, text)

    return fail


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_draft_belongs_to_its_owner_and_is_gone_unless_it_is_placed(tmp_path):
    with Draft(tmp_path, "a") as draft:
        assert draft.path.stat().st_mode & 0o777 == 0o600
        draft.write(b"one, and more")
        draft.write(b"two")
        assert draft.path.read_bytes() == b"two, and more"
    assert not list(tmp_path.iterdir())
    with Draft(tmp_path, "a") as draft:
        draft.write(b"three")
        draft.move_to(tmp_path / "done")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("done", b"three")]


def test_a_draft_is_locked_and_one_that_was_taken_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    real, taken = disk.lock, []

    def late(handle):
        if not taken:
            taken.extend(tmp_path.iterdir())
            taken[0].unlink()
        real(handle)

    monkeypatch.setattr(disk, "lock", late)
    with Draft(tmp_path, "a") as draft:
        assert draft.path != taken[0]
        with pytest.raises(BlockingIOError):
            hold(draft.path)


def test_a_draft_that_another_process_holds_as_a_leftover_is_made_again(tmp_path, monkeypatch):
    """The other process holds the lock, and removes the file a moment later."""
    real, taken = disk.lock, []

    def late(handle):
        if not taken:
            taken.extend(tmp_path.iterdir())
            taken.append(os.open(taken[0], os.O_RDONLY))
            real(taken[1])
        real(handle)

    monkeypatch.setattr(disk, "lock", late)
    with Draft(tmp_path, "a") as draft:
        taken[0].unlink()
        draft.write(b"one")
        draft.move_to(tmp_path / "done")
    os.close(taken[1])
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("done", b"one")]


def test_drafts_of_dead_processes_are_removed_and_of_living_ones_reported(tmp_path, monkeypatch):
    with Draft(tmp_path, "a") as draft:
        (tmp_path / "a-0.unfinished").touch()
        (tmp_path / "b-0.unfinished").touch()
        (tmp_path / "b-0.answers").touch()
        assert clear_drafts(tmp_path, "a")
        assert not clear_drafts(tmp_path, "b")
        assert sorted(p.name for p in tmp_path.iterdir()) == sorted([draft.path.name, "b-0.answers"])
    (tmp_path / "a-1.unfinished").touch()
    monkeypatch.setattr(disk, "lock", failing(errno.EOPNOTSUPP))
    assert not clear_drafts(tmp_path, "a")  # where there are no locks none is removed
    assert (tmp_path / "a-1.unfinished").exists()
    with Draft(tmp_path, "a") as draft:
        assert draft.path.exists()
    assert not clear_drafts(tmp_path / "nowhere", "a")


def test_where_files_cannot_be_locked_an_error_is_raised(tmp_path, monkeypatch):
    (tmp_path / "f").touch()
    os.close(hold(tmp_path / "f"))
    monkeypatch.setattr(disk.sys, "platform", "win32")
    with pytest.raises(OSError, match="files cannot be locked"):
        lock(0)
    with pytest.raises(OSError, match="files cannot be locked"):
        hold(tmp_path / "f")


def test_a_sync_of_names_fails_where_the_disk_does_and_not_where_it_is_not_supported(tmp_path, monkeypatch):
    sync_names(tmp_path)
    sync_names(tmp_path / "nowhere")
    for number, fails in ((errno.EINVAL, False), (errno.EIO, True), (errno.ENOSPC, True)):
        monkeypatch.setattr(disk.os, "fsync", failing(number))
        if fails:
            with pytest.raises(OSError, match="no luck"):
                sync_names(tmp_path)
        else:
            sync_names(tmp_path)


# --- answers --------------------------------------------------------------------------------------------------------

LONG = (np.array([2**80, -(10**30)], dtype=object),)
ANSWERS = [(np.array([1, -2]), np.array([], dtype=np.int64)), LONG, (np.array([-(2**63)]),)]
BOUNDS = [2**62, 2**100, 2**62]


def test_answers_are_read_as_they_were_written_whatever_room_they_have(tmp_path):
    flat = [y for part in ANSWERS for y in part]
    numbers = [13, 1, -2, 2**80, -(10**30), -(2**63)]  # 10^30 with its sign needs 13 bytes
    each = [numbers[0].to_bytes(8, "little"), *(x.to_bytes(13, "little", signed=True) for x in numbers[1:])]
    digest = hashlib.sha256(b"".join(each)).hexdigest()
    assert answers_digest([np.array([1, -2]), *flat[2:]]) == digest
    for room in (0, room_for(ANSWERS, BOUNDS), 10_000):
        content = serialise(ANSWERS, room)
        assert len(content) == max(room, len(json.dumps([[y.tolist() for y in p] for p in ANSWERS]).replace(" ", "")))
        (tmp_path / "f").write_bytes(content)
        parts = read(tmp_path / "f", answers_digest(flat))
        assert [[y.tolist() for y in p] for p in parts] == [[y.tolist() for y in p] for p in ANSWERS]
        assert [[y.dtype for y in p] for p in parts] == [[np.int64] * 2, [object], [np.int64]]
    assert read(tmp_path / "nowhere", digest) is None


@pytest.mark.parametrize("size", [0, 1, 7])
def test_room_is_made_for_the_longest_numbers_of_64_bits(size):
    min_numbers = [(np.full(size, -(2**63)), np.full(1, -(2**63)))] * 2
    room = room_for(min_numbers, [2**62] * 2)
    assert len(serialise(min_numbers, 0)) <= room == len(serialise(min_numbers, room))
    wide = [(np.array([10**40] * size, dtype=object),)]
    assert len(serialise([(np.array([10**100] * size, dtype=object),)], 0)) <= room_for(wide, [10**40])


def test_the_length_of_a_file_follows_from_the_bound_and_not_from_the_exact_answers():
    lengths = [room_for([(np.array([x, 2], dtype=object),)], [10**300]) for x in (0, 1, -(10**20), 2**200, 10**300)]
    assert len(set(lengths)) == 1
    assert lengths[0] > room_for([(np.array([1, 2], dtype=object),)], [10**200])
    noisy = [(np.array([10**360, -(10**360)], dtype=object),)]
    assert len(serialise(noisy, 0)) <= lengths[0]


def test_answers_are_hashed_as_their_bytes_whatever_holds_them():
    ends = [-(2**63), -1, 0, 2**63 - 1]
    expected = hashlib.sha256(struct.pack("<5q", 8, *ends)).hexdigest()
    for array in (np.array(ends), np.array(ends, dtype=object), np.array(ends).astype(">i8"), np.repeat(ends, 2)[::2]):
        assert answers_digest([array]) == expected
        assert answers_digest([array[i : i + 1] for i in range(4)]) == expected
    assert answers_digest([np.array([], dtype=np.int64)]) == hashlib.sha256(struct.pack("<q", 8)).hexdigest()


@pytest.mark.parametrize("wide", [2**63, -(2**63) - 1, 2**71 - 1, -(2**71), 2**71])
def test_different_answers_have_different_digests(wide):
    short = wide.to_bytes(16, "little", signed=True)
    low, high = struct.unpack("<2q", short)
    others = [[wide, 0], [0, wide], [wide + 1], [low, high], [8, low, high], [9, low, high], [16, low, high]]
    digests = {answers_digest([np.array(x, dtype=object)]) for x in ([wide], *others)}
    assert len(digests) == 1 + len(others)


COUNT = fn.FiniteQuery.count("all", people=9, epsilon=Fraction(1, 2))


@pytest.mark.parametrize(
    ("tables", "questions"), [([fn.table("a", margin=3)], []), ([fn.table("a", margin=3)], [COUNT]), ([], [COUNT])]
)
def test_anyone_can_recompute_the_digest_of_answers_from_the_bare_columns(tables, questions, tmp_path):
    plan = fn.plan(fn.Workload(DOMAIN, tables), questions=questions)
    records = pd.DataFrame({"a": [0, 1, 2], "b": ["x", "y", "y"]})
    fn.release(plan, records, ledger=tmp_path / "ledger.db", directory=tmp_path / "release")
    columns = {"measurements.parquet": "answer", "finite.parquet": "output"}
    files = [(tmp_path / "release" / name, column) for name, column in columns.items()]
    integers = [x for path, column in files if path.exists() for x in pd.read_parquet(path)[column]]
    digest = hashlib.sha256(np.array([8, *integers], dtype="<i8").tobytes()).hexdigest()
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert [e.answers for e in ledger.entries() if e.kind == "answers"] == [digest]


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "3", "[3]", "[[3]]", "[[[true]]]", "[[[1.0]]]", "[[[2]]]", '[["1"]]', "{}",
        pytest.param("[" * 10**6, id="nested"),
    ],
)  # fmt: skip
def test_answers_that_were_touched_are_refused(tmp_path, text):
    (tmp_path / "f").write_text(text)
    with refused("ledger.kept-answers-altered"):
        read(tmp_path / "f", answers_digest([np.array([1])]))


# --- in the ledger --------------------------------------------------------------------------------------------------


def test_a_charge_has_one_set_of_answers(book):
    charge = book.charge(ME, SMALL_LOSS, {"plan": "1" * 64, "salt": "0" * 32})
    assert is_unfinished(book, charge)
    assert book.answered(charge) is None
    entry = book.answer(charge, "a" * 64)
    assert (entry.kind, entry.rho, entry.account, entry.answers) == ("answers", 0, ME, "a" * 64)
    assert entry.detail == {"charge": charge.digest, "answers": "a" * 64}
    assert (book.answered(charge), charge.answers) == (entry, None)
    assert not is_unfinished(book, charge)
    for digest in ("a" * 64, "b" * 64):
        with refused("ledger.answers-recorded-before"):
            book.answer(charge, digest, killed)
    assert book.balance(ME).spent == charge.rho
    assert book.verify() == 2
    assert book.charges(ME, "1" * 64) == [charge]
    assert book.charges(ME, "2" * 64) == book.charges(Account("others", ME.unit), "1" * 64) == []


def test_a_chain_finds_entries_and_answers_by_their_digests(book):
    charges = [book.charge(ME, SMALL_LOSS, {"plan": f"{i:064x}"}) for i in range(3)]
    answers = [book.answer(charges[i], "a" * 64) for i in (2, 0)]
    with book._transaction(write=False) as chain:
        assert list(chain) == [*charges, *answers]
        assert chain.by_digest == {e.digest: e for e in chain}
        assert chain.answers == {charges[2].digest: answers[0], charges[0].digest: answers[1]}


@pytest.mark.parametrize("salt", ["../" + "0" * 29, "0" * 31, "0" * 33, "F" * 32, None, 7])
def test_a_charge_with_another_salt_is_none_to_finish(book, salt):
    charge = book.charge(ME, SMALL_LOSS, {"plan": "1" * 64, "salt": salt})
    assert not is_unfinished(book, charge)


def test_answers_are_of_a_charge_or_a_period_of_the_account(book, tmp_path):
    period = book.charge(ME, SMALL_LOSS, {"plan": "1" * 64}, drawn_period=DrawnPeriod(1, "f" * 64))
    second = book.period(ME, "1" * 64, DrawnPeriod(2, "e" * 64))
    cap = book.set_cap(ME, Fraction(9))
    answers = [book.answer(e, "a" * 64) for e in (second, period)]
    assert book.charges(ME, "1" * 64) == []  # it is a series
    with Ledger(tmp_path / "other.db") as other:
        foreign = other.charge(ME, SMALL_LOSS, {})
    for wrong in (cap, answers[0], foreign):
        with refused("ledger.answers-without-charge"):
            book.answer(wrong, "a" * 64)
    with refused("ledger.answers-not-digests"):
        book.answer(book.charge(ME, SMALL_LOSS, {}), "A" * 64)
    assert not is_unfinished(book, period)
    with refused("ledger.entry-kind-or-cost-invalid"):
        type(cap)(9, "answers", ME, Fraction(1), cap.time, {"charge": "a", "answers": "b"}, "", "")
    with refused("ledger.entry-kind-or-cost-invalid"):
        type(cap)(9, "answers", ME, Fraction(0), cap.time, {"charge": "a" * 64}, "", "")
    with refused("ledger.answers-not-digests"):
        type(cap)(9, "answers", ME, Fraction(0), cap.time, {"charge": "a" * 64, "answers": "A" * 64}, "", "")


def test_an_entry_of_answers_is_written_when_they_are_kept_and_else_not_at_all(book):
    charge = book.charge(ME, SMALL_LOSS, {})

    def wrong():
        raise LedgerError("disk-full", "The disk is full.", "", "Free space.", "Nothing was kept.")

    with refused("ledger.disk-full"):
        book.answer(charge, "a" * 64, wrong)
    assert book.answered(charge) is None
    held = []
    book.answer(charge, "a" * 64, lambda: held.append(book._store._db.in_transaction))
    assert held == [True]


def test_a_plan_that_was_charged_before_is_refused_if_once_is_requested(book):
    book.charge(ME, SMALL_LOSS, {"plan": "1" * 64}, once=True)
    book.charge(ME, SMALL_LOSS, {"plan": "2" * 64}, once=True)
    book.charge(ME, SMALL_LOSS, {"plan": "1" * 64})
    with refused("ledger.plan-charged-meanwhile"):
        book.charge(ME, SMALL_LOSS, {"plan": "1" * 64}, once=True)
    assert len(book.entries()) == 3


def test_a_second_name_that_comes_with_the_commit_is_no_word_of_the_past(book, tmp_path):
    """The entry is in the file, so that no message may state that nothing was charged."""
    charge = book.charge(ME, SMALL_LOSS, {})
    real, calls = book._has_changed, []
    book._has_changed = lambda: (tmp_path / "second").hardlink_to(tmp_path / "ledger.db") or calls.append(1) or real()
    with refused("ledger.replaced-while-writing") as raised:
        book.answer(charge, "a" * 64)
    assert "nothing" not in str(raised.value).lower()
    (tmp_path / "second").unlink()
    with Ledger(tmp_path / "ledger.db") as after:
        assert after.answered(charge).answers == "a" * 64


# --- measuring ------------------------------------------------------------------------------------------------------


def test_answers_are_stored_next_to_the_ledger_until_they_are_forgotten(book, tmp_path):
    stages = Stages()
    result = measured(book, stages=stages)
    (path,) = (tmp_path / "ledger.db.answers").iterdir()
    assert (path.name, path.stat().st_mode & 0o777) == (f"{result.charge.digest}.answers", 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert (stages.charge, stages.salt) == (result.charge, result.charge.detail["salt"])
    assert stages.answers == book.answered(result.charge)
    stored = AnswerFolder(book)
    assert stored.path(result.charge) == path
    read = stored.read(result.charge, stages.answers)
    assert [[y.tolist() for y in p] for p in read] == [[y.tolist() for y in p] for p in result.answers]
    assert answers_digest([y for p in read for y in p]) == stages.answers.answers
    stored.forget(None)
    assert path.exists()
    stored.forget(result.charge)
    assert [p.name for p in tmp_path.iterdir()] == ["ledger.db"]
    stored.forget(result.charge)


def test_a_ledger_in_memory_keeps_no_answers_and_names_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Ledger(":memory:") as book:
        result = measured(book)
        entry, stored = book.answered(result.charge), AnswerFolder(book)
        assert entry.answers == answers_digest([y for p in result.answers for y in p])
        assert stored.path(result.charge) is stored.read(result.charge, entry) is None
        assert not stored.is_held(result.charge)
        stored.forget(result.charge)
        with stored.holding(result.charge):
            pass
    assert not list(tmp_path.iterdir())


class Killed(BaseException):
    """The exception that stands for the end of a process in a test."""


def killed(*_):
    raise Killed


def test_a_charge_without_answers_is_finished_at_no_further_charge(book, tmp_path):
    """The data have changed since: what is drawn is of the new ones."""
    killing = Replay(draws=killed)
    with pytest.raises(Killed):
        measured(book, source=killing)
    (charge,) = book.entries()
    assert is_unfinished(book, charge)
    assert [p.name for p in tmp_path.iterdir()] == ["ledger.db"]
    result = measured(book, unfinished=charge, counts=COUNTS + 7)
    assert result.charge == charge
    control = measured(Ledger(":memory:"), counts=COUNTS + 7)
    assert [[y.tolist() for y in p] for p in result.answers] == [[y.tolist() for y in p] for p in control.answers]
    assert [e.kind for e in book.entries()] == ["charge", "answers"]
    assert book.balance(charge.account).spent == charge.rho


def test_only_the_unfinished_charge_of_this_very_order_is_finished(book):
    with pytest.raises(Killed):
        measured(book, source=Replay(draws=killed))
    (charge,) = book.entries()
    order = PLAN.order
    done = measured(book, OTHER.order).charge
    costly = Loss.of_epsilon(Fraction(3), by_cell=False)
    salted = {"plan": order.plan, "salt": "0" * 32}
    wrong = [
        (OTHER.order, charge),  # of another plan
        (OTHER.order, done),  # with answers
        (order, book.charge(order.account, costly, salted)),  # at another price
        (
            order,
            book.charge(order.account, order.ledger_loss(), {"plan": order.plan}),
        ),  # a charge without a measurement
        (
            order,
            book.charge(order.account, order.ledger_loss(), salted, also={HOMES: costly}),
        ),  # for others, too
        (order, book.answer(charge, "a" * 64)),  # no charge
        (order, charge),  # with answers by now
    ]
    before = book.entries()
    for wrong_order, entry in wrong:
        stages = Stages()
        with refused("ledger.entry-not-unfinished"):
            measured(book, wrong_order, unfinished=entry, stages=stages, source=Replay(draws=killed))
        assert (stages.charge, stages.salt) == (None, None)
    assert book.entries() == before


def test_of_two_that_draw_for_one_charge_the_answers_of_one_are_published(book, monkeypatch):
    """Without locks both draw; the ledger takes the first, and the file is its own."""
    monkeypatch.setattr(disk, "lock", failing(errno.EOPNOTSUPP))
    with pytest.raises(Killed):
        measured(book, source=Replay(draws=killed))
    (charge,) = book.entries()
    winner = []

    def slow(scale, size):
        if not winner:
            winner.append(None)
            with Ledger(book.file) as other:
                winner[0] = measured(other, unfinished=charge, source=Replay(1))
        return np.full(size, 2)

    stages = Stages()
    with refused("ledger.answers-recorded-before"):
        measured(book, unfinished=charge, source=Replay(draws=slow), stages=stages)
    assert (stages.charge, stages.answers) == (charge, None)
    kept_there = AnswerFolder(book).read(charge, book.answered(charge))
    assert [[y.tolist() for y in p] for p in kept_there] == [[y.tolist() for y in p] for p in winner[0].answers]
    assert [p.suffix for p in AnswerFolder(book).path(charge).parent.iterdir()] == [".answers"]


def test_a_living_process_is_left_to_finish_its_charge(book):
    held_flags = []

    def look(scale, size):
        (charge,) = book.entries()
        held_flags.append(AnswerFolder(book).is_held(charge))
        with Ledger(book.file) as other, refused("ledger.release-in-progress"):
            measured(other, unfinished=charge)
        return np.full(size, 1)

    result = measured(book, source=Replay(draws=look))
    assert held_flags
    assert all(held_flags)
    stored = AnswerFolder(book)
    assert not stored.is_held(result.charge)
    with stored.holding(result.charge):
        assert stored.is_held(result.charge)
    assert not stored.is_held(result.charge)


def test_a_plan_with_once_is_charged_once(book):
    measured(book, once=True)
    with refused("ledger.plan-charged-meanwhile"):
        measured(book, once=True)
    measured(book)
    assert [e.kind for e in book.entries()] == ["charge", "answers"] * 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("moment", ["mkdir", "open", "room", "write", "place"])
def test_a_failing_disk_is_reported_and_charges_nothing_before_the_commit(book, monkeypatch, moment, number, tmp_path):
    writes, real = [], disk.Draft.write

    def second(self, content):
        writes.append(content)
        return real(self, content) if len(writes) == 1 else failing(number)()

    with monkeypatch.context() as patched:
        if moment == "mkdir":
            patched.setattr(answer_files.Path, "mkdir", failing(number))
        elif moment == "open":
            patched.setattr(disk.os, "open", failing(number))
        elif moment == "room":
            patched.setattr(disk.Draft, "write", failing(number))
        elif moment == "write":
            patched.setattr(disk.Draft, "write", second)
        else:
            patched.setattr(disk.Draft, "move_to", failing(number))
        stages = Stages()
        with refused("ledger.answers-folder-not-made", "ledger.answers-not-kept"):
            measured(book, stages=stages)
    is_charged = moment in ("write", "place")
    assert [e.kind for e in book.entries()] == ["charge"] * is_charged
    assert (stages.charge is not None) == is_charged
    assert [p.name for p in tmp_path.iterdir()] == ["ledger.db"]
    if is_charged:
        measured(book, unfinished=stages.charge)
    if moment == "write":
        assert len(writes[0]) == len(writes[1])  # so that what fails does not depend on the draw


def test_a_folder_that_is_removed_by_another_process_is_made_again(book, monkeypatch):
    real, removed = answer_files.Room, []

    def late(folder, stem):
        if not removed:
            removed.append(folder)
            folder.rmdir()
        return real(folder, stem)

    monkeypatch.setattr(answer_files, "Room", late)
    assert measured(book).charge.sequence == 1


def test_data_that_do_not_fit_leave_no_folder(book, tmp_path):
    with pytest.raises(DataError):
        measured(book, counts=COUNTS[:2])
    assert [p.name for p in tmp_path.iterdir()] == ["ledger.db"]
    with pytest.raises(FitnoiseError), Room(tmp_path, "a") as one, Room(tmp_path, "a"):
        raise AssertionError(one)
