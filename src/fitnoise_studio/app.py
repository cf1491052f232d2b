"""The pages of the studio: handlers from a form to parts of a page. State lies in the folder, in processes, and here.

    Draft ── valid ──> Priced ── certify ──> Certified (HASH, verified) ── data chosen ──> Bound (one use, ten minutes)
      ^──────────────── any edit ────────────────┘           name typed ──> Releasing ──> Released | Refused | Failed

A reply to a change is a complete page, or parts of one. The script puts every element with `data-part` in the place of
the one with its id.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from fitnoise.errors import FitnoiseError, LedgerError, ReleaseError
from fitnoise.interfaces.exports.export import FORMATS, export
from fitnoise.interfaces.pages.fragments import listed, style
from fitnoise.interfaces.pages.fragments import report as report_html
from fitnoise.interfaces.pages.report import content
from fitnoise.interfaces.pages.report import report as write_report
from fitnoise.interfaces.reports.ledgers import ledger_report
from fitnoise.interfaces.reports.releases import answer_report
from fitnoise.interfaces.wording import wording
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.ledger.entries import check_amount
from fitnoise.kernel.ledger.rules import is_address
from fitnoise.kernel.units import Account
from fitnoise.messages import Translator, translator
from fitnoise.planning.files import read_text
from fitnoise.planning.plan import Plan
from fitnoise.reading.description import account_message
from fitnoise.reading.expressions import ask
from fitnoise.reading.release import Release, superseded_pairs
from fitnoise.reading.release_files import DESCRIPTION, leftovers
from fitnoise.request.attributes import KINDS
from fitnoise.request.documents import exact_number
from fitnoise.request.known_totals import ORIGINS
from fitnoise_studio import answers, forms, questions, rule_forms, table_forms
from fitnoise_studio.access import SubmittedForm
from fitnoise_studio.balances import EXAMPLE_CAPS, Balance, balances, cap_guess, reasons
from fitnoise_studio.folder import SPEC, DraftChanged, Folder, digest, named_files
from fitnoise_studio.page_parts import error_text, page, render_part
from fitnoise_studio.refusals import Refusals, Refused, internal_error, refused_at
from fitnoise_studio.releasing import head_of, no_data, not_requested, released_before, totals_of
from fitnoise_studio.state import STEPS, Studio
from fitnoise_studio.workers import QuestionReplaced

PACKAGE = "package"
"""The kind of an export that is a folder; the kind of a file is its ending without the point."""

BUDGET = "budget.sqlite"
"""The name of a new ledger."""

MAX_COLUMNS = 200
"""The largest number of columns of a file that a page lists."""

STATE_TEXTS = {
    "releasing": "studio.state.releasing",
    "released": "studio.where.released",
    "refused": "studio.where.refused",
    "failed": "studio.where.failed",
}
"""The id of the text of each state of a release."""

POLL_SECONDS = 0.25
"""The seconds between two checks for changes."""


# --- handlers --------------------------------------------------------------------------------------------------------

Handler = Callable[[Studio, Request], Response]


def _shell(
    studio: Studio,
    page_name: str,
    status: int = 200,
    *,
    on: str = "",
    parts: Mapping[str, Markup] | None = None,
    base: str | None = None,
    language: Translator | None = None,
    **context: Any,
) -> Response:
    """Return a complete page.

    base: The digest of the draft that it shows; default: the present one.
    language: The language of the studio with the words of a publication; None for that of the draft.
    """
    on = on or page_name
    html = page(
        page_name,
        language or _language(studio),
        shown=page_name,
        on=on,
        pages=STEPS,
        folder=studio.folder,
        tab=studio.tab(),
        base=studio.base() if base is None else base,
        parts=studio.parts(on) if parts is None else parts,
        words=forms.VALUE_TEXTS,
        **studio.form,
        **context,
    )
    return HTMLResponse(html, status)


def _language(studio: Studio) -> Translator:
    """Return the language of the studio, with the draft's names in it and the word for what the draft counts."""
    try:
        return forms.wording_of(studio.document(), studio.language)
    except FitnoiseError:
        return translator(studio.language)


def _parts(studio: Studio, page_name: str, status: int = 200) -> Response:
    """Return the parts of a page that change by themselves, and no problem."""
    html = Markup("\n").join(studio.parts(page_name).values()) + render_part("alert", studio.language, why="")
    return HTMLResponse(html, status)


def _wrong(studio: Studio, error: FitnoiseError) -> Response:
    if isinstance(error, DraftChanged) and error.differences:
        return HTMLResponse(
            render_part("conflict", studio.language, settings=error.differences, base=error.present), 409
        )
    status = 409 if isinstance(error, DraftChanged) else 422
    errors = error.errors if isinstance(error, Refused) else {}
    fields = {name: error_text(x, studio.language, x.message) for name, x in errors.items()}
    why = error_text(error, studio.language)
    return HTMLResponse(render_part("alert", studio.language, why=why, fields=fields), status)


def _go(url: str) -> Response:
    """Send the script to a place."""
    return Response(status_code=204, headers={"x-go": url})


