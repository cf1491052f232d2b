"""Margin and bias of a sum by its `high`: the rule of docs/howto/publish_sums_and_means.md, and other choices.

    python benchmarks/choosing_high.py [--draws 100]

A sum planned with a margin of κ records at `high` has the margin κ · high, and is Σ (v − high)⁺ too small. Margin plus
bias is convex in `high` and changes by κ − #{v > high}, so it is least if κ records lie above `high`. A publisher
cannot apply this rule exactly, because `high` is not chosen from the data. So the benchmark also measures choices that
miss it. They have κ of equally many *other* units above `high`, or κ/4, 4 κ or none of these units. Each figure is a
multiple of the least loss of any `high`. *Squared* is for the rule. Its two parts are squared and added, with the
standard error of the noise in place of its margin. It is in multiples of the least root.

Data: tax units of the Current Population Survey, of the file that comes with fitnoise (fitnoise/data/PROVENANCE.md).
Ages of their heads are unchanged. The file has classes of wages, for 71,798 units with wages. **The place of an amount
in its class is simulated**, uniformly. The 2,400 units of 200,000 or more have a Pareto tail; a smaller exponent gives
a heavier tail. Each line is a mean over draws of units, and of equally many others.
"""

import argparse
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fitnoise import data
from fitnoise.request.targets import z_score

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--draws", type=int, default=100)

FLOORS = np.array([0, 1, 10_000, 25_000, 50_000, 75_000, 100_000, 200_000])
"""Lower end of each class of wages."""

TAILS = (3.0, 1.5)

SIZES = (300, 3_000, 30_000)

KAPPAS = (5, 20, 100)


def lost(amounts, high, kappa):
    """The margin κ · high of a sum, and what is cut off above `high`, Σ (v − high)⁺; in units of the amount."""
    return kappa * high + np.maximum(amounts - high, 0).sum()


def squared(amounts, highs, kappa):
    """The root mean square error of a sum, of noise and of what is cut off, at each `high` of an array."""
    ordered = np.sort(amounts)[::-1]
    above = np.searchsorted(-ordered, -highs)  # of each, how many are larger
    cut = np.append(0.0, np.cumsum(ordered))[above] - above * highs
    return np.hypot(kappa * highs / z_score(0.95), cut)


def with_above(amounts, count):
    """Return the least of these amounts with at most `count` of them above it."""
    return np.sort(amounts)[max(len(amounts) - 1 - int(count), 0)]


def placed(classes, tail, rng):
    """Amounts of classes of wages: made up within each, with a Pareto tail of this exponent in the last."""
    position = rng.random(len(classes))
    ends = np.append(FLOORS[1:], FLOORS[-1])
    spread_amounts = FLOORS[classes] + position * (ends - FLOORS)[classes]
    return np.where(classes == len(FLOORS) - 1, FLOORS[-1] * (1 - position) ** (-1 / tail), spread_amounts)


@dataclass(frozen=True)
class Line:
    """The loss of the rule at κ, as a share of the sum; its squares and the losses of others, over the least."""

    lost_share: float
    squared: float
    others: float
    quarter: float
    fourfold: float
    largest: float


def line(amounts, others, kappa):
    """One draw: amounts that are summed up, and others of whom `high` may be known."""
    high = with_above(amounts, kappa)
    min_lost = lost(amounts, high, kappa)
    choices = (
        with_above(others, kappa),
        with_above(amounts, kappa // 4),
        with_above(amounts, 4 * kappa),
        amounts.max(),
    )
    return Line(
        min_lost / amounts.sum(),
        squared(amounts, np.array([high]), kappa)[0] / squared(amounts, amounts, kappa).min(),
        *(lost(amounts, x, kappa) / min_lost for x in choices),
    )


def mean_line(draw, size, kappa, draws):
    """The mean over draws of twice as many amounts, half of them others."""
    lines = [line(x[:size], x[size:], kappa) for x in (draw(2 * size) for _ in range(draws))]
    return Line(*np.mean([list(vars(x).values()) for x in lines], axis=0))


def main(arguments):
    """The table, line by line."""
    units = pd.read_csv(data.path(data.CPS))
    classes = units["wages"][units["wages"] > 0].to_numpy()
    print("| amounts | units | κ | lost, of the sum | squared | high of others | κ/4 | 4 κ | largest |")
    print("|---|---|---|---|---|---|---|---|---|")
    amounts_by_name = {f"wages, tail {x:g}": (classes, x) for x in TAILS}
    amounts_by_name["ages"] = (units["age"].to_numpy(), None)
    for name, (population, tail) in amounts_by_name.items():
        for size in SIZES:
            for kappa in KAPPAS:
                rng = np.random.default_rng(1)  # of no release

                def draw(count, population=population, tail=tail, rng=rng):
                    sample = rng.choice(population, count, replace=False)
                    return sample if tail is None else placed(sample, tail, rng)

                x = mean_line(draw, size, kappa, arguments.draws)
                print(
                    f"| {name} | {size:,} | {kappa} | {x.lost_share:.2%} | {x.squared:.2f} | {x.others:.2f} "
                    f"| {x.quarter:.2f} | {x.fourfold:.2f} | {x.largest:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(parser.parse_args())
