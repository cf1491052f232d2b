"""Every objective, budget and relation, against a conic solver, closed forms and the same problem written otherwise."""

import dataclasses
import itertools
from fractions import Fraction
from functools import cache

import cvxpy as cp
import numpy as np
import pytest

import fitnoise as fn
import zoo
from conftest import zoo_plan
from dense import layouts, workload_matrix, workload_variances
from designs import remade
from fitnoise.mechanisms.gaussian import formulation
from fitnoise.request.publication import CellBudgets, ErrorWeights, Goal, Objective
from fitnoise.solving import sectors
from laws.plans import check_mechanism, check_plan
from refused import refused
from tolerances import EXACT, GAP

CONIC = 1e-6
"""Relative distance from the optimum that the tolerance of the conic solver leaves."""

SWAP = fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)
REPLACED = {"unit": SWAP, "public": fn.KnownTotals((), "Register", "these data")}
TOTALS = [Objective(Goal.TOTAL_ERROR, w) for w in ErrorWeights]
EACH_GOAL = [Objective(), TOTALS[1], Objective(Goal.HYBRID, total_error_weight=0.1)]

CASES = {
    "prefix": (zoo.lower(4), np.array([1.0, 4.0, 2.0, 9.0])),
    "signs": (np.random.default_rng(3).choice([-1, 1], size=(6, 4)), np.array([1.0, 2.0, 3.0, 1.0, 5.0, 2.0])),
    "identity and sum": (np.concatenate([np.eye(3, dtype=int), np.ones((1, 3), dtype=int)]), np.array([1, 2, 3, 9.0])),
    "low rank": (np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 2, 2], [1, 1, -1, -1]]), np.array([2.0, 1.0, 7.0, 3.0])),
    "zero and equal columns": (np.array([[1, 0, 1, 0, 2], [1, 0, 1, 1, 0]]), np.array([1.0, 3.0])),
    "reals": (np.random.default_rng(4).normal(size=(5, 3)), np.array([1.0, 1.0, 2.0, 0.5, 4.0])),
}
BUDGETS = {name: np.array([1, 0.3, 1, 0.05, 0.6])[: w.shape[1]] for name, (w, _) in CASES.items()}


def conic(w, c, *, objective=None, r=1.0, region="cells"):
    """The optimum as a semidefinite program in the precision X: var = lᵀX⁻¹l, prof = bᵀXb."""
    objective = objective or Objective()
    w = np.asarray(w, dtype=float)
    if region == "pairs":  # the number of records is public: only what is centred needs an answer
        w = w - w.mean(axis=1, keepdims=True)
    basis = np.linalg.svd(w)[2][: np.linalg.matrix_rank(w)]
    columns, lifts = basis.T, w @ basis.T
    precision, level = cp.Variable((len(basis), len(basis)), PSD=True), cp.Variable()
    steps = []
    if region != "pairs":
        steps += [(b, x) for b, x in zip(columns, np.broadcast_to(r, len(columns)), strict=True) if abs(b).max() > 1e-9]
    if region != "cells":
        steps += [(a - b, 1.0) for a, b in itertools.combinations(columns, 2)]
    constraints = [cp.sum(cp.multiply(precision, np.outer(b, b))) <= level * x for b, x in steps]
    variances = cp.hstack([cp.matrix_frac(row, precision) for row in lifts])
    omega = objective.weights.for_targets(c)
    total = objective.goal is Goal.TOTAL_ERROR
    constraints.append(omega @ variances / (omega @ c) <= 1 if total else variances <= c)
    cost = level + (objective.total_error_weight or 0) * (omega @ variances)
    return cp.Problem(cp.Minimize(cost), constraints).solve(solver="CLARABEL")


def agrees(plan, optimum, rounding=EXACT):
    """The optimum lies between the bound and the value, which differ by GAP."""
    assert plan.gap <= GAP
    assert plan.bound * (1 - rounding) <= optimum <= plan.table_part.objective_value * (1 + rounding)


