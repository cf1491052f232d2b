import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo
from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from laws.operators import check_operator
from refused import refused
from tolerances import EXACT


@pytest.mark.parametrize("name", zoo.OPERATORS)
def test_laws(name, rng):
    check_operator(zoo.OPERATORS[name], rng)


def test_matrices_of_the_same_entries_in_the_same_format_are_equal():
    """Detects a table with a matrix that is not equal to itself once it was written and read."""
    one, two = op.Dense(np.eye(2, dtype=int)), op.Dense(np.eye(2, dtype=int))
    assert one == two
    assert hash(one) == hash(two)
    assert op.Dense(np.eye(2)) != one != op.Dense(np.ones((2, 2), int))
    assert one != op.Identity(2)


def leaves():
    sizes = st.integers(1, 4)
    groups = sizes.flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True).map(tuple), min_size=1, max_size=3
        ).map(lambda g: op.Groups(n, tuple(g)))
    )
    intervals = sizes.flatmap(
        lambda n: st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).map(lambda b: tuple(sorted(b))),
            min_size=1,
            max_size=4,
        ).map(lambda b: op.Intervals(n, tuple(b)))
    )
    simple = st.one_of(*(sizes.map(kind) for kind in (op.Identity, op.Total, op.Prefix)))
    return st.one_of(simple, groups, intervals)


@settings(max_examples=60)
@given(st.lists(leaves(), min_size=1, max_size=3), st.integers(0, 2**32))
def test_kronecker_of_anything(factors, seed):
    a = op.Kronecker(tuple(factors))
    check_operator(op.Stack((a, op.Total(a.shape[1]))), np.random.default_rng(seed))


@given(leaves(), st.integers(0, 2**32))
def test_a_matrix_is_recognised_by_its_structure(a, seed):
    matrix = rules.dense(a)
    for written_out in (matrix, matrix.astype(float), np.random.default_rng(seed).permutation(matrix), 2 * matrix - 1):
        np.testing.assert_array_equal(rules.dense(op.from_matrix(written_out)), written_out)
    recognised = op.from_matrix(matrix)
    if a.shape != (1, 1) and not isinstance(a, op.Groups):
        assert recognised == a or (isinstance(a, op.Intervals) and np.array_equal(matrix, rules.dense(recognised)))
        assert not isinstance(recognised, op.Dense)


def test_integers_stay_integers():
    for a in (op.Prefix(3), op.Total(3), op.Groups(3, ((0, 2),)), op.Kronecker((op.Prefix(2), op.Identity(2)))):
        assert rules.dense(a).dtype.kind == "i"


def test_no_rule_is_an_error_not_a_dense_fallback():
    class Unknown(op.Operator):
        shape = (1, 1)

        def mv(self, x):
            return x

        def rmv(self, y):
            return y

    for rule in (rules.dense, rules.gram, rules.column_norms, rules.row_norms):
        with refused("workload.operator-without-rule"):
            rule(Unknown())
    for rule in (rules.weighted_gram, rules.row_variances):
        with refused("workload.operator-without-rule"):
            rule(Unknown(), np.ones((1, 1)))


def all_ranges(n):
    return op.Intervals(n, tuple((lo, hi) for lo in range(n) for hi in range(lo, n)))


