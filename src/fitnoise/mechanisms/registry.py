"""The planners of tables by the name of their mechanism.

A new mechanism needs a folder, a line here, and a line in the list of mechanisms in the tests.
"""

from __future__ import annotations

from fitnoise.errors import PlanError
from fitnoise.kernel.units import Privacy
from fitnoise.mechanisms._base import Planner
from fitnoise.mechanisms.gaussian.planning import LevelPlanner, PlacePlanner, ProductPlanner, SectorPlanner
from fitnoise.mechanisms.laplace.planning import LaplacePlanner
from fitnoise.mechanisms.projection.planning import ProjectionPlanner
from fitnoise.request.publication import Publication

PLANNERS: dict[str, Planner] = {
    x.mechanism.name: x
    for x in (
        SectorPlanner(),
        LevelPlanner(),
        PlacePlanner(),
        ProductPlanner(),
        LaplacePlanner(),
        ProjectionPlanner(),
    )
}


def planner_for(request: Publication) -> Planner:
    """Return the default planner for a publication of tables; it may choose another form of the design.

    Raises:
        PlanError: Not exactly one planner is the default for these tables.
    """
    defaults = [x for x in PLANNERS.values() if x.is_default and x.supports(request)]
    if len(defaults) != 1:
        raise PlanError(
            "privacy-without-mechanism",
            f"No mechanism gives the privacy {Privacy(request.privacy).value!r} for these tables.",
            "",
            "Set privacy = 'zcdp', 'pure' or 'auto'.",
            "No plan was made.",
            place="privacy",
        )
    return defaults[0]


def planner_by_name(name: object) -> Planner:
    """Return the planner of the mechanism that a document names.

    Raises:
        PlanError: No mechanism has this name.
    """
    if not isinstance(name, str) or name not in PLANNERS:
        raise PlanError(
            "unknown-mechanism",
            f"The plan names the mechanism {name!r} for tables, which fitnoise does not have.",
            f"The mechanisms are {', '.join(map(repr, PLANNERS))}.",
            "Use the fitnoise version that made the plan, or plan again.",
            "Nothing was measured.",
        )
    return PLANNERS[name]
