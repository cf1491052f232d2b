"""Numbers in bins."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, final

from pydantic import Field

from fitnoise.errors import DomainError
from fitnoise.kernel.checks import describe_value
from fitnoise.kernel.codings import EXACT_FLOAT_LIMIT, Code, Coding, Cuts
from fitnoise.kernel.dates import DateField
from fitnoise.request.arguments import checked
from fitnoise.request.attributes._base import (
    FILL_IN_MARK,
    FROM,
    MISSING_HELP,
    TO,
    Attribute,
    AttributeSection,
    Missing,
    check_column,
    unknown_value,
)

EXAMPLES_IN_BIN = 100
"""The approximate count of whole numbers of a bin that serve as examples."""


@final
@dataclass(frozen=True)
class Binned(Attribute):
    """A number cut at c₁ < c₂ < … < c_k into k + 1 bins: below c₁, [c₁, c₂), …, c_k or more.

    `missing`, `if_missing`, `if_outside` and `date_part` are as for :class:`Categorical`; codes of `missing` come
    before any bin.

    Raises:
        DomainError: There are no cuts, or they are not finite numbers, or not strictly increasing.
        DomainError: A cut is a whole number that double precision does not hold.
        DomainError: Two cells cannot be distinguished, or the column, the date part or a part of `missing` is invalid.
    """

    kind, ordered, has_sequence, is_numeric = "binned", True, True, False

    cuts: tuple[float, ...]
    column: str | None = None
    missing: Missing = ()
    if_missing: str | None = None
    if_outside: str | None = None
    date_part: DateField | Mapping[str, Any] | str | None = None
    coding: Coding = field(init=False, repr=False, compare=False)
    _values: tuple[str, ...] = field(init=False, repr=False, compare=False)

    @checked(DomainError, "Nothing was made.")
    def __init__(
        self,
        cuts: Sequence[float],
        *,
        column: str | None = None,
        missing: Missing | None = None,
        if_missing: str | None = None,
        if_outside: str | None = None,
        date_part: DateField | Mapping[str, Any] | str | None = None,
    ) -> None:
        coding = Cuts(tuple(cuts))
        self._with_read(date_part, int)
        check_column(column)
        object.__setattr__(self, "cuts", coding.cuts)
        object.__setattr__(self, "column", column)
        text = [cut_text(c) for c in coding.cuts]
        middle = [f"{a} to under {b}" for a, b in itertools.pairwise(text)]
        object.__setattr__(self, "_values", (f"under {text[0]}", *middle, f"{text[-1]} or more"))
        self._with_missing(coding, missing, if_missing, if_outside)

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The texts of the bins, such as "10000 to under 25000"."""
        return self._values

    @property
    def further_columns(self) -> dict[str, tuple[Code | float, ...]]:
        """The ends of the bins: the lower end, which belongs to the bin, and the upper end, which belongs to the next.

        An open end is NaN. So are both ends of a missing-value category.
        """
        none = (math.nan,) * len(self.missing_cells)
        return {FROM: (math.nan, *self.cuts, *none), TO: (*self.cuts, math.nan, *none)}

    def own_position(self, value: object) -> int:
        """Return the cell of the bin with this text.

        A number is refused. It lies in a bin that holds other numbers, and may be meant as an end.

        Args:
            value: The text of a bin as tables show it.

        Returns:
            The position of the cell, from 0.

        Raises:
            DomainError: The value is not such a text.
        """
        if isinstance(value, str) and value in self._values:
            return self._values.index(value)
        raise unknown_value(describe_value(value), f"It must be one of the bins {list(self._values)}.")

    def own_examples(self, cell: int, class_cell: int) -> Sequence[Any]:
        """Return about `EXAMPLES_IN_BIN` whole numbers of a bin; its ends if it holds none.

        Args:
            cell: The index of the bin, from 0.
            class_cell: Not used: only the range of an amount depends on another attribute.
        """
        del class_cell
        low, high = self._ends[cell : cell + 2]
        # Beyond the limit, not every integer is a float, and the ends of the bin serve.
        integers = range(math.ceil(low), math.ceil(high)) if max(abs(low), abs(high)) < EXACT_FLOAT_LIMIT else range(0)
        return integers[:: max(len(integers) // EXAMPLES_IN_BIN, 1)] or (low, math.nextafter(high, -math.inf))

    @property
    def limits(self) -> tuple[float, float]:
        """The ends of the first and of the last bin, as examples have them."""
        return self._ends[0], self._ends[-1]

    @property
    def _ends(self) -> list[float]:
        """The cuts with ends for the outer bins, each as wide as all inner bins; the low end stays at 0 if possible."""
        cuts = self.cuts
        width = cuts[-1] - cuts[0] or abs(cuts[0]) or 1
        low_end = cuts[0] - width
        return [max(low_end, 0) if cuts[0] > 0 else low_end, *cuts, cuts[-1] + width]

    def declared(self) -> dict[str, Any]:
        """Return the cuts."""
        return {"cuts": list(self.cuts)}


def cut_text(x: float) -> str:
    """Return a cut as labels show it: 10000 for 10000.0, any other number in its shortest decimals."""
    return str(int(x)) if x == int(x) and abs(x) < EXACT_FLOAT_LIMIT else repr(x)


class BinnedSpec(AttributeSection):
    """A number in bins: below the first cut, between two cuts (lower end included), and from the last cut on."""

    meaning = "numbers in bins, the lower end of each included"
    starter_keys: ClassVar[Mapping[str, tuple[str, str]]] = {
        "cuts": ("[20, 40, 65]", FILL_IN_MARK + "where a bin ends and the next begins; those at the ends are open"),
        "missing": ("{ unknown = [-1] }", MISSING_HELP),
    }

    type: Literal["binned"] = Field(description="The kind of the attribute.")
    cuts: list[float] = Field(description="The limits between the bins, in increasing order.")

    def build(self, folder: Path | None) -> Attribute:
        """Return the attribute."""
        return Binned(self.cuts, column=self.column, **self._reading_options)
