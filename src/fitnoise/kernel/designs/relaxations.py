"""What no set of places costs more than, where there are too many sets to look at. Part of the trust kernel.

Places x ∈ {0, 1}ⁿ, at most g of them, cost xᵀXx, X a symmetric matrix of whole numbers. With z = (1, x), and for any
whole numbers y of either sign and ℓ ≥ 0,

    xᵀXx = Σ y + 2ℓ Σ x − ℓn − zᵀNz,    N = [[Σ y − ℓn, (ℓ − 2y)ᵀ], [ℓ − 2y, 4 diag(y) − X]],

where Σ y has a term y₀ of its own, as 4 y_i (x_i² − x_i) = 0. For any whole numbers L, zᵀLLᵀz ≥ 0, so that

    xᵀXx ≤ Σ y + ℓ (2g − n) + Σ_ij |N − LLᵀ|_ij:

the least of it is Shor's relaxation, with LLᵀ = N. Which y, ℓ and L are tried is found in floating point, and need not
be believed: any are right, and exact whole numbers say what they are worth. A part of 2²⁰ is added, so that others who
look for such numbers prove the same. Beside it stands a bound by blocks: for any γ, and any β of each block of places,

    xᵀXx ≤ γ m² + Σ_b β_b m_b² + Σ_i a_i x_i,    a_i = R_ii + Σ_{j≠i} max(R_ij, 0),    R = X − γ 11ᵀ − ⊕_b β_b 11ᵀ,

m_b places in block b and m in all of them: the largest over all m_b is found exactly, one block after the other.
Where places of a block are alike, and blocks are, R has nothing beside its diagonal, and it is attained.

Where both are above a set that is known, sets are built up place by place, and given up as soon as they cannot be the
dearest. A set of places C, and of k later ones D at most, costs

    v(C) + Σ_{j∈D} (a_j + Σ_{l∈D∖j} X_jl) ≤ v(C) + the k largest max(b_j, 0),    a_j = X_jj + 2 Σ_{c∈C} X_jc,

b_j = a_j and the k − 1 largest max(X_jl, 0) of l ≠ j after C: where that is no more than a set that is known, nothing
beyond C is looked at. What is left is the dearest set, exact for X in fewer digits, rounded up.

Floating point is done entry by entry, never by a library's sums: the same numbers on every machine, and the same price.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.arrays import Exact, Floats, Integers
from fitnoise.kernel.designs.parts import exact_matmul
from fitnoise.kernel.designs.ways import tops

MOST_PLACES = 2**8
"""Places of which sets are bounded, in seconds."""

BITS = 80
"""Of the whole numbers that are bounded in place of larger ones, rounded up."""

HALF = 22
"""Bits of the lower half of an entry of L, which has about half as many as those of N."""

STEPS = 200
"""Of the way to the least bound: twice as many as are needed."""

CLOSER = 0.1
"""How much nearer to it the barrier lets go, each time."""

NEAR = 2.0**-36
"""Where the way ends: how far from it, relative to the largest entry of X."""

ROOM = 20
"""Bits of the part that is added."""

LARGEST = 2.0**20
"""Of what floating point finds: in 64 bits there is room for no more of L."""

DIGITS = 40
"""Bits of the whole numbers of which sets are built up: 64 hold all their sums."""

MOST_BRANCHED = 2**7
"""Places of which sets are built up."""

BRANCHES = 2**19
"""Sets that are built up at most, in a second or two."""

TOGETHER = 2**23
"""Numbers that are held for them at once."""

WORTH = 12
"""Bits of the part by which the bounds must be above a set that is known, for others to be built up."""

PARTS = tuple(2.0**-i for i in range(12))
"""Of a step that are tried, so that it stays inside."""


def at_most(x: Exact, together: NDArray[np.bool_], most: int) -> int | None:
    """No less than Σ_{i,j∈τ} x_ij for all sets τ of 1 to `most` places of which any two go together.

    Args:
        x: symmetric (n, n), n ≥ 1, Python integers; where two places do not go together it does not matter.
        together: symmetric (n, n), likewise.
        most: at least 1.

    **Guarantees**
        * no set costs more, whatever was found in floating point;
        * the same number on every machine; None of more than `MOST_PLACES`.
    """
    n, most = len(x), min(most, len(x))
    if n > MOST_PLACES:
        return None
    here = np.eye(n, dtype=bool)
    own = x.diagonal()
    x = np.where(together | here, x, -(own[:, None] + own))
    more = int(abs(x).max()).bit_length() - BITS
    whole = -(-x >> more) if more > 0 else x << -more
    found = min(*_by_blocks(whole, most), _relaxed(whole, most))
    if n <= MOST_BRANCHED:
        few = (-(-whole >> BITS - DIGITS)).astype(np.int64)
        known = _climbed(few, most)
        if known + (known >> WORTH) < found >> BITS - DIGITS:
            dearest = _branched(few, most, known)
            found = found if dearest is None else min(found, dearest << BITS - DIGITS)
    return found << more if more > 0 else found >> -more


def _climbed(x: Integers, most: int) -> int:
    """What some set of places costs: the best of those that are had by adding the dearest to each place, and so on."""
    best = int(x.diagonal().max())
    for first in range(len(x)):
        inside, value = np.arange(len(x)) == first, int(x[first, first])
        for _ in range(most - 1):
            gains = np.where(inside, np.iinfo(np.int64).min, x.diagonal() + 2 * x[:, inside].sum(axis=1))
            place = int(gains.argmax())
            inside[place], value = True, value + int(gains[place])
            best = max(best, value)
    return best


def _branched(x: Integers, most: int, known: int) -> int | None:
    """The largest Σ_{i,j∈τ} x_ij over all sets τ of 1 to `most` places, or `known`; None of too many that may be it.

    x: symmetric (n, n), below 2⁴⁰ in size. known: what some set costs.
    """
    n = len(x)
    beside = np.where(np.eye(n, dtype=bool), 0, np.maximum(x, 0))
    top, later = tops(beside)
    value, gains, begin, left = np.zeros(1, dtype=np.int64), x.diagonal()[None], np.zeros(1, dtype=np.intp), BRANCHES
    for more in reversed(range(most)):
        parents, last = np.nonzero(later[begin])
        left -= len(parents)
        if left < 0 or len(parents) * n > TOGETHER:
            return None
        value = value[parents] + gains[parents, last]
        known = int(value.max(initial=known))
        if more:
            gains = gains[parents] + 2 * x[last]
            own = np.where(later[last + 1], np.maximum(gains + top[last + 1, :, more - 1], 0), 0)
            largest = -np.sort(-own, axis=1)[:, :more]
            alive = value + largest.sum(axis=1) > known
            value, gains, begin = value[alive], gains[alive], last[alive] + 1
    return known


def _by_blocks(x: Exact, most: int) -> Iterator[int]:
    """The bounds of blocks of places that follow each other, for every length that divides them all alike."""
    n, here = len(x), np.eye(len(x), dtype=bool)
    total = int(x.sum() - x.trace())
    for length in (k for k in range(1, n + 1) if n % k == 0):
        own = x.reshape(n // length, length, n // length, length).sum(axis=(1, 3)).diagonal()
        own = own - x.diagonal().reshape(-1, length).sum(axis=1)
        across = (total - int(own.sum())) // max(n * (n - length), 1)
        level = own // max(length * (length - 1), 1) - across
        rest = x - across - np.kron(np.diag(level), np.ones((length, length), dtype=object))
        alone = np.where(here, rest, np.maximum(rest, 0)).sum(axis=1).reshape(-1, length)
        best = [0]
        for beta, costs in zip(level.tolist(), np.sort(alone, axis=1)[:, ::-1].tolist(), strict=True):
            sums = [0, *itertools.accumulate(costs)]
            best = _joined(best, [beta * m * m + s for m, s in enumerate(sums)], most)
        yield max(across * m * m + value for m, value in enumerate(best) if m)


def _joined(one: list[int], other: list[int], most: int) -> list[int]:
    """The largest sum of an entry of each whose places add up to m, for m = 0, 1, …, at most `most`."""
    last = min(len(one) + len(other) - 2, most)
    places = (range(max(0, m - len(one) + 1), min(m, len(other) - 1) + 1) for m in range(last + 1))
    return [max(one[m - k] + other[k] for k in some) for m, some in enumerate(places)]


def _relaxed(x: Exact, most: int) -> int:
    """Shor's bound, proven for whole numbers of `BITS` bits; it holds of no place too, so that it is not below 0."""
    n = len(x)
    with np.errstate(all="ignore"):
        found = _finite(_multipliers(x.astype(np.float64) * 2.0**-BITS, most))
    *y, free = (int(v * 2**BITS) for v in found.tolist())
    free = max(free // 2, 0)
    matrix = np.diag(np.array([sum(y) - free * n, *(4 * v for v in y[1:])], dtype=object))
    matrix[1:, 1:] -= x
    matrix[0, 1:] = matrix[1:, 0] = [free - 2 * v for v in y[1:]]
    with np.errstate(all="ignore"):
        near = _finite(_triangle(matrix.astype(np.float64) * 2.0**-BITS))
    root = np.rint(near * 2.0 ** (BITS // 2)).astype(np.int64)
    least = sum(y) + free * (2 * most - n) + int(abs(matrix - _square(root)).sum())
    return least + (least >> ROOM)


def _square(root: NDArray[np.int64]) -> Exact:
    """L Lᵀ, exact, by two halves of each entry."""
    high, low = root >> HALF, root & 2**HALF - 1
    cross = exact_matmul(high, low.T).astype(object)
    both = exact_matmul(high, high.T).astype(object) * 4**HALF + exact_matmul(low, low.T).astype(object)
    return np.asarray(both + (cross + cross.T) * 2**HALF)


def _multipliers(x: Floats, most: int) -> Floats:
    """Numbers y and 2ℓ near the least bound, by Newton's steps inside a barrier.

    In s = 2x − 1 and λ = 2ℓ it is Σ y + λ (g − n/2) where Z = diag(y) − Q + λK is positive semidefinite: Q such that
    (1, s)ᵀQ(1, s) = xᵀXx, and K of ¼ in the first row and column, but 0 in both. y and λ > 0 minimise that over μ, less
    log λ det Z, for μ that goes to 0.
    """
    n = len(x)
    rows = _total(x)
    q, k = np.zeros((2, n + 1, n + 1))
    q[1:, 1:], q[0, 1:], q[1:, 0], q[0, 0] = x / 4, rows / 4, rows / 4, _total(rows) / 4
    k[0, 1:] = k[1:, 0] = 0.25

    def slack(at: Floats) -> Floats:
        return np.asarray(np.diag(at[:-1]) - q + at[-1] * k)

    def inside(at: Floats) -> bool:
        return bool(at[-1] > 0 and _triangle(slack(at)).diagonal().all())

    weight = max(float(abs(q).max()), NEAR)
    at = np.append(_total(abs(q) + weight * k) + weight, weight)
    aim = np.append(np.ones(n + 1), most - n / 2)
    for _ in range(STEPS):
        inverse = _inverse(slack(at))
        first, others = inverse[0], _total(inverse[1:])
        hessian = np.empty((n + 2, n + 2))
        hessian[:-1, :-1] = inverse * inverse
        hessian[-1, :-1] = hessian[:-1, -1] = first * others / 2
        hessian[-1, -1] = (first[0] * _total(others[1:]) + others[0] * others[0]) / 8 + at[-1] ** -2
        slope = aim / weight - np.append(inverse.diagonal(), others[0] / 2 + 1 / at[-1])
        step = -_total(_inverse(hessian) * slope[:, None])
        far = -float(_total(slope * step))
        part = next((x for x in PARTS if inside(at + x * step)), 0.0)
        if part == 0 or (far < 1 and n * weight < NEAR):
            break
        at = at + 0.9 * part * step
        weight *= CLOSER if far < 1 else 1
    return at


def _finite(x: Floats) -> Floats:
    """Numbers that can be made whole, whatever they are."""
    return np.clip(np.nan_to_num(x), -LARGEST, LARGEST)


def _total(x: Floats) -> Floats:
    """Sums along the first axis, one after the other."""
    return np.asarray(np.add.accumulate(x, axis=0)[-1])


def _inverse(a: Floats) -> Floats:
    """Of a positive definite matrix."""
    a = a.copy()
    for k in range(len(a)):
        pivot, column = a[k, k], a[:, k].copy()
        row = a[k] / pivot
        a -= column[:, None] * row
        a[k], a[:, k] = row, -column / pivot
        a[k, k] = 1 / pivot
    return a


def _triangle(a: Floats) -> Floats:
    """L with LLᵀ = A, of a positive definite matrix; of any other some columns are 0."""
    a = a.copy()
    for k in range(len(a)):
        column = a[k:, k] / math.sqrt(a[k, k]) if a[k, k] > 0 else 0 * a[k:, k]
        a[k:, k] = column
        a[k + 1 :, k + 1 :] -= column[1:, None] * column[1:]
    return np.tril(a)
