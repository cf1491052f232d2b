"""The Ky Fan design: reference values, the duality, the laws of the norm, and certificates that share no code."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fitnoise as fn
from fitnoise.algebra import operators as op
from fitnoise.request.publication import Goal, Objective
from fitnoise.solving import certificates, ky_fan
from fitnoise.solving.ky_fan import KyFanStatus, ky_fan_design
from fitnoise_lab.ky_fan_certificates import ky_fan_gram_certificate
from fitnoise_lab.ky_fan_marginals import AllRanges, Conjunctions, OperatorGram, ky_fan_gram, ky_fan_marginals
from refused import refused
from tolerances import EXACT, GAP

SEEN = 2e-9
"""The reference values were printed with nine or ten digits."""


def prefix(n):
    return np.tril(np.ones((n, n)))


def ranges(n):
    return np.array([[float(i <= e <= j) for e in range(n)] for i in range(n) for j in range(i, n)])


def residues(m, n):
    q, e = np.ogrid[:m, :n]
    return ((3 * q**2 + 5 * e**2 + 7 * q * e + q + 2 * e) % 11 < 5).astype(float)


def waves():
    q, e = np.ogrid[1:11, 1:31]
    return np.sin(q * e + 0.3 * q**2) * (1 + e / 30)


def literals(d, widths):
    """Conjunctions of positive literals."""
    sets = [sum(1 << a for a in s) for w in widths for s in itertools.combinations(range(d), w)]
    return np.array([[float(e & s == s) for e in range(2**d)] for s in sets])


def margins(d, widths):
    """All cells of the marginals of some widths of d yes-or-no attributes."""
    cells = list(itertools.product((0, 1), repeat=d))
    return np.array(
        [
            [float(all(e[a] == x for a, x in zip(s, y, strict=True))) for e in cells]
            for w in widths
            for s in itertools.combinations(range(d), w)
            for y in itertools.product((0, 1), repeat=w)
        ]
    )


def tables(d, widths):
    return [s for w in widths for s in itertools.combinations(range(d), w)]


MATRICES = {
    "prefix 8": prefix(8),
    "prefix 16": prefix(16),
    "prefix 64": prefix(64),
    "prefix 128": prefix(128),
    "ranges 8": ranges(8),
    "ranges 32": ranges(32),
    "ranges 128": ranges(128),
    "residues 12": residues(12, 20),
    "residues 40": residues(40, 100),
    "residues 60": residues(60, 25),
    "waves": waves(),
    "literals 6": literals(6, (1, 2, 3)),
    "margins 4": margins(4, (1, 2)),
}
REFERENCE = {
    "prefix 8": {1: 8, 2: 10.71050507, 3: 12.70269921, 4: 14.22107892, 8: 17.86617733},
    "prefix 16": {2: 21.43544359, 4: 28.56049653, 8: 36.99309124, 16: 45.66535681},
    "prefix 64": {4: 114.3899602, 16: 189.4228543, 64: 282.2014211},
    "prefix 128": {20: 408.13772553, 128: 683.61302477},
    "ranges 8": {1: 20, 2: 34.89146708, 4: 55.4600791, 8: 80.46426516},
    "ranges 32": {2: 471.7335762, 8: 1137.516325, 16: 1616.700954, 32: 2143.536705},
    "ranges 128": {20: 27657.27932, 128: 55767.24273},
    "residues 12": {1: 9, 2: 14.27319427, 4: 22.77141532, 8: 34.87686708},
    "residues 40": {5: 89.43897756, 10: 127.1920666},
    "residues 60": {5: 133.4385085, 10: 190.7835602},
    "waves": {1: 27.30868702, 2: 47.79720182, 3: 66.43512426, 5: 100.0099768, 10: 160.0555097},
    "literals 6": {1: 41, 5: 101.1174732, 10: 139.6459736, 20: 182.5519528, 41: 208.6485119},
    "margins 4": {1: 10, 2: 20, 3: 29.99073756, 5: 48.57878403, 8: 71.64412042, 11: 87.29098842},
}
CASES = [(name, k) for name, values in REFERENCE.items() for k in values]
SPECTRA = {
    ("prefix 8", 1): (0, 8, 64),
    ("prefix 8", 2): (1, 2.3012947, 24.518273),
    ("prefix 8", 3): (2, 1.6674719, 21.040059),
    ("prefix 8", 4): (3, 1.3841648, 19.757738),
    ("prefix 16", 4): (2, 2.8259988, 62.472482),
    ("ranges 8", 2): (1, 12.388256, 109.221),
    ("ranges 8", 4): (2, 8.6759369, 90.163827),
    ("residues 12", 4): (3, 3.731575, 48.892441),
}
"""Spikes, least eigenvalue and trace of Σ, which the rule for the tail makes unique."""


def certified(a, design, gap=GAP):
    """Both sides, recomputed from the queries by the other room, and the sensitivity in floating point."""
    proof = certificates.ky_fan_certificate(a, design.weights, design.factor, design.index)
    assert proof.gap <= gap * (1 + 1e-3) + 1e-9
    assert proof.value == pytest.approx(design.value, rel=EXACT)
    assert proof.bound == pytest.approx(design.bound, rel=EXACT)
    assert design.weights.sum() == pytest.approx(1)
    assert (design.weights >= 0).all()
    assert (((design.basis.T @ a) ** 2 / design.variances[:, None]).sum(axis=0) <= 1).all()
    assert np.abs(design.basis.T @ design.basis - np.eye(design.rank)).max() < 1e-12
    assert (np.diff(design.variances) <= 1e-12 * design.variances[0]).all()
    assert design.spikes <= design.index - 1 or design.index == 1
    assert np.ptp(design.variances[design.spikes :]) == 0
    return proof


# --- reference values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "k"), CASES)
def test_reference_values(name, k):
    a, mu = MATRICES[name], REFERENCE[name][k]
    design = ky_fan_design(a, k)
    assert design.status in (KyFanStatus.CONVERGED, KyFanStatus.CLOSED_FORM)
    assert design.gap <= GAP
    certified(a, design)
    assert design.bound * (1 - SEEN) <= mu <= design.value * (1 + SEEN)


@pytest.mark.parametrize(("name", "k"), SPECTRA)
def test_reference_spectra(name, k):
    a, (spikes, tail, trace) = MATRICES[name], SPECTRA[name, k]
    design = ky_fan_design(a, k, tolerance=1e-9)
    assert design.spikes == spikes
    assert design.variances[-1] == pytest.approx(tail, rel=1e-6)
    assert design.variances.sum() == pytest.approx(trace, rel=1e-6)
    assert design.value == pytest.approx(REFERENCE[name][k], rel=SEEN + 1e-9)


def test_a_smaller_gap_can_be_had():
    for name, k in [("prefix 64", 16), ("ranges 32", 8), ("waves", 5), ("residues 40", 5)]:
        design = ky_fan_design(MATRICES[name], k, tolerance=1e-9)
        assert design.gap <= 1e-9
        assert design.bound == pytest.approx(REFERENCE[name][k], rel=SEEN)


def test_k_above_the_rank_is_the_rank():
    a = residues(12, 20)
    above, at_rank = ky_fan_design(a, 12), ky_fan_design(a, 11)
    assert above.index == at_rank.index == above.rank == 11
    assert above.value == at_rank.value


# --- the norm -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "t", "h"), [(1, 0, math.sqrt(6)), (2, 1, 2 + math.sqrt(2)), (3, 1, 4), (9, 1, 4)])
def test_the_norm_by_hand(k, t, h):
    assert ky_fan.split([1, 4, 1], k)[0] == t
    assert ky_fan.dual_norm([1, 4, 1], k) == pytest.approx(h, rel=1e-15)


def test_the_duality_has_no_further_square():
    """One column [a]: μ = a² = h_1², where the paper prints μ² = h_1²."""
    design = ky_fan_design([[3.0]], 1)
    assert design.bound == 9
    assert ky_fan.dual_norm([9.0], 1) ** 2 == 9


def test_the_norm_is_the_largest_inner_product(rng):
    """h_k(YYᵀ) = max ⟨Z, Y⟩ over ‖Z‖ ≤ 1 and ‖Z‖_F ≤ √k: no Z does better, and one reaches it."""
    y = rng.normal(size=(5, 7))
    u, s, v = np.linalg.svd(y, full_matrices=False)
    for k in range(1, 6):
        h = ky_fan.dual_norm(s**2, k)
        t, alpha = ky_fan.split(s**2, k)
        z = (u * np.concatenate([np.ones(t), s[t:] / math.sqrt(alpha)])) @ v
        assert np.linalg.norm(z, 2) <= 1 + 1e-12
        assert np.linalg.norm(z) == pytest.approx(math.sqrt(k))
        assert (z * y).sum() == pytest.approx(h)
        for _ in range(20):
            z = rng.normal(size=y.shape)
            z /= max(np.linalg.norm(z, 2), np.linalg.norm(z) / math.sqrt(k))
            assert (z * y).sum() <= h * (1 + 1e-12)


@given(st.integers(1, 6), st.integers(1, 8), st.integers(1, 8), st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_weak_duality(m, n, k, seed):
    """Any weights, and any covariance scaled to sensitivity 1."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(m, n)) * np.exp(rng.normal(size=n))
    weights = rng.exponential(size=n) * (rng.uniform(size=n) < 0.7)
    weights[0] += 0.1
    factor = rng.normal(size=(m, m)) + 2 * np.eye(m)
    lower = certificates.ky_fan_lower(a, weights, k)
    upper = certificates.ky_fan_upper(a, factor, k)
    assert lower <= upper
    m_of_q = (a * weights / weights.sum()) @ a.T
    assert lower <= ky_fan.dual_norm(np.maximum(np.linalg.eigvalsh(m_of_q), 0), k) ** 2 * (1 + 1e-9)


