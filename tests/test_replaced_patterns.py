"""Persons in a pattern whose records are replaced: plans and bounds of optimal cost, and an exact charge."""

import itertools
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.errors import PlanError
from fitnoise.kernel.designs.witness import Blocks, Claim, Closed, Multipliers
from fitnoise.kernel.units import Neighbours
from fitnoise.solving.certificates import Evidence, RecordSets, lower_bound
from fitnoise.solving.record_sets import max_cost_set
from fitnoise.solving.relaxations import bounds
from fitnoise.solving.witnesses import find_replaced_claim
from fitnoise_check import plan as checker
from refused import refused

MONTHS = fn.table("month", variance=1)
CELLS = fn.table("month", "region", variance=1)


def person(max_records, *once, neighbours=Neighbours.REPLACE_ONE, **settings):
    return fn.PrivacyUnit("person", max_records, neighbours, once_per=once or ("month",), **settings)


def planned(months, max_records, tables, regions=0, unit=None, **settings):
    attributes = {"month": fn.Ordered(1, months)}
    if regions:
        attributes["region"] = fn.Categorical([*"abcdef"][:regions])
    unit = person(max_records) if unit is None else unit
    return fn.plan(fn.Workload(fn.Domain(attributes), tables), unit=unit, **settings)


# --- the optimum ----------------------------------------------------------------------------------------------------

CASES = [
    (12, 2, [MONTHS], 0, 3.7143),
    (12, 12, [MONTHS], 0, 12.0),
    (12, 12, [MONTHS, fn.table(cumulative="month", variance=16)], 0, 12.0),
    (12, 12, [MONTHS, fn.table(cumulative="month", variance=4)], 0, 36.0),
    (12, 12, [MONTHS, fn.table(change="month", variance=1)], 0, 24.0),
    (12, 3, [fn.table(cumulative="month", variance=1)], 0, 17.376),
    (6, 6, [CELLS, fn.table("region", variance=4)], 2, 12.0),
    (6, 2, [CELLS, fn.table("region", variance=4)], 2, 3.714),
    (6, 6, [CELLS, fn.table("region", change="month", variance=1)], 2, 16.0),
    (5, 5, [CELLS, MONTHS], 3, 7.5),
    (24, 24, [MONTHS, fn.table(change="month", variance=1)], 0, 47.9),
]


@pytest.mark.slow
@pytest.mark.parametrize(("months", "max_records", "tables", "regions", "proven"), CASES)
def test_the_cost_is_the_known_optimum_over_replaced_sets(months, max_records, tables, regions, proven):
    """An independent program proved these bounds, and found plans at most 0.3 % above them."""
    plan = planned(months, max_records, tables, regions)
    assert plan.bound >= proven * (1 - 2e-4)
    assert plan.gap < 1.3e-3
    sentences = [*checker.check(plan.to_json().encode(), plan.hash)]
    assert any("charge as stated" in x for x in sentences)
    assert any("bound as stated" in x for x in sentences)
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash


@pytest.mark.parametrize(
    ("months", "max_records"),
    [
        pytest.param(t, g, marks=[] if t < 5 else pytest.mark.slow)
        for t in range(2, 13)
        for g in range(2, t + 1)
        if 2 * g <= t or t < 7
    ],
)
def test_months_of_one_variance_cost_the_known_optimum(months, max_records):
    """2g(T + g − 1)/(T + g) for T ≥ 2g. Otherwise independent noise, T, is at most 1/(T + g − 1) above the optimum."""
    plan = planned(months, max_records, [MONTHS])
    t, g = months, max_records
    assert plan.gap < 2e-4
    if 2 * g <= t:
        assert float(plan.loss.cost_squared) == pytest.approx(2 * g * (t + g - 1) / (t + g), rel=2e-4)
    else:
        assert plan.bound <= t * (1 + 1e-9)
        assert t <= plan.bound * (1 + 1 / (t + g - 1)) * (1 + 1e-4)


def test_many_cells_have_independent_noise():
    """Its charge is proven for more sets than can be compared, and is 24 times that of a month's cell at most."""
    plan = planned(12, 12, [CELLS, fn.table("region", change="month", variance=1)], 3)
    assert 35.5 < plan.bound < float(plan.loss.cost_squared) < 48.01


# --- the charge -----------------------------------------------------------------------------------------------------


def changes(places, values, max_records):
    """Yield each change of a unit: the sets of its removed and of its added records, as cells of the joint table."""
    sets = [
        tuple(zip(chosen, where, strict=True))
        for m in range(max_records + 1)
        for chosen in itertools.combinations(range(places), m)
        for where in itertools.product(range(values), repeat=m)
    ]
    return itertools.product(sets, sets)


