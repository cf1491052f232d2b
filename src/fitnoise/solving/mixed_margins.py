"""Weights of margins that each have their own queries about the structured cells, for pure ε-DP.

**Statement.** A strategy measures θ_bk A_k on the margin on b, for sets b of exchangeable attributes. The A_k are
strategies of the structured cells with columns of ℓ1 norm 1, so Σθ is the full cost. With n_{b∖S} = Π_{a∈b∖S} n_a and
G_k = A_kᵀA_k,

    M_S = Σ_k (Σ_{b⊇S} θ_bk²/n_{b∖S}) G_k,   v_Aj = Σ_{S⊆A} u_AS l_j M_S⁻¹ l_jᵀ

is the variance of row j of table A for unit noise. Here l_j is row j, L_A has all rows, and u_AS = Π_{a∈S} (1 − 1/n_a)
/ n_{A∖S}². The search minimises (Σθ)² φ(v), which is equal for all multiples of θ. φ is the weighted total, or the
t-norm of v over its targets for t = 4, 16, …, 1024 in turn. With q = ∂φ/∂v,

    H_S = M_S⁻¹ (Σ_{A⊇S} u_AS L_Aᵀ diag(q_A) L_A) M_S⁻¹,   ∂φ/∂θ_bk = −2 θ_bk Σ_{S⊆b} ⟨G_k, H_S⟩ / n_{b∖S}.

**Source.** This project.

**Trust.** Nothing found here is believed: costs are recomputed from the integers of the strategy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from fitnoise.algebra import rules
from fitnoise.algebra.operators import Operator
from fitnoise.kernel.arrays import Floats
from fitnoise.solving.p_identity import TimeLimit, inverse

SHARPNESS = (4.0, 16.0, 64.0, 256.0, 1024.0)
"""The values of t of the t-norms, in turn."""

STEPS = 150
"""The iterations for each t."""

TRACE_SHIFT = 1e-11
"""The share of M_S's trace that is added to its diagonal: M_S can be singular where no table needs it."""

ABSOLUTE_SHIFT = 1e-18
"""The amount added in addition, for a sector that no table uses."""

MAX_LOG_COST = 1e6
"""The log of a value worse than any other: a step that leads there is cut short."""

MIN_SHARE = 1e-7
"""The share of Σθ below which a weight is dropped, if the value rises by at most this share too."""


@final
@dataclass(frozen=True, eq=False)
class EqualQueryTables:
    """Tables with equal queries.

    queries: The queries, (m, n).
    shares: u_AS, (tables, sectors).
    numbers: Targets, or weights of a total, (tables, m).
    """

    queries: Operator
    shares: Floats
    numbers: Floats


