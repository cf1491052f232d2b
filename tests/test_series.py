"""Plans for people over time: periods in an order, several records of one person, one in each."""

import importlib
import itertools
import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.errors import PlanError
from fitnoise.kernel.units import Adjacency
from fitnoise.mechanisms.gaussian import planning
from fitnoise.mechanisms.gaussian.gains import apart, gained
from fitnoise.planning.plan import Plan
from fitnoise.solving import sets as oracle
from fitnoise.solving.certificates import Admissible, Evidence, Sets, Terms, lower_bound
from fitnoise.solving.sets import Dear
from test_patterns import admissible, form

ONE, FOUR, TWO = (fn.table(prefix="month", std_error=x) for x in (1.0, 4.0, 2.0))
MONTHS = fn.table("month", std_error=1.0)


def monthly(periods, most, *tables, matrix=None):
    domain = fn.Domain(month=fn.Ordered(1, periods))
    if matrix is not None:
        asked = fn.matrix_workload(matrix, std_errors=np.ones(len(matrix)), domain=domain)
    else:
        asked = fn.Workload(domain, list(tables))
    return fn.plan(asked, unit=fn.PrivacyUnit("person", most, once_per=["month"]))


CHANGES = fn.table(change="month", std_error=1.0)


@pytest.mark.parametrize(
    ("periods", "most", "asked", "best"),
    [
        (12, 12, {"tables": [MONTHS, FOUR]}, 9.000),
        (12, 12, {"tables": [MONTHS, TWO]}, 36.00),
        (12, 3, {"tables": [ONE]}, 15.939),
        (12, 12, {"tables": [MONTHS, CHANGES]}, 6.4616),
        (36, 3, {"tables": [ONE]}, 23.928),
    ],
    ids=["to date 4", "to date 2", "totals of 3", "changes", "three years"],
)
def test_series_cost_what_the_reference_says_and_no_less_is_possible(periods, most, asked, best):
    plan = monthly(periods, most, *asked.get("tables", ()), matrix=asked.get("matrix"))
    assert float(plan.exact_cost) == pytest.approx(best, rel=2e-4)
    assert plan.gap < 2e-4
    assert (plan.variances <= plan.decomposition.variances).all()
    again = Plan.from_json(plan.to_json())
    assert (again.hash, again.bound, again.exact_rho) == (plan.hash, plan.bound, plan.exact_rho)
    assert "sets of records of one unit" in plan.status


SEASONS = np.kron(np.eye(2), np.tril(np.ones((4, 4))))
"""Two years of four quarters, to date."""


@pytest.mark.parametrize(
    ("asked", "matrix"),
    [
        ({"change": {"month": 4}}, (np.eye(8) - np.eye(8, k=-4))[4:]),
        ({"average": {"month": 3}}, sum(np.eye(8, k=-i) for i in range(3))[2:] / 3),
        ({"to_date": {"month": 4}}, SEASONS),
    ],
    ids=["seasonal", "average", "to date"],
)
def test_what_follows_one_another_costs_what_its_written_out_matrix_does(asked, matrix):
    """Proven to be the same by either proof; of averages the target is that of the mean, not of a sum."""
    told, written = monthly(8, 4, fn.table(**asked, std_error=1)), monthly(8, 4, matrix=matrix)
    assert told.bound <= float(written.exact_cost) * (1 + 1e-12)
    assert written.bound <= float(told.exact_cost) * (1 + 1e-12)
    assert max(told.gap, written.gap) < 2e-4
    assert told.variances.max() == pytest.approx(1, rel=1e-4)


YEARS = np.vstack([np.eye(24), np.kron(np.eye(2), np.ones(12)) / 2])


