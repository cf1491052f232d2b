"""Entries, prices and quotes of the ledger: their stored text, and what it states. Rules 2, 4 to 6, 8, 10 and 13."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self, final

from fitnoise.errors import LedgerError
from fitnoise.kernel.checks import is_digest, is_name
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.privacy import pure_mu_squared
from fitnoise.kernel.profiles import Profile, ceil_dyadic
from fitnoise.kernel.units import Account, Adjacency, PrivacyUnit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fitnoise.kernel.ledger.store import Row

GENESIS = "0" * 64  # the digest before the first entry
_MAX_BITS = 1000  # of the integers in a stored ρ, so that neither its float nor its digits overflow

RESERVED_DETAIL_KEYS = {"profile", "composed_with", "epsilon", "mu_squared", "mu_rate", "units", "series"}
"""The keys of a detail that the ledger itself writes."""

_ANSWERS = {"charge", "answers"}  # the detail of an entry that names answers
_LIMITS = {"epsilon", "mu_squared"}  # the currencies of a cap other than ρ
_PRICE_NUMBERS = ("epsilon", "mu_squared", "mu_rate")  # of a price, other than ρ
COLUMNS = ("sequence", "kind", "source", "unit", "rho", "time", "detail", "previous")  # then "digest"


@final
@dataclass(frozen=True)
class Price:
    """The cost of a release for one unit.

    Args:
        rho: ρ ≥ 0, a multiple of 2⁻⁶⁴.
        profile: The ρ by cell, whose largest value is ρ; `None` if it is not known.
        epsilon: The ε of a pure release: ρ is at most ε²/2, rounded up to a multiple of 2⁻⁶⁴. `None` if the release is
            not pure.
        mu_squared: μ² ≥ 0, a multiple of 2⁻⁶⁴; `None` if it is not known.
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
        # ρ is the cost of the costliest cell: a profile with another maximum would charge less or more by cell than in
        # all.
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
        """Return the price of a loss, with ε exact and all else rounded up; raise if a number is too long."""
        if not isinstance(loss, Loss):
            raise LedgerError(
                "cost-not-a-loss",
                f"The cost is {reprlib.repr(loss)}, which is not a Loss.",
                "Only exact costs are charged.",
                "Give the Loss of the release.",
                "Nothing was charged and nothing was changed.",
            )
        epsilon = loss.epsilon
        if epsilon is not None and not _is_short(epsilon):
            raise LedgerError(
                "epsilon-too-long",
                f"The ε of a loss has more than {_MAX_BITS} bits.",
                "",
                f"Give an ε whose numerator and denominator have at most {_MAX_BITS} bits.",
                "Nothing was charged and nothing was changed.",
            )
        mu_squared, rho = loss.mu_squared, check_amount(loss.rho)
        mu = () if mu_squared is None else (check_amount(mu_squared), check_amount(loss.mu_rate))
        return cls(rho, loss.profile, epsilon, *mu)

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        """Return the price that a document states, or raise: the output of `as_json`, and the text of ρ as "rho"."""
        if not isinstance(document, Mapping) or not {"rho"} <= document.keys() <= {"rho", "profile", *_PRICE_NUMBERS}:
            raise LedgerError(
                "price-not-readable",
                "A price has unknown keys, or no ρ.",
                f"A price has the key rho, and may have {', '.join(('profile', *_PRICE_NUMBERS))}.",
                "Give a price as fitnoise writes it.",
                "Nothing was charged and nothing was changed.",
            )
        profile = Profile.parse(document["profile"]) if "profile" in document else None
        numbers = {key: _parse_amount(document[key]) for key in _PRICE_NUMBERS if key in document}
        price = cls(_parse_amount(document["rho"]), profile, **numbers)
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
        """Return everything that is known except ρ, as JSON values by key."""
        document: dict[str, Any] = {} if self.profile is None else {"profile": self.profile.document()}
        return document | {key: str(x) for key in _PRICE_NUMBERS if (x := getattr(self, key)) is not None}

    @property
    def known_mu_squared(self) -> Fraction | None:
        """μ² as stated, or else the bound that ε implies, rounded up; `None` where neither is known."""
        if self.mu_squared is None and self.epsilon is not None:
            return ceil_dyadic(pure_mu_squared(self.epsilon))
        return self.mu_squared

    def repeated(self, times: int) -> Price:
        """Return the price of k = `times` consecutive changes, without a profile: k²ρ, kε, k²μ², and the rate of μ².

        The ρ of a pure release is also at most (kε)²/2, rounded up.
        """
        epsilon = None if self.epsilon is None else times * self.epsilon
        # ρ and μ² grow with the square of a distance, and pure ε grows with the distance itself.
        rho, mu = times**2 * self.rho, None if self.mu_squared is None else times**2 * self.mu_squared
        # For a pure release k²ρ can exceed (kε)²/2 by up to k² roundings, and both bound the cost.
        return Price(rho if epsilon is None else min(rho, ceil_dyadic(epsilon**2 / 2)), None, epsilon, mu, self.mu_rate)


