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
from fitnoise.interfaces.console import emit, progress, show
from fitnoise.interfaces.render import document
from fitnoise.interfaces.reports.ledgers import balance_section
from fitnoise.interfaces.reports.plans import plan_report
from fitnoise.kernel.ledger import Ledger
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.planning.comparison import plan as make_plan
from fitnoise.planning.plan import Plan
from fitnoise.publishing import release
from fitnoise.reading.refusals import existing_place, unwritable_place
from fitnoise.reading.release import Release
from fitnoise.reading.verification import Verification, verify
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section
from fitnoise.request.documents import load_spec
from fitnoise.request.workloads import Workload

CAP = Fraction(1, 20)
"""The office's budget for this data source, as ρ."""


def run(directory: Path | None, *, as_json: bool) -> dict[str, Any]:
    """Run the demonstration, and return the document that `fitnoise demo --json` prints.

    Raises:
        ReleaseError: The directory exists, or a released file does not verify.
    """
    folder = directory or _free(Path("fitnoise-demo"))
    if folder.exists():
        raise existing_place(folder.name, "Nothing was measured.")
    publication = load_spec(data.path(data.DEMO))
    with progress("planning") as report_step:
        plan = make_plan(publication, progress=lambda i, gap: report_step(f"step {i}, gap {gap:.1e}"))
        report = plan_report(plan).adding(_separate_cost(plan))
    if not as_json:
        _print_plan(plan, report)
    with progress("releasing") as report_step, Ledger(_make_folder(folder) / "ledger.sqlite") as ledger:
        ledger.set_cap(plan.order.account, CAP, reason="the office's budget for this source")
        result = release(plan, data.path(data.CPS), ledger=ledger, directory=folder / "release", progress=report_step)
        report_step("verifying what was written")
        checked = verify(folder / "release")
        balance = ledger.balance(plan.order.account)
    for name, copy_name in ((data.DEMO, "spec.toml"), (data.STATES, data.STATES), (data.CPS, data.CPS)):
        shutil.copy(data.path(name), folder / copy_name)
    if not checked.ok:
        broken = next(c for c in checked.checks if not c.holds)
        raise ReleaseError(
            "demo-not-verified",
            f"The release does not verify: {broken.claim}.",
            f"The check found this: {broken.found.rstrip('.')}.",
            "Check the installation, and report this fault.",
            "The release stays in its directory.",
        )
    spent = balance_section(Message("report.section.ledger"), balance)
    if not as_json:
        _print_release(folder, result, checked)
        second_release = replace(spent, messages=(Message("report.demo.refused"),))
        show(Report("", (spent, second_release)))
        emit()
        emit(f"To move its margins: fitnoise studio {folder} (pip install 'fitnoise[studio]'), pages of this machine.")
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
    rho = sum(make_plan(Workload(w.domain, [t], w.confidence)).rho for t in w.tables)
    values = (Value("separately_planned_rho", rho, ValueKind.COMPARED),)
    return Section(Message("report.section.comparison"), (Message("report.demo.separate_plans", values),), values)


def _print_plan(plan: Plan, report: Report) -> None:
    w = plan.publication.workload
    emit("A state tax-statistics office will publish five tables about tax filing units.")
    emit(f"The domain has {w.domain.size:,} cells. It says how accurate each table must be; no data are read yet.")
    emit()
    show(report)
    emit()


def _print_release(folder: Path, result: Release, checked: Verification) -> None:
    emit("measured   103,589 tax filing units, once: built from the public-use March CPS, an unweighted sample;")
    emit(f"           no tax return is involved; written to {folder / 'release'}")
    for check in checked.checks:
        emit(f"verified   {check.claim}: {check.found}")
    emit()
    name = "state by wages"
    rows = result[name].iloc[32:40]
    emit(f"A few lines of the table {name!r} (95 % margins; negative values are kept, so that sums stay unbiased):")
    columns = (
        *(ReportColumn(attribute, attribute) for attribute in ("state", "wages")),
        ReportColumn("value", Message("report.heading.value"), ValueKind.ESTIMATE),
        ReportColumn("moe", Message("report.heading.moe"), ValueKind.ESTIMATE),
    )
    show(Report("", (Section(tables=(ReportTable.of(name, columns, rows.to_dict("records")),)),)))
    top = result[name].query("wages == '200,000 or more'")
    total = result.sum(name, wages="200,000 or more")
    emit(f"Computed from it: all states, 200,000 or more: {total.value:,.1f} ± {total.moe:.1f}")
    emit(f"(as if the {len(top)} errors were independent it would be ± {(top['moe'] ** 2).sum() ** 0.5:.1f})")
    emit()
