"""The content of release.json: ids of messages, values and numbers, without sentences."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Self, cast, final

from fitnoise.errors import ReleaseError
from fitnoise.kernel.checks import describe_value
from fitnoise.kernel.conditions import Condition
from fitnoise.kernel.designs.questions import QuestionKind
from fitnoise.kernel.losses import Loss, rounded_up
from fitnoise.kernel.units import Account, Neighbours, PrivacyUnit
from fitnoise.mechanisms.finite.documents import stored_family
from fitnoise.mechanisms.summaries import FiniteSummary, TableSummary
from fitnoise.messages import Message, Value, ValueKind, document, map_messages
from fitnoise.planning import protection
from fitnoise.planning.plan import Plan
from fitnoise.request.coverage import uncounted, uncounted_by_question
from fitnoise.request.curves import LossSummary
from fitnoise.request.documents import Spec
from fitnoise.request.domain import Domain
from fitnoise.request.known_totals import KnownTotals, TotalsFile
from fitnoise.request.publication import PROMISED, Publication
from fitnoise.request.workloads import Family, Table

FORMAT = 9
"""The version of the release directory."""


ROW_WISE = "row-wise"
"""The word for a view whose definition shows that one record changes at most one of its rows."""


@final
@dataclass(frozen=True)
class EntryReference:
    """The entry of a ledger that charged a release.

    sequence: The number of the entry in the ledger, from 1.
    digest: Its SHA-256, in hexadecimal digits, over all its content and the entries before it.
    unprotected: Earlier entries of the account whose releases publish numbers without protection: for each its number
        and the attributes of these numbers. The number of all records has no attributes.
    view: The word for a view: "promised" by the publisher, or "row-wise" by its definition; None for other data.

    Raises:
        ReleaseError: The values are not the number and digest of an entry.
    """

    sequence: int
    digest: str
    unprotected: tuple[tuple[int, tuple[str, ...]], ...] = ()
    view: str | None = None

    def __post_init__(self) -> None:
        # `isinstance` would accept `true` of JSON, which is an int in Python
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
        numbers = [[sequence, list(names)] for sequence, names in self.unprotected]
        return {
            "sequence": self.sequence,
            "digest": self.digest,
            **({"unprotected": numbers} if numbers else {}),
            **({} if self.view is None else {"view": self.view}),
        }

    def messages(self) -> tuple[Message, ...]:
        """Return the statements on a row-wise view, and on unprotected numbers that the account published before."""
        return (*self.view_messages(), *self.unprotected_messages())

    def view_messages(self) -> tuple[Message, ...]:
        """Return the statement on a row-wise view; empty for other data, since the plan states a promise."""
        return (Message("report.view.row_wise"),) if self.view == ROW_WISE else ()

    def unprotected_messages(self) -> tuple[Message, ...]:
        """Return the statements on unprotected numbers that the account published before."""
        return tuple(unprotected_message(n, names) for n, names in self.unprotected)

    @classmethod
    def parse(cls, stated: Any) -> Self | None:
        """Return the entry that a release.json names, or None if it names none.

        Args:
            stated: The parsed content of release.json.

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
        return cls.from_document(stated["ledger"]) if "ledger" in stated else None

    @classmethod
    def from_document(cls, entry: Any) -> Self:
        """Return the entry of the form of :meth:`document`.

        Args:
            entry: The parsed object.

        Raises:
            ReleaseError: The object has another form.
        """
        stated = entry if isinstance(entry, dict) else {}
        numbers, view = stated.get("unprotected", []), stated.get("view")
        # without such numbers or a view the key is absent, so that each entry has one form
        further = [*(["unprotected"] if numbers else []), *(["view"] if view is not None else [])]
        is_known = (view is None or str(view) in {PROMISED, ROW_WISE}) and _are_unprotected(numbers)
        if list(stated) != ["sequence", "digest", *further] or not is_known:
            raise ReleaseError(
                "entry-not-named",
                "release.json does not name the ledger's entry that charged the release.",
                "It needs `ledger` with `sequence` and `digest`, and may have `unprotected` and `view`.",
                "Bring the file back as it was written.",
                "Nothing was read.",
                place="ledger",
            )
        return cls(entry["sequence"], entry["digest"], tuple((n, tuple(names)) for n, names in numbers), view)


