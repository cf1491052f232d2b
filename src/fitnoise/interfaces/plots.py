"""Pictures of what privacy costs: ρ against margins of error, ε against δ.

Matplotlib draws the figures: unlike Altair, it needs no browser and no JavaScript, and writes vector files itself. It
is the extra `fitnoise[plot]`, imported only when a figure is drawn. The figures do not use pyplot, so nothing global
changes and nothing needs closing. Lines differ by colour, by dashes and by markers. The colours are the palette of
Okabe and Ito, which colour-blind readers can distinguish. One version of Matplotlib writes the same file each time.
"""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fitnoise.errors import ReleaseError
from fitnoise.messages import english, translator
from fitnoise.planning.accounting import FIXED_IN_ADVANCE, Curve
from fitnoise.planning.files import replace_file
from fitnoise.planning.plan import Plan
from fitnoise.planning.what_if import FACTORS, Sweep, SweepProgress, privacy_curve, sweeps
from fitnoise.reading.refusals import missing_package
from fitnoise.reading.release_files import check_new_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9", "#7F7F7F")

DASHES = ("-", "--", "-.", ":")

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")

MAX_TABLES_DRAWN = 8
"""Largest number of tables in a figure of costs: as many as there are colours."""

MAX_LEGEND_CHARACTERS = 44
"""Characters of a table's name that a legend shows."""

MAX_TWO_COLUMN_CHARACTERS = 24
"""Characters of a name above which a legend has one column, not two."""

LEGEND_ROW_INCHES = 0.21
"""Height of a row of a legend, in inches."""

