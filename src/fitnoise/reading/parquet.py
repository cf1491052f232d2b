"""The Parquet files of releases: the same bytes on every machine, and read in that form alone.

**Purpose.** Readers of Parquet disagree on files that say one thing twice. Offsets lead them to different pages,
DuckDB answers `max` and `WHERE` from statistics, and pandas and Arrow take types from metadata of their own. fitnoise
therefore writes a file that says each thing once. Its bytes follow from names, values and metadata; a file with any
other byte is refused.

**Layout.** PAR1; the column chunks, row group by row group, without a gap; the footer, its length, PAR1. A row group
has 2¹⁷ rows, the last one the rest. A chunk is one page of values, or a dictionary page and one page of indices. There
is no compression, no statistics, no index, no page checksum, no missing value and no nesting.

| column | type | values |
|---|---|---|
| truth values | BOOLEAN | plain |
| whole numbers, floats | INT64, DOUBLE | plain, or by dictionary where the first ones repeat and that is shorter |
| texts | BYTE_ARRAY, UTF8 | by dictionary |

A dictionary lists values in the order of their first appearance. Indices are one bit-packed run.

**Statement.** :func:`read` returns columns c and metadata w only for a file whose bytes are those of `pieces(c, w)`. So
the file cannot say anything that c and w do not say. :class:`RowGroups` yields c part by part, and the statement holds
once all parts are read. Tests read such files with DuckDB, Polars and Arrow, and change every byte and every field.

**Memory.** Writing and reading by row group hold one row group at a time, of a file of any length.

**Trust.** A file comes from a stranger. Memory and time follow from its length, and its length is bounded by the rows
and labels that its release must have.

Source: the Parquet format (parquet.thrift), in Thrift's compact protocol.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fitnoise.errors import ReleaseError
from fitnoise.planning.files import unreadable_file

MIN_ALLOWED_BYTES = 2**16
"""Bytes that a footer, or the pages of a column, may have however few rows there are."""

COLUMNS = 1_000
"""The largest number of columns of a table."""

NUMBER_BYTES = 8
"""A bound on the bytes of a number, and of the length and the index of a text."""

GROUP_ROWS = 2**17
"""Rows of a row group: a page of numbers is then a megabyte."""

SAMPLE_ROWS = 256
"""The number of values of a row group that are compared: if all of them differ, numbers are written plainly."""

WRITER = "fitnoise version 1"
"""Name of the writer in the footer; the number is that of the layout."""

_MAGIC = b"PAR1"

_DEEP = 12
"""Levels of structures within structures: the format has fewer."""

_BOOLEAN, _INT64, _DOUBLE_TYPE, _BYTE_ARRAY = 0, 2, 5, 6

_TYPES = {"b": _BOOLEAN, "i": _INT64, "f": _DOUBLE_TYPE, "O": _BYTE_ARRAY}
"""Type of a column in the file, by NumPy's letter for its kind."""

_FORMATS = {_BOOLEAN: "?", _INT64: "<i8", _DOUBLE_TYPE: "<f8", _BYTE_ARRAY: "O"}
"""NumPy's format for the values of a type: of numbers that of the file."""

_PLAIN_VALUES, _LEVELS, _INDICES = 0, 3, 8
"""Encodings: values one after the other; that of levels, of which there are none; indices into a dictionary."""

_TRUE, _FALSE, _BYTE, _SHORT, _INT, _LONG, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

_Struct = dict[int, Any]
"""Fields by their number."""


class Column(Protocol):
    """A column that is made from row to row: an array, or what makes an array of any of its rows."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its values."""

    def __len__(self) -> int:
        """Return its number of rows."""

    def __getitem__(self, rows: slice, /) -> NDArray[Any]:
        """Return the values of consecutive rows."""


def pieces(columns: Mapping[str, Column], metadata: Mapping[str, str]) -> Iterator[bytes]:
    """Write a table as the bytes of a Parquet file, page by page.

    Args:
        columns: Columns of one length, by name: truth values, whole numbers below 2⁶³ in size, floats, or texts.
        metadata: Texts by name in the footer.
    """
    layout = _Layout({name: _TYPES[values.dtype.kind] for name, values in columns.items()})
    yield _MAGIC
    for start in range(0, len(next(iter(columns.values()), ())), GROUP_ROWS):
        yield from layout.pages((name, values[start : start + GROUP_ROWS]) for name, values in columns.items())
    yield layout.footer(metadata)


