"""Files of plans and releases as texts: each is complete or absent, and read within a limit."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

from fitnoise.errors import ReleaseError
from fitnoise.kernel.disk import hold
from fitnoise.mechanisms.documents import MAX_DOCUMENT_BYTES

UNFINISHED = r"\.{}\.unfinished-[0-9a-z_]{{8}}"
"""The name of the folder in which a release is written, after the name of its directory; also for files and ledgers."""


def check_plan_place(path: Path) -> None:
    """Refuse to write a plan over anything except a plan.

    Raises:
        ReleaseError: Something else is there.
    """
    if path.exists() and (not path.is_file() or '"fitnoise_plan"' not in read_text(path)[:64]):
        raise ReleaseError(
            "file-is-no-plan",
            f"{path.name!r} exists and is not a plan.",
            "Only a plan is replaced.",
            "Choose another name.",
            "Nothing was written.",
        )


def replace_file(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace a file completely or not at all; mode: its permissions, from the start.

    The new file is written next to its place. A leftover of a killed process there is removed.

    Raises:
        ReleaseError: The file cannot be written; the old file is unchanged.
    """
    stage: Path | None = None
    held: int | None = None
    try:
        for leftover in filter(Path.is_file, leftovers_of(path.parent, re.escape(path.name))):
            leftover.unlink()
        # the empty file has the permissions already: the content cannot be read more widely before it has its name
        stage, held = fresh(path, lambda p: p.touch(mode, exist_ok=False))
        stage.write_bytes(content)
        stage.replace(path)
    except OSError as error:
        if stage is not None:
            stage.unlink(missing_ok=True)
        raise unwritable_place(repr(path.name), reason_of(error), "The place stays as it was.") from None
    finally:
        if held is not None:
            os.close(held)


def read_text(path: Path) -> str:
    """Return a text file with its line ends, or raise ReleaseError if it is unreadable, or too large for a plan."""
    if path.parent.is_file():  # a file of a folder was given, and not the folder
        is_neighbour = (path.parent.parent / path.name).is_file()
        raise ReleaseError(
            "file-in-place-of-folder",
            f"{path.parent.name!r} is a file.",
            f"It must be a folder with the file {path.name!r}.",
            f"Give the folder {str(path.parent.parent)!r}." if is_neighbour else "Give such a folder.",
            "The file was not read.",
        )
    try:
        if not path.is_file():  # to open a pipe would wait for a writer
            raise OSError
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise ReleaseError(
                "file-too-large",
                f"{path.name!r} is larger than any plan or release.json.",
                f"This fitnoise reads at most {MAX_DOCUMENT_BYTES:,} bytes.",
                "Check the path.",
                "The file was not read.",
            )
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except OSError:
        raise unreadable_file(path) from None
    except UnicodeDecodeError:
        raise ReleaseError(
            "file-not-utf8",
            f"{path.name!r} is no text in UTF-8.",
            "",
            "Save the file in the encoding UTF-8.",
            "The file was not read.",
        ) from None


def unfinished_path(directory: Path) -> Path:
    """Return a random name next to a place, which leftovers have."""
    return directory.parent / f".{directory.name}.unfinished-{secrets.token_hex(4)}"


def fresh(path: Path, make: Callable[[Path], None] = Path.mkdir) -> tuple[Path, int | None]:
    """Return a new folder next to a place, and the lock on it; None without locks.

    Args:
        path: The place, from whose name that of the folder follows.
        make: A function that makes the folder, or a file instead.

    Raises:
        OSError: It cannot be made.
    """
    while True:
        stage = unfinished_path(path)
        make(stage)
        try:
            held = hold(stage)
        except (BlockingIOError, FileNotFoundError):
            continue  # a release of the same name removed it as a leftover, before it was locked
        except OSError:
            return stage, None
        if stage.exists():
            return stage, held
        os.close(held)  # a process cleared it between its making and its locking: try another name


def leftovers_of(folder: Path, name: str) -> Iterator[Path]:
    """Yield the leftovers of dead processes in a folder with names of a pattern, each held until the next is taken."""
    pattern = re.compile(UNFINISHED.format(name), re.DOTALL)
    try:
        paths = sorted(p for p in folder.iterdir() if pattern.fullmatch(p.name))
    except OSError:
        return
    for stage in paths:
        try:
            held = hold(stage)
        except OSError:  # a living process holds it; or nothing can be locked here, and then nothing is removed
            continue
        try:
            yield stage
        finally:
            os.close(held)


def unwritable_place(name: str, reason: str, outcome: str) -> ReleaseError:
    """Return the error for a file or folder that the operating system refuses to write.

    Args:
        name: Subject of the sentence: a quoted name, or a noun phrase with a capital letter.
        reason: Reason of the operating system.
        outcome: Sentence that says what did not happen.
    """
    return ReleaseError(
        "place-not-writable",
        f"{name} cannot be written ({reason}).",
        "",
        "Remove this cause, or choose another place.",
        outcome,
    )


def unreadable_file(path: Path) -> ReleaseError:
    """Return the error for a file that is missing, no regular file, or not in UTF-8."""
    return ReleaseError(
        "file-not-readable",
        f"{str(path)!r} is missing or unreadable.",
        "",
        "Check the path, and the permission to read it.",
        "The file was not read.",
    )


def reason_of(error: Exception) -> str:
    """Return the reason of the operating system; without one, the class of the error."""
    return getattr(error, "strerror", None) or type(error).__name__
