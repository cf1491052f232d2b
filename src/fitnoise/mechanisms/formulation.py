"""From a publication in sectors to the problem a solver minimises, and from its weights back to covariances.

Number j stands for n_A published numbers of its table. Scaled by 1/√c_j and 1/n_A its lift makes the problem's
variances the ratios var_j/c_j; cells count with g²/r_o, so that the problem's cost is the protected unit's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import numpy as np
import scipy.linalg as sl

from fitnoise.backends import NUMPY, Backend
from fitnoise.certificates import NOBODY, Evidence, Pairs, Terms
from fitnoise.errors import PlanError
from fitnoise.operators import Operator
from fitnoise.problems import Block, Kinds, Pairwise, Problem, Rows, Shared
from fitnoise.sectors import Decomposition, Floats, Sector

MAX_KINDS = 2**21
"""Kinds of pairs held at once, for replace-one neighbours."""
FADED = 2e-8
"""Part of all weights together that may be left out of the evidence with the pairs of least weight; the bound falls by
about as much."""


@final
class AllPairs:
    """All kinds of pairs of records of a decomposition.

    Args:
        d: the decomposition.
        alone: whether a single record may also come or go.

    complete: whether these are all. With more than MAX_KINDS only pairs that differ in every exchangeable attribute, or
        in all but one, are kept; beyond that, only the former: the plan is then the best for those.
    """

    def __init__(self, d: Decomposition, *, alone: bool) -> None:
        free = [a for a, n in enumerate(d.sizes) if n > 1]
        always = sum(1 << a for a, n in enumerate(d.sizes) if n == 1)
        half = d.cells * (d.cells + 1) // 2
        self.complete = 2 ** len(free) * half <= MAX_KINDS
        if self.complete:
            codes = [sum(1 << a for i, a in enumerate(free) if x >> i & 1) for x in range(2 ** len(free))]
        else:
            codes = [0, *(1 << a for a in free)] if (1 + len(free)) * half <= MAX_KINDS else [0]
        self.patterns = [always | code for code in codes]
        self.kinds = Kinds(len(self.patterns), d.cells, alone)
        self._shapes = Pairs.of((t, 0, 0) for t in self.patterns)

    def chi(self, sector: Sector) -> Floats:
        """χ_S of every pattern."""
        return self._shapes.chi(sector.attributes, sector.sizes)

    def evidence(self, p: Floats, q: Floats) -> Evidence:
        """The weights of the pairs that matter."""
        first, second = self.kinds.pairs
        order = np.argsort(p)
        kept = np.sort(order[np.cumsum(p[order]) > FADED * p.sum()])
        keys = []
        for i in kept:
            pattern, pair = divmod(int(i), len(first))
            if pattern < len(self.patterns):
                keys.append((self.patterns[pattern], int(first[pair]), int(second[pair])))
            else:
                keys.append((0, int(i) - len(self.patterns) * len(first), NOBODY))
        return Evidence(p[kept], q, Pairs.of(keys))


@final
class Formulation:
    """The problem of a decomposed workload.

    Args:
        decomposition: the workload in sectors, with its targets.
        terms: the objective, the relative budgets and the unit.
        pairs: for replace-one neighbours; None for add-or-remove-one.
        backend: where matrices live.

    Attributes:
        problem: what solvers minimise.
    """

    def __init__(
        self, decomposition: Decomposition, terms: Terms, *, pairs: AllPairs | None = None, backend: Backend = NUMPY
    ) -> None:
        d = self.decomposition = decomposition
        scale = 1 / np.sqrt(d.variances)
        for t, layout in enumerate(d.layouts):
            scale[layout.rows] /= d.table_cells(t)
        self._triangles: list[Floats] = []
        self._pairs = pairs
        blocks = [self._block(s, scale) for s in d.sectors]
        constraints = trade = None
        if terms.weights is not None:
            shares = terms.weights * d.variances
            if terms.trade is None:
                owner = np.zeros(len(shares), dtype=np.intp)
                constraints = Shared(owner, shares / shares.sum(), 1)
            else:
                trade = terms.trade * shares
        self.problem = Problem(
            blocks,
            len(d.variances),
            cells=_cells(d, terms, pairs),
            constraints=constraints,
            trade=trade,
            backend=backend,
        )

    def _block(self, sector: Sector, scale: Floats) -> Block:
        d = self.decomposition
        triangle, columns = _orthonormal(sector)
        self._triangles.append(triangle)
        pairwise = None
        if self._pairs is not None:
            chi = self._pairs.chi(sector)
            columns, triangle, free = _free_first(columns, triangle) if (chi == 1).all() else (columns, triangle, False)
            self._triangles[-1] = triangle
            pairwise = Pairwise(self._pairs.kinds, chi, free and not self._pairs.kinds.alone)
        lifts: list[Floats] = []
        numbers = []
        rows: list[Rows] = []
        for t, lift in zip(sector.members, sector.lifts, strict=True):
            where = d.layouts[t].rows
            if isinstance(lift, Operator):
                rows.append(Rows(lift, scale[where], where.start))
                continue
            lifts.append((lift @ triangle.T) * scale[where][:, None])
            numbers.append(np.arange(where.start, where.stop))
        return Block(
            multiplicity=float(sector.multiplicity),
            columns=columns,
            lifts=np.concatenate(lifts) if lifts else np.zeros((0, len(triangle))),
            numbers=np.concatenate(numbers) if numbers else np.zeros(0, dtype=np.intp),
            rows=tuple(rows),
            frame=None if sector.is_identity and self._pairs is None else triangle,
            pairwise=pairwise,
        )

    def precision_factors(self, p: Floats, q: Floats) -> list[Floats]:
        """F_S (k × k) with F_SᵀF_S = Σ_S⁻¹ in the sector's integer basis, scaled to meet the worst constraint."""
        return self.in_basis([z for _, z in self.problem.covariance_factors(p, q)])

    def in_basis(self, factors: Sequence[Floats]) -> list[Floats]:
        """Factors of Σ_S⁻¹ in the problem's coordinates, as factors in the sectors' integer bases.

        B x = Rᵀ y where the problem's coordinates are y = Q x, so Σ⁻¹ = R⁻¹ ZᵀZ R⁻ᵀ.
        """
        return [
            np.asarray(np.linalg.solve(triangle, z.T).T) for triangle, z in zip(self._triangles, factors, strict=True)
        ]


