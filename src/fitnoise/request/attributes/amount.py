"""Quantities that tables sum or average, and numbers for each value of an attribute."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast, final

from pydantic import Field, model_validator

from fitnoise.errors import DomainError, SpecError
from fitnoise.kernel.checks import describe_value, is_real
from fitnoise.kernel.codings import EXACT_FLOAT_LIMIT, Coding, Steps, as_python, refuse_inexact
from fitnoise.request.arguments import matches_hint
from fitnoise.request.attributes._base import (
    FILL_IN_MARK,
    MISSING_CODES_RULE,
    MISSING_HELP,
    Attribute,
    AttributeSection,
    CodingRule,
    Missing,
    check_column,
)
from fitnoise.request.number_rules import ByAttribute, BySpec, number_document, stated_number


@final
@dataclass(frozen=True)
class Amount(Attribute):
    """A quantity to be summed, such as an income or hours: `Amount(0, 200_000, step=100)`.

    Its two cells are the ends of its range, and a record lies *between* them. Let K = (high − low)/step and let x, the
    amount of the record, be read as low + j · step, j = 0 … K. The record counts 1 − j/K in the first cell and j/K in
    the second. Every query on an amount is a sum of whole numbers. A record costs most at one of the ends, so the
    charge holds for every value of the declared range (:mod:`fitnoise.kernel.designs.query_blocks`).

    With `ceilings` t_1, t_2, … between low and high, one plan also gives sums up to each of them, Σ min(x, t). Then
    there is a cell for each of the knots low < t_1 < … < high. A record lies between two consecutive knots, and costs
    most at a knot.

    A range by class is `high=ByAttribute("size", {"small": 1_000, "large": 1_000_000})`. Each record is then read in
    the range of its class, in as many steps as in all other classes. For turnover by size c of the firm, x is read as
    low_c + j · step_c. A record costs most at one of the ends of its own class. The range of large firms does not raise
    the cost of small ones.

    Numbers below `low` count as `low`, those above `high` as `high`, and all as the nearest step; half-way between two
    steps, as the larger. This is a declared coding of the data. Choose `high` from public facts, never from the data: a
    law, an older publication.

    Args:
        low: The least amount.
        high: The largest amount. With `ByAttribute("size", {"small": 1_000, "large": 1_000_000})` there is a range for
            each value of another attribute of the domain, also for its missing-value categories. `low` must then be
            equally many steps above zero in each class: it is 0, or has values by class too.
        step: The step in which amounts are read, by default 1. It must divide the range, into at most 2^30 steps. With
            several ranges it is the step of the smallest; the others are read in as many steps.
        column: The column of the data to read, when it is not named as the attribute.
        valid: The least and the largest valid number. Numbers outside are not amounts and are outside the domain; by
            default all numbers are amounts. Otherwise a code such as 9999999 for "not stated" would count as `high`.
        ceilings: Further amounts up to which sums can be requested, increasing, between low and high. Each is a whole
            number of steps above low. `high` is always a ceiling, and without `ceilings` or with a range by class the
            only one.
        missing: Missing-value categories, as for :class:`Categorical`; codes come before anything is cut.
        if_missing: See :class:`Categorical`.
        if_outside: See :class:`Categorical`.

    Raises:
        DomainError: The numbers are not finite decimals of at most 15 places, below 2^50 in units of the last.
        DomainError: The range is empty, is not a whole number of steps or has more than 2^30, or `valid` does not
            contain it.
        DomainError: The ceilings do not increase between the ends, are not whole numbers of steps above low, or stand
            with ranges by class.
        DomainError: Two cells cannot be distinguished, or the column or a part of `missing` is invalid.
        DomainError: Ranges by class have different numbers of steps, or of steps from zero to low. Or they depend on
            two attributes, or are more than 100 different ones.
        DomainError: In a domain, a class has no range, or the attribute of the classes is missing.
    """

    kind, ordered, has_sequence, is_numeric = "amount", False, False, True

    low: float | ByAttribute
    high: float | ByAttribute
    step: float = field(default=1, kw_only=True)
    column: str | None = field(default=None, kw_only=True)
    valid: tuple[float, float] | None = field(default=None, kw_only=True)
    ceilings: Sequence[float] | None = field(default=None, kw_only=True)
    missing: Missing | None = field(default=None, kw_only=True)  # type: ignore[assignment]  # pairs, once it is made
    if_missing: str | None = field(default=None, kw_only=True)
    if_outside: str | None = field(default=None, kw_only=True)
    coding: Coding = field(init=False, repr=False, compare=False)
    _labels: tuple[str, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        valid = None
        if self.valid is not None:
            if not isinstance(self.valid, (list, tuple)) or len(self.valid) != 2:
                raise DomainError(
                    "valid-not-a-pair",
                    f"The value of valid is {self.valid!r}.",
                    "It must be a pair of numbers, the least and the largest.",
                    "Write both numbers.",
                    "No attribute was made.",
                    place="valid",
                )
            min_valid, max_valid = (_end(x) for x in self.valid)
            valid = (min_valid, max_valid)
        if self.ceilings is not None and not isinstance(self.ceilings, (list, tuple)):
            raise DomainError(
                "ceilings-not-a-list",
                f"The value of ceilings is {describe_value(self.ceilings)}.",
                "It must be a list of amounts between low and high.",
                "Write the ceilings as a list.",
                "No attribute was made.",
                place="ceilings",
            )
        tops = tuple(_decimal("ceilings", t) for t in self.ceilings or ())
        step = _decimal("step", self.step)
        if isinstance(self.low, ByAttribute) or isinstance(self.high, ByAttribute):
            if tops:
                raise DomainError(
                    "ceilings-with-classes",
                    "The amount has ceilings and ranges by class.",
                    "An amount may have only one of the two.",
                    "Declare two amounts on the same column.",
                    "No attribute was made.",
                    place="ceilings",
                )
            coding = self._by_class(step, valid)
        else:
            low, high = (_decimal(name, getattr(self, name)) for name in ("low", "high"))
            coding = Steps(low, high, step, valid, tops)
            object.__setattr__(self, "low", _short(low))
            object.__setattr__(self, "high", _short(high))
        check_column(self.column)
        # An empty list means no ceilings, and has their form in documents.
        object.__setattr__(self, "ceilings", tuple(map(_short, tops)) or None)
        object.__setattr__(self, "step", _short(step))
        object.__setattr__(self, "valid", valid)
        self._with_missing(coding, self.missing, self.if_missing, self.if_outside)

    def _by_class(self, step: Fraction, valid: tuple[float, float] | None) -> Steps:
        """Return steps whose size depends on another attribute.

        The ranges are known if the ends list them in order. For ends by name or with a default the result is a
        placeholder, which `for_classes` replaces in a domain.
        """
        (attribute, *others) = dict.fromkeys(x.attribute for x in (self.low, self.high) if isinstance(x, ByAttribute))
        if others:
            raise DomainError(
                "range-by-two-attributes",
                f"The end low depends on {attribute!r}, and high on {others[0]!r}.",
                "Both must depend on one attribute.",
                "Use one attribute for both ends.",
                "No attribute was made.",
            )
        # A default stands for labels that are not listed, so it needs the labels as names do.
        rules = [x for x in (self.low, self.high) if isinstance(x, ByAttribute)]
        is_by_name = any(rule.is_by_name or rule.default is not None for rule in rules)
        values = [x.values if isinstance(x, ByAttribute) else None for x in (self.low, self.high)]
        count = max(len(x) for x in values if x is not None)
        if is_by_name or not count or not all(x is None or len(x) == count for x in values):
            # A placeholder, which `for_classes` replaces: it knows the labels, and refuses lists of a wrong length.
            return Steps(Fraction(0), Fraction(1), Fraction(1), attribute=attribute)
        ends = [
            [_decimal(name, v) for v in (x if x is not None else [getattr(self, name)] * count)]
            for name, x in zip(("low", "high"), values, strict=True)
        ]
        widths = [high - low for low, high in zip(*ends, strict=True)]
        if min(widths) <= 0 or step <= 0:
            raise DomainError(
                "class-range-empty",
                "In a class low is not below high, or the step is not positive.",
                "Every class needs low < high, and a positive step.",
                "Change low, high or step.",
                "No attribute was made.",
            )
        # All classes have the number of steps K of the narrowest, so that j/K means one share of the range everywhere.
        max_steps = min(widths) / step
        try:
            classes = tuple(Steps(low, high, (high - low) / max_steps, valid) for low, high in zip(*ends, strict=True))
        except DomainError as error:
            raise DomainError(
                "class-steps-invalid",
                f"The ranges by {attribute!r} all have the same number of steps, of {float(step)} in the smallest. "
                f"{error.given}",
                error.needed,
                f"{error.action} A step of {float(min(widths) / 1000)} makes a thousand of each.",
                "No attribute was made.",
            ) from None
        # low_c + j · step_c is then (zero + j) · step_c: a whole number of steps in every class.
        zeros = {steps.low / steps.step for steps in classes}
        zero = next(iter(zeros))
        if len(zeros) > 1 or zero.denominator != 1:
            raise DomainError(
                "class-starts-differ",
                f"The ranges start at {[float(steps.low) for steps in classes[:3]]} in steps of "
                f"{[float(steps.step) for steps in classes[:3]]}.",
                "They must start at 0, or at the same whole number of steps from 0.",
                "Change low of the classes.",
                "No attribute was made.",
                place="low",
            )
        return Steps(zero, zero + max_steps, Fraction(1), attribute=attribute, classes=classes)

    def for_classes(self, attributes: Mapping[str, Attribute]) -> Amount:
        """Return the amount in a domain: a range for every cell of the attribute of its classes, in order.

        An amount with one range is returned as it is.

        Raises:
            DomainError: The attribute is missing, or is not categorical, ordered or binned. Or some cells have no
                range, or a range has no cell.
            DomainError: The ranges are not those of one amount (see the class).
        """
        attribute, ends = self.range_attribute, {"low": self.low, "high": self.high}
        if attribute is None:
            return self
        by_attribute = attributes.get(attribute)
        if by_attribute is None or not by_attribute.has_sequence:
            raise DomainError(
                "range-attribute-invalid",
                f"The range of an amount depends on {attribute!r}.",
                "It must depend on a categorical, ordered or binned attribute of the domain.",
                f"Declare {attribute!r} as such an attribute, or name another one.",
                "No domain was made.",
            )
        numbered = {
            name: ByAttribute(attribute, x.for_labels(by_attribute.cell_names, "range", DomainError))
            for name, x in ends.items()
            if isinstance(x, ByAttribute)
        }
        # `replace` checks the ranges again, now with a number for each label.
        result = replace(self, **numbered)  # type: ignore[arg-type]  # each of its type
        object.__setattr__(result, "_labels", tuple(map(str, by_attribute.cell_names)))
        return result

    @property
    def exact(self) -> Steps:
        """The range and the steps, exactly; for a range by class, in steps."""
        return cast("Steps", self.coding.values)

    @property
    def class_steps(self) -> tuple[Fraction, ...]:
        """The step of each class."""
        return tuple(steps.step for steps in self.exact.classes)

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The knots: both ends, and the ceilings between them; for a range by class, in steps."""
        exact = self.exact
        knots: tuple[Any, ...] = tuple(map(_short, (exact.low, *exact.ceilings, exact.high)))  # some may be floats
        return knots

    def own_examples(self, cell: int, class_cell: int) -> Sequence[Any]:
        """Return the amount after some steps.

        Args:
            cell: The number of steps, from 0.
            class_cell: The cell of the record along the attribute on which the range depends.
        """
        steps = cast("Steps", self.exact.for_class(class_cell))
        return (_short(steps.low + cell * steps.step),)

    @property
    def coding_rules(self) -> tuple[CodingRule, ...]:
        """The rules for cut values, and the steps in which amounts are read."""
        return self.coding_rules_up_to(None)

    @property
    def is_capped(self) -> bool:
        """True if numbers may be cut to the range: always, except where one range is exactly `valid`."""
        return self.range_attribute is not None or self.valid != (_short(self.exact.low), _short(self.exact.high))

    def upper_limit(self, ceiling: float | None) -> float:
        """Return a ceiling as it is declared; `None` gives the largest amount, in steps for a range by class.

        Args:
            ceiling: The amount up to which amounts count; `None` for the largest, and for a range by class.

        Raises:
            DomainError: The ceiling is neither declared nor `high`, or the range is by class.
        """
        tops = [*(self.ceilings or ()), _short(self.exact.high)]
        if ceiling is None:
            return tops[-1]
        if self.range_attribute is not None or not is_real(ceiling) or ceiling not in tops:
            raise DomainError(
                "ceiling-not-declared",
                f"The ceiling is {describe_value(ceiling)}.",
                f"It must be a declared ceiling or high, one of {tops}."
                if self.range_attribute is None
                else "An amount with ranges by class has no ceilings.",
                "Declare the ceiling with the amount (ceilings = …) before you plan."
                if self.range_attribute is None
                else "Remove the ceiling, or declare one range for all.",
                "Nothing was planned.",
                place="ceiling",
            )
        # In its declared form: 100.0 as 100.
        return tops[tops.index(ceiling)]

    def largest(self, ceiling: float | None, cell: int | None = None) -> float:
        """Return the largest absolute value that a record can add to a sum up to a ceiling.

        Args:
            ceiling: The ceiling, or None for the largest amount. With ranges by class it is ignored.
            cell: With ranges by class, the cell of the class; None for the largest of all classes.

        Raises:
            DomainError: The ceiling is not declared.
        """
        parts = self.exact.classes if cell is None else self.exact.classes[cell : cell + 1]
        ends = [(x.low, x.high) for x in parts] if parts else [(self.exact.low, Fraction(self.upper_limit(ceiling)))]
        return _short(max(abs(x) for pair in ends for x in pair))

    def coding_rules_up_to(self, ceiling: float | None) -> tuple[CodingRule, ...]:
        """Return the rules for cut values of amounts up to a ceiling, and the steps in which they are read.

        Args:
            ceiling: The ceiling, or None for the largest amount.

        Raises:
            DomainError: The ceiling is not declared.
        """
        top = self.upper_limit(ceiling)
        codes = any(isinstance(code, int) for codes in dict(self.missing or ()).values() for code in codes)
        missing = [MISSING_CODES_RULE] if codes else []
        steps: CodingRule = ("report.coding.steps", {"step": _short(self.exact.step)})
        if not self.is_capped and top == self.upper_limit(None):
            return (steps,)
        if self.range_attribute is None:
            return (("report.coding.range", {"low": _short(self.exact.low), "high": top}), steps, *missing)
        classes: dict[Steps, list[str]] = {}
        # Before the amount is in a domain it has no labels, and perhaps no classes.
        for label, scale in zip(self._labels, self.exact.classes, strict=False):
            classes.setdefault(scale, []).append(label)
        ranges: list[CodingRule] = []
        for scale, labels in classes.items():
            numbers = {"low": _short(scale.low), "high": _short(scale.high), "step": _short(scale.step)}
            ranges.append(("report.coding.class", {"classes": ", ".join(labels), **numbers}))
        return (("report.coding.by_class", {"attribute": self.range_attribute}), *ranges, *missing)

    def own_position(self, value: object) -> int:
        """Raise: records lie between the cells of an amount.

        Args:
            value: Any value.

        Raises:
            DomainError: Always.
        """
        raise DomainError(
            "amount-by-value",
            f"The value {value!r} of an amount is requested.",
            "An amount is summed, and is not shown by value.",
            "Request its sum (sum = …), or declare a binned attribute on the same column.",
            "The value was not found.",
        )

    def declared(self) -> dict[str, Any]:
        """Return the range, the step, the valid numbers, and the ceilings, if there are any."""
        valid = None if self.valid is None else [float(x) for x in self.valid]
        tops = {} if self.ceilings is None else {"ceilings": [float(t) for t in self.ceilings]}
        ends = {name: number_document(x) for name, x in (("low", self.low), ("high", self.high))}
        return {**ends, "step": float(self.step), "valid": valid, **tops}


