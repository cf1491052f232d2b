"""Joint cells that attributes of one column can have, and the blocks of attributes that are not free of each other.

**Purpose.** Several attributes may read one column: age and age group, county and region, year and quarter. A record
has one value there, so not every combination of their cells occurs. This module computes the combinations that occur
for some value. It reads declarations, never data.

**Symbols.**

| letter | meaning |
|---|---|
| a | an attribute of the column, other than an amount; a(v): its cell of a value v, or none (`Attribute.cell`) |
| D | the texts that the attributes declare: codes that are texts, values of lookups, texts of missing values |
| p | a run of spaces that is longer than every text of D |
| B | the numbers that the attributes declare: codes, cuts, both ends of ranges |
| J | the set of tuples (a(v))_a over all values v for which every a(v) is a cell |

**Statement.** `possible_cells` returns J. Amounts are left out, so J can be too large for a column of an amount, and
never too small. `blocks` returns groups of attributes. J, projected on the attributes of `names`, is the product of its
projections on these groups and on each other attribute.

**Proof.** All attributes see a value v as null, as one text (`as_csv_text`), or as a date of Python. Let c be a text
without the spaces around it.

1. *Texts.* Only the comparisons with D and with the empty text depend on the spaces. All else depends on c: number,
   truth value, blank, date. A text outside D has the cells of null if it is empty, and else those of p + c. So null, D,
   p + c for all c, and dates of Python reach J.
2. *Forms of c.* c is blank, a number, a date, a word for true or for false, or none of these. A number is no date. "1"
   and "0" are numbers and truth values. "1.0" and "0.0" are the same numbers, and no truth values.
3. *Numbers.* B cuts the numbers into gaps, the outer two without end. Within a gap, a cell depends only on the question
   if the number is an integer. The exception is a range that covers the gap: there each integer has its own cell. So
   three kinds of numbers suffice for J. They are B, the integers of the ranges, and in each gap one integer and one
   other number.
4. *Integers of a gap (a, b).* If there are any, ⌊a⌋ + 1 is one, or the double after a is. The latter holds where all
   larger doubles are integers, and for a = −∞.
5. *Other numbers of a gap (a, b).* Let y be one. If a < 0.5 < b, 0.5 is another. If a ≥ 0.5, neighbours from a to y
   differ by at most ½, so the double after an integer a is no integer. If a is no integer, it is a cut, and has the
   cells of the gap. If b ≤ 0.5, neighbours from y to b differ by at most ½. So one of the last two doubles before b is
   no integer, and neither is below y.
6. *Dates.* Attributes read the year, the age on a day, the month, the quarter, the weekday or the hour. Let two years
   be equivalent under three conditions. Both or neither are leap years. Each attribute has one cell for both years, for
   the ages before the birthday, and for those from it on; ages below 0 are outside. If a weekday is read, both begin on
   one weekday. Days of one month and day then have equal cells in both years. So the days of one year of each class
   reach the cells of all days. The hour does not depend on the day.
7. *Dates of Python.* Attributes that read no date see null. A time with a zone is no date and not absent, so it is a
   further value.
8. *Blocks.* A value of one column says nothing about another column. Within a column, either J is the product of the
   projections, or all attributes are one block.

**Trust.** Nothing here decides a noise or a price. With a J that lacks a joint cell, records of this cell are refused
(:meth:`fitnoise.kernel.domain.Domain.counts_along`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from typing import final

import numpy as np

from fitnoise.errors import DomainError
from fitnoise.kernel.arrays import Floats, Integers
from fitnoise.kernel.dates import DateField, DatePart, read
from fitnoise.request.attributes import Attribute
from fitnoise.request.domain import Domain

MAX_TRIED_CELLS = 2**22
"""The largest number of values that are tried for one column, times its attributes: they take less than a second."""

ZONED = datetime(2000, 1, 1, tzinfo=UTC)
"""A time with a zone: absent for attributes of values, and outside for attributes of dates."""

LAST_YEAR = 9999
"""The last year of a date; the first is 1."""

HOURS = 24
"""The number of hours of a day."""

WEEKDAY_OF_DAY_0 = 3
"""The number of days from a Monday to 1970-01-01, from which NumPy counts days."""


@final
@dataclass(frozen=True, eq=False)
class JointCells:
    """The possible joint cells of some attributes of one column.

    Attributes:
        cells: The joint cells, of shape (joint cells, attributes): each row once, in lexicographic order.
        witness: A function that returns a value of the column with the joint cell of this row.

    **Guarantees**
        * every value of the column for which all attributes have a cell has its cells in one row;
        * `attribute.cell(witness(i))` is the entry of row i, for every attribute.
    """

    cells: Integers
    witness: Callable[[int], object]


@final
@dataclass(frozen=True, eq=False)
class Block:
    """Attributes of one column that are not free of each other.

    Attributes:
        column: The column of the data.
        attributes: The names of at least two attributes or levels, in the order of the domain.
        cells: Their possible joint cells, of shape (joint cells, attributes), each once, in lexicographic order.
        combinations: The product of their numbers of cells; larger than the number of joint cells.
    """

    column: str
    attributes: tuple[str, ...]
    cells: Integers
    combinations: int


@final
@dataclass(frozen=True)
class Unreached:
    """Cells of an attribute that no counted record can have.

    Attributes:
        attribute: The name of the attribute or level.
        cells: The positions of these cells, in order; at least one.
        cause: The name of the other attribute of the column that accepts no value in these cells. It is the name of
            the attribute itself if they are empty for any column, and None if several attributes are the cause.
    """

    attribute: str
    cells: tuple[int, ...]
    cause: str | None


@final
@dataclass(frozen=True, eq=False)
class SharedColumn:
    """A column that several attributes read, other than amounts.

    Attributes:
        column: The column of the data.
        attributes: Its counted attributes by name, in the order of the domain; of a hierarchy the lowest level that
            tables show.
        tabulated: The names of those that tables show.
    """

    column: str
    attributes: dict[str, Attribute]
    tabulated: tuple[str, ...]

    @cached_property
    def joint(self) -> Integers:
        """The possible joint cells of the shown attributes, of shape (joint cells, tabulated), sorted.

        Raises:
            DomainError: The attributes declare too many values (`MAX_TRIED_CELLS`).
        """
        # The other attributes matter, too: a record counts only where all of them have a cell.
        cells = possible_cells(self.attributes.values()).cells
        names = list(self.attributes)
        projected = cells[:, [names.index(a) for a in self.tabulated]]
        return projected[_first_rows(projected)]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The groups of shown attributes that are not free of each other.

        Raises:
            DomainError: The attributes declare too many values (`MAX_TRIED_CELLS`).
        """
        sizes = [self.attributes[a].size for a in self.tabulated]
        return tuple(
            Block(self.column, tuple(self.tabulated[i] for i in m), cells, math.prod(sizes[i] for i in m))
            for m, cells in dependent_columns(self.joint, sizes)
        )

    @cached_property
    def unreached(self) -> tuple[Unreached, ...]:
        """The cells of shown attributes that no counted record can have, for each attribute with such cells.

        Raises:
            DomainError: The attributes declare too many values (`MAX_TRIED_CELLS`).
        """
        result = []
        for name, possible in zip(self.tabulated, self.joint.T, strict=True):
            cells = set(range(self.attributes[name].size)) - set(possible.tolist())
            if cells:
                result.append(Unreached(name, tuple(sorted(cells)), self._cause(name, cells)))
        return tuple(result)

    def _cause(self, name: str, cells: set[int]) -> str | None:
        """Return the first attribute that, with the named one, has a cell for no value in the cells."""
        # The attribute itself comes first: a quarter 5 is reached by no date.
        for other in dict.fromkeys((name, *self.attributes)):
            pair = possible_cells([self.attributes[name], self.attributes[other]]).cells
            if cells.isdisjoint(pair[:, 0].tolist()):
                return other
        return None