@final
@dataclass
class _Layout:
    """The places of the pages in a file, as far as it is written.

    kinds: The type of each column in the file, by name.
    rows: The number of rows so far.
    end: The number of bytes so far.
    groups: The descriptions of the row groups so far.
    """

    kinds: Mapping[str, int]
    rows: int = 0
    end: int = len(_MAGIC)
    groups: list[bytes] = field(default_factory=list)

    def pages(self, columns: Iterable[tuple[str, NDArray[Any]]]) -> Iterator[bytes]:
        """Yield the pages of the next row group, column by column."""
        chunks, begin, rows = [], self.end, 0
        for name, values in columns:
            pages, rows = list(_pages(values)), len(values)
            chunks.append(_chunk(name, values, [len(page) for page in pages], self.end))
            yield from pages
            self.end += sum(map(len, pages))
        size = _int(self.end - begin)
        self.groups.append(_fields((1, _LIST, _list(_STRUCT, chunks)), (2, _LONG, size), (3, _LONG, _int(rows))))
        self.rows += rows

    def footer(self, metadata: Mapping[str, str]) -> bytes:
        """Return the bytes after the last row group."""
        leaves = [_leaf(name, kind) for name, kind in self.kinds.items()]
        root = _fields((4, _BINARY, _binary("schema")), (5, _INT, _int(len(leaves))))
        pairs = [_fields((1, _BINARY, _binary(key)), (2, _BINARY, _binary(value))) for key, value in metadata.items()]
        footer = _fields(
            (1, _INT, _int(1)),
            (2, _LIST, _list(_STRUCT, [root, *leaves])),
            (3, _LONG, _int(self.rows)),
            (4, _LIST, _list(_STRUCT, self.groups)),
            *([(5, _LIST, _list(_STRUCT, pairs))] if pairs else []),
            (6, _BINARY, _binary(WRITER)),
        )
        return footer + len(footer).to_bytes(4, "little") + _MAGIC


