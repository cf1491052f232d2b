"""Certificates of Ky Fan designs for queries that are known by AᵀA alone.

The head of :mod:`fitnoise.solving.ky_fan` defines the letters A, Σ, q, h_k and μ.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg as sl

from fitnoise.errors import PlanError
from fitnoise.kernel.arrays import Floats
from fitnoise.solving.certificates import EPS, SLACK, Certificate, _check, _check_ky_fan


def ky_fan_gram_certificate(
    gram: Floats, weights: Floats, mixes: Floats, variances: Floats, tail: float, k: int
) -> Certificate:
    """Return the certificate from G = AᵀA for a covariance with t spikes V, on the span of A.

    Σ = tail · I + V diag(variances − tail) Vᵀ with V = A · mixes. The eigenvalues λ of diag(q)^½ G diag(q)^½ are
    computed to 8 N ε of the largest. Their sum τ is the trace. For any j < k, let β = max(λ_{j+1}, (Σ_{i>j} λ_i)/(k −
    j)). The bound is Σ_{i≤j} √λ_i + (Σ_{i>j} λ_i)/√β, squared. Each number is taken at the worse end of its error, and
    Σ_{i>j} λ_i is τ less the rest. V need not be orthonormal.

    Args:
        gram: G, (N, N).
        weights: q, (N,).
        mixes: The mixture of columns of each spike, (N, t), t ≤ k.
        variances: The variances of the spikes, (t,), at least the tail.
        tail: The variance of every other direction.
        k: The number of largest eigenvalues that the norm adds up, at least 1.

    Raises:
        PlanError: Matrices, weights, variances or k are unusable, the spikes are dependent, or the bound is 0.

    **Guarantees**
        * The least ‖Σ‖_(k) at sensitivity 1, μ, satisfies bound ≤ μ ≤ value. The value counts k directions even if A
          has fewer.
        * All eigenvalues are computed, in N³ operations: none is missed, as one could be by iteration.
    """
    _check_ky_fan(gram, k)
    n, t = len(gram), len(variances)
    _check("q", weights, n, positive=True)
    if gram.shape != (n, n) or mixes.shape != (n, t) or t > k or not np.isfinite(mixes).all():
        raise PlanError(
            "design-shapes-differ",
            f"The spikes of the design do not fit its {n} cells.",
            "A design has at most k spikes, each a mixture of one finite number for each cell.",
            "Give the Gram matrix and the spikes of one design.",
            "Nothing was proven.",
        )
    if not (0 < tail < math.inf and (variances >= tail).all() and np.isfinite(variances).all()):
        raise PlanError(
            "design-variances-unusable",
            "The variances of the design are not finite, its tail is not positive, or a spike is below the tail.",
            "",
            "Give finite variances, and no spike below the positive tail.",
            "Nothing was proven.",
        )
    root = np.sqrt(weights / weights.sum())
    values = np.asarray(sl.eigvalsh(root[:, None] * gram * root)[::-1], dtype=np.float64)
    bound = ((1 - SLACK) * _dual_ky_fan_squared(values, float(root**2 @ gram.diagonal()), min(k, n))) ** 2
    lengths = gram.diagonal()
    worst, total = float(lengths.max()) / tail, k * tail
    if t:
        # With VᵀV = L Lᵀ, the eigenvalues of Σ are tail + those of Lᵀ diag(variances − tail) L, and tail.
        images = gram @ mixes
        try:
            lower = sl.cholesky(mixes.T @ images, lower=True)
        except np.linalg.LinAlgError as error:
            raise PlanError(
                "design-spikes-dependent",
                "The spikes of the design are not independent.",
                "",
                "Give independent spikes.",
                "Nothing was proven.",
            ) from error
        above, turns = sl.eigh((lower.T * (variances - tail)) @ lower)
        above = np.maximum(above, 0.0)
        inside = turns.T @ sl.solve_triangular(lower, images.T, lower=True)
        # Σ⁻¹ is I/tail less a correction along the spikes alone, so a_eᵀ Σ⁻¹ a_e needs no matrix of the size of Σ.
        worst = float((lengths / tail - (1 / tail - 1 / (tail + above)) @ inside**2).max())
        total += float(above.sum())
    rounding = SLACK + 8 * k * EPS * float(lengths.max()) / (tail * worst)
    return Certificate(value=total * worst * (1 + rounding), bound=bound)


def _dual_ky_fan_squared(values: Floats, trace: float, k: int) -> float:
    """Return h_k, rounded down, from the computed eigenvalues of YᵀY, falling, and its trace."""
    n = len(values)
    off = 8 * n * EPS * float(values[0])
    rest = np.cumsum(np.maximum(values, 0)[::-1])[::-1]
    t = 0
    while t < k - 1 and rest[t] < (k - t) * values[t]:
        t += 1
    remaining = trace - float(values[:t].sum())
    slack = t * off + 2 * n * EPS * trace
    # This is ⟨Z, Y⟩ for the Z with singular values 1, and √λ/√cap below. The cap keeps all of them at most 1 and the
    # sum of their squares at most k, also at the worse ends of the errors.
    cap = max((remaining + slack) / (k - t), float(values[t]) + off)
    return float(np.sqrt(np.maximum(values[:t] - off, 0)).sum()) + max(remaining - slack, 0.0) / math.sqrt(cap)
