"""The ledger: the durable record of all charges against privacy caps.

**Purpose.** The ledger stores caps, charges and refusals in one file, and refuses a charge that exceeds a cap. The
rules below are its constitution: no version may ever change them.

1. **Append-only.** No entry is ever altered, moved or removed. A mistaken charge stays charged.
2. **Chained.** Every entry carries the SHA-256 of its content and of the entry before it. The ledger decides nothing
   from entries that it did not verify in the same transaction.
3. **Spend first.** A charge is on the disk before :meth:`Ledger.charge` returns, hence before noise is drawn. A crash
   can waste budget, and never forget it.
4. **Exact, rounded against the publisher.** A cost is an exact rational, rounded *up* to a multiple of 2⁻⁶⁴. No floats.
5. **An unknown cost is infinite.** The ledger refuses a cost that it cannot price, read or verify.
6. **No data inside.** Entries hold only names, costs, times and parts of a plan, which is made without data. The file
   is private to the publisher all the same, because it shows the plans. fitnoise makes it readable for its owner alone.
7. **Costs add, unless the same records are promised.** A charge can name plans under `composed_with`, each released
   once. The publisher then promises that it is measured on the very records of their releases, unchanged, and of all
   releases that those plans name. Each record has the same cell in all of them. Nothing checks this promise; the ledger
   keeps it. Without it, ρ adds.

8. **A pure promise stays pure.** A charge may state its ε. Its ρ is the cost of its numbers one by one, and at most
   ε²/2, rounded up to a multiple of 2⁻⁶⁴. Under a cap on ε only such charges fit, and their ε add up to at most the
   cap. A charge with a δ counts there as infinite.

9. **All accounts of a name are charged for every release.** The accounts of one name, for several units and relations,
   are about the same people. A charge to one is a charge to all. The cost for each is the stated exact cost of its
   integers, else the bound of :meth:`LedgerEntry.price`, else infinite. A charge fits if it fits under every cap among
   them. No charge opens an account of its own where the name has a cap: that is a decision of its own,
   :meth:`Ledger.set_cap`. Other units that a charge states have accounts from then on, and are charged as all are.

10. **μ² is a currency of its own.** A charge may state μ², for a release that is μ-Gaussian-private, and an upper bound
    on the ratio of μ² to ρ in every cell. Under a cap on μ², μ² adds up: cell by cell through ρ, or sum by sum, and the
    smaller result counts. A charge that states neither μ² nor ε is infinite there.

11. **A series is charged once and completely, and each of its periods is drawn once.** The charge of a plan that is
    drawn period by period states this, covers all periods, and draws the first. Each further period is an entry of its
    own, in order, written before its noise is drawn, and costs nothing more. Each names the counts that were frozen for
    it. A period that is drawn again, from the very counts, is a charge like any other. No charge names a series under
    `composed_with`, and the charge of a series names no plan there.

12. **A promise binds its cells.** The key of an account identifies it. The key holds the source, the name of its unit,
    the relation, and an id or the number of records. For a promised pattern it holds each attribute with the hash of
    the rule for its cells. The printed sentence of an account identifies nothing. A charge under a promise about other
    cells belongs to another account of the name. It costs this account the price of a unit whose records lie anywhere.

13. **A charge has one set of answers.** Before answers are published, an entry of cost 0 names their SHA-256. It names
    the charge, or the period of a series, for which they were drawn. No charge has two such entries. So at most one of
    several draws for one charge is published (:mod:`fitnoise.kernel.measure` gives the proof). Answers that the
    ledger does not name are recognised.

**Symbols.**

    | ρ | parameter of zero-concentrated differential privacy |
    | ε | parameter of pure differential privacy |
    | μ² | squared parameter of Gaussian differential privacy |
    | group | the charges that are on the same records |
    | profile | the ρ of a charge by cell |

**Statement.** ρ adds under composition (Bun and Steinke 2016). A charge without `composed_with` is a group of its own.
A charge with `composed_with` unites the groups of all charges, in its account, of the plans that it names. The spent ρ
of an account is Σ over the groups of its name of their joint cost for its unit. The joint cost of a group of one charge
is its ρ. The joint cost of a larger group is the costliest joint cell of the summed profiles
(:func:`fitnoise.kernel.profiles.joint`). It is Σ ρ where a charge has no profile. A charge fits when the spent ρ with
it is at most the cap. The spent ρ may grow by less than the ρ of the charge. It grows by 0 where no cell becomes
costlier than the costliest. It falls where groups unite that were counted separately. A charge without a profile for
its own unit is in no larger group. Its ρ may be for another relation than add-or-remove-one, for which no sum over
cells is known to hold.

These rules keep each pair of neighbours within the cap, and so all releases, even when each cost depends on the
releases before it. This is a privacy filter: for ρ see Feldman and Zrnic 2021, for μ² docs/mathematics/exact_curve.md.
A publisher who raises the cap makes a new promise, and the ledger keeps both.

**Trust.** A mistake here can release more than the cap allows. A chain is no signature. A person who can write to the
file can cut its tail, put back an old copy or forge a new chain. So write :meth:`Ledger.head` down elsewhere with each
release, and pass it to :meth:`Ledger.verify`. One account has one file: two copies are two budgets.

This module is longer than others on purpose: a reviewer of the ledger finds all of its code on one page.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import reprlib
import sqlite3
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, final

from fitnoise.errors import BudgetExceeded, LedgerError
from fitnoise.kernel.arguments import checked
from fitnoise.kernel.checks import are_confusable, is_digest
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.privacy import pure_mu_squared
from fitnoise.kernel.profiles import ChargedPlan, Profile, ceil_dyadic, joint
from fitnoise.kernel.units import Account, Adjacency, PrivacyUnit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

GENESIS = "0" * 64  # the digest before the first entry

_APPLICATION = int.from_bytes(b"fitn")  # PRAGMA application_id: how the file is known

_FORMAT = 7
"""The PRAGMA user_version of the file.

