"""Decisions for small databases: no data, no randomness, proven bounds that hold, and choices near the best."""

import dataclasses
import inspect
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fitnoise.kernel.units import Region
from fitnoise.mechanisms.projection import simulation as small
from fitnoise.mechanisms.projection.regions import project, split_project, with_absent
from fitnoise.mechanisms.projection.simulation import SettingComparison
from fitnoise.request.curves import gaussian_mu
from fitnoise.request.publication import Setting
from fitnoise.solving.fixed_random import FixedGenerator
from fitnoise.solving.ky_fan import ky_fan_design
from fitnoise.solving.statuses import status_message
from fitnoise_lab import spectral_bounds
from fitnoise_lab.nikolov import paper_multiplier
from fitnoise_lab.spectral_bounds import SpectralBound, spectral_bound_of, spectral_lower_bound
from refused import refused
from tolerances import EXACT, SIGNIFICANCE

DELTA = 1e-6
S = 1 / gaussian_mu(1.0, DELTA)
"""The exact multiplier at ε = 1."""
MAX_STD_ERRORS = stats.norm.isf(SIGNIFICANCE / 2)
"""Standard errors that a mean keeps within, unless something is wrong."""


def ranges(n):
    return np.array([[float(i <= e <= j) for e in range(n)] for i in range(n) for j in range(i, n)])


def literals(d, widths):
    """Conjunctions of positive literals."""
    sets = [sum(1 << a for a in s) for w in widths for s in itertools.combinations(range(d), w)]
    return np.array([[float(e & s == s) for e in range(2**d)] for s in sets])


def margins(d, widths):
    """All cells of the marginals of some widths of d yes-or-no attributes."""
    cells = np.array(list(itertools.product((0, 1), repeat=d)))
    return np.array(
        [
            (cells[:, s] == y).all(axis=1).astype(float)
            for w in widths
            for s in itertools.combinations(range(d), w)
            for y in itertools.product((0, 1), repeat=w)
        ]
    )


def lifted(a):
    """L (m, r) of orthonormal columns and R (r, N) with A = L R."""
    u, s, v = np.linalg.svd(a, full_matrices=False)
    rank = int((s > 1e-9 * s[0]).sum())
    return u[:, :rank], s[:rank, None] * v[:rank]


def of_ranges(n):
    """R of all ranges of n cells, from AᵀA, and their number."""
    i = np.arange(n)
    values, vectors = np.linalg.eigh((np.minimum.outer(i, i) + 1.0) * (n - np.maximum.outer(i, i)))
    return np.sqrt(values)[:, None] * vectors.T, n * (n + 1) // 2


def in_rows(a):
    return lifted(a)[1], len(a)


MARGINS, RANGES = margins(5, (1, 2)), ranges(16)
SMALL = {"margins": MARGINS, "ranges": RANGES, "literals": literals(5, (1, 2, 3))}


