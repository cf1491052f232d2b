"""Strategies for pure ε-DP: every cell on its own, and a few sums of cells in addition.

**Symbols.**

| letter | meaning |
|---|---|
| T | the sums, (p, n), T ≥ 0 |
| s | 1 + the column sums of T, (n,); S = diag(s) |
| A | the strategy [I; T] diag(1/s), (n + p, n) |
| K | (I + TTᵀ)⁻¹, (p, p) |
| R_i | the queries of table i, with weights w_i or targets c_i |
| v_i | diag(R_i Σ R_iᵀ), the variances of the queries |

**Statement.** Every column of A has L1 norm 1, so Laplace noise of scale 1/ε is its full cost. Least squares then give
the cells with the covariance (per unit of noise variance)

    Σ(T) = (AᵀA)⁻¹ = S (I − TᵀKT) S,

which takes a p × p inverse. The search has one of two goals. It minimises the weighted total Σ_ij w_ij v_ij, or the
worst ratio max_ij v_ij/c_ij.

**One gradient for both.** The total is tr(GΣ) with G = Σ_i R_iᵀ diag(w_i) R_i. With R = TSG and V = KRS,

    ∇ = −2 (V − (VTᵀ) KT) + 2 · 1 (G_kk s_k − Σ_r R_rk (KT)_rk)_k,

where 1 repeats the row for each of the p sums. The gradient needs only the diagonal of G and p products with it. Any
smooth φ(v) has the gradient of the total with the weights q = ∂φ/∂v. For the worst ratio, φ is the log of the t-norm of
v/c. The search takes t = 4, 16, …, 1024, each from the result of the last.

**Limits.** T = 0 is always a strict local minimum (∂/∂T_rk = 2 G_kk > 0 there), so the problem is combinatorial. The
search therefore takes several starts, none of them small, and always compares with the cells on their own. It proves no
bound.

**Source.** The problem is that of Li, Hay, Rastogi, Miklau, McGregor, "Optimizing linear counting queries under
differential privacy", PODS 2010. Strategies of this form are the p-Identity of McKenna, Miklau, Hay, Machanavajjhala,
"Optimizing error of high-dimensional statistical queries under differential privacy", PVLDB 11(10), 2018. The idea is
theirs. The gradient, the starts, the second goal and the code are from this project.

**Trust.** Nothing found here is believed: costs are recomputed from the integers of the strategy.
"""

from __future__ import annotations

import abc
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, reduce
from typing import NamedTuple, final

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from fitnoise.algebra.operators import Operator
from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Array, Floats, Indices
from fitnoise.kernel.checks import checked_integer
from fitnoise.solving.fixed_random import Generator

CAP = 1e3
"""The largest entry of T. With p at least the rank of the queries, T would diverge and lose all digits."""

MIN_ROW_SUM = 1e-9
"""The sum below which a row of T is dropped."""

SHARPNESS = (4.0, 16.0, 64.0, 256.0, 1024.0)
"""The values of t of the t-norms, in turn."""

SHARED_NORMS, FINALISTS = 2, 2
"""The number of first values of t for several starts, and the number of these starts that get the others. The best
start is among them, up to one or two parts in a thousand."""

SCREENING = 100
"""The iterations of every start. The order of the results rarely changes after them."""

TOTAL_STEPS, WORST_STEPS = 600, 150
"""The iterations of the best starts; for the worst ratio, those of each t."""

SMALL, LARGE = 128, 512
"""Numbers of cells: up to SMALL a start takes almost no time. Above LARGE it takes seconds, and there are fewer starts.
"""

MEMORY = 10
"""The number of pairs that L-BFGS stores."""

MAX_ROWS_PER_CELL = 2
"""The number of rows per cell above which the variances of a table come from the n × n covariance instead of from
(rows, p) arrays."""

MAX_RESTRICTED = 50_000_000
"""The largest number of entries of a table written out when merging its cells breaks its structure."""

BLOCK = 2**22
"""The number of entries of a table compared at a time when cells are merged."""

Progress = Callable[[int, float], None]
"""A function called after every descent with the number of descents and the best value so far."""


class PIdentityStatus(StrEnum):
    """The reason why a search ended. None of these states how far from optimal the result is."""

    LOCAL_OPTIMUM = "all starts were tried; the best is a local optimum, and nothing is proven about it"
    CELLS = "all starts were tried; none was better than the cells on their own"
    TIME = "stopped at the time limit with the best strategy seen so far"


