"""Areas that are unions of places of any levels, such as school districts."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import scipy.sparse as sp

from fitnoise.errors import DomainError, ReleaseError
from fitnoise.kernel.arrays import Indices
from fitnoise.kernel.places import Tree
from fitnoise.reading.refusals import UNESTIMATED
from fitnoise.request.attributes import Attribute
from fitnoise.request.csv_rows import read_rows
from fitnoise.request.domain import Domain

AREA = "area"
"""The name under which areas are requested and break numbers down."""


@final
@dataclass(frozen=True, eq=False)
class Areas:
    """Some unions of leaves of one hierarchy; a leaf may be in several.

    home: The name of the hierarchy.
    names: The name of each area; None for a single area without a name.
    leaves: 1 where a leaf is in an area, (areas, leaves).
    depth: The depth of the uppermost level on which every area is a union of complete places.
    """

    home: str
    names: tuple[str, ...] | None
    leaves: sp.csr_array
    depth: int

    @classmethod
    def from_places(cls, domain: Domain, areas: Any) -> Areas:
        """Return the requested areas: one as a list of places, several as a mapping from their names to such lists.

        A place is a code of any level, or a tuple of a level and its code.

        Raises:
            ReleaseError: There is not exactly one hierarchy. Or the mapping is empty, or a name in it is
                empty or no text. Or an area is no list of places or is empty. Or a tuple names no level, or a code is
                of no place, or of different places of several levels.
        """
        homes = [(name, a, a.tree) for name, a in domain.items() if a.tree is not None]
        if len(homes) != 1:
            raise ReleaseError(
                "areas-without-hierarchy",
                f"Areas are given, and the release has {len(homes)} hierarchies.",
                "An area is a union of places of the one hierarchy of a release.",
                "Give values of a level or an attribute by its name.",
                UNESTIMATED,
                place=AREA,
            )
        if isinstance(areas, Mapping):
            names, lists = tuple(areas), list(areas.values())
            if not names or not all(isinstance(name, str) and name for name in names):
                raise ReleaseError(
                    "areas-without-names",
                    "A mapping of areas is empty, or a name in it is empty or no text.",
                    "Each area needs a name.",
                    "Give a mapping from names to lists of places.",
                    UNESTIMATED,
                    place=AREA,
                )
        else:
            names, lists = None, [areas]
        home, hierarchy, tree = homes[0]
        book = _PlaceIndex(hierarchy, tree)
        rows = [
            book.leaves(area, "" if names is None else f" of the area {names[i]!r}") for i, area in enumerate(lists)
        ]
        # the leaves of an area are increasing, each once, as a sparse row needs them
        data = np.ones(sum(map(len, rows)))
        ends = np.cumsum([0, *map(len, rows)])
        incidence = sp.csr_array((data, np.concatenate(rows), ends), shape=(len(rows), hierarchy.size))
        return cls(home, names, incidence, book.depth(incidence))


class _PlaceIndex:
    """The places of a hierarchy by code."""

    def __init__(self, hierarchy: Attribute, tree: Tree) -> None:
        self._hierarchy = hierarchy
        self._above = [tree.above(depth) for depth in range(len(tree.levels))]
        # leaves are in the order of the tree, so a place is a slice of them: these are its two ends
        self._ends = [np.searchsorted(above, np.arange(int(above[-1]) + 2)) for above in self._above]

    def leaves(self, places: Any, whose: str) -> Indices:
        """Return the leaves of some places, increasing, each once.

        Args:
            places: The places of one area, as :meth:`Areas.from_places` takes them.
            whose: Words that name the area in an error; empty without a name.

        Raises:
            ReleaseError: As for :meth:`Areas.from_places`.
        """
        if isinstance(places, (str, bytes, Mapping)) or not isinstance(places, Iterable):
            raise ReleaseError(
                "area-not-a-list",
                f"The places{whose} are {reprlib.repr(places)}.",
                "An area is a list of places.",
                "Write a single place as a list, too.",
                UNESTIMATED,
                place=AREA,
            )
        leaf_runs = [np.arange(*self._leaf_range(code, whose)) for code in places]
        if not leaf_runs:
            raise ReleaseError(
                "area-without-places",
                f"The list of places{whose} is empty.",
                "An area is a list of one place or more.",
                "Add a place, or remove the area.",
                UNESTIMATED,
                place=AREA,
            )
        return np.unique(np.concatenate(leaf_runs))

    def _leaf_range(self, given_place: Any, whose: str) -> tuple[int, int]:
        """Return the first leaf of a place, and the one after its last leaf."""
        levels: Sequence[str] = self._hierarchy.levels
        code: Any = given_place
        if isinstance(given_place, tuple):
            if len(given_place) != 2 or given_place[0] not in levels:
                raise ReleaseError(
                    "wrong-place-of-area",
                    f"{given_place!r}{whose} is no place.",
                    f"A place is a code, or a pair of one of the levels {list(levels)} and a code.",
                    "Write the place so.",
                    UNESTIMATED,
                    place=AREA,
                )
            levels, code = [given_place[0]], given_place[1]
        level_by_range: dict[tuple[int, int], str] = {}
        for name in levels:
            depth = self._hierarchy.levels.index(name)
            try:
                cell = self._hierarchy.views[depth].position(code)
            except DomainError:
                continue
            # a place with one child of its own code is one place: both levels give the same leaves
            level_by_range.setdefault((int(self._ends[depth][cell]), int(self._ends[depth][cell + 1])), name)
        if not level_by_range:
            raise ReleaseError(
                "unknown-place-of-area",
                f"There is no place {code!r}{whose} on the levels {list(levels)}.",
                "",
                "Give the code of a place of these levels.",
                UNESTIMATED,
                place=AREA,
            )
        if len(level_by_range) > 1:
            raise ReleaseError(
                "ambiguous-place-of-area",
                f"{code!r}{whose} is the code of different places on the levels {list(level_by_range.values())}.",
                "",
                f"Name the level, as in {(next(iter(level_by_range.values())), code)!r}.",
                UNESTIMATED,
                place=AREA,
            )
        return next(iter(level_by_range))

    def depth(self, areas: sp.csr_array) -> int:
        """Return the depth of the uppermost level on which every area is a union of complete places."""
        for depth, ends in enumerate(self._ends[:-1]):
            # leaves of each area in each place that it meets: all or not all leaves of this place
            sums = sp.csr_array(areas @ self._gathered(depth))
            if (sums.data == np.diff(ends)[sums.indices]).all():
                return depth
        return len(self._ends) - 1

    def _gathered(self, depth: int) -> sp.csr_array:
        """Return the places of a level by leaf: 1 where a leaf is in a place, (leaves, places)."""
        above = self._above[depth]
        n = len(above)
        return sp.csr_array((np.ones(n), above, np.arange(n + 1)), shape=(n, int(above[-1]) + 1))


def read_areas(path: str | Path, domain: Domain) -> dict[str, list[Any]]:
    """Read areas from a CSV file of two columns: the name of an area, and the code of a place there.

    Each place of an area has a row. The result has a list of places for each area, for :meth:`Areas.from_places`.

    If the header of the second column is a level, its codes are of that level, otherwise of any level.

    Raises:
        ReleaseError: The file cannot be read, or has other columns, or a row without both values. Or a code is a text
            on one level and a number on another, and the header of the second column is no level.
    """
    path = Path(path)
    header, rows = read_rows(path, "the file of areas", ReleaseError)
    if len(header) != 2:
        raise ReleaseError(
            "wrong-columns-of-areas",
            f"The file of areas {path.name!r} has the columns {header}.",
            "It needs two columns: the name of an area and the code of a place.",
            "Correct the columns.",
            UNESTIMATED,
            place=path.name,
        )
    # a file has texts alone, and the codes of a domain are texts or whole numbers
    texts: dict[str, Any] = {}
    for code in (code for name in domain for code in _codes(domain, name, header[1])):
        if texts.setdefault(str(code), code) != code:
            raise ReleaseError(
                "ambiguous-code-of-areas",
                f"{str(code)!r} is a text on one level and a number on another.",
                f"The header of the second column of the file of areas {path.name!r} must be a level.",
                "Change this header to the level of its codes.",
                UNESTIMATED,
                place=path.name,
            )
    level = header[1] if header[1] in domain and domain[header[1]].hierarchy is not None else None
    out: dict[str, list[Any]] = {}
    for row in ([value for value in x.values() if value is not None] for x in rows):
        # the CSV reader gives None for a field that is missing, and a list of all fields that are too many
        if len(row) != 2 or not all(row):
            raise ReleaseError(
                "incomplete-row-of-areas",
                f"A row of the file of areas {path.name!r} is {row}.",
                "Each row needs the name of an area and the code of a place.",
                "Correct this row.",
                UNESTIMATED,
                place=path.name,
            )
        code = texts.get(row[1], row[1])
        out.setdefault(row[0], []).append(code if level is None else (level, code))
    return out


def _codes(domain: Domain, name: str, level: str) -> Iterable[Any]:
    """Yield the codes of places if the name is of a hierarchy: of this level if it is one of its levels, or of all."""
    hierarchy = domain[name]
    for level_name, view in zip(hierarchy.levels, hierarchy.views, strict=True):
        if level not in hierarchy.levels or level_name == level:
            yield from view.values
