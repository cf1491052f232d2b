"""The domain: named attributes and their values, a public fact that the data must fit.

**Purpose.** This module declares the attributes, and computes the cell of each value. It never infers anything from
data. A value that is absent from the data still has its cells, so that its absence stays private. Cells are in C order
of the attributes as declared.
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
from typing import Any, ClassVar, Final, TypeAlias, cast, final

import numpy as np

from fitnoise.errors import DomainError, FitnoiseError
from fitnoise.kernel.arguments import checked, matches_hint
from fitnoise.kernel.arrays import Indices
from fitnoise.kernel.by_value import ByValue
from fitnoise.kernel.checks import describe_value, is_real, refuse_incomplete
from fitnoise.kernel.codings import (
    DROPPED,
    EXACT_FLOAT_LIMIT,
    OUTSIDE,
    REFUSED,
    VALUE_CODINGS,
    Code,
    Codes,
    Coding,
    CodingWithMissing,
    Cuts,
    Range,
    Steps,
    as_python,
    encodable,
    refuse_inexact,
    refuse_repeated,
)
from fitnoise.kernel.dates import DateField, read
from fitnoise.kernel.immutable import FixedMapping
from fitnoise.kernel.places import LeafCodes, ListedTree, RegularTree, Tree, level_names
from fitnoise.kernel.units import Adjacency, DataSource, PrivacyUnit, RecordBound

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

CodingRule: TypeAlias = "tuple[str, Mapping[str, float | str]]"
"""A rule for the reading of values: the id of its message, with the values of the message."""

_MISSING_CODES: CodingRule = ("report.coding.missing_codes", {})
"""The rule that codes of missing values are read as such, also outside the range."""


Missing = Mapping[str, Iterable[Code]] | tuple[tuple[str, tuple[Code, ...]], ...]
"""The type of missing-value categories: the name of each, and the codes of the data that fall into it."""

CODINGS: Final[tuple[type[Coding], ...]] = (CodingWithMissing, LeafCodes, *VALUE_CODINGS)
"""The codings of attributes."""

OUTSIDE_POLICIES = ("drop", "refuse")
"""The possible actions for a record whose value has no cell."""


class Attribute(abc.ABC):
    """One named column of the data with its declared values.

    `coding` maps a value of the data to its cell. `values` are the labels of the cells in a released table. `ordered`
    is True if "at most" has a meaning. Attributes are equal if and only if their documents are.

    In addition to its values an attribute may have missing-value categories. Their cells come after those of the
    values, and have no order. `missing` names them. `if_missing` is the action for missing values, `if_outside` for all
    other values that are not declared.

    A new kind is a subclass with one of the four codings, a file of its keys in `request.attributes`, and a line
    of `tests/zoo/attributes.py`. Counting, planning and releasing need nothing else.
    """

    kind: ClassVar[str]
    """The name of this kind of attribute in specifications."""

    ordered: ClassVar[bool]
    """True if the order of the cells has a meaning."""

    has_sequence: ClassVar[bool]
    """True if values follow one another: by their order, or as declared, such as codes of months."""

    is_numeric: ClassVar[bool]
    """True if the labels of its values are numbers that can be added up."""

    column: str | None
    """The column of the data that is read; None when it has the attribute's own name."""

    date_part: DateField | Mapping[str, Any] | str | None = None
    """The part that is read off a date in the column; `None` where the value itself is read."""

    coding: Coding
    """The coding of the values of the data, or of the parts read off them, into cells."""

    missing: Missing = ()
    """The missing-value categories, each with its codes: pairs, once the attribute is made."""

    if_missing: str | None = None
    """The action for null, NaN and blank: a cell of `missing`, "refuse" or "drop"; `None` for that of the source."""

    if_outside: str | None = None
    """The action for all other values that are not declared, in the same terms as `if_missing`."""

    ceilings: Sequence[float] | None = None
    """The further amounts up to which sums can be requested; None without such amounts."""

    tree: Tree | None = None
    """The tree of places of a hierarchy; None for all other attributes."""

    views: tuple[HierarchyLevel, ...] = ()
    """The levels of a hierarchy, from the top down; empty for all other attributes."""

    hierarchy: Hierarchy | None = None
    """The hierarchy of a level; None for all other attributes."""

    depth: int = 0
    """The depth of a level, 0 at the top; for a hierarchy, that of its leaves, and 0 for all other attributes."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise TypeError if a class lacks a member.

        Args:
            options: Further arguments of the class.
        """
        super().__init_subclass__(**options)
        refuse_incomplete(cls)

    @abc.abstractmethod
    def declared(self) -> dict[str, Any]:
        """Return everything declared except kind, column, date part and missing values, as plain JSON values."""

    @property
    @abc.abstractmethod
    def own_values(self) -> tuple[str | int, ...]:
        """The labels of the cells of values in a released table, in order."""

    @abc.abstractmethod
    def own_position(self, value: object) -> int:
        """Return the cell of a declared value, as users write it; raise DomainError if it is not declared."""

    @final
    @property
    def missing_cells(self) -> tuple[str, ...]:
        """The names of the missing-value categories, in order."""
        return tuple(dict(self.missing))

    @final
    @property
    def values(self) -> tuple[str | int, ...]:
        """The labels of all cells in a released table, in order: the values, then the missing-value categories."""
        return self.own_values + self.missing_cells

    @final
    def position(self, value: object) -> int:
        """Return the cell of a declared value, as users write it, or of a missing-value category by its name.

        Raises:
            DomainError: The value is neither.
        """
        if isinstance(value, str) and value in self.missing_cells:
            return self.own_size + self.missing_cells.index(value)
        return self.own_position(value)

    @property
    def coding_rules(self) -> tuple[CodingRule, ...]:
        """The rules for the reading of values that differ from those of the cells; empty where none do."""
        return ()

    def coding_rules_up_to(self, ceiling: float | None) -> tuple[CodingRule, ...]:
        """Return the rules for amounts up to a ceiling; those of the attribute if it is no amount.

        Args:
            ceiling: The ceiling; None for the largest amount.

        Raises:
            DomainError: The ceiling of an amount is not declared.
        """
        del ceiling
        return self.coding_rules

    def largest(self, ceiling: float | None, cell: int | None = None) -> float:
        """Return the largest absolute value that a record can add to a sum; 0 without numbers.

        Args:
            ceiling: The amount up to which amounts count; None for the largest.
            cell: The cell of the attribute on which the range of an amount depends; None for the largest of all.

        Raises:
            DomainError: The ceiling of an amount is not declared.
        """
        del ceiling, cell
        return 0.0

    @property
    def is_capped(self) -> bool:
        """True if numbers outside the declared range are read as its ends: sums and means lack the excess."""
        return False

    @property
    def label_codes(self) -> tuple[Code, ...]:
        """The code of each value that a table shows by a label; empty if tables show the values themselves."""
        return ()

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels of a hierarchy, from the top down; empty for all other attributes."""
        return ()

    @property
    def class_steps(self) -> tuple[Fraction, ...]:
        """The step of an amount in each cell of `range_attribute`; empty for one range and other attributes."""
        return ()

    @final
    @property
    def range_attribute(self) -> str | None:
        """The attribute whose cells have their own ranges of an amount; None for one range and other attributes."""
        return self.coding.attribute

    def for_classes(self, attributes: Mapping[str, Attribute]) -> Attribute:
        """Return the attribute in a domain; only an amount depends on another attribute.

        Args:
            attributes: The attributes of the domain, by name.
        """
        del attributes
        return self

    @final
    @property
    def derived(self) -> DateField | None:
        """The part that is read off a date, if there is one."""
        return read(self.date_part)

    @final
    def _with_read(self, value: object, kind: type[Code]) -> None:
        """Keep the part that is read off a date; raise DomainError if it is invalid. For constructors of subclasses.

        kind: The type of the codes, which must be whole numbers for a part of a date.
        """
        if value is not None and kind is not int:
            raise DomainError(
                "date-part-needs-whole-numbers",
                "A part of a date is read, and the codes are not whole numbers.",
                "Parts of dates are whole numbers.",
                "Write the codes as whole numbers, or remove date_part.",
                "No attribute was made.",
                place="date_part",
            )
        object.__setattr__(self, "date_part", read(value))

    @final
    def drops(self, by_default: bool) -> bool:
        """Return True if records may be left out for their value here, given the default action of the source."""
        return bool(self.coding.dropped(drop=by_default))

    @final
    @checked(DomainError, "Nothing was made.")
    def _with_missing(
        self, coding: Coding, missing: Missing | None, if_missing: str | None, if_outside: str | None
    ) -> None:
        """Keep the coding and the missing-value categories; raise DomainError if these are invalid.

        Constructors of subclasses call it at their end, because it calls `own_position`.
        """
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
        for what, cell in (("if_missing", if_missing), ("if_outside", if_outside)):
            if cell is not None and cell not in OUTSIDE_POLICIES and cell not in [name for name, _ in cells]:
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
        full: Coding = coding
        if cells or if_missing is not None or if_outside is not None:
            full = CodingWithMissing(coding, tuple(codes for _, codes in cells), places[if_missing], places[if_outside])
        for name, value in (
            ("missing", cells),
            ("if_missing", if_missing),
            ("if_outside", if_outside),
            ("coding", full),
        ):
            object.__setattr__(self, name, value)
        for i, (name, _) in enumerate(cells):
            others = {str(c) for j, (_, codes) in enumerate(cells) if j != i for c in codes}
            # A cell may have the name of one of its own codes, such as NA = ["NA"], but of no other's.
            self._check_cell(name, coding, others)

    def _check_cell(self, name: str, values: Coding, others: Collection[str]) -> None:
        """Raise DomainError for a name that cannot be that of a cell, or that could mean another."""
        if name in OUTSIDE_POLICIES:
            raise DomainError(
                "missing-cell-reserved",
                f"A cell for missing values is called {name!r}.",
                "This word has another meaning in if_missing and if_outside.",
                "Rename the cell.",
                "No attribute was made.",
                place="missing",
            )
        taken = name in others or values.is_value(name)
        # A label is a name of a cell, and not a value of the data: `is_value` does not know it.
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
        """Return the cell of a value of the data, or `None` if it is outside the domain.

        A value is outside if it is missing, not declared, or of another type than the coding reads (`codings`), unless
        a missing-value category takes it. For an amount the result is the step j, from 0 to K, and K + 1 and so on for
        missing-value categories: see :class:`Amount`. For an amount with a range by another attribute, use
        :meth:`Domain.cells`.

        **Guarantees**
            * The result depends only on the value and the declaration: not on other records, nor on the source of the
              value.
            * The result is `None` or from 0 to `coding.size` − 1. No input raises an error, except for an amount with a
              range by another attribute.
            * Every counter counts a record in exactly the cells of its values, or in none when one of them is outside.
        """
        return self.coding.cell(value if self.derived is None else self.derived.number(value))

    @final
    @property
    def size(self) -> int:
        """Number of cells."""
        return self.coding.counted_size

    @final
    @property
    def own_size(self) -> int:
        """The number of cells of values, for an amount the number of its knots; missing-value categories come after."""
        return self.coding.values.counted_size

    @final
    @property
    def steps(self) -> tuple[int, ...]:
        """The number of steps of an amount from each knot to the next; empty for all other attributes.

        The knots are the first cells of the amount.
        """
        return self.coding.pieces


def _pairs(missing: Missing) -> tuple[tuple[str, tuple[Code, ...]], ...]:
    """Return the cells with their codes, from a mapping or pairs, with whole numbers in one form (9.0 as 9).

    It raises DomainError if the form is neither, or if a name or a list of codes is invalid.
    """
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
        # A text would be read as its characters, and a set has no fixed order.
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
    return tuple((name, tuple(map(_as_code, codes))) for name, codes in pairs)


def _as_code(code: object) -> Code:
    """Return a code as it is, −9.0 as −9."""
    item: object = as_python(code)
    return int(item) if isinstance(item, float) and item.is_integer() else as_python(item)


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
        codes: The codes in the data (all text, all whole numbers or all true/false), or a mapping code → label.
        column: The column of the data to read, when it is not named as the attribute.
        missing: Missing-value categories: {name: codes}.
        if_missing: A cell of `missing` for null, NaN and blank, "refuse" or "drop"; default: the action of the data
            source.
        if_outside: The action for everything else that is not declared, in the same terms.
        date_part: The part of a date that gives the codes, where the column holds dates. It is "year", "quarter",
            "month", "weekday", "hour", or {"age_on": "2024-12-31"} (:mod:`fitnoise.kernel.dates`).
        lookup: The code for each value of the data, such as the region of a postcode: {value: code}, pairs, or a CSV
            file. The file has the columns `value` and `code`. Its values are text, unless every one of them is written
            as a whole number, as in `from_file`. A value that the lookup does not name is not declared. The lookup is
            public, and part of the plan. fitnoise sorts it by value. With `None` the data hold the codes themselves.

    Raises:
        DomainError: There are no codes, codes of mixed kinds, or codes or labels that repeat.
        DomainError: A whole number is 2^53 or more in size, or a label is not a text that UTF-8 can write.
        DomainError: Two cells cannot be distinguished, or the column or a part of `missing` is invalid.
        DomainError: The date part is unknown, or the codes that it gives are not whole numbers.
        DomainError: The lookup has a value twice, values of mixed kinds, a code that is not declared, or lacks a
            declared code.
    """

    kind, ordered, has_sequence, is_numeric = "categorical", False, True, False

    codes: tuple[Code, ...]
    labels: tuple[str, ...] | None = None
    column: str | None = None
    missing: Missing = ()
    if_missing: str | None = None
    if_outside: str | None = None
    date_part: DateField | Mapping[str, Any] | str | None = None
    lookup: tuple[tuple[Code, Code], ...] | None = None
    coding: Coding = field(init=False, repr=False)
    _positions: Mapping[tuple[bool, object], int] = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        codes: Iterable[Code] | Mapping[Code, str],
        *,
        column: str | None = None,
        missing: Missing | None = None,
        if_missing: str | None = None,
        if_outside: str | None = None,
        date_part: DateField | Mapping[str, Any] | str | None = None,
        lookup: Mapping[Code, Code] | Iterable[Sequence[Code]] | str | Path | None = None,
    ) -> None:
        labels = tuple(codes.values()) if isinstance(codes, Mapping) else None
        if isinstance(codes, (str, bytes)) or not isinstance(codes, Iterable):
            raise DomainError(
                "codes-not-a-list",
                f"The value of codes is {describe_value(codes)}.",
                "It must be a list of values.",
                "Write the codes as a list.",
                "No attribute was made.",
                place="codes",
            )
        coding = Codes(tuple(as_python(c) for c in codes))
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
        # Codes come last: a text that is the label of one cell and the code of another means the code.
        # Keys say if a name is a Boolean, because True and 1 have one hash.
        pairs = (*enumerate(labels or ()), *enumerate(coding.codes))
        positions: dict[tuple[bool, object], int] = {(isinstance(name, bool), name): i for i, name in pairs}
        object.__setattr__(self, "_positions", FixedMapping(positions))
        object.__setattr__(self, "lookup", None if lookup is None else _lookup(lookup, coding))
        # With a lookup the data hold its values, and each value has the cell of its code.
        if self.lookup is not None:
            # True and 1 are equal in Python, and are different codes.
            places = {(type(c), c): i for i, c in enumerate(coding.codes)}
            coding = Codes(tuple(v for v, _ in self.lookup), tuple(places[type(c), c] for _, c in self.lookup))
        self._with_read(date_part, coding.kind)
        self._with_missing(coding, missing, if_missing, if_outside)

    @classmethod
    def from_file(cls, path: str | Path, *, column: str | None = None, **options: Any) -> Categorical:
        """Read codes from a CSV file with a column `code` and, optionally, a column `label`.

        Codes are text, unless every one of them is written as a whole number. A whole number is written as 0, 12 or
        -12, without plus sign, decimal point or leading zeros.

        Args:
            path: The CSV file.
            column: The column of the data that holds the codes, when it is not named as the attribute.
            options: Further arguments of the class: `missing`, `if_missing`, `if_outside`, `date_part` and `lookup`.

        Raises:
            DomainError: The file cannot be read, has no column `code` or no code, or has a code or a label twice.
            DomainError: A label is empty, or a whole number is 2^53 or more in size.
            DomainError: The class refuses the codes or the options.
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
            return cls(codes, column=column, **options)
        # A mapping would keep only the last of two rows with one code.
        if len(set(codes)) != len(codes):
            raise DomainError(
                "codes-file-repeated",
                f"The file of codes {path.name!r} declares a code twice.",
                "Each code needs one row.",
                "Remove one of the two rows.",
                "No attribute was made.",
                place=path.name,
            )
        return cls({c: row["label"] for c, row in zip(codes, rows, strict=True)}, column=column, **options)

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The labels, if there are any, otherwise the codes."""
        return self.labels if self.labels is not None else self.codes

    def own_position(self, value: object) -> int:
        """Return the cell of a code, or of a label; a text that is both means the code.

        Args:
            value: A declared code, or a label as tables show it.

        Returns:
            The position of the cell, from 0.

        Raises:
            DomainError: The value is neither a code nor a label.
        """
        with contextlib.suppress(KeyError, TypeError):  # what has no hash is neither
            return self._positions[isinstance(value, bool), value]
        raise unknown_value(repr(value), "It must be a code or a label of the attribute.")

    @property
    def label_codes(self) -> tuple[Code, ...]:
        """The codes, if there are labels."""
        return () if self.labels is None else self.codes

    @property
    def coding_rules(self) -> tuple[CodingRule, ...]:
        """The rule of the lookup; empty without one."""
        return () if self.lookup is None else (("report.coding.lookup", {"count": len(self.lookup)}),)

    def declared(self) -> dict[str, Any]:
        """Return codes, and labels and a lookup where there are any."""
        lookup = {} if self.lookup is None else {"lookup": [list(pair) for pair in self.lookup]}
        return {"codes": list(self.codes), "labels": None if self.labels is None else list(self.labels), **lookup}


