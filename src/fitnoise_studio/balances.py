"""The accounts and entries of a ledger in the words of pages: the cap, the spent cost, the rest, the best guess."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from fitnoise.kernel import privacy
from fitnoise.kernel.ledger import Ledger, LedgerEntry, Quote
from fitnoise.messages import Message
from fitnoise.reading.description import account_message
from fitnoise.request import curves

EXAMPLE_CAPS = (Fraction(1, 100), Fraction(1, 20), Fraction(1, 5))
"""The caps on ρ whose best guesses a page states, as examples."""


@final
@dataclass(frozen=True)
class Balance:
    """The balance of one account, in the measure of its cap: ρ, ε or μ.

    name, unit: The name of the account, and the protected unit.
    releases: The number of its charges.
    measure: "ρ", "ε" or "μ".
    spent: The spent cost; None where nothing bounds it.
    cap, share_left: The cap and its unspent share, from 0 to 1; None without a cap.
    guess: The highest success rate of a guess about one unit, from all releases together.
    cap_guess: The guess that the cap allows; None without a cap.
    """

    name: str
    unit: Message
    releases: int
    measure: str
    spent: float | None
    cap: float | None
    share_left: float | None
    guess: float
    cap_guess: float | None


def cap_guess(rho: Fraction) -> float:
    """Return the best guess that a cap on ρ allows."""
    return curves.best_guess(None, 2 * rho)


def balance_of(quote: Quote, charges: int) -> Balance:
    """Return the balance of an account. charges: the number of its charges."""
    # What adds up is ρ, ε, or the square of μ.
    show: Callable[[Fraction], float] = float
    cap: Fraction | None
    largest: Fraction | None
    if quote.mu_squared_cap is not None:
        measure, spent, cap, show = "μ", quote.mu_squared_spent, quote.mu_squared_cap, privacy.mu
        largest = cap
    elif quote.epsilon_cap is not None:
        measure, spent, cap = "ε", quote.epsilon_spent, quote.epsilon_cap
        largest = privacy.pure_mu_squared(cap)
    else:
        measure, spent, cap = "ρ", quote.spent, quote.cap
        largest = None if cap is None else 2 * cap
    unspent = None
    if cap is not None:
        unspent = 0.0 if spent is None or spent >= cap else float(1 - spent / cap)
    return Balance(
        name=quote.account.source,
        unit=account_message(quote.account),
        releases=charges,
        measure=measure,
        spent=None if spent is None else show(spent),
        cap=None if cap is None else show(cap),
        share_left=unspent,
        guess=curves.best_guess(quote.spent, quote.mu_squared_spent),
        cap_guess=None if largest is None else curves.best_guess(None, largest),
    )


def balances(book: Ledger) -> list[Balance]:
    """Return the balances of all accounts of a ledger."""
    charged = [e.account for e in book.entries() if e.kind == "charge"]
    return [balance_of(book.balance(a), charged.count(a)) for a in book.accounts()]


def reasons(entries: Sequence[LedgerEntry], releases: Mapping[str, str]) -> Iterator[tuple[LedgerEntry, str]]:
    """Yield the entries, the newest first, each with its release or reason; answers belong to their charge.

    releases: The name of each release of the folder, by the digest of its charge.
    """
    for entry in reversed(entries):
        charge = str(entry.detail.get("charge", entry.digest))
        yield entry, releases.get(charge, "") or str(entry.detail.get("reason", ""))
