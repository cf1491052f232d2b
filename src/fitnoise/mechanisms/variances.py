"""Variances of the numbers of tables, from the covariances of their sectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fitnoise.algebra.operators import Operator
from fitnoise.kernel.arrays import Floats
from fitnoise.solving.sectors import Decomposition

CHUNK = 2**24
"""Largest number of entries of a tall table's product with A⁻¹ in memory."""

STRUCTURED_ENTRIES_PER_BATCH = 2**18
"""Largest number of entries of that product for a table by structure, which is summed as it is computed. A block that
fits the processor's cache is several times faster."""


def variances_of(decomposition: Decomposition, whiteners: Sequence[Floats]) -> Floats:
    """Return the variances of all table rows from the whiteners of the sectors, (K, k, k) by group."""
    out = np.zeros(decomposition.rows)
    for group, whitened in zip(decomposition.groups, whiteners, strict=True):
        # Π n_a⁻² over the attributes of a table outside S is n_S²/n_A².
        weight = (1 - 1 / group.sizes).prod(axis=1) * group.volume**2
        for m in group.members:
            tables = decomposition.tables[m.tables]
            contributions = m.incidence.T @ (weight[:, None] * _row_squares(m.lift, whitened))
            out[tables.numbers] += contributions / tables.cells[:, None] ** 2
    return out


def rows_of(decomposition: Decomposition, factor: Floats) -> Floats:
    """Return Σ_c (W F)_jc² for every table row j (M,): W is the tables over a single sector's basis, and F (r, c)."""
    out = np.zeros(decomposition.rows)
    (group,) = decomposition.groups
    for m in group.members:
        out[decomposition.tables[m.tables].numbers] += _row_squares(m.lift, factor[None])[0]
    return out


def _row_squares(a: Floats | Operator, b: Floats) -> Floats:
    """Return Σ_c (A B)_jc² for every row j and every B of a stack, (K, m), in batches of matrices or of columns."""
    m, k = a.shape
    if isinstance(a, np.ndarray):
        step = max(1, CHUNK // (m * k))
        with np.errstate(over="ignore"):  # only a damaged plan exceeds doubles, and it meets no target
            return np.concatenate([((a @ b[i : i + step]) ** 2).sum(axis=2) for i in range(0, len(b), step)])
    out, step = np.zeros((len(b), m)), max(1, STRUCTURED_ENTRIES_PER_BATCH // m)
    for i, x in enumerate(b):
        for c in range(0, k, step):
            batch = a.mv(np.ascontiguousarray(x[:, c : c + step]))
            out[i] += np.einsum("jc,jc->j", batch, batch)
    return out
