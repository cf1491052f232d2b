"""Proven solutions of linear systems: fixed-point integers, exact fractions, and bounds on rounding.

A number is stored as an integer x that stands for x · 2⁻¹⁹².

**Statement.** Let R be a floating-point inverse of B. Let β ≥ ‖I − R B‖ in the row-sum norm, with every rounding error
added. Let w̃ be any vector, with the residual r = b − B w̃. If β < 1 then B is not singular, and the true solution w of
B w = b has

    |w − w̃|_∞ ≤ |R r|_∞ / (1 − β).

The residual is computed in integers, and w̃ is refined until the residual is below some 50 digits. So the sign of w_i
is known if |w_i| is above that. The module uses no tolerance: a sign is proven or it is not.

**Source.** Rump: Verification methods: rigorous results using floating-point arithmetic, Acta Numerica 19, 2010,
section 10; elimination without fractions: Bareiss, Mathematics of Computation 22, 1968.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.checks import is_real
from fitnoise.kernel.designs.graphs import QueryGraph
from fitnoise.mechanisms.finite.partitions import GraphPartition

Wholes = NDArray[np.object_]
"""Python's integers in an array."""

BITS = 192

UNIT = 2.0**-53
"""Largest relative error of one operation in floating point."""

LARGEST_EPSILON = 1000
"""Largest ε: above it e^(−ε) is 0 in most arithmetic."""

INVERTED_LIMIT = 24
"""Most rows of a matrix whose inverse is computed in exact fractions if floating point fails."""

_DIGITS = 80
"""Decimal digits of powers: more than BITS."""

_ROUNDS = 40

_CONTRACTION = 0.5
"""Largest accepted β."""


@final
@dataclass(frozen=True)
class PrivacyLevel:
    """The privacy parameter as an exact number: ε, or α = e^(−ε).

    Attributes:
        epsilon: An exact ε > 0; None if α is exact.
        alpha: An exact α in (0, 1); None if ε is exact.
    """

    epsilon: Fraction | None
    alpha: Fraction | None

    def __float__(self) -> float:
        return float(self.epsilon) if self.epsilon is not None else -math.log(self.alpha or 1)

    def powers(self, count: int) -> list[int]:
        """Return α⁰ … α^(count−1) in fixed point, each with an error below one unit."""
        if self.alpha is not None:
            exact, result = Fraction(1 << BITS), []
            for _ in range(count):
                result.append(round(exact))
                exact = Fraction(0) if exact < 1 else exact * self.alpha
                # The cut changes the power by less than 2⁻²⁵⁶, and keeps its fraction short.
                if exact and exact.denominator.bit_length() > 4096:
                    exact = Fraction(int(exact * (1 << 256)), 1 << 256)
            return result
        assert self.epsilon is not None  # noqa: S101
        with localcontext() as context:
            context.prec = _DIGITS
            alpha = (-Decimal(self.epsilon.numerator) / Decimal(self.epsilon.denominator)).exp()
            power, result = Decimal(1 << BITS), []
            for _ in range(count):
                result.append(round(power))
                power = Decimal(0) if power < Decimal("1e-30") else power * alpha
            return result


def level(epsilon: float | Fraction | None, alpha: Fraction | None = None) -> PrivacyLevel:
    """Return the exact privacy parameter; a float is taken as its exact fraction.

    Raises:
        WorkloadError: Not exactly one of both is given. ε is not above 0 and at most LARGEST_EPSILON, or α is not a
            fraction in (0, 1).
    """
    if (epsilon is None) == (alpha is None):
        raise WorkloadError(
            "epsilon-or-alpha",
            "Both epsilon and alpha are given, or neither is.",
            "Alpha is e^(−epsilon), as a fraction.",
            "Give epsilon or alpha.",
            "Nothing was computed.",
        )
    if alpha is not None:
        if not isinstance(alpha, Fraction) or not 0 < alpha < 1:
            raise WorkloadError(
                "alpha-out-of-range",
                f"alpha is {alpha!r}.",
                "",
                "Give alpha as a Fraction between 0 and 1, both excluded.",
                "Nothing was computed.",
            )
        return PrivacyLevel(None, alpha)
    real = is_real(epsilon) or isinstance(epsilon, Fraction)
    if not real or not 0 < epsilon <= LARGEST_EPSILON:  # type: ignore[operator]
        raise WorkloadError(
            "graph-epsilon-out-of-range",
            f"epsilon is {epsilon!r}.",
            "",
            f"Give a number above 0 and at most {LARGEST_EPSILON}.",
            "Nothing was computed.",
        )
    return PrivacyLevel(Fraction(epsilon if isinstance(epsilon, Fraction) else float(epsilon)), None)  # type: ignore[arg-type]


