"""A publication: the specification as plain objects, everything a plan depends on and nothing of the data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import DomainError, SpecError
from fitnoise.kernel import privacy
from fitnoise.kernel.arguments import refuse_unless_fields_fit, shown
from fitnoise.kernel.checks import is_plain, is_real, look_alike
from fitnoise.kernel.codings import classified_by, uncut
from fitnoise.kernel.designs.questions import MOST_PEOPLE, FiniteQuery, Question
from fitnoise.kernel.domain import Categorical, Domain, Level, Ordered
from fitnoise.kernel.losses import Axes
from fitnoise.kernel.order import Limit
from fitnoise.kernel.units import Adjacency, DataSource, Neighbours, Privacy, PrivacyUnit, Region
from fitnoise.request.targets import By, BySize, Kind, PublicTotal
from fitnoise.request.workloads import EACH, AtMost, Average, Change, Table, ToDate, Workload, used_attributes

LEAST_SHARE = 1e-6
"""Least relative budget of a cell that may be counted at all."""

WARMEST = 0.1
"""Largest temperature of an estimate: above it small databases are smoothed too much."""


@final
@dataclass(frozen=True)
class Budget:
    """A privacy cost, said in exactly one way.

    Args:
        rho: zCDP, exact when given as a Fraction or an integer; a float is taken as the binary fraction it is.
        mu: Gaussian differential privacy; ρ = μ²/2.
        epsilon: guaranteed ε at `delta`: what is proven for the noise that is used stays within it.
        delta: with `epsilon`, and only with it; an ε without δ is pure: only plans that promise pure ε can keep it.

    Raises:
        SpecError: not exactly one of the three, or a number that is not positive and finite.
    """

    rho: Fraction | None = None
    mu: float | None = None
    epsilon: float | Fraction | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        refuse_unless_fields_fit(self, SpecError, "Nothing was planned.")
        said = {k: v for k in ("rho", "mu", "epsilon") if (v := getattr(self, k)) is not None}
        if len(said) != 1:
            raise SpecError(f"a cost is said in one of rho, mu and epsilon; got {sorted(said) or 'none'}.")
        ((name, value),) = said.items()
        if not (is_plain(value) or isinstance(value, Fraction)) or not 0 < value < math.inf:
            raise SpecError(f"{name} must be a positive finite number; got {value!r}.")
        if self.epsilon is None and self.delta is not None:
            raise SpecError("delta is only used with epsilon.")
        if self.delta is not None and not 0 < self.delta < 1:
            raise SpecError(f"delta lies strictly between 0 and 1, such as 1e-6; got {self.delta!r}.")
        if self.rho is not None:
            object.__setattr__(self, "rho", Fraction(self.rho))
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", Fraction(self.epsilon) if self.delta is None else float(self.epsilon))
        if self.mu is not None:
            object.__setattr__(self, "mu", float(self.mu))

    @property
    def pure(self) -> Fraction | None:
        """The ε of a pure budget, exact; None of others."""
        return Fraction(self.epsilon) if self.epsilon is not None and self.delta is None else None

    def as_rho(self) -> Fraction:
        """The largest ρ allowed whatever the noise, exact; of a pure ε, the ρ = ε²/2 that follows from it."""
        if self.rho is not None:
            return self.rho
        if self.mu is not None:
            return Fraction(self.mu) ** 2 / 2
        if self.pure is not None:
            return self.pure**2 / 2
        if self.epsilon is None or self.delta is None:  # excluded on construction
            raise SpecError("a cost is said in one of rho, mu and epsilon.")
        return Fraction(privacy.zcdp_rho(float(self.epsilon), self.delta))

    @property
    def gaussian_rho(self) -> Fraction:
        """The largest ρ allowed of Gaussian noise as plans have it, exact: of lattices with σ ≥ 2¹⁰."""
        if self.epsilon is None or self.delta is None:
            return self.as_rho()
        mu = Fraction(privacy.lattice_mu(float(self.epsilon), self.delta))
        return max(self.as_rho(), mu**2 / 2 * (1 - 4 * privacy.FINEST))

    def limit(
        self, what: str, designs: tuple[int, ...] | None = None, axes: Axes = (), shares: tuple[float, ...] = ()
    ) -> Limit:
        """As the kernel holds designs against it (:class:`Limit`).

        Args:
            what: is limited, as a refusal says it.
            designs: which; None for all together.
            axes: the attributes by whose joint cells the budget differs.
            shares: of it, from 0 to 1, for each of these cells.
        """
        at = None if self.epsilon is None or self.delta is None else (float(self.epsilon), self.delta)
        return Limit(what, self.as_rho(), designs, axes, shares, at, self.pure)


class Goal(StrEnum):
    """What a plan minimises."""

    FIT_FOR_USE = "fit-for-use"
    TOTAL_ERROR = "total-error"
    HYBRID = "hybrid"


class ErrorWeights(StrEnum):
    """ω_j, how much the variance of a number counts in a total: 1, 1/c_j or 1/√c_j for its target c_j."""

    UNIFORM = "uniform"
    INVERSE_VARIANCE = "inverse-variance"
    INVERSE_STD_ERROR = "inverse-std-error"

    def of(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """ω for target variances c, elementwise.

        Args:
            targets: c, positive, of any shape.
        """
        power = {ErrorWeights.UNIFORM: 0.0, ErrorWeights.INVERSE_VARIANCE: -1.0}.get(self, -0.5)
        return np.asarray(targets**power)


@final
@dataclass(frozen=True)
class Objective:
    """What a plan minimises.

    Attributes:
        goal: the privacy cost Δ² at which every number meets its own target (fit-for-use, default); the cost at
            which only the weighted total does, Σ ω var ≤ Σ ω c (total error, as in the matrix mechanism: CA,
            wCA-I and wCA-II are the three weights); or Δ² + λ Σ ω var while every number meets its target
            (hybrid).
        weights: ω; every published number counts.
        trade: λ > 0, for a hybrid and only for it: how much Δ² a unit of weighted variance, in people², is
            worth.

    Raises:
        SpecError: a λ without a hybrid, a hybrid without a λ, or weights where nothing is summed.

    Source: fit-for-use (Xiao et al. 2021), sections 4 and 7 for the baselines, section 6 for the hybrid.
    """

    goal: Goal = Goal.FIT_FOR_USE
    weights: ErrorWeights = ErrorWeights.UNIFORM
    trade: float | None = None

    def __post_init__(self) -> None:
        refuse_unless_fields_fit(self, SpecError, "No plan was made.")
        object.__setattr__(self, "goal", Goal(self.goal))
        object.__setattr__(self, "weights", ErrorWeights(self.weights))
        if self.goal is Goal.FIT_FOR_USE and self.weights is not ErrorWeights.UNIFORM:
            raise SpecError("error weights belong to the total-error and hybrid goals; fit-for-use sums no errors.")
        if (self.goal is Goal.HYBRID) != (self.trade is not None):
            raise SpecError("the hybrid goal, and only that, needs a trade: what a unit of variance costs in Δ².")
        if self.trade is not None and not 0 < self.trade < math.inf:
            raise SpecError(f"a trade is a positive finite number; got {self.trade!r}.")


@final
@dataclass(frozen=True)
class CellBudgets:
    """Personal privacy: relative budgets r of records, by their values of some attributes.

    Attributes:
        attributes: their names; they become structured.
        values: one number from 0 to 1 for every combination of their values, in C order; the largest is 1. What
            is minimised is max_o prof_o / r_o: a unit whose records lie in cells of budget r pays at most r
            times that. 0 lets no query count the cell.

    Raises:
        SpecError: numbers outside [0, 1], no 1 among them, no attribute or one twice.
    """

    attributes: tuple[str, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        refuse_unless_fields_fit(self, SpecError, "No plan was made.")
        object.__setattr__(self, "attributes", tuple(self.attributes))
        object.__setattr__(self, "values", tuple(self.values))
        if not self.attributes or len(set(self.attributes)) != len(self.attributes):
            raise SpecError("cell budgets are given by one or more attributes, none twice.")
        for x in self.values:
            if not is_real(x) or not 0 <= x <= 1:
                raise SpecError(f"a cell's relative budget is a number from 0 to 1; got {x!r}.")
            if 0 < x < LEAST_SHARE:
                raise SpecError(f"a cell's relative budget is 0, or at least {LEAST_SHARE:g}; got {x!r}.")
        if not self.values or max(self.values) != 1:
            raise SpecError("cell budgets are relative to the largest, which must be 1.")
        object.__setattr__(self, "values", tuple(float(x) for x in self.values))

    def shares(self, domain: Domain) -> tuple[Axes, tuple[float, ...]]:
        """The attributes with their numbers of values, and r of their joint cells, in C order.

        Args:
            domain: in which the attributes are.
        """
        return tuple((a, domain[a].size) for a in self.attributes), self.values

    def along(self, domain: Domain, structured: Sequence[str]) -> NDArray[np.float64]:
        """R of every joint cell of the structured attributes, (n_o,), in C order.

        Args:
            domain: in which the attributes are.
            structured: names of attributes; those of the budgets are among them.
        """
        table = aligned(domain, np.array(self.values), self.attributes, structured)
        return np.broadcast_to(table, [domain[a].size for a in structured]).ravel()


@final
@dataclass(frozen=True)
class Setting:
    """How a small database is measured and estimated. index: k of the noise. temperature: τ, 0 for nearest answers."""

    index: int
    temperature: float


class Variant(StrEnum):
    """How the answers of a small database are estimated."""

    FULL = "full"
    PAPER = "paper"


@final
@dataclass(frozen=True)
class SmallDatabase:
    """What is known of a small database, so that its answers can be moved to what some database of that size gives.

    Args:
        size: n, public. At most so many records; exactly so many where the region is "exactly". The data are refused
            where it does not hold, before anything is charged.
        region: "at-most" (default), or "exactly", which needs neighbours that replace one record.
        index: k of the Ky Fan noise, from 1; None chooses it by public simulation.
        temperature: τ of the estimate, 0 for the nearest answers, at most 0.1; None chooses it likewise.
        variant: "full" (default): everything is estimated. "paper": Algorithm 1 as printed, to compare with: k = ⌊ε n⌋
            unless an index is given, the first k directions left as they are, and the others projected on n times the
            hull of plus and minus all columns. Its answers are those of no histogram.

    Raises:
        SpecError: a size that is no whole number from 1, or another of these out of range.
    """

    size: int
    region: Region = Region.AT_MOST
    index: int | None = None
    temperature: float | None = None
    variant: Variant = Variant.FULL

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "region", Region(self.region))
        except ValueError:
            raise SpecError(f"a region is 'at-most' or 'exactly'; got {self.region!r}.") from None
        try:
            object.__setattr__(self, "variant", Variant(self.variant))
        except ValueError:
            raise SpecError(f"a variant is 'full' or 'paper'; got {self.variant!r}.") from None
        if self.variant is Variant.PAPER and (self.region is not Region.AT_MOST or self.temperature):
            raise SpecError("the variant of the paper has a region of its own and no temperature; leave both out.")
        if self.region is Region.HULL:
            raise SpecError(
                "the hull of plus and minus all columns, of the paper, gives no histogram and is never nearer; the "
                "region of a publication is 'at-most' or 'exactly'."
            )
        for what, number in (("size", self.size), ("index", self.index)):
            if number is not None and (type(number) is not int or not 1 <= number <= MOST_PEOPLE):
                raise SpecError(
                    f"the {what} of a small database is a whole number of 1 or more; got {shown(number)}. "
                    "The size must be public: it is not looked up in the data."
                )
        t = self.temperature
        if t is not None and (not is_plain(t) or not 0 <= t <= WARMEST):
            raise SpecError(f"a temperature is a number from 0 to {WARMEST:g}; got {t!r}.")


def aligned(domain: Domain, values: NDArray[Any], own: Sequence[str], onto: Sequence[str]) -> NDArray[Any]:
    """Values in C order over some attributes, as an array along `onto`: of size 1 along those that are not its own."""
    table = values.reshape([domain[a].size for a in own])
    ordered = table.transpose([own.index(a) for a in onto if a in own])
    return ordered.reshape([domain[a].size if a in own else 1 for a in onto])


@final
@dataclass(frozen=True)
class Publication:
    """Everything a plan depends on.

    Attributes:
        workload: the tables and their targets.
        unit: who is protected.
        source: what is publicly known of the data.
        delta: at which ε is reported.
        gap: relative gap that must be certified; None aims at 1e-6 and reports what was reached.
        cap: refuse a plan that costs more.
        budget: spend exactly this instead; the targets then only say how accurate tables are relative to each
            other.
        title: shown in reports.
        objective: what is minimised.
        cell_budgets: relative budgets of records, by cell; None gives all the same.
        beside: hashes of plans measured on the same records, whose charges this one's is composed with cell by
            cell.
        free: whether the release must not raise what is spent: it is refused otherwise. Needs `beside`.
        privacy: what is promised: ρ-zCDP by Gaussian noise, or pure ε by Laplace noise; "auto" asks a plan to
            choose.
        finite: questions with finitely many answers, each charged its own ε beside the tables. A budget is what
            the tables spend; a cap is for all together.
        small: what is known of a small database: measured for the projection mechanism, whose answers are
            biased and far nearer where there are few records. Needs a budget.
        also: further tables of the same records, each with a mechanism, targets and a budget of their own,
            measured together with these and charged as one.
        other_units: further units, such as the household of a person: what the release costs each of them is
            stated, and charged to an account of its own.
        series: the attribute whose values are periods, in order of time, where the tables are released period by
            period (docs/series.md); None releases all at once.
    """

    workload: Workload
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    source: DataSource = field(default_factory=DataSource)
    delta: float = 1e-6
    gap: float | None = None
    cap: Budget | None = None
    budget: Budget | None = None
    title: str = ""
    objective: Objective = field(default_factory=Objective)
    cell_budgets: CellBudgets | None = None
    beside: tuple[str, ...] = ()
    free: bool = False
    privacy: Privacy = Privacy.ZCDP
    finite: tuple[FiniteQuery, ...] = ()
    small: SmallDatabase | None = None
    also: tuple[Publication, ...] = ()
    other_units: tuple[PrivacyUnit, ...] = ()
    series: str | None = None

    def __post_init__(self) -> None:
        refuse_unless_fields_fit(self, SpecError, "No plan was made.")
        object.__setattr__(self, "privacy", Privacy(self.privacy))
        self._check_amounts()
        self._check_privacy()
        self._check_pattern()
        self._check_merge()
        self._check_shares()
        self._check_promise()
        if not 0 < self.delta < 1:
            raise SpecError(f"delta lies strictly between 0 and 1, such as 1e-6; got {self.delta!r}.")
        if isinstance(self.gap, bool) or (self.gap is not None and not 1e-10 <= self.gap <= 10):
            raise SpecError(f"gap is a relative distance to the proven bound, from 1e-10 to 10; got {self.gap!r}.")
        if self.cap is not None and self.budget is not None:
            raise SpecError("a budget is spent exactly, so a cap beside it says nothing; give one of the two.")
        self._check_also()
        self._check_units()
        self._check_finite()
        self._check_small()
        self._check_series()

    def _check_amounts(self) -> None:
        """Amounts are summed, and nothing else is asked or said of them."""
        asked = used_attributes(self.workload) if self.workload.tables else set()
        budgets = () if self.cell_budgets is None or self.free else self.cell_budgets.attributes
        reasons = {
            f"records of one {self.unit.name} keep to no pattern in it": self.unit.pattern.names,
            "cell budgets go by other attributes": budgets,
            "and not in a small database": asked if self.small is not None else set(),
        }
        self._refuse_amounts(reasons)

    def _refuse_amounts(self, reasons: Mapping[str, Iterable[str]]) -> None:
        """Raise SpecError for what is not done with amounts, where it is asked of one."""
        for why, names in reasons.items():
            some = set(self.workload.domain.steps).intersection(names)
            if some:
                raise SpecError(
                    f"{min(some)!r} is an amount, of which nothing but sums is asked: {why}. Declare another attribute "
                    "on the same column for that, such as a Binned one. No plan was made."
                )

    def _check_units(self) -> None:
        """Other units are units, each with an account of its own."""
        object.__setattr__(self, "other_units", tuple(self.other_units))
        for i, unit in enumerate(self.other_units):
            before = (self.unit, *self.other_units[:i])
            if unit in before:
                raise SpecError(f"the privacy unit {unit.describe()!r} is named twice.")
            alike = next((u for u in before if look_alike(u.name, unit.name)), None)
            if alike is not None and alike != replace(unit, neighbours=alike.neighbours):
                raise SpecError(
                    f"the privacy units {alike.describe()!r} and {unit.describe()!r} read alike: give each a name of "
                    "its own, or the same name, the same most records, the same id, the same once_per, per_value, "
                    "separation and fixed, the same merge, and another neighbour relation."
                )
            if alike is None and unit.pattern:
                raise SpecError(
                    f"records of a further unit {unit.describe()!r} keep to a pattern, and are priced as if they did "
                    "not: say that of the first unit, and leave it out here."
                )
            if alike is None and unit.id is not None:
                raise SpecError(
                    f"a further unit {unit.describe()!r} has an id of its own, and records are counted by one id: give "
                    "it to the first unit, which is the one that is protected by counting; of others say how many "
                    "records one has."
                )

    def _check_small(self) -> None:
        """What goes with a small database."""
        if self.small is None:
            return
        refused = {
            "a budget, such as an epsilon with its delta: its error depends on it": self.budget is None,
            "privacy = 'zcdp', since its noise is Gaussian": self.privacy is not Privacy.ZCDP,
            "the fit-for-use goal; targets only weigh tables": self.objective.goal is not Goal.FIT_FOR_USE,
            "no cell budgets": self.cell_budgets is not None,
            "no plans beside": bool(self.beside),
        }
        for what, wrong in refused.items():
            if wrong:
                raise SpecError(f"the projection mechanism needs {what}.")
        own = self.budget is not None and self.budget.epsilon is not None
        if self.small.variant is Variant.PAPER and self.small.index is None and not own:
            raise SpecError(
                "the index of the paper is ⌊ε n⌋: give the budget as an epsilon with its delta, or an index."
            )
        if self.small.region is Region.EXACTLY and not self.adjacency.fixes_size:
            raise SpecError(
                "where the number of records is exactly known, it is public: neighbours replace one record then, of "
                "units with one record each, and no record is dropped. Ask for the region 'at-most', or for "
                "replace-one neighbours."
            )

    def _check_also(self) -> None:
        """What further tables share with these, and what is said once for all."""
        object.__setattr__(self, "also", tuple(self.also))
        if not self.workload.tables and not self.finite:
            raise SpecError("a publication asks for tables or for questions with finitely many answers; got neither.")
        if not self.workload.tables and (self.also or self.budget is not None or self.small is not None):
            raise SpecError("a publication without tables has no further ones, no budget for them, and no size.")
        taken = set(self.workload.tables.names)
        for other in self.also:
            if (other.workload.domain, other.unit, other.source) != (self.workload.domain, self.unit, self.source):
                raise SpecError("tables of one release are about the same records: one domain, one unit, one source.")
            once = (other.cap, other.beside, other.free, other.finite, other.also, other.other_units)
            if any(once) or not other.workload.tables:
                raise SpecError(
                    "further tables of a publication have a workload, and say nothing of caps, of plans beside, of "
                    "questions or of units: that is said once for all."
                )
            twice = sorted(taken & set(other.workload.tables.names))
            if twice:
                raise SpecError(f"the name {twice[0]!r} is given twice; tables need names of their own.")
            taken |= set(other.workload.tables.names)
        if self.also and (self.free or Privacy.AUTO in {p.privacy for p in (self, *self.also)}):
            raise SpecError("tables of several parts are not free, and each part says which privacy it promises.")

    def _check_finite(self) -> None:
        object.__setattr__(self, "finite", tuple(self.finite))
        if not self.finite:
            return
        if self.cell_budgets is not None:
            raise SpecError(
                "a finite answer costs its ε for every record, whatever its cell, so it goes with no cell budgets: "
                "release it in a publication of its own."
            )
        names = [q.name for q in self.finite]
        taken = sorted(
            {n for n in names if names.count(n) > 1 or any(n in p.workload.tables.numbered for p in (self, *self.also))}
        )
        if taken:
            raise SpecError(f"the name {taken[0]!r} is given twice; questions and tables need names of their own.")
        if self.finite and self.free:
            raise SpecError("a question with finitely many answers costs its ε, so a publication with one is not free.")
        for query in self.finite:
            query.check(self.domain)
            asked = {a for m in query.margins(self.domain) for a in m}
            self._refuse_amounts({"a question of finitely many answers is about other attributes": asked})
            if query.question is Question.LEFT_OUT and self.unit.id is None:
                raise SpecError(
                    f"the question {query.name!r} asks of how many persons some records are not counted, and without "
                    "an id nobody knows whose a record is: give the privacy unit an id, or leave the question out."
                )
            query.graph(self.workload.domain, self.adjacency)

    def _check_privacy(self) -> None:
        pairwise = self.unit.neighbours is Neighbours.REPLACE_ONE
        if pairwise and (self.cell_budgets is not None or self.beside):
            raise SpecError(
                "cell budgets, and charges beside other plans, are about single records: they need add-or-remove-one "
                "neighbours."
            )
        if self.budget is not None and self.objective.goal is Goal.HYBRID:
            raise SpecError("a hybrid weighs privacy against error; a budget fixes privacy: use the total-error goal.")
        if self.cell_budgets is not None:
            domain = self.workload.domain
            for a in self.cell_budgets.attributes:
                if isinstance(domain[a], Level):
                    raise SpecError(
                        f"cell budgets by {a!r}, a level of {domain.home(a)!r}, are not planned: give budgets by "
                        f"{domain.home(a)!r}, one for every leaf. No plan was made."
                    )
            cells = math.prod(domain[a].size for a in self.cell_budgets.attributes)
            if len(self.cell_budgets.values) != cells:
                raise SpecError(
                    f"the attributes {list(self.cell_budgets.attributes)} have {cells} combinations of values; "
                    f"{len(self.cell_budgets.values)} cell budgets were given."
                )
        object.__setattr__(self, "beside", tuple(self.beside))
        for name in self.beside:
            if not isinstance(name, str) or re.fullmatch("[0-9a-f]{64}", name) is None:
                raise SpecError(f"a plan is named by its SHA-256, 64 hexadecimal digits; got {name!r}.")
        if self.beside and self.unit.id is not None:
            raise SpecError(
                f"plans beside others are for the very same records; which of a {self.unit.name} are counted follows "
                "from the attributes and from the most records of each plan. Leave beside out: charges add up then."
            )
        if self.free and not self.beside:
            raise SpecError("only what stands beside other plans can be free; name them.")
        if len(set(self.beside)) != len(self.beside):
            raise SpecError("a plan is named twice beside this one.")

    def _check_pattern(self) -> None:
        """What records of a unit have in common is said in attributes of the domain."""
        domain, pattern = self.workload.domain, self.unit.pattern
        for what, said in pattern.said.items():
            for a in said:
                if a not in set(domain):
                    level = f": {a!r} is a level of {domain.home(a)!r}" if a in domain else ""
                    raise SpecError(
                        f"{what} says of {a!r} what records of one {self.unit.name} have in common, and no attribute "
                        f"of the domain is called so{level}; it has {list(domain)}. It goes by the cells of attributes."
                    )
        for a, _ in pattern.separation:
            if not domain[a].ordered or domain[a].beside:
                why = "has cells beside its order" if domain[a].ordered else "has no order"
                raise SpecError(
                    f"records of one {self.unit.name} are apart in {a!r}, says separation, which {why}: separation "
                    "needs an ordered attribute or one of bins, without cells for missing values. Name another, or say "
                    "once_per."
                )
        if pattern and self.cell_budgets is not None:
            raise SpecError(
                f"cell budgets are about records that share a cell, and those of a {self.unit.name} keep to a pattern: "
                "give no cell budgets, or no once_per, per_value, separation or fixed."
            )
        if pattern and self.small is not None:
            raise SpecError(
                f"the noise for a small database is chosen for records of a {self.unit.name} that may be alike, and "
                "those keep to a pattern: leave out once_per, per_value, separation and fixed, which costs more, or "
                "the size."
            )

    def _check_merge(self) -> None:
        """What is added up are amounts, in whole steps from zero."""
        domain = self.workload.domain
        for a in self.unit.merge:
            if a not in domain.steps:
                raise SpecError(
                    f"merge says that {a!r} is added up over records of one {self.unit.name}, and no amount of the "
                    f"domain is called so; its amounts are {list(domain.steps)}. Declare it as an Amount, or leave it "
                    "out. No plan was made."
                )
            try:
                uncut(domain[a].coding)
            except DomainError as e:
                raise SpecError(f"merge adds up {a!r}: {e} No plan was made.") from None

    def _check_shares(self) -> None:
        """Shares of records are counted for tables with Gaussian noise."""
        refused = {
            "questions with finitely many answers": bool(self.finite),
            "a small database": self.small is not None,
            "a series": self.series is not None,
            "an amount in the domain": bool(self.workload.domain.steps),
            f"privacy = {self.privacy.value!r}": self.privacy is not Privacy.ZCDP,
        }
        for what, said in refused.items():
            if said and self.unit.parts > 1:
                raise SpecError(
                    f"count = 'shares' is for tables with Gaussian noise, whose numbers are then shares of a "
                    f"{self.unit.name}; it does not go with {what}: leave that out, or count records. No plan was made."
                )

    def _check_series(self) -> None:
        """What can be released period by period: tables that show the periods, as far as they go."""
        if self.series is None:
            return
        domain, parts = self.workload.domain, self.workload.tables.parts
        period = domain.get(self.series) if self.series in set(domain) else None
        if not isinstance(period, (Ordered, Categorical)) or period.beside:
            raise SpecError(
                f"the periods of a series are the values of an ordered or a categorical attribute of the domain, in "
                f"order of time, without cells for missing values; {self.series!r} is none."
            )
        refused = {
            "questions with finitely many answers": bool(self.finite),
            "further tables (also)": bool(self.also),
            "plans beside it": bool(self.beside),
            "a small database": self.small is not None,
            "cell budgets": self.cell_budgets is not None,
            "another objective than fit-for-use": self.objective.goal is not Goal.FIT_FOR_USE,
            "another promise than zcdp": self.privacy is not Privacy.ZCDP,
            "neighbours that replace a record": self.unit.neighbours is Neighbours.REPLACE_ONE,
            "sums and means of amounts": bool(used_attributes(self.workload) & set(domain.steps)),
            "an amount whose range goes by the periods": any(
                classified_by(domain[a].coding) == self.series for a in domain.steps
            ),
        }
        for what, said in refused.items():
            if said:
                raise SpecError(f"a series is released period by period, which is not done with {what}: leave it out.")
        for t in parts:
            name = t.name if isinstance(t, Table) else t.describe()
            if not isinstance(t, Table) or t.matrix is not None or self.series not in t.attributes:
                raise SpecError(
                    f"every table of a series is asked for by its name and shows {self.series!r}, so that it grows "
                    f"with the periods; {name!r} does not. Sums over periods are asked of the release."
                )
            if t.view(self.series) not in (EACH, AtMost()) and not isinstance(
                t.view(self.series), (Average, Change, ToDate)
            ):
                raise SpecError(
                    f"a table of a series shows {self.series!r} value by value, as totals up to each (prefix or "
                    f"to_date), as changes or as averages; {name!r} does otherwise. Other sums over periods are "
                    "asked of the release."
                )
            number, of = t.target.number, t.target.reference
            own = isinstance(number, By) and number.attribute == self.series
            if own or isinstance(number, BySize) or isinstance(of, PublicTotal) or t.target.kind is Kind.MAX_DEVIATION:
                raise SpecError(
                    f"the target of {name!r} depends on how many periods there are, or differs by them; in a series it "
                    "is one for all: give a margin, a standard error, a variance, or a cv of one count."
                )

    def _check_promise(self) -> None:
        """What goes with pure ε, with ρ-zCDP, and with a choice between them."""
        for what, limit in (("budget", self.budget), ("cap", self.cap)):
            pure = limit is not None and limit.pure is not None
            if pure and self.privacy is not Privacy.PURE:
                raise SpecError(
                    f"the {what} is an epsilon without delta, which only pure differential privacy can keep: ask for "
                    "privacy = 'pure', or give a delta."
                )
            if limit is not None and not pure and self.privacy is Privacy.PURE:
                raise SpecError(f"the {what} of a pure publication is an epsilon, and there is no delta beside it.")
        if self.privacy is Privacy.ZCDP:
            return
        refused = {
            "a hybrid": self.objective.goal is Goal.HYBRID,
            "a cell budget": self.cell_budgets is not None,
            "a charge beside other plans": bool(self.beside),
        }
        for what, said in refused.items():
            if said:
                raise SpecError(f"{what} needs Gaussian noise: it goes with privacy = 'zcdp' only.")
        if self.privacy is Privacy.PURE and self.gap is not None:
            raise SpecError(
                "no bound is known that pure strategies reach, so no gap to it can be asked for; leave gap out: the "
                "plan states its ratio to what is proven."
            )

    @cached_property
    def groups(self) -> tuple[Publication, ...]:
        """The tables of each part on their own, without what is asked beside them; none where there are no tables."""
        if not self.workload.tables:
            return ()
        own = replace(self, finite=(), also=()) if self.finite or self.also else self
        return (own, *self.also)

    @property
    def domain(self) -> Domain:
        """Of the records."""
        return self.workload.domain

    @property
    def confidence(self) -> float:
        """Of margins of error, where a table says nothing else."""
        return self.workload.confidence

    @property
    def adjacency(self) -> Adjacency:
        """When two databases are neighbours."""
        return self.workload.domain.adjacency(self.source, self.unit)

    @property
    def apart(self) -> tuple[str, ...]:
        """Attributes whose values are not alike: of budgets, or of time; or all, of a database taken as a whole."""
        if self.small is not None:
            return tuple(sorted(used_attributes(self.workload)))
        if self.series is not None:
            return (self.series,)
        return () if self.cell_budgets is None else self.cell_budgets.attributes
