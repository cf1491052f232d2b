"""Proven quantiles and tails of sums of discrete Laplace noises: the intervals of the pure-ε mechanism.

A released number carries the error X = Σ_i a_i Z_i with independent Z_i, P(Z_i = k) ∝ exp(−|k|/t). Normal quantiles
would be wrong for it: the tails are exponential. This module returns m for which P(|X| ≤ m) ≥ confidence is proven.

**Symbols.**

    | letter   | meaning                                                               |
    | -------- | --------------------------------------------------------------------- |
    | t        | scale of the discrete noises; β = 1/t                                 |
    | a_i, n_i | coefficients of a row, and their multiplicities                       |
    | X_D, X_L | the sum with discrete, and with continuous Laplace noises             |
    | b_i      | the absolute value of a_i, times t; b₁ is the largest                 |
    | M(z)     | E exp(z X_L) = Π (1 − b_i² z²)^(−n_i)                                 |
    | c, h, K  | a line Re z = c, the step on it, and its last node; T = 2π/h, S = K h |

**From discrete to continuous.** A Laplace variable L of scale t is D + W. D is discrete Laplace of scale t, and W is
independent of D, symmetric, with |W| < 1. The reason is that L is a difference of two exponentials, and that floor and
fraction of an exponential are independent. With g(x) = sinh(x)/x,
E exp(λW) = g((β+λ)/2) g((β−λ)/2) / g(β/2)² ≤ exp(λ²/12), because (log g)″ ≤ 1/3.
So P(Σ a W < −δ) ≤ ρ = exp(−3δ²/Σa²), and for δ = Σ|a| even ρ = 0 holds. D and W are independent, hence
P(X_L > m − δ) ≥ P(X_D > m) P(Σ a W ≥ −δ), that is P(|X_D| > m) ≤ 2 P(X_L > m − δ) / (1 − ρ). The module uses
ρ = 1/(12 max(t, 1)), or δ = Σ|a| if that is smaller.

**The continuous tail.** On a line Re z = c, 0 < c < 1/b₁, the sum with step h = 2π/T over all integers k is, by
Poisson's formula,

    (h/2π) Σ_k exp(−m z_k) M(z_k)/z_k = Σ_j P(X_L > m + jT) exp(cjT),    z_k = c + ikh.

Every term on the right is non-negative, and the term with j = 0 is the tail. So **the sum is an upper bound for every c
and h**. Chernoff's inequality P(X_L > x) ≤ M(u) exp(−ux) bounds the terms j ≠ 0, and so the excess of the bound. The
truncation at |k| = K costs at most exp(−mc) |M(c + iS)| / (π q), with q = −d log|M| / d log s at S. Here q grows with
s, since |1 − b²z²|² = ((1 − bc)² + b²s²)((1 + bc)² + b²s²), so |M(c + is)| ≤ |M(c + iS)| (S/s)^q beyond S.

**One large coefficient.** Then M falls slowly, and the line is moved past its simple pole, to 1/b₁ < c < 1/b₂:
P(X_L > m) = A − R(m), A = ½ exp(−m/b₁) M_Y(1/b₁). Here Y is the sum of all noises but the one of the largest
coefficient, and M_Y its moment generating function. R(m) = E[cosh((Y − m)/b₁) − 1; Y > m] ≥ 0, and −R is the integral
along the moved line. The bound 0 ≤ R(x) ≤ ½ M_Y(u) exp(−ux) for 1/b₁ ≤ u < 1/b₂ holds for the terms j ≠ 0, which are
added here. A single noise needs no integral: its discrete tail has a closed form.

**Many small coefficients** enter through power sums, −Σ n log(1 − b²z²) = Σ_p z^{2p} Σ n b^{2p} / p. The remainder is
bounded and added. Rounding is bounded node by node, and added.

**Tightness.** The bracket of the tail is at most 5·10⁻⁵ wide, relative. −log P(|X_L| > x) is convex and 0 at x = 0, so
its slope at m is at least its value over m. At a confidence of ½ or more, m is therefore too large by a part of at
most 5·10⁻⁵ / log 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Floats, Indices

Complexes = npt.NDArray[np.complex128]


HALF_WIDTH_TOLERANCE = 1e-4
"""Part of the relative tolerance of `half_width` that does not fall with the scale, for a confidence of at least ½."""

LATTICE = 5.0
"""The relative tolerance of `half_width` is HALF_WIDTH_TOLERANCE + LATTICE / scale, for a confidence of at least ½."""

MAX_MULTIPLICITY = 1e12

_DIRECT = 64
"""Number of columns in the product, the largest of each row; the others enter by power sums."""

_POWERS = 24

_RATIO = 0.65
"""Power sums are used where b²|z|² is at most this."""

_REACH = 0.5
"""The line is placed where b²c² is at most this for every column in the power sums."""

_NEGLIGIBLE = 1e-12
"""Squares below this part of the largest of the power sums enter the first sum only."""

_LOSS = 1e-5
"""Relative target for the contribution of the terms j ≠ 0, and for that of the truncation, to a tail."""

_BRACKET_TOLERANCE = 5e-5
"""Relative width of the proven bracket of a tail that ends the search."""

_ROUNDS = 3

_MAX_NODES = 4096

_ENTRIES = 2**18
"""Largest number of entries of a work array."""

_GAP = 0.95
"""The pole of the largest coefficient is split off when the second square is below this part of the first."""

_RANGE = 1e100

# Smaller coefficients are raised to it: this only widens X, and their squares do not underflow.
_MIN_COEFFICIENT = 1e-30
"""Least coefficient other than 0, relative to the largest of its row."""

_FARTHEST = 1e6
"""Largest distance of a line past the first pole, in units of 1/b₁."""

# P(|X| > m) grows with every |a_i|, so a larger m covers smaller coefficients.
_MARGIN = 1 + 2.0**-40
"""A factor above the rounding of the coefficients' scaling."""

