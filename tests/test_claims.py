"""Claimed prices of designs: proven for a unit, refused in an order and in a plan, or ignored for another unit."""

import hashlib
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import fitnoise as fn
from designs import cells_over, domain_of, of_sectors
from fitnoise.kernel.designs import sectors, witness
from fitnoise.kernel.designs.witness import Blocks, Claim, Closed, Multipliers
from fitnoise.kernel.order import Order
from fitnoise.kernel.periods import Series
from fitnoise.kernel.units import Adjacency, DataSource
from fitnoise.solving import witnesses
from fitnoise.solving.witnesses import claimed, find_claim, find_replaced_claim
from refused import refused
from test_moving_records import moving

REGIONS = moving()
PERSON = fn.PrivacyUnit("person", 4, once_per=["o0"])
MOVING = Adjacency(PERSON, grid=domain_of(REGIONS))
CLAIMED = claimed(REGIONS, MOVING)
_ROWS = np.random.default_rng(4).integers(-3, 4, (6, 6)).tolist()
TWO_GROUPS = of_sectors(cells_over((), 3, 2), (np.eye(6, dtype=int).tolist(), {(): (_ROWS, 4)}))
STAYING = Adjacency(fn.PrivacyUnit("person", 3, once_per=["o0"], fixed=["o1"]), grid=domain_of(TWO_GROUPS))


def order(design, unit=PERSON):
    return Order(domain_of(design), DataSource("data"), unit, (design,), "0" * 64, "gaussian")


def changed(design, **fields):
    return replace(design, claim=replace(design.claim, **fields))


def test_a_claim_is_charged_where_it_is_proven():
    assert CLAIMED.claim == Claim(0, ("moving",), CLAIMED.claim.bounds, (Closed(),))
    CLAIMED.check_claim(MOVING)
    assert CLAIMED.unit_cost(MOVING) < REGIONS.unit_cost(MOVING) <= 16 * max(REGIONS.profile())
    assert order(CLAIMED).loss.rho == CLAIMED.unit_cost(MOVING) / 2
    assert order(CLAIMED).without_cache().loss == order(CLAIMED).loss
    assert claimed(CLAIMED, MOVING).claim == CLAIMED.claim


