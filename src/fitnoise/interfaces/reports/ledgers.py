"""The report of a ledger: the spent cost of every account, and the entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

from fitnoise.kernel import privacy
from fitnoise.kernel.ledger import LedgerEntry, Quote
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.units import Account
from fitnoise.messages import Content, Message, Value, ValueKind
from fitnoise.planning.accounting import FIXED_IN_ADVANCE
from fitnoise.planning.protection import ALMOST_CERTAIN_GUESS
from fitnoise.reading.description import account_message, between_draws, unprotected_message
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section
from fitnoise.request import curves


def ledger_report(
    entries: Sequence[LedgerEntry],
    balances: Sequence[Quote],
    head: tuple[int, str],
    leftovers: Sequence[str] = (),
    shares: Sequence[Quote] = (),
) -> Report:
    """Return the report of a ledger: its accounts, its entries, and its head.

    Args:
        entries: The entries to list, the first one first.
        balances: One quote for each account: its spent cost and the rest of its cap.
        head: The sequence number and the digest of the last entry (`Ledger.head`).
        leftovers: The names of files that killed processes left next to the ledger.
        shares: One quote for each share of an account, in the order of the accounts.
    """
    pure = any(e.epsilon is not None for e in entries)
    numbers = {e.digest: e.sequence for e in entries}
    columns = (
        ReportColumn("sequence", Message("report.heading.entry"), ValueKind.COUNT),
        ReportColumn("time", Message("report.heading.time")),
        ReportColumn("kind"),
        ReportColumn("said", Message("report.heading.kind"), ValueKind.MESSAGE, spoken=True),
        ReportColumn("source", Message("report.heading.account")),
        ReportColumn("privacy_unit"),
        ReportColumn("unit", Message("report.heading.unit"), ValueKind.MESSAGE, spoken=True),
        ReportColumn("rho"),
        ReportColumn("cost", Message("report.heading.rho"), ValueKind.COST, spoken=True),
        ReportColumn("rho_exact"),
        ReportColumn("epsilon"),
        ReportColumn("paid", Message("report.heading.epsilon") if pure else None, ValueKind.COST, spoken=True),
        ReportColumn("plan"),
        ReportColumn("named", Message("report.heading.plan"), ValueKind.MESSAGE, spoken=True),
        ReportColumn("composed_with"),
        ReportColumn("supersedes"),
        ReportColumn("share"),
        ReportColumn("view"),
        ReportColumn("proposal"),
        ReportColumn("proposed_by"),
        ReportColumn("approved_by"),
        ReportColumn("approval"),
        ReportColumn("digest"),
    )
    rest = (Value("leftovers", leftovers),)
    remains = (Message("report.ledger.leftovers", rest),) if leftovers else ()
    last = (Value("sequence", head[0], ValueKind.COUNT), Value("digest", head[1]))
    accounts = [
        balance_section(None, x, ("balances", i) if x is b else ("shares", shares.index(x)))
        for i, b in enumerate(balances)
        for x in (b, *(s for s in shares if s.account == b.account))
    ]
    return Report(
        "",
        (
            # A document has this key for an empty ledger, too.
            *(accounts or [Section(values=(Value("balances", []),))]),
            *_renewals(entries, balances),
            *_exceeding_shares(balances, shares),
            *_approvals(entries),
            Section(tables=(ReportTable.from_rows("entries", columns, (_row(e, numbers) for e in entries)),)),
            *_series(entries),
            *_unprotected(entries),
            Section(values=last, path=("head",)),
            Section(Message("report.section.unfinished") if leftovers else None, remains, rest),
        ),
    )


_EXCEEDING_TEXTS = {
    "rho": "report.balance.shares_rho",
    "epsilon": "report.balance.shares_epsilon",
    "mu_squared": "report.balance.shares_mu_squared",
}
"""The ids of the messages about shares that exceed a cap, by its measure."""

_RAISED_TEXTS = {
    "rho": "report.balance.raised_rho",
    "epsilon": "report.balance.raised_epsilon",
    "mu_squared": "report.balance.raised_mu_squared",
}
"""The ids of the messages about a cap that was raised, by its measure."""


def shares_of(entries: Sequence[LedgerEntry], account: Account) -> list[str]:
    """Return the names of the shares with a cap in an account, in order of appearance."""
    caps = [e.detail.get("share") for e in entries if e.kind == "cap" and e.account == account]
    return [name for name in dict.fromkeys(caps) if name is not None]


def _limit(balance: Quote) -> tuple[str, Fraction] | None:
    """Return the measure and the size of the cap in force; None without a cap."""
    sizes = {"epsilon": balance.epsilon_cap, "mu_squared": balance.mu_squared_cap, "rho": balance.cap}
    return next(((kind, size) for kind, size in sizes.items() if size is not None), None)


def _exceeding_shares(balances: Sequence[Quote], shares: Sequence[Quote]) -> Iterator[Section]:
    """Yield the accounts whose shares may spend more together than the cap of the account."""
    for i, balance in enumerate(balances):
        cap, parts = _limit(balance), [_limit(s) for s in shares if s.account == balance.account]
        sizes = [size for kind, size in filter(None, parts) if cap and kind == cap[0]]
        if cap and sum(sizes) > cap[1]:
            values = (
                Value("source", balance.account.source),
                Value("sum", float(sum(sizes)), ValueKind.COST),
                Value("limit", float(cap[1]), ValueKind.COST),
            )
            yield Section(None, (Message(_EXCEEDING_TEXTS[cap[0]], values),), values, path=("exceeding_shares", i))


def _approvals(entries: Sequence[LedgerEntry]) -> Iterator[Section]:
    """Yield the sources whose charges need an approval now."""
    stated = {e.account.source: e.detail["approval"] for e in entries if e.kind == "cap" and "approval" in e.detail}
    for i, source in enumerate(source for source, is_required in stated.items() if is_required):
        values = (Value("source", source),)
        yield Section(None, (Message("report.balance.approval", values),), values, path=("approvals", i))


def _renewals(entries: Sequence[LedgerEntry], balances: Sequence[Quote]) -> Iterator[Section]:
    """Yield the accounts whose cap was raised: earlier caps do not bound their total, and nor does a yearly cap."""
    for i, balance in enumerate(balances):
        limits = [
            e.limit for e in entries if e.kind == "cap" and e.account == balance.account and "share" not in e.detail
        ]
        sizes = [size for kind, size in limits if kind == limits[-1][0]]
        rises = [after - before for before, after in pairwise(sizes) if after > before]
        if rises:
            values = (
                Value("source", balance.account.source),
                Value("first", float(sizes[0]), ValueKind.COST),
                Value("last", float(sizes[-1]), ValueKind.COST),
                Value("rise", float(rises[-1]), ValueKind.COST),
                Value("further", 4, ValueKind.COUNT),
                Value("total", float(sizes[-1] + 4 * rises[-1]), ValueKind.COST),
            )
            yield Section(None, (Message(_RAISED_TEXTS[limits[-1][0]], values),), values, path=("renewals", i))


def _series(entries: Sequence[LedgerEntry]) -> Iterator[Section]:
    """Yield the assumption between the draws of the charged series, for every unit."""
    # A series is charged with the draw of its first period.
    begun = [e for e in entries if e.kind == "charge" and e.drawn_period is not None and e.drawn_period.period == 1]
    assumptions = dict.fromkeys(between_draws(e.account.unit) for e in begun)
    for i, assumption in enumerate(assumptions):
        sequences = [e.sequence for e in begun if between_draws(e.account.unit) == assumption]
        values = (Value("entries", sequences), Value("assumption", assumption))
        messages = (
            Message("report.series.entry" if len(sequences) == 1 else "report.series.entries", values),
            assumption,
        )
        yield Section(None if i else Message("report.section.series"), messages, values, path=("series", i))


def _unprotected(entries: Sequence[LedgerEntry]) -> Iterator[Section]:
    """Yield the charges whose releases publish numbers by some attributes without protection."""
    charges = [e for e in entries if e.kind == "charge" and "unprotected" in e.detail]
    for i, entry in enumerate(charges):
        values = (Value("entry", entry.sequence, ValueKind.COUNT), Value("attributes", entry.detail["unprotected"]))
        title = None if i else Message("report.section.unprotected")
        message = unprotected_message(entry.sequence, entry.detail["unprotected"])
        yield Section(title, (message,), values, path=("unprotected", i))


def balance_section(title: Message | None, balance: Quote, location: tuple[str | int, ...] = ("balance",)) -> Section:
    """Return the spent cost of an account, and the rest of its cap."""
    cap, spent, limit = balance.cap, balance.epsilon_spent, balance.epsilon_cap
    unspent = balance.remaining
    mu, mu_squared_limit = balance.mu_squared_spent, balance.mu_squared_cap
    # At least 0: a cap can be lowered below the spent cost, and nothing is then left.
    pure_left = 0.0 if spent is None or limit is None else max(float(limit - spent), 0.0)
    values = (
        Value("source", balance.account.source),
        Value("share", balance.share),
        Value("privacy_unit", balance.account.sentence),
        Value("unit", account_message(balance.account), ValueKind.MESSAGE, spoken=True),
        # None stands for a cost without a bound, as after a charge for replace-one neighbours.
        Value("spent", None if balance.spent is None else float(balance.spent), ValueKind.COST),
        Value("spent_exact", None if balance.spent is None else str(balance.spent)),
        Value("cap", None if cap is None else float(cap), ValueKind.COST),
        Value("remaining", None if unspent is None else float(unspent), ValueKind.COST),
        Value("epsilon_spent", None if spent is None else str(spent)),
        Value("epsilon_cap", None if limit is None else str(limit)),
        Value("mu_squared_spent", None if mu is None else str(mu)),
        Value("mu_squared_cap", None if mu_squared_limit is None else str(mu_squared_limit)),
        Value("mu_spent", None if mu is None else privacy.mu(mu), ValueKind.COST, spoken=True),
        Value(
            "mu_cap", None if mu_squared_limit is None else privacy.mu(mu_squared_limit), ValueKind.COST, spoken=True
        ),
        Value("pure_spent", None if spent is None else float(spent), ValueKind.COST, spoken=True),
        Value("pure_cap", None if limit is None else float(limit), ValueKind.COST, spoken=True),
        Value("pure_left", pure_left, ValueKind.COST, spoken=True),
    )
    warned, guesses = _warned(balance)
    whose = "report.balance.account" if balance.share is None else "report.balance.share"
    message_ids = (whose, _spent_text(balance), _left_text(balance))
    return Section(
        title, (*(Message(text, values) for text in message_ids), *warned), (*values, *guesses), path=location
    )


def _spent_text(balance: Quote) -> str:
    """Return the id of the message about the spent cost, in the measure of the cap."""
    if balance.mu_squared_cap is not None:
        return "report.balance.unbounded_mu" if balance.mu_squared_spent is None else "report.balance.mu"
    if balance.epsilon_cap is not None:
        return "report.balance.unbounded_epsilon" if balance.epsilon_spent is None else "report.balance.epsilon"
    if balance.epsilon_spent:
        return "report.balance.unbounded_rho_pure" if balance.spent is None else "report.balance.rho_pure"
    return "report.balance.unbounded_rho" if balance.spent is None else "report.balance.rho"


def _left_text(balance: Quote) -> str:
    """Return the id of the message about the cap and its unspent part."""
    if balance.mu_squared_cap is not None:
        return "report.balance.mu_cap"
    if balance.epsilon_cap is not None:
        return "report.balance.epsilon_cap"
    return "report.balance.no_cap" if balance.cap is None else "report.balance.rho_cap"


def _warned(balance: Quote) -> tuple[list[Message], tuple[Value, ...]]:
    """Return the warnings about the spent cost of an account and about its cap, and the best guesses that they name.

    A cap on ρ is judged by the Gaussian release that fits it, μ² = 2ρ: such a release reaches its best guess.
    """
    pure, mu_squared, cap = balance.epsilon_cap, balance.mu_squared_cap, balance.cap
    spent = curves.best_guess(balance.spent, balance.mu_squared_spent)
    # A guess at random is right with probability ½: without a cap there is nothing to warn about.
    capped = 0.5
    if cap is not None:
        capped = curves.best_guess(None, privacy.pure_mu_squared(pure) if pure is not None else mu_squared or 2 * cap)
    guesses = (Value("spent_guess", spent, ValueKind.PROBABILITY), Value("cap_guess", capped, ValueKind.PROBABILITY))
    texts = []
    if spent > ALMOST_CERTAIN_GUESS:
        texts.append("report.protected.spent")
    if capped > ALMOST_CERTAIN_GUESS:
        texts.append("report.protected.cap")
    return [Message(text, guesses) for text in texts], guesses


def more_section(quote: Quote, loss: Loss, delta: float) -> Section:
    """Return the number of releases of a plan under the cap in force, and under an equivalent cap of another kind.

    loss: The cost of one release.
    delta: The δ at which the caps promise the same ε.
    """
    title = Message("report.section.plan")
    if quote.further_releases is None:
        return Section(title, (Message("report.more.no_cap"),), (Value("more", None),), path=("plan",))
    values = [Value("more", quote.further_releases, ValueKind.COUNT)]
    messages = [
        Message("report.more.release" if quote.further_releases == 1 else "report.more.releases", tuple(values))
    ]
    other = _instead(quote, loss, delta)
    if other is not None:
        kind, (promised, size, further_count) = "rho" if quote.mu_squared_cap is not None else "mu", other
        values += [
            Value("promised", promised, ValueKind.COMPARED),
            Value("delta", delta, ValueKind.NUMBER),
            Value(f"{kind}_instead", size),
            Value("instead", size, ValueKind.COST, spoken=True),
            Value("more_instead", further_count, ValueKind.COUNT),
        ]
        equivalent = "report.more.rho_cap" if kind == "rho" else "report.more.mu_cap"
        room = "report.more.release_instead" if further_count == 1 else "report.more.releases_instead"
        messages += [Message(equivalent, tuple(values)), Message(room, tuple(values))]
    return Section(title, tuple(messages), tuple(values), path=("plan",))


def charges_sections(charges: Sequence[tuple[str, Quote, Fraction | None]], balances: Sequence[Quote]) -> list[Section]:
    """Return the charges of several plans, and the balances of their accounts after these charges.

    Args:
        charges: For each plan its name, the quote of its charge, and its ε; None for ε if the plan is not pure.
        balances: The balances after all charges that fit.
    """
    columns = (
        ReportColumn("plan", Message("report.heading.plan")),
        ReportColumn("source"),
        ReportColumn("privacy_unit"),
        ReportColumn("rho", Message("report.heading.rho"), ValueKind.COST),
        ReportColumn("rho_exact"),
        ReportColumn("epsilon"),
        ReportColumn("paid", Message("report.heading.epsilon"), ValueKind.COST, spoken=True),
        ReportColumn("fits"),
    )
    rows = [
        {
            "plan": name,
            "source": quote.account.source,
            "privacy_unit": quote.account.sentence,
            "rho": None if quote.increase is None else float(quote.increase),
            "rho_exact": None if quote.increase is None else str(quote.increase),
            "epsilon": None if epsilon is None else str(epsilon),
            "paid": "" if epsilon is None else float(epsilon),
            "fits": quote.fits,
        }
        for name, quote, epsilon in charges
    ]
    refused = (Value("plans", [name for name, quote, _ in charges if not quote.fits]),)
    unfit = [Message("report.more.unfit", refused)] if refused[0].content else []
    afterwards = Message("report.section.afterwards")
    return [
        Section(
            Message("report.section.charges"),
            (Message("report.more.planned"), *unfit),
            tables=(ReportTable.from_rows("charges", columns, rows),),
            path=("planned",),
        ),
        *(balance_section(None if i else afterwards, b, ("planned", "balances", i)) for i, b in enumerate(balances)),
    ]


def accounts_epsilon(
    balances: Sequence[Quote], epsilons: Mapping[Account, float | str], delta: float
) -> Iterator[Section]:
    """Yield ε at δ of all releases of each account. It holds for plans fixed in advance; a cap holds for any plans.

    `epsilons`: ε of every account, or the reason why it is unknown.
    """
    for i, balance in enumerate(balances):
        whom = (
            Value("source", balance.account.source),
            Value("privacy_unit", balance.account.sentence),
            Value("unit", account_message(balance.account), ValueKind.MESSAGE, spoken=True),
        )
        known_epsilon = epsilons[balance.account]
        # A text is the reason why no ε is known, and the report passes it on.
        if isinstance(known_epsilon, str):
            values = [Value("epsilon", None), Value("why", known_epsilon)]
            texts = ["report.together.unknown"]
        else:
            values = [
                Value("epsilon", known_epsilon, ValueKind.COMPARED),
                Value("delta", delta, ValueKind.NUMBER),
                Value("assumption", FIXED_IN_ADVANCE),
            ]
            capped = "report.together.uncapped" if balance.cap is None else "report.together.capped"
            texts = ["report.together.epsilon", FIXED_IN_ADVANCE.id, capped]
        everything = (*whom, *values)
        messages = tuple(Message(text, everything) for text in ("report.balance.account", *texts))
        title = None if i else Message("report.section.together")
        yield Section(title, messages, everything, path=("together", i))


def _instead(quote: Quote, loss: Loss, delta: float) -> tuple[float, float, int] | None:
    """Return the ε at δ of a cap on ρ or μ, the equivalent cap of the other kind, and its number of releases."""
    spent, mu_spent, mu_squared = quote.spent, quote.mu_squared_spent, loss.mu_squared
    if quote.epsilon_cap is not None or quote.cap is None or None in (spent, mu_spent, mu_squared):
        return None
    # Both caps promise the same ε at δ; the other one may allow more releases, because it adds another measure.
    if quote.mu_squared_cap is None:
        promised = curves.zcdp_epsilon(quote.cap, delta)
        size = curves.lattice_mu(promised, delta)
        remaining, each = Fraction(size) ** 2 - (mu_spent or 0), mu_squared
    else:
        promised = curves.lattice_epsilon(privacy.mu(quote.mu_squared_cap), delta)
        size = curves.zcdp_rho(promised, delta)
        remaining, each = Fraction(size) - (spent or 0), loss.rho
    # Fractions, and rounded down: the last release must fit under the cap exactly.
    return promised, size, max(0, int(remaining / each)) if each else 0


_ENTRY_KINDS = {
    "cap": Message("report.entry.cap"),
    "charge": Message("report.entry.charge"),
    "refusal": Message("report.entry.refusal"),
    "period": Message("report.entry.period"),
    "answers": Message("report.entry.answers"),
}
"""The words for the kinds of entries."""


def _row(entry: LedgerEntry, numbers: Mapping[str, int]) -> dict[str, Content]:
    """Return the row of an entry; `numbers`: the number of each entry by its digest."""
    superseded = numbers.get(str(entry.detail.get("supersedes")))
    plan = entry.detail.get("plan")
    plan_prefix = Value("plan", "" if plan is None else str(plan)[:12])
    others = Value("plans", [x[:12] for x in entry.composed_plans])
    plan_label = (
        Message("report.label.composed_plan", (plan_prefix, others)) if entry.composed_plans else plan_prefix.content
    )
    # A cap is stored in its own measure, ρ, ε or μ²; all other entries have ρ.
    kind, largest = entry.limit if entry.kind == "cap" else ("rho", entry.rho)
    if entry.kind == "charge" and superseded is not None:
        kind_message = Message("report.entry.correction", (Value("entry", superseded, ValueKind.COUNT),))
    elif kind == "rho":
        kind_message = _ENTRY_KINDS[entry.kind]
    elif kind == "epsilon":
        kind_message = Message("report.entry.epsilon_cap", (Value("most", float(largest), ValueKind.NUMBER),))
    else:
        kind_message = Message("report.entry.mu_cap", (Value("most", privacy.mu(largest), ValueKind.NUMBER),))
    share_name = entry.detail.get("share")
    if share_name is not None:
        parts = (Value("entry", kind_message, ValueKind.MESSAGE), Value("share", share_name))
        kind_message = Message("report.entry.share", parts)
    people = {key: entry.detail.get(key) for key in ("proposed_by", "approved_by")}
    if None not in people.values():
        names = (Value(key, str(x)) for key, x in people.items())
        kind_message = Message("report.entry.approved", (Value("entry", kind_message, ValueKind.MESSAGE), *names))
    is_required = entry.detail.get("approval") if entry.kind == "cap" else None
    if is_required is not None:
        text = "report.entry.approval_required" if is_required else "report.entry.approval_ended"
        kind_message = Message(text, (Value("entry", kind_message, ValueKind.MESSAGE),))
    return {
        "sequence": entry.sequence,
        "time": entry.time,
        "kind": entry.kind,
        "said": kind_message,
        "source": entry.account.source,
        "privacy_unit": entry.account.sentence,
        "unit": account_message(entry.account),
        "rho": float(entry.rho),
        "cost": float(entry.rho) if kind == "rho" else "",
        "rho_exact": str(entry.rho),
        "epsilon": None if entry.epsilon is None else str(entry.epsilon),
        "paid": "" if entry.epsilon is None else float(entry.epsilon),
        "plan": plan,
        "named": plan_label,
        "composed_with": entry.composed_plans,
        "supersedes": superseded,
        "share": share_name,
        "view": entry.detail.get("view"),
        "proposal": entry.detail.get("proposal"),
        **people,
        "approval": is_required,
        "digest": entry.digest,
    }
