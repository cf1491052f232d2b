"""Margins of error under Laplace noise: exact sums of independent draws."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from fitnoise.kernel.arrays import Floats
from fitnoise.mechanisms.gaussian.terms import relaxation
from fitnoise.mechanisms.laplace import laplace_sums
from fitnoise.mechanisms.laplace.estimate import PureEstimation
from fitnoise.request.targets import Kind, z_score
from fitnoise.request.workloads import Table, Workload
from fitnoise.solving.certificates import Terms
from fitnoise.solving.sectors import TableGroup

SLIGHTLY = 1e-3
"""Part of a tail kept back for what discrete noise adds to it, where intervals of many numbers are to hold at once."""


def pure_margins(
    estimation: PureEstimation, group: TableGroup, i: int, confidence: float, row: int | None = None
) -> Floats:
    """Half-widths of intervals for every row of the i-th of some tables, or for one: exact sums of Laplace noise."""
    coefficients, counts = estimation.coefficients(group, i)
    chosen = coefficients if row is None else coefficients[row : row + 1]
    return laplace_sums.half_width(chosen, estimation.strategy.scale, confidence, counts)


def asked_margins(
    workload: Workload, estimation: PureEstimation, group: TableGroup, i: int, table: Table
) -> tuple[Floats, Floats] | None:
    """For a table whose target is a margin or a maximal deviation: per row the half-width asked, and the one reached.

    That all of k numbers stay within ±m at γ follows when each does at γ^(1/k). *Proof* for continuous noise: given the
    exponential variances that mix normals into it, all numbers are jointly normal (Šidák), and all chances fall with
    each of these variances, so that they are associated. Discrete noise is continuous noise less a W of |W| < 1 that is
    independent of it (`laplace_sums`): for its half-widths each number exceeds them with a chance that is too large by
    1/(12t) of itself at most, and `SLIGHTLY` of each tail is more than that for t ≥ 2¹⁴ and γ of 1 % to 1 − 1e-12. ∎
    """
    if table.target.kind not in (Kind.MARGIN, Kind.MAX_DEVIATION):
        return None
    gamma = table.target.level(workload.confidence)
    asked = z_score(gamma) * np.sqrt(group.variances[i])
    if table.target.kind is Kind.MAX_DEVIATION:
        tail = -math.expm1(math.log(gamma) / math.prod(table.shape(workload.domain)))
        asked = -ndtri(tail / 2) * np.sqrt(group.variances[i])
        gamma = 1 - tail * (1 - SLIGHTLY)
    return asked, pure_margins(estimation, group, i, gamma)


def pure_relaxation(workload: Workload, asked: Terms, estimation: PureEstimation, achieved: Floats) -> float:
    """What variances, and for fit-for-use margins squared, are of what was asked: the worst of both."""
    reached = relaxation(estimation.decomposition, asked, achieved)
    return reached if asked.weights is not None else max(reached, margin_relaxation(workload, estimation))


def margin_relaxation(workload: Workload, estimation: PureEstimation) -> float:
    """The largest squared margin over the one asked, where margins or maximal deviations were asked; 0 without any."""
    worst = 0.0
    for group in estimation.decomposition.tables:
        for i, t in enumerate(group.tables.tolist()):
            margins = asked_margins(workload, estimation, group, i, workload.tables[t])
            if margins is not None:
                worst = max(worst, float((margins[1] / margins[0]).max()) ** 2)
    return worst
