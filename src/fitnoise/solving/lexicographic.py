"""The unique solution: of all optima, the one of lexicographically least privacy profile, by facial reduction.

**Symbols.**

| letter | meaning |
|---|---|
| N, C | the weighted sums of numbers and of cells in a sector, with R_nᵀR_n = N and R_cᵀR_c = C |
| U s Vᵀ | the singular value decomposition of R_n R_cᵀ |
| r, k | the rank of N and C, and the size of Σ |
| B, L | the columns of the cells, and the lifts of the numbers |
| K, K₂ | bases of the null spaces of UᵀR_n and of VᵀR_c, with KᵀK₂ = I |

**Statement.** At a saddle point, cells with weight have the highest cost, and numbers with weight meet their
target exactly. C = Σ N Σ holds in every sector. If r < k, all optima agree on r directions:

    Σ₁ = R_cᵀV s⁻¹ VᵀR_c,   X₁ = R_nᵀU s⁻¹ UᵀR_n.

The optima are Σ = Σ₁ + K M Kᵀ with M ≻ 0 free. The rest is a problem of the same form, with B ← K₂ᵀB and L ← LK. Its
targets are reduced by the variances that Σ₁ uses, and its offsets a are the costs of X₁. The next stage minimises the
largest a_i + prof_i, and so on until nothing is free. Cells that the rest no longer reaches are finished.

**Source.** Fit-for-use (Xiao et al. 2021), section 5.3, Theorem 11, for the order and uniqueness. The reduction is from
this project.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from fitnoise.algebra import rules
from fitnoise.algebra.backends import NUMPY
from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.messages import Message
from fitnoise.solving import interior_point, solver
from fitnoise.solving._base import Progress, Solution, Weights
from fitnoise.solving.problems import Block, Problem, QuerySource
from fitnoise.solving.statuses import status_message

STAGES = 24
"""The largest number of reductions."""

STAGE_GAP = 1e-13
"""The gap that every stage aims at, small enough that the weights show which are zero."""

THRESHOLDS = (1.0, 1e2, 1e-2, 1e4, 1e-4, 1e6, 1e-6)
"""The weights over slack above which a constraint counts as active, tried in turn until the ranks of both sides agree.
"""

RANK_TOLERANCE = 1e-9
"""The relative size below which a singular value is rounding."""

MAX_RELATIVE_RISE = 1e-7
"""The relative amount by which a later level, or the total cost, may exceed the one before."""

MAX_SECTORS = 2000
"""The largest number of sectors that refinement writes out one by one."""

MAX_ENTRIES = 20_000_000
"""The largest number of entries of the lifts of one block that refinement writes out."""

Mask = NDArray[np.bool_]


@final
@dataclass(frozen=True, eq=False)
class RefinedSolution:
    """The outcome of a refinement.

    factors: Z with Σ_S⁻¹ = ZᵀZ, (K, k, k) for each block.
    profile: The profile of every cell.
    levels: The largest profile decided by each stage.
    complete: True if the profile is the lexicographically least.
    status: The same fact as a message.
    """

    factors: list[Floats]
    profile: Floats
    levels: tuple[float, ...]
    complete: bool
    status: Message


@dataclass(frozen=True, eq=False)
class _Flat:
    """One sector with every number's lift written out: B (k, n), L (m, k), and the places of the numbers."""

    multiplicity: float
    columns: Floats
    lifts: Floats
    numbers: NDArray[np.intp]

    @property
    def rank(self) -> int:
        return len(self.columns)

    @property
    def block(self) -> Block:
        return Block.from_lifts(self.multiplicity, self.columns, self.lifts, self.numbers)


@dataclass(eq=False)
class _Sector:
    """The free part of a block: B (k, n), L (m, k), its embedding E (k₀, k), and Σ so far (k₀, k₀)."""

    multiplicity: float
    columns: Floats
    lifts: Floats
    numbers: NDArray[np.intp]
    embedding: Floats
    sigma: Floats

    @property
    def rank(self) -> int:
        return len(self.columns)

    def with_free(self, m: Floats) -> Floats:
        """Return Σ so far + E M Eᵀ."""
        return np.asarray(self.sigma + self.embedding @ m @ self.embedding.T)


