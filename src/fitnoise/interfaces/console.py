"""Output of the command line: data on stdout, messages and progress on stderr, plain text away from a terminal.

With --json, stderr has one JSON object a line. `docs/howto/run_as_a_job.md` states its fields.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TextIO

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fitnoise.interfaces.render import document, lines, readable
from fitnoise.interfaces.streams import as_events, say_line
from fitnoise.messages import Message, Value, ValueKind, english, statement
from fitnoise.reporting import Report

PROGRESS_INTERVAL_SECONDS = 5.0
"""Seconds between two lines of progress away from a terminal."""


def say(line: Message | str = "") -> None:
    """Write a message, or the text of an error, to stderr. If that fails the command goes on (see `streams`)."""
    if not as_events.get():
        say_line(readable(_text(line), _encoding(sys.stderr)))
    elif isinstance(line, Message):
        _say_event("message", **statement(line))
    elif line:
        _say_event("message", text=line)


def _say_event(event: str, **fields: Any) -> None:
    """Write an event to stderr as one line in ASCII."""
    say_line(json.dumps({"event": event, **fields}, allow_nan=False))


def emit(line: Message | str = "") -> None:
    """Write a message, or a line of data, to stdout."""
    sys.stdout.write(readable(_text(line), _encoding(sys.stdout)) + "\n")


def _text(line: Message | str) -> str:
    return line if isinstance(line, str) else english(line)


def wrote(file: object) -> Message:
    """Return the message that names a written file or folder."""
    return Message("terminal.wrote.file", (Value("file", str(file)),))


def emit_json(document: Any) -> None:
    """Write a JSON document to stdout, in ASCII."""
    sys.stdout.write(json_text(document))


def json_text(document: Any) -> str:
    """Return a JSON document as text, in ASCII."""
    # allow_nan=False: NaN and infinity are not JSON.
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def emit_csv(text: str) -> None:
    """Write a CSV file to stdout: its bytes in UTF-8, or lines without control characters on a terminal."""
    # A file or a pipe gets the bytes of a table's own CSV file, also where the locale has another encoding.
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


def gap_message(step: int, gap: float) -> Message:
    """Return the message of a step of a search, with the current gap."""
    return Message("terminal.stage.gap", (Value("step", step), Value("gap", gap, ValueKind.GAP)))


@contextlib.contextmanager
def progress(task: Message) -> Iterator[Callable[[Message | str], None]]:
    """Show a spinner with the current stage on a terminal, plain lines elsewhere. Yield the function that sets it."""
    # On stderr: stdout holds data alone, which a pipe passes on.
    if as_events.get():
        yield _progress_events(task)
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain_progress(task)
        return
    columns = (SpinnerColumn("line"), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        bar_task = bar.add_task(english(task))
        yield lambda stage: bar.update(
            bar_task, description=readable(english(_stage(task, stage)), _encoding(sys.stderr))
        )


def _plain_progress(task: Message) -> Callable[[Message | str], None]:
    say(Message("terminal.progress.start", (Value("task", task, ValueKind.MESSAGE),)))
    return _seldom(lambda stage: say(_stage(task, stage)))


def _progress_events(task: Message) -> Callable[[Message | str], None]:
    _say_event("started", task=english(task))

    def report(stage: Message | str) -> None:
        values = {v.key: v.content for v in stage.values} if isinstance(stage, Message) else {}
        # The first gap of a search is infinite, which is not JSON.
        finite = {k: None if isinstance(x, float) and not math.isfinite(x) else x for k, x in values.items()}
        _say_event("progress", task=english(task), stage=_text(stage), values=finite)

    return _seldom(report)


def _seldom(report: Callable[[Message | str], None]) -> Callable[[Message | str], None]:
    """Return a function that passes a stage on if the last one is some seconds ago."""
    last_time = time.monotonic()

    def report_seldom(stage: Message | str) -> None:
        nonlocal last_time
        # A log file would grow by thousands of lines, one for each step of a search.
        if time.monotonic() - last_time >= PROGRESS_INTERVAL_SECONDS:
            last_time = time.monotonic()
            report(stage)

    return report_seldom


def _stage(task: Message, stage: Message | str) -> Message:
    kind = ValueKind.MESSAGE
    return Message("terminal.progress.stage", (Value("task", task, kind), Value("stage", stage, kind)))
