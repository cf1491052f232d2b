"""The planners of tables, and the choice between them.

A new mechanism needs a folder, a line here, and a line in the list of mechanisms in the tests.
"""

from __future__ import annotations

from fitnoise.errors import PlanError
from fitnoise.kernel.units import Privacy
from fitnoise.mechanisms._base import Planner, SearchOptions
from fitnoise.mechanisms.gaussian.planning import LevelPlanner, PlacePlanner, ProductPlanner, SectorPlanner
from fitnoise.mechanisms.laplace.planning import LaplacePlanner
from fitnoise.mechanisms.projection.planning import ProjectionPlanner
from fitnoise.mechanisms.tables import TablePart
from fitnoise.messages import Message, english
from fitnoise.request.publication import Publication

PLANNERS: tuple[Planner, ...] = (
    LevelPlanner(),
    PlacePlanner(),
    ProductPlanner(),
    SectorPlanner(),
    LaplacePlanner(),
    ProjectionPlanner(),
)
"""The planners in order of preference: :func:`plan_tables` asks one after the other."""


def plan_tables(request: Publication, effort: SearchOptions) -> TablePart:
    """Return the part for tables, from the planner that they name.

    Without a name, it is the part of the first planner in :data:`PLANNERS` that supports the tables and keeps them. No
    parts are compared: a planner leaves tables to the next one by their size, or by the gap of its own part
    (:meth:`Planner.plan_if_preferred`).

    Raises:
        PlanError: No planner has this name, or the named planner, or without a name every planner, does not support the
            tables. Or no plan was found, or an option does not apply to the mechanism.
        WorkloadError: The tables cannot be planned.
    """
    name = request.mechanism
    if name is not None:
        return suitable_planner(name, request).plan(request, effort)
    for planner in PLANNERS:
        part = planner.plan_if_preferred(request, effort) if planner.supports(request) is None else None
        if part is not None:
            return part
    raise PlanError(
        "privacy-without-mechanism",
        f"No mechanism gives the privacy {Privacy(request.privacy).value!r} for these tables.",
        "",
        "Set privacy = 'zcdp', 'pure' or 'auto'.",
        "No plan was made.",
        place="privacy",
    )


def unsuitable(request: Publication) -> dict[str, Message]:
    """Return the reason against each mechanism that gives the privacy of the tables and does not support them."""
    reasons = {x.mechanism.name: x.supports(request) for x in PLANNERS if x.mechanism.privacy is request.privacy}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def planner_by_name(name: object) -> Planner:
    """Return the planner of the mechanism that a document names.

    Raises:
        PlanError: No mechanism has this name.
    """
    planners = {x.mechanism.name: x for x in PLANNERS}
    if not isinstance(name, str) or name not in planners:
        raise PlanError(
            "unknown-mechanism",
            f"fitnoise has no mechanism {name!r} for tables.",
            f"The mechanisms are {', '.join(map(repr, planners))}.",
            "Name one of them, or use the fitnoise version that made the plan.",
            "Nothing was planned or measured.",
            place="mechanism",
        )
    return planners[name]


def suitable_planner(name: object, request: Publication) -> Planner:
    """Return the planner of a mechanism that is named for tables, in a document or in their request.

    Raises:
        PlanError: No mechanism has this name, it does not support the tables, or the request names another one.
    """
    planner = planner_by_name(name)
    reason = planner.supports(request)
    if reason is not None or (request.mechanism or name) != name:
        why = f"the specification names {request.mechanism!r}" if reason is None else english(reason)
        raise PlanError(
            "mechanism-does-not-suit",
            f"The mechanism {name!r} does not suit the tables: {why}.",
            "",
            "Name another mechanism, or none, and plan again.",
            "Nothing was planned or measured.",
            place="mechanism",
        )
    return planner
