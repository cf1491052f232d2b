"""The memory of what was spent, opening with its constitution: what no version may ever change.

1. **Append-only.** An entry is never altered, moved or removed: a mistake is paid for, not erased.
2. **Chained.** Every entry carries the SHA-256 of all it says and of the entry before it; nothing is decided
   from entries that were not verified in the same transaction.
3. **Spend first.** A charge is on the disk before :meth:`Ledger.charge` returns, hence before noise is drawn.
   A crash can waste budget, never forget it.
4. **Exact, rounded against us.** A cost is an exact rational, rounded *up* to a multiple of 2⁻⁶⁴. No floats.
5. **An unknown cost is infinite.** What cannot be priced, read or verified is refused.
6. **Nobody's data inside.** Only names, costs, times and what a plan says, which is made without data. The
   file is private to the publisher all the same, and made for its owner's eyes: it tells what was planned.
7. **Costs add, unless the same records are promised.** A charge `beside` some plans, each released once, is the
   publisher's promise that it is measured on the very records, unchanged, of their releases, and of all that
   those stand beside: one record, one cell. Nobody can check it; the ledger keeps it. Without it, ρ adds.

8. **A pure promise is kept pure.** A charge may state its ε, whose square is at least twice its ρ, which is what its
   numbers cost one by one. Under a cap on ε only such charges fit, and their ε add up to at most the cap; nothing with
   a δ counts as anything less than infinite there.

9. **Whoever is protected pays for every release.** The accounts of one name, for several units and relations, are
   about the same people. A charge to one is a charge to all: at what its integers cost each, which it states, else
   at the bound of :meth:`Entry.price`, else infinite. It fits if it fits under every cap among them. No charge opens
   an account of its own beside one with a cap: that is a decision of its own, :meth:`Ledger.set_cap`. Other units that
   a charge states have accounts from then on, and pay as all do.

10. **μ² is a currency of its own.** A charge may state its μ, squared, at which it is Gaussian-private, and how much μ²
   there is at most for each ρ, in any cell. Under a cap on μ² it is μ² that adds up: cell by cell by way of ρ, or sum
   by sum, whichever is less. What states none, and no ε either, is infinite there.

11. **A series is charged once, whole, and each of its periods drawn once.** The charge of a plan that is drawn period
   by period says so, and is of all of them: it draws the first. Each further one is an entry of its own, in order,
   written before its noise is drawn, and costs nothing more. Each names the counts that were frozen for it. A period
   that is drawn again, from the very counts, is a charge like any other. Nothing stands beside a series.

12. **A promise binds its cells.** An account is known by a key: its source, what its unit is called, the relation, and
   an id or the number of records; of a pattern that is promised each attribute with the hash of what decides its cells.
   The sentence that is printed of it identifies nothing. A charge under a promise about other cells is one of another
   account of the name, and costs this one what it costs a unit whose records lie anywhere.

13. **A charge has one set of answers.** Before answers are published, an entry of cost 0 names their SHA-256, and the
   charge, or the period of a series, that they were drawn for. No charge has two such entries. So of several draws for
   one charge one is published at most (:mod:`fitnoise.kernel.measure` says why that is sound), and invented answers are
   told.

Costs are ρ of zero-concentrated differential privacy, which adds under composition (Bun and Steinke 2016). A
charge without `beside` is a group of its own; one with it unites the groups of all charges of the plans it names
in its account. An account has spent Σ over the groups of its name of their joint cost for its unit: ρ of a group of
one, and the dearest joint cell of the summed profiles of a larger one (:func:`fitnoise.kernel.profiles.joint`), or
Σ ρ where one of them has no profile. A charge fits when what is spent with it is at most the cap. What is spent may
grow by less than ρ, by 0 where no cell gets dearer than the dearest, and fall where groups unite that were counted
apart. A charge without a profile for its own unit stands in no larger group: its ρ may be for another relation than
add-or-remove-one, for which no sum over cells is known to hold.

All this keeps each pair of neighbours, and so the whole, within the cap even when each cost is chosen after
seeing the releases before it (a privacy filter: of ρ Feldman and Zrnic 2021, of μ² docs/mathematics/exact_curve.md).
Whoever raises the cap makes a new promise, and the ledger keeps both.

**What a chain cannot tell.** It is no signature: who can write to the file can cut its tail, put back an old
copy or forge a new chain from the beginning. So write :meth:`Ledger.head` down elsewhere with each release,
and hand it to :meth:`Ledger.verify`. And one account has one file: two copies are two budgets.

Longer than other rooms on purpose: whoever checks the memory finds all of it on one page.
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
from fitnoise.kernel.checks import is_digest, look_alike
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.privacy import pure_mu_squared
from fitnoise.kernel.profiles import Charged, Profile, ceil_dyadic, joint
from fitnoise.kernel.units import Account, Adjacency, PrivacyUnit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

GENESIS = "0" * 64  # the digest before the first entry

_APPLICATION = int.from_bytes(b"fitn")  # PRAGMA application_id: how the file is known

_FORMAT = 7
"""PRAGMA user_version; 1 to 5 knew accounts by their sentences, in which a promise named attributes without cells. 6
named no answers, so that each of its charges looks as if its release were unfinished."""

_BUSY_SECONDS = 30.0  # how long to wait for another process

_MAX_BITS = 1000  # of the integers in a stored ρ, so that neither its float nor its digits overflow

_MAX_BYTES = 2**28  # of the file: more is read of none, whoever wrote it

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

_OWN = {"profile", "beside", "epsilon", "mu_squared", "mu_rate", "units", "series"}
"""What a ledger writes into a detail itself."""

_ANSWERS = {"charge", "answers"}  # the detail of an entry that names answers

_LIMITS = {"epsilon", "mu_squared"}  # what a cap can be one on, beside ρ

_NUMBERS = ("epsilon", "mu_squared", "mu_rate")  # of a price, beside ρ

_COLUMNS = ("sequence", "kind", "source", "unit", "rho", "time", "detail", "previous")  # then "digest"

# The last of these is what damaged pages do to the text of SQLite's own errors.
_FILE_ERRORS = (OSError, sqlite3.Error, UnicodeDecodeError)


@final
@dataclass(frozen=True)
class Price:
    """What a release costs one unit.

    Args:
        rho: a multiple of 2⁻⁶⁴.
        profile: where it falls, if that is known: its largest value is ρ.
        epsilon: of what is pure: ρ is at most half its square, rounded up.
        mu_squared: μ², a multiple of 2⁻⁶⁴; None where it is not known.
        mu_rate: how much μ² there is at most for each ρ, in every cell; given with it.

    Raises:
        LedgerError: anything else.
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
                "The square of ε is at least twice the ρ, after rounding up.",
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
    def of(cls, loss: Loss) -> Self:
        """A loss, rounded up."""
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
        known, rho = loss.mu_squared, _bounded(loss.rho)
        mu = () if known is None else (_bounded(known), _bounded(loss.mu_rate))
        return cls(rho, loss.profile, epsilon, *mu)

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        """Read what `words` and ρ beside them say."""
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

    def words(self) -> dict[str, Any]:
        """All but ρ, as JSON values."""
        words: dict[str, Any] = {} if self.profile is None else {"profile": self.profile.document()}
        return words | {key: str(x) for key in _NUMBERS if (x := getattr(self, key)) is not None}

    @property
    def known_mu_squared(self) -> Fraction | None:
        """μ² as it is stated, or as ε implies it; None where neither is known."""
        if self.mu_squared is None and self.epsilon is not None:
            return ceil_dyadic(pure_mu_squared(self.epsilon))
        return self.mu_squared

    def repeated(self, times: int) -> Price:
        """Of so many changes one after the other: k²ρ, kε, k²μ² (:meth:`fitnoise.kernel.units.Adjacency.changes`)."""
        epsilon = None if self.epsilon is None else times * self.epsilon
        rho, mu = times**2 * self.rho, None if self.mu_squared is None else times**2 * self.mu_squared
        return Price(rho if epsilon is None else min(rho, ceil_dyadic(epsilon**2 / 2)), None, epsilon, mu, self.mu_rate)


