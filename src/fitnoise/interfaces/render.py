"""Reports as lines of text, and as documents for programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from rich.cells import cell_len

from fitnoise.messages import Content, Message, Translator, ValueKind, english, statement, translator
from fitnoise.reporting import Report, ReportTable, Section, aligned

NAME_COLUMN_CHARACTERS = 11
"""Characters from the start of a line to the sentences that a name introduces."""

_ASCII = str.maketrans(
    {
        "±": "+/-",
        "≥": ">=",
        "≤": "<=",
        "ρ": "rho",
        "ε": "epsilon",
        "δ": "delta",
        "μ": "mu",
        "…": "...",
        "–": "-",
        "×": "x",
    }
)


def readable(text: str, encoding: str = "utf-8") -> str:
    """Return one line that a stream of this encoding can show.

    Control characters, which a label may hold, are escaped. Signs that the encoding lacks are spelled out.
    """
    # A label with a line break or an escape sequence could write other lines on a terminal than fitnoise's.
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    try:
        line.encode(encoding)
    except UnicodeEncodeError:
        # Only now: an encoding that has the signs of the notation keeps them.
        line = line.translate(_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    return line


def printable(text: str) -> str:
    """Return one line for a page or a file: :func:`readable`, with the spaces that numbers and punctuation have."""
    return re.sub("[^\u00a0\u2007\u202f]+", lambda content: readable(content[0]), text)


def lines(report: Report, encoding: str = "utf-8", language: Translator | None = None) -> list[str]:
    """Return a report for people: tables in columns, with sentences next to them. Empty lines separate tables.

    Args:
        report: The report.
        encoding: The encoding of the stream that shows the lines.
        language: The language; None for English.
    """
    language = language or translator("en", typeset=False)
    out: list[str] = []
    table_before = False
    for section in report.sections:
        tables = [t for t in section.tables if t.rows and t.headings]
        if out and (tables or (table_before and section.messages)):
            out.append("")
        out += [readable(line, encoding) for line in _introduced(section, language)]
        for i, table in enumerate(tables):
            out += [""] * (i > 0) + aligned(table, lambda text: readable(text, encoding), cell_len, language)
        if tables or section.messages:
            table_before = bool(tables)
    return out


def _introduced(section: Section, language: Translator) -> list[str]:
    texts = map(language.write, section.messages)
    if section.title is None:
        return list(texts)
    title = language.write(section.title)
    return [f"{'' if i else title:<{NAME_COLUMN_CHARACTERS - 1}} {text}" for i, text in enumerate(texts)]


def document(report: Report) -> dict[str, Any]:
    """Return a report for programs: plain JSON values, all numbers in full, and all sentences with their ids."""
    content: dict[str | int, Any] = {}
    for section in report.sections:
        inner = content
        for step in section.path:
            inner = inner.setdefault(step, {})
        # Spoken values repeat others for sentences, rounded or renamed.
        inner.update({v.key: v.content for v in section.values if not v.spoken})
        for table in section.tables:
            # Sections of several parts can have a table of one key; the document has the rows of all.
            inner[table.key] = [*inner.get(table.key, ()), *_rows(table)]
    sentences = [statement(m) for section in report.sections for m in section.messages]
    return cast("dict[str, Any]", _listed(content | {"sentences": sentences}))


def _rows(table: ReportTable) -> Iterator[dict[str, Content]]:
    for row in table.rows:
        pairs = zip(table.columns, row, strict=True)
        yield {c.name: _statement(x) if c.kind is ValueKind.STATEMENT else x for c, x in pairs if not c.spoken}


def _statement(content: Content) -> Content:
    return statement(content) if isinstance(content, Message) else content


def _listed(value: Any) -> Any:
    """Return the value in lists and dictionaries, as JSON is read back. Keys numbered from 0 make a list."""
    if isinstance(value, Message):
        return english(value)
    if isinstance(value, Mapping):
        inner = {key: _listed(x) for key, x in value.items()}
        return [*inner.values()] if inner and [*inner] == [*range(len(inner))] else inner
    return [_listed(x) for x in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
