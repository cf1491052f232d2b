"""The matrix Φ of a query graph, Φ_ij = α^d(i,j) with α = e^(−ε), as an operator; and its weighting, Φ z = 1.

The mechanism of tight constraints has P(o | i) = α^d(i,o) z_o. Its rows sum to 1 if and only if Φ z = 1. Its entries
are probabilities if and only if z ≥ 0, and then it is ε-private. Such a z is called a *weighting* of Φ. The structure
of the graph determines the solver:

| structure | method | work |
|---|---|---|
| ring, complete graph | closed form | n |
| results in a row with steps of v: counts and sums | an exact banded factorisation | n v² |
| box of more than 4,096 results, one step may change all axes | FFT and iterations, or a quotient | n log n a step |
| Cartesian product | one factor after the other | that of the factors |
| a graph with cut results, a tree, several components | one block after the other | that of the blocks |
| many symmetries | dense on the cells of :mod:`fitnoise.mechanisms.finite.partitions` | m³ |
| any other graph, and any smaller box | dense LU | n³ |

**The banded factorisation.** Let S shift by v and P = I − α S. Then P Φ Pᵀ = B has no entry farther than v − 1 from
its diagonal. The diagonal is 1 − α² and the other entries are α(1 − α), but 1 and α among the first v results. So
Φ⁻¹ = Pᵀ B⁻¹ P, exactly, for a definite or an indefinite Φ.

**Blocks.** For graphs that are glued at single results, Φ⁻¹ = Σ_blocks Φ_block⁻¹ − Σ_i (b_i − 1) e_i e_iᵀ, with b_i the
number of blocks of result i. So z_i = 1 + Σ_blocks (z_i of the block − 1); for a tree, 1 − deg(i) α/(1 + α).

**Source.** ElSalamouny, Chatzikokolakis, Palamidessi, POST 2013, definitions 4 and 7. Weightings: Leinster, The
magnitude of metric spaces, Documenta Mathematica 18, 2013. The factorisation and the bounds of eigenvalues are this
project's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft, linalg, sparse
from scipy.sparse import linalg as iterative

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.designs.graphs import Box, Complete, QueryGraph
from fitnoise.kernel.designs.implicit_mechanisms import discounted
from fitnoise.mechanisms.finite.enclosures import DistanceQuotient, by_cell, exact_solve, level
from fitnoise.mechanisms.finite.graphs import Cycle, ExplicitGraph, Product, from_edges
from fitnoise.mechanisms.finite.partitions import ENTRIES_LIMIT, cells

# Φ takes 0.5 GB at the limit.
MAX_DENSE_RESULTS = 8192
"""The largest number of results of a graph, of a block or of a factor with a dense Φ."""

SMALL = 4096
"""Most results of a box with a dense Φ; larger boxes use the FFT."""

CELLS_LIMIT = 4000
"""Most cells of a quotient that is solved."""

EXACT_LIMIT = 120
"""Most cells of a system that is solved in fractions."""

_CONVERGED = 1e-13

_ITERATIONS = 5000

_GRID = 2**18
"""Approximate number of points at which a symbol is evaluated."""

# --- solvers -------------------------------------------------------------------------------------------------------


class _Solver(Protocol):
    """Φ of one structure; x and b are (n, columns)."""

    @property
    def method(self) -> str: ...
    def times(self, x: Floats) -> Floats: ...
    def solve(self, b: Floats) -> Floats: ...


@dataclass(frozen=True)
class _Complete:
    n: int
    alpha: float
    method = "closed form"

    def times(self, x: Floats) -> Floats:
        return np.asarray((1 - self.alpha) * x + self.alpha * x.sum(axis=0))

    def solve(self, b: Floats) -> Floats:
        a = self.alpha
        return np.asarray((b - a * b.sum(axis=0) / (1 + (self.n - 1) * a)) / (1 - a))


@dataclass(frozen=True)
class _Cycle:
    n: int
    alpha: float
    method = "closed form"

    @cached_property
    def eigenvalues(self) -> Floats:
        i = np.arange(self.n)
        return np.asarray(fft.rfft(self.alpha ** np.minimum(i, self.n - i)).real, dtype=np.float64)

    def times(self, x: Floats) -> Floats:
        return np.asarray(fft.irfft(fft.rfft(x, axis=0) * self.eigenvalues[:, None], self.n, axis=0))

    def solve(self, b: Floats) -> Floats:
        # Φ of a ring is a circulant: the Fourier transform diagonalises it.
        return np.asarray(fft.irfft(fft.rfft(b, axis=0) / self.eigenvalues[:, None], self.n, axis=0))


@dataclass(frozen=True)
class _Banded:
    """Φ of results in a row: d(i, j) = ⌈|i − j|/v⌉."""

    n: int
    v: int
    alpha: float
    method = "banded"

    def times(self, x: Floats) -> Floats:
        return np.asarray(x + self._after(x) + self._after(x[::-1])[::-1])

    def solve(self, b: Floats) -> Floats:
        n, v, a = self.n, self.v, self.alpha
        k = min(v - 1, n - 1)
        bands = np.zeros((2 * k + 1, n))
        bands[k] = (1 - a) * (1 + a)
        # P leaves the first v results as they are, so their part of B is that of Φ.
        bands[k, :v] = 1
        for m in range(1, k + 1):
            entries = np.full(n - m, a * (1 - a))
            entries[: max(v - m, 0)] = a
            bands[k - m, m:] = entries
            bands[k + m, : n - m] = entries
        rhs = b.copy()
        # P b, then B, then Pᵀ.
        rhs[v:] -= a * b[:-v]
        x = linalg.solve_banded((k, k), bands, rhs, overwrite_ab=True, overwrite_b=True, check_finite=False)
        result = x.copy()
        result[:-v] -= a * x[v:]
        return np.asarray(result)

    def _after(self, x: Floats) -> Floats:
        """Return Σ_{j > i} Φ_ij x_j: g_i = α (x_{i+1} + … + x_{i+v} + g_{i+v})."""
        inside = np.zeros_like(x)
        for m in range(1, min(self.v, self.n - 1) + 1):
            inside[:-m] += x[m:]
        return self.alpha * discounted(inside, self.alpha, self.v)


@dataclass(frozen=True)
class _Fourier:
    """A box with block-Toeplitz Φ: conjugate gradients for a proven definite Φ, else minimal residuals."""

    box: Box
    alpha: float
    method = "fft"

    @cached_property
    def sizes(self) -> list[int]:
        # Long enough that no distance within the box wraps around.
        return [fft.next_fast_len(2 * s - 1, real=True) for s in self.box.shape]

    @cached_property
    def transform(self) -> NDArray[Any]:
        distances: Any = 0.0
        for axis, (s, v) in enumerate(zip(self.sizes, self.box.steps, strict=True)):
            i = np.arange(s)
            steps = -(-np.minimum(i, s - i) // v)
            distances = np.maximum(distances, steps.reshape([-1 if k == axis else 1 for k in range(len(self.sizes))]))
        return np.asarray(fft.rfftn(self.alpha**distances))

    def times(self, x: Floats) -> Floats:
        inside = tuple(slice(s) for s in self.box.shape)
        columns = []
        for c in x.T:
            spectrum = fft.rfftn(c.reshape(self.box.shape), self.sizes)
            spectrum *= self.transform
            columns.append(fft.irfftn(spectrum, self.sizes)[inside].ravel())
        return np.stack(columns, axis=1)

    def solve(self, b: Floats) -> Floats:
        n = self.box.n
        # Conjugate gradients need a definite matrix; without a proof, the slower method is used.
        definite = eigenvalue_bound(self.box, self.alpha) > 0
        phi = iterative.LinearOperator((n, n), matvec=lambda x: self.times(x.reshape(-1, 1)).ravel(), dtype=np.float64)
        columns = []
        for c in b.T:
            if definite:
                x, _ = iterative.cg(phi, c, rtol=_CONVERGED, atol=0, maxiter=_ITERATIONS)
            else:
                x, _ = iterative.minres(phi, c, rtol=_CONVERGED, maxiter=_ITERATIONS)
            columns.append(x)
        return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class _Product:
    factors: tuple[_Solver, ...]
    shape: tuple[int, ...]
    method = "product"

    def times(self, x: Floats) -> Floats:
        return self._each(x, solve=False)

    def solve(self, b: Floats) -> Floats:
        return self._each(b, solve=True)

    def _each(self, x: Floats, *, solve: bool) -> Floats:
        tensor = x.reshape(*self.shape, x.shape[1])
        for axis, f in enumerate(self.factors):
            leading = np.moveaxis(tensor, axis, 0)
            flat = np.ascontiguousarray(leading).reshape(len(leading), -1)
            tensor = np.moveaxis((f.solve(flat) if solve else f.times(flat)).reshape(leading.shape), 0, axis)
        return np.asarray(tensor.reshape(x.shape))


@dataclass(frozen=True, eq=False)
class GraphBlock:
    """A maximal part of a graph that no single result cuts.

    Attributes:
        top: The result at which the block meets the blocks found later.
        others: Its other results.
    """

    top: int
    others: Integers

    @property
    def members(self) -> Integers:
        """All its results, the top first."""
        return np.concatenate([[self.top], self.others])

    def graph(self, edges: ExplicitGraph) -> QueryGraph:
        """Return the block's own graph, whose distances are those of the complete graph."""
        inside = sparse.triu(edges.adjacency[self.members][:, self.members]).tocoo()
        return from_edges(len(self.others) + 1, np.stack(inside.coords, axis=1).astype(np.int64))


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Blocks, each after all blocks that meet its other results."""

    n: int
    blocks: list[GraphBlock]
    matrices: list[Floats]
    method = "blocks"

    def times(self, x: Floats) -> Floats:
        below, sent = x.copy(), []
        for block, phi in zip(self.blocks, self.matrices, strict=True):
            # From the leaves to the roots first, as each block comes after those that meet its other results.
            sent.append(phi[0, 1:] @ below[block.others])
            below[block.top] += sent[-1]
        total = below.copy()
        for block, phi, up in zip(reversed(self.blocks), reversed(self.matrices), reversed(sent), strict=True):
            inside = below[block.members]
            # What the block itself sent up must not come back to it.
            inside[0] = total[block.top] - up
            total[block.others] = phi[1:] @ inside
        return total

    def solve(self, b: Floats) -> Floats:
        result, number = np.zeros_like(b), np.zeros(self.n)
        for block, phi in zip(self.blocks, self.matrices, strict=True):
            result[block.members] += _lu_solve(phi, b[block.members])
            number[block.members] += 1
        return np.asarray(result - (number - 1)[:, None] * b)


@dataclass(frozen=True, eq=False)
class _Dense:
    matrix: Floats
    method = "dense"

    def times(self, x: Floats) -> Floats:
        return np.asarray(self.matrix @ x)

    def solve(self, b: Floats) -> Floats:
        return _lu_solve(self.matrix, b)


def _lu_solve(matrix: Floats, b: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(matrix, b))
    except np.linalg.LinAlgError as error:
        raise WorkloadError(
            "singular-graph-matrix",
            "The matrix of this graph is singular at this epsilon.",
            "Its system has no solution, or more than one.",
            "Call existence() for a solution without negative entries, or take a larger epsilon.",
            "Nothing was solved.",
        ) from error


def _dense(graph: QueryGraph, alpha: float) -> Floats:
    if graph.n > MAX_DENSE_RESULTS:
        raise WorkloadError(
            "graph-without-structure",
            f"The graph, or one of its parts, has {graph.n} results and no structure that fitnoise uses.",
            f"Graphs and parts without structure are solved for at most {MAX_DENSE_RESULTS} results.",
            "Use a template such as sum_query, or choose a coarser question.",
            "Nothing was solved.",
        )
    return np.asarray(alpha ** graph.distances())


def _solver(graph: QueryGraph, alpha: float) -> _Solver:  # noqa: PLR0911
    s = graph.structure
    if isinstance(s, Complete):
        return _Complete(s.n, alpha)
    if isinstance(s, Cycle):
        return _Cycle(s.n, alpha)
    if isinstance(s, Box) and len(s.shape) == 1:
        return _Banded(s.n, min(s.steps[0], max(s.n - 1, 1)), alpha)
    if isinstance(s, Box) and s.n > SMALL:
        return _Fourier(s, alpha)
    if isinstance(s, Product) and not s.is_joint:
        return _Product(tuple(_solver(g, alpha) for g in s.factors), s.shape)
    if isinstance(s, ExplicitGraph):
        parts = blocks(s)
        if not (len(parts) == 1 and len(parts[0].others) == graph.n - 1):
            # Blocks of two results are equal; a tree has no other blocks.
            pair = np.array([[1.0, alpha], [alpha, 1.0]])
            matrices = [pair if len(b.others) == 1 else _dense(b.graph(s), alpha) for b in parts]
            return _Blocks(s.n, parts, matrices)
    return _Dense(_dense(graph, alpha))


# --- the operator --------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Similarity:
    """The operator Φ_ij = e^(−ε d(i,j)), which reads entries only if no structure helps.

    Attributes:
        graph: The query graph.
        epsilon: ε > 0, at most `enclosures.LARGEST_EPSILON`.

    Raises:
        WorkloadError: ε is not a number in this range, or the graph, a block or a factor has no structure and
            more than MAX_DENSE_RESULTS results.

    **Guarantees**
        * Φ is symmetric, 1 on the diagonal, and 0 between components. Every method agrees with the dense matrix.
    """

    graph: QueryGraph
    epsilon: float | Fraction

    def __post_init__(self) -> None:
        level(self.epsilon)
        _ = self._solver

    @cached_property
    def _solver(self) -> _Solver:
        return _solver(self.graph, self.alpha)

    @property
    def alpha(self) -> float:
        """α = e^(−ε)."""
        return math.exp(-self.epsilon)

    @property
    def method(self) -> str:
        """The method of the solver: closed form, banded, fft, product, blocks or dense."""
        return self._solver.method

    def times(self, x: ArrayLike) -> Floats:
        """Return Φ x, (n,).

        Raises:
            WorkloadError: x is not n numbers.
        """
        return self._solver.times(self._column(x))[:, 0]

    def solve(self, b: ArrayLike) -> Floats:
        """Solve Φ x = b for x, (n,), in floating point; b − times(x) shows the error.

        Raises:
            WorkloadError: b is not n numbers, or Φ is singular.
        """
        return self._solver.solve(self._column(b))[:, 0]

    def _column(self, x: ArrayLike) -> Floats:
        column = np.asarray(x, dtype=np.float64)
        if column.shape != (self.graph.n,) or not np.isfinite(column).all():
            raise WorkloadError(
                "right-side-shape",
                f"The right-hand side has the shape {column.shape}, or an entry that is not finite.",
                "",
                f"Give {self.graph.n} finite numbers.",
                "Nothing was solved.",
            )
        return column[:, None]


# --- weightings ----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class GraphWeighting:
    """A solution z of Φ z = 1, in floating point, without proven signs (existence() proves them).

    Attributes:
        z: The solution, (n,), read-only.
        residual: The largest |1 − (Φ z)_i|, measured.
        method: The method of the solver.
    """

    z: Floats
    residual: float
    method: str


def weighting(graph: QueryGraph, epsilon: float | Fraction) -> GraphWeighting:
    """Return a solution z of Φ z = 1, by the fastest method that the structure of the graph allows.

    Raises:
        WorkloadError: ε is not a number above 0 and at most `enclosures.LARGEST_EPSILON`, the graph is too large for
            its methods, or Φ is singular.

    **Guarantees**
        * z agrees with the dense solution, up to rounding times the condition number of Φ. The residual is measured
          with the solver that applies Φ, which differs from the one that solved.
        * z is equal for results that a symmetry exchanges, in a ring, a complete graph, a box of several axes or
          disjoint counts.
    """
    exponent = float(level(epsilon))
    z, method = _weighting(graph, exponent)
    z.setflags(write=False)
    residual = float(np.abs(1 - _apply(graph, math.exp(-exponent), z)).max())
    return GraphWeighting(z, residual, method)


def _weighting(graph: QueryGraph, epsilon: float) -> tuple[Floats, str]:
    a, s = math.exp(-epsilon), graph.structure
    if isinstance(s, Complete):
        return np.full(s.n, 1 / (1 + (s.n - 1) * a)), "closed form"
    if isinstance(s, Cycle):
        return np.full(s.n, 1 / ring_sum(s.n, a)), "closed form"
    if isinstance(s, Box) and len(s.shape) == 1:
        return _row_weighting(s, a)
    if isinstance(s, Product) and not s.is_joint:
        z: Floats = np.ones(1)
        for g in s.factors:
            z = np.asarray(np.kron(z, _weighting(g, epsilon)[0]))
        return z, "product"
    if isinstance(s, ExplicitGraph):
        parts = blocks(s)
        if not (len(parts) == 1 and len(parts[0].others) == s.n - 1):
            z = np.ones(s.n)
            for b in parts:
                z[b.members] += (1 / (1 + a) if len(b.others) == 1 else _weighting(b.graph(s), epsilon)[0]) - 1
            return z, "blocks"
    return _symmetric_weighting(graph, a)


def _row_weighting(box: Box, alpha: float) -> tuple[Floats, str]:
    n, v = box.n, box.steps[0]
    # expm1 keeps the digits of 1 − α for an α close to 1.
    if v == 1:
        z = np.full(n, math.expm1(math.log(alpha)) / -(1 + alpha))
        z[[0, -1]] = 1 / (1 + alpha) if n > 1 else 1
        return z, "closed form"
    if v >= n - 1:
        return np.full(n, 1 / (1 + (n - 1) * alpha)), "closed form"
    return _Banded(n, v, alpha).solve(np.ones((n, 1)))[:, 0], "banded"


def _symmetric_weighting(graph: QueryGraph, alpha: float) -> tuple[Floats, str]:
    s = graph.structure
    # Reflections halve each axis, so a box of moderate size is solved on its cells.
    if isinstance(s, Box) and s.n > SMALL and math.prod(-(-x // 2) for x in s.shape) > CELLS_LIMIT:
        return _Fourier(s, alpha).solve(np.ones((s.n, 1)))[:, 0], "fft"
    parts = cells(graph)
    if parts.m < graph.n and parts.m <= CELLS_LIMIT and parts.m * graph.n <= ENTRIES_LIMIT:
        quotient = by_cell(alpha ** graph.distances_from(parts.first_results), parts)
        return _lu_solve(quotient, np.ones((parts.m, 1)))[parts.cell_of, 0], "quotient"
    solver = _solver(graph, alpha)
    return solver.solve(np.ones((graph.n, 1)))[:, 0], solver.method


def _apply(graph: QueryGraph, alpha: float, z: Floats) -> Floats:
    """Return Φ z; if Φ is too large for memory, on the first result of every cell."""
    s = graph.structure
    if graph.n > MAX_DENSE_RESULTS and not isinstance(s, Complete | Cycle | Box | ExplicitGraph | Product):
        return np.asarray(alpha ** graph.distances_from(cells(graph).first_results) @ z)
    return _solver(graph, alpha).times(z[:, None])[:, 0]


def ring_sum(n: int, alpha: float) -> float:
    """Return the sum of a row of Φ for a ring of n results."""
    m, log = (n - 1) // 2, math.log(alpha)
    both_ways = 2 * alpha * math.expm1(m * log) / math.expm1(log)
    # On a ring of even length, the opposite result is reached in both directions and counts once.
    return 1 + both_ways + (alpha ** (n // 2) if n % 2 == 0 else 0)


def exact_weighting(graph: QueryGraph, alpha: Fraction) -> tuple[Fraction, ...]:
    """Return a solution z of Φ z = 1 for a rational α, in exact fractions; for small graphs.

    It is constant on the cells of the graph, and the only solution if Φ is not singular.

    Raises:
        WorkloadError: α is not a fraction in (0, 1), the graph has more than EXACT_LIMIT cells, or its system is
            singular.

    **Guarantees**
        * Φ z = 1 exactly.
    """
    level(None, alpha)
    s = graph.structure
    if isinstance(s, Product) and not s.is_joint:
        z = [Fraction(1)]
        for g in s.factors:
            factor = exact_weighting(g, alpha)
            z = [x * y for x in z for y in factor]
        return tuple(z)
    parts = cells(graph)
    if parts.m > EXACT_LIMIT:
        raise WorkloadError(
            "too-many-results-for-fractions",
            f"The graph has {parts.m} results that differ by symmetry.",
            f"Systems are solved in fractions for at most {EXACT_LIMIT}.",
            "Use weighting(), which computes in floating point.",
            "Nothing was solved.",
        )
    matrix, scale = DistanceQuotient.from_graph(graph, parts).integer_matrix(alpha)
    solution = exact_solve(matrix, np.array([scale] * parts.m, dtype=object))
    if solution is None:
        raise WorkloadError(
            "singular-exact-matrix",
            f"The matrix of this graph is singular at alpha = {alpha}.",
            "Its system has no solution, or more than one.",
            "Call existence() for a solution without negative entries.",
            "Nothing was solved.",
        )
    return tuple(solution[c] for c in parts.cell_of)


# --- blocks --------------------------------------------------------------------------------------------------------


def blocks(graph: ExplicitGraph) -> list[GraphBlock]:
    """Return the blocks of a graph, each after all blocks that meet its other results; isolated results are in none.

    **Source.** Hopcroft, Tarjan, Communications of the ACM 16(6), 1973.
    """
    starts, neighbours = graph.adjacency.indptr.tolist(), graph.adjacency.indices.tolist()
    seen, low = [-1] * graph.n, [0] * graph.n
    result: list[GraphBlock] = []
    clock = 0
    for root in range(graph.n):
        if seen[root] >= 0:
            continue
        seen[root] = low[root] = clock
        clock += 1
        # A stack of its own: recursion would exceed Python's limit on long paths.
        way, waiting = [(root, -1, starts[root])], [root]
        while way:
            i, parent, edge = way.pop()
            if edge < starts[i + 1]:
                way.append((i, parent, edge + 1))
                j = neighbours[edge]
                if seen[j] < 0:
                    seen[j] = low[j] = clock
                    clock += 1
                    way.append((j, i, starts[j]))
                    waiting.append(j)
                elif j != parent:
                    low[i] = min(low[i], seen[j])
            elif parent >= 0:
                low[parent] = min(low[parent], low[i])
                # No edge leads from the part below i to a result above its parent, so the parent cuts it off.
                if low[i] >= seen[parent]:
                    cut = len(waiting) - 1
                    while waiting[cut] != i:
                        cut -= 1
                    result.append(GraphBlock(parent, np.array(waiting[cut:], dtype=np.int64)))
                    del waiting[cut:]
    return result


# --- eigenvalues ---------------------------------------------------------------------------------------------------


def eigenvalue_bound(box: Box, alpha: float) -> float:
    """Return a lower bound for the smallest eigenvalue of Φ of a box of any shape; not positive if none is known.

    Φ is a finite part of a Toeplitz matrix, whose eigenvalues are not below the least value of its symbol

        f(θ) = (1 − α) Σ_m α^m Π_k D_{m v_k}(θ_k),    D_r(θ) = 1 + 2 Σ_{j=1}^r cos jθ,

    since α^max = (1 − α) Σ_{m ≥ max} α^m. For K axes, a grid with steps of 2h misses the least value by at most
    ½ H K h². No second derivative exceeds H = Σ_x Φ_0x |x|². Two axes with steps of 1 are a kernel of |p| and |q| in
    p = x + y, q = x − y. They have f ≥ ((1 − α)/(1 + α))².

    **Guarantees**
        * The bound is never above the smallest eigenvalue, rounding included.
    """
    if box.steps == (1, 1):
        return ((1 - alpha) / (1 + alpha)) ** 2 * (1 - 1e-12)
    if len(box.shape) == 1:
        return _row_bound(box.steps[0], alpha)
    axes = len(box.shape)
    points = max(int(_GRID ** (1 / axes)), 9)
    theta = np.linspace(0, np.pi, points)
    half = np.pi / (points - 1) / 2
    levels = math.ceil(40 / -math.log(alpha)) + 1
    # A grid of this size takes too long; the caller then has no proof.
    if levels * points**axes > 10**9:
        return -math.inf
    total = np.zeros((points,) * axes)
    second = size = 0.0
    for m in range(levels):
        term: Any = (1 - alpha) * alpha**m
        radii = [m * v for v in box.steps]
        for axis, r in enumerate(radii):
            term = term * _dirichlet(r, theta).reshape([-1 if k == axis else 1 for k in range(axes)])
        total += term
        members = math.prod(2.0 * r + 1 for r in radii)
        # The sum of absolute values bounds the rounding of the sum.
        size += (1 - alpha) * alpha**m * members
        second += (1 - alpha) * alpha**m * members * sum(r * (r + 1) / 3 for r in radii) * axes
    tail = _tail(box.steps, alpha, levels)
    return float(total.min()) - second * half**2 / 2 - tail - 1e-12 * size


def _row_bound(v: int, alpha: float) -> float:
    """Return `eigenvalue_bound` of an axis with steps of v, by f(θ) = (1 − α)(1 + α D_{v−1}(θ)) / |1 − α e^{ivθ}|²."""
    if v == 1:
        return (1 - alpha) / (1 + alpha) * (1 - 1e-12)
    points = 128 * v
    half = np.pi / points / 2
    # 2 Σ j² for j below v bounds the second derivative.
    second = (v - 1) * v * (2 * v - 1) / 3
    minimum = float(_dirichlet(v - 1, np.linspace(0, np.pi, points + 1)).min()) - second * half**2 / 2 - 1e-11 * v
    numerator = (1 - alpha) * (1 + alpha * minimum)
    return numerator / (1 + alpha) ** 2 * (1 - 1e-12) if numerator > 0 else -math.inf


def _dirichlet(r: int, theta: Floats) -> Floats:
    half = np.sin(theta / 2)
    # The limit of the quotient at 0.
    is_small = half < 1e-9
    return np.where(is_small, 2.0 * r + 1, np.sin((r + 0.5) * theta) / np.where(is_small, 1.0, half))


def _tail(steps: tuple[int, ...], alpha: float, levels: int) -> float:
    """Return an upper bound of Σ_{m ≥ levels} α^m Π (2 m v_k + 1): the ratio of terms is ≤ α ((m + 1)/m)^K."""
    first_term = alpha**levels * math.prod(2.0 * levels * v + 1 for v in steps)
    ratio = alpha * ((levels + 1) / levels) ** len(steps)
    return math.inf if ratio >= 1 else first_term / (1 - ratio)
