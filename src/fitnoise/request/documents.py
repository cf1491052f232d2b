"""The specification: who is protected, which tables will be published, how accurate each must be.

A document (TOML, or JSON inside a plan) validated by pydantic, with the plain objects of a publication on the other
side; they convert into each other without loss: `Spec.of(publication).publication() == publication`.

Nothing is guessed: a number given as text, or true for 1, is refused, like every key that is not known.

(A little longer than other rooms: the document, its way in and its way out belong on one page.)
"""

from __future__ import annotations

import contextlib
import re
import reprlib
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, final

import numpy as np
from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from fitnoise.algebra import operators as op
from fitnoise.errors import FitnoiseError, SpecError
from fitnoise.kernel.arguments import checked
from fitnoise.kernel.designs.questions import Aim, FiniteQuery, Question
from fitnoise.kernel.domain import Attribute, Domain
from fitnoise.kernel.selections import Selection
from fitnoise.kernel.units import (
    MAX_RECORDS,
    Counted,
    DataSource,
    Neighbours,
    OutsideDomain,
    Pattern,
    Privacy,
    PrivacyUnit,
    Region,
)
from fitnoise.request.attributes import AttributeSpec, BySpec, file_beside
from fitnoise.request.complaints import (
    OUTCOME,
    complaints,
    not_toml,
    number_advice,
    several_problems,
    unreadable_file,
)
from fitnoise.request.parts import Part
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
from fitnoise.request.targets import By, BySize, Kind, PublicTotal, checked_confidence
from fitnoise.request.workloads import Family, Table, Workload, all_tables, table
from fitnoise.request.written import (
    ORDERS,
    also_document,
    cell_budgets_document,
    cost_document,
    finite_document,
    named_attribute_document,
    small_document,
    table_document,
    toml,
)

MAX_PROBLEMS = 200
"""Largest number of pydantic's errors that are read."""

# --- the document -----------------------------------------------------------------------------------


class ByFileSpec(Part):
    """The same from a CSV file with a column called as the attribute, such as one of places."""

    by: str
    file: str
    column: str = Field(description="of the number for each value, or of the class it is in")
    values: dict[str, float] | None = Field(None, description="the number for each class")
    default: float | None = None

    def build(self, folder: Path | None) -> By:
        """The rule; SpecError where the folder of its file is not known."""
        return By.from_file(file_beside(folder, "file", self.file), self.by, self.column, self.values, self.default)


class BySizeSpec(Part):
    """A target that follows the size of its table: coefficient · k^power for k numbers, within limits."""

    coefficient: float
    power: float
    least: float | None = None
    most: float | None = None


class PublicTotalSpec(Part):
    """A public number of records, spread over the table: each of its k numbers is total/k on average."""

    total: float


class SpanSpec(Part):
    """A range of values, ends included."""

    first: int | float | str
    last: int | float | str


class ValuesSpec(Part):
    """Single values."""

    values: list[bool | int | float | str] = Field(min_length=1)


_Value = bool | int | float | str


def _way(given: Any) -> str:
    """Return how values are written, by their kind and keys: errors are then about that way alone."""
    if isinstance(given, (SpanSpec, ValuesSpec)):
        return type(given).__name__
    if isinstance(given, Mapping):
        return "ValuesSpec" if "values" in given else "SpanSpec"
    return "list" if isinstance(given, list) else "value"


_Values = Annotated[
    Annotated[SpanSpec, Tag("SpanSpec")]
    | Annotated[ValuesSpec, Tag("ValuesSpec")]
    | Annotated[list[_Value], Field(min_length=1), Tag("list")]
    | Annotated[_Value, Tag("value")],
    Discriminator(_way),
]

_Pair = Annotated[list[_Value], Field(min_length=2, max_length=2)]


def _rule(given: Any) -> str:
    """Which rule for a target was meant, by the keys that are there: errors are then told of that one alone."""
    if isinstance(given, (ByFileSpec, BySizeSpec)):
        return type(given).__name__
    if isinstance(given, Mapping):
        if {"file", "column"} & set(given):
            return "ByFileSpec"
        return "BySizeSpec" if "by" not in given and set(given) & set(BySizeSpec.model_fields) else "BySpec"
    return "BySpec"


_Rule = Annotated[
    Annotated[BySpec, Tag("BySpec")]
    | Annotated[ByFileSpec, Tag("ByFileSpec")]
    | Annotated[BySizeSpec, Tag("BySizeSpec")],
    Discriminator(_rule),
]

