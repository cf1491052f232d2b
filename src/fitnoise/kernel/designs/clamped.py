"""Staircase noise without a table: for sums and counts with millions of results, at every ε.

Noise x on whole points, P(x) = α^d(0,x) / T with d(0, x) = max_k ⌈|x_k|/v_k⌉ and T = Σ_x α^d(0,x), is added to the true
result, and the sum clamped to the box of the results. Along an edge d changes by at most 1, so no probability changes
by more than the factor 1/α ≤ e^ε, and clamping is free. It is what tight constraints are away from the ends of a long
range, and exists where they do not.

With α^d = (1 − α) Σ_{m ≥ d} α^m the noise is a mixture of uniform noises on the boxes |x_k| ≤ m v_k:

    P(x_k ∈ I_k for all k) = (1 − α) Σ_m α^m Π_k |I_k ∩ [−m v_k, m v_k]| / T,    T = (1 − α) Σ_m α^m Π_k (2 m v_k + 1).

All that is said of errors comes from such sums, cut off where the terms no longer count. Drawing is
`fitnoise.kernel.noise.clamped`, exact.

Source: Geng and Viswanath, "The optimal mechanism in differential privacy", 2014, for one axis with r = 1.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

import numpy as np

from fitnoise.errors import PlanError
from fitnoise.kernel.designs._base import Door
from fitnoise.kernel.designs.graphs import Box, QueryGraph
from fitnoise.kernel.designs.lazy import RESULTS_LIMIT, checked_alpha, place_of
from fitnoise.kernel.exact import exp_below, log_above, rational

TAIL = 45.0
"""Terms are left out where α^m is below e^−45."""

TERMS_LIMIT, WORK_LIMIT = 2**20, 2**32
"""Most terms, which is ε of 2⁻¹⁴ and more; and most terms times results of an axis."""


@final
@dataclass(frozen=True, eq=False)
class ClampedMechanism:
    """The true result plus staircase noise, clamped.

    Attributes:
        graph: the graph of the query; its results are a box.
        epsilon: ε that was asked for, exactly.
        alpha: α, a multiple of 2⁻⁶², 1/α ≤ e^ε.

    Raises:
        PlanError: the results are no box, or too many; ε is too small for its errors to be summed up; α is none, or
            **1/α is not proven to be at most e^ε**.
        WorkloadError: ε is no number of its range.

    **Guarantees**

    - ε-differentially private for neighbours joined by an edge, exactly, and so for every table of noise below: nothing
      of what is computed here in floating point is used in drawing.
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
        if 1 / self.alpha > exp_below(self.epsilon):
            raise PlanError(
                "alpha-above-epsilon",
                "The factor 1/α of the mechanism is not proven to be at most e^ε.",
                "",
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
        """Results on every axis."""
        return self._box.shape

    @property
    def steps(self) -> tuple[int, ...]:
        """v: by how much one record can move every axis."""
        return self._box.steps

    def log_ratio(self) -> Fraction:
        """What one answer costs: at least log(1/α), and at most ε."""
        return min(self.epsilon, log_above(1 / self.alpha))

    @property
    def even(self) -> bool:
        """Whether drawing takes as long for one result as for another: the noise does not know it."""
        return True

    def anew(self, graph: QueryGraph) -> ClampedMechanism:
        """The same numbers on a graph, with nothing computed of them before.

        Args:
            graph: of as many results.
        """
        return replace(self, graph=graph)

    def drawn(self, place: tuple[int, ...], door: Door) -> int:
        """One output for the true result at a place, from 0.

        Args:
            place: of the true result.
            door: where chance comes from.
        """
        return int(np.ravel_multi_index(door.clamped(self.alpha, self.steps, self.shape, place), self.shape))

    @property
    def outputs(self) -> int:
        """How many outputs there are."""
        return self.graph.n

    def place(self, result: Hashable) -> tuple[int, ...]:
        """Where a label is in the box, one number for every axis.

        Raises:
            WorkloadError: the query has no such result. The message does not say which was given.
        """
        return place_of(self.graph, self.shape, result)

    def read(self, output: int) -> object:
        """The result of an output, a label.

        Args:
            output: from 0, as `drawn` has it.
        """
        return self.graph.results[output]

    @property
    def terms(self) -> int:
        """How many terms of a sum over m count: 1/α decides."""
        return math.ceil(TAIL / -math.log(self.alpha)) + 2
