"""The command behind the table of small databases: what it spends, compares and prints; and statements of the paper."""

import csv
import functools
import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from fitnoise.kernel.units import Region
from fitnoise.mechanisms.projection import simulation as small
from fitnoise.mechanisms.projection.regions import project, split_project
from fitnoise.request import curves
from fitnoise.solving.ky_fan import dual_norm, ky_fan_design, split
from tolerances import EXACT

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

import reproduce_projection as reproduce

from fitnoise_lab.spectral_bounds import spectral_lower_bound

S = 1 / curves.gaussian_mu(1.0, 1e-6)


@functools.cache
def tables():
    return reproduce.marginals(4)


@functools.cache
def intervals():
    return reproduce.ranges(24)


SMALL = {
    "marginals": tables,
    "ranges": intervals,
    "conjunctions": functools.cache(lambda: reproduce.conjunctions(4)),
    "random": functools.cache(lambda: reproduce.coins(60, 32)),
}


def matrix(workload):
    return workload.rows_of(np.arange(workload.m))


# --- workloads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_workloads_are_what_they_say(name):
    workload = SMALL[name]()
    a, rng = matrix(workload), np.random.default_rng(1)
    assert a.shape == (workload.m, workload.cells)
    assert set(np.unique(a)) == {0.0, 1.0}
    assert workload.rows.T @ workload.rows == pytest.approx(a.T @ a, abs=1e-8)
    assert len(workload.rows) == np.linalg.matrix_rank(a)
    for n in (7, 100):
        x = workload.draw(n, rng)
        assert x.sum() == n
        assert (x >= 0).all()
        assert workload.answers(x) == pytest.approx(a @ x)
        assert workload.rows_of(np.array([3, 1])) @ x == pytest.approx((a @ x)[[3, 1]])


def test_the_workloads_of_the_table():
    """Queries, rank, cells; of 1,024 cells of ten attributes the tax units are in 176."""
    assert (tables().m, len(tables().rows)) == (4 * 2 + 6 * 4 + 4 * 8, 15)
    assert reproduce.ranges().m == 256 * 257 // 2
    assert reproduce.records().shape == (103_589, 10)
    assert len(np.unique(reproduce.records(), axis=0)) == 176


# --- multiplicative weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", reproduce.ROUNDS)
def test_rounds_spend_what_there_is(rounds):
    rho = curves.zcdp_rho(1.0, 1e-6)
    spent = rounds * reproduce.divided(rho, rounds).rho
    assert spent <= rho
    assert spent == pytest.approx(rho)
    assert curves.zcdp_epsilon(spent, 1e-6) <= 1
    each = reproduce.divided(rho, rounds)
    assert each.epsilon**2 / 8 == pytest.approx(1 / (2 * each.sigma**2))  # half for selection


def test_the_exponential_mechanism_costs_what_is_charged(rng):
    """Scores that differ by 1 at most: Rényi divergence of order α of at most α ε²/8."""
    for _ in range(200):
        epsilon = rng.uniform(0.05, 2)
        one = rng.normal(size=6) * 3
        other = one + rng.choice([-1, 0, 1], size=6)
        p, q = (np.exp(epsilon / 2 * s) / np.exp(epsilon / 2 * s).sum() for s in (one, other))
        for alpha in (1.5, 2, 10, 50):
            divergence = math.log(float((p**alpha * q ** (1 - alpha)).sum())) / (alpha - 1)
            assert divergence <= alpha * epsilon**2 / 8 * (1 + 1e-9) + 1e-12


def test_a_record_moves_every_question_and_its_score_by_one_at_most():
    workload = tables()
    a = matrix(workload)
    assert sorted(itertools.chain(*workload.tables)) == list(range(workload.m))
    for question in workload.tables:
        assert np.linalg.norm(a[question], axis=0) == pytest.approx(1)  # Gaussian noise for sensitivity 1
        assert np.abs(a[question]).sum(axis=0).max() <= 1  # and a sum of absolute errors
    assert a.max() == 1  # queries one by one


