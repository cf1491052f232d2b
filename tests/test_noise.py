"""The samplers' battery, proof that the battery can fail, and the exactness of every decision.

A *check* turns a sample and a scale into a p-value under the exact law of N_Z(0, scale²). Each rejects below `ALPHA`:
SIGNIFICANCE = 1e-6, shared out (Bonferroni) over the at most 8 checks at each of the 11 scales of the 4 ways to draw in
`WAYS`, and over as many again for the comparisons of samplers and of runs. Correct samplers fail one run of the fast
tests, or of the slow ones, with probability at most 1e-6. The tests of exactness leave nothing to chance.
"""

from __future__ import annotations

import decimal
import math
import os
import random
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import opendp.prelude as dp
import pytest
from scipy import stats

from fitnoise import noise
from fitnoise.errors import FitnoiseError
from fitnoise.noise import MAX_SCALE, discrete_gaussian, discrete_gaussians, reference_gaussian
from fitnoise.privacy import rho
from tolerances import SIGNIFICANCE

if TYPE_CHECKING:
    from collections.abc import Callable

SCALES = (0.5, 1.0, 2.0, 3.0, 4.0, 10.0, 37.0, 1e3 + 0.5, 1e6, 2.0**30, 2.0**50)
CHECKS = 8
ALWAYS = 2**41
"""A margin in units of 2^−40 that leaves every decision to integers."""


def in_integers(scale, size):
    """Every try settled without floating point."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "_MARGIN", ALWAYS)
        return discrete_gaussian(scale, size)


def among_others(scale, size):
    """The middle one of runs with other scales, whose blocks it shares."""
    scales = np.array([scale * 8, scale, 3.0, scale, scale / 8])
    drawn = discrete_gaussians(scales, np.array([1000, size // 3, 0, size - size // 3, 1000]))
    return drawn[1000:-1000]


WAYS = {
    "vectorised": discrete_gaussian,
    "in integers": in_integers,
    "among others": among_others,
    "OpenDP": reference_gaussian,
}
COMPARISONS = CHECKS * len(SCALES)
ALPHA = SIGNIFICANCE / (CHECKS * len(SCALES) * len(WAYS) + COMPARISONS)


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
    checks += [check_distinct] if scale >= max(1e6, 3 * sample.size) else []  # else far from Poisson
    assert len(checks) <= CHECKS
    return [check.__name__ for check in checks if check(sample, Law(scale)) < ALPHA]


# --- The battery on the samplers --------------------------------------------------------------------------


@cache
def sample(way, scale):
    # 150,000 draws at scale 2 show a variance of 4.11 instead of 4 at 7.5 standard deviations (6 reject).
    return WAYS[way](scale, 150_000 if scale == 2 else 20_000)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("way", WAYS)
def test_the_sampler_passes_the_battery(way, scale):
    assert rejected(sample(way, scale), scale) == []


LARGE = {"vectorised": 3_000_000, "in integers": 50_000, "among others": 1_000_000, "OpenDP": 150_000}


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("way", WAYS)
def test_the_sampler_passes_the_battery_on_a_large_sample(way, scale):
    # 3,000,000 draws show a variance wrong by 0.6 % at every scale, 150,000 one wrong by 2.6 %.
    assert rejected(WAYS[way](scale, LARGE[way]), scale) == []


def compare(one, other, law):
    """p-values of two samples having the same law, without reference to what law: cells, and low bits."""
    ends = law.cells(32)
    parts = [(np.searchsorted(ends, x), ends.size + 1) for x in (one, other)]
    yield two_samples(*parts)
    if law.scale >= 1000:
        yield two_samples(*((x % 16, 16) for x in (one, other)))


def two_samples(*parts):
    table = [np.bincount(cells, minlength=count) for cells, count in parts]
    return float(stats.chi2_contingency(table, correction=False).pvalue)


@pytest.mark.parametrize("scale", SCALES)
def test_the_two_samplers_agree(scale):
    assert min(compare(sample("vectorised", scale), sample("OpenDP", scale), Law(scale))) > ALPHA


def test_samplers_that_disagree_would_be_seen():
    rng = np.random.default_rng(20200401)
    for make, scale, size in (
        (rounded_normal, 0.5, 20_000),
        (laplace, 37.0, 20_000),
        (single_precision, 2.0**50, 20_000),
    ):
        law = Law(scale)
        assert min(compare(make(law, size, rng), law.draw(size, rng), law)) < ALPHA


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


# --- Many runs at once ------------------------------------------------------------------------------------


def spread_out(rng, runs):
    """Scales from 2^8 to 2^55, 32 bits of mantissa each, in no order."""
    mantissas = rng.integers(2**31, 2**32, runs) * 2.0**-32
    return np.ldexp(mantissas, rng.integers(9, 56, runs))


def run_checks(z):
    """p-values of runs × draws of standard normals (a lattice of 2^−8 does not show): each run's and all together."""
    runs, draws = z.shape
    yield "mean", two_sided_normal(z.mean() * math.sqrt(z.size))
    yield "variance", two_sided_normal(((z**2).mean() - 1) * math.sqrt(z.size / 2))
    spread = stats.chi2.cdf((z**2).sum(axis=1), draws)
    yield "variance of each run", chi_square(np.histogram(spread, 64, (0, 1))[0], np.full(64, runs / 64))
    centre = stats.norm.cdf(z.mean(axis=1) * math.sqrt(draws))
    yield "mean of each run", chi_square(np.histogram(centre, 64, (0, 1))[0], np.full(64, runs / 64))
    yield "largest draw", float(-np.expm1(z.size * np.log1p(-2 * stats.norm.sf(np.abs(z).max()))))
    for name, end in (("first", z[:, 0]), ("last", z[:, -1])):  # where a run that is cut wrongly gets another's noise
        yield f"variance of the {name} draws", two_sided_normal(((end**2).mean() - 1) * math.sqrt(runs / 2))
    for name, one, other in (
        ("neighbouring runs", z[:-1], z[1:]),
        ("neighbouring draws", z[:, :-1], z[:, 1:]),
        ("the ends of neighbouring runs", z[:-1, -1], z[1:, 0]),
        ("the ends of a run", z[:, 0], z[:, -1]),
    ):
        yield f"signs of {name}", two_sided_normal((one * other).mean() * math.sqrt(one.size))
        yield f"sizes of {name}", two_sided_normal(((one**2 - 1) * (other**2 - 1)).mean() / 2 * math.sqrt(one.size))


