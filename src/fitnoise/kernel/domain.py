"""The domain: named attributes and their values, a public fact the data must fit.

Nothing here is ever inferred from data: a value that happens to be absent from the data still has its
cells, so that its absence stays private. Cells are in C order of the attributes as declared.
"""

from __future__ import annotations

import abc
import contextlib
import csv
import itertools
import math
import re
import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np

from fitnoise.errors import DomainError, FitnoiseError
from fitnoise.kernel.arguments import checked, fits, shown
from fitnoise.kernel.arrays import Indices
from fitnoise.kernel.by_value import ByValue
from fitnoise.kernel.checks import is_real
from fitnoise.kernel.codings import (
    DROPPED,
    EXACT,
    OUTSIDE,
    REFUSED,
    Beside,
    Code,
    Codes,
    Coding,
    Cuts,
    Range,
    Steps,
    Values,
    cells_of,
    classified_by,
    dropped,
    encodable,
    is_value,
    plain,
    refuse_inexact,
    refuse_repeated,
    steps_of,
    values_of,
    within,
)
from fitnoise.kernel.dates import Read, read
from fitnoise.kernel.immutable import FixedMapping
from fitnoise.kernel.places import Leaves, Listed, Regular, Tree, level_names
from fitnoise.kernel.units import Adjacency, Bound, DataSource, PrivacyUnit

RESERVED = (
    "value",
    "std_error",
    "moe",
    "biased_value",
    "simulated_rmse",
    "unbiased_value",
    "synthetic_records",
)
"""Column names of a released table that no attribute may take."""

DERIVED = ("low", "high", "told", "simulated_bias", "reliability")
"""Column names of tables made of a release: intervals, simulated bias, reliability. No attribute may take them."""


Missing = Mapping[str, Iterable[Code]] | tuple[tuple[str, tuple[Code, ...]], ...]
"""Cells for what is no value: the name of each, and the codes of the data that fall into it."""

WITHOUT_CELL = ("drop", "refuse")
"""What may become of a record whose value has no cell."""


class Attribute(abc.ABC):
    """One named column of the data with its declared values.

    `coding` says into which cell a value of the data falls, `values` what a released table shows for each cell, and
    `ordered` whether "at most" has a meaning. Equal attributes have equal documents, and others have others.

    Beside its values an attribute may have cells for what is none, after them and outside of any order: `missing` names
    them, `absent` and `outside` say what becomes of what is not there, and of all else that is not declared.

    A new kind is a subclass with one of the four codings, a model of its document in `request.attributes`, and a line
    of the zoo: whatever counts, plans or releases asks no more.
    """

    kind: ClassVar[str]
    """What specifications call attributes of this kind."""

    ordered: ClassVar[bool]
    """Whether the order of the cells has a meaning."""

    column: str | None
    """The column of the data that is read; None when it has the attribute's own name."""

    read: Read | Mapping[str, Any] | str | None = None
    """What is read off a date that the column holds; None where the value itself is."""

    coding: Coding
    """How the values of the data, or what is read off them, become cells."""

    missing: Missing = ()
    """The cells for what is no value, each with its codes: pairs, once the attribute is made."""

    absent: str | None = None
    """What becomes of null, NaN and blank: a cell of `missing`, "refuse" or "drop"; None: what the source says."""

    outside: str | None = None
    """The same, of all else that is no value."""

    @abc.abstractmethod
    def declared(self) -> dict[str, Any]:
        """All that is declared beside kind, column and missing values, as plain JSON values."""

    @property
    @abc.abstractmethod
    def own_values(self) -> tuple[str | int, ...]:
        """What a released table shows for each cell of values, in order."""

    @abc.abstractmethod
    def own_position(self, value: object) -> int:
        """The cell a declared value, as users say it, belongs to; DomainError when it is not declared."""

    @final
    @property
    def beside(self) -> tuple[str, ...]:
        """The names of the cells for what is no value, in order."""
        return tuple(dict(self.missing))

    @final
    @property
    def values(self) -> tuple[str | int, ...]:
        """What a released table shows for each cell, in order: the values, and the cells beside them."""
        return self.own_values + self.beside

    @final
    def position(self, value: object) -> int:
        """The cell a declared value, as users say it, or a cell by its name; DomainError when it is not declared."""
        if isinstance(value, str) and value in self.beside:
            return self.own_size + self.beside.index(value)
        return self.own_position(value)

    @property
    def coded(self) -> str | None:
        """How values that are others than the cells' are read, in words; None where none are."""
        return None

    @property
    def is_capped(self) -> bool:
        """Whether numbers beyond the declared range are read as its ends: sums and means lack what exceeds it."""
        return False

    @final
    @property
    def derived(self) -> Read | None:
        """What is read off a date, where something is."""
        return read(self.read)

    @final
    def _with_read(self, given: object, kind: type[Code]) -> None:
        """Keep what is read off a date; for constructors of subclasses."""
        if given is not None and kind is not int:
            raise DomainError(
                "read-needs-whole-numbers",
                "A part of a date is read, and the codes are not whole numbers.",
                "Parts of dates are whole numbers.",
                "Write the codes as whole numbers, or remove read.",
                "No attribute was made.",
                place="read",
            )
        object.__setattr__(self, "read", read(given))

    @final
    def drops(self, by_default: bool) -> bool:
        """Whether records may be left out for their value here, where the source does or does not say to."""
        return bool(dropped(self.coding, drop=by_default))

    @final
    @checked(DomainError, "Nothing was made.")
    def _with_missing(self, coding: Values, missing: Missing | None, absent: str | None, outside: str | None) -> None:
        """Keep the coding, and what is declared of missing values; for constructors of subclasses, at their end."""
        if isinstance(missing, Mapping) and not missing:
            raise DomainError(
                "missing-empty",
                "The value of missing declares no cell.",
                "",
                "Name a cell, such as unknown = [-9], or remove missing.",
                "No attribute was made.",
                place="missing",
            )
        cells = _pairs(() if missing is None else missing)
        for what, cell in (("absent", absent), ("outside", outside)):
            if cell is not None and cell not in WITHOUT_CELL and cell not in [name for name, _ in cells]:
                raise DomainError(
                    "missing-cell-unknown",
                    f"The value of {what} is {cell!r}.",
                    f"It must be 'refuse', 'drop' or one of the cells {[name for name, _ in cells]} of missing.",
                    f"Change {what}, or declare this cell in missing.",
                    "No attribute was made.",
                    place=what,
                )
        places: dict[str | None, int] = {None: OUTSIDE, "drop": DROPPED, "refuse": REFUSED}
        places.update((name, coding.size + i) for i, (name, _) in enumerate(cells))
        made: Coding = coding
        if cells or absent is not None or outside is not None:
            made = Beside(coding, tuple(codes for _, codes in cells), places[absent], places[outside])
        for name, value in (("missing", cells), ("absent", absent), ("outside", outside), ("coding", made)):
            object.__setattr__(self, name, value)
        for i, (name, _) in enumerate(cells):
            others = {str(c) for j, (_, codes) in enumerate(cells) if j != i for c in codes}
            self._check_cell(name, coding, others)

    def _check_cell(self, name: str, values: Values, others: Collection[str]) -> None:
        """Raise DomainError for a name that cannot be that of a cell, or that could mean another."""
        if name in WITHOUT_CELL:
            raise DomainError(
                "missing-cell-reserved",
                f"A cell for missing values is called {name!r}.",
                "This word has another meaning in absent and outside.",
                "Rename the cell.",
                "No attribute was made.",
                place="missing",
            )
        taken = name in others or is_value(values, name)
        with contextlib.suppress(DomainError):
            self.own_position(name)
            taken = True
        if taken:
            raise DomainError(
                "missing-cell-ambiguous",
                f"The cell {name!r} for missing values has the name of a value or code.",
                "Each name must have one meaning.",
                "Rename the cell.",
                "No attribute was made.",
                place="missing",
            )

    @final
    def cell(self, value: object) -> int | None:
        """The cell that a value of the data falls into; None when it is outside the domain.

        Outside are values that are missing, not declared, or of another type than is read; see `codings`. Of an amount
        it is the step j, from 0 to K, and K + 1 and so on of the cells beside: see :class:`Amount`. Of one whose range
        goes by another attribute :meth:`Domain.cells` tells it.

        **Guarantees**
            * it depends on nothing but the value and what is declared: not on other records, nor on where it is read;
            * it is None or from 0 to `coding.size` − 1, and never an error, whatever the value;
            * every counter counts a record in exactly the cells of its values, or in none when one of them is outside.
        """
        return self.coding.cell(value if self.derived is None else self.derived.number(value))

    @final
    @property
    def size(self) -> int:
        """Number of cells."""
        return cells_of(self.coding)

    @final
    @property
    def own_size(self) -> int:
        """Number of cells of values, of an amount of its knots; those beside them come after."""
        return cells_of(values_of(self.coding))

    @final
    @property
    def steps(self) -> tuple[int, ...]:
        """Of an amount, how many there are from each knot to the next; its first cells are these. Of all else none."""
        return steps_of(self.coding)


