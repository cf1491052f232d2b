"""Public totals: the numbers of records that readers know before a release, and the file that has them. No data."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from fitnoise.errors import DomainError, ReleaseError, SpecError
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.checks import describe_value
from fitnoise.kernel.codings import Code
from fitnoise.request.arguments import refuse_unless_fields_fit
from fitnoise.request.csv_rows import codes_from_texts
from fitnoise.request.domain import Domain
from fitnoise.request.joint_axes import cells_along

NUMBER = "number"
"""The column of a file of public totals that has the numbers of records."""

MAX_TOTAL = 2**53
"""The bound on all public totals together, up to which floating point holds each sum of them exactly."""

MAX_SOURCE_CHARACTERS = 500
"""The largest number of characters of the source of public totals."""

ORIGINS = ("elsewhere", "these data")
"""The origins of public totals."""

UNMEASURED = "Nothing was measured and nothing was charged."


@final
@dataclass(frozen=True)
class KnownTotals:
    """Public totals: the numbers of records by some attributes, which a release does not protect.

    A release does not measure them, and its tables agree with them. They come in by a file, when the plan is released.

    Args:
        attributes: The attributes; empty for the number of all records.
        source: The publication that has the totals, in one line, such as "Population register, 1 January 2026".
        origin: "elsewhere": the totals were not computed from the data of the release. "these data": they were counted
            from these data, which the privacy unit must allow: it has replace-one neighbours, and `within` has these
            attributes.

    Raises:
        SpecError: An attribute is named twice or is called "number", the source is no line of text, or the origin is
            another one.
    """

    attributes: tuple[str, ...]
    source: str
    origin: str = "elsewhere"

    def __post_init__(self) -> None:
        refuse_unless_fields_fit(self, SpecError, "No plan was made.")
        object.__setattr__(self, "attributes", tuple(self.attributes))
        if len(set(self.attributes)) < len(self.attributes) or NUMBER in self.attributes:
            raise SpecError(
                "public-attributes-unusable",
                f"The public totals are by {list(self.attributes)}.",
                f"Each attribute is named once, and none is called {NUMBER!r}, the column with the totals.",
                "Correct the names, or rename this attribute.",
                "No plan was made.",
                place="public.by",
            )
        if not self.source.isprintable() or not 0 < len(self.source.strip()) == len(self.source) <= (
            MAX_SOURCE_CHARACTERS
        ):
            raise SpecError(
                "public-source-unusable",
                f"The source of the public totals is {describe_value(self.source)}.",
                f"It must be one printable line of at most {MAX_SOURCE_CHARACTERS} characters, without spaces around "
                "it.",
                "Name the publication that has the totals.",
                "No plan was made.",
                place="public.source",
            )
        if self.origin not in ORIGINS:
            raise SpecError(
                "public-origin-unknown",
                f"The origin of the public totals is {self.origin!r}.",
                "It must be 'elsewhere' or 'these data'.",
                "State the origin of the totals.",
                "No plan was made.",
                place="public.origin",
            )

    @property
    def is_counted_here(self) -> bool:
        """True if the totals are counted from the data of the release."""
        return self.origin == "these data"


@final
@dataclass(frozen=True, eq=False)
class TotalsFile:
    """A file of public totals.

    name: The name of the file.
    text: Its content.
    numbers: The number of records by value of the attributes, one axis for each.
    """

    name: str
    text: str
    numbers: Floats

    @property
    def sha256(self) -> str:
        """SHA-256 of the file, in hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def confirmation(name: str, stated: KnownTotals, unit: str) -> str:
    """Return the sentences that a publisher types to confirm a file of public totals.

    Args:
        name: The name of the file.
        stated: The public totals of the plan.
        unit: The name of the protected unit, in the singular.
    """
    if stated.is_counted_here and not stated.attributes:
        one = f"{'an' if unit[0] in 'aeiou' else 'a'} {unit}"
        return (
            f"The number of all {unit}s is counted from these data and published without protection. Whoever knows "
            f"everyone else learns from it whether {one} is counted. What the records say besides is protected."
        )
    if stated.is_counted_here:
        names = " and ".join(stated.attributes)
        cell = (
            f"{'an' if names[0] in 'aeiou' else 'a'} {names}" if len(stated.attributes) == 1 else f"a cell of {names}"
        )
        return (
            f"The numbers of {unit}s by {names} are counted from these data and published without protection. Whoever "
            f"knows everyone else in {cell} learns from them whether {'an' if unit[0] in 'aeiou' else 'a'} {unit} is "
            "counted there. What the records say besides is protected."
        )
    return f"The numbers in {name} were public before and were not computed from these data."


