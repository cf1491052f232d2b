"""Sectors from their own noisy answers. Post-processing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.arrays import Exact
from fitnoise.kernel.designs.sectors import Strategy, axis_rows, uncentre


def covariance(
    whiteners: Sequence[NDArray[np.float64]],
    f: Mapping[tuple[int, int], NDArray[np.float64]],
    h: Mapping[tuple[int, int], NDArray[np.float64]],
) -> float:
    """Of combinations Σ_S ⟨f_S, θ_S⟩ of sectors that are independent, each W Wᵀ: Σ_S ⟨f_S W, h_S W⟩."""
    own = {place: x @ whiteners[place[0]][place[1]] for place, x in f.items()}
    other = own if h is f else {place: x @ whiteners[place[0]][place[1]] for place, x in h.items()}
    return float(sum((x * other[place]).sum() for place, x in own.items() if place in other))


def moved(
    whiteners: Sequence[NDArray[np.float64]], f: Mapping[tuple[int, int], NDArray[np.float64]]
) -> dict[tuple[int, int], NDArray[np.float64]]:
    """How each sector's estimate varies with Σ_S ⟨f_S, θ_S⟩, of sectors that are independent: f_S W Wᵀ, f_S centred."""
    return {place: x @ whiteners[place[0]][place[1]] @ whiteners[place[0]][place[1]].T for place, x in f.items()}


@final
@dataclass(frozen=True, eq=False)
class SectorEstimation:
    """Every sector from its own answers: θ_S = (⊗ H_aᵀ/g_a ⊗ A_S⁻¹) y_S. Post-processing."""

    strategy: Strategy

    @property
    def lengths(self) -> tuple[int, ...]:
        """How many noisy answers each group of sectors has."""
        return self.strategy.lengths

    @property
    def whiteners(self) -> list[NDArray[np.float64]]:
        """The whiteners of every group."""
        return [g.whiteners for g in self.strategy.groups]

    def estimates(self, answers: Sequence[Exact], group: int, sectors: NDArray[np.intp]) -> NDArray[np.float64]:
        """θ_S of some sectors of a group, all of the same sizes, (K, n_a for a in S…, k)."""
        g = self.strategy.groups[group]
        sizes = g.sizes[sectors[0]].tolist()
        shape = [axis_rows(n) for n in sizes]
        where = g.starts[sectors][:, None] + np.arange(math.prod(shape) * g.rank)
        y = answers[group][where].astype(np.float64).reshape(len(sectors), -1, g.rank)
        theta = (y @ g.inverse[sectors].swapaxes(1, 2)).reshape(len(sectors), *shape, g.rank)
        for axis, n in enumerate(sizes):
            theta = uncentre(theta, axis + 1, n)
        return np.asarray(theta)

    def covariance(
        self, f: Mapping[tuple[int, int], NDArray[np.float64]], h: Mapping[tuple[int, int], NDArray[np.float64]]
    ) -> float:
        """Of two combinations of what sectors are estimated to be."""
        return covariance(self.whiteners, f, h)

    def moved(self, f: Mapping[tuple[int, int], NDArray[np.float64]]) -> dict[tuple[int, int], NDArray[np.float64]]:
        """How each sector's estimate varies with a combination of them: cov(θ) f."""
        return moved(self.whiteners, f)