_UNIT = 2.0**-52

_MIN_POSITIVE_FLOAT = 5e-324
"""The least positive float: the lower limit of a reported probability that is zero."""


def half_width(
    coefficients: npt.ArrayLike,
    scale: float,
    confidence: npt.ArrayLike,
    multiplicities: npt.ArrayLike | None = None,
) -> Floats:
    """Return half-widths m_j with P(|X_j| ≤ m_j) ≥ confidence, (J,).

    X_j = Σ_i a_ji (sum of n_i discrete Laplace noises).

    Args:
        coefficients: The matrix a, (J, N), any sign, zeros allowed.
        scale: The scale t > 0 of every noise, P(k) ∝ exp(−|k|/t).
        confidence: A number in (0, 1), or (J,) numbers.
        multiplicities: The multiplicities n, (N,), integers from 0 to 10¹²; None for all 1.

    Raises:
        ReleaseError: Shapes do not fit, numbers are not finite, or the confidence is outside (0, 1). A scale, or a
            row's largest coefficient other than 0, is not from 10⁻¹⁰⁰ to 10¹⁰⁰. Multiplicities that are not integers
            from 0 to 10¹² raise it too.

    **Guarantees**
        * m_j is never below the smallest m with P(|X_j| ≤ m) ≥ confidence_j. The module head proves this for the given
          floating-point numbers, rounding included.
        * For a confidence of at least ½, m_j exceeds it by a part of at most HALF_WIDTH_TOLERANCE + LATTICE / scale.
          Tests check this; the first part rests on the bracket of the tail (see "Tightness"). Below ½ it holds relative
          to the standard deviation of X.
        * Up to that part, m_j grows with the confidence, and the order and the signs of a row do not change it.
        * The function uses about 50 MB of memory beyond the arguments, for any J.
        * A row of one noise has its exact quantile, rounded up, and a row of zeros has 0.
    """
    a, n, t = _inputs(coefficients, scale, multiplicities)
    levels = _rowwise(confidence, len(a), "confidence")
    if not ((levels > 0) & (levels < 1)).all():
        raise ReleaseError(
            "confidence-out-of-range",
            f"The confidence is {_one_bad(levels, 0, 1)}.",
            "",
            "Give a number between 0 and 1, both excluded.",
            "Nothing was computed.",
        )
    misses = 1 - levels

    def solve(rows: _ScaledRows, block: Indices) -> tuple[Floats, npt.NDArray[np.bool_]]:
        shift, loss = _lattice(rows, t)
        # P(|X_D| > m) ≤ 2 P(X_L > m − δ) / (1 − ρ), with δ = `shift` and ρ = `loss`.
        # 1 − γ is exact for γ ≥ ½. The last term covers the rounding of the logarithms.
        target = np.log(misses[block] / 2) + np.log1p(-loss) - 1e-14
        m, done = _quantiles(rows, target)
        # m is in units of the largest |a| t, and the shift in units of the largest |a|.
        return (m * t + shift) * _MARGIN, done

    def single(size: Floats, block: Indices) -> Floats:
        # P(|Z| > k) = 2 exp(−(k + 1)/t) / (1 + exp(−1/t)), solved for k without cancellation at a large t.
        needed = -np.log1p(np.expm1(-1 / t) / 2) - np.log1p(-levels[block])
        steps = np.ceil(t * needed * (1 + 8 * _UNIT) - 1)
        product, below = _product(size, np.maximum(steps, 0))
        # The exact product is above its float, so the next float is the quantile rounded up.
        return np.where(below > 0, np.nextafter(product, np.inf), product)

    return _by_blocks(a, n, solve, single, scaled=True)


