"""The reports of a release: when it is made, when it is read, and when it is checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fitnoise.interfaces.reports.costs import messages_for
from fitnoise.interfaces.reports.ledgers import balance_section
from fitnoise.interfaces.reports.plans import means, public, records, table_label, tables, units, warning_sections, whom
from fitnoise.kernel.ledger import LedgerEntry, Quote
from fitnoise.kernel.profiles import ceil_dyadic
from fitnoise.kernel.units import Account
from fitnoise.mechanisms.summaries import TableSummary
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.planning.plan import Plan
from fitnoise.proposals import Proposal
from fitnoise.publishing import PeriodStatus
from fitnoise.reading.combining import Combination
from fitnoise.reading.contradictions import MIN_GAIN
from fitnoise.reading.description import account_message, public_totals
from fitnoise.reading.expressions import attributes_by_value
from fitnoise.reading.integer_tables import IntegerTables
from fitnoise.reading.labelled_numbers import LabelledNumbers
from fitnoise.reading.microdata import InventedRecords
from fitnoise.reading.questions import MIXED_UNIVERSE_TEXT
from fitnoise.reading.release import Charge, FiniteAnswer, Release
from fitnoise.reading.verification import Verification
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section
from fitnoise.request.workloads import Table as Asked
from fitnoise.request.workloads import TableSequence

MAX_NAMES_PER_LINE = 12
"""The number of tables and patterns that one line names; if there are more, the first."""

MAX_TABLES_SEARCHED = 1_000
"""The largest number of tables for which the widest margin is computed."""


def receipt_report(
    plan: Plan,
    answers: Iterable[FiniteAnswer],
    directory: Path,
    table_names: Sequence[str],
    rise: Fraction,
    ledger_file: Path | str,
    balance: Quote | None,
) -> Report:
    """Return the released and charged quantities.

    Args:
        plan: The plan that was measured.
        answers: The answers to questions with finitely many results.
        directory: The directory of the release.
        table_names: The names of the tables that have files.
        rise: The increase of the spent ρ.
        ledger_file: The path of the ledger that was charged, or its address.
        balance: The spent cost and the rest; None if the ledger could not be read.
    """
    table_count = sum(len(p.workload.tables) for p in plan.publication.groups)
    has_all_files = len(table_names) == table_count
    where = (
        Value("directory", str(directory)),
        Value("plan", plan.hash),
        Value("written", "all" if has_all_files else table_names),
    )
    counts = (
        Value("files", len(table_names), ValueKind.COUNT, spoken=True),
        Value("all", table_count, ValueKind.COUNT, spoken=True),
    )
    question_names = Value("asked", [q.name for q in plan.publication.questions], spoken=True)
    return Report(
        plan.publication.title,
        (
            Section(Message("report.section.directory"), (Message("report.receipt.directory", where),), where),
            Section(
                Message("report.section.tables"),
                tables_messages([p.workload.tables for p in plan.publication.groups]),
                (_names(plan),),
            ),
            Section(
                Message("report.section.files"),
                () if has_all_files else (Message("report.receipt.files", counts), Message("report.receipt.rebuilt")),
                counts,
            ),
            Section(
                Message("report.section.answers"),
                (Message("report.receipt.answers", (question_names,)),) if plan.questions else (),
                (),
                (_answers(answers).silent(),),
            ),
            whom(plan),
            _charged(plan, rise),
            *warning_sections(plan),
            records(plan),
            *public(plan),
            *units(plan),
            *_ledger(ledger_file, balance),
        ),
    )


def _ledger(file: Path | str, balance: Quote | None) -> Iterator[Section]:
    """Yield the ledger that was charged, and the balance of the account if it could be read."""
    values = (Value("ledger", str(file)),)
    ledger = Section(Message("report.section.ledger"), (Message("report.receipt.ledger", values),), values)
    if balance is None:
        yield ledger
    else:  # people read both as one, and programs find the balance at a path of its own
        section = balance_section(None, balance)
        yield replace(ledger, messages=(*ledger.messages, *section.messages))
        yield replace(section, messages=())


def approval_section(charge: Charge | None) -> Iterator[Section]:
    """Yield the proposal and the approval of a release, as its charge names them; nothing without a proposal."""
    keys = ("proposal", "proposed_by", "approved_by")
    stated: list[Any] = [charge.detail.get(key) for key in keys] if isinstance(charge, LedgerEntry) else []
    # where no approval is required, a charge may state anything under these keys
    if not stated or not all(isinstance(x, str) for x in stated):
        return
    digest, *names = stated
    people = tuple(map(Value, keys[1:], names))
    message = Message("report.receipt.approval", (*people, Value("proposal", digest[:12])))
    values = (*people, Value("proposal", digest))
    yield Section(Message("report.section.approval"), (message,), values, path=("approval",))


def proposal_report(proposal: Proposal, file: Path, account: Account) -> Report:
    """Return a proposal for people, and for programs as it is in its file.

    Args:
        proposal: The proposal.
        file: Its file.
        account: The account that would be charged.
    """
    release, ledger = proposal.release, proposal.ledger
    values = (
        Value("person", proposal.proposed_by),
        Value("plan", release["plan"][:12]),
        Value("source", account.source),
        Value("unit", account_message(account), ValueKind.MESSAGE),
        Value("data", release["data"]),
        Value("directory", str(release["directory"])),
        Value("rho", release["rho"], ValueKind.COST),
        Value("file", str(file)),
    )
    spent = Value("spent", ledger["spent"], ValueKind.COST), Value("after", ledger["spent_after"], ValueKind.COST)
    texts = ["report.proposal.release", "report.proposal.cost"]
    texts += [] if ledger["fits"] else ["report.proposal.unfit"]
    is_bounded = None not in (ledger["spent"], ledger["spent_after"])
    balance = (Message("report.proposal.balance", (values[2], *spent)),) if is_bounded else ()
    messages = (*(Message(text, values) for text in texts), *balance, Message("report.proposal.next", values))
    stated = (
        Value("proposed_by", proposal.proposed_by),
        Value("time", proposal.time),
        Value("release", release),
        Value("ledger", ledger),
    )
    return Report("", (Section(Message("report.section.proposal"), messages, stated),))


def superseded_section(release: Release) -> Iterator[Section]:
    """Yield the sections of a row-wise view, of the releases that a release supersedes, and of unprotected numbers."""
    entry = release.entry
    if entry is not None and entry.view_messages():
        yield Section(Message("report.section.view"), entry.view_messages(), (Value("view", entry.view_messages()),))
    if release.supersedes:
        documents = Value("supersedes", [x.document() for x in release.supersedes])
        releases = Value("releases", [x.message() for x in release.supersedes], ValueKind.SENTENCES, spoken=True)
        messages = (Message("report.supersedes.chain", (releases,)),)
        yield Section(Message("report.section.supersedes"), messages, (documents,))
    numbers = () if entry is None else entry.unprotected_messages()
    if numbers:
        yield Section(Message("report.section.unprotected"), numbers, (Value("unprotected", numbers),))


def periods_report(plan: Plan, periods: Sequence[PeriodStatus]) -> Report:
    """Return the state of each period of a series."""
    columns = (
        ReportColumn("period", Message("report.heading.period")),
        ReportColumn("sequence", Message("report.heading.entry"), ValueKind.COUNT),
        ReportColumn("time", Message("report.heading.drawn")),
        ReportColumn("kept", Message("report.heading.kept"), ValueKind.CHECK),
        ReportColumn("frozen", Message("report.heading.counts"), ValueKind.CHECK),
        ReportColumn("price", Message("report.heading.repeat_rho"), ValueKind.COST),
    )
    drawn_count = sum(p.sequence is not None for p in periods)
    lost = [str(p.period) for p in periods if p.sequence is not None and not p.has_answers]
    touched = [str(p.period) for p in periods if not p.frozen]
    following = str(periods[drawn_count].period) if drawn_count < len(periods) else None
    values = (
        Value("plan", plan.hash),
        Value("drawn", drawn_count, ValueKind.COUNT),
        Value("all", len(periods), ValueKind.COUNT),
        Value("lost", lost),
        Value("touched", touched),
        Value("next", following),
    )
    # The next period is named only if nothing hinders its draw.
    texts = ["report.periods.drawn" if drawn_count else "report.periods.none"]
    if lost:
        texts.append("report.periods.lost")
    if touched:
        texts.append("report.periods.changed")
    if following is not None and not lost and not touched:
        texts.append("report.periods.next")
    messages = tuple(Message(text, values) for text in texts)
    rows = [
        vars(p)
        | {"period": str(p.period)}
        | {"kept": p.has_answers if p.sequence else None, "frozen": p.frozen if p.sequence else None}
        for p in periods
    ]
    return Report(
        plan.publication.title,
        (
            Section(
                Message("report.section.series"), messages, values, (ReportTable.from_rows("periods", columns, rows),)
            ),
        ),
    )


def release_report(release: Release, *, show_all: bool = False) -> Report:
    """Return the tables and the finite answers of a release; with `show_all`, the tables of patterns one by one."""
    summaries = list(_each_table(release.plan)) if show_all else release.plan.summaries
    # With one target for each table, its numbers have one margin, and the columns of targets would repeat it.
    varied = any(s.has_several_targets for s in summaries)  # then one margin is not that of all numbers
    margin = "report.heading.nearest_moe" if varied else "report.heading.moe"
    columns = (
        *(ReportColumn("target", Message("report.heading.target"), ValueKind.MESSAGE),) * varied,
        ReportColumn("achieved_moe", Message(margin), ValueKind.PEOPLE),
        *(ReportColumn("widest_moe", Message("report.heading.widest_moe"), ValueKind.PEOPLE),) * varied,
        ReportColumn("confidence", Message("report.heading.confidence"), ValueKind.LEVEL),
    )
    widest = dict(_widest(release, summaries)) if varied else None
    sections = [
        *warning_sections(release.plan),
        Section(values=(Value("plan", release.plan.hash),)),
        Section(tables=(tables(summaries, *columns, further_values=widest),) if summaries else ()),
        whom(release.plan),
        means(release.plan),
        records(release.plan),
        *public(release.plan),
        *superseded_section(release),
    ]
    if release.finite:
        sections.append(Section(tables=(_answers(release.finite.values()),)))
    return Report(release.plan.publication.title, tuple(sections))


def _each_table(plan: Plan) -> Iterator[TableSummary]:
    """Yield the summary of each table, also of each table of a pattern."""
    return (summary for part in plan.groups for summary in part.tables)


def _widest(release: Release, summaries: Sequence[TableSummary]) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Yield by name the widest margin of tables and patterns; None if there are too many tables."""

    def widest(t: TableSummary) -> float:
        if t.has_several_targets:
            return float(release.plan.group(t.name).table_margins(t.name).max())
        return t.achieved_moe

    # The widest margin needs the margins of every number, which takes long for many tables.
    few = sum(s.tables for s in summaries) <= MAX_TABLES_SEARCHED
    tables = _each_table(release.plan) if few else iter(())
    for s in summaries:
        yield s.name, {"widest_moe": max(map(widest, islice(tables, s.tables))) if few else None}


