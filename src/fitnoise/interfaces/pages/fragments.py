"""Parts of pages, each a complete piece of HTML: of a report's sections, of a plan, of a table, of a chart.

Jinja2 escapes every inserted text, and characters that cannot be shown are spelled out. The parts hold no script, and
no style except the classes of one sheet. Any page can show them under a policy that allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from itertools import groupby
from math import ceil, floor
from typing import TYPE_CHECKING, Any, final

from fitnoise.errors import ReleaseError
from fitnoise.interfaces.pages.charts import Lines, Strips, chart
from fitnoise.interfaces.pages.translation import Translator, translator
from fitnoise.interfaces.render import readable
from fitnoise.interfaces.reports.plans import table_label, warned
from fitnoise.kernel.conditions import Condition
from fitnoise.kernel.units import Pattern, PrivacyUnit
from fitnoise.messages import ValueKind
from fitnoise.planning.ranges import summarised_tables
from fitnoise.reading.bands import Band, Bands
from fitnoise.reading.description import left_out
from fitnoise.reading.layouts import Heading, Label, Tabled, TableLayout, publication_of, releases
from fitnoise.reading.refusals import missing_package
from fitnoise.reporting import Report, heading_beside
from fitnoise.request.coverage import ValueList, uncounted

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from fitnoise.mechanisms.summaries import TableSummary
    from fitnoise.planning.plan import Plan

MARKS = {Band.RELIABLE: "", Band.CARE: "†", Band.WIDE: "‡"}
"""The mark next to a number of each band."""

FIGURE_SPACE = "\u2007"
"""A space as wide as a digit: padding before the margins of a column, so that all of them are equally wide."""

PLAIN_HEADINGS = ("each", "query", "ranges", "groups", "count", "sum", "mean")
"""Views whose columns are headed by the attribute's name alone: their labels say the rest."""

MAX_CODES_IN_TEXT = 8
"""The largest number of codes of a condition that are written out."""

WRITTEN = "fitnoise.interfaces.pages"


@final
@dataclass(frozen=True)
class Cell:
    """A number as people read it: its margin if the table's caption does not have it, and its band if there is one.

    margin: The margin with its sign, or an interval with its ends.
    """

    text: str
    margin: str
    band: Band | None


@final
@dataclass(frozen=True)
class RowGroup:
    """Rows that share all their labels except the last."""

    over: tuple[Label, ...]
    rows: tuple[tuple[Label, tuple[Cell, ...]], ...]


@final
@dataclass(frozen=True)
class RenderedTable:
    """A table as a page shows it.

    caption: The meaning of its numbers.
    notes: The records that they count, and how.
    """

    place: int
    layout: TableLayout
    groups: tuple[RowGroup, ...]
    drawn: Strips | Lines | None
    caption: str
    notes: tuple[str, ...]