# --- the queries ------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Queries:
    """Tables of queries about the same n cells, with a positive number for every query.

    operators: R_i (m_i, n).
    numbers: (m_i,) each, the weights of a total or the targets of a worst ratio.
    """

    operators: tuple[Operator, ...]
    numbers: tuple[Floats, ...]

    @classmethod
    def from_pairs(cls, *tables: tuple[Operator | ArrayLike, ArrayLike]) -> Queries:
        """Return the queries of pairs (R_i, numbers).

        Args:
            tables: Pairs of an operator or matrix (m_i, n), and one positive number or (m_i,) of them.

        Raises:
            WorkloadError: There is no table, or tables have different numbers of cells. Or the numbers are not
                positive, finite and one for each query. Or :class:`Dense` refuses a matrix.
        """
        operators = [r if isinstance(r, Operator) else op.from_matrix(np.asarray(r)) for r, _ in tables]
        if len({r.shape[1] for r in operators}) != 1:
            raise WorkloadError(
                "queries-of-different-cells",
                f"The queries are about different numbers of cells: {[r.shape[1] for r in operators]}.",
                "",
                "Give queries about the same cells.",
                "Nothing was planned.",
            )
        numbers = []
        for r, (_, targets) in zip(operators, tables, strict=True):
            c = np.asarray(targets, dtype=np.float64)
            if c.shape not in {(), r.shape[:1]} or not np.isfinite(c).all() or not (c > 0).all():
                raise WorkloadError(
                    "query-targets-unusable",
                    f"The targets of {r.shape[0]} queries are not positive and finite, or have the shape {c.shape}.",
                    "",
                    "Give one positive finite number, or one for each query.",
                    "Nothing was planned.",
                )
            numbers.append(np.array(np.broadcast_to(c, r.shape[:1])))
        return cls(tuple(operators), tuple(numbers))

    @property
    def cells(self) -> int:
        """The number of cells, n."""
        return self.operators[0].shape[1]

    def with_numbers(self, numbers: Sequence[Floats]) -> Queries:
        """Return these queries with other numbers."""
        return Queries(self.operators, tuple(numbers))

    def variances(self, covariance: Floats) -> tuple[Floats, ...]:
        """Return diag(R_i Σ R_iᵀ) for every table, (m_i,) each, for the covariance Σ of the cells, (n, n)."""
        return tuple(np.asarray(rules.row_variances(r, covariance), dtype=np.float64) for r in self.operators)

    def total(self, covariance: Floats) -> float:
        """Return Σ_ij w_ij v_ij for the covariance of the cells."""
        return float(sum(w @ v for w, v in zip(self.numbers, self.variances(covariance), strict=True)))

    def worst(self, covariance: Floats) -> float:
        """Return max_ij v_ij/c_ij for the covariance of the cells."""
        return float(max((v / c).max() for c, v in zip(self.numbers, self.variances(covariance), strict=True)))


def covariance(sums: Floats) -> Floats:
    """Return Σ = (AᵀA)⁻¹ of the strategy [I; T] diag(1/s), from a Cholesky factor of I + TᵀT.

    Args:
        sums: T (p, n), at least 0; p may be 0.

    Returns:
        The covariance of the cells, (n, n), symmetric.

    **Guarantees**
        * The function takes no difference of large numbers, unlike S (I − TᵀKT) S.
    """
    # Division by s gives every column L1 norm 1: a record then changes the answers by 1 in all.
    s = 1 + sums.sum(axis=0)
    gram = sums.T @ sums
    gram[np.diag_indices(len(s))] += 1
    return np.asarray(inverse(gram) * (s[:, None] * s))


def inverse(a: Floats) -> Floats:
    """Return the inverse of a positive definite symmetric matrix (n, n), exactly symmetric, in n³ steps.

    Raises:
        numpy.linalg.LinAlgError: The matrix is not positive definite in floating point.
    """
    factor, wrong = sl.lapack.dpotrf(a, lower=True)
    lower, singular = (factor, True) if wrong else sl.lapack.dpotri(factor, lower=True, overwrite_c=True)
    if singular:
        raise np.linalg.LinAlgError
    # LAPACK fills the lower half alone.
    half = np.tril(lower)
    half[np.diag_indices(len(half))] /= 2
    return np.asarray(half + half.T)


def variances(queries: Queries, sums: Floats) -> tuple[Floats, ...]:
    """Return diag(R_i Σ R_iᵀ) for every table, (m_i,) each, per unit of noise variance; T as in :func:`covariance`."""
    return queries.variances(covariance(sums))


def total(queries: Queries, sums: Floats) -> float:
    """Return Σ_ij w_ij v_ij of the strategy of T (p, n)."""
    return queries.total(covariance(sums))


def worst_ratio(queries: Queries, sums: Floats) -> float:
    """Return max_ij v_ij/c_ij of the strategy of T (p, n)."""
    return queries.worst(covariance(sums))


# --- fewer cells ------------------------------------------------------------------------------------


def reduce_cells(queries: Queries) -> tuple[Queries, Indices]:
    """Merge the cells that no query distinguishes, and drop those that no query counts.

    Args:
        queries: Queries about n cells.

    Returns:
        The same queries and numbers for classes of cells, in the order of their first cells. And the class of each cell
        (n,), −1 for cells that no query counts. If nothing can be merged or dropped, the queries as given, and each
        cell as its own class.

    **Guarantees**
        * Cells of one class have equal columns in every R_i, compared entry by entry.
        * R_i = R_i' P exactly, with P the matrix (classes, n) that adds up the cells of a class.
        * The least cost does not change. Proof: keep one column a class of any strategy A for R. R' is answered from it
          as R was from A, and its L1 norm is no larger.

    Not found are classes of a Kronecker product beyond those of its factors. No cell at all is merged or dropped if
    some table would be written out at more than `MAX_RESTRICTED` entries. Such cells stay separate, which costs
    accuracy and never makes a statement false.

    Source: this project.
    """
    n = queries.cells
    label, is_counted = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.bool_)
    for a in queries.operators:
        label, is_counted = _refined(label, a), is_counted | _looked_at(a)
    counted = np.flatnonzero(is_counted)
    _, first_cells = np.unique(label[counted], return_index=True)
    representatives = np.sort(counted[first_cells])
    if not 0 < len(representatives) < n:
        return queries, np.arange(n)
    operators = _all_restricted((a, representatives) for a in queries.operators)
    if operators is None:
        return queries, np.arange(n)
    # −1 marks a class that no query counts. Its cells get no query of their own, so measuring them would cost for
    # nothing.
    new_index = np.full(int(label.max()) + 1, -1)
    new_index[label[representatives]] = np.arange(len(representatives))
    return Queries(operators, queries.numbers), np.where(is_counted, new_index[label], -1)


