"""Linear query operators: queries along one axis of the domain, or along several.

An operator is a real m × n matrix known by its structure: `shape`, `mv` (apply to a vector) and `T` (its adjoint). All
other quantities (`dense`, `gram`, `column_norms`, …) are rules in :mod:`fitnoise.algebra.rules`. Classes here are final
and frozen. They hold integers if the queries are counts. A new class needs three lines in `tests/zoo/operators.py`.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Array


class Operator(abc.ABC):
    """A real m × n matrix, by structure.

    **Guarantees** (the tests check them for an example of every class)
        * `mv` is linear and agrees with `rules.dense`.
        * ⟨y, A x⟩ = ⟨Aᵀ y, x⟩ for all x and y.
        * `A.T.T` acts as `A`, and `A.T.shape` is `A.shape` reversed.
    """

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """(m, n): number of queries, number of cells."""

    @abc.abstractmethod
    def mv(self, x: Array) -> Array:
        """Return A x along the first axis of `x`, of shape (n, ...) → (m, ...)."""

    @abc.abstractmethod
    def rmv(self, y: Array) -> Array:
        """Return Aᵀ y along the first axis of `y`, of shape (m, ...) → (n, ...)."""

    @property
    def T(self) -> Operator:  # noqa: N802 - the name of the transpose everywhere in numerical Python
        """The adjoint, as an operator."""
        return Transpose(self)

    def split_weights(self) -> tuple[Operator, Array]:
        """Return queries without weights, and the weight of each query, (m,): the product is this operator."""
        return self, np.ones(self.shape[0])


@final
@dataclass(frozen=True)
class Transpose(Operator):
    """The adjoint of another operator."""

    operand: Operator

    @property
    def shape(self) -> tuple[int, int]:
        """(n, m)."""
        m, n = self.operand.shape
        return n, m

    def mv(self, x: Array) -> Array:
        """Return Aᵀ x."""
        return self.operand.rmv(x)

    def rmv(self, y: Array) -> Array:
        """Return A y."""
        return self.operand.mv(y)

    @property
    def T(self) -> Operator:  # noqa: N802
        """The operator itself."""
        return self.operand


@final
@dataclass(frozen=True, eq=False)
class Dense(Operator):
    """An explicit matrix of finite numbers (m, n); integers stay integers, and True and False become 1 and 0.

    Raises:
        WorkloadError: The matrix has no row, no column or not two axes. Or an entry is not a real and finite number, or
            is a whole number of 2^53 or more in size.
    """

    matrix: Array

    def __post_init__(self) -> None:
        a = np.array(self.matrix)
        if a.ndim != 2 or 0 in a.shape:
            raise WorkloadError(
                "matrix-shape-wrong",
                f"The matrix of queries has the shape {a.shape}.",
                "A matrix needs at least one row, and one column for each cell.",
                "Give one row for each query.",
                "Nothing was planned.",
                place="matrix",
            )
        if a.dtype.kind not in "biuf":
            raise WorkloadError(
                "matrix-not-real",
                f"The matrix of queries has entries of the type {a.dtype}.",
                "",
                "Give real numbers.",
                "Nothing was planned.",
                place="matrix",
            )
        if a.dtype.kind == "f" and not np.isfinite(a).all():
            i, j = np.argwhere(~np.isfinite(a))[0]
            raise WorkloadError(
                "matrix-not-finite",
                f"The matrix of queries has an entry that is not finite, in row {i + 1}, column {j + 1}.",
                "",
                "Give finite numbers.",
                "Nothing was planned.",
                place="matrix",
            )
        # Doubles hold no larger whole numbers exactly. Before the cast: 2^64 − 1 of an unsigned type would become −1.
        if a.dtype.kind in "biu" and max(int(a.max()), -int(a.min())) >= 2**53:
            raise WorkloadError(
                "matrix-entry-too-large",
                "The matrix of queries has a whole number of 2^53 or more in size.",
                "",
                "Scale the queries.",
                "Nothing was planned.",
                place="matrix",
            )
        a = a.astype(np.int64 if a.dtype.kind in "biu" else np.float64)
        a.setflags(write=False)
        object.__setattr__(self, "matrix", a)

    def __eq__(self, other: object) -> bool:
        """Return True for a matrix of the same entries in the same format."""
        if type(other) is not Dense:
            return NotImplemented
        mine, its = self.matrix, other.matrix
        return mine.dtype == its.dtype and np.array_equal(mine, its)

    def __hash__(self) -> int:
        # Equal matrices have equal shapes, and a hash of the entries would read all of them.
        return hash(self.matrix.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        m, n = self.matrix.shape
        return m, n

    def mv(self, x: Array) -> Array:
        """Return A x."""
        return _product(self.matrix, x)

    def rmv(self, y: Array) -> Array:
        """Return Aᵀ y."""
        return _product(self.matrix.T, y)


def _product(a: Array, x: Array) -> Array:
    """Return a matrix times the first axis of an array; one or two axes need no tensor product."""
    return np.asarray(a @ x if x.ndim <= 2 else np.tensordot(a, x, axes=(1, 0)))


@final
@dataclass(frozen=True)
class Identity(Operator):
    """Every cell on its own: n × n."""

    n: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.n, self.n

    def mv(self, x: Array) -> Array:
        """Return x itself."""
        return x

    def rmv(self, y: Array) -> Array:
        """Return y itself."""
        return y


@final
@dataclass(frozen=True)
class Total(Operator):
    """The sum of all cells: 1 × n."""

    n: int

    @property
    def shape(self) -> tuple[int, int]:
        """(1, n)."""
        return 1, self.n

    def mv(self, x: Array) -> Array:
        """Return Σ_i x_i."""
        return np.asarray(x.sum(axis=0, keepdims=True))

    def rmv(self, y: Array) -> Array:
        """Return the one entry of y, n times."""
        return np.asarray(np.repeat(y, self.n, axis=0))


@final
@dataclass(frozen=True)
class Prefix(Operator):
    """Cumulative sums, "at most this value": the n × n lower triangle of ones."""

    n: int

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.n, self.n

    def mv(self, x: Array) -> Array:
        """Return cumulative sums."""
        return np.asarray(np.cumsum(x, axis=0))

    def rmv(self, y: Array) -> Array:
        """Return cumulative sums from the end."""
        return np.asarray(np.cumsum(y[::-1], axis=0)[::-1])


@final
@dataclass(frozen=True)
class Intervals(Operator):
    """Sums over intervals of cells, ends included: one row per (first, last)."""

    n: int
    bounds: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not self.bounds:
            raise WorkloadError(
                "no-ranges",
                "A table of ranges has no range.",
                "",
                "Give at least one range.",
                "Nothing was planned.",
                place="ranges",
            )
        for lo, hi in self.bounds:
            if not 0 <= lo <= hi < self.n:
                raise WorkloadError(
                    "range-outside-cells",
                    f"The range from cell {lo + 1} to cell {hi + 1} is empty, or goes beyond the {self.n} cells of "
                    "its attribute.",
                    "",
                    "Give a first and a last cell of the attribute, in this order.",
                    "Nothing was planned.",
                    place="ranges",
                )

    @property
    def shape(self) -> tuple[int, int]:
        """(number of intervals, n)."""
        return len(self.bounds), self.n

    @cached_property
    def ends(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The first cells, and the cells after the last: two arrays (number of intervals,), made once."""
        lo, last = np.array(self.bounds, dtype=np.intp).T.copy()
        hi = last + 1
        # Cached and shared by all products: a change by one caller would change the results of all others.
        lo.setflags(write=False)
        hi.setflags(write=False)
        return lo, hi

    def mv(self, x: Array) -> Array:
        """Return differences of cumulative sums."""
        lo, hi = self.ends
        sums = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, axis=0)])
        return np.asarray(sums[hi] - sums[lo])

    def rmv(self, y: Array) -> Array:
        """Return cumulative sums of the starts less the ends."""
        lo, hi = self.ends
        steps = np.zeros((self.n + 1, *y.shape[1:]), dtype=y.dtype)
        # Intervals can share an end, which `steps[lo] += y` would count once.
        np.add.at(steps, lo, y)
        np.subtract.at(steps, hi, y)
        return np.asarray(np.cumsum(steps, axis=0)[:-1])