def largest_cost(design, places, values, max_records):
    """Return the largest vᵀXv over all changes, in fractions, from the integers of a strategy."""
    unit, grams = design._grams()
    by_agreement = dict(design._products(grams, frozenset()))
    agree, differ = by_agreement[frozenset(range(len(design.sizes)))], by_agreement[frozenset()]
    largest = 0
    for removed, added in changes(places, values, max_records):
        records = [(o, v, -1) for o, v in removed] + [(o, v, 1) for o, v in added]
        pairs = itertools.product(records, records)
        cost = sum(s * r * (agree if v == w else differ)[o, p] for (o, v, s), (p, w, r) in pairs)
        largest = max(largest, cost)
    return Fraction(int(largest), unit)


@pytest.mark.parametrize("seed", range(12))
def test_the_charge_is_the_largest_over_all_changes(seed):
    rng = np.random.default_rng(seed)
    months, regions = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    max_records = int(rng.integers(2, months + 1))
    tables = [fn.table(*(["month", "region"] if regions > 1 else ["month"]), variance=float(rng.uniform(1, 3)))]
    tables += [fn.table(cumulative="month", variance=float(rng.uniform(1, 9)))] if seed % 3 == 0 else []
    tables += [fn.table("region", variance=float(rng.uniform(1, 9)))] if regions > 1 and seed % 2 else []
    plan = planned(months, max_records, tables, regions if regions > 1 else 0)
    exact, charged = largest_cost(plan.table_part.strategy, months, regions, max_records), plan.loss.cost_squared
    assert exact <= charged <= exact * (1 + Fraction(1, 2**15))
    assert plan.table_part.strategy.claim.kinds == ("replaced",)


@pytest.mark.parametrize("seed", range(6))
def test_no_charge_of_any_integers_is_below_a_change(seed):
    """Other strategies of the same form, with the claim that is found for them and without."""
    rng = np.random.default_rng(seed)
    plan = planned(3, 2, [CELLS, MONTHS], 2)
    part, adjacency = plan.table_part, plan.order.adjacency
    groups = tuple(
        replace(g, mixing=np.array([np.triu(rng.integers(1, 9, m.shape)) for m in g.mixing]))
        for g in part.strategy.groups
    )
    strategy = replace(part.strategy, groups=groups, claim=None)
    claim = find_replaced_claim(strategy, adjacency, 0)
    exact = largest_cost(strategy, 3, 2, 2)
    assert exact <= replace(strategy, claim=claim).unit_cost(adjacency) <= strategy.unit_cost(adjacency)
    assert claim.bounds[0] >= exact * strategy._grams()[0]