def expand_classes(matrix: Floats, classes: Indices) -> Floats:
    """Return M P: a matrix on classes of cells (k, classes) as one on the cells (k, n), 0 for uncounted cells."""
    return np.where(classes >= 0, matrix[:, classes], 0.0)


def _refined(label: Indices, a: Operator) -> Indices:
    """Return the classes of `label` (n,), split if columns of the operator differ; numbers 0, 1, … without gaps."""
    n = a.shape[1]
    match a:
        case op.Identity() | op.Prefix():
            return np.arange(n)
        case op.Total():
            return label
        case op.Stack():
            return reduce(_refined, a.parts, label)
        case op.Scaled() if a.weights.all():
            return _refined(label, a.unscaled)
        case op.Kronecker():
            axes = [_refined(np.zeros(f.shape[1], dtype=np.intp), f) for f in a.factors]
            sizes = [int(x.max()) + 1 for x in axes]
            return _joined(label, np.ravel_multi_index(np.ix_(*axes), sizes).ravel())
        case _:
            for block in _blocks(a):
                if int(label.max()) + 1 == n:  # ranges and the like: no classes left after a few rows
                    break
                columns = np.ascontiguousarray(block.T + 0)  # a few rows of ranges distinguish all
                as_bytes = columns.view(np.dtype((np.void, columns.itemsize * columns.shape[1]))).ravel()
                label = _joined(label, np.unique(as_bytes, return_inverse=True)[1].ravel())
            return label


def _joined(labels: Indices, others: Indices) -> Indices:
    """Return the classes of cells that are in one class of both."""
    return np.asarray(np.unique(labels * (int(others.max()) + 1) + others, return_inverse=True)[1]).ravel()


