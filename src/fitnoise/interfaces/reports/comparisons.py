"""The reports of alternatives: kinds of noise, settings for small databases, mechanisms for questions."""

from __future__ import annotations

from collections.abc import Sequence

from fitnoise.mechanisms.finite.choosing import Made
from fitnoise.mechanisms.finite.report import choices
from fitnoise.mechanisms.gaussian import budgets
from fitnoise.mechanisms.projection import report as projection
from fitnoise.mechanisms.projection.simulation import Choice
from fitnoise.planning.choosing import Comparison
from fitnoise.planning.plan import Plan
from fitnoise.reporting import Column, Kind, Report, Section, Table, Value
from fitnoise.request.publication import Publication, Setting


def comparison_report(publication: Publication, found: Comparison, delta: float) -> Report:
    """Return both kinds of noise for the same tables, Gaussian noise at δ; and the mechanisms for questions."""
    budget = publication.budget
    columns = (
        Column("privacy", "privacy"),
        Column("family", "strategies"),
        Column("epsilon", "epsilon" if budget is None else None, Kind.COMPARED),
        Column("error", None if budget is None else "margins ×", Kind.COMPARED),
        Column("ratio", "ratio to bound", Kind.RATIO),
        Column("answers", "noisy answers", Kind.COUNT),
        Column("seconds", "seconds", Kind.SECONDS),
    )
    rows = ({**vars(a), "privacy": a.privacy.value} for a in found.alternatives)
    chosen = found.plan.publication.privacy.value
    spent = "at the targets" if budget is None else "at epsilon = {spent}"
    total = "meeting every target takes {total_error} times the least sum of variances at its cost, by Gaussian noise"
    values = (
        Value("delta", delta, Kind.NUMBER),
        Value("spent", 0.0 if budget is None else float(budget.epsilon or 0), Kind.NUMBER, spoken=True),
    )
    return Report(
        publication.title,
        (
            Section("", values=(Value("hash", found.plan.hash),)),
            Section("", tables=(Table.of("alternatives", columns, rows),)),
            by_hand(found),
            Section("", (f"{spent}; delta = {{delta}} for Gaussian noise, none for pure",), values),
            Section(
                "choice", ("{privacy}; {why}",), (Value("privacy", chosen), Value("why", found.why)), place=("choice",)
            ),
            Section(
                "total",
                () if found.total_error is None else (total,),
                (Value("total_error", found.total_error, Kind.RATIO),),
            ),
            *choices(publication.finite, found.finite),
        ),
    )


def by_hand(found: Comparison) -> Section:
    """Return the cost of manually chosen budgets of levels; empty if it is unknown."""
    own, others = found.gaussian.rho, budgets.by_hand(found.gaussian)
    columns = (
        Column("way", "of levels by hand"),
        Column("rho", "rho", Kind.COMPARED),
        Column("ratio", "times ours", Kind.RATIO),
    )
    rows = ({"way": way, "rho": rho, "ratio": rho / own} for way, rho in others.items())
    return Section("", tables=(Table.of("by_hand", columns, rows),) if others else ())


def answers_report(plan: Plan, answers: Sequence[Made]) -> Report:
    """Return the mechanisms for questions alone."""
    return Report(
        plan.publication.title,
        (Section("", values=(Value("hash", plan.hash),)), *choices(plan.publication.finite, answers)),
    )


def settings_report(plan: Plan, setting: Setting, choice: Choice | None, answers: Sequence[Made]) -> Report:
    """Return the simulated settings of a small database and the chosen one, and the mechanisms for questions."""
    publication = plan.publication
    return Report(
        publication.title,
        (
            Section("", values=(Value("hash", plan.hash),)),
            projection.chosen(setting),
            projection.tried(choice),
            projection.explained(choice, plan.status),
            *choices(publication.finite, answers),
        ),
    )