def unprotected_message(entry: int, names: Sequence[str]) -> Message:
    """Return the statement on the numbers that a release published without protection.

    Args:
        entry: The number of the release's entry in the ledger.
        names: The attributes of the numbers; empty for the number of all records.
    """
    values = (Value("entry", entry, ValueKind.COUNT), Value("attributes", names))
    return Message("report.unprotected.entry", values) if names else Message("report.unprotected.total", values[:1])


def _are_unprotected(numbers: object) -> bool:
    """Return True for a list of pairs: the number of an entry, and the names of attributes."""
    return isinstance(numbers, list) and all(
        isinstance(x, list)
        and [*map(type, x)] == [int, list]
        and x[0] > 0
        and all(isinstance(a, str) and a.isprintable() for a in x[1])
        for x in numbers
    )


MAX_FILE_CHARACTERS = 255
"""The largest number of characters of the name of a file of public totals."""

MAX_REASON_CHARACTERS = 500
"""The largest number of characters of the reason of a revision."""


def is_reason(text: object) -> bool:
    """Return True if a text can be the reason of a revision: one printable line, not empty and not too long."""
    return isinstance(text, str) and text.isprintable() and 0 < len(text.strip()) == len(text) <= MAX_REASON_CHARACTERS


@final
@dataclass(frozen=True)
class Superseded:
    """An earlier release that a later one supersedes.

    entry: The ledger's entry that charged the earlier release.
    answers: The SHA-256 by which the ledger names the noisy answers of the earlier release.
    reason: The publisher's reason, as one line.

    Raises:
        ReleaseError: The answers are no SHA-256, or the reason has another form.
    """

    entry: EntryReference
    answers: str
    reason: str

    def __post_init__(self) -> None:
        is_digest = isinstance(self.answers, str) and re.fullmatch("[0-9a-f]{64}", self.answers)
        if not is_digest or not is_reason(self.reason):
            raise _wrong_chain()

    def document(self) -> dict[str, Any]:
        """Return the earlier release as release.json has it."""
        return {"ledger": self.entry.document(), "answers": self.answers, "reason": self.reason}

    def message(self) -> Message:
        """Return the entry of the earlier release, with the reason."""
        return Message("report.supersedes.release", (Value("entry", self.entry.sequence), Value("reason", self.reason)))


def is_file_name(name: object) -> bool:
    """Return True if a value is a name of a file that release.json can state.

    Args:
        name: The value.
    """
    return isinstance(name, str) and name.isprintable() and 0 < len(name) <= MAX_FILE_CHARACTERS


@final
@dataclass(frozen=True)
class TotalsReference:
    """The file of public totals of a release.

    file: The name of the file of the publisher.
    sha256: Its SHA-256, in hexadecimal digits.

    Raises:
        ReleaseError: The name is no name of a file, or the SHA-256 has another form.
    """

    file: str
    sha256: str

    def __post_init__(self) -> None:
        if (
            not is_file_name(self.file)
            or not isinstance(self.sha256, str)
            or not re.fullmatch("[0-9a-f]{64}", self.sha256)
        ):
            raise _wrong_totals()

    def document(self, stated: KnownTotals) -> dict[str, Any]:
        """Return the file as release.json has it.

        Args:
            stated: The public totals of the plan.
        """
        confirmed = "report.public.confirmed_here" if stated.is_counted_here else "report.public.confirmed"
        return {
            "file": self.file,
            "sha256": self.sha256,
            "confirmed": Message(confirmed, (Value("file", self.file),)),
        }

    @classmethod
    def from_file(cls, totals: TotalsFile | None) -> Self | None:
        """Return the reference to a file, or None without one.

        Args:
            totals: The file.
        """
        return None if totals is None else cls(totals.name, totals.sha256)

    @classmethod
    def parse(cls, stated: Any) -> Self | None:
        """Return the file that a release.json names, or None if it names none.

        Args:
            stated: The parsed content of release.json, which :meth:`EntryReference.parse` accepts.

        Raises:
            ReleaseError: The file has another form.
        """
        if "public_totals" not in stated:
            return None
        entry = stated["public_totals"]
        if not isinstance(entry, dict) or list(entry) != ["file", "sha256", "confirmed"]:
            raise _wrong_totals()
        return cls(entry["file"], entry["sha256"])


