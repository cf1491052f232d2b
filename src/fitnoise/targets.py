"""What users say about accuracy, and the variance it means.

| said | variance |
|---|---|
| margin of error m at confidence γ | (m / z)², z = Φ⁻¹((1 + γ)/2) |
| standard error s | s² |
| variance v | v |
| coefficient of variation r at a reference count n | (r n)² |
| max deviation m over a table of k numbers at γ | (m / z)², z at the confidence γ^(1/k) |

For max deviations the chance that *every* number of the table is within ±m is then at least γ, whatever the
correlations (Šidák 1967).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fitnoise.errors import WorkloadError


class Kind(StrEnum):
    """The ways to say how accurate a number must be."""

    MARGIN = "margin"
    STD_ERROR = "std_error"
    VARIANCE = "variance"
    MAX_DEVIATION = "max_deviation"
    CV = "cv"


def check_confidence(confidence: float) -> float:
    """A confidence strictly between 0 and 1, as a float."""
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise WorkloadError(f"a confidence lies strictly between 0 and 1, such as 0.95; got {confidence!r}.")
    return float(confidence)


def z_score(confidence: float) -> float:
    """Two-sided normal quantile: P(|Z| ≤ z) = confidence."""
    tail = (1.0 - check_confidence(confidence)) / 2.0
    return float(-ndtri(tail))


@final
@dataclass(frozen=True)
class By:
    """A target that depends on the value of one attribute of the table.

    Args:
        attribute: one of the table's attributes; it becomes *structured* (its values are no longer alike).
        values: one number per row the table has along that attribute, or a mapping value → number.
        default: the number for values the mapping leaves out.

    Example:
        `table("state", margin=By("state", {"Wyoming": 5}, default=20))`
    """

    attribute: str
    values: tuple[float, ...] | tuple[tuple[str, float], ...]
    default: float | None = None

    def __init__(
        self, attribute: str, values: Sequence[float] | Mapping[Any, float], default: float | None = None
    ) -> None:
        if isinstance(values, Mapping) and len({str(k) for k in values}) != len(values):
            raise WorkloadError(f"a target by {attribute!r} names a value twice; each value has one number.")
        object.__setattr__(self, "attribute", attribute)
        pairs = tuple((str(k), v) for k, v in values.items()) if isinstance(values, Mapping) else tuple(values)
        object.__setattr__(self, "values", pairs)
        object.__setattr__(self, "default", default)

    @property
    def named(self) -> bool:
        """Whether the numbers are given by name rather than in order."""
        return any(isinstance(v, tuple) for v in self.values)

    def along(self, labels: Sequence[str | int]) -> NDArray[np.float64]:
        """The number for each label, shape (len(labels),)."""
        if not self.named:
            if len(self.values) != len(labels):
                raise WorkloadError(
                    f"a target by {self.attribute!r} needs one number per row along it: {len(labels)}; "
                    f"got {len(self.values)}."
                )
            return np.array(self.values, dtype=np.float64)
        texts = [str(x) for x in labels]
        out = np.full(len(labels), math.nan if self.default is None else self.default, dtype=np.float64)
        for item in self.values:
            name, number = item if isinstance(item, tuple) else (None, item)
            if name not in texts:
                raise WorkloadError(f"a target by {self.attribute!r} names {name!r}, which is not among its values.")
            out[texts.index(name)] = number
        if np.isnan(out).any():
            missing = [t for t, x in zip(texts, out, strict=True) if math.isnan(x)][:3]
            raise WorkloadError(
                f"a target by {self.attribute!r} says nothing of {', '.join(missing)}; name them or give a default."
            )
        return out


@final
@dataclass(frozen=True)
class Target:
    """How accurate each number of a table must be.

    Args:
        kind: which of the five ways of saying it.
        number: one positive number for the whole table, or :class:`By` one attribute.
        confidence: for margins and max deviations; None takes the workload's.
        reference: for a coefficient of variation, the count it refers to.
    """

    kind: Kind
    number: float | By
    confidence: float | None = None
    reference: float | None = None

    def __post_init__(self) -> None:
        if self.confidence is not None:
            check_confidence(self.confidence)
        numbers: list[Any]
        if isinstance(self.number, By):
            numbers = [v[1] if isinstance(v, tuple) else v for v in self.number.values]
            numbers += [] if self.number.default is None else [self.number.default]
        else:
            numbers = [self.number]
        for x in numbers:
            if isinstance(x, bool) or not isinstance(x, (int, float, np.number)) or not (0 < x < math.inf):
                raise WorkloadError(
                    f"a {self.kind.value} is a positive finite number; got {x!r}. "
                    "An exact answer (zero error) would cost an unlimited amount of privacy."
                )
        if (self.reference is not None) != (self.kind is Kind.CV):
            raise WorkloadError("a coefficient of variation, and only that, needs a reference count.")
        if self.reference is not None and not 0 < self.reference < math.inf:
            raise WorkloadError(f"a reference count is a positive number; got {self.reference!r}.")

    def level(self, default: float) -> float:
        """The confidence it is meant at: its own, or the workload's."""
        return default if self.confidence is None else self.confidence

    def variance(self, number: NDArray[np.float64], confidence: float, cells: int) -> NDArray[np.float64]:
        """The variance each number asks for, in people², elementwise on `number`.

        Args:
            number: the target's numbers, broadcast to the table's rows.
            confidence: the workload's, used where the target has none of its own.
            cells: how many numbers the table has (for max deviations).
        """
        gamma = self.level(confidence)
        if self.kind is Kind.VARIANCE:
            return number
        if self.kind is Kind.STD_ERROR:
            return number**2
        if self.kind is Kind.CV:
            return np.asarray((number * (self.reference or math.nan)) ** 2)
        if self.kind is Kind.MAX_DEVIATION:
            # tail of γ^(1/k) as expm1(log γ / k): 1 − γ^(1/k) without cancellation for large tables
            return np.asarray((number / -ndtri(-math.expm1(math.log(gamma) / cells) / 2)) ** 2)
        return np.asarray((number / z_score(gamma)) ** 2)