def _pairs(missing: Missing) -> tuple[tuple[str, tuple[Code, ...]], ...]:
    """The cells with their codes, as a mapping or pairs declare them; whole numbers in one form."""
    pairs: object = tuple(missing.items()) if isinstance(missing, Mapping) else missing
    if not isinstance(pairs, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise DomainError(
            "missing-invalid",
            f"The value of missing is {missing!r}.",
            "It must give each cell its codes.",
            "Write each cell as name = codes, such as unknown = [-9].",
            "No attribute was made.",
            place="missing",
        )
    for name, codes in pairs:
        if not isinstance(name, str) or not name.strip() or not encodable(name):
            raise DomainError(
                "missing-cell-name-invalid",
                f"A cell for missing values is called {name!r}.",
                "Its name must be a non-empty text.",
                "Rename the cell.",
                "No attribute was made.",
                place="missing",
            )
        if isinstance(codes, (str, bytes, Set, Mapping)) or not isinstance(codes, Iterable):
            raise DomainError(
                "missing-codes-not-a-list",
                f"The codes of {name!r} are {codes!r}.",
                "They must be a list, whose order is fixed.",
                "Write the codes as a list.",
                "No attribute was made.",
                place="missing",
            )
    refuse_repeated("cell for missing values", tuple(name for name, _ in pairs))
    return tuple((name, tuple(map(_whole, codes))) for name, codes in pairs)


def _whole(code: object) -> Code:
    """A code as it is, −9.0 as −9."""
    item: object = plain(code)
    return int(item) if isinstance(item, float) and item.is_integer() else plain(item)


def unknown_value(text: str, needed: str) -> DomainError:
    """Return the error for a value that an attribute does not have.

    Args:
        text: The value as the error shows it.
        needed: Sentence that names the values that there are.
    """
    return DomainError(
        "unknown-value",
        f"The value {text} is not declared.",
        needed,
        "Name a declared value.",
        "The value was not found.",
    )


def _check_column(column: str | None) -> None:
    if column is not None and (not isinstance(column, str) or not column):
        raise DomainError(
            "column-invalid",
            f"The value of column is {column!r}.",
            "It must be a non-empty text.",
            "Give the name of a column of the data, or remove column.",
            "No attribute was made.",
            place="column",
        )


@final
@dataclass(frozen=True, init=False)
class Categorical(Attribute):
    """Unordered codes, with an optional label for each.

    Args:
        codes: the codes the data hold (all text, all whole numbers or all true/false), or a mapping code → label.
        column: the column of the data to read, when it is not named as the attribute.
        missing: cells for what is no value: {name: codes}.
        absent: a cell of `missing` for null, NaN and blank, "refuse" or "drop"; default as the source of the data says.
        outside: the same for everything else that is not declared.
        read: what the codes are read off, where the column holds dates: "year", "quarter", "month", "weekday", "hour",
            or {"age_on": "2024-12-31"} (:mod:`fitnoise.kernel.dates`).
        lookup: for each value that the data hold, its code, such as a postcode's region: {value: code}, pairs, or a CSV
            file with the columns `value` and `code`. A value that it does not name is not declared. It is public, and
            part of the plan. Values are kept in order; None: the data hold the codes themselves.

    Raises:
        DomainError: no codes, codes of mixed kinds, or codes or labels that repeat; cells that cannot be told apart; or
            a lookup with a value twice, of mixed kinds, with a code that is not declared, or without one that is.
    """

    kind: ClassVar[str] = "categorical"
    ordered: ClassVar[bool] = False

    codes: tuple[Code, ...]
    labels: tuple[str, ...] | None = None
    column: str | None = None
    missing: Missing = ()
    absent: str | None = None
    outside: str | None = None
    read: Read | Mapping[str, Any] | str | None = None
    lookup: tuple[tuple[Code, Code], ...] | None = None
    coding: Coding = field(init=False, repr=False)
    _positions: Mapping[tuple[bool, object], int] = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        codes: Iterable[Code] | Mapping[Code, str],
        *,
        column: str | None = None,
        missing: Missing | None = None,
        absent: str | None = None,
        outside: str | None = None,
        read: Read | Mapping[str, Any] | str | None = None,
        lookup: Mapping[Code, Code] | Iterable[Sequence[Code]] | str | Path | None = None,
    ) -> None:
        labels = tuple(codes.values()) if isinstance(codes, Mapping) else None
        if isinstance(codes, (str, bytes)) or not isinstance(codes, Iterable):
            raise DomainError(
                "codes-not-a-list",
                f"The value of codes is {shown(codes)}.",
                "It must be a list of values.",
                "Write the codes as a list.",
                "No attribute was made.",
                place="codes",
            )
        coding = Codes(tuple(plain(c) for c in codes))
        refuse_repeated("label", labels or ())
        if labels is not None and not all(isinstance(x, str) and x and encodable(x) for x in labels):
            raise DomainError(
                "label-invalid",
                "A label is empty, is not a text, or holds half of a surrogate pair.",
                "Labels must be non-empty texts that UTF-8 can write.",
                "Give each code such a label.",
                "No attribute was made.",
            )
        _check_column(column)
        object.__setattr__(self, "codes", coding.codes)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "column", column)
        pairs = (*enumerate(labels or ()), *enumerate(coding.codes))  # true/false are no numbers
        positions: dict[tuple[bool, object], int] = {(isinstance(name, bool), name): i for i, name in pairs}
        object.__setattr__(self, "_positions", FixedMapping(positions))
        object.__setattr__(self, "lookup", None if lookup is None else _lookup(lookup, coding))
        if self.lookup is not None:
            places = {(type(c), c): i for i, c in enumerate(coding.codes)}
            coding = Codes(tuple(v for v, _ in self.lookup), tuple(places[type(c), c] for _, c in self.lookup))
        self._with_read(read, coding.kind)
        self._with_missing(coding, missing, absent, outside)

    @classmethod
    def from_file(cls, path: str | Path, *, column: str | None = None, **beside: Any) -> Categorical:
        """Read codes from a CSV file with a column `code` and, if wanted, a column `label`.

        `beside` is what is said of missing values, as for the class.

        Codes are text, unless every one of them is a plain whole number without leading zeros.

        Raises:
            DomainError: the file cannot be read or has no column `code`.
        """
        path = Path(path)
        header, rows = read_rows(path, "the file of codes")
        if "code" not in header:
            raise DomainError(
                "codes-file-columns",
                f"The file of codes {path.name!r} has the columns {header}.",
                "It needs a column named 'code', and may have a column named 'label'.",
                "Add or rename the column.",
                "No attribute was made.",
                place=path.name,
            )
        codes = _codes([row["code"] for row in rows])
        if "label" not in header:
            return cls(codes, column=column, **beside)
        if len(set(codes)) != len(codes):
            raise DomainError(
                "codes-file-repeated",
                f"The file of codes {path.name!r} declares a code twice.",
                "Each code needs one row.",
                "Remove one of the two rows.",
                "No attribute was made.",
                place=path.name,
            )
        return cls({c: row["label"] for c, row in zip(codes, rows, strict=True)}, column=column, **beside)

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """Labels where there are any, codes otherwise."""
        return self.labels if self.labels is not None else self.codes

    def own_position(self, value: object) -> int:
        """The cell of a code, or of a label.

        Args:
            value: a code as the data hold it, or a label as tables show it.

        Returns:
            Its place, from 0.

        Raises:
            DomainError: it is none of them.
        """
        with contextlib.suppress(KeyError, TypeError):  # what has no hash is neither
            return self._positions[isinstance(value, bool), value]
        raise unknown_value(repr(value), "It must be a code or a label of the attribute.")

    @property
    def coded(self) -> str | None:
        """That there is a lookup."""
        return None if self.lookup is None else f"looked up from {len(self.lookup):,} values of the data"

    def declared(self) -> dict[str, Any]:
        """Codes, and labels and a lookup where there are any."""
        lookup = {} if self.lookup is None else {"lookup": [list(pair) for pair in self.lookup]}
        return {"codes": list(self.codes), "labels": None if self.labels is None else list(self.labels), **lookup}


