"""Parts of pages, each a complete piece of HTML: of a report's sections, of a plan, of a table, of a chart.

Jinja2 escapes every inserted text, and characters that cannot be shown are spelled out. The parts hold no script, and
no style except the classes of one sheet. Any page can show them under a policy that allows nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from itertools import groupby
from math import ceil, floor, isnan
from typing import TYPE_CHECKING, Any, final

from fitnoise.interfaces.pages.charts import Lines, Strips, chart
from fitnoise.interfaces.render import printable
from fitnoise.interfaces.reports.plans import table_label, warned
from fitnoise.kernel.units import PrivacyUnit
from fitnoise.messages import LANGUAGE_NAMES, Message, Translator, ValueKind, translator
from fitnoise.planning.ranges import summarised_tables
from fitnoise.planning.shared_columns import unrelated
from fitnoise.reading.bands import Band, Bands
from fitnoise.reading.description import condition_message, describe_pattern, left_out, merged_records
from fitnoise.reading.layouts import Heading, Label, Tabled, TableLayout, publication_of, releases
from fitnoise.reading.refusals import missing_package
from fitnoise.reporting import Report, distinct_heading
from fitnoise.request.coverage import ValueList, uncounted
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import Workload

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

    from fitnoise.mechanisms.summaries import TableSummary
    from fitnoise.planning.plan import Plan

MARKS = {Band.RELIABLE: "", Band.CARE: "†", Band.WIDE: "‡"}
"""The mark next to a number of each band."""

NOISE_ONLY = "°"
"""The mark of a margin that includes no sampling error, in a table with sampling errors."""

BANDS = {Band.RELIABLE: "page.band.reliable", Band.CARE: "page.band.care", Band.WIDE: "page.band.wide"}
"""The id of the name of each band."""

MAX_LISTED = 12
"""The largest number of tables that the contents of a page list one by one."""

FIGURE_SPACE = "\u2007"
"""A space as wide as a digit: padding before the margins of a column, so that all of them are equally wide."""

PAGES_PACKAGE = "fitnoise.interfaces.pages"


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

    outer_labels: tuple[Label, ...]
    rows: tuple[tuple[Label, tuple[Cell, ...]], ...]


@final
@dataclass(frozen=True)
class RenderedTable:
    """A table as a page shows it.

    caption: The meaning of its numbers.
    notes: The records that they count, and how.
    """

    number: int
    layout: TableLayout
    groups: tuple[RowGroup, ...]
    chart: Strips | Lines | None
    caption: str
    notes: tuple[str, ...]


@cache
def environment(language: str, also: str = "") -> Environment:
    """Return the templates, in a language.

    Args:
        language: The code of a language of reports, such as "en".
        also: A package with templates in addition to those of pages.

    Raises:
        ReleaseError: Jinja2 is not installed, or the language is unknown.
    """
    page_language = translator(language)
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise missing_package("Pages", "Jinja2", "report", "Nothing was written.") from None
    templates = Environment(
        # The templates of pages come first, so the studio cannot replace one of them.
        loader=ChoiceLoader([PackageLoader(x) for x in (PAGES_PACKAGE, also) if x]),
        autoescape=True,
        undefined=StrictUndefined,  # a template that names something missing fails, instead of showing nothing
        trim_blocks=True,
        lstrip_blocks=True,
        # Every inserted text passes here: a label can hold control characters that a page must not have.
        finalize=_printable,
    )
    templates.globals |= in_language(page_language)
    templates.globals |= {
        "Kind": ValueKind,
        "of_records": of_records,
        "references": references,
        "warnings": warned,
        "unrelated": unrelated,
        "language_names": LANGUAGE_NAMES,
        "distinct_heading": distinct_heading,
        "MARKS": MARKS,
        "MAX_LISTED": MAX_LISTED,
        "BANDS": BANDS,
        "style": style(),
        "type_of": _type,
    }
    return templates


def in_language(language: Translator) -> dict[str, Any]:
    """Return the functions by which templates write in a language, with the words of a publication if it has some."""
    return {
        "language": language,
        "t": language.translate,
        "number": language.number,
        "kind": language.kind,
        "word": language.name,
        "table_title": language.table,
        "words": lambda names: ", ".join(map(language.name, names)),
        "heading": partial(heading, language),
        "label_of": partial(label_text, language),
        "title_of": partial(title, language=language),
        "value_of": partial(value_text, language),
        "numbers_of": lambda table: numbers(table, language),
        "rules": partial(rules, language),
    }


def of_records(plan: Plan) -> list[TableSummary]:
    """Return the tables of a plan that count records, without sums and means."""
    return [s for s, table in summarised_tables(plan) if not table.summed and table.averaged is None]


def references(plan: Plan) -> dict[str, float]:
    """Return the numbers of records to which the margins of means refer, by table."""
    return {s.name: table.averaged[1].reference for s, table in summarised_tables(plan) if table.averaged is not None}


def _printable(x: object) -> object:
    """Return an inserted value; texts with the characters that can be shown, and the spaces of fitnoise."""
    return printable(x) if type(x) is str else x


def _type(x: object) -> str:
    return type(x).__name__


def heading(language: Translator, heading: Heading) -> str:
    """Return the heading of a column of labels."""
    return language.heading(heading.name if heading.view is None else heading.view.heading(heading.name))


def meaning(language: Translator, heading: Heading) -> str:
    """Return the meaning of the rows of a column; empty if its labels say all."""
    message = None if heading.view is None else heading.view.meaning(heading.name)
    return "" if message is None else language.write(message)


def rules(language: Translator, unit: PrivacyUnit) -> str:
    """Return the pattern of the records of one unit and the rule that merges them; empty if there are none."""
    return _list(language, (*describe_pattern(unit), *merged_records(unit)))


def module_of(template: str, language: str | Translator, also: str = "") -> Any:
    """Return the macros of a template in a language, with the words of a publication if the language has some.

    Args:
        template: The name of the template.
        language: The code of a language of reports, such as "en", or a language with words (:func:`wording`).
        also: A package with templates in addition to those of pages.
    """
    if isinstance(language, str):
        return environment(language, also).get_template(template).module
    return environment(language.code, also).get_template(template).make_module(in_language(language))


def fragment(name: str, language: str | Translator = "en", **context: Any) -> Markup:
    """Return one of the fragments, filled in.

    Args:
        name: The name of a macro in fragments.html.
        language: The code of a language of reports, such as "en", or a language with words of a publication.
        context: Its arguments.

    Raises:
        ReleaseError: :func:`environment` refuses the language, or Jinja2 is not installed.
    """
    # Macros are attributes of the template's module; each returns one complete piece, already escaped.
    return getattr(module_of("fragments.html", language), name)(**context)  # type: ignore[no-any-return]  # macros return what is escaped


@cache
def style() -> Markup:
    """Return the sheet that all fragments share; its rules are for elements of class "fitnoise"."""
    from markupsafe import Markup

    text = (resources.files(PAGES_PACKAGE) / "templates" / "style.css").read_text(encoding="utf-8")
    return Markup(text.strip())  # noqa: S704 - a file of fitnoise, without anything put in


def digest(text: str) -> str:
    """Return the digest by which a content security policy names a text that it allows."""
    # The policy of a page allows styles and scripts by their digest alone, so nothing that is inserted can run.
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def label_text(language: Translator, label: Label) -> str:
    """Return a label in a language, without its code."""
    if label.text is None:
        return language.translate("page.table.total")
    return language.label(label.attribute, label.text, label.code)


def value_text(language: Translator, attribute: str | None, value: Any) -> str:
    """Return a value of an attribute, which may be a label; any other value as a text."""
    return language.label(attribute or "", value) if isinstance(value, str) else language.kind(ValueKind.TEXT, value)


def labelled(label: Label, language: Translator) -> str:
    """Return a label, with its code only if other values may have this label."""
    text = label_text(language, label)
    return printable(f"{text} ({label.code})" if label.is_repeated and label.code else text)


def render_table(
    table: TableLayout, language: Translator, source: Tabled, index: int = 0, bands: Bands | None = None
) -> RenderedTable:
    """Return the parts of a table for a template: numbers as people read them, chart, caption and notes.

    index: The position of the table on its page.
    bands: The bands that a note below the table explains; None without such a note.
    """
    return RenderedTable(
        number=index,
        layout=table,
        groups=tuple(_groups(table, language)),
        chart=chart(table),
        caption=caption(table, language),
        notes=tuple(notes(table, language, source, bands)),
    )


def caption(table: TableLayout, language: Translator) -> str:
    """Return the meaning of the numbers of a table, in sentences."""
    # Biased numbers have no margin, so no sentence may state a confidence.
    if table.biased:
        return language.translate("page.caption.biased")
    level = language.kind(ValueKind.LEVEL, table.confidence)
    sentences = [_statistic(table, language)]
    if table.ends is not None:
        sentences.append(language.translate("page.caption.intervals", level=level))
    elif table.common_margin is None:
        sentences.append(language.translate("page.caption.own_margins", level=level))
    else:
        margin = language.number(table.common_margin, table.decimals)
        sentences.append(language.translate("page.caption.common_margin", margin=margin, level=level))
    coded, capped = table.counted
    sentences += [
        language.translate("page.caption.coded", name=printable(name), coded=_list(language, rules))
        for name, rules in coded.items()
    ]
    sentences += [language.translate("page.caption.cut")] if capped else []
    sentences += [language.translate("page.caption.variation")] if table.variations is not None else []
    return " ".join(sentences)


def _statistic(table: TableLayout, language: Translator) -> str:
    """Return the statistic that the numbers of a table estimate."""
    headings = (*table.stubs, *([table.across] if table.across else ()))
    changes = any(h.view is not None and h.view.signed for h in headings)
    names = _factors(table, language)
    if table.averaged is not None:
        return language.translate("page.caption.means", name=printable(table.averaged))
    if table.is_integer:
        return language.translate("page.caption.integers")
    if names:
        return language.translate("page.caption.changes_of_sums" if changes else "page.caption.sums", names=names)
    return language.translate("page.caption.changes" if changes else "page.caption.counts")


def _factors(table: TableLayout, language: Translator) -> str:
    """Return the names of the attributes that are summed."""
    return printable(" × ".join(map(language.name, table.summed)))


def numbers(table: TableLayout, language: Translator) -> str:
    """Return the heading of the numbers of a table with one column of them; no column of labels has it."""
    stubs = [printable(heading(language, stub)) for stub in table.stubs]
    if table.averaged is not None:
        group_numbers = language.translate("page.table.mean", name=printable(table.averaged))
    else:
        names = _factors(table, language)
        group_numbers = (
            language.translate("page.table.sum", names=names) if names else language.translate("page.table.records")
        )
    return distinct_heading(group_numbers, stubs, language.translate("page.table.value"))


def title(publication: Publication, language: Translator) -> str:
    """Return the title of a publication in a language; the word for a publication without one."""
    texts = publication.translations.get(language.code)
    return (texts and texts.title) or publication.title or language.translate("page.label.untitled")


def hashes(source: Tabled) -> str:
    """Return the plans of the tables, by their SHA-256."""
    return ", ".join(f"plan {r.plan.hash}" for r in releases(source))


def notes(table: TableLayout, language: Translator, tabled: Tabled, bands: Bands | None) -> Iterator[str]:
    """Yield the notes below a table: the records that it counts, its origin, the meaning of its signs."""
    plan = table.release.plan
    # The counted records come first: without them no number of the table has a meaning.
    yield " ".join(_universe(publication_of(tabled, table.name).workload, table.name, plan, language))
    plans = ", ".join(r.plan.hash[:12] for r in releases(tabled))
    combined = "page.method.combination" if len(releases(tabled)) > 1 else "page.method.release"
    integers = "page.method.integers_ordered" if table.has_rules else "page.method.integers"
    way = integers if table.is_integer else combined
    columns = (*table.stubs, *([table.across] if table.across else ()))
    method = [language.translate(way, plan=plans), *filter(None, (meaning(language, h) for h in columns))]
    if table.biased:
        group = plan.group(table.name)
        method += map(language.write, group.descriptions.describe_bias())
    yield " ".join(method)
    if table.impossible:
        rules_text = ("; ".join(listed(x, language) for x in rule) for rule in table.impossible)
        sentences = [language.translate("page.given.rule", values=text) for text in rules_text]
        sentences += [language.translate("page.given.zero")]
        yield " ".join([*sentences, *(language.write(m) for m in table.assumptions)])
    yield from map(language.write, table.remarks)
    if table.sampling is not None:
        yield language.translate("page.sampling.note")
        if any(map(isnan, table.sampling.flat)):
            yield language.translate("page.sampling.alone")
    if bands is not None and table.bands is not None:
        care, wide = (language.kind(ValueKind.LEVEL, x) for x in (bands.reliable, bands.care))
        yield language.translate("page.bands.signed" if table.signed else "page.bands.unsigned", care=care, wide=wide)


def exported_notes(table: TableLayout, language: Translator, tabled: Tabled, bands: Bands | None) -> Iterator[str]:
    """Yield the notes below a table that readers see without its report: those of reports, and the corrections."""
    yield from notes(table, language, tabled, bands)
    yield from corrections(tabled, language)


def corrections(tabled: Tabled, language: Translator) -> Iterator[str]:
    """Yield the sentences on earlier releases: those that are superseded, with the reason, and unprotected numbers."""
    for release in releases(tabled):
        yield from map(language.write, () if release.entry is None else release.entry.messages())
        for x in release.supersedes:
            earlier = language.number(x.entry.sequence)
            if len(releases(tabled)) == 1 or release.entry is None:
                yield language.translate("page.reading.supersedes", n=earlier, reason=x.reason)
            else:
                later = language.number(release.entry.sequence)
                yield language.translate("page.reading.corrects", later=later, earlier=earlier, reason=x.reason)


def _universe(workload: Workload, name: str, plan: Plan, language: Translator) -> Iterator[str]:
    """Yield the sentences about the records that a table counts."""
    source, unit = plan.publication.source, plan.publication.unit
    conditions = [language.write(condition_message(c)) for c in source.conditions]
    dropped = left_out(plan).get("left_out")
    table = workload[name]
    uncounted_values = uncounted(table, workload.domain)
    if conditions:
        yield language.translate("page.universe.conditions", source=source.name, conditions=", ".join(conditions))
    elif uncounted_values or dropped or (unit.parts == 1 and unit.bound is not None):
        yield language.translate("page.universe.some", source=source.name)
    else:
        yield language.translate("page.universe.all", source=source.name)
    if unit.parts > 1:
        yield language.translate("page.universe.shares", unit=unit.name)
    elif unit.bound is not None:
        yield language.translate("page.universe.bound", unit=unit.name, n=language.number(unit.max_records))
        if text := rules(language, unit):
            yield language.translate("page.universe.rules", unit=unit.name, rules=text)
    if dropped:
        yield language.translate("page.universe.dropped", names=", ".join(map(language.name, dropped)))
    for values in uncounted_values:
        yield language.translate("page.universe.uncounted", values=listed(values, language))
    for attribute, coded in table.coded(workload.domain).items():
        yield language.translate("page.universe.coded", name=attribute, coded=_list(language, coded))


def uncounted_by_table(plan: Plan, language: Translator) -> list[tuple[str, str]]:
    """Return the tables that leave values out, each with these values in a language."""
    domain = plan.publication.workload.domain
    value_lists = ((table_label(s.name, s.tables), uncounted(table, domain)) for s, table in summarised_tables(plan))
    return [
        (language.kind(ValueKind.TABLE, name), "; ".join(listed(x, language) for x in lists))
        for name, lists in value_lists
        if lists
    ]


def _list(language: Translator, messages: Iterable[Message]) -> str:
    """Return messages in a language, separated by semicolons."""
    return "; ".join(map(language.write, messages))


def listed(values: ValueList, language: Translator) -> str:
    """Return a list of values in a language."""
    pieces = (language.label(values.name, piece) for piece in values.pieces)
    text = f"{language.name(values.name)} {', '.join(pieces)}"
    return (
        language.translate("page.list.more", values=text, n=language.number(values.omitted_count))
        if values.omitted_count
        else text
    )


def margin_text(table: TableLayout, language: Translator, i: int, j: int, width: int = 0) -> str:
    """Return the margin of a number, padded to a width, or its interval; empty if the caption has it.

    Ends are rounded outwards, as margins are rounded up.
    """
    if table.ends is not None:
        ten = 10.0**table.decimals
        # 1e-6: an end that is a round number except for floating point stays that number.
        low, high = floor(table.ends[0][i, j] * ten + 1e-6) / ten, ceil(table.ends[1][i, j] * ten - 1e-6) / ten
        return (
            f"{language.number(low, table.decimals)}{'–' if low >= 0 else ' – '}{language.number(high, table.decimals)}"
        )
    if table.common_margin is not None and not table.totals[i, j]:
        return ""
    margin = f"± {language.number(float(table.rounded_margins[i, j]), table.decimals).rjust(width, FIGURE_SPACE)}"
    return f"{margin}{_variation_text(table, language, i, j)}"


def _variation_text(table: TableLayout, language: Translator, i: int, j: int) -> str:
    """Return the coefficient of variation of a number in brackets, or the mark of a margin of the noise alone."""
    if table.sampling is None or table.variations is None:
        return ""
    if isnan(table.sampling[i, j]):
        return NOISE_ONLY
    variation = float(table.variations[i, j])
    return "" if isnan(variation) else f" ({language.kind(ValueKind.PROPORTION, variation)})"


def _groups(table: TableLayout, language: Translator) -> Iterator[RowGroup]:
    digits = table.decimals
    texts = [[language.number(x, digits) for x in row] for row in table.values]
    # Margins of one column are padded to one width, so that the ± signs stand below each other.
    widths = [max(len(language.number(x, digits)) for x in column) for column in table.rounded_margins.T.tolist()]

    def cell(i: int, j: int) -> Cell:
        margin = margin_text(table, language, i, j, widths[j])
        return Cell(texts[i][j], margin, None if table.bands is None else table.bands[i, j])

    for outer_labels, rows in groupby(enumerate(table.rows), key=lambda row: row[1][:-1]):
        numbered_rows = ((row[-1] if row else Label(None), i) for i, row in rows)
        yield RowGroup(
            outer_labels, tuple((x, tuple(cell(i, j) for j in range(len(table.columns)))) for x, i in numbered_rows)
        )


def report(report: Report, language: str | Translator = "en") -> Markup:
    """Return any report as a list of sentences and tables, as on the command line."""
    return fragment("told", language, report=report)
