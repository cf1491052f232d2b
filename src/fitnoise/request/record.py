"""What a registry of deployments wants to know that only people can say: the table [record] of a file."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from fitnoise.errors import SpecError
from fitnoise.request.complaints import complaints, not_toml, several_problems, unreadable_file
from fitnoise.request.parts import Part

_Words = Annotated[str, Field(min_length=1)]

_People = Annotated[list[_Words], Field(min_length=1)]


class RecordSpec(Part):
    """Words for the record of a registry; a word that is missing is left to be filled. Keys are the registry's own."""

    url_slug: _Words | None = Field(None, description="what the record's address ends with; default from the title")
    data_curators: _People | None = Field(None, description="who publishes")
    intended_use: _Words | None = Field(None, description="what the tables are for")
    description: _Words | None = Field(None, description="what they are, in short")
    data_product_region: _Words | None = Field(None, description="which region the data describe")
    data_product_sector: Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"] | None = (
        Field(None, description="of which industry or domain they are")
    )
    publication_date: date | None = Field(None, strict=False, description="when they were published")
    actors: _Words | None = Field(None, description="who sees what, and who is trusted with what")
    justification: _Words | None = Field(None, description="why targets, budget and unit are what they are")
    sources: _Words | None = Field(None, description="where more is said, and where the tables are")
    registry_authors: _People | None = Field(None, description="who wrote the record")


def load_words(path: str | Path) -> RecordSpec:
    """The words of the table [record] of a TOML file: one of their own, or the specification's.

    Raises:
        SpecError: the file cannot be read, has no such table, or says something there that is not known.
    """
    path, outcome = Path(path), "No record was made."
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable_file(f"The file {path.name!r}", error, outcome) from None
    try:
        document = tomllib.loads(text)
    except ValueError as error:
        raise not_toml(f"The file {path.name!r}", text, error, outcome) from None
    if not isinstance(document.get("record"), dict):
        raise SpecError(
            "record-table-missing",
            f"The file {path.name!r} has no table [record].",
            "It holds the words of a record.",
            "Add this table, or name another file.",
            outcome,
            place="record",
        )
    try:
        return RecordSpec.model_validate(document["record"])
    except ValidationError as error:
        found = complaints(error.errors(), document["record"])
        raise several_problems([x.with_place(f"record.{x.place}") for x in found], outcome) from None