def refine(problem: Problem, solution: Solution, *, progress: Progress | None = None) -> RefinedSolution:
    """Return the optimum of least profile, starting from any optimum.

    Args:
        problem: A problem with one constraint for each number, no offsets, no λ and no pairs.
        solution: A solution of that problem, to a small gap.
        progress: The function called with the step and gap of each stage.

    Returns:
        Σ with every target met and the cost of the optimum. `complete` is True if no ties remain. If floating point
        cannot break a tie, the stages so far stand, and the status names the reason.

    Raises:
        PlanError: The sectors or lifts are too many to write out, or the optimum cannot be refined in floating point.

    **Guarantees**
        * The largest profile is that of the optimum, up to a share of MAX_RELATIVE_RISE, for any status.
        * If `complete`, the profile is unique: it does not depend on the basis, order or multiplicity of the queries.
    """
    return _Recursion(problem, progress).run(solution.dual)


def affordable(problem: Problem) -> bool:
    """Return True if the sectors are few, and the lifts of every block small, enough to be written out."""
    few = sum(len(b.multiplicity) for b in problem.blocks) <= MAX_SECTORS
    return few and all(sum(_entries(s) for s in b.sources) * b.rank <= MAX_ENTRIES for b in problem.blocks)


def _entries(source: QuerySource) -> int:
    """Return the number of rows of all sectors and tables that a source stands for."""
    pairs = 1 if source.incidence is None else source.incidence.nnz
    return int(pairs * source.numbers.shape[1])


class _Recursion:
    def __init__(self, problem: Problem, progress: Progress | None) -> None:
        if not affordable(problem):
            raise PlanError(
                "refinement-too-large",
                "A table is too tall to write out its matrix, or the tables have too many margins.",
                "",
                "Plan without refinement.",
                "Nothing was refined.",
            )
        self.progress = progress
        scale = np.sqrt(problem.expand(np.ones(problem.cells + problem.constraints))[0])
        self.original = [x for b in problem.blocks for x in _written_out(replace(b, columns=b.columns * scale))]
        self.counts = [len(b.multiplicity) for b in problem.blocks]
        self.sectors = [
            _Sector(b.multiplicity, b.columns, b.lifts, b.numbers, np.eye(b.rank), np.zeros((b.rank, b.rank)))
            for b in self.original
        ]
        self.remaining = np.ones(problem.numbers)
        self.offsets = np.zeros(problem.columns)
        self.levels: list[float] = []

    def run(self, weights: Weights) -> RefinedSolution:
        start: Weights | None = weights
        best: RefinedSolution | None = None
        why, numbers = "report.status.refined_stages", {"stages": STAGES}
        for _ in range(STAGES):
            stage = _Stage(self, start)
            if start is not None and not stage.is_final and stage.active is None:  # now without start weights
                stage = _Stage(self, None)
            level = stage.level
            # A stage minimises over what the one before left free. A higher level is therefore a failure of floating
            # point.
            if self.levels and level > self.levels[-1] * (1 + MAX_RELATIVE_RISE):
                why, numbers = "report.status.refined_rise", {}
                break
            self.levels.append(level)
            outcome = self._outcome_of(stage)
            if outcome is None:
                why, numbers = "report.status.refined_precision", {}
                break
            best = outcome
            if stage.is_final:
                return best
            if not stage.reduce():
                why, numbers = "report.status.refined_active", {}
                break
            start = None
        if best is None:
            raise PlanError(
                "refinement-not-finite",
                "The optimum cannot be refined in floating point.",
                "",
                "Plan without refinement.",
                "No plan was made.",
            )
        return replace(best, complete=False, status=status_message(why, levels=len(best.levels), **numbers))

    def free_squares(self) -> Floats:
        """Return Σ ‖l_j‖² over the free part: 0 for numbers that are finished, (M,)."""
        out = np.zeros(len(self.remaining))
        for s in self.sectors:
            if s.rank:
                np.add.at(out, s.numbers, (s.lifts**2).sum(axis=1))
        return out

    def _outcome_of(self, stage: _Stage) -> RefinedSolution | None:
        """Return the outcome of the first of the stage's weights that costs no more than the optimum; else None."""
        # At the end, weights that are not active are nearly 0, and the free part can be rounding. Shortly before the
        # end it is not.
        for primal in (stage.primal, stage.rough_primal):
            pairs = zip(self.sectors, stage.covariances(primal), strict=True)
            outcome = self._outcome([s.sigma if m is None else s.with_free(m) for s, m in pairs])
            if outcome is not None:
                return outcome
        return None

    def _outcome(self, sigmas: list[Floats]) -> RefinedSolution | None:
        """Return the outcome of these covariances; None if they cost more than the optimum, or are not covariances."""
        try:
            roots = [np.linalg.cholesky(x) for x in sigmas]
        except np.linalg.LinAlgError:  # what earlier levels decided and what is left no longer fit together
            return None
        factors = [np.asarray(sl.solve_triangular(x, np.eye(len(x)), lower=True)) for x in roots]
        profile, used = np.zeros_like(self.offsets), np.zeros_like(self.remaining)
        for b, z, sigma in zip(self.original, factors, sigmas, strict=True):
            profile += b.multiplicity * ((z @ b.columns) ** 2).sum(axis=0)
            used[b.numbers] += b.multiplicity * ((b.lifts @ sigma) * b.lifts).sum(axis=1)
        profile *= used.max()
        if profile.max() > self.levels[0] * (1 + MAX_RELATIVE_RISE):
            return None
        n = len(self.levels)
        outcome = status_message("report.status.refined_level" if n == 1 else "report.status.refined_levels", levels=n)
        rest = iter(factors)
        stacks = [np.stack([next(rest) for _ in range(count)]) for count in self.counts]
        return RefinedSolution(stacks, profile, tuple(self.levels), True, outcome)


