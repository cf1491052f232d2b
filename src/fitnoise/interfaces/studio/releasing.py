"""Releasing, once: what was asked is bound to a plan, data and a place; a process of its own does it; the ledger says.

An intent is a folder, `.studio/releases/ID`, and making it is its one use: whoever asks again finds it, and is shown
where the release is. The process holds the folder's lock as long as it lives, and writes how far it is; what it says of
data goes to the operator through a pipe, and is not stored.

Whether anything was charged is never taken from the process: it is read in the ledger.
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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from fitnoise.errors import FitnoiseError, ReleaseError
from fitnoise.interfaces.studio.folder import BESIDE, Changed, Folder, digest
from fitnoise.interfaces.studio.workers import command
from fitnoise.kernel.files import hold
from fitnoise.kernel.ledger import Entry, Ledger
from fitnoise.planning.plan import Plan
from fitnoise.publishing import charged_before, release
from fitnoise.reading.files import DESCRIPTION, read_text, replace_file, to_json

VALID = 600.0
"""Seconds within which an intent is used."""

PROGRAM = "fitnoise.interfaces.studio.releasing"

COUNTED = "writing the tables"
"""The stage that comes after the charge: from it on nothing is stopped."""


@final
@dataclass(frozen=True)
class Intent:
    """What is asked for: one release.

    plan: its hash. data: names, of files of the folder or beside it. seen: of each what it was when asked, as a digest
    with `salt`: a size may be a number of records. codes: names of the files of codes. table: of a database. ledger,
    out: names in the folder. source: what has to be typed. head: the last entry of the ledger. book: which ledger it
    is, and the digest of that entry. finishes: the digest of an earlier charge whose release is finished; empty, if a
    charge is made. again: whether that is a second charge for the plan.
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
    again: bool = False


def seen(folder: Folder, name: str, salt: str) -> str:
    """What a file is, without reading it: changed when it is another one, or was written to."""
    if name.startswith(BESIDE):
        return name
    path = folder.inside(name)
    inner = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    stats = ((p.relative_to(folder.root).as_posix(), p.stat()) for p in inner)
    return digest(json.dumps([salt, *([n, s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns] for n, s in stats)]))


def head_of(folder: Folder, ledger: str) -> tuple[int, str]:
    """The number of the last entry, and what tells this ledger as it is from others; of one that is to be made, 0.

    Raises:
        ReleaseError: it leads out of the folder, or none can be made there. LedgerError: it cannot be read.
    """
    if not os.path.lexists(folder.root / ledger):
        folder.target(ledger)
        return 0, "new"
    place = folder.inside(ledger)
    with Ledger(place) as book:
        number, entry = book.head()
    said = place.stat()
    return number, f"{said.st_dev} {said.st_ino} {entry}"


