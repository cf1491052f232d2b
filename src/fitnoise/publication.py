"""A publication: the specification as plain objects, everything a plan depends on and nothing of the data."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import final

from fitnoise.errors import SpecError
from fitnoise.privacy import PrivacyUnit, zcdp_rho
from fitnoise.workloads import Workload

MAX_RECORDS = 2**40
"""Default public bound on the number of records: decides the width of integers, never refuses data."""


@final
@dataclass(frozen=True)
class Budget:
    """A privacy cost, said in exactly one way.

    Args:
        rho: zCDP, exact when given as a Fraction or an integer; a float is taken as the binary fraction it is.
        mu: Gaussian differential privacy; ρ = μ²/2.
        epsilon: guaranteed ε at `delta`; ρ is the largest whose optimal conversion stays within it.
        delta: with `epsilon`, and only with it.

    Raises:
        SpecError: not exactly one of the three, or a number that is not positive and finite.
    """

    rho: Fraction | None = None
    mu: float | None = None
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        said = {k: v for k in ("rho", "mu", "epsilon") if (v := getattr(self, k)) is not None}
        if len(said) != 1:
            raise SpecError(f"a cost is said in one of rho, mu and epsilon; got {sorted(said) or 'none'}.")
        ((name, value),) = said.items()
        if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)) or not 0 < value < math.inf:
            raise SpecError(f"{name} must be a positive finite number; got {value!r}.")
        if (self.epsilon is None) != (self.delta is None):
            raise SpecError("epsilon means nothing without delta, and delta is only used with it.")
        if self.delta is not None and not 0 < self.delta < 1:
            raise SpecError(f"delta lies strictly between 0 and 1, such as 1e-6; got {self.delta!r}.")
        if self.rho is not None:
            object.__setattr__(self, "rho", Fraction(self.rho))
        if self.mu is not None:
            object.__setattr__(self, "mu", float(self.mu))

    def as_rho(self) -> Fraction:
        """The largest ρ allowed, exact."""
        if self.rho is not None:
            return self.rho
        if self.mu is not None:
            return Fraction(self.mu) ** 2 / 2
        if self.epsilon is None or self.delta is None:  # excluded on construction
            raise SpecError("a cost is said in one of rho, mu and epsilon.")
        return Fraction(zcdp_rho(self.epsilon, self.delta))


class OutsideDomain(StrEnum):
    """What to do with a record whose value is missing, not a number, or not in the declared domain."""

    REFUSE = "refuse"
    DROP = "drop"


@final
@dataclass(frozen=True)
class DataSource:
    """What is publicly known of the data, before they are opened.

    name: of the source; charges to the ledger are summed under it.
    table: of a DuckDB file, when the data come from one.
    outside_domain: refuse the data (default), or leave such records out of every table.
    max_records: a public bound on the number of records. It chooses the width of integers at plan time; it is never
        compared with the data.
    """

    name: str = "default"
    table: str | None = None
    outside_domain: OutsideDomain = OutsideDomain.REFUSE
    max_records: int = MAX_RECORDS

    def __post_init__(self) -> None:
        if (
            not self.name
            or self.name != self.name.strip()
            or not self.name.isprintable()
            or not unicodedata.is_normalized("NFC", self.name)
        ):
            raise SpecError(
                "a data source needs a printable name without spaces around it, in Unicode's composed form (NFC): its "
                "charges are summed under it in the ledger."
            )
        if isinstance(self.max_records, bool) or not 1 <= self.max_records <= 2**62:
            raise SpecError(f"max_records must be a whole number from 1 to 2^62; got {self.max_records!r}.")

    @property
    def drops(self) -> bool:
        """Whether records outside the domain are left out, so that a record can come or go."""
        return self.outside_domain is OutsideDomain.DROP


@final
@dataclass(frozen=True)
class Publication:
    """Everything a plan depends on.

    workload: the tables and their targets.
    unit: who is protected.
    source: what is publicly known of the data.
    delta: at which ε is reported.
    gap: relative gap that must be certified; None aims at 1e-6 and reports what was reached.
    cap: refuse a plan that costs more.
    budget: spend exactly this instead; the targets then only say how accurate tables are relative to each other.
    title: shown in reports.
    """

    workload: Workload
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    source: DataSource = field(default_factory=DataSource)
    delta: float = 1e-6
    gap: float | None = None
    cap: Budget | None = None
    budget: Budget | None = None
    title: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise SpecError(f"delta lies strictly between 0 and 1, such as 1e-6; got {self.delta!r}.")
        if isinstance(self.gap, bool) or (self.gap is not None and not 1e-10 <= self.gap <= 10):
            raise SpecError(f"gap is a relative distance to the proven bound, from 1e-10 to 10; got {self.gap!r}.")
        if self.cap is not None and self.budget is not None:
            raise SpecError("a budget is spent exactly, so a cap beside it says nothing; give one of the two.")

    @property
    def limits(self) -> tuple[tuple[str, Fraction], ...]:
        """What the price may not exceed: "budget" or "cap", with its ρ."""
        said = (("budget", self.budget), ("cap", self.cap))
        return tuple((what, limit.as_rho()) for what, limit in said if limit is not None)