def _wrong_totals() -> ReleaseError:
    """Return the error for another form of the file of public totals in release.json."""
    return ReleaseError(
        "wrong-public-totals",
        "release.json does not name the file of public totals as it should.",
        "It needs `public_totals` with `file`, `sha256` and `confirmed`.",
        "Bring the file back as it was written.",
        "Nothing was read.",
        place="public_totals",
    )


def parse_superseded(stated: Any) -> tuple[Superseded, ...]:
    """Return the chain of earlier releases that a release.json supersedes, the newest first; empty without any.

    Args:
        stated: The parsed content of release.json, which :meth:`EntryReference.parse` accepts.

    Raises:
        ReleaseError: The chain has another form. Or an entry does not come before the one that supersedes it, so the
            chain could be a circle.
    """
    if "supersedes" not in stated:
        return ()
    chain, later = [], EntryReference.parse(stated)
    links = stated["supersedes"]
    if later is None or not isinstance(links, list) or not links:
        raise _wrong_chain()
    for link in links:
        if not isinstance(link, dict) or list(link) != ["ledger", "answers", "reason"]:
            raise _wrong_chain()
        earlier = EntryReference.from_document(link["ledger"])
        if earlier.sequence >= later.sequence:
            raise _wrong_chain()
        chain.append(Superseded(earlier, link["answers"], link["reason"]))
        later = earlier
    return tuple(chain)


def _wrong_chain() -> ReleaseError:
    """Return the error for another form of the releases that a release.json supersedes."""
    return ReleaseError(
        "wrong-superseded",
        "release.json does not state the releases that it supersedes as it should.",
        "Each needs an entry of the ledger before the one that supersedes it, the SHA-256 of its answers and a reason.",
        "Bring the file back as it was written.",
        "Nothing was read.",
        place="supersedes",
    )


def describe(
    plan: Plan,
    table_names: Sequence[str],
    entry: EntryReference | None = None,
    supersedes: Sequence[Superseded] = (),
    totals: TotalsReference | None = None,
) -> dict[str, Any]:
    """Return the content of release.json.

    Args:
        plan: The plan; of a series, that of its periods so far.
        table_names: The names of the tables that have files.
        entry: The ledger's entry for the charge; None leaves it out.
        supersedes: The earlier releases that this one supersedes, the newest first.
        totals: The file of public totals; None if the plan has none.

    **Guarantees**
        * The document holds no sentences: each statement is the id of a message with its values.
    """
    publication, domain = plan.publication, plan.publication.workload.domain
    public = publication.public
    universes = _question_universes(publication)
    has_all_files = len(table_names) == sum(len(p.workload.tables) for p in publication.groups)
    content = {
        "fitnoise_release": FORMAT,
        "title": publication.title,
        "plan": plan.hash,
        **_by_part(plan, [p.descriptions.describe_noise() for p in plan.groups], "mechanism"),
        "charge": charge(plan),
        **({} if entry is None else {"ledger": entry.document()}),
        **({"supersedes": [x.document() for x in supersedes]} if supersedes else {}),
        **({} if totals is None or public is None else {"public_totals": totals.document(public)}),
        "tables": [
            {
                "name": s.name,
                "tables": s.tables,
                "statistic": statistic(_template(part), domain),
                "columns": _explain_columns(_template(part)),
                "numbers": s.numbers,
                "target": s.target,
                "confidence": s.confidence,
                "achieved_moe": s.achieved_moe,
                **universe(part, domain),
                "universe": universe_messages(plan, part),
            }
            for s, part in summarised_parts(plan)
        ],
        **condition_messages(plan),
        **left_out(plan),
        **shares(plan),
        **({} if publication.unit.parts == 1 else {"answers_per_record": publication.unit.parts}),
        **(
            {"questions": [_describe_finite(q.summary) | universes.get(q.query.name, {}) for q in plan.questions]}
            if plan.questions
            else {}
        ),
        "written": "all" if has_all_files else list(table_names),
        **_by_part(plan, [p.descriptions.describe_bias() for p in plan.groups], "values"),
        **_so_far(plan),
        # of a series the specification of all periods: the plan of the first ones has their tables only
        "spec": Spec.from_publication((plan.full_series or plan).publication).document(),
        "versions": {name: metadata.version(name) for name in ("fitnoise", "numpy", "duckdb")},
    }
    return cast("dict[str, Any]", map_messages(content, document))


