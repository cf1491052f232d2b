"""Trees of places, given by their leaves or by one number of places for each level. Part of the trust kernel."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import FrozenInstanceError, dataclass, field
from functools import cached_property
from itertools import accumulate, chain
from operator import itemgetter, mul
from typing import Any, final

import numpy as np

from fitnoise.errors import DomainError
from fitnoise.kernel.arrays import Indices, read_only
from fitnoise.kernel.checks import describe_value
from fitnoise.kernel.codings import MAX_RANGE_CELLS, Code, Codes, as_python, refuse_repeated


@final
@dataclass(frozen=True)
class ListedTree:
    """Nested levels of places: every place lies in one place of the level above.

    levels: The names of the levels, from the top down.
    rows: The code of every leaf on every level, in any order. The tree orders them: leaves of one place are
    consecutive, on every level, so that a place is a slice of leaves. Within the place above, places are ordered by
    first appearance.

    Raises:
        DomainError: There are fewer than two levels, or two of one name, or there are no rows.
        DomainError: A row does not have one code for each level, or a leaf appears twice. Or codes of one level are of
            mixed kinds.
        DomainError: A place lies in two places above it.
    """

    levels: tuple[str, ...]
    rows: tuple[tuple[Code, ...], ...]
    codes: tuple[tuple[Code, ...], ...] = field(init=False, repr=False, compare=False)
    """The codes of the places of every level, in the order of the leaves."""
    _above: tuple[Indices, ...] = field(init=False, repr=False, compare=False)
    """For each level the place of every leaf, shape (leaves,); increasing, as leaves of a place are consecutive."""
    _kinds: tuple[type, ...] = field(init=False, repr=False)
    """The type of the codes of each level. In comparisons it distinguishes True and 1, which are equal in Python."""

    def __post_init__(self) -> None:
        names = level_names(self.levels)
        leaves = _leaves(names, self.rows)
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
        # `lexsort` sorts by its last key first: here by the top level.
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
        # The first leaf has rank 0. A tree is priced and used again later: nothing may write to it (`immutable`).
        above = [read_only(np.cumsum(np.diff(rank[order], prepend=0) != 0)) for rank in ranks]
        leaves = list(map(leaves.__getitem__, order.tolist()))
        codes = (tuple(leaves[i][depth] for i in _starts(indices).tolist()) for depth, indices in enumerate(above))
        for name, value in (
            ("levels", names),
            ("rows", tuple(leaves)),
            ("codes", tuple(codes)),
            ("_above", tuple(above)),
            ("_kinds", tuple(map(type, leaves[0]))),
        ):
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the call that pickle makes to build the tree again."""
        # Pickled arrays would come back writeable.
        return ListedTree, (self.levels, self.rows)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of places of each level."""
        return tuple(map(len, self.codes))

    def above(self, depth: int, lower_level: int = -1) -> Indices:
        """Return the place above, on the level `depth`, of each place of the level `lower_level`.

        The default of `lower_level` is the level of the leaves. Both levels may be equal.
        """
        return np.asarray(self._above[depth][_starts(self._above[lower_level])])

    def children_per_place(self, upper: int, lower: int) -> int | None:
        """Return the number of places of a lower level in each place of an upper one; `None` if the numbers differ."""
        # Every place has a leaf below it, so no count is 0.
        counts = np.bincount(self.above(upper, lower))
        return int(counts[0]) if (counts == counts[0]).all() else None

    def max_leaves_sharing(self, levels: Iterable[tuple[int, int]]) -> int:
        """Return the largest number of leaves in one joint cell of some axes.

        A leaf lies in one place of the lower level and one of the upper level. Its cell on the axis is the position of
        the lower place in the upper place. If upper is −1, the position counts all places of the lower level.

        Args:
            levels: The depths (upper, lower) of the two levels of each axis, at least one axis.
        """
        cells = [self.above(lower) - self._first_leaves(upper, lower) for upper, lower in levels]
        return int(np.unique(np.stack(cells), axis=1, return_counts=True)[1].max())

    def _first_leaves(self, upper: int, lower: int) -> Indices | int:
        """Return, for every leaf, the first place of a lower level in its place of an upper one; 0 if `upper` is −1."""
        return 0 if upper < 0 else _starts(self.above(upper, lower))[self.above(upper)]


@final
@dataclass(frozen=True)
class RegularTree:
    """A tree with equally many places in all places of a level: it stores these numbers, and lists nothing.

    levels: See `ListedTree`.
    children: The number of places of the first level, then the number in each place of the level above. The code of a
    place is that of the place above, and its number there. Numbers start at 1, in as many digits as the last one needs.

    Raises:
        DomainError: There are fewer than two levels, or two of one name.
        DomainError: The children are not a list of one whole number of 1 or more for each level.
        DomainError: There are more than ten million leaves.
    """

    levels: tuple[str, ...]
    children: tuple[int, ...]

    def __post_init__(self) -> None:
        names = level_names(self.levels)
        listed = isinstance(self.children, Collection) and not isinstance(self.children, (str, bytes, Set, Mapping))
        if not listed or len(self.children) != len(names):
            got = f"a list of length {len(self.children)}" if listed else describe_value(self.children)
            raise DomainError(
                "children-invalid",
                f"The value of children is {got}.",
                f"It must be a list of one number for each of the levels {list(names)}.",
                "Give the number of places of the first level, then of each place of the level above.",
                "No hierarchy was made.",
                place="children",
            )
        numbers: list[int] = []
        for name, n in zip(names, map(as_python, self.children), strict=True):
            if isinstance(n, bool) or not isinstance(n, int) or n < 1:
                raise DomainError(
                    "children-number-invalid",
                    f"Each place above has {describe_value(n)} places of the level {name!r}.",
                    "This must be a whole number of 1 or more.",
                    "Correct this number.",
                    "No hierarchy was made.",
                    place="children",
                )
            numbers.append(n)
        if math.prod(numbers) > MAX_RANGE_CELLS:
            raise DomainError(
                "too-many-places",
                f"The hierarchy has more than ten million places of the level {names[-1]!r}.",
                "A level may have at most ten million places.",
                "Leave out the last level, or declare fewer places.",
                "No hierarchy was made.",
                place="children",
            )
        object.__setattr__(self, "levels", names)
        object.__setattr__(self, "children", tuple(numbers))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of places of each level."""
        return tuple(accumulate(self.children, mul))

    @cached_property
    def codes(self) -> tuple[tuple[Code, ...], ...]:
        """The codes of the places of every level."""
        codes: list[tuple[Code, ...]] = []
        above: tuple[str, ...] = ("",)
        for n in self.children:
            # Leading zeros give all codes of a level one length, so that two different places never have one code.
            numbers = [f"{i:0{len(str(n))}}" for i in range(1, n + 1)]
            above = tuple(code + number for code in above for number in numbers)
            codes.append(above)
        return tuple(codes)

    @property
    def rows(self) -> tuple[tuple[Code, ...], ...]:
        """The code of every leaf on every level."""
        columns = (map(codes.__getitem__, self.above(depth).tolist()) for depth, codes in enumerate(self.codes))
        return tuple(zip(*columns, strict=True))

    def above(self, depth: int, lower_level: int = -1) -> Indices:
        """Return the place above, on the level `depth`, of each place of the level `lower_level`.

        The default of `lower_level` is the level of the leaves. Both levels may be equal.
        """
        # Places of a level are numbered across the tree, and each upper place has equally many consecutive lower ones.
        return np.arange(self.sizes[lower_level]) // (self.sizes[lower_level] // self.sizes[depth])

    def children_per_place(self, upper: int, lower: int) -> int:
        """Return the number of places of a lower level in each place of an upper one."""
        return self.sizes[lower] // self.sizes[upper]

    def max_leaves_sharing(self, levels: Iterable[tuple[int, int]]) -> int:
        """Return the number of leaves in one joint cell, which is equal for all; see `ListedTree`."""
        # A cell of the axis (upper, lower) fixes the number of the place on each level below `upper`, down to `lower`.
        fixed = {depth for upper, lower in levels for depth in range(upper + 1, lower + 1)}
        return math.prod(n for depth, n in enumerate(self.children) if depth not in fixed)