def problem(a, k):
    return ky_fan._RowSpaceQueries(np.asarray(a, dtype=float), k)


@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_slopes_and_curvature_by_differences(k, rng):
    rows = problem(rng.normal(size=(6, 15)), k)
    p, v = rng.uniform(0.5, 1.5, size=15), rng.normal(size=15)
    evaluation, step = rows.point_at(p), 1e-5
    above, below = rows.point_at(p + step * v), rows.point_at(p - step * v)
    assert (above.height - below.height) / (2 * step) == pytest.approx(evaluation.slopes @ v / 2, rel=1e-7)
    assert p @ evaluation.slopes == pytest.approx(evaluation.height)
    curve = rows.hessian(evaluation, np.ones(15, dtype=bool))
    # F has the slopes 1 − g.
    assert curve(v) == pytest.approx((below.slopes - above.slopes) / (2 * step), rel=1e-5, abs=1e-7)
    free = np.arange(15) % 3 > 0
    assert rows.hessian(evaluation, free)(v[free]) == pytest.approx(curve(np.where(free, v, 0.0))[free])


def test_multiplicative_steps_never_lower_the_bound(rng):
    for k in (1, 2, 5, 8):
        rows = problem(rng.normal(size=(8, 30)) * np.exp(rng.normal(size=30)), k)
        point = rows.point_at(np.full(30, 1 / 30))
        for _ in range(30):
            q = ky_fan.multiplicative_step(point.weights, point.slopes)
            new = rows.point_at(q)
            promise = math.sqrt(float(point.weights @ point.slopes**2))
            assert new.height >= promise * (1 - 1e-10) >= point.height * (1 - 2e-10)
            point = new


