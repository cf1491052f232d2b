"""Losses: the parts that add up, and their sums, for any charge."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitnoise.kernel import losses, privacy
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.request import curves
from fitnoise.request.curves import LossSummary, epsilon_at
from refused import refused

AXES = {"a": 2, "b": 3, "c": 1}

rhos = st.fractions(0, 3, max_denominator=60)
positive = st.fractions(Fraction(1, 60), 3, max_denominator=60)


@st.composite
def by_cells(draw):
    names = draw(st.lists(st.sampled_from(sorted(AXES)), unique=True, max_size=3))
    axes = tuple((a, AXES[a]) for a in names)
    cells = math.prod(n for _, n in axes)
    return Loss.of_cells(axes, draw(st.lists(rhos, min_size=cells, max_size=cells)))


@st.composite
def pure_by_cells(draw):
    costs = draw(by_cells())
    return Loss.of_epsilon(draw(positive), by_cell=True, axes=costs.axes, implied=costs.costs)


any_loss = st.one_of(
    by_cells(),
    pure_by_cells(),
    rhos.map(Loss.concentrated),
    st.builds(Loss.of_epsilon, positive, by_cell=st.booleans()),
)


def everywhere(loss, costs="costs"):
    """Return ρ of a pure or other loss in every joint cell of all axes, computed directly."""
    names = [a for a, _ in loss.axes]
    order = [names.index(a) for a in sorted(names)]
    held = np.array(getattr(loss, costs), dtype=object).reshape([n for _, n in loss.axes]).transpose(order)
    return np.broadcast_to(
        np.asarray(held).reshape([n if a in names else 1 for a, n in sorted(AXES.items())]),
        [n for _, n in sorted(AXES.items())],
    )


@pytest.mark.slow
@given(any_loss, any_loss, any_loss)
def test_losses_add_in_any_order(a, b, c):
    one, other = (a + b) + c, c + (b + a)
    assert (one.rho, one.epsilon, one.pure_epsilons, one.by_cell) == (
        other.rho,
        other.epsilon,
        other.pure_epsilons,
        other.by_cell,
    )
    assert (one.profile is None) == (other.profile is None)
    for costs in ("costs", "implied_rho"):
        assert (everywhere(one, costs) == everywhere(other, costs)).all()
    assert a + Loss.zero() == a or not a.by_cell
    assert (a + Loss.zero()).rho == a.rho


@pytest.mark.no_cover
@given(any_loss, any_loss)
def test_cells_are_known_of_a_sum_where_they_are_of_both(a, b):
    both = a + b
    assert both.by_cell == (a.by_cell and b.by_cell)
    if not both.by_cell:
        assert (both.axes, both.costs, both.profile) == ((), (a.max_cell_rho + b.max_cell_rho,), None)
        assert both.implied_rho == (max(a.implied_rho) + max(b.implied_rho),)


@given(rhos)
def test_of_what_is_only_concentrated_no_cell_is_known(rho):
    loss = Loss.concentrated(rho)
    assert (loss.rho, loss.epsilon, loss.pure_epsilons, loss.axes, loss.by_cell) == (rho, None, (), (), False)
    assert loss.profile is None


@pytest.mark.no_cover
@given(by_cells(), by_cells())
def test_cells_are_added_before_the_largest_is_taken(a, b):
    total = everywhere(a) + everywhere(b)
    assert (everywhere(a + b) == total).all()
    assert (a + b).rho == total.max() <= a.rho + b.rho
    assert (a + b).profile.largest == ceil_dyadic(Fraction((a + b).rho))


@given(st.lists(positive, min_size=1, max_size=4), st.booleans())
def test_pure_answers_add_their_epsilon(epsilons, by_cell):
    loss = sum((Loss.of_epsilon(e, by_cell=by_cell) for e in epsilons), Loss.zero())
    assert loss.epsilon == sum(epsilons)
    assert loss.rho == sum(e**2 for e in epsilons) / 2
    assert (loss.profile is None) == (not by_cell)
    assert Fraction(epsilon_at(loss, 1e-6)) >= loss.epsilon
    assert epsilon_at(loss, 1e-6) == epsilon_at(loss, 0.5)
    assert loss.delta_at(epsilon_at(loss, 1e-6)) == 0 < loss.delta_at(float(loss.epsilon) / 2)
    mu = LossSummary(loss, 1e-6).mu
    assert mu == math.hypot(*map(privacy.pure_mu, epsilons)) <= privacy.pure_mu(loss.epsilon) * (1 + 1e-12)


@pytest.mark.no_cover
@given(st.lists(positive, max_size=3), positive)
def test_with_gaussian_noise_each_epsilon_adds_half_its_square_to_rho(epsilons, rho):
    """And ε at δ is the less of two proven compositions."""
    gaussian = Loss.of_cells((("a", 2),), [rho, Fraction(0)])  # of unknown lattices
    loss = sum((Loss.of_epsilon(e, by_cell=True) for e in epsilons), gaussian)
    implied = sum((e**2 / 2 for e in epsilons), Fraction(0))
    assert loss.epsilon is None
    assert loss.rho == rho + implied
    assert loss.profile.values == tuple(-(-x * 2**64 // 1) for x in (rho + implied, implied))
    joined = curves.zcdp_epsilon(loss.rho, 1e-6)
    separate = Fraction(curves.zcdp_epsilon(rho, 1e-6)) + sum(epsilons)
    assert epsilon_at(loss, 1e-6) <= joined
    assert epsilon_at(loss, 1e-6) == joined or Fraction(epsilon_at(loss, 1e-6)) >= separate
    mu = LossSummary(loss, 1e-6).mu
    assert mu == pytest.approx(math.hypot(math.sqrt(2 * rho), *(privacy.pure_mu(e) for e in epsilons)))


@pytest.mark.no_cover
@given(pure_by_cells(), pure_by_cells(), by_cells())
def test_what_is_pure_costs_what_its_numbers_do(a, b, gaussian):
    """Cell by cell, at most ε²/2, also with Gaussian noise; several changes of a unit are one of its multiple."""
    assert max(a.implied_rho) == a.rho <= a.epsilon**2 / 2
    assert (a + b).rho == (everywhere(a, "implied_rho") + everywhere(b, "implied_rho")).max() <= a.rho + b.rho
    assert (a + b).profile.largest == ceil_dyadic((a + b).rho)
    both = a + gaussian
    assert both.rho == (everywhere(a, "implied_rho") + everywhere(gaussian)).max()
    for loss in (a, both):
        many = loss.group_loss(3)
        assert (many.max_cell_rho, max(many.implied_rho)) == (9 * loss.max_cell_rho, 9 * max(loss.implied_rho))
        assert (many.pure_epsilons, many.precision) == ((3 * a.epsilon,), loss.precision)


@pytest.mark.no_cover
@given(st.lists(pure_by_cells(), max_size=2), by_cells(), st.sampled_from([2, 20, 32]))
def test_mu_squared_bounds_every_cell(pure, gaussian, bits):
    """The costliest cell has Gaussian noise on a fine lattice, and each number at most the ρ that its ε implies."""
    coarse = bits < 8
    loss = sum(pure, replace(gaussian, precision=Fraction(1, 2**bits)))
    if coarse:
        assert loss.mu_squared is None
        return
    smoothed = 2 * everywhere(loss) / (1 - Fraction(4, 2**bits))
    by_number = (smoothed + 2 * privacy.HALF_PI * everywhere(loss, "implied_rho")).max()
    separate = smoothed.max() + sum((privacy.pure_mu_squared(e) for e in loss.pure_epsilons), Fraction(0))
    assert loss.mu_squared == min(by_number, separate)
    assert loss.epsilon is not None or curves.lattice_epsilon(math.sqrt(loss.mu_squared), 1e-6) >= (
        epsilon_at(loss, 1e-6) * (1 - 1e-9)
    )


@given(st.fractions(0, 60) | st.floats(1e-320, 1e-3).map(Fraction))
def test_mu_of_what_is_pure_is_rounded_up(epsilon):
    """Φ(μ/2) ≥ e^ε/(1 + e^ε), and at most π/2 ε², also where μ is no number of its own."""
    above = privacy.pure_mu_squared(epsilon)
    assert above <= privacy.HALF_PI * epsilon**2 * (1 + Fraction(1, 10**10))
    with mpmath.workdps(400):
        odds = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        half = mpmath.sqrt(mpmath.mpf(above.numerator) / above.denominator) / 2
        assert mpmath.ncdf(half) >= odds / (1 + odds)


# --- manual cases ----------------------------------------------------------------------------------------------------

HALF, EIGHTH = Fraction(1, 2), Fraction(1, 8)


def test_what_is_free_and_what_is_pure_by_hand():
    assert Loss.zero() == Loss((), (Fraction(0),), (Fraction(0),), (), by_cell=True, precision=Fraction(0))
    assert (Loss.zero().epsilon, Loss.zero().cost_squared) == (None, 0)
    pure = Loss.of_epsilon(Fraction(3, 2), by_cell=True, axes=(("a", 2),), implied=[EIGHTH, Fraction(9)])
    assert (pure.costs, pure.implied_rho) == ((0, 0), (EIGHTH, Fraction(9, 8)))
    assert (pure.epsilon, pure.cost_squared, pure.rho) == (Fraction(3, 2), Fraction(9, 4), Fraction(9, 8))
    assert Loss.of_epsilon(Fraction(2), by_cell=True, implied=[EIGHTH]).cost_squared == 4
    with refused("ledger.loss-rho-above-epsilon"):
        replace(pure, implied_rho=(Fraction(0), Fraction(9, 8) + Fraction(1, 2**80)))
    gaussian = Loss.of_cells((("a", 2),), [Fraction(3), Fraction(0)])
    both = gaussian + pure
    assert (both.epsilon, both.rho, both.cost_squared) == (None, Fraction(25, 8), Fraction(25, 4))
    unknown = gaussian + Loss.concentrated(Fraction(1))
    assert (unknown.by_cell, unknown.axes, unknown.costs, unknown.profile) == (False, (), (4,), None)
    many = both.group_loss(3)
    assert (many.costs, many.implied_rho, many.pure_epsilons) == ((27,), (Fraction(81, 8),), (Fraction(9, 2),))
    assert (many.axes, many.by_cell, many.precision) == ((), False, 1)


def test_a_budget_is_shared_out_by_hand():
    axes, loss = (("a", 2),), Loss.of_cells((("a", 2),), [EIGHTH, EIGHTH])
    assert loss.relative_to_budgets(axes, (0.5, 1.0)).rho == Fraction(1, 4)
    assert Loss.of_cells(axes, [Fraction(0)] * 2).relative_to_budgets(axes, (0.0, 0.0)).rho == 0


def test_what_is_left_of_epsilon_is_rounded_down(monkeypatch):
    """To a float that is no larger: where nothing is to be rounded, it is what it was."""
    epsilons = []
    for name in ("zcdp_delta", "lattice_delta"):
        monkeypatch.setattr(privacy, name, lambda cost, epsilon: epsilons.append(epsilon) or 1.0)
    for each, remaining in (
        (Fraction(9, 10), math.nextafter(0.1, 0)),  # the float 0.1 is more than a tenth
        (Fraction(1, 3), 2 / 3),  # the float is less
        (HALF, 0.5),
        (Fraction(1), 0.0),
    ):
        loss = Loss.concentrated(EIGHTH) + Loss.of_epsilon(each, by_cell=False)
        epsilons.clear()
        loss.delta_at(1.0)
        assert epsilons == [1.0, 1.0, remaining, remaining]
        epsilons.clear()
        loss.delta_at(math.nextafter(float(each), 0.0) / 2)
        assert len(epsilons) == 2  # nothing is left


def test_delta_is_the_smallest_proven_bound():
    loss = Loss.concentrated(Fraction(1, 32)) + Loss.of_epsilon(Fraction(3), by_cell=False)  # of an unknown lattice
    assert loss.delta_at(4.0) == privacy.zcdp_delta(Fraction(1, 32), 1.0) < privacy.zcdp_delta(loss.rho, 4.0)
    fine = Loss.concentrated(Fraction(1, 32), Fraction(1, 2**20)) + Loss.of_epsilon(Fraction(3), by_cell=False)
    assert fine.delta_at(4.0) == privacy.lattice_delta(fine.gaussian_mu_above, 1.0) < loss.delta_at(4.0)
    pure = Loss.of_epsilon(HALF, by_cell=False)
    assert pure.delta_at(0.5) == pure.delta_at(0.75) == 0 < pure.delta_at(0.49)
    assert epsilon_at(pure, 1e-6) == 0.5
    assert epsilon_at(Loss.of_epsilon(Fraction(1, 10), by_cell=False), 1e-6) == 0.1
    assert epsilon_at(Loss.of_epsilon(Fraction(2, 3), by_cell=False), 1e-6) == math.nextafter(2 / 3, 1)


def test_mu_is_the_less_of_two_by_hand():
    """The bound is from its numbers, each at most √(π/2) of its ε, or from the ε of all."""
    gaussian = Loss.of_cells((("a", 2),), [EIGHTH, Fraction(0)], Fraction(1, 2**20))
    stretch = 2 / (1 - Fraction(4, 2**20))
    assert (gaussian.mu_rate, Loss.concentrated(EIGHTH).mu_rate) == (stretch, 2)
    for implied, numbers in (([EIGHTH, EIGHTH], True), ([Fraction(9, 2)] * 2, False)):
        loss = gaussian + Loss.of_epsilon(Fraction(3), by_cell=True, axes=(("a", 2),), implied=implied)
        assert loss.mu_rate == 2 * privacy.HALF_PI
        by_number = stretch * EIGHTH + 2 * privacy.HALF_PI * implied[0]
        separate = stretch * EIGHTH + privacy.pure_mu_squared(Fraction(3))
        assert loss.mu_squared == (by_number if numbers else separate) == min(by_number, separate)
        one, other = math.sqrt(0.25 + math.pi * implied[0]), math.hypot(0.5, privacy.pure_mu(Fraction(3)))
        assert LossSummary(loss, 1e-6).mu == pytest.approx(one if numbers else other, rel=1e-12)
        assert (one < other) is numbers


@given(by_cells(), st.lists(st.floats(0.01, 1), min_size=6, max_size=6))
def test_a_budget_is_relative_to_its_cells(loss, shares):
    axes = (("a", 2), ("b", 3))
    table = np.array([Fraction(x) for x in shares], dtype=object).reshape(2, 3, 1)
    assert loss.relative_to_budgets(axes, shares).rho == (everywhere(loss) / table).max()
    assert loss.relative_to_budgets((), ()) is loss
    with_epsilon = loss + Loss.of_epsilon(Fraction(1, 3), by_cell=True)
    assert with_epsilon.relative_to_budgets(axes, (1.0,) * 6).rho == loss.max_cell_rho + Fraction(1, 18)
    assert with_epsilon.relative_to_budgets(axes, shares).rho == ((everywhere(loss) + Fraction(1, 18)) / table).max()
    assert Loss.of_epsilon(Fraction(1), by_cell=True).relative_to_budgets((("a", 2),), (1.0, 0.5)).rho == 1
    with refused("plan.relative-budget-zero"):
        with_epsilon.relative_to_budgets((("a", 2),), (0.0, 1.0))


def test_records_with_no_budget_may_not_be_measured():
    loss = Loss.of_cells((("a", 2),), [Fraction(1), Fraction(0)])
    assert loss.relative_to_budgets((("a", 2),), (1.0, 0.0)).rho == 1
    with refused("plan.relative-budget-zero"):
        loss.relative_to_budgets((("a", 2),), (0.0, 1.0))


def test_too_many_joint_cells_cost_the_sum_of_the_largest(monkeypatch):
    monkeypatch.setattr(losses, "PROFILE_CELLS", 5)
    a = Loss.of_cells((("a", 2),), [Fraction(1), Fraction(2)])
    b = Loss.of_cells((("b", 3),), [Fraction(1), Fraction(3), Fraction(2)])
    assert (a + b).axes == ()
    assert ((a + b).rho, (a + b).by_cell) == (5, True)
    many = Loss.of_cells((("a", 2), ("b", 3)), [Fraction(x) for x in range(6)])
    assert (many + a).axes == many.axes  # no new cells
    assert many.profile.axes == ()
    assert many.profile.largest == many.rho == 5
    monkeypatch.setattr(losses, "PROFILE_CELLS", 6)
    as_many = Loss.of_cells((("a", 2), ("b", 3)), [Fraction(x) for x in range(6)])
    assert (a + b).axes == as_many.profile.axes == as_many.axes  # as many as may be


def test_the_coarsest_lattice_counts():
    """For an unknown lattice, only ρ is claimed."""
    fine, finer = (Loss.concentrated(Fraction(1, 32), Fraction(1, 4**n)) for n in (5, 10))
    unknown, pure = Loss.of_cells((), [Fraction(1, 32)]), Loss.of_epsilon(Fraction(1, 4), by_cell=False)
    assert (fine + finer).precision == (finer + fine + pure).precision == fine.precision
    assert (fine + unknown).precision == 1
    assert finer.relative_to_budgets((), ()).precision == finer.precision
    assert finer.relative_to_budgets((("a", 1),), (0.5,)).precision == finer.precision
    assert (finer + pure).relative_to_budgets((("a", 1),), (0.5,)).precision == 1
    assert epsilon_at((finer + fine).group_loss(2), 1e-6) < 0.95 * curves.zcdp_epsilon(Fraction(1, 4), 1e-6)
    assert epsilon_at((fine + unknown), 1e-6) == curves.zcdp_epsilon(Fraction(1, 16), 1e-6)
    assert epsilon_at((fine + finer), 1e-6) < 0.95 * curves.zcdp_epsilon(Fraction(1, 16), 1e-6)
    assert epsilon_at(Loss.zero(), 1e-6) == Loss.zero().delta_at(0.0) == 0


def test_what_is_pure_is_put_on_the_curve_or_added_to_it():
    """Many small answers compose on the curve; one with much noise is added. δ at ε gives the same."""
    gaussian = Loss.concentrated(Fraction(1, 32), Fraction(1, 2**20))
    for each, count in ((Fraction(1, 50), 20), (Fraction(3), 1)):
        loss = sum((Loss.of_epsilon(each, by_cell=False) for _ in range(count)), gaussian)
        curve = math.hypot(0.25, *[privacy.pure_mu(each)] * count)
        joined, separate = curves.gaussian_epsilon(curve, 1e-6), curves.gaussian_epsilon(0.25, 1e-6) + count * each
        assert (joined < separate) == (count > 1)
        assert epsilon_at(loss, 1e-6) == pytest.approx(min(joined, separate), rel=1e-5)
        assert loss.delta_at(epsilon_at(loss, 1e-6)) == pytest.approx(1e-6, rel=1e-6)


def test_axes_may_be_renamed():
    loss = Loss.of_cells((("a", 2),), [Fraction(1), Fraction(2)])
    assert loss.with_axis_names({"a": "a:1f", "b": "x"}).axes == (("a:1f", 2),)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: Loss.concentrated(0.5), "ledger.loss-costs-invalid"),
        (lambda: Loss.concentrated(Fraction(-1)), "ledger.loss-costs-invalid"),
        (lambda: Loss.of_epsilon(float("nan"), by_cell=True), "ledger.loss-costs-invalid"),
        (lambda: Loss.of_cells((("a", 2),), [Fraction(1)]), "ledger.loss-costs-misfit-axes"),
        (lambda: Loss.of_cells((("a", 1), ("a", 1)), [Fraction(1)]), "ledger.loss-axes-invalid"),
        (lambda: replace(Loss.concentrated(Fraction(1)), axes=(("a", 1),)), "ledger.loss-axes-invalid"),
        (lambda: replace(Loss.concentrated(Fraction(1)), implied_rho=()), "ledger.loss-costs-misfit-axes"),
        (
            lambda: replace(Loss.concentrated(Fraction(1)), implied_rho=(Fraction(1, 99),)),
            "ledger.loss-rho-above-epsilon",
        ),
        (
            lambda: Loss.of_cells((("a", 1),), [Fraction(1)]) + Loss.of_cells((("a", 2),), [Fraction(1)] * 2),
            "ledger.loss-sizes-differ",
        ),
    ],
)
def test_what_is_no_loss(make, code):
    with refused(code):
        make()


@given(st.fractions(0, 10**30) | st.floats(0, 1e300).map(Fraction))
def test_a_cost_is_rounded_up_to_the_next_number(cost):
    rounded = losses.rounded_up(cost)
    assert Fraction(math.nextafter(rounded, -math.inf)) < cost <= Fraction(rounded)


def test_a_cost_above_all_numbers_is_refused():
    with refused("plan.cost-too-large"):
        losses.rounded_up(Fraction(10) ** 400)