def protect(studio: Studio, request: Request) -> Response:
    """Show the page of the unit of protection."""
    # The planner starts while the page is made, so that the price is there when the reader comes to it.
    studio.wish_price()
    document = studio.document()
    fields = {".".join(p): forms.field_text(document, p) for p in forms.DEFAULTS}
    choices = {".".join(p): x for p, x in forms.CHOICES.items()}
    cap = forms.cost_shown(document, ("privacy", "cap"))
    merge = forms.merge_of(document)
    return _shell(
        studio,
        "protect",
        fields=fields,
        choices=choices,
        cap=cap,
        costs=forms.COSTS,
        merge=merge,
        rows=forms.rows_of(document),
        stated=forms.number_stated(document),
        settings=len(forms.SETTINGS),
    )


def describe(studio: Studio, request: Request, removed: str = "") -> Response:
    """Show the page of attributes. removed: the attribute that the request removed."""
    document = studio.document()
    language = str(document.get("language", "en"))
    fields = [forms.fields_of(keys, language) for keys in forms.domain_of(document).values()]
    return _describe(studio, document, fields, removed=removed)


def _describe(
    studio: Studio,
    document: forms.Document,
    fields: list[dict[str, Any]],
    base: str | None = None,
    removed: str = "",
) -> Response:
    """Show the page of attributes with the fields of each."""
    studio.wish_price()
    files = [(studio.folder.number(x), x) for x in studio.folder.files(".csv")]
    return _shell(
        studio,
        "describe",
        base=base,
        attributes=[(i, *x) for i, x in enumerate(zip(forms.domain_of(document), fields, strict=True))],
        kinds=KINDS,
        files=files,
        cuts=forms.CUTS,
        removed=removed,
    )


def data(studio: Studio, request: Request) -> Response:
    """Show the data of the folder, and the columns of one file by their names."""
    studio.wish_price()
    folder, document = studio.folder, studio.document()
    files, file_number = folder.headed(), request.query_params.get("file", "")
    columns, why = [], Markup()
    if file_number:
        try:
            name = folder.name_by_number(file_number, files)
            columns = [(i, x, *forms.kind_by_name(x)) for i, x in forms.new_columns(document, folder.columns(name))]
        except FitnoiseError as error:
            why = error_text(error, studio.language)
    return _shell(
        studio,
        "data",
        data=[(folder.number(x), x) for x in files],
        asked=file_number,
        columns=columns[:MAX_COLUMNS],
        more=max(0, len(columns) - MAX_COLUMNS),
        kinds=(*KINDS, forms.IDENTIFIES),
        why=why,
    )


def start(studio: Studio, request: Request) -> Response:
    """Show the first page: the data of a new folder, and afterwards its attributes."""
    return describe(studio, request) if forms.domain_of(studio.document()) else data(studio, request)


def tables(studio: Studio, request: Request, removed: str = "") -> Response:
    """Show the page of tables. removed: the table that the request removed."""
    studio.wish_price()
    document, language = studio.document(), _language(studio)
    fields = {".".join(p): forms.field_text(document, p) for p in forms.DEFAULTS if p[0] == "accuracy"}
    listed_tables = [
        (
            mark,
            forms.table_words(t, language),
            *forms.target_of(t),
            [] if table_forms.table_fields(document, t) else table_forms.keys_of_file(t),
        )
        for t, mark in zip(forms.tables_of(document), forms.marks_of(document), strict=True)
    ]
    return _shell(
        studio,
        "tables",
        tables=listed_tables,
        removed=removed,
        has_columns=bool(forms.shown_of(document)),
        first_patterns=[] if listed_tables else table_forms.first_patterns(document, studio.folder.root),
        first_margin=table_forms.FIRST_MARGIN,
        fields=fields,
        budget=forms.cost_shown(document, ("budget",)),
        costs=forms.COSTS,
        targets=forms.TARGETS,
    )


def rules(studio: Studio, request: Request) -> Response:
    """Show the page of rules about impossible records, and of public totals."""
    document = studio.document()
    return _rules(studio, document, rule_forms.rule_fields(document))


def _rules(
    studio: Studio, document: forms.Document, fields: rule_forms.RuleFields, action: str = "", base: str | None = None
) -> Response:
    """Show the page of rules and totals with the fields of a form."""
    studio.wish_price()
    return _shell(
        studio,
        "rules",
        base=base,
        fields=fields,
        added=action,
        columns=rule_forms.columns_of_rules(document),
        of_totals=rule_forms.columns_of_totals(document),
        comparisons=rule_forms.COMPARISONS,
        treatments=rule_forms.TREATMENTS,
        origins=ORIGINS,
        in_file=rule_forms.entries_of_file(document),
    )


def new_table(studio: Studio, request: Request) -> Response:
    """Show the page that builds a table: an empty one, or a copy of another."""
    return _builder(studio, _stored_fields(studio.document(), request.query_params.get("like", "")))


def one_table(studio: Studio, request: Request) -> Response:
    """Show the page that builds a table, with a table of the draft."""
    document, index = studio.document(), request.path_params["place"]
    fields = _stored_fields(document, index)
    return _builder(studio, fields, index, mark=forms.marks_of(document)[int(index)])


def _stored_fields(document: forms.Document, index: str) -> table_forms.TableFields:
    """Return the fields of a table of the draft, or of a new one. Raise SpecError if no form can show the table."""
    if not index:
        return table_forms.TableFields()
    listed = forms.tables_of(document)
    fields = table_forms.table_fields(document, listed[forms.parse_index(index, len(listed), "table")])
    if fields is None:
        raise table_forms.table_of_file(int(index))
    return fields


