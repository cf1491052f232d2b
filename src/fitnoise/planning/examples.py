"""Example records for a specification, drawn from its declarations: no data are read, and none are imitated."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, cast

from fitnoise.errors import SpecError
from fitnoise.kernel.codings import EXACT_FLOAT_LIMIT, Interval, as_csv_text
from fitnoise.kernel.conditions import Condition
from fitnoise.kernel.dates import DatePart
from fitnoise.request.attributes import Attribute
from fitnoise.request.publication import Publication
from fitnoise.solving.fixed_random import FixedGenerator

FIRST_COLUMN = "example"
"""The name of the first column, so that no one takes the file for data."""

MAX_TRIES = 10_000
"""The number of values tried, to find one that every reader of the column accepts."""

OPEN_CONDITION_SPAN = 100
"""The distance from the only bound of a condition, within which numbers are drawn."""

YEARS = (2000, 2023)
"""The years of dates for which no declaration states a year."""

# A fixed start: the examples are no data, and the same in every call.
START = 0


def examples(publication: Publication, records: int) -> str:
    """Return records of the domain as CSV. Each value is drawn from all declared values, and no two values are related.

    If one attribute reads a column, each of its cells has equal probability, and so has each value within a cell. All
    steps of an amount are equally likely, and so are all days of which an attribute reads a part. The values are every
    step of an amount, some numbers of a bin, and every leaf of a hierarchy. Codes of missing values have cells, too. If
    several attributes or conditions read one column, all of them accept the value. Each record has a different id.

    Args:
        publication: The publication with the domain, the conditions and the unit.
        records: The number of records, at least 1.

    Raises:
        SpecError: In 10,000 tries no value is found that all attributes and conditions of a column accept.

    **Guarantees**
        * a specification and a number of records always give the same records, from public declarations alone;
        * every record is in the domain, and meets all conditions.
    """
    draw = FixedGenerator(START)
    columns, domain = list(_columns(publication)), publication.workload.domain
    mark = FIRST_COLUMN
    while any(mark.casefold() == c.name.casefold() for c in columns):
        mark += "_"
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([mark, *(c.name for c in columns)])
    classes = {classifier for a in domain if (classifier := domain[a].coding.attribute) is not None}
    # Columns of classes come first: the range of an amount can depend on the cell that they draw.
    ordered = sorted(columns, key=lambda c: classes.isdisjoint(c.attributes))
    for i in range(1, records + 1):
        record, places = dict[str, Any](), dict[str, int | None]()
        for c in ordered:
            record[c.name] = c.value(draw, i, places)
            places |= {a: c.cell(a, record[c.name], places) for a in classes.intersection(c.attributes)}
        writer.writerow([i, *(as_csv_text(record[c.name]) for c in columns)])
    return out.getvalue()


@dataclass(frozen=True)
class _Column:
    """A column with all attributes and conditions that read it; a column of ids has no reader."""

    name: str
    attributes: Mapping[str, Attribute]
    conditions: tuple[Condition, ...]

    def value(self, draw: FixedGenerator, number: int, places: Mapping[str, int | None]) -> Any:
        """Return a value that all readers accept, or for an id the number of its record.

        Raises SpecError if there is no such value. places: The cells of attributes of other columns, on which the
        ranges of amounts depend.
        """
        readers = (*self.attributes.values(), *self.conditions)
        for _ in range(MAX_TRIES if readers else 0):
            reader = _one(readers, draw)
            values = (
                self._of_cell(reader, draw, places) if isinstance(reader, Attribute) else self._meeting(reader, draw)
            )
            value = _one(values, draw) if values else None
            if values and self._read_by_all(value, places):
                return value
        if readers:
            raise SpecError(
                "no-example-for-column",
                f"No example was found for the column {self.name!r}, which {len(readers)} attributes and "
                "conditions read.",
                f"Each of {MAX_TRIES:,} values is declared for one of these, and none for all.",
                "Change their declarations, if such records exist.",
                "Nothing was written.",
                place=self.name,
            )
        return number

    def cell(self, name: str, value: object, places: Mapping[str, int | None]) -> int | None:
        """Return the cell of a value along one of the attributes; for an amount, in the range of its record's class."""
        attribute = self.attributes[name]
        classifier = attribute.coding.attribute
        if classifier is None:
            return attribute.cell(value)
        class_index = self.attributes[classifier].cell(value) if classifier in self.attributes else places[classifier]
        return None if class_index is None else attribute.coding.for_class(class_index).cell(value)

    def _read_by_all(self, value: object, places: Mapping[str, int | None]) -> bool:
        off = ((c.coding, value if c.read is None else c.read.number(value)) for c in self.conditions)
        return all(self.cell(a, value, places) is not None for a in self.attributes) and all(
            c.cell(x) is not None for c, x in off
        )

    def _of_cell(self, attribute: Attribute, draw: FixedGenerator, places: Mapping[str, int | None]) -> Sequence[Any]:
        """Return values of one of the attribute's cells; for dates, any that it may read."""
        cell, steps = draw.below(attribute.size), attribute.steps
        if cell < attribute.own_size and attribute.derived is not None:
            return self._dates(draw)
        # A cell at a knot stands for any step of the amount; the cells after the knots are those of missing values.
        if steps:
            knots, total_steps = len(steps) + 1, sum(steps)
            cell = draw.below(total_steps + 1) if cell < knots else cell - knots + total_steps + 1
        classifier = attribute.coding.attribute
        class_index = None if classifier is None else places.get(classifier)
        return attribute.examples(cell, 0 if class_index is None else class_index)

    def _meeting(self, condition: Condition, draw: FixedGenerator) -> Sequence[Any]:
        if condition.read is not None:
            return self._dates(draw)
        if condition.codes:
            return condition.codes
        bounds = cast("Interval", condition.coding)
        low = bounds.low if math.isfinite(bounds.low) else bounds.high - OPEN_CONDITION_SPAN
        high = bounds.high if math.isfinite(bounds.high) else low + OPEN_CONDITION_SPAN
        return range(math.ceil(low), math.ceil(high)) or (low,)

    def _dates(self, draw: FixedGenerator) -> Sequence[str]:
        """Return a day that may meet all conditions, with a time if an hour is read; empty if there is no such day."""
        days = [window for a in self.attributes.values() if (window := _years(a)) is not None]
        # A limit that excludes its day is treated as inclusive: a rejected day is drawn again.
        for bounds in (c.bounds for c in self.conditions if c.read is not None):
            ends = {name: x.toordinal() for name, x in bounds.items() if isinstance(x, date)}
            start, end = (next((ends[k] for k in ks if k in ends), None) for ks in _BOUNDS)
            days.append((start or 1, end or date.max.toordinal()))
        start, end = (max((d[0] for d in days), default=1), min((d[1] for d in days), default=date.max.toordinal()))
        if start == 1 and end == date.max.toordinal():
            start, end = date(YEARS[0], 1, 1).toordinal(), date(YEARS[1], 12, 31).toordinal()
        if start > end:
            return ()
        day = date.fromordinal(start + draw.below(end + 1 - start)).isoformat()
        timed = any(a.derived is not None and a.derived.part is DatePart.HOUR for a in self.attributes.values())
        return (f"{day} {draw.below(24):02}:{draw.below(60):02}:00" if timed else day,)