# --- the system of a graph -----------------------------------------------------------------------------------------


def index_distances(distances: Floats) -> tuple[Integers, int]:
    """Return distances as indices in a list of powers, and its length; ∞ is the last index, for α^∞ = 0."""
    finite = np.isfinite(distances)
    farthest = int(distances[finite].max()) if finite.any() else 0
    return np.where(finite, distances, farthest + 1).astype(np.int64), farthest + 2


def by_cell(matrix: NDArray[Any], cells: GraphPartition) -> NDArray[Any]:
    """Return sums of columns over the cells, (…, rows, m)."""
    order = np.argsort(cells.cell_of, kind="stable")
    # No cell is empty, which `reduceat` would treat otherwise.
    starts = np.searchsorted(cells.cell_of[order], np.arange(cells.m))
    return np.asarray(np.add.reduceat(matrix[..., order], starts, axis=-1))


@final
@dataclass(frozen=True, eq=False)
class DistanceQuotient:
    """B of :mod:`fitnoise.mechanisms.finite.partitions` for every α.

    B_CD = Σ_{j in D} α^d(i,j), for cells C and D and the first result i of C.

    Attributes:
        cells: The cells.
        steps: Distances from their first results as indices in a list of powers, (m, n).
        count: The length of that list; its last entry is 0, for ∞.
    """

    cells: GraphPartition
    steps: Integers
    count: int

    @classmethod
    def from_graph(cls, graph: QueryGraph, cells: GraphPartition) -> DistanceQuotient:
        """Return the quotient of a graph.

        Raises:
            WorkloadError: The graph is too large for its distances.
        """
        steps, count = index_distances(graph.distances_from(cells.first_results))
        return cls(cells, steps, count)

    def floats(self, epsilon: float | Floats, moment: int = 0) -> Floats:
        """Return Σ_{j in D} d^moment e^(−ε d), (m, m); for several ε (…,) a stack (…, m, m)."""
        d = np.arange(self.count)
        powers = d**moment * np.exp(-np.multiply.outer(epsilon, d))
        # At distance ∞.
        powers[..., -1] = 0
        return by_cell(powers[..., self.steps], self.cells)

    def fixed(self, level: PrivacyLevel) -> tuple[Wholes, Wholes]:
        """Return B in fixed point, (m, m), and the largest error of an entry of each column, in units, (m,)."""
        # Each power errs by less than one unit, so a sum over a cell errs by less than its size.
        return self._sums([*level.powers(self.count - 1), 0]), np.bincount(self.cells.cell_of).astype(object)

    def integer_matrix(self, alpha: Fraction) -> tuple[Wholes, int]:
        """Return B times an integer, exactly, (m, m), and that integer."""
        p, q, top = alpha.numerator, alpha.denominator, self.count - 2
        return self._sums([*(p**d * q ** (top - d) for d in range(top + 1)), 0]), q**top

    def _sums(self, powers: list[int]) -> Wholes:
        table = np.empty(self.count, dtype=object)
        table[:] = powers
        return by_cell(table[self.steps], self.cells)


# --- exact ---------------------------------------------------------------------------------------------------------


