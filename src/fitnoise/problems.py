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
from functools import cached_property
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


@final
@dataclass(frozen=True, eq=False)
class _Scalars:
    """All sectors of rank 1 together: one row of squared basis entries and a run of squared lifts each."""

    multiplicity: Floats  # (K,)
    columns: Floats  # squared basis, (K, n_o)
    squares: Floats  # squared lifts, all sectors in a row
    rows: NDArray[np.intp]  # the number each of them belongs to
    owner: NDArray[np.intp]  # the sector each of them belongs to
    numbers: int

    def halves(self, p: Floats, q: Floats) -> tuple[Floats, Floats]:
        """(C, N) of every sector, (K,) each."""
        return self.columns @ p, self.gather(q)

    def gather(self, q: Floats) -> Floats:
        """Σ_j q_j l_j² per sector, (K,)."""
        return np.bincount(self.owner, q[self.rows] * self.squares, minlength=len(self.columns)).astype(np.float64)

    def scatter(self, x: Floats) -> Floats:
        """Σ_S x_S l_Sj² per number, (M,)."""
        return np.bincount(self.rows, x[self.owner] * self.squares, minlength=self.numbers).astype(np.float64)


@final
@dataclass(frozen=True, eq=False)
class _Curved:
    """A sector in coordinates where Σ_S = I: z_i = Z b_i, (k, n_o); y_j = Y l_j, (rows, k); singular values s."""

    multiplicity: float
    z: Floats
    y: Floats
    rows: NDArray[np.intp]
    s: Floats

    @cached_property
    def kernel(self) -> Floats:
        """1/(s_a + s_b), with singular values no smaller than 1e-14 of the largest; only second order needs it."""
        s = np.maximum(self.s, 1e-14 * self.s[0])
        return np.asarray(1 / (s[:, None] + s))


