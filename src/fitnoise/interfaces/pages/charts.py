"""Positions of the marks of a chart, in percent of its width and height. Templates draw them as SVG in any size.

There are three charts. Strips show a mark with its margin for each number of a small table. Lines show a band of
margins along an ordered attribute. The curve shows ε over δ. All numbers of one chart have one scale that includes 0;
the scale of δ does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.reading.layouts import Label, TableLayout

MAX_STRIP_ROWS = 24
"""Largest number of rows of strips; a chart of a longer table shows the first rows."""

MAX_LINES = 6
"""Largest number of lines of a chart. Colours and dashes distinguish as many."""

MIN_VALUES_FOR_LINE = 12
"""Smallest number of values of an ordered attribute that a chart draws as a line."""

MIN_PERIODS_FOR_LINE = 3
"""Smallest number of periods of a series that a chart draws as a line."""


@final
@dataclass(frozen=True)
class Tick:
    """A place on a scale, in percent, and the number that belongs there."""

    position: float
    number: float


@final
@dataclass(frozen=True)
class Scale:
    """The linear map from numbers to percent of a scale."""

    low: float
    high: float

    @classmethod
    def from_range(cls, low: Floats, high: Floats) -> Scale:
        """Return the scale from the least to the largest number, extended to include 0."""
        ends = min(0.0, float(low.min())), max(0.0, float(high.max()))
        # If all numbers are 0, any scale that includes 0 will do.
        return cls(*(ends if ends[0] < ends[1] else (0.0, 1.0)))

    def percent_of(self, x: float) -> float:
        """Return the place of a number, in percent."""
        return round(100 * (x - self.low) / (self.high - self.low), 2)

    def widened(self) -> Scale:
        """Return the scale whose ends are the next ticks at or outside the ends of this one."""
        scale = self
        for _ in range(3):  # a wider scale can have longer steps
            step = scale._step(4)
            # 1e-9: a tick at an end of the scale is not lost to rounding.
            low, high = math.floor(scale.low / step + 1e-9), math.ceil(scale.high / step - 1e-9)
            scale = Scale(low * step, high * step)
        return scale

    def ticks(self, tick_count: int = 4) -> list[Tick]:
        """Return ticks at round numbers, about the given number of them."""
        step = self._step(tick_count)
        first_index, last_index = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [Tick(self.percent_of(i * step), i * step) for i in range(first_index, last_index + 1)]

    def _step(self, tick_count: int) -> float:
        raw = (self.high - self.low) / tick_count
        power = 10.0 ** math.floor(math.log10(raw))
        return next(k * power for k in (1, 2, 5, 10) if k * power >= raw * (1 - 1e-9))


@final
@dataclass(frozen=True)
class Mark:
    """A number on a scale: its place, that of 0, and of the ends of its margin, which biased numbers lack."""

    position: float
    zero: float
    ends: tuple[float, float] | None


@final
@dataclass(frozen=True)
class Strips:
    """Marks side by side, for the first :data:`MAX_STRIP_ROWS` rows of a table.

    columns: The labels of the columns.
    rows: For each row its labels, and a mark for each column.
    row_total: The number of all rows of the table, totals excepted.
    """

    columns: tuple[Label, ...]
    rows: tuple[tuple[tuple[Label, ...], tuple[Mark, ...]], ...]
    ticks: list[Tick]
    row_total: int


@final
@dataclass(frozen=True)
class ChartLine:
    """A line: its label, its points and the outline of its margins, in SVG coordinates from 0 (top) to 100."""

    label: Label
    points: str
    band: str


@final
@dataclass(frozen=True)
class Lines:
    """Lines over the values of one attribute.

    axis_labels: Some of these values, each after its place on the horizontal axis, in percent.
    ticks: The ticks of the vertical axis.
    digits: The number of decimals of these ticks.
    """

    lines: tuple[ChartLine, ...]
    axis_labels: list[tuple[float, Label]]
    ticks: list[Tick]
    digits: int = 0


def curve(delta: Floats, epsilon: Floats) -> Lines:
    """Return the line of ε over δ, with a logarithmic scale of δ."""
    return _curve(np.log10(delta), epsilon, lambda x: _power(round(x)))


def cost_curve(margins: Floats, costs: Floats) -> Lines:
    """Return the line of the cost over the margins of a table."""
    return _curve(margins, costs, lambda x: f"±{x:g}")


def _curve(xs: Floats, ys: Floats, label: Callable[[float], str]) -> Lines:
    across, scale = Scale(float(xs[0]), float(xs[-1])), Scale.from_range(ys, ys)
    points = (
        f"{across.percent_of(x):g},{100 - scale.percent_of(y):g}" for x, y in zip(xs.tolist(), ys.tolist(), strict=True)
    )
    line = ChartLine(Label(None), " ".join(points), "")
    ticks = scale.ticks()
    # As many decimals as the first tick above 0 needs.
    digits = max(0, -math.floor(math.log10(ticks[1].number) + 1e-9))
    return Lines((line,), [(t.position, Label(label(t.number))) for t in across.ticks(6)], ticks, digits)


def _power(n: int) -> str:
    return "10" + str(n).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def chart(table: TableLayout) -> Strips | Lines | None:
    """Return the chart that suits a table, without its totals, or None if it needs too many lines."""
    rows = np.flatnonzero([all(x.text is not None for x in row) for row in table.rows])
    columns = np.arange(len(table.columns) - (table.columns[-1].text is None and len(table.columns) > 1))
    ordered = table.stubs[0].ordered if len(table.stubs) == 1 else 0
    if ordered >= (MIN_PERIODS_FOR_LINE if ordered and table.stubs[0].periods else MIN_VALUES_FOR_LINE):
        return _lines(table, rows[:ordered], columns) if len(columns) <= MAX_LINES else None
    # Totals have no text in a label: rows and columns of totals are in no chart.
    return _strips(table, rows, columns)


def _strips(table: TableLayout, rows: Indices, columns: Indices) -> Strips:
    cells = np.ix_(rows[:MAX_STRIP_ROWS], columns)
    # One scale for all strips, from the ends of the margins: bars of equal length then mean equal numbers in all
    # columns.
    low, high = (x[cells] for x in table.intervals)
    values, scale = table.values[cells], Scale.from_range(low, high)
    zero = scale.percent_of(0.0)

    def mark(i: int, j: int) -> Mark:
        # Around biased numbers no interval with proven coverage is known, so none is drawn.
        ends = None if table.biased else (scale.percent_of(low[i, j]), scale.percent_of(high[i, j]))
        return Mark(scale.percent_of(values[i, j]), zero, ends)

    strip_rows = (
        (table.rows[row], tuple(mark(i, j) for j in range(len(columns))))
        for i, row in enumerate(rows[:MAX_STRIP_ROWS].tolist())
    )
    return Strips(tuple(table.columns[j] for j in columns), tuple(strip_rows), scale.ticks(2), len(rows))


def _lines(table: TableLayout, rows: Indices, columns: Indices) -> Lines:
    low, high = (x[np.ix_(rows, columns)] for x in table.intervals)
    values, scale = table.values[np.ix_(rows, columns)], Scale.from_range(low, high)
    axis_scale = Scale(0.0, float(len(rows) - 1))

    def points(numbers: Floats) -> list[str]:
        return [f"{axis_scale.percent_of(i):g},{100 - scale.percent_of(x):g}" for i, x in enumerate(numbers.tolist())]

    lines = []
    for j, column in enumerate(columns.tolist()):
        # The outline goes along the upper ends and back along the lower ones.
        band = [*points(high[:, j]), *reversed(points(low[:, j]))]
        lines.append(ChartLine(table.columns[column], " ".join(points(values[:, j])), " ".join(band)))
    # Between two values of an attribute there is nothing to name.
    value_ticks = (t for t in axis_scale.ticks(6) if t.number == round(t.number))
    return Lines(tuple(lines), [(t.position, table.rows[rows[round(t.number)]][0]) for t in value_ticks], scale.ticks())
