"""Records to try a specification with, drawn from what is declared: no data are read, and none are imitated."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from fitnoise.errors import SpecError
from fitnoise.kernel.codings import (
    EXACT,
    Beside,
    Codes,
    Coding,
    Cuts,
    Interval,
    Range,
    Steps,
    Values,
    classified_by,
    values_of,
    within,
    written,
)
from fitnoise.kernel.conditions import Condition
from fitnoise.kernel.dates import Part
from fitnoise.kernel.domain import Attribute
from fitnoise.request.publication import Publication
from fitnoise.solving.fixed import Fixed

MARK = "example"
"""What the first column is called, so that nobody takes the file for data."""

TRIES = 10_000
"""Values tried for one that all who read the column can read."""

IN_BIN = 100
"""About as many whole numbers of a bin are drawn from."""

AROUND = 100
"""How far beyond the only bound of a condition numbers are drawn."""

YEARS = (2000, 2023)
"""Of dates of which nothing says when they are."""

START = 0


def examples(publication: Publication, records: int) -> str:
    """Records of the domain as CSV: each value by chance of all that are declared, and no two of them related.

    Every cell is drawn as often as every other, and within it every value: of an amount every step, of a bin some
    numbers, of a hierarchy every leaf. Codes of missing values have cells, too. What is read off a column by several
    attributes, or by conditions, is one value that all of them can read. Each record has an id of its own.

    Args:
        publication: whose domain, conditions and unit are meant.
        records: how many, at least 1.

    Raises:
        SpecError: no value was found for a column that several attributes or conditions read.

    **Guarantees**
        * the same specification gives the same records: they follow from what is public, and from nothing else;
        * none of them is outside the domain, and each meets all conditions.
    """
    draw = Fixed(START)
    columns, domain = list(_columns(publication)), publication.workload.domain
    mark = MARK
    while any(mark.casefold() == c.name.casefold() for c in columns):
        mark += "_"
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([mark, *(c.name for c in columns)])
    classes = {by for a in domain if (by := classified_by(domain[a].coding)) is not None}
    first = sorted(columns, key=lambda c: classes.isdisjoint(c.attributes))
    for i in range(1, records + 1):
        record, places = dict[str, Any](), dict[str, int | None]()
        for c in first:
            record[c.name] = c.value(draw, i, places)
            places |= {a: c.cell(a, record[c.name], places) for a in classes.intersection(c.attributes)}
        writer.writerow([i, *(written(record[c.name]) for c in columns)])
    return out.getvalue()


def held(attribute: Attribute, cell: int, place: int = 0) -> Sequence[Any]:
    """What the data may hold of one cell of a coding: of what is read off dates, that; of a bin some numbers.

    Args:
        attribute: with the coding.
        cell: from 0 to the size of the coding, so that of an amount it is the step j, or beyond K a cell beside.
        place: of an amount whose range goes by another attribute, the cell of its record there.

    Returns:
        At least one value, which may be None, one that is not there; nothing where nothing falls into the cell.
    """
    coding = within(attribute.coding, place)
    return [x for x in _candidates(coding, cell) if coding.cell(x) == cell]


def _candidates(coding: Coding, cell: int) -> Sequence[Any]:
    """What may fall into a cell; some of it perhaps into that of a code of a missing value."""
    values = values_of(coding)
    if isinstance(coding, Beside) and cell >= values.size:
        return coding.codes[cell - values.size] or (None, "not declared")
    if isinstance(values, Codes) and values.shared is None:
        return (values.codes[cell],)
    if isinstance(values, Codes):
        return [c for c, at in zip(values.codes, values.cells, strict=True) if at == cell]
    if isinstance(values, Range):
        return (values.low + cell,)
    if isinstance(values, Cuts):
        low, high = _ends(values.cuts)[cell : cell + 2]
        whole = range(math.ceil(low), math.ceil(high)) if max(abs(low), abs(high)) < EXACT else range(0)
        return whole[:: max(len(whole) // IN_BIN, 1)] or (low, math.nextafter(high, -math.inf))
    assert isinstance(values, Steps)  # noqa: S101 - conditions alone have intervals
    x = values.low + cell * values.step
    return (int(x) if x.denominator == 1 else float(x),)


def _ends(cuts: Sequence[float]) -> list[float]:
    """Cuts, and where the outer bins are taken to end: each as wide as all between the cuts, and not below 0 alone."""
    width = cuts[-1] - cuts[0] or abs(cuts[0]) or 1
    least = cuts[0] - width
    return [max(least, 0) if cuts[0] > 0 else least, *cuts, cuts[-1] + width]


@dataclass(frozen=True)
class _Column:
    """A column, and all who read it; nobody reads one that holds ids alone."""

    name: str
    attributes: Mapping[str, Attribute]
    conditions: tuple[Condition, ...]

    def value(self, draw: Fixed, number: int, places: Mapping[str, int | None]) -> Any:
        """One that all can read; of an id its record's number. SpecError where none is found.

        places: the cells of attributes of other columns by which ranges of amounts go.
        """
        readers = (*self.attributes.values(), *self.conditions)
        for _ in range(TRIES if readers else 0):
            reader = _one(readers, draw)
            drawn = self._of(reader, draw, places) if isinstance(reader, Attribute) else self._meeting(reader, draw)
            value = _one(drawn, draw) if drawn else None
            if drawn and self._read_by_all(value, places):
                return value
        if readers:
            raise SpecError(
                "no-example-for-column",
                f"No example was found for the column {self.name!r}, which {len(readers)} attributes and "
                "conditions read.",
                f"Each of {TRIES:,} values is declared for one of these, and none for all.",
                "Change their declarations, if such records exist.",
                "Nothing was written.",
                place=self.name,
            )
        return number

    def cell(self, name: str, value: object, places: Mapping[str, int | None]) -> int | None:
        """The cell of a value along one of the attributes, of an amount in the range of its record's class."""
        attribute = self.attributes[name]
        by = classified_by(attribute.coding)
        if by is None:
            return attribute.cell(value)
        place = self.attributes[by].cell(value) if by in self.attributes else places[by]
        return None if place is None else within(attribute.coding, place).cell(value)

    def _read_by_all(self, value: object, places: Mapping[str, int | None]) -> bool:
        off = ((c.coding, value if c.read is None else c.read.number(value)) for c in self.conditions)
        return all(self.cell(a, value, places) is not None for a in self.attributes) and all(
            c.cell(x) is not None for c, x in off
        )

    def _of(self, attribute: Attribute, draw: Fixed, places: Mapping[str, int | None]) -> Sequence[Any]:
        """Values of one of its cells; of dates any that may be read."""
        cell, steps = draw.below(attribute.size), attribute.steps
        if cell < attribute.own_size and attribute.derived is not None:
            return self._dates(draw)
        if steps:  # of an amount all steps are one of its knots, and what is beside them comes after
            knots, most = len(steps) + 1, sum(steps)
            cell = draw.below(most + 1) if cell < knots else cell - knots + most + 1
        by = classified_by(attribute.coding)
        place = None if by is None else places.get(by)
        return held(attribute, cell, 0 if place is None else place)

    def _meeting(self, condition: Condition, draw: Fixed) -> Sequence[Any]:
        if condition.read is not None:
            return self._dates(draw)
        coding = condition.coding
        if isinstance(coding, Codes):
            return coding.codes
        low = coding.low if math.isfinite(coding.low) else coding.high - AROUND
        high = coding.high if math.isfinite(coding.high) else low + AROUND
        return range(math.ceil(low), math.ceil(high)) or (low,)

    def _dates(self, draw: Fixed) -> Sequence[str]:
        """A day that may meet all, with a time where an hour is read; none where there is no such day."""
        days = [window for a in self.attributes.values() if (window := _years(a)) is not None]
        for given in (c.bounds for c in self.conditions if c.read is not None):
            ends = {name: x.toordinal() for name, x in given.items() if isinstance(x, date)}
            first, last = (next((ends[k] for k in ks if k in ends), None) for ks in _BOUNDS)
            days.append((first or 1, last or date.max.toordinal()))
        first, last = max((d[0] for d in days), default=1), min((d[1] for d in days), default=date.max.toordinal())
        if first == 1 and last == date.max.toordinal():
            first, last = date(YEARS[0], 1, 1).toordinal(), date(YEARS[1], 12, 31).toordinal()
        if first > last:
            return ()
        day = date.fromordinal(first + draw.below(last + 1 - first)).isoformat()
        timed = any(a.derived is not None and a.derived.part is Part.HOUR for a in self.attributes.values())
        return (f"{day} {draw.below(24):02}:{draw.below(60):02}:00" if timed else day,)