def _lookup(given: object, codes: Codes) -> tuple[tuple[Code, Code], ...]:
    """Values of the data with their codes, in order; DomainError for what is none."""
    if isinstance(given, (str, Path)):
        header, rows = read_rows(Path(given), "the file of a lookup")
        if not {"value", "code"} <= set(header):
            raise DomainError(
                "lookup-file-columns",
                f"The lookup file {Path(given).name!r} has the columns {header}.",
                "It needs columns named 'value' and 'code'.",
                "Add or rename the columns.",
                "No attribute was made.",
                place=Path(given).name,
            )
        known = {str(c).lower() if isinstance(c, bool) else str(c): c for c in codes.codes}
        given = [
            (v, known.get(row["code"], row["code"]))
            for v, row in zip(_codes([r["value"] for r in rows]), rows, strict=True)
        ]
    pairs = list(given.items() if isinstance(given, Mapping) else given if isinstance(given, Iterable) else [None])
    good = [isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2 for pair in pairs]
    if not pairs or not all(good) or not all(isinstance(plain(code), (str, int)) for _, code in pairs):
        raise DomainError(
            "lookup-invalid",
            f"The value of lookup is {reprlib.repr(given)}.",
            "It must give each value of the data its code.",
            "Write {value: code}, pairs, or the name of a CSV file.",
            "No attribute was made.",
            place="lookup",
        )
    pairs = [tuple(map(_whole, pair)) for pair in pairs]
    try:
        values = Codes(tuple(value for value, _ in pairs))
    except DomainError as error:
        raise DomainError(
            "lookup-values-invalid",
            f"The values of the lookup cannot be read as codes. {error.given}",
            error.needed,
            error.action,
            "No attribute was made.",
            place="lookup",
        ) from None
    declared, given_codes = ({(type(c), c) for c in some} for some in (codes.codes, [code for _, code in pairs]))
    if unknown := given_codes - declared:
        raise DomainError(
            "lookup-codes-unknown",
            f"The lookup gives the codes {_codes_text(unknown)}, which are not declared.",
            "Each value must lead to a declared code.",
            "Declare these codes, or correct the lookup.",
            "No attribute was made.",
            place="lookup",
        )
    if unused := declared - given_codes:
        raise DomainError(
            "lookup-codes-unused",
            f"No value of the lookup leads to the codes {_codes_text(unused)}.",
            "Each declared code needs a value.",
            "Add values for these codes, or remove the codes.",
            "No attribute was made.",
            place="lookup",
        )
    order = sorted(range(len(pairs)), key=lambda i: values.codes[i])
    return tuple(pairs[i] for i in order)


def _codes_text(codes: Set[tuple[type, Code]]) -> str:
    """Return some codes with their types, as a short text."""
    return reprlib.repr(sorted((code for _, code in codes), key=str))


