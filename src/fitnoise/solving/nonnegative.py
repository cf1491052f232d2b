"""The nearest point without negative numbers: min ½‖w‖² for g + Uw ≥ 0, by its dual, with its conditions as proof.

**Statement.** The dual is min ½λᵀKλ + gᵀλ over λ ≥ 0, K = UUᵀ, and the point found is g + Kλ. It is the nearest point
exactly if

    λ ≥ 0,    g + Kλ ≥ 0,    λᵀ(g + Kλ) = 0        (Karush 1939, Kuhn and Tucker 1951).

**Method.** The method only multiplies by K (Dostál and Schöberl 2005). It takes conjugate gradients on the numbers that
are moved. It projects where one of them would turn negative, and takes steps along the remaining violations. Its steps
are as long as possible, and it ends when no number changes sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from fitnoise.kernel.arrays import Floats

POWER = 12
"""The number of multiplications that estimate K's norm; half as many would do."""

STEPS_BETWEEN_GRADIENTS = 50
"""The number of steps after which the gradient is recomputed."""


@final
@dataclass(frozen=True, eq=False)
class Multipliers:
    """The proof of the nearest point.

    values: λ ≥ 0.
    point: g + Kλ.
    steps: The number of multiplications by K.
    max_violation: The largest violation of the conditions, in the units of g.
    """

    values: Floats
    point: Floats
    steps: int
    max_violation: float


def nearest(times: Callable[[Floats], Floats], gradient: Floats, tolerance: float, max_steps: int) -> Multipliers:
    """Return λ with λ ≥ 0, g + Kλ ≥ 0 and λᵀ(g + Kλ) = 0, each up to a tolerance, as a proof.

    The third condition counts for each number with λ > 0: the smaller of about λ‖K‖ and g + Kλ. The conditions can be
    further off if the search ends at `max_steps`: `max_violation` states by how much.

    Args:
        times: A function that multiplies by K, symmetric and positive semidefinite, of about unit diagonal.
        gradient: g, such that some g + Uw ≥ 0.
        tolerance: The violation at which the function ends, in the units of g.
        max_steps: The number of multiplications after which the function ends too.
    """
    if (gradient >= 0).all():
        return Multipliers(np.zeros_like(gradient), gradient.copy(), 0, 0.0)
    step, steps = 1 / _norm(times, len(gradient)), POWER
    x, g = np.zeros_like(gradient), gradient.copy()
    p, age = np.where(x > 0, g, 0.0), 0
    while True:
        free, chopped = np.where(x > 0, g, 0.0), np.where(x > 0, 0.0, np.minimum(g, 0.0))
        reduced = np.minimum(x / step, free)
        violation = max(float(np.abs(reduced).max()), -float(chopped.min()))
        if violation <= tolerance or steps >= max_steps:
            # The gradient is updated step by step and drifts, so a fresh one confirms the end.
            if not age or steps >= max_steps:
                return Multipliers(x, g, steps, violation)
            g, steps, age = gradient + times(x), steps + 1, 0
            p = np.where(x > 0, g, 0.0)
            continue
        if age >= STEPS_BETWEEN_GRADIENTS:
            g, steps, age = gradient + times(x), steps + 1, 0
            p = free = np.where(x > 0, g, 0.0)
        # Where the violations outweigh what is left among the moved numbers, a step along the violations gains more.
        if chopped @ chopped > reduced @ free:
            p = chopped
        kp, steps, age = times(p), steps + 1, age + 1
        bent = float(p @ kp)
        long = float(g @ p) / bent if bent > 0 else np.inf
        down = p > 0
        max_length = float((x[down] / p[down]).min()) if down.any() else np.inf
        if long <= max_length:
            x, g = np.maximum(x - long * p, 0.0), g - long * kp
            free = np.where(x > 0, g, 0.0)
            p = free if p is chopped else free - float(free @ kp) / bent * p
        else:
            x, g = np.maximum(x - max_length * p, 0.0), g - max_length * kp
            x = np.maximum(x - step * np.where(x > 0, g, 0.0), 0.0)
            g, steps, age = gradient + times(x), steps + 1, 0
            p = np.where(x > 0, g, 0.0)


def _norm(times: Callable[[Floats], Floats], n: int) -> float:
    """Return an estimate of K's largest eigenvalue: never above it, and in practice more than half of it."""
    x = 1 + np.arange(n) % 7 / 8
    for _ in range(POWER):
        x = times(x / np.linalg.norm(x))
    return float(np.linalg.norm(x))
