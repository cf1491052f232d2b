"""Finite mechanisms: the values of the paper where they are right, exact privacy everywhere, and refusals."""

import importlib
import itertools
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel import choices, noise
from fitnoise.kernel.designs.probability_tables import FiniteMechanism
from fitnoise.kernel.designs.weights import IntegerWeights, row_sums
from fitnoise.kernel.exact_powers import exp_below, exp_bounds, log_above
from fitnoise.mechanisms.finite import (
    complete,
    cycle,
    disjoint_counts,
    families,
    from_edges,
    hamming,
    independent_counts,
    path,
    product,
    sum_query,
)
from fitnoise.mechanisms.finite.accuracy import accuracy
from fitnoise.mechanisms.finite.exact import hops
from fitnoise.mechanisms.finite.families import (
    distance_kernel,
    from_probabilities,
    geometric,
    randomised_response,
    staircase,
    tight_constraints,
    weighting_with_error,
)
from fitnoise.mechanisms.finite.optimal import best_mechanism, residual_column
from fitnoise.mechanisms.finite.priors import corner_priors, hit_bound, regularity, uniform
from fitnoise.mechanisms.finite.weight_rows import from_integers, from_rows, of_table
from refused import refused
from test_finite_priors import fractions_solved, random_graph, star
from tolerances import EXACT, SIGNIFICANCE

optimal = importlib.import_module("fitnoise.mechanisms.finite.optimal")  # `finite.optimal` is its function
SUM = sum_query(150, 5)
KING = independent_counts(30, 30)
NOT_MONOTONE = from_edges(6, [(0, 2), (0, 3), (0, 5), (1, 2), (1, 3), (1, 5), (2, 3), (2, 4), (3, 4), (4, 5)])


def king(n):
    return independent_counts(n - 1, n - 1)


def best_rate(mechanism, prior=None):
    return accuracy(mechanism).expected_gain(uniform(mechanism.graph) if prior is None else prior)


def is_private(mechanism):
    """Compute entry by entry with fractions; only the rows are shared with the code."""
    rows = [mechanism.weights.row(i) for i in range(mechanism.graph.n)]
    assert len({sum(row) for row in rows}) == 1
    assert min(min(row) for row in rows) >= 0
    worst = Fraction(1)
    for i, j in mechanism.graph.edges.tolist():
        for a, b in zip(rows[i], rows[j], strict=True):
            if a or b:
                assert a, "an output of one end only"
                assert b, "an output of one end only"
                worst = max(worst, Fraction(a, b), Fraction(b, a))
    assert worst == mechanism.largest_ratio
    assert exp_bounds(mechanism.log_ratio(), 400)[1] >= worst * 2**400 - 1  # the charge covers it
    return mechanism.log_ratio() <= mechanism.epsilon and worst <= exp_below(mechanism.epsilon)


# --- The values of figure 6 -------------------------------------------------------------------------------

FIGURE_6A = [  # ε, tight constraints, geometric, staircase
    (0.97, 0.142427196, 0.097899717, 0.141885884),
    (0.98, 0.144381770, 0.098888951, 0.143836265),
    (1.00, 0.148322754, 0.100866839, 0.147768882),
    (1.05, 0.158360225, 0.105808075, 0.157785609),
    (1.10, 0.168660127, 0.110744145, 0.168065120),
    (1.15, 0.179219477, 0.115674809, 0.178604543),
    (1.20, 0.190034500, 0.120599832, 0.189400191),
    (1.25, 0.201100595, 0.125518976, 0.200447541),
    (1.30, 0.212412313, 0.130432008, 0.211741213),
]
BELOW_6A = [(0.80, 0.081055029, 0.110360518), (0.85, 0.086014529, 0.119312572), (0.90, 0.090969825, 0.128531388)]
FIGURE_6B = [  # ε, tight constraints, geometric with ε/2 for each count
    (1.14, 0.174264041, 0.090499863),
    (1.15, 0.176846014, 0.091847432),
    (1.20, 0.189963053, 0.098704986),
    (1.25, 0.203410385, 0.105756968),
    (1.30, 0.217166940, 0.112996340),
]


@pytest.mark.no_cover
@pytest.mark.parametrize(("epsilon", "tight", "geo", "stairs"), FIGURE_6A)
def test_figure_6a(epsilon, tight, geo, stairs):
    assert weighting_with_error(hops(SUM), Fraction(epsilon)).x.mean() == pytest.approx(tight, abs=1e-9)
    assert best_rate(geometric(SUM, epsilon)) == pytest.approx(geo, abs=1e-9)
    assert best_rate(staircase(SUM, epsilon)) == pytest.approx(stairs, abs=1e-9)


@pytest.mark.no_cover
@pytest.mark.parametrize(("epsilon", "geo", "stairs"), BELOW_6A)
def test_below_its_threshold_only_the_others_are_there(epsilon, geo, stairs):
    assert best_rate(geometric(SUM, epsilon)) == pytest.approx(geo, abs=1e-9)
    assert best_rate(staircase(SUM, epsilon)) == pytest.approx(stairs, abs=1e-9)


@pytest.mark.no_cover
@pytest.mark.parametrize(("epsilon", "tight", "geo"), FIGURE_6B)
def test_figure_6b(epsilon, tight, geo):
    assert weighting_with_error(hops(KING), Fraction(epsilon)).x.mean() == pytest.approx(tight, abs=1e-9)
    assert best_rate(geometric(KING, epsilon)) == pytest.approx(geo, abs=1e-9)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("epsilon", "rate"),
    [(0.5, 0.037880017), (0.9, 0.106990813), (1.0, 0.129143512), (1.2, 0.178447158), (1.3, 0.205293426)],
)
def test_noise_by_the_distance_of_two_counts(epsilon, rate):
    assert best_rate(staircase(KING, epsilon)) == pytest.approx(rate, abs=1e-9)


@pytest.mark.no_cover
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_closed_forms_of_the_staircase_and_the_geometric_mechanism(epsilon):
    a, b, n, v = math.exp(-epsilon), math.exp(-epsilon / 5), SUM.n, 5
    c = (1 - a) / (1 - a + 2 * v * a)
    assert best_rate(staircase(SUM, epsilon)) == pytest.approx(c + (1 - c) / n, abs=1e-12)
    assert best_rate(geometric(SUM, epsilon)) == pytest.approx(
        (2 / (1 + b) + (n - 2) * (1 - b) / (1 + b)) / n, abs=1e-12
    )


