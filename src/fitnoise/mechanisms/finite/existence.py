"""Existence of the mechanism of tight constraints: proven, refuted, or not known, and never decided by a tolerance.

The mechanism exists if and only if Φ z = 1 has a solution z ≥ 0. A tolerance answers another question: a weight of
−10⁻⁴ is a negative probability, and clipping it changes the privacy loss. Three facts make strict answers possible.

**Symbols.**

    | letter | meaning                                                                                  |
    | ------ | ---------------------------------------------------------------------------------------- |
    | d(i,j) | steps between the results i and j in the graph                                           |
    | α, Φ   | e^(−ε), and the matrix of the α^d(i,j), (n, n)                                           |
    | z, z̃   | the solution of Φ z = 1, and a computed approximation                                    |
    | cells  | classes of results, to which a solution gives equal weights (`partitions`)               |
    | B, w   | the system B w = 1 on the cells: w has one weight for each cell                          |
    | λ      | a proven lower bound of the least eigenvalue of Φ                                        |

**Every rational ε > 0 has a strict answer.** Then α = e^(−ε) is transcendental. The determinant of Φ and the numerators
of all z_i are polynomials in α with rational coefficients. At α = 0 Φ is the identity and z = 1, so no such polynomial
is zero, and none vanishes at a transcendental α. Hence **Φ is not singular and no z_i is 0**: enough digits decide
every sign. Every float is rational. Only for an α that is given as a fraction can z_i be 0, or Φ singular.

**Signs are enclosed** in fixed point (`enclosures`) on the cells: z ≥ 0 exists if and only if w ≥ 0 does
(`partitions`). Boxes with too many cells for that (CELLS_PROVEN, ENTRIES_PROVEN) use ‖z − z̃‖ ≤ ‖1 − Φ z̃‖ / λ. The
entries of z̃ are multiples of 2⁻ᵏ. In a box, d is the largest number of steps along an axis, and
α^d = (1 − α) Σ_{m ≥ d} α^m. So sums of integers over the boxes d ≤ m around each result give the residual 1 − Φ z̃.

**Above some ε the mechanism always exists.** Let s be the largest row sum of Φ without its diagonal. If s < 1, then
z > 0. Suppose that z_k = −t ≤ 0 is the least entry and z_l the largest. Then 1 + t ≤ s z_l by row k and z_l ≤ 1 + s t
by row l, so 1 + t ≤ s + s² t, which is false. And s falls as ε grows.

**Existence is not monotone in ε.** A graph of 6 results has the mechanism for α ≤ ½, not for 0.55 … 0.70, and again at
5/7. So a *threshold* is the start of the last ray of ε on which it exists. Windows can lie below the threshold.

**Source.** ElSalamouny, Chatzikokolakis, Palamidessi, POST 2013, section 5 (existence: proposition 8) and section 6.
The paper found its thresholds with a tolerance, and they are too low: see :func:`paper_threshold`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fitnoise.errors import PlanError, WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.designs.graphs import Box, Complete, QueryGraph
from fitnoise.mechanisms.finite.enclosures import (
    BITS,
    UNIT,
    DistanceQuotient,
    Enclosure,
    PrivacyLevel,
    contraction,
    enclose,
    exact_solutions,
    level,
)
from fitnoise.mechanisms.finite.graphs import Cycle, ExplicitGraph, Product
from fitnoise.mechanisms.finite.partitions import REFINED_LIMIT, cells
from fitnoise.mechanisms.finite.similarity import Similarity, blocks, eigenvalue_bound, weighting

CELLS_PROVEN = 1500
"""Most cells whose signs are enclosed in fixed point."""

ENTRIES_PROVEN = 20_000_000
"""Most distances in memory for the enclosure."""

FRACTIONS_LIMIT = 64
"""Most cells of a system that is solved in fractions, for a fraction α at which an enclosure does not decide a sign."""

THRESHOLD_ENTRIES = 2_000_000
"""Most distances from cells to results for the search for thresholds."""

SCAN = 600
"""Number of evenly spaced values of α in the search for windows."""

SCAN_ENTRIES = 10**6
"""Most distances times values of α in one batch of that search."""

DIGITS = 1e-13
"""Half-width of a bracket around a threshold, relative to max(1, ε)."""

PAPER_GRID = 100
"""Number of the paper's steps of ε between 0 and 1."""


class Verdict(enum.StrEnum):
    """The proven answer to a question of signs.

    YES: A solution without negative entries exists, proven. NO: None exists, proven. UNDECIDED: Neither is proven.
    """

    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"


@final
@dataclass(frozen=True, eq=False)
class Decision:
    """The answer, and its proof.

    Attributes:
        verdict: Yes, no or undecided.
        result: For no, the label of a result whose weight is proven negative. The weight is that of the only solution
            that is equal for results of one cell. None for yes and undecided, and without such a proof.
            No result is proven if the system has no solution or many, or the radius of a product is too large.
        weights: The solution in floating point, (n,), read-only; None if there is no solution to show. With the verdict
            no it does not give a mechanism.
        radius: The proven largest distance of a weight from the exact one; ∞ without proof. For yes, exact weights are
            ≥ 0 even if a float minus its radius is not.
        reason: The basis of the verdict, in words.
    """

    verdict: Verdict
    result: Hashable | None
    weights: Floats | None
    radius: float
    reason: str

    @property
    def exists(self) -> bool:
        """True if existence is proven. False may mean undecided."""
        return self.verdict is Verdict.YES