def test_a_claim_below_the_charge_or_about_other_records_is_refused():
    plan = planned(3, 2, [CELLS, MONTHS], 2)
    strategy, adjacency = plan.table_part.strategy, plan.order.adjacency
    claim = strategy.claim
    for wrong in (
        replace(claim, bounds=(claim.bounds[0] - 1,)),
        replace(claim, kinds=("moving",), bounds=(claim.bounds[0] // 8,)),
        replace(claim, bounds=claim.bounds * 2, kinds=claim.kinds * 2, witnesses=claim.witnesses * 2),
    ):
        with refused("plan.price-not-proven"):
            replace(strategy, claim=wrong).check_claim(adjacency)
    with refused("plan.claim-invalid"):
        replace(claim, kinds=(True,))
    strategy.check_claim(adjacency)
    # This number also bounds added records, and such a bound counts four times.
    for kind in ("places", "moving"):
        of_added_records = replace(strategy, claim=replace(claim, kinds=(kind,)))
        of_added_records.check_claim(adjacency)
        assert of_added_records.unit_cost(adjacency) >= strategy.unit_cost(adjacency)
    # Where records are only added or removed, and where they agree in what is fixed, the claim is about others.
    for unit in (person(2, neighbours=Neighbours.ADD_OR_REMOVE_ONE), person(2, fixed=("region",))):
        other = replace(adjacency, unit=unit)
        assert [*strategy.record_problems(other, 0, ["replaced"])] == [None]
        with refused("plan.price-not-proven"):
            strategy.check_claim(other)


@pytest.mark.parametrize(("months", "max_records"), [(3, 3), (4, 2), (12, 12)])
def test_each_kind_of_proof_holds_for_two_parts(months, max_records):
    plan = planned(months, max_records, [MONTHS])
    strategy, adjacency = plan.table_part.strategy, plan.order.adjacency
    (problem,) = strategy.record_problems(adjacency, 0, ["replaced"])
    (x, compatible, _, _), everything = problem.nodes, np.ones((2 * months,) * 2, dtype=bool)
    exact = max_cost_set(x, compatible, max_records, parts=2)
    results = bounds(problem.relaxed, everything, max_records, parts=2)
    assert {type(w) for _, w in results} == {Blocks, Multipliers}
    assert min(b for b, _ in results) >= exact
    for bound, witness in [*results, (exact, Closed())]:
        for claimed_bound, is_proven in ((bound, True), (exact - 1, False)):
            claim = Claim(0, ("replaced",), (claimed_bound,), (witness,))
            if is_proven:
                replace(strategy, claim=claim).check_claim(adjacency)
            else:
                with refused("plan.price-not-proven"):
                    replace(strategy, claim=claim).check_claim(adjacency)


def test_the_program_without_fitnoise_refuses_a_smaller_claim():
    plan = planned(4, 2, [MONTHS])
    document = json.loads(plan.to_json())
    (group,) = document["tables"][0]["cost"]["claim"]["groups"]
    assert group["of"] == "replaced"
    for change in ({"at": str(int(group["at"]) - 1)}, {"of": "moving"}):
        document["tables"][0]["cost"]["claim"]["groups"] = [group | change]
        with pytest.raises(checker.Wrong):
            list(checker.check(json.dumps(document, separators=(",", ":")).encode() + b"\n"))


# --- the bound ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("regions", [1, 2])
@pytest.mark.parametrize("max_records", [2, 3])
def test_no_strategy_that_meets_the_targets_costs_less_than_the_bound(regions, max_records):
    """The strategies are those of plans for other units, and all changes of this unit give their charge."""
    tables = [MONTHS, fn.table(cumulative="month", variance=5)]
    tables += [CELLS] if regions > 1 else []
    plan = planned(3, max_records, tables, regions if regions > 1 else 0)
    assert plan.bound <= float(plan.loss.cost_squared)
    added = Neighbours.ADD_OR_REMOVE_ONE
    others = [person(2), person(3), person(3, neighbours=added), fn.PrivacyUnit("person", 2, Neighbours.REPLACE_ONE)]
    for unit in others:
        other = planned(3, 1, tables, regions if regions > 1 else 0, unit=unit)
        assert plan.bound <= float(largest_cost(other.table_part.strategy, 3, regions, max_records)) * (1 + 1e-9)


@pytest.mark.parametrize("free", [(), ((0, 3),)])
def test_removed_records_have_the_opposite_sign_in_the_mean(free):
    """Σ p E v vᵀ in a sector, by all values of the records: all the same, certain ones, or each its own."""
    n, values = 3, 3
    sets = RecordSets(((0, 4), (1, 3, 5), (2,), (0, 3)), (True, False, True, ((0,), (1,))))
    p = np.array([0.4, 0.3, 0.1, 0.2])
    expected = np.zeros((n, n))
    for weight, cells, way in zip(p, sets.cells, sets.agreements, strict=True):
        if way is True:
            value_lists = [(x,) * len(cells) for x in range(values)]
        elif way is False:
            value_lists = [*itertools.product(range(values), repeat=len(cells))]
        else:
            value_lists = [tuple(names[v] for (v,) in way) for names in itertools.permutations(range(values))]
        for where in value_lists:
            v = np.zeros((n, values))
            for cell, value in zip(cells, where, strict=True):
                v[cell % n] += (1 if cell < n else -1) * (np.eye(values)[value] - free_mean(free, values))
            expected += weight / len(value_lists) * (v @ v.T if free else np.outer(v.sum(axis=1), v.sum(axis=1)))
    expected = expected / (1 - 1 / values) if free else expected
    moment = sets.moment(p, n, free=free)
    np.testing.assert_allclose(moment, expected, atol=1e-12)
    assert np.linalg.eigvalsh(np.diag(sets.reach(p, n)) - moment).min() >= -1e-12


def free_mean(free, values):
    return 1 / values if free else 0.0


def test_evidence_about_changes_that_no_unit_makes_proves_nothing():
    plan = planned(3, 2, [MONTHS])
    d, terms, q = plan.table_part.decomposition, plan.table_part.terms, plan.table_part.evidence.numbers
    good = [(0,), (3,), (0, 1), (0, 4), (0, 1, 5), (0, 1, 3, 5)]
    for cells in good[:-1]:
        evidence = Evidence(np.ones(1), q, sets=RecordSets((cells,), (True,)))
        assert lower_bound(d, evidence, terms) <= plan.bound * (1 + 1e-9)
    for cells in ((0, 1, 2), (3, 4, 5), (0, 3), (6,), (1, 0), ()):
        with refused("plan.evidence-records-impossible"):
            lower_bound(d, Evidence(np.ones(1), q, sets=RecordSets((cells,), (True,))), terms)
    with pytest.raises(PlanError):
        lower_bound(d, Evidence(np.ones(1), q, sets=RecordSets(((0,),), (True,))), replace(terms, sets=None))
