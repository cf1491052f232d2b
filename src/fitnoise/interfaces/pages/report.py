"""The report: one file of HTML about a plan or a release, with all that a reader needs, and nothing from elsewhere."""

from __future__ import annotations

import html
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from fitnoise import __version__
from fitnoise.errors import ReleaseError
from fitnoise.interfaces.exports.catalogues import schema_org
from fitnoise.interfaces.pages.fragments import (
    RenderedTable,
    corrections,
    digest,
    environment,
    in_language,
    render_table,
    style,
    title,
)
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.interfaces.wording import language_of, wording
from fitnoise.kernel.arrays import answers_digest
from fitnoise.messages import Message, Translator, Value, ValueKind
from fitnoise.planning.files import read_text, replace_file
from fitnoise.planning.plan import Plan
from fitnoise.reading.bands import Bands
from fitnoise.reading.derived_tables import DerivedTables
from fitnoise.reading.integer_tables import IntegerTables
from fitnoise.reading.layouts import Tabled, layout, publication_of, releases
from fitnoise.reading.refusals import UNWRITTEN, repeated_table, too_many_numbers, unknown_table
from fitnoise.reading.release import Release
from fitnoise.reading.release_files import check_new_file
from fitnoise.reading.table_sampling import ListedErrors, list_errors, listed_arrays
from fitnoise.reading.verification import Check, error_fault
from fitnoise.reporting import Report
from fitnoise.request.arguments import checked
from fitnoise.request.metadata import Metadata
from fitnoise.request.publication import Publication

if TYPE_CHECKING:
    from markupsafe import Markup

ENDING = ".html"
"""The ending of the name of a report."""

MAX_TABLES = 100
"""The largest number of tables of a report if none are named; named tables may be more."""

MAX_NUMBERS = 100_000
"""The largest number of numbers of a report: some ten megabytes."""

REQUEST_KEYS = ("language", "bands", "totals", "tables", "sampling_errors")
"""The arguments of a report, as it states them; for tables made of releases also their kind, as `of`."""

CLAIM = Message("report.claim.report")

SECTIONS_SHOWN_ELSEWHERE = (
    None,
    Message("report.section.price"),
    Message("report.section.records"),
    Message("report.section.counted"),
)
"""The titles of sections of a plan's report that a page states in its own words, or leaves out."""


@checked(ReleaseError, "No file was written.")
def report(
    what: Plan | Release | DerivedTables,
    path: str | os.PathLike[str],
    *,
    language: str | None = None,
    bands: Bands | None = None,
    totals: bool = False,
    tables: str | Iterable[str] | None = None,
    sampling_errors: Mapping[str, str | os.PathLike[str] | pd.DataFrame] | None = None,
) -> Path:
    """Write a report of a plan, a release, or tables made of releases: one HTML file without script.

    If the specification has metadata, the file describes a release for search engines (schema.org), as JSON-LD.
    It states the accuracy of the numbers and its cost, the protected unit, and how to read and check them. It has the
    tables of a release with charts. Needs the extra `fitnoise[report]`.

    Args:
        what: The plan, the release, integer tables, or a combination.
        path: The path of the new file; its name ends in .html.
        language: "en", "de", "es", "fr" or "it". Default: the language of the publication; English if reports lack it.
        bands: The rule by which numbers of a release are called reliable, to be used with care, or too wide.
        totals: True if tables of a release have totals over each attribute that they show value by value, with margins.
        tables: The names of the tables to show, or the name of one; without effect for a plan. Default: of the first
            100, as many as have no more numbers together than a report may have.
        sampling_errors: For some tables, the standard errors of sampling, as for :func:`fitnoise.export`. The report
            states them: it can be written again without the files.

    Returns:
        The path.

    Raises:
        ReleaseError: The name has another ending, Jinja2 is not installed, the language or a table is unknown, or a
            table is named twice. Or standard errors are unusable, or of another table, or of means or biased numbers.
            Or the named tables have too many numbers, or the place exists or cannot be written.

    **Guarantees**
        * Nothing in the report depends on the data except the noisy answers.
        * The report is the same file at every time of writing.
        * Texts of a specification are escaped: none can add to the page, or be taken for a part of it.
        * The file is written completely or not at all.
    """
    target = Path(path)
    check_place(target)
    listed: ListedErrors = {}
    if sampling_errors:
        if isinstance(what, Plan):  # it has no numbers
            raise unknown_table(next(iter(sampling_errors)), [], UNWRITTEN)
        listed = list_errors(what, sampling_errors, _names(what, _chosen(tables)))
    text = page(what, language=language, bands=bands, totals=totals, tables=tables, sampling_errors=listed)
    replace_file(target, text.encode())
    return target


def check_place(path: Path) -> None:
    """Refuse a name with another ending, and a place where no file can be made."""
    if path.suffix.lower() != ENDING:
        raise ReleaseError(
            "report-not-html",
            f"The report is to be written as {path.name!r}.",
            "A report is an HTML file.",
            f"Choose a name that ends in {ENDING}.",
            UNWRITTEN,
            place=path.name,
        )
    check_new_file(path)