@pytest.mark.parametrize(
    ("asked", "best"), [({"tables": [ONE]}, 24**2), ({"matrix": YEARS}, 48)], ids=["totals", "years"]
)
def test_periods_of_which_sets_are_too_many_to_look_at_cost_what_the_best_does(asked, best):
    """Signed products: by rows, or of single records, a fifth to a half more is charged."""
    plan = monthly(24, 24, *asked.get("tables", ()), matrix=asked.get("matrix"))
    assert plan.bound <= best * (1 + 1e-9) <= float(plan.exact_cost) * (1 + 1e-9) <= best * (1 + 2e-5)
    assert plan.gap < 2e-4
    assert Plan.from_json(plan.to_json()).exact_cost == plan.exact_cost


def test_months_apart_cost_more_than_a_series():
    """Each on its own: twelve months and their changes, 24 times a month; months and the year to date, 12."""
    plan = monthly(12, 12, MONTHS, FOUR)
    assert 2 * plan.separate_rho == pytest.approx(12 + sum(k**2 for k in range(1, 13)) / 16)
    assert 2 * plan.rho == pytest.approx(9, rel=1e-3)


@pytest.mark.parametrize(
    ("asked", "most", "best", "told"),
    [
        ({"tables": [MONTHS, FOUR]}, 12, 12, "at least, 1.333 times as much"),
        ({"tables": [MONTHS, TWO]}, 12, 36, "are as good: a target over many of them binds"),
        ({"tables": [ONE]}, 3, 36, "2.259 times as much"),
        ({"tables": [MONTHS, CHANGES]}, 12, 24, "3.714 times as much"),
    ],
    ids=["to date 4", "to date 2", "totals of 3", "changes"],
)
def test_a_plan_says_what_periods_on_their_own_would_cost(asked, most, best, told):
    """As the reference says: with equal noise where each is asked for alike, T²/c where the total binds."""
    plan = monthly(12, most, *asked.get("tables", ()), matrix=asked.get("matrix"))
    found = apart(plan.only)
    assert 2 * found == pytest.approx(best, rel=2e-4)
    assert 2 * found <= best * (1 + 1e-6)
    (words,) = gained(plan.only).words
    assert told in words


def test_regions_stand_beside_periods_that_are_planned_on_their_own():
    """Two sectors, cells by structure and one by one; of periods with equal noise, which one table at most binds."""
    domain = fn.Domain(month=fn.Ordered(1, 4), region=fn.Categorical([*"abc"]), kind=fn.Ordered(0, 1))
    tables = [fn.table("month", "region", prefix="kind", std_error=1), fn.table("region", prefix="month", std_error=9)]
    for fixed in ((), ("region",), ("region", "kind")):
        unit = fn.PrivacyUnit("person", 4, once_per=["month"], fixed=fixed)
        plan = fn.plan(fn.Workload(domain, tables), unit=unit)
        alone = fn.Domain(region=domain["region"], kind=domain["kind"])
        year = fn.plan(fn.Workload(alone, [fn.table("region", prefix="kind", std_error=1)]))
        assert 2 * apart(plan.only) == pytest.approx(4 * float(year.exact_cost), rel=2e-4)


def test_a_plan_says_whose_gap_was_reached():
    """Of persons who move, what the dearest pairs of records cost is charged, a tenth more than any of them can."""
    domain = fn.Domain(month=fn.Ordered(1, 12), region=fn.Categorical([*"ab"]))
    asked = fn.Workload(domain, [fn.table("region", prefix="month", std_error=1)])
    moving, staying = (
        fn.plan(asked, unit=fn.PrivacyUnit("person", 12, once_per=["month"], fixed=x)) for x in ([], ["region"])
    )
    assert moving.gap > 0.05
    assert staying.gap < 2e-4
    assert moving.status.endswith("; the plan's own is the one stated")
    assert "one stated" not in staying.status


def test_of_other_plans_nothing_is_said_of_periods():
    unit = fn.PrivacyUnit("person", 3, once_per=["month"])
    asked = fn.Workload(fn.Domain(month=fn.Ordered(1, 4)), [ONE])
    for more in ({"unit": unit, "budget": fn.Budget(rho=1)}, {}):
        plan = fn.plan(asked, **more)
        assert apart(plan.only) is None
        assert gained(plan.only).sentences == ()