Formats 1 to 5 identified accounts by sentences without cells of promised attributes. Format 6 named no answers, so that
the release of each of its charges seems unfinished.
"""

_BUSY_SECONDS = 30.0  # how long to wait for another process

_MAX_BITS = 1000  # of the integers in a stored ρ, so that neither its float nor its digits overflow

_MAX_BYTES = 2**28  # of the file; the ledger reads no larger file, from any source

_MAX_TEXT = 2**26  # bytes of a text in it: a profile of three million cells

_SCHEMA = (
    """CREATE TABLE entries (sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, source TEXT NOT NULL,
    unit TEXT NOT NULL, rho TEXT NOT NULL, time TEXT NOT NULL, detail TEXT NOT NULL,
    previous TEXT NOT NULL, digest TEXT NOT NULL)""",
    """CREATE TRIGGER entries_stay BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'a ledger entry is never removed'); END""",
    """CREATE TRIGGER entries_keep BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'a ledger entry is never altered'); END""",
    # INSERT OR REPLACE overwrites a row and fires neither of the two above; it fires this one.
    """CREATE TRIGGER entries_follow BEFORE INSERT ON entries
    WHEN NEW.sequence IS NOT 1 + (SELECT coalesce(max(sequence), 0) FROM entries)
    BEGIN SELECT RAISE(ABORT, 'a ledger entry follows the last one'); END""",
)

_RESERVED_DETAIL_KEYS = {"profile", "composed_with", "epsilon", "mu_squared", "mu_rate", "units", "series"}
"""The keys of a detail that the ledger itself writes."""

_ANSWERS = {"charge", "answers"}  # the detail of an entry that names answers

_LIMITS = {"epsilon", "mu_squared"}  # the currencies of a cap other than ρ

_NUMBERS = ("epsilon", "mu_squared", "mu_rate")  # of a price, other than ρ

_COLUMNS = ("sequence", "kind", "source", "unit", "rho", "time", "detail", "previous")  # then "digest"

# The last of these is what damaged pages do to the text of SQLite's own errors.
_FILE_ERRORS = (OSError, sqlite3.Error, UnicodeDecodeError)


@final
@dataclass(frozen=True)
class Price:
    """The cost of a release for one unit.

    Args:
        rho: ρ, a multiple of 2⁻⁶⁴.
        profile: The ρ by cell, if it is known; its largest value is ρ.
        epsilon: The ε of a pure release: ρ is at most ε²/2, rounded up to a multiple of 2⁻⁶⁴.
        mu_squared: μ², a multiple of 2⁻⁶⁴; `None` if it is not known.
        mu_rate: An upper bound on the ratio of μ² to ρ in every cell; given if and only if μ² is.

    Raises:
        LedgerError: The values break one of these rules.
    """

    rho: Fraction
    profile: Profile | None = None
    epsilon: Fraction | None = None
    mu_squared: Fraction | None = None
    mu_rate: Fraction | None = None

    def __post_init__(self) -> None:
        if self.profile is not None and self.profile.largest != self.rho:
            raise LedgerError(
                "price-profile-misfit",
                "The largest value of the profile of a charge is not its ρ.",
                "The profile has the ρ of the charge, rounded up to a multiple of 2⁻⁶⁴, as its largest value.",
                "Give the profile and the ρ of one release.",
                "Nothing was charged and nothing was changed.",
            )
        if any(ceil_dyadic(x) != x or x < 0 for x in (self.rho, self.mu_squared or self.rho)):
            raise LedgerError(
                "price-not-dyadic",
                "A price is negative, or is not a multiple of 2⁻⁶⁴.",
                "",
                "Round the cost up to a multiple of 2⁻⁶⁴.",
                "Nothing was charged and nothing was changed.",
            )
        if self.epsilon is not None and ceil_dyadic(self.epsilon**2 / 2) < self.rho:
            raise LedgerError(
                "price-epsilon-too-small",
                "The ε of a price is too small for its ρ.",
                "ρ is at most ε²/2, rounded up to a multiple of 2⁻⁶⁴.",
                "Give the ε and the ρ of one release.",
                "Nothing was charged and nothing was changed.",
            )
        if (self.mu_squared is None) != (self.mu_rate is None):
            raise LedgerError(
                "price-mu-rate-missing",
                "A price states only one of μ² and the rate of μ² for each ρ.",
                "",
                "State both, or neither.",
                "Nothing was charged and nothing was changed.",
            )

    @classmethod
    def from_loss(cls, loss: Loss) -> Self:
        """Return the price of a loss, rounded up."""
        if not isinstance(loss, Loss):
            raise LedgerError(
                "cost-not-a-loss",
                f"The cost is {reprlib.repr(loss)}, which is not a Loss.",
                "Only exact costs are charged.",
                "Give the Loss of the release.",
                "Nothing was charged and nothing was changed.",
            )
        epsilon = loss.epsilon
        if epsilon is not None and not _short(epsilon):
            raise LedgerError(
                "epsilon-too-long",
                f"The ε of a loss has more than {_MAX_BITS} bits.",
                "",
                f"Give an ε whose numerator and denominator have at most {_MAX_BITS} bits.",
                "Nothing was charged and nothing was changed.",
            )
        mu_squared, rho = loss.mu_squared, _bounded(loss.rho)
        mu = () if mu_squared is None else (_bounded(mu_squared), _bounded(loss.mu_rate))
        return cls(rho, loss.profile, epsilon, *mu)

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        """Return the price that a document states: the output of `as_json`, and ρ."""
        if not isinstance(document, Mapping) or not {"rho"} <= document.keys() <= {"rho", "profile", *_NUMBERS}:
            raise LedgerError(
                "price-not-readable",
                "A price has unknown keys, or no ρ.",
                f"A price has the key rho, and may have {', '.join(('profile', *_NUMBERS))}.",
                "Give a price as fitnoise writes it.",
                "Nothing was charged and nothing was changed.",
            )
        profile = Profile.parse(document["profile"]) if "profile" in document else None
        numbers = {key: _exactly(document[key]) for key in _NUMBERS if key in document}
        price = cls(_exactly(document["rho"]), profile, **numbers)
        if price.mu_squared is not None and price.mu_squared > ceil_dyadic((price.mu_rate or 0) * price.rho):
            raise LedgerError(
                "price-mu-too-large",
                "The μ² of a price is larger than its ρ and its rate allow.",
                "",
                "Give the μ², the rate and the ρ of one release.",
                "Nothing was charged and nothing was changed.",
            )
        return price

    def as_json(self) -> dict[str, Any]:
        """Return everything except ρ, as JSON values."""
        document: dict[str, Any] = {} if self.profile is None else {"profile": self.profile.document()}
        return document | {key: str(x) for key in _NUMBERS if (x := getattr(self, key)) is not None}

    @property
    def known_mu_squared(self) -> Fraction | None:
        """μ² as stated, or as ε implies it; `None` where neither is known."""
        if self.mu_squared is None and self.epsilon is not None:
            return ceil_dyadic(pure_mu_squared(self.epsilon))
        return self.mu_squared

    def repeated(self, times: int) -> Price:
        """Return the price of k = `times` consecutive changes, without a profile: k²ρ, kε, k²μ².

        For a pure release ρ is at most (kε)²/2, rounded up. See :meth:`fitnoise.kernel.units.Adjacency.changes`.
        """
        epsilon = None if self.epsilon is None else times * self.epsilon
        rho, mu = times**2 * self.rho, None if self.mu_squared is None else times**2 * self.mu_squared
        return Price(rho if epsilon is None else min(rho, ceil_dyadic(epsilon**2 / 2)), None, epsilon, mu, self.mu_rate)


@final
@dataclass(frozen=True)
class DrawnPeriod:
    """A drawn period of a series.

    Args:
        period: The number of the period, from 1.
        frozen: The SHA-256 (hex) of the counts that it is drawn from. A block of 256 random bits is part of the
            digested text.

    Raises:
        LedgerError: The number or the digest is invalid.
    """

    period: int
    frozen: str

    def __post_init__(self) -> None:
        if type(self.period) is not int or self.period < 1 or not is_digest(self.frozen):
            raise LedgerError(
                "period-not-named",
                "A period of a series is not a number from 1 with the SHA-256 of its frozen counts.",
                "",
                "Give the number of the period and the digest of its frozen counts.",
                "Nothing was charged and nothing was changed.",
            )

    def as_json(self) -> dict[str, Any]:
        """Return the period as JSON values."""
        return {"period": self.period, "frozen": self.frozen}

    @classmethod
    def parse(cls, document: object) -> Self:
        """Read what `document` says."""
        if not isinstance(document, Mapping) or document.keys() != {"period", "frozen"}:
            raise LedgerError(
                "period-not-readable",
                "A period of a series does not have exactly the keys period and frozen.",
                "",
                "Give a period as fitnoise writes it.",
                "Nothing was charged and nothing was changed.",
            )
        return cls(document["period"], document["frozen"])


@final
@dataclass(frozen=True)
class LedgerEntry:
    """One line of the ledger.

    Args:
        sequence: The number of the entry: 1, 2, 3, … without a gap.
        kind: ``"cap"`` (a new limit), ``"charge"`` (spent) or ``"refusal"`` (requested, not spent). Or ``"period"`` (a
            further period of a series) or ``"answers"`` (the digest of the answers to a charge or period). The charge
            of a series covers all its periods.
        account: The protected population and unit.
        rho: The cap, any ρ ≥ 0; a cap on ε as ε²/2, a cap on μ² as μ²/2. For a charge or refusal the cost, a positive
            multiple of 2⁻⁶⁴. For a period and for answers 0.
        time: UTC, ISO 8601, to the second, by the machine's clock: information, not evidence.
        detail: A JSON object without floats. The ledger itself writes `"profile"`, `"composed_with"`, `"epsilon"`,
            `"mu_squared"`, `"mu_rate"`, `"units"` and `"series"` to it.
        previous: The digest of the entry before; :data:`GENESIS` for the first.
        digest: The SHA-256 (hex) of the other columns as canonical JSON: sorted keys, no spaces, ASCII.

    Raises:
        LedgerError: The kind is unknown.
        LedgerError: ρ is not a value that the kind allows or that the profile implies.
        LedgerError: The entry names plans on the same records and has no profile.
        LedgerError: The detail is not a JSON object, or has a key or value that the kind does not allow.
    """

    sequence: int
    kind: str
    account: Account
    rho: Fraction
    time: str
    detail: Mapping[str, Any]
    previous: str
    digest: str

    def __post_init__(self) -> None:
        sound = {
            "cap": self.rho >= 0,
            "charge": self.rho > 0 and ceil_dyadic(self.rho) == self.rho,
            "refusal": self.rho > 0 and ceil_dyadic(self.rho) == self.rho,
            "period": self.rho == 0 and isinstance(self.detail, Mapping) and self.detail.keys() == {"plan", "series"},
            "answers": self.rho == 0 and isinstance(self.detail, Mapping) and self.detail.keys() == _ANSWERS,
        }
        if not sound.get(self.kind, False) or not _short(self.rho):
            raise LedgerError(
                "entry-kind-or-cost-invalid",
                f"An entry has the kind {self.kind!r} and ρ = {reprlib.repr(self.rho)}.",
                "The kinds are cap, charge, refusal, period and answers, and each allows its own ρ and detail.",
                "Give an entry as a ledger writes it.",
                "Nothing was charged and nothing was changed.",
            )
        if not isinstance(self.detail, Mapping) or (
            self.kind == "cap" and self.detail.keys() & _RESERVED_DETAIL_KEYS - _LIMITS
        ):
            raise LedgerError(
                "entry-detail-invalid",
                "The detail of an entry is not a JSON object, or has a key that a cap does not allow.",
                "A cap has neither a profile nor other plans on the same records.",
                "Give a detail as a ledger writes it.",
                "Nothing was charged and nothing was changed.",
            )
        if self.kind == "answers" and not all(map(is_digest, self.detail.values())):
            raise _answers_not_digests()
        if "series" in self.detail:
            DrawnPeriod.parse(self.detail["series"])
            if self.composed_plans or not isinstance(self.detail.get("plan"), str):
                raise LedgerError(
                    "entry-series-invalid",
                    "An entry of a series does not name its plan, or names other plans on the same records.",
                    "",
                    "Name the plan of the series, and no other plan.",
                    "Nothing was charged and nothing was changed.",
                )
        if "composed_with" in self.detail and not (type(self.detail["composed_with"]) is list and self.composed_plans):
            raise LedgerError(
                "entry-composed-with-invalid",
                "The key composed_with of an entry is not a list with at least one plan.",
                "",
                "Give the list of plans, or remove the key.",
                "Nothing was charged and nothing was changed.",
            )
        if self.kind != "cap":
            _stands(self.prices[self.account], self.composed_plans)
        elif len(self.detail.keys() & _LIMITS) == len(_LIMITS):
            raise LedgerError(
                "cap-with-two-kinds",
                "A cap limits both ε and μ².",
                "",
                "Limit one of them.",
                "Nothing was charged and nothing was changed.",
            )
        elif self.epsilon is not None and self.epsilon**2 / 2 != self.rho:
            raise LedgerError(
                "cap-epsilon-misfit",
                "The ρ of a cap on ε is not half of the square of ε.",
                "",
                "Give the ρ that belongs to the cap.",
                "Nothing was charged and nothing was changed.",
            )
        elif self.mu_squared is not None and self.mu_squared / 2 != self.rho:
            raise LedgerError(
                "cap-mu-misfit",
                "The ρ of a cap on μ² is not half of μ².",
                "",
                "Give the ρ that belongs to the cap.",
                "Nothing was charged and nothing was changed.",
            )

    @cached_property
    def epsilon(self) -> Fraction | None:
        """The pure ε charged, refused or allowed; `None` for an entry that states no ε."""
        return _exactly(self.detail["epsilon"]) if "epsilon" in self.detail else None

    @cached_property
    def mu_squared(self) -> Fraction | None:
        """The μ² charged, refused or allowed, where it is stated."""
        return _exactly(self.detail["mu_squared"]) if "mu_squared" in self.detail else None

    @property
    def limit(self) -> tuple[str, Fraction]:
        """The currency of a cap, by its key in a charge, and the amount of the cap."""
        if self.epsilon is not None:
            return "epsilon", self.epsilon
        return ("rho", self.rho) if self.mu_squared is None else ("mu_squared", self.mu_squared)

    @property
    def profile(self) -> Profile | None:
        """The ρ of the charge by cell, as the detail states it; `None` without one."""
        return self.prices[self.account].profile

    @cached_property
    def prices(self) -> Mapping[Account, Price]:
        """The stated prices, by account of the name; the entry's own account is first."""
        document = {key: self.detail[key] for key in ("profile", *_NUMBERS) if key in self.detail}
        prices = {self.account: Price.parse({"rho": str(self.rho)} | document)}
        also = self.detail.get("units", [])
        listed = isinstance(also, list) and all(isinstance(x, Mapping) and "unit" in x for x in also)
        if not listed or ("units" in self.detail and not also):
            raise LedgerError(
                "entry-units-invalid",
                "The prices of an entry for other units are not a list with at least one price.",
                "",
                "Give the list of prices, or remove the key units.",
                "Nothing was charged and nothing was changed.",
            )
        for document in also:
            account = _account(self.account.source, _json(document["unit"]))
            if account in prices:
                raise LedgerError(
                    "entry-unit-twice",
                    "An entry states the price of one unit twice.",
                    "",
                    "State the price of each unit once.",
                    "Nothing was charged and nothing was changed.",
                )
            prices[account] = Price.parse({key: x for key, x in document.items() if key != "unit"})
        return prices

    def price(self, account: Account) -> Price | None:
        """Return the cost for the unit of another account of the same name; `None` where nothing bounds it.

        The price is the one that the entry states for that unit. An entry may state none, for example for an account
        that was opened after it. Then the price is the least bound that follows from the stated prices: k²ρ, kε, k²μ².
        There k changes of the unit with the stated price make one change of the unit of the other account
        (:meth:`fitnoise.kernel.units.Adjacency.changes`). So replacing a record costs at most the cost of removing one
        and adding one. A charge for a unit whose records are only replaced bounds nothing for a unit whose records can
        be added or removed.

        **Guarantees**: The price is at least the exact cost of the integers that were measured.
        """
        return _price(self.account, self.prices, account)

    @property
    def composed_plans(self) -> tuple[str, ...]:
        """The hashes of the plans on whose records this was measured."""
        return tuple(self.detail.get("composed_with", ()))

    @property
    def answers(self) -> str | None:
        """The SHA-256 of answers, of an entry that names them; None of other entries."""
        return str(self.detail["answers"]) if self.kind == "answers" else None

    @cached_property
    def drawn_period(self) -> DrawnPeriod | None:
        """The period of a series that was drawn then, or refused; None of other entries."""
        return DrawnPeriod.parse(self.detail["series"]) if "series" in self.detail else None


