"""What notebooks show of plans, releases, what readers ask of them, and comparisons: fragments of the pages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import singledispatch
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from fitnoise.errors import ReleaseError
from fitnoise.interfaces.pages.charts import Mark, Scale
from fitnoise.interfaces.pages.fragments import environment, fragment, report, shown, style
from fitnoise.interfaces.pages.words import words
from fitnoise.interfaces.reports.comparisons import comparison_report
from fitnoise.planning.choosing import Comparison
from fitnoise.planning.plan import Plan
from fitnoise.reading.combining import Combination
from fitnoise.reading.comparisons import Told
from fitnoise.reading.layouts import decimals, layout
from fitnoise.reading.release import Release
from fitnoise.reading.whole import Whole
from fitnoise.reporting import NOTHING

ROWS = 60
"""Rows of numbers that a notebook shows at most: of more, the first."""


def html(thing: object) -> str | None:
    """A thing in a notebook; None where Jinja2 is not installed, and its text is shown."""
    try:
        environment("en")
    except ReleaseError:
        return None
    return fragment("notebook", sheet=style(), inner=_inner(thing))


@singledispatch
def _inner(thing: object) -> str:
    """As it was escaped: what is no text but HTML."""
    raise TypeError(f"notebooks show no {type(thing).__name__}")


@_inner.register
def _(plan: Plan) -> str:
    return fragment("plan", plan=plan)


@_inner.register
def _(release: Release) -> str:
    first = [shown(layout(release, name), words("en"), release) for name in islice(release, 1)]
    return fragment("release", plan=release.plan, tables=first, names=[*release])


@_inner.register
def _(found: Comparison) -> str:
    publication = found.plan.publication
    return report(comparison_report(publication, found, publication.delta))


@_inner.register
def _(asked: Told) -> str:
    return _numbers(asked.frame(), list(asked.labels), asked.confidence, repr(asked))


@_inner.register
def _(found: Combination) -> str:
    return _first(found, found.releases[0].plan.publication.confidence)


@_inner.register
def _(found: Whole) -> str:
    return _first(found, found.release.plan.publication.confidence)


def _first(tables: Mapping[str, pd.DataFrame], confidence: float) -> str:
    """The first of some tables, and the names of all."""
    frame = tables[next(iter(tables))]
    names = [str(x) for x in frame.columns[: list(frame.columns).index("value")]]
    return _numbers(frame, names, confidence, repr(tables))


def _numbers(frame: pd.DataFrame, names: list[str], confidence: float, what: str) -> str:
    """Numbers with their intervals, a row each."""
    rows = frame.head(ROWS)
    low, high = _ends(rows)
    numbers = low.dtype == np.float64
    scale = _scale(low, high) if numbers else None
    digits = decimals((high - low) / 2) if numbers else 0
    told = words("en")

    def text(x: Any) -> str:
        if not isinstance(x, float):
            return str(x)
        return told.number(x, digits) if math.isfinite(x) else {math.inf: "∞", -math.inf: "−∞"}.get(x, NOTHING)

    lines = []
    for i, (value, *ends) in enumerate(zip(rows["value"].tolist(), low.tolist(), high.tolist(), strict=True)):
        mark = None
        if scale is not None and math.isfinite(value):
            at, zero, *places = (scale.at(min(max(x, scale.low), scale.high)) for x in (value, 0.0, *ends))
            mark = Mark(at, zero, (places[0], places[1]))
        labels = [str(rows[name].iloc[i]) for name in names]
        lines.append((labels, text(value), [text(x) for x in ends], mark))
    return fragment("numbers", names=names, lines=lines, of=len(frame), confidence=confidence, what=what)


def _ends(rows: pd.DataFrame) -> tuple[Any, Any]:
    """Of intervals: of estimates, what their margins make them."""
    if "moe" in rows:
        return (rows["value"] - rows["moe"]).to_numpy(), (rows["value"] + rows["moe"]).to_numpy()
    return rows["low"].to_numpy(), rows["high"].to_numpy()


def _scale(low: Any, high: Any) -> Scale:
    ends = np.concatenate([low, high])
    known = ends[np.isfinite(ends)]
    return Scale.over(known, known) if known.size else Scale(0.0, 1.0)
