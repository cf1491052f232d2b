"""Answers to questions as cards: numbers with their intervals, in words and on one axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pandas as pd

from fitnoise.interfaces.pages.charts import Scale
from fitnoise.messages import NOTHING, Translator, ValueKind
from fitnoise.reading.labelled_numbers import LabelledNumbers
from fitnoise.reading.layouts import decimals

NUMBERS, SHARES, POINTS = "numbers", "shares", "points"
"""The units of answers: numbers, shares of records, and differences of shares."""

NUMERIC = "iuf"
"""The kinds of NumPy's numbers that an axis has; the values of an attribute can also be texts."""


@final
@dataclass(frozen=True)
class AnswerRow:
    """A number in words, and its place on an axis.

    margin: The margin, if the interval has one; else None.
    ends: The ends of the interval in words.
    position: The place of the number in percent; None if it has none.
    span: The places of both ends.
    sign: The sign of all numbers in the interval; 0 if 0 is one of them.
    """

    labels: tuple[str, ...]
    text: str
    margin: str | None
    ends: tuple[str, str]
    position: float | None
    span: tuple[float, float]
    sign: int


@final
@dataclass(frozen=True)
class Answer:
    """The numbers of one answer.

    title: The conditions in words.
    headings: The names that break the numbers down.
    axis: The places of the axis in percent, with their texts; empty if the values are texts.
    zero: The place of 0, if the axis has it.
    unit: The unit: numbers, shares or percentage points.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[AnswerRow, ...]
    axis: tuple[tuple[float, str], ...]
    zero: float | None
    unit: str


def cards(
    results: Sequence[LabelledNumbers],
    frames: Sequence[pd.DataFrame],
    titles: Sequence[str],
    units: Sequence[str],
    language: Translator,
) -> list[Answer]:
    """Return a single answer, or both answers of a comparison on one axis, and their difference."""
    first_scale = common_scale(frames[:2], with_zero=len(frames) == len(frames[0]) == 1)
    # Of a difference a reader asks on which side of 0 it is.
    scales = [first_scale] if len(frames) == 1 else [first_scale, first_scale, common_scale(frames[2:], with_zero=True)]
    return [answer_of(*x, language) for x in zip(results, frames, scales, units, titles, strict=True)]


def common_scale(frames: Sequence[pd.DataFrame], *, with_zero: bool) -> Scale | None:
    """Return an axis with the intervals of some frames; None if their values are texts, or none is finite."""
    arrays = [np.asarray(x) for frame in frames for x in (frame["value"], *_ends(frame))]
    if not all(x.dtype.kind in NUMERIC for x in arrays):
        return None
    numbers = np.concatenate(arrays).astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return None
    if with_zero or numbers.min() == numbers.max():
        return Scale.from_range(numbers, numbers).widened()
    return Scale(float(numbers.min()), float(numbers.max())).widened()


def answer_of(
    numbers: LabelledNumbers, frame: pd.DataFrame, scale: Scale | None, unit: str, title: str, language: Translator
) -> Answer:
    """Return the numbers of a frame in words and on an axis, as many digits as their intervals need."""
    low, high = _ends(frame)
    factor = 1.0 if unit == NUMBERS else 100.0
    digits = 0 if scale is None else decimals(factor * (high - low).astype(np.float64) / 2)
    percent = "\u202f%" if unit == SHARES else ""

    def format_number(x: Any, digits: int = digits) -> str:
        if not isinstance(x, float):
            return language.kind(ValueKind.TEXT, x)
        return language.number(factor * x, digits) + percent if math.isfinite(x) else NOTHING

    def position_of(x: Any) -> float:
        # An open end is drawn at the border of the axis.
        return 0.0 if scale is None else scale.percent_of(min(max(x, scale.low), scale.high))

    table = numbers.table(frame)
    names = [*frame.columns[: frame.columns.get_loc("value")]]
    labels = [
        tuple(language.label(c.name, x) if isinstance(x, str) else language.kind(c.kind, x) for c, x in row)
        for row in ([(c, x) for c, x in row if c.name in names] for row in table.cells)
    ]
    headings = tuple(language.heading(c.heading) for c in table.columns if c.heading is not None and c.name in names)
    rows = []
    for i, (value, a, b) in enumerate(zip(frame["value"].tolist(), low.tolist(), high.tolist(), strict=True)):
        is_number = scale is not None and math.isfinite(value)
        rows.append(
            AnswerRow(
                labels[i],
                format_number(value),
                format_number((b - a) / 2) if "moe" in frame else None,
                (format_number(a), format_number(b)),
                position_of(value) if is_number else None,
                (position_of(a), position_of(b)),
                (a > 0) - (b < 0) if is_number else 0,
            )
        )
    ticks = [] if scale is None else scale.ticks()
    step = np.diff([x.number for x in ticks]) * factor
    tick_digits = max(0, -math.floor(math.log10(step.min()) + 1e-9)) if step.size else 0
    axis = tuple((x.position, format_number(float(x.number), tick_digits)) for x in ticks)
    zero = scale.percent_of(0.0) if scale is not None and scale.low <= 0 <= scale.high else None
    return Answer(title, headings, tuple(rows), axis, zero, unit)


def _ends(frame: pd.DataFrame) -> tuple[Any, Any]:
    """Return the ends of the intervals of a frame; for estimates, from their margins."""
    if "moe" in frame:
        return (frame["value"] - frame["moe"]).to_numpy(), (frame["value"] + frame["moe"]).to_numpy()
    return frame["low"].to_numpy(), frame["high"].to_numpy()