@pytest.mark.slow
def test_the_mechanism_of_figure_6a_in_full():
    mechanism = tight_constraints(SUM, 1)
    z = accuracy(mechanism).hits()
    start = [
        0.464873163, 0.397783567, 0.303462178, 0.195754272, 0.092752376, 0.011351149, 0.110055721, 0.181142948,
        0.207974209, 0.187149785, 0.129476722, 0.110227063,
    ]  # fmt: skip
    assert z[:12] == pytest.approx(start, abs=1e-9)
    assert z == pytest.approx(z[::-1], abs=1e-11)
    assert z[300:450] == pytest.approx(np.full(150, 0.146632574), abs=1e-9)
    assert mechanism.probabilities() == pytest.approx(np.exp(-np.asarray(SUM.distances())) * z, abs=1e-11)
    flat = uniform(SUM)
    assert accuracy(mechanism).hit_rate(flat) == pytest.approx(0.148322754, abs=1e-9)
    assert (accuracy(mechanism).remap(flat) == np.arange(751)).all()
    assert accuracy(mechanism).leakage(flat) == pytest.approx(6.799480939, abs=1e-8)
    assert (accuracy(mechanism).mae(flat), accuracy(mechanism).rmse(flat)) == pytest.approx(
        (5.003724, 7.101006), abs=1e-6
    )
    assert mechanism.log_ratio() == 1
    assert mechanism.weights.total == 2**160  # a power of two: drawing never starts again
    other = geometric(SUM, 1)
    assert (accuracy(other).mae(flat), accuracy(other).rmse(flat)) == pytest.approx(
        (4.930337, 7.009852), abs=1e-6
    )  # better in the mean


@pytest.mark.no_cover
def test_errors_at_larger_epsilon():
    flat = uniform(SUM)
    tight, other = tight_constraints(SUM, 1.3), geometric(SUM, 1.3)
    assert (accuracy(tight).mae(flat), accuracy(tight).rmse(flat)) == pytest.approx((3.821351, 5.489902), abs=1e-6)
    assert (accuracy(other).mae(flat), accuracy(other).rmse(flat)) == pytest.approx((3.781041, 5.394405), abs=1e-6)
    assert accuracy(tight).leakage(flat) == pytest.approx(7.317608402, abs=1e-8)


def test_the_mechanism_of_figure_6b():
    mechanism = tight_constraints(KING, 1.2)
    assert best_rate(mechanism) == pytest.approx(0.189963053, abs=1e-9)
    assert accuracy(mechanism).hits().min() == pytest.approx(2.5872e-2, abs=1e-6)
    assert mechanism.log_ratio() <= Fraction(1.2)


@pytest.mark.parametrize(
    ("graph", "epsilon", "min_weight", "where"),
    [
        (SUM, 0.80, "-0.0701", (5, 745)),
        (SUM, 0.96, "-0.00294831", (5, 745)),
        (KING, 0.90, "-0.0938", None),
        (KING, 1.13, "-0.0024516", None),
    ],
)
def test_where_the_paper_has_a_mechanism_and_there_is_none(graph, epsilon, min_weight, where):
    with refused("plan.no-tight-constraints") as caught:
        tight_constraints(graph, epsilon)
    assert min_weight in str(caught.value)
    if where:
        assert any(f"number {k + 1} " in caught.value.given for k in where)


@pytest.mark.no_cover
def test_existence_starts_where_it_starts():
    assert accuracy(tight_constraints(SUM, 0.968133485)).hits().min() > 0
    with refused("plan.no-tight-constraints"):
        tight_constraints(SUM, 0.968133484)


# --- Exact rational tables --------------------------------------------------------------------------------

RATIONAL = [
    (path(5), "1/2", [2, 1, 1, 1, 2], 3),
    (sum_query(2, 2), "1/2", [6, 4, 1, 4, 6], 11),
    (sum_query(3, 2), "1/2", [16, 10, 4, 7, 4, 10, 16], 29),
    (sum_query(3, 3), "1/2", [32, 23, 11, 2, 12.5, 12.5, 2, 11, 23, 32], 65),
    (sum_query(2, 5), "1/4", [1332, 1216, 1024, 768, 464, 131, 464, 768, 1024, 1216, 1332], 2533),
    (king(3), "1/5", [15, 10, 15, 10, 2, 10, 15, 10, 15], 22),
    (star(3), "1/2", [0, 2, 2, 2], 3),
    (complete(4), "1/2", [2] * 4, 5),
    (cycle(5), "1/2", [2] * 5, 5),
    (cycle(6), "1/2", [8] * 6, 21),
    (NOT_MONOTONE, "1/2", [2, 2, 0, 0, 2, 0], 3),
    (NOT_MONOTONE, "5/7", [49, 49, 588 * 3, 588 * 3, 49, 2499], 4404),
]


@pytest.mark.parametrize(("graph", "alpha", "numerators", "denominator"), RATIONAL)
def test_exact_tables_of_rational_alpha(graph, alpha, numerators, denominator):
    alpha = Fraction(alpha)
    z = [Fraction(x) / denominator for x in numerators]
    table = [[alpha ** int(d) * x for d, x in zip(row, z, strict=True)] for row in graph.distances()]
    assert all(sum(row) == 1 for row in table)
    scale = math.lcm(*(p.denominator for row in table for p in row))
    rows = [[int(p * scale) for p in row] for row in table]
    epsilon = log_above(1 / alpha)
    mechanism = from_integers(graph, epsilon, rows)
    assert is_private(mechanism)
    assert mechanism.largest_ratio == 1 / alpha
    assert mechanism.log_ratio() == epsilon
    assert accuracy(mechanism).hits() == pytest.approx([float(x) for x in z], rel=1e-14)
    assert accuracy(mechanism).hit_rate(uniform(graph)) == pytest.approx(float(sum(z)) / graph.n)
    with refused("plan.ratio-above-epsilon"):
        from_integers(graph, epsilon * Fraction(999, 1000), rows)


def test_a_table_with_a_negative_entry_is_none():
    z = [20, 12, 20, 12, -1, 12, 20, 12, 20]  # king 3×3 at α = 1/4, over 31
    rows = [
        [int(Fraction(1, 4) ** int(d) * x * 16) for d, x in zip(row, z, strict=True)] for row in king(3).distances()
    ]
    assert {sum(row) for row in rows} == {31 * 16}
    with refused("plan.weight-row-invalid"):
        from_integers(king(3), 2, rows)


@pytest.mark.parametrize(
    ("alpha", "exists"), [(0.45, True), (0.55, False), (0.6, False), (0.7, False), (0.72, True), (0.9, True)]
)
def test_existence_comes_and_goes(alpha, exists):
    epsilon = -math.log(alpha)
    if exists:
        assert is_private(tight_constraints(NOT_MONOTONE, epsilon))
    else:
        with refused("plan.no-tight-constraints"):
            tight_constraints(NOT_MONOTONE, epsilon)


def test_clipping_a_formal_solution_is_not_private():
    graph, alpha = sum_query(10, 5), math.exp(-0.8)
    z = weighting_with_error(hops(graph), Fraction(0.8)).x
    assert z.min() < -0.05
    table = alpha ** np.asarray(graph.distances()) * np.maximum(z, 0)
    rows = [[int(x * 2**40 / sum(row)) for x in row] for row in table.tolist()]
    logs = np.log(table[:, z > 0] / table.sum(axis=1, keepdims=True))
    i, j = graph.edges.T
    lost = float(np.abs(logs[i] - logs[j]).max())
    assert lost > 0.82
    with refused("plan.ratio-above-epsilon"):
        from_integers(graph, 0.8, rows)


