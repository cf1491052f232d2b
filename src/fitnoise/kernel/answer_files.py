"""Keep the drawn answers until their release is in place. Part of the trust kernel.

**Purpose.** Each release is charged once. A process that is killed after the charge finishes later, at no further
charge. It uses the stored answers, or new ones if none were stored.

    LEDGER.answers/: a folder next to the ledger's file, for its owner alone; gone when nothing is stored. For a ledger
        on a server it is a folder of the user on this machine, so that only this user finishes a release, here.
        SALT-RANDOM.unfinished: room for the answers, made before the charge and locked by its process. SALT is the
            salt of the charge.
        DIGEST.answers: the answers, as JSON, filled up with blanks. DIGEST is the digest of the charge.

**Order.** Make room, charge, draw, and write the answers into the room. Then, in one transaction of the ledger, give
the file its name and write the entry of the answers (:meth:`fitnoise.kernel.ledger.Ledger.answer`). A file is believed
only if the digest of its answers is the digest in this entry. A file without an entry is of a killed process: no
release has used it, and the next draw replaces it.

**Statement.** For each charge one output of the mechanism is published at most. If earlier draws for the charge failed,
their failure did not depend on the drawn numbers.

**Proof.** The ledger takes one entry of answers for each charge, and :func:`fitnoise.kernel.measure.measure` returns
answers only after their own entry. Between the draw and the entry a process writes a file, syncs it and renames it.
The length of the file is fixed before the draw, and its room is written before the charge. So a full disk, an error of
the disk or a signal strikes independently of the drawn numbers. Given that a draw is published, its law is that of the
mechanism.

**Limits.** A file system that compresses files needs more room for answers with more digits. On such a file system, a
disk that is nearly full may refuse some draws and not others. Keep ledgers on a file system that does not compress.

Answers of 64-bit integers always fit their room. Wider integers exceed it only if the noise is more than 10^60 times as
large as the plan's bound on exact answers (`_width`). With exact discrete noise that does not happen.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self, final

import numpy as np

from fitnoise.errors import LedgerError
from fitnoise.kernel.arrays import Exact, answers_digest
from fitnoise.kernel.designs._base import Answers
from fitnoise.kernel.disk import Draft, clear_drafts, hold
from fitnoise.kernel.ledger import Ledger, LedgerEntry

_WIDTH: Final = 22
"""The bytes that a number of 64 bits may take: 20 for its digits and sign, two for the separator between numbers."""

_WIDER: Final = 64
"""The extra bytes for wider numbers, and again for every started 64 digits of the bound on exact answers."""

_UNRECORDED: Final = "The charge stays in the ledger, and its answers are not recorded."
"""Outcome of a failure between a charge and the entry of its answers."""


def room_for(exact: Sequence[Answers], bounds: Sequence[int]) -> int:
    """Return the number of bytes that hold noisy answers: certainly those of 64 bits, almost certainly wider ones.

    Args:
        exact: The exact answers of every design.
        bounds: For every design a bound on its exact answers, in absolute size, which follows from the plan.

    **Guarantees**
        * The values of the exact answers do not change the length. It follows from their number, their type and the
          bounds.
    """
    widths = [_width(x, bound) * len(x) for part, bound in zip(exact, bounds, strict=True) for x in part]
    # Each list has two brackets. The commas between lists fit the bytes that the numbers leave of their width.
    return 2 + sum(2 + width for width in widths) + 2 * len(exact)


def _width(x: Exact, bound: int) -> int:
    """Return the bytes for each number of an array."""
    if x.dtype != object:
        return _WIDTH
    # The digits of the bound, not of the answers: the length of a file would show how large the answers are. The first
    # 64 bytes are spare: a noisy answer may have at least 60 digits more than the bound.
    return _WIDTH + _WIDER * (1 + -(-len(str(bound)) // _WIDER))


def serialise(answers: Sequence[Answers], room: int) -> bytes:
    """Return the bytes of a file of answers, filled up to a length with blanks.

    Args:
        answers: The answers of every design.
        room: The least length in bytes; longer answers are not cut.
    """
    text = json.dumps([[y.tolist() for y in part] for part in answers], separators=(",", ":"))
    return text.encode("ascii").ljust(room)


def read(path: Path, digest: str) -> tuple[Answers, ...] | None:
    """Return the answers of a file, by design; `None` if there is no such file, or it cannot be read.

    Args:
        path: The file.
        digest: The digest of the answers in the ledger.

    Raises:
        LedgerError: The file holds other answers than those of the digest, or no answers.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    # An altered file can hold any JSON, also lists in thousands of lists.
    with contextlib.suppress(ValueError, TypeError, AttributeError, RecursionError):
        answers = tuple(tuple(_numbers(y) for y in part) for part in json.loads(content))
        if answers_digest([y for part in answers for y in part]) == digest:
            return answers
    raise LedgerError(
        "kept-answers-altered",
        f"The answers that are kept in {path.name[:20]!r}… are not those that the ledger names.",
        "",
        "Restore the file as it was.",
        "The answers were not used, and their charge stays in the ledger.",
    )