def same(plan, other, factor=1.0):
    """Return two certified plans of problems whose optima differ by a factor."""
    assert max(plan.gap, other.gap) <= GAP
    assert plan.bound <= other.table_part.objective_value * factor * (1 + EXACT)
    assert other.bound * factor <= plan.table_part.objective_value * (1 + EXACT)


def as_matrix(workload):
    return fn.matrix_workload(workload_matrix(workload), variances=workload_variances(workload))


def case(name):
    w, c = CASES[name]
    return fn.matrix_workload(w, variances=c)


SMALL = ["marginals", "by value", "pivoted basis", "columns out of order", "attribute of one value", "crossed"]
"""Workloads in several sectors whose domains are small enough to plan as one matrix."""


def free_of_charge(name):
    """Return True if replace-one neighbours protect nothing that the workload shows."""
    return name in ("total", "one cell")


# --- total error ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", TOTALS, ids=lambda o: o.weights)
@pytest.mark.parametrize("name", CASES)
def test_total_error_is_the_matrix_mechanism(name, objective):
    agrees(fn.plan(case(name), objective=objective), conic(*CASES[name], objective=objective), CONIC)


@pytest.mark.parametrize("objective", TOTALS, ids=lambda o: o.weights)
@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_total_error_laws(name, objective):
    """All laws of plans; a total asks less than all its targets do; relaxation is 1 up to rounding."""
    plan = fn.plan(zoo.WORKLOADS[name](), objective=objective, gap=GAP)
    check_plan(plan)
    assert 1 - 1e-8 <= plan.table_part.relaxation <= 1
    assert plan.bound <= zoo_plan(name).table_part.objective_value


@pytest.mark.parametrize("name", ["five structured cells", "crossed", "all ranges"])
def test_total_error_mechanisms(name, rng):
    check_mechanism(fn.plan(zoo.WORKLOADS[name](), objective=TOTALS[1]), rng)


@pytest.mark.parametrize("objective", TOTALS, ids=lambda o: o.weights)
def test_total_error_of_the_identity_has_a_closed_form(objective):
    """At Δ = 1 every variance is 1 or more: the least Σ ω var is Σ ω, and Δ² = Σ ω / Σ ω c."""
    c = np.array([1.0, 2.0, 5.0, 11.0])
    omega = objective.weights.for_targets(c)
    plan = fn.plan(fn.matrix_workload(np.eye(4, dtype=int), variances=c), objective=objective)
    agrees(plan, omega.sum() / (omega @ c))


@pytest.mark.parametrize("name", ["prefix", "marginals", "random signs"])
def test_with_equal_targets_all_weights_agree(name):
    w = workload_matrix(zoo.WORKLOADS[name]())
    plans = [fn.plan(fn.matrix_workload(w, variances=3.0), objective=o) for o in TOTALS]
    for other in plans[1:]:
        same(plans[0], other)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("objective", TOTALS, ids=lambda o: o.weights)
def test_every_published_number_counts(name, objective):
    """A row of a table over exchangeable attributes stands for all its numbers, and equals the complete matrix."""
    workload = zoo.WORKLOADS[name]()
    same(fn.plan(workload, objective=objective), fn.plan(as_matrix(workload), objective=objective))


@pytest.mark.parametrize("objective", TOTALS, ids=lambda o: o.weights)
def test_a_budget_is_spent_on_total_error(objective):
    """The covariance is equal up to a scale: relaxation = Δ²(targets)/Δ²(budget)."""
    plan = fn.plan(zoo.five_cells(), objective=objective, budget=fn.Budget(rho=Fraction(1, 50)))
    check_plan(plan)
    assert plan.table_part.relaxation == pytest.approx(
        fn.plan(zoo.five_cells(), objective=objective).table_part.objective_value * 25, rel=2 * GAP
    )


# --- hybrid ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trade", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("name", CASES)
def test_a_hybrid_is_the_best_sum_of_both(name, trade):
    for weights in ErrorWeights:
        objective = Objective(Goal.HYBRID, weights, trade)
        agrees(fn.plan(case(name), objective=objective), conic(*CASES[name], objective=objective), CONIC)