def parse_totals(name: str, text: str, stated: KnownTotals, domain: Domain) -> TotalsFile:
    """Return the totals in the text of a file: CSV with a column for each attribute, and the column "number".

    Args:
        name: The name of the file.
        text: Its content.
        stated: The public totals of the plan.
        domain: The domain of the attributes.

    Raises:
        ReleaseError: The file has other columns, or a row of another length. Or a value is unknown, or is the code of
            one value and the label of another. Or a number is no whole number from 0. Or a combination of values has no
            row or several rows. Or the sum of all numbers is too large.
    """
    beginning = f"The file of public totals {name!r} has"
    try:
        # A byte-order mark, as spreadsheets write it, is not a part of the first name.
        header, *rows = [*csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)] or [[]]
    except csv.Error as error:
        raise ReleaseError(
            "public-file-no-csv",
            f"The file of public totals {name!r} is no CSV file: {error}.",
            "",
            "Correct the file.",
            UNMEASURED,
            place="public",
        ) from None
    if sorted(header) != sorted((*stated.attributes, NUMBER)):
        raise ReleaseError(
            "public-file-columns",
            f"{beginning} the columns {header}.",
            f"It needs the columns {[*stated.attributes, NUMBER]}, in any order, with commas between them.",
            "Correct the file.",
            UNMEASURED,
            place="public",
        )
    for i, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ReleaseError(
                "public-row-length",
                f"{beginning} {len(row)} fields in row {i}.",
                f"Every row needs {len(header)} fields. A number has no separators, and no row is blank.",
                "Correct the row.",
                UNMEASURED,
                place="public",
            )
    columns = {column: [row[i] for row in rows] for i, column in enumerate(header)}
    for x in columns[NUMBER]:
        if re.fullmatch("0|[1-9][0-9]{0,14}", x) is None:
            raise ReleaseError(
                "public-number-unusable",
                f"{beginning} the number {describe_value(x)}.",
                "Each number is a whole number from 0, of at most 15 digits.",
                "Correct the number.",
                UNMEASURED,
                place="public",
            )
    shape = tuple(domain[a].size for a in stated.attributes)
    positions = [_positions(domain, a, columns[a], beginning) for a in stated.attributes]
    cells = list(zip(*positions, strict=True)) if positions else [()] * len(rows)
    chosen = set(cells)
    if len(chosen) < len(cells):
        cell, _ = Counter(cells).most_common(1)[0]
        raise ReleaseError(
            "public-cell-twice",
            f"{beginning} several rows for {_cell_text(domain, stated, cell)}.",
            "It needs one row for each combination of values.",
            "Correct the file.",
            UNMEASURED,
            place="public",
        )
    if len(chosen) < math.prod(shape):
        missing = next(x for x in itertools.product(*map(range, shape)) if x not in chosen)
        raise ReleaseError(
            "public-cell-missing",
            f"{beginning} no row for {_cell_text(domain, stated, missing)}.",
            f"It needs one for each of {math.prod(shape):,} combinations of values; a number can be 0.",
            "Add the row.",
            UNMEASURED,
            place="public",
        )
    numbers = np.zeros(shape)
    for cell, x in zip(cells, columns[NUMBER], strict=True):
        numbers[cell] = int(x)
    if numbers.sum() > MAX_TOTAL:
        raise ReleaseError(
            "public-total-too-large",
            f"{beginning} numbers whose sum is above {MAX_TOTAL:,}.",
            "Sums up to this number are exact.",
            "Correct the numbers.",
            UNMEASURED,
            place="public",
        )
    _refuse_impossible(numbers, stated, domain, beginning)
    return TotalsFile(name, text, numbers)


def _refuse_impossible(numbers: Floats, stated: KnownTotals, domain: Domain, beginning: str) -> None:
    """Raise ReleaseError if a number above 0 is in a cell that no record can have."""
    for joint in domain.axes.joint.values():
        positions = [i for i, a in enumerate(stated.attributes) if a in domain.axes.attributes_of(joint.name)]
        columns = [cells_along(domain, joint, stated.attributes[i]) for i in positions]
        possible = np.zeros([numbers.shape[i] for i in positions], dtype=bool)
        possible[tuple(columns)] = True
        shape = [n if i in positions else 1 for i, n in enumerate(numbers.shape)]
        wrong = (numbers > 0) & ~possible.reshape(shape)
        if wrong.any():
            cell = np.argwhere(wrong)[0].tolist()
            raise ReleaseError(
                "public-cell-impossible",
                f"{beginning} the number {int(numbers[tuple(cell)])} for {_cell_text(domain, stated, cell)}.",
                "No record can have these values, by the rules about impossible cells or by what the attributes read.",
                "Write 0, or correct the rules and plan again.",
                UNMEASURED,
                place="public",
            )


def _cell_text(domain: Domain, stated: KnownTotals, cell: Sequence[int]) -> str:
    """Return a combination of values of the attributes of public totals in words."""
    values = zip(stated.attributes, cell, strict=True)
    return ", ".join(f"{a} = {domain[a].cell_names[i]!r}" for a, i in values) or "all records"


def _positions(domain: Domain, name: str, texts: Sequence[str], beginning: str) -> list[int]:
    """Return the cells of an attribute that a column of a file names, by code, label or missing-value category."""
    attribute, cells = domain[name], dict[str, int]()
    names = {str(x): i for i, x in enumerate(attribute.cell_names)}
    # A category for missing values is a text, even if all codes are digits.
    values = [text for text in dict.fromkeys(texts) if text not in attribute.missing_cells]
    codes: dict[str, Code] = {x: x for x in texts}
    codes.update(zip(values, codes_from_texts(values), strict=True))
    for text, code in codes.items():
        try:
            cells[text] = attribute.position(code)
        except DomainError as error:
            if text not in names:
                raise ReleaseError(
                    "public-value-unknown",
                    f"{beginning} the value {describe_value(text)} of {name!r}, which is not declared.",
                    error.needed,
                    "Write the values as the specification declares them.",
                    UNMEASURED,
                    place="public",
                ) from None
            cells[text] = names[text]
        if names.get(text, cells[text]) != cells[text]:
            raise ReleaseError(
                "public-value-ambiguous",
                f"{beginning} the value {describe_value(text)} of {name!r}.",
                "It is the code of one value, and the label of another.",
                "Change the label in the specification, plan again, and write the labels in the file.",
                UNMEASURED,
                place="public",
            )
    return [cells[text] for text in texts]
