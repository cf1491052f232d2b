"""Whole numbers in a range."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from fitnoise.kernel.domain import Attribute, Ordered
from fitnoise.request.attributes._base import FILL_IN_MARK, MISSING_HELP, AttributeSection


class OrderedSpec(AttributeSection):
    """Whole numbers from low to high."""

    meaning = "whole numbers, of which tables may show cumulative counts and ranges"
    starter_keys: ClassVar[Mapping[str, tuple[str, str]]] = {
        "low": ("0", FILL_IN_MARK + "the least there may be"),
        "high": ("99", FILL_IN_MARK + "the largest"),
        "clip": ("true", "count smaller and larger ones at the ends"),
        "missing": ("{ unknown = [-1] }", MISSING_HELP),
    }

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
