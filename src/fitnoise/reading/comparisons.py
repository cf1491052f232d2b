"""Differences and ratios of two ratios each: of two shares, rates, means or growths, with intervals of proven coverage.

If all noise is normal, one test covers both ratios (:mod:`fitnoise.reading.similar_tests`). Otherwise each ratio has a
test:

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
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Self, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from fitnoise.display import HtmlDisplay
from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.kernel.checks import describe_value, is_integer, is_real
from fitnoise.messages import Message, Value, ValueKind, english, translator
from fitnoise.reading.laws import law, level
from fitnoise.reading.questions import MIXED_UNIVERSE_TEXT
from fitnoise.reading.refusals import UNCOMPUTED
from fitnoise.reading.similar_tests import BOX_ERROR_SHARE, difference, product, quotient, ranges
from fitnoise.reporting import ReportColumn, ReportTable, aligned
from fitnoise.request.targets import checked_confidence, z_score

if TYPE_CHECKING:
    from fitnoise.reading.estimates import Ratios, RowLabels


ROWS_PRINTED = 20
"""The largest number of rows that a console shows; of more rows, it shows the first."""

MAX_PRINTED = 5_000
"""The largest number of intervals that are computed for a console; for more numbers, it shows none."""


_HEADINGS = {
    "value": Message("report.heading.value"),
    "std_error": Message("report.heading.std_error"),
    "moe": Message("report.heading.moe"),
    "low": Message("report.heading.low"),
    "high": Message("report.heading.high"),
}
"""The headings of the columns of numbers."""


def _heading(name: str, labels: Collection[str]) -> Message:
    """Return the heading of a column of numbers, different from the names of all attributes in the table."""
    heading = _HEADINGS[name]
    while english(heading) in labels:
        heading = Message("report.heading.distinct", (Value("heading", heading, ValueKind.MESSAGE),))
    return heading


def _open(x: object) -> bool:
    return isinstance(x, float) and not math.isfinite(x)


def is_number(x: object) -> bool:
    """Return True if estimates can be multiplied by it."""
    return is_integer(x) or is_real(x)


def number(x: Any) -> float:
    """Return a number as a float, or raise ReleaseError unless it is a finite number."""
    if not is_real(x) or not math.isfinite(x):
        raise ReleaseError(
            "factor-not-finite",
            f"An estimate is to be computed with {describe_value(x) if is_integer(x) else x}.",
            "Estimates are computed with finite numbers.",
            "Use a finite number.",
            UNCOMPUTED,
        )
    return float(x)


def divisor(x: Any) -> float:
    """Return a number as a float, or raise ReleaseError unless it is a finite number other than 0."""
    if x == 0:
        raise ReleaseError(
            "division-by-zero",
            "An estimate is to be divided by 0.",
            "",
            "Divide by another number.",
            UNCOMPUTED,
        )
    return number(x)


OF_VALUES_AS_READ = "for the exact number of the records as they were read, without what a range cuts off"
"""The quantity that intervals are for."""


class LabelledNumbers(HtmlDisplay, abc.ABC):
    """Numbers that are broken down by names."""

    __array_ufunc__ = None  # NumPy numbers leave their multiplication to these classes
    confidence: float
    _rows: RowLabels
    # the noun in the singular, and the words that follow the noun
    _noun: tuple[str, str] = ("number", "")
    _kind: ValueKind = ValueKind.NUMBER

    @abc.abstractmethod
    def frame(self, confidence: float | None = None, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return one row for each number, with its value and its interval."""

    @property
    @abc.abstractmethod
    def universe(self) -> str:
        """The records of the numbers, and the cuts of their values, in words."""

    def _framed(self, columns: Mapping[str, npt.NDArray[Any]], confidence: float | None) -> pd.DataFrame:
        """Return labels with further columns; `attrs` of the frame states the quantity that the intervals are for."""
        frame = self._rows.frame(columns)
        level = self.confidence if confidence is None else confidence
        frame.attrs = {"universe": self.universe, "confidence": level, "interval": OF_VALUES_AS_READ}
        return frame

    @property
    def labels(self) -> dict[str, tuple[Any, ...]]:
        """The names that break the numbers down, each with its labels."""
        return dict(self._rows.labels)

    def __len__(self) -> int:
        return math.prod(self._rows.shape)

    @property
    def summary(self) -> str:
        """The number of numbers, their kind, and the names that break them down: 3 estimates by area."""
        (noun, suffix), breakdown = self._noun, f" by {', '.join(self.labels)}" if self.labels else ""
        return f"{len(self)} {noun}{'s' * (len(self) != 1)}{suffix}{breakdown}"

    def table(self, frame: pd.DataFrame) -> ReportTable:
        """Return the rows of a frame of these numbers as a table, with None for an infinite or undefined number."""
        kinds = {"value": self._kind, "std_error": ValueKind.PEOPLE, "moe": ValueKind.PEOPLE} | dict.fromkeys(
            ("low", "high"), ValueKind.NUMBER
        )
        labels = [*self._rows.labels]
        columns = [ReportColumn(name, name) for name in labels]
        for name in frame.columns.drop(labels):
            heading = _heading(name, labels) if name in _HEADINGS else None
            columns.append(ReportColumn(name, heading, kinds.get(name, ValueKind.TEXT)))
        rows = ({k: None if _open(x) else x for k, x in row.items()} for row in frame.to_dict("records"))
        return ReportTable.from_rows("rows", columns, rows)

    def __repr__(self) -> str:
        """Return the numbers with their margins or intervals at the confidence of the release.

        Of more than ROWS_PRINTED numbers the text has the first, of more than MAX_PRINTED none.
        """
        if len(self) > MAX_PRINTED:
            return f"<{self.summary}: see frame()>"
        try:
            frame = self.frame()
        except ReleaseError as error:  # a combination with a release in it has no interval
            return f"<{self.summary}: {error}>"
        language = translator("en", typeset=False)
        level = language.kind(ValueKind.LEVEL, self.confidence)
        table = self.table(frame.head(ROWS_PRINTED))
        if not self._rows.labels:
            texts = {column.name: language.kind(column.kind, x) for column, x in table.cells[0]}
            interval = f"± {texts['moe']}" if "moe" in texts else f"from {texts['low']} to {texts['high']}"
            return f"<{self.summary}: {texts['value']} {interval} at {level}>"
        remaining = len(frame) - len(table.rows)
        ends = [f"… {remaining:,} more: see frame()"] if remaining else []
        return "\n".join([f"{self.summary}, each interval at {level}:", *aligned(table), *ends])

    def __pow__(self, power: object) -> NoReturn:
        raise ReleaseError(
            "power-of-estimates",
            "A power of noisy numbers is given.",
            "No interval of proven coverage and useful width is known for powers.",
            "Compute the power from the value yourself, without an interval.",
            UNCOMPUTED,
        )


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
class ComparedRatios(RatioExpression):
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

    def __init__(
        self, one: Ratios, other: Ratios, rows: RowLabels, *, divided: bool, line: tuple[float, float] = (1.0, 0.0)
    ) -> None:
        self._one, self._other, self._rows, self._divided = one, other, rows, divided
        self._factor, self._shift = line
        self.confidence, self._noun = one.confidence, ("ratio" if divided else "difference", " of ratios")

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

    @property
    def value(self) -> Any:
        """The difference or ratio of the ratios' estimates, as an array or a number. NaN where it is undefined."""
        a, b = self._one.value, self._other.value
        with np.errstate(all="ignore"):
            unscaled = np.asarray(np.where(b == 0, math.nan, np.divide(a, b)) if self._divided else a - b)
        return (self._factor * unscaled + self._shift)[()]

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
            low, high = self._at_once(1 - (1 - gamma) / count)
        else:
            # simultaneous also for one interval, whose tests must hold together
            each = level(gamma, tests * count, normal=False, simultaneous=True)
            one, other = (ratio.interval(each) for ratio in operands)
            low, high = (quotient if self._divided else difference)(*one, *other)
        low, high = _on_line((low, high), self._factor, self._shift)
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
            divided=self._divided,
        )
        return joint_ends[0].reshape(self._rows.shape), joint_ends[1].reshape(self._rows.shape)

    def _line(self, factor: float, shift: float) -> ComparedRatios:
        line = (self._factor * factor, self._shift * factor + shift)
        return ComparedRatios(self._one, self._other, self._rows, divided=self._divided, line=line)

    @property
    def _leaves(self) -> tuple[Ratios, ...]:
        return (*self._one._leaves, *self._other._leaves)

    def _box(self, each: float) -> tuple[Any, Any]:
        ends = (quotient if self._divided else difference)(*self._one.interval(each), *self._other.interval(each))
        return _on_line(ends, self._factor, self._shift)

    def _taken(self, rows: RowLabels, where: Indices) -> ComparedRatios:
        one, other = (x._taken(rows, where) for x in (self._one, self._other))
        return ComparedRatios(one, other, rows, divided=self._divided, line=(self._factor, self._shift))


