"""Existence of the mechanism of tight constraints: proven, refuted, never by a tolerance; and its thresholds."""

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
    Verdict,
    complete,
    cycle,
    derive,
    disjoint_counts,
    exact_weighting,
    existence,
    from_edges,
    from_networkx,
    hamming,
    independent_counts,
    paper_threshold,
    path,
    product,
    regular,
    sum_query,
    threshold,
    weighting,
)
from fitnoise.mechanisms.finite.enclosures import BITS, DistanceQuotient, enclose, exact_solutions, exact_solve, level
from fitnoise.mechanisms.finite.existence import _residual as residual_of
from fitnoise.mechanisms.finite.existence import _ThresholdSearch as Search
from fitnoise.mechanisms.finite.partitions import cells
from refused import refused

YES, NO, UNDECIDED = Verdict.YES, Verdict.NO, Verdict.UNDECIDED
GOLDEN = math.log((1 + math.sqrt(5)) / 2)
SUM = sum_query(150, 5)
KING = independent_counts(30, 30)
STAR = from_edges(4, [(0, 1), (0, 2), (0, 3)])
SIX = from_edges(6, [(0, 2), (0, 3), (0, 5), (1, 2), (1, 3), (1, 5), (2, 3), (2, 4), (3, 4), (4, 5)])
BIPARTITE = [(i, 4 + j) for i in range(4) for j in range(4)]
PEOPLE = [Fraction(30, 100), Fraction(27, 100), Fraction(23, 100), Fraction(20, 100)]
PRIOR = [math.prod(p) for p in itertools.product(PEOPLE, repeat=5)]


def bipartite(p, q):
    return from_edges(p + q, [(i, p + j) for i in range(p) for j in range(q)])


@st.composite
def graphs(draw, max_nodes=8):
    n = draw(st.integers(1, max_nodes))
    pairs = list(itertools.combinations(range(n), 2))
    return from_edges(n, draw(st.lists(st.sampled_from(pairs), max_size=16) if pairs else st.just([])))


# ------------------------------------------------------------------------------------------------- the paper's examples


@pytest.mark.parametrize(
    ("epsilon", "verdict", "min_weight"),
    [(0.8, NO, -7.0116955e-2), (0.96, NO, -2.948310e-3), (0.97, YES, 6.733954e-4), (1.0, YES, 1.1351149e-2)],
)
def test_the_sum_of_the_paper(epsilon, verdict, min_weight):
    decision = existence(SUM, epsilon)
    assert decision.verdict is verdict
    assert decision.exists == (verdict is YES)
    assert decision.weights.min() == pytest.approx(min_weight, abs=5e-10)
    assert decision.result in ((5, 745) if verdict is NO else (None,))
    assert decision.radius < 1e-14


@pytest.mark.parametrize(
    ("epsilon", "verdict", "min_weight"), [(0.9, NO, -9.380581e-2), (1.13, NO, -2.451606e-3), (1.14, YES, 1.581360e-3)]
)
def test_the_two_counts_of_the_paper(epsilon, verdict, min_weight):
    decision = existence(KING, epsilon)
    assert decision.verdict is verdict
    assert decision.weights.min() == pytest.approx(min_weight, abs=5e-9)
    assert decision.result == ((1, 1) if verdict is NO else None)


@pytest.mark.parametrize(
    ("epsilon", "verdict", "min_weight"),
    [(0.47, NO, -1.0922e-4), (0.48, NO, -9.979184e-5), (0.69, NO, None), (0.7, YES, 1.5369e-15), (1.0, YES, 9.9151e-8)],
)
def test_example_3(epsilon, verdict, min_weight):
    regularity = regular(hamming(5, 4), epsilon, PRIOR)
    assert regularity.verdict is verdict
    if min_weight is not None:
        assert regularity.weights.min() == pytest.approx(min_weight, rel=1e-4)
    if verdict is NO:
        assert 3 in regularity.result


def test_example_3_changes_at_log_2_exactly():
    """The rarest value has y = (0.2 − α/(1 + 3α))/(1 − α), which is 0 at α = ½."""
    g = hamming(5, 4)
    assert regular(g, None, PRIOR, alpha=Fraction(1, 2)).verdict is YES
    assert regular(g, None, PRIOR, alpha=Fraction(1, 2) + Fraction(1, 10**12)).verdict is NO
    assert regular(g, None, PRIOR, alpha=Fraction(1, 2) - Fraction(1, 10**12)).verdict is YES
    alpha = math.exp(-0.9)
    one = [(float(p) - alpha / (1 + 3 * alpha)) / (1 - alpha) for p in PEOPLE]
    y = [math.prod(t) for t in itertools.product(one, repeat=5)]
    np.testing.assert_allclose(regular(g, 0.9, PRIOR).weights, y, atol=1e-15)