METADATA: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""The endings a figure can be saved under, and what keeps the day out of the file."""

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.titlesize": 12.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 24,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "legend.handlelength": 4,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "savefig.dpi": 160,
    "svg.fonttype": "none",
    "svg.hashsalt": "fitnoise",
    "pdf.fonttype": 42,
}
"""Settings over Matplotlib's defaults, in place of the user's. Text stays text in vector files."""


def cost_curve(sweeps: Sequence[Sweep]) -> Figure:
    """Draw ρ of a publication against the margin of error of each of some tables, both axes logarithmic.

    Args:
        sweeps: Sweeps, each drawn as one line with a marker per plan; a ring marks the current target. If the plans
            minimise another cost than ρ, that cost takes the place of ρ.

    Raises:
        ReleaseError: There is no sweep, or Matplotlib is not installed.

    **Guarantees**
        * Every marker is at a plan's own numbers.
        * The figure states the largest certified gap.
    """
    with _drawing():
        # The legend lies below the axes, so the figure grows by its rows and the axes keep their height.
        figure = _figure(7.0, 5.2 + LEGEND_ROW_INCHES * _rows(sweeps))
        _draw_costs(figure.add_subplot(), sweeps)
        return figure


def privacy_figure(plan: Plan) -> Figure:
    """Draw ε of a plan against δ, with δ on a logarithmic axis, and mark the publication's δ.

    Raises:
        ReleaseError: Matplotlib is not installed.
    """
    with _drawing():
        figure = _figure(7.0, 5.2 + LEGEND_ROW_INCHES * 3)
        _draw_privacy(figure.add_subplot(), plan)
        return figure


def account_figure(curves: Mapping[str, Curve], delta: float) -> Figure:
    """Draw ε against δ, with δ on a logarithmic axis, and mark the given δ.

    Each account has one line, for all its releases together.

    Raises:
        ReleaseError: There is no account, or Matplotlib is not installed.
    """
    if not curves:
        raise ReleaseError(
            "no-curve-known",
            "No account has a known curve of epsilon against delta.",
            "",
            "Leave the figure out.",
            "Nothing was drawn.",
        )
    # The given δ is one of the points, so that the legend states a point of the line.
    deltas = np.union1d(np.geomspace(min(1e-9, delta), max(1e-2, delta), 29), delta).tolist()
    with _drawing():
        figure = _figure(7.0, 5.2 + LEGEND_ROW_INCHES * (len(curves) + 1))
        axes = figure.add_subplot()
        lines, names = [], []
        for i, (name, curve) in enumerate(curves.items()):
            colour, dash = COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)]
            epsilons = {d: curve.epsilon(d) for d in deltas}
            lines += axes.plot(deltas, list(epsilons.values()), color=colour, linestyle=dash)
            short = _short(name, MAX_LEGEND_CHARACTERS)
            names.append(_text("page.figure.account", name=short, epsilon=f"{epsilons[delta]:.3g}", delta=f"{delta:g}"))
        here = axes.axvline(delta, color="#333333", linestyle=":", linewidth=1.4)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_title(_text("page.figure.together") + f"\n{english(FIXED_IN_ADVANCE)}")
        axes.set_xlabel(_text("page.figure.delta"))
        axes.set_ylabel(_text("page.figure.epsilon"))
        _legend(axes, [*lines, here], [*names, _text("page.figure.delta_of_table")])
        return figure


def plan_figure(plan: Plan, sweeps: Sequence[Sweep]) -> Figure:
    """Draw costs and privacy side by side, under the publication's title if it has one.

    Without sweeps the figure shows the privacy alone, without a title.

    Raises:
        ReleaseError: Matplotlib is not installed.
    """
    if not sweeps:
        return privacy_figure(plan)
    with _drawing():
        figure = _figure(13.5, 5.4 + LEGEND_ROW_INCHES * _rows(sweeps))
        cost_axes, privacy_axes = figure.subplots(1, 2)
        _draw_costs(cost_axes, sweeps)
        _draw_privacy(privacy_axes, plan)
        if plan.publication.title.strip():
            title = figure.suptitle(_short(plan.publication.title, 100), x=0.01, ha="left", fontsize=14)
            # A title is a text of the publisher: between two dollar signs Matplotlib would read a formula.
            title.set_parse_math(False)
        return figure


def report_figure(plan: Plan, *, progress: SweepProgress | None = None) -> Figure:
    """Draw the costs of a plan: its costliest tables at half to twice their margins, and its ε.

    Args:
        plan: The plan. Under a budget no target changes the cost, and the figure shows the privacy alone.
        progress: Function that receives the number of the plan, the number of plans, its iteration and its gap.

    Raises:
        ReleaseError: Matplotlib is not installed; nothing was planned then.
        PlanError: A target is out of reach of exact 64-bit noise.

    **Guarantees**
        * The function reads no data.
        * Every point is a certified plan, at the gap stated in the figure.
    """
    # Matplotlib may be missing: refused now, and not after minutes of planning.
    with _drawing():
        pass
    if plan.publication.budget is not None:
        return privacy_figure(plan)
    # The costliest tables are those whose margins can lower the price.
    costliest_tables = (-plan.table_part.price_shares).argsort(kind="stable")[:MAX_TABLES_DRAWN]
    names = [plan.publication.workload.tables[int(i)].name for i in costliest_tables]
    return plan_figure(plan, sweeps(plan, names, FACTORS, gap=None, progress=progress))


def check_place(path: str | Path, *, replace: bool = False) -> str:
    """Return the format of a figure by the ending of its path, "png", "svg" or "pdf", if the path can be written.

    Args:
        path: The path of the figure.
        replace: True if an existing file may be replaced.

    Raises:
        ReleaseError: The name has another ending. The path is a folder, or a file that may not be replaced. Or the
            folder of the path is missing or not writable.
    """
    target = Path(path)
    kind = target.suffix[1:].lower()
    if kind not in METADATA:
        raise ReleaseError(
            "unknown-figure-format",
            f"The figure is to be written as {target.name!r}.",
            "A figure is written as .png, .svg or .pdf, by the ending of its name.",
            "Choose a name with one of these endings.",
            "Nothing was written.",
            place=target.name,
        )
    check_new_file(target, replaces=replace)
    return kind


def save(figure: Figure, path: str | Path, *, replace: bool = False) -> Path:
    """Write a figure as PNG, SVG or PDF, by the ending of the name.

    Args:
        figure: A Matplotlib figure.
        path: Place of the file.
        replace: True if an existing file may be replaced.

    Returns:
        The path.

    Raises:
        ReleaseError: The name has another ending. The path is a folder, or a file that may not be replaced. Or the
            path cannot be written.

    **Guarantees**
        * The file is complete or absent: the function draws it in memory, writes it next to its place and moves it.
        * The same figure gives the same bytes with one version of Matplotlib.
    """
    target = Path(path)
    kind = check_place(target, replace=replace)
    # Drawn into memory first: an error of Matplotlib then leaves no half of a file.
    buffer = io.BytesIO()
    with _drawing():
        figure.savefig(buffer, format=kind, metadata=METADATA[kind])
    replace_file(target, buffer.getvalue())
    return target


_STYLING = threading.RLock()
"""Lock for the time in which fitnoise changes the settings of Matplotlib.