def charge(plan: Plan) -> dict[str, Any]:
    """Return the charge of a release, with messages for its statements."""
    publication = plan.publication
    unit, delta, rho = publication.unit, publication.delta, plan.loss.rho
    return {
        "rho": str(rho),
        "rho_decimal": rounded_up(rho),
        **_pure(plan.loss),
        "mu": plan.loss_summary.mu,
        "mu_squared": str(plan.loss.mu_squared),
        "delta": delta,
        "epsilon": plan.epsilon(),
        "source": publication.source.name,
        **({} if publication.source.account is None else {"account": publication.source.account}),
        "privacy_unit": unit_message(unit),
        **_describe_enforcement(plan, unit),
        **({"other_units": others} if (others := [_other(plan, *x) for x in plan.unit_summaries[1:]]) else {}),
        **({"warnings": warned} if (warned := [*protection.warnings(plan)]) else {}),
    }


def unit_message(unit: PrivacyUnit) -> Message:
    """Return the protected unit and its neighbour relation; :func:`bound_on_records` has the bound on its records."""
    replaced = unit.neighbours is Neighbours.REPLACE_ONE
    if unit.within:
        return Message("report.unit.within", (Value("unit", unit.name), Value("attributes", unit.within)))
    text = "report.unit.replace_one" if replaced else "report.unit.add_or_remove_one"
    return Message(text, (Value("unit", unit.name),))


def account_message(account: Account) -> Message:
    """Return the unit of an account; in English :attr:`Account.sentence`, except for rules on several attributes."""
    unit, pattern = account.unit, account.unit.pattern
    relation = (
        "report.ledger.replace_one" if unit.neighbours is Neighbours.REPLACE_ONE else "report.ledger.add_or_remove"
    )
    relation = "report.ledger.replace_within" if unit.within else relation
    limit = "report.ledger.at_most_one" if unit.max_records == 1 else "report.ledger.at_most"
    rules = [
        Message(limit, (Value("n", unit.max_records),)),
        *(Message("report.ledger.once_per", (_quoted(pattern.once_per),)) for _ in pattern.once_per[:1]),
        *(Message("report.ledger.for_each", (Value("n", n), _quoted([a]))) for a, n in pattern.per_value),
        *(Message("report.ledger.separated", (Value("n", n), _quoted([a]))) for a, n in pattern.separation),
        *(Message("report.ledger.equal_in", (_quoted(pattern.fixed),)) for _ in pattern.fixed[:1]),
    ]
    values = (
        Value("unit", unit.name),
        Value("id", unit.id, ValueKind.CODE),
        Value("rules", rules, ValueKind.MESSAGE),
        Value("relation", Message(relation, (_quoted(unit.within),)), ValueKind.MESSAGE),
    )
    text_id = "report.ledger.unit_record" if unit.is_record else "report.ledger.unit_bound"
    message = Message(text_id if unit.id is None else "report.ledger.unit_by_id", values)
    if account.digits is None:
        return message
    parts = (Value("unit", message, ValueKind.MESSAGE), Value("digits", account.digits))
    return Message("report.ledger.unit_digits", parts)


def _quoted(names: Sequence[str]) -> Value:
    return Value("attributes", [f'"{name}"' for name in names])


