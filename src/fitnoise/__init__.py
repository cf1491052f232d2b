"""fitnoise: publish counts about people at the accuracy you need, for the least privacy cost, with proof.

    domain → workload (tables and targets) → plan (no data, certified) → release (measured once, charged to a ledger)

Start with :class:`Domain`, :func:`table`, :class:`Workload`, :func:`plan` and :func:`release`.
"""

from __future__ import annotations

from fitnoise.errors import FitnoiseError
from fitnoise.kernel.designs.questions import FiniteQuery
from fitnoise.kernel.domain import Binned, Categorical, Domain, Ordered
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.units import Account, DataSource, Neighbours, OutsideDomain, Privacy, PrivacyUnit
from fitnoise.planning.choosing import Alternative, Comparison, compare, plan
from fitnoise.planning.free import free
from fitnoise.planning.plan import Plan
from fitnoise.publishing import release
from fitnoise.reading.release import Estimate, FiniteAnswer, Release
from fitnoise.reading.verification import verify
from fitnoise.request.documents import Spec, load_spec
from fitnoise.request.publication import Budget, CellBudgets, ErrorWeights, Goal, Objective, Publication, SmallDatabase
from fitnoise.request.targets import By, BySize, PublicTotal
from fitnoise.request.workloads import Family, Table, Workload, all_tables, matrix_workload, table

__version__ = "0.1.0"

__all__ = [
    "Account",
    "Alternative",
    "Binned",
    "Budget",
    "By",
    "BySize",
    "Categorical",
    "CellBudgets",
    "Comparison",
    "DataSource",
    "Domain",
    "ErrorWeights",
    "Estimate",
    "Family",
    "FiniteAnswer",
    "FiniteQuery",
    "FitnoiseError",
    "Goal",
    "Ledger",
    "Neighbours",
    "Objective",
    "Ordered",
    "OutsideDomain",
    "Plan",
    "Privacy",
    "PrivacyUnit",
    "PublicTotal",
    "Publication",
    "Release",
    "SmallDatabase",
    "Spec",
    "Table",
    "Workload",
    "all_tables",
    "compare",
    "free",
    "load_spec",
    "matrix_workload",
    "plan",
    "release",
    "table",
    "verify",
]
