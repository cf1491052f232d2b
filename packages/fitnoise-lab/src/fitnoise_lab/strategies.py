"""Strategies of the matrix mechanism as matrices, and their cost under pure ε-DP.

**Statement.** A strategy A has one query a row and one cell a column. The mechanism adds Laplace noise of scale |A|₁/ε
to every answer to A, and estimates the cells by least squares. It answers any query w of the row space of A from the
estimate. |A|₁ is the largest L1 norm of a column, and ⁺ the pseudo-inverse. The answer is unbiased and has the variance

    Error(w) = 2 |A|₁²/ε² · w (AᵀA)⁺ wᵀ        (paper, Proposition 4.4).

A strategy therefore matters through two quantities only: its *sensitivity* |A|₁ and its *profile* AᵀA. The paper calls
the inverse of AᵀA the error profile. Here the profile is AᵀA itself, which exists for every strategy. Everything here
is small, dense and deterministic: no randomness, no data, no planner. Matrices are arrays or operators.

| topic | functions |
|---|---|
| strategies | :func:`identity`, :func:`weighted_hierarchy`, :func:`haar` |
| the best tree | :func:`branching_factor`, :func:`best_tree`, :func:`weighted_tree` |
| properties of a strategy | :func:`sensitivity`, :func:`profile`, :func:`profile_equivalent`, :func:`reconstruction` |
| errors | :func:`query_error`, :func:`total_error`, :func:`range_errors`, :func:`predicate_errors` |
| other strategies of a profile | :func:`spectrum`, :func:`coarse_root`, and :mod:`fitnoise_lab.rotation` |
| better strategies | :func:`augment`, :func:`equal_noise`, :func:`singular_value_bound` |

**Source.** Li, Hay, Rastogi, Miklau, McGregor: Optimizing linear counting queries under differential privacy, PODS
2010, in its full version. Sections and theorems below are of that paper; its errors:
docs/mathematics/matrix_mechanism.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from fitnoise.algebra import operators as op
from fitnoise.algebra import rules
from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Array, Floats, Integers
from fitnoise.kernel.checks import checked_integer, checked_positive
from fitnoise.mechanisms.laplace.hierarchies import height, level_of

Matrix = ArrayLike | op.Operator
"""An array of shape (m, n), or an operator."""

ADD_OR_REMOVE_ONE = "add-or-remove-one"

REPLACE_ONE = "replace-one"

EQUALITY_TOLERANCE = 1e-9
"""The relative difference below which two float matrices count as equal."""

OUTSIDE = 1e-8
"""The relative length of a query's part outside the row space above which a strategy does not answer it."""

# Gram matrices in floating point resolve no more.
OUTSIDE_GRAM = 1e-12
"""The share of squared lengths outside the row space above which a strategy does not answer a complete workload."""

EXACT_FLOAT = 2**53
"""The bound below which sums of integers are exact in floating point."""

POLISHED = 4
"""The number of sets of levels whose weights are improved."""

LARGEST_INT = 2**62
"""The bound below which sums of 64-bit integers are exact; above it, Python's integers are used."""

# --- strategies --------------------------------------------------------------------------------------------------


def identity(n: int) -> Integers:
    """Return I_n: every cell by itself, (n, n). Its sensitivity is 1.

    Raises:
        WorkloadError: n is not a whole number of at least 1.

    Source: Figure 1(b).
    """
    checked_integer("cells", n)
    return np.eye(n, dtype=np.int64)


def weighted_hierarchy(n: int, branching: int, weights: Sequence[float]) -> Floats:
    """Return the rows of a tree over the cells, those of each level multiplied by its weight, (nodes, n).

    The rows are those of :func:`fitnoise.mechanisms.laplace.hierarchies.hierarchy`.

    Args:
        n: The number of cells.
        branching: The number of children of a node.
        weights: One number ≥ 0 for each level, from the root to the cells. A level of weight 0 is left out.

    Raises:
        WorkloadError: `n` is not a whole number of at least 1, or `branching` of at least 2. Or the weights are not
            height + 1 numbers ≥ 0, one of them positive.

    **Guarantees**
        * The sensitivity is Σ weights, since a cell is in one node of every level.
    """
    levels = height(n, branching) + 1
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (levels,) or not np.isfinite(w).all() or (w < 0).any() or not w.any():
        raise WorkloadError(
            "level-weights",
            f"The weights are {list(weights)}.",
            "",
            f"Give a weight for each of the {levels} levels of the tree, none negative and not all 0.",
            "No strategy was made.",
        )
    above = range(levels - 1, -1, -1)
    return np.concatenate([x * level_of(n, branching, k) for x, k in zip(w, above, strict=True) if x > 0])


