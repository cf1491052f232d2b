"""The content of release.json."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Self, final

from fitnoise.errors import ReleaseError
from fitnoise.kernel.arguments import describe_value
from fitnoise.kernel.designs.questions import QuestionKind
from fitnoise.kernel.domain import Domain
from fitnoise.kernel.losses import Loss, rounded_up
from fitnoise.kernel.units import PrivacyUnit
from fitnoise.mechanisms.summaries import FiniteSummary
from fitnoise.messages import Message, Value, ValueKind, english
from fitnoise.planning import protection
from fitnoise.planning.plan import Plan
from fitnoise.request.coverage import uncounted, uncounted_by_question
from fitnoise.request.documents import Spec
from fitnoise.request.publication import Publication
from fitnoise.request.workloads import (
    AtMost,
    Average,
    Change,
    Family,
    Mean,
    NonMissing,
    Ranges,
    Recode,
    Sum,
    Table,
    ToDate,
    View,
)

FORMAT = 7
"""The version of the release directory."""


@final
@dataclass(frozen=True)
class EntryReference:
    """The entry of a ledger that charged a release.

    sequence: The number of the entry in the ledger, from 1. digest: Its SHA-256, in hexadecimal digits, over all its
    content and the entries before it.

    Raises:
        ReleaseError: The values are not the number and digest of an entry.
    """

    sequence: int
    digest: str

    def __post_init__(self) -> None:
        number = type(self.sequence) is int and self.sequence > 0
        if not number or not isinstance(self.digest, str) or not re.fullmatch("[0-9a-f]{64}", self.digest):
            raise ReleaseError(
                "wrong-entry-reference",
                "release.json does not state number and digest of a ledger's entry.",
                "It needs a number from 1 and a digest of 64 hexadecimal digits.",
                "Bring the file back as it was written.",
                "Nothing was read.",
                place="ledger",
            )

    def document(self) -> dict[str, Any]:
        """Return the entry as release.json has it."""
        return {"sequence": self.sequence, "digest": self.digest}

    @classmethod
    def parse(cls, stated: Any) -> Self | None:
        """Return the entry that a release.json names, or None for a release without a known charge.

        Raises:
            ReleaseError: The document is not of this format, or its entry has another form.
        """
        number = stated.get("fitnoise_release") if isinstance(stated, dict) else None
        if type(number) is not int or number != FORMAT:
            finding = "names no format" if number is None else f"is of format {describe_value(number)}"
            raise ReleaseError(
                "unknown-release-format",
                f"release.json {finding}.",
                f"This fitnoise reads format {FORMAT} alone.",
                "Use the fitnoise that wrote it, or release the plan again.",
                "Nothing was read.",
                place="fitnoise_release",
            )
        if "ledger" not in stated:
            return None
        entry = stated["ledger"]
        if not isinstance(entry, dict) or list(entry) != ["sequence", "digest"]:
            raise ReleaseError(
                "entry-not-named",
                "release.json does not name the ledger's entry that charged the release.",
                "It needs `ledger` with `sequence` and `digest`.",
                "Bring the file back as it was written.",
                "Nothing was read.",
                place="ledger",
            )
        return cls(**entry)


def describe(plan: Plan, table_names: Sequence[str], entry: EntryReference | None = None) -> dict[str, Any]:
    """Return release.json, made from the plan, the names of the tables that have files, and the ledger's entry."""
    publication = plan.publication
    unit, delta, rho = publication.unit, publication.delta, plan.exact_rho
    universes = _question_universes(publication)
    has_all_files = len(table_names) == sum(len(p.workload.tables) for p in publication.groups)
    return {
        "fitnoise_release": FORMAT,
        "title": publication.title,
        "plan": plan.hash,
        **_by_part(plan, [p.mechanism.describe_noise(p) for p in plan.groups], "mechanism"),
        "charge": {
            "rho": str(rho),
            "rho_decimal": rounded_up(rho),
            **_pure(plan.loss),
            "mu": plan.mu,
            "mu_squared": str(plan.loss.mu_squared),
            "delta": delta,
            "epsilon": plan.loss.epsilon_at(delta),
            "source": publication.source.name,
            **({} if publication.source.account is None else {"account": publication.source.account}),
            "privacy_unit": unit.describe(),
            **_describe_enforcement(plan, unit),
            **({} if not plan.other_losses else {"other_units": [_other(plan, *x) for x in plan.other_losses]}),
            **({"warnings": warned} if (warned := [*map(english, protection.warnings(plan))]) else {}),
        },
        **({} if entry is None else {"ledger": entry.document()}),
        "tables": [
            {
                "name": s.name,
                "tables": s.tables,
                "statistic": _statistic(part, publication.workload.domain),
                "columns": _explain_columns(part if isinstance(part, Table) else part.template),
                "numbers": s.numbers,
                "target": s.target,
                "confidence": s.confidence,
                "achieved_moe": s.achieved_moe,
                **universe(part, publication.workload.domain),
                "universe": universe_text(plan, part),
            }
            for s, part in zip(
                plan.summaries, (x for p in plan.groups for x in p.publication.workload.tables.parts), strict=True
            )
        ],
        **condition_texts(plan),
        **left_out(plan),
        **shares(plan),
        **({} if unit.parts == 1 else {"answers_per_record": unit.parts}),
        **(
            {"questions": [_describe_finite(s) | universes.get(s.name, {}) for s in plan.finite_summaries]}
            if plan.finite
            else {}
        ),
        "written": "all" if has_all_files else list(table_names),
        **_by_part(plan, [english(*p.mechanism.describe_bias(p)) for p in plan.groups], "values"),
        **_so_far(plan),
        "spec": Spec.from_publication((plan.full_series or plan).publication).document(),
        "versions": {name: metadata.version(name) for name in ("fitnoise", "numpy", "duckdb")},
    }