@final
@dataclass(frozen=True)
class ChargeGroup:
    """Charges to the accounts of one name that are on the same records, as far as that was promised."""

    entries: tuple[LedgerEntry, ...]

    def rho(self, account: Account) -> Fraction | None:
        """Return the ρ of all charges jointly for the unit of an account; `None` where nothing bounds one of them."""
        return _joint_cost([entry.price(account) for entry in self.entries])

    def mu_squared(self, account: Account) -> Fraction | None:
        """Return the μ² of all charges jointly for the unit of an account; `None` where the μ² of one is not known."""
        return _joint_mu([entry.price(account) for entry in self.entries])


@final
@dataclass(frozen=True)
class Quote:
    """The effect that a charge would have; a quote changes nothing.

    Args:
        account: The protected population and unit.
        rho: The cost of the charge on its own, rounded up to a multiple of 2⁻⁶⁴; `None` where nothing bounds it.
        spent: The ρ of all charges so far to the accounts of this name (`account.source`), for this unit. The cost of
            charges on the same records is their joint cost. `None` where nothing bounds the cost of one of them.
        cap: The cap in force, the last one set, as ρ; `None` without a cap. A cap on ε is here ε²/2, and a cap on μ² is
            μ²/2.
        remaining: The amount that is left under the cap, as ρ; `None` without a cap, and 0 where the spent amount has
            no bound. Under a cap on ρ it is max(cap − spent, 0), exactly. The largest fitting charge that names no
            other plans is then ``remaining`` rounded *down* to a multiple of 2⁻⁶⁴. Under a cap on ε it is half the
            square of the remaining ε, and under a cap on μ² half the remaining μ².
        fits: True if there is no cap. Under a cap on ρ, True if spent + increase ≤ cap. `epsilon_cap` and
            `mu_squared_cap` state the rule for a cap on ε or μ².
        increase: The growth of spent: ρ for a charge that names no other plans. It is often less for a charge on the
            records of other plans, even 0 or negative. `None` where nothing bounds it.
        epsilon_spent: Σ ε of the charges so far, where every one of them is pure; `None` where one is not.
        epsilon_cap: The cap in force, if it limits ε: then fits ⟺ all charges are pure and Σ ε ≤ cap.
        mu_squared_spent: μ² of the charges so far, for charges on the same records their joint μ²; `None` where one is
            not known.
        mu_squared_cap: The cap in force, if it limits μ²: then fits ⟺ μ² with the charge ≤ cap.
        further_releases: The number of charges like this one that still fit, this one included, each without other
            plans. 0 for a charge of cost 0 or without a bound; `None` without a cap.
    """

    account: Account
    rho: Fraction | None
    spent: Fraction | None
    cap: Fraction | None
    remaining: Fraction | None
    fits: bool
    increase: Fraction | None
    epsilon_spent: Fraction | None = None
    epsilon_cap: Fraction | None = None
    mu_squared_spent: Fraction | None = None
    mu_squared_cap: Fraction | None = None
    further_releases: int | None = None