# --- laws ---------------------------------------------------------------------------------------------------------


def agree(one, other, factor=1.0):
    """Return two certified designs of problems whose optima differ by a factor."""
    assert max(one.gap, other.gap) <= GAP
    assert one.bound <= other.value * factor * (1 + EXACT)
    assert other.bound * factor <= one.value * (1 + EXACT)


@pytest.mark.parametrize("k", [1, 2, 4, 9])
def test_equivariances(k, rng):
    a = rng.normal(size=(6, 14))
    design = ky_fan_design(a, k)
    certified(a, design)
    agree(ky_fan_design(3 * a, k), design, 9)
    agree(ky_fan_design(1e-90 * a, k), design, 1e-180)
    turn = np.linalg.qr(rng.normal(size=(9, 6)))[0]
    agree(ky_fan_design(turn @ a, k), design)
    agree(ky_fan_design(np.repeat(a, 2, axis=0), k), design, 2)
    order = rng.permutation(14)
    agree(ky_fan_design(a[:, order], k), design)
    inside = a @ (rng.dirichlet(np.ones(14), size=3).T * rng.choice([-1, 1], size=3))
    extended = np.concatenate([a, -a[:, 3:5], np.zeros((6, 2)), a[:, :2], inside], axis=1)
    wider = ky_fan_design(extended, k)
    certified(extended, wider)
    agree(wider, design)
    assert not wider.weights[14:20].any()
    assert not ky_fan_design(extended, k).weights[14:20].any()
    assert np.array_equal(ky_fan_design(extended, k).weights, wider.weights)  # no randomness


