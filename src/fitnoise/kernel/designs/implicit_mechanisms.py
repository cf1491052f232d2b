"""Define the mechanism of tight constraints without a table: for sums and counts with millions of results.

The results form a box, as those of sums and of independent counts do (:mod:`fitnoise.kernel.designs.graphs`). A
mechanism is a rational α, and one integer Z_o ≥ 0 for every result, with

    P(o | i) = α^d(i,o) Z_o / N_i,    N_i = Σ_o α^d(i,o) Z_o.

d(i,o) = max_k ⌈|i_k − o_k|/v_k⌉ is the distance in the graph, and v_k the largest change of coordinate k by one record.

**Privacy.** Neighbours i and j have |d(i,o) − d(j,o)| ≤ 1 for every o. So for any Z

    P(o | i) / P(o | j) = α^(d(i,o) − d(j,o)) N_j / N_i ≤ (1/α) · max N / min N.

If Φ Z is constant, where Φ_io = α^d(i,o), the last factor is 1. The module does not trust this: it bounds all N_i, in
integers, when a mechanism is made. α = A/2^62 is slightly above e^−ε, by the width of the bounds: some 10⁻¹⁴ of ε.

**Bounds of N, one axis.** N_i = Z_i + F_i + G_i, where F collects the terms right of i, and G the terms left of i. With
v the step, W_i = Z_{i+1} + … + Z_{i+v} and F = 0 beyond the end,

    F_i = α (W_i + F_{i+v}).

For any F̃ let ρ be the largest |F̃_i − α (W_i + F̃_{i+v})|. Then |F̃ − F| ≤ ρ/(1 − α), by induction from the end. F̃
comes from floating point, ρ from integers: the bound holds for every F̃.

**Bounds of N, several axes.** α^d = (1 − α) Σ_{m ≥ d} α^m, so N_i = (1 − α) Σ_m α^m S_m(i). S_m(i) is the sum of Z over
the points that are within m steps on every axis. It is computed as differences of sums along the axes, in integers.
Products are rounded down, and the cut parts are added to the bound. So are the terms after the last.

**Drawing** is `fitnoise.kernel.choices.by_distance`, by rejection: no row is ever formed. A try succeeds with
probability N_i / (T max Z), T = Σ_x α^d(0,x) over all integer points x. Of two results the larger probability is at
most max N / min N times the other. If Φ Z is constant, this factor is proven to be 1 except for some 10⁻¹⁴. Then the
number of tries reveals nothing about i beyond this (`is_constant_time`). A question takes no mechanism for which that
is False.

**Source.** ElSalamouny, Chatzikokolakis, Palamidessi, POST 2013, definition 7. The form without a table is of this
project.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.choices import by_distance
from fitnoise.kernel.designs._base import NoiseSource
from fitnoise.kernel.designs.graphs import Box, QueryGraph, unknown_result
from fitnoise.kernel.exact_powers import exp_below, exp_bounds, log_above, ratio_above_epsilon, rational

RESULTS_LIMIT = 2**22
"""The largest number of results of a mechanism without a table."""

WORK_LIMIT = 2**28
"""The largest number of results times layers with several axes: some ten seconds."""

TRIES_LIMIT = 1000
"""The largest average number of tries of one answer."""

MAX_ROW_SUM_RATIO = 1 + Fraction(1, 2**30)
"""The largest ratio of row sums, and so of the average numbers of tries of two results, for which
`is_constant_time` is True."""

# 1 − α stays far above 2⁻⁵³, the rounding of a double, and above 2⁻⁶², the unit of α.
MAX_ALPHA = 1 - Fraction(1, 2**40)

ALPHA_BITS = 62
"""The number of bits of α, a multiple of 2⁻⁶²: one random word decides an event of probability α."""

WORD_BITS = 62
"""The number of bits of integers that are multiplied: they stay below 2^62."""

# Products of two halves of 31 bits, and the sums of them in `_product`, fit in int64.
_HALF = 31

_POWER_BITS = 256
"""The number of bits of powers of α, which are multiples of 2^−256."""

_MAX_LAYER_ERROR = 2**32
"""A bound on the error of the weight of a layer, in units of 2^−256."""

_LAYER_CUTOFF_BITS = 62
"""The depth of layers: they end where all that follow are a part of 2^−62."""

_DEEPEST = 100.0
"""A bound on the logarithm of 2^62 times the number of results."""

_NOTHING = 2.0**-200
"""The weight from which on `discounted` leaves terms out, relative to the largest value."""


@final
@dataclass(frozen=True, eq=False)
class ImplicitMechanism:
    """A randomised answer P(o | i) ∝ α^d(i,o) Z_o, whose rows are never formed.

    Attributes:
        graph: The graph of the query; its results are a box.
        epsilon: The exact requested ε.
        family: The name of the kind of mechanism.
        alpha: α, a multiple of 2⁻⁶².
        weights: Z, int64, of the shape of the box, read-only. Its unit does not matter.

    Raises:
        PlanError: The results are not a box, or too many. α or the weights are invalid. The average number of tries of
            a draw exceeds TRIES_LIMIT for some result. Or **the ratio of two neighbouring rows is not proven to be at
            most e^ε**.
        WorkloadError: ε is not a number in its range.

    **Guarantees**

    - The mechanism is ε-differentially private for neighbours joined by an edge, exactly. This is proven when it is
      made, in integers, with a rational below e^ε. No float is in the proof.
    - Outputs are results; every output is read as itself.
    """

    graph: QueryGraph
    epsilon: Fraction
    family: str
    alpha: Fraction
    weights: Integers

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", rational(self.epsilon))
        object.__setattr__(self, "alpha", checked_alpha(self.alpha))
        box = self.box
        raw = np.asarray(self.weights)
        if raw.dtype.kind not in "iu" or raw.size != box.n or raw.min() < 0 or raw.max() >= 1 << WORD_BITS:
            raise PlanError(
                "weights-not-of-box",
                "The weights do not fit the results.",
                f"The weights are {box.n} whole numbers, one for each result, from 0 to below 2^{WORD_BITS}.",
                "Give one such number for each result.",
                "No mechanism was made.",
            )
        # A read-only copy: draws use the integers of the proof.
        weights = np.array(raw, dtype=np.int64).reshape(box.shape)
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)
        ratio = self.largest_ratio
        if ratio is None or ratio > exp_below(self.epsilon):
            raise ratio_above_epsilon(self.epsilon, ratio)
        if self.tries > TRIES_LIMIT:
            raise PlanError(
                "too-many-tries",
                f"One draw would take {self.tries:.3g} tries on average.",
                f"At most {TRIES_LIMIT} tries are allowed.",
                "Take a larger ε, or use the geometric mechanism.",
                "No mechanism was made.",
            )

    # --- What it costs ------------------------------------------------------------------------------------

    @cached_property
    def box(self) -> Box:
        """The box of the results, with no step longer than its axis."""
        return checked_box(self.graph, self.alpha)

    @cached_property
    def bounds(self) -> EnclosedIntegers:
        """The row sum N of every result, between proven bounds, in integers."""
        return row_sums(self.box, self.alpha, self.weights)

    @property
    def is_constant_time(self) -> bool:
        """True if the largest row sum is proven to be at most `MAX_ROW_SUM_RATIO` times the smallest.

        Then the number of tries reveals nothing about the result beyond this factor.
        """
        ratio = self.bounds.ratio_bound
        return ratio is not None and ratio <= MAX_ROW_SUM_RATIO

    @cached_property
    def largest_ratio(self) -> Fraction | None:
        """A proven bound on P(o | i) / P(o | j) over edges and outputs: (1/α) max N / min N; None without one."""
        ratio = self.bounds.ratio_bound
        return None if ratio is None else ratio / self.alpha

    @cached_property
    def _charge(self) -> Fraction:
        ratio = self.largest_ratio
        assert ratio is not None  # noqa: S101 - refused when made
        return min(self.epsilon, log_above(ratio))

    def log_ratio(self) -> Fraction:
        """Return the cost of one answer: at least the largest log P(o | i) / P(o | j), and at most ε.

        **Guarantees**

        - e to the power of the cost is proven to be at least the exact ratio, for every edge and output.
        """
        return self._charge

    def on_graph(self, graph: QueryGraph) -> ImplicitMechanism:
        """Return these integers on a graph, without cached results.

        Args:
            graph: A graph with as many results.

        Raises:
            PlanError: The integers are not proven private on this graph.
        """
        return replace(self, graph=graph)

    # --- How it is drawn ----------------------------------------------------------------------------------

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return self.graph.n

    @property
    def steps(self) -> tuple[int, ...]:
        """The largest steps of one person along each axis, cut to its length; this changes no distance."""
        return self.box.steps

    @cached_property
    def max_weight(self) -> int:
        """The largest weight."""
        return int(self.weights.max())

    @cached_property
    def tries(self) -> float:
        """The largest average number of tries of a draw, T max Z / min N.

        If `is_constant_time`, it is that of every result, within a part of 10⁻⁹.
        """
        # Σ_m α^m C(m, j) = α^j/(1 − α)^(j + 1), so the sum below is T = (1 − α) Σ_m α^m Π_k (2 m v_k + 1).
        odds = self.alpha / (1 - self.alpha)
        padded = sum(c * odds**j for j, c in enumerate(_differences(self.steps)))
        return float(padded * self.max_weight) / float(self.sums.min())

    def index_of(self, result: Hashable) -> tuple[int, ...]:
        """Return the position of a label in the box, one number for every axis, as `choices.by_distance` takes it.

        Raises:
            WorkloadError: The query has no such result. The message does not give the label.
        """
        return place_of(self.graph, self.weights.shape, result)

    def draw_output(self, point: tuple[int, ...], noise: NoiseSource) -> int:
        """Return one output, as a position from 0, for the true result at a place.

        Args:
            point: The place of the true result.
            noise: The source of noise.
        """
        coordinates = noise.choose(by_distance, self.alpha, self.steps, self.weights, self.max_weight, point)
        return int(np.ravel_multi_index(coordinates, self.weights.shape))

    def label(self, point: tuple[int, ...]) -> object:
        """Return the result at a place of the box: the label of a drawn answer.

        Raises:
            WorkloadError: The box has no such place.
        """
        shape = self.weights.shape
        inside = len(point) == len(shape) and all(0 <= x < s for x, s in zip(point, shape, strict=True))
        if not inside:
            raise WorkloadError(
                "place-outside-box",
                "The place is not in the box of the results.",
                "",
                "Give one position for each axis, within the size of the axis.",
                "Nothing was computed.",
            )
        return self.graph.results[int(np.ravel_multi_index(point, shape))]

    def read(self, output: int) -> object:
        """Return the label of an output: outputs are numbered as results are.

        Args:
            output: The output, from 0, as `draw_output` returns it.
        """
        return self.graph.results[output]

    @cached_property
    def sums(self) -> Floats:
        """The row sums N, of the shape of the box: the midpoints of `bounds`, whose proven error holds."""
        return self.bounds.floats


def alpha_just_above(epsilon: Fraction) -> Fraction:
    """Return the least multiple of 2⁻⁶² that is proven to be at least e^−ε; it is below 1 from ε = 2⁻⁶⁰ on."""
    low = exp_bounds(epsilon, _POWER_BITS)[0]
    return Fraction(-(-(1 << ALPHA_BITS + _POWER_BITS) // low), 1 << ALPHA_BITS)


def checked_alpha(alpha: Fraction) -> Fraction:
    """Return α in the form that drawing takes; raise PlanError for any other."""
    exact_alpha = Fraction(alpha)
    if not 0 < exact_alpha <= MAX_ALPHA or (1 << ALPHA_BITS) % exact_alpha.denominator:
        raise PlanError(
            "alpha-out-of-range",
            "The factor α of a mechanism is out of range.",
            "α is a multiple of 2⁻⁶², above 0 and clearly below 1.",
            "Give such an α, or make the plan again.",
            "No mechanism was made.",
        )
    return exact_alpha


def checked_box(graph: QueryGraph, alpha: Fraction) -> Box:
    """Return the box of the results, with no step longer than its axis, which changes no distance in the box.

    Raises:
        PlanError: The results are not a box, or too many. Or, with several axes, the sums over them are too many at
            this α.
    """
    full = graph.structure if isinstance(graph, QueryGraph) else None
    if not isinstance(full, Box):
        raise PlanError(
            "results-not-a-box",
            "The results of the query are not a box.",
            "A mechanism that stores no table of probabilities needs a box: a sum, counts that do not restrict each "
            "other, or a bundle of them.",
            "Use tight_constraints or the residual-column mechanism for up to 4,096 results.",
            "No mechanism was made.",
        )
    if full.n > RESULTS_LIMIT:
        raise PlanError(
            "too-many-results-without-table",
            f"The query has {full.n} results.",
            f"A mechanism that stores no table of probabilities has at most {RESULTS_LIMIT} results.",
            "Ask a coarser query.",
            "No mechanism was made.",
        )
    box = Box(full.shape, tuple(min(v, max(s - 1, 1)) for v, s in zip(full.steps, full.shape, strict=True)))
    # Layers end at the last that reaches a new result, or where all that follow have too little weight.
    count = min(max(_reaches(box, None)), _DEEPEST / -math.log(alpha)) + 1
    if len(box.shape) > 1 and count * box.n > WORK_LIMIT:
        raise PlanError(
            "too-many-sums",
            f"{box.n} results on {len(box.shape)} axes need {count:.3g} sums over all results at this ε.",
            "These sums would take too long.",
            "Take a larger ε, or ask about one axis at a time.",
            "No mechanism was made.",
        )
    return box


def place_of(graph: QueryGraph, shape: tuple[int, ...], result: Hashable) -> tuple[int, ...]:
    """Return the position of a label in a box of results, one number for every axis.

    Raises:
        WorkloadError: The query has no such result. The message does not give the label.
    """
    try:
        i = graph.index(_as_python(result))
    except WorkloadError:
        i = -1
    if i < 0:  # Raised outside the handler: the earlier error names the label, and is not kept.
        raise unknown_result("Nothing was drawn.")
    return tuple(int(x) for x in np.unravel_index(i, shape))


def _as_python(result: Hashable) -> Hashable:
    """Return a label with Python's integers in place of other numbers that equal them; these need no search."""
    if isinstance(result, tuple):
        return tuple(_as_python(x) for x in result)
    if isinstance(result, np.integer) or (isinstance(result, float) and result.is_integer()):
        return int(result)
    return result


