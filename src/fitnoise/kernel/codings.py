"""Codings: the cell of each value of the data, in plain Python. Part of the trust kernel.

**Purpose.** Every kind of attribute has one of four codings: codes, a range, cuts, or steps. Any of them may have
missing-value categories, whose cells follow its own (`CodingWithMissing`). Every counter translates these codings, and
is tested against the definitions here. A new coding is a class here, its line in `VALUE_CODINGS`, a coding of the trial
and a translation in each engine.

**Statement.** Values are read by equal rules from every source:

* Numbers have double precision. Text (CSV, Python objects) is read as decimal numbers of the digits 0 to 9, such as 7,
  -0.5 and 1e3, and spaces around them are ignored. "1_000" and "1,000" are not numbers. Codes that are whole numbers
  are compared as numbers: "1", "01" and "1.0" are the code 1.
* Text codes are compared letter by letter: capitals and spaces count. A whole number is also its decimal text.
* True/false is read from text as true, t, yes, y, 1 and false, f, no, n, 0, in any capitals, and spaces around are
  ignored.
* Absent values are null, NaN, and empty text unless "" is a declared code. For numbers and truth values, text of
  nothing but spaces is absent too. In CSV all of these are texts, and the empty text is the missing value. A value that
  is not a text, number or truth value, such as a list, is absent too. So is a text that UTF-8 cannot write. Infinite
  numbers are outside every domain.
"""

from __future__ import annotations

import abc
import itertools
import math
import numbers
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, cast, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import DomainError
from fitnoise.kernel.checks import refuse_incomplete
from fitnoise.kernel.immutable import FixedMapping

Code = str | int | bool
"""The type of a value in a column of codes."""

EXACT_FLOAT_LIMIT = 2**53
"""The bound below which whole numbers are exact in every format of the data."""

SPACES = " \t\n\v\f\r"
"""The characters that are ignored around numbers and truth values."""

TRUE = ("true", "t", "yes", "y", "1")
FALSE = ("false", "f", "no", "n", "0")
"""The texts of the truth values: those of true are in `TRUE`."""

OUTSIDE, DROPPED, REFUSED = -1, -2, -3
"""The results in place of a cell, for a value without a cell.

OUTSIDE: The data source states the action for such records. DROPPED: The records are left out. REFUSED: The data are
refused.
"""

MAX_SCALED_NUMBER = 2**50
"""The bound below which ends and steps of amounts are, in units of their last decimal place."""

MAX_RANGE_CELLS = 10**7
"""The largest number of cells of a range."""

MAX_AMOUNT_STEPS = 2**30
"""The largest number of steps of an amount: 32-bit integers hold the number of a step, and of a cell after the last."""

MAX_STEPS_FROM_ZERO = 2**31
"""The number of steps from zero to which an amount is cut before it is added to others."""

MAX_RANGES = 100
"""The largest number of different ranges of an amount, by the cells of another attribute; each adds to a statement."""

NO_CODES: Final[FixedMapping[Any, int]] = FixedMapping({})
"""The codes of missing values of a coding without missing-value categories."""

