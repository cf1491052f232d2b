import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from conftest import zoo_plan
from dense import dense_bound
from designs import remade
from fitnoise.solving import sectors
from fitnoise.solving.certificates import NO_RECORD, Certificate, Evidence, ObjectiveTerms, RecordPairs, lower_bound
from fitnoise.solving.sectors import decompose
from refused import refused
from tolerances import EXACT

REPLACE = fn.Neighbours.REPLACE_ONE
COUNTED = fn.KnownTotals((), "Register", "these data")
NAMES = [
    "five structured cells",
    "crossed",
    "prefix",
    "reals of low rank",
    "marginals",
    "all ranges",
    "attribute of one value",
    "one cell",
]


def random_pairs(d, rng, *, is_single):
    """Some kinds of pairs, and weights for them."""
    n = int(rng.integers(1, 9))
    one, second = rng.integers(0, d.cells, n), rng.integers(-1 if is_single else 0, d.cells, n)
    return RecordPairs.from_keys(zip(rng.integers(0, 2 ** len(d.sizes), n), one, second, strict=True)), rng.dirichlet(
        np.ones(n)
    )


def random_terms(d, goal, rng):
    omega = rng.random(len(d.variances)) + 0.1
    if goal == "total error":
        return ObjectiveTerms(weights=omega, factor=int(rng.integers(1, 4)) ** 2, allows_add_or_remove=True)
    if goal == "hybrid":
        return ObjectiveTerms(
            weights=omega / d.variances, trade=float(rng.uniform(0.01, 3)), factor=4, allows_add_or_remove=True
        )
    return ObjectiveTerms(
        relative=rng.uniform(0.1, 1, d.cells) if goal == "budgets" else None, allows_add_or_remove=True
    )


GOALS = ("targets", "budgets", "total error", "hybrid")


def achieved_value(plan, terms, cost, profile):
    """Return the value of the terms at a plan's integers, for the cost of the worst pair of neighbours."""
    d = plan.table_part.decomposition
    if terms.relative is not None:
        cost = max(x / r for x, r in zip(profile, terms.relative, strict=True))
    cost *= terms.factor
    if terms.weights is None:
        return cost
    total = float(terms.weights @ plan.table_part.variances)
    if terms.trade is None:
        return cost * total / float(terms.weights @ d.variances)
    return cost + terms.trade * total


@settings(max_examples=150)
@given(
    st.sampled_from(NAMES),
    st.integers(0, 2**32),
    st.sampled_from([0.1, 1.0, 10.0]),
    st.sampled_from(GOALS),
    st.sampled_from(["cells", "pairs", "pairs or alone"]),
)
def test_any_weights_prove_a_true_bound(name, seed, concentration, goal, relation):
    """For any weights, the bound is below the cost of the integer strategy, for every goal and every relation."""
    plan = zoo_plan(name)
    d, rng = plan.table_part.decomposition, np.random.default_rng(seed)
    terms = random_terms(d, goal if relation == "cells" or goal != "budgets" else "targets", rng)
    q = rng.dirichlet(np.full(len(d.variances), concentration)) if goal != "total error" else np.zeros(0)
    q *= 10.0 ** rng.uniform(-3, 1) if goal == "hybrid" else 1
    s = plan.table_part.strategy
    cost = float(max(s.profile()))
    if relation == "cells":
        evidence = Evidence(rng.dirichlet(np.full(d.cells, concentration)), q)
    else:
        pairs, p = random_pairs(d, rng, is_single=relation == "pairs or alone")
        evidence = Evidence(p, q, pairs)
        swap = float(s.cost_squared(REPLACE))
        cost = swap if relation == "pairs" else max(cost, swap)
    assert lower_bound(d, evidence, terms) <= achieved_value(plan, terms, cost, plan.table_part.profile) * (1 + 1e-12)


def test_the_bound_can_be_weak_but_the_best_weights_are_not():
    plan = zoo_plan("prefix")
    p, q = plan.table_part.evidence.cells, plan.table_part.evidence.numbers
    n = len(p)
    uniform = lower_bound(
        plan.table_part.decomposition, Evidence(np.full(n, 1 / n), np.full(len(q), 1 / len(q))), ObjectiveTerms()
    )
    assert uniform < 0.999 * float(plan.table_part.exact_cost)
    assert lower_bound(plan.table_part.decomposition, plan.table_part.evidence, ObjectiveTerms()) > (1 - 1e-6) * float(
        plan.table_part.exact_cost
    )


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("relation", ["cells", "pairs", "pairs or alone"])
@pytest.mark.parametrize("name", NAMES)
def test_the_bound_is_the_dense_nuclear_norm(name, relation, goal, rng):
    """diag(p), or Σ p (e_i − e_j)(e_i − e_j)ᵀ over all pairs of cells of each kind, written out over the domain."""
    plan = zoo_plan(name)
    d = plan.table_part.decomposition
    if goal == "budgets" and relation != "cells":
        goal = "targets"
    q = rng.random(len(d.variances)) if goal != "total error" else np.zeros(0)
    for _ in range(3):
        pairs, p = (
            (None, rng.random(d.cells)) if relation == "cells" else random_pairs(d, rng, is_single="alone" in relation)
        )
        evidence, terms = Evidence(p, q, pairs), random_terms(d, goal, rng)
        expected = dense_bound(plan, evidence, terms)
        proven = lower_bound(d, evidence, terms)
        assert proven == pytest.approx(expected, rel=1e-6, abs=1e-10)
        assert proven <= expected + (1e-6 if d.query_shift else EXACT) * abs(expected) + 1e-10