def test_every_run_has_its_own_scale_and_its_own_noise(rng):
    # Detects a scale wrong by 0.6 %, and runs or draws correlated by 0.6 % (their ends, by 4 %).
    scales = spread_out(rng, 20_000)
    drawn = discrete_gaussians(scales, np.full(scales.size, 50)).reshape(-1, 50)
    found = dict(run_checks(drawn / scales[:, None]))
    assert len(found) + 2 * len(SCALES) <= COMPARISONS
    assert {name: p for name, p in found.items() if p < ALPHA} == {}


@pytest.mark.parametrize(
    ("spoil", "seen"),
    [
        (lambda z, _: z * 1.01, "variance"),
        (lambda z, rng: z * rng.uniform(0.8, 1.2, len(z))[:, None], "variance of each run"),
        (lambda z, _: z + 0.01, "mean"),
        (lambda z, rng: z + rng.normal(0, 0.1, len(z))[:, None], "mean of each run"),
        (lambda z, _: np.where(np.arange(z.size).reshape(z.shape) == 77, 1e3, z), "largest draw"),
        (lambda z, _: np.hstack([z[:, :-1], z[:, -1:] * 1.1]), "variance of the last draws"),
        (lambda z, _: np.repeat(z[::2], 2, axis=0), "signs of neighbouring runs"),
        (lambda z, rng: np.repeat(z[::2], 2, axis=0) * rng.choice([-1, 1], z.shape), "sizes of neighbouring runs"),
        (lambda z, _: np.repeat(z[:, ::2], 2, axis=1), "signs of neighbouring draws"),
        (lambda z, _: np.hstack([z[:, :-1], np.roll(z[:, :1], -1)]), "signs of the ends of neighbouring runs"),
        (lambda z, _: np.hstack([z[:, :-1], -z[:, :1]]), "signs of the ends of a run"),
    ],
)
def test_spoilt_runs_would_be_seen(spoil, seen):
    rng = np.random.default_rng(20200401)
    z = rng.normal(size=(20_000, 50))
    assert min(p for _, p in run_checks(z)) > ALPHA
    assert dict(run_checks(spoil(z, rng)))[seen] < ALPHA


def test_runs_of_one_scale_share_no_draw():
    # At 2^55 chance repeats one of 100,000 draws with probability 4e-8, which COMPARISONS does not count.
    drawn = discrete_gaussians(np.full(1000, 2.0**55), np.full(1000, 100))
    assert np.unique(drawn).size == drawn.size