def released_before(folder: Folder, ledger: str, plan: Plan) -> tuple[Entry | None, bool]:
    """Return the charge of a plan that a ledger has, and whether its release waits to be finished.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    if not os.path.lexists(folder.root / ledger):
        return None, False
    with Ledger(folder.inside(ledger)) as book:
        found = charged_before(plan, book) if plan.series is None else []
    waiting = [entry for entry, _, finished in found if not finished]
    return (waiting[0], True) if waiting else (found[-1][0] if found else None, False)


@final
@dataclass(frozen=True)
class Where:
    """Where a release is.

    state: "releasing", "released", "refused" (nothing was charged), or "failed" (charged, and no release there).
    stage: the last one that was told. entry: by which it was charged, as the ledger says. told: whether its process
    came to its end. text: what it said then, of this server's releases only. stopping: whether somebody asked to stop
    it.
    """

    id: str
    intent: Intent
    state: str
    stage: str
    entry: Entry | None
    told: bool
    text: str
    stopping: bool


def no_data() -> ReleaseError:
    """Return the error for a release without data."""
    return ReleaseError(
        "data-not-chosen", "No data are chosen.", "A release needs data.", "Choose the data.", "Nothing was measured."
    )


def ledger_changed() -> Changed:
    """Return the error for a ledger that is not as it was when a release was requested."""
    return Changed(
        "ledger-changed-since",
        "The ledger changed after this release was requested.",
        "The page may show a wrong balance.",
        "Request the release again.",
        "Nothing was measured.",
    )


"""The reason for which a release without data is refused."""


@final
class Releases:
    """Intents and releases of a folder. clock: seconds, for tests."""

    def __init__(self, folder: Folder, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._clock = folder, clock
        self._places = folder.own / "releases"
        self._places.mkdir(mode=0o700, exist_ok=True)
        self._lock, self._probing = threading.Lock(), threading.Lock()
        self._asked: dict[str, tuple[Intent, float]] = {}
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._texts: dict[str, str] = {}

    def ask(
        self, plan: Plan, data: tuple[str, ...], codes: Sequence[str], table: str | None, ledger: str, out: str
    ) -> str:
        """An intent to release, to be confirmed within ten minutes.

        Raises:
            ReleaseError: the place is taken, the data are not there, or are one of the files of codes.
        """
        self._folder.target(out)
        if not data:
            raise no_data()
        self._folder.refuse_codes(data, codes)
        head, book = head_of(self._folder, ledger)
        before, unfinished = released_before(self._folder, ledger, plan)
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
            again=before is not None and not unfinished,
        )
        with self._lock:
            number = secrets.token_hex(16)
            self._asked[number] = intent, self._clock() + VALID
            return number

    def asked(self, number: str) -> Intent | None:
        """An intent that can still be used."""
        with self._lock:
            intent, until = self._asked.get(number, (None, 0.0))
            return intent if intent is not None and self._clock() < until else None

    def confirm(self, number: str, typed: str, certified: str | None) -> None:
        """Use an intent: start its release.

        Args:
            number: of the intent.
            typed: what was typed as the name of the source.
            certified: the plan that is certified now.

        Raises:
            Changed: the draft was edited, or the ledger changed, since it was asked.
            ReleaseError: the intent is unknown or too old, another name was typed, or another release is under way.
        """
        with self._lock:
            if self.known(number):
                return  # a second press, a reload, a replay: the page shows where it is
            intent, until = self._asked.get(number, (None, 0.0))
            if intent is None or self._clock() >= until:
                raise ReleaseError(
                    "release-not-requested",
                    "This release was not requested in the last ten minutes.",
                    "A confirmation works once, within ten minutes.",
                    "Request the release again.",
                    "Nothing was measured.",
                )
            if typed != intent.source:
                raise ReleaseError(
                    "source-name-not-typed",
                    f"The typed text is not the name of the source, {intent.source!r}.",
                    "To release, its name must be typed.",
                    "Type the name of the source.",
                    "Nothing was measured.",
                )
            if certified != intent.plan:
                raise Changed(
                    "specification-changed-since",
                    "The specification changed after this release was requested.",
                    "",
                    "Certify the plan again.",
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
        place = self._places / number
        place.mkdir(mode=0o700)
        handle = None
        with contextlib.suppress(OSError):  # no such locks here: this server alone knows whether it lives
            handle = hold(place)
        said = to_json(asdict(intent)).encode()
        replace_file(place / "intent.json", said, 0o600)  # known from here on, and held already
        try:
            process = subprocess.Popen(  # noqa: S603 - ours
                command(PROGRAM, str(self._folder.root), number),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # whatever ends the studio does not end it
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
        """Ask a release to stop, which it does until the ledger is charged."""
        if self.known(number):
            (self._places / number / "stop").touch()

    def known(self, number: str) -> bool:
        """Whether this intent was used."""
        return number in self.numbers()

    def numbers(self) -> list[str]:
        """All intents that were used."""
        return sorted(p.name for p in self._places.iterdir() if (p / "intent.json").is_file())

    def running(self) -> str | None:
        """The release that is under way."""
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

    def where(self, number: str) -> Where:
        """Where a release is, as its ledger says.

        Raises:
            ReleaseError: there is no such release.
            LedgerError: its ledger cannot be read.
        """
        if not self.known(number):
            raise ReleaseError(
                "release-unknown", "The studio knows no such release.", "", "Reload the page.", "Nothing was opened."
            )
        place = self._places / number
        lives = self._lives(number)  # first: what a process that is gone has told is all there will be
        document: dict[str, Any] = json.loads(read_text(place / "intent.json"))
        lists = {k: tuple(document[k]) for k in ("data", "seen", "codes")}
        intent = Intent(**(document | lists))
        lines = _lines(place / "told.jsonl")
        stage = next((x["stage"] for x in reversed(lines) if "stage" in x), "")
        told = any("end" in x for x in lines)
        charges = self._charges(intent, None if lives else self._until(place, intent))
        there = next((e for e in charges if self._is_there(intent, e)), None)
        entry = there or next(iter(charges), None)
        if lives:
            state = "releasing"
        elif there is not None:
            state = "released"
        else:
            state = "refused" if entry is None else "failed"
        return Where(
            id=number,
            intent=intent,
            state=state,
            stage=stage,
            entry=entry,
            told=told,
            text=self._texts.get(number, ""),
            stopping=(place / "stop").exists(),
        )

    def _until(self, place: Path, intent: Intent) -> int:
        """The last entry of the ledger when its process was first found to have ended."""
        settled = place / "until"
        if not settled.exists():
            if sys.platform == "win32" and place.name not in self._processes:
                return head_of(self._folder, intent.ledger)[0]  # no locks: whether it has ended is not known
            replace_file(settled, str(head_of(self._folder, intent.ledger)[0]).encode())
        return int(settled.read_text("ascii"))

    def _charges(self, intent: Intent, until: int | None) -> list[Entry]:
        """The charges for the plan since it was confirmed, while its process lived."""
        place = self._folder.root / intent.ledger
        if not place.exists():
            return []
        with Ledger(self._folder.inside(intent.ledger)) as book:
            charges = [e for e in book.entries() if e.kind == "charge" and e.detail.get("plan") == intent.plan]
        finished = [e for e in charges if e.digest == intent.finishes]
        since = (e for e in charges if e.sequence > intent.head)
        return finished + [e for e in since if until is None or e.sequence <= until]

    def _is_there(self, intent: Intent, entry: Entry) -> bool:
        """Whether the whole release of a charge lies in its place."""
        try:
            said = json.loads(read_text(self._folder.root / intent.out / DESCRIPTION))
            return bool(said["plan"] == intent.plan and said["ledger"]["digest"] == entry.digest)
        except (ReleaseError, ValueError, KeyError, TypeError):
            return False


def _lines(place: Path) -> list[dict[str, Any]]:
    """What a process told, but for a line that it did not end."""
    try:
        text = place.read_text("utf-8")
    except OSError:
        return []
    out = []
    for line in text.split("\n")[:-1]:
        with contextlib.suppress(ValueError):
            out.append(json.loads(line))
    return out


# --- the process -----------------------------------------------------------------------------------------------------


@final
class Stopped(FitnoiseError):
    """The operator stopped it."""


def run(root: Path, number: str) -> None:
    """Release what an intent says, and tell how it went."""
    folder = Folder(root)
    place = folder.own / "releases" / number
    intent = json.loads(read_text(place / "intent.json"))

    def tell(**line: str) -> None:
        handle = os.open(place / "told.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    said = [""]

    def stage(name: str) -> None:
        if name != COUNTED and (place / "stop").exists():
            raise Stopped(
                "release-stopped",
                "The operator stopped the release.",
                "",
                "To release, request it again.",
                "Nothing was measured and nothing was charged.",
            )
        kind = name.partition(",")[0] if name.startswith("counting, ") and name.endswith("%") else name
        with contextlib.suppress(OSError):  # a full disk does not end a release that is paid for
            if kind != said[-1]:
                tell(stage=kind)
        said.append(kind)

    def notice(text: str) -> None:
        """Show the operator a sentence, through the pipe: it may be of the data."""
        with contextlib.suppress(OSError):  # the studio may be gone
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    try:
        done = _released(folder, intent, stage, notice)
    except Exception as error:
        text = str(error) if isinstance(error, FitnoiseError) else "an error inside fitnoise"
        text = " ".join([text, *getattr(error, "__notes__", ())])  # which say what was charged
        with contextlib.suppress(OSError):
            tell(end="ended")
        notice(f"{type(error).__name__}: {text}")
        return
    entry = done.entry
    with contextlib.suppress(OSError):
        tell(end="released", entry=str(entry.sequence if entry else ""))


def _released(
    folder: Folder, intent: dict[str, Any], stage: Callable[[str], None], notice: Callable[[str], None]
) -> Any:
    data = intent["data"]
    if [seen(folder, name, intent["salt"]) for name in data] != intent["seen"]:
        raise Changed(
            "data-changed-since",
            "The data changed after the release was requested.",
            "",
            "Request the release again.",
            "Nothing was measured.",
        )
    folder.refuse_codes(data, intent["codes"])
    if list(head_of(folder, intent["ledger"])) != [intent["head"], intent["book"]]:
        raise ledger_changed()
    others = [x.startswith(BESIDE) for x in data]
    found = [x if beside else folder.inside(x) for x, beside in zip(data, others, strict=True)]
    plan = Plan.from_json(read_text(folder.plan(intent["plan"])))
    if plan.hash != intent["plan"]:
        raise ReleaseError(
            "plan-not-as-requested",
            "The plan is not the one of the request.",
            "",
            "Certify the plan again.",
            "Nothing was measured.",
        )
    return release(
        plan,
        found[0] if len(found) == 1 else found,
        ledger=folder.root / intent["ledger"],
        directory=folder.target(intent["out"]),
        table=intent["table"],
        again=intent["again"],
        progress=stage,
        notice=notice,
    )


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2])
