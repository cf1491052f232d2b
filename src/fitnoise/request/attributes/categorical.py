"""Codes without an order."""

from __future__ import annotations

import contextlib
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, final

from pydantic import Field, model_validator

from fitnoise.errors import DomainError, SpecError
from fitnoise.kernel.checks import describe_value
from fitnoise.kernel.codings import Code, Codes, Coding, as_python, encodable
from fitnoise.kernel.dates import DateField
from fitnoise.kernel.immutable import FixedMapping
from fitnoise.request.attributes._base import (
    FILL_IN_MARK,
    MISSING_HELP,
    Attribute,
    AttributeSection,
    CodingRule,
    Missing,
    Pair,
    SpecCode,
    as_code,
    check_column,
    unknown_value,
)
from fitnoise.request.by_language import all_texts, columns_by_language, refuse_empty
from fitnoise.request.csv_rows import codes_from_texts, read_rows
from fitnoise.request.spec_section import resolve_file


@final
@dataclass(frozen=True, init=False)
class Categorical(Attribute):
    """Unordered codes, with an optional label for each.

    Several codes may have one label, such as the name of several towns. Their values are named by their codes.

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
        DomainError: There are no codes, codes of mixed kinds, or a code twice.
        DomainError: A whole number is 2^53 or more in size, or a label is not a text that UTF-8 can write.
        DomainError: A label is the code of another value.
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
    _repeated_labels: frozenset[str] = field(init=False, repr=False, compare=False)

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
        # Copied first: a mapping that answered otherwise would give codes the labels of others.
        codes = dict(codes) if isinstance(codes, Mapping) else codes
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
        if labels is not None and not all(isinstance(x, str) and x and encodable(x) for x in labels):
            raise DomainError(
                "label-invalid",
                "A label is empty, is not a text, or holds half of a surrogate pair.",
                "Labels must be non-empty texts that UTF-8 can write.",
                "Give each code such a label.",
                "No attribute was made.",
            )
        # A table would show the number of one value under the name of another.
        others = set(coding.codes)
        crossed = next(
            (x for code, x in zip(coding.codes, labels or (), strict=False) if x != code and x in others), None
        )
        if crossed is not None:
            raise DomainError(
                "label-of-another-code",
                f"The label {crossed!r} is the code of another value.",
                "A label that is also a code must be the label of that code.",
                "Give the value another label.",
                "No attribute was made.",
                place=crossed,
            )
        check_column(column)
        object.__setattr__(self, "codes", coding.codes)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "column", column)
        repeated = frozenset(label for label, count in Counter(labels).items() if count > 1)
        object.__setattr__(self, "_repeated_labels", repeated)
        # Keys say if a name is a Boolean, because True and 1 have one hash.
        single = ((i, label) for i, label in enumerate(labels or ()) if label not in repeated)
        names = (*single, *enumerate(coding.codes))
        positions: dict[tuple[bool, object], int] = {(isinstance(name, bool), name): i for i, name in names}
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
        """Read codes from a CSV file with a column `code` and, optionally, a column `label`; ignore other columns.

        Codes are text, unless every one of them is written as a whole number. A whole number is written as 0, 12 or
        -12, without plus sign, decimal point or leading zeros.

        Args:
            path: The CSV file.
            column: The column of the data that holds the codes, when it is not named as the attribute.
            options: Further arguments of the class: `missing`, `if_missing`, `if_outside`, `date_part` and `lookup`.

        Raises:
            DomainError: The file cannot be read, has no column `code` or no code, or has a code twice.
            DomainError: A label is empty, or a whole number is 2^53 or more in size.
            DomainError: The class refuses the codes or the options.
        """
        codes, labels = _codes_of_file(Path(path), None)
        return cls(dict(zip(codes, labels[""], strict=True)) if labels else codes, column=column, **options)

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The labels, if there are any, otherwise the codes."""
        return self.labels if self.labels is not None else self.codes

    @property
    def cell_names(self) -> tuple[Code, ...]:
        """The labels and the names of missing-value categories; codes for the labels if two values have one label."""
        return (*self.codes, *self.missing_cells) if self._repeated_labels else self.values

    def own_position(self, value: object) -> int:
        """Return the cell of a code, or of a label that one value has.

        Args:
            value: A declared code, or a label as tables show it.

        Returns:
            The position of the cell, from 0.

        Raises:
            DomainError: The value is neither a code nor a label, or several codes have this label.
        """
        if isinstance(value, str) and value in self._repeated_labels:
            codes = [code for code, label in zip(self.codes, self.labels or (), strict=True) if label == value]
            raise DomainError(
                "label-of-several-codes",
                f"The label {value!r} belongs to the codes {reprlib.repr(codes)}.",
                "A value with such a label is named by its code.",
                "Give the code.",
                "The value was not found.",
            )
        with contextlib.suppress(KeyError, TypeError):  # what has no hash is neither
            return self._positions[isinstance(value, bool), value]
        raise unknown_value(repr(value), "It must be a code or a label of the attribute.")

    def own_examples(self, cell: int, class_cell: int) -> Sequence[Any]:
        """Return the code of a cell; with a lookup, the values that lead to it.

        Args:
            cell: The index of the code, from 0.
            class_cell: Not used: only the range of an amount depends on another attribute.
        """
        del class_cell
        code = self.codes[cell]
        return (code,) if self.lookup is None else [value for value, coded in self.lookup if coded == code]

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the largest of the whole numbers that have a cell; infinite for texts."""
        values = self.codes if self.lookup is None else [value for value, _ in self.lookup]
        numbers = [x for x in values if isinstance(x, int)]
        return (min(numbers), max(numbers)) if numbers else super().limits

    @property
    def label_codes(self) -> tuple[Code, ...]:
        """The codes, if there are labels other than the texts of the codes."""
        return self.codes if self.labels is not None and self.labels != tuple(map(str, self.codes)) else ()

    @property
    def coding_rules(self) -> tuple[CodingRule, ...]:
        """The rule of the lookup; empty without one."""
        return () if self.lookup is None else (("report.coding.lookup", {"count": len(self.lookup)}),)

    def declared(self) -> dict[str, Any]:
        """Return codes, and labels and a lookup where there are any."""
        lookup = {} if self.lookup is None else {"lookup": [list(pair) for pair in self.lookup]}
        return {"codes": list(self.codes), "labels": None if self.labels is None else list(self.labels), **lookup}


def _codes_of_file(path: Path, language: str | None) -> tuple[list[Code], dict[str, list[str]]]:
    """Return the codes of a file, and its labels by language (:func:`columns_by_language`).

    Args:
        path: The CSV file.
        language: The main language; None to read the column `label` alone.

    Raises:
        DomainError: The file cannot be read, has no column `code`, or has a code twice.
        DomainError: A label is empty, or two columns have the labels in the main language.
    """
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
    codes = codes_from_texts([row["code"] for row in rows])
    columns = columns_by_language(header, "label", language)
    # A mapping would keep only the last of two rows with one code.
    if columns and len(set(codes)) != len(codes):
        raise DomainError(
            "codes-file-repeated",
            f"The file of codes {path.name!r} declares a code twice.",
            "Each code needs one row.",
            "Remove one of the two rows.",
            "No attribute was made.",
            place=path.name,
        )
    labels = {tag: [row[column] for row in rows] for tag, column in columns.items()}
    for tag, column in columns.items():
        refuse_empty(codes, labels[tag], column)
    return codes, labels


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
            for v, row in zip(codes_from_texts([r["value"] for r in rows]), rows, strict=True)
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
    pairs = [tuple(map(as_code, pair)) for pair in pairs]
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


class CategoricalSpec(AttributeSection):
    """Codes without an order, listed here or in a CSV file with a column `code` (and `label`)."""

    meaning = "values without an order; other kinds are ordered, binned, amount and hierarchy"
    starter_keys: ClassVar[Mapping[str, tuple[str, str]]] = {
        "codes": ('["a", "b"]', FILL_IN_MARK + 'every code there may be, or codes_file = "codes.csv", a public list'),
        "labels": ('["first", "second"]', "what tables show instead, one for each code"),
        "missing": ('{ other = ["9"] }', MISSING_HELP),
        "if_outside": ('"other"', "that cell also counts the codes that are not listed"),
    }

    type: Literal["categorical"] = Field(description="The kind of the attribute.")
    codes: list[bool | int | str] | None = Field(
        None, description="The codes in the data. If absent, codes_file names the file with the codes."
    )
    labels: list[str] | dict[str, list[str]] | None = Field(
        None,
        description="The label of each code in tables, in the order of the codes; or lists of labels by language, one "
        "of them the language of the publication. If absent, tables show the codes.",
    )
    codes_file: str | None = Field(
        None,
        description="A CSV file with the codes; its path is relative to the specification. Codes are numbers if the "
        "file writes all as 12 and not as 012, otherwise texts. A column label has the labels, and columns such as "
        "label_fr have those of further languages. If absent, codes lists the codes.",
    )
    lookup: dict[str, SpecCode] | list[Pair] | None = Field(
        None,
        description="The code for each value in the data, such as the region of a postcode: a table value = code, or "
        "pairs of value and code. If absent, the data hold the codes.",
    )
    lookup_file: str | None = Field(
        None,
        description="A CSV file with the columns `value` and `code` in place of lookup. Values are numbers if the file "
        "writes all as 12 and not as 012, otherwise texts. If absent, no file is read.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.lookup is not None and self.lookup_file is not None:
            raise SpecError(
                "lookup-twice",
                "The attribute has lookup and lookup_file.",
                "",
                "Give only one of them.",
                "No data were read.",
                place="lookup",
            )
        if (self.codes is None) == (self.codes_file is None):
            raise SpecError(
                "codes-source",
                f"The attribute has {'neither codes nor' if self.codes is None else 'codes and'} codes_file.",
                "",
                "Give exactly one of them.",
                "No data were read.",
                place="codes",
            )
        lists = self.labels if isinstance(self.labels, dict) else {} if self.labels is None else {"": self.labels}
        for language, labels in lists.items():
            if self.codes is None or len(labels) != len(self.codes):
                of_codes = "its codes are in a file" if self.codes is None else f"{len(self.codes)} codes"
                raise SpecError(
                    "labels-misfit",
                    f"The attribute has {len(labels)} labels{f' in {language!r}' if language else ''}, and {of_codes}.",
                    "Each code needs one label in each language.",
                    "Give codes with as many labels, in the same order, or a codes_file with a column label.",
                    "No data were read.",
                    place="labels",
                )
        return self

    def in_languages(self, language: str, folder: Path | None) -> dict[str, Self]:
        """Return the section with the labels of each language, the main one first; read the file of codes."""
        section = self
        if self.codes_file is not None:
            codes, columns = _codes_of_file(resolve_file(folder, "codes_file", self.codes_file), language)
            section = self.model_copy(update={"codes": codes, "codes_file": None, "labels": columns or None})
        labels = {} if section.labels is None else all_texts(section.labels, language, "labels")
        return {tag: section.model_copy(update={"labels": x}) for tag, x in labels.items()} or {language: section}

    def texts(self, name: str, attribute: Attribute, language: str) -> Mapping[str, Sequence[str]]:
        """Return the labels of a section of one language."""
        del attribute, language
        assert isinstance(self.labels, list)  # noqa: S101 - `in_languages` has chosen one
        return {name: self.labels}

    def build(self, folder: Path | None) -> Attribute:
        """Return the attribute.

        Args:
            folder: The folder of the specification, where its files lie; None if it is not known.

        Raises:
            SpecError: The lookup is in a file, and the folder is not known or the file has no usable name.
            DomainError: A file cannot be read, or the keys declare no such attribute.
        """
        # The class reads the file, so that specification and Python read lookups the same way.
        lookup = self.lookup if self.lookup_file is None else resolve_file(folder, "lookup_file", self.lookup_file)
        options: dict[str, Any] = {"column": self.column, "lookup": lookup, **self._reading_options}
        codes = self.codes or []  # `in_languages` has read a file of codes
        if self.labels is None:
            return Categorical(codes, **options)
        assert isinstance(self.labels, list)  # noqa: S101 - `in_languages` has chosen one
        Categorical(codes)  # a repeated code would vanish silently in the mapping below
        # A mapping states codes with labels as Python users do, so there is one path to the checks.
        return Categorical(dict(zip(codes, self.labels, strict=True)), **options)
