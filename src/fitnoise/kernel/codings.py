"""What a value of the data means: the cell it falls into, in plain Python. Part of the trust kernel.

Every kind of attribute has one of three codings: codes, a range, or cuts. Whatever counts records translates these
three, and is tested against the definitions here.

How values are read, the same from every source:

* numbers in double precision; from text (CSV, Python objects) as decimal numbers, spaces around them ignored. Codes
  that are whole numbers are compared as numbers: "1", "01" and "1.0" are the code 1.
* text codes letter by letter: capitals and spaces count. A whole number is also its decimal text.
* true/false from text as true, t, yes, y, 1 and false, f, no, n, 0, whatever their capitals, spaces around ignored.
* missing: null, NaN, and empty text in CSV, unless "" is a declared code. Infinite numbers are outside every domain.
"""

from __future__ import annotations

import itertools
import math
import numbers
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import final

import numpy as np

from fitnoise.errors import DomainError

Code = str | int | bool
"""What a column of codes holds."""

EXACT = 2**53
"""Whole numbers below this are exact in every format the data may come in."""

SPACES = " \t\n\v\f\r"
"""What is ignored around numbers and truth values."""

TRUE = ("true", "t", "yes", "y", "1")
FALSE = ("false", "f", "no", "n", "0")
"""Texts that are truth values."""

_DIGITS = r"[0-9](?:_?[0-9])*"

_NUMBER = re.compile(rf"\+?-?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
"""Digits may be grouped by single underscores, and a minus may follow a plus: as DuckDB has it."""


@final
@dataclass(frozen=True)
class Codes:
    """A cell for each code; codes are all text, all whole numbers or all true/false.

    shared: for each code the cell it falls into, where several fall into one; None is a cell for each.
    kind: which of these, and so how the data are read.

    Raises:
        DomainError: no codes, codes of mixed or other kinds, ones that no data can hold, or ones that repeat.
    """

    codes: tuple[Code, ...]
    shared: tuple[int, ...] | None = None
    kind: type[Code] = field(init=False)
    _cells: dict[object, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kinds = {type(c) for c in self.codes}
        if not kinds:
            raise DomainError("a categorical attribute needs at least one code; got none.")
        if len(kinds) > 1 or not kinds <= {str, int, bool}:
            names = ", ".join(sorted(k.__name__ for k in kinds))
            raise DomainError(f"codes are all text, all whole numbers or all true/false; got {names}.")
        object.__setattr__(self, "kind", *kinds)
        if not all(encodable(c) for c in self.codes if isinstance(c, str)):
            raise DomainError(
                "a code holds half of a surrogate pair, which no data can hold; write the character itself."
            )
        if any(abs(c) >= EXACT for c in self.codes if isinstance(c, int)):
            raise DomainError("whole-number codes must be below 2^53 in size; declare longer ones as text.")
        refuse_repeated("code", self.codes)
        object.__setattr__(self, "_cells", dict(zip(self.codes, self.cells, strict=True)))

    @property
    def cells(self) -> Sequence[int]:
        """For each code the cell it falls into."""
        return range(len(self.codes)) if self.shared is None else self.shared

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.codes) if self.shared is None else max(self.shared) + 1

    def cell(self, value: object) -> int | None:
        """The cell of the code that a value is; None when it is none."""
        text = written(value)
        if text is None:
            return None
        read = text if self.kind is str else truth(text) if self.kind is bool else number(text)
        return self._cells.get(read)


@final
@dataclass(frozen=True)
class Range:
    """A cell for each whole number from `low` to `high`; with `clip`, smaller ones are `low` and larger ones `high`.

    Raises:
        DomainError: bounds that are not whole numbers below 2^53 in size, `low > high`, or ten million cells and more.
    """

    low: int
    high: int
    clip: bool = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bound = plain(getattr(self, name))
            if isinstance(bound, bool) or not isinstance(bound, int) or abs(bound) >= EXACT:
                raise DomainError(f"{name} must be a whole number below 2^53 in size; got {bound!r}.")
            object.__setattr__(self, name, bound)
        clip = plain(self.clip)
        if not isinstance(clip, bool):
            raise DomainError(f"clip is true or false; got {clip!r}.")
        object.__setattr__(self, "clip", clip)
        if self.low > self.high:
            raise DomainError(f"low must not exceed high; got {self.low} to {self.high}.")
        if self.high - self.low >= 10**7:
            raise DomainError(
                f"the range {self.low} to {self.high} has more than ten million cells; use cut points instead."
            )

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.high - self.low + 1

    def cell(self, value: object) -> int | None:
        """How far a whole number is above `low`; None when it is not in the range, or no whole number."""
        x = number(written(value))
        if x is None or x != math.floor(x):
            return None
        if self.clip:
            x = min(max(x, self.low), self.high)
        return int(x) - self.low if self.low <= x <= self.high else None


@final
@dataclass(frozen=True)
class Cuts:
    """Numbers cut at c₁ < c₂ < … < c_k into k + 1 cells: below c₁, [c₁, c₂), …, c_k or more.

    Raises:
        DomainError: no cuts, cuts that are not finite numbers, or not strictly increasing.
    """

    cuts: tuple[float, ...]

    def __post_init__(self) -> None:
        points = [plain(c) for c in self.cuts]
        if not points:
            raise DomainError("a binned attribute needs at least one cut point; got none.")
        for c in points:
            if isinstance(c, bool) or not isinstance(c, (int, float)) or not math.isfinite(_double(c)):
                raise DomainError(f"cut points are finite numbers; got {c!r}.")
        found = tuple(float(c) + 0.0 for c in points)  # there is one zero
        if any(a >= b for a, b in itertools.pairwise(found)):
            raise DomainError(f"cut points must increase; got {points}.")
        object.__setattr__(self, "cuts", found)

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.cuts) + 1

    def cell(self, value: object) -> int | None:
        """How many cuts a number has reached; None for what is no number."""
        x = number(written(value))
        return None if x is None else sum(c <= x for c in self.cuts)


