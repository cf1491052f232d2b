"""SM-II as printed and put right, and the theorems of the fit-for-use paper about bases and closed forms."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import fitnoise as fn
import reference as ref
import zoo
from dense import sectors_of
from fitnoise.mechanisms.gaussian.formulation import Formulation
from fitnoise.request.publication import Goal, Objective
from fitnoise.solving import solver
from fitnoise.solving.certificates import ObjectiveTerms
from fitnoise.solving.problems import Block, Problem
from fitnoise.solving.sectors import decompose
from fitnoise_lab import soft_max
from fitnoise_lab.soft_max import (
    AlgorithmVariant,
    Factors,
    Hessian,
    ObjectivePoint,
    SoftMaxStatus,
    bases,
    cost_squared,
)
from refused import refused
from tolerances import EXACT, GAP, LOOSE

WORKLOADS = {
    "prefix": lambda: zoo.lower(6),
    "ranges": lambda: ref.ranges(7, 1),
    "signs": lambda: ref.signs(5),
    "marginals": lambda: ref.marginals(2),
    "low rank": lambda: ref.low_rank(8),
}
BASES = ["identity", "upper", "row_space"]
TABLE_2 = {2: 1.33, 4: 1.76, 8: 2.28, 16: 2.91, 64: 4.46}
TABLE_10 = {2: 1.82, 4: 4.55}


def identity_and_sum(d):
    return np.concatenate([np.eye(d, dtype=int), np.ones((1, d), dtype=int)])


def targets(m):
    return 1 + np.arange(m) % 3


@cache
def bound(name):
    w = WORKLOADS[name]()
    return fn.plan(fn.matrix_workload(w, variances=targets(len(w))), gap=GAP).bound


def by_definition(basis, lifts, c, sigma):
    """The two maxima, by an explicit inverse."""
    profile = np.diag(basis.T @ np.linalg.inv(sigma) @ basis)
    return profile.max(), (np.diag(lifts @ sigma @ lifts.T) / c).max()


def random_point(w, basis, t, reading, rng):
    """Somewhere between independent noise and anything, with both maxima of about one size."""
    b, v = getattr(bases(w), basis)
    v = v / np.sqrt(targets(len(v)))[:, None]
    k = len(b)
    m = rng.normal(size=(k, k))
    sigma = np.eye(k) + m @ m.T / k
    one, second = by_definition(b, v, 1, sigma)
    sigma *= math.sqrt(one / second)
    return sigma, replace(ObjectivePoint.start(b, v, sigma, reading), t1=t, t2=1.5 * t)


def derivative_along(f, sigma, p):
    """The derivative of f along P, to sixth order."""
    return sum(c * (f(sigma + h * p) - f(sigma - h * p)) for h, c in ((1, 3 / 4), (2, -3 / 20), (3, 1 / 60)))


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


# --- derivatives ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("reading", AlgorithmVariant, ids=lambda x: x.name)
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_derivatives(name, basis, reading, t, rng):
    """Equation (13) is the gradient; of the two Hessians one is its derivative, and (14) as printed is far from it.

    The printed product is off by 1 % at the very least at t = 1, typically 30 %. At larger t it is off by half;
    by up to 9 and 99 times the true one for t = 10 and 100: `test_the_printed_curvature_is_t_times_too_large`.
    """
    sigma, point = random_point(WORKLOADS[name](), basis, t, reading, rng)
    p = rng.normal(size=sigma.shape)
    p += p.T
    p *= 1e-3 / t / np.linalg.norm(np.linalg.solve(sigma, p), 2)
    slope = derivative_along(lambda s: point.at_covariance(s).value, sigma, p)
    assert np.vdot(point.gradient, p) == pytest.approx(slope, abs=LOOSE * np.linalg.norm(point.gradient * sigma * p))
    assert np.vdot(point.gradient, p) == pytest.approx(slope, rel=1e-6)
    bend = derivative_along(lambda s: point.at_covariance(s).gradient, sigma, p)
    assert relative(point.hessian_times(p, Hessian.CORRECT), bend) < 1e-6
    assert relative(point.hessian_times(p, Hessian.PRINTED), bend) > (0.01 if t == 1 else 0.5)


def dense_hessian(point, b, scaled, sigma, product):
    """(14) as a matrix on vec(Σ), column by column; `product` stands where the paper prints ⊗ between gradients."""
    inverse = np.linalg.inv(sigma)
    grads = [-inverse @ np.outer(x, x) @ inverse for x in b.T]
    heads = [np.outer(x, x) for x in scaled]
    w = np.exp(point.t1 * np.array([x @ inverse @ x for x in b.T]))
    u = np.exp(point.t2 * np.array([x @ sigma @ x for x in scaled]))
    w, u = w / w.sum(), u / u.sum()
    second = sum(wi * (-np.kron(g, inverse) - np.kron(inverse, g)) for wi, g in zip(w, grads, strict=True))
    a, h = np.tensordot(w, grads, 1), np.tensordot(u, heads, 1)
    covariance = sum(wi * product(g, g) for wi, g in zip(w, grads, strict=True)) - product(a, a)
    rows = sum(uj * product(g, g) for uj, g in zip(u, heads, strict=True)) - product(h, h)
    return second, point.t1 * covariance + point.t2 * rows


@pytest.mark.parametrize("basis", BASES)
def test_products_are_those_of_the_complete_matrix(basis, rng):
    """The printed one of equation (14) to the letter; the correct one with outer products, and t once less."""
    w = zoo.lower(4)
    sigma, point = random_point(w, basis, 3.0, AlgorithmVariant.PAPER, rng)
    b, v = getattr(bases(w), basis)
    scaled = v / np.sqrt(targets(len(v)))[:, None]
    p = rng.normal(size=sigma.shape)
    p += p.T
    second, printed = dense_hessian(point, b, scaled, sigma, np.kron)
    right = dense_hessian(point, b, scaled, sigma, lambda x, y: np.outer(x.ravel("F"), y.ravel("F")))[1]
    for hessian, matrix in ((Hessian.PRINTED, point.t1 * second + printed), (Hessian.CORRECT, second + right)):
        expected = (matrix @ p.ravel("F")).reshape(p.shape, order="F")
        np.testing.assert_allclose(point.hessian_times(p, hessian), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("t", [1.0, 10.0, 1000.0])
def test_the_printed_curvature_is_t_times_too_large(t, rng):
    """One cell, one query: the soft maxima are the values, the Kronecker terms cancel, and what is left is t₁∇²g."""
    sigma = rng.random((1, 1)) + 0.5
    point = replace(ObjectivePoint.start(np.ones((1, 1)), np.ones((1, 1)), sigma, AlgorithmVariant.PAPER), t1=t)
    p = np.ones((1, 1))
    right = point.hessian_times(p, Hessian.CORRECT)
    assert right[0, 0] == pytest.approx(2 / sigma[0, 0] ** 3, rel=EXACT)
    assert point.hessian_times(p, Hessian.PRINTED) == pytest.approx(t * right, rel=LOOSE)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_objective_is_convex(name, rng):
    """Theorem 13: the true Hessian has no negative curvature; and F lies below its chords."""
    for basis in BASES:
        one, point = random_point(WORKLOADS[name](), basis, 5.0, AlgorithmVariant.PAPER, rng)
        two = random_point(WORKLOADS[name](), basis, 5.0, AlgorithmVariant.PAPER, rng)[0]
        assert point.at_covariance((one + two) / 2).value <= (point.value + point.at_covariance(two).value) / 2
        for _ in range(10):
            p = rng.normal(size=one.shape)
            p += p.T
            assert np.vdot(p, point.hessian_times(p, Hessian.CORRECT)) >= 0


def test_the_printed_hessian_can_lead_uphill():
    """Prefix sums by their rows of U, from the paper's own start: negative curvature, and no way to go on."""
    b, v = bases(zoo.lower(64)).upper
    start = 0.99 / (v**2).sum(axis=1).max() * np.eye(64)
    point = ObjectivePoint.start(b, v, start, AlgorithmVariant.PAPER)
    for hessian, sign in ((Hessian.PRINTED, 1), (Hessian.CORRECT, -1)):
        assert sign * np.vdot(soft_max.direction(point, hessian), point.gradient) > 0
    result = soft_max.solve(b, v, 1)
    assert (result.ending, result.iterations, len(result.history)) == (SoftMaxStatus.STALLED, 1, 1)
    assert soft_max.solve(b, v, 1, hessian=Hessian.CORRECT).cost_squared < 4.65  # of 4.457869