def _blocks(a: Operator) -> Iterator[Array]:
    """Yield the rows of the matrix, some at a time, each (rows, n)."""
    m, n = a.shape
    if isinstance(a, op.Dense | op.Intervals):
        step = max(1, BLOCK // n)
        for i in range(0, m, step):
            if isinstance(a, op.Dense):
                yield a.matrix[i : i + step]
            else:
                (lo, hi), cell = a.ends, np.arange(n)
                yield ((lo[i : i + step, None] <= cell) & (cell < hi[i : i + step, None])).astype(np.int8)
        return
    step = max(1, BLOCK // max(m, n))
    for i in range(0, m, step):
        # The adjoint of the unit vectors i, i + 1, … has these rows as columns.
        yield a.rmv(np.eye(m, min(step, m - i), -i)).T


def _looked_at(a: Operator) -> NDArray[np.bool_]:
    """Return True for each cell that some query has with an entry other than 0, (n,)."""
    match a:
        case op.Identity() | op.Total() | op.Prefix():
            return np.ones(a.shape[1], dtype=np.bool_)
        case op.Intervals() | op.Groups():
            return np.asarray(a.rmv(np.ones(a.shape[0], dtype=np.int64)) > 0)
        case op.Stack():
            return np.asarray(np.any([_looked_at(p) for p in a.parts], axis=0))
        case op.Kronecker():
            return np.asarray(reduce(np.multiply.outer, [_looked_at(f) for f in a.factors])).ravel()
        case op.Scaled() if a.weights.all():
            return _looked_at(a.unscaled)
        case _:
            return np.asarray(np.any([(block != 0).any(axis=0) for block in _blocks(a)], axis=0))


def _restricted(a: Operator, cells: Indices) -> Operator | None:
    """Return the operator on one cell of every class, in increasing order; None if it is too large."""
    out: Operator | None
    match a:
        case _ if len(cells) == a.shape[1]:
            out = a
        case op.Total():
            out = op.Total(len(cells))
        case op.Intervals():
            lo, hi = (np.searchsorted(cells, end) for end in a.ends)
            # Each range contains the first cell of the class of each of its cells. Only next to a factor of zeros can
            # it be empty.
            bounds = tuple(zip(lo.tolist(), (hi - 1).tolist(), strict=True))
            out = op.Intervals(len(cells), bounds) if (lo < hi).all() else _written_out(a, cells)
        case op.Groups():
            index = {int(c): i for i, c in enumerate(cells)}
            groups = tuple(tuple(index[i] for i in g if i in index) for g in a.groups)
            out = op.Groups(len(cells), groups) if all(groups) else _written_out(a, cells)
        case op.Stack():
            parts = _all_restricted((p, cells) for p in a.parts)
            out = None if parts is None else op.Stack(parts)
        case op.Scaled():
            parts = _all_restricted([(a.unscaled, cells)])
            out = None if parts is None else op.Scaled(parts[0], a.weights)
        case op.Kronecker():
            axes = [np.unique(x) for x in np.unravel_index(cells, [f.shape[1] for f in a.factors])]
            if math.prod(len(x) for x in axes) == len(cells):  # all combinations of some cells per axis
                parts = _all_restricted(zip(a.factors, axes, strict=True))
                out = None if parts is None else op.Kronecker(parts)
            else:
                out = _written_out(a, cells)
        case _:
            out = _written_out(a, cells)
    return out


def _all_restricted(pairs: Iterable[tuple[Operator, Indices]]) -> tuple[Operator, ...] | None:
    restricted = [_restricted(a, cells) for a, cells in pairs]
    built = tuple(a for a in restricted if a is not None)
    return built if len(built) == len(restricted) else None


def _written_out(a: Operator, cells: Indices) -> Operator | None:
    m, n = a.shape
    if max(m, n) * len(cells) > MAX_RESTRICTED:
        return None
    chosen = np.zeros((n, len(cells)), dtype=np.int64)
    chosen[cells, np.arange(len(cells))] = 1
    return op.Dense(a.mv(chosen))


# --- derivatives ------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class _StrategyPoint:
    """The sums T (p, n) with p ≥ 1, and the quantities that all formulas need from it."""

    sums: Floats

    @cached_property
    def s(self) -> Floats:
        """The scales of the columns, (n,)."""
        return np.asarray(1 + self.sums.sum(axis=0))

    @cached_property
    def scaled(self) -> Floats:
        """T S, (p, n)."""
        return self.sums * self.s

    @cached_property
    def inverse(self) -> Floats:
        """K, (p, p)."""
        p = len(self.sums)
        # Woodbury: (I + TᵀT)⁻¹ = I − Tᵀ(I + TTᵀ)⁻¹T needs the inverse of a p × p matrix alone, and p is far below n.
        gram = self.sums @ self.sums.T
        gram[np.diag_indices(p)] += 1
        return inverse(gram)

    @cached_property
    def filtered(self) -> Floats:
        """K T, (p, n)."""
        return np.asarray(self.inverse @ self.sums)

    @cached_property
    def covariance(self) -> Floats:
        """Σ by the formula with cancellation, (n, n): accurate enough for a search."""
        m = -(self.sums.T @ self.filtered)
        m[np.diag_indices(len(self.s))] += 1
        return np.asarray(m * (self.s[:, None] * self.s))

    def gradient(self, products: Floats, diagonal: Floats) -> Floats:
        """Return ∇ of tr(GΣ) from R = TSG (p, n) and the diagonal of G (n,); shape (p, n)."""
        kt = self.filtered
        v = self.inverse @ (products * self.s)
        columns = diagonal * self.s - np.einsum("rk,rk->k", products, kt)
        return np.asarray(2 * (columns - v + (v @ self.sums.T) @ kt))


class _WeightedGram(NamedTuple):
    """G = Rᵀ diag(w) R: its diagonal (n,), and M ↦ M G for M (p, n)."""

    diagonal: Floats
    times: Callable[[Floats], Floats]


class _Slopes(NamedTuple):
    """An objective at a point: its value, the quantity that it approximates, and TSG and diag G for its gradient."""

    value: float
    objective: float
    products: Floats
    diagonal: Floats


class _StrategyObjective(abc.ABC):
    @abc.abstractmethod
    def evaluate(self, point: _StrategyPoint) -> _Slopes:
        """Return the value at the point, and the products of which its gradient is made."""

    def value_and_gradient(self, point: _StrategyPoint) -> tuple[_Slopes, Floats]:
        """Return the value at the point and its gradient (p, n)."""
        slopes = self.evaluate(point)
        return slopes, point.gradient(slopes.products, slopes.diagonal)


def _squared(a: Operator) -> Operator:
    """Return the operator of the squared entries."""
    match a:
        case op.Dense() | op.Averages() | op.Differences():
            return op.Dense(rules.dense(a).astype(np.float64) ** 2)
        case op.Kronecker():
            return op.Kronecker(tuple(_squared(f) for f in a.factors))
        case op.Stack():
            return op.Stack(tuple(_squared(f) for f in a.parts))
        case op.Scaled():
            return op.Scaled(_squared(a.unscaled), a.weights**2)
        case op.Transpose():
            return op.Transpose(_squared(a.operand))
        case _Ranges() | op.Identity() | op.Total() | op.Prefix() | op.Intervals() | op.Groups():
            return a  # entries are 0 and 1
        case _:
            raise rules.no_rule("squared entries", a)


@final
class _Ranges(Operator):
    """Intervals as differences of cumulative sums by a sparse matrix: many columns at a time, unlike `Intervals`."""

    def __init__(self, intervals: op.Intervals) -> None:
        m, n = intervals.shape
        lo, hi = intervals.ends
        rows = np.arange(m)
        places = np.concatenate([rows, rows]), np.concatenate([hi, lo])
        self._shape = m, n
        self.differences = sp.csr_array((np.repeat([1.0, -1.0], m), places), shape=(m, n + 1))
        self._adjoint = self.differences.T.tocsr()

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    def mv(self, x: Array) -> Array:
        sums = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, axis=0)])
        return np.asarray(self.differences @ sums.reshape(len(sums), -1)).reshape(-1, *x.shape[1:])

    def rmv(self, y: Array) -> Array:
        steps = np.asarray(self._adjoint @ y.reshape(len(y), -1))
        return np.cumsum(steps[:0:-1], axis=0)[::-1].reshape(-1, *y.shape[1:])


def _quick(a: Operator) -> Operator:
    """Return the same matrix in the form that is quickest for many columns at a time."""
    match a:
        case op.Intervals():
            return _Ranges(a)
        case op.Dense():
            return op.Dense(np.asarray(a.matrix, dtype=np.float64))  # integers would not go through BLAS
        case op.Kronecker():
            return op.Kronecker(tuple(_quick(f) for f in a.factors))
        case op.Stack():
            return op.Stack(tuple(_quick(f) for f in a.parts))
        case op.Scaled():
            return op.Scaled(_quick(a.unscaled), a.weights)
        case _:
            return a


