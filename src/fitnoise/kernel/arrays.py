"""Kinds of arrays, the memory available for them, and functions on them that several packages use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""An array of numbers of any type."""

Floats = NDArray[np.float64]
"""An array of doubles."""

Integers = NDArray[np.int64]
"""An array of 64-bit whole numbers."""

Indices = NDArray[np.intp]
"""An array of positions."""

Exact = NDArray[Any]
"""An array of whole numbers: int64 if a public bound shows that this suffices, else Python integers (dtype object)."""


def physical_memory() -> int:
    """Return the bytes of this machine's memory; 16 GiB if they are unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**34


def read_only(values: Any) -> NDArray[Any]:
    """Return a copy that nothing can write to: a price once computed stays the price of these integers."""
    out = np.array(values)
    out.setflags(write=False)
    return out


def equal_rows(rows: NDArray[Any]) -> list[tuple[tuple[int, ...], Indices]]:
    """Return the different rows of whole numbers, sorted, each with its positions in increasing order.

    rows: Shape (rows, columns).
    """
    if not len(rows):
        return []
    if (rows == rows[0]).all():
        return [(tuple(rows[0].tolist()), np.arange(len(rows)))]
    distinct, which = np.unique(rows, axis=0, return_inverse=True)
    # `which` has the shape (rows, 1) in NumPy 2.0, and (rows,) before and after.
    order = np.argsort(which.ravel(), kind="stable")
    places = np.split(order, np.cumsum(np.bincount(which.ravel()))[:-1])
    return [(tuple(row), here) for row, here in zip(distinct.tolist(), places, strict=True)]


def answers_digest(answers: Sequence[Exact]) -> str:
    """Return the SHA-256 (hex) of noisy answers, in the order of the designs.

    The hashed bytes are the width in 8 bytes, then each answer in `width` bytes. The width is 8, or more if an answer
    needs more. All integers are little-endian, in two's complement.

    Args:
        answers: Arrays of whole numbers, of shape (n,) each.

    **Guarantees**
        * Different lists of answers never have the same bytes.
        * An answer has the same bytes in an array of 64-bit integers and in one of Python's integers.
    """
    # ~x of a negative x has the bits of x without its sign
    widths = (max(x, ~x).bit_length() // 8 + 1 for y in answers if y.dtype == object for x in y.tolist())
    width = max((8, *widths))
    digest = hashlib.sha256(width.to_bytes(8, "little"))
    for y in answers:
        wide = (int(x).to_bytes(width, "little", signed=True) for x in y)
        digest.update(np.ascontiguousarray(y, "<i8").data if width == 8 else b"".join(wide))
    return digest.hexdigest()
