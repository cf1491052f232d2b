"""Quantiles of an attribute with an order, from cumulative counts, with intervals of proven coverage.

With F(t) the records with at most t, and N all of them, the quantile at q is the first t with F(t) ≥ qN. A candidate t
is kept where neither F(t) ≥ qN nor F(t−1) < qN is rejected: the two linear hypotheses that make it the quantile, tested
one-sided at α/2 each.

*Coverage.* At the true t both hypotheses are true, so that one of the tests rejects it with a chance of at most α: only
these two tests need to hold, however many candidates there are, and whatever the data. (Where t is the last value, or
the first, one of them is true of itself and is not tested.)

*What is kept is never empty*: the first t with F(t) ≥ qN not rejected is kept, since before it F(t−1) was found below
qN. So is the last t with F(t−1) < qN not rejected; and these are the ends.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.optimize import isotonic_regression

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.reading.comparisons import Told
from fitnoise.reading.estimates import Estimates, Rows
from fitnoise.reading.forms import Forms
from fitnoise.reading.laws import Law, law, level
from fitnoise.reading.refusals import UNCOMPUTED

LARGEST = 2**25
"""Numbers times values of the attribute that are cumulated."""


@final
class Quantiles(Told):
    """Values below which a part of the records lies. Made by `Release.quantile`.

    **Guarantees**
        * the exact quantile of the records as they were read, the first value t such that at most t have at least the
          part q of all, is from `low` to `high` with at least the confidence, whatever the data, up to 6·10⁻⁵ for the
          lattice of the noise; where there are no records there is none, and nothing is said;
        * `value` is one of the attribute's values or bins from `low` to `high`: nothing is interpolated inside a bin.

    Source: ours; the inversion of two one-sided tests.
    """

    def __init__(self, counts: Estimates, name: str, q: float) -> None:
        """From counts of all values of an attribute, the last name by which they are told apart.

        Raises:
            ReleaseError: a q that is not between 0 and 1, or more values than are cumulated.
        """
        if isinstance(q, bool) or not isinstance(q, (int, float, np.floating)) or not 0 < q < 1:
            raise ReleaseError(
                "wrong-quantile",
                f"The quantile is at {q!r}.",
                "A quantile is at a number strictly between 0 and 1.",
                "Give such a number, as 0.5 for the median.",
                UNCOMPUTED,
                place="q",
            )
        labels = counts.labels
        values = labels.pop(name)
        if len(counts) * len(values) > LARGEST:
            raise ReleaseError(
                "too-many-cumulated",
                f"{len(counts):,} numbers are to be cumulated along {len(values):,} values of {name!r}.",
                f"At most {LARGEST:,} pairs are cumulated.",
                "Ask for fewer numbers, or for fewer values.",
                UNCOMPUTED,
                place=name,
            )
        self._counts, self._q, self.confidence = counts, float(q), counts.confidence
        self._called = "quantile", f" at {self._q:g}"
        self._shown = np.array(values, dtype=np.int64 if isinstance(values[0], int) else object)
        self._rows = Rows(labels, {own: counts._rows.homes[own] for own in labels})

    @property
    def universe(self) -> str:
        """Which records they are of."""
        return self._counts.universe

    @cached_property
    def _tested(self) -> Forms:
        """F(t) − qN, for each number t after t."""
        n = len(self._shown)
        each = np.tril(np.ones((n, n))) - self._q
        whole = sp.csr_array(sp.kron(sp.eye_array(len(self)), each, format="csr"))
        pieces = {key: sp.csr_array(whole @ x) for key, x in self._counts._forms.pieces.items()}
        for x in pieces.values():
            x.eliminate_zeros()
        return Forms(len(self._counts), pieces)

    @cached_property
    def _law(self) -> Law:
        return law(self._tested)

    def _found(self, confidence: float | None, *, simultaneous: bool) -> tuple[Indices, Indices, Indices]:
        """The places of value, low and high."""
        gamma = self.confidence if confidence is None else confidence
        # one-sided tests of many forms: Šidák does not speak of them
        own, shape = level(gamma, len(self), normal=False, simultaneous=simultaneous), (len(self), len(self._shown))
        widths = self._law.half_widths(np.ones((len(self._counts), 1)), own).reshape(shape)
        low, high = kept(self._tested.values().reshape(shape), widths)
        return np.clip(first(np.ravel(self._counts.value).reshape(shape), self._q), low, high), low, high

    def _values(self, place: Indices) -> Any:
        return self._shown[place].reshape(self._rows.shape)[()]

    @property
    def value(self) -> Any:
        """Where a non-decreasing fit to the cumulative counts first has q of all, moved into the interval."""
        return self._values(self._found(None, simultaneous=False)[0])

    def interval(self, confidence: float | None = None, *, simultaneous: bool = False) -> tuple[Any, Any]:
        """(low, high): values or bins of the attribute, ends included.

        Args:
            confidence: of each interval; default the release's.
            simultaneous: whether it is of all intervals at once instead (Bonferroni).

        Raises:
            WorkloadError: a confidence outside (0, 1).
        """
        _, low, high = self._found(confidence, simultaneous=simultaneous)
        return self._values(low), self._values(high)

    def frame(self, confidence: float | None = None, *, simultaneous: bool = False) -> pd.DataFrame:
        """Columns: the labels, value, low, high. Arguments as for `interval`.

        Args:
            confidence: of each interval; default the release's.
            simultaneous: whether it is of all intervals at once instead.

        Raises:
            WorkloadError: a confidence outside (0, 1).
        """
        found = self._found(confidence, simultaneous=simultaneous)
        columns = {n: self._shown[x] for n, x in zip(("value", "low", "high"), found, strict=True)}
        return self._framed(columns, confidence)


def kept(tested: Floats, half_widths: Floats) -> tuple[Indices, Indices]:
    """The first and the last value that is kept, (J,) each.

    Args:
        tested: estimates of F(t) − qN, (J, values).
        half_widths: of their noise, at the confidence of the interval, likewise.
    """
    n = tested.shape[1]
    enough, before = tested >= -half_widths, tested <= half_widths
    enough[:, -1] = True
    below = np.concatenate([np.ones((len(tested), 1), dtype=bool), before[:, :-1]], axis=1)
    return enough.argmax(axis=1), n - 1 - below[:, ::-1].argmax(axis=1)


def first(counts: Floats, q: float) -> Indices:
    """The first value at which counts, cumulated and made non-decreasing by least squares, have q of all, or the last.

    counts: unbiased estimates, (J, values).
    """
    out = np.empty(len(counts), dtype=np.intp)
    for i, cumulated in enumerate(np.cumsum(counts, axis=1)):
        enough = isotonic_regression(cumulated).x >= q * cumulated[-1]
        out[i] = enough.argmax() if enough.any() else len(enough) - 1
    return out
