"""The fit-for-use problem as data: what a solver may ask of it.

    minimise Δ² = max_i prof_i   subject to   var_j ≤ c_j for every released number j.

For weights p on cells and q on numbers (each summing to one) the covariance that minimises the Lagrangian is the
matrix geometric mean Σ_S = C_S # N_S⁻¹ in every sector S, and with ν = Σ_S mult_S tr(Σ_S N_S)

    ν²  ≤  Δ*²  ≤  max_i prof_i · max_j var_j / c_j .

Source: fit-for-use (Xiao et al. 2021), sections 3–5, for the problem; the dual and the geometric mean are ours
(docs/notation.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from fitnoise.sectors import Decomposition, Floats


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """The problem at weights (p, q): nu, the profile of every cell (n_o,) and var_j/c_j of every number (M,)."""

    nu: float
    profile: Floats
    ratios: Floats

    @property
    def lower(self) -> float:
        """ν², which no mechanism can beat."""
        return self.nu**2

    @property
    def upper(self) -> float:
        """What the covariance at these weights costs once scaled to meet the worst target."""
        return float(self.profile.max() * self.ratios.max())

    @property
    def finite(self) -> bool:
        """Whether floating point survived."""
        return bool(math.isfinite(self.nu) and np.isfinite(self.profile).all() and np.isfinite(self.ratios).all())


@final
@dataclass(frozen=True, eq=False)
class _Block:
    """A sector of rank k > 1 in orthonormal coordinates: B = Rᵀ Q, lifts L Rᵀ, scaled by 1/(√c n_A)."""

    multiplicity: float
    q: Floats  # (k, n_o), orthonormal rows
    triangle: Floats  # R, (k, k)
    lifts: Floats  # (rows, k)
    rows: NDArray[np.intp]

    def halves(self, p: Floats, q: Floats) -> tuple[Floats, Floats, Floats]:
        """(s, Z, Y): singular values, Z = s^-½ Uᵀ R_n and Y = s^-½ Vᵀ R_c, so Σ = YᵀY and Σ⁻¹ = ZᵀZ.

        No inverse, no division by a weight: R_nᵀR_n = N, R_cᵀR_c = C and R_n R_cᵀ = U s Vᵀ.
        """
        rn = _triangle(np.sqrt(q[self.rows])[:, None] * self.lifts)
        rc = _triangle(np.sqrt(p)[:, None] * self.q.T)
        u, s, vt = np.linalg.svd(rn @ rc.T)
        root = np.sqrt(np.maximum(s, s[0] * 1e-300))[:, None]
        return np.asarray(s), np.asarray((u.T @ rn) / root), np.asarray((vt @ rc) / root)


def _triangle(a: Floats) -> Floats:
    """R of a = QR, k × k also when `a` has fewer than k rows."""
    k = a.shape[1]
    out = np.zeros((k, k))
    r = sl.qr(a, mode="r", check_finite=False)[0][:k]
    out[: len(r)] = r
    return out


class FitForUse:
    """The problem of a decomposed workload.

    Args:
        decomposition: the workload in sectors, with its targets.

    Attributes:
        cells: n_o, number of weights p. numbers: M, number of weights q.
    """

    def __init__(self, decomposition: Decomposition) -> None:
        d = self.decomposition = decomposition
        self.cells = d.cells
        self.numbers = d.layouts[-1].rows.stop
        self._blocks: dict[int, _Block] = {}
        self._scalars: list[int] = []
        scale = 1 / np.sqrt(d.variances)
        for t, layout in enumerate(d.layouts):
            scale[layout.rows] /= d.table_cells(t)
        factored: dict[int, tuple[Floats, Floats]] = {}
        columns: list[Floats] = []
        entries: list[tuple[NDArray[np.intp], Floats]] = []
        for number, sector in enumerate(d.sectors):
            rows = np.concatenate([np.arange(*d.layouts[t].rows.indices(self.numbers)) for t in sector.members])
            lifts = np.concatenate(sector.lifts) * scale[rows][:, None]
            if len(sector.basis) == 1:
                self._scalars.append(number)
                columns.append(sector.basis[0].astype(np.float64) ** 2)
                entries.append((rows, lifts[:, 0] ** 2))
                continue
            if id(sector.basis) not in factored:
                q, r = sl.qr(sector.basis.T.astype(np.float64), mode="economic")
                factored[id(sector.basis)] = np.ascontiguousarray(q.T), np.asarray(r, dtype=np.float64)
            q, r = factored[id(sector.basis)]
            self._blocks[number] = _Block(float(sector.multiplicity), q, r, lifts @ r.T, rows)
        self._multiplicities = np.array([float(d.sectors[s].multiplicity) for s in self._scalars])
        self._columns = np.array(columns).reshape(len(columns), self.cells)
        self._rows = np.concatenate([e[0] for e in entries]) if entries else np.zeros(0, dtype=np.intp)
        self._squares = np.concatenate([e[1] for e in entries]) if entries else np.zeros(0)
        self._owner = np.repeat(np.arange(len(entries)), [len(e[0]) for e in entries])

    def evaluate(self, p: Floats, q: Floats) -> Evaluation:
        """ν, profile and var/c at weights p (n_o,) and q (M,)."""
        nu = 0.0
        profile = np.zeros(self.cells)
        ratios = np.zeros(self.numbers)
        if self._scalars:
            c, n = self._scalar_parts(p, q)
            with np.errstate(divide="ignore", invalid="ignore"):
                up = self._multiplicities * np.sqrt(n / c)
                down = self._multiplicities * np.sqrt(c / n)
            nu += float(self._multiplicities @ np.sqrt(c * n))
            profile += up @ self._columns
            ratios += np.bincount(self._rows, down[self._owner] * self._squares, minlength=self.numbers)
        for block in self._blocks.values():
            s, z, y = block.halves(p, q)
            nu += block.multiplicity * float(s.sum())
            profile += block.multiplicity * ((z @ block.q) ** 2).sum(axis=0)
            ratios[block.rows] += block.multiplicity * ((block.lifts @ y.T) ** 2).sum(axis=1)
        return Evaluation(nu, profile, ratios)

    def _scalar_parts(self, p: Floats, q: Floats) -> tuple[Floats, Floats]:
        c = self._columns @ p
        n = np.bincount(self._owner, q[self._rows] * self._squares, minlength=len(self._scalars))
        return c, n.astype(np.float64)

    def precision_factors(self, p: Floats, q: Floats) -> list[Floats]:
        """F_S (k × k) with F_SᵀF_S = Σ_S⁻¹ in the sector's integer basis, scaled so that max var/c = 1."""
        worst = math.sqrt(float(self.evaluate(p, q).ratios.max()))
        out: dict[int, Floats] = {}
        if self._scalars:
            c, n = self._scalar_parts(p, q)
            for number, value in zip(self._scalars, np.sqrt(np.sqrt(n / c)), strict=True):
                out[number] = np.array([[value * worst]])
        for number, block in self._blocks.items():
            _, z, _ = block.halves(p, q)
            # y = Q x and B x = Rᵀ y, so Σ⁻¹ in the coordinates B x is R⁻¹ ZᵀZ R⁻ᵀ
            out[number] = worst * sl.solve_triangular(block.triangle, z.T, lower=False).T
        return [out[i] for i in range(len(self.decomposition.sectors))]
