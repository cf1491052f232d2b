"""Noise and sampling error in one interval, for standard errors of sampling that the publisher gives.

An estimate y of a release has noise of standard deviation m. The counted records are a sample, so the exact number has
a sampling error of standard deviation s. fitnoise draws the noise without regard to the records, so the two errors are
independent. The error of y as an estimate for the population has the standard deviation √(s² + m²).

*Coverage for Gaussian noise.* The margin is the normal quantile times √(s² + m²). Let the sampling error be exactly
normal. Adding it averages the distances between the distribution functions of the noise and of normal noise. So the
bound on the lattice of the noise holds for the sum, too.

*Coverage for other noise.* P(|A + B| > a + b) ≤ P(|A| > a) + P(|B| > b). The margin is the least sum of both
half-widths over some partitions of the allowed error (`NOISE_PARTS`). Half-widths depend on the plan and the standard
errors alone, so the choice depends on no data.

fitnoise neither computes nor protects the standard errors.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.checks import describe_value, is_real
from fitnoise.kernel.codings import number
from fitnoise.messages import Message, ValueKind, english
from fitnoise.reading.bands import Bands
from fitnoise.reading.labelled_numbers import LabelledNumbers, RowLabels
from fitnoise.reading.laws import Law, level
from fitnoise.reading.refusals import UNCOMPUTED
from fitnoise.request.attributes import CODE
from fitnoise.request.csv_rows import read_rows
from fitnoise.request.targets import checked_confidence, z_score

NOISE_PARTS = (0.05, 0.5, 0.95)
"""The parts of the allowed error that noise may get where it is not normal; sampling error gets the rest."""

ERROR_COLUMN = "std_error"
"""The column of a file or frame with the standard errors of sampling."""

ADDED_COLUMNS = ("noise_std_error", "sampling_std_error", "cv", "reliability")
"""The columns of frames with sampling errors that other frames do not have."""

ASSUMPTIONS = (
    Message("report.sampling.covers"),
    Message("report.sampling.assumed"),
    Message("report.sampling.unprotected"),
)
"""The statements on which intervals for noise and sampling error rest."""


@final
class SurveyEstimates(LabelledNumbers):
    """Estimates for the population of a sample, with noise and sampling error in one interval.

    :meth:`Estimates.with_sampling_error` makes them.

    **Guarantees**
        * `std_error` is √(s² + m²), for the given standard errors s and the standard deviations m of the noise;
        * intervals have at least their confidence for the number of the population, up to 6·10⁻⁵ for the lattice of
          the noise. This holds if the estimates of the survey are unbiased, and their errors are normal with the given
          standard errors. Simultaneous intervals need jointly normal errors;
        * the given standard errors are not protected: fitnoise only adds them.
    """

    _noun = ("estimate", " with sampling error")
    _kind = ValueKind.ESTIMATE

    def __init__(
        self,
        values: Floats,
        law: Law,
        rows: RowLabels,
        confidence: float,
        universe: str,
        standard_errors: Floats,
        bands: Bands | None,
        *,
        counts: bool,
    ) -> None:
        # `counts` is True if no true number is negative
        self._values, self._law, self._rows, self.confidence = values, law, rows, confidence
        self._universe, self._sampling, self._bands, self._counts = universe, standard_errors, bands, counts
        self._noise = np.sqrt(law.covariances[:, 0, 0])

    @property
    def universe(self) -> str:
        """The records of the numbers."""
        return self._universe

    @property
    def assumptions(self) -> tuple[Message, ...]:
        """The statements on which the intervals rest."""
        return ASSUMPTIONS

    def _shaped(self, x: Floats) -> Any:
        return x.reshape(self._rows.shape)[()]

    @property
    def value(self) -> Any:
        """The estimates, by label: an array, or a number without labels."""
        return self._shaped(self._values)

    @property
    def std_error(self) -> Any:
        """The standard deviations √(s² + m²) of sampling error and noise."""
        return self._shaped(np.hypot(self._sampling, self._noise))

    @property
    def cv(self) -> Any:
        """The coefficients of variation: `std_error` as a part of the absolute value; NaN for a value of 0."""
        return self._shaped(coefficients_of_variation(self._values, np.ravel(self.std_error)))

    def moe(self, confidence: float | None = None, *, simultaneous: bool = False) -> Any:
        """Return the half-widths of the intervals.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            WorkloadError: The confidence is not in (0, 1).
        """
        nominal = self.confidence if confidence is None else checked_confidence(confidence)
        gamma = level(nominal, len(self), normal=self._law.normal, simultaneous=simultaneous)
        return self._shaped(half_widths(self._law, self._noise, self._sampling, gamma))

    def interval(self, confidence: float | None = None, *, simultaneous: bool = False) -> tuple[Any, Any]:
        """Return (low, high): the value minus and plus :meth:`moe`.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            WorkloadError: The confidence is not in (0, 1).
        """
        moe = self.moe(confidence, simultaneous=simultaneous)
        return self.value - moe, self.value + moe

    def frame(self, confidence: float | None = None, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return the labels with value, noise_std_error, sampling_std_error, std_error, moe and cv.

        With a rule for reliability, `reliability` follows: the class by the margin of noise and sampling error.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            WorkloadError: The confidence is not in (0, 1).
        """
        moe, values = np.ravel(self.moe(confidence, simultaneous=simultaneous)), self._values
        columns: dict[str, Any] = {
            "value": values,
            "noise_std_error": self._noise,
            "sampling_std_error": self._sampling,
            "std_error": np.ravel(self.std_error),
            "moe": moe,
            "cv": np.ravel(self.cv),
        }
        if self._bands is not None:
            # a change can be far below 0 and still be reliable: its margin is compared with its size
            sizes = values if self._counts else np.abs(values)
            columns["reliability"] = np.array([x.value for x in self._bands.classify(sizes, moe)], dtype=object)
        frame = self._framed(columns, confidence)
        frame.attrs["interval"] = english(*self.assumptions)
        return frame


