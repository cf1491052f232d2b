"""One-time releases: a request binds a plan, data and a place; a process runs it; the ledger states the result.

An intent is a folder, `.studio/releases/ID`. Creating this folder is the only use of the intent: a repeated request
finds it, and its reply shows the state of the release. The process holds the folder's lock while it lives, and writes
its progress. Its notices about data go to the operator through a pipe, and are not stored.

The studio never takes the fact of a charge from the process. It reads the charge in the ledger.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

from fitnoise.errors import FitnoiseError, ReleaseError
from fitnoise.kernel.disk import hold
from fitnoise.kernel.ledger import Ledger, LedgerEntry
from fitnoise.messages import Notice, translator
from fitnoise.planning.files import read_text, replace_file
from fitnoise.planning.plan import Plan
from fitnoise.publishing import charged_before, release
from fitnoise.reading.release_files import DESCRIPTION, to_json
from fitnoise.request.known_totals import confirmation, parse_totals
from fitnoise_studio.folder import REMOTE_PREFIXES, DraftChanged, Folder, digest
from fitnoise_studio.page_parts import error_sentences, value_text
from fitnoise_studio.refusals import internal_error
from fitnoise_studio.workers import command

INTENT_LIFETIME_SECONDS = 600.0
"""The seconds within which an intent can be used."""

PROGRAM = "fitnoise_studio.releasing"

FIRST_STAGE_AFTER_CHARGE = "writing the tables"
"""The stage after the charge: from this stage on, nothing is stopped."""

STAGES_BEFORE_COUNTING = ("", "opening the data", "verifying the superseded release")
"""The stages in which a release compares the columns of the data with the plan."""

STAGES = {
    "counting": "studio.stage.counting",
    "counting, charging and measuring": "studio.stage.measuring",
    FIRST_STAGE_AFTER_CHARGE: "studio.stage.writing",
}
"""The id of the text of each stage."""


@final
@dataclass(frozen=True)
class Intent:
    """The request for one release.

    plan: The hash of the plan.
    data: Names of files of the folder or outside it.
    seen: For each file, a digest with `salt` of its state at the request: a plain size could be a number of records.
    codes: Names of the files of the specification.
    table: The table of a database or a DuckDB file, or the sheet of an Excel file; None for other data.
    ledger, out: Names in the folder.
    source: The text that the operator has to type.
    head: The number of the last entry of the ledger.
    book: The identity of the ledger, and the digest of that entry.
    finishes: The digest of the earlier charge whose release this request finishes; empty if it makes a charge.
    is_repeat: True if the charge is a second one for the plan.
    totals: The name of the file of public totals; empty for a plan without them.
    totals_digest: Its SHA-256 at the request.
    statement: The sentence about this file that the operator has to type; empty without a file.
    is_stated: True if the operator typed it.
    """

    plan: str
    data: tuple[str, ...]
    seen: tuple[str, ...]
    salt: str
    codes: tuple[str, ...]
    table: str | None
    ledger: str
    out: str
    source: str
    head: int
    book: str
    finishes: str = ""
    is_repeat: bool = False
    totals: str = ""
    totals_digest: str = ""
    statement: str = ""
    is_stated: bool = False


def seen(folder: Folder, name: str, salt: str) -> str:
    """Return the state of a file without reading it: it changes when the file is replaced or written to."""
    if name.startswith(REMOTE_PREFIXES):
        return name
    path = folder.inside(name)
    inner = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    stats = ((p.relative_to(folder.root).as_posix(), p.stat()) for p in inner)
    # The state alone, and never the content: reading data before the charge is left to the process that counts.
    return digest(json.dumps([salt, *([n, s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns] for n, s in stats)]))


def head_of(folder: Folder, ledger: str) -> tuple[int, str]:
    """Return the number of the last entry, and the identity of the ledger in its present state.

    For a ledger that does not exist yet, return 0 and "new".

    Raises:
        ReleaseError: The path leads out of the folder, or no ledger can be made there.
        LedgerError: The ledger cannot be read.
    """
    if not os.path.lexists(folder.root / ledger):
        folder.target(ledger)
        return 0, "new"
    path = folder.inside(ledger)
    with Ledger(path) as book:
        number, entry = book.head()
    status = path.stat()
    # With device and inode: another file under this name can have as many entries.
    return number, f"{status.st_dev} {status.st_ino} {entry}"


def released_before(folder: Folder, ledger: str, plan: Plan) -> tuple[LedgerEntry | None, bool]:
    """Return the charge of a plan in a ledger, and True if its release waits to be finished.

    Without such a charge, and for a series, return None and False.

    Raises:
        ReleaseError: The path of the ledger leads out of the folder.
        LedgerError: The ledger cannot be read.
    """
    if not os.path.lexists(folder.root / ledger):
        return None, False
    with Ledger(folder.inside(ledger)) as book:
        charges = charged_before(plan, book) if plan.series is None else []
    waiting = [entry for entry, _, finished in charges if not finished]
    return (waiting[0], True) if waiting else (charges[-1][0] if charges else None, False)


@final
@dataclass(frozen=True)
class ReleaseState:
    """The state of a release.

    state: "releasing", "released", "refused" (nothing was charged), or "failed" (charged, and no release there).
    stage: The last reported stage.
    entry: The entry of its charge, from the ledger.
    `has_ended`: True if its process came to its end.
    text: The notices and the error of its process; empty before its end, and for processes of earlier servers.
    stopping: True if the operator requested a stop.
    """

    id: str
    intent: Intent
    state: str
    stage: str
    entry: LedgerEntry | None
    has_ended: bool
    text: str
    stopping: bool


def progress_of(release_state: ReleaseState) -> list[tuple[str, str]]:
    """Return the stages of a release with the state of each: "done", "now", "fail" or "todo".

    The charge is the one in the ledger, and not a report of the process.
    """
    names = ("check", "count", "charge", "draw", "write")
    # The stage that the release has come to: a release that ended there has failed there.
    current = 0 if release_state.stage in STAGES_BEFORE_COUNTING else 1
    if release_state.entry is not None:
        current = 4 if release_state.stage == FIRST_STAGE_AFTER_CHARGE else 3
    if release_state.state == "released":
        current = len(names)
    here = "now" if release_state.state == "releasing" else "fail"
    return [(x, "done" if i < current else here if i == current else "todo") for i, x in enumerate(names)]


def no_data() -> ReleaseError:
    """Return the error for a release without data."""
    return ReleaseError(
        "data-not-chosen", "No data are chosen.", "A release needs data.", "Choose the data.", "Nothing was measured."
    )


def not_requested() -> ReleaseError:
    """Return the error for an intent that is unknown or too old."""
    return ReleaseError(
        "release-not-requested",
        "This release was not requested in the last ten minutes.",
        "A confirmation works once, within ten minutes.",
        "Request the release again.",
        "Nothing was measured.",
    )


def totals_of(folder: Folder, plan: Plan, name: str, data: Sequence[str]) -> str:
    """Return the SHA-256 of the file of public totals; "" without totals.

    Raises:
        ReleaseError: The plan has public totals, and the file is missing, is one of the data, or does not fit.
    """
    stated = plan.publication.public
    if stated is None:
        return ""
    if not name or name in data:
        raise ReleaseError(
            "totals-file-not-chosen",
            "No file of the public totals is chosen." if not name else f"The file {name!r} is also among the data.",
            "The plan has public totals, and they come from a file of their own.",
            "Choose the file of the totals.",
            "Nothing was measured.",
        )
    path = folder.inside(name)
    return parse_totals(path.name, read_text(path), stated, plan.publication.domain).sha256


def statement_of(plan: Plan, name: str, language: str) -> str:
    """Return the sentence that the operator types about a file of public totals; "" without totals.

    Args:
        plan: The plan.
        name: The name of the file, or its path in the folder.
        language: The language of the page. The ledger keeps the sentence in English (:func:`confirmation`).
    """
    stated, unit, translation = plan.publication.public, plan.publication.unit.name, translator(language)
    if stated is None:
        return ""
    if language == "en":
        return confirmation(Path(name).name, stated, unit)
    if stated.is_counted_here:
        return translation.translate("studio.totals.counted_here", unit=unit, names=", ".join(stated.attributes))
    return translation.translate("studio.totals.public_before", name=Path(name).name)


def ledger_changed() -> DraftChanged:
    """Return the error for a ledger that is not as it was when a release was requested."""
    return DraftChanged(
        "ledger-changed-since",
        "The ledger changed after this release was requested.",
        "The page may show a wrong balance.",
        "Request the release again.",
        "Nothing was measured.",
    )


@final
class Releases:
    """The intents of a folder, and the releases that the studio started from them.

    Args:
        folder: The folder.
        language: The language of the notices of a release.
        clock: The clock in seconds, for tests.
    """

    def __init__(self, folder: Folder, language: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._language, self._clock = folder, language, clock
        self._places = folder.own / "releases"
        self._places.mkdir(mode=0o700, exist_ok=True)
        self._lock, self._probing = threading.Lock(), threading.Lock()
        self._asked: dict[str, tuple[Intent, float]] = {}
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._texts: dict[str, str] = {}

    def ask(
        self,
        plan: Plan,
        data: tuple[str, ...],
        codes: Sequence[str],
        table: str | None,
        ledger: str,
        out: str,
        totals: str = "",
    ) -> str:
        """Make an intent to release, to be confirmed within ten minutes, and return its number.

        Raises:
            ReleaseError: A name is invalid or taken, no data are given, or the data do not exist or are one of the
                files of codes. Or the plan has public totals, and their file is missing, is among the data, or does not
                fit.
            LedgerError: The ledger cannot be read.
        """
        self._folder.target(out)
        if not data:
            raise no_data()
        digest_of_totals = totals_of(self._folder, plan, totals, data)
        self._folder.refuse_codes(data, codes)
        head, book = head_of(self._folder, ledger)
        before, unfinished = released_before(self._folder, ledger, plan)
        # Without a salt, a reader of the intent could test guesses at the size of a file.
        salt = secrets.token_hex(16)
        intent = Intent(
            plan=plan.hash,
            data=data,
            seen=tuple(seen(self._folder, name, salt) for name in data),
            salt=salt,
            codes=tuple(codes),
            table=table,
            ledger=ledger,
            out=out,
            source=plan.publication.source.name,
            head=head,
            book=book,
            finishes=before.digest if before is not None and unfinished else "",
            is_repeat=before is not None and not unfinished,
            totals=totals,
            totals_digest=digest_of_totals,
            statement=statement_of(plan, totals, self._language),
        )
        with self._lock:
            number = secrets.token_hex(16)
            self._asked[number] = intent, self._clock() + INTENT_LIFETIME_SECONDS
            return number

    def open_intent(self, number: str) -> Intent | None:
        """Return an intent that can still be used."""
        with self._lock:
            intent, until = self._asked.get(number, (None, 0.0))
            return intent if intent is not None and self._clock() < until else None

    def remaining_seconds(self, number: str) -> float:
        """Return the seconds for which an intent can still be used; 0 for an unknown one."""
        with self._lock:
            return max(0.0, self._asked[number][1] - self._clock()) if number in self._asked else 0.0

    def state_totals(self, number: str, typed: str) -> Intent:
        """Accept the operator's statement about the file of public totals, and return the intent.

        Raises:
            ReleaseError: The intent is unknown or too old, or another sentence was typed.
        """
        with self._lock:
            intent, until = self._asked.get(number, (None, 0.0))
            if intent is None or self._clock() >= until:
                raise not_requested()
            if typed.strip() != intent.statement:
                raise ReleaseError(
                    "totals-not-stated",
                    "The typed text is not the sentence about the file of public totals.",
                    "The publisher states where the totals come from, and the ledger keeps the sentence.",
                    "If the sentence is true, type it exactly.",
                    "Nothing was measured.",
                )
            intent = replace(intent, is_stated=True)
            self._asked[number] = intent, until
            return intent

    def confirm(self, number: str, typed: str, certified: str | None) -> None:
        """Use an intent: start its release. For an intent that was used before, do nothing.

        Args:
            number: The number of the intent.
            typed: The text typed as the name of the source.
            certified: The hash of the plan that is certified now; None without one.

        Raises:
            DraftChanged: The draft was edited, or the ledger changed, since the request.
            ReleaseError: The intent is unknown or too old, another name was typed, or another release is under way.
            LedgerError: The ledger cannot be read.
        """
        with self._lock:
            if self.is_used(number):
                return  # a second press, a reload, a replay: the page shows where it is
            intent, until = self._asked.get(number, (None, 0.0))
            if intent is None or self._clock() >= until or (intent.totals and not intent.is_stated):
                raise not_requested()
            if typed != intent.source:
                raise ReleaseError(
                    "source-name-not-typed",
                    f"The typed text is not the name of the source, {intent.source!r}.",
                    "To release, the name of the source must be typed.",
                    "Type the name of the source.",
                    "Nothing was measured.",
                    values={"source": intent.source},
                )
            if certified != intent.plan:
                raise DraftChanged(
                    "specification-changed-since",
                    "The specification changed after this release was requested.",
                    "",
                    "Press 'Certify this plan' on the page Prove.",
                    "Nothing was measured.",
                )
            if head_of(self._folder, intent.ledger) != (intent.head, intent.book):
                raise ledger_changed()
            if any(self._lives(x) for x in self.numbers()):
                raise ReleaseError(
                    "another-release-running",
                    "Another release is running.",
                    "One release runs at a time.",
                    "Wait until it ends.",
                    "Nothing was measured.",
                )
            for earlier in self.numbers():
                if not (self._places / earlier / "until").exists():
                    self.where(earlier)  # settles which charges are its own, before there are more
            self._start(number, intent)
            del self._asked[number]

    def _start(self, number: str, intent: Intent) -> None:
        folder = self._places / number
        folder.mkdir(mode=0o700)
        handle = None
        with contextlib.suppress(OSError):  # no such locks here: this server alone knows whether it lives
            handle = hold(folder)
        content = to_json(asdict(intent)).encode()
        replace_file(folder / "intent.json", content, 0o600)  # known from here on, and held already
        try:
            process = subprocess.Popen(  # noqa: S603 - a program of fitnoise
                command(PROGRAM, str(self._folder.root), number, self._language),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # the end of the studio does not end it
                pass_fds=() if handle is None else (handle,),
            )
        finally:
            if handle is not None:
                os.close(handle)
        self._processes[number] = process
        threading.Thread(target=self._listen, args=(number, process), daemon=True).start()

    def _listen(self, number: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        self._texts[number] = process.stdout.read().strip()
        process.wait()
        process.stdout.close()
        with contextlib.suppress(FitnoiseError, OSError):
            self.where(number)  # settles which charges are its own, before there are more

    def stop(self, number: str) -> None:
        """Request a stop of a release, which stops until the ledger is charged."""
        if self.is_used(number):
            (self._places / number / "stop").touch()

    def is_used(self, number: str) -> bool:
        """Return True if this intent was used."""
        return number in self.numbers()

    def numbers(self) -> list[str]:
        """Return all intents that were used."""
        return sorted(p.name for p in self._places.iterdir() if (p / "intent.json").is_file())

    def running(self) -> str | None:
        """Return the release that is under way."""
        return next(filter(self._lives, self.numbers()), None)

    def _lives(self, number: str) -> bool:
        process = self._processes.get(number)
        if process is not None:
            return process.poll() is None
        if (self._places / number / "until").exists():
            return False  # it was found to have ended
        with self._probing:  # two that look at once would each take the other for the process
            try:
                os.close(hold(self._places / number))
            except BlockingIOError:
                return True
            except OSError:
                return False
        return False

    def where(self, number: str) -> ReleaseState:
        """Return the state of a release, as its ledger shows it.

        Raises:
            ReleaseError: The release is unknown.
            LedgerError: Its ledger cannot be read.
        """
        if not self.is_used(number):
            raise ReleaseError(
                "release-unknown", "The studio knows no such release.", "", "Reload the page.", "Nothing was opened."
            )
        folder = self._places / number
        lives = self._lives(number)  # first, because a dead process reports nothing more
        document: dict[str, Any] = json.loads(read_text(folder / "intent.json"))
        lists = {k: tuple(document[k]) for k in ("data", "seen", "codes")}
        intent = Intent(**(document | lists))
        lines = _lines(folder / "told.jsonl")
        stage = next((x["stage"] for x in reversed(lines) if "stage" in x), "")
        has_ended = any("end" in x for x in lines)
        charges = self._charges(intent, None if lives else self._until(folder, intent))
        there = next((e for e in charges if self._is_there(intent, e)), None)
        entry = there or next(iter(charges), None)
        if lives:
            state = "releasing"
        elif there is not None:
            state = "released"
        else:
            state = "refused" if entry is None else "failed"
        return ReleaseState(
            id=number,
            intent=intent,
            state=state,
            stage=stage,
            entry=entry,
            has_ended=has_ended,
            text=self._texts.get(number, ""),
            stopping=(folder / "stop").exists(),
        )

    def _until(self, path: Path, intent: Intent) -> int:
        """Return the last entry of the ledger when its process was first found to have ended."""
        end_file = path / "until"
        if not end_file.exists():
            if sys.platform == "win32" and path.name not in self._processes:
                return head_of(self._folder, intent.ledger)[0]  # no locks: whether it has ended is not known
            replace_file(end_file, str(head_of(self._folder, intent.ledger)[0]).encode())
        return int(end_file.read_text("ascii"))

    def _charges(self, intent: Intent, until: int | None) -> list[LedgerEntry]:
        """Return the charges for the plan since its confirmation, while its process lived."""
        ledger_file = self._folder.root / intent.ledger
        if not ledger_file.exists():
            return []
        with Ledger(self._folder.inside(intent.ledger)) as book:
            charges = [e for e in book.entries() if e.kind == "charge" and e.detail.get("plan") == intent.plan]
        # A release that is finished has the charge of an earlier intent.
        finished = [e for e in charges if e.digest == intent.finishes]
        since = (e for e in charges if e.sequence > intent.head)
        return finished + [e for e in since if until is None or e.sequence <= until]

    def _is_there(self, intent: Intent, entry: LedgerEntry) -> bool:
        """Return True if the complete release of a charge is in its place."""
        try:
            description = json.loads(read_text(self._folder.root / intent.out / DESCRIPTION))
            return bool(description["plan"] == intent.plan and description["ledger"]["digest"] == entry.digest)
        except (ReleaseError, ValueError, KeyError, TypeError):
            return False


def _lines(path: Path) -> list[dict[str, Any]]:
    """Return the reports of a process, except for a line that it did not end."""
    try:
        text = path.read_text("utf-8")
    except OSError:
        return []
    out = []
    for line in text.split("\n")[:-1]:
        with contextlib.suppress(ValueError):
            out.append(json.loads(line))
    return out


# --- the process -----------------------------------------------------------------------------------------------------


@final
class ReleaseStopped(FitnoiseError):
    """The error of a stop by the operator."""


def run(root: Path, number: str, language: str) -> None:
    """Release by an intent, and report the result. language: that of notices."""
    folder = Folder(root)
    release_folder = folder.own / "releases" / number
    intent = json.loads(read_text(release_folder / "intent.json"))

    def report(**line: str) -> None:
        handle = os.open(release_folder / "told.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    stages = [""]

    def stage(name: str) -> None:
        if name != FIRST_STAGE_AFTER_CHARGE and (release_folder / "stop").exists():
            raise ReleaseStopped(
                "release-stopped",
                "The operator stopped the release.",
                "",
                "To release, request it again.",
                "Nothing was measured and nothing was charged.",
            )
        kind = name.partition(",")[0] if name.startswith("counting, ") and name.endswith("%") else name
        with contextlib.suppress(OSError):  # a full disk does not end a charged release
            if kind != stages[-1]:
                report(stage=kind)
        stages.append(kind)

    def show(text: str) -> None:
        """Show the operator a sentence, through the pipe: it can be about the data."""
        with contextlib.suppress(OSError):  # the studio may be gone
            # The studio reads UTF-8, and the locale of this process may have another encoding.
            sys.stdout.buffer.write(f"{text}\n".encode())
            sys.stdout.buffer.flush()

    try:
        done = _released(folder, intent, stage, show, language)
    except Exception as error:
        known_error = error if isinstance(error, FitnoiseError) else internal_error(error)
        with contextlib.suppress(OSError):
            report(end="ended")
        # The page says what was charged, by the ledger.
        show(error_sentences(known_error, language, str(known_error.with_outcome(""))))
        return
    entry = done.entry
    with contextlib.suppress(OSError):
        report(end="released", entry=str(entry.sequence if entry else ""))


def dropped_text(dropped: Any, language: str) -> str:
    """Return the number of records that a release left out, by attribute or rule, in a sentence for the operator."""
    translation = translator(language)
    ids = {translation.translate("studio.where.without_id"): dropped.without_id} if dropped.without_id else {}
    return translation.translate(
        "studio.where.dropped",
        dropped=translation.number(dropped.dropped),
        records=translation.number(dropped.records),
        list=value_text({**dropped.attributes, **ids}, translation),
    )


def _released(
    folder: Folder, intent: dict[str, Any], stage: Callable[[str], None], show: Callable[[str], None], language: str
) -> Any:
    data = intent["data"]
    # Between the request and this process, the data may have been replaced.
    if [seen(folder, name, intent["salt"]) for name in data] != intent["seen"]:
        raise DraftChanged(
            "data-changed-since",
            "The data changed after the release was requested.",
            "",
            "Request the release again.",
            "Nothing was measured.",
        )
    folder.refuse_codes(data, intent["codes"])
    if list(head_of(folder, intent["ledger"])) != [intent["head"], intent["book"]]:
        raise ledger_changed()
    others = [x.startswith(REMOTE_PREFIXES) for x in data]
    sources = [x if is_remote else folder.inside(x) for x, is_remote in zip(data, others, strict=True)]
    plan = Plan.load(folder.plan(intent["plan"]))
    if plan.hash != intent["plan"]:
        raise ReleaseError(
            "plan-not-as-requested",
            "The plan is not the one of the request.",
            "",
            "Press 'Certify this plan' on the page Prove.",
            "Nothing was measured.",
        )
    totals = intent["totals"]
    # The operator saw and stated the file in its state at the request.
    if totals and totals_of(folder, plan, totals, data) != intent["totals_digest"]:
        raise DraftChanged(
            "totals-changed-since",
            "The file of public totals changed after the release was requested.",
            "",
            "Request the release again.",
            "Nothing was measured.",
        )
    return release(
        plan,
        sources[0] if len(sources) == 1 else sources,
        ledger=folder.root / intent["ledger"],
        directory=folder.target(intent["out"]),
        table=intent["table"],
        again=intent["is_repeat"],
        public=folder.inside(totals) if totals else None,
        public_confirm=statement_of(plan, totals, "en") if totals else None,
        progress=stage,
        # The number of dropped records comes as a sentence, too, which has no message.
        notice=lambda text: show(translator(language).write(text.message)) if isinstance(text, Notice) else None,
        dropped=lambda dropped: show(dropped_text(dropped, language)),
    )


if __name__ == "__main__":
    run(Path(sys.argv[1]), *sys.argv[2:])
