"""Upper bounds on the cost of any set of places: never below the costliest, and near it in known cases."""

import math

import numpy as np
import pytest

import fitnoise as fn
from designs import cells_over, domain_of, of_sectors, unit_cost
from fitnoise.kernel.designs.witness import Budget
from fitnoise.kernel.units import Adjacency
from fitnoise.solving import relaxations, witnesses
from fitnoise.solving.record_sets import max_cost_set
from fitnoise.solving.relaxations import BITS
from test_sets import object_array, random_case
from test_witness import places_problem

ALL = np.ones((120, 120), dtype=bool)


def at_most(x, compatible, max_records):
    """Return the smallest bound that is results; None without one. Each bound is proven by its own witness."""
    results = relaxations.bounds(x, compatible, max_records)
    problem = places_problem(x, compatible & ~np.eye(len(x), dtype=bool), max_records)
    assert all(witness.proves(problem, bound, Budget()) for bound, witness in results if bound >= 0)
    return results[0][0] if results else None


def bounds(x, max_records):
    """Return the bounds by blocks and Shor's bound, for integers with a bounded number of bits."""
    return [*by_blocks(x, max_records), relaxed(x, max_records)]


def by_blocks(x, max_records):
    return [bound for bound, _ in relaxations._by_blocks(x, max_records)]


def relaxed(x, max_records):
    return relaxations._relaxed(x, max_records)[0]


@pytest.mark.no_cover
@pytest.mark.parametrize("bits", [1, 20, BITS - 1, BITS, BITS + 1, 200])
def test_no_set_costs_more(bits):
    for seed in range(25):
        x, compatible, max_records = random_case(seed, bits)
        exact = max_cost_set(x, compatible, max_records)
        assert exact <= at_most(x, compatible, max_records)


def test_each_bound_holds_on_its_own_whatever_is_believed_of_floating_point(monkeypatch):
    for seed in range(12):
        x, _, max_records = random_case(seed, BITS)
        n = len(x)
        exact = max_cost_set(x, ALL[:n, :n], max_records)
        assert all(bound >= exact for bound in bounds(x, min(max_records, n)))
        for wrong in (0.0, -1.0, 1e3, math.nan, math.inf):
            monkeypatch.setattr(relaxations, "_multipliers", lambda x, _, v=wrong: np.full(len(x) + 2, v))
            assert relaxed(x, min(max_records, n)) >= exact
        monkeypatch.undo()
        monkeypatch.setattr(relaxations, "_triangle", lambda a: np.full(a.shape, 1e6))
        assert relaxed(x, min(max_records, n)) >= exact
        monkeypatch.undo()


SIGNED = [[5, -2, 3, 1], [-2, 4, -1, 2], [3, -1, 6, -3], [1, 2, -3, 7]]
THREE = [[3, 1, -2], [1, 1, 0], [-2, 0, 5]]


@pytest.mark.parametrize(
    ("max_records", "expected"), [(1, [10, 8, 10]), (2, [19, 17, 19]), (3, [28, 21, 28]), (4, [34, 26, 34])]
)
def test_blocks_prove_these_numbers(max_records, expected):
    """The bounds of every length, with rounded means γ and β. Other bounds, and so other prices, fail here."""
    assert by_blocks(object_array(SIGNED), max_records) == expected
    assert by_blocks(object_array([[-max_records]]), 1) == [-max_records]


@pytest.mark.parametrize(
    ("x", "max_records", "expected"),
    [
        (SIGNED, 1, 9.446106790633408),
        (SIGNED, 3, 21.147339509346832),
        ([[4, -2], [-2, 5]], 2, 5.333338419647387),
        (THREE, 2, 6.568974427523761),
        (THREE, 3, 7.1692551424742454),
    ],
)
def test_the_relaxation_proves_these_numbers(x, max_records, expected):
    """Near which everybody ends who goes the same way: detects other steps, and ways that end elsewhere."""
    assert relaxed(object_array(x) * 2 ** (BITS - 3), max_records) / 2 ** (BITS - 3) == pytest.approx(
        expected, rel=1e-12
    )


def test_signed_entries_are_bounded_close_to_the_costliest_set():
    """Bounds by rows, which leave out values below 0, are far above: increments of a walk, of up to 16 places."""
    for seed in range(6):
        draw = np.random.default_rng(seed)
        n = int(draw.integers(4, 17))
        rows = np.rint(draw.normal(size=(n, n)) * 2**30).astype(np.int64).astype(object)
        x = rows.T @ rows
        exact, bound = max_cost_set(x, ALL[:n, :n], n), at_most(x, ALL[:n, :n], n)
        assert exact <= bound <= 1.1 * exact


