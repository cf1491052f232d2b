"""The noise multiplier of the small-database paper: Nikolov, ICALP 2015, Theorem 2.2."""

from __future__ import annotations

import math

from fitnoise.errors import WorkloadError
from fitnoise.request.curves import gaussian_mu


def paper_multiplier(epsilon: float, delta: float) -> float:
    """Return C = (½ √ε + √(2 ln(1/δ)))/ε, the noise multiplier as printed.

    The exact multiplier is 1/`curves.gaussian_mu(ε, δ)`. The square of C is usually 1.6 to 2.1 times the square of the
    exact multiplier. The formula is meant for ε = O(1), and fails for large ε and δ.

    Raises:
        WorkloadError: ε or δ is out of range, or the multiplier would not be (ε, δ)-private by the exact curve.

    **Guarantees**
        * The result is at least the exact multiplier, up to 1e-10 relative: it is compared at every call.

    Source: Theorem 2.2 of Nikolov, "An improved private mechanism for small databases", ICALP 2015.
    """
    if not (0 < epsilon < math.inf and 0 < delta < 1):
        raise WorkloadError(
            "paper-privacy-out-of-range",
            f"ε is {epsilon!r}, and δ is {delta!r}.",
            "",
            "Give a positive finite ε, and a δ between 0 and 1, both excluded.",
            "Nothing was planned.",
        )
    c = (0.5 * math.sqrt(epsilon) + math.sqrt(2 * math.log(1 / delta))) / epsilon
    # The paper's derivation holds for small ε and δ only, so the printed value is compared with the exact curve.
    if c * gaussian_mu(epsilon, delta) < 1:
        raise WorkloadError(
            "paper-multiplier-not-private",
            f"At ε = {epsilon:g} and δ = {delta:g}, the printed multiplier is not private.",
            "The paper states it for ε = O(1) and small δ.",
            "Use the exact multiplier, 1/gaussian_mu(ε, δ).",
            "Nothing was planned.",
        )
    return c
