"""Patterns of the records of one unit: exact prices against all possible sets of records."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import fitnoise as fn
import zoo
from dense import group_of
from designs import cells_over, domain_of, of_sectors, unit_cost, unit_profile
from fitnoise.kernel.counting import Tally
from fitnoise.kernel.designs import sectors
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.domain import Domain, JointAxis
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.measure import _count_margins, _exact_answers, _required_margins
from fitnoise.kernel.order import account
from fitnoise.kernel.units import Account, Adjacency, DataSource, Pattern, RecordBound
from fitnoise.messages import Message
from fitnoise.reading.description import bound_on_records
from fitnoise.solving import witnesses
from laws.counting import HistogramCounter
from refused import refused
from test_order import SECTORS, order
from test_persons import measured

ADD, REPLACE = fn.Neighbours
SMALL = [name for name in zoo.TABLES if name.startswith(("sectors", "the total"))]


def person(max_records, *once, neighbours=ADD, column=None, name="person"):
    return fn.PrivacyUnit(name, max_records, neighbours, column, once)


def form(design):
    """X, exact, and the cells of the design's domain by the names of their attributes."""
    domain = domain_of(design)
    answers = []
    for i in range(domain.size):
        counts = HistogramCounter(np.eye(domain.size, dtype=int)[i], domain).count(list(design.margins()))
        answers.append(
            np.concatenate([y.astype(object) for y in design.exact_answers(Tally(counts), Adjacency(), 2**62)])
        )
    rates = np.repeat([1 / Fraction(float(s)) ** 2 for s in design.scales], design.portions)
    x = np.array([[sum(rates * a * b, Fraction(0)) for b in answers] for a in answers], dtype=object)
    return x, [dict(zip(domain, cell, strict=True)) for cell in np.ndindex(*domain.shape)]


def sets_of(cells, once, max_records):
    """Yield all sets of at most `most` cells of which no two agree in these attributes."""
    for m in range(1, max_records + 1):
        for chosen in itertools.combinations(range(len(cells)), m):
            if len({tuple(cells[i][a] for a in once) for i in chosen}) == m:
                yield chosen


# --- the price ------------------------------------------------------------------------------------------------------


ONCE = [("a0",), ("a1",), ("o",), ("o0",), ("o1",), ("a0", "o"), ("a0", "a1"), ("o0", "o1")]
CASES = [
    (name, once)
    for name, once in itertools.product(SMALL, ONCE)
    if set(once) <= {a for a, _ in (*zoo.TABLES[name].structure.exchangeable, *zoo.TABLES[name].structure.structured)}
]


def largest_product(design, once):
    """The bound on the product of two records that differ in one of these attributes, as the kernel computes it."""
    (cap,) = design.caps(Adjacency(person(2, *once)))
    return design.largest_product(cap)


def largest_pair(x, cells, once):
    """The largest product of two records that differ in one of these attributes; None where no two do."""
    pairs = itertools.permutations(range(len(cells)), 2)
    return max((x[i, j] for i, j in pairs if any(cells[i][a] != cells[j][a] for a in once)), default=None)


@pytest.mark.no_cover
@pytest.mark.parametrize(("name", "once"), CASES)
def test_no_set_of_records_costs_more_than_the_mean_of_what_its_cells_are_charged(name, once):
    """And no product of two exceeds the bound; what is charged is at most g² times one record."""
    design, (x, cells) = zoo.TABLES[name], form(zoo.TABLES[name])
    structured, shape = [a for a, _ in design.structure.structured], design.structure.shape
    largest = largest_pair(x, cells, once)
    assert largest is None or largest_product(design, once) >= largest
    for max_records in (1, 2, 3, 4):
        charged = unit_profile(design, Adjacency(person(max_records, *once)))
        assert (
            unit_cost(design, Adjacency(person(max_records, *once)))
            == max(charged)
            <= max_records**2 * max(design.profile())
        )
        for chosen in sets_of(cells, once, max_records):
            v = list(chosen)
            places = [np.ravel_multi_index([cells[i][a] for a in structured], shape) if shape else 0 for i in v]
            assert x[np.ix_(v, v)].sum() * len(v) <= sum(charged[p] for p in places)


@pytest.mark.no_cover
@pytest.mark.parametrize("examined", ["by sector", "roughly"])
@pytest.mark.parametrize(("name", "once"), CASES)
def test_of_too_many_pairs_an_upper_bound_is_charged(name, once, examined, monkeypatch):
    design = zoo.TABLES[name]
    largest = largest_pair(*form(design), once)
    if largest is not None:
        few = sum(map(len, design.groups)) * design.cells**2
        monkeypatch.setattr(sectors, "MAX_PRODUCTS", few if examined == "by sector" else few - 1)
        assert largest <= largest_product(design, once)
        assert unit_cost(design, Adjacency(person(3, *once))) <= 9 * max(design.profile())


@pytest.mark.parametrize("examined", ["one by one", "by sector", "roughly"])
def test_separate_months_are_distinguished_with_any_number_of_pairs(examined, monkeypatch):
    """For a table by month alone, C is 0 except for the total, which all months share."""
    design = of_sectors(cells_over((12, 3)), ([[1]], {(): ([[1]], 12)}), ([[1]], {(0,): ([[1]], 12)}))
    monkeypatch.setattr(sectors, "MAX_PRODUCTS", {"one by one": 8, "by sector": 2, "roughly": 1}[examined])
    assert design.profile() == (Fraction(1 + 132, 144),)
    shared = {"one by one": 1 - 12, "by sector": 1 - 12, "roughly": 1 + 12}[examined]
    assert largest_product(design, ["a0"]) == Fraction(shared, 144)


def test_products_below_nothing_end_at_the_best_number_of_records():
    """Centred counts alone: each further month adds less cost, and later months reduce it."""
    design = of_sectors(cells_over((12,)), ([[1]], {(0,): ([[1]], 1)}))
    for max_records in (1, 2, 5, 6, 7, 12, 10**12):
        best = max(m * 132 - m * (m - 1) * 12 for m in range(1, min(max_records, 12) + 1))
        assert unit_cost(design, Adjacency(person(max_records, "a0"))) == best
    assert best == 12 * 6 * 6


def test_of_an_attribute_of_one_value_there_is_one_record():
    design = of_sectors(cells_over((1, 3)), ([[1]], {(): ([[1]], 1)}), ([[1]], {(1,): ([[1]], 1)}))
    assert unit_cost(design, Adjacency(person(9, "a0"))) == unit_cost(design, Adjacency()) == 7


