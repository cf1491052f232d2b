"""OpenDP's samplers of discrete Gaussian and Laplace noise, for comparison with those of releases. Needs `opendp`.

They serve the checks of :mod:`fitnoise.kernel.noise`, which names CKS20, and are up to a hundred times slower. Others
wrote them, in another language, with another source of bits. The two samplers share no code that draws. The tests
compare both with the exact laws and with each other. Releases do not use these, and neither sampler replaces the other.

OpenDP's published builds draw from OpenSSL's private generator (`RAND_priv_bytes`). The operating system seeds it, and
it reseeds itself after a fork. OpenDP before 0.14.2 divided rationals wrongly and sampled another law (variance 4.11 at
scale 2). The test battery notices such an error of either sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp

from fitnoise.errors import FitnoiseError
from fitnoise.kernel.arrays import Integers
from fitnoise.kernel.noise import checked_run

# A few MB of Python integers at a time, in calls of about a second.
_CHUNK = 2**16
"""The draws per call of OpenDP."""

# OpenDP keeps its samplers among code that is not fully vetted.
dp.enable_features("contrib")


def reference_gaussian(scale: float, size: int) -> Integers:
    """Return draws of the law of `discrete_gaussian` from OpenDP, with its arguments and errors, about 10 µs a draw.

    A failure of OpenDP raises `FitnoiseError`.

    **Guarantees**

    - The distribution is exact: OpenDP's sampler is Algorithm 3 of CKS20 in exact integer and rational arithmetic.
    - No error names the scale.
    """
    return _reference(dp.m.make_gaussian, dp.l2_distance(T=float), scale, size)


def reference_laplace(scale: float, size: int) -> Integers:
    """Return draws of the law of `discrete_laplace` from OpenDP, with its arguments and errors, about 6 µs a draw.

    A failure of OpenDP raises `FitnoiseError`. OpenDP would clamp a draw outside int64.

    **Guarantees**

    - The distribution is exact: OpenDP's sampler is Algorithm 2 of CKS20 in exact integer and rational arithmetic.
    - No error names the scale.
    """
    return _reference(dp.m.make_laplace, dp.l1_distance(T=dp.i64), scale, size)


def _reference(make: Callable[..., Any], metric: Any, scale: float, size: int) -> Integers:
    """Return the draws of an OpenDP constructor of noise, checked."""
    parameter, count = checked_run(scale, size)
    noise = np.empty(count, dtype=np.int64)
    for start in range(0, count, _CHUNK):
        part = noise[start : start + _CHUNK]
        part[:] = _opendp(make, metric, parameter, part.size)
    return noise


def _opendp(make: Callable[..., Any], metric: Any, scale: float, size: int) -> Integers:
    """Return the draws of one call of OpenDP."""
    failure = None
    try:
        draws = make(dp.vector_domain(dp.atom_domain(T=dp.i64)), metric, scale=scale)([0] * size)
    except dp.OpenDPException as error:
        failure = error.variant
    # Raised out here: the message of OpenDP, which may name the scale, is not kept.
    if failure is not None:
        raise FitnoiseError(
            "reference-sampler-failed",
            f"OpenDP's noise sampler failed ({failure}).",
            "",
            "Choose another noise scale.",
            "No noise was drawn.",
        )
    # The count refuses fewer draws than `size`.
    return np.fromiter(draws, dtype=np.int64, count=size)
