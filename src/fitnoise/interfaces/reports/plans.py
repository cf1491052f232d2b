"""The report of a plan: the accuracy of every table and question, the cost, and the proof.

The messages of single mechanisms are in `mechanisms/*/report.py`.
"""

from __future__ import annotations

import itertools
import math
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np

from fitnoise.interfaces.reports.costs import messages_for
from fitnoise.kernel.arrays import Floats
from fitnoise.kernel.losses import rounded_up
from fitnoise.mechanisms.gaussian import report as gaussian
from fitnoise.mechanisms.summaries import TableSummary
from fitnoise.mechanisms.tables import TablePart
from fitnoise.messages import Message, Value, ValueKind
from fitnoise.planning import protection, ranges, shared_columns
from fitnoise.planning.free_queries import free_counts, profile_of_plan
from fitnoise.planning.plan import Plan
from fitnoise.reading.description import (
    condition_messages,
    describe_enforcement,
    left_out,
    public_totals,
    unit_and_bound,
    unit_message,
    universe,
)
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section
from fitnoise.request.coverage import uncounted_by_question
from fitnoise.request.publication import Goal
from fitnoise.request.workloads import Family

ROUNDING_SHIFT = 1e-12
"""The change of queries per record that is the rounding of any sum, and is not reported."""


def plan_report(plan: Plan) -> Report:
    """Return the accuracy, cost and proof of a plan: of several parts, part by part; of a series, of all of it."""
    # What a reader of one period needs to know is the promise for the entire series, which was charged at its first
    # draw.
    parts = (plan.full_series or plan).groups
    promised = (tables(plan.summaries, *_promised(plan.groups)), _questions(plan))
    plan_section = Section(values=(Value("hash", plan.hash),), tables=(*promised, *_levels(plan)))
    part_sections = (s for i, p in enumerate(parts) for s in (_of_tables(p) if len(parts) == 1 else _of_several(i, p)))
    sections = (
        *warning_sections(plan),
        plan_section,
        _price(plan),
        whom(plan),
        _amounts(plan),
        means(plan),
        records(plan),
        *public(plan),
        *charged_to(plan),
        *units(plan),
        *_series(plan.full_series or plan),
        Section(Message("report.section.counted"), tuple(shared_columns.counted_jointly(plan))),
        _cap(plan),
        _composition_section(plan),
        *part_sections,
        *_free(plan),
    )
    return Report(plan.publication.title, sections)


def warned(plan: Plan) -> Iterator[Message]:
    """Yield the warnings about a plan: weak protection, ranges that can cut off much, attributes of one column."""
    yield from protection.warnings(plan)
    yield from ranges.warnings(plan)
    yield from shared_columns.warnings(plan)


def warning_sections(plan: Plan) -> Iterator[Section]:
    """Yield the warnings about a plan, and their list for documents."""
    messages = tuple(warned(plan))
    yield Section(None, messages, (Value("warnings", messages),))


def free_report(plan: Plan) -> Report:
    """Return further tables of the same records without cost; none if all records cost the same."""
    return Report("", tuple(_free(plan)))


def _of_tables(part: TablePart) -> Iterator[Section]:
    """Yield the sections of tables: the meaning of their targets, their mechanism, and the proof."""
    yield _targets(part)
    by_cell = messages_for(part.loss).by_cell
    yield gaussian.profile(
        part.profile,
        part.slack,
        part.publication.unit,
        for_people=by_cell,
        equal_cost=part.descriptions.equal_cost,
    )
    yield part.descriptions.report_setting()
    yield Section(Message("report.section.values"), part.descriptions.describe_bias())
    yield from part.descriptions.report_proof()
    yield _search_outcome(part)
    yield from part.descriptions.report_universal_bounds()
    yield _otherwise(part)
    yield _note(part)


def _of_several(i: int, part: TablePart) -> Iterator[Section]:
    """Yield the sections of one part of several, at its path in a document, with its cost."""
    part_path = ("parts", i)
    values = (
        Value("tables", [s.name for s in part.summaries], ValueKind.TABLE),
        Value("mechanism", part.mechanism.name),
        Value("rho", part.rho, ValueKind.COST),
        *messages_for(part.loss).pure,
    )
    title = Message("report.section.part", (Value("part", i + 1, ValueKind.COUNT),))
    yield Section(title, (Message(messages_for(part.loss).part, values),), values, path=part_path)
    for section in _of_tables(part):
        yield replace(section, path=(*part_path, *section.path))