@final
@dataclass(frozen=True)
class Ordered(Attribute):
    """Whole numbers from `low` to `high`, ends included.

    With `clip=True` smaller values count as `low` and larger ones as `high` ("85 and over"); this is a declared
    coding of the data, not a repair. Otherwise values outside are outside the domain. `missing`, `absent` and `outside`
    are as for :class:`Categorical`, as is `read`; codes of `missing` come before anything is clipped.

    Raises:
        DomainError: bounds that are not whole numbers below 2^53 in size, `low > high`, or ten million cells and more.
    """

    kind: ClassVar[str] = "ordered"
    ordered: ClassVar[bool] = True

    low: int
    high: int
    clip: bool = False
    column: str | None = None
    missing: Missing | None = field(default=None, kw_only=True)  # type: ignore[assignment]  # pairs, once it is made
    absent: str | None = field(default=None, kw_only=True)
    outside: str | None = field(default=None, kw_only=True)
    read: Read | Mapping[str, Any] | str | None = field(default=None, kw_only=True)
    coding: Coding = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        coding = Range(self.low, self.high, self.clip)
        self._with_read(self.read, int)
        _check_column(self.column)
        object.__setattr__(self, "low", coding.low)
        object.__setattr__(self, "high", coding.high)
        object.__setattr__(self, "clip", coding.clip)
        self._with_missing(coding, self.missing, self.absent, self.outside)

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The whole numbers themselves."""
        return tuple(range(self.low, self.high + 1))

    @property
    def coded(self) -> str | None:
        """What is clipped."""
        apart = any(isinstance(code, int) for codes in dict(self.missing or ()).values() for code in codes)
        but = ", but for codes of missing values" if apart else ""
        return f"below {self.low} as {self.low}, above {self.high} as {self.high}{but}" if self.clip else None

    @property
    def is_capped(self) -> bool:
        """Whether it clips."""
        return self.clip

    def own_position(self, value: object) -> int:
        """The cell of a whole number in the range.

        Args:
            value: a whole number from `low` to `high`.

        Returns:
            Its place, from 0.

        Raises:
            DomainError: it is none of them.
        """
        value = plain(value)
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return value - self.low
        raise unknown_value(repr(value), f"It must be a whole number from {self.low} to {self.high}.")

    def declared(self) -> dict[str, Any]:
        """Both ends, and whether values beyond them count as the ends."""
        return {"low": self.low, "high": self.high, "clip": self.clip}


@final
@dataclass(frozen=True)
class Binned(Attribute):
    """A number cut at c₁ < c₂ < … < c_k into k + 1 bins: below c₁, [c₁, c₂), …, c_k or more.

    `missing`, `absent`, `outside` and `read` are as for :class:`Categorical`; codes of `missing` come before any bin.

    Raises:
        DomainError: no cuts, cuts that are not finite numbers, or not strictly increasing; or cells that cannot be told
            apart.
    """

    kind: ClassVar[str] = "binned"
    ordered: ClassVar[bool] = True

    cuts: tuple[float, ...]
    column: str | None = None
    missing: Missing = ()
    absent: str | None = None
    outside: str | None = None
    read: Read | Mapping[str, Any] | str | None = None
    coding: Coding = field(init=False, repr=False, compare=False)
    _values: tuple[str, ...] = field(init=False, repr=False, compare=False)

    @checked(DomainError, "Nothing was made.")
    def __init__(
        self,
        cuts: Sequence[float],
        *,
        column: str | None = None,
        missing: Missing | None = None,
        absent: str | None = None,
        outside: str | None = None,
        read: Read | Mapping[str, Any] | str | None = None,
    ) -> None:
        coding = Cuts(tuple(cuts))
        self._with_read(read, int)
        _check_column(column)
        object.__setattr__(self, "cuts", coding.cuts)
        object.__setattr__(self, "column", column)
        text = [_number(c) for c in coding.cuts]
        middle = [f"{a} to under {b}" for a, b in itertools.pairwise(text)]
        object.__setattr__(self, "_values", (f"under {text[0]}", *middle, f"{text[-1]} or more"))
        self._with_missing(coding, missing, absent, outside)

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """Texts such as "10000 to under 25000"."""
        return self._values

    def own_position(self, value: object) -> int:
        """The bin with this text. A number is refused: it lies in a bin that holds others, and may be meant as an end.

        Args:
            value: the text of a bin as tables show it.

        Returns:
            Its place, from 0.

        Raises:
            DomainError: it is none of them.
        """
        if isinstance(value, str) and value in self._values:
            return self._values.index(value)
        raise unknown_value(shown(value), f"It must be one of the bins {list(self._values)}.")

    def declared(self) -> dict[str, Any]:
        """The cuts."""
        return {"cuts": list(self.cuts)}


@final
@dataclass(frozen=True)
class Amount(Attribute):
    """A quantity to be summed, such as an income or hours: `Amount(0, 200_000, step=100)`.

    Its two cells are the ends of its range, and a record lies *between* them: with K = (high − low)/step and x read as
    low + j · step, j = 0 … K, it counts 1 − j/K in the first and j/K in the second. Whatever is asked of an amount is a
    sum of whole numbers, and a record costs most at one of the ends, so that what is charged holds for every value of
    the declared range (:mod:`fitnoise.kernel.designs.parts`).

    With `ceilings` between low and high sums are to be had up to each of them as well, Σ min(x, t), from one plan. Then
    there is a cell for each of these knots low < t_1 < … < high, a record lies between two that follow one another, and
    costs most at a knot.

    With a range by class, `high=By("size", {"small": 1_000, "large": 1_000_000})`, each record is read in the range of
    its class, in as many steps as in all others: of turnover by size of the firm, x is low_c + j · step_c. A record
    costs what it costs at the ends of its own class, so that small firms need not pay for the range of large ones.

    Numbers below `low` count as `low`, those above `high` as `high`, and all as the nearest step: this is a declared
    coding of the data. Choose `high` from what is public, never from the data: a law, an older publication.

    Args:
        low: least amount.
        high: largest amount. By the values of another attribute of the domain, such as
            `By("size", {"small": 1_000, "large": 1_000_000})`, a range for each, with cells for missing ones among
            them; `low` is then 0, or by them too, as many steps above zero in each.
        step: in which amounts are read; it must divide the range, into at most 2^30 steps. Of several ranges it is that
            of the smallest, and others are read in as many steps.
        column: the column of the data to read, when it is not named as the attribute.
        valid: numbers below the first or above the second are no amounts, but outside the domain; default all are
            amounts. A code such as 9999999 for "not stated" would otherwise count as `high`.
        ceilings: amounts up to which sums may be asked for too, increasing, between low and high, each a whole number
            of steps above low; `high` is one anyway. None with a range by class.
        missing: cells for what is no value, as for :class:`Categorical`; codes come before anything is cut.
        absent: as for :class:`Categorical`.
        outside: as for :class:`Categorical`.

    Raises:
        DomainError: numbers that are not finite decimals of at most 15 places, no range, or one that is no whole number
            of steps; ceilings that are not between its ends, or no steps; cells that cannot be told apart; or ranges by
            class that differ in more than what a step is. In a domain also: a class that has no range, or an attribute
            that has no classes.
    """

    kind: ClassVar[str] = "amount"
    ordered: ClassVar[bool] = False

    low: float | ByValue
    high: float | ByValue
    step: float = field(default=1, kw_only=True)
    column: str | None = field(default=None, kw_only=True)
    valid: tuple[float, float] | None = field(default=None, kw_only=True)
    ceilings: Sequence[float] | None = field(default=None, kw_only=True)
    missing: Missing | None = field(default=None, kw_only=True)  # type: ignore[assignment]  # pairs, once it is made
    absent: str | None = field(default=None, kw_only=True)
    outside: str | None = field(default=None, kw_only=True)
    coding: Coding = field(init=False, repr=False, compare=False)
    _labels: tuple[str, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        valid = None
        if self.valid is not None:
            if not isinstance(self.valid, (list, tuple)) or len(self.valid) != 2:
                raise DomainError(
                    "valid-not-a-pair",
                    f"The value of valid is {self.valid!r}.",
                    "It must be a pair of numbers, the least and the largest.",
                    "Write both numbers.",
                    "No attribute was made.",
                    place="valid",
                )
            least, most = (_end(x) for x in self.valid)
            valid = (least, most)
        if self.ceilings is not None and not isinstance(self.ceilings, (list, tuple)):
            raise DomainError(
                "ceilings-not-a-list",
                f"The value of ceilings is {shown(self.ceilings)}.",
                "It must be a list of amounts between low and high.",
                "Write the ceilings as a list.",
                "No attribute was made.",
                place="ceilings",
            )
        tops = tuple(_decimal("ceilings", t) for t in self.ceilings or ())
        step = _decimal("step", self.step)
        if isinstance(self.low, ByValue) or isinstance(self.high, ByValue):
            if tops:
                raise DomainError(
                    "ceilings-with-classes",
                    "The amount has ceilings and ranges by class.",
                    "An amount may have only one of the two.",
                    "Declare two amounts on the same column.",
                    "No attribute was made.",
                    place="ceilings",
                )
            coding = self._by_class(step, valid)
        else:
            low, high = (_decimal(name, getattr(self, name)) for name in ("low", "high"))
            coding = Steps(low, high, step, valid, tops)
            object.__setattr__(self, "low", _short(low))
            object.__setattr__(self, "high", _short(high))
        _check_column(self.column)
        object.__setattr__(self, "ceilings", tuple(map(_short, tops)) or None)
        object.__setattr__(self, "step", _short(step))
        object.__setattr__(self, "valid", valid)
        self._with_missing(coding, self.missing, self.absent, self.outside)

    def _by_class(self, step: Fraction, valid: tuple[float, float] | None) -> Steps:
        """Steps whose size goes by another attribute: of numbers in order the ranges, of others none are known yet."""
        (by, *others) = dict.fromkeys(x.attribute for x in (self.low, self.high) if isinstance(x, ByValue))
        if others:
            raise DomainError(
                "range-by-two-attributes",
                f"The end low depends on {by!r}, and high on {others[0]!r}.",
                "Both must depend on one attribute.",
                "Use one attribute for both ends.",
                "No attribute was made.",
            )
        named = any(x.named or x.default is not None for x in (self.low, self.high) if isinstance(x, ByValue))
        given = [x.values if isinstance(x, ByValue) else None for x in (self.low, self.high)]
        count = max(len(x) for x in given if x is not None)
        if named or not count or not all(x is None or len(x) == count for x in given):
            return Steps(Fraction(0), Fraction(1), Fraction(1), by=by)
        ends = [
            [_decimal(name, v) for v in (x if x is not None else [getattr(self, name)] * count)]
            for name, x in zip(("low", "high"), given, strict=True)
        ]
        widths = [high - low for low, high in zip(*ends, strict=True)]
        if min(widths) <= 0 or step <= 0:
            raise DomainError(
                "class-range-empty",
                "In a class low is not below high, or the step is not positive.",
                "Every class needs low < high, and a positive step.",
                "Change low, high or step.",
                "No attribute was made.",
            )
        most = min(widths) / step
        try:
            classes = tuple(Steps(low, high, (high - low) / most, valid) for low, high in zip(*ends, strict=True))
        except DomainError as error:
            raise DomainError(
                "class-steps-invalid",
                f"The ranges by {by!r} all have the same number of steps, of {float(step)} in the smallest. "
                f"{error.given}",
                error.needed,
                f"{error.action} A step of {float(min(widths) / 1000)} makes a thousand of each.",
                "No attribute was made.",
            ) from None
        zeros = {own.low / own.step for own in classes}
        zero = next(iter(zeros))
        if len(zeros) > 1 or zero.denominator != 1:
            raise DomainError(
                "class-starts-differ",
                f"The ranges start at {[float(own.low) for own in classes[:3]]} in steps of "
                f"{[float(own.step) for own in classes[:3]]}.",
                "They must start at 0, or at the same whole number of steps from 0.",
                "Change low of the classes.",
                "No attribute was made.",
                place="low",
            )
        return Steps(zero, zero + most, Fraction(1), by=by, classes=classes)

    def among(self, other: Attribute | None) -> Amount:
        """The same in a domain: a range for every cell of the attribute by which it goes, in order.

        Args:
            other: that attribute, None where there is none.

        Raises:
            DomainError: it is none by whose cells ranges can go, or some have no range, or what has one is no cell.
        """
        by, ends = self.by, {"low": self.low, "high": self.high}
        if by is None:
            return self
        if not isinstance(other, (Categorical, Ordered, Binned)):
            raise DomainError(
                "range-attribute-invalid",
                f"The range of an amount depends on {by!r}.",
                "It must depend on a categorical, ordered or binned attribute of the domain.",
                f"Declare {by!r} as such an attribute, or name another one.",
                "No domain was made.",
            )
        along = {
            name: ByValue(by, x.along(other.values, "range", DomainError))
            for name, x in ends.items()
            if isinstance(x, ByValue)
        }
        found = replace(self, **along)  # type: ignore[arg-type]  # each of its type
        object.__setattr__(found, "_labels", tuple(map(str, other.values)))
        return found

    @property
    def exact(self) -> Steps:
        """Its range and its steps, exactly; where they go by class, in steps."""
        values = values_of(self.coding)
        assert isinstance(values, Steps)  # noqa: S101 - made so
        return values

    @property
    def by(self) -> str | None:
        """The attribute by which its range goes; None where it is one for all."""
        return self.exact.by

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """Its knots: both ends, and the ceilings between them; where the range goes by class, in steps."""
        exact = self.exact
        knots: tuple[Any, ...] = tuple(map(_short, (exact.low, *exact.ceilings, exact.high)))  # not all are whole
        return knots

    @property
    def coded(self) -> str | None:
        """What is cut, and in which steps amounts are read."""
        return self.coded_up_to(self.top(None))

    @property
    def is_capped(self) -> bool:
        """Whether there are valid numbers beyond the range: not where `valid` is the range."""
        return self.by is not None or self.valid != (_short(self.exact.low), _short(self.exact.high))

    def top(self, ceiling: float | None) -> float:
        """A ceiling, as it is declared; None is the largest amount, in steps where the range goes by class.

        Args:
            ceiling: up to which amounts count.

        Raises:
            DomainError: it is neither declared nor `high`.
        """
        tops = [*(self.ceilings or ()), _short(self.exact.high)]
        if ceiling is None:
            return tops[-1]
        if self.by is not None or not is_real(ceiling) or ceiling not in tops:
            raise DomainError(
                "ceiling-not-declared",
                f"The ceiling is {shown(ceiling)}.",
                f"It must be a declared ceiling or high, one of {tops}.",
                "Declare the ceiling with the amount (ceilings = …) before you plan.",
                "Nothing was planned.",
                place="ceiling",
            )
        return tops[tops.index(ceiling)]

    def largest(self, ceiling: float | None, place: int | None = None) -> float:
        """The largest that a record can add to a sum up to a ceiling, whichever its sign.

        Args:
            ceiling: as for `top`.
            place: the cell of the attribute by which its range goes; None: the largest of all.
        """
        own = self.exact.classes if place is None else self.exact.classes[place : place + 1]
        ends = [(x.low, x.high) for x in own] if own else [(self.exact.low, Fraction(self.top(ceiling)))]
        return _short(max(abs(x) for pair in ends for x in pair))

    def coded_up_to(self, top: float) -> str:
        """What is cut where amounts count up to a ceiling, and in which steps they are read.

        Args:
            top: the ceiling.
        """
        codes = any(isinstance(code, int) for codes in dict(self.missing or ()).values() for code in codes)
        but = ", but for codes of missing values" if codes else ""
        if not self.is_capped and top == self.top(None):
            return f"in steps of {self.step}"
        if self.by is None:
            return f"below {self.low} as {self.low}, above {top} as {top}, in steps of {self.step}{but}"
        told: dict[Steps, list[str]] = {}
        for label, own in zip(self._labels, self.exact.classes, strict=False):
            told.setdefault(own, []).append(label)
        ranges = (
            f"{', '.join(labels)} {_short(own.low)} to {_short(own.high)} in steps of {_short(own.step)}"
            for own, labels in told.items()
        )
        return f"by {self.by}, and beyond as the ends: {'; '.join(ranges)}{but}"

    def own_position(self, value: object) -> int:
        """None: records lie between its cells.

        Args:
            value: any.

        Raises:
            DomainError: always.
        """
        raise DomainError(
            "amount-by-value",
            f"The value {value!r} of an amount is requested.",
            "An amount is summed, and is not shown by value.",
            "Request its sum (sum = …), or declare a binned attribute on the same column.",
            "The value was not found.",
        )

    def declared(self) -> dict[str, Any]:
        """The range, the step, which numbers are amounts at all, and ceilings, where there are any."""
        valid = None if self.valid is None else [float(x) for x in self.valid]
        tops = {} if self.ceilings is None else {"ceilings": [float(t) for t in self.ceilings]}
        ends = {name: _end_document(x) for name, x in (("low", self.low), ("high", self.high))}
        return {**ends, "step": float(self.step), "valid": valid, **tops}


def _end_document(x: float | ByValue) -> Any:
    """An end of a range; by class, for each in order."""
    if not isinstance(x, ByValue):
        return float(x)
    return {"by": x.attribute, "values": [float(v) for v in x.values if not isinstance(v, tuple)]}


def _decimal(name: str, value: object) -> Fraction:
    """A number as it is written in decimals, exactly; DomainError for what is none."""
    x: object = plain(value)
    if isinstance(x, bool) or not isinstance(x, (int, float, Decimal)) or not fits(x, float) or not math.isfinite(x):
        raise DomainError(
            "amount-number-invalid",
            f"A value of {name} of the amount is {shown(value)}.",
            "It must be a finite number.",
            f"Correct {name}.",
            "No attribute was made.",
            place=name,
        )
    return Fraction(repr(x) if isinstance(x, float) else x)


def _end(value: object) -> float:
    """An end of valid numbers, as a double holds it; DomainError for a whole number that none holds."""
    x = _decimal("valid", value)
    if x.denominator == 1 and not isinstance(plain(value), float):
        refuse_inexact("an end of valid", x.numerator)
    return _short(x) if abs(x) < EXACT else float(x)


def _short(x: Fraction) -> float:
    """As a whole number where it is one."""
    return x.numerator if x.denominator == 1 else float(x)


def read_rows(path: Path, what: str, kind: type[FitnoiseError] = DomainError) -> tuple[list[str], list[dict[str, str]]]:
    """The header and the rows of a CSV file of ours: of codes, places, targets, areas; never of records.

    Args:
        path: the file.
        what: it is, for the error.
        kind: of that error.

    Raises:
        FitnoiseError: of this kind, where it cannot be read, or is no CSV file in UTF-8.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            return list(reader.fieldnames or ()), list(reader)
    except (OSError, ValueError, csv.Error) as error:  # no text in UTF-8, or no name of a file
        raise kind(
            "csv-file-unreadable",
            f"Reading {what} {path.name!r} failed: {getattr(error, 'strerror', None) or error}.",
            "It must be a CSV file in UTF-8.",
            "Check the name and the contents of the file.",
            "Nothing was read.",
            place=path.name,
        ) from error


