"""Quantiles by ranks: the mechanism for an ε, and the margin of its answers for any data."""

from __future__ import annotations

from fractions import Fraction

from fitnoise.kernel.designs.graphs import QueryGraph
from fitnoise.kernel.designs.implicit_mechanisms import alpha_just_above
from fitnoise.kernel.designs.ranks import RankMechanism, RankScores
from fitnoise.kernel.exact_powers import rational
from fitnoise.request.targets import checked_confidence

# The rest covers the rounding of α and of the weights, with a reserve.
_EPSILON_FRACTION = 1 - Fraction(1, 2**40)
"""Part of ε for which α is computed."""


def by_ranks(graph: QueryGraph, epsilon: float | Fraction, ranks: RankScores) -> RankMechanism:
    """Return the mechanism that draws a value in proportion to e^(−ε u / (2 step)), u its score.

    The score is the distance from the quantile, in parts 1/s of a record (:class:`RankScores`). `step` is the largest
    change of a score by one record.

    Raises:
        PlanError: The mechanism is refused as in :class:`RankMechanism`.
        WorkloadError: ε is out of range.
    """
    exact = rational(epsilon)
    return RankMechanism(graph, exact, ranks, alpha_just_above(exact * _EPSILON_FRACTION / (2 * ranks.step)))


def rank_margin(mechanism: RankMechanism, confidence: float) -> Fraction:
    """Return the smallest h, in records, that is proven here for data of any number of records.

    h is a multiple of 1/s, for s the denominator of the quantile's level q. The question has m values.

    With a probability of at least `confidence` the answer has at most qn + h of n records below it, and at least qn − h
    at or below it: with h records more or less it would be the quantile.

    Raises:
        WorkloadError: The confidence is out of range.

    **Guarantees**
        * P(u > k) ≤ (m − 1) w_(k+1) / (w_0 + (m − 1) w_(k+1)). Here u is the score of the answer, and w_k the weight of
          each value of score k. A value with u = 0 has the weight w_0. Of the other m − 1 values, those with u > k have
          at most w_(k+1), and rounding down lowers these weights alone.
        * Data with all records at one end attain the bound, up to rounding, if k + 1 is a score of theirs.
    """
    missed = 1 - Fraction(checked_confidence(confidence))
    levels, others = mechanism.levels, mechanism.graph.n - 1
    # Integers and fractions: a float could accept a k whose bound is just above the limit.
    enough = (k for k, w in enumerate(levels[1:]) if others * w <= missed * (levels[0] + others * w))
    return Fraction(next(enough, mechanism.ranks.largest), mechanism.ranks.level.denominator)
