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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from fitnoise.errors import WorkloadError
from fitnoise.kernel.checks import is_real
from fitnoise.kernel.codings import number
from fitnoise.request.arguments import checked
from fitnoise.request.by_value import ByValue
from fitnoise.request.csv_rows import read_rows


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
@dataclass(frozen=True, init=False)
class ByAttribute(ByValue):
    """A number that depends on the value of one attribute: a target, or the range of an amount.

    Args:
        attribute: For a target, one of the table's attributes, and for a range, another attribute of the domain. It
            becomes *structured*: its values are no longer interchangeable.
        values: A mapping value → number, or numbers in order. A target has one for each row that the table has along
            the attribute, and a range one for each of the attribute's values.
        default: The number for values that the mapping leaves out; None if it names all.

    Raises:
        WorkloadError: The mapping names a value twice, such as 1 and "1". Missing numbers are refused later, by the
            table or the domain.

    Example:
        `table("state", margin=ByAttribute("state", {"Wyoming": 5}, default=20))`;
        `Amount(0, ByAttribute("size", {"small": 1_000, "large": 1_000_000}))`
    """

    @checked(WorkloadError, "Nothing was planned.")
    def __init__(
        self, attribute: str, values: Sequence[float] | Mapping[Any, float], default: float | None = None
    ) -> None:
        super().__init__(attribute, values, default)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        attribute: str,
        column: str,
        values: Mapping[str, float] | None = None,
        default: float | None = None,
    ) -> ByAttribute:
        """Return the numbers of a CSV file with a column of the attribute's values, such as places with a row for each.

        Args:
            path: The file; other columns are ignored.
            attribute: One of the table's attributes, or a level; also the name of the column of its values.
            column: The column of the number for each value, or of its class. An empty field means the default.
            values: The number for each class; None if the column has the numbers themselves.
            default: The number for values that are not in the file, or have no number there.

        Raises:
            WorkloadError: The file cannot be read, or lacks a column. Or it has an entry that is no number or no class
                with a number, or two different numbers for one value.

        Example:
            `table("county", margin=ByAttribute.from_file("places.csv", "county", "size", {"small": 20, "large": 100}))`
        """
        path = Path(path)
        header, rows = read_rows(path, "the file of targets", WorkloadError)
        for name in (attribute, column):
            if name not in header:
                raise WorkloadError(
                    "target-column-missing",
                    f"The file of targets {path.name!r} has no column {name!r}.",
                    f"Its columns are {header}.",
                    "Add the column to the file, or name one of these.",
                    "Nothing was planned.",
                    place=name,
                )
        numbers: dict[str, float] = {}
        for row in rows:
            code, text = row[attribute] or "", row[column] or ""
            # An empty field is no mistake: the default applies to the value.
            if not code or not text:
                continue
            number = _number(path, f"{attribute} {code!r}", text, values)
            # A file of places has one row for each place, so a value of a level above can appear many times.
            if numbers.setdefault(code, number) != number:
                raise WorkloadError(
                    "target-twice",
                    f"The file of targets {path.name!r} has the numbers {numbers[code]!r} and {number!r} for the "
                    f"{attribute} {code!r}.",
                    "",
                    "Give one number for each value.",
                    "Nothing was planned.",
                    place=attribute,
                )
        return cls(attribute, numbers, default)


def _number(path: Path, whose: str, text: str, classes: Mapping[str, float] | None) -> float:
    """Return the number that a file of targets has for a value.

    Args:
        path: The file, for the error.
        whose: The value, as a noun phrase, for the error.
        text: The entry for the value: the name of a class if `classes` are given, or else a number.
        classes: The number for each class; None if the entries are numbers.

    Raises:
        WorkloadError: The entry is no number, or no class with a number.
    """
    if classes is not None:
        if text not in classes:
            raise WorkloadError(
                "target-class-missing",
                f"The file of targets {path.name!r} has {whose} in the class {text!r}, which has no number.",
                f"The classes with a number are {sorted(classes)}.",
                "Add the class to the key values, or correct the file.",
                "Nothing was planned.",
                place="values",
            )
        return classes[text]
    result = number(text)
    if result is None:
        raise WorkloadError(
            "target-not-a-number",
            f"The file of targets {path.name!r} has {text!r} for {whose}, which is not a number.",
            "",
            "Give numbers in the file, or a number for each class in values.",
            "Nothing was planned.",
        )
    return result


@final
@dataclass(frozen=True)
class ByTableSize:
    """A target that depends on the size of its table: coefficient · k^power for a table of k numbers, within limits.

    Args:
        coefficient: A positive number.
        power: The exponent of k; negative for smaller errors in larger tables.
        least, most: The limits of the result; None sets no limit.

    Raises:
        WorkloadError: A number is not finite, the coefficient or a limit is not positive, or `least` is above `most`.

    Example:
        With a public total of N records, a table of k numbers has N/k in each on average. Margins of 5 % of this are
        `margin=ByTableSize(0.05 * N, power=-1, least=2)`.
    """

    coefficient: float
    power: float
    least: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        for name in ("coefficient", "least", "most"):
            x = getattr(self, name)
            if x is not None and not (is_real(x) and 0 < x < math.inf):
                raise WorkloadError(
                    "size-target-not-positive",
                    f"The {name} of a target by size is {x!r}.",
                    "It must be a positive finite number.",
                    "Give a number above 0.",
                    "Nothing was planned.",
                    place=name,
                )
        if not (is_real(self.power) and math.isfinite(self.power)):
            raise WorkloadError(
                "size-power-not-finite",
                f"The power of a target by size is {self.power!r}.",
                "It must be a finite number.",
                "Give such a number, such as -1.",
                "Nothing was planned.",
                place="power",
            )
        if self.least is not None and self.most is not None and self.least > self.most:
            raise WorkloadError(
                "size-limits-reversed",
                f"The least target by size, {self.least!r}, is above the most, {self.most!r}.",
                "",
                "Give a least target that is not above the most.",
                "Nothing was planned.",
                place="least",
            )

    def evaluate(self, cells: NDArray[Any] | int) -> NDArray[np.float64]:
        """Return the target for tables of this many numbers, elementwise.

        Args:
            cells: The number of numbers of each table.
        """
        with np.errstate(over="ignore", under="ignore"):
            # A result of 0 or infinity is refused by the workload, unless a limit replaces it.
            free = self.coefficient * np.asarray(cells, dtype=np.float64) ** self.power
        # limits are positive, so only None is false
        return np.clip(free, self.least, self.most) if self.least or self.most else free


@final
@dataclass(frozen=True)
class PublicTotal:
    """A publicly known number of records: in a table of k numbers, each is total/k on average.

    Raises:
        WorkloadError: The total is not a positive finite number.
    """

    total: float

    def __post_init__(self) -> None:
        if not (is_real(self.total) and 0 < self.total < math.inf):
            raise WorkloadError(
                "public-total-not-positive",
                f"The public total is {self.total!r}.",
                "It must be a positive finite number.",
                "Give a number above 0.",
                "Nothing was planned.",
                place="reference",
            )


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