def databases(rows, n, rng):
    """Those the bounds are tried on: extreme ones, and some in between."""
    cells = rows.shape[1]
    longest = int((rows**2).sum(axis=0).argmax())
    return {
        "point mass": n * np.eye(cells)[0],
        "longest column": n * np.eye(cells)[longest],
        "uniform": rng.multinomial(n, np.full(cells, 1 / cells)).astype(float),
        "two atoms": (n - n // 2) * np.eye(cells)[longest] + n // 2 * np.eye(cells)[cells // 3],
        "distinct atoms": np.bincount(rng.permutation(cells)[np.arange(n) % cells], minlength=cells).astype(float),
        "empty": np.zeros(cells),
    }


def noises(design, s, z):
    """Rows s Σ^½ z, (count, r)."""
    return z @ (design.basis * (s * np.sqrt(design.variances)) @ design.basis.T)


# --- no data, no randomness ---------------------------------------------------------------------------------------

PUBLIC = {
    "self", "cells", "head", "size", "rank", "multiplier", "rows", "ks", "tolerance", "design", "designs",
    "temperature", "temperatures", "m", "region", "repeats", "comparison", "subset", "epsilon", "delta",
}  # fmt: skip
"""Parameters: the queries and numbers that are published, and what was computed from them."""
FIELDS = {
    small.PublicHistogram: {"kind", "draw", "counts"},
    small.Bounds: {"region", "index", "spikes", "head", "split", "unsplit"},
    small.SettingComparison: {
        "m", "rank", "size", "multiplier", "region", "kinds", "settings", "errors", "deviations", "samples", "guesses",
        "unprojected", "bounds",
    },
    small.SettingChoice: {"comparison", "setting", "position", "regret", "warnings"},
    SpectralBound: {"index", "subset", "value", "ratio"},
}  # fmt: skip


def members_of(kind):
    rooms = (small, spectral_bounds)
    return {
        n: x
        for room in rooms
        for n, x in vars(room).items()
        if kind(x) and x.__module__ == room.__name__ and n[0] != "_"
    }


def test_nothing_that_decides_takes_data():
    functions = members_of(inspect.isfunction)
    assert len(functions) >= 10
    for function in functions.values():
        assert set(inspect.signature(function).parameters) <= PUBLIC, function.__name__
    classes = members_of(inspect.isclass)
    assert set(classes.values()) == set(FIELDS)
    for class_, fields in FIELDS.items():
        assert {f.name for f in dataclasses.fields(class_)} == fields
        for name, method in inspect.getmembers(class_, inspect.isfunction):
            if name[0] != "_":
                assert set(inspect.signature(method).parameters) == {"self"}


def test_two_runs_are_identical():
    rows, m = in_rows(MARGINS)
    runs = []
    for _ in range(2):
        designs = small.candidate_designs(rows, (1, 5, len(rows)))
        choice = small.choose(small.simulate(rows, m, designs, 40, S))
        samples = small.error_samples(rows, designs[0], 40, S, 0.1)
        bound = spectral_lower_bound(rows, m, designs[1])
        runs.append((choice.comparison.errors, choice.table(), choice.warnings, samples["uniform"], bound))
    (errors, *rest, worst, bound), (repeated, *also, same, other) = runs
    assert np.array_equal(errors, repeated)
    assert np.array_equal(worst, same)
    assert (rest, bound) == (also, other)


def test_all_settings_see_the_same_histograms_and_noise(monkeypatch):
    rows, m = in_rows(RANGES)
    seen = {}
    error = small._PreparedSetting.error

    def watched(way, truth, z):
        seen.setdefault(id(way), []).append((truth.tobytes(), z.tobytes()))
        return error(way, truth, z)

    monkeypatch.setattr(small._PreparedSetting, "error", watched)
    design = ky_fan_design(rows, 4)
    simulation = small.simulate(rows, m, [design, design], 30, S, repeats=2)
    one, *others = seen.values()
    assert len(others) == 2 * len(small.TEMPERATURES) - 1
    assert all(other == one for other in others)
    assert len({z for _, z in one}) == len(one) == simulation.samples * len(small.KINDS) == 2 * small.DRAWS * 4
    half = len(small.TEMPERATURES)
    assert np.array_equal(simulation.errors[:half], simulation.errors[half:])


def test_histograms_and_noise_share_no_numbers():
    """The noise begins far behind the last number that histograms of any size in reach use."""
    longest = len(small.KINDS) * small.DRAWS * (3 * 2**24 + 2**26)
    assert longest < small.NOISES - small.HISTOGRAMS
    assert not set(FixedGenerator(0).uniform(0, 1, (1000,))) & set(FixedGenerator(small.NOISES).uniform(0, 1, (1000,)))
    later = FixedGenerator(3)
    assert np.array_equal(later.uniform(0, 1, (4,)), FixedGenerator().uniform(0, 1, (7,))[3:])


def test_normal_number_of_the_largest_word_is_finite():
    """The first word of this state has its first 53 bits set, and its uniform number would round to 1."""
    largest = 608_688_947_055_533
    assert FixedGenerator(largest).uniform(0, 1, (1,)) == 1 - 2.0**-53
    assert 8 < FixedGenerator(largest).normal(0, 1, (1,)) < 9


# --- public histograms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cells", "size"), [(1, 1), (1, 9), (2, 1), (7, 3), (1024, 50), (64, 2000)])
def test_public_histograms_are_integers_of_the_size(cells, size):
    histograms = small.public_histograms(cells, size)
    assert [h.kind for h in histograms] == [kind for kind in small.KINDS for _ in range(small.DRAWS)]
    assert len({h.name for h in histograms}) == len(histograms)
    for h in histograms:
        assert h.counts.shape == (cells,)
        assert h.counts.sum() == size
        assert (h.counts >= 0).all()
        assert (h.counts == np.round(h.counts)).all()
    few = [h for h in histograms if h.kind == "few cells"]
    assert (few[0].counts > 0).sum() == 1
    assert all((h.counts > 0).sum() <= limit for h, limit in zip(few, small.SPIKE_CELLS, strict=True))


def test_uniform_records_are_uniform():
    """Detects cells that are preferred: a chi-square test of 2¹⁶ records."""
    counts = [h.counts for h in small.public_histograms(64, 2**14) if h.kind == "uniform"]
    assert stats.chisquare(np.sum(counts, axis=0)).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("alpha", [0.02, 0.2])
def test_dirichlet_weights_have_their_law(alpha):
    """Detects a wrong parameter: a weight is Beta(α, (N − 1) α). The share above 0.001, and a Kolmogorov test."""
    rng, cells = FixedGenerator(7), 8
    weights = np.array([small._dirichlet(rng, cells, alpha) for _ in range(2000)])
    assert np.isfinite(weights).all()
    assert np.allclose(weights.sum(axis=1), 1)
    law = stats.beta(alpha, (cells - 1) * alpha)
    for e in (0, cells - 1):
        above = weights[:, e] > 1e-3
        probability = law.sf(1e-3)
        assert abs(above.mean() - probability) <= MAX_STD_ERRORS * math.sqrt(
            probability * (1 - probability) / len(weights)
        )
        conditional = (law.cdf(weights[above, e]) - law.cdf(1e-3)) / probability
        assert stats.kstest(conditional, "uniform").pvalue > SIGNIFICANCE


def test_records_follow_their_weights():
    """Detects an inversion that is off by one: a chi-square test of 2¹⁶ records."""
    weights = np.array([0.1, 0.0, 0.4, 0.3, 0.2])
    own_cells = small._sample_cells(weights, FixedGenerator(11).uniform(0, 1, (2**16,)))
    counts = np.bincount(own_cells, minlength=5)
    assert counts[1] == 0
    assert stats.chisquare(counts[weights > 0], 2**16 * weights[weights > 0]).pvalue > SIGNIFICANCE
    assert small._sample_cells(weights, np.array([1.0]))[0] == 4


# --- candidates ---------------------------------------------------------------------------------------------------


def test_indices_rise_from_one_to_the_rank():
    assert small.indices(1, 5, 10, S) == (1,)
    assert small.indices(4, 16, 10, S) == (1, 4)
    assert small.indices(176, 1024, 10**6, S) == (1, 5, 10, 20, 40, 80, 176)
    assert small.indices(176, 1024, 50, S) == (1, 5, 10, 20, 40, 80, 176)
    assert small.indices(176, 1024, 5, S) == (1, 5, 176)
    assert small.indices(6, 1024, 10**6, S) == (1, 6)  # 5 is near 6
    assert small.indices(100, 10, 1, 1e6) == (1, 100)


def test_candidates_are_good_to_their_gap_and_differ():
    rows, _ = in_rows(MARGINS)
    designs = small.candidate_designs(rows, (1, 2, 8, len(rows)))
    assert all(d.gap <= small.COMPARISON_GAP for d in designs)
    assert [d.index for d in designs] == [1, 8, len(rows)]  # k = 2 is equal noise again
    assert designs[0].spikes == 0 < designs[1].spikes


def test_the_penalty_by_hand():
    rows, _ = in_rows(RANGES)
    design = ky_fan_design(rows, 3)
    mean = np.mean([math.sqrt(b @ design.covariance @ b) for b in rows.T])
    assert small.penalty(rows, design, 2.5, 0.03) == pytest.approx(0.03 * 2.5 * mean, rel=EXACT)
    assert small.penalty(rows, design, 2.5, 0.0) == 0
    unit = ky_fan_design(np.eye(3), 1)
    assert small.penalty(np.eye(3), unit, 4.0, 0.1) == pytest.approx(0.4)


def test_absent_records_have_a_cell():
    rows, _ = in_rows(RANGES)
    wider = with_absent(rows)
    assert np.array_equal(wider[:, :-1], rows)
    assert not wider[:, -1].any()


def test_a_bound_on_the_records_forces_none_on_the_database():
    """Without the cell for absent records, warm estimates of 5 of at most 50 records would be of 50."""
    rows, m = in_rows(RANGES)
    design = ky_fan_design(rows, 3)
    truth, z = 5 * rows[:, 3], FixedGenerator(1).normal(0.0, 1.0, (len(rows),))

    def error(region):
        return (small._PreparedSetting(rows, design, 50, 0.5, 0.03, region).error(truth, z) ** 2).sum() / m

    assert 100 * error(Region.AT_MOST) < error(Region.EXACTLY)


# --- what is proven -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_bounds_are_ordered(name):
    rows, m = in_rows(SMALL[name])
    for k in (1, 3, 6, len(rows)):
        design = ky_fan_design(rows, k)
        by_region = {region: small.bounds(design, rows, 20, S, m, region) for region in Region}
        noise = S**2 * design.variances.sum() / m
        for region, b in by_region.items():
            assert (b.region, b.index, b.spikes) == (region, k, design.spikes)
            assert b.head[0] == 0
            assert (np.diff(b.head) >= 0).all()
            assert (b.split >= b.head).all()
            assert (b.unsplit >= b.split * (1 - EXACT)).all()
            assert b.unsplit[-1] == pytest.approx(noise)
            assert b.split[-1] == b.head[-1] == pytest.approx(noise)
            assert b.best <= noise * (1 + EXACT)
            assert b.head[k] == pytest.approx(S**2 * design.value / m)
            assert (b.lemma, b.at_spikes) == (b.split[k], b.split[design.spikes])
            assert b.unsplit[0] == pytest.approx(b.split[0])
            assert (b.unsplit <= (2 * b.split - b.head) * (1 + EXACT)).all()  # leaving out the split costs W at most
            larger = small.bounds(design, rows, 21, S, m, region)
            louder = small.bounds(design, rows, 20, 1.1 * S, m, region)
            assert (larger.split[:-1] > b.split[:-1]).all()
            assert (louder.split > b.split).all()
            assert np.allclose(small.bounds(design, rows, 20, S, 2 * m, region).split, b.split / 2)
        for fewer, all_ in itertools.pairwise([Region.EXACTLY, Region.AT_MOST, Region.HULL]):
            assert (by_region[fewer].split <= by_region[all_].split).all()


def test_bounds_by_hand():
    """Three cells requested one by one: Σ = I, and beyond j of three directions each column has length 1 or 0."""
    design = ky_fan_design(np.eye(3), 1)
    for region, terms in {Region.AT_MOST: 4, Region.EXACTLY: 3, Region.HULL: 6}.items():
        b = small.bounds(design, np.eye(3), 7, 2.0, 3, region)
        width = 7 * 2 * math.sqrt(2 * math.log(terms))
        assert b.head * 3 == pytest.approx([0, 4, 8, 12])
        assert b.split * 3 == pytest.approx([width, 4 + width, 8 + width, 12])
        x = np.sqrt(b.unsplit * 3)  # solves x² = H^½ x + W
        assert x**2 == pytest.approx([width, 2 * x[1] + width, math.sqrt(8) * x[2] + width, 12])
    one_cell = small.bounds(ky_fan_design([[1.0]], 1), np.ones((1, 1)), 7, 2.0, 1, Region.EXACTLY)
    assert one_cell.unsplit.tolist() == [0, pytest.approx(4)]  # one cell, n records: the answer is known


def worst_violations(rows, m, n, ks, count, rng):
    """Largest mean squared error less bound, in standard errors, over databases, regions and splits."""
    z = rng.normal(size=(count, len(rows)))
    worst = -math.inf
    for k in ks:
        design = ky_fan_design(rows, k, tolerance=1e-4)
        w = noises(design, S, z)
        enough = 1e-4 * S**2 * design.variances.sum()
        for region in Region:
            proven = small.bounds(design, rows, n, S, m, region)
            for name, x in databases(rows, n, rng).items():
                if name == "empty" and region is Region.EXACTLY:
                    continue
                y = rows @ x
                errors_of_parts = [
                    (proven.best, [project(rows, y + v, n, region, tolerance=enough).answers for v in w])
                ]
                for j in {design.spikes, k} - {0, design.rank}:
                    head = design.basis[:, :j]
                    parts = [split_project(rows, y + v, n, head, region, tolerance=enough).answers for v in w]
                    errors_of_parts.append((float(proven.split[j]), parts))
                for bound, answers in errors_of_parts:
                    squares = ((np.array(answers) - y) ** 2).sum(axis=1) / m
                    worst = max(worst, (squares.mean() - bound) / (squares.std(ddof=1) / math.sqrt(count) + 1e-12))
    return worst


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("n", [3, 40])
def test_no_database_violates_a_bound(name, n, rng):
    """Detects a constant that is too small: measured errors are below the bounds, of all regions, full and split."""
    rows, m = in_rows(SMALL[name])
    assert worst_violations(rows, m, n, (1, 4, len(rows)), 6, rng) <= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "n", "ks"), [(lambda: in_rows(margins(8, (1, 2, 3))), 50, (50,)), (lambda: of_ranges(64), 50, (20, 50))]
)
def test_no_database_violates_a_bound_at_length(make, n, ks, rng):
    """The law for 93 and 64 dimensions."""
    rows, m = make()
    assert worst_violations(rows, m, n, ks, 12, rng) <= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "n", "k", "lemma"),
    [
        (lambda: of_ranges(256), 50, 50, 130.4),
        (lambda: of_ranges(256), 150, 150, 180),
        (lambda: in_rows(literals(10, (1, 2, 3))), 50, 50, 245),
    ],
)
def test_reference_values_of_the_lemma(make, n, k, lemma):
    """Computed with 2 W for W, without the step that the true answers are 0 along the noise in expectation."""
    rows, m = make()
    b = small.bounds(ky_fan_design(rows, k), rows, n, S, m, Region.HULL)
    assert 2 * b.lemma - b.head[k] == pytest.approx(lemma, rel=3e-3)


