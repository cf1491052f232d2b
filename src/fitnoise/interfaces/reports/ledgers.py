"""The report of a ledger: the spent cost of every account, and the entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from fitnoise.kernel import privacy
from fitnoise.kernel.ledger import LedgerEntry, Quote
from fitnoise.kernel.losses import Loss, best_guess
from fitnoise.kernel.units import Account
from fitnoise.messages import Plain, Value, ValueKind
from fitnoise.planning.accounting import FIXED_IN_ADVANCE
from fitnoise.planning.protection import ALMOST_CERTAIN_GUESS
from fitnoise.reporting import Report, ReportColumn, ReportTable, Section


def ledger_report(
    entries: Sequence[LedgerEntry], balances: Sequence[Quote], head: tuple[int, str], leftovers: Sequence[str] = ()
) -> Report:
    """Return the accounts and the entries of a ledger, with the sequence and digest of the last.

    leftovers: The names of files that killed processes left next to the ledger.
    """
    pure = any(e.epsilon is not None for e in entries)
    columns = (
        ReportColumn("sequence", "entry", ValueKind.COUNT),
        ReportColumn("time", "time"),
        ReportColumn("kind"),
        ReportColumn("said", "kind", spoken=True),
        ReportColumn("source", "account"),
        ReportColumn("privacy_unit", "unit"),
        ReportColumn("rho"),
        ReportColumn("cost", "rho", ValueKind.COST, spoken=True),
        ReportColumn("rho_exact"),
        ReportColumn("epsilon"),
        ReportColumn("paid", "epsilon" if pure else None, ValueKind.COST, spoken=True),
        ReportColumn("plan"),
        ReportColumn("named", "plan", spoken=True),
        ReportColumn("composed_with"),
        ReportColumn("digest"),
    )
    rest, told = (
        (Value("leftovers", leftovers),),
        ("{leftovers}: left by processes that were killed",) if leftovers else (),
    )
    last = (Value("sequence", head[0], ValueKind.COUNT), Value("digest", head[1]))
    accounts = [balance_section("", b, ("balances", i)) for i, b in enumerate(balances)]
    return Report(
        "",
        (
            *(accounts or [Section("", values=(Value("balances", []),))]),
            Section("", tables=(ReportTable.of("entries", columns, map(_row, entries)),)),
            *_series(entries),
            Section("", values=last, place=("head",)),
            Section("unfinished" if leftovers else "", told, rest),
        ),
    )


def _series(entries: Sequence[LedgerEntry]) -> Iterator[Section]:
    """Yield the assumption between the draws of the charged series, for every unit."""
    begun = [e for e in entries if e.kind == "charge" and e.drawn_period is not None and e.drawn_period.period == 1]
    said = dict.fromkeys(e.account.unit.between_draws for e in begun)
    for i, assumption in enumerate(said):
        own = [e.sequence for e in begun if e.account.unit.between_draws == assumption]
        values = (Value("entries", own), Value("assumption", assumption))
        yield Section("" if i else "series", (f"entry {{entries}}: {assumption}",), values, place=("series", i))


def balance_section(name: str, balance: Quote, location: tuple[str | int, ...] = ("balance",)) -> Section:
    """Return the spent cost of an account, and the rest of its cap."""
    cap, spent, limit = balance.cap, balance.epsilon_spent, balance.epsilon_cap
    unspent = balance.remaining
    told = "more than any rho spent" if balance.spent is None else "rho {spent} spent"
    told += " (epsilon {pure_spent}, pure)" if spent else ""
    told += ", no cap is set" if cap is None else " of {cap}, {remaining} left"
    if limit is not None:
        told = "epsilon {pure_spent} spent of {pure_cap}, pure, {pure_left} left"
        told = told if spent is not None else told.replace("epsilon {pure_spent}", "more than any epsilon")
    mu, most = balance.mu_squared_spent, balance.mu_squared_cap
    if most is not None:
        told = "{spoken_mu} spent of mu = {mu_cap} (squares add), {remaining} left as rho"
        told = told.replace("{spoken_mu}", "more than any mu" if mu is None else "mu = {mu_spent}")
    pure_left = 0.0 if spent is None or limit is None else max(float(limit - spent), 0.0)
    values = (
        Value("source", balance.account.source),
        Value("privacy_unit", balance.account.sentence),
        Value("spent", None if balance.spent is None else float(balance.spent), ValueKind.COST),
        Value("spent_exact", None if balance.spent is None else str(balance.spent)),
        Value("cap", None if cap is None else float(cap), ValueKind.COST),
        Value("remaining", None if unspent is None else float(unspent), ValueKind.COST),
        Value("epsilon_spent", None if spent is None else str(spent)),
        Value("epsilon_cap", None if limit is None else str(limit)),
        Value("mu_squared_spent", None if mu is None else str(mu)),
        Value("mu_squared_cap", None if most is None else str(most)),
        Value("mu_spent", None if mu is None else privacy.mu(mu), ValueKind.COST, spoken=True),
        Value("mu_cap", None if most is None else privacy.mu(most), ValueKind.COST, spoken=True),
        Value("pure_spent", None if spent is None else float(spent), ValueKind.COST, spoken=True),
        Value("pure_cap", None if limit is None else float(limit), ValueKind.COST, spoken=True),
        Value("pure_left", pure_left, ValueKind.COST, spoken=True),
    )
    warned, guesses = _warned(balance)
    return Section(name, (f"{{source}} ({{privacy_unit}}): {told}", *warned), (*values, *guesses), place=location)


def _warned(balance: Quote) -> tuple[list[str], tuple[Value, ...]]:
    """Return the warnings about the spent cost of an account and about its cap, and the best guesses that they name.

    A cap on ρ is judged by the Gaussian release that fits it, μ² = 2ρ: such a release reaches its best guess.
    """
    pure, mu_squared, cap = balance.epsilon_cap, balance.mu_squared_cap, balance.cap
    most = {
        "spent_guess": best_guess(balance.spent, balance.mu_squared_spent),
        "cap_guess": 0.5
        if cap is None
        else best_guess(None, privacy.pure_mu_squared(pure) if pure is not None else mu_squared or 2 * cap),
    }
    told = {
        "spent_guess": "Warning: the releases so far protect almost no one: a guess between two neighbouring data sets "
        "can be right in up to {spent_guess} of cases",
        "cap_guess": "Warning: this cap protects almost no one: after a release within it a guess between two "
        "neighbouring data sets can be right in {cap_guess} of cases",
    }
    warned = [sentence for key, sentence in told.items() if most[key] > ALMOST_CERTAIN_GUESS]
    return warned, tuple(Value(key, guess, ValueKind.CHANCE) for key, guess in most.items())


def more_section(quote: Quote, loss: Loss, delta: float) -> Section:
    """Return the number of releases of a plan under the cap in force, and under an equivalent cap of another kind.

    loss: The cost of one release.
    delta: The δ at which the caps promise the same ε.
    """
    if quote.more is None:
        none = Value("more", None)
        return Section("plan", ("no cap is set: any number of releases of this plan fits",), (none,), place=("plan",))
    told = ["{more} more releases of this plan fit" if quote.more != 1 else "one more release of this plan fits"]
    values = [Value("more", quote.more, ValueKind.COUNT)]
    other = _instead(quote, loss, delta)
    if other is not None:
        kind, (promised, size, more) = "rho" if quote.mu_squared_cap is not None else "mu", other
        told.append(f"a cap of {kind} = {{instead}} promises the same epsilon = {{promised}} at delta = {{delta}}")
        told.append("and leaves room for {more_instead} more")
        values += [
            Value("promised", promised, ValueKind.COMPARED),
            Value("delta", delta, ValueKind.NUMBER),
            Value(f"{kind}_instead", size),
            Value("instead", size, ValueKind.COST, spoken=True),
            Value("more_instead", more, ValueKind.COUNT),
        ]
    return Section("plan", tuple(told), tuple(values), place=("plan",))


def accounts_epsilon(
    balances: Sequence[Quote], epsilons: Mapping[Account, float | str], delta: float
) -> Iterator[Section]:
    """Yield ε at δ of all releases of each account, and its meaning if plans are chosen on the way.

    `epsilons`: ε of every account, or the reason why it is unknown.
    """
    for i, balance in enumerate(balances):
        whom = (Value("source", balance.account.source), Value("privacy_unit", balance.account.sentence))
        found = epsilons[balance.account]
        if isinstance(found, str):
            sentence, values = "{why}", [Value("epsilon", None), Value("why", found)]
        else:
            capped = balance.cap is not None
            kept = "the cap holds whatever is chosen next" if capped else "no cap: bookkeeping, no promise"
            sentence = f"epsilon = {{epsilon}} at delta = {{delta}}, {{assumption}}; {kept}"
            values = [
                Value("epsilon", found, ValueKind.COMPARED),
                Value("delta", delta, ValueKind.NUMBER),
                Value("assumption", FIXED_IN_ADVANCE),
            ]
        sentence = f"{{source}} ({{privacy_unit}}): {sentence}"
        yield Section("" if i else "together", (sentence,), (*whom, *values), place=("together", i))


def _instead(quote: Quote, loss: Loss, delta: float) -> tuple[float, float, int] | None:
    """Return the ε at δ of a cap on ρ or μ, the equivalent cap of the other kind, and its number of releases."""
    spent, mu_spent, mu_squared = quote.spent, quote.mu_squared_spent, loss.mu_squared
    if quote.epsilon_cap is not None or quote.cap is None or None in (spent, mu_spent, mu_squared):
        return None
    if quote.mu_squared_cap is None:
        promised = privacy.zcdp_epsilon(quote.cap, delta)
        size = privacy.lattice_mu(promised, delta)
        left, each = Fraction(size) ** 2 - (mu_spent or 0), mu_squared
    else:
        promised = privacy.lattice_epsilon(privacy.mu(quote.mu_squared_cap), delta)
        size = privacy.zcdp_rho(promised, delta)
        left, each = Fraction(size) - (spent or 0), loss.rho
    return promised, size, max(0, int(left / each)) if each else 0


def _row(entry: LedgerEntry) -> dict[str, Plain]:
    plan, others = entry.detail.get("plan"), ", ".join(plan[:12] for plan in entry.composed_plans)
    own = "" if plan is None else str(plan)[:12]
    kind, most = entry.limit if entry.kind == "cap" else ("rho", entry.rho)
    other = {"rho": "", "epsilon": f" on epsilon = {float(most):g}", "mu_squared": f" on mu = {privacy.mu(most):g}"}[
        kind
    ]
    return {
        "sequence": entry.sequence,
        "time": entry.time,
        "kind": entry.kind,
        "said": f"{entry.kind}{other}",
        "source": entry.account.source,
        "privacy_unit": entry.account.sentence,
        "rho": float(entry.rho),
        "cost": "" if other else float(entry.rho),
        "rho_exact": str(entry.rho),
        "epsilon": None if entry.epsilon is None else str(entry.epsilon),
        "paid": "" if entry.epsilon is None else float(entry.epsilon),
        "plan": plan,
        "named": f"{own} beside {others}" if others else own,
        "composed_with": entry.composed_plans,
        "digest": entry.digest,
    }
