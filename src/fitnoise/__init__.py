"""fitnoise: publish counts about people at the accuracy you need, for the least privacy cost, with proof.

    domain → workload (tables and targets) → plan (no data, certified) → release (measured once, charged to a ledger)

Start with :class:`Domain`, :func:`table`, :class:`Workload`, :func:`plan` and :func:`release`.

The first access to a name loads its package, so that importing fitnoise costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from fitnoise.display import register_html
from fitnoise.errors import FitnoiseError

if TYPE_CHECKING:  # for type checkers and editors: name by name the content of the tables below
    from fitnoise.interfaces import plots as plots
    from fitnoise.interfaces.exports.export import export, verify_export
    from fitnoise.interfaces.pages.report import report
    from fitnoise.kernel.formats import Format
    from fitnoise.kernel.units import Account, CountBasis, DataSource, Neighbours, OutsideDomain, Privacy, PrivacyUnit
    from fitnoise.ledgers import Ledger
    from fitnoise.mechanisms import finite as finite
    from fitnoise.mechanisms.projection import regions
    from fitnoise.planning import what_if as what_if
    from fitnoise.planning.comparison import Alternative, Comparison, compare, plan
    from fitnoise.planning.free_queries import plan_free
    from fitnoise.planning.plan import Plan
    from fitnoise.publishing import PeriodStatus, count, list_periods, new_keys, propose, read_period, release, verify
    from fitnoise.reading.bands import Bands
    from fitnoise.reading.combining import Combination, combine
    from fitnoise.reading.estimates import Estimate, Estimates
    from fitnoise.reading.given import given
    from fitnoise.reading.integer_tables import IntegerTables, make_integer_tables
    from fitnoise.reading.microdata import microdata
    from fitnoise.reading.quantiles import Quantiles
    from fitnoise.reading.ratios import CombinedRatios, ComparedRatios, Ratios
    from fitnoise.reading.release import FiniteAnswer, Release
    from fitnoise.reading.sampling import SurveyEstimates
    from fitnoise.request.attributes import Amount, Binned, Categorical, Hierarchy, Ordered
    from fitnoise.request.documents import Spec, load_spec
    from fitnoise.request.domain import Domain
    from fitnoise.request.finite_queries import FiniteQuery
    from fitnoise.request.known_totals import KnownTotals
    from fitnoise.request.metadata import Metadata
    from fitnoise.request.number_rules import ByAttribute, ByTableSize, PublicTotal
    from fitnoise.request.publication import (
        Budget,
        CellBudgets,
        ErrorWeights,
        Goal,
        Objective,
        Publication,
        SmallDatabase,
    )
    from fitnoise.request.translations import Translation
    from fitnoise.request.workloads import Family, Table, Workload, all_tables, matrix_workload, table

    projections = regions

__version__ = "0.1.0"

__all__ = [
    "Account",
    "Alternative",
    "Amount",
    "Bands",
    "Binned",
    "Budget",
    "ByAttribute",
    "ByTableSize",
    "Categorical",
    "CellBudgets",
    "Combination",
    "CombinedRatios",
    "ComparedRatios",
    "Comparison",
    "CountBasis",
    "DataSource",
    "Domain",
    "ErrorWeights",
    "Estimate",
    "Estimates",
    "Family",
    "FiniteAnswer",
    "FiniteQuery",
    "FitnoiseError",
    "Format",
    "Goal",
    "Hierarchy",
    "IntegerTables",
    "KnownTotals",
    "Ledger",
    "Metadata",
    "Neighbours",
    "Objective",
    "Ordered",
    "OutsideDomain",
    "PeriodStatus",
    "Plan",
    "Privacy",
    "PrivacyUnit",
    "PublicTotal",
    "Publication",
    "Quantiles",
    "Ratios",
    "Release",
    "SmallDatabase",
    "Spec",
    "SurveyEstimates",
    "Table",
    "Translation",
    "Workload",
    "all_tables",
    "combine",
    "compare",
    "count",
    "export",
    "given",
    "list_periods",
    "load_spec",
    "make_integer_tables",
    "matrix_workload",
    "microdata",
    "new_keys",
    "plan",
    "plan_free",
    "propose",
    "read_period",
    "release",
    "report",
    "table",
    "verify",
    "verify_export",
]

_ROOMS = {
    "interfaces.exports.export": ("export", "verify_export"),
    "interfaces.pages.report": ("report",),
    "kernel.formats": ("Format",),
    "ledgers": ("Ledger",),
    "kernel.units": ("Account", "CountBasis", "DataSource", "Neighbours", "OutsideDomain", "Privacy", "PrivacyUnit"),
    "planning.comparison": ("Alternative", "Comparison", "compare", "plan"),
    "planning.free_queries": ("plan_free",),
    "planning.plan": ("Plan",),
    "publishing": ("PeriodStatus", "count", "new_keys", "propose", "read_period", "list_periods", "release", "verify"),
    "reading.bands": ("Bands",),
    "reading.combining": ("Combination", "combine"),
    "reading.ratios": ("CombinedRatios", "ComparedRatios", "Ratios"),
    "reading.estimates": ("Estimate", "Estimates"),
    "reading.given": ("given",),
    "reading.microdata": ("microdata",),
    "reading.quantiles": ("Quantiles",),
    "reading.release": ("FiniteAnswer", "Release"),
    "reading.sampling": ("SurveyEstimates",),
    "reading.integer_tables": ("IntegerTables", "make_integer_tables"),
    "request.attributes": ("Amount", "Binned", "Categorical", "Hierarchy", "Ordered"),
    "request.documents": ("Spec", "load_spec"),
    "request.domain": ("Domain",),
    "request.finite_queries": ("FiniteQuery",),
    "request.known_totals": ("KnownTotals",),
    "request.metadata": ("Metadata",),
    "request.publication": (
        "Budget",
        "CellBudgets",
        "ErrorWeights",
        "Goal",
        "Objective",
        "Publication",
        "SmallDatabase",
    ),
    "request.number_rules": ("ByAttribute", "ByTableSize", "PublicTotal"),
    "request.translations": ("Translation",),
    "request.workloads": ("Family", "Table", "Workload", "all_tables", "matrix_workload", "table"),
}
"""The names that each package holds."""

_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

_SHORT = {
    "finite": "mechanisms.finite",
    "plots": "interfaces.plots",
    "projections": "mechanisms.projection.regions",
    "what_if": "planning.what_if",
}
"""Packages with a short name."""


@register_html
def _html(thing: object) -> str | None:
    """Return the HTML of an object in a notebook, or None to show its text; load the pages only now."""
    html: str | None = import_module(f"{__name__}.interfaces.pages.notebook").html(thing)
    return html


def __dir__() -> list[str]:
    return sorted({*__all__, *_SHORT, "__version__"})


if not TYPE_CHECKING:  # a type checker that saw this would believe any name

    def __getattr__(name: str) -> object:
        """Return a package by its short name, or a name from its package, and store it for the next access."""
        room = _SHORT.get(name) or _ROOM_OF.get(name)
        if room is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        loaded = import_module(f"{__name__}.{room}")
        # two threads may come here at once: both return the object that was stored first
        return globals().setdefault(name, loaded if name in _SHORT else getattr(loaded, name))
