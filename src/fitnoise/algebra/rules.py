"""Quantities of an operator without its matrix: one table per quantity, one law per line.

A missing rule raises an error that names it, never a silent dense fallback. Norms are returned squared, since
sensitivities and variances are squares.
"""

from __future__ import annotations

from functools import reduce, singledispatch

import numpy as np

from fitnoise.algebra import operators as op
from fitnoise.algebra.operators import Operator
from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Array


def no_rule(question: str, a: Operator) -> WorkloadError:
    """Return the error for a quantity of an operator that has no rule.

    Args:
        question: The missing quantity, such as "dense form".
        a: The operator.
    """
    return WorkloadError(
        "operator-without-rule",
        f"There is no rule for the {question} of {type(a).__name__}.",
        "Planning needs this rule.",
        "Add the rule in fitnoise/algebra/rules.py, or use another operator.",
        "Nothing was planned.",
    )


PANEL = 64
"""The rows and columns that are transposed at once: a complete square would be read down its columns."""


@singledispatch
def dense(a: Operator) -> Array:
    """Return the matrix itself, shape (m, n); integers if the queries are integers."""
    raise no_rule("dense form", a)


@singledispatch
def gram(a: Operator) -> Array:
    """Return AᵀA, shape (n, n)."""
    raise no_rule("Gram matrix", a)


@singledispatch
def column_norms(a: Operator) -> Array:
    """Return Σ_j A_ji² for each cell i, shape (n,): the squared change that one record in cell i makes."""
    raise no_rule("column norms", a)


@singledispatch
def row_norms(a: Operator) -> Array:
    """Return Σ_i A_ji² for each query j, shape (m,)."""
    raise no_rule("row norms", a)


@singledispatch
def weighted_gram(a: Operator, w: Array) -> Array:
    """Return Aᵀ diag(w) A = Σ_j w_j a_j a_jᵀ, shapes (m, ...) → (n, n, ...) in floating point.

    a_j is the row of query j. The trailing axes of `w` number sets of weights. The map is the adjoint of
    :func:`row_variances`: ⟨Aᵀ diag(w) A, S⟩ = Σ_j w_j a_jᵀ S a_j.
    """
    raise no_rule("weighted Gram matrix", a)


@singledispatch
def row_variances(a: Operator, s: Array) -> Array:
    """Return a_jᵀ S a_j for each row a_j, shapes (n, n, ...) → (m, ...): the variances of A x for covariance S of x.

    The trailing axes of `s` number matrices. Only the symmetric part (S + Sᵀ)/2 of each counts. The rule subtracts no
    sum over cells outside a query, so the error is relative to Σ_ik |A_ji| |S_ik| |A_jk|.
    """
    raise no_rule("row variances", a)


def _squarable(a: Operator) -> Array:
    """Return the matrix, in floating point if the squares of its integers could pass 64 bits."""
    m = dense(a)
    if m.dtype.kind == "i" and max(int(m.max()), -int(m.min())) ** 2 * max(m.shape) >= 2**62:
        return m.astype(np.float64)
    return m


def _like(w: Array, t: Array) -> Array:
    """Return one number per entry of the first axis, shaped to multiply `t`."""
    return w.reshape(-1, *(1,) * (t.ndim - 1))


def _upper(t: Array) -> Array:
    """Return a mask of the cells i ≤ j of a square, shaped to select from `t` (n, n, ...)."""
    n = len(t)
    return np.tri(n, dtype=np.bool_).T.reshape(n, n, *(1,) * (t.ndim - 2))


def _folded(s: Array) -> Array:
    """Return the upper triangular U with xᵀU x = xᵀS x."""
    n, i = len(s), np.arange(len(s))
    u = np.zeros(s.shape)
    for start in range(0, n, PANEL):
        stop = start + PANEL
        u[start:stop, start:] = s[start:stop, start:] + s[start:, start:stop].swapaxes(0, 1)
        block = u[start:stop, start:stop]
        block[...] = np.where(_upper(block), block, 0.0)
    u[i, i] = s[i, i]
    return u


def _mirrored(s: Array) -> Array:
    """Return the symmetric matrix with the upper triangle of S, in place."""
    for start in range(0, len(s), PANEL):
        stop = start + PANEL
        block = s[start:stop, start:stop]
        block[...] = np.where(_upper(block), block, block.swapaxes(0, 1))
        s[start:stop, :start] = s[:start, start:stop].swapaxes(0, 1)
    return s