def _builder(
    studio: Studio,
    fields: table_forms.TableFields,
    index: str = "",
    action: str = "",
    base: str | None = None,
    mark: str = "",
) -> Response:
    """Show the page that builds a table, with fields that may be of no table yet; mark: that of the stored table."""
    studio.wish_price()
    document = studio.document()
    fields = table_forms.acted(document, fields, action)
    columns = {x.position: x for x in fields.columns}
    names = {x.name for x in fields.columns}
    marks = forms.marks_of(document)
    rest = table_forms.kept_keys(forms.tables_of(document)[marks.index(mark)]) if mark in marks else []
    return _shell(
        studio,
        "table",
        on=f"tables/{index or 'new'}",
        base=base,
        index=index,
        mark=mark,
        fields=fields,
        columns=columns,
        places=range(max(3, len(columns) + 1, *(x + 1 for x in columns)) if columns else 3),
        names=forms.shown_of(document),
        amounts=table_forms.amounts_of(document, fields.statistic),
        views={name: table_forms.views_of(document, name) for name in names},
        kinds={name: table_forms.kind_of(document, name) for name in names},
        presets={name: [*table_forms.presets_of(document, name)] for name in names},
        added=action,
        blank=table_forms.Band(),
        targets=forms.TARGETS,
        patterns=forms.PATTERNS,
        rest=rest,
        preview=_preview(studio, document, fields),
    )


def _preview(studio: Studio, document: forms.Document, fields: table_forms.TableFields) -> Markup:
    """Return the empty table that fields describe, or the reason for its absence."""
    empty, why, language = None, Markup(), _language(studio)
    if fields.columns or fields.amount or fields.pattern:
        try:
            empty = table_forms.preview(document, fields, studio.folder.root)
        except FitnoiseError as error:
            why = error_text(error, studio.language, f"{error.given} {error.action}".strip())
    level, margin, reference = (
        forms.confidence_of(document),
        table_forms.margin_of(fields),
        forms.number_of(fields.reference),
    )
    counts = level is not None and fields.statistic not in ("sum", "mean")
    return render_part(
        "preview",
        language,
        shown=empty,
        why=why,
        fields=fields,
        uncounted=[] if empty is None else [listed(x, language) for x in empty.table.uncounted],
        meaning=forms.meaning_of({"margin": margin}) if counts and margin else None,
        margin=None if level is None else margin,
        reference=reference if reference > 0 else None,
        level=level,
    )


def prove(studio: Studio, request: Request) -> Response:
    """Show the page that plans at the requested gap, verifies, and compares."""
    studio.wish_price()
    plan, key = studio.folder.certified(), studio.folder.key(studio.folder.text())
    # A plan that this server certified has its job already, and one report is enough.
    has_job = any(j.question.get("key") == key for j in studio.jobs.all)
    if plan is not None and not has_job:  # certified by an earlier server
        studio.jobs.add("show", {"what": "show", "plan": plan, "key": key, **studio.question_fields})
    return _shell(studio, "prove", plan=plan, tables=_table_names(studio))


def _table_names(studio: Studio) -> list[str]:
    """Return the tables of the draft in words; none for a draft that no form can show."""
    try:
        return [forms.table_words(t, _language(studio)) for t in forms.tables_of(studio.document())]
    except FitnoiseError:
        return []


def price(studio: Studio, request: Request) -> Response:
    """Show the cost in detail."""
    studio.wish_price()
    return _shell(studio, "price", tables=_table_names(studio))


def file(studio: Studio, request: Request) -> Response:
    """Show the draft as it is written, for all that forms do not show."""
    studio.wish_price()
    return _shell(studio, "file", text=studio.folder.text(), name=SPEC)


def release(studio: Studio, request: Request, fields: Mapping[str, Any] | None = None) -> Response:
    """Show the page that releases: choose the data, request, release once."""
    folder, plan = studio.folder, studio.folder.certified()
    used = [(n, _release_state(studio, n)) for n in studio.releases.numbers()]
    fit, unfit = ([], []) if plan is None else _fits(folder, _columns(_plan(folder, plan)))
    return _shell(
        studio,
        "release",
        plan=plan,
        data=[(folder.number(x), x, has) for x, has in fit],
        unfit=unfit,
        ledgers=[(folder.number(x), x, _balances(folder, x)) for x in folder.ledgers()],
        new=BUDGET,
        language=None if fields is None else wording(studio.language, [fields["plan"].publication]),
        out=_free(folder, "release"),
        public=None if plan is None else _plan(folder, plan).publication.public,
        files=[(folder.number(x), x) for x in folder.files(".csv")],
        asked=fields,
        used=used,
        left=leftovers(folder.root),
    )


def _plan(folder: Folder, plan: str) -> Plan:
    return Plan.load(folder.plan(plan))


def _columns(plan: Plan) -> list[str]:
    """Return the columns of the data that a plan reads."""
    publication = plan.publication
    stated = [publication.domain.column(x) for x in publication.domain]
    return list(dict.fromkeys(x for x in (*stated, publication.unit.id) if x is not None))


