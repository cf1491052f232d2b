"""The interface of estimates: a rule that estimates the sectors of tables from noisy answers.

Rebuilding and covariances need only this of a part. So they know no mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fitnoise.kernel.arrays import Exact, Floats, Indices
from fitnoise.request.publication import Publication
from fitnoise.solving.sectors import Decomposition

SectorIndex = tuple[int, int]
"""A sector: the number of its group, and its index in the group."""


class Estimation(Protocol):
    """The rule that estimates the sectors of tables from noisy answers: θ_S is the vector of sector S."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of noisy answers of each group."""

    @property
    def whiteners(self) -> list[Floats]:
        """For each group, a W for each of its K sectors, (K, k, k).

        For sectors with independent estimates, cov θ_S is W Wᵀ ⊗ the centring along the attributes of S. For levels,
        places and products, W is one scale of the sector's noise (k = 1).
        """

    def estimates(self, answers: Sequence[Exact], group: int, sectors: Indices) -> Floats:
        """Return θ_S of the given sectors of a group, all of the same sizes, (K, n_a for a in S…, k)."""

    def covariance(self, f: Mapping[SectorIndex, Floats], h: Mapping[SectorIndex, Floats]) -> float:
        """Return the covariance of two combinations of sector estimates (`rebuilding.adjoint`)."""

    def apply_covariance(self, f: Mapping[SectorIndex, Floats]) -> Mapping[SectorIndex, Floats]:
        """Return cov(θ) f, the covariances of the estimates with Σ ⟨f_S, θ_S⟩, for the sectors in f; f_S is centred."""


class AxisEstimation(Estimation, Protocol):
    """The estimation of a workload by axis."""

    def value_weights(self, axis: int) -> Floats:
        """Return the weights that split a sum over an attribute among its values, (n_a,)."""


class SectorTablesPart(Protocol):
    """Tables in sectors and their estimation: the interface that rebuilding and covariances need of a part."""

    @property
    def publication(self) -> Publication:
        """The requested publication of these tables."""

    @property
    def decomposition(self) -> Decomposition:
        """The tables in sectors."""

    @property
    def estimation(self) -> Estimation:
        """The rule that estimates the sectors."""