def test_a_pattern_over_indistinguishable_values_saves_nothing():
    """An attribute that no table shows, or whose values all have equal rows; and one that is a level of another."""
    hidden = of_sectors(cells_over((3, 2)), ([[1]], {(1,): ([[1]], 1)}))
    merged = of_sectors(cells_over((2,), 4), ([[1, 1, 0, 0], [0, 0, 1, 1]], {(0,): ([[1, 0], [0, 1]], 1)}))
    for design, once in ((hidden, ["a0"]), (merged, ["elsewhere"]), (merged, ["o", "elsewhere"])):
        adjacency = Adjacency(person(3, *once))
        assert unit_cost(design, adjacency) == 9 * max(design.profile())
        assert design.loss(adjacency) == design.loss(adjacency.without_pattern)
    assert unit_cost(merged, Adjacency(person(2, "o"))) == 4 * max(merged.profile())
    assert unit_cost(merged, Adjacency(person(3, "o"))) == 5 * max(merged.profile())  # two of them agree at most


@pytest.mark.parametrize("max_records", [1, 2, 5])
def test_who_is_replaced_pays_four_times_at_most(max_records):
    design = of_sectors(cells_over((12, 2)), ([[1]], {(): ([[1]], 9)}), ([[1]], {(0,): ([[1]], 3)}))
    add = unit_cost(design, Adjacency(person(max_records, "a0")))
    swap = Adjacency(person(max_records, "a0", neighbours=REPLACE))
    assert unit_cost(design, swap) == min(4 * add, unit_cost(design, swap.without_pattern))
    assert design.loss(swap).rho == unit_cost(design, swap) / 2


@pytest.mark.parametrize("name", [x for x in zoo.TABLES if x not in SMALL])
def test_margins_gain_nothing(name):
    for max_records, neighbours in itertools.product((1, 3), fn.Neighbours):
        adjacency = Adjacency(person(max_records, "a0", "o", neighbours=neighbours))
        assert zoo.TABLES[name].loss(adjacency) == zoo.TABLES[name].loss(adjacency.without_pattern)


def test_releases_on_the_same_records_add_up_by_mean():
    """Each has its largest cost in another cell; a person with a record in both costs more than records in either."""
    one = of_sectors(cells_over((), 2), ([[2, 1]], {(): ([[1]], 1)}))
    two = of_sectors(cells_over((), 2), ([[1, 2]], {(): ([[1]], 1)}))
    adjacency = Adjacency(person(2, "o"))
    total = sum((d.loss(adjacency) for d in (one, two)), Loss.zero())
    assert total.rho >= Fraction(3**2 + 3**2, 2)
    assert total.rho == Fraction(12 + 6, 2)


PATTERNS = [
    {"once_per": ["a0", "elsewhere"]},
    {"per_value": {"a0": 2}},
    {"per_value": {"o": 1, "a1": 2}},
    {"per_value": {"elsewhere": 1}},
    {"separation": {"o": 2}},
    {"separation": {"a0": 2}},
    {"separation": {"o0": 2}, "fixed": ["a0"]},
    {"fixed": ["a0", "o"]},
    {"once_per": ["o"], "fixed": ["a0"]},
    {"once_per": ["o1"], "fixed": ["o0"]},
    {"once_per": ["a0"], "per_value": {"o": 2}},
    {"once_per": ["a0"], "fixed": ["a1", "elsewhere"]},
    {"separation": {"elsewhere": 2}, "per_value": {"a0": 2}},
]


def keeps(records, pattern):
    """Return True if records, as cells by attribute, keep to a pattern: an independent implementation."""
    for names, max_records in ((pattern.once_per, 1), *(((a,), n) for a, n in pattern.per_value)):
        if names and max(Counter(tuple(r[a] for a in names) for r in records).values()) > max_records:
            return False
    pairs = list(itertools.combinations(records, 2))
    is_separated = all(abs(x[a] - y[a]) >= n for x, y in pairs for a, n in pattern.separation)
    return is_separated and all(x[a] == y[a] for x, y in pairs for a in pattern.fixed)


def admissible(cells, pattern, max_records):
    """All records that one unit may have, as their places among the cells, which may repeat."""
    for m in range(1, max_records + 1):
        for chosen in itertools.combinations_with_replacement(range(len(cells)), m):
            if keeps([cells[i] for i in chosen], pattern):
                yield list(chosen)


IN_PATTERN = [
    (name, pattern)
    for name, pattern in itertools.product(SMALL, PATTERNS)
    if set().union(*pattern.values()) <= set(domain_of(zoo.TABLES[name]))
]


@pytest.mark.no_cover
@pytest.mark.parametrize("with_sizes", [True, False])
@pytest.mark.parametrize(("name", "pattern"), IN_PATTERN)
def test_nobody_in_a_pattern_costs_more_than_the_mean_of_what_her_cells_are_charged(name, pattern, with_sizes):
    """All records that a person may have, looked through one by one; also where the sizes of attributes are unknown."""
    design, (x, cells) = zoo.TABLES[name], form(zoo.TABLES[name])
    structured, shape = [a for a, _ in design.structure.structured], design.structure.shape
    for max_records in (2, 3):
        unit = fn.PrivacyUnit("person", max_records, **pattern)
        adjacency = Adjacency(unit, grid=domain_of(design) if with_sizes else None)
        charged = unit_profile(design, adjacency)
        assert max(charged) <= adjacency.records**2 * max(design.profile())
        largest = 0
        for v in admissible(cells, unit.pattern, max_records):
            places = [np.ravel_multi_index([cells[i][a] for a in structured], shape) if shape else 0 for i in v]
            assert x[np.ix_(v, v)].sum() * len(v) <= sum(charged[p] for p in places)
            largest = max(largest, len(v))
        assert largest <= adjacency.records
        assert not with_sizes or largest == adjacency.records or len(unit.pattern.caps) > 1


@pytest.mark.no_cover
@pytest.mark.parametrize("examined", ["by sector", "roughly"])
@pytest.mark.parametrize(("name", "pattern"), IN_PATTERN)
def test_and_in_a_pattern_of_too_many_pairs(name, pattern, examined, monkeypatch):
    design, (x, cells) = zoo.TABLES[name], form(zoo.TABLES[name])
    few = sum(map(len, design.groups)) * design.cells**2
    unit = fn.PrivacyUnit("person", 3, **pattern)
    adjacency = Adjacency(unit, grid=domain_of(design))
    finest = unit_cost(design, adjacency)
    monkeypatch.setattr(sectors, "MAX_PRODUCTS", few if examined == "by sector" else few - 1)
    worst = max(x[np.ix_(v, v)].sum() for v in admissible(cells, unit.pattern, 3))
    assert worst <= finest
    assert worst <= unit_cost(design, adjacency) <= adjacency.records**2 * max(design.profile())


def mixed(seed, sizes, *cells):
    """Sectors of all exchangeable attributes of two values or more, over bases that are drawn."""
    draw, n = np.random.default_rng(seed), int(np.prod(cells))
    several = [a for a, size in enumerate(sizes) if size > 1]
    groups = []
    for width in range(len(several) + 1):
        sectors_of = list(itertools.combinations(several, width))
        parts = {s: (draw.integers(-2, 3, size=(2, 2)).tolist(), 2.0 ** draw.integers(0, 2)) for s in sectors_of}
        groups.append((draw.integers(-3, 4, size=(2, n)).tolist(), parts))
    return of_sectors(cells_over(sizes, *cells), *groups)