def _has_all_ranges(a: op.Intervals) -> bool:
    """Return True if the queries are all intervals, each exactly once."""
    m, n = a.shape
    return 2 * m == n * (n + 1) and len(set(a.bounds)) == m


def _by_rows(a: Operator, w: Floats) -> _WeightedGram:
    """Return G through the queries and back."""
    quick = _quick(a)
    return _WeightedGram(
        np.asarray(_squared(quick).rmv(w), dtype=np.float64), lambda x: quick.rmv(w[:, None] * quick.mv(x.T)).T
    )


def _all_ranges(n: int, weight: float) -> _WeightedGram:
    """Return G of all ranges with one weight: Σ_{i<j} (c_j − c_i)² over the n + 1 cumulative sums c.

    No row of the queries is computed.
    """

    def times(x: Floats) -> Floats:
        # A range is the difference of two cumulative sums, so n of them replace n(n + 1)/2 ranges.
        sums = np.cumsum(x, axis=1)
        slopes = (n + 1) * sums - sums.sum(axis=1, keepdims=True)
        return np.asarray(weight * np.cumsum(slopes[:, ::-1], axis=1)[:, ::-1])

    i = np.arange(1, n + 1, dtype=np.float64)
    return _WeightedGram(weight * i * (n + 1 - i), times)


def _kronecker(a: op.Kronecker, weight: float) -> _WeightedGram:
    """Return G of a Kronecker product with one weight: (A⊗B)ᵀ(A⊗B) = AᵀA ⊗ BᵀB, one small product per axis."""
    grams = [np.asarray(rules.gram(f), dtype=np.float64) for f in a.factors]
    product = op.Kronecker(tuple(op.Dense(g) for g in grams))
    diagonal = reduce(np.multiply.outer, [np.diag(g) for g in grams]).ravel()
    return _WeightedGram(weight * diagonal, lambda x: np.ascontiguousarray(weight * product.mv(x.T).T))


def _structured_gram(a: Operator, w: Floats) -> _WeightedGram | None:
    """Return G by structure; None if its matrix is quicker."""
    m, n = a.shape
    is_uniform = bool((w == w[0]).all())
    match a:
        case op.Intervals() if is_uniform and _has_all_ranges(a):
            return _all_ranges(n, float(w[0]))
        case op.Kronecker() if is_uniform:
            return _kronecker(a, float(w[0]))
        case op.Identity() | op.Total() | op.Prefix():
            return _by_rows(a, w)
        case op.Dense():
            return _by_rows(a, w) if 2 * m < n else None
        case _:
            return _by_rows(a, w) if m < n else None


@final
class _TotalVariance(_StrategyObjective):
    """The log of tr(GΣ)."""

    def __init__(self, queries: Queries) -> None:
        self._grams: list[_WeightedGram] = []
        dense: Floats | None = None
        # Matrices n × n of tables without structure are added up once; each evaluation then multiplies by their sum
        # alone.
        for a, w in zip(queries.operators, queries.numbers, strict=True):
            gram = _structured_gram(a, w)
            if gram is not None:
                self._grams.append(gram)
            else:
                g = rules.weighted_gram(a, w)
                dense = g if dense is None else dense + g
        if dense is not None:
            self._grams.append(_WeightedGram(np.diag(dense).copy(), lambda x: x @ dense))
        self._diagonal = np.asarray(sum(g.diagonal for g in self._grams))

    def evaluate(self, point: _StrategyPoint) -> _Slopes:
        products = np.asarray(sum(g.times(point.scaled) for g in self._grams))
        cell_variance = float(point.s**2 @ self._diagonal)
        saved = float(np.vdot(point.filtered, products * point.s))
        value = max(cell_variance - saved, 1e-13 * cell_variance)  # rounding may leave nothing, or less
        return _Slopes(math.log(value), value, products / value, self._diagonal / value)


class _TableVariances(abc.ABC):
    """The variances of one table at a point, and G_q for weights q of them."""

    @abc.abstractmethod
    def variances(self, point: _StrategyPoint) -> Floats:
        """Return V (m,)."""

    @abc.abstractmethod
    def products(self, point: _StrategyPoint, q: Floats) -> tuple[Floats, Floats]:
        """Return TSG_q (p, n) and diag G_q (n,), at the point of the latest call of `variances`."""


@final
class _LowRankVariances(_TableVariances):
    """The variances from the (m, p) matrix U = R S Tᵀ, never n × n.

    v = R² s² − rowsum(U ∘ UK) and TSG_q = (Rᵀ diag(q) U)ᵀ.
    """

    def __init__(self, a: Operator) -> None:
        self._rows = _quick(a)
        self._squares = _squared(self._rows)
        self._answers = np.zeros((0, 0))

    def variances(self, point: _StrategyPoint) -> Floats:
        self._answers = self._rows.mv(point.scaled.T)
        cell_variances = self._squares.mv(point.s**2)
        saved = np.einsum("jr,jr->j", self._answers, self._answers @ point.inverse)
        # The difference can round to 0 or below.
        return np.asarray(np.maximum(cell_variances - saved, 1e-13 * cell_variances))

    def products(self, point: _StrategyPoint, q: Floats) -> tuple[Floats, Floats]:
        return self._rows.rmv(q[:, None] * self._answers).T, self._squares.rmv(q)