def dependent_columns(joint: Integers, sizes: Sequence[int]) -> Iterator[tuple[list[int], Integers]]:
    """Yield the smallest groups of columns that are not free of each other, each with its different rows, sorted.

    Args:
        joint: The possible joint cells, of shape (joint cells, columns), sorted.
        sizes: The number of cells of each column.
    """
    group = list(range(len(sizes)))
    for a, b in itertools.combinations(range(len(group)), 2):
        if group[a] != group[b] and len(_first_rows(joint[:, [a, b]])) < sizes[a] * sizes[b]:
            group = [group[a] if g == group[b] else g for g in group]
    members = [[i for i, g in enumerate(group) if g == label] for label in sorted(set(group))]
    projections = [joint[:, m][_first_rows(joint[:, m])] for m in members]
    if math.prod(map(len, projections)) > len(joint):
        # Pairs can be free of each other where all attributes are not.
        members, projections = [list(range(len(group)))], [joint]
    yield from ((m, cells) for m, cells in zip(members, projections, strict=True) if len(m) > 1)


def possible_cells(attributes: Iterable[Attribute]) -> JointCells:
    """Return the joint cells that some value of a column reaches, from the declarations alone.

    Args:
        attributes: Attributes that read one column, at least one, and no amount.

    Raises:
        DomainError: The attributes declare too many values (`MAX_TRIED_CELLS`).
    """
    readers = list(attributes)
    spaces = " " * (1 + max((len(text) for a in readers for text in _texts(a)), default=0))
    sources = [_single_values(readers, spaces), _numbers(readers, spaces), *_dates(readers, spaces)]
    tried = np.concatenate([source.cells for source in sources])
    starts = np.cumsum([0, *(len(source.cells) for source in sources)])
    # A value is not counted if an attribute has no cell for it.
    (counted,) = np.nonzero((tried >= 0).all(axis=1))
    positions = counted[_first_rows(tried[counted])]

    def witness(i: int) -> object:
        source = int(np.searchsorted(starts, positions[i], side="right")) - 1
        return sources[source].value(int(positions[i] - starts[source]))

    return JointCells(tried[positions], witness)


