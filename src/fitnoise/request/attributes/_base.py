"""The members and the keys that all kinds of attributes share.

A kind is one file with two classes: the attribute, and its keys in a specification with its form in a starter
specification. An attribute has labels and documents. Its axis (:class:`fitnoise.kernel.domain.Axis`) has none.
"""

from __future__ import annotations

import abc
import math
import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from datetime import date
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, final

from pydantic import Field

from fitnoise.errors import DomainError
from fitnoise.kernel.checks import refuse_incomplete
from fitnoise.kernel.codings import (
    DROPPED,
    OUTSIDE,
    REFUSED,
    Code,
    Coding,
    CodingWithMissing,
    as_python,
    encodable,
    refuse_repeated,
)
from fitnoise.kernel.dates import DateField, read
from fitnoise.kernel.domain import Axis
from fitnoise.kernel.places import Tree
from fitnoise.request.arguments import checked
from fitnoise.request.spec_section import SpecSection

SpecCode = bool | int | str

Pair = Annotated[list[SpecCode], Field(min_length=2, max_length=2)]

FILL_IN_MARK = "fill in: "
"""The mark in the comment of a key that the publisher has to state."""

MISSING_HELP = "a cell of its own for missing values, with their codes"
"""The comment on `missing` in a starter specification."""

CodingRule: TypeAlias = "tuple[str, Mapping[str, float | str]]"
"""A rule for the reading of values: the id of its message, with the values of the message."""

MISSING_CODES_RULE: CodingRule = ("report.coding.missing_codes", {})
"""The rule that codes of missing values are read as such, also outside the range."""

Missing = Mapping[str, Iterable[Code]] | tuple[tuple[str, tuple[Code, ...]], ...]
"""The type of missing-value categories: the name of each, and the codes of the data that fall into it."""

CODE, FROM, TO, NAME = "code", "from", "to", "name"
"""The endings of the names of columns with codes, with the ends of bins, and with the names of places."""

OUTSIDE_POLICIES = ("drop", "refuse")
"""The possible actions for a record whose value has no cell."""


