"""Measurements of nested places cost exactly the amount from their columns, for any integers and classes."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fitnoise as fn
import zoo
from dense import strategy_matrix
from designs import cells_over, of_trees
from fitnoise.kernel.designs import linear, trees
from fitnoise.kernel.designs._base import INT64_SAFE_BOUND
from fitnoise.kernel.designs.linear import MAX_SCALE
from fitnoise.kernel.designs.trees import MeasuredTree
from fitnoise.kernel.order import Order
from fitnoise.kernel.units import Neighbours
from laws import check_design
from refused import refused

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
K = (np.array([1, 2]),)


def of_counties(*asked, beside=(2,), n=2):
    """Return a nation of counties of one class, with attributes, and its measurements."""
    alike = np.zeros(n, dtype=int)
    return of_trees(cells_over((*beside, n)), (len(beside),), (alike,), (alike,), *asked)


class Holding:
    """The part of a plan that is written out as a dense matrix."""

    def __init__(self, strategy):
        self.strategy = strategy


def columns(design):
    """The columns of the dense integers where levels lie in one another, and 1/σ² of their rows."""
    rows, scales = strategy_matrix(Holding(design))
    cells = np.indices(design.sizes).reshape(len(design.sizes), -1)
    upper, lower = design.levels
    there = design.above[1][cells[lower]] == cells[upper]
    return [[int(x) for x in column] for column in rows.T[there]], [1 / Fraction(s) ** 2 for s in scales.tolist()]


@pytest.mark.no_cover
@pytest.mark.parametrize("neighbours", zoo.ADJACENCIES)
@pytest.mark.parametrize("name", zoo.TREES)
def test_what_is_lost_is_what_neighbours_differ_by(name, neighbours, rng):
    """Exactly where records come or go; where they are replaced it is a bound."""
    of = zoo.ADJACENCIES[neighbours]
    check_design(zoo.TREES[name], of, rng, exact=of.by_cell)


def test_in_small_pieces_it_is_the_same(rng, monkeypatch):
    monkeypatch.setattr(linear, "NUMBERS_PER_BATCH", 3)
    check_design(zoo.TREES["a tree beside an attribute"], zoo.ADJACENCIES["add or remove"], rng)


@st.composite
def made(draw):
    """Draw two levels of places in some classes, up to two attributes, and the measurements of a few sets of these."""
    beside = draw(st.lists(st.integers(2, 4), max_size=2))
    inside = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    upper = np.array(draw(st.lists(st.integers(0, 1), min_size=len(inside), max_size=len(inside))))
    above = np.repeat(np.arange(len(inside)), inside)
    alike = np.array(draw(st.lists(st.integers(0, 1), min_size=len(above), max_size=len(above))))
    first = np.unique(upper, return_inverse=True)[1]
    second = np.unique(2 * first[above] + alike, return_inverse=True)[1]
    kinds = [1, int(first.max()) + 1, int(second.max()) + 1]
    entries = st.one_of(st.integers(1, 3), st.integers(1, 2**61))
    asked = []
    sets = st.lists(st.sets(st.integers(0, len(beside) - 1)) if beside else st.just(set()), min_size=1, max_size=3)
    for own in {tuple(sorted(x)) for x in draw(sets)}:
        deep = draw(st.integers(0, 2))
        k = [draw(st.lists(entries, min_size=n, max_size=n)) for n in kinds[1 : deep + 1]]
        levels = sorted({*draw(st.sets(st.integers(0, deep))), deep})
        scale = st.integers(1, 2**30).map(lambda x: x / 8)
        at = {x: draw(st.lists(scale, min_size=kinds[x], max_size=kinds[x])) for x in levels}
        asked.append((own, draw(st.integers(1, 2**61)), k, at))
    sizes = (*beside, len(inside), len(above))
    n = len(beside)
    return of_trees(cells_over(sizes), (n, n + 1), (np.zeros(len(inside), dtype=int), above), (first, second), *asked)


@pytest.mark.no_cover
@given(made())
def test_the_price_is_that_of_the_dearest_place(design):
    """Detects integers that wrap around, and a class that stands for places that cost more."""
    each, weights = columns(design)
    own = [sum(w * x**2 for w, x in zip(weights, column, strict=True)) for column in each]
    assert design.cost_squared(ADD) == design.max_record_cost == max(own)
    assert design.profile() == (design.max_record_cost,)
    assert max(design.group_costs) <= design.max_record_cost <= sum(design.group_costs)
    assert design.answers == len(weights) == sum(design.lengths) == design.portions.sum()


@pytest.mark.no_cover
@given(made())
def test_a_record_replaced_costs_no_more_than_is_bounded(design):
    each, weights = columns(design)
    unit = math.lcm(*(w.denominator for w in weights))
    rows = np.array(each, dtype=object)
    whole = np.array([int(w * unit) for w in weights], dtype=object)  # NumPy makes doubles of lists around 2⁶³
    gram = (rows * whole) @ rows.T
    own = gram.diagonal()
    most = Fraction(int((own[:, None] + own - 2 * gram).max()), unit)
    assert most <= design.cost_squared(REPLACE) <= 4 * design.max_record_cost


@given(made())
def test_of_many_attributes_only_the_largest_moves_are_looked_at(design):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "MAX_MEETINGS", 0)
        rough = replace(design).cost_squared(REPLACE)
    assert design.cost_squared(REPLACE) <= rough <= 4 * design.max_record_cost


def test_where_records_meet_is_looked_at_up_to_a_limit(monkeypatch):
    """Two levels, two sets that are measured, one class of leaves, and two sets of attributes that may differ.

    Sexes move by 4 at each level where totals stay; beyond the limit, totals are charged 2 at each level as well.
    """
    plain = ((), 1, [[1]], {0: [1.0], 1: [1.0]}), ((0,), 1, [[1]], {0: [1.0], 1: [1.0]})
    for most, cost in ((2 * 2 * 1 * 2, 2 * 4), (2 * 2 * 1 * 2 - 1, 2 * (4 + 2))):
        monkeypatch.setattr(trees, "MAX_MEETINGS", most)
        design = of_counties(*plain)
        assert design.cost_squared(REPLACE) == cost


def test_replaced_records_meet_somewhere():
    """Nation, at 1/σ² = 1, and two counties at w, each with and without sex: other sex in another county, or in one.

    In one county sexes alone move, by 4 (1 + w). In two the counties move by 2 w, and sexes by 2 (1 + w) and 2, as they
    differ in the nation as well.
    """
    for w in (1, 64, Fraction(1, 64)):
        at = {0: [1.0], 1: [float(w) ** -0.5]}
        plain = ((), 1, [[1]], at), ((0,), 1, [[1]], at)
        design = of_counties(*plain)
        assert design.max_record_cost == 2 * (1 + w)
        assert design.cost_squared(REPLACE) == 4 * (1 + w) == 2 * w + 2 * (1 + w) + 2


def test_replaced_records_meet_where_sexes_are_measured_and_counties_are_not():
    """Nation by sex, of counties counted twice, and counties: others of two counties move 16, twice w, and little."""
    w, little = Fraction(1, 4), 1 / Fraction(1e9) ** 2
    counties, sexes = ((), 1, [[2]], {1: [2.0]}), ((0,), 1, [[2]], {0: [1.0], 1: [1e9]})
    design = of_counties(counties, sexes)
    assert design.cost_squared(REPLACE) == 16 + 2 * w + 2 * little


def test_who_differs_in_two_attributes_is_alike_in_both_together():
    """Each of two of two values, and both: who differs in one moves it and both by 2, who differs in both, each."""
    asked = (((0,), 1, [], {0: [1.0]}), ((1,), 1, [], {0: [1.0]}), ((0, 1), 1, [], {0: [1.0]}))
    design = of_counties(*asked, beside=(2, 2))
    assert design.cost_squared(REPLACE) == 2 * 2**2


def test_weighted_sums_of_places_are_moved_by_the_heaviest_and_the_lightest():
    """Detects a common part that is taken off as if both records weighed as much: (3 − 1)² is left, and w of each."""
    w = Fraction(1, 4)
    asked = (), 1, [[3, 1]], {0: [1.0], 1: [2.0, 2.0]}
    design = of_trees(cells_over((2,)), (0,), (np.zeros(2, dtype=int),), ([0, 1],), asked)
    each, bound = [9 + w, 1 + w], 2 * (9 + w - 3 * 1)
    assert design.max_record_cost == max(each)
    assert (3 - 1) ** 2 + 2 * w <= design.cost_squared(REPLACE) == bound


@pytest.mark.parametrize("name", [*zoo.TREES, *zoo.PRODUCTS])
def test_a_unit_costs_the_square_of_its_records_times_the_dearest_step(name):
    design = (zoo.TREES | zoo.PRODUCTS)[name]
    for of in (
        zoo.ADJACENCIES[x] for x in ("add or remove 3", "replace", "replace 2", "replace, dropped", "replace 3")
    ):
        assert design.loss(of).cost_squared == of.records**2 * max(map(design.cost_squared, of.step_relations))


def test_who_may_come_alone_pays_for_the_total_as_well():
    """The cost is the same for any replaced record."""
    design = of_trees(cells_over((2,)), (0,), (np.zeros(2, dtype=int),), ([0, 0],), ((), 1, [], {0: [4.0]}))
    assert design.loss(zoo.ADJACENCIES["replace"]).cost_squared == design.cost_squared(REPLACE) == 0
    assert design.loss(zoo.ADJACENCIES["replace, dropped"]).cost_squared == design.max_record_cost == Fraction(1, 16)


def test_in_one_place_sexes_differ_by_all_they_can():
    """County by sex, and the nation by age: the costliest are two of one county who differ in both, exactly."""
    asked = ((0,), 1, [[1]], {1: [1.0]}), ((1,), 1, [[1]], {0: [1.0], 1: [1e9]})
    design = of_counties(*asked, beside=(2, 5))
    nation = 20 * (1 + 1 / Fraction(1e9) ** 2)
    assert design.cost_squared(REPLACE) == 2 * (2 + nation + nation / 4)


def test_many_scales_are_rounded_up():
    scales = np.arange(3, 40, 1 / 8)[:100]
    at = list(range(100))
    design = of_trees(cells_over((100,)), (0,), ([0] * 100,), (at,), ((), 1, ([1] * 100,), {1: scales}))
    assert len(set(design.scales)) > linear.EXACT_SCALES
    assert Fraction(1, 9) <= design.max_record_cost <= Fraction(1, 9) * (1 + Fraction(1, 2**80))


SEXES = of_counties(((0,), 1, [[1]], {1: [1.0]}), n=3)


@pytest.mark.parametrize("design", [*zoo.TREES.values(), SEXES], ids=[*zoo.TREES, "sexes"])
def test_64_bits_are_taken_where_they_hold_every_answer(design):
    """The largest number of records in one cell, or one more: (n − 1) m Π k times as many, 1 for n = 2."""
    for i, g in enumerate(design.groups):
        most = (
            g.multiple
            * math.prod(int(max(k)) for k in g.factors)
            * math.prod(max(design.sizes[a] - 1, 1) for a in g.attributes)
        )
        counts = {m: np.zeros([design.sizes[int(a[1:])] for a in m], dtype=np.int64) for m in design.margins()}
        for records, kind in (((INT64_SAFE_BOUND - 1) // most, np.int64), ((INT64_SAFE_BOUND - 1) // most + 1, object)):
            assert design.exact_answers(counts, zoo.ADJACENCIES["add or remove"], records)[i].dtype == kind


def test_answers_stand_by_class_and_in_a_class_as_the_places_do():
    """There are more places than NumPy's default sort keeps in order."""
    classes = np.arange(1000) % 3
    design = of_trees(cells_over((1000,)), (0,), ([0] * 1000,), (classes,), ((), 1, ([1] * 3,), {1: [2, 3, 4]}))
    assert design.orders[1].tolist() == [i for c in range(3) for i in range(c, 1000, 3)]


