"""Plans for people over time: periods in an order, several records of one person, one in each."""

import itertools
import json
import math
from functools import cache

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.kernel.units import Adjacency
from fitnoise.mechanisms.gaussian import planning
from fitnoise.mechanisms.gaussian.separate_periods import gained, separate_periods_rho
from fitnoise.messages import english
from fitnoise.planning.plan import Plan
from fitnoise.solving import costly_sets as oracle
from fitnoise.solving import moving_records
from fitnoise.solving.certificates import AdmissibleSets, Evidence, ObjectiveTerms, RecordSets, lower_bound
from fitnoise.solving.costly_sets import CostlySets
from fitnoise_check import plan as checker
from laws.plans import status_of
from refused import refused
from test_patterns import admissible, form

ONE, FOUR, TWO = (fn.table(cumulative="month", std_error=x) for x in (1.0, 4.0, 2.0))
MONTHS = fn.table("month", std_error=1.0)


def monthly(periods, max_records, *tables, matrix=None):
    domain = fn.Domain(month=fn.Ordered(1, periods))
    if matrix is not None:
        requested = fn.matrix_workload(matrix, std_errors=np.ones(len(matrix)), domain=domain)
    else:
        requested = fn.Workload(domain, list(tables))
    return fn.plan(requested, unit=fn.PrivacyUnit("person", max_records, once_per=["month"]))


CHANGED = {"change": "month", "std_error": 1.0}
CHANGES = fn.table(**CHANGED)


@pytest.mark.parametrize(
    ("periods", "max_records", "requested", "best"),
    [
        (12, 12, {"tables": [MONTHS, FOUR]}, 9.000),
        (12, 12, {"tables": [MONTHS, TWO]}, 36.00),
        (12, 6, {"tables": [MONTHS, FOUR]}, 5.3437),
        (12, 3, {"tables": [ONE]}, 15.939),
        (12, 12, {"tables": [MONTHS, CHANGES]}, 6.4616),
        (36, 3, {"tables": [ONE]}, 23.928),
    ],
    ids=["to date 4", "to date 2", "half of them", "totals of 3", "changes", "three years"],
)
def test_series_cost_what_the_reference_says_and_no_less_is_possible(periods, max_records, requested, best):
    plan = monthly(periods, max_records, *requested.get("tables", ()), matrix=requested.get("matrix"))
    assert float(plan.table_part.exact_cost) == pytest.approx(best, rel=2e-4)
    assert plan.gap < 2e-4
    assert (plan.table_part.variances <= plan.table_part.decomposition.variances).all()
    parsed = Plan.from_json(plan.to_json())
    assert (parsed.hash, parsed.bound, parsed.loss.rho) == (plan.hash, plan.bound, plan.loss.rho)
    assert "record_sets" in status_of(plan)


SEASONS = np.kron(np.eye(2), np.tril(np.ones((4, 4))))
"""Two years of four quarters, to date."""


@pytest.mark.parametrize(
    ("requested", "matrix"),
    [
        ({"change": {"month": 4}}, (np.eye(8) - np.eye(8, k=-4))[4:]),
        ({"average": {"month": 3}}, sum(np.eye(8, k=-i) for i in range(3))[2:] / 3),
        ({"to_date": {"month": 4}}, SEASONS),
    ],
    ids=["seasonal", "average", "to date"],
)
def test_what_follows_one_another_costs_what_its_written_out_matrix_does(requested, matrix):
    """Proven to be the same by either proof; of averages the target is that of the mean, not of a sum."""
    by_view, explicit = monthly(8, 4, fn.table(**requested, std_error=1)), monthly(8, 4, matrix=matrix)
    assert by_view.bound <= float(explicit.table_part.exact_cost) * (1 + 1e-12)
    assert explicit.bound <= float(by_view.table_part.exact_cost) * (1 + 1e-12)
    assert max(by_view.gap, explicit.gap) < 2e-4
    assert by_view.table_part.variances.max() == pytest.approx(1, rel=1e-4)


YEARS = np.vstack([np.eye(36), np.kron(np.eye(3), np.ones(12)) / 2])


