"""Finite mechanisms without a table, for sums and counts with millions of results: construction and accuracy.

**Trust.** The proofs of privacy are in :mod:`fitnoise.kernel.designs.implicit_mechanisms` and `clamped`. A mistake here
costs accuracy only: the existence of tight constraints, the weights of the search, and the accuracy of the answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from scipy import fft

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.designs.clamped import ClampedMechanism
from fitnoise.kernel.designs.graphs import Box, QueryGraph
from fitnoise.kernel.designs.implicit_mechanisms import (
    WORD_BITS,
    EnclosedIntegers,
    ImplicitMechanism,
    alpha_just_above,
    checked_box,
    layers,
    one_side,
    row_sums,
)
from fitnoise.kernel.exact_powers import exp_below, rational
from fitnoise.mechanisms.finite.existence import (
    Verdict,
    certificate_contradicted,
    existence,
    tight_constraints_undecided,
    without_tight_constraints,
)
from fitnoise.mechanisms.finite.priors import checked_prior
from fitnoise.mechanisms.finite.similarity import Similarity
from fitnoise.request.targets import checked_confidence

BAND_LIMIT = 2**26
"""Most results times the step, on one axis: the solver for the weights needs about 2 GB at the limit."""

MARGIN_ERROR = 1e-12
"""Excess of a coverage over a confidence that is treated as a shortfall."""

_WEIGHT_BITS = 58

_ROUNDS = 4

_RESERVE = Fraction(1, 2**46)

_RESERVE_SLOW = Fraction(1, 2**55)
"""The amounts of ε reserved for the bounds of rows: the first, and the second divided by the smaller of ε and 1."""


@final
@dataclass(frozen=True, eq=False)
class BoxAccuracy:
    """The accuracy of a mechanism P(o | i) ∝ α^d(i,o) Z_o."""

    mechanism: ImplicitMechanism

    def hits(self) -> Floats:
        """Return the probability of the right answer for every result, (n,), each within a part of 10⁻¹³.

        It is Z_i / N_i, with the row sum N_i = Σ_o α^d(i,o) Z_o.
        """
        return np.asarray((self.mechanism.weights / self.mechanism.sums).ravel())

    def hit_rate(self, prior: npt.ArrayLike) -> float:
        """Return the probability of the right answer under a prior.

        Raises:
            WorkloadError: The prior is not valid.
        """
        return float(checked_prior(self.mechanism.graph.n, prior) @ self.hits())

    def absolute_errors(self) -> Floats:
        """Return E |answer − truth| for every result, (n,), in units of the axes; for several axes the sum over them.

        A Fourier transform computes it, with an error of about 10⁻¹² of the largest value.
        """
        return self._mean(np.abs)

    def squared_errors(self) -> Floats:
        """Return E (answer − truth)² for every result, (n,), in units of the axes; for several axes the sum."""
        return self._mean(np.square)

    def mae(self, prior: npt.ArrayLike) -> float:
        """Return the mean absolute error under a prior; for several axes the sum over them."""
        return float(checked_prior(self.mechanism.graph.n, prior) @ self.absolute_errors())

    def rmse(self, prior: npt.ArrayLike) -> float:
        """Return the root of the mean squared error under a prior."""
        return math.sqrt(checked_prior(self.mechanism.graph.n, prior) @ self.squared_errors())

    def _mean(self, error: Callable[[Integers], Integers]) -> Floats:
        """Return Σ_o α^d(i,o) Z_o Σ_k error(i_k − o_k) / N_i: a convolution, on a ring that is long enough."""
        sizes = [fft.next_fast_len(2 * s - 1, real=True) for s in self.mechanism.weights.shape]
        distances: Any = 0
        size: Any = 0
        for axis, (s, v) in enumerate(zip(sizes, self.mechanism.steps, strict=True)):
            axis_shape = [-1 if k == axis else 1 for k in range(len(sizes))]
            # Distances beyond half the ring are negative ones. The ring is long enough for both signs.
            differences = np.minimum(np.arange(s), s - np.arange(s)).reshape(axis_shape)
            distances = np.maximum(distances, -(-differences // v))
            size = size + error(differences)
        kernel = size * np.exp(math.log(self.mechanism.alpha) * distances)
        weights = self.mechanism.weights / float(self.mechanism.max_weight)
        convolved = fft.irfftn(fft.rfftn(kernel) * fft.rfftn(weights, sizes), sizes)
        inside = convolved[tuple(slice(s) for s in self.mechanism.weights.shape)]
        return np.asarray((inside / (self.mechanism.sums / float(self.mechanism.max_weight))).ravel())

    def posterior(self, prior: npt.ArrayLike, output: int) -> Floats:
        """Return P(i | o) of one output under a prior, (n,); zeros for an output that never occurs.

        Args:
            prior: π, (n,).
            output: The index of the output, from 0. A negative index counts from the end.

        Raises:
            WorkloadError: The prior is not valid.
            IndexError: There is no such output.
        """
        pi = checked_prior(self.mechanism.graph.n, prior)
        d = self.mechanism.box.distances_from(np.array([range(self.mechanism.graph.n)[output]]))[0]
        joint = (
            pi
            * np.exp(math.log(self.mechanism.alpha) * d)
            / self.mechanism.sums.ravel()
            * float(self.mechanism.weights.flat[output] > 0)
        )
        total = float(joint.sum())
        return np.asarray(joint / total if total > 0 else joint)

    def leakage(self, prior: npt.ArrayLike) -> float:
        """Return the min-entropy leakage about the result, in bits: log2(Σ_o max_i π_i P(o | i) / max π).

        The largest π_i α^d(i,o) / N_i of all i spread from neighbour to neighbour. The iteration ends when nothing
        changes, or when the changes are below a part of 10⁻¹⁸.

        Raises:
            WorkloadError: The prior is not valid.

        **Source.** Proposition 5.
        """
        # The import takes as long as a small plan.
        from scipy.ndimage import maximum_filter

        pi = checked_prior(self.mechanism.graph.n, prior)
        best = pi.reshape(self.mechanism.weights.shape) / (self.mechanism.sums / float(self.mechanism.max_weight))
        min_change, sizes = 1e-18 * float(best.max()), [2 * v + 1 for v in self.mechanism.steps]
        while True:
            wider = np.maximum(best, float(self.mechanism.alpha) * maximum_filter(best, size=sizes, mode="nearest"))
            changed = wider[wider > best]
            best = wider
            if not changed.size or float(changed.max()) < min_change:
                return math.log2(
                    float((best * (self.mechanism.weights / float(self.mechanism.max_weight))).sum() / pi.max())
                )

    def margin(self, confidence: float) -> int:
        """Return the smallest h such that the answer is within h of every truth with a probability of `confidence`.

        For several axes all of them are within h jointly: h is the largest of their errors. In units of the axes.

        Args:
            confidence: A number above 0 and below 1.

        Raises:
            WorkloadError: The confidence is out of range.

        **Guarantees**

        - P(|answer − truth| ≤ h | i) ≥ confidence for every result i. Rounding is on the safe side: h is the smallest
          one for some confidence that is larger by at most MARGIN_ERROR.
        """
        required = checked_confidence(confidence)
        box = self.mechanism.box
        missed = (
            _Tails(box, self.mechanism.alpha, self.mechanism.weights, self.mechanism.bounds)
            if len(box.shape) == 1
            else self._tail_bound
        )
        # No error exceeds `high`.
        low, high = -1, max(box.shape) - 1
        while high - low > 1:
            # Doubling first: margins are small, and a test of a large h takes longer.
            middle = min(2 * low + 2, (low + high) // 2)
            low, high = (low, middle) if missed(middle) + MARGIN_ERROR <= 1 - required else (middle, high)
        return high

    def _tail_bound(self, h: int) -> float:
        """Return an upper bound on the probability of an error above h on some axis."""
        inside, bounds = (
            layers(self.mechanism.box, self.mechanism.alpha, self.mechanism.weights, h),
            self.mechanism.bounds,
        )
        low = np.ldexp((inside.values - inside.off).astype(np.float64), -inside.unit)
        return float((1 - low / np.ldexp((bounds.values + bounds.off).astype(np.float64), -bounds.unit)).max())


@final
@dataclass(frozen=True, eq=False)
class _Tails:
    """The largest probability of an error above h, up to rounding of at most 10⁻¹⁴.

    Z_o are the weights of the only axis, with steps of v. With q = ⌊h/v⌋ and e = (q + 1) v, the sum of α^d(i,o) Z_o
    over all o > i + h is

    α^(q+1) (Z_{i+h+1} + … + Z_{i+e} + F_{i+e}),    F_j = Σ_{o > j} α^d(j,o) Z_o.
    """

    box: Box
    alpha: Fraction
    weights: Integers
    rows: EnclosedIntegers

    @cached_property
    def _sides(self) -> list[tuple[NDArray[np.uint64], Floats]]:
        """Sums of Z up to i, and F rounded up, from the left and from the right."""
        sides = []
        for weights in (self.weights, self.weights[::-1]):
            side = one_side(self.box, self.alpha, weights)
            above = np.ldexp((side.values + side.off).astype(np.float64), -side.unit)
            # Modulo 2⁶⁴: only differences over at most v weights are used, and these fit into a word.
            sides.append((np.cumsum(weights.astype(np.uint64), dtype=np.uint64), above))
        return sides

    def __call__(self, h: int) -> float:
        (n,), (v,) = self.box.shape, self.box.steps
        places = np.arange(n)
        steps = h // v + 1
        start, end = np.minimum(places + h, n - 1), places + steps * v
        sides = []
        for sums, above in self._sides:
            part = (sums[np.minimum(end, n - 1)] - sums[start]).astype(np.float64)
            sides.append(float(self.alpha) ** steps * (part + np.where(end < n, above[np.minimum(end, n - 1)], 0.0)))
        # Divided by the lower bounds of the row sums: the probability of an error is rounded up.
        low = np.ldexp((self.rows.values - self.rows.off).astype(np.float64), -self.rows.unit)
        return float(((sides[0] + sides[1][::-1]) / low).max())


@final
@dataclass(frozen=True, eq=False)
class StaircaseAccuracy:
    """The accuracy of clamped staircase noise, by sums over uniform noises (:mod:`fitnoise.kernel.designs.clamped`).

    mechanism: The mechanism.
    """

    mechanism: ClampedMechanism

    @cached_property
    def _series(self) -> Floats:
        """The probability of each single noise from the box of radius m steps, for every m: proportional to α^m."""
        m = np.arange(self.mechanism.terms)
        weights = np.exp(m * math.log(self.mechanism.alpha))
        return np.asarray(weights / (weights @ self._product(range(len(self.mechanism.steps)))))

    def _product(self, axes: range | list[int]) -> Floats:
        """Return Π (2 m v_k + 1) over some axes k of step v_k, for every m: the points of the box of radius m steps."""
        m = np.arange(self.mechanism.terms)
        out = np.ones(len(m))
        for k in axes:
            out = out * (2.0 * m * self.mechanism.steps[k] + 1)
        return out

    def _single(self, k: int) -> Floats:
        """Return P(x_k = t) of the noise x_k along one axis, (n_k,), for t from 0 to n_k − 1; it is symmetric."""
        rest = self._series * self._product([j for j in range(len(self.mechanism.steps)) if j != k])
        tails = np.append(np.cumsum(rest[::-1])[::-1], 0.0)
        t = np.arange(self.mechanism.shape[k])
        return np.asarray(tails[np.minimum(-(-t // self.mechanism.steps[k]), len(tails) - 1)])

    def hits(self) -> Floats:
        """Return the probability of the right answer for every result, (n,): larger at the ends, due to clamping."""
        m = np.arange(self.mechanism.terms)
        out = np.ones(())
        classes = [np.zeros(s, dtype=np.intp) for s in self.mechanism.shape]
        # An answer at an end collects all noise beyond: classes count the ends (0, 1, or 2 for an axis of one result).
        for ends_reached in classes:
            ends_reached[0] += 1
            ends_reached[-1] += 1
        by_ends = np.zeros([3] * len(self.mechanism.shape))
        for kinds in np.ndindex(*by_ends.shape):
            counts = np.ones(len(m))
            for k, ends in enumerate(kinds):
                counts = counts * (1.0, m * self.mechanism.steps[k] + 1.0, 2.0 * m * self.mechanism.steps[k] + 1)[ends]
            by_ends[kinds] = self._series @ counts
        out = by_ends[np.ix_(*classes)]
        return np.asarray(out.ravel())

    def hit_rate(self, prior: npt.ArrayLike) -> float:
        """Return the probability of the right answer under a prior."""
        return float(checked_prior(self.mechanism.graph.n, prior) @ self.hits())

    def margin(self, confidence: float) -> int:
        """Return h with P(every axis of the answer is within h of the truth | i) ≥ confidence for every result i.

        It is the smallest such h for the confidence plus MARGIN_ERROR, unless on some axis every result is within h of
        an end: clamping helps there, and a smaller h may do.

        Raises:
            WorkloadError: The confidence is not strictly between 0 and 1.
        """
        required = checked_confidence(confidence) + MARGIN_ERROR
        m = np.arange(self.mechanism.terms)

        def enough(h: int) -> bool:
            counts = np.ones(len(m))
            for v, size in zip(self.mechanism.steps, self.mechanism.shape, strict=True):
                counts = counts * (2.0 * np.minimum(m * v, h if h < size - 1 else m * v) + 1)
            return float(self._series @ counts) >= required

        low, high = -1, max(self.mechanism.shape) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def mae(self, prior: npt.ArrayLike) -> float:
        """Return the mean absolute error under a prior; for several axes the sum over them."""
        return self._mean(prior, lambda t: np.ones(len(t)))

    def rmse(self, prior: npt.ArrayLike) -> float:
        """Return the root of the mean squared error under a prior."""
        return math.sqrt(self._mean(prior, lambda t: 2.0 * t - 1))

    def _mean(self, prior: npt.ArrayLike, growth: Callable[[Floats], Floats]) -> float:
        """Return Σ_i π_i Σ_k E f(|clamped x_k|), f(0) = 0 and f(t) − f(t − 1) = growth(t)."""
        pi = checked_prior(self.mechanism.graph.n, prior).reshape(self.mechanism.shape)
        total = 0.0
        for k, size in enumerate(self.mechanism.shape):
            probabilities = self._single(k)
            # P(x ≥ t + 1), for t from 0.
            tails = 0.5 - probabilities[0] / 2 - np.append(0.0, np.cumsum(probabilities[1:]))
            t = np.arange(1.0, size)
            reach = np.append(0.0, np.cumsum(growth(t) * np.maximum(tails[: size - 1], 0)))
            marginal = pi.sum(axis=tuple(j for j in range(pi.ndim) if j != k))
            total += float(marginal @ (reach + reach[::-1]))
        return total

    def leakage(self, prior: npt.ArrayLike) -> float:
        """Return the min-entropy leakage about the result in bits, for the uniform prior: log2(n · hit rate).

        Raises:
            WorkloadError: The prior is not uniform.
        """
        pi = checked_prior(self.mechanism.graph.n, prior)
        if pi.max() - pi.min() > 1e-12 / self.mechanism.graph.n:
            raise WorkloadError(
                "leakage-needs-uniform-prior",
                f"The prior of the {self.mechanism.graph.n:,} results is not uniform.",
                "The leakage of this mechanism is computed for the uniform prior only.",
                "Give the uniform prior.",
                "Nothing was computed.",
            )
        return math.log2(float(self.hits().sum()))

    def posterior(self, prior: npt.ArrayLike, output: int) -> Floats:
        """Return P(i | o) of one output under a prior, (n,).

        Args:
            prior: π, (n,).
            output: The index of the output, from 0. A negative index counts from the end.

        Raises:
            WorkloadError: The prior is not valid.
            IndexError: There is no such output.
        """
        pi = checked_prior(self.mechanism.graph.n, prior)
        m = np.arange(self.mechanism.terms)
        # `unravel_index` refuses negative indices, and raises a bare ValueError for an output that does not exist.
        answer = np.unravel_index(range(self.mechanism.graph.n)[output], self.mechanism.shape)
        likelihood = np.zeros(self.mechanism.shape)
        for weight, n in zip(self._series.tolist(), m.tolist(), strict=True):
            counts = np.ones([1] * len(self.mechanism.shape))
            for k, (o, size) in enumerate(zip(answer, self.mechanism.shape, strict=True)):
                radius, i = n * self.mechanism.steps[k], np.arange(size)
                low = -radius if o == 0 else np.maximum(o - i, -radius)
                high = radius if o == size - 1 else np.minimum(o - i, radius)
                axis_shape = [1] * len(self.mechanism.shape)
                axis_shape[k] = size
                counts = counts * np.maximum(high - low + 1.0, 0.0).reshape(axis_shape)
            likelihood += weight * counts
        joint = pi * likelihood.ravel()
        return np.asarray(joint / joint.sum())


def lazy_tight_constraints(graph: QueryGraph, epsilon: float | Fraction) -> ImplicitMechanism:
    """Return the mechanism of tight constraints on a box of up to RESULTS_LIMIT results, without a table.

    It is constructed for an ε′ below ε, for which existence is decided; privacy is proven for ε. The difference is
    about 10⁻¹⁴ from ε = 0.1 on, and 3·10⁻¹¹ at the least ε.

    Args:
        graph: The graph of a sum, of independent counts, or of another box.
        epsilon: The ε of the mechanism.

    Returns:
        The mechanism; draw with `fitnoise.kernel.choices.by_distance`.

    Raises:
        PlanError: The results are not a box, or too many. Or results times steps exceed BAND_LIMIT on a single axis on
            which one step does not reach all results.
            The mechanism does not exist at ε′, or no proof decides its existence. A weight is too close to 0.
            Privacy is not proven, or a draw would take too many attempts.
        WorkloadError: ε is out of range.

    **Guarantees**

    - The mechanism is ε-private, exactly. For the ε of the tests, its probabilities differ from those of
      `tight_constraints` by at most 1e-12, in absolute size.
    - No weight that is proven negative is set to 0.

    **Source.** Definition 7, section 5.
    """
    exact = rational(epsilon)
    # Privacy is proven with bounds of the rounded rows, and these need some room below ε.
    inner = exact - _RESERVE - _RESERVE_SLOW / min(exact, Fraction(1))
    alpha = alpha_just_above(inner)
    box = checked_box(graph, alpha)
    bits = _WEIGHT_BITS
    if len(box.shape) == 1:
        v = box.steps[0]
        # Sums of v weights must fit into a word.
        bits = min(bits, WORD_BITS - 1 - v.bit_length())
        if v < box.n - 1 and v * box.n > BAND_LIMIT:
            raise PlanError(
                "results-times-steps-too-large",
                f"The question has {box.n} results in steps of {v}.",
                f"Results times steps may be at most {BAND_LIMIT}.",
                "Choose a coarser question.",
                "No mechanism was made.",
            )
    z = _existing(graph, inner)
    weights = _wholes(z, bits)
    # Rounding to integers changes the row sums; each round corrects the weights by the remaining residual.
    for _ in range(_ROUNDS):
        rows = row_sums(box, alpha, weights)
        # Between neighbours, probabilities differ by α and by the ratio of their row sums.
        ratio = rows.ratio_bound
        if ratio is not None and ratio / alpha <= exp_below(exact):
            break
        unit = float(weights.max()) / float(z.max())
        z = z + Similarity(graph, inner).solve(1 - rows.floats.ravel() / unit)
        if z.min() < 0:
            raise PlanError(
                "weight-close-to-zero",
                f"At ε = {float(exact):.6g}, a weight of the tight-constraints mechanism is too close to 0 "
                "for floating point.",
                "",
                "Choose a larger ε or, for up to 4,096 results, the residual-column mechanism, which exists for every "
                "ε.",
                "No mechanism was made.",
            )
        weights = _wholes(z, bits)
    return ImplicitMechanism(graph, exact, "tight constraints", alpha, weights.reshape(box.shape))


def _existing(graph: QueryGraph, epsilon: Fraction) -> Floats:
    """Return a z ≥ 0 with Φ z = 1 up to rounding, or raise with the reason against one."""
    decision = existence(graph, epsilon)
    z = decision.weights
    if decision.verdict is Verdict.NO:
        raise without_tight_constraints(epsilon, None if z is None else float(z.min()))
    if decision.verdict is Verdict.UNDECIDED or z is None:
        raise tight_constraints_undecided(epsilon, decision.reason)
    # An entry that is proven to be at least 0 may be computed as less, by its error. It is then set to 0, within that
    # error.
    z = np.where((z < 0) & (z >= -decision.radius), 0.0, z)
    if z.min() < 0:
        raise certificate_contradicted()
    return np.asarray(z, dtype=np.float64)


def _wholes(z: Floats, bits: int) -> Integers:
    """Return integers in proportion to z, the largest of them 2^bits."""
    return np.asarray(np.rint(np.ldexp(z / z.max(), bits)), dtype=np.int64)


def clamped_staircase(graph: QueryGraph, epsilon: float | Fraction) -> ClampedMechanism:
    """Return staircase noise for a box of up to RESULTS_LIMIT results, at every ε for which errors can be summed.

    Raises:
        PlanError: The results are not a box, or too many, or ε is too small.
        WorkloadError: ε is out of range.
    """
    exact = rational(epsilon)
    return ClampedMechanism(graph, exact, alpha_just_above(exact))
