"""Parts of pages, each a piece of HTML that is whole by itself: of a report's sections, of a plan, of a table, a chart.

Whatever is put into them is escaped, by Jinja2, and what cannot be shown is spelled out. They hold no script, and no
style but the classes of one sheet, so that any page may show them under a policy that allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import groupby
from typing import TYPE_CHECKING, Any, final

from fitnoise.errors import ReleaseError
from fitnoise.interfaces.pages.charts import Lines, Strips, chart
from fitnoise.interfaces.pages.words import Words, words
from fitnoise.interfaces.render import readable
from fitnoise.reading.bands import Band
from fitnoise.reading.description import counted, left_out
from fitnoise.reading.layouts import Heading, Label, Layout
from fitnoise.reading.release import Release
from fitnoise.reporting import Kind, Report

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

MARKS = {Band.RELIABLE: "", Band.CARE: "†", Band.WIDE: "‡"}
"""What stands beside a number of each band."""

FIGURE = "\u2007"
"""A space as wide as a digit: what is before the margins of a column, so that all of them are as wide."""

WRITTEN = "fitnoise.interfaces.pages"


@final
@dataclass(frozen=True)
class Cell:
    """A number as people read it: its margin where the table's caption does not say it, its band where there is one."""

    text: str
    margin: str
    band: Band | None


@final
@dataclass(frozen=True)
class Group:
    """Rows under what they have in common: all their labels but the last."""

    over: tuple[Label, ...]
    rows: tuple[tuple[Label, tuple[Cell, ...]], ...]


@final
@dataclass(frozen=True)
class Shown:
    """A table as a page shows it. even: the margin of all its numbers but totals, where it is one."""

    place: int
    layout: Layout
    groups: tuple[Group, ...]
    even: str
    drawn: Strips | Lines | None
    counted: tuple[str, ...]
    left_out: tuple[str, ...]
    not_counted: tuple[tuple[str, str], ...]
    coded: tuple[tuple[str, str], ...]


@cache
def environment(language: str) -> Environment:
    """The templates, in a language.

    Raises:
        ReleaseError: Jinja2 is not installed, or no such language.
    """
    told = words(language)
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise ReleaseError(
            "pages are made with Jinja2, which is not installed: pip install 'fitnoise[report]'. Nothing was written."
        ) from None
    made = Environment(
        loader=PackageLoader(WRITTEN),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_plain,
    )
    made.globals |= {"language": told, "t": told.tell, "number": told.number, "kind": told.kind, "Kind": Kind}
    made.globals |= {"heading": lambda h: _heading(told, h), "MARKS": MARKS, "style": style(), "type_of": _type}
    return made


def _plain(x: object) -> object:
    """What is put in: of texts what can be shown, and the spaces of ours."""
    return re.sub("[^\u00a0\u2007\u202f]+", lambda found: readable(found[0]), x) if type(x) is str else x


def _type(x: object) -> str:
    return type(x).__name__


def _heading(told: Words, heading: Heading) -> str:
    return told.tell("{name}, at most", name=heading.name) if heading.view == "prefix" else heading.name


def fragment(name: str, language: str = "en", **given: Any) -> Markup:
    """One of the fragments, filled in.

    Args:
        name: of a macro in fragments.html.
        language: "en" or "de".
        given: its arguments.

    Raises:
        ReleaseError: as :func:`environment`.
    """
    made = environment(language).get_template("fragments.html")
    return getattr(made.module, name)(**given)  # type: ignore[no-any-return]  # macros return what is escaped


@cache
def style() -> Markup:
    """The sheet that all fragments share; its rules are for what lies in an element of class "fitnoise"."""
    from markupsafe import Markup

    text = (resources.files(WRITTEN) / "templates" / "style.css").read_text(encoding="utf-8")
    return Markup(text.strip())  # noqa: S704 - ours, and without anything put in


def digest(text: str) -> str:
    """As a content security policy names a text in the page that it allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def shown(table: Layout, told: Words, release: Release, place: int = 0, *, drawn: bool = True) -> Shown:
    """A table with its numbers as people read them, and with which records it counts."""
    plan = release.plan
    workload = plan.group(table.name).publication.workload
    asked = workload[table.name]
    not_counted, coded = asked.not_counted(workload.domain), asked.coded(workload.domain)
    even = "" if table.even is None else told.number(table.even, table.decimals)
    return Shown(
        place=place,
        layout=table,
        groups=tuple(_groups(table, told)),
        even=even,
        drawn=chart(table) if drawn else None,
        counted=tuple(counted(plan).get("counted", ())),
        left_out=tuple(left_out(plan, release.version).get("left_out", ())),
        not_counted=tuple((a, ", ".join(cells)) for a, cells in not_counted.items()),
        coded=tuple(coded.items()),
    )


def _groups(table: Layout, told: Words) -> Iterator[Group]:
    digits = table.decimals
    texts = [[told.number(x, digits) for x in row] for row in table.values]
    margins = [[told.number(x, digits) for x in row] for row in table.told]
    widths = [max(map(len, column)) for column in zip(*margins, strict=True)]

    def cell(i: int, j: int) -> Cell:
        said = table.even is None or bool(table.totals[i, j])
        margin = margins[i][j].rjust(widths[j], FIGURE) if said else ""
        return Cell(texts[i][j], margin, None if table.bands is None else table.bands[i, j])

    for over, rows in groupby(enumerate(table.rows), key=lambda row: row[1][:-1]):
        made = ((row[-1] if row else Label(None), i) for i, row in rows)
        yield Group(over, tuple((x, tuple(cell(i, j) for j in range(len(table.columns)))) for x, i in made))


def report(found: Report, language: str = "en") -> Markup:
    """Any report: what the command line says, as a list of sentences and tables."""
    return fragment("told", language, report=found)