MIXED = {"flat": mixed(0, (2, 2, 1), 3, 2, 1), "long": mixed(1, (3, 2), 5), "plain": mixed(2, (), 5, 2)}


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("flat", {"once_per": ["o0"]}),
        ("flat", {"once_per": ["o0"], "fixed": ["a0"]}),
        ("flat", {"once_per": ["o0"], "fixed": ["o1"]}),
        ("flat", {"once_per": ["o0", "o1"]}),
        ("flat", {"once_per": ["o0", "o2"], "fixed": ["a2"]}),
        ("long", {"once_per": ["o"]}),
        ("long", {"separation": {"o": 2}}),
        ("long", {"separation": {"o": 2}, "fixed": ["a1"]}),
        ("plain", {"once_per": ["o0"]}),
        ("plain", {"separation": {"o0": 2}}),
        ("plain", {"separation": {"o0": 2}, "fixed": ["o1"]}),
        ("plain", {"per_value": {"o0": 2}, "fixed": ["o1"]}),
    ],
)
def test_where_each_record_has_its_place_the_costliest_records_are_charged(name, pattern, monkeypatch):
    """The charge is their exact cost, for any place and other values of a record, and not a bound on it."""
    monkeypatch.setattr(witnesses, "bounds", None)
    design, (x, cells) = MIXED[name], form(MIXED[name])
    for max_records, with_sizes in ((2, True), (3, True), (3, False)):
        unit = fn.PrivacyUnit("person", max_records, **pattern)
        worst = max(x[np.ix_(v, v)].sum() for v in admissible(cells, unit.pattern, max_records))
        assert unit_cost(design, Adjacency(unit, grid=domain_of(design) if with_sizes else None)) == worst


def costs_with_others(x, cells, pattern, axes, max_records):
    """R_1, R_2, … of every record, by its place, and what it loses at each next to fewer records of its place."""
    places = [tuple(cell[a] for a in axes) for cell in cells]
    for i, first_cell in enumerate(cells):
        max_products = {}
        for j, other in enumerate(cells):
            if keeps([first_cell, other], pattern):
                max_products[places[j]] = max(max_products.get(places[j], x[i, j]), x[i, j])
        others = [v for position, v in max_products.items() for _ in range(max_records - (position == places[i]))]
        others.sort(reverse=True)
        product = max_products.get(places[i])
        losses = [0 if product is None else max(0, product - v) for v in others]
        yield places[i], list(itertools.accumulate(others, initial=x[i, i])), [*losses, 0]


def largest_division(costs, m, limit):
    """The largest Σ_c F_c(t_c) over all numbers t_c ≤ `limit` of sum m, looked through place by place."""
    best = {0: 0}
    for f in costs:
        pairs = [(n + t, value + f(t)) for n, value in best.items() for t in range(min(limit, m - n) + 1)]
        best = {n: max(v for k, v in pairs if k == n) for n, _ in pairs}
    return best.get(m)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("flat", {"once_per": ["a0"]}),
        ("flat", {"once_per": ["a0", "o0"]}),
        ("flat", {"once_per": ["a0", "a1", "a2"], "fixed": ["o0"]}),
        ("flat", {"per_value": {"a0": 2}}),
        ("flat", {"per_value": {"a1": 2}, "fixed": ["a0"]}),
        ("long", {"once_per": ["a0"]}),
        ("long", {"once_per": ["a1", "o"]}),
        ("long", {"once_per": ["a0"], "fixed": ["a1"]}),
    ],
)
def test_by_what_sectors_do_not_order_the_charge_is_what_the_theorem_says(name, pattern):
    """The mean of m R_m, or the largest sum over all divisions of m records among joint cells, where that is less."""
    design, (x, cells) = MIXED[name], form(MIXED[name])
    for max_records in (2, 3, 4, 6, 7):
        adjacency = Adjacency(fn.PrivacyUnit("person", max_records, **pattern), grid=domain_of(design))
        ((axes, slots),) = adjacency.pattern.caps
        rows = list(costs_with_others(x, cells, adjacency.pattern, axes, slots))
        mean = max(m * total for _, row, _ in rows for m, total in enumerate(row[: adjacency.records], 1))
        sums = [0]
        for m in range(1, adjacency.records + 1):
            here = {}
            for position, row, losses in rows:
                if len(row) >= m:
                    here.setdefault(position, []).append((row[m - 1], losses[m - 1]))
            size = min(slots, m)
            costs = [
                lambda t, c=c, size=size: max(t * (total - (size - t) * loss) for total, loss in c)
                for c in here.values()
            ]
            best = largest_division(costs, m, size)
            if best is None:
                break
            sums.append(best)
        assert unit_cost(design, adjacency) == min(mean, max(sums), adjacency.records**2 * max(design.profile()))


def random_strategy(seed):
    """A strategy of drawn size with one or two exchangeable attributes and some structured cells, and a unit."""
    draw = np.random.default_rng(seed)
    sizes = (int(draw.integers(2, 5)), *([2] if seed % 3 == 2 else []))
    cells = () if seed % 3 == 0 else (2,)
    k = int(draw.integers(1, 4))
    g = int(draw.integers(1, min(sizes[0] * k, (7, 5, 4)[seed % 3]) + 1))
    return mixed(seed, sizes, *cells), fn.PrivacyUnit("person", g, per_value={"a0": k}), k, g


