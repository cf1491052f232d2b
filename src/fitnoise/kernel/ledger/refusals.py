"""The words of refused charges: which cap a charge does not fit under, and by how much. They decide nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from fitnoise.errors import BudgetExceeded

if TYPE_CHECKING:
    from fitnoise.kernel.ledger.entries import LedgerEntry, Price, Quote


def make_refusal(quote: Quote, entry: LedgerEntry) -> BudgetExceeded:
    """Return the error for a charge that does not fit, with the entry that records the refusal."""
    whom = f"{quote.account.source!r} ({quote.account.sentence})" + (f", share {quote.share!r}" if quote.share else "")
    recorded = f"Entry {entry.sequence} records this refusal."
    price = entry.price(quote.account)
    if price is None or quote.rho is None or quote.increase is None:
        return BudgetExceeded(
            "cost-unbounded",
            f"Nothing bounds the cost of this release for {whom}, which has a cap.",
            "",
            f"Plan the release for that unit and neighbour relation. {recorded}",
            "Nothing was charged and nothing was released.",
        )
    if quote.epsilon_cap is not None:
        return _refused_epsilon(quote, price, whom, recorded)
    if quote.mu_squared_cap is not None:
        return _refused_mu(quote, price, whom, recorded)
    if quote.spent is None:
        return BudgetExceeded(
            "spent-unbounded",
            f"Nothing bounds the cost of earlier releases for {whom}, which has a cap.",
            "No further release can fit under this cap.",
            f"Publish no further release of this source. {recorded}",
            "Nothing was charged and nothing was released.",
        )
    cost, spent, rest, cap = quote.rho, quote.spent, quote.remaining or Fraction(0), quote.cap or Fraction(0)
    change = f"{format_rho(abs(quote.increase))} {'less' if quote.increase < 0 else 'more'}"
    jointly = f" ({change} together with the releases on the same records)" if entry.composed_plans else ""
    return BudgetExceeded(
        "over-cap",
        f"A cost of ρ = {format_rho(cost)}{jointly} does not fit into the remaining ρ = {format_rho(rest)} for {whom}.",
        f"The spent ρ is {format_rho(spent)} and the cap is {format_rho(cap)}, so the cost, rounded up to a "
        f"multiple of 2⁻⁶⁴, is {format_rho(spent + quote.increase - cap)} too large.",
        f"Ask for less accuracy, or raise the cap. {recorded}",
        "Nothing was charged and nothing was released.",
    )


def _refused_epsilon(quote: Quote, price: Price, whom: str, recorded: str) -> BudgetExceeded:
    limit = format_rho(quote.epsilon_cap)
    if price.epsilon is None:
        return BudgetExceeded(
            "cap-is-pure",
            f"The cap of {whom} is pure, ε = {limit}, and this release has a δ.",
            "Under a pure cap a release needs pure ε.",
            f"Plan with privacy = 'pure', or set a cap on ρ, which is another promise. {recorded}",
            "Nothing was charged and nothing was released.",
        )
    if quote.epsilon_spent is None:
        return BudgetExceeded(
            "spent-not-pure",
            f"The cap of {whom} is pure, ε = {limit}, and no ε bounds an earlier charge.",
            "Under a pure cap every charge needs pure ε for this unit.",
            f"Set a cap on ρ, which is another promise. {recorded}",
            "Nothing was charged and nothing was released.",
        )
    return BudgetExceeded(
        "over-epsilon-cap",
        f"A cost of ε = {format_rho(price.epsilon)} does not fit under the cap of {whom}.",
        f"The spent ε is {format_rho(quote.epsilon_spent)} and the cap is {limit}.",
        f"Ask for less accuracy, or raise the cap. {recorded}",
        "Nothing was charged and nothing was released.",
    )


def _refused_mu(quote: Quote, price: Price, whom: str, recorded: str) -> BudgetExceeded:
    limit, mu = format_rho(quote.mu_squared_cap), price.known_mu_squared
    if mu is None or quote.mu_squared_spent is None:
        which = "this release" if mu is None else "an earlier charge"
        return BudgetExceeded(
            "mu-unknown",
            f"The cap of {whom} is μ² = {limit}, and the μ² of {which} is not known.",
            "Under a cap on μ² each charge needs a known μ².",
            f"Set a cap on ρ, which is another promise. {recorded}",
            "Nothing was charged and nothing was released.",
        )
    return BudgetExceeded(
        "over-mu-cap",
        f"A cost of μ² = {format_rho(mu)} does not fit under the cap of {whom}.",
        f"The spent μ² is {format_rho(quote.mu_squared_spent)} and the cap is {limit}.",
        f"Ask for less accuracy, or raise the cap. {recorded}",
        "Nothing was charged and nothing was released.",
    )


def format_rho(rho: Fraction | None) -> str:
    """Return an amount as errors show it: exactly if it is short, else to six digits."""
    return "∞" if rho is None else str(rho) if rho.denominator < 10**6 else f"about {float(rho):.6g}"
