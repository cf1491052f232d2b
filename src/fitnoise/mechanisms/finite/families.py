"""Mechanisms in closed form, or from one linear system: tight constraints, staircase, geometric, and others.

**From floats to integers.** Powers of α = e^−ε are the integers p_0 = 2^96, p_{k+1} = ⌈α' p_k⌉ with a rational α'
proven to be at least e^−ε. So no two neighbours in a table of them differ by more than the factor e^ε. Noise on all
integers is clamped to the range of the results, and its sums have closed forms in integers: all rows have one sum. For
the mechanism of tight constraints, and for similar mechanisms,

    w_ik = p_{d(i,k)} Z_k,    s_i = N − Σ_k w_ik,    Z_k = ⌊(1 − θ) z_k 2^64⌋,    N = 2^160,

and s is an output of its own, or is added to that of one k. Here d(i,k) is the number of steps between two results of
the graph, and Φ_ik = e^(−ε d(i,k)). Columns of powers are private without changes. If z solves Φ z = 1 up to rounding,
s / N is θ up to rounding. It is private if θ outweighs that rounding: θ is about 10⁻¹⁵/ε in examples. The module
chooses θ from the s that θ = 0 would give, and `FiniteMechanism` proves the result. So exactness costs a loss of
θ, a probability. No weight that is proven negative is set to 0, and no charge rests on trust.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.designs.graphs import Box, QueryGraph
from fitnoise.kernel.designs.probability_tables import FiniteMechanism
from fitnoise.kernel.designs.weights import IntegerWeights, row_sums
from fitnoise.kernel.exact_powers import ALPHA_POWER_BITS, DENSE_LIMIT, Graph, alpha_above, exp_below, rational
from fitnoise.mechanisms.finite.accuracy import points
from fitnoise.mechanisms.finite.exact import ExactSolution, hops, kernel, kernel_error, powers, solve
from fitnoise.mechanisms.finite.existence import (
    Verdict,
    certificate_contradicted,
    existence,
    tight_constraints_undecided,
    without_tight_constraints,
)
from fitnoise.mechanisms.finite.weight_rows import of_table

MAX_LOSS = Fraction(1, 2**16)
"""Largest probability that a mechanism may lose to rounding for its privacy; above it the mechanism is refused."""

# An inverse takes n³ steps, and six matrices of n² numbers.
MAX_INVERTED_RESULTS = 3000
"""Results of a box above which bands decide the existence of tight constraints."""

_COLUMN_BITS = 64

_MIN_LOSS = Fraction(1, 2**56)

Columns = TypeVar("Columns")

Certify = Callable[[Graph, Fraction], bool | None]
"""Proof of a graph and ε that Φ z = 1 has a solution z ≥ 0 (True) or none (False); None without proof."""

# --- Tight constraints ------------------------------------------------------------------------------------


def tight_constraints(graph: Graph, epsilon: float | Fraction, certify: Certify | None = None) -> FiniteMechanism:
    """Return the mechanism of tight constraints: P(k | i) = e^(−ε d(i,k)) z_k, Φ z = 1.

    d(i,k) is the number of steps between two results of the graph, and Φ_ik = e^(−ε d(i,k)). A prior π is ε-regular if
    π = y Φ for some y ≥ 0. For an ε-regular prior, no ε-private mechanism that sees only the true result is right more
    often (theorem 3). The answer then needs no remap: no other reading of the outputs is right more often.

    On a path it is the truncated geometric mechanism. For sums its mean error is a little larger than that of the
    geometric one.

    Args:
        graph: The graph of the query.
        epsilon: The ε of the mechanism.
        certify: Function that decides existence; None for the error bound of the solution found here, and
            `existence.existence` if that leaves a sign open.

    Returns:
        The mechanism. Output k is the k-th result.

    Raises:
        PlanError: The mechanism does not exist at this ε, existence is not proven, or there are more than DENSE_LIMIT
            results. Φ may be singular, or too close to it for a proof. `residual_column` exists for every ε.
        PlanError: Rounding would cost a probability of more than MAX_LOSS, or a weight contradicts the proof of
            existence.
        WorkloadError: ε is out of range.

    **Guarantees**

    - The mechanism is ε-private, exactly.
    - No weight that is proven negative is set to 0.

    **Accuracy.** The probabilities differ from the formula by rounding. In examples of up to 60 results, the largest
    absolute difference is below 1e-12 for ε from 0.01. It grows as ε falls, up to about 3e-7 at 1e-5. A tiny
    probability can differ by more than its own size.

    **Source.** Definition 7, section 5.
    """
    exact = rational(epsilon)
    steps = hops(graph)
    z, error, exists = _solved(graph, exact, steps)
    # The bound of the linear system is the quicker proof; the slower one decides what it leaves open.
    exists = exists if certify is None else certify(graph, exact)
    if exists is None and certify is None and isinstance(graph, QueryGraph):
        decision = existence(graph, exact)
        exists = {Verdict.YES: True, Verdict.NO: False}.get(decision.verdict)
        if decision.weights is not None:
            z, error = decision.weights, np.full(graph.n, decision.radius)
    if exists is None or not np.isfinite(error).all():
        raise tight_constraints_undecided(
            exact, f"the least weight is {z.min():.3g}, with an error of up to {error.max():.1g}"
        )
    if not exists:
        raise without_tight_constraints(exact, float(z.min()), int(np.argmin(z)) + 1)
    # An entry that is proven to be at least 0 may be computed as less, by its error. It is then set to 0, within that
    # error.
    z = np.where((z < 0) & (z >= -error), 0.0, z)
    if z.min() < 0:
        raise certificate_contradicted()
    return columns_and_rest(graph, exact, steps, z, "tight constraints", gather=int(np.argmax(z)))


def _solved(graph: Graph, epsilon: Fraction, steps: Integers) -> tuple[Floats, Floats, bool | None]:
    """Return the solution of Φ z = 1, its error, and True or False if z ≥ 0 is proven or refuted; None otherwise."""
    # Large boxes have faster solvers, with their own proofs.
    if isinstance(graph, QueryGraph) and isinstance(graph.structure, Box) and graph.n > MAX_INVERTED_RESULTS:
        decision = existence(graph, epsilon)
        if decision.weights is not None and decision.verdict is not Verdict.UNDECIDED:
            return decision.weights, np.full(graph.n, decision.radius), decision.exists
    solution = weighting_with_error(steps, epsilon)
    return solution.x, solution.error, solution.proven


def weighting_with_error(steps: Integers, epsilon: Fraction) -> ExactSolution:
    """Return the solution z of Φ z = 1, and a bound on its error."""
    return solve(kernel(steps, epsilon), np.ones(len(steps)), kernel_error(steps, epsilon))


def columns_and_rest(
    graph: Graph,
    epsilon: Fraction,
    steps: Integers,
    diagonal: Floats,
    family: str,
    *,
    gather: int | None = None,
    rest_read_as: int = 0,
) -> FiniteMechanism:
    """Return α^d(i,k) d_k, with s_i = 1 − Σ_k α^d(i,k) d_k added to the output `gather` or as an output of its own.

    diagonal: d ≥ 0, (n,).
    rest_read_as: The result as which an output of its own is read.

    Raises:
        PlanError: A loss of at most MAX_LOSS does not make the rest private.
    """
    n = graph.n
    alpha, growth = alpha_above(epsilon), exp_below(epsilon)
    # The last value is for results in other components.
    values = (*powers(alpha, int(steps[steps < n].max()) + 1), 0)
    codes = np.where(steps < n, steps, len(values) - 1)
    total = 1 << ALPHA_POWER_BITS + _COLUMN_BITS

    def build_columns(loss: Fraction) -> tuple[tuple[int, ...], list[int]]:
        # Rounded down, so that the rest of a row is not negative.
        columns = tuple(int(Fraction(d) * (1 - loss) * 2**_COLUMN_BITS) for d in diagonal.tolist())
        return columns, [total - s for s in row_sums(values, codes, columns)]

    columns, rest = _shrunk(build_columns, total, growth, np.asarray(graph.edges))
    answers = np.arange(n)
    if gather is not None:
        return FiniteMechanism(
            graph, epsilon, family, IntegerWeights(values, codes, columns, tuple(rest), gather), answers
        )
    wider = np.column_stack([codes, np.zeros(n, dtype=np.int64)])
    weights = IntegerWeights(values, wider, (*columns, 0), tuple(rest), n)
    return FiniteMechanism(graph, epsilon, family, weights, np.append(answers, rest_read_as))


def _shrunk(
    build: Callable[[Fraction], tuple[Columns, list[int]]], total: int, growth: Fraction, edges: Integers
) -> tuple[Columns, list[int]]:
    """Return columns and the rest of the rows, shrunk by the least tried θ for which the rest is private.

    A θ larger by t makes the rest s about s + t N. The rest is private if s ≥ 0, and s_i ≤ e^ε s_j along edges.

    build: Returns columns and rest for a θ.
    total: N.
    growth: e^ε, rounded down.

    Raises:
        PlanError: No θ of at most MAX_LOSS makes the rest private.
    """
    loss = Fraction(0)
    while True:
        columns, rest = build(loss)
        # Many edges have equal ends; their comparison uses integers of 160 bits.
        ends = {(rest[i], rest[j]) for i, j in edges.tolist()}
        p, q = growth.as_integer_ratio()
        excess = Fraction(max((max(q * a - p * b, q * b - p * a) for a, b in ends), default=0), q)
        needed = max(excess / (growth - 1), Fraction(-min(rest))) / total
        if needed <= 0:
            return columns, rest
        # Twice the need, so that few rounds suffice: rounding changes with θ.
        loss += max(_MIN_LOSS, 2 * needed)
        if loss > MAX_LOSS:
            raise PlanError(
                "rounding-costs-too-much",
                f"Rounding the mechanism would cost a probability of {float(loss):.1g}, above the limit of "
                f"{float(MAX_LOSS):.1g}.",
                "The linear system or program behind the mechanism was solved too inaccurately.",
                "Choose a larger ε, or another mechanism.",
                "No mechanism was made.",
            )


# --- Noise on integers, clamped ---------------------------------------------------------------------------


def staircase(graph: Graph, epsilon: float | Fraction) -> FiniteMechanism:
    """Return noise x on integers, or tuples of them, P(x) ∝ α^⌈|x|/v⌉ with |x| the largest component, clamped.

    v is the largest change of a component along an edge. For one number it is the discrete staircase mechanism of Geng
    and Viswanath with r = 1, and the bulk of tight constraints. For several counts it is noise by their distance.

    Args:
        graph: A query whose results are integers, or tuples of them.
        epsilon: The ε of the mechanism.

    Returns:
        The mechanism. Outputs are all points of the smallest box around the results, the last component fastest. Each
        is read as the nearest result, of several the first.

    Raises:
        WorkloadError: The results are not integers from −2³¹ to 2³¹, or ε is out of range.
        PlanError: There are more than DENSE_LIMIT results or outputs.

    **Guarantees**

    - The mechanism is ε-private for every ε: |x| changes by at most v along an edge, so ⌈|x|/v⌉ by at most 1. Clamping
      does not change the privacy loss.
    """
    exact = rational(epsilon)
    x, low, high = _box(graph)
    # At least 1: a graph without edges has no moves.
    step = np.abs(_moves(graph, x)).max(initial=1)
    weights = _clamped(alpha_above(exact), int(step), x, low, high)
    return FiniteMechanism(graph, exact, "staircase", weights, _nearest(x, low, high))


def geometric(graph: Graph, epsilon: float | Fraction) -> FiniteMechanism:
    """Return two-sided geometric noise on every component, P(x) ∝ e^(−ε|x|/v), independent and clamped.

    v is the largest change along an edge, of all components in sum: Σ_k |i_k − j_k|. On a count, v = 1, it is the
    truncated geometric mechanism of Ghosh, Roughgarden and Sundararajan, and the best for every prior.

    Args:
        graph: A graph of results that are integers or tuples of them.
        epsilon: ε for one step of the graph; a Fraction is exact.

    Errors and outputs are those of `staircase`.

    **Guarantees**

    - The mechanism is ε-private for every ε: the probability of a point falls by at most e^(ε/v) for each unit that the
      components change.
    """
    exact = rational(epsilon)
    x, low, high = _box(graph)
    step = int(np.abs(_moves(graph, x)).sum(axis=1).max(initial=1))
    # Independent noises add their losses, so each unit of the sum gets ε/v.
    alpha = alpha_above(exact / step)
    places = [_clamped(alpha, 1, x[:, k : k + 1], low[k : k + 1], high[k : k + 1]) for k in range(x.shape[1])]
    codes, values = places[0].codes, list(places[0].values)
    for noise in places[1:]:
        size = len(noise.values)
        codes = (codes[:, :, None] * size + noise.codes[:, None, :]).reshape(len(x), -1)
        values = [a * b for a in values for b in noise.values]
    weights = IntegerWeights(tuple(values), codes, (1,) * codes.shape[1], (0,) * len(x), 0)
    return FiniteMechanism(graph, exact, "geometric", weights, _nearest(x, low, high))


def _box(graph: Graph) -> tuple[Integers, Integers, Integers]:
    """Return results as integer points, (n, components), and the least and largest of every component."""
    _refuse_many(graph.n)
    coordinates = points(graph.results)
    if coordinates is None or (coordinates != np.round(coordinates)).any() or np.abs(coordinates).max() > 2**31:
        raise WorkloadError(
            "noise-needs-integers",
            "The results are not integers, nor tuples of integers.",
            "This mechanism adds integer noise to the result.",
            "Choose a mechanism that needs only the graph.",
            "No mechanism was made.",
        )
    x = coordinates.astype(np.int64)
    low, high = x.min(axis=0), x.max(axis=0)
    outputs = math.prod((high - low + 1).tolist())
    if outputs > DENSE_LIMIT:
        raise PlanError(
            "box-too-large",
            f"The question has {graph.n} results in a box of {outputs} points.",
            f"The mechanism has a number for every pair of them, for at most {DENSE_LIMIT} of each.",
            "Choose a coarser question.",
            "No mechanism was made.",
        )
    return x, low, high


def _refuse_many(n: int) -> None:
    """Raise PlanError for more results than a table can have."""
    if n > DENSE_LIMIT:
        raise PlanError(
            "too-many-results-for-table",
            f"The question has {n} results.",
            f"A table of probabilities is made for at most {DENSE_LIMIT} results.",
            "Choose a coarser question.",
            "No mechanism was made.",
        )


def _moves(graph: Graph, x: Integers) -> Integers:
    i, j = np.asarray(graph.edges).reshape(-1, 2).T
    return np.asarray(x[i] - x[j])


def _nearest(x: Integers, low: Integers, high: Integers) -> Integers:
    """Return the first of the nearest results for every point of the box: by the largest component, then by the sum."""
    axes = [np.arange(a, b + 1) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    away = np.abs(grid[:, None, :] - x[None, :, :])
    width = int(away.sum(axis=2).max()) + 1
    # One number orders the pairs: the largest component counts before the sum, and argmin takes the first.
    return np.asarray(np.argmin(away.max(axis=2) * width + away.sum(axis=2), axis=1), dtype=np.int64)


def _clamped(alpha: Fraction, v: int, x: Integers, low: Integers, high: Integers) -> IntegerWeights:
    """Return α^⌈|noise|/v⌉ on all integer points, |·| the largest component, clamped to a box, as weights.

    α^a = (1 − α) Σ_{m ≥ a} α^m: the noise is a mixture of uniform noises on boxes |noise| ≤ m v, weights b_m ≈ α^m.
    A box around i holds Π_k c_k(m) points that clamp to o. Here c_k depends on the distance t = |i_k − o_k| and on the
    position of o_k in its range. Inside, c_k is 1 if t ≤ m v, else 0. At one end it is max(0, m v − t + 1). At both
    ends it is 2 m v + 1. From the first m on with no factor 0 the product is a polynomial in m, and moments of b give
    the sum. Let M v be at least all distances. From m = M on, the product is a polynomial f(m) of a degree of at most
    the number of components. Then Σ_{m ≥ M} α^(m − M) f(m) = Σ_l Δ^l f(M) α^l / (1 − α)^(l + 1). All values are
    multiplied by (1 − α)^(components + 1) and the denominators.

    Every row sums to Σ_m b_m (2 m v + 1)^components. We have b_m ≤ b_{m+1}/α, and a box of m around i lies in that of
    m + 1 around a neighbour. So no probability falls by more than α along an edge.

    x: The results i, (n, components).
    low: The least point of the box, (components,).
    high: The largest point of the box, (components,).
    """
    places = x.shape[1]
    width = int((high - low).max())
    reach, base = -(-width // v), 3 * width + 3
    boxes = powers(alpha, reach + 1)
    axes = [np.arange(a, b + 1) for a, b in zip(low, high, strict=True)]
    shape = [len(axis) for axis in axes]
    code = np.zeros((len(x), *shape), dtype=np.int64)
    for k, axis in enumerate(axes):
        ends = (axis == low[k]).astype(np.int64) + (axis == high[k])
        # The probability depends on distance and ends alone, so each combination is summed once.
        codes_on_axis = np.abs(x[:, k, None] - axis[None, :]) * 3 + ends[None, :]
        axis_shape = [len(x)] + [1] * places
        axis_shape[k + 1] = shape[k]
        code = code * base + codes_on_axis.reshape(axis_shape)
    seen, codes = np.unique(code.reshape(len(x), -1), return_inverse=True)
    a, q = alpha.numerator, alpha.denominator
    scale = (q - a) ** (places + 1)
    moments = [_sums_from(b * m**d for m, b in enumerate(boxes[:reach])) for d in range(places + 1)]
    values = []
    for packed in seen.tolist():
        digits = [divmod(packed // base**k % base, 3) for k in range(places)]
        start = max([0, *(-(-(t - ends) // v) for t, ends in digits if ends < 2)])
        value = scale * sum(f * moment[start] for f, moment in zip(_points(digits, v), moments, strict=False))
        # Differences of these values are the Δ^l f(M) of the tail.
        rest = [math.prod(_points_at(m * v, t, ends) for t, ends in digits) for m in range(reach, reach + places + 1)]
        for order in range(places + 1):
            value += boxes[-1] * rest[0] * a**order * (q - a) ** (places - order) * q
            rest = [after - before for before, after in itertools.pairwise(rest)]
        values.append(value)
    return IntegerWeights(tuple(values), codes.reshape(len(x), -1), (1,) * math.prod(shape), (0,) * len(x), 0)


def _sums_from(terms: Iterable[int]) -> list[int]:
    """Return Σ_{m ≥ first} of the terms, for every first from 0 to their number."""
    return list(itertools.accumulate(reversed(list(terms)), initial=0))[::-1]


def _points(digits: Sequence[tuple[int, int]], v: int) -> list[int]:
    """Return Π_k c_k(m) as a polynomial in m, lowest power first, valid from the first m with no factor 0."""
    out = [1]
    for t, ends in digits:
        if ends:
            fixed, slope = (1 - t, v) if ends == 1 else (1, 2 * v)
            out = [fixed * low + slope * high for low, high in zip([*out, 0], [0, *out], strict=True)]
    return out


def _points_at(radius: int, t: int, ends: int) -> int:
    """Return the number of integers within a radius of one at distance t from the output to which they clamp."""
    if ends == 0:
        return int(t <= radius)
    return max(0, radius - t + 1) if ends == 1 else 2 * radius + 1


# --- For any graph ----------------------------------------------------------------------------------------


def randomised_response(graph: Graph, epsilon: float | Fraction) -> FiniteMechanism:
    """Return the mechanism with P(i | i) = e^ε / (n − 1 + e^ε) for the truth, e^ε times that of any other result.

    It is the mechanism of tight constraints on a complete graph; on other graphs it wastes most of ε.

    Raises:
        WorkloadError: ε is out of range.
        PlanError: There are more than DENSE_LIMIT results.
    """
    exact, n = rational(epsilon), graph.n
    _refuse_many(n)
    codes = 1 - np.eye(n, dtype=np.int64)
    weights = IntegerWeights(tuple(powers(alpha_above(exact), 2)), codes, (1,) * n, (0,) * n, 0)
    return FiniteMechanism(graph, exact, "randomised response", weights, np.arange(n))


def distance_kernel(graph: Graph, epsilon: float | Fraction) -> FiniteMechanism:
    """Return P(o | i) = κ^d(i,o) / Σ_k κ^d(i,k), a tuned exponential mechanism with the smallest ε-private κ found.

    κ lies between e^−ε, which is enough if all rows have one sum, and e^(−ε/2), which is always enough.

    Raises:
        WorkloadError: ε is out of range.
        PlanError: There are more than DENSE_LIMIT results, or results in more than one component.

    **Guarantees**

    - The mechanism is ε-private, exactly, for every ε and connected graph.
    """
    exact = rational(epsilon)
    steps = hops(graph)
    if steps.max() >= graph.n > 1:
        raise PlanError(
            "graph-not-connected",
            "The results fall into components without a path between them.",
            "",
            "Make one mechanism for each component.",
            "No mechanism was made.",
        )
    edges = np.asarray(graph.edges).reshape(-1, 2)
    counts = np.stack([np.bincount(row, minlength=int(steps.max()) + 1) for row in steps]).astype(np.float64)

    def privacy_loss(rate: float) -> float:
        logs = np.log(counts @ np.exp(-rate * np.arange(counts.shape[1])))
        return float(rate + np.abs(logs[edges[:, 0]] - logs[edges[:, 1]]).max(initial=0.0))

    # The search is in floats; the reserve covers their rounding, and the kernel proves the integers.
    target = float(exact) * (1 - 2.0**-40)
    # `low` is private by the triangle inequality.
    low, high = target / 2, target
    if privacy_loss(high) <= target:
        low = high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if privacy_loss(middle) <= target else (low, middle)
    values = powers(alpha_above(Fraction(low)), int(steps.max()) + 1)
    sums = row_sums(values, steps, (1,) * graph.n)
    total = 1 << 2 * ALPHA_POWER_BITS
    names: dict[int, int] = {}
    # Rows with equal sums share their weights, which keeps the table small.
    rank = np.array([names.setdefault(s, len(names)) for s in sums])
    # Rounded down, and what is left of each row goes to the truth.
    table = [v * total // s for s in names for v in values]
    codes = rank[:, None] * len(values) + steps
    seen, codes = np.unique(codes, return_inverse=True)
    codes = codes.reshape(steps.shape)
    used = tuple(table[k] for k in seen.tolist())
    rest = tuple(total - s for s in row_sums(used, codes, (1,) * graph.n))
    weights = IntegerWeights(used, codes, (1,) * graph.n, rest, 0)
    return FiniteMechanism(graph, exact, "distance kernel", weights, np.arange(graph.n))


def from_probabilities(
    graph: Graph, epsilon: Fraction, table: Floats, family: str, answers: npt.ArrayLike
) -> FiniteMechanism:
    """Return a mechanism near a table of floats that is ε-private up to rounding, as a linear program returns.

    Every column becomes the least private one above it, x'_i = max_j α^d(i,j) x_j, in integers. All columns are shrunk
    by θ, and the rest of the rows goes to the likeliest output.

    Args:
        graph: The graph of n results.
        epsilon: ε.
        table: Probabilities of the outputs for every result, (n, outputs).
        family: The name of the family of the mechanism.
        answers: The index of the result as which each output is read, (outputs,).

    Raises:
        PlanError: The mechanism would lose a probability of more than MAX_LOSS, or has more than DENSE_LIMIT results.
    """
    n = graph.n
    steps = hops(graph)
    alpha, growth = alpha_above(epsilon), exp_below(epsilon)
    values = [*powers(alpha, int(steps[steps < n].max()) + 1), 0]
    factors = np.array(values, dtype=object)[np.where(steps < n, steps, len(values) - 1)]
    total = 1 << ALPHA_POWER_BITS + _COLUMN_BITS
    gather = int(np.argmax(table.sum(axis=0)))

    def build_columns(loss: Fraction) -> tuple[list[list[int]], list[int]]:
        keep = float(1 - loss) * 2.0**_COLUMN_BITS
        columns = [
            # The least private column above a column is the maximum over all results of what each one requires.
            np.max(factors * np.array([int(x * keep) for x in column], dtype=object), axis=1).tolist()
            for column in np.maximum(table, 0).T.tolist()
        ]
        return columns, [total - sum(row) for row in zip(*columns, strict=True)]

    columns, rest = _shrunk(build_columns, total, growth, np.asarray(graph.edges))
    columns[gather] = [w + r for w, r in zip(columns[gather], rest, strict=True)]
    return FiniteMechanism(graph, epsilon, family, of_table(list(zip(*columns, strict=True))), np.asarray(answers))