# --- existence -----------------------------------------------------------------------------------------------------


def existence(  # noqa: PLR0911
    graph: QueryGraph, epsilon: float | Fraction | None = None, *, alpha: Fraction | None = None
) -> Decision:
    """Decide if Φ z = 1 has a solution z ≥ 0: the mechanism of tight constraints exists for this graph and ε.

    Args:
        graph: The query graph.
        epsilon: ε; a float is taken as its exact fraction. Give ε or α.
        alpha: α = e^(−ε) as a fraction.

    Raises:
        WorkloadError: Not exactly one of both is given, it is outside its range, or the graph is too large for every
            method of weighting it.

    **Guarantees**
        * Yes and no are proven, rounding included: no tolerance, no clipping.
        * A weight of exactly 0 is allowed, and so is a singular Φ; both happen for a fraction α only.
        * The verdict is undecided if the proof fails. The causes are a large graph, an ε below the range of proven
          definite boxes, and weights smaller than the proven error.
    """
    privacy = level(epsilon, alpha)
    s = graph.structure
    # Factors are small: their weights prove those of a product that is far too large itself.
    if isinstance(s, Product) and not s.is_joint:
        return _of_product(graph, s, privacy)
    if _closed(graph):
        z = weighting(graph, float(privacy)).z
        return Decision(Verdict.YES, None, z, 1e-12, "all rows of Φ have the same sum, or the results are in a row")
    if isinstance(s, ExplicitGraph):
        decided = _of_blocks(graph, s, privacy)
        if decided is not None:
            return decided
    parts = cells(graph)
    if parts.m <= CELLS_PROVEN and parts.m * graph.n <= ENTRIES_PROVEN:
        quotient = DistanceQuotient.from_graph(graph, parts)
        return _of_quotient(graph, quotient, privacy, [Fraction(1)] * parts.m)
    if isinstance(s, Box):
        return _of_box(graph, s, privacy)
    # The largest row sum of Φ without its diagonal is at most (n − 1) α. Below 1, it proves z > 0.
    if (graph.n - 1) * math.exp(-float(privacy)) < 1 - 1e-9:
        return Decision(Verdict.YES, None, weighting(graph, float(privacy)).z, math.inf, "(n − 1) α < 1")
    return Decision(Verdict.UNDECIDED, None, None, math.inf, f"{parts.m} unlike results are too many to enclose")


def regular(
    graph: QueryGraph,
    epsilon: float | Fraction | None,
    prior: ArrayLike | Sequence[Fraction],
    *,
    alpha: Fraction | None = None,
) -> Decision:
    """Decide if a prior π is ε-regular: y Φ = π has a solution y ≥ 0. The weights of the answer are y.

    Args:
        graph: The query graph.
        epsilon: ε; None if α is given.
        prior: (n,), numbers ≥ 0 with the sum 1 up to 10⁻⁹, taken as their exact fractions. Their scale does not affect
            signs.
        alpha: α = e^(−ε) as a fraction, instead of ε.

    Raises:
        WorkloadError: The prior is not of this kind, or ε and α are not as :func:`existence` needs them.

    **Guarantees**
        * Yes and no are proven for the given numbers, rounding included.

    **Source.** Definition 5 and example 3.
    """
    privacy = level(epsilon, alpha)
    exact = _prior(graph, prior)
    distinct = {p: k for k, p in enumerate(dict.fromkeys(exact))}
    colours = np.array([distinct[p] for p in exact], dtype=np.int64)
    parts = cells(graph, None if len(distinct) == 1 else colours)
    if parts.m > CELLS_PROVEN or parts.m * graph.n > ENTRIES_PROVEN:
        return Decision(Verdict.UNDECIDED, None, None, math.inf, f"{parts.m} unlike results are too many to enclose")
    return _of_quotient(
        graph, DistanceQuotient.from_graph(graph, parts), privacy, [exact[i] for i in parts.first_results]
    )


def _prior(graph: QueryGraph, prior: ArrayLike | Sequence[Fraction]) -> list[Fraction]:
    raw = np.asarray(prior, dtype=object)
    entries: list[Any] = raw.ravel().tolist()
    try:
        exact = [Fraction(p) if isinstance(p, Fraction | int) else Fraction(float(p)) for p in entries]
    except (TypeError, ValueError, OverflowError) as error:
        raise WorkloadError(
            "exact-prior-not-numbers",
            "The prior contains an entry that is not a finite number.",
            "",
            "Give one finite number for every result.",
            "Nothing was decided.",
        ) from error
    total = sum(exact, Fraction(0))
    if raw.shape != (graph.n,) or min(exact) < 0 or abs(total - 1) > Fraction(1, 10**9):
        raise WorkloadError(
            "exact-prior-not-distribution",
            f"The prior has the shape {raw.shape} and the sum {float(total):.12g}, or a negative entry.",
            f"A prior is {graph.n} numbers from 0 with the sum 1.",
            "Correct the prior.",
            "Nothing was decided.",
        )
    return exact


