"""The story of a state tax-statistics office: five tables about 103,589 real tax filing units.

The units were built from the public-use March CPS: an unweighted sample, without any tax return (data/PROVENANCE.md).
The demo exposes no one.
"""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from fitnoise import data
from fitnoise.errors import ReleaseError
from fitnoise.interfaces.console import emit, gap_message, progress, show
from fitnoise.interfaces.render import document
from fitnoise.interfaces.reports.ledgers import balance_section
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.kernel.ledger import Ledger
from fitnoise.messages import Message, Value, ValueKind, english
from fitnoise.planning.comparison import plan as make_plan
from fitnoise.planning.files import unwritable_place
from fitnoise.planning.plan import Plan
from fitnoise.publishing import release
from fitnoise.reading.refusals import existing_place
from fitnoise.reading.release import Release
from fitnoise.reading.verification import Verification, verify
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section
from fitnoise.request.documents import load_spec
from fitnoise.request.workloads import Workload

CAP = Fraction(1, 20)
"""The office's budget for this data source, as ρ."""

RECORDS = 103_589
"""The number of records of the packaged data."""


def run(directory: Path | None, *, as_json: bool) -> dict[str, Any]:
    """Run the demonstration, and return the document that `fitnoise new --demo --json` prints.

    Args:
        directory: The new directory; None for fitnoise-demo, or the next free name.
        as_json: True if nothing is printed for people.

    Raises:
        ReleaseError: The directory exists or cannot be made, or the release does not verify.
    """
    folder = directory or _free(Path("fitnoise-demo"))
    if folder.exists():
        raise existing_place(folder.name, "Nothing was measured.")
    publication = load_spec(data.path(data.DEMO))
    with progress(Message("terminal.progress.planning")) as report_stage:
        plan = make_plan(publication, progress=lambda i, gap: report_stage(gap_message(i, gap)))
        report = plan_report(plan).adding(_separate_cost(plan))
    # Printed before the release, so that a reader has the plan to look at while records are counted.
    if not as_json:
        _print_plan(plan, report)
    with (
        progress(Message("terminal.progress.releasing")) as report_stage,
        Ledger(_make_folder(folder) / "ledger.sqlite") as ledger,
    ):
        ledger.set_cap(plan.order.account, CAP, reason="the office's budget for this source")
        result = release(plan, data.path(data.CPS), ledger=ledger, directory=folder / "release", progress=report_stage)
        report_stage(Message("terminal.stage.verifying"))
        checked = verify(folder / "release")
        balance = ledger.balance(plan.order.account)
    # The folder can be used without the package: specification, codes and data are copied.
    for name, copy_name in ((data.DEMO, "spec.toml"), (data.STATES, data.STATES), (data.CPS, data.CPS)):
        shutil.copy(data.path(name), folder / copy_name)
    if not checked.ok:
        broken = next(c for c in checked.checks if not c.holds)
        raise ReleaseError(
            "demo-not-verified",
            f"The release does not verify: {english(broken.claim)}.",
            f"The check found this: {english(broken.finding).rstrip('.')}.",
            "Check the installation, and report this fault.",
            "The release stays in its directory.",
        )
    spent = balance_section(Message("report.section.ledger"), balance)
    if not as_json:
        _print_release(folder, result, checked)
        second_release = replace(spent, messages=(Message("report.demo.refused"),))
        show(Report("", (spent, second_release)))
        emit()
        emit(Message("terminal.demo.studio", (Value("folder", str(folder)),)))
    done = (Value("directory", str(folder / "release")), Value("verified", checked.ok))
    return document(report.adding(Section(values=done), spent))


def _free(base: Path) -> Path:
    numbered = (base.with_name(f"{base.name}-{i}") for i in itertools.count(2))
    return next(p for p in itertools.chain([base], numbered) if not p.exists())


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise unwritable_place(
            repr(folder.name), error.strerror or type(error).__name__, "Nothing was measured."
        ) from None
    return folder


def _separate_cost(plan: Plan) -> Section:
    """Return the section with the cost of separate plans, each the best for its table."""
    w = plan.publication.workload
    # Separate plans add up: the cost of all tables is the sum of their costs.
    rho = sum(make_plan(Workload(w.domain, [t], w.confidence)).rho for t in w.tables)
    values = (Value("separately_planned_rho", rho, ValueKind.COMPARED),)
    return Section(Message("report.section.comparison"), (Message("report.demo.separate_plans", values),), values)


def _print_plan(plan: Plan, report: Report) -> None:
    emit(Message("terminal.demo.office"))
    emit(Message("terminal.demo.domain", (Value("cells", plan.publication.workload.domain.size, ValueKind.COUNT),)))
    emit()
    show(report)
    emit()


def _print_release(folder: Path, result: Release, checked: Verification) -> None:
    emit(Message("terminal.demo.measured", (Value("records", RECORDS, ValueKind.COUNT),)))
    emit(Message("terminal.demo.written", (Value("directory", str(folder / "release")),)))
    kind = ValueKind.MESSAGE
    for check in checked.checks:
        values = (Value("claim", check.claim, kind), Value("found", check.finding, kind))
        emit(Message("terminal.demo.verified", values))
    emit()
    name = "state by wages"
    rows = result[name].iloc[32:40]
    emit(Message("terminal.demo.rows", (Value("table", name, ValueKind.CODE),)))
    columns = (
        *(ReportColumn(attribute, attribute) for attribute in ("state", "wages")),
        ReportColumn("value", Message("report.heading.value"), ValueKind.ESTIMATE),
        ReportColumn("moe", Message("report.heading.moe"), ValueKind.ESTIMATE),
    )
    show(Report("", (Section(tables=(ReportTable.from_rows(name, columns, rows.to_dict("records")),)),)))
    top = result[name].query("wages == '200,000 or more'")
    total = result.sum(name, wages="200,000 or more")
    numbers = (Value("total", total.value, ValueKind.ESTIMATE), Value("moe", total.moe, ValueKind.ESTIMATE))
    emit(Message("terminal.demo.total", numbers))
    independent = Value("moe", float((top["moe"] ** 2).sum() ** 0.5), ValueKind.ESTIMATE)
    emit(Message("terminal.demo.independent", (Value("count", len(top), ValueKind.COUNT), independent)))
    emit()