@final
@dataclass(frozen=True)
class Averages(Operator):
    """Means over intervals of cells, ends included: one row per (first, last)."""

    n: int
    bounds: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        # The sums check the bounds.
        _ = self.unscaled

    @cached_property
    def unscaled(self) -> Intervals:
        """The sums that the means divide, in whole numbers."""
        return Intervals(self.n, self.bounds)

    @cached_property
    def widths(self) -> NDArray[np.intp]:
        """The number of cells of each mean, (number of intervals,)."""
        lo, hi = self.unscaled.ends
        return np.asarray(hi - lo)

    @property
    def shape(self) -> tuple[int, int]:
        """(number of intervals, n)."""
        return self.unscaled.shape

    def split_weights(self) -> tuple[Operator, Array]:
        """Return the sums, and the parts of them that the means are."""
        return self.unscaled, 1 / self.widths

    def mv(self, x: Array) -> Array:
        """Return sums, each divided by its number of cells."""
        return np.asarray(self.unscaled.mv(x) / self.widths.reshape(-1, *(1,) * (x.ndim - 1)))

    def rmv(self, y: Array) -> Array:
        """Return the adjoint of the sums of y, divided by the numbers of cells."""
        return self.unscaled.rmv(y / self.widths.reshape(-1, *(1,) * (y.ndim - 1)))


