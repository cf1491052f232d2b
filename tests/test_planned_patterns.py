"""Plans for persons of whom no two records share a month: what they cost, and what proves that nothing costs less."""

import itertools
import json
import math
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.interfaces.render import lines
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.kernel.units import Adjacency
from fitnoise.mechanisms.gaussian.planning import _highest
from fitnoise.planning.free_queries import free_counts
from fitnoise.planning.plan import Plan
from fitnoise.solving.certificates import SINGLE_RECORDS, DistinctRecords, Evidence, ObjectiveTerms, lower_bound
from fitnoise.solving.record_kinds import weigh_kinds
from fitnoise.solving.sectors import decompose
from laws.plans import status_of
from refused import refused
from test_patterns import admissible, form, person, sets_of

MONTHS = fn.Categorical([f"M{i:02}" for i in range(12)])
REGIONS = fn.Categorical([f"R{i}" for i in range(10)])
YEAR = fn.Domain(month=MONTHS, region=REGIONS)
SMALL = fn.Domain(t=fn.Categorical([*"abc"]), a=fn.Categorical([*"xy"]), o=fn.Ordered(0, 1))
TABLES = [
    fn.table("t", "a", margin=5),
    fn.table("a", cumulative="o", margin=4),
    fn.table("t", cumulative="o", margin=9),
]


@cache
def small(unit):
    """Return tables for several units."""
    plan = planned(SMALL, TABLES, unit)
    return plan, form(plan.table_part.strategy)


def planned(domain, tables, unit, **options):
    return fn.plan(fn.Workload(domain, tables), unit=unit, **options)


def test_twelve_months_of_ten_regions():
    """144 times one record, as if all could share a cell; 12 times, charged exactly; and less, planned for."""
    tables = [fn.table("month", "region", margin=20)]
    anywhere, one = planned(YEAR, tables, person(12)), planned(YEAR, tables, fn.PrivacyUnit())
    assert anywhere.rho == pytest.approx(0.6915, rel=1e-3)
    assert one.table_part.strategy.loss(Adjacency(person(12, "month"))).rho == pytest.approx(0.0576, rel=1e-3)
    plan = planned(YEAR, tables, person(12, "month"))
    assert plan.rho < 0.0505
    assert 0.0500 < plan.bound / 2 <= plan.rho
    assert plan.gap < 0.02
    assert plan.table_part.separate_rho == pytest.approx(12 * one.table_part.separate_rho)
    year = [*tables, fn.table("region", margin=20)]
    yearly_rho = planned(YEAR, year, person(12, "month")).table_part.separate_rho
    assert yearly_rho == pytest.approx((12 + 144) * one.table_part.separate_rho)
    assert (plan.table_part.variances <= plan.table_part.decomposition.variances).all()
    enforced = planned(YEAR, tables, person(12, "month", column="pid"))
    assert enforced.rho == plan.rho
    parsed = Plan.from_json(plan.to_json())
    assert (parsed.hash, parsed.bound, parsed.loss.rho) == (plan.hash, plan.bound, plan.loss.rho)


@pytest.mark.parametrize(("months", "optimum", "gap"), [(3, 2.25, 2e-3), (4, 4, 1e-4), (5, 6.25, 1e-4), (6, 9, 1e-4)])
def test_the_optimum_is_proven_where_it_is_costliest_to_stay_in_a_region(months, optimum, gap):
    """All weight belongs to persons with a record in every month of one region; single records need no weight."""
    domain = fn.Domain(month=fn.Categorical(range(months)), region=fn.Categorical([*"ab"]))
    tables = [fn.table("month", "region", variance=1), fn.table("region", variance=4)]
    plan = planned(domain, tables, person(months, "month"))
    assert plan.bound <= optimum <= plan.table_part.exact_cost
    assert plan.gap < gap


