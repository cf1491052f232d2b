"""Estimates from published numbers, with intervals of proven coverage. Post-processing only.

**An interval is the set of values whose linear hypothesis is not rejected.** The noise of any linear form of a release
is known exactly. So each test has its level for any data, without a linear approximation of a ratio.

    sum, difference     |f·x − v| ≤ m(f)
    ratio r = a/b       |(a − r b)·x| ≤ m(a − r b): closed for Gaussian noise (Fieller 1954), step by step for others

Here x are the noisy answers with covariance V. The coefficients of a sum are f, and those of the two numbers of a ratio
are a and b. The tested value of the sum is v.

m(f) is the half-width of the noise of f at the confidence, and a norm of f. For normal noise it is a number times
√(fᵀVf). Sums of Laplace noise are symmetric with a log-concave density. For all such noise, m is a norm by Meyer and
Reisner (1991) and Bobkov (2010). So {(s, t): m(s a − t b) < (s a − t b)·x} is a convex cone: **of all directions (s, t)
one arc is rejected**. The accepted ratios t/s are an interval, or all ratios except an interval, and always include the
estimate. On one side of the estimate, let a ratio and the end of the possible ratios be rejected. Then every ratio
between these two is rejected. So the module can search for the end of the interval, from a rejected end of the possible
ratios towards the estimate. An accepted end of the possible ratios is itself an end of the interval.

The intervals of ratios leave out impossible values: counts are not negative, and a part of b's records is at most all
of them. An interval keeps its coverage when it is cut to the possible values. Intervals of sums are not cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse as sp

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arguments import checked
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.messages import ValueKind
from fitnoise.reading.comparisons import ComparedRatios, LabelledNumbers, RatioExpression, divisor, is_number, number
from fitnoise.reading.laws import Law, law, level
from fitnoise.reading.linear_forms import Forms
from fitnoise.reading.questions import MIXED_UNIVERSE_TEXT, ReaderQuestion, whose_ratio
from fitnoise.reading.refusals import UNCOMPUTED
from fitnoise.reading.release_files import label_frame
from fitnoise.reading.similar_tests import difference
from fitnoise.request.targets import checked_confidence, z_score
from fitnoise.request.workloads import Table

MAX_COVARIANCES = 2_000
"""The largest number of estimates whose covariances are written as a matrix."""

MAX_NUMBERS = 1_000_000
"""The largest number of estimates that one combination of two breakdowns makes, and of terms of all running sums."""

BISECTION_STEPS = 16
"""The number of steps towards an end of an interval."""

Range = tuple[Floats, Floats]


@final
@dataclass(frozen=True)
class Estimate:
    """A number computed from a release, with its error: value ± moe at `confidence`.

    An estimate can be added, subtracted, multiplied and divided like :class:`Estimates`, with results of the same
    classes. So `release.sum(…) / release.count()` is a ratio with an interval of its own.
    """

    value: float
    std_error: float
    moe: float
    confidence: float
    _source: Estimates | None = field(default=None, repr=False, compare=False)

    __array_ufunc__ = None  # NumPy numbers leave their multiplication to this class

    @property
    def estimates(self) -> Estimates:
        """This estimate as `Estimates` of one number, which have intervals, a frame and covariances.

        Raises:
            ReleaseError: The estimate was made from numbers and not from a release, so its noise is unknown.
        """
        if self._source is None:
            raise ReleaseError(
                "estimate-without-release",
                "This estimate was made of numbers, and not of a release.",
                "Its noise is not known.",
                "Use an estimate of a release.",
                UNCOMPUTED,
            )
        return self._source

    def __add__(self, other: Any) -> Any:
        return self.estimates + _as_estimates(other)

    def __radd__(self, other: Any) -> Any:
        return other + self.estimates

    def __sub__(self, other: Any) -> Any:
        return self.estimates - _as_estimates(other)

    def __rsub__(self, other: Any) -> Any:
        return other - self.estimates

    def __mul__(self, other: Any) -> Any:
        return self.estimates * _as_estimates(other)

    def __rmul__(self, other: Any) -> Any:
        return other * self.estimates

    def __truediv__(self, other: Any) -> Any:
        return self.estimates / _as_estimates(other)

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.estimates

    def __neg__(self) -> Estimates:
        return -self.estimates

    def __pow__(self, power: object) -> Any:
        return self.estimates**power


def _as_estimates(other: Any) -> Any:
    """Return a value for computation: `Estimates` for an estimate, any other value as it is."""
    return other.estimates if isinstance(other, Estimate) else other


@final
@dataclass(frozen=True, eq=False)
class RowLabels:
    """The names that break numbers down, with their labels, and the attribute or hierarchy of each name.

    labels: The labels of each name, in order.
    homes: The attribute or hierarchy of each name.
    missing: The names of the missing-value categories of each name; none for a name without an entry.
    """

    labels: Mapping[str, tuple[Any, ...]]
    homes: Mapping[str, str]
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of labels of each name."""
        return tuple(map(len, self.labels.values()))

    def frame(self, columns: Mapping[str, npt.NDArray[Any]]) -> pd.DataFrame:
        """Return the labels with further columns, one row for each number.

        No attribute has the name of a further column.
        """
        frame = label_frame(dict(self.labels)) if self.labels else pd.DataFrame(index=range(1))
        for name, x in columns.items():
            frame[name] = x.ravel()
        return frame

    def chosen(self, key: Any) -> tuple[RowLabels, Indices, list[tuple[str, list[int], bool]]]:
        """Return some rows: the remaining labels, the indices of the rows, and the choice for each name.

        The choice has the name, the indices of its chosen labels, and True if these were given as a list. A name whose
        label was given alone does not remain.

        Args:
            key: A label or a list of labels; for several names a tuple with one of these for each name.

        Raises:
            ReleaseError: There is not one key for each name, or a label is unknown.
        """
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) != len(self.labels):
            raise ReleaseError(
                "wrong-count-of-labels",
                f"The labels are {key!r}.",
                f"The numbers are broken down by {list(self.labels)}.",
                "Give a label, or a list of labels, for each of these.",
                "No number was chosen.",
            )
        picked = []
        for (name, labels), choice in zip(self.labels.items(), keys, strict=True):
            several = isinstance(choice, list)
            picked.append((name, [_label_index(name, labels, x) for x in (choice if several else [choice])], several))
        where = np.arange(math.prod(self.shape)).reshape(self.shape)[np.ix_(*(rows for _, rows, _ in picked))].ravel()
        remaining = {name: tuple(self.labels[name][i] for i in rows) for name, rows, several in picked if several}
        return RowLabels(remaining, {name: self.homes[name] for name in remaining}, self.missing), where, picked

    def align(self, other: RowLabels) -> tuple[RowLabels, Indices, Indices]:
        """Return the rows broken down by the names of both, and for each of them the row of this and of the other.

        Raises:
            ReleaseError: The labels of one name differ, two levels of one hierarchy occur, or there are too many rows.
        """
        labels, homes = {**other.labels, **self.labels}, {**other.homes, **self.homes}
        labels = {name: labels[name] for name in dict.fromkeys([*self.labels, *other.labels])}
        for name in self.labels.keys() & other.labels.keys():
            if self.labels[name] != other.labels[name]:
                raise ReleaseError(
                    "different-labels",
                    f"The numbers are broken down by different values of {name!r}.",
                    "Two results are compared label by label.",
                    "Choose the values that both have.",
                    UNCOMPUTED,
                    place=name,
                )
        # county 44001 and state 36 exclude each other, so most pairs of labels of two levels have no meaning
        if len({homes[name] for name in labels}) < len(labels):
            raise ReleaseError(
                "two-levels-compared",
                f"The numbers are broken down by {list(labels)}, of which two are levels of one hierarchy.",
                "Two results are compared label by label.",
                "Break both down by one level.",
                UNCOMPUTED,
            )
        both = RowLabels(labels, homes, {**other.missing, **self.missing})
        if math.prod(both.shape) > max(MAX_NUMBERS, math.prod(self.shape), math.prod(other.shape)):
            raise ReleaseError(
                "too-many-combinations",
                f"The numbers broken down by {list(labels)} are {math.prod(both.shape):,}.",
                f"At most {MAX_NUMBERS:,} numbers are made by one comparison.",
                "Choose fewer labels.",
                UNCOMPUTED,
            )
        return both, _expand_rows(self, both), _expand_rows(other, both)


