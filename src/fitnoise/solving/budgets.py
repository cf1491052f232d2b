"""The best budgets for tables by levels of places, with independent noise on every number.

Precision w_j of the numbers of table j adds w_j/n_S to the weight of its level in its sectors. Here n_S is the number
of cells that each of its places splits into. Every record costs w_j. The search minimises Σ_j w_j times the largest
variance over its target. This is independent of scale, and a convex problem.
"""

from __future__ import annotations

import math

import numpy as np

from fitnoise.kernel.arrays import Floats
from fitnoise.solving.sectors import Decomposition
from fitnoise.solving.trees import SHARPNESS, LevelProblem

MAX_TABLES = 100
"""The largest number of tables for which the best budgets are computed: it takes seconds."""


def best(problem: LevelProblem, d: Decomposition) -> Floats:
    """Return precisions of the numbers of each table, up to one common factor, (J,), whose cost a search minimises.

    As in `trees.solve`, the search replaces the largest relative variance by norms with a growing exponent.

    Args:
        problem: The tables by levels of a tree.
        d: The tables in sectors.
    """
    tree, cells = problem.tree, np.sqrt(problem.relative / d.variances)

    def smoothed(y: Floats, norm: float) -> tuple[float, Floats]:
        # A common factor changes nothing, and this one keeps exp within doubles.
        w = np.exp(y - y.max())
        counts = [len(tree.counts[level]) for level in problem.level]
        values, moves = [np.zeros(n) for n in counts], [np.zeros((len(w), n)) for n in counts]
        for sector in problem.sectors:
            levels = problem.level[sector.tables]
            weights = np.zeros(sector.deep + 1)
            np.add.at(weights, levels, (w / cells)[sector.tables])
            value, slopes = tree.slopes(weights)
            for j, level in zip(sector.tables.tolist(), levels.tolist(), strict=True):
                values[j] += sector.weight * value[level] / problem.class_targets(j)
                moves[j][sector.tables] += (sector.weight / cells[sector.tables])[:, None] * (
                    slopes[level][levels] / problem.class_targets(j)
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
