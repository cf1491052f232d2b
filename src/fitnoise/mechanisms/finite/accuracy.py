"""Accuracy of the answers of a finite mechanism, for every kind of mechanism: post-processing of public numbers.

The accuracy of an answer by ranks depends on the data: :func:`rank_margin <.ranks.rank_margin>` covers it. For the
other three kinds :func:`accuracy` returns the probability of a right answer, its errors, and its leakage to a reader
with a prior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final, overload

import numpy as np
import numpy.typing as npt

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.checks import is_real
from fitnoise.kernel.designs.clamped import ClampedMechanism
from fitnoise.kernel.designs.implicit_mechanisms import ImplicitMechanism
from fitnoise.kernel.designs.probability_tables import FiniteMechanism
from fitnoise.kernel.designs.questions import Mechanism
from fitnoise.kernel.designs.ranks import RankMechanism
from fitnoise.mechanisms.finite.box import BoxAccuracy, StaircaseAccuracy
from fitnoise.mechanisms.finite.priors import checked_prior
from fitnoise.request.targets import checked_confidence

_TIE = 1e-12
"""Relative difference of gains below which guesses are equally good."""


@final
@dataclass(frozen=True, eq=False)
class TableAccuracy:
    """The accuracy of a mechanism with a table of probabilities."""

    mechanism: FiniteMechanism

    def remap(self, prior: npt.ArrayLike, gain: npt.ArrayLike | None = None) -> Integers:
        """Return the best guess for every output, (outputs,): columns of the gain, or results without a gain.

        It maximises Σ_i π_i P(o | i) g(i, guess). Ties are gains that differ by a part of 10⁻¹² of the largest size.
        They go to the answer that the output has without a remap, otherwise to the first guess.

        Args:
            prior: π, (n,).
            gain: g, (n, guesses), the gain of each guess; None for 1 if the guess is right, and 0 otherwise.

        Raises:
            WorkloadError: The prior or the gain is not valid.
        """
        joint = checked_prior(self.mechanism.graph.n, prior)[:, None] * self.mechanism.probabilities()
        scores = joint.T if gain is None else joint.T @ checked_gain(self.mechanism.graph.n, gain)
        best = scores.max(axis=1, keepdims=True)
        good = scores >= best - _TIE * np.abs(scores).max(axis=1, keepdims=True)
        # With a gain, guesses need not be results, so an answer may have no column.
        answers = np.minimum(self.mechanism.answers, scores.shape[1] - 1)
        # Ties keep the answer, so that rounding does not turn an identity into another remap.
        keeps_answer = good[np.arange(self.mechanism.outputs), answers] & (answers == self.mechanism.answers)
        return np.asarray(np.where(keeps_answer, answers, good.argmax(axis=1)), dtype=np.int64)

    def _guesses(self, guesses: npt.ArrayLike | None) -> Integers:
        if guesses is None:
            return self.mechanism.answers
        chosen = np.asarray(guesses)
        if (
            chosen.shape != (self.mechanism.outputs,)
            or chosen.dtype.kind not in "iu"
            or chosen.min() < 0
            or chosen.max() >= self.mechanism.graph.n
        ):
            raise WorkloadError(
                "remap-shape",
                f"The remap is not {self.mechanism.outputs} integers from 0 to {self.mechanism.graph.n - 1}.",
                "",
                "Give the position of one result for each output.",
                "Nothing was computed.",
            )
        return chosen.astype(np.int64)

    def expected_gain(self, prior: npt.ArrayLike, gain: npt.ArrayLike | None = None) -> float:
        """Return Σ_o max_guess Σ_i π_i P(o | i) g(i, guess): the expected gain of the best remap.

        The arguments are those of `remap`.

        Raises:
            WorkloadError: The prior or the gain is not valid.
        """
        joint = checked_prior(self.mechanism.graph.n, prior)[:, None] * self.mechanism.probabilities()
        scores = joint.T if gain is None else joint.T @ checked_gain(self.mechanism.graph.n, gain)
        return float(scores.max(axis=1).sum())

    def hits(self, guesses: npt.ArrayLike | None = None) -> Floats:
        """Return the probability of a right guess for every result, (n,): the diagonal of X R, R the remap.

        Args:
            guesses: A remap, (outputs,); None for the answers.
        """
        read = self._guesses(guesses)
        return np.asarray(
            np.where(
                read[None, :] == np.arange(self.mechanism.graph.n)[:, None], self.mechanism.probabilities(), 0.0
            ).sum(axis=1)
        )

    def hit_rate(self, prior: npt.ArrayLike, guesses: npt.ArrayLike | None = None) -> float:
        """Return the probability of a right guess under a prior."""
        return float(checked_prior(self.mechanism.graph.n, prior) @ self.hits(guesses))

    def absolute_errors(self, guesses: npt.ArrayLike | None = None) -> Floats:
        """Return E |guess − truth| for every result, (n,); for tuples of numbers the sum over their components.

        Raises:
            WorkloadError: The labels are not numbers, or the remap is not valid.
        """
        x = self._points()
        read = x[self._guesses(guesses)]
        return np.asarray(
            sum(
                _means(self.mechanism.probabilities(), np.abs(a[:, None] - b)) for a, b in zip(x.T, read.T, strict=True)
            )
        )

    def squared_errors(self, guesses: npt.ArrayLike | None = None) -> Floats:
        """Return E (guess − truth)² for every result, (n,); for tuples of numbers the sum over their components.

        Raises:
            WorkloadError: The labels are not numbers, or the remap is not valid.
        """
        x = self._points()
        read = x[self._guesses(guesses)]
        return np.asarray(
            sum(_means(self.mechanism.probabilities(), (a[:, None] - b) ** 2) for a, b in zip(x.T, read.T, strict=True))
        )

    def mae(self, prior: npt.ArrayLike, guesses: npt.ArrayLike | None = None) -> float:
        """Return the mean absolute error under a prior."""
        return float(checked_prior(self.mechanism.graph.n, prior) @ self.absolute_errors(guesses))

    def rmse(self, prior: npt.ArrayLike, guesses: npt.ArrayLike | None = None) -> float:
        """Return the root of the mean squared error under a prior."""
        return math.sqrt(checked_prior(self.mechanism.graph.n, prior) @ self.squared_errors(guesses))

    def margin(self, confidence: float, guesses: npt.ArrayLike | None = None) -> float:
        """Return the smallest h such that the guess is within h of every truth with a probability of `confidence`.

        For tuples of numbers all components are within h jointly: h is the largest of their errors.

        Args:
            confidence: A number above 0 and below 1.
            guesses: A remap, (outputs,); None for the answers.

        Raises:
            WorkloadError: The confidence is out of range, the labels are not numbers, or the remap is not valid.

        **Guarantees**

        - P(|guess − truth| ≤ h | i) ≥ confidence for every result i.
        - Rounding is on the safe side: h is the smallest one for some confidence that is larger by at most
          (outputs + 16) 2⁻⁵³. This excess is below 10⁻¹² for up to 4,096 outputs.
        """
        required = checked_confidence(confidence)
        x = self._points()
        read = x[self._guesses(guesses)]
        # The sum of up to `outputs` probabilities is rounded, and so are the probabilities.
        missed = 1 - required - (self.mechanism.outputs + 16) * 2.0**-53
        worst = 0.0
        for truth, row in zip(x, self.mechanism.probabilities(), strict=True):
            away = np.abs(read - truth).max(axis=1)[row > 0]
            order = np.argsort(away)
            # The probability of this error or a larger one.
            tails = np.cumsum(row[row > 0][order][::-1])[::-1]
            count = max(1, int((tails > missed).sum()))
            worst = max(worst, float(away[order[count - 1]]))
        return worst

    def _points(self) -> Floats:
        coordinates = points(self.mechanism.graph.results)
        if coordinates is None:
            raise WorkloadError(
                "errors-need-numbers",
                "The results are not numbers, nor tuples of numbers of one length.",
                "An error is the difference of two results.",
                "Use hit rates.",
                "Nothing was computed.",
            )
        return coordinates

    def posteriors(self, prior: npt.ArrayLike) -> Floats:
        """Return P(i | o) under a prior, (outputs, n); a row of zeros for an output that never occurs.

        Raises:
            WorkloadError: The prior is not valid.
        """
        joint = (checked_prior(self.mechanism.graph.n, prior)[:, None] * self.mechanism.probabilities()).T
        totals = joint.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(joint, totals, out=np.zeros_like(joint), where=totals > 0))

    def posterior(self, prior: npt.ArrayLike, output: int) -> Floats:
        """Return P(i | o) of one output under a prior, (n,).

        Args:
            prior: π, (n,).
            output: The index of the output, from 0. A negative index counts from the end.

        Raises:
            WorkloadError: The prior is not valid.
            IndexError: There is no such output.
        """
        return np.asarray(self.posteriors(prior)[output])

    def leakage(self, prior: npt.ArrayLike) -> float:
        """Return the min-entropy leakage about the result, in bits: log2(Σ_o max_i π_i P(o | i) / max π).

        Raises:
            WorkloadError: The prior is not valid.

        **Source.** Proposition 5.
        """
        pi = checked_prior(self.mechanism.graph.n, prior)
        return math.log2(self.expected_gain(pi) / pi.max())


def points(results: Sequence[object]) -> Floats | None:
    """Return labels as points, (n, components), if they are numbers or tuples of numbers of one length; else None."""
    listed = [r if isinstance(r, tuple) else (r,) for r in results]
    numbers = all(is_real(x) for r in listed for x in r)
    if not numbers or len({len(r) for r in listed}) != 1:
        return None
    return np.array(listed, dtype=np.float64)


def checked_gain(n: int, gain: npt.ArrayLike) -> Floats:
    """Return a gain matrix as floats, (n, guesses).

    Raises:
        WorkloadError: The matrix does not have n rows of one length, or has a number that is not finite.
    """
    try:
        matrix = np.asarray(gain, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.zeros(())
    if matrix.ndim != 2 or matrix.shape[0] != n or not matrix.shape[1] or not np.isfinite(matrix).all():
        raise WorkloadError(
            "gain-shape",
            f"The gain has the shape {matrix.shape}, or an entry that is not a finite number.",
            f"A gain has {n} rows, one for each result, and a column for each guess.",
            "Give a matrix of finite numbers.",
            "Nothing was computed.",
        )
    return matrix


def _means(table: Floats, values: Floats) -> Floats:
    return np.asarray(np.einsum("io,io->i", table, values))


Accuracy = TableAccuracy | BoxAccuracy | StaircaseAccuracy
"""The accuracy of a mechanism: `hit_rate`, `mae`, `rmse`, `margin`, `posterior`, `leakage`."""


@overload
def accuracy(mechanism: FiniteMechanism) -> TableAccuracy: ...


@overload
def accuracy(mechanism: Mechanism) -> Accuracy: ...


def accuracy(mechanism: Mechanism) -> Accuracy:
    """Return the accuracy of a mechanism, by its kind.

    Raises:
        WorkloadError: The mechanism answers by ranks: the true answer does not determine its accuracy.
    """
    if isinstance(mechanism, RankMechanism):
        raise WorkloadError(
            "ranks-without-accuracy",
            "The mechanism answers by ranks.",
            "Its accuracy depends on all records, so a prior of the true answer does not determine it.",
            "Use its rank margin, which holds for all data.",
            "Nothing was computed.",
        )
    if isinstance(mechanism, ImplicitMechanism):
        return BoxAccuracy(mechanism)
    return StaircaseAccuracy(mechanism) if isinstance(mechanism, ClampedMechanism) else TableAccuracy(mechanism)
