"""The joint test of two ratios with normal noise: the range of p − r or p/r over all accepted (p, r).

At the true ratios the residuals e_i = a_i − p_i b_i are normal with mean 0 and known covariance V(p). The residual b̃
of the regression of b on them is independent of e. Take the weights wᵢ = ∂g/∂pᵢ / b̃ᵢ, the slopes of g = p − r or p/r
along a. Then the sum w·e over √(wᵀV w) is exactly standard normal given b̃. This is a similar test of g only. It
accepts the p and r where

    |w·e| ≤ z √(wᵀV w)   at level 1 − (α − η),   and both are in their own intervals (jointly at level 1 − η)

Here 1 − α is the confidence, and η is the part of α for the two intervals. The number z is the normal quantile of the
first level. The two ratios are p = p₁ and r = p₂, and a₁/b₁ and a₂/b₂ are their estimates.

**Computation of the range.** Multiplied out, the first condition is f ≤ 0 for a polynomial f of degree 12 in p (or r)
and 6 in g. On a rectangle, f is at least the smallest of its Bernstein coefficients. This proves that some rectangles
hold no accepted point. The others are halved until the rest is as accurate as required, and the range is rounded
outward. Infinite ends are treated like other ends, in coordinates p = A/B.

Source: similar tests, Neyman (1937); Bernstein coefficients, Cargo and Shisha (1966).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb

from fitnoise.kernel.arrays import Floats, Indices

BOX_ERROR_SHARE = 1 / 50
"""The part of the allowed error that is for both ratios being in their own intervals."""

DEGREES = (12, 6)
"""The degrees of f in p (or r) and in g."""

END_TOLERANCE = 1 / 500
"""The part of its distance from the estimate by which an end may be too far."""

MAX_HALVINGS = 80
"""The number of halvings after which a remaining rectangle counts as accepted."""

ROUNDING = 1e-8
"""The size of f, relative to its terms, up to which it is not distinguished from 0."""

MAX_RECTANGLES = 3_000
"""The number of rectangles of one problem after which remaining ones count as accepted."""

PROBLEMS_PER_BATCH = 500
"""The number of ranges that are computed at once."""

Box = tuple[Floats, Floats, Floats, Floats]
"""The ends of p and of r, (J,) each."""

Range = tuple[Floats, Floats]


def _nodes(degree: int) -> Floats:
    """Return the points from 0 to 1 where a polynomial of this degree is evaluated."""
    # Chebyshev's points: for equally spaced ones the inverse in `_to_bernstein` enlarges rounding more
    return np.asarray((1 - np.cos(np.pi * np.arange(degree + 1) / degree)) / 2)


def _to_bernstein(degree: int) -> Floats:
    """Return the matrix from a polynomial's values at the nodes to its Bernstein coefficients."""
    k, x = np.arange(degree + 1), _nodes(degree)[:, None]
    return np.asarray(np.linalg.inv(comb(degree, k) * x**k * (1 - x) ** k[::-1]))


_NODES = tuple(map(_nodes, DEGREES))
_ALONG_X, _ALONG_G = map(_to_bernstein, DEGREES)


@final
@dataclass(frozen=True, eq=False)
class _Rectangles:
    """M rectangles of (x, g) of some of J problems, where x is p or r.

    row: The index of the problem of each rectangle, (M,).
    is_p: True where x is p, (M,).
    ends: A and B ≥ 0 of the ends A/B along x and along g, (M, axes, ends, 2).
    """

    row: Indices
    is_p: NDArray[np.bool_]
    ends: Floats

    def select(self, keep: NDArray[np.bool_]) -> _Rectangles:
        """Return some of the rectangles."""
        return _Rectangles(self.row[keep], self.is_p[keep], self.ends[keep])

    def ends_along(self, axis: int) -> tuple[Floats, Floats]:
        """Return the low and high ends along an axis, (M,) each, in units of the problem: 0 for x, 1 for g."""
        with np.errstate(divide="ignore"):
            low_end, high_end = (self.ends[:, axis, :, 0] / self.ends[:, axis, :, 1]).T
        return low_end, high_end

    def halved(self, axis: Indices) -> _Rectangles:
        """Return halves of all rectangles, each along its axis: the first halves of all, then the second ones."""
        each, halves = np.arange(len(self.row)), []
        for side in (0, 1):
            ends = self.ends.copy()
            ends[each, axis, 1 - side] = ends[each, axis].mean(axis=1)
            halves.append(ends)
        return _Rectangles(np.tile(self.row, 2), np.tile(self.is_p, 2), np.concatenate(halves))


