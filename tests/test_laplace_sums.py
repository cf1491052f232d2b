"""Intervals of sums of discrete Laplace noises: never below the exact quantile, and close above it."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.stats import binom, gamma, norm

from fitnoise.mechanisms.laplace import laplace_sums
from fitnoise.mechanisms.laplace.laplace_sums import HALF_WIDTH_TOLERANCE, LATTICE, half_width, tail
from refused import refused

T = 2.0**14
SMOOTH = 2.0**50
"""A scale at which the lattice no longer shows: δ is below 10⁻¹⁴ of the half-width."""
LEVELS = [0.5, 0.8, 0.95, 0.999, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12]


def exact_pmf(coefficients, t, reach):
    """Return P(Σ a_i Z_i = k) for |k| ≤ reach and integer a_i: every step adds positive numbers, so digits stay."""
    q = np.exp(-1 / t)
    p = np.zeros(2 * reach + 1)
    p[reach] = 1
    for a in np.abs(coefficients):
        step = np.zeros(a + 1)
        step[0], step[a] = 1, -q
        for _ in range(2):
            p = lfilter([1 - q], step, p)[::-1]  # one geometric noise upwards, then one downwards
    return p


def exact_quantile(coefficients, t, confidence):
    """The smallest m with P(|X| ≤ m) ≥ confidence, and the pmf of |X| as tails P(|X| > m), m = 0 … reach."""
    reach = int(40 * t * np.sqrt(2 * np.sum(np.square(coefficients, dtype=float))))
    p = exact_pmf(coefficients, t, reach)
    sides = p[reach:].copy()
    sides[1:] += p[:reach][::-1]
    tails = np.append(np.cumsum(sides[:0:-1])[::-1], 0)
    return int(np.argmax(tails <= 1 - confidence)), tails


def partial_fractions(b, m, digits=90):
    """P(|Σ b_i L_i| > m) for Laplace noises of scale 1 and distinct b_i; the sum alternates, so digits are lost."""
    with localcontext() as context:
        context.prec = digits
        b, m = [Fraction(float(x)) for x in b], Fraction(float(m))
        total = Decimal(0)
        for i, x in enumerate(b):
            weight = Fraction(1)
            for j, y in enumerate(b):
                weight *= 1 if i == j else x * x / (x * x - y * y)
            power = m / x
            exponential = (-(Decimal(power.numerator) / Decimal(power.denominator))).exp()
            total += Decimal(weight.numerator) / Decimal(weight.denominator) * exponential
        return total


# --------------------------------------------------------------------------------------------------------- exact laws


@pytest.mark.parametrize("confidence", LEVELS)
@pytest.mark.parametrize("t", [0.3, 5.0, 1000.0, T, 2.0**40])
def test_one_noise_has_its_exact_quantile(t, confidence):
    with localcontext() as context:
        context.prec = 60
        q = (-1 / Decimal(t)).exp()
        miss = 1 - Decimal(confidence)

        def exact_tail(k):
            return 2 * (-(k + 1) / Decimal(t)).exp() / (1 + q) if k >= 0 else Decimal(1)

        got = half_width([[-1.0, 0.0]], t, confidence)[0]
        assert got == int(got)
        k = Decimal(int(got))
        assert exact_tail(k) <= miss
        assert exact_tail(k - max(1, int(k * Decimal("1e-14")))) > miss
        bound = Decimal(tail([[1.0]], t, got)[0])
        assert exact_tail(k) <= bound <= exact_tail(k) * Decimal("1.000000000001")
        if k > 0 and t < 1e6:
            just_below = Decimal(tail([[1.0]], t, np.nextafter(got, 0))[0])
            assert exact_tail(k - 1) <= just_below <= exact_tail(k - 1) * Decimal("1.000000000001")


def test_one_noise_on_a_non_integer_lattice():
    m = half_width([[0.1], [1 / 3], [-7.7]], T, 0.95)
    steps = half_width([[1.0]], T, 0.95)[0]
    for a, bound in zip([0.1, 1 / 3, 7.7], m, strict=True):
        assert Fraction(a) * int(steps) <= Fraction(bound) <= Fraction(a) * int(steps) * (1 + Fraction(1, 2**50))
    assert (tail([[0.1], [1 / 3], [-7.7]], T, m) <= 0.05).all()


@pytest.mark.parametrize(
    "coefficients",
    [[1, 1], [2, 3], [1, 1, 1], [5, 1], [7, 3, 2], [1] * 12, [9, 1, 1, 1, 1], [3, 3, 2, 2, 1], [12, 6, 4, 3], [40, 1]],
)
@pytest.mark.parametrize("t", [16.0, 100.0, 1024.0])
def test_against_the_exact_discrete_law(coefficients, t):
    if t * np.linalg.norm(coefficients) > 2e4:
        t = 100.0
    for confidence in LEVELS[:-1]:
        exact, tails = exact_quantile(coefficients, t, confidence)
        width = half_width([coefficients], t, confidence)[0]
        assert exact <= width <= exact * (1 + HALF_WIDTH_TOLERANCE + LATTICE / t)
    places = np.unique(np.geomspace(1, np.argmax(tails < 1e-11), 40).astype(int))
    bounds = tail(np.tile(coefficients, (len(places), 1)), t, places)
    assert (bounds >= tails[places]).all()
    assert (tail([coefficients], t, 0.0) == 1).all()


@settings(max_examples=60)
@given(
    st.lists(st.integers(-9, 9).filter(bool), min_size=1, max_size=6),
    st.floats(1, 300),
    st.floats(0.001, 1 - 1e-9),
)
def test_never_below_the_exact_quantile(coefficients, t, confidence):
    exact, tails = exact_quantile(coefficients, t, confidence)
    width = half_width([coefficients], t, confidence)[0]
    assert width >= exact - (abs(tails[exact] / (1 - confidence) - 1) < 1e-9)
    deviation = t * np.sqrt(2 * np.sum(np.square(coefficients)))
    assert width <= exact + (HALF_WIDTH_TOLERANCE + LATTICE / t) * max(exact, deviation) + np.abs(coefficients).max()


@pytest.mark.parametrize("kind", ["even", "wide", "close", "lone"])
@pytest.mark.parametrize("size", [2, 3, 5, 9])
def test_against_partial_fractions(kind, size, rng):
    for _ in range(12):
        a = {
            "even": lambda: rng.uniform(0.1, 1, size),
            "wide": lambda: 10 ** rng.uniform(-6, 0, size),
            "close": lambda: np.append(1.0, 1 - 10 ** rng.uniform(-6, -0.1, size - 1)),
            "lone": lambda: np.append(1.0, 10 ** rng.uniform(-3, -0.5) * rng.uniform(0.5, 1, size - 1)),
        }[kind]()
        miss = 10 ** rng.uniform(-12, np.log10(0.5))
        m = half_width([a], SMOOTH, 1 - miss)[0]
        miss = Decimal(1 - (1 - miss))
        truth = partial_fractions(a * SMOOTH, m)
        assert truth <= miss
        assert partial_fractions(a * SMOOTH, m * (1 - HALF_WIDTH_TOLERANCE)) > miss
        assert truth <= Decimal(tail([a], SMOOTH, m)[0]) <= truth * Decimal("1.0001")


@pytest.mark.parametrize("loss", [1e-3, 0.03, 0.3])
def test_a_rough_integral_is_still_a_bound(loss, monkeypatch, rng):
    """Too few nodes, too long a step: the terms j ≠ 0 and the truncation are large, and are on the safe side."""
    monkeypatch.setattr("fitnoise.mechanisms.laplace.laplace_sums._LOSS", loss)
    monkeypatch.setattr("fitnoise.mechanisms.laplace.laplace_sums._BRACKET_TOLERANCE", 100.0)
    worst = Decimal(0)
    for size in (2, 3, 6):
        for _ in range(25):
            a = np.append(1.0, 10 ** rng.uniform(-1.5, 0) * rng.uniform(0.3, 1, size - 1))
            miss = 10 ** rng.uniform(-9, np.log10(0.5))
            m = half_width([a], SMOOTH, 1 - miss)[0]
            truth = partial_fractions(a * SMOOTH, m)
            bound = Decimal(tail([a], SMOOTH, m)[0])
            assert truth <= min(Decimal(1 - (1 - miss)), bound)
            worst = max(worst, bound / truth - 1)
    assert worst > Decimal(loss / 20)  # the integrals were rough indeed


@pytest.mark.parametrize("miss", [2.0**-1, 2.0**-5, 2.0**-20, 2.0**-40])
@pytest.mark.parametrize("low", [1, 300])
def test_power_sums_against_partial_fractions(low, miss, rng):
    """More columns than are multiplied out."""
    a = rng.choice(np.arange(low, 500), 90, replace=False)
    m = half_width([a], SMOOTH, 1 - miss)[0] / SMOOTH
    assert partial_fractions(a, m, 500) <= Decimal(miss)
    assert partial_fractions(a, m * (1 - HALF_WIDTH_TOLERANCE), 500) > Decimal(miss)


@pytest.mark.parametrize("confidence", LEVELS)
def test_equal_coefficients(confidence):
    """n Laplace noises are the difference of two Gamma variables; two of them have a closed form."""
    miss = 1 - confidence
    m = half_width([[1.0, -1.0]], SMOOTH, confidence)[0] / SMOOTH
    assert (1 + m / 2) * np.exp(-m) <= miss * (1 + 1e-13)
    low = m * (1 - HALF_WIDTH_TOLERANCE)
    assert (1 + low / 2) * np.exp(-low) > miss
    for n in (3, 8, 40):
        m = half_width([np.ones(n)], SMOOTH, confidence)[0] / SMOOTH
        # P(G − G' > m) by Gauss–Laguerre-like integration of positive terms over G'
        x = np.linspace(0, n + 60 * np.sqrt(n), 40_001)
        weights = np.full(x.size, x[1])
        weights[1:-1:2] *= 4
        weights[2:-1:2] *= 2
        weights /= 3
        for offset, sign in ((m, 1), (m * (1 - HALF_WIDTH_TOLERANCE), -1)):
            truth = 2 * np.dot(gamma.pdf(x, n) * weights, gamma.sf(x + offset, n))
            assert sign * (miss * (1 + 1e-6 * sign) - truth) >= 0


# --------------------------------------------------------------------------------------------------------- properties

rows = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=12)


@settings(max_examples=60)
@given(rows, st.randoms(use_true_random=False), st.sampled_from(LEVELS), st.floats(1e-8, 1e8))
def test_order_signs_and_units_do_not_matter(row, random, confidence, unit):
    m = half_width([row], T, confidence)[0]
    other = [random.choice((-1, 1)) * a for a in row] + [0.0]
    random.shuffle(other)
    assert half_width([other], T, confidence)[0] == pytest.approx(m, rel=1e-9)
    assert half_width([np.multiply(unit, row)], T, confidence)[0] == pytest.approx(unit * m, rel=HALF_WIDTH_TOLERANCE)


@settings(max_examples=40)
@given(rows, st.sampled_from(LEVELS))
def test_scaling_the_noise_scales_the_half_width(row, confidence):
    m = half_width([row], SMOOTH, confidence)[0]
    assert half_width([row], 8 * SMOOTH, confidence)[0] == pytest.approx(8 * m, rel=HALF_WIDTH_TOLERANCE)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.floats(1e-3, 1), st.integers(0, 9)), min_size=1, max_size=6), st.sampled_from(LEVELS))
def test_a_multiplicity_is_a_column_repeated(columns, confidence):
    a, n = np.array([c for c, _ in columns]), np.array([k for _, k in columns])
    once = half_width([a], T, confidence, n)
    many = half_width([np.repeat(a, n)], T, confidence)
    assert once == pytest.approx(many, rel=HALF_WIDTH_TOLERANCE)
    if n.any():
        assert tail([a], T, once, n) == pytest.approx(tail([np.repeat(a, n)], T, once), rel=1e-4)


HARD = {
    "one": [1.0],
    "two equal": [1.0, 1.0],
    "nearly equal": [1.0, 1 - 1e-9],
    "half": [1.0, 0.5],
    "one and dust": [1.0] + [1e-6] * 999,
    "one and sand": [1.0] + [1e-3] * 999,
    "one and gravel": [1.0] + [0.5] * 999,
    "two and sand": [1.0, 0.7] + [1e-3] * 999,
    "all equal": [1.0] * 1000,
    "six decades": list(np.geomspace(1e-6, 1, 1000)),
    "sixty-five": [1.0] * 65,
    "three hundred decades": [1.0, 1e-300],
}


@pytest.mark.parametrize("row", HARD.values(), ids=HARD)
def test_grows_with_the_confidence_and_agrees_with_the_tail(row):
    levels = np.append([1e-9, 0.01, 0.2, 0.4], [*LEVELS, 1 - 1e-15])
    a = np.tile(row, (len(levels), 1))
    m = half_width(a, T, levels)
    assert (np.diff(m) > 0)[1:].all()
    bounds = tail(a, T, m)
    assert (bounds <= (1 - levels) * (1 + 1e-4)).all()
    assert (bounds >= (1 - levels) * (1 - 1e-3))[4:].all()
    deviation = T * np.sqrt(2 * np.sum(np.square(row)))
    assert (m[4:] <= 1.001 * deviation * np.sqrt(1 / (1 - levels[4:]))).all()  # Chebyshev


@pytest.mark.parametrize("confidence", LEVELS)
def test_many_noises_are_normal(confidence):
    z = norm.isf((1 - confidence) / 2)
    for row, n in (([1.0], [1e9]), ([1.0, 3.0, 1e-3], [1e8, 1e8, 1e12])):
        deviation = np.sqrt(2 * np.dot(np.square(row), n))
        assert half_width([row], T, confidence, n)[0] == pytest.approx(
            z * T * deviation, rel=HALF_WIDTH_TOLERANCE + LATTICE / T
        )
        assert half_width([row], SMOOTH, confidence, n)[0] == pytest.approx(
            z * SMOOTH * deviation, rel=HALF_WIDTH_TOLERANCE
        )


def test_between_normal_and_laplace_the_kurtosis_counts():
    """Cornish–Fisher to second order is right to the third for many noises; the normal quantile would be too short."""
    n, z = 1000, norm.isf(0.0005)
    excess = 3 / n
    expansion = z + excess * (z**3 - 3 * z) / 24
    m = half_width([np.ones(n)], T, 0.999)[0] / (T * np.sqrt(2 * n))
    assert m == pytest.approx(expansion, rel=1e-4)
    assert m > z * (1 + 1e-3)


def test_all_direct_columns_and_power_sums_agree(monkeypatch, rng):
    a = np.concatenate([rng.standard_normal((20, 300)), 10 ** rng.uniform(-4, 0, (20, 300)), np.ones((1, 300))])
    n = rng.integers(1, 5, 300)
    few = half_width(a, T, 1 - 1e-9), half_width(a, T, 0.9, n)
    monkeypatch.setattr("fitnoise.mechanisms.laplace.laplace_sums._DIRECT", 300)
    many = half_width(a, T, 1 - 1e-9), half_width(a, T, 0.9, n)
    np.testing.assert_allclose(few, many, rtol=HALF_WIDTH_TOLERANCE)


def test_rows_do_not_touch_each_other(rng):
    a = rng.standard_normal((700, 40)) * 10 ** rng.uniform(-5, 0, (700, 40))
    a[::7] = 0
    a[1::7, 1:] = 0
    levels = 1 - 10 ** rng.uniform(-10, -0.4, 700)
    joint = half_width(a, T, levels)
    assert (joint[::7] == 0).all()
    assert (tail(a, T, joint)[::7] == 0).all()
    rows = rng.choice(700, 40, replace=False)
    separate = [half_width(a[[j]], T, levels[j])[0] for j in rows]
    np.testing.assert_allclose(joint[rows], separate, rtol=1e-12)


def test_nothing_to_sum():
    assert half_width(np.zeros((0, 3)), T, 0.9).shape == (0,)
    assert (half_width(np.zeros((4, 0)), T, 0.9) == np.zeros(4)).all()
    assert half_width([[2.0, 3.0]], T, 0.9, [0, 0])[0] == 0
    assert half_width([[2.0, 1.0]], T, 0.9, [0, 1])[0] == half_width([[1.0]], T, 0.9)[0]


def test_extreme_arguments_stay_bounds():
    for row in HARD.values():
        for t in (1e-90, 0.01, 1.0, 1e90):
            m = half_width([row], t, LEVELS[2])[0]
            assert 0 <= m < np.inf
            limits = [0, 1e-300, m * 1e-9, m, 30 * m, 1000 * m, 1e300]
            bounds = tail(np.tile(row, (7, 1)), t, limits)
            assert ((bounds >= 0) & (bounds <= 1)).all()
            assert (np.diff(bounds) <= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_simulated_noises_fall_inside(confidence, rng):
    draws, t = 200_000, 2.0**10
    a = np.array([[1.0, 0.4, 0.4, -0.1, 0.05], [1.0, 1.0, 0.0, 0.0, 0.0], [0.3, 0.3, 0.3, 0.3, 0.3]])
    p = -np.expm1(-1 / t)
    noise = rng.geometric(p, (5, draws)) - rng.geometric(p, (5, draws))
    inside = (np.abs(a @ noise) <= half_width(a, t, confidence)[:, None]).sum(axis=1)
    assert (inside >= binom.ppf(5e-7 / 3, draws, confidence)).all()
    assert (inside <= binom.isf(5e-7 / 3, draws, confidence + 0.05 * (1 - confidence))).all()


def test_long_rows_take_few_evaluations_of_their_integrals(rng, monkeypatch):
    evaluated, evaluate = [], laplace_sums._Integral.__call__

    def counted(self, m, log_p):
        evaluated.append(len(m))
        return evaluate(self, m, log_p)

    monkeypatch.setattr(laplace_sums._Integral, "__call__", counted)
    a = rng.standard_normal((128, 1060)) * 10 ** rng.uniform(-6, 0, (128, 1060))
    half_width(a, T, 0.95)
    assert sum(evaluated) <= 16 * len(a)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0, np.nan]], T, 0.9), "release.coefficients-not-finite"),
        (([[1.0, -np.inf]], T, 0.9), "release.coefficients-not-finite"),
        (([1.0], T, 0.9), "release.coefficients-not-matrix"),
        (([["a"]], T, 0.9), "release.argument-not-numbers"),
        (([[1e200]], T, 0.9), "release.coefficients-out-of-range"),
        (([[1.0]], 0.0, 0.9), "release.noise-scale-out-of-range"),
        (([[1.0]], -1.0, 0.9), "release.noise-scale-out-of-range"),
        (([[1.0]], np.inf, 0.9), "release.noise-scale-out-of-range"),
        (([[1.0]], np.nan, 0.9), "release.noise-scale-out-of-range"),
        (([[1.0]], [T, T], 0.9), "release.several-noise-scales"),
        (([[1.0]], T, 0.0), ("release.argument-not-by-row", "release.confidence-out-of-range")),
        (([[1.0]], T, 1.0), ("release.argument-not-by-row", "release.confidence-out-of-range")),
        (([[1.0]], T, np.nan), ("release.argument-not-by-row", "release.confidence-out-of-range")),
        (([[1.0]], T, [0.9, 0.9]), ("release.argument-not-by-row", "release.confidence-out-of-range")),
        (([[1.0]], T, 0.9, [1, 2]), ("release.multiplicities-out-of-range", "release.multiplicities-shape")),
        (([[1.0]], T, 0.9, [1.5]), ("release.multiplicities-out-of-range", "release.multiplicities-shape")),
        (([[1.0]], T, 0.9, [-1.0]), ("release.multiplicities-out-of-range", "release.multiplicities-shape")),
        (([[1.0]], T, 0.9, [1e13]), ("release.multiplicities-out-of-range", "release.multiplicities-shape")),
    ],
)
def test_refusals(arguments, message):
    with refused(message):
        half_width(*arguments)


@pytest.mark.parametrize("m", [-1.0, np.nan, np.inf, [1.0, 2.0]])
def test_refused_limits(m):
    with refused("release.argument-not-by-row", "release.limit-out-of-range"):
        tail([[1.0]], T, m)