def answer_report(
    release: Release,
    question: str,
    result: LabelledNumbers,
    frame: pd.DataFrame,
    *,
    simultaneous: bool,
    other: Release | None = None,
) -> Report:
    """Return the answer to a reader's question on a release, or also on another: `frame` with its intervals.

    Numbers without information (over a denominator that is estimated as 0), and ends that are open, are None.
    """
    table = result.table(frame)
    # the coefficient of variation of a value of 0 is no end of an interval
    open_ones = not result.assumptions and any(x is None for row in table.rows for x in row)
    # Intervals that hold at once are wider, so a reader must know which kind is shown.
    holds = "report.intervals.simultaneous" if simultaneous else "report.intervals.single"
    values = (
        Value("plan", release.plan.hash),
        Value("asked", question),
        Value("confidence", result.confidence, ValueKind.LEVEL),
        Value("simultaneous", simultaneous),
    )
    messages = [Message(holds, values)]
    if open_ones:
        messages.append(Message("report.intervals.open_end"))
    domain = release.plan.publication.domain
    if any(domain[name].is_capped for name in attributes_by_value(question) if name in domain):
        messages.append(Message("report.intervals.range"))
    messages += [*result.assumptions, *public_statements(release, other)]
    records = (Value("records", result.universe),)
    messages_of_records = (
        () if result.universe == MIXED_UNIVERSE_TEXT else (Message("report.records.counted", records),)
    )
    records_section = Section(Message("report.section.records"), messages_of_records, records)
    return Report(
        release.plan.publication.title,
        (
            Section(tables=(table,)),
            records_section,
            replace(whom(release.plan, show_all=False), tables=()),
            Section(Message("report.section.intervals"), tuple(messages), values),
        ),
    )


