"""Queries split by the attributes they depend on, and applied to counts over these alone. Part of the trust kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Exact, Indices
from fitnoise.kernel.designs._base import Cells

SAFE = 2**62
"""Below this an int64 can be negated, added once and compared without overflow."""


def largest_entry(a: Exact) -> int:
    """Max |a_ij|, exact for every integer type (numpy's own absolute value of the least int64 is negative)."""
    return max(int(a.max()), -int(a.min()))


def exact_matmul(a: Exact, b: Exact) -> Exact:
    """A b over the integers, int64 where no entry and no partial sum can reach 2⁶², Python integers otherwise.

    Below 2⁵⁰ every product and every partial sum, in whatever order, is a whole number that a double holds: then
    doubles are used, which are many times faster.
    """
    if a.size == 0 or b.size == 0:
        return np.zeros((a.shape[0], b.shape[1]), dtype=np.int64)
    largest = max(1, largest_entry(a)) * max(1, largest_entry(b)) * a.shape[1]
    if largest < 2**50:
        return np.asarray(np.rint(a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64))
    if largest < SAFE:
        return np.asarray(a.astype(np.int64) @ b.astype(np.int64))
    return np.asarray(a.astype(object) @ b.astype(object))


def times(a: Exact, b: Exact, dtype: np.dtype[Any]) -> Exact:
    """A b in the ring of the type: Python integers, or int64 modulo 2⁶⁴."""
    if dtype.kind == "O":
        return exact_matmul(a, b).astype(object)
    return np.asarray(a.astype(np.int64) @ b.astype(np.int64))


@final
@dataclass(frozen=True)
class Part:
    """Queries that depend on the same structured attributes, and only on them.

    inner: these attributes, by name. places: which of the queries. queries: integers, (len(places), joint cells of the
    inner attributes).
    """

    inner: tuple[str, ...]
    places: Indices
    queries: Exact


def split(queries: Exact, over: Cells) -> tuple[Part, ...]:
    """Split queries of the joint cells of structured attributes, (m, n_o), so that only what they show is counted."""
    groups: dict[tuple[int, ...], list[int]] = {}
    shaped = queries.reshape(-1, *over.shape)
    for i, row in enumerate(shaped):
        depends = tuple(axis for axis in range(row.ndim) if (row != row.take([0], axis)).any())
        groups.setdefault(depends, []).append(i)
    parts = []
    for depends, places in groups.items():
        index = tuple(slice(None) if axis in depends else 0 for axis in range(len(over.shape)))
        kept = np.stack([shaped[i][index].ravel() for i in places])
        parts.append(Part(tuple(over.structured[axis][0] for axis in depends), np.array(places), kept))
    return tuple(parts)


def named(over: Cells, attributes: NDArray[np.intp], inner: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Names of exchangeable attributes by their positions, (K, s), each row followed by the inner attributes."""
    names = np.array([*over.names, *inner], dtype=object)
    last = np.arange(len(names) - len(inner), len(names))
    rows = np.concatenate([attributes, np.tile(last, (len(attributes), 1))], axis=1)
    return [tuple(row) for row in names[rows].tolist()]


def check_sizes(over: Cells, sizes: dict[str, int]) -> None:
    """Raise PlanError unless every attribute is one of the domain, with as many values."""
    if any(sizes.get(name) != n for name, n in (*over.exchangeable, *over.structured)):
        raise PlanError("the strategy is for another domain than the publication.")
