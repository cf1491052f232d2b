"""Nested places."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from fitnoise.errors import SpecError
from fitnoise.kernel.domain import Attribute, Hierarchy
from fitnoise.request.attributes._base import FILL_IN_MARK, AttributeSection, resolve_file


class HierarchySpec(AttributeSection):
    """Nested places: a row of codes for each lowest place, or the number of places in each place.

    It takes no `missing`, `if_missing`, `if_outside` or `date_part`.
    """

    meaning = "nested places"
    starter_keys: ClassVar[Mapping[str, tuple[str, str]]] = {
        "levels": (
            '["state", "county", "tract"]',
            FILL_IN_MARK + "from the top down; a table names one as its attribute",
        ),
        "file": (
            '"places.csv"',
            FILL_IN_MARK
            + "a row for each place of the last level, a column for each level; or say children = [51, 62, 27]",
        ),
    }

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
