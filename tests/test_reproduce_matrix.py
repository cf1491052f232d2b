"""The command that regenerates the matrix mechanism paper: its numbers, its programs, and what it writes."""

import csv
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from fitnoise_lab import gallery, strategies
from tolerances import EXACT

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import reproduce_matrix_mechanism as reproduce


def make_tables(folder, *keys, largest=8):
    """The rows of each item, by file."""
    reproduce.main(["-o", str(folder), "--only", *keys, "--largest", str(largest), "--starts", "4", "--steps", "3"])
    tables = {}
    for path in folder.glob("*.csv"):
        with path.open(encoding="utf-8") as file:
            tables[path.stem] = list(csv.DictReader(file))
    return tables


def test_every_item_is_written_but_the_slow(tmp_path, capsys):
    keys = [k for k in reproduce.ORDER if k not in {"5.1", "5.3", "5.16", "5.16b"}]
    tables = make_tables(tmp_path, *keys)
    output = capsys.readouterr().out
    assert set(tables) == {"item_" + k.replace(".", "_") for k in keys}
    for name in tables:
        assert (tmp_path / f"{name}.md").read_text(encoding="utf-8") in output
    assert (tmp_path / "item_6_30.png").read_bytes().startswith(b"\x89PNG")
    assert [float(r["largest, ranges"]) for r in tables["item_6_30"]] == pytest.approx(
        [8, 20.571429, 18, 16, 46.933333, 38], abs=6e-7
    )
    assert {r["coefficients"] for r in tables["item_F2"]} >= {"3 5 -2 13 -8 -1 -1", "1 -1 0 -2"}
    assert [r["eigenvalue: times"] for r in tables["item_T1"]][2:] == ["1: 4, 3: 2, 7: 1, 15: 1", "2: 4, 4: 2, 8: 2"]


@pytest.mark.slow
def test_program_5_3_comes_near_the_closed_form():
    """For H₄ from forty starts, weight 3, with the rank closed: 2.577935 is known, and the best is 0.1 % above at most.

    Which start ends where is a matter of rounding, and not the same on every processor.
    """
    pytest.importorskip("cvxpy")
    profile = strategies.profile(reproduce.MAKE["H"](4)).astype(float)
    ends = []
    for seed in range(40):
        result = reproduce.program_5_3(profile, reproduce.turned(profile, np.random.default_rng(seed)), weight=3)
        if abs(result.residual) < 1e-6:
            ends.append(float(strategies.sensitivity(reproduce.made_exact(result.strategy, profile))))
    assert len(ends) > 30
    assert 2.577935 - 2e-6 < min(ends) < 2.580285 + 2e-6


def test_the_constant_of_theorem_5_22(tmp_path):
    """Against exact calibration: 6.50 times the variance at ε = 1, δ = 1e-6, and never less than 4.8."""
    rows = make_tables(tmp_path, "5.22")["item_5_22"]
    by_budget = {(float(r["ε"]), float(r["δ"])): r for r in rows}
    paper, exact, ratio = (float(x) for x in list(by_budget[1, 1e-6].values())[2:5])
    assert (paper, exact, ratio) == pytest.approx((10.773545, 4.224679, 6.503240), abs=6e-7)
    assert [round(float(r["variance, paper over exact"]), 2) for r in rows] == [8.81, 7.15, 9.17, 6.50, 5.67, 4.83]
    thresholds = [round(float(r["Laplace is better below a ratio of"]), 2) for r in rows]
    assert thresholds == [6.59, 8.12, 3.31, 8.92, 15.1, 12.01]
    assert paper**2 / 2 == pytest.approx(4 * math.log(2e6), rel=1e-6)  # what the paper's own constant would say: 58


def test_relaxing_privacy_does_not_always_help():
    """Section 5.2.1: at ε = 1, δ = 1e-6 the identity, pure, has less total error on 64 prefixes than the best Gaussian.

    With exact calibration the Gaussian costs σ² · L2 optimum, and 7.4 is below the threshold of 8.92.
    """
    g = reproduce.GRAMS["prefixes"](64)
    best = reproduce.l2_optimum(g)
    gaussian = best.bound * 4.224679**2
    assert strategies.total_error(strategies.identity(64), gram=g) < gaussian
    assert strategies.best_tree(gram=g).total_error < 0.5 * gaussian


@pytest.mark.parametrize(
    ("name", "n", "value"),
    [
        ("prefixes", 4, 6.874144),
        ("prefixes", 8, 17.866177),
        ("prefixes", 16, 45.6653568),
        ("ranges", 4, 16.440887),
        ("ranges", 8, 80.464265),
        ("ranges", 16, 413.140217),
    ],
)
def test_the_l2_approximation_is_our_planner(name, n, value):
    result = reproduce.l2_optimum(reproduce.GRAMS[name](n))
    assert result.bound * (1 - 1e-7) <= value <= result.value * (1 + 1e-7)
    assert result.value == pytest.approx(value, rel=3e-7)
    assert result.profile.diagonal().max() == pytest.approx(1, rel=EXACT)