# --- Bounds of row sums -----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class EnclosedIntegers:
    """Bounds on numbers x: |2^unit x − v| ≤ off, with one integer v for each x.

    Attributes:
        values: The integers v, of the shape of the box.
        off: The bound on all distances, an integer of at least 0.
        unit: The exponent of the formula, an integer that may be negative.
    """

    values: Integers
    off: int
    unit: int

    @property
    def ratio_bound(self) -> Fraction | None:
        """A bound on the ratio of the largest to the smallest number; None if the smallest may be 0."""
        minimum, maximum = int(self.values.min()) - self.off, int(self.values.max()) + self.off
        return Fraction(maximum, minimum) if minimum > 0 else None

    @property
    def floats(self) -> Floats:
        """The midpoints."""
        return np.asarray(np.ldexp(self.values.astype(np.float64), -self.unit))


def row_sums(box: Box, alpha: Fraction, weights: Integers) -> EnclosedIntegers:
    """Return N_i = Σ_o α^d(i,o) Z_o for all i, in integers with a proven bound on their error.

    Args:
        box: The box of the results.
        alpha: α, a multiple of 2⁻⁶².
        weights: Z, int64, of the shape of the box.

    Raises:
        PlanError: With one axis, the weights are too large for sums of 62 bits.
    """
    if len(box.shape) > 1:
        return layers(box, alpha, weights)
    above, below = one_side(box, alpha, weights), one_side(box, alpha, weights[::-1])
    unit = min(above.unit, below.unit)
    # Both shifts round down, each by less than 1: hence 2 more.
    parts = [(r.values >> r.unit - unit, (r.off >> r.unit - unit) + 2) for r in (above, below)]
    values = parts[0][0] + parts[1][0][::-1] + (weights << unit)
    return EnclosedIntegers(values, parts[0][1] + parts[1][1], unit)


