"""A workload as a direct sum of sectors: one exact representation from a dense matrix to huge domains.

An attribute is *exchangeable* when every table shows it value by value or not at all, with targets that do not
depend on its value; otherwise it is *structured*. O is the product of the structured attributes (n_o cells). Table A
asks, for every combination of its exchangeable attributes, the queries R_A (m_A × n_o) on O, so its matrix is
(⊗_{a∈A} I ⊗_{a∉A} 1ᵀ) ⊗ R_A. The sectors are the subsets S of the tables' exchangeable attributes; within S only
B_S, an integer basis of the rows that reach it, matters, with R_A = L_{A,S} B_S. A dense matrix is the case of one
sector. See docs/notation.md.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from fitnoise import operators as op
from fitnoise import rules
from fitnoise.errors import WorkloadError
from fitnoise.operators import Array
from fitnoise.targets import By
from fitnoise.workloads import EACH, Table, Workload

Floats = NDArray[np.float64]

MAX_STRUCTURED_CELLS = 20_000
"""Joint cells of the structured attributes are dense: k × n_o arrays and k × k decompositions per step."""

TALL = 4
"""A table with more than this many rows per structured cell is kept by structure where its operator has one: its matrix
would be larger than all that planning needs."""

_BASIS_BITS = 26
"""Entries of an integer basis stay below 2^26, so that strategy rows (another 20–40 bits) stay exact and small."""


@final
@dataclass(frozen=True, eq=False)
class Layout:
    """Where a table sits: its exchangeable axes and its queries on the structured cells.

    axes: positions among the exchangeable attributes, in the table's own order.
    queries: R_A, (m_A, n_o): a matrix, or an operator where that would be needlessly tall.
    variances: c_A, shape (m_A,).
    rows: its slice of all tables' rows put one after the other.
    inner_shape: the rows' shape along the structured attributes the table shows, in domain order.
    transpose: axis order that turns (axes…, inner…) into the table's columns.
    """

    axes: tuple[int, ...]
    queries: Array | op.Operator
    variances: Floats
    rows: slice
    inner_shape: tuple[int, ...]
    transpose: tuple[int, ...]


@final
@dataclass(frozen=True, eq=False)
class Sector:
    """One invariant subspace: centred along `attributes`, summed over the other exchangeable ones.

    attributes: positions among the exchangeable attributes, increasing.
    sizes: n_a of each.
    basis: B_S, integers, shape (k, n_o), of full row rank.
    members: the tables A ⊇ S.
    lifts: L_{A,S} for each member, (m_A, k): R_A = L B. The table's own operator where the basis is the identity.
    """

    attributes: tuple[int, ...]
    sizes: tuple[int, ...]
    basis: NDArray[np.int64]
    members: tuple[int, ...]
    lifts: tuple[Floats | op.Operator, ...]

    @property
    def is_identity(self) -> bool:
        """Whether B is the identity: every structured cell on its own."""
        return is_identity(self.basis)

    def answers(self, t: int, x: Floats) -> Floats:
        """L_{A,S} along the last axis of `x`, for table t: (…, k) → (…, m_A)."""
        lift = self.lifts[self.members.index(t)]
        if isinstance(lift, np.ndarray):
            return np.asarray(x @ lift.T)
        return np.asarray(np.moveaxis(lift.mv(np.moveaxis(x, -1, 0)), 0, -1))

    def pulled(self, t: int, y: Floats) -> Floats:
        """L_{A,S}ᵀ along the last axis of `y`, for table t: (…, m_A) → (…, k)."""
        lift = self.lifts[self.members.index(t)]
        if isinstance(lift, np.ndarray):
            return np.asarray(y @ lift)
        return np.asarray(np.moveaxis(lift.rmv(np.moveaxis(y, -1, 0)), 0, -1))

    @property
    def multiplicity(self) -> int:
        """Π (n_a − 1): how many copies of the structured problem the sector stands for."""
        return math.prod(n - 1 for n in self.sizes)


@final
@dataclass(frozen=True, eq=False)
class Decomposition:
    """A workload in sectors.

    exchangeable, sizes: names and sizes n_a of the exchangeable attributes that some table shows.
    structured, shape: names and sizes of the structured ones, in domain order; n_o = Π shape.
    query_shift: how far an answered query may be from the one written, per record, as measured in double precision: 0
        where distinct cells span the queries, rounding (about 1e-15) where other integers do, about 2⁻²⁶ of the largest
        entry for a rank-deficient matrix of real numbers, whose basis is rounded to integers.
    """

    exchangeable: tuple[str, ...]
    sizes: tuple[int, ...]
    structured: tuple[str, ...]
    shape: tuple[int, ...]
    layouts: tuple[Layout, ...]
    sectors: tuple[Sector, ...]
    query_shift: float

    @property
    def cells(self) -> int:
        """n_o, the joint cells of the structured attributes."""
        return math.prod(self.shape)

    @property
    def variances(self) -> Floats:
        """Targets of all tables' rows, shape (M,)."""
        return np.concatenate([x.variances for x in self.layouts])

    def table_cells(self, t: int) -> int:
        """n_A, combinations of the exchangeable attributes of table t."""
        return math.prod(self.sizes[a] for a in self.layouts[t].axes)