# --- Closed forms -----------------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("n", [2, 3, 11, 101])
def test_on_a_path_all_are_the_truncated_geometric_mechanism(n, epsilon):
    tables = [make(path(n), epsilon).probabilities() for make in (tight_constraints, geometric, staircase)]
    a = math.exp(-epsilon)
    assert np.diag(tables[0])[[0, -1]] == pytest.approx(1 / (1 + a), abs=1e-11)
    assert np.diag(tables[0])[1:-1] == pytest.approx((1 - a) / (1 + a), abs=1e-11)
    assert tables[1] == pytest.approx(tables[0], abs=1e-11)
    assert tables[2] == pytest.approx(tables[1], abs=1e-14)


@pytest.mark.parametrize(("n", "z"), [(5, 0.339118675), (6, 0.315263445), (12, 0.257751346), (13, 0.254485613)])
def test_rings(n, z):
    mechanism = tight_constraints(cycle(n), 0.5)
    assert accuracy(mechanism).hits() == pytest.approx(z, abs=1e-9)
    assert distance_kernel(cycle(n), 0.5).probabilities() == pytest.approx(mechanism.probabilities(), abs=1e-9)


@pytest.mark.parametrize(("people", "values", "z"), [(3, 2, 0.241175365), (5, 4, 0.005611367), (2, 10, 0.023971740)])
def test_complete_tables(people, values, z):
    assert accuracy(tight_constraints(hamming(people, values), 0.5)).hits() == pytest.approx(z, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.3, 1, 5])
def test_on_complete_graphs_it_is_randomised_response(epsilon):
    graph = complete(6)
    expected = math.exp(epsilon) / (5 + math.exp(epsilon))
    for make in (tight_constraints, randomised_response, distance_kernel):
        mechanism = make(graph, epsilon)
        assert accuracy(mechanism).hits() == pytest.approx(expected, abs=1e-11)
        assert is_private(mechanism)


def test_a_singular_matrix_with_many_solutions():
    graph = from_edges(8, [(i, j) for i in range(4) for j in range(4, 8)])
    assert best_rate(tight_constraints(graph, math.log(3))) == pytest.approx(0.375, abs=1e-9)
    assert residual_column(graph, math.log(3), uniform(graph)).value == pytest.approx(0.375, abs=1e-9)


def test_stars_lose_their_centre():
    with refused("plan.no-tight-constraints"):
        tight_constraints(star(3), 0.69)
    assert accuracy(tight_constraints(star(3), 0.7)).hits()[0] < 0.01
    boundary = residual_column(star(3), math.log(2), uniform(star(3)))
    assert boundary.value == pytest.approx(0.5, abs=1e-9)


# --- Optimality -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "epsilon", "rate"),
    [
        (path(11), 0.5, 0.313562420),
        (sum_query(3, 5), 1.05, 0.236686195),
        (sum_query(3, 5), 1.3, 0.291641958),
        (sum_query(2, 2), 0.5, 0.328702632),
        (sum_query(2, 2), 0.8, 0.411582147),
        (king(4), 1.2, 0.342257999),
        (disjoint_counts(5, 2), 0.5, 0.153852005),
    ],
)
def test_tight_constraints_are_the_optimum_of_the_full_program(graph, epsilon, rate):
    tight = tight_constraints(graph, epsilon)
    program = optimal.optimal(graph, epsilon, uniform(graph))
    assert accuracy(tight).hit_rate(uniform(graph)) == pytest.approx(rate, abs=1e-9)
    assert program.value == pytest.approx(rate, abs=1e-8)
    assert program.gap < 1e-8
    assert program.bound >= rate - EXACT
    assert is_private(program.mechanism)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "epsilon", "rate"),
    [
        (king(6), 1.2, 0.282466894),
        (king(7), 1.2, 0.265714457),
        (king(8), 1.2, 0.253252236),
    ],
)
def test_larger_programs(graph, epsilon, rate):
    assert best_rate(tight_constraints(graph, epsilon)) == pytest.approx(rate, abs=1e-9)
    assert optimal.optimal(graph, epsilon, uniform(graph)).value == pytest.approx(rate, abs=1e-7)


@pytest.mark.parametrize(
    ("graph", "epsilon", "residual", "program"),
    [
        (sum_query(3, 5), 0.2, 0.083933, 0.083946),
        (sum_query(3, 5), 0.6, 0.144817, 0.145849),
        (sum_query(3, 5), 0.9, 0.203853, 0.203853),
    ],
)
def test_below_the_threshold(graph, epsilon, residual, program):
    flat = uniform(graph)
    residual_mechanism = residual_column(graph, epsilon, flat)
    full = optimal.optimal(graph, epsilon, flat)
    assert residual_mechanism.value == pytest.approx(residual, abs=1e-6)
    assert full.value == pytest.approx(program, abs=1e-6)
    assert residual_mechanism.value <= full.value + 1e-8 <= full.bound + 2e-8
    assert full.bound <= residual_mechanism.bound + 1e-8
    assert is_private(residual_mechanism.mechanism)
    assert is_private(full.mechanism)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "residual", "program"),
    [(0.3, 0.059813, 0.062827), (0.9, 0.193208, 0.195662), (1.1, 0.253427, 0.253598)],
)
def test_two_small_counts_below_the_threshold(epsilon, residual, program):
    assert residual_column(king(6), epsilon, uniform(king(6))).value == pytest.approx(residual, abs=1e-6)
    assert optimal.optimal(king(6), epsilon, uniform(king(6))).value == pytest.approx(program, abs=1e-6)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("graph", "epsilon", "min_value", "bound"),
    [
        (KING, 0.3, 0.018120, 0.019553),
        (KING, 0.5, 0.042053, 0.043595),
        (KING, 0.9, 0.116346424, 0.116733946),
        (KING, 1.1, 0.163962763, 0.164055775),
        pytest.param(SUM, 0.5, 0.062325, 0.062437, marks=pytest.mark.slow),
        pytest.param(SUM, 0.9, 0.128969381, 0.129023526, marks=pytest.mark.slow),
    ],
)
def test_residual_columns_come_close_to_the_bound(graph, epsilon, min_value, bound):
    residual = residual_column(graph, epsilon, uniform(graph))
    assert min_value - 1e-6 <= residual.value <= residual.bound
    assert residual.bound == pytest.approx(bound, abs=1e-6)
    assert residual.gap == residual.bound - residual.value
    assert residual.mechanism.log_ratio() <= Fraction(epsilon)
    assert residual.mechanism.outputs == graph.n + 1


def test_residual_columns_are_tight_constraints_inside_the_region(rng):
    graph = sum_query(4, 3)
    for _ in range(4):
        prior = rng.dirichlet(np.full(graph.n, 3.0)) @ corner_priors(graph, 0.7)
        y = regularity(graph, 0.7, prior).coefficients.sum()
        residual = residual_column(graph, 0.7, prior)
        assert residual.value == pytest.approx(y, abs=1e-8)
        assert accuracy(tight_constraints(graph, 0.7)).hit_rate(prior) == pytest.approx(y, abs=1e-9)
        assert residual.gap < 1e-8