def _so_far(plan: Plan) -> dict[str, Any]:
    """Return a series' attribute, its last drawn period, the number of drawn periods, and that of all periods."""
    if plan.full_series is None:
        return {}
    periods = plan.periods
    return {
        "series": {
            "attribute": plan.publication.series,
            "period": periods[-1],
            "drawn": len(periods),
            "periods": len(plan.full_series.periods),
        }
    }


def universe(part: Table | Family, domain: Domain) -> dict[str, dict[str, Any]]:
    """Return the values that a table does not count, by attribute, and the values as which others are read."""
    table = part if isinstance(part, Table) else part.template
    not_counted = {missing.name: missing.items for missing in uncounted(table, domain)}
    coded = {a: english(*messages) for a, messages in part.coded(domain).items()}
    values: dict[str, dict[str, Any]] = {"not_counted": not_counted, "coded": coded}
    return {key: entries for key, entries in values.items() if entries}


NOT_CUT_OFF = "no margin or interval includes what the range cuts off"
"""The sentence about sums and means of values that a range cuts."""


def counted_as(table: Table, domain: Domain) -> tuple[dict[str, tuple[Message, ...]], bool]:
    """Return the reading of the values that a table sums or averages, by attribute, and True if a range cuts them.

    Args:
        table: The table, of counts or of sums or of means.
        domain: The domain of the table.
    """
    names = table.summed or (() if table.averaged is None else table.averaged[:1])
    ceilings = any(isinstance(view, Sum) and view.ceiling is not None for _, view in table.views)
    coded = {a: messages for a, messages in table.coded(domain).items() if a in names}
    return coded, ceilings or any(domain[a].is_capped for a in names)


def statistic(table: Table, domain: Domain) -> str:
    """Return the statistic that the margins and intervals of a table are for, in words.

    Args:
        table: The table.
        domain: The domain of the table.
    """
    what = "number of records" if table.averaged is None else f"mean of {table.averaged[0]}"
    what = f"sum of {' × '.join(table.terms)}" if table.terms else what
    what = f"change of the {what}" if any(view.signed for _, view in table.views) else what
    coded, capped = counted_as(table, domain)
    values = (f"values of {a} count {english(*messages)}" for a, messages in coded.items())
    return "; ".join([what, *values, *([NOT_CUT_OFF] if capped else [])])


def _statistic(part: Table | Family, domain: Domain) -> str:
    """Return the statistic of a table, or of each table of a family."""
    return statistic(part if isinstance(part, Table) else part.template, domain)