def _closed(graph: QueryGraph) -> bool:
    """Return True for graphs with a weighting known to be positive for every ε: rings, complete graphs, rows."""
    s = graph.structure
    if isinstance(s, Box) and len(s.shape) == 1:
        return s.steps[0] == 1 or s.steps[0] >= s.n - 1
    return isinstance(s, Complete | Cycle)


def _of_product(graph: QueryGraph, s: Product, level: PrivacyLevel) -> Decision:
    """Decide a product by z = z₁ ⊗ … ⊗ z_k, which is ≥ 0 if and only if all factors are.

    If Z ≥ 0 and Φ₁ Z Φ₂ = 11ᵀ, then Φ₁ (Z Φ₂ e) = 1.
    """
    decisions = [existence(g, level.epsilon, alpha=level.alpha) for g in s.factors]
    worst = min(decisions, key=lambda d: (Verdict.NO, Verdict.UNDECIDED, Verdict.YES).index(d.verdict))
    reason = "a product exists exactly if all of its factors do: " + worst.reason
    weights: Floats | None = None
    radius, size = 0.0, 1.0
    if all(d.weights is not None for d in decisions):
        weights = np.ones(1)
        for d in decisions:
            here = np.asarray(d.weights)
            weights = np.asarray(np.kron(weights, here))
            largest = float(np.abs(here).max())
            radius = radius * (largest + d.radius) + size * d.radius + 4 * UNIT * size * largest
            size *= largest
        weights.setflags(write=False)
    result: Hashable | None = None
    if worst.verdict is Verdict.NO and weights is not None and weights.min() < -radius:
        result = graph.results[int(weights.argmin())]
    return Decision(worst.verdict, result, weights, radius if weights is not None else math.inf, reason)


def _of_blocks(graph: QueryGraph, s: ExplicitGraph, level: PrivacyLevel) -> Decision | None:
    """Decide a graph by z_i = 1 + Σ (z_i of block − 1), enclosed; return None if the enclosure does not decide."""
    parts = blocks(s)
    if not parts or (len(parts) == 1 and len(parts[0].others) == s.n - 1):
        return None
    one = 1 << BITS
    z = np.array([one] * s.n, dtype=object)
    radius = np.array([0] * s.n, dtype=object)
    # All blocks of two results are equal, so one solution serves them.
    pair: Enclosure | None = None
    for block in parts:
        if len(block.others) == 1 and pair is not None:
            solution, cell_of = pair, np.zeros(2, dtype=np.int64)
        else:
            block_graph = block.graph(s)
            inside = cells(block_graph)
            if inside.m > CELLS_PROVEN:
                return None
            solved = enclose(
                *DistanceQuotient.from_graph(block_graph, inside).fixed(level), np.array([one] * inside.m, dtype=object)
            )
            if solved is None:
                return None
            solution, cell_of = solved, inside.cell_of
            pair = solution if len(block.others) == 1 else pair
        z[block.members] += solution.values[cell_of] - one
        radius[block.members] += solution.radius
    enclosed = Enclosure(z, int(radius.max()))
    decided = _signs(graph, enclosed, np.arange(s.n), "its blocks, solved with a proven error")
    if level.alpha is not None and decided is not None and decided.verdict is Verdict.NO:
        # A block may be singular although the system on its cells is not: other solutions may exist.
        return None
    return decided


def _of_quotient(graph: QueryGraph, quotient: DistanceQuotient, level: PrivacyLevel, rhs: list[Fraction]) -> Decision:
    cell_of = quotient.cells.cell_of
    fixed = np.array([round(b * (1 << BITS)) for b in rhs], dtype=object)
    enclosed = enclose(*quotient.fixed(level), fixed, 1)
    if enclosed is not None:
        decided = _signs(graph, enclosed, cell_of, "the system on its cells, solved with a proven error")
        if decided is not None:
            return decided
    # For a rational ε no weight is 0 and enough digits decide. Only for a fraction α can a weight be 0, or Φ singular.
    if level.alpha is not None and quotient.cells.m <= FRACTIONS_LIMIT:
        return _in_fractions(graph, quotient, level.alpha, rhs)
    reason = "the matrix is singular or close to it" if enclosed is None else "a weight is too close to 0"
    weights = None if enclosed is None else _expand(enclosed.floats, cell_of)
    return Decision(Verdict.UNDECIDED, None, weights, math.inf if enclosed is None else enclosed.width, reason)


def _signs(graph: QueryGraph, enclosure: Enclosure, rows: Integers, reason: str) -> Decision | None:
    """Return the verdict of an enclosure; None if an entry may have either sign."""
    low = int(enclosure.values.argmin())
    # The floats round the enclosed integers, so their rounding is added to the width.
    weights, width = _expand(enclosure.floats, rows), enclosure.width + 2 * UNIT * float(np.abs(enclosure.floats).max())
    # A sign counts only if the enclosure excludes the other one: no tolerance decides.
    if enclosure.values[low] < -enclosure.radius:
        result = graph.results[int(np.flatnonzero(rows == low)[0])]
        return Decision(Verdict.NO, result, weights, width, "a weight is negative: " + reason)
    if enclosure.values[low] >= enclosure.radius:
        return Decision(Verdict.YES, None, weights, width, "no weight is negative: " + reason)
    return None


