"""Rounding of the ideal covariances to an integer strategy.

The ideal strategy of sector S has A_SᵀA_S/σ_S² = (n_S / Π g_a) Σ_S⁻¹, with n_S = Π_{a∈S} n_a and g_a of
`estimate.gains`. Its triangular factor is scaled by a power of two and rounded. The largest entry then has `bits` bits,
or more if rows of the basis differ much in size. All scales are then multiplied by one factor, so that the worst target
holds (or the budget does). They are cut to 32 bits of mantissa.

**Trust.** This module is untrusted: a mistake here costs accuracy, never privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.designs.linear import MAX_SCALE
from fitnoise.kernel.designs.query_blocks import INT64_SAFE_LIMIT, largest_entry
from fitnoise.kernel.designs.sectors import Strategy, StrategyGroup
from fitnoise.mechanisms.gaussian.estimate import SectorEstimation, gains
from fitnoise.mechanisms.variances import CHUNK, variances_of
from fitnoise.solving.sectors import Decomposition, SectorGroup

MIN_EXPONENT = 11
"""Least binary exponent, so that scales are at least 2¹⁰. Noise on a coarse lattice misses its margins: an interval of
±1.96 σ holds 93.5 % at σ = 4, and 95 % less 0.06/σ in general. Finer lattices cost bits only."""

# Exact prices are fractions of the squared scales, so short scales keep their digits few.
_MANTISSA = 32

_EXTRA_BITS = 25
"""Additional bits of the entries of A above the requested bits, which are at most 36: 64-bit integers hold them all."""

_MAX_EXPONENT = 52
"""Largest shift of A. A basis of 26-bit integers makes A small; above this shift the noise would exceed 64 bits."""


def round_strategy(
    decomposition: Decomposition, factors: Sequence[Floats], bits: int, *, in_time: bool = False
) -> Strategy:
    """Return the strategy of the factors F_S, (K, k, k) by group, with F_SᵀF_S = Σ_S⁻¹: integers A_S, and scales.

    The largest entry of each A_S has `bits` bits. It has more bits if rows of the basis differ much in size, and fewer
    if they would need a shift above _MAX_EXPONENT. For k = 1, A_S is 1.

    in_time: True for lower triangles, so that no row uses a later part of a basis that is in order of time.
    """
    groups = []
    for group, f in zip(decomposition.groups, factors, strict=True):
        k = len(group.basis)
        weight = np.sqrt(group.volume / gains(group.sizes))
        if k == 1:
            # The noise scale alone has the precision, and nothing is rounded.
            mixing = np.ones((len(group), 1, 1), dtype=np.int64)
            scales = 1 / (weight * np.abs(f[:, 0, 0]))
        else:
            scaled = weight[:, None, None] * f
            # The upper triangle of the reversed columns is, reversed again, a lower triangle.
            triangles = np.asarray(np.linalg.qr(scaled[:, :, ::-1] if in_time else scaled, mode="r"))[:, :k]
            triangles = triangles[:, ::-1, ::-1] if in_time else triangles
            exponents = np.minimum(bits - _reach(triangles, group), _MAX_EXPONENT)
            mixing = np.rint(np.ldexp(triangles, exponents[:, None, None])).astype(np.int64)
            scales = np.ldexp(1.0, exponents)
        groups.append(StrategyGroup(group.attributes, group.sizes, group.basis, mixing, scales))
    return Strategy(decomposition.cell_structure, tuple(groups))


def _reach(triangles: Floats, group: SectorGroup) -> NDArray[np.int64]:
    """Return powers of two of the largest entries of A, (K,), reduced if the rounding of A changes A B more than A."""
    exponents = np.asarray(np.frexp(np.abs(triangles).max(axis=(1, 2)))[1], dtype=np.int64)
    largest = int(np.abs(group.basis).max())
    if group.is_identity or largest == 1:
        return exponents
    step = max(1, CHUNK // (len(group.basis) * group.basis.shape[1]))
    # A row of the basis with large entries has small entries in A, and multiplies their rounding: there A B needs the
    # bits.
    basis = group.basis.astype(np.float64) / largest
    products = [np.abs(triangles[i : i + step] @ basis).max(axis=(1, 2)) for i in range(0, len(group), step)]
    reach = np.asarray(np.frexp(np.concatenate(products))[1], dtype=np.int64)
    return np.asarray(np.clip(reach, exponents - _EXTRA_BITS, exponents))


def variances(decomposition: Decomposition, strategy: Strategy) -> Floats:
    """Return an upper bound on the variance of every table row (M,), from the integers.

    var_{A,j} = Σ_{S⊆A} σ_S² [Π_{a∈S} (1 − 1/n_a)/g_a] [Π_{a∈A∖S} n_a⁻²] ‖A_S⁻ᵀ l_{A,S,j}‖²; the discrete Gaussian's own
    variance is at most σ².
    """
    return variances_of(decomposition, SectorEstimation(strategy).whiteners)


def rescale(strategy: Strategy, factor: float, *, up: bool) -> Strategy:
    """Multiply every σ by a factor, cut it to 32 bits (up or down), and shift A so that 2¹⁰ ≤ σ.

    Raises:
        PlanError: A scale is outside the range of the exact sampler.
    """
    groups = []
    for g in strategy.groups:
        scales = cut(g.scales * factor, up=up)
        if not ((scales > 0) & (scales <= MAX_SCALE)).all():
            raise out_of_reach()
        shift = np.maximum(MIN_EXPONENT - np.frexp(scales)[1], 0)
        scales = np.ldexp(scales, shift)
        mixing = g.mixing
        if shift.any():
            # Python integers: a shift can take entries beyond 64 bits.
            powers = np.array([1 << n for n in shift.tolist()], dtype=object)
            small = largest_entry(mixing) << int(shift.max()) < INT64_SAFE_LIMIT
            mixing = mixing * (powers.astype(np.int64) if small else powers)[:, None, None]
        groups.append(replace(g, mixing=mixing, scales=scales))
    return replace(strategy, groups=tuple(groups))


def rescaled_block(
    scales: Floats, counts: NDArray[np.int64], multiples: NDArray[np.int64], *, up: bool
) -> tuple[Floats, NDArray[np.int64]]:
    """Cut scales to 32 bits (up or down), and multiply the queries of each set so that 2¹⁰ ≤ σ.

    scales: The noise scales, set after set.
    counts: The number of scales of each set.
    multiples: The multiple of the queries of each set.

    Raises:
        PlanError: A scale is outside the range of the exact sampler, or a multiple would have more than 61 bits.
    """
    scales = cut(scales, up=up)
    if not ((scales > 0) & (scales <= MAX_SCALE)).all():
        raise out_of_reach()
    smallest = np.minimum.reduceat(scales, np.cumsum(counts) - counts)
    shift = np.maximum(MIN_EXPONENT - np.frexp(smallest)[1], 0)
    scales = np.ldexp(scales, np.repeat(shift, counts))
    # The multiples are 64-bit integers.
    if (shift + np.frexp(multiples)[1] > 61).any() or not (scales <= MAX_SCALE).all():
        raise out_of_reach()
    return scales, multiples << shift.astype(np.int64)


def out_of_reach() -> PlanError:
    """Return the error for scales, or integers, that the exact sampler cannot draw or 64 bits do not hold."""
    return PlanError(
        "noise-out-of-reach",
        "The targets differ too much in size, or are too loose, for exact 64-bit noise.",
        "",
        "Scale the queries down, or tighten the loosest target.",
        "Nothing was planned.",
    )


def cut(x: Floats, *, up: bool) -> Floats:
    """Return the nearest numbers of 32 bits of mantissa that are at least x (up), or at most x."""
    mantissa, exponent = np.frexp(x)
    scaled = np.ldexp(mantissa, _MANTISSA)
    return np.asarray(np.ldexp(np.ceil(scaled) if up else np.floor(scaled), exponent - _MANTISSA))
