"""Nested places."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, final

from pydantic import Field, model_validator

from fitnoise.errors import DomainError, SpecError
from fitnoise.kernel.codings import Code, Codes, encodable
from fitnoise.kernel.places import ListedTree, RegularTree, Tree, level_names
from fitnoise.request.arguments import checked
from fitnoise.request.attributes._base import (
    FILL_IN_MARK,
    NAME,
    Attribute,
    AttributeSection,
    check_column,
)
from fitnoise.request.attributes.level import HierarchyLevel
from fitnoise.request.by_language import all_texts, columns_by_language, refuse_empty
from fitnoise.request.csv_rows import codes_from_texts, read_rows
from fitnoise.request.spec_section import resolve_file


@final
@dataclass(frozen=True, init=False)
class Hierarchy(Attribute):
    """Nested places, such as tracts in counties in states: the data hold the code of a leaf.

    A table names one of the levels as it would name an attribute: `table("county", "sex", margin=30)`.

    Args:
        levels: The names of the levels, from the top down to the leaves; each names one level for all tables.
        places: One row for each leaf, with its code on every level, or a frame of pandas or Polars. Rows are such as
            `frame[levels].itertuples(index=False)` of a pandas frame. A frame has a column for each level, and may have
            others. Tables show places in the order of their first appearance, the places within one place together.
            For a level `county`, a column `county_name` of a frame has the names of the counties.
        file: The CSV file with the places, as :meth:`from_file` reads it; replaces `places`.
        children: One number for each level: the number of its places in each place above. It replaces `places`.
            fitnoise makes codes as :meth:`regular` describes.
        column: The column of the data that holds the codes of leaves, when it is not named as the attribute.
        names: For some levels, the name of each place by its code, or the names in the order of tables. Released tables
            show them next to the codes. Several places may have one name.

    Raises:
        DomainError: There are fewer than two levels, or two of one name.
        DomainError: A row does not have one code for each level, or a leaf appears twice. Or codes of one level are of
            mixed kinds.
        DomainError: A place lies in two places above it.
        DomainError: Not exactly one of places, file and children is given.
        DomainError: A frame lacks the column of a level, a file cannot be read, or `column` is invalid.
        DomainError: The children make no tree.
        DomainError: Names are not one text for each place of a level, or a place has two names.
    """

    kind, ordered, has_sequence, is_numeric = "hierarchy", False, False, False

    tree: Tree
    column: str | None = None
    names: tuple[tuple[str, tuple[str, ...]], ...] = ()
    coding: Codes = field(init=False, repr=False, compare=False)
    views: tuple[HierarchyLevel, ...] = field(init=False, repr=False, compare=False)
    depth: int = field(init=False, repr=False, compare=False)

    @checked(DomainError, "Nothing was made.", "places", "file", "names")
    def __init__(
        self,
        levels: Sequence[str],
        places: Iterable[Sequence[Code]] | None = None,
        *,
        file: str | Path | None = None,
        children: Sequence[int] | None = None,
        column: str | None = None,
        names: Mapping[str, Mapping[Code, str] | Sequence[str]] | None = None,
    ) -> None:
        levels = level_names(levels)
        count = sum(x is not None for x in (places, file, children))
        if count > 1:
            raise DomainError(
                "places-in-several-ways",
                f"The hierarchy has {count} of places, file and children.",
                "It needs exactly one of them.",
                "Keep one, and remove the others.",
                "No hierarchy was made.",
            )
        tree: Tree
        rows: Iterable[Sequence[Code]]
        columns: _Names = {}
        if children is not None:
            tree = RegularTree(levels, children)  # type: ignore[arg-type]  # a list of any kind becomes a tuple
        elif file is not None or places is not None:
            rows = () if places is None else places
            if file is not None:
                rows, columns = _rows_of_file(Path(file), levels)
            elif hasattr(places, "columns"):
                rows, columns = _rows_of_frame(places, levels)
            tree = ListedTree(levels, tuple(rows))  # type: ignore[arg-type]  # each row becomes a tuple
            names = {**{level: x[""] for level, x in columns.items()}, **(names or {})}
        else:
            raise DomainError(
                "places-not-given",
                "The hierarchy has no places.",
                f"It needs a row for each {levels[-1]!r}, a CSV file of these rows, or one number for each level: the "
                "number of its places in each place above.",
                "Give places, file or children.",
                "No hierarchy was made.",
            )
        check_column(column)
        object.__setattr__(self, "tree", tree)
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "depth", len(levels) - 1)
        place_names = _names(tree, names or {})
        object.__setattr__(self, "names", tuple(place_names.items()))
        views = (HierarchyLevel(self, depth, place_names.get(level, ())) for depth, level in enumerate(levels))
        object.__setattr__(self, "views", tuple(views))
        object.__setattr__(self, "coding", self.views[-1].coding)

    @classmethod
    def from_file(cls, path: str | Path, levels: Sequence[str], *, column: str | None = None) -> Hierarchy:
        """Read places from a CSV file with one row for each leaf and one column for each level.

        Codes are text, unless all codes of a level are written as whole numbers. A whole number is written as 0, 12 or
        -12, without plus sign, decimal point or leading zeros. For a level `county`, a column `county_name` has the
        names of the counties. Other columns are ignored.

        Raises:
            DomainError: The file cannot be read, or lacks the column of a level; or see the class.
        """
        return cls(levels, file=path, column=column)

    @classmethod
    @checked(DomainError, "Nothing was made.", "levels")
    def regular(
        cls, levels: Mapping[str, int] | None = None, /, *, column: str | None = None, **children: int
    ) -> Hierarchy:
        """Return a tree with equally many places in all places of a level: `regular(state=51, county=62, tract=27)`.

        The codes are texts: the code of the place above, and the number of the place in it. Numbers start at 1 as in
        official codes, in as many digits as the last one needs. "07" is the seventh of 51 states, "0731" its county 31.
        fitnoise lists the codes where records are counted, tables written or places named. A plan of any size needs no
        codes. The tree equals another one with the same levels and numbers. It equals no tree that is declared by rows,
        because plans list those.

        Args:
            levels: The number of places of the first level, then the number in each place of the level above, by name,
                from the top down. Use it for names that are not Python identifiers, or that are "column".
            column: See the class.
            children: The numbers of further levels, below these.

        Raises:
            DomainError: There are fewer than two levels, a name appears twice, or a number is not a whole number of 1
                or more.
            DomainError: The last level has more than ten million places.
        """
        both = set(levels or ()) & set(children)
        if both:
            raise DomainError(
                "levels-repeated",
                f"The levels {sorted(both)} are declared twice.",
                "Each level needs one number.",
                "Remove one of the two declarations.",
                "No hierarchy was made.",
            )
        sizes = {**(levels or {}), **children}
        return cls(tuple(sizes), children=tuple(sizes.values()), column=column)

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels, from the top down."""
        return self.tree.levels

    @property
    def places(self) -> tuple[tuple[Code, ...], ...]:
        """The code of every leaf on every level; recomputed at each access if the codes are not declared."""
        return self.tree.rows

    @property
    def children(self) -> tuple[int, ...] | None:
        """For each level, the number of its places in each place above; None if it is not declared."""
        return self.tree.children if isinstance(self.tree, RegularTree) else None

    @property
    def own_values(self) -> tuple[str | int, ...]:
        """The codes of the leaves."""
        return self.views[-1].values

    def own_position(self, value: object) -> int:
        """Return the position of a leaf's code among the declared leaves.

        Args:
            value: The code of a place of the last level.

        Returns:
            The position, from 0. A hierarchy has no cells for missing values.

        Raises:
            DomainError: The value is not such a code.
        """
        return self.views[-1].position(value)

    def own_examples(self, cell: int, class_cell: int) -> Sequence[Any]:
        """Return the code of a leaf.

        Args:
            cell: The index of the leaf, from 0.
            class_cell: Not used: only the range of an amount depends on another attribute.
        """
        return self.views[-1].own_examples(cell, class_cell)

    def declared(self) -> dict[str, Any]:
        """Return the levels, the rows of the leaves or the numbers that stand for them, and names if there are any."""
        names = {"names": {level: list(x) for level, x in self.names}} if self.names else {}
        if self.children is not None:
            return {"levels": list(self.levels), "children": list(self.children), **names}
        return {"levels": list(self.levels), "places": [list(row) for row in self.places], **names}