def tables(
    summaries: Iterable[TableSummary],
    *columns: ReportColumn,
    further_values: Mapping[str, Mapping[str, Any]] | None = None,
) -> ReportTable:
    """Return a row for each table or pattern of tables: name, further columns of its summary, and further values."""
    # Documents have name and number as keys of their own; a terminal and a page show the phrase `called` in their
    # place.
    names = (
        ReportColumn("name"),
        ReportColumn("tables", kind=ValueKind.COUNT),
        ReportColumn("called", Message("report.heading.table"), ValueKind.TABLE, spoken=True),
    )
    rows = (
        {"called": table_label(s.name, s.tables), **vars(s), **(further_values or {}).get(s.name, {})}
        for s in summaries
    )
    return ReportTable.from_rows(
        "tables", (*names, ReportColumn("numbers", Message("report.heading.numbers"), ValueKind.COUNT), *columns), rows
    )


def table_label(name: str, tables: int) -> Message | str:
    """Return a table by its name; a pattern as a message with the number of its tables."""
    if tables == 1:
        return name
    return Message(
        "report.label.pattern", (Value("name", name, ValueKind.TABLE), Value("tables", tables, ValueKind.COUNT))
    )


def _promised(parts: Sequence[TablePart]) -> Iterator[ReportColumn]:
    goals = {p.publication.objective.goal for p in parts}
    total = goals == {Goal.TOTAL_ERROR}
    hybrid = Message("report.heading.share_of_objective")
    headings = {hybrid if p.publication.objective.goal is Goal.HYBRID else p.descriptions.price_heading for p in parts}
    # Several parts share the cost of all tables; one part may have shares of a bound, or of its variance.
    price = headings.pop() if len(parts) == 1 else Message("report.heading.share_of_price")
    target, achieved = "report.heading.target", "report.heading.achieved_moe"
    if total:
        target, achieved = "report.heading.target_on_average", "report.heading.worst_moe"
    yield ReportColumn("target", Message(target), ValueKind.MESSAGE)
    yield ReportColumn("confidence", kind=ValueKind.LEVEL)
    yield ReportColumn("target_moe", Message("report.heading.requested_moe"), ValueKind.PEOPLE)
    yield ReportColumn("achieved_moe", Message(achieved), ValueKind.PEOPLE)
    yield ReportColumn("price", price, ValueKind.PROPORTION)


def _levels(plan: Plan) -> Iterator[ReportTable]:
    """Yield for each hierarchy the accuracy and cost of its levels, if there are several and one has several tables.

    Tables in several parts, and patterns of tables of several levels, have none: a level has no price of its own.
    """
    domain = plan.publication.domain
    part = plan.groups[0] if len(plan.groups) == 1 else None
    for name, home in domain.items():
        if part is None or home.tree is None:
            continue
        by_level: dict[int, list[tuple[TableSummary, Floats]]] = {}
        for summary, table_or_family in zip(part.summaries, part.publication.workload.tables.parts, strict=True):
            tables = table_or_family if isinstance(table_or_family, Family) else [table_or_family]
            depths = {
                max((domain.depth(a) for a in t.attributes if domain.attribute_of(a) == name), default=-1)
                for t in tables
            }
            if len(depths) > 1:
                # One pattern shows several levels, so its price belongs to none of them.
                return
            # With several targets the margin differs from number to number, and all are computed.
            varied = summary.tables == 1 and summary.has_several_targets
            margins = part.table_margins(summary.name) if varied else np.array([summary.achieved_moe])
            by_level.setdefault(depths.pop(), []).append((summary, margins))
        # With one table for each level the list of tables shows the same.
        if len(by_level) < 2 or len(by_level) == len(part.summaries):
            continue
        columns = (
            ReportColumn("level", Message("report.heading.level", (Value("attribute", name),)), ValueKind.MESSAGE),
            ReportColumn("places", Message("report.heading.places"), ValueKind.COUNT),
            ReportColumn("tables", Message("report.heading.tables"), ValueKind.COUNT),
            ReportColumn("least_moe", Message("report.heading.least_moe"), ValueKind.PEOPLE),
            ReportColumn("most_moe", Message("report.heading.most_moe"), ValueKind.PEOPLE),
            ReportColumn("price", Message("report.heading.share_of_price"), ValueKind.PROPORTION),
        )
        rows = (
            {
                "level": Message("report.label.all_places") if depth < 0 else home.levels[depth],
                "places": 1 if depth < 0 else home.views[depth].size,
                "tables": sum(s.tables for s, _ in entries),
                "least_moe": min(float(x.min()) for _, x in entries),
                "most_moe": max(float(x.max()) for _, x in entries),
                "price": sum(s.price for s, _ in entries),
            }
            for depth, entries in sorted(by_level.items())
        )
        yield ReportTable.from_rows("levels", columns, rows)


