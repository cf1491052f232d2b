"""Strategies of cells and sums for pure ε: derivatives, the values of the tables, and the laws of queries."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from fitnoise.errors import WorkloadError
from fitnoise.solving import p_identity as pid
from fitnoise.solving.p_identity import PIdentityStatus, Queries
from refused import refused
from tolerances import EXACT, LOOSE

SLACK = 1.01
"""The values below are the best known, not optima: a search may end this much above."""


def all_ranges(n):
    return op.Intervals(n, tuple((i, j) for i in range(n) for j in range(i, n)))


def random_ranges(n, m, seed=0):
    rng = np.random.default_rng(seed)
    ends = [sorted(rng.integers(0, n, 2).tolist()) for _ in range(m)]
    return op.Intervals(n, tuple((a, b) for a, b in ends))


TOTALS = {
    # queries, twice the certified lower bound on the total of all strategies, best known ratio to it
    "prefix 16": (lambda: op.Prefix(16), 91.330714, 2.31704),
    "prefix 32": (lambda: op.Prefix(32), 229.119406, 2.74468),
    "prefix 64": (lambda: op.Prefix(64), 564.402842, 3.21186),
    "prefix 128": (lambda: op.Prefix(128), 1367.226050, 3.70518),
    "prefix 256": (lambda: op.Prefix(256), 3262.806089, 4.21039),
    "ranges 16": (lambda: all_ranges(16), 826.280434, 1.97512),
    "ranges 32": (lambda: all_ranges(32), 4287.073411, 2.49279),
    "ranges 64": (lambda: all_ranges(64), 22048.763007, 2.90834),
    "ranges 128": (lambda: all_ranges(128), 111534.485466, 3.34287),
    "ranges 256": (lambda: all_ranges(256), 553858.616883, 3.85224),
    "some ranges 64": (lambda: random_ranges(64, 128), 1278.9426, 2.9864),
}
LARGE_TOTALS = {
    "ranges 1024": (lambda: all_ranges(1024), 12968658.0, 4.930),
}
WORST = {
    # queries, targets, certified lower bound on the ratio, best known ratio to it
    "prefix 16": (lambda: op.Prefix(16), 1.0, 2.905253, 2.63369),
    "prefix 64": (lambda: op.Prefix(64), 1.0, 4.457869, 3.45862),
    "prefix 256": (lambda: op.Prefix(256), 1.0, 6.414651, 4.410),
    "ranges 32": (lambda: all_ranges(32), 1.0, 4.816040, 3.0574),
    "some ranges 64": (lambda: random_ranges(64, 128), 1.0, 5.583002, 3.67870),
    "unequal targets": (
        lambda: random_ranges(64, 128), np.random.default_rng(3).uniform(1, 10, 128), 2.324549, 4.28055
    ),
    "cells and sum": (lambda: op.Stack((op.Identity(64), op.Total(64))), 1.0, 1.969231, 2.00403),
}  # fmt: skip

SHAPES = {
    "prefix": lambda: op.Prefix(6),
    "cells": lambda: op.Identity(6),
    "sum": lambda: op.Total(6),
    "all ranges": lambda: all_ranges(6),
    "ranges": lambda: op.Intervals(6, ((0, 3), (2, 5), (1, 1))),
    "groups": lambda: op.Groups(6, ((0, 3), (2, 5, 1))),
    "matrix": lambda: op.Dense(np.arange(12).reshape(2, 6) - 5),
    "tall matrix": lambda: op.Dense(np.random.default_rng(5).normal(size=(20, 6))),
    "product": lambda: op.Kronecker((op.Prefix(2), all_ranges(3))),
    "stack": lambda: op.Stack((op.Prefix(6), op.Total(6))),
    "scaled": lambda: op.Scaled(op.Prefix(6), np.arange(1.0, 7.0)),
    "transpose": lambda: op.Dense(np.arange(12).reshape(6, 2) % 5).T,
}


def numbers(a, rng):
    return rng.uniform(0.5, 2.0, a.shape[0])


def by_definition(queries, matrix):
    """The variances of least squares from a strategy (k, n) whose noise has variance 1."""
    root = np.linalg.pinv(matrix)
    return [((rules.dense(a) @ root) ** 2).sum(axis=1) for a in queries.operators]


def slope(function, sums):
    """∇ of a function of T, by central differences."""
    out = np.zeros_like(sums)
    for cell in np.ndindex(*sums.shape):
        step = np.zeros_like(sums)
        step[cell] = 1e-5
        out[cell] = (function(sums + step) - function(sums - step)) / 2e-5
    return out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_constant", [True, False])
def test_total_and_its_gradient(shape, is_constant, rng):
    a = SHAPES[shape]()
    queries = Queries.from_pairs((a, 0.7 if is_constant else numbers(a, rng)))
    sums = rng.uniform(0, 1, (3, 6))
    slopes, gradient = pid._TotalVariance(queries).value_and_gradient(pid._StrategyPoint(sums))
    assert slopes.objective == pytest.approx(pid.total(queries, sums), rel=EXACT)
    assert slopes.value == pytest.approx(np.log(slopes.objective), rel=EXACT)
    np.testing.assert_allclose(gradient, slope(lambda t: np.log(pid.total(queries, t)), sums), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("t", [4.0, 64.0])
def test_norm_of_the_ratios_and_its_gradient(shape, t, rng):
    a = SHAPES[shape]()
    queries = Queries.from_pairs((a, numbers(a, rng)), (np.eye(6)[:2], 3.0))
    sums = rng.uniform(0, 1, (3, 6))

    def norm(sums):
        ratios = np.concatenate([v / c for v, c in zip(pid.variances(queries, sums), queries.numbers, strict=True)])
        return np.log((ratios**t).sum()) / t

    slopes, gradient = pid._WorstVariance(queries, t).value_and_gradient(pid._StrategyPoint(sums))
    assert slopes.objective == pytest.approx(pid.worst_ratio(queries, sums), rel=EXACT)
    assert slopes.value == pytest.approx(norm(sums), rel=EXACT)
    np.testing.assert_allclose(gradient, slope(norm, sums), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_both_ways_to_the_variances_agree(shape, rng):
    a, point = SHAPES[shape](), pid._StrategyPoint(rng.uniform(0, 1, (3, 6)))
    q = numbers(a, rng)
    low, tall = pid._LowRankVariances(a), pid._DenseVariances(a)
    np.testing.assert_allclose(low.variances(point), tall.variances(point), rtol=EXACT)
    for one, other in zip(low.products(point, q), tall.products(point, q), strict=True):
        np.testing.assert_allclose(one, other, rtol=EXACT, atol=EXACT)


@settings(max_examples=50)
@given(st.integers(1, 7), st.integers(0, 4), st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 1e3]))
def test_covariance_is_that_of_least_squares(n, p, seed, scale):
    rng = np.random.default_rng(seed)
    sums = rng.uniform(0, scale, (p, n))
    queries = Queries.from_pairs((rng.integers(-2, 3, (4, n)), 1.0), (op.Prefix(n), 2.0))
    result = pid.PIdentity(sums, 1.0, 1.0, 1, PIdentityStatus.LOCAL_OPTIMUM)
    np.testing.assert_allclose(np.abs(result.matrix).sum(axis=0), 1.0, rtol=EXACT)
    for one, other in zip(pid.variances(queries, sums), by_definition(queries, result.matrix), strict=True):
        np.testing.assert_allclose(one, other, rtol=LOOSE, atol=LOOSE * other.max())


def check_total(name, table):
    """Compare the search from fixed starts with the best value known."""
    queries, bound, ratio = table[name]
    result = pid.minimise_total(Queries.from_pairs((queries(), 1.0)), np.random.default_rng(3))
    assert 2 * result.value <= ratio * bound * SLACK
    assert 2 * result.value >= bound


@pytest.mark.parametrize("name", TOTALS)
def test_minimise_total(name):
    check_total(name, TOTALS)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE_TOTALS)
def test_minimise_total_of_many_cells(name):
    check_total(name, LARGE_TOTALS)


@pytest.mark.parametrize("name", WORST)
def test_minimise_worst_ratio(name, rng):
    queries, targets, bound, ratio = WORST[name]
    result = pid.minimise_worst(Queries.from_pairs((queries(), targets)), rng)
    assert bound <= result.value <= ratio * bound * SLACK


def test_two_dimensional_prefix(rng):
    """Best known 3.087 times the bound, where a product of the best for each axis has 4.062."""
    queries = Queries.from_pairs((op.Kronecker((op.Prefix(8), op.Prefix(8))), 1.0))
    bound = 35.732355**2 / 2  # bounds of products are products, each with its factor 2
    assert 2 * pid.minimise_total(queries, rng).value <= 3.087 * bound * SLACK


@pytest.mark.parametrize("search", [pid.minimise_total, pid.minimise_worst])
@pytest.mark.parametrize("shape", SHAPES)
def test_never_worse_than_single_cells(search, shape, rng):
    a = SHAPES[shape]()
    queries = Queries.from_pairs((a, numbers(a, rng)))
    result = search(queries, rng, starts=2, iterations=20)
    measure = pid.total if search is pid.minimise_total else pid.worst_ratio
    assert result.value <= result.cells_only == pytest.approx(measure(queries, np.zeros((0, 6))))
    assert result.value == measure(queries, result.sums)
    assert (result.sums >= 0).all()
    assert result.starts == 2
    assert result.status is (PIdentityStatus.LOCAL_OPTIMUM if len(result.sums) else PIdentityStatus.CELLS)


@pytest.mark.parametrize("search", [pid.minimise_total, pid.minimise_worst])
def test_few_cells_are_best_separately(search, rng):
    result = search(Queries.from_pairs((op.Identity(5), 1.0)), rng)
    assert result.status is PIdentityStatus.CELLS
    assert result.sums.shape == (0, 5)
    assert result.value == pytest.approx(result.cells_only)
    np.testing.assert_array_equal(result.matrix, np.eye(5))


@settings(max_examples=25)
@given(st.integers(2, 6), st.integers(0, 2**32 - 1), st.floats(0.1, 10))
def test_weights_targets_and_copies(n, seed, factor):
    """A copy counts as weight 2; weights scale the total, targets divide the ratio; targets of copies do not add up."""
    rng = np.random.default_rng(seed)
    sums, w = rng.uniform(0, 1, (2, n)), rng.uniform(0.5, 2, n)
    once, twice = Queries.from_pairs((op.Prefix(n), w)), Queries.from_pairs((op.Prefix(n), w), (op.Prefix(n), w))
    double, scaled = Queries.from_pairs((op.Prefix(n), 2 * w)), Queries.from_pairs((op.Prefix(n), factor * w))
    point = pid._StrategyPoint(sums)
    assert pid.total(twice, sums) == pytest.approx(pid.total(double, sums), rel=EXACT)
    for one, other in zip(
        pid._TotalVariance(twice).value_and_gradient(point)[1],
        pid._TotalVariance(double).value_and_gradient(point)[1],
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=LOOSE, atol=EXACT)
    assert pid.total(scaled, sums) == pytest.approx(factor * pid.total(once, sums), rel=EXACT)
    assert pid.worst_ratio(scaled, sums) == pytest.approx(pid.worst_ratio(once, sums) / factor, rel=EXACT)
    assert pid.worst_ratio(twice, sums) == pid.worst_ratio(once, sums)


def test_search_is_reproducible_and_tells_of_its_progress():
    queries, reports = Queries.from_pairs((op.Prefix(16), 1.0)), []
    one = pid.minimise_total(queries, np.random.default_rng(4), starts=5, progress=lambda *seen: reports.append(seen))
    second = pid.minimise_total(queries, np.random.default_rng(4), starts=5)
    np.testing.assert_array_equal(one.sums, second.sums)
    assert [number for number, _ in reports] == list(range(1, len(reports) + 1))
    values = [value for _, value in reports]
    assert values == sorted(values, reverse=True)
    assert values[-1] == one.value


@pytest.mark.parametrize("search", [pid.minimise_total, pid.minimise_worst])
def test_time_limit_leaves_something_valid(search, rng):
    result = search(Queries.from_pairs((op.Prefix(64), 1.0)), rng, max_seconds=0.0)
    assert result.status is PIdentityStatus.TIME
    assert result.value == result.cells_only


@pytest.mark.parametrize("search", [pid.minimise_total, pid.minimise_worst])
def test_time_may_end_within_a_descent(search, rng, monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(pid, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))
    result = search(Queries.from_pairs((op.Prefix(64), 1.0)), rng, max_seconds=30.0)
    assert result.status is PIdentityStatus.TIME
    assert result.starts <= 2
    assert result.value < result.cells_only


def test_unbounded_sums_stay_within_the_cap(rng):
    """There are as many sums as queries: T runs off to the bound, and the value must still be right."""
    queries = Queries.from_pairs((np.array([[1, 1, 0, 0], [0, 1, 1, 1]]), 1.0))
    result = pid.minimise_total(queries, rng, size=4)
    assert result.sums.max(initial=0.0) <= pid.CAP
    assert result.value == pytest.approx(by_definition(queries, result.matrix)[0].sum(), rel=1e-5)


def test_a_query_of_nothing_has_no_variance(rng):
    result = pid.minimise_worst(Queries.from_pairs((np.array([[0, 0, 0], [1, 1, 0]]), 1.0)), rng)
    assert np.isfinite(result.value)


# --- fewer cells ------------------------------------------------------------------------------------


def restored(queries, reduced, classes):
    """R_i as R_i' P."""
    return [pid.expand_classes(rules.dense(a), classes) for a in reduced.operators]