def test_outside_the_region_tight_constraints_may_lose_even_to_the_geometric():
    graph = sum_query(4, 3)
    prior = np.array([3, 6, 15, 1, 7, 1, 5, 1, 11, 1, 33, 16, 0]) / 100
    assert regularity(graph, 0.7, prior).regular is False
    assert best_rate(tight_constraints(graph, 0.7), prior) + 0.003 < best_rate(geometric(graph, 0.7), prior)


def test_outside_the_region_nothing_exceeds_the_program(rng):
    graph = sum_query(4, 3)
    tight, other = tight_constraints(graph, 0.7), geometric(graph, 0.7)
    for concentration in (0.3, 0.5, 1, 2, 3):
        prior = rng.dirichlet(np.full(graph.n, concentration))
        program = optimal.optimal(graph, 0.7, prior)
        assert program.gap < 1e-8
        assert max(best_rate(other, prior), best_rate(tight, prior)) <= program.value + 1e-8
        assert residual_column(graph, 0.7, prior).value <= program.value + 1e-8
        assert program.value <= hit_bound(graph, 0.7, prior).upper + 1e-8


def test_on_a_path_the_geometric_mechanism_is_best_for_every_prior(rng):
    graph = path(8)
    for _ in range(4):
        prior = rng.dirichlet(np.ones(8))
        assert best_rate(geometric(graph, 0.6), prior) == pytest.approx(
            optimal.optimal(graph, 0.6, prior).value, abs=1e-8
        )


def test_any_gain_has_a_proven_bound(rng):
    for _ in range(10):
        n = int(rng.integers(2, 7))
        graph, prior = random_graph(rng, n), rng.dirichlet(np.ones(n))
        gain = rng.normal(0, 3, (n, n))
        solution = optimal.optimal(graph, 0.7, prior, gain)
        assert solution.gap < 1e-7
        assert is_private(solution.mechanism)
        for make in (geometric, distance_kernel, randomised_response, staircase):
            assert accuracy(make(graph, 0.7)).expected_gain(prior, gain) <= solution.bound + 1e-12


def test_multipliers_prove_a_bound_whatever_they_are(rng):
    graph, prior = sum_query(2, 2), np.full(5, 0.2)
    arcs = np.concatenate([graph.edges, graph.edges[:, ::-1]])
    best = optimal.optimal(graph, 0.5, prior).value
    for scale in (0.0, 0.01, 0.1, 1.0):
        multipliers = rng.uniform(0, scale, (len(arcs), 5)) if scale else np.zeros((len(arcs), 5))
        assert optimal._gain_bound(np.diag(prior), arcs, multipliers, math.exp(0.5)) >= best


# --- Exact privacy, of every family, on random graphs -----------------------------------------------------

FAMILIES = [staircase, geometric, distance_kernel, randomised_response]


@pytest.mark.parametrize("make", FAMILIES)
def test_every_closed_form_is_private_on_random_graphs(rng, make):
    for _ in range(15):
        graph = random_graph(rng, int(rng.integers(2, 8)))
        epsilon = float(rng.choice([2.0**-20, 0.01, 0.3, 1.0, 4.0, 50.0]))
        mechanism = make(graph, epsilon)
        assert is_private(mechanism)
        assert mechanism.probabilities().sum(axis=1) == pytest.approx(1, abs=1e-12)


@pytest.mark.no_cover
def test_systems_and_programs_are_private_on_random_graphs(rng):
    built = 0
    for _ in range(30):
        graph = random_graph(rng, int(rng.integers(2, 8)))
        epsilon = float(rng.uniform(0.01, 2.5))
        prior = rng.dirichlet(np.ones(graph.n))
        assert is_private(residual_column(graph, epsilon, prior).mechanism)
        assert is_private(optimal.optimal(graph, epsilon, prior).mechanism)
        z = weighting_with_error(hops(graph), Fraction(epsilon))
        if z.proven:
            mechanism = tight_constraints(graph, Fraction(epsilon))
            assert is_private(mechanism)
            assert accuracy(mechanism).hits() == pytest.approx(z.x, abs=1e-9)
            built += 1
        else:
            with refused("plan.no-tight-constraints"):
                tight_constraints(graph, epsilon)
    assert 5 < built < 30


@pytest.mark.parametrize(
    "graph", [king(4), disjoint_counts(4, 2), product(path(3), path(4)), independent_counts(2, 2, 2)]
)
@pytest.mark.parametrize("make", [staircase, geometric])
def test_noise_on_tuples_is_private(graph, make):
    mechanism = make(graph, 0.8)
    assert is_private(mechanism)
    assert mechanism.probabilities().sum(axis=1) == pytest.approx(1, abs=1e-12)
    exact = [list(graph.results).index(label) for label in graph.results]
    assert set(mechanism.answers.tolist()) == set(exact)


def test_clamped_noise_is_noise_that_is_clamped():
    # Summed out until nothing remains.
    a = math.exp(-1.3)
    mechanism = staircase(from_edges(4, [(0, 1), (1, 2), (2, 3)], [3, 5, 6, 8]), 1.3)
    assert mechanism.outputs == 6
    assert mechanism.answers.tolist() == [0, 0, 1, 2, 2, 3]
    x = np.arange(-400, 401)
    law = a ** np.ceil(np.abs(x) / 2)
    for i, start in enumerate([3, 5, 6, 8]):
        expected = np.bincount(np.clip(x + start, 3, 8) - 3, weights=law / law.sum(), minlength=6)
        assert mechanism.probabilities()[i] == pytest.approx(expected, abs=1e-12)
    grid = staircase(king(3), 1.3)
    x, y = np.meshgrid(np.arange(-40, 41), np.arange(-40, 41), indexing="ij")
    law = (a ** np.maximum(abs(x), abs(y))).ravel()
    where = (np.clip(x + 1, 0, 2) * 3 + np.clip(y + 0, 0, 2)).ravel()
    expected = np.bincount(where, weights=law / law.sum(), minlength=9)
    assert grid.probabilities()[3] == pytest.approx(expected, abs=1e-12)  # from (1, 0)


def test_a_single_result_needs_no_noise():
    one = path(1)
    for make in (tight_constraints, staircase, geometric, distance_kernel, randomised_response):
        mechanism = make(one, 0.5)
        assert mechanism.probabilities().tolist() == [[1.0]]
        assert mechanism.log_ratio() == 0
    assert residual_column(one, 0.5, [1.0]).value == pytest.approx(1)


def test_components_are_not_mixed_by_what_uses_distances():
    graph = from_edges(5, [(0, 1), (2, 3), (3, 4)])
    mechanism = tight_constraints(graph, 0.6)
    assert mechanism.log_ratio() <= Fraction(0.6)
    table = mechanism.probabilities()
    gathered = int(np.argmax(accuracy(mechanism).hits()))
    others = [k for k in range(5) if k != gathered]
    assert table[:2, 2:].sum() + table[2:, :2].sum() < 1e-10
    assert (np.asarray(graph.distances())[:, others] == np.inf)[table[:, others] == 0].all()
    assert is_private(residual_column(graph, 0.6, np.full(5, 0.2)).mechanism)
    assert is_private(optimal.optimal(graph, 0.6, np.full(5, 0.2)).mechanism)
    with refused("plan.graph-not-connected"):
        distance_kernel(graph, 0.6)