@final
class _Chain(list[LedgerEntry]):
    """Verified entries, oldest first, with two indices: a ledger of many answers is read in linear time.

    by_digest: each entry by its digest.
    answers: each entry of answers by the digest of its charge.
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_digest: dict[str, LedgerEntry] = {}
        self.answers: dict[str, LedgerEntry] = {}

    def append(self, entry: LedgerEntry, /) -> None:
        """Add an entry at the end, and to the indices."""
        super().append(entry)
        self.by_digest[entry.digest] = entry
        if entry.kind == "answers":
            self.answers[entry.detail["charge"]] = entry


@final
class Ledger:
    """An append-only file of caps, charges and refusals, shared safely between processes.

    The thread that opened a ledger uses it; other threads and processes open the same path. Each call is one
    transaction that reads and verifies the entire chain (about 0.1 ms an entry, 1 ms with the largest profile).

    Args:
        path: The file, made if it does not exist; its folder must exist. ``":memory:"`` makes a ledger that is
            forgotten when it is closed.

    Raises:
        LedgerError: The file is no ledger, has another format, was altered or replaced, is read-only or busy; or an
            argument is not exact. Every method can raise it. Draw no noise after it.

    **Guarantees**

    * spent = Σ over groups of their joint cost, exactly (rounded up where a joint cost is itself a bound). This holds
      over re-opening and over processes. Without ``composed_with`` it is Σ charges, in any order.
    * No charge raises the spent amount of any account of its name above the cap in force there, for any number of
      racing processes.
    * When ``charge`` returns, the entry is on the disk.
    * When ``charge`` raises a LedgerError, nothing was charged, unless the error states another outcome. If the disk
      failed while committing, the outcome is unknown. If the file was replaced while committing, the file that was
      there before has the charge.
    * A process killed at any moment leaves its entry complete or absent, and a file that opens and verifies.
    * SQL cannot update, delete or replace an entry; when the triggers were removed first, the chain shows it.
    * One damaged byte in the file is refused, or changes nothing that is read.
    * While it is open, a ledger raises if its file was replaced, also between charging and committing.
    * While it is open, a ledger raises if its file has a second name. SQLite would neither lock nor repair the file
      under such a hard link.
    * While it is open, a ledger raises if an entry that it has seen is missing.
    * A file that is no ledger is refused and left as it was, byte for byte. So is an empty file, which may be the
      remains of a ledger.
    """

    @checked(LedgerError, "Nothing was charged.")
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = None if os.fspath(path) == ":memory:" else Path(path).absolute()
        self._where = f"The ledger {self._path or 'in memory'}"
        self._owner = (os.getpid(), threading.get_ident())
        self._seen = (0, GENESIS)
        try:
            if self._path:
                _create(self._path)
            self._file = _identity(self._path)  # before connecting: a swap in between is noticed later
            with ExitStack() as undo:
                self._db = undo.enter_context(closing(_connect(self._path)))
                if not self._path:
                    _initialise(self._db)
                _recognise(self._db, self._where)
                self.verify()
                undo.pop_all()
        except _FILE_ERRORS as error:
            raise self._failure(error) from error

    @property
    def file(self) -> Path | None:
        """The file; `None` for a ledger in memory."""
        return self._path

    @property
    def lasting(self) -> bool:
        """True if the ledger is a file, which remains after the ledger is closed."""
        return self._path is not None

    def quote(
        self,
        account: Account,
        loss: Loss,
        *,
        also: Mapping[Account, Loss] | None = None,
        composed_with: Sequence[str] = (),
    ) -> Quote:
        """Return the effect of charging a loss now; `fits` and `further_releases` cover all accounts of the name.

        Another process may charge before you do.

        Args:
            account: The protected population and unit.
            loss: The cost of the release on its own.
            also: The cost for other accounts of the name.
            composed_with: Hashes of plans on whose records the release is measured.

        Raises:
            LedgerError: See :meth:`charge`.
        """
        request = _ChargeRequest.from_loss(account, loss, also or {}, composed_with)
        with self._transaction("BEGIN") as chain:
            quotes = _quotes(chain, request)
        further = min((q.further_releases for q in quotes if q.further_releases is not None), default=None)
        return replace(quotes[0], fits=all(q.fits for q in quotes), further_releases=further)

    def balance(self, account: Account) -> Quote:
        """Return the quote of a zero charge, also for an account that does not exist.

        Charges to other accounts of its name count.

        Args:
            account: The protected population and unit.

        Raises:
            LedgerError: The name of the account looks like another.
        """
        with self._transaction("BEGIN") as chain:
            _refuse_twin(chain, account)
            return _quote(chain, _nothing(account), account)

    def charge(
        self,
        account: Account,
        loss: Loss,
        detail: Mapping[str, Any],
        *,
        also: Mapping[Account, Loss] | None = None,
        composed_with: Sequence[str] = (),
        at_most: Fraction | None = None,
        drawn_period: DrawnPeriod | None = None,
        once: bool = False,
    ) -> LedgerEntry:
        """Spend a loss, its ρ > 0 rounded up to a multiple of 2⁻⁶⁴; the entry is on the disk before this returns.

        Args:
            account: The protected population and unit.
            loss: The cost of the release on its own. The detail keeps its profile, if the cost by cell is known. For a
                pure loss the detail keeps ε.
            detail: A JSON object without floats. The key "plan" holds the hash by which later charges can name this
                one.
            also: The cost of the release on its own for other accounts of the name; the detail keeps it. An account of
                the name that is not in it is charged the bound of :meth:`LedgerEntry.price`.
            composed_with: Hashes of plans charged to the same account. They state the promise that this release is
                measured on the same records, unchanged, as the charge of each plan. The detail keeps them; the charge
                needs a profile.
            at_most: The largest growth of the spent ρ of the account; `None` sets no such limit.
            drawn_period: The drawn period of a series. The first period charges the entire series. Another charge draws
                a period again, from its earlier counts.
            once: True to refuse if the account was charged for the plan before.

        Raises:
            BudgetExceeded: The charge does not fit under a cap of an account of the name. The ledger records a refusal;
                nothing was charged.
            LedgerError: The loss is not a Loss, or costs nothing.
            LedgerError: ``detail`` is not a JSON object without floats, or has a key that only the ledger writes.
            LedgerError: A period is given, and the detail names no plan.
            LedgerError: The period was drawn before, from other counts. So a series is started once.
            LedgerError: The period is not the first, and was not drawn before.
            LedgerError: A plan under `composed_with` was not charged to this account, was charged more than once, has
                no profile, or is a series. Or the loss has no profile, or the charge is itself a series.
            LedgerError: `also` has an account of another name, or two names of units look like one.
            LedgerError: The spent ρ would grow by more than `at_most`.
            LedgerError: The account does not exist, and its name has a cap or looks like another.
            LedgerError: `once` is set, and the account was charged for the plan before.
        """
        request = _ChargeRequest.from_loss(account, loss, also or {}, composed_with, drawn_period)
        full_detail = request.detailed(detail)
        with self._transaction("BEGIN IMMEDIATE") as chain:
            # The write lock is held since before the chain was read, so no other process spends in between.
            full = _full(chain, request, at_most)
            _in_turn(chain, "refusal" if full else "charge", account, full_detail)
            before = [e for e in _charges(chain, account) if once and e.detail.get("plan") == full_detail.get("plan")]
            if before:
                raise LedgerError(
                    "plan-charged-meanwhile",
                    f"Another process or call has charged this plan (entry {before[-1].sequence}).",
                    "",
                    "Run the command again. It finishes the release of that charge, if this is still to be done.",
                    "Nothing was charged and nothing was changed.",
                )
            entry = self._append(chain, "refusal" if full else "charge", account, request.own_price.rho, full_detail)
        if full:
            raise _refusal(full, entry)
        return entry

    def admit(
        self,
        account: Account,
        loss: Loss,
        detail: Mapping[str, Any],
        *,
        also: Mapping[Account, Loss] | None = None,
        composed_with: Sequence[str] = (),
        at_most: Fraction | None = None,
    ) -> None:
        """Refuse now what :meth:`charge` would refuse, before any data are read; charge nothing.

        A refusal is recorded as in :meth:`charge`. An admitted charge may be refused later, if others come first.

        Args, Raises: See :meth:`charge`.
        """
        request = _ChargeRequest.from_loss(account, loss, also or {}, composed_with)
        full_detail = request.detailed(detail)
        with self._transaction("BEGIN IMMEDIATE") as chain:
            full = _full(chain, request, at_most)
            entry = self._append(chain, "refusal", account, request.own_price.rho, full_detail) if full else None
        if full and entry:
            raise _refusal(full, entry)

    def period(self, account: Account, plan: str, drawn_period: DrawnPeriod) -> LedgerEntry:
        """Write the entry for the next drawn period of a series: on the disk before this returns. It costs nothing.

        Args:
            account: The account that the series was charged to.
            plan: The hash of the plan.
            drawn_period: The number of the period, and the digest of its counts.

        Raises:
            LedgerError: The plan was not charged to the account as a series, or it is not the turn of this period.
        """
        detail = {"plan": plan, "series": drawn_period.as_json()}
        with self._transaction("BEGIN IMMEDIATE") as chain:
            _in_turn(chain, "period", _named_account(account), detail)
            return self._append(chain, "period", account, Fraction(0), detail)

    def answer(self, charge: LedgerEntry, answers: str, keep: Callable[[], None] | None = None) -> LedgerEntry:
        """Write the digest of the answers to a charge; the entry is on the disk before this returns and costs nothing.

        Args:
            charge: The entry that charged them: a charge, or a period of a series.
            answers: The SHA-256 of the answers (:func:`fitnoise.kernel.arrays.answers_digest`).
            keep: A function called before the entry is written, while no one else can write to the ledger. It puts the
                stored answers in place, and raises if it cannot; then no entry is written.

        Raises:
            LedgerError: `answers` is not a digest.
            LedgerError: The ledger has no such charge, or already has an entry for its answers.
        """
        detail = {"charge": charge.digest, "answers": answers}
        if not all(map(is_digest, detail.values())):
            raise _answers_not_digests()
        with self._transaction("BEGIN IMMEDIATE") as chain:
            _answers_once(chain, "answers", charge.account, detail)
            if keep is not None:
                keep()
            return self._append(chain, "answers", charge.account, Fraction(0), detail)

    def answered(self, charge: LedgerEntry) -> LedgerEntry | None:
        """Return the entry that names the answers to a charge or a period; `None` if there is no such entry.

        Args:
            charge: The entry that charged the answers.
        """
        with self._transaction("BEGIN") as chain:
            return chain.answers.get(charge.digest)

    def charges(self, account: Account, plan: str) -> list[LedgerEntry]:
        """Return the charges of a plan to an account, oldest first, without those that draw a period of a series.

        Args:
            account: The account that the plan was charged to.
            plan: The hash of the plan.
        """
        with self._transaction("BEGIN") as chain:
            return [e for e in _charges(chain, account) if e.detail.get("plan") == plan and e.drawn_period is None]

    def series(self, account: Account, plan: str) -> list[LedgerEntry]:
        """Return the drawn periods of a series, in order: for each period its last entry.

        Args:
            account: The account that the series was charged to.
            plan: The hash of the plan.
        """
        with self._transaction("BEGIN") as chain:
            return _periods(chain, account, plan)

    def set_cap(
        self,
        account: Account,
        rho: Fraction | None = None,
        *,
        epsilon: Fraction | None = None,
        mu_squared: Fraction | None = None,
        reason: str = "",
    ) -> LedgerEntry:
        """Put a cap ρ ≥ 0, a cap on pure ε ≥ 0, or a cap on μ² ≥ 0, in force. Earlier caps stay in the ledger.

        A cap on ρ or μ² is rounded up to a multiple of 2⁻⁶⁴, as charges are. So a cap equal to the cost of a plan
        admits that plan. A cap on ε is exact, as sums of ε are.

        The cap may lie below the spent amount: then nothing fits any more. Under a cap on ε only pure charges fit, and
        nothing fits after a charge that is not pure. Under a cap on μ² all charges jointly are μ-Gaussian-private, also
        when each was chosen after the releases before it. Nothing fits there if the μ² of an earlier charge is not
        known.

        An account that does not exist is opened. Earlier charges under its name count (:meth:`balance`).

        Raises:
            LedgerError: The cap is not exactly one fraction ≥ 0, or is too long to be written.
            LedgerError: The account does not exist, and its name looks like another.
            LedgerError: The account does not exist, and nothing bounds earlier charges under its name: no release would
                ever fit.
        """
        caps = {key: x for key, x in (("rho", rho), ("epsilon", epsilon), ("mu_squared", mu_squared)) if x is not None}
        if len(caps) != 1:
            raise LedgerError(
                "cap-kind-not-single",
                f"The cap limits {len(caps)} of ρ, ε and μ².",
                "",
                "Give exactly one of rho, epsilon and mu_squared.",
                "Nothing was charged and nothing was changed.",
            )
        ((kind, top),) = caps.items()
        if not isinstance(top, Fraction) or top < 0:
            raise LedgerError(
                "cap-not-a-fraction",
                f"The cap is {reprlib.repr(top)}.",
                "A cap is a Fraction of at least 0.",
                "Give such a Fraction.",
                "Nothing was charged and nothing was changed.",
            )
        top = _bounded(top, rounded=kind != "epsilon")
        cap = _bounded(top**2 / 2 if kind == "epsilon" else top / 2 if kind == "mu_squared" else top, rounded=False)
        detail = ({"reason": reason} if reason else {}) | ({} if kind == "rho" else {kind: str(top)})
        with self._transaction("BEGIN IMMEDIATE") as chain:
            _refuse_twin(chain, _named_account(account))
            if account not in _accounts(chain, account) and _quote(chain, _nothing(account), account).spent is None:
                raise LedgerError(
                    "cap-never-fits",
                    f"Nothing bounds the cost of earlier releases of {account.source!r} for {account.sentence!r}.",
                    "No release would ever fit under a cap for this unit.",
                    "Set a cap for a unit that the earlier releases state.",
                    "Nothing was charged and nothing was changed.",
                )
            return self._append(chain, "cap", account, cap, detail)

    def accounts(self) -> list[Account]:
        """Return every account so far, in order of appearance: of entries, and of other units that charges state."""
        with self._transaction("BEGIN") as chain:
            return _all_accounts(chain)

    def entries(self, account: Account | None = None) -> list[LedgerEntry]:
        """Return every entry, or every entry of one account, oldest first.

        Args:
            account: The account of the entries; `None` for all.
        """
        with self._transaction("BEGIN") as chain:
            return [entry for entry in chain if account is None or entry.account == account]

    def charged(self, account: Account) -> list[ChargedPlan]:
        """Return the plans charged to an account on the same records, with the cost of each in every cell.

        Raises:
            LedgerError: The account has no charge, or its charges are not all promised to be on the same records. Only
                the publisher can know which records a release used.
            LedgerError: A charge has no profile or names no plan.
        """
        with self._transaction("BEGIN") as chain:
            groups = _groups(_charges(chain, account))
        if len(groups) != 1:
            raise LedgerError(
                "releases-not-on-same-records",
                f"{account.source!r} ({account.sentence}) has {len(groups)} groups of releases on the same records.",
                "Exactly one group is needed, because fitnoise cannot check which records a release used.",
                "Name the plans whose releases used the same records.",
                "Nothing was charged and nothing was changed.",
            )
        for entry in groups[0]:
            if not isinstance(entry.detail.get("plan"), str):
                raise LedgerError(
                    "entry-without-plan",
                    f"Entry {entry.sequence} names no plan.",
                    "Another release can use the records of an entry only by the name of its plan.",
                    "Name plans that the ledger has.",
                    "Nothing was charged and nothing was changed.",
                )
        return [ChargedPlan(entry.detail["plan"], _required_profile(entry)) for entry in groups[0]]

    def groups(self, account: Account) -> list[ChargeGroup]:
        """Return all charges to the accounts of a name, in groups of those on the same records.

        Args:
            account: An account of that name.
        """
        with self._transaction("BEGIN") as chain:
            charges = [entry for entry in chain if entry.kind == "charge" and entry.account.source == account.source]
        return [ChargeGroup(tuple(group)) for group in _groups(charges)]

    def head(self) -> tuple[int, str]:
        """Return sequence number and digest of the last entry; (0, :data:`GENESIS`) without one. Write them down."""
        with self._transaction("BEGIN") as chain:
            return _head(chain)

    def verify(self, expected_head: tuple[int, str] | None = None) -> int:
        """Recompute every digest; return the number of entries.

        Args:
            expected_head: A :meth:`head` written down earlier, through which the chain must pass. Without one, the
                ledger cannot detect that a tail was cut off, or that a chain was forged from its beginning.

        Raises:
            LedgerError: An entry is missing, out of place or changed. The error names the first such entry.
        """
        with self._transaction("BEGIN") as chain:
            self._passes(chain, expected_head or (0, GENESIS))
            return len(chain)

    def close(self) -> None:
        """Let go of the file. Closing twice does no harm."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self, begin: Literal["BEGIN", "BEGIN IMMEDIATE"]) -> Iterator[_Chain]:
        """Lend the verified chain; what is appended meanwhile is committed at the end, or not at all."""
        if self._owner != (os.getpid(), threading.get_ident()):
            raise LedgerError(
                "opened-elsewhere",
                f"{self._where} was opened by another thread or process.",
                "",
                "Open it in this one.",
                "This operation charged nothing and changed nothing.",
            )
        committing = ended = False
        try:
            self._db.execute(begin)
            try:
                chain = self._read()
                yield chain
                self._refuse_replaced()
                committing = True
                self._db.execute("COMMIT")
                # The entry is committed to the file that was open. If another file is at the path now, success would
                # mislead.
                if self._has_changed():
                    raise LedgerError(
                        "replaced-while-writing",
                        f"{self._where} was replaced, or got a second name, while it was used.",
                        "",
                        "Bring back the file that was there before, with one name: it has what was written.",
                        "What was written stays in that file.",
                    )
                self._seen = _head(chain)
            finally:
                ended = not self._db.in_transaction
                if not ended:
                    self._db.execute("ROLLBACK")
        except _FILE_ERRORS as error:
            raise self._failure(error, unknown=committing and ended) from error

    def _read(self) -> _Chain:
        """Return the entire chain, verified inside the transaction that will use it."""
        self._refuse_replaced()
        chain = _Chain()
        if {sql for (sql,) in self._db.execute("SELECT sql FROM sqlite_master")} != set(_SCHEMA):
            raise LedgerError(
                "schema-altered",
                f"{self._where} was altered: its table or its triggers are not those of a ledger.",
                "",
                "Restore a copy, and verify it against a head that you wrote down.",
                "This operation charged nothing and changed nothing.",
            )
        for row in self._db.execute("SELECT * FROM entries ORDER BY sequence"):
            self._follow(chain, row)
        # A file that was cut or exchanged does not pass through the last head that this ledger saw.
        self._passes(chain, self._seen)
        return chain

    def _has_changed(self) -> bool:
        """Return True if the path leads to another file, or the file got a second name. Says nothing of the past."""
        try:
            return self._file != _identity(self._path)
        except LedgerError:
            return True

    def _refuse_replaced(self) -> None:
        if self._file != _identity(self._path):
            raise LedgerError(
                "file-replaced",
                f"{self._where} was replaced by another file after it was opened.",
                "",
                "Open it again.",
                "This operation charged nothing and changed nothing.",
            )

    def _follow(self, chain: _Chain, row: tuple[Any, ...]) -> None:
        """Verify one row against the chain before it, and lengthen the chain by it."""
        last, digest = _head(chain)
        if row[0] != last + 1:
            raise LedgerError(
                "entry-missing",
                f"{self._where} was altered: entry {last + 1} is missing, and the next entry has the number {row[0]}.",
                "",
                "Restore a copy, and verify it against a head that you wrote down.",
                "This operation charged nothing and changed nothing.",
            )
        if row[-2] != digest:
            raise LedgerError(
                "entry-not-chained",
                f"{self._where} was altered: entry {last + 1} does not follow the entry before it.",
                "",
                "Restore a copy, and verify it against a head that you wrote down.",
                "This operation charged nothing and changed nothing.",
            )
        try:
            entry, recomputed = _entry(row), _digest(row[:-1])
            _check_composed(chain, entry.account, entry.composed_plans)
            _in_turn(chain, entry.kind, entry.account, entry.detail)
            _answers_once(chain, entry.kind, entry.account, entry.detail)
        except (LedgerError, TypeError, ValueError, ZeroDivisionError, RecursionError) as error:
            raise LedgerError(
                "entry-invalid",
                f"{self._where} was altered, or was given an invalid entry: entry {last + 1} is not an entry that a "
                "ledger writes.",
                "",
                "Correct the arguments of the call. If the file has this entry, restore a copy, and verify it against "
                "a head that you wrote down.",
                "This operation charged nothing and changed nothing.",
            ) from error
        if entry.digest != recomputed:
            raise LedgerError(
                "entry-changed",
                f"{self._where} was altered: entry {last + 1} was changed after it was written.",
                "",
                "Restore a copy, and verify it against a head that you wrote down.",
                "This operation charged nothing and changed nothing.",
            )
        chain.append(entry)

    def _append(
        self, chain: _Chain, kind: str, account: Account, rho: Fraction, detail: Mapping[str, Any]
    ) -> LedgerEntry:
        """Write the next entry within the open transaction, and lengthen the chain by it."""
        last, previous = _head(chain)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        columns = (last + 1, kind, account.source, account.key, str(rho), now, _object(detail), previous)
        row = (*columns, _digest(columns))
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._follow(chain, row)  # what is handed out is what the next reader will read
        return chain[-1]

    def _passes(self, chain: list[LedgerEntry], head: tuple[int, str]) -> None:
        """Raise unless the chain passes through the head."""
        sequence, digest = head
        if not 0 <= sequence <= len(chain) or _head(chain[:sequence])[1] != digest:
            raise LedgerError(
                "head-not-found",
                f"{self._where} was altered, or is another ledger: none of its {len(chain)} entries is entry "
                f"{sequence} with digest {digest}.",
                "Its tail may have been cut off, or its entries may have been rewritten.",
                "Restore a copy, and verify it against a head that you wrote down.",
                "This operation charged nothing and changed nothing.",
            )

    def _failure(self, error: Exception, *, unknown: bool = False) -> LedgerError:
        failure = _file_failure(self._where, error)
        if not unknown:
            return failure
        return LedgerError(
            "writing-unknown",
            failure.given,
            "Whether the entry was written is unknown.",
            f"Look at the ledger before you try again. {failure.action}",
            "It is unknown whether this operation charged anything.",
        )