class Attribute(abc.ABC):
    """One named column of the data with its declared values.

    `coding` maps a value of the data to its cell. `values` are the labels of the cells in a released table. `ordered`
    is True if "at most" has a meaning. Attributes are equal if and only if their documents are.

    In addition to its values an attribute may have missing-value categories. Their cells come after those of the
    values, and have no order. `missing` names them. `if_missing` is the action for missing values, `if_outside` for all
    other values that are not declared.

    A new kind is a file of this folder: a subclass with one of the four codings, and the class of its keys. Its values
    are added to `tests/zoo/attributes.py`. Counting, planning and releasing need nothing else.
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

    views: Sequence[Attribute] = ()
    """The levels of a hierarchy, from the top down; empty for all other attributes."""

    hierarchy: Attribute | None = None
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

    @abc.abstractmethod
    def own_examples(self, cell: int, class_cell: int) -> Sequence[Any]:
        """Return values of the data that a cell of values may hold; `examples` removes codes of missing values.

        Args:
            cell: The index of the cell, from 0; for an amount of K steps, that of the value after as many steps.
            class_cell: The cell of the record along the attribute on which the range of an amount depends.
        """

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the largest number with a cell, as far as they are declared; infinite where they are not."""
        return -math.inf, math.inf

    @final
    def examples(self, cell: int, class_cell: int = 0) -> Sequence[Any]:
        """Return values that the coding puts into one of its cells, such as some numbers of a bin.

        Args:
            cell: The index of the cell, from 0 to the size of the coding − 1. For an amount of K steps, 0 to K are its
                values, and larger indices are missing-value categories.
            class_cell: For an amount whose range depends on another attribute, the cell of the record along it.

        Returns:
            Values, at least one if the cell has any. None among them stands for a missing value.
        """
        coding, value_count = self.coding.for_class(class_cell), self.coding.values.size
        codes = [codes or (None, "not declared") for _, codes in dict(self.missing).items()]
        stated = self.own_examples(cell, class_cell) if cell < value_count else codes[cell - value_count]
        # A number of a bin can be the code of a missing value, which has a cell of its own.
        return [x for x in stated if coding.cell(x) == cell]

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

    @property
    def cell_names(self) -> tuple[Code, ...]:
        """The names that distinguish all cells, in order: the labels, or the codes if two values have one label."""
        return self.values

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
            DomainError: The ceiling of an amount with one range is not declared.
        """
        del ceiling
        return self.coding_rules

    def largest(self, ceiling: float | None, cell: int | None = None) -> float:
        """Return the largest absolute value that a record can add to a sum; 0 without numbers.

        Args:
            ceiling: The amount up to which amounts count; None for the largest.
            cell: The cell of the attribute on which the range of an amount depends; None for the largest of all.

        Raises:
            DomainError: The ceiling of an amount with one range is not declared.
        """
        del ceiling, cell
        return 0.0

    @property
    def is_capped(self) -> bool:
        """True if numbers outside the declared range are read as its ends: sums and means lack the excess."""
        return False

    @property
    def label_codes(self) -> tuple[Code, ...]:
        """The code of each value that a table shows by a label; empty if each label is the text of its code."""
        return ()

    @property
    def further_columns(self) -> dict[str, tuple[Code | float, ...]]:
        """The columns of a released table after the labels of all cells, by the ending of their names.

        The ending "code" has the codes, if there are labels. The name of a missing-value category stands for its codes.
        """
        return {CODE: (*self.label_codes, *self.missing_cells)} if self.label_codes else {}

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
        try:
            self.own_position(name)
            taken = True
        except DomainError as error:
            taken |= error.code == "domain.label-of-several-codes"
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
    @cached_property
    def axis(self) -> Axis:
        """The column and its cells, without labels: all that the kernel knows of the attribute.

        Raises:
            DomainError: The coding is of a class that no counter translates.
        """
        column = None if self.column is None else str(self.column)
        return Axis(self.coding, column, self.derived, self.ordered, self.tree)

    @final
    def drops(self, by_default: bool) -> bool:
        """Return True if records may be left out for their value here, given the default action of the source."""
        return self.axis.drops(by_default)

    @final
    def cell(self, value: object) -> int | None:
        """Return the cell of a value of the data, or `None` if it is outside the domain (:meth:`Axis.cell`).

        Args:
            value: The value, as a source of data has it.
        """
        return self.axis.cell(value)

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


def attribute_document(a: Attribute) -> dict[str, Any]:
    """Return everything declared for an attribute, as plain JSON values. The order matters: it is that of the cells.

    Written as JSON without sorting, the documents of two attributes are equal if and only if the attributes are.
    """
    missing = {"missing": {name: list(codes) for name, codes in dict(a.missing).items()}} if a.missing_cells else {}
    rest = {k: v for k, v in (("if_missing", a.if_missing), ("if_outside", a.if_outside)) if v is not None}
    rest |= {} if a.derived is None else {"date_part": a.derived.document}
    return {"type": a.kind, **a.declared(), "column": a.column, **missing, **rest}


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


def listed_codes(codes: Sequence[Code]) -> str:
    """Return a code, or several as a list of at most six, for an error."""
    return repr(codes[0]) if len(codes) == 1 else reprlib.repr([*codes])


def check_column(column: str | None) -> None:
    """Raise DomainError unless `column` is a non-empty text or None."""
    if column is not None and (not isinstance(column, str) or not column):
        raise DomainError(
            "column-invalid",
            f"The value of column is {column!r}.",
            "It must be a non-empty text.",
            "Give the name of a column of the data, or remove column.",
            "No attribute was made.",
            place="column",
        )


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
    return tuple((name, tuple(map(as_code, codes))) for name, codes in pairs)


def as_code(code: object) -> Code:
    """Return a code as it is, −9.0 as −9."""
    item: object = as_python(code)
    return int(item) if isinstance(item, float) and item.is_integer() else as_python(item)


class AgeSpec(SpecSection):
    """An age in completed years, computed from a date of birth."""

    # TOML has dates of its own, and JSON writes them as texts
    age_on: str | date = Field(description="The day on which the age is computed, such as 2024-12-31.")


class AttributeSection(SpecSection, abc.ABC):
    """The keys of an attribute; this class has those that most kinds share."""

    meaning: ClassVar[str]
    """The comment on the kind in a starter specification."""

    starter_keys: ClassVar[Mapping[str, tuple[str, str]]]
    """For each key of a starter specification an example and a comment."""

    is_summed: ClassVar[bool] = False
    """True if tables of a starter specification sum the attribute, and do not show it by value."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Raise TypeError if a class lacks a member.

        Args:
            options: Further arguments of the class.
        """
        super().__pydantic_init_subclass__(**options)
        lacking = {name for name in ("meaning", "starter_keys") if not hasattr(cls, name)} | cls.__abstractmethods__
        if abc.ABC not in cls.__bases__ and lacking:
            raise TypeError(f"The class {cls.__name__} lacks {', '.join(sorted(lacking))}.")

    def in_languages(self, language: str, folder: Path | None) -> dict[str, Self]:
        """Return the section with the texts of each language, the main one first. A file of texts is read.

        Args:
            language: The main language.
            folder: The folder of the specification, where its files lie; None if it is not known.

        Raises:
            SpecError: Texts lack the main language, or the folder of a file is not known.
            DomainError: A file cannot be read.
        """
        del folder
        return {language: self}

    def texts(self, name: str, attribute: Attribute, language: str) -> Mapping[str, Sequence[str]]:
        """Return the labels of a section of a further language, by attribute or level, in the order of tables.

        Args:
            name: The name of the attribute.
            attribute: The attribute in the main language.
            language: The further language.

        Raises:
            DomainError: The texts do not fit the attribute.
        """
        del name, attribute, language
        return {}

    @abc.abstractmethod
    def build(self, folder: Path | None) -> Attribute:
        """Return the attribute of a section of one language (:meth:`in_languages`).

        Args:
            folder: The folder of the specification, where its files lie; None if it is not known.

        Raises:
            SpecError: The declaration names a file, and the folder is not known or the file has no usable name.
            DomainError: A file cannot be read, or the keys declare no such attribute.
        """

    missing: dict[str, list[SpecCode]] | None = Field(
        None,
        description="The categories for missing values, after the declared values: the codes of each category, by its "
        "name. If absent, the attribute has no such category.",
    )
    if_missing: str | None = Field(
        None,
        description='The treatment of null, NaN and empty values: the name of a category of `missing`, "refuse" or '
        '"drop". For numbers and truth values, a text of spaces is empty, too. If absent, data.outside_domain decides.',
    )
    if_outside: str | None = Field(
        None,
        description="The treatment of all other values that are not declared: the name of a category of `missing`, "
        '"refuse" or "drop". If absent, data.outside_domain decides.',
    )

    date_part: Literal["year", "quarter", "month", "weekday", "hour"] | AgeSpec | None = Field(
        None,
        description="The part of a date that is counted, where the column holds dates. If absent, the column holds the "
        "values themselves.",
    )
    column: str | None = Field(
        None, description="The column of the data. If absent, it is the column with the name of the attribute."
    )

    @property
    def _reading_options(self) -> dict[str, Any]:
        date_part = self.date_part.model_dump(mode="json") if isinstance(self.date_part, AgeSpec) else self.date_part
        return {
            "missing": self.missing,
            "if_missing": self.if_missing,
            "if_outside": self.if_outside,
            "date_part": date_part,
        }
