"""No mechanism of any kind is below the bounds of solving/universal_bounds.py, biased or not."""

import itertools
import math
import re

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import fitnoise as fn
import zoo
from fitnoise.solving.universal_bounds import min_epsilon, min_rho, min_unbiased_epsilon, min_variance
from fitnoise_check import bound as check_bound
from fitnoise_check.plan import check

ONE = fn.Domain(a=fn.Ordered(0, 0))


def min_on_grid(epsilon, delta, m, reach):
    """Return the least mean square of all laws on (1/m)ℤ, within `reach`, that are private for a move by 1: a program.

    No event of the law shifted by ±1 has more than e^ε times its probability, plus δ.
    """
    z = np.arange(-reach * m, reach * m + 1) / m
    n, e = len(z), math.exp(epsilon)
    one, zero = sp.eye(n), sp.csr_array((n, n))
    shifted = sp.diags([np.ones(n - m)], [m], shape=(n, n))
    row, none = np.ones((1, n)), np.zeros((1, n))
    excess = sp.bmat([[one - e * shifted, -one, zero], [one - e * shifted.T, zero, -one]])
    total = sp.csr_array(np.block([[none, row, none], [none, none, row]]))
    result = linprog(
        np.concatenate([z**2, np.zeros(2 * n)]),
        A_ub=sp.vstack([excess, total]).tocsr(),
        b_ub=np.concatenate([np.zeros(2 * n), [delta, delta]]),
        A_eq=np.concatenate([np.ones(n), np.zeros(2 * n)])[None],
        b_eq=[1],
        method="highs",
    )
    assert result.status == 0
    return float(result.fun)


@pytest.mark.parametrize("m", range(1, 31))
@pytest.mark.parametrize(
    ("epsilon", "delta", "reach"), [(0, 0.5, 3), (0.1, 0.3, 4), (1, 0.1, 4), (1, 0.01, 8), (2, 0.001, 6)]
)
def test_laws_on_any_grid_are_above_the_bound(epsilon, delta, reach, m):
    """Not on the integers alone: δ may be spent on few of the points between them."""
    assert min_variance(epsilon, delta) <= min_on_grid(epsilon, delta, m, reach) * (1 + 1e-7)


@pytest.mark.parametrize(
    ("epsilon", "delta", "achieved"), [(0, 0.5, 0.25), (1, 0.01, 1.516066), (0.1, 0.01, 66.191), (1, 0.1, 0.7875)]
)
def test_the_sum_for_integers_is_no_bound(epsilon, delta, achieved):
    """Laws between the integers are below it, and not below the bound with its last term."""
    beta, g, k, for_integers = math.exp(-epsilon), (1 - delta) / (1 + math.exp(epsilon)), 0, 0.0
    while g > 0:
        k += 1
        for_integers += 2 * (2 * k - 1) * g
        g = beta * (g - delta)
    assert min_variance(epsilon, delta) <= achieved < for_integers * (1 - 1e-5)


def test_the_law_of_two_halves_attains_it():
    """±½ with equal chances is (0, ½)-private: shifted by 1 it shares one of two points."""
    assert min_variance(0, 0.5) == pytest.approx(0.25, rel=1e-8)
    assert min_on_grid(0, 0.5, 2, 3) == pytest.approx(0.25)


@pytest.mark.parametrize("epsilon", [0.1, 0.25, 0.7, 1.5, 3.0])
def test_without_delta_it_is_the_variance_of_discrete_laplace_noise(epsilon):
    variance = 1 / (2 * math.sinh(epsilon / 2) ** 2)
    assert min_epsilon(1 / variance, 0) == pytest.approx(epsilon, rel=1e-11)
    assert min_variance(epsilon, 1e-13) == pytest.approx(variance, rel=1e-7)
    assert min_variance(epsilon, 1e-13) < variance


def test_its_number_at_epsilon_one_and_a_small_delta():
    assert min_variance(1, 1e-6) == pytest.approx(1.8411, abs=1e-5)
    assert math.sqrt(1 / min_variance(1, 1e-6)) == pytest.approx(0.737, abs=1e-3)


@pytest.mark.parametrize("bound", [1e-8, 0.01, 0.5, 3.0, 1e4])
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 0.01])
def test_the_bound_on_epsilon_is_where_the_variance_is_allowed(bound, delta):
    epsilon = min_epsilon(bound, delta)
    assert 0 <= epsilon < min_epsilon(bound, 0) < math.sqrt(2 * bound)
    assert min_variance(epsilon * (1 + 1e-6) + 1e-12, delta) * bound <= 1 + 1e-5
    if epsilon:
        assert min_variance(epsilon, delta) * bound > 1
    else:
        assert min_variance(0, delta) * bound <= 1


def test_no_variance_and_large_deltas_prove_nothing():
    assert min_epsilon(0, 0) == min_epsilon(0, 1e-6) == min_rho(0) == min_unbiased_epsilon(0) == 0
    assert min_epsilon(1.0, 0.999) == 0
    assert min_variance(0, 0.999) == 0


@pytest.mark.parametrize(("side", "lost"), [(1000, 0.060), (100, 0.27)])
def test_boxes_of_public_size_lose_little(side, lost):
    """Replaced records move two sides of a box of translations, which costs η = 2/L − 1/L² of δ."""
    eta = 2 / side - 1 / side**2
    sides = np.arange(side)
    common = np.mean((sides[:, None] > 0) & (sides < side - 1))  # of the box shifted by (1, −1)
    assert 1 - common == pytest.approx(eta)
    assert 1 - min_variance(1, eta) * 2 * math.sinh(0.5) ** 2 == pytest.approx(lost, abs=0.005)