# --- the algorithm --------------------------------------------------------------------------------------------


def check(solution, basis, lifts, c):
    """Check the guarantees of a solution, for every way the search ends."""
    cost, worst = by_definition(basis, lifts, c, solution.covariance)
    assert worst == pytest.approx(1, rel=EXACT)
    assert solution.cost_squared == pytest.approx(cost, rel=LOOSE)
    assert solution.cost_squared == pytest.approx(solution.history[-1, 1], rel=LOOSE)
    np.testing.assert_array_equal(solution.covariance, solution.covariance.T)
    assert (np.diff(solution.history[:, 0]) >= 0).all()
    assert len(solution.history) <= solution.iterations + 1


@pytest.mark.parametrize("reading", AlgorithmVariant, ids=lambda x: x.name)
@pytest.mark.parametrize("hessian", Hessian, ids=lambda x: x.name)
@pytest.mark.parametrize("name", WORKLOADS)
def test_never_below_the_certified_bound(name, hessian, reading):
    w = WORKLOADS[name]()
    c = targets(len(w))
    for basis, lifts in bases(w):
        result = soft_max.solve(basis, lifts, c, hessian=hessian, reading=reading, max_iterations=300)
        check(result, basis, lifts, c)
        assert result.history[:, 1].min() >= bound(name) * (1 - EXACT)
        if hessian is Hessian.CORRECT:
            assert result.ending in (SoftMaxStatus.CONVERGED, SoftMaxStatus.ITERATIONS)