def unit_and_bound(unit: PrivacyUnit) -> tuple[Message, ...]:
    """Return the protected unit with its neighbour relation, then the bound on its records, unless it is a record."""
    # the first statement is the bound, the others say how it is kept
    return (unit_message(unit), *bound_on_records(unit, Message("report.records.unknown_left_out"))[:1])


def summarised_parts(plan: Plan) -> Iterator[tuple[TableSummary, Table | Family]]:
    """Yield each summary of the plan's tables, with the table or the pattern of tables that it summarises."""
    return zip(plan.summaries, (x for p in plan.groups for x in p.publication.workload.tables.parts), strict=True)


def _template(part: Table | Family) -> Table:
    """Return a table, or the template of the tables of a family."""
    # the tables of a family differ only in their attributes, so the template has the views that they share
    return part if isinstance(part, Table) else part.template


def _so_far(plan: Plan) -> dict[str, Any]:
    """Return a series' attribute, its last drawn period, the number of drawn periods, and that of all periods.

    They have keys of their own in an entry `series`. The result is empty if the plan is not of the first periods of a
    series.
    """
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
    """Return the values that a table does not count, and the rules that code other values, each by attribute.

    They have the keys `not_counted` and `coded`; an empty entry is left out.
    """
    not_counted = {missing.name: missing.items for missing in uncounted(_template(part), domain)}
    values: dict[str, dict[str, Any]] = {"not_counted": not_counted, "coded": part.coded(domain)}
    return {key: entries for key, entries in values.items() if entries}


def counted_as(table: Table, domain: Domain) -> tuple[dict[str, tuple[Message, ...]], bool]:
    """Return how a table's summed or averaged values are read, by attribute, and True if a range or ceiling cuts them.

    Args:
        table: The table, of counts or of sums or of means.
        domain: The domain of the table.
    """
    # only amounts that are added up or averaged are read as numbers; all other attributes are shown as labels
    names = table.summed or (() if table.averaged is None else table.averaged[:1])
    ceilings = any(view.ceiling is not None for _, view in table.views)
    coded = {a: messages for a, messages in table.coded(domain).items() if a in names}
    return coded, ceilings or any(domain[a].is_capped for a in names)


def statistic(table: Table, domain: Domain) -> tuple[Message, ...]:
    """Return the statistic that the margins and intervals of a table are for.

    Args:
        table: The table.
        domain: The domain of the table.
    """
    changes = any(view.signed for _, view in table.views)
    coded, capped = counted_as(table, domain)
    if table.averaged is not None:
        subject = Message("report.statistic.mean", (Value("attribute", table.averaged[0]),))
    elif table.terms:
        text = "report.statistic.change_of_sum" if changes else "report.statistic.sum"
        subject = Message(text, (Value("factors", table.terms, ValueKind.PRODUCT),))
    else:
        subject = Message("report.statistic.change_of_records" if changes else "report.statistic.records")
    values = (Message("report.statistic.coded", _coding_values(a, rules)) for a, rules in coded.items())
    return (subject, *values, *([Message("report.statistic.cut")] if capped else []))


def _coding_values(attribute: str, rules: Sequence[Message]) -> tuple[Value, Value]:
    return Value("attribute", attribute), Value("rules", rules, ValueKind.SENTENCES)


def universe_messages(plan: Plan, part: Table | Family) -> tuple[Message, ...]:
    """Return the universe of a table: its records and units, its left-out records, its coding of values."""
    unit, source = plan.publication.unit, plan.publication.source
    values = universe(part, plan.publication.workload.domain)
    dropped = left_out(plan).get("left_out")
    rules = [*shares(plan).values(), *condition_messages(plan).get("counted", ())]
    if not rules:
        # a bound may leave out records beyond the largest number of a unit, or without an id
        partial = "not_counted" in values or dropped or unit.bound is not None
        text = "report.counted.some_records" if partial else "report.counted.all_records"
        rules = [Message(text, (Value("source", source.name),))]
    if unit.bound is not None and unit.bound.max_records is not None:
        rules += [_records_of_unit(unit), *describe_pattern(unit)]
    rules += merged_records(unit)
    left_out_names = Value("attributes", dropped)
    return (
        *(Message("report.universe.counted", (Value("rule", rule, ValueKind.MESSAGE),)) for rule in rules),
        *([Message("report.universe.left_out", (left_out_names,))] if dropped else []),
        *(
            Message("report.universe.not_counted", (Value("attribute", a), Value("cells", cells)))
            for a, cells in values.get("not_counted", {}).items()
        ),
        *(Message("report.universe.coded", _coding_values(a, x)) for a, x in values.get("coded", {}).items()),
        *(Message("report.universe.public", (Value("rule", x, ValueKind.MESSAGE),)) for x in public_totals(plan)),
    )