# --- simulation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 4, 16])
def test_noise_has_its_covariance(k):
    """Detects noise of another size or shape: Σ^−½ w/s is standard normal, a chi-square test; and s² tr Σ/m is met."""
    rows, m = in_rows(RANGES)
    design = ky_fan_design(rows, k)
    way = small._PreparedSetting(rows, design, 10, S, 0.0, Region.AT_MOST)
    z = [z for _, _, z in small._databases(rows, 10, 200)]
    w = np.array([way.noise(v) for v in z])
    count = len(w)
    white = float(((w @ design.basis) ** 2 / design.variances).sum()) / S**2
    low, high = stats.chi2(count * design.rank).ppf([SIGNIFICANCE / 2, 1 - SIGNIFICANCE / 2])
    assert low <= white <= high
    unprojected = S**2 * design.variances.sum() / m
    deviation = S**2 * math.sqrt(2 * (design.variances**2).sum() / count) / m
    assert abs((w**2).sum() / count / m - unprojected) <= MAX_STD_ERRORS * deviation
    assert small.simulate(rows, m, [design], 10, S, (0.0,)).unprojected == pytest.approx([unprojected])


def test_the_head_of_a_split_costs_the_ky_fan_norm(rng):
    """Detects a split at other directions: its error on the first k is s² ‖Σ‖_(k)/m, a sum of weighted chi-squares."""
    rows, m = in_rows(MARGINS)
    k, count, n = 8, 400, 10
    design = ky_fan_design(rows, k)
    head, y = design.basis[:, :k], rows[:, 3] * n
    head_errors = [
        head.T @ (split_project(rows, y + v, n, head).answers - y)
        for v in noises(design, S, rng.normal(size=(count, len(rows))))
    ]
    expected = float(small.bounds(design, rows, n, S, m).head[k])
    deviation = S**2 * math.sqrt(2 * (design.variances[:k] ** 2).sum() / count) / m
    assert expected == pytest.approx(S**2 * design.value / m)
    assert abs((np.array(head_errors) ** 2).sum() / count / m - expected) <= MAX_STD_ERRORS * deviation


