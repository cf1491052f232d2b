"""Measurements axis by axis cost exactly the amount from their columns, for integers of any size."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo
from dense import strategy_matrix
from designs import cells_over, of_products, of_sectors
from fitnoise.kernel.designs import clusters, linear, products
from fitnoise.kernel.designs.linear import MAX_SCALE
from fitnoise.kernel.designs.products import Factor, ProductGroup
from fitnoise.kernel.units import Neighbours
from fitnoise.solving import witnesses
from fitnoise.solving.witnesses import claimed, find_cluster_claim
from laws.designs import check_design
from refused import refused

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
ONE = np.array([1])


class Holding:
    """A plan of one part with this strategy, which is written out as a dense matrix."""

    def __init__(self, strategy):
        self.table_part = SimpleNamespace(strategy=strategy)


def largest_column(design):
    """The largest squared column of the dense integers over σ²."""
    rows, scales = strategy_matrix(Holding(design))
    weights = [1 / Fraction(s) ** 2 for s in scales.tolist()]
    return max(sum(w * int(x) ** 2 for w, x in zip(weights, column, strict=True)) for column in rows.T)


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", zoo.ADJACENCIES)
@pytest.mark.parametrize("name", zoo.PRODUCTS)
def test_what_is_lost_is_what_neighbours_differ_by(name, neighbours, rng):
    """Exactly where records come or go; where they are replaced it is a bound."""
    adjacency = zoo.ADJACENCIES[neighbours]
    check_design(zoo.PRODUCTS[name], adjacency, rng, exact=adjacency.by_cell)


@pytest.mark.parametrize("name", zoo.PRODUCTS)
def test_in_small_pieces_it_is_the_same(name, rng, monkeypatch):
    monkeypatch.setattr(linear, "NUMBERS_PER_BATCH", 3)
    check_design(zoo.PRODUCTS[name], zoo.ADJACENCIES["add or remove"], rng)


@st.composite
def random_designs(draw):
    """Up to three attributes with some factor or their centring, and some sets of them."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    entries = st.one_of(st.integers(-3, 3), st.integers(-(2**61), 2**61))
    factors = []
    for n in sizes:
        count = draw(st.integers(0, 3))
        rows = [draw(st.lists(entries, min_size=n, max_size=n)) for _ in range(count)]
        factors.append(rows or None)
    groups = []
    for k in range(len(sizes) + 1):
        sets = draw(st.lists(st.sets(st.integers(0, len(sizes) - 1), min_size=k, max_size=k), max_size=2))
        fine = draw(st.booleans())
        scales_by_set = {}
        for x in {tuple(sorted(x)) for x in sets}:
            scales = math.prod(len(factors[a] or [0]) for a in x) if fine else 1
            each = draw(st.lists(st.integers(1, 2**30), min_size=scales, max_size=scales))
            scales_by_set[x] = draw(st.integers(1, 2**61)), [s / 8 for s in each]
        groups += [scales_by_set] if scales_by_set else []
    groups = groups or [{(): (1, 1)}]
    return of_products(cells_over(sizes), factors, *groups)


@pytest.mark.no_cover
@settings(max_examples=200)
@given(random_designs())
def test_the_price_is_that_of_the_costliest_joint_cell(design):
    """Detects integers that wrap around: squares of 64 bits do, and so do their products."""
    exact, stated = largest_column(design), design.cost_squared(ADD)
    assert stated == design.max_record_cost <= sum(design.group_costs)
    assert stated == exact
    assert design.joint or stated == sum(design.group_costs)
    assert design.profile() == (design.max_record_cost,)
    rows = strategy_matrix(Holding(design))[0]
    assert len(rows) == sum(design.lengths) == design.portions.sum()


