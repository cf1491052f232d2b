"""The objective of a publication, in the letters of certificates, and the distance of achieved accuracy from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.kernel.designs._base import Design
from fitnoise.request.publication import Goal, Publication
from fitnoise.request.workloads import Table, Workload
from fitnoise.solving.certificates import AdmissibleSets, DistinctRecords, ObjectiveTerms
from fitnoise.solving.sectors import Decomposition


def terms(publication: Publication, decomposition: Decomposition) -> ObjectiveTerms:
    """Return the objective of a publication, in the letters of certificates."""
    objective, budgets = publication.objective, publication.cell_budgets
    weights = relative = None
    if objective.goal is not Goal.FIT_FOR_USE:
        # A row stands for several published numbers of equal variance, so it weighs as many times.
        weights = objective.weights.for_targets(decomposition.variances) * decomposition.numbers_per_row
    if budgets is not None:
        relative = budgets.for_structured_cells(publication.workload.domain, decomposition.structured)
    allows_add_or_remove = len(publication.adjacency.step_relations) > 1
    held = decomposition.public if publication.unit.within else None
    set_terms = _record_sets(publication, decomposition)
    if set_terms is not None:
        return ObjectiveTerms(
            weights, objective.total_error_weight, relative, set_terms[0], allows_add_or_remove, sets=set_terms[1]
        )
    factor, distinct_records = _set_factors(publication, decomposition)
    return ObjectiveTerms(
        weights, objective.total_error_weight, relative, factor, allows_add_or_remove, distinct_records, held=held
    )


def _record_sets(publication: Publication, d: Decomposition) -> tuple[int, AdmissibleSets] | None:
    """Return k² for k records in each cell, and the sets of records of one unit that differ by structured attributes.

    A cap of one record separates records if it is shown in full, along structured attributes only. Sets have no more
    records than any other cap allows. Without such a cap of one, but with one cap of several records, each cell has as
    many as the cap allows. Return None if no cap is shown in full along structured attributes only, or if there
    are several caps and none of one separates. Return None also if sets have one record only. Return None if the
    pattern has an attribute of a joint axis by which these tables do not count.

    Where records are replaced, the sets have records that are added and others that are removed. Both keep to the
    pattern, and either may be none.
    """
    adjacency, indices = publication.adjacency, _positions(publication, d)
    axes = (*d.exchangeable, *indices)
    caps = [(*adjacency.shared_axes(axes, names), names, limit) for names, limit in adjacency.pattern.caps]
    flags = [bool(a) and set(a) <= indices.keys() and set(a) == set(names) for a, _, names, _ in caps]
    sharp = [a for (a, _, _, limit), is_shown in zip(caps, flags, strict=True) if is_shown and limit == 1]
    if not any(flags) or not (sharp or len(caps) == 1) or _is_partial(publication, axes):
        return None
    others = [limit for (_, _, _, limit), is_shown in zip(caps, flags, strict=True) if not (is_shown and limit == 1)]
    k = 1 if sharp else min(others[0], adjacency.records)
    limit = min([adjacency.records, *others]) if sharp else adjacency.records // k
    compatible = np.ones((d.cells, d.cells), dtype=bool)
    for names in sharp or [caps[0][0]]:
        # Records of one unit in different cells differ in some attribute of each such cap.
        compatible &= np.any([indices[a][:, None] != indices[a] for a in names], axis=0)
    for a, min_distance in adjacency.pattern.separation:
        compatible &= abs(indices[a][:, None] - indices[a]) >= min_distance if a in indices else True
    for a in adjacency.shared_axes(indices, adjacency.pattern.fixed)[0]:
        compatible &= indices[a][:, None] == indices[a]
    positions = {a: x for x, a in enumerate(d.exchangeable)}
    fixed = tuple(sorted(positions[a] for a in adjacency.shared_axes(d.exchangeable, adjacency.pattern.fixed)[0]))
    if limit < 2:
        return None
    if adjacency.by_cell:
        return k**2, AdmissibleSets(compatible, limit, fixed, d.sizes)
    meet = np.ones_like(compatible)
    if len(fixed) == len(d.sizes):
        # Two equal records, one of them added and one removed, change nothing.
        np.einsum("ii->i", meet)[:] = False
    both = np.block([[compatible, meet], [meet, compatible]])
    return k**2, AdmissibleSets(both, limit, fixed, d.sizes, parts=2)


def _set_factors(publication: Publication, d: Decomposition) -> tuple[int, DistinctRecords | None]:
    """Return a least charge of every strategy: k² for k records in one cell, and sets of them in different cells.

    Without caps, all g records are in one cell. Suppose that a cap allows k records in a joint cell of some attributes,
    and nothing else separates them. Then k records are in one cell, times the cells of those attributes that no table
    shows. Sets of such records in different cells are known if the shown attributes of the cap are all exchangeable.
    Otherwise the largest k of a cap counts. In all other cases, the charge is that of a single record. It is also if
    the pattern has an attribute of a joint axis by which these tables do not count.
    """
    adjacency, axes = publication.adjacency, (*d.exchangeable, *_positions(publication, d))
    pattern, best = adjacency.pattern, 1
    # Without caps all records of a unit can be equal, and the charge grows with the square of their number.
    if not pattern.caps:
        return adjacency.records**2, None
    if _is_partial(publication, axes):
        return 1, None
    for i, (names, max_records) in enumerate(pattern.caps):
        measured, cells_each = adjacency.shared_axes(axes, names)
        has_separation = any(n > 1 for _, n in pattern.separation) and (len(pattern.caps) > 1 or bool(measured))
        if has_separation or cells_each is None or not set(measured) <= set(names):
            continue  # This cap gives no bound: a separation rules out some sets, or a place's number of cells varies.
        total = min([adjacency.records, *(n for j, (_, n) in enumerate(pattern.caps) if j != i)])
        k = min(max_records * cells_each, total)
        if measured and adjacency.by_cell and set(measured) <= set(d.exchangeable):
            positions = {a: x for x, a in enumerate(d.exchangeable)}
            measured_axes = tuple(sorted(positions[a] for a in measured))
            fixed = tuple(sorted(positions[a] for a in adjacency.shared_axes(d.exchangeable, pattern.fixed)[0]))
            cells = math.prod(d.sizes[x] for x in measured_axes)
            count = min(-(-total // k), cells)
            last = min(total - (count - 1) * k, k) / k
            return k**2, DistinctRecords(measured_axes, cells, count, fixed, last)
        best = max(best, k**2)
    return best, None


def _positions(publication: Publication, d: Decomposition) -> dict[str, Indices]:
    """Return the position of every structured cell along each attribute that it determines, by name."""
    return d.cell_structure.positions(publication.adjacency.grid)


def _is_partial(publication: Publication, axes: Sequence[str]) -> bool:
    """Return True if the pattern has an attribute of a joint axis, and this attribute lies along none of the axes.

    Then the other attributes of the joint axis restrict its cells, and sets of records that differ may not exist.
    """
    domain = publication.domain.axes
    missing = publication.adjacency.pattern.names.difference(map(domain.attribute_of, axes))
    return any(not missing.isdisjoint(domain.attributes_of(name)) for name in domain.joint)


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
    # From the integers and in fractions: the solver's own cost is never charged.
    return 2 * design.loss(publication.adjacency).relative_to_budgets(axes, shares).rho


def target_ratios(workload: Workload, table: Table) -> tuple[int, Floats] | None:
    """Return the position in a table of the attribute along which its targets vary, and their ratios to the tightest.

    Return None for a table with one target.
    """
    if table.target.attribute is None:
        return None
    targets = table.variances(workload.domain, workload.confidence)
    axis = table.attributes.index(table.target.attribute)
    # Targets vary along one attribute only, so one line of them has all their values.
    axis_targets = targets[tuple(slice(None) if i == axis else 0 for i in range(targets.ndim))]
    return axis, np.asarray(axis_targets / axis_targets.min())