Coding = Codes | Range | Cuts
"""How the values of a column become cells. There are no others, so that whatever counts has three cases."""


def written(value: object) -> str | None:
    """A value as CSV would hold it; None when it is missing, or nothing that is text, number or truth value."""
    if isinstance(value, str):
        return value if encodable(value) else None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(Decimal(int(value)))  # of an integer itself, Python refuses to write more than 4,300 digits
    if isinstance(value, Decimal):
        return None if value.is_nan() else str(value)
    if isinstance(value, numbers.Real):
        x = _double(value)
        return None if math.isnan(x) else repr(x)
    return None


def number(text: str | None) -> float | None:
    """A decimal number, in double precision; None for other texts, and for numbers that are too large."""
    digits = (text or "").strip(SPACES)
    x = float(digits.replace("+-", "-")) if _NUMBER.fullmatch(digits) else math.inf
    return x if math.isfinite(x) else None


def truth(text: str) -> bool | None:
    """A truth value; None for other texts."""
    word = text.strip(SPACES).lower()
    return True if word in TRUE else False if word in FALSE else None


def plain(code: object) -> Code:
    """NumPy scalars as plain Python values; anything else unchanged, to be judged by the caller."""
    item = getattr(code, "item", None)
    return item() if callable(item) else code  # type: ignore[return-value]  # judged by the caller


def encodable(text: str) -> bool:
    """Whether a text can be written at all: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def refuse_repeated(what: str, names: tuple[object, ...]) -> None:
    """Raise DomainError when a name stands for two cells."""
    if len(set(names)) != len(names):
        repeated = next(x for i, x in enumerate(names) if x in names[:i])
        raise DomainError(f"the {what} {repeated!r} is declared twice; each {what} names one cell.")


def _double(x: float | numbers.Real) -> float:
    """A number in double precision; infinite when it is too large."""
    try:
        return float(x)
    except OverflowError:
        return math.inf