REDUCIBLE = {
    # queries, classes there are
    "ranges": (lambda: Queries.from_pairs((op.Intervals(9, ((1, 3), (2, 6), (1, 6))), 1.0)), 3),
    "one distant pair": (lambda: Queries.from_pairs((op.Intervals(5, ((0, 4), (2, 2))), 1.0)), 2),
    "groups": (lambda: Queries.from_pairs((op.Groups(6, ((0, 4), (1, 2, 5))), 1.0)), 2),
    "sum": (lambda: Queries.from_pairs((op.Total(6), 1.0)), 1),
    "matrix": (lambda: Queries.from_pairs((np.array([[1, 0, 1, 2, 0.0], [3, 0, 3, 3, -0.0]]), 1.0)), 2),
    "stack": (lambda: Queries.from_pairs((op.Stack((op.Total(4), op.Intervals(4, ((0, 1),)))), 1.0)), 2),
    "scaled": (lambda: Queries.from_pairs((op.Scaled(op.Total(4), np.array([2.0])), 1.0)), 1),
    "scaled away": (lambda: Queries.from_pairs((op.Scaled(op.Identity(3), np.array([1.0, 0.0, 2.0])), 1.0)), 2),
    "transpose": (lambda: Queries.from_pairs((op.Dense(np.array([[1, 2], [1, 2], [0, 0]])).T, 1.0)), 1),
    "product": (lambda: Queries.from_pairs((op.Kronecker((op.Identity(3), op.Total(4))), 1.0)), 3),
    "products": (
        lambda: Queries.from_pairs(
            (op.Kronecker((op.Prefix(3), op.Total(4))), 1.0),
            (op.Kronecker((op.Total(3), op.Intervals(4, ((1, 2),)))), 2.0),
        ),
        6,
    ),
    "product with gaps": (
        lambda: Queries.from_pairs((op.Kronecker((op.Intervals(4, ((1, 2),)), op.Prefix(2))), 1.0)),
        2,
    ),
    "not a product": (
        lambda: Queries.from_pairs((op.Kronecker((op.Total(2), op.Total(2))), 1.0), (np.array([[2, 0, 0, 0]]), 1.0)),
        2,
    ),
    "zeros in a product": (
        lambda: Queries.from_pairs(
            (op.Kronecker((op.Intervals(2, ((1, 1),)), op.Dense(np.zeros((1, 2))))), 1.0),
            (op.Kronecker((op.Dense(np.array([[1, 0]])), op.Identity(2))), 1.0),
        ),
        2,
    ),
}


