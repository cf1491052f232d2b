"""Notebook views of requests, plans, releases, answers to readers, and comparisons: fragments of the pages."""

from __future__ import annotations

import math
from functools import singledispatch
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from fitnoise.errors import ReleaseError
from fitnoise.interfaces.pages.charts import Mark, Scale
from fitnoise.interfaces.pages.fragments import environment, fragment, render_table, report, style
from fitnoise.interfaces.reports.comparisons import comparison_report
from fitnoise.interfaces.reports.requests import domain_report, workload_report
from fitnoise.messages import NOTHING, english, translator
from fitnoise.planning.comparison import Comparison
from fitnoise.planning.plan import Plan
from fitnoise.reading.derived_tables import DerivedTables
from fitnoise.reading.description import statistic
from fitnoise.reading.labelled_numbers import LabelledNumbers
from fitnoise.reading.layouts import Tabled, decimals, layout, publication_of
from fitnoise.reading.release import Release
from fitnoise.request.domain import Domain
from fitnoise.request.workloads import Workload

MAX_ROWS = 60
"""The largest number of rows that a notebook shows of an answer or of a large table; if there are more, the first."""

MAX_TABLES = 20
"""The largest number of tables that a notebook shows; all except the first are folded."""

MAX_NUMBERS = 5_000
"""The largest number of numbers in these tables."""


def html(thing: object) -> str | None:
    """Return the HTML of a thing in a notebook; None if Jinja2 is not installed, and its text is shown."""
    try:
        # Tried before anything is laid out: without Jinja2 a notebook shows the text, which needs none of it.
        environment("en")
    except ReleaseError:
        return None
    return fragment("notebook", sheet=style(), inner=_inner(thing))


@singledispatch
def _inner(thing: object) -> str:
    """Return HTML that is escaped already."""
    raise TypeError(f"notebooks show no {type(thing).__name__}")


@_inner.register
def _(domain: Domain) -> str:
    return report(domain_report(domain))


@_inner.register
def _(workload: Workload) -> str:
    return report(workload_report(workload))


@_inner.register
def _(plan: Plan) -> str:
    return fragment("plan", plan=plan)


@_inner.register
def _(release: Release) -> str:
    return fragment("release", plan=release.plan, inner=_tables(release))


@_inner.register
def _(comparison: Comparison) -> str:
    publication = comparison.plan.publication
    return report(comparison_report(publication, comparison, publication.delta))


@_inner.register
def _(numbers: LabelledNumbers) -> str:
    return _numbers(numbers.frame(), list(numbers.labels), numbers.confidence, numbers.summary, numbers.universe)


@_inner.register
def _(tables: DerivedTables) -> str:
    return _tables(tables)


def _tables(source: Tabled) -> str:
    """Return the first tables, all except one folded, up to :data:`MAX_NUMBERS` numbers, and the names of all."""
    views, numbers = [], 0
    for name in islice(source, MAX_TABLES):
        publication = publication_of(source, name)
        # From the shape alone: a table that is too large is not rebuilt to find that out.
        numbers += math.prod(publication.workload[name].shape(publication.domain))
        if numbers > MAX_NUMBERS:
            break
        views.append(render_table(layout(source, name), translator("en"), source))
    rows = ""
    # The first table alone is too large: its first rows are shown.
    if not views and len(source) and "value" in (frame := source[name]):
        level = publication.workload[name].target.level(publication.workload.confidence)
        labels = [str(x) for x in frame.columns[: frame.columns.get_loc("value")]]
        rows = _numbers(frame, labels, level, name, english(*statistic(publication.workload[name], publication.domain)))
    return fragment("folded", tables=views, rows=rows, names=[*source])


def _numbers(frame: pd.DataFrame, names: list[str], confidence: float, what: str, records: str) -> str:
    """Return numbers with their intervals, a row each. records: the records that they count."""
    rows = frame.head(MAX_ROWS)
    low, high = _ends(rows)
    numbers = low.dtype == np.float64
    scale = _scale(low, high) if numbers else None
    digits = decimals((high - low) / 2) if numbers else 0
    language = translator("en")

    def text(x: Any) -> str:
        if not isinstance(x, float):
            return str(x)
        return language.number(x, digits) if math.isfinite(x) else {math.inf: "∞", -math.inf: "−∞"}.get(x, NOTHING)

    lines = []
    for i, (value, *ends) in enumerate(zip(rows["value"].tolist(), low.tolist(), high.tolist(), strict=True)):
        mark = None
        if scale is not None and math.isfinite(value):
            # An end beyond the scale is drawn at the border, so that an open interval reaches it.
            cell, zero, *places = (scale.percent_of(min(max(x, scale.low), scale.high)) for x in (value, 0.0, *ends))
            mark = Mark(cell, zero, (places[0], places[1]))
        labels = [str(rows[name].iloc[i]) for name in names]
        lines.append((labels, text(value), [text(x) for x in ends], mark))
    return fragment(
        "numbers", names=names, lines=lines, of=len(frame), confidence=confidence, what=what, records=records
    )


def _ends(rows: pd.DataFrame) -> tuple[Any, Any]:
    """Return the ends of intervals; for estimates, from their margins."""
    if "moe" in rows:
        return (rows["value"] - rows["moe"]).to_numpy(), (rows["value"] + rows["moe"]).to_numpy()
    return rows["low"].to_numpy(), rows["high"].to_numpy()


def _scale(low: Any, high: Any) -> Scale:
    ends = np.concatenate([low, high])
    # Open intervals have infinite ends, which no scale can show.
    known_margins = ends[np.isfinite(ends)]
    return Scale.from_range(known_margins, known_margins) if known_margins.size else Scale(0.0, 1.0)
