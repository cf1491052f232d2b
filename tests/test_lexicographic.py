"""The refined solution: closed forms, a semidefinite program, and laws that only the unique optimum obeys."""

from fractions import Fraction
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg as sl
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
import reference as ref
import zoo
from conftest import zoo_plan
from dense import cell_order, sectors_of, workload_matrix, workload_variances
from fitnoise.mechanisms.gaussian.formulation import Formulation
from fitnoise.planning.plan import Plan
from fitnoise.request.publication import CellBudgets, ErrorWeights, Goal, Objective
from fitnoise.solving import lexicographic, sectors, solver
from fitnoise.solving.certificates import ObjectiveTerms
from fitnoise.solving.sectors import decompose
from fitnoise.solving.statuses import status_message
from laws.plans import check_mechanism, check_plan, status_of
from refused import refused
from tolerances import EXACT, GAP

UNIQUE = 1e-8
"""Relative difference between two computations of one refined profile."""
TIED = 1e-6
"""The tolerance if cells tie or weights almost vanish: a gap of 1e-13 leaves their square root."""


def refined(workload):
    """(formulation, solution, refined) of a workload."""
    form = Formulation(decompose(workload), ObjectiveTerms())
    solution = solver.solve(form.problem, gap=EXACT)
    return form, solution, lexicographic.refine(form.problem, solution)


def refine_matrix(w, c=1.0):
    return refined(fn.matrix_workload(w, variances=c))[2]


def recomputed(w, form, result):
    """(profile, variances) of a matrix workload in one sector, from the factors as a dense strategy."""
    (sector,), ((factor,),) = sectors_of(form.decomposition), form.in_basis(result.factors)
    rows = factor @ sector.basis
    return (rows**2).sum(axis=0), ((w @ np.linalg.pinv(rows)) ** 2).sum(axis=1)


def check_levels(result):
    """Check the levels of a complete profile: they fall from its largest value to that of some cell."""
    assert result.complete
    n = len(result.levels)
    assert result.status == status_message(
        "report.status.refined_levels" if n > 1 else "report.status.refined_level", levels=n
    )
    assert result.levels[0] == pytest.approx(result.profile.max(), rel=lexicographic.MAX_RELATIVE_RISE)
    assert all(
        after <= before * (1 + lexicographic.MAX_RELATIVE_RISE)
        for before, after in zip(result.levels, result.levels[1:], strict=False)
    )
    for level in result.levels:
        assert np.abs(result.profile - level).min() <= TIED * result.profile.max()


def lexicographic_order(a, b, tolerance):
    """Return −1, 0 or 1 for the order of two profiles, costliest cells first."""
    difference = np.sort(a)[::-1] - np.sort(b)[::-1]
    large = difference[np.abs(difference) > tolerance * max(a.max(), b.max())]
    return int(np.sign(large[0])) if len(large) else 0


# --- closed forms ---------------------------------------------------------------------------------------------

