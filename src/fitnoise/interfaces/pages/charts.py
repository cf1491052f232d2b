"""Where the marks of a chart are, in percent of its width and height: drawn by templates, as SVG, in any size.

Strips, a mark with its margin for each number of a small table; lines with a band of margins along an attribute with an
order; and ε over δ. All numbers of one chart have one scale, which starts at 0, but for δ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.reading.layouts import Label, Layout

ROWS = 24
"""Rows of strips at most: of more, the first."""

LINES = 6
"""Lines of a chart at most: as many as are told apart by their colours and dashes."""

LONG = 12
"""Values of an attribute with an order from which on they are drawn as a line."""

TIMES = 3
"""The same of the periods of a series."""


@final
@dataclass(frozen=True)
class Tick:
    """A place on a scale, in percent, and the number that belongs there."""

    at: float
    number: float


@final
@dataclass(frozen=True)
class Scale:
    """From numbers to percent."""

    low: float
    high: float

    @classmethod
    def over(cls, low: Floats, high: Floats) -> Scale:
        """All numbers from the least to the largest, and 0."""
        ends = min(0.0, float(low.min())), max(0.0, float(high.max()))
        return cls(*(ends if ends[0] < ends[1] else (0.0, 1.0)))

    def at(self, x: float) -> float:
        """Where a number is, in percent."""
        return round(100 * (x - self.low) / (self.high - self.low), 2)

    def ticks(self, about: int = 4) -> list[Tick]:
        """Round numbers, some so many."""
        raw = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(k * power for k in (1, 2, 5, 10) if k * power >= raw * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [Tick(self.at(i * step), i * step) for i in range(first, last + 1)]


@final
@dataclass(frozen=True)
class Mark:
    """A number on a scale: its place, that of 0, and of the ends of its margin, which biased numbers lack."""

    at: float
    zero: float
    ends: tuple[float, float] | None


@final
@dataclass(frozen=True)
class Strips:
    """Marks side by side. columns: what each is of. rows: labels, and a mark for each. of: how many rows there are."""

    columns: tuple[Label, ...]
    rows: tuple[tuple[tuple[Label, ...], tuple[Mark, ...]], ...]
    ticks: list[Tick]
    of: int


@final
@dataclass(frozen=True)
class Line:
    """A line: what it is of, its points and the outline of its margins as SVG has them, from 0 to 100 upside down."""

    label: Label
    points: str
    band: str


@final
@dataclass(frozen=True)
class Lines:
    """Lines over the values of one attribute. along: its values at some places, in percent. digits: of its ticks."""

    lines: tuple[Line, ...]
    along: list[tuple[float, Label]]
    ticks: list[Tick]
    digits: int = 0


def curve(delta: Floats, epsilon: Floats) -> Lines:
    """ε over δ, one power of ten as broad as another."""
    powers = np.log10(delta)
    along, scale = Scale(float(powers[0]), float(powers[-1])), Scale.over(epsilon, epsilon)
    points = (f"{along.at(x):g},{100 - scale.at(y):g}" for x, y in zip(powers.tolist(), epsilon.tolist(), strict=True))
    line = Line(Label(None), " ".join(points), "")
    ticks = scale.ticks()
    digits = max(0, -math.floor(math.log10(ticks[1].number) + 1e-9))
    return Lines((line,), [(t.at, Label(_power(round(t.number)))) for t in along.ticks(6)], ticks, digits)


def _power(n: int) -> str:
    return "10" + str(n).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def chart(table: Layout) -> Strips | Lines | None:
    """The chart that suits a table, of all but its totals; None where there would be too many lines."""
    rows = np.flatnonzero([all(x.text is not None for x in row) for row in table.rows])
    columns = np.arange(len(table.columns) - (table.columns[-1].text is None and len(table.columns) > 1))
    ordered = table.stubs[0].ordered if len(table.stubs) == 1 else 0
    if ordered >= (TIMES if ordered and table.stubs[0].periods else LONG):
        return _lines(table, rows[:ordered], columns) if len(columns) <= LINES else None
    return _strips(table, rows, columns)


def _strips(table: Layout, rows: Indices, columns: Indices) -> Strips:
    shown = np.ix_(rows[:ROWS], columns)
    low, high = (x[shown] for x in table.intervals)
    values, scale = table.values[shown], Scale.over(low, high)
    zero = scale.at(0.0)

    def mark(i: int, j: int) -> Mark:
        ends = None if table.biased else (scale.at(low[i, j]), scale.at(high[i, j]))
        return Mark(scale.at(values[i, j]), zero, ends)

    drawn = (
        (table.rows[row], tuple(mark(i, j) for j in range(len(columns)))) for i, row in enumerate(rows[:ROWS].tolist())
    )
    return Strips(tuple(table.columns[j] for j in columns), tuple(drawn), scale.ticks(2), len(rows))


def _lines(table: Layout, rows: Indices, columns: Indices) -> Lines:
    low, high = (x[np.ix_(rows, columns)] for x in table.intervals)
    values, scale = table.values[np.ix_(rows, columns)], Scale.over(low, high)
    along = Scale(0.0, float(len(rows) - 1))

    def points(numbers: Floats) -> list[str]:
        return [f"{along.at(i):g},{100 - scale.at(x):g}" for i, x in enumerate(numbers.tolist())]

    lines = []
    for j, column in enumerate(columns.tolist()):
        band = [*points(high[:, j]), *reversed(points(low[:, j]))]
        lines.append(Line(table.columns[column], " ".join(points(values[:, j])), " ".join(band)))
    whole = (t for t in along.ticks(6) if t.number == round(t.number))
    return Lines(tuple(lines), [(t.at, table.rows[rows[round(t.number)]][0]) for t in whole], scale.ticks())
