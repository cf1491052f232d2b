"""Joint axes with classes of values: counts, exact prices against all possible records, patterns, and the ledger."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import fitnoise as fn
from designs import group
from fitnoise.errors import FitnoiseError
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.kernel.domain import Domain, JointAxis, axis_key, class_axis
from fitnoise.kernel.measure import _count_margins, _exact_answers, _required_margins
from fitnoise.kernel.order import Order
from fitnoise.kernel.profiles import joint as joint_cost
from fitnoise.kernel.units import DataSource
from laws.counting import HistogramCounter
from refused import refused

ADD, REPLACE = fn.Neighbours

AGE_CLASSES = JointAxis(("age", "marital"), ((0, 0), (1, 0), (1, 1)), ((0, 0, 0, 1, 1), (0, 1, 1)))
"""Five ages in the classes of children and adults, and children who are single."""


def axes_of(sizes):
    return fn.Domain({name: fn.Ordered(0, n - 1) for name, n in sizes.items()}).axes


def domain_of(sizes, *joint):
    return Domain(axes_of(sizes), joint)


def drawn_classes(draw):
    """Return the sizes of attributes, and a joint axis of some with drawn classes: each may have cells as classes."""
    sizes = {f"a{i}": int(draw.integers(2, 5)) for i in range(int(draw.integers(2, 4)))}
    classes = []
    for n in sizes.values():
        labels = np.unique(draw.integers(0, 2 if draw.random() < 1 / 2 else n, n), return_inverse=True)[1]
        classes.append(() if draw.random() < 1 / 4 else tuple(labels.tolist()))
    numbers = [max(row) + 1 if row else n for row, n in zip(classes, sizes.values(), strict=True)]
    product = list(itertools.product(*map(range, numbers)))
    chosen = [cell for cell in product if draw.random() < 3 / 4] or product[:1]
    sizes |= {"b": 2} if draw.random() < 1 / 2 else {}
    return sizes, JointAxis(tuple(a for a in sizes if a != "b"), tuple(chosen), tuple(classes))


def drawn_strategy(draw, sizes, one):
    """Return a design of sectors over class axes and `b`, in general rows that are 0 at cells of other classes."""
    domain = domain_of(sizes, one)
    names = [*one.class_axes, *(a for a in sizes if a not in one.names)]
    structure = CellStructure(tuple((a, domain.sizes[a]) for a in names), ((one.name, len(one.cells)),))
    groups = []
    for width in range(min(len(names), 2) + 1):
        for chosen in itertools.combinations(range(len(names)), width):
            basis = draw.integers(-3, 4, (int(draw.integers(1, 3)), len(one.cells)))
            inside = np.ones(len(one.cells), dtype=bool)
            for name in (names[i] for i in chosen if names[i] in one.class_axes):
                attribute, k = name.split(" in class ")
                inside &= one.column(attribute) == int(k)
            # A plan has such rows. The price holds for others, too.
            basis = basis * inside if draw.random() < 3 / 4 else basis
            mixing = draw.integers(-2, 3, (len(basis),) * 2)
            if draw.random() < 3 / 4:
                groups.append(group(structure.sizes, basis, {chosen: (mixing.tolist(), 2.0 ** draw.integers(0, 2))}))
    if not groups:
        basis = np.ones((1, len(one.cells)), dtype=np.int64)
        groups.append(group(structure.sizes, basis, {(): ([[1]], 1.0)}))
    return Strategy(structure, tuple(groups)), domain


def order_of(domain, design):
    return Order(domain, DataSource("homes"), fn.PrivacyUnit(), (design,), "0" * 64, "test design")


def answers_of(order, counts):
    """Return the exact answers to counts of the joint cells of all attributes."""
    required = _required_margins(order)
    counter = HistogramCounter(counts, order.domain)
    exact = _exact_answers(order, required, *_count_margins(order, required, counter, None))
    return np.concatenate([y.astype(object) for part in exact for y in part])


def cell_of_values(one, sizes, value):
    """Return the cell of the joint axis in which a record with these values lies; None outside."""
    labels = tuple(
        row[value[list(sizes).index(a)]] if row else value[list(sizes).index(a)]
        for a, row in zip(one.names, one.classes, strict=True)
    )
    return one.cells.index(labels) if labels in one.cells else None


def form(design, domain, one):
    """X, exact, of all records that the joint axis has, with their values and cells; from the counts of each record."""
    order, shape = order_of(domain, design), domain.shape
    sizes = {a: domain.sizes[a] for a in domain}
    values = [v for v in np.ndindex(*shape) if cell_of_values(one, sizes, v) is not None]
    columns = []
    for v in values:
        counts = np.zeros(shape, dtype=np.int64)
        counts[v] = 1
        columns.append(answers_of(order, counts))
    rates = np.repeat([1 / Fraction(float(s)) ** 2 for s in design.scales], design.portions)
    y = np.array(columns, dtype=object)
    x = (y * rates) @ y.T
    return x, values, [cell_of_values(one, sizes, v) for v in values]


# --- counts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_each_record_has_one_position_along_each_axis(seed):
    """Its class tuple, and along the axis of a class its place there, or 0 with a value of another class."""
    draw = np.random.default_rng([50, seed])
    sizes, one = drawn_classes(draw)
    domain = domain_of(sizes, one)
    counts = draw.integers(0, 9, list(sizes.values()))
    inside = [cell_of_values(one, sizes, v) is not None for v in np.ndindex(*counts.shape)]
    counts = counts * np.reshape(inside, counts.shape)
    others = [a for a in sizes if a not in one.names]
    margin = (*others, one.name, *one.class_axes)
    ((*axes,),) = (domain.counting_axes(margin),)
    held = counts.transpose([list(sizes).index(a) for names, _ in axes for a in names])
    by_axes = domain.counts_along(held, axes)
    names = [a for _, counted_by in axes for a in counted_by]
    expected = np.zeros([domain.sizes[a] for a in names], dtype=np.int64)
    for v, n in np.ndenumerate(counts):
        if n:
            position = []
            for a in names:
                if a in sizes:
                    position.append(v[list(sizes).index(a)])
                elif a == one.name:
                    position.append(cell_of_values(one, sizes, v))
                else:
                    attribute, k = a.split(" in class ")
                    row = one.classes[one.names.index(attribute)]
                    members = [i for i, label in enumerate(row) if label == int(k)]
                    x = v[list(sizes).index(attribute)]
                    position.append(members.index(x) if x in members else 0)
            expected[tuple(position)] += n
    assert (by_axes == expected).all()
    assert set(one.class_axes) == {
        class_axis(a, k) for a, row in zip(one.names, one.classes, strict=True) for k in set(row) if row.count(k) > 1
    }


def test_a_record_of_another_class_tuple_is_refused():
    domain = domain_of({"age": 5, "marital": 3}, AGE_CLASSES)
    axes = domain.counting_axes((AGE_CLASSES.name,))
    counts = np.zeros((5, 3), dtype=np.int64)
    counts[2, 0], counts[4, 2] = 3, 1
    assert domain.counts_along(counts, axes).tolist() == [3, 0, 1]
    counts[1, 2] = 2
    with refused("data.combination-not-planned") as caught:
        domain.counts_along(counts, axes)
    assert "is: 2" in str(caught.value)


def test_the_axes_of_classes_are_counted_with_their_joint_axis():
    domain = domain_of({"age": 5, "marital": 3, "sex": 2}, AGE_CLASSES)
    children, adults = class_axis("age", 0), class_axis("age", 1)
    assert (domain.sizes[children], domain.sizes[adults], domain.sizes[class_axis("marital", 1)]) == (3, 2, 2)
    assert class_axis("marital", 0) not in domain.sizes  # of one value, the joint axis shows it
    assert domain.attribute_of(children) == AGE_CLASSES.name
    assert domain.attributes_of(children) == domain.attributes_of(AGE_CLASSES.name) == ("age", "marital")
    counted = (AGE_CLASSES.names, (AGE_CLASSES.name, children))
    assert domain.counting_axes(("sex", children)) == ((("sex",), ("sex",)), counted)
    with refused("domain.joint-axis-beside-attribute"):
        domain.counting_axes(("age", children))
    # A class is no cell: the attributes lie along no axis, so a pattern on them has no effect.
    assert domain.columns(AGE_CLASSES.name) == {}
    cells = replace(AGE_CLASSES, classes=(AGE_CLASSES.classes[0], ()))
    assert {a: x.tolist() for a, x in domain_of({"age": 5, "marital": 3}, cells).columns(cells.name).items()} == {
        "marital": [0, 0, 1]
    }


@pytest.mark.parametrize(
    "classes",
    [
        ((0, 0, 0, 1), (0, 1, 1)),  # four of five ages
        ((0, 0, 0, 1, 1), (0, 1, 1), (0,)),
        ((0, 0, 0, 1, 1),),
        ((0, 0, 0, 1, True), (0, 1, 1)),
        ((0, 0, 0, 1, 1.0), (0, 1, 1)),
        ((0, 0, 0, 1, -1), (0, 1, 1)),
        ((0, 0, 0, 1, 5), (0, 1, 1)),
        ((0, 0, 0, 0, 0), (0, 1, 1)),  # the list has the class 1 of age
    ],
)
def test_classes_that_do_not_fit_are_refused(classes):
    with refused("domain.joint-axis-invalid"):
        domain_of({"age": 5, "marital": 3}, replace(AGE_CLASSES, classes=classes))


def test_an_attribute_with_the_name_of_a_class_is_refused():
    with refused("domain.attribute-name-repeated"):
        domain_of({"age": 5, "marital": 3, "AGE in class 1": 2}, AGE_CLASSES)


def test_an_amount_has_no_classes():
    axes = fn.Domain(group=fn.Binned([5], column="x"), x=fn.Amount(0, 10, step=1)).axes
    cells = fn.plan(
        fn.Workload(
            fn.Domain(group=fn.Binned([5], column="x"), x=fn.Amount(0, 10, step=1)),
            [fn.table("group", margin=5), fn.table("group", sum="x", margin=20)],
        )
    ).publication.domain.axes.joint
    ((_, one),) = cells.items()
    assert Domain(axes, [one]).joint == {one.name: one}
    with refused("domain.joint-axis-invalid"):
        Domain(axes, [replace(one, classes=((0, 1), ()))])


def test_a_rule_has_no_classes():
    axes = axes_of({"age": 5, "marital": 3})
    rule = JointAxis(("age", "marital"), ((0, 1), (0, 2)))
    domain = Domain(axes, rules={"one": replace(rule, classes=((0, 0, 0, 0, 0), ()))})
    assert domain.rules == {"one": rule}


# --- prices -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_the_price_is_that_of_the_costliest_possible_record(seed):
    """And of the costliest pair of possible records for replace-one: both exact, in fractions, by all records."""
    draw = np.random.default_rng([51, seed])
    sizes, one = drawn_classes(draw)
    design, domain = drawn_strategy(draw, sizes, one)
    x, _, cells = form(design, domain, one)
    profile = design.profile()
    of_a_plan = all(is_of_a_plan(design, one, g) for g in design.groups)
    for i, cell in enumerate(cells):
        assert x[i, i] == profile[cell]
    assert design.cost_squared(ADD) == max(x.diagonal())
    pairs = max(x[i, i] + x[j, j] - 2 * x[i, j] for i in range(len(x)) for j in range(len(x)))
    # A row that is not 0 at another class gives a bound over pairs that cannot occur.
    assert design.cost_squared(REPLACE) == pairs or (not of_a_plan and design.cost_squared(REPLACE) > pairs)
    assert domain.adjacency(DataSource(), fn.PrivacyUnit()).by_cell


def is_of_a_plan(design, one, g):
    """Return True if the rows of sectors of a class are 0 at the cells of other classes."""
    names = [[design.structure.names[i] for i in row] for row in g.attributes.tolist()]
    outside = np.zeros(design.cells, dtype=bool)
    for a, k in (name.split(" in class ") for row in names for name in row if name in one.class_axes):
        outside |= one.column(a) != int(k)
    return not g.basis[:, outside].any()


PATTERNS = {
    "once per": {"once_per": ("a0",)},
    "once per both": {"once_per": ("a0", "a1")},
    "per value": {"per_value": {"a0": 1, "a1": 2}},
    "separation": {"separation": {"a0": 2}},
    "fixed": {"fixed": ("a1",)},
    "fixed and once": {"fixed": ("a1",), "once_per": ("a0",)},
}


def keeps_to(pattern, values, names):
    """Return True if records with these values keep to a pattern of a unit."""
    column = {a: [v[i] for v in values] for i, a in enumerate(names)}
    if any(len(set(column[a])) > 1 for a in pattern.fixed):
        return False
    once = list(zip(*(column[a] for a in pattern.once_per), strict=True)) if pattern.once_per else []
    if len(set(once)) < len(once):
        return False
    if any(column[a].count(v) > n for a, n in pattern.per_value for v in set(column[a])):
        return False
    return all(abs(u - v) >= n for a, n in pattern.separation for u, v in itertools.combinations(column[a], 2))


@pytest.mark.no_cover
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("seed", range(8))
def test_no_records_in_a_pattern_on_classes_cost_more_than_is_charged(pattern, seed):
    """The test looks at all sets of up to three possible records that keep to the pattern."""
    draw = np.random.default_rng([52, seed, list(PATTERNS).index(pattern)])
    sizes, one = drawn_classes(draw)
    design, domain = drawn_strategy(draw, sizes, one)
    x, values, cells = form(design, domain, one)
    for max_records in (2, 3):
        unit = fn.PrivacyUnit("person", max_records, **PATTERNS[pattern])
        adjacency = domain.adjacency(DataSource(), unit)
        charged = design.unit_profile(adjacency)
        records = range(len(values))
        for m in range(1, max_records + 1):
            for chosen in itertools.combinations_with_replacement(records, m):
                if keeps_to(unit.pattern, [values[i] for i in chosen], list(sizes)):
                    v = list(chosen)
                    cost = x[np.ix_(v, v)].sum()
                    assert cost * m <= sum(charged[cells[i]] for i in v)
        replaced = domain.adjacency(DataSource(), replace(unit, neighbours=REPLACE))
        assert design.unit_cost(replaced) >= max(design.cost_squared(REPLACE), *x.diagonal())


def test_a_class_is_no_cell_of_a_cap():
    """Two classes of one and of four values are five cells, each of which can have a record: the total costs 25."""
    one = JointAxis(("a", "b"), ((0, 0), (1, 0)), ((0, 1, 1, 1, 1), (0, 0)))
    domain = domain_of({"a": 5, "b": 2}, one)
    structure = CellStructure(tuple((a, domain.sizes[a]) for a in one.class_axes), ((one.name, 2),))
    total = Strategy(structure, (group(structure.sizes, [[1, 1]], {(): ([[1]], 1.0)}),))
    unit = fn.PrivacyUnit("person", 9, once_per=("a",))
    assert total.unit_cost(domain.adjacency(DataSource(), unit)) == 25


# --- the ledger ---------------------------------------------------------------------------------------------


def measured_by_class(classes, roots):
    """Return an order whose record costs (root/4)² in the classes of 100 ages, with 2 sexes in one class."""
    one = JointAxis(("age", "sex"), ((0, 0), (1, 0)), (classes, (0, 0)))
    domain = domain_of({"age": 100, "sex": 2}, one)
    structure = CellStructure(tuple((a, domain.sizes[a]) for a in one.class_axes), ((one.name, 2),))
    rows = group(structure.sizes, np.eye(2, dtype=np.int64), {(): (np.diag(roots).tolist(), 4.0)})
    return order_of(domain, Strategy(structure, (rows,)))


def test_costs_of_different_classes_add_up_by_record():
    """Children cost little in one plan and the old in the other. Someone in between costs much in both."""
    young = measured_by_class((0,) * 15 + (1,) * 85, (1, 4))
    old = measured_by_class((0,) * 65 + (1,) * 35, (4, 1))
    losses = [x.ledger_loss() for x in (young, old)]
    assert [x.rho for x in losses] == [Fraction(1, 2), Fraction(1, 2)]
    assert [x.profile.values[0] != x.profile.values[1] for x in losses] == [True, True]
    assert joint_cost(x.profile for x in losses) == 1
    # The same classes have the same key, and add up by class.
    third = measured_by_class((0,) * 15 + (1,) * 85, (4, 1))
    assert joint_cost([losses[0].profile, third.ledger_loss().profile]) == Fraction(17, 32)


def test_the_key_has_the_classes():
    sizes = {"age": 5, "marital": 3}
    others = [
        AGE_CLASSES,
        replace(AGE_CLASSES, classes=((0, 0, 1, 1, 1), AGE_CLASSES.classes[1])),
        replace(AGE_CLASSES, classes=(AGE_CLASSES.classes[0], (0, 0, 1))),
        replace(AGE_CLASSES, classes=(AGE_CLASSES.classes[0], ())),
        replace(AGE_CLASSES, classes=()),
    ]
    keys = {axis_key(domain_of(sizes, x), x.name) for x in others}
    assert len(keys) == len(others)
    assert replace(AGE_CLASSES, classes=()) == replace(AGE_CLASSES, classes=((), ()))


def test_an_order_for_other_classes_is_refused():
    order = measured_by_class((0,) * 15 + (1,) * 85, (1, 4))
    (one,) = order.domain.joint.values()
    other = replace(one, classes=((0,) * 65 + (1,) * 35, (0, 0)))
    with refused("plan.made-for-another-domain"):
        replace(order, domain=Domain(dict(order.domain.entries), [other]))
    assert isinstance(order.without_cache(), Order)


def test_neighbours_with_the_same_noise_differ_by_their_price():
    """Each answer of a record is that of its cell: of all possible records, none moves the answers by more."""
    draw = np.random.default_rng(53)
    for _ in range(10):
        sizes, one = drawn_classes(draw)
        design, domain = drawn_strategy(draw, sizes, one)
        order = order_of(domain, design)
        possible = np.array([cell_of_values(one, sizes, v) is not None for v in np.ndindex(*domain.shape)])
        base = draw.integers(0, 5, domain.shape) * possible.reshape(domain.shape)
        rates = np.repeat([1 / Fraction(float(s)) ** 2 for s in design.scales], design.portions)
        for v in (v for v, inside in zip(np.ndindex(*domain.shape), possible, strict=True) if inside):
            neighbour = base.copy()
            neighbour[v] += 1
            change = answers_of(order, neighbour) - answers_of(order, base)
            assert (change**2 * rates).sum() <= 2 * order.loss.rho
        outside = np.argwhere(~possible.reshape(domain.shape))
        if len(outside):
            neighbour = base.copy()
            neighbour[tuple(outside[0])] += 1
            with pytest.raises(FitnoiseError, match="combinations of"):
                answers_of(order, neighbour)
