"""ε at δ of discrete Gaussian noise: rounded outwards, and what it gains. Run: python benchmarks/exact_curve.py

Random prices, lattices and δ against the theorem of docs/exact_curve.md in 60 digits, with a seed that is given; then
by what the margins of error at fixed (ε, δ) are narrower than with the conversion of ρ-zCDP: √(ρ/ρ′); and what the
numbers of pure plans cost one by one.
"""

import argparse
import math
from fractions import Fraction

import mpmath
import numpy as np

import fitnoise as fn
from fitnoise import data
from fitnoise.kernel import privacy
from fitnoise.kernel.losses import Loss
from fitnoise.request.documents import load_spec

DRAWS = 2**64


def allowed(cost: Fraction, precision: Fraction, epsilon: float) -> mpmath.mpf:
    """e^{Kb} δ_G(μ′, ε − 2Kb) for K = 2⁶⁴ draws."""
    r = 2 * sum(mpmath.exp(-8 * mpmath.pi**2 * j**2) for j in range(1, 4))
    b = DRAWS * mpmath.log((1 + r) / (1 - r))
    square = privacy.smoothed_cost(cost, precision)
    mu = mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator)
    t = mpmath.mpf(epsilon) - 2 * b
    return mpmath.exp(b) * (mpmath.ncdf(mu / 2 - t / mu) - mpmath.exp(t) * mpmath.ncdf(-mu / 2 - t / mu))


def compare(count: int, seed: int) -> None:
    """Random losses: how many ε are too small, and by how much they are too large."""
    rng, inward, given_away, by_curve = np.random.default_rng(seed), 0, 0.0, 0
    for _ in range(count):
        cost = Fraction(float(10 ** rng.uniform(-9, 3))).limit_denominator(10**12)
        precision = min(Fraction(1, 256), Fraction(float(10 ** rng.uniform(-10, -2))))
        delta = float(10 ** rng.uniform(-15, -0.5))
        if cost == 0:
            continue
        epsilon = Loss.concentrated(cost / 2, precision).epsilon_at(delta)
        if epsilon >= privacy.zcdp_epsilon(cost / 2, delta):
            continue
        by_curve += 1
        reached = allowed(cost, precision, epsilon)
        inward += reached > delta
        given_away = max(given_away, float(1 - reached / delta) if epsilon > 1e-9 else 0.0)
    print(f"{count} random losses, {by_curve} by the curve: {inward} rounded inwards; δ at ε short by {given_away:.1e}")


def gains() -> None:
    """By what margins of error are narrower at (ε, δ), and ε of plans smaller."""
    print("\n| epsilon | delta | ρ by the curve / ρ by zCDP | margins narrower by |\n|---|---|---|---|")
    for epsilon, delta in ((1, 1e-6), (0.5, 1e-6), (1, 1e-9), (3, 1e-6)):
        new, old = fn.Budget(epsilon=epsilon, delta=delta).gaussian_rho, privacy.zcdp_rho(epsilon, delta)
        print(f"| {epsilon} | {delta:g} | {float(new) / old:.4f} | {1 - math.sqrt(old / float(new)):.1%} |")
    domain = fn.Domain(age=fn.Ordered(0, 255))
    plans = {
        "demo": fn.plan(load_spec(data.path(data.DEMO))),
        "prefix 256, ±50": fn.plan(fn.Workload(domain, [fn.table(prefix="age", margin=50)])),
    }
    print("\n| plan | ρ | ε at 1e-6 by the curve | by zCDP |\n|---|---|---|---|")
    for name, made in plans.items():
        print(
            f"| {name} | {made.rho:.6f} | {made.epsilon(1e-6):.5f} | {privacy.zcdp_epsilon(made.exact_rho, 1e-6):.5f} |"
        )
    print("\n| pure plan, ±50 | ε | ε²/2 | ρ by its numbers | times less |\n|---|---|---|---|---|")
    for n in (64, 256):
        table = fn.table(prefix="age", margin=50)
        made = fn.plan(fn.Workload(fn.Domain(age=fn.Ordered(0, n - 1)), [table]), privacy="pure")
        whole = float(made.exact_cost / 2)
        print(f"| prefix {n} | {made.epsilon():.5f} | {whole:.6f} | {made.rho:.6f} | {whole / made.rho:.3f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with mpmath.workdps(60):
        compare(asked.count, asked.seed)
    gains()