@pytest.mark.parametrize("region", Region)
def test_projecting_is_never_worse_than_the_noise(region):
    rows = in_rows(MARGINS)[0]
    design = ky_fan_design(rows, 6)
    way = small._PreparedSetting(rows, design, 12, S, 0.0, region)
    for _, truth, z in small._databases(rows, 12, 1):
        squared = (way.noise(z) ** 2).sum()
        assert (way.error(truth, z) ** 2).sum() <= (math.sqrt(squared) + math.sqrt(way.enough)) ** 2
    assert way.enough <= 1e-3 * S**2 * design.variances.sum()


def test_samples_of_errors_agree_with_the_comparison():
    """For the same histograms and noise, mean squares of lifted samples are those of the comparison."""
    lift, rows = lifted(MARGINS)
    design = ky_fan_design(rows, 6)
    for temperature in (0.0, 0.1):
        simulation = small.simulate(rows, len(lift), [design], 25, S, (temperature,), repeats=2)
        samples = small.error_samples(rows, design, 25, S, temperature, repeats=2)
        assert tuple(samples) == simulation.kinds
        for sample, error in zip(samples.values(), simulation.errors[0], strict=True):
            assert sample.shape == (simulation.samples, len(rows)) == (2 * small.DRAWS, len(rows))
            assert ((sample @ lift.T) ** 2).mean() == pytest.approx(error)
            assert (sample**2).sum(axis=1).mean() == pytest.approx(error * len(lift))