@pytest.mark.parametrize("k", [1, 2, 5, 7])
def test_the_identity(k):
    design = ky_fan_design(op.Identity(5), k)
    assert design.value == pytest.approx(min(k, 5), rel=EXACT)
    assert np.allclose(design.covariance, np.eye(5), atol=1e-9)
    assert np.allclose(design.precision, np.eye(5), atol=1e-9)


def test_one_largest_variance_is_the_longest_column(rng):
    a = rng.normal(size=(4, 9))
    design = ky_fan_design(a, 1)
    assert design.bound == pytest.approx((a**2).sum(axis=0).max(), rel=1e-15)
    assert design.status is KyFanStatus.CLOSED_FORM
    certified(a, design)


def test_increasing_and_concave_in_k(rng):
    a = rng.normal(size=(7, 20)) * np.exp(rng.normal(size=(7, 1)))
    designs = [ky_fan_design(a, k, tolerance=1e-8) for k in range(1, 8)]
    mu = np.array([0.0, *(d.value for d in designs)])
    assert (np.diff(mu) > 0).all()
    assert (np.diff(mu, 2) <= 1e-7 * mu[-1]).all()
    assert mu[-1] == pytest.approx(np.trace(designs[-1].covariance))


@pytest.mark.parametrize("name", ["prefix 8", "residues 12", "ranges 8"])
def test_the_full_rank_is_the_smallest_total_error(name):
    """The planner of total error, which knows nothing of this one, reaches the same."""
    a = MATRICES[name]
    plan = fn.plan(
        fn.matrix_workload(a.astype(int), variances=np.ones(len(a))), objective=Objective(Goal.TOTAL_ERROR), gap=GAP
    )
    design = ky_fan_design(a, len(a))
    assert plan.bound * len(a) <= design.value * (1 + EXACT)
    assert design.bound <= plan.table_part.objective_value * len(a) * (1 + EXACT)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_against_a_conic_solver(k, rng):
    for a in (rng.normal(size=(5, 9)), (rng.uniform(size=(5, 8)) < 0.5) + np.eye(5, 8)):
        m = len(a)
        precision, covariance = cp.Variable((m, m), PSD=True), cp.Variable((m, m), symmetric=True)
        constraints = [cp.bmat([[covariance, np.eye(m)], [np.eye(m), precision]]) >> 0]
        constraints += [cp.sum(cp.multiply(precision, np.outer(b, b))) <= 1 for b in a.T]
        optimum = cp.Problem(cp.Minimize(cp.lambda_sum_largest(covariance, k)), constraints).solve(solver="CLARABEL")
        design = ky_fan_design(a, k)
        assert design.bound * (1 - 1e-5) <= optimum <= design.value * (1 + 1e-5)


# --- what is refused, and what is admitted ------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None])
def test_k_is_an_integer_from_one(k):
    for ask in (
        lambda: ky_fan_design(np.eye(3), k),
        lambda: ky_fan_gram(AllRanges(5), k),
        lambda: ky_fan_marginals((2, 2), [(0,)], k),
        lambda: ky_fan.dual_norm([1.0], k),
    ):
        with refused("workload.not-a-whole-number"):
            ask()