@pytest.mark.parametrize("trade", [1e-4, 1e-2, 1.0, 1e3])
@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_hybrid_laws(name, trade):
    plan = fn.plan(zoo.WORKLOADS[name](), objective=Objective(Goal.HYBRID, "inverse-variance", trade), gap=GAP)
    check_plan(plan)
    assert plan.table_part.objective_value >= zoo_plan(name).bound


@pytest.mark.parametrize("name", ["prefix", "marginals", "five structured cells", "random signs"])
def test_a_hybrid_between_its_limits(name):
    """λ → 0 leaves fit-for-use; for large λ targets bind no more: 2 √(λ T), T the least Σ ω var at Δ = 1."""
    fit = zoo_plan(name)
    c = workload_variances(fit.publication.workload)
    weak = fn.plan(fit.publication.workload, objective=Objective(Goal.HYBRID, total_error_weight=1e-9 / c.sum()))
    assert fit.bound <= float(weak.table_part.exact_cost) <= float(fit.table_part.exact_cost) * (1 + 2 * GAP)
    total = fn.plan(fit.publication.workload, objective=Objective(Goal.TOTAL_ERROR))
    low, high = (x * c.sum() for x in (total.bound, total.table_part.objective_value))
    trade = 1e4 * fit.table_part.objective_value**2 / low
    strong = fn.plan(fit.publication.workload, objective=Objective(Goal.HYBRID, total_error_weight=trade))
    assert strong.gap <= GAP
    assert strong.bound <= 2 * (trade * high) ** 0.5
    assert 2 * (trade * low) ** 0.5 <= strong.table_part.objective_value
    assert strong.table_part.relaxation < 1
    variance = sum(strong.table_part.table_variances(t.name).sum() for t in fit.publication.workload.tables)
    assert (
        low <= float(strong.table_part.exact_cost) * variance <= high * (1 + 4 * GAP)
    )  # the covariance of total error, scaled


def test_a_hybrid_for_units_of_several_records():
    """g² Δ² + λ Σ ω var is g² times the hybrid with λ/g²."""
    three = fn.plan(
        zoo.five_cells(), unit=fn.PrivacyUnit("home", 3), objective=Objective(Goal.HYBRID, "inverse-std-error", 0.18)
    )
    check_plan(three)
    same(three, fn.plan(zoo.five_cells(), objective=Objective(Goal.HYBRID, "inverse-std-error", 0.02)), 9)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("trade", [1e-2, 3.0])
def test_a_hybrid_of_sectors_is_that_of_the_matrix(name, trade):
    workload, objective = zoo.WORKLOADS[name](), Objective(Goal.HYBRID, "inverse-std-error", trade)
    same(fn.plan(workload, objective=objective), fn.plan(as_matrix(workload), objective=objective))


# --- budgets of cells -----------------------------------------------------------------------------------------


def by_cell(r):
    return CellBudgets(("cell",), tuple(r))


@pytest.mark.parametrize("objective", EACH_GOAL, ids=lambda o: o.goal)
@pytest.mark.parametrize("name", CASES)
def test_cell_budgets_weigh_the_profile(name, objective):
    r = BUDGETS[name]
    plan = fn.plan(case(name), cell_budgets=by_cell(r), objective=objective)
    agrees(plan, conic(*CASES[name], objective=objective, r=r), CONIC)
    check_plan(plan)


def some_budgets(workload):
    """Budgets by the last attribute that some table shows and, where there are two, the first."""
    used = [a for a in workload.domain if any(a in t.attributes for t in workload.tables)] or list(workload.domain)
    names = tuple(dict.fromkeys([used[-1], used[0]]))
    cells = int(np.prod([workload.domain[a].size for a in names]))
    return CellBudgets(names, tuple(1 / (1 + np.arange(cells) % 4)))