The process has one set of settings, and two threads would mix them.
"""


@contextlib.contextmanager
def _drawing() -> Iterator[None]:
    """Draw in the style of fitnoise; afterwards the settings of the user apply again.

    Raises:
        ReleaseError: Matplotlib is not installed.
    """
    try:
        from matplotlib import style
    except ImportError:
        raise missing_package("Figures", "Matplotlib", "plot", "Nothing was drawn.") from None
    with _STYLING, style.context(["default", STYLE]):
        yield


_text = translator("en").translate


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    # Made without pyplot, which would keep every figure in memory, and open windows.
    return Figure(figsize=(width, height), layout="constrained")


def _draw_costs(axes: Axes, sweeps: Sequence[Sweep]) -> None:
    if not sweeps:
        raise ReleaseError(
            "no-sweep-to-draw",
            "There is no sweep to draw.",
            "A cost curve needs at least one sweep.",
            "Give a sweep.",
            "Nothing was drawn.",
        )
    lines = []
    for i, sweep in enumerate(sweeps):
        # After the last colour, dashes and markers shift by one: no two lines look the same.
        turn = i // len(COLOURS)
        lines += axes.plot(
            [p.target_moe for p in sweep.points],
            [p.value for p in sweep.points],
            color=COLOURS[i % len(COLOURS)],
            linestyle=DASHES[(i + turn) % len(DASHES)],
            marker=MARKERS[(i + turn) % len(MARKERS)],
        )
    # Drawn after all lines, so that no line hides the ring around a present target.
    rings = axes.plot(
        [s.current.target_moe for s in sweeps],
        [s.current.value for s in sweeps],
        linestyle="none",
        marker="o",
        markersize=13,
        markerfacecolor="none",
        markeredgecolor="#333333",
        markeredgewidth=1.4,
    )
    points = [p for s in sweeps for p in (*s.points, s.current)]
    axes.set(xscale="log", yscale="log")
    _ticks(axes.xaxis, [p.target_moe for p in points])
    _ticks(axes.yaxis, [p.value for p in points])
    axes.set_title(_text("page.figure.costs"))
    _subtitle(axes, _text("page.figure.certified", gap=f"{max(p.gap for p in points):.1e}"))
    levels = sorted({s.confidence for s in sweeps})
    if len(levels) == 1:
        axes.set_xlabel(_text("page.figure.margin", level=f"{100 * levels[0]:g} %"))
    else:
        axes.set_xlabel(_text("page.figure.margin_by_table"))
    pure = all(p.value == p.rho for p in points)
    axes.set_ylabel(_text("page.figure.rho") if pure else _text("page.figure.objective"))
    names = [_short(s.table, MAX_LEGEND_CHARACTERS) for s in sweeps] + [_text("page.figure.present_target")]
    _legend(axes, lines + rings, names, columns=_columns(sweeps))


def _draw_privacy(axes: Axes, plan: Plan) -> None:
    curve = privacy_curve(plan)
    delta, unit = plan.publication.delta, plan.publication.unit
    (line,) = axes.plot(curve.delta, curve.epsilon, color=COLOURS[0], linestyle="-")
    here = axes.axvline(delta, color="#333333", linestyle=":", linewidth=1.4)
    axes.plot([delta], [plan.epsilon()], color=COLOURS[0], marker="o", markersize=8)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0, top=1.05 * float(curve.epsilon.max()))
    axes.set_title(_text("page.figure.guarantee"))
    _subtitle(axes, _text("page.figure.unit", rho=f"{plan.rho:.4g}", unit=_short(unit.describe(), 60)))
    axes.set_xlabel(_text("page.figure.delta"))
    axes.set_ylabel(_text("page.figure.epsilon"))
    guaranteed = _text("page.figure.guaranteed", epsilon=f"{plan.epsilon():.3g}", delta=f"{delta:g}")
    _legend(axes, [line, here], [guaranteed, _text("page.figure.delta_of_publication")])


def _ticks(axis: Axis, values: Sequence[float]) -> None:
    """Put plain numbers along a logarithmic axis: evenly spaced within a decade; 1, 2, 5 or powers of ten beyond."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    # Matplotlib labels powers of ten only: most sweeps go from half to double, and would have one label or none.
    span = max(values) / min(values)
    steps = LogLocator(subs=(1, 2, 5) if span < 1000 else (1,))
    axis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]) if span < 10 else steps)
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_locator(NullLocator())


def _subtitle(axes: Axes, text: str) -> None:
    annotation = axes.annotate(
        text, (0, 1), xycoords="axes fraction", xytext=(0, 8), textcoords="offset points", fontsize=10, color="#444444"
    )
    annotation.set_parse_math(False)


def _columns(sweeps: Sequence[Sweep]) -> int:
    return 2 if len(sweeps) > 3 and max(len(s.table) for s in sweeps) <= MAX_TWO_COLUMN_CHARACTERS else 1


def _rows(sweeps: Sequence[Sweep]) -> int:
    return -(-(len(sweeps) + 1) // _columns(sweeps))


def _legend(axes: Axes, handles: Sequence[Any], names: Sequence[str], columns: int = 1) -> None:
    """Draw the legend below the label of the horizontal axis, for any height of the axes."""
    from matplotlib.transforms import ScaledTranslation

    # In inches and not in parts of the axes: the label of the axis has one height in figures of any size.
    below = axes.transAxes + ScaledTranslation(0, -0.6, axes.figure.dpi_scale_trans)
    legend = axes.legend(
        handles,
        [str(i) for i in range(len(names))],
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=below,
        borderaxespad=0,
        ncols=columns,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)  # a name is a name, with its dollar signs and underscores
        text.set_text(name)


def _short(name: str, longest: int) -> str:
    line = " ".join(name.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
