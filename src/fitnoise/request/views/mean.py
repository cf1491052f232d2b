"""Means of amounts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from fitnoise.algebra import operators as op
from fitnoise.errors import WorkloadError
from fitnoise.kernel.checks import is_real
from fitnoise.request.attributes import Attribute
from fitnoise.request.views._base import Entry, KeyedView, RowOrder


@final
@dataclass(frozen=True)
class Mean(KeyedView):
    """The mean of an amount, measured as counts at both ends of its range.

    A record of x counts (high − x)/(high − low) at the lower end, and the rest at the upper end.

    reference: The public number n of records to which the target refers, positive.
    """

    reference: float
    key, kind = "mean", str
    description = (
        "The amount whose mean the table shows; its target holds at the reference number of records. If absent, the "
        "table counts or sums."
    )
    is_by_value, is_sum = False, False
    row_order, signed, is_causal = RowOrder.NONE, False, False
    heading_text, rows_text, column_text = None, None, "report.column.mean"
    document = None

    @classmethod
    def parse(cls, entry: Entry) -> Self:
        """Return the view. Raise WorkloadError without a public number of records."""
        n = entry.reference
        if not is_real(n) or not 0 < float(n) < math.inf:
            raise WorkloadError(
                "mean-needs-reference",
                f"The mean of {entry.attribute!r} has the reference {n!r}.",
                "It needs the public number of records to which its target refers; with fewer records a mean is less "
                "accurate.",
                "Give such a number, such as reference = 2_000.",
                "Nothing was planned.",
                place="reference",
            )
        return cls(float(n))

    @property
    def further_keys(self) -> Mapping[str, Any]:
        """The number of records to which the target refers."""
        return {"reference": self.reference}

    @classmethod
    def key_document(cls, views: Mapping[str, Self]) -> str:
        """Return the name of the one amount."""
        # A table has one mean at most, so the key is a name and no list.
        (name,) = views
        return name

    def operator(self, attribute: Attribute) -> op.Operator:
        """Return the counts at the lower and the upper end as two queries. A ceiling between counts at both, in parts.

        Raises:
            WorkloadError: The attribute is no amount, or its range depends on another attribute.
        """
        if not attribute.steps:
            raise WorkloadError(
                "mean-needs-amount",
                f"The attribute of mean is {attribute.kind}.",
                "A mean needs an amount.",
                "Name an amount; the mean of whole numbers shown by value follows from the release (Release.mean).",
                "Nothing was planned.",
                place="mean",
            )
        if attribute.range_attribute is not None:
            raise WorkloadError(
                "mean-of-ranges-by-class",
                f"The range of the amount depends on {attribute.range_attribute!r}.",
                "No target of its mean has one meaning for all of these ranges.",
                "Publish its sum and the number of records: Release.mean computes the mean from them.",
                "Nothing was planned.",
                place="mean",
            )
        # Without ceilings the amount has two knots, its ends, and each query counts one of them.
        if not attribute.ceilings:
            return op.Groups(attribute.size, ((0,), (1,)))
        passed = np.cumsum((0, *attribute.steps))
        # Whole numbers without a common divisor, scaled so that a record at an end counts one there.
        rows = np.stack([passed[-1] - passed, passed]) // math.gcd(*passed.tolist())
        zeros = np.zeros((2, len(attribute.missing_cells)), dtype=np.int64)
        return op.Scaled(op.Dense(np.hstack([rows, zeros])), np.full(2, 1 / int(rows.max())))

    def labels(self, attribute: Attribute) -> tuple[str | int, ...]:
        """Return the ends."""
        ends = attribute.own_values
        return ends[0], ends[-1]

    def scale(self, attribute: Attribute) -> float:
        """Return the number of records at an end for a unit of the mean: n/(high − low)."""
        low, high = self.labels(attribute)
        # With S the sum and N the number of records, a mean r has the error of (S − r N)/n, to first order.
        # S − r N = (low − r) A + (high − r) B for the counts A and B at the ends, each of standard error s.
        # Its standard error is at most ((r − low) + (high − r)) s, for any correlation, and exactly this at an end.
        return self.reference / (float(high) - float(low))
