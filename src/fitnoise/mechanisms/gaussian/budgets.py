"""The cost of budgets that a publisher sets for tables of levels of places, for comparison with the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fitnoise.kernel.units import Neighbours
from fitnoise.mechanisms.gaussian.levels import problem
from fitnoise.request.publication import Goal, Publication
from fitnoise.request.workloads import levels_of_one_tree
from fitnoise.solving import budgets, trees
from fitnoise.solving.sectors import decompose

if TYPE_CHECKING:
    from fitnoise.mechanisms.tables import TablePart


def separate_budgets_rho(part: TablePart) -> dict[str, float]:
    """Return each ρ at which separate noise on each number is as accurate as a plan, by name; empty if none is known.

    As accurate means that the worst ratio of variance to target is that of the plan. The first entry is for the
    tables as they are. The other entries make the tables consistent by least squares, with budgets by the targets,
    equal budgets, and (up to MAX_TABLES tables) the best budgets. The comparison needs two or more levels of one
    tree of places, shown value by value, with targets for every number. It does not cover cell budgets and series.
    The neighbours add or remove a record, or all of a unit. Budgets are compared only if no other assumption
    separates records of a unit.

    Args:
        part: A part with Gaussian noise, from any planner.
    """
    request = part.publication
    if not _compared(request):
        return {}
    d = decompose(request.workload, by_level=True)
    tree = problem(request, d)
    # With one level there is nothing to divide a budget among.
    if len(np.unique(tree.level)) < 2:
        return {}
    rhos = {"tables on their own": part.separate_rho}
    if part.terms.distinct is None and part.terms.sets is None:
        # Relaxed targets make the noise larger and the cost smaller by the same factor, as for the plan.
        factor = part.terms.factor / (2 * part.relaxation)
        shares = {"by the targets": 1 / d.variances, "equal": np.ones(d.rows)}
        if d.rows <= budgets.MAX_TABLES:
            shares["the best there are"] = budgets.best(tree, d)
        costs = {name: factor * trees.separate_noise_cost(tree, d, weights) for name, weights in shares.items()}
        rhos |= {f"budgets {name}, then least squares": rho for name, rho in costs.items()}
    return rhos


def _compared(request: Publication) -> bool:
    is_simple = request.objective.goal is Goal.FIT_FOR_USE and request.cell_budgets is None and request.series is None
    is_simple = is_simple and request.unit.neighbours is Neighbours.ADD_OR_REMOVE_ONE
    return is_simple and bool(levels_of_one_tree(request.workload))
