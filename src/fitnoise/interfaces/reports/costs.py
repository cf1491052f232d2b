"""The messages of a cost: ρ with its ε at δ, or, if all noise is pure, ε alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from fitnoise.kernel.losses import Loss, rounded_up
from fitnoise.messages import Value, ValueKind


@final
@dataclass(frozen=True)
class CostMessages:
    """The ids of the messages of a cost, and the values that they need.

    total: For the total of a plan.
    part: For a part, with its tables.
    charged: For a charge.
    measure: The measure by which costs are compared.
    epsilon: The kind of number of ε.
    by_cell: True if the costs of records in different cells are reported.
    pure: The ε of a pure cost, exact, and rounded up for sentences; None for other costs.
    """

    total: tuple[str, ...]
    part: str
    charged: str
    measure: str
    epsilon: ValueKind
    by_cell: bool
    pure: tuple[Value, Value] = (Value("epsilon_exact", None), Value("epsilon", None, ValueKind.COST, spoken=True))


_CONCENTRATED = CostMessages(
    total=("report.price.rho", "report.price.epsilon_at_delta", "report.price.best_guess"),
    part="report.part.rho",
    charged="report.charged.rho",
    measure="rho",
    epsilon=ValueKind.COMPARED,
    by_cell=True,
)

_PURE = CostMessages(
    total=("report.price.pure", "report.price.implied", "report.price.best_guess"),
    part="report.part.pure",
    charged="report.charged.pure",
    measure="epsilon",
    epsilon=ValueKind.COST,
    by_cell=False,
)


def messages_for(loss: Loss) -> CostMessages:
    """Return the messages of a loss."""
    exact = loss.epsilon
    if exact is None:
        return _CONCENTRATED
    # Rounded up: the ε that people read must not be below the one that is charged.
    spoken = Value("epsilon", rounded_up(exact), ValueKind.COST, spoken=True)
    return replace(_PURE, pure=(Value("epsilon_exact", str(exact)), spoken))