def public_totals(plan: Plan) -> tuple[Message, ...]:
    """Return the statement on the public totals that tables keep; empty without public totals.

    Args:
        plan: The plan.

    **Guarantees**
        * The message states that intervals are right only if the totals are.
        * It states that totals counted from these data are not protected.
    """
    public = plan.publication.public
    if public is None:
        return ()
    values = (Value("attributes", public.attributes), Value("source", public.source))
    if public.is_counted_here:
        text = "report.public.counted" if public.attributes else "report.public.counted_total"
        return (Message(text, (*values, Value("unit", plan.publication.unit.name))),)
    return (Message("report.public.totals" if public.attributes else "report.public.total", values),)


def condition_messages(plan: Plan) -> dict[str, tuple[Message, ...]]:
    """Return the conditions that counted records meet, by the key `counted`; empty without conditions."""
    conditions = plan.publication.source.conditions
    return {"counted": tuple(map(condition_message, conditions))} if conditions else {}


def condition_message(condition: Condition) -> Message:
    """Return a condition on the records: bounds in full, or the first MAX_CODES values and the number of the others."""
    column = Value("column", condition.column, ValueKind.CODE)
    if condition.bounds:
        bounds = (
            Value(name, x.isoformat() if isinstance(x, datetime.date) else x) for name, x in condition.bounds.items()
        )
        return Message(_BOUNDS[tuple(condition.bounds)], (column, *bounds))
    hidden = len(condition.codes) - MAX_CODES
    if len(condition.codes) == 1:
        return Message("report.condition.is_value", (column, Value("value", condition.codes[0], ValueKind.CODE)))
    values = Value("values", condition.codes[:MAX_CODES], ValueKind.CODE)
    if hidden > 0:
        return Message("report.condition.first_values", (column, values, Value("count", hidden, ValueKind.COUNT)))
    return Message("report.condition.values", (column, values))


def left_out(plan: Plan) -> dict[str, list[str]]:
    """Return the attributes whose values leave records out of all tables, by the key `left_out`; empty without any.

    The attributes of a rule that leaves out records are one name: "age × marital".
    """
    domain, source = plan.publication.workload.domain, plan.publication.source
    rules = domain.axes.rules.values() if source.drops_by_rule else ()
    names = list(dict.fromkeys([*domain.drops(source.drops), *(rule.name for rule in rules)]))
    return {"left_out": names} if names else {}


def shares(plan: Plan) -> dict[str, Message]:
    """Return the statistic that numbers count if it is not records, by the key `shares`; empty otherwise."""
    unit = plan.publication.unit
    return {} if unit.parts == 1 else {"shares": Message("report.counted.shares", (Value("unit", unit.name),))}


def describe_enforcement(plan: Plan, unit: PrivacyUnit) -> tuple[Message, ...]:
    """Return how the bound on the records of a unit is kept, and what is promised about a view.

    For a series, the assumption between its draws follows. Empty if the unit is a record, nothing is promised, and the
    plan is released at once.

    **Guarantees**
        * A bound that is not enforced is called an assumption that is not checked.
    """
    draws = () if plan.publication.series is None else (between_draws(unit),)
    # a question can ask for the number of units with left-out records: its answer then replaces "unknown"
    questions = [q.name for q in plan.publication.questions if q.question is QuestionKind.LEFT_OUT]
    left_out = Message("report.records.unknown_left_out")
    if questions:
        left_out = Message("report.records.left_out", (Value("question", questions[0]),))
    promised = () if plan.publication.source.view is None else (Message("report.view.promised"),)
    return (*bound_on_records(unit, left_out), *promised, *draws)


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
    bound = _records_of_unit(unit)
    pattern = tuple(describe_pattern(unit))
    if unit.id is None:
        return (bound, *pattern, Message("report.records.assumed"))
    merged = merged_records(unit)
    chosen = Message("report.records.chosen", (name,))
    return (bound, *pattern, Message("report.records.enforced", (column,)), *merged, chosen, left_out)


