"""The command that regenerates the tight-constraints paper: its numbers, what it writes, and what it must not say."""

import csv
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fitnoise.kernel import choices, noise
from fitnoise.mechanisms import finite
from refused import refused

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import reproduce_tight_constraints as reproduce
from reproduce_matrix_mechanism import cell

from fitnoise.mechanisms.finite.accuracy import accuracy

pytestmark = pytest.mark.slow


def make_tables(folder, *keys, largest=1000):
    """The rows of each item, by key."""
    reproduce.main(["-o", str(folder), "--only", *keys, "--largest", str(largest)])
    tables = {}
    for path in folder.glob("*.csv"):
        with path.open(encoding="utf-8") as file:
            tables[path.stem.removeprefix("item_")] = list(csv.DictReader(file))
    return tables


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduced")
    return folder, make_tables(folder, "F2", "F3", "F4", "thresholds", "windows", "scale")


def test_what_is_written(quick, capsys):
    folder, tables = quick
    assert set(tables) == {"F2", "F3", "F4", "thresholds", "windows", "scale"}
    assert {p.stem for p in folder.glob("*.png")} == {"item_F2", "item_F3", "item_F4"}
    for picture in folder.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    reproduce.main(["--only", "windows"])
    assert capsys.readouterr().out.rstrip("\n") == (folder / "item_windows.md").read_text(encoding="utf-8").rstrip("\n")


def test_figures_2_and_3(quick):
    """Shares of all priors, by |det|; f3 as the complete graph of 4 results."""
    shares = {(r["query"], r["e^−ε"]): float(r["share of all priors"]) for k in ("F2", "F3") for r in quick[1][k]}
    assert shares == pytest.approx(
        {
            ("f1, in a row", "1/2"): 0.091837,
            ("f1, in a row", "1/5"): 0.428125,
            ("f2, a ring", "1/2"): 0.062500,
            ("f2, a ring", "1/5"): 0.326531,
            ("f3, complete", "1/2"): 0.008,
            ("f3, complete", "1/5"): 0.125,
            ("f3, a ring", "1/2"): 0.012346,
            ("f3, a ring", "1/5"): 0.197531,
        },
        abs=6e-7,
    )
    corner = quick[1]["F2"][0]
    assert [float(corner[f"π{k}"]) for k in (1, 2, 3)] == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert [r["weight z"] for r in quick[1]["F2"][:3]] == ["2/3", "1/3", "2/3"]


def test_figure_4(quick):
    rows = {r["ε"]: r for r in quick[1]["F4"]}
    numbers = [float(rows["0.50"][k]) for k in ("formula of the paper", "attained", "proven bound", "all priors")]
    assert numbers == pytest.approx([1.207395938, 1.344970367, 1.344970367, 2.522567967], abs=2e-9)
    for epsilon, row in rows.items():
        formula, attained, bound = (float(row[k]) for k in ("formula of the paper", "attained", "proven bound"))
        assert (row["ε-regular"] == "yes") == (float(epsilon) > math.log(2)) == (float(row["least y"]) > 0)
        assert attained <= bound < attained + 1e-8
        assert bool(abs(formula - bound) < 1e-8) == (row["ε-regular"] == "yes")


def test_thresholds(quick):
    rows = quick[1]["thresholds"]
    assert [(r["paper"], r["y ≥ −1e-4"], r["true, in steps of 0.01"]) for r in rows] == [
        ("0.80", "0.80", "0.97"), ("0.90", "0.90", "1.14"), ("0.48", "0.48", "0.70")]  # fmt: skip
    assert [float(r["true"]) for r in rows] == pytest.approx([0.96813348470, 1.13608027525, math.log(2)], abs=1e-10)
    assert {r["exists at the paper's"] for r in rows} == {"no"}
    total, bound = zip(*((float(r["Σ y there"]), float(r["proven bound there"])) for r in rows), strict=True)
    assert total[:2] == pytest.approx((0.110832, 0.116894), abs=6e-7)
    assert bound[:2] == pytest.approx((0.110791138, 0.116733946), abs=2e-9)
    assert total[0] > bound[0]  # more than any private mechanism has
    assert total[1] > bound[1]
    assert total[2] < bound[2]  # less than a private mechanism has