def _lookup(stated_values: object, codes: Codes) -> tuple[tuple[Code, Code], ...]:
    """Return values of the data with their codes, sorted by value; raise DomainError for an invalid lookup."""
    if isinstance(stated_values, (str, Path)):
        header, rows = read_rows(Path(stated_values), "the file of a lookup")
        if not {"value", "code"} <= set(header):
            raise DomainError(
                "lookup-file-columns",
                f"The lookup file {Path(stated_values).name!r} has the columns {header}.",
                "It needs columns named 'value' and 'code'.",
                "Add or rename the columns.",
                "No attribute was made.",
                place=Path(stated_values).name,
            )
        # A file holds texts: its codes get the type of the declared ones. Unknown ones stay texts, and are refused.
        code_of = {str(c).lower() if isinstance(c, bool) else str(c): c for c in codes.codes}
        stated_values = [
            (v, code_of.get(row["code"], row["code"]))
            for v, row in zip(_codes([r["value"] for r in rows]), rows, strict=True)
        ]
    pairs = list(
        stated_values.items()
        if isinstance(stated_values, Mapping)
        else stated_values
        if isinstance(stated_values, Iterable)
        else [None]
    )
    good = [isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2 for pair in pairs]
    if not pairs or not all(good) or not all(isinstance(as_python(code), (str, int)) for _, code in pairs):
        raise DomainError(
            "lookup-invalid",
            f"The value of lookup is {reprlib.repr(stated_values)}.",
            "It must give each value of the data its code.",
            "Write {value: code}, pairs, or the name of a CSV file.",
            "No attribute was made.",
            place="lookup",
        )
    pairs = [tuple(map(_as_code, pair)) for pair in pairs]
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
    declared, given_codes = ({(type(c), c) for c in listed} for listed in (codes.codes, [code for _, code in pairs]))
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
    # The order of the lookup has no meaning, and must not change the hash of the plan.
    order = sorted(range(len(pairs)), key=lambda i: values.codes[i])
    return tuple(pairs[i] for i in order)


