"""Axes and their domain: all fields are checked when they are made, and keys follow from what decides the cell."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, date, datetime
from fractions import Fraction

import numpy as np
import pytest

import fitnoise as fn
from fitnoise.kernel.codings import DROPPED, OUTSIDE, REFUSED, Codes, CodingWithMissing, Cuts, Range, Steps
from fitnoise.kernel.dates import DateField, DatePart
from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.domain import Axis, Domain, JointAxis, axis_key, cell_key
from fitnoise.kernel.immutable import changeable
from fitnoise.kernel.places import LeafCodes, ListedTree, RegularTree
from refused import refused
from zoo.attributes import ATTRIBUTES, Months

YEAR = DateField(DatePart.YEAR)
ROWS = (("x", "x1"), ("y", "y1"), ("y", "y2"))
LISTED, REGULAR = ListedTree(("state", "county"), ROWS), RegularTree(("state", "county"), (2, 3))
LEAVES = LeafCodes(LISTED, 1)
AMOUNT = Steps(Fraction(0), Fraction(10), Fraction(1))
AXES = {"sex": Axis(Codes(("f", "m"))), "age": Axis(Range(0, 9), ordered=True), "geo": Axis(LEAVES, tree=LISTED)}


class Text(str):
    """A text that may say anything."""


class Narrow(Range):
    """A coding that no counter has heard of."""


class Shifty(Mapping):
    """A mapping with other values whenever it is read."""

    def __init__(self, *readings):
        self.readings = iter(readings)

    def __getitem__(self, name):
        return self.reading[name]

    def __iter__(self):
        self.reading = next(self.readings)
        return iter(self.reading)

    def __len__(self):
        return 2


# --- axes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"coding": None}, "unknown-coding"),
        ({"coding": Narrow(0, 9)}, "unknown-coding"),
        ({"coding": CodingWithMissing(Narrow(0, 9), ())}, "unknown-coding"),
        ({"coding": CodingWithMissing(CodingWithMissing(Range(0, 9), ()), ())}, "unknown-coding"),
        ({"column": ""}, "axis-field-invalid"),
        ({"column": 5}, "axis-field-invalid"),
        ({"column": Text("age")}, "axis-field-invalid"),
        ({"date_part": "year"}, "axis-field-invalid"),
        ({"ordered": 1}, "axis-field-invalid"),
        ({"ordered": None}, "axis-field-invalid"),
        ({"tree": LISTED}, "axis-field-invalid"),
        ({"coding": LEAVES, "tree": REGULAR}, "axis-field-invalid"),
        ({"coding": LEAVES, "tree": ListedTree(LISTED.levels, LISTED.rows)}, "axis-field-invalid"),
        ({"coding": LeafCodes(LISTED, 0), "tree": LISTED}, "axis-field-invalid"),
        ({"coding": AMOUNT.uncut()}, "axis-field-invalid"),
        ({"coding": CodingWithMissing(LEAVES, (("n",),)), "tree": LISTED}, "axis-field-invalid"),
        ({"coding": Codes(("1", "2")), "date_part": YEAR}, "axis-date-part-invalid"),
        ({"coding": Codes((True, False)), "date_part": YEAR}, "axis-date-part-invalid"),
        ({"coding": AMOUNT, "date_part": YEAR}, "axis-date-part-invalid"),
        ({"coding": CodingWithMissing(AMOUNT, ((-9,),)), "date_part": YEAR}, "axis-date-part-invalid"),
        ({"coding": LEAVES, "tree": LISTED, "date_part": YEAR}, "axis-date-part-invalid"),
        (
            {"coding": LeafCodes(ListedTree(("a", "b"), ((1, 2), (1, 3))), 0), "date_part": YEAR},
            "axis-date-part-invalid",
        ),
    ],
)
def test_an_axis_is_checked_when_it_is_made(fields, code):
    with refused(f"domain.{code}"):
        Axis(**({"coding": Range(0, 9)} | fields))


@pytest.mark.parametrize("coding", [Narrow(0, 9), CodingWithMissing(Narrow(0, 9), ())])
def test_the_class_that_no_counter_translates_is_named(coding):
    with refused("domain.unknown-coding") as caught:
        Axis(coding)
    assert "of the class Narrow." in caught.value.given


@pytest.mark.parametrize(
    "coding", [Range(2000, 2030), Cuts((2000.0,)), Codes((2000, 2001)), CodingWithMissing(Range(2000, 2030), ((-9,),))]
)
def test_integers_are_read_off_dates(coding):
    assert Axis(coding, date_part=YEAR).cell("2001-05-06") == 1
    assert Axis(coding).cell("2001-05-06") is None


@pytest.mark.parametrize(
    ("part", "on"),
    [
        ("year", None),
        ("hour", None),
        (DatePart.AGE, None),
        (DatePart.AGE, "2024-12-31"),
        (DatePart.AGE, datetime(2024, 12, 31, tzinfo=UTC)),
        (DatePart.YEAR, date(2024, 12, 31)),
    ],
)
def test_a_part_of_a_date_is_a_part_with_its_day(part, on):
    with refused("domain.date-field-invalid"):
        DateField(part, on)


def test_an_axis_knows_its_cells_and_no_label():
    for name, sample in ATTRIBUTES.items():
        axis = sample.attribute.axis
        assert changeable(axis) is None, name
        assert (axis.size, axis.own_size, axis.steps) == (
            len(sample.attribute.values), len(sample.attribute.own_values), sample.attribute.steps
        )  # fmt: skip
        for cell, values in enumerate(sample.cells):
            assert {axis.cell(v) for v in values} <= {cell}, name
    assert Axis(Range(0, 1)).drops(by_default=True)
    assert not Axis(Range(0, 1)).drops(by_default=False)
    assert not Axis(CodingWithMissing(Range(0, 1), (), REFUSED, REFUSED)).drops(by_default=True)


# --- codings, trees --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shared", [(0,), (0, 1, 1), [0, 0], (0, 10**7), (-1, 0), (False, True), (0.0, 1.0), (0, None), ()]
)
def test_each_code_has_a_cell(shared):
    assert Codes(("a", "b"), (1, 0)).size == 2
    with refused("domain.code-cells-invalid"):
        Codes(("a", "b"), shared)


@pytest.mark.parametrize("cell", [0, 9, 12, -4, True, 10.0, None, "drop"])
def test_values_without_a_cell_of_their_own_get_one_for_missing_values_or_none(cell):
    base, codes = Range(0, 9), ((-1,), (-2,))
    for x in (OUTSIDE, DROPPED, REFUSED, 10, 11):
        assert CodingWithMissing(base, codes, absent=x).cell_of(None) == x
        assert CodingWithMissing(base, codes, outside=x).cell_of(99) == x
    for name in ("absent", "outside"):
        with refused("domain.missing-place-invalid"):
            CodingWithMissing(base, codes, **{name: cell})


def test_ranges_by_class_go_by_an_attribute():
    with refused("domain.classes-without-attribute"):
        replace(AMOUNT, classes=(AMOUNT,))
    for valid in ((-math.inf, 10.0), (0.0, math.inf), (math.nan, 10.0)):
        with refused("domain.valid-excludes-range"):
            replace(AMOUNT, valid=valid)
    for valid in ((0.0,), (0, 10, 11), [0, 10], b"\0\x20", (False, 10), (Fraction(0), Fraction(10))):
        with refused("domain.valid-not-two-numbers"):
            replace(AMOUNT, valid=valid)
    with refused("domain.number-not-exact"):
        replace(AMOUNT, valid=(0, 2**53 + 3))


def test_trees_of_true_and_of_1_differ():
    """True equals 1 in Python, but no value of the data is both."""
    booleans, integers = (ListedTree(("a", "b"), (("x", one), ("x", none))) for one, none in ((True, False), (1, 0)))
    assert booleans != integers
    assert LeafCodes(booleans, 1) != LeafCodes(integers, 1)
    assert (LeafCodes(booleans, 1).cell(True), LeafCodes(integers, 1).cell(True)) == (0, None)
    assert booleans == ListedTree(booleans.levels, booleans.rows)
    assert hash(booleans) == hash(ListedTree(booleans.levels, booleans.rows))


def test_codes_of_places_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        LeafCodes(LISTED, 1)._depth = 0


def test_rows_and_names_of_levels_are_copied_before_they_are_checked():
    class Row(tuple):
        """A row with a further code when it is read again."""

        readings = 0

        def __iter__(self):
            self.readings += 1
            return iter(("x", "x1")) if self.readings == 1 else iter(("x", "x1", "further"))

    class Name(str):
        """A text that is another text when it is read again."""

        def __str__(self):
            return ""

    assert ListedTree(("a", "b"), (Row(("x", "x1")),)).rows == (("x", "x1"),)
    with refused("domain.levels-invalid"):
        ListedTree((Name("a"), "b"), (("x", "x1"),))


def test_a_tree_computes_its_places_from_its_rows():
    """Nothing about a tree is taken from outside that its rows do not say."""
    tree = ListedTree(["a", "b"], [["y", 2], ["x", 1], ["y", 3]])
    assert (tree.levels, tree.rows, tree.codes) == (("a", "b"), (("y", 2), ("y", 3), ("x", 1)), (("y", "x"), (2, 3, 1)))
    assert [tree.above(depth).tolist() for depth in (0, 1)] == [[0, 0, 1], [0, 1, 2]]
    for further in ({"codes": tree.codes}, {"_above": tree._above}):
        with pytest.raises(TypeError):
            ListedTree(tree.levels, tree.rows, **further)
    assert changeable(tree) is None
    assert not any(x.flags.writeable or x.base is not None for x in tree._above)


@pytest.mark.parametrize(
    ("levels", "children", "code"),
    [
        (("a",), (2,), "levels-invalid"),
        (("a", "a"), (2, 2), "name-repeated"),
        (("a", "b"), (2,), "children-invalid"),
        (("a", "b"), 5, "children-invalid"),
        (("a", "b"), (2, 0), "children-number-invalid"),
        (("a", "b"), (2, True), "children-number-invalid"),
        (("a", "b"), (2, 1.0), "children-number-invalid"),
        (("a", "b"), (10**4, 10**4), "too-many-places"),
    ],
)
def test_a_regular_tree_is_checked_when_it_is_made(levels, children, code):
    with refused(f"domain.{code}"):
        RegularTree(levels, children)


@pytest.mark.parametrize("depth", [-1, 2, True, 1.0, None])
def test_a_level_is_one_of_its_tree(depth):
    with refused("domain.level-unknown"):
        LeafCodes(LISTED, depth)


def test_codes_of_leaves_are_equal_where_tree_and_level_are():
    with refused("domain.level-unknown"):
        LeafCodes(ROWS, 0)
    same, other = LeafCodes(ListedTree(LISTED.levels, ROWS), 1), LeafCodes(LISTED, 0)
    assert (same, hash(same)) == (LEAVES, hash(LEAVES))
    assert len({LEAVES, other, LeafCodes(REGULAR, 1), LeafCodes(REGULAR, 0)}) == 4
    assert Codes(("x1", "y1", "y2")) != LEAVES
    assert "codes" not in vars(REGULAR)


# --- domains ---------------------------------------------------------------------------------------------------------


def test_a_mapping_of_axes_is_read_once():
    good, bad = AXES, {**AXES, "value\n": Axis(Range(0, 1)), "age": "anything"}
    assert Domain(Shifty(good, bad, bad)) == Domain(AXES)
    with refused("domain.not-an-axis"):
        Domain(Shifty(bad, good, good))


def test_a_mapping_of_attributes_is_read_once():
    good, bad = {"sex": fn.Ordered(0, 1), "age": fn.Ordered(0, 9)}, {"value": fn.Ordered(0, 1), "x": "anything"}
    domain = fn.Domain(Shifty(good, bad, bad))
    assert (domain, domain.axes) == (fn.Domain(good), fn.Domain(good).axes)
    with refused("domain.not-an-attribute"):
        fn.Domain(Shifty(bad, good, good))
    labelled, other = {1: "one", 2: "two"}, {2: "one", 1: "two"}
    assert fn.Categorical(Shifty(labelled, other, other)) == fn.Categorical(labelled)


@pytest.mark.parametrize(
    ("axes", "code"),
    [
        ({}, "attributes-missing"),
        ({"age": fn.Ordered(0, 9)}, "not-an-axis"),
        ({5: fn.Ordered(0, 9)}, "not-an-axis"),
        ({5: AXES["age"]}, "attribute-name-invalid"),
        ({Text("age"): AXES["age"]}, "attribute-name-invalid"),
        ({"": AXES["age"]}, "attribute-name-invalid"),
        ({"a\nb": AXES["age"]}, "attribute-name-invalid"),
        ({'a"b': AXES["age"]}, "attribute-name-invalid"),
        ({"\ud800": AXES["age"]}, "attribute-name-invalid"),
        ({"age": AXES["age"], "AGE": AXES["age"]}, "attribute-name-repeated"),
        ({"state": AXES["age"], "geo": AXES["geo"]}, "attribute-name-repeated"),
        ({"geo": Axis(LeafCodes(REGULAR, 1), tree=REGULAR), "County in State": AXES["age"]}, "attribute-name-repeated"),
    ],
)
def test_a_domain_is_checked_when_it_is_made(axes, code):
    with refused(f"domain.{code}"):
        Domain(axes)


def test_a_domain_has_levels_and_shares():
    domain = Domain({"age": AXES["age"], "county": Axis(LeafCodes(REGULAR, 1), "fips", tree=REGULAR)})
    assert dict(domain.sizes) == {"age": 10, "county": 6, "state": 2, "county in state": 3}
    assert (list(domain), len(domain), "state" in domain, "county in state" in domain) == (
        ["age", "county"], 2, True, False,
    )  # fmt: skip
    assert [domain.depth(x) for x in ("age", "county", "state", "county in state")] == [0, 1, 0, 1]
    assert [domain.column(x) for x in ("age", "county", "state", "county in state")] == ["age", *["fips"] * 3]
    assert (domain["state"].size, domain["state"].cell("23"), domain["county"].cell("23")) == (2, 1, 5)
    assert (domain.get("state"), domain.get("x", 7), domain.get([])) == (domain["state"], 7, None)
    with refused("domain.unknown-attribute"):
        domain["county in state"]


def by_class(*highs, attribute="sex"):
    classes = tuple(Steps(Fraction(0), Fraction(high), Fraction(high, 10)) for high in highs)
    return Axis(replace(AMOUNT, attribute=attribute, classes=classes))


@pytest.mark.parametrize(
    "axes",
    [
        {"pay": by_class(10, 20)},
        {"pay": by_class(10, 20, attribute="age"), "age": AXES["age"]},
        {"pay": by_class(10, 20, 30), "sex": AXES["sex"]},
        {"pay": by_class(attribute="sex"), "sex": AXES["sex"]},
        {"pay": by_class(10, 20, attribute="hours"), "hours": Axis(AMOUNT)},
        {"pay": by_class(10, 20, attribute="pay")},
    ],
)
def test_ranges_by_class_are_those_of_the_cells_of_an_axis(axes):
    with refused("domain.range-axis-invalid"):
        Domain(axes)
    domain = Domain({"pay": by_class(10, 20), "sex": AXES["sex"]})
    assert domain.cells({"pay": 10, "sex": "f"}) == {"pay": 10, "sex": 0}
    assert domain.cells({"pay": 10, "sex": "m"}) == {"pay": 5, "sex": 1}
    assert domain.cells({"pay": 10, "sex": "x"}) == {"pay": None, "sex": None}


def test_a_domain_of_attributes_has_one_of_axes():
    domain = fn.Domain(AXES_OF := {name: sample.attribute for name, sample in list(ATTRIBUTES.items())[:9]})
    assert domain.axes is domain.axes
    assert dict(domain.axes.entries) == {name: a.axis for name, a in AXES_OF.items()}
    assert changeable(domain.axes) is None
    assert (domain.shape, domain.size, domain.sizes, domain.steps) == (
        domain.axes.shape, domain.axes.size, domain.axes.sizes, domain.axes.steps,
    )  # fmt: skip
    assert type(fn.Domain(month=Months())["month"].axis.coding) is Range


# --- keys ------------------------------------------------------------------------------------------------------------


def test_two_axes_have_one_key_exactly_if_they_have_the_same_column_and_coding():
    axes = [sample.attribute.axis for sample in ATTRIBUTES.values()]
    axes += [replace(a, column="other") for a in axes]
    axes += [
        Axis(Range(0, 9, clip=True)), Axis(Range(0, 9), date_part=YEAR), Axis(Cuts((1.0, 2.5))),
        Axis(Cuts((1.0, 2.25))),
        Axis(Range(0, 9), date_part=DateField(DatePart.AGE, date(2024, 1, 1))), Axis(Codes((1, 0))),
        Axis(Range(0, 9), date_part=DateField(DatePart.AGE, date(2024, 1, 2))), Axis(Codes(("1", "0"))),
        Axis(Codes((True, False))), Axis(Codes((1, 0), (1, 0))), Axis(LeafCodes(LISTED, 0)), Axis(LEAVES),
        Axis(LeafCodes(REGULAR, 0)), Axis(LeafCodes(REGULAR, 1)), Axis(AMOUNT),
        Axis(replace(AMOUNT, valid=(0.0, 99.5))),
        Axis(replace(AMOUNT, ceilings=(Fraction(5),))), Axis(CodingWithMissing(Range(0, 9), ((-9,), ("N",)))),
        Axis(CodingWithMissing(Range(0, 9), (("N",), (-9,)))), Axis(CodingWithMissing(Range(0, 9), ((-9,),), REFUSED)),
        Axis(CodingWithMissing(Range(0, 9), ((-9,),), OUTSIDE, REFUSED)), Axis(Range(0, 9), ordered=True),
    ]  # fmt: skip
    decides = [(a.column, a.date_part, a.coding.definition) for a in axes]
    keys = [cell_key(Domain({"x": a}), "x") for a in axes]
    for i, j in itertools.combinations(range(len(axes)), 2):
        same = (axes[i].column, axes[i].date_part, axes[i].coding) == (
            axes[j].column,
            axes[j].date_part,
            axes[j].coding,
        )
        # True equals 1 in Python, and is another code.
        same = same and axes[i].coding.values.kind is axes[j].coding.values.kind
        assert (keys[i] == keys[j]) == same == (decides[i] == decides[j] and same), (axes[i], axes[j])


def test_a_key_names_the_column_and_follows_the_axis_of_classes():
    with_column, without_column = Domain({"sex": Axis(Codes(("f", "m")), "sex")}), Domain({"sex": AXES["sex"]})
    assert cell_key(with_column, "sex") == cell_key(without_column, "sex")
    assert axis_key(with_column, "sex") == f"sex:{cell_key(with_column, 'sex')}"
    assert cell_key(Domain({"x": AXES["sex"]}), "x") != cell_key(without_column, "sex")
    pays = [Domain({"pay": by_class(10, 20), "sex": x}) for x in (AXES["sex"], Axis(Codes(("m", "f"))))]
    assert len({cell_key(x, "pay") for x in pays}) == 2
    equal = [replace(AMOUNT, valid=valid) for valid in ((0.0, 99.0), (0, 99))]
    assert len({cell_key(Domain({"x": Axis(x)}), "x") for x in equal}) == 1
    large = fn.Domain(place=fn.Hierarchy.regular(a=10, b=100_000)).axes
    assert cell_key(large, "a") != cell_key(large, "b") == cell_key(large, "place")
    assert "codes" not in vars(large["place"].tree)
    with refused("domain.unknown-attribute"):
        cell_key(large, "b in a")


# --- joint axes ------------------------------------------------------------------------------------


def domain_of_three():
    axes = {"u": Axis(Range(0, 3), "x"), "s": Axis(Codes(("f", "m"))), "v": Axis(Range(0, 2), "x")}
    return Domain(axes, [JointAxis(("u", "v"), ((0, 1), (1, 0), (1, 2), (3, 1)))])


def test_counts_along_a_joint_axis_are_those_of_its_cells(rng):
    domain, counts = domain_of_three(), np.zeros((2, 4, 3), dtype=np.int64)
    for u, v in domain.joint["u × v"].cells:
        counts[:, u, v] = rng.integers(1, 9, 2)
    axes = domain.counting_axes(("s", "u × v"))
    assert axes == ((("s",), ("s",)), (("u", "v"), ("u × v",)))
    expected = np.stack([counts[:, u, v] for u, v in domain.joint["u × v"].cells], axis=1)
    np.testing.assert_array_equal(domain.counts_along(counts, axes), expected)
    counts[:, 2, 2] = 1, 2
    with refused("data.combination-not-planned") as caught:
        domain.counts_along(counts, axes)
    assert "['u', 'v']" in caught.value.given
    assert caught.value.given.endswith("is: 3.")
    # In shares, the counts are no numbers of records.
    with refused("data.combination-not-planned") as caught:
        domain.counts_along(counts, axes, parts=2**20)
    assert caught.value.given.endswith("is: some.")
    for margin in (("u × v", "u"), ("v", "s", "u × v")):
        with refused("domain.joint-axis-beside-attribute"):
            domain.counting_axes(margin)
    assert domain.joint["u × v"].column("v").tolist() == [1, 0, 2, 1]
    assert domain.attributes_of("u × v") == ("u", "v")
    assert (domain.attribute_of("u × v"), domain.attributes_of("s")) == ("u × v", ("s",))


def test_an_axis_determines_the_attributes_of_its_joint_axis():
    """An attribute does so if its cells are those of the list, each once and in order."""
    columns = domain_of_three().columns("u × v")
    assert {a: x.tolist() for a, x in columns.items()} == {"u": [0, 1, 1, 3], "v": [1, 0, 2, 1]}
    assert not any(domain_of_three().columns(a) for a in "usv")
    for cells, axis in (([(0, 1), (1, 1), (2, 0), (3, 2)], "u"), ([(1, 0), (2, 1), (2, 2)], "v")):
        domain = Domain(dict(domain_of_three().entries), [JointAxis(("u", "v"), tuple(cells))])
        columns = domain.columns(axis)
        assert list(zip(*(columns[a].tolist() for a in "uv"), strict=True)) == cells
        structure = CellStructure((), (("s", 2), (axis, len(cells))))
        positions = structure.positions(domain)
        assert positions["v"].tolist() == [v for _, v in cells] * 2
        assert positions["s"].tolist() == [0] * len(cells) + [1] * len(cells)
        assert set(structure.positions(None)) == {"s", axis}
    # A value that is in no combination: the axis has more cells than the list.
    short = Domain(dict(domain_of_three().entries), [JointAxis(("u", "v"), ((0, 1), (1, 1), (2, 0)))])
    assert not short.columns("u")


def test_the_key_of_a_joint_axis_covers_its_attributes_and_all_its_cells():
    domain = domain_of_three()
    axes = dict(domain.entries)
    others = [
        Domain(axes, [JointAxis(("u", "v"), ((0, 1), (1, 0), (1, 2)))]),
        Domain(axes | {"v": Axis(Range(1, 3), "x")}, domain.joint.values()),
    ]
    keys = {cell_key(x, "u × v") for x in (domain, *others)} | {cell_key(domain, a) for a in axes}
    assert len(keys) == 6
    assert cell_key(Domain(axes, domain.joint.values()), "u × v") in keys


@pytest.mark.parametrize(
    ("names", "cells"),
    [
        (("u",), ((0,),)),
        (("u", "w"), ((0, 0),)),
        (("u", "u"), ((0, 0),)),
        (("u", "amount"), ((0, 0),)),
        (("u", "v"), ()),
        (("u", "v"), ((0, 1), (0, 1))),
        (("u", "v"), ((1, 0), (0, 1))),
        (("u", "v"), ((0, 3),)),
        (("u", "v"), ((-1, 0),)),
        (("u", "v"), ((0, 1, 2),)),
        (("u", "v"), ((0, True),)),
    ],
)
def test_a_joint_axis_that_does_not_fit_is_refused(names, cells):
    amount = fn.Domain(amount=fn.Amount(0, 10, step=1)).axes["amount"]
    axes = dict(domain_of_three().entries) | {"amount": amount}
    with refused("domain.joint-axis-invalid"):
        Domain(axes, [JointAxis(names, cells)])
    with refused("domain.joint-axis-invalid"):
        Domain(axes, rules={"one": JointAxis(names, cells)})


def test_rules_have_names_of_their_own():
    axes, rule = dict(domain_of_three().entries), JointAxis(("u", "v"), ((0, 0),))
    domain = Domain(axes, [rule], {"one": rule, "two": rule})
    assert domain.attribute_of("two") == "two"
    assert domain != Domain(axes, [rule], {"one": rule})
    for name in ("u", "S", "u × v", "a\tb"):
        with refused("domain.attribute-name-repeated", "domain.attribute-name-invalid"):
            Domain(axes, [rule], {name: rule})


def test_a_margin_counts_no_attribute_of_two_joint_axes_twice():
    axes = dict(domain_of_three().entries)
    domain = Domain(axes, [JointAxis(("u", "v"), ((0, 0),)), JointAxis(("v", "s"), ((0, 0),))])
    assert domain.counting_axes(("v × s",)) == ((("v", "s"), ("v × s",)),)
    with refused("domain.joint-axis-beside-attribute"):
        domain.counting_axes(("u × v", "v × s"))
    with refused("domain.attribute-name-repeated"):
        Domain(axes | {"u × v": axes["s"]}, [JointAxis(("u", "v"), ((0, 0),))])
