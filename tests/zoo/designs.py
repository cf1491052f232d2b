"""The designs of the zoo, the neighbours that they are priced for, and questions with finitely many answers."""

import itertools
from fractions import Fraction

import numpy as np

import fitnoise as fn
from designs import answer, cells_over, of_margins, of_products, of_sectors, of_trees, ranked, with_steps
from fitnoise.kernel.units import Adjacency
from fitnoise.mechanisms import finite
from fitnoise.request.finite_queries import FiniteQuery
from zoo.arrays import POSITIVE_INTEGERS

_ADD, _REPLACE = fn.Neighbours

ADJACENCIES = {
    "add or remove": Adjacency(),
    "add or remove, dropped": Adjacency(drops=True),
    "add or remove 2": Adjacency(fn.PrivacyUnit("person", 2)),
    "add or remove 3": Adjacency(fn.PrivacyUnit("person", 3)),
    "replace": Adjacency(fn.PrivacyUnit("person", 1, _REPLACE)),
    "replace, dropped": Adjacency(fn.PrivacyUnit("person", 1, _REPLACE), drops=True),
    "replace 2": Adjacency(fn.PrivacyUnit("person", 2, _REPLACE)),
    "replace 3": Adjacency(fn.PrivacyUnit("person", 3, _REPLACE)),
    "add or remove 3, once per a0": Adjacency(fn.PrivacyUnit("person", 3, once_per=["a0"])),
    "add or remove 3, once per o": Adjacency(fn.PrivacyUnit("person", 3, once_per=["o"])),
    "add or remove 3, 2 for each a0": Adjacency(fn.PrivacyUnit("person", 3, per_value={"a0": 2})),
    "add or remove 2, separated in o, equal in a0": Adjacency(
        fn.PrivacyUnit("person", 2, separation={"o": 2}, fixed=["a0"])
    ),
    "replace 2, once per a0 and o": Adjacency(fn.PrivacyUnit("person", 2, _REPLACE, once_per=["a0", "o"])),
}

TABLES = {
    "sectors of exchangeable attributes": of_sectors(
        cells_over((3, 2)),
        ([[1]], {(): ([[3]], 5)}),
        ([[2]], {(0,): ([[1]], 4), (1,): ([[-7]], 8.5)}),
        ([[1]], {(0, 1): ([[2]], 3)}),
    ),
    "sectors of structured attributes": of_sectors(
        cells_over((), 2, 3),
        (
            [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0], [1, 2, 0, 0, 0, -1]],
            {(): ([[3, 0, 1, 0], [0, 2, 0, -1], [1, 1, 1, 1], [0, 0, 0, 5]], 6.25)},
        ),
    ),
    "sectors of both": of_sectors(
        cells_over((3, 2), 2),
        ([[1, 1], [1, -2]], {(): ([[1, 2], [0, 1]], 4.5)}),
        ([[1, 0], [0, 1]], {(0,): ([[1, 0], [0, 3]], 7), (1,): ([[2, 1], [1, 1]], 3)}),
        ([[1, -1]], {(0, 1): ([[2]], 2)}),
    ),
    "sectors with an attribute of one value": of_sectors(
        cells_over((1, 3), 2), ([[1, 0], [0, 1]], {(): ([[1, 1], [0, 2]], 4)}), ([[1, 2]], {(1,): ([[3]], 2)})
    ),
    "sectors of equal cells, and of none": of_sectors(cells_over((), 5), ([[1, 1, 0, 2, 2]], {(): ([[3]], 2)})),
    "the total": of_sectors(cells_over((2,), 2), ([[2, 2]], {(): ([[5]], 4)})),
    "sectors of integers beyond 64 bits": of_sectors(
        cells_over((3,), 2),
        ([[1, 0], [1, 1]], {(): ([[2**70, 1], [3, 2**66]], 2.0**55)}),
        ([[1, 1]], {(0,): ([[2**62]], 1024)}),
    ),
    "sectors of integers whose product is small": of_sectors(
        cells_over((), 2), ([[1, 1], [1, 1]], {(): ([[2**70, 1 - 2**70], [1, 0]], 2)})
    ),
    "sectors of integers below 62 bits": of_sectors(
        cells_over((4,), 2), ([[1, 0], [2**31, 1]], {(0,): ([[2**61, 7], [3, -(2**60)]], 0.75)})
    ),
    "margins of both": of_margins(
        cells_over((3, 2), 2), 8.0, ((), [[1, 2], [0, -3]]), ((0,), [[4, 0]]), ((0, 1), [[0, 5]])
    ),
    "margins of structured attributes": of_margins(
        cells_over((), 2, 3),
        6.25,
        ((), [[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1], [1, 0, 2, 1, 0, 2], [0, 0, 0, 0, 0, -7]]),
    ),
    "margins of exchangeable attributes": of_margins(cells_over((2, 3)), 0.75, ((0,), [[2]]), ((1,), [[-3], [1]])),
    "margins of an attribute of one value": of_margins(
        cells_over((1, 2), 2), 4.0, ((0,), [[1, 3]]), ((0, 1), [[2, 1]])
    ),
    "a margin that replacing does not move": of_margins(cells_over((), 2), 8.0, ((), [[2, 2]])),
    "margins of large integers": of_margins(
        cells_over((3,), 2), 2.0**44, ((), [[2**40 - 1, 1 - 2**40]]), ((0,), [[2**39, 3]])
    ),
    "margins of an amount": of_margins(
        with_steps(cells_over((2,), 3), o=(3,)),
        4.0,
        ((), [[2, -1, 5], [1, 4, 0]]),
        ((0,), [[0, 6, 1], [3, 0, 1], [-3, 3, 0]]),
    ),
    "margins of an amount with ceilings": of_margins(
        with_steps(cells_over((2,), 4), o=(2, 1)), 6.25, ((), [[1, 3, 0, 5], [2, 0, 1, 0]]), ((0,), [[-2, 2, 3, 0]])
    ),
    "margins of amounts and others": of_margins(
        with_steps(cells_over((), 2, 2, 2), o1=(2,), o2=(3,)),
        8.0,
        ((), [[1, 4, 3, 12, 0, 3, 2, 5], [0, 6, 0, 6, 1, 1, 1, 1], [6, 0, 0, 0, 0, 0, 0, 0], [2, 2, 0, 0, 2, 2, 4, 4]]),
    ),
    "sparse margins": of_margins(
        cells_over((), 12), 4.0, ((), np.diag(np.arange(1, 13)) + 5 * np.eye(12, k=1, dtype=int))
    ),
    "dense margins": of_margins(cells_over((), 8), 4.0, ((), POSITIVE_INTEGERS)),
}

