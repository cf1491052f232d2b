"""Φ of query graphs and its weighting: every way agrees with the dense matrix, and with known numbers."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitnoise.errors import WorkloadError
from fitnoise.kernel.designs.graphs import Box
from fitnoise.mechanisms.finite import (
    Similarity,
    bundle,
    complete,
    cycle,
    disjoint_counts,
    exact_weighting,
    from_edges,
    hamming,
    independent_counts,
    path,
    product,
    sum_query,
    weighting,
)
from fitnoise.mechanisms.finite import similarity as module
from fitnoise.mechanisms.finite.partitions import cells
from refused import refused

STAR = from_edges(4, [(0, 1), (0, 2), (0, 3)])
SIX = from_edges(6, [(0, 2), (0, 3), (0, 5), (1, 2), (1, 3), (1, 5), (2, 3), (2, 4), (3, 4), (4, 5)])
PATCHED = from_edges(11, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (3, 5), (6, 7), (4, 8), (8, 9), (9, 4)])

WAYS = [
    (path(1), "banded"),
    (path(2), "banded"),
    (path(7), "banded"),
    (sum_query(3, 5), "banded"),
    (sum_query(1, 4), "banded"),
    (sum_query(20, 3), "banded"),
    (cycle(5), "closed form"),
    (cycle(6), "closed form"),
    (complete(4), "closed form"),
    (hamming(3, 3), "product"),
    (product(path(3), cycle(4), PATCHED), "product"),
    (PATCHED, "blocks"),
    (from_edges(3, []), "blocks"),
    (SIX, "dense"),
    (independent_counts(3, 4), "dense"),
    (disjoint_counts(4, 2), "dense"),
    (bundle(path(3), cycle(4)), "dense"),
    (bundle(sum_query(2, 2), path(3)), "dense"),
]


def phi(graph, epsilon):
    return np.exp(-epsilon * graph.distances())


@st.composite
def graphs(draw, max_nodes=9):
    n = draw(st.integers(1, max_nodes))
    pairs = list(itertools.combinations(range(n), 2))
    return from_edges(n, draw(st.lists(st.sampled_from(pairs), max_size=14) if pairs else st.just([])))


def close_to_singular(graph, epsilon):
    return np.linalg.cond(phi(graph, epsilon)) > 1e6


# ------------------------------------------------------------------------------------------------- ways agree


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 0.97, 2.5])
@pytest.mark.parametrize(("graph", "method"), WAYS)
def test_every_way_agrees_with_the_dense_matrix(graph, method, epsilon, rng):
    dense, op, x = phi(graph, epsilon), Similarity(graph, epsilon), rng.normal(size=graph.n)
    assert op.method == method
    bound = 1e-14 * np.linalg.cond(dense)
    np.testing.assert_allclose(op.times(x), dense @ x, rtol=0, atol=1e-12)
    exact = np.linalg.solve(dense, x)
    np.testing.assert_allclose(op.solve(x), exact, rtol=0, atol=bound * np.abs(exact).max() + 1e-13)
    solution = weighting(graph, epsilon)
    np.testing.assert_allclose(dense @ solution.z, 1, rtol=0, atol=1e-12 + bound)
    np.testing.assert_allclose(solution.z, np.linalg.solve(dense, np.ones(graph.n)), rtol=0, atol=1e-12 + 10 * bound)
    assert solution.residual < 1e-12 + bound
    assert not solution.z.flags.writeable


@settings(max_examples=60)
@given(graphs(), st.floats(0.2, 4))
def test_random_graphs_agree_with_the_dense_matrix(graph, epsilon):
    if close_to_singular(graph, epsilon):
        return
    dense, op = phi(graph, epsilon), Similarity(graph, epsilon)
    x = np.cos(np.arange(graph.n))
    np.testing.assert_allclose(op.times(x), dense @ x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(dense @ op.solve(x), x, rtol=0, atol=1e-8)
    np.testing.assert_allclose(dense @ weighting(graph, epsilon).z, 1, rtol=0, atol=1e-8)


@settings(max_examples=30)
@given(graphs(), st.floats(0.5, 3), st.permutations(range(9)))
def test_relabelling_permutes_the_weighting(graph, epsilon, order):
    if close_to_singular(graph, epsilon):
        return
    new = np.argsort(np.argsort(order[: graph.n]))
    other = from_edges(graph.n, new[graph.edges])
    np.testing.assert_allclose(weighting(other, epsilon).z[new], weighting(graph, epsilon).z, rtol=0, atol=1e-9)


@settings(max_examples=30)
@given(graphs(5), graphs(5), st.floats(0.5, 3))
def test_weightings_multiply_over_products(one, two, epsilon):
    if close_to_singular(one, epsilon) or close_to_singular(two, epsilon):
        return
    z = np.kron(weighting(one, epsilon).z, weighting(two, epsilon).z)
    both = product(one, two)
    np.testing.assert_allclose(weighting(both, epsilon).z, z, rtol=0, atol=1e-9)
    np.testing.assert_allclose(phi(both, epsilon) @ z, 1, rtol=0, atol=1e-8)


@settings(max_examples=30)
@given(graphs(), graphs(), st.floats(0.5, 3))
def test_gluing_at_one_result_adds_what_blocks_say(one, two, epsilon):
    """z_i = 1 + Σ (z_i of block − 1), where the last result of one is the first of two."""
    if close_to_singular(one, epsilon) or close_to_singular(two, epsilon):
        return
    glued = from_edges(one.n + two.n - 1, np.concatenate([one.edges, two.edges + one.n - 1]))
    z = np.ones(glued.n)
    z[: one.n] += weighting(one, epsilon).z - 1
    z[one.n - 1 :] += weighting(two, epsilon).z - 1
    np.testing.assert_allclose(weighting(glued, epsilon).z, z, rtol=0, atol=1e-9)


@settings(max_examples=40)
@given(graphs())
def test_cells_see_the_same_of_every_cell(graph):
    parts = cells(graph)
    d = graph.distances()
    for c in range(parts.m):
        views = {
            tuple(sorted(zip(d[i].tolist(), parts.cell_of.tolist(), strict=True)))
            for i in np.flatnonzero(parts.cell_of == c)
        }
        assert len(views) == 1
    assert np.array_equal(parts.cell_of[parts.first_results], np.arange(parts.m))


def test_cells_of_structures():
    assert cells(independent_counts(30, 30)).m == 136
    assert cells(sum_query(150, 5)).m == 376
    assert cells(independent_counts(3, 4)).m == 2 * 3
    assert cells(from_edges(8, [(i, 4 + j) for i in range(4) for j in range(4)])).m == 1
    assert cells(path(4), np.array([0, 1, 1, 1])).m == 4
    d, classes = disjoint_counts(4, 2).distances(), cells(disjoint_counts(4, 2)).cell_of
    assert all(sorted(d[i]) == sorted(d[j]) for i in range(15) for j in range(15) if classes[i] == classes[j])


@pytest.mark.parametrize("box", [Box((12, 12), (1, 1)), Box((5, 6, 7), (1, 1, 1)), Box((9, 13), (1, 2))])
@pytest.mark.parametrize("epsilon", [1.0, 2.4])
def test_fourier_agrees_with_the_dense_matrix(box, epsilon, rng):
    dense = np.exp(-epsilon * box.distances_from(np.arange(box.n)))
    op, x = module._Fourier(box, math.exp(-epsilon)), rng.normal(size=(box.n, 2))
    np.testing.assert_allclose(op.times(x), dense @ x, atol=1e-12)
    np.testing.assert_allclose(dense @ op.solve(x), x, atol=1e-8)


@pytest.mark.parametrize("epsilon", [0.4, 0.97, 1.5, 2.4, 4.0])
@pytest.mark.parametrize(
    "box", [Box((60,), (1,)), Box((60,), (5,)), Box((14, 14), (1, 1)), Box((7, 7, 7), (1, 1, 1)), Box((9, 13), (1, 2))]
)
def test_eigenvalue_bounds_are_bounds(box, epsilon):
    dense = np.exp(-epsilon * box.distances_from(np.arange(box.n)))
    assert module.eigenvalue_bound(box, math.exp(-epsilon)) <= np.linalg.eigvalsh(dense)[0] + 1e-14


def test_eigenvalue_bounds_are_close():
    """(1 − α)/(1 + α), twice for two axes, is the limit of large boxes."""
    for shape in ((400,), (30, 30)):
        dense = np.exp(-Box(shape, (1,) * len(shape)).distances_from(np.arange(math.prod(shape))))
        bound = module.eigenvalue_bound(Box(shape, (1,) * len(shape)), math.exp(-1))
        assert bound == pytest.approx(np.linalg.eigvalsh(dense)[0], rel=0.05)


# ------------------------------------------------------------------------------------------------- closed forms


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1, 3])
@pytest.mark.parametrize("n", [2, 3, 11, 101])
def test_a_count_is_the_truncated_geometric(n, epsilon):
    a, z = math.exp(-epsilon), weighting(path(n), epsilon).z
    np.testing.assert_allclose(z[[0, -1]], 1 / (1 + a), rtol=1e-14)
    np.testing.assert_allclose(z[1:-1], (1 - a) / (1 + a), rtol=1e-13)


def test_a_count_of_ten_people():
    assert weighting(path(11), 0.5).z.mean() == pytest.approx(0.313562420, abs=5e-10)


@pytest.mark.parametrize(
    ("graph", "value"),
    [
        (cycle(5), 0.339118675),
        (cycle(6), 0.315263445),
        (cycle(12), 0.257751346),
        (cycle(13), 0.254485613),
        (hamming(3, 2), 0.241175365),
        (hamming(5, 4), 0.005611367),
        (hamming(2, 10), 0.023971740),
    ],
)
def test_rings_and_tables_at_one_half(graph, value):
    np.testing.assert_allclose(weighting(graph, 0.5).z, value, atol=5e-10)


def test_trees():
    tree = from_edges(30, [(i // 3, i) for i in range(1, 30)])
    degree = np.bincount(tree.edges.ravel())
    a = 0.4
    np.testing.assert_allclose(weighting(tree, -math.log(a)).z, 1 - degree * a / (1 + a), atol=1e-14)
    assert weighting(tree, 1).method == "blocks"


def test_regular_graphs_have_the_inverse_of_a_row_sum():
    petersen = [(i, (i + 1) % 5) for i in range(5)] + [(i, i + 5) for i in range(5)]
    g = from_edges(10, petersen + [(5 + i, 5 + (i + 2) % 5) for i in range(5)])
    a = math.exp(-0.7)
    np.testing.assert_allclose(weighting(g, 0.7).z, 1 / (1 + 3 * a + 6 * a * a), rtol=1e-13)
    assert weighting(g, 0.7).method == "quotient"


# ------------------------------------------------------------------------------------------------- numbers


def fractions(text, denominator=1):
    return tuple(Fraction(x) / denominator for x in text.split())


@pytest.mark.parametrize(
    ("graph", "alpha", "expected"),
    [
        (path(5), Fraction(1, 2), fractions("2/3 1/3 1/3 1/3 2/3")),
        (sum_query(2, 2), Fraction(1, 2), fractions("6 4 1 4 6", 11)),
        (sum_query(3, 2), Fraction(1, 2), fractions("16 10 4 7 4 10 16", 29)),
        (sum_query(3, 3), Fraction(1, 2), fractions("32/65 23/65 11/65 2/65 5/26 5/26 2/65 11/65 23/65 32/65")),
        (sum_query(2, 5), Fraction(1, 4), fractions("1332 1216 1024 768 464 131 464 768 1024 1216 1332", 2533)),
        (complete(4), Fraction(1, 2), fractions("2/5 2/5 2/5 2/5")),
        (cycle(5), Fraction(1, 2), (Fraction(2, 5),) * 5),
        (cycle(6), Fraction(1, 2), (Fraction(8, 21),) * 6),
        (STAR, Fraction(1, 2), fractions("0 2/3 2/3 2/3")),
        (SIX, Fraction(1, 2), fractions("2/3 2/3 0 0 2/3 0")),
        (SIX, Fraction(5, 7), fractions("49/4404 49/4404 147/367 147/367 49/4404 833/1468")),
    ],
)
def test_exact_weightings(graph, alpha, expected):
    assert exact_weighting(graph, alpha) == expected


@pytest.mark.parametrize(
    ("side", "alpha", "corner", "edge", "inner"),
    [
        (3, Fraction(1, 5), Fraction(15, 22), Fraction(5, 11), Fraction(1, 11)),
        (3, Fraction(1, 4), Fraction(20, 31), Fraction(12, 31), Fraction(-1, 31)),
        (4, Fraction(1, 3), Fraction(111, 190), Fraction(63, 190), Fraction(1, 95)),
        (4, Fraction(1, 4), Fraction(284, 447), Fraction(184, 447), Fraction(53, 447)),
    ],
)
def test_exact_weightings_of_two_counts(side, alpha, corner, edge, inner):
    z = dict(
        zip(
            independent_counts(side - 1, side - 1).results,
            exact_weighting(independent_counts(side - 1, side - 1), alpha),
            strict=True,
        )
    )
    assert (z[0, 0], z[0, 1], z[1, 1]) == (corner, edge, inner)


def test_exact_weightings_elsewhere():
    z = dict(zip(disjoint_counts(3, 2).results, exact_weighting(disjoint_counts(3, 2), Fraction(1, 2)), strict=True))
    assert (z[0, 0], z[0, 1], z[1, 1]) == (Fraction(28, 53), Fraction(10, 53), Fraction(2, 53))
    assert Fraction(-175, 104) in exact_weighting(SIX, Fraction(3, 5))
    assert Fraction(-50, 3961) in exact_weighting(SIX, Fraction(7, 10))
    assert min(exact_weighting(SIX, Fraction(9, 10))) > 0
    assert exact_weighting(product(path(2), path(3)), Fraction(1, 2)) == fractions("4/9 2/9 4/9 4/9 2/9 4/9")


@settings(max_examples=30)
@given(graphs(7), st.fractions(Fraction(1, 20), Fraction(4, 5), max_denominator=20))
def test_exact_weightings_solve_exactly(graph, alpha):
    d = graph.distances()
    try:
        z = exact_weighting(graph, alpha)
    except WorkloadError:
        return
    for row in d:
        assert sum(alpha ** int(x) * y for x, y in zip(row, z, strict=True) if np.isfinite(x)) == 1


def test_examples_1_and_2():
    for a, outer, inner in ((0.5, 2 / 3, 1 / 3), (0.2, 5 / 6, 2 / 3)):
        np.testing.assert_allclose(weighting(path(3), -math.log(a)).z, [outer, inner, outer], rtol=1e-13)
    for graph, half, fifth in ((cycle(3), 0.5, 0.714286), (complete(4), 0.4, 0.625), (cycle(4), 4 / 9, 0.694444)):
        np.testing.assert_allclose(weighting(graph, math.log(2)).z, half, rtol=1e-13)
        np.testing.assert_allclose(weighting(graph, math.log(5)).z, fifth, atol=5e-7)
    np.testing.assert_allclose(weighting(STAR, math.log(5)).z, [0.5, 5 / 6, 5 / 6, 5 / 6], rtol=1e-13)


SUM_AT_1 = [0.464873163, 0.397783567, 0.303462178, 0.195754272, 0.092752376, 0.011351149, 0.110055721, 0.181142948]


def test_the_sum_of_the_paper():
    z = weighting(sum_query(150, 5), 1).z
    np.testing.assert_allclose(z[:8], SUM_AT_1, atol=5e-10)
    assert z.mean() == pytest.approx(0.148322754, abs=5e-10)
    assert z[375] == pytest.approx(0.146632574, abs=5e-10)
    a = math.exp(-1)
    assert z[375] == pytest.approx((1 - a) / (1 - a + 10 * a), abs=1e-12)


@pytest.mark.parametrize(("epsilon", "mean"), [(0.8, 0.110832206437), (0.97, 0.142427195507), (1.3, 0.212412313282)])
def test_means_of_the_sum_of_the_paper(epsilon, mean):
    assert weighting(sum_query(150, 5), epsilon).z.mean() == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize(("epsilon", "mean"), [(0.9, 0.116894157), (1.14, 0.174264041), (1.3, 0.217166940)])
def test_means_of_two_counts_of_the_paper(epsilon, mean):
    assert weighting(independent_counts(30, 30), epsilon).z.mean() == pytest.approx(mean, abs=5e-10)


# ------------------------------------------------------------------------------------------------- refusals, size


def test_what_makes_no_sense_is_refused():
    for epsilon in (0, -1, math.nan, math.inf, "1", None, True):
        with refused("workload.epsilon-or-alpha", "workload.graph-epsilon-out-of-range"):
            weighting(path(3), epsilon)
    for alpha in (Fraction(0), Fraction(1), 0.5, None):
        with refused("workload.alpha-out-of-range", "workload.epsilon-or-alpha"):
            exact_weighting(path(3), alpha)
    with refused("workload.right-side-shape"):
        Similarity(path(3), 1).times([1, 2])
    with refused("workload.right-side-shape"):
        Similarity(path(3), 1).solve([1, 2, math.nan])
    with refused("workload.graph-without-structure"):
        Similarity(from_edges(9000, [(i, (i + 1) % 9000) for i in range(9000)]), 1)
    with refused("workload.too-many-results-for-fractions"):
        exact_weighting(sum_query(100, 3), Fraction(1, 2))
    with refused("workload.singular-exact-matrix"):
        exact_weighting(from_edges(7, [(i, 2 + j) for i in range(2) for j in range(5)]), Fraction(1, 2))


def test_a_large_tree_goes_block_by_block():
    n = 20_000
    tree = from_edges(n, [(i // 2, i) for i in range(1, n)])
    op, x = Similarity(tree, 1.5), np.sin(np.arange(n))
    np.testing.assert_allclose(op.times(op.solve(x)), x, atol=1e-10)
    assert weighting(tree, 1.5).residual < 1e-12


@pytest.mark.slow
def test_a_million_results_of_a_sum():
    solution = weighting(sum_query(200_000, 5), 0.97)
    assert solution.method == "banded"
    assert solution.residual < 1e-12
    assert solution.z.min() == pytest.approx(6.733954e-4, abs=1e-9)
    np.testing.assert_allclose(solution.z[:300], weighting(sum_query(150, 5), 0.97).z[:300], atol=1e-13)


@pytest.mark.slow
def test_a_million_results_of_two_counts():
    solution = weighting(independent_counts(1000, 1000), 1.14)
    assert solution.method == "fft"
    assert solution.residual < 1e-11
    assert solution.z.min() == pytest.approx(1.581360e-3, abs=1e-9)
