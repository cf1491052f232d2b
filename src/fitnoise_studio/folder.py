"""The folder of a studio: its files by number, the specification and its draft, and plans by their hash.

    FOLDER/spec.toml          the specification that `fitnoise plan spec.toml` would plan
    FOLDER/plans/HASH.json    certified plans, never changed
    FOLDER/.studio/           draft.toml, its start, and releases under way; for its owner only

A page never names a file. It gives the number that this server gave to the file, and a name keeps its number. A path
that leads out of the folder, over links, is not listed. It is refused when it is opened.
"""

from __future__ import annotations

import csv
import glob
import gzip
import hashlib
import json
import os
import re
import secrets
import stat
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import duckdb

from fitnoise.errors import DomainError, FitnoiseError, ReleaseError, SpecError
from fitnoise.planning.files import read_text, replace_file
from fitnoise.reading.release_files import DESCRIPTION
from fitnoise.request.domain import Domain

SPEC, STUDIO_FOLDER, PLANS = "spec.toml", ".studio", "plans"

MAX_NAMES, MAX_DEPTH = 2000, 3
"""The largest number of listed names of the folder, and the largest nesting of listed folders."""

MAX_FILES = 100_000
"""The largest number of names below a folder of data: for more, the studio cannot check that none leads out."""

CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")

PARQUET = (".parquet", ".pq")

DATA = (*CSV, *PARQUET, ".duckdb", ".ddb", ".sav", ".zsav", ".por", ".sas7bdat", ".xpt", ".dta", ".xlsx")

OPENING_PAGE_SECONDS = 600.0
"""The age in seconds after which a page that opened a studio is of no use."""

REMOTE_PREFIXES = ("env:", "spark:")
"""The prefixes of data that are not files of the folder."""

FILES = ("codes_file", "file", "lookup_file")
"""The keys of a specification that name a file."""

MTIME_RESOLUTION_SECONDS = 2.0
"""The seconds within which a file can be written twice with one time stamp."""

_SCHEMA_READER: dict[str, Any] = {"threads": 1, "python_enable_replacements": False, "temp_directory": ""}
"""The settings of the engine that reads schemas: it writes no file and sees no variable."""

_LINE = 2**20
"""The largest number of bytes of a header line."""

_NO_NAME = re.compile(r"\s*|[-+]?[\d.,\s]+(e[-+]?\d+)?\s*%?|\d{1,4}([-./])\d{1,2}\2\d{1,4}([ T].*)?", re.IGNORECASE)
"""Texts that head no column: nothing, a number, a date."""

EMPTY_SPEC = """title = ""

[data]
source = ""

[privacy]
unit = ""
max_records = 0

[accuracy]
confidence = 0.95
gap = 1e-6
"""
"""An empty specification: the publisher has to state the unit of protection."""


@final
class DraftChanged(FitnoiseError):
    """The error of a change by another page or program in the meantime.

    **Attributes**

    * `differences`: For each changed setting its place, the refused value and the present value; empty if unknown.
    * `present`: The digest of the present draft, from which the change can be made again.
    """

    differences: Sequence[tuple[str, str, str, str]] = ()
    present: str = ""


def draft_changed() -> DraftChanged:
    """Return the error of a change that does not start from the present draft."""
    return DraftChanged(
        "draft-changed-elsewhere",
        "Another tab or another program changed the draft meanwhile.",
        "A change must start from the present draft.",
        "Reload the page, and make the change there.",
        "Nothing was changed.",
    )


class _Listing(NamedTuple):
    """The names in a folder, and the releases among them. times: the last change of each folder; empty if unknown."""

    times: Mapping[Path, int]
    paths: tuple[Path, ...]
    releases: tuple[Path, ...]