def test_epsilon_is_taken_exactly():
    third = Fraction(1, 3)
    assert tight_constraints(path(4), third).epsilon == third
    assert tight_constraints(path(4), 0.1).epsilon == Fraction(0.1) != Fraction(1, 10)
    assert geometric(path(4), third).log_ratio() <= third


# --- Weights ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("marked", [0, 2**26])
def test_rows_and_sums_are_those_of_the_table(rng, marked, monkeypatch):
    monkeypatch.setattr("fitnoise.kernel.designs.weights._MARKED", marked)
    for _ in range(20):
        n, outputs, kinds = (int(k) for k in rng.integers(1, 8, 3))
        values = tuple(int(x) * 3 ** int(k) for x, k in rng.integers(0, 99, (kinds, 2)).tolist())
        codes = rng.integers(0, kinds, (n, outputs))
        columns = tuple(int(x) * 2 ** int(k) for x, k in rng.integers(0, 99, (outputs, 2)).tolist())
        residual_column_index = int(rng.integers(0, outputs))
        matrix = [[values[c] * z for c, z in zip(row, columns, strict=True)] for row in codes.tolist()]
        total = max(map(sum, matrix)) + 5
        weights = IntegerWeights(
            values, codes, columns, tuple(total - sum(row) for row in matrix), residual_column_index
        )
        assert weights.total == total
        for i, row in enumerate(matrix):
            row[residual_column_index] += total - sum(row)
            assert weights.row(i) == tuple(row)
            assert weights.probabilities()[i] == pytest.approx([w / total for w in row], rel=1e-14)
        if n > 1:
            edges = np.array(list(itertools.combinations(range(n), 2)))
            pairs = [(matrix[i][o], matrix[j][o]) for i, j in edges.tolist() for o in range(outputs)]
            if any(bool(a) != bool(b) for a, b in pairs):
                assert weights.largest_ratio(edges) is None
            else:
                expected = max([Fraction(1), *(max(Fraction(a, b), Fraction(b, a)) for a, b in pairs if a)])
                assert weights.largest_ratio(edges) == expected


def test_many_edges_are_gone_through_in_parts(monkeypatch):
    at_once = geometric(sum_query(6, 3), 0.5).largest_ratio
    monkeypatch.setattr("fitnoise.kernel.designs.weights._PAIRS", 64)
    assert geometric(sum_query(6, 3), 0.5).largest_ratio == at_once
    assert is_private(geometric(sum_query(6, 3), 0.5))


@pytest.mark.parametrize("start", [0, 9])
def test_the_one_edge_that_differs_is_found_wherever_it_is(start, monkeypatch):
    monkeypatch.setattr("fitnoise.kernel.designs.weights._PAIRS", 6)
    weights = of_table([[1, 1, 2] if i > start else [2, 1, 1] for i in range(11)])
    assert weights.largest_ratio(np.array([[i, i + 1] for i in range(10)])) == 2


def test_an_output_that_nobody_is_given_tells_nothing():
    weights = IntegerWeights((1, 2, 9), np.array([[0, 1, 1], [2, 1, 1]]), (0, 1, 1), (0, 0), 2)
    assert weights.largest_ratio(np.array([[0, 1]])) == 1


@pytest.mark.parametrize("bits", [1, 29, 30, 31, 59, 60, 61, 62, 93, 124])
def test_sums_of_rows_are_exact_however_many_bits_a_column_has(bits):
    a, b, c = columns = (2**bits - 1, 2 ** (bits - 1), 5)
    assert row_sums((1, 3), np.array([[0, 1, 1], [1, 1, 0]]), columns) == [a + 3 * (b + c), 3 * (a + b) + c]


def test_sums_of_rows_with_too_many_outputs_for_doubles_are_exact(monkeypatch):
    """Doubles add up 2^23 pieces of 30 bits exactly: of more outputs, Python adds up all entries."""
    monkeypatch.setattr("fitnoise.kernel.designs.weights._EXACT_OUTPUTS", 2)
    monkeypatch.delattr("fitnoise.kernel.designs.weights._pieces")
    columns = (2**93 - 1, 2**92, 5)
    assert row_sums((1, 3), np.array([[0, 1, 1]]), columns) == [columns[0] + 3 * (columns[1] + columns[2])]


def test_pairs_of_codes_of_few_bits_are_counted_in_64():
    """Pairs of 20 values have 400 numbers: in the 8 bits of their codes, the one with the largest ratio is another."""
    values, codes = (*range(1, 20), 100), np.array([[18, 19, 0], [19, 18, 0]], dtype=np.uint8)
    weights = IntegerWeights(values, codes, (1, 1, 1), (0, 0), 2)
    codes[:] = 0
    assert weights.largest_ratio(np.array([[0, 1]])) == Fraction(100, 19)
    with pytest.raises(ValueError, match="read-only"):
        weights.codes[:] = 0


@pytest.mark.parametrize("count", [2**15 - 1, 2**15, 2**15 + 1])
def test_codes_are_held_in_as_many_bits_as_their_values_need(count):
    """One bit fewer, and the last code would stand for another value."""
    weights = IntegerWeights(tuple(range(1, count + 1)), np.array([[count - 1, 0], [0, count - 1]]), (1, 1), (0, 0), 0)
    assert weights.row(0) == (count, 1)
    assert weights.largest_ratio(np.array([[0, 1]])) == count


def test_large_boxes_are_solved_by_their_bands(monkeypatch):
    query = sum_query(30, 5)
    by_matrix = tight_constraints(query, 1)
    steps = hops(query)
    monkeypatch.setattr("fitnoise.mechanisms.finite.families.MAX_INVERTED_RESULTS", 100)
    monkeypatch.setattr(sys.modules["fitnoise.mechanisms.finite.existence"], "CELLS_PROVEN", 10)
    monkeypatch.setattr("fitnoise.mechanisms.finite.exact._SMALL", 10)
    monkeypatch.setattr("fitnoise.mechanisms.finite.exact._HELD", 1000)
    monkeypatch.setattr("fitnoise.mechanisms.finite.exact.solve", None)
    assert (hops(sum_query(30, 5)) == steps).all()
    by_bands = tight_constraints(query, 1)
    assert by_bands.probabilities() == pytest.approx(by_matrix.probabilities(), abs=1e-12)
    with refused("plan.no-tight-constraints"):
        tight_constraints(query, 0.5)


def test_the_smallest_weights_are_valid():
    for rows in ([[1]], [[0, 1]], [[1, 0]]):
        weights = from_rows(rows)
        assert weights.total == 1
        assert list(weights.row(0)) == rows[0]
        assert weights.probabilities().tolist() == rows


