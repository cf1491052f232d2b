"""The relations between Δ², μ, ρ and (ε, δ), against 50-digit arithmetic, another library, and their own laws."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian, get_sigma_gaussian
from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
from dp_accounting.rdp.rdp_privacy_accountant import compute_delta, compute_epsilon
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy import stats

from fitnoise.kernel import privacy
from fitnoise.kernel.privacy import gaussian_delta, lattice_delta, mu, pure_mu, pure_mu_squared, rho, zcdp_delta
from fitnoise.kernel.units import DataSource, Neighbours, OutsideDomain, Privacy, PrivacyUnit
from fitnoise.request.curves import gaussian_epsilon, gaussian_mu, lattice_epsilon, lattice_mu, zcdp_epsilon, zcdp_rho
from refused import refused
from tolerances import EXACT

GUARANTEED = 1e-10
"""Relative error the docstrings of the Gaussian curve promise (measured: 5e-13)."""

TINY = 5e-324
LARGEST = 1e100

MUS = (1e-6, 1e-3, 0.03, 0.3, 0.5, math.nextafter(0.5, 1), 1.0, 3.0, 10.0, 50.0)
RHOS = (1e-6, 1e-3, 0.1, 0.5, 2.56, 10.0, 1e3)
EPSILONS = (0.0, 1e-6, 0.01, 0.5, 1.0, 5.0, 30.0, 1e3)
DELTAS = (1e-300, 1e-100, 1e-30, 1e-10, 1e-6, 1e-3, 0.1, 0.5, 0.9)


# --- References in 50 digits ------------------------------------------------------------------------------


def at_fifty_digits(function):
    """Fifty digits, or more where the caller asks for more."""

    def wrapped(*arguments):
        with mpmath.workdps(max(50, mpmath.mp.dps)):
            return function(*map(mpmath.mpf, arguments))

    return wrapped


@at_fifty_digits
def reference_gaussian(mu, epsilon):
    def phi(x):
        return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

    return phi(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * phi(-mu / 2 - epsilon / mu)


def conversion(rho, epsilon, alpha):
    """The expression whose infimum over alpha > 1 is the optimal conversion, as printed in the paper."""
    tilt = (alpha - 1) * (alpha * rho - epsilon)
    return mpmath.exp(tilt) / (alpha - 1) * (1 - 1 / alpha) ** alpha


@at_fifty_digits
def reference_zcdp(rho, epsilon):
    """Infimum by bisection of the derivative of the logarithm in log(alpha − 1), in which it has one zero."""
    low, high = mpmath.mpf(-3000), mpmath.mpf(800)
    for _ in range(130):
        middle = (low + high) / 2
        s = mpmath.exp(middle)
        slope = (1 + 2 * s) * rho - epsilon - mpmath.log1p(1 / s)
        low, high = (low, middle) if slope > 0 else (middle, high)
    with mpmath.workdps(2000 if abs(low) > 40 else 60):  # s + 1 and 1 − 1/(s + 1) need the digits
        return conversion(rho, epsilon, 1 + mpmath.exp(low))


def bisect(increasing, low, high):
    for _ in range(160):
        middle = (low + high) / 2
        low, high = (low, middle) if increasing(middle) > 0 else (middle, high)
    return low


# --- The curve of the Gaussian ----------------------------------------------------------------------------


@pytest.mark.parametrize("mu", MUS)
def test_gaussian_delta_against_fifty_digits(mu):
    # a, the deviation at which the curve is cut, goes from where ε = 0 to where δ is 1e-290 or so.
    points = [-mu / 2, -mu / 4, 0.0, 0.1, 1.0, 3.0, 6.0, 10.0, 20.0, 30.0, 36.0]
    for epsilon in {max(0.0, (a + mu / 2) * mu) for a in points} | {1e-300, 1e-12, mu * mu / 2}:
        expected = reference_gaussian(mu, epsilon)
        assert expected > 1e-300
        assert abs(gaussian_delta(mu, epsilon) / expected - 1) < GUARANTEED


def test_gaussian_delta_at_a_published_point():
    # Balle and Wang's curve at μ = 1, ε = 1: Φ(−1/2) − e Φ(−3/2).
    assert gaussian_delta(1, 1) == pytest.approx(0.126936737506643946, rel=1e-14)
    assert reference_gaussian(1, 1) == pytest.approx(0.126936737506643946, rel=1e-16)


@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
def test_gaussian_curve_against_dp_accounting(mu, epsilon):
    delta = gaussian_delta(mu, epsilon)
    assert GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-8, abs=1e-15)
    if delta > 1e-12:  # beyond, the difference of their two terms has lost its digits
        assert get_epsilon_gaussian(1 / mu, delta) == pytest.approx(epsilon, rel=1e-8, abs=1e-11)
        assert 1 / get_sigma_gaussian(epsilon, delta) == pytest.approx(gaussian_mu(epsilon, delta), rel=1e-8)


@pytest.mark.no_cover
@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", DELTAS)
def test_gaussian_epsilon_against_fifty_digits(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    if delta >= gaussian_delta(mu, 0):
        assert epsilon == 0
        return
    expected = bisect(lambda e: delta - reference_gaussian(mu, e), mpmath.mpf(0), mpmath.mpf(mu) * (mu / 2 + 38))
    assert abs(epsilon - expected) < (GUARANTEED * expected if expected >= 1e-4 * mu else 1e-14 * max(mu, mu * mu))


@pytest.mark.parametrize("mu", MUS)
def test_gaussian_epsilon_is_zero_from_the_curve_at_zero_up(mu):
    delta = gaussian_delta(mu, 0)
    assert delta == 1 or gaussian_epsilon(mu, delta) == 0
    assert gaussian_epsilon(mu, delta * (1 - EXACT)) > 0


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.6, 3.0])
@pytest.mark.parametrize("fraction", [1e-9, 1e-6, 5e-5])
def test_gaussian_epsilon_near_its_zero(mu, fraction):
    delta = float(reference_gaussian(mu, fraction * mu))
    expected = bisect(lambda e: delta - reference_gaussian(mu, e), mpmath.mpf(0), mpmath.mpf(mu))
    assert abs(gaussian_epsilon(mu, delta) - expected) < 1e-14 * max(mu, mu * mu)


@pytest.mark.no_cover
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_gaussian_mu_against_fifty_digits(epsilon, delta):
    # δ rises with μ, so μ is right to 1e-10 if δ lies between the values 1e-10 to its left and right. Near
    # μ = 0 the two terms of δ agree to as many digits as δ has zeros: the reference takes 350.
    mu = gaussian_mu(epsilon, delta)
    with mpmath.workdps(350):
        lower, right = (mpmath.mpf(mu) * (1 + side * GUARANTEED) for side in (-1, 1))
        assert reference_gaussian(lower, epsilon) < delta < reference_gaussian(right, epsilon)


@given(st.floats(1e-3, 50), st.floats(0, 100), st.floats(1.0, 2.0))
def test_gaussian_delta_falls_in_epsilon_and_rises_in_mu(mu, epsilon, factor):
    delta = gaussian_delta(mu, epsilon)
    assert 0 <= delta <= 1
    assert gaussian_delta(mu, epsilon * factor) <= delta * (1 + 1e-11)
    assert gaussian_delta(mu * factor, epsilon) >= delta * (1 - 1e-11)


@given(st.floats(1e-6, 50), st.floats(1e-300, 0.9))
@example(0.5, 1e-300)
def test_gaussian_epsilon_inverts_gaussian_delta(mu, delta):
    epsilon = gaussian_epsilon(mu, delta)
    if epsilon == 0:
        assert delta >= gaussian_delta(mu, 0) * (1 - EXACT)
    else:
        assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=EXACT)


@given(st.floats(0, 1e3), st.floats(1e-300, 0.9))
@example(0.0, 1e-300)
def test_gaussian_mu_inverts_gaussian_delta(epsilon, delta):
    assert gaussian_delta(gaussian_mu(epsilon, delta), epsilon) == pytest.approx(delta, rel=EXACT)


# --- The conversion of zCDP -------------------------------------------------------------------------------


@pytest.mark.no_cover
@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_zcdp_delta_against_fifty_digits(rho, epsilon):
    expected = reference_zcdp(rho, epsilon)
    delta = zcdp_delta(rho, epsilon)
    assert delta >= expected  # exact comparison: mpmath takes the float as it is
    assert delta <= max(expected * (1 + EXACT), 1e-300)


@given(st.floats(1e-6, 1e3), st.floats(0, 1e3), st.floats(1e-6, 1e6))
def test_zcdp_delta_is_at_most_the_bound_at_any_order(rho, epsilon, excess):
    with mpmath.workdps(50):
        bound = conversion(mpmath.mpf(rho), mpmath.mpf(epsilon), 1 + mpmath.mpf(excess))
    assert zcdp_delta(rho, epsilon) <= bound * (1 + EXACT) + 1e-300


@pytest.mark.no_cover
@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_epsilon_against_fifty_digits(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    assert zcdp_delta(rho, epsilon) <= delta
    assert reference_zcdp(rho, epsilon) <= delta
    if epsilon > 0:  # a slightly smaller ε does not hold
        assert reference_zcdp(rho, max(0.0, epsilon * (1 - EXACT) - 1e-12)) > delta


@pytest.mark.no_cover
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_rho_against_fifty_digits(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_epsilon(rho, delta) <= epsilon
    assert rho < 1e-300 or reference_zcdp(rho, epsilon) <= delta
    larger = rho * (1 + EXACT) if rho > 1e-300 else 1e-290
    assert reference_zcdp(larger, epsilon) > delta


@pytest.mark.no_cover
@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5, 2.56, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_zcdp_epsilon_against_a_renyi_accountant(rho, delta):
    # Fed the same curve αρ on a fine grid of orders, it can only be worse, and is so only slightly.
    orders = 1 + np.geomspace(0.02, 1e4, 20_000)
    theirs, _ = compute_epsilon(orders, orders * rho, delta)
    ours = zcdp_epsilon(rho, delta)
    assert ours <= theirs * (1 + EXACT)
    assert theirs <= ours * (1 + 1e-6) + 1e-9
    their_delta, _ = compute_delta(orders, orders * rho, ours)
    assert zcdp_delta(rho, ours) * (1 - EXACT) <= their_delta <= zcdp_delta(rho, ours) * (1 + 1e-5)


@given(st.floats(1e-6, 1e3), st.floats(0, 1e3))
@example(1e-6, 0.0)
@example(1e3, 0.0)
def test_zcdp_delta_bounds_gaussian_delta(rho, epsilon):
    assert zcdp_delta(rho, epsilon) >= gaussian_delta(math.sqrt(2 * rho), epsilon) * (1 - 1e-12)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0, 7.5])
@pytest.mark.parametrize("distance", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
def test_zcdp_delta_holds_for_discrete_gaussian_noise(scale, distance, epsilon):
    # The exact δ of N_Z(0, scale²) between inputs at a distance, by summing over the lattice.
    k = np.arange(-300, 301)
    weights = np.exp(-((k / scale) ** 2) / 2)
    loss = (distance**2 - 2 * distance * k) / (2 * scale**2)  # log P(k) / P(k − distance), negated
    exact = float(np.sum(weights * np.maximum(0.0, -np.expm1(np.minimum(0.0, epsilon - loss))))) / weights.sum()
    guaranteed = zcdp_delta(rho(Fraction(distance) ** 2 / Fraction(scale) ** 2), epsilon)
    assert exact <= guaranteed * (1 + 1e-12)


def test_a_fraction_is_rounded_up():
    third = Fraction(1, 3)  # its nearest float is below it
    assert Fraction(1 / 3) < third
    above = math.nextafter(1 / 3, 1)
    for delta in (1e-9, 1e-3):
        assert zcdp_epsilon(third, delta) == zcdp_epsilon(above, delta)
    assert zcdp_delta(third, 1.0) == zcdp_delta(above, 1.0) > zcdp_delta(1 / 3, 1.0)
    assert zcdp_delta(Fraction(1, 2), 1.0) == zcdp_delta(0.5, 1.0)
    assert zcdp_delta(Fraction(1, 10**400), 1.0) == zcdp_delta(TINY, 1.0) > 0


@given(st.floats(1e-6, 1e3), st.floats(0, 1e3), st.floats(1.0, 2.0))
def test_zcdp_delta_falls_in_epsilon_and_rises_in_rho(rho, epsilon, factor):
    delta = zcdp_delta(rho, epsilon)
    assert 0 < delta <= 1
    assert zcdp_delta(rho, epsilon * factor) <= delta * (1 + EXACT)
    assert zcdp_delta(rho * factor, epsilon) >= delta * (1 - EXACT)


@given(st.floats(1e-6, 1e3), st.floats(1e-300, 0.9))
def test_zcdp_epsilon_and_rho_are_inverse_on_the_safe_side(rho, delta):
    epsilon = zcdp_epsilon(rho, delta)
    assert zcdp_delta(rho, epsilon) <= delta
    back = zcdp_rho(epsilon, delta)
    assert zcdp_epsilon(back, delta) <= epsilon
    assume(epsilon > 1e-3)  # many ρ have ε = 0; just above, ε is a difference of larger numbers
    assert back == pytest.approx(rho, rel=EXACT)


# --- Edges ------------------------------------------------------------------------------------------------


def test_roots_are_found_where_an_interval_is_halved_many_times():
    for root in (1e-250, 0.3):
        result = privacy.increasing_root(lambda x, root=root: -1.0 if x < root else 1.0, 0.0, 1.0)
        assert result == pytest.approx(root, rel=1e-14)
    assert privacy.increasing_root(lambda x: x + 1, 0.0, 2.0) == 0
    assert privacy.increasing_root(lambda x: x - 3, 0.0, 2.0) == 2


def test_mu_of_hardly_any_epsilon_is_found():
    """The lower bound is a difference of numbers that are nearly equal."""
    mu = gaussian_mu(1e-12, 1e-300)
    assert math.log(gaussian_delta(mu, 1e-12)) == pytest.approx(math.log(1e-300), rel=1e-10)


@pytest.mark.parametrize(
    "epsilon", [Fraction(1, 2**20), Fraction(1, 10**4), Fraction(1, 100), Fraction(1, 2), Fraction(9)]
)
def test_the_square_of_mu_of_what_is_pure_is_hardly_more(epsilon):
    square = Fraction(pure_mu(epsilon)) ** 2
    assert square < pure_mu_squared(epsilon) <= square * (1 + Fraction(3, 10**11))


@pytest.mark.parametrize("epsilon", [0.0, 1.0, LARGEST])
def test_nothing_released_costs_nothing(epsilon):
    assert gaussian_delta(0.0, epsilon) == 0
    assert zcdp_delta(0.0, epsilon) == 0
    assert zcdp_delta(Fraction(0), epsilon) == 0


@pytest.mark.parametrize("delta", [TINY, 1e-10, 0.5])
def test_nothing_released_needs_no_epsilon(delta):
    assert gaussian_epsilon(0.0, delta) == 0
    assert zcdp_epsilon(0.0, delta) == 0


def test_a_delta_below_every_float_is_zero_when_nominal_and_positive_when_guaranteed():
    assert gaussian_delta(1.0, 60.0) == 0
    assert zcdp_delta(0.5, 60.0) == TINY
    assert reference_zcdp(0.5, 60.0) < TINY


def test_enormous_costs_leave_no_privacy():
    assert gaussian_delta(LARGEST, 0.0) == 1
    assert zcdp_delta(LARGEST, 0.0) == 1
    assert zcdp_delta(LARGEST, LARGEST / 2) == 1


EXTREMES = (0.0, TINY, 1e-310, 1e-200, 1e-100, 1e-16, 1.0, 1e6, 1e50, LARGEST)
EXTREME_DELTAS = (TINY, 1e-310, 1e-160, 1e-16, 0.3, 0.5, 1 - 1e-10, 1 - 2.0**-53)


@pytest.mark.parametrize("one", EXTREMES)
def test_every_accepted_argument_gives_a_finite_answer_on_the_safe_side(one):
    for second in EXTREMES:
        assert 0 <= gaussian_delta(one, second) <= 1
        assert 0 <= zcdp_delta(one, second) <= 1
    for delta in EXTREME_DELTAS:
        assert 0 <= gaussian_epsilon(one, delta) < math.inf
        assert 0 < gaussian_mu(one, delta) < math.inf
        epsilon = zcdp_epsilon(one, delta)
        assert 0 <= epsilon < math.inf
        assert epsilon > LARGEST or zcdp_delta(one, epsilon) <= delta
        assert 0 <= zcdp_rho(one, delta) < math.inf
        assert zcdp_epsilon(zcdp_rho(one, delta), delta) <= one


@pytest.mark.parametrize("bad", [-1.0, -TINY, math.nan, math.inf, -math.inf, 2 * LARGEST, Fraction(-1, 10**400)])
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda bad: gaussian_delta(bad, 1.0), "mu"),
        (lambda bad: gaussian_delta(1.0, bad), "epsilon"),
        (lambda bad: gaussian_epsilon(bad, 1e-6), "mu"),
        (lambda bad: gaussian_mu(bad, 1e-6), "epsilon"),
        (lambda bad: zcdp_delta(bad, 1.0), "rho"),
        (lambda bad: zcdp_delta(1.0, bad), "epsilon"),
        (lambda bad: zcdp_epsilon(bad, 1e-6), "rho"),
        (lambda bad: zcdp_rho(bad, 1e-6), "epsilon"),
        (lambda bad: lattice_delta(bad, 1.0), "mu"),
        (lambda bad: lattice_delta(1.0, bad), "epsilon"),
        (lambda bad: lattice_epsilon(bad, 1e-6), "mu"),
        (lambda bad: lattice_mu(bad, 1e-6), "epsilon"),
    ],
)
def test_bad_parameters_are_refused_by_name(call, name, bad):
    with pytest.raises(ValueError, match=f"^{name} is .* needs a finite number from 0"):
        call(bad)


@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-9, 2.0, math.nan, math.inf])
@pytest.mark.parametrize("function", [gaussian_epsilon, gaussian_mu, zcdp_epsilon, zcdp_rho])
def test_a_bad_delta_is_refused(function, bad):
    with pytest.raises(ValueError, match=r"^delta is .* strictly between 0 and 1"):
        function(1.0, bad)


# --- From the cost to ρ and μ -----------------------------------------------------------------------------

costs = st.fractions(min_value=0, max_value=10**30, max_denominator=10**30)


@given(costs, costs)
def test_rho_is_half_the_cost_and_adds(a, b):
    assert rho(a) * 2 == a
    assert rho(a + b) == rho(a) + rho(b)
    assert isinstance(rho(a), Fraction)


@given(costs)
@example(Fraction(0))
@example(Fraction(1, 10**600))
@example(Fraction(10**600))
@example(Fraction(9, 4))
def test_mu_is_the_square_root_to_the_last_place(cost):
    root = mu(cost)
    assert Fraction(math.nextafter(root, 0)) ** 2 <= cost <= Fraction(math.nextafter(root, math.inf)) ** 2


def test_mu_of_squares_is_exact():
    assert mu(Fraction(0)) == 0
    assert mu(Fraction(9, 4)) == 1.5
    assert mu(4) == 2
    assert rho(3) == Fraction(3, 2)
    assert mu(Fraction(1, 10**600)) == 1e-300


@pytest.mark.parametrize("function", [rho, mu])
def test_bad_costs_are_refused(function):
    with pytest.raises(ValueError, match="never negative"):
        function(Fraction(-1, 3))
    for inexact in (0.5, np.float64(0.5), np.int64(1), "1/2", None):
        with pytest.raises(TypeError, match="a cost is a Fraction, never a"):
            function(inexact)


def test_a_mu_above_every_float_is_refused():
    with pytest.raises(OverflowError):
        mu(Fraction(10**700))


# --- From pure ε to μ -------------------------------------------------------------------------------------

PURE = (Fraction(1, 10**300), Fraction(1, 10**9), Fraction(1, 100), Fraction(1, 3), Fraction(999, 1000), Fraction(1))
PURE += (Fraction(1001, 1000), Fraction(5, 2), Fraction(10), Fraction(36), Fraction(37), Fraction(745), Fraction(10**6))
PURE += (Fraction(10**100),)


@pytest.mark.parametrize("epsilon", PURE)
def test_pure_mu_solves_its_equation(epsilon):
    """Φ(μ/2) = e^ε/(1 + e^ε), in 60 digits as log Φ(−μ/2) = −log(1 + e^ε); for tiny ε by its slope."""
    mu = pure_mu(epsilon)
    with mpmath.workdps(60):
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        if e < 1e-8:  # √(π/2) ε (1 + O(ε²))
            assert abs(mu / (mpmath.sqrt(mpmath.pi / 2) * e) - 1) < 1e-12
            return
        below = -mpmath.log1p(mpmath.exp(-e)) - e  # log 1/(1 + e^ε)

        def tail(m):
            """log Φ(−m/2), by the asymptotic series where there are no digits left."""
            x = m / 2
            if x < 1000:
                return mpmath.log(mpmath.erfc(x / mpmath.sqrt(2)) / 2)
            return -x * x / 2 - mpmath.log(x * mpmath.sqrt(2 * mpmath.pi)) + mpmath.log1p(-1 / x**2 + 3 / x**4)

        low, high = mpmath.mpf(mu) * (1 - mpmath.mpf("1e-12")), mpmath.mpf(mu) * (1 + mpmath.mpf("1e-12"))
        assert tail(high) < below < tail(low)


def test_pure_mu_at_known_points():
    """ε = log 3 puts the point at α = 1/4: μ = 2 Φ⁻¹(3/4)."""
    third = pure_mu(Fraction(math.log(3)))
    assert third == pytest.approx(2 * 0.67448975019608174, rel=1e-14)
    assert pure_mu(Fraction(0)) == pure_mu(0) == 0
    assert pure_mu(Fraction(1)) == pytest.approx(2 * stats.norm.ppf(math.e / (1 + math.e)), rel=1e-14)
    assert pure_mu(1) == pure_mu(Fraction(1))


@pytest.mark.no_cover
@given(st.fractions(0, 100, max_denominator=10**20), st.fractions(1, 2, max_denominator=10**6))
@example(Fraction(1) - Fraction(1, 2**53), Fraction(1) + Fraction(1, 2**52))
@example(Fraction(1), Fraction(10**6 + 1, 10**6))
def test_pure_mu_rises_with_epsilon_and_stays_below_two_limits(epsilon, factor):
    """At most √(π/2) ε, its slope at 0, since μ is concave; and √(8 ε), to which it tends."""
    mu = pure_mu(epsilon)
    assert mu <= math.sqrt(math.pi / 2) * float(epsilon) * (1 + EXACT)
    assert mu <= math.sqrt(8 * float(epsilon)) * (1 + EXACT)
    assert pure_mu(epsilon * factor) >= mu * (1 - EXACT)
    assert pure_mu(epsilon * factor) <= mu * float(factor) * (1 + EXACT)


def test_pure_mu_tends_to_its_limits():
    for epsilon in (Fraction(1, 10**5), Fraction(1, 10**100)):
        assert pure_mu(epsilon) == pytest.approx(math.sqrt(math.pi / 2) * float(epsilon), rel=1e-9)
    assert pure_mu(Fraction(10**100)) == pytest.approx(math.sqrt(8e100), rel=EXACT)


def trade_off(mu, alpha):
    """G_μ(α) = Φ(Φ⁻¹(1 − α) − μ)."""
    return stats.norm.cdf(stats.norm.isf(alpha) - mu)


def pure_trade_off(epsilon, alpha):
    """f_ε(α) = max(0, 1 − e^ε α, e^−ε (1 − α))."""
    return np.maximum(0.0, np.maximum(1 - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - alpha)))


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(2), Fraction(6)])
def test_pure_mu_is_the_smallest_whose_trade_off_lies_below(epsilon):
    """Every α of a grid that is fine at both ends and holds the point where the two lines meet."""
    e = float(epsilon)
    meet = 1 / (1 + math.exp(e))
    ends = np.geomspace(1e-300, 0.5, 4000)
    alpha = np.unique(np.concatenate([[0.0, meet, 1.0], ends, 1 - ends, meet * np.linspace(0.9, 1.1, 2001)]))
    allowed = pure_trade_off(e, alpha)
    m = pure_mu(epsilon)
    assert (trade_off(m, alpha) <= allowed + 1e-14).all()
    assert trade_off(m, meet) == pytest.approx(pure_trade_off(e, meet), rel=1e-12)
    for smaller in (m * (1 - 1e-9), m * 0.99, m / 2):
        assert (trade_off(smaller, alpha) > allowed * (1 + 1e-13)).any()


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(3)])
def test_pure_mu_needs_no_less_delta_than_there_is(epsilon):
    """The (ε', δ) curve of G_μ lies above the one of ε-differential privacy, δ = 0 from ε on: at its worst by tanh."""
    e = float(epsilon)
    for fraction in np.linspace(0, 0.999, 200):
        pure = (math.exp(e) - math.exp(fraction * e)) / (1 + math.exp(e))  # of randomised response, the worst mechanism
        assert gaussian_delta(pure_mu(epsilon), fraction * e) >= pure * (1 - 1e-12)
    assert gaussian_delta(pure_mu(epsilon), 0.0) == pytest.approx(math.tanh(e / 2), rel=EXACT)


def test_pure_mu_takes_exact_numbers_only():
    for inexact in (0.5, np.float64(0.5), np.int64(1), "1/2", None):
        with pytest.raises(TypeError, match="is a Fraction, never a"):
            pure_mu(inexact)
    with pytest.raises(ValueError, match="never negative"):
        pure_mu(Fraction(-1, 10**400))
    with pytest.raises(ValueError, match=r"^epsilon is .* needs a finite number from 0"):
        pure_mu(Fraction(10**100) * 2)


def test_what_is_promised_is_its_word():
    assert [str(p) for p in Privacy] == ["zcdp", "pure", "auto"]
    assert Privacy("pure") is Privacy.PURE


# --- The unit ---------------------------------------------------------------------------------------------


def test_neighbours_are_their_words():
    assert [str(choice) for choice in Neighbours] == ["add-or-remove-one", "replace-one"]
    assert Neighbours("replace-one") is Neighbours.REPLACE_ONE


def test_the_default_unit_is_one_record():
    unit = PrivacyUnit()
    assert unit == PrivacyUnit("record", 1, Neighbours.ADD_OR_REMOVE_ONE)
    assert hash(unit) == hash(PrivacyUnit())
    assert unit.cost_factor() == 1
    with pytest.raises(AttributeError):
        unit.max_records = 2


@pytest.mark.parametrize(
    ("unit", "description"),
    [
        (PrivacyUnit(), "one record, add-or-remove-one"),
        (PrivacyUnit("person", 3), "one person (at most 3 records), add-or-remove-one"),
        (PrivacyUnit("person"), "one person (at most 1 record), add-or-remove-one"),
        (PrivacyUnit("record", 2, Neighbours.REPLACE_ONE), "one record (at most 2 records), replace-one"),
        (PrivacyUnit("ménage", 12, Neighbours.REPLACE_ONE), "one ménage (at most 12 records), replace-one"),
    ],
)
def test_units_describe_themselves(unit, description):
    assert unit.describe() == description


@pytest.mark.parametrize("name", ["", " ", " person", "person ", "per\nson", "per\x00son", None, 3])
def test_a_badly_named_unit_is_refused(name):
    with refused("spec.unit-name-invalid"):
        PrivacyUnit(name)


@pytest.mark.parametrize("records", [0, -1, 1.0, 2.5, True, "3", None, np.int64(3)])
def test_a_bad_number_of_records_is_refused(records):
    with refused("spec.max-records-per-unit-invalid"):
        PrivacyUnit("person", records)


@pytest.mark.parametrize("neighbours", ["replace-one", "bounded", None, 1])
def test_a_bad_relation_is_refused(neighbours):
    with refused("spec.neighbours-invalid"):
        PrivacyUnit("person", 1, neighbours)


@pytest.mark.parametrize("name", ["", " ", " people", "people ", "peo\nple", "peo\x00ple", "me\u0301nages"])
def test_a_badly_named_source_is_refused(name):
    """One source under two names would have two budgets."""
    with refused("spec.source-name-invalid"):
        DataSource(name)


@pytest.mark.parametrize("policy", ["keep", "Drop", None, True])
def test_a_bad_policy_for_records_outside_is_refused(policy):
    with refused("spec.outside-domain-invalid"):
        DataSource(outside_domain=policy)


@pytest.mark.parametrize("policy", OutsideDomain)
def test_a_policy_for_records_outside_is_its_word(policy):
    source = DataSource(outside_domain=str(policy))
    assert source.outside_domain is policy
    assert source.drops == (policy is OutsideDomain.DROP)


@pytest.mark.parametrize("records", [0, -1, True, 2**62 + 1, math.nan])
def test_a_bad_bound_on_the_records_is_refused(records):
    with refused("spec.max-records-invalid"):
        DataSource(max_records=records)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(1, 3))
def test_the_cost_factor_is_the_worst_case_over_all_units(strategy, g):
    # Enumerates every change of a unit with at most g records, for both relations.
    S = np.array(strategy)
    basis = np.eye(3, dtype=int)
    changes = {
        Neighbours.ADD_OR_REMOVE_ONE: list(basis),
        Neighbours.REPLACE_ONE: [a - b for a, b in itertools.product(basis, repeat=2)],
    }
    for neighbours, of_one_record in changes.items():
        one = max(int(np.sum((S @ v) ** 2)) for v in of_one_record)
        joint = max(
            int(np.sum((S @ sum(moves)) ** 2))
            for m in range(1, g + 1)
            for moves in itertools.combinations_with_replacement(of_one_record, m)
        )
        assert joint == PrivacyUnit("person", g, neighbours).cost_factor() * one