def public_statements(release: Release, other: Release | None) -> tuple[Message, ...]:
    """Return the statements on the public totals of the releases of an answer, each once."""
    plans = [x.plan for x in (release, other) if x is not None]
    return tuple(dict.fromkeys(x for plan in plans for x in public_totals(plan)))


def integers_report(result: IntegerTables, directory: Path) -> Report:
    """Return the integer tables, their distance from the release, and the number of simulations."""
    numbers = sum(len(result.nearest(name).ravel()) for name in result)
    values = (
        Value("directory", str(directory)),
        Value("releases", [r.plan.hash for r in result.releases]),
        Value("tables", list(result)),
        Value("at_most", result.at_most),
        Value("count", len(result), ValueKind.COUNT, spoken=True),
        Value("numbers", numbers, ValueKind.COUNT),
        Value("residual", result.residual, ValueKind.GAP),
        Value("reach", result.reach, ValueKind.PEOPLE),
        Value("simulations", result.simulations, ValueKind.COUNT),
    )
    texts = [
        "report.integers.table" if len(result) == 1 else "report.integers.tables",
        "report.integers.reach_ordered" if result.at_most else "report.integers.reach",
        "report.integers.proof_ordered" if result.at_most else "report.integers.proof",
        "report.integers.simulated" if result.simulations else "report.integers.biased",
    ]
    messages = (*(Message(text, values) for text in texts), *result.all_remarks())
    return Report(
        result.release.plan.publication.title, (Section(Message("report.section.integers"), messages, values),)
    )