def lowest_names(domain: Domain, names: Collection[str]) -> dict[str, str]:
    """Return the lowest of some attributes and levels by attribute: each level is a function of those below it.

    Args:
        domain: The domain.
        names: The attributes and levels.
    """
    lowest = {domain.attribute_of(name): name for name in sorted(names, key=domain.depth)}
    return lowest | {name: name for name in names if name in set(domain)}


def shared_columns(
    domain: Domain, names: Collection[str], counted: Collection[str] | None = None
) -> Iterator[SharedColumn]:
    """Yield the columns that several attributes read, of which tables show at least one, in the order of the domain.

    Args:
        domain: The domain.
        names: The attributes and levels that tables show.
        counted: The attributes in which each counted record has a cell, in addition to `names`; None for all of the
            domain. A source that refuses values outside does not read attributes that no table shows.
    """
    homes = {domain.attribute_of(name) for name in names}
    columns: dict[str, list[str]] = {}
    for name in domain:
        if not domain[name].steps and (counted is None or name in counted or name in homes):
            columns.setdefault(domain.column(name), []).append(name)
    lowest = lowest_names(domain, names)
    for column, readers in columns.items():
        tabulated = tuple(lowest[name] for name in readers if name in lowest)
        if len(readers) > 1 and tabulated:
            displayed = (lowest.get(name, name) for name in readers)
            yield SharedColumn(column, {name: domain[name] for name in displayed}, tabulated)


@final
@dataclass(frozen=True, eq=False)
class _Values:
    """Values of a column with their cells; negative for a value without a cell.

    cells: Shape (values, attributes).
    value: The value of a row.
    """

    cells: Integers
    value: Callable[[int], object]


def _single_values(readers: Sequence[Attribute], spaces: str) -> _Values:
    """Return null, the declared texts, and one value of every kind that is neither a number nor a date."""
    # "1" and "0" are truth values; as numbers without a truth value, `_numbers` has them.
    texts = dict.fromkeys(text for a in readers for text in _texts(a))
    padded = [spaces + text for text in ("", "true", "false", "1", "0", "x")]
    values = [None, *texts, *padded, ZONED]
    return _Values(np.array([_row(readers, value) for value in values]), values.__getitem__)


def _row(readers: Sequence[Attribute], value: object) -> list[int]:
    """Return the cell of a value along each attribute; −1 along those without a cell for it."""
    return [-1 if (cell := a.cell(value)) is None else cell for a in readers]