def exchangeable_attributes(workload: Workload, apart: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """(exchangeable, structured) attributes that some table uses, in domain order; those `apart` are structured."""
    if any(t.matrix is not None for t in workload.tables):
        return [], list(workload.domain)
    used = {a for t in workload.tables for a in t.attributes} | set(apart)
    structured = set(apart)
    structured |= {a for t in workload.tables for a in t.attributes if t.view(a) is not EACH}
    structured |= {t.target.number.attribute for t in workload.tables if isinstance(t.target.number, By)}
    names = [a for a in workload.domain if a in used]
    return [a for a in names if a not in structured], [a for a in names if a in structured]


def decompose(
    workload: Workload, bases: Sequence[NDArray[np.int64]] | None = None, *, apart: Iterable[str] = ()
) -> Decomposition:
    """Put a workload in sectors.

    Args:
        workload: the tables.
        apart: attributes whose values are not alike for another reason, such as budgets of their own.
        bases: one integer basis per sector, as a plan has stored them; None chooses them.

    Raises:
        WorkloadError: the structured attributes have too many joint cells for dense arrays, or the queries cannot be
            written over the bases given.

    **Guarantees**
        * R_A = L_{A,S} B_S for every table and every sector it reaches, to 1e-7 of each row's largest entry;
        * every basis is integer and of full row rank;
        * the rows of different sectors, as released, are orthogonal.
    """
    free, bound = exchangeable_attributes(workload, apart)
    domain = workload.domain
    shape = tuple(domain[a].size for a in bound)
    if math.prod(shape) > MAX_STRUCTURED_CELLS:
        raise WorkloadError(
            f"the attributes {bound} are asked for by ranges, recodes, per-value targets or a matrix, and have "
            f"{math.prod(shape):,} joint cells; at most {MAX_STRUCTURED_CELLS:,} can be planned exactly. "
            "Coarsen one of them, or ask for it value by value with one target. Nothing was planned."
        )
    queries: dict[op.Operator, Array | op.Operator] = {}
    layouts: list[Layout] = []
    start = 0
    for t in workload.tables:
        layout = _layout(t, workload, free, bound, queries, start)
        layouts.append(layout)
        start = layout.rows.stop
    sizes = tuple(domain[a].size for a in free)
    _afford(_least_memory(layouts), f"planning {math.prod(shape):,} joint cells of {bound}")
    sectors, shift = _sectors(layouts, sizes, bases)
    if shift > 0 and any(isinstance(x.queries, np.ndarray) and x.queries.dtype.kind == "f" for x in layouts):
        (only,) = sectors  # a matrix makes everything structured. Its queries are L B exactly from here on
        layouts = [
            replace(x, queries=lift @ only.basis) if isinstance(lift, np.ndarray) else x
            for x, lift in zip(layouts, only.lifts, strict=True)
        ]
    return Decomposition(tuple(free), sizes, tuple(bound), shape, tuple(layouts), sectors, shift)


def _afford(needed: float, what: str) -> None:
    """Raise WorkloadError where arrays of so many bytes cannot fit."""
    there = physical_memory()
    if needed > there:
        raise WorkloadError(
            f"{what} needs at least {needed / 2**30:,.1f} GiB of memory; this machine has {there / 2**30:,.1f}. "
            "Coarsen an attribute that is asked for by ranges, recodes or per-value targets, publish it in tables that "
            "share fewer of these attributes, or plan on a larger machine. Nothing was planned."
        )


def physical_memory() -> int:
    """Bytes of this machine's memory; what cannot be told counts as 16 GiB."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**34


def _least_memory(layouts: Sequence[Layout]) -> float:
    """Bytes an evaluation takes for the largest sector: its matrices, their decompositions and their images."""
    given = [x.queries for x in layouts if isinstance(x.queries, np.ndarray)]
    n = layouts[0].queries.shape[1]
    rows = sum(len(x) for x in {id(q): q for q in given}.values())
    k = min(n, max(x.queries.shape[0] for x in layouts) if len(layouts) == 1 else n)
    return float(8 * (14 * k * k + 3 * k * n + 3 * k * rows))


def _layout(
    t: Table,
    workload: Workload,
    free: Sequence[str],
    bound: Sequence[str],
    queries: dict[op.Operator, Array | op.Operator],
    start: int,
) -> Layout:
    domain = workload.domain
    wanted = t.variances(domain, workload.confidence)
    if t.matrix is not None:
        m = t.matrix.shape[0]
        return Layout((), t.matrix.matrix, wanted.ravel(), slice(start, start + m), (m,), (0,))
    outer = [a for a in t.attributes if a in free]
    inner = [a for a in bound if a in t.attributes]
    factors = [t.view(a).operator(domain[a]) if a in t.attributes else op.Total(domain[a].size) for a in bound]
    asked = op.Kronecker(tuple(factors)) if factors else op.Identity(1)
    if asked not in queries:
        tall = asked.shape[0] > TALL * max(asked.shape[1], 64)
        if not tall:
            m, n = asked.shape
            _afford(8 * m * n, f"the matrix of the {m:,} × {n:,} queries of table {t.name!r}")
        queries[asked] = asked if tall else rules.dense(asked)
    order = [*outer, *inner]
    transpose = tuple(order.index(a) for a in t.attributes)
    rows = wanted.transpose([t.attributes.index(a) for a in order])[(0,) * len(outer)]
    return Layout(
        axes=tuple(free.index(a) for a in outer),
        queries=queries[asked],
        variances=np.ascontiguousarray(rows.ravel()),
        rows=slice(start, start + rows.size),
        inner_shape=rows.shape,
        transpose=transpose,
    )


def _sectors(
    layouts: Sequence[Layout], sizes: Sequence[int], bases: Sequence[NDArray[np.int64]] | None
) -> tuple[tuple[Sector, ...], float]:
    reached: dict[tuple[int, ...], list[int]] = {}
    for t, layout in enumerate(layouts):
        axes = sorted(a for a in layout.axes if sizes[a] > 1)
        for k in range(len(axes) + 1):
            for subset in itertools.combinations(axes, k):
                reached.setdefault(subset, []).append(t)
    subsets = sorted(reached, key=lambda s: (len(s), s))
    if bases is not None and len(bases) != len(subsets):
        raise WorkloadError(f"the tables need {len(subsets)} sectors; bases for {len(bases)} were given.")
    number: dict[int, int] = {}
    for layout in layouts:
        number.setdefault(id(layout.queries), len(number))
    distinct = {number[id(x.queries)]: x.queries for x in layouts}
    chosen: dict[tuple[int, ...], NDArray[np.int64]] = {}
    known: dict[tuple[tuple[int, ...], bytes], tuple[NDArray[np.int64], dict[int, Floats | op.Operator], float]] = {}
    sectors: list[Sector] = []
    worst = 0.0
    for i, subset in enumerate(subsets):
        members = reached[subset]
        key = tuple(sorted({number[id(layouts[t].queries)] for t in members}))
        if bases is None:
            if key not in chosen:
                chosen[key] = _basis_of([distinct[k] for k in key])
            basis = chosen[key]
        else:
            basis = np.ascontiguousarray(bases[i])
        tag = (key, basis.tobytes())
        if tag not in known:
            lifted = {k: _lift(distinct[k], basis) for k in key}
            known[tag] = basis, {k: x for k, (x, _) in lifted.items()}, max(shift for _, shift in lifted.values())
        basis, lifts, shift = known[tag]
        worst = max(worst, shift)
        sectors.append(
            Sector(
                attributes=subset,
                sizes=tuple(sizes[a] for a in subset),
                basis=basis,
                members=tuple(members),
                lifts=tuple(lifts[number[id(layouts[t].queries)]] for t in members),
            )
        )
    return tuple(sectors), worst


def is_identity(basis: NDArray[np.int64]) -> bool:
    """Whether a basis is the identity matrix."""
    k, n = basis.shape
    return k == n and bool((basis.diagonal() == 1).all()) and int(np.abs(basis).sum()) == k


def _basis_of(queries: Sequence[Array | op.Operator]) -> NDArray[np.int64]:
    """An integer basis of what all these queries span."""
    written = [x for x in queries if isinstance(x, np.ndarray)]
    if len(written) == len(queries):
        return integer_basis(np.concatenate(written))
    # WᵀW has the rows' span and its equal columns; when its rank is full, so is W's
    grams = [x if isinstance(x, np.ndarray) else rules.gram(x) for x in queries]
    basis = integer_basis(np.concatenate(grams))
    return basis if is_identity(basis) else integer_basis(np.concatenate([_matrix(x) for x in queries]))


def _matrix(queries: Array | op.Operator) -> Array:
    return queries if isinstance(queries, np.ndarray) else rules.dense(queries)


def _lift(queries: Array | op.Operator, basis: NDArray[np.int64]) -> tuple[Floats | op.Operator, float]:
    """The table's own operator over the identity; otherwise L and its shift, as :func:`lift` has them."""
    if isinstance(queries, op.Operator) and is_identity(basis):
        return queries, 0.0
    return lift(_matrix(queries), basis)


def integer_basis(rows: Array) -> NDArray[np.int64]:
    """An integer basis B of the row space, shape (rank, n_o).

    Equal columns are merged first. If the distinct non-zero columns are as many as the rank, B is their 0/1
    indicators, in the order in which they appear (the identity where all differ); otherwise k pivoted rows, scaled to
    integers (exactly where their binary fractions allow 26 bits). Rounding a strategy entrywise without an integer
    basis would move the row space and bias the answers.
    """
    unique, where = np.unique(rows, axis=1, return_inverse=True)
    where = where.ravel()
    zero = np.asarray(~unique.any(axis=0))
    distinct = np.unique(unique[:, ~zero], axis=0)
    distinct = distinct[distinct.any(axis=1)]
    even = distinct / np.abs(distinct).max(axis=1, keepdims=True)  # how queries are scaled must not matter
    rank = _rank(even)
    if rank == distinct.shape[1]:
        merged = np.eye(rank, dtype=np.int64)
    else:
        pivots = sl.qr(even.T, mode="r", pivoting=True)[1][:rank]
        merged = _to_integers(distinct[np.sort(pivots)])
    full = np.zeros((rank, unique.shape[1]), dtype=np.int64)
    full[:, ~zero] = merged
    spread = full[:, where]
    if rank == distinct.shape[1]:
        spread = spread[np.argsort(spread.argmax(axis=1))]
    return np.ascontiguousarray(spread)


def lift(rows: Array, basis: NDArray[np.int64]) -> tuple[Floats, float]:
    """(L, shift): L with rows = L B as nearly as possible, and max|rows − L B|, which is 0 for a basis of indicators.

    Raises:
        WorkloadError: a row is not over the basis to 1e-7 of its largest entry.
    """
    if basis.ndim != 2 or basis.shape[1] != rows.shape[1]:
        raise WorkloadError("a basis does not have one column per cell.")
    if ((basis == 0) | (basis == 1)).all() and (basis.sum(axis=0) <= 1).all() and basis.any(axis=1).all():
        out = rows[:, basis.argmax(axis=1)].astype(np.float64)  # disjoint groups of equal columns
    else:
        out = sl.lstsq(basis.T.astype(np.float64), rows.T.astype(np.float64))[0].T
    off = np.abs(out @ basis - rows).max(axis=1)
    if (off > 1e-7 * np.abs(rows).max(axis=1)).any():
        raise WorkloadError(
            "the queries cannot be written over the basis of their sector: they are too nearly dependent, or the basis "
            "belongs to other queries. Drop queries that are almost combinations of others. Nothing was planned."
        )
    return np.ascontiguousarray(out), float(off.max())


def _rank(a: Array) -> int:
    """Numerical rank: the singular values above rounding. A Cholesky factor is quicker where it shows that all are."""
    m, n = a.shape
    if m >= n:
        gram = a.astype(np.float64).T @ a.astype(np.float64)
        gram[np.diag_indices(n)] -= 1e-10 * gram.trace()
        with contextlib.suppress(sl.LinAlgError):
            sl.cholesky(gram, overwrite_a=True)
            return int(n)  # every singular value is above 1e-5 of the largest
    s = sl.svdvals(a.astype(np.float64))
    return int((s > s[0] * max(a.shape) * np.finfo(np.float64).eps).sum())


def _to_integers(a: Array) -> NDArray[np.int64]:
    """Each row times a power of two, as integers: exact where 26 bits allow it, rounded otherwise."""
    if a.dtype.kind == "i":
        return a.astype(np.int64)
    exponents = _BASIS_BITS - np.frexp(np.abs(a).max(axis=1))[1]
    whole = np.rint(np.ldexp(a, exponents[:, None])).astype(np.int64)
    common = np.gcd.reduce(np.abs(whole), axis=1)
    return np.asarray(whole // (common & -common)[:, None])
