"""What a Parquet file says of itself, looked at before anything in it is believed.

An engine makes room for as much as a file says that it holds: a kilobyte can ask for gigabytes, in its footer, in the
head of a page, in a dictionary. Here every number of that kind is held against what a release writes, whose rows and
labels its plan implies. Nothing is decoded, and nothing is taken but the file's own bytes.

Source: the Parquet format (parquet.thrift), in Thrift's compact protocol.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from fitnoise.errors import ReleaseError

LEAST = 2**16
"""Bytes that a footer, or the pages of a column, may have however few rows there are."""

COLUMNS = 1_000
"""Most columns of a table."""

NUMBER = 8
"""Bytes of a number, and of what stands beside a text: more than they take."""

_MAGIC = b"PAR1"

_DEEP = 12
"""Levels of structures within structures: the format has fewer."""

_ENCODINGS = {0, 2, 8}
"""Plain, and by dictionary: of these a page's number of values bounds what it becomes."""

_TRUE, _FALSE, _BYTE, _SHORT, _INT, _LONG, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

_Struct = dict[int, Any]
"""Fields by their number."""


@final
@dataclass
class _Thrift:
    """Reads bytes; ValueError or LookupError where they are none of the protocol, or promise more than there is."""

    raw: bytes
    at: int = 0

    def byte(self) -> int:
        self.at += 1
        return self.raw[self.at - 1]

    def varint(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:  # the sign for more
                return number
        raise ValueError

    def whole(self) -> int:
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def skip(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self.raw):
            raise ValueError
        return self.raw[self.at - size : self.at]

    def struct(self, depth: int = 0) -> _Struct:
        found: _Struct = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.whole()
            kind = head & 0xF
            found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind, depth)
        return found

    def value(self, kind: int, depth: int) -> Any:
        if depth > _DEEP:
            raise ValueError
        if kind in (_TRUE, _FALSE, _BYTE):
            return self.byte()
        if kind in (_SHORT, _INT, _LONG):
            return self.whole()
        if kind == _DOUBLE:
            return self.skip(8)
        if kind == _BINARY:
            return self.skip(self.varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            head = self.byte()
            size = head >> 4 if head >> 4 < 0xF else self.varint()
            if size > len(self.raw) - self.at:  # a value takes a byte at least
                raise ValueError
            return [self.value(head & 0xF, depth + 1) for _ in range(size)]
        raise ValueError  # maps: the format has none


def look(path: Path, rows: int, longest: int) -> dict[str, str]:
    """Refuse a file that could take more memory or time than the rows of a release.

    Returns:
        The words that it holds beside its columns.

    Args:
        path: the file.
        rows: how many it must have.
        longest: bytes of its longest text, at most.

    Raises:
        ReleaseError: it is missing, no Parquet file, or one that no release of these rows writes.
    """
    try:
        if not path.is_file():  # a pipe would wait
            raise OSError
        words = _words(path, rows, longest)
    except OSError:
        raise ReleaseError(f"{str(path)!r} is missing or unreadable.") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        words = None
    if words is None:
        raise ReleaseError(
            f"{path.name!r} is not a Parquet file of {rows:,} rows as a release writes it: it is damaged, or was made "
            "by something else. It was not read."
        )
    return words


def room(rows: int, longest: int) -> int:
    """Bytes that the pages of a column may take, and so any text in it."""
    return LEAST + rows * (NUMBER + longest)


def _words(path: Path, rows: int, longest: int) -> dict[str, str] | None:
    """Those of a sound file; None of any other."""
    column = room(rows, longest)
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        tail = file.read(8)
        footer = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or footer > min(LEAST + rows, size - 12):
            return None
        file.seek(size - 8 - footer)
        said = _Thrift(file.read(footer)).struct()
        root, *leaves = said[2]
        width = root[5]
        flat = width == len(leaves) <= COLUMNS and not any(leaf.get(5) for leaf in leaves)
        if not flat or said[3] != rows or sum(group[3] for group in said[4]) != rows or size > width * column:
            return None
        left = size
        for group in said[4]:
            chunks = [chunk[3] for chunk in group[1]]
            if group[3] <= 0 or len(chunks) != width:
                return None
            for chunk in chunks:
                first = chunk[9] if chunk.get(11, 0) < len(_MAGIC) else chunk[11]
                left -= chunk[7]
                if left < 0 or not 0 <= first <= first + chunk[7] <= size:
                    return None
                file.seek(first)
                if not _pages_sound(file.read(chunk[7]), group[3], column):
                    return None
    return {x[1].decode(): x[2].decode() for x in said.get(5, [])}


def _pages_sound(raw: bytes, rows: int, room: int) -> bool:
    """Whether the pages of a column, one behind the other, hold so many values, and need no more room than that."""
    thrift, values = _Thrift(raw), 0
    while thrift.at < len(raw):
        page = thrift.struct()
        head = page[5] if page[1] == 0 else page[7]  # of values, or of their dictionary
        number, encoding = head[1], head[2]
        room -= page[2]
        if room < 0 or page[2] < 0 or page[3] < 0 or not 0 <= number <= rows or encoding not in _ENCODINGS:
            return False
        values += number if page[1] == 0 else 0
        thrift.skip(page[3])
    return values == rows