Tree = ListedTree | RegularTree
"""Nested levels of places."""


@final
class LeafCodes(Codes):
    """The codes of a tree's leaves, and for each leaf its cell: the place on one level that contains the leaf.

    The cells, and the codes of a regular tree, are made at the first access, because plans need only the number of
    cells.
    """

    # The checks of `Codes` do not run again: the tree has checked its codes.
    def __init__(self, tree: Tree, depth: int) -> None:
        if type(tree) not in (ListedTree, RegularTree) or type(depth) is not int or not 0 <= depth < len(tree.levels):
            raise DomainError(
                "level-unknown",
                f"The depth of a level is {describe_value(depth)}.",
                "It must be a whole number from 0, below the number of levels of a tree.",
                "Name a level of the tree.",
                "No hierarchy was made.",
            )
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "_depth", depth)

    _tree: Tree
    _depth: int

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        # A tree determines its codes, and those of a regular tree are not listed for a comparison.
        return type(other) is type(self) and vars(other)["_tree"] == self._tree and vars(other)["_depth"] == self._depth

    def __hash__(self) -> int:
        return hash((self._tree, self._depth))

    @property
    def places(self) -> Tree:
        """The tree."""
        return self._tree

    @property
    def definition(self) -> list[Any]:
        """The codes of the leaves with their cells; for a regular tree, the numbers that determine both."""
        # The codes of a regular tree may be millions.
        return (
            ["Places", self._tree.children, self._depth] if isinstance(self._tree, RegularTree) else super().definition
        )

    @property
    def codes(self) -> tuple[Code, ...]:
        """The codes of the leaves."""
        return self._tree.codes[-1]

    @cached_property
    def shared(self) -> tuple[int, ...] | None:
        """The place of each leaf; `None` on the last level, where each leaf is a place itself."""
        last = self._depth == len(self._tree.levels) - 1
        return None if last else tuple(self._tree.above(self._depth).tolist())

    @property
    def kind(self) -> type[Code]:
        """The type of the codes; all have one type."""
        return type(self.codes[0])

    @property
    def size(self) -> int:
        """Number of places."""
        return self._tree.sizes[self._depth]