def _fits(folder: Folder, columns: Sequence[str]) -> tuple[list[tuple[str, int]], list[tuple[str, list[str]]]]:
    """Return the data that a release can read, and those that lack columns, by the first line of each file.

    For data that fit, the number is that of the columns; 0 for data whose columns only the release reads.
    """
    headed = set(folder.headed())
    fit, unfit = [], []
    for name in folder.data():
        try:
            there = {x.strip().casefold() for x in folder.columns(name)} if name in headed else None
        except FitnoiseError:
            there = None
        lacks = [] if there is None else [x for x in columns if x.strip().casefold() not in there]
        if lacks:
            unfit.append((name, lacks))
        else:
            fit.append((name, 0 if there is None else len(columns)))
    return fit, unfit


def _balances(folder: Folder, name: str) -> list[Balance]:
    """Return the balances of a ledger; none for one that cannot be read, which the release refuses."""
    try:
        with Ledger(folder.inside(name)) as book:
            return balances(book)
    except FitnoiseError:
        return []


def _release_state(studio: Studio, number: str) -> str:
    """Return the name of a release, and its state."""
    try:
        release_state = studio.releases.where(number)
    except FitnoiseError:
        return "?"
    return f"{release_state.intent.out}: {translator(studio.language).translate(STATE_TEXTS[release_state.state])}"


def _free(folder: Folder, base: str, ending: str = "") -> str:
    names = (f"{base}{'' if i == 1 else f'-{i}'}{ending}" for i in range(1, 1000))
    return next(x for x in names if not (folder.root / x).exists())


def released(studio: Studio, request: Request) -> Response:
    """Show the state of one release."""
    return _shell(studio, "where", on=f"release/{request.path_params['number']}")


def report(studio: Studio, request: Request) -> Response:
    """Show the releases of the folder."""
    releases = [(studio.folder.number(x), x) for x in studio.folder.releases()]
    return _shell(studio, "reports", on="report", releases=releases)


def _opened(studio: Studio, request: Request) -> tuple[str, Release]:
    name = studio.folder.name_by_number(request.path_params["number"], studio.folder.releases())
    return name, Release.read(studio.folder.inside(name))


def one_report(studio: Studio, request: Request) -> Response:
    """Show the report of a release, with questions."""
    name, read = _opened(studio, request)
    report_context = content(read, language=studio.language, totals=True)
    number = request.path_params["number"]
    publication = read.plan.publication
    language = wording(studio.language, [publication])
    listed_examples = questions.examples(publication.domain, publication.workload.tables)
    base = {
        "name": name,
        "place": number,
        "tab": studio.tab(),
        "menus": _menus(studio, read, name, questions.Question("number"), SubmittedForm()),
        "examples": [questions.title(publication.domain, x, language) for x in listed_examples],
        "pages": STEPS,
        "done": studio.steps_done(),
        "folder_name": studio.folder.root.name,
        "parts": {"state": studio.state_part()},
        "shown": "report",
        "jobs": studio.jobs_part("whole"),
    }
    html = page("studio_report", language, **report_context, **base, **studio.form)
    return HTMLResponse(html)