def _file_failure(where: str, error: Exception) -> LedgerError:
    """Return the error for a failure of SQLite or of the file system.

    Args:
        where: Name of the ledger, at the beginning of a sentence.
        error: The failure.
    """
    failures = {
        sqlite3.SQLITE_NOTADB: _not_a_ledger(where),
        sqlite3.SQLITE_CORRUPT: _damaged(where),
        sqlite3.SQLITE_BUSY: LedgerError(
            "ledger-busy",
            f"{where} cannot be used: another process holds it and did not release it in time.",
            "",
            "Try again when that process is done.",
            "This operation charged nothing and changed nothing.",
        ),
        sqlite3.SQLITE_READONLY: LedgerError(
            "read-only",
            f"{where} cannot be used: it is read-only, or it was moved while it was open.",
            "",
            "Ask its owner for permission to write to it, or open it again.",
            "This operation charged nothing and changed nothing.",
        ),
        sqlite3.SQLITE_FULL: LedgerError(
            "disk-full",
            f"{where} cannot be used: its disk is full.",
            "",
            "Free some space on the disk.",
            "This operation charged nothing and changed nothing.",
        ),
    }
    other = LedgerError(
        "ledger-unusable",
        f"{where} cannot be used: {error}.",
        "",
        "Correct the cause, then try again.",
        "This operation charged nothing and changed nothing.",
    )
    return failures.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, other)


def _not_a_ledger(where: str) -> LedgerError:
    """Return the error for a file of another kind."""
    return LedgerError(
        "not-a-ledger",
        f"{where} is not a ledger.",
        "",
        "Give the path of a ledger, or of a file that does not exist yet.",
        "This operation charged nothing and changed nothing.",
    )


def _damaged(where: str) -> LedgerError:
    """Return the error for damaged pages."""
    return LedgerError(
        "pages-damaged",
        f"{where} cannot be used: its pages are damaged.",
        "",
        "Restore a copy, and verify it against a head that you wrote down.",
        "This operation charged nothing and changed nothing.",
    )