@pytest.mark.parametrize(
    ("values", "codes", "columns", "residual", "residual_index", "broken"),
    [
        ((1, 2), [[0, 1]], (1,), (0,), 0, "plan.weights-parts-misfit"),
        ((1, 2), [[0, 1]], (1, 1), (0, 0), 0, "plan.weights-parts-misfit"),
        ((1, 2), [[0, 1]], (1, 1), (0,), 2, "plan.weights-parts-misfit"),
        ((1, 2), [[0, 1]], (1, 1), (0,), -1, "plan.weights-parts-misfit"),
        ((1, 2), [[0, 2]], (1, 1), (0,), 0, "plan.weights-parts-misfit"),
        ((1, 2), [[0, -1]], (1, 1), (0,), 0, "plan.weights-parts-misfit"),
        ((1, -2), [[0, 1]], (1, 1), (9,), 0, "plan.weight-negative"),
        ((1, 2), [[0, 1]], (1, -1), (9,), 0, "plan.weight-negative"),
        ((1, 2), [[0, 1]], (1, 1), (-2,), 0, "plan.weight-negative"),
        ((1, 2), [[0, 1], [1, 1]], (1, 1), (0, 0), 0, "plan.weight-sums-differ"),
        ((0, 0), [[0, 1]], (1, 1), (0,), 0, "plan.weight-sums-differ"),
        ((1.0, 2.0), [[0, 1]], (1, 1), (0,), 0, "plan.weights-not-python-integers"),
        ((1, 2), [[0, 1]], (1, True), (0,), 0, "plan.weights-not-python-integers"),
    ],
)
def test_weights_that_are_none_are_refused(values, codes, columns, residual, residual_index, broken):
    with refused(broken):
        IntegerWeights(values, np.array(codes), columns, residual, residual_index)


def test_weights_that_could_wrap_around_are_refused():
    """Values equal to a part of 2⁻³² are proven to be; their products modulo 2⁶⁴ are 2³² and 0."""
    z = np.int64(2**32)
    with refused("plan.weights-not-python-integers"):
        IntegerWeights((2**32 + 1, 2**32, 7, 7), np.array([[0, 1, 1], [1, 0, 1]]), (z, z, 0), (0, 0), 2)


def test_rows_are_brought_to_one_sum():
    weights = from_rows([[1, 2], [3, 3], [0, 5]])
    assert weights.total == 30
    assert [weights.row(i) for i in range(3)] == [(10, 20), (15, 15), (0, 30)]
    assert of_table([[1, 2], [2, 1]]).values == (1, 2)


@pytest.mark.parametrize(
    ("rows", "broken"),
    [
        ([], "plan.weights-not-rows"),
        ([[]], "plan.weights-not-rows"),
        ([[1, 2], [1]], "plan.weights-not-rows"),
        ([[1, 0.5]], "plan.weights-not-rows"),
        ([[True, 1]], "plan.weights-not-rows"),
        ([[1, -1, 3]], "plan.weight-row-invalid"),
        ([[1, 2], [0, 0]], "plan.weight-row-invalid"),
    ],
)
def test_rows_that_are_none_are_refused(rows, broken):
    with refused(broken):
        from_rows(rows)


def test_rows_with_too_many_different_sums_are_refused(monkeypatch):
    rows = [[2**40, 1], [2**41, 3]]
    bits = math.lcm(2**40 + 1, 2**41 + 3).bit_length() * 4
    monkeypatch.setattr("fitnoise.mechanisms.finite.weight_rows.BITS_LIMIT", bits)
    assert is_private(from_integers(path(2), 1, rows))
    monkeypatch.setattr("fitnoise.mechanisms.finite.weight_rows.BITS_LIMIT", bits - 1)
    with refused("plan.weight-sums-too-different"):
        from_rows(rows)


# --- What a mechanism says of itself ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    return tight_constraints(sum_query(3, 2), 0.9)


def test_measures_agree_with_their_definitions(rng, small):
    table = np.array([[float(Fraction(w, small.weights.total)) for w in small.weights.row(i)] for i in range(7)])
    assert small.probabilities() == pytest.approx(table, rel=1e-14)
    prior, guesses = rng.dirichlet(np.ones(7)), rng.integers(0, 7, 7)
    x = np.arange(7)
    read = np.zeros((7, 7))
    read[np.arange(7), guesses] = 1
    joined = table @ read
    assert accuracy(small).hits(guesses) == pytest.approx(np.diag(joined))
    assert accuracy(small).hit_rate(prior, guesses) == pytest.approx(prior @ np.diag(joined))
    away = np.abs(x[:, None] - x)
    assert accuracy(small).absolute_errors(guesses) == pytest.approx((joined * away).sum(axis=1))
    assert accuracy(small).squared_errors() == pytest.approx((table * away**2).sum(axis=1))
    assert accuracy(small).mae(prior) == pytest.approx(prior @ (table * away).sum(axis=1))
    assert accuracy(small).rmse(prior, guesses) == pytest.approx(math.sqrt(prior @ (joined * away**2).sum(axis=1)))
    joint = prior[:, None] * table
    assert accuracy(small).posteriors(prior) == pytest.approx((joint / joint.sum(axis=0)).T)
    assert accuracy(small).posteriors(prior).sum(axis=1) == pytest.approx(1)
    assert accuracy(small).leakage(prior) == pytest.approx(math.log2(joint.max(axis=0).sum() / prior.max()))
    best = accuracy(small).remap(prior)
    assert accuracy(small).hit_rate(prior, best) == pytest.approx(accuracy(small).expected_gain(prior))
    for _ in range(50):
        other = rng.integers(0, 7, 7)
        assert accuracy(small).hit_rate(prior, other) <= accuracy(small).expected_gain(prior) + EXACT
        loss = -away.astype(float)
        assert -accuracy(small).mae(prior, other) <= accuracy(small).expected_gain(prior, loss) + EXACT
    assert -accuracy(small).mae(prior, accuracy(small).remap(prior, loss)) == pytest.approx(
        accuracy(small).expected_gain(prior, loss)
    )


def test_ties_go_to_the_own_answer_and_then_to_the_first():
    graph = path(4)
    flat = from_integers(graph, 1, [[1, 1, 1, 1]] * 4)
    assert accuracy(flat).remap(uniform(graph)).tolist() == [0, 1, 2, 3]
    assert accuracy(flat).remap([0.5, 0, 0, 0.5]).tolist() == [0, 0, 0, 3]
    assert accuracy(flat).remap([0.4, 0.2, 0.2, 0.2]).tolist() == [0] * 4
    assert accuracy(flat).remap(uniform(graph), np.ones((4, 2))).tolist() == [0, 1, 0, 0]
    turned = from_integers(graph, 1, [[1, 1]] * 4, answers=[3, 2])
    assert accuracy(turned).remap(uniform(graph)).tolist() == [3, 2]


def test_outputs_that_never_occur_have_no_posterior():
    mechanism = from_integers(path(2), 1, [[1, 0], [1, 0]])
    assert accuracy(mechanism).posteriors([0.5, 0.5]).tolist() == [[0.5, 0.5], [0.0, 0.0]]


def test_errors_of_tuples_add_over_their_places():
    mechanism = staircase(king(3), 1.0)
    assert accuracy(mechanism).absolute_errors([4] * 9) == pytest.approx([2, 1, 2, 1, 0, 1, 2, 1, 2])
    assert accuracy(mechanism).squared_errors([0] * 9) == pytest.approx([0, 1, 4, 1, 2, 5, 4, 5, 8])


