"""Kinds of arrays, and how much memory there is for them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Of whatever holds numbers."""

Floats = NDArray[np.float64]
"""Of doubles."""

Integers = NDArray[np.int64]
"""Of 64-bit whole numbers."""

Indices = NDArray[np.intp]
"""Of positions."""

Exact = NDArray[Any]
"""Of whole numbers: int64 where a public bound shows that this is enough, Python integers (dtype object) otherwise."""


def physical_memory() -> int:
    """Bytes of this machine's memory; what cannot be told counts as 16 GiB."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**34


def equal_rows(rows: NDArray[Any]) -> list[tuple[tuple[int, ...], Indices]]:
    """The different rows of whole numbers, sorted, and where each of them stands."""
    if not len(rows):
        return []
    if (rows == rows[0]).all():
        return [(tuple(rows[0].tolist()), np.arange(len(rows)))]
    found, which = np.unique(rows, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    places = np.split(order, np.cumsum(np.bincount(which.ravel()))[:-1])
    return [(tuple(row), here) for row, here in zip(found.tolist(), places, strict=True)]