def _texts(attribute: Attribute) -> Iterator[str]:
    """Yield the texts that an attribute declares: codes, values of a lookup, codes of missing values."""
    coding = attribute.coding
    yield from coding.texts
    if coding.kind is str:
        # Of the codings of values, only lists of codes read texts.
        yield from getattr(coding.values, "codes", ())


def _ends(attribute: Attribute) -> tuple[int, int] | None:
    """Return both ends of a range; None for an attribute without a range."""
    values = attribute.coding.values
    return (values.low, values.high) if hasattr(values, "low") and hasattr(values, "high") else None


def _breakpoints(attribute: Attribute) -> Iterator[float]:
    """Yield the numbers that an attribute declares: codes, cuts, both ends of a range, codes of missing values."""
    coding = attribute.coding
    yield from coding.numbers
    yield from _ends(attribute) or ()
    if coding.kind is int:
        yield from getattr(coding.values, "codes", ())
        yield from getattr(coding.values, "cuts", ())


def _numbers(readers: Sequence[Attribute], spaces: str) -> _Values:
    """Return numbers that reach all cells that numbers reach, written with a point or an exponent."""
    undated = [a for a in readers if a.date_part is None]
    ranges = [ends for a in undated if (ends := _ends(a)) is not None]
    declared = np.unique(np.fromiter((x for a in undated for x in _breakpoints(a)), np.float64))
    # Each gap between declared numbers needs five further ones at most.
    _refuse_too_many(6 * len(declared) + sum(high - low + 1 for low, high in ranges), readers)
    below, above = np.append(-math.inf, declared), np.append(declared, math.inf)
    with np.errstate(over="ignore"):
        after, before = np.nextafter(below, math.inf), np.nextafter(above, -math.inf)
        tried = (after, before, np.nextafter(before, -math.inf), np.floor(below) + 1)
    candidates = [x[(below < x) & (x < above)] for x in (*tried, np.full(len(below), 0.5))]
    integers = [np.arange(low, high + 1, dtype=np.float64) for low, high in ranges]
    x = np.unique(np.concatenate([declared, *integers, *candidates]))
    cells = [_cells_of_numbers(a, x if a.date_part is None else np.full(len(x), math.inf)) for a in readers]
    return _Values(np.stack(cells, axis=1), lambda i: f"{spaces}{float(x[i])!r}")


def _cells_of_numbers(attribute: Attribute, x: Floats) -> Integers:
    """Return the cells of numbers that are no truth values, or of numbers read off dates; infinity has none."""
    coding = attribute.coding
    if coding.kind is not int:
        # "1.0" is no truth value; a text with spaces before it is no declared text.
        return np.full(len(x), coding.outside)
    cells = coding.values.vector(x)
    cells[cells < 0] = coding.outside
    for code, cell in coding.numbers.items():
        cells[x == code] = cell
    return cells


def _dates(readers: Sequence[Attribute], spaces: str) -> Iterator[_Values]:
    """Yield dates that reach all cells that dates reach: as texts, then as dates of Python."""
    dated = {i: field for i, a in enumerate(readers) if (field := read(a.date_part)) is not None}
    if not dated:
        return
    # Attributes that read no date see an undeclared text, or null.
    other, absent = _row(readers, spaces + "x"), _row(readers, None)
    timed = [i for i, field in dated.items() if field.part == DatePart.HOUR]
    days = _Days.representing(readers)
    rows = np.tile(np.array(other), (len(days.year), 1))
    for i in set(dated) - set(timed):
        numbers, which = np.unique(days.numbers(dated[i]), return_inverse=True)
        rows[:, i] = _cells_of_numbers(readers[i], numbers)[which.ravel()]
    chosen = _first_rows(rows)
    hours = np.array([math.inf, *range(HOURS)]) if timed else np.array([math.inf])
    _refuse_too_many(len(chosen) * len(hours), readers)
    day_of, hour_of = np.repeat(chosen, len(hours)), np.tile(hours, len(chosen))
    texts = rows[day_of]
    for i in timed:
        texts[:, i] = _cells_of_numbers(readers[i], hour_of)

    def format_date(i: int) -> str:
        day = days.day(int(day_of[i])).isoformat()
        return f"{spaces}{day}" if math.isinf(hour_of[i]) else f"{spaces}{day} {int(hour_of[i]):02}:30"

    objects = texts.copy()
    for i in set(range(len(readers))) - set(dated):
        objects[:, i] = absent[i]
    yield _Values(texts, format_date)
    yield _Values(objects, lambda i: _as_object(format_date(i).strip()))