@final
class _DenseVariances(_TableVariances):
    """The variances from the covariance (n, n), for tables of many more rows than cells."""

    def __init__(self, a: Operator) -> None:
        self._rows = a

    def variances(self, point: _StrategyPoint) -> Floats:
        return np.asarray(np.maximum(rules.row_variances(self._rows, point.covariance), 0.0))

    def products(self, point: _StrategyPoint, q: Floats) -> tuple[Floats, Floats]:
        gram = rules.weighted_gram(self._rows, q)
        return point.scaled @ gram, np.diag(gram)


@final
class _WorstVariance(_StrategyObjective):
    """The log of the t-norm of v/c over all queries."""

    def __init__(self, queries: Queries, t: float, tables: list[_TableVariances] | None = None) -> None:
        self._targets = queries.numbers
        self._t = t
        self._tables = tables or [
            _DenseVariances(a)
            if a.shape[0] > MAX_ROWS_PER_CELL * a.shape[1] and not isinstance(a, op.Dense)
            else _LowRankVariances(a)
            for a in queries.operators
        ]

    def sharper(self, queries: Queries, t: float) -> _WorstVariance:
        """Return this objective for another t; the tables are shared."""
        return _WorstVariance(queries, t, self._tables)

    def evaluate(self, point: _StrategyPoint) -> _Slopes:
        ratios = [a.variances(point) / c for a, c in zip(self._tables, self._targets, strict=True)]
        top = float(max(r.max() for r in ratios))
        powers = [(r / top) ** (self._t - 1) for r in ratios]  # one power less: no division by a variance of 0
        norm = float(sum(e @ r for e, r in zip(powers, ratios, strict=True))) / top
        value = math.log(top) + math.log(norm) / self._t
        slopes = [
            a.products(point, e / (c * (top * norm)))
            for a, e, c in zip(self._tables, powers, self._targets, strict=True)
        ]
        return _Slopes(value, top, np.asarray(sum(r for r, _ in slopes)), np.asarray(sum(d for _, d in slopes)))


def _worst_objectives(queries: Queries) -> list[_WorstVariance]:
    # The largest ratio has kinks, where L-BFGS stalls. A t-norm has none, and each t starts from the result of the one
    # before.
    smoothest = _WorstVariance(queries, SHARPNESS[0])
    return [smoothest, *(smoothest.sharper(queries, t) for t in SHARPNESS[1:])]


# --- the search -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class PIdentity:
    """A strategy of every cell and p sums.

    sums: T (p, n), p = 0 for the cells on their own.
    value: The minimised quantity, per unit of noise variance, recomputed from a Cholesky factor.
    cells_only: This quantity for the cells on their own.
    starts: The number of starts tried.
    status: The reason why the search ended.
    """

    sums: Floats
    value: float
    cells_only: float
    starts: int
    status: PIdentityStatus

    @property
    def matrix(self) -> Floats:
        """A = [I; T] diag(1/s), (n + p, n): every column has L1 norm 1 up to rounding."""
        return np.asarray(np.concatenate([np.eye(self.sums.shape[1]), self.sums]) / (1 + self.sums.sum(axis=0)))


class TimeLimit:
    """A time limit in seconds; without one, the time is never up."""

    def __init__(self, seconds: float | None) -> None:
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """True if the time is up."""
        return time.monotonic() >= self._end

    @property
    def seconds_left(self) -> float | None:
        """Remaining seconds, at least 0; None without a limit."""
        return None if self._end == math.inf else max(0.0, self._end - time.monotonic())


@final
@dataclass(frozen=True, eq=False)
class _Limits:
    """The limits of a search.

    starts: The largest number of starts.
    finishers: The number of starts that are followed to the end.
    iterations: The largest number of iterations of a descent.
    clock: The time limit.
    """

    starts: int
    finishers: int
    iterations: int
    clock: TimeLimit

    @classmethod
    def from_arguments(cls, n: int, starts: int | None, iterations: int, seconds: float | None) -> _Limits:
        """Return the limits, with defaults by the number of cells.

        Raises:
            WorkloadError: No start or no iteration is allowed.
        """
        default, finishers = (16, 4) if n <= SMALL else (8, 3) if n <= LARGE else (4, 1)
        number = checked_integer("starts", default if starts is None else starts)
        return cls(number, finishers, checked_integer("iterations", iterations), TimeLimit(seconds))


def _descend(objective: _StrategyObjective, start: Floats, iterations: int, clock: TimeLimit) -> Floats:
    """Run L-BFGS within 0 ≤ T ≤ CAP, and return the T (p, n) on its path with the least true value."""
    import scipy.optimize as so  # takes as long as a small plan

    shape, best, best_sums = start.shape, math.inf, start

    def evaluate(x: Floats) -> tuple[float, Floats]:
        nonlocal best, best_sums
        sums = x.reshape(shape)
        slopes, gradient = objective.value_and_gradient(_StrategyPoint(sums))
        # The smoothed value can fall while the true one rises, so the best by the true one is kept.
        if slopes.objective < best:
            best, best_sums = slopes.objective, sums.copy()
        return slopes.value, gradient.ravel()

    def check(xk: Floats) -> None:
        if clock.is_over:
            raise StopIteration

    so.minimize(
        evaluate,
        # L-BFGS-B needs a start within its bounds.
        np.clip(start, 0.0, CAP).ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=so.Bounds(0.0, CAP),
        callback=check,
        options={"maxiter": iterations, "maxcor": MEMORY, "ftol": 1e-9, "gtol": 1e-9, "maxfun": 4 * iterations},
    )
    return np.asarray(best_sums, dtype=np.float64)