@pytest.mark.parametrize(
    ("queries", "why"),
    [
        ([[1.0, math.nan]], "workload.matrix-not-finite"),
        ([[math.inf, 1.0]], "workload.matrix-not-finite"),
        (np.zeros((2, 0)), "workload.matrix-shape-wrong"),
        (np.zeros((0, 2)), "workload.matrix-shape-wrong"),
        ([1.0, 2.0], "workload.matrix-shape-wrong"),
        (np.zeros((2, 3)), "workload.queries-all-zero"),
        ([["a"]], "workload.matrix-not-real"),
        ([[1e200]], "workload.queries-out-of-range"),
        (np.diag([1.0, 1e-12]), "workload.rank-unclear"),
        ([[1.0, 1.0], [0.0, 1e-12]], "workload.rank-unclear"),
        (np.diag([1.0, 1e-16]), "workload.column-lost-to-rounding"),
    ],
)
def test_queries_are_a_matrix(queries, why):
    with refused(why):
        ky_fan_design(queries, 1)


@pytest.mark.parametrize("limits", [{"tolerance": 0}, {"tolerance": math.nan}, {"evaluations": 0}, {"seconds": 0}])
def test_limits_are_positive(limits):
    with refused("workload.search-limits-unusable"):
        ky_fan_design(np.eye(3), 2, **limits)
    with refused("workload.search-limits-unusable"):
        ky_fan_gram(AllRanges(9), 2, **limits)


def test_a_search_that_ends_early_says_so():
    a = ranges(32)
    few, short = ky_fan_design(a, 8, evaluations=3), ky_fan_design(a, 8, seconds=1e-9)
    assert few.status is KyFanStatus.EVALUATIONS
    assert short.status is KyFanStatus.TIME
    deep = ky_fan_design(a, 8, tolerance=1e-15)
    assert deep.status in (KyFanStatus.STALLED, KyFanStatus.EVALUATIONS)
    for design in (few, short, deep):
        proof = certified(a, design, math.inf)
        assert design.bound * (1 - SEEN) <= REFERENCE["ranges 32"][8] <= design.value * (1 + SEEN)
        assert proof.gap == pytest.approx(design.gap, abs=1e-9)
    assert few.gap > GAP


def test_certificates_refuse_what_proves_nothing():
    a, eye = prefix(3), np.eye(3)
    for weights in (np.zeros(3), np.ones(4), np.array([1.0, -1.0, 1.0]), np.array([1.0, math.nan, 1.0])):
        with refused("plan.dual-weights-unusable"):
            certificates.ky_fan_lower(a, weights, 2)
    for queries, k in ((a, 0), (a * math.nan, 1), (np.zeros((0, 3)), 1)):
        with refused("plan.certificate-arguments-unusable"):
            certificates.ky_fan_lower(queries, np.ones(3), k)
    with refused("plan.noise-factor-singular"):
        certificates.ky_fan_upper(a, np.ones((3, 2)), 1)
    with refused("plan.cell-without-noise"):
        certificates.ky_fan_upper(a, eye[:, :2], 1)
    with refused("plan.noise-factor-misfit"):
        certificates.ky_fan_upper(a, np.eye(4), 1)
    gram = a.T @ a
    proof = ky_fan_gram_certificate(gram, np.ones(3), np.zeros((3, 0)), np.zeros(0), 3.0, 1)
    assert proof.value == pytest.approx(3)
    for mixes, variances, tail, why in (
        (eye, np.ones(3), 1.0, "plan.design-shapes-differ"),
        (eye[:, :1], np.ones(1), 2.0, "plan.design-variances-unusable"),
        (eye[:, :1], np.ones(1), 0.0, "plan.design-variances-unusable"),
        (eye[:, [0, 0]], np.full(2, 2.0), 1.0, "plan.design-spikes-dependent"),
    ):
        with refused(why):
            ky_fan_gram_certificate(gram, np.ones(3), mixes, variances, tail, 2)


# --- products with AᵀA --------------------------------------------------------------------------------------------


def ladder(n, m):
    return op.Kronecker((op.Prefix(n), op.Stack((op.Identity(m), op.Total(m)))))