def test_the_uniform_guess_by_hand():
    lift, rows = lifted(MARGINS)
    result = small.simulate(rows, len(lift), [ky_fan_design(rows, 1)], 30, S, (0.0,))
    for kind, guess in zip(result.kinds, result.guesses, strict=True):
        counts = [h.counts for h in small.public_histograms(rows.shape[1], 30) if h.kind == kind]
        squares = [((MARGINS @ (x - 30 / len(x))) ** 2).mean() for x in counts]
        assert guess == pytest.approx(np.mean(squares))


# --- choice -------------------------------------------------------------------------------------------------------


def comparison(errors, guesses=(100.0, 100.0, 100.0, 100.0), ks=(1, 5, 9), rank=9):
    errors = np.asarray(errors, dtype=float)
    rows = np.eye(rank)
    designs = [ky_fan_design(rows, k) for k in ks]
    return SettingComparison(
        m=rank,
        rank=rank,
        size=30,
        multiplier=S,
        region=Region.AT_MOST,
        kinds=small.KINDS,
        settings=tuple(Setting(k, 0.0) for k in ks),
        errors=errors,
        deviations=np.full_like(errors, 0.5),
        samples=4,
        guesses=np.asarray(guesses, dtype=float),
        unprojected=np.full(len(ks), S**2),
        bounds=tuple(small.bounds(d, rows, 30, S, rank) for d in designs),
    )


