"""Estimation of sectors from their own noisy answers. This module only post-processes.

The letters are those of docs/mathematics/notation.md. H_a centres attribute a in integers, and A_S mixes the basis rows
of sector S. σ_S is the sector's noise scale, and y_S are its noisy answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import SingularStrategy
from fitnoise.kernel.arrays import Exact
from fitnoise.kernel.designs.linear import axis_rows
from fitnoise.kernel.designs.sectors import Strategy, StrategyGroup

_INVERSES: WeakKeyDictionary[StrategyGroup, NDArray[np.float64]] = WeakKeyDictionary()
"""Inverses by group in use: a plan is rounded, compared and rebuilt with the same groups."""


def gains(sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return Π g_a along the last axis, with g_a from H_aᵀH_a = g_a (I − J/n_a): n_a², or 2 for n_a = 2."""
    return np.asarray(np.where(sizes == 2, 2.0, sizes.astype(np.float64) ** 2).prod(axis=-1))


def uncentre(answers: NDArray[np.float64], axis: int, n: int) -> NDArray[np.float64]:
    """Apply H⁺ = Hᵀ/g along one axis."""
    if n == 2:
        out = np.concatenate([answers, -answers], axis=axis)
    else:
        out = np.asarray(answers - answers.mean(axis=axis, keepdims=True))
    out /= n  # in place: a large sector has one copy less
    return out


def inverse(group: StrategyGroup) -> NDArray[np.float64]:
    """Return A_S⁻¹ of every sector in floating point, (K, k, k).

    Raises:
        SingularStrategy: Doubles cannot hold an A_S, or cannot invert it.
    """
    cached = _INVERSES.get(group)
    if cached is None:
        cached = _INVERSES[group] = _inverse(group)
    return cached


def _inverse(group: StrategyGroup) -> NDArray[np.float64]:
    a = group.mixing.astype(np.float64)
    try:
        result = 1 / a if group.rank == 1 and a.all() else np.asarray(np.linalg.inv(a))
    except np.linalg.LinAlgError:
        result = np.full_like(a, math.nan)
    held = bool((a.astype(group.mixing.dtype) == group.mixing).all())  # 64-bit entries are below 2⁶², others exact
    # LAPACK inverts a nearly singular matrix without an error, so the product is checked.
    if not held or not np.isfinite(result).all() or np.abs(a @ result - np.eye(group.rank)).max() > 1e-7:
        raise SingularStrategy(
            "singular-sector",
            "An integer strategy of a sector is singular.",
            "Its answers cannot be rebuilt.",
            "Use the plan as fitnoise wrote it, or plan again.",
            "Nothing was rebuilt.",
        )
    return result


def covariance(
    whiteners: Sequence[NDArray[np.float64]],
    f: Mapping[tuple[int, int], NDArray[np.float64]],
    h: Mapping[tuple[int, int], NDArray[np.float64]],
) -> float:
    """Return the covariance of combinations Σ_S ⟨f_S, θ_S⟩ of independent sectors, each W Wᵀ: Σ_S ⟨f_S W, h_S W⟩."""
    whitened = {sector: x @ whiteners[sector[0]][sector[1]] for sector, x in f.items()}
    other = whitened if h is f else {sector: x @ whiteners[sector[0]][sector[1]] for sector, x in h.items()}
    return float(sum((x * other[sector]).sum() for sector, x in whitened.items() if sector in other))


def apply_covariance(
    whiteners: Sequence[NDArray[np.float64]], f: Mapping[tuple[int, int], NDArray[np.float64]]
) -> dict[tuple[int, int], NDArray[np.float64]]:
    """Return f_S W Wᵀ, the covariance of each estimate with Σ_S ⟨f_S, θ_S⟩: independent sectors, f_S centred."""
    return {sector: x @ whiteners[sector[0]][sector[1]] @ whiteners[sector[0]][sector[1]].T for sector, x in f.items()}


@final
@dataclass(frozen=True, eq=False)
class SectorEstimation:
    """The estimation of every sector from its own answers: θ_S = (⊗ H_aᵀ/g_a ⊗ A_S⁻¹) y_S."""

    strategy: Strategy

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of noisy answers of each group of sectors."""
        return self.strategy.lengths

    @cached_property
    def whiteners(self) -> list[NDArray[np.float64]]:
        """W_S = σ_S Π g_a^(−½) A_S⁻¹ by group, (K, k, k): cov θ_S is W_S W_Sᵀ ⊗ the centring of every a in S."""
        return [
            np.asarray(inverse(g) * (g.scales / np.sqrt(gains(g.sizes)))[:, None, None]) for g in self.strategy.groups
        ]

    def estimates(self, answers: Sequence[Exact], group: int, sectors: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return θ_S of some sectors of a group, all of the same sizes, (K, n_a for a in S…, k)."""
        g = self.strategy.groups[group]
        sizes = g.sizes[sectors[0]].tolist()
        shape = [axis_rows(n) for n in sizes]
        starts, length = g.starts[sectors], math.prod(shape) * g.rank
        if len(sectors) == 1:
            where: Any = slice(int(starts[0]), int(starts[0]) + length)  # a large sector needs no index array
        else:
            # Sectors of equal sizes have equally many answers, so one index array reads them all.
            where = starts[:, None] + np.arange(length)
        theta = answers[group][where].astype(np.float64).reshape(len(sectors), -1, g.rank)
        theta = (theta @ inverse(g)[sectors].swapaxes(1, 2)).reshape(len(sectors), *shape, g.rank)
        for axis, n in enumerate(sizes):
            theta = uncentre(theta, axis + 1, n)
        return np.asarray(theta)

    def covariance(
        self, f: Mapping[tuple[int, int], NDArray[np.float64]], h: Mapping[tuple[int, int], NDArray[np.float64]]
    ) -> float:
        """Return the covariance of two combinations of sector estimates."""
        return covariance(self.whiteners, f, h)

    def apply_covariance(
        self, f: Mapping[tuple[int, int], NDArray[np.float64]]
    ) -> dict[tuple[int, int], NDArray[np.float64]]:
        """Return cov(θ) f, the covariances of the estimates with Σ ⟨f_S, θ_S⟩, for the sectors in f; f_S is centred."""
        return apply_covariance(self.whiteners, f)