@pytest.mark.no_cover
@pytest.mark.parametrize("first_seed", range(0, 300, 60))
def test_several_records_of_one_value_are_charged_for_all_that_a_person_can_have(first_seed):
    """300 drawn strategies: no records cost more, and where one attribute is shown alone the formula is exact."""
    exact = 0
    for seed in range(first_seed, first_seed + 60):
        design, unit, k, g = random_strategy(seed)
        (x, cells), adjacency = form(design), Adjacency(unit, grid=domain_of(design))
        worst = max(x[np.ix_(v, v)].sum() for v in admissible(cells, unit.pattern, g))
        charged = unit_cost(design, adjacency)
        assert worst <= charged <= g**2 * max(design.profile())
        if len(cells) == cells[-1]["a0"] + 1:
            # One number of each value: squares of m records, at most k of each value, and of their sum.
            equal, other = x[0, 0], x[0, 1]
            squares = [m // k * k**2 + (m % k) ** 2 for m in range(g + 1)]
            assert charged == worst == max(m**2 * other + squares[m] * (equal - other) for m in range(1, g + 1))
            exact += 1
    assert exact == 20


@pytest.mark.parametrize(
    ("n", "k", "g", "squares"), [(12, 3, 7, 19), (12, 5, 12, 54), (12, 2, 5, 9), (4, 3, 10, 28), (3, 2, 3, 5)]
)
def test_independent_noise_costs_what_equal_records_cost(n, k, g, squares):
    """⌊g/k⌋ k² + (g mod k)², if each value has noise of its own: X is the identity."""
    design = of_sectors(cells_over((n,)), ([[1]], {(): ([[1]], n**0.5)}), ([[1]], {(0,): ([[1]], n)}))
    one = max(design.profile())
    assert one == pytest.approx(1)
    charged = unit_cost(design, Adjacency(fn.PrivacyUnit("person", g, per_value={"a0": k})))
    assert float(charged) == pytest.approx(squares)


def test_records_that_may_not_be_combined_gain_nothing():
    """This holds for any attributes in common: five in eight months do not all keep two months of separation."""
    adjacency = Adjacency(fn.PrivacyUnit("person", 5, separation={"o0": 2}))
    signs = np.array([1, -1] * 8)
    rows = np.vstack([np.full(16, 30), 9 * np.eye(16, dtype=int) - np.outer(signs, signs)])
    design = of_sectors(cells_over((), 8, 2), (rows.tolist(), {(): (np.eye(17, dtype=int).tolist(), 1)}))
    # one record costs 979, two cost 2 · 902 more if they differ in o1, else 2 · 898: of six pairs four can
    assert unit_cost(design, adjacency) == 4 * 979 + 8 * 902 + 4 * 898
    assert unit_cost(of_sectors(cells_over((), 8, 1), ([[1] * 8], {(): ([[1]], 1)})), adjacency) == 4**2


def test_as_many_places_are_looked_at_as_may_be(monkeypatch):
    """Three cells of two places each, of which a person has records in three."""
    design = of_sectors(cells_over((), 3), ([[3, 1, 1], [2, -2, -1]], {(): ([[1, 0], [0, 1]], 1)}))
    adjacency = Adjacency(fn.PrivacyUnit("person", 3, per_value={"o": 2}))
    max_cost = (3 + 3 + 1) ** 2 + (2 + 2 - 1) ** 2  # two of the first and one of the last
    monkeypatch.setattr(sectors, "MAX_NODES", 6)
    assert unit_cost(design, adjacency) == max_cost
    monkeypatch.setattr(sectors, "MAX_NODES", 5)
    assert unit_cost(design, adjacency) > max_cost


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("name", "once"),
    [
        *(("flat", [*x]) for x in (("a0",), ("a0", "o1"), ("a2", "a1"), ("o2", "o0"), ("a1", "o2"), ("a0", "a1"))),
        *(("long", [*x]) for x in (("a0",), ("a1",), ("a0", "o"), ("a1", "a0"))),
    ],
)
def test_the_largest_product_is_looked_for_as_far_as_may_be(name, once, monkeypatch):
    """In each sector, or by what each sector costs: by all pairs of records there are."""
    design, cells = MIXED[name], form(MIXED[name])[1]
    by_one_sector = [form(replace(design, groups=(group_of(sector),)))[0] for sector in design.sectors]
    pairs = list(itertools.permutations(range(len(cells)), 2))
    structured_once = [a for a, n in design.structure.structured if a in once and n > 1]
    free_once = [i for i, (a, n) in enumerate(design.structure.exchangeable) if a in once and n > 1]
    by_sector = []
    for names in [*([f"a{i}"] for i in free_once), structured_once]:
        largest = {}
        for i, j in pairs:
            if any(cells[i][a] != cells[j][a] for a in names):
                position = tuple((cells[i][o], cells[j][o]) for o, _ in design.structure.structured)
                for s, x in enumerate(by_one_sector):
                    largest[position, s] = max(x[i, j], largest.get((position, s), x[i, j]))
        by_sector += [sum(largest[position, s] for s in range(len(by_one_sector))) for position, s in largest if not s]
    costs = [max(x.diagonal()) for x in by_one_sector]
    roughly = (
        max(
            sum(
                x / (design.sizes[i] - 1 if i in sector.attributes else 1)
                for sector, x in zip(design.sectors, costs, strict=True)
            )
            for i in free_once
        )
        if free_once and not structured_once
        else max(design.profile())
    )
    few, several = len(by_one_sector) * design.cells**2, sum(n > 1 for n in design.sizes)
    tried = [((few << several) - 1, max(by_sector)), (few, max(by_sector)), (few - 1, roughly)]
    for max_records, expected in tried:
        monkeypatch.setattr(sectors, "MAX_PRODUCTS", max_records)
        assert largest_product(design, once) == expected


@pytest.mark.parametrize("name", ["flat", "long"])
@pytest.mark.parametrize("pattern", [{"once_per": ["a0"]}, {"per_value": {"a1": 2}}, {"per_value": {"a0": 3}}])
def test_of_too_many_pairs_all_others_add_as_much_as_any(name, pattern, monkeypatch):
    """The limit on products is used in full; with one more, m records cost m times one and its costliest pair."""
    design = MIXED[name]
    few, several = len(design.sectors) * design.cells**2, sum(n > 1 for n in design.sizes)
    units = [
        Adjacency(fn.PrivacyUnit("person", max_records, **pattern), grid=domain_of(design)) for max_records in (2, 3, 5)
    ]
    for adjacency, exact in [(adjacency, unit_profile(design, adjacency)) for adjacency in units]:
        (((a,), slots),) = adjacency.pattern.caps
        monkeypatch.setattr(sectors, "MAX_PRODUCTS", few << several)
        assert unit_profile(design, adjacency) == exact
        monkeypatch.setattr(sectors, "MAX_PRODUCTS", (few << several) - 1)
        product = largest_product(design, [a])
        others = slots * (dict(design.structure.exchangeable)[a] - 1)
        prices = []
        for cost in design.profile():
            partners = sorted([cost] * (slots - 1) + [product] * others, reverse=True)[: adjacency.records - 1]
            prices.append(max(m * x for m, x in enumerate(itertools.accumulate(partners, initial=cost), 1)))
        anywhere = tuple(adjacency.records**2 * x for x in design.profile())
        assert unit_profile(design, adjacency) == min(anywhere, tuple(prices), key=max)


def test_the_costliest_in_different_cells_are_sought_up_to_a_limit(monkeypatch):
    """In quarters: two cost 9 each and have 9 in common, of four others two by two 1: that is 2 · 18 + 4 · 2."""
    design = of_sectors(
        cells_over((2,), 3), ([[3, 0, 0], [0, 1, 0], [0, 0, 1]], {(): (np.eye(3, dtype=int).tolist(), 2)})
    )
    monkeypatch.setattr(sectors, "MAX_PRODUCTS", 3 * 6)
    assert unit_cost(design, Adjacency(person(6, "a0", "o"))) == Fraction(2 * 18 + 4 * 2, 4)
    assert unit_cost(design, Adjacency(person(7, "a0", "o"))) == Fraction(6 * 18, 4)


