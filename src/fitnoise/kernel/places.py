"""Trees of places, known by their leaves or by how many places each has. Part of the trust kernel."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, chain
from operator import itemgetter, mul
from typing import Any, Self, final

import numpy as np

from fitnoise.errors import DomainError
from fitnoise.kernel.arguments import shown
from fitnoise.kernel.arrays import Indices
from fitnoise.kernel.codings import MOST_CELLS, Code, Codes, plain, refuse_repeated


@final
@dataclass(frozen=True)
class Listed:
    """Nested levels of places: every place lies in one place of the level above.

    levels: their names, from the top down. rows: the code of every leaf on every level. Leaves of one place stand
    together, on every level, so that a place is a slice of leaves. codes: of the places of every level.
    """

    levels: tuple[str, ...]
    rows: tuple[tuple[Code, ...], ...]
    codes: tuple[tuple[Code, ...], ...] = field(repr=False, compare=False)
    _above: tuple[Indices, ...] = field(repr=False, compare=False)

    @classmethod
    def of(cls, levels: Sequence[str], rows: Iterable[Sequence[Code]]) -> Self:
        """The tree of some leaves in whatever order: on every level places stand as they first appear.

        Raises:
            DomainError: fewer than two levels, two of one name, a row that lacks a code, codes of mixed kinds, a leaf
                that is listed twice, or a place in two places above it.
        """
        names = level_names(levels)
        leaves = _leaves(names, rows)
        if not leaves:
            raise DomainError(
                "places-empty",
                "The list of places is empty.",
                f"A hierarchy needs at least one {names[-1]!r}.",
                "Add a row for each place.",
                "No hierarchy was made.",
                place="places",
            )
        ranks = [_ranks(list(map(itemgetter(depth), leaves))) for depth in range(len(names))]
        for depth in range(1, len(names)):
            _refuse_two_parents(names, leaves, ranks, depth)
        order = np.lexsort(ranks[::-1])
        twice = np.flatnonzero(np.diff(ranks[-1][order]) == 0)
        if len(twice):
            code = leaves[order[twice[0]]][-1]
            raise DomainError(
                "place-repeated",
                f"The {names[-1]} {code!r} is listed twice.",
                f"Places have one row for each {names[-1]!r}.",
                "Remove one of the two rows.",
                "No hierarchy was made.",
                place="places",
            )
        above = [np.cumsum(np.diff(rank[order], prepend=0) != 0) for rank in ranks]  # the first leaf has rank 0
        for own in above:
            own.setflags(write=False)
        leaves = list(map(leaves.__getitem__, order.tolist()))
        codes = (tuple(leaves[i][depth] for i in _starts(own).tolist()) for depth, own in enumerate(above))
        return cls(names, tuple(leaves), tuple(codes), tuple(above))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to make it again: the arrays of a plain copy could be written to."""
        return Listed.of, (self.levels, self.rows)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many places each level has."""
        return tuple(map(len, self.codes))

    def above(self, depth: int, of: int = -1) -> Indices:
        """The place of a level in which each place of another one lies, below it or the same; of each leaf, if none."""
        return np.asarray(self._above[depth][_starts(self._above[of])])

    def share(self, upper: int, lower: int) -> int | None:
        """How many places of a lower level each place of an upper one has; None where they have different numbers."""
        counts = np.bincount(self.above(upper, lower))
        return int(counts[0]) if (counts == counts[0]).all() else None

    def together(self, along: Iterable[tuple[int, int]]) -> int:
        """How many leaves lie in one joint cell at most.

        along: of each axis two levels (upper, lower). It tells which place of the lower one a leaf lies in, of those of
            its upper place; of all, where upper is −1.
        """
        cells = [self.above(lower) - self._first(upper, lower) for upper, lower in along]
        return int(np.unique(np.stack(cells), axis=1, return_counts=True)[1].max())

    def _first(self, upper: int, lower: int) -> Indices | int:
        """Of every leaf the first place of a lower level in its place of an upper one."""
        return 0 if upper < 0 else _starts(self.above(upper, lower))[self.above(upper)]


@final
@dataclass(frozen=True)
class Regular:
    """A tree in which all places of a level have equally many places: known by these numbers, and nothing is listed.

    levels: as of `Listed`. children: how many places the first level has, and then each place of the level above. The
    code of a place is that of the place above, and its number there: from 1, in as many digits as the last one needs.
    """

    levels: tuple[str, ...]
    children: tuple[int, ...]

    @classmethod
    def of(cls, levels: Sequence[str], children: Collection[int]) -> Self:
        """The tree of such numbers.

        Raises:
            DomainError: fewer than two levels, two of one name, not a whole number of 1 or more for each, or more than
                ten million leaves.
        """
        names = level_names(levels)
        listed = isinstance(children, Collection) and not isinstance(children, (str, bytes, Set, Mapping))
        if not listed or len(children) != len(names):
            got = f"a list of length {len(children)}" if listed else shown(children)
            raise DomainError(
                "children-invalid",
                f"The value of children is {got}.",
                f"It must be a list of one number for each of the levels {list(names)}.",
                "Give the number of places of the first level, then of each place of the level above.",
                "No hierarchy was made.",
                place="children",
            )
        numbers: list[int] = []
        for name, n in zip(names, map(plain, children), strict=True):
            if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                raise DomainError(
                    "children-number-invalid",
                    f"Each place above has {shown(n)} places of the level {name!r}.",
                    "This must be a whole number of 1 or more.",
                    "Correct this number.",
                    "No hierarchy was made.",
                    place="children",
                )
            numbers.append(n)
        if math.prod(numbers) > MOST_CELLS:
            raise DomainError(
                "too-many-places",
                f"The hierarchy has more than ten million places of the level {names[-1]!r}.",
                "A level may have at most ten million places.",
                "Leave out the last level, or declare fewer places.",
                "No hierarchy was made.",
                place="children",
            )
        return cls(names, tuple(numbers))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many places each level has."""
        return tuple(accumulate(self.children, mul))

    @cached_property
    def codes(self) -> tuple[tuple[Code, ...], ...]:
        """Of the places of every level."""
        found: list[tuple[Code, ...]] = []
        above: tuple[str, ...] = ("",)
        for n in self.children:
            own = [f"{i:0{len(str(n))}}" for i in range(1, n + 1)]
            above = tuple(code + number for code in above for number in own)
            found.append(above)
        return tuple(found)

    @property
    def rows(self) -> tuple[tuple[Code, ...], ...]:
        """The code of every leaf on every level."""
        columns = (map(own.__getitem__, self.above(depth).tolist()) for depth, own in enumerate(self.codes))
        return tuple(zip(*columns, strict=True))

    def above(self, depth: int, of: int = -1) -> Indices:
        """The place of a level in which each place of another one lies, below it or the same; of each leaf, if none."""
        return np.arange(self.sizes[of]) // (self.sizes[of] // self.sizes[depth])

    def share(self, upper: int, lower: int) -> int:
        """How many places of a lower level each place of an upper one has."""
        return self.sizes[lower] // self.sizes[upper]

    def together(self, along: Iterable[tuple[int, int]]) -> int:
        """How many leaves lie in one joint cell, whichever it is; see `Listed`."""
        told = {depth for upper, lower in along for depth in range(upper + 1, lower + 1)}
        return math.prod(n for depth, n in enumerate(self.children) if depth not in told)