PRODUCTS = {
    "products of factors": of_products(
        cells_over((3, 2, 2)),
        ([[1, 2, -1], [0, 3, 1]], [[2, -1]], None),
        {(): (3, 5)},
        {(0,): (1, 4), (2,): (5, 8.5)},
        {(0, 1): (2, 3), (1, 2): (1, 16)},
    ),
    "products of centrings": of_products(cells_over((4, 2)), (None, None), {(): (1, 4)}, {(0, 1): (7, 6.25)}),
    "a product with one value, and with all": of_products(
        cells_over((1, 3)), (None, [[1, 0, 0], [1, 1, 0], [1, 1, 1]]), {(1,): (1, 2)}
    ),
    "products beyond 64 bits": of_products(
        cells_over((2, 2)), ([[2**61, 1]], [[2**40, 7]]), {(): (1, 2.0**55)}, {(0, 1): (2**50, 1024)}
    ),
    "products of rows with scales of their own": of_products(
        cells_over((3, 2, 3)),
        ([[1, 2, -1], [0, 3, 1]], [[2, -1], [1, 1]], None),
        {(): (3, 5)},
        {(0,): (1, [4, 7.5]), (2,): (5, 8.5)},
        {(0, 1): (2, [3, 4, 5.25, 6]), (1, 2): (1, [16, 9])},
    ),
    "rows with scales of their own beyond 64 bits": of_products(
        cells_over((2, 2)),
        ([[2**61, 1], [1, 2**40]], [[2**40, 7]]),
        {(): (1, 2.0**55)},
        {(0, 1): (2**50, [1024, 2.0**54])},
    ),
    "products whose squares pass 64 bits": of_products(
        cells_over((2, 2)), ([[2**33, 3]], None), {(0,): (1, 1)}, {(0, 1): (1, 2)}
    ),
}
"""Designs of products: what they lose is proven for records that come or go, and bounded for those replaced."""

SCALES = [[3, 4, 5, 8], [9, 5, 4, 3], [4, 7, 3, 6], [5, 3, 8, 4], [8, 4, 3, 5], [3, 6, 4, 7]]

DISAGREEING = of_products(
    cells_over((3,) * 4),
    [[[1, 2, 4], [4, 3, 1]]] * 4,
    {(): (3, 5)},
    {(0,): (1, [5, 7])},
    {t: (2, scales) for t, scales in zip(itertools.combinations(range(4), 2), SCALES, strict=True)},
)
"""Pairs of four attributes with different costliest cells."""

