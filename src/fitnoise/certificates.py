"""Certificates: a value that is reached and a bound nothing can beat, both recomputed from the problem.

By strong duality, for any p on the cells and q on the published numbers (each summing to one),

    Δ*²  ≥  ( Σ_S mult_S ‖ diag(q/c)^½ R_S diag(p)^½ ‖_* )² ,      ‖·‖_* the sum of singular values,

R_S the stacked queries R_A / n_A of the tables that reach sector S. Whatever p and q are, the bound holds: a solver can
only make it weak, never wrong. No code is shared with the solvers.

For replace-one neighbours diag(p) is replaced, in every sector, by 2 (diag(p) − χ_S p pᵀ): the average of
(e_i − e_j)(e_i − e_j)ᵀ over pairs of records that differ in every exchangeable attribute and whose structured cells are
drawn from p independently. No maximum over pairs can be below an average; χ_S = Π_{a∈S} −1/(n_a − 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg as sl

from fitnoise.errors import PlanError
from fitnoise.privacy import Neighbours
from fitnoise.sectors import Decomposition, Floats

SLACK = 1e-12
"""Allowance for rounding, relative to a sector's sum of singular values before anything is subtracted: k ε is below
this to k = 4000."""


@final
@dataclass(frozen=True)
class Certificate:
    """Δ² of the plan and a lower bound on Δ² of every unbiased Gaussian linear mechanism with these targets.

    value: computed from the integers of the strategy. bound: from the dual weights. gap: value/bound − 1.
    """

    value: float
    bound: float

    def __post_init__(self) -> None:
        if not (0 < self.bound <= self.value * (1 + 1e-9) < float("inf")):
            raise PlanError(
                "a certificate needs 0 < bound ≤ value; the weights or the strategy are not what they claim to be."
            )

    @property
    def gap(self) -> float:
        """Relative gap, at least 0."""
        return max(self.value / self.bound - 1, 0.0)


def lower_bound(decomposition: Decomposition, p: Floats, q: Floats, neighbours: Neighbours) -> float:
    """The bound on Δ² for neighbours that differ in one record, from any weights.

    Args:
        decomposition: the problem.
        p: weights of the cells (n_o,), at least 0, not all 0; normalised here.
        q: weights of the published numbers (M,), likewise.
        neighbours: the relation.

    Raises:
        PlanError: weights that are negative, not finite, of the wrong shape or all zero.
    """
    for name, w, n in (("p", p, decomposition.cells), ("q", q, len(decomposition.variances))):
        if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any() or w.sum() <= 0:
            raise PlanError(f"dual weights {name} must be {n} numbers ≥ 0, not all 0; the plan proves nothing.")
    p, q = p / p.sum(), q / q.sum()
    share = np.sqrt(q / decomposition.variances)
    root = np.sqrt(p)
    pairs = neighbours is Neighbours.REPLACE_ONE
    nu = 0.0
    known: dict[tuple[tuple[int, ...], float], float] = {}
    for sector in decomposition.sectors:
        agreement = math.prod(-1 / (n - 1) for n in sector.sizes) if pairs else 0.0
        key = (sector.members, agreement)
        if key not in known:
            stacked = np.concatenate(
                [
                    share[layout.rows][:, None] * layout.queries / decomposition.table_cells(t)
                    for t in sector.members
                    for layout in (decomposition.layouts[t],)
                ]
            )
            weighted = stacked * root
            known[key] = _nuclear_norm(weighted)
            slack = SLACK * known[key]
            if agreement:  # D − χ ppᵀ = G Gᵀ with G = D^½ (I − (1 − √(1 − χ)) √p √pᵀ)
                known[key] = _nuclear_norm(weighted - (1 - math.sqrt(1 - agreement)) * np.outer(weighted @ root, root))
            known[key] = max(known[key] - slack, 0.0)
        nu += sector.multiplicity * known[key]
    return nu**2 * (2 if pairs else 1)


def _nuclear_norm(a: Floats) -> float:
    if min(a.shape) == 1:
        return float(np.sqrt((a**2).sum()))
    tall = a if len(a) >= a.shape[1] else a.T
    return float(sl.svdvals(sl.qr(tall, mode="r")[0][: tall.shape[1]]).sum())
