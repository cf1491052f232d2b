"""Problems in halves: the same bounds and optimum, and nothing halved that is another problem backwards."""

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.algebra import rules
from fitnoise.mechanisms.gaussian.formulation import Formulation
from fitnoise.mechanisms.terms import terms
from fitnoise.solving import mirrored, sectors, solver
from fitnoise.solving.sectors import decompose
from tolerances import EXACT


def problem_of(n, *tables, **options):
    publication = fn.Publication(fn.Workload(fn.Domain(o=fn.Ordered(0, n - 1)), list(tables)), **options)
    d = decompose(publication.workload)
    return Formulation(d, terms(publication, d)).problem


def matrix_problem(w, c):
    d = decompose(fn.matrix_workload(w, variances=c))
    return Formulation(d, terms(fn.Publication(fn.matrix_workload(w, variances=c)), d)).problem


def blocks_of_three(n):
    """Single cells, and sums of three neighbours, targets larger in the middle."""
    w = np.vstack([np.eye(n), [np.abs(np.arange(n) - i) <= 1 for i in range(1, n - 1)]]).astype(int)
    return w, 1 + np.abs(w.mean(axis=1) - 1) + (w @ np.abs(np.linspace(-1, 1, n))) ** 2


HALVED = {
    "all ranges, even": lambda: problem_of(12, fn.table(ranges="o", variance=1.0)),
    "all ranges, odd": lambda: problem_of(13, fn.table(ranges="o", variance=1.0)),
    "of a larger unit": lambda: problem_of(8, fn.table(ranges="o", variance=1.0), unit=fn.PrivacyUnit(max_records=3)),
    "rows of a matrix": lambda: matrix_problem(*blocks_of_three(9)),
}


@pytest.mark.parametrize("name", HALVED)
def test_both_halves_have_the_bounds_of_the_complete_problem(name, monkeypatch, rng):
    """At weights that stay the same backwards, and so at the optimum."""
    monkeypatch.setattr(mirrored, "MIN_MIRRORED_CELLS", 2)
    complete = HALVED[name]()
    halves = mirrored.halved(complete)
    assert halves.problem.cells == (complete.cells + 1) // 2
    p, q = rng.uniform(1, 2, complete.cells), rng.uniform(1, 2, complete.constraints)
    folded = halves.fold((p / p.sum(), q / q.sum()))
    here, there = halves.problem.evaluate(*folded), complete.evaluate(*halves.unfold(folded))
    for bound in ("nu", "lower", "upper", "stretch"):
        assert getattr(here, bound) == pytest.approx(getattr(there, bound), rel=EXACT)
    for one, other in zip(folded, halves.fold(halves.unfold(folded)), strict=True):
        np.testing.assert_allclose(one, other, rtol=EXACT)
    solution = halves.unfold_solution(solver.solve(halves.problem, gap=1e-7))
    best = complete.evaluate(*solution.primal).upper
    assert best <= complete.evaluate(*solution.dual).lower * (1 + 1.1e-7)
    assert best == pytest.approx(solver.solve(complete, gap=1e-7).upper, rel=3e-7)


def test_both_halves_share_their_sums_over_ranges(monkeypatch, rng):
    """One pass each way gives a product with the Hessian, and the quadratic form is that of the complete matrix."""
    monkeypatch.setattr(mirrored, "MIN_MIRRORED_CELLS", 2)
    monkeypatch.setattr(sectors, "MAX_ROWS_PER_CELL", 0)
    complete = HALVED["all ranges, odd"]()
    halves = mirrored.halved(complete)
    p, q = rng.uniform(1, 2, halves.problem.cells), rng.uniform(1, 2, halves.problem.constraints)
    here = halves.problem.linearise(p / p.sum(), q)
    there = complete.linearise(*halves.unfold((p / p.sum(), q)))
    v = rng.normal(size=len(p)), rng.normal(size=len(q))
    passes = []
    for name in ("weighted_gram", "row_variances"):
        rule = getattr(rules, name)
        monkeypatch.setattr(rules, name, lambda a, x, rule=rule, name=name: passes.append(name) or rule(a, x))
    product = here.hessian_times(np.concatenate(v))
    assert passes == ["weighted_gram", "row_variances"]
    expected = there.hessian_times(np.concatenate(halves.unfold(v)))
    other = rng.normal(size=len(p)), rng.normal(size=len(q))
    of_both = np.concatenate(halves.unfold(other)) @ expected
    assert np.concatenate(other) @ product == pytest.approx(of_both, rel=1e-9)


def lopsided():
    w, c = blocks_of_three(9)
    return matrix_problem(w, np.where(np.arange(len(c)) == 0, 2 * c, c))


ASYMMETRIC = {
    "prefixes": lambda: problem_of(8, fn.table(cumulative="o", variance=1.0)),
    "one target of its own": lopsided,
    "too few": lambda: problem_of(3, fn.table(ranges="o", variance=1.0)),
    "one row twice": lambda: matrix_problem(np.vstack([np.eye(8), np.eye(8)]).astype(int), np.ones(16)),
    "total error": lambda: problem_of(
        8, fn.table(ranges="o", variance=1.0), objective=fn.Objective(fn.Goal.TOTAL_ERROR)
    ),
}


@pytest.mark.parametrize("name", ASYMMETRIC)
def test_an_asymmetric_problem_is_not_halved(name, monkeypatch):
    monkeypatch.setattr(mirrored, "MIN_MIRRORED_CELLS", 4)
    assert mirrored.halved(ASYMMETRIC[name]()) is None


def test_a_plan_in_halves_is_the_plan(monkeypatch):
    """Its integers, its proof, and a start from a plan before."""
    workload = fn.Workload(fn.Domain(o=fn.Ordered(0, 10)), [fn.table(ranges="o", variance=1.0)])
    unhalved = fn.plan(workload)
    monkeypatch.setattr(mirrored, "MIN_MIRRORED_CELLS", 2)
    halves = fn.plan(workload)
    restarted = fn.plan(workload, start=halves)
    for plan in (halves, restarted):
        assert plan.gap <= 1e-6
        assert plan.rho == pytest.approx(unhalved.rho, rel=1e-6)