def tail(
    coefficients: npt.ArrayLike,
    scale: float,
    m: npt.ArrayLike,
    multiplicities: npt.ArrayLike | None = None,
) -> Floats:
    """Return upper bounds of P(|X_j| > m_j), (J,); X as in `half_width`, m ≥ 0 a number or (J,).

    Raises:
        ReleaseError: An argument is refused as in `half_width`, or an m is negative or not finite.

    **Guarantees**
        * The bound is never below the true probability, and at most 1. For a row of one noise it is exact, up to
          rounding.
        * For other rows, the bound is P(|X_L| > m − δ)/(1 − ρ) with a relative excess of about 5·10⁻⁵ at most, or 1 if
          that is less. The module head defines X_L, δ and ρ.
    """
    a, n, t = _inputs(coefficients, scale, multiplicities)
    limits = _rowwise(m, len(a), "m")
    if not ((limits >= 0) & (limits < np.inf)).all():
        raise ReleaseError(
            "limit-out-of-range",
            f"m is {_one_bad(limits, -_UNIT, np.inf)}.",
            "",
            "Give a finite number from 0.",
            "Nothing was computed.",
        )

    def solve(rows: _ScaledRows, block: Indices) -> tuple[Floats, npt.NDArray[np.bool_]]:
        shift, loss = _lattice(rows, t)
        with np.errstate(over="ignore"):
            # A smaller limit has a larger tail, so all rounding goes down.
            limit = np.minimum((limits[block] / rows.unit / _MARGIN - shift) / t, 1e100)
        bound, done = _tails(rows, limit)
        return np.minimum(2 * np.exp(np.minimum(bound, 0)) / (1 - loss) * (1 + 1e-10) + _MIN_POSITIVE_FLOAT, 1), done

    def single(size: Floats, block: Indices) -> Floats:
        limit = limits[block]
        with np.errstate(over="ignore"):
            steps = np.minimum(np.floor(limit / size), 2.0**60)
        steps = np.maximum(steps + 1, 0)
        # The largest k with k |a| ≤ m exactly; the start is at most two above it.
        for _ in range(3):
            product, below = _product(size, steps)
            steps = np.where((product > limit) | ((product == limit) & (below > 0)), np.maximum(steps - 1, 0), steps)
        with np.errstate(over="ignore"):
            # exp(−740) is still above 0.
            late = np.minimum((steps + 1) / t, 740)
        bound: Floats = 2 / (1 + np.exp(-1 / t)) * np.exp(-late) * (1 + 8 * _UNIT * (1 + late)) + _MIN_POSITIVE_FLOAT
        return np.minimum(bound, 1)

    return _by_blocks(a, n, solve, single, scaled=False, zero=0.0)


# --------------------------------------------------------------------------------------------------------------- inputs


def _inputs(
    coefficients: npt.ArrayLike, scale: float, multiplicities: npt.ArrayLike | None
) -> tuple[Floats, Floats | None, float]:
    """Return the arguments as checked arrays; the finiteness of coefficients is checked block by block."""
    a = _numbers(coefficients, "coefficients")
    if a.ndim != 2:
        raise ReleaseError(
            "coefficients-not-matrix",
            f"The coefficients have {a.ndim} axes.",
            "",
            "Give two axes, for rows and noises.",
            "Nothing was computed.",
        )
    size = _numbers(scale, "scale")
    if size.ndim:
        raise ReleaseError(
            "several-noise-scales",
            f"The scale is an array of shape {size.shape}.",
            "",
            "Give one scale.",
            "Nothing was computed.",
        )
    t = float(size)
    if not 1 / _RANGE <= t <= _RANGE:
        raise ReleaseError(
            "noise-scale-out-of-range",
            f"The scale is not a number from {1 / _RANGE:.0e} to {_RANGE:.0e}.",
            "",
            "Give a scale in this range. Divide a larger scale and m by a factor, and multiply half-widths by it.",
            "Nothing was computed.",
        )
    if multiplicities is None:
        return a, None, t
    n = _numbers(multiplicities, "multiplicities")
    if n.shape != a.shape[1:]:
        raise ReleaseError(
            "multiplicities-shape",
            f"The multiplicities have the shape {n.shape}.",
            "",
            f"Give one for each of the {a.shape[1]} columns.",
            "Nothing was computed.",
        )
    if not ((n >= 0) & (n <= MAX_MULTIPLICITY) & (n == np.floor(n))).all():
        raise ReleaseError(
            "multiplicities-out-of-range",
            f"A multiplicity is not an integer from 0 to {MAX_MULTIPLICITY:.0e}.",
            "",
            "Give integers in this range.",
            "Nothing was computed.",
        )
    return a, n, t


def _numbers(numbers: npt.ArrayLike, name: str) -> Floats:
    try:
        return np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError):
        raise ReleaseError(
            "argument-not-numbers",
            f"The argument {name} is not a rectangular array of real numbers.",
            "",
            "Give real numbers.",
            "Nothing was computed.",
        ) from None


def _rowwise(numbers: npt.ArrayLike, rows: int, name: str) -> Floats:
    """Return a number or (J,), as (J,)."""
    values = _numbers(numbers, name)
    if values.shape not in ((), (rows,)):
        raise ReleaseError(
            "argument-not-by-row",
            f"The argument {name} has the shape {values.shape}.",
            "",
            f"Give one number, or one for each of the {rows} rows of coefficients.",
            "Nothing was computed.",
        )
    return np.broadcast_to(values, (rows,))


def _one_bad(values: Floats, low: float, high: float) -> float:
    return float(values[~((values > low) & (values < high))][0])


def _product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return Dekker's product and rest: x y = product + rest exactly, for y of at most 53 bits and no overflow."""
    product = x * y

    def halves(v: Floats) -> tuple[Floats, Floats]:
        mantissa, exponent = np.frexp(v)
        high = np.ldexp(np.rint(np.ldexp(mantissa, 26)), exponent - 26)
        return high, v - high

    (x1, x2), (y1, y2) = halves(x), halves(y)
    return product, ((x1 * y1 - product) + x1 * y2 + x2 * y1) + x2 * y2


