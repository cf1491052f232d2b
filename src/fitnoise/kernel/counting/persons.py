"""The choice of the counted records of a person, where there is a bound. Part of the trust kernel.

**Purpose.** The records with one id are those of one person, and the bound limits their counted number. Ids are texts
and integers, compared byte by byte in UTF-8, an integer by its decimal text. An empty text is not an id, as in a CSV
file. A text of more than 1,024 bytes is not an id. A truth value is not an id. A number with a point is not an id, even
1.0. A record without an id is outside, as one with a value outside the domain is.

**Statement: the rule.** The rule considers the records of a person that are inside the domain, over the cells of *all*
its attributes c₁, c₂, …, counted from 1:

    order by the MD5 of "c₁/c₂/…/id", then by c₁, c₂, …; the first g are counted

With a pattern (:class:`fitnoise.kernel.units.Pattern`), the rule first removes from the line, in this order, records
that do not keep to it:

    fixed:       those that do not agree with the first of the line
    once_per:    all except the first of each joint cell
    per_value:   attribute by attribute: all except the first n in each cell, n the stated limit
    separation:  all except the first of each cell; then those too near to the one before, along the attribute

The remaining records keep to the pattern. A person who keeps to it anyway loses nothing. The rule compares cells. If it
compared the values read, different texts in one cell would each keep a record.

**Statement: added amounts.** With `RecordBound.merge`, the rule first merges records of a person. Records merge if they
agree in the cells of all other attributes. For each amount to add up they must also agree in the missing-value
category, or both have a value. The amount of the merged record is the sum of theirs, in whole numbers of steps from
zero, each cut to ±2³¹ steps. The sum is a whole number, for any number of records, and is then cut to the declared
range. One record remains of those without a value. The rule above then applies to the merged records.

**Statement: shares.** Where shares are counted there is no line. Let s be `SHARES_PER_RECORD`. Each of k records that
are inside counts ⌊s/k⌋ parts of a record. The records of a person add up to at most s parts, and to at least
s − (k − 1). A person with more than s records counts nothing.

**Proof of the bound.** The counted records of a person depend only on the records of that person. They depend on no
other record, no order of rows, no collation or engine, and not on the requested tables. Records with equal cells are
interchangeable: the choice among them makes no difference.

With one cap at most, one more record adds at most one counted record, and then pushes out at most one. That is the
record of its own joint cell, whose place or an earlier one it takes, or the last of the first g. With more caps, a
fixed attribute or a separation, one more record may change all. Where amounts are added up, one more record may change
the amount of one. That is one record removed and another added in the joint cell of everything else, so at most one
counted record is replaced.
"""

from __future__ import annotations

import hashlib
import itertools
import numbers
from collections import Counter as Multiset
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, final

from fitnoise.kernel.codings import MAX_STEPS_FROM_ZERO, Coding, as_csv_text, encodable
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import NO_PATTERN, SHARES_PER_RECORD, Pattern, RecordBound

ID_KEY: Final = ""
"""The name that stands for the id among attributes; no attribute has it."""

SHARE_KEY: Final = " "
"""The name that stands for the parts that a record counts, where shares are counted; no attribute has it."""

IDS: Final = "An id is an integer or a text of at most 1,024 bytes"

MAX_ID_BYTES: Final = 1024
"""The largest number of bytes of an id."""

_RECORDS_PER_BATCH: Final = 2**14
"""The number of different records handed over at a time."""

Cells = tuple[int, ...]
"""The cells of a record, over all attributes of the domain, from 0."""

_RecordGroup = tuple[Cells, int]
"""The cells of records of one person, and the number of records in them."""


def counted_by(
    domain: Domain, margins: Sequence[Sequence[str]], bound: RecordBound | None, *, drop: bool
) -> dict[str, int]:
    """Return the attributes by which records are counted, with their sizes; with a bound all of the domain, and the id.

    In addition to the requested attributes, the result has those of the domain for whose values records are left out.
    Such records are left out of all margins. A requested level stands for its hierarchy there. The result also has the
    attributes on which the size of an amount's step depends, and those of rules about impossible cells.
    """
    needed = {a for names in (*margins, *(one.names for one in domain.rules.values())) for a in names}
    homes = {domain.attribute_of(a) for a in needed}  # a level shows dropped records as its hierarchy does
    needed |= {a for a in domain.drops(drop) if a not in homes} | (set(domain) if bound is not None else set())
    needed |= {classifier for a in needed if a in domain and (classifier := domain[a].coding.attribute)}
    sizes = {a: n for a, n in domain.sizes.items() if a in needed}
    return sizes if bound is None else sizes | {ID_KEY: 1}


def person_id(value: object) -> str | None:
    """Return the id that a value is, as text; `None` if it is not an id."""
    # Not every engine compares longer texts to their end.
    if isinstance(value, str):
        return value if encodable(value) and 0 < len(value.encode()) <= MAX_ID_BYTES else None
    # A number with a point is written in many ways, so the same person could have several ids.
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return as_csv_text(value) if is_integer else None


def place_in_line(person: bytes, cells: Iterable[int]) -> bytes:
    """Return the digest by which records of a person are put in order; records of equal digest follow their cells.

    person: The id in UTF-8.
    cells: The cells of a record, from 0, in the order of the attributes of the domain.
    """
    # The digest is no secret and needs to be none; it only favours no cell.
    text = "".join(f"{c + 1}/" for c in cells).encode() + person
    return hashlib.md5(text, usedforsecurity=False).digest()