_Names = dict[str, dict[str, dict[Code, str]]]
"""The names of places, by level, language and code; without a stated language, this is ""."""


def _rows_of_file(
    path: Path, levels: tuple[str, ...], language: str | None = None
) -> tuple[list[tuple[Code, ...]], _Names]:
    header, rows = read_rows(path, "the file of places")
    for name in levels:
        if name not in header:
            raise DomainError(
                "places-file-columns",
                f"The file of places {path.name!r} has the columns {header}, and no column {name!r}.",
                "It needs a column for each level.",
                "Add or rename the column.",
                "No hierarchy was made.",
                place=path.name,
            )
    codes = {name: codes_from_texts([row[name] for row in rows]) for name in levels}
    return _with_names(codes, {name: [row[name] for row in rows] for name in header}, language)


def _with_names(
    codes: Mapping[str, list[Any]], columns: Mapping[str, list[Any]], language: str | None = None
) -> tuple[list[tuple[Code, ...]], _Names]:
    """Return the rows of places, and the names in columns of a file or frame.

    Args:
        codes: The codes of each level, row by row.
        columns: The columns of the file or frame, row by row.
        language: The main language; None to read only columns without a language, such as `county_name`.

    Raises:
        DomainError: A place has two names, or none.
    """
    out: _Names = {}
    for level, level_codes in codes.items():
        tagged = columns_by_language([x for x in columns if x not in codes], f"{level}_{NAME}", language)
        for tag, column in tagged.items():
            refuse_empty(level_codes, columns[column], column)
            names = dict(zip(level_codes, columns[column], strict=True))
            out.setdefault(level, {})[tag] = names
            for code, name in zip(level_codes, columns[column], strict=True):
                if names[code] != name:
                    raise DomainError(
                        "place-of-two-names",
                        f"The {level} {code!r} has the names {name!r} and {names[code]!r}.",
                        f"All rows of one place have one name in the column {column!r}.",
                        "Correct the names, or rename the column.",
                        "No hierarchy was made.",
                        place=column,
                    )
    return list(zip(*codes.values(), strict=True)), out