@pytest.mark.parametrize("max_records", [2, 3])
@pytest.mark.parametrize("options", [{}, {"objective": fn.Objective("total-error")}], ids=["targets", "total error"])
def test_no_other_weights_of_kinds_prove_more(max_records, options):
    plan = planned(SMALL, TABLES, person(max_records, "t"), **options)
    d, terms, evidence = plan.table_part.decomposition, plan.table_part.terms, plan.table_part.evidence
    weighed = weigh_kinds(d, evidence, terms, terms.distinct)
    assert sum(w for *_, w in weighed.distinct_weights) == pytest.approx(1, abs=1e-5)
    best, rng = lower_bound(d, weighed, terms), np.random.default_rng(max_records)
    kinds = list(itertools.product(range(1, max_records + 1), (True, False)))
    for shares in (*np.eye(len(kinds)), *rng.dirichlet(np.full(len(kinds), 0.3), size=30)):
        others = tuple((*kind, float(w)) for kind, w in zip(kinds, shares, strict=True))
        assert lower_bound(d, replace(evidence, distinct_weights=others), terms) <= best * (1 + 1e-4)
    assert plan.bound <= best * (1 + 1e-4)


@pytest.mark.parametrize("max_records", [1, 2, 3, 7])
@pytest.mark.parametrize("once", [("t",), ("t", "a")])
def test_no_plan_is_below_the_bound_of_another(once, max_records):
    """The worst of all sets of records, looked through one by one, under any plan that meets the targets."""
    plan, _ = small(person(max_records, *once))
    others = [person(m, *c) for m, c in ((1, ()), (3, ("t",)), (3, ("t", "a")))]
    for other, (x, cells) in map(small, (person(max_records, *once), *others)):
        worst = max(x[np.ix_(v, v)].sum() for v in map(list, sets_of(cells, once, min(max_records, 6))))
        assert plan.bound <= float(worst) * (1 + 1e-9)
        assert worst <= other.table_part.strategy.unit_cost(Adjacency(person(max_records, *once)))
    ordinary, _ = small(person(1))
    assert plan.table_part.exact_cost <= ordinary.table_part.strategy.unit_cost(
        Adjacency(person(max_records, *once))
    ) * (1 + 1e-6)


