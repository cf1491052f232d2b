"""What is said of plans, ledgers and releases, as data and as lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from fitnoise.kernel.ledger import Quote
from fitnoise.kernel.units import Neighbours, Region
from fitnoise.mechanisms.finite.choosing import Made
from fitnoise.mechanisms.projection.view import View
from fitnoise.mechanisms.summaries import TableSummary
from fitnoise.planning.plan import Plan
from fitnoise.reading.release import Release
from fitnoise.request.publication import Goal, Publication
from fitnoise.request.workloads import Table, Tables

SLACK = 1e-6
"""A cell pays less than the dearest where its price is below that by more than this part of it."""

NAMED = 12
"""Tables and patterns that one line names; of more, the first."""


def plan_document(plan: Plan) -> dict[str, Any]:
    """What `fitnoise plan --json` prints."""
    publication = plan.publication
    return {
        "goal": publication.objective.goal.value,
        "cost_squared": plan.cost_squared,
        "value": plan.value,
        "bound": plan.bound,
        "gap": plan.gap,
        "privacy": publication.privacy.value,
        "rho": plan.rho,
        "mu": plan.mu,
        "delta": publication.delta,
        "epsilon_exact": None if plan.exact_epsilon is None else str(plan.exact_epsilon),
        "epsilon": plan.epsilon(),
        "epsilon_nominal": plan.epsilon(nominal=True),
        "privacy_unit": publication.unit.describe(),
        "source": publication.source.name,
        "beside": list(publication.beside),
        "status": plan.status,
        "hash": plan.hash,
        "numbers": plan.numbers,
        "answers": plan.answers,
        "relaxation": plan.relaxation if publication.budget is not None else 1.0,
        "separate_rho": plan.separate_rho,
        "query_shift": plan.decomposition.query_shift,
        "profile": _profile(plan),
        "tables": [
            {
                "name": t.name,
                "tables": t.tables,
                "numbers": t.numbers,
                "target": t.target,
                "confidence": t.confidence,
                "target_moe": t.target_moe,
                "achieved_moe": t.achieved_moe,
                "price": t.price,
            }
            for t in plan.summaries
        ],
        "finite": finite_document(plan),
        "setting": None if plan.setting is None else vars(plan.setting),
    }


def finite_document(plan: Plan) -> list[dict[str, Any]]:
    """What is promised of each question with finitely many answers."""
    return [
        vars(s) | {"epsilon_exact": str(e)} for s, e in zip(plan.finite_summaries, plan.finite_epsilons, strict=True)
    ]


def _profile(plan: Plan) -> dict[str, Any] | None:
    """Δ² of one record in the cheapest and the dearest cell; None for replace-one, which prices pairs of records."""
    if plan.publication.unit.neighbours is Neighbours.REPLACE_ONE:
        return None
    costs = plan.profile
    lowest, highest = float(costs.min()), float(costs.max())
    return {"lowest": lowest, "highest": highest, "cells_with_slack": int((plan.slack > SLACK * highest).sum())}


def shared(plan: Plan) -> str:
    """What the shares of tables are of."""
    if plan.setting is not None:
        return "share of variance"
    if plan.publication.objective.goal is Goal.HYBRID:
        return "share of value"
    return "share of price" if plan.exact_epsilon is None else "share of bound"


def called(name: str, tables: int) -> str:
    """A table by its name; a pattern in words, with the number of its tables."""
    return name if tables == 1 else f"{name} ({tables:,} tables)"


def tables_line(tables: Tables) -> str:
    """The tables of a workload in a line, patterns in words; of many, the first and how many there are."""
    words = [t.name if isinstance(t, Table) else called(t.describe(), len(t)) for t in tables.parts]
    return ", ".join(words) if len(words) <= NAMED else f"{', '.join(words[:NAMED])}, … ({len(tables):,} in all)"


def tables_document(tables: Sequence[TableSummary]) -> list[dict[str, Any]]:
    """The same, for programs."""
    return [
        {
            "name": t.name,
            "tables": t.tables,
            "numbers": t.numbers,
            "confidence": t.confidence,
            "achieved_moe": t.achieved_moe,
        }
        for t in tables
    ]


def targets_line(plan: Plan) -> Iterator[str]:
    """What the targets mean, where they are not simply met one by one."""
    objective = plan.publication.objective
    average = f"on average of all variances ({objective.weights} weights)"
    total = objective.goal is Goal.TOTAL_ERROR
    if plan.publication.budget is not None:
        bought = f"the budget buys {plan.relaxation**0.5:.4g} times the margins asked for"
        yield f"targets    relative: {bought}{f', {average}' if total else ''}"
    elif total:
        yield f"targets    met {average}, not by each number"


def price_line(plan: Plan) -> Iterator[str]:
    """What a plan costs, as lines."""
    publication, paid = plan.publication, _profile(plan)
    if plan.exact_epsilon is not None:
        yield f"price      epsilon = {plan.epsilon():.7f}, pure, for {publication.unit.describe()}"
        yield f"           which implies rho = {plan.rho:.7f} and mu = {plan.mu:.6f}"
        yield from _of_finite(plan)
        return
    yield f"price      rho = {plan.rho:.7f}   mu = {plan.mu:.6f}   for {publication.unit.describe()}"
    yield (
        f"           epsilon = {plan.epsilon():.4f} guaranteed, {plan.epsilon(nominal=True):.4f} nominal, "
        f"at delta = {publication.delta:g}"
    )
    yield from _of_finite(plan)
    if paid is not None and not paid["cells_with_slack"]:
        yield "profile    every record pays the same"
    elif paid is not None:
        low, high = (paid[end] * publication.unit.cost_factor() / 2 for end in ("lowest", "highest"))
        yield (
            f"profile    rho from {low:.7g} to {high:.7g} by the cell of a record; "
            f"{paid['cells_with_slack']:,} of {plan.strategy.cells:,} cells pay less than the dearest"
        )
    if publication.beside:
        names = ", ".join(name[:12] for name in publication.beside)
        yield f"beside     {names}, on the same records: costs add up cell by cell, so the balance may rise by less"


def _of_finite(plan: Plan) -> Iterator[str]:
    """What of the price is that of finite answers."""
    if plan.finite:
        paid = sum(plan.finite_epsilons)
        what = "one finite answer" if len(plan.finite) == 1 else f"{len(plan.finite)} finite answers"
        yield f"           of it {what}: epsilon = {float(paid):.6g}, pure"


def database(plan: Plan) -> Iterator[str]:
    """How a small database is measured and estimated, and what that means."""
    small, setting = plan.publication.small, plan.setting
    if small is None or setting is None:
        return
    estimate = ("an entropic estimate" if setting.temperature else "the nearest answers") + " of one histogram"
    if View(plan.only).head is not None:
        estimate = "Algorithm 1 of the paper as printed"
    yield (
        f"database   {'exactly' if small.region is Region.EXACTLY else 'at most'} {small.size:,} records: {estimate}, "
        f"from noise of index {setting.index}"
    )
    yield "           what is released is biased, with a simulated error; margins above are of the unbiased answers"
    yield "           beside it, from the same measurement"


def proof(plan: Plan) -> Iterator[str]:
    """What was minimised, what was reached of it, and what nothing can beat."""
    publication = plan.publication
    if plan.exact_epsilon is not None:
        yield (
            f"proof      epsilon^2/2 = {plan.value:.8g}, {plan.ratio:.4g} times a bound: no linear mechanism with "
            f"Laplace noise has these variances below epsilon = {math.sqrt(2 * plan.bound):.6g}"
        )
        yield "           (how near to that any pure mechanism can come is not known)"
        yield f"           ({plan.status}; {plan.answers:,} noisy answers for {plan.numbers:,} numbers)"
        return
    if plan.setting is not None:
        yield (
            f"proof      the {plan.setting.index} largest variances sum to {plan.value:.8g} people² at sensitivity 1 "
            f"≥ bound {plan.bound:.8g}: no noise has less by more than {plan.gap:.1e}"
        )
        yield f"           ({plan.status}; {plan.answers:,} noisy answers for {plan.numbers:,} numbers)"
        return
    objective, budgets = publication.objective, publication.cell_budgets
    cost, what, less = float(plan.exact_weighted_cost), "cost", "cheaper"
    if budgets is not None:
        what = "cost relative to budgets"
        yield (
            f"budgets    by {', '.join(budgets.attributes)}: a cell pays at most {min(budgets.values):g} to 1 times "
            f"{cost:.8g}; the dearest pays {plan.cost_squared:.8g}"
        )
    if objective.trade is not None and plan.terms.weights is not None:
        error = float(plan.terms.weights @ plan.variances)
        yield (
            f"hybrid     value {plan.value:.8g} = {what} {cost:.8g} + {objective.trade:g} × {error:.6g}, the total of "
            f"all variances ({objective.weights} weights)"
        )
        what, less = "value", "better"
    yield (
        f"proof      {what} {plan.value:.8g} ≥ bound {plan.bound:.8g}: no mechanism of its kind can be {less} "
        f"by more than {plan.gap:.1e}"
    )
    yield f"           ({plan.status}; {plan.answers:,} noisy answers for {plan.numbers:,} numbers)"


def balance_document(balance: Quote) -> dict[str, Any]:
    """What the ledger says of one account."""
    return {
        "source": balance.account.source,
        "privacy_unit": balance.account.unit,
        "spent": float(balance.spent),
        "spent_exact": str(balance.spent),
        "cap": None if balance.cap is None else float(balance.cap),
        "remaining": None if balance.remaining is None else float(balance.remaining),
        "epsilon_spent": None if balance.epsilon_spent is None else str(balance.epsilon_spent),
        "epsilon_cap": None if balance.epsilon_cap is None else str(balance.epsilon_cap),
    }


def balance_line(balance: Quote) -> str:
    """The same, for people."""
    name, spent = f"{balance.account.source} ({balance.account.unit})", balance.epsilon_spent
    if balance.epsilon_cap is not None:
        paid = "more than any epsilon" if spent is None else f"epsilon {float(spent):.6f}"
        unspent = 0.0 if spent is None else max(float(balance.epsilon_cap - spent), 0.0)
        return f"{name}: {paid} spent of {float(balance.epsilon_cap):.6f}, pure, {unspent:.6f} left"
    left = "no cap is set" if balance.remaining is None else f"{float(balance.remaining):.6f} left"
    cap = "" if balance.cap is None else f" of {float(balance.cap):.6f}"
    pure = f" (epsilon {float(spent):.6f}, pure)" if spent else ""
    return f"{name}: rho {float(balance.spent):.6f} spent{pure}{cap}, {left}"


def finite_answers(release: Release) -> list[dict[str, Any]]:
    """The answers to questions with finitely many results, for programs."""
    return [
        vars(a) | {"value": list(a.value) if isinstance(a.value, tuple) else a.value} for a in release.finite.values()
    ]


def finite_choices(publication: Publication, made: Sequence[Made]) -> list[dict[str, Any]]:
    """What the mechanism of each finite question was chosen from, for programs."""
    return [
        {"name": q.name, "why": m.why, "candidates": [vars(c) for c in m.choice.candidates] if m.choice else []}
        for q, m in zip(publication.finite, made, strict=True)
    ]