SMALL = fn.Domain(t=fn.Ordered(1, 3), a=fn.Categorical([*"xy"]), o=fn.Ordered(0, 1))
TABLES = [fn.table("a", prefix="t", margin=5), fn.table("t", "a", prefix="o", margin=4), fn.table(prefix="t", margin=9)]
KEPT = [
    {"once_per": ["t"]},
    {"once_per": ["t"], "fixed": ["a"]},
    {"once_per": ["t"], "fixed": ["o", "a"]},
    {"separation": {"t": 2}},
    {"per_value": {"t": 2}},
    {"per_value": {"t": 2}, "fixed": ["o"]},
    {"once_per": ["t", "o"]},
    {"once_per": ["t"], "per_value": {"o": 1}},
    {"once_per": ["t"], "per_value": {"a": 2}},
]


@cache
def small(most, pattern):
    unit = fn.PrivacyUnit("person", most, **json.loads(pattern))
    return fn.plan(fn.Workload(SMALL, TABLES), unit=unit)


@cache
def small_form(most, pattern):
    return form(small(most, pattern).strategy)


@pytest.mark.parametrize("most", [2, 4])
@pytest.mark.parametrize("pattern", [json.dumps(x) for x in KEPT])
def test_no_plan_is_below_the_bound_for_records_in_an_order(most, pattern):
    """The dearest of all records that a person may have, under any plan that meets the targets."""
    plan = small(most, pattern)
    assert (plan.terms.sets is None) == (most == 2 and '{"t": 2}' in pattern and "per" in pattern)
    unit = plan.publication.unit
    assert plan.exact_cost == plan.strategy.unit_cost(SMALL.adjacency(plan.publication.source, unit))
    for other in (pattern, json.dumps({"once_per": ["t"]}), "{}"):
        x, cells = small_form(most, other)
        worst = float(max(x[np.ix_(v, v)].sum() for v in admissible(cells, unit.pattern, most)))
        assert plan.bound <= worst * (1 + 1e-9)
        assert other != pattern or worst <= float(plan.exact_cost) * (1 + 1e-12)


def test_what_is_known_of_records_makes_them_cheaper():
    for most in (2, 3):
        costs = [small(most, json.dumps(x)).rho for x in (KEPT[2], KEPT[1], KEPT[0], {})]
        assert all(a <= b * (1 + 2e-4) for a, b in itertools.pairwise(costs))


@pytest.mark.parametrize(
    "more",
    [
        {"budget": fn.Budget(rho=0.5)},
        {"objective": fn.Objective("total-error"), "budget": fn.Budget(rho=1)},
        {"objective": fn.Objective("hybrid", trade=1e-4)},
    ],
    ids=["budget", "total error", "hybrid"],
)
def test_every_objective_is_planned_for_series(more):
    unit = fn.PrivacyUnit("person", 3, once_per=["t"], fixed=["a", "o"])
    plan, plain = (fn.plan(fn.Workload(SMALL, TABLES), unit=u, **more) for u in (unit, fn.PrivacyUnit("person", 3)))
    assert plan.evidence.sets is not None
    assert plan.gap < 1e-3
    assert plan.value < plain.value if "budget" not in more else plan.relaxation < plain.relaxation


def test_few_rounds_leave_a_plan_that_says_so(monkeypatch):
    monkeypatch.setattr(planning, "SETS_ROUNDS", 1)
    plan = monthly(6, 6, MONTHS, ONE)
    assert "too few of them" in plan.status
    assert 0 < plan.bound <= plan.value


def test_too_many_cells_are_planned_one_record_at_a_time(monkeypatch):
    monkeypatch.setattr(planning, "SETS_CELLS", 5)
    plan = monthly(6, 6, MONTHS, ONE)
    assert "planned for single records" in plan.status
    assert plan.evidence.sets is None
    assert 0 < plan.bound <= plan.value