def _create(path: Path) -> None:
    """Put an empty ledger at the path if nothing exists there; an existing path must be a file that is not empty.

    The ledger is made under another name and linked into place when complete. So no crash and no other process ever
    meets half a ledger, and an empty file can be refused. This needs a file system with hard links. Its name is as
    durable as its first entry: synchronous=EXTRA also syncs the folder.
    """
    if not path.parent.is_dir():
        raise LedgerError(
            "folder-missing",
            f"The folder {path.parent} of the ledger does not exist.",
            "",
            "Make the folder first.",
            "Nothing was charged and nothing was changed.",
        )
    if not path.exists():
        # for its owner's eyes: 0600
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.unfinished-", dir=path.parent)
        try:
            os.close(handle)
            with closing(_connect(Path(name))) as db:
                _initialise(db)
            with suppress(FileExistsError):  # another process was first: then that one is the ledger
                path.hardlink_to(name)  # unlike a rename, this never replaces a file
        finally:
            Path(name).unlink(missing_ok=True)  # another process that opens the ledger first may take it for a leftover
    if not path.is_file():
        raise LedgerError(
            "not-a-file",
            f"{path} is not a file, so it is not a ledger.",
            "",
            "Give another path.",
            "Nothing was charged and nothing was changed.",
        )
    size = path.stat().st_size
    if not size:
        raise LedgerError(
            "file-empty",
            f"The ledger {path} is empty, and may be the rest of a damaged ledger.",
            "",
            "Restore a copy, or delete the file.",
            "Nothing was charged and nothing was changed.",
        )
    if size > _MAX_BYTES:
        raise LedgerError(
            "file-too-large",
            f"{path} has {size:,} bytes, and a ledger has at most {_MAX_BYTES:,}.",
            "",
            "Give the path of a ledger.",
            "Nothing was charged and nothing was changed.",
        )


def _identity(path: Path | None) -> tuple[int, int]:
    """Return device and inode of the file at the path.

    Raises:
        LedgerError: The file has a second name. The function first removes a name left by a process that was killed
            while it made the ledger.
    """
    if path is None:
        return (0, 0)
    if path.stat().st_nlink > 1:
        real = path.resolve()
        ours = re.compile(rf"\.{re.escape(real.name)}\.(unfinished-)?[a-z0-9_]{{8}}")  # as `_create` names it
        for other in real.parent.iterdir():
            with suppress(FileNotFoundError):
                if ours.fullmatch(other.name) and other.samefile(real):
                    other.unlink()
    status = path.stat()
    if status.st_nlink > 1:
        raise LedgerError(
            "file-has-several-names",
            f"The ledger {path} has {status.st_nlink} names (hard links).",
            "An entry written under one name could be lost under another.",
            "Remove the other names, and make backups as copies.",
            "This operation charged nothing and changed nothing.",
        )
    return (status.st_dev, status.st_ino)


def _connect(path: Path | None) -> sqlite3.Connection:
    """Return a connection that creates no file, begins no transaction by itself and has touched nothing yet."""
    target = f"{path.as_uri()}?mode=rw" if path else ":memory:"
    db = sqlite3.connect(target, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_TEXT)
    db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")  # injective: bad bytes break a digest
    return db


def _initialise(db: sqlite3.Connection) -> None:
    """Make an empty database a ledger without entries."""
    marks = (f"PRAGMA application_id={_APPLICATION}", f"PRAGMA user_version={_FORMAT}")
    for statement in ("PRAGMA synchronous=EXTRA", "BEGIN IMMEDIATE", *_SCHEMA, *marks, "COMMIT"):
        db.execute(statement)


