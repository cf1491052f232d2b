"""How good the answers of a finite mechanism are, whatever kind it is: post-processing of public numbers.

An answer by ranks is as good as the data let it be: for it there is :func:`rank_margin <.ranks.rank_margin>`. For the
other three kinds :func:`accuracy` gives how often an answer is right, how far off it is, and what it tells a reader
with a prior of his own.
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
from fitnoise.kernel.designs.choices import FiniteMechanism
from fitnoise.kernel.designs.clamped import ClampedMechanism
from fitnoise.kernel.designs.lazy import LazyMechanism
from fitnoise.kernel.designs.questions import Mechanism
from fitnoise.kernel.designs.ranks import RankMechanism
from fitnoise.mechanisms.finite.box import BoxAccuracy, StaircaseAccuracy
from fitnoise.mechanisms.finite.priors import checked_prior
from fitnoise.request.targets import checked_confidence

_TIE = 1e-12
"""Guesses whose gains differ by a smaller part are equally good."""


@final
@dataclass(frozen=True, eq=False)
class TableAccuracy:
    """How good a mechanism with a table of probabilities is. of: the mechanism."""

    of: FiniteMechanism

    def remap(self, prior: npt.ArrayLike, gain: npt.ArrayLike | None = None) -> Integers:
        """The best guess for every output, positions of results, (outputs,).

        It maximises Σ_i π_i P(o | i) g(i, guess). Ties, that is gains that differ by a part of 10⁻¹² of the largest
        size, go to the answer that the output has without a remap, else to the first result.

        Args:
            prior: π, (n,).
            gain: g, (n, guesses), what a guess is worth; None: 1 if right, else 0.

        Raises:
            WorkloadError: the prior or the gain are none.
        """
        joint = checked_prior(self.of.graph.n, prior)[:, None] * self.of.probabilities()
        scores = joint.T if gain is None else joint.T @ checked_gain(self.of.graph.n, gain)
        best = scores.max(axis=1, keepdims=True)
        good = scores >= best - _TIE * np.abs(scores).max(axis=1, keepdims=True)
        own = np.minimum(self.of.answers, scores.shape[1] - 1)
        kept = good[np.arange(self.of.outputs), own] & (own == self.of.answers)
        return np.asarray(np.where(kept, own, good.argmax(axis=1)), dtype=np.int64)

    def _guesses(self, guesses: npt.ArrayLike | None) -> Integers:
        if guesses is None:
            return self.of.answers
        own = np.asarray(guesses)
        if (
            own.shape != (self.of.outputs,)
            or own.dtype.kind not in "iu"
            or own.min() < 0
            or own.max() >= self.of.graph.n
        ):
            raise WorkloadError(
                "remap-shape",
                f"The remap is not {self.of.outputs} integers from 0 to {self.of.graph.n - 1}.",
                "",
                "Give the position of one result for each output.",
                "Nothing was computed.",
            )
        return own.astype(np.int64)

    def expected_gain(self, prior: npt.ArrayLike, gain: npt.ArrayLike | None = None) -> float:
        """Σ_o max_g Σ_i π_i P(o | i) g(i, guess): what the best remap gets.

        Raises:
            WorkloadError: the prior or the gain are none.
        """
        joint = checked_prior(self.of.graph.n, prior)[:, None] * self.of.probabilities()
        scores = joint.T if gain is None else joint.T @ checked_gain(self.of.graph.n, gain)
        return float(scores.max(axis=1).sum())

    def hits(self, guesses: npt.ArrayLike | None = None) -> Floats:
        """The probability of a right guess for every result, (n,): the diagonal of X R.

        Args:
            guesses: a remap, (outputs,); None: the answers.
        """
        read = self._guesses(guesses)
        return np.asarray(
            np.where(read[None, :] == np.arange(self.of.graph.n)[:, None], self.of.probabilities(), 0.0).sum(axis=1)
        )

    def hit_rate(self, prior: npt.ArrayLike, guesses: npt.ArrayLike | None = None) -> float:
        """The probability of a right guess under a prior."""
        return float(checked_prior(self.of.graph.n, prior) @ self.hits(guesses))

    def absolute_errors(self, guesses: npt.ArrayLike | None = None) -> Floats:
        """E |guess − truth| for every result, (n,); for tuples of numbers the sum over their places.

        Raises:
            WorkloadError: the labels are no numbers, or the remap is none.
        """
        x = self._points()
        read = x[self._guesses(guesses)]
        return np.asarray(
            sum(_means(self.of.probabilities(), np.abs(a[:, None] - b)) for a, b in zip(x.T, read.T, strict=True))
        )

    def squared_errors(self, guesses: npt.ArrayLike | None = None) -> Floats:
        """E (guess − truth)² for every result, (n,); for tuples of numbers the sum over their places.

        Raises:
            WorkloadError: the labels are no numbers, or the remap is none.
        """
        x = self._points()
        read = x[self._guesses(guesses)]
        return np.asarray(
            sum(_means(self.of.probabilities(), (a[:, None] - b) ** 2) for a, b in zip(x.T, read.T, strict=True))
        )

    def mae(self, prior: npt.ArrayLike, guesses: npt.ArrayLike | None = None) -> float:
        """The mean absolute error under a prior."""
        return float(checked_prior(self.of.graph.n, prior) @ self.absolute_errors(guesses))

    def rmse(self, prior: npt.ArrayLike, guesses: npt.ArrayLike | None = None) -> float:
        """The root of the mean squared error under a prior."""
        return math.sqrt(checked_prior(self.of.graph.n, prior) @ self.squared_errors(guesses))

    def margin(self, confidence: float, guesses: npt.ArrayLike | None = None) -> float:
        """The smallest h such that the guess is within h of the truth with this probability, whatever the truth.

        For tuples of numbers all places are within h at once: h is the largest of their errors.

        Args:
            confidence: a number above 0 and below 1.
            guesses: a remap, (outputs,); None: the answers.

        Raises:
            WorkloadError: the confidence is none, the labels are no numbers, or the remap is none.

        **Guarantees**

        - P(|guess − truth| ≤ h | i) ≥ confidence for every result i. Rounding is on the safe side: h is the smallest
          one for some confidence that is larger by at most (outputs + 16) 2⁻⁵³, below 10⁻¹² for up to 4,096 outputs.
        """
        wanted = checked_confidence(confidence)
        x = self._points()
        read = x[self._guesses(guesses)]
        missed = 1 - wanted - (self.of.outputs + 16) * 2.0**-53
        worst = 0.0
        for own, row in zip(x, self.of.probabilities(), strict=True):
            away = np.abs(read - own).max(axis=1)[row > 0]
            order = np.argsort(away)
            beyond = np.cumsum(row[row > 0][order][::-1])[::-1]  # of this error or a larger one
            kept = max(1, int((beyond > missed).sum()))
            worst = max(worst, float(away[order[kept - 1]]))
        return worst

    def _points(self) -> Floats:
        found = points(self.of.graph.results)
        if found is None:
            raise WorkloadError(
                "errors-need-numbers",
                "The results are not numbers, nor tuples of numbers of one length.",
                "An error is the difference of two results.",
                "Use hit rates.",
                "Nothing was computed.",
            )
        return found

    def posteriors(self, prior: npt.ArrayLike) -> Floats:
        """P(i | o) under a prior, (outputs, n); a row of zeros for an output that never occurs.

        Raises:
            WorkloadError: the prior is none.
        """
        joint = (checked_prior(self.of.graph.n, prior)[:, None] * self.of.probabilities()).T
        whole = joint.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(joint, whole, out=np.zeros_like(joint), where=whole > 0))

    def posterior(self, prior: npt.ArrayLike, output: int) -> Floats:
        """P(i | o) of one output under a prior, (n,)."""
        return np.asarray(self.posteriors(prior)[output])

    def leakage(self, prior: npt.ArrayLike) -> float:
        """Min-entropy leakage about the result, in bits: log2(Σ_o max_i π_i P(o | i) / max π).

        Raises:
            WorkloadError: the prior is none.

        Source: proposition 5.
        """
        pi = checked_prior(self.of.graph.n, prior)
        return math.log2(self.expected_gain(pi) / pi.max())


def points(results: Sequence[object]) -> Floats | None:
    """Labels as points, (n, places), if they are numbers or tuples of numbers of one length; else None."""
    listed = [r if isinstance(r, tuple) else (r,) for r in results]
    numbers = all(is_real(x) for r in listed for x in r)
    if not numbers or len({len(r) for r in listed}) != 1:
        return None
    return np.array(listed, dtype=np.float64)


def checked_gain(n: int, gain: npt.ArrayLike) -> Floats:
    """A gain matrix as floats, (n, guesses).

    Raises:
        WorkloadError: it has no n rows of one length, or a number that is not finite.
    """
    try:
        own = np.asarray(gain, dtype=np.float64)
    except (TypeError, ValueError):
        own = np.zeros(())
    if own.ndim != 2 or own.shape[0] != n or not own.shape[1] or not np.isfinite(own).all():
        raise WorkloadError(
            "gain-shape",
            f"The gain has the shape {own.shape}, or an entry that is not a finite number.",
            f"A gain has {n} rows, one for each result, and a column for each guess.",
            "Give a matrix of finite numbers.",
            "Nothing was computed.",
        )
    return own


def _means(table: Floats, values: Floats) -> Floats:
    return np.asarray(np.einsum("io,io->i", table, values))


Accuracy = TableAccuracy | BoxAccuracy | StaircaseAccuracy
"""How good some mechanism is: `hit_rate`, `mae`, `rmse`, `margin`, `posterior`, `leakage`."""


@overload
def accuracy(mechanism: FiniteMechanism) -> TableAccuracy: ...


@overload
def accuracy(mechanism: Mechanism) -> Accuracy: ...


def accuracy(mechanism: Mechanism) -> Accuracy:
    """How good a mechanism is, by the kind it is of.

    Raises:
        WorkloadError: it answers by ranks: what its answers are like does not follow from the true answer.
    """
    if isinstance(mechanism, RankMechanism):
        raise WorkloadError(
            "ranks-without-accuracy",
            "The mechanism answers by ranks.",
            "Its accuracy depends on all records, so a prior of the true answer does not determine it.",
            "Use its rank margin, which holds for all data.",
            "Nothing was computed.",
        )
    if isinstance(mechanism, LazyMechanism):
        return BoxAccuracy(mechanism)
    return StaircaseAccuracy(mechanism) if isinstance(mechanism, ClampedMechanism) else TableAccuracy(mechanism)
