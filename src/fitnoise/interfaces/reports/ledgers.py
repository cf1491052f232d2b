"""What is said of a ledger: what every account has spent, and the entries."""

from __future__ import annotations

from collections.abc import Sequence

from fitnoise.kernel.ledger import Entry, Quote
from fitnoise.reporting import Column, Kind, Plain, Report, Section, Table, Value


def ledger_report(
    entries: Sequence[Entry], balances: Sequence[Quote], head: tuple[int, str], left: Sequence[str] = ()
) -> Report:
    """The accounts and the entries of a ledger, with the sequence and digest of the last.

    left: the names of what killed processes left beside it.
    """
    pure = any(e.epsilon is not None for e in entries)
    columns = (
        Column("sequence", "entry", Kind.COUNT),
        Column("time", "time"),
        Column("kind", "kind"),
        Column("source", "source"),
        Column("privacy_unit"),
        Column("rho", "rho", Kind.COST),
        Column("rho_exact"),
        Column("epsilon"),
        Column("paid", "epsilon" if pure else None, Kind.COST, spoken=True),
        Column("plan"),
        Column("named", "plan", spoken=True),
        Column("beside"),
        Column("digest"),
    )
    rest, told = (Value("leftovers", left),), ("{leftovers}: left by processes that were killed",) if left else ()
    last = (Value("sequence", head[0], Kind.COUNT), Value("digest", head[1]))
    accounts = [balance_section("", b, ("balances", i)) for i, b in enumerate(balances)]
    return Report(
        "",
        (
            *(accounts or [Section("", values=(Value("balances", []),))]),
            Section("", tables=(Table.of("entries", columns, map(_row, entries)),)),
            Section("", values=last, place=("head",)),
            Section("unfinished" if left else "", told, rest),
        ),
    )


def balance_section(name: str, balance: Quote, place: tuple[str | int, ...] = ("balance",)) -> Section:
    """What an account has spent, and what is left of its cap."""
    cap, spent, limit = balance.cap, balance.epsilon_spent, balance.epsilon_cap
    unspent = balance.remaining
    told = "more than any rho spent" if balance.spent is None else "rho {spent} spent"
    told += " (epsilon {pure_spent}, pure)" if spent else ""
    told += ", no cap is set" if cap is None else " of {cap}, {remaining} left"
    if limit is not None:
        told = "epsilon {pure_spent} spent of {pure_cap}, pure, {pure_left} left"
        told = told if spent is not None else told.replace("epsilon {pure_spent}", "more than any epsilon")
    pure_left = 0.0 if spent is None or limit is None else max(float(limit - spent), 0.0)
    values = (
        Value("source", balance.account.source),
        Value("privacy_unit", balance.account.unit),
        Value("spent", None if balance.spent is None else float(balance.spent), Kind.COST),
        Value("spent_exact", None if balance.spent is None else str(balance.spent)),
        Value("cap", None if cap is None else float(cap), Kind.COST),
        Value("remaining", None if unspent is None else float(unspent), Kind.COST),
        Value("epsilon_spent", None if spent is None else str(spent)),
        Value("epsilon_cap", None if limit is None else str(limit)),
        Value("pure_spent", None if spent is None else float(spent), Kind.COST, spoken=True),
        Value("pure_cap", None if limit is None else float(limit), Kind.COST, spoken=True),
        Value("pure_left", pure_left, Kind.COST, spoken=True),
    )
    return Section(name, (f"{{source}} ({{privacy_unit}}): {told}",), values, place=place)


def _row(entry: Entry) -> dict[str, Plain]:
    plan, others = entry.detail.get("plan"), ", ".join(plan[:12] for plan in entry.beside)
    own = "" if plan is None else str(plan)[:12]
    return {
        "sequence": entry.sequence,
        "time": entry.time,
        "kind": entry.kind,
        "source": entry.account.source,
        "privacy_unit": entry.account.unit,
        "rho": float(entry.rho),
        "rho_exact": str(entry.rho),
        "epsilon": None if entry.epsilon is None else str(entry.epsilon),
        "paid": "" if entry.epsilon is None else float(entry.epsilon),
        "plan": plan,
        "named": f"{own} beside {others}" if others else own,
        "beside": entry.beside,
        "digest": entry.digest,
    }