def test_all_ranges_without_their_matrix(rng):
    n = 300
    a = all_ranges(n)
    m = a.shape[0]
    w, x, factor = rng.normal(size=m), rng.normal(size=n), rng.normal(size=(n, 4))
    s = factor @ factor.T
    tracemalloc.start()
    try:
        weighted, variances = rules.weighted_gram(a, w), rules.row_variances(a, s)
        assert tracemalloc.get_traced_memory()[1] < 8 * m * n / 10
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(weighted @ x, a.rmv(w * a.mv(x)), rtol=EXACT, atol=EXACT * np.abs(w).sum())
    np.testing.assert_allclose(variances, (a.mv(factor) ** 2).sum(axis=1), rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("n", [rules.PANEL, rules.PANEL + 1, 2 * rules.PANEL + 2])
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("kind", ["ranges", "prefixes"])
def test_sums_over_more_cells_than_are_turned_over_at_once(kind, n, batch, rng):
    """Against the matrix; of matrices that are not symmetric only the symmetric part counts, and nothing is changed."""
    a = op.Prefix(n) if kind == "prefixes" else op.Intervals(n, tuple((lo, lo + lo % (n - lo)) for lo in range(n)))
    m = rules.dense(a).astype(float)
    w, s = rng.random((n, *batch)), rng.normal(size=(n, n, *batch))
    copies = w.copy(), s.copy()
    weighted, variances = rules.weighted_gram(a, w), rules.row_variances(a, s)
    np.testing.assert_allclose(weighted, np.einsum("ji,j...,jk->ik...", m, w, m), rtol=EXACT)
    np.testing.assert_allclose(variances, np.einsum("ji,ik...,jk->j...", m, s, m), rtol=EXACT, atol=EXACT * n)
    np.testing.assert_array_equal(rules.gram(a), (m.T @ m).astype(int))
    np.testing.assert_array_equal(w, copies[0])
    np.testing.assert_array_equal(s, copies[1])


@pytest.mark.parametrize("axes", [1, 2])
def test_cells_outside_a_query_cost_its_variance_no_digits(axes):
    a, variances = all_ranges(3), np.array([1e20, 1.0, 1e-20])
    for _ in range(axes - 1):
        a, variances = op.Kronecker((op.Prefix(2), a)), np.concatenate([variances, 1e20 * variances])
    got = rules.row_variances(a, np.diag(variances))
    np.testing.assert_allclose(got, rules.dense(a) ** 2 @ variances, rtol=EXACT)


def test_the_ends_of_ranges_are_made_once_and_frozen():
    a, b = all_ranges(3), all_ranges(3)
    assert a.ends is a.ends
    assert a == b
    assert hash(a) == hash(b)
    with pytest.raises(ValueError, match="read-only"):
        a.ends[0][0] = 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: op.Dense(np.array([1.0, 2.0])), "workload.matrix-shape-wrong"),
        (lambda: op.Dense(np.zeros((0, 3))), "workload.matrix-shape-wrong"),
        (lambda: op.Dense(np.array([[1.0, np.nan]])), "workload.matrix-not-finite"),
        (lambda: op.Dense(np.array([["a"]])), "workload.matrix-not-real"),
        (lambda: op.Dense(np.array([[2**53, 1]])), "workload.matrix-entry-too-large"),
        (lambda: op.Dense(np.array([[-(2**63), 1]])), "workload.matrix-entry-too-large"),
        (lambda: op.Dense(np.array([[2**64 - 1]], dtype=np.uint64)), "workload.matrix-entry-too-large"),
        (lambda: op.Dense(np.array([[1j]])), "workload.matrix-not-real"),
        (lambda: op.Intervals(3, ()), "workload.no-ranges"),
        (lambda: op.Intervals(3, ((1, 3),)), ("workload.group-cells-unusable", "workload.range-outside-cells")),
        (lambda: op.Intervals(3, ((2, 1),)), ("workload.group-cells-unusable", "workload.range-outside-cells")),
        (lambda: op.Groups(3, ()), "workload.no-groups"),
        (lambda: op.Groups(3, ((0, 0),)), "workload.group-cells-unusable"),
        (lambda: op.Groups(3, ((),)), ("workload.group-cells-unusable", "workload.range-outside-cells")),
        (lambda: op.Groups(3, ((3,),)), ("workload.group-cells-unusable", "workload.range-outside-cells")),
        (lambda: op.Kronecker(()), "workload.no-kronecker-factors"),
        (lambda: op.Stack((op.Identity(2), op.Identity(3))), "workload.stacked-cells-differ"),
        (lambda: op.Scaled(op.Identity(2), np.array([1.0])), "workload.query-weights-misfit"),
        (lambda: op.Scaled(op.Identity(1), np.array([np.inf])), "workload.query-weights-misfit"),
    ],
)
def test_bad_operators_are_refused(make, message):
    with refused(message):
        make()


def test_dense_is_a_frozen_copy():
    given_matrix = np.eye(2)
    a = op.Dense(given_matrix)
    given_matrix[0, 0] = 7
    assert a.matrix[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        a.matrix[0, 0] = 3