@pytest.mark.parametrize("name", REDUCIBLE)
def test_reduction_is_exact(name):
    make, classes = REDUCIBLE[name]
    queries = make()
    reduced, class_of_cell = pid.reduce_cells(queries)
    assert reduced.cells == classes == class_of_cell.max() + 1
    for a, operator in zip(queries.operators, restored(queries, reduced, class_of_cell), strict=True):
        np.testing.assert_array_equal(rules.dense(a), operator)
    counted = np.any([(rules.dense(a) != 0).any(axis=0) for a in queries.operators], axis=0)
    np.testing.assert_array_equal(class_of_cell >= 0, counted)
    first_cells = [int(np.flatnonzero(class_of_cell == k)[0]) for k in range(classes)]
    assert first_cells == sorted(first_cells)


def test_reduction_keeps_structure():
    reduced, _ = pid.reduce_cells(REDUCIBLE["products"][0]())
    assert [type(a) for a in reduced.operators] == [op.Kronecker, op.Kronecker]
    assert type(pid.reduce_cells(REDUCIBLE["ranges"][0]())[0].operators[0]) is op.Intervals
    assert type(pid.reduce_cells(REDUCIBLE["groups"][0]())[0].operators[0]) is op.Groups


@pytest.mark.parametrize("a", [op.Prefix(300), op.Identity(300), all_ranges(300)], ids=["prefix", "cells", "ranges"])
def test_nothing_to_merge(a):
    queries = Queries.from_pairs((a, 1.0))
    reduced, class_of_cell = pid.reduce_cells(queries)
    assert reduced is queries
    np.testing.assert_array_equal(class_of_cell, np.arange(300))


