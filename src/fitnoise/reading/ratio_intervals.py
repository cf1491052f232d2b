"""Intervals of ratios of two noisy numbers, with proven coverage. Post-processing only.

**An interval is the set of values whose linear hypothesis is not rejected.** The noise of any linear form of a release
is known exactly. So each test has its level for any data, without a linear approximation of a ratio.

    sum, difference     |f·x − v| ≤ m(f)
    ratio r = a/b       |(a − r b)·x| ≤ m(a − r b): closed for Gaussian noise (Fieller 1954), step by step for others

Here x are the noisy answers with covariance V. The coefficients of a sum are f, and those of the two numbers of a ratio
are a and b. The tested value of the sum is v.

m(f) is the half-width of the noise of f at the confidence, and a norm of f. For normal noise it is a number times
√(fᵀVf). Sums of Laplace noise are symmetric with a log-concave density. For all such noise, m is a norm by Meyer and
Reisner (1991) and Bobkov (2010). So {(s, t): m(s a − t b) < (s a − t b)·x} is a convex cone: **of all directions (s, t)
one arc is rejected**. The accepted ratios t/s are an interval, or all ratios except an interval, and always include the
estimate. On one side of the estimate, let a ratio and the end of the possible ratios be rejected. Then every ratio
between these two is rejected. So the module can search for the end of the interval, from a rejected end of the possible
ratios towards the estimate. An accepted end of the possible ratios is itself an end of the interval.

The intervals of ratios leave out impossible values: counts are not negative, and a part of b's records is at most all
of them. An interval keeps its coverage when it is cut to the possible values. Intervals of sums are not cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fitnoise.kernel.arrays import Floats
from fitnoise.reading.laws import Law
from fitnoise.request.targets import z_score

BISECTION_STEPS = 16
"""The number of steps towards an end of an interval."""

Range = tuple[Floats, Floats]


def inverted(
    law: Law, values: tuple[Floats, Floats], possible: Range, confidence: float
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Return the ends of the hull of {r possible: |a − r b| ≤ m(a − r b)}, or the nearest possible end if it is empty.

    A mask follows: True where b is distinguished from 0.

    Args:
        law: The law of the forms a and b, row by row.
        values: The estimates of a and b, (J,) each.
        possible: The ends of the possible ratios r, (J,) each.
        confidence: The confidence of m.
    """
    roots = _fieller(law, values, z_score(confidence)) if law.normal else None
    if roots is None:
        return _bisected(law, values, possible, confidence)
    first_root, last_root, inside, is_significant = roots
    low, high = possible
    # inside: from the first to the last root; otherwise up to the first, and from the last on
    above, below = np.maximum(first_root, low), np.minimum(last_root, high)
    has_left_part, has_right_part = ~inside & (first_root >= low), ~inside & (last_root <= high)
    from_here = np.where(inside, above, np.where(has_left_part, low, np.maximum(last_root, low)))
    to_there = np.where(inside, below, np.where(has_right_part, high, np.minimum(first_root, high)))
    # no accepted ratio is possible: the counts are then far below 0, or a part far above its total
    none, nearest = from_here > to_there, _nearest(values, possible)
    return np.where(none, nearest, from_here), np.where(none, nearest, to_there), is_significant


def _nearest(values: tuple[Floats, Floats], possible: Range) -> Floats:
    """Return the end of the possible values that is nearer to the estimate."""
    (a, b), (low, high) = values, possible
    with np.errstate(all="ignore"):
        return np.where(np.abs(a / b - low) <= np.abs(a / b - high), low, high)


