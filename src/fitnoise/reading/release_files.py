"""Writing and reading of tables as CSV, Parquet and JSON: each file or folder is complete or absent."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Exact
from fitnoise.kernel.codings import Code
from fitnoise.kernel.disk import lock, sync_names
from fitnoise.messages import Message, Notice, Value, ValueKind
from fitnoise.planning.files import (
    UNFINISHED,
    fresh,
    leftovers_of,
    read_text,
    reason_of,
    unfinished_path,
    unreadable_file,
    unwritable_place,
)
from fitnoise.reading.parquet import Column, pieces
from fitnoise.reading.parquet import read as read_columns
from fitnoise.reading.refusals import UNWRITTEN, existing_place, missing_folder
from fitnoise.request.attributes import FROM, TO
from fitnoise.request.attributes.binned import cut_text
from fitnoise.request.domain import RESERVED

DESCRIPTION = "release.json"
"""The file that is put in place last: a folder without it is no release."""

PLAN = "plan.json"
"""The first file of a release that is written."""

DECIMALS = 6
"""The number of decimals of estimates and margins in CSV files; Parquet files hold the full numbers."""

MAX_CSV_ROWS = 2**20 - 1
"""The most rows of a table that a release writes as CSV: with the names, as many as a spreadsheet opens."""

CSV_ROWS_PER_WRITE = 2**14
"""The number of rows of a CSV file that are written at once."""


_RESERVED = "reserved"
"""The end of the name of a reservation. It has eight letters, so that a leftover of a killed process is recognised."""


@contextlib.contextmanager
def reserved(directory: Path) -> Iterator[None]:
    """Hold the name of a folder from before the charge until the folder is in its place.

    The lock lies next to the folder, and ends with the process. Without locks in the file system, nothing is held.

    Raises:
        ReleaseError: Another process holds the name, or nothing can be written there.
    """
    try:
        directory = directory.resolve()  # two names of one folder must have one lock
        directory.parent.mkdir(parents=True, exist_ok=True)
        marker = directory.parent / f".{directory.name}.unfinished-{_RESERVED}"
        handle = _hold_name(marker)
    except BlockingIOError:
        raise ReleaseError(
            "another-process-writes",
            f"Another process is writing {directory.name!r}.",
            "",
            "Wait until it has ended, or choose another name.",
            UNWRITTEN,
        ) from None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise unwritable_place(repr(directory.name), reason_of(error), UNWRITTEN) from None
    try:
        yield
    finally:
        # removed while it is locked: a process that opened it meanwhile finds that its name is gone, and tries again
        with contextlib.suppress(OSError):
            marker.unlink()
        os.close(handle)


def _hold_name(path: Path) -> int:
    """Create or open a file and lock it; return its handle once the file certainly has its name.

    Without locks in the file system, the file is not locked.

    Raises:
        OSError: Another process holds the file (BlockingIOError), or it cannot be made.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock(handle)
            # between opening and locking the holder may have removed the file, and another made one of this name
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(handle)
            raise
        except OSError:  # this file system has no locks
            return handle
        os.close(handle)  # the process that held it has just removed it


@contextlib.contextmanager
def staged(directory: Path, is_charged: Callable[[], bool] = lambda: False) -> Iterator[Path]:
    """Hold a place (:func:`reserved`), and yield a fresh folder that is moved there when the block ends well.

    The folder is locked meanwhile. A killed process leaves it without its lock, and :func:`clear_leftovers` removes it.

    Args:
        directory: The place.
        is_charged: A function that returns True if the release was charged. A complete release that cannot be moved is
            then kept, and the error names it. In all other cases the fresh folder is removed if it was not moved.

    Raises:
        ReleaseError: Another process holds the place, it exists and is not an empty folder, or it cannot be written.
            Or the folder cannot be moved there, or the disk does not confirm that it was.
    """
    with reserved(directory), _stage(directory, is_charged) as stage:
        yield stage


