"""The costliest set of places of which any two go together, against all possible sets."""

import itertools

import numpy as np
import pytest

import fitnoise as fn
from designs import cells_over, domain_of, of_sectors, unit_cost
from fitnoise.kernel.units import Adjacency
from fitnoise.solving import record_sets, witnesses
from fitnoise.solving.record_sets import DIGIT, max_cost_set, sets_of
from test_patterns import admissible, form


def object_array(rows):
    return np.array(rows, dtype=object)


def cliques(compatible, max_records):
    """Yield all sets of compatible places, by their definition."""
    n = len(compatible)
    for m in range(1, min(max_records, n) + 1):
        for chosen in itertools.combinations(range(n), m):
            if all(compatible[i, j] for i, j in itertools.combinations(chosen, 2)):
                yield chosen


def random_case(seed, bits):
    """Return a symmetric matrix of integers with n bits and either sign, the compatible places, and a number."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(1, 8))
    x, compatible = np.zeros((n, n), dtype=object), np.zeros((n, n), dtype=bool)
    for i, j in itertools.combinations_with_replacement(range(n), 2):
        x[i, j] = x[j, i] = int.from_bytes(draw.bytes(32)) % 2 ** (bits + 1) - 2**bits
        compatible[i, j] = compatible[j, i] = draw.random() < 0.8
    return x, compatible, int(draw.choice([1, 2, 3, n, 99]))


@pytest.mark.parametrize("bits", [1, 7, DIGIT - 1, DIGIT, DIGIT + 1, 2 * DIGIT, 200])
def test_no_set_costs_more_and_one_costs_as_much(bits):
    for seed in range(40):
        x, compatible, max_records = random_case(seed, bits)
        all_sets = list(cliques(compatible, max_records))
        largest = max(x[np.ix_(v, v)].sum() for v in all_sets)
        assert max_cost_set(x, compatible, max_records) == largest
        assert max_cost_set(x, compatible, max_records, len(all_sets)) == largest
        assert [tuple(v) for _, level in sets_of(compatible, max_records) for v in level.tolist()] == all_sets
        assert sets_of(compatible, max_records, len(all_sets) - 1) is None


@pytest.mark.parametrize("n", [1, 3, 6])
def test_integers_of_any_size_add_up(n):
    """All as large as they can be, of one sign or of both, so that every digit carries."""
    for x in (2**DIGIT - 1, 2**DIGIT, 2**63, 2**200 - 1):
        equal, mixed = np.full((n, n), x, dtype=object), np.full((n, n), -x, dtype=object)
        np.fill_diagonal(mixed, x)
        compatible = ~np.eye(n, dtype=bool)
        assert max_cost_set(equal, compatible, n - 1 or 1) == x * max(n - 1, 1) ** 2
        assert max_cost_set(mixed, compatible, n) == x
        assert max_cost_set(-equal, compatible, n) == -x  # no statement about the empty set


def test_compatible_places_without_negative_products_need_no_search():
    x = object_array([[2, 1, 0], [1, 3, 5], [0, 5, 7]])
    all_pairs, two_pairs = np.ones((3, 3), dtype=bool), np.ones((3, 3), dtype=bool)
    two_pairs[0, 2] = two_pairs[2, 0] = False
    assert max_cost_set(x, all_pairs, 3, 0) == x.sum() == 24
    assert max_cost_set(x, ~np.eye(3, dtype=bool), 99, 0) == 24
    assert max_cost_set(x, all_pairs, 2, 0) is None
    assert max_cost_set(x, two_pairs, 3, 0) is None
    assert max_cost_set(x - 1, all_pairs, 3, 0) is None
    assert max_cost_set(x, all_pairs, 2) == max_cost_set(x, two_pairs, 3) == 20


def test_above_the_limit_of_places_no_cost_is_returned(monkeypatch):
    all_pairs = np.ones((4, 4), dtype=bool)
    monkeypatch.setattr(record_sets, "MAX_PLACES", 3)
    assert sets_of(all_pairs, 1) is None
    assert max_cost_set(-np.eye(4, dtype=int).astype(object), all_pairs, 1) is None
    assert [len(level) for _, level in sets_of(all_pairs[:3, :3], 9)] == [3, 3, 1]


def test_incompatible_places():
    assert max_cost_set(object_array([[1, 9], [9, 2]]), np.zeros((2, 2), dtype=bool), 2) == 2
    assert max_cost_set(object_array([[0]]), np.zeros((1, 1), dtype=bool), 1) == 0


# --- in designs -----------------------------------------------------------------------------------------------------


MIXED = [[5, 0, 0, 0], [-3, 4, 0, 0], [1, -2, 6, 0], [2, 2, -1, 3]]
LINE = of_sectors(cells_over((), 4), (np.eye(4, dtype=int).tolist(), {(): (MIXED, 3)}))
REGIONS = of_sectors(
    cells_over((3,), 3),
    (np.eye(3, dtype=int).tolist(), {(): ([[2, 0, 0], [-1, 3, 0], [1, 1, -2]], 2)}),
    ([[1, 1, 1], [0, 1, -1]], {(0,): ([[1, 0], [-2, 1]], 5)}),
)
TWO = of_sectors(cells_over((), 3, 2), (np.eye(6, dtype=int).tolist(), {(): (np.tri(6, dtype=int).tolist(), 4)}))
EXACT = [
    (LINE, {"once_per": ["o"]}),
    (LINE, {"separation": {"o": 2}}),
    (LINE, {"separation": {"o": 2}, "once_per": ["o"]}),
    (LINE, {"per_value": {"o": 2}}),
    (REGIONS, {"once_per": ["o"], "fixed": ["a0"]}),
    (REGIONS, {"separation": {"o": 2}, "fixed": ["a0"]}),
    (TWO, {"once_per": ["o0"], "fixed": ["o1"]}),
    (TWO, {"once_per": ["o0", "o1"]}),
    (TWO, {"separation": {"o0": 2}, "fixed": ["o1"]}),
]


@pytest.mark.parametrize(("design", "pattern"), EXACT, ids=lambda x: str(x) if isinstance(x, dict) else "")
@pytest.mark.parametrize("max_records", [2, 3, 4, 10**12])
def test_in_an_order_the_charge_is_that_of_the_costliest_records(design, pattern, max_records):
    """Exactly: everybody's records, looked through one by one, signs and all."""
    x, cells = form(design)
    unit = fn.PrivacyUnit("person", max_records, **pattern)
    adjacency = Adjacency(unit, grid=domain_of(design))
    worst = max(x[np.ix_(v, v)].sum() for v in admissible(cells, unit.pattern, min(max_records, 6)))
    assert adjacency.records > 6 or unit_cost(design, adjacency) == worst
    assert unit_cost(design, adjacency) <= adjacency.records**2 * max(design.profile())