@cache
def environment(language: str, also: str = "") -> Environment:
    """Return the templates, in a language.

    Args:
        language: "en" or "de".
        also: A package with templates, and words, in addition to those of pages.

    Raises:
        ReleaseError: Jinja2 is not installed, or the language is unknown.
    """
    told = translator(language, also)
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise missing_package("Pages", "Jinja2", "report", "Nothing was written.") from None
    made = Environment(
        loader=ChoiceLoader([PackageLoader(x) for x in (WRITTEN, also) if x]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_plain,
    )
    made.globals |= {"language": told, "t": told.translate, "number": told.number, "kind": told.kind, "Kind": ValueKind}
    made.globals |= {
        "heading": partial(heading, told),
        "numbers_of": lambda table: numbers(table, told),
        "of_records": of_records,
        "references": references,
        "warnings": warned,
        "heading_beside": heading_beside,
        "pattern": partial(pattern, told),
        "merged": partial(merged, told),
        "MARKS": MARKS,
        "style": style(),
        "type_of": _type,
    }
    return made


def of_records(plan: Plan) -> list[TableSummary]:
    """Return the tables of a plan that count records, without sums and means."""
    return [s for s, table in summarised_tables(plan) if not table.summed and table.averaged is None]


def references(plan: Plan) -> dict[str, float]:
    """Return the numbers of records to which the margins of means refer, by table."""
    return {s.name: table.averaged[1].reference for s, table in summarised_tables(plan) if table.averaged is not None}


def _plain(x: object) -> object:
    """Return an inserted value; texts with the characters that can be shown, and the spaces of fitnoise."""
    return re.sub("[^\u00a0\u2007\u202f]+", lambda found: readable(found[0]), x) if type(x) is str else x


def _type(x: object) -> str:
    return type(x).__name__


def heading(language: Translator, heading: Heading) -> str:
    """Return the heading of a column of labels."""
    name, n = heading.name, language.number(heading.steps)
    match heading.view:
        case "cumulative":
            return language.translate("{name}, at most", name=name)
        case "change":
            return language.translate("{name}, change", name=name)
        case "average":
            return language.translate("{name}, average of {n}", name=name, n=n)
        case "to date":
            return language.translate("{name}, to date", name=name)
        case view if view in PLAIN_HEADINGS:
            return name
    raise _unknown_view(heading)


def _unknown_view(heading: Heading) -> ReleaseError:
    """Return the error for a view that no page can name."""
    return ReleaseError(
        "view-without-heading",
        f"The column {heading.name!r} has the view {heading.view!r}, which has no heading.",
        "",
        "Name other tables.",
        "Nothing was written.",
    )


def meaning(language: Translator, heading: Heading) -> str:
    """Return the meaning of the rows of a column; empty for one that shows value by value."""
    name, n = heading.name, language.number(heading.steps)
    match heading.view:
        case "cumulative":
            return language.translate("Rows of {name} are of records with at most the value shown.", name=name)
        case "change":
            return language.translate(
                "Rows of {name} are changes over {n}: the number less the one so long before.", name=name, n=n
            )
        case "average":
            return language.translate(
                "Rows of {name} are the mean of a number and those before it, {n} in all.", name=name, n=n
            )
        case "to date":
            return language.translate(
                "Rows of {name} are of records from the beginning of their season, of {n} values, on.", name=name, n=n
            )
        case "count":
            return language.translate("Counted are the records with a value of {name}.", name=name)
        case view if view in PLAIN_HEADINGS:
            return ""
    raise _unknown_view(heading)


def pattern(language: Translator, unit_pattern: Pattern) -> str:
    """Return the pattern of the records of one unit; empty if none is known."""

    def named(*names: str) -> str:
        return f" {language.translate('and')} ".join(language.translate('"{name}"', name=name) for name in names)

    said = (
        [language.translate("once per {names}", names=named(*unit_pattern.once_per))] if unit_pattern.once_per else []
    )
    said += [
        language.translate("{n} for each {names}", n=language.number(n), names=named(a))
        for a, n in unit_pattern.per_value
    ]
    said += [
        language.translate("{n} apart in {names}", n=language.number(n), names=named(a))
        for a, n in unit_pattern.separation
    ]
    said += [language.translate("alike in {names}", names=named(*unit_pattern.fixed))] if unit_pattern.fixed else []
    return ", ".join(said)


def merged(language: Translator, unit: PrivacyUnit) -> str:
    """Return the rule by which records of one unit are merged, if amounts are added up."""
    names = f" {language.translate('and')} ".join(language.translate('"{name}"', name=a) for a in unit.sum_within_unit)
    return language.translate(
        "records of one {unit} alike in all else are one, with their {names} added up", unit=unit.name, names=names
    )


def condition(language: Translator, record_condition: Condition) -> str:
    """Return the condition of counted records in a language; values as the specification has them."""
    ways = {
        "at_least": language.translate("at least"),
        "above": language.translate("above"),
        "at_most": language.translate("at most"),
        "below": language.translate("below"),
    }
    values = f" {language.translate('and')} ".join(f"{ways[name]} {x}" for name, x in record_condition.bounds.items())
    if not values:
        shown = [repr(c) if isinstance(c, str) else str(c).lower() for c in record_condition.codes[:MAX_CODES_IN_TEXT]]
        more = len(record_condition.codes) - len(shown)
        values = f" {language.translate('or')} ".join(shown)
        values += f", {language.translate('or one of {n} more', n=language.number(more))}" if more else ""
    return language.translate("{name} is {values}", name=repr(record_condition.column), values=values)


def fragment(name: str, language: str = "en", **context: Any) -> Markup:
    """Return one of the fragments, filled in.

    Args:
        name: The name of a macro in fragments.html.
        language: "en" or "de".
        context: Its arguments.

    Raises:
        ReleaseError: :func:`environment` refuses the language, or Jinja2 is not installed.
    """
    made = environment(language).get_template("fragments.html")
    return getattr(made.module, name)(**context)  # type: ignore[no-any-return]  # macros return what is escaped


@cache
def style() -> Markup:
    """Return the sheet that all fragments share; its rules are for elements of class "fitnoise"."""
    from markupsafe import Markup

    text = (resources.files(WRITTEN) / "templates" / "style.css").read_text(encoding="utf-8")
    return Markup(text.strip())  # noqa: S704 - a file of fitnoise, without anything put in


def digest(text: str) -> str:
    """Return the digest by which a content security policy names a text that it allows."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def labelled(label: Label, language: Translator) -> str:
    """Return a label without its code."""
    return language.translate("Total") if label.text is None else readable(label.text)


def render_table(
    table: TableLayout, language: Translator, source: Tabled, index: int = 0, bands: Bands | None = None
) -> RenderedTable:
    """Return a table with its numbers as people read them, its caption and its notes."""
    return RenderedTable(
        place=index,
        layout=table,
        groups=tuple(_groups(table, language)),
        drawn=chart(table),
        caption=caption(table, language),
        notes=tuple(notes(table, language, source, bands)),
    )


def caption(table: TableLayout, language: Translator) -> str:
    """Return the meaning of the numbers of a table."""
    if table.biased:
        return language.translate(
            "Estimated numbers of records, biased; ± is their simulated error, which is no margin"
        )
    level, what = language.kind(ValueKind.LEVEL, table.confidence), _what(table, language)
    if table.ends is not None:
        said = language.translate("{what}, with their intervals at {level} confidence", what=what, level=level)
    elif table.common_margin is None:
        said = language.translate("{what}, ± their margins at {level} confidence", what=what, level=level)
    else:
        margin = language.number(table.common_margin, table.decimals)
        said = language.translate(
            "{what}, each ± {margin} at {level} confidence", what=what, margin=margin, level=level
        )
    coded, capped = table.counted
    values = [
        language.translate("values of {name} count {coded}", name=readable(name), coded=language.phrase(words).text)
        for name, words in coded.items()
    ]
    values += [language.translate("no margin or interval includes what the range cuts off")] if capped else []
    return f"{said} ({'; '.join(values)})" if values else said


def _what(table: TableLayout, language: Translator) -> str:
    """Return the meaning of the numbers of a table, without their margins."""
    changes = any(h.view == "change" for h in (*table.stubs, *([table.across] if table.across else ())))
    names = readable(" × ".join(table.summed))
    if table.averaged is not None:
        return language.translate("Estimated means of {name}", name=readable(table.averaged))
    if table.is_integer:
        return language.translate("Whole numbers of records")
    if changes:
        return (
            language.translate("Estimated changes of sums of {names}", names=names)
            if names
            else language.translate("Estimated changes of numbers")
        )
    return (
        language.translate("Estimated sums of {names}", names=names)
        if names
        else language.translate("Estimated numbers of records")
    )


def numbers(table: TableLayout, language: Translator) -> str:
    """Return the heading of the numbers of a table with one column of them; no column of labels has it."""
    stubs = [readable(heading(language, stub)) for stub in table.stubs]
    if table.averaged is not None:
        own = language.translate("mean of {name}", name=readable(table.averaged))
    else:
        names = readable(" × ".join(table.summed))
        own = language.translate("sum of {names}", names=names) if names else language.translate("records")
    return heading_beside(own, stubs, language.translate("value"))


def title(source: Tabled) -> str:
    """Return the title of the publication; for several releases that of the first."""
    return releases(source)[0].plan.publication.title


def hashes(source: Tabled, digits: int = 64) -> str:
    """Return the plans of the tables, by this many digits of their SHA-256."""
    return ", ".join(f"plan {r.plan.hash[:digits]}" for r in releases(source))


def notes(table: TableLayout, language: Translator, tabled: Tabled, bands: Bands | None) -> Iterator[str]:
    """Yield the notes below a table: the records that it counts, its origin, the meaning of its signs."""
    release = releases(tabled)[0]
    plan = release.plan
    workload, source = publication_of(tabled, table.name).workload, plan.publication.source.name
    conditions = [condition(language, c) for c in plan.publication.source.conditions]
    dropped = left_out(plan).get("left_out")
    asked = workload[table.name]
    left = uncounted(asked, workload.domain)
    enforced = plan.publication.unit.parts == 1 and plan.publication.unit.bound is not None
    if conditions:
        who = language.translate(
            "records of {source} of which {conditions}", source=source, conditions=", ".join(conditions)
        )
    elif left or dropped or enforced:
        who = language.translate("records of {source}", source=source)
    else:
        who = language.translate("all records of {source}", source=source)
    universe = [who]
    if plan.publication.unit.parts > 1:
        universe.append(
            language.translate(
                "each {unit} counts one, by equal shares of all its records", unit=plan.publication.unit.name
            )
        )
    elif plan.publication.unit.bound is not None:
        unit = plan.publication.unit
        most = language.translate("at most {n}", n=language.number(unit.max_records))
        kept = ", ".join([most, *([pattern(language, unit.pattern)] if unit.pattern else [])])
        universe.append(language.translate("of each {unit} {kept}", unit=unit.name, kept=kept))
        universe += [merged(language, unit)] if unit.sum_within_unit else []
    if dropped:
        universe.append(
            language.translate("without those whose value is dropped, by {names}", names=", ".join(dropped))
        )
    universe += (language.translate("not counted: {values}", values=listed(x, language)) for x in left)
    universe += (f"{name}: {language.phrase(coded).text}" for name, coded in asked.coded(workload.domain).items())
    yield language.translate("Universe: {universe}.", universe="; ".join(universe))
    plans = ", ".join(r.plan.hash[:12] for r in releases(tabled))
    if table.is_integer:
        way = language.translate(
            "Method: the nearest tables to the noisy ones that add up and hold no negative number, then whole numbers "
            "next to these that add up; plan {plan}. Small numbers are too large on average.",
            plan=plans,
        )
    elif len(releases(tabled)) > 1:
        way = language.translate(
            "Method: one estimate of least variance of several measurements of the same records, as whoever combined "
            "them says; plans {plan}.",
            plan=plans,
        )
    else:
        way = language.translate(
            "Method: one measurement with noise fixed before the data were read; plan {plan}.", plan=plans
        )
    columns = (*table.stubs, *([table.across] if table.across else ()))
    method = [way, *filter(None, (meaning(language, h) for h in columns))]
    if table.biased:
        group = plan.group(table.name)
        method.append(language.sentence(group.mechanism.bias_text(group)).text)
    yield " ".join(method)
    if bands is not None and table.bands is not None:
        care, wide = (language.kind(ValueKind.LEVEL, x) for x in (bands.reliable, bands.care))
        yield (
            language.translate(
                "† use with care: the margin is more than {care} of the number without its sign; ‡ too wide to be used "
                "alone: more than {wide} of it.",
                care=care,
                wide=wide,
            )
            if table.signed
            else language.translate(
                "† use with care: the margin is more than {care} of the number; ‡ too wide to be used alone: more than "
                "{wide} of it, or the number is not above 0.",
                care=care,
                wide=wide,
            )
        )


def uncounted_by_table(plan: Plan, language: Translator) -> list[tuple[str, str]]:
    """Return the tables that leave values out, each with these values in a language."""
    domain = plan.publication.workload.domain
    found = ((table_label(s.name, s.tables), uncounted(table, domain)) for s, table in summarised_tables(plan))
    return [(name, "; ".join(listed(x, language) for x in left)) for name, left in found if left]


def listed(values: ValueList, language: Translator) -> str:
    """Return a list of values in a language."""
    text = f"{values.name} {', '.join(values.pieces)}"
    return (
        language.translate("{values}, and {n} more", values=text, n=language.number(values.more))
        if values.more
        else text
    )


def margin_text(table: TableLayout, language: Translator, i: int, j: int, width: int = 0) -> str:
    """Return the margin of a number, padded to a width, or its interval; empty if the caption has it.

    Ends are rounded outwards, as margins are rounded up.
    """
    if table.ends is not None:
        ten = 10.0**table.decimals
        low, high = floor(table.ends[0][i, j] * ten + 1e-6) / ten, ceil(table.ends[1][i, j] * ten - 1e-6) / ten
        return (
            f"{language.number(low, table.decimals)}{'–' if low >= 0 else ' – '}{language.number(high, table.decimals)}"
        )
    said = table.common_margin is None or bool(table.totals[i, j])
    return (
        f"± {language.number(float(table.rounded_margins[i, j]), table.decimals).rjust(width, FIGURE_SPACE)}"
        if said
        else ""
    )


def _groups(table: TableLayout, language: Translator) -> Iterator[RowGroup]:
    digits = table.decimals
    texts = [[language.number(x, digits) for x in row] for row in table.values]
    widths = [max(len(language.number(x, digits)) for x in column) for column in table.rounded_margins.T.tolist()]

    def cell(i: int, j: int) -> Cell:
        margin = margin_text(table, language, i, j, widths[j])
        return Cell(texts[i][j], margin, None if table.bands is None else table.bands[i, j])

    for over, rows in groupby(enumerate(table.rows), key=lambda row: row[1][:-1]):
        made = ((row[-1] if row else Label(None), i) for i, row in rows)
        yield RowGroup(over, tuple((x, tuple(cell(i, j) for j in range(len(table.columns)))) for x, i in made))


def report(report: Report, language: str = "en") -> Markup:
    """Return any report as a list of sentences and tables, as on the command line."""
    return fragment("told", language, report=report)