def microdata_report(records: InventedRecords, path: Path) -> Report:
    """Return the warning of invented records, and the distance of each of their tables in margins."""
    space = records.space
    values = (
        Value("file", str(path)),
        Value("plan", space.tables.release.plan.hash),
        Value("attributes", space.names),
        Value("records", space.records, ValueKind.COUNT),
        Value("batches", records.batches, ValueKind.COUNT),
        Value("seconds", records.seconds, ValueKind.SECONDS),
        Value("share_outside_margin", records.share_outside, ValueKind.PROPORTION),
        Value("warnings", records.warnings),
    )
    if records.is_expansion:
        summary = Message("report.microdata.expanded", values)
    else:
        summary = Message("report.microdata.made" if records.batches else "report.microdata.unmoved", values)
    columns = (
        ReportColumn("table", Message("report.heading.table"), ValueKind.TABLE),
        ReportColumn("rms", Message("report.heading.rms_distance"), ValueKind.RATIO),
        ReportColumn("largest", Message("report.heading.largest_distance"), ValueKind.RATIO),
        ReportColumn("share_within_1", Message("report.heading.within_margin"), ValueKind.PROPORTION),
        ReportColumn("rms_released", Message("report.heading.rms_released"), ValueKind.RATIO),
        ReportColumn("largest_released", Message("report.heading.largest_released"), ValueKind.RATIO),
        ReportColumn("share_within_1_released"),
    )
    rows = []
    for row in records.rows:
        released = {f"{key}_released": x for key, x in row["from_released"].items()}
        rows.append({"table": row["table"], **row["from_integers"], **released})
    messages = (*records.warnings, summary, Message("report.microdata.distances"))
    table = ReportTable.from_rows("tables", columns, rows)
    title = space.tables.release.plan.publication.title
    return Report(title, (Section(Message("report.section.microdata"), messages, values, (table,)),))


def combination_report(combination: Combination, directory: Path | None) -> Report:
    """Return the tables of several releases as one, with the gain in width over the best of these."""
    rows, improved, total = [], 0, 0
    for name in combination:
        frame = combination[name]
        measured = frame if "std_error" in frame else combination.counts_at_ends(name)
        joint_error = float(measured["std_error"].max())
        single_errors = [x["std_error"].to_numpy() for x in combination.tables_by_release(name)]
        gain = min(float(x.max()) for x in single_errors) / joint_error if joint_error else None
        # the worst number of a table may gain nothing where others do
        improved += int((measured["std_error"] ** 2 < (1 - MIN_GAIN) * np.min(single_errors, axis=0) ** 2).sum())
        total += len(measured)
        # Means have intervals instead of margins: half of their width is compared.
        margin = float((frame["moe"] if "moe" in frame else (frame["high"] - frame["low"]) / 2).max())
        rows.append({"table": name, "numbers": len(frame), "moe": margin, "std_error": joint_error, "gain": gain})
    columns = (
        ReportColumn("table", Message("report.heading.table"), ValueKind.TABLE),
        ReportColumn("numbers", Message("report.heading.numbers"), ValueKind.COUNT),
        ReportColumn("moe", Message("report.heading.worst_moe"), ValueKind.PEOPLE),
        ReportColumn("std_error", Message("report.heading.worst_std_error"), ValueKind.PEOPLE),
        ReportColumn("gain", Message("report.heading.gain_over_best"), ValueKind.RATIO),
    )
    rules = len(combination.impossible)
    values = (
        Value("releases", [r.plan.hash for r in combination.releases]),
        Value("count", len(combination.releases), ValueKind.COUNT, spoken=True),
        Value("directory", None if directory is None else str(directory)),
        *([Value("rules", rules, ValueKind.COUNT)] if rules else []),
    )
    estimate = Message("report.given.estimate" if rules else "report.combined.estimate", values)
    gains = (Value("improved", improved, ValueKind.COUNT), Value("numbers", total, ValueKind.COUNT))
    messages = [estimate, *combination.conditions, Message("report.combined.improved", gains)]
    certificate = combination.certificate
    if certificate is not None:
        bounds = (
            Value("rho", certificate.value / 2, ValueKind.COST),
            Value("bound", certificate.bound / 2, ValueKind.COST),
            Value("gap", certificate.gap, ValueKind.PROPORTION),
        )
        messages.append(Message("report.given.certificate", bounds))
    table = ReportTable.from_rows("tables", columns, rows)
    return Report("", (Section(Message("report.section.combined"), tuple(messages), (*values, *gains), (table,)),))