def _orthonormal(sector: Sector) -> tuple[Floats, Floats]:
    """(R, Q) with B = Rᵀ Q, Q of orthonormal rows and R triangular."""
    if sector.is_identity:
        eye = np.eye(len(sector.basis))
        return eye, eye
    q, r = sl.qr(sector.basis.T.astype(np.float64), mode="economic")
    rows = np.ascontiguousarray(q.T, dtype=np.float64)
    rows[:, ~sector.basis.any(axis=0)] = 0  # cells no row reaches: not even rounding does
    return np.asarray(r, dtype=np.float64), rows


def _free_first(columns: Floats, triangle: Floats) -> tuple[Floats, Floats, bool]:
    """Rotate coordinates so that the first is the number of records, if these rows tell it: (Q, R, whether they do)."""
    n = columns.shape[1]
    towards = columns.sum(axis=1) / math.sqrt(n)
    if abs(float(towards @ towards) - 1) > 1e-9:
        return columns, triangle, False
    rotation = sl.qr(towards[:, None], mode="full")[0].T  # its first row is ±towards
    rotated = rotation @ columns
    rotated[0] = rotated[0, 0]
    rotated[1:] -= rotated[1:].mean(axis=1, keepdims=True)
    return rotated, rotation @ triangle, True


def _cells(d: Decomposition, terms: Terms, pairs: AllPairs | None) -> Shared | None:
    unit = float(terms.factor)
    if terms.relative is None and unit == 1:
        return None
    if pairs is not None:
        n = len(pairs.kinds)
        return Shared(np.arange(n), np.full(n, unit), n)
    r = np.ones(d.cells) if terms.relative is None else terms.relative
    if any(s.basis[:, r == 0].any() for s in d.sectors):
        raise PlanError(
            "a query counts records of a cell whose relative budget is 0: no answer about them can be paid for. "
            "Leave the cell out of the query, or give it a budget. Nothing was planned."
        )
    with np.errstate(divide="ignore"):
        return Shared(np.arange(d.cells), np.where(r > 0, unit / r, 0.0), d.cells)