@pytest.mark.parametrize("name", WORKLOADS)
def test_reaches_the_optimum_in_an_orthonormal_basis(name):
    """With the correct Hessian: within 1 % by the paper's stopping rule, within 0.3 % by that of its program."""
    w = WORKLOADS[name]()
    c = targets(len(w))
    for reading, excess in ((AlgorithmVariant.PAPER, 0.01), (AlgorithmVariant.CODE, 3e-3)):
        result = soft_max.solve(*bases(w).row_space, c, hessian=Hessian.CORRECT, reading=reading)
        assert result.ending is SoftMaxStatus.CONVERGED
        assert result.cost_squared <= bound(name) * (1 + excess)
    printed = soft_max.solve(*bases(w).row_space, c, reading=AlgorithmVariant.CODE)
    assert printed.cost_squared <= bound(name) * (1 + 5e-3)
    assert printed.ending is SoftMaxStatus.CONVERGED


@pytest.mark.parametrize("hessian", Hessian, ids=lambda x: x.name)
@pytest.mark.parametrize("d", TABLE_2)
def test_table_2(d, hessian):
    """Prefix sums with B = W and L = I, as the authors' program has it."""
    result = soft_max.solve(zoo.lower(d), np.eye(d), 1, hessian=hessian, reading=AlgorithmVariant.CODE)
    assert result.ending is SoftMaxStatus.CONVERGED
    assert round(result.cost_squared, 2) == TABLE_2[d]


@pytest.mark.parametrize("t", TABLE_10)
def test_table_10_tells_where_the_paper_stopped(t):
    """Independent noise of cost Δ² gives the totals of t² cells t²/Δ² times their target: Δ² = 3.516 for t = 4.

    The certified optimum is 3.471896. What the authors' program does with the Hessian as printed gives their ratio.
    """
    w = ref.marginals(t)
    result = soft_max.solve(*bases(w).identity, 1, reading=AlgorithmVariant.CODE)
    assert round(t**2 / result.cost_squared, 2) == TABLE_10[t]


@pytest.mark.slow
def test_pl94():
    """The table of the paper implies Δ² = 3.446; the correct Hessian in an orthonormal basis gives 3.013432."""
    result = soft_max.solve(
        *bases(ref.pl94_matrix()).row_space,
        1,
        hessian=Hessian.CORRECT,
        reading=AlgorithmVariant.CODE,
        max_iterations=3000,
    )
    assert result.ending is SoftMaxStatus.CONVERGED
    assert result.cost_squared == pytest.approx(3.013432, rel=1e-5)


@pytest.mark.parametrize("hessian", Hessian, ids=lambda x: x.name)
def test_identity_and_sum(hessian):
    """Theorem 7: Δ² = 2d/(1 + d)."""
    for reading in AlgorithmVariant:
        result = soft_max.solve(*bases(identity_and_sum(10)).identity, 1, hessian=hessian, reading=reading)
        assert 1 - EXACT <= result.cost_squared / (20 / 11) <= 1.005