def ranges(values: Floats, covariances: Floats, boxes: Box, z: float, *, divided: bool) -> tuple[Floats, Floats]:
    """Return (low, high) of p − r, or p/r, over the accepted pairs; the estimate, moved into the boxes, is included.

    Args:
        values: The estimates a₁, b₁, a₂, b₂, (J, 4).
        covariances: Their covariances, (J, 4, 4).
        boxes: The ends of p and of r, (J,) each, which may be infinite.
        z: The distance above which the test rejects, in standard errors.
        divided: True for p/r.
    """
    low, high = (np.empty(len(values)) for _ in range(2))
    for start in range(0, len(values), PROBLEMS_PER_BATCH):
        rows = slice(start, start + PROBLEMS_PER_BATCH)
        a, b, c, d = (x[rows] for x in boxes)
        low[rows], high[rows] = _RangeProblems(values[rows], covariances[rows], (a, b, c, d), z, divided).compute_ends()
    return low, high


@final
class _RangeProblems:
    """Problems whose ranges are computed at once, for p and r in units of p."""

    def __init__(self, values: Floats, covariances: Floats, boxes: Box, z: float, divided: bool) -> None:
        deviation = np.sqrt(np.einsum("jii->ji", covariances))
        deviation = np.where(deviation > 0, deviation, 1.0)
        unit = deviation[:, 0] / deviation[:, 1]
        # units: b₂ in its standard error, and a₂ such that r has the unit of p
        scale = np.stack([*deviation[:, :2].T, deviation[:, 3] * unit, deviation[:, 3]], axis=1)
        self._values, self._unit = values / scale, unit
        self._covariances = covariances / (scale[:, :, None] * scale[:, None, :])
        self._p, self._r = ((low / unit, high / unit) for low, high in (boxes[:2], boxes[2:]))
        self._z, self._divided = z, divided
        with np.errstate(all="ignore"):
            quotients = self._values[:, 0::2] / self._values[:, 1::2]
        quotients = np.where(np.isfinite(quotients), quotients, 0.0)
        self._middle = [np.clip(quotients[:, k], *limits) for k, limits in enumerate((self._p, self._r))]

    def compute_ends(self) -> tuple[Floats, Floats]:
        """Return the ends of each range, over the rectangles that are not proven to be rejected."""
        p, r = self._middle
        inner = np.stack((quotient if self._divided else difference)(p, p, r, r))
        # only an estimate that is one number counts as accepted from the start, and not all of p/r where r is 0
        is_point = np.isfinite(inner).all(axis=0) & (inner[0] == inner[1])
        middle, inner = np.where(is_point, inner[0], 0.0), np.where(is_point, inner, [[math.inf], [-math.inf]])
        # `inner` holds accepted points only, `outer` all that is not rejected: the result lies between them
        outer, remaining = inner.copy(), self._started()
        for _ in range(MAX_HALVINGS):
            others = self._others(remaining, remaining.ends_along(0), remaining.ends_along(1))
            remaining = remaining.select(self._inside(remaining, others, wholly=False))
            coefficients, size = self._coefficients(remaining)
            # a smallest coefficient above 0, by more than rounding, proves f > 0: no point there is accepted
            open_ones = coefficients.min(axis=(1, 2)) <= ROUNDING * size
            remaining, coefficients = remaining.select(open_ones), coefficients[open_ones]
            self._accept(inner, remaining, coefficients)
            distances = np.abs(inner - middle)
            spare = np.where(np.isfinite(distances), END_TOLERANCE * distances, 0.0)
            low, high = remaining.ends_along(1)
            # only rectangles that could move an end by more than its tolerance are worth halving
            is_split = (low < (inner[0] - spare[0])[remaining.row]) | (high > (inner[1] + spare[1])[remaining.row])
            is_split &= np.bincount(remaining.row, minlength=len(p))[remaining.row] <= MAX_RECTANGLES
            _widen(outer, remaining.select(~is_split))
            remaining, coefficients = remaining.select(is_split), coefficients[is_split]
            if not len(remaining.row):
                break
            # along the axis where the coefficients change more, so that their smallest one comes closer to f
            steps = [np.abs(np.diff(coefficients, axis=k)).max(axis=(1, 2)) for k in (1, 2)]
            remaining = remaining.halved((steps[1] > steps[0]).astype(np.intp))
        _widen(outer, remaining)
        outer = np.stack([np.minimum(outer[0], inner[0]), np.maximum(outer[1], inner[1])])
        low, high = outer if self._divided else outer * self._unit
        return low, high

    def _started(self) -> _Rectangles:
        """Return all possible pairs of p and g, or of r and g, whichever coordinates separate all points."""
        low, high = (quotient if self._divided else difference)(*self._p, *self._r)
        centre = self._middle[0] - self._middle[1]
        if self._divided:  # p = 0 is g = 0 for any r, and r = 0 is an infinite g
            with np.errstate(all="ignore"):
                size = 2 * np.abs(self._middle[0] / self._middle[1])
            size = np.where(np.isfinite(size) & (size > 0), size, 1.0)
            cuts = [low, np.clip(-size, low, high), np.clip(size, low, high), high]
            pieces = [(cuts[0], cuts[1], True), (cuts[1], cuts[2], False), (cuts[2], cuts[3], True)]
        else:  # an infinite p is an infinite g for any r, and an infinite r one below 0
            centre = np.clip(centre, low, high)
            pieces = [(low, centre, True), (centre, high, False)]
        parts, all_rows = [], np.arange(len(low))
        for start, end, is_p in pieces:
            (low_x, high_x), cut = (self._p, self._middle[0]) if is_p else (self._r, self._middle[1])
            for x, keep in (
                (_segment(low_x, cut), (low_x < cut) | (cut == high_x)),
                (_segment(cut, high_x), cut < high_x),
            ):
                full = _Rectangles(all_rows, np.full(len(low), is_p), np.stack([x, _segment(start, end)], axis=1))
                parts.append(full.select(keep & (start < end)))  # a flat rectangle is an edge of a neighbour
        return _Rectangles(*(np.concatenate([getattr(x, name) for x in parts]) for name in ("row", "is_p", "ends")))

    def _others(self, rectangles: _Rectangles, x: Range, g: Range) -> Range:
        """Return the other ratio of r and p on these rectangles, as ranges."""
        with np.errstate(all="ignore"):
            one = (quotient if self._divided else difference)(*x, *g)
            if self._divided:
                ends = np.stack([x[i] * g[j] for i in (0, 1) for j in (0, 1)])
                ends = np.where(np.isnan(ends), 0.0, ends)
                other = ends.min(axis=0), ends.max(axis=0)
            else:
                other = x[0] + g[0], x[1] + g[1]
        return np.where(rectangles.is_p, one[0], other[0]), np.where(rectangles.is_p, one[1], other[1])

    def _inside(self, rectangles: _Rectangles, allowed: Range, *, wholly: bool) -> NDArray[np.bool_]:
        """Return True where the other ratio is partly in its box, or completely."""
        low, high = (
            np.where(rectangles.is_p, r[rectangles.row], p[rectangles.row])
            for p, r in zip(self._p, self._r, strict=True)
        )
        if wholly:
            return np.asarray((allowed[0] >= low) & (allowed[1] <= high))
        return np.asarray(~((allowed[0] > high) | (allowed[1] < low)))

    def _accept(self, inner: Floats, rectangles: _Rectangles, coefficients: Floats) -> None:
        """Widen ranges by the accepted corners: at a corner, the coefficient is the value of f."""
        x, g = rectangles.ends_along(0), rectangles.ends_along(1)
        for i in (0, 1):
            for j in (0, 1):
                inside = self._inside(rectangles, self._others(rectangles, (x[i], x[i]), (g[j], g[j])), wholly=True)
                taken = (coefficients[:, -i, -j] <= 0) & inside  # −0 is the first coefficient, −1 the last one
                np.minimum.at(inner[0], rectangles.row[taken], g[j][taken])
                np.maximum.at(inner[1], rectangles.row[taken], g[j][taken])

    def _coefficients(self, rectangles: _Rectangles) -> tuple[Floats, Floats]:
        """Return the coefficients of f on rectangles, (M, 13, 7), and the size of its terms, (M,)."""
        (x, y), (g, h) = (
            np.moveaxis(rectangles.ends[:, k, :1] * (1 - u[:, None]) + rectangles.ends[:, k, 1:] * u[:, None], -1, 0)
            for k, u in enumerate(_NODES)
        )
        x, y, g, h = x[:, :, None], y[:, :, None], g[:, None, :], h[:, None, :]
        is_p = rectangles.is_p[:, None, None]
        if self._divided:
            p, s = np.where(is_p, x, x * g), np.where(is_p, y, y * h)
            r, t = np.where(is_p, x * h, x), np.where(is_p, y * g, y)
        else:
            p, s = np.where(is_p, x, x * h + g * y), np.where(is_p, y, y * h)
            r, t = np.where(is_p, x * h - g * y, x), np.where(is_p, y * h, y)
        # The ratios are p/s and r/t from here on: with all denominators multiplied out, infinite ratios are finite
        values, v = self._values[rectangles.row][..., None, None], self._covariances[rectangles.row][..., None, None]
        one, other = s * values[:, 0] - p * values[:, 1], t * values[:, 2] - r * values[:, 3]
        # covariances of the residuals, and their covariances with b₁ and b₂
        of_one = s * s * v[:, 0, 0] - 2 * s * p * v[:, 0, 1] + p * p * v[:, 1, 1]
        of_other = t * t * v[:, 2, 2] - 2 * t * r * v[:, 2, 3] + r * r * v[:, 3, 3]
        both = s * t * v[:, 0, 2] - s * r * v[:, 0, 3] - p * t * v[:, 1, 2] + p * r * v[:, 1, 3]
        determinant = of_one * of_other - both * both
        left_of = []
        for k in (1, 3):
            one_part, other_part = s * v[:, 0, k] - p * v[:, 1, k], t * v[:, 2, k] - r * v[:, 3, k]
            regressed = one_part * (of_other * one - both * other) + other_part * (of_one * other - both * one)
            left_of.append(values[:, k] * determinant - regressed)
        # the slopes of g, times all denominators
        mine, theirs = (r, p) if self._divided else (t, s)
        weights = mine * left_of[1], -theirs * left_of[0]
        total = weights[0] * one + weights[1] * other
        varied = weights[0] ** 2 * of_one + 2 * weights[0] * weights[1] * both + weights[1] ** 2 * of_other
        size = (np.abs(weights[0] * one) + np.abs(weights[1] * other)) ** 2 + self._z**2 * np.abs(varied)
        at_nodes = total**2 - self._z**2 * varied
        return np.asarray(_ALONG_X @ at_nodes @ _ALONG_G.T), np.asarray(size.max(axis=(1, 2)))


