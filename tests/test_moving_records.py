"""The costliest way of one unit through places, with records that may move, against all possible ways."""

import itertools
import math

import numpy as np
import pytest

import fitnoise as fn
from designs import cells_over, domain_of, of_sectors
from fitnoise.kernel.designs import moving_records, sectors
from fitnoise.kernel.designs.moving_records import DIGITS, max_cost_path
from fitnoise.kernel.units import Adjacency
from test_patterns import admissible, form

HUGE = 2**400


def drawn(seed, bits):
    """Return products of records by the attributes in which they agree, of n bits; cells by place, values, records."""
    draw = np.random.default_rng(seed)
    sizes = [(), (2,), (3,), (2, 2)][seed % 4]
    at = sorted([*range(3), *draw.integers(0, 3, size=int(draw.integers(0, 3))).tolist()])[: 6 - len(sizes)]
    n, kinds = len(at), 2 ** len(sizes)
    x, together = np.zeros((kinds, n, n), dtype=object), np.zeros((kinds, n, n), dtype=bool)
    for k, i, j in ((k, i, j) for k in range(kinds) for i, j in itertools.combinations_with_replacement(range(n), 2)):
        x[k, i, j] = x[k, j, i] = int.from_bytes(draw.bytes(32)) % 2 ** (bits + 1) - 2**bits
        together[k, i, j] = together[k, j, i] = at[i] != at[j] and draw.random() < 0.8
    own = [int.from_bytes(draw.bytes(32)) % 2**bits for _ in range(n)]
    return x, together, own, at, sizes, int(draw.choice([1, 2, 3, 99]))


def costs(x, together, own, at, sizes, most):
    """Yield the costs of all ways, by their definition."""
    records = list(itertools.product(range(len(own)), itertools.product(*map(range, sizes))))
    for m in range(1, min(most, len(own)) + 1):
        for way in itertools.combinations(records, m):
            total = sum(own[o] for o, _ in way)
            for (i, v), (j, w) in itertools.combinations(way, 2):
                same = sum((a == b) << k for k, (a, b) in enumerate(zip(v, w, strict=True)))
                if not together[same, i, j]:
                    break
                total += 2 * x[same, i, j]
            else:
                yield total


@pytest.mark.parametrize("bits", [1, 7, DIGITS - 1])
def test_no_way_is_dearer_and_one_is_as_dear(bits, monkeypatch):
    """Also where none is known before, and few are worked on at once."""
    for seed in range(60):
        given = drawn(seed, bits)
        largest = max(costs(*given))
        assert max_cost_path(*given, HUGE) == largest
        with monkeypatch.context() as patched:
            patched.setattr(moving_records, "NUMBERS_PER_BATCH", 1)
            patched.setattr(moving_records, "_climbed", lambda *_: 0)
            assert max_cost_path(*given, HUGE) == largest


@pytest.mark.parametrize("most", [3, 6])
def test_of_many_places_no_way_is_given_up_that_is_dearer(monkeypatch, rng, most):
    """No way is known before: the joint cost of later records counts, with those before and among them."""
    monkeypatch.setattr(moving_records, "_climbed", lambda *_: 0)
    n, alone = 6, ~np.eye(6, dtype=bool)
    for sizes in [(), (2,)] * 25:
        x = rng.integers(-8, 9, (2 ** len(sizes), n, n)).astype(object)
        x, own = x + x.transpose(0, 2, 1), rng.integers(0, 9, n).tolist()
        together = np.broadcast_to(alone, x.shape) & (lambda t: t & t.transpose(0, 2, 1))(rng.random(x.shape) < 0.95)
        given = x, together, own, range(n), sizes, most
        assert max_cost_path(*given, HUGE) == max(costs(*given))
    late = np.zeros((1, 3, 3), dtype=object)
    late[0, 1, 2] = late[0, 2, 1] = 10  # the first adds no gain with either; both later ones together do
    for own, dearest in (([1, 1, 1], 23), ([1, 0, 0], 21)):
        assert max_cost_path(late, alone[None, :3, :3], own, range(3), (), 3, HUGE) == dearest


