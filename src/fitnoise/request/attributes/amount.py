"""Quantities that tables sum or average, and numbers for each value of an attribute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from fitnoise.errors import SpecError
from fitnoise.kernel.domain import Amount, Attribute
from fitnoise.request.attributes._base import FILL_IN_MARK, MISSING_HELP, AttributeSection
from fitnoise.request.spec_section import SpecSection
from fitnoise.request.targets import ByAttribute


class BySpec(SpecSection):
    """A number for each value of an attribute: as a target, of an attribute of the table; as a range, of the domain."""

    by: str = Field(description="The attribute whose values have the numbers.")
    values: list[float] | dict[str, float] = Field(
        description="The number for each value: a list in the order of the values, or a table value = number."
    )
    default: float | None = Field(
        None, description="The number for values that are not named. If absent, every value needs a number."
    )

    def build(self) -> ByAttribute:
        """Return the rule."""
        return ByAttribute(self.by, self.values, self.default)


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
    column: str | None = Field(
        None, description="The column of the data. If absent, it is the column with the name of the attribute."
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
        low, high = (x.build() if isinstance(x, BySpec) else x for x in (self.low, self.high))
        return Amount(low, high, **amount_options, **missing_options)  # type: ignore[arg-type]  # each of its type