def haar(n: int) -> Integers:
    """Return Y_n: the total, then left half less right half of every node of the binary tree, (n, n).

    n is a power of 2. Rows 2^j … 2^(j+1) − 1 are the differences of width n/2^j. The sensitivity is log₂ n + 1.

    Raises:
        WorkloadError: n is not a power of 2.

    **Guarantees**
        * Rows are orthogonal; row 0 has the squared norm n, and a difference has its width.
        * Measured with the noise of Xiao, Wang, Gehrke, its coefficients are the same mechanism (Proposition E.43).

    Source: section 6, Figure 1(d).
    """
    k = _log2(n)
    rows = [np.ones((1, n), dtype=np.int64)]
    for j in range(k):
        half = n >> (j + 1)
        signs = np.repeat(np.array([1, -1], dtype=np.int64), half)
        rows.append(np.kron(np.eye(2**j, dtype=np.int64), signs))
    return np.concatenate(rows)


def branching_factor(n: int, *, laplace: bool = False) -> int:
    """Return the branching b with which a tree over n ordered cells answers an average range best, by a rule of thumb.

    A tree of h = ⌈log_b n⌉ levels below its root answers an average range by (b − 1) h − 2(b + 1)/3 nodes. Each has
    noise of variance proportional to h for Gaussian and to h² for Laplace noise: a record is in h nodes.
    :func:`best_tree` computes the error instead.

    Args:
        n: The number of cells; for one cell the answer is 2.
        laplace: True for Laplace noise, the case of the source; False for Gaussian noise.

    Source: Qardaji, Yang, Li: Understanding hierarchical methods for differentially private histograms, PVLDB 6(14),
    2013, equation 3.
    """
    if n < 2:
        return 2

    def error(b: int) -> float:
        h = height(n, b)
        return ((b - 1) * h - 2 * (b + 1) / 3) * (h * h if laplace else h)

    return min(range(2, n + 1), key=error)


# --- what a strategy is ------------------------------------------------------------------------------------------


def sensitivity(strategy: Matrix, norm: int = 1, neighbours: str = ADD_OR_REMOVE_ONE) -> float:
    """Return the largest change of the answers to A between neighbours, in the L1 or L2 norm.

    Adding or removing a record changes one count by one: max_i ‖a_i‖ over the columns of A. Replacing a record changes
    two counts: max over pairs of columns of ‖a_i − a_j‖. This is at most twice as much and often less. The function
    computes it and does not double.

    Args:
        strategy: A, (m, n).
        norm: 1 or 2.
        neighbours: "add-or-remove-one" or "replace-one", also as a :class:`fitnoise.Neighbours`.

    Returns:
        An `int` for whole numbers and norm 1, otherwise a `float`.

    Raises:
        WorkloadError: A is not a matrix of finite numbers, or the norm or the neighbours are none of these.

    **Guarantees**
        * In norm 1 the result is exact for whole numbers. In norm 2 it is the rounded square root of an exact whole
          number.
        * A row that is equal in all columns costs nothing under replace-one.

    Source: Proposition 1 (add or remove; its sum runs over i = 1 … m).
    """
    a = _matrix(strategy)
    if norm not in (1, 2):
        raise WorkloadError(
            "sensitivity-norm",
            f"The norm is {norm!r}.",
            "",
            "Give 1 or 2.",
            "Nothing was computed.",
        )
    if neighbours not in (ADD_OR_REMOVE_ONE, REPLACE_ONE):
        raise WorkloadError(
            "sensitivity-neighbours",
            f"The neighbours are {neighbours!r}.",
            "",
            f"Give {ADD_OR_REMOVE_ONE!r} or {REPLACE_ONE!r}.",
            "Nothing was computed.",
        )
    # Differences of two columns can be twice an entry; their powers must not overflow.
    if a.dtype.kind == "i" and (2 * int(np.abs(a).max())) ** norm * len(a) >= LARGEST_INT:
        a = a.astype(object)
    if neighbours == ADD_OR_REMOVE_ONE:
        largest = _norms(a, norm).max()
    else:
        pairs = (_norms(a[:, i + 1 :] - a[:, i, None], norm).max() for i in range(a.shape[1] - 1))
        largest = max(pairs, default=0)
    if norm == 2:
        return math.sqrt(largest)
    return float(largest) if a.dtype.kind == "f" else int(largest)


def _norms(a: Array, norm: int) -> Array:
    """Return the norms of the columns, squared for norm 2."""
    return np.asarray((np.abs(a) if norm == 1 else a * a).sum(axis=0))


def profile(strategy: Matrix) -> Array:
    """Return AᵀA, (n, n): together with the sensitivity, it determines the error of every query.

    The paper's error profile is its inverse (Definition 4.6). The result is exact for whole numbers while they fit 64
    bits.

    Raises:
        WorkloadError: A is not a matrix of finite numbers.
    """
    if isinstance(strategy, op.Operator):
        return rules.gram(strategy)
    a = _matrix(strategy)
    if a.dtype.kind == "i" and int(np.abs(a).max()) ** 2 * len(a) < EXACT_FLOAT:
        a = a.astype(np.float64)
        # Exact below 2⁵³, and much faster than in integers.
        return np.asarray(a.T @ a).astype(np.int64)
    return rules.gram(op.Dense(a))


