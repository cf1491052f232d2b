"""The mechanisms by name.

A new mechanism needs a folder, a line here, and a line in the list of mechanisms in the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from fitnoise.errors import PlanError
from fitnoise.kernel.units import Privacy
from fitnoise.mechanisms._base import SearchOptions, TableMechanism
from fitnoise.mechanisms.gaussian import planning as gaussian
from fitnoise.mechanisms.gaussian.levels import LEVELS
from fitnoise.mechanisms.gaussian.mechanism import GAUSSIAN
from fitnoise.mechanisms.gaussian.places import PLACES
from fitnoise.mechanisms.gaussian.product_form import PRODUCTS
from fitnoise.mechanisms.laplace import planning as laplace
from fitnoise.mechanisms.laplace.mechanism import LAPLACE
from fitnoise.mechanisms.projection import planning as projection
from fitnoise.mechanisms.projection.mechanism import PROJECTION
from fitnoise.mechanisms.tables import TablePart
from fitnoise.request.publication import Publication


@final
@dataclass(frozen=True)
class RegisteredMechanism:
    """A mechanism for tables, and its planning function: (publication, effort) → the part."""

    mechanism: TableMechanism
    plan: Callable[[Publication, SearchOptions], TablePart]


MECHANISMS = {
    x.mechanism.name: x
    for x in (
        RegisteredMechanism(GAUSSIAN, gaussian.planned),
        RegisteredMechanism(LEVELS, gaussian.planned),
        RegisteredMechanism(PLACES, gaussian.planned),
        RegisteredMechanism(PRODUCTS, gaussian.planned),
        RegisteredMechanism(LAPLACE, laplace.planned),
        RegisteredMechanism(PROJECTION, projection.planned),
    )
}


def mechanism_for(request: Publication) -> RegisteredMechanism:
    """Return the default mechanism for a publication of tables; its planner may choose another form of the design.

    Raises:
        PlanError: Not exactly one mechanism is the default for these tables.
    """
    defaults = [x for x in MECHANISMS.values() if x.mechanism.is_default_for(request)]
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


def mechanism_by_name(name: object) -> TableMechanism:
    """Return the mechanism that a document names.

    Raises:
        PlanError: No mechanism has this name.
    """
    if not isinstance(name, str) or name not in MECHANISMS:
        raise PlanError(
            "unknown-mechanism",
            f"The plan names the mechanism {name!r} for tables, which fitnoise does not have.",
            f"The mechanisms are {', '.join(map(repr, MECHANISMS))}.",
            "Use the fitnoise version that made the plan, or plan again.",
            "Nothing was measured.",
        )
    return MECHANISMS[name].mechanism
