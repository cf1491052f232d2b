"""The costliest set of places of which any two go together, against all possible sets."""

import itertools

import numpy as np
import pytest

import fitnoise as fn
from designs import cells_over, domain_of, of_sectors
from fitnoise.kernel.designs import record_sets, sectors
from fitnoise.kernel.designs.record_sets import DIGIT, max_cost_set, sets_of
from fitnoise.kernel.units import Adjacency
from test_patterns import admissible, form


def written(rows):
    return np.array(rows, dtype=object)


def cliques(together, most):
    """Yield all sets of compatible places, by their definition."""
    n = len(together)
    for m in range(1, min(most, n) + 1):
        for chosen in itertools.combinations(range(n), m):
            if all(together[i, j] for i, j in itertools.combinations(chosen, 2)):
                yield chosen


def drawn(seed, bits):
    """Return a symmetric matrix of integers with n bits and either sign, the compatible places, and a number."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(1, 8))
    x, together = np.zeros((n, n), dtype=object), np.zeros((n, n), dtype=bool)
    for i, j in itertools.combinations_with_replacement(range(n), 2):
        x[i, j] = x[j, i] = int.from_bytes(draw.bytes(32)) % 2 ** (bits + 1) - 2**bits
        together[i, j] = together[j, i] = draw.random() < 0.8
    return x, together, int(draw.choice([1, 2, 3, n, 99]))


@pytest.mark.parametrize("bits", [1, 7, DIGIT - 1, DIGIT, DIGIT + 1, 2 * DIGIT, 200])
def test_no_set_is_dearer_and_one_is_as_dear(bits):
    for seed in range(40):
        x, together, most = drawn(seed, bits)
        every = list(cliques(together, most))
        largest = max(x[np.ix_(v, v)].sum() for v in every)
        assert max_cost_set(x, together, most) == largest
        assert max_cost_set(x, together, most, len(every)) == largest
        assert [tuple(v) for _, level in sets_of(together, most) for v in level.tolist()] == every
        assert sets_of(together, most, len(every) - 1) is None


@pytest.mark.parametrize("n", [1, 3, 6])
def test_integers_of_any_size_add_up(n):
    """All as large as they can be, of one sign or of both, so that every digit carries."""
    for x in (2**DIGIT - 1, 2**DIGIT, 2**63, 2**200 - 1):
        whole, mixed = np.full((n, n), x, dtype=object), np.full((n, n), -x, dtype=object)
        np.fill_diagonal(mixed, x)
        together = ~np.eye(n, dtype=bool)
        assert max_cost_set(whole, together, n - 1 or 1) == x * max(n - 1, 1) ** 2
        assert max_cost_set(mixed, together, n) == x
        assert max_cost_set(-whole, together, n) == -x  # no statement about the empty set


def test_of_places_that_all_go_together_nothing_is_looked_at_where_nothing_is_below_0():
    x = written([[2, 1, 0], [1, 3, 5], [0, 5, 7]])
    every, apart = np.ones((3, 3), dtype=bool), np.ones((3, 3), dtype=bool)
    apart[0, 2] = apart[2, 0] = False
    assert max_cost_set(x, every, 3, 0) == x.sum() == 24
    assert max_cost_set(x, ~np.eye(3, dtype=bool), 99, 0) == 24
    assert max_cost_set(x, every, 2, 0) is None
    assert max_cost_set(x, apart, 3, 0) is None
    assert max_cost_set(x - 1, every, 3, 0) is None
    assert max_cost_set(x, every, 2) == max_cost_set(x, apart, 3) == 20


def test_of_too_many_places_nothing_is_said(monkeypatch):
    every = np.ones((4, 4), dtype=bool)
    monkeypatch.setattr(record_sets, "MAX_PLACES", 3)
    assert sets_of(every, 1) is None
    assert max_cost_set(-np.eye(4, dtype=int).astype(object), every, 1) is None
    assert [len(level) for _, level in sets_of(every[:3, :3], 9)] == [3, 3, 1]


def test_places_none_of_which_go_together():
    assert max_cost_set(written([[1, 9], [9, 2]]), np.zeros((2, 2), dtype=bool), 2) == 2
    assert max_cost_set(written([[0]]), np.zeros((1, 1), dtype=bool), 1) == 0


# --- in designs -----------------------------------------------------------------------------------------------------


MIXED = [[5, 0, 0, 0], [-3, 4, 0, 0], [1, -2, 6, 0], [2, 2, -1, 3]]
ALONG = of_sectors(cells_over((), 4), (np.eye(4, dtype=int).tolist(), {(): (MIXED, 3)}))
REGIONS = of_sectors(
    cells_over((3,), 3),
    (np.eye(3, dtype=int).tolist(), {(): ([[2, 0, 0], [-1, 3, 0], [1, 1, -2]], 2)}),
    ([[1, 1, 1], [0, 1, -1]], {(0,): ([[1, 0], [-2, 1]], 5)}),
)
TWO = of_sectors(cells_over((), 3, 2), (np.eye(6, dtype=int).tolist(), {(): (np.tri(6, dtype=int).tolist(), 4)}))
EXACT = [
    (ALONG, {"once_per": ["o"]}),
    (ALONG, {"separation": {"o": 2}}),
    (ALONG, {"separation": {"o": 2}, "once_per": ["o"]}),
    (ALONG, {"per_value": {"o": 2}}),
    (REGIONS, {"once_per": ["o"], "fixed": ["a0"]}),
    (REGIONS, {"separation": {"o": 2}, "fixed": ["a0"]}),
    (TWO, {"once_per": ["o0"], "fixed": ["o1"]}),
    (TWO, {"once_per": ["o0", "o1"]}),
    (TWO, {"separation": {"o0": 2}, "fixed": ["o1"]}),
]


@pytest.mark.parametrize(("design", "pattern"), EXACT, ids=lambda x: str(x) if isinstance(x, dict) else "")
@pytest.mark.parametrize("most", [2, 3, 4, 10**12])
def test_along_an_order_the_charge_is_that_of_the_dearest_records(design, pattern, most):
    """Exactly: everybody's records, looked through one by one, signs and all."""
    x, cells = form(design)
    unit = fn.PrivacyUnit("person", most, **pattern)
    of = Adjacency(unit, grid=domain_of(design))
    worst = max(x[np.ix_(v, v)].sum() for v in admissible(cells, unit.pattern, min(most, 6)))
    assert of.records > 6 or design.unit_cost(of) == worst
    assert design.unit_cost(of) <= of.records**2 * max(design.profile())