@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_cell_budget_laws(name):
    """No record costs more than its share of the costliest; its attributes are structured; the plan is certified."""
    workload = zoo.WORKLOADS[name]()
    budgets = some_budgets(workload)
    plan = fn.plan(workload, cell_budgets=budgets, gap=GAP)
    check_plan(plan)
    assert set(budgets.attributes) <= set(plan.table_part.decomposition.structured)
    max_cost = plan.table_part.exact_weighted_cost
    shares = [Fraction(float(r)) * max_cost for r in plan.table_part.terms.relative]
    assert all(prof <= allowed for prof, allowed in zip(plan.table_part.strategy.profile(), shares, strict=True))
    assert zoo_plan(name).bound <= plan.table_part.objective_value * (1 + EXACT)  # budgets below 1 ask for more
    assert plan.table_part.exact_cost <= max_cost
    under = fn.plan(workload, cell_budgets=budgets, budget=fn.Budget(mu=0.5))
    check_plan(under)
    assert under.table_part.relaxation == pytest.approx(plan.table_part.objective_value / 0.25, rel=2 * GAP)


@pytest.mark.parametrize("name", ["five structured cells", "marginals", "crossed"])
def test_cell_budget_mechanisms(name, rng):
    workload = zoo.WORKLOADS[name]()
    check_mechanism(fn.plan(workload, cell_budgets=some_budgets(workload)), rng)


@pytest.mark.parametrize("name", SMALL)
def test_cell_budgets_of_sectors_are_those_of_the_matrix(name):
    workload = zoo.WORKLOADS[name]()
    budgets = some_budgets(workload)
    order = np.argsort([list(workload.domain).index(a) for a in budgets.attributes])
    names = [budgets.attributes[i] for i in order]
    r = np.reshape(budgets.values, [workload.domain[a].size for a in budgets.attributes]).transpose(order)
    wide = r.reshape([workload.domain[a].size if a in names else 1 for a in workload.domain])
    all_budgets = np.broadcast_to(wide, workload.domain.shape).ravel()
    same(fn.plan(workload, cell_budgets=budgets), fn.plan(as_matrix(workload), cell_budgets=by_cell(all_budgets)))
    swapped = CellBudgets(tuple(names), tuple(r.ravel()))
    assert (
        fn.plan(workload, cell_budgets=swapped).table_part.exact_cost
        == fn.plan(workload, cell_budgets=budgets).table_part.exact_cost
    )


@pytest.mark.parametrize("objective", [EACH_GOAL[0], EACH_GOAL[1]], ids=lambda o: o.goal)
def test_cell_budgets_for_units_of_several_records(objective):
    budgets = CellBudgets(("o",), (1, 0.5, 0.1, 1, 0.3))
    plans = [
        fn.plan(zoo.five_cells(), unit=fn.PrivacyUnit("home", g), cell_budgets=budgets, objective=objective)
        for g in (1, 3)
    ]
    check_plan(plans[1])
    same(plans[1], plans[0], 9)


@pytest.mark.parametrize("name", ["five structured cells", "prefix", "marginals"])
def test_equal_budgets_are_none(name):
    workload = zoo.WORKLOADS[name]()
    budgets = some_budgets(workload)
    plan = fn.plan(workload, cell_budgets=dataclasses.replace(budgets, values=(1,) * len(budgets.values)))
    same(plan, zoo_plan(name))
    assert plan.table_part.exact_weighted_cost == plan.table_part.exact_cost


def test_records_no_table_distinguishes_cost_what_the_smallest_budget_allows():
    """A budget by an attribute no table shows: the profile is the same along it."""
    budgets = CellBudgets(("unused",), (0.25, 1.0))
    plan = fn.plan(zoo.crossed(), cell_budgets=budgets)
    check_plan(plan)
    same(plan, fn.plan(zoo.crossed()), 4)


def test_a_budget_of_0_needs_a_cell_that_nobody_counts():
    w = np.array([[1, 0, 1], [0, 0, 1]])
    workload = fn.matrix_workload(w, variances=1)
    plan = fn.plan(workload, cell_budgets=by_cell((1, 0, 0.5)))
    check_plan(plan)
    assert plan.table_part.profile[1] == 0
    same(plan, fn.plan(fn.matrix_workload(w[:, [0, 2]], variances=1), cell_budgets=by_cell((1, 0.5))))
    with refused("plan.query-of-cell-without-budget"):
        fn.plan(workload, cell_budgets=by_cell((0, 1, 1)))