@pytest.mark.parametrize(
    ("requested", "best"), [({"tables": [ONE]}, 1296), ({"matrix": YEARS}, 64.8)], ids=["totals", "years"]
)
def test_periods_of_which_sets_are_too_many_to_look_at_cost_what_the_best_does(requested, best):
    """Signed products: by rows, or of single records, a fifth to a half more is charged."""
    plan = monthly(36, 36, *requested.get("tables", ()), matrix=requested.get("matrix"))
    assert plan.bound <= best * (1 + 1e-9) <= float(plan.table_part.exact_cost) * (1 + 1e-9) <= best * (1 + 2e-5)
    assert plan.gap < 2e-4
    assert Plan.from_json(plan.to_json()).table_part.exact_cost == plan.table_part.exact_cost


def test_separate_months_cost_more_than_a_series():
    """Each on its own: twelve months and their changes, 24 times a month; months and the year to date, 12."""
    plan = monthly(12, 12, MONTHS, FOUR)
    assert 2 * plan.table_part.separate_rho == pytest.approx(12 + sum(k**2 for k in range(1, 13)) / 16)
    assert 2 * plan.rho == pytest.approx(9, rel=1e-3)


@pytest.mark.parametrize(
    ("requested", "max_records", "best", "sentence_part"),
    [
        ({"tables": [MONTHS, FOUR]}, 12, 12, ", 1.333 times as much"),
        ({"tables": [MONTHS, TWO]}, 12, 36, "cost as little: a target over many periods binds"),
        ({"tables": [ONE]}, 3, 36, "2.259 times as much"),
        ({"tables": [MONTHS, CHANGES]}, 12, 24, "3.714 times as much"),
    ],
    ids=["to date 4", "to date 2", "totals of 3", "changes"],
)
def test_a_plan_says_what_periods_on_their_own_would_cost(requested, max_records, best, sentence_part):
    """The reference: with equal noise if all periods have equal targets, T²/c if the total binds."""
    plan = monthly(12, max_records, *requested.get("tables", ()), matrix=requested.get("matrix"))
    rho = separate_periods_rho(plan.table_part)
    assert 2 * rho == pytest.approx(best, rel=2e-4)
    assert 2 * rho <= best * (1 + 1e-6)
    (message,) = gained(plan.table_part).messages
    assert sentence_part in english(message)


@pytest.mark.parametrize(
    ("periods", "requested", "best", "separately"),
    [(12, {"average": {"month": 3}}, 2.25, 4), (24, {"change": {"month": 12}}, 12, 48)],
    ids=["averages", "seasons"],
)
def test_averages_and_seasonal_differences_cost_less_than_their_months(periods, requested, best, separately):
    plan = monthly(periods, periods, fn.table(**requested, std_error=1))
    assert plan.bound <= best * (1 + 1e-4)
    assert float(plan.table_part.exact_cost) == pytest.approx(best, rel=2e-4)
    assert plan.gap < 2e-4
    assert 2 * separate_periods_rho(plan.table_part) == pytest.approx(separately, rel=2e-4)


def test_regions_occur_next_to_periods_that_are_planned_separately():
    """Two sectors, cells by structure and one by one; of periods with equal noise, which one table at most binds."""
    domain = fn.Domain(month=fn.Ordered(1, 4), region=fn.Categorical([*"abc"]), kind=fn.Ordered(0, 1))
    tables = [
        fn.table("month", "region", cumulative="kind", std_error=1),
        fn.table("region", cumulative="month", std_error=9),
    ]
    for fixed in ((), ("region",), ("region", "kind")):
        unit = fn.PrivacyUnit("person", 4, once_per=["month"], fixed=fixed)
        plan = fn.plan(fn.Workload(domain, tables), unit=unit)
        yearly = fn.Domain(region=domain["region"], kind=domain["kind"])
        year = fn.plan(fn.Workload(yearly, [fn.table("region", cumulative="kind", std_error=1)]))
        assert 2 * separate_periods_rho(plan.table_part) == pytest.approx(
            4 * float(year.table_part.exact_cost), rel=2e-4
        )


