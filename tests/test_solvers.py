import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
import reference as ref
import zoo
from dense import sectors_of, workload_matrix, workload_variances
from fitnoise.mechanisms.gaussian.formulation import Formulation
from fitnoise.solving import geometric_mean
from fitnoise.solving._base import Status
from fitnoise.solving.certificates import ObjectiveTerms, lower_bound
from fitnoise.solving.sectors import decompose
from laws.plans import status_of
from refused import refused
from tolerances import EXACT, LOOSE


def problem(w, c=1.0):
    return Formulation(decompose(fn.matrix_workload(w, variances=c)), ObjectiveTerms()).problem


def at_random_weights(name, kind, rng):
    form = zoo.formulation(name, kind)
    p, q = rng.random(form.problem.cells) + 0.01, rng.random(form.problem.constraints) + 0.01
    p, q = p / p.sum(), q / q.sum()
    return form, p, q, form.problem.evaluate(p, q)


@pytest.mark.parametrize("kind", zoo.OBJECTIVES)
@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_the_evaluation_is_the_geometric_mean(name, kind, rng):
    """tr CΣ⁻¹ = tr NΣ = ν at any weights: p·prof = q·ratios + Σ λ var = ν; and the dual bound is the certificate's."""
    form, p, q, e = at_random_weights(name, kind, rng)
    # weights q on the row of a table stand for its Π n_a copies
    rounding = LOOSE if "pairs" in kind else EXACT  # pairs let the number of records go nearly free
    assert p @ e.profile == pytest.approx(e.nu, rel=rounding, abs=rounding)
    assert q @ e.ratios + e.total == pytest.approx(e.nu, rel=EXACT)
    d = form.decomposition
    proven = lower_bound(d, zoo.evidence(form, kind, p, q), zoo.terms(d, kind))
    assert proven == pytest.approx(e.lower, rel=10 * LOOSE if "pairs" in kind else LOOSE, abs=LOOSE**2)
    assert e.lower <= e.upper * (1 + EXACT) + LOOSE**2


@pytest.mark.parametrize("kind", zoo.OBJECTIVES)
@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_precision_factors_reproduce_the_profile(name, kind, rng):
    form, p, q, e = at_random_weights(name, kind, rng)
    d, pairs, profile = form.decomposition, zoo.all_pairs(form.decomposition, kind), 0
    for s, f in zip(sectors_of(d), [x for g in form.precision_factors(p, q) for x in g], strict=True):
        gram = (f @ s.basis).T @ (f @ s.basis)
        costs = (
            gram.diagonal() if pairs is None else pairs.kinds.costs(gram[None], pairs.chi(s.attributes, s.sizes)[None])
        )
        profile += s.multiplicity * costs
    if kind == "budgets":
        profile *= zoo.terms(d, kind).factor / zoo.terms(d, kind).relative
    rounding = 1e-6 if "pairs" in kind else LOOSE
    np.testing.assert_allclose(profile, e.profile / e.stretch, rtol=rounding, atol=rounding)
    if kind not in ("total error", "hybrid"):
        assert e.stretch == 1 / e.ratios.max()


def test_weights_may_vanish():
    """Nothing divides by a weight: with weights of 1e-300 on half the rows the value is that of the other half."""
    w = np.concatenate([np.eye(4), zoo.lower(4)])
    p = problem(w)
    q = np.concatenate([np.full(4, 1e-300), np.full(4, 0.25)])
    e = p.evaluate(np.full(4, 0.25), q)
    assert e.finite
    assert e.nu == pytest.approx(problem(zoo.lower(4)).evaluate(np.full(4, 0.25), np.full(4, 0.25)).nu, rel=LOOSE)


@pytest.mark.parametrize("high", [1, 10, 1000])
@pytest.mark.parametrize("kind", ["prefix", "ranges", "signs", "low rank"])
def test_hard_targets_reach_1e_8(kind, high):
    w = {"prefix": zoo.lower, "ranges": ref.ranges, "signs": ref.signs, "low rank": ref.low_rank}[kind](40)
    s = geometric_mean.solve(problem(w, ref.uniform_targets(w, high)), gap=1e-8)
    assert (s.status, s.gap <= 1e-8) == (Status.CONVERGED, True)