@pytest.mark.parametrize("block", [1, 3, 7, 2**14])
def test_runs_are_laid_out_one_after_the_other(monkeypatch, rng, block):
    # Scales that give nothing but zeros take turns with scales whose draws are zero once in 10^16.
    monkeypatch.setattr(noise, "_BLOCK", block)
    for _ in range(20):
        sizes = rng.integers(0, 6, 12) * rng.integers(0, 2, 12)
        scales = np.where(np.arange(12) % 2 == 0, 2.0**-30, 2.0**54)
        drawn = discrete_gaussians(scales, sizes)
        assert ((drawn != 0) == np.repeat(scales > 1, sizes)).all()


def test_the_run_of_every_place(rng):
    for _ in range(200):
        sizes = rng.integers(0, 4, 8)
        whole = np.repeat(np.arange(8), sizes)
        for start in range(whole.size):
            stop = int(rng.integers(start + 1, whole.size + 1))
            assert (noise._runs(np.cumsum(sizes), sizes, start, stop) == whole[start:stop]).all()


# --- Exactness: one try -----------------------------------------------------------------------------------
#
# The oracle is `decimal`, whose exp is correctly rounded, to 120 digits; all that follows is done in fractions.

DIGITS = decimal.Context(prec=120)
CERTAIN = Fraction(1, 10**100)
"""What the oracle may err by: it places a threshold among the values of 300 bits."""


def exponential(gamma):
    """exp(−gamma) to 100 digits after the point."""
    if gamma > 300:
        return Fraction(0)
    quotient = DIGITS.divide(Decimal(gamma.numerator), Decimal(gamma.denominator))
    return Fraction(DIGITS.exp(quotient.copy_negate()))


def threshold(v, x, scale):
    """2^v exp(−x²/(2 scale²)) to 100 digits after the point, for v < 30."""
    return exponential((x / Fraction(scale)) ** 2 / 2) * 2**v


def any_scale(rng):
    """Of every size and every mantissa, with a taste for the edges."""
    mantissa = rng.choice([0.5, 27 / 32, math.nextafter(27 / 32, 1), math.nextafter(1, 0), rng.uniform(0.5, 1)])
    exponent = rng.choice([int(rng.integers(-60, 56)), int(rng.integers(-3, 8)), 55, -1073])
    return min(math.ldexp(mantissa, int(exponent)), MAX_SCALE)


def width_of(scale):
    return int(noise._widths(np.array([scale]))[0])


def pack(negative, units, v, rest):
    """The two words of a try, as the head of noise.py lays them out."""
    tail = 1 << v if v < 23 else 0
    first = negative << 63 | units << 23 | tail
    return first - 2**64 if negative else first, rest


def tries(words, scales):
    first, second = np.array(words, dtype=np.int64).T
    scales = np.array(scales)
    return noise._try(first, second, scales, noise._widths(scales))


@pytest.mark.parametrize(
    "scale", [5e-324, 2.0**-30, 0.3, 27 / 32, 0.85, 1.0, 27.0, 27.001, 54.0, 1e6, 2.0**54 * 1.7, 2.0**55]
)
def test_widths_are_the_powers_of_two_that_the_proof_needs(scale):
    width = width_of(scale)
    assert width & (width - 1) == 0
    assert 1 <= width <= 2**56
    assert width >= Fraction(32, 27) * Fraction(scale)
    assert width == 1 or Fraction(width, 2) < Fraction(32, 27) * Fraction(scale)


def test_thresholds_are_probabilities(rng):
    assert Fraction(512, 729) > Fraction(6932, 10000)
    assert Fraction(DIGITS.ln(Decimal(2))) < Fraction(6932, 10000)
    for _ in range(2000):
        scale, v = any_scale(rng), int(rng.integers(0, 30))
        assert threshold(v, v * width_of(scale), scale) <= 1


@pytest.mark.parametrize(("guard", "apart"), [(noise._GUARD, 3), (0, 200), (-4, math.inf)])
def test_bounds_of_the_exponential_hold_it(monkeypatch, rng, guard, apart):
    # Without guard bits every rounding shows in the result: one in the wrong direction would show too.
    monkeypatch.setattr(noise, "_GUARD", guard)
    for _ in range(3000):
        bits = int(rng.integers(1, 250))
        numerator, denominator = int(rng.integers(0, 2**62)), int(rng.integers(1, 2 ** int(rng.integers(1, 63))))
        if rng.random() < 0.5:
            numerator %= 20 * denominator
        low, high = noise._exp_bounds(numerator, denominator, bits)
        true, slack = exponential(Fraction(numerator, denominator)) * 2**bits, CERTAIN * 2**bits
        assert low <= true + slack
        assert high >= true - slack
        assert 0 <= low <= high <= low + apart
    assert noise._exp_bounds(0, 1, 40)[1] >= 2**40