def exact_solve(matrix: Wholes, rhs: Wholes) -> list[Fraction] | None:
    """Return the solution of a square system of integers, exactly; None if the matrix is singular.

    Args:
        matrix: The matrix, (m, m), an object array of Python integers; products in an int64 array would overflow.
        rhs: The right-hand side, (m,), an object array of Python integers.

    **Source.** Bareiss 1968: every division has remainder 0.
    """
    m = len(matrix)
    a = np.column_stack([matrix, rhs])
    last = 1
    for k in range(m):
        pivots = np.flatnonzero(a[k:, k])
        if not len(pivots):
            return None
        # Any pivot other than 0 serves: the arithmetic is exact.
        a[[k, k + int(pivots[0])]] = a[[k + int(pivots[0]), k]]
        a[k + 1 :] = (a[k + 1 :] * a[k, k] - a[k + 1 :, k : k + 1] * a[k : k + 1]) // last
        last = a[k, k]
    solution = [Fraction(0)] * m
    for k in reversed(range(m)):
        rest = sum((int(a[k, j]) * solution[j] for j in range(k + 1, m)), Fraction(0))
        solution[k] = (int(a[k, m]) - rest) / int(a[k, k])
    return solution


def exact_solutions(matrix: Wholes, rhs: Wholes) -> tuple[list[Fraction], list[list[Fraction]]] | None:
    """Return all solutions of a system of integers: one, and a basis of the null space; None if there is no solution.

    The result is exact, by elimination in fractions. It is for small systems.
    """
    m, n = matrix.shape
    rows = [[Fraction(int(x)) for x in (*row, b)] for row, b in zip(matrix, rhs, strict=True)]
    pivots: list[int] = []
    for c in range(n):
        k = len(pivots)
        pivot = next((i for i in range(k, m) if rows[i][c]), None)
        if pivot is None:
            continue
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][c] for x in rows[k]]
        for i in range(m):
            if i != k and rows[i][c]:
                rows[i] = [x - rows[i][c] * y for x, y in zip(rows[i], rows[k], strict=True)]
        pivots.append(c)
    if any(row[n] for row in rows[len(pivots) :]):
        return None
    one = [Fraction(0)] * n
    for row, c in zip(rows, pivots, strict=False):
        one[c] = row[n]
    basis = []
    for free in sorted(set(range(n)) - set(pivots)):
        v = [Fraction(int(c == free)) for c in range(n)]
        for row, c in zip(rows, pivots, strict=False):
            v[c] = -row[free]
        basis.append(v)
    return one, basis


# --- enclosed ------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Enclosure:
    """A proven enclosure of w: |w_i − values_i · 2⁻¹⁹²| ≤ radius · 2⁻¹⁹² for every i.

    Attributes:
        values: The midpoints in fixed point, (m,).
        radius: The radius, one for all i, in fixed point, rounded up.
    """

    values: Wholes
    radius: int

    @property
    def floats(self) -> Floats:
        """The midpoints, (m,)."""
        return np.array([x / (1 << BITS) for x in self.values])

    @property
    def width(self) -> float:
        """The radius as a float, rounded up."""
        return math.nextafter(self.radius / (1 << BITS), math.inf)


def contraction(inverse: Floats, matrix: Floats, off: Floats) -> Floats:
    """Return upper bounds of the row sums of |I − R B|, (m,), for every B within `off` of the matrix, entry by entry.

    Rounding of the product is bounded by 2 (m + 4) · 2⁻⁵³ · |R| |B|, for every order of summation.
    """
    m = len(matrix)
    size = np.abs(inverse)
    rounding = 2 * (m + 4) * UNIT * (size @ np.abs(matrix).sum(axis=1))
    rest = np.abs(np.eye(m) - inverse @ matrix).sum(axis=1)
    return np.asarray((rest + rounding + size @ off.sum(axis=1)) * (1 + 8 * (m + 4) * UNIT) + 1e-300)