_Number = float | _Rule | Annotated[list[float], Field(min_length=1)]


class TableSpec(Part):
    """A table to publish, or all tables of a pattern, with exactly one target."""

    name: str | None = None
    all: Literal["singles", "pairs", "triples"] | int | None = Field(
        None, description="a pattern: one table for every so many of the attributes in `among`, beside those named here"
    )
    among: list[str] | None = Field(
        None, min_length=1, description="attributes of a pattern; default all that are not named here"
    )
    attributes: list[str] = Field(default_factory=list, description="shown value by value")
    prefix: str | list[str] | None = Field(None, description='shown as "at most this value"')
    ranges: str | dict[str, Literal["all"] | list[_Pair]] | None = Field(
        None,
        description="shown as ranges, ends included: a name for all of them, or name = [[first, last], …]",
    )
    recode: dict[str, dict[str, _Values]] | None = Field(
        None,
        description="shown as groups: name.group = [first, last] of an attribute with an order, or a list of codes of "
        "another; or {first, last}, {values}, or one value",
    )
    change: str | dict[str, int] | None = Field(
        None, description="shown as changes from one value to the next, or name = from how many before (12: a year)"
    )
    average: dict[str, int] | None = Field(None, description="shown as moving averages: name = of how many values")
    to_date: dict[str, int] | None = Field(
        None, description="shown as sums that begin anew after so many values (12: years to date): name = how many"
    )
    count: str | list[str] | None = Field(
        None, description="attributes of which only records with a value are counted, and missing ones are not"
    )
    sum: str | list[str] | None = Field(
        None, description="amounts (or whole numbers) that are summed up; of several, their product is"
    )
    ceiling: float | None = Field(
        None, description="up to which each value of the one amount summed counts: one of its ceilings"
    )
    mean: str | None = Field(None, description="an amount whose mean is asked for, at the reference number of records")
    missing: bool = Field(
        False, description="rows also for the cells of missing values that a prefix, ranges or groups leave out"
    )
    matrix: list[list[int | float]] | None = Field(None, description="explicit queries about all cells, one a row")
    margin: _Number | None = Field(None, description="half-width of the interval, in people")
    std_error: _Number | None = Field(None, description="standard error, in people")
    variance: _Number | None = Field(None, description="variance, in people²")
    max_deviation: _Number | None = Field(None, description="error of all numbers at once, in people")
    cv: _Number | None = Field(None, description="relative standard error at the reference count")
    reference: float | PublicTotalSpec | None = Field(
        None, description="the public count a cv, or the target of a mean, refers to"
    )
    confidence: float | None = Field(None, description="overrides accuracy.confidence")

    def build(self, domain: Domain, folder: Path | None = None) -> Table | Family:
        """The table, or the pattern."""
        numbers = {kind.value: self._target(getattr(self, kind.value), folder) for kind in Kind}
        reference = PublicTotal(self.reference.total) if isinstance(self.reference, PublicTotalSpec) else self.reference
        if self.all is None and self.among is not None:
            raise SpecError(
                "among-without-pattern",
                "The table has among, and no pattern.",
                "The key among names the attributes of a pattern of tables.",
                'Name the pattern, such as all = "pairs", or remove among.',
                "No data were read.",
                place="among",
            )
        if self.matrix is not None:
            shown = (self.attributes, self.prefix, self.ranges, self.recode, self.sum, self.mean, self.missing)
            following = (self.change, self.average, self.to_date, self.count)
            if any((*shown, *following)) or self.all is not None or self.ceiling is not None:
                raise SpecError(
                    "matrix-with-views",
                    "The table has a matrix, and attributes, views or a pattern.",
                    "A matrix is about all cells.",
                    "Remove the other keys, or the matrix.",
                    "No data were read.",
                    place="matrix",
                )
            plain = table(**numbers, reference=reference, confidence=self.confidence, name=self.name or "queries")
            return Table(plain.name, (), plain.target, matrix=op.Dense(_matrix(self.matrix)))
        ranges: Any = self.ranges
        if isinstance(ranges, dict):
            ranges = {a: None if b == "all" else b for a, b in ranges.items()}
        recode = {a: {g: _selection(v) for g, v in groups.items()} for a, groups in (self.recode or {}).items()}
        said = {**numbers, "reference": reference, "confidence": self.confidence, "name": self.name}
        said |= {"missing": self.missing, "ceiling": self.ceiling}
        views: dict[str, Any] = {"prefix": self.prefix, "ranges": ranges, "recode": recode, "count": self.count}
        views |= {"sum": self.sum, "mean": self.mean}
        views |= {"change": self.change, "average": self.average, "to_date": self.to_date}
        if self.all is None:
            return table(*self.attributes, **views, **said)
        beside = {*self.attributes}
        for named in views.values():
            beside |= {named} if isinstance(named, str) else {*(named or ())}
        among = _others(domain, beside) if self.among is None else self.among
        if not among:
            raise SpecError(
                "pattern-left-empty",
                "Every attribute is named next to the pattern.",
                "The pattern needs attributes to choose from.",
                "Name fewer attributes, or list those of the pattern in among.",
                "No data were read.",
                place="all",
            )
        return all_tables(
            ORDERS[self.all] if isinstance(self.all, str) else self.all, among, *self.attributes, **views, **said
        )

    def _target(self, x: _Number | None, folder: Path | None) -> Any:
        """A number, or the rule for it."""
        if isinstance(x, BySpec):
            return x.build()
        if isinstance(x, ByFileSpec):
            return x.build(folder)
        if isinstance(x, BySizeSpec):
            return BySize(x.coefficient, x.power, x.least, x.most)
        if isinstance(x, list) and self.all is None:
            raise SpecError(
                "target-list-needs-pattern",
                "A single table has a list of targets.",
                "A list has one target for each table of a pattern.",
                "Give one number, or numbers by value as { by = …, values = … }.",
                "No data were read.",
            )
        return x


