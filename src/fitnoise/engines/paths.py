"""The files behind a path, a pattern, a folder, or several of them.

**Purpose.** A folder follows the custom of programs that write many files. Every file in it and below holds records,
with two exceptions. A name that begins with "." holds none. A name that begins with "_" holds none, unless it has the
form column=value. Where folders below it have this form, the value is that of the column in every record under them.
Explicit parts of a path are never columns, unless such folders lie below.

No file counts twice, under any of its names.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import final

from fitnoise.errors import DataError

FilePath = str | PathLike[str]

_LOGS = {"_delta_log": "Delta", ".hoodie": "Hudi"}
"""Folders that list which of the neighbouring files still hold records."""


@final
@dataclass(frozen=True)
class Files:
    """Files that are read as one source: in the order of the given paths, and sorted within each.

    what: The description for messages.
    columns: The columns that folders hold, from the outermost to the innermost; equal for all files.
    """

    what: str
    paths: tuple[Path, ...]
    columns: tuple[str, ...]


def find(data: FilePath | Sequence[FilePath]) -> Files:
    """Return the files that a path, or several, stand for.

    Raises:
        DataError: There are no files, or a file is there twice, under one name or two.
        DataError: The path is an address of a network.
        DataError: Another program keeps a log of the folder.
        DataError: Folders are columns for some of the files only, or one path names a column twice.
        DataError: A folder inside a given folder is a link. Or a folder cannot be listed, or an entry in it is no file.
    """
    paths = [data] if isinstance(data, (str, PathLike)) else list(data)
    if not paths:
        raise DataError(
            "data-list-empty",
            "The list of data files is empty.",
            "Data are one file or several.",
            "Give at least one file.",
            "Nothing was read.",
        )
    files: dict[Path, tuple[str, ...]] = {}
    for i, path in enumerate(paths, 1):
        found_here = _files_of(path)
        if not found_here:
            # The error shows no entry of a list: an entry that is not a path may be data.
            which = repr(_name(path)) if paths == [data] else f"at place {i} of the list"
            raise DataError(
                "data-file-missing",
                f"The data file {which} does not exist.",
                "",
                "Correct the path or the pattern.",
                "Nothing was read.",
            )
        for file, columns in found_here.items():
            if file in files:
                raise _twice(file, file)
            files[file] = columns
    _refuse_logged(files)
    _refuse_one_under_two_names(files)
    what = repr(_name(paths[0])) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    columns = next(iter(files.values()))
    different = next((f for f, c in files.items() if c != columns), None)
    if different is not None:
        raise DataError(
            "folders-with-other-columns",
            f"The folders of {different.name!r} hold other columns than those of {next(iter(files)).name!r}.",
            "Files that are read together must lie in folders with the same columns.",
            "Rename the folders, or release the files separately.",
            "Nothing was read.",
        )
    if len({c.casefold() for c in columns}) < len(columns):
        raise DataError(
            "folder-columns-nested",
            f"The files {what} lie in nested folders with one column: {', '.join(columns)}.",
            "Each column must have one folder on a path; case makes no difference.",
            "Rename one of the folders.",
            "Nothing was read.",
        )
    return Files(f"the {'file' if len(files) == 1 else 'files'} {what}", tuple(files), columns)


def _files_of(data: FilePath) -> dict[Path, tuple[str, ...]]:
    """Return the files that one path stands for, each with the columns that folders hold; empty for a missing path."""
    if address := re.match(r"(\w[\w+.-]+):/", str(data)):  # a Path has one slash of the two
        raise DataError(
            "data-over-network",
            f"The path of the data is an address of a network ({address[1]}://).",
            "Fitnoise reads files of this machine.",
            "Copy the file to this machine, and give its path.",
            "Nothing was read.",
        )
    path = Path(data)
    if path.is_file():
        return {path: ()}
    if path.is_dir():
        # Sorted, because the order in which a file system lists files is its own.
        files = dict.fromkeys(sorted(_below(path)), ())
        # Folders above `path` are columns only if some below are: else the place of a folder would change its records.
        held = any(_columns(f.relative_to(path).parent) for f in files)
        return {f: _columns(f.absolute().parent) if held else () for f in files}
    matched = glob.glob(str(path), recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
    return dict.fromkeys(sorted({Path(f) for f in matched if Path(f).is_file()}), ())


def _name(path: FilePath) -> str:
    """Return the name of a path; for ".", the name of the present folder."""
    return Path(path).name or Path(path).absolute().name


def _below(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder that hold records."""
    for parent, folders, files in os.walk(folder, onerror=_refuse_unreadable):
        # `os.walk` goes into the folders that stay in its list.
        folders[:] = [name for name in folders if not _is_mark(name)]
        if linked := [name for name in folders if (Path(parent) / name).is_symlink()]:
            raise DataError(
                "folder-is-a-link",
                f"The folder {linked[0]!r} in {folder.name!r} is a link to another place.",
                "It must be clear which files are meant.",
                "Give the files or a pattern instead.",
                "Nothing was read.",
                place=linked[0],
            )
        held = [name for name in files if not _is_mark(name)]
        if odd := [name for name in held if not (Path(parent) / name).is_file()]:
            raise DataError(
                "entry-not-a-file",
                f"The entry {odd[0]!r} in {folder.name!r} is not a regular file.",
                "A folder of data may hold regular files only, without broken links or pipes.",
                "Remove the entry, or give the files or a pattern instead.",
                "Nothing was read.",
                place=odd[0],
            )
        yield from (Path(parent) / name for name in held)


def _is_mark(name: str) -> bool:
    """Return True if a file or folder of this name holds no records, by the custom of writers of many files."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _refuse_logged(files: Iterable[Path]) -> None:
    """Raise DataError for a file of a table with a log, however it was named."""
    for folder in {parent for file in files for parent in file.absolute().parents}:
        for log in _LOGS:
            if (folder / log).is_dir():
                raise DataError(
                    "folder-with-log",
                    f"The folder {folder.name!r} is a table of {_LOGS[log]}.",
                    "Its log states which of its files still hold records, and fitnoise does not read this log.",
                    f"Read it with a program that reads {_LOGS[log]}, and give the records as a frame or as new files.",
                    "Nothing was read.",
                    place=folder.name,
                )


def _refuse_unreadable(error: OSError) -> None:
    """Raise: a folder that cannot be listed may hold records, which would be missing without a message."""
    raise DataError(
        "folder-unreadable",
        f"A folder cannot be listed ({type(error).__name__}).",
        "Every file of a folder must be found.",
        "Ask the owner of the folder to let you read it.",
        "Nothing was read.",
    )


def _columns(folder: Path) -> tuple[str, ...]:
    """Return the names of columns in the folders on this path that have the form column=value."""
    return tuple(name for name, equals, _ in (part.partition("=") for part in folder.parts) if name and equals)


def _refuse_one_under_two_names(files: dict[Path, tuple[str, ...]]) -> None:
    """Raise DataError if two of the names are those of one file, also by links of any kind."""
    seen: dict[tuple[int, int], Path] = {}
    for f in files:
        stat = f.stat()
        other = seen.setdefault((stat.st_dev, stat.st_ino), f)
        if other is not f:
            raise _twice(other, f)


def _twice(name: Path, other_name: Path) -> DataError:
    return DataError(
        "file-given-twice",
        f"The names {name.name!r} and {other_name.name!r} are those of one file.",
        "The records of a file count once.",
        "Give the file once.",
        "Nothing was read.",
        place=other_name.name,
    )
