"""The keys that all kinds of attributes share, and the members of each kind.

A kind is one class: its keys in a specification, the attribute that it builds, and its form in a starter specification.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from fitnoise.errors import SpecError
from fitnoise.kernel.domain import Attribute
from fitnoise.request.spec_section import BACKSLASH, SpecSection

Code = bool | int | str

Pair = Annotated[list[Code], Field(min_length=2, max_length=2)]

FILL_IN_MARK = "fill in: "
"""The mark in the comment of a key that the publisher has to state."""

MISSING_HELP = "a cell of its own for missing values, with their codes"
"""The comment on `missing` in a starter specification."""


class AgeSpec(SpecSection):
    """An age in completed years, computed from a date of birth."""

    # TOML has dates of its own, and JSON writes them as texts
    age_on: str | date = Field(description="The day on which the age is computed, such as 2024-12-31.")


class AttributeSection(SpecSection, abc.ABC):
    """The keys of an attribute; this class has those for missing values and for dates, which most kinds share."""

    meaning: ClassVar[str]
    """The comment on the kind in a starter specification."""

    starter_keys: ClassVar[Mapping[str, tuple[str, str]]]
    """For each key of a starter specification an example and a comment."""

    is_summed: ClassVar[bool] = False
    """True if tables of a starter specification sum the attribute, and do not show it by value."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Raise TypeError if a class lacks a member.

        Args:
            options: Further arguments of the class.
        """
        super().__pydantic_init_subclass__(**options)
        lacking = {name for name in ("meaning", "starter_keys") if not hasattr(cls, name)} | cls.__abstractmethods__
        if abc.ABC not in cls.__bases__ and lacking:
            raise TypeError(f"The class {cls.__name__} lacks {', '.join(sorted(lacking))}.")

    @abc.abstractmethod
    def build(self, folder: Path | None) -> Attribute:
        """Return the attribute.

        Args:
            folder: The folder of the specification, where its files lie; None if it is not known.

        Raises:
            SpecError: The declaration names a file, and the folder is not known or the file has no usable name.
            DomainError: A file cannot be read, or the keys declare no such attribute.
        """

    missing: dict[str, list[Code]] | None = Field(
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