def test_existence_comes_and_goes(quick):
    assert [r["exists"] for r in quick[1]["windows"]] == ["yes", "yes", "yes", "no", "no", "no", "yes", "yes"]
    assert [r["least weight"] for r in quick[1]["windows"]][2:5] == ["49/4404", "-50/3961", "-175/104"]


def test_scale(quick):
    rows = quick[1]["scale"]
    assert [int(r["results"]) for r in rows] == [751, 961]
    assert {r["exists"] for r in rows} == {"yes"}
    assert all(float(r["residual"]) < 1e-12 and float(r["proven to"]) < 1e-12 for r in rows)


def test_figure_6_shows_what_is_attained():
    (below, above) = reproduce.utilities(reproduce.TWO_COUNTS, (90, 114))
    assert (below["exists"], below["tight constraints"]) == ("no", None)
    assert below["residual column"] == pytest.approx(0.116346424, abs=2e-9)
    assert below["proven bound"] == pytest.approx(0.116733946, abs=2e-9)
    assert (above["exists"], above["residual column"]) == ("yes", None)
    assert above["tight constraints"] == pytest.approx(0.174264041, abs=2e-9)
    assert above["tight constraints"] <= above["proven bound"] < above["tight constraints"] + 1e-9
    (sums,) = reproduce.utilities(reproduce.SUM, (97,))
    values = [sums[k] for k in ("tight constraints", "staircase", "geometric")]
    assert values == pytest.approx([0.142427196, 0.141885884, 0.097899717], abs=2e-9)


@pytest.mark.parametrize(
    ("graph", "last", "hundredths"),
    [(reproduce.SUM, 0.96813, (80, 97)), (reproduce.TWO_COUNTS, 1.13608, (113, 130))],
    ids=["6a", "6b"],
)
def test_figure_6_on_both_sides_of_its_threshold(graph, last, hundredths):
    for row in reproduce.utilities(graph, hundredths):
        exists = row["exists"] == "yes"
        assert exists == (float(row["ε"]) > last)
        best, missing = row["tight constraints"], row["residual column"]
        best, missing = (best, missing) if exists else (missing, best)
        assert missing is None
        assert row["proven bound"] - (1e-8 if exists else 4e-4) <= best <= row["proven bound"]
        assert best > row["staircase"] > row["geometric"]


def test_the_comparison(tmp_path):
    """For hits nothing exceeds the bound; for the mean error of a sum the geometric mechanism is better, by little."""
    rows = make_tables(tmp_path, "compare")["compare"]
    output = (tmp_path / "item_compare.md").read_text(encoding="utf-8")
    assert "optimal for the probability of a hit, not for the mean error" in output
    by_mechanism = {(r["query"], r["ε"], r["mechanism"]): r for r in rows}
    assert len(by_mechanism) == len(rows)
    for (query, epsilon, mechanism), row in by_mechanism.items():
        if row["hit rate"]:
            assert float(row["hit rate"]) <= float(row["bound"]) + 1e-12
            assert float(row["MAE, best guess"]) <= float(row["MAE"]) + 1e-9
            if (query, epsilon, "program for MAE") in by_mechanism:
                minimum = float(by_mechanism[query, epsilon, "program for MAE"]["MAE"])
                assert float(row["MAE, best guess"]) >= minimum - 1e-6
        if mechanism == "tight constraints" and row["hit rate"]:
            assert float(row["hit rate"]) == pytest.approx(float(row["bound"]), abs=1e-8)
            other = by_mechanism[query, epsilon, "geometric"]
            for column in ("MAE", "RMSE", "MAE, best guess"):
                ratio = float(row[column]) / float(other[column])
                if query.startswith("sum"):
                    assert 1 < ratio < 1.02
                else:
                    assert ratio < 0.84 or (query == "a count of 10" and ratio == pytest.approx(1, abs=1e-8))
    assert not by_mechanism["sum, 150 of 0–5", "0.80", "tight constraints"]["hit rate"]
    paper = by_mechanism["sum, 150 of 0–5", "1.00", "tight constraints"]
    assert [float(paper[k]) for k in ("MAE", "RMSE")] == pytest.approx([5.003724, 7.101006], abs=1e-6)


