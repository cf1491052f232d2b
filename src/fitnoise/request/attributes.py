"""Kinds of attributes as specifications write them: for each a model of its keys, registered in `AttributeSpec`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from fitnoise.errors import SpecError
from fitnoise.kernel.domain import Amount, Attribute, Binned, Categorical, Hierarchy, Ordered
from fitnoise.request.spec_section import BACKSLASH, SpecSection
from fitnoise.request.targets import ByAttribute

_Code = bool | int | str

_Pair = Annotated[list[_Code], Field(min_length=2, max_length=2)]


class AgeSpec(SpecSection):
    """An age in completed years, computed from a date of birth."""

    # TOML has dates of its own, and JSON writes them as texts
    age_on: str | date = Field(description="The day on which the age is computed, such as 2024-12-31.")


class _WithMissing(SpecSection):
    """Keys for missing values and for dates, which most kinds of attributes share."""

    missing: dict[str, list[_Code]] | None = Field(
        None,
        description="The categories for missing values, after the declared values: the codes of each category, by its "
        "name. If absent, the attribute has no such category.",
    )
    if_missing: str | None = Field(
        None,
        description='The treatment of null, NaN and empty values: the name of a category of `missing`, "refuse" or '
        '"drop". For numbers and truth values, a text of spaces is empty, too. If absent, data.outside_domain decides.',
    )
    if_outside: str | None = Field(
        None,
        description="The treatment of all other values that are not declared: the name of a category of `missing`, "
        '"refuse" or "drop". If absent, data.outside_domain decides.',
    )

    date_part: Literal["year", "quarter", "month", "weekday", "hour"] | AgeSpec | None = Field(
        None,
        description="The part of a date that is counted, where the column holds dates. If absent, the column holds the "
        "values themselves.",
    )

    @property
    def _reading_options(self) -> dict[str, Any]:
        date_part = self.date_part.model_dump(mode="json") if isinstance(self.date_part, AgeSpec) else self.date_part
        return {
            "missing": self.missing,
            "if_missing": self.if_missing,
            "if_outside": self.if_outside,
            "date_part": date_part,
        }


class CategoricalSpec(_WithMissing):
    """Codes without an order, listed here or in a CSV file with a column `code` (and `label`)."""

    type: Literal["categorical"] = Field(description="The kind of the attribute.")
    codes: list[bool | int | str] | None = Field(
        None, description="The codes in the data. If absent, codes_file names the file with the codes."
    )
    labels: list[str] | None = Field(
        None,
        description="The label of each code in tables, in the order of the codes. If absent, tables show the codes.",
    )
    codes_file: str | None = Field(
        None,
        description="A CSV file with the codes; its path is relative to the specification. If absent, codes lists the "
        "codes.",
    )
    column: str | None = Field(
        None, description="The column of the data. If absent, it is the column with the name of the attribute."
    )
    lookup: dict[str, _Code] | list[_Pair] | None = Field(
        None,
        description="The code for each value in the data, such as the region of a postcode: a table value = code, or "
        "pairs of value and code. If absent, the data hold the codes.",
    )
    lookup_file: str | None = Field(
        None,
        description="A CSV file with the columns `value` and `code` in place of lookup. If absent, no file is read.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.lookup is not None and self.lookup_file is not None:
            raise SpecError(
                "lookup-twice",
                "The attribute has lookup and lookup_file.",
                "",
                "Give only one of them.",
                "No data were read.",
                place="lookup",
            )
        if (self.codes is None) == (self.codes_file is None):
            raise SpecError(
                "codes-source",
                f"The attribute has {'neither codes nor' if self.codes is None else 'codes and'} codes_file.",
                "",
                "Give exactly one of them.",
                "No data were read.",
                place="codes",
            )
        if self.labels is not None and (self.codes is None or len(self.labels) != len(self.codes)):
            raise SpecError(
                "labels-misfit",
                "The labels are not one for each of the codes.",
                "",
                "Give codes with as many labels, in the same order, or a codes_file with a column label.",
                "No data were read.",
                place="labels",
            )
        return self

    def build(self, folder: Path | None) -> Attribute:
        """Return the attribute.

        Args:
            folder: The folder of the specification, where its files lie; None if it is not known.

        Raises:
            SpecError: The codes or the lookup are in a file, and the folder is not known or the file has no usable
                name.
            DomainError: A file cannot be read, or the keys declare no such attribute.
        """
        # A file is named here and read by the kernel, so that specification and Python read lookups the same way.
        lookup = self.lookup if self.lookup_file is None else resolve_file(folder, "lookup_file", self.lookup_file)
        options: dict[str, Any] = {"column": self.column, "lookup": lookup, **self._reading_options}
        if self.codes_file is not None:
            return Categorical.from_file(resolve_file(folder, "codes_file", self.codes_file), **options)
        codes = self.codes or []
        if self.labels is None:
            return Categorical(codes, **options)
        Categorical(codes)  # a repeated code would vanish silently in the mapping below
        # A mapping states codes with labels as Python users do, so there is one path to the checks.
        return Categorical(dict(zip(codes, self.labels, strict=True)), **options)


class OrderedSpec(_WithMissing):
    """Whole numbers from low to high."""

    type: Literal["ordered"] = Field(description="The kind of the attribute.")
    low: int = Field(description="The smallest value.")
    high: int = Field(description="The largest value.")
    clip: bool = Field(False, description="True to count smaller values as low and larger values as high.")
    column: str | None = Field(
        None, description="The column of the data. If absent, it is the column with the name of the attribute."
    )

    def build(self, folder: Path | None) -> Attribute:
        """Return the attribute."""
        return Ordered(self.low, self.high, self.clip, self.column, **self._reading_options)


class BinnedSpec(_WithMissing):
    """A number in bins: below the first cut, between two cuts (lower end included), and from the last cut on."""

    type: Literal["binned"] = Field(description="The kind of the attribute.")
    cuts: list[float] = Field(description="The limits between the bins, in increasing order.")
    column: str | None = Field(
        None, description="The column of the data. If absent, it is the column with the name of the attribute."
    )

    def build(self, folder: Path | None) -> Attribute:
        """Return the attribute."""
        return Binned(self.cuts, column=self.column, **self._reading_options)


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


class AmountSpec(_WithMissing):
    """A quantity that tables sum or average, cut to a range and rounded to steps. It takes no `date_part`."""

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


class HierarchySpec(_WithMissing):
    """Nested places: a row of codes for each lowest place, or the number of places in each place.

    It takes no `missing`, `if_missing`, `if_outside` or `date_part`.
    """

    type: Literal["hierarchy"] = Field(description="The kind of the attribute.")
    levels: list[str] = Field(
        description="The names of the levels, from the top down; a table names a level as its attribute."
    )
    places: list[list[bool | int | str]] | None = Field(
        None,
        description="The codes of each lowest place, level by level. If absent, file or children declares the places.",
    )
    file: str | None = Field(
        None,
        description="A CSV file with a column for each level; its path is relative to the specification. If absent, "
        "places or children declares the places.",
    )
    children: list[int] | None = Field(
        None,
        description="The number of places of the first level, then the number in each place of the level above; "
        "fitnoise makes the codes. If absent, places or file declares the places.",
    )
    column: str | None = Field(
        None,
        description="The column of the data with the codes of the lowest level. If absent, it is the column with the "
        "name of the attribute.",
    )

    @model_validator(mode="after")
    def _no_reading_options(self) -> Self:
        # A hierarchy shares these keys only to give this advice: the error of an unknown key would not.
        if any(x is not None for x in self._reading_options.values()):
            raise SpecError(
                "hierarchy-unsupported-keys",
                f"The hierarchy has {' and '.join(x for x, y in self._reading_options.items() if y is not None)}.",
                "A hierarchy has no missing, if_missing, if_outside or date_part.",
                "Remove them, and give records without a place a row of their own, such as 'unknown' on every level.",
                "No data were read.",
            )
        return self

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(x is not None for x in (self.places, self.file, self.children)) != 1:
            raise SpecError(
                "places-source",
                "The hierarchy does not have exactly one of places, file and children.",
                "",
                "Give exactly one of them.",
                "No data were read.",
                place="places",
            )
        return self

    def build(self, folder: Path | None) -> Attribute:
        """Return the attribute.

        Args:
            folder: The folder of the specification, where its files lie; None if it is not known.

        Raises:
            SpecError: The places are in a file, and the folder is not known or the file has no usable name.
            DomainError: The file cannot be read, or the keys declare no hierarchy.
        """
        if self.file is None:
            return Hierarchy(self.levels, self.places, children=self.children, column=self.column)
        return Hierarchy.from_file(resolve_file(folder, "file", self.file), self.levels, column=self.column)


def resolve_file(folder: Path | None, key: str, name: str) -> Path:
    """Return the path of a file next to the specification.

    Args:
        folder: The folder of the specification; None if it is not known.
        key: The key that names the file.
        name: The name of the file, which need not exist: a path relative to the folder, or an absolute one.

    Raises:
        SpecError: The folder is not known, also for an absolute path, or the name has a control character.
    """
    if any(ord(c) < ord(" ") for c in name):  # TOML reads \n and \t in "C:\new\table.csv" as such characters
        raise SpecError(
            "file-name-unusable",
            f"The key {key} = {name!r} is not the name of a file.",
            "It has a control character, such as a tab or a line break.",
            BACKSLASH,
            "No data were read.",
            place=key,
        )
    if folder is None:
        raise SpecError(
            "file-folder-unknown",
            f"The key {key} = {name!r} names a file next to the specification, and the folder of the "
            "specification is unknown.",
            "",
            "Give the folder, or write the content of the file into the specification.",
            "No data were read.",
            place=key,
        )
    return folder / name


AttributeSpec = Annotated[
    CategoricalSpec | OrderedSpec | BinnedSpec | AmountSpec | HierarchySpec, Field(discriminator="type")
]
"""All kinds of attributes."""

# read from the models, so that no kind can be left out here
KINDS: tuple[str, ...] = tuple(
    name for model in get_args(get_args(AttributeSpec)[0]) for name in get_args(model.model_fields["type"].annotation)
)
"""The names of the kinds."""