@final
@dataclass(frozen=True)
class DrawnPeriod:
    """A drawn period of a series.

    Args:
        period: The number of the period, from 1.
        frozen: The SHA-256 (hex) of the counts from which the period is drawn. A block of 256 random bits is part of
            the digested text.

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
        """Return the period that the output of `as_json` states, or raise."""
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
            `"mu_squared"`, `"mu_rate"`, `"units"` and `"series"` to it. `"share"` is the name of the share that a cap
            limits, or that a charge or refusal is made to. `"approval"` is true in a cap from which on charges need
            approval, and false in one that ends this.
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
        stated = self.detail if isinstance(self.detail, Mapping) else {}
        sound = {
            "cap": self.rho >= 0 and type(stated.get("approval", True)) is bool,
            "charge": self.rho > 0 and ceil_dyadic(self.rho) == self.rho,
            "refusal": self.rho > 0 and ceil_dyadic(self.rho) == self.rho,
            "period": self.rho == 0 and stated.keys() == {"plan", "series"},
            "answers": self.rho == 0 and stated.keys() == _ANSWERS,
        }
        if not sound.get(self.kind, False) or not _is_short(self.rho):
            raise LedgerError(
                "entry-kind-or-cost-invalid",
                f"An entry has the kind {self.kind!r} and ρ = {reprlib.repr(self.rho)}.",
                "The kinds are cap, charge, refusal, period and answers, and each allows its own ρ and detail.",
                "Give an entry as a ledger writes it.",
                "Nothing was charged and nothing was changed.",
            )
        if stated is not self.detail or (self.kind == "cap" and stated.keys() & RESERVED_DETAIL_KEYS - _LIMITS):
            raise LedgerError(
                "entry-detail-invalid",
                "The detail of an entry is not a JSON object, or has a key that a cap does not allow.",
                "A cap has neither a profile nor other plans on the same records.",
                "Give a detail as a ledger writes it.",
                "Nothing was charged and nothing was changed.",
            )
        if not is_name(self.detail.get("share", "none")):
            raise LedgerError(
                "entry-share-invalid",
                "An entry names a share by something other than a printable text.",
                "",
                "Give the name of a share as a ledger writes it.",
                "Nothing was charged and nothing was changed.",
            )
        if self.kind == "answers" and not all(map(is_digest, self.detail.values())):
            raise make_digests_error()
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
            check_composed_plans(self.prices[self.account], self.composed_plans)
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
        return _parse_amount(self.detail["epsilon"]) if "epsilon" in self.detail else None

    @cached_property
    def mu_squared(self) -> Fraction | None:
        """The μ² charged, refused or allowed; `None` for an entry that states no μ²."""
        return _parse_amount(self.detail["mu_squared"]) if "mu_squared" in self.detail else None

    @property
    def limit(self) -> tuple[str, Fraction]:
        """The currency of a cap ("rho", "epsilon" or "mu_squared"), and its amount in this currency."""
        if self.epsilon is not None:
            return "epsilon", self.epsilon
        return ("rho", self.rho) if self.mu_squared is None else ("mu_squared", self.mu_squared)

    @property
    def profile(self) -> Profile | None:
        """The ρ of a charge or refusal by cell, as the detail states it; `None` if it states none."""
        return self.prices[self.account].profile

    @cached_property
    def prices(self) -> Mapping[Account, Price]:
        """The stated prices by account of the name, that of the entry's own account first. A cap has none."""
        document = {key: self.detail[key] for key in ("profile", *_PRICE_NUMBERS) if key in self.detail}
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
            account = _account(self.account.source, _encode_json(document["unit"]))
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
        """Return the cost for the unit of any account of the name; `None` where nothing bounds it.

        The price is the one that the entry states for that unit. An entry may state none, for example for an account
        that was opened after it. Then the price is the least bound that follows from the stated prices: k²ρ, kε, k²μ².
        There k changes of the unit with the stated price make one change of the unit of the other account
        (:meth:`fitnoise.kernel.units.Adjacency.changes`). So replacing a record costs at most the cost of removing one
        and adding one. A charge for a unit whose records are only replaced bounds nothing for a unit whose records can
        be added or removed.

        **Guarantees**: The price is at least the exact cost of the integers that were measured.
        """
        return find_price(self.account, self.prices, account)

    @property
    def composed_plans(self) -> tuple[str, ...]:
        """The hashes of the plans on whose records this was measured."""
        return tuple(self.detail.get("composed_with", ()))

    @property
    def answers(self) -> str | None:
        """The SHA-256 of the answers that an entry of kind "answers" names; `None` for other entries."""
        return str(self.detail["answers"]) if self.kind == "answers" else None

    @cached_property
    def drawn_period(self) -> DrawnPeriod | None:
        """The period of a series that was drawn or refused with this entry; `None` for other entries."""
        return DrawnPeriod.parse(self.detail["series"]) if "series" in self.detail else None


