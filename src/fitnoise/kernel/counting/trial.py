"""The trial of an engine: known records, counted by the engine and compared. Part of the trust kernel.

**Purpose.** The trial admits an engine, since most engines can only run at their users' sites. The engine counts known
records as it counts all others, and in the same session. Each record has one value of interest and, for all other
attributes, plain ones that are inside. So each treatment of that value shows, and nothing else hides it. Where the
domain has rules about impossible cells, the engine also counts known records that rules exclude.

**Trust.** An engine that passes keeps R1 to R3 (:mod:`fitnoise.kernel.counting`) for the known values. The module knows
no engine: a function of the engine counts the records, or returns the cells of values.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import compress, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol, cast, final

import numpy as np
from numpy.typing import NDArray

from fitnoise.errors import DataError
from fitnoise.kernel import codings
from fitnoise.kernel.codings import (
    DROPPED,
    OUTSIDE,
    REFUSED,
    Code,
    Codes,
    Coding,
    CodingWithMissing,
    Interval,
    Range,
    Steps,
)
from fitnoise.kernel.counting._base import Dropped, Lost, Margin, Margins
from fitnoise.kernel.counting.joint_counts import sum_up
from fitnoise.kernel.counting.persons import ID_KEY, PersonSelector, person_id
from fitnoise.kernel.dates import DateField, DatePart
from fitnoise.kernel.domain import Axis, Domain, JointAxis
from fitnoise.kernel.units import NO_PATTERN, Pattern


class ColumnKind(StrEnum):
    """The kind of values in a column, by the schema."""

    INTEGER = "whole"
    DOUBLE = "double"
    DECIMAL = "decimal"
    TEXT = "text"
    NUMERAL = "number in text"
    FIXED = "fixed"
    TRUTH = "truth"
    ANY = "any"
    DATE = "date"
    STAMP = "date and time"
    DERIVED = "read off a date"


_NUMBERS = frozenset({ColumnKind.INTEGER, ColumnKind.DOUBLE, ColumnKind.DECIMAL, ColumnKind.NUMERAL, ColumnKind.ANY})

READABLE_COLUMN_KINDS: Final[Mapping[type[Code], tuple[frozenset[ColumnKind], str]]] = MappingProxyType(
    {
        str: (frozenset({ColumnKind.TEXT, ColumnKind.FIXED, ColumnKind.INTEGER, ColumnKind.ANY}), "texts"),
        int: (_NUMBERS, "numbers"),
        bool: (frozenset({ColumnKind.TRUTH, ColumnKind.ANY}), "true/false"),
    }
)
"""For each type of codes, the kinds of columns from which they are read without guessing, and a word for the values."""


def _read(x: Any) -> Any:
    """Return a value of the file of known values: lists as tuples, and a mapping as the coding that it describes."""
    if isinstance(x, list):
        return tuple(map(_read, x))
    if not isinstance(x, dict):
        return x
    form = x["form"]
    stated: dict[str, Any] = {
        k: Fraction(v) if form == "Steps" and isinstance(v, str) and k != "attribute" else _read(v)
        for k, v in x.items()
        if k != "form"
    }
    missing = {k: stated.pop(k) for k in ("missing", "absent", "outside") if k in stated}
    coding: Coding = getattr(codings, form)(**stated)
    return CodingWithMissing(coding, missing.pop("missing"), **missing) if missing else coding


_DATA: Final = tomllib.loads(Path(__file__).with_name("known_values.toml").read_text("utf-8"))
"""The known values: days, ids, values of columns, and the codings by which they are read."""

CODINGS, MISSING_CODINGS, AMOUNTS = (
    {name: cast("Coding", _read(x)) for name, x in _DATA[part].items()}
    for part in ("codings", "missing_codings", "amounts")
)
"""The codings that are tried in every session, where the domain has missing-value categories, and where it has amounts.
"""

RULED: Final = tuple(_DATA["ruled"])
"""The names of the codings of columns on which rules about impossible cells are tried, where the domain has rules."""

HELD: Final[dict[ColumnKind, tuple[Any, ...]]] = {
    ColumnKind[kind]: tuple(values) for kind, values in _DATA["values"].items()
}
"""Values of every kind of column, the first of which is plain: it is inside wherever that is possible."""

HELD[ColumnKind.DECIMAL] = tuple(Decimal(n).scaleb(-7) for n in HELD[ColumnKind.DECIMAL])
HELD[ColumnKind.FIXED] = tuple(x for x in HELD[ColumnKind.TEXT] if not x.endswith(" "))

LAST_NUMBER: Final = 9999
"""The largest number that is read off a date, except for the day itself."""

FIRST_DAY: Final = 20231230
"""The least number of the tried range where the day itself is read, 2023-12-30."""

_PERSON_TEXTS: Final = ("a", "A", "á", "ss")
"""Texts, two of which are those of persons of the trial."""

_COUNTED: Final = 3
"""The largest number of counted records of each person of the trial, who has two for each of `_PAIRS`."""

_RULE: Final = "excluded"
"""The name of the rule of the trial of persons."""

_ADDED: Final = CodingWithMissing(Steps(Fraction(-2), Fraction(30), Fraction(1, 2)), ((-3,),))
"""The coding of the amounts that are added up."""

_PAIRS: Final = (
    (0.25, 0.25),
    (-3.0, -3.0),
    (1e300, -1e300),
    (20.0, 25.5),
    (-7.5, 4.0),
    (5.0, -3.0),
    (2.0, 2.0),
    (2.0, 2.0),
)
"""Pairs of amounts of records that agree in everything else.

