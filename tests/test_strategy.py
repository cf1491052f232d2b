"""Exact prices, by brute force over neighbours."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
from conftest import zoo_plan
from dense import centring, group_of, strategy_matrix
from designs import over
from fitnoise.errors import PlanError, SingularStrategy
from fitnoise.kernel.designs import sectors as strategies
from fitnoise.kernel.designs.sectors import (
    SectorStrategy,
    Strategy,
    StrategyGroup,
    axis_rows,
    centre,
    exact_matmul,
    gains,
    uncentre,
)

ADD, REPLACE = fn.Neighbours.ADD_OR_REMOVE_ONE, fn.Neighbours.REPLACE_ONE
SMALL = [
    "binary",
    "attribute of one value",
    "marginals",
    "prefix",
    "crossed",
    "integers of low rank",
    "five structured cells",
]


def test_many_attributes_get_the_bound_that_needs_no_search():
    domain = fn.Domain({f"a{i}": fn.Ordered(0, 1) for i in range(15)})
    strategy = fn.plan(fn.Workload(domain, [fn.table(a, variance=1) for a in domain])).strategy
    total = strategy.group_costs()[0]  # the same for both records; the others cost most where all values differ
    assert strategy.cost_squared(REPLACE) == 4 * (strategy.cost_squared(ADD) - total)


@pytest.mark.parametrize("name", SMALL)
def test_the_bound_for_many_attributes_is_no_less_than_the_search(name, monkeypatch):
    plan = zoo_plan(name)
    exact = plan.strategy.cost_squared(REPLACE)
    monkeypatch.setattr(strategies, "MAX_REPLACE_PATTERNS", 0)
    bound = plan.strategy.cost_squared(REPLACE)
    assert exact <= bound <= 4 * plan.strategy.cost_squared(ADD)
    if not plan.strategy.sizes:
        assert bound == exact


@pytest.mark.parametrize("name", SMALL)
def test_the_costs_of_groups_are_those_of_their_sectors(name):
    s = zoo_plan(name).strategy
    costs = []
    for group in s.groups:
        alone = [
            Strategy(over(s.sizes, s.cells), (group_of(x),)).cost_squared(ADD)
            for x in map(group.sector, range(len(group)))
        ]
        costs.append(sum(alone))
        assert max(s.profile()) >= max(alone)
    assert tuple(costs) == s.group_costs()
    assert sum(costs) >= max(s.profile())


@pytest.mark.parametrize("n", [2, 3, 4, 7, 51])
def test_centring_identities(n):
    """HᵀH = g (I − J/n), exactly; H⁺ = Hᵀ/g; every column has the same norm."""
    h = centring(n)
    g = int(gains(np.array([n])))
    assert (h.T @ h * n).tolist() == (g * (n * np.eye(n, dtype=int) - 1)).tolist()
    assert len(h) == axis_rows(n)
    x = np.arange(2 * n).reshape(2, n) ** 2
    np.testing.assert_array_equal(centre(x, 1), x @ h.T)
    np.testing.assert_array_equal(centre(x.astype(object), 1), x @ h.T)
    np.testing.assert_allclose(uncentre(np.asarray(h, dtype=float), 0, n), np.eye(n) - 1 / n, atol=1e-12)


def test_centring_wraps_like_the_integers_modulo_2_64():
    rng = np.random.default_rng(5)
    x = rng.integers(-(2**62), 2**62, size=(4, 5))
    with np.errstate(over="ignore"):
        wrapped = centre(x, 0)
    exact = centre(x.astype(object), 0)
    assert [(int(a) - int(b)) % 2**64 for a, b in zip(wrapped.ravel(), exact.ravel(), strict=True)] == [0] * 20


@settings(deadline=None)
@given(st.integers(0, 62), st.integers(0, 62), st.integers(0, 2**32))
def test_matmul_is_exact_at_any_size(bits_a, bits_b, seed):
    rng = np.random.default_rng(seed)
    a = rng.integers(-(2**bits_a), 2**bits_a, size=(2, 3))
    b = rng.integers(-(2**bits_b), 2**bits_b, size=(3, 2))
    expected = a.astype(object) @ b.astype(object)
    assert exact_matmul(a, b).tolist() == expected.tolist()


def test_an_empty_product_is_empty():
    assert exact_matmul(np.zeros((2, 0), int), np.zeros((0, 3), int)).shape == (2, 3)


ONES = np.ones(1)


def sector(mixing, basis, scale=4.0, sizes=(), attributes=()):
    return group_of(SectorStrategy(attributes, sizes, np.array(mixing), np.array(basis), scale))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sector([[1, 0]], [[1, 1]]), "square integers"),
        (lambda: sector([[1.5]], [[1, 1]]), "square integers"),
        (lambda: sector([[1]], [[0.5, 1]]), "whole numbers"),
        (lambda: sector([[-(2**63)]], [[1, 1]]), "below 2\\^62"),
        (lambda: sector([[1]], [[2**62, 1]]), "below 2\\^62"),
        (lambda: sector([[1]], [[1, 1]], scale=0.0), "positive number"),
        (lambda: sector([[1]], [[1, 1]], scale=float("inf")), "positive number"),
        (lambda: sector([[1]], [[1, 1]], scale=2.0**56), "exact sampler can draw"),
        (
            lambda: sector(np.array([[-128]], dtype=np.int8), np.eye(1, dtype=int)),
            "square integers",
        ),
        (lambda: sector(np.array([[np.int64(1)]], dtype=object), [[1, 1]]), "square integers"),
        (lambda: sector(np.array([[2.5]], dtype=object), [[1, 1]]), "square integers"),
        (lambda: sector([[1]], [[1, 1]], sizes=(1,), attributes=(0,)), "two values or more"),
        (lambda: sector([[1]], [[1, 1]], sizes=(3,)), "two values or more"),
        (lambda: sector([[1]], [[1, 1]], sizes=(3, 3), attributes=(1, 1)), "increasing order"),
        (lambda: Strategy(over((), 2), (sector([[1]], [[1, 1]]),) * 2), "appears twice"),
        (lambda: Strategy(over((), 3), (sector([[1]], [[1, 1]]),)), "does not fit its domain"),
        (
            lambda: Strategy(over((4,), 2), (sector([[1]], [[1, 1]], sizes=(3,), attributes=(0,)),)),
            "does not fit its domain",
        ),
    ],
)
def test_strategies_that_are_none(make, message):
    with pytest.raises(PlanError, match=message) as caught:
        make()
    assert "4.0" not in str(caught.value)


@pytest.mark.parametrize(("attributes", "sizes"), [(np.intp, np.int8), (np.uint8, np.int64), (np.intp, np.float64)])
def test_sizes_that_could_wrap_around_are_refused(attributes, sizes):
    """One byte holds 20 values, but not what they cost: 20 · 19 = 380 would be 124."""
    with pytest.raises(PlanError, match="64-bit whole numbers"):
        StrategyGroup(
            np.array([[0]], attributes), np.array([[20]], sizes), np.ones((1, 1), int), np.ones((1, 1, 1), int), ONES
        )


def test_weights_of_many_values_are_exact():
    n = 2**32 + 1
    many = StrategyGroup(np.array([[0]]), np.array([[n]]), np.ones((1, 1), int), np.ones((1, 1, 1), int), ONES)
    assert many.weights.tolist() == [n * (n - 1)]


def test_nothing_is_hidden_from_a_strategy():
    """Masked entries are left out where the largest is looked for, but not where matrices are multiplied."""
    hidden = np.ma.masked_array(np.array([[[1, 2**62], [0, 1]]]), mask=[[[False, True], [False, False]]])
    none = np.zeros((1, 0), dtype=np.intp)
    with pytest.raises(PlanError, match=r"below 2\^62"):
        StrategyGroup(none, none, np.eye(2, dtype=int), hidden, ONES)


def test_a_singular_mixing_is_refused():
    with pytest.raises(SingularStrategy, match="singular"):
        _ = sector([[1, 1], [1, 1]], [[1, 0], [0, 1]]).inverse


def test_a_mixing_that_doubles_cannot_hold_is_refused():
    """Its inverse would be that of another matrix, and the errors stated too small."""
    m = 2**60
    big = np.array([[m, m + 127], [m, m + 129]], dtype=object)
    with pytest.raises(SingularStrategy, match="singular"):
        _ = sector(big, np.eye(2, dtype=int)).inverse


def test_strategies_are_frozen_copies():
    mixing = np.array([[[2]]])
    none = np.zeros((1, 0), dtype=np.intp)
    s = StrategyGroup(none, none, np.array([[1, 1]]), mixing, np.array([4.0]))
    mixing[0, 0, 0] = 5
    assert s.mixing[0, 0, 0] == 2
    for held in (s.mixing, s.basis, s.scales):
        with pytest.raises(ValueError, match="read-only"):
            held[0] = 9


def test_one_attribute_of_one_value_does_not_cost_patterns():
    """Only attributes of two values or more count towards the search."""
    domain = fn.Domain({f"a{i}": fn.Ordered(0, 0) for i in range(20)} | {"b": fn.Ordered(0, 2)})
    plan = fn.plan(fn.Workload(domain, [fn.table("b", variance=1), fn.table(*list(domain)[:20], variance=1)]))
    assert plan.strategy.cost_squared(REPLACE) < 4 * plan.strategy.cost_squared(ADD)


def test_magnitude_bounds_every_transform(rng):
    plan = zoo_plan("five structured cells")
    rows, _ = strategy_matrix(plan)
    start = 0
    for group in plan.strategy.groups:
        for s in map(group.sector, range(len(group))):
            block = rows[start : start + s.answers]
            start += s.answers
            own = group.magnitude(np.arange(len(group)), s.sizes, 7)
            assert max(abs(int(x)) for x in block.ravel()) * 7 <= own
