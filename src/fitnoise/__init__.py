"""fitnoise: publish counts about people at the accuracy you need, for the least privacy cost, with proof.

    domain → workload (tables and targets) → plan (no data, certified) → release (measured once, charged to a ledger)

Start with :class:`Domain`, :func:`table`, :class:`Workload`, :func:`plan` and :func:`release`.
"""

from fitnoise.domain import Binned, Categorical, Domain, Ordered
from fitnoise.errors import FitnoiseError
from fitnoise.finite.queries import FiniteQuery
from fitnoise.ledger import Account, Ledger
from fitnoise.mechanisms.free import free
from fitnoise.mechanisms.planning import Alternative, Comparison, compare, plan
from fitnoise.plans import Plan
from fitnoise.privacy import Neighbours, Privacy, PrivacyUnit
from fitnoise.publication import (
    Budget,
    CellBudgets,
    DataSource,
    ErrorWeights,
    Goal,
    Objective,
    OutsideDomain,
    Publication,
    SmallDatabase,
)
from fitnoise.releases import Estimate, FiniteAnswer, Release, release
from fitnoise.spec import Spec, load_spec
from fitnoise.targets import By, BySize, PublicTotal
from fitnoise.verification import verify
from fitnoise.workloads import Family, Table, Workload, all_tables, matrix_workload, table

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
