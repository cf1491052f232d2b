"""The accuracy and the cost that a plan states for each table and each question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from fitnoise.kernel.arrays import Floats
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.request.targets import TargetKind


@final
@dataclass(frozen=True)
class TableSummary:
    """The accuracy and the cost that a plan states for one table.

    target: The target in the publisher's own kind: one number, or the smallest and the largest.
    numbers: Number of published numbers.
    confidence: The confidence of both margins of error.
    target_moe, achieved_moe: Margins of error at that confidence, in the unit of the target, of the number whose error
        is largest relative to its target. Under a budget, that error can be above the target.
    price: This table's share of the marginal privacy cost, from the dual weights. If all its variances grow by 1 %, ρ
        falls by price × 1 %; if its margins grow by 1 %, ρ falls by twice that. Shares add to 1. For a hybrid
        objective they refer to the objective and add to less than 1. For a pure plan they refer to its proven bound.
        For a small database they are shares of the weighted total variance. In :attr:`Plan.summaries` of several groups
        of tables, each group has its share of the cost, which its tables share like this.
    tables: Number of tables in this summary; more than 1 for a pattern of tables in
        :attr:`fitnoise.planning.plan.Plan.summaries`.
    """

    name: str
    numbers: int
    target: Message
    confidence: float
    target_moe: float
    achieved_moe: float
    price: float
    tables: int = 1

    @property
    def has_several_targets(self) -> bool:
        """True if the numbers of the table have different targets."""
        return len(self.target.values) > 1


@final
@dataclass(frozen=True)
class FiniteSummary:
    """The accuracy and the cost that a plan states for one question with finitely many answers.

    question: The kind of the question (:class:`fitnoise.kernel.designs.questions.QuestionKind`), such as "median".
    family: The family of its mechanism.
    results: Number of possible results.
    epsilon: Cost of the answer to one unit.
    confidence: The confidence of `moe` and of `rank_moe`.
    rank_moe: Margin of a median or quantile by ranks, in records; None for other answers. The published value has at
        most this many records too many below it, and at most this many too few at or below it. Both hold jointly with
        probability `confidence` or more. No other accuracy is guaranteed, because it depends on the data.
    hit_rate: Probability of the true answer, on average over the prior of the question; None for a median or quantile.
    mae, rmse: Mean absolute and root mean squared error, on average over the prior; None if results are not numbers.
    moe: Margin of error for every true answer, with probability `confidence` or more; None if results are not numbers.
        Several counts lie within it jointly.
    leakage: Min-entropy leakage about the answer under the prior, in bits; None for a median or quantile.
    """

    name: str
    question: str
    family: str
    results: int
    epsilon: float
    confidence: float
    hit_rate: float | None = None
    mae: float | None = None
    rmse: float | None = None
    moe: float | None = None
    leakage: float | None = None
    rank_moe: float | None = None


_TARGETS = {
    TargetKind.MARGIN: ("report.target.margin", "report.target.margins"),
    TargetKind.STD_ERROR: ("report.target.std_error", "report.target.std_errors"),
    TargetKind.VARIANCE: ("report.target.variance", "report.target.variances"),
    TargetKind.MAX_DEVIATION: ("report.target.max_deviation", "report.target.max_deviations"),
    TargetKind.RELATIVE_STD_ERROR: ("report.target.relative_std_error", "report.target.relative_std_errors"),
}
"""The ids of a target for each kind: for one number, and for the smallest and the largest of several."""


def target_message(kind: TargetKind, numbers: Floats) -> Message:
    """Return a target in the publisher's own kind: one number, or the smallest and the largest."""
    low, high = float(numbers.min()), float(numbers.max())
    one, several = _TARGETS[kind]
    if low == high:
        return Message(one, (Value("number", low, ValueKind.NUMBER),))
    return Message(several, (Value("least", low, ValueKind.NUMBER), Value("most", high, ValueKind.NUMBER)))