def verification_report(checked: Verification) -> Report:
    """Return the checks and their results."""
    columns = (
        ReportColumn("holds", "", ValueKind.CHECK),
        ReportColumn("claim", Message("report.heading.claim"), ValueKind.STATEMENT),
        ReportColumn("finding", Message("report.heading.found"), ValueKind.STATEMENT),
    )
    table = ReportTable.from_rows("checks", columns, map(vars, checked.checks))
    unchecked = Section(
        Message("report.section.unchecked"), checked.unchecked, (Value("unchecked", checked.unchecked),)
    )
    return Report("", (Section(values=(Value("ok", checked.ok, ValueKind.CHECK),), tables=(table,)), unchecked))


def tables_messages(groups: Sequence[TableSequence]) -> tuple[Message, ...]:
    """Return tables in a line, patterns in words; of many, the first and the number of all."""
    parts = [t for g in groups for t in g.parts]
    if not parts:
        return ()
    labels = [t.name if isinstance(t, Asked) else table_label(t.describe(), len(t)) for t in parts[:MAX_NAMES_PER_LINE]]
    names_message = Message("report.receipt.tables", (Value("tables", labels, ValueKind.TABLE),))
    if len(parts) <= MAX_NAMES_PER_LINE:
        return (names_message,)
    total = Value("count", sum(map(len, groups)), ValueKind.COUNT)
    return (names_message, Message("report.receipt.more_tables", (total,)))


def _names(plan: Plan) -> Value:
    return Value("tables", [t.name for t in plan.summaries])


def _answers(answers: Iterable[FiniteAnswer]) -> ReportTable:
    columns = (
        ReportColumn("name", Message("report.heading.answer")),
        ReportColumn("output", kind=ValueKind.COUNT),
        ReportColumn("value", Message("report.heading.value")),
        ReportColumn("moe", Message("report.heading.moe"), ValueKind.RESULT),
        ReportColumn("rank_moe", Message("report.heading.rank_moe"), ValueKind.PEOPLE),
        ReportColumn("confidence", Message("report.heading.confidence"), ValueKind.LEVEL),
        ReportColumn("hit_rate", Message("report.heading.hit_rate"), ValueKind.PROBABILITY),
    )
    return ReportTable.from_rows("finite", columns, map(vars, answers))


def _charged(plan: Plan, rise: Fraction) -> Section:
    """Return the charge, and the reason for another rise of the balance."""
    publication, cost_messages = plan.publication, messages_for(plan.loss)
    texts = [cost_messages.charged]
    if plan.full_series is not None:
        texts.append("report.charged.series" if rise else "report.charged.series_before")
    # The balance rises by the plan's ρ, except for plans on the same records: it then becomes their joint cost.
    elif rise != ceil_dyadic(plan.loss.rho):
        texts.append("report.charged.rose" if rise > 0 else "report.charged.fell")
        if not rise:
            texts[-1] = "report.charged.unchanged"
    values = (
        Value("rho", plan.rho, ValueKind.COST),
        Value("mu", plan.loss_summary.mu, ValueKind.FINE),
        Value("epsilon", plan.epsilon(), cost_messages.epsilon),
        Value("delta", publication.delta, ValueKind.NUMBER),
        Value("composed_with", publication.composed_with),
        Value("increase", float(rise), ValueKind.COST),
        Value("turn", float(abs(rise)), ValueKind.COST, spoken=True),
    )
    messages = tuple(Message(text, values) for text in texts)
    return Section(Message("report.section.charged"), messages, values)
