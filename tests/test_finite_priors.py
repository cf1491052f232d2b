"""Priors, bounds and leakage: values from the paper and from its corrections, and laws that hold for every graph."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from fitnoise.kernel.exact_powers import alpha_above, exp_below, exp_bounds, log_above, rational
from fitnoise.mechanisms.finite import complete, cycle, from_edges, hamming, independent_counts, path, sum_query
from fitnoise.mechanisms.finite.accuracy import accuracy
from fitnoise.mechanisms.finite.exact import hops, kernel, powers, solve
from fitnoise.mechanisms.finite.families import tight_constraints
from fitnoise.mechanisms.finite.priors import (
    checked_prior,
    corner_priors,
    database_leakage_bound,
    hit_bound,
    leakage_bound,
    leakage_capacity,
    nearest_regular,
    regular_leakage_bound,
    regularity,
    shortfall,
    uniform,
)
from fitnoise.mechanisms.finite.programs import minimise
from fitnoise.mechanisms.finite.weight_rows import from_integers
from refused import refused
from tolerances import EXACT

LN2 = math.log(2)
PERSON = np.array([0.3, 0.27, 0.23, 0.2])


def star(leaves):
    return from_edges(leaves + 1, [(0, k) for k in range(1, leaves + 1)])


def five_people():
    table = PERSON
    for _ in range(4):
        table = np.kron(table, PERSON)
    return table


def random_graph(rng, n):
    """Connected: a random tree and some edges more."""
    edges = {(int(rng.integers(0, k)), k) for k in range(1, n)}
    candidates = list(itertools.combinations(range(n), 2))
    edges |= {
        candidates[k]
        for k in rng.choice(len(candidates), size=min(len(candidates), int(rng.integers(0, 2 * n))), replace=False)
    }
    return from_edges(n, sorted(edges))


# --- Roundings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", ["0", "1/1048576", "1/1000", "1/2", "97/100", "1", "69/10", "7", "50"])
def test_exponentials_lie_between_their_bounds(x):
    x = Fraction(x)
    low, high = exp_bounds(x, 192)
    finer_low, finer_high = exp_bounds(x, 400)
    assert low << 208 <= finer_low <= finer_high <= high << 208
    assert high - low < 20
    assert float(Fraction(low, 2**192)) == pytest.approx(math.exp(x), rel=1e-15)


def test_known_digits_of_e():
    e = Fraction(27182818284590452353602874713526624977572470936999595749669676277, 10**64)
    low, high = exp_bounds(Fraction(1), 192)
    assert Fraction(low, 2**192) <= e <= Fraction(high + 1, 2**192)


@pytest.mark.parametrize("epsilon", [2.0**-20, 0.01, 0.5, 0.97, 1.0, LN2, 7.25, 50.0])
def test_alpha_and_logarithms_are_rounded_to_the_safe_side(epsilon):
    x = rational(epsilon)
    assert x == Fraction(epsilon)
    low, high = exp_bounds(x, 400)
    alpha = alpha_above(x)
    assert alpha * Fraction(high, 2**400) >= 1
    assert alpha < 1
    assert alpha * Fraction(low, 2**400) < 1 + Fraction(1, 2**63)
    assert exp_below(x) * 2**400 <= high
    for ratio in (1 / alpha, exp_below(x), Fraction(low, 2**400)):
        bound = log_above(ratio)
        assert exp_bounds(bound, 400)[1] >= ratio * 2**400 - 1
        assert abs(bound / x - 1) < 1e-14 + 2.0**-44 / epsilon
    assert log_above(Fraction(1)) == 0


def test_logarithms_just_above_one_keep_their_digits():
    ratio = 1 + Fraction(1, 10**30)
    assert abs(log_above(ratio) * 10**30 - 1) < 1e-15


def test_powers_never_fall_too_fast():
    alpha = alpha_above(Fraction(3, 2))
    scaled_powers = powers(alpha, 200)
    assert scaled_powers[0] == 2**96
    assert all(1 <= b < a or a == b == 1 for a, b in itertools.pairwise(scaled_powers))
    assert all(a * alpha <= b for a, b in itertools.pairwise(scaled_powers))
    assert all(p < alpha**k * 2**96 + 1 / (1 - alpha) for k, p in enumerate(scaled_powers))
    assert powers(alpha, 1) == [2**96]


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf, 51, 2.0**-21, "1", True, None, 1j])
def test_epsilons_out_of_range_are_refused(epsilon):
    with refused("workload.epsilon-not-a-number", "workload.epsilon-out-of-range"):
        rational(epsilon)


def test_solutions_are_within_their_error(rng):
    for _ in range(50):
        n = int(rng.integers(2, 7))
        matrix = rng.integers(-9, 10, (n, n)) + 12 * np.eye(n, dtype=int)
        right = rng.integers(-9, 10, n)
        solution = solve(matrix.astype(float), right.astype(float), 0.0)
        exact = fractions_solved([[Fraction(int(x)) for x in row] for row in matrix], [Fraction(int(x)) for x in right])
        if not np.isfinite(solution.error).all():
            continue
        for x, e, t in zip(solution.x.tolist(), solution.error.tolist(), exact, strict=True):
            assert abs(Fraction(x) - t) <= Fraction(e)
            assert e < 1e-12


def fractions_solved(matrix, right):
    """Gauss and Jordan, in fractions; None where the matrix is singular."""
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    n = len(rows)
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[n] for row in rows]


@pytest.mark.parametrize("matrix", [np.ones((2, 2)), np.array([[1, 1], [1, 1 + 1e-16]]), np.full((2, 2), 1e300)])
def test_singular_systems_have_no_proof(matrix):
    solution = solve(matrix, np.ones(2), 0.0)
    assert np.isinf(solution.error).all()
    assert solution.proven is None


def test_a_program_without_an_optimum_is_refused():
    with refused("plan.linear-program-unsolved"):
        minimise(np.array([-1.0]))


# --- Corner priors ----------------------------------------------------------------------------------------

CORNERS = [
    (path(3), Fraction(1, 2), [[4, 2, 1], [1.75, 3.5, 1.75], [1, 2, 4]], 7, 0.091837),
    (path(3), Fraction(1, 5), [[25, 5, 1], [31 / 7, 155 / 7, 31 / 7], [1, 5, 25]], 31, 0.428125),
    (cycle(3), Fraction(1, 2), [[2, 1, 1], [1, 2, 1], [1, 1, 2]], 4, 0.0625),
    (cycle(3), Fraction(1, 5), [[5, 1, 1], [1, 5, 1], [1, 1, 5]], 7, 0.326531),
    (complete(4), Fraction(1, 2), np.ones((4, 4)) + np.eye(4), 5, 0.008),
    (complete(4), Fraction(1, 5), np.ones((4, 4)) + 4 * np.eye(4), 8, 0.125),
    (cycle(4), Fraction(1, 2), [[4, 2, 1, 2], [2, 4, 2, 1], [1, 2, 4, 2], [2, 1, 2, 4]], 9, 0.012346),
    (star(3), Fraction(1, 2), None, None, 0.021094),
    (star(3), Fraction(1, 5), None, None, 0.263672),
]  # fmt: skip


@pytest.mark.parametrize(("graph", "alpha", "rows", "scale", "volume"), CORNERS)
def test_corner_priors_of_examples_1_and_2(graph, alpha, rows, scale, volume):
    corners = corner_priors(graph, -math.log(alpha))
    assert corners.sum(axis=1) == pytest.approx(1)
    assert abs(np.linalg.det(corners)) == pytest.approx(volume, abs=1e-6)
    if rows is not None:
        assert corners == pytest.approx(np.array(rows) / scale, abs=1e-6)


def test_mixtures_of_corner_priors_are_regular_and_the_region_grows(rng):
    graph = sum_query(4, 3)
    for _ in range(20):
        mixture = rng.dirichlet(np.ones(graph.n)) * 0.9 + 0.1 / graph.n
        prior = mixture @ corner_priors(graph, 0.7)
        decision = regularity(graph, 0.7, prior)
        assert decision.regular is True
        row_sums = kernel(hops(graph), Fraction(0.7)).sum(axis=1)
        assert decision.coefficients * row_sums == pytest.approx(mixture, abs=1e-12)
        steps = hops(graph)
        ratios = prior[:, None] / prior[None, :]
        assert (ratios <= np.exp(0.7 * steps) * (1 + EXACT)).all()  # proposition 2


@pytest.mark.parametrize("n", [3, 8])
def test_regular_priors_on_a_path_are_those_that_bend_little(rng, n):
    a = math.exp(-0.5)
    for _ in range(40):
        pi = rng.dirichlet(np.full(n, 20.0))
        bends = [(1 + a * a) * pi[i] - a * (pi[i - 1] + pi[i + 1]) for i in range(1, n - 1)]
        bends += [pi[0] - a * pi[1], pi[-1] - a * pi[-2]]
        assert regularity(path(n), 0.5, pi).regular == (min(bends) > 0)


# --- Thresholds: strict, not those of a tolerance ---------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "epsilon", "regular", "min_coefficient"),
    [
        (sum_query(150, 5), 0.79, False, -1.0059e-4),
        (sum_query(150, 5), 0.80, False, -9.336e-5),
        (sum_query(150, 5), 0.96, False, -2.948310e-3 / 751),
        (sum_query(150, 5), 0.97, True, 6.733954e-4 / 751),
        (independent_counts(30, 30), 0.89, False, -1.0167e-4),
        (independent_counts(30, 30), 0.90, False, -9.761e-5),
        (independent_counts(30, 30), 1.13, False, -2.451606e-3 / 961),
        (independent_counts(30, 30), 1.14, True, 1.581360e-3 / 961),
    ],
)
def test_the_uniform_prior_is_regular_from_the_true_threshold_on(graph, epsilon, regular, min_coefficient):
    decision = regularity(graph, epsilon, uniform(graph))
    assert decision.regular is regular
    assert decision.coefficients.min() == pytest.approx(min_coefficient, rel=1e-4)
    assert decision.coefficients[decision.worst] == decision.coefficients.min()


# --- The bound for every prior ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "epsilon", "bound"),
    [
        (sum_query(150, 5), 0.5, 0.062437),
        (sum_query(150, 5), 0.80, 0.110791138),
        (sum_query(150, 5), 0.85, 0.119772810),
        (sum_query(150, 5), 0.90, 0.129023526),
        (sum_query(150, 5), 0.95, 0.138544061),
        (sum_query(150, 5), 1.00, 0.148322754),
        (independent_counts(30, 30), 0.3, 0.019553),
        (independent_counts(30, 30), 0.90, 0.116733946),
        (independent_counts(30, 30), 1.00, 0.139614120),
        (independent_counts(30, 30), 1.10, 0.164055775),
        (sum_query(3, 5), 0.9, 0.204898421),
    ],
)
def test_hit_bounds_of_uniform_priors(graph, epsilon, bound):
    bounds = hit_bound(graph, epsilon, uniform(graph))
    assert bounds.upper == pytest.approx(bound, abs=6e-7 if len(str(bound)) < 9 else 2e-9)
    assert 0 <= bounds.upper - bounds.lower < 4e-9  # a solver's ends, 1e-9 each; not the same on every processor


def by_program(graph, epsilon, prior):
    """Return the bound of all results from the solver."""
    phi = np.exp(-epsilon * np.asarray(graph.distances()))
    return -optimize.linprog(-prior, A_ub=phi, b_ub=np.ones(graph.n), bounds=(0, None), method="highs").fun


def test_the_bound_and_its_proof_on_random_graphs(rng):
    for _ in range(40):
        n = int(rng.integers(2, 9))
        graph, epsilon = random_graph(rng, n), float(rng.uniform(0.05, 2))
        prior = rng.dirichlet(np.full(n, rng.choice([0.3, 1, 10])))
        bounds = hit_bound(graph, epsilon, prior)
        phi = np.exp(-epsilon * np.asarray(graph.distances()))
        assert bounds.coefficients.min() >= 0
        assert (bounds.coefficients @ phi >= prior * (1 - EXACT)).all()
        assert bounds.diagonal.min() >= 0
        assert (phi @ bounds.diagonal <= 1 + EXACT).all()
        assert bounds.lower <= bounds.upper <= bounds.lower + 1e-9
        assert by_program(graph, epsilon, prior) == pytest.approx(bounds.upper, abs=1e-8)
        assert bounds.upper >= prior.max() * (1 - EXACT)
        assert hit_bound(graph, epsilon * 1.3, prior).upper >= bounds.upper - 1e-9


def test_regular_priors_have_the_sum_of_their_coefficients_for_a_bound(rng):
    graph = sum_query(4, 3)
    for _ in range(10):
        prior = rng.dirichlet(np.full(graph.n, 5.0)) @ corner_priors(graph, 1.2)
        y = regularity(graph, 1.2, prior).coefficients
        assert hit_bound(graph, 1.2, prior).upper == pytest.approx(y.sum(), abs=1e-9)


def test_a_poor_dual_is_made_up_for(rng):
    from fitnoise.mechanisms.finite.priors import _proven

    phi = np.exp(-0.5 * np.asarray(sum_query(3, 2).distances()))
    prior = rng.dirichlet(np.ones(7))
    best = hit_bound(sum_query(3, 2), 0.5, prior)
    for y in (np.zeros(7), best.coefficients * 0.999, best.coefficients + rng.normal(0, 1e-3, 7), np.full(7, 0.01)):
        bounds = _proven(phi, 1e-15, prior, best.diagonal * 7, y)
        assert bounds.upper >= best.lower
        assert bounds.lower <= best.upper
        assert (bounds.coefficients @ phi >= prior * (1 - 1e-12)).all()
    assert _proven(phi, 1e-15, prior, best.diagonal, np.zeros(7)).upper == 1.0


def test_components_are_bounded_separately():
    two = from_edges(4, [(0, 1), (2, 3)])
    a = math.exp(-1)
    bounds = hit_bound(two, 1.0, [0.25] * 4)
    assert bounds.upper == pytest.approx(1 / (1 + a), abs=1e-12)


def test_singular_matrices_of_constraints_are_no_obstacle():
    # K_{4,4} at α = 1/3 (appendix B), where the float nearest to ln 3 makes Φ as singular as floats can be.
    graph = from_edges(8, [(i, j) for i in range(4) for j in range(4, 8)])
    assert hit_bound(graph, math.log(3), uniform(graph)).upper == pytest.approx(0.375, abs=1e-9)
    assert hit_bound(graph, math.log(3), [0.2, 0.1, 0.1, 0.1, 0.2, 0.1, 0.1, 0.1]).upper < 1


def test_a_matrix_that_cannot_be_solved_leaves_the_program(monkeypatch):
    def fail(*_):
        raise np.linalg.LinAlgError

    graph = sum_query(3, 2)
    best = hit_bound(graph, 0.7, uniform(graph))
    monkeypatch.setattr(np.linalg, "solve", fail)
    bounds = hit_bound(graph, 0.7, uniform(graph))
    assert bounds.upper == pytest.approx(best.upper, abs=1e-9)
    assert bounds.upper >= bounds.lower


# --- Theorem 1, corrected ---------------------------------------------------------------------------------


def test_the_bound_of_theorem_1_is_attained_with_slack_where_the_coefficient_is_zero():
    # K_2 with a corner prior: the constant mechanism is right as often as any, and Φ diag = (1, α).
    graph, epsilon = complete(2), LN2
    corner = corner_priors(graph, epsilon)[0]
    assert corner == pytest.approx([2 / 3, 1 / 3])
    y = np.array([2 / 3, 0.0])
    gap = shortfall(graph, epsilon, y, [1, 0])
    assert gap.slack == pytest.approx([0, 0.5])
    assert gap.loss == pytest.approx(0)
    assert hit_bound(graph, epsilon, corner).upper == pytest.approx(2 / 3, abs=1e-12)


def test_what_a_mechanism_misses_is_coefficients_times_slack(rng):
    graph = sum_query(3, 2)
    mechanism = tight_constraints(graph, 0.8)
    for _ in range(10):
        prior = rng.dirichlet(np.ones(7))
        y = regularity(graph, 0.8, prior).coefficients
        guesses = rng.integers(0, 7, 7)
        diagonal = accuracy(mechanism).hits(guesses)
        assert shortfall(graph, 0.8, y, diagonal).loss == pytest.approx(y.sum() - prior @ diagonal, abs=1e-12)


def test_the_nearest_regular_prior(rng):
    graph = sum_query(4, 3)
    for concentration in (1, 3, 10):
        prior = rng.dirichlet(np.full(graph.n, concentration))
        nearest = nearest_regular(graph, 0.7, prior)
        assert nearest.coefficients.min() >= 0
        assert nearest.prior.sum() == pytest.approx(1)
        assert nearest.prior == pytest.approx(nearest.coefficients @ kernel(hops(graph), Fraction(0.7)))
        assert nearest.distance == pytest.approx(np.abs(nearest.prior - prior).sum() / 2)
        for _ in range(20):  # none of many others is nearer
            other = rng.dirichlet(np.full(graph.n, 0.5)) @ corner_priors(graph, 0.7)
            blend = 0.95 * nearest.prior + 0.05 * other
            assert np.abs(blend - prior).sum() / 2 >= nearest.distance - 1e-8
        assert hit_bound(graph, 0.7, prior).upper <= nearest.coefficients.sum() + 2 * nearest.distance + EXACT
    inside = corner_priors(graph, 0.7).mean(axis=0)
    assert nearest_regular(graph, 0.7, inside).distance == pytest.approx(0, abs=1e-9)


# --- Leakage: example 3 -----------------------------------------------------------------------------------

EXAMPLE_3 = [
    (0.40, 0.733709929, 2.048881958, -2.08e-4, 0.940671917),
    (0.48, 1.113963681, 2.429135710, -9.98e-5, 1.265533784),
    (0.50, 1.207395938, 2.522567967, -8.32e-5, 1.344970367),
    (0.60, 1.664577121, 2.979749151, -2.90e-5, 1.731409512),
    (0.80, 2.527706198, 3.842878227, 9.465844e-10, 2.527706198),
    (0.90, 2.932975268, 4.248147297, 1.838276e-8, 2.932975268),
    (1.00, 3.320394547, 4.635566576, 9.915098e-8, 3.320394547),
]


@pytest.mark.parametrize(("epsilon", "formula", "every_prior", "min_coefficient", "max_leakage"), EXAMPLE_3)
def test_example_3(epsilon, formula, every_prior, min_coefficient, max_leakage):
    graph = hamming(5, 4)
    prior = five_people()
    decision = regularity(graph, epsilon, prior)
    assert decision.coefficients.min() == pytest.approx(min_coefficient, rel=2e-3)
    assert math.log2(decision.coefficients.sum() / prior.max()) == pytest.approx(formula, abs=2e-9)
    assert decision.regular is (epsilon > LN2)
    assert database_leakage_bound(5, 4, epsilon) == pytest.approx(every_prior, abs=2e-9)
    assert database_leakage_bound(5, 4, epsilon, PERSON) == pytest.approx(max_leakage, abs=2e-9)
    if epsilon > LN2:
        assert formula - 1e-9 <= regular_leakage_bound(graph, epsilon, prior) < formula + 1e-8  # rounded up
    else:
        with refused("plan.prior-not-regular"):
            regular_leakage_bound(graph, epsilon, prior)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 0.6, 0.8])
def test_the_bound_for_one_person_at_a_time_equals_that_for_complete_tables(epsilon):
    max_leakage = next(row[4] for row in EXAMPLE_3 if row[0] == epsilon)
    assert leakage_bound(hamming(5, 4), epsilon, five_people()) == pytest.approx(max_leakage, abs=5e-9)


def test_at_half_a_mechanism_leaks_more_than_the_paper_says_can_be():
    # Three outputs for each person, the fourth value answering like the first. The paper: at most 1.2 bits.
    alpha = alpha_above(Fraction(1, 2))
    a, q = alpha.numerator, alpha.denominator
    rows = [[q, a, a], [a, q, a], [a, a, q], [q, a, a]]
    one = from_integers(complete(4), 0.5, rows)
    assert one.log_ratio() <= Fraction(1, 2)
    table = one.probabilities()
    assert table[0] == pytest.approx([0.451862762, 0.274068619, 0.274068619], abs=1e-9)
    assert 5 * accuracy(one).leakage(PERSON) == pytest.approx(1.344970367, abs=1e-9)
    for_all, prior = table, PERSON
    for _ in range(4):
        for_all, prior = np.kron(for_all, table), np.kron(prior, PERSON)
    assert for_all.shape == (1024, 243)
    assert for_all.sum(axis=1) == pytest.approx(1)
    i, j = hamming(5, 4).edges.T
    assert np.abs(np.log(for_all[i] / for_all[j])).max() == pytest.approx(0.5, abs=1e-12)
    leaked = math.log2((prior[:, None] * for_all).max(axis=0).sum() / prior.max())
    assert leaked == pytest.approx(1.344970367, abs=1e-9)
    assert leaked > 1.2074
    assert leaked <= database_leakage_bound(5, 4, 0.5, PERSON)


@pytest.mark.parametrize(("people", "values"), [(1, 2), (3, 2), (2, 5)])
def test_the_leakage_of_theorem_2_is_that_of_randomised_response(people, values):
    epsilon = 0.7
    graph = hamming(people, values)
    z = (math.exp(epsilon) / (values - 1 + math.exp(epsilon))) ** people
    assert leakage_capacity(graph, epsilon) == pytest.approx(math.log2(graph.n * z), abs=1e-9)
    assert database_leakage_bound(people, values, epsilon) == pytest.approx(math.log2(graph.n * z), abs=1e-9)
    flat = np.full(values, 1 / values)
    assert database_leakage_bound(people, values, epsilon, flat) == pytest.approx(math.log2(graph.n * z), abs=1e-9)


@pytest.mark.parametrize(("epsilon", "bits"), [(0.97, 6.740965648), (1.0, 6.799480939), (1.3, 7.317608402)])
def test_leakage_about_a_sum(epsilon, bits):
    graph = sum_query(150, 5)
    assert leakage_capacity(graph, epsilon) == pytest.approx(bits, abs=1e-9)
    assert regular_leakage_bound(graph, epsilon, uniform(graph)) == pytest.approx(bits, abs=1e-9)


def test_no_prior_leaks_more_than_the_uniform(rng):
    graph = sum_query(3, 2)
    for _ in range(10):
        assert leakage_bound(graph, 0.6, rng.dirichlet(np.ones(7))) <= leakage_capacity(graph, 0.6) + EXACT


# --- Refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "broken"),
    [
        ([0.5, 0.5], "workload.prior-shape"),
        (0.25, "workload.prior-shape"),
        (["a", "b", "c"], "workload.prior-shape"),
        ([[0.2], [0.3]], "workload.prior-shape"),
        ([0.5, 0.6, -0.1], "workload.prior-not-probabilities"),
        ([0.5, math.nan, 0.5], "workload.prior-not-probabilities"),
        ([0.5, 0.5, 0.1], "workload.prior-sum"),
        ([0.5, 0.5, 1e-6], "workload.prior-sum"),
        ([0, 0, 0], "workload.prior-sum"),
    ],
)
def test_what_is_no_prior_is_refused(prior, broken):
    for use in (regularity, hit_bound, nearest_regular, leakage_bound, regular_leakage_bound):
        with refused(broken):
            use(path(3), 1.0, prior)


def test_a_prior_in_fractions_is_taken():
    thirds = checked_prior(3, [Fraction(1, 3)] * 3)
    assert thirds.tolist() == [1 / 3] * 3
    with pytest.raises(ValueError, match="read-only"):
        thirds[0] = 1


@pytest.mark.parametrize("use", [corner_priors, leakage_capacity])
def test_epsilon_is_checked_everywhere(use):
    with refused("workload.epsilon-out-of-range"):
        use(path(3), 0)


def test_graphs_too_large_for_a_matrix_are_refused():
    with refused("plan.too-many-results-for-matrix"):
        hit_bound(path(5000), 1.0, np.full(5000, 1 / 5000))
    with refused("plan.too-many-results-for-matrix"):
        nearest_regular(path(1100), 1.0, np.full(1100, 1 / 1100))


def test_a_shortfall_needs_arrays_that_fit():
    with refused("workload.shortfall-lengths"):
        shortfall(path(3), 1.0, [1, 2], [1, 2, 3])


@pytest.mark.parametrize(("people", "values"), [(0, 4), (True, 4), (2.0, 4), (5, 1), (5, "4")])
def test_tables_need_people_and_values(people, values):
    with refused("workload.not-a-whole-number"):
        database_leakage_bound(people, values, 1.0)


def test_proposition_6_on_the_border_is_left_open():
    corner = corner_priors(path(5), 0.5)[2]
    assert regularity(path(5), 0.5, corner).regular is None
    with refused("plan.prior-not-regular"):
        regular_leakage_bound(path(5), 0.5, corner)