def _codes_text(codes: Set[tuple[type, Code]]) -> str:
    """Return some codes with their types, as a short text."""
    return reprlib.repr(sorted((code for _, code in codes), key=str))


@final
@dataclass(frozen=True)
class Ordered(Attribute):
    """Whole numbers from `low` to `high`, ends included.

    With `clip=True` smaller values count as `low` and larger ones as `high` ("85 and over"). This is a declared coding
    of the data, not a repair. Otherwise values outside are outside the domain. `missing`, `if_missing`, `if_outside`
    and `date_part` are as for :class:`Categorical`. Codes of `missing` come before anything is clipped.

    Raises:
        DomainError: The bounds are not whole numbers below 2^53 in size, `low > high`, or there are more than
            ten million cells.
        DomainError: `clip`, the column, the date part or a part of `missing` is invalid.
    """

    kind, ordered, has_sequence, is_numeric = "ordered", True, True, True

    low: int
    high: int
    clip: bool = False
    column: str | None = None
    missing: Missing | None = field(default=None, kw_only=True)  # type: ignore[assignment]  # pairs, once it is made
    if_missing: str | None = field(default=None, kw_only=True)
    if_outside: str | None = field(default=None, kw_only=True)
    date_part: DateField | Mapping[str, Any] | str | None = field(default=None, kw_only=True)
    coding: Coding = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        coding = Range(self.low, self.high, self.clip)
        self._with_read(self.date_part, int)
        _check_column(self.column)
        object.__setattr__(self, "low", coding.low)
        object.__setattr__(self, "high", coding.high)
        object.__setattr__(self, "clip", coding.clip)
        self._with_missing(coding, self.missing, self.if_missing, self.if_outside)

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The whole numbers themselves."""
        return tuple(range(self.low, self.high + 1))

    @property
    def coding_rules(self) -> tuple[CodingRule, ...]:
        """The rules for clipped values; empty without clipping."""
        if not self.clip:
            return ()
        codes = any(isinstance(code, int) for codes in dict(self.missing or ()).values() for code in codes)
        clipped: CodingRule = ("report.coding.range", {"low": self.low, "high": self.high})
        return (clipped, *([_MISSING_CODES] if codes else []))

    @property
    def is_capped(self) -> bool:
        """True if the attribute clips."""
        return self.clip

    def largest(self, ceiling: float | None, cell: int | None = None) -> float:
        """Return the larger of both ends, in absolute value.

        Args:
            ceiling: No part of the result: a range has no ceilings.
            cell: No part of the result: one range holds for all classes.
        """
        del ceiling, cell
        return float(max(abs(self.low), abs(self.high)))

    def own_position(self, value: object) -> int:
        """Return the cell of a whole number in the range.

        Args:
            value: A whole number from `low` to `high`.

        Returns:
            The position of the cell, from 0.

        Raises:
            DomainError: The value is not such a number.
        """
        value = as_python(value)
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return value - self.low
        raise unknown_value(repr(value), f"It must be a whole number from {self.low} to {self.high}.")

    def declared(self) -> dict[str, Any]:
        """Return both ends, and the rule for values outside them."""
        return {"low": self.low, "high": self.high, "clip": self.clip}


@final
@dataclass(frozen=True)
class Binned(Attribute):
    """A number cut at c₁ < c₂ < … < c_k into k + 1 bins: below c₁, [c₁, c₂), …, c_k or more.

    `missing`, `if_missing`, `if_outside` and `date_part` are as for :class:`Categorical`; codes of `missing` come
    before any bin.

    Raises:
        DomainError: There are no cuts, or they are not finite numbers, or not strictly increasing.
        DomainError: A cut is a whole number that double precision does not hold.
        DomainError: Two cells cannot be distinguished, or the column, the date part or a part of `missing` is invalid.
    """

    kind, ordered, has_sequence, is_numeric = "binned", True, True, False

    cuts: tuple[float, ...]
    column: str | None = None
    missing: Missing = ()
    if_missing: str | None = None
    if_outside: str | None = None
    date_part: DateField | Mapping[str, Any] | str | None = None
    coding: Coding = field(init=False, repr=False, compare=False)
    _values: tuple[str, ...] = field(init=False, repr=False, compare=False)

    @checked(DomainError, "Nothing was made.")
    def __init__(
        self,
        cuts: Sequence[float],
        *,
        column: str | None = None,
        missing: Missing | None = None,
        if_missing: str | None = None,
        if_outside: str | None = None,
        date_part: DateField | Mapping[str, Any] | str | None = None,
    ) -> None:
        coding = Cuts(tuple(cuts))
        self._with_read(date_part, int)
        _check_column(column)
        object.__setattr__(self, "cuts", coding.cuts)
        object.__setattr__(self, "column", column)
        text = [_number(c) for c in coding.cuts]
        middle = [f"{a} to under {b}" for a, b in itertools.pairwise(text)]
        object.__setattr__(self, "_values", (f"under {text[0]}", *middle, f"{text[-1]} or more"))
        self._with_missing(coding, missing, if_missing, if_outside)

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The texts of the bins, such as "10000 to under 25000"."""
        return self._values

    def own_position(self, value: object) -> int:
        """Return the cell of the bin with this text.

        A number is refused. It lies in a bin that holds other numbers, and may be meant as an end.

        Args:
            value: The text of a bin as tables show it.

        Returns:
            The position of the cell, from 0.

        Raises:
            DomainError: The value is not such a text.
        """
        if isinstance(value, str) and value in self._values:
            return self._values.index(value)
        raise unknown_value(describe_value(value), f"It must be one of the bins {list(self._values)}.")

    def declared(self) -> dict[str, Any]:
        """Return the cuts."""
        return {"cuts": list(self.cuts)}