def test_every_question_is_measured_once_and_no_more_than_charged(monkeypatch):
    workload, questions = tables(), []
    spied = reproduce.Workload(
        **{
            **{name: getattr(workload, name) for name in ("title", "rows", "m", "answers", "tables", "draw")},
            "rows_of": lambda question: questions.append(tuple(question)) or workload.rows_of(question),
        }
    )
    x = workload.draw(30, np.random.default_rng(0))
    for rounds in (1, 5, 1000):
        questions.clear()
        guess = reproduce.mwem(spied, workload.tables, x, rounds, 0.02, np.random.default_rng(1))
        assert len(questions) == len(set(questions)) == min(rounds, len(workload.tables))
        assert set(questions) <= {tuple(question) for question in workload.tables}
        assert guess.sum() == pytest.approx(30)
        assert (guess >= 0).all()
    costs = []
    monkeypatch.setattr(reproduce, "divided", lambda rho, rounds: costs.append((rho, rounds)) or reproduce.Round(1, 1))
    reproduce.mwem(workload, workload.tables, x, 3, 0.02, np.random.default_rng(1))
    assert costs == [(0.02, 3)]  # divided once, by the number of rounds


def test_with_no_noise_multiplicative_weights_find_the_answers():
    workload = tables()
    x = workload.draw(200, np.random.default_rng(5))
    guess = reproduce.mwem(workload, workload.tables, x, 14, 1e12, np.random.default_rng(1))
    flat = np.full(16, 200 / 16)
    error, start = (float(((workload.rows @ (g - x)) ** 2).sum()) for g in (guess, flat))
    assert error < 1e-3 * start


# --- what is compared ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results():
    return {n: reproduce.measured(reproduce.decided(intervals(), n), 12, (3, 6)) for n in (10, 200)}


def test_orders_that_do_not_depend_on_luck(results):
    """Means over twelve paired runs. With ten other seeds no two that are compared are nearer than a factor of 1.27."""
    few, many = results[10], results[200]
    for by_name in (few, many):
        mean = {name: result.mean for name, result in by_name.items()}
        assert mean["plain, least variance"] < mean["plain, equal noise"] < mean["each query alone"]
        assert mean["paper, exact constant"] < mean["paper, its constant"]
        assert mean["paper's k, on histograms"] < mean["paper, exact constant"]
        assert mean["fitnoise, k and temperature chosen"] < mean["plain, least variance"]
        assert mean["fitnoise, k and temperature chosen"] < mean["paper, exact constant"]
    assert few["fitnoise, k and temperature chosen"].mean < 0.5 * few["plain, least variance"].mean
    assert many["fitnoise, k and temperature chosen"].mean < 0.1 * many["uniform guess"].mean


def test_above_the_rank_the_paper_is_plain_noise(results):
    """K = ⌊ε n⌋ ≥ r: all directions are kept, and nothing is projected."""
    workload = intervals()
    cell = reproduce.decided(workload, 200)
    assert cell.paper == len(workload.rows)
    truth, z = workload.rows @ workload.draw(200, np.random.default_rng(0)), np.random.default_rng(1).normal(size=24)
    noise = S * reproduce.shaped(workload.design(cell.paper), z)
    assert cell.printed(S, truth, z) == pytest.approx((noise**2).sum() / workload.m, rel=1e-6)
    assert results[200]["paper's k, on histograms"].mean == results[200]["least variance, on histograms"].mean


def test_projected_answers_are_no_worse_than_the_noise():
    workload = tables()
    cell, rng = reproduce.decided(workload, 12), np.random.default_rng(3)
    for _ in range(10):
        truth, z = workload.rows @ workload.draw(12, rng), rng.normal(size=15)
        for k in (1, 5, 15):
            noise = S * reproduce.shaped(workload.design(k), z)
            limit = (noise**2).sum() / workload.m * 1.03
            for region in Region:
                assert cell.projected(k, truth, z, region) <= limit


def test_the_choice_among_nearest_answers_is_that_of_a_simulation_without_temperatures():
    workload = tables()
    designs = workload.candidates(small.indices(15, 16, 30, S))
    comparison = small.simulate(workload.rows, workload.m, designs, 30, S, small.TEMPERATURES, Region.EXACTLY)
    without_temperatures = small.simulate(workload.rows, workload.m, designs, 30, S, (0.0,), Region.EXACTLY)
    part = reproduce.at_temperature_0(comparison)
    assert np.array_equal(part.errors, without_temperatures.errors)
    assert part.settings == without_temperatures.settings
    assert small.choose(part).table() == small.choose(without_temperatures).table()
    repeated = small.candidate_designs(workload.rows, small.indices(15, 16, 30, S))
    assert [d.index for d in designs] == [d.index for d in repeated]