def test_separate_periods_behind_running_totals_are_bounded_exactly():
    """X with X1 ∝ 1 and 2 diag(X1) − X positive semidefinite: all places cost most, and Shor's bound shows it."""
    n = 30
    away = np.linalg.qr(np.column_stack([np.ones(n), np.random.default_rng(1).normal(size=(n, n - 1))]))[0]
    values = np.append(1.0, np.linspace(0.2, 1.8, n - 1))
    x = np.rint(away * values @ away.T * 2.0**60).astype(np.int64).astype(object)
    x = np.triu(x) + np.triu(x, 1).T
    assert x.sum() <= at_most(x, ALL[:n, :n], n) <= 1.0001 * x.sum()
    assert at_most(x, ALL[:n, :n], n) < 0.8 * np.maximum(x, 0).sum()


@pytest.mark.no_cover
@pytest.mark.parametrize(("years", "months"), [(3, 4), (4, 3), (1, 12), (12, 1)])
@pytest.mark.parametrize("max_records", [1, 5, 12])
def test_where_blocks_are_equal_the_bound_is_attained(years, months, max_records):
    """Months of years, all equal, and years: signs of either kind, of sets of any size."""
    for single, inside, across in ((90, 20, -7), (90, -8, 3), (50, 30, 11), (80, -9, -9)):
        year_of = np.arange(12) // months
        x = np.where(year_of[:, None] == year_of, inside, across) + np.diag([single] * 12)
        exact = max_cost_set(x.astype(object), ALL[:12, :12], max_records)
        assert at_most(x.astype(object), ALL[:12, :12], max_records) == exact


def test_without_places_or_with_too_many(monkeypatch):
    assert at_most(object_array([[0]]), ALL[:1, :1], 1) == 0
    assert at_most(object_array([[5]]), ALL[:1, :1], 9) == 5
    monkeypatch.setattr(relaxations, "MAX_PLACES", 2)
    assert at_most(object_array(np.eye(2, dtype=int).tolist()), ALL[:2, :2], 2) == 2
    assert at_most(object_array(np.eye(3, dtype=int).tolist()), ALL[:3, :3], 2) is None


def test_incompatible_places_gain_nothing_from_each_other():
    x = object_array([[4, 99, 1], [99, 5, 1], [1, 1, 3]])
    compatible = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)
    assert max_cost_set(x, compatible, 3) == 10 <= at_most(x, compatible, 3) <= 14


def fading(n):
    """Return places with costs that rise with their nearness, so that the costliest follow each other."""
    return object_array([[round(2.0**70 * 0.9 ** abs(i - j)) for j in range(n)] for i in range(n)])


def test_a_part_of_many_places_costs_what_its_costliest_set_does():
    """12 of 36, of which there are 10⁹ sets: the 12 that follow each other, of which rows are far above."""
    x = fading(36)
    exact = int(x[:12, :12].sum())
    rows = sum(sorted((int(np.sort(row)[::-1][:12].sum()) for row in x), reverse=True)[:12])
    assert exact <= at_most(x, ALL[:36, :36], 12) <= exact * (1 + 2**-30) < rows / 1.05


def test_built_up_sets_are_the_costliest_or_none(monkeypatch):
    for seed in range(40):
        x, _, max_records = random_case(seed, relaxations.DIGITS - 1)
        n = len(x)
        few, g = x.astype(np.int64), min(max_records, n)
        known_cost = relaxations._climbed(few, g)
        exact = max_cost_set(x, ALL[:n, :n], g)
        assert known_cost <= exact == relaxations._branched(few, g, known_cost)
        assert relaxations._branched(few, g, int(x.diagonal().max())) == exact
    x = fading(9)
    max_cost = at_most(x, ALL[:9, :9], 3)
    for limit in ("BRANCHES", "MAX_NUMBERS_HELD", "MAX_BRANCHED_PLACES"):
        monkeypatch.setattr(relaxations, limit, 8)
        assert at_most(x, ALL[:9, :9], 3) > max_cost
        monkeypatch.undo()
    monkeypatch.setattr(relaxations, "MAX_BRANCHED_PLACES", 9)
    assert at_most(x, ALL[:9, :9], 3) == max_cost
    monkeypatch.setattr(relaxations, "_branched", lambda *_: pytest.fail("others were looked for"))
    assert at_most(object_array([[4, 0], [0, 4]]), ALL[:2, :2], 2) == 8  # as a set costs what the bounds are


