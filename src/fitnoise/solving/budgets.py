"""The best budgets for tables by levels of places, where every number has noise of its own.

With precision w_j of the numbers of table j, its sectors have w_j/n_S more weight at its level, and every record pays
w_j. Minimised is Σ_j w_j times the largest variance over its target, which knows no scale: a convex problem.
"""

from __future__ import annotations

import math

import numpy as np

from fitnoise.kernel.arrays import Floats
from fitnoise.solving.sectors import Decomposition
from fitnoise.solving.trees import SHARPNESS, ByLevel

MOST = 100
"""Tables up to which the best budgets are looked for, in seconds."""


def best(problem: ByLevel, d: Decomposition) -> Floats:
    """The precisions of the numbers of each table that cost least, but for the one factor they have in common, (J,).

    As in `trees.solve`, the largest relative variance is replaced by norms that come nearer and nearer to it.

    Args:
        problem: tables by levels of a tree.
        d: the same in sectors.
    """
    tree, cells = problem.tree, np.sqrt(problem.relative / d.variances)

    def smoothed(y: Floats, norm: float) -> tuple[float, Floats]:
        w = np.exp(y - y.max())
        counts = [len(tree.counts[level]) for level in problem.level]
        values, moves = [np.zeros(n) for n in counts], [np.zeros((len(w), n)) for n in counts]
        for sector in problem.sectors:
            levels = problem.level[sector.tables]
            weights = np.zeros(sector.deep + 1)
            np.add.at(weights, levels, (w / cells)[sector.tables])
            value, moved = tree.slopes(weights)
            for j, level in zip(sector.tables.tolist(), levels.tolist(), strict=True):
                values[j] += sector.weight * value[level] / problem.wanted(j)
                moves[j][sector.tables] += (sector.weight / cells[sector.tables])[:, None] * (
                    moved[level][levels] / problem.wanted(j)
                )
        largest = max(float(v.max()) for v in values)
        total = sum(float(((v / largest) ** norm).sum()) for v in values)
        slope = sum(m @ (v / largest) ** (norm - 1) for v, m in zip(values, moves, strict=True)) / (largest * total)
        return math.log(w.sum()) + math.log(largest) + math.log(total) / norm, w * (1 / w.sum() + slope)

    import scipy.optimize as so  # takes as long as a small plan

    y = -np.log(d.variances)
    for norm in SHARPNESS:
        y = so.minimize(smoothed, y, args=(norm,), jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    return np.asarray(np.exp(y - y.max()))