@pytest.mark.no_cover
@given(random_designs(), st.integers(0, 30))
def test_above_the_cell_limit_the_price_is_a_bound(design, cells):
    """Detects what is added to one cluster and not taken from another, and 64-bit integers that wrap around."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "MAX_JOINT_CELLS", cells)
        priced, unclaimed = claimed(replace(design), zoo.ADJACENCIES["add or remove"]), replace(design)
        assert largest_column(design) <= priced.max_record_cost <= unclaimed.max_record_cost <= sum(design.group_costs)


def test_what_values_cost_is_evened_out_between_clusters(monkeypatch):
    """Each on its own they would cost a third more."""
    exact = replace(zoo.DISAGREEING).max_record_cost
    monkeypatch.setattr(clusters, "MAX_JOINT_CELLS", 80)
    design = replace(zoo.DISAGREEING)
    bound = claimed(design, zoo.ADJACENCIES["add or remove"]).max_record_cost
    assert exact == largest_column(design) <= bound < exact * Fraction(101, 100)
    monkeypatch.setattr(witnesses, "BALANCING_ROUNDS", 0)
    assert exact * Fraction(130, 100) < design.max_record_cost <= sum(design.group_costs)
    assert claimed(design, zoo.ADJACENCIES["add or remove"]).max_record_cost <= design.max_record_cost


@pytest.mark.parametrize("bits", [4, 40, 59, 62, 100, 300])
def test_of_two_clusters_the_bound_is_the_cost_of_the_costliest_cell(bits):
    """They share one attribute: the bound is rounded up by less than one part in 2⁵⁰, and not at all in 64 bits."""
    draw = np.random.default_rng(bits)
    for _ in range(20):
        one, two = ([[int.from_bytes(draw.bytes(40)) >> 320 - bits for _ in range(m)] for _ in range(n)]
                    for n, m in ((2, 3), (3, 2)))  # fmt: skip
        costs = {(0, 1): np.array(one, dtype=object), (1, 2): np.array(two, dtype=object)}
        exact = max(one[i][j] + two[j][k] for i, j, k in itertools.product(range(2), range(3), range(2)))
        bound = find_cluster_claim(costs, (2, 3, 2)).bound
        assert bound == exact if bits < 50 else exact <= bound <= exact + (exact >> 50)
        assert find_cluster_claim({(0, 1): costs[0, 1]}, (2, 3)).bound >= max(map(max, one))


def test_as_many_cells_are_looked_at_as_may_be(monkeypatch):
    """For three clusters in a ring, no averaging gives the cost of the costliest cell."""
    rows, sets = [[1, 0], [0, 1]], dict.fromkeys(((0, 1), (1, 2), (0, 2)), (1, [2, 1, 1, 2]))
    for cells, expected in ((8, Fraction(9, 4)), (7, 3)):
        monkeypatch.setattr(clusters, "MAX_JOINT_CELLS", cells)
        design = of_products(cells_over((2, 2, 2)), [rows] * 3, sets)
        assert claimed(design, zoo.ADJACENCIES["add or remove"]).max_record_cost == expected


@pytest.mark.parametrize("part", [(0, 1), (0, 2), (1, 2)])
def test_what_lies_within_another_set_is_added_to_it(part):
    """No cell is costly in both."""
    same = np.array([[2, 0], [0, 2]], dtype=object)
    larger = np.repeat(np.expand_dims(2 - same, 3 - sum(part)), 2, axis=3 - sum(part))
    assert find_cluster_claim({(0, 1, 2): larger, part: same}, (2, 2, 2)).bound == 2


def test_costs_of_rows_in_64_bits_would_be_too_small():
    """One scale for each row: 4·2⁶⁶ and a little for the other value."""
    design = of_products(cells_over((2,)), ([[2**34, 0], [0, 2**20]],), {(0,): (1, [1, 3])})
    assert design.max_record_cost == 2**68


def furthest(design):
    """The largest squared distance of two columns of the dense integers over σ."""
    rows, scales = strategy_matrix(Holding(design))
    weights = [1 / Fraction(s) ** 2 for s in scales.tolist()]
    columns = [[int(x) for x in column] for column in rows.T]
    pairs = (zip(weights, one, other, strict=True) for one, other in itertools.combinations(columns, 2))
    return max((sum(w * (x - y) ** 2 for w, x, y in z) for z in pairs), default=0)


@pytest.mark.no_cover
@pytest.mark.parametrize("choices", [products.MAX_CHOICES, 7, 1])
@settings(max_examples=40)
@given(random_designs())
def test_a_record_replaced_costs_no_more_than_one_removed_and_one_added(choices, design):
    """Computed by attribute, factor or set. Detects products of columns that wrap around, or differ the wrong way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "MAX_CHOICES", choices)
        assert furthest(design) <= design.cost_squared(REPLACE) <= 4 * design.max_record_cost