def universe_text(plan: Plan, part: Table | Family) -> list[str]:
    """Return the universe of a table in words: its records and units, its left-out records, its coding of values."""
    unit, source = plan.publication.unit, plan.publication.source
    values = universe(part, plan.publication.workload.domain)
    dropped = left_out(plan).get("left_out")
    scope = "" if "not_counted" in values or dropped or unit.bound is not None else "all "
    counted = [*shares(plan).values(), *condition_texts(plan).get("counted", [])] or [
        f"{scope}records of {source.name}"
    ]
    if unit.bound is not None and unit.bound.max_records is not None:
        plural = "record" if unit.max_records == 1 else "records"
        counted.append(f"at most {unit.max_records} {plural} of each {unit.name}{unit.pattern.describe}")
    counted += map(english, merged_records(unit))
    return [
        *(f"counted: {text}" for text in counted),
        *([f"left out: records whose value is dropped, by {', '.join(dropped)}"] if dropped else []),
        *(f"not counted: {a} {', '.join(cells)}" for a, cells in values.get("not_counted", {}).items()),
        *(f"coded: {a} {text}" for a, text in values.get("coded", {}).items()),
    ]


def condition_texts(plan: Plan) -> dict[str, list[str]]:
    """Return the conditions that counted records meet, in words; empty without conditions."""
    conditions = plan.publication.source.conditions
    return {"counted": [c.describe for c in conditions]} if conditions else {}


def left_out(plan: Plan) -> dict[str, list[str]]:
    """Return the attributes whose values leave records out of all tables; empty if there are none."""
    names = plan.publication.workload.domain.drops(plan.publication.source.drops)
    return {"left_out": list(names)} if names else {}


def shares(plan: Plan) -> dict[str, str]:
    """Return the statistic that numbers count if it is not records, in words; empty otherwise."""
    unit = plan.publication.unit
    return {} if unit.parts == 1 else {"shares": f"each {unit.name} counts one, by equal shares of all records of one"}


def describe_enforcement(plan: Plan, unit: PrivacyUnit) -> tuple[Message, ...]:
    """Return how the bound on the records of a unit is kept, and for a series the assumption between its draws.

    Empty if the unit is a record, and the plan is released at once.

    **Guarantees**
        * A bound that is not enforced is called an assumption that is not checked.
    """
    draws = () if plan.publication.series is None else (between_draws(unit),)
    questions = [q.name for q in plan.publication.questions if q.question is QuestionKind.LEFT_OUT]
    left_out = Message("report.records.unknown_left_out")
    if questions:
        left_out = Message("report.records.left_out", (Value("question", questions[0]),))
    return (*bound_on_records(unit, left_out), *draws)


def bound_on_records(unit: PrivacyUnit, left_out: Message) -> tuple[Message, ...]:
    """Return how the bound on the records of a unit is kept; empty if the unit is one record.

    Args:
        unit: The unit.
        left_out: The statement about the number of records that the bound leaves out.
    """
    if unit.is_record:
        return ()
    name, column = Value("unit", unit.name), Value("column", unit.id)
    if unit.parts > 1:
        return (Message("report.records.shares", (name, column)),)
    records = Value("records", unit.max_records, ValueKind.COUNT)
    bound = Message(
        "report.records.at_most_one" if unit.max_records == 1 else "report.records.at_most", (name, records)
    )
    pattern = tuple(describe_pattern(unit))
    if unit.id is None:
        return (bound, *pattern, Message("report.records.assumed"))
    merged = merged_records(unit)
    chosen = Message("report.records.chosen", (name,))
    return (bound, *pattern, Message("report.records.enforced", (column,)), *merged, chosen, left_out)


def merged_records(unit: PrivacyUnit) -> tuple[Message, ...]:
    """Return the statement about merged records of a unit; empty where none are merged."""
    values = (Value("unit", unit.name), Value("amounts", unit.sum_within_unit))
    return (Message("report.records.merged", values),) if unit.sum_within_unit else ()


def describe_pattern(unit: PrivacyUnit) -> Iterator[Message]:
    """Yield the rules of the pattern that the records of a unit keep to, one message for each rule."""
    name, pattern = Value("unit", unit.name), unit.pattern
    if pattern.once_per:
        yield Message("report.records.once_per", (name, Value("attributes", pattern.once_per)))
    for attribute, max_records in pattern.per_value:
        values = (name, Value("attribute", attribute), Value("records", max_records, ValueKind.COUNT))
        yield Message("report.records.one_per_value" if max_records == 1 else "report.records.per_value", values)
    for attribute, steps in pattern.separation:
        values = (name, Value("attribute", attribute), Value("steps", steps, ValueKind.COUNT))
        yield Message("report.records.separation", values)
    if pattern.fixed:
        yield Message("report.records.fixed", (name, Value("attributes", pattern.fixed)))


