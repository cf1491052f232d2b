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

What one guesses from an output is a *remap*: post-processing, free of charge (`fitnoise.mechanisms.finite.accuracy`).

Source: ElSalamouny, Chatzikokolakis, Palamidessi, POST 2013, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np
import numpy.typing as npt

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.designs._base import Door, unknown_result
from fitnoise.kernel.designs.weights import Weights, from_rows
from fitnoise.kernel.exact import Graph, exp_below, log_above, ratio_above_epsilon, rational


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
    - Rows have one sum, so that drawing (`fitnoise.kernel.noise.categorical`) takes as many random words for one result
      as for another, in law.
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
            raise PlanError(
                "weights-misfit-query",
                f"The weights have {rows} rows and {outputs} outputs, and the query has {self.graph.n} results.",
                "The weights need one row for each result, and each output needs an answer among the results.",
                "Give weights and answers for this query.",
                "No mechanism was made.",
            )
        ratio = self.largest_ratio
        if ratio is None or ratio > exp_below(self.epsilon):
            raise ratio_above_epsilon(self.epsilon, ratio)

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
    def even(self) -> bool:
        """Whether drawing takes as long for one result as for another: rows have one sum."""
        return True

    def anew(self, graph: Graph) -> FiniteMechanism:
        """The same integers on a graph, with nothing computed of them before.

        Args:
            graph: of as many results.
        """
        return replace(self, graph=graph, weights=replace(self.weights))

    def drawn(self, place: tuple[int, ...], door: Door) -> int:
        """One output for the true result at a place, from 0.

        Args:
            place: of the true result.
            door: where chance comes from.
        """
        return door.categorical(self.weights.row(place[0]))

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
            raise unknown_result("Nothing was drawn.")
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

    def read(self, output: int) -> object:
        """The result that an output is read as, a label.

        Args:
            output: from 0, as `drawn` has it.
        """
        return self.graph.results[int(self.answers[output])]


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
        raise WorkloadError(
            "answers-not-given",
            f"The weights have {outputs} outputs for {graph.n} results, and no answers are given.",
            "With more outputs than results, each output needs the result that it stands for.",
            "Give the result of each output in answers.",
            "No mechanism was made.",
        )
    read = np.arange(outputs) if answers is None else np.asarray(answers)
    return FiniteMechanism(graph, rational(epsilon), family, weights, read)