def _records_of_unit(unit: PrivacyUnit) -> Message:
    """Return the largest number of counted records of a unit."""
    # one record has a text of its own, since languages form singular and plural differently
    values = (Value("unit", unit.name), Value("records", unit.max_records, ValueKind.COUNT))
    return Message("report.records.at_most_one" if unit.max_records == 1 else "report.records.at_most", values)


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

    Each period is drawn from frozen counts of earlier periods (:mod:`fitnoise.kernel.series`). All draws together cost
    as much as one release of the records that were counted in them. A record that moves to another period between two
    draws is counted twice. A record that moves to another cell of an attribute breaks the pattern of its unit.

    **Guarantees**
        * The message states that the assumption is not checked.
    """
    # both hazards exist for every unit, also for a single record; with an id each period enforces the bound on its own
    # records, and earlier periods do not change that: what is then assumed is that an id stands for one unit in all
    return Message("report.records.draws_by_cell" if unit.id is None else "report.records.draws_by_id")


def _describe_enforcement(plan: Plan, unit: PrivacyUnit) -> dict[str, tuple[Message, ...]]:
    """Return the messages of :func:`describe_enforcement` as an entry of the charge; empty without a message."""
    messages = describe_enforcement(plan, unit)
    return {"records": messages} if messages else {}


def _other(plan: Plan, unit: PrivacyUnit, summary: LossSummary) -> dict[str, Any]:
    """Return the cost of the release for another unit."""
    return {
        "privacy_unit": unit_message(unit),
        **_describe_enforcement(plan, unit),
        "rho": str(summary.loss.rho),
        **_pure(summary.loss),
        "mu": summary.mu,
        "epsilon": summary.epsilon,
    }


def _pure(loss: Loss) -> dict[str, str]:
    """Return ε if the loss is pure; empty otherwise."""
    return {} if loss.epsilon is None else {"pure_epsilon": str(loss.epsilon)}


def _describe_finite(s: FiniteSummary) -> dict[str, Any]:
    return {
        "name": s.name,
        "query": s.question,
        "mechanism": stored_family(s.family),
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
    # several statements: the list of "mechanism" has the key "mechanisms"; "values" is a plural already
    return {key: each[0]} if len(plan.groups) == 1 else {f"{key}s" if key == "mechanism" else key: each}


MAX_CODES = 8
"""The largest number of values of a condition that its message lists; the specification has all of them."""


_BOUNDS = {
    ("at_least",): "report.condition.at_least",
    ("above",): "report.condition.above",
    ("at_most",): "report.condition.at_most",
    ("below",): "report.condition.below",
    ("at_least", "at_most"): "report.condition.at_least_at_most",
    ("at_least", "below"): "report.condition.at_least_below",
    ("above", "at_most"): "report.condition.above_at_most",
    ("above", "below"): "report.condition.above_below",
}
"""The id of a condition for each choice of its bounds."""


_MEAN = {"value": "report.column.mean_value", "low": "report.column.mean_low", "high": "report.column.mean_high"}
"""The ids of the meaning of the columns of a table of means."""


def _explain_columns(table: Table) -> dict[str, Message]:
    """Return the meaning of the columns of a table whose numbers are not counts of single values."""
    views = dict(table.views)
    columns = {a: text for a in table.attributes if a in views and (text := views[a].column()) is not None}
    if table.averaged is None:
        return columns
    attribute = Value("attribute", table.averaged[0])
    ends = {"value": (attribute,), "low": (), "high": ()}
    return columns | {name: Message(text, ends[name]) for name, text in _MEAN.items()}
