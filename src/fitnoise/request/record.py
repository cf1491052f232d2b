"""The facts that a registry of deployments needs and only people know: the table [record] of a file."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from fitnoise.errors import SpecError
from fitnoise.request.spec_errors import complaints, not_toml, several_problems, unreadable_file
from fitnoise.request.spec_section import SpecSection

_Text = Annotated[str, Field(min_length=1)]

_People = Annotated[list[_Text], Field(min_length=1)]


class RecordSpec(SpecSection):
    """Texts for the record of a registry of deployments; its keys are those of the registry."""

    url_slug: _Text | None = Field(
        None, description="The end of the address of the record. If absent, fitnoise makes it from the title."
    )
    data_curators: _People | None = Field(None, description="The publishers. If absent, the record has a gap to fill.")
    intended_use: _Text | None = Field(
        None, description="The purpose of the tables. If absent, the record has a gap to fill."
    )
    description: _Text | None = Field(
        None, description="A short description of the tables. If absent, the record has a gap to fill."
    )
    data_product_region: _Text | None = Field(
        None, description="The region that the data describe. If absent, the record has a gap to fill."
    )
    data_product_sector: Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"] | None = (
        Field(None, description="The industry or domain of the data. If absent, the record has a gap to fill.")
    )
    publication_date: date | None = Field(
        None,
        strict=False,  # a date of TOML, or a text of the same form
        description="The date of publication. If absent, the record has a gap to fill.",
    )
    actors: _Text | None = Field(
        None,
        description="The people and systems that see data, and the trust placed in each. If absent, the record has a "
        "gap to fill.",
    )
    justification: _Text | None = Field(
        None,
        description="The reasons for the targets, the budget and the unit. If absent, the record has a gap to fill.",
    )
    sources: _Text | None = Field(
        None, description="Further documents, and the place of the tables. If absent, the record has a gap to fill."
    )
    registry_authors: _People | None = Field(
        None, description="The authors of the record. If absent, the record has a gap to fill."
    )


def load_words(path: str | Path) -> RecordSpec:
    """Return the words of the table [record] of a TOML file, which can be the specification.

    Raises:
        SpecError: The file cannot be read, has no such table, or has an unknown key or value in it.
    """
    path, outcome = Path(path), "No record was made."
    try:
        # Editors on Windows may put a byte order mark first, which tomllib refuses.
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
        # Only this table is validated: the rest of the file can be a specification, or anything else.
        return RecordSpec.model_validate(document["record"])
    except ValidationError as error:
        problems = complaints(error.errors(), document["record"])
        # `complaints` gives places within the table; readers look for them in the file.
        raise several_problems([x.with_place(f"record.{x.place}") for x in problems], outcome) from None