def test_rows_are_found_by_their_label(small):
    assert small.row(3) == small.weights.row(3)
    assert tight_constraints(king(3), 1.5).row((1, 2)) == tight_constraints(king(3), 1.5).weights.row(5)
    for unknown in (7, -1, "3", None, [7]):
        with refused("workload.unknown-result") as caught:
            small.row(unknown)
        assert "7" not in str(caught.value)
        assert caught.value.__context__ is None


def test_outputs_are_read_as_the_labels_that_were_given():
    for answers in ([1, 0], [1, 1], [0, 1, 0]):
        coin = from_integers(path(2), 1, [[1] * len(answers)] * 2, np.array(answers, dtype=np.int8), "a coin")
        assert [coin.read(o) for o in range(coin.outputs)] == answers
        assert (coin.family, coin.answers.dtype) == ("a coin", np.int64)
    pair = from_integers(king(3), 1, [[1, 1]] * 9, [5, 0])
    assert (pair.read(0), pair.read(1)) == ((1, 2), (0, 0))


def test_nothing_of_a_mechanism_can_be_changed():
    mechanism = tight_constraints(path(3), 0.9)
    with pytest.raises(AttributeError):
        mechanism.epsilon = Fraction(1)
    for array in (mechanism.answers, mechanism.weights.codes, mechanism.probabilities()):
        with pytest.raises(ValueError, match="read-only"):
            array.flat[0] = 0


@pytest.mark.parametrize(
    "make", [tight_constraints, staircase, lambda g, e: residual_column(g, e, uniform(g)).mechanism]
)
def test_draws_have_the_law_of_the_row(make):
    mechanism = make(sum_query(3, 2), 0.9)
    for result in (0, 3):
        outputs = noise.choose(choices.categoricals, mechanism.row(result), 40_000)
        expected = mechanism.probabilities()[result] * outputs.size
        seen = np.bincount(outputs, minlength=mechanism.outputs)
        is_large = expected > 1
        assert seen[~is_large].sum() < 20
        chi = ((seen - expected)[is_large] ** 2 / expected[is_large]).sum()
        assert stats.chi2.sf(chi, is_large.sum() - 1) >= SIGNIFICANCE


# --- Choosing ---------------------------------------------------------------------------------------------


def test_the_best_where_tight_constraints_exist():
    graph = sum_query(3, 5)
    choice = best_mechanism(graph, 1.05, uniform(graph))
    assert choice.mechanism.family == "tight constraints"
    assert "attains the bound for all mechanisms that see only the true answer" in choice.why
    rows = {c.family: c for c in choice.candidates}
    assert rows["tight constraints"].gain == pytest.approx(0.236686195, abs=1e-9)
    assert rows["tight constraints"].gap < 1e-9
    assert rows["linear program"].gain is None
    assert rows["linear program"].remark == "not needed"
    assert all(c.gain is None or c.gain <= c.bound + 1e-12 for c in choice.candidates)
    assert (choice.guesses == np.arange(16)).all()


def test_the_best_below_the_threshold():
    graph = sum_query(3, 5)
    choice = best_mechanism(graph, 0.6, uniform(graph))
    assert choice.mechanism.family == "linear program"
    rows = {c.family: c for c in choice.candidates}
    assert rows["tight constraints"].gain is None
    assert "does not exist" in rows["tight constraints"].remark
    assert rows["linear program"].bound == pytest.approx(0.145849, abs=1e-6)
    assert [c.family for c in choice.candidates][:2] == ["tight constraints", "residual column"]
    small = best_mechanism(graph, 0.6, uniform(graph), program_limit=0)
    assert small.mechanism.family == "residual column"
    assert "no mechanism that sees only the true answer gains" in small.why
    assert {c.family: c for c in small.candidates}["linear program"].remark == "too many results"
    lines = choice.table().splitlines()
    assert len(lines) == 8
    assert lines[0].split() == ["family", "gain", "hit", "rate", "MAE", "RMSE", "leakage", "bound", "gap", "seconds"]
    assert "–" in lines[1]


def test_the_best_for_the_mean_error():
    graph = sum_query(3, 5)
    x = np.arange(16.0)
    loss = -np.abs(x[:, None] - x)
    choice = best_mechanism(graph, 0.6, uniform(graph), loss)
    assert choice.mechanism.family == "linear program"
    row = next(c for c in choice.candidates if c.family == "linear program")
    assert -row.gain == pytest.approx(row.mae, abs=1e-9)
    assert row.mae == pytest.approx(3.383472, abs=1e-5)
    without = best_mechanism(graph, 0.6, uniform(graph), loss, program_limit=3)
    assert "no bound is known" in without.why
    assert all(c.bound is None and c.gap is None for c in without.candidates)


def test_results_that_are_no_numbers_have_no_errors():
    graph = from_edges(3, [(0, 1), (1, 2)], ["low", "middle", "high"])
    choice = best_mechanism(graph, 1.0, uniform(graph))
    assert choice.mechanism.family == "tight constraints"
    assert all(c.mae is None for c in choice.candidates)
    assert next(c for c in choice.candidates if c.family == "staircase").gain is None
    with refused("workload.errors-need-numbers"):
        accuracy(choice.mechanism).absolute_errors()


def test_someone_else_may_certify():
    assert tight_constraints(path(3), 1.0, certify=lambda graph, epsilon: True).outputs == 3
    with refused("plan.no-tight-constraints"):
        tight_constraints(path(3), 1.0, certify=lambda graph, epsilon: False)
    with refused("plan.tight-constraints-undecided"):
        tight_constraints(path(3), 1.0, certify=lambda graph, epsilon: None)
    with refused("plan.existence-contradicted"):
        tight_constraints(sum_query(3, 5), 0.6, certify=lambda graph, epsilon: True)
    choice = best_mechanism(path(3), 1.0, uniform(path(3)), certify=lambda graph, epsilon: False)
    assert choice.mechanism.family == "residual column"


# --- Refusals ---------------------------------------------------------------------------------------------

EVERYTHING = [
    tight_constraints,
    *FAMILIES,
    lambda g, e: residual_column(g, e, uniform(g)),
    lambda g, e: optimal.optimal(g, e, uniform(g)),
    lambda g, e: best_mechanism(g, e, uniform(g)),
]


@pytest.mark.parametrize("epsilon", [0, -0.5, math.nan, 1000, "1"])
@pytest.mark.parametrize("make", EVERYTHING)
def test_epsilons_that_are_none_are_refused(make, epsilon):
    with refused("workload.epsilon-not-a-number", "workload.epsilon-out-of-range"):
        make(path(3), epsilon)


@pytest.mark.parametrize("make", [tight_constraints, *FAMILIES, lambda g, e: residual_column(g, e, uniform(g))])
def test_graphs_too_large_for_a_table_are_refused(make):
    with refused("plan.too-many-results-for-matrix", "plan.too-many-results-for-table"):
        make(path(5000), 1.0)


def test_programs_too_large_are_refused(monkeypatch):
    with refused("plan.too-many-results-for-program"):
        optimal.optimal(path(101), 1.0, uniform(path(101)))
    monkeypatch.setattr(optimal, "CELLS_LIMIT", 10)
    with refused("plan.too-many-different-results"):
        residual_column(path(30), 1.0, uniform(path(30)))


