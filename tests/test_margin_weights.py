"""Weighted margins for pure ε: the variances of the sectors, derivatives, the values of the table, and laws."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitnoise.errors import WorkloadError
from fitnoise.solving import margin_weights as mw
from fitnoise.solving.margin_weights import MarginSearchStatus, bits, candidates, matrices, sectors
from refused import refused
from tolerances import EXACT, LOOSE

SLACK = 1.01
"""The values below are the best known, not optima: a search may end this much above."""

# sizes, margins of up to n attributes, best known total and worst variance per unit of noise variance
VALUES = {
    "4^3": ((4, 4, 4), 2, 384.0, 16.0),
    "3x4x5": ((3, 4, 5), 2, 360.0, 14.54814),
    "16^3": ((16, 16, 16), 2, 9873.0, 31.22294),
    "2^4": ((2,) * 4, 2, 160.0, 8.0),
    "2^6": ((2,) * 6, 2, 1344.0, 29.50126),
}
LARGE = {
    "10^6": ((10,) * 6, 3, 6824044.2, 950.221),
}


class Case:
    """All margins of up to `most` attributes, each number of each with weight and target 1."""

    def __init__(self, sizes, max_order):
        self.sizes, d = sizes, len(sizes)
        self.tables = [bits(c) for k in range(1, max_order + 1) for c in itertools.combinations(range(d), k)]
        self.margins = list(range(2**d))
        self.information, self.shares = matrices(self.tables, self.margins, sizes)
        self.rows = np.array([math.prod(sizes[a] for a in range(d) if t >> a & 1) for t in self.tables], dtype=float)
        self.orders = [b.bit_count() for b in self.margins]

    def total(self, rng, weights=None, **kwargs):
        w = self.rows if weights is None else weights
        return mw.minimise_total(self.information, self.shares, w, self.orders, rng, **kwargs)

    def worst(self, rng, targets=None, **kwargs):
        c = np.ones(len(self.tables)) if targets is None else targets
        return mw.minimise_worst(self.information, self.shares, c, self.orders, rng, **kwargs)

    def variances(self, weights):
        return self.shares @ (1 / (self.information @ weights**2))


def margin(mask, sizes):
    """The matrix of a margin over the cells, in C order."""
    out = np.ones((1, 1))
    for a, n in enumerate(sizes):
        out = np.kron(out, np.eye(n) if mask >> a & 1 else np.ones((1, n)))
    return out


def by_definition(tables, margins, sizes, weights):
    """Variances of the tables' numbers by least squares from the weighted margins with noise of variance 1."""
    root = np.linalg.pinv(np.concatenate([w * margin(b, sizes) for b, w in zip(margins, weights, strict=True)]))
    return [((margin(a, sizes) @ root) ** 2).sum(axis=1) for a in tables]


@settings(max_examples=40)
@given(st.lists(st.integers(2, 4), min_size=1, max_size=3), st.integers(0, 2**32 - 1))
def test_variances_are_those_of_least_squares(sizes, seed):
    """For any margins that cover the tables, some of them not requested."""
    rng, d = np.random.default_rng(seed), len(sizes)
    tables = rng.integers(0, 2**d, 2).tolist()
    margins = [*tables, *rng.integers(0, 2**d, 3).tolist()]
    weights = np.concatenate([rng.uniform(0.2, 1, 2), rng.uniform(0, 1, 3) * rng.integers(0, 2, 3)])
    information, shares = matrices(tables, margins, sizes)
    variances = shares @ (1 / (information @ weights**2))
    for one, other in zip(variances, by_definition(tables, margins, sizes, weights), strict=True):
        np.testing.assert_allclose(other, one, rtol=LOOSE)


def test_attributes_of_one_value_change_nothing():
    information, shares = matrices([0b01, 0b10], [0b11], [1, 3])
    assert shares @ (1 / (information @ np.ones(1))) == pytest.approx([3.0, 1.0])


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([None, 4.0, 64.0]))
def test_gradient(seed, t):
    rng = np.random.default_rng(seed)
    case = Case((3, 4, 2), 2)
    objective = mw._MarginObjective(case.information, case.shares, rng.uniform(0.5, 2, len(case.tables)), t)
    theta = rng.uniform(0.1, 1, 8) * rng.choice([1e-3, 1.0, 1e3])
    value, gradient = objective.value_and_gradient(theta)
    steps = np.eye(8) * 1e-6 * theta.sum()
    slopes = [
        (objective.value_and_gradient(theta + e)[0] - objective.value_and_gradient(theta - e)[0]) / (2 * e.sum())
        for e in steps
    ]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-6 / theta.sum())
    assert gradient @ theta == pytest.approx(0.0, abs=1e-8)  # all multiples are worth the same
    assert objective.value_and_gradient(3 * theta)[0] == pytest.approx(value, rel=EXACT)
    if t is None:
        assert value == pytest.approx(math.log(objective.measure(theta)), rel=EXACT, abs=EXACT)
    else:
        top = math.log(objective.measure(theta))
        assert top - EXACT <= value <= top + math.log(len(case.tables)) / t + EXACT


