"""Ratios of estimates (shares, rates, means, growths), and arithmetic with them, with intervals of proven coverage.

The interval of one ratio has all ratios that a test does not reject (:mod:`fitnoise.reading.ratio_intervals`).

Two ratios have a difference and a ratio. If all noise is normal, one test covers both ratios
(:mod:`fitnoise.reading.similar_tests`). Otherwise each ratio has a test:

A ratio p = a/b is in its interval I at level c exactly where its linear hypothesis a − p b = 0 is not rejected. If both
true ratios are in their intervals, a function of them is in its range over I₁ × I₂ (interval arithmetic). This uses no
linear approximation, and only the two tests can fail. For a result at confidence γ, both levels are 1 − (1 − γ)/2
(Bonferroni), also where the two noises are of different kinds. If n such intervals shall hold at once, 2n replaces 2; a
single test of normal noise has the level 1 − (1 − γ)/n then. A ratio that was multiplied by 0 needs no test.

Two ratios of one b make one ratio again, (a₁ − a₂)/b or a₁/a₂, if neither was multiplied by 0. A quotient does so only
if no number was added. `Ratios` computes these.

Products and results of more than two ratios, such as an index, have an interval, too. It is the range of the result
where all m ratios are in their intervals. For normal noise each of these has level γ^(1/m) (Šidák 1967), because each
test is of one number. For other noise the level is 1 − (1 − γ)/m.
"""

from __future__ import annotations

import abc
import math
import operator
from functools import cached_property
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.reading.labelled_numbers import LabelledNumbers, RowLabels, divisor, is_number, number
from fitnoise.reading.laws import Law, law, level
from fitnoise.reading.linear_forms import Forms
from fitnoise.reading.questions import MIXED_UNIVERSE_TEXT
from fitnoise.reading.ratio_intervals import Range, inverted
from fitnoise.reading.refusals import UNCOMPUTED
from fitnoise.reading.similar_tests import BOX_ERROR_SHARE, difference, product, quotient, ranges
from fitnoise.request.targets import checked_confidence, z_score