def page(
    what: Plan | Release | DerivedTables,
    *,
    language: str | None = None,
    bands: Bands | None = None,
    totals: bool = False,
    tables: str | Iterable[str] | None = None,
    sampling_errors: ListedErrors | None = None,
) -> str:
    """Return the text of a report; arguments and errors as for :func:`report`, with listed standard errors."""
    language = language or language_of(_publications(what)[0])
    page_input = content(
        what, language=language, bands=bands, totals=totals, tables=tables, sampling_errors=sampling_errors
    )
    template = environment(language).get_template("made.html" if isinstance(what, DerivedTables) else "report.html")
    return template.render(**page_input, **in_language(wording(language, _publications(what))))


def _publications(what: Plan | Release | DerivedTables) -> list[Publication]:
    """Return the publications whose names and labels a page shows."""
    return [x.publication for x in ([what] if isinstance(what, Plan) else [r.plan for r in releases(what)])]


def content(
    what: Plan | Release | DerivedTables,
    *,
    language: str | None = None,
    bands: Bands | None = None,
    totals: bool = False,
    tables: str | Iterable[str] | None = None,
    sampling_errors: ListedErrors | None = None,
) -> dict[str, Any]:
    """Return the input of the template of a report; arguments and errors as for :func:`page`."""
    chosen, listed = _chosen(tables), sampling_errors or {}
    language = language or language_of(_publications(what)[0])
    rule = None if bands is None else [bands.reliable, bands.care]
    page_language = wording(language, _publications(what))

    def common_input() -> dict[str, Any]:
        """Return the input of every page, once its tables are known to exist."""
        # The arguments are stated in the page: `fitnoise verify --report` writes it again from them.
        request = dict(zip(REQUEST_KEYS, (language, rule, totals, chosen, listed), strict=True)) | _derived_content(
            what
        )
        request_text = json.dumps(request)
        return {
            "version": __version__,
            "sheet": style(),
            "digest": digest(style()),
            "asked": request_text,
            "bands": bands,
            "with_sampling": bool(listed),
        }

    if isinstance(what, DerivedTables):
        views_of_tables = _views(what, _names(what, chosen), page_language, bands, listed, totals=totals)
        return {
            **common_input(),
            "title": title(what.releases[0].plan.publication, page_language),
            "whole": isinstance(what, IntegerTables),
            "corrections": [*corrections(what, page_language)],
            "remarks": what.all_remarks(),
            "releases": [(r.plan, answers_digest(r.answers)) for r in what.releases],
            "tables": views_of_tables,
            "count": len(what),
            "has_rules": any(view.layout.impossible for view in views_of_tables),
        }
    plan, release = (what, None) if isinstance(what, Plan) else (what.plan, what)
    # A plan has no numbers yet, so its report has no tables with values.
    views = (
        [] if release is None else _views(release, _names(release, chosen), page_language, bands, listed, totals=totals)
    )
    count = sum(len(p.publication.workload.tables) for p in plan.groups)
    biased = [p.estimator is not None for p in plan.groups]
    # Biased tables have no signs of reliability: numbers without a sign would be taken for reliable ones.
    signs = bands if any(x.layout.bands is not None for x in views) else None
    shown_sections = (
        replace(s, tables=()) for s in plan_report(plan).sections if s.title not in SECTIONS_SHOWN_ELSEWHERE
    )
    return {
        **common_input(),
        "bands": signs,
        "plan": plan,
        "release": release,
        "corrections": [] if release is None else [*corrections(release, page_language)],
        "title": title(plan.publication, page_language),
        "tables": views,
        "count": count,
        "linked": len(views) == len(plan.summaries) == count,
        "biased": any(biased),
        "unbiased": not all(biased) or not biased,
        "answers": answers_digest(release.answers) if release is not None and release.answers else "",
        "told": Report("", tuple(shown_sections)),
        "metadata": list(_stated(plan.publication.metadata_in(language))),
        "described": "" if release is None else _described(release, page_language),
    }


def _stated(metadata: Metadata) -> Iterator[tuple[str, str]]:
    """Yield the id of a label and the text of each statement of the metadata."""
    contact = ", ".join(x for x in (metadata.contact, metadata.contact_email) if x)
    units = ", ".join(f"{name}: {unit}" for name, unit in metadata.amount_units.items())
    for label, text in (
        ("page.metadata.description", metadata.description),
        ("page.metadata.publisher", metadata.publisher),
        ("page.metadata.period", metadata.period),
        ("page.metadata.geography", metadata.geography),
        ("page.metadata.units", "; ".join(x for x in (metadata.unit_of_measure, units) if x)),
        ("page.metadata.methodology", metadata.methodology),
        ("page.metadata.keywords", ", ".join(metadata.keywords)),
        ("page.metadata.contact", contact),
        ("page.metadata.licence", metadata.licence),
        ("page.metadata.version", metadata.version),
    ):
        if text:
            yield label, text


