"""Margins of error under Laplace noise: exact sums of independent draws."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from fitnoise.kernel.arrays import Floats
from fitnoise.mechanisms.laplace import laplace_sums
from fitnoise.mechanisms.laplace.estimate import PureEstimation
from fitnoise.mechanisms.terms import relaxation
from fitnoise.request.targets import TargetKind, z_score
from fitnoise.request.workloads import Table, Workload
from fitnoise.solving.certificates import ObjectiveTerms
from fitnoise.solving.sectors import TableGroup

DISCRETE_TAIL_RESERVE = 1e-3
"""Part of a tail reserved for the excess of discrete noise, if intervals of many numbers must hold jointly."""


def pure_margins(
    estimation: PureEstimation, group: TableGroup, i: int, confidence: float, row: int | None = None
) -> Floats:
    """Return half-widths of intervals for every row of the i-th of some tables, or for one row."""
    coefficients, counts = estimation.coefficients(group, i)
    # All numbers of a row have one distribution of noise, so one row of coefficients serves them.
    chosen = coefficients if row is None else coefficients[row : row + 1]
    return laplace_sums.half_width(chosen, estimation.strategy.scale, confidence, counts)


def target_margins(
    workload: Workload, estimation: PureEstimation, group: TableGroup, i: int, table: Table
) -> tuple[Floats, Floats] | None:
    """Return, for a target that is a margin or a maximal deviation, the target and reached half-width of each row.

    Return None for other targets.

    All of k numbers stay within ±m at γ if each does at γ^(1/k). *Proof* for continuous noise: exponential variances
    mix normals into Laplace noise. Given these variances, all numbers are jointly normal (Šidák). All probabilities
    fall with each variance, so they are associated. Discrete noise is continuous noise less an independent W with
    |W| < 1 (`laplace_sums`). Each number exceeds its half-width with a probability that is too large by a factor of at
    most 1 + 1/(12t). `DISCRETE_TAIL_RESERVE` of each tail is more than that for t ≥ 2¹⁴ and γ of 1 % to 1 − 1e-12. ∎
    """
    if table.target.kind not in (TargetKind.MARGIN, TargetKind.MAX_DEVIATION):
        return None
    gamma = table.target.level(workload.confidence)
    half_widths = z_score(gamma) * np.sqrt(group.variances[i])
    if table.target.kind is TargetKind.MAX_DEVIATION:
        # 1 − γ^(1/k), without cancellation for a large k.
        tail = -math.expm1(math.log(gamma) / math.prod(table.shape(workload.domain)))
        half_widths = -ndtri(tail / 2) * np.sqrt(group.variances[i])
        gamma = 1 - tail * (1 - DISCRETE_TAIL_RESERVE)
    return half_widths, pure_margins(estimation, group, i, gamma)


def pure_relaxation(workload: Workload, terms: ObjectiveTerms, estimation: PureEstimation, achieved: Floats) -> float:
    """Return the largest ratio of variances, and for fit-for-use targets of squared margins, to the targets."""
    ratio = relaxation(estimation.decomposition, terms, achieved)
    # A total error has no margins that must hold one by one.
    return ratio if terms.weights is not None else max(ratio, margin_relaxation(workload, estimation))


def margin_relaxation(workload: Workload, estimation: PureEstimation) -> float:
    """Return the largest squared margin over its target, among margins and maximal deviations; 0 without any."""
    worst = 0.0
    for group in estimation.decomposition.tables:
        for i, t in enumerate(group.tables.tolist()):
            margins = target_margins(workload, estimation, group, i, workload.tables[t])
            if margins is not None:
                worst = max(worst, float((margins[1] / margins[0]).max()) ** 2)
    return worst