def test_hindsight_is_never_worse_than_the_choice():
    cell = reproduce.decided(tables(), 12)
    best, min_error, chosen_error = reproduce.hindsight(cell, 3)
    assert min_error <= chosen_error
    assert best.temperature in small.TEMPERATURES
    runs = [np.random.default_rng([12, run]) for run in range(3)]
    cases = [(tables().rows @ tables().draw(12, rng), rng.normal(size=15)) for rng in runs]
    assert chosen_error == pytest.approx(np.mean([cell.chosen(cell.warm, truth, z) for truth, z in cases]))


def test_exact_lines_are_exact(results):
    for by_name in results.values():
        exact = [name for name, result in by_name.items() if result.deviation is None]
        assert exact == ["each query alone", "plain, equal noise", "plain, least variance"]
        assert by_name[reproduce.OURS].ratio == 1
        assert by_name[reproduce.OURS].ratio_error == pytest.approx(0)
        assert by_name["uniform guess"].ratio == pytest.approx(
            by_name["uniform guess"].mean / by_name[reproduce.OURS].mean
        )
    design = intervals().design(24)
    variance = S**2 * design.variances.sum() / intervals().m
    assert results[10]["plain, least variance"].mean == pytest.approx(variance)


# --- what is printed ----------------------------------------------------------------------------------------------


def test_numbers_have_three_digits():
    assert [reproduce.plain_number(x) for x in (0, 0.01234, 1.234, 34.56, 99.96, 131.2, 1257.4, 294_721)] == [
        "0", "0.012", "1.23", "34.6", "100.0", "131", "1,260", "295,000"]  # fmt: skip
    assert reproduce.result_text(None) == "–"
    assert reproduce.result_text(reproduce.Result(34.56, 2.81, "k = 20")) == "34.6 ± 2.8 (k = 20)"
    assert reproduce.result_text(reproduce.Result(44_612.0, 1234.5)) == "44,600 ± 1,234"
    assert reproduce.result_text(reproduce.Result(266.1, None)) == "266"
    assert reproduce.result_text(reproduce.Result(266.1, math.inf)) == "266"  # one run


