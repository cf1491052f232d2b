"""Arguments, checked once."""

from __future__ import annotations

import numpy as np

from fitnoise.errors import WorkloadError


def checked_whole(name: str, value: int) -> int:
    """A whole number of 1 or more; WorkloadError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise WorkloadError(f"{name} must be a whole number, at least 1; got {value!r}. Nothing was planned.")
    return int(value)
