"""OpenDP's samplers of discrete Gaussian and Laplace noise, to compare those of releases with. Needs `opendp`.

They stand behind the checks of :mod:`fitnoise.kernel.noise`, where CKS20 is named, and are up to a hundred times
slower: written by others, in another language, from another source of bits. The two ways share no code that draws; the
tests hold both to the exact laws and to each other. Releases do not use these, and neither sampler stands in for the
other.

OpenDP's published builds draw from OpenSSL's private generator (`RAND_priv_bytes`), which is seeded by the operating
system and reseeds itself after a fork. OpenDP before 0.14.2 divided rationals wrongly and sampled something else
(variance 4.11 at scale 2); the test battery is there to notice should either sampler do so again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp

from fitnoise.errors import FitnoiseError
from fitnoise.kernel.arrays import Integers
from fitnoise.kernel.noise import checked_run

_CHUNK = 2**16
"""Draws per call of OpenDP: a few MB of Python integers at a time, in calls of about a second."""

dp.enable_features("contrib")  # where OpenDP keeps what has not passed its whole vetting; its samplers are there


def reference_gaussian(scale: float, size: int) -> Integers:
    """The same law as `discrete_gaussian`, arguments and errors too, drawn by OpenDP at about 10 µs a draw.

    **Guarantees**

    - Exact distribution: OpenDP's sampler is Algorithm 3 of CKS20 in exact integer and rational arithmetic.
    - No error names the scale.
    """
    return _reference(dp.m.make_gaussian, dp.l2_distance(T=float), scale, size)


def reference_laplace(scale: float, size: int) -> Integers:
    """The same law as `discrete_laplace`, arguments and errors too, drawn by OpenDP at about 6 µs a draw.

    A draw outside int64 would be clamped by OpenDP.

    **Guarantees**

    - Exact distribution: OpenDP's sampler is Algorithm 2 of CKS20 in exact integer and rational arithmetic.
    - No error names the scale.
    """
    return _reference(dp.m.make_laplace, dp.l1_distance(T=dp.i64), scale, size)


def _reference(make: Callable[..., Any], metric: Any, scale: float, size: int) -> Integers:
    """What an OpenDP constructor of noise draws, checked."""
    parameter, count = checked_run(scale, size)
    noise = np.empty(count, dtype=np.int64)
    for start in range(0, count, _CHUNK):
        part = noise[start : start + _CHUNK]
        part[:] = _opendp(make, metric, parameter, part.size)
    return noise


def _opendp(make: Callable[..., Any], metric: Any, scale: float, size: int) -> Integers:
    """One call of OpenDP."""
    failure = None
    try:
        drawn = make(dp.vector_domain(dp.atom_domain(T=dp.i64)), metric, scale=scale)([0] * size)
    except dp.OpenDPException as error:
        failure = error.variant
    if failure is not None:  # raised out here: the message of OpenDP, which may name the scale, is not kept
        raise FitnoiseError(
            "reference-sampler-failed",
            f"OpenDP's noise sampler failed ({failure}).",
            "",
            "Choose another noise scale.",
            "No noise was drawn.",
        )
    return np.fromiter(drawn, dtype=np.int64, count=size)  # refuses fewer draws than asked for