def _codes(texts: Sequence[str]) -> list[Code]:
    """Texts as codes: whole numbers if every one of them is a plain one without leading zeros."""
    whole = all(t is not None and re.fullmatch("0|-?[1-9][0-9]*", t) for t in texts)
    return [int(t) for t in texts] if whole else list(texts)


def _number(x: float) -> str:
    return str(int(x)) if x == int(x) and abs(x) < EXACT else repr(x)


@final
@dataclass(frozen=True, init=False)
class Hierarchy(Attribute):
    """Nested places, such as tracts in counties in states: the data hold the code of a leaf.

    A table names one of the levels as it would name an attribute: `table("county", "sex", margin=30)`.

    Args:
        levels: their names, from the top down to the leaves; each names one level for all tables.
        places: one row for each leaf: its code on every level, such as `frame[levels].itertuples(index=False)` of a
            pandas frame; or the frame itself, of pandas or Polars, with a column for each level and any others. Tables
            show places in the order of their first appearance, those of one place together.
        file: the CSV file that has them instead, as :meth:`from_file` reads it.
        children: how many places each has instead, and codes are made, as :meth:`regular` says.
        column: the column of the data that holds the codes of leaves, when it is not named as the attribute.

    Raises:
        DomainError: fewer than two levels, two of one name, a row that lacks a code, codes of mixed kinds, a leaf that
            is listed twice, or a place in two places above it; not one of places, file and children; a frame without
            a column for each level, or a file that cannot be read; or children that make no tree.
    """

    kind: ClassVar[str] = "hierarchy"
    ordered: ClassVar[bool] = False

    tree: Tree
    column: str | None = None
    coding: Codes = field(init=False, repr=False, compare=False)
    views: tuple[Level, ...] = field(init=False, repr=False, compare=False)

    @checked(DomainError, "Nothing was made.", "places", "file")
    def __init__(
        self,
        levels: Sequence[str],
        places: Iterable[Sequence[Code]] | None = None,
        *,
        file: str | Path | None = None,
        children: Sequence[int] | None = None,
        column: str | None = None,
    ) -> None:
        names = level_names(levels)
        given = sum(x is not None for x in (places, file, children))
        if given > 1:
            raise DomainError(
                "places-in-several-ways",
                f"The hierarchy has {given} of places, file and children.",
                "It needs exactly one of them.",
                "Keep one, and remove the others.",
                "No hierarchy was made.",
            )
        tree: Tree
        if children is not None:
            tree = Regular.of(names, children)
        elif file is not None:
            tree = Listed.of(names, _rows_of_file(Path(file), names))
        elif places is not None:
            tree = Listed.of(names, _rows_of_frame(places, names) if hasattr(places, "columns") else places)
        else:
            raise DomainError(
                "places-not-given",
                "The hierarchy has no places.",
                f"It needs a row for each {names[-1]!r}, a CSV file of these rows, or the number of places in each "
                "place.",
                "Give places, file or children.",
                "No hierarchy was made.",
            )
        _check_column(column)
        object.__setattr__(self, "tree", tree)
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "views", tuple(Level(self, depth) for depth in range(len(names))))
        object.__setattr__(self, "coding", self.views[-1].coding)

    @classmethod
    def from_file(cls, path: str | Path, levels: Sequence[str], *, column: str | None = None) -> Hierarchy:
        """Read places from a CSV file with one row for each leaf and one column for each level.

        Codes are text, unless all codes of a level are plain whole numbers without leading zeros. Other columns are
        left alone.

        Raises:
            DomainError: the file cannot be read, or lacks the column of a level; or as for the class.
        """
        return cls(levels, file=path, column=column)

    @classmethod
    @checked(DomainError, "Nothing was made.", "levels")
    def regular(
        cls, levels: Mapping[str, int] | None = None, /, *, column: str | None = None, **children: int
    ) -> Hierarchy:
        """A tree in which all places of a level have equally many places: `regular(state=51, county=62, tract=27)`.

        Codes are made, as texts: that of the place above, and the number of the place in it, from 1 as in official
        codes, in as many digits as the last one needs: "07" is the seventh of 51 states, "0731" its county 31. They are
        listed where records are counted, tables written or places named; no plan needs them, however many there are.
        It equals another one of the same numbers, and none that is declared by rows, which plans list.

        Args:
            levels: how many places the first level has, and then each place of the level above, by name, from the top
                down; for names that are not Python identifiers, or that are "column".
            column: as for the class.
            children: the same of further levels, below these.

        Raises:
            DomainError: fewer than two levels, a name twice, a number that is no whole one of 1 or more, or more than
                ten million places of the last level.
        """
        both = set(levels or ()) & set(children)
        if both:
            raise DomainError(
                "levels-repeated",
                f"The levels {sorted(both)} are declared twice.",
                "Each level needs one number.",
                "Remove one of the two declarations.",
                "No hierarchy was made.",
            )
        found = {**(levels or {}), **children}
        return cls(tuple(found), children=tuple(found.values()), column=column)

    @property
    def levels(self) -> tuple[str, ...]:
        """Their names, from the top down."""
        return self.tree.levels

    @property
    def places(self) -> tuple[tuple[Code, ...], ...]:
        """The code of every leaf on every level; they are listed anew where they are not declared."""
        return self.tree.rows

    @property
    def children(self) -> tuple[int, ...] | None:
        """How many places each has, where that is declared."""
        return self.tree.children if isinstance(self.tree, Regular) else None

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The codes of the leaves."""
        return self.views[-1].values

    def own_position(self, value: object) -> int:
        """The cell of a leaf's code.

        Args:
            value: the code of a place of the last level.

        Returns:
            Its place, from 0.

        Raises:
            DomainError: it is none of them.
        """
        return self.views[-1].position(value)

    def declared(self) -> dict[str, Any]:
        """The levels, and the rows of the leaves or the numbers that stand for them."""
        if self.children is not None:
            return {"levels": list(self.levels), "children": list(self.children)}
        return {"levels": list(self.levels), "places": [list(row) for row in self.places]}


def _rows_of_file(path: Path, levels: tuple[str, ...]) -> list[tuple[Code, ...]]:
    header, rows = read_rows(path, "the file of places")
    for name in levels:
        if name not in header:
            raise DomainError(
                "places-file-columns",
                f"The file of places {path.name!r} has the columns {header}, and no column {name!r}.",
                "It needs a column for each level.",
                "Add or rename the column.",
                "No hierarchy was made.",
                place=path.name,
            )
    return list(zip(*(_codes([row[name] for row in rows]) for name in levels), strict=True))


def _rows_of_frame(frame: Any, levels: tuple[str, ...]) -> list[tuple[Code, ...]]:
    """Of a data frame, whatever its kind: its columns are found by name, and gone through. What is NaN is missing."""
    header = list(frame.columns)
    for name in levels:
        if header.count(name) != 1:
            raise DomainError(
                "places-frame-columns",
                f"The frame of places has the columns {header}; {header.count(name)} of them are named {name!r}.",
                "It needs one column for each level.",
                "Add, rename or remove columns.",
                "No hierarchy was made.",
                place=name,
            )
    columns = ([None if isinstance(x, float) and math.isnan(x) else x for x in frame[name]] for name in levels)
    return list(zip(*columns, strict=True))


@final
@dataclass(frozen=True)
class Level(Attribute):
    """One level of a hierarchy: a record lies in the place that holds its leaf. Domains make it; see `Domain`.

    of: the hierarchy. depth: which of its levels, 0 at the top.
    """

    kind: ClassVar[str] = "level"
    ordered: ClassVar[bool] = False

    of: Hierarchy = field(repr=False)
    depth: int
    column: None = field(init=False, default=None)
    coding: Codes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "coding", Leaves(self.of.tree, self.depth))

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.of.levels[self.depth]

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The codes of its places."""
        return self.of.tree.codes[self.depth]

    @cached_property
    def _positions(self) -> dict[object, int]:
        return {code: i for i, code in enumerate(self.own_values)}

    def own_position(self, value: object) -> int:
        """The cell of a place's code."""
        value = plain(value)
        found = self._positions.get(value) if type(value) is type(self.values[0]) else None
        if found is None:
            raise unknown_value(repr(value), f"It must be a place of the level {self.name!r}.")
        return found

    def declared(self) -> dict[str, Any]:
        """Which level it is, of what."""
        return {"depth": self.depth, "of": attribute_document(self.of)}


