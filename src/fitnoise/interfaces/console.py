"""Output of the command line: data on stdout, messages and progress on stderr, plain text away from a terminal."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fitnoise.interfaces.render import document, lines, readable
from fitnoise.interfaces.streams import say_line
from fitnoise.reporting import Report

PROGRESS_INTERVAL_SECONDS = 5.0
"""Seconds between two lines of progress away from a terminal."""


def say(text: str = "") -> None:
    """Write a message to stderr. If that fails the command goes on (see `streams`)."""
    say_line(readable(text, _encoding(sys.stderr)))


def emit(text: str = "") -> None:
    """Write a line of data to stdout."""
    sys.stdout.write(readable(text, _encoding(sys.stdout)) + "\n")


def emit_json(document: Any) -> None:
    """Write a JSON document to stdout, in ASCII."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def emit_csv(text: str) -> None:
    """Write a CSV file to stdout: its bytes in UTF-8, or lines without control characters on a terminal."""
    bytes_out = getattr(sys.stdout, "buffer", None)
    if bytes_out is None or sys.stdout.isatty():
        for line in text.removesuffix("\n").split("\n"):
            emit(line)
        return
    sys.stdout.flush()
    bytes_out.write(text.encode("utf-8"))


def show(report: Report) -> None:
    """Write a report for people to stdout."""
    for line in lines(report, _encoding(sys.stdout)):
        emit(line)


def show_document(report: Report) -> None:
    """Write a report for programs to stdout."""
    emit_json(document(report))


def _encoding(stream: TextIO) -> str:
    return stream.encoding or "utf-8"


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with the current stage on a terminal, plain lines elsewhere. Yield the function that sets it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_progress(what)
        return
    columns = (SpinnerColumn("line"), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what)
        yield lambda stage: bar.update(task, description=readable(f"{what}: {stage}", _encoding(sys.stderr)))


def _plain_progress(what: str) -> Callable[[str], None]:
    told = time.monotonic()
    say(f"{what} …")

    def tell(stage: str) -> None:
        nonlocal told
        if time.monotonic() - told >= PROGRESS_INTERVAL_SECONDS:
            told = time.monotonic()
            say(f"{what}: {stage}")

    return tell