@final
@dataclass(frozen=True, eq=False)
class Linearisation:
    """The problem at weights w = (p, q) to second order, for the convex φ(w) = Σw − 2 log ν(w).

    A change (dp, dq) moves Σ_S, in coordinates where Σ_S = I, by the E that solves s_a E_ab + E_ab s_b = (dC − dN)_ab,
    s the singular values of N^½C^½; then d prof_i = −mult z_iᵀEz_i and d(var_j/c_j) = mult y_jᵀEy_j, twice the changes
    of ν's slopes. A Hessian–vector product is a few products of k × n_o and k × M matrices: no decomposition.

    value: the evaluation. slopes: 2 ∂ν/∂w = (profile, var/c), (n_o + M,).
    """

    value: Evaluation
    slopes: Floats
    curved: tuple[_Curved, ...]
    scalars: _Scalars | None
    scalar_sigma: Floats  # Σ_S of rank-1 sectors
    scalar_size: Floats  # √(C_S N_S)

    def hessian_times(self, v: Floats) -> Floats:
        """∇²φ v, (n_o + M,)."""
        n = len(self.value.profile)
        dp, dq = v[:n], v[n:]
        out = np.zeros_like(v)
        for c in self.curved:
            e = ((c.z * dp) @ c.z.T - (c.y.T * dq[c.rows]) @ c.y) * c.kernel
            out[:n] += c.multiplicity * (c.z * (e @ c.z)).sum(axis=0)
            out[n + c.rows] -= c.multiplicity * (c.y * (c.y @ e)).sum(axis=1)
        if self.scalars is not None:
            s, sigma = self.scalars, self.scalar_sigma
            e = s.multiplicity * (s.columns @ dp / sigma - s.gather(dq) * sigma) / (2 * self.scalar_size)
            out[:n] += (e / sigma) @ s.columns
            out[n:] -= s.scatter(e * sigma)
        nu = self.value.nu
        return np.asarray(out / nu + self.slopes * (float(self.slopes @ v) / (2 * nu * nu)))

    def diagonal(self) -> Floats:
        """The diagonal of ∇²φ, (n_o + M,); at least a tiny positive number."""
        n = len(self.value.profile)
        out = np.zeros_like(self.slopes)
        for c in self.curved:
            z2, y2 = c.z**2, c.y**2
            out[:n] += c.multiplicity * (z2 * (c.kernel @ z2)).sum(axis=0)
            out[n + c.rows] += c.multiplicity * ((y2 @ c.kernel) * y2).sum(axis=1)
        if self.scalars is not None:
            s, sigma = self.scalars, self.scalar_sigma
            e = s.multiplicity / (2 * self.scalar_size)
            out[:n] += (e / sigma**2) @ s.columns**2
            out[n:] += np.bincount(s.rows, (e * sigma**2)[s.owner] * s.squares**2, minlength=s.numbers)
        nu = self.value.nu
        out = out / nu + self.slopes**2 / (2 * nu * nu)
        return np.asarray(np.maximum(out, 1e-12 * out.max()))


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
        self._scalar_sectors: list[int] = []
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
                self._scalar_sectors.append(number)
                columns.append(sector.basis[0].astype(np.float64) ** 2)
                entries.append((rows, lifts[:, 0] ** 2))
                continue
            if id(sector.basis) not in factored:
                q, r = sl.qr(sector.basis.T.astype(np.float64), mode="economic")
                factored[id(sector.basis)] = np.ascontiguousarray(q.T), np.asarray(r, dtype=np.float64)
            q, r = factored[id(sector.basis)]
            self._blocks[number] = _Block(float(sector.multiplicity), q, r, lifts @ r.T, rows)
        self._scalars: _Scalars | None = None
        if entries:
            self._scalars = _Scalars(
                multiplicity=np.array([float(d.sectors[s].multiplicity) for s in self._scalar_sectors]),
                columns=np.array(columns),
                squares=np.concatenate([squares for _, squares in entries]),
                rows=np.concatenate([rows for rows, _ in entries]),
                owner=np.repeat(np.arange(len(entries)), [len(rows) for rows, _ in entries]),
                numbers=self.numbers,
            )

    def evaluate(self, p: Floats, q: Floats) -> Evaluation:
        """ν, profile and var/c at weights p (n_o,) and q (M,)."""
        return self.linearise(p, q).value

    def linearise(self, p: Floats, q: Floats) -> Linearisation:
        """The same, with what Hessian–vector products need; nothing more is computed for it."""
        nu = 0.0
        profile = np.zeros(self.cells)
        ratios = np.zeros(self.numbers)
        sigma = size = np.zeros(0)
        if self._scalars is not None:
            s = self._scalars
            c, n = s.halves(p, q)
            with np.errstate(divide="ignore", invalid="ignore"):
                sigma, size = np.sqrt(c / n), np.sqrt(c * n)
                profile += (s.multiplicity / sigma) @ s.columns
            ratios += s.scatter(s.multiplicity * sigma)
            nu += float(s.multiplicity @ size)
        curved = []
        for block in self._blocks.values():
            values, z, y = block.halves(p, q)
            zb, yl = z @ block.q, block.lifts @ y.T
            nu += block.multiplicity * float(values.sum())
            profile += block.multiplicity * (zb**2).sum(axis=0)
            ratios[block.rows] += block.multiplicity * (yl**2).sum(axis=1)
            curved.append(_Curved(block.multiplicity, zb, yl, block.rows, values))
        value = Evaluation(nu, profile, ratios)
        return Linearisation(
            value,
            np.concatenate([profile, ratios]),
            tuple(curved),
            self._scalars,
            sigma,
            size,
        )

    def precision_factors(self, p: Floats, q: Floats) -> list[Floats]:
        """F_S (k × k) with F_SᵀF_S = Σ_S⁻¹ in the sector's integer basis, scaled so that max var/c = 1."""
        at = self.linearise(p, q)
        worst = math.sqrt(float(at.value.ratios.max()))
        out = {
            number: np.array([[worst / math.sqrt(sigma)]])
            for number, sigma in zip(self._scalar_sectors, at.scalar_sigma, strict=True)
        }
        for (number, block), curved in zip(self._blocks.items(), at.curved, strict=True):
            # y = Q x and B x = Rᵀ y, so Σ⁻¹ in the coordinates B x is R⁻¹ ZᵀZ R⁻ᵀ, with Z = (Z Q) Qᵀ
            out[number] = worst * sl.solve_triangular(block.triangle, block.q @ curved.z.T, lower=False).T
        return [out[i] for i in range(len(self.decomposition.sectors))]
