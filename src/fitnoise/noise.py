"""The one door through which chance enters: exact discrete Gaussian noise.

Nothing else in fitnoise draws a random number. There is no seed to give, no generator to choose and no
fallback: if the system's randomness fails, no noise is drawn and an error says so. Tests that need the same
noise twice replace this function from outside.

What is relied on:

- **The distribution.** OpenDP's sampler is Algorithm 3 of Canonne, Kamath and Steinke, "The Discrete Gaussian
  for Differential Privacy" (2020) [CKS20], in exact integer and rational arithmetic: no floating point between
  the random bits and the result. Versions before 0.14.2 divided rationals wrongly and sampled something else
  (variance 4.11 at scale 2); the test battery of this file is there to notice should it happen again.
- **The scale.** OpenDP takes a float and converts it exactly; a float is a dyadic rational, so the scale
  sampled with is the scale given, to the last bit.
- **The bits.** OpenDP's published builds draw from OpenSSL's private generator (`RAND_priv_bytes`), which is
  seeded by the operating system and reseeds itself after a fork.
- **The range.** OpenDP computes with unbounded integers and clamps at the bounds of int64 only at the end.
  With scale ≤ 2^55 a bound lies at least 2^8 standard deviations out, and is reached with probability
  < 2 exp(−2^15): less than 10^-14000.

Why the noise is drawn over zeros and handed back, instead of asking OpenDP to add it to the counts: that sum
saturates, and a saturating sum on top of integers that have wrapped is no post-processing of the exact
mechanism. Noise drawn on its own can be added in the arithmetic of the measurement itself, whatever that is.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import opendp.prelude as dp

from fitnoise.errors import FitnoiseError
from fitnoise.strategy import MAX_SCALE

__all__ = ["MAX_SCALE", "discrete_gaussian"]

_CHUNK = 2**16
"""Draws per call of OpenDP: a few MB of Python integers at a time, in calls of about a second."""

dp.enable_features("contrib")  # where OpenDP keeps what has not passed its whole vetting; make_gaussian is there


def discrete_gaussian(scale: float, size: int) -> npt.NDArray[np.int64]:
    """Draw `size` independent integers from N_Z(0, scale²): P(k) ∝ exp(−k² / (2 scale²)).

    Costs 10 to 20 µs a draw, at every scale.

    Args:
        scale: The parameter σ, in units of the measurement: 0 < σ ≤ 2^55. Taken exactly.
        size: How many, at least 0.

    Returns:
        int64 array of shape (size,).

    Raises:
        TypeError: The scale is no `float` or `int`, or the size no `int` or `numpy.integer` (truth values are
            neither).
        ValueError: The scale is not finite, not positive, larger than 2^55, or a whole number that no float
            equals; or the size is negative.
        FitnoiseError: The sampler failed, for want of randomness from the operating system.

    **Guarantees**

    - Exact distribution, on the assumptions in the head of this file: adding the result to integers makes a
      measurement of squared sensitivity s² exactly s²/(2σ²)-zCDP (CKS20, Theorem 14).
    - The variance is at most σ², and equals it to 1e-6 relative from σ = 1 up (CKS20, Section 3).
    - Every call is fresh: no seed, no state that a caller can set, save or restore.
    - No error names the scale.
    """
    if isinstance(scale, bool) or not isinstance(scale, float | int):
        raise TypeError(f"the scale is a {type(scale).__name__}; it needs to be a float; no noise was drawn")
    if not scale > 0:  # also refuses NaN
        raise ValueError("the scale is not a number above 0; no noise was drawn")
    if not scale <= MAX_SCALE:
        raise ValueError("the scale is above 2^55, where noise might not fit in 64 bits; no noise was drawn")
    if float(scale) != scale:
        raise ValueError("the scale is a whole number that no float equals; no noise was drawn")
    if isinstance(size, bool) or not isinstance(size, int | np.integer):
        raise TypeError(f"the size is a {type(size).__name__}; it needs a whole number; no noise was drawn")
    if size < 0:
        raise ValueError("the size is below 0; no noise was drawn")

    noise = np.empty(size, dtype=np.int64)
    for start in range(0, int(size), _CHUNK):
        part = noise[start : start + _CHUNK]
        part[:] = _draw(float(scale), part.size)
    return noise


def _draw(scale: float, size: int) -> npt.NDArray[np.int64]:
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l2_distance(T=float)
    failure = None
    try:
        drawn = dp.m.make_gaussian(*space, scale=scale)([0] * size)
    except dp.OpenDPException as error:
        failure = error.variant
    if failure is not None:  # raised out here: the message of OpenDP, which may name the scale, is not kept
        raise FitnoiseError(f"the noise sampler failed ({failure}); no noise was drawn")
    return np.fromiter(drawn, dtype=np.int64, count=size)  # refuses fewer draws than asked for
