"""Projections: reference values, another solver, the laws of a projection, and its gap under every hardship."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as ssl
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo
from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from fitnoise.kernel.units import Region
from fitnoise.mechanisms.projection import regions as projections
from fitnoise.mechanisms.projection.regions import ProjectionStatus, entropic, project, split_project
from fitnoise.solving.ky_fan import ky_fan_design
from refused import refused
from tolerances import EXACT

METHODS = ["active-set", "pairwise"]
SEEN = 5e-9
"""The reference values were printed with eight decimals."""


def ranges(n):
    return np.array([[float(i <= e <= j) for e in range(n)] for i in range(n) for j in range(i, n)])


RANGES = ranges(8)
NOISY = RANGES @ np.array([3.0, 0, 0, 5, 0, 1, 0, 1]) + 4 * np.sin(1 + np.arange(36))
LOWER = NOISY - 6 * (RANGES[:, 1] + RANGES[:, 6])
BASIS = np.linalg.svd(RANGES, full_matrices=False)[0]


def gap_of(a, y, n, region, x):
    """Return the gap from its definition, by the list of all atoms."""
    atoms = {
        Region.AT_MOST: np.hstack([a, np.zeros((len(a), 1))]),
        Region.EXACTLY: a,
        Region.HULL: np.hstack([a, -a]),
    }[region]
    off = a @ x - y
    return off @ (a @ x) - n * (off @ atoms).min()


def feasible(result, n, region):
    x = result.weights
    if region is Region.HULL:
        assert np.abs(x).sum() <= n * (1 + 1e-12)
        return
    assert (x >= 0).all()
    assert x.sum() <= n * (1 + 1e-12)
    if region is Region.EXACTLY:
        assert x.sum() >= n * (1 - 1e-12)


def reach(a, y, n):
    """Return the scale to compare rounding with: the longest answers plus the length of y."""
    return n * np.sqrt((a**2).sum(axis=0).max()) + np.linalg.norm(y)


def done(a, y, n, result):
    """Converged, or as far as floating point goes."""
    return result.status is ProjectionStatus.CONVERGED or result.gap <= 1e-14 * reach(a, y, n) ** 2


def certified(a, y, n, region, result):
    """Feasible, and all numbers those of x."""
    feasible(result, n, region)
    z = a @ result.weights
    size = reach(a, y, n)
    assert np.abs(result.answers - z).max() <= 1e-13 * size
    assert result.distance == pytest.approx(((z - y) ** 2).sum(), rel=EXACT, abs=1e-13 * size**2)
    assert result.gap >= 0
    assert result.gap == pytest.approx(gap_of(a, y, n, region, result.weights), rel=1e-6, abs=1e-13 * size**2)


def random_case(seed, m=6, cells=9, noise=3.0):
    """Queries, a size and noisy answers."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(m, cells)) if seed % 2 else (rng.random((m, cells)) < 0.5).astype(float)
    n = float(rng.integers(1, 30))
    return a, n, a @ rng.dirichlet(np.full(cells, 0.3)) * n + noise * rng.normal(size=m), rng


# --- reference values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("region", Region)
@pytest.mark.parametrize(
    ("n", "distance", "x"),
    [
        (10, 238.97992089, (2.9217917, 0.214248, 0, 3.344855, 0, 1.8640721, 1.6550332, 0)),
        (4, 576.22229391, (0, 0, 0, 2.8324893, 0, 1.1675107, 0, 0)),
    ],
)
def test_reference_where_the_regions_agree(n, distance, x, region, method):
    result = project(RANGES, NOISY, n, region, tolerance=1e-9, method=method)
    assert result.status is ProjectionStatus.CONVERGED
    assert result.distance == pytest.approx(distance, abs=2 * SEEN)
    assert result.weights == pytest.approx(np.array(x), abs=2e-5)  # the queries determine x here
    certified(RANGES, NOISY, n, region, result)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("n", "exactly", "at_most", "hull"),
    [
        (6, 686.53592243, 522.30808955, 354.50253106),
        (14, 1442.57208609, 522.30808955, 244.05384526),
        (30, 4682.6444134, 522.30808955, 224.68027199),
    ],
)
def test_reference_where_they_differ(n, exactly, at_most, hull, method):
    values = {Region.EXACTLY: exactly, Region.AT_MOST: at_most, Region.HULL: hull}
    for region, distance in values.items():
        result = project(RANGES, LOWER, n, region, tolerance=1e-9, method=method)
        assert result.distance == pytest.approx(distance, abs=2 * SEEN)
        certified(RANGES, LOWER, n, region, result)


