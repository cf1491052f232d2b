"""Codes without an order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from fitnoise.errors import SpecError
from fitnoise.kernel.domain import Attribute, Categorical
from fitnoise.request.attributes._base import FILL_IN_MARK, MISSING_HELP, AttributeSection, Code, Pair, resolve_file


class CategoricalSpec(AttributeSection):
    """Codes without an order, listed here or in a CSV file with a column `code` (and `label`)."""

    meaning = "values without an order; other kinds are ordered, binned, amount and hierarchy"
    starter_keys: ClassVar[Mapping[str, tuple[str, str]]] = {
        "codes": ('["a", "b"]', FILL_IN_MARK + "every code there may be, as it stands in the data"),
        "labels": ('["first", "second"]', "what tables show instead, one for each code"),
        "missing": ('{ unknown = ["9"] }', MISSING_HELP),
    }

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
        description="A CSV file with the codes; its path is relative to the specification. Codes are numbers if the "
        "file writes all as 12 and not as 012, otherwise texts. If absent, codes lists the codes.",
    )
    column: str | None = Field(
        None, description="The column of the data. If absent, it is the column with the name of the attribute."
    )
    lookup: dict[str, Code] | list[Pair] | None = Field(
        None,
        description="The code for each value in the data, such as the region of a postcode: a table value = code, or "
        "pairs of value and code. If absent, the data hold the codes.",
    )
    lookup_file: str | None = Field(
        None,
        description="A CSV file with the columns `value` and `code` in place of lookup. Values are numbers if the file "
        "writes all as 12 and not as 012, otherwise texts. If absent, no file is read.",
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
