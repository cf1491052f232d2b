"""Strategies of the matrix mechanism: what the paper says in numbers, closed forms against brute force, and laws."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats

import fitnoise as fn
from fitnoise.algebra import operators as op
from fitnoise.mechanisms.laplace.hierarchies import covariances, height, hierarchy
from fitnoise_lab import gallery, strategies
from refused import refused
from tolerances import EXACT, LOOSE, SIGNIFICANCE

NAMES = ("I", "H", "Y")
WORKED = (4, 8, 16, 64, 256, 1024)


def strategy(name, n):
    return {"I": strategies.identity, "H": hierarchy, "Y": strategies.haar}[name](n)


def ranges(n):
    """All of them, a row each."""
    cells = np.arange(n)
    return np.array([(i <= cells) & (cells <= j) for i in range(n) for j in range(i, n)], dtype=np.int64)


def predicates(n):
    return np.array(list(itertools.product((0, 1), repeat=n)))


# --- the strategies of Figures 1 to 4 ------------------------------------------------------------------------------


def test_figure_1():
    assert strategies.identity(4).tolist() == np.eye(4).tolist()
    assert hierarchy(4).tolist() == [[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1], *np.eye(4).tolist()]
    assert strategies.haar(4).tolist() == [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]
    for matrix in (strategy(name, 8) for name in NAMES):
        assert matrix.dtype == np.int64


def test_figure_2_reconstruction_exactly():
    h = [[3, 5, -2, 13, -8, -1, -1], [3, 5, -2, -8, 13, -1, -1], [3, -2, 5, -1, -1, 13, -8], [3, -2, 5, -1, -1, -8, 13]]
    np.testing.assert_allclose(21 * strategies.reconstruction(hierarchy(4)), h, atol=EXACT)
    y = [[0.25, 0.25, 0.5, 0], [0.25, 0.25, -0.5, 0], [0.25, -0.25, 0, 0.5], [0.25, -0.25, 0, -0.5]]
    np.testing.assert_allclose(strategies.reconstruction(strategies.haar(4)), y, atol=EXACT)
    # In whole numbers: AᵀA B = 21 Aᵀ for B = 21 A⁺.
    a = hierarchy(4)
    assert (a.T @ a @ np.array(h) == 21 * a.T).all()
    assert ((4 * np.array(y)).astype(int) @ strategies.haar(4) == 4 * np.eye(4)).all()


def test_figure_3_profiles_exactly():
    h = np.array([[13, -8, -1, -1], [-8, 13, -1, -1], [-1, -1, 13, -8], [-1, -1, -8, 13]])
    y = np.array([[3, -1, 0, 0], [-1, 3, 0, 0], [0, 0, 3, -1], [0, 0, -1, 3]])
    assert (strategies.profile(hierarchy(4)) @ h == 21 * np.eye(4)).all()
    assert (strategies.profile(strategies.haar(4)) @ y == 8 * np.eye(4)).all()
    assert strategies.profile(strategies.haar(4)).dtype == np.int64


ROOT = math.sqrt
FIGURE_4 = {
    "H": np.array([[-ROOT(7) / 2] * 4, [ROOT(3) / 2] * 2 + [-ROOT(3) / 2] * 2, [-ROOT(0.5), ROOT(0.5), 0, 0],
                   [0, 0, -ROOT(0.5), ROOT(0.5)]]),
    "Y": np.kron(np.eye(2), [[ROOT(3), 1 / ROOT(3)], [0, ROOT(8 / 3)]]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected", "printed"), [("H", 2.896008, 2.896), ("Y", 2.210343, 2.210)])
def test_figure_4_is_profile_equivalent_and_less_sensitive(name, expected, printed):
    better = FIGURE_4[name]
    assert strategies.profile_equivalent(better, strategy(name, 4))
    assert strategies.sensitivity(better) == pytest.approx(expected, abs=5e-7)
    assert round(strategies.sensitivity(better), 3) == printed
    assert not strategies.profile_equivalent(FIGURE_4["H"], FIGURE_4["Y"])


@pytest.mark.parametrize(
    ("matrix", "cell", "total", "all_ranges", "prefixes", "all_predicates"),
    [
        (strategies.identity(4), 2, 8, 40, 20, 64),
        (hierarchy(4), 11.142857, 10.285714, 125.142857, 46.285714, 219.428571),
        (strategies.haar(4), 6.75, 18, 108, 49.5, 180),
        (FIGURE_4["H"], 10.383733, 9.584984, 116.617311, 43.132430, 204.479669),
        (FIGURE_4["Y"], 3.664214, 9.771236, 58.627417, 26.870899, 97.712362),
    ],
    ids=["I", "H", "Y", "H'", "Y'"],
)
def test_errors_of_the_examples(matrix, cell, total, all_ranges, prefixes, all_predicates):
    tolerance = {"abs": 6e-7}
    assert strategies.query_error(matrix, [1, 0, 0, 0]) == pytest.approx(cell, **tolerance)
    assert strategies.query_error(matrix, [1, 1, 1, 1]) == pytest.approx(total, **tolerance)
    assert strategies.total_error(matrix, ranges(4)) == pytest.approx(all_ranges, **tolerance)
    assert strategies.total_error(matrix, gram=strategies.all_ranges_gram(4)) == pytest.approx(all_ranges, **tolerance)
    assert strategies.range_errors(matrix).total == pytest.approx(all_ranges, **tolerance)
    assert strategies.total_error(matrix, op.Prefix(4)) == pytest.approx(prefixes, **tolerance)
    assert strategies.total_error(matrix, predicates(4)) == pytest.approx(all_predicates, **tolerance)
    assert float(strategies.predicate_errors(matrix).total) == pytest.approx(all_predicates, **tolerance)
    assert strategies.total_error(matrix, ranges(4), epsilon=0.5) == pytest.approx(4 * all_ranges, abs=6e-6)


@pytest.mark.parametrize("name", ["H", "Y"])
def test_proposition_4_4_by_simulation(name, rng):
    """200,000 draws of all ten ranges: variances are those of the formula, the answers unbiased.

    The draws have excess kurtosis at most 3, that of one Laplace variable. A variance of k such draws has a relative
    standard error of at most √((3 + 2)/k). Ten ranges and two statistics share the significance.
    """
    draws, a, w = 200_000, strategy(name, 4), ranges(4)
    errors = strategies.query_errors(a, w)
    scale = strategies.sensitivity(a)
    noise = rng.laplace(0.0, scale, size=(draws, len(a))) @ strategies.reconstruction(a).T @ w.T
    z = stats.norm.isf(SIGNIFICANCE / 2 / 20)
    assert (np.abs(noise.var(axis=0) / errors - 1) < z * math.sqrt(5 / draws)).all()
    assert (np.abs(noise.mean(axis=0)) < z * np.sqrt(errors / draws)).all()


# --- trees ---------------------------------------------------------------------------------------------------------


def test_a_tree_has_every_node_once():
    assert hierarchy(5, 3).tolist() == [[1] * 5, [1, 1, 1, 0, 0], [0, 0, 0, 1, 1], *np.eye(5).tolist()]
    assert hierarchy(1, 2).tolist() == [[1]]
    for n, b in ((64, 8), (64, 2), (100, 7)):
        nodes = hierarchy(n, b)
        assert (nodes.sum(axis=0) == height(n, b) + 1).all()
        assert (np.abs(np.diff(nodes, axis=1, prepend=0, append=0)).sum(axis=1) == 2).all()
    assert len(hierarchy(64)) == 127


@pytest.mark.parametrize(("n", "b"), [(3, 2), (5, 3), (7, 8), (8, 2), (30, 3), (64, 8), (100, 7)])
def test_covariances_of_trees_are_those_of_their_nodes(n, b):
    nodes = hierarchy(n, b)
    for a, c in zip((nodes[1:], nodes), covariances(n, b), strict=True):
        np.testing.assert_allclose(c @ (a.T @ a), np.eye(n), atol=EXACT)


def test_branching_factors():
    """For Laplace noise those of the rule as it is published; Gaussian noise favours deeper trees."""
    sizes = (64, 128, 256, 512, 1024)
    assert [strategies.branching_factor(n, laplace=True) for n in sizes] == [64, 128, 16, 23, 32]
    assert [strategies.branching_factor(n) for n in (1, 2, 16, 64, 128)] == [2, 2, 16, 8, 12]
    small = range(2, 300)
    assert all(strategies.branching_factor(n) <= strategies.branching_factor(n, laplace=True) for n in small)


def test_level_weights_multiply_levels():
    matrix = strategies.weighted_hierarchy(4, 2, [0.5, 0, 2])
    np.testing.assert_array_equal(matrix, np.concatenate([np.full((1, 4), 0.5), 2 * np.eye(4)]))
    assert strategies.sensitivity(strategies.weighted_hierarchy(7, 3, [1, 2, 4])) == 7


def prefix_gram(n):
    return strategies.profile(op.Prefix(n))


GRAMS = {"prefix": prefix_gram, "ranges": strategies.all_ranges_gram}
OPTIMA = {
    ("prefix", 16): 91.330714,
    ("prefix", 64): 564.402842,
    ("prefix", 256): 3262.806089,
    ("ranges", 16): 826.280434,
    ("ranges", 64): 22048.763007,
    ("ranges", 256): 553858.616883,
}
"""Twice the optimum of the L2 approximation, certified: no strategy has a smaller total error."""


@pytest.mark.parametrize(
    ("name", "n", "binary", "wavelet", "equal", "weighted"),
    [
        ("prefix", 16, 6.58, 6.60, 2.803, 2.723),
        ("prefix", 64, 10.06, 9.97, 3.873, 3.872),
        ("prefix", 256, 13.59, 13.44, 5.527, 5.440),
        ("ranges", 64, 12.00, 9.65, 3.497, 3.368),
        ("ranges", 256, 15.73, 13.13, 4.706, 4.682),
    ],
)
def test_the_best_tree(name, n, binary, wavelet, equal, weighted):
    """H_2 and Y as multiples of the least error, exactly; the best trees at most 1e-3 above what was known before."""
    g, optimum = GRAMS[name](n), OPTIMA[name, n]
    assert strategies.total_error(hierarchy(n), gram=g) / optimum == pytest.approx(binary, abs=0.006)
    assert strategies.total_error(strategies.haar(n), gram=g) / optimum == pytest.approx(wavelet, abs=0.006)
    best = strategies.best_tree(gram=g)
    assert best.total_error == pytest.approx(strategies.total_error(best.matrix, gram=g), rel=EXACT)
    assert 1 < best.total_error / optimum < equal + 1e-3
    assert best.matrix.dtype == np.int64
    tree = min((strategies.weighted_tree(gram=g, branching=b) for b in range(2, 20)), key=lambda t: t.total_error)
    assert tree.total_error == pytest.approx(strategies.total_error(tree.matrix, gram=g), rel=EXACT)
    assert 1 < tree.total_error / optimum < weighted + 1e-3
    assert tree.total_error <= best.total_error * (1 + EXACT)


def test_the_best_tree_may_leave_out_its_root():
    assert strategies.best_tree(gram=strategies.all_ranges_gram(64)).weights == (0, 1, 1)
    tree = strategies.best_tree(np.concatenate([np.eye(9), 30 * np.ones((1, 9))]))
    assert (tree.branching, tree.weights) == (9, (1, 1))
    assert strategies.best_tree(np.eye(1)).matrix.tolist() == [[1]]


@settings(max_examples=60)
@given(n=some.integers(1, 23), b=some.integers(2, 9), data=some.data())
def test_tree_errors_by_sums_over_nodes_are_those_of_the_matrix(n, b, data):
    """For any last nodes, weights and workload; also for weights of 0."""
    levels = height(n, b) + 1
    above = data.draw(some.lists(some.sampled_from([0.0, 0.3, 1.0, 2.5]), min_size=levels - 1, max_size=levels - 1))
    weights = np.array([*above, 1.25])
    half = np.random.default_rng(data.draw(some.integers(0, 99))).normal(size=(3, n))
    cost = strategies._NodeSums(half.T @ half, b).cost(weights)
    matrix = strategies.weighted_hierarchy(n, b, weights)
    assert 2 * cost == pytest.approx(strategies.total_error(matrix, half), rel=1e-8)


# --- sensitivity -----------------------------------------------------------------------------------------------------


def test_sensitivities_of_section_6():
    """1, log n + 1 and log n + 1; in norm 2, 1 and √(log n + 1); exact whole numbers."""
    for k in range(1, 8):
        for name in ("H", "Y"):
            sensitivity = strategies.sensitivity(strategy(name, 2**k))
            assert sensitivity == k + 1
            assert isinstance(sensitivity, int)
            assert strategies.sensitivity(strategy(name, 2**k), 2) == math.sqrt(k + 1)
        assert strategies.sensitivity(strategies.identity(2**k)) == 1


def test_sensitivities_of_the_workloads_of_section_6_2():
    """⌊(n + 1)²/4⌋ for all ranges, 2^(n − 1) for all 0-1 queries."""
    for n in range(1, 9):
        assert strategies.sensitivity(ranges(n)) == (n + 1) ** 2 // 4
        assert strategies.sensitivity(predicates(n)) == 2 ** (n - 1)


def test_replacing_one_is_computed_not_doubled():
    """Rows that all cells share are free: the total of a tree, two columns of which differ in all other levels."""
    for n in (2, 4, 16):
        k = int(math.log2(n))
        assert strategies.sensitivity(hierarchy(n), neighbours="replace-one") == 2 * k
        assert strategies.sensitivity(strategies.identity(n), neighbours=fn.Neighbours.REPLACE_ONE) == 2
        assert strategies.sensitivity(np.ones((3, n), dtype=int), neighbours="replace-one") == 0
    assert strategies.sensitivity(strategies.identity(5), 2, "replace-one") == math.sqrt(2)
    assert strategies.sensitivity(strategies.haar(8), neighbours="replace-one") == 6
    assert strategies.sensitivity([[3]], neighbours="replace-one") == 0


matrices = some.tuples(some.integers(1, 6), some.integers(1, 6), some.integers(0, 999)).map(
    lambda t: np.random.default_rng(t[2]).integers(-9, 10, size=t[:2])
)


@given(matrices)
def test_sensitivity_by_its_definition(a):
    columns = a.T.tolist()
    pairs = list(itertools.combinations(columns, 2)) or [(columns[0], columns[0])]
    one = max(sum(abs(x) for x in c) for c in columns)
    two = max(sum(abs(x - y) for x, y in zip(*p, strict=True)) for p in pairs)
    assert strategies.sensitivity(a) == one
    assert strategies.sensitivity(a, neighbours="replace-one") == two <= 2 * one
    assert strategies.sensitivity(a, 2) == math.sqrt(max(sum(x * x for x in c) for c in columns))
    assert strategies.sensitivity(a / 4) == one / 4


def test_sensitivity_of_large_integers_is_exact():
    huge = 2**53 - 1
    assert strategies.sensitivity(np.full((3000, 2), huge)) == 3000 * huge
    assert strategies.sensitivity([[huge, -huge]], neighbours="replace-one") == 2 * huge
    assert strategies.sensitivity([[huge, 0]], 2) == huge


# --- what can be answered ------------------------------------------------------------------------------------------


def test_what_a_deficient_strategy_cannot_answer_is_an_error():
    a = [[1, 1, 0], [0, 0, 1]]
    assert strategies.query_error(a, [2, 2, 5]) == pytest.approx(2 * (4 + 25), rel=EXACT)
    assert strategies.total_error(a, [[1, 1, 0], [1, 1, 1]]) == pytest.approx(2 * (1 + 2), rel=EXACT)
    with refused("workload.query-outside-row-space"):
        strategies.query_errors(a, [[1, 1, 0], [1, 0, 0]])
    with refused("workload.query-outside-row-space"):
        strategies.total_error(a, [[1, 1, 0], [1, 0, 0]])
    for all_errors in (strategies.range_errors, strategies.predicate_errors):
        with refused("workload.query-outside-row-space"):
            all_errors(a)
    with refused("workload.query-outside-row-space"):
        strategies.maximum_predicate_error([[1, 1]])


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda: strategies.identity(0), "workload.not-a-whole-number"),
        (lambda: strategies.identity(True), "workload.not-a-whole-number"),
        (lambda: hierarchy(4, 1), "workload.not-a-whole-number"),
        (lambda: strategies.haar(6), "workload.cells-not-power-of-two"),
        (lambda: strategies.weighted_hierarchy(4, 2, [1, 1]), "workload.level-weights"),
        (lambda: strategies.weighted_hierarchy(4, 2, [0, 0, 0]), "workload.level-weights"),
        (lambda: strategies.sensitivity([[1]], 3), "workload.sensitivity-norm"),
        (lambda: strategies.sensitivity([[1]], neighbours="both"), "workload.sensitivity-neighbours"),
        (lambda: strategies.sensitivity([[np.nan]]), "workload.matrix-not-finite"),
        (lambda: strategies.profile_equivalent([[1]], [[1, 2]]), "workload.strategies-of-different-cells"),
        (lambda: strategies.query_error([[1]], [[1]]), "workload.query-shape"),
        (lambda: strategies.query_error([[1]], [1], epsilon=0), "workload.not-a-positive-number"),
        (lambda: strategies.query_errors([[1]], [[1, 2]]), ("workload.query-cells", "workload.workload-cells")),
        (lambda: strategies.query_errors([[0]], [[1]]), "workload.strategy-of-zeros"),
        (lambda: strategies.total_error([[1]]), "workload.workload-or-gram"),
        (lambda: strategies.total_error([[1]], [[1]], gram=[[1]]), "workload.workload-or-gram"),
        (lambda: strategies.total_error([[1]], gram=[[1, 2]]), "workload.profile-not-symmetric"),
        (lambda: strategies.total_error([[1]], gram=np.eye(2)), ("workload.query-cells", "workload.workload-cells")),
        (lambda: strategies.maximum_predicate_error([[1, 0], [1, 2]]), "workload.profile-not-haar"),
        (lambda: strategies.best_tree([[1]], branchings=[]), "workload.no-branching"),
        (lambda: strategies.spectrum([[1, 0], [0, -1]]), "workload.profile-negative"),
        (lambda: strategies.spectrum(np.eye(2)).strategy(np.eye(1)), "workload.rotation-not-orthogonal"),
        (lambda: strategies.spectrum(np.eye(2)).strategy(np.ones((2, 2))), "workload.rotation-not-orthogonal"),
        (lambda: strategies.coarse_root(np.eye(4), 3), "workload.coarse-levels"),
        (lambda: strategies.coarse_root(np.diag([1, 2, 3, 4])), "workload.profile-not-haar"),
        (lambda: strategies.equal_noise(np.eye(2), [1, 0]), "workload.row-scales"),
    ],
)
def test_wrong_arguments_are_refused(wrong, code):
    with refused(code):
        wrong()


# --- section 6: geometry and Theorems 6.29 and 6.30 ------------------------------------------------------------------


@pytest.mark.parametrize("k", range(1, 8))
def test_table_1(k):
    """Eigenvalues 2^j − 1 and 2^j, each 2^(k − j) times, and 2^(k + 1) − 1 and 2^k once: in whole numbers."""
    n = 2**k
    rows = strategies.haar(n)
    squares = (rows**2).sum(axis=1)
    for name, less, top in (("H", 1, 2 ** (k + 1) - 1), ("Y", 0, 2**k)):
        turned = rows @ strategies.profile(strategy(name, n)) @ rows.T
        assert (turned == np.diag(turned.diagonal())).all()
        values = turned.diagonal() // squares
        assert (values * squares == turned.diagonal()).all()
        assert values[0] == top
        assert sorted(values[1:]) == sorted(2**j - less for j in range(1, k + 1) for _ in range(2 ** (k - j)))
        np.testing.assert_allclose(
            strategies.spectrum(strategies.profile(strategy(name, n))).values, sorted(values), rtol=EXACT
        )


@pytest.mark.parametrize("k", [2, 4, 6])
def test_theorem_6_29(k):
    """The error of H over that of Y lies in [n/(2n − 1), 2]: the extreme ratios of eigenvalues, both attained."""
    n = 2**k
    values = {name: strategies._haar_values(strategies.profile(strategy(name, n))) for name in ("H", "Y")}
    ratios = values["Y"] / values["H"]
    assert (ratios.min(), ratios.max()) == (pytest.approx(n / (2 * n - 1)), pytest.approx(2))
    queries = np.random.default_rng(k).normal(size=(200, n))
    quotients = strategies.query_errors(strategy("H", n), queries) / strategies.query_errors(strategy("Y", n), queries)
    assert n / (2 * n - 1) < quotients.min() < quotients.max() < 2


THEOREM_6_30 = {
    4: ((20.571429, 18), (125.142857, 108), (20.571429, 18), (13.714286, 11.25)),
    8: ((46.933333, 38), (938.666667, 748), (68.266667, 40), (43.276190, 30)),
    16: ((84.485407, 71.09375), (6576.098310, 5140.625), (206.451613, 112.5), (127.926267, 79.6875)),
    64: ((211.425959, 182.505859), (264672.151542, 212673.78125), (1580.346457, 808.5), (963.708904, 547.421875)),
    256: (
        (422.420898, 373.547241),
        (8710212.937454, 7274362.570312),
        (10388.289628, 5224.5),
        (6310.531402, 3496.605469),
    ),
    1024: (
        (738.921359, 665.517540),
        (250092684.301330, 215321146.970703),
        (61982.264778, 31036.5),
        (37616.252713, 20711.206055),
    ),
}
"""Values by n: maximum and total over ranges, maximum and mean over 0-1 queries, each for H and Y."""


@pytest.mark.parametrize("n", [4, 8, 16, 64, 256, pytest.param(1024, marks=pytest.mark.slow)])
def test_theorem_6_30(n):
    """Errors known beforehand for H and Y; closed forms for I."""
    for position, name in enumerate(("H", "Y")):
        matrix, expected = strategy(name, n), [pair[position] for pair in THEOREM_6_30[n]]
        errors = strategies.range_errors(matrix)
        mean = strategies.predicate_errors(matrix).mean
        largest = strategies.maximum_predicate_error(matrix)
        np.testing.assert_allclose([errors.maximum, errors.total, largest, mean], expected, rtol=1e-7)
        i, j = errors.worst
        cells = np.arange(n)
        assert strategies.query_error(matrix, (i <= cells) & (cells < j)) == pytest.approx(errors.maximum, rel=LOOSE)
        if name == "H" or n >= 8:
            assert strategies.query_error(matrix, np.arange(n) % 2) == pytest.approx(largest, rel=LOOSE)
    unit = strategies.identity(n)
    errors = strategies.range_errors(unit)
    assert (errors.maximum, errors.total) == (pytest.approx(2 * n), pytest.approx(n * (n + 1) * (n + 2) / 3))
    assert strategies.maximum_predicate_error(unit) == pytest.approx(2 * n)
    assert strategies.predicate_errors(unit).total == n * 2**n


def test_the_growth_of_theorem_6_30_is_no_constant_yet():
    """Maximum range error over log³ n: 2.57 for n = 4 falls to 0.66 for 256 and 0.74 for 1024 (H), and so for Y."""
    for position in (0, 1):
        ratios = [THEOREM_6_30[n][0][position] / math.log2(n) ** 3 for n in WORKED]
        assert ratios == sorted(ratios, reverse=True)
        assert ratios[0] > 3 * ratios[-1]


def test_the_worst_range_is_not_the_printed_one():
    """Appendix F.2: centred at the middle; for n = 16 the printed family has 64.84, the maximum is 71.09."""
    for n, printed, maximum in ((16, 64.84, 71.09), (256, None, 373.547241)):
        k = int(math.log2(n))
        width = (4 ** ((k - 1) // 2 + 1) - 1) // 3
        cells, middle = np.arange(n), n // 2
        around = [
            strategies.query_error(strategies.haar(n), (middle - width + a <= cells) & (cells < middle + width + b))
            for a in (-1, 0, 1)
            for b in (-1, 0, 1)
        ]
        assert strategies.range_errors(strategies.haar(n)).maximum == pytest.approx(maximum, abs=0.005)
        assert max(around) < 0.99 * maximum
        if printed:
            assert min(abs(x - printed) for x in around) < 0.005


@pytest.mark.parametrize("n", [4, 8])
@pytest.mark.parametrize("name", NAMES)
def test_closed_forms_by_brute_force(name, n):
    matrix = strategy(name, n)
    all_ranges, all_predicates = (strategies.query_errors(matrix, w) for w in (ranges(n), predicates(n)))
    errors = strategies.range_errors(matrix)
    assert (errors.maximum, errors.total) == (pytest.approx(all_ranges.max()), pytest.approx(all_ranges.sum()))
    assert strategies.maximum_predicate_error(matrix) == pytest.approx(all_predicates.max(), rel=EXACT)
    assert strategies.predicate_errors(matrix).mean == pytest.approx(all_predicates.mean(), rel=EXACT)
    assert float(strategies.predicate_errors(matrix).total) == pytest.approx(all_predicates.sum(), rel=EXACT)


def test_closed_forms_of_other_strategies_by_brute_force(rng):
    """Any of full rank for ranges and totals; for the maximum any tree of powers of 2, with any weights."""
    a = rng.normal(size=(9, 6))
    assert strategies.range_errors(a).maximum == pytest.approx(strategies.query_errors(a, ranges(6)).max(), rel=LOOSE)
    assert strategies.predicate_errors(a).mean == pytest.approx(
        strategies.query_errors(a, predicates(6)).mean(), rel=LOOSE
    )
    unequal = rng.uniform(0.5, 2, size=8)[:, None] * strategies.haar(8)
    for matrix in (hierarchy(16, 4), strategies.weighted_hierarchy(8, 2, [2, 0, 1, 0.5]), unequal):
        brute = strategies.query_errors(matrix, predicates(matrix.shape[1])).max()
        assert strategies.maximum_predicate_error(matrix) == pytest.approx(brute, rel=LOOSE)


def test_who_wins_where_in_section_6_2():
    """The identity beats both on all ranges up to n = 256; H beats Y only on ranges of more than about 0.85 n cells."""
    for n in (4, 16, 64, 256):
        unit = strategies.range_errors(strategies.identity(n)).total
        assert unit < min(THEOREM_6_30[n][1])
    assert max(THEOREM_6_30[1024][1]) < strategies.range_errors(strategies.identity(1024)).total
    n = 256
    cells = np.arange(n)
    for length, better in ((1, "Y"), (n // 2, "Y"), (3 * n // 4, "Y"), (n, "H")):
        w = [(i <= cells) & (cells < i + length) for i in range(n - length + 1)]
        errors = {name: strategies.query_errors(strategy(name, n), w).mean() for name in ("H", "Y")}
        assert min(errors, key=errors.get) == better


# --- rotations and roots ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [4, 7, 9])
def test_theorem_4_13(m, rng):
    """Any rotation of any size has the profile, and a sensitivity of its own."""
    g = strategies.profile(hierarchy(4))
    spectrum = strategies.spectrum(g)
    sensitivities = set()
    for _ in range(3):
        q = np.linalg.qr(rng.normal(size=(m, m)))[0]
        matrix = spectrum.strategy(q)
        assert matrix.shape == (m, 4)
        assert strategies.profile_equivalent(matrix, hierarchy(4))
        sensitivities.add(strategies.sensitivity(matrix))
    assert len(sensitivities) == 3
    assert min(sensitivities) >= strategies.sensitivity(hierarchy(4), 2)
    assert strategies.profile_equivalent(spectrum.strategy(), hierarchy(4))


@pytest.mark.parametrize("k", range(1, 9))
def test_closed_forms_of_low_sensitivity(k):
    n = 2**k
    profiles = {name: strategies.profile(strategy(name, n)) for name in ("H", "Y")}
    for r in range(k + 1):
        roots = {name: strategies.coarse_root(g, r) for name, g in profiles.items()}
        for name, a in roots.items():
            assert a.shape == (n, n)
            assert np.abs(a.T @ a - profiles[name]).max() < EXACT * n
        expected = sum(math.sqrt(1 - 2.0**-j) for j in range(1, k - r + 1)) + math.sqrt(2.0 ** (r + 1) - 2.0 ** (r - k))
        assert strategies.sensitivity(roots["H"]) == pytest.approx(expected, rel=EXACT)
        assert strategies.sensitivity(roots["Y"]) == pytest.approx(k - r + 2 ** (r / 2) if r else k + 1, rel=EXACT)


@pytest.mark.parametrize(
    ("name", "n", "r", "value"),
    [
        ("H", 4, 0, 2.896008),
        ("H", 8, 0, 3.877853),
        ("H", 16, 0, 4.868733),
        ("H", 64, 0, 6.861879),
        ("H", 256, 0, 8.860163),
        ("H", 8, 2, 3.445720),
        ("H", 16, 2, 4.357014),
        ("H", 64, 2, 6.294149),
        ("H", 256, 2, 8.278864),
        ("H", 16, 3, 4.644111),
        ("Y", 8, 3, 2.828427),
        ("Y", 16, 3, 3.828427),
        ("Y", 64, 3, 5.828427),
        ("Y", 4, 1, 2.414214),
        ("H", 4, 1, 2.577935),
    ],
)
def test_values_of_the_closed_forms(name, n, r, value):
    matrix = strategies.coarse_root(strategies.profile(strategy(name, n)), r)
    assert strategies.sensitivity(matrix) == pytest.approx(value, abs=6e-7)


def test_log_n_plus_2_root_2_minus_4_cannot_be():
    """Section 6.1: for n = 8 it is below the L2 norm, under which no strategy of the profile goes; −3 is attained."""
    norm = strategies.sensitivity(strategies.haar(8), 2)
    assert 3 + 2 * math.sqrt(2) - 4 < norm
    matrix = strategies.coarse_root(strategies.profile(strategies.haar(8)), 3)
    assert norm < strategies.sensitivity(matrix) == pytest.approx(3 + 2 * math.sqrt(2) - 3, rel=EXACT)


def test_the_decomposition_of_h_costs_log_n_plus_0_86():
    """Section 6.1 says 0.64; that much is possible (r = 2 tends to 0.274), but not by the decomposition."""
    excess = [strategies.sensitivity(strategies.coarse_root(strategies.profile(hierarchy(2**k)), 0)) - k
            for k in range(3, 9)]  # fmt: skip
    assert excess[0] == pytest.approx(0.877853, abs=6e-7)
    assert excess == sorted(excess, reverse=True)
    assert excess[-1] > 0.8596
    # The difference to log n + 1 is k + 1 − Σ√(1 − 2^−j) − √(2 − 2^−k), 0.06815 at k = 1, not as printed.
    assert 2 - strategies.sensitivity(strategies.coarse_root(strategies.profile(hierarchy(2)), 0)) == (
        pytest.approx(0.06815, abs=5e-6)
    )


# --- Appendices A and E, Theorem 5.27 ---------------------------------------------------------------------------------


def test_the_haar_wavelet_as_published_is_y():
    """Proposition E.43: averages with noise of scale (1 + log n)/(ε width) are Y_n with equal noise, exactly."""
    for n in (2, 8, 64):
        y = strategies.haar(n)
        widths = np.abs(y).sum(axis=1)
        published = y / widths[:, None]
        assert (strategies.equal_noise(published, 1 / widths) == y).all()
        assert strategies.sensitivity(strategies.equal_noise(published, (1 + math.log2(n)) / widths)) == (
            pytest.approx(1, rel=EXACT)
        )


def regular(rng, m=7, n=4):
    """Well conditioned: errors agree to rounding."""
    q = np.linalg.qr(rng.normal(size=(m, n)))[0]
    return q * rng.uniform(0.5, 2, size=n)


seeds = some.integers(0, 10_000).map(np.random.default_rng)


@given(seeds, some.floats(1e-3, 1e3), some.sampled_from([-1, 1]))
def test_scaling_changes_no_error(rng, k, sign):
    """Proposition A.31."""
    a, w = regular(rng), rng.normal(size=(5, 4))
    np.testing.assert_allclose(strategies.query_errors(sign * k * a, w), strategies.query_errors(a, w), rtol=LOOSE)


@given(seeds)
def test_profile_equivalent_strategies_differ_only_by_sensitivity(rng):
    a, w = regular(rng), rng.normal(size=(5, 4))
    b = np.linalg.qr(rng.normal(size=(7, 7)))[0] @ a
    assert strategies.profile_equivalent(a, b)
    assert not strategies.profile_equivalent(a, 2 * b)
    one, other = strategies.sensitivity(a) ** 2, strategies.sensitivity(b) ** 2
    np.testing.assert_allclose(strategies.query_errors(a, w) / one, strategies.query_errors(b, w) / other, rtol=LOOSE)


@given(seeds)
def test_unequal_noise_is_equal_noise_on_scaled_rows(rng):
    """Proposition A.33: the same least squares, the requested noise, and ε as the sensitivity."""
    a, b = regular(rng), rng.uniform(0.5, 3, size=7)
    matrix = strategies.equal_noise(a, b)
    assert strategies.sensitivity(matrix) == pytest.approx((np.abs(a) / b[:, None]).sum(axis=0).max())
    weights = np.diag(1 / b**2)
    covariance = np.linalg.inv(a.T @ weights @ a)
    w = rng.normal(size=4)
    spent = strategies.sensitivity(matrix)
    assert strategies.query_error(matrix, w, epsilon=spent) == pytest.approx(2 * w @ covariance @ w, rel=LOOSE)


@given(seeds)
def test_a_repeated_query_is_one_of_weight_two(rng):
    a, w = regular(rng), rng.normal(size=(5, 4))
    twice = np.concatenate([w, w[:1]])
    weighted = w * np.array([ROOT(2), 1, 1, 1, 1])[:, None]
    assert strategies.total_error(a, twice) == pytest.approx(strategies.total_error(a, weighted), rel=EXACT)
    assert strategies.total_error(a, twice) == pytest.approx(strategies.query_errors(a, twice).sum(), rel=LOOSE)


@given(seeds)
def test_augmentation_never_hurts_and_is_free(rng):
    """Theorem 5.27, and section 5.3: all columns get the same norm."""
    a, w = regular(rng), rng.normal(size=(20, 4))
    matrix = strategies.augment(a)
    assert strategies.sensitivity(matrix) == pytest.approx(strategies.sensitivity(a), rel=EXACT)
    np.testing.assert_allclose(np.abs(matrix).sum(axis=0), strategies.sensitivity(a), rtol=EXACT)
    assert (strategies.query_errors(matrix, w) <= strategies.query_errors(a, w) * (1 + EXACT)).all()
    assert len(strategies.augment(matrix)) == len(matrix)


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_more_rows_never_hurt_and_help_all_but_some(rows, rng):
    """Theorem 5.27: M(A) − M([A; B]) ⪰ 0, and exactly the queries AᵀA w with B w = 0 keep their error."""
    a, b = hierarchy(8), rng.normal(size=(rows, 8))
    before, after = (strategies._inverse(np.asarray(x)) for x in (a, np.concatenate([a, b])))
    assert np.linalg.eigvalsh(before - after).min() > -EXACT
    invisible = np.linalg.svd(b)[2][rows:] @ (a.T @ a)
    np.testing.assert_allclose(
        ((invisible @ before) * invisible).sum(axis=1), ((invisible @ after) * invisible).sum(axis=1), rtol=EXACT
    )
    gone = b[:1] @ (a.T @ a)
    assert ((gone @ (before - after)) * gone).sum() > 0.01


def test_augmentation_of_integers_has_integers():
    assert strategies.augment([[1, 2], [0, -2]]).tolist() == [[1, 2], [0, -2], [3, 0]]
    for name in NAMES:
        assert strategies.augment(strategy(name, 8)).tolist() == strategy(name, 8).tolist()


# --- the singular value bound ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "n", "upper", "error", "optimum"),
    [
        ("prefix", 4, 51.291793, 49.197115, 13.748288),
        ("prefix", 8, 264.822175, 239.210452, 35.732355),
        ("prefix", 16, 1357.746588, 1144.897108, 91.330714),
        ("prefix", 64, 34096.106684, 24787.284201, 564.402842),
        ("ranges", 4, 130.497943, 121.820936, 32.881775),
        ("ranges", 8, 1266.757427, 1069.719892, 160.928530),
        ("ranges", 16, 12943.453797, 9955.442469, 826.280434),
        ("ranges", 64, 1380755.240248, 871383.251110, 22048.763007),
    ],
)
def test_singular_value_bound(name, n, upper, error, optimum):
    """Theorems 5.25 and 5.26: error ≤ upper = n · lower, and lower ≤ the L2 optimum ≤ every error."""
    g = GRAMS[name](n)
    bound = strategies.singular_value_bound(gram=g)
    assert bound.upper == pytest.approx(upper, rel=2e-8)
    assert strategies.total_error(bound.strategy, gram=g) == pytest.approx(error, rel=2e-8)
    assert error <= upper == pytest.approx(n * bound.lower, rel=1e-7)
    assert bound.lower <= optimum <= error
    if name == "prefix":
        direct = strategies.singular_value_bound(gallery.prefix(n))
        np.testing.assert_allclose(direct.values, bound.values, rtol=LOOSE)
        k = np.arange(n, 0, -1)
        np.testing.assert_allclose(direct.values, 1 / (2 * np.sin((2 * k - 1) * math.pi / (4 * n + 2))), rtol=EXACT)


@pytest.mark.parametrize(
    ("name", "error", "augmented"), [("prefix", 24787.284201, 16414), ("ranges", 871383.251110, 843163)]
)
def test_augmentation_of_the_singular_value_bound(name, error, augmented):
    g = GRAMS[name](64)
    matrix = strategies.augment(strategies.singular_value_bound(gram=g).strategy)
    error_found = strategies.total_error(matrix, gram=g)
    assert error_found < 0.97 * error
    assert error_found == pytest.approx(augmented, abs=0.6)


def test_theorem_5_23(rng):
    """The L1 radius of the ellipsoid of B is max over signs v of |Bᵀv|₂: √tr AᵀA at least, attained by D Pᵀ."""
    g = strategies.profile(hierarchy(4))
    signs = np.array(list(itertools.product((-1, 1), repeat=4)))

    def radius(b):
        return np.linalg.norm(signs @ b, axis=1).max()

    spectrum = strategies.spectrum(g)
    assert radius(spectrum.strategy()) == pytest.approx(3.464102, abs=6e-7) == math.sqrt(np.trace(g))
    for _ in range(200):
        turned = spectrum.strategy(np.linalg.qr(rng.normal(size=(4, 4)))[0])
        assert radius(turned) >= math.sqrt(12) * (1 - EXACT)
        assert strategies.sensitivity(turned) <= radius(turned) * (1 + EXACT)


@given(seeds)
def test_no_strategy_is_below_the_bound(rng):
    a, w = regular(rng), rng.normal(size=(5, 4))
    bound = strategies.singular_value_bound(w)
    for matrix in (a, bound.strategy, strategies.identity(4), hierarchy(4), strategies.haar(4)):
        assert strategies.total_error(matrix, w) >= bound.lower * (1 - EXACT)
    assert strategies.total_error(bound.strategy, w) <= bound.upper * (1 + EXACT)


def test_singular_value_bound_of_deficient_and_wide_workloads():
    bound = strategies.singular_value_bound([[1, 1, 1, 1], [1, 1, 0, 0]])
    assert bound.strategy.shape == (2, 4)
    assert (bound.values[:2] == 0).all()
    by_gram = strategies.singular_value_bound(gram=strategies.profile([[1, 1, 1, 1], [1, 1, 0, 0]]))
    assert by_gram.upper == pytest.approx(bound.upper, rel=LOOSE)
    assert strategies.total_error(bound.strategy, [[1, 1, 1, 1], [1, 1, 0, 0]]) <= bound.upper * (1 + EXACT)


def test_example_4_8():
    """Cells: 2 tr WᵀW. The workload for strategy: 2 n Δ², and its own noise without least squares 2 m Δ²."""
    w = ranges(4)
    assert strategies.total_error(strategies.identity(4), w) == pytest.approx(2 * (w**2).sum())
    assert strategies.total_error(w, w) == pytest.approx(2 * 4 * 6**2)


def test_totals_are_fractions_past_the_largest_float():
    total = strategies.PredicateErrors(1100, 1100.0).total
    assert isinstance(total, Fraction)
    assert total == 1100 * 2**1100
    assert strategies.predicate_errors(strategies.identity(6)).total == 6 * 2**6


def test_profile_equivalence_of_integers_is_exact():
    large = 2**26 * strategies.identity(3)
    nearly = large.copy()
    nearly[0, 0] += 1
    assert strategies.profile_equivalent(large, -large[::-1])
    assert not strategies.profile_equivalent(1000 * nearly, 1000 * large)


def test_operators_are_matrices():
    assert strategies.sensitivity(op.Prefix(5)) == 5
    assert (strategies.profile(op.Prefix(5)) == strategies.profile(gallery.prefix(5))).all()
    assert (strategies.all_ranges_gram(6) == strategies.profile(ranges(6))).all()


# --- steps of the paper's proofs -------------------------------------------------------------------------------------


def test_the_inverse_in_the_proof_of_program_5_1(rng):
    """[2I, −AW⁻¹; ·, W⁻ᵗAᵀAW⁻¹]⁻¹ has (2I − AA⁺)⁻¹ above, where W(2I − AA⁺)⁻¹Wᵗ is printed, and 2W(AᵀA)⁻¹Wᵗ below."""
    a, w = regular(rng, 7, 4), rng.normal(size=(4, 4)) + 3 * np.eye(4)
    w_inverse = np.linalg.inv(w)
    x = np.block([[2 * np.eye(7), -a @ w_inverse], [-(a @ w_inverse).T, w_inverse.T @ a.T @ a @ w_inverse]])
    inverse = np.linalg.inv(x)
    upper = np.linalg.inv(2 * np.eye(7) - a @ strategies.reconstruction(a))
    assert np.abs(inverse[:7, :7] - upper).max() < LOOSE
    assert np.abs(inverse[7:, 7:] - 2 * w @ np.linalg.inv(a.T @ a) @ w.T).max() < LOOSE


def test_the_ellipsoid_of_theorem_5_23(rng):
    """The columns of A = Q D Pᵗ satisfy xᵗ Q D⁻² Qᵗ x = 1; with Qᵗ and Q exchanged, as printed, they do not."""
    g = strategies.profile(hierarchy(4))
    spectrum = strategies.spectrum(g)
    q = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    a, weights = spectrum.strategy(q), np.diag(1 / spectrum.values)
    np.testing.assert_allclose(((q @ weights @ q.T @ a) * a).sum(axis=0), 1, rtol=EXACT)
    assert np.abs(((q.T @ weights @ q @ a) * a).sum(axis=0) - 1).max() > 0.01


def test_the_tail_of_theorem_5_22():
    """Printed: P[z ≥ √(2 ln(2/δ))] < δ/(2√(π ln(2/δ))). The bound it uses gives half of that."""
    for delta in (1e-3, 1e-6, 1e-9):
        half = delta / (4 * math.sqrt(math.pi * math.log(2 / delta)))
        x = math.sqrt(2 * math.log(2 / delta))
        assert 0.8 * half < stats.norm.sf(x) < half
        assert math.exp(-x * x / 2) / x / math.sqrt(2 * math.pi) == pytest.approx(half, rel=EXACT)