def read(path: Path, rows: int, longest: int) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Read a Parquet file of a release.

    Args:
        path: The file.
        rows: Number of rows that it must have.
        longest: Bytes of its longest text, at most.

    Returns:
        The columns by name, and the metadata in the footer.

    Raises:
        ReleaseError: The file is missing, or one of its bytes differs from those of a release of these rows.

    **Guarantees**
        * the bytes of the file are those of :func:`pieces` for what is returned;
        * memory and time follow from rows and longest, for any content of the file.
    """
    groups = RowGroups(path, rows, longest)
    parts = list(groups)
    # with an empty array first, so that a column without rows has its type
    empty = {name: np.empty(0, dtype=_FORMATS[kind]) for name, kind in groups.kinds.items()}
    # each part leaves the memory with its column
    columns = {name: np.concatenate([none, *(part.pop(name) for part in parts)]) for name, none in empty.items()}
    return columns, groups.metadata


@final
class RowGroups:
    """The row groups of a Parquet file of a release, one in memory at a time.

    Args:
        path: The file.
        rows: Number of rows that it must have.
        longest: Bytes of its longest text, at most.

    Attributes:
        kinds: The type of each column in the file, by name. It is known once the first row group is read.
        metadata: The metadata in the footer, known at the same time.

    **Guarantees**
        * if a reader takes all row groups without an error, the bytes of the file are those of :func:`pieces` for these
          columns and the metadata;
        * memory and time follow from rows and longest, for any content of the file.
    """

    kinds: Mapping[str, int]
    metadata: dict[str, str]

    def __init__(self, path: Path, rows: int, longest: int) -> None:
        self._path, self._rows, self._longest = path, rows, longest

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        """Yield the columns of each row group, by name.

        Raises:
            ReleaseError: The file is missing, or one of its bytes differs from those of a release of these rows.
        """
        try:
            if not self._path.is_file():  # to open a pipe would wait for a writer
                raise OSError
            with self._path.open("rb") as file:
                yield from self._groups(file)
        except OSError:
            raise unreadable_file(self._path) from None
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            raise ReleaseError(
                "wrong-parquet-file",
                f"{self._path.name!r} is not a Parquet file of {self._rows:,} rows as a release writes it.",
                "Each of its bytes must be as fitnoise writes it.",
                "Bring the file back as it was written.",
                "The file was not read.",
                place=self._path.name,
            ) from None

    def _groups(self, file: BinaryIO) -> Iterator[dict[str, NDArray[Any]]]:
        self.kinds, self.metadata, sizes, end = _footer(file, self._rows, self._longest)
        layout = _Layout(self.kinds)
        _match(file.read(len(_MAGIC)), [_MAGIC])
        for start, size in zip(range(0, self._rows, GROUP_ROWS), sizes, strict=True):
            if not 0 <= size <= end:  # before memory is taken for as many bytes
                raise ValueError
            raw = file.read(size)
            columns = _columns(memoryview(raw), self.kinds, min(GROUP_ROWS, self._rows - start), self._longest)
            # the pages may be any so far: the values are written again, and the bytes decide
            _match(raw, layout.pages(columns.items()))
            yield columns
        _match(file.read(end), [layout.footer(self.metadata)])


def _match(raw: bytes, pieces: Iterable[bytes]) -> None:
    """Raise ValueError unless the bytes are those of the pieces, one after the other."""
    position = 0
    for piece in pieces:
        if raw[position : position + len(piece)] != piece:
            raise ValueError
        position += len(piece)
    if position != len(raw):
        raise ValueError


def room(rows: int, longest: int) -> int:
    """Return the number of bytes that the pages of a column may take."""
    return MIN_ALLOWED_BYTES + rows * (NUMBER_BYTES + longest)


# --- pages --------------------------------------------------------------------------------------------------------


def _pages(values: NDArray[Any]) -> Iterator[bytes]:
    """Return the pages of a column in one row group: a dictionary if there is one, and the values."""
    kind = _TYPES[values.dtype.kind]
    if kind == _BOOLEAN:
        yield _data_page(np.packbits(values, bitorder="little").tobytes(), len(values), _PLAIN_VALUES)
        return
    listing = _by_dictionary(values, kind)
    if listing is None:
        yield _data_page(values.astype(_FORMATS[kind]).tobytes(), len(values), _PLAIN_VALUES)
        return
    listed, codes = listing
    raw = _texts(listed) if kind == _BYTE_ARRAY else listed.astype(_FORMATS[kind]).tobytes()
    head = _fields((1, _INT, _int(len(listed))), (2, _INT, _int(_PLAIN_VALUES)))
    yield _page(2, raw, (7, _STRUCT, head))
    yield _data_page(_packed(codes, len(listed)), len(values), _INDICES)


def _by_dictionary(values: NDArray[Any], kind: int) -> tuple[NDArray[Any], NDArray[np.intp]] | None:
    """Return the distinct values in the order of first appearance, and the index of each value; None for plain values.

    −0.0 is preserved.
    """
    if kind == _BYTE_ARRAY:
        # no −1 for a missing value, which could not be packed
        codes, listed = pd.factorize(values, use_na_sentinel=False)
        return np.asarray(listed, dtype=object), codes
    # compared bit by bit: as numbers −0.0 and 0.0 are equal, and one of the two would be lost
    bits = values.astype(_FORMATS[kind]).view("<i8")
    # most columns of noisy numbers repeat nothing: this saves a pass over all of them
    sample = bits[:SAMPLE_ROWS]
    if len(np.unique(sample)) == len(sample):
        return None
    codes, listed = pd.factorize(bits)
    shorter = NUMBER_BYTES * len(listed) + _packed_bytes(len(codes), len(listed)) < NUMBER_BYTES * len(codes)
    return (np.asarray(listed, dtype="<i8").view(_FORMATS[kind]), codes) if shorter else None


def _texts(listed: NDArray[Any]) -> bytes:
    """Return texts, each after its length in bytes."""
    encoded = [text.encode() for text in listed.tolist()]
    return b"".join(itertools.chain.from_iterable((len(x).to_bytes(4, "little"), x) for x in encoded))


def _bits(listed: int) -> int:
    """Return the bits of an index into a dictionary with `listed` values; at least one."""
    return max(1, (listed - 1).bit_length())


def _packed_bytes(rows: int, listed: int) -> int:
    """Return the number of bytes of `rows` packed indices, without the head of their run."""
    return -(-rows // 8) * _bits(listed)


def _packed(codes: NDArray[np.intp], listed: int) -> bytes:
    """Return indices as one bit-packed run, after their width and the run's length in eights."""
    width, eights = _bits(listed), -(-len(codes) // 8)
    bits = np.empty((len(codes), width), dtype=np.uint8)
    for i in range(width):
        bits[:, i] = codes >> i & 1  # bit by bit: all at once they would take eight times the memory
    packed = np.packbits(bits.ravel(), bitorder="little").tobytes()
    return bytes([width]) + _varint(eights << 1 | 1) + packed.ljust(eights * width, b"\0")


def _data_page(raw: bytes, rows: int, encoding: int) -> bytes:
    head = ((1, _INT, _int(rows)), (2, _INT, _int(encoding)), (3, _INT, _int(_LEVELS)), (4, _INT, _int(_LEVELS)))
    # data page header: values, their encoding, and those of definition and repetition levels, which are absent
    return _page(0, raw, (5, _STRUCT, _fields(*head)))


def _page(kind: int, raw: bytes, head: tuple[int, int, bytes]) -> bytes:
    size = _int(len(raw))
    # page header: kind, size before and after compression (pages are not compressed), and the header of its kind
    return _fields((1, _INT, _int(kind)), (2, _INT, size), (3, _INT, size), head) + raw


# --- footer -------------------------------------------------------------------------------------------------------


def _leaf(name: str, kind: int) -> bytes:
    """Return a column in the schema: required, with texts marked in both ways that readers know."""
    # 6: converted type UTF8, which older readers know; 10: logical type STRING
    text = ((6, _INT, _int(0)), (10, _STRUCT, _fields((1, _STRUCT, _fields())))) if kind == _BYTE_ARRAY else ()
    return _fields((1, _INT, _int(kind)), (3, _INT, _int(0)), (4, _BINARY, _binary(name)), *text)


def _chunk(name: str, values: NDArray[Any], sizes: Sequence[int], offset: int) -> bytes:
    """Return a column chunk whose pages have these sizes, from this byte on."""
    *dictionary, _ = sizes
    encodings = [_PLAIN_VALUES, _INDICES] if dictionary else [_PLAIN_VALUES]
    total = _int(sum(sizes))
    # type, encodings, path, codec (0: none), values, size before and after compression, place of the values' page
    fields = [
        (1, _INT, _int(_TYPES[values.dtype.kind])),
        (2, _LIST, _list(_INT, [*map(_int, (*encodings, _LEVELS))])),
        (3, _LIST, _list(_BINARY, [_binary(name)])),
        (4, _INT, _int(0)),
        (5, _LONG, _int(len(values))),
        (6, _LONG, total),
        (7, _LONG, total),
        (9, _LONG, _int(offset + sum(dictionary))),
    ]
    fields += [(11, _LONG, _int(offset))] if dictionary else []  # place of the dictionary's page
    # 2: a place of the metadata in the file, which is deprecated, and required by the format
    return _fields((2, _LONG, _int(0)), (3, _STRUCT, _fields(*fields)))


def _fields(*fields: tuple[int, int, bytes]) -> bytes:
    """Return a structure of Thrift's compact protocol, from number, kind and bytes of each field.

    The numbers grow, by at most 15 from field to field.
    """
    out, before = [], 0
    for number, kind, raw in fields:
        out += [bytes([(number - before) << 4 | kind]), raw]  # the short form: four bits for the step
        before = number
    return b"".join((*out, b"\0"))


def _list(kind: int, items: Sequence[bytes]) -> bytes:
    head = bytes([len(items) << 4 | kind]) if len(items) < 0xF else bytes([0xF0 | kind]) + _varint(len(items))
    return b"".join((head, *items))


def _binary(text: str) -> bytes:
    raw = text.encode()
    return _varint(len(raw)) + raw


def _int(number: int) -> bytes:
    return _varint(number << 1)  # zigzag, for numbers from 0 on


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# --- reading ------------------------------------------------------------------------------------------------------


@final
@dataclass
class _ThriftReader:
    """A reader of bytes.

    It raises ValueError or LookupError if they break the protocol, or announce more than there is.
    """

    raw: memoryview
    position: int = 0

    def byte(self) -> int:
        self.position += 1
        return self.raw[self.position - 1]

    def varint(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:  # the sign for more
                return number
        # ten groups of seven bits hold any number of 64 bits: a longer one is no number of the format
        raise ValueError

    def zigzag(self) -> int:
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def skip(self, size: int) -> memoryview:
        self.position += size
        if size < 0 or self.position > len(self.raw):
            raise ValueError
        return self.raw[self.position - size : self.position]

    def struct(self, depth: int = 0) -> _Struct:
        fields: _Struct = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 0xF
            # the kind of a truth value in a structure is the value itself; in a list it takes a byte
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind, depth)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        if depth > _DEEP:
            raise ValueError
        if kind in (_TRUE, _FALSE, _BYTE):
            return self.byte()
        if kind in (_SHORT, _INT, _LONG):
            return self.zigzag()
        if kind == _DOUBLE:
            return self.skip(8)
        if kind == _BINARY:
            return self.skip(self.varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            head = self.byte()
            size = head >> 4 if head >> 4 < 0xF else self.varint()
            if size > len(self.raw) - self.position:  # a value takes a byte at least
                raise ValueError
            return [self.value(head & 0xF, depth + 1) for _ in range(size)]
        raise ValueError  # maps: the format has none


def _footer(file: BinaryIO, rows: int, longest: int) -> tuple[dict[str, int], dict[str, str], list[int], int]:
    """Return the types of the columns by name, the metadata, and the bytes of each row group and of the whole file.

    The file is then at its beginning.

    Raises:
        ValueError: The file is larger than its rows need, or its footer is not of the format.
        LookupError: The footer lacks a field.
        TypeError, AttributeError: A field of the footer is of another kind.
    """
    # the size is that of the open file and not of its name, which may lead to another file meanwhile
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 8, 0))
    length = int.from_bytes(file.read(4), "little")
    # PAR1 twice and the length itself take 12 bytes; row groups add to a footer, fewer bytes than they have rows
    if length > min(MIN_ALLOWED_BYTES + rows, size - 12):
        raise ValueError
    file.seek(size - 8 - length)
    footer = _ThriftReader(memoryview(file.read(length))).struct()
    file.seek(0)
    # the schema after its root; offsets are not used, since `RowGroups` writes them again and compares
    leaves = {_text(leaf[4]): leaf[1] for leaf in footer[2][1:]}
    if len(leaves) > COLUMNS or size > length + len(leaves) * room(rows, longest):
        raise ValueError
    return leaves, {_text(x[1]): _text(x[2]) for x in footer.get(5, [])}, [group[2] for group in footer[4]], size


