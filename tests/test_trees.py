"""Measurements of nested places cost exactly the amount from their columns, for any integers and classes."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

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
from laws.designs import check_design
from refused import refused

ADD, REPLACE = Neighbours.ADD_OR_REMOVE_ONE, Neighbours.REPLACE_ONE
K = (np.array([1, 2]),)


def of_counties(*measured, attribute_sizes=(2,), n=2):
    """Return a nation of counties of one class, with attributes, and its measurements."""
    classes = np.zeros(n, dtype=int)
    return of_trees(cells_over((*attribute_sizes, n)), (len(attribute_sizes),), (classes,), (classes,), *measured)


class Holding:
    """A plan of one part with this strategy, which is written out as a dense matrix."""

    def __init__(self, strategy):
        self.table_part = SimpleNamespace(strategy=strategy)


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
    adjacency = zoo.ADJACENCIES[neighbours]
    check_design(zoo.TREES[name], adjacency, rng, exact=adjacency.by_cell)


def test_in_small_pieces_it_is_the_same(rng, monkeypatch):
    monkeypatch.setattr(linear, "NUMBERS_PER_BATCH", 3)
    check_design(zoo.TREES["a tree and an attribute"], zoo.ADJACENCIES["add or remove"], rng)


@st.composite
def random_trees(draw):
    """Draw two levels of places in some classes, up to two attributes, and the measurements of a few sets of these."""
    attribute_sizes = draw(st.lists(st.integers(2, 4), max_size=2))
    inside = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    upper = np.array(draw(st.lists(st.integers(0, 1), min_size=len(inside), max_size=len(inside))))
    above = np.repeat(np.arange(len(inside)), inside)
    classes = np.array(draw(st.lists(st.integers(0, 1), min_size=len(above), max_size=len(above))))
    upper_classes = np.unique(upper, return_inverse=True)[1]
    second = np.unique(2 * upper_classes[above] + classes, return_inverse=True)[1]
    kinds = [1, int(upper_classes.max()) + 1, int(second.max()) + 1]
    entries = st.one_of(st.integers(1, 3), st.integers(1, 2**61))
    measured = []
    sets = st.lists(
        st.sets(st.integers(0, len(attribute_sizes) - 1)) if attribute_sizes else st.just(set()), min_size=1, max_size=3
    )
    for attributes in {tuple(sorted(x)) for x in draw(sets)}:
        deep = draw(st.integers(0, 2))
        k = [draw(st.lists(entries, min_size=n, max_size=n)) for n in kinds[1 : deep + 1]]
        levels = sorted({*draw(st.sets(st.integers(0, deep))), deep})
        scale = st.integers(1, 2**30).map(lambda x: x / 8)
        scales_by_level = {x: draw(st.lists(scale, min_size=kinds[x], max_size=kinds[x])) for x in levels}
        measured.append((attributes, draw(st.integers(1, 2**61)), k, scales_by_level))
    sizes = (*attribute_sizes, len(inside), len(above))
    n = len(attribute_sizes)
    return of_trees(
        cells_over(sizes), (n, n + 1), (np.zeros(len(inside), dtype=int), above), (upper_classes, second), *measured
    )


@pytest.mark.no_cover
@given(random_trees())
def test_the_price_is_that_of_the_costliest_place(design):
    """Detects integers that wrap around, and a class that stands for places that cost more."""
    each, weights = columns(design)
    costs = [sum(w * x**2 for w, x in zip(weights, column, strict=True)) for column in each]
    assert design.cost_squared(ADD) == design.max_record_cost == max(costs)
    assert design.profile() == (design.max_record_cost,)
    assert max(design.group_costs) <= design.max_record_cost <= sum(design.group_costs)
    assert len(weights) == sum(design.lengths) == design.portions.sum()


@pytest.mark.no_cover
@given(random_trees())
def test_a_record_replaced_costs_no_more_than_is_bounded(design):
    each, weights = columns(design)
    unit = math.lcm(*(w.denominator for w in weights))
    rows = np.array(each, dtype=object)
    integer_weights = np.array(
        [int(w * unit) for w in weights], dtype=object
    )  # NumPy makes doubles of lists around 2⁶³
    gram = (rows * integer_weights) @ rows.T
    own_costs = gram.diagonal()
    largest = Fraction(int((own_costs[:, None] + own_costs - 2 * gram).max()), unit)
    assert largest <= design.cost_squared(REPLACE) <= 4 * design.max_record_cost


@given(random_trees())
def test_of_many_attributes_only_the_largest_moves_are_looked_at(design):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "MAX_MEETINGS", 0)
        rough = replace(design).cost_squared(REPLACE)
    assert design.cost_squared(REPLACE) <= rough <= 4 * design.max_record_cost


def test_where_records_meet_is_looked_at_up_to_a_limit(monkeypatch):
    """Two levels, two sets that are measured, one class of leaves, and two sets of attributes that may differ.

    Sexes move by 4 at each level where totals stay; beyond the limit, totals are charged 2 at each level as well.
    """
    total_and_sex = ((), 1, [[1]], {0: [1.0], 1: [1.0]}), ((0,), 1, [[1]], {0: [1.0], 1: [1.0]})
    for max_meetings, cost in ((2 * 2 * 1 * 2, 2 * 4), (2 * 2 * 1 * 2 - 1, 2 * (4 + 2))):
        monkeypatch.setattr(trees, "MAX_MEETINGS", max_meetings)
        design = of_counties(*total_and_sex)
        assert design.cost_squared(REPLACE) == cost


def test_replaced_records_meet_somewhere():
    """Nation, at 1/σ² = 1, and two counties at w, each with and without sex: other sex in another county, or in one.

    In one county sexes alone move, by 4 (1 + w). In two the counties move by 2 w, and sexes by 2 (1 + w) and 2, as they
    differ in the nation as well.
    """
    for w in (1, 64, Fraction(1, 64)):
        scales_by_level = {0: [1.0], 1: [float(w) ** -0.5]}
        total_and_sex = ((), 1, [[1]], scales_by_level), ((0,), 1, [[1]], scales_by_level)
        design = of_counties(*total_and_sex)
        assert design.max_record_cost == 2 * (1 + w)
        assert design.cost_squared(REPLACE) == 4 * (1 + w) == 2 * w + 2 * (1 + w) + 2


def test_replaced_records_meet_where_sexes_are_measured_and_counties_are_not():
    """Nation by sex, of counties counted twice, and counties: others of two counties move 16, twice w, and little."""
    w, little = Fraction(1, 4), 1 / Fraction(1e9) ** 2
    counties, sexes = ((), 1, [[2]], {1: [2.0]}), ((0,), 1, [[2]], {0: [1.0], 1: [1e9]})
    design = of_counties(counties, sexes)
    assert design.cost_squared(REPLACE) == 16 + 2 * w + 2 * little


def test_a_difference_in_two_attributes_is_an_agreement_in_their_joint_one():
    """Each of two of two values, and both: who differs in one moves it and both by 2, who differs in both, each."""
    measured = (((0,), 1, [], {0: [1.0]}), ((1,), 1, [], {0: [1.0]}), ((0, 1), 1, [], {0: [1.0]}))
    design = of_counties(*measured, attribute_sizes=(2, 2))
    assert design.cost_squared(REPLACE) == 2 * 2**2


def test_weighted_sums_of_places_are_moved_by_the_heaviest_and_the_lightest():
    """Detects a common part that is taken off as if both records weighed as much: (3 − 1)² is left, and w of each."""
    w = Fraction(1, 4)
    measured = (), 1, [[3, 1]], {0: [1.0], 1: [2.0, 2.0]}
    design = of_trees(cells_over((2,)), (0,), (np.zeros(2, dtype=int),), ([0, 1],), measured)
    each, bound = [9 + w, 1 + w], 2 * (9 + w - 3 * 1)
    assert design.max_record_cost == max(each)
    assert (3 - 1) ** 2 + 2 * w <= design.cost_squared(REPLACE) == bound


@pytest.mark.parametrize("name", [*zoo.TREES, *zoo.PRODUCTS])
def test_a_unit_costs_the_square_of_its_records_times_the_costliest_step(name):
    design = (zoo.TREES | zoo.PRODUCTS)[name]
    for adjacency in (
        zoo.ADJACENCIES[x] for x in ("add or remove 3", "replace", "replace 2", "replace, dropped", "replace 3")
    ):
        assert design.loss(adjacency).cost_squared == adjacency.records**2 * max(
            map(design.cost_squared, adjacency.step_relations)
        )


def test_a_unit_that_may_come_without_another_is_charged_for_the_total():
    """The cost is the same for any replaced record."""
    design = of_trees(cells_over((2,)), (0,), (np.zeros(2, dtype=int),), ([0, 0],), ((), 1, [], {0: [4.0]}))
    assert design.loss(zoo.ADJACENCIES["replace"]).cost_squared == design.cost_squared(REPLACE) == 0
    assert design.loss(zoo.ADJACENCIES["replace, dropped"]).cost_squared == design.max_record_cost == Fraction(1, 16)


def test_in_one_place_sexes_differ_by_all_they_can():
    """County by sex, and the nation by age: the costliest are two of one county who differ in both, exactly."""
    measured = ((0,), 1, [[1]], {1: [1.0]}), ((1,), 1, [[1]], {0: [1.0], 1: [1e9]})
    design = of_counties(*measured, attribute_sizes=(2, 5))
    nation = 20 * (1 + 1 / Fraction(1e9) ** 2)
    assert design.cost_squared(REPLACE) == 2 * (2 + nation + nation / 4)


def test_many_scales_are_rounded_up():
    scales = np.arange(3, 40, 1 / 8)[:100]
    numbers = list(range(100))
    design = of_trees(cells_over((100,)), (0,), ([0] * 100,), (numbers,), ((), 1, ([1] * 100,), {1: scales}))
    assert len(set(design.scales)) > linear.EXACT_SCALES
    assert Fraction(1, 9) <= design.max_record_cost <= Fraction(1, 9) * (1 + Fraction(1, 2**80))


SEXES = of_counties(((0,), 1, [[1]], {1: [1.0]}), n=3)


@pytest.mark.parametrize("design", [*zoo.TREES.values(), SEXES], ids=[*zoo.TREES, "sexes"])
def test_64_bits_are_taken_where_they_hold_every_answer(design):
    """The largest number of records in one cell, or one more: (n − 1) m Π k times as many, 1 for n = 2."""
    for i, g in enumerate(design.groups):
        magnitude = (
            g.multiple
            * math.prod(int(max(k)) for k in g.factors)
            * math.prod(max(design.sizes[a] - 1, 1) for a in g.attributes)
        )
        counts = {m: np.zeros([design.sizes[int(a[1:])] for a in m], dtype=np.int64) for m in design.margins()}
        for records, kind in (
            ((INT64_SAFE_BOUND - 1) // magnitude, np.int64),
            ((INT64_SAFE_BOUND - 1) // magnitude + 1, object),
        ):
            assert design.exact_answers(counts, zoo.ADJACENCIES["add or remove"], records)[i].dtype == kind


def test_answers_stand_by_class_and_in_a_class_as_the_places_do():
    """There are more places than NumPy's default sort keeps in order."""
    classes = np.arange(1000) % 3
    design = of_trees(cells_over((1000,)), (0,), ([0] * 1000,), (classes,), ((), 1, ([1] * 3,), {1: [2, 3, 4]}))
    assert design.orders[1].tolist() == [i for c in range(3) for i in range(c, 1000, 3)]


