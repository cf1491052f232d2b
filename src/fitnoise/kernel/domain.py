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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, final

from fitnoise.errors import DomainError
from fitnoise.kernel.codings import EXACT, Code, Codes, Coding, Cuts, Range, encodable, plain, refuse_repeated

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


class Attribute(abc.ABC):
    """One named column of the data with its declared values.

    `coding` says into which cell a value of the data falls, `values` what a released table shows for each cell, and
    `ordered` whether "at most" has a meaning. Equal attributes have equal documents, and others have others.

    A new kind is a subclass with one of the three codings, a model of its document in `request.attributes`, and a line
    of the zoo: whatever counts, plans or releases asks no more.
    """

    kind: ClassVar[str]
    """What specifications call attributes of this kind."""

    ordered: ClassVar[bool]
    """Whether the order of the cells has a meaning."""

    column: str | None
    """The column of the data that is read; None when it has the attribute's own name."""

    coding: Coding
    """How the values of the data become cells."""

    @abc.abstractmethod
    def declared(self) -> dict[str, Any]:
        """All that is declared beside kind and column, as plain JSON values."""

    @property
    @abc.abstractmethod
    def values(self) -> tuple[str | int, ...]:
        """What a released table shows for each cell, in order."""

    @abc.abstractmethod
    def position(self, value: object) -> int:
        """The cell a declared value, as users say it, belongs to; DomainError when it is not declared."""

    @final
    def cell(self, value: object) -> int | None:
        """The cell that a value of the data falls into; None when it is outside the domain.

        Outside are values that are missing, not declared, or of another type than is read; see `codings`.

        **Guarantees**
            * it depends on nothing but the value and what is declared: not on other records, nor on where it is read;
            * it is None or from 0 to `size` − 1, and never an error, whatever the value;
            * every counter counts a record in exactly the cells of its values, or in none when one of them is outside.
        """
        return self.coding.cell(value)

    @final
    @property
    def size(self) -> int:
        """Number of cells."""
        return self.coding.size


def _check_column(column: str | None) -> None:
    if column is not None and (not isinstance(column, str) or not column):
        raise DomainError(f"a column is named by a non-empty text; got {column!r}.")


@final
@dataclass(frozen=True, init=False)
class Categorical(Attribute):
    """Unordered codes, with an optional label for each.

    Args:
        codes: the codes the data hold (all text, all whole numbers or all true/false), or a mapping code → label.
        column: the column of the data to read, when it is not named as the attribute.

    Raises:
        DomainError: no codes, codes of mixed kinds, or codes or labels that repeat.
    """

    kind: ClassVar[str] = "categorical"
    ordered: ClassVar[bool] = False

    codes: tuple[Code, ...]
    labels: tuple[str, ...] | None = None
    column: str | None = None
    coding: Codes = field(init=False, repr=False)
    _positions: dict[tuple[bool, object], int] = field(init=False, repr=False, compare=False)

    def __init__(self, codes: Iterable[Code] | Mapping[Code, str], *, column: str | None = None) -> None:
        labels = tuple(codes.values()) if isinstance(codes, Mapping) else None
        if isinstance(codes, (str, bytes)):
            raise DomainError(f"codes are a list of values; got the single text {codes!r}.")
        coding = Codes(tuple(plain(c) for c in codes))
        refuse_repeated("label", labels or ())
        if labels is not None and not all(isinstance(x, str) and x and encodable(x) for x in labels):
            raise DomainError("labels are non-empty texts that can be written as UTF-8.")
        _check_column(column)
        object.__setattr__(self, "codes", coding.codes)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "coding", coding)
        pairs = (*enumerate(labels or ()), *enumerate(coding.codes))  # true/false are no numbers
        object.__setattr__(self, "_positions", {(isinstance(name, bool), name): i for i, name in pairs})

    @classmethod
    def from_file(cls, path: str | Path, *, column: str | None = None) -> Categorical:
        """Read codes from a CSV file with a column `code` and, if wanted, a column `label`.

        Codes are text, unless every one of them is a plain whole number without leading zeros.

        Raises:
            DomainError: the file cannot be read or has no column `code`.
        """
        path = Path(path)
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file)
                header = list(reader.fieldnames or ())
                rows = list(reader)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or error
            raise DomainError(f"the file of codes {path.name!r} cannot be read: {reason}.") from error
        if "code" not in header:
            raise DomainError(
                f"the file of codes {path.name!r} needs a column named 'code' (and may have 'label'); it has {header}."
            )
        texts = [row["code"] for row in rows]
        whole = all(t is not None and re.fullmatch("0|-?[1-9][0-9]*", t) for t in texts)
        codes: list[Code] = [int(t) for t in texts] if whole else list(texts)
        if "label" not in header:
            return cls(codes, column=column)
        if len(set(codes)) != len(codes):
            raise DomainError(f"the file of codes {path.name!r} declares a code twice.")
        return cls({c: row["label"] for c, row in zip(codes, rows, strict=True)}, column=column)

    @property
    def values(self) -> tuple[str | int, ...]:
        """Labels where there are any, codes otherwise."""
        return self.labels if self.labels is not None else self.codes

    def position(self, value: object) -> int:
        """The cell of a code, or of a label."""
        with contextlib.suppress(KeyError, TypeError):  # what has no hash is neither
            return self._positions[isinstance(value, bool), value]
        raise DomainError(f"{value!r} is neither a code nor a label of this attribute.")

    def declared(self) -> dict[str, Any]:
        """Codes, and labels where there are any."""
        return {"codes": list(self.codes), "labels": None if self.labels is None else list(self.labels)}