def _in_fractions(graph: QueryGraph, quotient: DistanceQuotient, alpha: Fraction, rhs: list[Fraction]) -> Decision:
    """Return the verdict in exact fractions; Φ may be singular on the cells."""
    cell_of = quotient.cells.cell_of
    # Multiplied by common denominators, the system has integers only.
    matrix, scale = quotient.integer_matrix(alpha)
    common = math.lcm(*(b.denominator for b in rhs))
    solved = exact_solutions(matrix * common, np.array([int(b * common) * scale for b in rhs], dtype=object))
    if solved is None:
        return Decision(Verdict.NO, None, None, math.inf, "the system has no solution, in exact fractions")
    one, basis = solved
    if not basis:
        low = min(range(len(one)), key=one.__getitem__)
        result = graph.results[int(np.flatnonzero(cell_of == low)[0])] if one[low] < 0 else None
        verdict = Verdict.NO if one[low] < 0 else Verdict.YES
        return Decision(verdict, result, _expand(_floats(one), cell_of), _rounding(one), "solved in exact fractions")
    chosen = _on_line(one, basis[0]) if len(basis) == 1 else _inside(one, basis)
    if chosen is not None:
        reason = "the matrix is singular; a solution that is not negative was found, in exact fractions"
        return Decision(Verdict.YES, None, _expand(_floats(chosen), cell_of), _rounding(chosen), reason)
    if len(basis) == 1:
        reason = "the matrix is singular, and all solutions, a line, are negative somewhere, in exact fractions"
        return Decision(Verdict.NO, None, None, math.inf, reason)
    return Decision(Verdict.UNDECIDED, None, None, math.inf, "the matrix is singular with a null space of several axes")


def _on_line(one: list[Fraction], direction: list[Fraction]) -> list[Fraction] | None:
    """Return the middle of the non-negative part of a line, exactly; None if that part is empty."""
    low = [-p / v for p, v in zip(one, direction, strict=True) if v > 0]
    high = [-p / v for p, v in zip(one, direction, strict=True) if v < 0]
    if any(p < 0 for p, v in zip(one, direction, strict=True) if v == 0) or (low and high and max(low) > min(high)):
        return None
    # Without an end on one side, the other end serves.
    t = (max(low) + min(high)) / 2 if low and high else (max(low) if low else min(high))
    return [p + t * v for p, v in zip(one, direction, strict=True)]


def _inside(one: list[Fraction], basis: list[list[Fraction]]) -> list[Fraction] | None:
    """Return a non-negative point of a plane by a linear program, checked in fractions; None without success."""
    # The import takes as long as a small plan.
    from scipy import optimize

    directions = np.array([[float(x) for x in v] for v in basis]).T
    k = directions.shape[1]
    constraints = np.column_stack([-directions, np.ones(len(one))])
    cost = np.append(np.zeros(k), -1.0)
    # The program maximises the least entry, up to 1: without this limit it could be unbounded.
    bounds = [(None, None)] * k + [(None, 1.0)]
    result = optimize.linprog(cost, A_ub=constraints, b_ub=_floats(one), bounds=bounds)
    if not result.success or result.x is None:
        return None
    steps = [Fraction(float(t)).limit_denominator(10**9) for t in result.x[:k]]
    point = [p + sum((t * v[i] for t, v in zip(steps, basis, strict=True)), Fraction(0)) for i, p in enumerate(one)]
    # The solver only proposes; the fractions decide.
    return point if min(point) >= 0 else None


def _floats(exact: Sequence[Fraction]) -> Floats:
    return np.array([float(x) for x in exact])


def _rounding(exact: Sequence[Fraction]) -> float:
    return 2 * UNIT * max(abs(float(x)) for x in exact)


def _expand(values: Floats, groups: Integers) -> Floats:
    result = values[groups]
    result.setflags(write=False)
    return result


# --- large boxes ---------------------------------------------------------------------------------------------------


def _of_box(graph: QueryGraph, box: Box, level: PrivacyLevel) -> Decision:
    """Decide a box by the least eigenvalue: ‖z − z̃‖_∞ ≤ ‖z − z̃‖₂ ≤ ‖1 − Φ z̃‖₂ / λ."""
    solution = weighting(graph, float(level))
    min_eigenvalue = eigenvalue_bound(box, math.exp(-float(level)))
    if not min_eigenvalue > 0:
        reason = "the matrix is not proven definite at this ε, and there are too many unlike results to enclose"
        return Decision(Verdict.UNDECIDED, None, solution.z, math.inf, reason)
    # The sum of all |z̃| stays below 2⁶¹ in these units, so sums over boxes are exact 64-bit integers.
    shift = 61 - math.ceil(math.log2(float(np.abs(solution.z).sum()) + 1))
    wholes = np.rint(np.ldexp(solution.z, shift)).astype(np.int64)
    residual, off = _residual(box, float(level), wholes, shift)
    norm = (float(np.linalg.norm(residual)) * (1 + 4 * graph.n * UNIT) + math.sqrt(graph.n) * off) * (1 + 1e-9)
    # The second term is the rounding of z̃ to multiples of 2^−shift.
    radius = norm / min_eigenvalue + 2.0**-shift
    low = int(solution.z.argmin())
    reason = f"a residual of {norm:.1e} in norm, and the least eigenvalue at least {min_eigenvalue:.3g}"
    if solution.z[low] < -radius:
        return Decision(Verdict.NO, graph.results[low], solution.z, radius, "a weight is negative: " + reason)
    if solution.z[low] > radius:
        return Decision(Verdict.YES, None, solution.z, radius, "no weight is negative: " + reason)
    return Decision(Verdict.UNDECIDED, None, solution.z, radius, "a weight is too close to 0: " + reason)