def _fieller(
    law: Law, values: tuple[Floats, Floats], z: float
) -> tuple[Floats, Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return the roots of A r² − 2 B r + C in order, or (−∞, ∞) where all ratios are accepted.

    With covariances V, A = b² − z² V_bb, B = a b − z² V_ab and C = a² − z² V_aa. The test accepts r at values up to 0.
    Two masks follow: True where the accepted ratios are between the ends, and True where A > 0.
    """
    (a, b), v = values, law.covariances
    # Fieller: |a − r b| ≤ z σ(a − r b), squared and sorted by powers of r, is A r² − 2 B r + C ≤ 0
    square = b * b - z * z * v[:, 1, 1]
    cross = a * b - z * z * v[:, 0, 1]
    rest = a * a - z * z * v[:, 0, 0]
    is_bounded = square > 0
    discriminant = cross * cross - square * rest
    # The root of larger size first: B and the square root have one sign there, so nothing cancels. The other is C
    # divided by A times this root. For A > 0 the estimate a/b is accepted: only rounding makes a discriminant negative.
    with np.errstate(all="ignore"):
        numerator = cross + np.copysign(np.sqrt(np.maximum(discriminant, 0.0)), cross)
        one = np.where(numerator == 0, 0.0, numerator / square)
        other = np.where(numerator == 0, 0.0, rest / numerator)
    low, high = np.minimum(one, other), np.maximum(one, other)
    # for A = 0 the accepted ratios are a half-line: the whole line contains it
    is_open = ~is_bounded & ((discriminant <= 0) | ~np.isfinite(low + high))
    return (np.where(is_open, -math.inf, low), np.where(is_open, math.inf, high), is_bounded | is_open, is_bounded)


def _bisected(
    law: Law, values: tuple[Floats, Floats], possible: Range, confidence: float
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Return the result of `inverted` for any noise whose half-widths are a norm, up to `law.slack`.

    The search is over the angle whose tangent is the ratio, with a and b in units of their standard errors. It rejects
    a ratio only if its excess exceeds the slack. Each end that it returns is such a rejected ratio, or an end of the
    possible ratios.
    """
    # No interval is too short: the directions (a, b) that a norm rejects are one arc. So the norm rejects every ratio
    # between a returned rejected one and the end of the possible ratios.
    a, b = values
    unit = np.sqrt(law.covariances[:, [0, 1], [0, 1]]).T
    unit = np.where(unit > 0, unit, 1.0)  # a form without noise has no unit of its own
    a, b, ratio = a / unit[0], b / unit[1], unit[0] / unit[1]
    # Half-widths are computed up to the slack: what exceeds a wider one is rejected by the norm itself.
    wide = 1 + 2 * law.slack

    def excess(angle: Floats) -> Floats:
        """Return the excess over the half-width; 0 or less where the ratio is accepted."""
        s, t = np.cos(angle), np.sin(angle)
        m = law.half_widths(np.stack([s / unit[0], -t / unit[1]], axis=1), confidence)
        return np.asarray(np.abs(s * a - t * b) - wide * m)

    # angles from −π/2 to π/2 are all ratios, and both ends are the infinite one, where b itself is tested
    low, high = (np.arctan(x / ratio) for x in possible)
    with np.errstate(all="ignore"):
        # the estimate a/b is accepted at every confidence, so a root lies between it and a rejected end
        middle = np.where(b == 0, np.sign(a) * math.pi / 2, np.arctan(a / b))
    is_significant = excess(np.full(len(a), math.pi / 2)) > 0
    off_low, off_high, is_inner = excess(low), excess(high), (middle > low) & (middle < high)
    at_low, at_high = off_low <= 0, off_high <= 0
    off_middle, ends = np.where(is_inner, excess(np.where(is_inner, middle, 0.0)), 0.0), []
    for end, off, other, off_other, there in (
        (low, off_low, high, off_high, at_high),
        (high, off_high, low, off_low, at_low),
    ):
        # from a rejected end to the estimate, or to the other end where the estimate is not possible
        inner, inside = np.where(is_inner, middle, other), np.where(is_inner, off_middle, off_other)
        crossed = _crossing(excess, (end, off), (inner, inside))
        ends.append(np.where((off <= 0) | ~(is_inner | there), end, crossed))
    none, nearest = ~(is_inner | at_low | at_high), _nearest(values, possible)
    ratio_ends = [np.where(np.abs(x) >= math.pi / 2, np.copysign(math.inf, x), np.tan(x) * ratio) for x in ends]
    # the tangent of an arc tangent is rounded: an end of the possible ratios is given as it is
    exact = [
        np.where(x == limit, value, y)
        for x, y, limit, value in zip(ends, ratio_ends, (low, high), possible, strict=True)
    ]
    return np.where(none, nearest, exact[0]), np.where(none, nearest, exact[1]), is_significant


def _crossing(excess: Callable[[Floats], Floats], start: tuple[Floats, Floats], stop: tuple[Floats, Floats]) -> Floats:
    """Return a point near a root of a function between two points, where it is above 0 (regula falsi, Illinois).

    start, stop: Each a point with its function value, above 0 for `start` and at most 0 for `stop`.
    """
    (out, above), (inner, below) = start, stop
    last = np.zeros(len(out))
    for _ in range(BISECTION_STEPS):
        with np.errstate(all="ignore"):
            fraction = above / (above - below)
        # inside the bracket: a step to one of its ends would make no progress
        half = out + np.clip(np.where(np.isfinite(fraction), fraction, 0.5), 0.001, 0.999) * (inner - out)
        half_excess = excess(half)
        side = np.where(half_excess > 0, 1.0, -1.0)
        # Illinois: an end that stays twice has its function value halved, or it could stay for ever
        repeat = side == last
        below, above = (
            np.where(repeat & (side > 0), below / 2, below),
            np.where(repeat & (side < 0), above / 2, above),
        )
        out, above = np.where(side > 0, half, out), np.where(side > 0, half_excess, above)
        inner, below = np.where(side > 0, inner, half), np.where(side > 0, below, half_excess)
        last = side
    return out  # the rejected side of the root, so that no interval is too short
