"""Quantiles of an attribute with an order, from cumulative counts, with intervals of proven coverage.

F(t) is the number of records with at most t, and N the number of all. The quantile at q is the first t with F(t) ≥ qN.
The confidence is 1 − α.
A candidate t is accepted if neither F(t) ≥ qN nor F(t−1) < qN is rejected. These two linear hypotheses make t the
quantile, and each has a one-sided test at α/2.

*Coverage.* At the true t both hypotheses are true, so the probability that one of the tests rejects is at most α. Only
these two tests need to hold, for any number of candidates and any data. (If t is the last or the first value, one of
the hypotheses is always true and is not tested.)

*The accepted set is never empty.* The first t whose F(t) ≥ qN is not rejected is accepted, because before it F(t−1) was
found below qN. So is the last t whose F(t−1) < qN is not rejected. These two are the ends.

*The smallest and the largest value* are the quantiles at 0 and 1: the first t with F(t) > 0, and the first with F(t) =
N. Their tests are those of F(t) ≥ 0 and F(t−1) ≤ 0, and of F(t) ≥ N and F(t−1) ≤ N, which also hold at the true t.

*Several quantiles.* True quantiles never decrease with q. An end below the end at a smaller q is noise. So each low end
becomes the least of the low ends at its q and above. Each high end becomes the greatest of the high ends at its q and
below. This only widens intervals, so none loses coverage. Bonferroni's inequality makes all hold at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, final

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.optimize import isotonic_regression

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.kernel.checks import is_real
from fitnoise.reading.estimates import Estimates
from fitnoise.reading.labelled_numbers import LabelledNumbers, RowLabels
from fitnoise.reading.laws import Law, law, level
from fitnoise.reading.linear_forms import Forms
from fitnoise.reading.refusals import UNCOMPUTED
from fitnoise.request.domain import QUANTILE

MAX_CUMULATED_NUMBERS = 2**25
"""The largest product of numbers, quantiles of each and values of the attribute that is cumulated."""


@final
class Quantiles(LabelledNumbers):
    """Values at or below which a part of the records lies. `Release.quantile` makes them.

    **Guarantees**
        * the exact quantile of the records as they were read is from `low` to `high` with at least the confidence, for
          any data. It is the first value t such that at least the part q of all records, and at least one record, have
          at most t. The lattice of the noise can lower the confidence by at most 6·10⁻⁵. Without records there is no
          quantile and no guarantee;
        * with at least the confidence, a record has at most `high`, for a quantile at 0, or at least `low`, for one at
          1;
        * `value` is one of the attribute's values or bins from `low` to `high`: fitnoise does not interpolate in a bin;
        * of several quantiles, `value`, `low` and `high` never decrease with q.

    Source: this project, by inversion of two one-sided tests.
    """

    def __init__(self, counts: Estimates, name: str, q: float | Sequence[float]) -> None:
        """Make quantiles from counts of all values of an attribute, the last name of their breakdown.

        Raises:
            ReleaseError: q is no number from 0 to 1 and no rising list of such numbers, or there are too many numbers
                to cumulate.
        """
        parts = [*q] if isinstance(q, (list, tuple, np.ndarray)) else None
        self._q = tuple(float(x) if is_real(x) else math.nan for x in ([q] if parts is None else parts))
        if not self._q or not all(0 <= x <= 1 for x in self._q) or not all(a < b for a, b in pairwise(self._q)):
            raise ReleaseError(
                "wrong-quantile",
                f"The quantile is at {q!r}.",
                "A quantile is at a number from 0 to 1; of several, each number is above the one before.",
                "Give a number, as 0.5 for the median, or a list, as [0.25, 0.5, 0.75].",
                UNCOMPUTED,
                place="q",
            )
        labels = counts.labels
        values = labels.pop(name)
        if len(counts) * len(self._q) * len(values) > MAX_CUMULATED_NUMBERS:
            raise ReleaseError(
                "too-many-cumulated",
                f"{len(counts) * len(self._q):,} numbers are to be cumulated along {len(values):,} values of {name!r}.",
                f"At most {MAX_CUMULATED_NUMBERS:,} pairs are cumulated.",
                "Ask for fewer numbers, or for fewer values.",
                UNCOMPUTED,
                place=name,
            )
        self._counts, self.confidence = counts, counts.confidence
        self._noun = "quantile", f" at {', '.join(f'{x:g}' for x in self._q)}"
        self._attribute_values = np.array(values, dtype=np.int64 if isinstance(values[0], int) else object)
        homes = {label_name: counts._rows.homes[label_name] for label_name in labels}
        if parts is not None:
            labels[QUANTILE], homes[QUANTILE] = self._q, QUANTILE
        self._rows = RowLabels(labels, homes, stubs=counts._rows.stubs)

    @property
    def universe(self) -> str:
        """The records of the quantiles."""
        return self._counts.universe

    @cached_property
    def _tested(self) -> Forms:
        """The forms F(t) − qN, for all t of each quantile of each number in turn."""
        n = len(self._attribute_values)
        # row t has 1 − q for the values up to t, and −q for all others
        each = np.concatenate([np.tril(np.ones((n, n))) - q for q in self._q])
        combination = sp.csr_array(sp.kron(sp.eye_array(len(self._counts) // n), each, format="csr"))
        pieces = {key: sp.csr_array(combination @ x) for key, x in self._counts._forms.pieces.items()}
        for x in pieces.values():
            x.eliminate_zeros()
        return Forms(int(combination.shape[0]), pieces)

    @cached_property
    def _law(self) -> Law:
        return law(self._tested)

    def _indices(self, confidence: float | None, *, simultaneous: bool) -> tuple[Indices, Indices, Indices]:
        """Return the indices of value, low and high, (numbers, quantiles of each)."""
        gamma = self.confidence if confidence is None else confidence
        # one-sided tests of many forms: Šidák's inequality does not cover them
        row_confidence = level(gamma, len(self), normal=False, simultaneous=simultaneous)
        shape, levels = (-1, len(self._q), len(self._attribute_values)), np.array(self._q)
        # the noise is symmetric, so a two-sided width at 1 − α is that of a one-sided test at α/2
        widths = self._law.half_widths(np.ones((self._tested.length, 1)), row_confidence).reshape(shape)
        low, high = confidence_set(self._tested.values().reshape(shape), widths)
        value = find_first(np.ravel(self._counts.value).reshape(-1, shape[-1]), levels)
        return np.clip(value, low, high), low, high

    def _values(self, indices: Indices) -> Any:
        return self._attribute_values[indices].reshape(self._rows.shape)[()]

    @property
    def value(self) -> Any:
        """The first value where a non-decreasing fit to cumulative counts reaches q of all, and half a record.

        It is moved into the interval at the release's confidence; a frame of another confidence uses its own interval.
        """
        return self._values(self._indices(None, simultaneous=False)[0])

    def interval(self, confidence: float | None = None, *, simultaneous: bool = False) -> tuple[Any, Any]:
        """Return (low, high): values or bins of the attribute, ends included.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once (Bonferroni).

        Raises:
            WorkloadError: The confidence is not in (0, 1).
        """
        _, low, high = self._indices(confidence, simultaneous=simultaneous)
        return self._values(low), self._values(high)

    def frame(self, confidence: float | None = None, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return the labels with the columns value, low and high. The arguments are those of `interval`.

        Args:
            confidence: The confidence of each interval, or of all jointly if `simultaneous`; default the release's.
            simultaneous: True if the confidence is that of all intervals at once.

        Raises:
            WorkloadError: The confidence is not in (0, 1).
        """
        indices = self._indices(confidence, simultaneous=simultaneous)
        columns = {n: self._attribute_values[x] for n, x in zip(("value", "low", "high"), indices, strict=True)}
        return self._framed(columns, confidence)