class RatioExpression(LabelledNumbers):
    """Ratios and results of arithmetic with them: 1000 * x, x - 1, x / y, (x + y) * z."""

    @abc.abstractmethod
    def _line(self, factor: float, shift: float) -> Self:
        """Return factor·x + shift."""

    @property
    @abc.abstractmethod
    def _leaves(self) -> tuple[Ratios, ...]:
        """The ratios from which it is made, without those that cannot change it."""

    @abc.abstractmethod
    def _box(self, each: float) -> tuple[Any, Any]:
        """Return (low, high) of the result where each of its ratios is in its interval at a confidence."""

    @abc.abstractmethod
    def _taken(self, rows: RowLabels, where: Indices) -> Self:
        """Return the numbers at these indices, in any order and with repetition."""

    @property
    @abc.abstractmethod
    def value(self) -> Any:
        """The estimate."""

    @abc.abstractmethod
    def interval(self, confidence: float | None = None, *, simultaneous: bool = False) -> tuple[Any, Any]:
        """Return the ends (low, high) of the interval."""

    def frame(self, confidence: float | None = None, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return the labels with the columns value, low and high. The arguments are those of `interval`.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            ReleaseError: Two numbers share noise: they are of a combination and of a release in it, or of two periods
                of one series. Numbers of different ratios may share noise, except in a comparison under Gaussian noise.
            WorkloadError: The confidence is not in (0, 1).
        """
        ends = self.interval(confidence, simultaneous=simultaneous)
        columns = {"value": self.value, "low": ends[0], "high": ends[1]}
        return self._framed({name: np.asarray(x) for name, x in columns.items()}, confidence)

    def __getitem__(self, key: Any) -> Self:
        """Return the numbers of a label, or of a list of labels, for each name that breaks them down."""
        rows, where, _ = self._rows.chosen(key)
        return self._taken(rows, where)

    def _with(self, other: object, sign: str) -> Any:
        """Return the result with another operand, by one of + - * /."""
        if isinstance(other, RatioExpression):
            rows, mine, theirs = self._rows.align(other._rows)
            return CombinedRatios(self._taken(rows, mine), other._taken(rows, theirs), rows, sign)
        if isinstance(other, LabelledNumbers):
            raise ReleaseError(
                "ratio-with-counts",
                f"A ratio and counts are given for the sign {sign}.",
                "Ratios are added, subtracted, multiplied and divided with ratios and with numbers.",
                "Divide the counts by counts first.",
                UNCOMPUTED,
            )
        return NotImplemented

    def __mul__(self, other: Any) -> Any:
        return self._line(number(other), 0.0) if is_number(other) else self._with(other, "*")

    def __rmul__(self, factor: float) -> Self:
        return self._line(number(factor), 0.0) if is_number(factor) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        return self._line(1 / divisor(other), 0.0) if is_number(other) else self._with(other, "/")

    def __rtruediv__(self, other: object) -> Any:
        if not is_number(other):
            return NotImplemented
        raise ReleaseError(
            "number-divided-by-ratio",
            "A number is to be divided by a ratio a/b.",
            "No interval is computed for such a quotient.",
            "Ask for b/a, and multiply it by the number.",
            UNCOMPUTED,
        )

    def __add__(self, other: Any) -> Any:
        return self._line(1.0, number(other)) if is_number(other) else self._with(other, "+")

    def __radd__(self, other: float) -> Self:
        return self._line(1.0, number(other)) if is_number(other) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return self._line(1.0, -number(other)) if is_number(other) else self._with(other, "-")

    def __rsub__(self, other: float) -> Self:
        return self._line(-1.0, number(other)) if is_number(other) else NotImplemented

    def __neg__(self) -> Self:
        return self._line(-1.0, 0.0)


@final
class Ratios(RatioExpression):
    """Ratios a/b of two estimates each: shares, rates, growth, means. A quotient of `Estimates` makes them.

    `universe` states the records of means, and of other ratios that leave out missing values or cut values. Ratios can
    be multiplied or divided by numbers, and numbers can be added or subtracted: 1000 * a / b, a / b - 1. A sum,
    difference or quotient of two `Ratios` is `ComparedRatios`. With the same b it is `Ratios` again, if neither was
    multiplied by 0; a quotient only if no number was added. A product of ratios is `CombinedRatios`, and so is a
    result of `ComparedRatios` with other ratios.

    **Guarantees**
        * the exact ratio, of the records as they were read, is from `low` to `high` with at least the confidence, for
          any data. The lattice of the noise can lower the confidence by at most 6·10⁻⁵. Where b is 0 there is no ratio
          and no guarantee;
        * where b is not distinguished from 0 (`is_significant` is false), ratios of any size may remain, and an end may
          be infinite;
        * a share of b's records is from 0 to 1, and no ratio of counts is below 0. A mean is at least the least, and at
          most the largest possible value. The same holds for `low` and `high`. All of this is before numbers are
          multiplied or added.

    Source: Fieller, J. R. Stat. Soc. B 16 (1954) for Gaussian noise. For sums of Laplace noise this project applies
    Fieller's test.
    """

    _noun = ("ratio", "")

    def __init__(
        self,
        parts: tuple[Forms, Forms],
        rows: RowLabels,
        confidence: float,
        possible: Range,
        line: tuple[float, float],
        universe: str = MIXED_UNIVERSE_TEXT,
    ) -> None:
        self._parts, self._rows, self.confidence, self._universe = parts, rows, confidence, universe
        # the ratio is factor · a/b + shift; `possible` are the ends of a/b
        self._possible, (self._factor, self._shift) = possible, line

    @cached_property
    def _law(self) -> Law:
        return law(*self._parts)

    @property
    def universe(self) -> str:
        """The records of the ratios, and the cuts of their values, if one question states them."""
        return self._universe

    @property
    def is_random(self) -> bool:
        """True unless the ratio was multiplied by 0, which makes it a known number."""
        return self._factor != 0

    @property
    def shifted_forms(self) -> tuple[tuple[Forms, Forms], tuple[Floats, Floats]]:
        """Two forms f and b whose ratio f/b is the multiplied and shifted one; and their estimates."""
        (a, b), (top, bottom) = self._parts, self._values
        forms = a.scale(self._factor).plus(b.scale(self._shift)) if self._shift else a.scale(self._factor)
        return (forms, b), (self._factor * top + self._shift * bottom, bottom)

    @cached_property
    def _values(self) -> tuple[Floats, Floats]:
        return self._parts[0].values(), self._parts[1].values()

    def _ends(self, confidence: float | None, *, simultaneous: bool) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """Return both ends of a/b itself, and True where b is distinguished from 0, (J,) each."""
        nominal = self.confidence if confidence is None else confidence
        gamma = level(nominal, len(self), normal=self._law.normal, simultaneous=simultaneous)
        return inverted(self._law, self._values, self._possible, gamma)

    def _transform_ends(self, low: Floats, high: Floats) -> tuple[Any, Any]:
        """Return the ends of factor · a/b + shift in the shape of the rows, from those of a/b."""
        low, high = _on_line((low, high), self._factor, self._shift)
        return low.reshape(self._rows.shape)[()], high.reshape(self._rows.shape)[()]

    @property
    def value(self) -> Any:
        """The ratios of the estimates, moved to possible values: an array, or a number.

        NaN where the estimate of b is 0.
        """
        a, b = self._values
        with np.errstate(all="ignore"):
            quotients = np.where(b == 0, math.nan, a / b)
        return (self._factor * np.clip(quotients, *self._possible) + self._shift).reshape(self._rows.shape)[()]

    @property
    def is_significant(self) -> Any:
        """True where b is distinguished from 0 at the release's confidence."""
        return self._ends(None, simultaneous=False)[2].reshape(self._rows.shape)[()]

    def interval(self, confidence: float | None = None, *, simultaneous: bool = False) -> tuple[Any, Any]:
        """Return (low, high): the least and the largest ratio that the test does not reject, which may be infinite.

        Where the test rejects every possible ratio, both ends are the possible one nearest to the estimate.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            ReleaseError: Some numbers are from a combination, and others from a release in it. Or they are from two
                periods of one series.
            WorkloadError: The confidence is not in (0, 1).
        """
        low, high, _ = self._ends(confidence, simultaneous=simultaneous)
        return self._transform_ends(low, high)

    def frame(self, confidence: float | None = None, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return the labels with the columns value, low, high and `is_significant`.

        The arguments are those of `interval`.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            ReleaseError: Some numbers are from a combination, and others from a release in it. Or they are from two
                periods of one series.
            WorkloadError: The confidence is not in (0, 1).
        """
        low, high, is_significant = self._ends(confidence, simultaneous=simultaneous)
        ends = self._transform_ends(low, high)
        columns = {"value": self.value, "low": ends[0], "high": ends[1], "is_significant": is_significant}
        return self._framed({name: np.asarray(x) for name, x in columns.items()}, confidence)

    @property
    def _leaves(self) -> tuple[Ratios, ...]:
        return (self,) if self.is_random else ()

    def _box(self, each: float) -> tuple[Any, Any]:
        return self.interval(each)

    def _line(self, factor: float, shift: float) -> Ratios:
        line = (self._factor * factor, self._shift * factor + shift)
        return Ratios(self._parts, self._rows, self.confidence, self._possible, line, self.universe)

    def _taken(self, rows: RowLabels, where: Indices) -> Ratios:
        """Return the ratios at these indices, in any order and with repetition."""
        a, b = (f.take(where) for f in self._parts)
        low, high = (x[where] for x in self._possible)
        return Ratios((a, b), rows, self.confidence, (low, high), (self._factor, self._shift), self.universe)

    def __truediv__(self, other: Any) -> Any:
        return self._compared(other, divided=True) if isinstance(other, Ratios) else super().__truediv__(other)

    def __sub__(self, other: Any) -> Any:
        return self._compared(other, divided=False) if isinstance(other, Ratios) else super().__sub__(other)

    def __add__(self, other: Any) -> Any:
        return self._compared(-other, divided=False) if isinstance(other, Ratios) else super().__add__(other)

    def _compared(self, other: Ratios, *, divided: bool) -> Ratios | ComparedRatios:
        """Return differences or quotients of two ratios each.

        They are `Ratios` if all have one b and no factor of 0, and for quotients no added number.
        """
        rows, mine, theirs = self._rows.align(other._rows)
        one, another = self._taken(rows, mine), other._taken(rows, theirs)
        (a, b), (c, d) = one._parts, another._parts
        shifts = (self._shift, other._shift)
        same = self._factor != 0 and other._factor != 0 and b.equals(d)
        if same and divided and shifts == (0.0, 0.0):
            # if a/b and c/b are at least 0, so is their quotient a/c, for any sign of b
            signed = (one._possible[0] < 0) | (another._possible[0] < 0)
            possible = np.where(signed, -math.inf, 0.0), np.full(len(one), math.inf)
            return Ratios((a, c), rows, self.confidence, possible, (self._factor / other._factor, 0.0))
        if same and not divided:
            # the factors are in the forms from here on, and the shifts are added to the ratio
            top = a.scale(self._factor).plus(c.scale(-other._factor))
            return Ratios((top, b), rows, self.confidence, _gap_range(one, another), (1.0, shifts[0] - shifts[1]))
        return ComparedRatios(one, another, rows, "/" if divided else "-")


def _gap_range(minuend: Ratios, subtrahend: Ratios) -> Range:
    """Return the possible range of their difference, without their shifts."""
    # sorted, because a factor below 0 exchanges the ends
    ends = [np.sort(np.stack([x._factor * end for end in x._possible]), axis=0) for x in (minuend, subtrahend)]
    return difference(*ends[0], *ends[1])


class _OperationResult(RatioExpression):
    """The result of + - * or / for two operands, multiplied by a number, and with a number added."""

    def __init__(
        self,
        one: RatioExpression,
        other: RatioExpression,
        rows: RowLabels,
        sign: str,
        line: tuple[float, float] = (1.0, 0.0),
    ) -> None:
        self._one, self._other, self._rows, self._sign = one, other, rows, sign
        self._factor, self._shift = line
        self.confidence = one.confidence

    @property
    def value(self) -> Any:
        """The result for the estimates of the ratios, as an array or a number. NaN where it is undefined."""
        a, b = (np.asarray(x.value) for x in (self._one, self._other))
        with np.errstate(all="ignore"):
            unscaled = _SIGNS[self._sign](a, np.where(b == 0, math.nan, b) if self._sign == "/" else b)
        return np.asarray(self._factor * unscaled + self._shift)[()]

    def _line(self, factor: float, shift: float) -> Self:
        line = (self._factor * factor, self._shift * factor + shift)
        return type(self)(self._one, self._other, self._rows, self._sign, line)

    @property
    def _leaves(self) -> tuple[Ratios, ...]:
        return (*self._one._leaves, *self._other._leaves)

    def _box(self, each: float) -> tuple[Any, Any]:
        one, other = self._one._box(each), self._other._box(each)
        combine_ranges = {"+": _sum, "-": difference, "*": product, "/": quotient}[self._sign]
        return _on_line(combine_ranges(*one, *other), self._factor, self._shift)

    def _taken(self, rows: RowLabels, where: Indices) -> Self:
        one, other = (x._taken(rows, where) for x in (self._one, self._other))
        return type(self)(one, other, rows, self._sign, (self._factor, self._shift))


@final
class ComparedRatios(_OperationResult):
    """Differences or ratios of two ratios each. A sum, difference or quotient of `Ratios` makes them.

    **Guarantees**
        * the exact difference or ratio, of the records as they were read, is from `low` to `high` with at least the
          confidence, for any data. The lattice of the noise can lower the confidence by at most 6·10⁻⁵. Where a
          denominator is 0 there is no such number and no guarantee;
        * an end may be infinite, where a denominator is not distinguished from 0;
        * the estimate is never outside.

    For releases with Laplace noise, an interval is from two tests, one of each ratio, and its coverage exceeds the
    confidence.

    Source: similar tests for Gaussian noise (:mod:`fitnoise.reading.similar_tests`); otherwise interval arithmetic.
    """

    _one: Ratios
    _other: Ratios

    def __init__(
        self, one: Ratios, other: Ratios, rows: RowLabels, sign: str, line: tuple[float, float] = (1.0, 0.0)
    ) -> None:
        super().__init__(one, other, rows, sign, line)
        self._noun = ("ratio" if sign == "/" else "difference", " of ratios")

    @property
    def universe(self) -> str:
        """The records of the numbers, if both ratios state them."""
        one, other = self._one.universe, self._other.universe
        return (
            one
            if one == other
            else MIXED_UNIVERSE_TEXT
            if MIXED_UNIVERSE_TEXT in (one, other)
            else f"{one}, and {other}"
        )

    def interval(self, confidence: float | None = None, *, simultaneous: bool = False) -> tuple[Any, Any]:
        """Return the ends (low, high) of the interval.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            ReleaseError: Two numbers of one ratio are of a combination and of a release in it, or of two periods of one
                series. Under Gaussian noise, the same holds for numbers of the two ratios.
            WorkloadError: The confidence is not in (0, 1).
        """
        gamma = checked_confidence(self.confidence if confidence is None else confidence)
        operands, count = (self._one, self._other), len(self) if simultaneous else 1
        # a ratio that was multiplied by 0 is known, so its test cannot fail
        tests = sum(ratio.is_random for ratio in operands)
        if tests == 2 and all(ratio._law.normal for ratio in operands):
            low, high = _on_line(self._at_once(1 - (1 - gamma) / count), self._factor, self._shift)
        else:
            # simultaneous also for one interval, whose tests must hold together
            low, high = self._box(level(gamma, tests * count, normal=False, simultaneous=True))
        return low[()], high[()]

    def _at_once(self, confidence: float) -> tuple[Floats, Floats]:
        """Return intervals for normal noise: one test of both ratios, where both are in their own intervals."""
        # Both ratios are in their own intervals with 1 − spared (Šidák 1967), and the joint test has the rest of the
        # allowed error: spared + (1 − confidence − spared) = 1 − confidence.
        spared = BOX_ERROR_SHARE * (1 - confidence)
        separate_ends = [np.ravel(x) for ratio in (self._one, self._other) for x in ratio.interval((1 - spared) ** 0.5)]
        (forms, values), (others, their_values) = self._one.shifted_forms, self._other.shifted_forms
        joint_ends = ranges(
            np.stack([*values, *their_values], axis=1),
            law(*forms, *others).covariances,
            (separate_ends[0], separate_ends[1], separate_ends[2], separate_ends[3]),
            z_score(confidence + spared),
            divided=self._sign == "/",
        )
        return joint_ends[0].reshape(self._rows.shape), joint_ends[1].reshape(self._rows.shape)


@final
class CombinedRatios(_OperationResult):
    """Sums, differences, products and ratios of several ratios: an index, a share times a rate. Made by + - * /.

    **Guarantees**
        * the exact result is from `low` to `high` with at least the confidence, for any data. The lattice of the noise
          can lower the confidence by at most 6·10⁻⁵. Where a denominator is 0 there is no exact result and no
          guarantee;
        * an end may be infinite, where a denominator is not distinguished from 0;
        * the estimate is never outside.

    The coverage of the intervals exceeds the confidence: an interval has all results for ratios that are in their own
    intervals.
    """

    _noun = ("number", " made of ratios")

    @property
    def universe(self) -> str:
        """The records of the numbers: for several ratios, each has its own."""
        return MIXED_UNIVERSE_TEXT

    def interval(self, confidence: float | None = None, *, simultaneous: bool = False) -> tuple[Any, Any]:
        """Return the ends (low, high) of the interval.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            ReleaseError: Two numbers of one ratio are of a combination and of a release in it, or of two periods of one
                series.
            WorkloadError: The confidence is not in (0, 1).
        """
        gamma = checked_confidence(self.confidence if confidence is None else confidence)
        tests = len(self._leaves) * (len(self) if simultaneous else 1)
        # Šidák's bound needs two-sided tests of normal noise: each ratio has one, also for noise that is correlated
        normal = all(ratio._law.normal for ratio in self._leaves)
        low, high = self._box(level(gamma, tests, normal=normal, simultaneous=True))
        return np.asarray(low)[()], np.asarray(high)[()]


_SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def _sum(low: Floats, high: Floats, other_low: Floats, other_high: Floats) -> tuple[Floats, Floats]:
    # p + r = p − (−r), and −r is from −other_high to −other_low
    return difference(low, high, np.negative(other_high), np.negative(other_low))


def _on_line(ends: tuple[Floats, Floats], factor: float, shift: float) -> tuple[Floats, Floats]:
    """Return the ends of factor·x + shift for x from end to end."""
    # 0 times an infinite end is not a number, so a factor of 0 has its own case
    low, high = (factor * x + shift if factor else np.full(np.shape(x), shift) for x in ends)
    return (low, high) if factor >= 0 else (high, low)