GRAMS = {
    "ranges": (AllRanges(32), ranges(32)),
    "literals": (Conjunctions(6, (1, 2, 3)), literals(6, (1, 2, 3))),
    "grand total": (Conjunctions(4, (0, 2)), literals(4, (0, 2))),
    "product": (OperatorGram(ladder(6, 4)), np.kron(prefix(6), np.concatenate([np.eye(4), np.ones((1, 4))]))),
}


@pytest.mark.parametrize("name", GRAMS)
def test_products_are_those_of_the_matrix(name, rng):
    gram, a = GRAMS[name]
    x = rng.normal(size=(a.shape[1], 3))
    assert gram.diagonal == pytest.approx((a**2).sum(axis=0))
    assert gram.product(x) == pytest.approx(a.T @ (a @ x))


@pytest.mark.parametrize("name", GRAMS)
@pytest.mark.parametrize("k", [1, 2, 6])
def test_products_are_enough(name, k):
    gram, a = GRAMS[name]
    implicit, explicit = ky_fan_gram(gram, k, tolerance=1e-7), ky_fan_design(a, k)
    assert implicit.status is (KyFanStatus.CLOSED_FORM if k == 1 else KyFanStatus.CONVERGED)
    assert implicit.gap <= 1e-7
    assert implicit.residual < 1e-8
    agree(implicit, explicit)
    proof = ky_fan_gram_certificate(a.T @ a, implicit.weights, implicit.mixes, implicit.variances, implicit.tail, k)
    assert proof.gap <= 2e-7
    spikes = a @ implicit.mixes
    assert spikes.T @ spikes == pytest.approx(np.eye(implicit.spikes), abs=1e-9)
    flat = implicit.tail * np.eye(len(a)) + (spikes * (implicit.variances - implicit.tail)) @ spikes.T
    same = certificates.ky_fan_upper(a, np.linalg.cholesky(flat), k)
    assert same == pytest.approx(proof.value, rel=EXACT)


def test_products_need_more_cells_than_k():
    with refused("workload.gram-index-too-large"):
        ky_fan_gram(AllRanges(5), 5)
    with refused("workload.conjunction-widths"):
        Conjunctions(3, (4,))
    with refused("workload.not-a-whole-number"):
        AllRanges(0)


# --- all cells of marginals ---------------------------------------------------------------------------------------

MARGINALS = {
    (4, (1, 2)): REFERENCE["margins 4"],
    (8, (1, 2, 3)): {1: 92, 5: 460, 10: 902.9794511, 20: 1724.539842, 50: 3533.773942, 93: 4858.808256},
    (10, (1, 2, 3)): {
        1: 175,
        10: 1727.142699,
        20: 3346.799795,
        50: 7264.126334,
        100: 11776.15386,
        176: 15688.54707,
    },
    (10, (3,)): {10: 1198.117618, 50: 5396.332412, 100: 9173.167057, 176: 12659.08373},
    (16, (1, 2, 3)): {10: 6912, 50: 31765.61042, 200: 98093.67073, 697: 197830.2795},
}


@pytest.mark.parametrize(("d", "widths"), MARGINALS)
def test_marginals_in_closed_form(d, widths):
    for k, mu in MARGINALS[d, widths].items():
        design = ky_fan_marginals((2,) * d, tables(d, widths), k)
        assert design.value == pytest.approx(mu, rel=SEEN)
        assert design.rank == sum(math.comb(d, j) for j in range(max(widths) + 1))


@pytest.mark.parametrize("k", [1, 2, 5, 8, 11])
def test_uniform_weights_are_optimal_for_marginals(k):
    a = margins(4, (1, 2))
    uniform = certificates.ky_fan_lower(a, np.ones(16), k)
    closed, design = ky_fan_marginals((2,) * 4, tables(4, (1, 2)), k), ky_fan_design(a, k, tolerance=1e-10)
    assert uniform == pytest.approx(closed.value, rel=1e-10)
    assert design.evaluations <= 1  # uniform weights are tried first
    assert design.value == pytest.approx(closed.value, rel=1e-10)
    assert design.spikes == closed.spikes
    total = sum(n * v for n, v in zip(closed.multiplicities, closed.variances, strict=True))
    assert total == pytest.approx(design.variances.sum(), rel=1e-9)


