"""Minimum sensitivity by rotation: the strategy of least L1 sensitivity among those of one small profile.

**Statement.** All strategies with the profile G = AᵀA are Q B for one root B of G and orthogonal Q (Theorem 4.13). All
answer a query with the same error, except for their sensitivity max_j ‖Q b_j‖₁. That is neither smooth nor convex in Q.

**Method.** The search has two stages:

1. From each start, it descends on the orthogonal group along Cayley curves of a soft maximum of smoothed L1 norms. Both
smoothings are sharpened on the way.
2. From the best few, it solves sequential linear programs. With skew S, the columns of (I + S) A are linear in S. The
least maximum of their L1 norms within a trust region is therefore a linear program. The Cayley transform of S is the
step.

**Trust.** The result proves only what can be computed from it: its profile, its sensitivity, and ‖A‖₂, a lower bound
for every rotation. For large profiles see :func:`fitnoise_lab.strategies.coarse_root`.

**Source.** Problem 5.16 of Li, Hay, Rastogi, Miklau, McGregor, PODS 2010, full version; the method is from this
project. Program 5.3 of the paper states it with a rank constraint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, sparse

from fitnoise.errors import WorkloadError
from fitnoise.kernel.arrays import Floats
from fitnoise.solving.fixed_random import Generator
from fitnoise_lab import strategies

# Above it, a polishing step takes minutes.
LARGEST = 64
"""The largest number of cells."""

SOFTNESS = (5.0, 300.0)
"""The sharpness of the soft maximum at the first and at the last step, over the sensitivity at the start."""

ROUNDING = (0.1, 1e-3)
"""The width of the rounded corner of the absolute value at the first and at the last step, over the largest entry."""

POLISHED_STARTS = 6
"""The number of starts that are polished."""

TRUST = (0.1, 0.3, 1e-10)
"""The trust region of the linear programs, as the largest entry of S: first, largest, and last."""

PROGRAMS = 60
"""The largest number of linear programs for each start."""


@final
@dataclass(frozen=True, eq=False)
class RotatedStrategy:
    """A strategy of a given profile.

    strategy: The strategy, (rows, n); or the given A, (m, n), if no better one was found.
    sensitivity: Its sensitivity in norm 1.
    bound: ‖A‖₂, a lower bound of the sensitivity for every strategy of this profile.
    """

    strategy: Floats
    sensitivity: float
    bound: float


def minimum_sensitivity(
    strategy: ArrayLike, rng: Generator, *, starts: int = 20, rows: int | None = None, steps: int = 400
) -> RotatedStrategy:
    """Return the least sensitive strategy found among those with the profile of A.

    Args:
        strategy: A, (m, n) with n ≤ 64; for a profile G, `spectrum(G).strategy()`. 16 cells take seconds, 64 minutes.
        rng: The generator of the starts, such as `np.random.default_rng(1)`; it chooses where to search, never the
            noise.
        starts: The number of starts. The first two are not random: the symmetric root of the profile, and its
            eigenvectors. The closed forms of :func:`fitnoise_lab.strategies.coarse_root` are tried in addition
            if they apply.
        rows: The number of rows of the result, at least n; default n. More rows have not helped in experiments.
        steps: The steps of the descent from each start.

    Returns:
        The best strategy found, or A as given if none was better.

    Raises:
        WorkloadError: A is not a matrix of finite numbers, or has more than 64 columns. Or `rows` is below n, or
            `starts` is below 1.

    **Guarantees**
        * The profile is that of A to a relative 1e-12.
        * bound ≤ sensitivity ≤ that of A, both recomputed from the matrix returned.
        * Equal generator states give equal results with one version of NumPy and SciPy.

    Source: Problem 5.16; found 2.577935 for H_4 (paper 2.896), 2 for Y_4 (paper 2.210), 3.357051 for H_8, √8 for Y_8.
    """
    original = np.array(strategy, dtype=np.float64)
    bound = strategies.sensitivity(original, 2)
    n = original.shape[1]
    m = n if rows is None else rows
    if n > LARGEST or m < n or starts < 1:
        raise WorkloadError(
            "rotation-size",
            f"The rotation has {n} cells, {m} rows and {starts} starts.",
            "",
            f"Give at most {LARGEST} cells, at least as many rows and at least one start; for more cells, "
            "see coarse_root.",
            "Nothing was rotated.",
        )
    decomposition = strategies.spectrum(strategies.profile(original))
    root = np.zeros((m, n))
    root[:n] = decomposition.strategy()
    rotations = _starts(decomposition.vectors, m, rng, starts) + _coarse(decomposition, m)
    # The starts stay candidates: a closed form can be the optimum, and descent on a smoothed value can leave it.
    rotations += [_descended(q, root, steps) for q in rotations]
    rotations.sort(key=lambda q: _largest(q @ root))
    # The given strategy is a candidate, so the result is never worse.
    candidates = [original, *(_polished(q, root) @ root for q in rotations[:POLISHED_STARTS])]
    best = min(candidates, key=_largest)
    return RotatedStrategy(best, float(strategies.sensitivity(best)), bound)


def _starts(vectors: Floats, m: int, rng: Generator, count: int) -> list[Floats]:
    """Return rotations (m, m): to the symmetric root, none, then alternately far from and near the symmetric root."""
    symmetric = np.eye(m)
    symmetric[: len(vectors), : len(vectors)] = vectors
    starts = [symmetric, np.eye(m)]
    while len(starts) < count:
        pull = 2.0 * (len(starts) % 2)
        turn = _nearest(pull * np.eye(m) + rng.normal(0.0, 1.0, size=(m, m)))
        starts.append(turn @ symmetric)
    return starts[:count]


def _coarse(spectrum: strategies.Spectrum, m: int) -> list[Floats]:
    """Return rotations (m, m) to the closed forms for Haar trees; none for other profiles."""
    n = len(spectrum.values)
    if n & (n - 1) or spectrum.values[0] <= strategies.EQUALITY_TOLERANCE * spectrum.values[-1]:
        return []
    profile = (spectrum.vectors * spectrum.values) @ spectrum.vectors.T
    inverse = spectrum.vectors / np.sqrt(spectrum.values)
    rotations = []
    try:
        for coarse in range(n.bit_length()):
            q = np.eye(m)
            q[:n, :n] = strategies.coarse_root(profile, coarse) @ inverse
            rotations.append(_nearest(q))
    except WorkloadError:
        return []
    return rotations


def _largest(a: Floats) -> float:
    """Return the sensitivity."""
    return float(np.abs(a).sum(axis=0).max())


def _nearest(a: Floats) -> Floats:
    """Return the orthogonal matrix nearest to a regular one: U Vᵀ of its singular value decomposition."""
    u, _, v = np.linalg.svd(a)
    return np.asarray(u @ v)


def _cayley(s: Floats) -> Floats:
    """Return (I − S/2)⁻¹ (I + S/2), orthogonal for skew S, and I + S to first order."""
    eye = np.eye(len(s))
    return np.asarray(np.linalg.solve(eye - s / 2, eye + s / 2), dtype=np.float64)


def _soft(a: Floats, sharpness: float, width: float) -> tuple[float, Floats]:
    """Return a soft maximum of the rounded L1 norms of the columns, and its gradient by the entries."""
    rounded = np.sqrt(a * a + width * width)
    norms = rounded.sum(axis=0)
    top = float(norms.max())
    e = np.exp(sharpness * (norms - top))
    total = float(e.sum())
    return top + float(np.log(total)) / sharpness, a / rounded * (e / total)


def _descended(q: Floats, root: Floats, steps: int) -> Floats:
    """Return the rotation at the end of descent from one start."""
    a = q @ root
    scale, entry = _largest(a), float(np.abs(root).max())
    if scale == 0:
        return q
    size = 0.1
    for step in range(steps):
        progress = step / steps
        sharpness = SOFTNESS[0] * (SOFTNESS[1] / SOFTNESS[0]) ** progress / scale
        width = ROUNDING[0] * (ROUNDING[1] / ROUNDING[0]) ** progress * entry
        value, gradient = _soft(a, sharpness, width)
        slope = gradient @ a.T
        # Downhill: along Q ↦ cayley(t S) Q the value falls at the rate ‖S‖².
        skew = (slope.T - slope) / 2
        rate = float((skew**2).sum())
        # Flat at this sharpness, but not at the next.
        if rate < 1e-16 * value**2:
            continue
        while size > 1e-10:
            turn = _cayley(size * skew)
            if _soft(turn @ a, sharpness, width)[0] <= value - 1e-4 * size * rate:
                q, a = turn @ q, turn @ a
                break
            size /= 2
        # The last accepted step, somewhat longer: the next one is similar.
        size = min(1.6 * max(size, 1e-8), 1.0)
    # Many products of rotations lose orthogonality by rounding.
    return _nearest(q)


def _polished(q: Floats, root: Floats) -> Floats:
    """Return the rotation at the end of sequential linear programs."""
    trust, max_trust, min_trust = TRUST
    a = q @ root
    best = _largest(a)
    for _ in range(PROGRAMS):
        skew = _linear_step(a, trust)
        if skew is None:
            break
        turn = _cayley(skew)
        value = _largest(turn @ a)
        if value < best * (1 - 1e-14):
            q, a, best = turn @ q, turn @ a, value
            trust = min(1.5 * trust, max_trust)
        else:
            # The linear program is exact to first order only, so a step without gain was too long.
            trust /= 4
        if trust < min_trust:
            break
    return _nearest(q)


def _linear_step(a: Floats, trust: float) -> Floats | None:
    """Return the skew S in the trust region with the least maximum of L1 norms of the columns of (I + S) A.

    The variables are S above its diagonal, an upper bound on each |entry| that can reach 0, and the maximum. For an
    entry that keeps its sign in the whole region, |entry| is linear. None means that the program was not solved.
    """
    m, n = a.shape
    first_index, second_index = np.triu_indices(m, 1)
    turns = len(first_index)
    # ∂(SA)_ij/∂S_kl = δ_ik A_lj − δ_il A_kj
    column = np.arange(n)
    entries = np.concatenate(
        [(first_index[:, None] * n + column).ravel(), (second_index[:, None] * n + column).ravel()]
    )
    values = np.concatenate([a[second_index].ravel(), -a[first_index].ravel()])
    change = sparse.csr_array((values, (entries, np.tile(np.repeat(np.arange(turns), n), 2))), shape=(m * n, turns))
    flat = a.ravel()
    reach = trust * (np.abs(a).sum(axis=0) - np.abs(a)).ravel()
    free = np.flatnonzero(np.abs(flat) <= reach)
    signs = np.where(np.abs(flat) <= reach, 0.0, np.sign(flat))
    of_column = sparse.csr_array((np.ones(m * n), (np.tile(column, m), np.arange(m * n))), shape=(n, m * n))
    by_sign = of_column @ sparse.diags_array(signs) @ change
    bounds_of = of_column[:, free]
    eye, none = sparse.eye_array(len(free)), sparse.csr_array((len(free), 1))
    rows = sparse.block_array(
        [
            [change[free], -eye, none],
            [-change[free], -eye, none],
            [by_sign, bounds_of, sparse.csr_array(-np.ones((n, 1)))],
        ],
        format="csr",
    )
    limits = np.concatenate([-flat[free], flat[free], -(of_column @ (signs * flat))])
    cost = np.zeros(rows.shape[1])
    cost[-1] = 1.0
    bounds: list[tuple[float, float | None]] = [(-trust, trust)] * turns
    bounds += [(0.0, None)] * (len(free) + 1)
    # Its stubs do not know that it takes sparse matrices.
    result = optimize.linprog(cost, A_ub=rows, b_ub=limits, bounds=bounds, method="highs")  # type: ignore[call-overload]
    if result.x is None:
        return None
    skew = np.zeros((m, m))
    skew[first_index, second_index] = result.x[:turns]
    return skew - skew.T
