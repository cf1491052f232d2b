"""Ky Fan designs for queries that are too many to write down: marginals, conjunctions, all ranges.

The head of :mod:`fitnoise.solving.ky_fan` defines the letters A, Σ, M, q, h_k and μ.
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.sparse.linalg as ssl
from numpy.typing import NDArray

from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.checks import checked_integer, is_integer
from fitnoise.solving.ky_fan import (
    EIGENVALUE_TOLERANCE,
    MARGIN,
    KyFanStatus,
    _gap,
    _KyFanPoint,
    _KyFanProblem,
    _KyFanSearch,
    _limits,
    _SearchDone,
    _shape,
)

RITZ = 1e-9
"""The relative accuracy of eigenvalues found by iteration."""


@final
@dataclass(frozen=True, eq=False)
class GramDesign:
    """A design for queries known by AᵀA only: Σ = tail · I + V diag(variances − tail) Vᵀ on the row space.

    index: k of the norm ‖·‖_(k).
    weights: q, (N,).
    variances: The variances of the spikes, (t,), falling.
    tail: The variance of every other direction.
    mixes: T (N, t) with V = A T, orthonormal to `residual`.
    value, bound: See :class:`KyFanDesign`; both rest on eigenvectors found by iteration.
    residual: The larger of two errors: the largest entry of |VᵀV − I|, and the largest relative error ‖M v − λ v‖/λ₁ of
        an eigenpair.
    evaluations: The number of evaluations of h_k.
    status: The reason why the search ended.
    """

    index: int
    weights: Floats
    variances: Floats
    tail: float
    mixes: Floats
    value: float
    bound: float
    residual: float
    evaluations: int
    status: KyFanStatus

    @property
    def spikes(self) -> int:
        """The number of spikes, t."""
        return len(self.variances)

    @property
    def gap(self) -> float:
        """value/bound − 1, at least 0."""
        return _gap(self.value, self.bound)


@final
@dataclass(frozen=True, eq=False)
class MarginalsDesign:
    """The design for all cells of some marginals, one sector of the domain after the other.

    A sector is a set S of attributes: the contrasts of the margin on S, Π_{a∈S} (n_a − 1) directions. The optimal Σ is
    a multiple of I on each sector, and the optimal q is uniform.

    index: k, at most the rank.
    rank: Σ multiplicities, a Python integer of any size.
    sectors: S as sorted attribute numbers, by falling eigenvalue.
    multiplicities: The number of directions of each sector.
    eigenvalues: The eigenvalue of A Aᵀ/N on each sector, (sectors,).
    variances: The variance of Σ on each sector, (sectors,).
    value: μ = ‖Σ‖_(k) = h_k².
    spikes: t, the number of spikes.
    """

    index: int
    rank: int
    sectors: tuple[tuple[int, ...], ...]
    multiplicities: tuple[int, ...]
    eigenvalues: Floats
    variances: Floats
    value: float
    spikes: int
    status: KyFanStatus = KyFanStatus.CLOSED_FORM


class Gram(abc.ABC):
    """The matrix G = AᵀA (N, N) of some queries, known by its diagonal and its products."""

    @property
    @abc.abstractmethod
    def diagonal(self) -> Floats:
        """‖a_e‖² of every cell, (N,)."""

    @abc.abstractmethod
    def product(self, x: Floats) -> Floats:
        """Return G x, (N, b) → (N, b)."""


@final
@dataclass(frozen=True)
class AllRanges(Gram):
    """The queries of all n (n + 1)/2 ranges of n ordered cells: G_ef = (min(e, f) + 1) (n − max(e, f)), from 0."""

    n: int

    def __post_init__(self) -> None:
        checked_integer("cells", self.n)

    @property
    def diagonal(self) -> Floats:
        """(e + 1) (n − e)."""
        e = np.arange(self.n, dtype=np.float64)
        return (e + 1) * (self.n - e)

    def product(self, x: Floats) -> Floats:
        """Return G x by two cumulative sums."""
        e = np.arange(self.n, dtype=np.float64)[:, None]
        before, after = e + 1, self.n - e
        above = np.cumsum((after * x)[::-1], axis=0)[::-1]
        above = np.concatenate([above[1:], np.zeros_like(above[:1])])
        return np.asarray(after * np.cumsum(before * x, axis=0) + before * above)


@final
@dataclass(frozen=True)
class Conjunctions(Gram):
    """Conjunctions of positive literals of d ≤ 24 binary attributes: a query for each set of attributes of some widths.

    Cells are sets e of attributes as binary numbers, N = 2^d; G_ef is the number of sets with a query that lie in both.
    """

    attributes: int
    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        checked_integer("attributes", self.attributes)
        if not self.widths or not all(0 <= w <= self.attributes for w in self.widths) or self.attributes > 24:
            raise WorkloadError(
                "conjunction-widths",
                f"The conjunctions have {self.attributes} attributes and the widths {self.widths}.",
                "",
                "Give at most 24 attributes, and at least one width from 0 to their number.",
                "Nothing was made.",
            )

    @property
    def _counts(self) -> NDArray[np.int64]:
        return np.bitwise_count(np.arange(2**self.attributes)).astype(np.int64)

    @property
    def diagonal(self) -> Floats:
        """The numbers Σ_w (|e| choose w)."""
        ways = np.array([sum(math.comb(c, w) for w in set(self.widths)) for c in range(self.attributes + 1)])
        return ways.astype(np.float64)[self._counts]

    def product(self, x: Floats) -> Floats:
        """Return sums over supersets, then over subsets."""
        # A sum over supersets or subsets goes along one attribute at a time: d N additions instead of N².
        t = x.reshape(*(2,) * self.attributes, -1).copy()
        for axis in range(self.attributes):
            zero, one = _halves(t, axis)
            zero += one
        t *= np.isin(self._counts, self.widths).reshape(*(2,) * self.attributes, 1)
        for axis in range(self.attributes):
            zero, one = _halves(t, axis)
            one += zero
        return t.reshape(x.shape)


@final
@dataclass(frozen=True, eq=False)
class OperatorGram(Gram):
    """The Gram matrix of queries given as an operator, such as a Kronecker product: column norms, and A, then Aᵀ."""

    queries: op.Operator

    @property
    def diagonal(self) -> Floats:
        """The squared column norms, by their rule."""
        return np.asarray(rules.column_norms(self.queries), dtype=np.float64)

    def product(self, x: Floats) -> Floats:
        """Return Aᵀ (A x)."""
        return np.asarray(self.queries.rmv(self.queries.mv(x)), dtype=np.float64)


def _halves(t: Floats, axis: int) -> tuple[Floats, Floats]:
    """Return views of t at 0 and 1 along an axis."""
    front = np.moveaxis(t, axis, 0)
    return front[0], front[1]


@final
class _Products(_KyFanProblem):
    """The queries by their Gram matrix, over the cells that some query counts."""

    def __init__(self, gram: Gram, cells: NDArray[np.intp], k: int, unit: float) -> None:
        self.gram, self.counted, self.index, self.unit = gram, cells, k, unit
        diagonal = gram.diagonal
        self.everything, self.cells, self.squares = len(diagonal), len(cells), diagonal[cells] / unit
        # The start is fixed, and has no symmetry that the queries could share: a start orthogonal to an eigenvector
        # misses it.
        self.start = np.sin(1.0 + math.sqrt(2) * np.arange(1, self.cells + 1) ** 2)

    def product(self, x: Floats) -> Floats:
        """Return G x on the counted cells, (N', b)."""
        if not x.size:
            return np.zeros_like(x)
        if self.cells == self.everything:
            return self.gram.product(x) / self.unit
        full = np.zeros((self.everything, x.shape[1]))
        full[self.counted] = x
        return self.gram.product(full)[self.counted] / self.unit

    def scaled(self, p: Floats) -> ssl.LinearOperator:
        """Return the operator diag(√p) G diag(√p)."""
        root = np.sqrt(p)[:, None]

        def image(x: Floats) -> Floats:
            wide = x.reshape(self.cells, -1)
            return (root * self.product(root * wide)).reshape(x.shape)

        return ssl.LinearOperator((self.cells, self.cells), matvec=image, matmat=image, dtype=np.float64)

    def point_at(self, p: Floats) -> _KyFanPoint:
        k = self.index
        steps = min(self.cells, max(2 * k + 1, 20))
        try:
            values, vectors = ssl.eigsh(self.scaled(p), k=k, which="LA", v0=self.start, tol=RITZ, ncv=steps)
        except ssl.ArpackError as error:
            raise _SearchDone(KyFanStatus.STALLED) from error
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        # The next evaluation is near: its eigenvectors are, so a mixture of these is a better start than none.
        self.start = vectors.sum(axis=1) + 1e-3 * np.sin(1.0 + math.sqrt(2) * np.arange(1, self.cells + 1) ** 2)
        shape = _shape(values, k, float(p @ self.squares))
        t, alpha = shape.spikes, shape.alpha
        roots = np.sqrt(values[:t])
        # The eigenvectors of M are A diag(√p) u / √λ for those u found here, so their products with a_e need G alone.
        images = self.product(np.sqrt(p)[:, None] * vectors[:, :t]) / roots
        slopes = images**2 @ (1 / roots - 1 / math.sqrt(alpha)) + self.squares / math.sqrt(alpha)
        return _KyFanPoint(p, shape, slopes, values, vectors)


def _residual(problem: _Products, point: _KyFanPoint) -> float:
    """Return the largest relative ‖M v − λ v‖/λ₁ of the spikes."""
    t = len(point.top)
    vectors = point.vectors[:, :t]
    off = problem.scaled(point.weights).matmat(vectors) - vectors * point.top if t else np.zeros((1, 1))
    return float(np.sqrt((off**2).sum(axis=0)).max() / point.values[0])


def _missed(problem: _Products, point: _KyFanPoint) -> bool:
    """Return True if the iteration can have missed an eigenvalue above those found.

    The test is the largest eigenvalue on the complement of the vectors found. It must be at most the larger of α and
    the least eigenvalue found, up to a relative 10⁻³.
    """
    vectors, scaled = point.vectors, problem.scaled(point.weights)

    def image(x: Floats) -> Floats:
        wide = x.reshape(problem.cells, -1)
        wide = wide - vectors @ (vectors.T @ wide)
        wide = scaled.matmat(wide)
        return (wide - vectors @ (vectors.T @ wide)).reshape(x.shape)

    rest = ssl.LinearOperator((problem.cells, problem.cells), matvec=image, matmat=image, dtype=np.float64)
    start = np.cos(2.0 + math.sqrt(3) * np.arange(1, problem.cells + 1) ** 2)
    try:
        largest = float(ssl.eigsh(rest, k=1, which="LA", v0=start, tol=1e-4, return_eigenvectors=False)[0])
    except ssl.ArpackError:
        return True
    return largest > max(point.alpha, float(point.values[-1])) * (1 + 1e-3)


def ky_fan_gram(
    gram: Gram, k: int, *, tolerance: float = 1e-6, evaluations: int = 1000, seconds: float | None = None
) -> GramDesign:
    """Return the Ky Fan design from products with AᵀA, for any number of queries.

    It is the design of :func:`fitnoise.solving.ky_fan.ky_fan_design`, which needs the matrix A.

    Only the k largest eigenvalues of M and its trace matter. The function finds them by iteration, N k numbers at a
    time.

    Args:
        gram: G = AᵀA of N cells.
        k: The number of summed variances, at least 1 and below the number of cells with queries. It is at most the rank
            of A, which is not checked.
        tolerance: The relative gap to be certified, positive.
        evaluations: The largest number of evaluations of h_k.
        seconds: The time limit in seconds; None for no limit.

    Returns:
        The design. Its bound holds if the iteration found the k largest eigenvalues. After a search that converged, a
        last iteration on their orthogonal complement looks for a missed one. If it finds one, the status is STALLED.

    Raises:
        WorkloadError: k is not a whole number of at least 1, or not below the number of cells with queries. Or a column
            is not finite, or the limits are not positive.
        PlanError: The queries cannot be evaluated in floating point.

    **Guarantees**
        * a_eᵀ Σ⁻¹ a_e ≤ 1 and ‖Σ‖_(k) ≤ value hold, to `residual`: they need orthonormal spikes only.
        * No step is random: every iteration starts from fixed vectors of its own.

    Source: see :func:`fitnoise.solving.ky_fan.ky_fan_design`; the use of the largest eigenvalues only is this
    project's.
    """
    k = checked_integer("the index of a Ky Fan norm", k)
    _limits(tolerance, evaluations, seconds)
    diagonal = gram.diagonal
    used_cells = np.flatnonzero(diagonal > 0)
    if not np.isfinite(diagonal).all() or k >= len(used_cells):
        raise WorkloadError(
            "gram-index-too-large",
            f"k is {k}, and {len(used_cells)} cells have queries, or a column is not finite.",
            "k must be below the number of these cells.",
            "Use ky_fan_design for so small a matrix.",
            "Nothing was made.",
        )
    unit = float(diagonal.max())
    # With k = 1, all the weight is on a longest column.
    if k == 1:
        weights = (np.arange(len(diagonal)) == int(np.argmax(diagonal))).astype(np.float64)
        mixes, tail = np.zeros((len(diagonal), 0)), unit * (1 + MARGIN)
        return GramDesign(
            index=1,
            weights=weights,
            variances=np.zeros(0),
            tail=tail,
            mixes=mixes,
            value=tail,
            bound=unit,
            residual=0.0,
            evaluations=0,
            status=KyFanStatus.CLOSED_FORM,
        )
    problem = _Products(gram, used_cells, k, unit)
    search = _KyFanSearch(problem, tolerance, evaluations, seconds)
    ending = search.run()
    primal, dual = search.best()
    t = len(primal.top)
    roots = np.sqrt(primal.top)
    inner = np.sqrt(primal.weights)[:, None] * primal.vectors[:, :t] / roots
    images = problem.product(inner)
    tail = math.sqrt(primal.alpha)
    slopes = images**2 @ (1 / roots - 1 / tail) + problem.squares / tail
    # Enlarged until no cell costs more than 1, so the design is feasible for any quality of the search.
    enlarge = float(slopes.max()) * (1 + MARGIN) * unit
    variances, tail = roots * enlarge, tail * enlarge
    weights = np.zeros(problem.everything)
    weights[used_cells] = dual.weights / dual.weights.sum()
    mixes = np.zeros((problem.everything, t))
    mixes[used_cells] = inner / math.sqrt(unit)
    residual = max(
        float(np.abs(inner.T @ images - np.eye(t)).max(initial=0.0)),
        *(_residual(problem, point) for point in (primal, dual)),
    )
    value, bound = float(variances.sum()) + (k - t) * tail, dual.lower * unit
    # A missed eigenvalue would make the bound wrong, so a converged search is checked for one.
    if ending is KyFanStatus.CONVERGED and (_gap(value, bound) > tolerance or _missed(problem, dual)):
        ending = KyFanStatus.STALLED
    return GramDesign(
        index=k,
        weights=weights,
        variances=variances,
        tail=tail,
        mixes=mixes,
        value=value,
        bound=bound,
        residual=residual,
        evaluations=search.evaluations,
        status=ending,
    )


# --- all cells of some marginals ---------------------------------------------------------------------------------


def ky_fan_marginals(sizes: Sequence[int], tables: Iterable[Sequence[int]], k: int) -> MarginalsDesign:
    """Return the design for all cells of some marginals, of any number of attributes, in closed form.

    Shifting the values of an attribute maps the queries to themselves and any cell to any other, and h_k is concave.
    Uniform q is therefore optimal. On the sector of S, A Aᵀ/N has the eigenvalue Σ_{A⊇S} Π_{a∈A} 1/n_a over the tables
    A.

    Args:
        sizes: n_a of every attribute, at least 1.
        tables: The attributes of each marginal, as numbers from 0; a repeated table counts twice.
        k: The number of summed variances, at least 1; the rank if larger.

    Raises:
        WorkloadError: k or a size is not a whole number of at least 1. Or there is no table, or a table has an
            attribute twice, or one that does not exist.

    **Guarantees**
        * The value is μ up to rounding, with no gap.
        * The sensitivity of the variances is at most 1, and 1 to a relative 1e-11.

    Source: this project. For two values an attribute, the eigenvalues are Σ_w (d−j choose w−j) 2^−w on (d choose j)
    directions.
    """
    k = checked_integer("the index of a Ky Fan norm", k)
    if not sizes or not all(is_integer(n) and n >= 1 for n in sizes):
        raise WorkloadError(
            "marginal-sizes",
            f"The attributes have the sizes {tuple(sizes)}.",
            "",
            "Give integers from 1.",
            "Nothing was made.",
        )
    eigenvalues: dict[tuple[int, ...], float] = {}
    for table in tables:
        attributes = tuple(sorted(table))
        if len(set(attributes)) < len(attributes) or any(a not in range(len(sizes)) for a in attributes):
            raise WorkloadError(
                "marginal-attributes",
                f"A marginal shows the attributes {tuple(table)}.",
                "",
                f"Give positions from 0 to {len(sizes) - 1}, each once.",
                "Nothing was made.",
            )
        weight = 1 / math.prod(sizes[a] for a in attributes)
        # An attribute of one value has no sector of its own.
        wide = [a for a in attributes if sizes[a] > 1]
        for width in range(len(wide) + 1):
            for sector in itertools.combinations(wide, width):
                eigenvalues[sector] = eigenvalues.get(sector, 0.0) + weight
    if not eigenvalues:
        raise WorkloadError(
            "marginals-without-table",
            "No table is given.",
            "",
            "Give at least one table.",
            "Nothing was made.",
        )
    listed = sorted(eigenvalues, key=lambda s: (-eigenvalues[s], len(s), s))
    counts = [math.prod(sizes[a] - 1 for a in s) for s in listed]
    values = np.array([eigenvalues[s] for s in listed])
    rank = sum(counts)
    k = min(k, rank)
    t, split, spikes = 0, 0, 0.0
    rests = np.cumsum((values * np.array([float(c) for c in counts]))[::-1])[::-1]
    # All directions of a sector are spikes or none is: to take one of several equal ones lowers α further below them.
    while rests[split] < (k - t) * values[split] * (1 - EIGENVALUE_TOLERANCE):
        t, spikes = t + counts[split], spikes + counts[split] * math.sqrt(values[split])
        split += 1
    alpha = float(rests[split]) / (k - t)
    height = spikes + (k - t) * math.sqrt(alpha)
    roots = np.sqrt(values)
    roots[split:] = math.sqrt(alpha)
    return MarginalsDesign(
        index=k,
        rank=rank,
        sectors=tuple(listed),
        multiplicities=tuple(counts),
        eigenvalues=values,
        variances=height * roots * (1 + MARGIN),
        value=height**2,
        spikes=t,
    )
