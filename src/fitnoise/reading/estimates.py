"""Estimates of linear statistics from published numbers, with their errors. Post-processing only."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
import pandas as pd
import scipy.sparse as sp

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats
from fitnoise.messages import ValueKind, translator
from fitnoise.reading.bands import Bands
from fitnoise.reading.labelled_numbers import MAX_NUMBERS, LabelledNumbers, RowLabels, divisor, is_number, number
from fitnoise.reading.laws import Law, law, level
from fitnoise.reading.linear_forms import Forms
from fitnoise.reading.questions import MIXED_UNIVERSE_TEXT, ReaderQuestion, whose_ratio
from fitnoise.reading.ratios import Ratios
from fitnoise.reading.refusals import UNCOMPUTED
from fitnoise.reading.sampling import SurveyEstimates, sampling_errors
from fitnoise.request.arguments import checked
from fitnoise.request.targets import checked_confidence
from fitnoise.request.workloads import Table

MAX_COVARIANCES = 2_000
"""The largest number of estimates whose covariances are written as a matrix."""


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

    def __str__(self) -> str:
        """Return the number with its margin: 1,009.6 ± 16 at 95 %."""
        language = translator("en", typeset=False)
        value, moe = language.kind(ValueKind.ESTIMATE, self.value), language.kind(ValueKind.PEOPLE, self.moe)
        return f"{value} ± {moe} at {language.kind(ValueKind.LEVEL, self.confidence)}"

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


def _number_added() -> ReleaseError:
    """Return the error for a public number that is added to an estimate, or an estimate subtracted from one."""
    return ReleaseError(
        "number-added-to-estimate",
        "A number is to be added to an estimate.",
        "Numbers are added to ratios.",
        "Add the number to the value, and to both ends of the interval.",
        UNCOMPUTED,
    )


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

    @checked(ReleaseError, "Nothing was computed.", "standard_errors", "bands")
    def with_sampling_error(
        self, standard_errors: str | os.PathLike[str] | pd.DataFrame | float, bands: Bands | None = None
    ) -> SurveyEstimates:
        """Return the estimates with intervals for noise and sampling error, where the records are a sample.

        fitnoise does not compute, check or protect standard errors. If they were computed from the counted records,
        they reveal these records without noise. Take them from an earlier survey, a variance function or the design.

        Args:
            standard_errors: The standard errors of sampling, in the unit of the estimates: a CSV file or a data frame.
                It has a row for each number, with its labels as in :meth:`frame` and a column std_error. A single
                number without labels can have a number.
            bands: The rule for the reliability of numbers, by the margins of noise and sampling error.

        Raises:
            ReleaseError: The file cannot be read, or has other columns. Or a label is unknown, a number has no standard
                error or two, or one is no number of at least 0.

        Example:
            `release.count(by="region").with_sampling_error("errors.csv").frame()`
        """
        errors = sampling_errors(self._rows, standard_errors)
        return SurveyEstimates(
            self._values, self._law, self._rows, self.confidence, self.universe, errors, bands, counts=self._counts
        )

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
        rows = RowLabels(labels, self._rows.homes, self._rows.missing, self._rows.stubs)
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
                "fitnoise computes no interval for products of noisy numbers.",
                "Multiply by a number, or ask for a sum of products in tables (sum = [...]).",
                UNCOMPUTED,
            )
        return NotImplemented

    def __rmul__(self, factor: Any) -> Any:
        return self._scaled(number(factor)) if is_number(factor) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, Estimates):
            return _divide(self, other)
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


def _divide(top: Estimates, bottom: Estimates) -> Ratios:
    """Return the ratios of two sets of estimates.

    Raises:
        ReleaseError: The rows of the two do not match, as for :meth:`RowLabels.align`.
    """
    rows, a, b = top._aligned_with(bottom)
    low, high = -math.inf, math.inf
    if top._counts and bottom._counts:
        low = 0.0
        # another release may count other records, so that a part has more of them than its total
        if top._question is not None and bottom._question is not None and a.digests == b.digests:
            high = 1.0 if top._question.is_within(bottom._question) else math.inf
    possible = np.full(a.length, low), np.full(a.length, high)
    return Ratios((a, b), rows, top.confidence, possible, (1.0, 0.0), whose_ratio(top._question, bottom._question))


def mean(total: Estimates, count: Estimates, possible: tuple[float, float], universe: str) -> Ratios:
    """Return the means of a number over records: sums divided by counts.

    Args:
        total: The sum of the number, for each group of records.
        count: The number of records that have the number, for the groups of `total`.
        possible: The least and the largest possible value of the number. The means and the ends of their intervals are
            moved to this range.
        universe: The records of the mean, in words.

    Raises:
        ReleaseError: The rows of the two do not match, as for :meth:`RowLabels.align`.
    """
    rows, a, b = total._aligned_with(count)
    low, high = (np.full(a.length, x) for x in possible)
    return Ratios((a, b), rows, total.confidence, (low, high), (1.0, 0.0), universe)


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
