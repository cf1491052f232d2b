"""How sectors are estimated from noisy answers, whatever the noise. Post-processing."""

from __future__ import annotations

from typing import overload

from fitnoise.kernel.designs.margins import PureStrategy
from fitnoise.kernel.designs.sectors import Strategy
from fitnoise.mechanisms.gaussian.estimate import SectorEstimation
from fitnoise.mechanisms.laplace.estimate import PureEstimation
from fitnoise.solving.sectors import Decomposition


@overload
def estimation(strategy: Strategy, decomposition: Decomposition) -> SectorEstimation: ...
@overload
def estimation(strategy: PureStrategy, decomposition: Decomposition) -> PureEstimation: ...
@overload
def estimation(
    strategy: Strategy | PureStrategy, decomposition: Decomposition
) -> SectorEstimation | PureEstimation: ...
def estimation(strategy: Strategy | PureStrategy, decomposition: Decomposition) -> SectorEstimation | PureEstimation:
    """How the sectors of a decomposition are estimated from the answers of a strategy.

    Raises:
        SingularStrategy: some published number cannot be rebuilt from the answers.
    """
    if isinstance(strategy, PureStrategy):
        return PureEstimation(strategy, decomposition)
    return SectorEstimation(strategy)