_NEVER = (1, 0)

_BOUNDS = (("at_least", "above"), ("at_most", "below"))


def _years(attribute: Attribute) -> tuple[int, int] | None:
    """The first and the last day of the years of which an attribute may be read, where it says so."""
    off = attribute.derived
    if off is None or off.part not in {Part.YEAR, Part.AGE}:
        return None
    low, high = _extent(values_of(attribute.coding))
    first, last = (low, high) if off.on is None else (off.on.year - high - 1, off.on.year - low)
    least, most = max(first, date.min.year), min(last, date.max.year)
    return (date(least, 1, 1).toordinal(), date(most, 12, 31).toordinal()) if least <= most else _NEVER


def _extent(values: Values | Interval) -> tuple[int, int]:
    """The least and the largest whole number that has a cell, as far as is declared."""
    if isinstance(values, Codes):
        whole = [int(c) for c in values.codes]
        return min(whole), max(whole)
    low, high = _ends(values.cuts)[:: len(values.cuts) + 1] if isinstance(values, Cuts) else (values.low, values.high)
    return math.floor(max(low, -EXACT)), math.ceil(min(high, EXACT))


def _columns(publication: Publication) -> Iterator[_Column]:
    """All columns that are read, those of attributes first."""
    domain, unit = publication.workload.domain, publication.unit
    named = [(domain.column(a), a) for a in domain]
    conditions = publication.source.conditions
    names = dict.fromkeys([*(c for c, _ in named), *(c.column for c in conditions), *filter(None, [unit.id])])
    for name in names:
        yield _Column(
            name,
            {a: domain[a] for c, a in named if c == name},
            tuple(c for c in conditions if c.column == name),
        )


def _one(of: Sequence[Any], draw: Fixed) -> Any:
    return of[draw.below(len(of))]