def _columns(raw: memoryview, kinds: Mapping[str, int], rows: int, longest: int) -> dict[str, NDArray[Any]]:
    """Return the values of a row group; its pages need not be those of :func:`pieces`."""
    pages = _ThriftReader(raw)
    return {name: _values(pages, kind, rows, longest) for name, kind in kinds.items()}


def _values(pages: _ThriftReader, kind: int, rows: int, longest: int) -> NDArray[Any]:
    """Return the values of a column in one row group; raise ValueError if its dictionary cannot have them."""
    head = pages.struct()
    listed: NDArray[Any] | None = None
    if head[1] == 2:
        number, raw = head[7][1], pages.skip(head[3])
        if not 0 < number <= rows:  # before memory is taken for as many values
            raise ValueError
        listed = _listed(raw, number, longest) if kind == _BYTE_ARRAY else _numbers(raw, kind, number)
        head = pages.struct()
    raw = pages.skip(head[3])
    if listed is None:
        return _unpacked(raw, rows, 1)[0].astype(np.bool_) if kind == _BOOLEAN else _numbers(raw, kind, rows)
    run = _ThriftReader(raw)
    width = run.byte()
    run.varint()
    if width != _bits(len(listed)):
        raise ValueError
    # an index beyond the dictionary is an IndexError, which `read` reports as a wrong file
    codes = np.zeros(rows, dtype=np.intp)
    for i, bits in enumerate(_unpacked(raw[run.position :], rows, width)):
        codes |= bits.astype(np.intp) << i
    values: NDArray[Any] = listed[codes]
    return values


def _numbers(raw: memoryview, kind: int, number: int) -> NDArray[Any]:
    return np.frombuffer(raw, dtype=_FORMATS[kind], count=number)


def _unpacked(raw: memoryview, rows: int, width: int) -> NDArray[np.uint8]:
    """Return the bits of numbers of `width` bits, lowest first, (width, rows); raise ValueError for fewer bits."""
    if len(raw) * 8 < rows * width:
        raise ValueError
    bits = np.unpackbits(np.frombuffer(raw, dtype=np.uint8), count=rows * width, bitorder="little")
    return bits.reshape(rows, width).T


def _listed(raw: memoryview, number: int, longest: int) -> NDArray[Any]:
    """Return the texts of a dictionary; raise ValueError for one of more than `longest` bytes."""
    texts, listed = _ThriftReader(raw), np.empty(number, dtype=object)
    for i in range(number):
        size = int.from_bytes(texts.skip(4), "little")
        if size > longest:
            raise ValueError
        listed[i] = _text(texts.skip(size))
    return listed


def _text(raw: memoryview) -> str:
    # a file may have a whole number here: `bytes` would make as many zeros, and this is a TypeError
    return str(raw, "utf-8")