# --- neighbours that replace a record -------------------------------------------------------------------------

OTHERS = {
    "pairs": REPLACED,
    "dropped": {"unit": SWAP, "source": fn.DataSource(outside_domain=fn.OutsideDomain.DROP)},
    "two": {"unit": fn.PrivacyUnit("home", 2, fn.Neighbours.REPLACE_ONE)},
}
"""Replace-one neighbours: as they are, where records may be dropped, and for units of up to two records."""


@pytest.mark.parametrize("objective", EACH_GOAL, ids=lambda o: o.goal)
@pytest.mark.parametrize("region", ["pairs", "pairs or cells"])
@pytest.mark.parametrize("name", CASES)
def test_replace_one_is_the_worst_pair_of_cells(name, region, objective):
    plan = fn.plan(case(name), objective=objective, **OTHERS["pairs" if region == "pairs" else "dropped"])
    agrees(plan, conic(*CASES[name], objective=objective, region=region), CONIC)


@pytest.mark.parametrize("how", OTHERS)
@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_replace_one_laws(name, how):
    """Certified for pairs, and for single records that come and go; never above the charge of another plan."""
    if how == "pairs" and free_of_charge(name):
        with refused("spec.public-knows-all-tables"):
            fn.plan(zoo.WORKLOADS[name](), **OTHERS[how])
        return
    plan = fn.plan(zoo.WORKLOADS[name](), gap=GAP, **OTHERS[how])
    check_plan(plan)
    publication = plan.publication
    charged = zoo_plan(name).table_part.strategy.unit_cost(publication.adjacency)
    assert plan.bound <= float(charged) * (1 + EXACT)


@pytest.mark.parametrize("name", ["five structured cells", "all ranges", "reals of low rank"])
def test_replace_one_mechanisms(name, rng):
    check_mechanism(fn.plan(zoo.WORKLOADS[name](), **REPLACED), rng)


@pytest.mark.parametrize(
    "objective", [Objective(), TOTALS[2], Objective(Goal.HYBRID, total_error_weight=1e-2)], ids=lambda o: o.goal
)
@pytest.mark.parametrize("name", ["five structured cells", "marginals", "all ranges"])
def test_replace_one_serves_every_objective(name, objective):
    workload = zoo.WORKLOADS[name]()
    for options in OTHERS.values():
        check_plan(fn.plan(workload, objective=objective, gap=GAP, **options))
    if objective.goal is not Goal.HYBRID:
        check_plan(fn.plan(workload, objective=objective, budget=fn.Budget(mu=0.3), **REPLACED))


@pytest.mark.parametrize("how", OTHERS)
@pytest.mark.parametrize("name", ["marginals", "by value", "pivoted basis", "attribute of one value"])
def test_replace_one_of_sectors_is_that_of_the_matrix(name, how):
    workload = zoo.WORKLOADS[name]()
    same(fn.plan(workload, **OTHERS[how]), fn.plan(as_matrix(workload), **OTHERS[how]))


def test_single_records_come_and_go_where_the_source_drops_them_or_a_unit_has_two():
    pairs, dropped, two = (fn.plan(zoo.five_cells(), **options) for options in OTHERS.values())
    same(two, dropped, 4)
    assert pairs.table_part.objective_value < dropped.bound
    assert zoo_plan("five structured cells").bound < dropped.table_part.objective_value


def test_with_too_many_pairs_the_plan_is_the_best_for_some_of_them_and_says_so(monkeypatch):
    best = fn.plan(zoo.five_cells(), **REPLACED)
    for limit in (100, 1):
        monkeypatch.setattr(formulation, "MAX_KINDS", limit)
        plan = fn.plan(zoo.five_cells(), **REPLACED)
        check_plan(plan, gap=0.01)
        assert plan.bound <= best.table_part.objective_value
        assert best.bound <= plan.table_part.objective_value
    assert plan.gap > 1e-3


# --- tables by structure --------------------------------------------------------------------------------------