@final
@dataclass(frozen=True, init=False)
class Domain(Mapping[str, Attribute]):
    """Named attributes, in order: `Domain(state=Categorical(codes), age=Ordered(0, 85))`.

    A mapping may be given instead, for names that are not Python identifiers. The levels of a hierarchy are found by
    their names as attributes are, but a record has a cell of the hierarchy: they are not gone through with the others.

    Raises:
        DomainError: no attributes, a name that is empty or reserved, something that is not an attribute, or a coding of
            a class that no counter knows.
    """

    attributes: tuple[tuple[str, Attribute], ...]
    sizes: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """Number of cells of all that a design may count by, in order: attributes, levels, and shares of levels.

    The share "county in state" is there where all states have equally many counties: which of them a record's county
    is, 0 for the first of each state. With the state it tells the county.
    """
    steps: Mapping[str, tuple[int, ...]] = field(init=False, repr=False, compare=False)
    """Of every amount, how many steps there are from each knot to the next; its first cells are these knots."""
    _named: Mapping[str, tuple[str, Attribute]] = field(init=False, repr=False, compare=False)
    _shares: Mapping[str, Share] = field(init=False, repr=False, compare=False)

    @checked(DomainError, "Nothing was made.", "attributes")
    def __init__(self, attributes: Mapping[str, Attribute] | None = None, /, **named: Attribute) -> None:
        both = set(attributes or ()) & set(named)
        if both:
            raise DomainError(
                "attributes-repeated",
                f"The attributes {sorted(both)} are declared twice.",
                "Each attribute needs a name of its own.",
                "Rename or remove one of the two.",
                "No domain was made.",
            )
        items = {**(attributes or {}), **named}
        if not items:
            raise DomainError(
                "attributes-missing",
                "The domain has no attribute.",
                "A domain needs at least one attribute.",
                "Declare an attribute.",
                "No domain was made.",
            )
        shares: dict[str, Share] = {}
        lowered: dict[str, str] = {}
        sizes: dict[str, int] = {}
        for home, attribute in items.items():
            for name, _ in _names(home, attribute):
                _check_name(name, lowered)
            if not isinstance(attribute, Attribute):
                raise DomainError(
                    "not-an-attribute",
                    f"The object under {home!r} is of the type {type(attribute).__name__}.",
                    "It must be an attribute: Categorical, Ordered, Binned, Amount or Hierarchy.",
                    "Declare one of these attributes.",
                    "No domain was made.",
                    place=home,
                )
        items = {name: a.among(items.get(a.by or name)) if isinstance(a, Amount) else a for name, a in items.items()}
        for home, attribute in items.items():
            _check_coding(home, attribute.coding)
        every = {name: (home, what) for home, attribute in items.items() for name, what in _names(home, attribute)}
        for home, attribute in items.items():
            sizes |= {name: what.size for name, what in _names(home, attribute)}
            for name, share in _shares(home, attribute):
                _check_name(name, lowered)
                shares[name], sizes[name] = share, share.size
        object.__setattr__(self, "attributes", tuple(items.items()))
        steps = {name: a.steps for name, a in items.items() if a.steps}
        for name, made in (("sizes", sizes), ("steps", steps), ("_named", every), ("_shares", shares)):
            object.__setattr__(self, name, FixedMapping(made))

    def __getitem__(self, name: str) -> Attribute:
        return self._found(name)[1]

    def get(self, name: object, default: Any = None, /) -> Any:
        """The attribute or level of a name, or the default where there is none.

        Args:
            name: of an attribute or a level; anything else has the default.
            default: what is returned where there is none.
        """
        return self._named[name][1] if isinstance(name, str) and name in self._named else default

    def _found(self, name: str) -> tuple[str, Attribute]:
        if name in self._named:
            return self._named[name]
        raise DomainError(
            "unknown-attribute",
            f"The domain has no attribute {name!r}.",
            f"Its attributes are {list(self._named)}.",
            "Name one of these attributes.",
            "No attribute was found.",
            place=name if isinstance(name, str) else None,
        )

    def __contains__(self, name: object) -> bool:
        return name in self._named

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def drops(self, by_default: bool) -> tuple[str, ...]:
        """The attributes for whose values records may be left out, of all tables.

        Args:
            by_default: whether the source of the data leaves out what is outside.
        """
        return tuple(name for name, a in self.attributes if a.drops(by_default))

    def cells(self, record: Mapping[str, object]) -> dict[str, int | None]:
        """The cell that a record falls into along every attribute: what counters are tested against.

        Args:
            record: what it has in each column; a column that it lacks is a value that is missing.

        Returns:
            As :meth:`Attribute.cell`, by attribute: None where it is outside the domain. Of an amount whose range goes
            by another attribute, the step in the range of its cell there, and None where it has no cell there.
        """
        values = {name: record.get(self.column(name)) for name, _ in self.attributes}
        found = {name: a.cell(values[name]) for name, a in self.attributes if classified_by(a.coding) is None}
        for name, a in self.attributes:
            by = classified_by(a.coding)
            if by is not None:
                place = found[by]
                found[name] = None if place is None else within(a.coding, place).cell(values[name])
        return {name: found[name] for name, _ in self.attributes}

    def leaves_out(self, source: DataSource, bound: Bound | None) -> bool:
        """Whether records may be left out of all tables: for a value, or because nothing says whose they are.

        With conditions on records they come and go, too.

        It goes by all attributes, whether a table shows them or not: one table more changes no other's truth.

        Args:
            source: of the records, with its conditions.
            bound: how many records of a unit are counted, and by what it is known whose they are.
        """
        return bool(source.where) or self.drops_values(source, bound)

    def drops_values(self, source: DataSource, bound: Bound | None) -> bool:
        """Return True if records may be left out of all tables for a value, or because they have no id.

        Args:
            source: of the records.
            bound: how many records of a unit are counted, and by what it is known whose they are.
        """
        return bool(self.drops(source.drops)) or (source.drops and bound is not None)

    def column(self, name: str) -> str:
        """The column of the data that holds this attribute.

        Args:
            name: of an attribute, a level, or a share of one.

        Raises:
            DomainError: there is no such attribute.
        """
        home = self.home(name)
        return self[home].column or home

    def home(self, name: str) -> str:
        """The attribute of which a level, or a share of one, is; an attribute itself.

        Args:
            name: of an attribute, a level, or a share of one.

        Raises:
            DomainError: there is no such attribute.
        """
        found = self._shares.get(name)
        return found.home if found is not None else self._found(name)[0]

    def lies(self, upper: str, lower: str, above: Indices) -> bool:
        """Whether the places of a level lie in these places of a level above it.

        Raises:
            DomainError: there is no such attribute.
        """
        home = self[self.home(upper)]
        if not isinstance(home, Hierarchy) or self.home(lower) != self.home(upper):
            return False
        return np.array_equal(home.tree.above(self.depth(upper), self.depth(lower)), above)

    def depth(self, name: str) -> int:
        """Which level of its hierarchy a name means, 0 at the top: a share its lower one, the hierarchy its leaves.

        Args:
            name: of an attribute, a level, or a share of one; 0 of what is no hierarchy.

        Raises:
            DomainError: there is no such attribute.
        """
        if name in self._shares:
            return self._shares[name].lower
        a = self[name]
        return a.depth if isinstance(a, Level) else len(a.levels) - 1 if isinstance(a, Hierarchy) else 0

    def alike(self, name: str, axes: Collection[str]) -> int:
        """How many cells of an attribute lie in one place along all of these at most: itself, its levels and shares.

        Args:
            name: of an attribute.
            axes: names of the attribute itself, of its levels and of shares of them.

        Raises:
            DomainError: there is no such attribute.
        """
        attribute = self[name]
        if name in axes:
            return 1
        if not axes or not isinstance(attribute, Hierarchy):
            return attribute.size
        shares = map(self._shares.get, axes)
        return attribute.tree.together(
            (-1 if share is None else share.upper, self.depth(a)) for a, share in zip(axes, shares, strict=True)
        )

    def adjacency(self, source: DataSource, unit: PrivacyUnit) -> Adjacency:
        """When two databases of such records are neighbours for a unit.

        Args:
            source: of the records.
            unit: who is protected.
        """
        return Adjacency(unit, drops=self.leaves_out(source, unit.bound), grid=self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells per attribute."""
        return tuple(a.size for _, a in self.attributes)

    @property
    def size(self) -> int:
        """Number of cells of the whole domain, Π sizes."""
        return math.prod(self.shape)

    def counted(self, margin: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """How records are counted for a margin: by which attributes and levels, and along which axes each one lies.

        The counts of a level are laid out along a level above it and the shares from there down: `county` along
        (`state`, `county in state`), in C order. What is no share of its hierarchy lies along itself.

        Raises:
            DomainError: shares that do not follow one another down the tree.
        """
        shared = dict.fromkeys(self._shares[name].home for name in margin if name in self._shares)
        out = {home: self._path(home, [name for name in margin if self.home(name) == home]) for home in shared}
        return tuple({own: None for name in margin for own in [out.get(self.home(name), (name, (name,)))]})

    def _path(self, home: str, wanted: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """The level by which levels and shares of a hierarchy are counted, and the axes along which it lies."""
        shares = [self._shares[name] for name in wanted if name in self._shares]
        depths = {self.depth(name) for name in wanted if name in self._named}
        depths.update(depth for share in shares for depth in (share.upper, share.lower))
        path = [share.levels[depth] for share in shares[:1] for depth in sorted(depths)]
        axes = (path[0], *(f"{lower} in {upper}" for upper, lower in itertools.pairwise(path)))
        if not set(wanted) <= set(axes) or not set(axes[1:]) <= set(self._shares):
            raise DomainError(
                "shares-not-nested",
                f"The shares {list(wanted)} do not follow one another down the hierarchy {home!r}.",
                "Records cannot be counted by them.",
                "Use shares of which each starts at the level where the one before ends.",
                "Nothing was read and nothing was charged.",
            )
        return path[-1], axes


@final
@dataclass(frozen=True)
class Share:
    """Which place of a lower level it is, of equally many in every place of an upper one."""

    home: str
    levels: tuple[str, ...]
    upper: int
    lower: int
    size: int


def _names(home: str, attribute: Attribute) -> Iterator[tuple[str, Attribute]]:
    """An attribute, and its levels; the last level may be called as the hierarchy is."""
    yield home, attribute
    if isinstance(attribute, Hierarchy):
        last = attribute.views[-1]
        yield from ((view.name, view) for view in attribute.views if view is not last or view.name != home)


def _shares(home: str, attribute: Attribute) -> Iterator[tuple[str, Share]]:
    if isinstance(attribute, Hierarchy):
        for upper, lower in itertools.combinations(range(len(attribute.levels)), 2):
            size = attribute.tree.share(upper, lower)
            if size is not None:
                name = f"{attribute.levels[lower]} in {attribute.levels[upper]}"
                yield name, Share(home, attribute.levels, upper, lower, size)


def _check_coding(name: str, coding: Coding) -> None:
    """Raise DomainError for a coding of another class than counters translate, such as a subclass of one."""
    values = coding.of if type(coding) is Beside else coding
    if type(values) not in (Codes, Leaves, Range, Cuts, Steps):
        raise DomainError(
            "unknown-coding",
            f"The coding of {name!r} is of the class {type(values).__name__}.",
            "No counter translates this class.",
            "Use `Codes`, `Range`, `Cuts` or `Steps`, or `Beside` around one of them.",
            "No domain was made.",
            place=name,
        )


def _check_name(name: object, lowered: dict[str, str]) -> None:
    """Raise DomainError for a name that cannot be a column, or that another one is taken for; remember it."""
    if not isinstance(name, str) or not name.strip() or not encodable(name) or any(c in name for c in '\n\r\t"\0'):
        raise DomainError(
            "attribute-name-invalid",
            f"An attribute is named {name!r}.",
            "Its name must be a plain, non-empty text.",
            "Rename the attribute.",
            "No domain was made.",
        )
    if name.lower() in RESERVED:
        raise DomainError(
            "attribute-name-reserved",
            f"An attribute is named {name!r}.",
            "Every released table has a column of this name.",
            "Rename the attribute.",
            "No domain was made.",
            place=name,
        )
    if name.lower() in DERIVED:
        raise DomainError(
            "attribute-name-derived",
            f"An attribute is named {name!r}.",
            "Tables made from a release have a column of this name.",
            "Rename the attribute.",
            "No domain was made.",
            place=name,
        )
    if name.lower() in lowered:
        other = lowered[name.lower()]
        raise DomainError(
            "attribute-name-repeated",
            f"The names of two attributes or levels are {other!r} and {name!r}.",
            "Two names must differ by more than case.",
            "Rename one of the two.",
            "No domain was made.",
            place=name,
        )
    lowered[name.lower()] = name


def attribute_document(a: Attribute) -> dict[str, Any]:
    """All that is declared of an attribute, as plain JSON values, of which the order counts: that of its cells.

    Written as JSON without sorting, it is the same for equal attributes, and only for them.
    """
    missing = {"missing": {name: list(codes) for name, codes in dict(a.missing).items()}} if a.beside else {}
    rest = {k: v for k, v in (("absent", a.absent), ("outside", a.outside)) if v is not None}
    rest |= {} if a.derived is None else {"read": a.derived.document}
    return {"type": a.kind, **a.declared(), "column": a.column, **missing, **rest}