def profile_equivalent(a: Matrix, b: Matrix) -> bool:
    """Return True if two strategies have equal profiles AᵀA; the one of lower sensitivity is better for every query.

    The comparison is exact for whole numbers whose profile fits 64 bits, and to a relative 1e-9 otherwise. Strategies
    of different numbers of rows can be equivalent.

    Raises:
        WorkloadError: One is not a matrix of finite numbers, or they have different numbers of cells (columns).

    Source: Definition 4.10.
    """
    p, q = profile(a), profile(b)
    if p.shape != q.shape:
        raise WorkloadError(
            "strategies-of-different-cells",
            f"The strategies have {len(p)} and {len(q)} cells.",
            "",
            "Give two strategies with one number of cells.",
            "Nothing was compared.",
        )
    if p.dtype.kind == q.dtype.kind == "i":
        return bool((p == q).all())
    return bool(np.abs(p - q).max() <= EQUALITY_TOLERANCE * max(np.abs(p).max(), np.abs(q).max()))


def reconstruction(strategy: Matrix) -> Floats:
    """Return A⁺, (n, m): least squares, with which x̂ = A⁺ y is the estimate of the cells.

    Raises:
        WorkloadError: A is not a matrix of finite numbers.

    Source: Definition 3.2, Figure 2. For full column rank A⁺ = (AᵀA)⁻¹Aᵀ; the estimate of least variance (Theorem 1).
    """
    return np.asarray(np.linalg.pinv(_matrix(strategy).astype(np.float64)))


# --- what it costs -----------------------------------------------------------------------------------------------


def query_error(strategy: Matrix, query: ArrayLike, *, epsilon: float = 1.0) -> float:
    """Return the variance of the answer to one query w: 2 |A|₁²/ε² · w (AᵀA)⁺ wᵀ.

    Args:
        strategy: A, (m, n).
        query: w, (n,).
        epsilon: ε > 0.

    Raises:
        WorkloadError: A shape is wrong, ε is not positive, or w is outside the row space of A.

    Source: Proposition 4.4.
    """
    w = np.asarray(query)
    if w.ndim != 1:
        raise WorkloadError(
            "query-shape",
            f"The query has the shape {w.shape}.",
            "",
            "Give the shape (n,), or call query_errors for several queries.",
            "Nothing was computed.",
        )
    return float(query_errors(strategy, w[None], epsilon=epsilon)[0])


def query_errors(strategy: Matrix, workload: Matrix, *, epsilon: float = 1.0) -> Floats:
    """Return the variance of the answer to every query of a workload, (queries,), as in :func:`query_error`.

    Raises:
        WorkloadError: A shape is wrong, ε is not positive, or a query is outside the row space of the strategy.

    **Guarantees**
        * Profile-equivalent strategies of equal sensitivity have equal results, and so do A and kA (Proposition A.31).
    """
    a, w = _matrix(strategy), _matrix(workload)
    directions, values = _row_space(a)
    if w.shape[1] != a.shape[1]:
        raise WorkloadError(
            "query-cells",
            f"The queries have {w.shape[1]} cells, and the strategy has {a.shape[1]}.",
            "",
            "Give queries and a strategy with one number of cells.",
            "Nothing was computed.",
        )
    coordinates = w @ directions.T
    outside = np.linalg.norm(w - coordinates @ directions, axis=1) > OUTSIDE * np.linalg.norm(w, axis=1)
    if outside.any():
        raise _unanswered(f"query {int(np.argmax(outside)) + 1}", len(values), a.shape[1])
    return np.asarray(_unit(a, epsilon) * ((coordinates / values) ** 2).sum(axis=1))


def total_error(
    strategy: Matrix, workload: Matrix | None = None, *, gram: ArrayLike | None = None, epsilon: float = 1.0
) -> float:
    """Return the sum of the variances of all answers to a workload W: 2 |A|₁²/ε² · tr((AᵀA)⁺ G) with G = WᵀW.

    Args:
        strategy: A, (m, n).
        workload: W, (queries, n); or else
        gram: G, (n, n), for workloads too long to write down, such as :func:`all_ranges_gram`.
        epsilon: ε > 0.

    Raises:
        WorkloadError: Not exactly one of workload and gram is given, a shape is wrong, gram is not symmetric, or ε is
            not positive. Or some query is outside the row space of A.

    **Guarantees**
        * A query given twice counts twice.
        * At ε = 1 the result is at least `singular_value_bound(W).lower`, for any strategy.

    Source: Definition 4.3, Proposition 4.4.
    """
    a, g = _matrix(strategy), _gram(workload, gram)
    directions, values = _row_space(a)
    if len(g) != a.shape[1]:
        raise WorkloadError(
            "workload-cells",
            f"The workload has {len(g)} cells, and the strategy has {a.shape[1]}.",
            "",
            "Give a workload and a strategy with one number of cells.",
            "Nothing was computed.",
        )
    squares = np.einsum("ki,ij,kj->k", directions, g, directions, optimize=True)
    if len(values) < a.shape[1] and np.trace(g) - squares.sum() > OUTSIDE_GRAM * np.trace(g):
        raise _unanswered("some query of the workload", len(values), a.shape[1])
    return _unit(a, epsilon) * float((squares / values**2).sum())