def question(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Answer a question about a release, or show its menus after a button that changes them."""
    name, read = _opened(studio, request)
    publication, example = read.plan.publication, form.get("example")
    language, domain = wording(studio.language, [publication]), publication.domain
    requested = questions.submitted_question(form)
    if "again" in form:
        menus = _menus(studio, read, name, requested, form, new=form["again"])
        return HTMLResponse(render_part("menus", language, **menus))
    if example is not None:
        with refused_at("example"):
            requested = questions.example(domain, publication.workload.tables, example)
    others = [x for x in studio.folder.releases() if x != name]
    with refused_at("since"):
        since = studio.folder.name_by_number(requested.since, others) if requested.since else None
        other = None if since is None else Release.read(studio.folder.inside(since))
    # A written formula goes before the menus, which are hidden from whom writes one.
    text = "" if example is not None else form.get("question", "").strip()
    is_simultaneous = "simultaneous" in form
    with refused_at("question" if text else "measure"):
        formulas = [text] if text else questions.formulas(domain, requested)
        results = [ask(x, read, other, by=[requested.breakdown] if requested.breakdown else []) for x in formulas]
    level = results[0].confidence
    # All intervals of a comparison hold at once if those of each of its parts do, with a third of the error.
    at_once = 1 - (1 - level) / len(results) if is_simultaneous else level
    frames = [x.frame(at_once, simultaneous=is_simultaneous) for x in results]
    is_share = requested.measure == "share" and not text
    difference = answers.POINTS if is_share else answers.NUMBERS
    unit = answers.SHARES if is_share and since is None else difference
    units = [unit] if len(results) == 1 else [unit, unit, difference]
    sides = ("", "", "") if text else questions.stated_conditions(domain, requested, language)
    titles = [*sides[1:], ""] if len(results) == 3 else [""]
    cards = answers.cards(results, frames, titles, units, language)
    details = answer_report(read, formulas[-1], results[-1], frames[-1], simultaneous=is_simultaneous, other=other)
    html = render_part(
        "answer",
        language,
        title=text or questions.title(domain, requested, language),
        cards=cards,
        formula=formulas[-1],
        level=level,
        is_simultaneous=is_simultaneous,
        since=since,
        name=name,
        notes=() if other is None else superseded_pairs((read, other)),
        details=replace(details, sections=tuple(replace(x, tables=()) for x in details.sections)),
        is_example=example is not None,
    )
    if example is not None:
        html += render_part("menus", language, **_menus(studio, read, name, requested, form))
    return HTMLResponse(html + render_part("alert", studio.language, why=""))


def _menus(
    studio: Studio, read: Release, name: str, requested: questions.Question, form: SubmittedForm, *, new: str = ""
) -> dict[str, Any]:
    """Return what the menus of a question need. new: the button that was pressed, whose menu has the focus."""
    domain = read.plan.publication.domain
    return {
        "question": requested,
        "listed": list(questions.conditions(domain)),
        "measures": questions.measures(domain),
        "names": [x for x in domain if x not in domain.steps],
        "others": [(studio.folder.number(x), x) for x in studio.folder.releases() if x != name],
        "most": questions.MAX_CONDITIONS,
        "simultaneous": "simultaneous" in form,
        "written": "" if "example" in form else form.get("question", ""),
        "new": new,
    }


def write_outputs(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Write a report or tables of a release next to it; integer tables, which take time, as a job."""
    name, read = _opened(studio, request)
    kind, language = form.get("kind", ""), form.get("language", studio.language)
    base = Path(name).name
    if kind == "html":
        target = studio.folder.target(_free(studio.folder, f"{base}-report", ".html"))
        write_report(read, target, language=language, totals=True)
    elif kind == "whole":
        target = studio.folder.target(_free(studio.folder, f"{base}-whole"))
        studio.jobs.add("whole", {"what": "whole", "release": name, "out": target.name, **studio.question_fields})
        return _parts(studio, "report")
    else:
        ending = {**{x.removeprefix("."): x for x in FORMATS}, PACKAGE: ""}.get(kind)
        if ending is None:
            with refused_at("kind"):
                raise ReleaseError(
                    "export-kind-not-chosen",
                    "No kind of file is chosen.",
                    "It must be a report, integer tables, a workbook, LaTeX or a data package.",
                    "Choose the kind.",
                    "Nothing was written.",
                )
        name_of_target = _free(studio.folder, f"{base}-{'tables' if ending else PACKAGE}", ending)
        target = studio.folder.target(name_of_target)
        # A data package is in the language of the publication, without totals.
        export(read, target, language=language if ending else None, totals=bool(ending))
    return HTMLResponse(render_part("done", studio.language, name=target.name))


def ledger(studio: Studio, request: Request) -> Response:
    """Show the spent privacy costs."""
    folder = studio.folder
    names = folder.ledgers()
    ledger_number = request.query_params.get("ledger", "")
    contents: dict[str, Any] = {"ledger": None}
    name, why = None, Markup()
    try:
        name = folder.name_by_number(ledger_number, names) if ledger_number else (names[0] if names else None)
        if name:
            contents = _read_ledger(studio, name)
        contents["accounts"] = [(a.source, account_message(a), is_new) for a, is_new in _accounts(folder, name)]
    except FitnoiseError as error:
        why = error_text(error, studio.language)
    return _shell(
        studio,
        "ledger",
        ledgers=[(folder.number(x), x) for x in names],
        name=name,
        new=BUDGET,
        chosen=None if name is None else folder.number(name),
        why=why,
        examples=[(float(x), cap_guess(x)) for x in EXAMPLE_CAPS],
        **contents,
    )


def _read_ledger(studio: Studio, name: str) -> dict[str, Any]:
    """Return what the page shows of a ledger."""
    folder = studio.folder
    with Ledger(folder.inside(name)) as book:
        # A ledger that another program changed must not be shown as if its sums held.
        book.verify()
        entries, accounts = book.entries(), balances(book)
        quotes = [book.balance(a) for a in book.accounts()]
        book_report = ledger_report(entries, quotes, book.head(), leftovers(folder.root))
    there = {_charge_of(folder, x): x for x in folder.releases()}
    return {
        "ledger": report_html(book_report, studio.language),
        "balances": accounts,
        "entries": list(reasons(entries, there)),
        # The release of a charge may also lie elsewhere: its number is shown, and nothing is concluded.
        "missing": [e.sequence for e in entries if e.kind == "charge" and e.digest not in there],
    }


def _refuse_second_ledger() -> None:
    """Raise before a new ledger is made if the environment names one on a server: that would be a second budget."""
    if is_address(os.environ.get("FITNOISE_LEDGER")):
        raise LedgerError(
            "ledger-on-server",
            "FITNOISE_LEDGER names a ledger on a server.",
            "The studio charges ledgers in files of its folder, and a new one would be a second budget.",
            "Release the certified plan with `fitnoise release`, or start the studio without FITNOISE_LEDGER.",
            "Nothing was measured and nothing was charged.",
        )


def _accounts(folder: Folder, name: str | None) -> list[tuple[Account, bool]]:
    """Return the accounts of a ledger, and that of the certified plan as a new one if the ledger lacks it.

    name: The ledger; None for a new one.
    """
    accounts = []
    if name is not None:
        with Ledger(folder.inside(name)) as book:
            accounts = book.accounts()
    plan = folder.certified()
    new = [] if plan is None else [_plan(folder, plan).order.account]
    return [*((a, False) for a in accounts), *((a, True) for a in new if a not in accounts)]


def _charge_of(folder: Folder, name: str) -> str:
    try:
        return str(json.loads(read_text(folder.root / name / DESCRIPTION))["ledger"]["digest"])
    except (FitnoiseError, ValueError, KeyError, TypeError):
        return ""


# --- changes ---------------------------------------------------------------------------------------------------------


def set_protect(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Set the unit of protection."""
    studio.change(form, lambda d: forms.protect(d, form))
    return _go("/tables") if "next" in form else protect(studio, request)


def set_tables(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Set the margins; the reply waits for the price."""
    studio.change(form, lambda d: forms.margins(d, form))
    if "next" in form:
        return _go("/prove")
    studio.price()
    return _parts(studio, "tables")


def set_table(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Keep a table that was built, or show what the form holds after another choice, and keep nothing."""
    index = request.path_params.get("place", "")
    if "sweep" in form:
        return _sweep_of_form(studio, form, index)
    if "again" not in form:
        studio.change(form, lambda d: table_forms.with_table(d, form, index))
        return _go("/tables")
    fields, action = table_forms.submitted_fields(form), form["again"]
    if action == "preview":
        return HTMLResponse(_preview(studio, studio.document(), fields))
    # The page goes on to show the draft that it was made for, so that a change by another tab is not hidden.
    return _builder(studio, fields, index, action, form.get("base", ""), form.get("of", ""))


def add_pattern(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Add the tables of a pattern."""

    def added(document: forms.Document) -> forms.Document:
        table = table_forms.table_of(document, table_forms.first_fields(document, form.get("pattern", "")))
        return {**document, "tables": [*forms.tables_of(document), table]}

    studio.change(form, added)
    return tables(studio, request)


def _sweep_of_form(studio: Studio, form: SubmittedForm, index: str) -> Response:
    """Compute the cost of other margins of the table that a form holds, as a job, and keep nothing of the form."""
    document, page_name = studio.document(), f"tables/{index or 'new'}"
    text = forms.write(table_forms.with_table(document, form, index))
    i = forms.place_of(document, index, form.get("of", "")) if index else len(forms.tables_of(document))
    question = {"what": "sweep", "text": text, "place": str(i), "page": page_name}
    studio.jobs.add("sweep", {**question, **studio.question_fields})
    return _parts(studio, page_name)


def remove_table(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Remove a table."""
    index, mark, before = request.path_params["place"], form.get("of", ""), studio.document()
    studio.change(form, lambda d: forms.remove_table(d, index, mark))
    table = forms.tables_of(before)[forms.place_of(before, index, mark)]
    return tables(studio, request, forms.table_words(table, _language(studio)))


def undo(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Bring the draft back from before the last change, which removed something."""
    studio.write(form, studio.draft_before)
    return _go("/describe" if form.get("page") == "describe" else "/tables")


def set_rules(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Set rules and public totals, or show what the form holds after another choice, and keep nothing."""
    if "again" in form:
        fields, action = rule_forms.submitted_rules(form), form["again"]
        return _rules(studio, studio.document(), rule_forms.acted(fields, action), action, form.get("base", ""))
    studio.change(form, lambda d: rule_forms.with_rules(d, form))
    return _go("/tables") if "next" in form else rules(studio, request)


def add_columns(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Add an attribute for each ticked column of a file."""
    with refused_at("file"):
        columns = studio.folder.columns(studio.folder.name_by_number(form.get("file", ""), studio.folder.headed()))
    studio.change(form, lambda d: forms.add_columns(d, form, columns))
    return _go("/describe")


def set_attributes(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Set the keys of all attributes, or show what the form holds after another choice, and keep nothing."""
    if "again" in form:
        document = studio.document()
        language, (action, _, index) = str(document.get("language", "en")), form["again"].rpartition("@")
        fields = [
            forms.submitted_attribute(keys, forms.part_of(form, i), language, action if index == str(i) else "")
            for i, keys in enumerate(forms.domain_of(document).values())
        ]
        return _describe(studio, document, fields, form.get("base", ""))
    files, listed_files = dict[int, str](), studio.folder.files(".csv")
    with Refusals() as refusals:
        for i in range(len(forms.domain_of(studio.document()))):
            with refusals.for_field(f"{i}.file"):
                if form.get(f"{i}.file"):
                    files[i] = studio.folder.name_by_number(form[f"{i}.file"], listed_files)
    studio.change(form, lambda d: forms.describe_all(d, form, files))
    removed = form.get(f"{form['remove']}.of", "") if "remove" in form else ""
    return _go("/protect") if "next" in form else describe(studio, request, removed)


def set_file(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Set the text of the draft."""
    # Browsers send line breaks of two characters; the draft keeps those that it was read with.
    text = form.get("text", "").replace("\r\n", "\n")
    with refused_at("text"):
        forms.parse(text)
    studio.write(form, lambda _: text)
    return file(studio, request)


def save(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Make the draft the specification."""
    studio.folder.save()
    return _parts(studio, "")


def discard(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Remove the draft."""
    studio.folder.discard()
    return _go("/describe")


def stop_price(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Stop the computation of the price; jobs go on."""
    studio.planner.stop()
    return _parts(studio, "tables")


def certify(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Plan and verify, as a job."""
    text = studio.folder.text()
    key = studio.folder.key(text)  # to know the job again; what is kept goes by the planner's own
    studio.jobs.add("certify", {"what": "certify", "text": text, "key": key, **studio.question_fields})
    return _parts(studio, "prove")


def sweep(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Compute the cost of other margins of one table, as a job."""
    question = {"what": "sweep", "text": studio.folder.text(), "place": form.get("place", ""), **studio.question_fields}
    studio.jobs.add("sweep", question)
    return _parts(studio, "price")


def kinds(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Compare Laplace with Gaussian noise, as a job."""
    studio.jobs.add("kinds", {"what": "kinds", "text": studio.folder.text(), **studio.question_fields})
    return _parts(studio, "prove")


def stop_job(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Stop a job."""
    job_number = request.path_params["place"]
    studio.jobs.stop(int(job_number) if re.fullmatch("[0-9]{1,6}", job_number) else 0)  # no job has the number 0
    return _parts(studio, "")  # several pages show jobs, and get them as events


def ask_release(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Bind plan, data and place together, for one use within ten minutes."""
    folder, plan = studio.folder, studio.folder.certified()
    if plan is None:
        raise DraftChanged(
            "plan-not-certified",
            "No plan is certified for the specification in its present form.",
            "A release needs a plan that the page Prove planned and verified.",
            "Press 'Certify this plan' on the page Prove.",
            "Nothing was measured.",
        )
    certified_plan = _plan(folder, plan)
    ledger_number, codes = form.get("ledger", ""), named_files(folder.text())
    table, out = form.get("table", "").strip() or None, form.get("out", "").strip()
    data: tuple[str, ...] = ()
    book, totals = BUDGET, ""
    with Refusals() as refusals:
        with refusals.for_field("data"):
            data_names = folder.data()
            data = tuple(dict.fromkeys(folder.name_by_number(x, data_names) for x in form.all("data")))
            if not data:
                raise no_data()
        with refusals.for_field("ledger"):
            if ledger_number:
                book = folder.name_by_number(ledger_number, folder.ledgers())
            elif folder.ledgers():
                raise FitnoiseError(
                    "ledger-not-chosen",
                    "No ledger is chosen, and the folder has ledgers.",
                    "A release is charged in one ledger.",
                    "Choose the ledger.",
                    "Nothing was measured.",
                )
            else:
                _refuse_second_ledger()
            head_of(folder, book)
        with refusals.for_field("totals"):
            if form.get("totals"):
                totals = folder.name_by_number(form["totals"], folder.files(".csv"))
            if data:
                totals_of(folder, certified_plan, totals, data)
        with refusals.for_field("out"):
            folder.target(out)
    with refused_at("data"):
        number = studio.releases.ask(certified_plan, data, codes, table, book, out, totals)
    return _confirmation(studio, request, number)


def _confirmation(studio: Studio, request: Request, number: str) -> Response:
    """Show what a release does, to be confirmed; first its public totals, if they are not confirmed yet."""
    folder, intent = studio.folder, studio.releases.open_intent(number)
    if intent is None:
        raise not_requested()
    certified_plan, book = _plan(folder, intent.plan), intent.ledger
    before, unfinished = released_before(folder, book, certified_plan)
    request_fields = {
        "number": number,
        "plan": certified_plan,
        "intent": intent,
        "data": intent.data,
        "ledger": book,
        "out": intent.out,
        "source": intent.source,
        "quote": _quote(folder, book, certified_plan),
        "before": before,
        "unfinished": unfinished,
        "columns": _columns(certified_plan),
        "until": time.strftime("%H:%M", time.localtime(time.time() + studio.releases.remaining_seconds(number))),
    }
    return release(studio, request, request_fields)


def _quote(folder: Folder, name: str, plan: Plan) -> Any:
    if not (folder.root / name).exists():
        return None
    order = plan.order
    with Ledger(folder.inside(name)) as book:
        return book.quote(
            order.account,
            order.ledger_loss(),
            also=order.losses_of_units(book.accounts()),
            composed_with=order.composed_with,
        )


def confirm(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Confirm a release; each confirmation works once."""
    number, typed = request.path_params["number"], form.get("typed", "")
    intent = studio.releases.open_intent(number)
    wrong = intent is not None and typed != intent.source
    # A wrong name is shown at its field; other refusals concern the complete request.
    with refused_at("typed") if wrong else contextlib.nullcontext():
        studio.releases.confirm(number, typed, studio.folder.certified())
    return _go(f"/release/{number}")


def confirm_totals(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Accept the statement about the file of public totals, and show all that the release does."""
    number = request.path_params["number"]
    if studio.releases.open_intent(number) is None:
        raise not_requested()
    with refused_at("statement"):
        studio.releases.state_totals(number, form.get("statement", ""))
    return _confirmation(studio, request, number)


def stop_release(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Stop a release, until it is charged."""
    number = request.path_params["number"]
    studio.releases.stop(number)
    return _parts(studio, f"release/{number}")


def set_cap(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Set a cap, once its account was typed; without a ledger in the folder, in a new one."""
    folder, names = studio.folder, studio.folder.ledgers()
    name = folder.name_by_number(form.get("ledger", ""), names) if names else None
    accounts = [account for account, _ in _accounts(folder, name)]
    number = form.get("account", "")
    # At most five digits: `int` takes long for a text of many digits.
    i = int(number) if number.isascii() and number.isdigit() and len(number) < 6 else len(accounts)
    with refused_at("account"):
        if i >= len(accounts):
            raise LedgerError(
                "account-not-chosen",
                "No account of the ledger is chosen.",
                "A cap belongs to one account.",
                "Choose one of the accounts.",
                "Nothing was changed.",
            )
    with Refusals() as refusals:
        with refusals.for_field("cap"):
            cap = exact_number(form.get("cap", "").strip(), "Nothing was changed.")
            check_amount(cap)  # before a new ledger is made
        with refusals.for_field("typed"):
            if form.get("typed", "") != accounts[i].source:
                raise LedgerError(
                    "source-name-not-typed",
                    f"The typed text is not the name of the source, {accounts[i].source!r}.",
                    "To set a cap, the name of its source must be typed.",
                    "Type the name of the source.",
                    "Nothing was changed.",
                    values={"source": accounts[i].source},
                )
        if name is None:
            with refusals.for_field("account"):
                _refuse_second_ledger()
    # A form that is refused makes no file.
    with Ledger(folder.target(BUDGET) if name is None else folder.inside(name)) as book:
        book.set_cap(accounts[i], rho=cap, reason=form.get("reason", ""))
    return _go(f"/ledger?ledger={form['ledger']}" if names else "/ledger")


def quit_studio(studio: Studio, request: Request, form: SubmittedForm) -> Response:
    """Stop the server, its cookie and its tokens."""
    studio.closing.set()
    return HTMLResponse(render_part("closed", studio.language, folder=studio.folder.root.name))


async def events(studio: Studio, request: Request) -> Response:
    """Send the parts that change by themselves, as events; each has its digest, so that a page can resume."""
    page_name = request.query_params.get("on", "")
    last = request.headers.get("last-event-id", "")

    async def stream() -> AsyncIterator[str]:
        nonlocal last
        while not studio.closing.is_set():
            # In a thread: parts read files and the ledger, and other pages are served meanwhile.
            html = await asyncio.to_thread(lambda: Markup("\n").join(studio.parts(page_name).values()))
            if digest(html) != last:
                last = digest(html)
                data = "\n".join(f"data: {line}" for line in html.splitlines())
                # With the id a page that connects again gets only what it does not show yet.
                yield f"id: {last}\n{data}\n\n"
            await asyncio.sleep(POLL_SECONDS)

    return StreamingResponse(stream(), media_type="text/event-stream")


def script(studio: Studio, request: Request) -> Response:
    """Return the script."""
    return Response(_read_template("studio.js"), media_type="text/javascript")


def sheet(studio: Studio, request: Request) -> Response:
    """Return the style sheet of pages, and that of the studio."""
    return Response(f"{style()}\n{_read_template('studio.css')}", media_type="text/css")


def _read_template(name: str) -> str:
    return (resources.files(__package__) / "templates" / name).read_text(encoding="utf-8")


PAGE_HANDLERS: Mapping[str, Handler] = {
    "/": start,
    "/data": data,
    "/describe": describe,
    "/protect": protect,
    "/rules": rules,
    "/tables": tables,
    "/tables/new": new_table,
    "/tables/{place}": one_table,
    "/price": price,
    "/prove": prove,
    "/file": file,
    "/release": release,
    "/release/{number}": released,
    "/report": report,
    "/report/{number}": one_report,
    "/ledger": ledger,
    "/studio.js": script,
    "/studio.css": sheet,
}

FORM_HANDLERS: Mapping[str, Callable[[Studio, Request, SubmittedForm], Response]] = {
    "/data": add_columns,
    "/protect": set_protect,
    "/describe": set_attributes,
    "/rules": set_rules,
    "/tables": set_tables,
    "/tables/new": set_table,
    "/tables/pattern": add_pattern,
    "/tables/{place}": set_table,
    "/tables/{place}/remove": remove_table,
    "/undo": undo,
    "/file": set_file,
    "/save": save,
    "/discard": discard,
    "/price/stop": stop_price,
    "/certify": certify,
    "/sweep": sweep,
    "/kinds": kinds,
    "/jobs/{place}/stop": stop_job,
    "/release": ask_release,
    "/release/{number}": confirm,
    "/release/{number}/totals": confirm_totals,
    "/release/{number}/stop": stop_release,
    "/report/{number}/ask": question,
    "/report/{number}/write": write_outputs,
    "/ledger": set_cap,
    "/quit": quit_studio,
}


def application(studio: Studio) -> Starlette:
    """Return all routes. Handlers run in threads, because they can wait."""

    def page_route(handler: Handler) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            studio.last_asked = studio.clock()
            try:
                try:
                    return handler(studio, request)
                except FitnoiseError as error:
                    return _shell(studio, "wrong", 422, why=error_text(error, studio.language))
            except Exception as error:  # of the parts of a page, one may be what failed
                return _shell(studio, "wrong", 500, parts={}, why=error_text(internal_error(error), studio.language))

        return answer

    def form_route(handler: Callable[[Studio, Request, SubmittedForm], Response]) -> Callable[[Request], Response]:
        def answer(request: Request) -> Response:
            studio.last_asked = studio.clock()
            try:
                return handler(studio, request, request.scope["form"])
            # The reply to a later change of the page is on its way, and takes the place of this one.
            except QuestionReplaced:
                return Response(status_code=204)
            except FitnoiseError as error:
                return _wrong(studio, error)
            except Exception as error:
                return HTMLResponse(_wrong(studio, internal_error(error)).body, 500)

        return answer

    async def send_events(request: Request) -> Response:
        return await events(studio, request)

    return Starlette(
        routes=[
            *(Route(path, page_route(handler), methods=["GET"]) for path, handler in PAGE_HANDLERS.items()),
            *(Route(path, form_route(handler), methods=["POST"]) for path, handler in FORM_HANDLERS.items()),
            Route("/events", send_events, methods=["GET"]),
        ]
    )