def test_what_is_told_of_it_names_what_is_measured_and_its_price():
    design = zoo.TREES["a tree beside an attribute"]
    assert design.ledger_detail(zoo.ADJACENCIES["add or remove"])["sectors"] == [
        {"count": 4, "of": ["a2"], "cost_squared": str(design.group_costs[0])},
        {"count": 5, "of": ["a0", "a1", "a2"], "cost_squared": str(design.group_costs[1])},
    ]


def test_a_price_is_computed_afresh():
    design = zoo.TREES["a tree beside an attribute"]
    fresh = design.without_cache(zoo.ADJACENCIES["add or remove"])
    assert all(mine is not theirs for mine, theirs in zip(fresh.groups, design.groups, strict=True))


WHOLE = ((), 1, ([1, 2],), {1: [1, 2]})


def two(*asked, sizes=(2,), levels=(0,), above=([0, 0],), classes=([0, 1],)):
    return of_trees(cells_over(sizes), levels, above, classes, *asked)


@pytest.mark.parametrize(
    "change",
    [
        lambda: MeasuredTree((), 1, (np.ones((2, 2), dtype=np.int64),), {1: np.ones(2)}),
        lambda: MeasuredTree((), 1, K, {1: np.ones((2, 1))}),
        lambda: MeasuredTree((), 0, K, {1: np.ones(2)}),
        lambda: MeasuredTree((), 2**62, K, {1: np.ones(2)}),
        lambda: MeasuredTree((), 1.0, K, {1: np.ones(2)}),
        lambda: MeasuredTree((), 1, (np.array([0, 1]),), {1: np.ones(2)}),
        lambda: MeasuredTree((), 1, (np.array([2**62, 1]),), {1: np.ones(2)}),
        lambda: MeasuredTree((), 1, (np.array([1.0, 1.0]),), {1: np.ones(2)}),
        lambda: MeasuredTree((), 1, (np.array([1, 1], dtype=np.int32),), {1: np.ones(2)}),
        lambda: MeasuredTree((), 1, K, {}),
        lambda: MeasuredTree((), 1, K, {0: np.ones(1)}),
        lambda: MeasuredTree((), 1, K, {1: np.ones(2), 0: np.ones(1)}),
        lambda: MeasuredTree((), 1, K, {-1: np.ones(2), 1: np.ones(2)}),
        lambda: MeasuredTree((), 1, K, {1: np.zeros(2)}),
        lambda: MeasuredTree((), 1, K, {1: np.array([1, np.nan])}),
        lambda: MeasuredTree((), 1, K, {1: np.array([1, 2 * MAX_SCALE])}),
        lambda: MeasuredTree((), 1, K, {1: np.array([1, 2])}),
        lambda: MeasuredTree((1, 0), 1, K, {1: np.ones(2)}),
        lambda: MeasuredTree((0, 0), 1, K, {1: np.ones(2)}),
        two,
        lambda: two(WHOLE, levels=(1,)),
        lambda: two(WHOLE, levels=()),
        lambda: two(WHOLE, sizes=(2, 2), levels=(0, 0), above=([0, 0], [0, 1]), classes=([0, 1], [0, 1])),
        lambda: two(WHOLE, above=()),
        lambda: two(WHOLE, classes=([0, 1], [0, 1])),
        lambda: two(WHOLE, classes=([0, 2],)),
        lambda: two(WHOLE, classes=([-1, 0],)),
        lambda: two(WHOLE, classes=([0, 1, 1],)),
        lambda: two(WHOLE, classes=([0.0, 1.0],)),
        lambda: two(WHOLE, above=([0, 1],)),
        lambda: two(WHOLE, above=([1, 1],)),
        lambda: two(WHOLE, sizes=(3, 3), levels=(0, 1), above=([0] * 3, [0, 0, 2]), classes=([0, 1, 0], [0, 0, 0])),
        lambda: two(WHOLE, sizes=(2, 3), levels=(0, 1), above=([0] * 2, [0, 0, 0]), classes=([0, 0], [0, 0, 0])),
        lambda: two(WHOLE, above=([0, 0, 0],)),
        lambda: two(WHOLE, above=([0.0, 0.0],)),
        lambda: two(WHOLE, sizes=(2, 3), levels=(0, 1), above=([0, 0], [0, 1, 0]), classes=([0, 1], [0, 1, 0])),
        lambda: two(WHOLE, sizes=(2, 2), levels=(0, 1), above=([0, 0], [0, 1]), classes=([0, 1], [0, 0])),
        lambda: two(((), 1, ([1, 2, 3],), {1: [1, 2]})),
        lambda: two(((), 1, ([1, 2],), {1: [1]})),
        lambda: two(((), 1, ([1, 2], [1, 2]), {2: [1, 2]})),
        lambda: two(((0,), 1, ([1, 2],), {1: [1, 2]})),
        lambda: two(((1,), 1, ([1, 2],), {1: [1, 2]})),
        lambda: two(((-1,), 1, ([1, 2],), {1: [1, 2]})),
        lambda: two(((1,), 1, ([1, 2],), {1: [1, 2]}), sizes=(2, 1)),
        lambda: two(WHOLE, WHOLE),
        lambda: replace(two(WHOLE), structure=cells_over((2,), 2)),
    ],
)  # fmt: skip
def test_what_is_no_tree_is_refused(change):
    with refused(
        "plan.attributes-not-increasing",
        "plan.measured-twice",
        "plan.noise-out-of-range",
        "plan.tree-class-in-several-classes",
        "plan.tree-classes-out-of-range",
        "plan.tree-empty",
        "plan.tree-factors-out-of-range",
        "plan.tree-group-misfits-places",
        "plan.tree-levels-not-in-order",
        "plan.tree-misfits-domain",
        "plan.tree-numbers-not-by-class",
        "plan.tree-places-not-in-order",
    ):
        change()


