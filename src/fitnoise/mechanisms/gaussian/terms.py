"""What a publication minimises, in the letters of certificates, and how near an achieved accuracy comes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.designs._base import Design
from fitnoise.request.publication import Goal, Publication
from fitnoise.solving.certificates import Admissible, Apart, Terms
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
    along = _along(publication, decomposition)
    if along is not None:
        return Terms(weights, objective.trade, relative, along[0], alone, sets=along[1])
    factor, apart = _together(publication, decomposition)
    return Terms(weights, objective.trade, relative, factor, alone, apart)


def _along(publication: Publication, d: Decomposition) -> tuple[int, Admissible] | None:
    """Which sets of records one unit can have that differ by structured attributes, and k² for k records in each cell.

    Caps of one record that are shown in full, along structured attributes alone, keep records apart there; of any other
    no more are told of than may be alike in it. Where there is none, but one cap of several records, each cell has as
    many as it may. None where all that is known is told by exchangeable attributes, or by no attribute that is shown.
    """
    of, axes = publication.adjacency, (*d.exchangeable, *d.structured)
    found = [(*of.along(axes, names), names, most) for names, most in of.pattern.caps]
    shown = [bool(a) and set(a) <= set(d.structured) and set(a) == set(names) for a, _, names, _ in found]
    sharp = [a for (a, _, _, most), whole in zip(found, shown, strict=True) if whole and most == 1]
    if not of.by_cell or not any(shown) or not (sharp or len(found) == 1):
        return None
    others = [most for (_, _, _, most), whole in zip(found, shown, strict=True) if not (whole and most == 1)]
    k = 1 if sharp else min(others[0], of.records)
    most = min([of.records, *others]) if sharp else of.records // k
    at = dict(zip(d.structured, np.indices(d.shape).reshape(len(d.shape), -1), strict=True))
    together = np.ones((d.cells, d.cells), dtype=bool)
    for names in sharp or [found[0][0]]:
        together &= np.any([at[a][:, None] != at[a] for a in names], axis=0)
    for a, far in of.pattern.separation:
        together &= abs(at[a][:, None] - at[a]) >= far if a in at else True
    for a in of.along(d.structured, of.pattern.fixed)[0]:
        together &= at[a][:, None] == at[a]
    place = {a: x for x, a in enumerate(d.exchangeable)}
    fixed = tuple(sorted(place[a] for a in of.along(d.exchangeable, of.pattern.fixed)[0]))
    return (k**2, Admissible(together, most, fixed, d.sizes)) if most > 1 else None


def _together(publication: Publication, d: Decomposition) -> tuple[int, Apart | None]:
    """What every strategy charges at least: for k records in one cell k², and for sets of such in different cells.

    All g are in one cell where nothing keeps them apart. Where at most so many have a joint cell of some attributes in
    common, and nothing else keeps them apart, so many are; times the cells of those that no table shows. Sets of them
    are known in different cells of attributes that are all exchangeable. Otherwise a single record is.
    """
    of, axes = publication.adjacency, (*d.exchangeable, *d.structured)
    pattern, best = of.pattern, 1
    if not pattern.caps:
        return of.records**2, None
    for i, (names, most) in enumerate(pattern.caps):
        measured, alike = of.along(axes, names)
        far = any(n > 1 for _, n in pattern.separation) and (len(pattern.caps) > 1 or bool(measured))
        if far or alike is None or not set(measured) <= set(names):
            continue  # not all sets are there, or not in all places alike
        total = min([of.records, *(n for j, (_, n) in enumerate(pattern.caps) if j != i)])
        k = min(most * alike, total)
        if measured and of.by_cell and set(measured) <= set(d.exchangeable):
            place = {a: x for x, a in enumerate(d.exchangeable)}
            along = tuple(sorted(place[a] for a in measured))
            fixed = tuple(sorted(place[a] for a in of.along(d.exchangeable, pattern.fixed)[0]))
            cells = math.prod(d.sizes[x] for x in along)
            return k**2, Apart(along, cells, min(total // k, cells), fixed)
        best = max(best, k**2)
    return best, None


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