def _recognise(db: sqlite3.Connection, where: str) -> None:
    """Refuse what is not a ledger, before touching it; then make its commits durable."""
    if db.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
        raise _not_a_ledger(where)
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version != _FORMAT:
        raise LedgerError(
            "format-unknown",
            f"{where} has format {version}, and this fitnoise reads and writes only format {_FORMAT}.",
            "",
            "Use the fitnoise that wrote it, or open a new ledger whose caps leave out the spent budget of this one.",
            "Nothing was charged and nothing was changed.",
        )
    db.execute("PRAGMA trusted_schema=OFF")  # a schema from elsewhere runs no function with side effects
    (pages,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if pages != "ok":  # one flipped bit in a count of cells hides the last entry from the chain
        raise _damaged(where)
    db.execute("PRAGMA journal_mode=DELETE")  # one file, after any mode that another program left
    db.execute("PRAGMA synchronous=EXTRA")  # sync file, journal and folder at every commit
    db.execute("PRAGMA fullfsync=ON")  # on macOS a plain sync stops at the cache of the disk


def _answers_not_digests() -> LedgerError:
    """Return the error for an entry of answers without the digests that it names."""
    return LedgerError(
        "answers-not-digests",
        "An entry of answers names something other than two digests.",
        "It names the SHA-256 of its charge and the SHA-256 of the answers.",
        "Give both digests.",
        "The answers were not recorded.",
    )


def _short(x: Fraction) -> bool:
    """Return True if numerator and denominator are short enough to be written."""
    return max(x.numerator.bit_length(), x.denominator.bit_length()) <= _MAX_BITS


def _bounded(rho: Fraction, *, rounded: bool = True) -> Fraction:
    """Return ρ, rounded up to a multiple of 2⁻⁶⁴ or exact; raise if it is below 0 or too long to be written."""
    above = ceil_dyadic(rho)  # also refuses what is no Fraction
    amount = above if rounded else rho
    if rho < 0 or not _short(amount):
        raise LedgerError(
            "cost-out-of-range",
            f"A cost or a cap is {reprlib.repr(rho)}.",
            f"It is at least 0, and its numerator and denominator have at most {_MAX_BITS} bits.",
            "Give a number in this range.",
            "Nothing was charged and nothing was changed.",
        )
    return amount


def _exactly(text: object) -> Fraction:
    """Return a number ≥ 0 from the text that a Fraction writes."""
    exact = Fraction(*map(int, text.split("/"))) if isinstance(text, str) else Fraction(-1)
    if exact < 0 or str(exact) != text:
        raise LedgerError(
            "number-not-readable",
            "A number of an entry is not a fraction of at least 0 in lowest terms.",
            "",
            "Give the number as fitnoise writes it.",
            "Nothing was charged and nothing was changed.",
        )
    return exact


def _named_account(account: Account) -> Account:
    if not isinstance(account, Account):
        raise LedgerError(
            "not-an-account",
            f"The account is {reprlib.repr(account)}, which is not an Account.",
            "",
            "Name a source and a unit.",
            "Nothing was charged and nothing was changed.",
        )
    return account


def _stands(price: Price, composed_with: tuple[str, ...]) -> None:
    """Raise unless the plans under `composed_with` are hashes, and a charge with such plans has a profile."""
    if not all(isinstance(plan, str) and plan for plan in composed_with):
        raise LedgerError(
            "composed-plans-not-hashes",
            f"The plans on the same records are {reprlib.repr(composed_with)}.",
            "Each of these plans is named by its hash.",
            "Give the hash of each plan.",
            "Nothing was charged and nothing was changed.",
        )
    if composed_with and price.profile is None:
        raise LedgerError(
            "composed-plans-need-profile",
            "The charge names other plans on the same records, and has no profile.",
            "Only a profile shows the cost of each cell.",
            "Charge a release with a profile, or name no other plans.",
            "Nothing was charged and nothing was changed.",
        )


@final
@dataclass(frozen=True)
class _ChargeRequest:
    """A requested charge: its prices, that of its own unit first, and the plans on whose records it is measured."""

    account: Account
    prices: Mapping[Account, Price]
    composed_with: tuple[str, ...]
    drawn_period: DrawnPeriod | None = None

    @classmethod
    def from_loss(
        cls,
        account: Account,
        loss: Loss,
        also: Mapping[Account, Loss],
        composed_with: Sequence[str],
        drawn_period: DrawnPeriod | None = None,
    ) -> _ChargeRequest:
        """Return the requested charge, or raise if it cannot be written or names plans without a profile of its own."""
        if not isinstance(composed_with, list | tuple):  # the text of one plan is neither
            raise LedgerError(
                "composed-plans-not-a-list",
                f"The plans on the same records are {reprlib.repr(composed_with)}.",
                "",
                "Give a list of their hashes.",
                "Nothing was charged and nothing was changed.",
            )
        own_price = Price.from_loss(loss)
        _stands(own_price, tuple(composed_with))
        name = _named_account(account).source
        others = {_named_account(a): Price.from_loss(x) for a, x in also.items() if a != account}
        if any(a.source != name for a in others):
            raise LedgerError(
                "price-of-another-source",
                "The charge states a cost for an account of another name.",
                "A charge states costs only for accounts of its own name.",
                "Remove the other accounts.",
                "Nothing was charged and nothing was changed.",
            )
        return cls(account, {account: own_price} | others, tuple(composed_with), drawn_period)

    @property
    def own_price(self) -> Price:
        """The price for its own unit."""
        return self.prices[self.account]

    def detailed(self, detail: Mapping[str, Any]) -> dict[str, Any]:
        """Return a detail with the ledger's own keys, or raise if it is invalid or the charge costs nothing."""
        if not self.own_price.rho:
            raise LedgerError(
                "charge-of-nothing",
                "The charge has ρ = 0.",
                "No release is free, so the cost of a charge is above 0.",
                "Charge the exact cost of the release.",
                "Nothing was charged and nothing was changed.",
            )
        document: dict[str, Any] = json.loads(_object(detail))
        if document.keys() & _RESERVED_DETAIL_KEYS:
            raise LedgerError(
                "detail-has-own-keys",
                "The detail of the charge has keys of the ledger's own.",
                f"The ledger itself writes {', '.join(sorted(_RESERVED_DETAIL_KEYS))}.",
                "Remove these keys from the detail.",
                "Nothing was charged and nothing was changed.",
            )
        return document | self.as_json()

    def as_json(self) -> dict[str, Any]:
        """Return the keys that the ledger itself writes into the detail."""
        others = {a: p for a, p in self.prices.items() if a != self.account}
        units = [{"unit": a.document, "rho": str(p.rho)} | p.as_json() for a, p in others.items()]
        document = self.own_price.as_json() | (
            {"composed_with": list(self.composed_with)} if self.composed_with else {}
        )
        document |= {} if self.drawn_period is None else {"series": self.drawn_period.as_json()}
        return document | ({"units": units} if units else {})


def _nothing(account: Account) -> _ChargeRequest:
    return _ChargeRequest.from_loss(account, Loss.of_epsilon(Fraction(0), by_cell=False), {}, ())


def _price(declared: Account, prices: Mapping[Account, Price], for_account: Account) -> Price | None:
    """Return a stated price, or the least bound from the stated prices (:meth:`LedgerEntry.price`)."""
    if for_account in prices:
        return prices[for_account]
    stated = [account.unit for account in prices]
    changes = [
        (price, _changes(declared.unit, account.unit, for_account.unit, stated)) for account, price in prices.items()
    ]
    # Rule 9: every stated price can give a bound, and the least of them holds. Without any, the cost is infinite.
    bounds = (price.repeated(times) for price, times in changes if times is not None)
    return min(bounds, key=lambda p: (p.rho, p.epsilon or Fraction(0), p.mu_squared or Fraction(0)), default=None)


def _changes(
    declared: PrivacyUnit, declared_unit: PrivacyUnit, unit: PrivacyUnit, stated: Sequence[PrivacyUnit]
) -> int | None:
    """Return the number of changes of `declared_unit` that make one change of `unit`; `None` if it is unknown.

    declared: The unit for which the data were counted.
    stated: Units for which the number of records may have been promised; the largest number is the safe one.
    """
    counted = Adjacency(declared)
    one, other = counted.for_unit(declared_unit), counted.for_unit(unit, *([] if unit.id is not None else stated))
    if one is None or other is None or (other.unit.id is not None and one.unit.id is None):
        return None  # an account by an id does not say how many records of a person are counted, which may be many
    return one.changes(other)


def _accounts(chain: list[LedgerEntry], account: Account) -> list[Account]:
    """Return the existing accounts of a name, in order of appearance."""
    return [a for a in _all_accounts(chain) if a.source == account.source]


def _all_accounts(chain: list[LedgerEntry]) -> list[Account]:
    """Return every account, in order of appearance: those of entries, and those of other units that charges state."""
    return list(dict.fromkeys(a for e in chain for a in (e.prices if e.kind == "charge" else (e.account,))))


def _check_composed(chain: list[LedgerEntry], account: Account, composed_with: tuple[str, ...]) -> None:
    """Raise unless every plan was charged to the account before, once, with a profile.

    Then every charge of the groups to unite has one: a group of more than one was united under this rule.
    """
    for plan in composed_with:
        charges = [entry for entry in _charges(chain, account) if entry.detail.get("plan") == plan]
        if len(charges) > 1:
            raise LedgerError(
                "composed-plan-released-again",
                f"The plan {plan[:64]!r} was released {len(charges)} times.",
                "fitnoise cannot know which of these releases used the same records.",
                "Plan without this plan among those on the same records.",
                "Nothing was charged and nothing was changed.",
            )
        if not charges:
            raise LedgerError(
                "composed-plan-not-charged",
                f"{account.source!r} ({account.sentence}) has no charge for the plan {plan[:64]!r}.",
                "The plans on the same records were released before, from the same source for the same unit.",
                "Release that plan first, or plan without it.",
                "Nothing was charged and nothing was changed.",
            )
        for entry in charges:
            _required_profile(entry)
            if entry.drawn_period is not None:
                raise LedgerError(
                    "composed-plan-a-series",
                    f"Entry {entry.sequence} is the charge of a series.",
                    "The records of a series arrive over time, so no other release uses the same records.",
                    "Plan without the series among the plans on the same records.",
                    "Nothing was charged and nothing was changed.",
                )


def _required_profile(entry: LedgerEntry) -> Profile:
    if entry.profile is None:
        raise LedgerError(
            "entry-without-profile",
            f"Entry {entry.sequence} has no profile, so its cost may fall in any cell.",
            "A release on the same records needs the cost of each cell.",
            "Plan without the plan of this entry among those on the same records.",
            "Nothing was charged and nothing was changed.",
        )
    return entry.profile


def _periods(chain: list[LedgerEntry], account: Account, plan: object) -> list[LedgerEntry]:
    """Return the drawn periods of a series, in order: for each period its last entry."""
    by_period: dict[int, LedgerEntry] = {}
    for entry in chain:
        drawn_period = entry.drawn_period if entry.kind in {"charge", "period"} else None
        if drawn_period is not None and entry.account == account and entry.detail["plan"] == plan:
            by_period[drawn_period.period] = entry
    return [by_period[period] for period in sorted(by_period)]


def _in_turn(chain: list[LedgerEntry], kind: str, account: Account, detail: Mapping[str, Any]) -> None:
    """Raise unless an entry that draws a period of a series draws the one whose turn it is, or one again, charged."""
    if "series" not in detail or kind == "refusal":
        return
    requested, entries = DrawnPeriod.parse(detail["series"]), _periods(chain, account, detail.get("plan"))
    # Rule 11: a period that was drawn before can be drawn again only as a charge of its own.
    is_repeat = kind == "charge" and requested.period <= len(entries)
    if not is_repeat and requested.period != len(entries) + 1:
        last = f"period {len(entries)} was drawn last" if entries else "no period was drawn"
        raise LedgerError(
            "series-not-in-turn",
            f"Period {requested.period} of the series is not next: {last}.",
            "Each period is drawn once, in order.",
            "Draw the next period.",
            "Nothing was charged and nothing was changed.",
        )
    if is_repeat and entries[requested.period - 1].drawn_period != requested:
        raise LedgerError(
            "series-counts-differ",
            f"Period {requested.period} of the series was drawn before, from other counts.",
            "A period is drawn again only from the counts that were frozen for it.",
            "Restore the frozen counts of this period.",
            "Nothing was charged and nothing was changed.",
        )
    if not is_repeat and (kind == "charge") != (requested.period == 1):
        raise LedgerError(
            "series-not-charged-first",
            "An entry charges a later period of the series, or draws the first period without a charge.",
            "The first period is charged with the complete series. A later one is charged only if it is drawn again.",
            "Charge the series with its first period only.",
            "Nothing was charged and nothing was changed.",
        )


def _answers_once(chain: _Chain, kind: str, account: Account, detail: Mapping[str, Any]) -> None:
    """Raise unless an entry of answers names a charge or a period of its account that has no such entry."""
    if kind != "answers":
        return
    charge = chain.by_digest.get(detail["charge"])
    if charge is None or charge.kind not in {"charge", "period"} or charge.account != account:
        raise LedgerError(
            "answers-without-charge",
            "The entry of answers names no charge and no period of this account.",
            "Answers belong to a charge, or to a period of a series, that the ledger has for this account.",
            "Name the charge that the answers were drawn for.",
            "The answers were not recorded.",
        )
    # Rule 13: a second set of answers would publish two draws at the price of one.
    other = chain.answers.get(charge.digest)
    if other is not None:
        raise LedgerError(
            "answers-recorded-before",
            f"Entry {other.sequence} names the answers to entry {charge.sequence} already.",
            "A charge has one set of answers, and another draw was recorded first.",
            "Use the answers of that draw.",
            f"These answers were not recorded, and the charge of entry {charge.sequence} stays in the ledger.",
        )


def _refuse_twin(chain: list[LedgerEntry], account: Account) -> None:
    """Raise if a new name looks like an existing one: a new source, or a new name of a unit in an existing source."""
    units = {a.unit.name: a for a in _accounts(chain, account)}
    key, names = (account.unit.name, units) if units else (account.source, {e.account.source: e.account for e in chain})
    twin = None if key in names else next((a for name, a in names.items() if are_confusable(name, key)), None)
    if twin is not None:
        raise LedgerError(
            "account-looks-alike",
            f"{account.source!r} ({account.sentence}) looks like {twin.source!r} ({twin.sentence}), which the "
            "ledger has.",
            "Two names would have two budgets.",
            "Give the name in the ledger, or a name that no one confuses with it.",
            "Nothing was charged and nothing was changed.",
        )


def _charges(chain: list[LedgerEntry], account: Account) -> list[LedgerEntry]:
    return [entry for entry in chain if entry.kind == "charge" and entry.account == account]


def _holding(groups: list[list[LedgerEntry]], account: Account, plans: tuple[str, ...]) -> list[list[LedgerEntry]]:
    """Return the groups that hold a charge of one of these plans to the account."""
    return [g for g in groups if any(e.account == account and e.detail.get("plan") in plans for e in g)]


def _groups(charges: list[LedgerEntry]) -> list[list[LedgerEntry]]:
    """Return the charges in groups of those that are promised to be on the same records."""
    groups: list[list[LedgerEntry]] = []
    for entry in charges:
        united = _holding(groups, entry.account, entry.composed_plans) if entry.composed_plans else []
        if united:
            groups = [group for group in groups if group not in united]
        # Rule 7: a charge unites the groups of the plans that it names. Without such a plan it is a group of its own.
        groups.append([*(e for group in united for e in group), entry])
    return groups


def _joint_cost(prices: list[Price | None]) -> Fraction | None:
    """Return the joint cost of charges on the same records; `None` where nothing bounds one of them."""
    bounded = [price for price in prices if price is not None]
    if len(bounded) < len(prices):
        return None
    profiles = [price.profile for price in bounded if price.profile is not None]
    # Only profiles can be summed cell by cell. If one is missing, ρ adds (rule 7).
    joined = len(bounded) > 1 and len(profiles) == len(bounded)
    return joint(profiles) if joined else sum((price.rho for price in bounded), Fraction(0))


def _joint_mu(prices: list[Price | None]) -> Fraction | None:
    """Return the joint μ² of charges on the same records; `None` where one is not known.

    It is the sum, or the bound that their joint ρ implies, if that is less.
    """
    bounded = [(price, mu) for price in prices if price and (mu := price.known_mu_squared) is not None]
    if len(bounded) < len(prices):
        return None
    total = sum((mu for _, mu in bounded), Fraction(0))
    cells = [(p.mu_rate, p.profile) for p, _ in bounded if p.profile is not None and p.mu_rate is not None]
    # For one charge, or for one without a profile, only the sum of the μ² is proven (rule 10).
    if len(cells) < max(2, len(bounded)):
        return total
    # In every cell μ² is at most the rate times ρ, so the largest rate bounds μ² by the joint ρ.
    return min(total, ceil_dyadic(max(rate for rate, _ in cells) * joint(profile for _, profile in cells)))


def _joint_epsilon(prices: list[Price | None]) -> Fraction | None:
    """Return Σ ε; `None` where one charge is not pure."""
    # Rule 8: ε adds up, also on the same records, and a charge with a δ counts as infinite.
    return _total([None if price is None else price.epsilon for price in prices])


def _quotes(chain: list[LedgerEntry], request: _ChargeRequest) -> list[Quote]:
    """Return the effect of a charge on all accounts of its name, its own first.

    Raises:
        LedgerError: The account does not exist, and its name has a cap or looks like another.
        LedgerError: A plan named as being on the same records was not charged, was released twice, has no profile, or
            is a series.
    """
    charged, stated = request.account, list(request.prices)
    for i, account in enumerate(stated):
        _refuse_twin(chain, account)
        if any(a.unit.name != account.unit.name and are_confusable(a.unit.name, account.unit.name) for a in stated[:i]):
            raise LedgerError(
                "units-look-alike",
                f"Two units of one charge have names that look the same: {[a.sentence for a in stated]}.",
                "Two names would have two budgets.",
                "Give the units names that no one confuses.",
                "Nothing was charged and nothing was changed.",
            )
    _check_composed(chain, charged, request.composed_with)
    accounts = _accounts(chain, charged)
    capped = next((e for e in chain if e.kind == "cap" and e.account in accounts), None)
    # Rule 9: a new account would have no cap, although its name has one.
    if charged not in accounts and capped is not None:
        raise LedgerError(
            "account-beside-cap",
            f"{charged.source!r} has a cap for {capped.account.sentence!r}, and no account for "
            f"{charged.sentence!r}{_otherwise(accounts, charged)}.",
            "A cap covers all accounts of a name, so a new account needs a decision of its own.",
            "Plan for a unit in the ledger, or open an account with its own cap: fitnoise ledger … --cap … "
            "--open-account --plan ….",
            "Nothing was charged and nothing was changed.",
        )
    return [_quote(chain, request, account) for account in (charged, *(a for a in accounts if a != charged))]


def _otherwise(accounts: Sequence[Account], account: Account) -> str:
    """Return the part of an error about the cells of a promise; empty if no existing account promises other cells.

    An existing account has an equal unit. The text lists the attributes whose cells it declares otherwise.
    """
    there = next((dict(a.cells) for a in accounts if a.unit == account.unit), {})
    names = [name for name, cells in account.cells if there.get(name, cells) != cells]
    if not names:
        return ""
    return f", which promises other cells of {' and '.join(map(repr, names))}"


def _full(chain: list[LedgerEntry], request: _ChargeRequest, at_most: Fraction | None) -> Quote | None:
    """Return the quote of an account of the name under whose cap a charge does not fit; `None` if it fits under all.

    Raises:
        LedgerError: The spent ρ of its own account would grow by more than `at_most`; or see `_quotes`.
    """
    quotes = _quotes(chain, request)
    grows = quotes[0].increase
    if at_most is not None and (grows is None or grows > at_most):
        raise LedgerError(
            "free-plan-costs",
            f"The charge would raise the spent ρ by {_rho_text(grows)}, and it may raise it by at most "
            f"{_rho_text(at_most)}.",
            "The plan does not name all plans on the same records, or another release was charged since.",
            "Plan again.",
            "Nothing was charged and nothing was changed.",
        )
    return next((quote for quote in quotes if not quote.fits), None)


def _quote(chain: list[LedgerEntry], request: _ChargeRequest, account: Account) -> Quote:
    """Compute the quote: spent = Σ groups; cap = the last one; fits ⟺ spent + increase ≤ cap, in ρ, ε or μ²."""
    # Rule 9: the charges to all accounts of the name count, each at its price for this account.
    charges = [entry for entry in chain if entry.kind == "charge" and entry.account.source == account.source]
    groups, price = _groups(charges), _price(request.account, request.prices, account)
    united = _holding(groups, request.account, request.composed_with) if request.composed_with else []
    priced = [([e.price(account) for e in group], group in united) for group in groups]

    def counted(cost: Callable[[list[Price | None]], Fraction | None]) -> tuple[Fraction | None, Fraction | None]:
        """Return the spent amount, and its growth."""
        costs = [(cost(prices), joins) for prices, joins in priced]
        then = cost([*(p for prices, joins in priced if joins for p in prices), price])
        return _total([x for x, _ in costs]), _less(then, _total([x for x, joins in costs if joins]))

    ways = {"rho": _joint_cost, "epsilon": _joint_epsilon, "mu_squared": _joint_mu}
    amounts = {kind: counted(cost) for kind, cost in ways.items()}
    quote = Quote(
        account,
        rho=None if price is None else price.rho,
        spent=amounts["rho"][0],
        cap=None,
        remaining=None,
        fits=True,
        increase=amounts["rho"][1],
        epsilon_spent=amounts["epsilon"][0],
        mu_squared_spent=amounts["mu_squared"][0],
    )
    # The last cap is in force: the publisher can replace it by a new promise.
    cap = next((entry for entry in reversed(chain) if entry.kind == "cap" and entry.account == account), None)
    if cap is None:
        return quote
    kind, limit = cap.limit
    (spent, increase), single = amounts[kind], ways[kind]([price])
    remaining = Fraction(0) if spent is None else max(limit - spent, Fraction(0))
    return replace(
        quote,
        cap=cap.rho,
        remaining={"rho": remaining, "epsilon": remaining**2 / 2, "mu_squared": remaining / 2}[kind],
        fits=spent is not None and increase is not None and spent + increase <= limit,
        epsilon_cap=cap.epsilon,
        mu_squared_cap=cap.mu_squared,
        further_releases=int(remaining / single) if single else 0,
    )


def _less(total: Fraction | None, part: Fraction | None) -> Fraction | None:
    """Return the difference; `None` if an operand is `None`."""
    return None if total is None or part is None else total - part


def _total(parts: list[Fraction | None]) -> Fraction | None:
    """Return the sum; `None` if a part is `None`."""
    bounded = [part for part in parts if part is not None]
    return sum(bounded, Fraction(0)) if len(bounded) == len(parts) else None


def _refusal(quote: Quote, entry: LedgerEntry) -> BudgetExceeded:
    """Return the error for a charge that does not fit, with the entry that records the refusal."""
    whom = f"{quote.account.source!r} ({quote.account.sentence})"
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
            f"Publish no further release of this source with this ledger. {recorded}",
            "Nothing was charged and nothing was released.",
        )
    cost, spent, rest, cap = quote.rho, quote.spent, quote.remaining or Fraction(0), quote.cap or Fraction(0)
    change = f"{_rho_text(abs(quote.increase))} {'less' if quote.increase < 0 else 'more'}"
    jointly = f" ({change} together with the releases on the same records)" if entry.composed_plans else ""
    return BudgetExceeded(
        "over-cap",
        f"A cost of ρ = {_rho_text(cost)}{jointly} does not fit into the remaining ρ = {_rho_text(rest)} for {whom}.",
        f"The spent ρ is {_rho_text(spent)} and the cap is {_rho_text(cap)}, so the cost, rounded up to a multiple of "
        f"2⁻⁶⁴, "
        f"is {_rho_text(spent + quote.increase - cap)} too large.",
        f"Ask for less accuracy, or raise the cap. {recorded}",
        "Nothing was charged and nothing was released.",
    )


