"""The minimisation problem as data: all that a solver needs from it.

**Symbols** (docs/mathematics/notation.md).

| letter | meaning |
|---|---|
| S, mult_S | a sector, and the number of its equal copies |
| Σ_S | the covariance of the noise in sector S |
| prof_i, var_j | the squared cost of cell i, and the variance of number j |
| b_i, l_j | in each sector: prof_i = Σ_S mult_S b_iᵀ Σ_S⁻¹ b_i and var_j = Σ_S mult_S l_jᵀ Σ_S l_j |
| c_j | the target, an upper bound on var_j |
| p, q | dual weights ≥ 0 of cells, with Σp = 1, and of constraints |
| a_i, r_i, λ_j, ω_j | offset and relative budget of cell i; price and weight of the variance of number j |
| w_j | λ_j + q_{g(j)} ω_j, for number j of constraint g(j) |
| C_S, N_S | Σ_i p_i b_i b_iᵀ / r_i over the cells, and Σ_j w_j l_j l_jᵀ over the numbers, in sector S |
| ν | Σ_S mult_S tr(Σ_S N_S), concave in (p, q) and homogeneous of degree ½ in w |

**Statement.**

    minimise   max_i (a_i + prof_i / r_i) + Σ_j λ_j var_j    subject to   Σ_{j ∈ g} ω_j var_j ≤ 1 for each constraint g.

Fit-for-use has a = 0, r = 1, λ = 0 and one constraint var_j / c_j ≤ 1 for each number. Total error has one constraint
for all numbers. The hybrid has λ > 0. For replace-one neighbours the cells are kinds of pairs of records. A later stage
of the lexicographic refinement has offsets a.

The Σ that minimises the Lagrangian is the matrix geometric mean Σ_S = C_S # N_S⁻¹ in every sector, which solves
Σ_S N_S Σ_S = C_S. In a block with public totals, b_i is b_i − k_F(i) instead, with any k_F for the cell F(i) of the
public attributes. The best k_F at p is the mean of the b_i in that cell, weighted by p. C_S is then their covariance
within cells, which is concave in p. Σ_S gives the dual bound

    p·a + 2ν − Σq  ≤  optimum.

For λ = 0 the best scale of q gives p·a + ν²/Σq. Any Σ, scaled to meet all constraints, gives an upper bound.

**Source.** Fit-for-use (Xiao et al. 2021), sections 3–5, for the problem. The dual and the geometric mean are from this
project.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import scipy.sparse as sp

from fitnoise.algebra import rules
from fitnoise.algebra.backends import NUMPY, Backend, Matrix
from fitnoise.algebra.operators import Operator
from fitnoise.kernel.arrays import Floats, Indices

ENTRIES_PER_BATCH = 2**24
"""The number of entries of a stack of matrices made at once."""

MAX_SHARED_PATTERNS = 32
"""The number of patterns of agreement up to which kinds with equal cells are preconditioned together."""

PAIRS_RIDGE = 1e-15
"""Weight of single records in the moments of pairs. Without it the noise of a sector whose pairs lose all their weight
would have no finite size. The cost of the plan rises by at most about a share of its root."""


@final
@dataclass(frozen=True, eq=False)
class SharedWeights:
    """Weights shared by several unknowns: unknown u has the weight x[owner_u] · scale_u.

    owner: The weight of each unknown, (n,).
    scale: The factor of each unknown, (n,).
    size: The number of weights.
    """

    owner: Indices
    scale: Floats
    size: int

    def expand(self, x: Floats) -> Floats:
        """Return x[owner] · scale, (n,)."""
        return np.asarray(x[self.owner] * self.scale)

    def gather(self, y: Floats) -> Floats:
        """Apply the adjoint: return Σ over the unknowns of each weight, (size,)."""
        return np.bincount(self.owner, y * self.scale, minlength=self.size).astype(np.float64)

    def gather_squares(self, y: Floats) -> Floats:
        """Return Σ scale² y over the unknowns of each weight, (size,).

        If a diagonal matrix by unknowns has the diagonal y, this is the diagonal of the matrix by weights.
        """
        return np.bincount(self.owner, y * self.scale**2, minlength=self.size).astype(np.float64)


@final
@dataclass(frozen=True, eq=False)
class QuerySource:
    """Numbers that the K sectors of a block answer: those of T tables of m rows.

    lifts: l of each row, (m, k); or an operator with these rows, up to the block's frame.
    numbers: The places of the numbers, (T, m).
    scale: The factor of the square of each number's lift, (T, m).
    incidence: The weight of each table in each sector, (K, T); None is one sector with one table.
    """

    lifts: Floats | Operator
    numbers: Indices
    scale: Floats
    incidence: sp.csr_array | None = None

    def gather(self, w: Floats) -> Floats:
        """Return the weight of each row in each sector if number j has the weight w_j, (K, m)."""
        weights = w[self.numbers] * self.scale
        return weights if self.incidence is None else np.asarray(self.incidence @ weights)

    def scatter(self, x: Floats, out: Floats) -> None:
        """Apply the adjoint: add x (K, m) to the entries of the numbers."""
        out[self.numbers] += (x if self.incidence is None else self.incidence.T @ x) * self.scale

    def scatter_squares(self, x: Floats, out: Floats) -> None:
        """Add the diagonal by numbers of the matrix that by rows is diagonal, with the diagonal x (K, m)."""
        entries = x if self.incidence is None else self.incidence.power(2).T @ x
        out[self.numbers] += entries * self.scale**2


@final
@dataclass(frozen=True, eq=False)
class PairKinds:
    """All kinds of pairs of records as the cells of a problem: patterns of agreement × pairs of structured cells.

    A pattern is the set of exchangeable attributes in which two records agree. The pairs of cells are unordered.

    patterns: The number of patterns.
    cells: n_o, the number of structured cells.
    has_single_records: True if single records are added and removed too; they are the last n_o kinds.
    places: A number for each structured cell, (n_o,); the cells of a pair have equal numbers. None allows all pairs.
    """

    patterns: int
    cells: int
    has_single_records: bool
    places: Indices | None = None

    @cached_property
    def pairs(self) -> tuple[Indices, Indices]:
        """(o, o') with o ≤ o', (h,) each."""
        first_cells, second_cells = np.triu_indices(self.cells)
        if self.places is None:
            return first_cells, second_cells
        is_pair = self.places[first_cells] == self.places[second_cells]
        return first_cells[is_pair], second_cells[is_pair]

    def __len__(self) -> int:
        return self.patterns * len(self.pairs[0]) + (self.cells if self.has_single_records else 0)

    def moments(self, p: Floats, chi: Floats) -> Floats:
        """Return Σ p (e eᵀ + e' e'ᵀ − χ (e e'ᵀ + e' eᵀ)) for every row of χ, (K, patterns): (K, n_o, n_o)."""
        first_cells, second_cells = self.pairs
        by_pattern = p[: self.patterns * len(first_cells)].reshape(self.patterns, -1)
        pair_weights = by_pattern.sum(axis=0)
        cell_weights = np.zeros(self.cells) if not self.has_single_records else p[-self.cells :].copy()
        for ends in (first_cells, second_cells):
            cell_weights += np.bincount(ends, pair_weights, minlength=self.cells)
        # Each unordered pair is one entry of the upper triangle; the transpose adds the other order.
        upper = np.zeros((len(chi), self.cells, self.cells))
        upper.reshape(len(chi), -1)[:, self._flat] = chi @ by_pattern
        out = np.zeros_like(upper)
        out[:, range(self.cells), range(self.cells)] = cell_weights
        out -= upper
        out -= _turned(upper)
        return out

    def costs(self, grams: Floats, chi: Floats) -> Floats:
        """Return Σ_K G_oo + G_o'o' − 2χ G_oo' of every kind, for G (K, n_o, n_o) and χ (K, patterns): the adjoint."""
        first_cells, second_cells = self.pairs
        flat = grams.reshape(len(grams), -1)
        diagonal = flat[:, :: self.cells + 1].sum(axis=0)
        out = (-2 * chi).T @ flat[:, self._flat]
        out += diagonal[first_cells] + diagonal[second_cells]
        return np.concatenate([out.ravel(), diagonal]) if self.has_single_records else np.asarray(out.ravel())

    def squares(self, grams: Floats, chi: Floats, weights: Floats) -> Floats:
        """Return Σ_K weight ‖G^½ M G^½‖² for the moment M of every kind, (kinds,).

        Args:
            grams: G, the inner products of the structured cells in each of K sectors, (K, n_o, n_o).
            chi: χ of each sector for every pattern, (K, patterns).
            weights: The weight of each sector, (K,).
        """
        zero, one, two = self._powers(grams, chi, weights)
        pair_squares = (zero + (2 * chi).T @ one + (chi**2).T @ two).ravel()
        diagonal = grams.reshape(len(grams), -1)[:, :: self.cells + 1]
        return (
            np.concatenate([pair_squares, weights @ diagonal**2])
            if self.has_single_records
            else np.asarray(pair_squares)
        )

    def among(self, grams: Floats, chi: Floats, weights: Floats) -> Floats:
        """Return Σ_K weight tr(G M G M') of kinds with equal cells, for any two patterns, (h, patterns, patterns).

        The arguments are those of `squares`, and h is the number of pairs of cells.
        """
        zero, one, two = self._powers(grams, chi, weights)
        single = one.T @ chi
        double = two.T @ (chi[:, :, None] * chi[:, None, :]).reshape(len(chi), -1)
        return zero[:, None, None] + single[:, :, None] + single[:, None, :] + double.reshape(-1, *2 * chi.shape[1:])

    def _powers(self, grams: Floats, chi: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the factors of 1, of χ + χ' and of χχ' in the weighted ⟨M, M'⟩: (h,), (K, h), (K, h)."""
        first_cells, second_cells = self.pairs
        flat = grams.reshape(len(grams), -1)
        diagonal, x = flat[:, :: self.cells + 1], flat[:, self._flat]
        a, b = diagonal[:, first_cells], diagonal[:, second_cells]
        if (chi == 1).all():  # where records are counted without cost the terms would cancel
            return weights @ (a + b - 2 * x) ** 2, np.zeros_like(x), np.zeros_like(x)
        scale = weights[:, None]
        return weights @ (a**2 + b**2 + 2 * x**2), -2 * scale * (a + b) * x, 2 * scale * (a * b + x**2)

    @cached_property
    def _flat(self) -> Indices:
        """The positions of the pairs in a matrix, row by row."""
        first_cells, second_cells = self.pairs
        return np.asarray(first_cells * self.cells + second_cells)


@final
@dataclass(frozen=True, eq=False)
class Pairwise:
    """The cells of a block, where these are kinds of pairs of records.

    kinds: The kinds of pairs of records of the problem, which all its blocks share.
    chi: χ of each of the block's sectors for every pattern of agreement, (K, patterns).
    """

    kinds: PairKinds
    chi: Floats


@final
@dataclass(frozen=True, eq=False)
class Block:
    """K sectors of equal form: their cells and their queries in one system of coordinates.

    multiplicity: The multiplicity of each sector, (K,).
    columns: b of each structured cell, (k, n_o).
    sources: The numbers they answer; var_j = Σ mult l_jᵀ Σ_S l_j over the sectors of number j.
    frame: F with l = F (row of the operator), (k, k), for sources by structure; None is the identity.
    pairwise: The problem's cells, if they are not the structured cells.
    halves: 1 or −1 if F is the first half of the rows of ½ (I ± J); else 0. J reverses the order of a vector.
    public: The cell of the public attributes of each structured cell, (n_o,), in a block with public totals.
    """

    multiplicity: Floats
    columns: Floats
    sources: tuple[QuerySource, ...]
    frame: Floats | None = None
    pairwise: Pairwise | None = None
    halves: int = 0
    public: Indices | None = None

    @classmethod
    def from_lifts(cls, multiplicity: float, columns: Floats, lifts: Floats, numbers: Indices) -> Block:
        """Return the block of one sector and the lifts of some numbers, (m, k)."""
        source = QuerySource(lifts, numbers[None, :], np.ones((1, len(numbers))))
        return cls(np.array([multiplicity]), columns, (source,))

    @property
    def rank(self) -> int:
        """k, the size of each Σ_S."""
        return len(self.columns)

    @property
    def rows(self) -> int:
        """Rows of all sources given row by row."""
        return sum(len(lifts) for _, lifts in self.dense_sources)

    @cached_property
    def dense_sources(self) -> tuple[tuple[QuerySource, Floats], ...]:
        """Sources given row by row, with their lifts."""
        return tuple((s, s.lifts) for s in self.sources if isinstance(s.lifts, np.ndarray))

    @cached_property
    def structured(self) -> tuple[tuple[QuerySource, Operator], ...]:
        """Sources by structure, with their operators."""
        return tuple((s, s.lifts) for s in self.sources if isinstance(s.lifts, Operator))

    def sums(self, w: Floats) -> Floats:
        """Return Σ_j w_j a_j a_jᵀ of the numbers given by structure, a_j the rows of the operators, (K, n, n)."""
        return np.asarray(sum(np.moveaxis(rules.weighted_gram(a, s.gather(w).T), -1, 0) for s, a in self.structured))

    def framed(self, sums: Floats) -> Floats:
        """Return F S Fᵀ, (K, k, k); for S from `sums` it is Σ_j w_j l_j l_jᵀ."""
        if self.halves:
            # F is half of ½ (I ± J), so F S Fᵀ adds up four corners of S, reversed or not, and divides by 4.
            return np.asarray(sum(sign * corner for sign, corner in self._corners(sums))) / 4
        return np.asarray(sums if self.frame is None else self.frame @ sums @ self.frame.T)

    def unframed(self, matrices: Floats) -> Floats:
        """Return Fᵀ X F, (K, n, n), for X (K, k, k)."""
        if self.halves:
            n = self.structured[0][1].shape[1]
            out, quarter = np.zeros((len(matrices), n, n)), matrices / 4
            for sign, corner in self._corners(out):
                corner[...] += sign * quarter
            return out
        return np.asarray(matrices if self.frame is None else self.frame.T @ matrices @ self.frame)

    def _corners(self, full: Floats) -> list[tuple[int, Floats]]:
        """Return the k × k corners of a square, (K, n, n), that a half adds up, reversed, each with its sign."""
        k = self.rank
        seen = ((1, full), (self.halves, full[:, ::-1]), (self.halves, full[:, :, ::-1]), (1, full[:, ::-1, ::-1]))
        return [(sign, x[:, :k, :k]) for sign, x in seen]

    def forms(self, matrices: Floats) -> list[tuple[QuerySource, Floats]]:
        """Return a_jᵀ X a_j of the numbers given by structure, (K, m) for each source, for matrices X (K, n, n)."""
        return [(s, rules.row_variances(a, np.moveaxis(matrices, 0, -1)).T) for s, a in self.structured]


@final
@dataclass(frozen=True, eq=False)
class Evaluation:
    """The problem at weights (p, q), Σp = 1.

    nu: ν, as in the head of this file.
    profile: prof/r of every cell, without the offset: the slopes of 2ν in p.
    ratios: Σ ω var of every constraint: the slopes of 2ν in q.
    total: Σ λ var.
    lower, upper: A lower and an upper bound on the optimum.
    stretch: The factor of Σ that gives the upper bound.
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
        """True if all numbers are finite and ν is positive."""
        return bool(
            self.nu > 0
            and all(math.isfinite(x) for x in (self.nu, self.lower, self.upper))
            and np.isfinite(self.profile).all()
            and np.isfinite(self.ratios).all()
        )


class _Heavy:
    """Blocks of rank k > 1 on a backend, as stacks of K matrices.

    has_diagonal_cells: True if the first k columns are the unit vectors and the others are 0.
    """

    def __init__(self, block: Block, backend: Backend) -> None:
        self.block, self.backend = block, backend
        self.columns = backend.put(block.columns)
        k, n = block.columns.shape
        has_fixed_cells = block.pairwise is None and block.public is None
        self.has_diagonal_cells = k <= n and has_fixed_cells and bool((block.columns == np.eye(k, n)).all())
        self.sources = [(s, backend.put(lifts)) for s, lifts in block.dense_sources]

    def normalise(self, p: Floats, w: Floats, grams: Floats | None) -> _Curved:
        """Return the blocks in coordinates where Σ_S = I: z_i = Z b_i and y_j = Y l_j with Σ = YᵀY, Σ⁻¹ = ZᵀZ.

        With R_nᵀR_n = N, R_cᵀR_c = C and R_n R_cᵀ = U s Vᵀ: Z = s^-½ Uᵀ R_n and Y = s^-½ Vᵀ R_c.

        Args:
            p: Weights of the columns.
            w: Weights of the numbers.
            grams: Σ w_j l_j l_jᵀ of the numbers given by structure, (K, k, k).
        """
        b, public = self.backend, self.block.public
        xp = b.xp
        rn = self._roots(w, None if grams is None else b.put(grams))
        root_p = b.xp.sqrt(b.put(p[: self.block.rank])) if self.has_diagonal_cells else None  # C is diagonal
        centres = None if public is None else _Centres(public, p)
        columns = self.columns if centres is None else b.put(centres.subtracted(self.block.columns))
        rc = self._cell_roots(p, columns) if root_p is None else None
        # The product of the roots needs no inverse of C or N, which weights near 0 make nearly singular.
        u, s, vt = b.svd(rn @ _turned(rc) if root_p is None else rn * root_p)
        k = self.block.rank
        if s.shape[1] < k:  # fewer queries or cells than dimensions: Σ has no inverse, or no finite size
            raise np.linalg.LinAlgError
        u, s, vt = u[:, :, :k], s[:, :k], vt[:, :k]
        # A singular value of 0 would divide by 0.
        root = xp.sqrt(xp.maximum(s, s[:, :1] * 1e-300))[:, :, None]
        z, y = (_turned(u) @ rn) / root, (vt @ rc if root_p is None else vt * root_p) / root
        return _Curved(self, s, z, y, columns, centres)

    def _cell_roots(self, p: Floats, columns: Matrix) -> Matrix:
        """Return R_c with R_cᵀR_c = C: one matrix for all K, unless cells are kinds of pairs."""
        b, pairwise = self.backend, self.block.pairwise
        if pairwise is None:
            return b.triangle(b.xp.sqrt(b.put(p))[:, None] * columns.T)
        moments = b.put(pairwise.kinds.moments(p, pairwise.chi))
        k = self.block.rank
        ridge = np.tile(math.sqrt(PAIRS_RIDGE / pairwise.kinds.cells) * np.eye(k), (len(pairwise.chi), 1, 1))
        return b.triangle(b.xp.concat([b.root(self.columns @ moments @ self.columns.T), b.put(ridge)], axis=1))

    def _roots(self, w: Floats, grams: Matrix | None) -> Matrix:
        """Return R_n with R_nᵀR_n = N, (K, r, k); some of the K at a time."""
        b, block, xp = self.backend, self.block, self.backend.xp
        shares = [(lifts, np.sqrt(source.gather(w))) for source, lifts in self.sources]
        count, k = len(block.multiplicity), block.rank
        # The roots of all sectors at once may exceed the memory.
        step = max(1, ENTRIES_PER_BATCH // (k * max(1, sum(len(lifts) for lifts, _ in shares))))
        out = []
        for i in range(0, count, step):
            dense = [b.put(root[i : i + step])[:, :, None] * lifts for lifts, root in shares]
            stacked = dense[0] if len(dense) == 1 else xp.concat(dense, axis=1) if dense else None
            if grams is not None:
                gram = grams[i : i + step]
                out.append(b.root(gram if stacked is None else _turned(stacked) @ stacked + gram))
            elif stacked is not None:
                out.append(b.triangle(stacked))
        return out[0] if len(out) == 1 else xp.concat(out, axis=0)

    def change(self, dp: Floats, dw: Floats, grams: Floats | None, curved: _Curved) -> Matrix:
        """Return Z dC Zᵀ − Y dN Yᵀ, (K, k, k); grams as in `normalise`, for dw."""
        b, block = self.backend, self.block
        if block.pairwise is not None:
            e = curved.z @ b.put(block.pairwise.kinds.moments(dp, block.pairwise.chi)) @ _turned(curved.z)
        elif curved.is_single:
            e = (curved.z * b.put(dp)) @ _turned(curved.z)
        else:
            e = curved.half_z @ ((curved.columns * b.put(dp)) @ curved.columns.T) @ _turned(curved.half_z)
        for (source, _), y in zip(self.sources, curved.y, strict=True):
            e = e - (_turned(y) * b.put(source.gather(dw))[:, None, :]) @ y
        if grams is not None:
            e = e - curved.half_y @ b.put(grams) @ _turned(curved.half_y)
        return e


def _turned(a: Matrix) -> Matrix:
    """Return the transpose of every matrix of a stack."""
    return a.swapaxes(-1, -2)


@final
class _Centres:
    """The centres of columns at weights p of the cells, for a block with public totals."""

    def __init__(self, public: Indices, p: Floats) -> None:
        self._public = public
        self._sums = np.bincount(public, p)
        # Where a cell of F has no weight, its columns have equal weights.
        self._inverse = np.divide(1, self._sums, out=np.zeros_like(self._sums), where=self._sums > 0)
        self._shares = np.where(self._sums[public] > 0, p * self._inverse[public], 1 / np.bincount(public)[public])

    def _added(self, columns: Floats) -> Floats:
        """Return the sum of the columns of each cell of F, (k, cells of F)."""
        out = np.zeros((len(self._sums), len(columns)))
        np.add.at(out, self._public, columns.T)
        return out.T

    def subtracted(self, columns: Floats) -> Floats:
        """Return the columns less the weighted mean of those in their cell of F."""
        return np.asarray(columns - self._added(columns * self._shares)[:, self._public])

    def shifts(self, columns: Floats, dp: Floats) -> Floats:
        """Return minus the change of prof that moving the centres causes: 2 ⟨b_i, Σ_j dp_j b_j / p_F⟩, (n,).

        Args:
            columns: The centred columns in coordinates where Σ_S = I.
            dp: The change of the weights of the cells.
        """
        return np.asarray(2 * (columns * (self._added(columns * dp) * self._inverse)[:, self._public]).sum(axis=0))

    def shift_diagonal(self, columns: Floats) -> Floats:
        """Return the diagonal of the matrix that `shifts` applies to dp, (n,)."""
        return np.asarray(2 * (columns**2).sum(axis=0) * self._inverse[self._public])


class _Curved:
    """Blocks in coordinates where Σ_S = I.

    columns: b of each structured cell, less the centre of its cell of F in a block with public totals.
    centres: The centres in such a block; else None.
    half_z, half_y: Z and Y of `_Heavy.normalise`, (K, k, k).
    s: The singular values there, (K, k).
    z: Z b of every cell, (1, k, n), for a single sector; of every structured cell, (K, k, n_o), for pairs; else None.
    y: Y l of the numbers of each source given row by row, (K, m, k).
    """

    def __init__(
        self, heavy: _Heavy, s: Matrix, z: Matrix, y: Matrix, columns: Matrix, centres: _Centres | None
    ) -> None:
        self.heavy, self.s, self.columns, self.centres = heavy, s, columns, centres
        self.half_z, self.half_y = z, y
        pairwise = heavy.block.pairwise is not None
        self.is_single = len(heavy.block.multiplicity) == 1 and not pairwise
        self.z: Matrix = None
        if self.is_single or pairwise:
            self.z = z if heavy.has_diagonal_cells and z.shape[-1] == columns.shape[1] else z @ columns
        self.y = [lifts @ _turned(y) for _, lifts in heavy.sources]

    @property
    def multiplicity(self) -> Floats:
        """The multiplicity of each of the K sectors."""
        return self.heavy.block.multiplicity

    def cells(self, e: Matrix | None = None) -> Floats:
        """Return Σ mult z_iᵀ E z_i of every cell; without `e`, E = I."""
        heavy = self.heavy
        b, pairwise = heavy.backend, heavy.block.pairwise
        if pairwise is not None:
            image = self.z if e is None else e @ self.z
            return pairwise.kinds.costs(self.multiplicity[:, None, None] * b.get(_turned(self.z) @ image), pairwise.chi)
        if self.is_single:
            z = self.z[0]
            image = z if e is None else e[0] @ z
            return np.asarray(self.multiplicity[0] * b.get((z * image).sum(axis=0)))
        weights = b.put(self.multiplicity)[:, None, None]
        if e is None:
            return b.get((self._joint_columns**2).sum(axis=0))
        middle = (weights * (_turned(self.half_z) @ e @ self.half_z)).sum(axis=0)
        return b.get((self.columns * (middle @ self.columns)).sum(axis=0))

    @cached_property
    def _joint_columns(self) -> Matrix:
        """The columns of all K sectors in one system of coordinates, (k, n): squares add up to Σ mult z_iᵀ z_i."""
        b = self.heavy.backend
        weights = b.xp.sqrt(b.put(self.multiplicity))[:, None, None]
        # Σ mult ZᵀZ has one k × k root for all K sectors, so the columns are multiplied once.
        return b.triangle((weights * self.half_z).reshape(-1, self.heavy.block.rank)) @ self.columns

    def centre_shifts(self, dp: Floats) -> Floats | float:
        """Return minus the change of the cells that moving the centres causes; 0 without centres."""
        return 0.0 if self.centres is None else self.centres.shifts(self.heavy.backend.get(self._joint_columns), dp)

    def numbers(self, out: Floats, factor: float, e: Matrix | None = None) -> None:
        """Add factor · mult · y_jᵀ E y_j to the entries of every number these blocks answer row by row."""
        b = self.heavy.backend
        weights = factor * self.multiplicity[:, None]
        for (source, _), y in zip(self.heavy.sources, self.y, strict=True):
            image = y if e is None else y @ e
            source.scatter(weights * b.get((y * image).sum(axis=-1)), out)

    def form(self, factor: float, e: Matrix | None = None) -> Floats:
        """Return the matrices, (K, n, n), with forms factor · mult · y_jᵀ E y_j of the numbers given by structure."""
        block, b = self.heavy.block, self.heavy.backend
        middle = self.half_y if e is None else e @ self.half_y
        weights = factor * self.multiplicity[:, None, None]
        return block.unframed(weights * b.get(_turned(self.half_y) @ middle))

    @cached_property
    def kernel(self) -> Matrix:
        """1/(s_a + s_b), with singular values no smaller than 1e-14 of the largest; only second order needs it."""
        s = self._visible
        return 1 / (s[:, :, None] + s[:, None, :])

    @property
    def _visible(self) -> Matrix:
        return self.heavy.backend.xp.maximum(self.s, 1e-14 * self.s[:, :1])

    @property
    def _light_grams(self) -> Floats:
        """Products of the structured cells, (K, n_o, n_o), over the roots of singular values."""
        light = self.z / self.heavy.backend.xp.sqrt(self._visible)[:, :, None]
        return self.heavy.backend.get(_turned(light) @ self.z)

    def among_patterns(self) -> Floats:
        """Return the curvature of `add_diagonal` between two kinds of pairs of equal cells, (h, patterns, patterns)."""
        pairwise = self.heavy.block.pairwise
        assert pairwise is not None  # noqa: S101 - only pairs have patterns
        return pairwise.kinds.among(self._light_grams, pairwise.chi, self.multiplicity / 2)

    def add_diagonal(self, cells: Floats, numbers: Floats) -> None:
        """Add the diagonal of the Hessian of −2ν by cell and by number; for pairs and by structure, add an upper bound.

        The diagonal is Σ_ab y_a² y_b² / (s_a + s_b), and 1/(s_a + s_b) ≤ ½ (s_a s_b)^-½.
        """
        heavy = self.heavy
        block, b = heavy.block, heavy.backend
        weak, mult = self._visible, self.multiplicity
        if block.pairwise is not None:
            cells += block.pairwise.kinds.squares(self._light_grams, block.pairwise.chi, mult / 2)
        elif not self.is_single:
            step = max(1, ENTRIES_PER_BATCH // block.columns.size)
            for i in range(0, len(mult), step):
                z2 = (self.half_z[i : i + step] @ self.columns) ** 2
                diagonal = b.get((z2 * (self.kernel[i : i + step] @ z2)).sum(axis=1))
                cells += mult[i : i + step] @ diagonal
        else:
            z2 = self.z[0] ** 2
            cells += mult[0] * b.get((z2 * (self.kernel[0] @ z2)).sum(axis=0))
        if self.centres is not None:
            cells += self.centres.shift_diagonal(b.get(self._joint_columns))
        for (source, _), y in zip(heavy.sources, self.y, strict=True):
            y2 = y**2
            source.scatter_squares(mult[:, None] * b.get(((y2 @ self.kernel) * y2).sum(axis=-1)), numbers)
        if block.structured:
            light = _turned(self.half_y) / b.xp.sqrt(weak)[:, None, :]
            for source, forms in block.forms(block.unframed(b.get(light @ self.half_y))):
                source.scatter_squares(mult[:, None] * forms**2 / 2, numbers)


@final
@dataclass(frozen=True, eq=False)
class _Scalars:
    """All sectors of rank 1 together, as a sparse matrix."""

    multiplicity: Floats  # (K,)
    columns: Floats  # squared columns of every block, (G, n)
    group: Indices  # the block of each sector, (K,)
    shares: sp.csr_array  # squared lifts, (K, M)

    @staticmethod
    def from_blocks(blocks: Sequence[Block], numbers: int) -> _Scalars:
        rows: list[Indices] = []
        columns: list[Indices] = []
        values: list[Floats] = []
        starts = np.cumsum([0, *(len(b.multiplicity) for b in blocks)])
        for start, block in zip(starts.tolist(), blocks, strict=False):
            for s, queries in block.dense_sources:
                pairs = sp.coo_array([[1.0]]) if s.incidence is None else s.incidence.tocoo()
                lifts = queries[:, 0] ** 2
                tables = pairs.coords[1]
                values.append(np.asarray(pairs.data[:, None] * s.scale[tables] * lifts).ravel())
                columns.append(s.numbers[tables].ravel())
                rows.append(np.repeat(start + pairs.coords[0], len(lifts)))
        positions = np.concatenate(rows), np.concatenate(columns)
        shares = sp.csr_array((np.concatenate(values), positions), shape=(int(starts[-1]), numbers))
        return _Scalars(
            multiplicity=np.concatenate([b.multiplicity for b in blocks]),
            columns=np.array([b.columns[0] ** 2 for b in blocks]),
            group=np.repeat(np.arange(len(blocks)), np.diff(starts)),
            shares=shares,
        )

    def reach(self, p: Floats) -> Floats:
        """Return C of every sector, (K,)."""
        return np.asarray((self.columns @ p)[self.group])

    def cells(self, x: Floats) -> Floats:
        """Return Σ x_S b_Si² of every cell, (n,)."""
        return np.asarray(np.bincount(self.group, x, minlength=len(self.columns)) @ self.columns)


@final
@dataclass(frozen=True, eq=False)
class Linearisation:
    """The problem at weights (p, q), and the second derivatives of −2ν there.

    A change (dp, dw) moves Σ_S by E, in coordinates where Σ_S = I. E solves s_a E_ab + E_ab s_b = (dC − dN)_ab, with s
    the singular values of N^½C^½. Then d prof_i = −mult z_iᵀEz_i and d var_j = mult y_jᵀEy_j. These are twice the
    changes of ν's slopes. A Hessian–vector product takes a few products of k × n and k × m matrices, and no
    decomposition.
    """

    problem: Problem
    value: Evaluation
    curved: tuple[_Curved, ...]
    sigma: Floats  # Σ_S of blocks of rank 1
    size: Floats  # √(C_S N_S)

    def hessian_times(self, v: Floats) -> Floats:
        """Return −2 ∇²ν v over (p, q), (cells + constraints,)."""
        problem = self.problem
        dp, dw = problem.expand(v)
        cells, numbers = np.zeros(problem.columns), np.zeros(problem.numbers)
        changes = []
        for c, grams in zip(self.curved, problem.grams(dw), strict=True):
            e = c.heavy.change(dp, dw, grams, c) * c.kernel
            cells += c.cells(e) + c.centre_shifts(dp)
            changes.append(e)
        problem.add_numbers(numbers, -1.0, self.curved, changes)
        s = problem.scalars
        if s is not None:
            e = s.multiplicity * (s.reach(dp) / self.sigma - (s.shares @ dw) * self.sigma) / (2 * self.size)
            cells += s.cells(e / self.sigma)
            numbers -= s.shares.T @ (e * self.sigma)
        return problem.gather(cells, numbers)

    def diagonal(self) -> Floats:
        """Return the diagonal of −2 ∇²ν over (p, q), or numbers near it, for preconditioning.

        For pairs and by structure they are upper bounds (`_Curved.add_diagonal`). For a weight that several unknowns
        share, mixed second derivatives of these are left out. An entry is at least 10⁻¹² of the largest.
        """
        problem = self.problem
        cells, numbers = np.zeros(problem.columns), np.zeros(problem.numbers)
        for c in self.curved:
            c.add_diagonal(cells, numbers)
        s = problem.scalars
        if s is not None:
            e = s.multiplicity / (2 * self.size)
            cells += np.bincount(s.group, e / self.sigma**2, minlength=len(s.columns)) @ s.columns**2
            numbers += s.shares.power(2).T @ (e * self.sigma**2)
        out = problem.gather_squares(cells, numbers)
        # The preconditioner divides by these numbers.
        return np.asarray(np.maximum(out, 1e-12 * out.max()))

    def among_patterns(self) -> Floats | None:
        """Return the approximate second derivatives between any two patterns of equal cells of pairs, (h, P, P).

        Cells that are not pairs, or too many patterns, give None. Kinds that differ in the pattern alone are nearly
        equal, so a diagonal is a poor approximation for them.
        """
        pairs = [c for c in self.curved if c.heavy.block.pairwise is not None]
        pairwise = pairs[0].heavy.block.pairwise if pairs else None
        if pairwise is None or pairwise.kinds.patterns > MAX_SHARED_PATTERNS:
            return None
        out = np.asarray(sum(c.among_patterns() for c in pairs))
        shared = self.problem.shared_cells
        return out if shared is None else out * shared.scale[0] ** 2


class Problem:
    """A problem in blocks.

    Args:
        blocks: The sectors.
        numbers: M, the number of numbers with variances.
        offsets: a, one for each cell; None is 0. A problem with `trade` has none.
        cells: Cells that share a weight and count with a factor 1/r; None gives every column of the blocks its own.
        constraints: Numbers bounded together; None bounds every number by 1 on its own.
        trade: λ, the cost of a unit of each number's variance, (M,); None is 0.
        backend: The backend that holds the matrices.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        numbers: int,
        *,
        offsets: Floats | None = None,
        cells: SharedWeights | None = None,
        constraints: SharedWeights | None = None,
        trade: Floats | None = None,
        backend: Backend = NUMPY,
    ) -> None:
        self.blocks = tuple(blocks)
        self.numbers, self.backend = numbers, backend
        leading = blocks[0]
        self.pairs = leading.pairwise is not None
        self.columns = leading.columns.shape[1] if leading.pairwise is None else len(leading.pairwise.kinds)
        self.shared_cells, self._constraints, self.trade = cells, constraints, trade
        self.cells = self.columns if cells is None else cells.size
        self.constraints = numbers if constraints is None else constraints.size
        self.offsets = np.zeros(self.cells) if offsets is None else offsets
        light = [b.rank == 1 and not b.structured and b.pairwise is None and b.public is None for b in blocks]
        self._light = [i for i, x in enumerate(light) if x]
        self._dense = [i for i, x in enumerate(light) if not x]
        self._heavy = [_Heavy(blocks[i], backend) for i in self._dense]
        self._summed = [(h.block, tuple(id(s) for s, _ in h.block.structured)) for h in self._heavy]
        self.scalars = _Scalars.from_blocks([blocks[i] for i in self._light], numbers) if self._light else None

    @property
    def trade_size(self) -> float:
        """The largest λ: the scale of q."""
        return 0.0 if self.trade is None else float(self.trade.max())

    # --- weights of cells and constraints, and of columns and numbers ----------------------------------

    def expand(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the weights of every column and of every number for (p, q), without λ."""
        p, q = x[: self.cells], x[self.cells :]
        return (
            p if self.shared_cells is None else self.shared_cells.expand(p),
            q if self._constraints is None else self._constraints.expand(q),
        )

    def gather(self, cells: Floats, numbers: Floats) -> Floats:
        """Apply the adjoint of `expand`."""
        c, g = self.shared_cells, self._constraints
        return np.concatenate([cells if c is None else c.gather(cells), numbers if g is None else g.gather(numbers)])

    def gather_squares(self, cells: Floats, numbers: Floats) -> Floats:
        """Return the diagonal by (p, q) of a matrix with these diagonals by columns and numbers, and no other entry."""
        c, g = self.shared_cells, self._constraints
        return np.concatenate(
            [cells if c is None else c.gather_squares(cells), numbers if g is None else g.gather_squares(numbers)]
        )

    # --- what blocks have in common -------------------------------------------------------------------

    def grams(self, w: Floats) -> list[Floats | None]:
        """Return Σ w_j l_j l_jᵀ of numbers given by structure in blocks of rank > 1; equal sources share one sum."""
        sums: dict[tuple[int, ...], Floats] = {}
        out: list[Floats | None] = []
        for block, key in self._summed:
            if key and key not in sums:
                sums[key] = block.sums(w)
            out.append(block.framed(sums[key]) if key else None)
        return out

    def add_numbers(
        self, out: Floats, factor: float, curved: Sequence[_Curved], changes: Sequence[Matrix] | None = None
    ) -> None:
        """Add factor · Σ mult y_jᵀ E y_j to the entries of every number, E = I where it is not given."""
        forms: dict[tuple[int, ...], tuple[Block, Floats]] = {}
        for c, e, (block, key) in zip(curved, changes or [None] * len(curved), self._summed, strict=True):
            c.numbers(out, factor, e)
            if key:
                form = c.form(factor, e)
                # The matrices of blocks with equal sources add up, so that their rows are visited once.
                forms[key] = block, form + forms[key][1] if key in forms else form
        for block, form in forms.values():
            for source, values in block.forms(form):
                source.scatter(values, out)

    # --- at given weights -----------------------------------------------------------------------------

    def evaluate(self, p: Floats, q: Floats) -> Evaluation:
        """Return ν, the slopes of 2ν, and two bounds on the optimum.

        Args:
            p: The weights of the cells, (cells,), Σp = 1.
            q: The weights of the constraints, (constraints,).
        """
        return self.linearise(p, q).value

    def linearise(self, p: Floats, q: Floats) -> Linearisation:
        """Return the evaluation together with the data for Hessian–vector products, which are a by-product.

        Raises:
            numpy.linalg.LinAlgError: The problem cannot be evaluated there in floating point.
        """
        columns, w = self.expand(np.concatenate([p, q]))
        if self.trade is not None:
            w = w + self.trade
        nu = 0.0
        profile, variances = np.zeros(self.columns), np.zeros(self.numbers)
        sigma = size = np.zeros(0)
        s = self.scalars
        if s is not None:
            c, n = s.reach(columns), s.shares @ w
            with np.errstate(divide="ignore", invalid="ignore"):
                sigma, size = np.sqrt(c / n), np.sqrt(c * n)
                profile += s.cells(s.multiplicity / sigma)
            variances += s.shares.T @ (s.multiplicity * sigma)
            nu += float(s.multiplicity @ size)
        curved = []
        for heavy, grams in zip(self._heavy, self.grams(w), strict=True):
            curve = heavy.normalise(columns, w, grams)
            nu += float(heavy.block.multiplicity @ heavy.backend.get(curve.s.sum(axis=1)))
            profile += curve.cells()
            curved.append(curve)
        self.add_numbers(variances, 1.0, curved)
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
                # The sum highest/t + t·total is least at t = (highest/total)^½, and no t above 1/worst meets the
                # constraints.
                stretch = min(1 / worst if worst > 0 else math.inf, math.sqrt(highest / total))
                lower = 2 * nu - float(q.sum())
                upper = highest / stretch + stretch * total
        return Evaluation(nu, profile, ratios, total, lower, upper, stretch)

    def natural(self, q: Floats, value: Evaluation) -> tuple[float, Floats]:
        """Return (f, r): the factor to the best scale of q on its ray, and the slopes (a + prof, ω var) of p·a + 2ν."""
        f = 1.0 if self.trade is not None else (value.nu / float(q.sum())) ** 2
        root = math.sqrt(f)
        return f, np.concatenate([self.offsets + value.profile * root, value.ratios / root])

    def covariance_factors(self, p: Floats, q: Floats) -> list[tuple[Floats, Floats]]:
        """Return (Y, Z) of each block, (K, k, k) each, with Σ_S = YᵀY and Σ_S⁻¹ = ZᵀZ, stretched to the upper bound."""
        linearised = self.linearise(p, q)
        t = math.sqrt(linearised.value.stretch)
        out: dict[int, tuple[Floats, Floats]] = {}
        if self.scalars is not None:
            root = np.sqrt(linearised.sigma) * t
            counts = np.bincount(self.scalars.group)
            for i, part in zip(self._light, np.split(root, np.cumsum(counts)[:-1]), strict=True):
                out[i] = part[:, None, None], 1 / part[:, None, None]
        for i, c in zip(self._dense, linearised.curved, strict=True):
            get = c.heavy.backend.get
            out[i] = get(c.half_y) * t, get(c.half_z) / t
        return [out[i] for i in range(len(out))]