def test_a_larger_claim_is_charged_and_a_smaller_one_is_refused():
    (bound,) = CLAIMED.claim.bounds
    larger = changed(CLAIMED, bounds=(bound + 1,))
    assert order(larger).loss.rho > order(CLAIMED).loss.rho
    costlier = changed(CLAIMED, bounds=(bound * 10**6,))
    assert order(costlier).loss == order(REGIONS).loss  # what needs no proof costs less
    for smaller in (bound - 1, bound // 2, 0):
        wrong = changed(CLAIMED, bounds=(smaller,))
        assert wrong.unit_profile(MOVING) == REGIONS.unit_profile(MOVING)
        with refused("plan.price-not-proven"):
            wrong.check_claim(MOVING)
        with refused("plan.price-not-proven"):
            order(wrong)


@pytest.mark.parametrize(
    "claim",
    [
        replace(CLAIMED.claim, witnesses=(Blocks(1, 0, (0,), 0),)),
        replace(CLAIMED.claim, witnesses=(Multipliers((0,), 0, ((0,),), 0),)),
        replace(CLAIMED.claim, kinds=("places",)),
        replace(CLAIMED.claim, kinds=("replaced",)),
        replace(CLAIMED.claim, kinds=("others",)),
        replace(CLAIMED.claim, cap=1),
        Claim(0, ("moving",) * 2, CLAIMED.claim.bounds * 2, (Closed(),) * 2),
    ],
    ids=["blocks", "multipliers", "places", "replaced", "others", "no cap", "two groups"],
)
def test_a_claim_of_another_problem_is_refused(claim):
    with refused("plan.price-not-proven"):
        order(replace(REGIONS, claim=claim))


@pytest.mark.parametrize(
    "fields",
    [
        {"cap": -1},
        {"cap": 0.0},
        {"cap": True},
        {"kinds": (1,)},
        {"kinds": ["moving"]},
        {"kinds": ()},
        {"kinds": ("moving", "moving")},
        {"bounds": (-1,)},
        {"bounds": (3.7,)},
        {"bounds": ("3.7",)},
        {"bounds": (True,)},
        {"bounds": [3]},
        {"bounds": (3, 3)},
        {"bounds": ()},
        {"witnesses": ()},
        {"witnesses": [Closed()]},
        {"witnesses": (Closed,)},
        {"witnesses": ("closed",)},
        {"bounds": (), "kinds": (), "witnesses": ()},
    ],
    ids=str,
)
def test_a_claim_of_another_form_is_refused(fields):
    with refused("plan.claim-invalid"):
        replace(CLAIMED.claim, **fields)


def test_a_claim_of_a_foreign_class_is_refused():
    """It could prove anything: in a design, in the order of another draw, and in a witness."""

    class Gullible(Claim):
        def proves(self, problems):
            return True

    claim = Gullible(0, ("moving",), (1,), (Closed(),))
    with refused("plan.claim-invalid"):
        replace(REGIONS, claim=claim)
    with refused("plan.claim-invalid"):
        Series(order(REGIONS), "o0").redraw_order(2, claim)

    class Credulous(Blocks):
        def _proves(self, problem, bound, budget):
            return True

    with refused("plan.claim-invalid"):
        Claim(0, ("moving",), (1,), (Credulous(1, 0, (0,), 0),))


def test_records_that_agree_in_what_is_fixed_have_a_bound_by_group():
    design = claimed(TWO_GROUPS, STAYING)
    high, low = design.claim.bounds
    assert high > low
    assert design.unit_profile(STAYING) == (Fraction(high, 16), Fraction(low, 16)) * 3
    for bounds in ((high - 1, low), (high, low - 1), (low, high)):
        with refused("plan.price-not-proven"):
            changed(design, bounds=bounds).check_claim(STAYING)
    one_group = changed(design, bounds=(high,), kinds=("places",), witnesses=(Closed(),))
    with refused("plan.price-not-proven"):
        one_group.check_claim(STAYING)


def test_a_claim_that_is_proven_for_one_unit_is_charged_to_no_other_that_it_does_not_fit():
    """The other unit costs the price without a claim, and a unit of fewer records at most the claim."""
    double = Adjacency(fn.PrivacyUnit("person", 4, per_value={"o0": 2}), grid=domain_of(REGIONS))
    for other in (double, MOVING.without_pattern):
        assert CLAIMED.unit_profile(other) == REGIONS.unit_profile(other)
    fewer = Adjacency(fn.PrivacyUnit("person", 2, once_per=["o0"]), grid=domain_of(REGIONS))
    assert CLAIMED.unit_cost(fewer) <= CLAIMED.unit_cost(MOVING)
    larger = Adjacency(fn.PrivacyUnit("person", 5, once_per=["o0"]))  # of whom four have a month
    assert CLAIMED.unit_cost(larger) == CLAIMED.unit_cost(MOVING)
    REGIONS.check_claim(MOVING)


def test_all_groups_are_proven_within_one_budget(monkeypatch):
    """A group that would use up the budget takes a larger bound, and the plan keeps its claim."""
    best = find_claim(TWO_GROUPS, STAYING, 0)
    spent, problems = witness.Budget(), list(TWO_GROUPS.record_problems(STAYING, 0, best.kinds))
    full = spent.sets, spent.numbers
    for problem, bound, proof in zip(problems, best.bounds, best.witnesses, strict=True):
        assert proof.proves(problem, bound, spent)
    needed = tuple(x - y for x, y in zip(full, (spent.sets, spent.numbers), strict=True))
    monkeypatch.setattr(witness, "MAX_SETS", needed[0])
    monkeypatch.setattr(witness, "MAX_NUMBERS", needed[1])
    assert find_claim(TWO_GROUPS, STAYING, 0) == best
    monkeypatch.setattr(witness, "MAX_SETS", needed[0] - 1)
    assert find_claim(TWO_GROUPS, STAYING, 0) is None
    original = witnesses._bounds

    def looser(places, moving, limit):
        """Further bounds that need fewer sets, with a proof by closed sets that closes at once."""
        yield from original(places, moving, limit)
        yield 10**6, "places", [Closed()]

    monkeypatch.setattr(witnesses, "_bounds", looser)
    claim = find_claim(TWO_GROUPS, STAYING, 0)
    assert claim.proves(TWO_GROUPS.record_problems(STAYING, 0, claim.kinds))
    assert sorted(claim.bounds)[-1] == 10**6


def test_caps_without_places_have_no_problem(monkeypatch):
    """A cap of exchangeable attributes, a cap along no axis, several records in a place, and too many cells."""

    def problems(adjacency, kind):
        return list(REGIONS.record_problems(adjacency, 0, [kind]))

    grid = domain_of(REGIONS)
    exchangeable = Adjacency(fn.PrivacyUnit("person", 3, once_per=["a0", "o0"]), grid=grid)
    elsewhere = Adjacency(fn.PrivacyUnit("person", 3, once_per=["elsewhere"]))
    for adjacency, kind in ((exchangeable, "places"), (exchangeable, "moving"), (elsewhere, "places")):
        assert problems(adjacency, kind) == [None]
        assert find_claim(REGIONS, adjacency, 0) is None
        with refused("plan.price-not-proven"):
            CLAIMED.check_claim(adjacency)
    twice = Adjacency(fn.PrivacyUnit("person", 3, per_value={"o0": 2}), grid=grid)
    assert problems(twice, "moving") == [None]
    (places,) = problems(twice, "places")
    assert (places.node_count, places.places) == (8, tuple(range(8)))
    monkeypatch.setattr(sectors, "MAX_NODES", 7)
    assert problems(twice, "places") == [None]
    monkeypatch.setattr(sectors, "MAX_PRODUCTS", 1)
    assert problems(MOVING, "places") == [None]
    with refused("plan.price-not-proven"):
        CLAIMED.check_claim(MOVING)
    assert CLAIMED.unit_cost(MOVING) <= 16 * max(REGIONS.profile())


def test_a_claim_on_replaced_records_is_charged_where_records_are_replaced():
    replaced = replace(MOVING, unit=replace(MOVING.unit, neighbours=fn.Neighbours.REPLACE_ONE))
    claim = find_replaced_claim(REGIONS, replaced, 0)
    design = replace(REGIONS, claim=claim)
    design.check_claim(replaced)
    price = design.unit_cost(replaced)
    assert max(CLAIMED.unit_profile(MOVING)) <= price < REGIONS.unit_cost(replaced)
    assert design.unit_profile(replaced) == REGIONS.unit_profile(replaced)
    with refused("plan.price-not-proven"):
        replace(design, claim=replace(claim, bounds=(claim.bounds[0] - 1,))).check_claim(replaced)
    # Where records are only added or removed, or agree in fixed attributes, there is no such claim.
    staying = replace(replaced, unit=replace(replaced.unit, fixed=("a0",)))
    for adjacency in (MOVING, staying):
        assert find_replaced_claim(REGIONS, adjacency, 0) is None
        with refused("plan.price-not-proven"):
            design.check_claim(adjacency)
        assert design.unit_cost(adjacency) == REGIONS.unit_cost(adjacency)


def test_more_noise_leaves_no_claim():
    assert CLAIMED.scaled_by(2).claim is None


def test_another_draw_of_a_period_is_charged_its_own_claim():
    domain = fn.Domain(month=fn.Ordered(1, 4), region=fn.Categorical([*"ab"]))
    tables = [fn.table("region", cumulative="month", margin=20), fn.table("month", margin=9)]
    unit = fn.PrivacyUnit("person", 4, once_per=["month"])
    series = Series(fn.plan(fn.Workload(domain, tables), unit=unit, series="month").order, "month")
    rows = claimed(series.designs[2], series.order.adjacency)
    redraw = series.redraw_order(3, rows.claim)
    assert redraw.loss.rho == rows.unit_cost(series.order.adjacency) / 2 < series.redraw_order(3).loss.rho
    with refused("plan.price-not-proven"):
        series.redraw_order(3, replace(rows.claim, bounds=(rows.claim.bounds[0] - 1,)))


# --- in plans -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan():
    domain = fn.Domain(month=fn.Ordered(1, 4), region=fn.Categorical([*"ab"]))
    tables = [fn.table("region", cumulative="month", margin=20), fn.table("month", margin=9)]
    return fn.plan(fn.Workload(domain, tables), unit=fn.PrivacyUnit("person", 4, once_per=["month"]))


ROWS = {"kind": "blocks", "length": 1, "across": 0, "levels": [0], "shift": 0}


def altered(plan, change):
    document = json.loads(plan.to_json())
    change(document["tables"][0])
    return json.dumps(document, separators=(",", ":")) + "\n"


def test_a_plan_states_its_claim_and_proofs_and_its_hash_covers_the_claim(plan):
    entry = json.loads(plan.to_json())["tables"][0]
    assert list(entry["cost"]["claim"]) == ["cap", "groups"]
    assert entry["proofs"] == [{"kind": "closed"}]
    assert fn.Plan.from_json(plan.to_json()).hash == plan.hash
    assert fn.Plan.from_json(plan.to_json()).to_json() == plan.to_json()
    (part,) = plan.groups
    (bound,) = part.strategy.claim.bounds
    document = json.loads(plan.to_json())
    del document["tables"][0]["proofs"]
    text = json.dumps(document, separators=(",", ":")) + "\n"
    assert plan.hash == hashlib.sha256(text.encode()).hexdigest()
    other_claim = replace(part, strategy=changed(part.strategy, bounds=(bound + 1,)))
    assert replace(plan, parts=(other_claim,)).hash != plan.hash


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("plan.price-not-proven", lambda t: t["cost"]["claim"]["groups"][0].update(at="1")),
        ("plan.price-not-proven", lambda t: t["cost"]["claim"].update(cap=7)),
        ("plan.price-not-proven", lambda t: t["proofs"][0].update(ROWS)),
        ("plan.claim-invalid", lambda t: t.pop("proofs")),
        ("plan.claim-invalid", lambda t: t["proofs"].append({"kind": "closed"})),
        ("plan.claim-invalid", lambda t: t["cost"]["claim"]["groups"].clear()),
        ("plan.claim-invalid", lambda t: t["cost"]["claim"].update(cap=0.0)),
        ("plan.claim-not-decimal", lambda t: t["cost"]["claim"]["groups"][0].update(at="3.7")),
        ("plan.claim-not-decimal", lambda t: t["cost"]["claim"]["groups"][0].update(at="-3")),
        ("plan.claim-not-decimal", lambda t: t["cost"]["claim"]["groups"][0].update(at="007")),
        ("plan.claim-not-decimal", lambda t: t["cost"]["claim"]["groups"][0].update(at=3)),
        ("plan.price-not-proven", lambda t: t["cost"]["claim"]["groups"][0].update(of="cells")),
        ("plan.price-not-proven", lambda t: t["cost"]["claim"]["groups"][0].update(of="replaced")),
        ("plan.plan-damaged", lambda t: t["proofs"][0].update(kind="trust")),
        ("plan.plan-damaged", lambda t: t["proofs"][0].update(length=1)),
        ("plan.integers-of-another-cost", lambda t: (t["cost"].pop("claim"), t.pop("proofs"))),
        ("plan.plan-contradicts-itself", lambda t: t["cost"]["claim"].update(note="")),
    ],
)  # fmt: skip
def test_a_plan_whose_claim_is_not_proven_is_refused(plan, code, change):
    with refused(code):
        fn.Plan.from_json(altered(plan, change))