def _written_out(b: Block) -> list[_Flat]:
    """Return the block's sectors one by one."""
    frame = np.eye(b.rank) if b.frame is None else b.frame
    dense = [*b.dense_sources, *((s, rules.dense(a) @ frame.T) for s, a in b.structured)]
    out = []
    for i, multiplicity in enumerate(b.multiplicity.tolist()):
        lifts, numbers = [np.zeros((0, b.rank))], [np.zeros(0, dtype=np.intp)]
        for s, rows in dense:
            incidence = sp.csr_array([[1.0]]) if s.incidence is None else s.incidence[[i]]
            scale = np.sqrt(incidence.data[:, None] * s.scale[incidence.indices])
            lifts.append((scale[:, :, None] * rows).reshape(-1, b.rank))
            numbers.append(s.numbers[incidence.indices].ravel())
        out.append(_Flat(multiplicity, b.columns, np.concatenate(lifts), np.concatenate(numbers)))
    return out


class _Stage:
    """One optimum: its level, its active cells and numbers, and the directions that these decide."""

    def __init__(self, recursion: _Recursion, start: Weights | None) -> None:
        self.recursion = recursion
        self.open = [s for s in recursion.sectors if s.rank]
        self.cells = np.flatnonzero(sum(s.multiplicity * (s.columns**2).sum(axis=0) for s in self.open))
        self.numbers = np.flatnonzero(recursion.free_squares())
        position = np.full(len(recursion.remaining), -1)
        position[self.numbers] = np.arange(len(self.numbers))
        self.blocks: list[_Flat] = []
        for s in self.open:
            has_lift = (s.lifts**2).any(axis=1)
            lifts = s.lifts[has_lift] / np.sqrt(recursion.remaining[s.numbers[has_lift]])[:, None]
            self.blocks.append(_Flat(s.multiplicity, s.columns[:, self.cells], lifts, position[s.numbers[has_lift]]))
        problem = Problem([b.block for b in self.blocks], len(self.numbers), offsets=recursion.offsets[self.cells])
        if start is None:
            start_weights = solver.solve(problem, gap=1e-8).dual
        else:
            start_weights = start[0][self.cells], start[1][self.numbers]
        search = interior_point.InteriorPointSearch(problem, start_weights)
        search.run(MAX_RELATIVE_RISE / 10, interior_point.STEPS, recursion.progress)
        self.rough_primal = search.best.primal
        search.run(STAGE_GAP, 2 * interior_point.STEPS, recursion.progress)
        n = len(self.cells)
        self.p, self.q = search.w[:n], search.w[n:]
        self.problem = problem
        self.level = search.best.upper
        self.primal = search.best.primal
        slack = np.maximum(search.gradient, search.z)
        # Complementary slackness: as the gap closes, weight over slack grows for active ones and vanishes for others.
        self.cell_odds = self.p / self.p.max() / np.maximum(slack[:n], 1e-300)
        self.number_odds = self.q / self.q.max() / np.maximum(slack[n:] * search.unit, 1e-300)
        self.active: tuple[Mask, Mask] | None = None
        for t in THRESHOLDS:
            if self._matches(self.cell_odds > t, self.number_odds > t):
                self.active = self.cell_odds > t, self.number_odds > t
                break

    def _matches(self, cells: Mask, numbers: Mask) -> bool:
        """Return True if the active cells and the active numbers span equal dimensions of every sector."""
        return all(_rank(b.columns[:, cells].T) == _rank(b.lifts[numbers[b.numbers]]) for b in self.blocks)

    @property
    def is_final(self) -> bool:
        """True if nothing is free: all cells are at the level, or the active ones decide every direction."""
        if self.active is None:
            return bool((self.cell_odds > THRESHOLDS[0]).all())
        cells = self.active[0]
        return bool(cells.all()) or all(_rank(b.columns[:, cells].T) == b.rank for b in self.blocks)

    def covariances(self, primal: Floats) -> list[Floats | None]:
        """Return Σ of the free part of each sector; None for sectors that were finished before.

        All Σ are multiplied by one factor, with which the remaining targets are met.

        primal: The weights of the cells, then those of the numbers: the final ones, or those shortly before the end.
        """
        factors = iter(self.problem.covariance_factors(*np.split(primal, [len(self.cells)])))
        return [(lambda y: y.T @ y)(next(factors)[0][0]) if s.rank else None for s in self.recursion.sectors]

    def _polished(self, cells: Mask, numbers: Mask) -> tuple[Floats, Floats]:
        """Return the weights, solved for again among the active ones alone: there no weight is near zero."""
        blocks = []
        position = np.cumsum(numbers) - 1
        for b in self.blocks:
            is_active = numbers[b.numbers]
            columns, lifts = b.columns[:, cells], b.lifts[is_active]
            span = sl.orth(columns, rcond=RANK_TOLERANCE)
            if span.shape[1]:
                blocks.append(
                    Block.from_lifts(b.multiplicity, span.T @ columns, lifts @ span, position[b.numbers[is_active]])
                )
        p, q = np.zeros(len(cells)), np.zeros(len(numbers))
        if blocks:
            problem = Problem(blocks, int(numbers.sum()), offsets=self.recursion.offsets[self.cells[cells]])
            search = interior_point.InteriorPointSearch(problem, (self.p[cells], self.q[numbers]))
            search.run(STAGE_GAP / 100, interior_point.STEPS)
            p[cells], q[numbers] = np.split(search.w, [problem.cells])
        return p, q

    def _decided(self, p: Floats, q: Floats) -> list[tuple[Floats, Floats]] | None:
        """Return (Y, Z) of every sector, with Σ = YᵀY and Σ⁻¹ = ZᵀZ where the active cells and numbers decide them.

        None means that the weights lose one of these directions.
        """
        out = []
        for b in self.blocks:
            rn = NUMPY.triangle(np.sqrt(q[b.numbers])[:, None] * b.lifts)
            rc = NUMPY.triangle(np.sqrt(p)[:, None] * b.columns.T)
            r = 0 if self.active is None else _rank(b.columns[:, self.active[0]].T)
            u, s, vt = NUMPY.svd(rn @ rc.T)
            # Active parts that do not touch each other can share their weight in any way. A search that goes on for too
            # long drifts until one of them has no weight left.
            if r and s[r - 1] <= RANK_TOLERANCE * s[0]:
                return None
            out.append(((vt[:r] @ rc) / np.sqrt(s[:r, None]), (u[:, :r].T @ rn) / np.sqrt(s[:r, None])))
        return out

    def reduce(self) -> bool:
        """Fix the part that the active weights decide. Return False if it is unclear, or a target has no room.

        The search ends at False: the sectors can then be reduced already, and no further stage may use them.
        """
        if self.active is None:
            return False
        polished = self._polished(*self.active)
        active_weights = self.p * self.active[0], self.q * self.active[1]
        decided = self._decided(*polished) or self._decided(*active_weights)
        if decided is None:
            return False
        used, spent = np.zeros(len(self.numbers)), np.zeros(len(self.cells))
        for b, (y, z) in zip(self.blocks, decided, strict=True):
            used[b.numbers] += b.multiplicity * ((b.lifts @ y.T) ** 2).sum(axis=1)
            spent += b.multiplicity * ((z @ b.columns) ** 2).sum(axis=0)
        if not any(len(y) for y, _ in decided):
            return False
        stretch = 1 / float(used[self.active[1]].max())
        used, spent = used * stretch, spent / stretch
        recursion = self.recursion
        for sector, (y, z) in zip(self.open, decided, strict=True):
            _reduce_sector(sector, y, z, stretch)
        recursion.offsets[self.cells] += spent
        room = 1 - used  # as shares of what was left
        still = recursion.free_squares()[self.numbers] > 0
        if (room[still] <= RANK_TOLERANCE).any():
            return False
        recursion.remaining[self.numbers] *= np.where(still, room, 1.0)
        return True