@final
@dataclass(frozen=True)
class Ordered(Attribute):
    """Whole numbers from `low` to `high`, ends included.

    With `clip=True` smaller values count as `low` and larger ones as `high` ("85 and over"); this is a declared
    coding of the data, not a repair. Otherwise values outside are outside the domain.

    Raises:
        DomainError: bounds that are not whole numbers below 2^53 in size, `low > high`, or ten million cells and more.
    """

    kind: ClassVar[str] = "ordered"
    ordered: ClassVar[bool] = True

    low: int
    high: int
    clip: bool = False
    column: str | None = None
    coding: Range = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        coding = Range(self.low, self.high, self.clip)
        _check_column(self.column)
        object.__setattr__(self, "low", coding.low)
        object.__setattr__(self, "high", coding.high)
        object.__setattr__(self, "clip", coding.clip)
        object.__setattr__(self, "coding", coding)

    @property
    def values(self) -> tuple[str | int, ...]:
        """The whole numbers themselves."""
        return tuple(range(self.low, self.high + 1))

    def position(self, value: object) -> int:
        """The cell of a whole number in the range."""
        value = plain(value)
        if isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high:
            return value - self.low
        raise DomainError(f"{value!r} is not a whole number from {self.low} to {self.high}.")

    def declared(self) -> dict[str, Any]:
        """Both ends, and whether values beyond them count as the ends."""
        return {"low": self.low, "high": self.high, "clip": self.clip}


@final
@dataclass(frozen=True)
class Binned(Attribute):
    """A number cut at c₁ < c₂ < … < c_k into k + 1 bins: below c₁, [c₁, c₂), …, c_k or more.

    Raises:
        DomainError: no cuts, cuts that are not finite numbers, or not strictly increasing.
    """

    kind: ClassVar[str] = "binned"
    ordered: ClassVar[bool] = True

    cuts: tuple[float, ...]
    column: str | None = None
    coding: Cuts = field(init=False, repr=False, compare=False)
    _values: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __init__(self, cuts: Sequence[float], *, column: str | None = None) -> None:
        coding = Cuts(tuple(cuts))
        _check_column(column)
        object.__setattr__(self, "cuts", coding.cuts)
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "coding", coding)
        text = [_number(c) for c in coding.cuts]
        middle = [f"{a} to under {b}" for a, b in itertools.pairwise(text)]
        object.__setattr__(self, "_values", (f"under {text[0]}", *middle, f"{text[-1]} or more"))

    @property
    def values(self) -> tuple[str | int, ...]:
        """Texts such as "10000 to under 25000"."""
        return self._values

    def position(self, value: object) -> int:
        """The bin a number falls into, or the bin with this text."""
        if isinstance(value, str):
            if value in self._values:
                return self._values.index(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return sum(c <= value for c in self.cuts)
        raise DomainError(f"{value!r} is neither a finite number nor one of the bins {list(self._values)}.")

    def declared(self) -> dict[str, Any]:
        """The cuts."""
        return {"cuts": list(self.cuts)}


def _number(x: float) -> str:
    return str(int(x)) if x == int(x) and abs(x) < EXACT else repr(x)


@final
@dataclass(frozen=True, init=False)
class Domain(Mapping[str, Attribute]):
    """Named attributes, in order: `Domain(state=Categorical(codes), age=Ordered(0, 85))`.

    A mapping may be given instead, for names that are not Python identifiers.

    Raises:
        DomainError: no attributes, a name that is empty or reserved, or something that is not an attribute.
    """

    attributes: tuple[tuple[str, Attribute], ...]

    def __init__(self, attributes: Mapping[str, Attribute] | None = None, /, **named: Attribute) -> None:
        both = set(attributes or ()) & set(named)
        if both:
            raise DomainError(f"attributes declared twice: {sorted(both)}.")
        items = {**(attributes or {}), **named}
        if not items:
            raise DomainError("a domain needs at least one attribute; got none.")
        lowered: dict[str, str] = {}
        for name, attribute in items.items():
            if (
                not isinstance(name, str)
                or not name.strip()
                or not encodable(name)
                or any(c in name for c in '\n\r\t"\0')
            ):
                raise DomainError(f"an attribute is named by a plain, non-empty text; got {name!r}.")
            if name.lower() in RESERVED:
                raise DomainError(f"{name!r} is a column of every released table; rename the attribute.")
            if name.lower() in lowered:
                raise DomainError(f"{name!r} and {lowered[name.lower()]!r} differ only by case; rename one.")
            lowered[name.lower()] = name
            if not isinstance(attribute, Attribute):
                raise DomainError(
                    f"{name!r} must be an attribute: Categorical, Ordered or Binned; got {type(attribute).__name__}."
                )
        object.__setattr__(self, "attributes", tuple(items.items()))

    def __getitem__(self, name: str) -> Attribute:
        for key, attribute in self.attributes:
            if key == name:
                return attribute
        raise DomainError(f"no attribute {name!r} in the domain; it has {list(self)}.")

    def __contains__(self, name: object) -> bool:
        return any(key == name for key, _ in self.attributes)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def column(self, name: str) -> str:
        """The column of the data that holds this attribute."""
        return self[name].column or name

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells per attribute."""
        return tuple(a.size for _, a in self.attributes)

    @property
    def size(self) -> int:
        """Number of cells of the whole domain, Π sizes."""
        return math.prod(self.shape)


def attribute_document(a: Attribute) -> dict[str, Any]:
    """All that is declared of an attribute, as plain JSON values: equal for equal attributes, and only for them."""
    return {"type": a.kind, **a.declared(), "column": a.column}