def test_program_5_2_needs_its_correct_reading():
    """Its X is (A W⁻¹)ᵀ(A W⁻¹): AᵀA = WᵀXW has the value of the program; AᵀA = X a much larger one."""
    w = gallery.prefix(4).astype(float)
    value, x = reproduce.program_5_2(w)
    assert value == pytest.approx(6.874144, rel=1e-6)
    right = w.T @ x @ w
    assert right.diagonal().max() == pytest.approx(1, abs=1e-6)
    assert np.trace(w @ np.linalg.inv(right) @ w.T) == pytest.approx(value, rel=1e-5)
    literal = x.diagonal().max() * np.trace(w @ np.linalg.inv(x) @ w.T)
    assert literal == pytest.approx(42.4, abs=0.05)


@pytest.mark.parametrize(("n", "literal"), [(4, 42.4), (8, 304), (16, 2360)])
def test_the_literal_reading_of_program_5_2(tmp_path, n, literal):
    rows = make_tables(tmp_path, "5.2", largest=n)["item_5_2"]
    (row,) = (r for r in rows if r["workload"] == f"prefixes {n}")
    assert float(row["X read as AᵀA"]) == pytest.approx(literal, rel=2e-3)
    assert float(row["tr X⁻¹"]) == pytest.approx(float(row["optimum"]), rel=1e-7)


@pytest.mark.slow
def test_approximation_and_rotation_are_dominated(tmp_path):
    """In multiples of the known bound; the identity or a tree is always better."""
    rows = {
        r.pop("workload"): {k: float(v) for k, v in r.items()} for r in make_tables(tmp_path, "5.16b")["item_5_16b"]
    }
    assert rows["prefixes 4"]["L2, rotated"] == pytest.approx(1.926, abs=0.002)
    assert rows["prefixes 4"]["singular values, rotated"] == pytest.approx(1.882, abs=0.002)
    assert rows["prefixes 8"]["identity"] == pytest.approx(2.015, abs=0.001)
    for row in rows.values():
        rotated = min(row["L2, rotated"], row["singular values, rotated"])
        assert min(row["identity"], row["best tree"]) < rotated < min(row["L2"], row["singular values"])


def test_program_5_1_closes_its_rank_only_near_its_start():
    """n = 2: with a large weight the residual is 0, with a small one it is not and Z is not AᵀA."""
    w = gallery.prefix(2).astype(float)
    start = np.array([[0.6, -0.4], [0.4, 0.6]])
    closed = reproduce.program_5_1(w, start, weight=100, steps=8)
    assert closed.residual == pytest.approx(0, abs=1e-6)
    assert strategies.sensitivity(closed.strategy) <= 1 + 1e-6
    assert strategies.total_error(closed.strategy, w) >= 6 * (1 - 1e-5)  # the identity, the best known
    assert reproduce.program_5_1(w, start, weight=1, steps=8).residual > 0.1


def test_program_5_3_finds_y_4():
    g = strategies.profile(strategies.haar(4)).astype(float)
    start = reproduce.turned(g, np.random.default_rng(0))
    result = reproduce.program_5_3(g, start, weight=3, steps=12)
    assert result.residual == pytest.approx(0, abs=1e-5)
    exact = reproduce.made_exact(result.strategy, g)
    assert strategies.profile_equivalent(exact, strategies.haar(4))
    assert 2 - 1e-9 <= strategies.sensitivity(exact) < strategies.sensitivity(start)


def test_what_is_empty_or_small_is_shown_so():
    assert [reproduce.cell(x) for x in (None, "a", 3, 1.5, 1e-9, 0.0)] == [
        "–", "a", "3", "1.500000", "1.00e-09", "0.000000"]  # fmt: skip
    assert reproduce.error_or_none(np.ones((2, 2)), np.eye(2)) is None
    assert reproduce.error_or_none(np.eye(2), np.eye(2)) == 4


def test_figure_4_is_what_is_printed():
    printed = {
        "H'": [[-1.32] * 4, [0.87, 0.87, -0.87, -0.87], [-0.71, 0.71, 0, 0], [0, 0, -0.71, 0.71]],
        "Y'": [[1.73, 0.58, 0, 0], [0, 1.63, 0, 0], [0, 0, 1.73, 0.58], [0, 0, 0, 1.63]],
    }
    for name, a in reproduce.FIGURE_4.items():
        np.testing.assert_array_equal(np.abs(np.round(a, 2)), np.abs(printed[name]))
        assert math.isclose(strategies.sensitivity(a), {"H'": 2.896, "Y'": 2.210}[name], abs_tol=5e-4)


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reproduce.main(["--only", "F2", "F3"])
    assert not list(tmp_path.iterdir())
    with pytest.raises(SystemExit):
        reproduce.main(["--largest", "0"])
