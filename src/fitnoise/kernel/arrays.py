"""Kinds of arrays, how much memory there is for them, and three things that several rooms do with them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
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

_NOTHING = 2.0**-200
"""A part of the largest number that no sum of doubles shows."""


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


def discounted(values: Floats, factor: float, step: int) -> Floats:
    """The solution of e_i = values_i + factor · e_{i+step} along the first axis, 0 beyond its end; 0 ≤ factor < 1.

    With S the shift by a step, Σ_j factor^j S^j = Π_k (1 + factor^(2^k) S^(2^k)): every pass doubles how far is seen.
    """
    found, reach = values.astype(np.float64), 1
    scratch = np.empty_like(found)
    while reach * step < len(found) and (weight := factor**reach) > _NOTHING:
        here, there = slice(None, -reach * step), slice(reach * step, None)
        found[here] += np.multiply(found[there], weight, out=scratch[there])
        reach *= 2
    return found


def answers_digest(answers: Iterable[Exact]) -> str:
    """Return the SHA-256 (hex) of noisy answers: their decimals, a line each, in the order of the designs.

    Args:
        answers: arrays of whole numbers, of shape (n,) each.
    """
    digest, first = hashlib.sha256(), True
    for y in answers:
        for i in range(0, len(y), 2**16):
            text = "\n".join(map(str, y[i : i + 2**16].tolist()))
            digest.update((text if first else "\n" + text).encode("ascii"))
            first = False
    return digest.hexdigest()