def one_side(box: Box, alpha: Fraction, weights: Integers) -> EnclosedIntegers:
    """Return F_i = Σ_{o > i} α^d(i,o) Z_o on one axis, found in floats and checked in integers.

    The function solves F_i = α (W_i + F_{i+v}).

    In units of 2^−g, with g the unit of the result, the right-hand side is ⌊α 2^g W_i⌋ + ⌊α F̃_{i+v}⌋ and less than 2
    more. With r the largest difference in integers, the error of F̃ is at most (r + 2)/(1 − α).

    Raises:
        PlanError: The weights are too large for sums of 62 bits.
    """
    (v,) = box.steps
    scaled = int(alpha * (1 << ALPHA_BITS))
    top = int(weights.max())
    if top * v >= 1 << WORD_BITS:
        raise PlanError(
            "weight-sums-too-large",
            f"Weights of up to {top} have sums over {v} results of 2^{WORD_BITS} or more.",
            "",
            "Give smaller weights.",
            "No mechanism was made.",
        )
    window = _window(weights, v)

    guess = discounted(float(alpha) * window.astype(np.float64), float(alpha), v)
    largest = float(guess.max()) + top
    if largest >= 2.0 ** (WORD_BITS - 1):
        raise PlanError(
            "weight-rows-too-large",
            f"Weights of up to {top} have row sums of 2^{WORD_BITS - 1} or more.",
            "",
            "Give smaller weights.",
            "No mechanism was made.",
        )
    # α 2^unit W is a product of two numbers of up to 62 bits, and each takes a part of the shift.
    unit = max(0, WORD_BITS - 2 - math.frexp(largest)[1])
    ours = min(unit, WORD_BITS - scaled.bit_length())
    theirs = min(unit - ours, WORD_BITS - int(window.max()).bit_length())
    unit = ours + theirs
    fixed = _product(scaled << ours, window << theirs)
    sums = np.rint(np.ldexp(guess, unit)).astype(np.int64)
    # Refined twice, as floats alone leave errors of some 2⁻⁵³ of the sums. The integers `rest` decide, for any floats.
    for attempt in range(3):
        rest = sums - fixed
        rest[:-v] -= _product(scaled, sums[v:])
        if attempt < 2:
            solved = discounted(rest.astype(np.float64), float(alpha), v)
            sums = np.clip(sums - np.rint(solved).astype(np.int64), 0, 1 << WORD_BITS - 1)
    worst = max(int(rest.max()), -int(rest.min())) + 2
    return EnclosedIntegers(sums, -(-(worst << ALPHA_BITS) // ((1 << ALPHA_BITS) - scaled)), unit)


def _window(weights: Integers, v: int) -> Integers:
    """Return W_i = Z_{i+1} + … + Z_{i+v}, (n,), with Z = 0 beyond the end: exact where all W are below 2⁶³."""
    # The cumulative sums may wrap around modulo 2⁶⁴; their differences are right.
    sums = np.cumsum(weights.astype(np.uint64), dtype=np.uint64)
    ends = np.minimum(np.arange(len(weights)) + v, len(weights) - 1)
    return np.asarray((sums[ends] - sums).astype(np.int64))


def layers(box: Box, alpha: Fraction, weights: Integers, reach: int | None = None) -> EnclosedIntegers:
    """Return N_i by Σ_m of layers; with `reach`, only over the outputs o with all |o_k − i_k| ≤ reach.

    Let r_k(m) be the smaller of m v_k and the limit on axis k, and S_m(i) the sum of Z over |o_k − i_k| ≤ r_k(m).

    Results are in units of 2^−g, and below 2⁶⁰. g comes from N ≤ Σ_m of weights times P_m max Z, or Σ Z if that is
    less, with P_m the number of points. Z is cut by s bits, so that sums have 62 bits. This takes at most P_m 2^s off
    S_m, and nothing where s = 0. Shifted by f bits the largest sum has 62 bits. Then its weight has at most 61 bits,
    and an error of less than 2 units. The error of their product, cut by 62 bits, is less than 3.
    """
    ahead = int(alpha * (1 << ALPHA_BITS))
    weights = weights.reshape(box.shape)
    top = int(weights.max())
    total = (int((weights >> _HALF).sum()) << _HALF) + int((weights & (1 << _HALF) - 1).sum())
    bounds = [s - 1 if reach is None else min(reach, s - 1) for s in box.shape]
    last = max(_reaches(box, reach))
    terms: list[tuple[list[int], int, int]] = []
    # α^m is at least `power`, and above it by at most m, in units of 2^−256: each step rounds down.
    power, largest, left_out = 1 << _POWER_BITS, 0, 0
    for m in range(last + 1):
        if power * total < largest >> _LAYER_CUTOFF_BITS:
            left_out = (power + m) * total
            break
        radii = [min(m * v, b) for v, b in zip(box.steps, bounds, strict=True)]
        points = math.prod(min(2 * r + 1, s) for r, s in zip(radii, box.shape, strict=True))
        # From m = `last` on S_m does not change, and (1 − α) Σ_{m ≥ last} α^m = α^last. Before, the weight of a layer
        # is (1 − α) α^m.
        weight = power if m == last else power - (power * ahead >> ALPHA_BITS) - 1
        terms.append((radii, points, max(weight, 0)))
        largest += (weight + _MAX_LAYER_ERROR) * min(points * top, total)
        power = power * ahead >> ALPHA_BITS
    unit = WORD_BITS - 2 - ((largest + left_out >> _POWER_BITS) + 1).bit_length()
    values, off = np.zeros(box.shape, dtype=np.int64), (left_out >> _POWER_BITS - unit) + 1
    for radii, points, weight in terms:
        s = max(0, min(points * top, total).bit_length() - WORD_BITS)
        sums = _box_sums(weights >> s, radii)
        f = WORD_BITS - int(sums.max()).bit_length()
        if f < WORD_BITS:
            values += _product(weight >> _POWER_BITS - unit - s - WORD_BITS + f, sums << f)
        off += 3 + (((weight + _MAX_LAYER_ERROR) * points >> _POWER_BITS - unit - s) + 1 if s else 0)
    return EnclosedIntegers(values, off, unit)


def _reaches(box: Box, reach: int | None) -> list[int]:
    """Return, for every axis, the number of steps that cover its length, or the distance `reach` if that is less."""
    ends = [s - 1 if reach is None else min(reach, s - 1) for s in box.shape]
    return [-(-end // v) for end, v in zip(ends, box.steps, strict=True)]


def _box_sums(values: Integers, radii: list[int]) -> Integers:
    """Return sums over all points within the radius of every axis, of the shape of the values: exact below 2⁶³."""
    out = values.astype(np.uint64)
    for axis, r in enumerate(radii):
        if r:
            sums = np.moveaxis(np.cumsum(out, axis=axis, dtype=np.uint64), axis, 0)
            out = np.empty_like(out)
            along_axis = np.moveaxis(out, axis, 0)
            # Cumulative sums wrap around modulo 2⁶⁴; their difference is right where the sum itself fits.
            along_axis[: len(along_axis) - r] = sums[r:]
            along_axis[len(along_axis) - r :] = sums[-1:]
            along_axis[r + 1 :] -= sums[: len(along_axis) - r - 1]
    return out.astype(np.int64)


def _product(factor: int, values: Integers) -> Integers:
    """Return ⌊factor · values / 2^62⌋ for integers from 0 to 2^62 − 1, by halves of 31 bits, without overflow."""
    high, low = divmod(factor, 1 << _HALF)
    upper, lower = values >> _HALF, values & (1 << _HALF) - 1
    return np.asarray(high * upper + (high * lower + low * upper + (low * lower >> _HALF) >> _HALF))


def _differences(steps: tuple[int, ...]) -> list[int]:
    """Return c_j with Π_k (2 m v_k + 1) = Σ_j c_j C(m, j), the differences at 0; none is negative."""
    row = [math.prod(2 * m * v + 1 for v in steps) for m in range(len(steps) + 1)]
    differences = []
    while row:
        differences.append(row[0])
        row = [after - before for before, after in itertools.pairwise(row)]
    return differences


def discounted(values: Floats, factor: float, step: int) -> Floats:
    """Return the solution e of e_i = values_i + factor · e_{i+step} along the first axis; 0 ≤ factor < 1.

    e has the shape of `values`, and e_i is 0 after the end of the axis. `step` is 1 or more. The loop stops at weights
    of 2⁻²⁰⁰, far below the rounding of the largest term.
    """
    # With S the shift by a step, Σ_j factor^j S^j = Π_k (1 + factor^(2^k) S^(2^k)): each pass doubles the reach.
    sums, reach = values.astype(np.float64), 1
    scratch = np.empty_like(sums)
    while reach * step < len(sums) and (weight := factor**reach) > _NOTHING:
        here, there = slice(None, -reach * step), slice(reach * step, None)
        # `here` and `there` overlap. The complete product is in `scratch` before the sum changes any term.
        sums[here] += np.multiply(sums[there], weight, out=scratch[there])
        reach *= 2
    return sums
