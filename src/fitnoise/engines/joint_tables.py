"""The choice of joint tables: margins that are counted in one table and summed down from there.

**Purpose.** The cost of a margin is the computation of each record's place in it. So margins that fit into a table of a
few thousand cells are counted jointly, once. All 190 pairs of twenty attributes of ten values are about 40 such tables.
All 161,700 triples of a hundred yes/no questions are about 3,200. The choice changes no count, only the time.
"""

from __future__ import annotations

from collections import Counter as Multiset
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from fitnoise.kernel.counting import Margin
from fitnoise.kernel.counting.joint_counts import JointMargin

_MAX_MARGIN_ATTRIBUTES: Final = 6
"""The largest number of attributes of a margin in a joint table: larger margins have too many subsets."""

_MAX_JOINT_ATTRIBUTES: Final = 12
"""The largest number of attributes of a joint table, for that reason."""


@final
@dataclass(frozen=True)
class CountingTimes:
    """The nanoseconds to count a record, to begin a table, to begin a sum, and to add up one cell of a table.

    They were measured once, here for this module itself. A factor of two in one of them makes little difference.
    """

    record: float = 1.0
    table: float = 20e3
    sum: float = 8e3
    cell: float = 1.5


def joint_tables(
    margins: Sequence[Margin], sizes: Mapping[str, int], records: int, prices: CountingTimes = CountingTimes()
) -> list[JointMargin]:
    """Return tables that hold each margin once, chosen so that counting this number of records takes little time.

    Each table starts as the first margin that has none yet. It grows by the attribute that lowers the time per margin
    most, for as long as one does. It grows to at most 12 attributes, and to at most as many cells as there are records.
    A margin of more than 6 attributes is a table of its own.
    """
    number = {a: i for i, a in enumerate(sizes)}
    margins_of: dict[int, list[Margin]] = {}  # sets of attributes as bits
    for m in dict.fromkeys(margins):
        margins_of.setdefault(sum(1 << number[a] for a in m), []).append(m)
    sets = {s: [number[a] for a in ms[0]] for s, ms in margins_of.items()}
    search = _JointTableSearch(sets, list(sizes.values()), records, prices)
    names = list(sizes)
    tables = []
    for s, (margin, *_) in margins_of.items():
        if s in search.uncovered:
            axes, members = search.grow(s, [number[a] for a in margin])
            attributes = tuple(names[a] for a in axes)
            held = [m for x in members for m in margins_of[x]]
            tables.append(JointMargin(attributes, attributes in held, tuple(m for m in held if m != attributes)))
    return tables


@final
class _JointTableSearch:
    """The state of `joint_tables`. Attributes are numbers; sets of them are bits of an integer.

    uncovered: The sets that no table holds yet.
    beyond: For every set of attributes, the attributes each of which, added, makes it an uncovered set.
    """

    def __init__(
        self, sets: Mapping[int, Sequence[int]], sizes: Sequence[int], records: int, prices: CountingTimes
    ) -> None:
        self._sets = sets
        self._sizes = sizes
        self._records = records
        self._prices = prices
        self._depth = max((len(s) for s in sets.values() if len(s) <= _MAX_MARGIN_ATTRIBUTES), default=0)
        self.uncovered = set(sets)
        self.beyond: dict[int, set[int]] = {}
        for s, attributes in sets.items():
            if len(attributes) <= _MAX_MARGIN_ATTRIBUTES:
                for a in attributes:
                    self.beyond.setdefault(s ^ 1 << a, set()).add(a)

    def grow(self, start: int, attributes: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return the attributes of a table around a set, and the sets that it holds, removed from `uncovered`."""
        if not 0 < len(attributes) <= _MAX_MARGIN_ATTRIBUTES:
            self.uncovered.remove(start)
            return list(attributes), [start]
        table: list[int] = []
        held: list[int] = []
        cells = 1
        inside: list[list[int]] = [[0], *([] for _ in range(1, self._depth))]  # subsets of the table, by their length
        gains = Multiset(self.beyond.get(0, ()))  # how many more sets the table would hold with another attribute
        queue = list(attributes)
        while queue:
            a = queue.pop(0)
            self._take([s | 1 << a for layer in inside for s in layer if a in self.beyond.get(s, ())], held)
            # From long to short, so that no subset that has just got `a` gets it again.
            for length in range(self._depth - 1, 0, -1):
                new = [s | 1 << a for s in inside[length - 1]]
                inside[length] += new
                for s in new:
                    gains.update(self.beyond.get(s, ()))
            table.append(a)
            cells *= self._sizes[a]
            del gains[a]
            if not queue and len(table) < _MAX_JOINT_ATTRIBUTES:
                queue = self._next(cells, len(held), gains)
        return table, held

    def _take(self, sets: list[int], held: list[int]) -> None:
        for s in sets:
            held.append(s)
            self.uncovered.remove(s)
            for a in self._sets[s]:
                self.beyond[s ^ 1 << a].remove(a)

    def _next(self, cells: int, held: int, gains: Multiset[int]) -> list[int]:
        """Return the attribute that lowers the time per margin most, alone in a list; an empty list if none lowers it.

        Of equal attributes it is the first. The table keeps at most as many cells as there are records.

        Args:
            cells: The number of cells of the table so far.
            held: The number of sets that the table holds.
            gains: For each attribute, the number of sets that the table would hold in addition.
        """
        p = self._prices
        # One number, the time per margin, is compared. A table with one margin needs no sum: it is counted in place.
        once = self._records * p.record + p.table
        max_size = self._records // cells
        best = once if held == 1 else once / held + p.sum + cells * p.cell
        choice = -1
        for a, gain in gains.items():
            size = self._sizes[a]
            if gain and size <= max_size:
                cost = once / (held + gain) + p.sum + cells * size * p.cell
                if cost < best or (cost == best and a < choice):
                    best, choice = cost, a
        return [] if choice < 0 else [choice]