@final
@dataclass(frozen=True, eq=False)
class MixedMargins:
    """The minimisation problem.

    information: 1/n_{b∖S} where S ⊆ b, else 0, (sectors, margins).
    grams: G_k, (kinds, n, n).
    rows: The tables, in groups with equal queries.
    sharpness: t; None for the weighted total.
    """

    information: Floats
    grams: Floats
    rows: tuple[EqualQueryTables, ...]
    sharpness: float | None

    def variances(self, theta: Floats) -> tuple[list[Floats], Floats] | None:
        """Return V of all groups of tables, (tables, m), and M_S⁻¹, (n, n, sectors); None if some M_S is singular."""
        n = self.grams.shape[1]
        matrices = np.tensordot(self.information @ theta**2, self.grams, axes=(1, 0))
        inverses = np.empty((n, n, len(matrices)))
        for s, m in enumerate(matrices):
            m[np.diag_indices(n)] += TRACE_SHIFT * float(m.trace()) + ABSOLUTE_SHIFT
            try:
                inverses[..., s] = inverse(m)
            except np.linalg.LinAlgError:
                return None
        return [r.shares @ rules.row_variances(r.queries, inverses).T for r in self.rows], inverses

    def measure(self, theta: Floats) -> float:
        """Return (Σθ)² times the total, or the worst ratio; infinite if some M_S cannot be inverted."""
        evaluated = self.variances(theta)
        if evaluated is None:
            return math.inf
        pairs = list(zip(evaluated[0], self.rows, strict=True))
        if self.sharpness is None:
            value = sum(float((v * r.numbers).sum()) for v, r in pairs)
        else:
            value = max(float((v / r.numbers).max()) for v, r in pairs)
        return value * float(theta.sum()) ** 2

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return the log of (Σθ)² φ at θ (margins, kinds), and its gradient."""
        price = float(theta.sum())
        scaled = np.asarray(theta / price) if 0 < price < math.inf else np.zeros_like(theta)  # any multiple is the same
        evaluated = self.variances(scaled) if scaled.any() else None
        if evaluated is None:
            return MAX_LOG_COST, np.zeros_like(theta)
        variances, inverses = evaluated
        if self.sharpness is None:
            size = sum(float((v * r.numbers).sum()) for v, r in zip(variances, self.rows, strict=True))
            value, slopes = math.log(size), [r.numbers / size for r in self.rows]
        else:
            t = self.sharpness
            ratios = [v / r.numbers for v, r in zip(variances, self.rows, strict=True)]
            top = max(float(x.max()) for x in ratios)
            powers = [(x / top) ** (t - 1) for x in ratios]
            norm = sum(float((p * x).sum()) for p, x in zip(powers, ratios, strict=True)) / top
            value = math.log(top) + math.log(norm) / t
            slopes = [p / (r.numbers * (top * norm)) for p, r in zip(powers, self.rows, strict=True)]
        n = self.grams.shape[1]
        weighted = np.zeros((n, n, len(self.information)))
        for q, r in zip(slopes, self.rows, strict=True):
            weighted += rules.weighted_gram(r.queries, q.T @ r.shares)
        bent = np.stack([x @ w @ x for x, w in zip(inverses.T, weighted.T, strict=True)])
        inner = np.tensordot(bent, self.grams, axes=((1, 2), (1, 2)))  # ⟨G_k, H_S⟩, (sectors, kinds)
        return value, np.asarray((2 - 2 * scaled * (self.information.T @ inner)) / price)


def solve(
    problem: MixedMargins,
    starts: Sequence[Floats],
    sharpness: Sequence[float] = SHARPNESS,
    max_seconds: float | None = None,
) -> tuple[Floats, float]:
    """Return the best weights found from some starts, summing to 1, and their value.

    Args:
        problem: The problem, with `sharpness` None for the weighted total and any number for the worst ratio.
        starts: θ ≥ 0, (margins, kinds) each. A weight that is 0 at a start stays 0 from it. All starts go through the
            first of the t-norms, and the best of them through the others.
        sharpness: The values of t, in turn; from near the optimum, small t lead away and back.
        max_seconds: The time limit in seconds, checked between iterations.

    **Guarantees**
        * The result is never worse than any of the starts by more than a share of MIN_SHARE.
        * The value is that of the weights.
    """
    stages = [problem] if problem.sharpness is None else [replace(problem, sharpness=t) for t in sharpness]
    seen: list[tuple[float, Floats]] = []
    clock = TimeLimit(max_seconds)

    def see(theta: Floats) -> tuple[float, Floats]:
        scaled = np.asarray(theta / theta.sum())
        seen.append((problem.measure(scaled), scaled))
        return seen[-1]

    ends = []
    for start in starts:
        # The start itself counts, so that the result is never worse.
        see(start)
        ends.append(see(_descended(stages[0], start, clock)))
    now = min(ends, key=lambda x: x[0])[1]
    for stage in stages[1:]:
        now = see(_descended(stage, now, clock))[1]
    value, best = min(seen, key=lambda x: x[0])
    less = see(np.where(best > MIN_SHARE, best, 0.0))
    return (less[1], less[0]) if less[0] <= value * (1 + MIN_SHARE) else (best, value)


def _descended(problem: MixedMargins, start: Floats, clock: TimeLimit) -> Floats:
    import scipy.optimize as so  # takes as long as a small plan

    def check(xk: Floats) -> None:
        if clock.is_over:
            raise StopIteration

    def evaluate(x: Floats) -> tuple[float, Floats]:
        value, gradient = problem.value_and_gradient(x.reshape(start.shape))
        return value, gradient.ravel()

    result = so.minimize(
        evaluate,
        (start / start.sum()).ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=so.Bounds(0.0, np.inf),
        callback=check,
        options={"maxiter": STEPS},
    )
    return np.asarray(result.x.reshape(start.shape), dtype=np.float64)
