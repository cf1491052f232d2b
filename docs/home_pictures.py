"""The three pictures of the home page: targets, the least cost, and released numbers, from the Python of that page."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fitnoise as fn

PAGE = Path(__file__).parent / "index.md"

FACTORS = (0.5, 0.6, 0.7, 0.85, 1.0, 1.3, 1.6, 2.0)
"""Margins at which the second picture shows the least cost, as multiples of the table's own."""

STYLE = """<style>
.three { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: 1rem; margin: 1.5rem 0; }
.three figure { margin: 0; padding: 0.75rem 1rem; border: 1px solid var(--color-background-border); }
.three figcaption { text-align: left; margin: 0 0 0.75rem; font-style: normal; color: inherit; }
.three svg { width: 100%; height: auto; display: block; }
.three text { fill: currentColor; font: 12px var(--font-stack); }
.three .line { stroke: var(--color-brand-content); fill: none; stroke-width: 2; }
.three .point { fill: var(--color-brand-content); }
.three .below { fill: currentColor; fill-opacity: 0.12; }
</style>"""


def pictures() -> Iterator[str]:
    """Yield the lines of the pictures. None is empty: an empty line ends HTML in Markdown."""
    python, printed = re.findall(r"^```(?:python|text)\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(python.partition("release = ")[0], names)  # noqa: S102 - our own document
    rows = re.findall(r"^\d +(\w+) +\d+ +([\d.]+) +[\d.]+ +([\d.]+)$", printed, re.MULTILINE)
    released = [(label, round(float(value)), round(float(margin))) for label, value, margin in rows]
    yield from STYLE.splitlines()
    yield '<div class="three">'
    yield from _figure("1. State who is protected, your tables, and their margins of error.", _targets(released))
    yield from _figure(
        "2. fitnoise finds the least privacy cost, and proves it. It reads no data.", _cost_curve(names["plan"])
    )
    yield from _figure("3. Release once. Each number has its margin of error.", _numbers(released))
    yield "</div>"


def _figure(caption: str, drawing: tuple[str, str]) -> Iterator[str]:
    """Yield a drawing, which is its meaning in words and its parts."""
    meaning, parts = drawing
    svg = f'<svg role="img" viewBox="0 0 240 150" aria-label="{meaning}">{parts}</svg>'
    yield f"<figure><figcaption>{caption}</figcaption>{svg}</figure>"


def _targets(released: list[tuple[str, int, int]]) -> tuple[str, str]:
    """Return a row for each label, with its margin as a line to both sides of an unknown number."""
    bar = "h60m-60 -6v12m60 -12v12"
    parts = (
        _row(y, label, f'<path class="line" d="M110 {y}{bar}"/>', margin) for y, label, _, margin in _rows(released)
    )
    return f"Four numbers are to be published: {', '.join(label for label, _, _ in released)}, each ±15.", "".join(
        parts
    )


def _cost_curve(plan: fn.Plan) -> tuple[str, str]:
    """Return the least cost over the margin of the table `status`. Below the curve there is no such noise."""
    points = fn.what_if.sweep(plan, "status", FACTORS, gap=1e-3).points
    low, high, top = points[0].target_moe, points[-1].target_moe, points[0].rho
    curve = [(10 + 220 * (p.target_moe - low) / (high - low), 120 - 110 * p.rho / top) for p in points]
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in curve)
    x, y = curve[FACTORS.index(1.0)]
    meaning = f"The curve of the least privacy cost over the margin of error. At ±15 the cost is ρ = {plan.rho:.4f}."
    return meaning, (
        f'<path class="below" d="M{line}L230 120L10 120z"/><path class="line" d="M{line}"/>'
        f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'
        f'<text x="{x:.1f}" y="{y - 14:.1f}">ρ {plan.rho:.4f} at ±15</text>'
        '<text x="120" y="112" text-anchor="middle">no such noise costs less</text>'
        '<text x="230" y="142" text-anchor="end">margin of error</text>'
    )


def _numbers(released: list[tuple[str, int, int]]) -> tuple[str, str]:
    """Return a row for each label, with the number that was released and its margin."""
    parts = (
        _row(y, label, f'<text x="170" y="{y + 5}" text-anchor="end">{value:,}</text>', margin)
        for y, label, value, margin in _rows(released)
    )
    return "; ".join(f"{label} {value:,} ±{margin}" for label, value, margin in released), "".join(parts)


def _rows(released: list[tuple[str, int, int]]) -> Iterator[tuple[int, str, int, int]]:
    """Yield the height of each row before its label, number and margin."""
    for i, row in enumerate(released):
        yield 20 + 36 * i, *row


def _row(y: int, label: str, middle: str, margin: int) -> str:
    """Return a label, a drawing, and a margin."""
    return f'<text x="0" y="{y + 5}">{label}</text>{middle}<text x="196" y="{y + 5}">±{margin}</text>'