def test_numbers_are_as_large_as_the_largest_of_any_kind():
    """The joint cost of two records, the cost of one, and a single record: each may be as large as its kind allows."""
    x, together = np.full((1, 3, 3), 2**100 + 2**59, dtype=object), ~np.eye(3, dtype=bool)[None]
    for sign, least in ((1, 3 + 6 * (2**100 + 2**59)), (-1, 1)):
        assert least <= max_cost_path(sign * x, together, [1, 1, 1], range(3), (), 3, HUGE) <= least + 9 * 2**63
    assert max_cost_path(np.zeros((1, 1, 1), dtype=object), ~together[:, :1, :1], [7], [0], (), 1, HUGE) == 7
    most = 2**DIGITS - 1
    large, beside = np.full((1, 128, 128), most, dtype=object), ~np.eye(128, dtype=bool)[None]
    assert max_cost_path(large, beside, [most - 1] + [most] * 127, range(128), (), 128, HUGE) == 128 * 128 * most - 1


@pytest.mark.parametrize("bits", [DIGITS, DIGITS + 1, 200])
def test_in_fewer_digits_none_is_dearer_and_one_nearly_as_dear(bits):
    for seed in range(20):
        given = drawn(seed, bits)
        largest, found = max(costs(*given)), max_cost_path(*given, HUGE)
        assert largest <= found <= largest + len(given[2]) ** 2 * 2 ** (bits - DIGITS + 2)


def test_records_that_do_not_go_together_are_in_no_way():
    """For any number of records and any gains: nothing wraps around."""
    n = 40
    x, alone = np.full((1, n, n), 2**DIGITS - 1, dtype=object), np.zeros((1, n, n), dtype=bool)
    assert max_cost_path(x, alone, [3] * n, range(n), (), n, HUGE) == 3
    together = alone.copy()
    together[0, :2, :2] = [[False, True], [True, False]]
    assert max_cost_path(x, together, [3] * n, range(n), (), n, HUGE) == 6 + 2 * (2**DIGITS - 1)


def test_of_three_records_in_two_regions_two_agree():
    """Pairs cost 2 more where they differ; all three pairs cannot. In three regions they can."""
    x, together = np.array([[[1] * 3] * 3, [[-1] * 3] * 3], dtype=object), np.ones((2, 3, 3), dtype=bool)
    together &= ~np.eye(3, dtype=bool)
    assert max_cost_path(x, together, [5] * 3, range(3), (2,), 3, HUGE) == 15 + 2 * (1 + 1 - 1)
    assert max_cost_path(x, together, [5] * 3, range(3), (3,), 3, HUGE) == 15 + 2 * 3


def swinging(n):
    """Return records with many ways near the costliest: neither equal nor different values are best throughout."""
    near = np.array([[((i * j) % 5) - 2 for j in range(n)] for i in range(n)], dtype=object)
    together = np.broadcast_to(~np.eye(n, dtype=bool), (2, n, n))
    return np.stack([near, -near]), together, [6] * n, range(n), (2,), n


def test_of_too_many_ways_none_is_found(monkeypatch):
    given = swinging(6)
    largest = max_cost_path(*given, HUGE)
    assert largest == max(costs(*given))
    for limit in ("MAX_PATHS", "MAX_NUMBERS_HELD", "MAX_PATH_PLACES"):
        with monkeypatch.context() as patched:
            patched.setattr(moving_records, limit, 5)
            assert max_cost_path(*given, HUGE) is None
    with monkeypatch.context() as patched:
        patched.setattr(moving_records, "MAX_NUMBERS_HELD", 6 * 6 * 2)  # room for the form, and for six ways at once
        patched.setattr(moving_records, "_climbed", lambda *_: 1)
        assert max_cost_path(*given, HUGE) is None


