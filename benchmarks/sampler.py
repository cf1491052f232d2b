"""What a draw of noise costs: the sampler of releases beside OpenDP's, in one run. Run: python benchmarks/sampler.py

One process, one core; the best of three. OpenDP is asked for at most 50,000 draws at once: its cost is the same
per draw from there on. Our best scales are 27/32 · 2^k, our worst those just above.
"""

import platform
import resource
import time

import numpy as np

from fitnoise.noise import discrete_gaussian, discrete_gaussians, reference_gaussian

SCALES = {
    "0.5": 0.5,
    "1": 1.0,
    "37": 37.0,
    "27/32 · 2^20": 27 / 32 * 2.0**20,
    "27/32 · 2^20 + 1": 27 / 32 * 2.0**20 + 1,
    "2^30": 2.0**30,
    "2^50": 2.0**50,
    "2^55": 2.0**55,
}
MOST = 50_000
REPEATS = 3


def microseconds(function, draws):
    """Per draw; short calls are repeated to fill a twentieth of a second."""
    start = time.perf_counter()
    function()
    calls = max(1, int(0.05 / (time.perf_counter() - start)))
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        best = min(best, time.perf_counter() - start)
    return best / calls / draws * 1e6


def single():
    print("| scale | draws at once | µs per draw | OpenDP | ratio |\n|---|---|---|---|---|")
    for name, scale in SCALES.items():
        for size in (1, 1_000, 1_000_000):
            ours = microseconds(lambda s=scale, n=size: discrete_gaussian(s, n), size)
            few = min(size, MOST)
            theirs = microseconds(lambda s=scale, n=few: reference_gaussian(s, n), few)
            print(f"| {name} | {size:,} | {ours:.3f} | {theirs:.3f} | {theirs / ours:.1f} |", flush=True)


def many():
    rng = np.random.default_rng(1)
    runs, draws = 100_000, 100
    scales = np.ldexp(rng.integers(2**31, 2**32, runs) * 2.0**-32, rng.integers(11, 56, runs))
    print(f"\n{runs:,} different scales of 32 bits between 2^10 and 2^55, {draws} draws each:\n")
    print("| how | runs timed | µs per draw |\n|---|---|---|")
    sizes = np.full(runs, draws)
    together = microseconds(lambda: discrete_gaussians(scales, sizes), runs * draws)
    print(f"| all runs in one call | {runs:,} | {together:.3f} |", flush=True)
    few = scales[:500].tolist()
    for name, draw in (("one call a run", discrete_gaussian), ("one call a run, OpenDP", reference_gaussian)):
        apart = microseconds(lambda d=draw: [d(s, draws) for s in few], len(few) * draws)
        print(f"| {name} | {len(few)} | {apart:.3f} |", flush=True)


if __name__ == "__main__":
    single()
    many()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\nPeak memory: {peak:.0f} MB. Python {platform.python_version()}, NumPy {np.__version__}.")
