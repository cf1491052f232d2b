"""Numbers and names that were given, checked once. True is no number, here and everywhere."""

from __future__ import annotations

import math
import unicodedata
from typing import TypeGuard

import numpy as np

from fitnoise.errors import WorkloadError


def is_whole(x: object) -> TypeGuard[int | np.integer]:
    """Whether it is a whole number, of Python or NumPy."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def is_plain(x: object) -> TypeGuard[int | float]:
    """Whether it is a number of Python, as documents hold them; it may be infinite, or none (NaN)."""
    return isinstance(x, int | float) and not isinstance(x, bool)


def is_real(x: object) -> TypeGuard[int | float | np.integer | np.floating]:
    """Whether it is a number that floats can say, of Python or NumPy; it may be infinite, or none (NaN)."""
    return is_plain(x) or isinstance(x, np.integer | np.floating)


def is_name(x: object) -> TypeGuard[str]:
    """Whether it is a printable text in composed Unicode (NFC), not empty, without spaces around it.

    What is summed under a name has one spelling of it.
    """
    return isinstance(x, str) and x.isprintable() and x == x.strip() != "" and unicodedata.is_normalized("NFC", x)


def checked_whole(name: str, value: object, least: int = 1) -> int:
    """A whole number, at least the least; WorkloadError otherwise."""
    if not is_whole(value) or value < least:
        raise WorkloadError(f"{name} must be a whole number, at least {least}; got {value!r}. Nothing was made.")
    return int(value)


def checked_positive(name: str, value: object) -> float:
    """A positive finite number, as a float; WorkloadError otherwise."""
    if not is_real(value) or not 0 < value < math.inf:
        raise WorkloadError(f"{name} must be a positive finite number; got {value!r}. Nothing was made.")
    return float(value)