@final
@dataclass(frozen=True)
class RangeErrors:
    """The errors of all n (n + 1)/2 ranges of n ordered cells.

    total: Their sum.
    maximum: The largest error.
    worst: The first cell of a range of largest error, and the cell after its last.
    """

    n: int
    total: float
    maximum: float
    worst: tuple[int, int]


def range_errors(strategy: Matrix, *, epsilon: float = 1.0) -> RangeErrors:
    """Return total and maximum error over all ranges of cells, without listing them.

    With C the two-dimensional prefix sums of (AᵀA)⁻¹, the range [i, j) costs C_ii + C_jj − 2 C_ij. This takes O(n²)
    after the inverse.

    Raises:
        WorkloadError: A is not a matrix of finite numbers, ε is not positive, or A lacks full column rank: single cells
            are ranges.

    Source: section 6.2, Theorem 6.30 (W_R).
    """
    a = _matrix(strategy)
    sums = np.zeros((a.shape[1] + 1, a.shape[1] + 1))
    sums[1:, 1:] = np.cumsum(np.cumsum(_inverse(a), axis=0), axis=1)
    ends = sums.diagonal()
    # Above the diagonal i < j; the diagonal, the empty range, is 0.
    errors = np.triu(ends[:, None] + ends - 2 * sums) * _unit(a, epsilon)
    i, j = np.unravel_index(int(np.argmax(errors)), errors.shape)
    return RangeErrors(a.shape[1], float(errors.sum()), float(errors[i, j]), (int(i), int(j)))


@final
@dataclass(frozen=True)
class PredicateErrors:
    """The errors of all 2ⁿ queries whose coefficients are 0 or 1, the empty one included.

    mean: The mean error of one query.
    """

    n: int
    mean: float

    @property
    def total(self) -> Fraction:
        """2ⁿ times the mean; a fraction, since it passes the largest float near n = 1024."""
        return Fraction(self.mean) * (1 << self.n)


def predicate_errors(strategy: Matrix, *, epsilon: float = 1.0) -> PredicateErrors:
    """Return mean and total error over all 0-1 queries.

    With M = (AᵀA)⁻¹, the sum of w M wᵀ is 2^(n−2) (tr M + 1ᵀM1). For the largest error, see
    :func:`maximum_predicate_error`.

    Raises:
        WorkloadError: A is not a matrix of finite numbers, ε is not positive, or A lacks full column rank.

    Source: section 6.2, Theorem 6.30 (W_01). Each coefficient is 1 in half of the queries, two of them in a quarter.
    """
    a = _matrix(strategy)
    m = _inverse(a)
    return PredicateErrors(a.shape[1], _unit(a, epsilon) * float(np.trace(m) + m.sum()) / 4)


def maximum_predicate_error(strategy: Matrix, *, epsilon: float = 1.0) -> float:
    """Return the largest error of a query with coefficients 0 or 1, exactly, for profiles of Haar trees.

    For these, AᵀA is diagonal in the normalised rows of Y_n, with eigenvalues λ. Table 1 has λ for H_n and Y_n. I_n,
    trees of other powers of 2 and level weights are such strategies too. A node of s cells with l and r ones in its
    halves adds (l − r)²/(s λ). The root of c ones adds c²/(n λ) more. The best for each node and each number of ones
    therefore follows from its two children. This takes O(n²) in all, for 2ⁿ queries.

    Raises:
        WorkloadError: n is not a power of 2, ε is not positive, A lacks full column rank, or its profile has other
            eigenvectors.

    Source: Theorem 6.30; the recursion is from this project. The paper's 0101… attains the maximum for H_n, and for Y_n
    from n = 8 on.
    """
    a = _matrix(strategy)
    values = _haar_values(profile(a))
    if values.min() <= EQUALITY_TOLERANCE * values.max():
        raise _unanswered("some 0-1 query", int((values > EQUALITY_TOLERANCE * values.max()).sum()), len(values))
    n = len(values)
    # The best of each node, by the number of ones below it.
    best = np.zeros((n, 2))
    for j in range(_log2(n) - 1, -1, -1):
        left_best, right_best = best[0::2], best[1::2]
        half = n >> (j + 1)
        best = np.full((2**j, 2 * half + 1), -np.inf)
        for ones in range(half + 1):
            difference = (ones - np.arange(half + 1)) ** 2 / (2 * half * values[2**j : 2 ** (j + 1), None])
            here = best[:, ones : ones + half + 1]
            np.maximum(here, left_best[:, ones, None] + right_best + difference, out=here)
    return _unit(a, epsilon) * float((best[0] + np.arange(n + 1) ** 2 / (n * values[0])).max())