def _residual(box: Box, epsilon: float, wholes: Integers, shift: int) -> tuple[Floats, float]:
    """Return 1 − Φ z for z = wholes · 2^−shift, and a bound on the error of every entry.

    Sums over boxes are exact in integers. The weight (1 − α) α^m of each has a relative error of at most
    (m (ε + 5) + 10) · 2⁻⁵³. A sum of M terms has one of M · 2⁻⁵³. Terms beyond M are at most α^M Σ |z|.
    """
    total = float(np.abs(wholes).sum()) * 2.0**-shift
    # The terms beyond are below e⁻⁴⁰; their bound is added to the error.
    levels = math.ceil((40 + math.log(total + 1)) / epsilon)
    result, size = np.zeros(box.n), 0.0
    for m in range(levels):
        weight = -math.expm1(-epsilon) * math.exp(-epsilon * m)
        sums = np.ldexp(_box_sums(wholes.reshape(box.shape), [m * v for v in box.steps]).ravel().astype(float), -shift)
        result += weight * sums
        size += weight * float(np.abs(sums).max())
    off = (levels * (5 * epsilon + 12) + 20) * UNIT * (size + 1) + math.exp(-epsilon * levels) * total * 1.01
    return 1 - result, off


def _box_sums(values: NDArray[np.int64], radii: list[int]) -> NDArray[np.int64]:
    """Return sums over all points within the radius of every axis. Exact: sums of all |values| stay below 2⁶²."""
    for axis, r in enumerate(radii):
        if r == 0:
            continue
        n = values.shape[axis]
        before = np.concatenate([np.zeros_like(values.take([0], axis)), np.cumsum(values, axis=axis)], axis=axis)
        i = np.arange(n)
        values = before.take(np.minimum(i + r + 1, n), axis) - before.take(np.maximum(i - r, 0), axis)
    return values


# --- thresholds ----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Threshold:
    """The ε from which on the mechanism exists.

    Attributes:
        epsilon: ε*, the start of the last ray; 0 if the mechanism exists for every ε of the search.
        bracket: The mechanism does not exist at the first number and exists at the second, both proven. The first is 0
            for ε* = 0, and the second is 0 too if existence is proven for every ε.
        proven: True if existence is proven for every ε from the bracket on. Otherwise gaps above ε* are excluded at the
            scanned values only.
        windows: Pairs of ε < ε* between which it exists as well, in increasing order. A scan finds them, and may miss
            narrower ones. The first may begin at 0.
    """

    epsilon: float
    bracket: tuple[float, float]
    proven: bool
    windows: tuple[tuple[float, float], ...]


_ALWAYS = Threshold(0.0, (0.0, 0.0), proven=True, windows=())


def threshold(graph: QueryGraph) -> Threshold:
    """Find the least ε from which on the mechanism of tight constraints exists, to 12 digits, and the windows below it.

    The search scans SCAN evenly spaced values of α above the one below which existence is certain. It narrows every
    change of the verdict, with both ends decided by proof. Then it proves the ray above the last change piece by piece:
    on [ε, ε + h], z is within a proven distance of its tangent.

    Raises:
        WorkloadError: The graph has too many results or cells, or no proof decides a change of the verdict. Thresholds
            settle quickly as people are added, so try a smaller number of people.

    **Guarantees**
        * The ends of the bracket are proven. Their distance is at most 4 · 10⁻¹³ max(1, ε*). It is larger only if Φ is
          too close to singular to decide a sign between them.
        * Closed forms are used if they exist. ε* is 0 for results in a row, rings and complete graphs, and log(Δ − 1)
          for trees of largest degree Δ > 2. For products it is the largest ε* of the factors.
    """
    s = graph.structure
    if isinstance(s, Product) and not s.is_joint:
        return _product_threshold([threshold(g) for g in s.factors])
    if _closed(graph):
        return _ALWAYS
    if isinstance(s, ExplicitGraph) and all(len(b.others) == 1 for b in blocks(s)):
        return _tree_threshold(s)
    parts = cells(graph)
    if parts.m == 1:
        return _ALWAYS
    if parts.m * graph.n > THRESHOLD_ENTRIES or graph.n > REFINED_LIMIT * 8:
        raise WorkloadError(
            "too-many-results-for-threshold",
            f"The graph, or one of its factors, has {graph.n} results, {parts.m} different by symmetry. These are too "
            "many for a search.",
            "Thresholds soon stop changing as people are added.",
            "Give a smaller graph of the same kind.",
            "Nothing was computed.",
        )
    return _ThresholdSearch(graph, DistanceQuotient.from_graph(graph, parts)).run()


