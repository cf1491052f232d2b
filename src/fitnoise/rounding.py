"""From the ideal covariances to an integer strategy. Untrusted: mistakes here cost accuracy, never privacy.

The ideal strategy of sector S has A_SᵀA_S/σ_S² = (n_S / Π g_a) Σ_S⁻¹. Its triangular factor is scaled by a power of two
so that its largest entry has `bits` bits, and rounded. All scales are then multiplied by one factor, so that the worst
target holds (or the budget does), and cut to 32 bits of mantissa so that exact prices stay short.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.linalg as sl

from fitnoise.errors import PlanError
from fitnoise.operators import Operator
from fitnoise.sectors import Decomposition, Floats
from fitnoise.strategy import MAX_SCALE, SectorStrategy, Strategy, axis_gain, whitener

LEAST_SCALE = 2.0**10
"""Noise on a coarse lattice misses its margins: an interval of ±1.96 σ holds 93.5 % at σ = 4, and 95 % less 0.06/σ in
general. Finer lattices cost bits only."""
CHUNK = 2**24
"""Entries of a tall table's product with A⁻¹ held at once."""
_MANTISSA = 32
_MAX_EXPONENT = 52
"""A basis of 26-bit integers makes A small; beyond this power of two the noise would outgrow 64 bits instead."""


def round_strategy(decomposition: Decomposition, factors: Sequence[Floats], bits: int) -> Strategy:
    """Integers for F_S with F_SᵀF_S = Σ_S⁻¹ in each sector's basis; the largest entry of each has `bits` bits."""
    sectors = []
    for sector, f in zip(decomposition.sectors, factors, strict=True):
        share = math.sqrt(math.prod(n / axis_gain(n) for n in sector.sizes))
        if len(f) == 1:
            mixing = np.array([[1]], dtype=np.int64)
            scale = 1 / (share * abs(float(f[0, 0])))
        else:
            triangle = np.asarray(sl.qr(share * f, mode="r")[0][: len(f)])
            exponent = min(bits - int(math.frexp(float(np.abs(triangle).max()))[1]), _MAX_EXPONENT)
            mixing = np.rint(np.ldexp(triangle, exponent)).astype(np.int64)
            scale = math.ldexp(1.0, exponent)
        sectors.append(SectorStrategy(sector.attributes, sector.sizes, mixing, sector.basis, scale))
    return Strategy(decomposition.sizes, decomposition.cells, tuple(sectors))


def variances(decomposition: Decomposition, strategy: Strategy) -> Floats:
    """An upper bound on the variance of every table row (M,), from the integers.

    var_{A,j} = Σ_{S⊆A} σ_S² [Π_{a∈S} (1 − 1/n_a)/g_a] [Π_{a∈A∖S} n_a⁻²] ‖A_S⁻ᵀ l_{A,S,j}‖²; the discrete Gaussian's own
    variance is at most σ².
    """
    out = np.zeros(decomposition.layouts[-1].rows.stop)
    for sector, measured in zip(decomposition.sectors, strategy.sectors, strict=True):
        share = math.prod(1 - 1 / n for n in sector.sizes)
        inside = math.prod(sector.sizes)
        whitened = whitener(measured)
        for t, lift in zip(sector.members, sector.lifts, strict=True):
            rest = decomposition.table_cells(t) // inside
            out[decomposition.layouts[t].rows] += share / rest**2 * _row_squares(lift, whitened)
    return out


def _row_squares(a: Floats | Operator, b: Floats) -> Floats:
    """Σ_c (A B)_jc² for every row j; of an operator, some columns of B at a time."""
    if isinstance(a, np.ndarray):
        return np.asarray(((a @ b) ** 2).sum(axis=1))
    step = max(1, CHUNK // a.shape[0])
    return np.asarray(sum((a.mv(b[:, c : c + step]) ** 2).sum(axis=1) for c in range(0, b.shape[1], step)))


def rescale(strategy: Strategy, factor: float, *, up: bool) -> Strategy:
    """Multiply every σ by a factor, cut it to 32 bits (up or down), and shift A so that 2¹⁰ ≤ σ.

    Raises:
        PlanError: a scale outside what the exact sampler can draw.
    """
    sectors = []
    for s in strategy.sectors:
        scale = _cut(s.scale * factor, up=up)
        mixing = s.mixing
        if not 0 < scale <= MAX_SCALE:
            raise PlanError(
                "the targets are too far apart in size, or too loose, for exact 64-bit noise; "
                "scale the queries down or tighten the loosest target. Nothing was planned."
            )
        if scale < LEAST_SCALE:
            shift = math.ceil(math.log2(LEAST_SCALE / scale))
            scale = math.ldexp(scale, shift)
            mixing = mixing.astype(object) * 2**shift
            if int(np.abs(mixing).max()) < 2**62:
                mixing = mixing.astype(np.int64)
        sectors.append(replace(s, mixing=mixing, scale=scale))
    return replace(strategy, sectors=tuple(sectors))


def _cut(x: float, *, up: bool) -> float:
    mantissa, exponent = math.frexp(x)
    scaled = math.ldexp(mantissa, _MANTISSA)
    return math.ldexp(math.ceil(scaled) if up else math.floor(scaled), exponent - _MANTISSA)