def test_the_choice_has_the_smallest_largest_regret():
    result = small.choose(comparison([[10, 10, 10, 40], [12, 12, 12, 22], [20, 20, 20, 20]]))
    assert result.comparison.regrets.max(axis=1) == pytest.approx([2, 1.2, 2])
    assert result.setting == Setting(5, 0.0)
    assert (result.position, result.regret) == (1, pytest.approx(1.2))
    assert result.errors.tolist() == [12, 12, 12, 22]
    assert result.bounds is result.comparison.bounds[1]
    assert result.warnings == ()


def test_equals_go_to_the_first_and_no_error_is_no_regret():
    result = small.choose(comparison([[0, 1, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]]))
    assert result.position == 0
    assert result.comparison.regrets[:, 0].tolist() == [1, 1, math.inf]


def test_warnings_say_what_is_not_gained():
    all_near = small.choose(comparison([[80, 90, 99, 1]] * 3, ks=(1, 5, 9)))
    assert [m.id.rpartition(".")[2] for m in all_near.warnings] == ["near_all", "near_all_advice"]
    partly_near = small.choose(comparison([[80, 79, 20, 90]] * 3))
    assert [m.id.rpartition(".")[2] for m in partly_near.warnings] == ["near_uniform"]
    by_rank = small.choose(comparison([[9, 9, 9, 9]], ks=(9,)))
    assert by_rank.warnings == (status_message("report.status.rank", rank=9),)


def test_the_table_marks_the_choice():
    rows, m = in_rows(MARGINS)
    designs = small.candidate_designs(rows, (1, len(rows)))
    choice = small.choose(small.simulate(rows, m, designs, 25, S, (0.0, 0.1)))
    lines = choice.table().splitlines()
    assert len(lines) == 1 + 4 + 1
    assert [i for i, line in enumerate(lines) if line.startswith("*")] == [1 + choice.position]
    assert all(
        name in lines[0] for name in (*small.KINDS, "regret", "unprojected", "bound", "split at k", "split at t")
    )
    assert "uniform guess" in lines[-1]
    assert lines[2].count("–") == 3  # nothing is proven of warm estimates


# --- the spectral lower bound -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_the_spectral_bound_is_below_the_design(name):
    a = SMALL[name]
    rows, m = in_rows(a)
    for k in range(1, len(rows) + 1):
        design = ky_fan_design(rows, k)
        result = spectral_lower_bound(rows, m, design)
        assert 1 <= len(set(result.subset)) == len(result.subset) <= k
        assert result.subset == tuple(sorted(result.subset))
        assert result.value**2 * m <= design.bound * (1 + EXACT)
        assert result.ratio >= 1
        values = np.linalg.svd(a[:, result.subset], compute_uv=False)
        assert result.value == pytest.approx(math.sqrt(len(result.subset) / m) * values[-1], rel=EXACT)
        assert result.value == spectral_bound_of(rows, m, result.subset)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_small_cases_have_the_best_subset(k, rng):
    rows = rng.normal(size=(4, 7))
    best = max(spectral_bound_of(rows, 4, s) for w in range(1, k + 1) for s in itertools.combinations(range(7), w))
    result = spectral_lower_bound(rows, 4, ky_fan_design(rows, k))
    assert result.value >= 0.97 * best