def ranges_of_40():
    domain = fn.Domain(age=fn.Ordered(0, 39))
    return fn.Workload(domain, [fn.table(ranges="age", variance=4), fn.table(cumulative="age", variance=3)])


def check_against_matrices(plan, monkeypatch):
    """Return the plan, read again with every table as a matrix."""
    assert any(not isinstance(x.queries, np.ndarray) for x in layouts(plan.table_part.decomposition))
    monkeypatch.setattr(sectors, "MAX_ROWS_PER_CELL", 10**9)
    dense = remade(plan)
    assert all(isinstance(x.queries, np.ndarray) for x in layouts(dense.table_part.decomposition))
    np.testing.assert_allclose(plan.table_part.variances, dense.table_part.variances, rtol=EXACT)
    assert plan.table_part.exact_cost == dense.table_part.exact_cost
    assert plan.table_part.objective_value == pytest.approx(dense.table_part.objective_value, rel=EXACT)
    assert plan.bound == pytest.approx(dense.bound, rel=EXACT)


@pytest.mark.parametrize("options", [{}, REPLACED, {"objective": TOTALS[1]}], ids=["targets", "pairs", "total"])
def test_820_ranges_of_40_values_are_planned_as_their_matrix_is(options, monkeypatch, rng):
    plan = fn.plan(ranges_of_40(), gap=GAP, **options)
    assert layouts(plan.table_part.decomposition)[0].queries.shape == (820, 40)
    check_plan(plan)
    check_mechanism(plan, rng)
    check_against_matrices(plan, monkeypatch)
    same(plan, fn.plan(ranges_of_40(), gap=GAP, **options))


@pytest.mark.parametrize("how", ["targets", "pairs", "hybrid"])
@pytest.mark.parametrize("name", [n for n in zoo.WORKLOADS if not free_of_charge(n)])
def test_every_table_may_be_kept_by_structure(name, how, monkeypatch):
    options = {
        "targets": {},
        "pairs": REPLACED,
        "hybrid": {"objective": Objective(Goal.HYBRID, total_error_weight=0.1)},
    }[how]
    monkeypatch.setattr(sectors, "MAX_ROWS_PER_CELL", 0)
    plan = fn.plan(zoo.WORKLOADS[name](), gap=GAP, **options)
    check_plan(plan)
    monkeypatch.setattr(sectors, "MAX_ROWS_PER_CELL", 10**9)
    same(plan, fn.plan(zoo.WORKLOADS[name](), gap=GAP, **options))


# --- starting from another plan -------------------------------------------------------------------------------


def eased(workload, factor):
    tables = [
        dataclasses.replace(t, target=dataclasses.replace(t.target, number=t.target.number * factor))
        if i % 2 == 0 and isinstance(t.target.number, (int, float))
        else t
        for i, t in enumerate(workload.tables)
    ]
    return fn.Workload(workload.domain, tables, confidence=workload.confidence)


@pytest.mark.parametrize(
    "options",
    [{}, {"objective": Objective(Goal.HYBRID, total_error_weight=0.01)}, {"objective": TOTALS[0]}, REPLACED],
    ids=["targets", "hybrid", "total", "pairs"],
)
@pytest.mark.parametrize("name", ["five structured cells", "marginals", "all ranges"])
def test_a_start_changes_the_way_not_the_optimum(name, options):
    workload = zoo.WORKLOADS[name]()
    other = eased(workload, 1.3)
    cold = fn.plan(other, **options)
    starts = [zoo_plan(name), swapped(name), zoo_plan("prefix")]
    starts += [fn.plan(workload, **options)] if options.keys() == {"objective"} else []  # the others are two of these
    for start in starts:
        warm = fn.plan(other, start=start, **options)
        check_plan(warm)
        same(warm, cold)


@cache
def swapped(name):
    return fn.plan(zoo.WORKLOADS[name](), **REPLACED)


def test_starting_at_the_optimum_ends_at_once():
    seen = []
    plan = fn.plan(zoo.five_cells(), gap=GAP)
    fn.plan(zoo.five_cells(), gap=GAP, start=plan, progress=lambda i, gap: seen.append(i))
    assert len(seen) <= 1