NUMBER_PATTERN: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""Decimal digits of ASCII, a point and an exponent: no underscores between digits, no words, no hexadecimal."""


class Coding(abc.ABC):
    """A rule that maps each value of a column to a cell, or to none."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise TypeError if a class lacks a member.

        Args:
            options: Further arguments of the class.
        """
        super().__init_subclass__(**options)
        refuse_incomplete(cls)

    is_uncut: bool = False
    """True for the steps of numbers that are to be added up before they are cut to a range (`Steps`)."""

    texts: Mapping[str, int] = NO_CODES
    """The cells of codes of missing values that are texts."""

    numbers: Mapping[float, int] = NO_CODES
    """The cells of codes of missing values that are whole numbers."""

    absent: int = OUTSIDE
    """The cell of absent values; OUTSIDE, DROPPED or REFUSED if they have none."""

    outside: int = OUTSIDE
    """The cell of all other values without a cell of their own, in the same terms."""

    is_listed: bool = False
    """True if codes are listed with their cells; False if cells are computed from numbers."""

    cuts: tuple[float, ...] = ()
    """The cuts between cells of numbers; empty for other codings."""

    integers: range | None = None
    """The whole number of each cell of values; `None` if the cells are not whole numbers in a row."""

    pieces: tuple[int, ...] = ()
    """The number of steps K_s of an amount from each of its knots to the next; empty for other codings."""

    attribute: str | None = None
    """The attribute on whose cell the size of an amount's step depends; `None` for other codings."""

    places: Any = None
    """The tree whose places on one level are the cells (`places`); `None` for other codings."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of cells."""

    @property
    @abc.abstractmethod
    def kind(self) -> type[Code]:
        """The type as which a column is read: texts, numbers or truth values."""

    @abc.abstractmethod
    def cell(self, value: object) -> int | None:
        """Return the cell of a value; `None` for a value without a cell."""

    def vector(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the cell of each value as `cell_of` does, shape (values,). Numbers have a faster method.

        values: Values of the type `kind`; in an array of numbers, NaN is an absent value.
        """
        return np.fromiter(map(self.cell_of, values.tolist()), np.int64, len(values))

    @property
    def values(self) -> Coding:
        """The coding of values, without missing-value categories."""
        return self

    @property
    def definition(self) -> list[Any]:
        """All that decides the cell of a value, as plain JSON values; different codings have different ones."""
        # Read from the fields, so that a coding with one more field has another definition.
        return [type(self).__name__, *(_json_value(getattr(self, f.name)) for f in fields(cast(Any, self)) if f.init)]

    def for_class(self, cell: int) -> Coding:
        """Return the coding for a record in a cell of `attribute`; the coding itself if it depends on none.

        A negative `cell` gives the coding of the first cell: the record has no cell there and is not counted.
        """
        del cell
        return self

    @property
    def ranges(self) -> list[tuple[Coding, list[int]]]:
        """The different codings `for_class`, each with its cells of `attribute`.

        The first also applies to records without such a cell. A coding that depends on no attribute has one.
        """
        return [(self, [])]

    def cell_of(self, value: object) -> int:
        """Return the cell of a value; without a cell OUTSIDE, or DROPPED or REFUSED if declared for it."""
        cell = self.cell(value)
        return OUTSIDE if cell is None else cell

    def is_value(self, code: object) -> bool:
        """Return True if a code is a value itself.

        For a clipped range or an amount, only numbers from `low` to `high` are values. For cuts, where any number is a
        value, the result is False.
        """
        return self.cell(code) is not None

    def uncut(self) -> Coding:
        """Return the coding of an amount that is yet to be added up: steps from zero, then missing-value categories.

        Raises:
            DomainError: The coding is not that of an amount, or of one that cannot be added up (`Steps`).
        """
        raise _no_amount()

    @property
    def sum_range(self) -> tuple[int, int]:
        """The steps from zero to `low`, and the number of steps K from there to `high`.

        They are those of the coding in which a sum is read, not of its `uncut` form.

        Raises:
            DomainError: The coding is not that of an amount.
        """
        raise _no_amount()

    @final
    @property
    def counted_size(self) -> int:
        """The number of cells in which records are counted.

        For an amount these are its knots and the missing-value categories, because a record lies between two knots.
        """
        return self.size - sum(self.pieces) + len(self.pieces)

    @final
    @property
    def without_cell(self) -> set[int]:
        """Those of OUTSIDE, DROPPED and REFUSED that the coding uses."""
        return {x for x in (self.absent, self.outside) if x < 0}

    @final
    def dropped(self, *, drop: bool) -> set[int]:
        """Return those of OUTSIDE, DROPPED and REFUSED that the coding uses and that are left out.

        drop: True if the source leaves out records with values outside (`outside_domain = "drop"`).
        """
        return self.without_cell & ({OUTSIDE, DROPPED} if drop else {DROPPED})


def _json_value(value: Any) -> Any:
    """Return a field of a coding as plain JSON values. Equal numbers have one form: 9.0 and 9."""
    if isinstance(value, tuple):
        return [_json_value(x) for x in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return str(value) if isinstance(value, Fraction) else getattr(value, "definition", value)


def _no_amount() -> DomainError:
    return DomainError(
        "sum-within-unit-not-amount",
        "The unit merges records by an attribute that is not an amount.",
        "Only amounts can be added up.",
        "Remove the attribute from sum_within_unit, or declare it as an amount.",
        "Nothing was added up.",
        place="sum_within_unit",
    )


class NumberCoding(Coding, abc.ABC):
    """A coding whose values are numbers."""

    kind = int


@dataclass(frozen=True)
class Codes(Coding):
    """A cell for each code; codes are all text, all whole numbers or all true/false.

    shared: For each code its cell, from 0, where several codes have one cell; `None` gives each code a cell.
    kind: The type of the codes, which decides how the data are read.

    Raises:
        DomainError: `shared` is not one whole number for each code, from 0 and below ten million.
        DomainError: There are no codes, codes of mixed or other kinds, codes that no data can hold, or repeated codes.
        DomainError: A whole number is 2^53 or more in size.
    """

    codes: tuple[Code, ...]
    shared: tuple[int, ...] | None = None
    kind: type[Code] = field(default=str, init=False)

    def __post_init__(self) -> None:
        kinds = {type(c) for c in self.codes}
        if not kinds:
            raise DomainError(
                "codes-missing",
                "The attribute has no code.",
                "A categorical attribute needs at least one code.",
                "List the codes that the data hold.",
                "No attribute was made.",
            )
        if len(kinds) > 1 or not kinds <= {str, int, bool}:
            names = ", ".join(sorted(k.__name__ for k in kinds))
            raise DomainError(
                "codes-of-several-types",
                f"The types of the codes are {names}.",
                "Codes must be all text, all whole numbers or all true/false.",
                "Write all codes in one of these types.",
                "No attribute was made.",
            )
        object.__setattr__(self, "kind", *kinds)
        if not all(encodable(c) for c in self.codes if isinstance(c, str)):
            raise DomainError(
                "code-not-writable",
                "A code holds half of a surrogate pair.",
                "No data can hold such a code.",
                "Write the character itself.",
                "No attribute was made.",
            )
        if any(abs(c) >= EXACT_FLOAT_LIMIT for c in self.codes if isinstance(c, int)):
            raise DomainError(
                "code-too-large",
                "A whole-number code is 2^53 or more in size.",
                "Whole-number codes must be below 2^53 in size.",
                "Declare longer codes as text.",
                "No attribute was made.",
            )
        # All codes have one type here: True and 1 are equal in Python, and would be repeated.
        refuse_repeated("code", self.codes)
        cells = self.shared
        # Engines merge codes of values and of missing values: a cell for missing values may then have no code.
        if cells is not None and not (
            type(cells) is tuple
            and len(cells) == len(self.codes)
            and {int} == set(map(type, cells))
            and 0 <= min(cells) <= max(cells) < MAX_RANGE_CELLS
        ):
            raise DomainError(
                "code-cells-invalid",
                "The cells of the codes are not one whole number for each code, from 0 and below ten million.",
                "Each code has a cell.",
                "Give each code its cell.",
                "No attribute was made.",
            )

    is_listed = True

    @property
    def cells(self) -> Sequence[int]:
        """The cell of each code."""
        return range(len(self.codes)) if self.shared is None else self.shared

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.codes) if self.shared is None else max(self.shared) + 1

    @cached_property
    def _cells(self) -> dict[object, int]:
        return dict(zip(self.codes, self.cells, strict=True))

    def cell(self, value: object) -> int | None:
        """Return the cell of the code that a value is; `None` if it is not a code."""
        text = as_csv_text(value)
        if text is None:
            return None
        read = text if self.kind is str else truth(text) if self.kind is bool else number(text)
        # A float is found as the whole number that it equals: 1.0 and 1 have one hash.
        return self._cells.get(read)

    def vector(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the cell of each value; −1 for a value that is not a code.

        values: Codes in their own type. In an array of whole-number codes, other numbers and NaN have no cell.
        """
        return np.fromiter((self._cells.get(v, OUTSIDE) for v in values.tolist()), np.int64, len(values))


@final
@dataclass(frozen=True)
class Range(NumberCoding):
    """A cell for each whole number from `low` to `high`; with `clip`, smaller ones are `low` and larger ones `high`.

    Raises:
        DomainError: The bounds are not whole numbers below 2^53 in size, `low > high`, or there are more than
            ten million cells.
        DomainError: `clip` is not True or False.
    """

    low: int
    high: int
    clip: bool = False
    integers: range = field(init=False, repr=False, compare=False)
    """The whole numbers from `low` to `high`."""

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bound = as_python(getattr(self, name))
            if isinstance(bound, bool) or not isinstance(bound, int) or abs(bound) >= EXACT_FLOAT_LIMIT:
                raise DomainError(
                    "range-end-invalid",
                    f"The value of {name} is {bound!r}.",
                    "It must be a whole number below 2^53 in size.",
                    f"Give a whole number for {name}.",
                    "No attribute was made.",
                    place=name,
                )
            object.__setattr__(self, name, bound)
        clip = as_python(self.clip)
        if not isinstance(clip, bool):
            raise DomainError(
                "clip-not-boolean",
                f"The value of clip is {clip!r}.",
                "It must be true or false.",
                "Set clip to true or false, or remove clip.",
                "No attribute was made.",
                place="clip",
            )
        object.__setattr__(self, "clip", clip)
        if self.low > self.high:
            raise DomainError(
                "range-reversed",
                f"The range goes from {self.low} to {self.high}.",
                "Its low must not exceed its high.",
                "Exchange low and high.",
                "No attribute was made.",
                place="low",
            )
        if self.high - self.low >= MAX_RANGE_CELLS:
            raise DomainError(
                "range-too-long",
                f"The range {self.low} to {self.high} has more than ten million cells.",
                "An attribute may have at most ten million cells.",
                "Declare cut points instead.",
                "No attribute was made.",
            )
        object.__setattr__(self, "integers", range(self.low, self.high + 1))

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.high - self.low + 1

    def cell(self, value: object) -> int | None:
        """Return the cell of a whole number, its difference from `low`; `None` for any other value.

        With `clip`, a number outside the range is clipped first; otherwise the result is `None`.
        """
        x = number(as_csv_text(value))
        # Only whole numbers are clipped: 85.5 has no cell in a range up to 85.
        if x is None or x != math.floor(x):
            return None
        if self.clip:
            x = min(max(x, self.low), self.high)
        return int(x) - self.low if self.low <= x <= self.high else None

    def vector(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the cell of each number; −1 for a number without a cell."""
        good = np.isfinite(values) & (values == np.floor(values))
        x = np.clip(values, self.low, self.high) if self.clip else values
        good &= (x >= self.low) & (x <= self.high)
        return np.where(good, x, self.low - 1).astype(np.int64) - self.low

    def is_value(self, code: object) -> bool:
        """Return True for a whole number in the range, which is not clipped."""
        return Range(self.low, self.high).cell(code) is not None


@final
@dataclass(frozen=True)
class Cuts(NumberCoding):
    """Numbers cut at c₁ < c₂ < … < c_k into k + 1 cells: below c₁, [c₁, c₂), …, c_k or more.

    Raises:
        DomainError: There are no cuts, or they are not finite numbers, or not strictly increasing.
        DomainError: A cut is a whole number that is no double, so that another number would be the cut.
    """

    cuts: tuple[float, ...]

    def __post_init__(self) -> None:
        points = [as_python(c) for c in self.cuts]
        if not points:
            raise DomainError(
                "cuts-missing",
                "The attribute has no cut point.",
                "A binned attribute needs at least one cut point.",
                "List the cut points.",
                "No attribute was made.",
                place="cuts",
            )
        for c in points:
            if isinstance(c, bool) or not isinstance(c, (int, float)) or not math.isfinite(_double(c)):
                raise DomainError(
                    "cut-not-finite",
                    f"A cut point is {c!r}.",
                    "Cut points must be finite numbers.",
                    "Replace this cut point.",
                    "No attribute was made.",
                    place="cuts",
                )
            refuse_inexact("a cut point", c)
        # −0.0 + 0.0 is 0.0: equal cuts have one form in documents, and so one hash.
        cuts = tuple(float(c) + 0.0 for c in points)
        if any(a >= b for a, b in itertools.pairwise(cuts)):
            raise DomainError(
                "cuts-not-increasing",
                f"The cut points are {points}.",
                "Cut points must increase.",
                "Sort the cut points, and remove repeated ones.",
                "No attribute was made.",
                place="cuts",
            )
        object.__setattr__(self, "cuts", cuts)

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.cuts) + 1

    def cell(self, value: object) -> int | None:
        """Return the number of cuts that a number has reached; `None` for a value that is not a number."""
        x = number(as_csv_text(value))
        return None if x is None else sum(c <= x for c in self.cuts)

    def vector(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of cuts that each number has reached; −1 for NaN and infinities."""
        return np.where(np.isfinite(values), np.searchsorted(np.array(self.cuts), values, side="right"), OUTSIDE)

    def is_value(self, code: object) -> bool:
        """Return False: any number is a value, and a code such as 9999 must remain possible."""
        del code
        return False


@final
@dataclass(frozen=True)
class Interval(NumberCoding):
    """One cell, for numbers x with low ≤ x < high: the numbers that meet a condition (`conditions`).

    Raises:
        DomainError: There is no finite number x with low ≤ x < high.
    """

    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        # −∞ is no finite number, so an interval from −∞ begins at the least double.
        if not max(self.low, -sys.float_info.max) < self.high:
            raise DomainError(
                "bounds-exclude-all", "No number lies within the bounds.", "", "Change the bounds.", "Nothing was made."
            )

    @property
    def size(self) -> int:
        """One cell."""
        return 1

    def cell(self, value: object) -> int | None:
        """Return 0 for a number between the ends; `None` for any other value."""
        x = number(as_csv_text(value))
        return 0 if x is not None and self.low <= x < self.high else None

    def vector(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return 0 for each number between the ends, and −1 for any other."""
        return np.where(np.isfinite(values) & (values >= self.low) & (values < self.high), 0, OUTSIDE)


@final
@dataclass(frozen=True)
class Steps(NumberCoding):
    """The step of a number: the j from 0 to K = (high − low)/step for which low + j · step is nearest.

    A number outside `low` and `high` is cut to them first. Half-way between two steps the larger j counts.

    *Arithmetic.* In doubles, with the decimals low = a/10ᵏ and step = p/10ᵏ, j = ⌊(10ᵏ x − (a − p/2))/p⌋. x is cut
    before, and j after. Every operation is one of IEEE 754, rounded to nearest, so that every computer obtains the same
    j.

    low, high, step: Decimal numbers.
    valid: The least and the largest valid number; numbers outside are not amounts. `None`: All are.
    ceilings: Values of steps between low and high. With low and high they are the knots, between which records lie.
    is_uncut: True if numbers are to be added up before they are cut (`uncut`). They are cut to 2³¹ steps from zero
    instead, and there is a cell for each of these: that of n steps is n + 2³¹. They are rounded as before.
    attribute: Another attribute, on whose cell the size of a step depends. Then low and high count steps from zero,
    and step is 1.
    classes: For each cell of that attribute its own `Steps`. Each has this K, and its low is as many steps from zero.
    A number has a step only where the cell of its record is known (`for_class`).

    Raises:
        DomainError: The numbers are not finite decimals of at most 15 places, below 2^50 in units of the last.
        DomainError: The step is not positive or does not divide the range.
        DomainError: The range is empty, or has more than 2^30 steps, or `valid` does not contain it.
        DomainError: The ceilings do not increase between low and high, or are not steps.
        DomainError: For numbers to be added up, low is not a whole number of steps, or an end is more than 2^31 steps
            from zero.
        DomainError: There are more than 100 different classes.
        DomainError: Classes differ in their number of steps, or in the number of steps from zero to low.
        DomainError: A class has ceilings or classes of its own, or is uncut where the amount is not, or the reverse.
        DomainError: There are classes, and no attribute by which they go.
    """

    low: Fraction
    high: Fraction
    step: Fraction
    valid: tuple[float, float] | None = None
    ceilings: tuple[Fraction, ...] = ()
    is_uncut: bool = False
    attribute: str | None = None
    classes: tuple[Steps, ...] = ()
    digits: int = field(init=False, repr=False, compare=False)
    """The number of decimal places, k."""
    max_step: int = field(init=False, repr=False, compare=False)
    """The largest j, K; for `is_uncut` the largest cell, 2³²."""
    pieces: tuple[int, ...] = field(default=(), init=False, repr=False, compare=False)
    """The numbers of steps from each knot to the next, K_s, whose sum is `max_step`."""

    def __post_init__(self) -> None:
        places = [_places(x) for x in (self.low, self.high, self.step)]
        digits = max(places)
        # Below 2⁵⁰, a and p are exact in doubles, and the error of 10ᵏ x stays below ¼ at either end (`cell`).
        if any(abs(x) * 10**digits >= MAX_SCALED_NUMBER for x in (self.low, self.high, self.step)):
            raise DomainError(
                "amount-too-fine",
                "A number of the amount is 2^50 or more in units of the last decimal place.",
                "Its low, high and step must be below 2^50 in these units.",
                "Use fewer decimal places, or a smaller range.",
                "No attribute was made.",
            )
        if not self.step > 0 or not self.low < self.high:
            raise DomainError(
                "amount-range-empty",
                f"The amount goes from {float(self.low)} to {float(self.high)} in steps of {float(self.step)}.",
                "Its low must be below its high, and its step must be positive.",
                "Change low, high or step.",
                "No attribute was made.",
            )
        steps = (self.high - self.low) / self.step
        if steps.denominator != 1 or steps > MAX_AMOUNT_STEPS:
            raise DomainError(
                "amount-steps-invalid",
                f"From {float(self.low)} to {float(self.high)} there are {float(steps):,} steps of {float(self.step)}.",
                "The range of an amount must be a whole number of steps, at most 2^30.",
                "Change step, low or high.",
                "No attribute was made.",
                place="step",
            )
        if self.valid is not None:
            if type(self.valid) is not tuple or [type(x) in (int, float) for x in self.valid] != [True, True]:
                raise DomainError(
                    "valid-not-two-numbers",
                    f"The value of valid is of the type {type(self.valid).__name__}.",
                    "It must be the least and the largest valid number.",
                    "Give two numbers.",
                    "No attribute was made.",
                    place="valid",
                )
            if not -math.inf < self.valid[0] <= self.low < self.high <= self.valid[1] < math.inf:
                raise DomainError(
                    "valid-excludes-range",
                    f"The value of valid is {list(self.valid)}.",
                    "It must include all numbers from low to high.",
                    "Widen valid, or narrow the range.",
                    "No attribute was made.",
                    place="valid",
                )
            for x in self.valid:
                refuse_inexact("an end of valid", x)
        knots = (self.low, *self.ceilings, self.high)
        pieces = [(b - a) / self.step for a, b in itertools.pairwise(knots)]
        if any(k <= 0 or k.denominator != 1 for k in pieces):
            raise DomainError(
                "ceilings-invalid",
                f"The ceilings are {[float(t) for t in self.ceilings]} between {float(self.low)} and "
                f"{float(self.high)}, in steps of {float(self.step)}.",
                "They must increase between low and high, each a whole number of steps above low.",
                "Change the ceilings, and leave high out of them.",
                "No attribute was made.",
                place="ceilings",
            )
        if self.is_uncut:
            lowest, highest = self.low / self.step, self.high / self.step
            if lowest.denominator != 1 or max(abs(lowest), abs(highest)) > MAX_STEPS_FROM_ZERO:
                raise DomainError(
                    "sum-within-unit-range-invalid",
                    f"The amount goes from {float(self.low)} to {float(self.high)} in steps of {float(self.step)}.",
                    "To add up amounts, low and high must be whole numbers of steps, at most 2^31 from zero.",
                    "Change low, high or step, or remove the amount from sum_within_unit.",
                    "Nothing was added up.",
                    place="sum_within_unit",
                )
            # Cells run from −2³¹ to 2³¹ steps from zero, for any low and high.
            steps, pieces = Fraction(2 * MAX_STEPS_FROM_ZERO), [Fraction(2 * MAX_STEPS_FROM_ZERO)]
        self._check_classes(int(steps))
        for name, value in (("digits", digits), ("max_step", int(steps)), ("pieces", tuple(map(int, pieces)))):
            object.__setattr__(self, name, value)

    def _check_classes(self, max_steps: int) -> None:
        """Raise DomainError unless each class has `max_steps` steps, from as many above zero as the amount itself.

        It also raises for more than 100 different classes, and for a class with ceilings or classes of its own.
        """
        if len(set(self.classes)) > MAX_RANGES:
            raise DomainError(
                "too-many-ranges",
                f"The amount has {len(set(self.classes))} different ranges, by the values of {self.attribute!r}.",
                f"It may have at most {MAX_RANGES} different ranges.",
                f"Give one range to values of {self.attribute!r} whose amounts are of similar size.",
                "No attribute was made.",
            )
        if self.classes and self.attribute is None:
            raise DomainError(
                "classes-without-attribute",
                "The amount has ranges by class, and no attribute of the classes.",
                "The cell of a record along this attribute decides its range.",
                "Name the attribute, or give one range.",
                "No attribute was made.",
            )
        for steps in self.classes:
            if steps.attribute is not None or steps.ceilings or steps.is_uncut != self.is_uncut:
                raise DomainError(
                    "class-range-invalid",
                    "A class of the amount has ceilings or ranges by class.",
                    "A class must have one range without ceilings.",
                    "Give each class one plain range.",
                    "No attribute was made.",
                )
            if steps.max_step != max_steps or steps.low / steps.step != self.low / self.step:
                raise DomainError(
                    "class-steps-differ",
                    f"One class has {max_steps:,} steps from {float(self.low / self.step):,}, another "
                    f"{steps.max_step:,} from {float(steps.low / steps.step):,}.",
                    "All classes must have the same number of steps, from the same number of steps above zero.",
                    "Change the ranges of the classes.",
                    "No attribute was made.",
                )

    @property
    def size(self) -> int:
        """Number of different j."""
        return self.max_step + 1

    @property
    def arithmetic(self) -> tuple[float, float, float, float, float]:
        """The doubles from which j is computed: low, high, 10ᵏ, a − p/2 and p.

        For `is_uncut`, low and high are 2³¹ steps below and above zero. An amount with classes has no doubles of its
        own: take one class (`for_class`).
        """
        assert self.attribute is None  # noqa: S101 - every caller takes the range of the record's class first
        unit, start = 10**self.digits, self.low - self.step / 2
        low, high = (
            (-MAX_STEPS_FROM_ZERO * self.step, MAX_STEPS_FROM_ZERO * self.step)
            if self.is_uncut
            else (self.low, self.high)
        )
        # Only low and high are rounded here. The others are multiples of ½ below 2⁵², so doubles hold them exactly.
        return float(low), float(high), float(unit), float(start * unit), float(self.step * unit)

    @property
    def cell_offset(self) -> int:
        """The number added to j to make it a cell: 0, except for numbers to be added up."""
        return MAX_STEPS_FROM_ZERO + self.zero if self.is_uncut else 0

    @property
    def zero(self) -> int:
        """The number of steps from zero to `low`; defined for numbers to be added up, where it is a whole number."""
        return int(self.low / self.step)

    def cell(self, value: object) -> int | None:
        """Return the cell of a number's step j; `None` for a value that is not a number, or not a valid one."""
        x = number(as_csv_text(value))
        if x is None or (self.valid is not None and not self.valid[0] <= x <= self.valid[1]):
            return None
        low, high, unit, start, stride = self.arithmetic
        # a/10ᵏ and 10ᵏ x have a relative error of 2⁻⁵³ each, and a < 2⁵⁰. So at an end 10ᵏ x is within ¼ of a whole
        # number, the dividend is p/4 or more, nothing underflows, and j is from 0 to K even before it is cut.
        # With `is_uncut` all numbers are below 2³³ p. Their error is 2⁻¹⁸ p at most, and no j at either end changes.
        j = math.floor((min(max(x, low), high) * unit - start) / stride)
        return min(max(j + self.cell_offset, 0), self.max_step)

    def vector(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the cell of each number's step j, by the operations of `cell`; −1 for a number that is not valid."""
        good = np.isfinite(values)
        if self.valid is not None:
            good &= (values >= self.valid[0]) & (values <= self.valid[1])
        low, high, unit, start, stride = self.arithmetic
        # Numbers without a cell become `low`: NaN would reach the cast to integers.
        j = np.floor((np.clip(np.where(good, values, low), low, high) * unit - start) / stride)
        return np.where(good, np.clip(j + self.cell_offset, 0, self.max_step), OUTSIDE).astype(np.int64)

    def for_class(self, cell: int) -> Coding:
        """Return the steps of a class; these steps themselves without classes."""
        return self if self.attribute is None else self.classes[max(cell, 0)]

    @property
    def ranges(self) -> list[tuple[Coding, list[int]]]:
        """The different classes, each with the cells of the attribute; these steps themselves without classes."""
        cells: dict[Coding, list[int]] = {} if self.attribute is not None else {self: []}
        for cell, steps in enumerate(self.classes):
            cells.setdefault(steps, []).append(cell)
        return list(cells.items())

    def is_value(self, code: object) -> bool:
        """Return True for a number from `low` to `high`, of any class."""
        x = number(as_csv_text(code))
        classes = (self,) if self.attribute is None else self.classes
        return x is not None and any(steps.low <= x <= steps.high for steps in classes)

    def uncut(self) -> Steps:
        """Return the steps from zero. Ceilings apply to the sum, not to its terms."""
        return replace(
            self, ceilings=(), is_uncut=True, classes=tuple(replace(each, is_uncut=True) for each in self.classes)
        )

    @property
    def sum_range(self) -> tuple[int, int]:
        """The steps from zero to `low`, and from there to `high`."""
        return self.zero, self.max_step


def _places(x: Fraction) -> int:
    """Return the number of decimal places of a number; raise DomainError if there are more than 15."""
    for digits in range(16):
        if (x * 10**digits).denominator == 1:
            return digits
    raise DomainError(
        "too-many-decimals",
        "A number of the amount has more than 15 decimal places.",
        "Its low, high and step must be decimal numbers of at most 15 places.",
        "Round this number.",
        "No attribute was made.",
    )


@final
@dataclass(frozen=True)
class CodingWithMissing(Coding):
    """A coding of values, and missing-value categories, whose cells follow its own.

    base: The coding of values.
    codes: For each further cell, the data that fall into it. Texts are compared letter by letter. If values are read as
    numbers, whole numbers are compared as numbers. These codes come before anything else, so before a range clips them.
    absent: The cell of absent values. Or OUTSIDE (the data source states the action), DROPPED (the record is left out)
    or REFUSED (the data are).
    outside: The cell of all other values without a cell, in the same terms.

    Raises:
        DomainError: A code stands for two cells, is a value itself, or cannot occur in such a column.
        DomainError: Nothing can fall into a further cell.
        DomainError: `absent` or `outside` is neither a further cell nor one of the three words for none.
    """

    base: Coding
    codes: tuple[tuple[Code, ...], ...]
    absent: int = OUTSIDE
    outside: int = OUTSIDE
    pieces: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The steps of values."""
    attribute: str | None = field(init=False, repr=False, compare=False)
    """The attribute on which values depend."""
    texts: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """The cells of codes that are texts."""
    numbers: Mapping[float, int] = field(init=False, repr=False, compare=False)
    """The cells of codes that are whole numbers."""

    def __post_init__(self) -> None:
        places = {OUTSIDE, DROPPED, REFUSED, *range(self.base.size, self.size)}
        if not all(type(x) is int and x in places for x in (self.absent, self.outside)):
            raise DomainError(
                "missing-place-invalid",
                "The cell of absent or of other values is not a cell for missing values.",
                "It must be one of these cells, or OUTSIDE, DROPPED or REFUSED.",
                "Name such a cell.",
                "No attribute was made.",
                place="missing",
            )
        all_codes = tuple(c for codes in self.codes for c in codes)
        for code in all_codes:
            self._check(code)
            if self.base.is_value(code):
                raise DomainError(
                    "missing-code-is-value",
                    f"The code {code!r} of a missing value is a value of the attribute itself.",
                    "Each code must have one meaning.",
                    "Remove the code from missing, or from the values.",
                    "No attribute was made.",
                    place="missing",
                )
        refuse_repeated("code of missing values", all_codes)
        for cell, codes in enumerate(self.codes, self.base.size):
            if not codes and cell not in (self.absent, self.outside):
                raise DomainError(
                    "missing-cell-unused",
                    "A cell for missing values has no codes, and if_missing and if_outside do not name it.",
                    "No record could fall into this cell.",
                    "Give the cell codes, or name it in if_missing or if_outside.",
                    "No attribute was made.",
                    place="missing",
                )
        for name in ("pieces", "attribute"):
            object.__setattr__(self, name, getattr(self.base, name))
        cells = [(code, cell) for cell, codes in enumerate(self.codes, self.base.size) for code in codes]
        for name, kind in (("texts", str), ("numbers", int)):
            object.__setattr__(self, name, FixedMapping({c: i for c, i in cells if isinstance(c, kind)}))

    def _check(self, code: object) -> None:
        """Raise DomainError unless the values of `base` come from columns that can hold the code, in one form."""
        kind = self.base.kind
        if isinstance(code, str) and encodable(code):
            if kind is int and _is_number(code):
                raise DomainError(
                    "missing-code-reads-as-number",
                    f"The code {code!r} of a missing value is a text, and the column holds numbers.",
                    "Some sources would read this text as a number.",
                    "Write a whole number without quotes; use if_missing for nan, and if_outside for inf.",
                    "No attribute was made.",
                    place="missing",
                )
        elif kind is not int and isinstance(code, (int, float)):
            what = "texts" if kind is str else "true/false"
            raise DomainError(
                "missing-code-not-text",
                f"The code {code!r} of a missing value is not a text.",
                f"The values are {what}, so the codes of missing values must be texts.",
                f"Write {str(code)!r}.",
                "No attribute was made.",
                place="missing",
            )
        elif type(code) is not int or abs(code) >= EXACT_FLOAT_LIMIT:
            raise DomainError(
                "missing-code-invalid",
                f"A code of a missing value is {code!r}.",
                "It must be a text, or a whole number below 2^53 in size.",
                "Replace this code.",
                "No attribute was made.",
                place="missing",
            )

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.base.size + len(self.codes)

    def cell_of(self, value: object) -> int:
        """Return the cell of a value; or OUTSIDE, DROPPED or REFUSED for a value without a cell."""
        text = as_csv_text(value)
        coded = None if text is None else self.texts.get(text)
        if coded is None and (x := number(text)) is not None:
            coded = self.numbers.get(x)  # −9.0 is found as −9: both have one hash
        cell = self.base.cell(value) if coded is None else coded
        if cell is not None:
            return cell
        return self.absent if is_absent(text, self.kind) else self.outside

    def cell(self, value: object) -> int | None:
        """Return the cell of a value; `None` for a value without a cell."""
        cell = self.cell_of(value)
        return cell if cell >= 0 else None

    @property
    def kind(self) -> type[Code]:
        """The type as which values are read."""
        return self.base.kind

    @property
    def values(self) -> Coding:
        """The coding of values."""
        return self.base

    def for_class(self, cell: int) -> Coding:
        """Return the coding of a class, with these missing-value categories."""
        return replace(self, base=self.base.for_class(cell))

    @property
    def ranges(self) -> list[tuple[Coding, list[int]]]:
        """The ranges of values, with these missing-value categories."""
        return [(replace(self, base=part), cells) for part, cells in self.base.ranges]

    def uncut(self) -> Coding:
        """Return steps from zero, and the missing-value categories after all of them."""
        values = self.base.uncut()
        # There are more steps now, so the numbers of the other cells grow.
        added = values.size - self.base.size
        absent, outside = (x + added if x >= 0 else x for x in (self.absent, self.outside))
        return CodingWithMissing(values, self.codes, absent, outside)


VALUE_CODINGS: Final[tuple[type[Coding], ...]] = (Codes, Range, Cuts, Steps)
"""The codings of values into cells, in addition to those of levels (`places`). Every engine translates them."""


def is_absent(text: str | None, kind: type[Code]) -> bool:
    """Return True if the value is absent: missing, an empty text, or for numbers and truth values only spaces."""
    return not (text or "" if kind is str else (text or "").strip(SPACES))


def as_csv_text(value: object) -> str | None:
    """Return a value as CSV would hold it; `None` for a missing value, and for any that CSV cannot hold.

    CSV holds texts that UTF-8 can write, numbers and truth values.
    """
    if isinstance(value, str):
        return value if encodable(value) else None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(Decimal(int(value)))  # `str` of an integer refuses more than 4,300 digits
    if isinstance(value, Decimal):
        return None if value.is_nan() else str(value)
    if isinstance(value, numbers.Real):
        x = _double(value)
        return None if math.isnan(x) else repr(x)
    return None


def number(text: str | None) -> float | None:
    """Return a decimal number, in double precision; `None` for other texts, and for numbers that are too large."""
    # `float` alone would also read "1_000", "nan", "infinity" and the digits of other scripts.
    digits = (text or "").strip(SPACES)
    x = float(digits) if NUMBER_PATTERN.fullmatch(digits) else math.inf
    return x if math.isfinite(x) else None


def truth(text: str) -> bool | None:
    """Return a truth value; `None` for other texts."""
    word = text.strip(SPACES).lower()
    return True if word in TRUE else False if word in FALSE else None


def as_python(code: object) -> Code:
    """Return a NumPy scalar as a plain Python value; anything else unchanged, to be judged by the caller."""
    scalar = hasattr(code, "item") and getattr(code, "ndim", 0) == 0
    return code.item() if scalar else code  # type: ignore[attr-defined, return-value]  # judged by the caller


def encodable(text: str) -> bool:
    """Return True if UTF-8 can write a text: it cannot write half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def refuse_inexact(what: str, x: float) -> None:
    """Raise DomainError for a whole number that double precision does not hold: it would become another number."""
    if float(x) != x:
        raise DomainError(
            "number-not-exact",
            f"The number {x:,} is {what}, and double precision does not hold it.",
            "Fitnoise reads the numbers of the data in double precision.",
            f"Give the nearest number that double precision holds, {int(float(x)):,}.",
            "No attribute was made.",
        )


def refuse_repeated(what: str, names: tuple[object, ...]) -> None:
    """Raise DomainError when a name stands for two cells."""
    if len(set(names)) != len(names):
        repeated = next(x for i, x in enumerate(names) if x in names[:i])
        raise DomainError(
            "name-repeated",
            f"The {what} {repeated!r} is declared twice.",
            f"Each {what} must name one cell.",
            "Remove or rename one of the two.",
            "No attribute was made.",
        )


def _is_number(text: str) -> bool:
    """Return True if a text may be read as a number somewhere: also infinite, NaN, or in digits of another script."""
    try:
        return float(text) is not None
    except ValueError:
        return False


def _double(x: float | numbers.Real) -> float:
    """Return a number in double precision; infinity when its size is too large, also for a negative number."""
    try:
        return float(x)
    except OverflowError:
        return math.inf