@final
@dataclass(frozen=True)
class Drawn:
    """A period of a series that is drawn.

    Args:
        period: which, from 1.
        frozen: SHA-256 (hex) of the counts that it is drawn from, which hold 256 random bits beside them.

    Raises:
        LedgerError: it is no such number and digest.
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

    def words(self) -> dict[str, Any]:
        """As JSON values."""
        return {"period": self.period, "frozen": self.frozen}

    @classmethod
    def parse(cls, words: object) -> Self:
        """Read what `words` says."""
        if not isinstance(words, Mapping) or words.keys() != {"period", "frozen"}:
            raise LedgerError(
                "period-not-readable",
                "A period of a series does not have exactly the keys period and frozen.",
                "",
                "Give a period as fitnoise writes it.",
                "Nothing was charged and nothing was changed.",
            )
        return cls(words["period"], words["frozen"])


@final
@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Args:
        sequence: 1, 2, 3, … without a gap.
        kind: ``"cap"`` (a new limit), ``"charge"`` (spent), ``"refusal"`` (asked for, not spent), ``"period"`` (a
            further period of a series, which was charged whole) or ``"answers"`` (the digest of what was drawn for a
            charge or a period).
        account: what is protected.
        rho: the cap, any ρ ≥ 0, of one on ε ε²/2, of one on μ² its half; or the cost charged or refused, a
            positive multiple of 2⁻⁶⁴; 0 of a period and of answers.
        time: UTC, ISO 8601, to the second, by the machine's clock: information, not evidence.
        detail: a JSON object without floats; the ledger itself writes "profile", "beside", "epsilon", "mu_squared",
            "mu_rate", "units" and "series" to it.
        previous: digest of the entry before; :data:`GENESIS` for the first.
        digest: SHA-256 (hex) of the other columns as canonical JSON: sorted keys, no spaces, ASCII.

    Raises:
        LedgerError: the kind is unknown, ρ is not what the kind allows or what the profile says, or there are
            plans to stand beside but no profile.
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
                "The kinds are cap, charge, refusal, period and answers, and each allows its own ρ.",
                "Give an entry as a ledger writes it.",
                "Nothing was charged and nothing was changed.",
            )
        if not isinstance(self.detail, Mapping) or (self.kind == "cap" and self.detail.keys() & _OWN - _LIMITS):
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
            Drawn.parse(self.detail["series"])
            if self.beside or not isinstance(self.detail.get("plan"), str):
                raise LedgerError(
                    "entry-series-invalid",
                    "An entry of a series does not name its plan, or names other plans on the same records.",
                    "",
                    "Name the plan of the series, and no other plan.",
                    "Nothing was charged and nothing was changed.",
                )
        if "beside" in self.detail and not (type(self.detail["beside"]) is list and self.beside):
            raise LedgerError(
                "entry-beside-invalid",
                "The key beside of an entry is not a list with at least one plan.",
                "",
                "Give the list of plans, or remove the key.",
                "Nothing was charged and nothing was changed.",
            )
        if self.kind != "cap":
            _stands(self.prices[self.account], self.beside)
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
        """The pure ε charged, refused or allowed; None of an entry that is about ρ alone."""
        return _exactly(self.detail["epsilon"]) if "epsilon" in self.detail else None

    @cached_property
    def mu_squared(self) -> Fraction | None:
        """The μ² charged, refused or allowed, where it is stated."""
        return _exactly(self.detail["mu_squared"]) if "mu_squared" in self.detail else None

    @property
    def limit(self) -> tuple[str, Fraction]:
        """What a cap is one on, as a charge says it, and how much of it there may be."""
        if self.epsilon is not None:
            return "epsilon", self.epsilon
        return ("rho", self.rho) if self.mu_squared is None else ("mu_squared", self.mu_squared)

    @property
    def profile(self) -> Profile | None:
        """Where the cost falls, as the detail says; None when it does not."""
        return self.prices[self.account].profile

    @cached_property
    def prices(self) -> Mapping[Account, Price]:
        """What was charged or refused, by every account of the name of which it was stated: its own first."""
        words = {key: self.detail[key] for key in ("profile", *_NUMBERS) if key in self.detail}
        prices = {self.account: Price.parse({"rho": str(self.rho)} | words)}
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
        for words in also:
            account = _account(self.account.source, _json(words["unit"]))
            if account in prices:
                raise LedgerError(
                    "entry-unit-twice",
                    "An entry states the price of one unit twice.",
                    "",
                    "State the price of each unit once.",
                    "Nothing was charged and nothing was changed.",
                )
            prices[account] = Price.parse({key: x for key, x in words.items() if key != "unit"})
        return prices

    def price(self, of: Account) -> Price | None:
        """What it cost the unit of another account of the same name; None where nothing bounds it.

        What the entry states of that unit. An entry states nothing of an account that was opened after it. Then it is
        the least bound that follows from what the entry states of others: k²ρ, kε, where k changes of such a unit make
        one of the other's (:meth:`fitnoise.kernel.units.Adjacency.changes`). So replacing a record costs at most
        what removing one and adding one do; nothing bounds for one that can come or go what was charged for replacing.

        **Guarantees**: no less than the exact cost of the integers that were measured.
        """
        return _price(self.account, self.prices, of)

    @property
    def beside(self) -> tuple[str, ...]:
        """Hashes of the plans on whose records this was measured."""
        return tuple(self.detail.get("beside", ()))

    @property
    def answers(self) -> str | None:
        """The SHA-256 of answers, of an entry that names them; None of other entries."""
        return str(self.detail["answers"]) if self.kind == "answers" else None

    @cached_property
    def drawn(self) -> Drawn | None:
        """The period of a series that was drawn then, or refused; None of other entries."""
        return Drawn.parse(self.detail["series"]) if "series" in self.detail else None


@final
@dataclass(frozen=True)
class Group:
    """Charges to the accounts of one name that are on the same records, as far as that was promised."""

    entries: tuple[Entry, ...]

    def rho(self, of: Account) -> Fraction | None:
        """ρ of all of them together for the unit of an account; None where nothing bounds one of them."""
        return _together([entry.price(of) for entry in self.entries])

    def mu_squared(self, of: Account) -> Fraction | None:
        """μ² of all of them together, likewise; None where that of one is not known."""
        return _together_mu([entry.price(of) for entry in self.entries])


@final
@dataclass(frozen=True)
class Quote:
    """What a charge would do; nothing is changed.

    Args:
        account: what is protected.
        rho: what the charge costs on its own, rounded up to a multiple of 2⁻⁶⁴; None where nothing bounds it.
        spent: by the charges so far to all accounts of the name, those on the same records taken together; None where
            nothing bounds what one of them cost this unit.
        cap: the cap in force, the last one set; None when there is none.
        remaining: max(cap − spent, 0), exactly, 0 where spent has no bound; None when there is no cap. The largest
            charge beside nothing that fits is ``remaining`` rounded *down* to a multiple of 2⁻⁶⁴. Under a cap on ε, ρ
            of the ε that is left.
        fits: there is no cap, or spent + increase ≤ cap; under a cap on ε as said there.
        increase: by how much spent would grow: rho beside nothing; often less beside other plans, even 0 or negative.
            None where nothing bounds it.
        epsilon_spent: Σ ε of the charges so far, where every one of them is pure; None where one is not.
        epsilon_cap: the cap in force, where it is one on ε: then fits ⟺ all charges are pure and Σ ε ≤ cap.
        mu_squared_spent: μ² of the charges so far, likewise taken together; None where one's is not known.
        mu_squared_cap: the cap in force, where it is one on μ²: then fits ⟺ μ² with the charge ≤ cap.
        more: how many charges like it, one after the other beside nothing, fit; None where there is no cap.
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
    more: int | None = None