@final
class CombinedRatios(RatioExpression):
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
        self.confidence, self._noun = one.confidence, ("number", " made of ratios")

    @property
    def universe(self) -> str:
        """The records of the numbers: for several ratios, each has its own."""
        return MIXED_UNIVERSE_TEXT

    @property
    def value(self) -> Any:
        """The result for the ratios' estimates: an array, or a number. NaN where it is undefined."""
        a, b = (np.asarray(x.value) for x in (self._one, self._other))
        with np.errstate(all="ignore"):
            unscaled = _SIGNS[self._sign](a, np.where(b == 0, math.nan, b) if self._sign == "/" else b)
        return np.asarray(self._factor * unscaled + self._shift)[()]

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

    def _line(self, factor: float, shift: float) -> CombinedRatios:
        line = (self._factor * factor, self._shift * factor + shift)
        return CombinedRatios(self._one, self._other, self._rows, self._sign, line)

    @property
    def _leaves(self) -> tuple[Ratios, ...]:
        return (*self._one._leaves, *self._other._leaves)

    def _box(self, each: float) -> tuple[Any, Any]:
        one, other = self._one._box(each), self._other._box(each)
        combine_ranges = {"+": _sum, "-": difference, "*": product, "/": quotient}[self._sign]
        return _on_line(combine_ranges(*one, *other), self._factor, self._shift)

    def _taken(self, rows: RowLabels, where: Indices) -> CombinedRatios:
        one, other = (x._taken(rows, where) for x in (self._one, self._other))
        return CombinedRatios(one, other, rows, self._sign, (self._factor, self._shift))


_SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def _sum(low: Floats, high: Floats, other_low: Floats, other_high: Floats) -> tuple[Floats, Floats]:
    # p + r = p − (−r), and −r is from −other_high to −other_low
    return difference(low, high, np.negative(other_high), np.negative(other_low))


def _on_line(ends: tuple[Floats, Floats], factor: float, shift: float) -> tuple[Floats, Floats]:
    """Return the ends of factor·x + shift for x from end to end."""
    # 0 times an infinite end is not a number, so a factor of 0 has its own case
    low, high = (factor * x + shift if factor else np.full(np.shape(x), shift) for x in ends)
    return (low, high) if factor >= 0 else (high, low)