def half_widths(law: Law, noise: Floats, sampling: Floats, confidence: float) -> Floats:
    """Return the half-widths of intervals for noise and sampling error.

    Args:
        law: The law of the noise of each number.
        noise: The standard deviation of the noise of each number, which the law implies.
        sampling: The standard error of sampling of each number.
        confidence: The confidence of each interval.
    """
    if law.normal:
        return np.asarray(z_score(confidence) * np.hypot(sampling, noise))
    ones = np.ones((len(noise), 1))
    # without sampling error the noise has the complete allowed error
    widths = np.where(sampling == 0, law.half_widths(ones, confidence), np.inf)
    for part in NOISE_PARTS:
        noise_widths = law.half_widths(ones, 1 - part * (1 - confidence))
        widths = np.minimum(widths, noise_widths + z_score(1 - (1 - part) * (1 - confidence)) * sampling)
    return widths


def coefficients_of_variation(values: Floats, std_errors: Floats) -> Floats:
    """Return standard errors as parts of the absolute values; NaN for a value of 0."""
    size = np.abs(values)
    return np.asarray(np.divide(std_errors, size, out=np.full(size.shape, np.nan), where=size > 0))


def sampling_errors(rows: RowLabels, stated: Any, *, is_complete: bool = True) -> Floats:
    """Return the given standard errors in the order of the numbers.

    Args:
        rows: The labels of the numbers.
        stated: The standard errors, as for :meth:`Estimates.with_sampling_error`.
        is_complete: True if each number must have one; otherwise numbers without one get NaN.

    Raises:
        ReleaseError: As for :meth:`Estimates.with_sampling_error`.
    """
    taken = [column for column in rows.columns if column in ADDED_COLUMNS]
    if taken:
        raise ReleaseError(
            "attribute-named-like-an-error",
            f"Standard errors are given, and an attribute of the numbers is named {taken[0]!r}.",
            "Numbers with sampling error have a column of this name.",
            "Rename the attribute in the next plan.",
            UNCOMPUTED,
            place=taken[0],
        )
    if not rows.labels and is_real(stated):
        return np.array([_standard_error(stated, "")])
    header, lines = _read(stated)
    keys, columns = _keys(rows), {*header}
    used = {name: [c for c in texts if c in columns] for name, texts in keys.items()}
    is_known = ERROR_COLUMN in columns and all(used.values()) and columns <= {*rows.columns, ERROR_COLUMN}
    # the reader of files keeps fields beyond the header under None, such as the 5 of a decimal comma in 12,5
    if not is_known or len(columns) < len(header) or any(None in line for line in lines):
        raise ReleaseError(
            "wrong-columns-of-standard-errors",
            f"The columns of the standard errors are {header}, or a row has more fields.",
            "Each number has a row with its labels and its standard error, with a point before decimals.",
            f"Give the columns {[*(next(iter(x)) for x in keys.values()), ERROR_COLUMN]}.",
            UNCOMPUTED,
            place="standard_errors",
        )
    out = np.full(rows.shape, np.nan)
    for line in lines:
        where = tuple(_position({c: keys[name][c] for c in used[name]}, name, line) for name in keys)
        whose = ", ".join(f"{c} = {line[c]}" for c in itertools.chain(*used.values()))
        if not np.isnan(out[where]):
            raise ReleaseError(
                "standard-error-twice",
                f"The standard error of {whose or 'the number'} is given twice.",
                "Each number has one.",
                "Remove one of the rows.",
                UNCOMPUTED,
                place="standard_errors",
            )
        out[where] = _standard_error(line[ERROR_COLUMN], f" of {whose}" if whose else "")
    if is_complete and np.isnan(out).any():
        first_gap = zip(used.items(), np.argwhere(np.isnan(out))[0].tolist(), strict=True)
        labels = [f"{columns[0]} = {[*keys[name][columns[0]]][i]}" for (name, columns), i in first_gap]
        raise ReleaseError(
            "standard-error-missing",
            f"No standard error is given for {', '.join(labels) or 'the number'}. Of {out.size:,} numbers, "
            f"{int(np.isnan(out).sum()):,} lack one.",
            "Each number needs a standard error; 0 states that there is no sampling error.",
            "Add the rows that are missing.",
            UNCOMPUTED,
            place="standard_errors",
        )
    return np.asarray(out.ravel())