def _questions(plan: Plan) -> ReportTable:
    """Return the accuracy of each question with finitely many answers."""
    columns = (
        ReportColumn("name", Message("report.heading.question")),
        ReportColumn("question"),
        ReportColumn("results", Message("report.heading.results"), ValueKind.COUNT),
        ReportColumn("family", Message("report.heading.mechanism")),
        ReportColumn("epsilon", Message("report.heading.epsilon"), ValueKind.NUMBER),
        ReportColumn("epsilon_exact"),
        ReportColumn("hit_rate", Message("report.heading.hit_rate"), ValueKind.PROBABILITY),
        ReportColumn("confidence", kind=ValueKind.LEVEL),
        ReportColumn("moe", Message("report.heading.moe"), ValueKind.RESULT),
        ReportColumn("rank_moe", Message("report.heading.rank_moe"), ValueKind.PEOPLE),
        ReportColumn("mae", Message("report.heading.mae"), ValueKind.PEOPLE),
        ReportColumn("rmse", Message("report.heading.rmse"), ValueKind.PEOPLE),
        ReportColumn("leakage", Message("report.heading.leakage_bits"), ValueKind.BITS),
    )
    # A decimal of ε is for people; programs that add up costs need the exact fraction.
    return ReportTable.from_rows(
        "finite", columns, ({"epsilon_exact": str(q.exact_epsilon), **vars(q.summary)} for q in plan.questions)
    )


def _targets(part: TablePart) -> Section:
    """Return the meaning of the targets, if they are not simply met one by one."""
    objective, relaxation = part.publication.objective, 1.0
    total, text = objective.goal is Goal.TOTAL_ERROR, None
    if part.publication.budget is not None:
        relaxation = float(part.relaxation)
        text = "report.targets.budget_on_average" if total else "report.targets.budget"
    elif total:
        text = "report.targets.on_average"
    values = (
        Value("factor", relaxation**0.5, ValueKind.FACTOR),
        Value("weights", gaussian.WEIGHTS[objective.weights], ValueKind.MESSAGE),
    )
    # Targets that are met one by one need no sentence: the columns of the table show it.
    messages = [] if text is None else [Message(text, values)]
    if part.publication.budget is not None:
        messages.append(Message("report.targets.spent"))
    document = (Value("goal", objective.goal.value), Value("relaxation", relaxation))
    return Section(Message("report.section.targets"), tuple(messages), document)


def _price(plan: Plan) -> Section:
    """Return the total cost, and the unit that it protects."""
    publication, cost_messages = plan.publication, messages_for(plan.loss)
    finite_epsilon = sum(q.exact_epsilon for q in plan.questions)
    values = (
        Value("privacy", " + ".join(dict.fromkeys(p.publication.privacy.value for p in plan.groups)) or "pure"),
        Value("privacy_unit", unit_message(publication.unit), ValueKind.MESSAGE),
        Value("source", publication.source.name),
        Value("account", publication.source.population),
        Value("rho", plan.rho, ValueKind.COST),
        Value("mu", plan.loss_summary.mu, ValueKind.FINE),
        Value("delta", publication.delta, ValueKind.NUMBER),
        Value("epsilon", plan.epsilon(), cost_messages.epsilon),
        cost_messages.pure[0],
        Value("best_guess", plan.loss_summary.best_guess, ValueKind.PROBABILITY),
    )
    messages = [Message(text, values) for text in cost_messages.total]
    if plan.questions:
        question_count = Value("questions", len(plan.questions), ValueKind.COUNT)
        text = "report.price.finite_answer" if len(plan.questions) == 1 else "report.price.finite_answers"
        messages.append(Message(text, (question_count, Value("epsilon", float(finite_epsilon), ValueKind.NUMBER))))
    return Section(Message("report.section.price"), tuple(messages), values)


