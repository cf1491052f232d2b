"""Differences and ratios of two ratios each: of two shares, rates, means or growths, with intervals of proven coverage.

A ratio p = a/b is in its interval I at level c exactly where its linear hypothesis a − p b = 0 is not rejected. With
both true ratios in their intervals, a function of them is in the range it has on I₁ × I₂ (interval arithmetic): no
approximation by something linear, and no chance but that of the two tests. So the levels are such that both hold:

    normal noise      γ^(1/2) each: two centred normal sums, of any correlation (Šidák 1967)
    any other         1 − (1 − γ)/2 each (Bonferroni), also where the two noises are of different kinds

and the same with 2n in place of 2 where n such intervals shall hold at once. Two ratios of the same b make one ratio
again, (a₁ − a₂)/b or a₁/a₂, whose interval is narrower: `Ratios` sees to that.
"""

from __future__ import annotations

import abc
import math
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
import pandas as pd

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats
from fitnoise.reading.asking import SEVERAL
from fitnoise.reading.laws import level
from fitnoise.reporting import Displayed

if TYPE_CHECKING:
    from fitnoise.reading.estimates import Ratios, Rows


def is_number(x: object) -> bool:
    """Whether estimates are multiplied by it."""
    return isinstance(x, (int, float, np.integer, np.floating)) and not isinstance(x, (bool, np.bool_))


def number(x: Any) -> float:
    """A finite number; ReleaseError otherwise."""
    if not math.isfinite(x):
        raise ReleaseError(f"estimates are multiplied by finite numbers; got {x!r}. Nothing was computed.")
    return float(x)


def divisor(x: Any) -> float:
    """A finite number that is not 0; ReleaseError otherwise."""
    if x == 0:
        raise ReleaseError("estimates are not divided by 0. Nothing was computed.")
    return number(x)