def _read(stated: Any) -> tuple[list[str], list[dict[Any, Any]]]:
    """Return the columns and the rows of a file or a frame, or raise ReleaseError."""
    if isinstance(stated, pd.DataFrame):
        header = [*map(str, stated.columns)]
        return header, [dict(zip(header, row, strict=True)) for row in stated.itertuples(index=False, name=None)]
    if not isinstance(stated, str | os.PathLike):
        raise ReleaseError(
            "one-standard-error",
            f"The standard errors are {describe_value(stated)}, and the numbers have labels.",
            "Each number needs a standard error of its own.",
            f"Give a CSV file or a data frame with the labels and the column {ERROR_COLUMN!r}.",
            UNCOMPUTED,
            place="standard_errors",
        )
    header, lines = read_rows(Path(stated), "the file of standard errors", ReleaseError)
    return header, [dict(line) for line in lines]


def _keys(rows: RowLabels) -> dict[str, dict[str, dict[str, int]]]:
    """Return the columns that identify the labels of each name, each with the index of every text.

    They are the labels, unless two are equal, and the codes.
    """
    keys = {}
    for name, labels in rows.labels.items():
        stub = rows.stubs.get(name, {name: {x: x for x in labels}})
        columns = [c for c in (name, f"{name}_{CODE}") if c in stub]
        texts = {c: {str(stub[c][x]): i for i, x in enumerate(labels)} for c in columns}
        keys[name] = {c: indices for c, indices in texts.items() if len(indices) == len(labels)}
    return keys


def _position(texts: Mapping[str, Mapping[str, int]], name: str, line: Mapping[str, Any]) -> int:
    """Return the index of the label of a row, or raise ReleaseError if it is unknown, or columns disagree."""
    indices = {each.get(str(line[c])) for c, each in texts.items()}
    index = indices.pop()
    if index is None or indices:
        labels = [*next(iter(texts.values()))]
        raise ReleaseError(
            "unknown-label-of-standard-error",
            f"There is no number for {', '.join(f'{c} = {describe_value(line[c])}' for c in texts)}.",
            "Standard errors are matched with the numbers by their labels and codes.",
            f"Choose from {labels[:20]}{' and others' if len(labels) > 20 else ''}.",
            UNCOMPUTED,
            place=name,
        )
    return index


def _standard_error(stated: Any, whose: str) -> float:
    """Return a standard error as a number, or raise ReleaseError."""
    x = number(stated) if isinstance(stated, str) else stated
    if not is_real(x) or not 0 <= x < np.inf:
        raise ReleaseError(
            "wrong-standard-error",
            f"The standard error{whose} is {describe_value(float(stated) if is_real(stated) else stated)}.",
            "A standard error is a number of at least 0, in the unit of the estimates, and no percentage.",
            "Give such a number. Multiply a coefficient of variation by its estimate first.",
            UNCOMPUTED,
            place="standard_errors",
        )
    return float(x)