def whom(plan: Plan, *, show_all: bool = True) -> Section:
    """Return the counted records, the values that each table leaves out, the coding of values, and dropped records.

    show_all: Also name the data source whose records are counted, if no condition selects them.
    """
    domain = plan.publication.workload.domain
    parts = zip(plan.summaries, (x for p in plan.groups for x in p.publication.workload.tables.parts), strict=True)
    rows = []
    for s, part in parts:
        table_universe = universe(part, domain)
        uncounted, coded = table_universe.get("not_counted", {}), table_universe.get("coded", {})
        rows += [
            {
                "table": table_label(s.name, s.tables),
                "attribute": a,
                "not_counted": uncounted.get(a),
                "coded": coded.get(a),
            }
            for a in {**uncounted, **coded}
        ]
    has_uncounted = any(row["not_counted"] for row in rows)
    for query in plan.publication.questions:
        lists = uncounted_by_question(query, domain)
        for i, value_lists in enumerate(lists, 1):
            name = query.name if len(lists) == 1 else f"{query.name} {i}"
            # A question with several counts leaves out other values for each count, so each has rows of its own.
            rows += [{"table": name, "attribute": x.name, "not_counted": x.items, "coded": None} for x in value_lists]
    columns = (
        ReportColumn("table", Message("report.heading.table"), ValueKind.TABLE),
        ReportColumn("attribute", Message("report.heading.attribute")),
        ReportColumn("not_counted", Message("report.heading.not_counted")),
        ReportColumn("coded", Message("report.heading.coded"), ValueKind.SENTENCES),
    )
    publication = plan.publication
    conditions, dropped = condition_messages(plan), left_out(plan)
    values = [Value(key, texts) for key, texts in (conditions | dropped).items()]
    messages = [Message("report.counted.conditions", tuple(values))] if conditions else []
    if publication.unit.parts > 1:
        messages.insert(0, Message("report.counted.shares", (Value("unit", publication.unit.name),)))
    elif show_all and plan.summaries and not conditions:
        source = Value("source", publication.source.name, spoken=True)
        text_of_all = "report.counted.some_records" if has_uncounted or dropped else "report.counted.all_records"
        text = "report.counted.kept_records" if publication.unit.bound is not None else text_of_all
        messages.append(Message(text, (source,)))
        if has_uncounted and publication.unit.bound is None:
            messages.append(Message("report.counted.listed"))
    if dropped:
        messages.append(Message("report.counted.dropped", tuple(values)))
    tables = (ReportTable.from_rows("universe", columns, rows),) if rows else ()
    return Section(Message("report.section.counted"), tuple(messages), tuple(values), tables)


def means(plan: Plan) -> Section:
    """Return the numbers of records to which margins of means refer."""
    references = tuple(
        Message(
            "report.means.reference",
            (
                Value("table", table_label(s.name, s.tables), ValueKind.TABLE),
                Value("records", t.averaged[1].reference, ValueKind.RESULT),
            ),
        )
        for s, t in ranges.summarised_tables(plan)
        if t.averaged is not None
    )
    return Section(
        Message("report.section.means"), references, (Value("references", references),) if references else ()
    )


def _amounts(plan: Plan) -> Section:
    """Return margins of sums and means in records at the largest amount (κ), by which a range is chosen."""
    rows = [
        {
            "table": table_label(k.summary.name, k.summary.tables)
            if k.label is None
            else Message(
                "report.label.value", (Value("name", k.summary.name, ValueKind.TABLE), Value("value", k.label))
            ),
            "largest": k.largest,
            "reference": k.reference,
            "asked_kappa": k.requested,
            "achieved_kappa": k.achieved,
        }
        for k in ranges.kappas(plan)
    ]
    columns = (
        ReportColumn("table", Message("report.heading.table"), ValueKind.TABLE),
        ReportColumn("largest", Message("report.heading.largest_amount"), ValueKind.NUMBER),
        ReportColumn(
            "reference",
            Message("report.heading.reference") if any(row["reference"] for row in rows) else None,
            ValueKind.NUMBER,
        ),
        ReportColumn("asked_kappa", Message("report.heading.requested_kappa"), ValueKind.PEOPLE),
        ReportColumn("achieved_kappa", Message("report.heading.achieved_moe"), ValueKind.PEOPLE),
    )
    return Section(
        Message("report.section.amounts"), tables=(ReportTable.from_rows("amounts", columns, rows),) if rows else ()
    )


def records(plan: Plan) -> Section:
    """Return the ways in which units are kept to the number of records that they are priced for."""
    # Units often share one statement: keys of a dictionary name each once, and in order.
    by_unit = dict.fromkeys(describe_enforcement(plan, unit) for unit, _ in plan.unit_summaries)
    each = [*itertools.chain.from_iterable(by_unit)]
    # The promise about a view is for all units. Other sentences are about the unit that is named before them.
    statements = tuple(x for i, x in enumerate(each) if x.id != "report.view.promised" or x not in each[:i])
    return Section(
        Message("report.section.records"), statements, (Value("records_of_units", statements),) if statements else ()
    )


