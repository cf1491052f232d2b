"""What is minimised, as data: all that a solver may ask of it.

Σ_S is the covariance of the noise in sector S, prof_i the squared cost of cell i, var_j the variance of number j:

    minimise   max_i (a_i + prof_i / r_i) + Σ_j λ_j var_j    subject to   Σ_{j ∈ g} ω_j var_j ≤ 1 for each constraint g.

Fit-for-use is a = 0, r = 1, λ = 0 and one constraint var_j / c_j ≤ 1 per number; total error is one constraint for all
numbers; the hybrid has λ > 0; for replace-one neighbours the cells are kinds of pairs of records; a later stage of the
lexicographic refinement has offsets a. For weights p ≥ 0 on cells with Σp = 1, and q ≥ 0 on constraints, put
w_j = λ_j + q_{g(j)} ω_j. The Σ that minimises the Lagrangian is the matrix geometric mean Σ_S = C_S # N_S⁻¹ in every
sector, and with ν = Σ_S mult_S tr(Σ_S N_S), which is concave in (p, q) and homogeneous of degree ½ in w,

    p·a + 2ν − Σq  ≤  optimum ,

for λ = 0 at best p·a + ν²/Σq when q is scaled. Any Σ, scaled to meet the worst constraint, gives an upper bound.

Source: fit-for-use (Xiao et al. 2021), sections 3–5, for the problem; the dual and the geometric mean are ours
(docs/notation.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from fitnoise import rules
from fitnoise.backends import NUMPY, Backend, Matrix
from fitnoise.operators import Operator
from fitnoise.sectors import Floats

Indices = NDArray[np.intp]

WHISPER = 1e-15
"""What all records together weigh beside the pairs: where the number of records costs nothing it would otherwise be
measured with infinite precision. Its precision becomes about WHISPER^-½, and the plan dearer by about WHISPER^½ of
itself."""


@final
@dataclass(frozen=True, eq=False)
class Shared:
    """Weights shared by several unknowns: unknown u has the weight x[owner_u] · scale_u.

    owner: (n,), scale: (n,), size: how many weights there are.
    """

    owner: Indices
    scale: Floats
    size: int

    def spread(self, x: Floats) -> Floats:
        """x[owner] · scale, (n,)."""
        return np.asarray(x[self.owner] * self.scale)

    def gather(self, y: Floats) -> Floats:
        """The adjoint: Σ over the unknowns of each weight, (size,)."""
        return np.bincount(self.owner, y * self.scale, minlength=self.size).astype(np.float64)

    def gather_squares(self, y: Floats) -> Floats:
        """Σ scale² y over the unknowns of each weight: a diagonal under both maps where unknowns do not interact."""
        return np.bincount(self.owner, y * self.scale**2, minlength=self.size).astype(np.float64)


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """Queries by structure: scale_j times row j of an operator, for the numbers from `first` on."""

    operator: Operator
    scale: Floats
    first: int

    @property
    def numbers(self) -> slice:
        """Which numbers they answer."""
        return slice(self.first, self.first + len(self.scale))


@final
@dataclass(frozen=True, eq=False)
class Kinds:
    """All kinds of pairs of records as the cells of a problem: patterns of agreement × pairs of structured cells.

    patterns: how many patterns. cells: n_o. alone: whether single records come and go too; they are the last n_o kinds.
    """

    patterns: int
    cells: int
    alone: bool

    @cached_property
    def pairs(self) -> tuple[Indices, Indices]:
        """(o, o') with o ≤ o', (h,) each."""
        return np.triu_indices(self.cells)

    def __len__(self) -> int:
        return self.patterns * len(self.pairs[0]) + (self.cells if self.alone else 0)

    def moment(self, p: Floats, chi: Floats) -> Floats:
        """Σ p (e eᵀ + e' e'ᵀ − χ (e e'ᵀ + e' eᵀ)), (n_o, n_o), for χ of every pattern."""
        first, second = self.pairs
        by_pattern = p[: self.patterns * len(first)].reshape(self.patterns, -1)
        every = by_pattern.sum(axis=0)
        own = np.zeros(self.cells)
        for ends in (first, second):
            own += np.bincount(ends, every, minlength=self.cells)
        if self.alone:
            own += p[-self.cells :]
        cross = np.zeros((self.cells, self.cells))
        cross[first, second] = chi @ by_pattern
        return np.asarray(np.diag(own) - cross - cross.T)

    def costs(self, gram: Floats, chi: Floats) -> Floats:
        """G_oo + G_o'o' − 2χ G_oo' of every kind: the adjoint of `moment`."""
        first, second = self.pairs
        own = gram.diagonal()
        out = (own[first] + own[second]) - np.multiply.outer(2 * chi, gram[first, second])
        return np.concatenate([out.ravel(), own]) if self.alone else np.asarray(out.ravel())


@final
@dataclass(frozen=True, eq=False)
class Pairwise:
    """The cell side of a block when cells are kinds of pairs.

    chi: χ of the block's sector for every pattern. free: whether the block's first coordinate is the number of
    records, which
        is the same for both data sets of every pair.
    """

    kinds: Kinds
    chi: Floats
    free: bool


@final
@dataclass(frozen=True, eq=False)
class Block:
    """A sector: its cells and its queries in one system of coordinates.

    multiplicity: of the sector. columns: b of each structured cell, (k, n_o).
    lifts, numbers: l of each number given one by one, (m, k), and which numbers they are; var_j = mult Σ l Σ_S l.
    rows: further numbers, by structure. frame: F with l = F (row of their operator), (k, k); None is the identity.
    pairwise: what the problem's cells are, if not the structured cells.
    """

    multiplicity: float
    columns: Floats
    lifts: Floats
    numbers: Indices
    rows: tuple[Rows, ...] = ()
    frame: Floats | None = None
    pairwise: Pairwise | None = None

    def gram(self, w: Floats) -> Floats:
        """Σ_j w_j l_j l_jᵀ of the numbers given by structure, (k, k)."""
        out = sum(rules.weighted_gram(r.operator, w[r.numbers] * r.scale**2) for r in self.rows)
        return np.asarray(out if self.frame is None else self.frame @ out @ self.frame.T)

    def add_forms(self, out: Floats, factor: float, form: Floats) -> None:
        """Add factor · l_jᵀ form l_j to the entries of the numbers given by structure."""
        own = form if self.frame is None else self.frame.T @ form @ self.frame
        for r in self.rows:
            out[r.numbers] += factor * rules.row_variances(r.operator, own) * r.scale**2

    @property
    def rank(self) -> int:
        """K, the size of Σ_S."""
        return len(self.columns)


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """The problem at weights (p, q), Σp = 1.

    nu: ν. profile: prof of every cell. ratios: Σ ω var of every constraint. total: Σ λ var.
    lower, upper: bounds on the optimum. stretch: the factor of Σ that gives the upper one.
    """

    nu: float
    profile: Floats
    ratios: Floats
    total: float
    lower: float
    upper: float
    stretch: float

    @property
    def finite(self) -> bool:
        """Whether floating point survived."""
        return bool(
            self.nu > 0
            and all(math.isfinite(x) for x in (self.nu, self.lower, self.upper))
            and np.isfinite(self.profile).all()
            and np.isfinite(self.ratios).all()
        )


class _Heavy:
    """A block of rank k > 1 on a backend."""

    def __init__(self, block: Block, backend: Backend) -> None:
        self.block, self.backend = block, backend
        self.columns, self.lifts = backend.put(block.columns), backend.put(block.lifts)

    def at(self, p: Floats, w: Floats) -> _Curved:
        """In coordinates where Σ_S = I: z_i = Z b_i and y_j = Y l_j with Σ = YᵀY, Σ⁻¹ = ZᵀZ.

        With R_nᵀR_n = N, R_cᵀR_c = C and R_n R_cᵀ = U s Vᵀ: Z = s^-½ Uᵀ R_n and Y = s^-½ Vᵀ R_c. No inverse, no
        division by a weight.
        """
        b = self.backend
        xp = b.xp
        rn = self._roots(w)
        rc = self._cell_roots(p)
        u, s, vt = b.svd(rn @ rc.T)
        k = self.block.rank
        if s.shape[0] < k:  # fewer queries or cells than dimensions: Σ has no inverse, or no finite size
            raise np.linalg.LinAlgError
        u, s, vt = u[:, :k], s[:k], vt[:k]
        root = xp.sqrt(xp.maximum(s, s[0] * 1e-300))[:, None]
        z, y = (u.T @ rn) / root, (vt @ rc) / root
        return _Curved(self, s, z, y)

    def _cell_roots(self, p: Floats) -> Matrix:
        """R_c with R_cᵀR_c = C."""
        b, pairwise = self.backend, self.block.pairwise
        if pairwise is None:
            return b.triangle(b.xp.sqrt(b.put(p))[:, None] * self.columns.T)
        moment = b.put(pairwise.kinds.moment(p, pairwise.chi))
        costly = self.columns[1:] if pairwise.free else self.columns
        rest = b.root(costly @ moment @ costly.T) if len(costly) else costly
        k, n = self.block.rank, len(rest)
        out = np.zeros((n + k, k))
        out[:n, k - n :] = b.get(rest)
        out[n:] = math.sqrt(WHISPER / pairwise.kinds.cells) * np.eye(k)
        return b.triangle(b.put(out))

    def _roots(self, w: Floats) -> Matrix:
        """R_n with R_nᵀR_n = N."""
        b, block = self.backend, self.block
        dense = b.xp.sqrt(b.put(w[block.numbers]))[:, None] * self.lifts
        if not block.rows:
            return b.triangle(dense)
        return b.root(dense.T @ dense + b.put(block.gram(w)))

    def change(self, dp: Floats, dw: Floats, at: _Curved) -> Matrix:
        """Z dC Zᵀ − Y dN Yᵀ, (k, k)."""
        b, block = self.backend, self.block
        if block.pairwise is None:
            e = (at.z * b.put(dp)) @ at.z.T
        else:
            e = at.z @ b.put(block.pairwise.kinds.moment(dp, block.pairwise.chi)) @ at.z.T
        e = e - (at.y.T * b.put(dw[block.numbers])) @ at.y
        if block.rows:
            e = e - at.half_y @ b.put(block.gram(dw)) @ at.half_y.T
        return e


class _Curved:
    """A block in coordinates where Σ_S = I: z (k, n), y (m, k) for numbers given one by one, singular values s."""

    def __init__(self, heavy: _Heavy, s: Matrix, z: Matrix, y: Matrix) -> None:
        self.heavy, self.s = heavy, s
        self.half_z, self.half_y = z, y
        self.z, self.y = z @ heavy.columns, heavy.lifts @ y.T

    def cells(self, e: Matrix | None = None) -> Floats:
        """z_iᵀ E z_i of every cell; E = I when it is not given."""
        image = self.z if e is None else e @ self.z
        get, pairwise = self.heavy.backend.get, self.heavy.block.pairwise
        if pairwise is None:
            return get((self.z * image).sum(axis=0))
        return pairwise.kinds.costs(get(self.z.T @ image), pairwise.chi)

    def numbers(self, out: Floats, factor: float, e: Matrix | None = None) -> None:
        """Add factor · y_jᵀ E y_j to the entries of every number this block answers."""
        heavy = self.heavy
        block, b = heavy.block, heavy.backend
        image = self.y if e is None else self.y @ e
        out[block.numbers] += factor * b.get((self.y * image).sum(axis=1))
        if block.rows:
            middle = self.half_y if e is None else e @ self.half_y
            block.add_forms(out, factor, b.get(self.half_y.T @ middle))

    @cached_property
    def kernel(self) -> Matrix:
        """1/(s_a + s_b), with singular values no smaller than 1e-14 of the largest; only second order needs it."""
        xp = self.heavy.backend.xp
        s = xp.maximum(self.s, 1e-14 * self.s[0])
        return 1 / (s[:, None] + s)

    def add_diagonal(self, cells: Floats, numbers: Floats) -> None:
        """The diagonal of the Hessian of −2ν by cell and by number; an upper bound of it for pairs and by structure.

        It is Σ_ab y_a² y_b² / (s_a + s_b), and 1/(s_a + s_b) ≤ ½ (s_a s_b)^-½.
        """
        heavy = self.heavy
        block, b = heavy.block, heavy.backend
        weak = b.xp.maximum(self.s, 1e-14 * self.s[0])
        if block.pairwise is None:
            z2 = self.z**2
            cells += block.multiplicity * b.get((z2 * (self.kernel @ z2)).sum(axis=0))
        else:
            gram = b.get((self.z.T / b.xp.sqrt(weak)) @ self.z)
            bound = block.pairwise.kinds.costs(gram, block.pairwise.chi)
            cells += block.multiplicity * bound**2 / 2
        y2 = self.y**2
        numbers[block.numbers] += block.multiplicity * b.get(((y2 @ self.kernel) * y2).sum(axis=1))
        if block.rows:
            bound = np.zeros_like(numbers)
            block.add_forms(bound, 1.0, b.get((self.half_y.T / b.xp.sqrt(weak)) @ self.half_y))
            numbers += block.multiplicity * bound**2 / 2


@final
@dataclass(frozen=True, eq=False)
class _Scalars:
    """All blocks of rank 1 together: one row of squared columns and a run of squared lifts each."""

    multiplicity: Floats  # (K,)
    columns: Floats  # squared columns, (K, n)
    squares: Floats  # squared lifts, all blocks in a row
    numbers: Indices  # the number each of them belongs to
    owner: Indices  # the block each of them belongs to

    @staticmethod
    def of(blocks: Sequence[Block]) -> _Scalars:
        return _Scalars(
            multiplicity=np.array([b.multiplicity for b in blocks]),
            columns=np.array([b.columns[0] ** 2 for b in blocks]),
            squares=np.concatenate([b.lifts[:, 0] ** 2 for b in blocks]),
            numbers=np.concatenate([b.numbers for b in blocks]),
            owner=np.repeat(np.arange(len(blocks)), [len(b.numbers) for b in blocks]),
        )

    def gather(self, w: Floats) -> Floats:
        """N of every block, (K,)."""
        return np.bincount(self.owner, w[self.numbers] * self.squares, minlength=len(self.columns)).astype(np.float64)

    def scatter(self, x: Floats, out: Floats) -> None:
        """Add Σ_S x_S l_Sj² to every number."""
        out += np.bincount(self.numbers, x[self.owner] * self.squares, minlength=len(out))


@final
@dataclass(frozen=True, eq=False)
class Linearisation:
    """The problem at weights (p, q), and the second derivatives of −2ν there.

    A change (dp, dw) moves Σ_S, in coordinates where Σ_S = I, by the E that solves s_a E_ab + E_ab s_b = (dC − dN)_ab,
    s the singular values of N^½C^½; then d prof_i = −mult z_iᵀEz_i and d var_j = mult y_jᵀEy_j, and these are twice the
    changes of ν's slopes. A Hessian–vector product is a few products of k × n and k × m matrices: no decomposition.
    """

    problem: Problem
    value: Evaluation
    curved: tuple[_Curved, ...]
    sigma: Floats  # Σ_S of blocks of rank 1
    size: Floats  # √(C_S N_S)

    def hessian_times(self, v: Floats) -> Floats:
        """−2 ∇²ν v over (p, q), (cells + constraints,)."""
        problem = self.problem
        dp, dw = problem.spread(v)
        cells, numbers = np.zeros(problem.columns), np.zeros(problem.numbers)
        for c in self.curved:
            e = c.heavy.change(dp, dw, c) * c.kernel
            cells += c.heavy.block.multiplicity * c.cells(e)
            c.numbers(numbers, -c.heavy.block.multiplicity, e)
        s = problem.scalars
        if s is not None:
            e = s.multiplicity * (s.columns @ dp / self.sigma - s.gather(dw) * self.sigma) / (2 * self.size)
            cells += (e / self.sigma) @ s.columns
            s.scatter(-e * self.sigma, numbers)
        return problem.gather(cells, numbers)

    def diagonal(self) -> Floats:
        """The diagonal of −2 ∇²ν, or near it: for preconditioning. At least a tiny positive number."""
        problem = self.problem
        cells, numbers = np.zeros(problem.columns), np.zeros(problem.numbers)
        for c in self.curved:
            c.add_diagonal(cells, numbers)
        s = problem.scalars
        if s is not None:
            e = s.multiplicity / (2 * self.size)
            cells += (e / self.sigma**2) @ s.columns**2
            numbers += np.bincount(s.numbers, (e * self.sigma**2)[s.owner] * s.squares**2, minlength=len(numbers))
        out = problem.gather_squares(cells, numbers)
        return np.asarray(np.maximum(out, 1e-12 * out.max()))


class Problem:
    """A problem in blocks.

    Args:
        blocks: the sectors.
        numbers: M, how many numbers have variances.
        offsets: a, one per cell; None is 0.
        cells: cells that share a weight and count with a factor 1/r; None gives every column of the blocks its own.
        constraints: numbers bounded together; None bounds every number by 1 on its own.
        trade: λ, what a unit of each number's variance costs, (M,); None is 0.
        backend: where matrices live.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        numbers: int,
        *,
        offsets: Floats | None = None,
        cells: Shared | None = None,
        constraints: Shared | None = None,
        trade: Floats | None = None,
        backend: Backend = NUMPY,
    ) -> None:
        self.blocks = tuple(blocks)
        self.numbers = numbers
        first = blocks[0]
        self.columns = first.columns.shape[1] if first.pairwise is None else len(first.pairwise.kinds)
        self._shared_cells, self._constraints, self.trade = cells, constraints, trade
        self.cells = self.columns if cells is None else cells.size
        self.constraints = numbers if constraints is None else constraints.size
        self.offsets = np.zeros(self.cells) if offsets is None else offsets
        light = [b.rank == 1 and not b.rows and b.pairwise is None for b in blocks]
        self._light = [i for i, x in enumerate(light) if x]
        self._dense = [i for i, x in enumerate(light) if not x]
        self._heavy = [_Heavy(blocks[i], backend) for i in self._dense]
        self.scalars = _Scalars.of([blocks[i] for i in self._light]) if self._light else None

    @property
    def trade_size(self) -> float:
        """The largest λ: the scale of q."""
        return 0.0 if self.trade is None else float(self.trade.max())

    # --- weights of cells and constraints, and of columns and numbers ----------------------------------

    def spread(self, x: Floats) -> tuple[Floats, Floats]:
        """(p, q) → the weights of every column and of every number, but for λ."""
        p, q = x[: self.cells], x[self.cells :]
        return (
            p if self._shared_cells is None else self._shared_cells.spread(p),
            q if self._constraints is None else self._constraints.spread(q),
        )

    def gather(self, cells: Floats, numbers: Floats) -> Floats:
        """The adjoint of `spread`."""
        c, g = self._shared_cells, self._constraints
        return np.concatenate([cells if c is None else c.gather(cells), numbers if g is None else g.gather(numbers)])

    def gather_squares(self, cells: Floats, numbers: Floats) -> Floats:
        """What `gather` does to a diagonal."""
        c, g = self._shared_cells, self._constraints
        return np.concatenate(
            [cells if c is None else c.gather_squares(cells), numbers if g is None else g.gather_squares(numbers)]
        )

    # --- at given weights -----------------------------------------------------------------------------

    def evaluate(self, p: Floats, q: Floats) -> Evaluation:
        """ν, the slopes and the bounds at weights p (cells,), Σp = 1, and q (constraints,)."""
        return self.linearise(p, q).value

    def linearise(self, p: Floats, q: Floats) -> Linearisation:
        """The same, with what Hessian–vector products need; nothing more is computed for it.

        Raises:
            numpy.linalg.LinAlgError: it cannot be evaluated there in floating point.
        """
        columns, w = self.spread(np.concatenate([p, q]))
        if self.trade is not None:
            w = w + self.trade
        nu = 0.0
        profile, variances = np.zeros(self.columns), np.zeros(self.numbers)
        sigma = size = np.zeros(0)
        s = self.scalars
        if s is not None:
            c, n = s.columns @ columns, s.gather(w)
            with np.errstate(divide="ignore", invalid="ignore"):
                sigma, size = np.sqrt(c / n), np.sqrt(c * n)
                profile += (s.multiplicity / sigma) @ s.columns
            s.scatter(s.multiplicity * sigma, variances)
            nu += float(s.multiplicity @ size)
        curved = []
        for heavy in self._heavy:
            at = heavy.at(columns, w)
            nu += heavy.block.multiplicity * float(at.s.sum())
            profile += heavy.block.multiplicity * at.cells()
            at.numbers(variances, heavy.block.multiplicity)
            curved.append(at)
        value = self._value(p, q, nu, profile, variances)
        return Linearisation(self, value, tuple(curved), sigma, size)

    def _value(self, p: Floats, q: Floats, nu: float, columns: Floats, variances: Floats) -> Evaluation:
        slopes = self.gather(columns, variances)
        profile, ratios = slopes[: self.cells], slopes[self.cells :]
        worst = float(ratios.max())
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.trade is None:
                total, stretch = 0.0, 1 / worst
                lower = float(p @ self.offsets) + nu**2 / float(q.sum())
                upper = float((self.offsets + profile / stretch).max())
            else:
                total = float(self.trade @ variances)
                highest = float(profile.max())
                stretch = min(1 / worst if worst > 0 else math.inf, math.sqrt(highest / total))
                lower = 2 * nu - float(q.sum())
                upper = highest / stretch + stretch * total
        return Evaluation(nu, profile, ratios, total, lower, upper, stretch)

    def natural(self, q: Floats, value: Evaluation) -> tuple[float, Floats]:
        """(f, r): the scale of q that is best along its ray, as a factor; and the slopes (a + prof, ω var) there."""
        f = 1.0 if self.trade is not None else (value.nu / float(q.sum())) ** 2
        root = math.sqrt(f)
        return f, np.concatenate([self.offsets + value.profile * root, value.ratios / root])

    def covariance_factors(self, p: Floats, q: Floats) -> list[tuple[Floats, Floats]]:
        """(Y, Z) of every block, (k, k) each, with Σ_S = YᵀY and Σ_S⁻¹ = ZᵀZ, stretched to the upper bound."""
        at = self.linearise(p, q)
        t = math.sqrt(at.value.stretch)
        out: dict[int, tuple[Floats, Floats]] = {}
        for i, sigma in zip(self._light, at.sigma, strict=True):
            root = math.sqrt(sigma) * t
            out[i] = np.array([[root]]), np.array([[1 / root]])
        for i, c in zip(self._dense, at.curved, strict=True):
            get = c.heavy.backend.get
            out[i] = get(c.half_y) * t, get(c.half_z) / t
        return [out[i] for i in range(len(out))]
