"""A process that plans, proves and compares for the studio. It reads no data, and communicates by lines of JSON.

A newer question replaces an older one. The process stops a computation by raising from its `progress`. If a computation
does not call it, the studio ends the process.
"""

from __future__ import annotations

import json
import math
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO, final

import numpy as np
from markupsafe import Markup

from fitnoise.errors import FitnoiseError
from fitnoise.interfaces.pages.charts import cost_curve
from fitnoise.interfaces.pages.charts import curve as drawn_curve
from fitnoise.interfaces.pages.fragments import fragment, report, uncounted_by_table
from fitnoise.interfaces.reports.comparisons import comparison_report
from fitnoise.interfaces.reports.plans import free_report, margin_factor
from fitnoise.interfaces.reports.releases import integers_report, verification_report
from fitnoise.interfaces.wording import wording
from fitnoise.kernel.ledger import Ledger
from fitnoise.kernel.units import CountBasis
from fitnoise.messages import english
from fitnoise.planning import what_if
from fitnoise.planning.comparison import compare
from fitnoise.planning.comparison import plan as make_plan
from fitnoise.planning.files import replace_file
from fitnoise.planning.plan import Plan
from fitnoise.planning.what_if import privacy_curve
from fitnoise.reading.integer_tables import make_integer_tables
from fitnoise.reading.release import Release
from fitnoise.reading.verification import Verification, verify
from fitnoise.request.publication import Publication
from fitnoise_studio import forms
from fitnoise_studio.balances import balance_of
from fitnoise_studio.folder import DraftChanged, Folder, publication_of
from fitnoise_studio.page_parts import error_text, render_part
from fitnoise_studio.refusals import internal_error
from fitnoise_studio.workers import error_document

LIVE_PRICE_GAP = 1e-2
"""The gap of a price that is shown while margins move."""

NUMBERS_OF_RECORDS = (1, 2, 3, 4)
"""The numbers of records of one unit whose costs the page Protect shows, in addition to the present number."""

PROGRESS_INTERVAL_SECONDS = 0.2
"""The seconds between two lines of progress."""


@final
class PlanningInterrupted(BaseException):
    """The signal of another question. It is not an Exception, so that no code takes it for a failure of its own."""


ReportStep = Callable[[str], None]


def _distance(gap: float) -> str:
    """Return a gap as a whole percentage, rounded up; empty for more than 100 %, which a page does not show."""
    return f"{math.ceil(100 * gap)} %" if gap <= 1 else ""


def price(request: dict[str, Any], report_progress: ReportStep, root: Path) -> dict[str, Any]:
    """Return the cost of a draft, at a coarse gap if the draft requires a finer one."""
    plan = make_plan(_live(request, root), progress=lambda i, g: report_progress(_distance(g)))
    remaining = _remaining_cap(request, root, plan)
    language = wording(request["language"], [plan.publication])
    shares = zip(forms.marks_of(forms.parse(request["text"])), plan.summaries, strict=False)
    parts = {
        "price": render_part("price", language, plan=plan, proven=proven(plan), left=remaining),
        "details": render_part("details", language, plan=plan, left=remaining),
        **{f"share.{mark}": render_part("share", request["language"], mark, x) for mark, x in shares},
    }
    return {"parts": parts, "rho": plan.rho, "epsilon": plan.epsilon(), "source": plan.publication.source.name}


def _live(request: dict[str, Any], root: Path) -> Publication:
    """Return the publication of a draft with a coarse gap if the draft requires a finer one."""
    publication: Publication = publication_of(request["text"], root)
    gap = publication.gap
    # A coarse gap answers while a margin is still moved; `certify` plans at the requested gap.
    return replace(publication, gap=None if gap is None else max(gap, LIVE_PRICE_GAP))


def bounds(request: dict[str, Any], report_progress: ReportStep, root: Path) -> dict[str, Any]:
    """Return the cost of a draft for several numbers of records of one unit, each planned as the price is."""
    publication = _live(request, root)
    language = wording(request["language"], [publication])
    if publication.unit.count is CountBasis.SHARES:  # of which no number is a limit
        return {"html": render_part("bounds_table", language)}
    present, rows, reasons = publication.unit.max_records, dict[int, Any](), dict[Markup, None]()
    # The present number comes first: if its plan is refused, the draft has no costs.
    for number in dict.fromkeys((present, *NUMBERS_OF_RECORDS)):
        report_progress("")
        try:
            bounded = what_if.bound_records(publication, number)
            plan = make_plan(bounded, progress=lambda i, g: report_progress(_distance(g)))
            rows[number] = plan, proven(plan), margin_factor(plan)
        except FitnoiseError as error:
            if number == present:
                raise
            rows[number] = None
            reasons[error_text(error, request["language"])] = None
    part = render_part(
        "bounds_table",
        language,
        rows=sorted(rows.items()),
        present=present,
        plan=rows[present][0],
        has_budget=any(x.budget for x in publication.groups),
        reasons=reasons,
    )
    return {"html": part}