def public(plan: Plan) -> Iterator[Section]:
    """Yield the statement on the public totals of a plan, for a plan with some."""
    statements = public_totals(plan)
    if statements:
        yield Section(Message("report.section.public"), statements, (Value("public_totals", statements),))


def charged_to(plan: Plan) -> Iterator[Section]:
    """Yield the section with the account as a ledger prints it, if the plan has a pattern or `within`.

    The digits of the account stand for the cells of these attributes, and with `within` for the conditions.
    """
    account = plan.order.account
    # Without these the name of an account has no digits, and the section on price states the account already.
    if account.digits is not None:
        values = (Value("account", f"{account.source} ({account.sentence})"),)
        digits = "report.account.digits_within" if account.unit.within else "report.account.digits"
        messages = (Message("report.account.name", values), Message(digits))
        yield Section(Message("report.section.account"), messages, values)


def _series(plan: Plan) -> Iterator[Section]:
    """Yield the statement that a plan is released period by period, for a series."""
    if plan.periods:
        values = (
            Value("attribute", plan.publication.series),
            Value("count", len(plan.periods), ValueKind.COUNT),
            Value("first", str(plan.periods[0]), spoken=True),
            Value("last", str(plan.periods[-1]), spoken=True),
        )
        text = "report.series.period" if len(plan.periods) == 1 else "report.series.periods"
        messages = (Message(text, values), Message("report.series.charged_first"))
        yield Section(Message("report.section.series"), messages, values, path=("series",))


def bounds_section(plans: Sequence[Plan]) -> Section:
    """Return the costs for units of other numbers of records; with a budget, the factor of the margins."""
    factor = Message("report.heading.margin_factor")
    columns = (
        ReportColumn("max_records", Message("report.heading.records_of_unit"), ValueKind.COUNT),
        ReportColumn("rho", Message("report.heading.rho"), ValueKind.COST),
        ReportColumn("mu", Message("report.heading.mu"), ValueKind.FINE),
        ReportColumn("epsilon", Message("report.heading.epsilon"), ValueKind.COMPARED),
        ReportColumn("factor", factor if any(p.publication.budget for p in plans) else None, ValueKind.FACTOR),
    )
    rows = (
        {
            "max_records": plan.publication.unit.max_records,
            "rho": plan.rho,
            "mu": plan.loss_summary.mu,
            "epsilon": plan.epsilon(),
            "factor": margin_factor(plan),
        }
        for plan in plans
    )
    return Section(tables=(ReportTable.from_rows("bounds", columns, rows),))


def margin_factor(plan: Plan) -> float:
    """Return the largest factor of the requested margins that a budget allows; 1 without a budget."""
    return max((float(p.relaxation) ** 0.5 for p in plan.groups if p.publication.budget), default=1.0)


def units(plan: Plan) -> Iterator[Section]:
    """Yield the costs of the other units, if any; the first in the table is the protected one."""
    delta = Value("delta", plan.publication.delta, ValueKind.NUMBER)
    columns = (
        ReportColumn("privacy_unit", Message("report.heading.protected_unit"), ValueKind.SENTENCES),
        ReportColumn("rho", Message("report.heading.rho"), ValueKind.COST),
        ReportColumn("mu", Message("report.heading.mu"), ValueKind.FINE),
        ReportColumn("epsilon", Message("report.heading.epsilon_at", (delta,)), ValueKind.COMPARED),
        ReportColumn("best_guess", Message("report.heading.best_guess"), ValueKind.PROBABILITY),
    )
    summaries = plan.unit_summaries
    # The protected unit comes first in the table, so that the others can be compared with it. Its own costs are above.
    if len(summaries) > 1:
        rows = (
            {
                "privacy_unit": unit_and_bound(unit),
                "rho": summary.rho,
                "mu": summary.mu,
                "epsilon": summary.epsilon,
                "best_guess": summary.best_guess,
            }
            for unit, summary in summaries
        )
        yield Section(Message("report.section.units"), (Message("report.units.accounts"),))
        yield Section(tables=(ReportTable.from_rows("units", columns, rows),))