def test_endings_are_honest():
    w = zoo.lower(8)
    b, v = bases(w).upper
    proven, reports = fn.plan(fn.matrix_workload(w, variances=1)).bound, []
    limits = {
        SoftMaxStatus.CONVERGED: {"hessian": Hessian.CORRECT},
        SoftMaxStatus.ITERATIONS: {"max_iterations": 5, "hessian": Hessian.CORRECT},
        SoftMaxStatus.TIME: {"max_seconds": 0.0},
        SoftMaxStatus.STALLED: {},
    }
    for ending, options in limits.items():
        result = soft_max.solve(b, v, 1, **options, progress=lambda i, cost: reports.append((i, cost)))
        assert result.ending is ending
        check(result, b, v, 1)
        assert result.cost_squared >= proven
        assert (result.cost_squared <= 1.01 * proven) == (ending is SoftMaxStatus.CONVERGED)
        assert [cost for _, cost in reports] == list(result.history[1:, 1])
        assert [i for i, _ in reports] == sorted({i for i, _ in reports})
        reports.clear()
    assert soft_max.solve(b, v, 1, hessian=Hessian.CORRECT).sharpness > 16 / soft_max.TOL


def test_a_search_without_a_step_ends(monkeypatch):
    """A direction so long that no halving brings Σ back to the positive definite matrices."""
    monkeypatch.setattr(soft_max, "direction", lambda point, hessian: -1e30 * np.abs(point.gradient).max() * np.eye(4))
    result = soft_max.solve(np.eye(4), 1000 * zoo.lower(4), 1)
    assert (result.ending, result.iterations, len(result.history)) == (SoftMaxStatus.STALLED, 1, 1)


def test_a_start_and_a_factor_can_be_given():
    w = zoo.lower(8)
    b, v = bases(w).identity
    best = soft_max.solve(b, v, 1, hessian=Hessian.CORRECT, reading=AlgorithmVariant.CODE)
    repeated = soft_max.solve(b, v, 1, hessian=Hessian.CORRECT, start=best.covariance, factor=10, max_iterations=0)
    assert repeated.cost_squared == pytest.approx(best.cost_squared, rel=EXACT)
    assert repeated.history[0, 1] == pytest.approx(best.cost_squared, rel=EXACT)
    quick = soft_max.solve(b, v, 1, hessian=Hessian.CORRECT, factor=10, tolerance=1, newton_tolerance=1e-6)
    assert quick.sharpness == 100
    assert quick.cost_squared == pytest.approx(best.cost_squared, rel=0.02)


def test_from_an_optimum_of_the_soft_maxima_there_is_nowhere_to_go():
    """One cell, one query, Σ = 1: the gradient is exactly 0, and no division by it."""
    result = soft_max.solve(np.ones((1, 1)), np.ones((1, 1)), 1, start=np.ones((1, 1)))
    assert (result.ending, result.cost_squared) == (SoftMaxStatus.CONVERGED, 1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"basis": np.ones(3)}, "workload.basis-and-lifts-shapes"),
        ({"basis": np.eye(2)}, "workload.basis-and-lifts-shapes"),
        ({"basis": np.zeros((3, 3))}, "workload.soft-max-zero-basis"),
        ({"basis": np.full((3, 3), np.nan)}, "workload.soft-max-not-finite"),
        ({"lifts": np.eye(3) * [[1], [0], [1]]}, "workload.soft-max-zero-query"),
        ({"variances": [1, 2]}, "workload.soft-max-target-count"),
        ({"variances": [1, 2, 0]}, "workload.soft-max-not-finite"),
        ({"variances": [1, 2, np.inf]}, "workload.soft-max-not-finite"),
        ({"factor": 1}, "workload.soft-max-factor"),
        ({"factor": math.nan}, "workload.soft-max-factor"),
        ({"start": np.eye(2)}, "workload.start-not-symmetric"),
        ({"start": zoo.lower(3)}, "workload.start-not-symmetric"),
        ({"start": -np.eye(3)}, "workload.start-not-positive-definite"),
    ],
)
def test_refusals(change, says):
    arguments = {"basis": np.eye(3), "lifts": zoo.lower(3), "variances": 1} | change
    with refused(says):
        soft_max.solve(
            arguments.pop("basis"),
            arguments.pop("lifts"),
            arguments.pop("variances"),
            **arguments,
        )