def test_the_computed_threshold_errs_by_less_than_a_quarter_unit(rng):
    # A quarter is proven in `_chance`, 0.03 is seen; a coefficient of s⁵ wrong by 1 % would show. `_MARGIN` allows 16.
    worst = Fraction(0)
    for _ in range(4000):
        scale, v = any_scale(rng), int(min(rng.geometric(0.5) - 1, 23))
        x = v * width_of(scale) + int(rng.integers(0, width_of(scale)))
        computed = noise._chance(np.array([x]), np.array([scale]), np.array([1 << v]))[0]
        worst = max(worst, abs(Fraction(float(computed)) - threshold(v, x, scale) * 2**40))
    assert worst < Fraction(1, 16)


def test_no_decision_contradicts_the_exact_threshold(rng):
    # Words as the system would give them, and words whose u is within 40 units of the threshold.
    words, scales, known = [], [], []
    for _ in range(10_000):
        scale, v = any_scale(rng), int(min(rng.geometric(0.5) - 1, 22))
        rest = int(rng.integers(-(2**63), 2**63))
        x = v * width_of(scale) + rest % width_of(scale)
        p = threshold(v, x, scale) * 2**40
        near = int(p) + int(rng.integers(-40, 41))
        units = near if 0 <= near < 2**40 and rng.random() < 0.7 else int(rng.integers(0, 2**40))
        negative = int(rng.integers(0, 2))
        words.append(pack(negative, units, v, rest))
        scales.append(scale)
        known.append((-x if negative else x, negative and x == 0, units, p))
    values, accepted, still_open = tries(words, scales)
    assert 0.05 < still_open.mean() < 0.5  # the near ones
    assert not (accepted & still_open).any()
    for value, yes, unknown, (x, twice, units, p) in zip(values, accepted, still_open, known, strict=True):
        assert value == x
        if twice:
            assert not yes
            assert not unknown
        elif unknown:
            assert p - 17.5 < units < p + 16.5
        elif yes:
            assert units + 1 <= p
        else:
            assert units >= p


@pytest.mark.parametrize("scale", [2.0**-30, 0.5, 0.85, 1.3, 3.0, 10.0])
def test_the_law_read_off_the_decisions(scale):
    # For every sign, V < 10 and R: how many of the 2^40 values of u accept, found by bisection in what `_try` says.
    # What V ≥ 10 adds has probability below 10^-20.
    width = width_of(scale)
    cases = [(negative, v, rest) for negative in (0, 1) for v in range(10) for rest in range(width)]
    least, most = np.zeros(len(cases), dtype=np.int64), np.full(len(cases), 2**40)
    while (most > least).any():
        middle = (least + most) // 2
        words = [pack(n, int(u), v, r) for (n, v, r), u in zip(cases, np.minimum(middle, 2**40 - 1), strict=True)]
        values, accepted, _ = tries(words, np.full(len(cases), scale))
        accepted &= middle < 2**40
        least, most = np.where(accepted & (least < most), middle + 1, least), np.where(accepted, most, middle)
    found = defaultdict(float)
    for value, (_, v, _), count in zip(values, cases, least, strict=True):
        found[int(value)] += 2.0 ** (-v - 1) * int(count) / 2**40
    total = sum(found.values())
    values, probabilities = Law(scale).table
    for value, probability in zip(values, probabilities, strict=True):
        assert found[int(value)] / total == pytest.approx(probability, abs=1e-9)  # the margin is 2^−36


def further_bits(monkeypatch, *words):
    """The system's randomness: these words, then a failure."""
    left = [w.to_bytes(8, sys.byteorder) for w in words]
    monkeypatch.setattr(
        noise.os, "urandom", lambda size: left.pop(0) if left and size == 8 else pytest.fail("more bits")
    )
    return left