@final
@dataclass(frozen=True)
class Quote:
    """The effect that a charge would have; a quote changes nothing.

    Args:
        account: The protected population and unit.
        rho: The cost of the charge on its own, rounded up to a multiple of 2⁻⁶⁴; `None` where nothing bounds it.
        spent: The ρ of all charges so far to the accounts of this name (`account.source`), for this unit. The cost of
            charges on the same records is their joint cost. `None` where nothing bounds the cost of one of them.
        increase: The growth of spent: ρ for a charge that names no other plans. It is often less for a charge on the
            records of other plans, even 0 or negative. `None` where nothing bounds it. It can have a bound where spent
            has none.
        cap: The cap in force, the last one set, as ρ; `None` without a cap. A cap on ε is here ε²/2, and a cap on μ² is
            μ²/2.
        remaining: The amount that is left under the cap, as ρ; `None` without a cap, and 0 where the spent amount has
            no bound. Under a cap on ρ it is max(cap − spent, 0), exactly. The largest fitting charge that names no
            other plans is then ``remaining`` rounded *down* to a multiple of 2⁻⁶⁴. Under a cap on ε it is half the
            square of the remaining ε, and under a cap on μ² half the remaining μ².
        fits: True if there is no cap. Under a cap on ρ, True if spent + increase ≤ cap. `epsilon_cap` and
            `mu_squared_cap` state the rule for a cap on ε or μ².
        epsilon_spent: Σ ε of the charges so far, where every one of them is pure; `None` where one is not.
        epsilon_cap: The cap in force, if it limits ε: then fits ⟺ all charges are pure and Σ ε ≤ cap.
        mu_squared_spent: μ² of the charges so far, for charges on the same records their joint μ²; `None` where one is
            not known.
        mu_squared_cap: The cap in force, if it limits μ²: then fits ⟺ μ² with the charge ≤ cap.
        further_releases: The number of charges like this one that still fit, this one included, each without other
            plans. 0 for a charge of cost 0 or without a bound; `None` without a cap.
        share: The name of a share: only its cap and the charges that name it count. `None` for the entire account.
    """

    account: Account
    rho: Fraction | None
    spent: Fraction | None
    increase: Fraction | None
    cap: Fraction | None = None
    remaining: Fraction | None = None
    fits: bool = True
    epsilon_spent: Fraction | None = None
    epsilon_cap: Fraction | None = None
    mu_squared_spent: Fraction | None = None
    mu_squared_cap: Fraction | None = None
    further_releases: int | None = None
    share: str | None = None


def find_price(declared: Account, prices: Mapping[Account, Price], for_account: Account) -> Price | None:
    """Return the stated price for an account, or the least bound from all (:meth:`LedgerEntry.price`).

    The data were counted for the unit of `declared`. The least is that by ρ, then ε, then μ²; unknown ones count as 0.
    `None` without a bound.
    """
    if for_account in prices:
        return prices[for_account]
    stated = [account.unit for account in prices]
    changes = [(price, _changes(declared.unit, account, for_account, stated)) for account, price in prices.items()]
    # Rule 9: every stated price can give a bound, and the least of them holds. Without any, the cost is infinite.
    bounds = (price.repeated(times) for price, times in changes if times is not None)
    return min(bounds, key=lambda p: (p.rho, p.epsilon or Fraction(0), p.mu_squared or Fraction(0)), default=None)


