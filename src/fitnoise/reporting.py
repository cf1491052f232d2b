"""The content of reports as data: messages, tables and values. An interface determines only their form.

    Report ── Section ── messages, each with an id and typed values
                      ── values ── a key for programs, a plain JSON value, a kind
                      ── tables ── columns ── a name for programs, a heading for people, a kind

Values are stored in full; their kind states the number of digits for people. So people and programs get equal numbers,
on a terminal, as JSON or on a page, in every language.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

from fitnoise.messages import Content, Message, Translator, Value, ValueKind, translator


@final
@dataclass(frozen=True)
class ReportColumn:
    """A column of a table.

    name: The name of the column for programs.
    heading: The heading for people: a message, or the name of an attribute; None if they do not see the column.
    kind: The kind of its values, which determines the digits that people read.
    spoken: True if only people see it, and documents do not have it.
    """

    name: str
    heading: Message | str | None = None
    kind: ValueKind = ValueKind.TEXT
    spoken: bool = False


@final
@dataclass(frozen=True)
class ReportTable:
    """Rows of values, one for each column.

    key: The name of the list of rows in documents.
    columns: The columns, also those that people do not see.
    rows: For each row, one value for each column.
    foot: Rows below the others, for people only.

    Raises:
        ValueError: Two columns have one name or one heading, or a row has not one value for each column.

    **Guarantees**
        * No two columns have the same name, and no two visible columns have the same non-empty heading.
        * Every row and every foot row has one value for each column.
    """

    key: str
    columns: tuple[ReportColumn, ...]
    rows: tuple[tuple[Content, ...], ...]
    foot: tuple[tuple[Content, ...], ...] = ()

    def __post_init__(self) -> None:
        # Programs read columns by name and people by heading: either twice would hide one of the two columns.
        for what, used in (("named", [c.name for c in self.columns]), ("headed", [h for h in self.headings if h])):
            twice = [x for i, x in enumerate(used) if x in used[:i]]
            if twice:
                raise ValueError(f"two columns of the table {self.key!r} are {what} {twice[0]!r}")
        if any(len(row) != len(self.columns) for row in (*self.rows, *self.foot)):
            raise ValueError(f"a row of the table {self.key!r} has not one value for each of its columns")

    @classmethod
    def from_rows(cls, key: str, columns: Iterable[ReportColumn], rows: Iterable[Mapping[Any, Any]]) -> ReportTable:
        """Return the table of some rows, with the values that the columns name.

        Args:
            key: The name of the list of rows in documents.
            columns: The columns.
            rows: For each row, the values by the names of columns; further values are left out.

        Raises:
            KeyError: A row has no value for a column.
            ValueError: Two columns have one name or one heading.
        """
        shown_columns = tuple(columns)
        return cls(key, shown_columns, tuple(tuple(row[c.name] for c in shown_columns) for row in rows))

    @property
    def headings(self) -> tuple[Message | str, ...]:
        """The headings of the columns that people see."""
        return tuple(c.heading for c in self.columns if c.heading is not None)

    @property
    def cells(self) -> tuple[tuple[tuple[ReportColumn, Content], ...], ...]:
        """The values that people see, row by row and then the foot, each with its column."""
        return tuple(
            tuple((c, x) for c, x in zip(self.columns, row, strict=True) if c.heading is not None)
            for row in (*self.rows, *self.foot)
        )

    def silent(self) -> ReportTable:
        """Return the table for documents only: people see none of its columns."""
        return replace(self, columns=tuple(replace(c, heading=None) for c in self.columns))


@final
@dataclass(frozen=True)
class Section:
    """The statements about one subject.

    title: The title of its messages; None if they need no title.
    messages: Its sentences.
    values: Single values, by their keys in documents.
    tables: Its tables.
    path: The path of its values and tables in a document: keys, and indices of lists; empty for the document itself.
    """

    title: Message | None = None
    messages: tuple[Message, ...] = ()
    values: tuple[Value, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    path: tuple[str | int, ...] = ()

    def __add__(self, other: Section) -> Section:
        """Return both sections as one: tables of one key with equal columns become one table."""
        tables = list(self.tables)
        for table in other.tables:
            same = [i for i, t in enumerate(tables) if (t.key, t.columns) == (table.key, table.columns)]
            if same:
                known_table = tables[same[0]]
                tables[same[0]] = replace(
                    known_table, rows=known_table.rows + table.rows, foot=known_table.foot + table.foot
                )
            else:
                tables.append(table)
        messages, values = self.messages + other.messages, self.values + other.values
        return replace(self, messages=messages, values=values, tables=tuple(tables))


@final
@dataclass(frozen=True)
class Report:
    """All statements about a plan, a release, a comparison or an account.

    title: The title of the report.
    sections: Its sections. Those of one title and path become one, in the place of the first; those without a title
        stay as they are.
    """

    title: str
    sections: tuple[Section, ...]

    def __post_init__(self) -> None:
        merged: dict[Any, Section] = {}
        for i, section in enumerate(self.sections):
            key = (section.title, section.path) if section.title else i  # a number, which is no other section's key
            merged[key] = merged[key] + section if key in merged else section
        object.__setattr__(self, "sections", tuple(merged.values()))

    def adding(self, *sections: Section) -> Report:
        """Return the report with further sections."""
        return replace(self, sections=self.sections + sections)


def distinct_heading(heading: str, names: Collection[str], number: str = "value") -> str:
    """Return the heading of a column of numbers, different from the names of all attributes in the table.

    Args:
        heading: The heading, unless an attribute has this name.
        names: The names of the attributes whose labels are in the table.
        number: The word added to the heading, in the language of the page.
    """
    while heading in names:
        heading += f" ({number})"
    return heading


def aligned(
    table: ReportTable,
    format_cell: Callable[[str], str] = str,
    width: Callable[[str], int] = len,
    language: Translator | None = None,
) -> list[str]:
    """Return a table as lines of text, in columns, never cut.

    Args:
        table: The table, of which people see a column.
        format_cell: A function that writes a cell where some characters are not available.
        width: A function that returns the width of a text, in characters of one width.
        language: The language; None for English.
    """
    language = language or translator("en", typeset=False)
    right = [c.kind.numeric for c in table.columns if c.heading is not None]
    texts = [[language.heading(x) for x in table.headings]]
    texts += [[language.kind(c.kind, x) for c, x in row] for row in table.cells]
    cells = [[format_cell(text) for text in row] for row in texts]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        spaces = (" " * (full - width(text)) for text, full in zip(row, widths, strict=True))
        padded = (s + text if r else text + s for text, s, r in zip(row, spaces, right, strict=True))
        lines.append("  ".join(padded).rstrip())
    return lines