def _covering(starts: Array) -> Array:
    """Return the sum of the numbers at (first, last) with first ≤ min(i,j) and last ≥ max(i,j), for all i, j, in place.

    starts: The numbers, (n, n, …), 0 below the diagonal.
    """
    # NumPy's sums over the first axis go down the columns, which takes three times as long as these rows.
    for i in range(1, len(starts)):
        starts[i, i:] += starts[i - 1, i:]
    backwards = starts[:, ::-1]
    np.cumsum(backwards, axis=1, out=backwards)
    return _mirrored(starts)


# --- the matrix itself ------------------------------------------------------------------------------


@dense.register
def _(a: op.Dense) -> Array:
    return a.matrix


@dense.register(op.Identity)
@dense.register(op.Total)
@dense.register(op.Prefix)
@dense.register(op.Intervals)
@dense.register(op.Groups)
@dense.register(op.Averages)
@dense.register(op.Differences)
def _(a: Operator) -> Array:
    return a.mv(np.eye(a.shape[1], dtype=np.int64))  # A I = A


@dense.register
def _(a: op.Transpose) -> Array:
    return dense(a.operand).T


@dense.register
def _(a: op.Kronecker) -> Array:
    return reduce(np.kron, (dense(f) for f in a.factors))


@dense.register
def _(a: op.Stack) -> Array:
    return np.concatenate([dense(p) for p in a.parts])


@dense.register
def _(a: op.Scaled) -> Array:
    return np.asarray(a.weights[:, None] * dense(a.unscaled))


# --- Gram matrices ----------------------------------------------------------------------------------


@gram.register(op.Dense)
@gram.register(op.Transpose)
@gram.register(op.Groups)
@gram.register(op.Scaled)
@gram.register(op.Averages)
@gram.register(op.Differences)
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
    lo, hi = a.ends
    return _covering(np.bincount(lo * a.n + hi - 1, minlength=a.n**2).reshape(a.n, a.n))  # intervals holding i and j


@gram.register
def _(a: op.Kronecker) -> Array:
    return reduce(np.kron, (gram(f) for f in a.factors))  # (A⊗B)ᵀ(A⊗B) = AᵀA ⊗ BᵀB


@gram.register
def _(a: op.Stack) -> Array:
    return np.asarray(sum(gram(p) for p in a.parts))  # Σ AᵢᵀAᵢ


# --- squared column norms ---------------------------------------------------------------------------


@column_norms.register(op.Dense)
@column_norms.register(op.Scaled)
@column_norms.register(op.Averages)
@column_norms.register(op.Differences)
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
    return row_norms(a.operand)


# --- squared row norms ------------------------------------------------------------------------------


@row_norms.register(op.Dense)
@row_norms.register(op.Scaled)
@row_norms.register(op.Averages)
@row_norms.register(op.Differences)
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
    return column_norms(a.operand)


# --- weighted Gram matrices -------------------------------------------------------------------------


@weighted_gram.register(op.Dense)
@weighted_gram.register(op.Transpose)
def _(a: Operator, w: Array) -> Array:
    m = dense(a).astype(np.float64)
    return np.tensordot(m, m.reshape(*m.shape, *(1,) * (w.ndim - 1)) * w[:, None], axes=(0, 0))


@weighted_gram.register
def _(a: op.Identity, w: Array) -> Array:
    i = np.arange(a.n)
    out = np.zeros((a.n, *w.shape))
    out[i, i] = w
    return out


@weighted_gram.register
def _(a: op.Total, w: Array) -> Array:
    return np.broadcast_to(w, (a.n, a.n, *w.shape[1:])).copy()


@weighted_gram.register
def _(a: op.Prefix, w: Array) -> Array:
    i = np.arange(a.n)
    return np.asarray(a.rmv(w)[np.maximum(i[:, None], i)])  # Σ w over the rows at or after both cells


@weighted_gram.register
def _(a: op.Intervals, w: Array) -> Array:
    (lo, hi), k = a.ends, w.size // len(w)
    index = (lo * a.n + hi - 1)[:, None] * k + np.arange(k)
    starts = np.bincount(index.ravel(), weights=w.ravel(), minlength=a.n**2 * k)
    return _covering(starts.reshape(a.n, a.n, *w.shape[1:]))


@weighted_gram.register
def _(a: op.Averages, w: Array) -> Array:
    return weighted_gram(a.unscaled, w / _like(a.widths**2, w))


