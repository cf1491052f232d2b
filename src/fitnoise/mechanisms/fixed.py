"""Numbers that look drawn and are always the same: a plan can be repeated, and has no chance in it."""

from __future__ import annotations

import math
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fitnoise.mechanisms.alike import scrambled

Floats = NDArray[np.float64]


@final
class Fixed:
    """Numbers that look drawn and are always the same, for where searches start and for noise that is only simulated.

    SplitMix64 (Steele, Lea and Flood 2014) of s, s + 1, s + 2, …. Noise that protects anyone is never made of them.

    Args:
        start: s. Two sequences do not overlap while neither draws more numbers than lie between their starts.
    """

    def __init__(self, start: int = 0) -> None:
        self._next = start

    def _words(self, size: tuple[int, ...]) -> NDArray[np.uint64]:
        count = math.prod(size)
        words = scrambled(np.arange(self._next, self._next + count)).reshape(size)
        self._next += count
        return words

    def uniform(self, low: float, high: float, /, size: tuple[int, ...]) -> Floats:
        """Numbers from low up to high."""
        return np.asarray(low + (high - low) * (self._words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def integers(self, low: int, high: int, /, size: tuple[int, ...]) -> NDArray[np.int64]:
        """Whole numbers from low to high − 1."""
        return np.floor(self.uniform(low, high, size)).astype(np.int64)

    def normal(self, loc: float, scale: float, /, size: tuple[int, ...]) -> Floats:
        """Normal numbers."""
        return np.asarray(loc + scale * ndtri(self.uniform(2.0**-54, 1.0, size)))