def proven(plan: Plan) -> int:
    """Return the number of digits of the price to show, ⌈−log₁₀ gap⌉; four for a plan of several groups."""
    # Gaps of several parts do not add up to one, so no gap bounds their price.
    if len(plan.groups) != 1 or not plan.gap > 0:
        return 4
    return next((d for d in range(1, 7) if plan.gap > 10.0**-d), 7)


def _remaining_cap(request: dict[str, Any], root: Path, plan: Plan) -> tuple[float, float] | None:
    """Return the rest of the cap after a release, and the cap, both as ρ; None without a cap or a ledger."""
    if not request.get("ledger"):
        return None
    with Ledger(root / request["ledger"]) as ledger:
        order = plan.order
        quote = ledger.quote(
            order.account,
            order.ledger_loss(),
            also=order.losses_of_units(ledger.accounts()),
            composed_with=order.composed_with,
        )
    if quote.cap is None or quote.remaining is None or quote.increase is None:
        return None
    return float(quote.remaining - quote.increase), float(quote.cap)


def certify(request: dict[str, Any], report_progress: ReportStep, root: Path) -> dict[str, Any]:
    """Plan at the requested gap, verify the written plan, and keep it by its hash."""
    folder = Folder(root)
    key = folder.key(request["text"])
    publication = publication_of(request["text"], root)
    # The files of the specification are read between the two: a key of other files would be stored for this plan.
    if folder.key(request["text"]) != key:
        raise DraftChanged(
            "codes-file-changed",
            "Another program changed a file of the specification while the studio read it.",
            "",
            "Press 'Certify this plan' again.",
            "Nothing was planned.",
        )
    plan = make_plan(publication, progress=lambda i, g: report_progress(_distance(g)))
    plan_file = folder.plan(plan.hash)
    plan_file.parent.mkdir(exist_ok=True)
    if not plan_file.exists():
        replace_file(plan_file, plan.to_json().encode())
    # The file is verified and not the plan in memory: a reader has only the file.
    checked = verify(plan_file)
    if not checked.ok:
        plan_file.unlink()
        broken = next(c for c in checked.checks if not c.holds)
        raise FitnoiseError(
            "plan-not-verified",
            f"The plan does not verify: {english(broken.claim)}: {english(broken.finding).rstrip('.')}.",
            "",
            "Press 'Certify this plan' again; report this fault if it remains.",
            "The plan was not kept.",
        )
    folder.certify(key, plan.hash)
    return {"html": proof(plan, checked, request["language"]), "plan": plan.hash}


def proof(plan: Plan, checked: Verification, language: str) -> str:
    """Return a plan with its checks, its curve, and its free tables."""
    curve = [(d, plan.epsilon(d)) for d in (1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-3)]
    free, translation = free_report(plan), wording(language, [plan.publication])
    return render_part(
        "proof",
        translation,
        plan=plan,
        checked=checked.checks,
        checks=report(verification_report(checked), translation),
        left=uncounted_by_table(plan, translation),
        curve=curve,
        drawn=drawn_curve(*privacy_curve(plan)),
        free=report(free, translation) if free.sections else None,
    )


def show(request: dict[str, Any], report_progress: ReportStep, root: Path) -> dict[str, Any]:
    """Return a plan that was certified before."""
    plan_file = Folder(root).plan(request["plan"])
    report_progress("")
    plan = Plan.from_json(plan_file.read_text(encoding="utf-8"))
    return {"html": proof(plan, verify(plan_file), request["language"]), "plan": plan.hash}


def sweep(request: dict[str, Any], report_progress: ReportStep, root: Path) -> dict[str, Any]:
    """Return the cost of the publication with other margins of one table."""
    publication: Publication = publication_of(request["text"], root)
    plan = make_plan(publication, progress=lambda i, g: report_progress(_distance(g)))
    names, table_index = [t.name for t in plan.summaries], str(request["place"])
    if not (table_index.isascii() and table_index.isdigit() and int(table_index[:9]) < len(names)):
        raise FitnoiseError(
            "table-not-in-plan",
            "The plan has no such table.",
            "",
            "Reload the page, and choose a table.",
            "Nothing was planned.",
        )
    margin_sweep = what_if.sweep(plan, names[int(table_index)], progress=lambda k, n, i, g: report_progress(f"{k}/{n}"))
    margins = np.array([x.target_moe for x in margin_sweep.points])
    line = cost_curve(margins, np.array([x.rho for x in margin_sweep.points]))
    totals = margins_of_totals(plan, int(table_index))
    language = wording(request["language"], [plan.publication])
    return {"html": render_part("sweep", language, sweep=margin_sweep, drawn=line, totals=totals)}


