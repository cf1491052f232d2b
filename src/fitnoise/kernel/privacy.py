"""Compute the privacy of a release: μ, ρ, (ε, δ), and the exact relations between them. Part of the trust kernel.

Everything here is a function of public numbers: no data, no state, no randomness. The one input is the *cost* Δ² of a
Gaussian release. It is the largest squared distance between the exact answers of two neighbouring databases, measured
in the covariance of the noise. Costs of separate releases add.

| from | to | statement | noise |
|---|---|---|---|
| Δ² | μ = Δ | the release is μ-Gaussian DP | continuous |
| Δ² | ρ = Δ²/2 | the release is ρ-zCDP | continuous and discrete |
| μ | δ(ε) | exact curve of the continuous Gaussian | continuous |
| μ′ | δ(ε) | the same curve, slightly further out | discrete, σ ≥ 16 |
| ρ | δ(ε) | optimal conversion of zCDP | both, at any σ |

**Three curves.** fitnoise adds discrete Gaussian noise. It satisfies ρ-zCDP exactly, which gives `zcdp_delta`. Unless σ
is small, it is also a post-processing of slightly less continuous noise, up to factors nearer to 1 than doubles can
show. This gives `lattice_delta` (docs/mathematics/exact_curve.md): 5 to 7 % more accuracy for the same (ε, δ). Both are
guarantees, rounded to the safe side. They rely on the `gaussian_*` curve, which is accurate to 1e-10 relative and
rounded to nearest. The inverses of the curves are outside the kernel (`request/curves.py`).

**Symbols.** ε ≥ 0 is a natural logarithm of odds, δ in (0, 1) is a probability, μ and ρ have no unit. The file is
longer than most because each relation states its own guarantees.

References:
    Balle and Wang, "Improving the Gaussian Mechanism for Differential Privacy" (2018), Theorem 8.
    Dong, Roth and Su, "Gaussian Differential Privacy" (2019), Corollary 2.13.
    Bun and Steinke, "Concentrated Differential Privacy" (2016), Proposition 1.6.
    Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), Proposition 12, Corollary 13,
    Theorem 14 [CKS20].
    docs/mathematics/exact_curve.md (this project), for discrete noise on the curve of continuous noise.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "gaussian_delta",
    "lattice_delta",
    "mu",
    "mu_above",
    "pure_mu",
    "pure_mu_squared",
    "rho",
    "smoothed_cost",
    "zcdp_delta",
]

HALF_PI = Fraction(1570796326794897, 10**15)
"""An upper bound on π/2: an ε-private release is √(π/2) ε-Gaussian-private, for every ε."""

MAX_PARAMETER = 1e100
"""The largest accepted μ, ρ or ε: squares stay finite, and every release is far below it."""

ROUNDING = 16 * 2.0**-53
"""A bound on the relative error of each sum of four terms below (each term is right to a few 2^-53)."""

_NEGLIGIBLE = 39.0
"""The number of deviations beyond which δ is 0 in floating point: Φ(−39) < 2^-1074, the smallest positive float."""


def check_nonnegative(name: str, value: float | Fraction) -> float:
    """Return a number as a float, or raise ValueError unless it is from 0 to `MAX_PARAMETER`."""
    if not 0 <= value <= MAX_PARAMETER:  # also refuses NaN
        raise ValueError(f"{name} is {value!r}; it needs a finite number from 0 to {MAX_PARAMETER:g}")
    return float(value)


def rounded_up(name: str, value: float | Fraction) -> float:
    """Return the least float that is at least the number, or raise ValueError as `check_nonnegative` does."""
    nearest = check_nonnegative(name, value)
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def _exact_cost(value: Fraction) -> Fraction:
    if not isinstance(value, Fraction | int):
        raise TypeError(f"a cost is a Fraction, never a {type(value).__name__}: a rounded cost is no longer exact")
    if value < 0:
        raise ValueError(f"the cost is {value}; a squared sensitivity is never negative")
    return Fraction(value)


def increasing_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the zero of an increasing function, to about 2⁻⁵⁰ relative, or the end of [low, high] nearest to it."""
    if function(low) >= 0:
        return low
    if function(high) <= 0:
        return high
    from scipy import optimize  # takes as long as a small plan

    # An interval of floats is halved at most some 1100 times before it is one float wide.
    return float(optimize.brentq(function, low, high, xtol=1e-300, rtol=2.0**-50, maxiter=2000))


