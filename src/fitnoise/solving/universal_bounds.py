"""Bounds on the cost of mechanisms of any kind: unbiased near one data set, or biased with targets for all data.

W has the published numbers (rows) of the kinds of units (columns), c their targets. p weighs the changes v in V that
one unit can make, q the numbers, each of sum 1. ν = ‖diag(q/c)^½ W (Σ p_v vvᵀ)^½‖_* is the root of a plan's bound.

| promise | unbiased near one data set | biased or not, with errors E(M(x)_j − (Wx)_j)² ≤ c_j for all data x |
|---|---|---|
| ρ-zCDP | ρ ≥ ½ log(1 + ν²) | the same number |
| ε-DP | ε ≥ 2 asinh(ν/2) | ε ≥ 2 asinh(ν/√2) |
| (ε, δ)-DP | none | V₁(ε, δ) ≤ 1/ν² |

`docs/mathematics/unbiased_bound.md` proves the second column, with κ = e^(2ρ) − 1 for ρ-zCDP. This head proves the
third. The data x count the units of every kind that p uses. A mechanism may treat a person of two records unlike two
persons of one. M is defined, and meets its targets, for all x.

**Theorem 4.** Let M keep a promise of the table for one unit more or less, and meet its targets for all x ∈ ℕⁿ. Then
some law μ of noise z that does not depend on the data keeps the promise for Wx + z, and E z_j² ≤ c_j.
*Proof.* Let μ_N be the law of M(s) − Ws for s uniform on {N, …, 2N}ⁿ, and μ_N,v that of M(s + v) − Ws. Mixtures with
equal weights keep each promise. μ_N,v and μ_N moved by Wv differ by at most 1/N in total variation, as boxes moved by
one side do. Second moments are bounded, so μ_N has a weak limit point μ. Divergences and second moments are lower
semicontinuous. ∎ Under ρ-zCDP E z² is at least the variance, so the second column holds for μ.

**Theorem 5.** Let V₁ be the least E z² of one count, moved by one unit, whose noise on ℝ keeps the promise. Then
ν² V₁ ≤ 1.
*Proof.* M = diag(q/c)^½ W F with columns √p_v v of F has polar factor Z with columns z_v. For d_v = z_vᵀ diag(q/c)^½ W
v, Σ √p_v d_v = ν, so Σ d_v² ≥ ν². ℓ_v = z_vᵀ diag(q/c)^½ z is computed from the noise, and the change v moves it by
d_v. So E ℓ_v² ≥ d_v² V₁. As ZZᵀ ⪯ I, Σ_v E ℓ_v² ≤ Σ q_j E z_j²/c_j ≤ 1. ∎ With weights w of the variances in place of
q/c, ν² V₁ ≤ S = Σ w_j E z_j². For a hybrid objective, 1/V₁ ≥ ν²/S ≥ 2ν − S, its bound less the price of the variances.

**Theorem 6.** Let β = e^−ε, g_1 = (1 − δ)/(1 + e^ε), g_{k+1} = β (g_k − δ), and K with g_K > 0. With A = (1 + β)(1 +
β + … + β^{K−1}), V₁(ε, δ) ≥ 2 Σ_{k≤K} (2k − 1) g_k − (1 − 2 g_1)(K β^K)²/A. For δ = 0 this tends to 1/(2 sinh²(ε/2)),
the variance of discrete Laplace noise.
*Proof.* The mean of z and −z in law keeps the promise and E z², so let z be symmetric. With T(x) = P(z ≥ x), E z² =
4 ∫_0^∞ x T(x) dx. For x > 0, T(x + 1) ≥ β (T(x) − δ); for 0 < x < 1, T(x − 1) ≥ 1 − T(1 − x) gives T(x) + β T(1 − x) ≥
β (1 − δ). Ψ_x(a) = Σ_{k<K} (x + k) a_k with a_0 = a, a_{k+1} = β max(0, a_k − δ) is convex and increasing. Let a =
T(x) ≤ ½ and b = T(1 − x). Then E z² ≥ 4 ∫_0^½ [Ψ_x(a) + Ψ_{1−x}(b)] dx. Here a + βb ≥ β (1 − δ), and so mirrored. At
a = b = g_1 this is the first sum. From there, a smaller a with a larger b costs more, as 1 − x ≥ x. A larger a with a
smaller b has the slope x A − K β^K. By convexity it gains at most (½ − g_1) max(0, K β^K − x A). Integrate. ∎ These
are statements on the whole law, so laws that are not on the integers are included.

**Limits.** Targets that hold for some data only are in the second column. Where records are replaced, the third column
is for mechanisms for any number of records. If N of them are public, of n kinds, boxes have sides L ≤ (N − 1)/n. A
change moves two sides, so δ becomes δ + η with η = 2/L − 1/L², and ν becomes ν − 2η √rank W under ρ-zCDP. For few
public records nothing is claimed.

*Source*: this project.
"""

