"""Processes that plan for the studio: any thread asks, newer questions stop older ones, silent ones are ended.

The studio starts a new process in place of one that was ended.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from fitnoise import errors
from fitnoise.errors import FitnoiseError, SpecError
from fitnoise_studio.page_parts import error_text

UNRESPONSIVE_SECONDS = 5.0
"""The seconds after which a process that does not turn to a newer question is ended."""

PLANNER = "fitnoise_studio.planner"


@final
class QuestionReplaced(FitnoiseError):
    """The error of a newer question before the answer."""


def newer_question() -> QuestionReplaced:
    """Return the error of a question that a newer one replaced."""
    return QuestionReplaced(
        "newer-question",
        "A newer question replaced this one.",
        "",
        "Wait for the answer to the newer question.",
        "Nothing was planned.",
    )


def error_document(error: FitnoiseError) -> dict[str, Any]:
    """Return an error as JSON values: its class, its sentences with the slug, its place, values, text and problems."""
    names = {"error": type(error).__name__, "area": error.area, "place": error.place, "values": error.values}
    problems = [error_document(x) for x in getattr(error, "problems", ())]
    return {**names, "parts": error.args, "text": str(error), "problems": problems}


def error_of(document: Mapping[str, Any]) -> FitnoiseError:
    """Return the error that :func:`error_document` describes; of a class of the studio, as a FitnoiseError."""
    kind = getattr(errors, document["error"], FitnoiseError)
    error: FitnoiseError = kind(*document["parts"], place=document["place"], values=document["values"])
    error.area = document["area"]  # an error can have the code of another class
    if isinstance(error, SpecError):
        error.problems = tuple(map(error_of, document["problems"]))
    return error


def command(module: str, *arguments: str) -> list[str]:
    """Return a command that runs a program of fitnoise; -P takes no file of the current folder for a library."""
    return [sys.executable, "-P", "-m", module, *arguments]


@final
class Process:
    """One process, and its replies."""

    def __init__(self, heard: threading.Condition) -> None:
        self._heard = heard
        self._process = subprocess.Popen(  # noqa: S603 - a program of fitnoise
            command(PLANNER),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C and a closed terminal are the server's, which ends it
        )
        self.ready: float | None = None
        self.begun = 0
        self.steps: dict[int, str] = {}
        self.answers: dict[int, dict[str, Any]] = {}
        self.gone = False
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        for line in self._process.stdout:
            try:
                report = json.loads(line)
            except ValueError:
                break
            with self._heard:
                if report["kind"] == "ready":
                    self.ready = time.monotonic()
                elif report["kind"] == "begun":
                    self.begun = report["n"]
                elif report["kind"] == "step":
                    # Only the newest question is waited for, so older progress and answers are not kept.
                    self.steps = {report["n"]: report["text"]}
                else:
                    self.answers = {report["n"]: report}
                self._heard.notify_all()
        with self._heard:
            self.gone = True
            self._heard.notify_all()

    def ask(self, **question: Any) -> None:
        """Send a question; a process that has ended sends no reply."""
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()

    def end(self) -> None:
        """Stop the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError, ValueError):
                stream.close()  # type: ignore[union-attr]