PLACES = fn.Domain(
    place=fn.Hierarchy(["region", "town"], [("n", "a"), ("n", "b"), ("s", "c"), ("s", "d")]),
    month=fn.Ordered(1, 2),
    sex=fn.Categorical([*"fm"]),
)
UNEVEN = fn.Domain(
    place=fn.Hierarchy(["region", "town"], [("n", "a"), ("n", "b"), ("s", "c")]),
    month=fn.Ordered(1, 2),
    sex=fn.Categorical([*"fm"]),
)


@pytest.mark.no_cover
@pytest.mark.parametrize("domain", [PLACES, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize(
    "pattern",
    [
        {"once_per": ["place"]},
        {"once_per": ["place", "sex"]},
        {"per_value": {"place": 2}},
        {"once_per": ["month"], "fixed": ["place"]},
        {"once_per": ["place"], "fixed": ["sex"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("attributes", [("region",), ("town",), ("place",), ("region", "town"), ("sex", "region"), ()])
def test_levels_of_places_distinguish_their_own_places(domain, pattern, attributes):
    """Once per place are as many records in a region as it has places; of many towns each has one."""
    tables = [fn.table(a, margin=5) for a in attributes] + [fn.table(*attributes[:1], cumulative="month", margin=9)]
    plan = fn.plan(fn.Workload(domain, tables))
    design, cells, margins = plan.table_part.strategy, list(np.ndindex(*domain.shape)), _required_margins(plan.order)
    answers = []
    for i in range(domain.size):
        counter = HistogramCounter(np.eye(domain.size, dtype=int)[i].reshape(domain.shape), domain.axes)
        exact = _exact_answers(plan.order, margins, *_count_margins(plan.order, margins, counter, None))
        answers.append(np.concatenate([y for x in exact for y in x]))
    rates = 1 / np.repeat(design.scales, design.portions) ** 2
    x = np.array([[rates @ (a.astype(float) * b.astype(float)) for b in answers] for a in answers])
    by_attribute = [dict(zip(domain, c, strict=True)) for c in cells]
    for max_records in (2, 3):
        unit = fn.PrivacyUnit("person", max_records, **pattern)
        adjacency = Adjacency(unit, grid=domain.axes)
        worst = max(x[np.ix_(v, v)].sum() for v in admissible(by_attribute, unit.pattern, max_records))
        charged = float(unit_cost(design, adjacency))
        assert worst <= charged * (1 + 1e-9)
        assert charged <= float(adjacency.records**2 * max(design.profile()))
        if pattern == {"once_per": ["place"]} and attributes in {("town",), ("place",)}:
            assert charged == pytest.approx(worst, rel=1e-6)
            assert charged < float(adjacency.records**2 * max(design.profile()))


@pytest.mark.parametrize("domain", [PLACES, UNEVEN], ids=["even", "uneven"])
def test_how_many_places_lie_in_one(domain):
    axes, places = domain.axes, len(domain["place"].values)
    for n, names in ((places, []), (2, ["region"]), (1, ["town"]), (1, ["place", "region"])):
        assert axes.max_cells_sharing("place", names) == n
    assert (axes.max_cells_sharing("sex", []), axes.max_cells_sharing("sex", ["sex"])) == (2, 1)
    if domain is PLACES:
        assert domain.axes.max_cells_sharing("place", ["town in region"]) == 2
        assert domain.axes.max_cells_sharing("place", ["region", "town in region"]) == 1


@pytest.mark.no_cover
def test_no_more_records_are_charged_than_have_place():
    """This holds for any stated number, and for designs that measure by their differences or not."""
    domain = fn.Domain(month=fn.Ordered(1, 5, missing={"unknown": [-1]}), sex=fn.Categorical([*"fm"]))
    unit = partial(fn.PrivacyUnit, "person", 99)
    for max_records, unit_of in (
        (6, unit(once_per=["month"])),
        (12, unit(once_per=["month", "sex"])),
        (4, unit(per_value={"sex": 2, "month": 3})),
        (3, unit(separation={"month": 2})),
        (2, unit(separation={"month": 5})),
        (1, unit(separation={"month": 6})),
        (99, unit(fixed=["month", "sex"])),
        (2, replace(unit(once_per=["month"]), max_records=2)),
    ):
        assert domain.axes.adjacency(DataSource(), unit_of).records == max_records
        if unit_of.separation:  # cells outside the order are at no distance from others
            continue
        plan = fn.plan(fn.Workload(domain, [fn.table("sex", margin=5)]), unit=unit_of, privacy="pure")
        assert plan.loss.epsilon == max_records * fn.plan(fn.Workload(domain, [fn.table("sex", margin=5)]),
                                                    privacy="pure").loss.epsilon  # fmt: skip
    adjacency = domain.axes.adjacency(DataSource(), unit(separation={"month": 6}, neighbours=REPLACE))
    assert not adjacency.fixes_size  # she may have no record in one of the data, and one in the other


# --- the prices that were promised ------------------------------------------------------------------------------------


def priced(domain, once, max_records, *tables):
    """Return the cost of a plan for a person over g² times its cost for a record; and the largest product over D."""
    design = fn.plan(fn.Workload(domain, list(tables))).table_part.strategy
    max_cost = max(design.profile())
    ratio = max_records**2 * max_cost / unit_cost(design, Adjacency(person(max_records, once)))
    unit, grams = design._grams()
    (cap,) = design.caps(Adjacency(person(2, once)))
    differ = np.not_equal.outer(cap.places, cap.places)
    products = (x[differ | (not cap.exchangeable <= same)] for same, x in design._products(grams, frozenset()))
    return float(ratio), float(Fraction(max(x.max() for x in products if x.size), unit) / max_cost)


MONTHS = {"month": fn.Categorical([f"M{i:02}" for i in range(12)])}
STATES = {"state": fn.Categorical([f"S{i:02}" for i in range(51)]), "status": fn.Categorical(["a", "b", "c", "d"])}
BY_MONTH = (fn.table("month", "state", margin=15), fn.table("month", "status", margin=15))


@pytest.mark.parametrize(
    ("tables", "gain", "shared"),
    [
        (BY_MONTH[:1], 12, 0),
        (BY_MONTH, 12, 0),
        ((*BY_MONTH, fn.table("state", "status", margin=15)), 2.66, 0.319),
        ((*BY_MONTH, fn.table("state", "status", margin=60)), 10, 0.018),
    ],
)
def test_twelve_records_once_a_month(tables, gain, shared):
    gained, product = priced(fn.Domain(MONTHS | STATES), "month", 12, *tables)
    assert gained == pytest.approx(gain, rel=5e-3)
    assert product == pytest.approx(shared, abs=2e-3)


def test_twelve_records_once_a_month_of_running_totals():
    domain = fn.Domain({"month": fn.Ordered(1, 12)} | STATES)
    gained, product = priced(domain, "month", 12, fn.table("state", cumulative="month", margin=15))
    assert (gained, product) == (pytest.approx(2.396, rel=5e-3), pytest.approx(0.768, abs=2e-3))


def test_the_price_is_attained_where_one_set_of_records_fits_all_pairs():
    domain = fn.Domain(month=fn.Categorical([*"abc"]), sex=fn.Categorical([*"mf"]), age=fn.Ordered(0, 2))
    tables = [fn.table("month", "sex", margin=5), fn.table("sex", cumulative="age", margin=4)]
    design = fn.plan(fn.Workload(domain, [*tables, fn.table("month", cumulative="age", margin=9)])).table_part.strategy
    x, cells = form(design)
    worst = max(x[np.ix_(v, v)].sum() for v in map(list, sets_of(cells, ["month"], 3)))
    assert float(worst) == pytest.approx(3.406458, rel=1e-6)
    assert worst <= unit_cost(design, Adjacency(person(3, "month"))) <= worst * (1 + Fraction(1, 10**6))


# --- attributes of a joint axis ---------------------------------------------------------------------------------------


JOINT_PATTERNS = [
    {"once_per": ["u"]},
    {"once_per": ["u", "v"]},
    {"once_per": ["v", "o"]},
    {"once_per": ["v"], "fixed": ["a0"]},
    {"once_per": ["u"], "fixed": ["v"]},
    {"per_value": {"v": 2}},
    {"per_value": {"u": 1, "v": 2}},
    {"once_per": ["a0"], "per_value": {"u": 2}},
    {"separation": {"u": 2}},
    {"separation": {"v": 2}, "fixed": ["o"]},
    {"fixed": ["u"]},
    {"once_per": ["o"], "fixed": ["u", "v"]},
    {"once_per": ["unseen", "v"]},
]

EXACT_ON_A_JOINT_AXIS = [
    x for x in JOINT_PATTERNS if "per_value" not in x and not {"a0", "unseen"} & {*x.get("once_per", ())}
]


def on_a_joint_axis(draw, cells=None):
    """A design that is drawn, and its domain: with a joint axis of these cells, or of some that are drawn."""
    sizes = {"u": int(draw.integers(2, 5)), "v": int(draw.integers(2, 4))}
    if cells is not None:
        sizes = {"u": cells[-1][0] + 1, "v": cells[-1][1] + 1}
    elif draw.random() < 1 / 4:
        # The cells of u are those of the joint axis, so the axis of u serves.
        cells = [(u, int(draw.integers(sizes["v"]))) for u in range(sizes["u"])]
    else:
        product = list(itertools.product(range(sizes["u"]), range(sizes["v"])))
        chosen = draw.permutation(len(product))[: draw.integers(1, min(len(product), 6) + 1)]
        cells = [product[i] for i in sorted(chosen.tolist())]
    domain = {name: fn.Ordered(0, n - 1, column="x") for name, n in sizes.items()}
    one = JointAxis(("u", "v"), tuple(cells))
    axis = "u" if [u for u, _ in cells] == list(range(sizes["u"])) else one.name
    free = tuple({"a0": n} for n in (2, 3))[draw.integers(2)] if draw.random() < 1 / 2 else {}
    others = {"o": int(draw.integers(1, 3))}
    structured = (
        ((axis, len(cells)), *others.items()) if draw.random() < 1 / 2 else (*others.items(), (axis, len(cells)))
    )
    names = others | {"a0": 1} | free | {"unseen": 2}
    domain |= {name: fn.Ordered(0, n - 1) for name, n in names.items()}
    structure = CellStructure(tuple(free.items()), structured)
    n, groups = len(cells) * others["o"], []
    for width in range(len(free) + 1):
        rank = int(draw.integers(1, 4))
        parts = {(*range(width),): (draw.integers(-2, 3, (rank, rank)).tolist(), 2.0 ** draw.integers(0, 2))}
        groups.append((draw.integers(-3, 4, (rank, n)).tolist(), parts))
    return of_sectors(structure, *groups), Domain(fn.Domain(domain).axes, [one])


def form_on(design, domain, pattern):
    """X in units, the unit, and the cells along all attributes that the pattern may name, each with its place."""
    x, cells = form(design)
    (one,) = domain.joint.values()
    structured, shape = [a for a, _ in design.structure.structured], design.structure.shape
    for cell in cells:
        cell["place"] = np.ravel_multi_index([cell[a] for a in structured], shape)
        cell["u"], cell["v"] = one.cells[cell[one.name] if one.name in cell else cell["u"]]
    unit = math.lcm(*(v.denominator for v in x.flat))
    copies = 2 if "unseen" in pattern.get("once_per", ()) else 1
    x = np.array([int(v * unit) for v in x.flat]).reshape(x.shape).repeat(copies, 0).repeat(copies, 1)
    return x, unit, [{"a0": 0} | cell | {"unseen": i} for cell in cells for i in range(copies)]


def check_prices_on_a_joint_axis(draw, pattern):
    """Return True if the price of a drawn design is that of the costliest records; it is never below."""
    design, domain = on_a_joint_axis(draw)
    x, scale, cells = form_on(design, domain, pattern)
    unit = fn.PrivacyUnit("person", int(draw.integers(2, 4)), **pattern)
    adjacency = domain.adjacency(DataSource(), unit)
    charged = [c * scale for c in unit_profile(design, adjacency)]
    units, worst = list(admissible(cells, unit.pattern, unit.max_records)), 0
    for v in units:
        cost = int(x[np.ix_(v, v)].sum())
        assert cost * len(v) <= sum(charged[cells[i]["place"]] for i in v)
        worst = max(worst, cost)
    # Without the map an attribute lies along no axis, and the records cost more.
    assert max(charged) <= unit_cost(design, Adjacency(unit)) * scale
    swap = unit_cost(design, replace(adjacency, unit=replace(unit, neighbours=REPLACE))) * scale
    for removed, added in (draw.choice(len(units), 2) for _ in range(100)):
        v = np.bincount(units[added], minlength=len(x)) - np.bincount(units[removed], minlength=len(x))
        assert v @ x @ v <= swap
    return max(charged) == worst


@pytest.mark.parametrize("examined", ["one by one", "by sector", "roughly"])
@pytest.mark.parametrize("pattern", JOINT_PATTERNS, ids=str)
def test_no_records_on_a_joint_axis_cost_more_than_their_cells_are_charged(pattern, examined, monkeypatch):
    """Lists of joint cells are drawn, with exact prices of all records that a person may have."""
    limit = {"one by one": sectors.MAX_PRODUCTS, "by sector": 16, "roughly": 1}[examined]
    monkeypatch.setattr(sectors, "MAX_PRODUCTS", limit)
    for seed in range(4):
        draw = np.random.default_rng([seed, JOINT_PATTERNS.index(pattern)])
        is_exact = check_prices_on_a_joint_axis(draw, pattern)
        assert is_exact or pattern not in EXACT_ON_A_JOINT_AXIS or examined != "one by one"


@pytest.mark.parametrize("pattern", JOINT_PATTERNS, ids=str)
def test_a_joint_axis_of_all_combinations_costs_as_much_as_two_axes(pattern):
    for seed in range(3):
        draw = np.random.default_rng([seed, JOINT_PATTERNS.index(pattern)])
        cells = list(itertools.product(range(draw.integers(2, 4)), range(2)))
        sizes = cells[-1][0] + 1, 2
        design, domain = on_a_joint_axis(draw, cells)
        structured = []
        for name, n in design.structure.structured:
            structured += [("u", sizes[0]), ("v", sizes[1])] if name == "u × v" else [(name, n)]
        separate = replace(design, structure=replace(design.structure, structured=tuple(structured)))
        unit = fn.PrivacyUnit("person", 3, **pattern)
        for own_unit in (unit, replace(unit, neighbours=REPLACE)):
            adjacency = domain.adjacency(DataSource(), own_unit)
            without_joint = replace(adjacency, grid=Domain(dict(domain.entries)))
            assert unit_profile(design, adjacency) == unit_profile(separate, without_joint)
            assert unit_cost(design, adjacency) == unit_cost(separate, without_joint)


# --- for whom, and on which account -----------------------------------------------------------------------------------


def test_a_unit_says_what_it_is_once_per():
    promised, enforced = person(12, "o", "a0"), person(12, "a0", "o", column="pid")
    assert promised.once_per == ("a0", "o")
    assert promised == person(12, "a0", "o")
    assert promised.bound is None
    assert enforced.bound == RecordBound("pid", 12, Pattern(("a0", "o")))
    assert (
        promised.describe()
        == promised.account
        == ('one person (at most 12 records, once per "a0" and "o"), add-or-remove-one')
    )
    left_out = Message("report.records.unknown_left_out")
    rules = ["report.records.at_most", "report.records.once_per"]
    assert [m.id for m in bound_on_records(promised, left_out)] == [*rules, "report.records.assumed"]
    assert enforced.describe() == (
        'one person (at most 12 records, once per "a0" and "o", enforced by column \'pid\'), add-or-remove-one'
    )
    assert enforced.account == person(1, column="pid").account == "one person (by 'pid'), add-or-remove-one"
    assert [m.id for m in bound_on_records(enforced, left_out)][:3] == [*rules, "report.records.enforced"]
    assert not Adjacency(person(1, "o")).pattern  # who has one record is once per anything


@pytest.mark.parametrize("once", ["month", None, [1], [""], [" a"], ['a"b'], ["a", "a"], ["e\u0301"], {"a"}])
def test_once_per_is_a_list_of_names(once):
    with refused("spec.unit-attributes-invalid"):
        fn.PrivacyUnit("person", 2, once_per=once)


def test_a_record_is_once_per_nothing():
    with refused("spec.pattern-needs-unit-name"):
        fn.PrivacyUnit("Record", 2, once_per=["a"])


@pytest.mark.parametrize("once", [["elsewhere"], ["O"], ["o", "elsewhere"]])
def test_what_the_domain_does_not_have_is_refused(once):
    """Also by capitals: what is enforced, and what is priced, goes by one name."""
    for unit in (person(2, *once), person(2, *once, column="pid")):
        with refused("plan.pattern-unknown-attribute"):
            order(SECTORS, unit=unit)
    with refused("plan.pattern-unknown-attribute"):
        order(SECTORS, units=(person(2, *once, name="home"),))


def of_months(rows, plan, kinds=(), excluded=(), **source):
    """Rows of months, measured with the noise 1, for a source and with an attribute of these kinds of records.

    excluded: Impossible combinations of month and kind.
    """
    kind = {"kind": fn.Categorical(list(kinds))} if kinds else {}
    axes = fn.Domain(month=fn.Ordered(1, len(rows[0])), **kind).axes
    rules = {"one": JointAxis(("month", "kind"), excluded)} if excluded else {}
    design = of_sectors(CellStructure((), (("month", len(rows[0])),)), (rows, {(): (np.eye(len(rows), dtype=int), 1)}))
    unit = person(2, "month")
    return replace(
        order(SECTORS),
        domain=Domain(axes, rules=rules),
        source=DataSource("homes", **source),
        designs=(design,),
        unit=unit,
        plan=64 * plan,
    )


ALL, X, Y = ({}, {"where": {"kind": "x"}}, {"where": {"kind": "y"}})
DROP_X, DROP_Y = ({"kinds": k, "outside_domain": "drop"} for k in ("xz", "yz"))
RULE_X, RULE_Y = ({"kinds": "xy", "excluded": ((0, i), (1, i)), "outside_rules": "drop"} for i in (0, 1))
REFUSES_X = RULE_X | {"outside_rules": "refuse"}


@pytest.mark.parametrize(
    ("left_out", "same"),
    [
        ((ALL, ALL), True),
        ((X, X), True),
        ((DROP_X, DROP_X), True),
        ((X, Y), False),
        ((DROP_X, DROP_Y), False),
        ((ALL, X), False),
        ((DROP_X, ALL), False),
        ((X, DROP_X), False),
        ((RULE_X, RULE_X), True),
        ((REFUSES_X, ALL), True),
        ((RULE_X, RULE_Y), False),
        ((RULE_X, REFUSES_X), False),
        ((RULE_X, ALL), False),
        ((RULE_X, DROP_X), False),
    ],
)
def test_profiles_add_up_by_cell_only_where_the_same_records_of_a_person_count(left_out, same, rng):
    """Each of two plans may count another month of one person. The test looks through all pairs of counted sets."""
    both = [((2, -1), (-1, 2)), *rng.integers(-3, 4, (5, 2, 2)).tolist()]
    for one, other in both:
        orders = [of_months([row], str(i), **x) for i, (row, x) in enumerate(zip((one, other), left_out, strict=True))]
        losses = [o.ledger_loss() for o in orders]
        if not all(x.rho for x in losses):
            continue
        sets = [[0], [1], [0, 1]]
        costs = [{tuple(v): Fraction(sum(row[i] for i in v) ** 2, 2) for v in sets} | {(): 0} for row in (one, other)]
        worst = max(x + y for v, x in costs[0].items() for w, y in costs[1].items() if v == w or not same)
        with Ledger(":memory:") as ledger:
            ledger.charge(orders[0].account, losses[0], {"plan": orders[0].plan})
            ledger.charge(orders[0].account, losses[1], {"plan": orders[1].plan}, composed_with=[orders[0].plan])
            spent = ledger.balance(orders[0].account).spent
        assert worst <= spent <= sum(x.rho for x in losses)
        assert (one, other) != both[0] or spent == (Fraction(5, 2) if same else 4)


def test_a_record_that_is_left_out_changes_no_key_of_a_record():
    """One record lies in one cell, counted or not."""
    record = fn.PrivacyUnit()
    keys = [
        [a for a, _ in replace(of_months([[1, 2]], "1", **x), unit=record).ledger_loss().axes]
        for x in (ALL, X, Y, RULE_X)
    ]
    assert all(x == keys[0] for x in keys)


def test_levels_of_places_are_nobodys_cells():
    """Records are counted by leaves: a level of them is no attribute of which one record is kept."""
    domain = fn.Domain(place=fn.Hierarchy(["region", "town"], [("n", "a"), ("n", "b"), ("s", "c")]))
    design = of_sectors(CellStructure((("place", 3),), ()), ([[1]], {(0,): ([[1]], 1)}))
    base = order(SECTORS)
    for once, right in ((["place"], True), (["region"], False), (["town"], False)):
        if right:
            assert replace(base, domain=domain.axes, designs=(design,), unit=person(2, *once)).loss.rho == Fraction(
                6, 2
            )
        else:
            with refused("plan.pattern-unknown-attribute"):
                replace(base, domain=domain.axes, designs=(design,), unit=person(2, *once))


def test_a_promise_of_the_cells_of_others_is_not_believed():
    """Not even of units of the same name and text: their attribute may be another one that is called so."""
    once, free = person(3, "a0"), person(3)
    for own_unit in (fn.PrivacyUnit(), person(3), once, person(3, "o")):
        base = order(SECTORS, unit=own_unit)
        for other in (once, replace(once, neighbours=REPLACE), replace(once, name="home")):
            assert base.cost(other) == base.cost(replace(other, once_per=()))
    base = order(SECTORS, unit=once)
    assert base.loss.rho < order(SECTORS, unit=free).loss.rho
    assert base.cost(free) == order(SECTORS, unit=free).ledger_loss()
    assert base.cost(fn.PrivacyUnit()) == order(SECTORS, unit=fn.PrivacyUnit()).ledger_loss()


def test_what_is_enforced_holds_for_the_same_persons_under_another_relation():
    for max_records in (1, 3):
        base = order(SECTORS, unit=person(max_records, "a0", column="pid"))
        swap = person(max_records, "a0", column="pid", neighbours=REPLACE)
        assert base.cost(swap) == order(SECTORS, unit=swap).ledger_loss()
        assert base.cost(person(7)) == base.ledger_loss()  # the number of counted records is the same for any name
        other = replace(swap, once_per=())
        assert base.cost(fn.PrivacyUnit()) == order(SECTORS, unit=other).cost(fn.PrivacyUnit())  # one comes, one goes


def test_records_of_a_person_are_changed_one_at_a_time():
    """Three of them in one cell are no change of a unit that has one a month, but three."""
    once, free = Adjacency(person(3, "o")), Adjacency(person(3))
    assert (free.changes(free), once.changes(free), once.changes(once), free.changes(once)) == (1, 3, 3, 1)
    assert once.changes(Adjacency(person(3, neighbours=REPLACE))) == 6
    swap = Adjacency(person(3, "o", neighbours=REPLACE))
    assert swap.changes(Adjacency(fn.PrivacyUnit("person", 3, REPLACE))) == 3


@pytest.mark.parametrize(
    "own_unit", [person(3, "a0"), person(3, "a0", column="pid"), person(3, "a0", neighbours=REPLACE)]
)
@pytest.mark.parametrize("stated", [(), (fn.PrivacyUnit("home", 5),)])
def test_what_earlier_releases_cost_others_is_never_less_than_it_was(own_unit, stated):
    """A cap on persons anywhere, set later, is not evaded by a release that was once a month."""
    base = order(SECTORS, unit=own_unit, units=stated)
    later = [
        replace(unit, neighbours=n, name=name)
        for n in fn.Neighbours
        for name in ("person", "home", "child")
        for unit in (person(1), person(2), person(3), person(7), person(3, "a0"), person(3, "o"), person(6, "a0"))
    ] + [person(1, column="pid", neighbours=n) for n in fn.Neighbours]
    with Ledger(":memory:") as ledger:
        entry = measured(base, ledger)
        for unit in later:
            other = account(base.source, unit, base.domain)
            if other == base.account:
                continue
            charged, cost = entry.price(other), base.cost(unit)
            assert charged is None or (cost is not None and charged.rho >= cost.rho)


def test_releases_once_a_month_and_others_add_up_in_one_account():
    units = [person(12, "a0", column="pid"), person(12, column="pid"), person(12, "o", column="pid")]
    with Ledger(":memory:") as ledger:
        charges = [measured(order(SECTORS, unit=u, plan=f"{i:064}"), ledger).rho for i, u in enumerate(units)]
        (account,) = ledger.accounts()
        assert account == Account("homes", person(1, column="pid"))
        assert ledger.balance(account).spent == sum(charges)
        assert charges[0] < charges[1]


def test_a_promise_does_not_evade_a_cap_for_persons_anywhere():
    """A cap for persons by an id, or with as many records, is charged as if nothing were promised."""
    unpromised = order(SECTORS, unit=person(3)).loss.rho
    once = order(SECTORS, unit=person(3, "a0"))
    for capped in (person(1, column="pid"), person(3)):
        with Ledger(":memory:") as ledger:
            ledger.set_cap(Account("homes", capped), unpromised)
            ledger.set_cap(once.account, 9 * unpromised)
            entry = measured(once, ledger)
            assert entry.rho < unpromised
            assert ledger.balance(Account("homes", capped)).remaining == 0


def test_further_units_by_the_id_are_once_per_the_same():
    own_unit = person(3, "a0", column="pid")
    order(SECTORS, unit=own_unit, units=(replace(own_unit, neighbours=REPLACE),))
    for other in (person(3, column="pid", neighbours=REPLACE), person(3, "o", column="pid", neighbours=REPLACE)):
        with refused("plan.unit-with-another-id"):
            order(SECTORS, unit=own_unit, units=(other,))


def test_designs_without_a_proof_for_others_cost_as_if_nothing_were_stated():
    """If a change of one unit is not one of the other, the charge is that of persons anywhere."""
    domain, query = zoo.QUESTIONS["count"]
    adjacency = Adjacency(person(2, "o"))
    answer = zoo.DESIGNS["count by tight constraints"](adjacency)
    base = replace(order(SECTORS), domain=domain.axes, designs=(answer,), unit=adjacency.unit)
    free = replace(base, unit=adjacency.without_pattern.unit)
    for other in (fn.PrivacyUnit(), person(7), person(7, neighbours=REPLACE)):
        assert base.cost(other) == free.cost(other)
    assert query.name == "q"
