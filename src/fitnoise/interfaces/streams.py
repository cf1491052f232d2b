"""Streams that cannot be written, because the disk is full or the reader has gone.

Loaded by every command, help included: it imports nothing that takes time.
"""

from __future__ import annotations

import contextlib
import os
import sys
from contextvars import ContextVar
from typing import TextIO

as_events: ContextVar[bool] = ContextVar("as_events", default=False)
"""True if stderr has events, one JSON object a line, in place of text."""

_line_errors: list[OSError] = []
"""The errors of words that could not be written to stderr."""


def say_line(line: str) -> None:
    """Write a line to stderr. If that fails the command goes on, because it may be charged already."""
    try:
        sys.stderr.write(f"{line}\n")
    except OSError as error:
        _line_errors.append(error)
        give_up(sys.stderr)


def has_lost_lines() -> bool:
    """Return True if a line could not be written since the last call."""
    is_lost = bool(_line_errors)
    _line_errors.clear()
    return is_lost


def give_up(stream: TextIO) -> None:
    """Write no more to a stream that fails; the interpreter would try again when it ends."""
    with contextlib.suppress(OSError):  # a stream of a test may be no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)
