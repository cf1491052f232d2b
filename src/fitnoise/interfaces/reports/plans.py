"""The report of a plan: the accuracy of every table and question, the cost, and the proof.

The sentences of single mechanisms are in `mechanisms/*/report.py`.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np

from fitnoise.interfaces.reports.costs import sentences_for
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.domain import Hierarchy
from fitnoise.kernel.losses import Loss, rounded_up
from fitnoise.kernel.units import PrivacyUnit
from fitnoise.mechanisms.gaussian import report as gaussian
from fitnoise.mechanisms.summaries import TableSummary
from fitnoise.mechanisms.tables import TablePart
from fitnoise.messages import Value, ValueKind
from fitnoise.planning import protection, ranges
from fitnoise.planning.free_queries import free_counts, profile_of_plan
from fitnoise.planning.plan import Plan
from fitnoise.reading.description import condition_texts, enforcement_text, left_out, shares, universe
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section
from fitnoise.request.coverage import uncounted_by_question
from fitnoise.request.publication import Goal
from fitnoise.request.workloads import Family

ROUNDING_SHIFT = 1e-12
"""The change of queries per record that is the rounding of any sum, and is not reported."""


def plan_report(plan: Plan) -> Report:
    """Return the accuracy, cost and proof of a plan: of several parts, part by part; of a series, of all of it."""
    parts = (plan.full_series or plan).groups
    promised = (tables(plan.summaries, *_promised(plan.groups)), _questions(plan))
    own = Section("", values=(Value("hash", plan.hash),), tables=(*promised, *_levels(plan)))
    said = (s for i, p in enumerate(parts) for s in (_of_tables(p) if len(parts) == 1 else _of_several(i, p)))
    sections = (
        *warning_sections(plan),
        own,
        _price(plan),
        whom(plan),
        _amounts(plan),
        means(plan),
        records(plan),
        *charged_to(plan),
        *units(plan),
        *_series(plan.full_series or plan),
        _cap(plan),
        _composition_section(plan),
        *said,
        *_free(plan),
    )
    return Report(plan.publication.title, sections)


def warned(plan: Plan) -> Iterator[Section]:
    """Yield the warnings about a plan: that it protects almost no one, or that a range can cut off much."""
    yield from protection.warnings(plan)
    yield from ranges.warnings(plan)


def warning_sections(plan: Plan) -> Iterator[Section]:
    """Yield the warnings about a plan, and their list for documents."""
    told = [*warned(plan)]
    yield from told
    yield Section("", values=(Value("warnings", [sentence for section in told for sentence in section.words]),))


def free_report(plan: Plan) -> Report:
    """Return further tables of the same records without cost; none if all records cost the same."""
    return Report("", tuple(_free(plan)))


def _of_tables(part: TablePart) -> Iterator[Section]:
    """Yield the sections of tables: the meaning of their targets, their mechanism, and the proof."""
    yield _targets(part)
    by_cell = sentences_for(part.loss).by_cell
    yield gaussian.profile(
        part.profile,
        part.slack,
        part.publication.unit,
        for_people=by_cell,
        equal_cost_text=part.mechanism.equal_cost_text,
    )
    yield part.mechanism.report_setting(part)
    yield Section("values", (part.mechanism.bias_text(part),))
    yield from part.mechanism.report_proof(part)
    yield _search_outcome(part)
    yield part.mechanism.report_universal_bound(part)
    yield _otherwise(part)
    yield _note(part)


def _of_several(i: int, part: TablePart) -> Iterator[Section]:
    """Yield the sections of one part of several, in a place of its own, with its cost."""
    place = ("parts", i)
    values = (
        Value("tables", [s.name for s in part.summaries]),
        Value("mechanism", part.mechanism.name),
        Value("rho", part.rho, ValueKind.COST),
        *sentences_for(part.loss).pure,
    )
    yield Section(f"part {i + 1}", (sentences_for(part.loss).part,), values, place=place)
    for section in _of_tables(part):
        yield replace(section, place=(*place, *section.place))


def tables(
    summaries: Iterable[TableSummary], *columns: ReportColumn, more: Mapping[str, Mapping[str, Any]] | None = None
) -> ReportTable:
    """Return a row for each table or pattern of tables: name, further columns of its summary, and further values."""
    names = (
        ReportColumn("name"),
        ReportColumn("tables", kind=ValueKind.COUNT),
        ReportColumn("called", "table", spoken=True),
    )
    rows = ({"called": table_label(s.name, s.tables), **vars(s), **(more or {}).get(s.name, {})} for s in summaries)
    return ReportTable.of("tables", (*names, ReportColumn("numbers", "numbers", ValueKind.COUNT), *columns), rows)


def table_label(name: str, tables: int) -> str:
    """Return a table by its name; a pattern in words, with the number of its tables."""
    return name if tables == 1 else f"{name} ({tables:,} tables)"


def _promised(parts: Sequence[TablePart]) -> Iterator[ReportColumn]:
    goals = {p.publication.objective.goal for p in parts}
    total = goals == {Goal.TOTAL_ERROR}
    shares = {"value" if p.publication.objective.goal is Goal.HYBRID else p.mechanism.price_label for p in parts}
    share = shares.pop() if len(shares) == 1 else "part"
    yield ReportColumn("target", "target on average" if total else "target")
    yield ReportColumn("confidence", kind=ValueKind.LEVEL)
    yield ReportColumn("target_moe", "asked ±", ValueKind.PEOPLE)
    yield ReportColumn("achieved_moe", "worst ±" if total else "achieved ±", ValueKind.PEOPLE)
    yield ReportColumn("price", f"share of {share}", ValueKind.SHARE)


def _levels(plan: Plan) -> Iterator[ReportTable]:
    """Yield the accuracy and cost of each level of nested places, if several tables show places of one level.

    Tables in several parts have no such table, because each part has a price of its own.
    """
    domain = plan.publication.domain
    part = plan.groups[0] if len(plan.groups) == 1 else None
    for name, home in domain.items():
        if part is None or not isinstance(home, Hierarchy):
            continue
        by_level: dict[int, list[tuple[TableSummary, Floats]]] = {}
        for summary, asked in zip(part.summaries, part.publication.workload.tables.parts, strict=True):
            tables = asked if isinstance(asked, Family) else [asked]
            depths = {
                max((domain.depth(a) for a in t.attributes if domain.attribute_of(a) == name), default=-1)
                for t in tables
            }
            if len(depths) > 1:
                return
            varied = summary.tables == 1 and " to " in summary.target
            margins = part.table_margins(summary.name) if varied else np.array([summary.achieved_moe])
            by_level.setdefault(depths.pop(), []).append((summary, margins))
        if len(by_level) < 2 or len(by_level) == len(part.summaries):
            continue
        columns = (
            ReportColumn("level", f"level of {name}"),
            ReportColumn("places", "places", ValueKind.COUNT),
            ReportColumn("tables", "tables", ValueKind.COUNT),
            ReportColumn("least_moe", "from ±", ValueKind.PEOPLE),
            ReportColumn("most_moe", "to ±", ValueKind.PEOPLE),
            ReportColumn("price", "share of price", ValueKind.SHARE),
        )
        rows = (
            {
                "level": "all places" if depth < 0 else home.levels[depth],
                "places": 1 if depth < 0 else home.views[depth].size,
                "tables": sum(s.tables for s, _ in own),
                "least_moe": min(float(x.min()) for _, x in own),
                "most_moe": max(float(x.max()) for _, x in own),
                "price": sum(s.price for s, _ in own),
            }
            for depth, own in sorted(by_level.items())
        )
        yield ReportTable.of("levels", columns, rows)


def _questions(plan: Plan) -> ReportTable:
    """Return the accuracy of each question with finitely many answers."""
    columns = (
        ReportColumn("name", "question"),
        ReportColumn("question"),
        ReportColumn("results", "results", ValueKind.COUNT),
        ReportColumn("family", "mechanism"),
        ReportColumn("epsilon", "epsilon", ValueKind.NUMBER),
        ReportColumn("epsilon_exact"),
        ReportColumn("hit_rate", "hit rate", ValueKind.CHANCE),
        ReportColumn("confidence", kind=ValueKind.LEVEL),
        ReportColumn("moe", "margin ±", ValueKind.RESULT),
        ReportColumn("rank_moe", "rank margin ±", ValueKind.PEOPLE),
        ReportColumn("mae", "MAE", ValueKind.PEOPLE),
        ReportColumn("rmse", "RMSE", ValueKind.PEOPLE),
        ReportColumn("leakage", "leakage (bits)", ValueKind.BITS),
    )
    promised = zip(plan.finite_summaries, plan.finite_epsilons, strict=True)
    return ReportTable.of("finite", columns, ({"epsilon_exact": str(e), **vars(s)} for s, e in promised))


def _targets(part: TablePart) -> Section:
    """Return the meaning of the targets, if they are not simply met one by one."""
    objective, relaxation = part.publication.objective, 1.0
    total, told = objective.goal is Goal.TOTAL_ERROR, ""
    if part.publication.budget is not None:
        relaxation = float(part.relaxation)
        told = (
            "relative: the budget buys {factor} times the margins asked for; it is spent whole (privacy.cap is what "
            "they may cost at most)"
        )
        if total:
            told = (
                "relative: the budget buys {factor} times the margins asked for, on average of all variances "
                "({weights} weights); it is spent whole (privacy.cap is what they may cost at most)"
            )
    elif total:
        told = "met on average of all variances ({weights} weights), not by each number"
    values = (
        Value("goal", objective.goal.value),
        Value("relaxation", relaxation),
        Value("factor", relaxation**0.5, ValueKind.FACTOR, spoken=True),
        Value("weights", objective.weights.value, ValueKind.WORDS, spoken=True),
    )
    return Section("targets", (told,) if told else (), values)


def _price(plan: Plan) -> Section:
    """Return the total cost, and the unit that it protects."""
    publication, words, paid = plan.publication, sentences_for(plan.loss), sum(plan.finite_epsilons)
    what = "one finite answer" if len(plan.finite) == 1 else "{questions} finite answers"
    of_it = (f"of it {what}: epsilon = {{paid}}, pure",) if plan.finite else ()
    values = (
        Value("privacy", " + ".join(dict.fromkeys(p.publication.privacy.value for p in plan.groups)) or "pure"),
        Value("privacy_unit", publication.unit.describe()),
        Value("source", publication.source.name),
        Value("account", publication.source.population),
        Value("rho", plan.rho, ValueKind.COST),
        Value("mu", plan.mu, ValueKind.FINE),
        Value("delta", publication.delta, ValueKind.NUMBER),
        Value("epsilon", plan.epsilon(), words.epsilon),
        words.pure[0],
        Value("best_guess", plan.best_guess, ValueKind.CHANCE),
        Value("questions", len(plan.finite), ValueKind.COUNT, spoken=True),
        Value("paid", float(paid), ValueKind.NUMBER, spoken=True),
    )
    return Section("price", (*words.whole, *of_it), values)


def whom(plan: Plan, *, show_all: bool = True) -> Section:
    """Return the counted records, the values that each table leaves out, the coding of values, and dropped records.

    show_all: Name the data, too, for tables that count all records.
    """
    domain = plan.publication.workload.domain
    parts = zip(plan.summaries, (x for p in plan.groups for x in p.publication.workload.tables.parts), strict=True)
    rows = []
    for s, part in parts:
        told = universe(part, domain)
        left, coded = told.get("not_counted", {}), told.get("coded", {})
        rows += [
            {"table": table_label(s.name, s.tables), "attribute": a, "not_counted": left.get(a), "coded": coded.get(a)}
            for a in {**left, **coded}
        ]
    some = any(row["not_counted"] for row in rows)
    for query in plan.publication.questions:
        lists = uncounted_by_question(query, domain)
        for i, own in enumerate(lists, 1):
            name = query.name if len(lists) == 1 else f"{query.name} {i}"
            rows += [{"table": name, "attribute": x.name, "not_counted": x.items, "coded": None} for x in own]
    columns = (
        ReportColumn("table", "table"),
        ReportColumn("attribute", "attribute"),
        ReportColumn("not_counted", "not counted"),
        ReportColumn("coded", "coded"),
    )
    unit, source = plan.publication.unit, plan.publication.source
    sentences = {
        "every": "all records of {every}",
        "kept_of": "records of {kept_of}, as many of one unit as are counted",
        "some_of": "records of {some_of}; what single tables do not count is listed for each of them",
        "dropping_of": "records of {dropping_of}",
        "shares": "{shares}: numbers are of shares, not of records",
        "counted": "records are counted of which {counted}; others are as if they were not there",
        "left_out": (
            "records whose value is dropped (if_missing, if_outside, outside_domain) are left out of all tables: by "
            "{left_out}"
        ),
    }
    said: dict[str, Any] = shares(plan) | condition_texts(plan)
    dropped = left_out(plan)
    if show_all and plan.summaries and not said:
        whole = "dropping_of" if dropped else "every"
        said = {"kept_of" if unit.bound is not None else "some_of" if some else whole: source.name}
    said |= dropped
    values = tuple(Value(key, found) for key, found in said.items())
    tables = (ReportTable.of("universe", columns, rows),) if rows else ()
    return Section("counted", tuple(sentences[key] for key in said), values, tables)


def means(plan: Plan) -> Section:
    """Return the numbers of records to which margins of means refer."""
    told = [
        f"{table_label(s.name, s.tables)} {t.averaged[1].reference:,.15g}"
        for s, t in ranges.summarised_tables(plan)
        if t.averaged is not None
    ]
    sentence = "margins are for so many records, and of four times as many a quarter: {references}"
    return Section("means", (sentence,) if told else (), (Value("references", told),) if told else ())


def _amounts(plan: Plan) -> Section:
    """Return margins of sums and means in records at the largest amount (κ), by which a range is chosen."""
    rows = [
        {
            "table": table_label(k.summary.name, k.summary.tables)
            if k.label is None
            else f"{k.summary.name}: {k.label}",
            "largest": k.largest,
            "reference": k.reference,
            "asked_kappa": k.requested,
            "achieved_kappa": k.achieved,
        }
        for k in ranges.kappas(plan)
    ]
    columns = (
        ReportColumn("table", "table"),
        ReportColumn("largest", "largest amount", ValueKind.NUMBER),
        ReportColumn(
            "reference", "records of the mean" if any(row["reference"] for row in rows) else None, ValueKind.NUMBER
        ),
        ReportColumn("asked_kappa", "asked ± in records of it", ValueKind.PEOPLE),
        ReportColumn("achieved_kappa", "achieved ±", ValueKind.PEOPLE),
    )
    return Section("amounts", tables=(ReportTable.of("amounts", columns, rows),) if rows else ())


def records(plan: Plan) -> Section:
    """Return the ways in which units are kept to the number of records that they are priced for."""
    told = list(dict.fromkeys(filter(None, (enforcement_text(plan, unit) for unit, _ in _charged_for(plan)))))
    return Section("records", tuple(told), (Value("records_of_units", told),) if told else ())


def charged_to(plan: Plan) -> Iterator[Section]:
    """Yield the account of a plan as a ledger prints it, for a plan with a pattern: its digits stand for the cells."""
    account = plan.order.account
    if account.digits is not None:
        told = "{account}; the digits stand for the cells that the promise is about"
        yield Section("account", (told,), (Value("account", f"{account.source} ({account.sentence})"),))


def _series(plan: Plan) -> Iterator[Section]:
    """Yield the statement that a plan is released period by period, for a series."""
    if plan.periods:
        told = "{count} periods of {attribute}, from {first} to {last}, released one by one; all charged with the first"
        values = (
            Value("attribute", plan.publication.series),
            Value("count", len(plan.periods), ValueKind.COUNT),
            Value("first", str(plan.periods[0]), spoken=True),
            Value("last", str(plan.periods[-1]), spoken=True),
        )
        yield Section("series", (told,), values, place=("series",))


def bounds_section(plans: Sequence[Plan]) -> Section:
    """Return the costs for units of other numbers of records; with a budget, the factor of the margins."""
    columns = (
        ReportColumn("max_records", "records of one", ValueKind.COUNT),
        ReportColumn("rho", "rho", ValueKind.COST),
        ReportColumn("mu", "mu", ValueKind.FINE),
        ReportColumn("epsilon", "epsilon", ValueKind.COMPARED),
        ReportColumn("factor", "margins ×" if any(p.publication.budget for p in plans) else None, ValueKind.FACTOR),
    )
    rows = (
        {
            "max_records": plan.publication.unit.max_records,
            "rho": plan.rho,
            "mu": plan.mu,
            "epsilon": plan.epsilon(),
            "factor": max((float(p.relaxation) ** 0.5 for p in plan.groups if p.publication.budget), default=1.0),
        }
        for plan in plans
    )
    return Section("", tables=(ReportTable.of("bounds", columns, rows),))


def _charged_for(plan: Plan) -> tuple[tuple[PrivacyUnit, Loss], ...]:
    """Return the units with a charge, the protected unit first."""
    return ((plan.publication.unit, plan.loss), *plan.other_losses)


def units(plan: Plan) -> Iterator[Section]:
    """Yield the costs of the other units, if any; the first in the table is the protected one."""
    columns = (
        ReportColumn("privacy_unit", "costs"),
        ReportColumn("rho", "rho", ValueKind.COST),
        ReportColumn("mu", "mu", ValueKind.FINE),
        ReportColumn("epsilon", f"epsilon at {plan.publication.delta:g}", ValueKind.COMPARED),
        ReportColumn("best_guess", "best guess", ValueKind.CHANCE),
    )
    losses = _charged_for(plan)
    if len(losses) > 1:
        rows = (
            {
                "privacy_unit": unit.describe(),
                "rho": rounded_up(loss.rho),
                "mu": loss.mu,
                "epsilon": loss.epsilon_at(plan.publication.delta),
                "best_guess": loss.best_guess,
            }
            for unit, loss in losses
        )
        yield Section("units", ("each is charged to an account of its own, all or none",))
        yield Section("", tables=(ReportTable.of("units", columns, rows),))


def _cap(plan: Plan) -> Section:
    """Return the cap of the plan, if it has one, and the limits of this cap."""
    cap = plan.publication.cap
    said = {k: float(v) for k in ("rho", "mu", "epsilon", "delta") if (v := getattr(cap, k, None)) is not None}
    if not said:
        return Section("")
    told = (
        "{measure} = {most} at most, of this plan alone: what all releases of an account cost is capped in a ledger "
        "(fitnoise ledger)"
    )
    if "delta" in said:
        told = (
            "{measure} = {most} at delta = {delta} at most, of this plan alone: what all releases of an account cost "
            "is capped in a ledger (fitnoise ledger)"
        )
    measure, most = next(iter(said.items()))
    values = (
        *(Value(k, v, ValueKind.NUMBER) for k, v in said.items()),
        Value("measure", measure, spoken=True),
        Value("most", most, ValueKind.NUMBER, spoken=True),
    )
    return Section("cap", (told,), values, place=("cap",))


def _composition_section(plan: Plan) -> Section:
    beside = plan.publication.composed_with
    told = ("{names}, on the same records: costs add up cell by cell, so the balance may rise by less",)
    names = Value("names", [name[:12] for name in beside], spoken=True)
    return Section("beside", told if beside else (), (Value("composed_with", beside), names))


def _free(plan: Plan) -> Iterator[Section]:
    """Yield further tables of the same records without cost."""
    confidence = plan.publication.confidence
    told = (
        "{count} of {size} values of {attribute} have privacy paid for and not used: counts of their records cost "
        "nothing more, within ±{moe} people or more ({shown}; fitnoise plan-free)"
    )
    profile = profile_of_plan(plan) if plan.groups else None
    found = () if profile is None else free_counts(plan)
    less = profile is not None and min(profile.values) < (1 - gaussian.EQUAL_COST_TOLERANCE) * max(profile.values)
    for i, left in enumerate(found):
        values = (
            Value("attribute", left.attribute),
            Value("values", left.values),
            Value("std_errors", left.std_errors),
            Value("count", len(left.values), ValueKind.COUNT, spoken=True),
            Value("size", plan.publication.workload.domain[left.attribute].size, ValueKind.COUNT, spoken=True),
            Value(
                "moe", NormalDist().inv_cdf((1 + confidence) / 2) * min(left.std_errors), ValueKind.PEOPLE, spoken=True
            ),
            Value("shown", reprlib.repr(list(left.values)), spoken=True),
        )
        yield Section("free", (told,), values, place=("free", i))
    if less and not found:
        yield Section("free", ("nothing by any attribute: what cheaper cells pay less is too little, or scattered",))


def _search_outcome(part: TablePart) -> Section:
    """Return the reason why the search ended, and its result."""
    values = (
        Value("cost_squared", rounded_up(part.exact_cost), ValueKind.OPTIMUM),
        Value("status", part.status, ValueKind.WORDS),
        Value("answers", part.noisy_answers, ValueKind.COUNT),
        Value("numbers", part.numbers, ValueKind.COUNT),
    )
    return Section("proof", ("({status}; noisy answers: {answers}, for numbers: {numbers})",), values)


def _otherwise(part: TablePart) -> Section:
    """Return the cost of the usual alternative."""
    told = "noise added to each number on its own would cost {measure} = {separate}"
    if part.publication.objective.goal is Goal.TOTAL_ERROR:
        told = "noise added to each number on its own, to its own target, would cost {measure} = {separate}"
    measure = sentences_for(part.loss).measure
    separate = part.separate_rho if measure == "rho" else math.sqrt(2 * part.separate_rho)
    values = (
        Value("separate_rho", part.separate_rho, ValueKind.COMPARED),
        Value("measure", measure, spoken=True),
        Value("separate", separate, ValueKind.COMPARED, spoken=True),
    )
    return Section("otherwise", (told,), values)


def _note(part: TablePart) -> Section:
    shift = part.decomposition.query_shift
    told = ("queries are answered to within {query_shift} per record",) if shift > ROUNDING_SHIFT else ()
    return Section("note", told, (Value("query_shift", shift, ValueKind.GAP),))