@final
class Worker:
    """A process that answers one question at a time, the newest; on request with a spare process ready."""

    def __init__(self, *, spare: bool = False) -> None:
        self._heard = threading.Condition()
        self._with_spare = spare
        self._spare: Process | None = None
        self._process: Process | None = None
        self._newest = 0
        self._closed = False

    def start(self) -> None:
        """Start the processes that are missing."""
        with self._heard:
            self._started()

    def _started(self) -> Process:
        if self._closed:
            raise FitnoiseError(
                "studio-closing", "The studio is closing.", "", "Start the studio again.", "Nothing was planned."
            )
        if self._process is None:
            self._process, self._spare = self._spare or Process(self._heard), None
        if self._with_spare and self._spare is None and self._process.ready is not None:  # not in the way of the first
            self._spare = Process(self._heard)
        return self._process

    @property
    def pid(self) -> int | None:
        """The id of the process that answers."""
        return None if self._process is None else self._process.pid

    @property
    def step(self) -> str:
        """The progress of the newest question."""
        return "" if self._process is None else self._process.steps.get(self._newest, "")

    @property
    def newest(self) -> int:
        """The number of the newest question."""
        return self._newest

    def ask(self, *, after: int | None = None, **question: Any) -> dict[str, Any]:
        """Return the answer to a question.

        Args:
            after: The number of a question; a newer one is not replaced. None replaces any question.
            question: The keys of the question.

        Raises:
            QuestionReplaced: A newer question came, or this one was stopped.
            FitnoiseError: The question was refused, or the studio is closing. Or two processes in a row ended, or were
                stopped because they did not begin the question in time.
        """
        with self._heard:
            if after is not None and after != self._newest:
                raise newer_question()
            self._newest = n = self._newest + 1
            # Twice: the first process may have ended or been silent because of an older question.
            for _ in range(2):
                process = self._started()
                process.ask(n=n, **question)
                answer = self._awaited(process, n)
                if answer is not None:
                    break
                self._drop(process)
            else:
                raise FitnoiseError(
                    "planning-process-ended",
                    "The planning process ended twice.",
                    "The machine may have too little memory.",
                    "Plan fewer tables, or use a machine with more memory.",
                    "Nothing was planned.",
                )
        if answer["kind"] == "stopped":
            raise QuestionReplaced(
                "planning-stopped", "The task was stopped.", "", "Start it again.", "Nothing was planned."
            )
        if answer["kind"] != "done":
            raise error_of(answer)
        return answer

    def _awaited(self, process: Process, n: int) -> dict[str, Any] | None:
        """Return the answer; None if the process has ended or is silent."""
        start_time = time.monotonic()
        while n not in process.answers:
            if self._newest != n:
                raise newer_question()
            if process.gone or self._closed:
                return None
            # A process that still starts is not silent: imports take seconds.
            since = start_time if process.ready is None else max(start_time, process.ready)
            # A process that has not begun the question may be in a computation that never calls `progress`.
            silent = process.ready is not None and process.begun < n and time.monotonic() - since > UNRESPONSIVE_SECONDS
            if silent:
                return None
            self._heard.wait(0.25)
        return process.answers[n]

    def _drop(self, process: Process) -> None:
        # Another thread may already have started the next process.
        if self._process is process:
            self._process = None
        process.end()

    def stop(self) -> None:
        """Stop the question that is being answered."""
        with self._heard:
            process = self._process
            self._newest += 1
            self._heard.notify_all()
            if process is not None:
                process.ask(n=self._newest, what="stop")

    def close(self) -> None:
        """Stop the processes."""
        with self._heard:
            self._closed = True
            processes = [p for p in (self._process, self._spare) if p is not None]
            self._heard.notify_all()
        for process in processes:
            process.end()


@final
@dataclass
class Job:
    """A question that is answered in the background. state: waiting, running, done, stopped or refused."""

    number: int
    name: str
    question: dict[str, Any]
    state: str = "waiting"
    html: str = ""
    text: str = ""


@final
class Jobs:
    """Jobs, one after the other, by one worker."""

    def __init__(self) -> None:
        self._worker = Worker()
        self._some = threading.Condition()
        self.all: list[Job] = []
        self._closed = False
        threading.Thread(target=self._work, daemon=True).start()

    def add(self, name: str, question: dict[str, Any]) -> Job:
        """Add a new job behind those that wait."""
        with self._some:
            # Numbers start at 1 and are never given twice, so a late reply names the right job.
            job = Job(len(self.all) + 1, name, question)
            self.all.append(job)
            self._some.notify_all()
            return job

    def _next(self) -> Job | None:
        return next((j for j in self.all if j.state == "waiting"), None)

    def _work(self) -> None:
        while not self._closed:
            with self._some:
                job = self._next()
                if job is None:
                    self._some.wait(1.0)
                    continue
                job.state = "running"
            try:
                answer = self._worker.ask(**job.question)
                job.html = answer["html"]
                state = "done"
            except QuestionReplaced:
                state = "stopped"
            except FitnoiseError as error:
                state, job.text = "refused", error_text(error, job.question["language"])
            if job.state == "running":
                job.state = state

    @property
    def running(self) -> Job | None:
        """The job that is being worked on."""
        return next((j for j in self.all if j.state == "running"), None)

    @property
    def step(self) -> str:
        """The progress of the running job."""
        return self._worker.step

    def stop(self, number: int) -> None:
        """Stop a job; a job that is done does not change."""
        with self._some:
            job = next((j for j in self.all if j.number == number), None)
            if job is not None and job.state == "waiting":
                job.state = "stopped"
            if job is None or job.state != "running":
                return
            job.state = "stopped"
        self._worker.stop()

    def close(self) -> None:
        """Stop the process."""
        self._closed = True
        with self._some:
            for job in self.all:
                if job.state == "waiting":
                    job.state = "stopped"
            self._some.notify_all()
        self._worker.close()
