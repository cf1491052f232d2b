"""The specification: the unit of protection, the tables to publish, and their accuracy.

pydantic validates a document (TOML, or JSON inside a plan). It converts to the plain objects of a publication and back
without loss: `Spec.from_publication(publication).publication() == publication`.

fitnoise guesses nothing: it refuses a number given as text, true for 1, and every unknown key.

Each section has its keys, `build` for the plain object that they state, and `document_of` for the keys of an object.
"""

from __future__ import annotations

import contextlib
import re
import reprlib
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import Field, ValidationError, model_validator

from fitnoise.errors import FitnoiseError, SpecError
from fitnoise.kernel.designs.questions import QuestionKind
from fitnoise.kernel.formats import Format
from fitnoise.kernel.units import (
    MAX_RECORDS,
    CountBasis,
    DataSource,
    Neighbours,
    OutsideDomain,
    Pattern,
    Privacy,
    PrivacyUnit,
    Region,
)
from fitnoise.request.arguments import checked
from fitnoise.request.attributes import ATTRIBUTES, Attribute, AttributeSpec, attribute_document
from fitnoise.request.by_language import by_language, check_tag, main_text
from fitnoise.request.domain import Domain
from fitnoise.request.finite_queries import Aim, FiniteQuery
from fitnoise.request.impossible_rules import ImpossibleBox, PossibleList, Rule, box_from, list_from
from fitnoise.request.known_totals import KnownTotals
from fitnoise.request.metadata import Metadata, MetadataSpec
from fitnoise.request.publication import (
    Budget,
    CellBudgets,
    ErrorWeights,
    Goal,
    Objective,
    Publication,
    SmallDatabase,
    Variant,
)
from fitnoise.request.record import RecordSpec
from fitnoise.request.selected_values import SelectedValues, SingleValue
from fitnoise.request.selections import Selection
from fitnoise.request.spec_errors import (
    OUTCOME,
    complaints,
    not_toml,
    number_advice,
    several_problems,
    unreadable_file,
)
from fitnoise.request.spec_section import SpecSection, resolve_file
from fitnoise.request.table_section import TableSpec
from fitnoise.request.targets import checked_confidence
from fitnoise.request.toml_text import toml_text
from fitnoise.request.translations import metadata_by_language, metadata_document, translations_of
from fitnoise.request.workloads import Family, Table, Workload

MAX_PROBLEMS = 200
"""The largest number of pydantic's errors that are read."""

# --- the document -----------------------------------------------------------------------------------


class CostSpec(SpecSection):
    """A privacy cost, stated as exactly one of rho, mu and epsilon."""

    rho: float | str | None = Field(
        None,
        description='The cost ρ of zero-concentrated differential privacy; a text such as "1/28" is exact. If absent, '
        "another key states the cost.",
    )
    mu: float | None = Field(
        None,
        description="The cost μ of Gaussian differential privacy, for continuous noise. If absent, another key states "
        "the cost.",
    )
    epsilon: float | str | None = Field(
        None,
        description="The guaranteed ε at delta; under pure privacy the cost ε, exact as a text. If absent, another key "
        "states the cost.",
    )
    delta: float | None = Field(None, description="The δ of epsilon. If absent, privacy.delta applies.")

    def build(self, delta: float | None) -> Budget:
        """Return the budget. An epsilon without its own δ gets `delta`, or stays pure without one."""
        # ρ and μ have no δ: the default must not join them.
        implied = delta if self.epsilon is not None else None
        epsilon = None if self.epsilon is None else _exact("epsilon", self.epsilon)
        return Budget(
            rho=None if self.rho is None else _exact("rho", self.rho),
            mu=self.mu,
            # Only a pure ε is used exactly. One with δ goes into curves that are computed in doubles.
            epsilon=epsilon if epsilon is None or (implied is None and self.delta is None) else float(epsilon),
            delta=implied if self.delta is None else self.delta,
        )

    @classmethod
    def document_of(cls, budget: Budget | None, delta: float) -> dict[str, Any] | None:
        """Return a privacy cost in its own measure, ρ and a pure ε as exact texts; None without one.

        Args:
            budget: The cost.
            delta: The δ of the publication; the document leaves it out.
        """
        if budget is None:
            return None
        return {
            # As texts: a float would lose digits of a fraction such as 1/3, and a plan would be charged another cost.
            "rho": None if budget.rho is None else str(budget.rho),
            "mu": budget.mu,
            "epsilon": budget.epsilon if budget.pure is None else str(budget.pure),
            "delta": None if budget.delta == delta else budget.delta,
        }