def test_as_many_ways_are_built_up_as_may_be(monkeypatch):
    """Two records gain nothing from each other: each alone, and the first with the other."""
    one = np.zeros((1, 2, 2), dtype=object), ~np.eye(2, dtype=bool)[None], [1, 1], range(2), (), 2
    monkeypatch.setattr(moving_records, "_climbed", lambda *_: 1)
    monkeypatch.setattr(moving_records, "MAX_PATHS", 3)
    monkeypatch.setattr(moving_records, "MAX_NUMBERS_HELD", 4)
    monkeypatch.setattr(moving_records, "MAX_PATH_PLACES", 2)
    assert max_cost_path(*one, HUGE) == 2
    for limit, least in (("MAX_PATHS", 3), ("MAX_NUMBERS_HELD", 4), ("MAX_PATH_PLACES", 2)):
        with monkeypatch.context() as patched:
            patched.setattr(moving_records, limit, least - 1)
            assert max_cost_path(*one, HUGE) is None


@pytest.mark.parametrize("scale", [0, 20, 60])
def test_where_hardly_anything_is_gained_none_is_looked_for(monkeypatch, scale):
    """This holds at any size, in the digits with which ways are built up."""
    x, together, own, *rest = swinging(6)
    given = x * 2**scale, together, [v * 2**scale for v in own], *rest
    largest, bits = max_cost_path(*given, HUGE), max((6 * 2**scale).bit_length() - DIGITS, 0)
    assert largest % 2**scale == 0
    monkeypatch.setattr(moving_records, "_climbed", lambda *_: largest >> bits)
    assert max_cost_path(*given, largest + (largest >> moving_records.MIN_GAIN_BITS)) is None
    assert max_cost_path(*given, largest + (largest >> moving_records.MIN_GAIN_BITS) + 2**bits) == largest


def test_each_way_is_built_up_once_and_none_of_what_does_not_go_together(monkeypatch):
    """Three records that gain nothing have three, three pairs, and all; without one pair, three and two."""
    monkeypatch.setattr(moving_records, "_climbed", lambda *_: 1)
    x, together = np.zeros((1, 3, 3), dtype=object), ~np.eye(3, dtype=bool)[None]
    apart = together.copy()
    apart[0, 0, 1] = apart[0, 1, 0] = False
    for beside, count, dearest in ((together, 7, 3), (apart, 5, 2)):
        monkeypatch.setattr(moving_records, "MAX_PATHS", count)
        assert max_cost_path(x, beside, [1, 1, 1], range(3), (), 3, HUGE) == dearest
        monkeypatch.setattr(moving_records, "MAX_PATHS", count - 1)
        assert max_cost_path(x, beside, [1, 1, 1], range(3), (), 3, HUGE) is None
    x, together = np.zeros((2, 3, 3), dtype=object), np.broadcast_to(together, (2, 3, 3))
    for count, dearest in ((14, 3), (13, None)):  # of each that moves: in the first place, there again, or elsewhere
        monkeypatch.setattr(moving_records, "MAX_PATHS", count)
        assert max_cost_path(x, together, [1, 1, 1], range(3), (3,), 3, HUGE) == dearest


def test_as_many_numbers_are_held_as_may_be(monkeypatch):
    """Those of the form, where nothing is gained and no way built up; or those of all ways of a length; and no more."""
    x, *given = swinging(6)
    for known, asked, dearest, most in ((36, np.zeros_like(x), 36, 6 * 6 * 2), (1, x, 66, 25 * 6 * 2)):
        monkeypatch.setattr(moving_records, "_climbed", lambda *_, known=known: known)
        for at_once in (moving_records.NUMBERS_PER_BATCH, 1):
            monkeypatch.setattr(moving_records, "NUMBERS_PER_BATCH", at_once)
            monkeypatch.setattr(moving_records, "MAX_NUMBERS_HELD", most)
            assert max_cost_path(asked, *given, HUGE) == dearest
            monkeypatch.setattr(moving_records, "MAX_NUMBERS_HELD", most - 1)
            assert max_cost_path(asked, *given, HUGE) is None


