"""The costliest way of one unit through places, with records that may move, against all possible ways."""

import itertools
import math

import numpy as np
import pytest

import fitnoise as fn
from designs import cells_over, domain_of, of_sectors, unit_cost
from fitnoise.kernel.units import Adjacency
from fitnoise.solving import moving_records, witnesses
from fitnoise.solving.moving_records import DIGITS, max_cost_path
from test_patterns import admissible, form

HUGE = 2**400


def random_form(seed, bits):
    """Return products of records by the attributes in which they agree, of n bits; cells by place, values, records."""
    draw = np.random.default_rng(seed)
    sizes = [(), (2,), (3,), (2, 2)][seed % 4]
    positions = sorted([*range(3), *draw.integers(0, 3, size=int(draw.integers(0, 3))).tolist()])[: 6 - len(sizes)]
    n, kinds = len(positions), 2 ** len(sizes)
    x, may_meet = np.zeros((kinds, n, n), dtype=object), np.zeros((kinds, n, n), dtype=bool)
    for k, i, j in ((k, i, j) for k in range(kinds) for i, j in itertools.combinations_with_replacement(range(n), 2)):
        x[k, i, j] = x[k, j, i] = int.from_bytes(draw.bytes(32)) % 2 ** (bits + 1) - 2**bits
        may_meet[k, i, j] = may_meet[k, j, i] = positions[i] != positions[j] and draw.random() < 0.8
    own_costs = [int.from_bytes(draw.bytes(32)) % 2**bits for _ in range(n)]
    return x, may_meet, own_costs, positions, sizes, int(draw.choice([1, 2, 3, 99]))


def costs(x, may_meet, own_costs, positions, sizes, max_records):
    """Yield the costs of all ways, by their definition."""
    records = list(itertools.product(range(len(own_costs)), itertools.product(*map(range, sizes))))
    for m in range(1, min(max_records, len(own_costs)) + 1):
        for way in itertools.combinations(records, m):
            total = sum(own_costs[o] for o, _ in way)
            for (i, v), (j, w) in itertools.combinations(way, 2):
                same = sum((a == b) << k for k, (a, b) in enumerate(zip(v, w, strict=True)))
                if not may_meet[same, i, j]:
                    break
                total += 2 * x[same, i, j]
            else:
                yield total


@pytest.mark.parametrize("bits", [1, 7, DIGITS - 1])
def test_no_path_costs_more_and_one_costs_as_much(bits, monkeypatch):
    """Also where none is known before, and few are worked on at once."""
    for seed in range(60):
        arguments = random_form(seed, bits)
        largest = max(costs(*arguments))
        assert max_cost_path(*arguments, HUGE) == largest
        with monkeypatch.context() as patched:
            patched.setattr(moving_records, "NUMBERS_PER_BATCH", 1)
            patched.setattr(moving_records, "_climbed", lambda *_: 0)
            assert max_cost_path(*arguments, HUGE) == largest


@pytest.mark.parametrize("max_records", [3, 6])
def test_of_many_places_no_costlier_path_is_given_up(monkeypatch, rng, max_records):
    """No way is known before: the joint cost of later records counts, with those before and among them."""
    monkeypatch.setattr(moving_records, "_climbed", lambda *_: 0)
    n, distinct = 6, ~np.eye(6, dtype=bool)
    for sizes in [(), (2,)] * 25:
        x = rng.integers(-8, 9, (2 ** len(sizes), n, n)).astype(object)
        x, own_costs = x + x.transpose(0, 2, 1), rng.integers(0, 9, n).tolist()
        may_meet = np.broadcast_to(distinct, x.shape) & (lambda t: t & t.transpose(0, 2, 1))(rng.random(x.shape) < 0.95)
        arguments = x, may_meet, own_costs, range(n), sizes, max_records
        assert max_cost_path(*arguments, HUGE) == max(costs(*arguments))
    late = np.zeros((1, 3, 3), dtype=object)
    late[0, 1, 2] = late[0, 2, 1] = 10  # the first adds no gain with either; both later ones together do
    for own_costs, max_cost in (([1, 1, 1], 23), ([1, 0, 0], 21)):
        assert max_cost_path(late, distinct[None, :3, :3], own_costs, range(3), (), 3, HUGE) == max_cost