def all_ranges_gram(n: int) -> Integers:
    """Return WᵀW of all n (n + 1)/2 ranges of n ordered cells, (n, n).

    Its entries are (min(i, j) + 1) (n − max(i, j)) for i, j from 0.

    Raises:
        WorkloadError: n is not a whole number of at least 1.
    """
    checked_integer("cells", n)
    i = np.arange(n, dtype=np.int64)
    return np.asarray((np.minimum(i[:, None], i) + 1) * (n - np.maximum(i[:, None], i)))


# --- trees -------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Tree:
    """A level-weighted tree over n cells.

    weights: The weights of its levels from the root to the cells; 0 for a level that is left out.
    total_error: The total error of the workload that it was made for, at ε = 1.
    """

    n: int
    branching: int
    weights: tuple[float, ...]
    total_error: float

    @property
    def matrix(self) -> Array:
        """The strategy, (nodes, n); integers if the weights are 0 and 1."""
        rows = weighted_hierarchy(self.n, self.branching, self.weights)
        return rows.astype(np.int64) if set(self.weights) <= {0.0, 1.0} else rows


def best_tree(
    workload: Matrix | None = None, *, gram: ArrayLike | None = None, branchings: Iterable[int] | None = None
) -> Tree:
    """Return the hierarchy of least total error with equal weights, by branching, with its root or without it.

    The errors are computed exactly.

    Args:
        workload: W, (queries, n); or else
        gram: WᵀW, (n, n).
        branchings: The branchings to try; default all, 2 … n. Each takes O(n²).

    Raises:
        WorkloadError: Not exactly one of workload and gram is given, or gram is not symmetric. Or there is no branching
            to try, or one is not a whole number of at least 2.

    **Guarantees**
        * `total_error` is that of the matrix, to rounding.
        * Of equal trees, the function returns the first.
    """
    g = _gram(workload, gram)
    n = len(g)
    tried = list(range(2, max(n, 2) + 1)) if branchings is None else list(branchings)
    if not tried:
        raise WorkloadError(
            "no-branching",
            "The list of branchings is empty.",
            "",
            "Give at least one branching, or leave branchings out to try all.",
            "No tree was made.",
        )
    trees = []
    for b in tried:
        sums, h = _NodeSums(g, b), height(n, b)
        # A tree of one cell is its root.
        for root in (1.0, 0.0) if h else (1.0,):
            weights = (root,) + (1.0,) * h
            trees.append(Tree(n, b, weights, 2 * sums.cost(np.array(weights))))
    return min(trees, key=lambda t: t.total_error)


def weighted_tree(workload: Matrix | None = None, *, gram: ArrayLike | None = None, branching: int = 2) -> Tree:
    """Return a hierarchy with the level weights of least total error that a search finds; Σ weights = 1.

    Leaving a level out is always a local optimum. The search therefore tries every set of levels with equal weights. It
    then improves the weights of the best few sets smoothly. It takes 2^height evaluations, of O(n²/b²) each.

    Args:
        workload: W, (queries, n); or else
        gram: WᵀW, (n, n).
        branching: The number b of children of a node.

    Raises:
        WorkloadError: Not exactly one of workload and gram is given, or gram is not symmetric. Or the branching is not
            a whole number of at least 2.

    **Guarantees**
        * `total_error` is that of the matrix, to rounding.
        * The result is never worse than :func:`best_tree` of that branching.

    It is not proven to be the least.
    """
    g = _gram(workload, gram)
    sums, levels = _NodeSums(g, branching), height(len(g), branching) + 1
    # The cells always stay: without them single cells could not be answered.
    chosen = [np.array([*above, 1.0]) for above in itertools.product((0.0, 1.0), repeat=levels - 1)]
    costs = [sums.cost(w) for w in chosen]
    best, weights = math.inf, chosen[-1]
    for i in np.argsort(costs, kind="stable")[:POLISHED]:
        used = np.flatnonzero(chosen[i])
        improved = _improved(sums, levels, used)
        for w in (chosen[i], improved):
            if (cost := sums.cost(w)) < best:
                best, weights = cost, w
    return Tree(len(g), branching, tuple(float(w) for w in weights / weights.sum()), 2 * best)


def _improved(sums: _NodeSums, levels: int, used: NDArray[np.intp]) -> Floats:
    """Return level weights, (levels,), from equal ones on some levels, by descent in their logarithms."""

    def weights(logarithms: Floats) -> Floats:
        w = np.zeros(levels)
        w[used] = np.exp(logarithms)
        return w

    def cost(logarithms: Floats) -> float:
        return math.log(sums.cost(weights(logarithms)))

    # The scale is free: bounds keep a useless level from running away.
    bounds = [(-9.0, 9.0)] * len(used)
    result = optimize.minimize(cost, np.zeros(len(used)), method="L-BFGS-B", bounds=bounds)
    return weights(result.x)