@final
class PersonSelector:
    """The records of persons in any order, and the choice of the counted ones.

    Args:
        max_records: The largest number of counted records of each person; `None` for all, in shares.
        names: The attributes of the first cells of a record, by which records are put in order.
        pattern: The pattern to which the counted records of a person keep.
        merge: The amounts that are added up, with their codings. Their cells in records are of `uncut` codings.

    The memory grows with the persons, and with the number of different records of each.
    """

    def __init__(
        self,
        max_records: int | None,
        names: Sequence[str],
        pattern: Pattern = NO_PATTERN,
        merge: Mapping[str, Coding] = MappingProxyType({}),
    ) -> None:
        self._limit = max_records
        self._names = names
        self._pattern = pattern
        self._ranges = {names.index(a): coding.values.sum_range for a, coding in merge.items()}
        self._records: Multiset[tuple[bytes, Cells]] = Multiset()

    def add(self, persons: Iterable[bytes], cells: Iterable[Cells]) -> None:
        """Add records, each with its person and its cells."""
        self._records.update(zip(persons, cells, strict=True))

    def iter_counted(self) -> Iterator[list[_RecordGroup]]:
        """Yield the counted cells, each with its number of records or of parts; a few thousand at a time."""
        counted = (x for person, records in self._by_person().items() for x in self._select(person, records))
        while batch := list(itertools.islice(counted, _RECORDS_PER_BATCH)):
            yield batch

    def left_out(self) -> int:
        """Return the number of persons of whom some records are not counted; defined only with a largest number."""
        return sum(_records(x) > _records(self._select(person, x)) for person, x in self._by_person().items())

    def _by_person(self) -> dict[bytes, list[_RecordGroup]]:
        """Return the records of each person, merged where amounts are added up."""
        groups: dict[bytes, list[_RecordGroup]] = defaultdict(list)
        for (person, cells), n in self._records.items():
            groups[person].append((cells, n))
        return {person: self._merged(records) for person, records in groups.items()} if self._ranges else groups

    def _merged(self, records: list[_RecordGroup]) -> list[_RecordGroup]:
        """Return one record for all that agree except for amounts that are added up, with their sums."""
        last = 2 * MAX_STEPS_FROM_ZERO
        sums_by_kind: dict[Cells, dict[int, int]] = {}
        for cells, n in records:
            # Amounts with a value merge with each other, and missing ones only within their category.
            kind = tuple(-1 if i in self._ranges and c <= last else c for i, c in enumerate(cells))
            sums = sums_by_kind.setdefault(kind, dict.fromkeys(self._ranges, 0))
            for i in self._ranges:
                # Python's integers hold the sum of any number of records; the range is applied once, to the sum.
                sums[i] += n * (cells[i] - MAX_STEPS_FROM_ZERO)
        out: list[_RecordGroup] = []
        for kind, sums in sums_by_kind.items():
            one = list(kind)
            for i, (low, width) in self._ranges.items():
                one[i] = min(max(sums[i] - low, 0), width) if kind[i] < 0 else kind[i] - last + width
            out.append((tuple(one), 1))
        return out

    def _select(self, person: bytes, records: list[_RecordGroup]) -> list[_RecordGroup]:
        """Return the counted cells of a person, each with its number of records; with its parts where shares count."""
        if self._limit is None:
            # Rounded down, so that the records of a person add up to at most one record.
            return [(cells, n * (SHARES_PER_RECORD // _records(records))) for cells, n in records]
        if not self._pattern and _records(records) <= self._limit:
            return records
        width = len(self._names)
        # Digest and cells alone set the order: no order of rows, collation or engine matters.
        line = sorted(records, key=lambda r: (place_in_line(person, r[0][:width]), r[0]))
        return _capped(self._apply_pattern(line), (), self._limit)

    def _apply_pattern(self, line: list[_RecordGroup]) -> list[_RecordGroup]:
        """Return the records of a line that keep to the pattern."""
        pattern, index_of = self._pattern, self._names.index
        # Removing records breaks no rule, so each rule still holds after the later ones.
        for i in map(index_of, pattern.fixed):
            line = [r for r in line if r[0][i] == line[0][0][i]]
        for names, limit in pattern.caps:
            line = _capped(line, [index_of(a) for a in names], limit)
        for i, distance in ((index_of(a), n) for a, n in pattern.separation):
            sorted_cells = sorted(cells[i] for cells, _ in line)
            # Each cell is compared with the one before it, even if that one is left out too.
            too_close = {cell for before, cell in itertools.pairwise(sorted_cells) if cell - before < distance}
            line = [r for r in line if r[0][i] not in too_close]
        return line


def _records(groups: list[_RecordGroup]) -> int:
    """Return the number of records."""
    return sum(n for _, n in groups)


def _capped(line: list[_RecordGroup], attributes: Sequence[int], max_records: int) -> list[_RecordGroup]:
    """Return the first `max_records` records of a line in each joint cell along some attributes."""
    remaining: dict[Cells, int] = {}
    out = []
    for cells, n in line:
        key = tuple(cells[i] for i in attributes)
        taken = min(n, remaining.get(key, max_records))
        remaining[key] = remaining.get(key, max_records) - taken
        out += [(cells, taken)] if taken else []
    return out
