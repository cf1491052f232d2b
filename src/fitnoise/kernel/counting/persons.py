"""Which records of a person are counted, where there is a bound. Part of the trust kernel.

A person is who is under one id: texts and integers, told apart byte by byte in UTF-8, an integer by its decimal text.
An empty text is no id, as in a CSV file, nor is one of more than 1,024 bytes, which not every engine compares to its
end; nor is a truth value, or a number with a point, even 1.0, which is written in many ways. A record without an id is
outside, as one with a value outside the domain is.

**The rule.** Of the records of a person that are inside the domain, over the cells of *all* its attributes c₁, c₂, …,
counted from 1:

    order by the MD5 of "c₁/c₂/…/id", then by c₁, c₂, …; the first g are counted

Where a person has one record for each joint cell of some attributes, the first of each cell are lined up, and the
first g of these are counted. It goes by cells: by what is read, texts that share a cell would each keep a record.

So what is counted of a person depends on nothing but her own records: on no other record, no order of rows, collation
or engine, and not on which tables are asked for. Records with the same cells are alike, and which of them are counted
makes no difference. A record more adds at most one that is counted, and then pushes out at most one: that of its own
joint cell, in whose place it then is or before, or the last of the first g. The digest is no secret and needs to be
none; it only favours no cell.
"""

from __future__ import annotations

import hashlib
import itertools
import numbers
from collections import Counter as Multiset
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

from fitnoise.kernel.codings import encodable, written
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.units import Bound

PERSON: Final = ""
"""What stands for the id among attributes, of which none is called so."""

IDS: Final = "an id is an integer or a text of at most 1,024 bytes"

LONGEST: Final = 1024
"""Bytes of an id."""

_TOGETHER: Final = 2**14
"""Different records that are handed over at a time."""

Cells = tuple[int, ...]
"""Of a record, over all attributes of the domain, from 0."""


def counted_by(domain: Domain, margins: Sequence[Sequence[str]], bound: Bound | None, *, drop: bool) -> dict[str, int]:
    """The attributes by which records are counted, with their sizes; with a bound all of the domain, and the id.

    Beside those asked for, there are all of the domain for whose values records are left out: of all margins alike.
    """
    asked = {a for m in margins for a in m}
    homes = {domain.home(a) for a in asked}  # a level of a hierarchy tells as much of that
    asked |= {a for a in domain.drops(drop) if a not in homes} | (set(domain) if bound is not None else set())
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
        most: records of each person.
        width: of the cells of a record so many, the first, are those by which they are put in order.
        once: which of these cells no two records that are counted of a person have all in common; none: any may.

    What is held grows with the persons, and with how many different records each has.
    """

    def __init__(self, most: int, width: int, once: Sequence[int] = ()) -> None:
        self._most = most
        self._width = width
        self._once = once
        self._records: Multiset[tuple[bytes, Cells]] = Multiset()

    def add(self, persons: Iterable[bytes], cells: Iterable[Cells]) -> None:
        """Records more, each with its person and its cells."""
        self._records.update(zip(persons, cells, strict=True))

    def counted(self) -> Iterator[list[tuple[Cells, int]]]:
        """What is counted: cells, and how often; a few thousand at a time."""
        own: dict[bytes, list[tuple[Cells, int]]] = defaultdict(list)
        for (person, cells), n in self._records.items():
            own[person].append((cells, n))
        every = (x for person, records in own.items() for x in self._first(person, records))
        while some := list(itertools.islice(every, _TOGETHER)):
            yield some

    def _first(self, person: bytes, records: list[tuple[Cells, int]]) -> list[tuple[Cells, int]]:
        if not self._once and sum(n for _, n in records) <= self._most:
            return records
        left, out, seen = self._most, list[tuple[Cells, int]](), set[Cells]()
        for cells, n in sorted(records, key=lambda r: (place_in_line(person, r[0][: self._width]), r[0])):
            own = tuple(cells[i] for i in self._once)
            most = left if not own else 0 if own in seen else min(1, left)
            seen.add(own)
            out.append((cells, min(n, most)))
            left -= out[-1][1]
        return [x for x in out if x[1]]