def _names(
    tree: Tree, names: Mapping[str, Mapping[Code, str] | Sequence[str]], language: str = ""
) -> dict[str, tuple[str, ...]]:
    """Return the names of the places of some levels, in the order of their codes and from the top down.

    Args:
        tree: The places.
        names: The names by level, by code or in order.
        language: The language of the names, for errors; empty for the main one.

    Raises:
        DomainError: Names are not one text for each place of a level.
    """
    out = {}
    for level in (*tree.levels, *(x for x in names if x not in tree.levels)):
        if level not in names:
            continue
        stated, codes = names[level], tree.codes[tree.levels.index(level)] if level in tree.levels else ()
        is_complete = len(stated) == len(codes) > 0
        ordered = [stated.get(x) for x in codes] if isinstance(stated, Mapping) else list(stated)
        if not is_complete or not all(isinstance(x, str) and x and encodable(x) for x in ordered):
            raise DomainError(
                "names-of-places",
                f"The names of {level!r}{f' in {language!r}' if language else ''} are {reprlib.repr(stated)}.",
                "Names are of a level, and one text that UTF-8 can write for each of its places.",
                "Give each place of the level a name.",
                "No hierarchy was made.",
                place="names",
            )
        out[level] = tuple(map(str, ordered))
    return out


def _rows_of_frame(frame: Any, levels: tuple[str, ...]) -> tuple[list[tuple[Code, ...]], _Names]:
    """Return the rows of a data frame of any kind: the function finds its columns by name, and iterates over them.

    NaN becomes `None`, a missing code.
    """
    header = list(frame.columns)
    for name in levels:
        if header.count(name) != 1:
            raise DomainError(
                "places-frame-columns",
                f"The frame of places has the columns {header}.",
                f"It has {header.count(name)} columns named {name!r}, and needs exactly one.",
                "Add, rename or remove columns.",
                "No hierarchy was made.",
                place=name,
            )
    required = [name for name in header if name in {*levels, *(f"{level}_{NAME}" for level in levels)}]
    columns = {name: [None if isinstance(x, float) and math.isnan(x) else x for x in frame[name]] for name in required}
    return _with_names({name: columns[name] for name in levels}, columns)