def rho(cost_squared: Fraction) -> Fraction:
    """Return ρ of the zero-concentrated DP of a Gaussian release: ρ = Δ²/2.

    Args:
        cost_squared: The squared sensitivity divided by the noise variance, Δ², at least 0.

    Raises:
        TypeError: The cost is not a fraction or a whole number.
        ValueError: The cost is negative.

    **Guarantees**

    - The result is exact: nothing is rounded. It holds for continuous Gaussian noise (Bun and Steinke 2016, Proposition
      1.6) and for discrete Gaussian noise (CKS20, Theorem 14).
    - ρ adds over releases: rho(a + b) = rho(a) + rho(b).
    """
    return _exact_cost(cost_squared) / 2


def mu(cost_squared: Fraction) -> float:
    """Return μ of the Gaussian DP of a continuous Gaussian release: μ = Δ, the square root of the cost.

    Args:
        cost_squared: The squared sensitivity divided by the noise variance, Δ², at least 0.

    Raises:
        TypeError: The cost is not a fraction or a whole number.
        ValueError: The cost is negative.
        OverflowError: Δ is larger than any float.

    **Guarantees**

    - The result is within one unit in the last place of √Δ², even if Δ² itself is too small or too large for a float.
    """
    cost = _exact_cost(cost_squared)
    # √(p/q) = √(p 4^k / q) / 2^k, with k so large that the integer root has 64 bits or more.
    shift = 64 + max(0, cost.denominator.bit_length() - cost.numerator.bit_length())
    root = math.isqrt((cost.numerator << 2 * shift) // cost.denominator)
    return root / (1 << shift)  # division of integers rounds correctly at any size


def mu_above(cost_squared: Fraction) -> float:
    """Return the next float above `mu`, which is at least √Δ².

    Raises: The same errors as `mu`.
    """
    return math.nextafter(mu(cost_squared), math.inf)


def pure_mu(epsilon: Fraction) -> float:
    """Return the least μ for which every ε-differentially private release is μ-Gaussian-DP.

    It satisfies Φ(μ/2) = e^ε/(1 + e^ε). The trade-off function of ε-DP is two straight lines that meet at α = 1/(1 +
    e^ε), where G_μ is Φ(−μ/2). G_μ is convex, so it lies below both lines if it does not lie above that point (Dong,
    Roth and Su 2022, section 2).

    Raises:
        TypeError: ε is not a fraction or a whole number.
        ValueError: ε is negative or larger than 1e100.

    **Guarantees**

    - The relative error is below 1e-12 for ε from 1e-300 to 1e100.
    - The result is √(π/2) ε for small ε: priced as Gaussian noise, the release seems to cost a quarter more than it
      does.
    """
    x = check_nonnegative("epsilon", _exact_cost(epsilon))
    if x < 1:
        return 2 * math.sqrt(2) * float(special.erfinv(math.tanh(x / 2)))  # 2Φ(μ/2) − 1 = tanh(ε/2)
    # tanh(ε/2) is 1 as a float for large ε. The logarithm of Φ(−μ/2) = 1/(1 + e^ε) keeps all digits there.
    return float(-2 * special.ndtri_exp(-float(np.logaddexp(0.0, x))))


def pure_mu_squared(epsilon: Fraction) -> Fraction:
    """Return an upper bound on the square of `pure_mu`, as a fraction, for sums.

    Raises:
        TypeError: ε is not a fraction or a whole number.
        ValueError: ε is negative.

    **Guarantees**

    - The result is at least μ², and above it by at most 3e-11 relative for ε up to 1e100.
    - The result is never above π/2 ε² by more than that, and equals π/2 ε², rounded up, for small ε.
    """
    exact = _exact_cost(epsilon)
    if not Fraction(1, 2**20) <= exact <= MAX_PARAMETER:  # tanh u ≤ erf(√π u/2), and for small u by u³/15 at most
        return HALF_PI * exact**2
    return Fraction(pure_mu(exact) * (1 + 1e-11)) ** 2


# --- The exact curve of the continuous Gaussian -----------------------------------------------------------

_NODES = tuple((float(x), float(w)) for x, w in zip(*np.polynomial.legendre.leggauss(8), strict=True))

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

_SQRT_HALF_PI = math.sqrt(math.pi / 2)


def _mills(x: float) -> float:
    """Return the Mills ratio M(x) = Φ(−x) / φ(x), free of underflow for every x > 0."""
    return _SQRT_HALF_PI * float(special.erfcx(x * math.sqrt(0.5)))


def log_gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the logarithm of δ(ε) for μ > 0; −inf where δ is below every positive float.

    Let φ be the normal density, M the Mills ratio, a = ε/μ − μ/2 and b = ε/μ + μ/2. Then e^ε φ(b) = φ(a), so both
    terms of the curve carry the same tiny factor: δ = φ(a) (M(a) − M(b)). Nothing underflows, and the remaining
    difference is one of numbers of ordinary size. At a ≤ 39 it keeps at least twelve digits, because 1 − x M(x) ≈ 1/x².
    """
    centre, half = epsilon / mu, mu / 2
    a, b = centre - half, centre + half
    if a > _NEGLIGIBLE:
        return -math.inf
    # For small μ the two numbers are nearly equal. M' = x M − 1 gives M(a) − M(b) = ∫ (1 − x M(x)) dx over [a, b], and
    # the integrand is positive and keeps twelve digits too. M is entire: over a width ≤ 1/2, eight Gauss–Legendre nodes
    # are right to 1e-20 relative.
    if mu <= 0.5:
        points = ((centre + half * x, w) for x, w in _NODES)
        mean = 0.5 * sum(w * (1 - x * _mills(x)) for x, w in points)
        return math.log(mu) + math.log(mean) - a * a / 2 - _LOG_SQRT_2PI
    if a > 0:
        return math.log(_mills(a) - _mills(b)) - a * a / 2 - _LOG_SQRT_2PI
    # a ≤ 0: Φ(−a) ≥ 1/2 is ordinary, M(a) might overflow. The second term is at most 0.7 times the first.
    return math.log(float(special.ndtr(-a)) - math.exp(-a * a / 2 - _LOG_SQRT_2PI) * _mills(b))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return δ at which a μ-Gaussian-DP release is (ε, δ)-DP: δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ).

    This is the exact curve of the continuous Gaussian mechanism (Balle and Wang 2018, Theorem 8).

    Args:
        mu: μ ≥ 0, at most 1e100.
        epsilon: ε ≥ 0, at most 1e100.

    Raises:
        ValueError: μ or ε is negative, not finite, or larger than 1e100.

    **Guarantees**

    - The relative error is below 1e-10 for μ from 1e-6 to 50 and δ from 1e-300 up.
    - The result is in [0, 1]. It is 0 exactly if μ = 0 or if δ is smaller than every positive float.
    - δ(0) = 2 Φ(μ/2) − 1.
    """
    mu, epsilon = check_nonnegative("mu", mu), check_nonnegative("epsilon", epsilon)
    return math.exp(log_gaussian_delta(mu, epsilon)) if mu > 0 else 0.0


# --- The same curve for discrete noise --------------------------------------------------------------------

MAX_PRECISION = Fraction(1, 2**20)
"""The largest 1/σ² of Gaussian noise in plans: their lattices have σ ≥ 2¹⁰."""

_MAX_CURVE_PRECISION = Fraction(1, 16**2)
"""The largest 1/σ² for which discrete noise is claimed to keep the curve of continuous noise."""

LATTICE_SHIFT, LATTICE_FACTOR = 1e-12, 1 + 1e-9
"""The shift of ε and factor of δ for discrete noise: above the needs of docs/mathematics/exact_curve.md and rounding.
"""

MIN_MU, MAX_MU = 1e-6, 50.0
"""The range in which `gaussian_delta` is right to 1e-10."""


def smoothed_cost(cost_squared: Fraction, precision: Fraction) -> Fraction | None:
    """Return μ′² of discrete Gaussian noise, exact: Δ²/(1 − 4c), or None if the lattice is too coarse, c > 1/256.

    Take discrete Gaussian noise of variance parameter σ² on the integers. Take also continuous noise of variance σ² −
    4, and round it randomly. The probabilities of the first are those of the second up to factors e^{±b}, with b <
    2.1e-34. So integer answers are as private as with continuous noise of these smaller variances: Σ s²/(σ² − 4) ≤
    Δ²/(1 − 4c).

    Args:
        cost_squared: The exact Δ² = Σ s²/σ².
        precision: The largest 1/σ² of all the noise, c, at least 0.

    Raises:
        TypeError: An argument is not a fraction or a whole number.
        ValueError: An argument is negative.

    **Guarantees**

    - The result is exact, and at least Δ².

    Source: this project; docs/mathematics/exact_curve.md.
    """
    cost, c = _exact_cost(cost_squared), _exact_cost(precision)
    return None if c > _MAX_CURVE_PRECISION else cost / (1 - 4 * c)


def lattice_delta(mu: float, epsilon: float) -> float:
    """Return δ at which discrete Gaussian noise of smoothed cost μ′² is (ε, δ)-DP.

    δ = (1 + 1e-9) δ_G(μ′, ε − 1e-12), with δ_G the curve of continuous noise (:func:`gaussian_delta`). This exceeds the
    e^{Kb} δ_G(μ′, ε − 2Kb) of docs/mathematics/exact_curve.md for any number K < 2⁶⁴ of draws, rounding included.

    Args:
        mu: μ′ ≥ 0, at most 1e100, rounded up.
        epsilon: ε ≥ 0, at most 1e100.

    Raises:
        ValueError: μ′ or ε is negative, not finite, or larger than 1e100.

    **Guarantees**

    - The result is never below e^{Kb} δ_G(μ′, ε − 2Kb), for any adaptive order of the draws.
    - The result is above δ_G(μ′, ε) by at most 1e-8 relative. This holds for μ′ from 0.01 to 50, ε from 1e-6 to 50 and
      δ from 1e-300 up.
    - The result is 0 if μ′ = 0, and 1 if μ′ > 50: nothing is claimed there.
    """
    mu, epsilon = check_nonnegative("mu", mu), check_nonnegative("epsilon", epsilon)
    return _lattice_delta(mu, epsilon) if mu > 0 else 0.0


def _lattice_delta(mu: float, epsilon: float) -> float:
    if mu > MAX_MU:
        return 1.0
    # below ε = 1e-12 the curve goes on to ε < 0, where δ_G(μ, −t) ≤ δ_G(μ, 0) + t
    short = max(0.0, LATTICE_SHIFT - epsilon)
    delta = gaussian_delta(max(mu, MIN_MU), max(0.0, epsilon - LATTICE_SHIFT))
    return min(1.0, math.nextafter((delta + short) * LATTICE_FACTOR, 2.0))


# --- The curve of zero-concentrated DP ---------------------------------------------------------
#
# CKS20, Corollary 13, with s = α − 1 > 0 and every logarithm in a form that does not cancel: ρ-zCDP gives
#
#     log δ  ≤  L(s) = s(1+s)ρ − sε − s log(1 + 1/s) − log(1 + s)     for every s > 0.
#
# L is convex: L'(s) = (1+2s)ρ − ε − log(1 + 1/s) increases from −∞ to ∞. Solving L(s) = log δ for ε or for ρ
# gives functions of s whose minimum (maximum) lies at the zero of another increasing function. A root is only
# found approximately, and need not be: *any* s gives a valid statement, and near the optimum the loss is
# quadratic in the error of s. Roots are sought in log s.


def zcdp_delta_bound(rho: float, epsilon: float) -> float:
    """Return `zcdp_delta` for ρ > 0, unchecked: an upper bound on exp L(s) at a nearly optimal s."""
    gap = rho - epsilon  # Computed first: 1 + s would lose s < 2^-53, which matters if ρ is large.

    def slope(log_s: float) -> float:
        s = math.exp(log_s)
        return gap + 2 * s * rho - math.log1p(1 / s)

    # Ends where the slope certainly has a sign; the caps keep s and its square within floats.
    low = max(-690.0, min(0.0, epsilon - 3 * rho) - 1)
    high = min(340.0, max(0.0, math.log((epsilon + 1) / 2) - math.log(rho)))
    s = math.exp(increasing_root(slope, low, high))
    terms = (s * gap, s * s * rho, -s * math.log1p(1 / s), -math.log1p(s))
    bound = sum(terms) + ROUNDING * (1 + sum(map(abs, terms)))
    # The next float up covers the rounding of exp below 2^-1022, and makes 0 the smallest positive float.
    return min(1.0, math.nextafter(math.exp(min(bound, 0.0)), 2.0))


def zcdp_delta(rho: float | Fraction, epsilon: float) -> float:
    """Return δ at which every ρ-zCDP release is (ε, δ)-DP, by the optimal conversion.

    δ = inf over α > 1 of exp((α−1)(αρ − ε)) / (α−1) · (1 − 1/α)^α  (CKS20, Corollary 13).

    Args:
        rho: ρ ≥ 0, at most 1e100; a `Fraction` is rounded up.
        epsilon: ε ≥ 0, at most 1e100.

    Raises:
        ValueError: ρ or ε is negative, not finite, or larger than 1e100.

    **Guarantees**

    - The result is never below the infimum: it bounds the expression at some α > 1, rounding included.
    - The result is above the infimum by at most 1e-9 relative, for ρ from 1e-6 to 1000 and δ from 1e-300 up.
    - The result is 0 if ρ = 0, and otherwise in (0, 1].
    - The result is never below gaussian_delta(√(2ρ), ε), of which it is a bound.
    """
    rho, epsilon = rounded_up("rho", rho), check_nonnegative("epsilon", epsilon)
    return zcdp_delta_bound(rho, epsilon) if rho > 0 else 0.0