class _NodeSums:
    """The total errors of the level-weighted trees of one branching, without their matrices.

    For X = Σ_l θ_l² N_lᵀN_l, take the levels in turn from the cells. X⁻¹ loses t v_B v_Bᵀ/(1 + t s_B) for each node B.
    Here v_B = X⁻¹u_B, s_B = u_Bᵀv_B, u_B is the indicator of B, and t = θ². The nodes of a level are disjoint, and
    those below are nested in them. v_B is therefore the sum of its children's v, each divided by its 1 + t s. Only s_B
    and v_BᵀGv_C are kept. Those of the first level above the cells are sums of G itself.
    """

    def __init__(self, gram: Floats, branching: int) -> None:
        self.branching, self.trace = branching, float(np.trace(gram))
        self.counts, self.gram = self._above(np.ones(len(gram)), gram)

    def _above(self, s: Floats, g: Floats) -> tuple[Floats, Floats]:
        """Return s and G summed over the children of each node."""
        starts = np.arange(0, len(s), self.branching)
        return np.add.reduceat(s, starts), np.add.reduceat(np.add.reduceat(g, starts, axis=0), starts, axis=1)

    def cost(self, weights: Floats) -> float:
        """Return (Σθ)² tr(X⁻¹G), for weights θ from the root to the cells, the last of them positive."""
        cells, *squares = weights[::-1] ** 2
        trace, s, g = self.trace / cells, self.counts / cells, self.gram / cells**2
        factors = np.ones(len(s))
        for number, t in enumerate(squares):
            if number:
                s, g = self._above(s * factors, g * factors[:, None] * factors)
            factors = 1 / (1 + t * s)
            trace -= float((t * g.diagonal() * factors).sum())
        return float(weights.sum() ** 2 * trace)


# --- other strategies of the same profile ------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class Spectrum:
    """A profile P D Pᵀ.

    values: The diagonal of D, (n,), rising.
    vectors: P, (n, n), one eigenvector a column.
    """

    values: Floats
    vectors: Floats

    def strategy(self, rotation: ArrayLike | None = None) -> Floats:
        """Return Q [D^½ Pᵀ; 0], (m, n): every strategy of this profile is one of these (Theorem 4.13).

        Args:
            rotation: Q, (m, m) with m ≥ n, QᵀQ = I; None for I_n.

        Raises:
            WorkloadError: Q is not orthogonal, or smaller than the profile.
        """
        root = np.sqrt(self.values)[:, None] * self.vectors.T
        if rotation is None:
            return root
        q = _matrix(rotation).astype(np.float64)
        m, n = len(q), len(root)
        if q.shape != (m, m) or m < n or np.abs(q.T @ q - np.eye(m)).max() > EQUALITY_TOLERANCE:
            raise WorkloadError(
                "rotation-not-orthogonal",
                f"The rotation has the shape {q.shape}, or is not orthogonal.",
                f"A profile of {n} cells needs an orthogonal matrix of at least that size.",
                "Give such a matrix.",
                "No strategy was made.",
            )
        return q[:, :n] @ root


def spectrum(profile: ArrayLike) -> Spectrum:
    """Return the spectral decomposition of a profile, which gives all strategies of this profile.

    Args:
        profile: AᵀA, (n, n), symmetric and positive semidefinite.

    Raises:
        WorkloadError: The profile is not symmetric and positive semidefinite.

    **Guarantees**
        * P is orthogonal and D ≥ 0.
        * `strategy(Q)` has the profile for every orthogonal Q, to rounding.

    Source: Definitions 4.9 and 4.12, Theorem 4.13. The paper decomposes the inverse: the same vectors, inverse values.
    """
    g = _square(profile)
    values, vectors = np.linalg.eigh((g + g.T) / 2)
    # Rounding can make an eigenvalue of 0 slightly negative.
    if values[0] < -EQUALITY_TOLERANCE * max(values[-1], 0.0):
        raise WorkloadError(
            "profile-negative",
            f"The smallest eigenvalue of the profile AᵀA is {values[0]:.3g}.",
            "A profile has no negative eigenvalue.",
            "Give the profile of a strategy.",
            "Nothing was computed.",
        )
    return Spectrum(np.maximum(values, 0.0), vectors)


