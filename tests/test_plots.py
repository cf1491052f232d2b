"""Figures show the numbers they were given, and are written completely or not at all."""

import builtins
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from fractions import Fraction

import matplotlib as mpl
import numpy as np
import pytest

import fitnoise as fn
import reference as ref
import zoo
from conftest import zoo_plan
from fitnoise.interfaces import plots
from fitnoise.planning import what_if
from fitnoise.request.publication import Goal, Objective
from refused import refused

NASTY = "_odd $x_1$ & <b> name"


def legend(axes):
    return [t.get_text() for t in axes.get_legend().get_texts()]


def texts(axes):
    return [axes.get_title(loc="left"), *(t.get_text() for t in axes.texts), axes.get_xlabel(), axes.get_ylabel()]


@pytest.fixture(scope="module")
def sweeps():
    return what_if.sweeps(zoo_plan("marginals"), factors=[0.5, 0.8, 1, 3])


def test_cost_curves_plot_the_sweeps(sweeps):
    (axes,) = plots.cost_curve(sweeps).axes
    *lines, rings = axes.get_lines()
    for line, sweep in zip(lines, sweeps, strict=True):
        assert line.get_xdata().tolist() == [p.target_moe for p in sweep.points]
        assert line.get_ydata().tolist() == [p.rho for p in sweep.points]
    assert rings.get_xdata().tolist() == [s.current.target_moe for s in sweeps]
    assert rings.get_ydata().tolist() == [s.current.rho for s in sweeps]
    assert len({(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}) == len(lines)
    assert len({line.get_linestyle() for line in lines}) == len({line.get_marker() for line in lines}) == len(lines)
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert legend(axes) == [*(s.table for s in sweeps), "present target"]
    text = " ".join(texts(axes))
    worst = max(p.gap for s in sweeps for p in (*s.points, s.current))
    for phrase in (f"gap of {worst:.1e}", "± records, at 95 % confidence", "ρ, zCDP"):
        assert phrase in text


def test_what_was_minimised_is_drawn_where_it_is_not_rho():
    publication = fn.Publication(zoo.crossed(), objective=Objective(Goal.HYBRID, total_error_weight=0.01))
    sweep = what_if.sweep(publication, "age", [0.5, 1])
    (axes,) = plots.cost_curve([sweep]).axes
    assert axes.get_lines()[0].get_ydata().tolist() == [p.value for p in sweep.points]
    assert axes.get_ylabel() == "Half of the minimised objective"


def test_different_confidences_are_stated(sweeps):
    (axes,) = plots.cost_curve([sweeps[0], replace(sweeps[1], confidence=0.5)]).axes
    assert "at the confidence of its table" in axes.get_xlabel()


@pytest.mark.parametrize("factors", [[1], [1, 1.01], [0.5, 20], [1e-3, 1e3]])
def test_axes_have_plain_numbers(factors):
    figure = plots.cost_curve([what_if.sweep(zoo_plan("one table"), "c by a", factors)])
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        numbers = [
            float(t.get_text()) for t in axis.get_ticklabels() if low <= t.get_position()[axis is axes.yaxis] <= high
        ]
        assert 1 <= len(numbers) <= 16
        assert all(low * 0.999 <= x <= high * 1.001 for x in numbers)


def test_privacy_is_drawn_at_the_publication_s_delta():
    plan = fn.plan(zoo.crossed(), delta=1e-7, unit=fn.PrivacyUnit("person", 2))
    (axes,) = plots.privacy_figure(plan).axes
    curve = what_if.privacy_curve(plan)
    line, here, *marks = axes.get_lines()
    assert np.array_equal(line.get_xydata(), np.column_stack([curve.delta, curve.epsilon]))
    assert set(here.get_xdata()) == {1e-7}
    points = [m.get_xydata().tolist() for m in marks]
    assert points == [[[1e-7, plan.epsilon()]]]
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylim()[0]) == ("log", "linear", 0)
    assert legend(axes)[0] == f"guaranteed: ε = {plan.epsilon():.3g} at δ = 1e-07"
    assert "one person (at most 2 records)" in " ".join(texts(axes))


@pytest.mark.slow
def test_a_report_shows_the_costliest_tables_and_counts_its_plans():
    plan = fn.plan(fn.Publication(ref.cps(), title=f"{NASTY} 2024"))
    reports = []
    figure = plots.report_figure(plan, progress=lambda *a: reports.append(a))
    axes_left, right = figure.axes
    ranked = [t.name for t in sorted(plan.table_part.tables, key=lambda t: -t.price)]
    assert legend(axes_left) == [*ranked, "present target"]
    assert all(len(line.get_xdata()) == 7 for line in axes_left.get_lines()[:-1])
    assert right.get_xlabel() == "δ (a probability)"
    assert figure.get_suptitle() == f"{NASTY} 2024"
    assert {(k, n) for k, n, _, _ in reports} == {(k, 30) for k in range(1, 31)}