Tree = Listed | Regular
"""Nested levels of places."""


@final
class Leaves(Codes):
    """The codes of a tree's leaves, which it has checked, each in the cell of its place on one level.

    Made when first asked for, as plans need no more than the number of cells.
    """

    def __init__(self, tree: Tree, depth: int) -> None:
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "_depth", depth)

    _tree: Tree
    _depth: int

    @property
    def codes(self) -> tuple[Code, ...]:
        """Of the leaves."""
        return self._tree.codes[-1]

    @cached_property
    def shared(self) -> tuple[int, ...] | None:
        """For each leaf its place; None on the last level, where it is one itself."""
        last = self._depth == len(self._tree.levels) - 1
        return None if last else tuple(self._tree.above(self._depth).tolist())

    @property
    def kind(self) -> type[Code]:
        """Of the codes, which are alike."""
        return type(self.codes[0])

    @property
    def size(self) -> int:
        """Number of places."""
        return self._tree.sizes[self._depth]


def level_names(levels: Sequence[str]) -> tuple[str, ...]:
    """The names of levels.

    Args:
        levels: from the top down.

    Raises:
        DomainError: fewer than two, or two of one name.
    """
    listed = isinstance(levels, Collection) and not isinstance(levels, (str, bytes))
    if not listed or not all(isinstance(x, str) and x for x in levels) or len(levels) < 2:
        raise DomainError(
            "levels-invalid",
            f"The value of levels is {levels!r}.",
            "A hierarchy needs at least two named levels, from the top down.",
            "Name the levels; for places of one level, declare a categorical attribute.",
            "No hierarchy was made.",
            place="levels",
        )
    names = tuple(levels)
    refuse_repeated("level", names)
    return names


