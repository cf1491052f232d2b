"""Rules for numbers: by the values of an attribute, by the size of a table, and from a public total.

Each rule states its keys in a specification, its document, and the numbers that it gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Discriminator, Field, Tag

from fitnoise.errors import FitnoiseError, SpecError, WorkloadError
from fitnoise.kernel.checks import is_real
from fitnoise.kernel.codings import as_python, number
from fitnoise.request.arguments import checked
from fitnoise.request.csv_rows import read_rows
from fitnoise.request.spec_section import SpecSection, resolve_file


@final
@dataclass(frozen=True, init=False)
class ByAttribute:
    """A number that depends on the value of one attribute: a target, or the range of an amount.

    Args:
        attribute: For a target, one of the table's attributes, and for a range, another attribute of the domain. It
            becomes *structured*: its values are no longer interchangeable.
        values: A mapping value → number, or numbers in order. A target has one for each row that the table has along
            the attribute, and a range one for each of the attribute's values.
        default: The number for values that the mapping leaves out; None if it names all.

    Raises:
        WorkloadError: The mapping names a value twice, such as 1 and "1". Missing numbers are refused later, by the
            table or the domain.

    Example:
        `table("state", margin=ByAttribute("state", {"Wyoming": 5}, default=20))`;
        `Amount(0, ByAttribute("size", {"small": 1_000, "large": 1_000_000}))`
    """

    attribute: str
    values: tuple[float, ...] | tuple[tuple[str, float], ...]
    default: float | None = None

    @checked(WorkloadError, "Nothing was planned.")
    def __init__(
        self, attribute: str, values: Sequence[float] | Mapping[Any, float], default: float | None = None
    ) -> None:
        # Keys are compared as texts, because the keys of TOML and JSON are texts: 1 and "1" are one value.
        if isinstance(values, Mapping) and len({str(k) for k in values}) != len(values):
            raise WorkloadError(
                "by-value-repeated",
                f"A number by {attribute!r} names a value twice.",
                "Each value has one number.",
                "Remove one of the two numbers.",
                "Nothing was made.",
                place=attribute,
            )
        object.__setattr__(self, "attribute", attribute)
        numbers: Iterable[Any] = (
            [(str(k), as_python(v)) for k, v in values.items()]
            if isinstance(values, Mapping)
            else map(as_python, values)
        )
        object.__setattr__(self, "values", tuple(numbers))
        object.__setattr__(self, "default", as_python(default))

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        attribute: str,
        column: str,
        values: Mapping[str, float] | None = None,
        default: float | None = None,
    ) -> ByAttribute:
        """Return the numbers of a CSV file with a column of the attribute's values, such as places with a row for each.

        Args:
            path: The file; other columns are ignored.
            attribute: One of the table's attributes, or a level; also the name of the column of its values.
            column: The column of the number for each value, or of its class. An empty field means the default.
            values: The number for each class; None if the column has the numbers themselves.
            default: The number for values that are not in the file, or have no number there.

        Raises:
            WorkloadError: The file cannot be read, or lacks a column. Or it has an entry that is no number or no class
                with a number, or two different numbers for one value.

        Example:
            `table("county", margin=ByAttribute.from_file("places.csv", "county", "size", {"small": 20, "large": 100}))`
        """
        path = Path(path)
        header, rows = read_rows(path, "the file of targets", WorkloadError)
        for name in (attribute, column):
            if name not in header:
                raise WorkloadError(
                    "target-column-missing",
                    f"The file of targets {path.name!r} has no column {name!r}.",
                    f"Its columns are {header}.",
                    "Add the column to the file, or name one of these.",
                    "Nothing was planned.",
                    place=name,
                )
        numbers: dict[str, float] = {}
        for row in rows:
            code, text = row[attribute] or "", row[column] or ""
            # An empty field is no mistake: the default applies to the value.
            if not code or not text:
                continue
            number = _number(path, f"{attribute} {code!r}", text, values)
            # A file of places has one row for each place, so a value of a level above can appear many times.
            if numbers.setdefault(code, number) != number:
                raise WorkloadError(
                    "target-twice",
                    f"The file of targets {path.name!r} has the numbers {numbers[code]!r} and {number!r} for the "
                    f"{attribute} {code!r}.",
                    "",
                    "Give one number for each value.",
                    "Nothing was planned.",
                    place=attribute,
                )
        return cls(attribute, numbers, default)

    @property
    def is_by_name(self) -> bool:
        """True if the numbers are given by name rather than in order; False for an empty mapping."""
        return any(isinstance(v, tuple) for v in self.values)

    def for_labels(
        self, labels: Sequence[str | int], what: str = "target", error: type[FitnoiseError] = WorkloadError
    ) -> tuple[float, ...]:
        """Return the number for each label, in the order of the labels.

        Args:
            labels: The labels of all values of the attribute.
            what: The description of the numbers, in messages.
            error: The class of the error.

        Raises:
            WorkloadError, or the class `error`: A number is missing, or one is given for no label.
        """
        if not self.is_by_name:
            if len(self.values) != len(labels):
                raise error(
                    "by-value-count",
                    f"The {what} by {self.attribute!r} has {len(self.values)} numbers.",
                    f"It needs {len(labels)} numbers, one for each value.",
                    "Give one number for each value, in order.",
                    "Nothing was made.",
                    place=self.attribute,
                )
            return tuple(v for v in self.values if not isinstance(v, tuple))
        position_of = {str(x): i for i, x in enumerate(labels)}
        out = [self.default] * len(labels)
        for item in self.values:
            name, number = item if isinstance(item, tuple) else (None, item)
            if name not in position_of:
                raise error(
                    "by-value-unknown",
                    f"The {what} by {self.attribute!r} names {name!r}.",
                    f"This is not a value of {self.attribute!r}.",
                    "Correct or remove this name.",
                    "Nothing was made.",
                    place=self.attribute,
                )
            out[position_of[name]] = number
        missing = [name for name, x in zip(position_of, out, strict=True) if x is None]
        if missing:
            raise error(
                "by-value-incomplete",
                f"The {what} by {self.attribute!r} has no number for {', '.join(missing[:3])}.",
                "Every value needs a number.",
                "Name these values, or give a default.",
                "Nothing was made.",
                place=self.attribute,
            )
        return tuple(x for x in out if x is not None)

    @property
    def document(self) -> dict[str, Any]:
        """The keys of the rule in a specification."""
        values = (
            {str(v[0]): float(v[1]) for v in self.values if isinstance(v, tuple)}
            if self.is_by_name
            else [float(v) for v in self.values if not isinstance(v, tuple)]
        )
        default = {} if self.default is None else {"default": float(self.default)}
        return {"by": self.attribute, "values": values, **default}


def _number(path: Path, whose: str, text: str, classes: Mapping[str, float] | None) -> float:
    """Return the number that a file of targets has for a value.

    Args:
        path: The file, for the error.
        whose: The value, as a noun phrase, for the error.
        text: The entry for the value: the name of a class if `classes` are given, or else a number.
        classes: The number for each class; None if the entries are numbers.

    Raises:
        WorkloadError: The entry is no number, or no class with a number.
    """
    if classes is not None:
        if text not in classes:
            raise WorkloadError(
                "target-class-missing",
                f"The file of targets {path.name!r} has {whose} in the class {text!r}, which has no number.",
                f"The classes with a number are {sorted(classes)}.",
                "Add the class to the key values, or correct the file.",
                "Nothing was planned.",
                place="values",
            )
        return classes[text]
    result = number(text)
    if result is None:
        raise WorkloadError(
            "target-not-a-number",
            f"The file of targets {path.name!r} has {text!r} for {whose}, which is not a number.",
            "",
            "Give numbers in the file, or a number for each class in values.",
            "Nothing was planned.",
        )
    return result


@final
@dataclass(frozen=True)
class ByTableSize:
    """A target that depends on the size of its table: coefficient · k^power for a table of k numbers, within limits.

    Args:
        coefficient: A positive number.
        power: The exponent of k; negative for smaller errors in larger tables.
        least, most: The limits of the result; None sets no limit.

    Raises:
        WorkloadError: A number is not finite, the coefficient or a limit is not positive, or `least` is above `most`.

    Example:
        With a public total of N records, a table of k numbers has N/k in each on average. Margins of 5 % of this are
        `margin=ByTableSize(0.05 * N, power=-1, least=2)`.
    """

    coefficient: float
    power: float
    least: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        for name in ("coefficient", "least", "most"):
            x = getattr(self, name)
            if x is not None and not (is_real(x) and 0 < x < math.inf):
                raise WorkloadError(
                    "size-target-not-positive",
                    f"The {name} of a target by size is {x!r}.",
                    "It must be a positive finite number.",
                    "Give a number above 0.",
                    "Nothing was planned.",
                    place=name,
                )
        if not (is_real(self.power) and math.isfinite(self.power)):
            raise WorkloadError(
                "size-power-not-finite",
                f"The power of a target by size is {self.power!r}.",
                "It must be a finite number.",
                "Give such a number, such as -1.",
                "Nothing was planned.",
                place="power",
            )
        if self.least is not None and self.most is not None and self.least > self.most:
            raise WorkloadError(
                "size-limits-reversed",
                f"The least target by size, {self.least!r}, is above the most, {self.most!r}.",
                "",
                "Give a least target that is not above the most.",
                "Nothing was planned.",
                place="least",
            )

    def evaluate(self, cells: NDArray[Any] | int) -> NDArray[np.float64]:
        """Return the target for tables of this many numbers, elementwise.

        Args:
            cells: The number of numbers of each table.
        """
        with np.errstate(over="ignore", under="ignore"):
            # A result of 0 or infinity is refused by the workload, unless a limit replaces it.
            free = self.coefficient * np.asarray(cells, dtype=np.float64) ** self.power
        # limits are positive, so only None is false
        return np.clip(free, self.least, self.most) if self.least or self.most else free

    @property
    def document(self) -> dict[str, Any]:
        """The keys of the rule in a specification."""
        # NumPy integers are neither valid in a specification nor written as TOML.
        return {f.name: None if (x := getattr(self, f.name)) is None else float(x) for f in fields(self)}


@final
@dataclass(frozen=True)
class PublicTotal:
    """A publicly known number of records: in a table of k numbers, each is total/k on average.

    Raises:
        WorkloadError: The total is not a positive finite number.
    """

    total: float

    def __post_init__(self) -> None:
        if not (is_real(self.total) and 0 < self.total < math.inf):
            raise WorkloadError(
                "public-total-not-positive",
                f"The public total is {self.total!r}.",
                "It must be a positive finite number.",
                "Give a number above 0.",
                "Nothing was planned.",
                place="reference",
            )

    @property
    def document(self) -> dict[str, Any]:
        """The key of the rule in a specification."""
        return {"total": float(self.total)}


def number_document(stated: object) -> Any:
    """Return a number as a float, or the keys of its rule.

    Args:
        stated: A target, a reference count, or an end of a range.

    Raises:
        SpecError: It is of another class, which would be read back as another number.
    """
    # Exact classes: a subclass may compute other numbers than its document states.
    if type(stated) in (ByAttribute, ByTableSize, PublicTotal):
        return stated.document  # type: ignore[attr-defined]  # each of these has one
    # `float` alone would also read a text.
    if not is_real(stated):
        raise SpecError(
            "target-class-unknown",
            f"A target or a reference count has the class {type(stated).__name__}, which no specification can declare.",
            "",
            "Give a number, ByAttribute, ByTableSize or PublicTotal.",
            "No data were read.",
        )
    return float(stated)


class BySpec(SpecSection):
    """A number for each value of an attribute: as a target, of an attribute of the table; as a range, of the domain."""

    by: str = Field(description="The attribute whose values have the numbers.")
    values: list[float] | dict[str, float] = Field(
        description="The number for each value: a list in the order of the values, or a table value = number."
    )
    default: float | None = Field(
        None, description="The number for values that are not named. If absent, every value needs a number."
    )

    def build(self, folder: Path | None) -> ByAttribute:
        """Return the rule."""
        del folder
        return ByAttribute(self.by, self.values, self.default)


class ByFileSpec(SpecSection):
    """A number for each value of an attribute, from a CSV file with a column named like the attribute."""

    by: str = Field(
        description="The attribute of the table whose values have the numbers; the file has a column of this name."
    )
    file: str = Field(description="The CSV file; its path is relative to the specification.")
    column: str = Field(description="The column of the file with the number for each value, or with its class.")
    values: dict[str, float] | None = Field(
        None, description="The number for each class. If absent, the column holds the numbers themselves."
    )
    default: float | None = Field(
        None, description="The number for values without one in the file. If absent, every value needs a number."
    )

    def build(self, folder: Path | None) -> ByAttribute:
        """Return the rule. Raise SpecError if the folder of its file is not known."""
        return ByAttribute.from_file(
            resolve_file(folder, "file", self.file), self.by, self.column, self.values, self.default
        )


class BySizeSpec(SpecSection):
    """A target that depends on the size of the table: coefficient · k^power for a table of k numbers, within limits."""

    coefficient: float = Field(description="The factor before k^power; a positive number.")
    power: float = Field(description="The exponent of k; a negative exponent gives larger tables smaller errors.")
    least: float | None = Field(None, description="The smallest target. If absent, there is no such limit.")
    most: float | None = Field(None, description="The largest target. If absent, there is no such limit.")

    def build(self, folder: Path | None) -> ByTableSize:
        """Return the rule."""
        del folder
        return ByTableSize(**dict(self))


class PublicTotalSpec(SpecSection):
    """A public number of records, spread over the table: each of its k numbers is total/k on average."""

    total: float = Field(description="The public number of records.")

    def build(self, folder: Path | None) -> PublicTotal:
        """Return the rule."""
        del folder
        return PublicTotal(self.total)


def _rule(rule: Any) -> str:
    """Return the tag of a rule, by its keys."""
    if isinstance(rule, SpecSection):
        return type(rule).__name__
    # One rule is chosen before its values are checked: errors then refer to this rule alone.
    if isinstance(rule, Mapping):
        if {"file", "column"} & set(rule):
            return "ByFileSpec"
        return "BySizeSpec" if "by" not in rule and set(rule) & set(BySizeSpec.model_fields) else "BySpec"
    return "BySpec"


TargetRuleSpec = Annotated[
    Annotated[BySpec, Tag("BySpec")]
    | Annotated[ByFileSpec, Tag("ByFileSpec")]
    | Annotated[BySizeSpec, Tag("BySizeSpec")],
    Discriminator(_rule),
]


_Stated = TypeVar("_Stated")


def stated_number(
    stated: _Stated | BySpec | ByFileSpec | BySizeSpec | PublicTotalSpec, folder: Path | None
) -> _Stated | ByAttribute | ByTableSize | PublicTotal:
    """Return a rule from its keys, and anything else as it is.

    Args:
        stated: The value of a key.
        folder: The folder of the specification, where the file of a rule lies; None if it is not known.

    Raises:
        SpecError: The rule names a file, and the folder is not known or the file has no usable name.
    """
    return stated.build(folder) if isinstance(stated, (BySpec, ByFileSpec, BySizeSpec, PublicTotalSpec)) else stated
