"""The only source of randomness, replayed, and the laws of its outputs by code that shares nothing with it."""

import itertools
import math
from functools import lru_cache

import numpy as np


class Replay:
    """A noise source that gives equal draws in every run, and records all requests and draws in order.

    Args:
        seed: Seed of the draws; None stands for no noise.
        draws: Function from a scale and a size to draws, in place of the seeded ones.

    Attributes:
        requests: All as (kind, scale, size) of added noise, and (kind, public arguments) of the draw of an output.
        drawn: Draws that were returned.
        laws: Outputs that were drawn, as (kind, arguments). The arguments determine the probabilities.
    """

    def __init__(self, seed=None, draws=None):
        self.seed, self.requests, self.drawn, self.laws = seed, [], [], []
        self.draws = draws or self._replayed

    def _replayed(self, scale, size):
        if self.seed is None:
            return np.zeros(size, dtype=np.int64)
        rng = np.random.default_rng([self.seed, size, int(scale * 1024) % 2**31])
        return np.rint(rng.normal(0, scale, size)).astype(np.int64)

    def _added(self, kind, scales, sizes):
        parts = []
        for scale, size in zip(scales.tolist(), sizes.tolist(), strict=True):
            self.requests.append((kind, scale, size))
            parts.append(self.draws(scale, size))
        noise = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        self.drawn += noise.tolist()
        return noise

    def discrete_gaussians(self, scales, sizes):
        return self._added("gaussian", scales, sizes)

    def discrete_laplaces(self, scales, sizes):
        return self._added("laplace", scales, sizes)

    def choose(self, choice, *arguments):
        return getattr(self, choice.__name__)(*arguments)

    def _output(self, kind, public, shape, arguments):
        self.requests.append((kind, *public))
        self.laws.append((kind, arguments))
        position = tuple((self.seed or 0) % s for s in shape)
        self.drawn.append(int(np.ravel_multi_index(position, shape)))
        return position

    def categorical(self, weights):
        integers = tuple(weights)
        return self._output("categorical", (len(integers), sum(integers)), (len(integers),), integers)[0]

    def by_distance(self, alpha, steps, weights, top, point):
        held = weights.tobytes()
        public = (alpha, tuple(steps), weights.shape, held, top)
        return self._output("by distance", public, weights.shape, (alpha, tuple(steps), weights.shape, held, point))

    def clamped(self, alpha, steps, shape, point):
        public = (alpha, tuple(steps), tuple(shape))
        return self._output("clamped", public, shape, (*public, tuple(point)))


class FreshNoise:
    """A source of independent noise, for rates of errors: it goes on from release to release.

    Args:
        seed: Seed of the draws.
    """

    def __init__(self, seed):
        self.generator = np.random.default_rng(seed)

    def discrete_gaussians(self, scales, sizes):
        return np.rint(self.generator.normal(0, np.repeat(scales, sizes))).astype(np.int64)

    def discrete_laplaces(self, scales, sizes):
        ends = -np.expm1(-1 / np.repeat(scales, sizes))
        return self.generator.geometric(ends) - self.generator.geometric(ends)


def of_many_releases(function, count, source):
    """Return an affine function of the noise of a release for many releases, (count, …).

    The function itself gives its value without noise, and for each single noise. The first releases confirm the result.

    Args:
        function: It releases with a noise source, and returns an array. All noise of a release is of one kind.
        count: The number of releases.
        source: A source of independent noise, such as the kernel's.
    """

    def value_with(noises):
        remaining = iter(noises)
        return function(Replay(draws=lambda _, size: np.array(list(itertools.islice(remaining, size)), dtype=np.int64)))

    replay = Replay()
    constant = function(replay)
    kinds, scales, sizes = map(np.array, zip(*replay.requests, strict=True))
    (kind,) = set(kinds.tolist())
    noise = getattr(source, f"discrete_{kind}s")(np.tile(scales, count), np.tile(sizes, count)).reshape(count, -1)
    units = np.abs(noise).max(axis=0)
    slopes = np.stack([(value_with(one) - constant) / one.max() for one in np.diag(units)])
    values = constant + np.tensordot(noise, slopes, axes=1)
    for noises, value in zip(noise[:10], values, strict=False):
        np.testing.assert_allclose(value_with(noises), value, rtol=1e-9, atol=1e-9 * np.abs(values).max())
    return values


@lru_cache(maxsize=4096)
def law(kind, arguments):
    """Whole numbers in proportion to the probabilities of all outputs."""
    if kind == "categorical":
        return arguments
    weights = {"by distance": _by_distance, "clamped": _clamped}[kind](*arguments)
    common = math.lcm(*(w.denominator for w in weights))
    return tuple(int(w * common) for w in weights)


def _by_distance(alpha, steps, shape, held, position):
    weights = np.frombuffer(held, dtype=np.int64).reshape(shape)
    distances = [
        max(-(-abs(x - y) // v) for x, y, v in zip(o, position, steps, strict=True)) for o in np.ndindex(*shape)
    ]
    return [alpha**d * int(z) for d, z in zip(distances, weights.ravel(), strict=True)]


def _clamped(alpha, steps, shape, position):
    """Return Σ_m α^m times the number of integer points within m steps that are clamped to each place.

    The function adds the first m one by one. From `last` on these numbers are a polynomial of m, and
    Σ_m α^m C(m, j) = α^j / (1 − α)^(j + 1).
    """
    last = max(-(-s // v) for s, v in zip(shape, steps, strict=True))
    totals = []
    for output in np.ndindex(*shape):
        axes = list(zip(output, position, shape, steps, strict=True))
        counts = [
            math.prod(_count_clamped(o, i, s, m * v) for o, i, s, v in axes) for m in range(last + len(shape) + 1)
        ]
        total, rest = sum(alpha**m * c for m, c in enumerate(counts[:last])), counts[last:]
        for j in range(len(rest)):
            total += alpha ** (last + j) / (1 - alpha) ** (j + 1) * rest[0]
            rest = [after - before for before, after in itertools.pairwise(rest)]
        totals.append(total)
    return totals


def _count_clamped(output, center, size, radius):
    """Return the number of integers within a radius of a place that are clamped to an output."""
    low = center - radius if output == 0 else max(output, center - radius)
    high = center + radius if output == size - 1 else min(output, center + radius)
    return max(0, high - low + 1)
