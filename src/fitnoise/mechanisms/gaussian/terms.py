"""What a publication minimises, in the letters of certificates, and how near an achieved accuracy comes."""

from __future__ import annotations

import math
from fractions import Fraction

from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.designs._base import Design
from fitnoise.request.publication import Goal, Publication
from fitnoise.solving.certificates import Apart, Terms
from fitnoise.solving.sectors import Decomposition


def terms(publication: Publication, decomposition: Decomposition) -> Terms:
    """What a publication minimises, in the letters of certificates."""
    objective, budgets = publication.objective, publication.cell_budgets
    weights = relative = None
    if objective.goal is not Goal.FIT_FOR_USE:
        weights = objective.weights.of(decomposition.variances) * decomposition.counted
    if budgets is not None:
        relative = budgets.along(publication.workload.domain, decomposition.structured)
    unit = publication.unit
    alone = publication.adjacency.drops or unit.max_records > 1 or unit.id is not None
    factor, apart = unit.cost_factor(), None
    if publication.adjacency.once_per:
        factor, apart = _apart(publication, decomposition)
    return Terms(weights, objective.trade, relative, factor, alone, apart)


def _apart(publication: Publication, d: Decomposition) -> tuple[int, Apart | None]:
    """What every strategy charges a unit of which no two records are alike in some attributes.

    Where one of these is measured by no table, as many records as it has values share a cell of all that is. Otherwise
    a single record, or sets of records where these attributes are all exchangeable.
    """
    domain, once = publication.domain, publication.adjacency.once_per
    measured = {domain.home(name) for name in (*d.exchangeable, *d.structured)}
    unseen = [domain[a].size for a in once if a not in measured]
    if unseen:
        return min(publication.unit.max_records, math.prod(unseen)) ** 2, None
    if not publication.adjacency.by_cell or not set(once) <= set(d.exchangeable):
        return 1, None
    positions = tuple(sorted(d.exchangeable.index(a) for a in once))
    cells = math.prod(d.sizes[i] for i in positions)
    return 1, Apart(positions, cells, min(publication.unit.max_records, cells))


def traded(asked: Terms, achieved: Floats) -> float:
    """λ Σ ω var of a hybrid, otherwise 0."""
    return 0.0 if asked.trade is None or asked.weights is None else asked.trade * float(asked.weights @ achieved)


def relaxation(decomposition: Decomposition, asked: Terms, achieved: Floats) -> float:
    """What achieved variances are of what was asked: of the worst target, or of the weighted total for total error."""
    if asked.weights is not None and asked.trade is None:
        return float(asked.weights @ achieved) / float(asked.weights @ decomposition.variances)
    return float((achieved / decomposition.variances).max())


def weighted_cost(publication: Publication, design: Design) -> Fraction:
    """Max_o g² prof_o / r_o, exact, for cell budgets r: twice the ρ that a budget limits. Without them, Δ² of the unit.

    Raises:
        PlanError: the design measures records whose budget is 0.
    """
    budgets = publication.cell_budgets
    axes, shares = ((), ()) if budgets is None else budgets.shares(publication.workload.domain)
    return 2 * design.loss(publication.adjacency).relative(axes, shares).rho
