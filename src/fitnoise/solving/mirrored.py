"""Problems that are invariant under reversal of the cells, such as all ranges, solved in halves.

**Statement.** Let J reverse the cells. Let each number j have a partner ρ(j) with l_ρ(j) = J l_j and an equal target. ν
is concave, so some optimum has p and q that J leaves unchanged. J then leaves Σ unchanged too, and Σ splits into an
even and an odd part:

    Σ = ½ (I + J) Σ ½ (I + J) + ½ (I − J) Σ ½ (I − J).

These are two sectors of half the size, for cells and numbers in pairs. With l± = ½ (l ± Jl) cut to its first half, the
cells are the first half of the unit vectors in both. Decompositions and products of matrices take a quarter of the
time.

**Source.** This project.

**Trust.** Nothing found here is believed: bounds are recomputed from the complete problem.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from fitnoise.algebra import operators as op
from fitnoise.algebra.operators import Operator
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.solving._base import Solution, Weights
from fitnoise.solving.problems import Block, Problem, QuerySource, SharedWeights

MIN_MIRRORED_CELLS = 256
"""The number of cells below which halves save no time."""


@final
@dataclass(frozen=True, eq=False)
class MirroredProblem:
    """A problem in halves.

    problem: The problem of the pairs.
    mate: The partner of each number of the complete problem.
    representatives: One number of each pair.
    cells: The number of cells of the complete problem.
    """

    problem: Problem
    mate: Indices
    representatives: Indices
    cells: int

    def fold(self, weights: Weights) -> Weights:
        """Return the weights of pairs, from weights of the complete problem."""
        p, q = weights
        p, q = (p + p[::-1]) / 2, (q + q[self.mate]) / 2
        return p[: self.problem.cells] * self._shared[0], q[self.representatives] * self._shared[1]

    def unfold(self, weights: Weights) -> Weights:
        """Return weights of the complete problem, with those of pairs shared evenly."""
        p, q = (x / n for x, n in zip(weights, self._shared, strict=True))
        all_numbers = np.empty(len(self.mate))
        all_numbers[self.representatives] = all_numbers[self.mate[self.representatives]] = q
        return np.concatenate([p, p[: self.cells // 2][::-1]]), all_numbers

    def unfold_solution(self, solution: Solution) -> Solution:
        """Return a solution of the complete problem from one of the halves."""
        return replace(solution, primal=self.unfold(solution.primal), dual=self.unfold(solution.dual))

    @property
    def _shared(self) -> tuple[Floats, Floats]:
        """The number of cells, and of numbers, that share each weight."""
        cells = np.full(self.problem.cells, 2.0)
        cells[self.cells // 2 :] = 1  # the one in the middle
        return cells, np.where(self.mate[self.representatives] == self.representatives, 1.0, 2.0)


def halved(problem: Problem) -> MirroredProblem | None:
    """Return the problem in halves; None if reversal changes it, or if it is small or of another form."""
    n, owners = problem.columns, problem.shared_cells
    has_equal_cells = owners is None or (owners.size == n and len(set(owners.scale.tolist())) == 1)
    is_simple = problem.constraints == problem.numbers and problem.trade is None and not problem.offsets.any()
    if n < MIN_MIRRORED_CELLS or not (has_equal_cells and is_simple and all(_unit(b) for b in problem.blocks)):
        return None
    mate = np.full(problem.numbers, -1)
    sources_by_block: list[list[tuple[QuerySource, Indices]]] = []
    for block in problem.blocks:
        sources_by_block.append([])
        for s in block.sources:
            other = _backwards(_sole_factor(s.lifts))
            # A partner with another target would break the symmetry.
            if other is None or (s.scale[:, other] != s.scale).any():
                return None
            there = mate[s.numbers]
            # Several sources can answer one number, and must agree on its partner.
            if ((there >= 0) & (there != s.numbers[:, other])).any():
                return None
            mate[s.numbers] = s.numbers[:, other]
            sources_by_block[-1].append((s, np.flatnonzero(np.arange(len(other)) <= other)))
    if mate.min() < 0:
        return None
    few = np.flatnonzero(np.arange(len(mate)) <= mate)
    position = np.full(len(mate), -1)
    position[few] = position[mate[few]] = np.arange(len(few))
    half = (n + 1) // 2
    blocks = []
    for block, sources in zip(problem.blocks, sources_by_block, strict=True):
        one = [_one_of_each(s, rows, position) for s, rows in sources]  # by structure the same in both halves
        for sign, k in ((1, half), (-1, n // 2)):
            half_sources = tuple(_half(s, sign, k) for s in one)
            blocks.append(Block(block.multiplicity, np.eye(k, half), half_sources, halves=sign))
    cells = None if owners is None else SharedWeights(np.arange(half), owners.scale[:half], half)
    return MirroredProblem(Problem(blocks, len(few), cells=cells, backend=problem.backend), mate, few, n)


def _unit(block: Block) -> bool:
    """Return True if the block's columns are the unit vectors."""
    k, n = block.columns.shape
    return k == n and block.frame is None and block.pairwise is None and bool((block.columns == np.eye(k)).all())


def _sole_factor(lifts: Floats | Operator) -> Floats | Operator:
    """Return the only factor of a product that has one factor."""
    if isinstance(lifts, op.Kronecker):
        return lifts.factors[0] if len(lifts.factors) == 1 else lifts
    return lifts


def _one_of_each(s: QuerySource, rows: Indices, partners: Indices) -> QuerySource:
    """Return one row of each pair."""
    lifts = _sole_factor(s.lifts)
    if isinstance(lifts, op.Intervals):
        bounds = lifts.bounds
        lifts = op.Intervals(lifts.shape[1], tuple(bounds[i] for i in rows.tolist()))
    elif isinstance(lifts, np.ndarray):
        lifts = lifts[rows]
    return replace(s, lifts=lifts, numbers=partners[s.numbers[:, rows]], scale=s.scale[:, rows])


def _half(s: QuerySource, sign: int, k: int) -> QuerySource:
    """Return the even or odd part of the rows; if they are structure, the block halves their sums."""
    if isinstance(s.lifts, Operator):
        return s
    return replace(s, lifts=(s.lifts + sign * s.lifts[:, ::-1])[:, :k] / 2)


def _backwards(lifts: Floats | Operator) -> Indices | None:
    """Return the row that each row is in reverse, (m,).

    The function returns None if a reverse is no row, if two rows are equal, or if the operator has no fast reversal.
    """
    if isinstance(lifts, op.Intervals):
        (low, high), n = lifts.ends, lifts.shape[1]
        keys, other = low * (n + 1) + high, (n - high) * (n + 1) + n - low
    elif isinstance(lifts, np.ndarray):
        both = np.concatenate([lifts, lifts[:, ::-1]]) + 0.0  # −0 becomes 0
        raw = np.ascontiguousarray(both).view(np.dtype((np.void, both.shape[1] * both.itemsize))).ravel()
        keys, other = np.split(np.unique(raw, return_inverse=True)[1].ravel(), 2)
    else:
        return None
    order = np.argsort(keys)
    ascending = keys[order]
    matches = np.minimum(np.searchsorted(ascending, other), len(keys) - 1)
    has_repeats = (ascending[1:] == ascending[:-1]).any()
    return None if has_repeats or (ascending[matches] != other).any() else np.asarray(order[matches])
