"""Workloads without sectors, in row space: R with the Gram matrix RᵀR of the weighted queries, for projection.

**Statement.** If every attribute is structured, there is one sector, with an integer basis B (r, N) of the queries, and
W = L B. c_j is the target variance of number j. The weights w_j = (1/c_j)/mean(1/c) count a tight target more. Then

    R = T B,   T triangular,   TᵀT = Lᵀ diag(w) L,   so that ‖R x‖² = Σ_j w_j (W x)_j² for every x.

A weighted mean squared error of the m numbers is therefore a squared distance in row space over m.

**Rounded bases.** Real numbers of deficient rank are answered as queries W + E, close to the requested W.
`RowSpace.shift` is the root of Σ_j w_j max_e E_je², so that bounds can hold for the requested queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg as sl

from fitnoise.algebra import rules
from fitnoise.algebra.backends import NUMPY
from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats
from fitnoise.solving.sectors import Decomposition

CELLS_LIMIT = 4096
"""The largest number of cells of a database in row space."""

CHUNK = 2**22
"""The number of entries of the queries added to a triangle at once."""


@final
@dataclass(frozen=True, eq=False)
class RowSpace:
    """The queries of a workload in row space.

    rows: R (r, N).
    triangle: T (r, r), R = T B.
    numbers: m, the number of requested numbers.
    shift: (Σ_j w_j max_e E_je²)^½ for the shift E of the queries from the requested ones; 0 without a shift.
    """

    rows: Floats
    triangle: Floats
    numbers: int
    shift: float


def row_space(decomposition: Decomposition) -> RowSpace:
    """Return the queries of a workload in row space.

    Args:
        decomposition: A workload in sectors, without exchangeable attributes.

    Raises:
        WorkloadError: The workload has an exchangeable attribute or more than CELLS_LIMIT cells. Or the queries are
            dependent in floating point.

    **Guarantees**
        * ‖R x‖² = Σ_j w_j (W x)_j² holds up to rounding.
        * R has full row rank.
    """
    if decomposition.sizes or decomposition.cells > CELLS_LIMIT:
        raise WorkloadError(
            "too-many-cells-for-projection",
            f"The tables show attributes with {decomposition.cells:,} joint cells.",
            f"The projection mechanism takes at most {CELLS_LIMIT:,} joint cells.",
            "Coarsen an attribute, or show fewer attributes.",
            "Nothing was planned.",
        )
    (group,) = decomposition.groups
    basis = group.basis.astype(np.float64)
    mean = float((1 / decomposition.variances).mean())
    triangle, squared_shift = np.zeros((0, len(basis))), 0.0
    for m in group.members:
        tables = decomposition.tables[m.tables]
        weights = (1 / tables.variances).sum(axis=0) / mean
        if tables.row_shift is not None:
            squared_shift += float(weights @ tables.row_shift**2)
        if isinstance(m.lift, np.ndarray):
            scaled = np.sqrt(weights)[:, None] * m.lift
            step = max(1, CHUNK // scaled.shape[1])
            parts = [scaled[i : i + step] for i in range(0, len(scaled), step)]
        else:
            parts = [_root(rules.weighted_gram(m.lift, weights))]
        for part in parts:
            # A triangle of the rows so far replaces them, so that the memory holds one part at a time.
            triangle = np.atleast_2d(sl.qr(np.concatenate([triangle, part]), mode="r")[0][: len(basis)])
    sizes = np.abs(triangle.diagonal())
    if triangle.shape[0] < len(basis) or sizes.min() <= 1e-12 * sizes.max():
        raise WorkloadError(
            "queries-dependent",
            "The queries are dependent in floating point.",
            "",
            "Give the queries in whole numbers.",
            "Nothing was planned.",
        )
    return RowSpace(triangle @ basis, triangle, decomposition.rows, math.sqrt(squared_shift))


def _root(gram: Floats) -> Floats:
    """Return T with TᵀT = a Gram matrix, which is singular if a table alone does not determine every cell."""
    try:
        return np.asarray(sl.cholesky(gram))
    except sl.LinAlgError:
        return np.asarray(NUMPY.root(gram))