class HierarchySpec(AttributeSection):
    """Nested places: a row of codes for each lowest place, or the number of places in each place.

    It takes no `missing`, `if_missing`, `if_outside` or `date_part`.
    """

    meaning = "nested places"
    starter_keys: ClassVar[Mapping[str, tuple[str, str]]] = {
        "levels": (
            '["state", "county", "tract"]',
            FILL_IN_MARK + "from the top down; a table names one as its attribute",
        ),
        "file": (
            '"places.csv"',
            FILL_IN_MARK
            + "a row for each place of the last level, a column for each level; or say children = [51, 62, 27]",
        ),
    }

    type: Literal["hierarchy"] = Field(description="The kind of the attribute.")
    levels: list[str] = Field(
        description="The names of the levels, from the top down; a table names a level as its attribute."
    )
    places: list[list[bool | int | str]] | None = Field(
        None,
        description="The codes of each lowest place, level by level. If absent, file or children declares the places.",
    )
    file: str | None = Field(
        None,
        description="A CSV file with a column for each level; its path is relative to the specification. If absent, "
        "places or children declares the places.",
    )
    children: list[int] | None = Field(
        None,
        description="The number of places of the first level, then the number in each place of the level above; "
        "fitnoise makes the codes. If absent, places or file declares the places.",
    )
    names: dict[str, list[str] | dict[str, list[str]]] | None = Field(
        None,
        description="The names of the places of some levels, in the order of tables; or lists of names by language. If "
        "absent, columns such as county_name and county_name_fr of the file have the names, if there are any.",
    )
    column: str | None = Field(
        None,
        description="The column of the data with the codes of the lowest level. If absent, it is the column with the "
        "name of the attribute.",
    )

    @model_validator(mode="after")
    def _no_reading_options(self) -> Self:
        # A hierarchy shares these keys only to give this advice: the error of an unknown key would not.
        if any(x is not None for x in self._reading_options.values()):
            raise SpecError(
                "hierarchy-unsupported-keys",
                f"The hierarchy has {' and '.join(x for x, y in self._reading_options.items() if y is not None)}.",
                "A hierarchy has no missing, if_missing, if_outside or date_part.",
                "Remove them, and give records without a place a row of their own, such as 'unknown' on every level.",
                "No data were read.",
            )
        return self

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(x is not None for x in (self.places, self.file, self.children)) != 1:
            raise SpecError(
                "places-source",
                "The hierarchy does not have exactly one of places, file and children.",
                "",
                "Give exactly one of them.",
                "No data were read.",
                place="places",
            )
        return self

    def in_languages(self, language: str, folder: Path | None) -> dict[str, Self]:
        """Return the section with the names of each language, the main one first; read the file of places."""
        section, stated = self, dict[str, Any](self.names or {})
        if self.file is not None:
            file = resolve_file(folder, "file", self.file)
            rows, columns = _rows_of_file(file, level_names(self.levels), language)
            section, stated = self.model_copy(update={"file": None, "places": rows}), {**columns, **stated}
        names = {level: all_texts(x, language, f"names.{level}") for level, x in stated.items()}
        tags = dict.fromkeys([language, *(tag for texts in names.values() for tag in texts)])
        return {
            tag: section.model_copy(update={"names": {level: x[tag] for level, x in names.items() if tag in x}})
            for tag in tags
        }

    def texts(self, name: str, attribute: Attribute, language: str) -> Mapping[str, Sequence[str]]:
        """Return the names of places of a section of one language."""
        del name
        assert attribute.tree is not None  # noqa: S101 - a hierarchy has one
        names: Any = self.names  # by code or in order, since `in_languages` has chosen one language
        return _names(attribute.tree, names, language)

    def build(self, folder: Path | None) -> Attribute:
        """Return the attribute.

        Args:
            folder: The folder of the specification, where its files lie; None if it is not known.

        Raises:
            DomainError: The keys declare no hierarchy.
        """
        names: Any = self.names  # by code or in order, since `in_languages` has read the file and chosen one language
        return Hierarchy(self.levels, self.places, children=self.children, column=self.column, names=names)