def test_the_way_that_is_known_is_one(monkeypatch):
    """The first known way costs no more than the costliest, so the search gives up no way that costs more than it."""
    for seed in range(60):
        given = drawn(seed, 20)
        with monkeypatch.context() as patched:
            known = []
            climbed = moving_records._climbed
            patched.setattr(
                moving_records, "_climbed", lambda *x, known=known, climbed=climbed: known.append(climbed(*x)) or 0
            )
            assert max(given[2]) <= known[0] if max_cost_path(*given, HUGE) is None else True
            assert max(given[2]) <= known[0] <= max(costs(*given))


# --- in designs -----------------------------------------------------------------------------------------------------


def moving():
    """Months by kind, running totals, and of two regions what is dear where many pairs of months differ in them."""
    totals = np.tril(np.ones((4, 4), dtype=int))
    months = np.kron(np.eye(4, dtype=int), np.ones((1, 2), dtype=int))
    kinds = np.kron(np.eye(4, dtype=int), np.array([[1, -1]]))
    return of_sectors(
        cells_over((2,), 4, 2),
        (months.tolist(), {(0,): ((4 * np.eye(4, dtype=int) - 1).tolist(), 1)}),
        (np.vstack([totals @ months, kinds]).tolist(), {(): (np.eye(8, dtype=int).tolist(), 1)}),
    )


@pytest.mark.parametrize("fixed", [[], ["a0"], ["o1"], ["a0", "o1"]])
@pytest.mark.parametrize("most", [2, 3, 4])
def test_who_may_move_is_charged_what_the_dearest_way_costs(most, fixed):
    """Exactly: all records that a person may have, looked through one by one."""
    design = moving()
    x, cells = form(design)
    unit = fn.PrivacyUnit("person", most, once_per=["o0"], fixed=fixed)
    of = Adjacency(unit, grid=domain_of(design))
    by_month = [[i for i, c in enumerate(cells) if c["o0"] == month] for month in sorted({c["o0"] for c in cells})]
    worst = 0
    for some in (v for m in range(1, most + 1) for v in itertools.combinations(range(4), m)):
        for v in itertools.product(*(by_month[month] for month in some)):
            if all(len({cells[i][a] for i in v}) == 1 for a in fixed):
                worst = max(worst, x[np.ix_(v, v)].sum())
    assert design.unit_cost(of) == worst


def test_the_dearest_pairs_cost_more_than_any_way(monkeypatch):
    design = moving()
    of = Adjacency(fn.PrivacyUnit("person", 4, once_per=["o0"]), grid=domain_of(design))
    exact = design.unit_cost(of)
    monkeypatch.setattr(sectors, "max_cost_path", lambda *_: None)
    assert exact < design.unit_cost(of)


def test_two_records_a_month_are_bounded_by_pairs():
    """Each has a place of its own; all sets that a person may have cost no more."""
    design = moving()
    x, cells = form(design)
    unit = fn.PrivacyUnit("person", 2, per_value={"o0": 2})
    worst = max(x[np.ix_(v, v)].sum() for v in admissible(cells, unit.pattern, 2))
    assert worst <= design.unit_cost(Adjacency(unit, grid=domain_of(design)))


def test_running_totals_by_region_cost_those_who_move_what_they_cost_who_stay():
    """T²/c: for separate months one region attains it, and no way between regions costs more."""
    domain = fn.Domain(month=fn.Ordered(1, 6), region=fn.Categorical([*"ab"]))
    asked = fn.Workload(domain, [fn.table("region", cumulative="month", std_error=1)])
    plan = fn.plan(asked, unit=fn.PrivacyUnit("person", 6, once_per=["month"]))
    assert float(plan.exact_cost) == pytest.approx(36, rel=1e-4)
    assert plan.gap < 2e-4
    assert math.isclose(plan.bound, 36, rel_tol=1e-4)