def test_numbers_are_as_large_as_the_largest_of_any_kind():
    """The joint cost of two records, the cost of one, and a single record: each may be as large as its kind allows."""
    x, may_meet = np.full((1, 3, 3), 2**100 + 2**59, dtype=object), ~np.eye(3, dtype=bool)[None]
    for sign, cost in ((1, 3 + 6 * (2**100 + 2**59)), (-1, 1)):
        assert cost <= max_cost_path(sign * x, may_meet, [1, 1, 1], range(3), (), 3, HUGE) <= cost + 9 * 2**63
    assert max_cost_path(np.zeros((1, 1, 1), dtype=object), ~may_meet[:, :1, :1], [7], [0], (), 1, HUGE) == 7
    max_number = 2**DIGITS - 1
    large, distinct = np.full((1, 128, 128), max_number, dtype=object), ~np.eye(128, dtype=bool)[None]
    assert (
        max_cost_path(large, distinct, [max_number - 1] + [max_number] * 127, range(128), (), 128, HUGE)
        == 128 * 128 * max_number - 1
    )


@pytest.mark.parametrize("bits", [DIGITS, DIGITS + 1, 200])
def test_in_fewer_digits_no_path_costs_more_and_one_almost_as_much(bits):
    for seed in range(20):
        arguments = random_form(seed, bits)
        largest, bound = max(costs(*arguments)), max_cost_path(*arguments, HUGE)
        assert largest <= bound <= largest + len(arguments[2]) ** 2 * 2 ** (bits - DIGITS + 2)


def test_records_that_may_not_meet_are_in_no_path():
    """For any number of records and any gains: nothing wraps around."""
    n = 40
    x, nothing = np.full((1, n, n), 2**DIGITS - 1, dtype=object), np.zeros((1, n, n), dtype=bool)
    assert max_cost_path(x, nothing, [3] * n, range(n), (), n, HUGE) == 3
    may_meet = nothing.copy()
    may_meet[0, :2, :2] = [[False, True], [True, False]]
    assert max_cost_path(x, may_meet, [3] * n, range(n), (), n, HUGE) == 6 + 2 * (2**DIGITS - 1)


def test_of_three_records_in_two_regions_two_agree():
    """Pairs cost 2 more where they differ; all three pairs cannot. In three regions they can."""
    x, may_meet = np.array([[[1] * 3] * 3, [[-1] * 3] * 3], dtype=object), np.ones((2, 3, 3), dtype=bool)
    may_meet &= ~np.eye(3, dtype=bool)
    assert max_cost_path(x, may_meet, [5] * 3, range(3), (2,), 3, HUGE) == 15 + 2 * (1 + 1 - 1)
    assert max_cost_path(x, may_meet, [5] * 3, range(3), (3,), 3, HUGE) == 15 + 2 * 3


def swinging(n):
    """Return records with many ways near the costliest: neither equal nor different values are best throughout."""
    products = np.array([[((i * j) % 5) - 2 for j in range(n)] for i in range(n)], dtype=object)
    may_meet = np.broadcast_to(~np.eye(n, dtype=bool), (2, n, n))
    return np.stack([products, -products]), may_meet, [6] * n, range(n), (2,), n


def test_of_too_many_ways_none_is_found(monkeypatch):
    arguments = swinging(6)
    largest = max_cost_path(*arguments, HUGE)
    assert largest == max(costs(*arguments))
    for limit in ("MAX_PATHS", "MAX_NUMBERS_HELD", "MAX_PATH_PLACES"):
        with monkeypatch.context() as patched:
            patched.setattr(moving_records, limit, 5)
            assert max_cost_path(*arguments, HUGE) is None
    with monkeypatch.context() as patched:
        patched.setattr(moving_records, "MAX_NUMBERS_HELD", 6 * 6 * 2)  # room for the form, and for six ways at once
        patched.setattr(moving_records, "_climbed", lambda *_: 1)
        assert max_cost_path(*arguments, HUGE) is None


