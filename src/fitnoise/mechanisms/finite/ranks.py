"""Quantiles by ranks: the mechanism for an ε, and how far off its answers can be, whatever the data."""

from __future__ import annotations

from fractions import Fraction

from fitnoise.kernel.designs.graphs import QueryGraph
from fitnoise.kernel.designs.lazy import alpha_just_above
from fitnoise.kernel.designs.ranks import RankMechanism, Ranks
from fitnoise.kernel.exact import rational
from fitnoise.request.targets import checked_confidence

_KEPT = 1 - Fraction(1, 2**40)
"""Part of ε that α is made for; the rest pays for rounding, with room to spare."""


def by_ranks(graph: QueryGraph, epsilon: float | Fraction, ranks: Ranks) -> RankMechanism:
    """A value of the graph in proportion to e^(−ε u / (2 step)), u what it lacks to be the quantile.

    Raises:
        PlanError: as :class:`RankMechanism`.
        WorkloadError: ε is no number of its range.
    """
    exact = rational(epsilon)
    return RankMechanism(graph, exact, ranks, alpha_just_above(exact * _KEPT / (2 * ranks.step)))


def rank_margin(mechanism: RankMechanism, confidence: float) -> Fraction:
    """The smallest h, a multiple of 1/s, that is proven here for data of any number of records, in records.

    With at least this probability the answer has at most qn + h of n records below it, and at least qn − h at or below
    it: h records more or less would make it the quantile.

    Raises:
        WorkloadError: the confidence is none.

    **Guarantees**
        * a value with u = 0 has the level w_0, and of the other m − 1 those with u > k have at most w_(k+1); rounding
          down takes from them alone. So P(u > k) ≤ (m − 1) w_(k+1) / (w_0 + (m − 1) w_(k+1)), which data with all
          records at one end attain, but for rounding, where k + 1 is a score of theirs.
    """
    missed = 1 - Fraction(checked_confidence(confidence))
    levels, others = mechanism.levels, mechanism.graph.n - 1
    enough = (k for k, w in enumerate(levels[1:]) if others * w <= missed * (levels[0] + others * w))
    return Fraction(next(enough, mechanism.ranks.largest), mechanism.ranks.at.denominator)