PREFIX_3 = 1.5705033843573  # a conic solver finds 1.57050338
CLOSED_FORMS = {
    "every cell its own target": (np.eye(3), [1, 2, 5], [1, 0.5, 0.2], 3),
    "two blocks": (sl.block_diag(zoo.lower(3), np.eye(2)), 1, [PREFIX_3] * 3 + [1, 1], 2),
    "a cell in no count": (np.eye(3, 4), [1, 2, 4], [1, 0.5, 0.25, 0], 3),
    "prefixes and a cell in no count": (np.tri(3, 4), [1, 2, 4], [1, 1, 0.5, 0], 3),
    "targets that grow tenfold": (zoo.lower(4), [1, 10, 100, 1000], [1, 1 / 9, 1 / 90, 1 / 900], 4),
    "identity and sum": (np.vstack([np.eye(5), np.ones(5)]), 1, [5 / 3] * 5, 1),
    "equal cells": (np.ones((1, 3)), 4, [1 / 4] * 3, 1),
    "weighted cells": (np.array([[3, 0, -1]]), 1, [9, 0, 1], 1),
    "one cell": (np.array([[2]]), 8, [1 / 2], 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms(name):
    w, c, profile, levels = CLOSED_FORMS[name]
    result = refine_matrix(w, c)
    np.testing.assert_allclose(result.profile, profile, rtol=EXACT, atol=EXACT)
    assert len(result.levels) == levels
    check_levels(result)
    plan = fn.plan(fn.matrix_workload(w, variances=c), refine=True)
    np.testing.assert_allclose(plan.table_part.profile, profile, rtol=1e-5, atol=1e-9)
    assert plan.table_part.status[-1] == result.status


def test_a_block_keeps_its_separate_optimum():
    separate = solver.solve(
        Formulation(decompose(fn.matrix_workload(zoo.lower(3), variances=1)), ObjectiveTerms()).problem, gap=1e-10
    )
    both = refine_matrix(*CLOSED_FORMS["two blocks"][:2])
    assert both.levels == pytest.approx((separate.upper, 1), rel=EXACT)


@settings(max_examples=40)
@given(st.lists(st.integers(-30, 30), min_size=1, max_size=7))
def test_of_the_identity_every_cell_pays_for_its_own_target(exponents):
    c = 10 ** (np.array(exponents) / 10)
    result = refine_matrix(np.eye(len(c)), c)
    np.testing.assert_allclose(result.profile, 1 / c, rtol=EXACT)
    check_levels(result)


def blocks():
    """A small matrix and its targets."""
    binary = st.tuples(st.integers(1, 3), st.integers(1, 3)).flatmap(
        lambda s: st.lists(
            st.lists(st.integers(0, 1), min_size=s[1], max_size=s[1]).filter(any), min_size=s[0], max_size=s[0]
        )
    )
    closed = (
        st.integers(1, 3).map(zoo.lower)
        | st.integers(1, 3).map(np.eye)
        | st.integers(1, 3).map(lambda n: np.ones((1, n)))
    )
    matrix = closed | binary.map(np.array)
    targets = st.sampled_from([1.0, 2.0, 5.0, 40.0])
    return matrix.flatmap(lambda w: st.tuples(st.just(w), st.lists(targets, min_size=len(w), max_size=len(w))))


@settings(max_examples=40)
@given(st.lists(blocks(), min_size=2, max_size=3))
def test_blocks_are_refined_as_if_they_were_separate(parts):
    joint = refine_matrix(sl.block_diag(*(w for w, _ in parts)), np.concatenate([c for _, c in parts]))
    separate = [refine_matrix(w, c) for w, c in parts]
    np.testing.assert_allclose(
        joint.profile, np.concatenate([r.profile for r in separate]), rtol=TIED, atol=TIED * joint.profile.max()
    )
    assert joint.complete
    assert all(r.complete for r in separate)


# --- an independent solver ------------------------------------------------------------------------------------


def conic(w, c, slack=1e-7, tied=2e-3):
    """The lexicographically least profile by semidefinite programs.

    One program for the largest profile left, then one for every cell with that value: what cannot be lowered alone is
    frozen. Frozen levels are relaxed by `slack`, which lowers what comes later by about its square root.
    """
    basis = np.linalg.svd(w)[2][: np.linalg.matrix_rank(w)]
    seen = np.abs(basis).max(axis=0) > EXACT
    sigma, level = cp.Variable((len(basis), len(basis)), PSD=True), cp.Variable()
    upper, free = cp.Parameter(len(seen), nonneg=True), cp.Parameter(len(seen), nonneg=True)
    constraints = [cp.matrix_frac(basis[:, i], sigma) <= upper[i] + free[i] * level for i in np.flatnonzero(seen)]
    constraints += [cp.sum(cp.multiply(sigma, np.outer(v, v))) <= x for v, x in zip(w @ basis.T, c, strict=True)]
    program = cp.Problem(cp.Minimize(level), constraints)

    def minimum(among, others):
        free.value, upper.value = among * 1.0, np.where(among, 0, others * (1 + slack))
        return program.solve(solver="CLARABEL")

    profile, remaining = np.zeros(len(seen)), seen.copy()
    while remaining.any():
        top = minimum(remaining, profile)
        limits = np.where(remaining, top, profile)
        lowest = np.array(
            [minimum(np.arange(len(remaining)) == i, limits) if remaining[i] else 0 for i in range(len(remaining))]
        )
        fixed = remaining & (lowest > top * (1 - tied))
        assert fixed.any()
        profile[fixed], remaining = top, remaining & ~fixed
    return profile


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("seed", range(40))
def test_no_cell_costs_less_by_a_conic_solver(seed):
    """Its relaxation makes its later levels lower, never higher."""
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, 6), rng.integers(2, 5)
    nested = sl.block_diag(zoo.lower(rng.integers(1, 3)), np.eye(2))
    w = [rng.integers(0, 2, (m, n)), rng.integers(-1, 2, (m, n)), nested][seed % 3]
    w = w[w.any(axis=1)] if w.any() else np.ones((1, n))
    c = rng.choice([1.0, 2.0, 5.0], len(w)) if seed % 2 else rng.uniform(1, 5, len(w))
    result, expected = refine_matrix(w, c), conic(w, c)
    check_levels(result)
    largest = result.profile.max()
    top = result.profile >= result.levels[:2][-1] - TIED * largest
    np.testing.assert_allclose(expected[top], result.profile[top], atol=1e-3 * largest)
    np.testing.assert_allclose(expected, result.profile, atol=2e-2 * largest)
    assert (expected <= result.profile + TIED * largest).all()


# --- laws -----------------------------------------------------------------------------------------------------


def layered(seed):
    """Prefixes, random sets and single cells side by side, every other time below two queries about all of them."""
    rng = np.random.default_rng(seed)
    h, single = rng.integers(3, 9, 2)
    w = sl.block_diag(zoo.lower(h), rng.random((h, h)) < 0.4, np.eye(single)).astype(int)
    if seed % 2:
        w = np.vstack([w, rng.random((2, w.shape[1])) < 0.3])
    w = w[w.any(axis=1)]
    return w, np.exp(rng.uniform(0, [1, 4, 7][seed % 3], len(w))), rng


@pytest.mark.parametrize("seed", range(24))
def test_refinement_laws(seed):
    w, c, rng = layered(seed)
    form, solution, result = refined(fn.matrix_workload(w, variances=c))
    check_levels(result)
    profile, variances = recomputed(w, form, result)
    np.testing.assert_allclose(profile, result.profile, rtol=EXACT, atol=EXACT * profile.max())
    assert (variances <= c * (1 + EXACT)).all()
    assert solution.lower * (1 - EXACT) <= profile.max() <= solution.upper * (1 + 1e-7)
    ((_, (unrefined,)),) = form.problem.covariance_factors(*solution.primal)
    assert lexicographic_order(profile, ((unrefined @ form.problem.blocks[0].columns) ** 2).sum(axis=0), 1e-4) <= 0

    cells, rows = rng.permutation(w.shape[1]), rng.permutation(len(w))
    permuted = refine_matrix(w[rows][:, cells], c[rows])
    assert permuted.complete
    np.testing.assert_allclose(permuted.profile, result.profile[cells], rtol=0, atol=UNIQUE * profile.max())


@pytest.mark.parametrize("seed", range(0, 24, 5))
def test_nothing_hangs_on_how_queries_are_written(seed):
    """Multiples, signs and copies of queries, sums of unrequested cells, another unit of people, another basis."""
    w, c, rng = layered(seed)
    result = refine_matrix(w, c)
    factors = rng.choice([-3, -1, 1, 2], len(w))
    stacked = np.concatenate([w * factors[:, None], w[:3], w[:1]])
    targets = np.concatenate([c * factors**2, c[:3], 9 * c[:1]])
    same = [
        refine_matrix(stacked, targets).profile,
        4 * refine_matrix(2 * w, 16 * c).profile,
        refine_matrix(np.hstack([w, w[:, :2]]), c).profile,
    ]
    for profile in same:
        np.testing.assert_allclose(profile[: w.shape[1]], result.profile, rtol=0, atol=UNIQUE * result.profile.max())
    np.testing.assert_allclose(same[2][-2:], same[2][:2], rtol=EXACT)

    d = decompose(fn.matrix_workload(w, variances=c))
    (sector,) = sectors_of(d)
    k = len(sector.basis)
    mixed = (np.eye(k, dtype=np.int64) + np.tril(rng.integers(-1, 2, (k, k)), -1)) @ sector.basis
    other = Formulation(decompose(fn.matrix_workload(w, variances=c), [mixed]), ObjectiveTerms())
    profile = lexicographic.refine(other.problem, solver.solve(other.problem, gap=EXACT)).profile
    np.testing.assert_allclose(profile, result.profile, rtol=0, atol=UNIQUE * result.profile.max())


def test_where_it_starts_does_not_matter():
    w, c, _ = layered(4)
    form = Formulation(decompose(fn.matrix_workload(w, variances=c)), ObjectiveTerms())
    rough, fine = (lexicographic.refine(form.problem, solver.solve(form.problem, gap=gap)) for gap in (1e-2, 1e-9))
    np.testing.assert_allclose(rough.profile, fine.profile, rtol=0, atol=UNIQUE * fine.profile.max())


def test_unclear_active_cells_are_computed_again(monkeypatch):
    form, solution, result = refined(fn.matrix_workload(zoo.lower(4), variances=[1, 10, 100, 1000]))
    matches, thresholds = lexicographic._Stage._matches, iter(lexicographic.THRESHOLDS)
    monkeypatch.setattr(
        lexicographic._Stage, "_matches", lambda *args: next(thresholds, None) is None and matches(*args)
    )
    repeated = lexicographic.refine(form.problem, solution)
    assert next(thresholds, None) is None
    assert repeated.complete
    np.testing.assert_allclose(repeated.profile, result.profile, rtol=0, atol=UNIQUE * result.profile.max())


def test_every_stage_tells_its_progress():
    form, solution, _ = refined(fn.matrix_workload(zoo.lower(4), variances=[1, 10, 100, 1000]))
    seen = []
    lexicographic.refine(form.problem, solution, progress=lambda i, gap: seen.append((i, gap)))
    assert [i for i, _ in seen].count(1) >= 2
    assert all(gap >= 0 for _, gap in seen)


# --- sectors --------------------------------------------------------------------------------------------------


def steps():
    """Parts of the cells at very different targets, in several sectors: a level for each."""
    domain = fn.Domain(a=fn.Categorical(["x", "y", "z"]), b=fn.Categorical([1, 2]), o=fn.Ordered(0, 6))
    return fn.Workload(
        domain,
        [
            fn.table("a", ranges={"o": [(0, 1), (1, 1)]}, variance=1),
            fn.table("a", "b", ranges={"o": [(2, 3)]}, variance=8),
            fn.table("b", ranges={"o": [(3, 4)]}, variance=30),
            fn.table(ranges={"o": [(5, 5)]}, variance=100),
        ],
    )


SECTORS = {name: zoo.WORKLOADS[name] for name in ("columns out of order", "by value", "pivoted basis", "marginals")} | {
    "crossed": zoo.crossed,
    "steps": steps,
    "five structured cells": zoo.five_cells,
}


@pytest.mark.parametrize("name", SECTORS)
def test_sectors_are_refined_as_the_matrix_of_all_cells(name):
    workload = SECTORS[name]()
    form, _, result = refined(workload)
    check_levels(result)
    d = form.decomposition
    merged = cell_order(
        SimpleNamespace(table_part=SimpleNamespace(decomposition=d), publication=SimpleNamespace(workload=workload))
    )
    dense = refine_matrix(workload_matrix(workload), workload_variances(workload))
    assert dense.complete
    index = np.argmax(merged, axis=0) % d.cells  # of every cell among the structured ones
    np.testing.assert_allclose(dense.profile, result.profile[index], rtol=0, atol=UNIQUE * result.profile.max())
    assert (len(np.unique(result.profile.round(6))) >= 4) == (name == "steps")
    assert (len(result.levels) > 1) == (name in ("columns out of order", "steps"))


@pytest.mark.parametrize("name", ["columns out of order", "all ranges", "seven structured cells"])
def test_structure_is_refined_as_its_matrix(name, monkeypatch):
    workload = zoo.WORKLOADS[name]()
    unstructured = refined(workload)[2]
    monkeypatch.setattr(sectors, "MAX_ROWS_PER_CELL", 0)
    form, solution, result = refined(workload)
    assert any(b.structured for b in form.problem.blocks)
    np.testing.assert_allclose(result.profile, unstructured.profile, rtol=0, atol=UNIQUE * unstructured.profile.max())
    monkeypatch.setattr(lexicographic, "MAX_ENTRIES", 3)
    with refused("plan.refinement-too-large"):
        lexicographic.refine(form.problem, solution)


def test_weight_that_drifts_away_from_one_part_is_not_believed(monkeypatch):
    """Parts that do not touch share their weight in any way: a search that gives one of them none changes nothing."""
    blocks, targets = np.kron(np.eye(3), np.tril(np.ones((3, 3)))), np.repeat([1.0, 1.0, 9.0], 3)
    unchanged = refine_matrix(blocks, targets)
    polished = lexicographic._Stage._polished

    def drifted(stage, cells, numbers):
        p, q = polished(stage, cells, numbers)
        half = np.arange(len(p)) < len(p) // 2
        return np.where(half, p, 1e-30 * p), q

    monkeypatch.setattr(lexicographic._Stage, "_polished", drifted)
    repeated = refine_matrix(blocks, targets)
    assert len(unchanged.levels) > 1
    assert repeated.levels == pytest.approx(unchanged.levels)
    np.testing.assert_allclose(repeated.profile, unchanged.profile, rtol=0, atol=UNIQUE * unchanged.profile.max())


# --- plans ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_refined_plan_laws(name):
    unrefined, plan = zoo_plan(name), fn.plan(zoo.WORKLOADS[name](), gap=GAP, refine=True)
    check_plan(plan)
    assert {"refined_level", "refined_levels"} & {*status_of(plan)}
    assert plan.table_part.objective_value == pytest.approx(unrefined.table_part.objective_value, rel=2 * GAP)
    assert lexicographic_order(plan.table_part.profile, unrefined.table_part.profile, 1e-3) <= 0
    assert (plan.table_part.slack >= 0).all()
    assert plan.table_part.slack == pytest.approx(
        max(plan.table_part.profile) - plan.table_part.profile, abs=1e-9 * max(plan.table_part.profile)
    )
    assert Plan.from_json(plan.to_json()).hash == plan.hash


@pytest.mark.parametrize("name", ["columns out of order", "wide targets"])
def test_refined_mechanism_laws(name, rng):
    check_mechanism(fn.plan(zoo.WORKLOADS[name](), refine=True), rng)


def test_a_budget_and_a_unit_scale_the_refined_profile():
    workload = zoo.WORKLOADS["columns out of order"]
    plan = fn.plan(workload(), refine=True)
    bought = fn.plan(workload(), refine=True, budget=fn.Budget(rho=plan.loss.rho / 3))
    assert bought.table_part.relaxation == pytest.approx(3, rel=1e-5)
    np.testing.assert_allclose(3 * bought.table_part.profile, plan.table_part.profile, rtol=1e-5)
    several = fn.plan(workload(), refine=True, unit=fn.PrivacyUnit("person", 3))
    np.testing.assert_allclose(several.table_part.profile, plan.table_part.profile, rtol=1e-5)


REFUSED = {
    "replace one": {
        "unit": fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE),
        "public": fn.KnownTotals((), "Register", "these data"),
    },
    "total error": {"objective": Objective(Goal.TOTAL_ERROR)},
    "weighted total error": {"objective": Objective(Goal.TOTAL_ERROR, ErrorWeights.INVERSE_VARIANCE)},
    "hybrid": {"objective": Objective(Goal.HYBRID, total_error_weight=0.1)},
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_refined_is_refused(case):
    with refused("plan.refine-without-fit-for-use"):
        fn.plan(zoo.five_cells(), refine=True, **REFUSED[case])


@pytest.mark.parametrize("name", ["seven structured cells", "prefix", "columns out of order", "identity and sum"])
def test_under_cell_budgets_the_price_does_not_depend_on_the_start(name):
    """The cost of cells with low budgets is then unique, and so is the price, the cost of the costliest cell."""
    workload = zoo.WORKLOADS[name]()
    attribute = next(iter(workload.domain))
    shares = tuple(float(x) for x in 1 / (1 + np.arange(workload.domain[attribute].size)))
    cold = fn.plan(workload, cell_budgets=CellBudgets((attribute,), shares))
    equal = fn.plan(workload, cell_budgets=CellBudgets((attribute,), (1.0,) * len(shares)))
    warm = fn.plan(workload, cell_budgets=CellBudgets((attribute,), shares), start=equal)
    for plan in (cold, warm):
        assert {"refined_level", "refined_levels"} & {*status_of(plan)}
        assert plan.table_part.exact_weighted_cost == max(
            x / Fraction(float(r))
            for x, r in zip(plan.table_part.strategy.profile(), plan.table_part.terms.relative, strict=True)
        )
    assert warm.rho == pytest.approx(cold.rho, rel=GAP)


# --- an end before the end ------------------------------------------------------------------------------------


def check_stopped(workload, why):
    """For any reason to stop: the targets are met at the least cost, and the plan states where the order ends."""
    plan = fn.plan(workload, gap=GAP, refine=True)
    assert status_of(plan)[-1] == why
    assert plan.table_part.relaxation <= 1
    return plan


def test_an_unclear_active_set_is_stated(monkeypatch):
    """No threshold makes the ranks of both sides agree: what was decided so far stands."""
    monkeypatch.setattr(lexicographic, "THRESHOLDS", (1e300,))
    w = ref.ranges(32)
    c = np.random.default_rng(7).uniform(1, 1000, 64)
    form, solution, result = refined(fn.matrix_workload(w, variances=c))
    why = "refined_active"
    assert not result.complete
    assert result.status == status_message(f"report.status.{why}", levels=len(result.levels))
    profile, variances = recomputed(w, form, result)
    assert (variances <= c * (1 + EXACT)).all()
    assert profile.max() == pytest.approx(result.levels[0], rel=lexicographic.MAX_RELATIVE_RISE)
    assert profile.max() <= solution.lower * (1 + lexicographic.MAX_RELATIVE_RISE)
    check_stopped(fn.matrix_workload(w, variances=c), why)


STEEP = CLOSED_FORMS["targets that grow tenfold"][:2]


def test_stages_are_limited(monkeypatch):
    for stages in (1, 2, 3):
        monkeypatch.setattr(lexicographic, "STAGES", stages)
        result = refine_matrix(*STEEP)
        assert (result.complete, len(result.levels)) == (False, stages)
        assert result.status == status_message("report.status.refined_stages", levels=stages, stages=stages)
        np.testing.assert_allclose(result.profile[:stages], CLOSED_FORMS["targets that grow tenfold"][2][:stages])
        check_plan(check_stopped(fn.matrix_workload(STEEP[0], variances=STEEP[1]), "refined_stages"))
    monkeypatch.setattr(lexicographic, "STAGES", 4)
    assert refine_matrix(*STEEP).complete


def test_a_level_that_rises_is_not_believed(monkeypatch):
    class Rising(lexicographic._Stage):
        def __init__(self, refinement, start):
            super().__init__(refinement, start)
            self.level *= 100 ** len(refinement.levels)

    monkeypatch.setattr(lexicographic, "_Stage", Rising)
    check_plan(check_stopped(fn.matrix_workload(STEEP[0], variances=STEEP[1]), "refined_rise"))


def test_precision_that_is_lost_is_noticed(monkeypatch):
    """A later stage that costs more than the optimum is not taken; if the first does, there is no plan."""
    good = 1

    class Careless(lexicographic._Stage):
        def covariances(self, primal):
            result = super().covariances(primal)
            return result if len(self.recursion.levels) <= good else [m + 9 * np.eye(len(m)) for m in result]

    monkeypatch.setattr(lexicographic, "_Stage", Careless)
    check_plan(check_stopped(fn.matrix_workload(STEEP[0], variances=STEEP[1]), "refined_precision"))
    good = 0
    with refused("plan.refinement-not-finite"):
        fn.plan(fn.matrix_workload(zoo.lower(4), variances=1), refine=True)
    budgets = fn.CellBudgets(("cell",), (1, 0.5, 1, 0.25))  # no request for the unreachable
    plan = fn.plan(fn.matrix_workload(zoo.lower(4), variances=1), cell_budgets=budgets)
    check_plan(plan)
    assert status_of(plan)[-1] == "not_refined"