def _refused_epsilon(quote: Quote, price: Price, whom: str, recorded: str) -> BudgetExceeded:
    limit = _rho_text(quote.epsilon_cap)
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
        f"A cost of ε = {_rho_text(price.epsilon)} does not fit under the cap of {whom}.",
        f"The spent ε is {_rho_text(quote.epsilon_spent)} and the cap is {limit}.",
        f"Ask for less accuracy, or raise the cap. {recorded}",
        "Nothing was charged and nothing was released.",
    )


def _refused_mu(quote: Quote, price: Price, whom: str, recorded: str) -> BudgetExceeded:
    limit, mu = _rho_text(quote.mu_squared_cap), price.known_mu_squared
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
        f"A cost of μ² = {_rho_text(mu)} does not fit under the cap of {whom}.",
        f"The spent μ² is {_rho_text(quote.mu_squared_spent)} and the cap is {limit}.",
        f"Ask for less accuracy, or raise the cap. {recorded}",
        "Nothing was charged and nothing was released.",
    )


def _rho_text(rho: Fraction | None) -> str:
    return "∞" if rho is None else str(rho) if rho.denominator < 10**6 else f"about {float(rho):.6g}"


def _head(chain: list[LedgerEntry]) -> tuple[int, str]:
    return (chain[-1].sequence, chain[-1].digest) if chain else (0, GENESIS)


def _json(value: object) -> str:
    """Return canonical JSON: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _object(detail: Mapping[str, Any]) -> str:
    """Return the canonical JSON of a detail, or raise if it does not read back as given (floats read as text)."""
    try:
        text = _json(dict(detail))
        faithful = json.loads(text, parse_float=str) == detail
    except (TypeError, ValueError, RecursionError):
        faithful = False
    if not faithful:
        raise LedgerError(
            "detail-not-json",
            "The detail is not a JSON object that reads back as it was given.",
            "Its keys are texts, its sequences are lists, and it has no floats, which are not exact.",
            'Write tuples as lists, and ratios as texts, for example "1/3".',
            "Nothing was charged and nothing was changed.",
        )
    return text


def _digest(columns: tuple[Any, ...]) -> str:
    return hashlib.sha256(_json(dict(zip(_COLUMNS, columns, strict=True))).encode("ascii")).hexdigest()


@lru_cache(maxsize=1024)
def _account(source: str, key: str) -> Account:
    """Return the account of an entry, or raise unless its unit is canonical (many entries have one account)."""
    account = Account.parse(source, json.loads(key))
    if account.key != key:
        raise LedgerError(
            "unit-not-canonical",
            "The unit of an entry is not canonical JSON.",
            "",
            "Give the unit as a ledger writes it.",
            "Nothing was charged and nothing was changed.",
        )
    return account


def _entry(row: tuple[Any, ...]) -> LedgerEntry:
    sequence, kind, source, unit, rho, time, detail, previous, digest = row
    exact = Fraction(*map(int, rho.split("/")))
    return LedgerEntry(
        sequence=sequence,
        kind=kind,
        account=_account(source, unit),
        rho=exact,
        time=time,
        detail=json.loads(detail),
        previous=previous,
        digest=digest,
    )