def test_a_plan_says_whose_gap_was_reached(monkeypatch):
    """With too many ways to enumerate, the charge is that of the costliest pairs of records, above that of any way."""
    monkeypatch.setattr(moving_records, "MAX_PATHS", 0)
    domain = fn.Domain(month=fn.Ordered(1, 6), region=fn.Categorical([*"ab"]))
    requested = fn.Workload(domain, [fn.table("month", "region", std_error=1), fn.table("region", **CHANGED)])
    moving, staying = (
        fn.plan(requested, unit=fn.PrivacyUnit("person", 6, once_per=["month"], fixed=x)) for x in ([], ["region"])
    )
    assert moving.gap > 0.01
    assert staying.gap < 2e-4
    assert status_of(moving)[-1] == "solver_gap"
    assert "solver_gap" not in status_of(staying)


@pytest.mark.parametrize(
    ("regions", "requested", "best"),
    [
        (2, [{"cumulative": "month"}], 36),
        (9, [{"cumulative": "month"}], 36),
        (2, [{"attributes": ["month", "region"]}, {"change": "month"}], None),
        (3, [{"attributes": ["month", "region"]}, {"change": "month"}], None),
        (9, [{"attributes": ["month", "region"]}, {"average": {"month": 2}}], None),
    ],
)
def test_who_may_move_is_planned_for(regions, requested, best):
    """Plans use sets of records with their regions, such as months that alternate between two, to the requested gap."""
    domain = fn.Domain(month=fn.Ordered(1, 6), region=fn.Categorical([f"r{i}" for i in range(regions)]))
    tables = [
        fn.table(*x.get("attributes", ["region"]), std_error=1, **{k: v for k, v in x.items() if k != "attributes"})
        for x in requested
    ]
    moving, staying = (
        fn.plan(fn.Workload(domain, tables), unit=fn.PrivacyUnit("person", 6, once_per=["month"], fixed=x))
        for x in ([], ["region"])
    )
    assert moving.gap < 2e-4
    assert moving.rho >= staying.bound / 2 * (1 - 1e-9)
    assert best is None or float(moving.table_part.exact_cost) == pytest.approx(best, rel=1e-4)
    parsed = Plan.from_json(moving.to_json())
    assert (parsed.hash, parsed.bound, parsed.loss.rho) == (moving.hash, moving.bound, moving.loss.rho)
    if best is None:
        assert any(not isinstance(way, bool) for way in parsed.table_part.evidence.sets.agreements)
        costlier = fn.plan(fn.Workload(domain, tables)).table_part.strategy.unit_cost(moving.publication.adjacency)
        assert moving.table_part.exact_cost < costlier


def test_other_plans_state_nothing_of_periods():
    unit = fn.PrivacyUnit("person", 3, once_per=["month"])
    requested = fn.Workload(fn.Domain(month=fn.Ordered(1, 4)), [ONE])
    for options in ({"unit": unit, "budget": fn.Budget(rho=1)}, {}):
        plan = fn.plan(requested, **options)
        assert separate_periods_rho(plan.table_part) is None
        assert gained(plan.table_part).messages == ()