def _reduce_sector(s: _Sector, y: Floats, z: Floats, stretch: float) -> None:
    """Keep Σ₁ = YᵀY, and reduce the sector to its free part."""
    s.sigma = s.sigma + s.embedding @ (y.T @ y * stretch) @ s.embedding.T
    k, r = s.rank, len(y)
    if r == k:
        s.columns, s.lifts, s.embedding = s.columns[:0], s.lifts[:, :0], s.embedding[:, :0]
        return
    if r == 0:
        return
    free, against = sl.svd(z)[2][r:].T, sl.svd(y)[2][r:].T
    # K₂ with KᵀK₂ = I, as the statement needs.
    against = against @ np.linalg.inv(free.T @ against)
    columns, lifts = against.T @ s.columns, s.lifts @ free
    grown = np.linalg.norm(against, 2)
    # A column or lift that is rounding would keep a finished cell or number in the next stage.
    columns[:, np.linalg.norm(columns, axis=0) <= RANK_TOLERANCE * grown * np.linalg.norm(s.columns, axis=0)] = 0
    lifts[np.linalg.norm(lifts, axis=1) <= RANK_TOLERANCE * np.linalg.norm(s.lifts, axis=1)] = 0
    s.columns, s.lifts, s.embedding = columns, lifts, s.embedding @ free


def _rank(a: Floats) -> int:
    """Return the rank of rows that are first scaled to equal length, so that their weights do not matter."""
    lengths = np.linalg.norm(a, axis=1)
    rows = a[lengths > 0] / lengths[lengths > 0, None]
    if not len(rows):
        return 0
    s = np.linalg.svd(NUMPY.triangle(rows), compute_uv=False)
    return int((s > 1e-8 * s[0]).sum())
