"""Numbers that look random and are always the same: a plan can be repeated, and has no randomness in it."""

from __future__ import annotations

import math
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fitnoise.kernel.arrays import Floats, Integers


@final
class FixedGenerator:
    """Numbers that look random and are always the same, for starts of searches and for noise that is only simulated.

    They are the first numbers of SplitMix64 (Steele, Lea and Flood 2014) from the states s, s + 1, s + 2, …. Noise that
    protects anyone is never made of them.

    Args:
        start: s. Two sequences do not overlap while neither draws more numbers than lie between their starts.
    """

    def __init__(self, start: int = 0) -> None:
        self._next = start

    def _integers(self, size: tuple[int, ...]) -> NDArray[np.uint64]:
        count = math.prod(size)
        integers = scrambled(np.arange(self._next, self._next + count)).reshape(size)
        self._next += count
        return integers

    def uniform(self, low: float, high: float, /, size: tuple[int, ...]) -> Floats:
        """Return uniform numbers in [low, high), up to rounding, an array of shape `size`."""
        # The 53 bits that a double holds.
        return np.asarray(low + (high - low) * (self._integers(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53)

    def integers(self, low: int, high: int, /, size: tuple[int, ...]) -> NDArray[np.int64]:
        """Return whole numbers from low to high − 1."""
        return np.floor(self.uniform(low, high, size)).astype(np.int64)

    def below(self, many: int) -> int:
        """Return one whole number from 0 to many − 1."""
        return int(self.integers(0, many, (1,))[0])

    def normal(self, loc: float, scale: float, /, size: tuple[int, ...]) -> Floats:
        """Return normal numbers with mean `loc` and standard deviation `scale`, an array of shape `size`."""
        # The quantile function is infinite at 0 and 1: the numbers start above 0, and the largest one would round to 1.
        uniform = np.minimum(self.uniform(2.0**-54, 1.0, size), 1 - 2.0**-53)
        return np.asarray(loc + scale * ndtri(uniform))


class Generator(Protocol):
    """The part of NumPy's random `Generator` that fitnoise uses; give one such as `np.random.default_rng(1)`."""

    def integers(self, low: int, high: int, /, size: tuple[int, ...]) -> Integers:
        """Return whole numbers from low to high − 1."""

    def uniform(self, low: float, high: float, /, size: tuple[int, ...]) -> Floats:
        """Return uniform numbers in [low, high), an array of shape `size`."""

    def normal(self, loc: float, scale: float, /, size: tuple[int, ...]) -> Floats:
        """Return Gaussian numbers with mean `loc` and standard deviation `scale`, an array of shape `size`."""


def scrambled(colours: NDArray[Any]) -> NDArray[np.uint64]:
    """Return one word for each colour; different collections of words rarely have equal sums modulo 2⁶⁴.

    This is the finaliser of SplitMix64 (Steele 2014). Sums that agree by chance could cost optimality, and the
    certificate would show it.
    """
    x = colours.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