def test_weights_that_cover_nothing_cost_much_but_finitely():
    case = Case((2, 2), 1)
    objective = mw._MarginObjective(case.information, case.shares, case.rows, None)
    for theta in (np.zeros(4), np.array([1.0, 0, 0, 0])):
        value, gradient = objective.value_and_gradient(theta)
        assert 10 < value < 1000
        assert np.isfinite(gradient).all()
        assert objective.measure(theta) == math.inf


def check(name, table, rng, goal):
    sizes, max_order, total, worst = table[name]
    case = Case(sizes, max_order)
    result = case.total(rng) if goal == "total" else case.worst(rng)
    v = case.variances(result.weights)
    assert result.weights.sum() == pytest.approx(1.0, rel=EXACT)
    assert result.value == pytest.approx(case.rows @ v if goal == "total" else v.max(), rel=EXACT)
    assert result.value <= (total if goal == "total" else worst) * SLACK
    assert result.status is MarginSearchStatus.LOCAL_OPTIMUM


@pytest.mark.parametrize("goal", ["total", "worst"])
@pytest.mark.parametrize("name", VALUES)
def test_values(name, goal, rng):
    check(name, VALUES, rng, goal)


@pytest.mark.slow
@pytest.mark.parametrize("goal", ["total", "worst"])
@pytest.mark.parametrize("name", LARGE)
def test_values_of_many_margins(name, goal, rng):
    check(name, LARGE, rng, goal)


def test_one_table_is_measured_directly(rng):
    """A single margin: no other strategy of margins is as good."""
    case = Case((3, 4), 1)
    information, shares = matrices([0b01], case.margins, case.sizes)
    result = mw.minimise_worst(information, shares, [2.0], case.orders, rng, starts=4)
    assert result.value == pytest.approx(0.5)
    np.testing.assert_allclose(result.weights, [0, 1, 0, 0], atol=1e-6)


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 10))
def test_scaling_and_copies(seed, factor):
    """Weights scale the total, targets divide the ratio, a copy of a table counts as weight 2 and changes no ratio."""
    rng = np.random.default_rng(seed)
    case, w, theta = Case((2, 3, 2), 2), rng.uniform(0.5, 2, 6), rng.uniform(0.1, 1, 8)
    twice = matrices([*case.tables, *case.tables], case.margins, case.sizes)

    def value(n, u, numbers, t):
        return mw._MarginObjective(n, u, numbers, t).measure(theta)

    once = case.information, case.shares
    assert value(*once, factor * w, None) == pytest.approx(factor * value(*once, w, None), rel=EXACT)
    assert value(*once, factor * w, 4.0) == pytest.approx(value(*once, w, 4.0) / factor, rel=EXACT)
    assert value(*twice, np.tile(w, 2), None) == pytest.approx(value(*once, 2 * w, None), rel=EXACT)
    assert value(*twice, np.tile(w, 2), 4.0) == pytest.approx(value(*once, w, 4.0), rel=EXACT)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_never_worse_than_one_margin_or_the_tables(seed):
    rng = np.random.default_rng(seed)
    case, w = Case((2, 3, 4), 2), rng.uniform(0.1, 3, 6)
    for search, t in ((case.total, None), (case.worst, 4.0)):
        result = search(np.random.default_rng(seed), w, starts=4)
        objective = mw._MarginObjective(case.information, case.shares, w, t)
        assert result.value == pytest.approx(objective.measure(result.weights), rel=EXACT)
        for start in (np.eye(8)[7], np.isin(case.margins, case.tables).astype(float)):
            assert result.value <= objective.measure(start) * (1 + EXACT)


def test_search_is_reproducible_and_tells_of_its_progress():
    case, reports = Case((2, 3, 2), 2), []
    one = case.worst(np.random.default_rng(3), starts=8, progress=lambda *seen: reports.append(seen))
    second = case.worst(np.random.default_rng(3), starts=8)
    np.testing.assert_array_equal(one.weights, second.weights)
    assert [number for number, _ in reports] == list(range(1, len(reports) + 1))
    assert reports[-1][1] == one.value


