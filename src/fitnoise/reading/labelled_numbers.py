"""Numbers that are broken down by names: the labels of their rows, and what all classes of such numbers share."""

from __future__ import annotations

import abc
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, final

import numpy as np
import numpy.typing as npt
import pandas as pd

from fitnoise.display import HtmlDisplay
from fitnoise.errors import ReleaseError
from fitnoise.kernel.arrays import Indices
from fitnoise.kernel.checks import describe_value, is_integer, is_real
from fitnoise.messages import Message, Value, ValueKind, english, translator
from fitnoise.reading.bands import Bands
from fitnoise.reading.refusals import UNCOMPUTED
from fitnoise.reading.release_files import stub_frame
from fitnoise.reporting import ReportColumn, ReportTable, aligned
from fitnoise.request.attributes import NAME

ROWS_PRINTED = 20
"""The largest number of rows that a console shows; of more rows, it shows the first."""

MAX_PRINTED = 5_000
"""The largest number of intervals that are computed for a console; for more numbers, it shows none."""

MAX_NUMBERS = 1_000_000
"""The largest number of estimates that one combination of two breakdowns makes, and of terms of all running sums."""

OF_VALUES_AS_READ = "for the exact number of the records as they were read, without what a range cuts off"
"""The quantity that intervals are for."""

_HEADINGS = {
    "value": Message("report.heading.value"),
    "noise_std_error": Message("report.heading.noise_std_error"),
    "sampling_std_error": Message("report.heading.sampling_std_error"),
    "std_error": Message("report.heading.std_error"),
    "moe": Message("report.heading.moe"),
    "low": Message("report.heading.low"),
    "high": Message("report.heading.high"),
    "cv": Message("report.heading.cv"),
    "reliability": Message("report.heading.reliability"),
}
"""The headings of the columns of numbers."""


def _heading(name: str, labels: Collection[str]) -> Message:
    """Return the heading of a column of numbers, different from the names of all attributes in the table."""
    heading = _HEADINGS[name]
    while english(heading) in labels:
        heading = Message("report.heading.distinct", (Value("heading", heading, ValueKind.MESSAGE),))
    return heading


def _open(x: object) -> bool:
    return isinstance(x, float) and not math.isfinite(x)


def is_number(x: object) -> bool:
    """Return True if estimates can be multiplied by it."""
    return is_integer(x) or is_real(x)


def number(x: Any) -> float:
    """Return a number as a float, or raise ReleaseError unless it is a finite number."""
    if not is_real(x) or not math.isfinite(x):
        raise ReleaseError(
            "factor-not-finite",
            f"An estimate is to be computed with {describe_value(x) if is_integer(x) else x}.",
            "Estimates are computed with finite numbers.",
            "Use a finite number.",
            UNCOMPUTED,
        )
    return float(x)


def divisor(x: Any) -> float:
    """Return a number as a float, or raise ReleaseError unless it is a finite number other than 0."""
    if x == 0:
        raise ReleaseError(
            "division-by-zero",
            "An estimate is to be divided by 0.",
            "",
            "Divide by another number.",
            UNCOMPUTED,
        )
    return number(x)