def test_the_printed_definition_is_no_lower_bound():
    """One query repeated m times: errors of about 1/ε are possible at any n, √(k/m) σ_min grows with k = ε n."""
    m = 50
    rows = np.full((1, 3), math.sqrt(m))
    for size in (10, 1000):
        k = small.paper_index(1.0, size)
        result = spectral_lower_bound(rows, m, ky_fan_design(rows, k))
        assert result.value == pytest.approx(1)
        assert result.ratio == pytest.approx(1)
        printed = math.sqrt(k / m) * np.linalg.norm(rows[:, 0])
        assert printed == pytest.approx(math.sqrt(size))


def test_dependent_columns_bound_nothing():
    rows = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    assert spectral_bound_of(rows, 2, (0, 1)) == 0
    assert spectral_bound_of(rows, 2, (0, 1, 2)) == 0
    assert spectral_bound_of(rows, 2, (0, 2)) == pytest.approx(1)
    for subset in ((), (0, 0), (3,), (-1,)):
        with refused("workload.subset-of-cells"):
            spectral_bound_of(rows, 2, subset)


def test_columns_that_are_nearly_dependent_are_no_obstacle():
    """Their products are singular in floating point, and the set that has both is passed over."""
    rows = np.array([[1.0, 1.0], [0.0, 1e-8]])
    result = spectral_lower_bound(rows, 2, ky_fan_design(rows, 2))
    assert len(result.subset) == 1
    assert result.value == pytest.approx(math.sqrt(1 / 2))


RATIOS = {
    "margins 8": (lambda: in_rows(margins(8, (1, 2, 3))), {5: 1.13, 20: 1.60, 50: 2.30}),
    "margins 10": (lambda: in_rows(margins(10, (1, 2, 3))), {5: 1.04, 20: 1.32, 50: 1.96, 100: 2.51}),
    "literals 10": (lambda: in_rows(literals(10, (1, 2, 3))), {5: 1.49, 20: 2.04, 50: 2.69, 100: 3.10}),
    "ranges 256": (lambda: of_ranges(256), {5: 1.79, 20: 2.58, 50: 3.13, 100: 3.55}),
}


@pytest.mark.parametrize(
    "name", ["margins 8", *(pytest.param(n, marks=pytest.mark.slow) for n in RATIOS if n != "margins 8")]
)
def test_ratios_of_the_spectral_bound(name):
    """No worse than a reference search by more than a tenth; better is no fault."""
    make, ratios = RATIOS[name]
    rows, m = make()
    for k, ratio in ratios.items():
        design = ky_fan_design(rows, k, tolerance=1e-4)
        result = spectral_lower_bound(rows, m, design)
        assert 1 <= result.ratio <= 1.1 * ratio
        assert result.ratio >= 0.85 * ratio
        assert result.value**2 * m <= design.bound


# --- the mechanism as printed -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "exact", "printed", "ratio"),
    [
        (1, 1e-6, 4.224679, 5.756522, 1.857),
        (0.2, 1e-6, 18.988800, 27.400643, 2.082),
        (0.5, 1e-6, 8.057618, 11.220150, 1.939),
        (2, 1e-6, 2.230476, 2.981814, 1.787),
        (1, 1e-5, 3.730632, 5.298526, 2.017),
        (1, 1e-9, 5.495266, 6.937898, 1.594),
    ],
)
def test_the_printed_multiplier(epsilon, delta, exact, printed, ratio):
    assert 1 / gaussian_mu(epsilon, delta) == pytest.approx(exact, abs=6e-7)
    assert paper_multiplier(epsilon, delta) == pytest.approx(printed, abs=6e-7)
    assert (paper_multiplier(epsilon, delta) * gaussian_mu(epsilon, delta)) ** 2 == pytest.approx(ratio, abs=6e-4)


def test_the_printed_multiplier_is_private_where_it_is_given():
    for epsilon in np.geomspace(1e-3, 10, 20):
        for delta in np.geomspace(1e-12, 0.1, 8):
            assert paper_multiplier(epsilon, delta) >= 1 / gaussian_mu(epsilon, delta)
    with refused("workload.paper-multiplier-not-private"):
        paper_multiplier(50, 0.5)


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0.1), (-1, 0.1), (math.inf, 0.1), (math.nan, 0.1), (1, 0), (1, 1)])
def test_multipliers_that_are_refused(epsilon, delta):
    with refused("workload.paper-privacy-out-of-range"):
        paper_multiplier(epsilon, delta)


