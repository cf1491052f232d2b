"""Kinds of attributes as specifications write them: for each a model of its keys, registered in `AttributeSpec`."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from fitnoise.errors import SpecError
from fitnoise.kernel.domain import Amount, Attribute, Binned, Categorical, Hierarchy, Ordered
from fitnoise.request.parts import BACKSLASH, Part
from fitnoise.request.targets import By

_Code = bool | int | str

_Pair = Annotated[list[_Code], Field(min_length=2, max_length=2)]


class AgeSpec(Part):
    """An age in completed years."""

    age_on: str | date = Field(description="the day on which, such as 2024-12-31")


class _WithMissing(Part):
    """What any kind may say of values that are none, or that are read off others."""

    missing: dict[str, list[_Code]] | None = Field(
        None, description="cells for what is no value, after the others: name = [codes]"
    )
    absent: str | None = Field(None, description='a cell of `missing` for null, NaN and blank; or "refuse" or "drop"')
    outside: str | None = Field(None, description="the same for everything else that is not declared")

    read: Literal["year", "quarter", "month", "weekday", "hour"] | AgeSpec | None = Field(
        None, description="what is read off the column's dates"
    )

    @property
    def _beside(self) -> dict[str, Any]:
        read = self.read.model_dump(mode="json") if isinstance(self.read, AgeSpec) else self.read
        return {"missing": self.missing, "absent": self.absent, "outside": self.outside, "read": read}


class CategoricalSpec(_WithMissing):
    """Unordered codes, in line or in a CSV file with a column `code` (and `label`)."""

    type: Literal["categorical"]
    codes: list[bool | int | str] | None = Field(None, description="the codes the data hold")
    labels: list[str] | None = Field(None, description="what the tables show, one per code")
    codes_file: str | None = Field(None, description="CSV file, relative to the specification")
    column: str | None = Field(None, description="column of the data, if not the attribute's name")
    lookup: dict[str, _Code] | list[_Pair] | None = Field(
        None, description="the code of each value that the data hold instead: value = code, or pairs of them"
    )
    lookup_file: str | None = Field(None, description="the same in a CSV file with the columns `value` and `code`")

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
                "Give codes with as many labels, in the same order.",
                "No data were read.",
                place="labels",
            )
        return self

    def build(self, folder: Path | None) -> Attribute:
        """The attribute; SpecError when its codes are in a file and the folder is not known."""
        found = self.lookup if self.lookup_file is None else file_beside(folder, "lookup_file", self.lookup_file)
        more: dict[str, Any] = {"column": self.column, "lookup": found, **self._beside}
        if self.codes_file is not None:
            return Categorical.from_file(file_beside(folder, "codes_file", self.codes_file), **more)
        codes = self.codes or []
        if self.labels is None:
            return Categorical(codes, **more)
        Categorical(codes)  # a repeated code would vanish silently in the mapping below
        return Categorical(dict(zip(codes, self.labels, strict=True)), **more)


class OrderedSpec(_WithMissing):
    """Whole numbers from low to high."""

    type: Literal["ordered"]
    low: int
    high: int
    clip: bool = Field(False, description="count smaller values as low and larger ones as high")
    column: str | None = None

    def build(self, folder: Path | None) -> Attribute:
        """The attribute."""
        return Ordered(self.low, self.high, self.clip, self.column, **self._beside)


class BinnedSpec(_WithMissing):
    """A number cut into bins: below the first cut, between cuts (lower end included), the last cut or more."""

    type: Literal["binned"]
    cuts: list[float]
    column: str | None = None

    def build(self, folder: Path | None) -> Attribute:
        """The attribute."""
        return Binned(self.cuts, column=self.column, **self._beside)


class BySpec(Part):
    """A number that depends on the value of an attribute: of a table's for a target, of the domain's for a range."""

    by: str
    values: list[float] | dict[str, float]
    default: float | None = None

    def build(self) -> By:
        """The rule."""
        return By(self.by, self.values, self.default)


class AmountSpec(_WithMissing):
    """A quantity to be summed, cut to a range and read in steps."""

    type: Literal["amount"]
    low: float | BySpec = Field(description="least amount; smaller ones count as it")
    high: float | BySpec = Field(
        description="largest amount; larger ones count as it. Public: never chosen from the data. Or one for each class"
    )
    step: float = Field(1.0, description="in which amounts are read; it divides the range")
    valid: list[float] | None = Field(
        None, min_length=2, max_length=2, description="numbers below the first or above the second are no amounts"
    )
    ceilings: list[float] | None = Field(
        None, description="amounts between low and high up to which sums may be asked for too, increasing"
    )
    column: str | None = None

    @model_validator(mode="after")
    def _no_dates(self) -> Self:
        if self.read is not None:
            raise SpecError(
                "amount-with-read",
                "The amount has the key read.",
                "fitnoise reads no amount off a date.",
                "Remove read.",
                "No data were read.",
                place="read",
            )
        return self

    def build(self, folder: Path | None) -> Attribute:
        """The attribute."""
        own = {name: x for name, x in self._beside.items() if name != "read"}
        valid = None if self.valid is None else (self.valid[0], self.valid[1])
        said = {"step": self.step, "column": self.column, "valid": valid, "ceilings": self.ceilings}
        low, high = (x.build() if isinstance(x, BySpec) else x for x in (self.low, self.high))
        return Amount(low, high, **said, **own)  # type: ignore[arg-type]  # each of its type


class HierarchySpec(_WithMissing):
    """Nested places: a row for each leaf, in line or in a CSV file with a column for each level; or their numbers."""

    type: Literal["hierarchy"]
    levels: list[str] = Field(description="names of the levels, from the top down; a table names one as its attribute")
    places: list[list[bool | int | str]] | None = Field(None, description="for each leaf its codes, level by level")
    file: str | None = Field(None, description="CSV file of the places, relative to the specification")
    children: list[int] | None = Field(
        None, description="how many places the first level has, and then each place of the level above; codes are made"
    )
    column: str | None = Field(None, description="column of the data with codes of leaves, if not the attribute's name")

    @model_validator(mode="after")
    def _no_cells_beside(self) -> Self:
        if any(x is not None for x in self._beside.values()):
            raise SpecError(
                "hierarchy-unsupported-keys",
                f"The hierarchy has {' and '.join(x for x, given in self._beside.items() if given is not None)}.",
                "A hierarchy has no missing, absent, outside or read.",
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
        """The attribute; SpecError when its places are in a file and the folder is not known."""
        if self.file is None:
            return Hierarchy(self.levels, self.places, children=self.children, column=self.column)
        return Hierarchy.from_file(file_beside(folder, "file", self.file), self.levels, column=self.column)


def file_beside(folder: Path | None, key: str, name: str) -> Path:
    """A file beside the specification."""
    if any(ord(c) < ord(" ") for c in name):  # what \n and \t in "C:\new\table.csv" are
        raise SpecError(
            "file-name-unusable",
            f"The key {key} = {name!r} is not the name of a file.",
            "",
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
            "Give the folder, or write the codes into the specification.",
            "No data were read.",
            place=key,
        )
    return folder / name


AttributeSpec = Annotated[
    CategoricalSpec | OrderedSpec | BinnedSpec | AmountSpec | HierarchySpec, Field(discriminator="type")
]
"""All kinds there are."""

KINDS: tuple[str, ...] = tuple(
    name for model in get_args(get_args(AttributeSpec)[0]) for name in get_args(model.model_fields["type"].annotation)
)
"""What they are called."""