def test_a_settled_try_is_decided_by_the_bit_that_decides(monkeypatch, rng):
    # u agrees with the threshold in the first 40, or 40 + 64, bits, and differs in the last place of the next word.
    seen = set()
    for _ in range(2000):
        scale, v, depth = any_scale(rng), int(min(rng.geometric(0.5) - 1, 22)), int(rng.integers(0, 3))
        rest = int(rng.integers(-(2**63), 2**63))
        x = v * width_of(scale) + rest % width_of(scale)
        p, bits = threshold(v, x, scale), 40 + 64 * depth
        below = int(p * 2**bits)
        for u, accepted in ((below - 3, True), (below + 3, False)):
            if x == 0 or not 0 <= u < 1 << bits:
                continue
            words = [u >> 64 * i & 2**64 - 1 for i in reversed(range(depth))]
            left = further_bits(monkeypatch, *words)
            first, second = pack(0, u >> 64 * depth, v, rest)
            assert noise._settle(first, second, scale, width_of(scale)) == (x if accepted else None)
            if u >> 64 == below >> 64:
                assert left == []
            seen.add((depth, accepted))
    assert len(seen) == 6


def test_a_settled_try_reads_on_while_bits_agree_with_the_threshold(monkeypatch):
    # exp(−1/18): 40 + 3·64 bits of it, then one that differs.
    digits = int(threshold(0, 1, 3.0) * 2 ** (40 + 64 * 4))
    words = [digits >> 64 * i & 2**64 - 1 for i in (3, 2, 1)]
    for last, accepted in ((0, True), (2**64 - 1, False)):
        left = further_bits(monkeypatch, *words, last)
        first, second = pack(1, digits >> 64 * 4, 0, 1)
        assert noise._settle(first, second, 3.0, 4) == (-1 if accepted else None)
        assert left == []


def test_zero_is_drawn_with_one_sign_only(monkeypatch):
    for margin in (noise._MARGIN, ALWAYS):
        monkeypatch.setattr(noise, "_MARGIN", margin)
        values, accepted, still_open = tries([pack(0, 5, 0, 0), pack(1, 5, 0, 0)], [4.0, 4.0])
        assert values.tolist() == [0, 0]
        assert (accepted | still_open).tolist() == [True, False]
    assert noise._settle(*pack(0, 2**40 - 1, 0, 0), 4.0, 8) == 0
    assert noise._settle(*pack(1, 5, 0, 0), 4.0, 8) is None


@pytest.mark.parametrize("scale", [5e-324, 0.3, 4.0, MAX_SCALE])
def test_where_the_bits_of_v_run_out_only_a_small_u_is_open(scale):
    # Whatever V is, the threshold is below the smallest u that is refused, and the largest float is no obstacle.
    assert all(threshold(v, v * width_of(scale), scale) < Fraction(1, 2**300) for v in range(23, 30))
    units = [0, 15, 17, 2**39, 2**40 - 1]
    _, accepted, still_open = tries([pack(0, u, 23, 5) for u in units], np.full(len(units), scale))
    assert not accepted.any()
    assert still_open.tolist() == [True, True, False, False, False]


def test_v_goes_on_where_its_bits_run_out(monkeypatch):
    asked = []
    monkeypatch.setattr(noise, "_below", lambda *decision: asked.append(decision) or True)
    for words, v in (((1,), 23), ((8,), 26), ((0, 0, 2**63), 23 + 64 + 64 + 63)):
        _, accepted, still_open = tries([pack(0, 7, 23, 5)], [4.0])
        assert not accepted[0]
        assert still_open[0]
        left = further_bits(monkeypatch, *words)
        assert noise._settle(*pack(0, 7, 23, 5), 4.0, 8) == 8 * v + 5
        assert left == []
        assert asked.pop() == (7, v, 8 * v + 5, 4.0)


def test_draws_beyond_64_bits_are_clamped(monkeypatch):
    monkeypatch.setattr(noise, "_below", lambda *_: True)
    for negative, end in ((0, 2**63 - 1), (1, -(2**63))):
        further_bits(monkeypatch, 0, 0, 1)
        assert noise._settle(*pack(negative, 0, 23, 5), MAX_SCALE, 2**56) == end


# --- Exactness: whole draws -------------------------------------------------------------------------------


class Tape:
    """In place of the system's randomness: bits that can be read twice."""

    def __init__(self, seed):
        self.random = random.Random(seed)  # noqa: S311 - a test's bits

    def __call__(self, size):
        return self.random.randbytes(size)

    def words(self, count):
        raw = self(8 * count)
        return [int.from_bytes(raw[8 * i : 8 * i + 8], sys.byteorder, signed=True) for i in range(count)]