def _others(domain: Domain, beside: Iterable[str]) -> list[str]:
    """All attributes but amounts, and but some, and but the hierarchies of which these are levels."""
    named = {domain.home(a) for a in beside if a in domain}
    return [a for a in domain if a not in named and a not in domain.steps]


def _selection(values: Any) -> Selection:
    """Read values as they were written."""
    return Selection.parse(values.model_dump() if isinstance(values, Part) else values)


def _matrix(rows: list[list[int | float]]) -> np.ndarray[Any, Any]:
    """Whole numbers stay whole: np.array alone would wrap or round those beyond 64 bits."""
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise SpecError(
            "matrix-rows-differ",
            f"The rows of the matrix have the lengths {sorted(widths)}.",
            "",
            "Give rows of one length, with one entry for each cell.",
            "No data were read.",
            place="matrix",
        )
    whole = all(isinstance(x, int) for row in rows for x in row)
    try:
        return np.array(rows, dtype=np.int64 if whole else np.float64)
    except OverflowError:
        raise SpecError(
            "matrix-entry-too-long",
            "An entry of the matrix does not fit in 64 bits.",
            "",
            "Scale the queries.",
            "No data were read.",
            place="matrix",
        ) from None


class CostSpec(Part):
    """A privacy cost, said in exactly one way."""

    rho: float | str | None = Field(None, description="zCDP; a text such as '1/28' is exact")
    mu: float | None = Field(None, description="Gaussian differential privacy")
    epsilon: float | str | None = Field(None, description="guaranteed ε at delta; of pure privacy ε, exact as a text")
    delta: float | None = Field(None, description="of epsilon, when it is not privacy.delta")

    def build(self, delta: float | None) -> Budget:
        """The budget; `delta` goes with an epsilon that does not say its own; None, with a pure one."""
        implied = delta if self.epsilon is not None else None
        epsilon = None if self.epsilon is None else _exact("epsilon", self.epsilon)
        return Budget(
            rho=None if self.rho is None else _exact("rho", self.rho),
            mu=self.mu,
            epsilon=epsilon if epsilon is None or (implied is None and self.delta is None) else float(epsilon),
            delta=implied if self.delta is None else self.delta,
        )