def test_a_report_under_a_budget_is_its_privacy():
    plan = fn.plan(zoo.crossed(), budget=fn.Budget(rho=Fraction(1, 100)))
    (axes,) = plots.report_figure(plan).axes
    assert axes.get_xlabel() == "δ (a probability)"
    assert len(plots.plan_figure(plan, []).axes) == 1


def many():
    domain = fn.Domain({f"a{i}": fn.Ordered(0, i + 1) for i in range(10)})
    tables = [fn.table(f"a{i}", margin=1 + i, name=f"{NASTY} {'long ' * i}{i}") for i in range(10)]
    return fn.plan(fn.Workload(domain, tables))


def test_names_are_not_markup_and_nothing_overlaps(tmp_path):
    """Ten tables with long names: two letters of a legend never meet, nor the legend and the label above it."""
    plan = many()
    sweeps = what_if.sweeps(plan, factors=[0.5, 1])
    figure = plots.cost_curve(sweeps)
    (axes,) = figure.axes
    lines = axes.get_lines()[:-1]
    assert len({(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}) == 10
    figure.draw_without_rendering()
    assert len(plots.report_figure(plan).axes[0].get_lines()) == plots.MAX_TABLES_DRAWN + 1
    boxes = [t.get_window_extent() for t in (*axes.get_legend().get_texts(), axes.xaxis.label)]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert all(figure.bbox.x0 <= b.x0 and b.x1 <= figure.bbox.x1 and b.y0 >= figure.bbox.y0 for b in boxes)
    assert axes.get_position().height > 0.4
    svg = plots.save(figure, tmp_path / "many.svg").read_text()
    assert "_odd $x_1$ &amp; &lt;b&gt; name 0" in svg
    assert max(len(t) for t in legend(axes)) == plots.MAX_LEGEND_CHARACTERS


def test_files_are_what_their_ending_says(sweeps, tmp_path):
    figure = plots.cost_curve(sweeps)
    assert plots.save(figure, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert plots.save(figure, str(tmp_path / "a.PDF")).read_bytes().startswith(b"%PDF-")
    root = ET.parse(plots.save(figure, tmp_path / "a.svg")).getroot()  # noqa: S314 - drawn here
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    texts_in_svg = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"present target", "a by b", "Cost of the accuracy of each table"} <= set(texts_in_svg)  # text stays text
    assert {p.name for p in tmp_path.iterdir()} == {"a.png", "a.PDF", "a.svg"}


@pytest.mark.parametrize("ending", plots.METADATA)
def test_the_same_figure_is_the_same_file(sweeps, tmp_path, ending):
    files = []
    for i, style in enumerate(({}, {"font.size": 30, "lines.linewidth": 9, "svg.hashsalt": "mine"})):
        with mpl.rc_context(style):
            figure = plots.plan_figure(zoo_plan("marginals"), sweeps)
            files.append(plots.save(figure, tmp_path / f"{i}.{ending}").read_bytes())
    assert files[0] == files[1]
    assert b"<dc:date>" not in files[0]
    assert b"CreationDate" not in files[0]


def test_nothing_global_changes(sweeps, tmp_path):
    before, pyplot = dict(mpl.rcParams), "matplotlib.pyplot" in sys.modules
    plots.save(plots.plan_figure(zoo_plan("marginals"), sweeps), tmp_path / "a.png")
    assert dict(mpl.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == pyplot


def test_places_where_nothing_is_written(sweeps, tmp_path):
    figure = plots.cost_curve(sweeps)
    for name in ("a.jpg", "a", ".png"):
        with refused("release.unknown-figure-format"):
            plots.save(figure, tmp_path / name)
    with refused("release.folder-not-writable"):
        plots.save(figure, tmp_path / "away" / "a.png")
    (tmp_path / "a.png").write_text("mine")
    with refused("release.place-exists"):
        plots.save(figure, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_text() == "mine"
    plots.save(figure, tmp_path / "a.png", replace=True)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "b.png").mkdir()
    with refused("release.place-exists"):
        plots.save(figure, tmp_path / "b.png", replace=True)


def test_a_write_that_fails_leaves_what_was_there(sweeps, tmp_path, monkeypatch):
    path = tmp_path / "a.svg"
    path.write_text("mine")

    def full(self, data):
        with self.open("wb") as file:
            file.write(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with refused("release.place-not-writable"):
        plots.save(plots.cost_curve(sweeps), path, replace=True)
    assert [p.name for p in tmp_path.iterdir()] == ["a.svg"]
    assert path.read_text() == "mine"


def test_without_matplotlib_it_says_what_to_install(sweeps, monkeypatch):
    """And says so before anything is planned."""
    real = builtins.__import__

    def missing(name, *rest):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    monkeypatch.setattr(plots, "sweeps", lambda *a, **k: pytest.fail("planned"))
    plan = zoo_plan("marginals")
    for draw in (
        lambda: plots.cost_curve(sweeps),
        lambda: plots.privacy_figure(plan),
        lambda: plots.report_figure(plan),
    ):
        with refused("release.package-missing"):
            draw()


def test_a_curve_of_nothing_is_refused():
    with refused("release.no-sweep-to-draw"):
        plots.cost_curve([])