@pytest.mark.parametrize("seed", range(30))
def test_noise_of_any_shape_on_tables_is_above_the_bound(seed):
    """Laws on ℤ² by enumeration, of random shape and mean, and random tables: none beats its own ε."""
    rng = np.random.default_rng(seed)
    reach = 14
    z = np.array(list(itertools.product(range(-reach, reach + 1), repeat=2)))
    epsilon = rng.uniform(1, 3)
    sizes = [np.abs(z).sum(axis=1), np.abs(z).max(axis=1)]
    # either norm moves by at most 1 with a cell, and so does their mean
    law = np.exp(-epsilon * (rng.choice([0, 1, 0.5]) * np.subtract(*sizes) + sizes[1]))
    law /= law.sum()
    tables = rng.choice([-1.0, 1.0, 2.0], size=(3, 2))
    tables[0] = [1, 1]
    errors = ((z + rng.normal(size=2) / 2) @ tables.T) ** 2  # the same mechanism for all data, with a bias
    targets = law @ errors
    for _ in range(5):
        p, q = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(3))
        scaled = np.sqrt(q / targets)[:, None] * tables * np.sqrt(p)
        nu = float(np.linalg.svd(scaled, compute_uv=False).sum())
        assert min_epsilon(nu**2, 0) <= epsilon
        assert min_epsilon(nu**2, 1e-3) <= epsilon


# --- plans --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [0.01, 1.0, 50.0])
def test_a_single_count_attains_it_under_pure_epsilon(variance):
    workload = fn.Workload(ONE, [fn.table(variance=variance)])
    part = fn.plan(workload, privacy="pure").table_part
    assert part.universal_epsilon == pytest.approx(2 * math.asinh(math.sqrt(1 / (2 * variance))), rel=1e-6)
    assert part.unbiased_bound < part.universal_epsilon <= part.epsilon()
    gaussian = fn.plan(workload).table_part
    assert gaussian.universal_epsilon == min_epsilon(gaussian.bound, gaussian.publication.delta)
    assert 0 < gaussian.universal_epsilon < part.universal_epsilon


OPTIONS = {
    "targets": {},
    "pure": {"privacy": "pure"},
    "replace-one": {
        "unit": fn.PrivacyUnit("person", 1, fn.Neighbours.REPLACE_ONE),
        "public": fn.KnownTotals((), "Register", "these data"),
    },
    "replace-one of two": {"unit": fn.PrivacyUnit("person", 2, fn.Neighbours.REPLACE_ONE)},
    "total error": {"objective": fn.Objective("total-error")},
    "hybrid": {"objective": fn.Objective("hybrid", total_error_weight=0.01)},
    "a budget": {"budget": fn.Budget(mu=0.5)},
}


@pytest.mark.parametrize("name", ["marginals", "five structured cells", "crossed"])
@pytest.mark.parametrize("kind", OPTIONS)
def test_no_plan_is_below_and_its_checker_finds_the_same(name, kind):
    plan = fn.plan(zoo.WORKLOADS[name](), **OPTIONS[kind])
    part = plan.table_part
    assert 0 < part.universal_epsilon < part.epsilon()
    (line,) = (x for x in check(plan.to_json().encode()) if "unbiased near" in x)
    unbiased, rho, epsilon = (
        re.findall(rf"{cost} >= ([0-9.e+-]+)", line) for cost in ("set: [a-z]+", "rho", "epsilon")
    )
    assert float(unbiased[0]) == pytest.approx(part.unbiased_bound, rel=1e-5)
    assert float(epsilon[-1]) == pytest.approx(part.universal_epsilon, rel=1e-5)
    assert [float(x) for x in rho] == pytest.approx([part.unbiased_bound] * (0 if kind == "pure" else 2), rel=1e-5)
    assert ("any number of records" in line) == (kind == "replace-one")


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0.5), (0.3, 1e-6), (1, 1e-6), (4, 0.01)])
def test_the_checker_adds_up_the_same_variance(epsilon, delta):
    assert check_bound.min_variance(epsilon, delta) == pytest.approx(min_variance(epsilon, delta), rel=1e-8)


def test_cell_budgets_public_totals_and_biased_tables_have_no_epsilon():
    budgets = fn.plan(zoo.five_cells(), cell_budgets=fn.CellBudgets(("a",), (1, 0.5, 0.1)))
    assert budgets.table_part.universal_epsilon is None
    assert "epsilon >=" not in next(x for x in check(budgets.to_json().encode()) if "unbiased near" in x)
    assert fn.plan(zoo.REQUESTS["projection"]()).table_part.universal_epsilon is None


@pytest.mark.parametrize(
    ("kind", "is_public"), [("targets", False), ("replace-one", True), ("replace-one of two", False)]
)
def test_reports_state_both_bounds_with_their_conditions(kind, is_public):
    report = fn.plan(zoo.WORKLOADS["marginals"](), **OPTIONS[kind]).table_part.descriptions
    unbiased, universal = report.report_universal_bounds()
    assert [m.id for m in unbiased.messages] == ["report.unbiased.targets"]
    expected = ["report.universal.targets", "report.universal.epsilon", *["report.universal.any_number"] * is_public]
    assert [m.id for m in universal.messages] == expected
    assert universal.values[0].content == report.part.universal_epsilon