def by_the_book(scales, tape, block):
    """The algorithm as the head of noise.py states it, one try at a time, with 100 digits; one draw for each scale."""
    out, waiting, begun = {}, [], 0
    while len(out) < len(scales):
        fresh = range(begun, min(len(scales), begun + block - len(waiting)))
        waiting, begun = [*waiting, *fresh], begun + len(fresh)
        words = tape.words(2 * len(waiting))
        for place, first, second in zip(list(waiting), words, words[len(waiting) :], strict=False):
            text = f"{first % 2**64:064b}"  # sign, 40 bits of u, 23 bits of V
            v = len(text) - len(text.rstrip("0"))
            width = 1
            while Fraction(27, 32) * width < Fraction(scales[place]):
                width *= 2
            x = v * width + second % width
            if v < 23 and int(text[1:41], 2) < threshold(v, x, scales[place]) * 2**40 and (text[0] == "0" or x):
                out[place] = -x if text[0] == "1" else x
                waiting.remove(place)
    return [out[place] for place in range(len(scales))]


@pytest.mark.parametrize("margin", [16, 2**38, ALWAYS])
@pytest.mark.parametrize("block", [5, 1000])
def test_the_same_bits_give_the_same_draws_by_the_book(monkeypatch, margin, block):
    # About 5,000 decisions. A try decided by rounding, or by the margin, would show.
    rng = np.random.default_rng(20200401)
    sizes = rng.integers(0, 8, 400)
    scales = np.array([any_scale(rng) for _ in sizes])
    monkeypatch.setattr(noise, "_MARGIN", margin)
    monkeypatch.setattr(noise, "_BLOCK", block)
    monkeypatch.setattr(noise.os, "urandom", Tape(1))
    drawn = discrete_gaussians(scales, sizes)
    assert drawn.tolist() == by_the_book(np.repeat(scales, sizes).tolist(), Tape(1), block)


@pytest.mark.parametrize("scale", [0.3, 2.0, 2.0**50 + 0.25])
def test_one_run_is_drawn_like_many(monkeypatch, scale):
    monkeypatch.setattr(noise.os, "urandom", Tape(2))
    one = discrete_gaussian(scale, 1000)
    monkeypatch.setattr(noise.os, "urandom", Tape(2))
    assert (one == discrete_gaussians(np.full(10, scale), np.full(10, 100))).all()


# --- No two runs alike ------------------------------------------------------------------------------------


EVERY = {
    "one run": discrete_gaussian,
    "many runs": lambda scale, size: discrete_gaussians(np.full(size, scale), np.ones(size, dtype=np.int64)),
    "OpenDP": reference_gaussian,
}


@pytest.mark.parametrize("draw", EVERY.values(), ids=EVERY)
def test_calls_are_fresh_whatever_the_seeds_of_other_generators(draw):
    # Detects a sampler fed by a generator that a caller can seed. At 2^50 chance repeats 1 in 10^15 draws.
    draws = []
    for _ in range(2):
        random.seed(1)
        np.random.seed(1)
        draws.append(draw(2.0**50, 100))
    assert np.unique(np.concatenate(draws)).size == 200