def test_tables_too_large_to_write_out_stay_as_they_are(monkeypatch):
    monkeypatch.setattr(pid, "MAX_RESTRICTED", 3)
    queries = REDUCIBLE["not a product"][0]()
    reduced, class_of_cell = pid.reduce_cells(queries)
    assert reduced is queries
    np.testing.assert_array_equal(class_of_cell, np.arange(4))


def test_long_tables_are_compared_in_pieces(monkeypatch, rng):
    matrix = rng.integers(0, 2, (40, 3))[:, rng.integers(0, 3, 12)]
    joint = pid.reduce_cells(Queries.from_pairs((matrix, 1.0)))[1]
    monkeypatch.setattr(pid, "BLOCK", 24)
    np.testing.assert_array_equal(pid.reduce_cells(Queries.from_pairs((matrix, 1.0)))[1], joint)
    assert joint.max() == 2


@settings(max_examples=50)
@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_reduction_is_lossless(n, m, seed):
    """The reduced problem's strategy, spread over the cells, costs the same and answers the queries as well."""
    rng = np.random.default_rng(seed)
    queries = Queries.from_pairs((random_ranges(n, m, seed), 1.0), (rng.integers(0, 2, (1, n)), 2.0))
    if not np.any([rules.dense(a).any() for a in queries.operators]):
        return
    reduced, class_of_cell = pid.reduce_cells(queries)
    result = pid.PIdentity(rng.uniform(0, 1, (2, reduced.cells)), 1.0, 1.0, 1, PIdentityStatus.LOCAL_OPTIMUM)
    strategy = pid.expand_classes(result.matrix, class_of_cell)
    assert np.abs(strategy).sum(axis=0).max() == pytest.approx(1.0, rel=EXACT)
    for one, other in zip(pid.variances(reduced, result.sums), by_definition(queries, strategy), strict=True):
        np.testing.assert_allclose(one, other, rtol=LOOSE, atol=LOOSE)