@pytest.mark.parametrize("w", [np.zeros((2, 3)), np.ones(3), np.array([[1.0, np.nan]]), np.zeros((0, 3))])
def test_no_basis_of_nothing(w):
    with refused("workload.soft-max-workload"):
        bases(w)


@pytest.mark.parametrize("name", WORKLOADS)
def test_bases(name):
    w = WORKLOADS[name]()
    d = w.shape[1]
    both = bases(w)
    for basis, lifts in both:
        np.testing.assert_allclose(lifts @ basis, w, atol=1e-12 * np.abs(w).max())
    assert isinstance(both.upper, Factors)
    np.testing.assert_array_equal(both.identity.lifts, w)
    np.testing.assert_array_equal(both.upper.basis, np.triu(np.ones((d, d))))
    np.testing.assert_allclose(
        both.row_space.basis @ both.row_space.basis.T, np.eye(np.linalg.matrix_rank(w)), atol=1e-9
    )


# --- theorems -------------------------------------------------------------------------------------------------


def change_of_basis(k, rng):
    return np.linalg.qr(rng.normal(size=(k, k)))[0] * rng.uniform(0.5, 2, size=k)


@pytest.mark.parametrize("name", WORKLOADS)
def test_theorems_2_and_4(name, rng):
    """For MB, LM⁻¹ the covariance MΣMᵀ gives the same noise on the answers, and the same privacy profile."""
    w = WORKLOADS[name]()
    c = targets(len(w))
    b, v = bases(w).row_space
    k = len(b)
    m = change_of_basis(k, rng)
    sigma = random_point(w, "row_space", 1.0, AlgorithmVariant.PAPER, rng)[0]
    b2, v2, sigma2 = m @ b, v @ np.linalg.inv(m), m @ sigma @ m.T
    np.testing.assert_allclose(v2 @ b2, w, atol=LOOSE * np.abs(w).max())
    np.testing.assert_allclose(v2 @ sigma2 @ v2.T, v @ sigma @ v.T, rtol=LOOSE, atol=LOOSE)
    one, two = (np.diag(x.T @ np.linalg.inv(s) @ x) for x, s in ((b, sigma), (b2, sigma2)))
    np.testing.assert_allclose(one, two, rtol=LOOSE)
    assert cost_squared(b, v, c, sigma) == pytest.approx(cost_squared(b2, v2, c, sigma2), rel=LOOSE)
    assert ObjectivePoint.start(b2, v2, sigma2, AlgorithmVariant.PAPER).value == pytest.approx(
        ObjectivePoint.start(b, v, sigma, AlgorithmVariant.PAPER).value, rel=LOOSE
    )


@pytest.mark.parametrize("name", WORKLOADS)
def test_no_optimum_depends_on_the_basis(name, rng):
    """Theorem 2 for the solver: W = LB = (LM⁻¹)(MB) have one optimum, the same certified bound and reached cost."""
    w = WORKLOADS[name]()
    b, v = bases(w).row_space
    v = v / np.sqrt(targets(len(v)))[:, None]
    m = change_of_basis(len(b), rng)
    for basis, lifts in ((b, v), (m @ b, v @ np.linalg.inv(m))):
        block = Block.from_lifts(1.0, basis, lifts, np.arange(len(lifts)))
        result = solver.solve(Problem([block], len(lifts)), gap=GAP)
        assert result.gap <= GAP
        assert result.lower <= bound(name) * (1 + GAP) * (1 + EXACT)
        assert bound(name) <= result.upper * (1 + EXACT)


@pytest.mark.parametrize("name", WORKLOADS)
def test_theorem_12(name, rng):
    """max prof + max var/c is 2Δ* at the least, and that at the optimum of Problem 1 scaled so that both are Δ*."""
    w = WORKLOADS[name]()
    c = targets(len(w))
    b, v = bases(w).row_space
    for _ in range(5):
        sigma = random_point(w, "row_space", 1.0, AlgorithmVariant.PAPER, rng)[0]
        assert sum(by_definition(b, v, c, sigma * rng.uniform(0.3, 3))) >= 2 * math.sqrt(bound(name)) * (1 - EXACT)
    form = Formulation(decompose(fn.matrix_workload(w, variances=c)), ObjectiveTerms())
    result = solver.solve(form.problem, gap=GAP)
    (factor,) = (x for group in form.precision_factors(*result.primal) for x in group)
    (sector,) = sectors_of(form.decomposition)
    lifts = np.linalg.lstsq(sector.basis.T.astype(float), w.T.astype(float))[0].T
    sigma = np.linalg.inv(factor.T @ factor)
    cost, worst = by_definition(sector.basis, lifts, c, sigma)
    assert cost * worst == pytest.approx(bound(name), rel=3 * GAP)
    balanced = sigma * math.sqrt(cost / worst)
    assert sum(by_definition(sector.basis, lifts, c, balanced)) == pytest.approx(
        2 * math.sqrt(bound(name)), rel=3 * GAP
    )
    np.testing.assert_allclose(by_definition(sector.basis, lifts, c, balanced), math.sqrt(bound(name)), rtol=3 * GAP)


