"""How far the formulas of survey handbooks are from what is true of the demo's numbers, which docs/asking.md quotes.

    python benchmarks/handbook.py [--draws 20000]

Handbooks give the error of a sum, or of a share, made of published numbers whose errors are taken as independent. Those
of a release hang together. Compared are, without any data: the margin of a state's total, as the sum of its numbers of
`state by status`, with its own; and how often their interval of a share of two counts of that table holds, of noise of
the table's exact covariance. A share's numerator is one number of it, its denominator the total of its state.
"""

import argparse

import numpy as np

import fitnoise as fn
from fitnoise import data
from fitnoise.reading.release import Release
from fitnoise.request.documents import load_spec
from fitnoise.request.targets import z_score

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--draws", type=int, default=20_000)

SHARE, OF = 650, 1600
"""The share whose interval is looked at."""


def handbook(a, b, moes):
    """The margin of a share a/b from both margins, by the formula for proportions, or else that for ratios."""
    share, (top, bottom) = a / b, np.square(moes)
    inside = top - share**2 * bottom
    return np.sqrt(np.where(inside >= 0, inside, top + share**2 * bottom)) / b


def main(given):
    """Both figures, and our interval beside the second."""
    plan = fn.plan(load_spec(data.path(data.DEMO)))
    nobody = Release(plan, [np.zeros(n, dtype=np.int64) for p in plan.groups for n in p.estimation.lengths])
    first = nobody["state by status"]["state"][0]
    parts, total = nobody.count(by="status", state=first), nobody.count(state=first)
    by_rule = np.sqrt(np.square(parts.moe()).sum())
    print(
        f"a state's total: ± {by_rule:.1f} by the rule, ± {total.moe():.1f} in truth, {by_rule / total.moe():.2f} times"
    )

    one = nobody.count(status="joint", state=first)
    covariance = np.array([[one.std_error**2, 0], [0, total.std_error**2]])
    covariance[0, 1] = covariance[1, 0] = ((one + total).std_error ** 2 - np.trace(covariance)) / 2
    rng = np.random.default_rng(1)  # no noise of a release: what is simulated is public
    a, b = np.array([[SHARE], [OF]]) + np.linalg.cholesky(covariance) @ rng.normal(size=(2, given.draws))
    off = np.abs(a / b - SHARE / OF)
    for what, moe in (("its total as published", total.moe()), ("its total by their rule", by_rule)):
        margin = handbook(a, b, (one.moe(), moe))
        print(f"{SHARE}/{OF} of {what}: holds {(off <= margin).mean():.1%}, width {2 * np.median(margin):.4f}")
    widths = [z_score(0.95) * np.sqrt([1, -SHARE / OF] @ covariance @ [1, -SHARE / OF])]
    inside = np.abs(a - SHARE / OF * b) <= widths[0]
    print(f"{SHARE}/{OF} by ours: holds {inside.mean():.1%}, width {2 * widths[0] / OF:.4f}")


if __name__ == "__main__":
    main(parser.parse_args())
