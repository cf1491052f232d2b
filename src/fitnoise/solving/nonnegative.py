"""The nearest point at which nothing is negative: min ½‖w‖² for g + Uw ≥ 0, by its dual, with its conditions as proof.

The dual is min ½λᵀKλ + gᵀλ over λ ≥ 0, K = UUᵀ, and the point found is g + Kλ. It is the nearest exactly where

    λ ≥ 0,    g + Kλ ≥ 0,    λᵀ(g + Kλ) = 0        (Karush 1939, Kuhn and Tucker 1951).

K is only multiplied by. Conjugate gradients on the numbers that are moved, projections where one of them would turn
negative, and steps along what is still missing (Dostál and Schöberl 2005): of the methods for such problems one whose
steps are as long as they can be, and which ends where no number changes sides any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from fitnoise.kernel.arrays import Floats

POWER = 12
"""Multiplications that K's norm is estimated with: twice as much as is needed would do."""

REFRESHED = 50
"""Steps after which the gradient is computed anew."""


@final
@dataclass(frozen=True, eq=False)
class Multipliers:
    """What proves the nearest point. values: λ ≥ 0. point: g + Kλ. steps: multiplications by K.

    far: the largest violation of what proves it, in the units of g.
    """

    values: Floats
    point: Floats
    steps: int
    far: float


def nearest(times: Callable[[Floats], Floats], given: Floats, tolerance: float, most: int) -> Multipliers:
    """λ with λ ≥ 0, g + Kλ ≥ 0 and λᵀ(g + Kλ) = 0, each up to a tolerance.

    Args:
        times: multiplies by K, symmetric and positive semidefinite, of about unit diagonal.
        given: g, such that some g + Uw ≥ 0.
        tolerance: the violation at which it ends, in the units of g.
        most: multiplications after which it ends as well.
    """
    if (given >= 0).all():
        return Multipliers(np.zeros_like(given), given.copy(), 0, 0.0)
    step, steps = 1 / _norm(times, len(given)), POWER
    x, g = np.zeros_like(given), given.copy()
    p, age = np.where(x > 0, g, 0.0), 0
    while True:
        free, chopped = np.where(x > 0, g, 0.0), np.where(x > 0, 0.0, np.minimum(g, 0.0))
        reduced = np.minimum(x / step, free)
        far = max(float(np.abs(reduced).max()), -float(chopped.min()))
        if far <= tolerance or steps >= most:
            if not age or steps >= most:
                return Multipliers(x, g, steps, far)
            g, steps, age = given + times(x), steps + 1, 0
            p = np.where(x > 0, g, 0.0)
            continue
        if age >= REFRESHED:
            g, steps, age = given + times(x), steps + 1, 0
            p = free = np.where(x > 0, g, 0.0)
        if chopped @ chopped > reduced @ free:
            p = chopped
        kp, steps, age = times(p), steps + 1, age + 1
        bent = float(p @ kp)
        long = float(g @ p) / bent if bent > 0 else np.inf
        down = p > 0
        most_long = float((x[down] / p[down]).min()) if down.any() else np.inf
        if long <= most_long:
            x, g = np.maximum(x - long * p, 0.0), g - long * kp
            free = np.where(x > 0, g, 0.0)
            p = free if p is chopped else free - float(free @ kp) / bent * p
        else:
            x, g = np.maximum(x - most_long * p, 0.0), g - most_long * kp
            x = np.maximum(x - step * np.where(x > 0, g, 0.0), 0.0)
            g, steps, age = given + times(x), steps + 1, 0
            p = np.where(x > 0, g, 0.0)


def _norm(times: Callable[[Floats], Floats], n: int) -> float:
    """The largest eigenvalue, from below and by less than half."""
    x = 1 + np.arange(n) % 7 / 8
    for _ in range(POWER):
        x = times(x / np.linalg.norm(x))
    return float(np.linalg.norm(x))