def test_places_without_gain_are_left_out_of_possible_gains():
    """Detects sums of gains below 0, which would give up the costliest set, {0, 1}."""
    x = np.full((5, 5), -100)
    x[0, 1] = x[1, 0] = -1
    np.fill_diagonal(x, [10, 9, 1, 1, 1])
    assert [relaxations._branched(x, max_records, 10) for max_records in (1, 2, 5)] == [10, 17, 17]
    assert [relaxations._climbed(np.array([[1, -9], [-9, 5]]), max_records) for max_records in (1, 2)] == [5, 5]
    assert relaxations._branched(np.diag([-2, -1, -3]) - 500, 3, -600) == -501


def test_what_later_places_gain_of_each_other_counts():
    """The costliest set, {0, 1, 2}, costs as much as the bound of its first place: detects any bound that is less."""
    assert relaxations._branched(np.array([[1, 1, 1], [1, 1, 5], [1, 5, 1]]), 3, 16) == 17


def test_no_more_sets_are_examined_than_may_cost_more(monkeypatch):
    """Detects bounds that are right and not as near: of 7 places, and of 62 sets of up to three of them, 7."""
    x = np.array([[(3 * i * j + 2 * (i + j) + 1) % 7 - 3 for j in range(7)] for i in range(7)])
    monkeypatch.setattr(relaxations, "BRANCHES", 7)
    assert relaxations._branched(x, 3, 10) == 10 == max_cost_set(x.astype(object), ALL[:7, :7], 3)
    monkeypatch.setattr(relaxations, "BRANCHES", 6)
    assert relaxations._branched(x, 3, 10) is None


def test_sums_of_sets_are_integers():
    """Doubles would round these sums, and the search would give up the costliest set."""
    assert relaxations._branched(np.diag([2**60, 2**60 + 1]), 2, 2**61) == 2**61 + 1
    assert relaxations._branched(np.diag([2**60 + 1]), 1, 2**60) == 2**60 + 1


def test_sets_are_built_up_of_64_bits(monkeypatch):
    kinds = []
    monkeypatch.setattr(relaxations, "_climbed", lambda x, _: kinds.append(x.dtype) or 2**79)
    at_most(object_array([[1]]), ALL[:1, :1], 1)
    assert kinds == [np.int64]


def test_squares_of_large_entries_are_exact():
    root = np.array([[2**60 - 1, 0], [3 - 2**59, 2**60 - 7]])
    exact = root.astype(object)
    assert (relaxations._square(root) == exact @ exact.T).all()


def test_where_there_is_no_root_its_columns_are_0():
    with np.errstate(all="raise"):
        for corner in (0.0, -1.0):
            assert relaxations._triangle(np.array([[corner, 0], [0, 4]])).tolist() == [[0, 0], [0, 2]]


@pytest.mark.parametrize(("max_records", "known_cost", "sets", "numbers"), [(1, 1, 2, 4), (2, 1, 3, 4), (2, 2, 2, 4)])
def test_as_many_sets_are_built_up_as_may_be(monkeypatch, max_records, known_cost, sets, numbers):
    """The search builds each of two places, and with the other those sets that may cost more than the known one."""
    two = np.eye(2, dtype=int)
    monkeypatch.setattr(relaxations, "BRANCHES", sets)
    monkeypatch.setattr(relaxations, "MAX_NUMBERS_HELD", numbers)
    assert relaxations._branched(two, max_records, known_cost) == max_records
    monkeypatch.setattr(relaxations, "MAX_NUMBERS_HELD", numbers - 1)
    assert relaxations._branched(two, max_records, known_cost) is None
    monkeypatch.undo()
    monkeypatch.setattr(relaxations, "BRANCHES", sets - 1)
    assert relaxations._branched(two, max_records, known_cost) is None


def test_the_smallest_proven_bound_is_charged(monkeypatch):
    """Also if the costliest of entries in fewer digits, rounded up, is above."""
    monkeypatch.setattr(relaxations, "_climbed", lambda *_: 1)
    assert at_most(object_array([[2**BITS - 1]]), ALL[:1, :1], 1) == 2**BITS - 1


