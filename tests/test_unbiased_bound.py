"""No unbiased mechanism of any kind is below the bound: docs/mathematics/unbiased_bound.md."""

import math
from fractions import Fraction

import numpy as np
import pytest

import fitnoise as fn
import zoo
from dense import dense_bound
from fitnoise import data
from fitnoise.request.documents import load_spec
from tolerances import EXACT

ONE = fn.Domain(a=fn.Ordered(0, 0))


def nuclear(a):
    return float(np.linalg.svd(a, compute_uv=False).sum())


@pytest.mark.parametrize("seed", range(200))
def test_the_theorem_holds_for_mechanisms_of_any_kind(seed):
    """Mechanisms with finitely many outputs, random laws and random answers: none beats its own κ."""
    rng = np.random.default_rng(seed)
    outputs, cells, numbers = rng.integers(2, 12), rng.integers(1, 5), rng.integers(1, 5)
    law = rng.dirichlet(np.full(outputs, 0.7))
    others = rng.dirichlet(np.full(outputs, rng.choice([0.3, 3.0])), size=cells)
    answers = rng.normal(size=(numbers, outputs)) * rng.exponential(size=outputs)
    mean = answers @ law
    queries = (answers @ others.T) - mean[:, None]  # of which it is unbiased at all of these data sets
    variances = ((answers - mean[:, None]) ** 2) @ law
    kappa = ((others / law - 1) ** 2 @ law).max()
    for _ in range(5):
        p, q = rng.dirichlet(np.ones(cells)), rng.dirichlet(np.ones(numbers))
        nu = nuclear(np.sqrt(q / variances)[:, None] * queries * np.sqrt(p))
        assert nu**2 <= kappa * (1 + 1e-9)


def test_the_theorem_is_tight():
    """Answers that are the likelihood ratios themselves attain it: κ cannot be smaller."""
    law, other = np.array([0.5, 0.5]), np.array([0.7, 0.3])
    ratio = other / law - 1
    assert (ratio @ other - ratio @ law) ** 2 / (ratio**2 @ law) == pytest.approx(ratio**2 @ law)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0])
def test_a_ratio_within_epsilon_varies_by_at_most_kappa(epsilon):
    kappa = 4 * math.sinh(epsilon / 2) ** 2
    grid = np.exp(np.linspace(-epsilon, epsilon, 201))
    low, high = np.meshgrid(grid[grid < 1], grid[grid > 1])
    assert ((high - 1) * (1 - low)).max() == pytest.approx(kappa)  # of two values with mean 1, the most there is


@pytest.mark.parametrize("variance", [0.01, 1.0, 50.0])
@pytest.mark.parametrize("records", [1, 3])
def test_a_single_count(variance, records):
    workload = fn.Workload(ONE, [fn.table(variance=variance)])
    unit = fn.PrivacyUnit("person", records)
    nu = records**2 / variance
    plan = fn.plan(workload, unit=unit)
    assert plan.table_part.unbiased_bound == pytest.approx(math.log1p(nu) / 2, rel=1e-6)
    pure = fn.plan(workload, unit=unit, privacy="pure")
    assert pure.table_part.unbiased_bound == pytest.approx(2 * math.asinh(math.sqrt(nu) / 2), rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
def test_discrete_laplace_noise_on_a_count_is_above_it(epsilon):
    variance = 1 / (2 * math.sinh(epsilon / 2) ** 2)
    bound = 2 * math.asinh(math.sqrt(1 / variance) / 2)
    assert bound < epsilon
    assert 4 * math.sinh(bound / 2) ** 2 == pytest.approx(4 * math.sinh(epsilon / 2) ** 2 / 2)


OPTIONS = {
    "targets": {},
    "replace-one": {
        "unit": fn.PrivacyUnit("person", 1, fn.Neighbours.REPLACE_ONE),
        "public": fn.KnownTotals((), "Register", "these data"),
    },
    "two records": {"unit": fn.PrivacyUnit("person", 2)},
    "replace-one of two": {"unit": fn.PrivacyUnit("person", 2, fn.Neighbours.REPLACE_ONE)},
    "total error": {"objective": fn.Objective("total-error")},
    "hybrid": {"objective": fn.Objective("hybrid", total_error_weight=0.01)},
    "a budget": {"budget": fn.Budget(mu=0.5)},
}


@pytest.mark.parametrize("name", ["marginals", "five structured cells", "crossed"])
@pytest.mark.parametrize("kind", OPTIONS)
def test_no_plan_is_below_and_each_is_about_rho_above(name, kind):
    plan = fn.plan(zoo.WORKLOADS[name](), **OPTIONS[kind])
    bound, rho = plan.table_part.unbiased_bound, float(plan.loss.rho)
    assert 0 < bound < rho
    if kind != "hybrid":
        assert bound == pytest.approx(math.log1p(plan.bound) / 2, rel=EXACT)
        proven = dense_bound(plan, plan.table_part.evidence, plan.table_part.terms)
        bought = plan.table_part.relaxation if kind == "a budget" else 1.0
        assert bound == pytest.approx(math.log1p(proven / bought) / 2, rel=1e-6)
        assert rho / bound - 1 < rho * (1 + plan.gap) + 2 * plan.gap


def test_relative_to_cell_budgets():
    plan = fn.plan(zoo.five_cells(), cell_budgets=fn.CellBudgets(("a",), (1, 0.5, 0.1)))
    assert 0 < plan.table_part.unbiased_bound < float(plan.table_part.exact_weighted_cost / 2)


@pytest.mark.parametrize("name", ["marginals", "prefix", "one query"])
def test_pure_plans_are_above_it(name):
    plan = fn.plan(zoo.WORKLOADS[name](), privacy="pure")
    assert 0 < plan.table_part.unbiased_bound < float(plan.loss.epsilon)
    assert plan.table_part.unbiased_bound == pytest.approx(2 * math.asinh(math.sqrt(plan.bound) / 2), rel=EXACT)


def test_the_bound_of_a_hybrid_is_for_mechanisms_with_no_more_total_error():
    """The plan for the targets alone has more, and may cost less than it."""
    workload = zoo.WORKLOADS["marginals"]()
    hybrid = fn.plan(workload, objective=fn.Objective("hybrid", total_error_weight=0.01))
    base = fn.plan(workload)
    assert base.loss.rho < hybrid.loss.rho
    assert hybrid.table_part.unbiased_bound > base.table_part.unbiased_bound


def test_biased_tables_are_not_bounded():
    assert fn.plan(zoo.REQUESTS["projection"]()).table_part.unbiased_bound is None


def test_the_demo():
    plan = fn.plan(load_spec(data.path(data.DEMO)))
    assert float(plan.loss.rho) == pytest.approx(0.0356209, abs=1e-7)
    assert plan.table_part.unbiased_bound == pytest.approx(0.0344093, abs=1e-7)


def test_several_parts_say_it_each():
    workload = fn.Workload(fn.Domain(a=fn.Ordered(0, 2)), [fn.table("a", variance=4)])
    pure = fn.Publication(workload, privacy="pure")
    plan = fn.plan(
        fn.Publication(fn.Workload(workload.domain, [fn.table(variance=1, name="all")]), further_tables=(pure,))
    )
    bound_of_one, second = (part.unbiased_bound for part in plan.groups)
    assert bound_of_one == pytest.approx(math.log(2) / 2)
    assert second == pytest.approx(2 * math.asinh(0.25))
    assert plan.loss.epsilon is None
    assert Fraction(plan.rho) >= plan.loss.rho
