"""Invert the privacy curves: ε at a δ, and the largest μ or ρ for a pair (ε, δ). Summarise losses for reports.

The kernel evaluates the curves forward (:mod:`fitnoise.kernel.privacy`). Each function here finds a root. All
except `gaussian_epsilon` and `gaussian_mu` then move to the safe side until a forward evaluation of the kernel proves
the result.

**Trust.** The kernel charges none of these numbers. A budget in (ε, δ) becomes a limit in ρ here, and the kernel checks
δ at ε for the loss itself (`CostLimit.allows`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from scipy import special

from fitnoise.kernel import privacy
from fitnoise.kernel.losses import Loss, rounded_up

__all__ = [
    "LossSummary",
    "best_guess",
    "epsilon_at",
    "gaussian_epsilon",
    "gaussian_mu",
    "lattice_epsilon",
    "lattice_mu",
    "zcdp_epsilon",
    "zcdp_rho",
]


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε ≥ 0 at which a μ-Gaussian-DP release is (ε, δ)-DP: `gaussian_delta` inverted in ε.

    Args:
        mu: μ ≥ 0, at most 1e100.
        delta: The granted probability δ in (0, 1).

    Raises:
        ValueError: μ is negative, not finite or larger than 1e100, or δ is not in (0, 1).

    **Guarantees**

    - The result is 0 if δ ≥ privacy.gaussian_delta(μ, 0).
    - Otherwise the relative error is below 1e-10 for μ from 1e-6 to 50, δ from 1e-300 to 0.9 and ε ≥ 1e-4 μ.
    - Nearer to its zero, ε is a difference of larger numbers: there the *absolute* error is below 1e-14 max(μ, μ²).
    """
    mu, delta = privacy.check_nonnegative("mu", mu), _check_probability(delta)
    if delta >= privacy.gaussian_delta(mu, 0.0):  # also where μ = 0
        return 0.0
    target = math.log(delta)
    # With a = ε/μ − μ/2, δ(ε) < Φ(−a): at the answer a is at most z with Φ(−z) = δ, so ε is at most μ (μ/2 + z).
    high = mu * (mu / 2 + max(0.0, -float(special.ndtri(delta))))
    return privacy.increasing_root(lambda epsilon: target - privacy.log_gaussian_delta(mu, epsilon), 0.0, high)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ whose release is (ε, δ)-DP: the inverse of `gaussian_delta` in μ.

    Args:
        epsilon: ε ≥ 0, at most 1e100.
        delta: The granted probability δ in (0, 1).

    Raises:
        ValueError: ε is negative, not finite or larger than 1e100, or δ is not in (0, 1).

    **Guarantees**

    - The relative error is below 1e-10 for ε from 0 to 1000 and δ from 1e-300 to 0.9.
    - The result is positive.
    """
    epsilon, delta = privacy.check_nonnegative("epsilon", epsilon), _check_probability(delta)
    target = math.log(delta)
    # Two lower bounds: δ ≤ δ(0) = erf(μ / 2√2), and δ ≤ Φ(μ/2 − ε/μ), a quadratic in μ (stable form).
    quantile = float(special.ndtri(delta))
    size = math.hypot(quantile, math.sqrt(2 * epsilon))
    tail = 2 * epsilon / (size - quantile) if quantile < 0 else size + quantile
    low = high = max(2 * math.sqrt(2) * float(special.erfinv(delta)), tail)
    while privacy.log_gaussian_delta(high, epsilon) < target:
        high *= 2  # δ → 1 as μ grows, and δ < 1: this ends
    return privacy.increasing_root(lambda mu: privacy.log_gaussian_delta(mu, epsilon) - target, low, high)


def lattice_epsilon(mu: float, delta: float) -> float:
    """Return an ε at which discrete Gaussian noise of smoothed cost μ′² is (ε, δ)-DP.

    This is the inverse of `lattice_delta` in ε.

    Args:
        mu: μ′ ≥ 0, at most 1e100, which the caller has rounded up.
        delta: δ in (0, 1).

    Raises:
        ValueError: μ′ is negative, not finite or larger than 1e100, or δ is not in (0, 1).

    **Guarantees**

    - lattice_delta(μ′, ε) ≤ δ for the returned ε, as computed and therefore in truth.
    - Up to errors of 1e-9 relative and 1e-11 max(1, μ′²), the result is at most that of `gaussian_epsilon` at δ (1 −
      3e-9). This holds for μ′ from 1e-3 to 50 and δ from 1e-300 to 0.9.
    - The result is 0 if μ′ = 0, and infinite if μ′ > 50, where nothing is claimed.
    """
    mu, delta = privacy.check_nonnegative("mu", mu), _check_probability(delta)
    if mu == 0:
        return 0.0
    if mu > privacy.MAX_MU:
        return math.inf
    epsilon = gaussian_epsilon(max(mu, privacy.MIN_MU), delta / privacy.LATTICE_FACTOR) + privacy.LATTICE_SHIFT
    step = max(privacy.LATTICE_SHIFT, 1e-10 * epsilon)
    while privacy.lattice_delta(mu, epsilon) > delta:
        epsilon += step
        step *= 2
    return epsilon


def lattice_mu(epsilon: float, delta: float) -> float:
    """Return a μ′ whose discrete Gaussian noise is (ε, δ)-DP: the inverse of `lattice_delta` in μ′.

    Args:
        epsilon: ε ≥ 0, at most 1e100.
        delta: δ in (0, 1).

    Raises:
        ValueError: ε is negative, not finite or larger than 1e100, or δ is not in (0, 1).

    **Guarantees**

    - lattice_delta(m, ε) ≤ δ for every m up to the returned μ′, as computed.
    - The result is below `gaussian_mu` by at most 1e-8 relative, if that is from 1e-6 to 50. This holds for ε from 1e-3
      to 50 and δ from 1e-300 to 0.9. For a larger `gaussian_mu` it is just below 50, and for a smaller one 0.
    """
    epsilon, delta = privacy.check_nonnegative("epsilon", epsilon), _check_probability(delta)
    mu = min(gaussian_mu(epsilon, delta), privacy.MAX_MU)
    step = 1e-9
    while mu > privacy.MIN_MU and privacy.lattice_delta(mu, epsilon) > delta:
        mu *= 1 - step
        step *= 2
    mu *= 1 - 1e-9  # Rounding must not reverse the order of two values of δ.
    return mu if mu > privacy.MIN_MU else 0.0


def _zcdp_epsilon(rho: float, delta: float) -> float:
    """Return `zcdp_epsilon` for ρ > 0, unchecked.

    ε(s) = (1+s)ρ − log(1 + 1/s) + (ℓ − log(1+s)) / s with ℓ = −log δ is least where ρs² + log(1+s) = ℓ.
    """
    ell = -math.log(delta)

    def excess(log_s: float) -> float:
        s = math.exp(log_s)
        return rho * s * s + math.log1p(s) - ell

    low = min(math.sqrt(ell / 2 / rho), ell / 2)  # each term is at most ℓ/2
    high = min(math.sqrt(ell / rho), math.expm1(min(ell, 700.0)))  # one term is ℓ; e^710 would overflow
    s = math.exp(privacy.increasing_root(excess, math.log(low), math.log(high)))
    epsilon = max(0.0, (1 + s) * rho - math.log1p(1 / s) + (ell - math.log1p(s)) / s)
    # Rounding may leave ε slightly too small, so it rises until the bound of zcdp_delta proves it.
    step = max(math.ulp(epsilon), privacy.ROUNDING * ((1 + s) * rho + math.log1p(1 / s) + (1 + ell) / s))
    while privacy.zcdp_delta_bound(rho, epsilon) > delta:
        epsilon += step
        step *= 2
    return epsilon


def zcdp_epsilon(rho: float | Fraction, delta: float) -> float:
    """Return the smallest ε ≥ 0 at which every ρ-zCDP release is (ε, δ)-DP, by the optimal conversion.

    Args:
        rho: ρ ≥ 0, at most 1e100; a `Fraction` is rounded up.
        delta: The granted probability δ in (0, 1).

    Raises:
        ValueError: ρ is negative, not finite or larger than 1e100, or δ is not in (0, 1).

    **Guarantees**

    - zcdp_delta(ρ, ε) ≤ δ for the returned ε, as computed and therefore in truth.
    - The result is at most 1e-9 relative above the smallest such ε, for ρ from 1e-6 to 1000 and δ from 1e-300 to 0.9.
      Where ε is nearly 0, the two differ by at most 1e-12.
    - The result is 0 if ρ = 0.
    """
    rho, delta = privacy.rounded_up("rho", rho), _check_probability(delta)
    return _zcdp_epsilon(rho, delta) if rho > 0 else 0.0


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ for which every ρ-zCDP release is (ε, δ)-DP, by the optimal conversion.

    ρ(s) = (ε + log(1 + 1/s) − (ℓ − log(1+s)) / s) / (1+s) with ℓ = −log δ is greatest where log(1+s) + s² (ε + log(1 +
    1/s)) / (1+2s) = ℓ.

    Args:
        epsilon: ε ≥ 0, at most 1e100.
        delta: The granted probability δ in (0, 1).

    Raises:
        ValueError: ε is negative, not finite or larger than 1e100, or δ is not in (0, 1).

    **Guarantees**

    - zcdp_epsilon(ρ, δ) ≤ ε for the returned ρ: it is rounded down.
    - The result is at most 1e-9 relative below the largest such ρ, for ε from 0 to 1000 and δ from 1e-300 to 0.9.
    """
    epsilon, delta = privacy.check_nonnegative("epsilon", epsilon), _check_probability(delta)
    ell = -math.log(delta)

    def excess(log_s: float) -> float:
        s = math.exp(log_s)
        return math.log1p(s) + s / (2 + 1 / s) * (epsilon + math.log1p(1 / s)) - ell

    # at `low`, log(1+s) ≤ s ≤ ℓ/4, s²ε ≤ ℓ/2 and s² log(1 + 1/s) ≤ s ≤ ℓ/4; at the other end log(1+s) is ℓ
    low = min(ell / 4, math.sqrt(ell / 2) / math.sqrt(max(epsilon, 1e-300)))
    s = math.exp(privacy.increasing_root(excess, math.log(low), math.log(math.expm1(min(ell, 700.0)))))
    rho = max(0.0, (epsilon + math.log1p(1 / s) - (ell - math.log1p(s)) / s) / (1 + s))
    # Rounding may leave ρ slightly too large, so it falls until its conversion proves it.
    step = max(math.ulp(rho), privacy.ROUNDING * (epsilon + math.log1p(1 / s) + (1 + ell) / s) / (1 + s))
    while rho > 0 and _zcdp_epsilon(rho, delta) > epsilon:
        rho = max(0.0, rho - step)
        step *= 2
    return rho