def test_reduction_pays(rng):
    """Ten ranges of 64 cells: a third fewer total errors with the same search."""
    queries = Queries.from_pairs((random_ranges(64, 10), 1.0))
    reduced, _ = pid.reduce_cells(queries)
    assert reduced.cells < 22
    assert pid.minimise_total(reduced, rng).value < 0.8 * pid.minimise_total(queries, rng).value


# --- bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tables",
    [
        (),
        ((op.Prefix(3), 1.0), (op.Prefix(4), 1.0)),
        ((op.Prefix(3), 0.0),),
        ((op.Prefix(3), [1.0, 2.0]),),
        ((op.Prefix(3), np.nan),),
    ],
    ids=["none", "cells", "zero", "length", "nan"],
)
def test_queries_are_checked(tables):
    with pytest.raises(WorkloadError):
        Queries.from_pairs(*tables)


@pytest.mark.parametrize("wrong", [{"starts": 0}, {"size": 0}, {"iterations": 0}])
@pytest.mark.parametrize("search", [pid.minimise_total, pid.minimise_worst])
def test_limits_are_checked(search, wrong, rng):
    with refused("workload.not-a-whole-number"):
        search(Queries.from_pairs((op.Prefix(4), 1.0)), rng, **wrong)


@pytest.mark.parametrize("search", [pid.minimise_total, pid.minimise_worst])
def test_queries_must_count_something(search, rng):
    with refused("workload.queries-count-nothing"):
        search(Queries.from_pairs((np.zeros((2, 3)), 1.0)), rng)


def test_unknown_operators_are_refused(rng):
    class Odd(op.Operator):
        shape = (1, 3)

        def mv(self, x):
            return x[:1]

        def rmv(self, y):
            return np.concatenate([y, 0 * y, 0 * y])

    with refused("workload.operator-without-rule"):
        pid.minimise_total(Queries.from_pairs((Odd(), 1.0)), rng)


def test_a_search_from_what_was_found_is_never_worse(rng):
    """Than its start, also where that is the best there is, nor than the cells on their own."""
    targets = rng.uniform(1, 3, size=16)
    similar = Queries.from_pairs((op.Prefix(16), targets))
    result = pid.minimise_worst(Queries.from_pairs((op.Prefix(16), 1.0)), rng, starts=2, iterations=20)
    begun = pid.worst_ratio(similar, result.sums)
    improved = pid.improve_worst(similar, result.sums)
    assert improved.value <= min(begun, improved.cells_only)
    assert improved.value < begun
    assert pid.worst_ratio(similar, improved.sums) == pytest.approx(improved.value, rel=EXACT)
    assert pid.improve_worst(similar, improved.sums, iterations=1).value <= improved.value
