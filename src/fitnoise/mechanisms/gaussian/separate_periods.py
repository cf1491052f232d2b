"""The saving of a joint plan for the periods of a series over separate plans. This module proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fitnoise.algebra.backends import one_thread
from fitnoise.mechanisms.gaussian.formulation import Formulation
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.reporting import Section
from fitnoise.solving import solver
from fitnoise.solving.certificates import RecordSets
from fitnoise.solving.costly_sets import CostlySets

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart

SOLVER_GAP = 1e-4
"""Gap of the solver for the cost of separate plans."""

CELLS = 128
"""The largest number of structured cells for which that cost is computed, which takes seconds."""


EQUIVALENT_COST_TOLERANCE = 1e-3
"""Relative excess cost of separate plans up to which the report calls them as good."""


def gained(part: TablePart) -> Section:
    """Return the section on the saving of a joint plan over one plan for each period."""
    rho, title = separate_periods_rho(part), Message("report.section.series")
    if rho is None:
        return Section(title, values=(Value("periods_rho", None),))
    separate_rho = Value("periods_rho", rho, ValueKind.COMPARED)
    if rho <= part.rho * (1 + EQUIVALENT_COST_TOLERANCE):
        return Section(title, (Message("report.series.equal_cost"),), (separate_rho,))
    times = Value("times", rho / part.rho, ValueKind.FACTOR)
    return Section(title, (Message("report.series.separate_cost", (separate_rho, times)),), (separate_rho,))


def separate_periods_rho(part: TablePart) -> float | None:
    """Return a lower bound on ρ of independent, optimal noise for each period, at the same targets.

    A period is a joint value of the structured attributes of the caps. Running totals and changes are then sums over
    periods. The bound covers only the sets of records in the plan's evidence and the first sets of the search. It is
    therefore at most the true cost. Return None if the terms or the evidence have no sets, or if the goal is not
    fit-for-use. Return None also under a budget, and above CELLS structured cells.
    """
    d, terms, sets = part.decomposition, part.terms, part.evidence.sets
    is_unrelaxed = part.publication.budget is None and terms.weights is None  # every target at its requested value
    if terms.sets is None or sets is None or not is_unrelaxed or d.cells > CELLS:
        return None
    initial = CostlySets(terms.sets).initial_sets()
    all_sets = RecordSets((*sets.cells, *initial), (*sets.agreements, *(True for _ in initial)))
    capped = {a for names, _ in part.publication.adjacency.pattern.caps for a in names}
    period = np.zeros(d.shape, dtype=np.intp)
    for a, n, index in zip(d.structured, d.shape, np.indices(d.shape), strict=True):
        period = period * n + index if a in capped else period
    with one_thread():
        solution = solver.solve(Formulation(d, terms, sets=all_sets).by_period(period.ravel()), gap=SOLVER_GAP)
    # The lower bound, so that the saving is not overstated.
    return solution.lower / 2
