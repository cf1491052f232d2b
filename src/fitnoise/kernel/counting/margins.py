"""Margins as sets of attributes: the margins to count, and those to sum down from. Part of the trust kernel.

**Purpose.** A margin holds another if it has all its attributes. The module finds holders by bit sets, one per
attribute, with one bit for each margin that has the attribute. The margins that hold a set of attributes are the common
bits. For 100,000 margins a query takes a few microseconds, for any number of attributes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import DataError
from fitnoise.kernel.arrays import physical_memory
from fitnoise.kernel.counting._base import Margin, Margins


@final
class _MarginIndex:
    """An index that returns the first margin with given attributes.

    Args:
        margins: The margins, in order of preference.
    """

    def __init__(self, margins: Sequence[Margin]) -> None:
        self._margins = margins
        bits: dict[str, bytearray] = {}
        for i, m in enumerate(margins):
            for a in m:
                # Bytes change in place. A Python integer would be copied for each bit.
                if a not in bits:
                    bits[a] = bytearray(len(margins) // 8 + 1)
                bits[a][i >> 3] |= 1 << (i & 7)
        self._margins_with = {a: int.from_bytes(b, "little") for a, b in bits.items()}

    def find_first(self, attributes: Margin) -> Margin | None:
        """Return the first margin that has all these attributes; `None` without one."""
        common = -1  # all of them
        for a in attributes:
            common &= self._margins_with.get(a, 0)
        if not common or not self._margins:
            return None
        # The lowest common bit is the first margin in the order of preference.
        return self._margins[(common & -common).bit_length() - 1]


def maximal(needed: Collection[Margin]) -> list[Margin]:
    """Return the margins that no larger one of them holds, sorted."""
    # The first holder of a margin is a longest one. If it is no longer than the margin, no larger one holds it.
    longest_first = sorted(set(needed), key=len, reverse=True)
    holders = _MarginIndex(longest_first)
    longest = len(longest_first[0]) if longest_first else 0
    return sorted(m for m in longest_first if len(m) == longest or len(holders.find_first(m) or ()) == len(m))


@final
class Tally:
    """Counted margins, and through them every margin that they hold.

    Args:
        margins: The counts. They are read in place, so do not change them afterwards.
        left_out: The number of units with records left out; `None` if not requested.

    **Guarantees**
        * `tally[a, b, …]` is the margin over these attributes, in the requested order.
        * It is summed down from the smallest counted margin that holds them, the first given of equally small ones.
        * A counted margin is returned itself, not a copy.
    """

    def __init__(self, margins: Margins, left_out: int | None = None) -> None:
        self.left_out = left_out
        self._margins = margins
        self._holders = _MarginIndex(sorted(margins, key=lambda m: margins[m].size))

    def __getitem__(self, margin: Margin) -> NDArray[Any]:
        """Return the margin over `margin`; raise KeyError when no counted margin holds it."""
        if margin in self._margins:
            return self._margins[margin]
        holder = self._holders.find_first(margin)
        if holder is None:
            raise KeyError(f"no counted margin holds {margin}")
        return summed(self._margins[holder], holder, margin)


def summed(counts: NDArray[Any], holder: Margin, margin: Margin) -> NDArray[Any]:
    """Return counts over the attributes of `holder`, summed down to those of `margin`, with axes in the order of these.

    The result is a view of `counts` if nothing is summed.
    """
    remaining = [a for a in holder if a in margin]
    drop = tuple(i for i, a in enumerate(holder) if a not in margin)
    down = counts.sum(axis=drop, dtype=np.int64) if drop else counts
    return np.asarray(down).transpose([remaining.index(a) for a in margin])


def blank(margins: Collection[Margin], sizes: Mapping[str, int]) -> Margins:
    """Return the counts of no records: zeros, views into one array.

    Raises:
        DataError: The counts exceed the memory of the machine.
    """
    shapes = {m: tuple(sizes[a] for a in m) for m in margins}
    cells = sum(math.prod(shape) for shape in shapes.values())
    machine = physical_memory()
    try:
        # Zeros take memory only when they are written to: a too large array would fail in the middle of the count.
        if 8 * cells > machine:
            raise MemoryError
        counts = np.zeros(cells, dtype=np.int64)
    except (MemoryError, ValueError):  # NumPy raises ValueError for more cells than it can number
        raise DataError(
            "counts-exceed-memory",
            f"The plan needs {len(shapes):,} tables of {cells:,} cells in all, or {8 * cells / 1e9:,.1f} GB.",
            f"The machine has {machine / 1e9:,.1f} GB of memory.",
            "Plan fewer tables, or tables with fewer cells.",
            "Nothing was read and nothing was charged.",
        ) from None
    return views(counts, shapes)


def views(counts: NDArray[np.int64], shapes: Mapping[Margin, tuple[int, ...]]) -> Margins:
    """Return the counts of each margin, which follow one another in a flat array.

    Args:
        counts: The counts; each margin is a view of them.
        shapes: The margins in order, each with its shape.
    """
    ends = itertools.accumulate(map(math.prod, shapes.values()))
    return {m: counts[end - math.prod(s) : end].reshape(s) for (m, s), end in zip(shapes.items(), ends, strict=True)}