def _row(levels: tuple[str, ...], row: Sequence[Code]) -> tuple[Code, ...]:
    if isinstance(row, (str, bytes)) or not isinstance(row, Collection) or len(row) != len(levels):
        raise DomainError(
            "place-row-invalid",
            f"The row of a place is {row!r}.",
            f"A place needs one code for each of the levels {list(levels)}.",
            "Correct this row.",
            "No hierarchy was made.",
            place="places",
        )
    codes = tuple(plain(code) for code in row)
    for name, code in zip(levels, codes, strict=True):
        if code is None or code == "":
            what = f"The place {codes!r} has" if name == levels[-1] else f"The {levels[-1]} {codes[-1]!r} lies in"
            raise DomainError(
                "place-code-missing",
                f"{what} no {name}.",
                "A leaf needs a code on every level.",
                "Add the missing code.",
                "No hierarchy was made.",
                place="places",
            )
    return codes


def _leaves(levels: tuple[str, ...], rows: Iterable[Sequence[Code]]) -> list[tuple[Code, ...]]:
    """Rows as they are kept; DomainError for the first that is none. Plain ones are judged all at once."""
    given = list(rows)
    listed = all(issubclass(kind, (tuple, list)) for kind in set(map(type, given)))
    if listed and set(map(len, given)) <= {len(levels)}:
        kinds = set(map(type, chain.from_iterable(given)))
        if kinds <= {str, int, bool} and "" not in chain.from_iterable(given):
            return list(map(tuple, given))
    return [_row(levels, row) for row in given]


def _ranks(codes: Sequence[Code]) -> Indices:
    """For each code of a level how many others appear first, (leaves,); DomainError unless all are alike."""
    kinds = dict(zip(map(type, codes), codes, strict=True))
    different = Codes(tuple(dict.fromkeys(codes) if len(kinds) == 1 else kinds.values())).codes
    rank = {code: i for i, code in enumerate(different)}
    return np.fromiter(map(rank.__getitem__, codes), dtype=np.intp, count=len(codes))


def _starts(numbers: Indices) -> Indices:
    """Where each number that was not there before first stands, of numbers from 0 that increase by 1 at most."""
    return np.flatnonzero(np.diff(numbers, prepend=-1))


def _refuse_two_parents(
    levels: tuple[str, ...], rows: Sequence[tuple[Code, ...]], ranks: Sequence[Indices], depth: int
) -> None:
    own, above = ranks[depth], ranks[depth - 1]
    firsts = _starts(np.maximum.accumulate(own))  # by rank, as places are ranked by where they first appear
    wrong = np.flatnonzero(above[firsts[own]] != above)
    if len(wrong):
        row, first = rows[wrong[0]], rows[firsts[own[wrong[0]]]][depth - 1]
        raise DomainError(
            "place-in-two-places",
            f"The {levels[depth]} {row[depth]!r} lies in {first!r} and in {row[depth - 1]!r}, two places of the "
            f"level {levels[depth - 1]!r}.",
            "Each place must lie in one place of the level above.",
            f"Give each {levels[depth]} its own code, such as one that starts with the code of its "
            f"{levels[depth - 1]}.",
            "No hierarchy was made.",
            place="places",
        )
