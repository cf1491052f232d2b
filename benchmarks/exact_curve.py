"""ε at δ of discrete Gaussian noise: rounded outwards, and what it gains. Run: python benchmarks/exact_curve.py

The first part compares random prices, lattices and δ with the theorem of docs/mathematics/exact_curve.md in 60 digits;
the seed is given. The second part has the ratio of margins of error at fixed (ε, δ) to those with the conversion of
ρ-zCDP: √(ρ/ρ′). The others have the cost of pure plans number by number, and the joint cost of several releases, added
up in four ways.
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
from fitnoise.planning.accounting import Curve, ReleasedCharge
from fitnoise.request import curves
from fitnoise.request.curves import epsilon_at
from fitnoise.request.documents import load_spec
from fitnoise_lab import gallery

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
        epsilon = epsilon_at(Loss.concentrated(cost / 2, precision), delta)
        if epsilon >= curves.zcdp_epsilon(cost / 2, delta):
            continue
        by_curve += 1
        delta_at_epsilon = allowed(cost, precision, epsilon)
        inward += delta_at_epsilon > delta
        given_away = max(given_away, float(1 - delta_at_epsilon / delta) if epsilon > 1e-9 else 0.0)
    print(f"{count} random losses, {by_curve} by the curve: {inward} rounded inwards; δ at ε short by {given_away:.1e}")


def gains() -> None:
    """Print the reduction of margins of error at (ε, δ), and of ε of plans."""
    print("\n| epsilon | delta | ρ by the curve / ρ by zCDP | margins narrower by |\n|---|---|---|---|")
    for epsilon, delta in ((1, 1e-6), (0.5, 1e-6), (1, 1e-9), (3, 1e-6)):
        new, old = fn.Budget(epsilon=epsilon, delta=delta).gaussian_rho, curves.zcdp_rho(epsilon, delta)
        print(f"| {epsilon} | {delta:g} | {float(new) / old:.4f} | {1 - math.sqrt(old / float(new)):.1%} |")
    domain = fn.Domain(age=fn.Ordered(0, 255))
    plans = {
        "demo": fn.plan(load_spec(data.path(data.DEMO))),
        "PL94, variance 100": fn.plan(gallery.pl94_tables(100.0)),
        "prefix 256, ±50": fn.plan(fn.Workload(domain, [fn.table(cumulative="age", margin=50)])),
    }
    print("\n| plan | ρ | ε at 1e-6 by the curve | by zCDP | margins narrower at that ε |\n|---|---|---|---|---|")
    for name, plan in plans.items():
        ours, theirs = plan.epsilon(1e-6), curves.zcdp_epsilon(plan.loss.rho, 1e-6)
        narrower = 1 - math.sqrt(curves.zcdp_rho(ours, 1e-6) / plan.rho)
        print(f"| {name} | {plan.rho:.6f} | {ours:.5f} | {theirs:.5f} | {narrower:.1%} |")
    print("\n| pure plan, ±50 | ε | ε²/2 | ρ by its numbers | times less |\n|---|---|---|---|---|")
    for n in (64, 256):
        table = fn.table(cumulative="age", margin=50)
        plan = fn.plan(fn.Workload(fn.Domain(age=fn.Ordered(0, n - 1)), [table]), privacy="pure")
        total_rho = float(plan.table_part.exact_cost / 2)
        print(f"| prefix {n} | {plan.epsilon():.5f} | {total_rho:.6f} | {plan.rho:.6f} | {total_rho / plan.rho:.3f} |")


def accounts() -> None:
    """ε at 10⁻⁶ of several releases together: by the sum of ρ, of μ², and of privacy losses."""
    demo, tenth = Loss.concentrated(Fraction(356209, 10**7), privacy.MAX_PRECISION), Fraction(1, 10)
    numbers = Loss.of_epsilon(Fraction(1, 2), by_cell=True, implied=[10 * Fraction(1, 20) ** 2 / 2])
    answer = Loss.of_epsilon(tenth, by_cell=True)
    stored = {
        "demo": (demo, ReleasedCharge(demo.gaussian_mu_squared)),
        "numbers": (numbers, ReleasedCharge(tables=((((Fraction(1, 20), 10),),),))),
        "answer": (answer, ReleasedCharge(answers=(tenth,))),
    }
    mixes = {
        "demo, 4 times": {"demo": 4},
        "demo, 20 times": {"demo": 20},
        "demo + a pure plan, ε = 0.5 in 10 equal numbers": {"demo": 1, "numbers": 1},
        "4 demos + 4 such + 10 finite answers of 0.1": {"demo": 4, "numbers": 4, "answer": 10},
        "50 finite answers of 0.1": {"answer": 50},
    }
    print("\n| ε at δ = 1e-6 | ρ = ε²/2 of what is pure | ρ by numbers | μ² | complete |\n|---|---|---|---|---|")
    for name, mix in mixes.items():
        each = [stored[what] for what, times in mix.items() for _ in range(times)]
        loss = sum((x for x, _ in each), Loss.zero())
        total_rho = loss.max_cell_rho + sum(e**2 / 2 for e in loss.pure_epsilons)
        mu = math.sqrt(loss.mu_squared) * (1 + 1e-12)
        figures = (
            curves.zcdp_epsilon(total_rho, 1e-6),
            curves.zcdp_epsilon(loss.rho, 1e-6),
            curves.lattice_epsilon(mu, 1e-6),
            Curve(tuple(x for _, x in each)).epsilon(1e-6),
        )
        print(f"| {name} | {' | '.join(f'{x:.3f}' for x in figures)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with mpmath.workdps(60):
        compare(arguments.count, arguments.seed)
    gains()
    accounts()