def epsilon_at(loss: Loss, delta: float) -> float:
    """Return ε at δ, a guarantee for the noise that is used.

    If all measurements are pure, it is the sum of ε, for every δ. Otherwise it is the least proven value. One proof
    uses the curve of continuous Gaussian noise, on fine lattices. Another converts ρ-zCDP. Each covers either all
    measurements, or those that are not pure with every ε added.

    Args:
        loss: The loss of a release.
        delta: δ in (0, 1).

    Raises:
        ValueError: δ is not in (0, 1), and the loss is not pure.

    **Guarantees**

    - loss.delta_at(ε) ≤ δ for the returned ε, as the kernel computes it.
    """
    # A pure loss needs no δ, and its ε is exact: only its conversion to a double is rounded, upwards.
    if loss.epsilon is not None:
        return rounded_up(loss.epsilon)
    by_cell = min(zcdp_epsilon(loss.max_cell_rho, delta), lattice_epsilon(loss.gaussian_mu_above, delta))
    joined = min(zcdp_epsilon(loss.rho, delta), lattice_epsilon(loss.mu_above, delta))
    epsilon = min(joined, rounded_up(Fraction(by_cell) + loss.added_epsilon))
    # The kernel rounds ε less the pure part once more than the sum above does. Beyond its limit it computes no δ.
    while epsilon <= privacy.MAX_PARAMETER and loss.delta_at(epsilon) > delta:
        epsilon = math.nextafter(epsilon, math.inf)
    return epsilon