def enclose(matrix: Wholes, off: Wholes, rhs: Wholes, rhs_off: int = 0) -> Enclosure | None:
    """Return a proven enclosure of the solution of B w = b; None if B is singular or too close to it.

    Args:
        matrix: B in fixed point, (m, m).
        off: Largest error of any entry of a column, in units, (m,).
        rhs: b in fixed point, (m,).
        rhs_off: Largest error of b, in units.

    **Guarantees**
        * If an enclosure is returned, every such B is not singular, and the enclosure holds the solution for every such
          B and b.
    """
    one = 1 << BITS
    m = len(matrix)
    floats = np.array([[x / one for x in row] for row in matrix])
    inverse = _inverse(floats)
    if inverse is None:
        # No float inverse: the matrix may still be regular by the digits that floats lack.
        return _enclose_exactly(matrix, off, rhs, rhs_off)
    entries_off = 2 * UNIT * np.abs(floats) + (off.astype(np.float64) * 2.0 ** (1 - BITS))[None, :]
    beta = float(contraction(inverse, floats, entries_off).max())
    if not beta < _CONTRACTION:
        return _enclose_exactly(matrix, off, rhs, rhs_off)
    w = np.array([0] * m, dtype=object)
    residual, best = rhs.copy(), math.inf
    for _ in range(_ROUNDS):
        largest = max(abs(int(x)) for x in residual)
        # Refinement ends when a round no longer halves the residual: rounding of the fixed point is reached.
        if largest >= best / 2:
            break
        best = largest
        if largest == 0:
            break
        # The residual is scaled to the range of a double, whose relative precision is all that a round needs.
        shift = max(largest.bit_length() - 64, 0)
        step = inverse @ np.array([float(int(x) >> shift) for x in residual])
        w = w + np.array([_scaled(float(x), shift) for x in step], dtype=object)
        residual = rhs - np.array([int(x) >> BITS for x in matrix.dot(w)], dtype=object)
    largest_w = max(abs(int(x)) for x in w)
    # What the residual in integers cannot see: errors of the entries, of b, and of the divisions by 2¹⁹².
    unseen = (int(sum(off)) * (largest_w + one)) // one + rhs_off + 3
    largest = max(abs(int(x)) for x in residual) + unseen
    norm = float(np.abs(inverse).sum(axis=1).max()) * (1 + 4 * m * UNIT)
    return Enclosure(w, int(largest * Fraction(norm / (1 - beta) * (1 + 8 * UNIT))) + 1)


def _inverse(matrix: Floats) -> Floats | None:
    """Return a floating-point inverse; None if there is no finite one."""
    try:
        inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return inverse if np.isfinite(inverse).all() else None


def _enclose_exactly(matrix: Wholes, off: Wholes, rhs: Wholes, rhs_off: int) -> Enclosure | None:
    """Return the enclosure for small matrices close to singular ones, by the exact inverse of the integer matrix.

    With κ its norm and β = κ Σ off < 1, the error is at most κ (Σ off · max |w| + rhs_off) / (1 − β).
    """
    m = len(matrix)
    if m > INVERTED_LIMIT:
        return None
    columns = []
    for unit in np.eye(m, dtype=np.int64).astype(object):
        column = exact_solve(matrix, unit)
        if column is None:
            return None
        columns.append(column)
    norm = max(sum((abs(c[i]) for c in columns), Fraction(0)) for i in range(m))
    beta = norm * int(sum(off))
    # The bound needs β < 1, exactly.
    if beta >= 1:
        return None
    exact = [sum((c[i] * int(b) for c, b in zip(columns, rhs, strict=True)), Fraction(0)) for i in range(m)]
    wrong = norm * (int(sum(off)) * max(abs(x) for x in exact) + rhs_off) / (1 - beta)
    values = np.array([round(x * (1 << BITS)) for x in exact], dtype=object)
    return Enclosure(values, math.ceil(wrong * (1 << BITS)) + 1)


def _scaled(x: float, shift: int) -> int:
    """Return x · 2^shift as an integer, approximately: only the speed of the refinement depends on it."""
    numerator, denominator = x.as_integer_ratio()
    return (numerator << shift) // denominator
