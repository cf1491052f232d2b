"""Complete tables of shares with their intervals: seconds, by the number of shares and the kind of noise.

    python benchmarks/asking.py [--largest 1000000]

The shares are of a table of n places by m groups by sex: the women among each place and group. Pure releases are
slower, because each half-width is a quantile of a sum of Laplace noises. They compute fewer shares.
"""

import argparse
import time

import numpy as np

import fitnoise as fn
from fitnoise.reading.release import Release

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--largest", type=int, default=1_000_000)


def empty(plan):
    """Return a release without records and without noise; the benchmark does not use its numbers."""
    return Release(plan, [np.zeros(n, dtype=np.int64) for p in plan.groups for n in p.estimation.lengths])


def tables(n, m):
    domain = fn.Domain(place=fn.Ordered(1, n), group=fn.Ordered(1, m), sex=fn.Categorical(["f", "m"]))
    return fn.Workload(domain, [fn.table("place", "group", "sex", margin=10), fn.table("place", "sex", margin=5)])


def timed(release, group_by):
    """Seconds for the tables that are needed, for all shares, and for a band that holds for all at once."""
    start = time.perf_counter()
    top, bottom = release.count(sex="f", by=group_by), release.count(by=group_by)
    _ = top.value, bottom.value
    rebuilt = time.perf_counter()
    shares = top / bottom
    shares.frame()
    done = time.perf_counter()
    shares.frame(simultaneous=True)
    return rebuilt - start, done - rebuilt, time.perf_counter() - done


if __name__ == "__main__":
    largest = parser.parse_args().largest
    print("noise       shares   tables  intervals  simultaneous (seconds)")
    for n, m in ((40, 25), (400, 25), (4000, 25), (40_000, 25)):
        if n * m <= largest:
            seconds = timed(empty(fn.plan(tables(n, m))), ["place", "group"])
            print(f"Gaussian {n * m:9,d} {seconds[0]:8.2f} {seconds[1]:10.2f} {seconds[2]:13.2f}", flush=True)
    for n, m in ((4, 25), (40, 25)):
        if n * m <= largest:
            seconds = timed(empty(fn.plan(tables(n, m), privacy="pure")), ["place", "group"])
            print(f"pure     {n * m:9,d} {seconds[0]:8.2f} {seconds[1]:10.2f} {seconds[2]:13.2f}", flush=True)