def coarse_root(profile: ArrayLike, coarse: int = 0) -> Floats:
    """Return a square strategy of low sensitivity with the profile of a Haar tree, such as H_n or Y_n, (n, n).

    It has a closed form. It is the symmetric square root on the span of the 2^r coarsest blocks, r = `coarse`. Below
    that, it has the normalised rows of Y_n times the roots of their eigenvalues. With n = 2^k the sensitivities are

        Y_n: k − r + 2^(r/2)                                     for r ≥ 1 (k + 1 for r = 0),
        H_n: Σ_{j=1}^{k−r} √(1 − 2^−j) + √(2^(r+1) − 2^(r−k)).

    For Y_n, r = 1 is the k + √2 − 1 of Appendix F.1, and r = 3 the least, k + 2√2 − 3. For H_n, r = 0 is the
    decomposition of that appendix, and r = 2 the least, which tends to k + 0.2738.

    Args:
        profile: AᵀA, (n, n), diagonal in the rows of Y_n.
        coarse: r, from 0 to log₂ n.

    Raises:
        WorkloadError: n is not a power of 2, r is out of range, or the profile has other eigenvectors.

    **Guarantees**
        * The result has the given profile, to rounding.

    Source: Appendix F.1 for r = 0 and 1; the family and its proof are from this project.
    """
    g = _square(profile)
    values, n = _haar_values(g), len(g)
    k = _log2(n)
    checked_integer("coarse levels", coarse, 0)
    if coarse > k:
        raise WorkloadError(
            "coarse-levels",
            f"coarse is {coarse}, and {n} cells have {k} levels.",
            "",
            f"Give an integer from 0 to {k}.",
            "Nothing was computed.",
        )
    blocks = 2**coarse
    indicators = np.kron(np.eye(blocks), np.ones((1, n // blocks))) / math.sqrt(n // blocks)
    # The blocks are orthonormal, so this is the profile on their span.
    restricted = spectrum(indicators @ g @ indicators.T)
    root = (restricted.vectors * np.sqrt(restricted.values)) @ restricted.vectors.T
    fine = np.sqrt(values[blocks:])[:, None] * _normal_haar(n)[blocks:]
    return np.concatenate([root @ indicators, fine])


def _normal_haar(n: int) -> Floats:
    """Return the rows of Y_n divided by their norms, (n, n), orthogonal."""
    rows = haar(n).astype(np.float64)
    return np.asarray(rows / np.sqrt((rows**2).sum(axis=1))[:, None])


def _haar_values(profile: Array) -> Floats:
    """Return the eigenvalues of a profile by the rows of Y_n, (n,)."""
    rows = _normal_haar(len(profile))
    turned = rows @ profile @ rows.T
    values = turned.diagonal().copy()
    if np.abs(turned - np.diag(values)).max() > EQUALITY_TOLERANCE * max(
        float(np.abs(values).max()), np.finfo(float).tiny
    ):
        raise WorkloadError(
            "profile-not-haar",
            "The profile has other eigenvectors than the rows of haar(n).",
            "Profiles of hierarchy(n) and haar(n), with any level weights, have these eigenvectors.",
            "Give such a profile.",
            "Nothing was computed.",
        )
    return np.maximum(values, 0.0)


# --- better strategies -------------------------------------------------------------------------------------------


def equal_noise(strategy: Matrix, scales: ArrayLike) -> Floats:
    """Return diag(1/b) A, (m, n): Laplace noise of scale 1 on it is noise of scale b_i on row i of A.

    Its sensitivity is the ε that the unequal noise spends. Its rows of answers are those of A divided by b.

    Args:
        strategy: A, (m, n).
        scales: b, (m,), positive.

    Raises:
        WorkloadError: A is not a matrix of finite numbers, or there is not one positive scale for each row.

    Source: Proposition A.33, with b = 1.
    """
    a, b = _matrix(strategy), np.asarray(scales, dtype=np.float64)
    if b.shape != (len(a),) or not np.isfinite(b).all() or (b <= 0).any():
        raise WorkloadError(
            "row-scales",
            f"The scales have the shape {b.shape}, or a scale that is not positive and finite.",
            "",
            f"Give a positive finite scale for each of the {len(a)} rows.",
            "No strategy was made.",
        )
    return np.asarray(a / b[:, None])


def augment(strategy: Matrix) -> Array:
    """Return A with its deficient columns completed: below A, the entries of diag(|A|₁ − ‖a_i‖₁) that are not 0.

    A record in a cell whose column is shorter than the longest costs less than the others. A further query of that
    cell, with the difference for weight, is free.

    Returns:
        (m + deficient columns, n): integers for integers; a copy of A if no column is deficient.

    Raises:
        WorkloadError: A is not a matrix of finite numbers.

    **Guarantees**
        * Every column has the L1 norm |A|₁, so the sensitivity is unchanged.
        * No query of the row space of A has a larger error (Theorem 5.27).

    Source: section 5.3.
    """
    a = _matrix(strategy)
    columns = np.abs(a).sum(axis=0)
    missing = columns.max() - columns
    # A difference that is rounding only is no deficiency.
    deficient = missing > (0 if a.dtype.kind == "i" else 4 * np.finfo(np.float64).eps * len(a) * columns.max())
    return np.concatenate([a, np.diag(missing)[deficient]])


@final
@dataclass(frozen=True, eq=False)
class SingularValueBound:
    """Bounds on the total error of a workload from the singular values δ of W, for Laplace noise at ε = 1.

    `lower` is 2 (Σδ)²/n, and `upper` is 2 (Σδ)², with n the number of cells.

    values: δ, (n,), in increasing order.
    strategy: diag(√δ) Pᵀ without its zero rows, (rank, n): the optimum of the singular value bound approximation.
    """

    values: Floats
    strategy: Floats

    @property
    def upper(self) -> float:
        """2 (Σδ)², at least the total error of `strategy`."""
        return 2 * float(self.values.sum()) ** 2

    @property
    def lower(self) -> float:
        """2 (Σδ)²/n, at most the total error of any strategy."""
        return self.upper / len(self.values)


def singular_value_bound(workload: Matrix | None = None, *, gram: ArrayLike | None = None) -> SingularValueBound:
    """Return the singular value bound approximation of a workload W: its strategy, and a bound from either side.

    The sensitivity |A|₁ is at most √tr AᵀA for A = D Pᵀ (Theorem 5.23). The least of tr(AᵀA) tr((AᵀA)⁻¹WᵀW) is (Σδ)²,
    at D = diag(√δ) and the eigenvectors P of WᵀW (Theorem 5.25). This number over n bounds every strategy from below:
    |A|₁² ≥ |A|₂² ≥ tr(AᵀA)/n.

    Args:
        workload: W, (queries, n); or else
        gram: WᵀW, (n, n).

    Raises:
        WorkloadError: Not exactly one of workload and gram is given, or it is not such a matrix.

    **Guarantees**
        * lower ≤ total_error(any strategy, W), both at ε = 1.
        * total_error(strategy, W) ≤ upper = n · lower (Theorem 5.26).

    Source: section 5.2.2; the lower bound is from this project and proves Theorem 5.26 in one line.
    """
    if gram is None and workload is not None:
        w = _matrix(workload).astype(np.float64)
        _, singular_values, vectors = np.linalg.svd(w, full_matrices=False)
        values = np.zeros(w.shape[1])
        values[: len(singular_values)] = singular_values
    else:
        turned = spectrum(_gram(workload, gram))
        values, vectors = np.sqrt(turned.values[::-1]), turned.vectors.T[::-1]
    # Directions of rounding have no place in the strategy.
    keep = values > values[0] * len(values) * np.finfo(np.float64).eps
    values = np.where(keep, values, 0.0)
    root = np.sqrt(values[keep])[:, None] * vectors[: int(keep.sum())]
    return SingularValueBound(values[::-1].copy(), root[::-1].copy())


def _log2(n: int) -> int:
    """Return the logarithm of a power of 2, exact."""
    checked_integer("cells", n)
    if n & (n - 1):
        raise WorkloadError(
            "cells-not-power-of-two",
            f"A Haar tree has {n} cells.",
            "The number of cells must be a power of 2.",
            "Pad with empty cells, or use hierarchy.",
            "No strategy was made.",
        )
    return int(n).bit_length() - 1


def _matrix(a: Matrix) -> Array:
    """Return a finite matrix (m, n) of int64 or float64."""
    return rules.dense(a) if isinstance(a, op.Operator) else op.Dense(np.asarray(a)).matrix


def _square(a: ArrayLike) -> Floats:
    """Return a symmetric matrix."""
    g = _matrix(a).astype(np.float64)
    if g.shape[0] != g.shape[1] or np.abs(g - g.T).max() > EQUALITY_TOLERANCE * np.abs(g).max():
        raise WorkloadError(
            "profile-not-symmetric",
            f"The profile or Gram matrix has the shape {g.shape}, or is not symmetric.",
            "",
            "Give a square symmetric matrix.",
            "Nothing was computed.",
        )
    return g


def _gram(workload: Matrix | None, gram: ArrayLike | None) -> Floats:
    """Return WᵀW from one or the other."""
    if (workload is None) == (gram is None):
        raise WorkloadError(
            "workload-or-gram",
            "Both the workload and gram are given, or neither is.",
            "gram is the Gram matrix WᵀW of the workload.",
            "Give one of the two.",
            "Nothing was computed.",
        )
    return _square(profile(workload)) if workload is not None else _square(np.asarray(gram))


def _unit(a: Array, epsilon: float) -> float:
    """Return 2 |A|₁²/ε², the variance of the noise on an answer to A."""
    return 2.0 * (float(sensitivity(a)) / checked_positive("epsilon", epsilon)) ** 2


def _row_space(a: Array) -> tuple[Floats, Floats]:
    """Return right singular vectors, (rank, n), and singular values, (rank,)."""
    # Of R in A = QR: the same, and n × n where A is long.
    r = np.linalg.qr(a.astype(np.float64), mode="r")
    _, values, directions = np.linalg.svd(r, full_matrices=False)
    keep = values > values[0] * max(a.shape) * np.finfo(np.float64).eps
    if not keep.any():
        raise WorkloadError(
            "strategy-of-zeros",
            "The strategy is 0 everywhere.",
            "Such a strategy answers no query.",
            "Give a strategy with a query.",
            "Nothing was computed.",
        )
    return directions[keep], values[keep]


def _inverse(a: Array) -> Floats:
    """Return (AᵀA)⁻¹, (n, n)."""
    directions, values = _row_space(a)
    if len(values) < a.shape[1]:
        raise _unanswered("some query", len(values), a.shape[1])
    return np.asarray((directions.T / values**2) @ directions)


def _unanswered(what: str, rank: int, n: int) -> WorkloadError:
    """Return the error for a query outside the row space of a strategy."""
    return WorkloadError(
        "query-outside-row-space",
        f"The row space of the strategy, which has the rank {rank} of {n}, does not contain {what}.",
        "No answer to it can be rebuilt.",
        "Add rows to the strategy that contain it.",
        "Nothing was computed.",
    )