def test_time_limit_leaves_something_valid(rng):
    result = Case((2,) * 5, 2).total(rng, max_seconds=0.0)
    assert result.status is MarginSearchStatus.TIME
    assert result.starts == 1
    assert np.isfinite(result.value)


def test_time_may_end_anywhere(monkeypatch):
    """A clock that ticks when it is looked at: stop early, midway, and among the last improvements."""

    def after(seconds):
        ticks = itertools.count()
        monkeypatch.setattr(mw, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
        return Case((2, 3, 4), 2).total(np.random.default_rng(1), max_seconds=seconds), next(ticks)

    complete, looks = after(1e9)
    stopped = [after(seconds)[0] for seconds in (3.0, looks / 2, looks - 5.0)]
    assert complete.status is MarginSearchStatus.LOCAL_OPTIMUM
    assert all(result.status is MarginSearchStatus.TIME for result in stopped)
    values = [result.value for result in [*stopped, complete]]
    assert values == sorted(values, reverse=True)


def test_every_start_covers_all_tables(rng):
    case = Case((2, 3, 2, 4), 2)
    shapes = mw._Shapes(case.information, np.array(case.orders), rng)
    for start in shapes.all(40):
        assert (case.information @ shapes.covered(start) > 0).all()


def test_sectors_no_table_looks_at_need_no_cover(rng):
    """The tables of one attribute, with the sectors of a larger family."""
    case = Case((2, 3), 2)
    small = case.shares[:2]
    result = mw.minimise_total(case.information[:, :3], small, [1.0, 1.0], [0, 1, 1], rng, starts=2)
    assert result.weights[0] == pytest.approx(0.0, abs=1e-6)


# --- which margins ----------------------------------------------------------------------------------


def test_sectors_are_all_subsets():
    assert sectors([0b011, 0b100]).tolist() == [0b000, 0b001, 0b010, 0b011, 0b100]


def test_candidates_below_and_above():
    tables = [0b0011, 0b0110, 0b1000]
    chosen = candidates(tables, (2, 2, 2, 2), 100).tolist()
    assert chosen == [0b0000, 0b0001, 0b0010, 0b0011, 0b0100, 0b0110, 0b0111, 0b1000, 0b1011, 0b1110, 0b1111]
    assert candidates(tables, (2, 2, 2, 2), 100, cells=8).tolist() == chosen[:-1]
    assert candidates(tables, (2, 2, 2, 2), 4).tolist() == sorted([*tables, 0b1111])
    assert candidates(tables, (2, 2, 2, 2), 1).tolist() == sorted(tables)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 31), min_size=1, max_size=5), st.integers(1, 40))
def test_candidates_cover_every_sector(tables, max_candidates):
    chosen = candidates(tables, (2, 3, 4, 5, 6), max_candidates)
    assert set(tables) <= set(chosen.tolist())
    assert len(chosen) <= max(max_candidates, len(set(tables)))
    information, shares = matrices(tables, chosen.tolist(), (2, 3, 4, 5, 6))
    assert (information.sum(axis=1) > 0).all()
    assert shares.shape == (len(tables), len(sectors(tables)))


@pytest.mark.parametrize(
    ("tables", "sizes"),
    [([], (2,)), ([0b10], (2,)), ([-1], (2,)), ([1], (2,) * 63)],
    ids=["none", "bit", "sign", "many"],
)
def test_candidates_are_checked(tables, sizes):
    with refused("workload.candidates-unusable"):
        candidates(tables, sizes, 10)


# --- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", [mw.minimise_total, mw.minimise_worst])
def test_input_is_checked(search, rng):
    case = Case((2, 2), 1)
    n, u, orders = case.information, case.shares, case.orders
    for numbers in ([1.0], [1.0, 0.0], [1.0, np.inf]):
        with pytest.raises(WorkloadError):
            search(n, u, numbers, orders, rng)
    with refused("workload.candidate-orders-misfit"):
        search(n, u, [1.0, 1.0], orders[:2], rng)
    with refused("workload.margin-without-candidate"):
        search(n[:, :2], u, [1.0, 1.0], orders[:2], rng)
    with refused("workload.margin-shapes-differ"):
        search(n[:2], u, [1.0, 1.0], orders, rng)
    for factor in (-1.0, np.nan, np.inf):
        for information, shares in ((factor * n, u), (n, factor * u)):
            with refused("workload.margin-weights-out-of-range"):
                search(information, shares, [1.0, 1.0], orders, rng)
