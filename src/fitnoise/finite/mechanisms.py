r"""Mechanisms with finitely many results and outputs: a table of exact probabilities, and what it costs and gives.

A mechanism gives result i the output o with probability P(o | i) = w_io / N, integers with one row sum N. It is
ε-differentially private for the query graph iff P(o | i) ≤ e^ε P(o | j) for all edges i, j and all outputs o; here that
is decided in integers, when the mechanism is made, and a table that is not private enough is no mechanism.

| made by | what it is | for |
|---|---|---|
| `tight_constraints` | α^d(i,k) z_k, Φ z = 1 | graphs where z ≥ 0; best for every ε-regular prior |
| `residual_column` | α^d(i,k) d_k, and one output more for what is left | every graph, ε, prior; near the bound |
| `staircase` | noise ∝ α^⌈\|x\|/v⌉, clamped | numbers, pairs of numbers, … |
| `geometric` | noise ∝ e^(−ε\|x\|/v), clamped | the same; the usual choice |
| `distance_kernel` | ∝ κ^d(i,o), the best κ that is private | every graph |
| `randomised_response` | the truth, or any other result | every graph; complete ones |
| `optimal` | a linear program in n × outputs variables | up to 100 results, any gain |

What one guesses from an output is a *remap*: post-processing, free of charge. The best one depends on the prior of
whoever reads (`FiniteMechanism.remap`).

Source: ElSalamouny, Chatzikokolakis, Palamidessi, POST 2013, section 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np
import numpy.typing as npt

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.finite.exact import Floats, Graph, Integers, exp_below, log_above, rational
from fitnoise.finite.priors import checked_prior
from fitnoise.finite.weights import Weights, from_rows

_TIE = 1e-12
"""Guesses whose gains differ by a smaller part are equally good."""


@final
@dataclass(frozen=True, eq=False)
class FiniteMechanism:
    """A randomised answer, as exact probabilities.

    Attributes:
        graph: the graph of the query, whose edges say which results must look alike.
        epsilon: ε that was asked for, exactly.
        family: what kind of mechanism it is, in a word or two.
        weights: integers in proportion to which outputs are drawn; they have one sum in all rows.
        answers: the position of the result that each output is read as without a remap, (n_out,).

    Raises:
        PlanError: weights and graph do not fit, or **the ratio of two neighbouring rows is not proven to be at most
            e^ε**.
        WorkloadError: ε is no number of its range.

    **Guarantees**

    - ε-differentially private for neighbours joined by an edge, exactly: proven in integers when made, with a rational
      below e^ε. No float is in the proof.
    - Rows have one sum, so that drawing (`fitnoise.noise.categorical`) takes as many random words for one result as for
      another, in law.
    """

    graph: Graph
    epsilon: Fraction
    family: str
    weights: Weights
    answers: Integers

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", rational(self.epsilon))
        answers = np.array(self.answers, dtype=np.int64)
        answers.setflags(write=False)
        object.__setattr__(self, "answers", answers)
        rows, outputs = self.weights.codes.shape
        fits = rows == self.graph.n and answers.shape == (outputs,)
        if not fits or answers.min() < 0 or answers.max() >= self.graph.n:
            raise PlanError(f"weights of {rows} rows and {outputs} outputs do not fit the query; no mechanism was made")
        ratio = self.largest_ratio
        if ratio is None or ratio > exp_below(self.epsilon):
            known = "nothing bounds it" if ratio is None else f"its logarithm is up to {float(log_above(ratio)):.17g}"
            raise PlanError(
                f"two neighbouring results would be told apart by more than e^ε, ε = {float(self.epsilon):.17g}: "
                f"{known}. No mechanism was made."
            )

    @cached_property
    def largest_ratio(self) -> Fraction | None:
        """The largest P(o | i) / P(o | j) over edges and outputs, exactly."""
        return self.weights.largest_ratio(np.asarray(self.graph.edges))

    @cached_property
    def _charge(self) -> Fraction:
        ratio = self.largest_ratio
        assert ratio is not None  # noqa: S101 - refused when made
        return min(self.epsilon, log_above(ratio))

    def log_ratio(self) -> Fraction:
        """What one answer costs: at least the largest log P(o | i) / P(o | j), and at most ε.

        **Guarantees**

        - Proven: e to this is at least the exact ratio of integers. Above its logarithm by a part of at most 10⁻¹⁵.
        """
        return self._charge

    @property
    def outputs(self) -> int:
        """How many outputs there are."""
        return len(self.answers)

    def row(self, result: object) -> tuple[int, ...]:
        """The integers in proportion to which outputs are drawn where the true answer is `result`, a label.

        The place of the label is looked up, not searched for. The integers of a row are multiplied when asked for, and
        differ in length: the nanoseconds that this takes are not hidden.

        Raises:
            WorkloadError: the query has no such result. The message does not say which was given.
        """
        return self.weights.row(self.place(result))

    def place(self, result: object) -> int:
        """The position of a label.

        Raises:
            WorkloadError: the query has no such result. The message does not say which was given.
        """
        try:
            i = self._places[result]
        except (KeyError, TypeError):
            i = -1
        if i < 0:  # raised out here: the error before it, which names the label, is not kept
            raise WorkloadError("this is no result of the query; look at the results of the graph. Nothing was drawn.")
        return i

    @cached_property
    def _places(self) -> dict[object, int]:
        return {label: i for i, label in enumerate(self.graph.results)}

    @cached_property
    def _table(self) -> Floats:
        table = self.weights.probabilities()
        table.setflags(write=False)
        return table

    def probabilities(self) -> Floats:
        """P(o | i), (n, outputs), read-only; each within a part of 2⁻⁵⁰ of the exact one."""
        return self._table

    # --- What one guesses ---------------------------------------------------------------------------------

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
        joint = checked_prior(self.graph.n, prior)[:, None] * self._table
        scores = joint.T if gain is None else joint.T @ checked_gain(self.graph.n, gain)
        best = scores.max(axis=1, keepdims=True)
        good = scores >= best - _TIE * np.abs(scores).max(axis=1, keepdims=True)
        own = np.minimum(self.answers, scores.shape[1] - 1)
        kept = good[np.arange(self.outputs), own] & (own == self.answers)
        return np.asarray(np.where(kept, own, good.argmax(axis=1)), dtype=np.int64)

    def _guesses(self, guesses: npt.ArrayLike | None) -> Integers:
        if guesses is None:
            return self.answers
        own = np.asarray(guesses)
        if own.shape != (self.outputs,) or own.dtype.kind not in "iu" or own.min() < 0 or own.max() >= self.graph.n:
            raise WorkloadError(
                f"a remap gives each of {self.outputs} outputs a position of 0 to {self.graph.n - 1}; "
                "nothing was computed"
            )
        return own.astype(np.int64)

    def expected_gain(self, prior: npt.ArrayLike, gain: npt.ArrayLike | None = None) -> float:
        """Σ_o max_g Σ_i π_i P(o | i) g(i, guess): what the best remap gets.

        Raises:
            WorkloadError: the prior or the gain are none.
        """
        joint = checked_prior(self.graph.n, prior)[:, None] * self._table
        scores = joint.T if gain is None else joint.T @ checked_gain(self.graph.n, gain)
        return float(scores.max(axis=1).sum())

    # --- How good it is -----------------------------------------------------------------------------------

    def hits(self, guesses: npt.ArrayLike | None = None) -> Floats:
        """The probability of a right guess for every result, (n,): the diagonal of X R.

        Args:
            guesses: a remap, (outputs,); None: the answers.
        """
        read = self._guesses(guesses)
        return np.asarray(np.where(read[None, :] == np.arange(self.graph.n)[:, None], self._table, 0.0).sum(axis=1))

    def hit_rate(self, prior: npt.ArrayLike, guesses: npt.ArrayLike | None = None) -> float:
        """The probability of a right guess under a prior."""
        return float(checked_prior(self.graph.n, prior) @ self.hits(guesses))

    def absolute_errors(self, guesses: npt.ArrayLike | None = None) -> Floats:
        """E |guess − truth| for every result, (n,); for tuples of numbers the sum over their places.

        Raises:
            WorkloadError: the labels are no numbers, or the remap is none.
        """
        x = self._points()
        read = x[self._guesses(guesses)]
        return np.asarray(sum(_means(self._table, np.abs(a[:, None] - b)) for a, b in zip(x.T, read.T, strict=True)))

    def squared_errors(self, guesses: npt.ArrayLike | None = None) -> Floats:
        """E (guess − truth)² for every result, (n,); for tuples of numbers the sum over their places.

        Raises:
            WorkloadError: the labels are no numbers, or the remap is none.
        """
        x = self._points()
        read = x[self._guesses(guesses)]
        return np.asarray(sum(_means(self._table, (a[:, None] - b) ** 2) for a, b in zip(x.T, read.T, strict=True)))

    def mae(self, prior: npt.ArrayLike, guesses: npt.ArrayLike | None = None) -> float:
        """The mean absolute error under a prior."""
        return float(checked_prior(self.graph.n, prior) @ self.absolute_errors(guesses))

    def rmse(self, prior: npt.ArrayLike, guesses: npt.ArrayLike | None = None) -> float:
        """The root of the mean squared error under a prior."""
        return math.sqrt(checked_prior(self.graph.n, prior) @ self.squared_errors(guesses))

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
        missed = 1 - wanted - (self.outputs + 16) * 2.0**-53
        worst = 0.0
        for own, row in zip(x, self._table, strict=True):
            away = np.abs(read - own).max(axis=1)[row > 0]
            order = np.argsort(away)
            beyond = np.cumsum(row[row > 0][order][::-1])[::-1]  # of this error or a larger one
            kept = max(1, int((beyond > missed).sum()))
            worst = max(worst, float(away[order[kept - 1]]))
        return worst

    def _points(self) -> Floats:
        found = points(self.graph.results)
        if found is None:
            raise WorkloadError(
                "errors are differences of results, and these are no numbers, nor tuples of numbers of one length: "
                "ask for hit rates. Nothing was computed."
            )
        return found

    def posteriors(self, prior: npt.ArrayLike) -> Floats:
        """P(i | o) under a prior, (outputs, n); a row of zeros for an output that never occurs.

        Raises:
            WorkloadError: the prior is none.
        """
        joint = (checked_prior(self.graph.n, prior)[:, None] * self._table).T
        whole = joint.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(joint, whole, out=np.zeros_like(joint), where=whole > 0))

    def posterior(self, prior: npt.ArrayLike, output: int) -> Floats:
        """P(i | o) of one output under a prior, (n,)."""
        return np.asarray(self.posteriors(prior)[output])

    def read(self, output: int) -> object:
        """The result that an output is read as, a label."""
        return self.graph.results[int(self.answers[output])]

    def leakage(self, prior: npt.ArrayLike) -> float:
        """Min-entropy leakage about the result, in bits: log2(Σ_o max_i π_i P(o | i) / max π).

        Raises:
            WorkloadError: the prior is none.

        Source: proposition 5.
        """
        pi = checked_prior(self.graph.n, prior)
        return math.log2(self.expected_gain(pi) / pi.max())


def from_integers(
    graph: Graph,
    epsilon: float | Fraction,
    rows: Sequence[Sequence[int]],
    answers: npt.ArrayLike | None = None,
    family: str = "given",
) -> FiniteMechanism:
    """A mechanism from a table of integers, P(o | i) = rows[i][o] / Σ rows[i], exactly.

    Args:
        graph: the graph of the query.
        epsilon: ε.
        rows: (n, outputs), whole numbers, none below 0; rows need no common sum.
        answers: positions that outputs are read as, (outputs,); None: their own, for as many outputs as results or
            fewer.
        family: what to call it.

    Raises:
        PlanError: the rows are no such table, or not ε-private.
        WorkloadError: ε is no number of its range, or answers are missing.
    """
    weights = from_rows(rows)
    outputs = len(weights.columns)
    if answers is None and outputs > graph.n:
        raise WorkloadError(f"{outputs} outputs for {graph.n} results: say in `answers` what each is read as")
    read = np.arange(outputs) if answers is None else np.asarray(answers, dtype=np.int64)
    return FiniteMechanism(graph, rational(epsilon), family, weights, read)


def points(results: Sequence[object]) -> Floats | None:
    """Labels as points, (n, places), if they are numbers or tuples of numbers of one length; else None."""
    listed = [r if isinstance(r, tuple) else (r,) for r in results]
    numbers = all(isinstance(x, int | float | np.number) and not isinstance(x, bool) for r in listed for x in r)
    if not numbers or len({len(r) for r in listed}) != 1:
        return None
    return np.array(listed, dtype=np.float64)


def checked_confidence(confidence: float) -> float:
    """A confidence as a float.

    Raises:
        WorkloadError: it is no number above 0 and below 1.
    """
    real = isinstance(confidence, int | float | Fraction | np.floating) and not isinstance(confidence, bool)
    if not real or not 0 < float(confidence) < 1:
        raise WorkloadError(f"the confidence is {confidence!r}; it needs a number above 0 and below 1, such as 0.95")
    return float(confidence)


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
            f"a gain is a finite number for each of {n} results (rows) and every guess (columns); got the shape "
            f"{own.shape}. Nothing was computed."
        )
    return own


def _means(table: Floats, values: Floats) -> Floats:
    return np.asarray(np.einsum("io,io->i", table, values))