def margins_of_totals(plan: Plan, table_index: int) -> list[tuple[str, float]]:
    """Return the largest margin of the totals of a table by each of its attributes, and of the total of all records.

    The total has the name "". The list is empty for tables of amounts, for patterns of tables, and where a plan alone
    does not give the margins.

    Args:
        plan: The plan.
        table_index: The index of the table, from 0.
    """
    summary, publication = plan.summaries[table_index], plan.publication
    if summary.tables > 1 or plan.questions or publication.public is not None:
        return []
    table = publication.workload[summary.name]
    names = [x for x in table.labels(publication.domain) if x in publication.domain and table.view(x).is_by_value]
    if table.summed or table.averaged or not names:
        return []
    lengths = (n for part in plan.groups for n in part.strategy.lengths)
    # Margins depend on the plan alone, so answers of zero do.
    release = Release(plan, [np.zeros(n, dtype=np.int64) for n in lengths])
    try:
        singles = names if len(names) > 1 else []
        margins = [(x, float(release.count(by=[x]).frame()["moe"].max())) for x in singles]
        return [*margins, ("", float(release.count().frame()["moe"].max()))]
    except FitnoiseError:
        return []


def kinds(request: dict[str, Any], report_progress: ReportStep, root: Path) -> dict[str, Any]:
    """Compare Laplace with Gaussian noise."""
    publication: Publication = publication_of(request["text"], root)
    # A comparison needs plans of all kinds, also of those that the cap would refuse.
    uncapped = replace(publication, gap=None, cap=None)
    comparison = compare(uncapped, progress=lambda i, g: report_progress(_distance(g)))
    language = wording(request["language"], [uncapped])
    return {"html": str(report(comparison_report(uncapped, comparison, uncapped.delta), language))}


def verify_release(request: dict[str, Any], report_progress: ReportStep, root: Path) -> dict[str, Any]:
    """Verify a release with its ledger, as a reader would from its files."""
    folder = Folder(root)
    report_progress("")
    with Ledger(folder.inside(request["ledger"])) as ledger:
        checked = verify(folder.inside(request["release"]), ledger=ledger)
        charged = next((e.account for e in ledger.entries() if e.digest == request["charge"]), None)
        balance = None if charged is None else balance_of(ledger.balance(charged), 0)
    return {"html": render_part("verified", request["language"], checks=checked.checks, balance=balance)}


def write_integer_tables(request: dict[str, Any], report_progress: ReportStep, root: Path) -> dict[str, Any]:
    """Write integer tables of a release next to it."""
    folder = Folder(root)
    report_progress("")
    read = Release.read(folder.inside(request["release"]))
    integer_tables = make_integer_tables(read)
    report_progress("")  # what was stopped meanwhile writes nothing
    target = integer_tables.write(folder.target(request["out"]))
    language = wording(request["language"], [read.plan.publication])
    return {"html": str(report(integers_report(integer_tables, Path(target.name)), language))}


TASKS: dict[str, Callable[[dict[str, Any], ReportStep, Path], dict[str, Any]]] = {
    "price": price,
    "bounds": bounds,
    "certify": certify,
    "show": show,
    "sweep": sweep,
    "kinds": kinds,
    "verify": verify_release,
    "whole": write_integer_tables,
}


def answered(request: dict[str, Any], report_progress: ReportStep) -> dict[str, Any]:
    """Return the answer to a question, or the error that it raised."""
    try:
        return {"kind": "done", **TASKS[request["what"]](request, report_progress, Path(request["folder"]))}
    except FitnoiseError as error:
        return {"kind": "refused", **error_document(error)}
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return {"kind": "failed", **error_document(internal_error(error))}


def _lines(stream: TextIO) -> Iterator[dict[str, Any]]:
    for line in stream:
        yield json.loads(line)


def main() -> None:
    """Answer questions until there are no more."""
    # The lines go to a copy of stdout, whose number then leads to stderr: output of a library stays out of the
    # protocol.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a print does not break the lines
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def say(**document: Any) -> None:
        out.write(json.dumps(document) + "\n")
        out.flush()

    def listen() -> None:
        for question in _lines(sys.stdin):
            waiting.put(question)
        os._exit(0)  # the studio is gone

    threading.Thread(target=listen, daemon=True).start()
    _ = fragment("told", "en", report=verification_report(Verification(())))  # templates are read once
    say(kind="ready")
    while True:
        question = waiting.get()
        # Of the questions that wait, only the newest is answered.
        while not waiting.empty():
            question = waiting.get()
        report_time = 0.0

        def report_step(step: str, n: int = question["n"]) -> None:
            nonlocal report_time
            # A newer question, or a stop, ends this computation at its next step.
            if not waiting.empty():
                raise PlanningInterrupted
            if time.monotonic() - report_time >= PROGRESS_INTERVAL_SECONDS:
                report_time = time.monotonic()
                say(kind="step", n=n, text=step)

        say(kind="begun", n=question["n"])
        try:
            answer = answered(question, report_step) if question["what"] != "stop" else {"kind": "stopped"}
        except PlanningInterrupted:
            answer = {"kind": "stopped"}
        say(n=question["n"], **answer)


if __name__ == "__main__":
    main()