@pytest.mark.parametrize(
    "unit",
    [
        fn.PrivacyUnit("person", 2, fn.Neighbours.REPLACE_ONE, once_per=["t"]),
        fn.PrivacyUnit("person", 2, once_per=["t", "a"]),
        fn.PrivacyUnit("person", 2, fixed=["t"]),
        fn.PrivacyUnit("person", 2, per_value={"t": 2, "o": 2}),
        fn.PrivacyUnit("person", 2, once_per=["t"], per_value={"unseen": 1}),
        fn.PrivacyUnit("person", 2, per_value={"t": 2}),
        fn.PrivacyUnit("person", 3, separation={"t": 1, "unseen": 2}),
    ],
    ids=str,
)
def test_what_no_set_of_records_is_known_of_is_planned_as_before(unit):
    domain = fn.Domain(dict(SMALL) | {"unseen": fn.Ordered(0, 3)})
    plan = fn.plan(fn.Workload(domain, TABLES), unit=unit)
    assert plan.terms.sets is None
    assert 0 < plan.bound <= plan.value


@pytest.mark.parametrize("pattern", [json.dumps(x) for x in KEPT])
def test_programs_without_fitnoise_compute_the_same_charge_and_bound(pattern, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "docs"))
    checker = importlib.import_module("check_plan")
    document = json.loads(small(3, pattern).to_json())
    lines = "\n".join(checker.check(json.dumps(document).encode()))
    assert "charge as stated" in lines
    known = '"per_value": {"t"' not in pattern and '"per_value": {"a"' not in pattern
    assert ("bound as stated" in lines) == known
    if known:
        sets = document["weights"]["sets"]
        for wrong in ([1, *sets[0][1:]], [True], [True, -1], [True, 0, 0], [True, 0, 1, 2, 3]):
            document["weights"]["sets"] = [wrong, *sets[1:]]
            with pytest.raises(checker.Wrong):
                list(checker.check(json.dumps(document).encode()))


# --- evidence -------------------------------------------------------------------------------------------------------


def test_what_sets_of_records_are_in_the_mean():
    """Σ p E v vᵀ in a sector of a, by all values that records may have: all the same, or each its own."""
    sets, p = Sets(((0, 2), (1,), (0, 1, 2)), (True, False, False)), np.array([0.5, 0.2, 0.3])
    values = 3
    for free in (False, True):
        expected = np.zeros((3, 3))
        for weight, cells, alike in zip(p, sets.cells, sets.alike, strict=True):
            drawn = list(itertools.product(range(values), repeat=1 if alike or not free else len(cells)))
            for i, own in enumerate(cells):
                for j, other in enumerate(cells):
                    agree = [len(x) == 1 or x[i] == x[j] for x in drawn]
                    expected[own, other] += weight * np.mean([1 if same else -1 / (values - 1) for same in agree])
        np.testing.assert_allclose(sets.moment(p, 3, free=free), expected, atol=1e-15)
    assert np.linalg.eigvalsh(np.diag(sets.reach(p, 3)) - sets.moment(p, 3, free=False)).min() >= -1e-12


def test_evidence_about_records_that_nobody_has_proves_nothing():
    plan = small(2, json.dumps({"separation": {"t": 2}}))
    d, own = plan.decomposition, plan.evidence
    one = np.ones(1)
    for cells in ((), (0, 2), (0, 0), (4, 0), (-1,), (6,), (0, 4, 5)):
        with pytest.raises(PlanError, match="records that no unit can have"):
            lower_bound(d, Evidence(one, own.numbers, sets=Sets((cells,), (True,))), plan.terms)
    assert lower_bound(d, Evidence(one, own.numbers, sets=Sets(((0, 4),), (True,))), plan.terms) <= plan.bound
    with pytest.raises(PlanError, match="sets of records that no unit has"):
        lower_bound(d, own, Terms())
    with pytest.raises(PlanError, match="dual weights p must be 2 numbers"):
        lower_bound(d, Evidence(one, own.numbers, sets=Sets(((0,), (1,)), (True, True))), plan.terms)
    document = json.loads(plan.to_json())
    sets = document["weights"]["sets"]
    for wrong in ([*sets[1:], []], [*sets[1:], [1, 0]], [*sets[1:], [True, 0.0]], [*sets[1:], [True, True]], sets[1:],
                  [*sets[1:], [True, 0, 1]]):  # fmt: skip
        document["weights"]["sets"] = wrong
        with pytest.raises(PlanError, match=r"set of records of the plan's evidence|no unit can have|dual weights p"):
            Plan.from_json(json.dumps(document)).bound.hex()