_EXACT_NUMBER = re.compile(r"\d+(/\d+)?|(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)


def exact_number(text: str, outcome: str = OUTCOME) -> Fraction:
    """A number ≥ 0 written in decimals, or as a fraction such as "1/28", exactly.

    Args:
        text: The number.
        outcome: Sentence that says what did not happen if it is none.

    Raises:
        SpecError: anything else, or an exponent of more than three digits.
    """
    try:
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


def _exact(key: str, given: float | str) -> Fraction:
    """Return the number of a key, exactly; an error names the key."""
    try:
        return exact_number(str(given))
    except SpecError as error:
        raise error.with_place(key) from None


_Bound = int | float | date | str


class BoundsSpec(Part):
    """Bounds within which a column's number, or date, lies; or the values of which it is one."""

    values: list[bool | int | float | str] | None = Field(None, min_length=1)
    at_least: _Bound | None = None
    above: _Bound | None = None
    at_most: _Bound | None = None
    below: _Bound | None = None


class DataSpec(Part):
    """What is publicly known of the data."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "lookups": "Write a table of codes as the lookup of its attribute, or name its file as lookup_file."
    }

    source: str = Field("default", description="name of the data")
    account: str | None = Field(
        None,
        description="name under which the ledger sums charges: one for all sources about the same people, such as the "
        "quarters of a survey; default that of the source",
    )
    table: str | None = Field(None, description="table of a database or a DuckDB file: table, or schema.table")
    outside_domain: OutsideDomain = Field(OutsideDomain.REFUSE, strict=False)
    max_records: int = Field(MAX_RECORDS, description="public bound on the number of records")
    max_dropped: float | None = Field(
        None,
        description="largest share of records, from 0 to 1, that may be left out as outside the domain, or without an "
        "id: above it the count stops before anything is charged; default any",
    )
    where: dict[str, _Value | date | list[_Value] | BoundsSpec] = Field(
        {},
        description="which records are counted: for each column a value, texts of which one, {values} of which one, or "
        "bounds",
    )

    def conditions(self) -> dict[str, Any]:
        """What `where` says, as plain values."""
        bounds = {c: x.model_dump(exclude_none=True) for c, x in self.where.items() if isinstance(x, BoundsSpec)}
        return {**self.where, **bounds}


class CellBudgetsSpec(Part):
    """Personal privacy: relative budgets of records, from 0 to 1, by the values of some attributes."""

    attributes: list[str]
    values: list[float] | dict[str, float] = Field(
        description="one for every combination of values, in C order; of one attribute also by value"
    )
    default: float | None = Field(None, description="of the values not named")

    def build(self, domain: Domain) -> CellBudgets:
        """The budgets of every cell."""
        known = {a: [str(v) for v in domain[a].values] for a in self.attributes}
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
        ((name, labels),) = known.items()
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


class UnitSpec(Part):
    """A further unit that the release is priced for, with an account of its own."""

    unit: str = Field(description="what one is called")
    persons: int | None = Field(None, description="at most so many of the protected units, each with its most records")
    max_records: int | None = Field(None, description="instead of persons: at most so many records belong to one")
    neighbours: Neighbours | None = Field(None, strict=False, description="default: as for the protected unit")

    def build(self, first: PrivacyUnit) -> PrivacyUnit:
        """The unit, beside the one that is protected."""
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
        if self.persons is not None and first.id is not None:
            raise SpecError(
                "persons-with-id",
                f"The further unit {self.unit!r} has persons, and the unit {first.name!r} has an id.",
                "There is no price yet for several units with an id.",
                f"State max_records of one {self.unit}, as an assumption, or remove the further unit.",
                "No data were read.",
                place="persons",
            )
        same = self.unit == first.name
        own, pattern, counted = (first.id, first.pattern, first.count) if same else (None, Pattern(), Counted.RECORDS)
        records = self.max_records if self.persons is None else self.persons * first.max_records
        return PrivacyUnit(
            self.unit,
            records or 0,
            first.neighbours if self.neighbours is None else self.neighbours,
            own,
            *pattern,
            count=counted,
            merge=first.merge if same else (),
        )


class LeftOutSpec(Part):
    """How many units have more records than are counted, as a number with a price of its own: short for [[finite]]."""

    name: str = Field("left_out", description="under which the number is published")
    people: int = Field(description="public: the largest answer; more units are told as so many")
    epsilon: float | str = Field(description="what the answer may cost one unit, pure; a text such as '1/2' is exact")

    def asked(self) -> FiniteSpec:
        """The same question among the others."""
        return FiniteSpec(name=self.name, query=Question.LEFT_OUT, people=self.people, epsilon=self.epsilon)


class PrivacySpec(Part):
    """Who is protected, and what is promised. `privacy = "pure"` is short for a table with that definition alone."""

    definition: Privacy = Field(
        Privacy.ZCDP,
        strict=False,
        description="zcdp: Gaussian noise; pure: Laplace noise, ε without δ; auto: the more accurate of the two",
    )
    unit: str = Field("record", description="what one protected unit is called")
    id: str | None = Field(
        None,
        description="column that says whose a record is: of each unit at most max_records are counted; without it that "
        "is a promise, which nobody checks",
    )
    max_records: int = Field(1, description="at most this many records of one unit are counted")
    once_per: list[str] = Field(
        [],
        description="attributes, such as month: of one unit at most one record for each combination of their values is "
        "counted; without an id that is a promise",
    )
    per_value: dict[str, int] = Field(
        {}, description="attributes, such as month: of one unit at most so many records for each value are counted"
    )
    separation: dict[str, int] = Field(
        {},
        description="ordered attributes, such as month: any two records of one unit that are counted lie at least so "
        "many cells apart",
    )
    fixed: list[str] = Field(
        [],
        description="attributes, such as birth_year: all records of one unit that are counted agree in them",
    )
    count: Counted = Field(
        Counted.RECORDS,
        strict=False,
        description="records: each counts one; shares: of a unit with an id all records are counted, each as an equal "
        "part of one, so that tables count units",
    )
    merge: list[str] = Field(
        [],
        description="amounts, such as turnover: records of one unit that are alike in all else become one, with these "
        "added up, before any are chosen; needs an id",
    )
    left_out: LeftOutSpec | None = Field(
        None, description="ask of how many units some records are not counted, since they have too many; needs an id"
    )
    neighbours: Neighbours = Field(Neighbours.ADD_OR_REMOVE_ONE, strict=False)
    delta: float = Field(1e-6, description="at which ε is reported")
    cap: CostSpec | None = Field(
        None, description="refuse a plan that costs more; a cap for all releases of an account is set in the ledger"
    )
    cell_budgets: CellBudgetsSpec | None = Field(None, description="relative budgets by cell; default all the same")
    beside: list[str] = Field(
        [], description="SHA-256 of plans measured on the very same records, with which the ledger composes this one"
    )
    free: bool = Field(False, description="refuse the release if it would raise what is spent; needs beside")
    also: list[UnitSpec] = Field(
        [], description="further units, such as a household of persons: each is told its price, and charged on its own"
    )


class SeriesSpec(Part):
    """Tables that are released period by period, and charged once, for all periods together."""

    attribute: str = Field(
        description="whose values are the periods, in order of time: ordered, or categorical in the order declared"
    )


class AccuracySpec(Part):
    """How accuracy is stated and how close to the optimum a plan must be proven."""

    confidence: float = 0.95
    gap: float | None = Field(None, description="relative gap that must be certified")


class ObjectiveSpec(Part):
    """What a plan minimises."""

    goal: Goal = Field(
        Goal.FIT_FOR_USE,
        strict=False,
        description="every number meets its target at the least cost; or only the weighted total of variances does; or "
        "a hybrid of cost and total",
    )
    weights: ErrorWeights = Field(
        ErrorWeights.UNIFORM, strict=False, description="what a variance counts in the total: 1, or by its target"
    )
    trade: float | None = Field(None, description="of a hybrid: what a unit of the weighted total is worth in Δ²")


_Where = dict[str, _Values]


class ProjectionSpec(Part):
    """How a small database is measured and estimated; what is left out is chosen by public simulation."""

    region: Literal["at-most", "exactly"] = Field("at-most", description="whether `size` is a bound or the number")
    index: int | None = Field(None, description="k of the Ky Fan noise: from 1, equal noise, to the rank")
    temperature: float | None = Field(None, description="of the estimate: 0 for nearest answers, at most 0.1")
    variant: Literal["full", "paper"] = Field("full", description="paper: Algorithm 1 as printed, to compare with")


class FiniteSpec(Part):
    """A question with finitely many answers, each published under pure ε beside the tables."""

    name: str = Field(description="of the question")
    query: Question = Field(
        strict=False,
        description="count: records that meet `where`; counts: several counts; sum: of an ordered attribute; median; "
        "quantile; left_out: persons by an id of whom some records are not counted, since they have too many",
    )
    attribute: str | None = Field(None, description="what is added up, or whose median or quantile is asked")
    at: float | str | None = Field(
        None, description="of a quantile: the share of the records at or below it, such as 0.9 or '1/3'"
    )
    where: _Where | list[_Where] | None = Field(
        None,
        description="name = value, [first, last] of an attribute with an order, or codes of another; or {first, last} "
        "or {values}; all must hold. Of several counts a list of them",
    )
    people: int = Field(
        description="public: at most so many records; where neighbours replace one record, exactly so many; "
        "of left_out the largest answer"
    )
    epsilon: float | str = Field(description="what the answer may cost one unit, pure; a text such as '1/2' is exact")
    prior: list[float] | None = Field(
        None, description="what is believed of the answer, one number for every result; default all equally likely"
    )
    aim: Aim = Field(Aim.HIT_RATE, strict=False, description="what the answer is best at, on average over the prior")

    def build(self, domain: Domain) -> FiniteQuery:
        """The question."""
        given = self.where if isinstance(self.where, list) else [] if self.where is None else [self.where]
        where = []
        for condition in given:
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
            where.append(tuple((a, _selection(v)) for a, v in condition.items()))
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
            at=None if self.at is None else _exact("at", self.at),
        )


_Mechanism = Literal["unbiased", "projection"]


def _small(mechanism: str, size: int | None, projection: ProjectionSpec | None) -> SmallDatabase | None:
    """What is said of a small database, if the mechanism is one for them."""
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
    said = projection or ProjectionSpec()
    return SmallDatabase(size, Region(said.region), said.index, said.temperature, Variant(said.variant))


class AlsoSpec(Part):
    """Further tables of the same records, measured together with the others by a mechanism of their own."""

    tables: list[TableSpec] = Field(min_length=1)
    privacy: Literal["zcdp", "pure"] = Field("zcdp", description="what is promised of them")
    confidence: float | None = Field(
        None, description="of margins without one of their own; default that of the others"
    )
    gap: float | None = Field(None, description="relative gap to the proven bound that must be certified")
    objective: ObjectiveSpec = ObjectiveSpec()
    budget: CostSpec | None = Field(None, description="spend exactly this on them; their targets are then relative")
    cell_budgets: CellBudgetsSpec | None = Field(None, description="relative budgets of records, by cell")
    mechanism: _Mechanism = Field("unbiased", description="or projection, for small databases")
    size: int | None = Field(None, description="of a small database: at most, or exactly, so many records; public")
    projection: ProjectionSpec | None = Field(None, description="how a small database is measured and estimated")

    def build(self, domain: Domain, first: Publication, folder: Path | None) -> Publication:
        """The tables, with the unit, the source and the δ of the first ones."""
        tables = [t.build(domain, folder) for t in self.tables]
        for t in tables:
            t.check(domain)
        confidence = first.confidence if self.confidence is None else self.confidence
        checked_confidence(confidence)
        promised = Privacy(self.privacy)
        return Publication(
            Workload(domain, tables, confidence),
            first.unit,
            first.source,
            delta=first.delta,
            gap=self.gap,
            budget=None
            if self.budget is None
            else self.budget.build(None if promised is Privacy.PURE else first.delta),
            objective=Objective(self.objective.goal, self.objective.weights, self.objective.trade),
            cell_budgets=None if self.cell_budgets is None else self.cell_budgets.build(domain),
            privacy=promised,
            small=_small(self.mechanism, self.size, self.projection),
        )


class Spec(Part):
    """A fitnoise specification."""

    title: str = ""
    data: DataSpec = DataSpec()
    privacy: PrivacySpec = PrivacySpec()
    accuracy: AccuracySpec = AccuracySpec()
    objective: ObjectiveSpec = ObjectiveSpec()
    series: SeriesSpec | None = Field(None, description="release period by period (`fitnoise release --period`)")
    budget: CostSpec | None = Field(
        None, description="spend exactly this, no cap (that is privacy.cap): targets are then relative"
    )
    domain: dict[str, AttributeSpec] = Field(min_length=1)
    tables: list[TableSpec] = Field([])
    mechanism: Literal["unbiased", "projection"] = Field(
        "unbiased",
        description="projection: for small databases, biased answers that some database of the size could give",
    )
    size: int | None = Field(None, description="of a small database: at most, or exactly, so many records; public")
    projection: ProjectionSpec | None = Field(None, description="how a small database is measured and estimated")
    finite: list[FiniteSpec] = Field([], description="questions with one answer of finitely many")
    also: list[AlsoSpec] = Field([], description="further tables, each with a mechanism and targets of its own")
    record: RecordSpec | None = Field(
        None, description="words for a registry of deployments, which `fitnoise record` reads; no part of the plan"
    )

    @model_validator(mode="before")
    @classmethod
    def _promise_alone(cls, given: Any) -> Any:
        """`privacy = "pure"` for [privacy] definition = "pure"."""
        if isinstance(given, Mapping) and isinstance(given.get("privacy"), str):
            return {**given, "privacy": {"definition": given["privacy"]}}
        return given

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Spec:
        """Validate a document.

        Raises:
            SpecError: naming every key that is unknown, missing or of the wrong kind.
        """
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise several_problems(complaints(error.errors()[:MAX_PROBLEMS], document)) from None

    @classmethod
    def from_toml(cls, text: str) -> Spec:
        """Read TOML text; SpecError with the line where it is not TOML.

        Args:
            text: of a specification.

        Raises:
            SpecError: it is no TOML, or no specification; with the place.
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
        """The document as TOML, without what equals the defaults."""
        return toml(self.document())

    def document(self) -> dict[str, Any]:
        """The document as plain JSON values, without what equals the defaults."""
        return self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)

    def publication(self, folder: str | Path | None = None) -> Publication:
        """The same as plain objects.

        Args:
            folder: files of codes are read relative to it; None refuses a specification that names any, so that
                reading a plan opens no other file.

        Raises:
            SpecError: anything that cannot be meant as written, with its place in the document: all mistakes that do
                not follow from others.
        """
        place, p, d = None if folder is None else Path(folder), self.privacy, self.data
        unit, source, small, objective = PrivacyUnit(), DataSource(), None, Objective()
        attributes: dict[str, Attribute] = {}
        wrong = _Mistakes()
        for name, attribute in self.domain.items():
            with wrong.at(f"domain.{name}"):
                attributes[name] = attribute.build(place)
        with wrong.at("privacy"):
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
                merge=tuple(p.merge),
            )
        units = wrong.each(p.also, "privacy.also", lambda other: other.build(unit))
        with wrong.at("data"):
            source = DataSource(
                d.source, d.table, d.outside_domain, d.max_records, d.account, d.conditions(), d.max_dropped
            )
        with wrong.at("projection"):
            small = _small(self.mechanism, self.size, self.projection)
        with wrong.at("accuracy"):
            checked_confidence(self.accuracy.confidence)
        with wrong.at("objective"):
            objective = Objective(self.objective.goal, self.objective.weights, self.objective.trade)
        implied = None if p.definition is Privacy.PURE else p.delta
        cap = budget = cells = None
        with wrong.at("privacy.cap"):
            cap = None if p.cap is None else p.cap.build(implied)
        with wrong.at("budget"):
            budget = None if self.budget is None else self.budget.build(implied)
        if len(attributes) < len(self.domain):
            wrong.refuse()
        with _place("domain"):
            domain = Domain(attributes)

        def asked_for(wanted: TableSpec) -> Table | Family:
            built = wanted.build(domain, place)
            built.check(domain)
            return built

        tables = wrong.each(self.tables, "tables", asked_for)

        def question(asked: FiniteSpec) -> FiniteQuery:
            built = asked.build(domain)
            built.graph(domain, domain.adjacency(source, unit))
            return built

        finite = wrong.each(self.finite, "finite", question)
        if p.left_out is not None:
            with wrong.at("privacy.left_out"):
                finite.append(question(p.left_out.asked()))
        with wrong.at("privacy.cell_budgets"):
            cells = None if p.cell_budgets is None else p.cell_budgets.build(domain)
        wrong.refuse()
        with _place("tables"):
            workload = Workload(domain, tables, self.accuracy.confidence)
        with _place(""):
            whole = Publication(
                workload,
                unit,
                source,
                delta=p.delta,
                gap=self.accuracy.gap,
                cap=cap,
                budget=budget,
                title=self.title,
                objective=objective,
                cell_budgets=cells,
                beside=tuple(p.beside),
                free=p.free,
                privacy=p.definition,
                finite=tuple(finite),
                small=small,
                other_units=tuple(units),
                series=None if self.series is None else self.series.attribute,
            )
        also = []
        for i, group in enumerate(self.also):
            with _place(f"also[{i}]"):
                also.append(group.build(domain, whole, place))
        with _place("also"):
            return replace(whole, also=tuple(also)) if also else whole

    @classmethod
    def of(cls, publication: Publication) -> Spec:
        """The document that says what these objects say.

        Args:
            publication: what to say.

        Raises:
            SpecError, WorkloadError: something that a specification cannot say, such as an attribute, a view or a
                target of a class of one's own.
        """
        w, s, u, o = publication.workload, publication.source, publication.unit, publication.objective
        document: dict[str, Any] = {
            "title": publication.title,
            "data": {
                "source": s.name,
                "account": s.account,
                "table": s.table,
                "outside_domain": s.outside_domain,
                "max_records": s.max_records,
                "max_dropped": s.max_dropped,
                "where": {c.column: c.document for c in s.conditions},
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
                "merge": list(u.merge),
                "neighbours": u.neighbours,
                "delta": publication.delta,
                "cap": cost_document(publication.cap, publication.delta),
                "cell_budgets": cell_budgets_document(publication.cell_budgets),
                "beside": list(publication.beside),
                "free": publication.free,
                "definition": publication.privacy,
                "also": [
                    {"unit": x.name, "max_records": x.max_records}
                    | ({} if x.neighbours is u.neighbours else {"neighbours": x.neighbours})
                    for x in publication.other_units
                ],
            },
            "accuracy": {"confidence": w.confidence, "gap": publication.gap},
            "objective": {"goal": o.goal, "weights": o.weights, "trade": None if o.trade is None else float(o.trade)},
            "series": None if publication.series is None else {"attribute": publication.series},
            "budget": cost_document(publication.budget, publication.delta),
            "domain": {name: named_attribute_document(name, a) for name, a in w.domain.items()},
            "tables": [table_document(p) for p in w.tables.parts],
            "finite": [finite_document(q) for q in publication.finite],
            **small_document(publication.small),
            "also": [also_document(p, w.confidence) for p in publication.also],
        }
        return cls.parse(document)


