"""Kinds of attributes as specifications write them: for each a model of its keys, registered in `AttributeSpec`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from fitnoise.errors import SpecError
from fitnoise.kernel.domain import Attribute, Binned, Categorical, Ordered
from fitnoise.request.parts import Part


class CategoricalSpec(Part):
    """Unordered codes, in line or in a CSV file with a column `code` (and `label`)."""

    type: Literal["categorical"]
    codes: list[bool | int | str] | None = Field(None, description="the codes the data hold")
    labels: list[str] | None = Field(None, description="what the tables show, one per code")
    codes_file: str | None = Field(None, description="CSV file, relative to the specification")
    column: str | None = Field(None, description="column of the data, if not the attribute's name")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.codes is None) == (self.codes_file is None):
            raise ValueError("give either codes or codes_file")
        if self.labels is not None and (self.codes is None or len(self.labels) != len(self.codes)):
            raise ValueError("labels go with codes, one for each")
        return self

    def build(self, folder: Path | None) -> Attribute:
        """The attribute; SpecError when its codes are in a file and the folder is not known."""
        if self.codes_file is not None:
            if folder is None:
                raise SpecError(
                    f"codes_file = {self.codes_file!r} names a file beside the specification, and its folder is not "
                    "known here; give the folder, or the codes themselves."
                )
            return Categorical.from_file(folder / self.codes_file, column=self.column)
        codes = self.codes or []
        if self.labels is None:
            return Categorical(codes, column=self.column)
        Categorical(codes)  # a repeated code would vanish silently in the mapping below
        return Categorical(dict(zip(codes, self.labels, strict=True)), column=self.column)


class OrderedSpec(Part):
    """Whole numbers from low to high."""

    type: Literal["ordered"]
    low: int
    high: int
    clip: bool = Field(False, description="count smaller values as low and larger ones as high")
    column: str | None = None

    def build(self, folder: Path | None) -> Attribute:
        """The attribute."""
        return Ordered(self.low, self.high, self.clip, self.column)


class BinnedSpec(Part):
    """A number cut into bins: below the first cut, between cuts (lower end included), the last cut or more."""

    type: Literal["binned"]
    cuts: list[float]
    column: str | None = None

    def build(self, folder: Path | None) -> Attribute:
        """The attribute."""
        return Binned(self.cuts, column=self.column)


AttributeSpec = Annotated[CategoricalSpec | OrderedSpec | BinnedSpec, Field(discriminator="type")]
"""All kinds there are."""

KINDS: tuple[str, ...] = tuple(
    name for model in get_args(get_args(AttributeSpec)[0]) for name in get_args(model.model_fields["type"].annotation)
)
"""What they are called."""