@final
@dataclass(frozen=True)
class Differences(Operator):
    """One cell less another: one row per (cell, cell taken away)."""

    n: int
    pairs: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not self.pairs:
            raise WorkloadError(
                "no-differences",
                "A table of differences has no pair of cells.",
                "",
                "Give at least one pair of cells.",
                "Nothing was planned.",
                place="change",
            )
        for one, other in self.pairs:
            if one == other or not (0 <= one < self.n and 0 <= other < self.n):
                raise WorkloadError(
                    "difference-outside-cells",
                    f"The difference of cells {one + 1} and {other + 1} names one cell twice, or goes beyond the "
                    f"{self.n} cells of its attribute.",
                    "",
                    "Give two different cells of the attribute.",
                    "Nothing was planned.",
                    place="change",
                )

    @property
    def shape(self) -> tuple[int, int]:
        """(number of pairs, n)."""
        return len(self.pairs), self.n

    @cached_property
    def ends(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The cells, and those taken away: two arrays (number of pairs,), made once."""
        one, other = np.array(self.pairs, dtype=np.intp).T.copy()
        return one, other

    def mv(self, x: Array) -> Array:
        """Return differences."""
        one, other = self.ends
        return np.asarray(x[one] - x[other])

    def rmv(self, y: Array) -> Array:
        """Return each entry added to its cell, and subtracted from the other."""
        one, other = self.ends
        out = np.zeros((self.n, *y.shape[1:]), dtype=y.dtype)
        # Pairs can share a cell, which `out[one] += y` would count once.
        np.add.at(out, one, y)
        np.subtract.at(out, other, y)
        return out


@final
@dataclass(frozen=True)
class Groups(Operator):
    """Sums over named groups of cells. Groups may overlap and may leave cells out."""

    n: int
    groups: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.groups:
            raise WorkloadError(
                "no-groups",
                "The table has no group.",
                "",
                "Give at least one group.",
                "Nothing was planned.",
                place="groups",
            )
        for number, group in enumerate(self.groups):
            if not group or len(set(group)) != len(group) or not all(0 <= i < self.n for i in group):
                raise WorkloadError(
                    "group-cells-unusable",
                    f"Group {number + 1} of the table is empty, repeats a cell, or goes beyond the {self.n} cells of "
                    "its attribute.",
                    "",
                    "Give each group different cells of the attribute.",
                    "Nothing was planned.",
                    place="groups",
                )

    @property
    def shape(self) -> tuple[int, int]:
        """(number of groups, n)."""
        return len(self.groups), self.n

    def mv(self, x: Array) -> Array:
        """Return one sum per group."""
        return np.stack([x[list(g)].sum(axis=0) for g in self.groups])

    def rmv(self, y: Array) -> Array:
        """Return every group's entry, added to each of its cells."""
        out = np.zeros((self.n, *y.shape[1:]), dtype=y.dtype)
        for value, g in zip(y, self.groups, strict=True):
            # A group has no cell twice.
            out[list(g)] += value
        return out


def from_matrix(matrix: Array) -> Operator:
    """Return the operator of a matrix (m, n): by structure if every query sums neighbouring cells, else dense.

    Raises:
        WorkloadError: :class:`Dense` refuses the matrix.

    **Guarantees**
        * The operator's matrix is the given one, entry by entry.
    """
    dense = Dense(matrix)
    m, n = dense.shape
    ones = dense.matrix == 1
    steps = np.diff(ones.view(np.int8), prepend=0, append=0, axis=1)
    # A row that is one run of ones has exactly two steps, one up and one down.
    if not (ones | (dense.matrix == 0)).all() or (np.abs(steps).sum(axis=1) != 2).any():
        return dense
    start, stop = steps.argmax(axis=1), steps.argmin(axis=1)
    cells = np.arange(n)
    if m == n and (stop == cells + 1).all():
        if (start == 0).all():
            return Prefix(n)
        if (start == cells).all():
            return Identity(n)
    if m == 1 and stop[0] - start[0] == n:
        return Total(n)
    return Intervals(n, tuple(zip(start.tolist(), (stop - 1).tolist(), strict=True)))


@final
@dataclass(frozen=True)
class Kronecker(Operator):
    """A ⊗ B ⊗ …: every combination of one query per axis; cells in C order (last axis fastest)."""

    factors: tuple[Operator, ...]

    def __post_init__(self) -> None:
        if not self.factors:
            raise WorkloadError(
                "no-kronecker-factors",
                "A Kronecker product has no factor.",
                "",
                "Give at least one factor.",
                "Nothing was planned.",
            )

    @property
    def shape(self) -> tuple[int, int]:
        """(Π m_i, Π n_i)."""
        m = n = 1
        for f in self.factors:
            m, n = m * f.shape[0], n * f.shape[1]
        return m, n

    def mv(self, x: Array) -> Array:
        """Apply one factor along each axis."""
        return self._along_axes(x, [f.mv for f in self.factors], [f.shape[1] for f in self.factors])

    def rmv(self, y: Array) -> Array:
        """Apply one adjoint along each axis."""
        return self._along_axes(y, [f.rmv for f in self.factors], [f.shape[0] for f in self.factors])

    @staticmethod
    def _along_axes(x: Array, maps: list[Any], sizes: list[int]) -> Array:
        rest = x.shape[1:]
        t = x.reshape(*sizes, *rest)
        for axis, f in enumerate(maps):
            t = np.moveaxis(f(np.moveaxis(t, axis, 0)), 0, axis)
        return t.reshape(-1, *rest)


@final
@dataclass(frozen=True)
class Stack(Operator):
    """Several sets of queries about the same cells, one below the other."""

    parts: tuple[Operator, ...]

    def __post_init__(self) -> None:
        widths = {p.shape[1] for p in self.parts}
        if len(widths) != 1:
            raise WorkloadError(
                "stacked-cells-differ",
                f"The stacked queries are about different numbers of cells: {sorted(widths)}.",
                "",
                "Stack queries about the same cells.",
                "Nothing was planned.",
            )

    @property
    def shape(self) -> tuple[int, int]:
        """(Σ m_i, n)."""
        return sum(p.shape[0] for p in self.parts), self.parts[0].shape[1]

    def mv(self, x: Array) -> Array:
        """Return each part's answers in turn."""
        return np.concatenate([p.mv(x) for p in self.parts])

    def rmv(self, y: Array) -> Array:
        """Return Σ_i A_iᵀ y_i."""
        splits = np.cumsum([p.shape[0] for p in self.parts])[:-1]
        return np.asarray(sum(p.rmv(piece) for p, piece in zip(self.parts, np.split(y, splits), strict=True)))


@final
@dataclass(frozen=True, eq=False)
class Scaled(Operator):
    """diag(w) A: each query multiplied by its own weight (m,)."""

    unscaled: Operator
    weights: Array

    def __post_init__(self) -> None:
        w = np.array(self.weights, dtype=np.float64)
        if w.shape != (self.unscaled.shape[0],) or not np.isfinite(w).all():
            raise WorkloadError(
                "query-weights-misfit",
                f"The weights of {self.unscaled.shape[0]} queries have the shape {w.shape}, or are not finite.",
                "",
                "Give one finite weight for each query.",
                "Nothing was planned.",
            )
        w.setflags(write=False)
        object.__setattr__(self, "weights", w)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the scaled operator."""
        return self.unscaled.shape

    def split_weights(self) -> tuple[Operator, Array]:
        """Return the unscaled queries, and their weights."""
        return self.unscaled, self.weights

    def mv(self, x: Array) -> Array:
        """Return w ∘ (A x)."""
        y = self.unscaled.mv(x)
        return np.asarray(y * self.weights.reshape(-1, *(1,) * (y.ndim - 1)))

    def rmv(self, y: Array) -> Array:
        """Return Aᵀ (w ∘ y)."""
        return self.unscaled.rmv(y * self.weights.reshape(-1, *(1,) * (y.ndim - 1)))