def level_names(levels: Sequence[str]) -> tuple[str, ...]:
    """Return the names of levels.

    Args:
        levels: The names, from the top down.

    Raises:
        DomainError: There are fewer than two, two of one name, or one that is not a non-empty text.
    """
    listed = isinstance(levels, Collection) and not isinstance(levels, (str, bytes))
    # Copied before the check: a subclass of str may give another text.
    names = tuple(str(x) if isinstance(x, str) else "" for x in levels) if listed else ()
    if len(names) < 2 or not all(names):
        raise DomainError(
            "levels-invalid",
            f"The value of levels is {levels!r}.",
            "A hierarchy needs at least two named levels, from the top down.",
            "Name the levels; for places of one level, declare a categorical attribute.",
            "No hierarchy was made.",
            place="levels",
        )
    refuse_repeated("level", names)
    return names


def _row(levels: tuple[str, ...], row: Sequence[Code]) -> tuple[Code, ...]:
    """Return the codes of a leaf, one for each level; raise DomainError if one is missing or the row is not a list."""
    if isinstance(row, (str, bytes)) or not isinstance(row, Collection) or len(row) != len(levels):
        raise DomainError(
            "place-row-invalid",
            f"The row of a place is {row!r}.",
            f"The row of a place is a list of codes, one for each of the levels {list(levels)}, and no more.",
            "Correct this row.",
            "No hierarchy was made.",
            place="places",
        )
    codes = tuple(as_python(code) for code in row)
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
    """Return rows in their stored form; raise DomainError for the first invalid one. Plain rows are checked at once."""
    listed_rows = list(rows)
    # A subclass could have other codes at the second reading.
    listed = set(map(type, listed_rows)) <= {tuple, list}
    if listed and set(map(len, listed_rows)) <= {len(levels)}:
        # These checks run over all rows without a Python loop. Only if they fail, `_row` looks for the row at fault.
        kinds = set(map(type, chain.from_iterable(listed_rows)))
        if kinds <= {str, int, bool} and "" not in chain.from_iterable(listed_rows):
            return list(map(tuple, listed_rows))
    return [_row(levels, row) for row in listed_rows]


def _ranks(codes: Sequence[Code]) -> Indices:
    """Return, for each code of a level, its rank by first appearance, (leaves,); raise DomainError for mixed kinds."""
    # Of mixed kinds, one code each suffices for the error of `Codes`. As keys, 1 and True would be one code.
    kinds = dict(zip(map(type, codes), codes, strict=True))
    different = Codes(tuple(dict.fromkeys(codes) if len(kinds) == 1 else kinds.values())).codes
    rank = {code: i for i, code in enumerate(different)}
    return np.fromiter(map(rank.__getitem__, codes), dtype=np.intp, count=len(codes))


def _starts(numbers: Indices) -> Indices:
    """Return the first position of each number, for numbers from 0 in which each is equal to the last or 1 more."""
    return np.flatnonzero(np.diff(numbers, prepend=-1))


def _refuse_two_parents(
    levels: tuple[str, ...], rows: Sequence[tuple[Code, ...]], ranks: Sequence[Indices], depth: int
) -> None:
    """Raise DomainError for the first place of the level `depth` that lies in two places of the level above."""
    here, above = ranks[depth], ranks[depth - 1]
    firsts = _starts(np.maximum.accumulate(here))  # each new rank exceeds all before it by 1 (`_ranks`)
    wrong = np.flatnonzero(above[firsts[here]] != above)
    if len(wrong):
        row, parent = rows[wrong[0]], rows[firsts[here[wrong[0]]]][depth - 1]
        raise DomainError(
            "place-in-two-places",
            f"The {levels[depth]} {row[depth]!r} lies in {parent!r} and in {row[depth - 1]!r}, two places of the "
            f"level {levels[depth - 1]!r}.",
            "Each place must lie in one place of the level above.",
            f"If the levels are not named from the top down, change their order. Otherwise give each {levels[depth]} "
            f"its own code, such as one that starts with the code of its {levels[depth - 1]}.",
            "No hierarchy was made.",
            place="places",
        )
