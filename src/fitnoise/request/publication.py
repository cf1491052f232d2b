"""A publication: the specification as plain objects, everything a plan depends on and nothing of the data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import DomainError, SpecError
from fitnoise.kernel import privacy
from fitnoise.kernel.checks import are_confusable, describe_value, is_plain, is_real
from fitnoise.kernel.designs.questions import MAX_PEOPLE, QuestionKind
from fitnoise.kernel.domain import JointAxis
from fitnoise.kernel.formats import Format, clean, used_forms
from fitnoise.kernel.immutable import FixedMapping
from fitnoise.kernel.losses import Axes
from fitnoise.kernel.order import CostLimit
from fitnoise.kernel.units import Adjacency, DataSource, Neighbours, Privacy, PrivacyUnit, Region
from fitnoise.request import curves
from fitnoise.request.arguments import refuse_unless_fields_fit
from fitnoise.request.attributes import Categorical, Ordered
from fitnoise.request.domain import Domain
from fitnoise.request.finite_queries import FiniteQuery
from fitnoise.request.known_totals import KnownTotals
from fitnoise.request.metadata import Metadata
from fitnoise.request.number_rules import ByTableSize, PublicTotal
from fitnoise.request.targets import TargetKind
from fitnoise.request.translations import Translation, check_translations
from fitnoise.request.workloads import (
    Family,
    Table,
    Workload,
    exchangeable_attributes,
    file_name_twice,
    used_attributes,
)

PROMISED = "promised"
"""The word by which a publisher promises that one record of the unit changes one row of a view."""

MIN_CELL_BUDGET = 1e-6
"""The least relative budget of a cell that can be counted at all."""

_NUMBER_KEYS = ("decimal", "thousands")

_DATE_KEYS = ("date", "zone")
"""The keys of a format that change numbers alone, and dates alone."""

MAX_REPLACED_CELLS = 64
"""The largest number of cells that are structured for the removed and added records of a unit: plans take a minute."""

MAX_TEMPERATURE = 0.1
"""The largest temperature of an estimate: above it, small databases are smoothed too much."""


def _not_one_measure(measures: Sequence[str]) -> SpecError:
    """Return the error for a privacy cost with no measure, or with several."""
    return SpecError(
        "cost-not-one-measure",
        f"A privacy cost has {' and '.join(measures) or 'none of rho, mu and epsilon'}.",
        "It needs exactly one of rho, mu and epsilon.",
        "Give one of them.",
        "Nothing was planned.",
    )


def _delta_out_of_range(delta: float) -> SpecError:
    """Return the error for a δ that is not a probability strictly between 0 and 1."""
    return SpecError(
        "delta-out-of-range",
        f"The delta is {delta!r}.",
        "It must lie strictly between 0 and 1.",
        "Give such a number, such as 1e-6.",
        "Nothing was planned.",
        place="delta",
    )


def _name_twice(name: str) -> SpecError:
    """Return the error for a name of several tables or questions."""
    return SpecError(
        "name-twice",
        f"Two tables or questions have the name {name!r}.",
        "",
        "Give each table and each question a name of its own.",
        "No plan was made.",
    )


@final
@dataclass(frozen=True)
class Budget:
    """A privacy cost, stated in exactly one way.

    Args:
        rho: The ρ of zCDP, exact if given as a Fraction or an integer; a float is taken as the binary fraction it is.
        mu: The μ of Gaussian differential privacy for continuous noise; it allows ρ = μ²/2. The proven μ of discrete
            noise with this ρ is slightly larger.
        epsilon: The guaranteed ε at `delta`: the proven ε of the noise used stays within it.
        delta: The δ of `epsilon`; no other cost has one. An ε without δ is pure: only plans with pure ε-DP can keep it.

    Raises:
        SpecError: Not exactly one of the first three is given, or it is not positive and finite. Or δ is given without
            ε, or does not lie strictly between 0 and 1.
    """

    rho: Fraction | None = None
    mu: float | None = None
    epsilon: float | Fraction | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        refuse_unless_fields_fit(self, SpecError, "Nothing was planned.")
        measures = {k: v for k in ("rho", "mu", "epsilon") if (v := getattr(self, k)) is not None}
        if len(measures) != 1:
            raise _not_one_measure(sorted(measures))
        ((name, value),) = measures.items()
        if not (is_plain(value) or isinstance(value, Fraction)) or not 0 < value < math.inf:
            raise SpecError(
                "cost-not-positive",
                f"The privacy cost {name} is {value!r}.",
                "It must be a positive finite number.",
                f"Give a number above 0, such as {name} = 0.5.",
                "Nothing was planned.",
                place=name,
            )
        if self.epsilon is None and self.delta is not None:
            raise SpecError(
                "delta-without-epsilon",
                "A privacy cost has a delta, and no epsilon.",
                "Only an epsilon has a delta.",
                "Give an epsilon with it, or remove delta.",
                "Nothing was planned.",
                place="delta",
            )
        if self.delta is not None and not 0 < self.delta < 1:
            raise _delta_out_of_range(self.delta)
        if self.rho is not None:
            object.__setattr__(self, "rho", Fraction(self.rho))
        if self.epsilon is not None:
            # Pure ε are added up exactly. An ε with δ goes into curves that are computed in doubles.
            object.__setattr__(self, "epsilon", Fraction(self.epsilon) if self.delta is None else float(self.epsilon))
        if self.mu is not None:
            object.__setattr__(self, "mu", float(self.mu))

    @property
    def pure(self) -> Fraction | None:
        """The ε of a pure budget, exact; None for other budgets."""
        return Fraction(self.epsilon) if self.epsilon is not None and self.delta is None else None

    def as_rho(self) -> Fraction:
        """Return the largest ρ that keeps the budget for any noise; for a pure ε, the ρ = ε²/2 that follows from it.

        The ρ of a stated ρ, μ or pure ε is exact. The ρ of an ε at δ is found numerically, and rounded down.
        """
        if self.rho is not None:
            return self.rho
        if self.mu is not None:
            return Fraction(self.mu) ** 2 / 2
        if self.pure is not None:
            return self.pure**2 / 2
        if self.epsilon is None or self.delta is None:  # excluded on construction
            raise _not_one_measure([])
        return Fraction(curves.zcdp_rho(float(self.epsilon), self.delta))

    @property
    def gaussian_rho(self) -> Fraction:
        """The largest ρ that keeps the budget for Gaussian noise as plans use it: on lattices with σ ≥ 2¹⁰.

        For an ε at δ, it is found numerically, and rounded down; it is never below :meth:`as_rho`. For a pure ε, which
        no Gaussian noise keeps, it is the ρ of :meth:`as_rho`.
        """
        if self.epsilon is None or self.delta is None:
            return self.as_rho()
        # Noise on a lattice has μ′² = 2ρ/(1 − 4c) (`smoothed_cost`), with c = 1/σ² of at most MAX_PRECISION.
        mu = Fraction(curves.lattice_mu(float(self.epsilon), self.delta))
        return max(self.as_rho(), mu**2 / 2 * (1 - 4 * privacy.MAX_PRECISION))

    def limit(
        self, what: str, designs: tuple[int, ...] | None = None, axes: Axes = (), shares: tuple[float, ...] = ()
    ) -> CostLimit:
        """Return the limit that the kernel compares designs with (:class:`CostLimit`).

        Args:
            what: The kind of the limit, "cap" or "budget".
            designs: The positions of the limited designs, counted from 0; None for all together.
            axes: The attributes whose joint cells have different budgets.
            shares: The share of the budget for each of these cells, from 0 to 1.
        """
        epsilon_delta = None if self.epsilon is None or self.delta is None else (float(self.epsilon), self.delta)
        return CostLimit(what, self.as_rho(), designs, axes, shares, epsilon_delta, self.pure)


class Goal(StrEnum):
    """The name of the quantity that a plan minimises: an `Objective` without its settings."""

    FIT_FOR_USE = "fit-for-use"
    TOTAL_ERROR = "total-error"
    HYBRID = "hybrid"


class ErrorWeights(StrEnum):
    """The weight ω_j of a number's variance in a total: 1, 1/c_j or 1/√c_j for its target c_j."""

    UNIFORM = "uniform"
    INVERSE_VARIANCE = "inverse-variance"
    INVERSE_STD_ERROR = "inverse-std-error"

    def for_targets(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ω for target variances c, elementwise.

        Args:
            targets: c, positive, of any shape.
        """
        power = {ErrorWeights.UNIFORM: 0.0, ErrorWeights.INVERSE_VARIANCE: -1.0}.get(self, -0.5)
        return np.asarray(targets**power)


@final
@dataclass(frozen=True)
class Objective:
    """The quantity that a plan minimises.

    Attributes:
        goal: Fit-for-use (default) minimises the privacy cost Δ² at which every number meets its own target. Total
            error minimises the cost at which only the weighted total does, Σ ω var ≤ Σ ω c, with the target variances
            c. This is as in the matrix mechanism, whose CA, wCA-I and wCA-II are the three weights. The hybrid
            minimises Δ² + λ Σ ω var while every number meets its target.
        weights: The rule for ω; the sums are over all published numbers.
        total_error_weight: λ > 0, for a hybrid and only for it: the Δ² that one unit of weighted variance, one person²,
            is worth.

    Raises:
        SpecError: There is a λ without a hybrid, a hybrid without a λ, or weights other than uniform for
            fit-for-use. Or λ is not positive and finite, or an argument has another class.

    Source: fit-for-use (Xiao et al. 2021), sections 4 and 7 for the baselines, section 6 for the hybrid.
    """

    goal: Goal = Goal.FIT_FOR_USE
    weights: ErrorWeights = ErrorWeights.UNIFORM
    total_error_weight: float | None = None

    def __post_init__(self) -> None:
        refuse_unless_fields_fit(self, SpecError, "No plan was made.")
        object.__setattr__(self, "goal", Goal(self.goal))
        object.__setattr__(self, "weights", ErrorWeights(self.weights))
        if self.goal is Goal.FIT_FOR_USE and self.weights is not ErrorWeights.UNIFORM:
            raise SpecError(
                "weights-without-sum",
                "The objective has error weights, and its goal is fit-for-use.",
                "Fit-for-use sums no errors.",
                "Remove the weights, or choose the goal total-error or hybrid.",
                "No plan was made.",
                place="objective.weights",
            )
        if (self.goal is Goal.HYBRID) != (self.total_error_weight is not None):
            raise SpecError(
                "total-error-weight-misfit",
                f"The goal is {self.goal.value!r}, and total_error_weight is {self.total_error_weight!r}.",
                "The hybrid goal needs total_error_weight, the Δ² that one unit of variance is worth, and no other "
                "goal has one.",
                "Give total_error_weight with the hybrid goal, and only with it.",
                "No plan was made.",
                place="objective.total_error_weight",
            )
        if self.total_error_weight is not None and not 0 < self.total_error_weight < math.inf:
            raise SpecError(
                "total-error-weight-not-positive",
                f"The key total_error_weight is {self.total_error_weight!r}.",
                "It must be a positive finite number.",
                "Give a number above 0.",
                "No plan was made.",
                place="objective.total_error_weight",
            )


@final
@dataclass(frozen=True)
class CellBudgets:
    """Personal privacy: relative budgets r of records, by their values of some attributes.

    Attributes:
        attributes: The names of the attributes; they become structured: their values are no longer interchangeable.
        values: r_o, one number from 0 to 1 for every combination o of their values, in C order; the largest is 1. The
            plan minimises max_o prof_o / r_o, with the cost prof_o of a record in cell o. The cost of a unit with
            records in cells of budget r is at most r times this maximum. No query can count a cell of budget 0.

    Raises:
        SpecError: A number is neither 0 nor from 1e-6 to 1, none is 1, no attribute is given, or one is given twice.
    """

    attributes: tuple[str, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        refuse_unless_fields_fit(self, SpecError, "No plan was made.")
        object.__setattr__(self, "attributes", tuple(self.attributes))
        object.__setattr__(self, "values", tuple(self.values))
        if not self.attributes or len(set(self.attributes)) != len(self.attributes):
            raise SpecError(
                "cell-budget-attributes-unusable",
                "The cell budgets name no attribute, or one of them twice.",
                "",
                "Name one or more attributes, each once.",
                "No plan was made.",
                place="privacy.cell_budgets.attributes",
            )
        for x in self.values:
            # NaN fails the comparison, and is refused as well.
            if not is_real(x) or not 0 <= x <= 1:
                raise SpecError(
                    "cell-budget-out-of-range",
                    f"A relative budget of a cell is {x!r}.",
                    "It must be a number from 0 to 1.",
                    "Give the largest budget as 1, and the others relative to it.",
                    "No plan was made.",
                    place="privacy.cell_budgets.values",
                )
            if 0 < x < MIN_CELL_BUDGET:
                raise SpecError(
                    "cell-budget-too-small",
                    f"A relative budget of a cell is {x!r}.",
                    f"It must be 0, or at least {MIN_CELL_BUDGET:g}.",
                    "Give 0 to count no record of the cell, or a larger budget.",
                    "No plan was made.",
                    place="privacy.cell_budgets.values",
                )
        # Relative to the largest: lists with another maximum would state the same rule in a second way.
        if not self.values or max(self.values) != 1:
            raise SpecError(
                "cell-budget-without-one",
                "None of the relative budgets of cells is 1.",
                "Cell budgets are relative to the largest one, which is 1.",
                "Give each budget as a share of the largest.",
                "No plan was made.",
                place="privacy.cell_budgets.values",
            )
        # 1 and 1.0 are one budget, and must have one text in the plan, whose hash depends on it.
        object.__setattr__(self, "values", tuple(float(x) for x in self.values))

    def shares(self, domain: Domain) -> tuple[Axes, tuple[float, ...]]:
        """Return the attributes with their numbers of values, and r of their joint cells, in C order.

        Args:
            domain: The domain of the attributes.
        """
        return tuple((a, domain[a].size) for a in self.attributes), self.values

    def for_structured_cells(self, domain: Domain, structured: Sequence[str]) -> NDArray[np.float64]:
        """Return r of each of the n_o joint cells of the structured attributes, (n_o,), in C order.

        Args:
            domain: The domain of the attributes.
            structured: The names of attributes; those of the budgets are among them.
        """
        table = aligned(domain, np.array(self.values), self.attributes, structured)
        return np.broadcast_to(table, [domain.sizes[a] for a in structured]).ravel()


@final
@dataclass(frozen=True)
class Setting:
    """The measurement and the estimate of a small database.

    index: k of the noise.
    temperature: τ, 0 for nearest answers.
    """

    index: int
    temperature: float


class Variant(StrEnum):
    """The way to estimate the answers of a small database."""

    FULL = "full"
    PAPER = "paper"


@final
@dataclass(frozen=True)
class SmallDatabase:
    """Public facts about a small database, with which its answers are moved to those of some database of that size.

    Args:
        size: n, public: the largest number of records, or the exact number if the region is "exactly". fitnoise refuses
            data that break it, before anything is charged.
        region: "at-most" (default), or "exactly". The latter needs neighbours with equally many records: replace-one
            neighbours, units of one record, and no dropped record.
        index: k of the Ky Fan noise, from 1; None chooses it by public simulation.
        temperature: τ of the estimate, 0 for the nearest answers, at most 0.1; None chooses it by public simulation.
        variant: "full" (default) estimates all answers. "paper" is Algorithm 1 as printed, for comparison. Its index is
            k = ⌊ε n⌋ unless one is given. It leaves the first k directions as they are. It projects the others on n
            times the hull of plus and minus all columns. Its answers are those of no histogram.

    Raises:
        SpecError: The size is not a whole number from 1, or another argument is out of range. Or the variant "paper"
            has the region "exactly" or a temperature above 0.
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
            raise SpecError(
                "region-unknown",
                f"The region of the small database is {self.region!r}.",
                "",
                "Choose 'at-most' or 'exactly'.",
                "No plan was made.",
                place="projection.region",
            ) from None
        try:
            object.__setattr__(self, "variant", Variant(self.variant))
        except ValueError:
            raise SpecError(
                "variant-unknown",
                f"The variant of the projection mechanism is {self.variant!r}.",
                "",
                "Choose 'full' or 'paper'.",
                "No plan was made.",
                place="projection.variant",
            ) from None
        # Before the refusal of 'hull': that error advises another region, and 'paper' allows none.
        if self.variant is Variant.PAPER and (self.region is not Region.AT_MOST or self.temperature):
            raise SpecError(
                "paper-variant-with-own-settings",
                "The variant 'paper' has the region 'exactly' or 'hull', or a temperature above 0.",
                "This variant fixes the region and uses no temperature.",
                "Remove region and temperature, or choose the variant 'full'.",
                "No plan was made.",
                place="projection.variant",
            )
        if self.region is Region.HULL:
            raise SpecError(
                "hull-region",
                "The region is 'hull', the hull of plus and minus all columns.",
                "Its answers are those of no histogram, and are never more accurate.",
                "Choose 'at-most' or 'exactly'.",
                "No plan was made.",
                place="projection.region",
            )
        for what, number in (("size", self.size), ("index", self.index)):
            if number is not None and (type(number) is not int or not 1 <= number <= MAX_PEOPLE):
                raise SpecError(
                    "small-number-unusable",
                    f"The {what} of the small database is {describe_value(number)}.",
                    f"It must be a whole number from 1 to {MAX_PEOPLE:,}, from public knowledge: fitnoise does not "
                    "look it up in the data.",
                    "Give such a number.",
                    "No plan was made.",
                    place={"size": "size", "index": "projection.index"}[what],
                )
        t = self.temperature
        if t is not None and (not is_plain(t) or not 0 <= t <= MAX_TEMPERATURE):
            raise SpecError(
                "temperature-out-of-range",
                f"The temperature is {t!r}.",
                f"It must be a number from 0 to {MAX_TEMPERATURE:g}.",
                "Give such a number, or leave it out.",
                "No plan was made.",
                place="projection.temperature",
            )


def aligned(domain: Domain, values: NDArray[Any], names: Sequence[str], onto: Sequence[str]) -> NDArray[Any]:
    """Return values of the joint cells of some attributes as an array that broadcasts over the attributes `onto`.

    Args:
        domain: The domain of the attributes.
        values: One value for each joint cell of `names`, in C order.
        names: The attributes of the values, all among `onto`.
        onto: The attributes of the result's axes, in order.

    Returns:
        An array with one axis for each attribute of `onto`, of length 1 for an attribute that is not in `names`.
    """
    table = values.reshape([domain[a].size for a in names])
    # Axes in the order of `onto` first: reshaping alone would mix up cells where the two orders differ.
    ordered = table.transpose([names.index(a) for a in onto if a in names])
    return ordered.reshape([domain[a].size if a in names else 1 for a in onto])


@final
@dataclass(frozen=True)
class Publication:
    """The complete input of a plan.

    Attributes:
        workload: The tables and their targets.
        unit: The unit of protection.
        source: The public facts about the data.
        delta: The δ at which ε is reported.
        gap: The relative gap that must be certified, from 1e-10 to 10; None aims at 1e-6 and reports the gap reached.
        cap: The largest cost; fitnoise refuses a plan of higher cost.
        budget: The exact cost to spend, in place of the least one and a cap; targets then only set relative accuracy.
        title: The title shown in reports.
        objective: The quantity that is minimised.
        cell_budgets: The relative budgets of records, by cell; None gives all cells the same budget.
        `composed_with`: The hashes of plans measured on the same records. The charges of this plan are composed with
        theirs cell by cell.
        must_be_free: True to refuse the release if it would raise the spent cost. Needs `composed_with`.
        privacy: The definition of privacy: ρ-zCDP by Gaussian noise, or pure ε by Laplace noise; "auto" lets a plan
            choose.
        questions: Questions with finitely many answers, each charged its own ε in addition to the tables. A budget
            covers the tables alone. A cap, which replaces a budget, limits the cost of tables and questions together.
        small_database: The public facts about a small database, for the projection mechanism. Its answers are biased,
            and far more accurate for few records. Needs a budget.
        further_tables: Further tables of the same records, each with a mechanism, targets and a budget of their own.
            They are measured together with these and charged as one.
        other_units: Further units, such as the household of a person. The plan states the cost of the release for each,
            and charges it to an account of its own.
        series: The attribute whose values are periods, in order of time, if the tables are released period by period
            (docs/howto/release_a_series.md); None releases all at once.
        public: The numbers of records that were public before the release, which it does not measure; None measures
            all.
        mechanism: The name of the mechanism that answers the tables, such as "fit-for-use-by-axis". None lets fitnoise
            choose. A small database implies "projection", so this name becomes None.
        metadata: Statements for catalogues and archives. The hash of a plan does not cover them.
        language: The language of title, labels, names and metadata, as a tag of BCP 47.
        translations: Such texts in further languages, for readers. A plan's hash does not cover them.

    Raises:
        SpecError: An argument is out of range, or two arguments do not fit together.
        DomainError, WorkloadError: An attribute is not in the domain, or a question does not fit it.
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
    composed_with: tuple[str, ...] = ()
    must_be_free: bool = False
    privacy: Privacy = Privacy.ZCDP
    questions: tuple[FiniteQuery, ...] = ()
    small_database: SmallDatabase | None = None
    further_tables: tuple[Publication, ...] = ()
    other_units: tuple[PrivacyUnit, ...] = ()
    series: str | None = None
    public: KnownTotals | None = None
    mechanism: str | None = None
    metadata: Metadata = field(default_factory=Metadata)
    language: str = "en"
    translations: Mapping[str, Translation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse_unless_fields_fit(self, SpecError, "No plan was made.")
        object.__setattr__(self, "translations", FixedMapping(dict(self.translations)))
        object.__setattr__(self, "privacy", Privacy(self.privacy))
        self._check_view()
        self._check_format()
        self._check_amounts()
        self._check_amount_units()
        self._check_privacy()
        self._check_pattern()
        self._check_merge()
        self._check_shares()
        self._check_promise()
        if not 0 < self.delta < 1:
            raise _delta_out_of_range(self.delta).with_place("privacy.delta").with_outcome("No plan was made.")
        if isinstance(self.gap, bool) or (self.gap is not None and not 1e-10 <= self.gap <= 10):
            raise SpecError(
                "gap-out-of-range",
                f"The gap is {self.gap!r}.",
                "It must be a relative distance to the proven bound, from 1e-10 to 10.",
                "Give such a number, such as 0.01, or leave it out.",
                "No plan was made.",
                place="accuracy.gap",
            )
        if self.cap is not None and self.budget is not None:
            raise SpecError(
                "cap-and-budget",
                "The publication has a budget and a cap.",
                "A plan spends a budget exactly, so the cap has no effect.",
                "Give only one of them.",
                "No plan was made.",
                place="budget",
            )
        self._check_further_tables()
        self._check_units()
        self._check_finite()
        self._check_small()
        self._check_series()
        self._check_public()
        # A pattern has thousands of tables: their names are listed only where some have other words.
        names = self._names() if self.translations else {}
        check_translations(self.language, self.translations, self.domain, names, self.metadata)

    @property
    def metadata_by_language(self) -> dict[str, Metadata]:
        """The metadata in the language of the publication, and then the texts of each further language."""
        further = {tag: x.metadata for tag, x in self.translations.items() if tag != self.language}
        return {self.language: self.metadata, **further}

    def metadata_in(self, language: str) -> Metadata:
        """Return the metadata with the texts of a language, or else those of the publication.

        Args:
            language: The tag of the language, such as "fr".
        """
        texts = self.metadata_by_language.get(language, self.metadata)
        units = {**self.metadata.amount_units, **texts.amount_units}
        return replace(self.metadata, **texts.document() | {"amount_units": units})

    def _names(self) -> dict[str, Iterable[str]]:
        """Return the names that the publisher chose, by kind; names of one kind stand next to each other on pages."""
        parts, domain = (self, *self.further_tables), self.domain
        groups: dict[str, Iterable[str]] = {}
        for i, part in enumerate(parts):
            for j, item in enumerate(part.workload.tables.parts):
                table = item.template if isinstance(item, Family) else item
                groups |= {f"groups {i} {j} {a}": [x for x, _ in getattr(v, "groups", ())] for a, v in table.views}
        return {
            "columns": [x for name, a in domain.items() for x in (name, *a.levels)],
            "tables": [name for part in parts for name in part.workload.tables.names],
            "questions": [q.name for q in self.questions],
            "units": {unit.name for unit in (self.unit, *self.other_units)},
            "source": [self.source.name],
            **{f"rows {name}": a.missing_cells for name, a in domain.items()},
            **groups,
        }

    def _check_view(self) -> None:
        """Raise SpecError unless the publisher promises that of a view which fitnoise knows, or nothing."""
        if self.source.view not in {None, PROMISED}:
            raise SpecError(
                "view-word-unknown",
                f"The key view of the source is {describe_value(self.source.view)}.",
                f"It states a promise about a view by one word, {PROMISED!r}.",
                "Give this word, if one record of the unit changes one row of the view, or leave the key out.",
                "No plan was made.",
                place="data.view",
            )

    def _check_format(self) -> None:
        """Raise SpecError unless each declared form of texts can be met in its column, and no declared code is lost."""
        form, axes = self.source.format, self.workload.domain.axes
        if form is None:
            return
        if type(form) is not Format or not form.document:
            raise SpecError(
                "format-states-nothing",
                f"The format of the source is {form!r}.",
                "It must be a Format that states how texts are written.",
                'Give such a format, such as Format(decimal=","), or none.',
                "No plan was made.",
                place="data",
            )
        read = {axes.column(name) for name in axes} | {c.column for c in self.source.conditions}
        for column, column_form in form.by_column.items():
            numbers, dates = used_forms(axes, self.source, column)
            key = next((key for key in column_form.document if key in _NUMBER_KEYS and not numbers), None)
            key = next((key for key in column_form.document if key in _DATE_KEYS and not dates), key)
            if column not in read or key is not None:
                raise SpecError(
                    "format-column-not-read",
                    f"A format is declared for the column {column!r}.",
                    f"The columns of attributes and conditions are {sorted(read)}."
                    if column not in read
                    else f"No attribute and no condition reads {'dates' if key in _DATE_KEYS else 'numbers'} from this "
                    f"column, so {key} changes nothing.",
                    "Rename the column, or remove this declaration.",
                    "No plan was made.",
                    place=f"data.columns.{column}",
                )
        for name in axes:
            column, coding = axes.column(name), axes[name].coding
            column_form = form.in_column(column)
            codes = [*coding.texts, *(getattr(coding.values, "codes", ()) if coding.kind is str else ())]
            cleaned = codes if column_form.normalise or column_form.strip else ()
            lost = next((c for c in cleaned if clean(c, composed=bool(column_form.normalise)) != c), None)
            if lost is not None:
                raise SpecError(
                    "code-not-in-format",
                    f"The attribute {name!r} declares the code {lost!r}, which no text of the data is.",
                    "The format reads texts without blanks around them, or in composed characters.",
                    "Write the code so, or remove normalise and strip.",
                    "No plan was made.",
                    place=f"domain.{name}",
                )

    def _check_amounts(self) -> None:
        """Raise SpecError if the pattern, stated cell budgets or the tables of a small database use an amount."""
        table_attributes = used_attributes(self.workload) if self.workload.tables else set()
        # A free plan has the slack of earlier plans as its budgets, and their profiles can have amounts as axes.
        budgets = () if self.cell_budgets is None or self.must_be_free else self.cell_budgets.attributes
        uses = {
            "once_per, per_value, separation or fixed names it": self.unit.pattern.names,
            "cell budgets go by it": budgets,
            "a table for a small database shows it": table_attributes if self.small_database is not None else set(),
        }
        self._refuse_amounts(uses)

    def _check_amount_units(self) -> None:
        """Raise SpecError if the metadata state the unit of something that is no amount of the domain."""
        domain = self.workload.domain
        for name in self.metadata.amount_units:
            if name not in domain.steps:
                raise SpecError(
                    "metadata-unit-without-amount",
                    f"The metadata state the unit of {name!r}, which is no amount of the domain.",
                    f"The amounts of the domain are {list(domain.steps)}.",
                    "Name one of them; state the unit of counts as unit_of_measure.",
                    "No plan was made.",
                    place="metadata.amount_units",
                )

    def _refuse_amounts(self, uses: Mapping[str, Iterable[str]]) -> None:
        """Raise SpecError for a use of an amount that is neither a sum nor a mean."""
        for use, names in uses.items():
            amounts = set(self.workload.domain.steps).intersection(names)
            if amounts:
                raise SpecError(
                    "amount-unsupported",
                    f"The attribute {min(amounts)!r} is an amount, and {use}.",
                    "Of an amount, fitnoise publishes only sums and means.",
                    "Declare another attribute on the same column for this use, such as a Binned one.",
                    "No plan was made.",
                    place=min(amounts),
                )

    def _check_units(self) -> None:
        """Raise SpecError for a further unit that repeats another, has a name like another, or has a pattern or an id.

        Units that differ only in their neighbours can have one name; the two then have one pattern and one id.
        """
        object.__setattr__(self, "other_units", tuple(self.other_units))
        for i, unit in enumerate(self.other_units):
            before = (self.unit, *self.other_units[:i])
            if unit in before:
                raise SpecError(
                    "unit-twice",
                    f"The privacy unit {unit.describe()!r} is named twice.",
                    "",
                    "Name each privacy unit once.",
                    "No plan was made.",
                    place="privacy.other_units",
                )
            namesake = next((u for u in before if are_confusable(u.name, unit.name)), None)
            # Each further unit has an account of its own, so readers must be able to distinguish the names.
            if namesake is not None and namesake != replace(unit, neighbours=namesake.neighbours):
                raise SpecError(
                    "units-look-alike",
                    f"The names of the privacy units {namesake.describe()!r} and {unit.describe()!r} read the same.",
                    "Units of one name may differ only in their neighbours.",
                    "Give each unit a name that reads differently, or let the two differ only in their neighbours.",
                    "No plan was made.",
                    place="privacy.other_units",
                )
            # Records are counted once, by the rule of the first unit. The cost for another unit is a bound for all ways
            # in which its records can lie, so a pattern or an id there would have no effect.
            if namesake is None and unit.pattern:
                raise SpecError(
                    "further-unit-with-pattern",
                    f"The further unit {unit.describe()!r} has once_per, per_value, separation or fixed.",
                    "The price of a further unit does not use them.",
                    "State them of the first unit, and remove them here.",
                    "No plan was made.",
                    place="privacy.other_units",
                )
            if namesake is None and unit.id is not None:
                raise SpecError(
                    "further-unit-with-id",
                    f"The further unit {unit.describe()!r} has an id.",
                    "Only the first unit has an id, by which fitnoise counts records.",
                    "Give the id to the first unit, and max_records to the further unit.",
                    "No plan was made.",
                    place="privacy.other_units",
                )

    def _check_small(self) -> None:
        """Raise SpecError if another setting does not fit a small database."""
        if self.small_database is None:
            return
        if self.mechanism == "projection":
            object.__setattr__(self, "mechanism", None)
        if self.budget is None:
            raise SpecError(
                "projection-needs-budget",
                "The publication has a size, and no budget.",
                "The error of the projection mechanism depends on the budget.",
                "Give a budget, such as an epsilon with its delta.",
                "No plan was made.",
                place="budget",
            )
        refused = {
            "privacy.definition": (self.privacy is not Privacy.ZCDP, "pure noise", "Set privacy = 'zcdp'."),
            "objective.goal": (
                self.objective.goal is not Goal.FIT_FOR_USE,
                "this goal",
                "Use the goal fit-for-use: targets are relative to each other here.",
            ),
            "privacy.cell_budgets": (self.cell_budgets is not None, "cell budgets", "Remove cell_budgets."),
            "privacy.composed_with": (
                bool(self.composed_with),
                "plans on the same records",
                "Remove `privacy.composed_with`.",
            ),
        }
        for key, (wrong, what, action) in refused.items():
            if wrong:
                raise SpecError(
                    "projection-unsupported",
                    f"The projection mechanism does not support {what}.",
                    "",
                    action,
                    "No plan was made.",
                    place=key,
                )
        if (
            self.small_database.variant is Variant.PAPER
            and self.small_database.index is None
            and self.budget.epsilon is None
        ):
            raise SpecError(
                "paper-variant-needs-index",
                "The variant 'paper' has no index, and the budget is no epsilon.",
                "The index of the paper is ⌊ε n⌋.",
                "Give the budget as an epsilon with its delta, or give an index.",
                "No plan was made.",
                place="projection.index",
            )
        # The number of records itself is protected unless all neighbours have one number: answers of databases of
        # exactly the true size would reveal it.
        if self.small_database.region is Region.EXACTLY and not self.adjacency.fixes_size:
            raise SpecError(
                "exact-size-not-fixed",
                "The region is 'exactly', and a neighbour of the data can have another number of records.",
                "An exact size needs replace-one neighbours, units of one record, and no dropped record.",
                "Choose the region 'at-most', or replace-one neighbours.",
                "No plan was made.",
                place="projection.region",
            )

    def _check_further_tables(self) -> None:
        """Raise SpecError if further tables count other records, or repeat what the publication states once for all."""
        object.__setattr__(self, "further_tables", tuple(self.further_tables))
        if not self.workload.tables and not self.questions:
            raise SpecError(
                "nothing-to-publish",
                "The specification has no table and no question with finitely many answers.",
                "",
                "Add a table ([[tables]]) or a question ([[questions]]).",
                "No plan was made.",
                place="tables",
            )
        if not self.workload.tables and (
            self.further_tables
            or self.budget is not None
            or self.small_database is not None
            or self.mechanism is not None
        ):
            raise SpecError(
                "tables-missing",
                "The specification has further tables, a budget, a size or a mechanism, and no table.",
                "",
                "Add a table ([[tables]]), or remove further_tables, budget, size and mechanism.",
                "No plan was made.",
                place="tables",
            )
        if not self.further_tables:
            return
        taken = dict(zip(self.workload.tables.slugs(), self.workload.tables.names, strict=True))
        for other in self.further_tables:
            if (other.workload.domain, other.unit, other.source) != (self.workload.domain, self.unit, self.source):
                raise SpecError(
                    "parts-of-different-records",
                    "Further tables have another domain, unit or source than the first tables.",
                    "All tables of one release are about the same records.",
                    "Use one domain, one unit and one source.",
                    "No plan was made.",
                    place="further_tables",
                )
            # A plan takes these from the main publication alone: those of a part would have no effect.
            once = (
                other.cap,
                other.composed_with,
                other.must_be_free,
                other.questions,
                other.further_tables,
                other.other_units,
            )
            if any(once) or not other.workload.tables:
                raise SpecError(
                    "part-with-shared-settings",
                    "Further tables have a cap, plans on the same records, must_be_free, questions, units or further "
                    "tables, or have no tables.",
                    "The publication states these once for all of its tables.",
                    "Give them to the publication, and give each further part its tables.",
                    "No plan was made.",
                    place="further_tables",
                )
            # All parts write their tables into one folder, so the second of two equal files would replace the first.
            files = dict(zip(other.workload.tables.slugs(), other.workload.tables.names, strict=True))
            for file in sorted(taken.keys() & files):
                if taken[file] == files[file]:
                    raise _name_twice(files[file])
                raise file_name_twice(taken[file], files[file], file, "further_tables")
            taken |= files
        if self.must_be_free or Privacy.AUTO in {p.privacy for p in (self, *self.further_tables)}:
            raise SpecError(
                "parts-free-or-auto",
                "A publication with further tables has must_be_free, or one of its parts has privacy = 'auto'.",
                "Tables of several parts cannot be free, and each part states its own kind of privacy.",
                "Remove must_be_free, and choose 'zcdp' or 'pure' for each part.",
                "No plan was made.",
                place="further_tables",
            )

    def _check_finite(self) -> None:
        object.__setattr__(self, "questions", tuple(self.questions))
        if not self.questions:
            return
        if self.cell_budgets is not None:
            raise SpecError(
                "cell-budgets-with-questions",
                "The publication has cell budgets and a question with finitely many answers.",
                "A question costs its ε for every record, in any cell.",
                "Release the question in a publication of its own.",
                "No plan was made.",
                place="privacy.cell_budgets",
            )
        names = [q.name for q in self.questions]
        taken = sorted(
            {
                n
                for n in names
                if names.count(n) > 1 or any(n in p.workload.tables.numbered for p in (self, *self.further_tables))
            }
        )
        if taken:
            raise _name_twice(taken[0])
        if self.questions and self.must_be_free:
            raise SpecError(
                "free-with-questions",
                "The publication has must_be_free, and has a question with finitely many answers.",
                "Such a question always costs its ε.",
                "Remove must_be_free, or release the question in a publication of its own.",
                "No plan was made.",
                place="privacy.must_be_free",
            )
        for query in self.questions:
            question_attributes = {a for m in query.in_domain(self.domain).margins(self.domain.axes) for a in m}
            self._refuse_amounts({"a question with finitely many answers is about it": question_attributes})
            if query.question is QuestionKind.LEFT_OUT and self.unit.id is None:
                raise SpecError(
                    "left-out-question-needs-id",
                    f"The question {query.name!r} counts the persons who have more records than are counted, "
                    "and the unit has no id.",
                    "Counting persons needs an id.",
                    "Set privacy.id, or remove the question.",
                    "No plan was made.",
                    place="privacy.id",
                )
            # To build the graph is the check: a question whose neighbours are not supported fails here.
            query.graph(self.workload.domain, self.adjacency)

    def _check_privacy(self) -> None:
        # The cost of replacing a record belongs to a pair of cells, and budgets and profiles belong to single cells.
        pairwise = self.unit.neighbours is Neighbours.REPLACE_ONE
        if pairwise and (self.cell_budgets is not None or self.composed_with):
            raise SpecError(
                "single-record-options",
                "The publication has cell budgets or plans on the same records, and replace-one neighbours.",
                "Both are about single records.",
                "Use add-or-remove-one neighbours, or remove `cell_budgets` and `composed_with`.",
                "No plan was made.",
                place="privacy.neighbours",
            )
        if self.budget is not None and self.objective.goal is Goal.HYBRID:
            raise SpecError(
                "budget-with-hybrid",
                "The goal is hybrid, and the publication has a budget.",
                "A hybrid weighs privacy against error, and a budget fixes the privacy.",
                "Choose the goal total-error, or remove the budget.",
                "No plan was made.",
                place="objective.goal",
            )
        if self.cell_budgets is not None:
            domain = self.workload.domain
            for a in self.cell_budgets.attributes:
                if domain[a].hierarchy is not None:
                    raise SpecError(
                        "cell-budgets-by-level",
                        f"The cell budgets are by {a!r}, which is a level of {domain.attribute_of(a)!r}.",
                        "",
                        f"Give budgets by {domain.attribute_of(a)!r}, one for every leaf.",
                        "No plan was made.",
                        place="privacy.cell_budgets.attributes",
                    )
            cells = math.prod(domain[a].size for a in self.cell_budgets.attributes)
            if len(self.cell_budgets.values) != cells:
                raise SpecError(
                    "cell-budgets-misfit",
                    f"The attributes {list(self.cell_budgets.attributes)} have {cells} combinations of values, "
                    f"and there are {len(self.cell_budgets.values)} cell budgets.",
                    "",
                    "Give one budget for each combination of values.",
                    "No plan was made.",
                    place="privacy.cell_budgets.values",
                )
        object.__setattr__(self, "composed_with", tuple(self.composed_with))
        for name in self.composed_with:
            if not isinstance(name, str) or re.fullmatch("[0-9a-f]{64}", name) is None:
                raise SpecError(
                    "plan-hash-malformed",
                    f"A plan on the same records is named {name!r}.",
                    "A plan is named by its SHA-256, 64 hexadecimal digits in lower case.",
                    "Copy the hash of the plan.",
                    "No plan was made.",
                    place="privacy.composed_with",
                )
        # Profiles add cell by cell only if both plans count the same records.
        if self.composed_with and self.unit.id is not None:
            raise SpecError(
                "composed-plans-with-id",
                f"The publication names plans on the same records, and the unit {self.unit.name!r} has an id.",
                f"Each of these plans chooses by itself which records of one {self.unit.name} are counted.",
                "Remove `privacy.composed_with`: charges then add up.",
                "No plan was made.",
                place="privacy.composed_with",
            )
        if self.must_be_free and not self.composed_with:
            raise SpecError(
                "free-needs-composed-plans",
                "The publication has must_be_free, and names no plan on the same records.",
                "Only a release on the same records as other plans can be free.",
                "Name these plans in `privacy.composed_with`, or remove `privacy.must_be_free`.",
                "No plan was made.",
                place="privacy.must_be_free",
            )
        if len(set(self.composed_with)) != len(self.composed_with):
            raise SpecError(
                "plan-twice",
                "A plan on the same records is named twice.",
                "",
                "Name each plan once.",
                "No plan was made.",
                place="privacy.composed_with",
            )

    def _check_pattern(self) -> None:
        """Raise SpecError unless the pattern of a unit's records is stated in attributes of the domain."""
        domain, pattern = self.workload.domain, self.unit.pattern
        for what, attributes in pattern.attributes_by_rule.items():
            for a in attributes:
                # `a in domain` is true for levels of hierarchies too, and a pattern needs complete attributes.
                if a not in set(domain):
                    level = f", a level of {domain.attribute_of(a)!r}" if a in domain else ""
                    raise SpecError(
                        "pattern-attribute-unknown",
                        f"The key {what} names {a!r}{level}.",
                        f"It must name attributes of the domain: {list(domain)}.",
                        "Name one of these attributes.",
                        "No plan was made.",
                        place=f"privacy.{what}",
                    )
        for a, _ in pattern.separation:
            if not domain[a].ordered or domain[a].missing_cells:
                why = "has cells for missing values" if domain[a].ordered else "has no order"
                raise SpecError(
                    "separation-needs-order",
                    f"The key separation names {a!r}, which {why}.",
                    "Separation needs an ordered or a binned attribute without cells for missing values.",
                    "Name another attribute, or use once_per.",
                    "No plan was made.",
                    place="privacy.separation",
                )
        if pattern and self.cell_budgets is not None:
            raise SpecError(
                "cell-budgets-with-pattern",
                f"The publication has cell budgets, and the unit {self.unit.name!r} has once_per, "
                "per_value, separation or fixed.",
                "Cell budgets are about records that share a cell.",
                "Remove the cell budgets, or remove these keys.",
                "No plan was made.",
                place="privacy.cell_budgets",
            )
        # The noise of a projection is calibrated for records of a unit that may all be equal.
        if pattern and self.small_database is not None:
            raise SpecError(
                "projection-with-pattern",
                f"The publication has a size, and the unit {self.unit.name!r} has once_per, per_value, "
                "separation or fixed.",
                "The projection mechanism cannot use them: it protects equal records of one unit.",
                "Remove these keys, which costs more privacy, or remove the size.",
                "No plan was made.",
                place="size",
            )

    def _check_merge(self) -> None:
        """Raise SpecError unless the merged attributes are amounts with ends in integer steps from zero, up to 2³¹."""
        domain = self.workload.domain
        for a in self.unit.sum_within_unit:
            if a not in domain.steps:
                raise SpecError(
                    "sum-within-unit-needs-amount",
                    f"The key sum_within_unit names {a!r}, which is not an amount of the domain.",
                    f"The amounts of the domain are {list(domain.steps)}.",
                    "Declare it as an amount, or remove it from sum_within_unit.",
                    "No plan was made.",
                    place="privacy.sum_within_unit",
                )
            try:
                # To widen the coding is the check: records are added up before the sum is cut to the range.
                domain[a].coding.uncut()
            except DomainError as e:
                raise SpecError(
                    "sum-within-unit-amount-unusable",
                    f"The key sum_within_unit names {a!r}, and this amount cannot be added up. {e.given}",
                    e.needed,
                    e.action,
                    "No plan was made.",
                    place="privacy.sum_within_unit",
                ) from None

    def _check_shares(self) -> None:
        """Raise SpecError if shares of records are counted for anything except tables with Gaussian noise."""
        refused = {
            "questions with finitely many answers": bool(self.questions),
            "a small database": self.small_database is not None,
            "a series": self.series is not None,
            "an amount in the domain": bool(self.workload.domain.steps),
            f"privacy = {self.privacy.value!r}": self.privacy is not Privacy.ZCDP,
        }
        for what, is_present in refused.items():
            if is_present and self.unit.parts > 1:
                raise SpecError(
                    "shares-unsupported",
                    f"The key count is 'shares', and the publication has {what}.",
                    "Shares are for tables with Gaussian noise.",
                    f"Remove {what}, or use count = 'records'.",
                    "No plan was made.",
                    place="privacy.count",
                )

    def _check_series(self) -> None:
        """Raise SpecError unless the tables can be released period by period: each shows the periods."""
        if self.series is None:
            return
        domain, parts = self.workload.domain, self.workload.tables.parts
        period = domain.get(self.series) if self.series in set(domain) else None
        if not isinstance(period, (Ordered, Categorical)) or period.missing_cells:
            raise SpecError(
                "series-attribute-unusable",
                f"The attribute {self.series!r} cannot be the periods of a series.",
                "Periods are the values of an ordered or categorical attribute in order of time, without "
                "cells for missing values.",
                "Name such an attribute of the domain.",
                "No plan was made.",
                place="series.attribute",
            )
        if len(set(period.values)) < period.size:
            raise SpecError(
                "series-periods-of-one-label",
                f"Two periods of {self.series!r} have one label.",
                "Each period of a series is drawn by its label.",
                "Give each period a label of its own.",
                "No plan was made.",
                place="series.attribute",
            )
        refused = {
            "questions with finitely many answers": bool(self.questions),
            "further tables": bool(self.further_tables),
            "plans on the same records": bool(self.composed_with),
            "a small database": self.small_database is not None,
            "cell budgets": self.cell_budgets is not None,
            "a goal other than fit-for-use": self.objective.goal is not Goal.FIT_FOR_USE,
            "a definition of privacy other than zcdp": self.privacy is not Privacy.ZCDP,
            "neighbours that replace a record": self.unit.neighbours is Neighbours.REPLACE_ONE,
            "sums and means of amounts": bool(used_attributes(self.workload) & set(domain.steps)),
            "an amount whose range depends on the period": any(
                domain[a].coding.attribute == self.series for a in domain.steps
            ),
        }
        for what, is_present in refused.items():
            if is_present:
                raise SpecError(
                    "series-unsupported",
                    f"The publication is a series, and has {what}.",
                    "A series is released period by period, which does not support this.",
                    "Remove it, or remove the series.",
                    "No plan was made.",
                    place="series",
                )
        for t in parts:
            name = t.name if isinstance(t, Table) else t.describe()
            if not isinstance(t, Table) or t.matrix is not None or self.series not in t.attributes:
                raise SpecError(
                    "series-table-without-periods",
                    f"The table {name!r} does not show {self.series!r}, or is a pattern or a matrix.",
                    "Every table of a series is a single table that shows the periods.",
                    f"Show {self.series!r} in it; compute sums over periods from the release.",
                    "No plan was made.",
                    place="tables",
                )
            view = t.view(self.series)
            # Once drawn, a period stays as it is: none of its rows may need counts of a later period.
            if view.missing or not view.is_causal:
                raise SpecError(
                    "series-view-unsupported",
                    f"The table {name!r} shows {self.series!r} in a way that a series does not support.",
                    "A series shows its periods by value, as cumulative, to_date, change or average.",
                    "Use one of these; compute other sums over periods from the release.",
                    "No plan was made.",
                    place="tables",
                )
            if (
                t.target.attribute == self.series
                or isinstance(t.target.number, ByTableSize)
                or isinstance(t.target.reference, PublicTotal)
                or t.target.kind is TargetKind.MAX_DEVIATION
            ):
                raise SpecError(
                    "series-target-varies",
                    f"The target of {name!r} depends on the number of periods, or differs between periods.",
                    "In a series one target holds for all periods.",
                    "Give a margin, a standard error, a variance, or a relative_std_error of one count.",
                    "No plan was made.",
                    place="tables",
                )

    def _check_public(self) -> None:
        """Raise SpecError unless tables and settings fit public totals, and count the records that totals count."""
        held, fixes_size = self.unit.within, self.adjacency.fixes_size
        counted = self.public.attributes if self.public is not None and self.public.is_counted_here else None
        if held != tuple(sorted(counted or ())) or (counted is not None and not held and not fixes_size):
            raise SpecError(
                "public-within-misfit",
                f"The unit is {self.unit.describe()!r}, and the public totals are "
                + (
                    "missing."
                    if self.public is None
                    else f"from {self.public.origin!r}, by {list(self.public.attributes)}."
                ),
                "Totals counted from these data need replace-one neighbours, with the same attributes in within, and "
                "no record that can be added or removed; and within needs such totals.",
                "State the same attributes in privacy.within and in public.by with origin = 'these data', or use "
                "totals of an independent source without within.",
                "No plan was made.",
                place="privacy.within",
            )
        if self.public is None:
            return
        domain, public = self.workload.domain, self.public.attributes
        free, bound = exchangeable_attributes(self.workload)
        is_fixed_size = fixes_size and not public
        # Two records of one public cell differ by the same, for any multiple of the totals that answers lack.
        is_limited = self.unit.neighbours is Neighbours.REPLACE_ONE and not (is_fixed_size or held)
        replaced = "with replaced records and totals from elsewhere"
        refused = {
            "an id, which counts only some records of a person": self.unit.id is not None,
            "once_per, per_value, separation, fixed or sum_within_unit": bool(
                self.unit.pattern or self.unit.sum_within_unit
            ),
            "dropped records": domain.axes.drops_values(self.source, self.unit.bound),
            f"rules about impossible cells, {replaced}": bool(domain.rules) and is_limited,
            f"ranges, groups, sums, targets by value or a shared column of {bound}, {replaced}": bool(bound)
            and is_limited,
            "further tables": bool(self.further_tables),
            "within with further units or questions": bool(held and (self.other_units or self.questions)),
            "plans on the same records": bool(self.composed_with),
            "a small database": self.small_database is not None,
            "a series": self.series is not None,
            "cell budgets": self.cell_budgets is not None,
            "a goal other than fit-for-use": self.objective.goal is not Goal.FIT_FOR_USE and not is_fixed_size,
            "a definition of privacy other than zcdp": self.privacy is not Privacy.ZCDP,
        }
        for what, is_present in refused.items():
            if is_present:
                raise SpecError(
                    "public-unsupported",
                    f"The publication has public totals, and {what}.",
                    "Public totals count the records that tables count.",
                    "Remove it, or remove the public totals.",
                    "No plan was made.",
                    place="public",
                )
        has_matrix = any(isinstance(x, Table) and x.matrix is not None for x in self.workload.tables.parts)
        if has_matrix and not is_fixed_size:
            raise SpecError(
                "public-with-matrix",
                "The publication has public totals, and a table is a matrix of queries.",
                "Public totals are for tables of attributes.",
                "State the queries as tables, or remove the public totals.",
                "No plan was made.",
                place="public",
            )
        used = used_attributes(self.workload)
        possible = [a for a in domain if a in used and domain[a].tree is None and a not in domain.steps]
        for a in public:
            if a not in possible:
                raise SpecError(
                    "public-attribute-not-shown",
                    f"The public totals are by {a!r}, which no table shows, or which has places or amounts.",
                    f"Each must be an attribute that a table shows, without levels and amounts: {possible}.",
                    "Name such an attribute, or remove it.",
                    "No plan was made.",
                    place="public.by",
                )
        if all(domain.sizes[a] == 1 for a in (*free, *bound) if a not in public):
            raise SpecError(
                "public-knows-all-tables",
                f"All tables follow from the public totals by {list(public)}.",
                "A release needs a number that is not public.",
                "Add a table that shows another attribute, or remove the public totals.",
                "No plan was made.",
                place="public",
            )

    def _check_promise(self) -> None:
        """Raise SpecError if a setting does not fit the definition of privacy: pure ε, ρ-zCDP, or a choice of them."""
        for key, what, limit in (("budget", "budget", self.budget), ("privacy.cap", "cap", self.cap)):
            pure = limit is not None and limit.pure is not None
            if pure and self.privacy is not Privacy.PURE:
                raise SpecError(
                    "pure-limit-needs-pure",
                    f"The {what} is an epsilon without delta, and privacy is {self.privacy.value!r}.",
                    "Only pure differential privacy can keep such a limit.",
                    "Set privacy = 'pure', or give a delta.",
                    "No plan was made.",
                    place=key,
                )
            if limit is not None and not pure and self.privacy is Privacy.PURE:
                raise SpecError(
                    "pure-needs-epsilon",
                    f"The {what} is in rho or mu, or has a delta, and privacy is 'pure'.",
                    "Pure differential privacy has an epsilon and no delta.",
                    f"Give the {what} as an epsilon, without delta.",
                    "No plan was made.",
                    place=key,
                )
        if self.privacy is Privacy.ZCDP:
            return
        if self.privacy is Privacy.AUTO and self.mechanism is not None:
            raise SpecError(
                "mechanism-with-auto",
                f"The mechanism is {self.mechanism!r}, and privacy is 'auto'.",
                "With 'auto', fitnoise chooses between the mechanisms of both kinds of noise.",
                "Set privacy = 'zcdp' or 'pure', or remove mechanism.",
                "No plan was made.",
                place="mechanism",
            )
        refused = {
            "objective.goal": ("the goal hybrid", self.objective.goal is Goal.HYBRID),
            "privacy.cell_budgets": ("cell_budgets", self.cell_budgets is not None),
            "privacy.composed_with": ("plans on the same records", bool(self.composed_with)),
        }
        for key, (what, stated) in refused.items():
            if stated:
                raise SpecError(
                    "zcdp-only",
                    f"The publication has {what}, and privacy is {self.privacy.value!r}.",
                    "This needs Gaussian noise.",
                    f"Set privacy = 'zcdp', or remove {key}.",
                    "No plan was made.",
                    place=key,
                )
        if self.privacy is Privacy.PURE and self.gap is not None:
            raise SpecError(
                "pure-without-gap",
                "The publication has a gap, and privacy is 'pure'.",
                "There is no known bound that pure strategies reach.",
                "Remove the gap: the plan states its ratio to the proven bound.",
                "No plan was made.",
                place="accuracy.gap",
            )

    @cached_property
    def groups(self) -> tuple[Publication, ...]:
        """The publication of the first tables alone, then the further ones, without questions. Empty without tables."""
        if not self.workload.tables:
            return ()
        # Questions cost and draw on their own, so the publication of tables is that of a plan without them.
        main_group = replace(self, questions=(), further_tables=()) if self.questions or self.further_tables else self
        return (main_group, *self.further_tables)

    @property
    def allows_amounts_within_cuts(self) -> bool:
        """True if its plan may count an amount jointly with cuts of its column.

        Laplace noise and series do not. Public totals are of attributes whose values are interchangeable, and such cuts
        are not.
        """
        is_gaussian = all(group.privacy is Privacy.ZCDP for group in self.groups)
        return is_gaussian and self.series is None and self.public is None

    def with_joint_axes(self, joint: Sequence[JointAxis]) -> Self:
        """Return this publication over its domain with joint axes (:meth:`Domain.with_joint_axes`); it compares equal.

        Args:
            joint: The joint axes of a plan.

        Raises:
            DomainError: A joint axis does not fit the attributes.
        """
        further = tuple(part.with_joint_axes(joint) for part in self.further_tables)
        return replace(self, workload=self.workload.with_joint_axes(joint), further_tables=further)

    @property
    def domain(self) -> Domain:
        """The domain of the records."""
        return self.workload.domain

    @property
    def confidence(self) -> float:
        """The confidence level of margins of error, unless a table has its own."""
        return self.workload.confidence

    @property
    def adjacency(self) -> Adjacency:
        """The neighbour relation of two databases."""
        return self.workload.domain.axes.adjacency(self.source, self.unit)

    @property
    def public_attributes(self) -> tuple[str, ...] | None:
        """The attributes of public totals; None without them."""
        return None if self.public is None else self.public.attributes

    @property
    def structured_attributes(self) -> tuple[str, ...]:
        """Attributes that must be structured: those of cell budgets, the periods, or all used for a small database.

        Where records in a pattern are replaced, under zCDP, the attributes of caps of one record are structured, too. A
        unit's removed records can lie at other values than its added ones.
        """
        if self.small_database is not None:
            # A histogram counts every joint cell of these attributes, so none of their values can be merged into
            # groups.
            return tuple(sorted(used_attributes(self.workload)))
        if self.series is not None:
            return (self.series,)
        budgets = () if self.cell_budgets is None else self.cell_budgets.attributes
        capped = {a for names, _ in self.adjacency.pattern.caps for a in names}
        is_priced = self.privacy is Privacy.ZCDP and not self.adjacency.by_cell and not self.adjacency.pattern.fixed
        is_priced = is_priced and all(n == 1 for _, n in self.adjacency.pattern.caps)
        if not is_priced or not capped <= used_attributes(self.workload):
            return budgets
        separate = (*budgets, *sorted(capped - {*budgets}))
        cells = math.prod(self.domain.sizes[a] for a in exchangeable_attributes(self.workload, separate)[1])
        return separate if cells <= MAX_REPLACED_CELLS else budgets