def _changes(declared: PrivacyUnit, priced: Account, account: Account, stated: Sequence[PrivacyUnit]) -> int | None:
    """Return the number of changes of the unit of `priced` that make one of `account`; `None` if it is unknown.

    The data were counted for the unit `declared`. `stated` are all units with a price.
    """
    # The number of records may have been promised for several units of one name. The largest number is the safe one.
    counted, unit = Adjacency(declared), account.unit
    one, other = counted.for_unit(priced.unit), counted.for_unit(unit, *([] if unit.id is not None else stated))
    held = priced.within <= account.within  # by digests: attributes of equal names may have other cells
    if not held or one is None or other is None or (other.unit.id is not None and one.unit.id is None):
        # An account by an id does not say how many records of a person are counted, which may be many.
        return None
    return one.changes(other)


def _is_short(x: Fraction) -> bool:
    """Return True if numerator and denominator are short enough to be written."""
    return max(x.numerator.bit_length(), x.denominator.bit_length()) <= _MAX_BITS


def check_amount(rho: Fraction, *, rounded: bool = True) -> Fraction:
    """Return an amount, exact or rounded up to a multiple of 2⁻⁶⁴; raise if it is below 0 or too long to be written."""
    above = ceil_dyadic(rho)  # also refuses what is no Fraction
    amount = above if rounded else rho
    if rho < 0 or not _is_short(amount):
        raise LedgerError(
            "cost-out-of-range",
            f"A cost or a cap is {reprlib.repr(rho)}.",
            f"It is at least 0, and its numerator and denominator have at most {_MAX_BITS} bits.",
            "Give a number in this range.",
            "Nothing was charged and nothing was changed.",
        )
    return amount


def _parse_amount(text: object) -> Fraction:
    """Return a number ≥ 0 from the text that a Fraction writes; raise any error for another text."""
    exact = Fraction(*map(int, text.split("/"))) if isinstance(text, str) else Fraction(-1)
    # One number has one text: 2/4 and 1/2 would give two digests of one entry.
    if exact < 0 or str(exact) != text:
        raise LedgerError(
            "number-not-readable",
            "A number of an entry is not a fraction of at least 0 in lowest terms.",
            "",
            "Give the number as fitnoise writes it.",
            "Nothing was charged and nothing was changed.",
        )
    return exact


def check_composed_plans(price: Price, composed_with: tuple[str, ...]) -> None:
    """Raise unless the plans under `composed_with` are texts, and a charge with such plans has a profile."""
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


def make_digests_error() -> LedgerError:
    """Return the error for an entry of answers that names something other than two digests."""
    return LedgerError(
        "answers-not-digests",
        "An entry of answers names something other than two digests.",
        "It names the SHA-256 of its charge and the SHA-256 of the answers.",
        "Give both digests.",
        "The answers were not recorded.",
    )


def _encode_json(value: object) -> str:
    """Return canonical JSON: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def encode_detail(detail: Mapping[str, Any]) -> str:
    """Return the canonical JSON of a detail, or raise if it does not read back as given."""
    try:
        text = _encode_json(dict(detail))
        # Floats read back as text and tuples as lists, so a detail with either differs and is refused.
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


def digest_columns(columns: tuple[Any, ...]) -> str:
    """Return the SHA-256 (hex) of the first eight columns of a row, which are all except its digest."""
    return hashlib.sha256(_encode_json(dict(zip(COLUMNS, columns, strict=True))).encode("ascii")).hexdigest()


# Many entries have one account, so its text is parsed once.
@lru_cache(maxsize=1024)
def _account(source: str, key: str) -> Account:
    """Return the account of a source and of the canonical JSON of its unit, or raise."""
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


def parse_entry(row: Row) -> LedgerEntry:
    """Return the entry of a row, whose digest is not verified. Raise any error for what is not an entry."""
    sequence, kind, source, unit, rho, time, detail, previous, digest = row
    exact = Fraction(*map(int, rho.split("/")))
    account, stated = _account(source, unit), json.loads(detail)
    return LedgerEntry(sequence, kind, account, exact, time, stated, previous, digest=digest)