def _decimal(name: str, value: object) -> Fraction:
    """Return a number exactly as its decimals; raise DomainError if it is not a number."""
    x: object = as_python(value)
    if (
        isinstance(x, bool)
        or not isinstance(x, (int, float, Decimal))
        or not matches_hint(x, float)
        or not math.isfinite(x)
    ):
        raise DomainError(
            "amount-number-invalid",
            f"A value of {name} of the amount is {describe_value(value)}.",
            "It must be a finite number.",
            f"Correct {name}.",
            "No attribute was made.",
            place=name,
        )
    # The shortest decimals of the double: 0.1 is one tenth here, and not the double nearest to it.
    return Fraction(repr(x) if isinstance(x, float) else x)


def _end(value: object) -> float:
    """Return an end of the valid numbers; raise DomainError for a whole number that double precision does not hold."""
    x = _decimal("valid", value)
    if x.denominator == 1 and not isinstance(as_python(value), float):
        refuse_inexact("an end of valid", x.numerator)
    return _short(x) if abs(x) < EXACT_FLOAT_LIMIT else float(x)


def _short(x: Fraction) -> float:
    """Return the number, as a whole number if it is one."""
    return x.numerator if x.denominator == 1 else float(x)


class AmountSpec(AttributeSection):
    """A quantity that tables sum or average, cut to a range and rounded to steps. It takes no `date_part`."""

    meaning = "numbers to be added up, such as incomes: tables show sums and means of them"
    is_summed = True
    starter_keys: ClassVar[Mapping[str, tuple[str, str]]] = {
        "low": ("0", FILL_IN_MARK + "smaller ones count as this"),
        "high": (
            "200_000",
            FILL_IN_MARK + "larger ones count as this; privacy is charged for one record of this size",
        ),
        "step": ("100", "in which they are read; it divides the range"),
        "missing": ("{ unknown = [-9] }", MISSING_HELP),
    }

    type: Literal["amount"] = Field(description="The kind of the attribute.")
    low: float | BySpec = Field(description="The smallest amount; smaller amounts count as low.")
    high: float | BySpec = Field(
        description="The largest amount; larger amounts count as high. Choose it from public knowledge, never from the "
        "data."
    )
    step: float = Field(1.0, description="The unit to which amounts are rounded; it divides the range.")
    valid: list[float] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="The smallest and the largest number that is an amount; other numbers are outside the domain. If "
        "absent, every number is an amount.",
    )
    ceilings: list[float] | None = Field(
        None,
        description="Amounts between low and high, in increasing order, up to which tables may sum as well. If absent, "
        "tables sum up to high only.",
    )

    @model_validator(mode="after")
    def _no_dates(self) -> Self:
        if self.date_part is not None:
            raise SpecError(
                "amount-with-date-part",
                "The amount has the key date_part.",
                "fitnoise takes no amount from a date.",
                "Remove date_part.",
                "No data were read.",
                place="date_part",
            )
        return self

    def build(self, folder: Path | None) -> Attribute:
        """Return the attribute."""
        # `_no_dates` refused a date_part, and the constructor has no such argument
        missing_options = {name: x for name, x in self._reading_options.items() if name != "date_part"}
        valid = None if self.valid is None else (self.valid[0], self.valid[1])
        amount_options = {"step": self.step, "column": self.column, "valid": valid, "ceilings": self.ceilings}
        low, high = (stated_number(x, folder) for x in (self.low, self.high))
        return Amount(low, high, **amount_options, **missing_options)  # type: ignore[arg-type]  # each of its type
