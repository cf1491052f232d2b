"""Checks of given numbers and names, in one place. True is not a number, here and everywhere."""

from __future__ import annotations

import abc
import math
import re
import sys
import unicodedata
from inspect import get_annotations
from numbers import Rational
from typing import Any, TypeGuard

import numpy as np

from fitnoise.errors import WorkloadError

MAX_TEXT_SHOWN = 40
"""The largest number of characters of a text that an error shows."""


def is_integer(x: object) -> TypeGuard[int | np.integer]:
    """Return True if `x` is a whole number of Python or NumPy."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def is_plain(x: object) -> TypeGuard[int | float]:
    """Return True if `x` is a number of Python, as documents hold numbers; `x` may be infinite or NaN."""
    return isinstance(x, int | float) and not isinstance(x, bool)


def is_real(x: object) -> TypeGuard[int | float | np.integer | np.floating]:
    """Return True if `x` is a number of Python or NumPy in the range of doubles; a float may be infinite or NaN."""
    if isinstance(x, int):
        # A larger integer would raise OverflowError where it becomes a float.
        return not isinstance(x, bool) and abs(x) <= sys.float_info.max
    return isinstance(x, float | np.integer | np.floating)


def is_name(x: object) -> TypeGuard[str]:
    """Return True if `x` is a printable text in composed Unicode (NFC), not empty, without spaces around it."""
    # Costs are summed by name, so two spellings that look the same must not be two names: NFC has one "é".
    return isinstance(x, str) and x.isprintable() and x == x.strip() != "" and unicodedata.is_normalized("NFC", x)


_LOOK_ALIKES = {
    **str.maketrans("АВЕЅІЈКМНОРСТУҮХавеѕіјкмнорстуүхһӏԁԛԝ", "ABESIJKMHOPCTYYXabesijkmhopctyyxhldqw"),  # Cyrillic
    **str.maketrans("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿαγηικνορστυχϲϳ", "ABEZHIKMNOPTYXCJaynikvopotuxcj"),  # Greek
    **str.maketrans("ıɑɡ‐‑‒–—―−’ʼ", "iag-------''"),  # Latin, dashes, apostrophes
    **dict.fromkeys((0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0)),  # printable, and nothing is seen
    **dict.fromkeys((*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))),  # not seen either
}
"""Characters that are taken for another: a person types them, or is tricked into reading them.

The table covers the scripts that hold most of them. The complete table of Unicode (UTS 39) takes "rn" for "m", too, and
"1" for "l" anywhere. It would refuse "wave1" where "wavel" exists.
"""

_DIGITS_AS_LETTERS = re.compile(r"(?<=[^\W\d_])[I1|0]+(?=[^\W\d_])")
"""The digits and signs that are read as letters between two letters: "peop1e", "peopIe", "he11o"."""

_LETTERS = str.maketrans("I1|0", "lllo")


def are_confusable(name: str, other_name: str) -> bool:
    """Return True if two names are read as one.

    Such names differ at most in case, width, spaces, dashes, or look-alike letters. The function compares two
    skeletons, of which one suffices. The first is Unicode's compatibility form (NFKC) in folded case. In the second,
    the letters of other scripts, and digits within words, are replaced by the Latin letters that they look like. To
    have equal first skeletons is an equivalence relation, and so it is for the second.

    Source: Unicode Technical Standard 39, section 4, whose skeletons keep case.
    """
    return any(x == y for x, y in zip(_skeletons(name), _skeletons(other_name), strict=True))


def _skeletons(name: str) -> tuple[str, str]:
    """Return two texts that replace the name in comparisons: the name as it is read aloud, and as it looks."""
    normal = " ".join(unicodedata.normalize("NFKC", name).split())
    seen = _DIGITS_AS_LETTERS.sub(lambda match: match[0].translate(_LETTERS), normal.translate(_LOOK_ALIKES))
    # Case is folded last: the Greek capital Η looks like H, and its lower case η like n.
    return normal.casefold(), seen.casefold()


def checked_integer(name: str, value: object, minimum: int = 1) -> int:
    """Return `value` as an int if it is a whole number of `minimum` or more; raise WorkloadError otherwise."""
    if not is_integer(value) or value < minimum:
        raise WorkloadError(
            "not-a-whole-number",
            f"The value of {name} is {value!r}.",
            f"It must be a whole number of {minimum} or more.",
            f"Give a whole number of {minimum} or more.",
            "Nothing was made.",
            place=name,
        )
    return int(value)


def checked_positive(name: str, value: object) -> float:
    """Return `value` as a float if it is a positive finite number; raise WorkloadError otherwise."""
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


def describe_value(value: Any) -> str:
    """Return a text or a number as it is, up to `MAX_TEXT_SHOWN` characters; for anything else, the type."""
    kind = type(value)
    if value is None:
        return "None"
    if not (isinstance(value, (str, bool, Rational)) or kind is float):
        return f"an object of type {kind.__name__}"
    try:
        text = repr(value)
    except ValueError:  # more digits than Python writes
        return "a number of too many digits"
    return text if len(text) <= MAX_TEXT_SHOWN else text[:MAX_TEXT_SHOWN] + "…"


def is_digest(text: object) -> bool:
    """Return True for a SHA-256 in hexadecimal digits, in lower case."""
    return isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text) is not None


def refuse_incomplete(cls: type) -> None:
    """Raise TypeError if a class lacks a member that an abstract base names: a method, a property or a `ClassVar`.

    Python itself would refuse it only when the first object is made. A class with the direct base ABC is abstract.
    """
    if abc.ABC in cls.__bases__:
        return
    hints = (item for c in cls.__mro__[1:] for item in get_annotations(c).items())
    lacking = {name for name, hint in hints if "ClassVar" in str(hint) and not hasattr(cls, name)}
    lacking |= {x for x in dir(cls) if getattr(getattr(cls, x, None), "__isabstractmethod__", False)}
    if lacking:
        raise TypeError(f"The class {cls.__name__} lacks {', '.join(sorted(lacking))}.")
