r"""Define mechanisms with finitely many results and outputs: a table of exact probabilities, and its privacy cost.

A *result* i is a possible true answer of the query, and an *output* o is a value that the mechanism publishes. A
mechanism gives result i the output o with probability P(o | i) = w_io / N, integers with one row sum N. It is
ε-differentially private for the query graph iff P(o | i) ≤ e^ε P(o | j) for all edges i, j and all outputs o. The
module tests a stronger condition in integers when the mechanism is made: no ratio exceeds `exp_below(ε)`, a rational
just below e^ε. It refuses every other table, also one with a ratio between the two.

| symbol | meaning |
|---|---|
| α | e^−ε |
| d(i,k) | steps from result i to result k in the graph |
| Φ | matrix of all pairs of results, Φ_ik = α^d(i,k) |
| z_k, d_k | coefficient of column k, at least 0; z solves Φ z = 1, the vector of ones; a solver chooses d_k |
| κ | base of the kernel, from e^−ε to e^(−ε/2) |
| ε-regular prior | prior π with π = y Φ for some y ≥ 0 |

| made by | table | for |
|---|---|---|
| `tight_constraints` | α^d(i,k) z_k, Φ z = 1 | graphs where z ≥ 0; the best hit rate for every ε-regular prior |
| `residual_column` | α^d(i,k) d_k, and one output more for the rest | every graph, ε, prior; hit rate near its bound |
| `staircase` | noise ∝ α^⌈\|x\|/v⌉, clamped | integers, tuples of them |
| `geometric` | noise ∝ e^(−ε\|x\|/v) on each component, clamped | integers, tuples of them; usual for a count |
| `distance_kernel` | ∝ κ^d(i,o), the smallest private κ found | every connected graph |
| `randomised_response` | the truth, or any other result | every graph; the best one on complete graphs |
| `optimal` | a linear program in n × outputs variables | up to 100 results, any gain |

`residual_column` needs at most 1000 classes of results that graph and prior do not distinguish. For `staircase`, |x|
is the largest component of the noise, and v the largest change of one component along an edge. For `geometric`, the
noise of each component x is independent, and v is the largest sum of the changes of all components along an edge.

The guess that a reader makes from an output is a *remap*: post-processing, free of charge
(`fitnoise.mechanisms.finite.accuracy`).

**Source.** ElSalamouny, Chatzikokolakis, Palamidessi, POST 2013, section 2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.choices import categorical
from fitnoise.kernel.designs._base import NoiseSource
from fitnoise.kernel.designs.graphs import unknown_result
from fitnoise.kernel.designs.weights import IntegerWeights
from fitnoise.kernel.exact_powers import Graph, exp_below, log_above, ratio_above_epsilon, rational


@final
@dataclass(frozen=True, eq=False)
class FiniteMechanism:
    """A randomised answer, as exact probabilities.

    Attributes:
        graph: The graph of the query; its edges join the results whose rows must be ε-close.
        epsilon: The exact requested ε.
        family: The name of the kind of mechanism.
        weights: The integers in proportion to which outputs are drawn, (n, n_out); they have one sum in all rows.
        answers: The position of the result that each output is read as without a remap, (n_out,).

    Raises:
        PlanError: Weights and graph do not fit, or **the ratio of two neighbouring rows is not proven to be at most
            e^ε**.
        WorkloadError: ε is not a number in its range.

    **Guarantees**

    - The mechanism is ε-differentially private for neighbours joined by an edge, exactly. This is proven in integers
      when it is made, with a rational below e^ε. No float is in the proof.
    - Rows have one sum. So the number of random words of a draw (`fitnoise.kernel.choices.categorical`) has one law for
      all results.
    """

    graph: Graph
    epsilon: Fraction
    family: str
    weights: IntegerWeights
    answers: Integers

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", rational(self.epsilon))
        # A read-only copy: the caller could change the array after the proof.
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
        # A rational just below e^ε, so that integers prove it. A ratio between the two is refused as well.
        if ratio is None or ratio > exp_below(self.epsilon):
            raise ratio_above_epsilon(self.epsilon, ratio)

    @cached_property
    def largest_ratio(self) -> Fraction | None:
        """The exact largest P(o | i) / P(o | j) over edges and outputs; None if no number bounds it."""
        return self.weights.largest_ratio(np.asarray(self.graph.edges))

    @cached_property
    def _charge(self) -> Fraction:
        ratio = self.largest_ratio
        assert ratio is not None  # noqa: S101 - refused when made
        return min(self.epsilon, log_above(ratio))

    def log_ratio(self) -> Fraction:
        """Return the cost of one answer: at least the largest log P(o | i) / P(o | j), and at most ε.

        **Guarantees**

        - e to the power of the cost is proven to be at least the exact ratio of integers.
        - The cost is above the logarithm of the ratio by some 10⁻¹⁵ relative at most.
        """
        return self._charge

    @property
    def is_constant_time(self) -> bool:
        """True: rows have one sum, so that the number of random words of a draw has one law for all results."""
        return True

    def on_graph(self, graph: Graph) -> FiniteMechanism:
        """Return these integers on a graph, without cached results.

        Args:
            graph: A graph with as many results.

        Raises:
            PlanError: The integers are not proven private on this graph.
        """
        # The weights hold computed sums, so they too are replaced by a copy that computes and checks them again.
        return replace(self, graph=graph, weights=replace(self.weights))

    def draw_output(self, point: tuple[int, ...], noise: NoiseSource) -> int:
        """Return one output, as a position from 0, for the true result at a place.

        Args:
            point: The place of the true result, one position in a tuple.
            noise: The source of noise.
        """
        return noise.choose(categorical, self.weights.row(point[0]))

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return len(self.answers)

    def row(self, result: object) -> tuple[int, ...]:
        """Return the integers in proportion to which outputs are drawn for the true answer `result`, a label.

        The position of the label is looked up, not searched for. The integers of a row are multiplied at the call, and
        differ in length. The nanoseconds that this takes are not hidden.

        Raises:
            WorkloadError: The query has no such result. The message does not give the label.
        """
        return self.weights.row(self.index_of(result))

    def index_of(self, result: object) -> int:
        """Return the position of a label.

        Raises:
            WorkloadError: The query has no such result. The message does not give the label.
        """
        try:
            i = self._places[result]
        except (KeyError, TypeError):
            i = -1
        if i < 0:  # Raised outside the handler: the earlier error names the label, and is not kept.
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
        """Return P(o | i), (n, outputs), read-only; each within a part of 2⁻⁵⁰ of the exact one."""
        return self._table

    def read(self, output: int) -> object:
        """Return the result that an output is read as, a label.

        Args:
            output: The output, from 0, as `draw_output` returns it.
        """
        return self.graph.results[int(self.answers[output])]