@pytest.mark.parametrize("relation", ["cells", "pairs or alone"])
def test_the_bound_is_one_for_the_requested_queries(relation, rng):
    """Real numbers of low rank are answered over integers. Detects a bound for what is answered: half of those are
    above the nuclear norm of the requested queries, at the same weights.
    """
    above = 0
    for _ in range(12):
        requested = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 5)) * 10.0 ** rng.integers(-6, 6, size=(6, 1))
        c = (requested**2).sum(axis=1)
        d = decompose(fn.matrix_workload(requested, variances=c))
        pairs, p = (None, rng.random(5)) if relation == "cells" else random_pairs(d, rng, is_single=True)
        evidence, terms = Evidence(p, rng.random(6), pairs), ObjectiveTerms(allows_add_or_remove=True)
        w, p = evidence.numbers / evidence.numbers.sum() / c, p / p.sum()
        moment = np.diag(p) if pairs is None else pairs.moment(p, pairs.chi((), ()), 5)
        eigenvalues, axes = np.linalg.eigh(moment)
        root = axes * np.sqrt(np.maximum(eigenvalues, 0))

        def squared(queries, w=w, root=root):
            return np.linalg.norm(np.sqrt(w)[:, None] * queries @ root, "nuc") ** 2

        proven, answered = lower_bound(d, evidence, terms), squared(d.layout(0).queries)
        norm = squared(requested)
        assert norm * (1 - 1e-6) < proven <= norm * (1 + 1e-14) or norm == proven == 0
        above += answered > norm
    assert above


def test_a_gap_below_what_queries_were_moved_by_is_refused(rng):
    requested = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 5))
    workload = fn.matrix_workload(requested, variances=1)
    assert fn.plan(workload, gap=1e-6).table_part.decomposition.query_shift > 1e-10
    with refused("plan.gap-not-reached"):
        fn.plan(workload, gap=1e-8)


def test_budgets_that_leave_double_precision_prove_nothing():
    d = zoo_plan("zero and equal columns").table_part.decomposition
    terms = ObjectiveTerms(relative=np.array([1, 1e-320, 1, 1, 1]))
    with refused("plan.bound-not-finite"):
        lower_bound(d, Evidence(np.ones(5), np.ones(len(d.variances))), terms)


def test_a_budget_of_0_is_no_reason_to_divide():
    """Cells that no table counts prove nothing, for any weight and budget."""
    d = zoo_plan("zero and equal columns").table_part.decomposition
    q = np.ones(3)
    bounds = [
        lower_bound(
            d, Evidence(np.array([1, x, 1, 1, 1]) / (4 + x), q), ObjectiveTerms(relative=np.array([1, r, 1, 1, 1]))
        )
        * (4 + x)
        for x, r in ((0.0, 1.0), (0.5, 0.0), (0.5, 1.0))
    ]
    np.testing.assert_allclose(bounds, bounds[0], rtol=EXACT)


def weights_of(kind):
    """(decomposition, evidence, terms) of plans that prove what they claim."""
    plan = zoo_plan("prefix")
    d, evidence = plan.table_part.decomposition, plan.table_part.evidence
    if kind == "pairs":
        return (
            d,
            dataclasses.replace(evidence, pairs=RecordPairs.from_keys((0, o, 7 - o) for o in range(8))),
            ObjectiveTerms(),
        )
    if kind == "hybrid":
        return d, evidence, ObjectiveTerms(np.ones(8), 0.1)
    return d, evidence, ObjectiveTerms()


@pytest.mark.parametrize("kind", ["cells", "pairs", "hybrid"])
@pytest.mark.parametrize("which", ["cells", "numbers"])
@pytest.mark.parametrize("bad", ["negative", "nan", "infinite", "zero", "short"])
def test_weights_that_are_no_weights_prove_nothing(which, bad, kind):
    d, evidence, terms = weights_of(kind)
    w = getattr(evidence, which).copy()
    if bad == "zero":
        w[:] = 0
    elif bad == "short":
        w = w[1:]
    else:
        w[0] = {"negative": -1e-9, "nan": np.nan, "infinite": np.inf}[bad]
    evidence = dataclasses.replace(evidence, **{which: w})
    if (kind, which, bad) == ("hybrid", "numbers", "zero"):  # no target binds: that proves something
        assert lower_bound(d, evidence, terms) > 0
        return
    with refused("plan.dual-weights-unusable"):
        lower_bound(d, evidence, terms)