def test_as_many_ways_are_built_up_as_may_be(monkeypatch):
    """Two records gain nothing from each other: each alone, and the first with the other."""
    one = np.zeros((1, 2, 2), dtype=object), ~np.eye(2, dtype=bool)[None], [1, 1], range(2), (), 2
    monkeypatch.setattr(moving_records, "_climbed", lambda *_: 1)
    monkeypatch.setattr(moving_records, "MAX_PATHS", 3)
    monkeypatch.setattr(moving_records, "MAX_NUMBERS_HELD", 4)
    monkeypatch.setattr(moving_records, "MAX_PATH_PLACES", 2)
    assert max_cost_path(*one, HUGE) == 2
    for limit, smallest in (("MAX_PATHS", 3), ("MAX_NUMBERS_HELD", 4), ("MAX_PATH_PLACES", 2)):
        with monkeypatch.context() as patched:
            patched.setattr(moving_records, limit, smallest - 1)
            assert max_cost_path(*one, HUGE) is None


@pytest.mark.parametrize("scale", [0, 20, 60])
def test_where_hardly_anything_is_gained_none_is_looked_for(monkeypatch, scale):
    """This holds at any size, in the digits with which ways are built up."""
    x, may_meet, own_costs, *rest = swinging(6)
    arguments = x * 2**scale, may_meet, [v * 2**scale for v in own_costs], *rest
    largest, bits = max_cost_path(*arguments, HUGE), max((6 * 2**scale).bit_length() - DIGITS, 0)
    assert largest % 2**scale == 0
    monkeypatch.setattr(moving_records, "_climbed", lambda *_: largest >> bits)
    assert max_cost_path(*arguments, largest + (largest >> moving_records.MIN_GAIN_BITS)) is None
    assert max_cost_path(*arguments, largest + (largest >> moving_records.MIN_GAIN_BITS) + 2**bits) == largest


def test_each_path_is_built_once_and_none_with_records_that_may_not_meet(monkeypatch):
    """Three records that gain nothing have three, three pairs, and all; without one pair, three and two."""
    monkeypatch.setattr(moving_records, "_climbed", lambda *_: 1)
    x, may_meet = np.zeros((1, 3, 3), dtype=object), ~np.eye(3, dtype=bool)[None]
    fewer = may_meet.copy()
    fewer[0, 0, 1] = fewer[0, 1, 0] = False
    for allowed, count, max_cost in ((may_meet, 7, 3), (fewer, 5, 2)):
        monkeypatch.setattr(moving_records, "MAX_PATHS", count)
        assert max_cost_path(x, allowed, [1, 1, 1], range(3), (), 3, HUGE) == max_cost
        monkeypatch.setattr(moving_records, "MAX_PATHS", count - 1)
        assert max_cost_path(x, allowed, [1, 1, 1], range(3), (), 3, HUGE) is None
    x, may_meet = np.zeros((2, 3, 3), dtype=object), np.broadcast_to(may_meet, (2, 3, 3))
    for count, max_cost in ((14, 3), (13, None)):  # of each that moves: in the first place, there again, or elsewhere
        monkeypatch.setattr(moving_records, "MAX_PATHS", count)
        assert max_cost_path(x, may_meet, [1, 1, 1], range(3), (3,), 3, HUGE) == max_cost


def test_as_many_numbers_are_held_as_may_be(monkeypatch):
    """Those of the form, where nothing is gained and no way built up; or those of all ways of a length; and no more."""
    x, *rest = swinging(6)
    for known_cost, form_products, cost, max_numbers in ((36, np.zeros_like(x), 36, 6 * 6 * 2), (1, x, 66, 25 * 6 * 2)):
        monkeypatch.setattr(moving_records, "_climbed", lambda *_, known_cost=known_cost: known_cost)
        for at_once in (moving_records.NUMBERS_PER_BATCH, 1):
            monkeypatch.setattr(moving_records, "NUMBERS_PER_BATCH", at_once)
            monkeypatch.setattr(moving_records, "MAX_NUMBERS_HELD", max_numbers)
            assert max_cost_path(form_products, *rest, HUGE) == cost
            monkeypatch.setattr(moving_records, "MAX_NUMBERS_HELD", max_numbers - 1)
            assert max_cost_path(form_products, *rest, HUGE) is None


