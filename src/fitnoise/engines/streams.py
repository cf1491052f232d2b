"""Columns of whole numbers as an engine hands them over: Arrow's stream, without Arrow.

**Purpose.** The stream is one of C. Its functions return the schema and the next records, and release them. A column is
an array of its numbers, with one bit for each that states its presence.

**Source.** The Arrow C data interface and the C stream interface,
https://arrow.apache.org/docs/format/CStreamInterface.html
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator
from typing import Any, ClassVar

import duckdb
import numpy as np
from numpy.typing import NDArray

Column = tuple[NDArray[Any], NDArray[np.bool_] | None]
"""The numbers of a column, shape (records,), and a mask that is True for missing ones; `None` if none is missing."""

_KINDS = {b"c": "i1", b"C": "u1", b"s": "i2", b"S": "u2", b"i": "i4", b"I": "u4", b"l": "i8"}
"""Types of integers, by Arrow's letter."""


class _Schema(ctypes.Structure):
    _fields_: ClassVar[list[Any]]


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class _Array(ctypes.Structure):
    _fields_: ClassVar[list[Any]]


_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class _Stream(ctypes.Structure):
    _fields_: ClassVar[list[Any]] = [
        ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Schema))),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Array))),
        ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def iter_batches(relation: Any, piece: int) -> Generator[tuple[list[Column], int]]:
    """Yield the columns of a relation for at most `piece` records at a time, with the number of these records.

    The columns hold whole numbers of at most 64 bits, without a sign at most 32. The yielded arrays belong to the
    engine. They are valid until the next step, or until the stream is closed: a copy would take as long as counting.

    Raises:
        duckdb.Error: The engine could not read or code the records.
    """
    capsule = relation.__arrow_c_stream__()  # keep it: the stream ends when the last reference to the capsule is gone
    stream = _Stream.from_address(_pointer(capsule, b"arrow_array_stream"))
    address = ctypes.addressof(stream)
    schema = _Schema()
    _refuse(stream, stream.get_schema(address, schema))
    kinds = [np.dtype(_KINDS[schema.children[i].contents.format]) for i in range(schema.n_children)]
    _RELEASE(schema.release)(ctypes.addressof(schema))
    while True:
        batch = _Array()
        _refuse(stream, stream.get_next(address, batch))
        # A released array marks the end of the stream.
        if not batch.release:
            return
        try:
            columns = [_column(batch.children[i].contents, batch, kind) for i, kind in enumerate(kinds)]
            for start in range(0, batch.length, piece):
                part = slice(start, start + piece)
                pieces = [(x[part], None if missing is None else missing[part]) for x, missing in columns]
                yield pieces, min(piece, batch.length - start)
        finally:
            _RELEASE(batch.release)(ctypes.addressof(batch))


def _refuse(stream: _Stream, code: int) -> None:
    """Raise the engine's error for a code other than 0."""
    if code:
        raise _error(stream.get_last_error(ctypes.addressof(stream)) or os.strerror(code).encode())


def _error(message: bytes) -> duckdb.Error:
    """Return the exception that the engine would have raised itself: its text begins with its name."""
    text = message.decode(errors="replace")
    parts = text.partition(":")[0].split()
    name = "".join(w[:1].upper() + w[1:] for w in parts).removesuffix("Error") + "Exception"
    kind: type[duckdb.Error] = getattr(duckdb, name, duckdb.Error)
    return kind(text)


def _column(array: _Array, batch: _Array, kind: np.dtype[Any]) -> Column:
    """Return a view of one column of a batch."""
    # A struct's offset counts in addition to the offset of each of its children.
    start, stop = batch.offset + array.offset, batch.offset + array.offset + batch.length
    values = _view(array.buffers[1], stop * kind.itemsize).view(kind)[start:]
    if not array.buffers[0] or array.null_count == 0:  # −1 means that the nulls were not counted
        return values, None
    return values, np.unpackbits(_view(array.buffers[0], (stop + 7) // 8), count=stop, bitorder="little")[start:] == 0


def _view(address: int | None, size: int) -> NDArray[np.uint8]:
    """Return `size` bytes at an address as a read-only array; an empty array without an address."""
    if not address:  # an empty array may have no memory
        return np.empty(0, dtype=np.uint8)
    view = np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)
    view.flags.writeable = False
    return view