ROTATED = [[1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]
"""Columns of one square, all pairs of which have one product."""


@pytest.mark.parametrize(
    ("choices", "sizes", "factors", "sets"),
    [
        (products.MAX_CHOICES, (3, 2, 4), (None, None, ROTATED), {(0, 1): (1, 4), (1, 2): (2, 5), (0, 2): (3, 8)}),
        (products.MAX_CHOICES, (3, 2), (None, None), {(0, 1): (5, 4)}),
        (6, (3, 3, 3), (None,) * 3, {(0, 1): (2, 4), (0, 2): (2, 4), (1, 2): (2, 4)}),
        (4, (4, 4, 4), (ROTATED,) * 3, {(0, 1, 2): (1, 3)}),
        (1, (2, 2), (None, None), {(0, 1): (1, 3)}),
        (1, (3, 2), ([[1, 1, -1]], None), {(0, 1): (1, 3)}),
    ],
)
def test_where_all_pairs_of_values_are_equal_replacing_is_priced_exactly(monkeypatch, choices, sizes, factors, sets):
    """With few choices: attributes one by one; then by factor; a single set on its own. Detects a loose bound."""
    monkeypatch.setattr(products, "MAX_CHOICES", choices)
    design = of_products(cells_over(sizes), factors, {(): (1, 2)}, sets)
    assert design.cost_squared(REPLACE) == furthest(design)


def test_attributes_of_one_factor_cost_as_much_as_the_costliest_of_their_sets(monkeypatch):
    """Unlike sets are charged the same, never less; each on its own if that is less."""
    sets = {(0, 1): (2, 4), (0, 2): (1, 4), (1, 2): (1, 4)}
    design = of_products(cells_over((3, 3, 3)), (None,) * 3, sets)
    costly = of_products(cells_over((3, 3, 3)), (None,) * 3, dict.fromkeys(sets, (2, 4)))
    exact = design.cost_squared(REPLACE)
    monkeypatch.setattr(products, "MAX_CHOICES", 6)
    fresh, costly = design.without_cache(zoo.ADJACENCIES["replace"]), costly.without_cache(zoo.ADJACENCIES["replace"])
    monkeypatch.setattr(products.ProductStrategy, "_sum_of_maxima", lambda *_: 10**100)
    assert furthest(design) == exact < fresh.cost_squared(REPLACE) == costly.cost_squared(REPLACE)


@pytest.mark.parametrize("small", [[[1, -1, 0]], [[0, 1, -1]]])
def test_attributes_of_different_factors_are_not_taken_for_each_other(small, monkeypatch):
    """A factor of low cost in place of a costly one gives too low a price."""
    design = of_products(cells_over((3, 3)), (small, [[9, -9, 0]]), {(0,): (1, 1), (1,): (1, 1)})
    monkeypatch.setattr(products, "MAX_CHOICES", 3)
    assert design.cost_squared(REPLACE) == furthest(design) == 2**2 + 18**2


def test_a_price_in_64_bits_would_be_too_small():
    """Products of squares in 64 bits fail: 3·2⁶⁶ is 0 modulo 2⁶⁴."""
    design = of_products(cells_over((2, 2)), ([[2**33, 1]], [[3, 1]]), {(0, 1): (1, 1)})
    assert design.max_record_cost == 9 * 2**66
    with np.errstate(over="ignore"):
        wrapped = int((design.factors[0].rows ** 2).sum(axis=0).max()) * 9
    assert wrapped < design.max_record_cost


def test_centrings_are_those_of_sectors():
    """These sectors as a design of exchangeable attributes cost and measure the same."""
    products_design = of_products(
        cells_over((3, 2)), (None, None), {(): (3, 5)}, {(0,): (1, 4), (1,): (7, 8.5)}, {(0, 1): (2, 3)}
    )
    sectors_design = of_sectors(
        cells_over((3, 2)),
        ([[1]], {(): ([[3]], 5)}),
        ([[1]], {(0,): ([[1]], 4), (1,): ([[7]], 8.5)}),
        ([[1]], {(0, 1): ([[2]], 3)}),
    )
    assert products_design.cost_squared(ADD) == sectors_design.cost_squared(ADD)
    assert products_design.group_costs == sectors_design.group_costs
    assert sectors_design.cost_squared(REPLACE) == products_design.cost_squared(REPLACE)
    adjacency = zoo.ADJACENCIES["add or remove"]
    assert products_design.margins() == sectors_design.margins()
    assert products_design.ledger_detail(adjacency) == sectors_design.ledger_detail(adjacency)
    for neighbours in zoo.ADJACENCIES.values():
        assert products_design.loss(neighbours).precision == sectors_design.loss(neighbours).precision == Fraction(1, 9)
    counts = {
        m: np.arange(1, 1 + np.prod([3, 2][: len(m)] if m != ("a1",) else [2])) for m in products_design.margins()
    }
    for mine, theirs in zip(
        products_design.exact_answers(counts, adjacency, 2**20),
        sectors_design.exact_answers(counts, adjacency, 2**20),
        strict=True,
    ):
        assert mine.tolist() == theirs.tolist()


def test_many_scales_are_rounded_up():
    design = of_products(cells_over((2,) * 7), (None,) * 7, *_many())
    assert len(set(design.scales)) > linear.EXACT_SCALES
    exact = largest_column(design)
    assert exact <= design.max_record_cost <= exact * (1 + Fraction(1, 2**80))


def _many():
    scales = iter(np.arange(3, 40, 1 / 8))
    by_size = [[x for x in range(128) if x.bit_count() == k] for k in range(8)]
    return [{tuple(i for i in range(7) if x >> i & 1): (1, next(scales)) for x in group} for group in by_size]


@pytest.mark.parametrize(
    "change",
    [
        lambda: Factor(np.ones((2, 2))),
        lambda: Factor(np.ones(2, dtype=np.int64)),
        lambda: Factor(np.zeros((0, 2), dtype=np.int64)),
        lambda: Factor(np.array([[2**62, 0]])),
        lambda: Factor(np.array([[-(2**63), 0]])),
        lambda: ProductGroup(np.array([[1, 0]]), ONE, np.array([1.0])),
        lambda: ProductGroup(np.array([[0, 0]]), ONE, np.array([1.0])),
        lambda: ProductGroup(np.array([0]), ONE, np.array([1.0])),
        lambda: ProductGroup(np.array([[0]], dtype=np.int32), ONE, np.array([1.0])),
        lambda: ProductGroup(np.array([[0]]), np.array([0]), np.array([1.0])),
        lambda: ProductGroup(np.array([[0]]), np.array([2**62]), np.array([1.0])),
        lambda: ProductGroup(np.array([[0]]), np.array([1, 1]), np.array([1.0])),
        lambda: ProductGroup(np.array([[0]]), np.array([1.0]), np.array([1.0])),
        lambda: ProductGroup(np.array([[0]]), ONE, np.array([0.0])),
        lambda: ProductGroup(np.array([[0]]), ONE, np.array([np.nan])),
        lambda: ProductGroup(np.array([[0]]), ONE, np.array([2 * MAX_SCALE])),
        lambda: ProductGroup(np.array([[0]]), ONE, np.array([1])),
        lambda: ProductGroup(np.array([[0]]), ONE, np.array([[1.0]])),
        lambda: ProductGroup(np.array([[0]]), ONE, np.array([])),
        lambda: of_products(cells_over((2, 3)), ([[1, 2], [3, 4]], None), {(0, 1): (1, [1, 1, 1])}),
        lambda: of_products(cells_over((2, 3)), ([[1, 2], [3, 4]], None), {(0,): (1, 1), (1,): (1, [1, 2, 3])}),
        lambda: of_products(cells_over((2,)), (None, None), {(0,): (1, 1)}),
        lambda: of_products(cells_over((2, 2)), (None,), {(0,): (1, 1)}),
        lambda: of_products(cells_over((2,)), ([[1, 2, 3]],), {(0,): (1, 1)}),
        lambda: of_products(cells_over((2,), 2), (None,), {(0,): (1, 1)}),
        lambda: of_products(cells_over((2,)), (None,)),
        lambda: of_products(cells_over((2,)), (None,), {(1,): (1, 1)}),
        lambda: of_products(cells_over((2,)), (None,), {(-1,): (1, 1)}),
        lambda: of_products(cells_over((2,)), (None,), {(0,): (1, 1)}, {(0,): (1, 2)}),
    ],
)
def test_what_is_no_product_is_refused(change):
    with refused(
        "plan.attributes-not-increasing",
        "plan.factor-not-integers",
        "plan.factors-misfit-domain",
        "plan.measured-twice",
        "plan.noise-out-of-range",
        "plan.product-empty",
        "plan.product-multiples-out-of-range",
        "plan.product-scales-misfit",
        "plan.product-sets-misfit-domain",
        "plan.product-sets-not-positions",
    ):
        change()


def test_what_is_measured_stays_what_was_priced():
    design = zoo.PRODUCTS["products of factors"].without_cache(zoo.ADJACENCIES["add or remove"])
    for held in (design.factors[0].rows, *(x for g in design.groups for x in (g.attributes, g.multiples, g.scales))):
        with pytest.raises(ValueError, match="read-only"):
            held[...] = 0
    rows = np.array([[1, 2]])
    factor = Factor(rows)
    rows[0, 0] = 100
    assert factor.rows.tolist() == [[1, 2]]
    assert replace(factor).rows is not factor.rows


def test_the_largest_entries_of_factors():
    """They say where 64 bits could wrap around."""
    assert [Factor(None).largest(n) for n in (1, 2, 3, 7)] == [1, 1, 2, 6]
    assert [Factor(np.array([x])).largest(2) for x in ([0, 0], [1, 0], [-5, 3])] == [1, 1, 5]


def test_a_price_is_recomputed():
    design = zoo.PRODUCTS["products of factors"]
    fresh = design.without_cache(zoo.ADJACENCIES["add or remove"])
    for mine, theirs in zip((*fresh.factors, *fresh.groups), (*design.factors, *design.groups), strict=True):
        assert mine is not theirs


def test_nothing_measured_costs_nothing():
    none = ProductGroup(np.zeros((0, 1), dtype=np.intp), np.zeros(0, dtype=np.int64), np.zeros(0))
    design = replace(of_products(cells_over((2,)), (None,), {(): (1, 2)}), groups=(none,))
    adjacency = zoo.ADJACENCIES["add or remove"]
    assert (design.loss(adjacency).rho, design.loss(adjacency).precision) == (0, 0)
    assert [len(x) for x in design.exact_answers({}, adjacency, 2**40)] == [0]
