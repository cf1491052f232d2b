"""The comparison of ranks with rules and without them: the known counterexamples, and dense ranks of random tables."""

import contextlib
import itertools

import numpy as np
import pytest

import fitnoise as fn
from dense import workload_matrix
from fitnoise.messages import english
from fitnoise.planning import rule_ranks
from fitnoise.planning.rule_ranks import rules_add_nothing
from fitnoise.planning.shared_columns import counted_jointly

CUBE = fn.Domain({a: fn.Ordered(0, 1) for a in "abc"})
SQUARE = fn.Domain({a: fn.Ordered(0, 2) for a in "ab"})
ZEROS, ONES = dict.fromkeys("abc", 0), dict.fromkeys("abc", 1)
BOX = {a: {"values": [0, 1]} for a in "ab"}


def publication(domain, *tables):
    return fn.Publication(
        fn.Workload(domain, [t if not isinstance(t, tuple) else fn.table(*t, variance=1) for t in tables])
    )


def test_two_boxes_can_add_information_where_neither_does():
    pairs = list(itertools.combinations("abc", 2))
    verdicts = [
        rules_add_nothing(publication(domain, *pairs))
        for domain in (CUBE.without(ZEROS), CUBE.without(ONES), CUBE.without(ZEROS).without(ONES))
    ]
    assert verdicts == [True, True, False]
    matrix = workload_matrix(publication(CUBE, *pairs).workload)
    columns = ([], [0], [7], [0, 7])
    assert [np.linalg.matrix_rank(np.delete(matrix, x, axis=1)) for x in columns] == [7, 7, 7, 6]


def test_rules_that_add_nothing_can_lower_the_price():
    tables = [fn.table(a, variance=1) for a in "ab"]
    ruled = SQUARE.without(BOX)
    assert rules_add_nothing(publication(ruled, *tables))
    prices = [2 * fn.plan(fn.Workload(domain, tables)).rho for domain in (SQUARE, ruled)]
    assert prices == pytest.approx([1.6285, 1.6141], abs=1e-4)
    plan = fn.plan(fn.Workload(ruled, tables))
    sentence = "no table shows a, b together in this detail: the rules exclude records, and add no information to "
    assert english(list(counted_jointly(plan))[-1]) == sentence + "the tables"


@pytest.mark.parametrize("seed", range(60))
def test_verdicts_are_those_of_dense_ranks(seed):
    """Random tables by value, by cumulative counts and by level; random rules, also on attributes no table shows."""
    rng = np.random.default_rng(seed)
    places = [("east", "a"), ("east", "b"), ("east", "c"), ("west", "d"), ("west", "e")]
    hierarchy = fn.Hierarchy(["side", "place"], places)
    numbers = {a: fn.Ordered(0, int(rng.integers(0, 5))) for a in ("x", "y", "z", "w")}
    domain = fn.Domain(numbers | ({"place": hierarchy} if seed % 2 else {}))
    shape = domain.shape
    names = rng.permutation(list(domain))[: rng.integers(2, 4)].tolist()
    names = [a for a in domain if a in names and domain[a].size > 1]
    boxes = [{a: {"values": rng.permutation(list(domain[a].cell_names))[:2].tolist()} for a in names} for _ in range(2)]
    ruled = domain
    for box in boxes[: rng.integers(1, 3)] if len(names) > 1 else []:
        with contextlib.suppress(fn.errors.DomainError):
            ruled = ruled.without(box)
    tables = []
    for k in range(rng.integers(1, 5)):
        displayed = [a for a in domain if rng.random() < 0.5]
        level = {"place": "side"} if rng.random() < 0.3 else {}
        displayed = [level.get(a, a) for a in displayed]
        cumulative = [a for a in displayed if a in numbers and domain[a].size > 1 and rng.random() < 0.2]
        tables.append(
            fn.table(*[a for a in displayed if a not in cumulative], cumulative=cumulative, variance=1, name=f"{k}")
        )
    matrix = workload_matrix(publication(domain, *tables).workload)
    possible = np.ones(shape, dtype=bool)
    for one in ruled.ruled_cells:
        among = one.possible_among(ruled, one.names)
        positions = [list(domain).index(ruled.attribute_of(a)) for a in one.names]
        possible &= among.reshape([n if i in positions else 1 for i, n in enumerate(shape)])
    ranks = [np.linalg.matrix_rank(x) for x in (matrix, matrix[:, possible.ravel()])]
    assert rules_add_nothing(publication(ruled, *tables)) == (ranks[0] == ranks[1])


def test_columns_that_several_attributes_read_are_no_rule():
    """A group follows from the age, so a rule on the group is one on the age, and no table shows the sex."""
    domain = fn.Domain(age=fn.Ordered(0, 4), group=fn.Binned([2], column="age"), sex=fn.Categorical(["f", "m"]))
    ruled = domain.without(group={"below": 2}, sex="f")
    assert rules_add_nothing(publication(ruled, ("age",), ("group",)))
    assert not rules_add_nothing(publication(ruled, ("age",), ("group", "sex")))
    assert not rules_add_nothing(publication(ruled, ("age", "sex")))


@pytest.mark.parametrize("limit", ["MAX_SETS", "MAX_VALUES", "MAX_ENTRIES"])
def test_too_much_to_compare_gives_no_verdict(limit, monkeypatch):
    ruled = publication(SQUARE.without(BOX), ("a",), ("b",))
    assert rules_add_nothing(ruled)
    monkeypatch.setattr(rule_ranks, limit, 1)
    assert not rules_add_nothing(ruled)


def test_many_values_and_attributes_are_two_of_each_class():
    """A rule on two of nine attributes, of which one has 1,000 values."""
    domain = fn.Domain({"age": fn.Ordered(0, 999)} | {a: fn.Ordered(0, 9) for a in "abcdefgh"})
    ruled = domain.without({"age": {"at_most": 14}, "a": {"at_least": 5}})
    others = [fn.all_tables(2, ["age", *"bcdefgh"], variance=1), fn.all_tables(3, list("abcdefgh"), variance=1)]
    assert rules_add_nothing(publication(ruled, *others))
    assert not rules_add_nothing(publication(ruled, *others, fn.table("age", "a", variance=1)))
