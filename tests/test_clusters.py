"""Claimed prices of products: proven by clusters and λ against all joint cells, refused where a field is wrong."""

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from designs import domain_of
from fitnoise.kernel.designs import clusters
from fitnoise.kernel.designs.clusters import ClusterClaim
from fitnoise.kernel.order import Order
from fitnoise.kernel.units import DataSource
from fitnoise.solving import joint_bases
from fitnoise.solving.witnesses import claimed, find_cluster_claim
from refused import refused
from test_by_axis import planned, values_by_prefix
from test_claims import CLAIMED

ADD = zoo.ADJACENCIES["add or remove"]


def integers(rows):
    return np.array(rows, dtype=object)


def largest(costs, sizes):
    """The largest Σ f_T over all joint cells."""
    return max(
        sum(int(x[tuple(i[a] if n > 1 else 0 for a, n in zip(t, x.shape, strict=True))]) for t, x in costs.items())
        for i in itertools.product(*map(range, sizes))
    )


PAIRS = {(0, 1): integers([[0, 9], [4, 1]]), (1, 2): integers([[3, 8], [2, 0]]), (0,): integers([5, 1])}
SIZES = (2, 2, 2)
GOOD = find_cluster_claim(PAIRS, SIZES)


def test_two_clusters_that_share_an_attribute_cost_what_the_costliest_cell_costs():
    assert GOOD.clusters == ((0, 1), (1, 2))
    assert GOOD.homes == (0, 1, 0)
    assert GOOD.bound == largest(PAIRS, SIZES) < sum(int(x.max()) for x in PAIRS.values())
    assert GOOD.proves(PAIRS, SIZES)
    assert replace(GOOD, bound=GOOD.bound + 1).proves(PAIRS, SIZES)
    assert not replace(GOOD, bound=GOOD.bound - 1).proves(PAIRS, SIZES)


def added(claim, c, axis, value, step):
    """The claim with another λ of one value in one cluster."""
    levels = [[list(row) for row in rows] for rows in claim.levels]
    levels[c][axis][value] += step
    return replace(claim, levels=tuple(tuple(map(tuple, rows)) for rows in levels))


@st.composite
def problems(draw):
    """Some sets of up to four attributes with costs of 1 to 200 bits, along some of their attributes constant."""
    sizes = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=4)))
    top = 2 ** draw(st.integers(1, 200))
    all_sets = [t for k in range(len(sizes) + 1) for t in itertools.combinations(range(len(sizes)), k)]
    costs = {}
    for t in draw(st.lists(st.sampled_from(all_sets), min_size=1, max_size=5, unique=True)):
        shape = [draw(st.sampled_from([1, sizes[a]])) for a in t]
        entries = draw(st.lists(st.integers(0, top), min_size=math.prod(shape), max_size=math.prod(shape)))
        costs[t] = integers(entries).reshape(shape)
    return costs, sizes