def best_guess(rho: Fraction | None, mu_squared: Fraction | None) -> float:
    """Return an upper bound on the probability that the best guess between two neighbouring databases is right.

    The attacker knows both databases, considered them equally likely before, and has seen everything released.

    Args:
        rho: ρ of everything released; None if unknown.
        mu_squared: μ² of everything released, as in `Loss.mu_squared`; None if unknown.

    Returns:
        ½ + ½ δ(0), a probability from ½ to 1, rounded up.

    **Guarantees**

    - The result is the smaller of the results by ρ and by μ², and 1 if both are unknown.
    - The result is never below Φ(μ/2) of Gaussian noise, nor below e^ε/(1 + e^ε) of one pure answer.

    Source: Dong, Roth and Su, "Gaussian Differential Privacy" (2019); docs/what_epsilon_means.md.
    """
    largest = privacy.MAX_PARAMETER
    by_rho = 1.0 if rho is None or rho > largest else privacy.zcdp_delta(rho, 0.0)
    by_mu = (
        1.0 if mu_squared is None or mu_squared > largest else privacy.lattice_delta(privacy.mu_above(mu_squared), 0.0)
    )
    # 1 + δ is rounded to nearest, by at most half a unit in its last place: the next float covers this.
    return min(1.0, math.nextafter((1 + min(by_rho, by_mu)) / 2, 2.0))


@final
@dataclass(frozen=True)
class LossSummary:
    """A loss in the numbers that reports state.

    Args:
        loss: The loss of a release.
        delta: δ in (0, 1), at which ε is stated.
    """

    loss: Loss
    delta: float

    @property
    def rho(self) -> float:
        """ρ, rounded up to a float: below the exact one it would promise too much."""
        return rounded_up(self.loss.rho)

    @property
    def epsilon(self) -> float:
        """ε at δ, as `epsilon_at` states it."""
        return epsilon_at(self.loss, self.delta)

    @property
    def mu(self) -> float:
        """μ, for continuous instead of discrete Gaussian noise: the smaller of two values.

        One adds the squared `pure_mu` of each pure ε to Δ² of the Gaussian noise. The other adds π times the ρ of the
        pure numbers in each cell, as each of these numbers has μ² ≤ π/2 ε².
        """
        loss = self.loss
        pairs = zip(loss.costs, loss.implied_rho, strict=True)
        by_number = privacy.mu(2 * max(c + privacy.HALF_PI * i for c, i in pairs))
        separate = math.hypot(privacy.mu(2 * loss.max_cell_rho), *map(privacy.pure_mu, loss.pure_epsilons))
        return min(by_number, separate)

    @property
    def best_guess(self) -> float:
        """An upper bound on the probability of a right guess between two neighbours, equally likely before."""
        return best_guess(self.loss.rho, self.loss.mu_squared)


def _check_probability(value: float) -> float:
    """Return δ as a float, or raise ValueError unless it is strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"delta is {value!r}; it needs a number strictly between 0 and 1")
    return float(value)