def test_what_is_measured_stays_what_was_priced():
    design = zoo.TREES["a tree beside an attribute"].without_cache(zoo.ADJACENCIES["add or remove"])
    own = [x for g in design.groups for x in (*g.factors, *g.scales.values())]
    for held in (*own, *design.above, *design.classes):
        with pytest.raises(ValueError, match="read-only"):
            held[...] = 0
    k = np.array([1, 2])
    tree = MeasuredTree((), 1, (k,), {1: np.ones(2)})
    k[0] = 100
    assert tree.factors[0].tolist() == [1, 2]
    assert replace(tree).factors[0] is not tree.factors[0]


def test_a_price_of_nested_places_is_for_those_of_the_domain():
    """Levels that are counted separately are priced together: detects a tree of others, with too low a price."""
    design = zoo.TREES["a tree beside an attribute"]
    rows = [("x", 1), ("x", 2), ("x", 3), ("y", 4)]
    right = fn.Domain(a0=fn.Ordered(0, 2), geo=fn.Hierarchy(["a1", "a2"], rows))
    given = {"source": fn.DataSource(), "unit": fn.PrivacyUnit(), "plan": "0" * 64, "mechanism": "m"}
    assert Order(right, designs=(design,), **given).designs == (design,)
    other = fn.Domain(a0=fn.Ordered(0, 2), geo=fn.Hierarchy(["a1", "a2"], [*rows[:2], ("y", 3), ("y", 4)]))
    apart = fn.Domain(a0=fn.Ordered(0, 2), a1=fn.Ordered(0, 1), a2=fn.Ordered(0, 3))
    wrong = fn.Domain(a0=fn.Ordered(0, 2), a1=fn.Ordered(0, 1), geo=fn.Hierarchy(["b", "a2"], rows))
    for domain in (other, apart, wrong):
        with refused("plan.places-nested-otherwise"):
            Order(domain, designs=(design,), **given)