DRAW_AND_FORK = """
import os
import numpy as np
from fitnoise.noise import discrete_gaussian, discrete_gaussians, reference_gaussian

def draw(size):
    many = discrete_gaussians(np.full(size, 2.0**50), np.ones(size, dtype=np.int64))
    return [*discrete_gaussian(2.0**50, size), *many, *reference_gaussian(2.0**50, size)]

draw(10)
for _ in range(2):
    if os.fork() == 0:
        print(*draw(20), flush=True)
        os._exit(0)
    os.wait()
print(*draw(20))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_processes_and_forks_share_no_noise():
    # Detects a generator started from a fixed state, or one whose state a child inherits from its parent.
    command = [sys.executable, "-c", DRAW_AND_FORK]
    other = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    draws = [int(word) for word in other.split()]
    draws += [x for draw in EVERY.values() for x in draw(2.0**50, 20).tolist()]
    assert len(draws) == 4 * 60
    assert len(set(draws)) == len(draws)


# --- The interface ----------------------------------------------------------------------------------------


SINGLE = {"vectorised": discrete_gaussian, "OpenDP": reference_gaussian}


@pytest.mark.parametrize("draw", SINGLE.values(), ids=SINGLE)
@pytest.mark.parametrize("size", [0, 1, 5, np.int64(3)])
def test_shape_and_type(draw, size):
    drawn = draw(2.5, size)
    assert drawn.shape == (int(size),)
    assert drawn.dtype == np.int64


@pytest.mark.parametrize("sizes", [[], [0], [0, 0], [3, 0, 2], [0, 4, 0], np.array([1, 2], dtype=np.uint8)])
def test_shape_and_type_of_many_runs(sizes):
    sizes = np.array(sizes, dtype=getattr(sizes, "dtype", np.int64))
    drawn = discrete_gaussians(np.full(sizes.size, 2.5), sizes)
    assert drawn.shape == (sizes.sum(),)
    assert drawn.dtype == np.int64


def test_large_sizes_are_drawn_by_opendp_in_chunks_that_differ(monkeypatch):
    sizes = []
    draw = noise._opendp
    monkeypatch.setattr(noise, "_CHUNK", 7)
    monkeypatch.setattr(noise, "_opendp", lambda scale, size: sizes.append(size) or draw(scale, size))
    drawn = reference_gaussian(2.0**50, 20)
    assert sizes == [7, 7, 6]
    assert np.unique(drawn).size == 20


@pytest.mark.parametrize("draw", SINGLE.values(), ids=SINGLE)
def test_whole_scales_and_both_ends_of_the_range(draw):
    assert np.abs(draw(3, 100)).max() < 50
    assert 2.0**50 < np.abs(draw(MAX_SCALE, 100)).max() < 2.0**62
    assert not draw(5e-324, 100).any()


def test_arrays_given_stay_as_they_are():
    scales, sizes = np.array([1.0, 2.0]), np.array([3, 4], dtype=np.int32)
    scales.setflags(write=False)
    sizes.setflags(write=False)
    assert discrete_gaussians(scales, sizes).size == 7


@pytest.mark.parametrize("scale", [0.1, 1 / 3, 1e3 + 0.5, 2.0**50 + 0.25, 2.0**55])
def test_opendp_samples_at_the_very_float_it_is_given(scale):
    # Its privacy map, rounded up from exact rationals, is our ρ: a scale rounded on the way would show.
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l2_distance(T=float)
    theirs = Fraction(dp.m.make_gaussian(*space, scale=scale).map(1.0))
    ours = rho(1 / Fraction(scale) ** 2)
    assert ours <= theirs <= ours * (1 + Fraction(1, 2**52))


@pytest.mark.parametrize("draw", SINGLE.values(), ids=SINGLE)
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
def test_a_bad_scale_is_refused_without_being_named(draw, scale, error, broken):
    with pytest.raises(error, match=broken) as caught:
        draw(scale, 3)
    assert "no noise was drawn" in str(caught.value)
    for name in ("7.25", "29", "nan", "inf", "9007199254740993", "36028797018963976", "000"):
        assert name not in str(caught.value)


@pytest.mark.parametrize("draw", SINGLE.values(), ids=SINGLE)
@pytest.mark.parametrize(
    ("size", "error", "broken"),
    [
        (-1, ValueError, "below 0"),
        (np.int64(-1), ValueError, "below 0"),
        (2**60, ValueError, "beyond what an array can hold"),
        (10**30, ValueError, "beyond what an array can hold"),
        (3.0, TypeError, "is a float"),
        (True, TypeError, "is a bool"),
        (np.bool_(True), TypeError, "is a bool"),
        ((3,), TypeError, "is a tuple"),
        (None, TypeError, "is a NoneType"),
    ],
)
def test_a_bad_size_is_refused(draw, size, error, broken):
    with pytest.raises(error, match=broken) as caught:
        draw(7.25, size)
    assert "no noise was drawn" in str(caught.value)
    assert "7.25" not in str(caught.value)


ONES = np.array([1, 1])


@pytest.mark.parametrize(
    ("scales", "sizes", "error", "broken"),
    [
        ([7.25, 7.25], ONES, TypeError, "scales need to be an array of float64"),
        (np.array([7, 7]), ONES, TypeError, "scales need to be an array of float64"),
        (np.array([7.25, 7.25], dtype=np.float32), ONES, TypeError, "scales need to be an array of float64"),
        (np.array([7.25, 7.25], dtype=object), ONES, TypeError, "scales need to be an array of float64"),
        (np.array([[7.25, 7.25]]), ONES, TypeError, "scales need to be an array of float64"),
        (np.array([7.25, 7.25]), [1, 1], TypeError, "sizes need to be an array of whole numbers"),
        (np.array([7.25, 7.25]), np.array([1.0, 1.0]), TypeError, "sizes need to be an array of whole numbers"),
        (np.array([7.25, 7.25]), np.array([True, True]), TypeError, "sizes need to be an array of whole numbers"),
        (np.array([7.25, 7.25]), ONES[None], TypeError, "sizes need to be an array of whole numbers"),
        (np.array([7.25]), ONES, ValueError, "as many scales as sizes"),
        (np.array([]), ONES, ValueError, "as many scales as sizes"),
        (np.array([7.25, 0.0]), ONES, ValueError, "not a number above 0"),
        (np.array([-7.25, 7.25]), ONES, ValueError, "not a number above 0"),
        (np.array([7.25, math.nan]), ONES, ValueError, "not a number above 0"),
        (np.array([7.25, math.nan]), ONES * 0, ValueError, "not a number above 0"),
        (np.array([7.25, math.inf]), ONES, ValueError, "above 2\\^55"),
        (np.array([math.nextafter(MAX_SCALE, math.inf), 1]), ONES, ValueError, "above 2\\^55"),
        (np.ma.masked_array([7.25, -7.25], mask=[False, True]), ONES, ValueError, "not a number above 0"),
        (np.array([7.25, 7.25]), np.array([3, -1]), ValueError, "below 0"),
        (np.array([7.25, 7.25]), np.ma.masked_array([3, -1], mask=[False, True]), ValueError, "below 0"),
        (np.array([7.25, 7.25]), np.array([2**59, 2**59]), ValueError, "beyond what an array can hold"),
        (
            np.array([7.25, 7.25]),
            np.array([2**63, 2**63], dtype=np.uint64),
            ValueError,
            "beyond what an array can hold",
        ),
    ],
)
def test_bad_runs_are_refused_without_naming_a_scale(scales, sizes, error, broken):
    with pytest.raises(error, match=broken) as caught:
        discrete_gaussians(scales, sizes)
    assert "no noise was drawn" in str(caught.value)
    for name in ("7.25", "nan", "inf", "36028797018963976", "000"):
        assert name not in str(caught.value)


def broken_source(error):
    def fail(size):
        raise error

    return fail


@pytest.mark.parametrize(
    ("urandom", "named"),
    [
        (broken_source(OSError("no entropy")), "OSError"),
        (broken_source(NotImplementedError("no entropy")), "NotImplementedError"),
        (lambda size: b"", "too few bits"),
        (lambda size: bytes(size - 1), "too few bits"),
        (lambda size: bytes(8), "too few bits"),  # one word, broadcast, would otherwise serve every try
    ],
)
def test_without_randomness_from_the_system_no_noise_is_drawn(monkeypatch, urandom, named):
    monkeypatch.setattr(noise.os, "urandom", urandom)
    for draw in (discrete_gaussian, EVERY["many runs"]):
        with pytest.raises(FitnoiseError, match=f"{named}.*no noise was drawn") as caught:
            draw(7.25, 3)
        assert "7.25" not in str(caught.value)
        assert "entropy" not in str(caught.value)
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None


def test_randomness_that_fails_half_way_fails_all(monkeypatch):
    working = [Tape(3)] * 5
    monkeypatch.setattr(noise, "_BLOCK", 10)
    monkeypatch.setattr(noise.os, "urandom", lambda size: working.pop()(size) if working else b"")
    with pytest.raises(FitnoiseError, match="no noise was drawn"):
        discrete_gaussian(7.25, 1000)
    assert working == []


def test_a_failing_opendp_is_an_error_that_does_not_name_the_scale(monkeypatch):
    def fail(*_space, scale):
        raise dp.OpenDPException("FailedFunction", f"no entropy at scale {scale}")

    monkeypatch.setattr(dp.m, "make_gaussian", fail)
    with pytest.raises(FitnoiseError, match=r"FailedFunction.*no noise was drawn") as caught:
        reference_gaussian(7.25, 3)
    assert "7.25" not in str(caught.value)
    assert caught.value.__context__ is None  # a traceback would print the message of OpenDP
    assert caught.value.__cause__ is None


def test_fewer_draws_of_opendp_than_asked_for_are_refused(monkeypatch):
    # One draw, broadcast, would otherwise serve as everybody's noise.
    monkeypatch.setattr(dp.m, "make_gaussian", lambda *_space, scale: lambda zeros: zeros[:1])
    with pytest.raises(ValueError, match="too short"):
        reference_gaussian(7.25, 3)