def test_sets_are_built_up_where_the_bounds_are_far_enough_above_a_known_one(monkeypatch):
    monkeypatch.setattr(relaxations, "_branched", lambda *_: 2**38)
    for worth, expected in ((2**39 // 4097, 1), (2**39 // 4097 + 1, 0)):  # a part of 2¹² on top makes 2³⁹, or less
        monkeypatch.setattr(relaxations, "_climbed", lambda *_, known_cost=2**39 - worth: known_cost)
        assert relaxations.bounds(object_array([[1]]), ALL[:1, :1], 1)[0][0] == expected


def test_fewer_places_than_may_be_cost_what_they_cost(monkeypatch):
    """With ℓ = −2 and these y, N = LLᵀ: 0 would bound both places, and not the first alone, which costs 4."""
    monkeypatch.setattr(relaxations, "_multipliers", lambda *_: np.array([2.0, 3.0, -1.0, -4.0]) / 8)
    assert relaxed(object_array([[4, 0], [0, -4]]) * 2 ** (BITS - 3), 2) >= 4 * 2 ** (BITS - 3)


def test_a_way_that_is_not_finished_proves_what_it_proves(monkeypatch):
    monkeypatch.setattr(relaxations, "MAX_BRANCHED_PLACES", 0)
    x = object_array([[4, -2], [-2, 5]])
    monkeypatch.setattr(relaxations, "_by_blocks", lambda *_: [(2**90, (1, 0, (0, 0)))])
    assert 5 <= at_most(x, ALL[:2, :2], 2) <= 6
    monkeypatch.setattr(relaxations, "STEPS", 3)
    short = at_most(x, ALL[:2, :2], 2)
    assert short > 5
    monkeypatch.setattr(relaxations, "STEP_FACTORS", (0.0,))
    begun = at_most(x, ALL[:2, :2], 2)
    assert begun > short
    monkeypatch.setattr(relaxations, "STEP_FACTORS", ())  # no part of a step stays inside
    assert at_most(x, ALL[:2, :2], 2) == begun


# --- in designs -----------------------------------------------------------------------------------------------------


def months(rows):
    return of_sectors(cells_over((), len(rows)), (np.eye(len(rows), dtype=int).tolist(), {(): (rows, 1)}))


def test_a_series_of_more_periods_than_can_be_looked_at_is_charged_near_what_it_costs():
    """Months at less noise than years: contrasts of years below 0, which rows would leave out."""
    years = np.kron(np.eye(2, dtype=int), np.ones((1, 12), dtype=int))
    changes = np.eye(24, dtype=int) - np.roll(np.eye(24, dtype=int), 1, axis=1)
    design = months((3 * changes + np.vstack([years, 0 * changes[2:]])).tolist())
    unit = fn.PrivacyUnit("person", 24, once_per=["o"])
    charged = unit_cost(design, Adjacency(unit, grid=domain_of(design)))
    rows = np.array(design.groups[0].mixing[0], dtype=object)
    x = rows.T @ rows
    halves = [x[np.ix_(v, v)].sum() for v in (range(24), range(0, 24, 2), range(12))]
    assert max(halves) <= charged <= 1.3 * max(halves) < 0.6 * np.maximum(x, 0).sum()


def test_of_too_many_places_rows_are_charged(monkeypatch):
    design = months([[3, 1, 0], [0, -2, 1], [1, 0, 2]])
    adjacency = Adjacency(fn.PrivacyUnit("person", 3, once_per=["o"]), grid=domain_of(design))
    exact = unit_cost(design, adjacency)
    monkeypatch.setattr(witnesses, "MAX_SETS", 0)
    relaxed = unit_cost(design, adjacency)
    monkeypatch.setattr(relaxations, "MAX_PLACES", 2)
    assert exact <= relaxed <= unit_cost(design, adjacency) <= 9 * max(design.profile())


def test_prices_around_63_bits_are_integers(monkeypatch):
    """Not doubles, as NumPy makes of whole numbers on both sides of 2⁶³."""
    monkeypatch.setattr(witnesses, "MAX_SETS", 0)
    design = months([[2**31, 1], [0, 2**32 - 1]])
    unit = fn.PrivacyUnit("person", 2, once_per=["o"])
    top = 2**62 + 2 * 2**31 + 1 + (2**32 - 1) ** 2
    assert unit_cost(design, Adjacency(unit, grid=domain_of(design))) == top
