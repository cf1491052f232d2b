"""Define staircase noise without a table: for sums and counts with millions of results, at every ε.

**Law.** The noise x on integer points has P(x) = α^d(0,x) / T with d(0, x) = max_k ⌈|x_k|/v_k⌉ and T = Σ_x α^d(0,x).
v_k is the largest change of coordinate k by one record. The noise is added to the true result, and the sum is clamped
to the box of the results.

**Privacy.** Along an edge d changes by at most 1, so no probability changes by more than the factor 1/α ≤ e^ε. Clamping
is free. Away from the ends of a long range this is the mechanism of tight constraints, and it exists where that one
does not.

**Errors.** With α^d = (1 − α) Σ_{m ≥ d} α^m the noise is a mixture of uniform noises on the boxes |x_k| ≤ m v_k:

    P(x_k ∈ I_k for all k) = (1 − α) Σ_m α^m Π_k |I_k ∩ [−m v_k, m v_k]| / T.

Here T = (1 − α) Σ_m α^m Π_k (2 m v_k + 1). All statements about errors come from such sums, cut off
where the terms no longer count. Drawing is `fitnoise.kernel.choices.clamped`, exact.

**Source.** Geng and Viswanath, "The optimal mechanism in differential privacy", 2014, for one axis with r = 1.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.choices import clamped
from fitnoise.kernel.designs._base import NoiseSource
from fitnoise.kernel.designs.graphs import Box, QueryGraph
from fitnoise.kernel.designs.implicit_mechanisms import RESULTS_LIMIT, checked_alpha, place_of
from fitnoise.kernel.exact_powers import exp_below, log_above, rational

MAX_EXPONENT = 45.0
"""The exponent beyond which terms are left out: those with α^m below e^−45."""

TERMS_LIMIT, WORK_LIMIT = 2**20, 2**32
"""The largest number of terms, which allows ε of 2⁻¹⁴ and more; and the largest number of terms times results of an
axis.
"""


@final
@dataclass(frozen=True, eq=False)
class ClampedMechanism:
    """The true result plus staircase noise, clamped.

    Attributes:
        graph: The graph of the query; its results are a box.
        epsilon: The exact requested ε.
        alpha: α, a multiple of 2⁻⁶², 1/α ≤ e^ε.
        family: The name of the kind of mechanism.

    Raises:
        PlanError: The results are not a box, or too many. ε is too small to add up the errors. α is invalid, or **1/α
            is not proven to be at most e^ε**.
        WorkloadError: ε is not a number in its range.

    **Guarantees**

    - The mechanism is ε-differentially private for neighbours joined by an edge, exactly. No floating-point result of
      this module enters a draw.
    - Outputs are results; every output is read as itself.
    """

    graph: QueryGraph
    epsilon: Fraction
    alpha: Fraction
    family: str = "staircase"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", rational(self.epsilon))
        object.__setattr__(self, "alpha", checked_alpha(self.alpha))
        if not isinstance(self.graph.structure, Box) or self.graph.n > RESULTS_LIMIT:
            raise PlanError(
                "staircase-needs-box",
                f"The results of the query are not a box of at most {RESULTS_LIMIT:,} results.",
                "Staircase noise needs a box: a sum, or counts that do not restrict each other.",
                "Choose another mechanism, or ask a coarser query.",
                "No mechanism was made.",
            )
        # Compared in fractions with a lower bound of e^ε: no rounding can let a larger ratio pass.
        if 1 / self.alpha > exp_below(self.epsilon):
            raise PlanError(
                "alpha-above-epsilon",
                "The factor 1/α of the mechanism is not proven to be at most e^ε.",
                "Neighbouring results may differ by a factor of e^ε.",
                "Choose a larger α, or make the plan again.",
                "No mechanism was made.",
            )
        longest = max(self._box.shape)
        if self.terms > TERMS_LIMIT or self.terms * longest > WORK_LIMIT:
            raise PlanError(
                "epsilon-too-small-for-staircase",
                f"ε = {float(self.epsilon):.3g} is too small for noise on {longest:,} results.",
                "Summing the errors of the mechanism would take too long.",
                "Take a larger ε, or ask a coarser question.",
                "No mechanism was made.",
            )

    @property
    def _box(self) -> Box:
        assert isinstance(self.graph.structure, Box)  # noqa: S101 - refused when made
        return self.graph.structure

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of results on every axis."""
        return self._box.shape

    @property
    def steps(self) -> tuple[int, ...]:
        """The largest steps v by which one record can move each axis."""
        return self._box.steps

    def log_ratio(self) -> Fraction:
        """Return the cost of one answer: at least log(1/α), and at most ε."""
        # Both are upper bounds: the constructor proved 1/α ≤ e^ε, and `log_above` rounds up.
        return min(self.epsilon, log_above(1 / self.alpha))

    @property
    def is_constant_time(self) -> bool:
        """True: the noise, and so the number of random words of a draw, has one law for all results."""
        return True

    def on_graph(self, graph: QueryGraph) -> ClampedMechanism:
        """Return these numbers on a graph, without cached results.

        Args:
            graph: A graph with as many results.
        """
        return replace(self, graph=graph)

    def draw_output(self, point: tuple[int, ...], noise: NoiseSource) -> int:
        """Return one output, as a position from 0, for the true result at a place.

        Args:
            point: The place of the true result.
            noise: The source of noise.
        """
        return int(np.ravel_multi_index(noise.choose(clamped, self.alpha, self.steps, self.shape, point), self.shape))

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.graph.n

    def index_of(self, result: Hashable) -> tuple[int, ...]:
        """Return the position of a label in the box, one number for every axis.

        Raises:
            WorkloadError: The query has no such result. The message does not give the label.
        """
        return place_of(self.graph, self.shape, result)

    def read(self, output: int) -> object:
        """Return the result of an output, a label.

        Args:
            output: The output, from 0, as `draw_output` returns it.
        """
        return self.graph.results[output]

    @property
    def terms(self) -> int:
        """The number of terms that count in a sum over m; it follows from 1/α."""
        # α is at most 1 − 2⁻⁴⁰ (`checked_alpha`), so its logarithm is not 0 as a float.
        return math.ceil(MAX_EXPONENT / -math.log(self.alpha)) + 2
