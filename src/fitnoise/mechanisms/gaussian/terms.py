"""The objective of a publication, in the letters of certificates, and the distance of achieved accuracy from it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.designs._base import Design
from fitnoise.request.publication import Goal, Publication
from fitnoise.solving.certificates import AdmissibleSets, DistinctRecords, ObjectiveTerms
from fitnoise.solving.sectors import Decomposition


def terms(publication: Publication, decomposition: Decomposition) -> ObjectiveTerms:
    """Return the objective of a publication, in the letters of certificates."""
    objective, budgets = publication.objective, publication.cell_budgets
    weights = relative = None
    if objective.goal is not Goal.FIT_FOR_USE:
        weights = objective.weights.for_targets(decomposition.variances) * decomposition.numbers_per_row
    if budgets is not None:
        relative = budgets.for_structured_cells(publication.workload.domain, decomposition.structured)
    unit = publication.unit
    alone = publication.adjacency.drops or unit.max_records > 1 or unit.id is not None
    along = _record_sets(publication, decomposition)
    if along is not None:
        return ObjectiveTerms(weights, objective.trade, relative, along[0], alone, sets=along[1])
    factor, apart = _set_factors(publication, decomposition)
    return ObjectiveTerms(weights, objective.trade, relative, factor, alone, apart)


def _record_sets(publication: Publication, d: Decomposition) -> tuple[int, AdmissibleSets] | None:
    """Return k² for k records in each cell, and the sets of records of one unit that differ by structured attributes.

    A cap of one record separates records if it is shown in full, along structured attributes only. For any other cap,
    sets have no more records than agree in it. Without such a cap of one, but with one cap of several records, each
    cell has as many as the cap allows. Return None if the caps are on exchangeable attributes only, or on attributes
    that no table shows.
    """
    of, axes = publication.adjacency, (*d.exchangeable, *d.structured)
    found = [(*of.shared_axes(axes, names), names, most) for names, most in of.pattern.caps]
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
    for a in of.shared_axes(d.structured, of.pattern.fixed)[0]:
        together &= at[a][:, None] == at[a]
    place = {a: x for x, a in enumerate(d.exchangeable)}
    fixed = tuple(sorted(place[a] for a in of.shared_axes(d.exchangeable, of.pattern.fixed)[0]))
    return (k**2, AdmissibleSets(together, most, fixed, d.sizes)) if most > 1 else None


def _set_factors(publication: Publication, d: Decomposition) -> tuple[int, DistinctRecords | None]:
    """Return the least charge of every strategy: k² for k records in one cell, and sets of them in different cells.

    Without caps, all g records are in one cell. Suppose that a cap allows k records in a joint cell of some attributes,
    and nothing else separates them. Then k records are in one cell, times the cells of those attributes that no table
    shows. Sets of such records in different cells are known if the attributes of the cap are all exchangeable. In all
    other cases, the charge is that of a single record.
    """
    of, axes = publication.adjacency, (*d.exchangeable, *d.structured)
    pattern, best = of.pattern, 1
    if not pattern.caps:
        return of.records**2, None
    for i, (names, most) in enumerate(pattern.caps):
        measured, alike = of.shared_axes(axes, names)
        far = any(n > 1 for _, n in pattern.separation) and (len(pattern.caps) > 1 or bool(measured))
        if far or alike is None or not set(measured) <= set(names):
            continue  # This cap gives no bound: a separation rules out some sets, or a place's number of cells varies.
        total = min([of.records, *(n for j, (_, n) in enumerate(pattern.caps) if j != i)])
        k = min(most * alike, total)
        if measured and of.by_cell and set(measured) <= set(d.exchangeable):
            place = {a: x for x, a in enumerate(d.exchangeable)}
            along = tuple(sorted(place[a] for a in measured))
            fixed = tuple(sorted(place[a] for a in of.shared_axes(d.exchangeable, pattern.fixed)[0]))
            cells = math.prod(d.sizes[x] for x in along)
            return k**2, DistinctRecords(along, cells, min(total // k, cells), fixed)
        best = max(best, k**2)
    return best, None


def traded(terms: ObjectiveTerms, achieved: Floats) -> float:
    """Return λ Σ ω var for a hybrid objective, otherwise 0."""
    return 0.0 if terms.trade is None or terms.weights is None else terms.trade * float(terms.weights @ achieved)


def relaxation(decomposition: Decomposition, terms: ObjectiveTerms, achieved: Floats) -> float:
    """Return the ratio of achieved variances to targets: the worst one, or that of the totals for total error."""
    if terms.weights is not None and terms.trade is None:
        return float(terms.weights @ achieved) / float(terms.weights @ decomposition.variances)
    return float((achieved / decomposition.variances).max())


def weighted_cost(publication: Publication, design: Design) -> Fraction:
    """Return max_o g² prof_o / r_o, exact, for cell budgets r: twice the ρ that a budget limits.

    Without cell budgets it is Δ² of the unit.

    Raises:
        PlanError: The design measures records whose budget is 0.
    """
    budgets = publication.cell_budgets
    axes, shares = ((), ()) if budgets is None else budgets.shares(publication.workload.domain)
    return 2 * design.loss(publication.adjacency).relative_to_budgets(axes, shares).rho
