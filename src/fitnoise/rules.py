"""What is known of an operator without multiplying it out: one table per question, one law per line.

A missing rule is an error that says so, never a silent dense fallback. Squared norms are returned,
since sensitivities and variances are squares.
"""

from __future__ import annotations

from functools import reduce, singledispatch

import numpy as np

from fitnoise import operators as op
from fitnoise.errors import WorkloadError
from fitnoise.operators import Array, Operator


def _no_rule(question: str, a: Operator) -> WorkloadError:
    return WorkloadError(f"there is no rule for the {question} of {type(a).__name__}; add one in rules.py.")


@singledispatch
def dense(a: Operator) -> Array:
    """The matrix itself, shape (m, n); integers where the queries are integers."""
    raise _no_rule("dense form", a)


@singledispatch
def gram(a: Operator) -> Array:
    """AᵀA, shape (n, n)."""
    raise _no_rule("Gram matrix", a)


@singledispatch
def column_norms(a: Operator) -> Array:
    """Σ_j A_ji² for each cell i, shape (n,): what one record in cell i moves, squared."""
    raise _no_rule("column norms", a)


@singledispatch
def row_norms(a: Operator) -> Array:
    """Σ_i A_ji² for each query j, shape (m,)."""
    raise _no_rule("row norms", a)


def _squarable(a: Operator) -> Array:
    """The matrix, in floating point where the squares of its integers could pass 64 bits."""
    m = dense(a)
    if m.dtype.kind == "i" and max(int(m.max()), -int(m.min())) ** 2 * max(m.shape) >= 2**62:
        return m.astype(np.float64)
    return m


# --- the matrix itself ------------------------------------------------------------------------------


@dense.register
def _(a: op.Dense) -> Array:
    return a.matrix


@dense.register(op.Identity)
@dense.register(op.Total)
@dense.register(op.Prefix)
@dense.register(op.Intervals)
@dense.register(op.Groups)
def _(a: Operator) -> Array:
    return a.mv(np.eye(a.shape[1], dtype=np.int64))  # A I = A


@dense.register
def _(a: op.Transpose) -> Array:
    return dense(a.of).T


@dense.register
def _(a: op.Kronecker) -> Array:
    return reduce(np.kron, (dense(f) for f in a.factors))


@dense.register
def _(a: op.Stack) -> Array:
    return np.concatenate([dense(p) for p in a.parts])


@dense.register
def _(a: op.Scaled) -> Array:
    return np.asarray(a.weights[:, None] * dense(a.of))


# --- Gram matrices ----------------------------------------------------------------------------------


@gram.register(op.Dense)
@gram.register(op.Transpose)
@gram.register(op.Groups)
@gram.register(op.Scaled)
def _(a: Operator) -> Array:
    m = _squarable(a)
    return np.asarray(m.T @ m)


@gram.register
def _(a: op.Identity) -> Array:
    return np.eye(a.n, dtype=np.int64)


@gram.register
def _(a: op.Total) -> Array:
    return np.ones((a.n, a.n), dtype=np.int64)


@gram.register
def _(a: op.Prefix) -> Array:
    i = np.arange(a.n)
    return np.asarray(a.n - np.maximum(i[:, None], i))  # rows at or after both cells


@gram.register
def _(a: op.Intervals) -> Array:
    # (AᵀA)_ij = number of intervals with lo ≤ min(i,j) and hi ≥ max(i,j): a two-dimensional cumulative count.
    starts = np.zeros((a.n, a.n), dtype=np.int64)
    ends = np.array(a.bounds)
    np.add.at(starts, (ends[:, 0], ends[:, 1]), 1)
    count = np.cumsum(np.cumsum(starts, axis=0)[:, ::-1], axis=1)[:, ::-1]
    i = np.arange(a.n)
    return np.asarray(count[np.minimum(i[:, None], i), np.maximum(i[:, None], i)])


@gram.register
def _(a: op.Kronecker) -> Array:
    return reduce(np.kron, (gram(f) for f in a.factors))  # (A⊗B)ᵀ(A⊗B) = AᵀA ⊗ BᵀB


@gram.register
def _(a: op.Stack) -> Array:
    return np.asarray(sum(gram(p) for p in a.parts))  # Σ AᵢᵀAᵢ


# --- squared column norms ---------------------------------------------------------------------------


@column_norms.register(op.Dense)
@column_norms.register(op.Scaled)
def _(a: Operator) -> Array:
    return np.asarray((_squarable(a) ** 2).sum(axis=0))


@column_norms.register
def _(a: op.Identity) -> Array:
    return np.ones(a.n, dtype=np.int64)


@column_norms.register
def _(a: op.Total) -> Array:
    return np.ones(a.n, dtype=np.int64)


@column_norms.register
def _(a: op.Prefix) -> Array:
    return np.arange(a.n, 0, -1)  # cell i is in the n − i sums that end at or after it


@column_norms.register(op.Intervals)
@column_norms.register(op.Groups)
def _(a: Operator) -> Array:
    return a.rmv(np.ones(a.shape[0], dtype=np.int64))  # entries are 0 or 1, so squares are the entries


@column_norms.register
def _(a: op.Kronecker) -> Array:
    return reduce(np.kron, (column_norms(f) for f in a.factors))


@column_norms.register
def _(a: op.Stack) -> Array:
    return np.asarray(sum(column_norms(p) for p in a.parts))


@column_norms.register
def _(a: op.Transpose) -> Array:
    return row_norms(a.of)


# --- squared row norms ------------------------------------------------------------------------------


@row_norms.register(op.Dense)
@row_norms.register(op.Scaled)
def _(a: Operator) -> Array:
    return np.asarray((_squarable(a) ** 2).sum(axis=1))


@row_norms.register
def _(a: op.Identity) -> Array:
    return np.ones(a.n, dtype=np.int64)


@row_norms.register
def _(a: op.Total) -> Array:
    return np.array([a.n])


@row_norms.register
def _(a: op.Prefix) -> Array:
    return np.arange(1, a.n + 1)


@row_norms.register(op.Intervals)
@row_norms.register(op.Groups)
def _(a: Operator) -> Array:
    return a.mv(np.ones(a.shape[1], dtype=np.int64))  # entries are 0 or 1


@row_norms.register
def _(a: op.Kronecker) -> Array:
    return reduce(np.kron, (row_norms(f) for f in a.factors))


@row_norms.register
def _(a: op.Stack) -> Array:
    return np.concatenate([row_norms(p) for p in a.parts])


@row_norms.register
def _(a: op.Transpose) -> Array:
    return column_norms(a.of)