@final
@dataclass(frozen=True, eq=False)
class RowLabels:
    """The names that break numbers down, with their labels, and the attribute or hierarchy of each name.

    labels: The labels of each name, in order.
    homes: The attribute or hierarchy of each name.
    missing: The names of the missing-value categories of each name; none for a name without an entry.
    stubs: For a name of more than one column, such as texts and codes, the value of each label in each column. The name
    of the first column is the name itself.
    """

    labels: Mapping[str, tuple[Any, ...]]
    homes: Mapping[str, str]
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stubs: Mapping[str, Mapping[str, Mapping[Any, Any]]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of labels of each name."""
        return tuple(map(len, self.labels.values()))

    def frame(self, columns: Mapping[str, npt.NDArray[Any]]) -> pd.DataFrame:
        """Return the labels with further columns, one row for each number; codes and ends of bins follow their texts.

        No attribute has the name of a further column.
        """
        frame = stub_frame([*self._stubs])
        for name, x in columns.items():
            frame[name] = x.ravel()
        return frame

    @property
    def _stubs(self) -> Iterator[dict[str, Sequence[Any]]]:
        for name, labels in self.labels.items():
            stub = self.stubs.get(name)
            yield {name: labels} if stub is None else {k: [values[x] for x in labels] for k, values in stub.items()}

    @property
    def columns(self) -> list[str]:
        """The names of the columns of labels, codes and ends of bins."""
        return [column for name in self.labels for column in self.stubs.get(name, (name,))]

    @property
    def visible_columns(self) -> set[str]:
        """The columns that people see: the labels, names of places, and codes where two values have one label."""
        repeated = {name for name, stub in self.stubs.items() if len({*stub[name].values()}) < len(stub[name])}
        places = (f"{name}_{NAME}" for name in self.labels)
        return {*self.labels, *places, *(column for name in repeated for column in self.stubs[name])}

    def chosen(self, key: Any) -> tuple[RowLabels, Indices, list[tuple[str, list[int], bool]]]:
        """Return some rows: the remaining labels, the indices of the rows, and the choice for each name.

        The choice has the name, the indices of its chosen labels, and True if these were given as a list. A name whose
        label was given alone does not remain.

        Args:
            key: A label or a list of labels; for several names a tuple with one of these for each name.

        Raises:
            ReleaseError: There is not one key for each name, or a label is unknown.
        """
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) != len(self.labels):
            raise ReleaseError(
                "wrong-count-of-labels",
                f"The labels are {key!r}.",
                f"The numbers are broken down by {list(self.labels)}.",
                "Give a label, or a list of labels, for each of these.",
                "No number was chosen.",
            )
        picked = []
        for (name, labels), choice in zip(self.labels.items(), keys, strict=True):
            several = isinstance(choice, list)
            picked.append((name, [_label_index(name, labels, x) for x in (choice if several else [choice])], several))
        where = np.arange(math.prod(self.shape)).reshape(self.shape)[np.ix_(*(rows for _, rows, _ in picked))].ravel()
        remaining = {name: tuple(self.labels[name][i] for i in rows) for name, rows, several in picked if several}
        homes = {name: self.homes[name] for name in remaining}
        return RowLabels(remaining, homes, self.missing, self.stubs), where, picked

    def align(self, other: RowLabels) -> tuple[RowLabels, Indices, Indices]:
        """Return the rows broken down by the names of both, and for each of them the row of this and of the other.

        Raises:
            ReleaseError: The labels of one name differ, two levels of one hierarchy occur, or there are too many rows.
        """
        labels, homes = {**other.labels, **self.labels}, {**other.homes, **self.homes}
        labels = {name: labels[name] for name in dict.fromkeys([*self.labels, *other.labels])}
        for name in self.labels.keys() & other.labels.keys():
            if self.labels[name] != other.labels[name]:
                raise ReleaseError(
                    "different-labels",
                    f"The numbers are broken down by different values of {name!r}.",
                    "Two results are compared label by label.",
                    "Choose the values that both have.",
                    UNCOMPUTED,
                    place=name,
                )
        # county 44001 and state 36 exclude each other, so most pairs of labels of two levels have no meaning
        if len({homes[name] for name in labels}) < len(labels):
            raise ReleaseError(
                "two-levels-compared",
                f"The numbers are broken down by {list(labels)}, of which two are levels of one hierarchy.",
                "Two results are compared label by label.",
                "Break both down by one level.",
                UNCOMPUTED,
            )
        both = RowLabels(labels, homes, {**other.missing, **self.missing}, {**other.stubs, **self.stubs})
        if math.prod(both.shape) > max(MAX_NUMBERS, math.prod(self.shape), math.prod(other.shape)):
            raise ReleaseError(
                "too-many-combinations",
                f"The numbers broken down by {list(labels)} are {math.prod(both.shape):,}.",
                f"At most {MAX_NUMBERS:,} numbers are made by one comparison.",
                "Choose fewer labels.",
                UNCOMPUTED,
            )
        return both, _expand_rows(self, both), _expand_rows(other, both)


def _label_index(name: str, labels: Sequence[Any], label: Any) -> int:
    """Return the index of a label; raise ReleaseError if there is no such label."""
    for i, x in enumerate(labels):
        # in Python 1 == True, but a code 1 and a truth value are different labels
        if x == label and isinstance(x, bool) == isinstance(label, (bool, np.bool_)):
            return i
    raise ReleaseError(
        "unknown-label-of-numbers",
        f"There is no number for {name} = {label!r}.",
        "",
        f"Choose from {list(labels)[:20]}{' and others' if len(labels) > 20 else ''}.",
        "No number was chosen.",
        place=name,
    )


def _expand_rows(rows: RowLabels, both: RowLabels) -> Indices:
    """Return for each row of `both` the index of the row of `rows` that has equal labels of the names of `rows`."""
    where = np.arange(math.prod(rows.shape)).reshape(rows.shape)
    names = [name for name in both.labels if name in rows.labels]
    ordered = where.transpose([list(rows.labels).index(name) for name in names])
    across = ordered.reshape([len(labels) if name in rows.labels else 1 for name, labels in both.labels.items()])
    return np.asarray(np.broadcast_to(across, both.shape).ravel())


class LabelledNumbers(HtmlDisplay, abc.ABC):
    """Numbers that are broken down by names."""

    __array_ufunc__ = None  # NumPy numbers leave their multiplication to these classes
    confidence: float
    _rows: RowLabels
    # the noun in the singular, and the words that follow the noun
    _noun: tuple[str, str] = ("number", "")
    _kind: ValueKind = ValueKind.NUMBER

    @abc.abstractmethod
    def frame(self, confidence: float | None = None, *, simultaneous: bool = False) -> pd.DataFrame:
        """Return one row for each number, with its value and its interval."""

    @property
    @abc.abstractmethod
    def universe(self) -> str:
        """The records of the numbers, and the cuts of their values, in words."""

    @property
    def assumptions(self) -> tuple[Message, ...]:
        """The statements on which intervals rest beyond the noise; none for intervals of the noise alone."""
        return ()

    def with_sampling_error(self, standard_errors: Any, bands: Bands | None = None) -> LabelledNumbers:
        """Refuse standard errors of sampling: counts, totals and differences take them.

        Args:
            standard_errors: The standard errors.
            bands: The rule for the reliability of numbers.

        Raises:
            ReleaseError: Always.
        """
        raise ReleaseError(
            "sampling-error-of-ratio",
            f"Standard errors of sampling are given for {self.summary}.",
            "fitnoise combines sampling error and noise for counts, totals and differences.",
            "Ask for the numerator and the denominator, each with its standard errors.",
            UNCOMPUTED,
            place="standard_errors",
        )

    def _framed(self, columns: Mapping[str, npt.NDArray[Any]], confidence: float | None) -> pd.DataFrame:
        """Return labels with further columns; `attrs` of the frame states the quantity that the intervals are for."""
        frame = self._rows.frame(columns)
        level = self.confidence if confidence is None else confidence
        frame.attrs = {"universe": self.universe, "confidence": level, "interval": OF_VALUES_AS_READ}
        return frame

    @property
    def labels(self) -> dict[str, tuple[Any, ...]]:
        """The names that break the numbers down, each with its labels."""
        return dict(self._rows.labels)

    def __len__(self) -> int:
        return math.prod(self._rows.shape)

    @property
    def summary(self) -> str:
        """The number of numbers, their kind, and the names that break them down: 3 estimates by area."""
        noun, suffix = self._noun  # the suffix of several quantiles states their labels
        names = ", ".join(name for name in self.labels if name != noun)
        return f"{len(self)} {noun}{'s' * (len(self) != 1)}{suffix}{f' by {names}' if names else ''}"

    def table(self, frame: pd.DataFrame) -> ReportTable:
        """Return the rows of a frame of these numbers as a table, with None for an infinite or undefined number."""
        errors = ("noise_std_error", "sampling_std_error", "std_error", "moe")
        kinds = {"value": self._kind, "cv": ValueKind.PROPORTION, **dict.fromkeys(errors, ValueKind.PEOPLE)}
        kinds |= dict.fromkeys(("low", "high"), ValueKind.NUMBER)
        labels = self._rows.columns
        visible = self._rows.visible_columns
        columns = [ReportColumn(name, name if name in visible else None) for name in labels]
        for name in frame.columns.drop(labels):
            heading = _heading(name, labels) if name in _HEADINGS else None
            columns.append(ReportColumn(name, heading, kinds.get(name, ValueKind.TEXT)))
        rows = ({k: None if _open(x) else x for k, x in row.items()} for row in frame.to_dict("records"))
        return ReportTable.from_rows("rows", columns, rows)

    def __repr__(self) -> str:
        """Return the numbers with their margins or intervals at the confidence of the release.

        Of more than ROWS_PRINTED numbers the text has the first, of more than MAX_PRINTED none.
        """
        if len(self) > MAX_PRINTED:
            return f"<{self.summary}: see frame()>"
        try:
            frame = self.frame()
        except ReleaseError as error:  # a combination with a release in it has no interval
            return f"<{self.summary}: {error}>"
        language = translator("en", typeset=False)
        level = language.kind(ValueKind.LEVEL, self.confidence)
        table = self.table(frame.head(ROWS_PRINTED))
        if not self._rows.labels:
            texts = {column.name: language.kind(column.kind, x) for column, x in table.cells[0]}
            interval = f"± {texts['moe']}" if "moe" in texts else f"from {texts['low']} to {texts['high']}"
            return f"<{self.summary}: {texts['value']} {interval} at {level}>"
        remaining = len(frame) - len(table.rows)
        ends = [f"… {remaining:,} more: see frame()"] if remaining else []
        return "\n".join([f"{self.summary}, each interval at {level}:", *aligned(table), *ends])

    def __pow__(self, power: object) -> NoReturn:
        raise ReleaseError(
            "power-of-estimates",
            "A power of noisy numbers is given.",
            "fitnoise computes no interval for powers.",
            "Compute the power of the value, and of both ends of its interval if these have one sign.",
            UNCOMPUTED,
        )
