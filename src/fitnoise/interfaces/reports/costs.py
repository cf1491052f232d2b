"""The wording of a cost: as ρ with its ε at δ, or, if all noise is pure, as ε alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from fitnoise.kernel.losses import Loss, rounded_up
from fitnoise.messages import Value, ValueKind


@final
@dataclass(frozen=True)
class CostSentences:
    """The sentences of a cost, to be filled with values of the report.

    `whole`: For the total of a plan.
    part: For a part, with its tables.
    charged: For a charge.
    measure: The measure by which costs are compared.
    epsilon: The kind of number of ε.
    by_cell: True if the costs of records in different cells are reported.
    pure: The ε of a pure cost, exact and to be spoken.
    """

    whole: tuple[str, ...]
    part: str
    charged: str
    measure: str
    epsilon: ValueKind
    by_cell: bool
    pure: tuple[Value, Value] = (Value("epsilon_exact", None), Value("epsilon", None, ValueKind.COST, spoken=True))


_GUESS = "a guess between two neighbouring data sets, equally likely before, is right at most {best_guess} of the time"

_CONCENTRATED = CostSentences(
    whole=(
        "rho = {rho}   mu = {mu}   for {privacy_unit}",
        "epsilon = {epsilon} at delta = {delta}, guaranteed",
        _GUESS,
    ),
    part="{tables}: {mechanism}, rho = {rho}",
    charged="rho = {rho}",
    measure="rho",
    epsilon=ValueKind.COMPARED,
    by_cell=True,
)

_PURE = CostSentences(
    whole=("epsilon = {epsilon}, pure, for {privacy_unit}", "which implies rho = {rho} and mu = {mu}", _GUESS),
    part="{tables}: {mechanism}, epsilon = {epsilon}, pure",
    charged="epsilon = {epsilon}, rho = {rho}",
    measure="epsilon",
    epsilon=ValueKind.COST,
    by_cell=False,
)


def sentences_for(loss: Loss) -> CostSentences:
    """Return the wording of a loss."""
    exact = loss.epsilon
    if exact is None:
        return _CONCENTRATED
    spoken = Value("epsilon", rounded_up(exact), ValueKind.COST, spoken=True)
    return replace(_PURE, pure=(Value("epsilon_exact", str(exact)), spoken))