@final
@dataclass(frozen=True)
class Amount(Attribute):
    """A quantity to be summed, such as an income or hours: `Amount(0, 200_000, step=100)`.

    Its two cells are the ends of its range, and a record lies *between* them. Let K = (high − low)/step and let x, the
    amount of the record, be read as low + j · step, j = 0 … K. The record counts 1 − j/K in the first cell and j/K in
    the second. Every query on an amount is a sum of whole numbers. A record costs most at one of the ends, so the
    charge holds for every value of the declared range (:mod:`fitnoise.kernel.designs.query_blocks`).

    With `ceilings` t_1, t_2, … between low and high, one plan also gives sums up to each of them, Σ min(x, t). Then
    there is a cell for each of the knots low < t_1 < … < high. A record lies between two consecutive knots, and costs
    most at a knot.

    A range by class is `high=ByAttribute("size", {"small": 1_000, "large": 1_000_000})`. Each record is then read in
    the range of its class, in as many steps as in all other classes. For turnover by size c of the firm, x is read as
    low_c + j · step_c. A record costs most at one of the ends of its own class. The range of large firms does not raise
    the cost of small ones.

    Numbers below `low` count as `low`, those above `high` as `high`, and all as the nearest step; half-way between two
    steps, as the larger. This is a declared coding of the data. Choose `high` from public facts, never from the data: a
    law, an older publication.

    Args:
        low: The least amount.
        high: The largest amount. With `ByAttribute("size", {"small": 1_000, "large": 1_000_000})` there is a range for
            each value of another attribute of the domain, also for its missing-value categories. `low` must then be
            equally many steps above zero in each class: it is 0, or has values by class too.
        step: The step in which amounts are read, by default 1. It must divide the range, into at most 2^30 steps. With
            several ranges it is the step of the smallest; the others are read in as many steps.
        column: The column of the data to read, when it is not named as the attribute.
        valid: The least and the largest valid number. Numbers outside are not amounts and are outside the domain; by
            default all numbers are amounts. Otherwise a code such as 9999999 for "not stated" would count as `high`.
        ceilings: Further amounts up to which sums can be requested, increasing, between low and high. Each is a whole
            number of steps above low. `high` is always a ceiling, and without `ceilings` or with a range by class the
            only one.
        missing: Missing-value categories, as for :class:`Categorical`; codes come before anything is cut.
        if_missing: See :class:`Categorical`.
        if_outside: See :class:`Categorical`.

    Raises:
        DomainError: The numbers are not finite decimals of at most 15 places, below 2^50 in units of the last.
        DomainError: The range is empty, is not a whole number of steps or has more than 2^30, or `valid` does not
            contain it.
        DomainError: The ceilings do not increase between the ends, are not whole numbers of steps above low, or stand
            with ranges by class.
        DomainError: Two cells cannot be distinguished, or the column or a part of `missing` is invalid.
        DomainError: Ranges by class have different numbers of steps, or of steps from zero to low. Or they depend on
            two attributes, or are more than 100 different ones.
        DomainError: In a domain, a class has no range, or the attribute of the classes is missing.
    """

    kind, ordered, has_sequence, is_numeric = "amount", False, False, True

    low: float | ByValue
    high: float | ByValue
    step: float = field(default=1, kw_only=True)
    column: str | None = field(default=None, kw_only=True)
    valid: tuple[float, float] | None = field(default=None, kw_only=True)
    ceilings: Sequence[float] | None = field(default=None, kw_only=True)
    missing: Missing | None = field(default=None, kw_only=True)  # type: ignore[assignment]  # pairs, once it is made
    if_missing: str | None = field(default=None, kw_only=True)
    if_outside: str | None = field(default=None, kw_only=True)
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
            min_valid, max_valid = (_end(x) for x in self.valid)
            valid = (min_valid, max_valid)
        if self.ceilings is not None and not isinstance(self.ceilings, (list, tuple)):
            raise DomainError(
                "ceilings-not-a-list",
                f"The value of ceilings is {describe_value(self.ceilings)}.",
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
        # An empty list means no ceilings, and has their form in documents.
        object.__setattr__(self, "ceilings", tuple(map(_short, tops)) or None)
        object.__setattr__(self, "step", _short(step))
        object.__setattr__(self, "valid", valid)
        self._with_missing(coding, self.missing, self.if_missing, self.if_outside)

    def _by_class(self, step: Fraction, valid: tuple[float, float] | None) -> Steps:
        """Return steps whose size depends on another attribute.

        The ranges are known if the ends list them in order. For ends by name or with a default the result is a
        placeholder, which `for_classes` replaces in a domain.
        """
        (attribute, *others) = dict.fromkeys(x.attribute for x in (self.low, self.high) if isinstance(x, ByValue))
        if others:
            raise DomainError(
                "range-by-two-attributes",
                f"The end low depends on {attribute!r}, and high on {others[0]!r}.",
                "Both must depend on one attribute.",
                "Use one attribute for both ends.",
                "No attribute was made.",
            )
        # A default stands for labels that are not listed, so it needs the labels as names do.
        is_by_name = any(x.is_by_name or x.default is not None for x in (self.low, self.high) if isinstance(x, ByValue))
        values = [x.values if isinstance(x, ByValue) else None for x in (self.low, self.high)]
        count = max(len(x) for x in values if x is not None)
        if is_by_name or not count or not all(x is None or len(x) == count for x in values):
            # A placeholder, which `for_classes` replaces: it knows the labels, and refuses lists of a wrong length.
            return Steps(Fraction(0), Fraction(1), Fraction(1), attribute=attribute)
        ends = [
            [_decimal(name, v) for v in (x if x is not None else [getattr(self, name)] * count)]
            for name, x in zip(("low", "high"), values, strict=True)
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
        # All classes have the number of steps K of the narrowest, so that j/K means one share of the range everywhere.
        max_steps = min(widths) / step
        try:
            classes = tuple(Steps(low, high, (high - low) / max_steps, valid) for low, high in zip(*ends, strict=True))
        except DomainError as error:
            raise DomainError(
                "class-steps-invalid",
                f"The ranges by {attribute!r} all have the same number of steps, of {float(step)} in the smallest. "
                f"{error.given}",
                error.needed,
                f"{error.action} A step of {float(min(widths) / 1000)} makes a thousand of each.",
                "No attribute was made.",
            ) from None
        # low_c + j · step_c is then (zero + j) · step_c: a whole number of steps in every class.
        zeros = {steps.low / steps.step for steps in classes}
        zero = next(iter(zeros))
        if len(zeros) > 1 or zero.denominator != 1:
            raise DomainError(
                "class-starts-differ",
                f"The ranges start at {[float(steps.low) for steps in classes[:3]]} in steps of "
                f"{[float(steps.step) for steps in classes[:3]]}.",
                "They must start at 0, or at the same whole number of steps from 0.",
                "Change low of the classes.",
                "No attribute was made.",
                place="low",
            )
        return Steps(zero, zero + max_steps, Fraction(1), attribute=attribute, classes=classes)

    def for_classes(self, attributes: Mapping[str, Attribute]) -> Amount:
        """Return the amount in a domain: a range for every cell of the attribute of its classes, in order.

        An amount with one range is returned as it is.

        Raises:
            DomainError: The attribute is missing, or is not categorical, ordered or binned. Or some cells have no
                range, or a range has no cell.
            DomainError: The ranges are not those of one amount (see the class).
        """
        attribute, ends = self.range_attribute, {"low": self.low, "high": self.high}
        if attribute is None:
            return self
        by_attribute = attributes.get(attribute)
        if by_attribute is None or not by_attribute.has_sequence:
            raise DomainError(
                "range-attribute-invalid",
                f"The range of an amount depends on {attribute!r}.",
                "It must depend on a categorical, ordered or binned attribute of the domain.",
                f"Declare {attribute!r} as such an attribute, or name another one.",
                "No domain was made.",
            )
        numbered = {
            name: ByValue(attribute, x.for_labels(by_attribute.values, "range", DomainError))
            for name, x in ends.items()
            if isinstance(x, ByValue)
        }
        # `replace` checks the ranges again, now with a number for each label.
        result = replace(self, **numbered)  # type: ignore[arg-type]  # each of its type
        object.__setattr__(result, "_labels", tuple(map(str, by_attribute.values)))
        return result

    @property
    def exact(self) -> Steps:
        """The range and the steps, exactly; for a range by class, in steps."""
        return cast("Steps", self.coding.values)

    @property
    def class_steps(self) -> tuple[Fraction, ...]:
        """The step of each class."""
        return tuple(steps.step for steps in self.exact.classes)

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The knots: both ends, and the ceilings between them; for a range by class, in steps."""
        exact = self.exact
        knots: tuple[Any, ...] = tuple(map(_short, (exact.low, *exact.ceilings, exact.high)))  # some may be floats
        return knots

    @property
    def coding_rules(self) -> tuple[CodingRule, ...]:
        """The rules for cut values, and the steps in which amounts are read."""
        return self.coding_rules_up_to(None)

    @property
    def is_capped(self) -> bool:
        """True if numbers may be cut to the range: always, except where one range is exactly `valid`."""
        return self.range_attribute is not None or self.valid != (_short(self.exact.low), _short(self.exact.high))

    def upper_limit(self, ceiling: float | None) -> float:
        """Return a ceiling as it is declared; `None` gives the largest amount, in steps for a range by class.

        Args:
            ceiling: The amount up to which amounts count; `None` for the largest, and for a range by class.

        Raises:
            DomainError: The ceiling is neither declared nor `high`, or the range is by class.
        """
        tops = [*(self.ceilings or ()), _short(self.exact.high)]
        if ceiling is None:
            return tops[-1]
        if self.range_attribute is not None or not is_real(ceiling) or ceiling not in tops:
            raise DomainError(
                "ceiling-not-declared",
                f"The ceiling is {describe_value(ceiling)}.",
                f"It must be a declared ceiling or high, one of {tops}."
                if self.range_attribute is None
                else "An amount with ranges by class has no ceilings.",
                "Declare the ceiling with the amount (ceilings = …) before you plan."
                if self.range_attribute is None
                else "Remove the ceiling, or declare one range for all.",
                "Nothing was planned.",
                place="ceiling",
            )
        # In its declared form: 100.0 as 100.
        return tops[tops.index(ceiling)]

    def largest(self, ceiling: float | None, cell: int | None = None) -> float:
        """Return the largest absolute value that a record can add to a sum up to a ceiling.

        Args:
            ceiling: The ceiling, or None for the largest amount. With ranges by class it is ignored.
            cell: With ranges by class, the cell of the class; None for the largest of all classes.

        Raises:
            DomainError: The ceiling is not declared.
        """
        parts = self.exact.classes if cell is None else self.exact.classes[cell : cell + 1]
        ends = [(x.low, x.high) for x in parts] if parts else [(self.exact.low, Fraction(self.upper_limit(ceiling)))]
        return _short(max(abs(x) for pair in ends for x in pair))

    def coding_rules_up_to(self, ceiling: float | None) -> tuple[CodingRule, ...]:
        """Return the rules for cut values of amounts up to a ceiling, and the steps in which they are read.

        Args:
            ceiling: The ceiling, or None for the largest amount.

        Raises:
            DomainError: The ceiling is not declared.
        """
        top = self.upper_limit(ceiling)
        codes = any(isinstance(code, int) for codes in dict(self.missing or ()).values() for code in codes)
        missing = [_MISSING_CODES] if codes else []
        steps: CodingRule = ("report.coding.steps", {"step": _short(self.exact.step)})
        if not self.is_capped and top == self.upper_limit(None):
            return (steps,)
        if self.range_attribute is None:
            return (("report.coding.range", {"low": _short(self.exact.low), "high": top}), steps, *missing)
        classes: dict[Steps, list[str]] = {}
        # Before the amount is in a domain it has no labels, and perhaps no classes.
        for label, scale in zip(self._labels, self.exact.classes, strict=False):
            classes.setdefault(scale, []).append(label)
        ranges: list[CodingRule] = []
        for scale, labels in classes.items():
            numbers = {"low": _short(scale.low), "high": _short(scale.high), "step": _short(scale.step)}
            ranges.append(("report.coding.class", {"classes": ", ".join(labels), **numbers}))
        return (("report.coding.by_class", {"attribute": self.range_attribute}), *ranges, *missing)

    def own_position(self, value: object) -> int:
        """Raise: records lie between the cells of an amount.

        Args:
            value: Any value.

        Raises:
            DomainError: Always.
        """
        raise DomainError(
            "amount-by-value",
            f"The value {value!r} of an amount is requested.",
            "An amount is summed, and is not shown by value.",
            "Request its sum (sum = …), or declare a binned attribute on the same column.",
            "The value was not found.",
        )

    def declared(self) -> dict[str, Any]:
        """Return the range, the step, the valid numbers, and the ceilings, if there are any."""
        valid = None if self.valid is None else [float(x) for x in self.valid]
        tops = {} if self.ceilings is None else {"ceilings": [float(t) for t in self.ceilings]}
        ends = {name: _end_document(x) for name, x in (("low", self.low), ("high", self.high))}
        return {**ends, "step": float(self.step), "valid": valid, **tops}


def _end_document(x: float | ByValue) -> Any:
    """Return an end of a range as documents state it; for a range by class, the ends of all classes in order."""
    if not isinstance(x, ByValue):
        return float(x)
    return {"by": x.attribute, "values": [float(v) for v in x.values if not isinstance(v, tuple)]}


def _decimal(name: str, value: object) -> Fraction:
    """Return a number exactly as its decimals; raise DomainError if it is not a number."""
    x: object = as_python(value)
    if (
        isinstance(x, bool)
        or not isinstance(x, (int, float, Decimal))
        or not matches_hint(x, float)
        or not math.isfinite(x)
    ):
        raise DomainError(
            "amount-number-invalid",
            f"A value of {name} of the amount is {describe_value(value)}.",
            "It must be a finite number.",
            f"Correct {name}.",
            "No attribute was made.",
            place=name,
        )
    # The shortest decimals of the double: 0.1 is one tenth here, and not the double nearest to it.
    return Fraction(repr(x) if isinstance(x, float) else x)


def _end(value: object) -> float:
    """Return an end of the valid numbers; raise DomainError for a whole number that double precision does not hold."""
    x = _decimal("valid", value)
    if x.denominator == 1 and not isinstance(as_python(value), float):
        refuse_inexact("an end of valid", x.numerator)
    return _short(x) if abs(x) < EXACT_FLOAT_LIMIT else float(x)


def _short(x: Fraction) -> float:
    """Return the number, as a whole number if it is one."""
    return x.numerator if x.denominator == 1 else float(x)


def read_rows(path: Path, what: str, kind: type[FitnoiseError] = DomainError) -> tuple[list[str], list[dict[str, str]]]:
    """Return the header and the rows of a CSV file of the publisher: codes, places, targets, areas; never records.

    Args:
        path: The file.
        what: The description of the file, for the error.
        kind: The class of the error.

    Returns:
        The header, and a mapping column → text for each row. A field that a short row lacks is `None`.

    Raises:
        FitnoiseError: The file cannot be read, or is no CSV file in UTF-8. The class is `kind`.
    """
    try:
        # A byte-order mark, as spreadsheets write it, is not a part of the first name.
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            return list(reader.fieldnames or ()), list(reader)
    except (OSError, ValueError, csv.Error) as error:  # ValueError: no text in UTF-8, or no name of a file
        raise kind(
            "csv-file-unreadable",
            f"Reading {what} {path.name!r} failed: {getattr(error, 'strerror', None) or error}.",
            "It must be a CSV file in UTF-8.",
            "Check the name and the contents of the file.",
            "Nothing was read.",
            place=path.name,
        ) from error


def _codes(texts: Sequence[str]) -> list[Code]:
    """Return texts as codes: whole numbers if every one is written as 0, 12 or -12, otherwise the texts."""
    is_integer = all(t is not None and re.fullmatch("0|-?[1-9][0-9]*", t) for t in texts)
    return [int(t) for t in texts] if is_integer else list(texts)


def _number(x: float) -> str:
    """Return a cut as labels show it: 10000 for 10000.0, any other number in its shortest decimals."""
    return str(int(x)) if x == int(x) and abs(x) < EXACT_FLOAT_LIMIT else repr(x)


@final
@dataclass(frozen=True, init=False)
class Hierarchy(Attribute):
    """Nested places, such as tracts in counties in states: the data hold the code of a leaf.

    A table names one of the levels as it would name an attribute: `table("county", "sex", margin=30)`.

    Args:
        levels: The names of the levels, from the top down to the leaves; each names one level for all tables.
        places: One row for each leaf, with its code on every level, or a frame of pandas or Polars. Rows are such as
            `frame[levels].itertuples(index=False)` of a pandas frame. A frame has a column for each level, and may have
            others. Tables show places in the order of their first appearance, the places within one place together.
        file: The CSV file with the places, as :meth:`from_file` reads it; replaces `places`.
        children: One number for each level: the number of its places in each place above. It replaces `places`.
            fitnoise makes codes as :meth:`regular` describes.
        column: The column of the data that holds the codes of leaves, when it is not named as the attribute.

    Raises:
        DomainError: There are fewer than two levels, or two of one name.
        DomainError: A row does not have one code for each level, or a leaf appears twice. Or codes of one level are of
            mixed kinds.
        DomainError: A place lies in two places above it.
        DomainError: Not exactly one of places, file and children is given.
        DomainError: A frame lacks the column of a level, a file cannot be read, or `column` is invalid.
        DomainError: The children make no tree.
    """

    kind, ordered, has_sequence, is_numeric = "hierarchy", False, False, False

    tree: Tree
    column: str | None = None
    coding: Codes = field(init=False, repr=False, compare=False)
    views: tuple[HierarchyLevel, ...] = field(init=False, repr=False, compare=False)
    depth: int = field(init=False, repr=False, compare=False)

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
        count = sum(x is not None for x in (places, file, children))
        if count > 1:
            raise DomainError(
                "places-in-several-ways",
                f"The hierarchy has {count} of places, file and children.",
                "It needs exactly one of them.",
                "Keep one, and remove the others.",
                "No hierarchy was made.",
            )
        tree: Tree
        if children is not None:
            tree = RegularTree.from_sizes(names, children)
        elif file is not None:
            tree = ListedTree.from_rows(names, _rows_of_file(Path(file), names))
        elif places is not None:
            tree = ListedTree.from_rows(names, _rows_of_frame(places, names) if hasattr(places, "columns") else places)
        else:
            raise DomainError(
                "places-not-given",
                "The hierarchy has no places.",
                f"It needs a row for each {names[-1]!r}, a CSV file of these rows, or one number for each level: the "
                "number of its places in each place above.",
                "Give places, file or children.",
                "No hierarchy was made.",
            )
        _check_column(column)
        object.__setattr__(self, "tree", tree)
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "depth", len(names) - 1)
        object.__setattr__(self, "views", tuple(HierarchyLevel(self, depth) for depth in range(len(names))))
        object.__setattr__(self, "coding", self.views[-1].coding)

    @classmethod
    def from_file(cls, path: str | Path, levels: Sequence[str], *, column: str | None = None) -> Hierarchy:
        """Read places from a CSV file with one row for each leaf and one column for each level.

        Codes are text, unless all codes of a level are written as whole numbers. A whole number is written as 0, 12 or
        -12, without plus sign, decimal point or leading zeros. Other columns are ignored.

        Raises:
            DomainError: The file cannot be read, or lacks the column of a level; or see the class.
        """
        return cls(levels, file=path, column=column)

    @classmethod
    @checked(DomainError, "Nothing was made.", "levels")
    def regular(
        cls, levels: Mapping[str, int] | None = None, /, *, column: str | None = None, **children: int
    ) -> Hierarchy:
        """Return a tree with equally many places in all places of a level: `regular(state=51, county=62, tract=27)`.

        The codes are texts: the code of the place above, and the number of the place in it. Numbers start at 1 as in
        official codes, in as many digits as the last one needs. "07" is the seventh of 51 states, "0731" its county 31.
        fitnoise lists the codes where records are counted, tables written or places named. A plan of any size needs no
        codes. The tree equals another one with the same levels and numbers. It equals no tree that is declared by rows,
        because plans list those.

        Args:
            levels: The number of places of the first level, then the number in each place of the level above, by name,
                from the top down. Use it for names that are not Python identifiers, or that are "column".
            column: See the class.
            children: The numbers of further levels, below these.

        Raises:
            DomainError: There are fewer than two levels, a name appears twice, or a number is not a whole number of 1
                or more.
            DomainError: The last level has more than ten million places.
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
        sizes = {**(levels or {}), **children}
        return cls(tuple(sizes), children=tuple(sizes.values()), column=column)

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels, from the top down."""
        return self.tree.levels

    @property
    def places(self) -> tuple[tuple[Code, ...], ...]:
        """The code of every leaf on every level; recomputed at each access if the codes are not declared."""
        return self.tree.rows

    @property
    def children(self) -> tuple[int, ...] | None:
        """For each level, the number of its places in each place above; None if it is not declared."""
        return self.tree.children if isinstance(self.tree, RegularTree) else None

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The codes of the leaves."""
        return self.views[-1].values

    def own_position(self, value: object) -> int:
        """Return the position of a leaf's code among the declared leaves.

        Args:
            value: The code of a place of the last level.

        Returns:
            The position, from 0. A hierarchy has no cells for missing values.

        Raises:
            DomainError: The value is not such a code.
        """
        return self.views[-1].position(value)

    def declared(self) -> dict[str, Any]:
        """Return the levels, and the rows of the leaves or the numbers that stand for them."""
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
    """Return the rows of a data frame of any kind: the function finds its columns by name, and iterates over them.

    NaN becomes `None`, a missing code.
    """
    header = list(frame.columns)
    for name in levels:
        if header.count(name) != 1:
            raise DomainError(
                "places-frame-columns",
                f"The frame of places has the columns {header}.",
                f"It has {header.count(name)} columns named {name!r}, and needs exactly one.",
                "Add, rename or remove columns.",
                "No hierarchy was made.",
                place=name,
            )
    columns = ([None if isinstance(x, float) and math.isnan(x) else x for x in frame[name]] for name in levels)
    return list(zip(*columns, strict=True))


@final
@dataclass(frozen=True)
class HierarchyLevel(Attribute):
    """One level of a hierarchy: a record lies in the place that holds its leaf. `Hierarchy` makes its levels.

    hierarchy: The hierarchy.
    depth: The depth of the level, 0 at the top.
    """

    kind, ordered, has_sequence, is_numeric = "level", False, False, False

    hierarchy: Hierarchy = field(repr=False)
    depth: int
    column: None = field(init=False, default=None)
    coding: Codes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "coding", LeafCodes(self.hierarchy.tree, self.depth))

    @property
    def name(self) -> str:
        """The name of the level in tables."""
        return self.hierarchy.levels[self.depth]

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The codes of its places."""
        return self.hierarchy.tree.codes[self.depth]

    @cached_property
    def _positions(self) -> dict[object, int]:
        return {code: i for i, code in enumerate(self.own_values)}

    def own_position(self, value: object) -> int:
        """Return the cell of a place's code; raise DomainError for any other value."""
        value = as_python(value)
        # The code 1 equals True and 1.0, which are no codes of places.
        position = self._positions.get(value) if type(value) is type(self.values[0]) else None
        if position is None:
            raise unknown_value(repr(value), f"It must be a place of the level {self.name!r}.")
        return position

    def declared(self) -> dict[str, Any]:
        """Return the depth of the level, and its hierarchy."""
        return {"depth": self.depth, "of": attribute_document(self.hierarchy)}


ATTRIBUTES: Final[tuple[type[Attribute], ...]] = (Categorical, Ordered, Binned, Amount, Hierarchy)
"""The kinds of attributes that a specification can declare."""


@final
@dataclass(frozen=True, init=False)
class Domain(Mapping[str, Attribute]):
    """Named attributes, in order: `Domain(state=Categorical(codes), age=Ordered(0, 85))`.

    A mapping may be given instead, for names that are not Python identifiers. Levels of a hierarchy can be looked up by
    name, as attributes can. A record has one cell of the hierarchy, so iteration yields the hierarchy and not its
    levels.

    Raises:
        DomainError: There are no attributes, or two names differ at most in case.
        DomainError: A name is empty, reserved (`RESERVED`, `DERIVED`), or holds a line break, a tab or a double quote.
        DomainError: A value is not an attribute, or has a coding of a class that no counter knows.
        DomainError: The classes of an amount do not fit the attribute on which its range depends (`Amount`).
    """

    attributes: tuple[tuple[str, Attribute], ...]
    sizes: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """The number of cells of everything by which a design may count: attributes, levels, and shares of levels.

    The share "county in state" exists where all states have equally many counties. It is the position of a record's
    county in its state, 0 for the first. State and share determine the county.
    """
    steps: Mapping[str, tuple[int, ...]] = field(init=False, repr=False, compare=False)
    """The number of steps of every amount from each knot to the next; the knots are its first cells."""
    _by_name: Mapping[str, tuple[str, Attribute]] = field(init=False, repr=False, compare=False)
    _shares: Mapping[str, HierarchyShare] = field(init=False, repr=False, compare=False)

    @checked(DomainError, "Nothing was made.", "attributes")
    def __init__(self, attributes: Mapping[str, Attribute] | None = None, /, **by_name: Attribute) -> None:
        both = set(attributes or ()) & set(by_name)
        if both:
            raise DomainError(
                "attributes-repeated",
                f"The attributes {sorted(both)} are declared twice.",
                "Each attribute needs a name of its own.",
                "Rename or remove one of the two.",
                "No domain was made.",
            )
        items = {**(attributes or {}), **by_name}
        if not items:
            raise DomainError(
                "attributes-missing",
                "The domain has no attribute.",
                "A domain needs at least one attribute.",
                "Declare an attribute.",
                "No domain was made.",
            )
        shares: dict[str, HierarchyShare] = {}
        lowered: dict[str, str] = {}
        sizes: dict[str, int] = {}
        for home, attribute in items.items():
            if not isinstance(attribute, Attribute):
                raise DomainError(
                    "not-an-attribute",
                    f"The object under {home!r} is of the type {type(attribute).__name__}.",
                    "It must be an attribute: Categorical, Ordered, Binned, Amount or Hierarchy.",
                    "Declare one of these attributes.",
                    "No domain was made.",
                    place=home,
                )
            for name, _ in _names(home, attribute):
                _check_name(name, lowered)
        # Ends by name get their order here: only the domain knows the attribute on whose labels they depend.
        items = {name: a.for_classes(items) for name, a in items.items()}
        for home, attribute in items.items():
            _check_coding(home, attribute.coding)
        entries = {name: (home, what) for home, attribute in items.items() for name, what in _names(home, attribute)}
        for home, attribute in items.items():
            sizes |= {name: what.size for name, what in _names(home, attribute)}
            for name, part in _shares(home, attribute):
                # A share, such as "county in state", must not have the name of an attribute either.
                _check_name(name, lowered)
                shares[name], sizes[name] = part, part.size
        object.__setattr__(self, "attributes", tuple(items.items()))
        steps = {name: a.steps for name, a in items.items() if a.steps}
        for name, value in (("sizes", sizes), ("steps", steps), ("_by_name", entries), ("_shares", shares)):
            object.__setattr__(self, name, FixedMapping(value))

    def __getitem__(self, name: str) -> Attribute:
        return self._entry(name)[1]

    def get(self, name: object, default: Any = None, /) -> Any:
        """Return the attribute or level of a name, or the default without one.

        Args:
            name: The name of an attribute or a level; anything else gives the default.
            default: The result for an unknown name.
        """
        # `Mapping.get` would expect a KeyError for an unknown name, not a DomainError.
        return self._by_name[name][1] if isinstance(name, str) and name in self._by_name else default

    def _entry(self, name: str) -> tuple[str, Attribute]:
        if name in self._by_name:
            return self._by_name[name]
        raise DomainError(
            "unknown-attribute",
            f"The domain has no attribute {name!r}.",
            f"Its attributes are {list(self._by_name)}.",
            "Name one of these attributes.",
            "No attribute was found.",
            place=name if isinstance(name, str) else None,
        )

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def drops(self, by_default: bool) -> tuple[str, ...]:
        """Return the names of the attributes for whose values records may be left out of all tables.

        Args:
            by_default: True if the data source leaves out records outside the domain.
        """
        return tuple(name for name, a in self.attributes if a.drops(by_default))

    def cells(self, record: Mapping[str, object]) -> dict[str, int | None]:
        """Return the cell of a record along every attribute; counters are tested against this.

        Args:
            record: The value in each column; a column that it lacks is a missing value.

        Returns:
            The results of :meth:`Attribute.cell`, by attribute: `None` outside the domain. For an amount with a range
            by another attribute, the step in the range of the record's cell there. It is `None` if the record has no
            cell there.
        """
        # Amounts with ranges by class come last, because they need the cell of their class.
        values = {name: record.get(self.column(name)) for name, _ in self.attributes}
        cells = {name: a.cell(values[name]) for name, a in self.attributes if a.coding.attribute is None}
        for name, a in self.attributes:
            classifier = a.coding.attribute
            if classifier is not None:
                cell = cells[classifier]
                cells[name] = None if cell is None else a.coding.for_class(cell).cell(values[name])
        return {name: cells[name] for name, _ in self.attributes}

    def leaves_out(self, source: DataSource, bound: RecordBound | None) -> bool:
        """Return True if records may be left out of all tables: for a value, a condition, or a missing id.

        The result considers all attributes, shown in a table or not: one more table changes no other table's truth.

        Args:
            source: The source of the records, with its conditions.
            bound: The bound on counted records of a unit, with its id.
        """
        return bool(source.where) or self.drops_values(source, bound)

    def drops_values(self, source: DataSource, bound: RecordBound | None) -> bool:
        """Return True if records may be left out of all tables for a value, or because they have no id.

        Args:
            source: The source of the records.
            bound: The bound on counted records of a unit, with its id.
        """
        # A record without an id is outside, as a record with a value outside the domain is.
        return bool(self.drops(source.drops)) or (source.drops and bound is not None)

    def column(self, name: str) -> str:
        """Return the column of the data that holds this attribute.

        Args:
            name: The name of an attribute, a level or a share (`county in state`).

        Raises:
            DomainError: There is no such attribute.
        """
        home = self.attribute_of(name)
        return self[home].column or home

    def attribute_of(self, name: str) -> str:
        """Return the attribute to which a level or a share belongs; for the name of an attribute, this name.

        Args:
            name: The name of an attribute, a level or a share (`county in state`).

        Raises:
            DomainError: There is no such attribute.
        """
        part = self._shares.get(name)
        return part.home if part is not None else self._entry(name)[0]

    def is_nested(self, upper: str, lower: str, above: Indices) -> bool:
        """Return True if `above` gives, for each place of the level `lower`, its place of the level `upper`.

        The result is False for attributes that are no hierarchy, or two different ones.

        Args:
            upper: The name of the upper level.
            lower: The name of the lower level.
            above: Positions of places of the upper level, of shape (places of the lower level,).

        Raises:
            DomainError: There is no such attribute.
        """
        home = self[self.attribute_of(upper)]
        if home.tree is None or self.attribute_of(lower) != self.attribute_of(upper):
            return False
        return np.array_equal(home.tree.above(self.depth(upper), self.depth(lower)), above)

    def depth(self, name: str) -> int:
        """Return the depth of a level in its hierarchy, 0 at the top.

        A share has the depth of its lower level, and a hierarchy that of its leaves.

        Args:
            name: The name of an attribute, a level or a share (`county in state`). The result is 0 without a hierarchy.

        Raises:
            DomainError: There is no such attribute.
        """
        return self._shares[name].lower if name in self._shares else self[name].depth

    def max_cells_sharing(self, name: str, axes: Collection[str]) -> int:
        """Return the largest number of cells of an attribute that lie in one place along all of these axes.

        Args:
            name: The name of an attribute.
            axes: Names of the attribute itself, of its levels and of shares of them.

        Raises:
            DomainError: There is no such attribute.
        """
        attribute = self[name]
        if name in axes:
            return 1
        if not axes or attribute.tree is None:
            return attribute.size
        # An axis that is a level has no upper place, so it counts all places of the level (upper −1).
        parts = map(self._shares.get, axes)
        return attribute.tree.max_leaves_sharing(
            (-1 if part is None else part.upper, self.depth(a)) for a, part in zip(axes, parts, strict=True)
        )

    def adjacency(self, source: DataSource, unit: PrivacyUnit) -> Adjacency:
        """Return the neighbour relation of two databases of such records for a unit.

        Args:
            source: The source of the records.
            unit: The unit of protection.
        """
        return Adjacency(unit, drops=self.leaves_out(source, unit.bound), grid=self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells per attribute."""
        return tuple(a.size for _, a in self.attributes)

    @property
    def size(self) -> int:
        """The number of cells of the domain, Π sizes."""
        return math.prod(self.shape)

    def counting_axes(self, margin: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the attributes and levels by which records are counted for a margin, each with the axes it lies along.

        The counts of a level are laid out along a level above it and the shares from there down. `county` lies along
        (`state`, `county in state`), in C order. A name without a share of its hierarchy lies along itself.

        Raises:
            DomainError: Shares do not follow one another down the tree.
        """
        # A hierarchy with shares in the margin is counted once, by one level, for all of its names.
        shared = dict.fromkeys(self._shares[name].home for name in margin if name in self._shares)
        out = {home: self._path(home, [name for name in margin if self.attribute_of(name) == home]) for home in shared}
        return tuple({axis: None for name in margin for axis in [out.get(self.attribute_of(name), (name, (name,)))]})

    def _path(self, home: str, names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
        """Return the level by which levels and shares of a hierarchy are counted, and the axes along which it lies."""
        # Shares follow one another if the levels at which they start and end, in order, make exactly the given names.
        parts = [self._shares[name] for name in names if name in self._shares]
        depths = {self.depth(name) for name in names if name in self._by_name}
        depths.update(depth for part in parts for depth in (part.upper, part.lower))
        path = [part.levels[depth] for part in parts[:1] for depth in sorted(depths)]
        axes = (path[0], *(f"{lower} in {upper}" for upper, lower in itertools.pairwise(path)))
        if not set(names) <= set(axes) or not set(axes[1:]) <= set(self._shares):
            raise DomainError(
                "shares-not-nested",
                f"The shares {list(names)} do not follow one another down the hierarchy {home!r}.",
                "Records cannot be counted by them.",
                "Use shares of which each starts at the level where the one before ends.",
                "Nothing was read and nothing was charged.",
            )
        return path[-1], axes


@final
@dataclass(frozen=True)
class HierarchyShare:
    """The position of a place of a lower level in its upper place; all upper places have equally many lower ones.

    home: The name of the hierarchy.
    levels: The names of all its levels, from the top down.
    upper, lower: The depths of the two levels, 0 at the top.
    size: The number of lower places in each upper place.
    """

    home: str
    levels: tuple[str, ...]
    upper: int
    lower: int
    size: int


def _names(home: str, attribute: Attribute) -> Iterator[tuple[str, Attribute]]:
    """Yield an attribute, and its levels; the last level may have the name of the hierarchy."""
    yield home, attribute
    # The last level may have the name of the hierarchy.
    yield from ((view.name, view) for view in attribute.views if view is not attribute.views[-1] or view.name != home)


def _shares(home: str, attribute: Attribute) -> Iterator[tuple[str, HierarchyShare]]:
    if attribute.tree is not None:
        for upper, lower in itertools.combinations(range(len(attribute.levels)), 2):
            size = attribute.tree.children_per_place(upper, lower)
            if size is not None:
                name = f"{attribute.levels[lower]} in {attribute.levels[upper]}"
                yield name, HierarchyShare(home, attribute.levels, upper, lower, size)


def _check_coding(name: str, coding: Coding) -> None:
    """Raise DomainError for a coding of another class than counters translate, such as a subclass of one."""
    # A subclass could compute cells in Python that no counter's SQL computes.
    if type(coding) not in CODINGS or type(coding.values) not in CODINGS[1:]:
        raise DomainError(
            "unknown-coding",
            f"The coding of {name!r} is of the class {type(coding).__name__}.",
            "No counter translates this class.",
            "Use `Codes`, `Range`, `Cuts` or `Steps`, or `CodingWithMissing` around one of them.",
            "No domain was made.",
            place=name,
        )


def _check_name(name: object, lowered: dict[str, str]) -> None:
    """Raise DomainError for a name that cannot be a column, or that another one is taken for; remember it."""
    if not isinstance(name, str) or not name.strip() or not encodable(name) or any(c in name for c in '\n\r\t"\0'):
        raise DomainError(
            "attribute-name-invalid",
            f"An attribute is named {name!r}.",
            "Its name must be a text with visible characters, without line breaks, tabs and double quotes.",
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
    """Return everything declared for an attribute, as plain JSON values. The order matters: it is that of the cells.

    Written as JSON without sorting, the documents of two attributes are equal if and only if the attributes are.
    """
    missing = {"missing": {name: list(codes) for name, codes in dict(a.missing).items()}} if a.missing_cells else {}
    rest = {k: v for k, v in (("if_missing", a.if_missing), ("if_outside", a.if_outside)) if v is not None}
    rest |= {} if a.derived is None else {"date_part": a.derived.document}
    return {"type": a.kind, **a.declared(), "column": a.column, **missing, **rest}
