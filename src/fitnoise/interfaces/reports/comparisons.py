"""The reports of alternatives: kinds of noise, settings for small databases, mechanisms for questions."""

from __future__ import annotations

from collections.abc import Sequence

from fitnoise.mechanisms.finite.report import choices
from fitnoise.mechanisms.finite.selection import ChosenMechanism
from fitnoise.mechanisms.gaussian import budgets
from fitnoise.mechanisms.laplace.planning import CELLS_FAMILY, FAMILIES
from fitnoise.mechanisms.projection import report as projection
from fitnoise.mechanisms.projection.simulation import SettingChoice
from fitnoise.mechanisms.registry import unsuitable
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.planning.comparison import Comparison
from fitnoise.planning.plan import Plan
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section
from fitnoise.request.publication import Publication, Setting

FAMILY_TEXTS = FAMILIES | {
    CELLS_FAMILY: "report.comparison.cells",
    "sectors, optimal": "report.comparison.sectors",
    "levels and sectors": "report.comparison.levels",
    "places and sectors": "report.comparison.places",
    "product form": "report.comparison.product_form",
}
"""The id of the text for each family of strategies."""


def comparison_report(publication: Publication, comparison: Comparison, delta: float) -> Report:
    """Return both kinds of noise for the same tables, Gaussian noise at δ; and the mechanisms for questions."""
    budget = publication.budget
    columns = (
        ReportColumn("privacy", Message("report.heading.privacy")),
        ReportColumn("family"),
        ReportColumn("strategies", Message("report.heading.strategies"), ValueKind.MESSAGE, spoken=True),
        ReportColumn("epsilon", Message("report.heading.epsilon") if budget is None else None, ValueKind.COMPARED),
        ReportColumn("error", None if budget is None else Message("report.heading.margin_factor"), ValueKind.COMPARED),
        ReportColumn("ratio", Message("report.heading.ratio_to_bound"), ValueKind.RATIO),
        ReportColumn("noisy_answers", Message("report.heading.noisy_answers"), ValueKind.COUNT),
        ReportColumn("seconds", Message("report.heading.seconds"), ValueKind.SECONDS),
    )
    rows = (
        {**vars(a), "privacy": a.privacy.value, "strategies": Message(FAMILY_TEXTS[a.family])}
        for a in comparison.alternatives
    )
    chosen = comparison.plan.publication.privacy.value
    delta_value = Value("delta", delta, ValueKind.NUMBER)
    terms = [Message("report.comparison.delta", (delta_value,))]
    if budget is None:
        # Without a budget all alternatives meet the same targets, and their ε differ.
        terms.insert(0, Message("report.comparison.targets"))
    else:
        # With a budget all alternatives cost the same, and their margins differ.
        spent = Value("epsilon", float(budget.epsilon or 0), ValueKind.NUMBER)
        terms.insert(0, Message("report.comparison.budget", (spent,)))
    choice = (Value("privacy", chosen), Value("why", comparison.reason))
    total = Value("total_error", comparison.total_error, ValueKind.RATIO)
    return Report(
        publication.title,
        (
            Section(values=(Value("hash", comparison.plan.hash),)),
            Section(tables=(ReportTable.from_rows("alternatives", columns, rows),)),
            separate_budgets(comparison),
            Section(None, tuple(terms), (delta_value,)),
            Section(
                Message("report.section.choice"),
                (Message("report.comparison.choice", choice), comparison.reason),
                choice,
                path=("choice",),
            ),
            Section(
                Message("report.section.total"),
                () if comparison.total_error is None else (Message("report.comparison.total_error", (total,)),),
                (total,),
            ),
            _unsuitable_mechanisms(comparison.gaussian.publication),
            *choices(publication.questions, comparison.finite),
        ),
    )


def _unsuitable_mechanisms(publication: Publication) -> Section:
    """Return the mechanisms of this privacy that do not support these tables, each with the reason."""
    columns = (
        ReportColumn("mechanism", Message("report.heading.unsuitable")),
        ReportColumn("reason", Message("report.heading.reason"), ValueKind.MESSAGE),
    )
    rows = ({"mechanism": name, "reason": reason} for name, reason in unsuitable(publication).items())
    return Section(tables=(ReportTable.from_rows("unsuitable", columns, rows),))


def separate_budgets(comparison: Comparison) -> Section:
    """Return the cost of manually chosen budgets of levels; empty if it is unknown."""
    # Budgets by level are chosen for Gaussian noise in practice, so the Gaussian plan is what they are compared with.
    plan_rho, others = comparison.gaussian.rho, budgets.separate_budgets_rho(comparison.gaussian)
    columns = (
        ReportColumn("way", Message("report.heading.manual_budgets")),
        ReportColumn("rho", Message("report.heading.rho"), ValueKind.COMPARED),
        ReportColumn("ratio", Message("report.heading.times_plan"), ValueKind.RATIO),
    )
    rows = ({"way": way, "rho": rho, "ratio": rho / plan_rho} for way, rho in others.items())
    return Section(tables=(ReportTable.from_rows("by_hand", columns, rows),) if others else ())


def answers_report(plan: Plan, answers: Sequence[ChosenMechanism]) -> Report:
    """Return the mechanisms for questions alone."""
    return Report(
        plan.publication.title,
        (Section(values=(Value("hash", plan.hash),)), *choices(plan.publication.questions, answers)),
    )


def settings_report(
    plan: Plan, setting: Setting, choice: SettingChoice | None, answers: Sequence[ChosenMechanism]
) -> Report:
    """Return the simulated settings of a small database and the chosen one, and the mechanisms for questions."""
    publication = plan.publication
    return Report(
        publication.title,
        (
            Section(values=(Value("hash", plan.hash),)),
            projection.chosen(setting),
            projection.tried(choice),
            projection.explained(choice, plan.table_part.status),
            *choices(publication.questions, answers),
        ),
    )
