"""The cost of a release without rules, compared with plans that use rules about impossible cells. No data.

The release of a plan without rules is valid with rules, too: its price over all cells is one over the possible cells.
A plan for the possible cells could cost less. The bound holds for all Gaussian plans for these cells with the same
targets, so it says how much less at most.

**Method.** The problem over the possible cells has classes of interchangeable values as structured cells
(:mod:`fitnoise.solving.class_sectors`), and the weights of its solver prove the bound
(:mod:`fitnoise.solving.certificates`). If the possible combinations of classes are too many, the bound is that of a box
of values in which all combinations are possible. Tables that are restricted to some cells need no more than the tables.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Indices
from fitnoise.kernel.units import Neighbours
from fitnoise.mechanisms.gaussian.planning import ideal
from fitnoise.mechanisms.tables import TablePart
from fitnoise.reading.impossible_cells import ImpossibleCells
from fitnoise.request.domain import Domain
from fitnoise.request.impossible_rules import Mask
from fitnoise.request.publication import Goal
from fitnoise.request.workloads import exchangeable_attributes, used_attributes
from fitnoise.solving.certificates import Certificate, ObjectiveTerms, lower_bound
from fitnoise.solving.class_sectors import decompose_by_class
from fitnoise.solving.sectors import Decomposition

MAX_POSSIBLE_COMBINATIONS = 256
"""The largest number of possible combinations of classes of a bound over all of them: it takes seconds."""

MAX_BOXES = 2**12
"""The largest number of boxes that the search for the largest one divides."""

BOUND_GAP = 1e-4
"""The gap of the solver: far below the gains of rules."""


def rule_certificate(part: TablePart, impossible: ImpossibleCells) -> Certificate | None:
    """Return Δ² of a plan without rules, and a bound on Δ² of every Gaussian plan for the possible cells.

    There is no bound for other mechanisms, objectives and neighbours, and for series, budgets and patterns. Nor is
    there one for public totals, joint axes and explicit queries, and for too many structured cells. The result is then
    None.

    Args:
        part: The tables, planned without the rules.
        impossible: The rules.
    """
    request, domain = part.publication, part.publication.domain
    is_plain = part.mechanism.optimal and request.objective.goal is Goal.FIT_FOR_USE and request.budget is None
    has_settings = (
        request.cell_budgets is not None
        or request.series is not None
        or request.public_attributes is not None
        or bool(domain.axes.joint)
        or bool(request.adjacency.pattern)
        or request.unit.neighbours is not Neighbours.ADD_OR_REMOVE_ONE
        or any(t.matrix is not None for t in request.workload.tables)
    )
    if not is_plain or has_settings:
        return None
    free, _ = exchangeable_attributes(request.workload, request.structured_attributes)
    ruled = [a for a in free if a in impossible.attributes and domain[a].tree is None]
    classes = {a: impossible.classes(a) for a in ruled}
    separate = {a for a in used_attributes(request.workload) if domain.attribute_of(a) in impossible.attributes}
    try:
        d = _decomposed(part, impossible, classes, separate)
    except WorkloadError:
        return None
    if d.cells > MAX_POSSIBLE_COMBINATIONS:
        return None
    terms = ObjectiveTerms(factor=request.adjacency.records**2)
    solution = ideal(d, terms, request, goal=BOUND_GAP)
    return Certificate(float(part.exact_cost), lower_bound(d, solution.evidence, terms))


def _decomposed(
    part: TablePart, impossible: ImpossibleCells, classes: Mapping[str, Indices], separate: set[str]
) -> Decomposition:
    """Return the tables over the possible cells; over a box of them if the combinations of classes are too many.

    Raises:
        WorkloadError: There are too many structured cells.
    """
    request, others = part.publication, sorted(separate - classes.keys())

    def over_possible(labels: Mapping[str, Indices], is_possible: Callable[[Sequence[str]], Mask]) -> Decomposition:
        settings = [*others, *request.structured_attributes]
        return decompose_by_class(request.workload, labels, settings, is_possible)

    possible = impossible.possible_among(request.domain, list(classes), classes)
    if others or possible.sum() <= MAX_POSSIBLE_COMBINATIONS:
        return over_possible(classes, lambda axes: impossible.possible_among(request.domain, axes, classes))
    counts = [np.bincount(labels) for labels in classes.values()]
    box = largest_box(possible.reshape([len(n) for n in counts]), counts)
    # Of two classes, the values outside and those in the box, one combination remains.
    inside = {a: np.isin(labels, x).astype(np.intp) for (a, labels), x in zip(classes.items(), box, strict=True)}
    return over_possible(inside, lambda axes: _box_mask(request.domain, axes, inside))


def _box_mask(domain: Domain, axes: Sequence[str], inside: Mapping[str, Indices]) -> Mask:
    """Return True for the joint cells of some axes that lie in a box, in C order.

    inside: For each attribute of the box, 1 for the values in the box and 0 for all others.
    """
    out = np.ones(1, dtype=bool)
    for a in axes:
        mask = np.arange(2) == 1 if a in inside else np.ones(domain.sizes[a], dtype=bool)
        out = np.logical_and.outer(out, mask).ravel()
    return out


def largest_box(possible: Mask, counts: Sequence[Indices]) -> tuple[tuple[int, ...], ...]:
    """Return classes of each attribute, all of whose combinations are possible, with the most joint values.

    After `MAX_BOXES` boxes the search ends, with the possible combination that has the most joint values.

    Args:
        possible: True for the possible combinations of classes; at least one.
        counts: The number of values of each class, for each attribute.
    """

    def volume(box: tuple[tuple[int, ...], ...]) -> int:
        return math.prod(int(n[list(x)].sum()) for n, x in zip(counts, box, strict=True))

    start = tuple(tuple(range(len(n))) for n in counts)
    heap, seen = [(-volume(start), start)], {start}
    # The largest box comes first, and boxes within it are smaller.
    for _, box in (heapq.heappop(heap) for _ in range(MAX_BOXES)):
        excluded = np.argwhere(~possible[np.ix_(*box)])
        if not len(excluded):
            return box
        # An impossible combination leaves the box with its class of some attribute.
        for axis, i in enumerate(excluded[0].tolist()):
            smaller = (*box[:axis], (*box[axis][:i], *box[axis][i + 1 :]), *box[axis + 1 :])
            if smaller[axis] and smaller not in seen:
                seen.add(smaller)
                heapq.heappush(heap, (-volume(smaller), smaller))
    cells = (tuple((i,) for i in cell) for cell in np.argwhere(possible).tolist())
    return max(cells, key=volume)
