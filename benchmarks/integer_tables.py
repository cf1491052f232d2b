"""Integer tables: gains and losses on data, and seconds and memory by the number of numbers.

    python benchmarks/integer_tables.py [--largest 1000000]
    python benchmarks/integer_tables.py --data FILE.csv --tables "occupation,education,sex;race,country" [--margin 10]

With --data the benchmark makes --releases real releases, from the values of columns that occur in the file. It computes
integer tables of each, and compares them with the truth and with the usual method of agencies. This method cuts every
number at 0, and rounds it.
"""

import argparse
import itertools
import resource
import time

import numpy as np
import pandas as pd

import fitnoise as fn
from fitnoise.engines.histogram import HistogramCounter
from fitnoise.kernel.measure import measure
from fitnoise.reading import integer_tables as making
from fitnoise.reading.release import Release
from fitnoise.solving.nearest_integers import adjacent
from fitnoise.solving.nonnegative import nearest

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--largest", type=int, default=1_000_000)
parser.add_argument("--data")
parser.add_argument("--tables", help="columns with commas between them; tables with semicolons; a^ is cumulative")
parser.add_argument("--margin", type=float, default=10.0)
parser.add_argument("--releases", type=int, default=100)


def real_release(plan, counts):
    """Return a release with noise of the sampler of real releases, charged to a ledger in memory."""
    with fn.Ledger(":memory:") as ledger:
        measurement = measure(plan.order, HistogramCounter(counts, plan.publication.workload.domain.axes), ledger)
    return Release(plan, [x for part in measurement.answers for x in part])


# --- errors ---------------------------------------------------------------------------------------------


def plan_of_data(data, tables, margin):
    """A plan of tables over the values that occur, and the true histogram."""
    listed = [[name.removesuffix("^") for name in t.split(",")] for t in tables.split(";")]
    prefixes = [[name.removesuffix("^") for name in t.split(",") if name.endswith("^")] for t in tables.split(";")]
    ordered = set(itertools.chain(*prefixes))
    names = list(dict.fromkeys(itertools.chain(*listed)))
    values = {name: sorted(data[name].unique().tolist()) for name in names}
    domain = fn.Domain(
        {n: fn.Ordered(min(v), max(v)) if n in ordered else fn.Categorical(v) for n, v in values.items()}
    )
    requested = [
        fn.table(*(a for a in attributes if a not in cumulative), cumulative=cumulative, margin=margin)
        for attributes, cumulative in zip(listed, prefixes, strict=True)
    ]
    places = [
        data[n].to_numpy() - min(v) if n in ordered else pd.Categorical(data[n], categories=v).codes
        for n, v in values.items()
    ]
    counts = np.zeros(domain.shape, dtype=np.int64)
    np.add.at(counts, tuple(places), 1)
    return fn.plan(fn.Workload(domain, requested)), counts


def tables_of(release):
    return np.concatenate([release[name]["value"].to_numpy() for name in release])


def errors(plan, counts, releases):
    """Return errors of unbiased, integer and cut numbers, and coverage, by the size of the true number."""
    workload = plan.publication.workload
    truth = []
    for t in workload.tables:
        attributes = [*workload.domain]
        marginal = counts.sum(axis=tuple(i for i, a in enumerate(attributes) if a not in t.attributes))
        axes = [a for a in attributes if a in t.attributes]
        marginal = marginal.transpose([axes.index(a) for a in t.attributes])
        for axis, a in enumerate(t.attributes):
            marginal = marginal.cumsum(axis=axis) if t.view(a).word == "prefix" else marginal
        truth.append(marginal.ravel())
    truth = np.concatenate(truth)
    rows = {"unbiased": [], "whole": [], "cut": []}
    inside, stated, narrower = [], [], []
    for i in range(releases):
        release = real_release(plan, counts)
        tables = fn.make_integer_tables(release, simulations=0 if i else None)
        values = tables_of(release)
        rows["unbiased"].append(values - truth)
        rows["whole"].append(np.concatenate([tables[n]["value"].to_numpy() for n in tables]) - truth)
        rows["cut"].append(np.rint(np.maximum(values, 0)) - truth)
        low, high = (np.concatenate([tables[n][x].to_numpy() for n in tables]) for x in ("low", "high"))
        inside.append((low <= truth) & (truth <= high))
        narrower.append((high - low) / (2 * np.concatenate([release[n]["moe"].to_numpy() for n in release])))
        if not i:
            stated = np.concatenate([tables[n]["simulated_bias"].to_numpy() for n in tables])
            rmse = np.concatenate([tables[n]["simulated_rmse"].to_numpy() for n in tables])
    ends = (("all", 0, np.inf), ("0", 0, 1), ("1 to 9", 1, 10), ("10 to 99", 10, 100), ("100 or more", 100, np.inf))
    sizes = {name: (truth >= low) & (truth < high) for name, low, high in ends}
    print(f"{len(truth):,} numbers, {releases} releases; RMSE, and bias in brackets; coverage of low to high")
    print("truth        numbers  unbiased          integers          cut          coverage  width  stated: bias  RMSE")
    for name, here in sizes.items():
        if not here.any():
            continue
        cells = []
        for kind in rows:
            e = np.stack(rows[kind])[:, here]
            cells.append(f"{np.sqrt((e**2).mean()):6.2f} ({e.mean():+6.3f})")
        print(
            f"{name:12s} {here.sum():7,d} {'   '.join(cells)}   {np.stack(inside)[:, here].mean():.4f}  "
            f"{np.stack(narrower)[:, here].mean():5.2f}  {stated[here].mean():+12.3f} "
            f"{np.sqrt((rmse[here] ** 2).mean()):5.2f}",
            flush=True,
        )


# --- seconds --------------------------------------------------------------------------------------------


def timed(n):
    """Seconds of each step, for mostly empty tables of n places by 25 groups by sex, and of places by sex."""
    domain = fn.Domain(place=fn.Ordered(1, n), group=fn.Ordered(1, 25), sex=fn.Categorical(["f", "m"]))
    tables = [fn.table("place", "group", "sex", margin=10), fn.table("place", "sex", margin=5)]
    plan = fn.plan(fn.Workload(domain, tables))
    draw = np.random.default_rng(1)
    counts = draw.poisson(np.exp(draw.normal(-1, 2, domain.shape)))
    release = real_release(plan, counts)
    start = time.perf_counter()
    (space,) = making._spaces(release, list(release))
    result = nearest(space.apply_normal_matrix, space.atoms(space.estimates), making.TOLERANCE, making.STEPS)
    nearest_tables = space.tables_at(result.values)
    nearby = time.perf_counter()
    numbers = adjacent(space.flat(nearest_tables), space.sums, 3600.0)
    rounded = time.perf_counter()
    space.simulated(nearest_tables, 1)
    done = time.perf_counter()
    if numbers is None or not space.satisfies(numbers):
        raise SystemExit("the whole numbers are none")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{len(numbers):9,d} {nearby - start:9.2f} {rounded - nearby:9.2f} {done - rounded:12.2f} {peak:8.2f} "
        f"{result.steps:6d} {space.residual(result.values, nearest_tables):9.1e}",
        flush=True,
    )


if __name__ == "__main__":
    arguments = parser.parse_args()
    if arguments.data:
        errors(*plan_of_data(pd.read_csv(arguments.data), arguments.tables, arguments.margin), arguments.releases)
    else:
        print("  numbers   nearest  integers  a simulation  GiB at most  steps  residual (seconds)")
        for places in (20, 200, 2_000, 20_000):
            if places * 52 <= 1.1 * arguments.largest:
                timed(places)