SMALL = fn.Domain(t=fn.Ordered(1, 3), a=fn.Categorical([*"xy"]), o=fn.Ordered(0, 1))
TABLES = [
    fn.table("a", cumulative="t", margin=5),
    fn.table("t", "a", cumulative="o", margin=4),
    fn.table(cumulative="t", margin=9),
]
PATTERNS = [
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
def small(max_records, pattern):
    unit = fn.PrivacyUnit("person", max_records, **json.loads(pattern))
    return fn.plan(fn.Workload(SMALL, TABLES), unit=unit)


@cache
def small_form(max_records, pattern):
    return form(small(max_records, pattern).table_part.strategy)


@pytest.mark.parametrize("max_records", [2, 4])
@pytest.mark.parametrize("pattern", [json.dumps(x) for x in PATTERNS])
def test_no_plan_is_below_the_bound_for_records_in_an_order(max_records, pattern):
    """The costliest records that a person may have, under any plan that meets the targets."""
    plan = small(max_records, pattern)
    assert (plan.table_part.terms.sets is None) == (max_records == 2 and '{"t": 2}' in pattern and "per" in pattern)
    unit = plan.publication.unit
    assert plan.table_part.exact_cost == plan.table_part.strategy.unit_cost(
        SMALL.axes.adjacency(plan.publication.source, unit)
    )
    for other in (pattern, json.dumps({"once_per": ["t"]}), "{}"):
        x, cells = small_form(max_records, other)
        worst = float(max(x[np.ix_(v, v)].sum() for v in admissible(cells, unit.pattern, max_records)))
        assert plan.bound <= worst * (1 + 1e-9)
        assert other != pattern or worst <= float(plan.table_part.exact_cost) * (1 + 1e-12)


def test_knowledge_of_records_lowers_their_cost():
    for max_records in (2, 3):
        costs = [small(max_records, json.dumps(x)).rho for x in (PATTERNS[2], PATTERNS[1], PATTERNS[0], {})]
        assert all(a <= b * (1 + 2e-4) for a, b in itertools.pairwise(costs))


@pytest.mark.parametrize(
    "options",
    [
        {"budget": fn.Budget(rho=0.5)},
        {"objective": fn.Objective("total-error"), "budget": fn.Budget(rho=1)},
        {"objective": fn.Objective("hybrid", total_error_weight=1e-4)},
    ],
    ids=["budget", "total error", "hybrid"],
)
def test_every_objective_is_planned_for_series(options):
    unit = fn.PrivacyUnit("person", 3, once_per=["t"], fixed=["a", "o"])
    plan, single = (fn.plan(fn.Workload(SMALL, TABLES), unit=u, **options) for u in (unit, fn.PrivacyUnit("person", 3)))
    assert plan.table_part.evidence.sets is not None
    assert plan.gap < 1e-3
    assert (
        plan.table_part.objective_value < single.table_part.objective_value
        if "budget" not in options
        else plan.table_part.relaxation < single.table_part.relaxation
    )


def test_few_rounds_leave_a_plan_that_says_so(monkeypatch):
    monkeypatch.setattr(planning, "SETS_ROUNDS", 1)
    plan = monthly(6, 6, MONTHS, ONE)
    assert "few_record_sets" in status_of(plan)
    assert 0 < plan.bound <= plan.table_part.objective_value


def test_too_many_cells_are_planned_one_record_at_a_time(monkeypatch):
    monkeypatch.setattr(planning, "SETS_CELLS", 5)
    plan = monthly(6, 6, MONTHS, ONE)
    assert "single_records" in status_of(plan)
    assert plan.table_part.evidence.sets is None
    assert 0 < plan.bound <= plan.table_part.objective_value


@pytest.mark.parametrize(
    "unit",
    [
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
    assert plan.table_part.terms.sets is None
    assert 0 < plan.bound <= plan.table_part.objective_value


@pytest.mark.parametrize("pattern", [json.dumps(x) for x in PATTERNS])
def test_programs_without_fitnoise_compute_the_same_charge_and_bound(pattern):
    text = small(3, pattern).to_json()
    document = json.loads(text)
    lines = "\n".join(checker.check(text.encode()))
    assert "charge as stated" in lines
    is_known = '"per_value": {"t"' not in pattern and '"per_value": {"a"' not in pattern
    assert ("bound as stated" in lines) == is_known
    if is_known:
        sets = document["tables"][0]["weights"]["sets"]
        for wrong in ([1, *sets[0][1:]], [True], [True, -1], [True, 0, 0], [True, 0, 1, 2, 3], [[[9, 9]], 0],
                      [[[0]] * 9, 0]):  # fmt: skip
            document["tables"][0]["weights"]["sets"] = [wrong, *sets[1:]]
            with pytest.raises(checker.Wrong):
                list(checker.check(json.dumps(document, separators=(",", ":")).encode() + b"\n"))


# --- evidence -------------------------------------------------------------------------------------------------------


def test_what_sets_of_records_are_in_the_mean():
    """Σ p E v vᵀ in a sector of a, by all values that records may have: all the same, or each its own."""
    sets, p = RecordSets(((0, 2), (1,), (0, 1, 2)), (True, False, False)), np.array([0.5, 0.2, 0.3])
    values = 3
    for free in (False, True):
        expected = np.zeros((3, 3))
        for weight, cells, same_values in zip(p, sets.cells, sets.agreements, strict=True):
            value_lists = list(itertools.product(range(values), repeat=1 if same_values or not free else len(cells)))
            for i, cell in enumerate(cells):
                for j, other in enumerate(cells):
                    agree = [len(x) == 1 or x[i] == x[j] for x in value_lists]
                    expected[cell, other] += weight * np.mean([1 if same else -1 / (values - 1) for same in agree])
        looked_at = ((0, values),) if free else ()
        np.testing.assert_allclose(sets.moment(p, 3, free=looked_at), expected, atol=1e-15)
    assert np.linalg.eigvalsh(np.diag(sets.reach(p, 3)) - sets.moment(p, 3, free=())).min() >= -1e-12


@pytest.mark.parametrize("looked_at", [(), (0,), (1,), (0, 1)])
def test_what_records_of_certain_values_are_in_the_mean(looked_at):
    """In the mean over all permutations of values, equal ones count 1 and others −1/(n − 1), in each attribute."""
    sizes, cells, values = (2, 3), (0, 2, 3), ((0, 0), (1, 0), (0, 2))
    sets, p = RecordSets((cells, (1,)), (values, True)), np.array([0.75, 0.25])
    expected = np.diag([0, 0.25, 0, 0])
    renamed = list(itertools.product(*(itertools.permutations(range(n)) for n in sizes)))
    for names in renamed:
        columns = []
        for o, value in zip(cells, values, strict=True):
            one = np.ones(1)
            for a in looked_at:  # what a centred record is, of length 1
                e = np.eye(sizes[a])[names[a][value[a]]] - 1 / sizes[a]
                one = np.kron(one, e / np.linalg.norm(e))
            columns.append(np.outer(np.eye(4)[o], one))
        v = sum(columns)
        expected = expected + 0.75 / len(renamed) * v @ v.T
    moment = sets.moment(p, 4, free=tuple((a, sizes[a]) for a in looked_at))
    np.testing.assert_allclose(moment, expected, atol=1e-15)
    assert np.linalg.eigvalsh(np.diag(sets.reach(p, 4)) - moment).min() >= -1e-12


def test_evidence_about_records_that_nobody_has_proves_nothing():
    plan = small(2, json.dumps({"separation": {"t": 2}}))
    d, evidence = plan.table_part.decomposition, plan.table_part.evidence
    one = np.ones(1)
    for cells in ((), (0, 2), (0, 0), (4, 0), (-1,), (6,), (0, 4, 5), (0, 6, 4), (13_000_000, 1)):
        with refused("plan.evidence-records-impossible"):
            lower_bound(d, Evidence(one, evidence.numbers, sets=RecordSets((cells,), (True,))), plan.table_part.terms)
    assert (
        lower_bound(d, Evidence(one, evidence.numbers, sets=RecordSets(((0, 4),), (True,))), plan.table_part.terms)
        <= plan.bound
    )
    for values in (((0,),), ((0,), (2,)), ((0,), (-1,)), ((0,), (0, 0)), ((), ())):
        with refused("plan.evidence-values-impossible"):
            lower_bound(
                d, Evidence(one, evidence.numbers, sets=RecordSets(((0, 4),), (values,))), plan.table_part.terms
            )
    distinct = Evidence(one, evidence.numbers, sets=RecordSets(((0, 4),), (((0,), (1,)),)))
    assert lower_bound(d, distinct, plan.table_part.terms) <= plan.bound
    with refused("plan.evidence-sets-unexpected"):
        lower_bound(d, evidence, ObjectiveTerms())
    with refused("plan.dual-weights-unusable"):
        lower_bound(
            d, Evidence(one, evidence.numbers, sets=RecordSets(((0,), (1,)), (True, True))), plan.table_part.terms
        )
    document = json.loads(plan.to_json())
    sets = document["tables"][0]["weights"]["sets"]
    for wrong in ([*sets[1:], []], [*sets[1:], [1, 0]], [*sets[1:], [True, 0.0]], [*sets[1:], [True, True]], sets[1:],
                  [*sets[1:], [True, 0, 1]], [*sets[1:], [[[0.0]], 0]], [*sets[1:], [[0], 0]]):  # fmt: skip
        document["tables"][0]["weights"]["sets"] = wrong
        with refused("plan.dual-weights-unusable", "plan.evidence-places-form", "plan.evidence-records-impossible"):
            Plan.from_json(json.dumps(document)).bound.hex()


def test_evidence_of_another_series_proves_no_more_than_its_own():
    """A unit that may have more is not bounded by less: evidence of fewer records holds, of more is refused."""
    few, many = small(2, json.dumps({"once_per": ["t"]})), small(3, json.dumps({"once_per": ["t"]}))
    assert lower_bound(many.table_part.decomposition, few.table_part.evidence, many.table_part.terms) <= many.bound * (
        1 + 1e-3
    )
    with refused("plan.evidence-records-impossible"):
        lower_bound(few.table_part.decomposition, many.table_part.evidence, few.table_part.terms)


# --- the costly sets ------------------------------------------------------------------------------------------------


def random_case(seed, n):
    draw = np.random.default_rng(seed)
    a, compatible = draw.standard_normal((n, n)), draw.random((n, n)) < 0.8
    return a @ a.T, compatible | compatible.T, int(draw.integers(1, n + 1))


def values(x, compatible, max_records):
    n = len(x)
    for m in range(1, max_records + 1):
        for c in itertools.combinations(range(n), m):
            if all(compatible[i, j] for i, j in itertools.combinations(c, 2)):
                yield float(x[np.ix_(c, c)].sum()), c


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("many", [False, True])
def test_costly_sets_are_admissible_and_the_costliest_of_all(seed, many, monkeypatch):
    """One by one: exactly. From known ones: no step leads to a costlier set, and mostly it is the costliest."""
    x, compatible, max_records = random_case(seed, 7)
    if many:
        monkeypatch.setattr(oracle, "sets_of", lambda *_, **__: None)
    costly, all_sets = (
        CostlySets(AdmissibleSets(compatible, max_records)),
        sorted(values(x, compatible, max_records), reverse=True),
    )
    starts = costly.initial_sets()
    assert set(starts) <= {c for _, c in all_sets}
    assert {(i,) for i in range(7)} <= set(starts)
    result = costly.find_costliest(x, starts, 5)
    assert result == sorted(result, reverse=True)
    for value, c in result:
        assert value == pytest.approx({cells_of_set: v for v, cells_of_set in all_sets}[c])
    if not many:
        assert [v for v, _ in result] == pytest.approx([v for v, _ in all_sets[:5]])
    else:
        assert result[0][0] >= max(x.diagonal()) * (1 - 1e-12)
        neighbours = (v for v, c in all_sets if len(set(c) ^ set(result[0][1])) == 1)
        assert all(v <= result[0][0] * (1 + 1e-9) for v in neighbours)
        assert result[0][0] == pytest.approx(all_sets[0][0], rel=0.2)


@pytest.mark.parametrize("seed", range(8))
def test_no_costly_set_of_moving_records_is_one_step_from_a_costlier_one(seed):
    """In two attributes; values are named in the order of appearance. Mostly it is the costliest of all."""
    n, sizes = 4, (2, 3)
    _, compatible, max_records = random_case(seed, n)
    admissible = AdmissibleSets(compatible, max_records, (1,), (2, 5, 3))
    draw, products = np.random.default_rng(seed), {}
    for free in ((), ((0, 2),), ((1, 3),), ((0, 2), (1, 3))):
        a = draw.standard_normal((n, n))
        products[free] = a @ a.T
    moving, costs = oracle.CostlyMovingSets(admissible), {}
    assert moving.few == (max_records > 1)
    if not moving.few:
        return
    values = list(itertools.product(*(range(min(k, max_records)) for k in sizes)))
    for cells in (c for m in range(1, max_records + 1) for c in itertools.combinations(range(n), m)):
        if all(compatible[i, j] for i, j in itertools.combinations(cells, 2)):
            for way in itertools.product(values, repeat=len(cells)):
                one = RecordSets((cells,), (way,))
                x = [float((p[np.ix_(cells, cells)] * one.agreement(0, f)).sum()) for f, p in products.items()]
                costs[cells, way] = sum(x)
    begin = [(True, (0,)), (False, (1,)), (((0, 0),), (2,))]
    result = moving.find_costliest(products, begin, 5)
    assert [v for v, _ in result] == sorted((v for v, _ in result), reverse=True)
    for value, (way, cells) in result:
        values_of_way = ((0, 0),) * len(cells) if way is True else way
        assert value == pytest.approx(costs[cells, values_of_way])
        for a in range(2):
            appearance = list(dict.fromkeys(v[a] for v in values_of_way))
            assert appearance == list(range(len(appearance)))
    best = max(costs.values())
    assert best * 0.8 <= result[0][0] <= best * (1 + 1e-12)


def test_too_many_values_are_not_looked_for():
    compatible = ~np.eye(4, dtype=bool)
    assert not oracle.CostlyMovingSets(AdmissibleSets(compatible, 4, (), (5000,) * 6)).few
    assert not oracle.CostlyMovingSets(AdmissibleSets(compatible, 4, (0,), (7,))).few
    assert oracle.CostlyMovingSets(AdmissibleSets(compatible, 4, (), (5000,))).kinds == 4


@pytest.mark.parametrize(("n", "best"), [(4, 2.25), (12, 4.9735), (36, 12.25), (120, 35.725)])
def test_one_number_common_to_all_months_is_worth_it(n, best):
    """Months alone are exchangeable, and planned as before: their closed form, at g = T."""
    root = max(math.sqrt(k * (n - k) * (n - 1) / n) + k / math.sqrt(n) for k in range(1, n + 1))
    assert root**2 / n == pytest.approx(best, rel=1e-4)
    plan = monthly(n, n, MONTHS)
    assert plan.table_part.terms.sets is None
    assert plan.bound <= root**2 / n * (1 + 1e-9) <= float(plan.table_part.exact_cost) <= root**2 / n * 1.001


@pytest.mark.parametrize(("tables_kind", "cost", "last"), [("rest", 0.084032, 0.0840319), ("one", 0.0239, 0.0576)])
def test_twelve_months_of_ten_regions(tables_kind, cost, last):
    """Margins of 20 by month and region alone, in one region; or with totals to date, where no way costs less."""
    domain = fn.Domain(month=fn.Ordered(1, 12), region=fn.Categorical([f"r{i}" for i in range(10)]))
    tables = [fn.table("month", "region", margin=20)]
    if tables_kind == "rest":
        to_date = [fn.table("region", cumulative="month", margin=60), fn.table(cumulative="month", margin=120)]
        tables += [fn.table("month", margin=40), *to_date]
    staying = fn.plan(
        fn.Workload(domain, tables), unit=fn.PrivacyUnit("person", 12, once_per=["month"], fixed=["region"])
    )
    moving = fn.plan(fn.Workload(domain, tables), unit=fn.PrivacyUnit("person", 12, once_per=["month"]))
    one = fn.plan(fn.Workload(domain, tables))
    assert one.rho == pytest.approx({"one": 0.004802, "rest": 0.005291}[tables_kind], rel=2e-4)
    assert staying.rho == pytest.approx(cost, rel=2e-3)
    assert moving.rho == pytest.approx({"one": 0.0504, "rest": cost}[tables_kind], rel=2e-3)
    assert float(one.table_part.strategy.unit_cost(moving.publication.adjacency)) / 2 == pytest.approx(last, rel=1e-3)


def test_in_another_room_the_same_charge():
    """The charge is a function of the integers and of the unit alone, and does not depend on any search."""
    plan = small(3, json.dumps({"once_per": ["t"], "fixed": ["a", "o"]}))
    adjacency = SMALL.axes.adjacency(plan.publication.source, plan.publication.unit)
    assert plan.table_part.strategy.without_cache(adjacency).loss(adjacency) == plan.table_part.strategy.loss(adjacency)
    assert plan.table_part.strategy.unit_cost(adjacency) < plan.table_part.strategy.unit_cost(
        Adjacency(fn.PrivacyUnit("person", 3))
    )