# ----------------------------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True)
class _ScaledRows:
    """R rows, each in units of its own largest |a|: squares b² ≤ 1, the largest one by one, the rest as power sums."""

    unit: Floats
    """The largest |a| of each row, (R,)."""
    squares: Floats
    """Squares in falling order, the first is 1, (R, k)."""
    counts: Floats
    """Multiplicities of the squares, (R, k)."""
    ceiling: Floats
    """The largest square among the rest, (R,)."""
    sums: Floats
    """Σ n (square / ceiling)^p over the rest, p = 1 … _POWERS, (R, _POWERS)."""
    norms: Floats
    """Σ n b² over all, (R,)."""
    lengths: Floats
    """Σ n b over all, (R,)."""

    def __len__(self) -> int:
        return len(self.unit)

    def take(self, which: Indices | npt.NDArray[np.bool_] | slice) -> _ScaledRows:
        return _ScaledRows(*(getattr(self, f.name)[which] for f in fields(self)))


def _reduced(unit: Floats, x: Floats, n: Floats | None, k: int) -> _ScaledRows:
    """Return rows from |a| / unit, (R, N): the k largest columns one by one, the others as sums."""
    lengths = x.sum(axis=1) if n is None else x @ n
    x = x * x
    norms = x.sum(axis=1) if n is None else x @ n
    width = x.shape[1]
    k = min(k, width)
    if n is None:
        parts = x if k == width else np.partition(x, width - k, axis=1)
        squares = -np.sort(-parts[:, width - k :], axis=1)
        counts = np.ones_like(squares)
        rest, weights = parts[:, : width - k], None
    else:
        order = np.argpartition(x, width - k, axis=1) if k < width else np.broadcast_to(np.arange(width), x.shape)
        top = order[:, width - k :]
        top = np.take_along_axis(top, np.argsort(-np.take_along_axis(x, top, axis=1), axis=1, kind="stable"), axis=1)
        squares, counts = np.take_along_axis(x, top, axis=1), n[top]
        rest, weights = np.take_along_axis(x, order[:, : width - k], axis=1), n[order[:, : width - k]]
    sums = np.zeros((len(x), _POWERS))
    ceiling = np.zeros(len(x))
    if k < width:
        ceiling = rest.max(axis=1)
        y = rest / np.where(ceiling > 0, ceiling, 1)[:, None]
        power = y.copy() if weights is None else y * weights
        sums[:, 0] = power.sum(axis=1)
        # High powers of these squares underflow; `_remainder` bounds them by their first power.
        y[y < _NEGLIGIBLE] = 0
        for p in range(1, _POWERS):
            power *= y
            sums[:, p] = power.sum(axis=1)
    return _ScaledRows(unit, squares, counts, ceiling, sums, norms, lengths)