@pytest.mark.parametrize("k", [1, 3, 7, 20])
def test_marginals_of_unequal_attributes(k):
    sizes, tables_shown = (2, 3, 4, 1), [(0,), (1, 0), (2,), (1, 2), (3, 2)]
    cells = list(itertools.product(*(range(n) for n in sizes)))
    a = np.array(
        [
            [float(all(e[x] == y for x, y in zip(s, ys, strict=True))) for e in cells]
            for s in tables_shown
            for ys in itertools.product(*(range(sizes[x]) for x in s))
        ]
    )
    closed = ky_fan_marginals(sizes, tables_shown, k)
    design = ky_fan_design(a, k)
    assert closed.rank == design.rank
    assert closed.index == design.index
    assert design.bound * (1 - EXACT) <= closed.value <= design.value * (1 + EXACT)
    assert certificates.ky_fan_lower(a, np.ones(24), k) == pytest.approx(closed.value, rel=1e-10)


def test_marginals_of_a_hundred_attributes():
    design = ky_fan_marginals((2,) * 100, tables(100, (1, 2)), 50)
    assert design.rank == 1 + 100 + 4950
    assert 0 < design.spikes < 50
    assert design.status is KyFanStatus.CLOSED_FORM


@pytest.mark.parametrize(
    ("sizes", "attribute_sets", "why"),
    [
        ((), [()], "workload.marginal-sizes"),
        ((2, 0), [(0,)], "workload.marginal-sizes"),
        ((2, 2), [], "workload.marginals-without-table"),
        ((2, 2), [(0, 0)], "workload.marginal-attributes"),
        ((2, 2), [(2,)], "workload.marginal-attributes"),
        ((2, 2), [(-1,)], "workload.marginal-attributes"),
    ],
)
def test_marginals_that_cannot_be(sizes, attribute_sets, why):
    with refused(why):
        ky_fan_marginals(sizes, attribute_sets, 1)


# --- scale --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "k"), [("half", 512), ("sparse", 50), ("uneven", 50)])
def test_five_hundred_dimensions(kind, k, rng):
    makers = {
        "half": lambda: (rng.uniform(size=(512, 2048)) < 0.5).astype(float),
        "sparse": lambda: (rng.uniform(size=(512, 2048)) < 0.05).astype(float),
        "uneven": lambda: rng.normal(size=(512, 2048)) * np.exp(rng.normal(size=2048)),
    }
    a = makers[kind]()
    design = ky_fan_design(a, k)
    assert design.status is KyFanStatus.CONVERGED
    certified(a, design)


@pytest.mark.slow
def test_all_ranges_of_a_thousand_cells():
    """524,800 queries; the reference values were certified to 1e-6."""
    gram = AllRanges(1024)
    design = ky_fan_gram(gram, 50)
    assert design.status is KyFanStatus.CONVERGED
    assert design.spikes == 25
    mu = 2577803.521
    assert design.bound * (1 - GAP) <= mu <= design.value * (1 + GAP)
    gram_matrix = gram.product(np.eye(1024))
    proof = ky_fan_gram_certificate(gram_matrix, design.weights, design.mixes, design.variances, design.tail, 50)
    assert proof.gap <= 1.1 * GAP
    # The design from a matrix with this Gram matrix, for the full rank.
    root = np.linalg.cholesky(gram_matrix).T
    full = ky_fan_design(root, 1024)
    certified(root, full)
    assert full.bound * (1 - GAP) <= 6484328.9998 <= full.value * (1 + GAP)


@pytest.mark.slow
def test_conjunctions_of_twelve_attributes():
    gram, a = Conjunctions(12, (1, 2, 3)), literals(12, (1, 2, 3))
    implicit, explicit = ky_fan_gram(gram, 50), ky_fan_design(a, 50)
    agree(implicit, explicit)
    certified(a, explicit)
    assert certificates.ky_fan_lower(a, implicit.weights, 50) == pytest.approx(implicit.bound, rel=1e-8)
    assert implicit.bound * (1 - GAP) <= 3143.4112 <= implicit.value * (1 + GAP)