def between_draws(unit: PrivacyUnit) -> Message:
    """Return the assumption about the records of a unit between two draws of a series.

    Each period is drawn from frozen counts of earlier periods (:mod:`fitnoise.kernel.series`). All draws together have
    the price of the records that were counted in them. A record that moves to another period between two draws is
    counted twice. A record that moves to another cell of an attribute breaks the pattern of its unit. Both hazards
    exist for every unit, also for a single record. With an id each period enforces the bound on its own records, and
    earlier periods do not change that. An id must then stand for one unit in all periods.

    **Guarantees**
        * The message states that the assumption is not checked.
    """
    return Message("report.records.draws_by_cell" if unit.id is None else "report.records.draws_by_id")


def _describe_enforcement(plan: Plan, unit: PrivacyUnit) -> dict[str, str]:
    """Return the text of :func:`describe_enforcement` as an entry of release.json; empty without a message."""
    messages = describe_enforcement(plan, unit)
    return {"records": english(*messages)} if messages else {}


def _other(plan: Plan, unit: PrivacyUnit, loss: Loss) -> dict[str, Any]:
    """Return the cost of the release for another unit."""
    epsilon, enforcement = loss.epsilon_at(plan.publication.delta), _describe_enforcement(plan, unit)
    return {
        "privacy_unit": unit.describe(),
        **enforcement,
        "rho": str(loss.rho),
        **_pure(loss),
        "mu": loss.mu,
        "epsilon": epsilon,
    }


def _pure(loss: Loss) -> dict[str, str]:
    """Return ε if the loss is pure; empty otherwise."""
    return {} if loss.epsilon is None else {"pure_epsilon": str(loss.epsilon)}


def _describe_finite(s: FiniteSummary) -> dict[str, Any]:
    return {
        "name": s.name,
        "query": s.question,
        "mechanism": s.family,
        "results": s.results,
        "pure_epsilon": s.epsilon,
        "hit_rate": s.hit_rate,
        "mae": s.mae,
        "rmse": s.rmse,
        "moe": s.moe,
        "confidence": s.confidence,
        "leakage_bits": s.leakage,
        **({} if s.rank_moe is None else {"rank_moe": s.rank_moe}),
    }


def _question_universes(publication: Publication) -> dict[str, dict[str, Any]]:
    """Return the values that questions do not count, by name; for several counts a list for each."""
    universes: dict[str, dict[str, Any]] = {}
    for query in publication.questions:
        lists = [{x.name: x.items for x in values} for values in uncounted_by_question(query, publication.domain)]
        if any(lists):
            universes[query.name] = {"not_counted": lists if query.question is QuestionKind.COUNTS else lists[0]}
    return universes


def _by_part(plan: Plan, each: list[Any], key: str) -> dict[str, Any]:
    """Return a statement about all tables if they are in one part, else one for each part; empty without tables."""
    if not each:
        return {}
    return {key: each[0]} if len(plan.groups) == 1 else {f"{key}s" if key == "mechanism" else key: each}


_COLUMNS: dict[type[View], str] = {
    AtMost: "counts records with at most this value",
    Ranges: Ranges.word,
    Recode: Recode.word,
    Change: "how many more records than with the value {n} before it, which may be negative",
    Average: "records, on average over this value and those before it, {n} in all",
    ToDate: "counts records from the beginning of its season, of {n} values, up to this one",
    NonMissing: "counts records with a value of it, and none in the cells for missing ones",
    Sum: "the sum of it over the records, in its own units",
    Mean: "in the file of counts: how many records at each end of its range make the same number of records, and mean",
}
"""The meaning of the numbers of a column, for each view that a table can have."""


_MEAN = {
    "value": "the mean of {a} over the records with a value of it",
    "low": "the lower end of the interval of the mean",
    "high": "the upper end of the interval of the mean",
}
"""The meaning of the columns of a table of means."""


def _explain_columns(table: Table) -> dict[str, str]:
    views = dict(table.views)
    explanations = {a: _COLUMNS[type(views[a])] for a in table.attributes if a in views}
    ends = {} if table.averaged is None else {x: text.replace("{a}", table.averaged[0]) for x, text in _MEAN.items()}
    return {a: explanations[a].replace("{n}", str(views[a].steps)) for a in explanations} | ends