@contextlib.contextmanager
def _stage(directory: Path, is_charged: Callable[[], bool]) -> Iterator[Path]:
    """Make a fresh folder next to a place that is held, and move it there when the block ends well."""
    stage: Path | None = None
    held: int | None = None
    try:
        try:
            directory = directory.resolve()
            if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
                raise existing_place(directory.name, UNWRITTEN)
            directory.parent.mkdir(parents=True, exist_ok=True)
            if directory.exists():  # empty; a mount point cannot be replaced: better known now than after the charge
                stage = unfinished_path(directory)
                stage.mkdir()
                stage.rename(directory)
            stage, held = fresh(directory)
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
            raise unwritable_place(repr(directory.name), reason_of(error), UNWRITTEN) from None
        yield stage
        try:
            stage.rename(directory)
        except OSError as error:
            name, is_kept = stage.name, is_charged() and (stage / DESCRIPTION).exists()
            stage = None if is_kept else stage
            raise ReleaseError(
                "folder-not-moved",
                f"{directory.name!r} cannot be put in its place ({reason_of(error)}).",
                f"The complete folder is {name!r}, in the same directory." if is_kept else "",
                "Remove this cause, or choose another place.",
                "This folder stays there." if is_kept else UNWRITTEN,
            ) from None
        stage = None
        try:
            sync_names(directory.parent)
        except OSError as error:
            raise ReleaseError(
                "disk-not-synced",
                f"{directory.name!r} is in its place, and the disk did not confirm it ({reason_of(error)}).",
                "",
                "Check the disk, and read the folder once more.",
                "The folder stays in its place.",
            ) from None
    finally:
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)
        if held is not None:
            os.close(held)


def write_texts(directory: Path, texts: Iterable[tuple[str, str]], notice: Callable[[str], None] | None = None) -> Path:
    """Write texts as the files of a folder, by name, some in subfolders: all of them or none.

    Args:
        directory: The folder.
        texts: Names of files, and their texts.
        notice: Receives a sentence for each folder that killed processes left of this one (:func:`clear_leftovers`).

    Raises:
        ReleaseError: The folder exists and is not empty, or cannot be written.
    """
    with staged(directory) as stage:
        for leftover in clear_leftovers(directory, release=False):
            (notice or (lambda _: None))(leftover)
        try:
            for name, text in texts:
                (stage / name).parent.mkdir(exist_ok=True)
                (stage / name).write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            raise unwritable_place(repr(directory.name), reason_of(error), "No file stays behind.") from None
    return directory


def unfinished(folder: Path) -> ReleaseError | None:
    """Return the error for a folder with a name of unfinished releases; None for any other folder."""
    name = Path(os.path.realpath(folder)).name
    if not re.fullmatch(UNFINISHED.format(".+"), name, re.DOTALL):
        return None
    return ReleaseError(
        "unfinished-release",
        f"{name!r} is an unfinished release.",
        "Its process still works, or ended before the release was complete and in its place.",
        "Wait until the process ends, or repeat the command that writes the release.",
        "Nothing was read.",
    )


def clear_leftovers(directory: Path, *, release: bool = True, digest: str | None = None) -> list[str]:
    """Remove the leftovers of killed processes that wrote releases or other folders for this directory.

    Args:
        directory: The directory.
        release: True if the sentences call leftovers releases; they always call a folder with a plan so.
        digest: The digest of a ledger entry. Complete releases that it charged are removed, too, because one is in
            place. None removes no complete release.

    Returns:
        Notices, one for each folder that no process holds, removed or not.

    **Guarantees**
        * a folder that a living process holds is left as it is;
        * so is a folder with a complete release, except one that the entry of `digest` charged;
        * where folders cannot be locked, all of them are left as they are.
    """
    directory = directory.resolve()
    leftovers = leftovers_of(directory.parent, re.escape(directory.name))
    return [Notice(_cleared(stage, directory, digest, release=release)) for stage in leftovers if stage.is_dir()]


def leftovers(folder: Path) -> list[str]:
    """Return the names of unfinished releases, files and ledgers that killed processes left in a folder."""
    return [stage.name for stage in leftovers_of(folder, ".+")]


def check_new_file(path: Path, *, replaces: bool = False) -> None:
    """Refuse a place where no file can be made, before a long computation.

    Args:
        path: File to be made.
        replaces: True if an existing file may be replaced.

    Raises:
        ReleaseError: The place exists, or its folder is missing or not writable.
    """
    if path.is_dir() or (path.exists() and not replaces):
        raise existing_place(path.name, UNWRITTEN)
    if not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise missing_folder(path)