def _cap(plan: Plan) -> Section:
    """Return the cap of the plan, if it has one, and the limits of this cap."""
    cap = plan.publication.cap
    limits = {k: float(v) for k in ("rho", "mu", "epsilon", "delta") if (v := getattr(cap, k, None)) is not None}
    if not limits:
        return Section()
    measure, largest = next(iter(limits.items()))
    limit = (Value("most", largest, ValueKind.NUMBER), Value("delta", limits.get("delta"), ValueKind.NUMBER))
    # A cap has one measure; δ is stated with ε alone.
    text = {"rho": "report.cap.rho", "mu": "report.cap.mu", "epsilon": "report.cap.epsilon"}[measure]
    text = "report.cap.epsilon_at_delta" if "delta" in limits else text
    messages = (Message(text, limit), Message("report.cap.ledger"))
    values = tuple(Value(k, v, ValueKind.NUMBER) for k, v in limits.items())
    return Section(Message("report.section.cap"), messages, values, path=("cap",))


def _composition_section(plan: Plan) -> Section:
    names = plan.publication.composed_with
    plan_prefixes = Value("plans", [name[:12] for name in names])
    messages = (Message("report.composed.plans", (plan_prefixes,)), Message("report.composed.cells")) if names else ()
    return Section(Message("report.section.composed"), messages, (Value("composed_with", names),))


def _free(plan: Plan) -> Iterator[Section]:
    """Yield further tables of the same records without cost."""
    confidence, title = plan.publication.confidence, Message("report.section.unused")
    profile = profile_of_plan(plan) if plan.groups else None
    free_tables = () if profile is None else free_counts(plan)
    # Further tables cost nothing only in cells whose records cost less than the costliest one.
    # Without a profile the cost belongs to pairs of records, and no single cell has a rest.
    less = profile is not None and min(profile.values) < (1 - gaussian.EQUAL_COST_TOLERANCE) * max(profile.values)
    for i, free_table in enumerate(free_tables):
        # The best of the free numbers decides if the table is worth its plan; all standard errors are in the document.
        moe = NormalDist().inv_cdf((1 + confidence) / 2) * min(free_table.std_errors)
        values = (
            Value("attribute", free_table.attribute),
            Value("values", free_table.values),
            Value("std_errors", free_table.std_errors),
        )
        sizes = (
            values[0],
            Value("count", len(free_table.values), ValueKind.COUNT),
            Value("size", plan.publication.workload.domain[free_table.attribute].size, ValueKind.COUNT),
            Value("moe", moe, ValueKind.PEOPLE),
            Value("shown", reprlib.repr(list(free_table.values))),
        )
        text = "report.unused.value" if len(free_table.values) == 1 else "report.unused.values"
        messages = (Message(text, sizes), Message("report.unused.moe", sizes), Message("report.unused.shown", sizes))
        yield Section(title, messages, values, path=("free", i))
    if less and not free_tables:
        yield Section(title, (Message("report.unused.none"),))


def _search_outcome(part: TablePart) -> Section:
    """Return the reason why the search ended, and its result."""
    values = (
        Value("cost_squared", rounded_up(part.exact_cost), ValueKind.OPTIMUM),
        Value("status", part.status),
        Value("noisy_answers", part.noisy_answers, ValueKind.COUNT),
        Value("numbers", part.numbers, ValueKind.COUNT),
    )
    messages = (*part.status, Message("report.proof.answers", values))
    return Section(Message("report.section.proof"), messages, values)


def _otherwise(part: TablePart) -> Section:
    """Return the cost of the usual alternative."""
    total = part.publication.objective.goal is Goal.TOTAL_ERROR
    if messages_for(part.loss).measure == "rho":
        cost = Value("cost", part.separate_rho, ValueKind.COMPARED)
        text = "report.separate.rho_by_target" if total else "report.separate.rho"
    else:
        # `separate_rho` of a pure part is ε²/2.
        cost = Value("cost", math.sqrt(2 * part.separate_rho), ValueKind.COMPARED)
        text = "report.separate.epsilon_by_target" if total else "report.separate.epsilon"
    values = (Value("separate_rho", part.separate_rho, ValueKind.COMPARED),)
    return Section(Message("report.section.comparison"), (Message(text, (cost,)),), values)


def _note(part: TablePart) -> Section:
    shift = part.decomposition.query_shift
    values = (Value("query_shift", shift, ValueKind.GAP),)
    messages = (Message("report.precision.queries", values),) if shift > ROUNDING_SHIFT else ()
    return Section(Message("report.section.precision"), messages, values)