@pytest.mark.no_cover
@settings(max_examples=300)
@given(problems(), st.randoms(use_true_random=False))
def test_no_claim_below_the_costliest_cell_is_proven(problem, random):
    """For λ of the search, and for any other λ."""
    costs, sizes = problem
    truth, claim = largest(costs, sizes), find_cluster_claim(costs, sizes)
    assert claim.proves(costs, sizes)
    assert truth <= claim.bound
    for false in (truth - 1, truth // 2):
        assert false == truth or false < 0 or not replace(claim, bound=false).proves(costs, sizes)
    where = [(c, i, v) for c, rows in enumerate(claim.levels) for i, row in enumerate(rows) for v in range(len(row))]
    if where:
        c, i, v = random.choice(where)
        step, a = random.randint(1, 2**60 // len(claim.clusters)), claim.clusters[c][i]
        other = [(d, x.index(a)) for d, x in enumerate(claim.clusters) if a in x and d != c]
        wrong = added(claim, c, i, v, -step)
        assert not replace(wrong, bound=2**300).proves(costs, sizes)
        if other:
            d, j = random.choice(other)
            shifted = replace(added(wrong, d, j, v, step), bound=truth - 1 if truth else 0)
            assert not shifted.proves(costs, sizes) or shifted.bound >= truth


def test_levels_that_wrap_around_prove_nothing():
    """In 64 bits −2⁶³ and −2⁶³ add up to 0, and 100 less 2⁶³ wraps as well: 2 would be proven where 200 is true."""
    costs = {(0, 1): integers([[1, 1], [100, 1]]), (0, 2): integers([[1, 1], [100, 1]])}
    clusters_ = ((0, 1), (0, 2))
    for value in (2**63, 2**62, 2**61, 2**60, -(2**63), -(2**60), 2**4000):
        for other in (value, -value):
            levels = (((0, value), (0, 0)), ((0, other), (0, 0)))
            assert not ClusterClaim(2, clusters_, (0, 1), levels, 0).proves(costs, (2, 2, 2))
            assert not ClusterClaim(199, clusters_, (0, 1), levels, 0).proves(costs, (2, 2, 2))
    with np.errstate(over="ignore"):
        assert np.int64(-(2**63)) + np.int64(-(2**63)) == 0
    below = 2**60 - 1
    levels = (((0, below), (0, 0)), ((0, -below), (0, 0)))
    assert ClusterClaim(2**61, clusters_, (0, 1), levels, 0).proves(costs, (2, 2, 2))


def test_entries_that_could_wrap_around_are_not_added_up():
    """Every λ is in range, and with costs of 62 bits those of eight attributes add up to more than 63 bits."""
    t, u = tuple(range(9)), tuple(range(1, 9))
    costs = {t: np.ones((2,) * 9, dtype=object), u: np.ones((2,) * 8, dtype=object)}
    value, sizes = 2**60 - 1, (2,) * 9
    levels = tuple(tuple((0, sign * value) if a else (0, 0) for a in c) for c, sign in ((t, 1), (u, -1)))
    claim = ClusterClaim(2**200, (t, u), (0, 1), levels, 0)
    assert claim.proves(costs, sizes)
    large = {t: costs[t] * 2**62, u: costs[u]}
    assert not claim.proves(large, sizes)
    assert replace(claim, shift=62).proves(large, sizes)
    assert not claim.proves({t: costs[t], u: costs[u] * 2**62}, sizes)


def test_costs_of_more_bits_than_a_shift_have_no_claim():
    assert find_cluster_claim({(0,): integers([0, 2**8300])}, (2,)) is None
    assert find_cluster_claim({(0,): integers([0, 2**8100])}, (2,)).bound == 2**8100


@pytest.mark.parametrize(
    "fields",
    [
        {"homes": (0, 0, 0)},
        {"homes": (1, 1, 0)},
        {"homes": (0, 1)},
        {"homes": (0, 1, 0, 0)},
        {"homes": (0, 1, 2)},
        {"homes": (0, -1, 0)},
        {"homes": (0, 1, 1)},
        {"clusters": ((0, 1), (2, 1))},
        {"clusters": ((0, 1), (1, 1))},
        {"clusters": ((0, 1), (1, 3))},
        {"clusters": ((0, 1), (-2, -1))},
        {"clusters": ((-1, 0, 1), (1, 2)), "levels": (((0, 0),) * 3, ((0, 0),) * 2)},
        {"clusters": ((0, 1),)},
        {"clusters": ((0, 1), (1, 2), (1, 2))},
        {"clusters": ((0, 1), (1,))},
        {"clusters": ()},
        {"levels": GOOD.levels[:1]},
        {"levels": (*GOOD.levels, GOOD.levels[0])},
        {"levels": (GOOD.levels[0], GOOD.levels[1][:1])},
        {"levels": (GOOD.levels[0], (GOOD.levels[1][0], GOOD.levels[1][1][:1]))},
        {"levels": (GOOD.levels[0], (GOOD.levels[1][0], (*GOOD.levels[1][1], 0)))},
        {"levels": ((), ())},
        {"levels": ()},
    ],
    ids=str,
)
def test_a_proof_of_another_form_proves_nothing(fields):
    """Homes that lack an attribute, or are no clusters; clusters that are no sets; lists of another length."""
    assert not replace(GOOD, bound=2**300, **fields).proves(PAIRS, SIZES)


@pytest.mark.parametrize(
    "fields",
    [
        {"bound": -1},
        {"bound": 3.0},
        {"bound": True},
        {"bound": "3"},
        {"shift": -1},
        {"shift": 2**13 + 1},
        {"shift": 0.0},
        {"homes": [0, 1, 0]},
        {"homes": (0, 1.0, 0)},
        {"homes": (0, True, 0)},
        {"clusters": [(0, 1), (1, 2)]},
        {"clusters": ((0, 1), [1, 2])},
        {"clusters": ((0.0, 1), (1, 2))},
        {"levels": (GOOD.levels[0], (GOOD.levels[1][0], (0.5, -0.5)))},
        {"levels": (GOOD.levels[0], (GOOD.levels[1][0], ((0,), 0)))},
        {"levels": (GOOD.levels[0], (GOOD.levels[1][0], (np.int64(0), 0)))},
        {"levels": (GOOD.levels[0], (GOOD.levels[1][0], 0))},
    ],
    ids=str,
)
def test_a_claim_is_made_of_python_integers(fields):
    with refused("plan.claim-invalid"):
        replace(GOOD, **fields)


def test_attributes_of_one_value_are_in_no_cluster():
    """Arrays have at most 64 axes."""
    costs, sizes = {(0,): integers([1, 2])}, (2, *(1,) * 70)
    claim = find_cluster_claim(costs, sizes)
    assert claim.clusters == ((0,),)
    wide = replace(claim, clusters=(tuple(range(71)),), levels=(((0, 0), *((0,),) * 70),))
    assert not wide.proves(costs, sizes)


@pytest.mark.parametrize(("each", "total", "proven"), [(8, 12, True), (7, 12, False), (8, 11, False)])
def test_clusters_have_no_more_cells_than_are_looked_at(each, total, proven, monkeypatch):
    wide = ClusterClaim(100, ((0, 1), (0, 1, 2)), (0, 1, 0), (((0, 0),) * 2, ((0, 0),) * 3), 0)
    assert wide.proves(PAIRS, SIZES)
    monkeypatch.setattr(clusters, "MAX_JOINT_CELLS", each)
    monkeypatch.setattr(clusters, "MAX_NUMBERS", total)
    assert wide.proves(PAIRS, SIZES) is proven


def test_clusters_may_have_as_many_cells_as_sets_have_costs(monkeypatch):
    """The costs are in memory already. So the claim that is searched for is never beyond a limit."""
    monkeypatch.setattr(clusters, "MAX_JOINT_CELLS", 0)
    monkeypatch.setattr(clusters, "MAX_NUMBERS", 0)
    assert GOOD.proves(PAIRS, SIZES)
    assert find_cluster_claim(PAIRS, SIZES) == GOOD
    less = {t: PAIRS[t][:, :1] for t in PAIRS if len(t) == 2}
    assert not ClusterClaim(100, GOOD.clusters, (0, 1), GOOD.levels, 0).proves(less, SIZES)


def test_the_price_is_exact_if_one_set_has_a_cost_for_every_joint_cell(monkeypatch):
    exact = replace(zoo.CHAINED).max_record_cost
    monkeypatch.setattr(clusters, "MAX_JOINT_CELLS", 0)
    design = claimed(replace(zoo.CHAINED), ADD)
    assert design.is_exact
    assert design.claim is None
    assert design.max_record_cost == exact < sum(design.group_costs)
    assert not replace(zoo.DISAGREEING).is_exact


# --- in designs and plans ---------------------------------------------------------------------------------------------


@pytest.fixture
def many_cells(monkeypatch):
    """A design whose joint cells are too many for an exact price, with its claim."""
    exact = replace(zoo.DISAGREEING).max_record_cost
    monkeypatch.setattr(clusters, "MAX_JOINT_CELLS", 80)
    return exact, claimed(replace(zoo.DISAGREEING), ADD)


def order(design):
    unit = fn.PrivacyUnit("person")
    return Order(domain_of(design), DataSource("data"), unit, (design,), "0" * 64, "gaussian")


def test_a_claim_is_charged_where_it_is_proven_and_the_sum_of_maxima_without_it(many_cells):
    exact, design = many_cells
    unclaimed = replace(design, claim=None)
    assert unclaimed.max_record_cost == sum(design.group_costs)
    assert exact <= design.max_record_cost < exact * Fraction(101, 100) < exact * Fraction(130, 100)
    assert exact * Fraction(130, 100) < unclaimed.max_record_cost
    assert order(design).loss.rho == design.max_record_cost / 2
    assert order(design).without_cache().loss == order(design).loss
    assert claimed(design, ADD).claim == design.claim
    assert design.scaled_by(2).claim is None
    costlier = replace(design, claim=replace(design.claim, bound=design.claim.bound * 10**6))
    assert order(costlier).loss == order(unclaimed).loss
    unclaimed.check_claim(ADD)


def test_a_claim_that_is_not_proven_is_refused_and_not_charged(many_cells):
    _, design = many_cells
    for false in (replace(design.claim, bound=design.claim.bound - 1), added(design.claim, 0, 0, 0, 1)):
        wrong = replace(design, claim=false)
        assert wrong.max_record_cost == replace(design, claim=None).max_record_cost
        with refused("plan.price-not-proven"):
            order(wrong)
    one_scale = replace(zoo.PRODUCTS[next(name for name, x in zoo.PRODUCTS.items() if not x.joint)], claim=design.claim)
    with refused("plan.price-not-proven"):
        one_scale.check_claim(ADD)


def test_a_claim_of_a_foreign_class_is_refused(many_cells):
    """It could prove anything."""

    class Gullible(ClusterClaim):
        def proves(self, costs, sizes):
            return True

    _, design = many_cells
    with refused("plan.claim-invalid"):
        replace(design, claim=Gullible(1, ((0,),), (0,), (((0, 0),),), 0))
    with refused("plan.claim-invalid"):
        replace(design, claim=CLAIMED.claim)
    with refused("plan.claim-invalid"):
        replace(CLAIMED, claim=design.claim)


@pytest.fixture(scope="module")
def plan():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "MAX_JOINT_CELLS", 60)
        patch.setattr(joint_bases, "CELLS", 60)
        yield planned(values_by_prefix(3, 4))


def altered(plan, change):
    document = json.loads(plan.to_json())
    change(document["tables"][0])
    return json.dumps(document, separators=(",", ":")) + "\n"


def test_the_hash_of_a_plan_covers_the_claim_and_not_its_proof(plan):
    entry = json.loads(plan.to_json())["tables"][0]
    assert list(entry["cost"]["claim"]) == ["at"]
    (proof,) = entry["proofs"]
    assert list(proof) == ["kind", "clusters", "homes", "levels", "shift"]
    repeat = fn.Plan.from_json(plan.to_json())
    assert (repeat.hash, repeat.to_json()) == (plan.hash, plan.to_json())
    (part,) = plan.groups
    claim = part.strategy.claim
    other_claim = replace(claim, bound=claim.bound + 1)
    (c, _), (d, _) = [(i, x) for i, x in enumerate(claim.clusters) if 0 in x][:2]
    other_proof = added(added(claim, c, claim.clusters[c].index(0), 0, -1), d, claim.clusters[d].index(0), 0, 1)
    for other, equal in ((other_claim, False), (other_proof, True)):
        changed = replace(plan, parts=(replace(part, strategy=replace(part.strategy, claim=other)),))
        assert (changed.hash == plan.hash) is equal


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("plan.price-not-proven", lambda t: t["cost"]["claim"].update(at="1")),
        ("plan.price-not-proven", lambda t: t["proofs"][0]["levels"][0][0].__setitem__(0, 2**63)),
        ("plan.price-not-proven", lambda t: t["proofs"][0].update(homes=[0] * len(t["proofs"][0]["homes"]))),
        ("plan.price-not-proven", lambda t: t["proofs"][0]["levels"][0].pop()),
        ("plan.claim-invalid", lambda t: t["proofs"][0]["levels"][0][0].__setitem__(0, 0.5)),
        ("plan.claim-invalid", lambda t: t["proofs"][0].update(homes=0)),
        ("plan.claim-not-decimal", lambda t: t["cost"]["claim"].update(at="3.7")),
        ("plan.claim-not-decimal", lambda t: t["cost"]["claim"].update(at=3)),
        ("plan.plan-damaged", lambda t: t.pop("proofs")),
        ("plan.plan-damaged", lambda t: t["proofs"].append({"kind": "closed"})),
        ("plan.plan-damaged", lambda t: t["proofs"][0].update(root=1)),
        ("plan.plan-damaged", lambda t: t["proofs"][0]["clusters"][0].append("elsewhere")),
        ("plan.plan-contradicts-itself", lambda t: t["proofs"][0].update(kind="trust")),
        ("plan.plan-contradicts-itself", lambda t: t["cost"]["claim"].update(note="")),
        ("plan.integers-of-another-cost", lambda t: (t["cost"].pop("claim"), t.pop("proofs"))),
    ],
)
def test_a_plan_whose_claim_is_not_proven_is_refused(plan, code, change):
    with refused(code):
        fn.Plan.from_json(altered(plan, change))