_P = TypeVar("_P")

_Built = TypeVar("_Built")


class _Mistakes:
    """The problems in several places of a document, which one error reports."""

    def __init__(self) -> None:
        self.found: list[SpecError] = []

    @contextlib.contextmanager
    def at(self, where: str) -> Iterator[None]:
        """Remember an error with its place in the document."""
        try:
            yield
        except FitnoiseError as error:
            self.found.append(located(error, where))

    def each(self, parts: Iterable[_P], where: str, build: Callable[[_P], _Built]) -> list[_Built]:
        """What each part of a list says; of those that say nothing, what is wrong is remembered."""
        built = []
        for i, part in enumerate(parts):
            with self.at(f"{where}[{i}]"):
                built.append(build(part))
        return built

    def refuse(self) -> None:
        """Raise SpecError if there was one."""
        if self.found:
            raise several_problems(self.found)


@contextlib.contextmanager
def _place(where: str) -> Iterator[None]:
    """Give an error its place in the document, and say that no data were read."""
    try:
        yield
    except FitnoiseError as error:
        raise located(error, where) from error


@final
class SpecProblem(SpecError):
    """A problem of a specification that another part of fitnoise found. found: Its error, which has the code."""

    found: FitnoiseError | None = None

    @property
    def code(self) -> str:
        """The code of the error that was found."""
        return super().code if self.found is None else self.found.code


