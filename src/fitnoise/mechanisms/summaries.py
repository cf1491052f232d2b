"""What a plan promises, table by table and question by question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from fitnoise.kernel.arrays import Floats
from fitnoise.request.targets import Kind


@final
@dataclass(frozen=True)
class TableSummary:
    """What a plan promises for one table.

    target: the numbers asked for, in the user's own kind of target: one number, or smallest and largest.
    target_moe, achieved_moe: margins of error at the confidence, in people, of the number closest to its limit.
    price: this table's share of the privacy cost at the margin, from the dual weights: making all its variances 1 %
        larger saves price × 1 % of ρ; making its margins 1 % larger saves twice that. Shares add to 1. (Of a hybrid:
        of its whole objective, and then they add to less. Of a pure plan: of the bound that is proven for it.)
    tables: how many tables it is about: more than 1 for a pattern of them, in :attr:`Plan.summaries`.
    """

    name: str
    numbers: int
    target: str
    confidence: float
    target_moe: float
    achieved_moe: float
    price: float
    tables: int = 1


@final
@dataclass(frozen=True)
class FiniteSummary:
    """What a plan promises for one question with finitely many answers.

    family: of its mechanism. results: how many there are. epsilon: what the answer costs one unit.
    rank_moe: of a median or quantile by ranks, in records: with a probability of `confidence` or more, the published
        value has at most this many records too many below it, and at most this many too few at or below it. Nothing
        else is promised of it, since all else depends on the data; of other answers None.
    hit_rate: the probability that the published answer is the true one, on average over the prior of the question.
    mae, rmse: mean absolute error and root mean squared error, on average over it; None where results are no numbers.
    moe: whatever the true answer is, the published one is within this of it with a probability of `confidence` or more
        (each of several counts by itself within it, all at once); None where results are no numbers.
    leakage: min-entropy leakage about the answer under the prior, in bits.
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


def said(kind: Kind, numbers: Floats) -> str:
    """A target in the words it was asked in: one number, or smallest to largest."""
    low, high = float(numbers.min()), float(numbers.max())
    text = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    return {
        Kind.MARGIN: f"±{text}",
        Kind.STD_ERROR: f"standard error {text}",
        Kind.VARIANCE: f"variance {text}",
        Kind.MAX_DEVIATION: f"all within ±{text}",
        Kind.CV: f"relative standard error {text}",
    }[kind]