def confidence_set(tested: Floats, half_widths: Floats) -> tuple[Indices, Indices]:
    """Return the indices of the first and the last accepted value, (J, k) each, made non-decreasing along k.

    Args:
        tested: The estimates of F(t) − qN, (J, k, values), in the order of their k parts q.
        half_widths: The half-widths of their noise at the confidence of the interval, (J, k, values).
    """
    n = tested.shape[-1]
    enough, before = tested >= -half_widths, tested <= half_widths
    enough[..., -1] = True  # F at the last value is N, and N ≥ qN; no record is below the first value
    below = np.concatenate([np.ones_like(before[..., :1]), before[..., :-1]], axis=-1)
    low, high = enough.argmax(axis=-1), n - 1 - below[..., ::-1].argmax(axis=-1)
    return np.minimum.accumulate(low[:, ::-1], axis=1)[:, ::-1], np.maximum.accumulate(high, axis=1)


def find_first(counts: Floats, levels: Floats) -> Indices:
    """Return the index of the first value that reaches each part q of all counts, or of the last value, (J, k).

    The counts are cumulated, and made non-decreasing by least squares. A value also has to reach half a record. So the
    indices never decrease with q, even where the estimate of all records is negative.

    counts: Unbiased estimates, (J, values).
    levels: The parts q, (k,).
    """
    out = np.empty((len(counts), len(levels)), dtype=np.intp)
    for i, cumulated in enumerate(np.cumsum(counts, axis=1)):
        # noise makes cumulated counts fall at some values; without the regression, the first crossing of q could be one
        # of these dips
        enough = isotonic_regression(cumulated).x >= np.maximum(levels * cumulated[-1], 0.5)[:, None]
        out[i] = np.where(enough.any(axis=1), enough.argmax(axis=1), cumulated.size - 1)
    return out