def test_a_ledger_entry_names_what_is_measured_and_its_price():
    design = zoo.TREES["a tree and an attribute"]
    assert design.ledger_detail(zoo.ADJACENCIES["add or remove"])["sectors"] == [
        {"count": 4, "of": ["a2"], "cost_squared": str(design.group_costs[0])},
        {"count": 5, "of": ["a0", "a1", "a2"], "cost_squared": str(design.group_costs[1])},
    ]


def test_a_price_is_recomputed_for_trees():
    design = zoo.TREES["a tree and an attribute"]
    fresh = design.without_cache(zoo.ADJACENCIES["add or remove"])
    assert all(mine is not theirs for mine, theirs in zip(fresh.groups, design.groups, strict=True))


COMPLETE = ((), 1, ([1, 2],), {1: [1, 2]})


def two(*measured, sizes=(2,), levels=(0,), above=([0, 0],), classes=([0, 1],)):
    return of_trees(cells_over(sizes), levels, above, classes, *measured)


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
        lambda: two(COMPLETE, levels=(1,)),
        lambda: two(COMPLETE, levels=()),
        lambda: two(COMPLETE, sizes=(2, 2), levels=(0, 0), above=([0, 0], [0, 1]), classes=([0, 1], [0, 1])),
        lambda: two(COMPLETE, above=()),
        lambda: two(COMPLETE, classes=([0, 1], [0, 1])),
        lambda: two(COMPLETE, classes=([0, 2],)),
        lambda: two(COMPLETE, classes=([-1, 0],)),
        lambda: two(COMPLETE, classes=([0, 1, 1],)),
        lambda: two(COMPLETE, classes=([0.0, 1.0],)),
        lambda: two(COMPLETE, above=([0, 1],)),
        lambda: two(COMPLETE, above=([1, 1],)),
        lambda: two(COMPLETE, sizes=(3, 3), levels=(0, 1), above=([0] * 3, [0, 0, 2]), classes=([0, 1, 0], [0, 0, 0])),
        lambda: two(COMPLETE, sizes=(2, 3), levels=(0, 1), above=([0] * 2, [0, 0, 0]), classes=([0, 0], [0, 0, 0])),
        lambda: two(COMPLETE, above=([0, 0, 0],)),
        lambda: two(COMPLETE, above=([0.0, 0.0],)),
        lambda: two(COMPLETE, sizes=(2, 3), levels=(0, 1), above=([0, 0], [0, 1, 0]), classes=([0, 1], [0, 1, 0])),
        lambda: two(COMPLETE, sizes=(2, 2), levels=(0, 1), above=([0, 0], [0, 1]), classes=([0, 1], [0, 0])),
        lambda: two(((), 1, ([1, 2, 3],), {1: [1, 2]})),
        lambda: two(((), 1, ([1, 2],), {1: [1]})),
        lambda: two(((), 1, ([1, 2], [1, 2]), {2: [1, 2]})),
        lambda: two(((0,), 1, ([1, 2],), {1: [1, 2]})),
        lambda: two(((1,), 1, ([1, 2],), {1: [1, 2]})),
        lambda: two(((-1,), 1, ([1, 2],), {1: [1, 2]})),
        lambda: two(((1,), 1, ([1, 2],), {1: [1, 2]}), sizes=(2, 1)),
        lambda: two(COMPLETE, COMPLETE),
        lambda: replace(two(COMPLETE), structure=cells_over((2,), 2)),
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
    design = zoo.TREES["a tree and an attribute"].without_cache(zoo.ADJACENCIES["add or remove"])
    arrays = [x for g in design.groups for x in (*g.factors, *g.scales.values())]
    for held in (*arrays, *design.above, *design.classes):
        with pytest.raises(ValueError, match="read-only"):
            held[...] = 0
    k = np.array([1, 2])
    tree = MeasuredTree((), 1, (k,), {1: np.ones(2)})
    k[0] = 100
    assert tree.factors[0].tolist() == [1, 2]
    assert replace(tree).factors[0] is not tree.factors[0]


def test_a_price_of_nested_places_is_for_those_of_the_domain():
    """Levels that are counted separately are priced together: detects a tree of others, with too low a price."""
    design = zoo.TREES["a tree and an attribute"]
    rows = [("x", 1), ("x", 2), ("x", 3), ("y", 4)]
    right = fn.Domain(a0=fn.Ordered(0, 2), geo=fn.Hierarchy(["a1", "a2"], rows))
    options = {"source": fn.DataSource(), "unit": fn.PrivacyUnit(), "plan": "0" * 64, "mechanism": "m"}
    assert Order(right.axes, designs=(design,), **options).designs == (design,)
    other = fn.Domain(a0=fn.Ordered(0, 2), geo=fn.Hierarchy(["a1", "a2"], [*rows[:2], ("y", 3), ("y", 4)]))
    separate = fn.Domain(a0=fn.Ordered(0, 2), a1=fn.Ordered(0, 1), a2=fn.Ordered(0, 3))
    wrong = fn.Domain(a0=fn.Ordered(0, 2), a1=fn.Ordered(0, 1), geo=fn.Hierarchy(["b", "a2"], rows))
    for domain in (other, separate, wrong):
        with refused("plan.places-nested-otherwise"):
            Order(domain.axes, designs=(design,), **options)