def _segment(low: Floats, high: Floats) -> Floats:
    """Return coordinates A and B of the ends A/B, (J, ends, 2)."""
    ends = np.stack([low, high], axis=1)
    # an infinite end is ±scale/0, of the size of the finite one: then a mean of coordinates lies well between them
    scale = np.maximum(1.0, np.where(np.isfinite(ends), np.abs(ends), 0.0).max(axis=1))
    finite = np.isfinite(ends)
    return np.stack([np.where(finite, ends, np.copysign(scale[:, None], ends)), finite.astype(np.float64)], axis=-1)


def _widen(ends: Floats, rectangles: _Rectangles) -> None:
    """Widen ranges, (2, J), in place to contain these rectangles along g."""
    low, high = rectangles.ends_along(1)
    np.minimum.at(ends[0], rectangles.row, low)
    np.maximum.at(ends[1], rectangles.row, high)


def difference(low: Floats, high: Floats, other_low: Floats, other_high: Floats) -> tuple[Floats, Floats]:
    """Return the range of p − r for p and r from their lows to their highs."""
    with np.errstate(all="ignore"):
        return np.asarray(low - other_high), np.asarray(high - other_low)


def product(low: Floats, high: Floats, other_low: Floats, other_high: Floats) -> tuple[Floats, Floats]:
    """Return the range of p·r for p and r from their lows to their highs."""
    with np.errstate(all="ignore"):
        ends = np.stack([np.multiply(p, r) for p in (low, high) for r in (other_low, other_high)])
    ends = np.where(np.isnan(ends), 0.0, ends)  # 0·∞: p = 0 gives 0 only
    return np.asarray(ends.min(axis=0)), np.asarray(ends.max(axis=0))


def quotient(low: Floats, high: Floats, other_low: Floats, other_high: Floats) -> tuple[Floats, Floats]:
    """Return the hull of p/r for p and r ≠ 0 from their lows to their highs."""
    with np.errstate(all="ignore"):
        both = (other_low < 0) & (other_high > 0)
        # 1/r is from `low_inverse` to `high_inverse`, where open ends of r are 0
        low_inverse = np.where(both, -math.inf, np.where(other_high == 0, -math.inf, np.divide(1.0, other_high)))
        high_inverse = np.where(both, math.inf, np.where(other_low == 0, math.inf, np.divide(1.0, other_low)))
        ends = np.stack([np.multiply(p, x) for p in (low, high) for x in (low_inverse, high_inverse)])
    ends = np.where(np.isnan(ends), 0.0, ends)  # 0·∞: p = 0 gives 0 only
    return np.asarray(ends.min(axis=0)), np.asarray(ends.max(axis=0))