def _number_added() -> ReleaseError:
    """Return the error for a public number that is added to an estimate, or an estimate subtracted from one."""
    return ReleaseError(
        "number-added-to-estimate",
        "A number is to be added to an estimate.",
        "Numbers are added to ratios.",
        "Add the number to the value, and to both ends of the interval.",
        UNCOMPUTED,
    )


def _label_index(name: str, labels: Sequence[Any], label: Any) -> int:
    """Return the index of a label; raise ReleaseError if there is no such label."""
    for i, x in enumerate(labels):
        # in Python 1 == True, but a code 1 and a truth value are different labels
        if x == label and isinstance(x, bool) == isinstance(label, (bool, np.bool_)):
            return i
    raise ReleaseError(
        "unknown-label-of-numbers",
        f"There is no number for {name} = {label!r}.",
        "",
        f"Choose from {list(labels)[:20]}{' and others' if len(labels) > 20 else ''}.",
        "No number was chosen.",
        place=name,
    )


def _expand_rows(rows: RowLabels, both: RowLabels) -> Indices:
    """Return for each row of `both` the index of the row of `rows` that has equal labels of the names of `rows`."""
    where = np.arange(math.prod(rows.shape)).reshape(rows.shape)
    names = [name for name in both.labels if name in rows.labels]
    ordered = where.transpose([list(rows.labels).index(name) for name in names])
    across = ordered.reshape([len(labels) if name in rows.labels else 1 for name, labels in both.labels.items()])
    return np.asarray(np.broadcast_to(across, both.shape).ravel())


