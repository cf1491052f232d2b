"""Staircase noise without a table: for sums and counts with millions of results, at every ε.

Noise x on whole points, P(x) = α^d(0,x) / T with d(0, x) = max_k ⌈|x_k|/v_k⌉ and T = Σ_x α^d(0,x), is added to the true
result, and the sum clamped to the box of the results. Along an edge d changes by at most 1, so no probability changes
by more than the factor 1/α ≤ e^ε, and clamping is free. It is what tight constraints are away from the ends of a long
range, and exists where they do not.

With α^d = (1 − α) Σ_{m ≥ d} α^m the noise is a mixture of uniform noises on the boxes |x_k| ≤ m v_k:

    P(x_k ∈ I_k for all k) = (1 − α) Σ_m α^m Π_k |I_k ∩ [−m v_k, m v_k]| / T,    T = (1 − α) Σ_m α^m Π_k (2 m v_k + 1).

All that is said of errors comes from such sums, cut off where the terms no longer count. Drawing is
`fitnoise.noise.clamped`, exact.

Source: Geng and Viswanath, "The optimal mechanism in differential privacy", 2014, for one axis with r = 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np
import numpy.typing as npt

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.finite.exact import Floats, exp_below, log_above, rational
from fitnoise.finite.graphs import Box, QueryGraph
from fitnoise.finite.lazy import MARGIN_ERROR, RESULTS_LIMIT, alpha_just_above, checked_alpha, place_of
from fitnoise.finite.mechanisms import checked_confidence
from fitnoise.finite.priors import checked_prior

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
                f"staircase noise is added to the results of a box, at most {RESULTS_LIMIT:,} of them: sums, and "
                "counts that do not restrict each other. No mechanism was made."
            )
        if 1 / self.alpha > exp_below(self.epsilon):
            raise PlanError("1/α is not proven to be at most e^ε; no mechanism was made")
        longest = max(self._box.shape)
        if self._terms > TERMS_LIMIT or self._terms * longest > WORK_LIMIT:
            raise PlanError(
                f"ε = {float(self.epsilon):.3g} is too small for noise on {longest:,} results: its errors would take "
                "too long to sum up. Take a larger ε, or ask a coarser question. No mechanism was made."
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
        """The result of an output, a label."""
        return self.graph.results[output]

    # --- How good it is -----------------------------------------------------------------------------------

    @property
    def _terms(self) -> int:
        return math.ceil(TAIL / -math.log(self.alpha)) + 2

    @cached_property
    def _series(self) -> Floats:
        """(1 − α) α^m / T for every m."""
        m = np.arange(self._terms)
        weights = np.exp(m * math.log(self.alpha))
        return np.asarray(weights / (weights @ self._product(range(len(self.steps)))))

    def _product(self, axes: range | list[int]) -> Floats:
        """Π (2 m v_k + 1) over some axes, for every m."""
        m = np.arange(self._terms)
        out = np.ones(len(m))
        for k in axes:
            out = out * (2.0 * m * self.steps[k] + 1)
        return out

    def _single(self, k: int) -> Floats:
        """P(|x_k| = t) / (1 if t = 0 else 2) of one axis, t = 0 …, as far as its results go."""
        rest = self._series * self._product([j for j in range(len(self.steps)) if j != k])
        tails = np.append(np.cumsum(rest[::-1])[::-1], 0.0)
        t = np.arange(self.shape[k])
        return np.asarray(tails[np.minimum(-(-t // self.steps[k]), len(tails) - 1)])

    def hits(self) -> Floats:
        """The probability of the right answer for every result, (n,): larger at the ends, which gather."""
        m = np.arange(self._terms)
        out = np.ones(())
        classes = [np.zeros(s, dtype=np.intp) for s in self.shape]
        for own in classes:
            own[0] += 1
            own[-1] += 1
        found = np.zeros([3] * len(self.shape))
        for kinds in np.ndindex(*found.shape):
            counts = np.ones(len(m))
            for k, ends in enumerate(kinds):
                counts = counts * (1.0, m * self.steps[k] + 1.0, 2.0 * m * self.steps[k] + 1)[ends]
            found[kinds] = self._series @ counts
        out = found[np.ix_(*classes)]
        return np.asarray(out.ravel())

    def hit_rate(self, prior: npt.ArrayLike) -> float:
        """The probability of the right answer under a prior."""
        return float(checked_prior(self.graph.n, prior) @ self.hits())

    def margin(self, confidence: float) -> int:
        """An h such that P(every axis of the answer is within h of the truth | i) ≥ confidence for every result i.

        The smallest, unless every result is within h of an end of its range; clamping helps there.

        Raises:
            WorkloadError: the confidence is not strictly between 0 and 1.
        """
        wanted = checked_confidence(confidence) + MARGIN_ERROR
        m = np.arange(self._terms)

        def enough(h: int) -> bool:
            counts = np.ones(len(m))
            for v, size in zip(self.steps, self.shape, strict=True):
                counts = counts * (2.0 * np.minimum(m * v, h if h < size - 1 else m * v) + 1)
            return float(self._series @ counts) >= wanted

        low, high = -1, max(self.shape) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def mae(self, prior: npt.ArrayLike) -> float:
        """The mean absolute error under a prior; for several axes the sum over them."""
        return self._mean(prior, lambda t: np.ones(len(t)))

    def rmse(self, prior: npt.ArrayLike) -> float:
        """The root of the mean squared error under a prior."""
        return math.sqrt(self._mean(prior, lambda t: 2.0 * t - 1))

    def _mean(self, prior: npt.ArrayLike, growth: Callable[[Floats], Floats]) -> float:
        """Σ_i π_i Σ_k E f(|clamped x_k|), f(0) = 0 and f(t) − f(t − 1) = growth(t)."""
        pi = checked_prior(self.graph.n, prior).reshape(self.shape)
        total = 0.0
        for k, size in enumerate(self.shape):
            own = self._single(k)
            beyond = 0.5 - own[0] / 2 - np.append(0.0, np.cumsum(own[1:]))  # P(x ≥ t + 1), t = 0 …
            t = np.arange(1.0, size)
            reach = np.append(0.0, np.cumsum(growth(t) * np.maximum(beyond[: size - 1], 0)))
            marginal = pi.sum(axis=tuple(j for j in range(pi.ndim) if j != k))
            total += float(marginal @ (reach + reach[::-1]))
        return total

    def leakage(self, prior: npt.ArrayLike) -> float:
        """Min-entropy leakage about the result in bits, where all results are equally likely: log2(n · hit rate).

        Raises:
            WorkloadError: the prior is another.
        """
        pi = checked_prior(self.graph.n, prior)
        if pi.max() - pi.min() > 1e-12 / self.graph.n:
            raise WorkloadError(
                f"for noise on {self.graph.n:,} results leakage is told where all are equally likely, and for no other "
                "prior. Nothing was computed."
            )
        return math.log2(float(self.hits().sum()))

    def posterior(self, prior: npt.ArrayLike, output: int) -> Floats:
        """P(i | o) of one output under a prior, (n,)."""
        pi = checked_prior(self.graph.n, prior)
        m = np.arange(self._terms)
        at = np.unravel_index(output, self.shape)
        chance = np.zeros(self.shape)
        for weight, n in zip(self._series.tolist(), m.tolist(), strict=True):
            counts = np.ones([1] * len(self.shape))
            for k, (o, size) in enumerate(zip(at, self.shape, strict=True)):
                radius, i = n * self.steps[k], np.arange(size)
                low = -radius if o == 0 else np.maximum(o - i, -radius)
                high = radius if o == size - 1 else np.minimum(o - i, radius)
                spread = [1] * len(self.shape)
                spread[k] = size
                counts = counts * np.maximum(high - low + 1.0, 0.0).reshape(spread)
            chance += weight * counts
        joint = pi * chance.ravel()
        return np.asarray(joint / joint.sum())


def clamped_staircase(graph: QueryGraph, epsilon: float | Fraction) -> ClampedMechanism:
    """Staircase noise for a box of up to RESULTS_LIMIT results, at every ε whose errors can be summed up.

    Raises:
        PlanError: the results are no box, or too many, or ε is too small.
        WorkloadError: ε is no number of its range.
    """
    exact = rational(epsilon)
    return ClampedMechanism(graph, exact, alpha_just_above(exact))