def located(error: FitnoiseError, where: str) -> SpecError:
    """Return an error as one of a specification, at a place of the document.

    Args:
        error: The error, of any class.
        where: Path of the part at fault; empty for the specification.

    **Guarantees**
        * The code and the sentences stay, but for the outcome.
        * A place that is a path of the document stays, and one that is a key of the part is put behind `where`.
    """
    if isinstance(error, SpecError):
        problem = error
    else:
        problem = SpecProblem(*error.args, place=error.place)
        problem.found = error
    path = _path_of(where, error.place)
    return (problem if path is None else problem.with_place(path)).with_outcome(OUTCOME)


def _path_of(where: str, place: str | None) -> str | None:
    """Return the path of a key in a part of the document; a column or a name, which is no key, is left out."""
    if place is None or not where:
        return place or where or None
    first = re.split(r"[.\[]", place, maxsplit=1)[0]
    if first in Spec.model_fields and not where.startswith("also["):
        return place
    return f"{where}.{place}" if first in _keys(Part) else where


def _keys(part: type[Part]) -> set[str]:
    """Return the keys of a part and of those that are derived from it."""
    return set(part.model_fields).union(*map(_keys, part.__subclasses__()))


@checked(SpecError, "Nothing was read.")
def load_spec(path: str | Path) -> Publication:
    """Read a TOML specification and the files of codes it names.

    Raises:
        SpecError: the file cannot be read or used; no data were read.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable_file(f"The specification {path.name!r}", error, OUTCOME) from None
    return Spec.from_toml(text).publication(path.parent)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a specification."""
    schema = Spec.model_json_schema()
    privacy = schema["properties"]["privacy"]
    schema["properties"]["privacy"] = {
        "anyOf": [{"$ref": privacy.pop("$ref")}, {"$ref": "#/$defs/Privacy"}],  # a table of keys, or one word
        **privacy,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