# At most three digits of an exponent: a fraction of 1e999999999 would fill the memory.
_EXACT_NUMBER = re.compile(r"\d+(/\d+)?|(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)


def exact_number(text: str, outcome: str = OUTCOME) -> Fraction:
    """Return a number ≥ 0 written in decimals, or as a fraction such as "1/28", exactly.

    Args:
        text: The number.
        outcome: The sentence that says what did not happen if the text is not a number.

    Raises:
        SpecError: The text is not such a number, or divides by 0. Or its exponent has more than three digits, or it has
            more digits than Python reads.
    """
    try:
        # `Fraction` alone also reads signs, spaces and underscores.
        if _EXACT_NUMBER.fullmatch(text):
            return Fraction(text)
    except (ValueError, ZeroDivisionError):  # more digits than Python reads, or x/0
        pass
    raise SpecError(
        "not-an-exact-number",
        f"The text {reprlib.repr(text)} is not a number of at least 0.",
        "It must be a number such as 0.05, or a fraction such as '1/28'.",
        number_advice(text, "Write such a number or fraction."),
        outcome,
    )


def _exact(key: str, value: float | str) -> Fraction:
    """Return the number of a key, exactly; an error names the key."""
    try:
        return exact_number(str(value))
    except SpecError as error:
        raise error.with_place(key) from None


_Bound = int | float | date | str


class BoundsSpec(SpecSection):
    """Bounds of the values of a column, or its allowed values."""

    values: list[bool | int | float | str] | None = Field(
        None, min_length=1, description="The allowed values. If absent, the bounds decide."
    )
    at_least: _Bound | None = Field(None, description="The smallest allowed value. If absent, there is no such bound.")
    above: _Bound | None = Field(
        None, description="A value that allowed values exceed. If absent, there is no such bound."
    )
    at_most: _Bound | None = Field(None, description="The largest allowed value. If absent, there is no such bound.")
    below: _Bound | None = Field(
        None, description="A value below which allowed values lie. If absent, there is no such bound."
    )


class FormatSpec(SpecSection):
    """The forms of texts in the data."""

    decimal: str | None = Field(
        None, description='The mark before the decimal places of numbers: "." or ",". If absent, it is the point.'
    )
    thousands: str | None = Field(
        None,
        description="The separator between groups of three digits of numbers, such as a point or a space. If absent, "
        "nothing stands between digits.",
    )
    date: str | None = Field(
        None,
        description='The form of dates, such as "%d.%m.%Y" or "%m/%d/%Y %H:%M". If absent, dates are written as '
        "2024-02-29, with or without a time.",
    )
    zone: str | None = Field(
        None,
        description='The time zone of local times, such as "Europe/Vienna": times with an offset or Z are read as '
        "local times there. If absent, a time with an offset is no date.",
    )
    normalise: bool | None = Field(
        None,
        description="If true, texts are read in composed characters (Unicode NFC), with plain spaces, and without "
        "blanks around them. If absent, each character counts.",
    )
    strip: bool | None = Field(
        None, description="If true, texts are read without blanks around them. If absent, blanks around codes count."
    )
    lookup: dict[str, str | int | float] | None = Field(
        None, description='Texts with their meaning, such as { "85+" = 85 }. If absent, no text has another meaning.'
    )

    def form(self) -> Format:
        """Return the forms, without those of single columns."""
        return Format(**{key: getattr(self, key) for key in FormatSpec.model_fields})


class DataSpec(FormatSpec):
    """Public facts about the data."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "lookups": "Write a table of codes as the lookup of its attribute, or name its file as lookup_file."
    }

    source: str = Field("default", description="The name of the data.")
    account: str | None = Field(
        None,
        description="The account under which the ledger sums privacy costs: one for all sources about the same people, "
        "such as the quarters of a survey. If absent, the name of the source is the account.",
    )
    table: str | None = Field(
        None,
        description="The table of a database or DuckDB file, as table or schema.table, or the sheet of an Excel file. "
        "If absent, the command names the data.",
    )
    outside_domain: OutsideDomain = Field(
        OutsideDomain.REFUSE,
        strict=False,
        description="The treatment of records without an id, or with a missing or undeclared value whose attribute "
        'states no treatment: "refuse" the data, or "drop" such records from every table. Only to drop, fitnoise also '
        "reads attributes that no table uses.",
    )
    max_records: int = Field(
        MAX_RECORDS,
        description="A public bound on the number of records, which you promise. Only sums, shares and arrays of "
        "counts refuse more records; other numbers may then be wrong.",
    )
    view: Literal["promised"] | None = Field(
        None,
        description='Your promise about a view or another query: with `"promised"`, one record of the unit changes one '
        "row of the view. fitnoise cannot check the promise, and repeats it. If absent, fitnoise counts tables, and "
        "views whose definition shows this.",
    )
    max_dropped: float | None = Field(
        None,
        description="The largest share of records, from 0 to 1, that may be dropped because they are outside the "
        "domain or have no id. Above it the count stops before any charge. If absent, any share may be dropped.",
    )
    where: dict[str, SingleValue | date | list[SingleValue] | BoundsSpec] = Field(
        {},
        description="The conditions of the records that are counted, by column: one value, a list of allowed texts, a "
        "table with `values`, or bounds. If absent, all records are counted.",
    )

    columns: dict[str, FormatSpec] = Field(
        {},
        description="The forms of texts in single columns, by column; a key here replaces that of [data]. If absent, "
        "all columns have the forms of [data].",
    )

    def conditions(self) -> dict[str, Any]:
        """Return the content of `where`, as plain values."""
        return _plain_conditions(self.where)

    def format(self) -> Format | None:
        """Return the forms of texts; None if none is declared."""
        form = replace(self.form(), columns={column: each.form() for column, each in self.columns.items()})
        return form if form.document else None


def _plain_conditions(where: Mapping[str, Any]) -> dict[str, Any]:
    """Return conditions by column or attribute as plain values."""
    bounds = {c: x.model_dump(exclude_none=True) for c, x in where.items() if isinstance(x, BoundsSpec)}
    return {**where, **bounds}


class RulesSpec(SpecSection):
    """The treatment of impossible records, for all rules of [[impossible]] and [[possible]]."""

    outside: OutsideDomain | None = Field(
        None,
        strict=False,
        description='The treatment of impossible records: "refuse" the data, or "drop" such records from every table. '
        "If absent, data.outside_domain decides.",
    )


class PossibleSpec(SpecSection):
    """A list of the combinations of several attributes that are possible; no record has another one."""

    file: str | None = Field(
        None,
        description="A CSV file with a column for each attribute or level, with its values; its path is relative to "
        "the specification. If absent, rows has the combinations.",
    )
    attributes: list[str] | None = Field(
        None, description="The attributes or levels of rows. If absent, the columns of file are the attributes."
    )
    rows: list[list[bool | int | str]] | None = Field(
        None, description="The combinations, each with a value for each of attributes. If absent, file has them."
    )

    def build(self, folder: Path | None) -> Rule:
        """Return the rule.

        Args:
            folder: The folder of the specification; None if it is not known.

        Raises:
            SpecError: There is not exactly one of a file, and attributes with rows of their values.
            DomainError: The file cannot be read.
        """
        names, rows = self.attributes, self.rows
        if self.file is not None and names is None and rows is None:
            return list_from(resolve_file(folder, "file", self.file))
        if self.file is not None or names is None or rows is None or {*map(len, rows)} != {len(names)}:
            raise SpecError(
                "possible-source",
                "A list of possible combinations has neither a file alone, nor attributes and rows of their values.",
                "Each row has one value for each of attributes.",
                "Give file, or attributes and rows.",
                OUTCOME,
                place="file",
            )
        return PossibleList(tuple(names), tuple(dict.fromkeys(map(tuple, rows))))


class PublicSpec(SpecSection):
    """Numbers of records that are public. The release does not measure them, and costs less."""

    by: list[str] = Field(
        description="The attributes of the totals, each shown by a table. An empty list stands for the number of all "
        "records."
    )
    source: str = Field(description="The publication that has the totals, in one line.")
    origin: str = Field(
        "elsewhere",
        description='"elsewhere": the totals were not computed from the data of this release. "these data": they were, '
        "and are published without protection; this needs replace-one neighbours, and privacy.within with the same "
        "attributes if there are some.",
    )

    def build(self) -> KnownTotals:
        """Return the public totals."""
        return KnownTotals(tuple(self.by), self.source, self.origin)

    @classmethod
    def document_of(cls, totals: KnownTotals) -> dict[str, Any]:
        """Return public totals as plain JSON values."""
        return {"by": list(totals.attributes), "source": totals.source, "origin": totals.origin}


class CellBudgetsSpec(SpecSection):
    """Relative privacy budgets of records, from 0 to 1, by the values of some attributes."""

    attributes: list[str] = Field(description="The attributes whose values decide.")
    values: list[float] | dict[str, float] = Field(
        description="The budget for every combination of values, in C order; for one attribute also a table value = "
        "budget."
    )
    default: float | None = Field(
        None, description="The budget of values that are not named. If absent, every value needs a budget."
    )

    def build(self, domain: Domain) -> CellBudgets:
        """Return the budgets of every joint cell of the attributes, in C order."""
        labels_by_attribute = {a: [str(v) for v in domain[a].cell_names] for a in self.attributes}
        if not isinstance(self.values, dict):
            if self.default is not None:
                raise SpecError(
                    "default-with-list",
                    "The cell budgets are a list, and have a default.",
                    "A list has one budget for every combination of values.",
                    "Remove the default, or give budgets by value.",
                    "No data were read.",
                    place="default",
                )
            return CellBudgets(tuple(self.attributes), tuple(self.values))
        if len(self.attributes) != 1:
            raise SpecError(
                "budgets-by-value",
                f"The cell budgets are given by value for {len(self.attributes)} attributes.",
                "Budgets by value are of exactly one attribute.",
                "List one budget for every combination of the values, in C order.",
                "No data were read.",
                place="values",
            )
        ((name, labels),) = labels_by_attribute.items()
        # The keys of TOML tables are texts, so values are compared by their texts.
        unknown = [v for v in self.values if v not in labels]
        missing = [v for v in labels if v not in self.values] if self.default is None else []
        if unknown:
            raise SpecError(
                "budget-value-unknown",
                f"A budget is given for {unknown[0]!r}, which is not among the values of {name!r}.",
                "",
                "Name values of the attribute.",
                "No data were read.",
                place="values",
            )
        if missing:
            raise SpecError(
                "budget-value-missing",
                f"The values {', '.join(missing[:3])} have no budget.",
                "",
                "Give them budgets, or give a default.",
                "No data were read.",
                place="values",
            )
        rest = 1.0 if self.default is None else self.default
        return CellBudgets((name,), tuple(self.values.get(v, rest) for v in labels))

    @classmethod
    def document_of(cls, budgets: CellBudgets | None) -> dict[str, Any] | None:
        """Return a budget for each combination of values, in C order; None without budgets."""
        return None if budgets is None else {"attributes": list(budgets.attributes), "values": list(budgets.values)}


class UnitSpec(SpecSection):
    """A further unit of protection: the plan states its privacy cost, and the ledger charges an account for it."""

    unit: str = Field(description="The name of one unit, in the singular.")
    persons: int | None = Field(
        None,
        description="The largest number of protected units in one further unit, each with its largest number of "
        "records. If absent, max_records sets the bound.",
    )
    max_records: int | None = Field(
        None, description="The largest number of records of one further unit. If absent, persons sets the bound."
    )
    neighbours: Neighbours | None = Field(
        None,
        strict=False,
        description="The neighbour relation of the further unit. If absent, it is the relation of the protected unit.",
    )

    def build(self, protected_unit: PrivacyUnit) -> PrivacyUnit:
        """Return the further unit.

        Args:
            protected_unit: The unit that `persons` counts, and whose neighbours are the default.
        """
        if (self.persons is None) == (self.max_records is None):
            raise SpecError(
                "further-unit-size",
                f"The further unit {self.unit!r} has {'neither' if self.persons is None else 'both'} of "
                "persons and max_records.",
                "",
                "Give exactly one of them.",
                "No data were read.",
            )
        if self.persons is not None and self.persons < 1:
            raise SpecError(
                "persons-too-few",
                f"The key persons is {self.persons}.",
                "It must be a whole number of at least 1.",
                "Give such a number.",
                "No data were read.",
                place="persons",
            )
        if self.persons is not None and protected_unit.id is not None:
            raise SpecError(
                "persons-with-id",
                f"The further unit {self.unit!r} has persons, and the unit {protected_unit.name!r} has an id.",
                "There is no price yet for several units with an id.",
                f"State max_records of one {self.unit}, as an assumption, or remove the further unit.",
                "No data were read.",
                place="persons",
            )
        # A further unit of the protected unit's name is that unit with other neighbours: it has its id and pattern.
        same = self.unit == protected_unit.name
        unit_id, pattern, counted = (
            (protected_unit.id, protected_unit.pattern, protected_unit.count)
            if same
            else (None, Pattern(), CountBasis.RECORDS)
        )
        records = self.max_records if self.persons is None else self.persons * protected_unit.max_records
        return PrivacyUnit(
            self.unit,
            records or 0,
            protected_unit.neighbours if self.neighbours is None else self.neighbours,
            unit_id,
            *pattern,
            count=counted,
            sum_within_unit=protected_unit.sum_within_unit if same else (),
        )


class LeftOutSpec(SpecSection):
    """The number of units with more records than are counted, with a privacy cost of its own.

    Short for a question in [[questions]].
    """

    name: str = Field("left_out", description="The name under which the number is published.")
    people: int = Field(description="The largest answer, public; a larger number is published as this one.")
    epsilon: float | str = Field(
        description='The pure ε that the answer costs one unit; a text such as "1/2" is exact.'
    )

    def as_finite(self) -> FiniteSpec:
        """Return this question in the form of the others."""
        return FiniteSpec(name=self.name, query=QuestionKind.LEFT_OUT, people=self.people, epsilon=self.epsilon)


class PrivacySpec(SpecSection):
    """The unit of protection and the kind of privacy.

    `privacy = "pure"` is short for a table with only this definition.
    """

    definition: Privacy = Field(
        Privacy.ZCDP,
        strict=False,
        description='The definition of privacy: "zcdp" (Gaussian noise), "pure" (Laplace noise, ε without δ) or '
        '"auto": the noise with the smaller ε at the targets, or with the smaller errors at a budget.',
    )
    unit: str = Field("record", description="The name of one protected unit, in the singular.")
    id: str | None = Field(
        None,
        description="The column that names the unit of each record; fitnoise then counts at most max_records records "
        "of each unit. If absent, max_records is an assumption that fitnoise does not check.",
    )
    max_records: int = Field(1, description="The largest number of records of one unit that are counted.")
    once_per: list[str] = Field(
        [],
        description="Attributes, such as month: at most one record of a unit is counted for each combination of their "
        "values. Without an id this is an assumption. If absent, there is no such limit.",
    )
    per_value: dict[str, int] = Field(
        {},
        description="Attributes, such as month, with the largest number of records of a unit that are counted for each "
        "value. Without an id this is an assumption. If absent, there is no such limit.",
    )
    separation: dict[str, int] = Field(
        {},
        description="Ordered attributes, such as month, with the smallest distance in cells of two counted records of "
        "a unit. Without an id this is an assumption. If absent, there is no such limit.",
    )
    fixed: list[str] = Field(
        [],
        description="Attributes, such as birth_year, in which all counted records of a unit agree. Without an id this "
        "is an assumption. If absent, there is no such limit.",
    )
    count: CountBasis = Field(
        CountBasis.RECORDS,
        strict=False,
        description='The weight of a record: "records" (each counts one) or "shares" (each record of a unit counts an '
        "equal part of one). With shares tables count units. Shares need an id, and take no max_records.",
    )
    sum_within_unit: list[str] = Field(
        [],
        description="Amounts, such as turnover: records of a unit that agree in everything else become one record with "
        "the sum of these amounts. This happens before records are chosen, and needs an id. If absent, no records are "
        "merged.",
    )
    left_out: LeftOutSpec | None = Field(
        None,
        description="A question about the number of units with more records than are counted; needs an id. If absent, "
        "this number is not published.",
    )
    neighbours: Neighbours = Field(
        Neighbours.ADD_OR_REMOVE_ONE,
        strict=False,
        description="The change of one unit that stays hidden: its records are added or removed, or replaced. Where "
        "records are only replaced, tables need their number as public totals with by = [].",
    )
    within: list[str] = Field(
        [],
        description="Attributes in which a record and its replacement agree, for replace-one neighbours and totals by "
        "these attributes that are counted from the data. That a unit is counted, and its values of these attributes, "
        "are then not protected. If absent, all attributes are protected.",
    )
    delta: float = Field(1e-6, description="The δ at which ε is reported.")
    cap: CostSpec | None = Field(
        None,
        description="The largest cost of this plan; fitnoise refuses a plan that costs more. It sets no cap in the "
        "ledger: `fitnoise ledger cap` limits all releases of an account. If absent, no cost is refused.",
    )
    cell_budgets: CellBudgetsSpec | None = Field(
        None, description="Relative budgets of records, by cell. If absent, all cells have the same budget."
    )
    composed_with: list[str] = Field(
        [],
        description="The hashes of plans measured on exactly the same records, which fitnoise cannot check. The ledger "
        "composes this plan with them cell by cell. If absent, the ledger adds the costs.",
    )
    must_be_free: bool = Field(
        False, description="True to refuse the release if it would raise the spent cost; needs the hash of a plan."
    )
    other_units: list[UnitSpec] = Field(
        [],
        description="Further units, such as a household of persons; each has its own cost and charge. If absent, there "
        "is one unit.",
    )


class SeriesSpec(SpecSection):
    """Tables that are released period by period and charged once, for all periods together."""

    attribute: str = Field(
        description="The attribute whose values are the periods, in order of time: ordered, or categorical in the "
        "declared order."
    )


class AccuracySpec(SpecSection):
    """The confidence level of the margins, and the proven distance of the plan from the least cost."""

    confidence: float = Field(0.95, description="The confidence level of the margins.")
    gap: float | None = Field(
        None,
        description="The largest allowed value of cost/bound − 1, with the proven lower bound of the cost. fitnoise "
        "refuses a plan above it. If absent, fitnoise aims at 1e-6 and reports the value that it reached.",
    )


class ObjectiveSpec(SpecSection):
    """The quantity that a plan minimises."""

    goal: Goal = Field(
        Goal.FIT_FOR_USE,
        strict=False,
        description='The goal: "fit-for-use" (every number meets its target), "total-error" (only the weighted sum of '
        'variances does), or "hybrid". A hybrid meets every target and minimises cost and sum together.',
    )
    weights: ErrorWeights = Field(
        ErrorWeights.UNIFORM,
        strict=False,
        description="The weight of each variance in the sum: 1, or computed from its target.",
    )
    total_error_weight: float | None = Field(
        None,
        description='The amount of Δ² that one unit of the weighted sum is worth; for the goal "hybrid" only. If '
        'absent, the goal is not "hybrid".',
    )

    def build(self) -> Objective:
        """Return the objective."""
        return Objective(self.goal, self.weights, self.total_error_weight)

    @classmethod
    def document_of(cls, objective: Objective) -> dict[str, Any]:
        """Return the keys of an objective."""
        weight = objective.total_error_weight
        return {
            "goal": objective.goal,
            "weights": objective.weights,
            "total_error_weight": None if weight is None else float(weight),
        }


_Where = dict[str, SelectedValues]


class ProjectionSpec(SpecSection):
    """The noise and the estimates for a small database. Simulation on public histograms chooses absent settings."""

    region: Literal["at-most", "exactly"] = Field(
        "at-most", description='The meaning of size: an upper bound ("at-most") or the number of records ("exactly").'
    )
    index: int | None = Field(
        None,
        description="The index k of the Ky Fan noise, from 1 (equal noise) to the rank. If absent, simulation chooses "
        "it.",
    )
    temperature: float | None = Field(
        None,
        description="The temperature of the estimate, from 0 (nearest answers) to 0.1. If absent, simulation chooses "
        "it.",
    )
    variant: Literal["full", "paper"] = Field(
        "full",
        description='The variant of the mechanism: "full", or "paper" for Algorithm 1 as printed, for comparisons.',
    )


class FiniteSpec(SpecSection):
    """A question with finitely many answers, published under pure ε together with the tables.

    With tables of Gaussian noise, the release as a whole has a δ.
    """

    name: str = Field(description="The name of the question.")
    query: QuestionKind = Field(
        strict=False,
        description='The kind of question. The question "sum" is about an ordered attribute; "left_out" counts units '
        "with more records than are counted.",
    )
    attribute: str | None = Field(
        None,
        description="The attribute that is summed, or whose median or quantile is published. If absent, the question "
        "counts.",
    )
    quantile: float | str | None = Field(
        None,
        description='The share of the records at or below the quantile, such as 0.9 or "1/3". If absent, the question '
        "is no quantile.",
    )
    where: _Where | list[_Where] | None = Field(
        None,
        description="The conditions that all counted records meet, by attribute: a range, a list of codes or one "
        "value. A list is [first, last] for an attribute with an order. Several counts need a list of conditions. If "
        "absent, all records count.",
    )
    people: int = Field(
        description="The largest number of counted records, public: more are refused. The exact number where all "
        'neighbours have equally many records; for "left_out" the largest answer.'
    )
    epsilon: float | str = Field(
        description='The pure ε that the answer costs one unit; a text such as "1/2" is exact.'
    )
    prior: list[float] | None = Field(
        None,
        description="The probability of each result before the release; privacy does not depend on it. If absent, all "
        "results are equally likely.",
    )
    aim: Aim = Field(
        Aim.HIT_RATE,
        strict=False,
        description="The average over the prior that the mechanism optimises: the share of right answers, or an error.",
    )

    def build(self, domain: Domain) -> FiniteQuery:
        """Return the question."""
        # Dumped first: the model holds its own classes for ranges, and the kernel reads plain lists and keys.
        stated = self.model_dump(include={"where"})["where"]
        conditions = stated if isinstance(stated, list) else [] if stated is None else [stated]
        where = []
        for condition in conditions:
            for a in condition:
                if a not in domain:
                    raise SpecError(
                        "condition-attribute-unknown",
                        f"A condition names {a!r}, which is not in the domain.",
                        "",
                        "Name attributes of the domain.",
                        "No data were read.",
                        place="where",
                    )
            where.append(tuple((a, Selection.parse(v)) for a, v in condition.items()))
        prior = None if self.prior is None else tuple(self.prior)
        cost = _exact("epsilon", self.epsilon)
        return FiniteQuery(
            name=self.name,
            question=self.query,
            people=self.people,
            epsilon=cost,
            attribute=self.attribute,
            where=tuple(where),
            prior=prior,
            aim=self.aim,
            quantile_share=None if self.quantile is None else _exact("quantile", self.quantile),
        )

    @classmethod
    def document_of(cls, query: FiniteQuery) -> dict[str, Any]:
        """Return the keys of a question."""
        # Several counts have a list of conditions, and every other question at most one condition.
        where = [{a: values.document for a, values in condition} for condition in query.where]
        return {
            "name": query.name,
            "query": query.question,
            "attribute": query.attribute,
            "quantile": None if query.quantile_share is None else str(query.quantile_share),
            "where": where if query.question is QuestionKind.COUNTS else where[0] if where else None,
            "people": query.people,
            "epsilon": str(query.epsilon),
            "prior": None if query.prior is None else list(query.prior),
            "aim": query.aim,
        }


def _small(mechanism: str | None, size: int | None, projection: ProjectionSpec | None) -> SmallDatabase | None:
    """Return the facts about a small database; None for every mechanism but "projection", which alone needs them."""
    if mechanism != "projection":
        if size is not None or projection is not None:
            raise SpecError(
                "size-without-projection",
                "The specification has a size or a projection, and another mechanism.",
                'Both belong to mechanism = "projection".',
                "Set this mechanism, or remove size and projection.",
                "No data were read.",
                place="size",
            )
        return None
    if size is None:
        raise SpecError(
            "projection-needs-size",
            "The mechanism is projection, and the size is missing.",
            "It needs the public number of records, or a bound on it.",
            "Set size.",
            "No data were read.",
            place="size",
        )
    settings = projection or ProjectionSpec()
    return SmallDatabase(size, Region(settings.region), settings.index, settings.temperature, Variant(settings.variant))


def _mechanism_document(publication: Publication) -> dict[str, Any]:
    """Return the keys that state the mechanism of tables, and the small database."""
    small = publication.small_database
    if small is None:
        return {"mechanism": publication.mechanism}
    settings = {
        "region": small.region.value,
        "index": small.index,
        "temperature": small.temperature,
        "variant": small.variant.value,
    }
    # A document leaves out what equals the defaults, so that one publication has one document and one hash.
    usual = small == SmallDatabase(small.size)
    return {
        "mechanism": publication.mechanism or "projection",
        "size": small.size,
        "projection": None if usual else settings,
    }


class FurtherTablesSpec(SpecSection):
    """Further tables of the same records, measured in the same release with a mechanism and targets of their own."""

    tables: list[TableSpec] = Field(min_length=1, description="The tables.")
    privacy: Literal["zcdp", "pure"] = Field(
        "zcdp", description="The definition of privacy of these tables; privacy.definition does not change it."
    )
    confidence: float | None = Field(
        None, description="The confidence level of margins without their own. If absent, accuracy.confidence applies."
    )
    gap: float | None = Field(
        None,
        description="The largest allowed value of cost/bound − 1, with the proven lower bound of the cost. If absent, "
        "fitnoise aims at 1e-6 and reports the value that it reached.",
    )
    objective: ObjectiveSpec = Field(
        ObjectiveSpec(),
        description="The quantity that the plan of these tables minimises. If absent, it is the least cost at which "
        "every number meets its target.",
    )
    budget: CostSpec | None = Field(
        None,
        description="The exact cost to spend on these tables; their targets are then relative. If absent, the tables "
        "meet their targets at the least cost.",
    )
    cell_budgets: CellBudgetsSpec | None = Field(
        None, description="Relative budgets of records, by cell. If absent, all cells have the same budget."
    )
    mechanism: str | None = Field(None, description="As mechanism at the top. If absent, fitnoise chooses.")
    size: int | None = Field(
        None,
        description="The public number of records of a small database, or an upper bound. If absent, the "
        "database is not small.",
    )
    projection: ProjectionSpec | None = Field(
        None,
        description='The settings of the mechanism "projection". If absent, simulation on public histograms chooses '
        "them.",
    )

    def build(self, domain: Domain, main: Publication, folder: Path | None) -> Publication:
        """Return the tables, with the unit, the source and the δ of the main publication."""
        tables = [t.build(domain, folder) for t in self.tables]
        for t in tables:
            t.check(domain)
        confidence = main.confidence if self.confidence is None else self.confidence
        checked_confidence(confidence)
        promised = Privacy(self.privacy)
        return Publication(
            Workload(domain, tables, confidence),
            main.unit,
            main.source,
            delta=main.delta,
            gap=self.gap,
            # An ε without a δ is pure where the tables are; otherwise the δ of the publication completes it.
            budget=None if self.budget is None else self.budget.build(None if promised is Privacy.PURE else main.delta),
            objective=self.objective.build(),
            cell_budgets=None if self.cell_budgets is None else self.cell_budgets.build(domain),
            privacy=promised,
            small_database=_small(self.mechanism, self.size, self.projection),
            mechanism=self.mechanism,
        )

    @classmethod
    def document_of(cls, tables: Publication, confidence: float) -> dict[str, Any]:
        """Return the keys of further tables; their confidence only if it differs from that of the first tables."""
        w = tables.workload
        return {
            "tables": [TableSpec.document_of(x) for x in w.tables.parts],
            "privacy": tables.privacy,
            "confidence": None if w.confidence == confidence else w.confidence,
            "gap": tables.gap,
            "objective": ObjectiveSpec.document_of(tables.objective),
            "budget": CostSpec.document_of(tables.budget, tables.delta),
            "cell_budgets": CellBudgetsSpec.document_of(tables.cell_budgets),
            **_mechanism_document(tables),
        }


class Spec(SpecSection):
    """A specification, with its keys at the top and its sections."""

    title: str | dict[str, str] = Field(
        "",
        description="The title of the publication, shown in reports, or titles by language. If absent, reports have no "
        "title.",
    )
    language: str = Field(
        "en",
        description="The language of title, labels, names and metadata, as a tag of BCP 47. Labels in this language "
        "identify values, in every file and question.",
    )
    names: dict[str, dict[str, str]] = Field(
        {},
        description="Other words for names, by language, which reports and workbooks show: of attributes, levels, "
        "tables, questions, units, the source, groups and categories for missing values. If absent, they show the "
        "names.",
    )
    data: DataSpec = Field(
        DataSpec(), description="Public facts about the data. If absent, the defaults of its keys apply."
    )
    privacy: PrivacySpec = Field(
        PrivacySpec(),
        description="The unit of protection and the kind of privacy. If absent, the defaults of its keys apply.",
    )
    accuracy: AccuracySpec = Field(
        AccuracySpec(),
        description="The confidence level and the proven distance from the least cost. If absent, the defaults of its "
        "keys apply.",
    )
    objective: ObjectiveSpec = Field(
        ObjectiveSpec(),
        description="The quantity that the plan minimises. If absent, it is the least cost at which every number meets "
        "its target.",
    )
    series: SeriesSpec | None = Field(
        None,
        description="The periods of a release period by period (`fitnoise release --period`). If absent, all tables "
        "are released at once.",
    )
    budget: CostSpec | None = Field(
        None,
        description="The exact cost to spend; targets are then relative. A cap is set in privacy.cap. If absent, the "
        "plan meets the targets at the least cost.",
    )
    domain: dict[str, AttributeSpec] = Field(
        min_length=1, description="The attributes, by name, with all values that the data may hold."
    )
    impossible: list[dict[str, SingleValue | date | list[SingleValue] | BoundsSpec]] = Field(
        [],
        description="Rules about impossible records, each in the form of where, by attribute or level: no record has "
        "all of these values together. State facts of law or definition, and none that you read off the data. Data "
        "with such a record are refused, unless rules.outside drops it. If absent, no record is impossible by such a "
        "rule.",
    )
    possible: list[PossibleSpec] = Field(
        [],
        description="Lists of possible combinations of several attributes; all others are impossible. If absent, no "
        "list excludes a combination.",
    )
    rules: RulesSpec = Field(
        RulesSpec(), description="The treatment of impossible records. If absent, the defaults of its keys apply."
    )
    public: list[PublicSpec] = Field(
        [],
        description="Totals that are public; one entry at most. The plan has no numbers: `fitnoise release "
        "--public` reads them from a file. Intervals are right if the totals are. If absent, all numbers are measured.",
    )
    tables: list[TableSpec] = Field(
        [], description="The tables to publish. If absent, the specification asks questions."
    )
    mechanism: str | None = Field(
        None,
        description='The mechanism that answers the tables, by the name in its plans, such as "fit-for-use-by-axis"; '
        '"projection" for small databases, with biased answers that a database of the size could give. If absent, '
        "fitnoise chooses an unbiased one.",
    )
    size: int | None = Field(
        None,
        description="The public number of records of a small database, or an upper bound. If absent, the "
        "database is not small.",
    )
    projection: ProjectionSpec | None = Field(
        None,
        description='The settings of the mechanism "projection". If absent, simulation on public histograms chooses '
        "them.",
    )
    questions: list[FiniteSpec] = Field(
        [], description="Questions with finitely many answers. If absent, there is no question."
    )
    further_tables: list[FurtherTablesSpec] = Field(
        [], description="Further tables, with a mechanism and targets of their own. If absent, there are none."
    )
    metadata: MetadataSpec = Field(
        MetadataSpec(),
        description="Statements for catalogues and archives: period, region, contact, licence. The plan has them, and "
        "its hash does not cover them. If absent, there are none.",
    )
    record: RecordSpec | None = Field(
        None,
        description="The texts for a registry of deployments, which `fitnoise write record` reads; they are no part "
        "of the plan. If absent, the registry gets gaps to fill.",
    )

    @model_validator(mode="before")
    @classmethod
    def _definition_as_table(cls, document: Any) -> Any:
        """Replace `privacy = "pure"` by [privacy] definition = "pure"."""
        if isinstance(document, Mapping) and isinstance(document.get("privacy"), str):
            return {**document, "privacy": {"definition": document["privacy"]}}
        return document

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Spec:
        """Validate a document.

        Raises:
            SpecError: A key is unknown, missing or of the wrong kind. The error lists the first ten such keys. If
                there are several, its `problems` has all among the first :data:`MAX_PROBLEMS` that pydantic finds.
        """
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            # `complaints` compares every two errors, and a document of many tables can have one for each key.
            raise several_problems(complaints(error.errors()[:MAX_PROBLEMS], document)) from None

    @classmethod
    def from_toml(cls, text: str) -> Spec:
        """Return the specification in TOML text.

        Args:
            text: The text of a specification.

        Raises:
            SpecError: The text is not TOML, and the message has the line if the TOML reader states one. Or it is nested
                too deeply or not a specification; see :meth:`parse`.
        """
        try:
            document = tomllib.loads(text)
        except ValueError as error:  # TOMLDecodeError, or a whole number of more digits than Python reads
            raise not_toml("The specification", text, error, OUTCOME) from None
        except RecursionError:
            raise SpecError(
                "nested-too-deeply",
                "The specification has tables or lists that are nested too deeply.",
                "",
                "Write it with fewer levels.",
                OUTCOME,
            ) from None
        return cls.parse(document)

    def to_toml(self) -> str:
        """Return the document as TOML, without what equals the defaults."""
        return toml_text(self.document())

    def document(self) -> dict[str, Any]:
        """Return the document as plain JSON values, without what equals the defaults."""
        return self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)

    def publication(self, folder: str | Path | None = None) -> Publication:
        """Return the specification as plain objects.

        Args:
            folder: The folder of the files that the specification names. None refuses a specification that names a
                file, so that reading a plan opens no other file.

        Raises:
            SpecError: Something cannot be meant as written. A mistake in an attribute hides those of tables, questions
                and cell budgets. Otherwise the error lists all mistakes within single parts, with their places in the
                document. Without such mistakes, it is the first in which parts do not fit together.
        """
        # After a mistake the defaults stand in, so that the later parts are checked as well.
        folder_path, p, d = None if folder is None else Path(folder), self.privacy, self.data
        unit, source = PrivacyUnit(), DataSource()
        self._check_tags()
        wrong = _SpecErrors()
        attributes, labels = self._attributes(folder_path, wrong)
        with wrong.located_at("privacy"):
            unit = PrivacyUnit(
                p.unit,
                p.max_records,
                p.neighbours,
                p.id,
                once_per=tuple(p.once_per),
                per_value=p.per_value,
                separation=p.separation,
                fixed=tuple(p.fixed),
                count=p.count,
                sum_within_unit=tuple(p.sum_within_unit),
                within=tuple(p.within),
            )
        units = wrong.each(p.other_units, "privacy.other_units", lambda other: other.build(unit))
        with wrong.located_at("data"):
            source = DataSource(
                d.source,
                d.table,
                d.outside_domain,
                d.max_records,
                d.account,
                where=d.conditions(),
                max_dropped=d.max_dropped,
                outside_rules=self.rules.outside,
                format=d.format(),
                view=d.view,
            )
        small = wrong.one("projection", lambda: _small(self.mechanism, self.size, self.projection), None)
        with wrong.located_at("accuracy"):
            checked_confidence(self.accuracy.confidence)
        objective = wrong.one("objective", self.objective.build, Objective())
        metadata = wrong.one(
            "metadata",
            lambda: metadata_by_language(self.metadata.model_dump(), self.language),
            {self.language: Metadata()},
        )
        # Under pure privacy an epsilon without δ stays pure: privacy.delta does not apply.
        implied = None if p.definition is Privacy.PURE else p.delta
        cap = budget = cells = None
        with wrong.located_at("privacy.cap"):
            cap = None if p.cap is None else p.cap.build(implied)
        with wrong.located_at("budget"):
            budget = None if self.budget is None else self.budget.build(implied)
        # Without all attributes, tables and questions would fail for attributes that the document declares.
        if len(attributes) < len(self.domain):
            wrong.refuse()
        with _located_at("domain"):
            domain = self._with_rules(Domain(attributes), folder_path)

        def build_table(table: TableSpec) -> Table | Family:
            built = table.build(domain, folder_path)
            # `Workload` repeats this check, and would not know the position of the table in the document.
            built.check(domain)
            return built

        tables = wrong.each(self.tables, "tables", build_table)

        def question(spec: FiniteSpec) -> FiniteQuery:
            built = spec.build(domain)
            # `Publication` repeats this, and would not know the position of the question in the document.
            built.graph(domain, domain.axes.adjacency(source, unit))
            return built

        questions = wrong.each(self.questions, "questions", question)
        if p.left_out is not None:
            with wrong.located_at("privacy.left_out"):
                questions.append(question(p.left_out.as_finite()))
        with wrong.located_at("privacy.cell_budgets"):
            cells = None if p.cell_budgets is None else p.cell_budgets.build(domain)
        wrong.refuse()
        with _located_at("tables"):
            workload = Workload(domain, tables, self.accuracy.confidence)
        with _located_at(""):
            # First without further tables: these take the unit, the source and δ from it.
            request = Publication(
                workload,
                unit,
                source,
                delta=p.delta,
                gap=self.accuracy.gap,
                cap=cap,
                budget=budget,
                title=main_text(self.title, self.language, "title"),
                objective=objective,
                cell_budgets=cells,
                composed_with=tuple(p.composed_with),
                must_be_free=p.must_be_free,
                privacy=p.definition,
                questions=tuple(questions),
                small_database=small,
                other_units=tuple(units),
                series=None if self.series is None else self.series.attribute,
                public=self._known_totals(),
                mechanism=self.mechanism,
                metadata=metadata.pop(self.language),
                language=self.language,
                translations=translations_of(self.language, self.title, labels, self.names, metadata),
            )
        further = []
        for i, group in enumerate(self.further_tables):
            with _located_at(f"further_tables[{i}]"):
                further.append(group.build(domain, request, folder_path))
        with _located_at("further_tables"):
            return replace(request, further_tables=tuple(further)) if further else request

    def _check_tags(self) -> None:
        """Raise SpecError unless the keys language and names have tags of languages."""
        # Checked first: with a wrong tag each text by language would lack the main language.
        with _located_at(""):
            check_tag(self.language, "language")
            for tag in self.names:
                check_tag(tag, f"names.{tag}")

    def _attributes(
        self, folder: Path | None, wrong: _SpecErrors
    ) -> tuple[dict[str, Attribute], dict[str, dict[str, Sequence[str]]]]:
        """Return the attributes without problems, and for each further language the labels by attribute or level."""
        attributes: dict[str, Attribute] = {}
        labels: dict[str, dict[str, Sequence[str]]] = {}
        for name, attribute in self.domain.items():
            with wrong.located_at(f"domain.{name}"):
                sections = attribute.in_languages(self.language, folder)
                built = sections.pop(self.language).build(folder)
                for tag, section in sections.items():
                    labels.setdefault(tag, {}).update(section.texts(name, built, tag))
                attributes[name] = built
        return attributes, labels

    def _known_totals(self) -> KnownTotals | None:
        """Return the public totals, or None without them."""
        if len(self.public) > 1:
            raise SpecError(
                "public-several",
                f"The specification has {len(self.public)} entries of public totals.",
                "One change of a record can keep several totals only if it keeps them jointly.",
                "Give one entry, by all of the attributes together.",
                OUTCOME,
                place="public",
            )
        return next((totals.build() for totals in self.public), None)

    def _with_rules(self, domain: Domain, folder: Path | None) -> Domain:
        """Return a domain with the rules about impossible cells."""

        def checked_rule(rule: Rule) -> Rule:
            rule.ruled_cells(domain)
            return rule

        wrong = _SpecErrors()
        rules = wrong.each(self.impossible, "impossible", lambda x: checked_rule(box_from(_plain_conditions(x))))
        rules += wrong.each(self.possible, "possible", lambda x: checked_rule(x.build(folder)))
        wrong.refuse()
        return domain.with_rules(rules)

    @classmethod
    def from_publication(cls, publication: Publication, *, is_measured: bool = False) -> Spec:
        """Return the document of a publication.

        Args:
            publication: The publication to write.
            is_measured: True to leave out languages and texts in further languages, which no measurement depends on.

        Raises:
            SpecError, WorkloadError: A specification cannot state some part, such as an attribute, a view or a target
                of another class.
        """
        w, s, u = publication.workload, publication.source, publication.unit
        language, translations = publication.language, {} if is_measured else publication.translations
        domain = {name: _attribute_document(name, a) for name, a in w.domain.items()}

        def further_labels(name: str) -> dict[str, list[str]]:
            return {tag: list(x.labels[name]) for tag, x in translations.items() if name in x.labels}

        for name, keys in domain.items():
            if keys.get("labels"):
                keys["labels"] = by_language(language, keys["labels"], further_labels(name))
            for level, own_names in keys.get("names", {}).items():
                keys["names"][level] = by_language(language, own_names, further_labels(level))
        titles = {tag: x.title for tag, x in translations.items() if x.title}
        document: dict[str, Any] = {
            "title": by_language(language, publication.title, titles),
            "language": "en" if is_measured else language,
            "names": {tag: dict(x.names) for tag, x in translations.items() if x.names},
            "data": {
                "source": s.name,
                "account": s.account,
                "table": s.table,
                "outside_domain": s.outside_domain,
                "max_records": s.max_records,
                "max_dropped": s.max_dropped,
                "where": {c.column: c.document for c in s.conditions},
                "view": s.view,
                **({} if s.format is None else s.format.document),
            },
            "privacy": {
                "unit": u.name,
                "id": u.id,
                "max_records": u.max_records,
                "once_per": list(u.once_per),
                "per_value": dict(u.per_value),
                "separation": dict(u.separation),
                "fixed": list(u.fixed),
                "count": u.count,
                "sum_within_unit": list(u.sum_within_unit),
                "neighbours": u.neighbours,
                "within": list(u.within),
                "delta": publication.delta,
                "cap": CostSpec.document_of(publication.cap, publication.delta),
                "cell_budgets": CellBudgetsSpec.document_of(publication.cell_budgets),
                "composed_with": list(publication.composed_with),
                "must_be_free": publication.must_be_free,
                "definition": publication.privacy,
                "other_units": [
                    {"unit": x.name, "max_records": x.max_records}
                    | ({} if x.neighbours is u.neighbours else {"neighbours": x.neighbours})
                    for x in publication.other_units
                ],
            },
            "accuracy": {"confidence": w.confidence, "gap": publication.gap},
            "objective": ObjectiveSpec.document_of(publication.objective),
            "series": None if publication.series is None else {"attribute": publication.series},
            "budget": CostSpec.document_of(publication.budget, publication.delta),
            "domain": domain,
            "impossible": [rule.document for rule in w.domain.rules if isinstance(rule, ImpossibleBox)],
            "possible": [rule.document for rule in w.domain.rules if isinstance(rule, PossibleList)],
            "rules": {"outside": s.outside_rules},
            "public": [] if publication.public is None else [PublicSpec.document_of(publication.public)],
            "tables": [TableSpec.document_of(p) for p in w.tables.parts],
            "questions": [FiniteSpec.document_of(q) for q in publication.questions],
            **_mechanism_document(publication),
            "metadata": metadata_document(
                language, publication.metadata, {tag: x.metadata for tag, x in translations.items()}
            ),
            "further_tables": [FurtherTablesSpec.document_of(p, w.confidence) for p in publication.further_tables],
        }
        return cls.parse(document)


def _attribute_document(name: str, a: Attribute) -> dict[str, Any]:
    """Return the declaration of an attribute, without its name.

    Args:
        name: The name of the attribute, for the error only.
        a: The attribute.

    Raises:
        SpecError: The attribute is of none of the kinds that a specification can declare, such as a subclass of one.
    """
    # A subclass may read data in another way than the document of its parent says.
    if type(a) not in ATTRIBUTES:
        raise SpecError(
            "attribute-class-unknown",
            f"The attribute {name!r} has the class {type(a).__name__}, which no specification can declare.",
            "",
            "Declare it as Categorical, Ordered, Binned, Amount or Hierarchy.",
            "No data were read.",
            place=name,
        )
    return attribute_document(a)


_P = TypeVar("_P")

_Built = TypeVar("_Built")


class _SpecErrors:
    """The problems in several places of a document, which one error reports."""

    def __init__(self) -> None:
        self.found: list[SpecError] = []

    @contextlib.contextmanager
    def located_at(self, where: str) -> Iterator[None]:
        """Remember an error with its place in the document."""
        try:
            yield
        except FitnoiseError as error:
            self.found.append(located(error, where))

    def one(self, where: str, build: Callable[[], _Built], default: _Built) -> _Built:
        """Return the result of a part, or a default if it has a problem, which is remembered."""
        results = [default]
        with self.located_at(where):
            results.append(build())
        return results[-1]

    def each(self, parts: Iterable[_P], where: str, build: Callable[[_P], _Built]) -> list[_Built]:
        """Return the results of the parts of a list; the problems of parts without a result are remembered."""
        built = []
        for i, part in enumerate(parts):
            with self.located_at(f"{where}[{i}]"):
                built.append(build(part))
        return built

    def refuse(self) -> None:
        """Raise one SpecError for all problems found; return if nothing was found."""
        # One error for all places: a publisher who corrects a document sees every mistake at once.
        if self.found:
            raise several_problems(self.found)


@contextlib.contextmanager
def _located_at(where: str) -> Iterator[None]:
    """Give an error its place in the document, and say that no data were read."""
    try:
        yield
    except FitnoiseError as error:
        raise located(error, where) from error


def located(error: FitnoiseError, where: str) -> SpecError:
    """Return an error as SpecError, with its place in the document.

    Args:
        error: The error, of any class.
        where: The path of the part at fault; empty for the specification.

    **Guarantees**
        * The code and the sentences stay, except for the outcome, which becomes `OUTCOME`.
        * A place that is a path of the document stays, except in further tables. One that is a key of the part follows
          `where`. Any other place, such as a column, becomes `where`, unless `where` is empty.
    """
    # Errors of other classes keep their sentences, and become errors of the document that caused them.
    if isinstance(error, SpecError):
        problem = error
    else:
        problem = SpecError(*error.args, place=error.place, values=error.values)
        problem.area = error.area
    path = _path_of(where, error.place)
    return (problem if path is None else problem.with_place(path)).with_outcome(OUTCOME)


def _path_of(where: str, key: str | None) -> str | None:
    """Return the path of a key in a part of the document; a column or a name, which is no key, is left out."""
    if key is None or not where:
        return key or where or None
    # An error of an object names its argument, such as `values[3]`; the first part decides whose key it is.
    first_key = re.split(r"[.\[]", key, maxsplit=1)[0]
    # A key of the top level is a complete path, except in further tables and attributes, which have some of these keys.
    if first_key in Spec.model_fields and not where.startswith(("further_tables[", "domain.")):
        return key
    return f"{where}.{key}" if first_key in _keys(SpecSection) else where


def _keys(part: type[SpecSection]) -> set[str]:
    """Return the keys of a part and of those that are derived from it."""
    return set(part.model_fields).union(*map(_keys, part.__subclasses__()))


@checked(SpecError, "Nothing was read.")
def load_spec(path: str | Path) -> Publication:
    """Read a TOML specification and the files it names, of codes, places, lookups and targets.

    Raises:
        SpecError: A file cannot be read or used; no data were read.
    """
    path = Path(path)
    try:
        # Editors on Windows may put a byte order mark first, which tomllib refuses.
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable_file(f"The specification {path.name!r}", error, OUTCOME) from None
    return Spec.from_toml(text).publication(path.parent)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a specification."""
    schema = Spec.model_json_schema()
    privacy = schema["properties"]["privacy"]
    schema["properties"]["privacy"] = {
        "anyOf": [{"$ref": privacy.pop("$ref")}, {"$ref": "#/$defs/Privacy"}],  # a table of keys, or one word
        **privacy,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