def _tree_threshold(s: ExplicitGraph) -> Threshold:
    """Return the threshold of a tree: z_i = 1 − deg(i) α/(1 + α) ≥ 0 if and only if α (deg(i) − 1) ≤ 1."""
    degree = int(np.bincount(s.pairs.ravel(), minlength=1).max()) if len(s.pairs) else 0
    if degree <= 2:
        return _ALWAYS
    # α (deg − 1) = 1.
    star = math.log(degree - 1)
    # The rounding of the logarithm.
    width = 4 * UNIT * max(1.0, star)
    return Threshold(star, (star - width, star + width), proven=True, windows=())


def _product_threshold(factors: list[Threshold]) -> Threshold:
    """Return the threshold of a product, whose factors must all exist: rays meet in a ray, windows in windows."""
    common = [(0.0, math.inf)]
    for f in factors:
        pieces = [*f.windows, (f.epsilon, math.inf)]
        overlaps = [(max(a, c), min(b, d)) for a, b in common for c, d in pieces]
        common = sorted((a, b) for a, b in overlaps if a < b)
    last = max(factors, key=lambda f: f.epsilon)
    proven = all(f.proven for f in factors)
    return Threshold(last.epsilon, last.bracket, proven=proven, windows=tuple(common[:-1]))


@dataclass(frozen=True, eq=False)
class _ThresholdSearch:
    graph: QueryGraph
    quotient: DistanceQuotient

    def run(self) -> Threshold:
        top = self._certain()
        alphas = np.linspace(math.exp(-top), 1, SCAN + 2)[:-1]
        epsilons = [top, *(-np.log(alphas[1:])).tolist()]
        # The scan uses floats: it only finds the intervals whose ends are then proven.
        exists = [True, *(self._leasts(np.array(epsilons[1:])) >= 0).tolist()]
        steps = zip(epsilons[:-1], epsilons[1:], exists[:-1], exists[1:], strict=True)
        # Existence is not monotone in ε, so every change of the verdict is narrowed, not only the first.
        ends = [self._switch(e, f, a) for e, f, a, b in steps if a != b]
        if not ends:
            proven = self._climb(epsilons[-1], top, is_proven_at_start=False)
            return Threshold(0.0, (0.0, epsilons[-1] if proven else top), proven, ())
        low, high = ends[0]
        # A scan that ends with existence has a window down to 0.
        below = [(a + b) / 2 for a, b in ends[1:]] + ([0.0] if exists[-1] else [])
        windows = tuple((below[k + 1], below[k]) for k in range(0, len(below) - 1, 2))[::-1]
        proven = self._climb(high, top, is_proven_at_start=True)
        return Threshold((low + high) / 2, (low, high), proven, windows)

    def _certain(self) -> float:
        """Return an ε from which on the largest row sum s of Φ without its diagonal is below 1."""
        # The import takes as long as a small plan.
        from scipy import optimize

        # The diagonal of Φ adds 1 to each row sum, so s < 1 is a row sum below 2.
        def excess(e: float) -> float:
            return float(self.quotient.floats(e).sum(axis=1).max()) - 2 + 1e-6

        return float(optimize.brentq(excess, 1e-9, math.log(self.graph.n) + 1, xtol=1e-9)) + 1e-8

    def _solution(self, epsilon: float) -> Floats:
        try:
            return np.asarray(np.linalg.solve(self.quotient.floats(epsilon), np.ones(self.quotient.cells.m)))
        except np.linalg.LinAlgError:
            # A singular matrix counts as no existence in the scan; the verdict is then narrowed around it.
            return np.full(self.quotient.cells.m, -1.0)

    def _leasts(self, epsilons: Floats) -> Floats:
        """Return the least entry of each solution, in batches of ε."""
        many = max(SCAN_ENTRIES // self.quotient.steps.size, 1)
        z = []
        for batch in np.split(epsilons, range(many, len(epsilons), many)):
            try:
                z.append(np.linalg.solve(self.quotient.floats(batch), np.ones((self.quotient.cells.m, 1)))[..., 0])
            # One matrix of the batch is singular.
            except np.linalg.LinAlgError:
                z.append(np.array([self._solution(e) for e in batch.tolist()]))
        return np.asarray(np.concatenate(z).min(axis=1))

    def _decide(self, epsilon: float) -> Verdict:
        return _of_quotient(self.graph, self.quotient, level(epsilon), [Fraction(1)] * self.quotient.cells.m).verdict

    def _switch(self, upper: float, lower: float, above: bool) -> tuple[float, float]:
        """Return two ε close together with proven verdicts, between which the verdict changes an odd number of times.

        The first has the verdict of `lower`, the second that of `upper`. `above`: True if the mechanism exists at
        `upper`, and not at `lower`; False for the opposite.
        """
        # The import takes as long as a small plan.
        from scipy import optimize

        exists, not_ = (upper, lower) if above else (lower, upper)
        worst = int(self._solution(not_).argmin())
        ends = self._solution(exists)[worst], self._solution(not_)[worst]
        # The entry that is negative on one side crosses 0 in between; its root is found faster than the verdict by
        # bisection.
        if ends[0] > 0 > ends[1]:
            root = float(optimize.brentq(lambda e: self._solution(float(e))[worst], lower, upper, xtol=1e-14))
            # Close to a singular matrix, the root in floats can be off by more than the bracket.
            root = self._polished(root, worst)
            width = DIGITS * max(1.0, root)
            if lower < root - width and root + width < upper:
                want = (Verdict.NO, Verdict.YES) if above else (Verdict.YES, Verdict.NO)
                # Only proven verdicts at both ends count; otherwise bisection decides.
                if (self._decide(root - width), self._decide(root + width)) == want:
                    return root - width, root + width
        return self._bisected(lower, upper, above)

    def _polished(self, root: float, worst: int) -> float:
        """Return the root after one step of the secant method with many digits."""
        h = 1e-7
        values = []
        for e in (root, root + h):
            one = np.array([1 << BITS] * self.quotient.cells.m, dtype=object)
            enclosed = enclose(*self.quotient.fixed(level(e)), one)
            if enclosed is None:
                return root
            values.append(int(enclosed.values[worst]) / (1 << BITS))
        slope = (values[1] - values[0]) / h
        return root - values[0] / slope if slope else root

    def _bisected(self, lower: float, upper: float, above: bool) -> tuple[float, float]:
        """Return the result of :meth:`_switch`, by bisection; wider if Φ is too close to singular for the middle."""
        want = (Verdict.NO, Verdict.YES) if above else (Verdict.YES, Verdict.NO)
        if (self._decide(lower), self._decide(upper)) != want:
            raise WorkloadError(
                "threshold-not-proven",
                f"No proof decides whether the mechanism exists between epsilon {lower:.6g} and {upper:.6g}.",
                "The matrix is too close to a singular one there.",
                "Call existence() at the epsilon that you need.",
                "No threshold was found.",
            )
        while upper - lower > 2 * DIGITS * max(1.0, upper):
            middle = (lower + upper) / 2
            verdict = self._decide(middle)
            if verdict is Verdict.UNDECIDED:
                break
            lower, upper = (middle, upper) if verdict is want[0] else (lower, middle)
        return lower, upper

    def _climb(self, start: float, top: float, *, is_proven_at_start: bool) -> bool:
        """Return True if existence is proven on all of [start, top].

        `is_proven_at_start`: it is proven at the start.
        """
        if not is_proven_at_start and self._decide(start) is not Verdict.YES:
            return False
        position, step, is_proven_at_start = start, 1e-3, True
        while position < top:
            # The proven radius of the last tangent suggests the next step; too long a step is halved.
            step = min(step * 2, 1.0)
            tangent = _Tangent.from_quotient(self.quotient, position)
            while tangent is None or not tangent.stays(step, is_proven_at_start=is_proven_at_start):
                step /= 2
                if tangent is None or step < 1e-9:
                    return False
            position, is_proven_at_start = position + step, False
        return True


@dataclass(frozen=True, eq=False)
class _Tangent:
    """The tangent w̃ = w + t w′ of the weights of the cells at ε + t, t ≥ 0, with a proven bound on its error.

    B is the system on the cells at ε. B₁ and B₂ are its moments: the sums of B with each term times d, and times d².
    The computed solution at ε is w, with the residual r = 1 − B w. Its slope is w′, with the residual r₁ = B₁ w − B w′.

    Let B(ε + t) = B − t B₁ + Q with 0 ≤ Q ≤ ½ t² B₂, and R ≈ B⁻¹. The residual 1 − B(ε + t) w̃ is
    r + t r₁ + t² (B₁ w′) − Q w̃. Let β = ‖I − R B(ε + t)‖ < 1, with β_i the sums of rows, and g = |R| |residual|. Then
    the error of w̃ is |e_i| ≤ g_i + β_i max g / (1 − β).

    inverse: R.
    solution: w.
    slope: w′.
    fixed: |R| |r|, where r has an allowance for rounding.
    linear: |R| |r₁|, where r₁ has one, too.
    square: The factors of t² and of t³ in the bound on g.
    remainder: The factors of 1, t and t² in the bound on β_i.
    """

    inverse: Floats
    solution: Floats
    slope: Floats
    fixed: Floats
    linear: Floats
    square: tuple[Floats, Floats]
    remainder: tuple[Floats, Floats, Floats]

    @classmethod
    def from_quotient(cls, quotient: DistanceQuotient, epsilon: float) -> _Tangent | None:
        """Return the tangent at ε; None if B cannot be inverted."""
        b, b1, b2 = (quotient.floats(epsilon, k) for k in range(3))
        m = len(b)
        try:
            inverse = np.asarray(np.linalg.inv(b), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None
        # The relative error of an entry of B: exp of −ε d, and the sums of a cell.
        entry = UNIT * (8 + 750 + quotient.cells.cell_of.size)
        w: Floats = inverse @ np.ones(m)
        # One step of refinement, as the residual is what the bound multiplies.
        w = w + inverse @ (1 - b @ w)
        slope: Floats = inverse @ (b1 @ w)
        slope = slope + inverse @ (b1 @ w - b @ slope)
        size: Floats = np.abs(inverse)
        loose = entry + 4 * (m + 8) * UNIT
        r = np.abs(1 - b @ w) + loose * (1 + b @ np.abs(w))
        r1 = np.abs(b1 @ w - b @ slope) + loose * (b1 @ np.abs(w) + b @ np.abs(slope))
        linear_rest = np.abs(inverse @ b1).sum(axis=1) + loose * (size @ b1.sum(axis=1))
        rest = contraction(inverse, b, entry * b)
        squares = (size @ (b1 @ np.abs(slope) + b2 @ np.abs(w) / 2), size @ (b2 @ np.abs(slope)) / 2)
        remainder = (rest, linear_rest, size @ b2.sum(axis=1) / 2)
        return cls(inverse, w, slope, size @ r, size @ r1, squares, remainder)

    def stays(self, h: float, *, is_proven_at_start: bool) -> bool:
        """Return True if z ≥ 0 is proven on all of [ε, ε + h].

        `is_proven_at_start`: z ≥ 0 at ε is proven by other means.

        The lower bound of an entry is concave in t. So the entry is ≥ 0 on the complete interval if both ends of the
        bound are. If z ≥ 0 is known at ε, w stands for the exact solution there: r = 0, and the error of r₁ is added.
        Entries whose bound at ε + h is then at least that at ε are ≥ 0 on the complete interval, too.
        """
        rounding = 1 + 1e-6
        rest, linear_rest, curved = self.remainder
        beta = (rest + h * linear_rest + h * h * curved) * rounding
        worst = float(beta.max())
        if not worst < 0.5:
            return False
        squared = self.square[0] + h * self.square[1]
        fixed, linear, squares = (
            (g + beta * float(g.max()) / (1 - worst)) * rounding for g in (self.fixed, self.linear, squared)
        )
        start = self.solution - fixed
        end = start + h * (self.slope - linear - h * squares)
        if (start >= 0).all():
            return bool((end >= 0).all())
        # The error of r₁, since w is not the exact z.
        inexact = 2 * float(fixed.max()) * float(linear_rest.max())
        rising = self.slope - linear - inexact - h * squares >= 0
        return bool(is_proven_at_start and ((start >= 0) & (end >= 0) | rising).all())


def paper_threshold(
    graph: QueryGraph, tolerance: float = 1e-4, prior: ArrayLike | None = None, highest: float = 5.0
) -> float:
    """Return the "least ε" that a tolerance finds: a diagnostic that only explains the numbers of the paper.

    It is the least ε = k/100 such that y = π Φ⁻¹ ≥ −tolerance there and at all k/100 up to `highest`. With the default
    it is 0.80, 0.90 and 0.48 for the examples of the paper. The thresholds are 0.968133…, 1.136080… and log 2. At 0.80
    the first example has a weight of −0.0701, which is not a probability. The function returns a plain number, not a
    decision, because no mechanism may rest on it: mechanisms take :func:`existence` only.

    Args:
        graph: The query graph.
        tolerance: Largest allowed negative size of y.
        prior: π, (n,); None for uniform, y = z/n.
        highest: The ε at which the search starts, downwards.

    Raises:
        WorkloadError: y is more negative than the tolerance at `highest` already, or the prior does not fit.

    **Source.** Section 6 and example 3.
    """
    exact = None if prior is None else np.array([float(p) for p in _prior(graph, prior)])
    smallest = math.nan
    for k in range(round(highest * PAPER_GRID), 0, -1):
        e = k / PAPER_GRID
        y = weighting(graph, e).z / graph.n if exact is None else Similarity(graph, e).solve(exact)
        if y.min() < -tolerance:
            break
        smallest = e
    if math.isnan(smallest):
        raise WorkloadError(
            "threshold-above-start",
            f"At epsilon {highest}, an entry is already below −{tolerance}.",
            "",
            "Start from a higher epsilon.",
            "No threshold was found.",
        )
    return smallest


def without_tight_constraints(epsilon: Fraction, minimum: float | None, number: int | None = None) -> PlanError:
    """Return the error for an ε at which the tight-constraints mechanism does not exist.

    Args:
        epsilon: The given ε.
        minimum: Least entry of z, which is negative; None if it is not known.
        number: Number of the result with this entry, from 1; None if it is not known.
    """
    result = "" if number is None else f" of result number {number}"
    entry = "" if minimum is None else f", because the probability{result} would be {minimum:.6g}"
    return PlanError(
        "no-tight-constraints",
        f"The tight-constraints mechanism does not exist at ε = {float(epsilon):.6g}{entry}.",
        "",
        "Choose a larger ε or, for up to 4,096 results, the residual-column mechanism, which exists for every ε.",
        "No mechanism was made.",
    )


def tight_constraints_undecided(epsilon: Fraction, why: str) -> PlanError:
    """Return the error for an ε at which neither existence nor its opposite is proven.

    Args:
        epsilon: The given ε.
        why: Reason, as the end of a sentence.
    """
    return PlanError(
        "tight-constraints-undecided",
        f"No proof decides whether the tight-constraints mechanism exists at ε = {float(epsilon):.6g}: {why}.",
        "",
        "Choose a larger ε or, for up to 4,096 results, the residual-column mechanism, which exists for every ε.",
        "No mechanism was made.",
    )


def certificate_contradicted() -> PlanError:
    """Return the error for a proof of existence that another proof contradicts."""
    return PlanError(
        "existence-contradicted",
        "One proof certifies that the mechanism exists, and another that a weight is below 0.",
        "",
        "Report this defect.",
        "No mechanism was made.",
    )