def test_reference_of_the_smallest():
    x = project(RANGES, LOWER, 6, Region.EXACTLY).weights
    assert x == pytest.approx(np.array([3.278401, 0, 0, 1.368954, 0, 0, 0, 1.352645]), abs=1e-6)


def test_reference_of_the_entropic_projection():
    result = entropic(RANGES, NOISY, 10, 3, tolerance=1e-9)
    x = [2.36034, 0.66866, 0.38457, 2.59877, 0.50583, 1.66071, 1.54033, 0.28081]
    outside = ((NOISY - BASIS @ (BASIS.T @ NOISY)) ** 2).sum() / 2
    assert result.status is ProjectionStatus.CONVERGED
    assert result.weights == pytest.approx(np.array(x), abs=2e-5)
    assert result.objective - outside == pytest.approx(19.804972, abs=1e-6)


@pytest.mark.parametrize(("t", "distance"), [(0, 14.2996489), (2, 0.32106193)])
def test_reference_of_the_split(t, distance):
    """In row space and outside it: the directions are those of the largest variances at k = 4."""
    head = ky_fan_design(RANGES, 4, tolerance=1e-9).basis[:, :t]
    outside = ((NOISY - BASIS @ (BASIS.T @ NOISY)) ** 2).sum()
    in_row_space = split_project(BASIS.T @ RANGES, BASIS.T @ NOISY, 10, BASIS.T @ head, tolerance=1e-10)
    in_full = split_project(RANGES, NOISY, 10, head, tolerance=1e-10)
    assert in_row_space.distance == pytest.approx(distance, abs=1e-7)
    assert in_full.distance - outside == pytest.approx(distance, abs=1e-7)
    assert BASIS.T @ in_full.answers == pytest.approx(in_row_space.answers, abs=1e-5)


