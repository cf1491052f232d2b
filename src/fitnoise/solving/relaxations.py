"""Bound the cost of every set of places where there are too many sets to compare, with witnesses of the bounds.

**Symbols.** A set of at most g places is x ∈ {0, 1}ⁿ. Its cost is xᵀXx, X a symmetric integer matrix.

**Shor's bound.** Let z = (1, x). For any integers y of either sign and ℓ ≥ 0,

    xᵀXx = Σ y + 2ℓ Σ x − ℓn − zᵀNz,    N = [[Σ y − ℓn, (ℓ − 2y)ᵀ], [ℓ − 2y, 4 diag(y) − X]].

Σ y has a term y₀ of its own, as 4 y_i (x_i² − x_i) = 0. For any integer matrix L, zᵀLLᵀz ≥ 0, so that

    xᵀXx ≤ Σ y + ℓ (2g − n) + Σ_ij |N − LLᵀ|_ij.

The least such bound is Shor's relaxation, with LLᵀ = N. Floating point finds y, ℓ and L. Any values prove
their bound. The module adds the 2²⁰-th part of the bound, so that others who search for such numbers prove the same
bound.

**Bound by blocks.** For any γ, and any β of each block of places,

    xᵀXx ≤ γ m² + Σ_b β_b m_b² + Σ_i a_i x_i,    a_i = R_ii + Σ_{j≠i} max(R_ij, 0),    R = X − γ 11ᵀ − ⊕_b β_b 11ᵀ,

with m_b places in block b and m in all of them. The module finds the largest value over all m_b exactly, one block
after the other. If the places of a block are interchangeable, and blocks are, R is diagonal, and the bound is attained.

**Branch and bound.** The module builds sets place by place if both bounds exceed the cost of a known set by more than
its 2¹²-th part. There may be up to `MAX_BRANCHED_PLACES` places. It discards a set as soon as the set cannot be the
costliest. A set of places C of cost v(C), with at most k later places D, costs

    v(C) + Σ_{j∈D} (a_j + Σ_{l∈D∖j} X_jl) ≤ v(C) + the k largest max(b_j, 0),    a_j = X_jj + 2 Σ_{c∈C} X_jc.

b_j is a_j plus the k − 1 largest max(X_jl, 0) of l ≠ j after C. If this bound is at most the cost of a known set, the
module examines nothing beyond C. The result is the cost of the costliest set, exact for X in fewer digits, rounded up.
There is no result if too many sets would be built (`BRANCHES`, `MAX_NUMBERS_HELD`).

**Trust.** The kernel checks each of the three bounds again (`kernel.designs.witness`).

**Portability.** Floating point works entry by entry, never by a library's sums. So every machine computes the same
numbers and the same price.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fitnoise.kernel.arrays import Exact, Floats, Integers
from fitnoise.kernel.designs.query_blocks import exact_matmul
from fitnoise.kernel.designs.witness import Blocks, Closed, Multipliers, Witness
from fitnoise.solving.moving_records import tops

MAX_PLACES = 2**8
"""The largest number of places whose sets are bounded: it takes seconds."""

BITS = 80
"""The number of bits of the integers that are bounded in place of larger ones, rounded up."""

HALF = 22
"""The number of bits of the lower half of an entry of L, which has about half as many as those of N."""

STEPS = 200
"""The largest number of steps towards the least bound: twice as many as needed."""

BARRIER_FACTOR = 0.1
"""The factor by which the weight of the barrier falls each time."""

RELATIVE_TOLERANCE = 2.0**-36
"""The distance to the least bound at which the search ends, relative to the largest entry of X."""

SURCHARGE_BITS = 20
"""The number of bits by which the added part is smaller than the bound."""

LARGEST = 2.0**20
"""The largest number that floating point may find: 64 bits have no room for a larger L."""

DIGITS = 40
"""The number of bits of the integers of which sets are built up: 64 bits hold all their sums."""

MAX_BRANCHED_PLACES = 2**7
"""The largest number of places of which sets are built up."""

BRANCHES = 2**19
"""The largest number of sets that are built up, in a second or two."""

MAX_NUMBERS_HELD = 2**23
"""The largest number of values that are held for sets at once."""

MIN_GAIN_BITS = 12
"""The exponent of the part by which the bounds must exceed a known set before sets are built up."""

STEP_FACTORS = tuple(2.0**-i for i in range(12))
"""The parts of a step that are tried, so that the step stays inside the barrier."""


def bounds(x: Exact, compatible: NDArray[np.bool_], max_size: int, parts: int = 1) -> list[tuple[int, Witness]]:
    """Return bounds on Σ_{i,j∈τ} x_ij for all sets τ of pairwise compatible places, with witnesses.

    Args:
        x: The costs, symmetric, (n, n), n ≥ 1, Python integers. Entries of incompatible places are ignored.
        compatible: True for compatible places, symmetric, (n, n).
        max_size: The largest number of places of a set in each part, at least 1.
        parts: The number of parts of equally many places, one after the other.

    Returns:
        The bounds, smallest first; none above `MAX_PLACES`.

    **Guarantees**
        * No set costs more, for any result of floating point.
        * Every machine returns the same numbers.
    """
    n, max_size = len(x), min(max_size, len(x) // parts)
    if n > MAX_PLACES:
        return []
    diagonal = x.diagonal()
    # No set has two incompatible places, so their entries may have any value. Low ones keep the bound low.
    x = np.where(compatible | np.eye(n, dtype=bool), x, -np.maximum(diagonal[:, None], diagonal))
    # Small costs are scaled up, because L is rounded to integers.
    shift = int(abs(x).max()).bit_length() - BITS
    # Fewer digits, rounded up, so that the result stays a bound.
    scaled = -(-x >> shift) if shift > 0 else x << -shift
    results: list[tuple[int, Witness]] = [
        (bound, Blocks(length, across, levels, shift))
        for bound, (length, across, levels) in _by_blocks(scaled, max_size, parts)
    ]
    bound, (y, free, root) = _relaxed(scaled, max_size * parts)
    results.append((bound, Multipliers(y, free, root, shift)))
    if n <= MAX_BRANCHED_PLACES and parts == 1:
        few = (-(-scaled >> BITS - DIGITS)).astype(np.int64)
        lower_bound = _climbed(few, max_size)
        if lower_bound + (lower_bound >> MIN_GAIN_BITS) < min(b for b, _ in results) >> BITS - DIGITS:
            branched = _branched(few, max_size, lower_bound)
            results += [] if branched is None else [(branched << BITS - DIGITS, Closed())]
    return sorted(((b << shift if shift > 0 else b >> -shift, w) for b, w in results), key=lambda pair: pair[0])


def _climbed(x: Integers, max_size: int) -> int:
    """Return the cost of some set of places: the best of those built greedily, each by adding the costliest place."""
    best = int(x.diagonal().max())
    for start in range(len(x)):
        inside, value = np.arange(len(x)) == start, int(x[start, start])
        for _ in range(max_size - 1):
            gains = np.where(inside, np.iinfo(np.int64).min, x.diagonal() + 2 * x[:, inside].sum(axis=1))
            index = int(gains.argmax())
            inside[index], value = True, value + int(gains[index])
            best = max(best, value)
    return best


def _branched(x: Integers, max_size: int, lower_bound: int) -> int | None:
    """Return the largest Σ_{i,j∈τ} x_ij over all sets τ of 1 to `max_size` places, or `lower_bound` if that is larger.

    Args:
        x: The costs, symmetric, (n, n), below 2⁴⁰ in size.
        max_size: The largest number of places in a set.
        lower_bound: The cost of some set.

    Returns:
        The largest cost; None if too many sets may have it.
    """
    n = len(x)
    pair_gains = np.where(np.eye(n, dtype=bool), 0, np.maximum(x, 0))
    top, later = tops(pair_gains)
    value, gains, begin, budget = np.zeros(1, dtype=np.int64), x.diagonal()[None], np.zeros(1, dtype=np.intp), BRANCHES
    for remaining in reversed(range(max_size)):
        parents, last = np.nonzero(later[begin])
        budget -= len(parents)
        if budget < 0 or len(parents) * n > MAX_NUMBERS_HELD:
            return None
        value = value[parents] + gains[parents, last]
        lower_bound = int(value.max(initial=lower_bound))
        if remaining:
            gains = gains[parents] + 2 * x[last]
            potential = np.where(later[last + 1], np.maximum(gains + top[last + 1, :, remaining - 1], 0), 0)
            largest = -np.sort(-potential, axis=1)[:, :remaining]
            # A set that cannot become the costliest is discarded, with everything beyond.
            alive = value + largest.sum(axis=1) > lower_bound
            value, gains, begin = value[alive], gains[alive], last[alive] + 1
    return lower_bound


def _by_blocks(x: Exact, max_size: int, parts: int = 1) -> Iterator[tuple[int, tuple[int, int, tuple[int, ...]]]]:
    """Yield the bounds by blocks of consecutive places, for every length that divides each part into equal blocks.

    Each bound comes with the length, γ and all β.
    """
    n, here = len(x), np.eye(len(x), dtype=bool)
    total = int(x.sum() - x.trace())
    for length in (k for k in range(1, n // parts + 1) if n // parts % k == 0):
        block_sums = x.reshape(n // length, length, n // length, length).sum(axis=(1, 3)).diagonal()
        block_sums = block_sums - x.diagonal().reshape(-1, length).sum(axis=1)
        # Any γ and β prove a bound. Means of the entries leave small remainders R.
        across = (total - int(block_sums.sum())) // max(n * (n - length), 1)
        level = block_sums // max(length * (length - 1), 1) - across
        rest = x - across - np.kron(np.diag(level), np.ones((length, length), dtype=object))
        row_costs = np.where(here, rest, np.maximum(rest, 0)).sum(axis=1).reshape(-1, length)
        best, in_part, each = [0], [0], n // (length * parts)
        for b, (beta, costs) in enumerate(
            zip(level.tolist(), np.sort(row_costs, axis=1)[:, ::-1].tolist(), strict=True), 1
        ):
            sums = [0, *itertools.accumulate(costs)]
            in_part = _joined(in_part, [beta * m * m + s for m, s in enumerate(sums)], max_size)
            if b % each == 0:
                best, in_part = _joined(best, in_part, n), [0]
        bound = max(across * m * m + value for m, value in enumerate(best) if m)
        yield bound, (length, across, tuple(level.tolist()))


def _joined(one: list[int], other: list[int], max_size: int) -> list[int]:
    """Return the largest sum of an entry of each list whose places add up to m, for m = 0, 1, …, at most `max_size`."""
    last = min(len(one) + len(other) - 2, max_size)
    places = (range(max(0, m - len(one) + 1), min(m, len(other) - 1) + 1) for m in range(last + 1))
    return [max(one[m - k] + other[k] for k in sizes) for m, sizes in enumerate(places)]


_Rows = tuple[tuple[int, ...], ...]


def _relaxed(x: Exact, max_size: int) -> tuple[int, tuple[tuple[int, ...], int, _Rows]]:
    """Return Shor's bound, proven for integers of `BITS` bits, with y, ℓ and the rows of L.

    It also bounds the empty set, so it is at least 0.
    """
    n = len(x)
    with np.errstate(all="ignore"):
        multipliers = _finite(_multipliers(x.astype(np.float64) * 2.0**-BITS, max_size))
    # Floating point only proposes y, ℓ and L. Any values are right, and exact integers give their bound.
    *y, free = (int(v * 2**BITS) for v in multipliers.tolist())
    free = max(free // 2, 0)
    matrix = np.diag(np.array([sum(y) - free * n, *(4 * v for v in y[1:])], dtype=object))
    matrix[1:, 1:] -= x
    matrix[0, 1:] = matrix[1:, 0] = [free - 2 * v for v in y[1:]]
    with np.errstate(all="ignore"):
        triangle = _finite(_triangle(matrix.astype(np.float64) * 2.0**-BITS))
    root = np.rint(triangle * 2.0 ** (BITS // 2)).astype(np.int64)
    bound = sum(y) + free * (2 * max_size - n) + int(abs(matrix - _square(root)).sum())
    # A search that ends at slightly different numbers still proves this bound.
    rows = tuple(tuple(row[: i + 1]) for i, row in enumerate(root.tolist()))
    return bound + (bound >> SURCHARGE_BITS), (tuple(y), free, rows)


def _square(root: NDArray[np.int64]) -> Exact:
    """Return L Lᵀ, exact, by two halves of each entry."""
    high, low = root >> HALF, root & 2**HALF - 1
    cross = exact_matmul(high, low.T).astype(object)
    both = exact_matmul(high, high.T).astype(object) * 4**HALF + exact_matmul(low, low.T).astype(object)
    return np.asarray(both + (cross + cross.T) * 2**HALF)


def _multipliers(x: Floats, max_size: int) -> Floats:
    """Return numbers y and 2ℓ near the least bound, by Newton's steps inside a barrier.

    In s = 2x − 1 and λ = 2ℓ the bound is Σ y + λ (g − n/2) where Z = diag(y) − Q + λK is positive semidefinite. Q is
    the matrix with (1, s)ᵀQ(1, s) = xᵀXx. K is ¼ in the first row and column, but 0 in both. y and λ > 0 minimise the
    bound divided by μ, less log(λ det Z), for μ that goes to 0.
    """
    n = len(x)
    rows = _total(x)
    q, k = np.zeros((2, n + 1, n + 1))
    q[1:, 1:], q[0, 1:], q[1:, 0], q[0, 0] = x / 4, rows / 4, rows / 4, _total(rows) / 4
    k[0, 1:] = k[1:, 0] = 0.25

    def slack(multipliers: Floats) -> Floats:
        return np.asarray(np.diag(multipliers[:-1]) - q + multipliers[-1] * k)

    def inside(multipliers: Floats) -> bool:
        return bool(multipliers[-1] > 0 and _triangle(slack(multipliers)).diagonal().all())

    weight = max(float(abs(q).max()), RELATIVE_TOLERANCE)
    # Diagonal dominance puts the start inside the barrier.
    point = np.append(_total(abs(q) + weight * k) + weight, weight)
    aim = np.append(np.ones(n + 1), max_size - n / 2)
    for _ in range(STEPS):
        inverse = _inverse(slack(point))
        head, others = inverse[0], _total(inverse[1:])
        hessian = np.empty((n + 2, n + 2))
        hessian[:-1, :-1] = inverse * inverse
        hessian[-1, :-1] = hessian[:-1, -1] = head * others / 2
        hessian[-1, -1] = (head[0] * _total(others[1:]) + others[0] * others[0]) / 8 + point[-1] ** -2
        slope = aim / weight - np.append(inverse.diagonal(), others[0] / 2 + 1 / point[-1])
        step = -_total(_inverse(hessian) * slope[:, None])
        decrement = -float(_total(slope * step))
        part = next((x for x in STEP_FACTORS if inside(point + x * step)), 0.0)
        if part == 0 or (decrement < 1 and n * weight < RELATIVE_TOLERANCE):
            break
        # The part stays short of the border, where Z is singular.
        point = point + 0.9 * part * step
        weight *= BARRIER_FACTOR if decrement < 1 else 1
    return point


def _finite(x: Floats) -> Floats:
    """Return finite numbers that can be rounded to integers, for any input."""
    return np.clip(np.nan_to_num(x), -LARGEST, LARGEST)


def _total(x: Floats) -> Floats:
    """Return sums along the first axis, one term after the other."""
    # A sum by a library has an order of its own, which differs between machines.
    return np.asarray(np.add.accumulate(x, axis=0)[-1])


def _inverse(a: Floats) -> Floats:
    """Return the inverse of a positive definite matrix."""
    a = a.copy()
    for k in range(len(a)):
        pivot, column = a[k, k], a[:, k].copy()
        row = a[k] / pivot
        a -= column[:, None] * row
        a[k], a[:, k] = row, -column / pivot
        a[k, k] = 1 / pivot
    return a


def _triangle(a: Floats) -> Floats:
    """Return L with LLᵀ = A for a positive definite matrix; for any other matrix some columns are 0."""
    a = a.copy()
    for k in range(len(a)):
        column = a[k:, k] / math.sqrt(a[k, k]) if a[k, k] > 0 else 0 * a[k:, k]
        a[k:, k] = column
        a[k + 1 :, k + 1 :] -= column[1:, None] * column[1:]
    return np.tril(a)