def _as_object(text: str) -> date:
    """Return a date of Python, with a time if the text has one."""
    return datetime.fromisoformat(text) if ":" in text else date.fromisoformat(text)


@final
@dataclass(frozen=True, eq=False)
class _Days:
    """Days with their parts, of shape (days,); the weekday is 1 for Monday to 7."""

    year: Integers
    month: Integers
    day_of_month: Integers
    weekday: Integers

    @classmethod
    def representing(cls, readers: Sequence[Attribute]) -> _Days:
        """Return all days of one year of each kind that the attributes distinguish."""
        years = np.arange(1, LAST_YEAR + 1)
        starts = (years - 1970).astype("datetime64[Y]").astype("datetime64[D]").astype(np.int64)
        lengths = 365 + ((years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0)))
        kinds = [lengths]
        for a in readers:
            kinds += _year_kinds(a, years, (starts + WEEKDAY_OF_DAY_0) % 7)
        chosen = np.sort(_first_rows(np.stack(kinds, axis=1)))
        starts, lengths = starts[chosen], lengths[chosen]
        _refuse_too_many(int(lengths.sum()), readers)
        offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        numbers = np.repeat(starts, lengths) + offsets
        days = numbers.astype("datetime64[D]")
        months = days.astype("datetime64[M]")
        return cls(
            np.repeat(years[chosen], lengths),
            months.astype(np.int64) % 12 + 1,
            (days - months).astype(np.int64) + 1,
            (numbers + WEEKDAY_OF_DAY_0) % 7 + 1,
        )

    def day(self, i: int) -> date:
        """Return the day of a row."""
        return date(int(self.year[i]), int(self.month[i]), int(self.day_of_month[i]))

    def numbers(self, field: DateField) -> Floats:
        """Return the number that is read off each day, infinity for a birth after the day of the age."""
        if field.on is not None:
            on = 100 * field.on.month + field.on.day
            ages = field.on.year - self.year - (on < 100 * self.month + self.day_of_month)
            return np.where(ages >= 0, ages, math.inf)
        return {
            DatePart.YEAR: self.year,
            DatePart.QUARTER: (self.month + 2) // 3,
            DatePart.MONTH: self.month,
            DatePart.WEEKDAY: self.weekday,
        }[field.part].astype(np.float64)


def _year_kinds(attribute: Attribute, years: Integers, first_weekdays: Integers) -> Iterator[Integers]:
    """Yield numbers of each year. Two years with equal numbers have days of the same cells."""
    field = read(attribute.date_part)
    if field is None:
        return
    if field.part == DatePart.YEAR:
        yield _cells_of_numbers(attribute, years.astype(np.float64))
    if field.part == DatePart.WEEKDAY:
        yield first_weekdays
    if field.part == DatePart.DAY:
        # No specification declares it. Nine thousand years are then refused as too many.
        yield years
    if field.on is not None:
        # Before the birthday of the year, and from it on.
        for ages in (field.on.year - 1 - years, field.on.year - years):
            yield _cells_of_numbers(attribute, np.where(ages >= 0, ages, math.inf))


def _first_rows(rows: Integers) -> Integers:
    """Return the position of the first of all equal rows, for each different row, in lexicographic order."""
    if not len(rows):
        return np.empty(0, np.int64)
    # The sort is stable: the first of equal rows comes first.
    order = np.lexsort(rows.T[::-1])
    is_new = np.append(True, (np.diff(rows[order], axis=0) != 0).any(axis=1))
    positions: Integers = order[is_new]
    return positions


def _refuse_too_many(values: int, readers: Sequence[Attribute]) -> None:
    max_values = MAX_TRIED_CELLS // len(readers)
    if values > max_values:
        raise DomainError(
            "joint-cells-too-many",
            f"The {len(readers)} attributes of one column distinguish {values:,} values or more.",
            f"Fitnoise compares {len(readers)} attributes of at most {max_values:,} values.",
            "Declare fewer or coarser values.",
            "The attributes were not compared.",
        )