@final
class Estimates(LabelledNumbers):
    """Unbiased estimates of linear statistics of a release, one or many: counts, and their sums and differences.

    `Release.count` makes them. They can be added (those of one release), subtracted, and multiplied or divided by
    numbers; their quotients are `Ratios`. Two sets that are broken down by the same name are matched by its labels,
    which must be equal in both. Labels of a name of only one of the sets are combined with all labels of the other.

    **Guarantees**
        * `value` is unbiased, and `std_error` is exact for Gaussian noise (at least that of the discrete noise);
        * intervals have at least their confidence, up to 6·10⁻⁵ for the lattice of the noise (docs/guarantees.md);
        * the numbers do not depend on which tables show the request, up to floating point.
    """

    _noun = ("estimate", "")
    _kind = ValueKind.ESTIMATE

    def __init__(
        self,
        forms: Forms,
        rows: RowLabels,
        confidence: float,
        question: ReaderQuestion | None = None,
        *,
        counts: bool = False,
    ) -> None:
        # `counts` is True if no true number is negative: sums of records with coefficients of 0 or more
        self._forms, self._rows, self._question, self._counts = forms, rows, question, counts
        self.confidence = confidence

    @property
    def universe(self) -> str:
        """The counted records, if one question states them."""
        return MIXED_UNIVERSE_TEXT if self._question is None else self._question.universe

    @cached_property
    def _law(self) -> Law:
        return law(self._forms)

    @cached_property
    def _values(self) -> Floats:
        return self._forms.values()

    @property
    def value(self) -> Any:
        """The unbiased estimates, in records or units of the amount, by label: an array, or a number without labels."""
        return self._values.reshape(self._rows.shape)[()]

    @property
    def std_error(self) -> Any:
        """The standard errors of the estimates, in their unit: an array, or a number where there are no labels."""
        return np.sqrt(self._law.covariances[:, 0, 0]).reshape(self._rows.shape)[()]

    def moe(self, confidence: float | None = None, *, simultaneous: bool = False) -> Any:
        """Return the margins of error, in the unit of the estimates: an array, or a number without labels.

        A margin of error is the half-width of an interval.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            ReleaseError: Some numbers are from a combination, and others from a release in it. Or they are from two
                periods of one series.
            WorkloadError: The confidence is not in (0, 1).
        """
        gamma = level(self._own_confidence(confidence), len(self), normal=self._law.normal, simultaneous=simultaneous)
        return self._law.half_widths(np.ones((len(self), 1)), gamma).reshape(self._rows.shape)[()]

    def interval(self, confidence: float | None = None, *, simultaneous: bool = False) -> tuple[Any, Any]:
        """Return (low, high): the value minus and plus its margin of error.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            ReleaseError: Some numbers are from a combination, and others from a release in it. Or they are from two
                periods of one series.
            WorkloadError: The confidence is not in (0, 1).
        """
        moe = self.moe(confidence, simultaneous=simultaneous)
        return self.value - moe, self.value + moe

    def frame(self, confidence: float | None = None, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return the labels with the columns value, std_error and moe (the margin of error).

        The arguments are those of `moe`.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            ReleaseError: Some numbers are from a combination, and others from a release in it. Or they are from two
                periods of one series.
            WorkloadError: The confidence is not in (0, 1).
        """
        moe = self.moe(confidence, simultaneous=simultaneous)
        columns = {"value": self._values, "std_error": np.asarray(self.std_error), "moe": np.asarray(moe)}
        return self._framed(columns, confidence)

    def covariance(self) -> Floats:
        """Return the covariances of all pairs, (numbers, numbers), in squared units: exact for Gaussian noise.

        Raises:
            ReleaseError: There are more than 2,000 numbers. Or some are from a combination, and others from a release
                in it, or they are from two periods of one series.
        """
        n = len(self)
        if n > MAX_COVARIANCES:
            raise ReleaseError(
                "too-many-covariances",
                f"{n:,} numbers have {n * n:,} covariances.",
                f"Covariances of at most {MAX_COVARIANCES:,} numbers are computed.",
                "Choose fewer numbers.",
                UNCOMPUTED,
            )
        i, j = np.tril_indices(n)
        out = np.empty((n, n))
        out[i, j] = out[j, i] = self._forms.take(i).covariances(self._forms.take(j))
        return out

    def to_estimate(self, confidence: float | None = None) -> Estimate:
        """Return a single number with its error.

        Raises:
            ReleaseError: There are several numbers; or as for :meth:`moe`.
            WorkloadError: The confidence is not in (0, 1).
        """
        if len(self) != 1:
            raise ReleaseError(
                "more-than-one-number",
                f"There are {len(self)} numbers, broken down by {list(self.labels)}.",
                "A single number is needed.",
                "Choose one by its labels.",
                "No number was chosen.",
            )
        gamma = self._own_confidence(confidence)
        value, error, moe = (np.ravel(x)[0] for x in (self._values, self.std_error, self.moe(gamma)))
        # arithmetic with the estimate goes on at the confidence that it states
        same = Estimates(self._forms, self._rows, gamma, self._question, counts=self._counts)
        return Estimate(float(value), float(error), float(moe), gamma, same)

    def _own_confidence(self, confidence: float | None) -> float:
        return self.confidence if confidence is None else checked_confidence(confidence)

    def __getitem__(self, key: Any) -> Estimates:
        """Return the numbers of a label, or of a list of labels, for each name that breaks them down."""
        rows, where, picked = self._rows.chosen(key)
        question = None if self._question is None else self._question.picked(picked)
        return Estimates(self._forms.take(where), rows, self.confidence, question, counts=self._counts)

    @checked(ReleaseError, "Nothing was computed.", "axis")
    def change(self, axis: str, lag: int = 1) -> Estimates:
        """Return each number minus an earlier number: changes, or seasonal differences if the lag is a year.

        Args:
            axis: The name along which numbers follow one another, such as "month", in the order of its labels.
            lag: The distance to the earlier number, in labels, at least 1.

        Returns:
            Numbers for all labels except the first `lag` labels, which have no earlier number, and except
            missing-value categories.

        Raises:
            ReleaseError: The numbers are not broken down by this name. Or `lag` is below 1, or the name has at most
                `lag` labels.

        Example:
            `release.count(by=["month", "region"]).change("month", 12).frame()`
        """
        numbers = self._without_missing(axis)
        n, k = numbers._steps(axis, lag, less=1)
        # row i is label i + k less label i, which may be negative
        return numbers._combine_along(axis, sp.eye_array(n - k, n, k=k) - sp.eye_array(n - k, n), k, counts=False)

    @checked(ReleaseError, "Nothing was computed.", "axis")
    def average(self, axis: str, width: int) -> Estimates:
        """Return moving averages: the mean of each number and the `width` − 1 numbers before it.

        Args:
            axis: The name along which numbers follow one another, in the order of its labels.
            width: The number of values in a mean, at least 1.

        Returns:
            Numbers for all labels except the first `width` − 1 labels and missing-value categories.

        Raises:
            ReleaseError: The numbers are not broken down by this name. Or `width` is below 1, or the name has fewer
                than `width` labels.
        """
        numbers = self._without_missing(axis)
        n, k = numbers._steps(axis, width, less=0)
        window = sum((sp.eye_array(n - k + 1, n, k=i) for i in range(1, k)), start=sp.eye_array(n - k + 1, n))
        return numbers._combine_along(axis, window / k, k - 1, counts=self._counts)

    @checked(ReleaseError, "Nothing was computed.", "axis")
    def to_date(self, axis: str, season: int | None = None) -> Estimates:
        """Return the sum of each number and all numbers before it, from the start of its season if there are seasons.

        Missing-value categories of the name have no sum, and are in none.

        Args:
            axis: The name along which numbers follow one another, in the order of its labels.
            season: The number of labels after which sums start again, such as 12 months for years to date. None never
                starts again.

        Raises:
            ReleaseError: The numbers are not broken down by this name, or `season` is below 1. Or n·k exceeds 1,000,000
                for n labels with seasons of k (longer seasons, and none, count as k = n).
        """
        numbers = self._without_missing(axis)
        n, _ = numbers._steps(axis, 1, less=0)
        # a season that is no whole number goes to `_steps` as it is, which refuses it
        _, k = numbers._steps(axis, n if season is None else min(season, n) if type(season) is int else season, less=0)
        if n * k > MAX_NUMBERS:
            raise ReleaseError(
                "too-many-sums",
                f"{n:,} sums of up to {k:,} numbers are to be computed.",
                f"At most {MAX_NUMBERS:,} numbers are added up.",
                "Choose fewer labels, or a shorter season.",
                UNCOMPUTED,
            )
        # a triangle of ones for each season; the last season may be shorter
        running_sums: Any = sp.block_diag([np.tril(np.ones((min(k, n - i),) * 2)) for i in range(0, n, k)])
        return numbers._combine_along(axis, running_sums, 0, counts=self._counts)

    def _without_missing(self, axis: str) -> Estimates:
        """Return the numbers without missing-value categories of a name: they have no place in its order."""
        labels, missing = self._rows.labels, self._rows.missing.get(axis, ())
        positions = [i for i, x in enumerate(labels.get(axis, ())) if x not in missing]
        if len(positions) == len(labels.get(axis, ())):
            return self
        indices = np.arange(len(self)).reshape(self._rows.shape)
        where = indices.take(np.array(positions, dtype=np.intp), list(labels).index(axis)).ravel()
        rows = replace(self._rows, labels={**labels, axis: tuple(labels[axis][i] for i in positions)})
        return Estimates(self._forms.take(where), rows, self.confidence, counts=self._counts)

    def _steps(self, axis: str, steps: object, *, less: int) -> tuple[int, int]:
        """Return the number of labels of a name, and the number of steps.

        Raises:
            ReleaseError: The numbers are not broken down by this name. Or `steps` is no whole number, or is not from 1
                to the number of labels minus `less`.
        """
        labels = self._rows.labels.get(axis)
        if labels is None:
            names = list(self._rows.labels)
            raise ReleaseError(
                "not-broken-down-by",
                f"The numbers are not broken down by {axis!r}.",
                "Numbers follow one another along a name by which they are broken down (by = …, --by).",
                f"Choose one of {names}." if names else "Break the numbers down by a name first.",
                UNCOMPUTED,
            )
        max_steps = len(labels) - less
        if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= max_steps:
            raise ReleaseError(
                "wrong-step",
                f"The step along {axis!r} is {steps!r}.",
                f"There are {len(labels)} labels of {axis!r}.",
                f"Choose a whole number from 1 to {max_steps}." if max_steps else "Choose a name with more labels.",
                UNCOMPUTED,
            )
        return len(labels), steps

    def _combine_along(self, axis: str, matrix: Any, start: int, *, counts: bool) -> Estimates:
        """Return combinations along a name: one for each of its labels from the index `start` on.

        The matrix has a row for each combination, and a column for each label. `counts` is True if no combination can
        be negative, because it adds up records.
        """
        names = list(self._rows.labels)
        sides: list[Any] = [
            sp.eye_array(math.prod(len(self._rows.labels[x]) for x in other_names))
            for other_names in (names[: names.index(axis)], names[names.index(axis) + 1 :])
        ]
        combination = sp.csr_array(sp.kron(sp.kron(sides[0], matrix), sides[1]))
        labels = {x: values[start:] if x == axis else values for x, values in self._rows.labels.items()}
        rows = RowLabels(labels, self._rows.homes, self._rows.missing)
        # without the question, which states the records of single numbers and not of their combinations
        return Estimates(self._forms.combined(combination), rows, self.confidence, counts=counts)

    def _scaled(self, factor: float) -> Estimates:
        return Estimates(self._forms.scale(factor), self._rows, self.confidence, counts=self._counts and factor >= 0)

    def _aligned_with(self, other: Estimates) -> tuple[RowLabels, Forms, Forms]:
        rows, mine, theirs = self._rows.align(other._rows)
        return rows, self._forms.take(mine), other._forms.take(theirs)

    def _plus(self, other: Estimates, sign: float) -> Estimates:
        rows, mine, theirs = self._aligned_with(other)
        counts = self._counts and other._counts and sign > 0
        return Estimates(mine.plus(theirs.scale(sign)), rows, self.confidence, counts=counts)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, Estimates):
            return self._unlike(other)
        if self._forms.digests != other._forms.digests:
            raise ReleaseError(
                "different-releases-added",
                "The numbers to be added are of different releases.",
                "A record may be in both releases.",
                "Compare the numbers (-, /).",
                "Nothing was added up.",
            )
        return self._plus(other, 1.0)

    def __sub__(self, other: Any) -> Any:
        return self._plus(other, -1.0) if isinstance(other, Estimates) else self._unlike(other)

    def _unlike(self, other: object) -> Any:
        if is_number(other):
            raise _number_added()
        if isinstance(other, LabelledNumbers):
            raise ReleaseError(
                "ratio-added-to-estimate",
                "An estimate and a ratio are to be added or subtracted.",
                "Estimates are added to estimates.",
                "Divide the estimate by another one first.",
                UNCOMPUTED,
            )
        return NotImplemented

    def __neg__(self) -> Estimates:
        return self._scaled(-1.0)

    def __radd__(self, other: object) -> Any:
        """Return the estimates for 0, because :func:`sum` starts with 0; refuse other numbers."""
        if not is_number(other):
            return NotImplemented
        if other != 0:
            raise _number_added()
        return self

    def __rsub__(self, other: object) -> Any:
        if is_number(other):
            raise _number_added()
        return NotImplemented

    def __mul__(self, factor: Any) -> Any:
        if is_number(factor):
            return self._scaled(number(factor))
        if isinstance(factor, LabelledNumbers):
            raise ReleaseError(
                "product-of-estimates",
                "Two estimates are to be multiplied.",
                "No interval of proven coverage and useful width is known for products of noisy numbers.",
                "Multiply by a number, or ask for a sum of products in tables (sum = [...]).",
                UNCOMPUTED,
            )
        return NotImplemented

    def __rmul__(self, factor: Any) -> Any:
        return self._scaled(number(factor)) if is_number(factor) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, Estimates):
            return Ratios.divide(self, other)
        if isinstance(other, LabelledNumbers):
            raise ReleaseError(
                "estimate-divided-by-ratio",
                "An estimate is to be divided by a ratio.",
                "Estimates are divided by estimates and by numbers.",
                "Divide by an estimate or a number.",
                UNCOMPUTED,
            )
        return self._scaled(1 / divisor(other)) if is_number(other) else NotImplemented

    def __rtruediv__(self, other: object) -> Any:
        if not is_number(other):
            return NotImplemented
        raise ReleaseError(
            "number-divided-by-estimate",
            "A number is to be divided by an estimate.",
            "No interval is computed for such a quotient.",
            "Divide the estimate by the number; if the interval excludes 0, take reciprocals of value and both ends.",
            UNCOMPUTED,
        )


@final
class Ratios(RatioExpression):
    """Ratios a/b of two estimates each: shares, rates, growth, means. A quotient of `Estimates` makes them.

    `universe` states the records of means, and of other ratios that leave out missing values or cut values. Ratios can
    be multiplied or divided by numbers, and numbers can be added or subtracted: 1000 * a / b, a / b - 1. A sum,
    difference or quotient of two `Ratios` is `ComparedRatios`. With the same b it is `Ratios` again, if neither was
    multiplied by 0; a quotient only if no number was added. A product of ratios is `CombinedRatios`, and so is a
    result of `ComparedRatios` with other ratios.

    **Guarantees**
        * the exact ratio, of the records as they were read, is from `low` to `high` with at least the confidence, for
          any data. The lattice of the noise can lower the confidence by at most 6·10⁻⁵. Where b is 0 there is no ratio
          and no guarantee;
        * where b is not distinguished from 0 (`is_significant` is false), ratios of any size may remain, and an end may
          be infinite;
        * a share of b's records is from 0 to 1, and no ratio of counts is below 0. A mean is at least the least, and at
          most the largest possible value. The same holds for `low` and `high`. All of this is before numbers are
          multiplied or added.

    Source: Fieller, J. R. Stat. Soc. B 16 (1954) for Gaussian noise. For sums of Laplace noise this project applies
    Fieller's test.
    """

    _noun = ("ratio", "")

    def __init__(
        self,
        parts: tuple[Forms, Forms],
        rows: RowLabels,
        confidence: float,
        possible: Range,
        line: tuple[float, float],
        universe: str = MIXED_UNIVERSE_TEXT,
    ) -> None:
        self._parts, self._rows, self.confidence, self._universe = parts, rows, confidence, universe
        # the ratio is factor · a/b + shift; `possible` are the ends of a/b
        self._possible, (self._factor, self._shift) = possible, line

    @classmethod
    def mean(cls, total: Estimates, count: Estimates, possible: tuple[float, float], universe: str) -> Ratios:
        """Return the means of a number over records: sums divided by counts.

        Args:
            total: The sum of the number, for each group of records.
            count: The number of records that have the number, for the groups of `total`.
            possible: The least and the largest possible value of the number. The means and the ends of their intervals
                are moved to this range.
            universe: The records of the mean, in words.

        Raises:
            ReleaseError: The rows of the two do not match, as for :meth:`RowLabels.align`.
        """
        rows, a, b = total._aligned_with(count)
        low, high = (np.full(a.length, x) for x in possible)
        return cls((a, b), rows, total.confidence, (low, high), (1.0, 0.0), universe)

    @classmethod
    def divide(cls, top: Estimates, bottom: Estimates) -> Ratios:
        """Return the ratios of two sets of estimates.

        Args:
            top: The numerators.
            bottom: The denominators. If only one of the two is broken down by an attribute, the numbers of the other
                are repeated for each value. An attribute of both must have equal values.

        Raises:
            ReleaseError: The rows of the two do not match, as for :meth:`RowLabels.align`.
        """
        rows, a, b = top._aligned_with(bottom)
        n, low, high = a.length, -math.inf, math.inf
        if top._counts and bottom._counts:
            low = 0.0
            # another release may count other records, so that a part has more of them than its total
            if top._question is not None and bottom._question is not None and a.digests == b.digests:
                high = 1.0 if top._question.is_within(bottom._question) else math.inf
        possible = np.full(n, low), np.full(n, high)
        return cls((a, b), rows, top.confidence, possible, (1.0, 0.0), whose_ratio(top._question, bottom._question))

    @cached_property
    def _law(self) -> Law:
        return law(*self._parts)

    @property
    def universe(self) -> str:
        """The records of the ratios, and the cuts of their values, if one question states them."""
        return self._universe

    @property
    def is_random(self) -> bool:
        """True unless the ratio was multiplied by 0, which makes it a known number."""
        return self._factor != 0

    @property
    def shifted_forms(self) -> tuple[tuple[Forms, Forms], tuple[Floats, Floats]]:
        """Two forms f and b whose ratio f/b is the multiplied and shifted one; and their estimates."""
        (a, b), (top, bottom) = self._parts, self._values
        forms = a.scale(self._factor).plus(b.scale(self._shift)) if self._shift else a.scale(self._factor)
        return (forms, b), (self._factor * top + self._shift * bottom, bottom)

    @cached_property
    def _values(self) -> tuple[Floats, Floats]:
        return self._parts[0].values(), self._parts[1].values()

    def _ends(self, confidence: float | None, *, simultaneous: bool) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """Return both ends of a/b itself, and True where b is distinguished from 0, (J,) each."""
        nominal = self.confidence if confidence is None else confidence
        gamma = level(nominal, len(self), normal=self._law.normal, simultaneous=simultaneous)
        return inverted(self._law, self._values, self._possible, gamma)

    def _transform_ends(self, low: Floats, high: Floats) -> tuple[Any, Any]:
        """Return the ends of factor · a/b + shift in the shape of the rows, from those of a/b."""
        ends = [
            self._factor * x + self._shift if self._factor else np.full(len(self), self._shift) for x in (low, high)
        ]
        # a factor below 0 exchanges low and high
        ends = [x.reshape(self._rows.shape)[()] for x in (ends if self._factor >= 0 else ends[::-1])]
        return ends[0], ends[1]

    @property
    def value(self) -> Any:
        """The ratios of the estimates, moved to possible values: an array, or a number.

        NaN where the estimate of b is 0.
        """
        a, b = self._values
        with np.errstate(all="ignore"):
            quotients = np.where(b == 0, math.nan, a / b)
        return (self._factor * np.clip(quotients, *self._possible) + self._shift).reshape(self._rows.shape)[()]

    @property
    def is_significant(self) -> Any:
        """True where b is distinguished from 0 at the release's confidence."""
        return self._ends(None, simultaneous=False)[2].reshape(self._rows.shape)[()]

    def interval(self, confidence: float | None = None, *, simultaneous: bool = False) -> tuple[Any, Any]:
        """Return (low, high): the least and the largest ratio that the test does not reject, which may be infinite.

        Where the test rejects every possible ratio, both ends are the possible one nearest to the estimate.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            ReleaseError: Some numbers are from a combination, and others from a release in it. Or they are from two
                periods of one series.
            WorkloadError: The confidence is not in (0, 1).
        """
        low, high, _ = self._ends(confidence, simultaneous=simultaneous)
        return self._transform_ends(low, high)

    def frame(self, confidence: float | None = None, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return the labels with the columns value, low, high and `is_significant`.

        The arguments are those of `interval`.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            ReleaseError: Some numbers are from a combination, and others from a release in it. Or they are from two
                periods of one series.
            WorkloadError: The confidence is not in (0, 1).
        """
        low, high, is_significant = self._ends(confidence, simultaneous=simultaneous)
        ends = self._transform_ends(low, high)
        columns = {"value": self.value, "low": ends[0], "high": ends[1], "is_significant": is_significant}
        return self._framed({name: np.asarray(x) for name, x in columns.items()}, confidence)

    @property
    def _leaves(self) -> tuple[Ratios, ...]:
        return (self,) if self.is_random else ()

    def _box(self, each: float) -> tuple[Any, Any]:
        return self.interval(each)

    def _line(self, factor: float, shift: float) -> Ratios:
        line = (self._factor * factor, self._shift * factor + shift)
        return Ratios(self._parts, self._rows, self.confidence, self._possible, line, self.universe)

    def _taken(self, rows: RowLabels, where: Indices) -> Ratios:
        """Return the ratios at these indices, in any order and with repetition."""
        a, b = (f.take(where) for f in self._parts)
        low, high = (x[where] for x in self._possible)
        return Ratios((a, b), rows, self.confidence, (low, high), (self._factor, self._shift), self.universe)

    def __truediv__(self, other: Any) -> Any:
        return self._compared(other, divided=True) if isinstance(other, Ratios) else super().__truediv__(other)

    def __sub__(self, other: Any) -> Any:
        return self._compared(other, divided=False) if isinstance(other, Ratios) else super().__sub__(other)

    def __add__(self, other: Any) -> Any:
        return self._compared(-other, divided=False) if isinstance(other, Ratios) else super().__add__(other)

    def _compared(self, other: Ratios, *, divided: bool) -> Ratios | ComparedRatios:
        """Return differences or quotients of two ratios each.

        They are `Ratios` if all have one b and no factor of 0, and for quotients no added number.
        """
        rows, mine, theirs = self._rows.align(other._rows)
        one, another = self._taken(rows, mine), other._taken(rows, theirs)
        (a, b), (c, d) = one._parts, another._parts
        shifts = (self._shift, other._shift)
        same = self._factor != 0 and other._factor != 0 and b.equals(d)
        if same and divided and shifts == (0.0, 0.0):
            # if a/b and c/b are at least 0, so is their quotient a/c, for any sign of b
            signed = (one._possible[0] < 0) | (another._possible[0] < 0)
            possible = np.where(signed, -math.inf, 0.0), np.full(len(one), math.inf)
            return Ratios((a, c), rows, self.confidence, possible, (self._factor / other._factor, 0.0))
        if same and not divided:
            # the factors are in the forms from here on, and the shifts are added to the ratio
            top = a.scale(self._factor).plus(c.scale(-other._factor))
            return Ratios((top, b), rows, self.confidence, _gap_range(one, another), (1.0, shifts[0] - shifts[1]))
        return ComparedRatios(one, another, rows, divided=divided)


def _gap_range(minuend: Ratios, subtrahend: Ratios) -> Range:
    """Return the possible range of their difference, without their shifts."""
    # sorted, because a factor below 0 exchanges the ends
    ends = [np.sort(np.stack([x._factor * end for end in x._possible]), axis=0) for x in (minuend, subtrahend)]
    return difference(*ends[0], *ends[1])


# --- intervals of ratios --------------------------------------------------------------------------------


def inverted(
    law: Law, values: tuple[Floats, Floats], possible: Range, confidence: float
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Return the ends of the hull of {r possible: |a − r b| ≤ m(a − r b)}, or the nearest possible end if it is empty.

    A mask follows: True where b is distinguished from 0.

    Args:
        law: The law of the forms a and b, row by row.
        values: The estimates of a and b, (J,) each.
        possible: The ends of the possible ratios r, (J,) each.
        confidence: The confidence of m.
    """
    roots = _fieller(law, values, z_score(confidence)) if law.normal else None
    if roots is None:
        return _bisected(law, values, possible, confidence)
    first_root, last_root, inside, is_significant = roots
    low, high = possible
    # inside: from the first to the last root; otherwise up to the first, and from the last on
    above, below = np.maximum(first_root, low), np.minimum(last_root, high)
    has_left_part, has_right_part = ~inside & (first_root >= low), ~inside & (last_root <= high)
    from_here = np.where(inside, above, np.where(has_left_part, low, np.maximum(last_root, low)))
    to_there = np.where(inside, below, np.where(has_right_part, high, np.minimum(first_root, high)))
    # no accepted ratio is possible: the counts are then far below 0, or a part far above its total
    none, nearest = from_here > to_there, _nearest(values, possible)
    return np.where(none, nearest, from_here), np.where(none, nearest, to_there), is_significant


def _nearest(values: tuple[Floats, Floats], possible: Range) -> Floats:
    """Return the end of the possible values that is nearer to the estimate."""
    (a, b), (low, high) = values, possible
    with np.errstate(all="ignore"):
        return np.where(np.abs(a / b - low) <= np.abs(a / b - high), low, high)


def _fieller(
    law: Law, values: tuple[Floats, Floats], z: float
) -> tuple[Floats, Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return the roots of A r² − 2 B r + C in order, or (−∞, ∞) where all ratios are accepted.

    With covariances V, A = b² − z² V_bb, B = a b − z² V_ab and C = a² − z² V_aa. The test accepts r at values up to 0.
    Two masks follow: True where the accepted ratios are between the ends, and True where A > 0.
    """
    (a, b), v = values, law.covariances
    # Fieller: |a − r b| ≤ z σ(a − r b), squared and sorted by powers of r, is A r² − 2 B r + C ≤ 0
    square = b * b - z * z * v[:, 1, 1]
    cross = a * b - z * z * v[:, 0, 1]
    rest = a * a - z * z * v[:, 0, 0]
    is_bounded = square > 0
    discriminant = cross * cross - square * rest
    # The root of larger size first: B and the square root have one sign there, so nothing cancels. The other is C
    # divided by A times this root. For A > 0 the estimate a/b is accepted: only rounding makes a discriminant negative.
    with np.errstate(all="ignore"):
        numerator = cross + np.copysign(np.sqrt(np.maximum(discriminant, 0.0)), cross)
        one = np.where(numerator == 0, 0.0, numerator / square)
        other = np.where(numerator == 0, 0.0, rest / numerator)
    low, high = np.minimum(one, other), np.maximum(one, other)
    # for A = 0 the accepted ratios are a half-line: the whole line contains it
    is_open = ~is_bounded & ((discriminant <= 0) | ~np.isfinite(low + high))
    return (np.where(is_open, -math.inf, low), np.where(is_open, math.inf, high), is_bounded | is_open, is_bounded)


def _bisected(
    law: Law, values: tuple[Floats, Floats], possible: Range, confidence: float
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Return the result of `inverted` for any noise whose half-widths are a norm, up to `law.slack`.

    The search is over the angle whose tangent is the ratio, with a and b in units of their standard errors. It rejects
    a ratio only if its excess exceeds the slack. Each end that it returns is such a rejected ratio, or an end of the
    possible ratios.
    """
    # No interval is too short: the directions (a, b) that a norm rejects are one arc. So the norm rejects every ratio
    # between a returned rejected one and the end of the possible ratios.
    a, b = values
    unit = np.sqrt(law.covariances[:, [0, 1], [0, 1]]).T
    unit = np.where(unit > 0, unit, 1.0)  # a form without noise has no unit of its own
    a, b, ratio = a / unit[0], b / unit[1], unit[0] / unit[1]
    # Half-widths are computed up to the slack: what exceeds a wider one is rejected by the norm itself.
    wide = 1 + 2 * law.slack

    def excess(angle: Floats) -> Floats:
        """Return the excess over the half-width; 0 or less where the ratio is accepted."""
        s, t = np.cos(angle), np.sin(angle)
        m = law.half_widths(np.stack([s / unit[0], -t / unit[1]], axis=1), confidence)
        return np.asarray(np.abs(s * a - t * b) - wide * m)

    # angles from −π/2 to π/2 are all ratios, and both ends are the infinite one, where b itself is tested
    low, high = (np.arctan(x / ratio) for x in possible)
    with np.errstate(all="ignore"):
        # the estimate a/b is accepted at every confidence, so a root lies between it and a rejected end
        middle = np.where(b == 0, np.sign(a) * math.pi / 2, np.arctan(a / b))
    is_significant = excess(np.full(len(a), math.pi / 2)) > 0
    off_low, off_high, is_inner = excess(low), excess(high), (middle > low) & (middle < high)
    at_low, at_high = off_low <= 0, off_high <= 0
    off_middle, ends = np.where(is_inner, excess(np.where(is_inner, middle, 0.0)), 0.0), []
    for end, off, other, off_other, there in (
        (low, off_low, high, off_high, at_high),
        (high, off_high, low, off_low, at_low),
    ):
        # from a rejected end to the estimate, or to the other end where the estimate is not possible
        inner, inside = np.where(is_inner, middle, other), np.where(is_inner, off_middle, off_other)
        crossed = _crossing(excess, (end, off), (inner, inside))
        ends.append(np.where((off <= 0) | ~(is_inner | there), end, crossed))
    none, nearest = ~(is_inner | at_low | at_high), _nearest(values, possible)
    ratio_ends = [np.where(np.abs(x) >= math.pi / 2, np.copysign(math.inf, x), np.tan(x) * ratio) for x in ends]
    # the tangent of an arc tangent is rounded: an end of the possible ratios is given as it is
    exact = [
        np.where(x == limit, value, y)
        for x, y, limit, value in zip(ends, ratio_ends, (low, high), possible, strict=True)
    ]
    return np.where(none, nearest, exact[0]), np.where(none, nearest, exact[1]), is_significant


def added(parts: Iterable[tuple[Forms, Table, npt.ArrayLike]], confidence: float) -> Estimates:
    """Return the sum of some forms, one row each, as `Estimates` of one number.

    parts: The forms, the table of each, and the coefficients of the form. The sum counts records if each table does and
    no coefficient is negative.
    """
    total, counts = Forms(1, {}), True
    for form, table, coefficients in parts:
        total = total.plus(form)
        counts &= table.is_count and bool((np.asarray(coefficients) >= 0).all())
    return Estimates(total, RowLabels({}, {}), confidence, counts=counts)


def _crossing(excess: Callable[[Floats], Floats], start: tuple[Floats, Floats], stop: tuple[Floats, Floats]) -> Floats:
    """Return a point near a root of a function between two points, where it is above 0 (regula falsi, Illinois).

    start, stop: Each a point with its function value, above 0 for `start` and at most 0 for `stop`.
    """
    (out, above), (inner, below) = start, stop
    last = np.zeros(len(out))
    for _ in range(BISECTION_STEPS):
        with np.errstate(all="ignore"):
            fraction = above / (above - below)
        # inside the bracket: a step to one of its ends would make no progress
        half = out + np.clip(np.where(np.isfinite(fraction), fraction, 0.5), 0.001, 0.999) * (inner - out)
        half_excess = excess(half)
        side = np.where(half_excess > 0, 1.0, -1.0)
        # Illinois: an end that stays twice has its function value halved, or it could stay for ever
        repeat = side == last
        below, above = (
            np.where(repeat & (side > 0), below / 2, below),
            np.where(repeat & (side < 0), above / 2, above),
        )
        out, above = np.where(side > 0, half, out), np.where(side > 0, half_excess, above)
        inner, below = np.where(side > 0, inner, half), np.where(side > 0, below, half_excess)
        last = side
    return out  # the rejected side of the root, so that no interval is too short