def test_evidence_of_another_series_proves_no_more_than_its_own():
    """A unit that may have more is not bounded by less: evidence of fewer records holds, of more is refused."""
    few, many = small(2, json.dumps({"once_per": ["t"]})), small(3, json.dumps({"once_per": ["t"]}))
    assert lower_bound(many.decomposition, few.evidence, many.terms) <= many.bound * (1 + 1e-3)
    with pytest.raises(PlanError, match="no unit can have"):
        lower_bound(few.decomposition, many.evidence, few.terms)


# --- which sets are dear --------------------------------------------------------------------------------------------


def drawn(seed, n):
    draw = np.random.default_rng(seed)
    a, together = draw.standard_normal((n, n)), draw.random((n, n)) < 0.8
    return a @ a.T, together | together.T, int(draw.integers(1, n + 1))


def values(x, together, most):
    n = len(x)
    for m in range(1, most + 1):
        for c in itertools.combinations(range(n), m):
            if all(together[i, j] for i, j in itertools.combinations(c, 2)):
                yield float(x[np.ix_(c, c)].sum()), c


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("many", [False, True])
def test_dear_sets_are_admissible_and_the_dearest_there_are(seed, many, monkeypatch):
    """One by one: exactly. From what is known: none is a step away from a dearer one, and mostly it is the dearest."""
    x, together, most = drawn(seed, 7)
    if many:
        monkeypatch.setattr(oracle, "sets_of", lambda *_: None)
    dear, every = Dear(Admissible(together, most)), sorted(values(x, together, most), reverse=True)
    first = dear.first()
    assert set(first) <= {c for _, c in every}
    assert {(i,) for i in range(7)} <= set(first)
    found = dear.dearest(x, first, 5)
    assert found == sorted(found, reverse=True)
    for value, c in found:
        assert value == pytest.approx({own: v for v, own in every}[c])
    if not many:
        assert [v for v, _ in found] == pytest.approx([v for v, _ in every[:5]])
    else:
        assert found[0][0] >= max(x.diagonal()) * (1 - 1e-12)
        beside = (v for v, c in every if len(set(c) ^ set(found[0][1])) == 1)
        assert all(v <= found[0][0] * (1 + 1e-9) for v in beside)
        assert found[0][0] == pytest.approx(every[0][0], rel=0.2)


def test_one_number_common_to_all_months_is_worth_it():
    """Months alone are exchangeable, and planned as before: their closed form, at g = T = 12."""
    n = 12
    root = max(math.sqrt(k * (n - k) * (n - 1) / n) + k / math.sqrt(n) for k in range(1, n + 1))
    plan = monthly(n, n, MONTHS)
    assert plan.terms.sets is None
    assert plan.bound <= root**2 / n * (1 + 1e-9) <= float(plan.exact_cost) <= root**2 / n * 1.001


def test_in_another_room_the_same_charge():
    """What is charged is a function of the integers and of the unit, and of nothing that was searched."""
    plan = small(3, json.dumps({"once_per": ["t"], "fixed": ["a", "o"]}))
    of = SMALL.adjacency(plan.publication.source, plan.publication.unit)
    assert plan.strategy.afresh(of).loss(of) == plan.strategy.loss(of)
    assert plan.strategy.unit_cost(of) < plan.strategy.unit_cost(Adjacency(fn.PrivacyUnit("person", 3)))