@final
class Folder:
    """One folder, and the numbers of its files.

    others: Data that are not files of the folder, as on the command line: "env:NAME", "spark:TABLE".
    """

    def __init__(self, root: Path, others: Sequence[str] = ()) -> None:
        if not root.is_dir():
            raise ReleaseError(
                "studio-folder-missing",
                f"The folder {str(root)!r} does not exist.",
                "The studio works in a folder.",
                "Make the folder, or name another one.",
                "Nothing was opened.",
            )
        wrong = [x for x in others if not re.fullmatch(r"(env|spark):.+", x)]
        if wrong:
            raise ReleaseError(
                "studio-data-address-invalid",
                f"The data {wrong[0]!r} are given outside the folder.",
                "Such data must be named as env:NAME or spark:TABLE.",
                "Put files into the folder, and choose them there.",
                "Nothing was opened.",
            )
        self.root = root.resolve()
        self.own = self.root / STUDIO_FOLDER
        try:
            self.own.mkdir(mode=0o700, exist_ok=True)
            if self.own.is_symlink() or self.own.resolve() != self.own:
                raise OSError(None, "it is a link")
            self.own.chmod(0o700)
        except OSError as error:
            raise ReleaseError(
                "studio-place-not-made",
                f"The folder {STUDIO_FOLDER!r} cannot be made in {self.root.name!r} ({error.strerror}).",
                "The studio keeps its drafts there.",
                "Remove what has this name, or make the folder writable.",
                "Nothing was opened.",
            ) from None
        # Pages name files by number: a name from a form could lead out of the folder, and numbers cannot.
        self._names: list[str] = list(others)
        self._lock = threading.RLock()
        self._others = len(others)
        self._digests: dict[tuple[int, ...], str] = {}
        self._listing = _Listing({}, (), ())

    # --- what lies there ----------------------------------------------------------------------------

    def number(self, name: str) -> int:
        """Return the number of a name, now and later."""
        with self._lock:
            if name not in self._names:
                self._names.append(name)
            return self._names.index(name)

    def name_by_number(self, number: str, among: Sequence[str]) -> str:
        """Return the name that a page means by a number, among its choices.

        Raises:
            ReleaseError: The number is unknown, or its name is not among the choices.
        """
        with self._lock:
            is_known = number.isascii() and number.isdigit() and int(number[:9]) < len(self._names)
            name = self._names[int(number[:9])] if is_known else None
        if name is None or name not in among:
            raise ReleaseError(
                "choice-not-listed",
                "The chosen name is not in the list of the folder, or not any more.",
                "",
                "Reload the page, and choose from the list.",
                "Nothing was opened.",
            )
        return name

    def inside(self, name: str) -> Path:
        """Return the path of a name of the folder.

        Raises:
            ReleaseError: The path does not exist, or it or something in it leads out of the folder. Or it is a folder
                with more names than the studio checks.
        """
        path = self.root / name
        if not self._is_within(path) or (path.is_dir() and not self._all_within(path)):
            raise ReleaseError(
                "path-outside-folder",
                f"The path {name!r} does not exist, leads out of the folder, or holds more than {MAX_FILES:,} names.",
                "The studio opens files inside its folder only.",
                "Move the files into the folder, and spread more names over several folders.",
                "Nothing was opened.",
                place=name,
            )
        return path

    def _all_within(self, folder: Path) -> bool:
        # One more than allowed, so that too many are noticed and not cut off.
        paths = _below(folder, 50, MAX_FILES + 1)
        return all(i <= MAX_FILES and self._is_within(path) for i, path in enumerate(paths, 1))

    def _is_within(self, path: Path) -> bool:
        try:
            resolved = path.resolve(strict=True)
        except (OSError, RuntimeError, ValueError):  # RuntimeError: a loop of links; ValueError: a null in the name
            return False
        return resolved == self.root or self.root in resolved.parents

    def _listed(self) -> _Listing:
        """Return the names of the folder, walked again after a folder in it changed; pages ask for them all the time.

        **Guarantees**

        * A name that came or went before the call is considered, except what lies behind a link.
        """
        with self._lock:
            if not self._listing.times or self._listing.times != {p: _changed(p) for p in self._listing.times}:
                # A folder that changes within the resolution of its time is not kept, and walked again.
                latest = time.time_ns() - int(MTIME_RESOLUTION_SECONDS * 1e9)
                paths = tuple(p for p in _below(self.root) if self._is_within(p))
                folders = [p for p in paths if p.is_dir()]
                times = {p: _changed(p) for p in (self.root, *folders)}
                noted = times if max(times.values()) < latest else {}
                self._listing = _Listing(noted, paths, tuple(p for p in folders if self._is_release(p)))
            return self._listing

    def files(self, *endings: str) -> list[str]:
        """Return the files whose names have these endings, sorted."""
        paths = (p for p in self._listed().paths if p.name.lower().endswith(endings) and p.is_file())
        return sorted(p.relative_to(self.root).as_posix() for p in paths)

    def data(self) -> list[str]:
        """Return the data for a release: data outside the folder, files, and folders of CSV or Parquet files."""
        inner = [p for p in self._listed().paths if p.is_file() and not self._is_release(p.parent)]
        # Tables of a release are answers and not data, so folders of releases are left out above.
        files = [p for p in inner if p.name.lower().endswith(DATA)]
        folders = {f for p in files if p.name.lower().endswith((*CSV, *PARQUET)) for f in p.parents}
        paths = {p for p in (*files, *folders) if p != self.root and self.root in p.parents}
        names = sorted(p.relative_to(self.root).as_posix() for p in paths)
        return [*self._names[: self._others], *(x for x in names if not x.startswith(REMOTE_PREFIXES))]

    def ledgers(self) -> list[str]:
        """Return the ledgers: files of SQLite that are not data."""
        return [x for x in self.files(".sqlite", ".db") if _begins(self.root / x, b"SQLite format 3\0")]

    def releases(self) -> list[str]:
        """Return the release directories."""
        return sorted(p.relative_to(self.root).as_posix() for p in self._listed().releases)

    def _is_release(self, path: Path) -> bool:
        return (path / DESCRIPTION).is_file()

    def target(self, name: str) -> Path:
        """Return a path for something new, directly in the folder.

        Raises:
            ReleaseError: The name is invalid or taken.
        """
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}", name) or name.endswith((".", " ")):
            raise ReleaseError(
                "new-name-invalid",
                f"The new name is {name!r}.",
                "A name has at most 100 characters: letters a to z, digits, underscores, hyphens, dots and inner "
                "spaces. It starts with a letter, digit or underscore, and does not end in a dot.",
                "Choose another name.",
                "Nothing was written.",
            )
        # `exists` follows links: a link to nothing is taken, too.
        if os.path.lexists(self.root / name):
            raise ReleaseError(
                "new-name-taken",
                f"The name {name!r} exists already.",
                "The studio does not overwrite files.",
                "Choose another name.",
                "Nothing was written.",
            )
        return self.root / name

    def headed(self) -> list[str]:
        """Return the data whose columns :meth:`columns` can list."""
        return [x for x in self.data() if not x.startswith(REMOTE_PREFIXES) and (_lined(x) or _schemed(x))]

    def columns(self, name: str) -> list[str]:
        """Return the columns in the first line of a CSV file, or in the schema of a Parquet file. No more is read.

        No program can decide for certain that the line is a header. The studio refuses a line that cannot be one: it
        has no end, or has an empty or repeated cell, a number or a date.

        Raises:
            ReleaseError: The file is of another kind, cannot be read, or has no header.
        """
        path = self.inside(name)
        try:
            if _lined(name):
                with gzip.open(path) if name.lower().endswith(".gz") else path.open("rb") as file:
                    line = file.readline(_LINE)
                text = line.decode("utf-8-sig").rstrip("\r\n")
                delimiters = "\t" if ".tsv" in name.lower() else ",;\t|"
                # The delimiter is the one that gives the most cells.
                cells = max((next(csv.reader([text], delimiter=d)) for d in delimiters), key=len)
                if line.endswith(b"\n") and len(set(cells)) == len(cells) and not any(map(_NO_NAME.fullmatch, cells)):
                    return cells
            if _schemed(name):
                with duckdb.connect(config=_SCHEMA_READER) as files:
                    rows = files.execute("SELECT name FROM parquet_schema(?)", [glob.escape(str(path))]).fetchall()
                # The first row of a schema is its root, not a column.
                return [str(column) for (column,) in rows[1:]]
        except Exception:  # noqa: S110 - a damaged file can raise anything in its reader
            pass
        raise ReleaseError(
            "columns-not-listed",
            f"The columns of {name!r} cannot be listed.",
            "The studio reads the schema of a Parquet file, or a first line of a CSV file with different names, no "
            "numbers and no dates.",
            "Name the attributes yourself.",
            "Nothing else was read.",
        )

    # --- the specification --------------------------------------------------------------------------

    @property
    def _draft(self) -> Path:
        return self.own / "draft.toml"

    def text(self) -> str:
        """Return the draft; without a draft, the specification; without both, an empty one."""
        with self._lock:
            places = (p for p in (self._draft, self.root / SPEC) if p.exists())
            path = next(places, None)
            if path is None:
                return EMPTY_SPEC
            if not self._is_within(path):
                raise ReleaseError(
                    "specification-outside-folder",
                    f"The file {path.name!r} leads out of the folder.",
                    "The studio opens files inside its folder only.",
                    "Replace the link by a file.",
                    "Nothing was opened.",
                    place=path.name,
                )
            return read_text(path).removeprefix("\ufeff")

    def accept(self, text: str, base: str) -> None:
        """Make a text the draft, completely or not at all.

        Args:
            text: The new draft.
            base: The digest of the draft that the text was made from.

        Raises:
            DraftChanged: The base is not the digest of the present draft.
        """
        with self._lock:
            if digest(self.text()) != base:
                raise draft_changed()
            # The state of spec.toml at the start of the draft: `save` refuses if another program changed it since.
            if not self._draft.exists():
                replace_file(self.own / "base", self._spec_digest().encode())
            replace_file(self._draft, text.encode())

    def save(self) -> None:
        """Make the draft the specification.

        Raises:
            DraftChanged: spec.toml is not the one from which the draft was started. Both stay unchanged.
        """
        with self._lock:
            if not self._draft.exists():
                return
            if self.is_spec_changed():
                raise DraftChanged(
                    "specification-changed-elsewhere",
                    f"Another program changed {SPEC} after this draft was started.",
                    "The draft must start from the present file.",
                    "Copy the text of .studio/draft.toml, discard the draft, and add your changes to the file again.",
                    "Nothing was written.",
                    place=SPEC,
                )
            replace_file(self.root / SPEC, self.text().encode())
            self.discard()

    def discard(self) -> None:
        """Remove the draft."""
        with self._lock:
            self._draft.unlink(missing_ok=True)

    def drafted(self) -> bool:
        """Return True if there is a draft, also if no specification exists yet."""
        return self._draft.exists()

    def is_spec_changed(self) -> bool:
        """Return True if spec.toml is not the one from which the draft was started."""
        base = self.own / "base"
        return self.drafted() and (not base.exists() or base.read_text("ascii") != self._spec_digest())

    def _spec_digest(self) -> str:
        path = self.root / SPEC
        return self._digest_of(path) if path.exists() else "none"

    def _digest_of(self, path: Path) -> str:
        """Return the digest of a file, read again if the file was replaced or written to; "" for anything else."""
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with open(path, "rb", opener=lambda p, flags: os.open(p, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return ""
            mark = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            if mark in self._digests:
                return self._digests[mark]
            content_digest = hashlib.file_digest(file, "sha256").hexdigest()
            # A file written just now can be written again without another time stamp.
            if time.time() - status.st_mtime > MTIME_RESOLUTION_SECONDS:
                self._digests[mark] = content_digest
            return content_digest

    def key(self, text: str) -> str:
        """Return the digest of the input of a plan: a text and the files that it names."""
        parts = [digest(text)]
        for name in named_files(text):
            try:
                parts.append(self._digest_of(self.inside(name)))
            except (ReleaseError, OSError):
                parts.append("")
        return digest(" ".join(parts))

    def refuse_codes(self, data: Sequence[str], codes: Sequence[str]) -> None:
        """Raise ReleaseError if data are also a file of the specification: its values would leak from the data."""
        files: list[Path] = []
        for name in data:
            path = None if name.startswith(REMOTE_PREFIXES) else self.inside(name)
            files += [] if path is None else [path] if path.is_file() else [x for x in path.rglob("*") if x.is_file()]
        for name in codes:
            codes_file = self.root / name
            # `samefile` notices links and other spellings of one path, which a comparison of names would not.
            if codes_file.is_file() and any(codes_file.samefile(x) for x in files):
                raise ReleaseError(
                    "codes-file-among-data",
                    f"The specification names the file {name!r}, which is also among the data.",
                    "These files are public; read from the data, their values would show which of them occur.",
                    "Choose other data, or another file in the specification.",
                    "Nothing was measured.",
                    place=name,
                )

    # --- plans and places of its own ----------------------------------------------------------------

    def plan(self, plan: str) -> Path:
        """Return the path of the plan of a hash, which need not exist."""
        if not re.fullmatch(r"[0-9a-f]{64}", plan):
            raise ReleaseError(
                "plan-hash-invalid",
                "The name of the plan is not a hash.",
                "The studio names plans by 64 hexadecimal digits.",
                "Press 'Certify this plan' on the page Prove.",
                "Nothing was opened.",
            )
        if os.path.lexists(self.root / PLANS):
            self.inside(PLANS)
        return self.root / PLANS / f"{plan}.json"

    def certified(self) -> str | None:
        """Return the hash of the plan that was certified for the draft in its present form."""
        try:
            record = json.loads((self.own / "certified.json").read_text("utf-8"))
            # Any edit of the draft or of a file that it names changes the key, so an older proof is not shown for it.
            plan = str(record["plan"])
            return plan if record["key"] == self.key(self.text()) and self.plan(plan).is_file() else None
        except (OSError, ValueError, KeyError, TypeError, FitnoiseError):
            return None

    def certify(self, key: str, plan: str) -> None:
        """Remember the plan that was certified for a specification."""
        replace_file(self.own / "certified.json", json.dumps({"key": key, "plan": plan}).encode())

    def page(self, text: str) -> Path:
        """Write a page that only its owner can read, and return its path."""
        for old in self.own.glob("open-*.html"):
            if time.time() - old.stat().st_mtime > OPENING_PAGE_SECONDS:
                old.unlink(missing_ok=True)  # of a server that was killed: its code opens nothing
        path = self.own / f"open-{secrets.token_hex(8)}.html"
        # The page holds the code that opens the studio: its permissions hold from the start, and O_EXCL follows no link
        # laid there.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        return path


def digest(text: str) -> str:
    """Return the digest that identifies a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def publication_of(text: str, root: Path) -> Any:
    """Return the publication that a draft means, with files from the folder only.

    Raises:
        SpecError: The draft is not a valid specification, or names a file that leads out of the folder.
    """
    from fitnoise.request.documents import Spec

    spec = Spec.from_toml(text)
    # A draft could name any file of the machine, and an error about it would show its content.
    home = root.resolve()
    for path, name in _files_of(tomllib.loads(text)):
        if home not in (home / name).resolve().parents:
            raise SpecError(
                "file-outside-folder",
                f"The key {path} is {name!r}, which leads out of the folder.",
                "The studio reads the files of a specification inside its folder only.",
                "Move the file into the folder.",
                "No data were read.",
                place=path,
            )
    return spec.publication(home)


def named_files(text: str) -> list[str]:
    """Return the files that a text names: of codes, combinations and targets; none if it is not a specification."""
    try:
        return sorted({name for _, name in _files_of(tomllib.loads(text))})
    except (ValueError, RecursionError):
        return []


def _files_of(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the value of each key of a document that names a file; entries of lists count from 1."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value, 1) if isinstance(value, list) else ()
    for key, inner in pairs:
        inner_path = f"{path}.{key}".removeprefix(".")
        if key in FILES and isinstance(inner, str):
            yield inner_path, inner
        elif inner_path != "impossible":  # its keys are attributes
            yield from _files_of(inner, inner_path)


def checked_name(name: str) -> str:
    """Return a name that an attribute can have."""
    from fitnoise.request.attributes import Ordered

    try:
        Domain({name: Ordered(0, 1)})
    except DomainError as error:
        raise error.with_outcome("Nothing was changed.") from None
    return name


def _below(folder: Path, deep: int = MAX_DEPTH, max_names: int = MAX_NAMES) -> Iterator[Path]:
    """Yield the paths in a folder and below, except hidden ones; links are yielded, also ones that lead out.

    Args:
        folder: The folder.
        deep: The largest number of levels.
        max_names: The largest number of paths.
    """
    remaining = max_names

    def walk(start: Path, deep: int) -> Iterator[Path]:
        nonlocal remaining
        try:
            inner = sorted(start.iterdir())
        except OSError:
            return
        for path in inner:
            if path.name.startswith("."):
                continue
            if remaining <= 0:
                return
            remaining -= 1
            yield path
            if deep > 1 and path.is_dir() and not path.is_symlink():
                yield from walk(path, deep - 1)

    yield from walk(folder, deep)


def _changed(folder: Path) -> int:
    """Return the time at which names of a folder changed last, in nanoseconds; -1 for a folder that is gone."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return -1


def _lined(name: str) -> bool:
    """Return True if a file starts with a line that can be a header; a text can start with anything."""
    return name.lower().endswith(tuple(x for x in CSV if not x.startswith(".txt")))


def _schemed(name: str) -> bool:
    return name.lower().endswith(PARQUET)


def _begins(path: Path, with_what: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(with_what)) == with_what
    except OSError:
        return False