def test_total_error_has_no_weights_of_numbers():
    plan = zoo_plan("prefix")
    with refused("plan.dual-weights-unusable"):
        lower_bound(plan.table_part.decomposition, plan.table_part.evidence, ObjectiveTerms(np.ones(8)))


@pytest.mark.parametrize("pair", [(0, 8, 0), (0, -1, 0), (0, 0, 8), (0, 0, -2)])
def test_pairs_of_cells_that_do_not_exist_prove_nothing(pair):
    d, evidence, terms = weights_of("pairs")
    evidence = Evidence(np.ones(2), evidence.numbers, RecordPairs.from_keys([(0, 0, 1), pair]))
    with refused("plan.evidence-cell-missing"):
        lower_bound(d, evidence, terms)


@pytest.mark.parametrize("pairs", [None, RecordPairs.from_keys([(0, 0, 1)])])
def test_evidence_is_about_the_plan_s_own_neighbours(pairs):
    unit = fn.PrivacyUnit(neighbours=REPLACE if pairs is None else fn.Neighbours.ADD_OR_REMOVE_ONE)
    public = COUNTED if pairs is None else None
    plan = fn.plan(zoo.WORKLOADS["prefix"](), unit=unit, public=public)
    other = Evidence(np.ones(8 if pairs is None else 1), plan.table_part.evidence.numbers, pairs)
    with refused("plan.evidence-of-other-neighbours"):
        _ = remade(plan, evidence=other).bound


def test_a_certificate_cannot_claim_to_beat_its_bound():
    assert Certificate(2.0, 1.0).gap == 1.0
    assert Certificate(1.0, 1.0 + 1e-12).gap == 0.0
    for value, bound in ((1.0, 1.1), (1.0, 0.0), (np.inf, 1.0), (np.nan, 1.0)):
        with refused("plan.certificate-contradicts-itself"):
            Certificate(value, bound)


def test_cancellation_does_not_raise_the_bound_for_replace_one():
    """A total is free under replace-one; the rest from rounding must not count, for any unequal targets."""
    w = fn.matrix_workload(np.array([[1, 1, 1], [1, 0, 0]]), variances=[1e-22, 1e10])
    d = fn.plan(fn.matrix_workload(np.array([[1, 1, 1], [1, 0, 0]]), variances=1)).table_part.decomposition
    (table,) = d.tables
    d = dataclasses.replace(
        d, tables=(dataclasses.replace(table, variances=w.tables[0].variances(w.domain, 0.95)[None, :]),)
    )
    pairs = RecordPairs.from_keys([(0, 0, 1), (0, 0, 2), (0, 1, 2)])
    assert lower_bound(d, Evidence(np.ones(3), np.full(2, 0.5), pairs), ObjectiveTerms()) <= 1e-10


def test_records_that_cannot_come_or_go_prove_nothing():
    """Else a total with a tight target would "cost" what it does not: replacing a record leaves the total as it is."""
    w = fn.matrix_workload([[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], variances=[1e-3, 1, 1, 1])
    plan = fn.plan(w, unit=fn.PrivacyUnit(neighbours=REPLACE), public=COUNTED)
    add = fn.plan(w)
    forged = Evidence(
        add.table_part.evidence.cells,
        add.table_part.evidence.numbers,
        RecordPairs.from_keys((0, o, NO_RECORD) for o in range(3)),
    )
    with refused("plan.evidence-single-record"):
        lower_bound(plan.table_part.decomposition, forged, plan.table_part.terms)
    assert lower_bound(plan.table_part.decomposition, forged, ObjectiveTerms(allows_add_or_remove=True)) > 100 * float(
        plan.table_part.exact_cost
    )


def test_tiny_budgets_of_some_cells_do_not_raise_the_bound_of_tables_by_structure(monkeypatch):
    """Ranges of two halves and some between them: the bound by structure stays at or below that of the matrix."""
    n = 48
    bounds = [(i, j) for i in range(n) for j in range(i, n)]
    w = fn.Workload(fn.Domain(o=fn.Ordered(0, n - 1)), [fn.table(ranges={"o": bounds}, variance=1)])
    tall = decompose(w)
    monkeypatch.setattr(sectors, "MAX_ROWS_PER_CELL", 10**9)
    flat = decompose(w)
    rng = np.random.default_rng(1)
    for budget in (1e-2, 1e-4, 1e-6):
        r = np.where(np.arange(n) < n // 2, budget, 1.0)
        p, q = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(len(bounds)))
        q *= np.where([i < n // 2 for i, _ in bounds], budget, 1.0)
        by_structure = lower_bound(tall, Evidence(p, q), ObjectiveTerms(relative=r))
        by_matrix = lower_bound(flat, Evidence(p, q), ObjectiveTerms(relative=r))
        assert by_matrix * (1 - 1e-5) <= by_structure <= by_matrix * (1 + EXACT)
