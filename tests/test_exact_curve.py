"""The curve of discrete Gaussian noise (docs/mathematics/exact_curve.md): against enumeration, and rounded outwards."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import zoo
from conftest import zoo_plan
from fitnoise.kernel import privacy
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.privacy import gaussian_delta, lattice_delta
from fitnoise.request import curves
from fitnoise.request.curves import LossSummary, best_guess, epsilon_at, gaussian_epsilon, lattice_epsilon, lattice_mu


def curve(mu, epsilon):
    """δ_G(μ, ε) for any real ε, in 60 digits."""
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def constants(tau):
    """r and b of the theorem, in 60 digits."""
    with mpmath.workdps(60):
        r = 2 * sum(mpmath.exp(-2 * mpmath.pi**2 * mpmath.mpf(tau) ** 2 * j**2) for j in range(1, 30))
        return r, mpmath.log((1 + r) / (1 - r))


def theorem(scales, shift, tau, epsilon):
    """Return the bound of the theorem: e^{Kb} δ_G(μ′, ε − 2Kb)."""
    _, b = constants(tau)
    mu = mpmath.sqrt(
        sum(mpmath.mpf(s) ** 2 / (mpmath.mpf(x) ** 2 - tau**2) for s, x in zip(shift, scales, strict=True))
    )
    return mpmath.exp(len(scales) * b) * curve(mu, epsilon - 2 * len(scales) * b)


def law(scale, centre=0, reach=20):
    """Probabilities of N_ℤ(centre, σ²) on the integers from −reach·σ to reach·σ."""
    z = np.arange(-math.ceil(reach * scale), math.ceil(reach * scale) + 1)
    p = np.exp(-((z - centre) ** 2) / (2 * scale**2))
    return p / np.exp(-(z**2) / (2 * scale**2)).sum()


def exact(scales, shift, epsilon):
    """δ of independent draws, by enumeration: Σ max(0, p − e^ε q). A sum of positive numbers, right to 1e-12."""
    p, q = (np.ones(1), np.ones(1))
    for x, s in zip(scales, shift, strict=True):
        p, q = np.outer(p, law(x)).ravel(), np.outer(q, law(x, s)).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize(
    ("scales", "shift", "tau"),
    [
        *[((x,), (s,), 1) for x in (2, 3, 5, 9, 32) for s in (1, 2, 7)],
        *[((x,), (s,), 2) for x in (2.1, 3, 5, 16) for s in (1, 4)],
        *[(x, s, 1) for x in ((3, 3), (3, 6), (4, 5.5)) for s in ((1, 1), (2, 0), (1, 3))],
        *[(x, s, 2) for x in ((2.1, 4), (2.5, 6)) for s in ((1, 1), (0, 2))],
    ],
)
def test_the_theorem_holds_by_enumeration(scales, shift, tau):
    """At small σ, where it says something: within a factor that tends to 1 with τ²/σ²."""
    for epsilon in np.linspace(0, 6, 13):
        true, allowed = exact(scales, shift, epsilon), theorem(scales, shift, tau, float(epsilon))
        assert true <= allowed * (1 + 1e-9) + 1e-15
        if min(scales) >= 5 and epsilon <= 2 * sum(abs(s) / x for s, x in zip(shift, scales, strict=True)):
            assert allowed <= true * 1.7 + 1e-12


def test_it_holds_where_later_draws_depend_on_earlier_ones():
    """Three draws; shift and σ of each depend on what came before, with μ′ at most that of the theorem."""
    tau, (_, b) = 1, constants(1)
    sigma, mus = 3.0, []

    def plan(seen):
        return (1, 3.0) if sum(seen) % 2 else (2, 6.0)

    delta, reach = dict.fromkeys((0.0, 0.5, 1.0, 2.0), 0.0), 7
    for a in range(-21, 22):
        pa, qa = law(sigma, 0, reach)[a + 21], law(sigma, 1, reach)[a + 21]
        shift, scale = plan([a])
        p2, q2 = law(scale, 0, reach), law(scale, shift, reach)
        for second, (pb, qb) in enumerate(zip(p2, q2, strict=True)):
            mean, wide = plan([a, second])
            mus.append(1 / (sigma**2 - tau) + shift**2 / (scale**2 - tau) + mean**2 / (wide**2 - tau))
            p, q = pa * pb * law(wide, 0, reach), qa * qb * law(wide, mean, reach)
            for e in delta:
                delta[e] += float(np.maximum(p - math.exp(e) * q, 0).sum())
    for e, true in delta.items():
        assert true <= mpmath.exp(3 * b) * curve(math.sqrt(max(mus)), e - 6 * b) + 1e-11


def test_a_coarse_lattice_is_not_below_the_continuous_curve():
    """So the lattice has a cost: at σ = 2, and some ε near that of δ, 12, 24 and 40 %."""
    for delta, ratio in ((1e-3, 1.12), (1e-5, 1.24), (1e-9, 1.40)):
        epsilons = gaussian_epsilon(0.5, delta) + np.linspace(-0.3, 0.3, 61)
        worst = max(exact((2,), (1,), e) / gaussian_delta(0.5, e) for e in epsilons)
        assert ratio < worst < ratio + 0.01


def test_the_constants_cover_any_number_of_draws():
    r, b = constants(2)
    assert r < mpmath.mpf("1.1e-34")
    assert 2 * 2**64 * b < 1e-14
    assert 50 * 2 * 2**64 * float(b) < privacy.LATTICE_SHIFT
    assert 2 * (1e-10 + 2**64 * float(b)) < privacy.LATTICE_FACTOR - 1


costs = st.fractions(Fraction(1, 10**9), 2000, max_denominator=10**12)
fineness = st.sampled_from(
    [Fraction(0), privacy.MAX_PRECISION, Fraction(1, 10**4), Fraction(1, 256), Fraction(100, 25600)]
)


def smoothed(cost, precision):
    """Return μ′, exact to 60 digits."""
    with mpmath.workdps(60):
        square = privacy.smoothed_cost(cost, precision)
        return mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator)


@settings(max_examples=50)
@given(costs, fineness, st.floats(1e-12, 0.5))
@example(Fraction(1), privacy.MAX_PRECISION, 1e-6)
@example(Fraction(1, 10**9), Fraction(0), 1e-300)
@example(Fraction(2400), Fraction(0), 0.4)
def test_nothing_is_rounded_inwards(cost, precision, delta):
    """ε at δ and δ at ε of a loss are allowed by the theorem in 60 digits, for 2⁶⁴ draws; and only slightly more."""
    mu, (_, b) = smoothed(cost, precision), constants(2)
    loss = Loss.concentrated(cost / 2, precision)
    epsilon = epsilon_at(loss, delta)
    if epsilon < curves.zcdp_epsilon(cost / 2, delta):
        assert mpmath.exp(2**64 * b) * curve(mu, epsilon - 2**65 * b) <= delta
        nearest = gaussian_epsilon(float(mu), delta * (1 - 3e-9))
        assert epsilon <= nearest * (1 + 1e-9) + 1e-11 * max(1, float(cost))
    for e in (epsilon, epsilon / 2, 0.0):
        assert loss.delta_at(e) >= min(1, mpmath.exp(2**64 * b) * curve(mu, e - 2**65 * b)) or (
            loss.delta_at(e) >= privacy.zcdp_delta(cost / 2, e)
        )


@given(costs, costs, fineness)
def test_the_smoothed_cost_is_that_of_less_noise(a, b, precision):
    """At least Σ s²/(σ² − 4) for noise no finer; it adds, and grows with the coarseness."""
    assert privacy.smoothed_cost(a, precision) + privacy.smoothed_cost(b, precision) == privacy.smoothed_cost(
        a + b, precision
    )
    assert privacy.smoothed_cost(a, Fraction(0)) == a <= privacy.smoothed_cost(a, precision)
    for sigma in (16, 17, 1000):
        square = Fraction(sigma**2)
        assert privacy.smoothed_cost(a / square, max(precision, 1 / square)) >= a / (square - 4)


def test_of_coarse_lattices_and_enormous_costs_nothing_but_rho_is_claimed():
    assert privacy.smoothed_cost(Fraction(1), Fraction(1, 255)) is None
    assert lattice_delta(50.1, 1.0) == 1
    assert lattice_epsilon(50.1, 0.1) == math.inf
    assert lattice_delta(0.0, 0.0) == lattice_epsilon(0.0, 0.1) == 0
    for precision in (Fraction(1, 255), Fraction(1)):
        loss = Loss.concentrated(Fraction(1, 32), precision)
        assert epsilon_at(loss, 1e-6) == curves.zcdp_epsilon(Fraction(1, 32), 1e-6)
        assert loss.delta_at(0.5) == privacy.zcdp_delta(Fraction(1, 32), 0.5)


def test_a_lattice_as_coarse_and_a_mu_as_large_as_may_be():
    assert privacy.smoothed_cost(Fraction(1), Fraction(1, 256)) == Fraction(64, 63)
    assert lattice_delta(50.0, 2000.0) < lattice_delta(50.0, 0.0) == lattice_delta(math.nextafter(50, 51), 2000.0) == 1
    assert lattice_epsilon(50.0, 0.5) < 1300


@pytest.mark.parametrize(("mu", "epsilon"), [(1e-6, 2e-5), (1e-5, 1e-4), (1e-5, 3e-4)])
def test_where_the_curve_is_steep_epsilon_is_less_and_not_more(mu, epsilon):
    assert curve(mu, epsilon - 1e-14) <= lattice_delta(mu, epsilon) <= curve(mu, epsilon - 1.1e-12) * (1 + 2e-9)


@given(st.floats(1e-3, 50), st.floats(1e-300, 0.9))
@example(1e-3, 1e-300)
@example(50.0, 0.9)
@example(1e-3, 0.9)
def test_a_budget_buys_what_it_allows(epsilon, delta):
    mu = lattice_mu(epsilon, delta)
    for m in (mu, mu * (1 - 1e-12), mu / 2):
        assert lattice_delta(m, epsilon) <= delta
    max_mu = min(curves.gaussian_mu(epsilon, delta), 50.0) * (1 - 1e-8)
    assert mu >= max_mu or (mu == 0 and max_mu < 1e-6)


def test_a_budget_too_small_for_the_curve_buys_nothing_by_it():
    assert lattice_mu(0.0, 1e-12) == 0
    assert lattice_mu(1e6, 0.5) == pytest.approx(50)


def test_how_often_a_guess_is_right():
    """Φ(μ/2) for Gaussian noise, e^ε/(1 + e^ε) for a pure answer; never more than the bound of ρ, nor than 1."""
    for cost in (Fraction(1, 10**6), Fraction(1, 14), Fraction(1), Fraction(400)):
        loss = Loss.concentrated(cost / 2, privacy.MAX_PRECISION)
        guess = LossSummary(loss, 1e-6).best_guess
        assert guess == pytest.approx(float(mpmath.ncdf(math.sqrt(cost) / 2)), rel=1e-6)
        rho = float(cost / 2)
        assert guess <= 0.5 + min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho))) / 2 + 1e-12
    for epsilon in (Fraction(1, 100), Fraction(1), Fraction(20)):
        right = 1 / (1 + math.exp(-epsilon))
        assert right <= LossSummary(Loss.of_epsilon(epsilon, by_cell=True), 1e-6).best_guess <= right * (1 + 1e-8)
    assert LossSummary(Loss.concentrated(Fraction(10**6)), 1e-6).best_guess == 1
    assert 0.5 <= LossSummary(Loss.zero(), 1e-6).best_guess <= 0.5 + 1e-15


def test_a_guess_is_bounded_by_whatever_is_known():
    """The smaller of the bounds by ρ and by μ²; 1 where nothing is known, or ρ is beyond all that is computed."""
    rho, mu_squared = Fraction(1, 2), Fraction(1)
    by_rho, by_mu = best_guess(rho, None), best_guess(None, mu_squared)
    assert by_mu < by_rho < 1
    assert best_guess(rho, mu_squared) == by_mu
    assert best_guess(rho, Fraction(100)) == by_rho
    assert best_guess(None, None) == best_guess(Fraction(10**101), None) == 1


@given(st.floats(0.01, 50), st.floats(1e-6, 50))
def test_little_is_given_away(mu, epsilon):
    nearest = gaussian_delta(mu, epsilon)
    assert nearest < lattice_delta(mu, epsilon) or nearest == 1
    assert nearest < 1e-300 or lattice_delta(mu, epsilon) <= nearest * (1 + 1e-8)


def test_the_ends_of_the_curve():
    """ε = 0 belongs to δ_G(μ, 0), and a request below 1e-12 is still allowed."""
    assert lattice_epsilon(1.0, 0.9) == pytest.approx(1e-12)
    for epsilon in (0.0, 1e-13, 1e-12, 1e-9):
        assert lattice_delta(1.0, epsilon) >= curve(1, epsilon - 1e-14)
    assert lattice_delta(1e-9, 0.0) == lattice_delta(1e-6, 0.0) > gaussian_delta(1e-6, 0.0)
    tops = [lattice_delta(1.0, e) for e in np.linspace(0, 40, 200)]
    assert all(a >= b for a, b in itertools.pairwise(tops))


@pytest.mark.no_cover
@pytest.mark.parametrize("name", zoo.WORKLOADS)
def test_plans_know_their_lattices(name):
    """1/σ² of the smallest σ, at most 2⁻²⁰: the price of the lattice is below two millionths."""
    plan = zoo_plan(name)
    min_variance = min(Fraction(float(g.scales.min())) for g in plan.table_part.strategy.groups)
    assert plan.loss.precision == 1 / min_variance**2 <= privacy.MAX_PRECISION
    assert plan.epsilon(1e-6) == pytest.approx(gaussian_epsilon(plan.loss_summary.mu, 1e-6), rel=4e-6)
    assert plan.epsilon(1e-6) < curves.zcdp_epsilon(plan.loss.rho, 1e-6)
