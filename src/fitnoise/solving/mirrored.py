"""Problems that stay the same when the cells are read backwards, as all ranges do: solved in halves.

Let J reverse the cells, and let the numbers be in pairs with l_ρ(j) = J l_j and the same targets. ν is concave, so some
optimum has p and q that stay the same; and then so does Σ, which falls apart into what is even and what is odd,

    Σ = ½ (I + J) Σ ½ (I + J) + ½ (I − J) Σ ½ (I − J):

two sectors of half the size, for cells and numbers two by two. With l± = ½ (l ± Jl) cut to its first half, the cells
are the first half of the unit vectors in both. Decompositions and products of matrices take a quarter of the time.
Nothing is believed of it: bounds are recomputed from the whole problem. Source: ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from fitnoise.algebra import operators as op
from fitnoise.algebra.operators import Operator
from fitnoise.kernel.arrays import Floats, Indices
from fitnoise.solving._base import Solution, Weights
from fitnoise.solving.problems import Block, Problem, Shared, Source

SMALL = 256
"""Cells below which halves are not worth while."""


@final
@dataclass(frozen=True, eq=False)
class Halves:
    """A problem in halves. whole: the numbers of the one that it is of. kept: a number of each pair. cells: of all."""

    problem: Problem
    mate: Indices
    kept: Indices
    cells: int

    def fold(self, weights: Weights) -> Weights:
        """Weights of the whole problem, two by two."""
        p, q = weights
        p, q = (p + p[::-1]) / 2, (q + q[self.mate]) / 2
        return p[: self.problem.cells] * self._shared[0], q[self.kept] * self._shared[1]

    def unfold(self, weights: Weights) -> Weights:
        """Weights of pairs, shared out evenly."""
        p, q = (x / n for x, n in zip(weights, self._shared, strict=True))
        every = np.empty(len(self.mate))
        every[self.kept] = every[self.mate[self.kept]] = q
        return np.concatenate([p, p[: self.cells // 2][::-1]]), every

    def whole(self, found: Solution) -> Solution:
        """What was found of the halves, of the whole problem."""
        return replace(found, primal=self.unfold(found.primal), dual=self.unfold(found.dual))

    @property
    def _shared(self) -> tuple[Floats, Floats]:
        """How many cells and numbers share each weight."""
        cells = np.full(self.problem.cells, 2.0)
        cells[self.cells // 2 :] = 1  # the one in the middle
        return cells, np.where(self.mate[self.kept] == self.kept, 1.0, 2.0)


def halved(problem: Problem) -> Halves | None:
    """The problem in halves; None where it is another one backwards, or small, or of another form."""
    n, owners = problem.columns, problem.shared_cells
    even = owners is None or (owners.size == n and len(set(owners.scale.tolist())) == 1)
    plain = problem.constraints == problem.numbers and problem.trade is None and not problem.offsets.any()
    if n < SMALL or not (even and plain and all(_unit(b) for b in problem.blocks)):
        return None
    mate = np.full(problem.numbers, -1)
    kept: list[list[tuple[Source, Indices]]] = []
    for block in problem.blocks:
        kept.append([])
        for s in block.sources:
            other = _backwards(_single(s.lifts))
            if other is None or (s.scale[:, other] != s.scale).any():
                return None
            there = mate[s.numbers]
            if ((there >= 0) & (there != s.numbers[:, other])).any():
                return None
            mate[s.numbers] = s.numbers[:, other]
            kept[-1].append((s, np.flatnonzero(np.arange(len(other)) <= other)))
    if mate.min() < 0:
        return None
    few = np.flatnonzero(np.arange(len(mate)) <= mate)
    place = np.full(len(mate), -1)
    place[few] = place[mate[few]] = np.arange(len(few))
    half = (n + 1) // 2
    blocks = []
    for block, sources in zip(problem.blocks, kept, strict=True):
        one = [_one_of_each(s, rows, place) for s, rows in sources]  # by structure the same in both halves
        for sign, k in ((1, half), (-1, n // 2)):
            own = tuple(_half(s, sign, k) for s in one)
            blocks.append(Block(block.multiplicity, np.eye(k, half), own, halves=sign))
    cells = None if owners is None else Shared(np.arange(half), owners.scale[:half], half)
    return Halves(Problem(blocks, len(few), cells=cells, backend=problem.backend), mate, few, n)


def _unit(block: Block) -> bool:
    """Whether its columns are the unit vectors."""
    k, n = block.columns.shape
    return k == n and block.frame is None and block.pairwise is None and bool((block.columns == np.eye(k)).all())


def _single(lifts: Floats | Operator) -> Floats | Operator:
    """The one factor of a product that has no other."""
    if isinstance(lifts, op.Kronecker):
        return lifts.factors[0] if len(lifts.factors) == 1 else lifts
    return lifts


def _one_of_each(s: Source, rows: Indices, place: Indices) -> Source:
    """One row of each pair."""
    lifts = _single(s.lifts)
    if isinstance(lifts, op.Intervals):
        bounds = lifts.bounds
        lifts = op.Intervals(lifts.shape[1], tuple(bounds[i] for i in rows.tolist()))
    elif isinstance(lifts, np.ndarray):
        lifts = lifts[rows]
    return replace(s, lifts=lifts, numbers=place[s.numbers[:, rows]], scale=s.scale[:, rows])


def _half(s: Source, sign: int, k: int) -> Source:
    """The rows even or odd; where they are structure, the block halves their sums."""
    if isinstance(s.lifts, Operator):
        return s
    return replace(s, lifts=(s.lifts + sign * s.lifts[:, ::-1])[:, :k] / 2)


def _backwards(lifts: Floats | Operator) -> Indices | None:
    """The row that each is backwards, (m,); None where one is no row, or may not be, or there are two alike."""
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
    found = np.minimum(np.searchsorted(ascending, other), len(keys) - 1)
    alike = (ascending[1:] == ascending[:-1]).any()
    return None if alike or (ascending[found] != other).any() else np.asarray(order[found])