def even_covariance(d, a, b):
    return a * np.eye(d) + b * np.ones((d, d))


@pytest.mark.parametrize("k", [0.5, 1, 4])
@pytest.mark.parametrize("d", [5, 10, 40])
def test_theorem_7_for_any_target_of_the_sum(d, k):
    """Targets γ for the cells and kγ for the sum, 0 < k < d (appendix): Δ² = (d² + kd² − 2kd) / (k (d² − k) γ)."""
    gamma = 3.0
    w, c = identity_and_sum(d), np.append(np.full(d, gamma), k * gamma)
    expected = (d**2 + k * d**2 - 2 * k * d) / (k * (d**2 - k) * gamma)
    if k == 1:
        assert expected == pytest.approx(2 * d / (1 + d) / gamma, rel=EXACT)
    sigma = even_covariance(d, (d**2 - k) / ((d - 1) * d) * gamma, (k - d) / ((d - 1) * d) * gamma)
    np.testing.assert_allclose(by_definition(np.eye(d), w, c, sigma), (expected, 1), rtol=EXACT)
    plan = fn.plan(fn.matrix_workload(w, variances=c), gap=GAP)
    assert plan.bound * (1 - EXACT) <= expected <= float(plan.table_part.exact_cost)


def closed_form(d, w):
    """Theorem 6 and its appendix: a, b at Δ = 1 for the total error of cells with weight 1 and the sum with 1/w²."""
    root = w * math.sqrt(d + w**2)
    lead, top = (d - 1) * w**2 - root, (d - 2) * w**2 - 1
    return top / lead, (1 + w**2 - root) / lead * top / ((d - 1) * root - d - w**2)


@pytest.mark.parametrize("w", [1.0, 2.0])
@pytest.mark.parametrize("d", [5, 10, 40])
def test_theorem_6(d, w):
    """The least Σ var/c for targets 1 and w² is the closed form's."""
    a, b = closed_form(d, w)
    sigma = even_covariance(d, a, b)
    if w == 1:  # as printed in the body
        root = math.sqrt(1 + d)
        assert a == pytest.approx((d - 3) / (d - 1 - root), rel=EXACT)
        assert b == pytest.approx((d - 3) * (2 - root) / ((d - 1 - root) * (-1 - d + (d - 1) * root)), rel=EXACT)
    np.testing.assert_allclose(np.diag(np.linalg.inv(sigma)), 1, rtol=EXACT)
    total = d * (a + b) + (d * a + d**2 * b) / w**2
    c = np.append(np.ones(d), w**2)
    goal = Objective(Goal.TOTAL_ERROR, "inverse-variance")
    plan = fn.plan(fn.matrix_workload(identity_and_sum(d), variances=c), objective=goal, gap=GAP)
    assert plan.bound * (1 - EXACT) <= total / (d + 1) <= float(plan.table_part.exact_cost)


@pytest.mark.parametrize("d", [5, 40, 640, 10**6])
def test_theorem_8(d):
    """At equal cost total error lets the sum exceed its target √d/2 times as d grows, and no cell by much."""
    a, b = (x / (2 * d / (1 + d)) for x in closed_form(d, 1.0))
    total = d * a + d**2 * b
    root = math.sqrt(1 + d)
    assert total == pytest.approx((d - 3) * (1 + d) / (2 * (-1 - d + (d - 1) * root)), rel=1e-6)  # cancels for large d
    assert 0.5 < total / math.sqrt(d) < 0.75
    assert 0.5 < a + b < 0.75
    if d == 10**6:
        assert total / math.sqrt(d) == pytest.approx(0.5, rel=0.01)