class Movable(abc.ABC):
    """What is multiplied and divided by numbers, and has numbers added and subtracted: 1000 * x, x - 1."""

    @abc.abstractmethod
    def _line(self, factor: float, shift: float) -> Self:
        """factor·x + shift."""

    def __mul__(self, factor: float) -> Self:
        return self._line(number(factor), 0.0) if is_number(factor) else NotImplemented

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self._line(1 / divisor(other), 0.0) if is_number(other) else NotImplemented

    def __add__(self, other: float) -> Self:
        return self._line(1.0, number(other)) if is_number(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._line(1.0, -number(other)) if is_number(other) else NotImplemented

    def __rsub__(self, other: float) -> Self:
        return self._line(-1.0, number(other)) if is_number(other) else NotImplemented

    def __neg__(self) -> Self:
        return self._line(-1.0, 0.0)


class Told(Displayed, abc.ABC):
    """Numbers that are told apart by names."""

    confidence: float
    _rows: Rows
    _called: tuple[str, str] = ("number", "")

    @abc.abstractmethod
    def frame(self, confidence: float | None = None, *, simultaneous: bool = False) -> pd.DataFrame:
        """A row for each, with its value and its interval."""

    @property
    def labels(self) -> dict[str, tuple[Any, ...]]:
        """By what they are told apart: names, each with its labels."""
        return dict(self._rows.labels)

    def __len__(self) -> int:
        return math.prod(self._rows.shape)

    def __repr__(self) -> str:
        (one, more), by = self._called, f" by {', '.join(self.labels)}" if self.labels else ""
        return f"<{len(self)} {one}{'s' * (len(self) != 1)}{more}{by}>"


@final
class ComparedRatios(Movable, Told):
    """Differences or ratios of two ratios each. Made by subtracting or dividing `Ratios`.

    **Guarantees**
        * the true difference or ratio is from `low` to `high` with at least the confidence, whatever the data, up to
          6·10⁻⁵ for the lattice of the noise: it is where both ratios are in their intervals, whose levels are such
          that both are. Where a denominator is 0 there is no true ratio, and nothing is said;
        * an end may be infinite, where a denominator is not told from 0.

    Intervals are wider than of what is asked alone, and hold more often than they say: differences of
    two shares with independent errors by up to 1.6 times.
    """

    def __init__(
        self, one: Ratios, other: Ratios, rows: Rows, *, divided: bool, line: tuple[float, float] = (1.0, 0.0)
    ) -> None:
        self._one, self._other, self._rows, self._divided = one, other, rows, divided
        self._factor, self._shift = line
        self.confidence, self._called = one.confidence, ("ratio" if divided else "difference", " of ratios")

    @property
    def universe(self) -> str:
        """Which records they are of, where both ratios say the same."""
        return self._one.universe if self._one.universe == self._other.universe else SEVERAL

    @property
    def value(self) -> Any:
        """Those of the ratios' estimates: an array, or a number. NaN where there is none."""
        a, b = self._one.value, self._other.value
        with np.errstate(all="ignore"):
            plain = np.asarray(np.where(b == 0, math.nan, np.divide(a, b)) if self._divided else a - b)
        return (self._factor * plain + self._shift)[()]

    def interval(self, confidence: float | None = None, *, simultaneous: bool = False) -> tuple[Any, Any]:
        """(low, high).

        Args:
            confidence: of each interval; default the release's.
            simultaneous: whether it is of all intervals at once instead.

        Raises:
            ReleaseError: one of the ratios is of a combination and of a release in it. WorkloadError: a confidence
                outside (0, 1).
        """
        normal = self._one._law.normal and self._other._law.normal
        tests = 2 * len(self) if simultaneous else 2
        each = level(self.confidence if confidence is None else confidence, tests, normal=normal, simultaneous=True)
        found = (quotient if self._divided else difference)(*self._one.interval(each), *self._other.interval(each))
        low, high = (self._factor * x + self._shift for x in (found if self._factor >= 0 else found[::-1]))
        return low[()], high[()]

    def frame(self, confidence: float | None = None, *, simultaneous: bool = False) -> pd.DataFrame:
        """Columns: the labels, value, low, high. Arguments as for `interval`.

        Args:
            confidence: of each interval; default the release's.
            simultaneous: whether it is of all intervals at once instead.

        Raises:
            WorkloadError: a confidence outside (0, 1).
        """
        ends = self.interval(confidence, simultaneous=simultaneous)
        columns = {"value": self.value, "low": ends[0], "high": ends[1]}
        return self._rows.frame({name: np.asarray(x) for name, x in columns.items()})

    def _line(self, factor: float, shift: float) -> ComparedRatios:
        line = (self._factor * factor, self._shift * factor + shift)
        return ComparedRatios(self._one, self._other, self._rows, divided=self._divided, line=line)


def difference(low: Floats, high: Floats, other_low: Floats, other_high: Floats) -> tuple[Floats, Floats]:
    """The range of p − r for p and r from their lows to their highs."""
    with np.errstate(all="ignore"):
        return np.asarray(low - other_high), np.asarray(high - other_low)


def quotient(low: Floats, high: Floats, other_low: Floats, other_high: Floats) -> tuple[Floats, Floats]:
    """The hull of p/r for p and r ≠ 0 from their lows to their highs."""
    with np.errstate(all="ignore"):
        both = (other_low < 0) & (other_high > 0)
        # 1/r is from `least` to `most`, open ends of r being 0
        least = np.where(both, -math.inf, np.where(other_high == 0, -math.inf, np.divide(1.0, other_high)))
        most = np.where(both, math.inf, np.where(other_low == 0, math.inf, np.divide(1.0, other_low)))
        ends = np.stack([np.multiply(p, x) for p in (low, high) for x in (least, most)])
    ends = np.where(np.isnan(ends), 0.0, ends)  # 0·∞: of p = 0 nothing but 0
    return np.asarray(ends.min(axis=0)), np.asarray(ends.max(axis=0))