def test_the_way_that_is_known_is_one(monkeypatch):
    """The first known way costs no more than the costliest, so the search gives up no way that costs more than it."""
    for seed in range(60):
        arguments = random_form(seed, 20)
        with monkeypatch.context() as patched:
            found_costs = []
            climbed = moving_records._climbed
            patched.setattr(
                moving_records,
                "_climbed",
                lambda *x, found_costs=found_costs, climbed=climbed: found_costs.append(climbed(*x)) or 0,
            )
            assert max(arguments[2]) <= found_costs[0] if max_cost_path(*arguments, HUGE) is None else True
            assert max(arguments[2]) <= found_costs[0] <= max(costs(*arguments))


# --- in designs -----------------------------------------------------------------------------------------------------


def moving():
    """Months by kind, running totals, and of two regions sums that cost much where many months differ."""
    totals = np.tril(np.ones((4, 4), dtype=int))
    months = np.kron(np.eye(4, dtype=int), np.ones((1, 2), dtype=int))
    kinds = np.kron(np.eye(4, dtype=int), np.array([[1, -1]]))
    return of_sectors(
        cells_over((2,), 4, 2),
        (months.tolist(), {(0,): ((4 * np.eye(4, dtype=int) - 1).tolist(), 1)}),
        (np.vstack([totals @ months, kinds]).tolist(), {(): (np.eye(8, dtype=int).tolist(), 1)}),
    )


@pytest.mark.parametrize("fixed", [[], ["a0"], ["o1"], ["a0", "o1"]])
@pytest.mark.parametrize("max_records", [2, 3, 4])
def test_a_unit_that_may_move_is_charged_the_cost_of_the_costliest_path(max_records, fixed):
    """Exactly: all records that a person may have, looked through one by one."""
    design = moving()
    x, cells = form(design)
    unit = fn.PrivacyUnit("person", max_records, once_per=["o0"], fixed=fixed)
    adjacency = Adjacency(unit, grid=domain_of(design))
    by_month = [[i for i, c in enumerate(cells) if c["o0"] == month] for month in sorted({c["o0"] for c in cells})]
    worst = 0
    for months in (v for m in range(1, max_records + 1) for v in itertools.combinations(range(4), m)):
        for v in itertools.product(*(by_month[month] for month in months)):
            if all(len({cells[i][a] for i in v}) == 1 for a in fixed):
                worst = max(worst, x[np.ix_(v, v)].sum())
    assert unit_cost(design, adjacency) == worst


def test_the_costliest_pairs_cost_more_than_any_path(monkeypatch):
    design = moving()
    adjacency = Adjacency(fn.PrivacyUnit("person", 4, once_per=["o0"]), grid=domain_of(design))
    exact = unit_cost(design, adjacency)
    monkeypatch.setattr(witnesses, "max_cost_path", lambda *_: None)
    assert exact < unit_cost(design, adjacency)


def test_two_records_a_month_are_bounded_by_pairs():
    """Each has a place of its own; all sets that a person may have cost no more."""
    design = moving()
    x, cells = form(design)
    unit = fn.PrivacyUnit("person", 2, per_value={"o0": 2})
    worst = max(x[np.ix_(v, v)].sum() for v in admissible(cells, unit.pattern, 2))
    assert worst <= unit_cost(design, Adjacency(unit, grid=domain_of(design)))


def test_running_totals_by_region_cost_those_who_move_what_they_cost_who_stay():
    """T²/c: for separate months one region attains it, and no way between regions costs more."""
    domain = fn.Domain(month=fn.Ordered(1, 6), region=fn.Categorical([*"ab"]))
    workload = fn.Workload(domain, [fn.table("region", cumulative="month", std_error=1)])
    plan = fn.plan(workload, unit=fn.PrivacyUnit("person", 6, once_per=["month"]))
    assert float(plan.table_part.exact_cost) == pytest.approx(36, rel=1e-4)
    assert plan.gap < 2e-4
    assert math.isclose(plan.bound, 36, rel_tol=1e-4)
