"""Weights of margins that each ask their own queries: gradients, values against dense least squares, never worse."""

import itertools

import numpy as np
import pytest

import fitnoise as fn
from fitnoise import data
from fitnoise.algebra import operators as op
from fitnoise.mechanisms.laplace import planning as matrix
from fitnoise.request.documents import load_spec
from fitnoise.solving import margin_weights, mixed_margins
from fitnoise.solving.mixed_margins import EqualQueryTables, MixedMargins
from fitnoise.solving.sectors import decompose

SIZES = (3, 2)
TABLES = [0b01, 0b11, 0b10]
MARGINS = [0b00, 0b01, 0b10, 0b11]


def problem(sharpness, seed=0):
    """Three tables about prefixes, the total and the cells of five structured ones; two kinds of queries on margins."""
    rng = np.random.default_rng(seed)
    information, shares = margin_weights.matrices(TABLES, MARGINS, SIZES)
    stars = [np.concatenate([np.eye(5), rng.uniform(size=(2, 5))]), np.ones((1, 5))]
    stars = [a / a.sum(axis=0) for a in stars]
    rows = (
        EqualQueryTables(op.Prefix(5), shares[[0]].toarray(), rng.uniform(1, 2, size=(1, 5))),
        EqualQueryTables(op.Total(5), shares[[1, 2]].toarray(), rng.uniform(1, 2, size=(2, 1))),
    )
    return MixedMargins(information.toarray(), np.stack([a.T @ a for a in stars]), rows, sharpness), stars


@pytest.mark.parametrize("sharpness", [None, 4.0, 64.0])
def test_gradients_by_finite_differences(sharpness):
    posed, _ = problem(sharpness)
    theta = np.random.default_rng(1).uniform(0.2, 1, size=(4, 2))
    _, gradient = posed.value_and_gradient(theta)
    for i, j in itertools.product(range(4), range(2)):
        step = np.zeros_like(theta)
        step[i, j] = 1e-6
        up, down = (posed.value_and_gradient(theta + s)[0] for s in (step, -step))
        assert gradient[i, j] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-7)
    assert (gradient * theta).sum() == pytest.approx(0, abs=1e-8)  # multiples have equal value up to `_FAINT`


def test_variances_are_those_of_dense_least_squares():
    posed, stars = problem(None)
    theta = np.random.default_rng(2).uniform(0.2, 1, size=(4, 2))
    rows = []
    for i, b in enumerate(MARGINS):
        free = [np.eye(n) if b >> a & 1 else np.ones((1, n)) for a, n in enumerate(SIZES)]
        rows += [theta[i, k] * np.kron(np.kron(*free), star) for k, star in enumerate(stars)]
    covariance = np.linalg.inv(np.concatenate(rows).T @ np.concatenate(rows))
    (prefixes, totals), _ = posed.variances(theta)
    for b, v, queries in (
        (0b01, prefixes[0], np.tri(5)),
        (0b11, totals[0], np.ones((1, 5))),
        (0b10, totals[1], np.ones((1, 5))),
    ):
        free = [np.eye(n) if b >> a & 1 else np.ones((1, n)) for a, n in enumerate(SIZES)]
        dense = np.kron(np.kron(*free), queries)
        expected = np.einsum("ij,jk,ik->i", dense, covariance, dense).reshape(-1, len(queries))
        np.testing.assert_allclose(expected, np.broadcast_to(v, expected.shape), rtol=1e-7)


@pytest.mark.parametrize("sharpness", [None, 1.0])
def test_never_worse_than_any_start(sharpness):
    posed, _ = problem(sharpness)
    rng = np.random.default_rng(3)
    starts = [rng.uniform(size=(4, 2)) for _ in range(3)]
    theta, value = mixed_margins.solve(posed, starts)
    assert theta.sum() == pytest.approx(1)
    assert value == pytest.approx(posed.measure(theta))
    assert value <= min(posed.measure(s / s.sum()) for s in starts) * (1 + 1e-9)


def test_a_margin_that_nothing_looks_at_is_worth_nothing_but_no_error():
    posed, _ = problem(4.0)
    theta = np.zeros((4, 2))
    theta[0, 1] = 1.0  # the total alone
    assert posed.value_and_gradient(theta)[0] > 10
    assert posed.value_and_gradient(np.zeros((4, 2)))[0] == mixed_margins.MAX_LOG_COST


@pytest.mark.slow
def test_tables_about_different_things_are_measured_each_in_its_own_way():
    """The demo: one strategy of the ages shared by all margins costs ε = 3.07, queries of their own 1.08."""
    spec = load_spec(data.path(data.DEMO))
    publication = fn.Publication(spec.workload, spec.unit, spec.source, privacy="pure")
    search = matrix.search(publication, all_families=True)
    ratios = {c.family: c.ratio for c in search.candidates}
    assert search.part.ratio <= 8.3
    assert ratios["cells and sums"] > 5 * search.part.ratio
    assert search.part.noisy_answers < 2 * search.part.numbers
    assert len(decompose(spec.workload).structured) == 1
