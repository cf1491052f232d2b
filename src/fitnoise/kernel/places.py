"""A tree of places, known by its leaves. Part of the trust kernel."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self, final

import numpy as np

from fitnoise.errors import DomainError
from fitnoise.kernel.arrays import Indices
from fitnoise.kernel.codings import Code, Codes, plain, refuse_repeated


@final
@dataclass(frozen=True, eq=False)
class Tree:
    """Nested levels of places: every place lies in one place of the level above.

    levels: their names, from the top down. rows: the code of every leaf on every level. Leaves of one place stand
    together, on every level, so that a place is a slice of leaves. codes: of the places of every level.
    """

    levels: tuple[str, ...]
    rows: tuple[tuple[Code, ...], ...]
    codes: tuple[tuple[Code, ...], ...] = field(init=False)
    _above: tuple[Indices, ...] = field(init=False)

    def __post_init__(self) -> None:
        columns = [[row[depth] for row in self.rows] for depth in range(len(self.levels))]
        codes = tuple(tuple(dict.fromkeys(column)) for column in columns)
        above = []
        for own, column in zip(codes, columns, strict=True):
            place = {code: i for i, code in enumerate(own)}
            above.append(np.array([place[code] for code in column], dtype=np.intp))
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "_above", tuple(above))

    @classmethod
    def of(cls, levels: Sequence[str], rows: Iterable[Sequence[Code]]) -> Self:
        """The tree of some leaves in whatever order: on every level places stand as they first appear.

        Raises:
            DomainError: fewer than two levels, two of one name, a row that lacks a code, codes of mixed kinds, a leaf
                that is listed twice, or a place in two places above it.
        """
        names = level_names(levels)
        leaves = [_row(names, row) for row in rows]
        if not leaves:
            raise DomainError(f"a hierarchy needs at least one {names[-1]!r}; its list of places is empty.")
        ranks = [_ranks([row[depth] for row in leaves]) for depth in range(len(names))]
        for depth in range(1, len(names)):
            _refuse_two_parents(names, leaves, depth)
        leaves.sort(key=lambda row: [rank[code] for rank, code in zip(ranks, row, strict=True)])
        for one, other in itertools.pairwise(leaves):
            if one == other:
                raise DomainError(
                    f"the {names[-1]} {one[-1]!r} is listed twice; places have one row for each {names[-1]!r}."
                )
        return cls(names, tuple(leaves))

    def above(self, depth: int, of: int = -1) -> Indices:
        """The place of a level in which each place of another one lies, below it or the same; of each leaf, if none."""
        inner = self._above[of]
        first = np.flatnonzero(np.diff(inner, prepend=-1))
        return np.asarray(self._above[depth][first])

    def share(self, upper: int, lower: int) -> int | None:
        """How many places of a lower level each place of an upper one has; None where they have different numbers."""
        counts = np.bincount(self.above(upper, lower))
        return int(counts[0]) if (counts == counts[0]).all() else None


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
            f"a hierarchy has two named levels or more, from the top down; got {levels!r}. Places of a single "
            "level are a categorical attribute."
        )
    names = tuple(levels)
    refuse_repeated("level", names)
    return names


def _row(levels: tuple[str, ...], row: Sequence[Code]) -> tuple[Code, ...]:
    if isinstance(row, (str, bytes)) or not isinstance(row, Collection) or len(row) != len(levels):
        raise DomainError(f"a place has one code for each of the levels {list(levels)}; got {row!r}.")
    codes = tuple(plain(code) for code in row)
    for name, code in zip(levels, codes, strict=True):
        if code is None or code == "":
            what = f"the place {codes!r} has" if name == levels[-1] else f"the {levels[-1]} {codes[-1]!r} lies in"
            raise DomainError(f"{what} no {name}: a leaf has a code on every level.")
    return codes


def _ranks(codes: Sequence[Code]) -> dict[Code, int]:
    """The codes of a level in the order of their appearance; DomainError unless they are alike."""
    different = Codes(tuple(code for _, code in dict.fromkeys((type(code), code) for code in codes))).codes
    return {code: i for i, code in enumerate(different)}


def _refuse_two_parents(levels: tuple[str, ...], rows: Sequence[tuple[Code, ...]], depth: int) -> None:
    parents: dict[Code, Code] = {}
    for row in rows:
        first = parents.setdefault(row[depth], row[depth - 1])
        if first != row[depth - 1]:
            raise DomainError(
                f"the {levels[depth]} {row[depth]!r} lies in two places of the level {levels[depth - 1]!r}, {first!r} "
                f"and {row[depth - 1]!r}; give each {levels[depth]} a code of its own, such as one that begins with "
                f"its {levels[depth - 1]}'s."
            )