def test_a_prior_of_floats_is_taken_as_it_is():
    assert regular(hamming(5, 4), 0.5, [float(p) for p in PRIOR]).verdict is NO
    y = regular(sum_query(2, 2), 0.6, np.full(5, 0.2))
    assert y.verdict is YES
    np.testing.assert_allclose(y.weights, existence(sum_query(2, 2), 0.6).weights / 5, atol=1e-15)


# ------------------------------------------------------------------------------------------------- thresholds


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (SUM, 0.96813348469723336003),
        (sum_query(40, 5), 0.96813348469723336003),
        (KING, 1.13608027524555108),
        (sum_query(2, 2), GOLDEN),
        (sum_query(3, 2), math.log(2) / 2),
        (independent_counts(2, 2), 3 * GOLDEN),
        (STAR, math.log(2)),
        (bipartite(3, 2), math.log(2)),
        (from_edges(30, [(i // 3, i) for i in range(1, 30)]), math.log(3)),
    ],
)
def test_thresholds_to_twelve_digits(graph, expected):
    limit = threshold(graph)
    assert limit.epsilon == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert limit.bracket[0] < expected * (1 + 1e-15)
    assert limit.bracket[1] > expected * (1 - 1e-15)
    assert limit.bracket[1] - limit.bracket[0] <= 4e-13 * max(1, expected)
    assert limit.proven
    assert limit.windows == ()
    assert existence(graph, limit.bracket[0]).verdict is NO
    assert existence(graph, limit.bracket[1]).verdict is YES


@pytest.mark.parametrize(
    ("graph", "expected"),
    [(sum_query(20, v), e) for v, e in ((2, 0.281200), (3, 0.553122), (4, 0.779189), (5, 0.968133))]
    + [(sum_query(u, 5), e) for u, e in ((2, 1.256566), (3, 1.005053), (5, 0.948524), (10, 0.967946))]
    + [(independent_counts(k - 1, k - 1), e) for k, e in ((4, 1.069615), (5, 1.146216), (6, 1.134614), (11, 1.136080))]
    + [(independent_counts(*[k - 1] * 3), e) for k, e in ((3, 2.753452), (4, 2.186325), (6, 2.392915), (9, 2.408494))]
    + [(independent_counts(4, 4, 4, 4), 3.693853), (disjoint_counts(3, 2), math.log(2) / 2)],
)
def test_more_thresholds(graph, expected):
    limit = threshold(graph)
    assert limit.epsilon == pytest.approx(expected, abs=1e-6)
    assert limit.proven


@pytest.mark.slow
@pytest.mark.parametrize(("v", "expected"), [(8, 1.392304), (10, 1.602013), (20, 2.271792)])
def test_thresholds_of_long_sums(v, expected):
    assert threshold(sum_query(60, v)).epsilon == pytest.approx(expected, abs=1e-6)


PAIRS = [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("values", "people", "query", "replace", "add"),
    [
        (range(4), 4, sum, 0.547903, 1.122376),
        (PAIRS, 3, lambda t: (sum(a for a, _ in t), sum(b for _, b in t)), 1.069615, 1.256937),
        (range(3), 4, lambda t: (t.count(0), t.count(1)), 0.270226, math.log(2)),
        (range(3), 4, lambda t: (t.count(0), t.count(1), t.count(2)), 0.270226, math.log(3)),
    ],
)
def test_thresholds_depend_on_the_neighbours(values, people, query, replace, add):
    for adjacency, expected in (("replace-one", replace), ("add-or-remove-one", add)):
        assert threshold(derive(values, people, query, adjacency)).epsilon == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("graph", [path(9), cycle(7), complete(5), hamming(3, 3), sum_query(1, 6), bipartite(4, 4)])
def test_some_graphs_have_it_always(graph):
    limit = threshold(graph)
    assert (limit.epsilon, limit.bracket, limit.proven, limit.windows) == (0, (0, 0), True, ())
    assert existence(graph, 1e-3).verdict is YES


def test_existence_is_not_monotone():
    verdicts = {
        Fraction(1, 2): YES,
        Fraction(11, 20): NO,
        Fraction(3, 5): NO,
        Fraction(7, 10): NO,
        Fraction(5, 7): YES,
        Fraction(3, 4): YES,
        Fraction(9, 10): YES,
    }
    for alpha, verdict in verdicts.items():
        assert existence(SIX, alpha=alpha).verdict is verdict
    limit = threshold(SIX)
    assert limit.epsilon == pytest.approx(math.log(2), abs=1e-12)
    assert limit.proven
    ((low, high),) = limit.windows
    assert low == 0
    assert high == pytest.approx(math.log(2) / 2, abs=1e-12)


def test_thresholds_of_products_are_the_largest():
    limit = threshold(product(SIX, path(3), sum_query(2, 2)))
    assert limit.epsilon == threshold(SIX).epsilon
    assert limit.windows == ()
    below = threshold(product(SIX, disjoint_counts(8, 2)))
    ((low, high),) = below.windows
    assert (low, high) == pytest.approx((0.170790893923, math.log(2) / 2), abs=1e-10)


def test_the_thresholds_of_the_paper_are_those_of_a_tolerance():
    assert paper_threshold(SUM) == 0.80
    assert paper_threshold(KING, highest=1.5) == 0.90
    assert paper_threshold(hamming(5, 4), prior=PRIOR) == 0.48
    assert paper_threshold(SUM, 1e-5) == 0.95
    assert paper_threshold(SUM, 1e-6) == 0.97
    assert paper_threshold(KING, 1e-5, highest=1.5) == 1.12
    assert paper_threshold(KING, 1e-6, highest=1.5) == 1.14
    assert type(paper_threshold(path(3))) is float
    with refused("workload.threshold-above-start"):
        paper_threshold(sum_query(2, 5), highest=0.2)


# ------------------------------------------------------------------------------------------------- laws


@settings(max_examples=80)
@given(graphs(), st.fractions(Fraction(1, 50), Fraction(19, 20), max_denominator=50))
def test_verdicts_are_those_of_exact_fractions(graph, alpha):
    decision = existence(graph, alpha=alpha)
    try:
        z = exact_weighting(graph, alpha)
    except WorkloadError:
        return
    assert decision.verdict is (YES if min(z) >= 0 else NO)
    assert np.abs(decision.weights - [float(x) for x in z]).max() <= decision.radius + 1e-13 * float(
        1 + max(map(abs, z))
    )
    if decision.verdict is NO and decision.result is not None:
        assert z[graph.index(decision.result)] < 0


@settings(max_examples=60)
@given(graphs(), st.floats(0.05, 4))
def test_every_float_is_decided(graph, epsilon):
    """e^(−ε) is transcendental for a rational ε, and no weight is 0."""
    decision = existence(graph, epsilon)
    assert decision.verdict is not UNDECIDED
    dense = np.linalg.solve(np.exp(-epsilon * graph.distances()), np.ones(graph.n))
    if np.abs(dense.min()) > 1e-6 and np.abs(dense).max() < 1e6:
        assert decision.exists == (dense.min() > 0)


@settings(max_examples=25)
@given(graphs(7))
def test_thresholds_bracket_the_last_change(graph):
    limit = threshold(graph)
    if limit.epsilon > 0:
        assert existence(graph, limit.bracket[0]).verdict is NO
        assert existence(graph, limit.bracket[1]).verdict is YES
    for step in (1e-6, 0.01, 0.1, 1.0, 3.0):
        assert existence(graph, limit.epsilon + step + 2e-3).verdict is YES
    for low, high in limit.windows:
        assert existence(graph, (low + high) / 2).verdict is YES


@settings(max_examples=25)
@given(graphs(5), graphs(5), st.floats(0.1, 2))
def test_a_product_exists_exactly_if_its_factors_do(one, two, epsilon):
    both = existence(product(one, two), epsilon)
    assert both.exists == (existence(one, epsilon).exists and existence(two, epsilon).exists)
    merged = from_edges(one.n * two.n, product(one, two).edges)
    assert existence(merged, epsilon).verdict is both.verdict
    if both.verdict is NO:
        assert both.weights[both_index(one, two, both.result)] < 0


def both_index(one, two, result):
    return product(one, two).index(result)


def test_changes_found_by_halving_are_those_of_the_secant():
    search = Search(SIX, DistanceQuotient.from_graph(SIX, cells(SIX)))
    for lower, upper, above, expected in ((0.6, 0.8, True, math.log(2)), (0.3, 0.4, False, math.log(2) / 2)):
        for low, high in (search._bisected(lower, upper, above), search._switch(upper, lower, above)):
            assert low < expected * (1 + 1e-15)
            assert high > expected * (1 - 1e-15)
            assert high - low < 4e-13
    with refused("workload.threshold-not-proven"):
        search._bisected(0.8, 0.9, True)


@pytest.mark.slow
def test_all_small_graphs():
    """All 995 connected graphs with 2 to 7 results: 86 always have it, and 29 lose it and gain it again."""
    networkx = pytest.importorskip("networkx")
    limits = {}
    for graph in networkx.graph_atlas_g():
        if graph.number_of_nodes() >= 2 and networkx.is_connected(graph):
            limits[tuple(sorted(graph.edges))] = threshold(from_networkx(graph))
    assert len(limits) == 995
    assert sum(t.epsilon == 0 for t in limits.values()) == 86
    assert sum(bool(t.windows) for t in limits.values()) == 29
    assert sum(t.proven for t in limits.values()) > 985


def test_far_up_it_always_exists():
    for graph in (SUM, KING, SIX, STAR):
        assert existence(graph, math.log(graph.n)).verdict is YES


# ------------------------------------------------------------------------------------------------- on the boundary


def test_a_weight_of_exactly_nothing_is_allowed():
    decision = existence(STAR, alpha=Fraction(1, 2))
    assert decision.verdict is YES
    np.testing.assert_array_equal(decision.weights, [0, 2 / 3, 2 / 3, 2 / 3])
    below = existence(STAR, math.log(2))  # this float is below log 2
    assert below.verdict is NO
    assert below.result == 0
    assert existence(STAR, math.nextafter(math.log(2), 1)).verdict is YES


def test_appendix_b():
    """K_{4,4} at α = 1/3: Φ has rank 7, and 3/8 everywhere is a solution."""
    g = from_edges(8, BIPARTITE)
    phi = np.array([[3 ** (2 - int(d)) for d in row] for row in g.distances()], dtype=object)  # 9 Φ
    one, basis = exact_solutions(phi, np.array([9] * 8, dtype=object))
    assert len(basis) == 1
    assert sum(one) == 3
    assert exact_solve(phi, np.array([9] * 8, dtype=object)) is None
    decision = existence(g, alpha=Fraction(1, 3))
    assert decision.verdict is YES
    np.testing.assert_allclose(decision.weights, 0.375, atol=1e-15)


def pendants(number, start=0):
    """K_{4,4} with leaves at one result: at α = 1/3 solutions there are 3/8 + t − number/4, |t| ≤ 3/8."""
    return [(i + start, j + start) for i, j in [*BIPARTITE, *((0, 8 + k) for k in range(number))]]


@pytest.mark.parametrize(("number", "verdict"), [(1, YES), (2, YES), (3, YES), (4, NO)])
def test_a_singular_matrix_is_decided_in_fractions(number, verdict):
    decision = existence(from_edges(8 + number, pendants(number)), alpha=Fraction(1, 3))
    assert decision.verdict is verdict
    if verdict is YES:
        d = from_edges(8 + number, pendants(number)).distances()
        np.testing.assert_allclose((1 / 3) ** d @ decision.weights, 1, atol=1e-14)
        assert decision.weights.min() >= 0


def test_two_singular_parts():
    g = from_edges(21, pendants(2) + pendants(1, start=10) + [(19, 20)])
    decision = existence(g, alpha=Fraction(1, 3))
    assert decision.verdict is YES
    np.testing.assert_allclose((1 / 3) ** g.distances() @ decision.weights, 1, atol=1e-13)


def test_a_system_without_solution():
    singular = existence(bipartite(2, 5), alpha=Fraction(1, 2))
    assert singular.verdict is NO
    assert singular.result is None
    assert singular.weights is None
    nearly_singular = existence(bipartite(2, 5), math.log(2))  # Φ is not singular here, but its condition is 10¹⁷
    assert nearly_singular.verdict is NO
    assert np.abs(nearly_singular.weights).max() > 1e14


# ------------------------------------------------------------------------------------------------- enclosures


@settings(max_examples=40)
@given(graphs(6), st.fractions(Fraction(1, 20), Fraction(9, 10), max_denominator=30))
def test_enclosures_hold_the_exact_solution(graph, alpha):
    quotient = DistanceQuotient.from_graph(graph, cells(graph))
    enclosure = enclose(*quotient.fixed(level(None, alpha)), np.array([1 << BITS] * quotient.cells.m, dtype=object))
    matrix, scale = quotient.integer_matrix(alpha)
    exact = exact_solve(matrix, np.array([scale] * quotient.cells.m, dtype=object))
    if enclosure is None:
        return
    assert exact is not None
    for x, y in zip(exact, enclosure.values, strict=True):
        assert abs(x - Fraction(int(y), 1 << BITS)) <= Fraction(enclosure.radius, 1 << BITS)
    assert enclosure.width < 1e-40


def test_powers_are_within_a_unit():
    for powers_of_alpha, alpha in (
        (level(None, Fraction(2, 7)), Fraction(2, 7)),
        (level(None, Fraction(99, 100)), Fraction(99, 100)),
    ):
        for d, power in enumerate(powers_of_alpha.powers(300)):
            assert abs(power - alpha**d * 2**BITS) < 1
    powers = level(Fraction(1, 3)).powers(1000)
    for d in (1, 30, 100, 396):
        assert powers[d] / 2**BITS == pytest.approx(math.exp(-d / 3), rel=1e-14)
        assert abs(powers[d] * powers[3] - powers[d + 3] * 2**BITS) < 2 * 2**BITS
    assert powers[-1] == 0


def test_nothing_singular_is_enclosed():
    one = 1 << BITS
    matrix = np.array([[one, one], [one, one]], dtype=object)
    assert enclose(matrix, np.array([1, 1], dtype=object), np.array([one, one], dtype=object)) is None


# ------------------------------------------------------------------------------------------------- refusals, size


def test_what_makes_no_sense_is_refused():
    with refused("workload.epsilon-or-alpha"):
        existence(path(3))
    with refused("workload.epsilon-or-alpha"):
        existence(path(3), 1, alpha=Fraction(1, 2))
    for epsilon in (0, -1.0, math.nan, 2000):
        with refused("workload.graph-epsilon-out-of-range"):
            existence(path(3), epsilon)
    for prior in ([0.5, 0.5], [0.5, 0.6, -0.1], [0.5, 0.4, 0.3], [math.nan] * 3, ["a", "b", "c"]):
        with refused("workload.exact-prior-not-distribution", "workload.exact-prior-not-numbers"):
            regular(path(3), 1, prior)
    with refused("workload.too-many-results-for-threshold"):
        threshold(independent_counts(200, 200))


@pytest.mark.slow
def test_unproven_questions_are_reported_as_undecided():
    ring = from_edges(2600, [(i, (i + 1) % 2600) for i in range(2600)])
    assert existence(ring, 1).verdict is UNDECIDED
    assert existence(ring, 8).verdict is YES
    assert existence(product(path(2), ring), 1).verdict is UNDECIDED
    decision = existence(sum_query(20_000, 5), 0.4)  # not definite, and too long to enclose
    assert decision.verdict is UNDECIDED
    assert not decision.exists
    assert "definite" in decision.reason
    assert regular(path(3000), 1, np.full(3000, 1 / 3000)).verdict is YES
    assert regular(path(3000), 1, np.arange(3000) / np.arange(3000).sum()).verdict is UNDECIDED


def test_long_sums_are_decided_by_the_smallest_eigenvalue():
    for epsilon, verdict in ((0.96, NO), (0.97, YES)):
        decision = existence(sum_query(4000, 5), epsilon)
        assert decision.verdict is verdict
        exact = existence(SUM, epsilon).weights
        assert np.abs(decision.weights[:300] - exact[:300]).max() <= decision.radius + 1e-12
        assert decision.radius < 1e-8
        assert "eigenvalue" in decision.reason


def test_residuals_of_boxes_are_those_of_the_dense_matrix():
    for box in (Box((40,), (3,)), Box((9, 8), (1, 2)), Box((4, 5, 6), (1, 1, 1))):
        z = np.cos(np.arange(box.n))
        wholes = np.rint(np.ldexp(z, 50)).astype(np.int64)
        dense = np.exp(-0.7 * box.distances_from(np.arange(box.n)))
        residual, off = residual_of(box, 0.7, wholes, 50)
        np.testing.assert_allclose(residual, 1 - dense @ np.ldexp(wholes.astype(float), -50), rtol=0, atol=off + 1e-13)
        assert off < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "below", "above"),
    [
        (sum_query(200_000, 5), 0.96, 0.97),
        (independent_counts(60, 60, 60), 2.35, 2.45),
    ],
)
def test_large_graphs_are_decided(graph, below, above):
    assert existence(graph, below).verdict is NO
    assert existence(graph, above).verdict is YES
    assert weighting(graph, above).z.min() > 0