def _branches(n: int, branching: int) -> list[Floats]:
    """Return the inner nodes of a tree over n cells: one matrix (nodes, n) of 0 and 1 per level, the root last."""
    levels, size, cell = [], branching, np.arange(n)
    while True:
        nodes = np.arange(-(-n // size))
        levels.append(np.asarray(cell // size == nodes[:, None], dtype=np.float64))
        if size >= n:
            return levels
        size *= branching


def _tree(objective: _StrategyObjective, n: int, branching: int) -> tuple[float, Floats]:
    """Return the tree of a branching, with weights of its levels from a short search: its value, and T (nodes, n)."""
    import scipy.optimize as so  # takes as long as a small plan

    levels = _branches(n, branching)
    level_of = np.repeat(np.arange(len(levels)), [len(x) for x in levels])
    nodes = np.concatenate(levels)

    def evaluate(weights: Floats) -> tuple[float, Floats]:
        slopes, gradient = objective.value_and_gradient(_StrategyPoint(nodes * weights[level_of][:, None]))
        return slopes.value, np.bincount(level_of, (gradient * nodes).sum(axis=1), len(levels)).astype(np.float64)

    result = so.minimize(
        evaluate,
        np.ones(len(levels)),
        jac=True,
        method="L-BFGS-B",
        bounds=so.Bounds(0.0, CAP),
        options={"maxiter": 15},
    )
    return float(result.fun), nodes * np.asarray(result.x)[level_of][:, None]


def _trees(objective: _StrategyObjective, n: int, size: int) -> list[Floats]:
    """Return the two best trees among those with at most about twice `size` nodes, the best first."""
    branchings = [b for b in (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32) if b < n]
    nodes = {b: sum(len(x) for x in _branches(n, b)) for b in branchings}
    allowed = [b for b in branchings if nodes[b] <= max(2 * size + 1, 4)]
    trees = sorted((_tree(objective, n, b) for b in allowed), key=lambda pair: pair[0])
    return [tree for _, tree in trees[:2]]


def _uniform(n: int, size: int, rng: Generator) -> Floats:
    return rng.uniform(0.0, 1.0, size=(size, n))


def _boxes(n: int, size: int, rng: Generator) -> Floats:
    """Return random ranges of cells, of random weight, plus small random numbers, (size, n)."""
    # A sum of exactly 0 in a cell would stay there.
    ends = np.sort(rng.integers(0, n, size=(size, 2)), axis=1)
    cells = np.arange(n)
    inside = (ends[:, :1] <= cells) & (cells <= ends[:, 1:])
    return np.asarray(inside * rng.uniform(0.5, 1.5, size=(size, 1)) + rng.uniform(0.0, 0.1, size=(size, n)))


def _sample_queries(queries: Queries, size: int, rng: Generator) -> Floats:
    """Return queries chosen at random, without their signs, plus small random numbers, (size, n)."""
    tables = rng.integers(0, len(queries.operators), size=(size,))
    chosen = []
    for i in tables:
        a = queries.operators[i]
        one = np.zeros(a.shape[0])
        one[rng.integers(0, a.shape[0], size=(1,))[0]] = 1
        row = np.abs(a.rmv(one))
        chosen.append(row / max(float(row.max()), 1e-300))
    return np.asarray(np.stack(chosen) + rng.uniform(0.0, 0.1, size=(size, queries.cells)))


def _starts(queries: Queries, objective: _StrategyObjective, size: int, rng: Generator) -> Iterator[Floats]:
    """Yield starts without end, all kinds early, with numbers of sums around the given size."""
    n = queries.cells
    trees = _trees(objective, n, size)
    for turn in itertools.count():
        around = max(1, round(size * (1.0, 1.5, 0.75)[turn % 3]))
        if turn < len(trees):
            yield trees[turn]
        yield _uniform(n, around, rng)
        yield _boxes(n, around, rng)
        if turn % 2 == 1:
            yield _sample_queries(queries, around, rng)


def _pruned(sums: Floats) -> Floats:
    return np.asarray(sums[sums.sum(axis=1) >= MIN_ROW_SUM])


def _search(
    queries: Queries,
    objectives: Sequence[_StrategyObjective],
    measure: Callable[[Queries, Floats], float],
    starts: Iterator[Floats],
    limits: _Limits,
    progress: Progress | None,
) -> PIdentity:
    """Search from all starts a little with the first objective, from the best further, and from fewer to the end."""
    clock = limits.clock
    cells_only = measure(queries, np.zeros((0, queries.cells)))
    # T = 0 is a strict local minimum: the search compares with it and never starts near it.
    best, best_sums = cells_only, np.zeros((0, queries.cells))
    tried = descents = 0
    screened: list[tuple[float, Floats]] = []

    def descend(sums: Floats, which: Sequence[_StrategyObjective], steps: int) -> tuple[float, Floats]:
        nonlocal best, best_sums, descents
        value = math.inf
        end = sums
        for objective in which:
            if len(sums) == 0 or clock.is_over:
                break
            end = sums = _pruned(_descend(objective, sums, steps, clock))
            new = measure(queries, sums)
            if new < value:
                value, end = new, sums
            if new < best:
                best, best_sums = new, sums
        descents += 1
        if progress is not None:
            progress(descents, best)
        return value, end

    for start in itertools.islice(starts, limits.starts):
        if clock.is_over:
            break
        tried += 1
        screened.append(descend(start, objectives[:1], min(SCREENING, limits.iterations)))
    for stage, many in ((objectives[:SHARED_NORMS], limits.finishers), (objectives[SHARED_NORMS:], FINALISTS)):
        if stage:
            ahead = sorted(screened, key=lambda pair: pair[0])[:many]
            screened = [descend(sums, stage, limits.iterations) for _, sums in ahead]
    ending = PIdentityStatus.LOCAL_OPTIMUM if len(best_sums) else PIdentityStatus.CELLS
    return PIdentity(best_sums, best, cells_only, tried, PIdentityStatus.TIME if clock.is_over else ending)


def _asking(queries: Queries) -> int:
    """Return the number of cells. Raise WorkloadError if no query counts any."""
    if not any(_looked_at(a).any() for a in queries.operators):
        raise WorkloadError(
            "queries-count-nothing",
            "All queries are 0 in every cell.",
            "",
            "Give queries that count at least one cell.",
            "Nothing was planned.",
        )
    return queries.cells


def minimise_total(
    queries: Queries,
    rng: Generator,
    *,
    size: int | None = None,
    starts: int | None = None,
    iterations: int = TOTAL_STEPS,
    max_seconds: float | None = None,
    progress: Progress | None = None,
) -> PIdentity:
    """Minimise the weighted total of the variances, Σ_ij w_ij v_ij.

    Args:
        queries: R_i (m_i, n) with weights w_i.
        rng: The generator that chooses the starts.
        size: About the number p of sums in addition to the cells. Default: n/16, at least 1.
        starts: The number of starts. Default: 16 up to SMALL cells, 4 above LARGE, 8 between.
        iterations: The iterations of L-BFGS for the best starts; the others take fewer.
        max_seconds: The time limit in seconds, checked between iterations of a descent, not while starts are made.
        progress: The function called after every descent.

    Raises:
        WorkloadError: No start, sum or iteration is allowed, all queries are 0, or an operator lacks a rule that the
            search needs.

    **Guarantees**
        * The result is never worse than the cells on their own.
        * `value` is the total of `sums`.

    The function proves no bound.

    Source: see the module.
    """
    n = _asking(queries)
    limits = _Limits.from_arguments(n, starts, iterations, max_seconds)
    size = checked_integer("number of sums", max(1, n // 16) if size is None else size)
    objective = _TotalVariance(queries)
    return _search(queries, [objective], total, _starts(queries, objective, size, rng), limits, progress)


def minimise_worst(
    queries: Queries,
    rng: Generator,
    *,
    size: int | None = None,
    starts: int | None = None,
    iterations: int = WORST_STEPS,
    max_seconds: float | None = None,
    progress: Progress | None = None,
) -> PIdentity:
    """Minimise the worst ratio of a variance to its target, max_ij v_ij/c_ij.

    Args:
        queries: R_i (m_i, n) with targets c_i.
        rng: The generator that chooses the starts.
        size: About the number p of sums in addition to the cells. Default: n/8 up to 64 cells, n/16 above, at least 1.
        starts: The number of starts; the second comes from a short search for the least total Σ v/c. Default: 16 up to
            SMALL cells, 4 above LARGE, 8 between.
        iterations: The iterations of L-BFGS for each t.
        max_seconds: The time limit in seconds, checked between iterations of a descent, not while starts are made.
        progress: The function called after every descent.

    Raises:
        WorkloadError: No start, sum or iteration is allowed, all queries are 0, or an operator lacks a rule that the
            search needs.

    **Guarantees**
        * The result is never worse than the cells on their own.
        * `value` is the worst ratio of `sums`.
        * Of all T tried at full length, the function keeps the best by the true maximum, not the last.

    The function proves no bound.

    Source: see the module.
    """
    n = _asking(queries)
    limits = _Limits.from_arguments(n, starts, iterations, max_seconds)
    size = checked_integer("number of sums", max(1, n // 8 if n <= 64 else n // 16) if size is None else size)
    sharp = _worst_objectives(queries)

    def begin() -> Iterator[Floats]:
        kinds = _starts(queries, sharp[1], size, rng)
        yield next(kinds)
        mean = _TotalVariance(queries.with_numbers([1 / c for c in queries.numbers]))
        # Sums at 0 stay there: the least total is lifted a little off the bounds.
        yield np.maximum(_descend(mean, _uniform(n, size, rng), SCREENING, limits.clock), 1e-3)
        yield from kinds

    return _search(queries, sharp, worst_ratio, begin(), limits, progress)


def improve_worst(queries: Queries, sums: Floats, *, iterations: int = WORST_STEPS) -> PIdentity:
    """Minimise the worst ratio from a strategy that was found for similar targets.

    Args:
        queries: R_i (m_i, n) with targets c_i.
        sums: The start T (p, n).
        iterations: The iterations of L-BFGS for each of the larger t.

    Raises:
        WorkloadError: No iteration is allowed, all queries are 0, or an operator lacks a rule that the search needs.

    **Guarantees**
        * The result is never worse than the start, nor than the cells on their own.
        * `value` is the worst ratio of `sums`.

    The function proves no bound.

    Source: see the module.
    """
    limits = _Limits.from_arguments(_asking(queries), 1, iterations, None)
    begun = worst_ratio(queries, sums)
    result = _search(queries, _worst_objectives(queries)[SHARED_NORMS:], worst_ratio, iter([sums]), limits, None)
    if result.value <= begun:
        return result
    return PIdentity(sums, begun, result.cells_only, result.starts, result.status)
