"""The second-order finish: exact derivatives, and hard problems to 1e-8."""

import itertools

import numpy as np
import pytest

import fitnoise as fn
import reference as ref
import zoo
from fitnoise.mechanisms.gaussian.formulation import Formulation
from fitnoise.solving import geometric_mean, interior_point, problems, solver
from fitnoise.solving._base import Status
from fitnoise.solving.certificates import ObjectiveTerms
from fitnoise.solving.sectors import decompose
from tolerances import EXACT, LOOSE


def weights(problem, rng):
    """(p, q), p summing to 1."""
    p, q = rng.random(problem.cells) + 0.2, rng.random(problem.constraints) + 0.2
    return np.concatenate([p / p.sum(), q])


def rounding(kind):
    """The number of records is nearly free between pairs: its huge precision cancels, and leaves eight digits."""
    return 1e-8 if "pairs" in kind else EXACT


@pytest.mark.parametrize("kind", zoo.OBJECTIVES)
@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_the_hessian_is_the_derivative_of_the_gradient(name, kind, rng):
    """The Hessian of −2ν against differences of sixth order along a random direction; its diagonal on unit vectors.

    It is symmetric, and no direction curves down.
    """
    problem = zoo.formulation(name, kind).problem
    n = problem.cells
    w = weights(problem, rng)
    v = rng.normal(size=len(w)) * w

    def gradient(x):
        value = problem.evaluate(x[:n], x[n:])
        return -np.concatenate([value.profile, value.ratios])

    point = problem.linearise(w[:n], w[n:])
    steps = ((1e-2, 3 / 4), (2e-2, -3 / 20), (3e-2, 1 / 60))
    difference = sum(c * (gradient(w + h * v) - gradient(w - h * v)) for h, c in steps) / 1e-2
    product = point.hessian_times(v)
    slack = 1e-5 if "pairs" in kind else LOOSE
    np.testing.assert_allclose(product, difference, atol=slack * max(1, np.abs(product).max()))
    hessian = np.array([point.hessian_times(e) for e in np.eye(len(w))])
    np.testing.assert_allclose(hessian, hessian.T, atol=rounding(kind) * np.abs(hessian).max())
    assert np.linalg.eigvalsh(hessian)[0] >= -rounding(kind) * np.abs(hessian).max()
    exact = hessian.diagonal()
    diagonal = point.diagonal()
    assert (diagonal > 0).all()
    bounded = len(w) if kind != "total error" else n  # numbers that share one weight interact
    below = 1e-4 if "pairs" in kind else EXACT
    assert (diagonal >= exact - below * exact.max())[:bounded].all()
    if "pairs" not in kind:
        np.testing.assert_allclose(diagonal[:n], exact[:n], atol=1e-11 * exact.max())
    if "structure" not in kind and name != "all ranges":
        np.testing.assert_allclose(diagonal[n:bounded], exact[n:bounded], atol=1e-11 * exact.max())


@pytest.mark.parametrize("kind", [x for x in zoo.OBJECTIVES if "pairs" in x])
@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_pairs_of_the_same_cells_curve_no_more_than_their_block_says(name, kind, rng):
    """In any direction that changes them alone; and the block's diagonal is that of all."""
    problem = zoo.formulation(name, kind).problem
    w = weights(problem, rng)
    point = problem.linearise(w[: problem.cells], w[problem.cells :])
    blocks = point.among_patterns()
    pairs, patterns, _ = blocks.shape
    positions = np.arange(patterns)
    full_diagonal = point.diagonal()
    slack = 1e-6 * full_diagonal.max()
    diagonal = full_diagonal[: pairs * patterns].reshape(patterns, pairs).T
    np.testing.assert_allclose(blocks[:, positions, positions], diagonal, atol=slack)
    for pair in rng.choice(pairs, size=min(pairs, 4), replace=False):
        for v in rng.normal(size=(3, patterns)):
            direction = np.zeros(len(w))
            direction[positions * pairs + pair] = v
            curves = float(direction @ point.hessian_times(direction))
            assert curves <= float(v @ blocks[pair] @ v) + 100 * slack