# The last day is before the first, so no day is in the window.
_NEVER = (1, 0)

_BOUNDS = (("at_least", "above"), ("at_most", "below"))


def _years(attribute: Attribute) -> tuple[int, int] | None:
    """Return the first and the last day of the years that an attribute may read, if it declares years."""
    off = attribute.derived
    if off is None or off.part not in {DatePart.YEAR, DatePart.AGE}:
        return None
    low_limit, high_limit = attribute.limits
    low, high = math.floor(max(low_limit, -EXACT_FLOAT_LIMIT)), math.ceil(min(high_limit, EXACT_FLOAT_LIMIT))
    # Of an age of `high` on the day, the birthday of the last year can be ahead: born one year earlier.
    first_year, last_year = (low, high) if off.on is None else (off.on.year - high - 1, off.on.year - low)
    start, end = max(first_year, date.min.year), min(last_year, date.max.year)
    return (date(start, 1, 1).toordinal(), date(end, 12, 31).toordinal()) if start <= end else _NEVER


def _columns(publication: Publication) -> Iterator[_Column]:
    """Return all columns that the publication reads, those of attributes first."""
    domain, unit = publication.workload.domain, publication.unit
    pairs = [(domain.column(a), a) for a in domain]
    conditions = publication.source.conditions
    names = dict.fromkeys([*(c for c, _ in pairs), *(c.column for c in conditions), *filter(None, [unit.id])])
    for name in names:
        yield _Column(
            name,
            {a: domain[a] for c, a in pairs if c == name},
            tuple(c for c in conditions if c.column == name),
        )


def _one(choices: Sequence[Any], draw: FixedGenerator) -> Any:
    return choices[draw.below(len(choices))]
