"""Cost of a draw of noise: the sampler of releases against OpenDP's, in one run. Run: python benchmarks/sampler.py

One process, one core; the best of three. OpenDP makes at most 50,000 draws at once: its cost is the same
per draw from there on. Our best scales are 27/32 · 2^k for the Gaussian and 23/32 · 2^k for the Laplace law, our worst
those just above.
"""

import platform
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fitnoise.kernel import noise
from fitnoise_lab.reference_samplers import reference_gaussian, reference_laplace
from peak import peak_memory

LAWS = {
    "Gaussian": (noise.discrete_gaussian, noise.discrete_gaussians, reference_gaussian),
    "Laplace": (noise.discrete_laplace, noise.discrete_laplaces, reference_laplace),
}
SCALES = {
    "0.5": 0.5,
    "1": 1.0,
    "37": 37.0,
    "23/32 · 2^20": 23 / 32 * 2.0**20,
    "23/32 · 2^20 + 1": 23 / 32 * 2.0**20 + 1,
    "27/32 · 2^20": 27 / 32 * 2.0**20,
    "27/32 · 2^20 + 1": 27 / 32 * 2.0**20 + 1,
    "2^30": 2.0**30,
    "2^50": 2.0**50,
    "2^55": 2.0**55,
}
MAX_DRAWS = 50_000
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
    print("| law | scale | draws at once | µs per draw | OpenDP | ratio |\n|---|---|---|---|---|---|")
    for law, (draw, _, reference) in LAWS.items():
        for name, scale in SCALES.items():
            for size in (1, 1_000, 1_000_000):
                ours = microseconds(lambda d=draw, s=scale, n=size: d(s, n), size)
                few = min(size, MAX_DRAWS)
                theirs = microseconds(lambda d=reference, s=scale, n=few: d(s, n), few)
                print(f"| {law} | {name} | {size:,} | {ours:.3f} | {theirs:.3f} | {theirs / ours:.1f} |", flush=True)


def many():
    rng = np.random.default_rng(1)
    runs, draws = 100_000, 100
    scales = np.ldexp(rng.integers(2**31, 2**32, runs) * 2.0**-32, rng.integers(11, 56, runs))
    print(f"\n{runs:,} different scales of 32 bits between 2^10 and 2^55, {draws} draws each:\n")
    print("| law | how | runs timed | µs per draw |\n|---|---|---|---|")
    sizes = np.full(runs, draws)
    few = scales[:500].tolist()
    for law, (one, several, reference) in LAWS.items():
        batched = microseconds(lambda d=several: d(scales, sizes), runs * draws)
        print(f"| {law} | all runs in one call | {runs:,} | {batched:.3f} |", flush=True)
        for name, draw in (("one call a run", one), ("one call a run, OpenDP", reference)):
            one_by_one = microseconds(lambda d=draw: [d(s, draws) for s in few], len(few) * draws)
            print(f"| {law} | {name} | {len(few)} | {one_by_one:.3f} |", flush=True)


if __name__ == "__main__":
    single()
    many()
    print(f"\nPeak memory: {peak_memory():.0f} MB. Python {platform.python_version()}, NumPy {np.__version__}.")