CHAINED = of_products(
    cells_over((3,) * 3),
    [[[1, 2, 4], [4, 3, 1]]] * 3,
    {(0,): (1, [0.7, 2.1])},
    {(0, 1): (2, [3.3, 4.7, 5.1, 0.9])},
    {(0, 1, 2): (1, [1.1, 1.3, 1.7, 1.9, 2.3, 2.9, 3.1, 3.7])},
)
"""Sets of which each holds the one before, in numbers of many bits."""

TREES = {
    "a tree and an attribute": of_trees(
        cells_over((3, 2, 4)),
        (1, 2),
        ([0, 0], [0, 0, 0, 1]),
        ([0, 1], [0, 0, 1, 2]),
        ((), 1, ([1, 2], [3, 1, 2]), {0: [2.0], 2: [1.0, 2.5, 3.0]}),
        ((0,), 2, ([5, 1], [1, 1, 1]), {1: [2.0, 4.0], 2: [8.0, 8.0, 9.0]}),
    ),
    "a tree of its top": of_trees(
        cells_over((3, 2)), (1,), ([0, 0],), ([0, 0],), ((), 1, (), {0: [3]}), ((0,), 3, (), {0: [7]})
    ),
    "a tree beyond 64 bits": of_trees(
        cells_over((2, 3)),
        (0, 1),
        ([0, 0], [0, 1, 1]),
        ([0, 1], [0, 1, 1]),
        ((), 2**40, ([2**30, 1], [2**61, 3]), {0: [2.0**55], 2: [1.0, 4.0]}),
    ),
    "a tree whose squares pass 64 bits": of_trees(
        cells_over((2,)), (0,), ([0, 0],), ([0, 1],), ((), 1, ([2**33, 3],), {0: [1.0], 1: [2.0, 5.0]})
    ),
}
"""Designs of nested places: what they lose is proven for records that come or go, and bounded for those replaced."""

_PEOPLE = fn.Domain(o=fn.Ordered(-1, 1), a=fn.Categorical(["x", "y"]))

_WORKERS = fn.Domain(a=fn.Categorical(["x", "y"]), o=fn.Ordered(2, 4))

_ASK = {"people": 3, "epsilon": 6}

QUESTIONS = {
    "count": (_PEOPLE, FiniteQuery.count("q", where={"a": "x"}, **_ASK)),
    "all": (_PEOPLE, FiniteQuery.count("q", **_ASK)),
    "independent counts": (_PEOPLE, FiniteQuery.counts("q", where=[{"a": "x"}, {"o": [0, 1]}], **_ASK)),
    "disjoint counts": (_PEOPLE, FiniteQuery.counts("q", where=[{"o": -1}, {"o": 1}], **_ASK)),
    "counts of everyone": (_PEOPLE, FiniteQuery.counts("q", where=[{"a": "x"}, {"a": "y"}], **_ASK)),
    "sum": (_PEOPLE, FiniteQuery.sum("q", "o", **_ASK)),
    "sum of some": (_WORKERS, FiniteQuery.sum("q", "o", where={"a": "x"}, **_ASK)),
    "sum above 0": (_WORKERS, FiniteQuery.sum("q", "o", **_ASK)),
    "median": (_PEOPLE, FiniteQuery.median("q", "o", **_ASK)),
    "median of some": (_WORKERS, FiniteQuery.median("q", "o", where={"a": ["y"]}, **_ASK)),
    "quantile": (_PEOPLE, FiniteQuery.quantile("q", "o", quantile=Fraction(2, 3), **_ASK)),
}

_BOXES = ("count", "all", "independent counts", "sum", "sum of some", "sum above 0")


def _best(make):
    """Return a function that gives the best mechanism on average if all results are equally likely."""
    return lambda graph, epsilon: make(graph, epsilon, finite.uniform(graph)).mechanism


FORMS = {  # what answers a question, and which of them
    "tight constraints": (finite.tight_constraints, QUESTIONS),
    "geometric noise": (finite.geometric, QUESTIONS),
    "residual column": (_best(finite.residual_column), ("sum", "disjoint counts")),
    "staircase noise": (finite.staircase, ("sum above 0",)),
    "randomised response": (finite.randomised_response, ("count", "median of some")),
    "distance kernel": (finite.distance_kernel, ("independent counts",)),
    "linear program": (_best(finite.optimal), ("sum of some", "median")),
    "tight constraints without a table": (finite.lazy_tight_constraints, _BOXES),
    "clamped noise": (finite.clamped_staircase, _BOXES),
}

DESIGNS = {name: lambda _, design=design: design for name, design in TABLES.items()} | {
    f"{q} by {form}": answer(*QUESTIONS[q], make) for form, (make, questions) in FORMS.items() for q in questions
}

DESIGNS |= {f"{q} by ranks": ranked(*QUESTIONS[q]) for q in ("median", "median of some", "quantile")}
"""Each by what neighbours are, of which the ε of an answer depends."""