def test_the_printed_index():
    assert small.paper_index(1.0, 50) == 50
    assert small.paper_index(0.29, 100) == 29  # 0.29 · 100 is 28.999… in floating point
    assert small.paper_index(Fraction(1, 3), 10) == 3
    with refused("workload.paper-index-zero"):
        small.paper_index(0.01, 99)
    for epsilon in (0, -1.0, math.nan, math.inf):
        with refused("workload.paper-epsilon-out-of-range"):
            small.paper_index(epsilon, 10)


# --- what is refused ----------------------------------------------------------------------------------------------


def test_what_is_refused():
    rows, m = in_rows(RANGES)
    design = ky_fan_design(rows, 2)
    other = ky_fan_design(np.eye(3), 2)
    for bad in (0, -1, 1.5, True, None):
        for ask in (
            lambda bad=bad: small.public_histograms(bad, 5),
            lambda bad=bad: small.public_histograms(5, bad),
            lambda bad=bad: small.bounds(design, rows, bad, S, m),
            lambda bad=bad: small.simulate(rows, bad, [design], 5, S),
            lambda bad=bad: small.simulate(rows, m, [design], 5, S, repeats=bad),
            lambda bad=bad: small.indices(4, 4, bad, S),
        ):
            with refused("workload.not-a-whole-number"):
                ask()
    for bad in (0, -1.0, math.nan, math.inf):
        with refused("workload.not-a-positive-number"):
            small.simulate(rows, m, [design], 5, bad)
    for bad in (-0.1, 0.2, math.nan):
        with refused("workload.temperature-out-of-range"):
            small.simulate(rows, m, [design], 5, S, (0.0, bad))
    for designs, temperatures in (([], (0.0,)), ([design], ())):
        with refused("workload.comparison-without-settings"):
            small.simulate(rows, m, designs, 5, S, temperatures)
    with refused("workload.temperature-on-hull"):
        small.simulate(rows, m, [design], 5, S, (0.1,), Region.HULL)
    with refused("workload.design-row-count"):
        small.simulate(rows, m, [other], 5, S)
    with refused("workload.design-of-other-queries"):
        spectral_lower_bound(rows, m, other)


# --- choices near the best ----------------------------------------------------------------------------------------


def mixtures(d, n, count, rng):
    """Databases of n records of d yes-or-no attributes: four kinds of people, each with its own rates."""
    out = []
    for _ in range(count):
        kinds = rng.choice(4, size=n, p=rng.dirichlet(np.ones(4)))
        records = rng.uniform(size=(n, d)) < rng.beta(0.7, 0.7, size=(4, d))[kinds]
        out.append(np.bincount(records @ (1 << np.arange(d)[::-1]), minlength=2**d).astype(float))
    return out


def measured(rows, m, designs, n, temperatures, truths, z):
    """Mean squared errors of every setting on databases that were not simulated."""
    ways = [small._PreparedSetting(rows, d, n, S, t, Region.EXACTLY) for d in designs for t in temperatures]
    squares = [[(way.error(rows @ x, v) ** 2).sum() / m for x, v in zip(truths, z, strict=True)] for way in ways]
    return np.mean(squares, axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "excess"), [(50, 1.15), (200, 1.25)])
def test_choices_are_near_the_best_on_other_databases(n, excess, rng):
    """Three-way margins of ten attributes: within a quarter of the best setting in hindsight, and half the plain."""
    rows, m = in_rows(margins(10, (1, 2, 3)))
    designs = small.candidate_designs(rows, small.indices(len(rows), rows.shape[1], n, S))
    choice = small.choose(small.simulate(rows, m, designs, n, S, region=Region.EXACTLY))
    errors = measured(
        rows, m, designs, n, small.TEMPERATURES, mixtures(10, n, 12, rng), rng.normal(size=(12, len(rows)))
    )
    assert errors[choice.position] <= excess * errors.min()
    unprojected = choice.comparison.unprojected[-1]
    assert choice.comparison.settings[-1].index == len(rows)
    if n == 200:
        assert 2 * errors[choice.position] <= unprojected
        nearest = [i for i, setting in enumerate(choice.comparison.settings) if setting == Setting(40, 0.0)]
        assert 2 * errors[nearest[0]] <= unprojected