@pytest.mark.parametrize(("design", "pattern"), EXACT, ids=lambda x: str(x) if isinstance(x, dict) else "")
def test_of_too_many_sets_no_less_is_charged(design, pattern, monkeypatch):
    adjacency = Adjacency(fn.PrivacyUnit("person", 3, **pattern), grid=domain_of(design))
    exact = unit_cost(design, adjacency)
    monkeypatch.setattr(witnesses, "MAX_SETS", 1)
    assert exact <= unit_cost(design, adjacency) <= adjacency.records**2 * max(design.profile())


def test_a_unit_that_may_move_is_charged_for_the_costliest_pairs():
    """If records need not agree in all else, each pair has its largest possible cost: no person costs more."""
    x, cells = form(REGIONS)
    unit = fn.PrivacyUnit("person", 3, once_per=["o"])
    worst = max(x[np.ix_(v, v)].sum() for v in admissible(cells, unit.pattern, 3))
    moving = unit_cost(REGIONS, Adjacency(unit))
    staying = unit_cost(REGIONS, Adjacency(fn.PrivacyUnit("person", 3, once_per=["o"], fixed=["a0"])))
    assert staying <= worst <= moving < 9 * max(REGIONS.profile())


def test_a_year_of_running_totals_is_charged_exactly_and_a_day_of_too_many_records_as_before():
    """Separate months, each with the same noise: the totals of a year are theirs, a person in all costs 12."""
    months = of_sectors(cells_over((), 12), (np.eye(12, dtype=int).tolist(), {(): (np.eye(12, dtype=int).tolist(), 2)}))
    assert unit_cost(months, Adjacency(fn.PrivacyUnit("person", 12, once_per=["o"]))) == 3
    totals = of_sectors(cells_over((), 12), (np.eye(12, dtype=int).tolist(), {(): (np.tri(12, dtype=int).tolist(), 1)}))
    year = Adjacency(fn.PrivacyUnit("person", 12, once_per=["o"]))
    assert unit_cost(totals, year) == sum(k * k for k in range(1, 13))
    twice = Adjacency(fn.PrivacyUnit("person", 24, per_value={"o": 2}))
    assert unit_cost(totals, twice) == 4 * unit_cost(totals, year)
    many = Adjacency(fn.PrivacyUnit("person", 10**6, per_value={"o": 10**5}))
    assert unit_cost(totals, year) * 10**10 < unit_cost(totals, many) < 12 * 10**12
