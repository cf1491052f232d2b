"""Numbers in bins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from fitnoise.kernel.domain import Attribute, Binned
from fitnoise.request.attributes._base import FILL_IN_MARK, MISSING_HELP, AttributeSection


class BinnedSpec(AttributeSection):
    """A number in bins: below the first cut, between two cuts (lower end included), and from the last cut on."""

    meaning = "numbers in bins, the lower end of each included"
    starter_keys: ClassVar[Mapping[str, tuple[str, str]]] = {
        "cuts": ("[20, 40, 65]", FILL_IN_MARK + "where a bin ends and the next begins; those at the ends are open"),
        "missing": ("{ unknown = [-1] }", MISSING_HELP),
    }

    type: Literal["binned"] = Field(description="The kind of the attribute.")
    cuts: list[float] = Field(description="The limits between the bins, in increasing order.")
    column: str | None = Field(
        None, description="The column of the data. If absent, it is the column with the name of the attribute."
    )

    def build(self, folder: Path | None) -> Attribute:
        """Return the attribute."""
        return Binned(self.cuts, column=self.column, **self._reading_options)