from __future__ import annotations

import math

import numpy as np

ROUNDING = 1e-12
"""Relative reduction of a bound: larger than the rounding error of its floats."""

SUM_ROUNDING = 1e-9
"""Relative reduction of V₁ with δ > 0: larger than the rounding error of its sums."""

MAX_TERMS = 2**20
"""The largest number of terms of V₁ that are added up; fewer terms prove less."""

HALVINGS = 40
"""The number of halvings of the interval in which ε is searched for."""


def min_rho(bound: float) -> float:
    """Return the least ρ under ρ-zCDP, in both columns, for ν² = `bound`."""
    return math.log1p(bound) / 2 * (1 - ROUNDING)


def min_unbiased_epsilon(bound: float) -> float:
    """Return the least ε of a pure mechanism that is unbiased near one data set, for ν² = `bound`."""
    return 2 * math.asinh(math.sqrt(bound) / 2) * (1 - ROUNDING)


def min_epsilon(bound: float, delta: float) -> float:
    """Return a lower bound on ε at δ of any mechanism with the targets for all data, for ν² = `bound`.

    delta: From 0 to less than 1. It may prove nothing: then the result is 0.
    """
    high = 2 * math.asinh(math.sqrt(bound / 2)) * (1 - ROUNDING)
    if delta == 0:
        return high
    # V₁ falls as ε grows. If `min_variance` excludes one ε, V₁ excludes each smaller one.
    low = 0.0
    for _ in range(HALVINGS if min_variance(0.0, delta) * bound > 1 else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if min_variance(middle, delta) * bound > 1 else (low, middle)
    return low


def min_variance(epsilon: float, delta: float) -> float:
    """Return the lower bound of Theorem 6 on V₁(ε, δ), with the first MAX_TERMS terms at most.

    delta: Greater than 0 and less than 1.
    """
    start, falling = (1 - delta) / (1 + math.exp(epsilon)), -math.expm1(-epsilon)
    # The steps after which β^k (g_1 + s) falls to s = βδ/(1 − β), and so g_k to 0; without β, g_k falls by δ a step.
    spent = start / (delta * math.exp(-epsilon))
    steps = spent if epsilon == 0 else math.log1p(spent * falling) / epsilon
    powers = np.exp(-epsilon * np.arange(min(MAX_TERMS, int(steps) + 2) + 1.0))  # β^k from k = 0
    terms = start * powers[:-1] - delta * (np.cumsum(powers[:-1]) - 1)
    terms = terms[terms > 0]
    k = len(terms)
    loss = (1 - 2 * start) * (k * powers[k]) ** 2 / ((1 + math.exp(-epsilon)) * powers[:k].sum())
    return max(0.0, float(2 * (2 * np.arange(1.0, k + 1) - 1) @ terms - loss)) * (1 - SUM_ROUNDING)
