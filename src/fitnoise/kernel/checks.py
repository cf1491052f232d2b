"""Numbers and names that were given, checked once. True is no number, here and everywhere."""

from __future__ import annotations

import math
import re
import sys
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
    if isinstance(x, int):
        return not isinstance(x, bool) and abs(x) <= sys.float_info.max
    return isinstance(x, float | np.integer | np.floating)


def is_name(x: object) -> TypeGuard[str]:
    """Whether it is a printable text in composed Unicode (NFC), not empty, without spaces around it.

    What is summed under a name has one spelling of it.
    """
    return isinstance(x, str) and x.isprintable() and x == x.strip() != "" and unicodedata.is_normalized("NFC", x)


_LOOK_ALIKES = {
    **str.maketrans("АВЕЅІЈКМНОРСТУҮХавеѕіјкмнорстуүхһӏԁԛԝ", "ABESIJKMHOPCTYYXabesijkmhopctyyxhldqw"),  # Cyrillic
    **str.maketrans("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿαγηικνορστυχϲϳ", "ABEZHIKMNOPTYXCJaynikvopotuxcj"),  # Greek
    **str.maketrans("ıɑɡ‐‑‒–—―−’ʼ", "iag-------''"),  # Latin, dashes, apostrophes
    **dict.fromkeys((0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0)),  # printable, and nothing is seen
    **dict.fromkeys((*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))),  # likewise
}
"""Characters that are taken for another: what a person types, or is tricked into reading, in the scripts that hold most
of them. A table of its own: the whole of Unicode's (UTS 39) takes "rn" for "m", too, and "1" for "l" anywhere: "wave1"
would be refused beside "wavel"."""

_WITHIN = re.compile(r"(?<=[^\W\d_])[I1|0]+(?=[^\W\d_])")
"""What is read as letters between two letters: "peop1e", "peopIe", "he11o"."""

_LETTERS = str.maketrans("I1|0", "lllo")


def look_alike(one: str, other: str) -> bool:
    """Whether two names are read as one: they differ at most in case, width, spaces, dashes, or look-alike letters.

    Two skeletons are compared, of which one does: that of Unicode's compatibility form (NFKC) in folded case, and the
    same with the letters of other scripts, and digits within words, replaced by the Latin letters that they look like.
    An equivalence within each.

    Source: Unicode Technical Standard 39, section 4, whose skeletons keep case.
    """
    return any(x == y for x, y in zip(_skeletons(one), _skeletons(other), strict=True))


def _skeletons(name: str) -> tuple[str, str]:
    """The name as it is read aloud, and as it looks."""
    plain = " ".join(unicodedata.normalize("NFKC", name).split())
    seen = _WITHIN.sub(lambda found: found[0].translate(_LETTERS), plain.translate(_LOOK_ALIKES))
    return plain.casefold(), seen.casefold()


def checked_whole(name: str, value: object, least: int = 1) -> int:
    """A whole number, at least the least; WorkloadError otherwise."""
    if not is_whole(value) or value < least:
        raise WorkloadError(
            "not-a-whole-number",
            f"The value of {name} is {value!r}.",
            f"It must be a whole number of {least} or more.",
            f"Give a whole number of {least} or more.",
            "Nothing was made.",
            place=name,
        )
    return int(value)


def checked_positive(name: str, value: object) -> float:
    """A positive finite number, as a float; WorkloadError otherwise."""
    if not is_real(value) or not 0 < value < math.inf:
        raise WorkloadError(
            "not-a-positive-number",
            f"The value of {name} is {value!r}.",
            "It must be a finite number above 0.",
            "Give a finite number above 0.",
            "Nothing was made.",
            place=name,
        )
    return float(value)


def is_digest(text: object) -> bool:
    """Return True for a SHA-256 in hexadecimal digits, in lower case."""
    return isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text) is not None