def _by_blocks(
    a: Floats,
    n: Floats | None,
    solve: Callable[[_ScaledRows, Indices], tuple[Floats, npt.NDArray[np.bool_]]],
    single: Callable[[Floats, Indices], Floats],
    *,
    scaled: bool,
    zero: float = 0.0,
) -> Floats:
    """Return one number per row, (J,): zeros and single noises in closed form, the others by `solve`, in blocks.

    `solve` marks rows with a tight answer. The others are reduced again, with four times as many squares one by one.

    scaled: True if its answers are in units of a row's largest coefficient.
    zero: The number of a row of zeros.
    """
    out = np.full(len(a), zero)
    # A column of multiplicity 0 is no noise, and must not set the unit of its row.
    if n is not None and (n == 0).any():
        a, n = a[:, n > 0], n[n > 0]
    if not a.shape[1]:
        return out
    for start, stop in _spans(len(a), max(64, _ENTRIES // max(a.shape[1], _DIRECT))):
        x = np.abs(a[start:stop])
        unit = x.max(axis=1)
        if not np.isfinite(unit).all():
            raise ReleaseError(
                "coefficients-not-finite",
                "A coefficient is not a finite number.",
                "",
                "Give finite coefficients.",
                "Nothing was computed.",
            )
        if ((unit > 0) & ((unit < 1 / _RANGE) | (unit > _RANGE))).any():
            raise ReleaseError(
                "coefficients-out-of-range",
                f"The largest coefficient of a row is neither 0 nor between {1 / _RANGE:.0e} and {_RANGE:.0e}.",
                "",
                "Scale the coefficients of the row.",
                "Nothing was computed.",
            )
        support = x > 0
        noises = support.sum(axis=1) if n is None else support @ n
        single_rows = np.flatnonzero(noises == 1)
        out[start + single_rows] = single(unit[single_rows], start + single_rows)
        todo = np.flatnonzero(noises > 1)
        k = _DIRECT
        best = np.full(len(x), np.inf)
        while todo.size:
            done = np.ones(todo.size, dtype=bool)
            for i, j in _spans(todo.size, max(1, 4 * _ENTRIES // x.shape[1])):
                part = todo[i:j]
                relative = np.where(support[part], np.maximum(x[part] / unit[part, None], _MIN_COEFFICIENT), 0)
                rows = _reduced(unit[part], relative, n, k)
                values, done[i:j] = solve(rows, start + part)
                # Every value is proven, so the least of them is.
                best[part] = np.minimum(best[part], values)
            out[start + todo] = best[todo] * unit[todo] if scaled else best[todo]
            if k >= x.shape[1]:
                break
            todo, k = todo[~done], 4 * k
    return out


def _spans(total: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(0, total, step):
        yield start, min(start + step, total)


def _lattice(rows: _ScaledRows, t: float) -> tuple[Floats, Floats]:
    """Return δ, in units of the largest coefficient, and ρ of the step to continuous noise, (R,) each."""
    # ρ = exp(−3δ²/Σa²) gives δ. For δ = Σ|a| even ρ = 0 holds.
    loss = 1 / (12 * max(t, 1.0))
    shift = np.sqrt(rows.norms * -np.log(loss) / 3)
    covers_all = rows.lengths <= shift
    return np.where(covers_all, rows.lengths, shift) * (1 + 1e-12), np.where(covers_all, 0.0, loss)


# ----------------------------------------------------------------------------------------------------- on the real line


def _log_moment(rows: _ScaledRows, u: Floats, skip: int) -> Floats:
    """Return an upper bound of log M(u), without the `skip` largest columns, (R,)."""
    value, slope, _ = _cumulants(rows, u, skip)
    # Covers the rounding of the sum, and of u next to the pole, where log M is steep.
    value = value + 1e-14 * (rows.squares.shape[1] + np.abs(value) + u * slope)
    return np.asarray(value + _remainder(rows, rows.ceiling * u * u, _POWERS), dtype=np.float64)


def _cumulants(rows: _ScaledRows, u: Floats, skip: int) -> tuple[Floats, Floats, Floats]:
    """Return approximations of log M(u) and two derivatives, without the `skip` largest columns, (R,) each."""
    w = u * u
    x, n = rows.squares[:, skip:], rows.counts[:, skip:]
    # At the pole of the largest column, rounding would leave the range of the logarithm.
    v = np.minimum(x * w[:, None], 1 - 1e-15)
    away = 1 - v
    terms = n * x / away
    slope = 2 * u * terms.sum(axis=1)
    curvature = 2 * np.einsum("rk,rk->r", terms, (1 + v) / away)
    value = -np.einsum("rk,rk->r", n, np.log1p(-v))
    if rows.ceiling.any():
        inner = np.minimum(rows.ceiling * w, 1.0)
        p = np.arange(1, _POWERS + 1)
        powers = rows.sums * np.vander(inner, _POWERS, increasing=True)
        value += inner * (powers / p).sum(axis=1)
        slope += 2 * u * rows.ceiling * powers.sum(axis=1)
        curvature += 2 * rows.ceiling * (powers * (2 * p - 1)).sum(axis=1)
    return value, slope, curvature


def _remainder(rows: _ScaledRows, ratio: Floats, powers: int) -> Floats:
    """Return a bound of Σ_{p>powers} of the power sums and of the omitted squares.

    ratio: b²|z|² of the ceiling.
    """
    shape = (slice(None),) + (None,) * (ratio.ndim - 1)
    inner = np.minimum(ratio, 0.999)
    later = rows.sums[:, powers - 1][shape] * inner ** (powers + 1) / ((powers + 1) * (1 - inner))
    dropped = _NEGLIGIBLE * rows.sums[:, 0][shape] * ratio**2
    return np.where((ratio > 0.999) & (rows.sums[:, 0][shape] > 0), np.inf, later + dropped)


def _bisected(
    low: float, high: float, size: int, steps: int, is_left_of: Callable[[Floats], npt.NDArray[np.bool_]]
) -> Floats:
    """Return the point of each of `size` rows at which `is_left_of` turns false, by bisection."""
    lows, highs = np.full(size, low), np.full(size, high)
    for _ in range(steps):
        middle = (lows + highs) / 2
        go = is_left_of(middle)
        lows, highs = np.where(go, middle, lows), np.where(go, highs, middle)
    return np.asarray((lows + highs) / 2, dtype=np.float64)


def _sigmoid(v: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-v)), dtype=np.float64)


def _saddle(rows: _ScaledRows, c: Floats) -> tuple[Floats, Floats]:
    """Return the m whose integrand exp(−mz) M(z)/z has its saddle at c, and log P(X > m) by approximation there."""
    value, slope, curvature = _cumulants(rows, c, 0)
    m = slope - 1 / c
    return m, value - c * m - np.log(c) - np.log(2 * np.pi * (curvature + 1 / c**2)) / 2


# --------------------------------------------------------------------------------------------------------- the integral


@dataclass(frozen=True)
class _Line:
    """Lines Re z = c by row, with step, number of nodes, and the points of Chernoff's bound, (R,) each."""

    c: Floats
    nodes: Floats
    """Number of nodes needed on one side; infinite if the line cannot be used."""
    end: Floats
    """S, the height of the last node."""
    left_u: Floats
    right_u: Floats
    left_log: Floats
    right_log: Floats
    """log M(u) at left_u and right_u; for the moved line that of the rest, less log 2."""
    base: Floats
    """log of A exp(m / b₁) for the moved line, otherwise −∞."""

    def take(self, which: Indices | npt.NDArray[np.bool_] | slice) -> _Line:
        return _Line(*(getattr(self, f.name)[which] for f in fields(self)))


def _line(rows: _ScaledRows, m: Floats, log_p: Floats, skip: int, aim: float) -> _Line:
    """Return a good line for a tail near exp(log_p) beyond m: left of all poles, or (skip = 1) past the first.

    aim: The part of the tail that the terms j ≠ 0 may add, and the truncation too.
    """
    # In units of 1/b₁: the line lies between 0 and the pole at 1, or past the pole and below 1/b₂.
    top = np.ones(len(rows)) if not skip else np.minimum(1 / np.sqrt(rows.squares[:, 1]), _FARTHEST)
    # Short of the pole, and within reach of the power sums.
    top = np.minimum(top * (1 - 1e-9), np.sqrt(_REACH / np.maximum(rows.ceiling, 1e-300)))

    def point(v: Floats) -> Floats:
        return skip + (top - skip) * _sigmoid(v)

    def below(v: Floats) -> npt.NDArray[np.bool_]:
        c = point(v)
        # The integrand has its saddle where this slope is 0; past the pole, the factor 1/(1 − c²) of b₁ adds a term.
        slope: Floats = _cumulants(rows, c, skip)[1] - m - 1 / c
        return (slope - 2 * c / (c * c - 1) if skip else slope) < 0

    c = point(_bisected(-32, 24, len(rows), 22, below))
    _, _, second = _cumulants(rows, c, skip)
    width = np.sqrt(second + 1 / c**2 + (2 * (c * c + 1) / (c * c - 1) ** 2 if skip else 0))
    left_u, right_u, left_log, right_log = c * 0, c * 0, c * 0, c * 0
    periods = [np.full(len(rows), np.inf), np.full(len(rows), np.inf)]
    goal = log_p + np.log(aim)
    # Chernoff points at several distances from the line, in units of its width.
    for eta in (1.5, 3.0, 5.0, 8.0, 16.0):
        for side in (0, 1):
            step = eta / width
            u = np.maximum(c - step, skip) if side == 0 else c + (top - c) * step / (step + top - c)
            log_u = _log_moment(rows, u, skip) - (np.log(2) if skip else 0)
            period = np.logaddexp(0, log_u - u * m - goal) / np.abs(u - c)
            better = period < periods[side]
            periods[side] = np.where(better, period, periods[side])
            if side == 0:
                left_u, left_log = np.where(better, u, left_u), np.where(better, log_u, left_log)
            else:
                right_u, right_log = np.where(better, u, right_u), np.where(better, log_u, right_log)
    # Chernoff's inequality bounds the terms j ≠ 0 on both sides, so the longer period serves both.
    period = np.maximum(periods[0], periods[1])
    end, fits = _height(rows, c, width, m, goal, top)
    nodes = np.where(fits, np.ceil(end * period / (2 * np.pi)), np.inf)
    base = np.full(len(rows), -np.inf) if not skip else _log_moment(rows, np.ones(len(rows)), 1) - np.log(2)
    return _Line(
        c=c, nodes=nodes, end=end, left_u=left_u, right_u=right_u, left_log=left_log, right_log=right_log, base=base
    )


def _height(
    rows: _ScaledRows, c: Floats, width: Floats, m: Floats, goal: Floats, top: Floats
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the height S at which the truncation falls to exp(goal), and True if S is within reach."""
    b = np.sqrt(rows.squares)
    minus, plus = (1 - b * c[:, None]) ** 2, (1 + b * c[:, None]) ** 2
    room = np.where(rows.ceiling > 0, _RATIO / np.where(rows.ceiling > 0, rows.ceiling, 1) - c * c, 1e12 * top**2)
    bottom, lid = np.log(0.05 / width), np.log(np.sqrt(np.maximum(room, 0)) + 0.05 / width)

    def high(fraction: Floats) -> npt.NDArray[np.bool_]:
        s = np.exp(bottom + fraction * (lid - bottom))
        high_squares = rows.squares * (s * s)[:, None]
        size: Floats = -np.einsum("rk,rk->r", rows.counts, np.log((minus + high_squares) * (plus + high_squares))) / 2
        if rows.ceiling.any():
            size += _series(rows, ((c + 1j * s) ** 2)[:, None], _POWERS)[:, 0].real
        size -= m * c + np.log(np.pi * _falls(rows, c, s))
        return size > goal

    fraction = _bisected(0.0, 1.0, len(rows), 14, high)
    return np.exp(bottom + fraction * (lid - bottom)), (room > 0) & (fraction < 0.9999)


def _falls(rows: _ScaledRows, c: Floats, s: Floats) -> Floats:
    """Return a lower bound of q = −d log|M(c + is)| / d log s that grows with s, (R,)."""
    b = np.sqrt(rows.squares)
    high = rows.squares * (s * s)[:, None]
    minus, plus = (1 - b * c[:, None]) ** 2 + high, (1 + b * c[:, None]) ** 2 + high
    direct = np.einsum("rk,rk->r", rows.counts, high * (1 / minus + 1 / plus))
    lifted = rows.ceiling * s * s
    rest = 2 * lifted * rows.sums[:, 0] / ((1 + np.sqrt(rows.ceiling) * c) ** 2 + lifted)
    return np.asarray((direct + rest) * (1 - 1e-12), dtype=np.float64)


def _series(rows: _ScaledRows, w: Complexes, powers: int) -> Complexes:
    """Return Σ_{p ≤ powers} of the power sums at w = z², (R, K)."""
    y = w * rows.ceiling[:, None]
    out = np.zeros_like(y)
    for p in range(powers, 0, -1):
        out += (rows.sums[:, p - 1] / p)[:, None]
        out *= y
    return out


def _exp(x: Floats) -> Floats:
    """Return an upper bound of exp(x), with an allowance for rounding in x; ∞ for large x."""
    return np.where(x > 300, np.inf, np.exp(np.minimum(x, 300)) * (1 + 1e-6))


class _Integral:
    """The sum over the nodes of a line, for rows that need equally many nodes: M is evaluated once, m may vary."""

    def __init__(self, rows: _ScaledRows, line: _Line, nodes: int) -> None:
        self.line = line
        self.step = line.end / nodes
        self.z = line.c[:, None] + 1j * (self.step[:, None] * np.arange(nodes + 1))
        w = self.z * self.z
        log_m = np.zeros_like(w)
        # One logarithm for 16 factors, which stay far from overflow. Multiples of 2πi vanish in the exponential.
        pending = np.ones_like(w)
        lone = (rows.counts == 1).all(axis=0)
        gathered = 0
        for i in range(rows.squares.shape[1]):
            v = w * rows.squares[:, i, None]
            if lone[i]:
                pending *= 1 - v
                gathered += 1
                if gathered == 16:
                    log_m -= np.log(pending)
                    pending[:] = 1
                    gathered = 0
            else:
                # log|1 − v| by log1p: a large multiplicity magnifies the rounding of 1 − v.
                distance = np.log1p(v.real * (v.real - 2) + v.imag**2) / 2
                log_m -= rows.counts[:, i, None] * (distance + 1j * np.arctan2(-v.imag, 1 - v.real))
        if gathered:
            log_m -= np.log(pending)
        size = np.abs(w)
        x = rows.squares
        slope = np.einsum("rk,rk->r", rows.counts * x, 1 / np.abs(1 - x * (line.c**2)[:, None]))
        self.rounding = np.zeros_like(size)
        # The rounding of log1p next to a pole.
        pole_terms = np.where(lone, 0.0, rows.counts) * x / (1 - x * (line.c**2)[:, None]) ** 2
        if rows.ceiling.any():
            ratio = rows.ceiling[:, None] * size
            # The powers left out are below e⁻³², the rounding of double precision.
            powers = int(np.clip(np.ceil(-32 / np.log(np.clip(ratio.max(), 1e-16, 0.9))), 1, _POWERS))
            log_m += _series(rows, w, powers)
            left_out = _remainder(rows, ratio, powers)
            self.rounding = np.where(left_out > 1, np.inf, 2 * left_out)
            slope = slope + 4 * rows.ceiling * rows.sums[:, 0]
        self.rounding += 4 * _UNIT * pole_terms.sum(axis=1)[:, None] * size
        self.rounding += _UNIT * (64 + 8 * x.shape[1] + 8 * size * slope[:, None] + 4 * np.abs(log_m))
        self.exponent = log_m - np.log(self.z)
        with np.errstate(divide="ignore"):
            q = _falls(rows, line.c, line.end)
            self.cut = log_m[:, -1].real + np.log1p(self.rounding[:, -1]) - np.log(np.pi * np.maximum(q, 1e-300))

    def __call__(self, m: Floats, log_p: Floats) -> tuple[Floats, Floats, Floats]:
        """Return an upper bound of P(X > m) / exp(log_p), the density on that scale, and the bound's excess."""
        line = self.line
        with np.errstate(over="ignore", under="ignore"):
            terms = np.exp(self.exponent - m[:, None] * self.z - log_p[:, None])
            # The terms of k and −k are conjugate, so their sum is twice the real part.
            terms[:, 1:] *= 2
            terms *= (self.step / (2 * np.pi))[:, None]
            allowance = self.rounding + 8 * _UNIT * m[:, None] * np.abs(self.z)
            # A term that underflows keeps an allowance.
            off = (np.maximum(np.abs(terms), 1e-300) * allowance).sum(axis=1)
            value = terms.real.sum(axis=1)
            density = (terms * self.z).real.sum(axis=1)
            # A bound on the truncated nodes, with q at the end of the line.
            cut = _exp(self.cut - m * line.c - log_p)
            period = 2 * np.pi / self.step
            wraps = sum(
                _exp(log_u - u * m - log_p) / np.expm1(np.minimum(np.abs(u - line.c) * period, 700))
                for u, log_u in ((line.left_u, line.left_log), (line.right_u, line.right_log))
            )
            is_past = np.isfinite(line.base)
            # Past the pole, A is the residue, and −R(m) is the integral along the line.
            residue = np.where(is_past, np.exp(np.where(is_past, line.base, 0.0) - m - log_p), 0.0) * (1 + 1e-12)
            # Before the pole the terms j ≠ 0 are nonnegative, so the sum is a bound without them.
            upper = residue + value + np.where(is_past, wraps, 0.0) + cut + off
        return upper, np.maximum(residue + density, 0), wraps + 2 * (cut + off) + 1e-12 * residue


def _lines(rows: _ScaledRows, m: Floats, log_p: Floats, aim: float) -> _Line:
    """Return, for each row, the one of two lines that has fewer nodes."""
    line = _line(rows, m, log_p, 0, aim)
    if rows.squares.shape[1] < 2:
        return line
    second = rows.squares[:, 1]
    # Only a simple pole has this residue, and the line needs room before the next pole.
    has_gap = (rows.counts[:, 0] == 1) & (second < _GAP) & (second > 0) & (rows.ceiling < 0.9 * _REACH)
    which = np.flatnonzero(has_gap & (line.nodes > 6))
    if which.size:
        subset = rows.take(which)
        past = _line(subset, m[which], log_p[which], 1, aim)
        fewer = (past.nodes < line.nodes[which]) & (past.base - m[which] < log_p[which] + 5)
        chosen = which[fewer]
        for f in fields(_Line):
            getattr(line, f.name)[chosen] = getattr(past, f.name)[fewer]
    return line


def _grouped(rows: _ScaledRows, line: _Line) -> Iterator[tuple[Indices, _Integral]]:
    """Yield the rows with a usable line, grouped by number of nodes, with their integrals."""
    # Rows are evaluated with rounded-up numbers of nodes, so that few different arrays are built.
    sizes = [4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, _MAX_NODES]
    classes = np.searchsorted(sizes, np.minimum(line.nodes, _MAX_NODES))
    for number in np.unique(classes):
        which = np.flatnonzero((classes == number) & np.isfinite(line.nodes))
        for i, j in _spans(which.size, max(1, 2**15 // sizes[number])):
            part = which[i:j]
            yield part, _Integral(rows.take(part), line.take(part), sizes[number])


def _quantiles(rows: _ScaledRows, log_p: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return proven m with P(X_L > m) ≤ exp(log_p), in units of b₁, and True if they are tight, (R,) each."""
    c = _sigmoid(_bisected(-32, 24, len(rows), 20, lambda v: _saddle(rows, _sigmoid(v))[1] > log_p))
    m = np.maximum(_saddle(rows, c)[0], 0.01 * np.sqrt(rows.norms))
    safe = _safe(rows, c)
    # Chernoff's m is proven, and stays if no line gives a smaller one.
    best = (_log_moment(rows, safe, 0) - log_p) / safe
    wrong = np.full(len(rows), np.inf)
    todo = np.arange(len(rows))
    for attempt in range(_ROUNDS):
        subset = rows.take(todo)
        # Each round allots less to wraps and truncation, for the rows whose bracket is too wide.
        line = _lines(subset, m[todo], log_p[todo], _LOSS * 0.3**attempt)
        for part, integral in _grouped(subset, line):
            which = todo[part]
            quantiles, off = _solved(integral, m[which], log_p[which], np.sqrt(rows.norms[which]))
            better = quantiles < best[which]
            best[which] = np.where(better, quantiles, best[which])
            m[which] = np.where(np.isfinite(quantiles), quantiles, m[which])
            wrong[which] = np.where(better, off, wrong[which])
        todo = todo[wrong[todo] > _BRACKET_TOLERANCE]
        if not todo.size:
            break
    return best, wrong <= _BRACKET_TOLERANCE


def _solved(integral: _Integral, m: Floats, log_p: Floats, sigma: Floats) -> tuple[Floats, Floats]:
    """Return m by Newton's steps on the logarithm, then by small steps up until the bound holds; ∞ if it does not."""
    c = integral.line.c
    aim = 1 - 1e-7
    for _ in range(6):
        upper, density, _ = integral(m, log_p)
        upper = np.maximum(upper, 1e-300)
        rate = np.clip(density / upper, np.minimum(0.1 * c, 0.1), 1.0)
        m = np.maximum(m + np.clip(np.log(upper / aim) / rate, -0.5 * m, 2 * m + sigma), 0)
    upper, _, off = integral(m, log_p)
    for lift in range(4):
        late = upper > 1
        if not late.any():
            break
        m = np.where(late, m * (1 + 1e-6 * 4**lift) + 1e-9 * sigma, m)
        upper, _, off = integral(m, log_p)
    # Only an m whose proven bound holds is returned; Newton's steps prove nothing.
    return np.where(upper <= 1, m, np.inf), off


def _safe(rows: _ScaledRows, c: Floats) -> Floats:
    """Return points at which Chernoff's bound is finite: c, or less if c is out of reach of the power sums."""
    return np.minimum(c, np.sqrt(0.9 / np.maximum(rows.ceiling, 1e-300)))


def _tails(rows: _ScaledRows, m: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return upper bounds of log P(X_L > m), m in units of b₁, and True if they are tight, (R,) each."""
    usable = m > 1e-9 * np.sqrt(rows.norms)
    points = np.where(usable, m, np.sqrt(rows.norms))

    def below(v: Floats) -> npt.NDArray[np.bool_]:
        c = _sigmoid(v)
        return _cumulants(rows, c, 0)[1] - 1 / c < points

    c = _sigmoid(_bisected(-32, 24, len(rows), 26, below))
    log_p = np.minimum(_saddle(rows, c)[1], 0)
    safe = _safe(rows, c)
    best = np.minimum(_log_moment(rows, safe, 0) - safe * points, 0.0)
    log_p = np.minimum(log_p, best)
    wrong = np.full(len(rows), np.inf)
    todo = np.flatnonzero(usable & (best > -800))
    # The exponential of such a bound is 0 in floating point, so a tighter one changes nothing.
    wrong[best <= -800] = 0
    for attempt in range(_ROUNDS):
        subset = rows.take(todo)
        for part, integral in _grouped(subset, _lines(subset, points[todo], log_p[todo], _LOSS * 0.3**attempt)):
            which = todo[part]
            upper, _, off = integral(points[which], log_p[which])
            log_tails = np.log(np.maximum(upper, 1e-300)) + log_p[which]
            better = log_tails < best[which]
            best[which] = np.where(better, log_tails, best[which])
            wrong[which] = np.where(better, off / np.maximum(upper, 1e-300), wrong[which])
        log_p = np.minimum(log_p, best)
        todo = todo[wrong[todo] > _BRACKET_TOLERANCE]
        if not todo.size:
            break
    return np.where(usable, best, 0.0), (wrong <= _BRACKET_TOLERANCE) | ~usable
