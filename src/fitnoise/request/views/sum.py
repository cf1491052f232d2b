"""Sums of amounts and of whole numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self, final

import numpy as np

from fitnoise.algebra import operators as op
from fitnoise.errors import WorkloadError
from fitnoise.kernel.checks import is_real
from fitnoise.request.attributes import Amount, Attribute, CodingRule, Ordered
from fitnoise.request.views._base import Entry, KeyedView, RowOrder


@final
@dataclass(frozen=True)
class Sum(KeyedView):
    """The sum of an amount, or of whole numbers, over the records; of several, the sum of their product.

    ceiling: The limit t up to which an amount counts, Σ min(x, t): a declared ceiling; None means the upper end of its
    range.
    """

    ceiling: float | None = None
    key, kind = "sum", str | list[str]
    description = (
        "The amounts or attributes of whole numbers that the table sums; for several, the table sums their product. If "
        "absent, the table counts records."
    )
    is_by_value, is_sum = False, True
    row_order, signed, is_causal = RowOrder.NONE, False, False
    heading_text, rows_text, column_text = None, None, "report.column.sum"
    document = None

    @classmethod
    def parse(cls, entry: Entry) -> Self:
        """Return the view. Raise WorkloadError for a ceiling that is no finite number."""
        if entry.ceiling is None:
            return cls()
        if not is_real(entry.ceiling) or not math.isfinite(entry.ceiling):
            raise WorkloadError(
                "ceiling-not-finite",
                f"The ceiling is {entry.ceiling!r}.",
                "It must be a finite number, one of those that the amount declares.",
                "Give such a number.",
                "Nothing was planned.",
                place="ceiling",
            )
        t = float(entry.ceiling)
        # The ceiling stands in the name and the label of the table: "sum up to 500", and not 500.0.
        return cls(int(t) if t.is_integer() else t)

    @property
    def further_keys(self) -> Mapping[str, Any]:
        """The ceiling, if the view has one."""
        return {} if self.ceiling is None else {"ceiling": float(self.ceiling)}

    @property
    def name_suffix(self) -> str:
        """The key, with the ceiling if the view has one."""
        return self.key if self.ceiling is None else f"{self.key} up to {self.ceiling}"

    def coding_rules(self, attribute: Attribute) -> tuple[CodingRule, ...]:
        """Return the rules by which amounts are cut and rounded; whole numbers have the rules of their attribute."""
        return attribute.coding_rules_up_to(self.ceiling)

    def operator(self, attribute: Attribute) -> op.Operator:
        """Return one query, (1, cells): the amount that each cell adds, as whole numbers and a scale.

        Raises:
            WorkloadError: The attribute has no amounts or whole numbers, or only the value 0, or has a ceiling without
                being an amount.
            DomainError: The amount does not declare the ceiling.
        """
        if isinstance(attribute, Amount):
            values, unit = _integer_knots(attribute, attribute.upper_limit(self.ceiling))
        elif self.ceiling is not None:
            raise WorkloadError(
                "ceiling-needs-amount",
                "The table has a ceiling, and sums whole numbers.",
                "A ceiling is one of those that an amount declares.",
                "Clip the range of the attribute, or declare an amount on the same column.",
                "Nothing was planned.",
                place="ceiling",
            )
        elif isinstance(attribute, Ordered):
            values, unit = [*range(attribute.low, attribute.high + 1)], 1.0
            # A query of zeros only would have no error, and no mechanism can plan it.
            if not any(values):
                raise WorkloadError(
                    "sum-always-zero",
                    "The only value of the summed attribute is 0.",
                    "Its sum is always 0.",
                    "Leave the sum out.",
                    "Nothing was planned.",
                    place="sum",
                )
        else:
            raise WorkloadError(
                "sum-needs-amount",
                f"The summed attribute is {attribute.kind}.",
                "A sum needs amounts or whole numbers (Amount or Ordered).",
                "Name such an attribute.",
                "Nothing was planned.",
                place="sum",
            )
        # A missing value adds nothing to a sum.
        row = np.array([values + [0] * len(attribute.missing_cells)], dtype=np.int64)
        return op.Scaled(op.Dense(row), np.array([unit]))

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """Return the key, with the ceiling if the view has one."""
        return (self.name_suffix,)


def _integer_knots(attribute: Amount, top: float) -> tuple[list[int], float]:
    """Return an amount's knots, cut to a ceiling, in units of their own, and the unit.

    The unit is the largest number of which both ends of the range and the step are multiples.
    """
    exact = attribute.exact
    # The step is among them: a record between two knots adds a number of steps, and so of units.
    parts = [x for x in (exact.low, exact.high, exact.step) if x]
    below = math.lcm(*(x.denominator for x in parts))
    unit = Fraction(math.gcd(*(int(x * below) for x in parts)), below)
    # From the knot of the ceiling on, all knots add the ceiling, so that records beyond it do as well.
    last = attribute.own_values.index(top)
    knots = (exact.low, *exact.ceilings, exact.high)
    return [int(knots[min(i, last)] / unit) for i in range(len(knots))], float(unit)