PATTERNS = [
    {"per_value": {"t": 2}},
    {"per_value": {"t": 1, "a": 2}},
    {"once_per": ["t"], "fixed": ["a"]},
    {"once_per": ["t"], "fixed": ["o"]},
    {"once_per": ["t", "o"]},
    {"once_per": ["t"], "per_value": {"o": 2}},
    {"separation": {"o": 1}, "fixed": ["t"]},
    {"once_per": ["t", "unseen"]},
    {"once_per": ["t", "unseen"], "fixed": ["unseen", "a"]},
    {"per_value": {"unseen": 2}},
    {"separation": {"unseen": 2}},
    {"separation": {"o": 1, "unseen": 2}},
    {"fixed": ["a"]},
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_no_plan_is_below_the_bound_for_a_pattern(pattern):
    """The worst of all records that a person may have, under any plan that meets the targets."""
    domain = fn.Domain(dict(SMALL) | {"unseen": fn.Ordered(0, 3)})
    cells = [dict(zip(domain, c, strict=True)) for c in np.ndindex(*domain.shape)]
    for max_records in (2, 4):
        unit = fn.PrivacyUnit("person", max_records, **pattern)
        plan = planned(domain, TABLES, unit)
        assert plan.loss.rho == plan.table_part.strategy.loss(domain.axes.adjacency(plan.publication.source, unit)).rho
        assert plan.loss.rho <= planned(domain, TABLES, person(max_records)).loss.rho * (1 + 1e-6)
        for other, (x, seen) in ((plan, form(plan.table_part.strategy)), small(person(1)), small(person(3, "t"))):
            index = {(c["t"], c["a"], c["o"]): i for i, c in enumerate(seen)}
            indices = [index[c["t"], c["a"], c["o"]] for c in cells]
            worst = max(
                x[np.ix_(v, v)].sum() for v in ([indices[i] for i in w] for w in admissible(cells, unit.pattern, 2))
            )
            if max_records == 2:
                assert plan.bound <= float(worst) * (1 + 1e-9)
            assert worst <= other.table_part.strategy.unit_cost(domain.axes.adjacency(plan.publication.source, unit))


def test_what_is_fixed_is_planned_for():
    """A person who stays in a region has twelve records there: a number common to all months costs little then."""
    tables = [fn.table("month", "region", margin=20)]
    moving = planned(YEAR, tables, person(12, "month"))
    staying = planned(YEAR, tables, fn.PrivacyUnit("person", 12, once_per=["month"], fixed=["region"]))
    assert staying.rho == pytest.approx(0.0239, rel=5e-3)
    assert staying.rho < moving.rho / 2
    assert staying.bound / 2 <= staying.rho
    assert staying.gap < 0.02


def test_several_records_a_month_are_planned_for():
    tables = [fn.table("month", "region", margin=20)]
    once = planned(YEAR, tables, person(12, "month"))
    twice = planned(YEAR, tables, fn.PrivacyUnit("person", 24, per_value={"month": 2}))
    assert twice.rho == pytest.approx(4 * once.rho, rel=1e-3)
    assert twice.gap < 0.02
    assert twice.table_part.separate_rho == pytest.approx(4 * once.table_part.separate_rho)


@pytest.mark.parametrize(
    ("n", "k", "g", "variance"), [(3, 2, 3, 4.057), (12, 3, 7, 1), (12, 5, 12, 1), (12, 2, 5, 1), (4, 3, 10, 1)]
)
def test_several_records_of_each_month_are_planned_for_at_the_optimum(n, k, g, variance):
    """A scan of all ratios of two precisions, charged for every number of records, at most k of them in a month."""
    domain = fn.Domain(month=fn.Categorical(range(n)))
    plan = planned(domain, [fn.table("month", variance=variance)], fn.PrivacyUnit("person", g, per_value={"month": k}))
    # X = x₀ J/n + x₁ (I − J/n), scaled to the variance of the target.
    ratio = np.geomspace(1e-5, 1e5, 10**5)
    scale = (1 / ratio / n + (1 - 1 / n)) / variance
    m = np.arange(1, g + 1)[:, None]
    squares = m // k * k**2 + (m % k) ** 2
    optimum = (scale * (m**2 / n * ratio + squares - m**2 / n)).max(axis=0).min()
    assert plan.bound <= optimum <= plan.table_part.exact_cost * (1 + 1e-7)
    assert plan.gap < 1e-4
    assert variance == 1 or plan.table_part.exact_cost == pytest.approx(1.1444, abs=1e-4)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("same_values", [True, False])
@pytest.mark.parametrize(("positions", "m"), [(p, m) for p in ((0,), (1,), (0, 1)) for m in (1, 2, 3)])
def test_what_sets_of_records_cost_in_the_mean(positions, m, same_values, fraction):
    """Sums of the agreements of all their pairs, over all choices there are, sector by sector.

    One of their joint cells, the last in any order, has a fraction of a record.
    """
    sizes = (3, 4, 2)
    d = decompose(fn.Workload(fn.Domain({f"a{i}": fn.Categorical(range(n)) for i, n in enumerate(sizes)}),
                              [fn.table("a0", "a1", "a2", margin=1)]))  # fmt: skip
    cells = math.prod(sizes[i] for i in positions)
    rest = [i for i in range(3) if i not in positions]
    chosen = list(itertools.combinations(itertools.product(*(range(sizes[i]) for i in positions)), m))
    chosen = [x[i:] + x[:i] for x in chosen for i in range(m if fraction < 1 else 1)]
    others = list(itertools.product(*(range(sizes[i]) for i in rest)))
    value_lists = [(x,) * m for x in others] if same_values else list(itertools.product(others, repeat=m))
    numbers = [1.0] * (m - 1) + [fraction]
    for group in d.groups:
        factors = DistinctRecords(positions, cells, m, (), fraction).factors(((m, same_values, 2.0),), group)
        for k, attributes in enumerate(group.attributes.tolist()):
            total = 0.0
            for keys, values in itertools.product(chosen, value_lists):
                records = [dict(zip(positions, x, strict=True)) | dict(zip(rest, y, strict=True)) | {"number": number}
                           for x, y, number in zip(keys, values, numbers, strict=True)]  # fmt: skip
                for one, other in itertools.product(records, repeat=2):
                    agreement = math.prod(1 if one[a] == other[a] else -1 / (sizes[a] - 1) for a in attributes)
                    total += one["number"] * other["number"] * agreement
            assert factors[k] == pytest.approx(total / len(chosen) / len(value_lists), abs=1e-9)


def test_the_size_of_weights_of_sets_of_records_does_not_matter():
    """However small: their products with costs must not round to more than they are."""
    d = planned(SMALL, TABLES, person(2, "t")).table_part.decomposition
    for kinds in (((2, True, 5e-324),), ((1, True, 5e-324), (2, False, 5e-324)), ((2, True, 1e308),)):
        equal_kinds = tuple((m, same_values, 1.0) for m, same_values, _ in kinds)
        for group in d.groups:
            distinct = DistinctRecords((0,), 3, 3)
            np.testing.assert_allclose(distinct.factors(kinds, group), distinct.factors(equal_kinds, group), rtol=1e-15)


def test_evidence_about_records_that_nobody_has_proves_nothing():
    plan = planned(SMALL, TABLES, person(2, "t"))
    d, evidence = plan.table_part.decomposition, plan.table_part.evidence
    assert evidence.distinct_weights != SINGLE_RECORDS
    for kinds in (((3, True, 1.0),), ((0, True, 1.0),), ((1, True, -1.0), (2, True, 2.0))):
        with refused("plan.evidence-too-many-records"):
            lower_bound(d, Evidence(evidence.cells, evidence.numbers, None, kinds), plan.table_part.terms)
    for kinds in ((), ((1, True, 0.0),)):
        with refused("plan.evidence-without-weight"):
            lower_bound(d, Evidence(evidence.cells, evidence.numbers, None, kinds), plan.table_part.terms)
    with refused("plan.evidence-separation-unexpected"):
        lower_bound(d, evidence, ObjectiveTerms())
    document = json.loads(plan.to_json())
    kinds = document["tables"][0]["weights"]["together"]
    for wrong in ([*kinds, [2, 1, 0.5]], [*kinds, [2.0, True, 0.5]], [*kinds, [2, True]], [*kinds, [3, True, 9.0]]):
        document["tables"][0]["weights"]["together"] = wrong
        with refused("plan.evidence-set-form", "plan.evidence-too-many-records"):
            Plan.from_json(json.dumps(document)).bound.hex()


def test_a_plan_cannot_claim_what_it_was_not_made_for():
    plan = planned(SMALL, TABLES, person(3))
    document = json.loads(plan.to_json())
    document["spec"]["privacy"]["once_per"] = ["t"]
    with refused("plan.integers-of-another-cost"):
        Plan.from_json(json.dumps(document))
    loss = plan.table_part.strategy.loss(Adjacency(person(3, "t")))
    document["tables"][0]["cost"]["cost_squared"] = str(loss.cost_squared)
    forged = Plan.from_json(json.dumps(document))
    assert forged.hash != plan.hash
    assert forged.loss.rho == loss.rho < plan.loss.rho
    assert forged.order.account != plan.order.account


@pytest.mark.parametrize(
    ("domain", "tables", "unit"),
    [
        (SMALL, TABLES, person(2, "t", "o")),
        (SMALL, [fn.table("a", margin=5)], person(2, "t")),
    ],
)
def test_where_it_is_not_planned_for_the_charge_is_exact_all_the_same(domain, tables, unit):
    plan = planned(domain, tables, unit)
    assert plan.loss.rho == plan.table_part.strategy.loss(Adjacency(unit)).rho
    assert plan.loss.rho <= planned(domain, tables, person(unit.max_records, neighbours=unit.neighbours)).loss.rho * (
        1 + 1e-6
    )
    assert 0 < plan.bound <= plan.table_part.objective_value
    assert "single_records" in status_of(plan)
    if tables is not TABLES and domain is SMALL:  # no attribute distinguishes records
        assert plan.gap < 1e-5


def test_budgets_buy_more_once_a_month():
    for options in (
        {"budget": fn.Budget(rho=0.05)},
        {"objective": fn.Objective("total-error"), "budget": fn.Budget(rho=1)},
    ):
        unlimited, once = (
            planned(YEAR, [fn.table("month", "region", margin=20)], u, **options)
            for u in (person(12), person(12, "month"))
        )
        assert once.table_part.relaxation < unlimited.table_part.relaxation / 10
        assert once.loss.rho <= once.publication.budget.gaussian_rho
        assert once.bound <= once.table_part.objective_value


def test_pure_plans_and_questions_gain_nothing_and_say_what_they_cost():
    for options in (
        {"privacy": "pure"},
        {"questions": [fn.FiniteQuery.count("q", where={"t": "a"}, people=9, epsilon=1)]},
    ):
        unlimited, once = (planned(SMALL, TABLES[:1], u, **options) for u in (person(2), person(2, "t")))
        assert once.loss.epsilon == unlimited.loss.epsilon if "privacy" in options else once.rho < unlimited.rho
        nothing = "saves nothing: the costs of its records add up"
        is_stated = [nothing in "\n".join(lines(plan_report(x))) for x in (unlimited, once)]
        assert is_stated == [False, "privacy" in options]


def test_what_is_not_there_yet_is_refused():
    workload = fn.Workload(SMALL, TABLES)
    with refused("plan.refine-with-pattern"):
        fn.plan(workload, unit=person(2, "t"), refine=True)
    with refused("plan.gap-not-reached"):
        fn.plan(workload, unit=person(2, "t"), gap=1e-9)
    budgets = fn.CellBudgets(("o",), (1.0, 0.5))
    with refused("spec.cell-budgets-with-pattern"):
        fn.Publication(workload, person(2, "t"), cell_budgets=budgets)
    with refused("spec.projection-with-pattern"):
        fn.Publication(workload, person(2, "t"), small_database=fn.SmallDatabase(100), budget=fn.Budget(rho=1))
    with refused("spec.pattern-attribute-unknown"):
        fn.Publication(workload, person(2, "month"))
    places = fn.Domain(place=fn.Hierarchy(["region", "town"], [("n", "a"), ("n", "b"), ("s", "c")]))
    with refused("spec.pattern-attribute-unknown"):
        fn.Publication(fn.Workload(places, [fn.table("region", margin=3)]), person(2, "region"))
    with refused("spec.units-look-alike"):
        fn.Publication(workload, person(2, "t"), other_units=(person(2, neighbours=fn.Neighbours.REPLACE_ONE),))
    with refused("spec.further-unit-with-pattern"):
        fn.Publication(workload, fn.PrivacyUnit(), other_units=(person(2, "t", name="home"),))
    plan = fn.plan(workload, unit=person(2, "t"))
    assert free_counts(plan) == ()
    with refused("plan.free-with-pattern"):
        fn.plan_free(fn.Workload(SMALL, [fn.table("o", margin=9)]), [plan])


def test_places_once_each_are_charged_as_anywhere():
    """A level in a table distinguishes leaves as far as it does; the bound is for single records."""
    places = fn.Domain(place=fn.Hierarchy(["region", "town"], [("n", "a"), ("n", "b"), ("s", "c")]), a=fn.Ordered(0, 1))
    for name in ("region", "town", "place"):
        plan = planned(places, [fn.table(name, margin=3)], person(2, "place"))
        assert 0 < plan.bound <= plan.table_part.objective_value
        assert plan.loss.rho <= planned(places, [fn.table(name, margin=3)], person(2)).loss.rho * (1 + 1e-6)


def test_plans_say_what_a_person_is_counted_once_per():
    plan = planned(SMALL, TABLES, person(3, "t", column="pid"))
    text = "\n".join(lines(plan_report(plan)))
    assert "at most one record of each person in each cell of t\n" in text
    assert "fitnoise enforces this by the column 'pid'" in text
    assert "by the cell of a record" not in text
    assert "every record has the same cost" not in text
    promised = "\n".join(lines(plan_report(planned(SMALL, TABLES, person(3, "t")))))
    assert re.search(r"in each cell of t\n +this is assumed, not checked\n", promised)


def test_the_highest_of_few_places():
    seen = []
    highest = _highest(lambda x: seen.append(x) or -((x - 2.2) ** 2), 1.0, 4.0, 9)
    assert len(seen) == 9
    assert highest == pytest.approx(2.2, abs=0.05)