@pytest.mark.parametrize("make", [staircase, geometric])
@pytest.mark.parametrize(
    ("labels", "error", "broken"),
    [
        (["a", "b"], WorkloadError, "workload.noise-needs-integers"),
        ([0, 0.5], WorkloadError, "workload.noise-needs-integers"),
        ([0, 2**40], WorkloadError, "workload.noise-needs-integers"),
        ([(0, 1), (0,)], WorkloadError, "workload.noise-needs-integers"),
        ([0, 10_000], PlanError, "plan.box-too-large"),
    ],
)
def test_noise_needs_integers_that_do_not_differ_too_much(make, labels, error, broken):
    with refused(broken):
        make(from_edges(2, [(0, 1)], labels), 1.0)


@pytest.mark.parametrize("gain", [np.ones(3), np.ones((2, 3)), np.full((3, 3), math.nan), "gain", np.ones((3, 0))])
def test_gains_that_are_none_are_refused(gain):
    for use in (optimal.optimal, best_mechanism):
        with refused("workload.gain-shape"):
            use(path(3), 1.0, uniform(path(3)), gain)
    with refused("workload.gain-shape"):
        accuracy(geometric(path(3), 1.0)).remap(uniform(path(3)), gain)


def test_programs_guess_results():
    for use in (optimal.optimal, best_mechanism):
        with refused("workload.gain-not-square"):
            use(path(3), 1.0, uniform(path(3)), np.ones((3, 2)))


@pytest.mark.parametrize("prior", [[0.5, 0.4, 0.2], [1.0, 0.5, -0.5], [0.5, 0.5]])
def test_priors_that_are_none_are_refused(prior):
    mechanism = accuracy(geometric(path(3), 1.0))
    for use in (mechanism.hit_rate, mechanism.mae, mechanism.leakage, mechanism.remap, mechanism.posteriors):
        with refused("workload.prior-not-probabilities", "workload.prior-shape", "workload.prior-sum"):
            use(prior)
    for make in (residual_column, optimal.optimal, best_mechanism):
        with refused("workload.prior-not-probabilities", "workload.prior-shape", "workload.prior-sum"):
            make(path(3), 1.0, prior)


@pytest.mark.parametrize("guesses", [[0, 1], [0, 1, 3], [0, -1, 1], [0.0, 1.0, 2.0], [[0, 1, 2]]])
def test_remaps_that_are_none_are_refused(guesses):
    with refused("workload.remap-shape"):
        accuracy(geometric(path(3), 1.0)).hits(guesses)


def test_tables_that_do_not_fit_are_refused():
    weights = from_rows([[1, 1], [1, 1]])
    for answers in ([0], [0, 2], [-1, 0]):
        with refused("plan.weights-misfit-query"):
            FiniteMechanism(path(2), Fraction(1), "given", weights, np.array(answers))
    with refused("plan.weights-misfit-query"):
        from_integers(path(3), 1, [[1, 1], [1, 1]])
    with refused("workload.answers-not-given"):
        from_integers(path(2), 1, [[1, 1, 1], [1, 1, 1]])
    with refused("plan.ratio-above-epsilon"):
        from_integers(path(2), 1, [[1, 0], [1, 1]])


def test_a_proven_bound_may_be_reached_and_not_passed():
    bound = exp_below(Fraction(1))
    low, high = bound.denominator, bound.numerator
    at_bound = from_integers(path(2), 1, [[low, high], [high, low]])
    assert (at_bound.largest_ratio, at_bound.log_ratio()) == (bound, 1)
    with refused("plan.ratio-above-epsilon"):
        from_integers(path(2), 1, [[low, high + 1], [high + 1, low]])


def test_tables_of_floats_that_are_far_from_private_are_refused():
    with refused("plan.rounding-costs-too-much"):
        from_probabilities(path(2), Fraction(1), np.eye(2), "given", [0, 1])
    rough = tight_constraints(path(4), 1.0).probabilities() * (1 + 1e-9 * np.array([[1], [-1], [1], [-1]]))
    mended = from_probabilities(path(4), Fraction(1), rough, "given", np.arange(4))
    assert is_private(mended)
    assert mended.probabilities() == pytest.approx(rough, abs=1e-7)


def test_nothing_is_made_where_nothing_can_be(monkeypatch):
    def fail(*_, **__):
        raise PlanError("not-today", "It cannot be made today.", "", "Come back.", "No mechanism was made.")

    for name in ("tight_constraints", "staircase", "geometric", "distance_kernel", "randomised_response"):
        monkeypatch.setattr(families, name, fail)
    monkeypatch.setattr(optimal, "residual_column", fail)
    monkeypatch.setattr(optimal, "optimal", fail)
    with refused("plan.no-finite-mechanism") as caught:
        best_mechanism(path(3), 1.0, uniform(path(3)))
    assert "It cannot be made today." in caught.value.needed


# --- Against an independent implementation ----------------------------------------------------------------


@pytest.mark.parametrize(("graph", "epsilon"), [(sum_query(3, 5), 1.1), (king(4), 1.2), (sum_query(20, 5), 1.0)])
def test_qif_makes_the_same_mechanisms(graph, epsilon):
    qif = pytest.importorskip("qif")
    d = np.asarray(graph.distances())
    theirs = np.asarray(qif.mechanism.d_privacy.tight_constraints(graph.n, lambda i, j: epsilon * d[i, j]))
    ours = tight_constraints(graph, epsilon)
    assert ours.probabilities() == pytest.approx(theirs, abs=1e-10)
    prior = np.random.default_rng(1).dirichlet(np.ones(graph.n))
    assert accuracy(ours).leakage(prior) == pytest.approx(
        qif.measure.bayes_vuln.min_entropy_leakage(prior, theirs), abs=1e-8
    )
    assert qif.mechanism.d_privacy.tight_constraints(graph.n, lambda i, j: 0.6 * d[i, j]).size == 0


def test_qif_finds_the_same_optimum():
    qif = pytest.importorskip("qif")
    graph = sum_query(2, 3)
    d = np.asarray(graph.distances())
    prior = np.random.default_rng(2).dirichlet(np.ones(7))
    theirs = qif.mechanism.d_privacy.min_loss_given_d(
        prior, 7, lambda i, j: 0.7 * d[i, j], lambda i, j: float(abs(int(i) - int(j)))
    )
    x = np.arange(7.0)
    loss = np.abs(x[:, None] - x)
    best = -float((prior[:, None] * np.asarray(theirs) * loss).sum())
    assert optimal.optimal(graph, 0.7, prior, -loss).value == pytest.approx(best, abs=1e-7)


def test_weightings_are_those_of_fractions(rng):
    for _ in range(20):
        graph = random_graph(rng, int(rng.integers(2, 7)))
        alpha = Fraction(int(rng.integers(1, 20)), 21)
        exact = fractions_solved([[alpha ** int(d) for d in row] for row in graph.distances()], [Fraction(1)] * graph.n)
        solution = weighting_with_error(hops(graph), log_above(1 / alpha))
        if exact is not None and np.isfinite(solution.error).all():
            assert solution.x == pytest.approx([float(x) for x in exact], abs=1e-8)
