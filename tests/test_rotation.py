"""Minimum sensitivity by rotation: the profile stays, the sensitivity falls to the best values known."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from fitnoise.mechanisms.laplace.hierarchies import hierarchy
from fitnoise_lab import rotation, strategies
from fitnoise_lab.rotation import minimum_sensitivity
from refused import refused
from tolerances import EXACT


def strategy_of(name, n):
    return {"H": hierarchy, "Y": strategies.haar}[name](n)


def check(result, start):
    """Check the guarantees of a result."""
    a = np.asarray(start, dtype=float)
    scale = np.abs(a.T @ a).max()
    assert np.abs(result.strategy.T @ result.strategy - a.T @ a).max() <= 1e-12 * max(scale, 1)
    assert result.sensitivity == strategies.sensitivity(result.strategy)
    assert result.bound == strategies.sensitivity(a, 2)
    assert result.bound * (1 - EXACT) <= result.sensitivity <= strategies.sensitivity(a)


BEST = {
    ("H", 2): math.sqrt(3),
    ("Y", 2): math.sqrt(2),
    ("H", 4): (1 + math.sqrt(7)) / math.sqrt(2),
    ("Y", 4): 2.0,
    ("H", 8): 3.357051,
    ("Y", 8): math.sqrt(8),
    ("H", 16): 4.218534,
    ("Y", 16): 3.730068,
}
"""The least sensitivities known before; no proof says that there are none below."""


@pytest.mark.parametrize(("name", "n"), [("H", 2), ("Y", 2), ("H", 4), ("Y", 4), ("H", 8), ("Y", 8)])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_best_known_values_are_found(name, n, seed):
    result = minimum_sensitivity(strategy_of(name, n), np.random.default_rng(seed), starts=12)
    check(result, strategy_of(name, n))
    assert result.sensitivity < BEST[name, n] * (1 + 5e-5)
    if n <= 4:
        assert result.sensitivity == pytest.approx(BEST[name, n], rel=1e-8)


@pytest.mark.parametrize(("name", "printed"), [("H", 2.896), ("Y", 2.210)])
def test_figure_4_is_not_minimal(name, printed):
    """Example 4.11 gives 2.896 and 2.210; 2.577935 = (1 + √7)/√2 and 2 are possible."""
    result = minimum_sensitivity(strategy_of(name, 4), np.random.default_rng(0), starts=6)
    assert result.sensitivity < printed - 0.2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["H", "Y"])
def test_sixteen_cells(name):
    result = minimum_sensitivity(strategy_of(name, 16), np.random.default_rng(1), starts=8)
    check(result, strategy_of(name, 16))
    assert result.sensitivity < BEST[name, 16] * (1 + 1e-3)
    assert result.sensitivity < min(
        strategies.sensitivity(strategies.coarse_root(strategies.profile(strategy_of(name, 16)), r)) for r in range(5)
    )


def test_the_identity_cannot_be_improved(rng):
    """Section 6.1: its sensitivity is its L2 norm."""
    result = minimum_sensitivity(strategies.identity(5), rng, starts=3)
    check(result, strategies.identity(5))
    assert result.sensitivity == result.bound == 1


@pytest.mark.slow
def test_any_profile(rng):
    """More rows, unequal columns, a profile of lower rank, one cell, and a Haar tree of lower rank."""
    for start in (rng.normal(size=(6, 4)), rng.normal(size=(2, 5)), [[3.0]], strategies.haar(4)[:2], np.zeros((2, 3))):
        check(minimum_sensitivity(start, rng, starts=4, steps=100), start)
    taller = minimum_sensitivity(strategies.haar(4), rng, starts=4, rows=6)
    check(taller, strategies.haar(4))
    assert taller.sensitivity == pytest.approx(2, rel=1e-6)


def test_the_same_seed_gives_the_same_strategy():
    one, other = (minimum_sensitivity(hierarchy(4), np.random.default_rng(5), starts=4) for _ in range(2))
    np.testing.assert_array_equal(one.strategy, other.strategy)


def test_random_numbers_are_drawn_only_from_the_third_start():
    class Never:
        def __getattr__(self, name):
            raise AssertionError(f"{name} was used")

    check(minimum_sensitivity(strategies.haar(8), Never(), starts=2), strategies.haar(8))


@pytest.mark.parametrize(
    ("start", "options"),
    [(np.eye(65), {}), (np.eye(3), {"rows": 2}), (np.eye(3), {"starts": 0})],
)
def test_unreachable_sizes_and_options_are_refused(start, options, rng):
    with refused("workload.rotation-size"):
        minimum_sensitivity(start, rng, **options)


def test_the_soft_maximum_bounds_the_sensitivity_and_its_gradient_is_right(rng):
    a, step = rng.normal(size=(5, 4)), rng.normal(size=(5, 4))
    value, gradient = rotation._soft(a, 30.0, 0.01)
    largest = strategies.sensitivity(a)
    assert largest <= value <= largest + math.log(4) / 30 + 5 * 0.01
    ahead, behind = (rotation._soft(a + t * step, 30.0, 0.01)[0] for t in (1e-6, -1e-6))
    assert (ahead - behind) / 2e-6 == pytest.approx((gradient * step).sum(), rel=1e-6)


def test_a_linear_step_is_the_best_of_the_region(rng):
    """To first order: no skew matrix of the trust region does better, with few and with many free signs."""
    a = rng.normal(size=(4, 4))
    for trust in (0.01, 0.5):
        skew = rotation._linear_step(a, trust)
        assert np.abs(skew + skew.T).max() == 0
        assert np.abs(skew).max() <= trust * (1 + EXACT)
        best = np.abs(a + skew @ a).sum(axis=0).max()
        for _ in range(300):
            other = rng.uniform(-trust, trust, size=(4, 4))
            other = np.triu(other, 1) - np.triu(other, 1).T
            assert np.abs(a + other @ a).sum(axis=0).max() >= best * (1 - EXACT)


def test_a_linear_program_that_fails_ends_the_polishing(rng, monkeypatch):
    monkeypatch.setattr(rotation.optimize, "linprog", lambda *_, **__: SimpleNamespace(x=None))
    result = minimum_sensitivity(hierarchy(8), rng, starts=3, steps=200)
    check(result, hierarchy(8))
    assert result.sensitivity < 3.6