def test_too_many_patterns_keep_to_the_diagonal(monkeypatch):
    """And the plan is the same, to the requested gap."""
    domain = fn.Domain(o=fn.Ordered(0, 5), x=fn.Categorical([*"ab"]), y=fn.Categorical([*"abc"]))
    workload = fn.Workload(domain, [fn.table("x", cumulative="o", variance=2), fn.table("y", "x", variance=1)])
    unit = fn.PrivacyUnit(neighbours=fn.Neighbours.REPLACE_ONE)
    public = fn.KnownTotals((), "Register", "these data")
    blocks = fn.plan(workload, unit=unit, gap=1e-6, public=public)
    monkeypatch.setattr(problems, "MAX_SHARED_PATTERNS", 0)
    diagonal = fn.plan(workload, unit=unit, gap=1e-6, public=public)
    assert float(blocks.table_part.exact_cost) == pytest.approx(float(diagonal.table_part.exact_cost), rel=1e-5)


KINDS = {
    "prefix": lambda seed: zoo.lower(40),
    "ranges": lambda seed: ref.ranges(40, seed),
    "signs": lambda seed: ref.signs(40, seed),
    "low rank": lambda seed: ref.low_rank(40, seed),
    "marginals": lambda seed: ref.marginals(4),
}


def instance(kind, high, seed):
    w = KINDS[kind](seed)
    c = 1.0 if high == 1 else np.random.default_rng(1000 + seed).uniform(1, high, len(w))
    return Formulation(decompose(fn.matrix_workload(w, variances=c)), ObjectiveTerms()).problem


@pytest.mark.slow
def test_300_fresh_problems_with_wide_targets():
    """Seeds not used while the method was made: at least 299 reach 1e-6 and 295 reach 1e-8; the rest say so."""
    gaps = []
    for seed in range(500, 520):
        for kind in KINDS:
            for high in (1, 100, 1000):
                solution = solver.solve(instance(kind, high, seed), gap=1e-8)
                assert (solution.gap <= 1e-8) == (solution.status is Status.CONVERGED)
                gaps.append(solution.gap)
    assert sum(g <= 1e-6 for g in gaps) >= 299
    assert sum(g <= 1e-8 for g in gaps) >= 295


@pytest.mark.parametrize("kind", KINDS)
def test_it_finishes_from_far_away(kind):
    """From a gap of tens of percent to 1e-9 in at most 60 steps."""
    problem = instance(kind, 1000, 7)
    start = geometric_mean.solve(problem, gap=0.5)
    solution = interior_point.solve(problem, start.dual, gap=1e-9)
    assert (solution.status, solution.gap <= 1e-9) == (Status.CONVERGED, True)
    assert solution.iterations <= 60


@pytest.mark.parametrize("kind", ["ranges", "low rank", "marginals"])
def test_the_barrier_falls_at_most_steps(kind):
    """The residual of conjugate gradients at a few weights does not slow it."""
    problem = instance(kind, 100, 7)
    search = interior_point.InteriorPointSearch(problem, geometric_mean.solve(problem, gap=0.01).dual)
    taus = []
    while search.best.gap > 1e-8:
        assert search.advance()
        taus.append(search.w @ search.z / len(search.w))
    falls = sum(later < 0.5 * earlier for earlier, later in itertools.pairwise(taus))
    assert falls > (len(taus) - 1) / 2


def test_a_starved_finish_admits_it():
    problem = instance("ranges", 1000, 7)
    start = geometric_mean.solve(problem, gap=0.1)
    solution = interior_point.solve(problem, start.dual, gap=1e-9, max_steps=2)
    assert solution.status is Status.ITERATIONS
    assert solution.gap > 1e-9
    stuck = interior_point.solve(problem, start.dual, gap=0.0)
    assert stuck.status in (Status.STALLED, Status.ITERATIONS)
    assert stuck.gap < 1e-8


def test_the_combination_keeps_the_best_of_all():
    """Never worse than the fixed point alone with the same allowance, and reported in one count."""
    problem = instance("marginals", 1000, 3)
    separate = geometric_mean.solve(problem, gap=1e-9, max_iterations=25)
    seen = []
    solution = solver.solve(problem, gap=1e-9, max_iterations=60, progress=lambda i, gap: seen.append(gap))
    assert solution.upper <= separate.upper
    assert solution.lower >= separate.lower
    assert seen
    assert solver.solve(problem, gap=1e-9, max_iterations=5).status is Status.ITERATIONS