@final
class _Chain(list[Entry]):
    """Verified entries, oldest first, with two indices: a ledger of many answers is read in linear time.

    by_digest: each entry by its digest. answers: each entry of answers by the digest of its charge.
    """

    def __init__(self) -> None:
        super().__init__()
        self.by_digest: dict[str, Entry] = {}
        self.answers: dict[str, Entry] = {}

    def append(self, entry: Entry, /) -> None:
        """Add an entry at the end, and to the indices."""
        super().append(entry)
        self.by_digest[entry.digest] = entry
        if entry.kind == "answers":
            self.answers[entry.detail["charge"]] = entry


@final
class Ledger:
    """An append-only file of caps, charges and refusals, shared safely between processes.

    A ledger is used by the thread that opened it; other threads and processes open the same path. Each call
    is one transaction that reads and verifies the whole chain (about 0.1 ms an entry, 1 ms with the largest profile).

    Args:
        path: the file, made if there is none (its folder must exist); ``":memory:"`` for a ledger that is
            forgotten when it is closed.

    Raises:
        LedgerError: from any method: the file is no ledger, or a newer one, or was altered, replaced, is
            read-only or busy; or an argument is not exact. Draw no noise after it.

    **Guarantees**

    * spent = Σ over groups of their joint cost, exactly (rounded up where a joint cost is itself a bound): over
      re-opening, over processes; without ``beside`` it is Σ charges, in any order.
    * No charge takes what any account of its name has spent above the cap in force there, however many processes race.
    * When ``charge`` returns, the entry is on the disk; when it raises a LedgerError, nothing was charged,
      unless the error says that this is unknown (the disk failed, or the file was replaced, while committing).
    * A process killed at any moment leaves its entry whole or absent, and a file that opens and verifies.
    * SQL cannot update, delete or replace an entry; when the triggers were removed first, the chain shows it.
    * One damaged byte in the file is refused, or changes nothing that is read.
    * While it is open, a ledger raises if its file was replaced, also between charging and committing, or has a second
      name (a hard link, under which SQLite would neither lock nor mend it), or if an entry it has seen is gone.
    * A file that is no ledger is refused and left as it was, byte for byte. So is an empty file, which may be
      what is left of a ledger.
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
        """The file; None of a ledger in memory."""
        return self._path

    @property
    def lasting(self) -> bool:
        """Whether it is a file, and remembers after it is closed."""
        return self._path is not None

    def quote(
        self, account: Account, loss: Loss, *, also: Mapping[Account, Loss] | None = None, beside: Sequence[str] = ()
    ) -> Quote:
        """What charging a loss to the account would do to it now, and whether it fits all accounts of the name.

        Another process may charge before you do.

        Args:
            account: what is protected.
            loss: what the release costs on its own.
            also: what it costs other accounts of the name.
            beside: hashes of plans on whose records it is measured.

        Raises:
            LedgerError: as of :meth:`charge`.
        """
        asked = _Asked.of(account, loss, also or {}, beside)
        with self._transaction("BEGIN") as chain:
            quotes = _quotes(chain, asked)
        more = min((q.more for q in quotes if q.more is not None), default=None)
        return replace(quotes[0], fits=all(q.fits for q in quotes), more=more)

    def balance(self, account: Account) -> Quote:
        """The quote of a zero charge; also of an account that is not there, of a name that is.

        Args:
            account: what is protected.

        Raises:
            LedgerError: its name reads like another.
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
        beside: Sequence[str] = (),
        at_most: Fraction | None = None,
        drawn: Drawn | None = None,
        once: bool = False,
    ) -> Entry:
        """Spend a loss, its ρ > 0 rounded up to a multiple of 2⁻⁶⁴: on the disk before this returns.

        Args:
            account: what is protected.
            loss: what the release costs on its own. Where it is known by cell, its profile is kept in the detail; of
                one that is pure, its ε.
            detail: a JSON object without floats; under "plan" the hash by which later charges can name this one.
            also: what the release costs other accounts of the name on its own; kept in the detail. An account of the
                same name of which it says nothing is charged the bound of :meth:`Entry.price`.
            beside: hashes of plans charged to the same account: the promise that this is measured on the same
                records, unchanged, as the charge of each of these plans. Kept in the detail; needs a profile.
            at_most: by how much what is spent of the account may grow; None sets no such limit.
            drawn: the period of a series that is drawn: the first, then all of the series is what is charged; or one
                that is drawn again, from the counts of before.
            once: refuse where the account was charged for the plan before.

        Raises:
            BudgetExceeded: it does not fit under a cap of an account of the name. That is recorded as a refusal;
                nothing was charged.
            LedgerError: the loss is none, or costs nothing; ``detail`` is not a JSON object without floats, or has a
                key of the ledger's own; the series was begun before, or what is drawn again was not drawn, or from
                other counts; a plan to stand beside was not charged to this account, or more than once, or
                without a profile; what is spent would grow by more than `at_most`; the account is not there and its
                name has a cap, or reads like another.
        """
        asked = _Asked.of(account, loss, also or {}, beside, drawn)
        words = asked.detailed(detail)
        with self._transaction("BEGIN IMMEDIATE") as chain:
            full = _full(chain, asked, at_most)
            _in_turn(chain, "refusal" if full else "charge", account, words)
            before = [e for e in _charges(chain, account) if once and e.detail.get("plan") == words.get("plan")]
            if before:
                raise LedgerError(
                    "plan-charged-meanwhile",
                    f"Another process has charged this plan in the meantime (entry {before[-1].sequence}).",
                    "",
                    "Run the command again, which finishes the release of that charge.",
                    "Nothing was charged and nothing was changed.",
                )
            entry = self._append(chain, "refusal" if full else "charge", account, asked.own.rho, words)
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
        beside: Sequence[str] = (),
        at_most: Fraction | None = None,
    ) -> None:
        """Refuse now what :meth:`charge` would refuse, before any data are read; charge nothing.

        Args, Raises: as :meth:`charge`, which a refusal is recorded like. What is admitted may be refused all the same,
        if others charge first.
        """
        asked = _Asked.of(account, loss, also or {}, beside)
        words = asked.detailed(detail)
        with self._transaction("BEGIN IMMEDIATE") as chain:
            full = _full(chain, asked, at_most)
            entry = self._append(chain, "refusal", account, asked.own.rho, words) if full else None
        if full and entry:
            raise _refusal(full, entry)

    def period(self, account: Account, plan: str, drawn: Drawn) -> Entry:
        """Write down that the next period of a series is drawn: on the disk before this returns. It costs nothing.

        Args:
            account: what the series was charged to.
            plan: its hash.
            drawn: which period, and of which counts.

        Raises:
            LedgerError: the plan was charged to the account as no series, or it is not the turn of this period.
        """
        words = {"plan": plan, "series": drawn.words()}
        with self._transaction("BEGIN IMMEDIATE") as chain:
            _in_turn(chain, "period", _named_account(account), words)
            return self._append(chain, "period", account, Fraction(0), words)

    def answer(self, charge: Entry, answers: str, keep: Callable[[], None] | None = None) -> Entry:
        """Write down which answers were drawn for a charge: on the disk before this returns. It costs nothing.

        Args:
            charge: the entry by which they were charged: a charge, or a period of a series.
            answers: their SHA-256 (:func:`fitnoise.kernel.arrays.answers_digest`).
            keep: called while nobody else can write to the ledger, before the entry is written. It puts the kept
                answers in place, and raises where it cannot; then no entry is written.

        Raises:
            LedgerError: no digest is given; or the ledger has no such charge, or an entry of its answers.
        """
        words = {"charge": charge.digest, "answers": answers}
        if not all(map(is_digest, words.values())):
            raise _answers_not_digests()
        with self._transaction("BEGIN IMMEDIATE") as chain:
            _answers_once(chain, "answers", charge.account, words)
            if keep is not None:
                keep()
            return self._append(chain, "answers", charge.account, Fraction(0), words)

    def answered(self, charge: Entry) -> Entry | None:
        """Return the entry that names the answers to a charge or a period; None while there is none.

        Args:
            charge: the entry by which they were charged.
        """
        with self._transaction("BEGIN") as chain:
            return chain.answers.get(charge.digest)

    def charges(self, account: Account, plan: str) -> list[Entry]:
        """Return the charges of a plan to an account, oldest first, without those that draw a period of a series.

        Args:
            account: what it was charged to.
            plan: its hash.
        """
        with self._transaction("BEGIN") as chain:
            return [e for e in _charges(chain, account) if e.detail.get("plan") == plan and e.drawn is None]

    def series(self, account: Account, plan: str) -> list[Entry]:
        """The periods of a series that were drawn, in order: of each the last entry that says so.

        Args:
            account: what the series was charged to.
            plan: its hash.
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
    ) -> Entry:
        """Put a cap ρ ≥ 0, one on pure ε ≥ 0, or one on μ² ≥ 0, in force. Earlier caps stay in the ledger.

        A cap on ρ or μ² is rounded up to a multiple of 2⁻⁶⁴, as charges are: what a plan costs, as a cap, admits that
        plan. One on ε is exact, as sums of ε are.

        It may lie below what is spent: then nothing fits any more. Under a cap on ε only pure charges fit, and nothing
        more where one that is not pure was charged before. Under one on μ² all that is charged together is
        μ-Gaussian-private, whenever it was chosen; nothing fits where the μ² of a charge before is not known.

        An account that is not there is opened. What was charged under its name before counts (:meth:`balance`).

        Raises:
            LedgerError: the cap is none; the account is not there, and its name reads like another, or nothing bounds
                what was charged under its name before: then no release would ever fit, for whichever unit.
        """
        given = {key: x for key, x in (("rho", rho), ("epsilon", epsilon), ("mu_squared", mu_squared)) if x is not None}
        if len(given) != 1:
            raise LedgerError(
                "cap-kind-not-single",
                f"The cap limits {len(given)} of ρ, ε and μ².",
                "",
                "Give exactly one of rho, epsilon and mu_squared.",
                "Nothing was charged and nothing was changed.",
            )
        ((kind, most),) = given.items()
        if not isinstance(most, Fraction) or most < 0:
            raise LedgerError(
                "cap-not-a-fraction",
                f"The cap is {reprlib.repr(most)}.",
                "A cap is a Fraction of at least 0.",
                "Give such a Fraction.",
                "Nothing was charged and nothing was changed.",
            )
        most = _bounded(most, rounded=kind != "epsilon")
        cap = _bounded(most**2 / 2 if kind == "epsilon" else most / 2 if kind == "mu_squared" else most, rounded=False)
        words = ({"reason": reason} if reason else {}) | ({} if kind == "rho" else {kind: str(most)})
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
            return self._append(chain, "cap", account, cap, words)

    def accounts(self) -> list[Account]:
        """Every account so far, in order of appearance: of entries, and of other units that charges state."""
        with self._transaction("BEGIN") as chain:
            return _all_accounts(chain)

    def entries(self, account: Account | None = None) -> list[Entry]:
        """Every entry, or every entry of one account, oldest first.

        Args:
            account: whose; None for all.
        """
        with self._transaction("BEGIN") as chain:
            return [entry for entry in chain if account is None or entry.account == account]

    def charged(self, account: Account) -> list[Charged]:
        """The plans charged to an account, with what each cost in every cell, where all are on the same records.

        Raises:
            LedgerError: there is none, or a charge has no profile or names no plan; or there are several that were not
                promised to be on the same records, which nobody but the publisher can tell.
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
        return [Charged(entry.detail["plan"], _known(entry)) for entry in groups[0]]

    def groups(self, account: Account) -> list[Group]:
        """All charges to the accounts of a name, those on the same records together.

        Args:
            account: whose name is meant.
        """
        with self._transaction("BEGIN") as chain:
            charges = [entry for entry in chain if entry.kind == "charge" and entry.account.source == account.source]
        return [Group(tuple(group)) for group in _groups(charges)]

    def head(self) -> tuple[int, str]:
        """Sequence and digest of the last entry; (0, :data:`GENESIS`) of an empty ledger. Write it down."""
        with self._transaction("BEGIN") as chain:
            return _head(chain)

    def verify(self, expected_head: tuple[int, str] | None = None) -> int:
        """Recompute every digest; return the number of entries.

        Args:
            expected_head: a :meth:`head` written down earlier, through which the chain must pass. Without
                one, a tail cut off, or a chain forged from its beginning, cannot be detected.

        Raises:
            LedgerError: names the first entry that is missing, out of place or changed.
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
        """The whole chain, verified inside the transaction that will use it."""
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
            _named(chain, entry.account, entry.beside)
            _in_turn(chain, entry.kind, entry.account, entry.detail)
            _answers_once(chain, entry.kind, entry.account, entry.detail)
        except (LedgerError, TypeError, ValueError, ZeroDivisionError, RecursionError) as error:
            raise LedgerError(
                "entry-invalid",
                f"{self._where} was altered: entry {last + 1} is not an entry that a ledger writes.",
                "",
                "Restore a copy, and verify it against a head that you wrote down.",
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

    def _append(self, chain: _Chain, kind: str, account: Account, rho: Fraction, detail: Mapping[str, Any]) -> Entry:
        """Write the next entry within the open transaction, and lengthen the chain by it."""
        last, previous = _head(chain)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        columns = (last + 1, kind, account.source, account.key, str(rho), now, _object(detail), previous)
        row = (*columns, _digest(columns))
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._follow(chain, row)  # what is handed out is what the next reader will read
        return chain[-1]

    def _passes(self, chain: list[Entry], head: tuple[int, str]) -> None:
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
        found = _file_failure(self._where, error)
        if not unknown:
            return found
        return LedgerError(
            "writing-unknown",
            found.given,
            "Whether the entry was written is unknown.",
            f"Look at the ledger before you try again. {found.action}",
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
            f"{where} cannot be used: it is read-only.",
            "",
            "Ask its owner for permission to write to it.",
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
    """Put an empty ledger at the path unless something is there; what is there must be a file, and not empty.

    It is made under another name and linked into place when complete, so that no crash and no other process
    ever meets half a ledger, and an empty file can be refused (this needs a file system with hard links).
    Its name is as durable as its first entry: synchronous=EXTRA also syncs the folder.
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
            Path(name).unlink(missing_ok=True)  # whoever opens the ledger first may take it for a leftover
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
    """Which file the path leads to: device and inode.

    Raises:
        LedgerError: it has another name, other than one that a process left that was killed while it made the ledger.
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
            "Nothing was charged and nothing was changed.",
        )
    return (status.st_dev, status.st_ino)


def _connect(path: Path | None) -> sqlite3.Connection:
    """A connection that creates no file, begins no transaction by itself and has touched nothing yet."""
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
    db.execute("PRAGMA journal_mode=DELETE")  # one file, whatever mode another program left it in
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
    """Whether it can be written."""
    return max(x.numerator.bit_length(), x.denominator.bit_length()) <= _MAX_BITS


def _bounded(rho: Fraction, *, rounded: bool = True) -> Fraction:
    """ρ ≥ 0, rounded up to a multiple of 2⁻⁶⁴ or as it is, and short enough to be written."""
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
    """A number of at least 0 that was written as a Fraction writes itself."""
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


def _stands(own: Price, beside: tuple[str, ...]) -> None:
    """Raise unless what stands beside something names it, and has a profile."""
    if not all(isinstance(plan, str) and plan for plan in beside):
        raise LedgerError(
            "beside-not-hashes",
            f"The plans on the same records are {reprlib.repr(beside)}.",
            "Each of these plans is named by its hash.",
            "Give the hash of each plan.",
            "Nothing was charged and nothing was changed.",
        )
    if beside and own.profile is None:
        raise LedgerError(
            "beside-needs-profile",
            "The charge names other plans on the same records, and has no profile.",
            "Only a profile shows the cost of each cell.",
            "Charge a release with a profile, or name no other plans.",
            "Nothing was charged and nothing was changed.",
        )


@final
@dataclass(frozen=True)
class _Asked:
    """A charge as it is written: its prices, that for its own unit first, and the plans it stands beside."""

    account: Account
    prices: Mapping[Account, Price]
    beside: tuple[str, ...]
    drawn: Drawn | None = None

    @classmethod
    def of(
        cls,
        account: Account,
        loss: Loss,
        also: Mapping[Account, Loss],
        beside: Sequence[str],
        drawn: Drawn | None = None,
    ) -> _Asked:
        """Raise LedgerError unless it can be written, and stands beside others only where its cells are known."""
        if not isinstance(beside, list | tuple):  # the text of one plan is neither
            raise LedgerError(
                "beside-not-a-list",
                f"The plans on the same records are {reprlib.repr(beside)}.",
                "",
                "Give a list of their hashes.",
                "Nothing was charged and nothing was changed.",
            )
        own = Price.of(loss)
        _stands(own, tuple(beside))
        name = _named_account(account).source
        others = {_named_account(a): Price.of(x) for a, x in also.items() if a != account}
        if any(a.source != name for a in others):
            raise LedgerError(
                "price-of-another-source",
                "The charge states a cost for an account of another name.",
                "A charge states costs only for accounts of its own name.",
                "Remove the other accounts.",
                "Nothing was charged and nothing was changed.",
            )
        return cls(account, {account: own} | others, tuple(beside), drawn)

    @property
    def own(self) -> Price:
        """What it costs its own unit."""
        return self.prices[self.account]

    def detailed(self, detail: Mapping[str, Any]) -> dict[str, Any]:
        """A detail with what the ledger writes into it; LedgerError unless it is one, of what costs something."""
        if not self.own.rho:
            raise LedgerError(
                "charge-of-nothing",
                "The charge has ρ = 0.",
                "No release is free, so the cost of a charge is above 0.",
                "Charge the exact cost of the release.",
                "Nothing was charged and nothing was changed.",
            )
        words: dict[str, Any] = json.loads(_object(detail))
        if words.keys() & _OWN:
            raise LedgerError(
                "detail-has-own-keys",
                "The detail of the charge has keys of the ledger's own.",
                f"The ledger itself writes {', '.join(sorted(_OWN))}.",
                "Remove these keys from the detail.",
                "Nothing was charged and nothing was changed.",
            )
        return words | self.words()

    def words(self) -> dict[str, Any]:
        """What the ledger itself writes into the detail."""
        others = {a: p for a, p in self.prices.items() if a != self.account}
        units = [{"unit": a.document, "rho": str(p.rho)} | p.words() for a, p in others.items()]
        words = self.own.words() | ({"beside": list(self.beside)} if self.beside else {})
        words |= {} if self.drawn is None else {"series": self.drawn.words()}
        return words | ({"units": units} if units else {})


def _nothing(account: Account) -> _Asked:
    return _Asked.of(account, Loss.of_epsilon(Fraction(0), by_cell=False), {}, ())


def _price(declared: Account, prices: Mapping[Account, Price], of: Account) -> Price | None:
    """A price that is stated, or the least bound from those that are (:meth:`Entry.price`)."""
    if of in prices:
        return prices[of]
    stated = [account.unit for account in prices]
    known = [(price, _changes(declared.unit, account.unit, of.unit, stated)) for account, price in prices.items()]
    bounds = (price.repeated(times) for price, times in known if times is not None)
    return min(bounds, key=lambda p: (p.rho, p.epsilon or Fraction(0), p.mu_squared or Fraction(0)), default=None)


def _changes(declared: PrivacyUnit, known: PrivacyUnit, of: PrivacyUnit, stated: Sequence[PrivacyUnit]) -> int | None:
    """How many changes of a unit make one of another's, in data declared for a third; None where that is unknown.

    stated: units of which it may have been promised how many records they have; the largest number is the safe one.
    """
    counted = Adjacency(declared)
    one, other = counted.of(known), counted.of(of, *([] if of.id is not None else stated))
    if one is None or other is None or (other.unit.id is not None and one.unit.id is None):
        return None  # an account by an id does not say how many records of a person are counted, which may be many
    return one.changes(other)


def _accounts(chain: list[Entry], account: Account) -> list[Account]:
    """The accounts of a name that are there, in order of appearance."""
    return [a for a in _all_accounts(chain) if a.source == account.source]


def _all_accounts(chain: list[Entry]) -> list[Account]:
    """Every account, in order of appearance: those of entries, and of the other units that charges state."""
    return list(dict.fromkeys(a for e in chain for a in (e.prices if e.kind == "charge" else (e.account,))))


def _named(chain: list[Entry], account: Account, beside: tuple[str, ...]) -> None:
    """Raise unless every plan was charged to the account before, once, with a profile.

    Then every charge of the groups to unite has one: a group of more than one was united under this rule.
    """
    for plan in beside:
        charges = [entry for entry in _charges(chain, account) if entry.detail.get("plan") == plan]
        if len(charges) > 1:
            raise LedgerError(
                "beside-released-again",
                f"The plan {plan[:64]!r} was released {len(charges)} times.",
                "fitnoise cannot know which of these releases used the same records.",
                "Plan without this plan among those on the same records.",
                "Nothing was charged and nothing was changed.",
            )
        if not charges:
            raise LedgerError(
                "beside-not-charged",
                f"{account.source!r} ({account.sentence}) has no charge for the plan {plan[:64]!r}.",
                "The plans on the same records were released before, from the same source for the same unit.",
                "Release that plan first, or plan without it.",
                "Nothing was charged and nothing was changed.",
            )
        for entry in charges:
            _known(entry)
            if entry.drawn is not None:
                raise LedgerError(
                    "beside-a-series",
                    f"Entry {entry.sequence} is the charge of a series.",
                    "The records of a series arrive over time, so no other release uses the same records.",
                    "Plan without the series among the plans on the same records.",
                    "Nothing was charged and nothing was changed.",
                )


def _known(entry: Entry) -> Profile:
    if entry.profile is None:
        raise LedgerError(
            "entry-without-profile",
            f"Entry {entry.sequence} has no profile, so its cost may fall in any cell.",
            "A release on the same records needs the cost of each cell.",
            "Plan without the plan of this entry among those on the same records.",
            "Nothing was charged and nothing was changed.",
        )
    return entry.profile


def _periods(chain: list[Entry], account: Account, plan: object) -> list[Entry]:
    """The periods of a series that were drawn, in order: of each the last entry that says so."""
    found: dict[int, Entry] = {}
    for entry in chain:
        drawn = entry.drawn if entry.kind in {"charge", "period"} else None
        if drawn is not None and entry.account == account and entry.detail["plan"] == plan:
            found[drawn.period] = entry
    return [found[period] for period in sorted(found)]


def _in_turn(chain: list[Entry], kind: str, account: Account, detail: Mapping[str, Any]) -> None:
    """Raise unless an entry that draws a period of a series draws the one whose turn it is, or one again, charged."""
    if "series" not in detail or kind == "refusal":
        return
    wanted, known = Drawn.parse(detail["series"]), _periods(chain, account, detail.get("plan"))
    again = kind == "charge" and wanted.period <= len(known)
    if not again and wanted.period != len(known) + 1:
        last = f"period {len(known)} was drawn last" if known else "no period was drawn"
        raise LedgerError(
            "series-not-in-turn",
            f"Period {wanted.period} of the series is not next: {last}.",
            "Each period is drawn once, in order.",
            "Draw the next period.",
            "Nothing was charged and nothing was changed.",
        )
    if again and known[wanted.period - 1].drawn != wanted:
        raise LedgerError(
            "series-counts-differ",
            f"Period {wanted.period} of the series was drawn before, from other counts.",
            "A period is drawn again only from the counts that were frozen for it.",
            "Restore the frozen counts of this period.",
            "Nothing was charged and nothing was changed.",
        )
    if not again and (kind == "charge") != (wanted.period == 1):
        raise LedgerError(
            "series-not-charged-first",
            "An entry charges a later period of the series, or draws the first period without a charge.",
            "The first period is charged with the complete series, and no later period is charged.",
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
    other = chain.answers.get(charge.digest)
    if other is not None:
        raise LedgerError(
            "answers-recorded-before",
            f"Entry {other.sequence} names the answers to entry {charge.sequence} already.",
            "A charge has one set of answers, and another process drew it first.",
            "Use the answers of that process.",
            f"These answers were not recorded, and the charge of entry {charge.sequence} stays in the ledger.",
        )


def _refuse_twin(chain: list[Entry], account: Account) -> None:
    """Raise if the account's name is new, or its unit's is new to the account, and is read as one that is there."""
    units = {a.unit.name: a for a in _accounts(chain, account)}
    own, names = (account.unit.name, units) if units else (account.source, {e.account.source: e.account for e in chain})
    twin = None if own in names else next((a for name, a in names.items() if look_alike(name, own)), None)
    if twin is not None:
        raise LedgerError(
            "account-looks-alike",
            f"{account.source!r} ({account.sentence}) looks like {twin.source!r} ({twin.sentence}), which the "
            "ledger has.",
            "Two names would have two budgets.",
            "Give the name in the ledger, or a name that no one confuses with it.",
            "Nothing was charged and nothing was changed.",
        )


def _charges(chain: list[Entry], account: Account) -> list[Entry]:
    return [entry for entry in chain if entry.kind == "charge" and entry.account == account]


def _holding(groups: list[list[Entry]], account: Account, plans: tuple[str, ...]) -> list[list[Entry]]:
    """The groups that hold a charge of one of these plans to the account."""
    return [g for g in groups if any(e.account == account and e.detail.get("plan") in plans for e in g)]


def _groups(charges: list[Entry]) -> list[list[Entry]]:
    """Charges on the same records together, as far as that was promised."""
    groups: list[list[Entry]] = []
    for entry in charges:
        united = _holding(groups, entry.account, entry.beside) if entry.beside else []
        if united:
            groups = [group for group in groups if group not in united]
        groups.append([*(e for group in united for e in group), entry])
    return groups


def _together(prices: list[Price | None]) -> Fraction | None:
    """The joint cost of charges on the same records; None where nothing bounds one of them."""
    known = [price for price in prices if price is not None]
    if len(known) < len(prices):
        return None
    profiles = [price.profile for price in known if price.profile is not None]
    joined = len(known) > 1 and len(profiles) == len(known)
    return joint(profiles) if joined else sum((price.rho for price in known), Fraction(0))


def _together_mu(prices: list[Price | None]) -> Fraction | None:
    """The same in μ²: the sum, or what their joint cost in ρ is at most; None where one is not known."""
    known = [(price, mu) for price in prices if price and (mu := price.known_mu_squared) is not None]
    if len(known) < len(prices):
        return None
    total = sum((mu for _, mu in known), Fraction(0))
    cells = [(p.mu_rate, p.profile) for p, _ in known if p.profile is not None and p.mu_rate is not None]
    if len(cells) < max(2, len(known)):
        return total
    return min(total, ceil_dyadic(max(rate for rate, _ in cells) * joint(profile for _, profile in cells)))


def _together_epsilon(prices: list[Price | None]) -> Fraction | None:
    """Σ ε; None where one is not pure."""
    return _total([None if price is None else price.epsilon for price in prices])


def _quotes(chain: list[Entry], asked: _Asked) -> list[Quote]:
    """What a charge would do to all accounts of its name, its own first.

    Raises:
        LedgerError: the account is not there, and its name has a cap or reads like another; or the charge cannot stand
            beside those it names.
    """
    own, stated = asked.account, list(asked.prices)
    for i, account in enumerate(stated):
        _refuse_twin(chain, account)
        if any(a.unit.name != account.unit.name and look_alike(a.unit.name, account.unit.name) for a in stated[:i]):
            raise LedgerError(
                "units-look-alike",
                f"Two units of one charge have names that look the same: {[a.sentence for a in stated]}.",
                "Two names would have two budgets.",
                "Give the units names that no one confuses.",
                "Nothing was charged and nothing was changed.",
            )
    _named(chain, own, asked.beside)
    known = _accounts(chain, own)
    capped = next((e for e in chain if e.kind == "cap" and e.account in known), None)
    if own not in known and capped is not None:
        raise LedgerError(
            "account-beside-cap",
            f"{own.source!r} has a cap for {capped.account.sentence!r}, and no account for "
            f"{own.sentence!r}{_otherwise(known, own)}.",
            "A cap covers all accounts of a name, so a new account needs a decision of its own.",
            "Plan for a unit in the ledger, or open an account with its own cap: fitnoise ledger … --cap … --new "
            "--plan ….",
            "Nothing was charged and nothing was changed.",
        )
    return [_quote(chain, asked, account) for account in (own, *(a for a in known if a != own))]


def _otherwise(known: Sequence[Account], own: Account) -> str:
    """Of an account that reads like one that is there: which attributes of its promise are declared otherwise there."""
    there = next((dict(a.cells) for a in known if a.unit == own.unit), {})
    names = [name for name, cells in own.cells if there.get(name, cells) != cells]
    if not names:
        return ""
    return f", which promises other cells of {' and '.join(map(repr, names))}"


def _full(chain: list[Entry], asked: _Asked, at_most: Fraction | None) -> Quote | None:
    """An account of the name under whose cap a charge does not fit; None where it fits under all.

    Raises:
        LedgerError: what is spent of its own account would grow by more than `at_most`; or as `_quotes`.
    """
    quotes = _quotes(chain, asked)
    grows = quotes[0].increase
    if at_most is not None and (grows is None or grows > at_most):
        raise LedgerError(
            "free-plan-costs",
            f"The charge would raise the spent ρ by {_words(grows)}, and it may raise it by at most {_words(at_most)}.",
            "The plan does not name all plans on the same records, or another release was charged since.",
            "Plan again.",
            "Nothing was charged and nothing was changed.",
        )
    return next((quote for quote in quotes if not quote.fits), None)


def _quote(chain: list[Entry], asked: _Asked, of: Account) -> Quote:
    """The arithmetic: spent = Σ groups; cap = the last one; fits ⟺ spent + increase ≤ cap, in ρ, ε or μ²."""
    charges = [entry for entry in chain if entry.kind == "charge" and entry.account.source == of.source]
    groups, price = _groups(charges), _price(asked.account, asked.prices, of)
    united = _holding(groups, asked.account, asked.beside) if asked.beside else []
    paid = [([e.price(of) for e in group], group in united) for group in groups]

    def counted(cost: Callable[[list[Price | None]], Fraction | None]) -> tuple[Fraction | None, Fraction | None]:
        """What is spent, and by how much it would grow."""
        costs = [(cost(prices), joins) for prices, joins in paid]
        then = cost([*(p for prices, joins in paid if joins for p in prices), price])
        return _total([x for x, _ in costs]), _less(then, _total([x for x, joins in costs if joins]))

    ways = {"rho": _together, "epsilon": _together_epsilon, "mu_squared": _together_mu}
    told = {kind: counted(cost) for kind, cost in ways.items()}
    quote = Quote(
        of,
        rho=None if price is None else price.rho,
        spent=told["rho"][0],
        cap=None,
        remaining=None,
        fits=True,
        increase=told["rho"][1],
        epsilon_spent=told["epsilon"][0],
        mu_squared_spent=told["mu_squared"][0],
    )
    cap = next((entry for entry in reversed(chain) if entry.kind == "cap" and entry.account == of), None)
    if cap is None:
        return quote
    kind, limit = cap.limit
    (spent, increase), alone = told[kind], ways[kind]([price])
    left = Fraction(0) if spent is None else max(limit - spent, Fraction(0))
    return replace(
        quote,
        cap=cap.rho,
        remaining={"rho": left, "epsilon": left**2 / 2, "mu_squared": left / 2}[kind],
        fits=spent is not None and increase is not None and spent + increase <= limit,
        epsilon_cap=cap.epsilon,
        mu_squared_cap=cap.mu_squared,
        more=int(left / alone) if alone else 0,
    )


def _less(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    """A difference; None where one of them is."""
    return None if one is None or other is None else one - other


def _total(parts: list[Fraction | None]) -> Fraction | None:
    """A sum; None where a part is."""
    known = [part for part in parts if part is not None]
    return sum(known, Fraction(0)) if len(known) == len(parts) else None


def _refusal(quote: Quote, entry: Entry) -> BudgetExceeded:
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
    cost, spent, left, cap = quote.rho, quote.spent, quote.remaining or Fraction(0), quote.cap or Fraction(0)
    change = f"{_words(abs(quote.increase))} {'less' if quote.increase < 0 else 'more'}"
    beside = f" ({change} together with the releases on the same records)" if entry.beside else ""
    return BudgetExceeded(
        "over-cap",
        f"A cost of ρ = {_words(cost)}{beside} does not fit into the remaining ρ = {_words(left)} for {whom}.",
        f"The spent ρ is {_words(spent)} and the cap is {_words(cap)}, so the cost, rounded up to a multiple of 2⁻⁶⁴, "
        f"is {_words(spent + quote.increase - cap)} too large.",
        f"Ask for less accuracy, or raise the cap. {recorded}",
        "Nothing was charged and nothing was released.",
    )


def _refused_epsilon(quote: Quote, price: Price, whom: str, recorded: str) -> BudgetExceeded:
    limit = _words(quote.epsilon_cap)
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
            f"The cap of {whom} is pure, ε = {limit}, and earlier charges are not pure.",
            "No ε bounds all these charges.",
            f"Set a cap on ρ, which is another promise. {recorded}",
            "Nothing was charged and nothing was released.",
        )
    return BudgetExceeded(
        "over-epsilon-cap",
        f"A cost of ε = {_words(price.epsilon)} does not fit under the cap of {whom}.",
        f"The spent ε is {_words(quote.epsilon_spent)} and the cap is {limit}.",
        f"Ask for less accuracy, or raise the cap. {recorded}",
        "Nothing was charged and nothing was released.",
    )


def _refused_mu(quote: Quote, price: Price, whom: str, recorded: str) -> BudgetExceeded:
    limit, mu = _words(quote.mu_squared_cap), price.known_mu_squared
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
        f"A cost of μ² = {_words(mu)} does not fit under the cap of {whom}.",
        f"The spent μ² is {_words(quote.mu_squared_spent)} and the cap is {limit}.",
        f"Ask for less accuracy, or raise the cap. {recorded}",
        "Nothing was charged and nothing was released.",
    )


def _words(rho: Fraction | None) -> str:
    return "∞" if rho is None else str(rho) if rho.denominator < 10**6 else f"about {float(rho):.6g}"


def _head(chain: list[Entry]) -> tuple[int, str]:
    return (chain[-1].sequence, chain[-1].digest) if chain else (0, GENESIS)


def _json(value: object) -> str:
    """Canonical JSON: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _object(detail: Mapping[str, Any]) -> str:
    """The canonical JSON of a detail, if it reads back as it was given (floats are read back as text)."""
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
    """The account of an entry; LedgerError unless its unit is written as a ledger writes it. Many entries have one."""
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


def _entry(row: tuple[Any, ...]) -> Entry:
    sequence, kind, source, unit, rho, time, detail, previous, digest = row
    exact = Fraction(*map(int, rho.split("/")))
    return Entry(
        sequence=sequence,
        kind=kind,
        account=_account(source, unit),
        rho=exact,
        time=time,
        detail=json.loads(detail),
        previous=previous,
        digest=digest,
    )