def _described(release: Release, language: Translator) -> Markup | str:
    """Return the description of a release for search engines, as a block that no browser runs; empty without metadata.

    **Guarantees**
        * No text in it can end the block or begin a tag.
    """
    publication = release.plan.publication
    if publication.metadata == Metadata():
        return ""
    from markupsafe import Markup

    text = json.dumps(schema_org(release, title(publication, language), language))
    # JSON has < and & in texts only, where \u stands for the character.
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))  # noqa: S704


def _derived_content(what: Plan | Release | DerivedTables) -> dict[str, str]:
    """Return the kind of tables that were made of releases; empty for others."""
    return {"of": what.kind} if isinstance(what, DerivedTables) else {}


def parse_request(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the arguments of :func:`page` that a report states, and as `of` the kind of tables made of releases.

    Raises:
        ReleaseError: The text does not state them.
    """
    try:
        # Texts of a specification are escaped, so no other line of the page can have this form.
        (content_text,) = re.findall(r'^<meta name="fitnoise-report" content="([^"]*)">$', text, re.MULTILINE)
        stated = json.loads(html.unescape(content_text))
        language, bands, totals, tables, listed = (stated[key] for key in REQUEST_KEYS)
        has_types = isinstance(language, str) and isinstance(totals, bool)
        if not has_types or not (tables is None or all(isinstance(x, str) for x in tables)):
            raise ValueError(content_text)
        rule = None if bands is None else Bands(*bands)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ReleaseError(
            "report-without-options",
            "The file does not state the options of a report.",
            "",
            "Bring the file back as it was written.",
            "The report was not verified.",
        ) from None
    options = {"language": language, "bands": rule, "totals": totals, "tables": tables, "sampling_errors": listed}
    return options, {"of": stated["of"]} if "of" in stated else {}


def same(verified: Sequence[Plan | Release | DerivedTables], path: str | os.PathLike[str]) -> Check:
    """Return the check that a file is the report of one of some things, byte for byte, by writing it again."""
    try:
        text = read_text(Path(path))
        options, stated_kind = parse_request(text)
        # A release and tables made from releases are verified together: the report states which of the two it shows.
        what = next((x for x in verified if _derived_content(x) == stated_kind), None)
        if what is None:
            raise ReleaseError(
                "report-of-other-tables",
                "The report is of other tables.",
                "Tables of a folder are named with --integers or --combination.",
                "Name the folder of these tables, or verify a report of the release.",
                "The report was not verified.",
            )
        # The arguments come from the page itself. A false statement there gives another page, so the comparison refuses
        # it.
        rewritten = page(what, **options)
    except ReleaseError as error:
        return Check(CLAIM, holds=False, finding=error_fault(error))
    if text == rewritten:
        return Check(CLAIM, holds=True, finding=_bytes(len(text.encode())))
    # Another version of fitnoise may write other bytes; the finding then names both versions.
    generator = re.search(r'name="generator" content="fitnoise ([^"]*)"', text)
    values = (Value("version", "" if generator is None else generator[1]), Value("installed", __version__))
    other = generator is not None and generator[1] != __version__
    return Check(CLAIM, False, Message("report.fault.report_version" if other else "report.fault.report", values))


def _bytes(count: int) -> Message:
    return Message("report.finding.report", (Value("count", count, ValueKind.COUNT),))


def _views(
    source: Tabled,
    names: list[str],
    language: Translator,
    bands: Bands | None,
    listed: ListedErrors,
    *,
    totals: bool,
) -> list[RenderedTable]:
    errors = listed_arrays(source, listed, names)
    laid = (layout(source, name, totals=totals, bands=bands, sampling=errors.get(name)) for name in names)
    return [render_table(table, language, source, number, bands) for number, table in enumerate(laid, 1)]


def _chosen(tables: str | Iterable[str] | None) -> list[str] | None:
    """Return the names of the tables as a list; None without a choice."""
    return None if tables is None else [tables] if isinstance(tables, str) else list(tables)


def _names(source: Tabled, names: list[str] | None) -> list[str]:
    """Return the tables to show: those that are named, or the first of all."""
    if names is not None and len(set(names)) < len(names):
        raise repeated_table(UNWRITTEN)
    out, numbers = [], 0
    for name in islice(source, MAX_TABLES) if names is None else names:
        if name not in source:
            raise unknown_table(name, list(source), UNWRITTEN)
        workload = publication_of(source, name).workload
        numbers += math.prod(workload[name].shape(workload.domain))
        # Of all tables the first that fit are shown; tables that were named are refused instead, since leaving one out
        # would surprise.
        if numbers <= MAX_NUMBERS:
            out.append(name)
        elif names is not None:
            raise too_many_numbers(MAX_NUMBERS, UNWRITTEN)
    return out
