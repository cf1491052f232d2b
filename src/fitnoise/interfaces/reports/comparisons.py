"""The reports of alternatives: kinds of noise, settings for small databases, mechanisms for questions."""

from __future__ import annotations

from collections.abc import Sequence

from fitnoise.mechanisms.finite.report import choices
from fitnoise.mechanisms.finite.selection import ChosenMechanism
from fitnoise.mechanisms.gaussian import budgets
from fitnoise.mechanisms.projection import report as projection
from fitnoise.mechanisms.projection.simulation import SettingChoice
from fitnoise.messages import Value, ValueKind
from fitnoise.planning.comparison import Comparison
from fitnoise.planning.plan import Plan
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section
from fitnoise.request.publication import Publication, Setting


def comparison_report(publication: Publication, comparison: Comparison, delta: float) -> Report:
    """Return both kinds of noise for the same tables, Gaussian noise at δ; and the mechanisms for questions."""
    budget = publication.budget
    columns = (
        ReportColumn("privacy", "privacy"),
        ReportColumn("family", "strategies"),
        ReportColumn("epsilon", "epsilon" if budget is None else None, ValueKind.COMPARED),
        ReportColumn("error", None if budget is None else "margins ×", ValueKind.COMPARED),
        ReportColumn("ratio", "ratio to bound", ValueKind.RATIO),
        ReportColumn("answers", "noisy answers", ValueKind.COUNT),
        ReportColumn("seconds", "seconds", ValueKind.SECONDS),
    )
    rows = ({**vars(a), "privacy": a.privacy.value} for a in comparison.alternatives)
    chosen = comparison.plan.publication.privacy.value
    spent = "at the targets" if budget is None else "at epsilon = {spent}"
    total = "meeting every target takes {total_error} times the least sum of variances at its cost, by Gaussian noise"
    values = (
        Value("delta", delta, ValueKind.NUMBER),
        Value("spent", 0.0 if budget is None else float(budget.epsilon or 0), ValueKind.NUMBER, spoken=True),
    )
    return Report(
        publication.title,
        (
            Section("", values=(Value("hash", comparison.plan.hash),)),
            Section("", tables=(ReportTable.of("alternatives", columns, rows),)),
            separate_budgets(comparison),
            Section("", (f"{spent}; delta = {{delta}} for Gaussian noise, none for pure",), values),
            Section(
                "choice",
                ("{privacy}; {why}",),
                (Value("privacy", chosen), Value("why", comparison.why)),
                place=("choice",),
            ),
            Section(
                "total",
                () if comparison.total_error is None else (total,),
                (Value("total_error", comparison.total_error, ValueKind.RATIO),),
            ),
            *choices(publication.questions, comparison.finite),
        ),
    )


def separate_budgets(comparison: Comparison) -> Section:
    """Return the cost of manually chosen budgets of levels; empty if it is unknown."""
    own, others = comparison.gaussian.rho, budgets.separate_budgets_rho(comparison.gaussian)
    columns = (
        ReportColumn("way", "of levels by hand"),
        ReportColumn("rho", "rho", ValueKind.COMPARED),
        ReportColumn("ratio", "times ours", ValueKind.RATIO),
    )
    rows = ({"way": way, "rho": rho, "ratio": rho / own} for way, rho in others.items())
    return Section("", tables=(ReportTable.of("by_hand", columns, rows),) if others else ())


def answers_report(plan: Plan, answers: Sequence[ChosenMechanism]) -> Report:
    """Return the mechanisms for questions alone."""
    return Report(
        plan.publication.title,
        (Section("", values=(Value("hash", plan.hash),)), *choices(plan.publication.questions, answers)),
    )


def settings_report(
    plan: Plan, setting: Setting, choice: SettingChoice | None, answers: Sequence[ChosenMechanism]
) -> Report:
    """Return the simulated settings of a small database and the chosen one, and the mechanisms for questions."""
    publication = plan.publication
    return Report(
        publication.title,
        (
            Section("", values=(Value("hash", plan.hash),)),
            projection.chosen(setting),
            projection.tried(choice),
            projection.explained(choice, plan.status),
            *choices(publication.questions, answers),
        ),
    )
