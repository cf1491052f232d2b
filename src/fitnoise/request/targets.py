"""The accuracy that users state, and the variance that it means.

| stated | variance |
|---|---|
| margin of error m at confidence γ | (m / z)², z = Φ⁻¹((1 + γ)/2) |
| standard error s | s² |
| variance v | v |
| relative standard error r at a reference count n | (r n)² |
| max deviation m over a table of k numbers at γ | (m / z)², z at the confidence γ^(1/k) |

For max deviations, the probability that *every* number of the table is within ±m is then at least γ, for any
correlations (Šidák 1967).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fitnoise.errors import WorkloadError
from fitnoise.kernel.checks import is_real
from fitnoise.request.number_rules import ByAttribute, ByTableSize, PublicTotal, number_document


class TargetKind(StrEnum):
    """The ways to state the accuracy of a number."""

    MARGIN = "margin"
    STD_ERROR = "std_error"
    VARIANCE = "variance"
    MAX_DEVIATION = "max_deviation"
    RELATIVE_STD_ERROR = "relative_std_error"


def checked_confidence(confidence: float | Fraction) -> float:
    """Return a confidence level as a float.

    Raises:
        WorkloadError: The confidence is not a number, or as a float it is not strictly between 0 and 1.
    """
    number = is_real(confidence) or isinstance(confidence, Fraction)
    # A Fraction can be too large for a float, or round to 0 or 1.
    if not (number and 0 < confidence < 1 and 0 < float(confidence) < 1):
        raise WorkloadError(
            "confidence-out-of-range",
            f"The confidence is {confidence!r}.",
            "It must lie strictly between 0 and 1.",
            "Give such a number, such as 0.95.",
            "Nothing was computed.",
            place="confidence",
        )
    return float(confidence)


def z_score(confidence: float) -> float:
    """Return the two-sided normal quantile: P(|Z| ≤ z) = confidence.

    Raises:
        WorkloadError: The confidence is not strictly between 0 and 1.
    """
    # the quantile of the small tail: (1 + γ)/2 would be rounded where γ is near 1
    tail = (1.0 - checked_confidence(confidence)) / 2.0
    return float(-ndtri(tail))


@final
@dataclass(frozen=True)
class Target:
    """The accuracy that each number of a table needs.

    Args:
        kind: One of the five ways to state accuracy.
        number: The positive number of the kind. It is one for the complete table, or one for each
            value of an attribute (:class:`ByAttribute`), or follows from the table's size (:class:`ByTableSize`).
        confidence: The confidence level of margins and max deviations; None takes the workload's.
        reference: The count to which a relative standard error refers: one number, or a :class:`PublicTotal` spread
            over the table.

    Raises:
        WorkloadError: The kind, a number, the confidence or the reference count is not one of these. Or a relative
            standard error has no reference count, or another kind has one.
    """

    kind: TargetKind
    number: float | ByAttribute | ByTableSize
    confidence: float | None = None
    reference: float | PublicTotal | None = None

    def __post_init__(self) -> None:
        if self.kind not in list(TargetKind):
            raise WorkloadError(
                "target-kind-unknown",
                f"The kind of a target is {self.kind!r}.",
                "",
                f"Name one of {', '.join(TargetKind)}.",
                "Nothing was planned.",
            )
        object.__setattr__(self, "kind", TargetKind(self.kind))
        if self.confidence is not None:
            object.__setattr__(self, "confidence", checked_confidence(self.confidence))
        numbers: list[Any]
        if isinstance(self.number, ByAttribute):
            # by name a pair (value, number), by order the number alone
            numbers = [v[1] if isinstance(v, tuple) else v for v in self.number.values]
            numbers += [] if self.number.default is None else [self.number.default]
        else:
            numbers = [] if isinstance(self.number, ByTableSize) else [self.number]
        for x in numbers:
            if not (is_real(x) and 0 < x < math.inf):
                raise WorkloadError(
                    "target-not-positive",
                    f"A {self.kind.value} is {x!r}.",
                    "It must be a positive finite number: an exact answer (zero error) would cost unlimited privacy.",
                    "Give a small positive number; the plan states its cost.",
                    "Nothing was planned.",
                    place=self.kind.value,
                )
        # A reference that has no effect could be meant for another kind of target, so it is refused and not ignored.
        if (self.reference is not None) != (self.kind is TargetKind.RELATIVE_STD_ERROR):
            raise WorkloadError(
                "reference-misfit",
                f"The target is a {self.kind.value}, and there is {'no' if self.reference is None else 'a'} reference "
                f"count.",
                "A relative_std_error needs a reference count, and no other target has one.",
                "Give a reference with relative_std_error, and only with it.",
                "Nothing was planned.",
                place="reference",
            )
        is_number = self.reference is None or isinstance(self.reference, PublicTotal)
        if not is_number and not (is_real(self.reference) and 0 < self.reference < math.inf):
            raise WorkloadError(
                "target-reference-not-positive",
                f"The reference count is {self.reference!r}.",
                "It must be a positive finite number.",
                "Give a number above 0.",
                "Nothing was planned.",
                place="reference",
            )

    @property
    def attribute(self) -> str | None:
        """The attribute by whose values the target differs; None if the target is one number for each table."""
        return self.number.attribute if isinstance(self.number, ByAttribute) else None

    @property
    def document(self) -> dict[str, Any]:
        """The keys of the target in a specification.

        Raises:
            SpecError: The target or the reference count is of a class that no specification can state.
        """
        return {
            self.kind.value: number_document(self.number),
            "reference": None if self.reference is None else number_document(self.reference),
            "confidence": self.confidence,
        }

    def level(self, default: float) -> float:
        """Return the confidence level of the target: its own, or the workload's."""
        return default if self.confidence is None else self.confidence

    def variance(
        self, number: NDArray[np.float64], confidence: float, cells: int | NDArray[Any]
    ) -> NDArray[np.float64]:
        """Return the variance that each number needs, in the square of its unit, elementwise on `number`.

        Args:
            number: The target's numbers, broadcast to the table's rows.
            confidence: The workload's confidence level, for a target without its own.
            cells: The number of numbers of the table (for max deviations and public totals); for several tables, one
                for each, broadcasting with `number`.
        """
        with np.errstate(over="ignore", under="ignore"):  # the workload refuses what leaves floating point
            return self._variance(number, self.level(confidence), cells)

    def _variance(self, number: NDArray[np.float64], gamma: float, cells: int | NDArray[Any]) -> NDArray[np.float64]:
        if self.kind is TargetKind.VARIANCE:
            return number
        if self.kind is TargetKind.STD_ERROR:
            return number**2
        if self.kind is TargetKind.RELATIVE_STD_ERROR:
            reference_count = (
                self.reference.total / np.asarray(cells) if isinstance(self.reference, PublicTotal) else self.reference
            )
            # the constructor refused a target of this kind without a reference
            return np.asarray((number * (math.nan if reference_count is None else reference_count)) ** 2)
        if self.kind is TargetKind.MAX_DEVIATION:
            # tail of γ^(1/k) as expm1(log γ / k): 1 − γ^(1/k) without cancellation for large tables
            return np.asarray((number / -ndtri(-np.expm1(math.log(gamma) / np.asarray(cells)) / 2)) ** 2)
        return np.asarray((number / z_score(gamma)) ** 2)
