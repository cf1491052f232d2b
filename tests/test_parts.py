"""Queries split by what they depend on, and products that are exact."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fitnoise.kernel.designs._base import CellStructure
from fitnoise.kernel.designs.query_blocks import attribute_names, exact_matmul, split
from refused import refused

SHAPE = (2, 3, 1)
STRUCTURE = CellStructure((("x", 4), ("y", 2)), (("a", 2), ("b", 3), ("c", 1)))


@pytest.mark.parametrize(
    "steps",
    [[("a", ())], [("a", (0,))], [("a", (1, 1))], [("a", (1,)), ("a", (1,))], [("x", (1,))], [("other", (1,))]],
    ids=str,
)
def test_amounts_are_structured_and_have_ends(steps):
    """At least one step between two knots, each of them a cell, and each amount named once."""
    with refused("plan.design-amounts-misfit"):
        CellStructure((("x", 4),), (("a", 2), ("b", 3)), tuple(steps))
    assert CellStructure((("x", 4),), (("a", 2), ("b", 3)), (("a", (1,)), ("b", (1, 1)))).steps == (
        ("a", (1,)),
        ("b", (1, 1)),
    )
    with refused("plan.design-attribute-twice"):
        CellStructure((("x", 4),), (("x", 2),))


def test_between_knots_integers_of_62_bits_are_stored_exactly():
    structure, max_number = CellStructure((), (("p", 2),), (("p", (1,)),)), 2**62 - 1
    for ends in ([0, max_number], [-max_number, max_number], [max_number - 2, max_number]):
        (part,) = split(np.array([ends], dtype=object), structure)
        assert (part.queries.dtype, part.queries.tolist()) == (np.int64, [ends])
    for ends in ([0, 2**62], [2**62, 2**62], [2**70, 2**70 + 1]):
        with refused("plan.amount-rows-too-large"):
            split(np.array([ends], dtype=object), structure)


@given(st.data(), st.lists(st.sets(st.integers(0, 1)), min_size=1, max_size=4))
def test_a_query_counts_over_what_it_depends_on_and_nothing_else(data, attribute_sets):
    """Each is a table over some attributes, spread over the others."""
    rows = []
    for axes in attribute_sets:
        sizes = [n if i in axes else 1 for i, n in enumerate(SHAPE)]
        rows.append(np.broadcast_to(data.draw(arrays(np.int64, sizes, elements=st.integers(-2, 2))), SHAPE).ravel())
    queries = np.array(rows)
    parts = split(queries, STRUCTURE)
    assert sorted(i for part in parts for i in part.places) == list(range(len(rows)))
    assert len({part.inner for part in parts}) == len(parts)
    for part in parts:
        axes = [i for i, (name, _) in enumerate(STRUCTURE.structured) if name in part.inner]
        tables = part.queries.reshape(-1, *(SHAPE[i] for i in axes))
        wide = tables.reshape(-1, *(n if i in axes else 1 for i, n in enumerate(SHAPE)))
        for index, table, repeated in zip(part.places, tables, wide, strict=True):
            assert (np.broadcast_to(repeated, SHAPE).ravel() == queries[index]).all()
            for axis in range(len(axes)):  # it does depend on each
                assert (np.diff(table, axis=axis) != 0).any()


def test_attributes_are_named_in_front_of_those_that_queries_depend_on():
    values = np.array([[0], [1]], dtype=np.intp)
    assert attribute_names(STRUCTURE, values, ("c",)) == [("x", "c"), ("y", "c")]
    assert attribute_names(STRUCTURE, np.zeros((1, 0), dtype=np.intp), ()) == [()]


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0))])
def test_a_product_with_nothing_has_integers(shapes):
    a, b = (np.ones(shape, dtype=np.int64) for shape in shapes)
    product = exact_matmul(a, b)
    assert (product.shape, product.dtype) == ((shapes[0][0], shapes[1][1]), np.int64)
    assert not product.any()


@pytest.mark.parametrize("bits", [10, 24, 25, 26, 30, 31, 32, 40, 70])
def test_products_are_exact_whatever_holds_them(bits):
    """Just below what a double, an int64, or neither can hold: odd numbers, whose products need every bit."""
    large = 2**bits - 1
    entries = [large, -large, large - 2]
    a = np.array(list(itertools.islice(itertools.cycle(entries), 12)), dtype=object).reshape(3, 4)
    if bits < 62:
        a = a.astype(np.int64)
    exact = [[sum(int(x) * int(y) for x, y in zip(row, column, strict=True)) for column in a] for row in a]
    assert exact_matmul(a, a.T).tolist() == exact
