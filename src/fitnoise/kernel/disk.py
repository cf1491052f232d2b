"""Steps for writing files safely: locks, drafts and syncing. Nothing here costs privacy."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sys
from pathlib import Path
from typing import Self, final

with contextlib.suppress(ImportError):  # not on every platform
    import fcntl

_LOST = {errno.EIO, errno.ENOSPC, errno.EDQUOT}
"""Errors of a sync that mean loss. All others mean that the file system cannot sync the names in a folder."""

_SUFFIX = ".unfinished"


def sync_names(folder: Path) -> None:
    """Sync the names in a folder to the disk, where the platform can.

    Raises:
        OSError: The disk failed, or is full.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno in _LOST:
            raise


def lock(handle: int) -> None:
    """Lock an open file or folder until it is closed, or the process ends, in any way.

    The lock is exclusive, also against other descriptors of this process. The function does not wait for it.

    Args:
        handle: The file descriptor.

    Raises:
        OSError: Another descriptor holds the lock (BlockingIOError), or the platform has no such locks.
    """
    if sys.platform == "win32":
        raise OSError("files cannot be locked")
    # Not `lockf`: its lock ends as soon as the process closes any descriptor of the file.
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def hold(path: Path) -> int:
    """Open and lock a file or folder, without waiting.

    Returns:
        The file descriptor. Close it to unlock.

    Raises:
        OSError: There is no such file; or see :func:`lock`.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        lock(handle)
    except OSError:
        os.close(handle)
        raise
    return handle


def _is_own(handle: int) -> bool:
    """Try to lock a file; return True if no other process will remove it.

    That is so if this process holds the lock now, or if the platform has no locks.
    """
    try:
        lock(handle)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@final
class Draft:
    """A new file for its owner alone, locked until `close`, which removes it unless it is in its place.

    Args:
        folder: The folder in which it is made.
        stem: The beginning of its name.

    Raises:
        OSError: The file cannot be made.

    **Guarantees**
        * The bytes of the file are on the disk before the file gets its final name.
        * No file of a living process is removed by another.
    """

    def __init__(self, folder: Path, stem: str) -> None:
        while True:
            self.path = folder / f"{stem}-{secrets.token_hex(8)}{_SUFFIX}"
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            # Lock first, then look: `clear_drafts` removes a file only while it holds the lock.
            if _is_own(self._handle) and self.path.exists():
                return
            os.close(self._handle)  # another process took it for a leftover before it was locked

    def write(self, content: bytes) -> None:
        """Write `content` from the beginning of the file, and sync it; bytes behind it stay.

        Raises:
            OSError: The disk failed, or is full.
        """
        os.lseek(self._handle, 0, os.SEEK_SET)
        remaining = memoryview(content)
        while remaining:
            # `write` may write a part only.
            remaining = remaining[os.write(self._handle, remaining) :]
        os.fsync(self._handle)

    def move_to(self, path: Path) -> None:
        """Give the file its final name, in place of another file of that name, and sync the name.

        Raises:
            OSError: The name cannot be given, or the disk failed.
        """
        # One step for readers: they see the old file or the complete new one.
        self.path.replace(path)
        sync_names(path.parent)

    def close(self) -> None:
        """Remove the file unless it is in its place, and end the lock."""
        # After `move_to`, no file has the name of the draft.
        with contextlib.suppress(OSError):
            self.path.unlink()
        os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def clear_drafts(folder: Path, stem: str) -> bool:
    """Remove the drafts that processes left in a folder when they were killed.

    Args:
        folder: The folder of the drafts.
        stem: The stem of the drafts in the result.

    Returns:
        True if a living process holds a draft with this stem.
    """
    held = False
    with contextlib.suppress(OSError):
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            try:
                handle = hold(path)
            except BlockingIOError:
                held |= path.name.startswith(f"{stem}-")
            except OSError:
                continue
            else:
                # Remove it before the lock ends: the maker of a draft locks it first and then looks whether it exists.
                path.unlink(missing_ok=True)
                os.close(handle)
    return held
