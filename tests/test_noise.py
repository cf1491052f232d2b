"""The sampler's battery, and proof that the battery can fail.

A *check* turns a sample and a scale into a p-value under the exact law of N_Z(0, scale²). Each check rejects below
`ALPHA`: SIGNIFICANCE = 1e-6, shared out over the at most 8 checks at each of the 11 scales (Bonferroni). A correct
sampler fails one run of the fast battery, or of the slow one, with probability at most 1e-6.
"""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from fitnoise import noise
from fitnoise.errors import FitnoiseError
from fitnoise.noise import MAX_SCALE, discrete_gaussian
from fitnoise.privacy import rho
from tolerances import SIGNIFICANCE

if TYPE_CHECKING:
    from collections.abc import Callable

SCALES = (0.5, 1.0, 2.0, 3.0, 4.0, 10.0, 37.0, 1e3 + 0.5, 1e6, 2.0**30, 2.0**50)
CHECKS = 8
ALPHA = SIGNIFICANCE / (CHECKS * len(SCALES))


# --- The exact law ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Law:
    """N_Z(0, scale²): exact sums up to scale 2000; beyond, the normal with a continuity correction, whose
    probabilities differ by 1/(24 scale²) < 1e-8 relative near the centre, far below what a sample can show."""

    scale: float

    @property
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        reach = int(13 * self.scale) + 13
        values = np.arange(-reach, reach + 1)
        weights = np.exp(-((values / self.scale) ** 2) / 2)
        return values, weights / weights.sum()

    @property
    def small(self) -> bool:
        return self.scale < 2000

    def at_most(self, k: np.ndarray) -> np.ndarray:
        if self.small:
            values, probabilities = self.table
            return np.cumsum(probabilities)[np.asarray(k) - values[0]]
        return stats.norm.cdf((np.asarray(k, dtype=float) + 0.5) / self.scale)

    def moment(self, power: int) -> float:
        if self.small:
            values, probabilities = self.table
            return float(np.sum(values.astype(float) ** power * probabilities))
        return {2: 1.0, 4: 3.0}[power] * self.scale**power

    @property
    def zero(self) -> float:
        return float(self.table[1].max()) if self.small else 1 / (self.scale * math.sqrt(2 * math.pi))

    def cells(self, count: int) -> np.ndarray:
        """Upper ends of at most `count` nearly equiprobable cells, the last one open."""
        quantiles = stats.norm.ppf(np.arange(1, count) / count) * self.scale
        return np.unique(np.rint(quantiles).astype(np.int64))

    def draw(self, size: int, rng: np.random.Generator) -> np.ndarray:
        """A sample good enough to pass, from an ordinary generator: for tests of the battery only."""
        if self.small:
            values, probabilities = self.table
            return rng.choice(values, size=size, p=probabilities)
        # Low bits drawn apart: those of a floating-point normal are not uniform, and check_bits rejects them.
        return np.floor(rng.normal(0, self.scale, size) / 1024).astype(np.int64) * 1024 + rng.integers(1024, size=size)


# --- The checks -------------------------------------------------------------------------------------------


def two_sided_normal(z: float) -> float:
    return 2 * float(stats.norm.sf(abs(z)))


def two_sided_discrete(distribution: stats.rv_discrete, seen: int) -> float:
    return min(1.0, 2 * min(float(distribution.cdf(seen)), float(distribution.sf(seen - 1))))


def chi_square(seen: np.ndarray, expected: np.ndarray) -> float:
    return float(stats.chi2.sf(((seen - expected) ** 2 / expected).sum(), seen.size - 1))


def check_mean(sample: np.ndarray, law: Law) -> float:
    """A biased sampler: rounding down instead of to nearest, an unfair sign, zero counted twice with a sign."""
    return two_sided_normal(float(sample.mean()) * math.sqrt(sample.size / law.moment(2)))


def check_variance(sample: np.ndarray, law: Law) -> float:
    """A wrong scale: the defect of OpenDP before 0.14.2 (4.11 instead of 4 at scale 2), σ² taken for σ."""
    spread = math.sqrt((law.moment(4) - law.moment(2) ** 2) / sample.size)
    return two_sided_normal((float(np.mean(sample.astype(float) ** 2)) - law.moment(2)) / spread)