@weighted_gram.register
def _(a: op.Differences, w: Array) -> Array:
    one, other = a.ends
    out = np.zeros((a.n, a.n, *w.shape[1:]))
    for i, j, x in ((one, one, w), (other, other, w), (one, other, -w), (other, one, -w)):
        # Pairs can share a cell, so entries must add up.
        np.add.at(out, (i, j), x)
    return out


@weighted_gram.register
def _(a: op.Groups, w: Array) -> Array:
    out = np.zeros((a.n, a.n, *w.shape[1:]))
    for value, g in zip(w, a.groups, strict=True):
        out[np.ix_(g, g)] += value
    return out


@weighted_gram.register
def _(a: op.Kronecker, w: Array) -> Array:
    k, n = len(a.factors), a.shape[1]
    t = w.reshape(*(f.shape[0] for f in a.factors), *w.shape[1:])
    for axis, f in enumerate(a.factors):  # axes: the i done, the queries left, the j done (last first), the batch
        t = np.moveaxis(weighted_gram(f, np.moveaxis(t, axis, 0)), (0, 1), (axis, k))
    forward, backward = tuple(range(k)), tuple(range(2 * k - 1, k - 1, -1))
    return t.transpose(*forward, *backward, *range(2 * k, t.ndim)).reshape(n, n, *w.shape[1:])


@weighted_gram.register
def _(a: op.Stack, w: Array) -> Array:
    splits = np.cumsum([p.shape[0] for p in a.parts])[:-1]
    return np.asarray(sum(weighted_gram(p, piece) for p, piece in zip(a.parts, np.split(w, splits), strict=True)))


@weighted_gram.register
def _(a: op.Scaled, w: Array) -> Array:
    return weighted_gram(a.unscaled, _like(a.weights**2, w) * w)


# --- row variances ----------------------------------------------------------------------------------


@row_variances.register(op.Dense)
@row_variances.register(op.Transpose)
def _(a: Operator, s: Array) -> Array:
    m = dense(a).astype(np.float64)
    return np.asarray(np.einsum("jk,jk...->j...", m, np.tensordot(m, s, axes=(1, 0))))


@row_variances.register
def _(a: op.Identity, s: Array) -> Array:
    i = np.arange(a.n)
    return np.asarray(s[i, i])


@row_variances.register
def _(a: op.Total, s: Array) -> Array:
    return np.asarray(s.sum(axis=(0, 1))[None])


@row_variances.register
def _(a: op.Prefix, s: Array) -> Array:
    return a.mv(_folded(s).sum(axis=0))  # one cell more adds its column, down to the diagonal


@row_variances.register
def _(a: op.Intervals, s: Array) -> Array:
    # a_jᵀU a_j = Σ U_ik over i ≥ lo and k ≤ hi, since U vanishes below its diagonal: nothing to subtract.
    (lo, hi), u = a.ends, _folded(s)
    for i in range(len(u) - 2, -1, -1):
        u[i, i + 1 :] += u[i + 1, i + 1 :]
    np.cumsum(u, axis=1, out=u)
    return np.asarray(u[lo, hi - 1])


@row_variances.register
def _(a: op.Averages, s: Array) -> Array:
    variances = row_variances(a.unscaled, s)
    return np.asarray(variances / _like(a.widths**2, variances))


@row_variances.register
def _(a: op.Differences, s: Array) -> Array:
    one, other = a.ends
    return np.asarray(s[one, one] + s[other, other] - s[one, other] - s[other, one])


@row_variances.register
def _(a: op.Groups, s: Array) -> Array:
    return np.stack([s[np.ix_(g, g)].sum(axis=(0, 1)) for g in a.groups])


@row_variances.register
def _(a: op.Kronecker, s: Array) -> Array:
    k, n = len(a.factors), [f.shape[1] for f in a.factors]
    t = s.reshape(*n, *n, *s.shape[2:])
    for axis, f in enumerate(a.factors):  # axes: the queries done, the i left, the j left, the batch
        t = np.moveaxis(row_variances(f, np.moveaxis(t, (axis, k), (0, 1))), 0, axis)
    return t.reshape(-1, *s.shape[2:])


@row_variances.register
def _(a: op.Stack, s: Array) -> Array:
    return np.concatenate([row_variances(p, s) for p in a.parts])


@row_variances.register
def _(a: op.Scaled, s: Array) -> Array:
    v = row_variances(a.unscaled, s)
    return _like(a.weights**2, v) * v