# --- Readings of the paper that no other test shows ---------------------------------------------------------------


def test_noise_that_is_not_scaled_would_beat_the_bound():
    """Figure 6a: geometric noise by e^(−ε) for each unit has 0.38 at ε = 0.8, and is not ε-private for a sum."""
    unscaled = finite.geometric(finite.path(751), 0.8)
    rate = accuracy(unscaled).expected_gain(finite.uniform(reproduce.SUM))
    assert rate == pytest.approx(0.380, abs=1e-3)
    assert rate > 3 * finite.hit_bound(reproduce.SUM, 0.8, finite.uniform(reproduce.SUM)).upper
    with refused("plan.ratio-above-epsilon"):
        finite.FiniteMechanism(reproduce.SUM, Fraction(4, 5), "unscaled", unscaled.weights, np.arange(751))


def test_two_counts_share_one_epsilon():
    """Figure 6b: with ε for each count the geometric mechanism has 0.305 at 1.2, above the bound; it costs 2ε."""
    both = finite.geometric(reproduce.TWO_COUNTS, 2.4)
    flat = finite.uniform(reproduce.TWO_COUNTS)
    assert accuracy(both).expected_gain(flat) == pytest.approx(0.304685731, abs=1e-9)
    assert accuracy(both).expected_gain(flat) > 1.6 * finite.hit_bound(reproduce.TWO_COUNTS, 1.2, flat).upper
    with refused("plan.ratio-above-epsilon"):
        finite.FiniteMechanism(reproduce.TWO_COUNTS, Fraction(6, 5), "ε each", both.weights, both.answers)


def test_bounded_ratios_do_not_make_a_prior_regular():
    """The introduction describes ε-regular priors by their ratios. Those of Example 3 are at most 3/2 < e^0.48."""
    p = np.array([float(x) for x in reproduce.PRIOR])
    i, j = reproduce.TABLES.edges.T
    assert np.maximum(p[i] / p[j], p[j] / p[i]).max() == pytest.approx(1.5)
    assert math.exp(0.48) > 1.5
    assert finite.regular(reproduce.TABLES, 0.48, reproduce.PRIOR).verdict is finite.Verdict.NO


# --- The page and the entrance ------------------------------------------------------------------------------------


def test_what_is_public_is_there():
    assert sorted(finite.__all__) == finite.__all__
    for name in finite.__all__:
        assert callable(getattr(finite, name))


def test_the_example_of_the_page():
    query = finite.sum_query(people=20, largest=5)
    choice = finite.best_mechanism(query, 1, finite.uniform(query))
    assert choice.mechanism.family == "tight constraints"
    assert "attains the bound" in choice.why
    output = noise.choose(choices.categorical, choice.mechanism.row(37))
    assert query.results[choice.guesses[output]] in range(101)
    assert choice.mechanism.log_ratio() == 1


def test_the_tests_that_the_page_names_are_there():
    here = Path(__file__).parent
    page = (here.parent / "docs" / "mathematics" / "tight_constraints.md").read_text(encoding="utf-8")
    texts = {word.strip("`,.;:()") for word in page.split()}
    tests_named = {word for word in texts if word.startswith("test_") and not word.endswith(".py")}
    assert len(tests_named) > 15
    there = "".join(
        p.read_text(encoding="utf-8") for p in (*here.glob("test_finite_*.py"), here / "test_ranks.py", Path(__file__))
    )
    for name in tests_named:
        assert f"def {name}(" in there, name
    for name in finite.__all__:
        if name.islower():
            assert name in page, name


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    reproduce.main(["--only", "F2", "scale", "--largest", "10"])
    assert not list(tmp_path.iterdir())
    assert "Large queries" not in capsys.readouterr().out
    with pytest.raises(SystemExit):
        reproduce.main(["--largest", "0"])


def test_what_is_empty_or_small_is_shown_so():
    assert [cell(x) for x in (None, "a", 3, 1.5, 1e-9, 0.0)] == [
        "–", "a", "3", "1.500000", "1.00e-09", "0.000000"]  # fmt: skip
