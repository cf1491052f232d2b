"""Which records of a person are counted, where there is a bound. Part of the trust kernel.

A person is who is under one id: texts and integers, told apart byte by byte in UTF-8, an integer by its decimal text.
An empty text is no id, as in a CSV file, nor is one of more than 1,024 bytes, which not every engine compares to its
end; nor is a truth value, or a number with a point, even 1.0, which is written in many ways. A record without an id is
outside, as one with a value outside the domain is.

**The rule.** Of the records of a person that are inside the domain, over the cells of *all* its attributes c₁, c₂, …,
counted from 1:

    order by the MD5 of "c₁/c₂/…/id", then by c₁, c₂, …; the first g are counted

Where her records keep to a pattern (:class:`fitnoise.kernel.units.Pattern`), those are taken out of the line first, in
this order, that do not keep to it:

    fixed        those that do not agree with the first of the line
    once_per     all but the first of each joint cell; then per_value, attribute by attribute: all but the first so many
    separation   all but the first of each cell; then those of which the one before, along the attribute, is too near

What is left keeps to the pattern, as taking records away breaks none. Whoever keeps to it anyway loses nothing. It goes
by cells: by what is read, texts that share a cell would each keep a record.

**Added up.** Where amounts are (`Bound.merge`), her records are first made fewer: those that are alike in the cells of
all other attributes, and in the cell beside such an amount, or in that they have a value of it, become one. Its amount
is the sum of theirs, each in whole steps from zero, cut to ±2³¹ of them. The sum is a whole number, however many there
are, and is then cut to the declared range. Of those that have no value of it one is left. Then the rule is as above,
and is of these.

Where shares are counted there is no line: of k records that are inside each counts ⌊PARTS/k⌋ parts of a record. So a
person's add up to PARTS at most, and to no more than k − 1 parts less; who has more than PARTS records counts nothing.

So what is counted of a person depends on nothing but her own records: on no other record, no order of rows, collation
or engine, and not on which tables are asked for. Records with the same cells are alike, and which of them are counted
makes no difference. With one cap at most, a record more adds at most one that is counted, and then pushes out at most
one: that of its own joint cell, in whose place it then is or before, or the last of the first g. With more, or with
what is fixed or apart, it may change all. Where amounts are added up, a record more may change the amount of one: that
is one gone and another come in the same joint cell of all else, so at most one that is counted is replaced. The digest
is no secret and needs to be none; it only favours no cell.
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

from fitnoise.kernel.codings import FURTHEST, Coding, classified_by, encodable, range_of, written
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import ANY, PARTS, Bound, Pattern

PERSON: Final = ""
"""What stands for the id among attributes, of which none is called so."""

SHARE: Final = " "
"""What stands for the parts that a record counts, likewise, where shares are counted."""

IDS: Final = "An id is an integer or a text of at most 1,024 bytes"

LONGEST: Final = 1024
"""Bytes of an id."""

_TOGETHER: Final = 2**14
"""Different records that are handed over at a time."""

Cells = tuple[int, ...]
"""Of a record, over all attributes of the domain, from 0."""

_Alike = tuple[Cells, int]
"""Records of one person in the same cells, and how many."""


def counted_by(domain: Domain, margins: Sequence[Sequence[str]], bound: Bound | None, *, drop: bool) -> dict[str, int]:
    """The attributes by which records are counted, with their sizes; with a bound all of the domain, and the id.

    Beside those asked for, there are all of the domain for whose values records are left out: of all margins alike; and
    those by which it goes what a step of an amount is.
    """
    asked = {a for m in margins for a in m}
    homes = {domain.home(a) for a in asked}  # a level of a hierarchy tells as much of that
    asked |= {a for a in domain.drops(drop) if a not in homes} | (set(domain) if bound is not None else set())
    asked |= {by for a in asked if a in domain and (by := classified_by(domain[a].coding))}
    sizes = {a: n for a, n in domain.sizes.items() if a in asked}
    return sizes if bound is None else sizes | {PERSON: 1}


def named(value: object) -> str | None:
    """The id that a value is; None for what is none."""
    if isinstance(value, str):
        return value if encodable(value) and 0 < len(value.encode()) <= LONGEST else None
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    return written(value) if whole else None


def place_in_line(person: bytes, cells: Iterable[int]) -> bytes:
    """By what records of a person are put in order, before their cells."""
    told = "".join(f"{c + 1}/" for c in cells).encode() + person
    return hashlib.md5(told, usedforsecurity=False).digest()


@final
class Persons:
    """Records that come in any order, and which of them are counted.

    Args:
        most: records of each person; None for all, in shares.
        names: of the attributes of the first cells of a record, by which they are put in order.
        pattern: to which the records that are counted of a person keep.
        merge: the amounts that are added up, with their codings; records come with the cells of `uncut` ones.

    What is held grows with the persons, and with how many different records each has.
    """

    def __init__(
        self,
        most: int | None,
        names: Sequence[str],
        pattern: Pattern = ANY,
        merge: Mapping[str, Coding] = MappingProxyType({}),
    ) -> None:
        self._most = most
        self._names = names
        self._pattern = pattern
        self._ranges = {names.index(a): range_of(coding) for a, coding in merge.items()}
        self._records: Multiset[tuple[bytes, Cells]] = Multiset()

    def add(self, persons: Iterable[bytes], cells: Iterable[Cells]) -> None:
        """Records more, each with its person and its cells."""
        self._records.update(zip(persons, cells, strict=True))

    def counted(self) -> Iterator[list[_Alike]]:
        """What is counted: cells, and how often, or in how many parts; a few thousand at a time."""
        every = (x for person, records in self._own().items() for x in self._first(person, records))
        while some := list(itertools.islice(every, _TOGETHER)):
            yield some

    def left_out(self) -> int:
        """Of how many persons some records are not counted."""
        return sum(_records(x) > _records(self._first(person, x)) for person, x in self._own().items())

    def _own(self) -> dict[bytes, list[_Alike]]:
        """The records of each person, those that are alike in all else as one where amounts are added up."""
        own: dict[bytes, list[_Alike]] = defaultdict(list)
        for (person, cells), n in self._records.items():
            own[person].append((cells, n))
        return {person: self._merged(records) for person, records in own.items()} if self._ranges else own

    def _merged(self, records: list[_Alike]) -> list[_Alike]:
        """One record of all that are alike but for amounts that are added up, with their sums."""
        last = 2 * FURTHEST
        found: dict[Cells, dict[int, int]] = {}
        for cells, n in records:
            alike = tuple(-1 if i in self._ranges and c <= last else c for i, c in enumerate(cells))
            sums = found.setdefault(alike, dict.fromkeys(self._ranges, 0))
            for i in self._ranges:
                sums[i] += n * (cells[i] - FURTHEST)
        out: list[_Alike] = []
        for alike, sums in found.items():
            one = list(alike)
            for i, (low, most) in self._ranges.items():
                one[i] = min(max(sums[i] - low, 0), most) if alike[i] < 0 else alike[i] - last + most
            out.append((tuple(one), 1))
        return out

    def _first(self, person: bytes, records: list[_Alike]) -> list[_Alike]:
        if self._most is None:
            return [(cells, n * (PARTS // _records(records))) for cells, n in records]
        if not self._pattern and _records(records) <= self._most:
            return records
        width = len(self._names)
        line = sorted(records, key=lambda r: (place_in_line(person, r[0][:width]), r[0]))
        return _capped(self._kept(line), (), self._most)

    def _kept(self, line: list[_Alike]) -> list[_Alike]:
        """Those of a line that keep to the pattern."""
        pattern, place = self._pattern, self._names.index
        for i in map(place, pattern.fixed):
            line = [r for r in line if r[0][i] == line[0][0][i]]
        for names, most in pattern.caps:
            line = _capped(line, [place(a) for a in names], most)
        for i, far in ((place(a), n) for a, n in pattern.separation):
            along = sorted(cells[i] for cells, _ in line)
            near = {cell for before, cell in itertools.pairwise(along) if cell - before < far}
            line = [r for r in line if r[0][i] not in near]
        return line


def _records(some: list[_Alike]) -> int:
    """How many they are."""
    return sum(n for _, n in some)


def _capped(line: list[_Alike], along: Sequence[int], most: int) -> list[_Alike]:
    """The first so many of a line in each joint cell along some attributes."""
    left: dict[Cells, int] = {}
    out = []
    for cells, n in line:
        own = tuple(cells[i] for i in along)
        some = min(n, left.get(own, most))
        left[own] = left.get(own, most) - some
        out += [(cells, some)] if some else []
    return out
