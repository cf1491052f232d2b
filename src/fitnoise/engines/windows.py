"""Windows: a coding of whole numbers as a list of cells.

**Purpose.** All whole numbers below the least number that a coding names have one cell, and so have those above the
largest. Where these two are close, the cells of all numbers between them are a list. Cells are looked up in it many
times faster than the engine computes them case by case. The meaning of the numbers is declared in `codings`.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Any, Final, Self, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.codings import EXACT_FLOAT_LIMIT, OUTSIDE, Codes, Coding, Cuts, Range

MAX_WINDOW: Final = 2**20
"""The largest number of cells in a list."""


@final
class Window:
    """The cell of each whole number, or its substitute (OUTSIDE, DROPPED or REFUSED).

    low: The first listed number.
    cells: First the cell of all numbers below `low`, then those of `low`, `low` + 1 and so on, last the cell of all
    larger numbers.
    absent: The cell of missing values.

    **Guarantees**: Each number has the cell that `codings.cell_of` gives it.
    """

    def __init__(self, low: int, cells: NDArray[Any], absent: int) -> None:
        # −max − 1 has a signed type, so OUTSIDE, DROPPED and REFUSED fit it too.
        self._low, self._cells, self._absent = low, cells.astype(np.min_scalar_type(-int(cells.max()) - 1)), absent
        self._listed = len(cells) - 2
        self._is_identity = bool((cells[1:-1] == np.arange(self._listed)).all())
        self._kind = np.min_scalar_type(self._listed)

    @classmethod
    def from_coding(cls, coding: Coding) -> Self | None:
        """Return the window of a range, of whole-number codes or of cuts; `None` for other codings.

        It is also `None` if a cut is 2^53 or more in size, or if the list would have more than `MAX_WINDOW` numbers.
        """
        values, codes = coding.values, coding.numbers
        ends = _ends(values)
        if not ends:
            return None
        low, high = (int(x) for x in (min(*ends, *codes), max(*ends, *codes)))
        if high - low >= MAX_WINDOW:
            return None
        numbers = np.arange(low - 1, high + 2)
        cells = values.vector(numbers)
        cells[cells == OUTSIDE] = coding.outside
        cells[np.array([*codes], dtype=np.int64) - (low - 1)] = [*codes.values()]
        return cls(low, cells, coding.absent)

    def cells_of(self, numbers: NDArray[Any], missing: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Return the cell of each number, shape (numbers,).

        missing: True for missing values, whose numbers may be any; `None` if none is missing.
        """
        if missing is None and len(numbers):
            few = numbers.dtype.kind == "u" or self._listed <= np.iinfo(numbers.dtype).max
            # As an unsigned number (modulo 2⁸ to 2⁶⁴), a number below `low` is a place after all listed ones.
            shifted = numbers if few and not self._low else numbers.astype(np.int64) - self._low
            places = shifted.view(f"u{shifted.itemsize}")
            if places.max() < self._listed:
                return places.astype(self._kind) if self._is_identity else self._cells[1:].take(places)
        low = self._low - 1
        cells = self._cells.take(np.clip(numbers.astype(np.int64), low, low + self._listed + 1) - low)
        if missing is not None:
            cells[missing] = self._absent
        return cells


@singledispatch
def _ends(coding: Coding) -> tuple[int, ...]:
    """Return the least and the largest whole number that is unlike its neighbours; empty without a window."""
    del coding
    return ()


@_ends.register
def _(coding: Range) -> tuple[int, ...]:
    return coding.low, coding.high


@_ends.register
def _(coding: Codes) -> tuple[int, ...]:
    codes = [int(c) for c in coding.codes] if coding.kind is int else []
    return (min(codes), max(codes)) if codes else ()


@_ends.register
def _(coding: Cuts) -> tuple[int, ...]:
    # The whole numbers below ⌈c₁⌉ are in the first bin, and those above ⌊c_k⌋ in the last.
    is_exact = max(map(abs, coding.cuts)) < EXACT_FLOAT_LIMIT
    return (math.ceil(coding.cuts[0]), math.floor(coding.cuts[-1])) if is_exact else ()
