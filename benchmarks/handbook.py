"""Coverage of the margins of survey handbooks on the demo, for docs/howto/compute_shares_and_growth.md.

    python benchmarks/handbook.py [--draws 100000]

Handbooks give the error of a sum of published numbers as if their errors were independent. They give the error of a
share as if it were independent of the error of the denominator. The errors of a release are correlated. The benchmark
uses no data. It compares the margin of a state's total by the handbook's sum of its numbers of `state by status` with
its own. It also compares the coverage of two intervals of a share of two counts of that table, the handbook's and that
of fitnoise. The noise has the table's exact covariance. The numerator of a share is one number of the table, and its
denominator the total of its state. The denominator has the margin of the release, or that of the handbook's sum.
Nominal is 95 %; two standard errors of these shares of 100,000 draws are 0.3 % at most.
"""

import argparse
from dataclasses import dataclass

import numpy as np

import fitnoise as fn
from fitnoise import data
from fitnoise.reading.release import Release
from fitnoise.request.documents import load_spec
from fitnoise.request.targets import z_score

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--draws", type=int, default=100_000)

DENOMINATOR = 1600
"""Denominator of the shares: about the number of units in a median state."""

PARTS = (26, 130, 650, 830, 1150)
"""Numerators: about the separate, head, joint and single units of such a state, and the worst share."""


def handbook(a, b, moes):
    """The margin of a share a/b from both margins, by the formula for proportions, or else that for ratios."""
    ratio, (top, bottom) = a / b, np.square(moes)
    inside = top - ratio**2 * bottom
    return np.sqrt(np.where(inside >= 0, inside, top + ratio**2 * bottom)) / b


@dataclass(frozen=True)
class Noise:
    """Margins of a count of the demo's `state by status` and of its state's total, and their covariance, (2, 2)."""

    one: float
    total: float
    by_rule: float
    covariance: np.ndarray


def of_the_demo():
    """Known without data: the same for every state and status."""
    plan = fn.plan(load_spec(data.path(data.DEMO)))
    nobody = Release(plan, [np.zeros(n, dtype=np.int64) for p in plan.groups for n in p.estimation.lengths])
    first_state = nobody["state by status"]["state"][0]
    parts, total = nobody.count(by="status", state=first_state), nobody.count(state=first_state)
    one = nobody.count(status="joint", state=first_state)
    covariance = np.array([[one.std_error**2, 0], [0, total.std_error**2]])
    covariance[0, 1] = covariance[1, 0] = ((one + total).std_error ** 2 - np.trace(covariance)) / 2
    return Noise(one.moe(), total.moe(), np.sqrt(np.square(parts.moe()).sum()), covariance)


def held(noise, part, total, draws):
    """Return coverage and median width of three intervals: the handbook's, that with its sum rule, and fitnoise's."""
    rng = np.random.default_rng(1)  # no noise of a release: what is simulated is public
    a, b = np.array([[part], [total]]) + np.linalg.cholesky(noise.covariance) @ rng.normal(size=(2, draws))
    margins = [handbook(a, b, (noise.one, moe)) for moe in (noise.total, noise.by_rule)]
    out = [((np.abs(a / b - part / total) <= x).mean(), 2 * np.median(x)) for x in margins]
    away = np.array([1, -part / total])
    moe = z_score(0.95) * np.sqrt(away @ noise.covariance @ away)
    return [*out, ((np.abs(away @ [a, b]) <= moe).mean(), 2 * moe / total)]


def main(arguments):
    """The margins of a total, and the table of shares."""
    noise = of_the_demo()
    by_rule = noise.by_rule / noise.total
    print(f"a state's total: ± {noise.by_rule:.1f} by the rule, ± {noise.total:.1f} in truth, {by_rule:.2f} times\n")
    print("| share | total as published | width | total by their rule | width | fitnoise | width |")
    print("|---|---|---|---|---|---|---|")
    for part in PARTS:
        cells = " | ".join(f"{x:.1%} | {width:.4f}" for x, width in held(noise, part, DENOMINATOR, arguments.draws))
        print(f"| {part}/{DENOMINATOR} | {cells} |")
    for denominator in (400, DENOMINATOR, 10_000):
        coverages = np.array(
            [[x for x, _ in held(noise, denominator * i / 100, denominator, arguments.draws)] for i in range(1, 100)]
        )
        ends = " | ".join(f"{x.min():.1%} at {1 + x.argmin()} % | {x.max():.1%}" for x in coverages.T)
        print(f"| 1 to 99 % of {denominator:,}: least and most | {ends} |", flush=True)


if __name__ == "__main__":
    main(parser.parse_args())