def check_new_folder(path: Path) -> None:
    """Refuse a place where no folder can be made, before a long computation. Missing parents can be made.

    Raises:
        ReleaseError: The place exists and is not an empty folder, or no folder can be made in the first existing folder
            above it.
    """
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise existing_place(path.name, UNWRITTEN)
    above = next(folder for folder in path.absolute().parents if folder.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        reason = errno.EACCES if above.is_dir() else errno.ENOTDIR
        raise unwritable_place(repr(path.name), os.strerror(reason), UNWRITTEN)


def new_file(path: Path, content: bytes) -> None:
    """Create a complete file where nothing is, or none; remove the leftovers that killed processes left for it.

    Raises:
        FileExistsError: Something is there, which stays as it was.
        OSError: The file cannot be written.
    """
    for leftover in filter(Path.is_file, leftovers_of(path.parent, re.escape(path.name))):
        leftover.unlink()
    stage, held = fresh(path, lambda p: p.touch(exist_ok=False))
    try:
        stage.write_bytes(content)
        with contextlib.suppress(OSError):  # a link never replaces anything; some disks have no links
            os.link(stage, path)
            return
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        stage.rename(path)
    finally:
        stage.unlink(missing_ok=True)
        if held is not None:
            os.close(held)


def _cleared(stage: Path, directory: Path, digest: str | None, *, release: bool) -> Message:
    """Remove a leftover folder, and return the notice of the outcome."""
    folder, name = Value("folder", stage.name, ValueKind.CODE), Value("directory", directory.name, ValueKind.CODE)
    if (stage / DESCRIPTION).exists() and not (digest and _charged_by(stage) == digest):
        return Message("terminal.notice.complete_release", (folder,))
    release |= (stage / PLAN).exists()
    shutil.rmtree(stage, ignore_errors=True)
    if stage.exists():
        return Message("terminal.notice.unremovable", (folder,))
    return Message("terminal.notice.removed_release" if release else "terminal.notice.removed", (folder, name))


def _charged_by(stage: Path) -> object:
    """Return the digest of the entry that a release.json names; None if it cannot be read."""
    try:
        return json.loads(read_text(stage / DESCRIPTION))["ledger"]["digest"]
    except (ReleaseError, ValueError, KeyError, TypeError):
        return None


Stub = Mapping[str, Sequence[Code | float]]
"""Columns of one length that say what the rows of a table are along one attribute, such as labels and their codes."""


def extent(stubs: Iterable[Stub]) -> tuple[int, int]:
    """Return the number of rows of the table of all combinations of labels, and the bytes of the longest text."""
    listed = list(stubs)
    longest = [len(str(x).encode()) for stub in listed for values in stub.values() for x in _extremes(values)]
    return _rows(listed), max(longest, default=0)


def _rows(stubs: Iterable[Stub]) -> int:
    """Return the number of combinations of one row of each stub."""
    return math.prod(len(next(iter(stub.values()))) for stub in stubs)


def _extremes(labels: Sequence[Code | float]) -> Sequence[Code | float]:
    """Return the labels that can be the longest: of integers, the least and the largest."""
    return [min(labels), max(labels)] if {int}.issuperset(map(type, labels)) and labels else labels


def table_endings(rows: int) -> tuple[str, ...]:
    """Return the endings of the files in which a release has a table of this number of rows."""
    return (".parquet",) if rows > MAX_CSV_ROWS else (".parquet", ".csv")


Columns = Mapping[str, Column]
"""A table, column by column: making a frame takes longer than writing a small table. A long column is made in parts."""


@final
@dataclass(frozen=True, eq=False)
class LabelColumn:
    """A column of labels that repeat regularly, which takes the memory of its labels.

    labels: The labels in turn; after the last one, they begin again.
    each: The number of consecutive rows of each label.
    rows: The number of rows.
    """

    labels: NDArray[Any]
    each: int
    rows: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the labels."""
        return self.labels.dtype

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, rows: slice, /) -> NDArray[Any]:
        """Return the labels of consecutive rows."""
        start, stop, _ = rows.indices(self.rows)
        edges = np.arange(start // self.each, -(-stop // self.each) + 1)
        labels = self.labels[edges[:-1] % len(self.labels)]
        return labels if self.each == 1 else np.repeat(labels, np.diff((edges * self.each).clip(start, stop)))


@final
@dataclass(frozen=True, eq=False)
class NumberColumn:
    """A column with the numbers of a table, in C order, which copies no more than the requested rows.

    numbers: The numbers in the shape of the table, in any layout of memory.
    """

    numbers: NDArray[Any]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers."""
        return self.numbers.dtype

    def __len__(self) -> int:
        return self.numbers.size

    def __getitem__(self, rows: slice, /) -> NDArray[Any]:
        """Return the numbers of consecutive rows."""
        x = self.numbers
        return x.reshape(-1)[rows] if x.flags.c_contiguous else np.asarray(x.flat[rows])


@final
@dataclass(frozen=True, eq=False)
class JoinedColumn:
    """A column of whole numbers that lie in several arrays, which copies no more than the requested rows.

    arrays: The arrays, at least one, one after the other.
    """

    arrays: Sequence[Exact]

    @property
    def dtype(self) -> np.dtype[Any]:
        """64-bit integers."""
        return np.dtype(np.int64)

    def __len__(self) -> int:
        return sum(map(len, self.arrays))

    def __getitem__(self, rows: slice, /) -> NDArray[Any]:
        """Return the numbers of consecutive rows."""
        start, stop, _ = rows.indices(len(self))
        ends = itertools.accumulate(map(len, self.arrays))
        spans = ((x, end - len(x)) for x, end in zip(self.arrays, ends, strict=True))
        parts = (x[max(start - begin, 0) : max(stop - begin, 0)] for x, begin in spans)
        return np.concatenate([x.astype(np.int64, copy=False) for x in parts])


def complete_columns(table: Columns) -> dict[str, NDArray[Any]]:
    """Return the complete columns of a table."""
    return {name: column[:] for name, column in table.items()}


def stub_columns(stubs: Sequence[Stub]) -> dict[str, Column]:
    """Return one row for each combination of rows of the stubs, in C order; nothing is inferred from a text's form.

    A column holds one type: numbers mixed with texts, which label missing-value categories, become texts.
    """
    columns: dict[str, Column] = {}
    rows = _rows(stubs)
    for i, stub in enumerate(stubs):
        after = _rows(stubs[i + 1 :])
        for name, values in stub.items():
            # programs read a column with one type: numbers among texts, which label missing-value categories, become
            # texts
            one = len(set(map(type, values))) == 1
            kind: Any = _KINDS.get(type(values[0]), object) if one else object
            texts = values if one else list(map(str, values))
            columns[name] = LabelColumn(np.array(texts, dtype=kind), after, rows)
    return columns


_KINDS = {bool: np.bool_, int: np.int64, float: np.float64}
"""NumPy's types for values of a column of one type; all others are texts."""


def stub_frame(stubs: Sequence[Stub]) -> pd.DataFrame:
    """Return the columns of :func:`stub_columns` as a frame."""
    return pd.DataFrame(complete_columns(stub_columns(stubs)), index=range(_rows(stubs)))


def _arrays(table: Columns | pd.DataFrame) -> Columns:
    """Return columns, also from a frame, with texts as Python strings."""
    if isinstance(table, Mapping):
        return table
    return {str(c): x.to_numpy(dtype=object if x.dtype.kind == "O" else None) for c, x in table.items()}


def _column(answers: Sequence[Exact]) -> Column:
    """Return the noisy answers as a column: 64-bit integers if all of them fit, otherwise texts."""
    if all(y.dtype == np.int64 or all(-(2**63) <= x < 2**63 for x in y) for y in answers):
        return JoinedColumn(answers)
    return np.array([str(x) for y in answers for x in y], dtype=object)


def to_json(document: Any) -> str:
    """Return a document as the text of a JSON file, such as release.json."""
    # NaN and Infinity are no JSON: a document with one is an error of fitnoise, and must not be written
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


MEAN_COLUMNS = ("value", "low", "high")
"""Last columns of a table of means: the mean, and the ends of its interval."""


def number_columns(table: Iterable[Hashable]) -> tuple[str, ...]:
    """Return the names that columns of numbers have in a table with these columns; it need not have all of them."""
    return MEAN_COLUMNS if tuple(table)[-3:] == MEAN_COLUMNS else RESERVED


def csv_text(table: Columns | pd.DataFrame, *, fixed: Collection[str] | None = None) -> str:
    """Return a released table as CSV, equal on every platform: numbers to 6 decimals, texts as in :func:`field`.

    fixed: The number columns with 6 decimals; all other numbers are written in full. Default: `number_columns`.
    """
    return "".join(csv_pieces(table, fixed=fixed))


def csv_pieces(table: Columns | pd.DataFrame, *, fixed: Collection[str] | None = None) -> Iterator[str]:
    """Yield the text of :func:`csv_text` in pieces of some thousand rows, so that memory stays small."""
    arrays = _arrays(table)
    fixed = number_columns(arrays) if fixed is None else fixed
    yield ",".join(field(name) for name in arrays) + "\n"
    rows = len(next(iter(arrays.values()))) if arrays else 0
    # one text from one template for thousands of rows takes a third of the time of a text for each number
    for start in range(0, rows, CSV_ROWS_PER_WRITE):
        row, columns = [], []
        for name, array in arrays.items():
            x = array[start : start + CSV_ROWS_PER_WRITE]
            ends = x.dtype.kind == "f" and name.endswith(_ENDS)
            how, cells = _fixed(x) if name in fixed else _ends(x.tolist()) if ends else _fields(x.tolist())
            row.append(how)
            columns += [cells] if cells is not None else []
        # labels fill the template and are never a part of it: a % in a label has no meaning
        many = min(CSV_ROWS_PER_WRITE, rows - start)
        yield (",".join(row) + "\n") * many % tuple(itertools.chain.from_iterable(zip(*columns, strict=True)))


def _fixed(x: NDArray[Any]) -> tuple[str, list[float] | None]:
    """Return a format with DECIMALS decimals, and the numbers without -0; if all are equal, their text and None."""
    how = f"%.{DECIMALS}f"
    x = x + 0.0  # this makes 0.0 of -0.0
    # small numbers below 0 that are printed as -0.000000
    small = np.flatnonzero((x < 0) & (x > -(10.0**-DECIMALS)))
    x[[i for i in small.tolist() if how % x[i] == how % -0.0]] = 0
    return (how % x[0], None) if (x == x[0]).all() else (how, x.tolist())


_ENDS = f"_{FROM}", f"_{TO}"
"""The endings of the names of columns with the ends of bins."""


def _ends(ends: list[float]) -> tuple[str, list[str]]:
    """Return a format, and the ends of bins for it, as labels show them; an open end is an empty text."""
    return "%s", ["" if math.isnan(x) else cut_text(x) for x in ends]


def _fields(labels: list[str | int]) -> tuple[str, list[str] | list[int]]:
    """Return a format, and the labels for it: integers as they are, texts as in :func:`field`, each converted once."""
    if {int}.issuperset(map(type, labels)):
        return "%d", labels  # type: ignore[return-value]  # they are integers
    texts = {label: field(label) for label in set(labels)}
    return "%s", [texts[label] for label in labels]


# +5 and -5 are numbers and stay as they are; spreadsheets also take full-width signs for the start of a formula
_RUN = re.compile(r"[=@'\t\r\n＝＋－＠]|[+-](?!\d+(\.\d+)?\Z)")
"""Texts that a spreadsheet would take for a formula, and texts that start with the apostrophe that prevents this."""


def field(label: str | int) -> str:
    """Return a label or a name in a CSV file, quoted if necessary.

    An apostrophe precedes a text that a spreadsheet would run, such as =1+1, and a text that starts with an apostrophe.
    So a reader gets the label by removing the first apostrophe, if there is one.
    """
    text = str(label)
    # a spreadsheet would run such a text as a formula; a reader removes the first apostrophe to get the label back
    if isinstance(label, str) and _RUN.match(text):
        text = "'" + text
    return '"' + text.replace('"', '""') + '"' if re.search(r'[",\r\n]|^\s|\s$|^$', text) else text


def read_companion(path: Path, companion: Path) -> str:
    """Return the document that fitnoise wrote next to a file.

    Args:
        path: The file.
        companion: The document. Its name is the name of the file, with an ending.

    Raises:
        ReleaseError: The document itself is given, or it is missing or unreadable.
    """
    ending = companion.name.removeprefix(path.name)
    if path.name.endswith(ending):
        raise ReleaseError(
            "document-in-place-of-file",
            f"{path.name!r} is the document of a file.",
            "fitnoise needs the file, and finds the document next to it.",
            f"Give {str(path.with_name(path.name.removesuffix(ending)))!r}.",
            "The file was not read.",
        )
    if not companion.exists():
        if not path.is_file():
            raise unreadable_file(path)
        raise ReleaseError(
            "document-missing",
            f"{path.name!r} has no {companion.name!r} next to it.",
            "fitnoise writes the two together, and checks the file by its document.",
            "Bring the document back. If the file was renamed, give it the name that it had.",
            "The file was not read.",
        )
    return read_text(companion)


def files_fault(expected: Collection[str], there: Collection[str]) -> Message | None:
    """Return the fault of a folder whose files and folders are not the expected ones, else None."""
    missing, extra = sorted({*expected} - {*there}), sorted({*there} - {*expected})
    values = (Value("missing", missing, ValueKind.CODE), Value("extra", extra, ValueKind.CODE))
    if missing:
        return Message("report.fault.files" if extra else "report.fault.missing_files", values)
    return Message("report.fault.extra_files", values) if extra else None


def links(folder: Path, paths: Iterable[Path]) -> Message | None:
    """Return the fault of a folder where some of the paths are symbolic links, else None."""
    names = sorted(p.relative_to(folder).as_posix() for p in paths if p.is_symlink())
    return Message("report.fault.links", (Value("links", names, ValueKind.CODE),)) if names else None


def says(path: Path, text: str | Iterable[str]) -> bool:
    """Return True if a file holds exactly this text, or these pieces, with its line ends.

    Raises:
        ReleaseError: There is no such file, or it cannot be read.
    """
    try:
        if not path.is_file():  # to open a pipe would wait for a writer
            raise OSError
        with path.open(encoding="utf-8", newline="") as file:
            # piece by piece, so that neither a large table nor a larger file of a stranger fills the memory
            pieces = [text] if isinstance(text, str) else text
            return all(file.read(len(piece)) == piece for piece in pieces) and not file.read(1)
    except (OSError, UnicodeDecodeError):
        raise unreadable_file(path) from None


def matched(path: Path, pieces: Iterable[str], start: int) -> int | None:
    """Return the byte after these pieces in a file that has them from a byte on; None for other files.

    Args:
        path: The file. One that cannot be read is another file, too.
        pieces: The texts, one after the other.
        start: The first byte.
    """
    with contextlib.suppress(OSError):
        if path.is_file():  # to open a pipe would wait for a writer
            with path.open("rb") as file:
                file.seek(start)
                if all(file.read(len(raw)) == raw for raw in map(str.encode, pieces)):
                    return file.tell()
    return None


def _write(path: Path, text: str | Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines([text] if isinstance(text, str) else text)


def read_parquet(path: Path, rows: int, longest: int) -> tuple[pd.DataFrame, dict[str, str]]:
    """Read a Parquet file of a release as a frame, and its metadata, as :func:`fitnoise.reading.parquet.read`."""
    columns, metadata = read_columns(path, rows, longest)
    return pd.DataFrame(columns), metadata


def write_parquet(table: Columns | pd.DataFrame, path: Path, **metadata: str) -> None:
    """Write a table as a Parquet file with metadata in its footer."""
    with path.open("wb") as file:
        file.writelines(pieces(_arrays(table), metadata))


def sync_folder(folder: Path) -> None:
    """Flush every file below a folder to the disk, and then the folder and every folder below it.

    Call it after all files are written.

    Raises:
        OSError: A file or a folder cannot be flushed, or the disk is full.
    """
    folders = [folder]
    # only now, when all files are written: a flush of each file while others are written is many times slower
    for path in folder.rglob("*"):
        if path.is_dir():
            folders.append(path)
        else:
            with path.open("rb+") as file:
                os.fsync(file.fileno())
    for path in folders:  # names last: a name on the disk then leads to a complete file
        sync_names(path)