def test_a_starved_solver_admits_it():
    s = geometric_mean.solve(problem(ref.ranges(32)), gap=1e-6, max_iterations=3)
    assert s.status is Status.ITERATIONS
    assert s.gap > 1e-6
    plan = fn.plan(fn.matrix_workload(ref.ranges(32), variances=1), max_iterations=3)
    assert "iterations" in status_of(plan)
    assert plan.gap == pytest.approx(s.gap, rel=1e-3)
    with refused("plan.gap-not-reached"):
        fn.plan(fn.matrix_workload(ref.ranges(32), variances=1), gap=1e-6, max_iterations=3)


def test_an_unreachable_gap_ends_stalled_not_looping():
    s = geometric_mean.solve(problem(ref.ranges(16), ref.uniform_targets(ref.ranges(16), 1000)), gap=0.0)
    assert s.status in (Status.STALLED, Status.ITERATIONS)
    assert s.gap < 1e-8


def test_progress_is_reported():
    seen = []
    geometric_mean.solve(problem(zoo.lower(8)), progress=lambda i, gap: seen.append((i, gap)))
    assert len(seen) > 3
    assert seen[-1][1] <= 1e-6 < seen[0][1]
    assert [i for i, _ in seen] == sorted({i for i, _ in seen})


def test_targets_outside_floating_point_are_refused():
    with refused("plan.targets-too-different-to-round"):
        fn.plan(fn.matrix_workload(np.eye(2), variances=[1e-300, 1e300]))


def matrices():
    shape = st.tuples(st.integers(1, 4), st.integers(1, 4))
    return shape.flatmap(
        lambda s: st.lists(
            st.lists(st.integers(-2, 2), min_size=s[1], max_size=s[1]).filter(any), min_size=s[0], max_size=s[0]
        )
    )


@settings(max_examples=40)
@given(matrices(), st.data())
def test_invariances(rows, data):
    """Scaling targets scales the cost; permuting rows and columns, a duplicate row and a sign change nothing."""
    w = np.array(rows)
    m, d = w.shape
    c = np.array(data.draw(st.lists(st.sampled_from([1.0, 2.0, 7.0]), min_size=m, max_size=m)))
    base = fn.plan(fn.matrix_workload(w, variances=c))

    def same(other, factor=1.0):
        assert other.bound <= float(base.table_part.exact_cost) * factor * (1 + EXACT)
        assert base.bound * factor <= float(other.table_part.exact_cost) * (1 + EXACT)

    same(fn.plan(fn.matrix_workload(w, variances=4 * c)), 0.25)
    order = data.draw(st.permutations(range(m)))
    columns = data.draw(st.permutations(range(d)))
    same(fn.plan(fn.matrix_workload(-w[order][:, columns], variances=c[order])))
    same(fn.plan(fn.matrix_workload(np.concatenate([w, w[:1]]), variances=np.append(c, c[0]))))
    same(fn.plan(fn.matrix_workload(np.concatenate([w, 0 * w], axis=1), variances=c)))


@pytest.mark.parametrize(
    "name", ["binary", "prefix", "random signs", "reals of full rank", "integers of low rank", "duplicate queries"]
)
def test_against_a_conic_solver(name):
    """An independent semidefinite program lands between bound and value (its own tolerance is 1e-5)."""
    workload = zoo.WORKLOADS[name]()
    w, c = workload_matrix(workload).astype(float), workload_variances(workload)
    basis = np.linalg.svd(w)[2][: np.linalg.matrix_rank(w)]
    lifts = w @ basis.T / np.sqrt(c)[:, None]
    sigma = cp.Variable((len(basis), len(basis)), PSD=True)
    level = cp.Variable()
    columns = np.unique(basis.T.round(12), axis=0)
    constraints = [cp.matrix_frac(b, sigma) <= level for b in columns if np.abs(b).max() > 0]
    constraints += [cp.sum(cp.multiply(sigma, np.outer(v, v))) <= 1 for v in np.unique(lifts.round(12), axis=0)]
    optimum = cp.Problem(cp.Minimize(level), constraints).solve(solver="CLARABEL")
    plan = fn.plan(workload)
    assert plan.bound <= optimum * (1 + 1e-5)
    assert optimum <= float(plan.table_part.exact_cost) * (1 + 1e-5)