In this order: two rounded one by one, two missing-value codes, two far outside the range, sums above and below the
range. In the next, one value is a missing-value code. A rule excludes the next, and the last have no text.
"""

_IDS: Final = {ColumnKind[kind]: (*ids, *HELD[ColumnKind[kind]]) for kind, ids in _DATA["ids"].items()}
"""The ids, by the kind of the column that holds them."""

_IDS[ColumnKind.TEXT] += tuple("long " * 204 + x for x in ("", "x", "X", "x ", "long "))


def known_values(kind: ColumnKind) -> tuple[Any, ...]:
    """Return values of a kind of column, the first of which is plain."""
    return HELD[kind]


def known_days(read: DateField, first_day: str = "0001-01-01", last_day: str = "9999-12-31") -> list[str]:
    """Return days of every month and of the week, at the ends of years and of Februaries, as texts such as 2024-02-29.

    All are from `first_day` to `last_day`, both included. The day at which `read` states an age is among them.
    """
    birthdays = () if read.on is None else (read.on.isoformat(),)
    return [day for day in dict.fromkeys((*_DATA["days"], *birthdays)) if first_day <= day <= last_day]


def refuse_unless_coded(
    cells: Callable[[Coding], Sequence[int]], what: str, kind: type[Code], values: Sequence[Any], read: DateField | None
) -> None:
    """Raise DataError if an engine codes known values of a column otherwise than is declared (`codings`).

    Args:
        cells: The function that returns the engine's cells of these values, by a coding.
        what: The description of the engine, for the message.
        kind: The type of the codes as which the column is read: str, int (any numbers) or bool.
        values: The content of the column, or the parts read off its dates.
        read: The part read off dates; `None` for values.
    """
    # A day itself is a number such as 20231231, far outside the range of all other parts.
    low = FIRST_DAY if read is not None and read.part is DatePart.DAY else 0
    all_codings = (*CODINGS.values(), *MISSING_CODINGS.values(), *AMOUNTS.values())
    tried = all_codings if read is None else (Range(low, low + LAST_NUMBER), Interval(low + 1.0, low + 2024.0))
    for coding in tried:
        # One column is tried alone, so the class of an amount is not at hand.
        is_tried = coding.kind is kind and coding.attribute is None
        if is_tried and list(cells(coding)) != [coding.cell_of(x) for x in values]:
            raise codes_differently(what)


def codes_differently(what: str) -> DataError:
    """Return the error for an engine that reads known values otherwise than is declared.

    Args:
        what: The description of the engine.
    """
    return DataError(
        "engine-codes-differently",
        f"A trial shows that {what} does not read known values as declared, such as the last nanosecond of a day.",
        "Your values may be read wrongly, too.",
        "Install the version that fitnoise requires.",
        "Nothing was counted and nothing was charged.",
    )


@final
@dataclass(frozen=True)
class TrialColumn:
    """A column of the trial: the coding by which it is read, and the kind of its values."""

    coding: Coding
    kind: ColumnKind


class CountKnown(Protocol):
    """A function of an engine that counts the known records of a trial."""

    def __call__(
        self, columns: Collection[str], margins: Sequence[Margin], *, drop: bool, lost: Lost | None = None
    ) -> tuple[Margins, Any]:
        """Return the counts over margins of some columns and rules, and for each the number of records outside.

        drop: True to leave records out that are outside in one of the columns.
        lost: The counter of these records.
        """


def trial_columns(kinds: Collection[ColumnKind], codings: Mapping[str, Coding]) -> dict[str, TrialColumn]:
    """Return a column, by a name of its own, for each kind of column and each coding that can be read from it.

    Codings for which the plain value of the kind is outside are left out.
    """
    return {
        f"{name} of {kind}": TrialColumn(_of_kind(coding, kind), kind)
        for kind in kinds
        for name, coding in codings.items()
        if kind in READABLE_COLUMN_KINDS[coding.kind][0] and coding.for_class(0).cell(HELD[kind][0]) is not None
    }


def _of_kind(coding: Coding, kind: ColumnKind) -> Coding:
    """Return the coding; an amount with a range by another field gets that field in the same kind of column."""
    if coding.attribute is None:
        return coding
    # Only the steps of an amount have an attribute, and those of the trial have no missing-value categories.
    return replace(cast("Steps", coding), attribute=f"{coding.attribute} of {kind}")


def ruled_domain(columns: Mapping[str, TrialColumn]) -> Domain:
    """Return the axes of the columns, with a rule for each two neighbours that excludes a third of their combinations.

    Both rules of a column exclude some of its values if the other column has its plain value, but different ones.
    """
    rules = {}
    for a, b in pairwise(columns):
        sizes = columns[a].coding.size, columns[b].coding.size
        plain_cells = [columns[x].coding.cell(HELD[columns[x].kind][0]) for x in (a, b)]
        cells = (x for x in np.ndindex(sizes) if (x[0] - plain_cells[0] + 2 * (x[1] - plain_cells[1])) % 3 == 1)
        rules[f"{a}, {b}"] = JointAxis((a, b), tuple(cells))
    return Domain({a: Axis(c.coding) for a, c in columns.items()}, rules=rules)


def counts_known_records(
    count: CountKnown,
    columns: Mapping[str, TrialColumn],
    values: Sequence[Mapping[ColumnKind, Any]],
    *,
    drop: bool,
    ruled: Domain | None = None,
    by_rule: int = DROPPED,
) -> bool:
    """Return True if an engine counts known records in their declared cells.

    Args:
        count: The function that counts them. There is a record for each column and each of the `values`: in the
            column it has this value, and plain values in all others.
        columns: The columns of the records.
        values: The values, one for each kind of column.
        drop: True if records outside the domain will be dropped, and not reported.
        ruled: The axes of the columns, with rules about impossible cells; default no rules are tried.
        by_rule: DROPPED or REFUSED, for records that a rule excludes.
    """
    cells = _cells(columns, values)
    for name, rule in ({} if ruled is None else ruled.rules).items():
        pairs = zip(*(cells[a].tolist() for a in rule.names), strict=True)
        cells[name] = np.array([by_rule if x in rule.cells else 0 for x in pairs])
        columns = {**columns, name: TrialColumn(CodingWithMissing(Codes((0,)), (), by_rule, by_rule), ColumnKind.ANY)}
    # Records that a column refuses are left out of its tables alone, and reported: the second count below tries this.
    counted = {a: c for a, c in columns.items() if REFUSED not in c.coding.without_cell}
    # Single columns show their codings, pairs show that cells of one record stay together, and the empty margin counts
    # all.
    margins: list[Margin] = [*((a,) for a in counted), *pairwise(counted), ()]
    lost = None if ruled is None else Lost()
    counts, _ = count(counted, margins, drop=True, lost=lost)
    # With `drop`, all margins are of the records that are inside in all of these columns.
    inside = np.all([cells[a] >= 0 for a in counted], axis=0)
    right = True
    if ruled is not None and lost is not None:
        numbers = {a: int(n) for a in counted if (n := (cells[a] < 0).sum())}
        right = lost.report(ruled) == Dropped(len(inside), int((~inside).sum()), numbers)
    for m in margins:
        expected = np.zeros([columns[a].coding.counted_size for a in m], dtype=np.int64)
        codes, steps = [cells[a][inside] for a in m], [columns[a].coding.pieces for a in m]
        if any(steps):
            sum_up(expected, codes, steps, np.ones(inside.sum(), dtype=np.int64))
        else:
            np.add.at(expected, tuple(codes), 1 if m else inside.sum())
        right &= np.array_equal(counts[m], expected)
    reports = any(c.coding.without_cell - c.coding.dropped(drop=drop) for c in columns.values())
    if right and reports:
        _, outside = count(columns, [(a,) for a in columns], drop=drop)
        is_kept = ~np.any([np.isin(c, [DROPPED, *([OUTSIDE] if drop else [])]) for c in cells.values()], axis=0)
        right = outside == {a: int((c[is_kept] < 0).sum()) for a, c in cells.items()}
    return bool(right)


def _cells(
    columns: Mapping[str, TrialColumn], values: Sequence[Mapping[ColumnKind, Any]]
) -> dict[str, NDArray[np.int64]]:
    """Return the cells of the known records, by column: OUTSIDE, DROPPED or REFUSED for a value without a cell.

    Each array has the shape (columns · values,), the records of the first column first.
    """
    cells: dict[str, NDArray[np.int64]] = {}
    for i, (a, c) in enumerate(columns.items()):
        classifier = c.coding.attribute
        held = [HELD[c.kind][0]]
        if classifier is None:
            out = np.full((len(columns), len(values)), c.coding.cell(*held))
            out[i] = [c.coding.cell_of(v[c.kind]) for v in values]
        else:  # the plain value in every class, and all values in the plain one
            kinds = cells[classifier].reshape(len(columns), len(values))
            out = np.array([[c.coding.for_class(int(x)).cell_of(*held) for x in row] for row in kinds])
            out[i] = [c.coding.for_class(int(x)).cell_of(v[c.kind]) for x, v in zip(kinds[i], values, strict=True)]
        cells[a] = out.ravel()
    return cells


@final
@dataclass(frozen=True)
class PersonTrial:
    """Known records of made-up persons, and the comparison of their counts with the declared ones (see `persons`).

    kind: The kind of the column of ids.
    pattern: The pattern to which the counted records of one person keep; the trial uses sample rules of the same kinds.
    shares: True if all records are counted in shares; persons of the trial have different numbers of records then.
    merge: True if amounts of records that agree in everything else are added up.
    """

    kind: ColumnKind
    pattern: Pattern = NO_PATTERN
    shares: bool = False
    merge: bool = False

    @cached_property
    def columns(self) -> dict[str, TrialColumn]:
        """The columns of the records, without the id."""
        columns = {
            "x": TrialColumn(Range(0, len(_PAIRS) - 1), ColumnKind.INTEGER),
            "y": TrialColumn(Codes(_PERSON_TEXTS), ColumnKind.TEXT),
        }
        return columns | ({"z": TrialColumn(_ADDED, ColumnKind.DOUBLE)} if self.merge else {})

    @cached_property
    def domain(self) -> Domain:
        """The axes with the codings of the columns, and a rule that excludes one kind of records."""
        # No record has another excluded combination. An engine that mistakes a text or no text for one excludes more.
        rule = JointAxis(("x", "y"), (*((x, 1 - x % 2) for x in range(len(_PAIRS) - 2)), (6, 0), (7, 0)))
        return Domain({name: Axis(column.coding) for name, column in self.columns.items()}, rules={_RULE: rule})

    @property
    def limit(self) -> int | None:
        """The largest number of counted records of a person; `None` for shares of all."""
        return None if self.shares else _COUNTED

    @cached_property
    def tried(self) -> Pattern:
        """Sample rules of the kinds that the real pattern has: its attributes do not exist in the trial."""
        return Pattern(
            ("x",) if self.pattern.once_per else (),
            (("y", 2),) if self.pattern.per_value else (),
            (("x", 2),) if self.pattern.separation else (),
            ("y",) if self.pattern.fixed else (),
        )

    @cached_property
    def records(self) -> list[tuple[int, str | None, float]]:
        """The records of a person with all of them: values of x, y and z."""
        texts = (*("a", "A") * 3, "a", None)
        return [(x, texts[x], pair[i]) for i in range(2) for x, pair in enumerate(_PAIRS)]

    @cached_property
    def persons(self) -> list[tuple[Any, int]]:
        """The ids, the last of which is missing (`None`), each with the number of its records, the first ones."""
        ids = dict.fromkeys((*_IDS[self.kind], None))
        # A share depends on the number of records of a person, so persons have different numbers of records.
        many = len(self.records)
        return [(x, 1 + i % many if self.shares else many) for i, x in enumerate(ids)]

    def margins(self, *, drop: bool) -> list[Margin]:
        """Return the margins to count. If records outside are not dropped, each margin reports all of them."""
        margins: list[Margin] = [("x", "y"), ("y",), *([("x", "y", "z")] if self.merge else [])]
        return [(*m, *(() if drop else (_RULE, ID_KEY))) for m in margins]

    def refuse_unless_right(
        self,
        counts: Margins,
        outside: Mapping[str, int] | Dropped,
        left_out: int | None,
        *,
        what: str,
        action: str = "Copy the table into a Parquet file, and count that file.",
    ) -> None:
        """Raise DataError if an engine counts other records of known persons than is declared.

        Args:
            counts: The counts of the engine, over the margins.
            outside: For each column, the id and the rule, the number of records outside; or the numbers of dropped
                records.
            left_out: The number of persons with records left out; `None` if not requested.
            what: The engine in words, for the message.
            action: The sentence of the message that says what to do.
        """
        if not self._is_right(counts, outside, left_out):
            raise DataError(
                "engine-bounds-differently",
                f"A trial shows that {what} does not count the declared records of known units.",
                "Your records may be counted wrongly, too, such as ids that differ in case.",
                action,
                "Nothing was read and nothing was charged.",
            )

    def _is_right(self, counts: Margins, outside: Mapping[str, int] | Dropped, left_out: int | None) -> bool:
        names, y, excluded = list(self.columns), self.columns["y"].coding, self.domain.rules[_RULE].cells
        persons = PersonSelector(self.limit, names, self.tried, {"z": _ADDED} if self.merge else {})
        added = [(_ADDED.uncut().cell_of(z),) if self.merge else () for _, _, z in self.records]
        cells = [(x, y.cell_of(text), *a) for (x, text, _), a in zip(self.records, added, strict=True)]
        inside = [c[1] >= 0 and c[:2] not in excluded for c in cells]
        held = [(person_id(x), n) for x, n in self.persons]
        for name, n in held:
            if name is not None:
                inner = [*compress(cells[:n], inside)]
                persons.add([name.encode()] * len(inner), inner)
        taken = [x for batch in persons.iter_counted() for x in batch]
        right = left_out is None or left_out == persons.left_out()
        for m in self.margins(drop=isinstance(outside, Dropped)):
            used = [a for a in m if a in names]  # of ids and the rule there is one cell
            axes, steps = [names.index(a) for a in used], [self.columns[a].coding.pieces for a in used]
            expected, codes = np.zeros_like(counts[m]), np.array([c for c, _ in taken])
            table = expected.reshape(expected.shape[: len(axes)])
            sum_up(table, [codes[:, i] for i in axes], steps, np.array([n for _, n in taken]))
            right = right and np.array_equal(counts[m], expected)
        missing = sum(n for name, n in held if name is None)
        out = {a: [c[1] < 0 if a == "y" else c[:2] in excluded for c in cells] for a in ("y", _RULE)}
        numbers = {a: sum(sum(x[:n]) for _, n in held) for a, x in out.items()}
        dropped = missing + sum(n - sum(inside[:n]) for name, n in held if name is not None)
        lost = Dropped(sum(n for _, n in held), dropped, numbers, missing)
        return right and outside in (lost, {**dict.fromkeys(names, 0), **numbers, ID_KEY: missing})