# --- another solver -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("region", Region)
def test_a_cone_solver_agrees(region, seed):
    a, n, y, _ = random_case(seed)
    x = cp.Variable(a.shape[1])
    rules_of = {
        Region.AT_MOST: [x >= 0, cp.sum(x) <= n],
        Region.EXACTLY: [x >= 0, cp.sum(x) == n],
        Region.HULL: [cp.norm1(x) <= n],
    }
    value = cp.Problem(cp.Minimize(cp.sum_squares(a @ x - y)), rules_of[region]).solve(solver=cp.CLARABEL)
    for method in METHODS:
        result = project(a, y, n, region, method=method, tolerance=1e-7)
        assert result.distance == pytest.approx(value, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_a_cone_solver_agrees_on_entropy(seed):
    a, n, y, rng = random_case(seed)
    rho = rng.dirichlet(np.ones(a.shape[1])) + 0.01
    x = cp.Variable(a.shape[1])
    goal = cp.sum_squares(a @ x - y) / 2 + 0.7 * cp.sum(cp.rel_entr(x, n * rho / rho.sum()))
    value = cp.Problem(cp.Minimize(goal), [cp.sum(x) == n]).solve(solver=cp.CLARABEL)
    result = entropic(a, y, n, 0.7, reference=rho, tolerance=1e-9)
    assert result.objective == pytest.approx(value, rel=1e-6, abs=1e-6)


# --- laws ---------------------------------------------------------------------------------------------------------

CASES = st.tuples(
    st.integers(0, 2**20), st.integers(1, 6), st.integers(1, 9), st.sampled_from(Region), st.sampled_from(METHODS)
)


@given(CASES)
@settings(max_examples=150)
def test_the_gap_is_honest_and_the_methods_agree(case):
    seed, m, cells, region, method = case
    a, n, y, _ = random_case(seed, m, cells)
    result = project(a, y, n, region, method=method)
    assert done(a, y, n, result)
    certified(a, y, n, region, result)
    best = project(a, y, n, region, tolerance=1e-10 * (1 + y @ y))
    off = result.answers - best.answers
    assert math.sqrt(off @ off) <= math.sqrt(result.gap) + math.sqrt(best.gap) + 1e-6


@given(CASES)
@settings(max_examples=100)
def test_it_does_not_expand(case):
    seed, m, cells, region, method = case
    a, n, y, rng = random_case(seed, m, cells)
    other = y + rng.normal(size=m) * 10.0 ** rng.integers(-3, 2)
    one, two = (project(a, v, n, region, method=method) for v in (y, other))
    slack = math.sqrt(one.gap) + math.sqrt(two.gap) + 1e-9
    assert np.linalg.norm(one.answers - two.answers) <= np.linalg.norm(y - other) + slack


@given(CASES)
@settings(max_examples=100)
def test_it_is_never_worse_than_the_noise(case):
    seed, m, cells, region, method = case
    rng = np.random.default_rng(seed)
    a, x = rng.normal(size=(m, cells)), rng.dirichlet(np.ones(cells)) * 12
    noise = rng.normal(size=m) * 5
    result = project(a, a @ x + noise, 12, region, method=method)
    assert np.linalg.norm(result.answers - a @ x) <= np.linalg.norm(noise) * (1 + 1e-12) + math.sqrt(result.gap)


@given(CASES)
@settings(max_examples=60)
def test_answers_of_the_region_stay(case):
    seed, m, cells, region, _ = case
    a, n, y, _ = random_case(seed, m, cells)
    one = project(a, y, n, region)
    second = project(a, one.answers, n, region)
    assert second.distance <= second.gap + 1e-12 * (1 + y @ y)
    assert done(a, one.answers, n, second)


@given(CASES)
@settings(max_examples=60)
def test_a_larger_region_is_nearer(case):
    seed, m, cells, _, method = case
    a, n, y, _ = random_case(seed, m, cells)
    exactly, at_most, hull = (
        project(a, y, n, region, method=method) for region in (Region.EXACTLY, Region.AT_MOST, Region.HULL)
    )
    wider = project(a, y, 2 * n, Region.AT_MOST, method=method)
    slack = 1e-9 * (1 + y @ y)
    assert exactly.distance >= at_most.distance - 2 * at_most.gap - slack
    assert at_most.distance >= hull.distance - 2 * hull.gap - slack
    assert at_most.distance >= wider.distance - 2 * wider.gap - slack


@pytest.mark.parametrize("region", Region)
@pytest.mark.parametrize("method", METHODS)
def test_it_scales(region, method):
    a, n, y, _ = random_case(3)
    base = project(a, y, n, region, method=method, tolerance=1e-9)
    records = project(a, 7 * y, 7 * n, region, method=method, tolerance=49e-9)
    queries = project(1e8 * a, 1e8 * y, n, region, method=method, tolerance=1e7)
    assert records.distance == pytest.approx(49 * base.distance, rel=1e-8)
    assert queries.distance == pytest.approx(1e16 * base.distance, rel=1e-8)


@pytest.mark.parametrize("region", Region)
def test_copies_and_empty_cells_change_nothing(region):
    a, n, y, rng = random_case(5)
    base = project(a, y, n, region, tolerance=1e-10)
    parts = [a, a[:, ::-1]] if region is Region.EXACTLY else [a, np.zeros((len(a), 4)), a[:, ::-1]]
    extended = np.hstack(parts)[:, rng.permutation(sum(p.shape[1] for p in parts))]
    result = project(extended, y, n, region, tolerance=1e-10)
    assert result.distance == pytest.approx(base.distance, abs=1e-8)


@pytest.mark.parametrize("region", Region)
def test_the_row_space_is_enough(region):
    complete = project(RANGES, LOWER, 9, region, tolerance=1e-10)
    rows = project(BASIS.T @ RANGES, BASIS.T @ LOWER, 9, region, tolerance=1e-10)
    outside = ((LOWER - BASIS @ (BASIS.T @ LOWER)) ** 2).sum()
    assert rows.distance + outside == pytest.approx(complete.distance, rel=EXACT)
    assert gap_of(RANGES, LOWER, 9, region, rows.weights) == pytest.approx(rows.gap, abs=1e-10)


# --- how the queries are given ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", zoo.OPERATORS)
def test_operators(name):
    a = zoo.OPERATORS[name]
    matrix = np.asarray(rules.dense(a), dtype=np.float64)
    y = 3 * np.sin(1 + np.arange(matrix.shape[0])) + matrix.sum(axis=1) / matrix.shape[1]
    for region in Region:
        result = project(a, y, 2.0, region, tolerance=1e-9)
        certified(matrix, y, 2.0, region, result)
        assert result.distance == pytest.approx(project(matrix, y, 2.0, region, tolerance=1e-9).distance, abs=1e-8)
    positive = entropic(a, y, 2.0, 0.5)
    assert positive.objective == pytest.approx(entropic(matrix, y, 2.0, 0.5).objective, rel=1e-5, abs=1e-5)


def test_other_forms():
    base = project(RANGES, NOISY, 10)
    sparse = sp.csr_array(RANGES)
    for form in (
        RANGES.astype(int).tolist(),
        op.Dense(RANGES),
        sparse,
        ssl.aslinearoperator(sparse),
        Walsh.from_matrix(RANGES),
    ):
        assert project(form, NOISY, 10, "at-most").distance == pytest.approx(base.distance, rel=EXACT)


class Walsh:
    """All parities of at most three of d yes-or-no attributes, the directions of their three-way marginals."""

    def __init__(self, d):
        self.d = d
        sets = [s for w in range(4) for s in itertools.combinations(range(d), w)]
        self.masks = np.array([sum(1 << a for a in s) for s in sets])
        ways = [sum(math.comb(d - len(s), w - len(s)) * 2.0**-w for w in range(max(len(s), 1), 4)) for s in sets]
        self.scale = np.sqrt(ways)
        self.shape = (len(sets), 2**d)

    def transform(self, t):
        for attributes_left in range(self.d, 0, -7):
            size = 2 ** min(7, attributes_left)
            signs = 1.0 - 2.0 * (np.bitwise_count(np.arange(size)[:, None] & np.arange(size)) & 1)
            t = (t.reshape(size, -1).T @ signs).ravel()
        return t

    def mv(self, x):
        return self.scale * self.transform(x)[self.masks]

    def rmv(self, y):
        t = np.zeros(self.shape[1])
        t[self.masks] = self.scale * y
        return self.transform(t)

    @staticmethod
    def from_matrix(matrix):
        """Any matrix by its products and its columns."""

        class MatrixProducts:
            shape = matrix.shape
            mv, rmv = matrix.__matmul__, matrix.T.__matmul__

            def column(self, e):
                return matrix[:, e]

        return MatrixProducts()


def lifelike(queries, n, rng):
    """N records with independent attributes, and their noisy answers."""
    chances = rng.random(queries.d) / 2
    cells = (rng.random((n, queries.d)) < chances) @ (1 << np.arange(queries.d))
    truth = queries.mv(np.bincount(cells, minlength=queries.shape[1]).astype(float))
    noise = 4.22 * np.linalg.norm(queries.scale) * rng.normal(size=len(truth))
    return truth, noise


def test_parities_are_marginals():
    d = 5
    small = Walsh(d)
    matrix = np.array([small.mv(unit) for unit in np.eye(2**d)]).T
    cells = np.array(list(itertools.product((0, 1), repeat=d)))
    rows = [
        (cells[:, list(s)] == v).all(axis=1)
        for w in (1, 2, 3)
        for s in itertools.combinations(range(d), w)
        for v in itertools.product((0, 1), repeat=w)
    ]
    margins = np.array(rows).astype(float)
    assert matrix.T @ matrix == pytest.approx(margins.T @ margins)
    adjoint = np.array([small.rmv(unit) for unit in np.eye(len(matrix))])
    assert adjoint == pytest.approx(matrix)


@pytest.mark.parametrize("d", [10, pytest.param(14, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.slow)])
def test_three_way_marginals(d, rng):
    queries = Walsh(d)
    truth, noise = lifelike(queries, 200, rng)
    energy = noise @ noise
    for method in ["auto", "pairwise"] if d < 20 else ["auto"]:
        result = project(queries, truth + noise, 200, tolerance=1e-4 * energy, method=method)
        assert result.status is ProjectionStatus.CONVERGED
        feasible(result, 200, Region.AT_MOST)
        assert np.linalg.norm(result.answers - truth) <= np.linalg.norm(noise) + math.sqrt(result.gap)
        assert ((result.answers - truth) ** 2).sum() < 0.4 * energy
    smooth = entropic(queries, truth + noise, 200, 0.1 * 4.22 * (queries.scale @ queries.scale))
    assert smooth.status is ProjectionStatus.CONVERGED
    assert ((smooth.answers - truth) ** 2).sum() < 0.4 * energy


# --- hardship -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("region", Region)
@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("limit", [1, 3])
def test_a_search_cut_short_is_honest(limit, method, region, rng):
    a = rng.normal(size=(40, 100))
    y = a @ rng.dirichlet(np.ones(100)) * 50 + rng.normal(size=40)
    result = project(a, y, 50, region, method=method, iterations=limit)
    assert result.status is ProjectionStatus.ITERATIONS
    assert result.iterations == limit
    certified(a, y, 50, region, result)
    best = project(a, y, 50, region)
    assert result.gap > best.gap
    assert np.linalg.norm(result.answers - best.answers) <= math.sqrt(result.gap) + math.sqrt(best.gap)


@pytest.mark.parametrize("method", METHODS)
def test_no_time(method, rng):
    a = rng.normal(size=(40, 100))
    result = project(a, 20 * rng.normal(size=40), 90.0, "exactly", method=method, tolerance=0, seconds=1e-9)
    assert result.status is ProjectionStatus.TIME
    feasible(result, 90.0, Region.EXACTLY)
    late = entropic(a, 20 * rng.normal(size=40), 90.0, 0.1, tolerance=0, seconds=1e-9)
    assert late.status is ProjectionStatus.TIME
    assert late.gap < math.inf


def hardships():
    rng = np.random.default_rng(7)
    a, x = rng.normal(size=(15, 40)), rng.dirichlet(np.ones(40)) * 50
    y = a @ x
    collinear = a[:, :1] + 1e-9 * rng.normal(size=(15, 100))
    tall = np.vstack([a[:, :9], np.zeros((1, 9))])
    hilbert = 1 / (1.0 + np.arange(12)[:, None] + np.arange(40))
    return {
        "nearly collinear": (collinear, 50 * collinear[:, 0] + rng.normal(size=15), 50),
        "nearly collinear, inside": (collinear, 50 * collinear[:, 0] + 1e-8 * rng.normal(size=15), 50),
        "inside": (a, y, 50),
        "few records": (a, y, 1e-9),
        "many records": (a, y, 1e9),
        "large": (1e8 * a, 1e8 * (y + 3 * rng.normal(size=15)), 50),
        "small": (1e-8 * a, y, 50),
        "one cell": (a[:, :1], y, 5),
        "one query": (a[:1], y[:1], 5),
        "no queries": (np.zeros((3, 4)), np.ones(3), 5),
        "answers orthogonal": (tall, 4 * np.eye(16)[15], 5),
        "all the same": (np.tile(a[:, :1], (1, 1000)), y, 5),
        "equal in groups": (np.repeat(a, 25, axis=1), y + rng.normal(size=15), 50),
        "ill conditioned": (hilbert, rng.normal(size=12), 3),
    }


HARD = hardships()


@pytest.mark.parametrize("region", Region)
@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("name", HARD)
def test_hardship(name, method, region):
    a, y, n = HARD[name]
    result = project(a, y, n, region, method=method)
    certified(a, y, n, region, result)
    assert done(a, y, n, result)


@pytest.mark.parametrize("exponent", [7, 12])
def test_columns_of_all_sizes(exponent):
    """Over 14 or 24 orders: the plane through the atoms is lost to rounding, the gap is not."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(15, 40))
    y = a @ rng.dirichlet(np.ones(40)) * 50
    mixed = a * np.logspace(-exponent, exponent, 40)
    for region in Region:
        for method in [*METHODS, "auto"]:
            result = project(mixed, y, 50, region, method=method, iterations=1000)
            feasible(result, 50, region)
            assert result.status is ProjectionStatus.CONVERGED or result.gap > 1e-11 * (y @ y)


def test_no_answers_but_zero():
    a = HARD["inside"][0]
    for region in (Region.AT_MOST, Region.HULL):
        result = project(a, np.zeros(15), 5, region)
        assert result.distance <= 1e-25
        assert result.gap <= 1e-12


def test_pairwise_steps_follow_a_large_support(monkeypatch):
    monkeypatch.setattr(projections, "MAX_ACTIVE_ATOMS", 5)
    monkeypatch.setattr(projections, "MAX_CACHED_NUMBERS", 100)  # two columns remembered
    a, y, n = HARD["equal in groups"]
    for region in Region:
        result = project(a, y, n, region)
        assert result.status is ProjectionStatus.CONVERGED
        certified(a, y, n, region, result)


def test_a_lost_plane_is_left_to_pairwise_steps(monkeypatch):
    """No progress of the active set: the other method goes on from there."""
    monkeypatch.setattr(projections._Plane, "move_to_nearest", lambda plane: None)
    a, y, n = HARD["answers orthogonal"]
    assert project(a, y, n, "exactly", method="active-set").status is ProjectionStatus.STALLED
    assert project(a, y, n, "exactly").status is ProjectionStatus.CONVERGED


def test_the_same_input_gives_the_same_point():
    a, y, n = HARD["equal in groups"]
    one, two = project(a, y, n), project(a, y, n)
    assert (one.weights == two.weights).all()


def test_what_is_returned_shares_nothing():
    y = np.array([1.0, 2.0])
    result = project(op.Identity(2), y, 5)
    assert not np.shares_memory(result.answers, result.weights)
    assert not np.shares_memory(result.answers, y)


# --- the split ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("region", Region)
def test_split(region):
    a, n, y, rng = random_case(11)
    head = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    result = split_project(a, y, n, head, region, tolerance=1e-10)
    assert head.T @ result.answers == pytest.approx(head.T @ y, abs=1e-10)
    assert result.distance == pytest.approx(((result.answers - y) ** 2).sum(), rel=EXACT)
    rest = np.eye(6) - head @ head.T
    feasible(result.tail, n, region)
    assert result.tail.answers == pytest.approx(rest @ a @ result.tail.weights, abs=1e-10)
    assert result.gap == pytest.approx(gap_of(rest @ a, rest @ y, n, region, result.tail.weights), abs=1e-9)
    for method in METHODS:
        assert split_project(a, y, n, head, region, method=method).distance == pytest.approx(result.distance, rel=1e-5)


def test_split_at_the_ends():
    a, n, y, _ = random_case(11)
    none = split_project(a, y, n, np.zeros((6, 0)), tolerance=1e-10)
    assert none.distance == pytest.approx(project(a, y, n, Region.HULL, tolerance=1e-10).distance, rel=EXACT)
    everything = split_project(a, y, n, np.eye(6))
    assert everything.answers == pytest.approx(y)


# --- entropy ------------------------------------------------------------------------------------------------------


def primal(a, y, n, temperature, rho, x):
    return ((a @ x - y) ** 2).sum() / 2 + temperature * (x * np.log(x / (n * rho))).sum()


def dual(a, y, n, temperature, rho, nu):
    return nu @ y - nu @ nu / 2 - n * temperature * np.log(rho @ np.exp(a.T @ nu / temperature))


@given(st.integers(0, 2**20), st.integers(1, 6), st.integers(1, 9), st.sampled_from([0.3, 3.0, 100.0]))
@settings(max_examples=100)
def test_both_sides_of_the_entropic_projection(seed, m, cells, temperature):
    a, n, y, rng = random_case(seed, m, cells)
    rho = rng.dirichlet(np.ones(cells)) + 0.01
    rho /= rho.sum()
    result = entropic(a, y, n, temperature, reference=5 * rho)
    assert result.status is ProjectionStatus.CONVERGED
    assert (result.weights > 0).all()
    assert result.weights.sum() == pytest.approx(n, rel=1e-12)
    upper = primal(a, y, n, temperature, rho, result.weights)
    assert result.objective == pytest.approx(upper, rel=EXACT)
    size = 1 + y @ y + abs(upper)
    assert result.gap == pytest.approx(upper - dual(a, y, n, temperature, rho, result.multipliers), abs=1e-10 * size)
    best = entropic(a, y, n, temperature, reference=rho, tolerance=1e-12 * size)
    assert result.objective - result.gap <= best.objective + 1e-10 * size
    assert best.objective <= result.objective + best.gap + 1e-10 * size
    off = result.answers - best.answers
    assert math.sqrt(off @ off) <= math.sqrt(2 * result.gap) + math.sqrt(2 * best.gap) + 1e-9
    for other in (np.zeros(m), rng.normal(size=m)):  # weak duality
        assert dual(a, y, n, temperature, rho, other) <= upper + 1e-10 * size


def test_entropy_fades():
    """λ → 0 is the projection, with Σx = n: the objectives differ by at most n λ log N."""
    exact = project(RANGES, LOWER, 14, Region.EXACTLY, tolerance=1e-9)
    for temperature in (1, 0.1, 0.01, 0.001):
        result = entropic(RANGES, LOWER, 14, temperature, tolerance=1e-7)
        assert result.distance >= exact.distance - 1e-8
        assert result.distance / 2 <= exact.distance / 2 + 14 * temperature * math.log(8) + 1e-6
        assert (result.weights > 0).all()


def test_entropy_prevails():
    rho = np.arange(1.0, 9)
    result = entropic(RANGES, NOISY, 10, 1e9, reference=rho)
    assert result.weights == pytest.approx(10 * rho / 36, rel=1e-5)


def test_entropy_does_not_overflow():
    for temperature in (1e-300, 1e-12, 1e-6, 1e6, 1e300):
        for scale in (1e-8, 1.0, 1e8):
            result = entropic(scale * RANGES, scale * NOISY, 10, temperature, iterations=300)
            assert (result.weights > 0).all()
            assert result.weights.sum() == pytest.approx(10, rel=1e-12)
            assert math.isfinite(result.gap)
            assert result.gap >= 0


def test_entropy_cut_short():
    result = entropic(RANGES, NOISY, 10, 0.01, iterations=3)
    best = entropic(RANGES, NOISY, 10, 0.01)
    assert result.status is ProjectionStatus.ITERATIONS
    assert result.objective - result.gap <= best.objective <= result.objective


# --- what is refused ----------------------------------------------------------------------------------------------


class Broken:
    shape = (2, 3)

    def __init__(self, mv=np.zeros(2), rmv=np.zeros(3)):  # noqa: B008 - never changed
        self.mv, self.rmv = (lambda x: mv), (lambda y: rmv)


@pytest.mark.parametrize("size", [0, -1, math.nan, math.inf])
def test_sizes(size):
    with refused("workload.not-a-positive-number"):
        project(RANGES, NOISY, size)
    with refused("workload.not-a-positive-number"):
        entropic(RANGES, NOISY, size, 1)


@pytest.mark.parametrize("temperature", [0, -1, math.nan, math.inf])
def test_temperatures(temperature):
    with refused("workload.not-a-positive-number"):
        entropic(RANGES, NOISY, 1, temperature)


@pytest.mark.parametrize("y", [NOISY[:-1], NOISY[:, None], 3.0, NOISY.astype(complex), ["1"] * 36])
def test_answers_of_another_shape(y):
    with refused("workload.answers-shape"):
        project(RANGES, y, 1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e101])
def test_answers_that_are_not_finite(bad):
    y = NOISY.copy()
    y[5] = bad
    with refused("workload.answer-not-finite"):
        project(RANGES, y, 1)


@pytest.mark.parametrize("a", [np.ones(3), np.zeros((0, 3)), [[math.nan]], [["a"]], [[1e101]], [[1e-101]]])
def test_queries_that_are_none(a):
    with refused(
        "workload.matrix-not-finite",
        "workload.matrix-not-real",
        "workload.matrix-shape-wrong",
        "workload.query-size-out-of-range",
    ):
        project(a, np.ones(1), 1)


def test_products_that_are_none():
    for broken in (Broken(rmv=np.zeros(4)), Broken(rmv=np.full(3, math.nan)), Broken(rmv=np.full(3, 1e101))):
        with refused("workload.query-product-length", "workload.query-product-not-finite"):
            project(broken, np.ones(2), 1)
    with refused("workload.query-product-length"):
        project(Broken(mv=np.zeros(5)), np.ones(2), 1)


def test_regions_and_methods():
    with refused("workload.unknown-region"):
        project(RANGES, NOISY, 1, "simplex")
    with refused("workload.unknown-projection-method"):
        project(RANGES, NOISY, 1, method="newton")


@pytest.mark.parametrize("limits", [{"tolerance": -1}, {"tolerance": math.nan}, {"iterations": 0}, {"seconds": 0}])
def test_limits(limits):
    with refused("workload.search-limits"):
        project(RANGES, NOISY, 1, **limits)
    with refused("workload.search-limits"):
        entropic(RANGES, NOISY, 1, 1, **limits)


@pytest.mark.parametrize("rho", [np.ones(7), np.zeros(8), -np.ones(8), np.full(8, math.nan), np.full(8, math.inf)])
def test_references(rho):
    with refused("workload.reference-not-positive"):
        entropic(RANGES, NOISY, 1, 1, reference=rho)


@pytest.mark.parametrize("head", [np.ones(36), np.ones((36, 1)), np.eye(8), np.full((36, 1), math.nan)])
def test_heads(head):
    with refused("workload.head-not-orthonormal"):
        split_project(RANGES, NOISY, 1, head)