def test_a_table_has_a_line_for_each_mechanism():
    one = {"uniform guess": reproduce.Result(1.0, 0.1), "MWEM": reproduce.Result(2.0, 0.2, "T = 3")}
    text = reproduce.table("Title", {50: one, 200: {"MWEM": reproduce.Result(3.0, None)}})
    assert text.splitlines() == [
        "### Title",
        "",
        "| | n = 50 | n = 200 |",
        "|---|---|---|",
        "| uniform guess | 1.00 ± 0.1 | – |",
        "| MWEM | 2.00 ± 0.2 (T = 3) | 3.00 |",
    ]


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(reproduce.WORKLOADS, "ranges", intervals)
    few = ["--workloads", "ranges", "--sizes", "9", "--runs", "2", "--rounds", "3"]
    reproduce.main(few)
    assert not list(tmp_path.iterdir())
    output = capsys.readouterr().out
    reproduce.main([*few, "-o", "made"])
    assert capsys.readouterr().out == output  # the same numbers every time
    assert (tmp_path / "made" / "projection_ranges.md").read_text(encoding="utf-8") in output
    with (tmp_path / "made" / "projection_ranges.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["mechanism"] for row in rows] == [name for name in reproduce.LINES if not name.startswith("PGM")]
    assert {row["runs"] for row in rows} == {"0", "2"}
    reproduce.main([*few, "--hindsight"])
    assert "ranges, n = 9: k = " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        reproduce.main(["--runs", "0"])


# --- statements of the paper --------------------------------------------------------------------------------------


def norm(sigma, k):
    """‖Σ‖_(k) of a symmetric matrix."""
    return float(np.sort(np.linalg.eigvalsh(sigma))[::-1][:k].sum())


def test_lemma_3_0_1_holds_with_a_fourth_and_a_half(rng):
    """‖z − y‖² ≤ min(‖w‖², 2 max_v ⟨w, v⟩) for z nearest to y + w in a symmetric body: the paper has 4 for 1 and 2."""
    closest = 0.0
    for _ in range(60):
        a = rng.normal(size=(4, 7))
        y = a @ (rng.dirichlet(np.ones(7)) * rng.choice([-1, 1], size=7)) * rng.choice([0.2, 1])
        w = rng.normal(size=4) * rng.choice([0.1, 1, 10])
        result = project(a, y + w, 1, Region.HULL, tolerance=1e-12)
        error = float(((result.answers - y) ** 2).sum())
        bound = min(float(w @ w), 2 * float(np.abs(a.T @ w).max()))
        assert error <= bound + 1e-6
        closest = max(closest, error / bound)
    assert closest > 0.5
    # And both constants are reached: L = [−1, 1], y = −1, w = 2.
    result = project([[1.0]], [-1.0 + 2.0], 1, Region.HULL)
    assert result.answers[0] + 1 == pytest.approx(2)
    assert (result.answers[0] + 1) ** 2 == pytest.approx(min(2.0**2, 2 * 2.0))


def test_the_error_is_the_root_of_the_norm():
    """Equation 13 and below have ‖Σ‖_(k) for its root: three times the queries have three times the error, nine Σ."""
    workload, rng = tables(), np.random.default_rng(2)
    truth, z = workload.rows @ workload.draw(12, rng), rng.normal(size=15)
    unscaled, larger = ky_fan_design(workload.rows, 5), ky_fan_design(3 * workload.rows, 5)
    assert larger.value == pytest.approx(9 * unscaled.value, rel=1e-5)
    one, three = (
        split_project(
            c * workload.rows, c * (truth + S * reproduce.shaped(unscaled, z)), 12, unscaled.basis[:, :5]
        ).answers
        - c * truth
        for c in (1, 3)
    )
    assert np.linalg.norm(three) == pytest.approx(3 * np.linalg.norm(one), rel=1e-4)
    weighted = (workload.rows * unscaled.weights) @ workload.rows.T
    assert dual_norm(np.linalg.eigvalsh(weighted).clip(0), 5) == pytest.approx(math.sqrt(unscaled.value), rel=1e-5)


def test_the_feasible_point_has_a_square():
    """Proof of Theorem 4.2: with r the longest column, X = I/r is not feasible for r > 1; I/r² is."""
    a = matrix(tables())
    longest = float(np.linalg.norm(a, axis=0).max())
    assert longest > 1
    assert (a**2 / longest).sum(axis=0).max() == pytest.approx(longest)
    assert (a**2 / longest**2).sum(axis=0).max() == pytest.approx(1)


def test_the_continuity_argument_has_1_minus_lambda(rng):
    """P(λ) = λP + (1 − λ)I: A P(λ) Aᵀ ⪰ (1 − λ) AAᵀ, not λ AAᵀ; and its trace has (1 − λ)|U|, not (1 − λ)|Q|."""
    a, part = rng.normal(size=(3, 8)), 0.9
    p = np.zeros(8)
    p[0] = 1.0
    mixed = (a * (part * p + (1 - part))) @ a.T
    assert np.linalg.eigvalsh(mixed - (1 - part) * a @ a.T)[0] >= -1e-12
    assert np.linalg.eigvalsh(mixed - part * a @ a.T)[0] < -0.1
    assert (part * p + (1 - part)).sum() == pytest.approx(part * p.sum() + (1 - part) * 8)


def subgradient_violation(sigma, k, kept_directions, rng):
    """The most by which g(Y) ≥ g(X) + ⟨−U_S D_S² U_Sᵀ, Y − X⟩ fails; X = Σ⁻¹ for a diagonal Σ, g the norm of Y⁻¹."""
    x = np.diag(1 / sigma)
    slope = np.diag([-(s**2) if i in kept_directions else 0.0 for i, s in enumerate(sigma)])
    worst = -math.inf
    for size in (0.01, 0.1, 0.5):
        for _ in range(60):
            step = rng.normal(size=x.shape)
            y = x + size / sigma.max() * (step + step.T) / 6
            if np.linalg.eigvalsh(y)[0] > 0:
                line = norm(np.diag(sigma), k) + float((slope * (y - x)).sum())
                worst = max(worst, line - norm(np.linalg.inv(y), k))
    return worst


def test_subgradients_need_k_directions_and_the_largest(rng):
    """Lemma 4.2.1 as printed allows every S ⊆ [r]: also none, all, and k without the largest. None of these is one."""
    equal, spiked = np.ones(3), np.array([3.0, 1.0, 1.0])
    for directions in ({0, 1}, {0, 2}, {1, 2}):
        assert subgradient_violation(equal, 2, directions, rng) <= 1e-9
    for directions in (set(), {0}, {0, 1, 2}):
        assert subgradient_violation(equal, 2, directions, rng) > 1e-3
    assert subgradient_violation(spiked, 2, {0, 1}, rng) <= 1e-9
    assert subgradient_violation(spiked, 2, {1, 2}, rng) > 1e-3


def test_the_tail_goes_on_where_the_weights_have_no_rank():
    """Lemma 4.2.3 with α − ε on the null space: queries I, k = 1, q = (1, 0). Only α makes X feasible, and optimal."""
    values = np.array([1.0, 0.0])  # of A diag(q) Aᵀ; t = 0, α = 1
    assert dual_norm(values, 1) == 1
    for less in (0.5, 1e-3):
        printed = np.diag([1.0, 1 / math.sqrt(1 - less)])
        assert norm(np.linalg.inv(printed), 1) == pytest.approx(1)  # as large as it should be,
        assert printed[1, 1] > 1  # and the second cell is not covered
    result = ky_fan_design(np.eye(2), 1)
    assert result.precision == pytest.approx(np.eye(2))
    assert result.value == pytest.approx(dual_norm(values, 1) ** 2)


@pytest.mark.parametrize("name", ["marginals", "ranges", "conjunctions"])
def test_the_logarithm_of_k_needs_one_more(name):
    """At k = 1 the bound is met exactly and log k is 0. With 1 + log k the ratio stays below, for every k here."""
    workload = SMALL[name]()
    for k in range(1, len(workload.rows) + 1):
        result = spectral_lower_bound(workload.rows, workload.m, workload.design(k))
        if k == 1:
            assert result.ratio == pytest.approx(1, rel=EXACT)
        assert result.ratio <= 1 + math.log(k) + EXACT


def test_the_second_case_needs_one_column_where_k_minus_t_is_below_four():
    """Equation 15 takes (k − t)/4 columns. One is long enough: max ‖Πa_e‖² is at least the mean, Σ_{i>t} λ_i."""
    workload, seen = intervals(), 0
    for k in range(1, len(workload.rows) + 1):
        design = workload.design(k)
        values, vectors = np.linalg.eigh((workload.rows * design.weights) @ workload.rows.T)
        t, alpha = split(values.clip(0), k)
        if k - t < 4:
            seen += 1
            columns_left = vectors[:, : len(values) - t].T @ workload.rows  # eigenvalues rise
            longest, rest = float((columns_left**2).sum(axis=0).max()), (k - t) * alpha
            assert longest >= rest * (1 - 1e-9)
            assert math.sqrt(longest) >= math.sqrt((k - t) * rest) / 4
    assert seen >= 3


def test_the_first_k_directions_are_not_determined():
    """Step 2 of Algorithm 1: beyond the t < k spikes all variances are equal, and answers depend on which are taken."""
    workload = intervals()
    k = 12
    design, rng = ky_fan_design(workload.rows, k), np.random.default_rng(4)
    t = design.spikes
    assert 0 < t < k < design.rank
    turn = np.linalg.qr(rng.normal(size=(design.rank - t, design.rank - t)))[0]
    turned = np.concatenate([design.basis[:, :t], design.basis[:, t:] @ turn], axis=1)
    assert (turned * design.variances) @ turned.T == pytest.approx(design.covariance, rel=1e-9, abs=1e-9)
    y = workload.rows @ workload.draw(12, rng) + S * reproduce.shaped(design, rng.normal(size=design.rank))
    at_k, other = (split_project(workload.rows, y, 12, v[:, :k]).answers for v in (design.basis, turned))
    assert np.linalg.norm(at_k - other) > 0.05 * np.linalg.norm(at_k)
    at_t, same = (split_project(workload.rows, y, 12, v[:, :t], tolerance=1e-8).answers for v in (design.basis, turned))
    assert at_t == pytest.approx(same, abs=1e-3)