@pytest.mark.parametrize(("design", "pattern"), EXACT, ids=lambda x: str(x) if isinstance(x, dict) else "")
def test_of_too_many_sets_no_less_is_charged(design, pattern, monkeypatch):
    of = Adjacency(fn.PrivacyUnit("person", 3, **pattern), grid=domain_of(design))
    exact = design.unit_cost(of)
    monkeypatch.setattr(sectors, "MAX_SETS", 1)
    assert exact <= design.unit_cost(of) <= of.records**2 * max(design.profile())


def test_who_may_move_pays_for_the_dearest_pairs():
    """If records need not agree in all else, each pair has its largest possible cost: no less than any person pays."""
    x, cells = form(REGIONS)
    unit = fn.PrivacyUnit("person", 3, once_per=["o"])
    worst = max(x[np.ix_(v, v)].sum() for v in admissible(cells, unit.pattern, 3))
    moving = REGIONS.unit_cost(Adjacency(unit))
    staying = REGIONS.unit_cost(Adjacency(fn.PrivacyUnit("person", 3, once_per=["o"], fixed=["a0"])))
    assert staying <= worst <= moving < 9 * max(REGIONS.profile())


def test_a_year_of_running_totals_is_charged_exactly_and_a_day_of_too_many_records_as_before():
    """Separate months, each with the same noise: the totals of a year are theirs, and a person in all pays for 12."""
    months = of_sectors(cells_over((), 12), (np.eye(12, dtype=int).tolist(), {(): (np.eye(12, dtype=int).tolist(), 2)}))
    assert months.unit_cost(Adjacency(fn.PrivacyUnit("person", 12, once_per=["o"]))) == 3
    totals = of_sectors(cells_over((), 12), (np.eye(12, dtype=int).tolist(), {(): (np.tri(12, dtype=int).tolist(), 1)}))
    year = Adjacency(fn.PrivacyUnit("person", 12, once_per=["o"]))
    assert totals.unit_cost(year) == sum(k * k for k in range(1, 13))
    twice = Adjacency(fn.PrivacyUnit("person", 24, per_value={"o": 2}))
    assert totals.unit_cost(twice) == 4 * totals.unit_cost(year)
    many = Adjacency(fn.PrivacyUnit("person", 10**6, per_value={"o": 10**5}))
    assert totals.unit_cost(year) * 10**10 < totals.unit_cost(many) < 12 * 10**12