def _numbers(values: list[int]) -> Exact:
    """Return an array of whole numbers, of 64 bits where all of them fit; raise TypeError for another value."""
    # In JSON, `true` becomes a Boolean, which is an int of Python.
    if not all(type(x) is int for x in values):
        raise TypeError
    small = all(-(2**63) <= x < 2**63 for x in values)
    return np.array(values, dtype=np.int64 if small else object)


@final
class Room:
    """A place for answers, locked by this process from before the charge until they are stored.

    It takes no space on the disk until :meth:`make` is called.

    Args:
        folder: The folder of the answers.
        stem: The beginning of the names of drafts for this charge.

    Raises:
        LedgerError: Another process works on the charge, or nothing can be written there.
    """

    def __init__(self, folder: Path, stem: str) -> None:
        self._folder = folder
        # A locked draft for this charge is of a process that is still drawing its answers.
        if clear_drafts(folder, stem):
            raise LedgerError(
                "release-in-progress",
                "Another process is working on this release.",
                "",
                "Wait until it is done, then run the command again.",
                "This process charged nothing.",
            )
        try:
            self._draft = Draft(folder, stem)
        except OSError as error:
            raise self._failed(error, "This process charged nothing.") from None

    def make(self, length: int) -> None:
        """Write `length` blanks, so that the answers have room on the disk.

        Raises:
            LedgerError: Nothing can be written there, or the disk is full.
        """
        self._on_disk(partial(self._draft.write, b"".ljust(length)), "This process charged nothing.")

    def keep(
        self, answers: Sequence[Answers], length: int, path: Path, ledger: Ledger, charge: LedgerEntry
    ) -> LedgerEntry:
        """Store the answers, and record their digest: both or, as the ledger sees it, neither.

        Args:
            answers: The answers of every design.
            length: The length of the room in bytes.
            path: The file in which they are stored.
            ledger: The ledger that was charged.
            charge: The entry of the charge.

        Returns:
            The entry that names the answers.

        Raises:
            LedgerError: The answers cannot be stored, or another process recorded its answers first.
        """
        # The bytes are on the disk before the ledger names them. The name of the file is given inside its transaction.
        self._on_disk(partial(self._draft.write, serialise(answers, length)), _UNRECORDED)
        name_the_file = partial(self._on_disk, partial(self._draft.move_to, path), _UNRECORDED)
        return ledger.answer(charge, answers_digest([y for part in answers for y in part]), name_the_file)

    def _on_disk(self, action: Callable[[], None], outcome: str) -> None:
        """Do something with the draft; raise LedgerError with this outcome if the disk refuses."""
        try:
            action()
        except OSError as error:
            raise self._failed(error, outcome) from None

    def _failed(self, error: OSError, outcome: str) -> LedgerError:
        return LedgerError(
            "answers-not-kept",
            f"Answers cannot be kept in {self._folder.name!r} ({error.strerror}).",
            "",
            "Make room in this folder, or allow writing there, then run the command again.",
            outcome,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._draft.close()


@final
class AnswerFolder:
    """The folder next to a ledger in which answers are stored; no folder for a ledger in memory.

    Args:
        ledger: The ledger that is charged.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        file = None if ledger.file is None else ledger.file.resolve()
        self._folder = None if file is None else file.with_name(f"{file.name}.answers")

    @contextlib.contextmanager
    def room(self, salt: str) -> Iterator[Room | None]:
        """Lock a place for the answers to a charge during a `with` statement; yield `None` for a ledger in memory.

        Only :meth:`Room.make` takes space on the disk.

        Args:
            salt: The salt of the charge.

        Raises:
            LedgerError: Another process works on the charge, or nothing can be written in the folder, or the folder
                cannot be made.
        """
        if self._folder is None:
            yield None
            return
        try:
            with self._make_room(self._folder, salt) as room:
                yield room
        finally:
            # No empty folder stays where no answers were stored.
            self.forget(None)

    def _make_room(self, folder: Path, salt: str) -> Room:
        """Return a room in the folder, which is made where it is missing."""
        while True:
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise LedgerError(
                    "answers-folder-not-made",
                    f"The folder {folder.name!r} for the answers cannot be made ({error.strerror}).",
                    "",
                    "Make room there, or allow writing there, then run the command again.",
                    "Nothing was charged.",
                ) from None
            try:
                return Room(folder, salt)
            except LedgerError:
                if folder.is_dir():
                    raise  # else: another process has just removed it, empty

    @contextlib.contextmanager
    def holding(self, charge: LedgerEntry) -> Iterator[None]:
        """Lock the stored answers to a charge while its release is written, so that `is_held` is True meanwhile.

        Without stored answers, or on a platform without locks, nothing is locked.

        Args:
            charge: The entry of the charge.
        """
        path, handle = self.path(charge), None
        if path is not None:
            with contextlib.suppress(OSError):  # a period of a series is kept elsewhere; or there are no locks here
                handle = hold(path)
        try:
            yield
        finally:
            if handle is not None:
                os.close(handle)

    def is_held(self, charge: LedgerEntry) -> bool:
        """Return True if a living process works on a charge.

        Args:
            charge: The entry of the charge.
        """
        path = self.path(charge)
        if path is None or self._folder is None:
            return False
        # A process that writes the release holds the stored answers. One that is still drawing holds a draft.
        try:
            os.close(hold(path))
        except BlockingIOError:
            return True
        except OSError:
            pass
        return clear_drafts(self._folder, str(charge.detail.get("salt")))

    def path(self, charge: LedgerEntry) -> Path | None:
        """Return the file in which the answers to a charge are kept; None for a ledger in memory."""
        return None if self._folder is None else self._folder / f"{charge.digest}.answers"

    def read(self, charge: LedgerEntry, answers: LedgerEntry) -> tuple[Answers, ...] | None:
        """Return the stored answers to a charge; `None` without stored answers.

        Args:
            charge: The entry of the charge.
            answers: The entry that names the stored answers.

        Raises:
            LedgerError: The file was altered.
        """
        path, digest = self.path(charge), answers.answers
        return None if path is None or digest is None else read(path, digest)

    def forget(self, charge: LedgerEntry | None) -> None:
        """Remove the stored answers to a charge, whose release is in place, and the folder if it is empty.

        The drafts of killed processes are removed, too.

        Args:
            charge: The entry of the charge; `None` removes no answers.
        """
        path = None if charge is None else self.path(charge)
        if path is not None:
            with contextlib.suppress(OSError):
                path.unlink()
        if self._folder is not None:
            # Drafts of killed processes would keep the folder from being empty.
            clear_drafts(self._folder, "")
            with contextlib.suppress(OSError):
                # `rmdir` refuses a folder that is not empty.
                self._folder.rmdir()