def check_zero(sample: np.ndarray, law: Law) -> float:
    """Draws that got no noise, or a rounded continuous normal, whose P(0) is 0.68 instead of 0.79 at 0.5."""
    return two_sided_discrete(stats.binom(sample.size, law.zero), int(np.sum(sample == 0)))


def check_cells(sample: np.ndarray, law: Law) -> float:
    """Any wrong shape of the centre: Laplace, uniform or rounded noise; single integers at small scales."""
    ends = law.cells(64)
    below = np.concatenate(([0.0], law.at_most(ends), [1.0]))
    seen = np.bincount(np.searchsorted(ends, sample), minlength=ends.size + 1)
    return chi_square(seen, np.diff(below) * sample.size)


def check_tails(sample: np.ndarray, law: Law) -> float:
    """Clipped noise, or tails that fall off like a Laplace: |Z| > 3 scale."""
    end = int(3 * law.scale)
    outside = 2 * float(law.at_most(np.array(-end - 1)))
    return two_sided_discrete(stats.binom(sample.size, outside), int(np.sum(np.abs(sample) > end)))


def check_pairs(sample: np.ndarray, law: Law) -> float:
    """Dependence of a draw on the one before, in sign or in size: antithetic or recycled random bits."""
    ends = law.cells(5)
    probabilities = np.diff(np.concatenate(([0.0], law.at_most(ends), [1.0])))
    cell = np.searchsorted(ends, sample[: sample.size // 2 * 2])
    seen = np.bincount(cell[::2] * probabilities.size + cell[1::2], minlength=probabilities.size**2)
    return chi_square(seen, np.outer(probabilities, probabilities).ravel() * (cell.size // 2))


def check_bits(sample: np.ndarray, law: Law) -> float:
    """Noise made in floating point, whose low bits say what it was added to: Z mod 16 must be uniform."""
    seen = np.bincount(sample % 16, minlength=16)  # uniform to e^(−2π² (scale/16)²), nothing at scale 1000
    return chi_square(seen, np.full(16, sample.size / 16))


def check_distinct(sample: np.ndarray, law: Law) -> float:
    """Replayed random bits: equal draws are Poisson(n²/2 · 1/(2√π scale)) many."""
    counts = np.unique(sample, return_counts=True)[1]
    equal_pairs = int(np.sum(counts * (counts - 1) // 2))
    mean = sample.size * (sample.size - 1) / 2 / (2 * math.sqrt(math.pi) * law.scale)
    return two_sided_discrete(stats.poisson(mean), equal_pairs)


def rejected(sample: np.ndarray, scale: float) -> list[str]:
    """Names of the checks that reject the sample."""
    checks: list[Callable[[np.ndarray, Law], float]] = [
        check_mean, check_variance, check_zero, check_cells, check_tails, check_pairs,
    ]  # fmt: skip
    checks += [check_bits] if scale >= 1000 else []
    checks += [check_distinct] if scale >= 1e6 else []
    assert len(checks) <= CHECKS
    return [check.__name__ for check in checks if check(sample, Law(scale)) < ALPHA]


# --- The battery on the sampler ---------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
def test_the_sampler_passes_the_battery(scale):
    # 150,000 draws at scale 2 show a variance of 4.11 instead of 4 at 7.5 standard deviations (5.7 reject).
    assert rejected(discrete_gaussian(scale, 150_000 if scale == 2 else 20_000), scale) == []


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
def test_the_sampler_passes_the_battery_on_a_large_sample(scale):
    # 300,000 draws show a variance wrong by 1.5 % at every scale.
    assert rejected(discrete_gaussian(scale, 300_000), scale) == []


# --- The battery on samples that are wrong, and one that is right -----------------------------------------


def rounded_normal(law, size, rng):
    return np.rint(rng.normal(0, law.scale, size)).astype(np.int64)


def rounded_down_normal(law, size, rng):
    return np.floor(rng.normal(0, law.scale, size)).astype(np.int64)


def variance_of_opendp_before_0_14_2(law, size, rng):
    return Law(math.sqrt(4.11)).draw(size, rng)


def shifted_by_one(law, size, rng):
    return law.draw(size, rng) + 1


def laplace(law, size, rng):
    return np.rint(rng.laplace(0, law.scale / math.sqrt(2), size)).astype(np.int64)


def clipped(law, size, rng):
    end = int(3 * law.scale)
    return np.clip(law.draw(size, rng), -end, end)


def one_in_a_thousand_without_noise(law, size, rng):
    return law.draw(size, rng) * (rng.random(size) > 1e-3)


def single_precision(law, size, rng):
    return np.rint(rng.normal(0, law.scale, size).astype(np.float32)).astype(np.int64)


def always_even(law, size, rng):
    return law.draw(size, rng) & ~np.int64(1)


def replayed(law, size, rng):
    return np.tile(law.draw(size // 2, rng), 2)


def antithetic(law, size, rng):
    half = law.draw(size // 2, rng)
    return np.stack([half, -half], axis=1).ravel()


def same_size_fresh_sign(law, size, rng):
    return np.repeat(np.abs(law.draw(size // 2, rng)), 2) * rng.choice([-1, 1], size // 2 * 2)


@pytest.mark.parametrize(
    ("make", "scale", "size", "check"),
    [
        (rounded_normal, 0.5, 20_000, check_zero),
        (rounded_normal, 0.5, 20_000, check_cells),
        (rounded_down_normal, 3.0, 20_000, check_mean),
        (variance_of_opendp_before_0_14_2, 2.0, 150_000, check_variance),
        (shifted_by_one, 10.0, 20_000, check_mean),
        (laplace, 37.0, 20_000, check_cells),
        (laplace, 2.0**50, 20_000, check_tails),
        (clipped, 10.0, 20_000, check_tails),
        (one_in_a_thousand_without_noise, 1e6, 20_000, check_zero),
        (single_precision, 2.0**50, 20_000, check_bits),
        (always_even, 1e3 + 0.5, 20_000, check_bits),
        (replayed, 1e6, 20_000, check_distinct),
        (replayed, 2.0**50, 20_000, check_distinct),
        (antithetic, 4.0, 20_000, check_pairs),
        (same_size_fresh_sign, 37.0, 20_000, check_pairs),
    ],
)
def test_the_battery_rejects_wrong_noise(make, scale, size, check):
    sample = make(Law(scale), size, np.random.default_rng(20200401))
    assert check.__name__ in rejected(sample, scale)


@pytest.mark.parametrize("scale", SCALES)
def test_the_battery_accepts_right_noise(scale):
    assert rejected(Law(scale).draw(20_000, np.random.default_rng(20200401)), scale) == []


@pytest.mark.parametrize("scale", SCALES)
def test_the_variance_of_the_law_is_at_most_the_scale_squared(scale):
    assert Law(scale).moment(2) <= scale**2 * (1 + 1e-12)
    if scale >= 1:
        assert Law(scale).moment(2) == pytest.approx(scale**2, rel=1e-6)


# --- No two runs alike ------------------------------------------------------------------------------------


def test_calls_are_fresh_whatever_the_seeds_of_other_generators():
    # Detects a sampler fed by a generator that a caller can seed. At 2^50 chance repeats 1 in 10^15 draws.
    draws = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)
        draws.append(discrete_gaussian(2.0**50, 100))
    assert np.unique(np.concatenate(draws)).size == 200


DRAW_AND_FORK = """
import os
from fitnoise.noise import discrete_gaussian
discrete_gaussian(2.0**50, 10)
for _ in range(2):
    if os.fork() == 0:
        print(*discrete_gaussian(2.0**50, 20), flush=True)
        os._exit(0)
    os.wait()
print(*discrete_gaussian(2.0**50, 20))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_processes_and_forks_share_no_noise():
    # Detects a generator started from a fixed state, or one whose state a child inherits from its parent.
    command = [sys.executable, "-c", DRAW_AND_FORK]
    other = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    draws = [int(word) for word in other.split()] + discrete_gaussian(2.0**50, 20).tolist()
    assert len(draws) == 4 * 20
    assert len(set(draws)) == len(draws)


# --- The interface ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 5, np.int64(3)])
def test_shape_and_type(size):
    drawn = discrete_gaussian(2.5, size)
    assert drawn.shape == (int(size),)
    assert drawn.dtype == np.int64


def test_large_sizes_are_drawn_in_chunks_that_differ(monkeypatch):
    sizes = []
    draw = noise._draw
    monkeypatch.setattr(noise, "_CHUNK", 7)
    monkeypatch.setattr(noise, "_draw", lambda scale, size: sizes.append(size) or draw(scale, size))
    drawn = discrete_gaussian(2.0**50, 20)
    assert sizes == [7, 7, 6]
    assert np.unique(drawn).size == 20


def test_whole_scales_and_both_ends_of_the_range():
    assert np.abs(discrete_gaussian(3, 100)).max() < 50
    assert 2.0**50 < np.abs(discrete_gaussian(MAX_SCALE, 100)).max() < 2.0**62
    assert not discrete_gaussian(5e-324, 100).any()


@pytest.mark.parametrize("scale", [0.1, 1 / 3, 1e3 + 0.5, 2.0**50 + 0.25, 2.0**55])
def test_opendp_samples_at_the_very_float_it_is_given(scale):
    # Its privacy map, rounded up from exact rationals, is our ρ: a scale rounded on the way would show.
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l2_distance(T=float)
    theirs = Fraction(dp.m.make_gaussian(*space, scale=scale).map(1.0))
    ours = rho(1 / Fraction(scale) ** 2)
    assert ours <= theirs <= ours * (1 + Fraction(1, 2**52))


@pytest.mark.parametrize(
    ("scale", "error", "broken"),
    [
        (-7.25, ValueError, "not a number above 0"),
        (0.0, ValueError, "not a number above 0"),
        (0, ValueError, "not a number above 0"),
        (math.nan, ValueError, "not a number above 0"),
        (math.inf, ValueError, "above 2\\^55"),
        (math.nextafter(MAX_SCALE, math.inf), ValueError, "above 2\\^55"),
        (10**400, ValueError, "above 2\\^55"),
        (2**53 + 1, ValueError, "no float equals"),
        (True, TypeError, "is a bool"),
        (np.bool_(True), TypeError, "is a bool"),
        (np.float32(7.25), TypeError, "is a float32"),
        ("7.25", TypeError, "is a str"),
        (None, TypeError, "is a NoneType"),
        (Fraction(29, 4), TypeError, "is a Fraction"),
    ],
)
def test_a_bad_scale_is_refused_without_being_named(scale, error, broken):
    with pytest.raises(error, match=broken) as caught:
        discrete_gaussian(scale, 3)
    assert "no noise was drawn" in str(caught.value)
    for name in ("7.25", "29", "nan", "inf", "9007199254740993", "36028797018963976", "000"):
        assert name not in str(caught.value)


@pytest.mark.parametrize(
    ("size", "error", "broken"),
    [
        (-1, ValueError, "below 0"),
        (np.int64(-1), ValueError, "below 0"),
        (3.0, TypeError, "is a float"),
        (True, TypeError, "is a bool"),
        (np.bool_(True), TypeError, "is a bool"),
        ((3,), TypeError, "is a tuple"),
        (None, TypeError, "is a NoneType"),
    ],
)
def test_a_bad_size_is_refused(size, error, broken):
    with pytest.raises(error, match=broken) as caught:
        discrete_gaussian(7.25, size)
    assert "7.25" not in str(caught.value)


def test_a_failing_sampler_is_an_error_that_does_not_name_the_scale(monkeypatch):
    def fail(*_space, scale):
        raise dp.OpenDPException("FailedFunction", f"no entropy at scale {scale}")

    monkeypatch.setattr(dp.m, "make_gaussian", fail)
    with pytest.raises(FitnoiseError, match=r"FailedFunction.*no noise was drawn") as caught:
        discrete_gaussian(7.25, 3)
    assert "7.25" not in str(caught.value)
    assert caught.value.__context__ is None  # a traceback would print the message of OpenDP
    assert caught.value.__cause__ is None


def test_fewer_draws_than_asked_for_are_refused(monkeypatch):
    # One draw, broadcast, would otherwise serve as everybody's noise.
    monkeypatch.setattr(dp.m, "make_gaussian", lambda *_space, scale: lambda zeros: zeros[:1])
    with pytest.raises(ValueError, match="too short"):
        discrete_gaussian(7.25, 3)
