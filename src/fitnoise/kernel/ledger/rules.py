"""The rules of the ledger: :class:`Ledger` reads, verifies and lengthens the chain in one transaction of a store.

This module knows no SQL and no file. A charge fits if all its quotes fit, so their arithmetic decides, too.
"""

from __future__ import annotations

import json
import os
import reprlib
import threading
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Self, final

from fitnoise.errors import LedgerError
from fitnoise.kernel.checks import are_confusable, describe_value, is_digest, is_name
from fitnoise.kernel.ledger.entries import (
    GENESIS,
    RESERVED_DETAIL_KEYS,
    DrawnPeriod,
    LedgerEntry,
    Price,
    Quote,
    check_amount,
    check_composed_plans,
    digest_columns,
    encode_detail,
    find_price,
    make_digests_error,
    parse_entry,
)
from fitnoise.kernel.ledger.refusals import format_rho, make_refusal
from fitnoise.kernel.ledger.sqlite import SqliteStore
from fitnoise.kernel.losses import Loss
from fitnoise.kernel.profiles import ChargedPlan, Profile, ceil_dyadic, joint
from fitnoise.kernel.units import Account

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from fitnoise.kernel.ledger.store import Row, Store

SERVERS: Final[list[Callable[[str], Store]]] = []
"""The function that opens the store at an address. `fitnoise.ledgers` adds it, because the kernel knows no server."""


@final
@dataclass(frozen=True)
class ChargeGroup:
    """Charges to the accounts of one name that are on the same records, as far as that was promised."""

    entries: tuple[LedgerEntry, ...]

    def rho(self, account: Account) -> Fraction | None:
        """Return the ρ of all charges jointly for the unit of an account; `None` where nothing bounds one of them."""
        return _join_rho([entry.price(account) for entry in self.entries])

    def mu_squared(self, account: Account) -> Fraction | None:
        """Return the μ² of all charges jointly for the unit of an account; `None` where the μ² of one is not known."""
        return _join_mu_squared([entry.price(account) for entry in self.entries])


@final
class _Chain(list[LedgerEntry]):
    """Verified entries, oldest first, with two indices."""

    def __init__(self) -> None:
        super().__init__()
        # Each entry by its digest, and each entry of answers by the digest of its charge. Without these indices a
        # ledger of many answers is read in quadratic time.
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
      racing processes. Nor does it raise that of its share above the cap of the share.
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

    def __init__(self, path: str | os.PathLike[str]) -> None:
        _refuse_unless_path(path)
        with ExitStack() as undo:
            store = undo.enter_context(closing(open_store(path)))
            self._open(store)
            # Only now does the store stay open: if verification raised, the stack has closed it, and its file is free
            # again.
            undo.pop_all()

    @classmethod
    def from_store(cls, store: Store) -> Self:
        """Return the ledger whose rows a store holds. Closing the ledger closes the store.

        Args:
            store: An open store, which keeps the guarantees of :class:`fitnoise.kernel.ledger.store.Store`. If this
                raises, the store stays open.
        """
        ledger = cls.__new__(cls)
        ledger._open(store)
        return ledger

    def _open(self, store: Store) -> None:
        self._store, self._where, self._seen = store, store.where, (0, GENESIS)
        self.verify()

    @property
    def file(self) -> Path | None:
        """The file, as an absolute path; `None` for a ledger that is lost when it is closed."""
        return self._store.file

    def quote(
        self,
        account: Account,
        loss: Loss,
        *,
        also: Mapping[Account, Loss] | None = None,
        composed_with: Sequence[str] = (),
        share: str | None = None,
    ) -> Quote:
        """Return the effect of charging a loss now; `fits` and `further_releases` cover all accounts of the name.

        Another process may charge before you do.

        Args:
            account: The protected population and unit.
            loss: The cost of the release on its own.
            also: The cost for other accounts of the name.
            composed_with: Hashes of plans on whose records the release is measured.
            share: The name of a share, whose caps `fits` and `further_releases` cover, too.

        Raises:
            LedgerError: The loss, `also`, `composed_with` or the account are refused, as by :meth:`charge`. A charge
                that costs nothing, does not fit, or names no share, is no error.
        """
        request = _ChargeRequest.from_loss(account, loss, also or {}, composed_with)
        with self._transaction(write=False) as chain:
            quotes = _quote_accounts(chain, request, share)
        # A release charges every account of the name, so the one with the least room decides how many fit.
        further = min((q.further_releases for q in quotes if q.further_releases is not None), default=None)
        return replace(quotes[0], fits=all(q.fits for q in quotes), further_releases=further)

    def balance(self, account: Account, share: str | None = None) -> Quote:
        """Return the quote of a zero charge, also for an account that does not exist.

        Charges to other accounts of its name count.

        Args:
            account: The protected population and unit.
            share: The name of a share, to return its balance. `None` returns that of the entire account.

        Raises:
            LedgerError: The name of the account looks like another.
        """
        with self._transaction(write=False) as chain:
            _refuse_twin(chain, account)
            return _quote_account(chain, _request_nothing(account), account, share)

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
                one. The key "share" names the share that is charged. The key "proposal" holds the SHA-256 of a
                proposal, and "proposed_by" and "approved_by" hold the names of two persons (rule 15).
            also: The cost of the release on its own for other accounts of the name; the detail keeps it. An account of
                the name that is not in it is charged the bound of :meth:`LedgerEntry.price`.
            composed_with: Hashes of plans charged to the same account. They state the promise that this release is
                measured on the same records, unchanged, as the charge of each plan. The detail keeps them; the charge
                needs a profile.
            at_most: The largest allowed growth of the spent ρ of the account; `None` sets no such limit.
            drawn_period: The drawn period of a series. The first period charges the entire series. Another charge draws
                a period again, from its earlier counts.
            once: True to refuse if the account was charged before for the plan that the detail names; if it names
                none, for any plan.

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
            LedgerError: The spent ρ would grow by more than `at_most`, or by an unknown amount.
            LedgerError: The account does not exist, and its name has a cap or looks like another.
            LedgerError: The detail names no share, and the name has shares; or it names one that does not exist.
            LedgerError: The name requires approval, and the detail names no proposal, or not two persons. Or another
                charge names the same proposal.
            LedgerError: `once` is set, and the account was charged for the plan before.
        """
        request = _ChargeRequest.from_loss(account, loss, also or {}, composed_with, drawn_period)
        full_detail = request.detailed(detail)
        with self._transaction(write=True) as chain:
            # The write lock is held since before the chain was read, so no other process spends in between.
            full = _find_full_quote(chain, request, at_most, full_detail)
            _check_turn(chain, "refusal" if full else "charge", account, full_detail)
            before = _list_charges(chain, account, full_detail.get("plan")) if once else []
            if before:
                raise LedgerError(
                    "plan-charged-meanwhile",
                    f"Another process or call has charged this plan (entry {before[-1].sequence}).",
                    "",
                    "Run the command again. It finishes the release of that charge, if this is still to be done.",
                    "Nothing was charged and nothing was changed.",
                )
            entry = self._append(chain, "refusal" if full else "charge", account, request.own_price.rho, full_detail)
        # The refusal is raised after the commit: inside the transaction it would undo its own entry.
        if full:
            raise make_refusal(full, entry)
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
        """Refuse now what :meth:`charge` would refuse for these arguments, before any data are read; charge nothing.

        A refusal is recorded as in :meth:`charge`. An admitted charge may be refused later, if others come first.

        Args, Raises: See :meth:`charge`.
        """
        request = _ChargeRequest.from_loss(account, loss, also or {}, composed_with)
        full_detail = request.detailed(detail)
        with self._transaction(write=True) as chain:
            full = _find_full_quote(chain, request, at_most, full_detail)
            # The refusal is an entry as well, so trials of what fits are on record.
            entry = self._append(chain, "refusal", account, request.own_price.rho, full_detail) if full else None
        if full and entry:
            raise make_refusal(full, entry)

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
        with self._transaction(write=True) as chain:
            _check_turn(chain, "period", _check_account(account), detail)
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
            raise make_digests_error()
        with self._transaction(write=True) as chain:
            _check_answers(chain, "answers", charge.account, detail)
            # Before the entry: a file without an entry is never believed, and an entry without its file loses answers.
            if keep is not None:
                keep()
            return self._append(chain, "answers", charge.account, Fraction(0), detail)

    def answered(self, charge: LedgerEntry) -> LedgerEntry | None:
        """Return the entry that names the answers to a charge or a period; `None` if there is no such entry.

        Args:
            charge: The entry that charged the answers.
        """
        with self._transaction(write=False) as chain:
            return chain.answers.get(charge.digest)

    def charges(self, account: Account, plan: str) -> list[LedgerEntry]:
        """Return the charges of a plan to an account, oldest first, without those that draw a period of a series.

        Args:
            account: The account that the plan was charged to.
            plan: The hash of the plan.
        """
        with self._transaction(write=False) as chain:
            return [entry for entry in _list_charges(chain, account, plan) if entry.drawn_period is None]

    def series(self, account: Account, plan: str) -> list[LedgerEntry]:
        """Return the entries that drew the periods of a series, by period: for each period the last one.

        Args:
            account: The account that the series was charged to.
            plan: The hash of the plan.
        """
        with self._transaction(write=False) as chain:
            return _list_periods(chain, account, plan)

    def set_cap(
        self,
        account: Account,
        rho: Fraction | None = None,
        *,
        epsilon: Fraction | None = None,
        mu_squared: Fraction | None = None,
        reason: str = "",
        share: str | None = None,
        approval: bool | None = None,
    ) -> LedgerEntry:
        """Put a cap ρ ≥ 0, a cap on pure ε ≥ 0, or a cap on μ² ≥ 0, in force. Earlier caps stay in the ledger.

        A cap on ρ or μ² is rounded up to a multiple of 2⁻⁶⁴, as charges are. So a cap equal to the cost of a plan
        admits that plan. A cap on ε is exact, as sums of ε are.

        The cap may lie below the spent amount: then nothing fits any more. Under a cap on ε only pure charges fit, and
        nothing fits after a charge that is not pure. Under a cap on μ² all charges jointly are μ-Gaussian-private, also
        when each was chosen after the releases before it. Nothing fits there if the μ² of an earlier charge is not
        known.

        Args:
            account: The account. If it does not exist, it is opened, and earlier charges under its name count.
            rho: The cap on ρ; give exactly one of these three.
            epsilon: The cap on Σ ε.
            mu_squared: The cap on μ².
            reason: Text that the entry keeps; empty for none.
            share: The name of a share, to limit the charges that name it (rule 14). `None` limits all charges.
            approval: True if each later charge to the name needs the approval of a second person (rule 15). False ends
                this. `None` leaves it as it is.

        Raises:
            LedgerError: The name of the share is not printable, or looks like that of another share of the source.
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
        if share is not None and not is_name(share):
            raise LedgerError(
                "share-without-name",
                f"The name of a share is {describe_value(share)}.",
                "It must be printable, not empty, without spaces around it, and in composed Unicode (NFC).",
                "Give another name.",
                "Nothing was charged and nothing was changed.",
            )
        # In the units of charges: these have ρ and μ² in multiples of 2⁻⁶⁴, and ε exactly.
        top = check_amount(top, rounded=kind != "epsilon")
        cap = check_amount(top**2 / 2 if kind == "epsilon" else top / 2 if kind == "mu_squared" else top, rounded=False)
        optional = {"reason": reason, kind: "" if kind == "rho" else str(top), "share": share, "approval": approval}
        detail = {key: x for key, x in optional.items() if x not in ("", None)}
        with self._transaction(write=True) as chain:
            _refuse_twin(chain, _check_account(account))
            similar = [x for x in _list_stated(chain, account, "share") if share and are_confusable(x, share)]
            if similar and share not in similar:
                raise LedgerError(
                    "share-looks-alike",
                    f"The share {share!r} looks like {similar[0]!r}, which the ledger has.",
                    "Two names would have two caps.",
                    "Give the name in the ledger, or a name that no one confuses with it.",
                    "Nothing was charged and nothing was changed.",
                )
            if (
                account not in _find_accounts(chain, account)
                and _quote_account(chain, _request_nothing(account), account, None).spent is None
            ):
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
        with self._transaction(write=False) as chain:
            return _list_accounts(chain)

    def entries(self, account: Account | None = None) -> list[LedgerEntry]:
        """Return every entry, or every entry of one account, oldest first.

        Args:
            account: The account of the entries; `None` for all.
        """
        with self._transaction(write=False) as chain:
            return [entry for entry in chain if account is None or entry.account == account]

    def charged(self, account: Account) -> list[ChargedPlan]:
        """Return the plans charged to an account on the same records, with the cost of each in every cell.

        Raises:
            LedgerError: The account has no charge, or its charges are not all promised to be on the same records. Only
                the publisher can know which records a release used.
            LedgerError: A charge has no profile or names no plan.
        """
        with self._transaction(write=False) as chain:
            groups = _group_charges(_list_charges(chain, account))
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
        return [ChargedPlan(entry.detail["plan"], _require_profile(entry)) for entry in groups[0]]

    def groups(self, account: Account) -> list[ChargeGroup]:
        """Return all charges to the accounts of a name, in groups of those on the same records.

        Args:
            account: An account of that name.
        """
        with self._transaction(write=False) as chain:
            charges = [entry for entry in chain if entry.kind == "charge" and entry.account.source == account.source]
        return [ChargeGroup(tuple(group)) for group in _group_charges(charges)]

    def head(self) -> tuple[int, str]:
        """Return sequence number and digest of the last entry; (0, :data:`GENESIS`) without one. Write them down."""
        with self._transaction(write=False) as chain:
            return _find_head(chain)

    def verify(self, expected_head: tuple[int, str] | None = None) -> int:
        """Recompute every digest; return the number of entries.

        Args:
            expected_head: A :meth:`head` written down earlier, through which the chain must pass. Without one, the
                ledger cannot detect that a tail was cut off, or that a chain was forged from its beginning.

        Raises:
            LedgerError: An entry is missing, out of place or changed. The error names the first such entry. Or no
                entry is `expected_head`.
        """
        with self._transaction(write=False) as chain:
            self._passes(chain, expected_head or (0, GENESIS))
            return len(chain)

    def close(self) -> None:
        """Let go of the file. Closing twice does no harm."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[_Chain]:
        """Lend the verified chain; what is appended meanwhile is committed at the end, or not at all."""
        if self._store.owner != (os.getpid(), threading.get_ident()):
            raise LedgerError(
                "opened-elsewhere",
                f"{self._where} was opened by another thread or process.",
                "",
                "Open it in this one.",
                "This operation charged nothing and changed nothing.",
            )
        with self._store.transaction(write=write):
            chain = self._read()
            yield chain
            self._refuse_replaced()
            self._store.commit()
            # The entry is committed to the store that was open. If another is in its place now, success would mislead.
            if self._has_changed():
                raise LedgerError(
                    "replaced-while-writing",
                    f"{self._where} was replaced, or got a second name, while it was used.",
                    "",
                    "Bring back the file that was there before, with one name: it has what was written.",
                    "What was written stays in that file.",
                )
            self._seen = _find_head(chain)

    def _read(self) -> _Chain:
        """Return the entire chain, verified inside the transaction that will use it."""
        self._refuse_replaced()
        chain = _Chain()
        for row in self._store.rows():
            self._follow(chain, row)
        # A file that was cut or exchanged does not pass through the last head that this ledger saw.
        self._passes(chain, self._seen)
        return chain

    def _has_changed(self) -> bool:
        """Return True if another store is in the place of the open one, or if that got a second name."""
        try:
            return self._store.opened_identity != self._store.identity()
        # The error of a second name states that nothing was charged. After a commit that is false.
        except LedgerError:
            return True

    def _refuse_replaced(self) -> None:
        if self._store.opened_identity != self._store.identity():
            raise LedgerError(
                "file-replaced",
                f"{self._where} was replaced by another file after it was opened.",
                "",
                "Open it again.",
                "This operation charged nothing and changed nothing.",
            )

    def _follow(self, chain: _Chain, row: Row) -> None:
        """Verify one row against the chain before it, and lengthen the chain by it."""
        last, digest = _find_head(chain)
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
        # A digest is no signature. So an entry that breaks a rule is refused here, although its digest may be right.
        try:
            entry, recomputed = parse_entry(row), digest_columns(row[:-1])
            _check_composed_charges(chain, entry.account, entry.composed_plans)
            _check_turn(chain, entry.kind, entry.account, entry.detail)
            _check_answers(chain, entry.kind, entry.account, entry.detail)
        except (LedgerError, AttributeError, TypeError, ValueError, ZeroDivisionError, RecursionError) as error:
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
        last, previous = _find_head(chain)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        columns = (last + 1, kind, account.source, account.key, str(rho), now, encode_detail(detail), previous)
        row = (*columns, digest_columns(columns))
        self._store.append(row)
        # The entry is parsed from its row again, so that the caller gets what the next reader will read.
        self._follow(chain, row)
        return chain[-1]

    def _passes(self, chain: list[LedgerEntry], head: tuple[int, str]) -> None:
        """Raise unless the head, a sequence number and a digest, is that of an entry of the chain or is GENESIS."""
        sequence, digest = head
        if not 0 <= sequence <= len(chain) or _find_head(chain[:sequence])[1] != digest:
            raise LedgerError(
                "head-not-found",
                f"{self._where} was altered, or is another ledger: none of its {len(chain)} entries is entry "
                f"{sequence} with digest {digest}.",
                "Its tail may have been cut off, or its entries may have been rewritten.",
                "Restore a copy, and verify it against a head that you wrote down.",
                "This operation charged nothing and changed nothing.",
            )


def is_address(path: object) -> bool:
    """Return True for the address of a ledger on a server: `env:NAME` or a URL."""
    return isinstance(path, str) and (path.startswith("env:") or "://" in path)


def open_store(path: str | os.PathLike[str]) -> Store:
    """Return the store in the file at a path, or on a server.

    Args:
        path: The path, or an address (:func:`is_address`).

    Raises:
        LedgerError: The store cannot be opened.
    """
    return SERVERS[0](str(path)) if is_address(path) else SqliteStore(path)


def _refuse_unless_path(path: str | os.PathLike[str]) -> None:
    """Raise LedgerError for anything but a path or a text that can name a file."""
    nameable = False
    with suppress(UnicodeEncodeError):  # half of a pair of characters has no bytes
        nameable = isinstance(path, str | os.PathLike) and b"\0" not in os.fsencode(path)
    if not nameable:
        raise LedgerError(
            "wrong-type",
            f"The value of path is {describe_value(path)}.",
            "It must be a text or a path.",
            "Give another value of path.",
            "Nothing was charged.",
            place="path",
        )


def _check_account(account: Account) -> Account:
    if not isinstance(account, Account):
        raise LedgerError(
            "not-an-account",
            f"The account is {reprlib.repr(account)}, which is not an Account.",
            "",
            "Name a source and a unit.",
            "Nothing was charged and nothing was changed.",
        )
    return account


@final
@dataclass(frozen=True)
class _ChargeRequest:
    """A requested charge: its prices by account, its own first, and the plans on whose records it is measured."""

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
        """Return the requested charge, or raise if it cannot be written, or names plans and has no profile."""
        if not isinstance(composed_with, list | tuple):  # the text of one plan is neither
            raise LedgerError(
                "composed-plans-not-a-list",
                f"The plans on the same records are {reprlib.repr(composed_with)}.",
                "",
                "Give a list of their hashes.",
                "Nothing was charged and nothing was changed.",
            )
        own_price = Price.from_loss(loss)
        check_composed_plans(own_price, tuple(composed_with))
        name = _check_account(account).source
        others = {_check_account(a): Price.from_loss(x) for a, x in also.items() if a != account}
        # Caps of a name are checked together, so one charge cannot spread over two names.
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
        """Return a detail with the ledger's own keys, or raise if the detail is invalid or the charge costs nothing."""
        if not self.own_price.rho:
            raise LedgerError(
                "charge-of-nothing",
                "The charge has ρ = 0.",
                "No release is free, so the cost of a charge is above 0.",
                "Charge the exact cost of the release.",
                "Nothing was charged and nothing was changed.",
            )
        document: dict[str, Any] = json.loads(encode_detail(detail))
        if document.keys() & RESERVED_DETAIL_KEYS:
            raise LedgerError(
                "detail-has-own-keys",
                "The detail of the charge has keys of the ledger's own.",
                f"The ledger itself writes {', '.join(sorted(RESERVED_DETAIL_KEYS))}.",
                "Remove these keys from the detail.",
                "Nothing was charged and nothing was changed.",
            )
        return document | self.as_json()

    def as_json(self) -> dict[str, Any]:
        """Return the keys that the ledger itself writes into the detail."""
        others = {a: p for a, p in self.prices.items() if a != self.account}
        units = [{"unit": a.document, "rho": str(p.rho)} | p.as_json() for a, p in others.items()]
        period = self.drawn_period and self.drawn_period.as_json()
        optional = {"composed_with": list(self.composed_with), "series": period, "units": units}
        return self.own_price.as_json() | {key: x for key, x in optional.items() if x}


def _request_nothing(account: Account) -> _ChargeRequest:
    return _ChargeRequest.from_loss(account, Loss.of_epsilon(Fraction(0), by_cell=False), {}, ())


def _find_accounts(chain: list[LedgerEntry], account: Account) -> list[Account]:
    """Return the existing accounts with the source of an account, in order of appearance."""
    return [a for a in _list_accounts(chain) if a.source == account.source]


def _list_accounts(chain: list[LedgerEntry]) -> list[Account]:
    """Return every account, in order of appearance: those of entries, and those of other units that charges state."""
    return list(dict.fromkeys(a for e in chain for a in (e.prices if e.kind == "charge" else (e.account,))))


def _check_composed_charges(chain: list[LedgerEntry], account: Account, composed_with: tuple[str, ...]) -> None:
    """Raise unless every plan was charged to the account before, once, with a profile, and is no series."""
    for plan in composed_with:
        charges = _list_charges(chain, account, plan)
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
            # The ρ of a charge without a profile may be for another relation than add-or-remove-one, for which no sum
            # over cells is known to hold. Every group of several charges was united here, so all of it has profiles.
            _require_profile(entry)
            if entry.drawn_period is not None:
                raise LedgerError(
                    "composed-plan-a-series",
                    f"Entry {entry.sequence} is the charge of a series.",
                    "The records of a series arrive over time, so no other release uses the same records.",
                    "Plan without the series among the plans on the same records.",
                    "Nothing was charged and nothing was changed.",
                )


def _require_profile(entry: LedgerEntry) -> Profile:
    if entry.profile is None:
        raise LedgerError(
            "entry-without-profile",
            f"Entry {entry.sequence} has no profile, so its cost may fall in any cell.",
            "A release on the same records needs the cost of each cell.",
            "Plan without the plan of this entry among those on the same records.",
            "Nothing was charged and nothing was changed.",
        )
    return entry.profile


def _list_periods(chain: list[LedgerEntry], account: Account, plan: object) -> list[LedgerEntry]:
    """Return the entries that drew the periods of a series, by period: for each period the last one."""
    by_period: dict[int, LedgerEntry] = {}
    for entry in chain:
        drawn_period = entry.drawn_period if entry.kind in {"charge", "period"} else None
        if drawn_period is not None and entry.account == account and entry.detail["plan"] == plan:
            # A later entry replaces an earlier one: of a period that was drawn again, the last draw counts.
            by_period[drawn_period.period] = entry
    return [by_period[period] for period in sorted(by_period)]


def _check_turn(chain: list[LedgerEntry], kind: str, account: Account, detail: Mapping[str, Any]) -> None:
    """Raise unless an entry may draw the period that its detail names; return for an entry that draws no period.

    A charge draws the first period of a series, or a drawn period again from its counts. An entry of kind "period"
    draws the period after the last one, from the second on.
    """
    # A refusal draws nothing, and may be for a period that is not next.
    if "series" not in detail or kind == "refusal":
        return
    requested, entries = DrawnPeriod.parse(detail["series"]), _list_periods(chain, account, detail.get("plan"))
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


def _check_answers(chain: _Chain, kind: str, account: Account, detail: Mapping[str, Any]) -> None:
    """Raise if an entry of answers names no charge or period of its account, or one that has such an entry."""
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
    # A source that exists is no new name, so only the names of its units are compared.
    units = {a.unit.name: a for a in _find_accounts(chain, account)}
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


def _list_charges(chain: list[LedgerEntry], account: Account, plan: str | None = None) -> list[LedgerEntry]:
    """Return the charges to an account, of one plan or, without a plan, all."""
    return [e for e in chain if (e.kind, e.account) == ("charge", account) and plan in (None, e.detail.get("plan"))]


def _find_groups(groups: list[list[LedgerEntry]], account: Account, plans: tuple[str, ...]) -> list[list[LedgerEntry]]:
    """Return the groups that hold a charge of one of these plans to the account."""
    return [g for g in groups if any(e.account == account and e.detail.get("plan") in plans for e in g)]


def _group_charges(charges: list[LedgerEntry]) -> list[list[LedgerEntry]]:
    """Return the charges in groups of those that are promised to be on the same records."""
    groups: list[list[LedgerEntry]] = []
    for entry in charges:
        united = _find_groups(groups, entry.account, entry.composed_plans) if entry.composed_plans else []
        if united:
            groups = [group for group in groups if group not in united]
        # Rule 7: a charge unites the groups of the plans that it names. Without such a plan it is a group of its own.
        groups.append([*(e for group in united for e in group), entry])
    return groups


def _join_rho(prices: list[Price | None]) -> Fraction | None:
    """Return the joint cost of charges on the same records; `None` where nothing bounds one of them."""
    profiles = [price.profile for price in prices if price and price.profile is not None]
    # Only profiles can be summed cell by cell. If one is missing, ρ adds (rule 7).
    return joint(profiles) if len(profiles) == len(prices) > 1 else _add_amounts([p and p.rho for p in prices])


def _join_mu_squared(prices: list[Price | None]) -> Fraction | None:
    """Return the joint μ² of charges on the same records; `None` where one is not known."""
    total = _add_amounts([price and price.known_mu_squared for price in prices])
    cells = [(p.mu_rate, p.profile) for p in prices if p and p.profile is not None and p.mu_rate is not None]
    # For one charge, or for one without a profile, only the sum of the μ² is proven (rule 10).
    if total is None or len(cells) < max(2, len(prices)):
        return total
    # In every cell μ² is at most the rate times ρ, so the largest rate bounds μ² by the joint ρ.
    return min(total, ceil_dyadic(max(rate for rate, _ in cells) * joint(profile for _, profile in cells)))


def _join_epsilon(prices: list[Price | None]) -> Fraction | None:
    """Return Σ ε; `None` where one charge is not pure."""
    # Rule 8: ε adds up, also on the same records, and a charge with a δ counts as infinite.
    return _add_amounts([price and price.epsilon for price in prices])


def _quote_accounts(chain: list[LedgerEntry], request: _ChargeRequest, share: str | None) -> list[Quote]:
    """Return the effect of a charge on all accounts of its name, its own first, or raise as `Ledger.quote` does.

    After these quotes come those of the share that is charged, in the order of the accounts.
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
    _check_composed_charges(chain, charged, request.composed_with)
    accounts = _find_accounts(chain, charged)
    capped = [e.account for e in chain if e.kind == "cap" and e.account in accounts]
    promises = [a for a in capped if charged.unit.within and find_price(charged, request.prices, a) is None]
    if promises:
        # Before anything is written: a refusal that is on record would name totals that were never published.
        raise LedgerError(
            "totals-break-cap",
            f"The totals by {' and '.join(charged.unit.within)} were counted from these data.",
            f"Publishing them breaks the promise {promises[0].sentence!r}, which has a cap in this account.",
            "Use totals from an independent source. Another account is no way out: nothing bounds what both reveal.",
            "Nothing was released.",
        )
    # Rule 9: a new account would have no cap, although its name has one.
    if charged not in accounts and capped:
        raise LedgerError(
            "account-beside-cap",
            f"{charged.source!r} has a cap for {capped[0].sentence!r}, and no account for "
            f"{charged.sentence!r}{_otherwise(accounts, charged)}.",
            "A cap covers all accounts of a name, so a new account needs a decision of its own.",
            "Plan for a unit in the ledger, or open an account with its own cap: fitnoise ledger open … --rho … "
            "--plan ….",
            "Nothing was charged and nothing was changed.",
        )
    accounts = [charged, *(a for a in accounts if a != charged)]
    return [_quote_account(chain, request, a, part) for part in dict.fromkeys((None, share)) for a in accounts]


def _otherwise(accounts: Sequence[Account], account: Account) -> str:
    """Return the part of an error about the cells of a promise; empty if no existing account promises other cells.

    An existing account has an equal unit. The text lists the attributes whose cells it declares otherwise.
    """
    there = next((dict(a.cells) for a in accounts if a.unit == account.unit), {})
    names = [name for name, cells in account.cells if there.get(name, cells) != cells]
    return f", which promises other cells of {' and '.join(map(repr, names))}" if names else ""


def _list_stated(chain: list[LedgerEntry], account: Account, key: str) -> list[Any]:
    """Return what the caps of all accounts with the source of an account state under a key, oldest first."""
    caps = [e for e in chain if e.kind == "cap" and e.account.source == account.source]
    return [entry.detail[key] for entry in caps if key in entry.detail]


def _find_full_quote(
    chain: list[LedgerEntry], request: _ChargeRequest, at_most: Fraction | None, detail: Mapping[str, Any]
) -> Quote | None:
    """Return the quote of an account or share under whose cap a charge does not fit; `None` if it fits under all.

    Raise if its detail lacks a share or an approval, or names a proposal that was charged before. Raise if the spent ρ
    of its own account would grow by more than `at_most`, or as `_quote_accounts` does.
    """
    share_name = detail.get("share")
    # Rule 14: a charge without a share would use what is left for the shares.
    if share_name not in ((shares := _list_stated(chain, request.account, "share")) or (None,)):
        raise LedgerError(
            "share-not-named",
            f"The charge names {'no share' if share_name is None else f'the share {share_name!r}'}, and the shares of "
            f"{request.account.source!r} are: {', '.join(map(repr, dict.fromkeys(shares))) or 'none'}.",
            "Where a source has shares, each charge names one of them.",
            "Name one (--share), or set the cap of another: fitnoise ledger cap … --share.",
            "Nothing was charged and nothing was changed.",
        )
    proposal = detail.get("proposal")
    names: list[Any] = [detail.get(key) for key in ("proposed_by", "approved_by")]
    is_approved = is_digest(proposal) and all(map(is_name, names)) and not are_confusable(*names)
    # Rule 15: the last cap that states it decides for all accounts of the name.
    if any(_list_stated(chain, request.account, "approval")[-1:]) and not is_approved:
        raise LedgerError(
            "charge-not-approved",
            f"The source {request.account.source!r} requires approval, and the charge names no proposal with two "
            "different persons, one who proposed it and one who approved it.",
            "Where approval is required, a second person allows each charge.",
            "Propose the release (fitnoise release --propose), and have another person approve it (--approve).",
            "Nothing was charged and nothing was changed.",
        )
    used = [e for e in chain if e.kind == "charge" and proposal is not None and e.detail.get("proposal") == proposal]
    if used:
        raise LedgerError(
            "proposal-charged-before",
            f"Entry {used[0].sequence} of the ledger is the charge of this proposal.",
            "A proposal is charged once.",
            "Propose the release again, if a further charge is meant.",
            "Nothing was charged and nothing was changed.",
        )
    quotes = _quote_accounts(chain, request, share_name)
    grows = quotes[0].increase
    if at_most is not None and (grows is None or grows > at_most):
        raise LedgerError(
            "free-plan-costs",
            f"The charge would raise the spent ρ by {format_rho(grows)}, and it may raise it by at most "
            f"{format_rho(at_most)}.",
            "The plan does not name all plans on the same records, or another release was charged since.",
            "Plan again.",
            "Nothing was charged and nothing was changed.",
        )
    return next((quote for quote in quotes if not quote.fits), None)


def _quote_account(chain: list[LedgerEntry], request: _ChargeRequest, account: Account, share: str | None) -> Quote:
    """Return the effect of a charge on one account of its source, which may be another than its own, or on a share.

    spent = Σ groups; cap = the last one; fits ⟺ spent + increase ≤ cap, in ρ, ε or μ².
    """
    # Rule 14: a share has its own caps and charges. For the account all charges count, and no cap of a share.
    chain = [e for e in chain if e.detail.get("share") == share or (share is None and e.kind != "cap")]
    # Rule 9: the charges to all accounts of the name count, each at its price for this account.
    charges = [entry for entry in chain if entry.kind == "charge" and entry.account.source == account.source]
    groups, price = _group_charges(charges), find_price(request.account, request.prices, account)
    united = _find_groups(groups, request.account, request.composed_with) if request.composed_with else []
    priced = [([e.price(account) for e in group], group in united) for group in groups]

    def counted(cost: Callable[[list[Price | None]], Fraction | None]) -> tuple[Fraction | None, Fraction | None]:
        """Return the spent amount and its growth by the charge, each `None` if nothing bounds it."""
        # The charge replaces the groups that it unites by one, so their costs leave the sum.
        costs = [(cost(prices), joins) for prices, joins in priced]
        then = cost([*(p for prices, joins in priced if joins for p in prices), price])
        return _add_amounts([x for x, _ in costs]), _add_amounts([then, *(x and -x for x, joins in costs if joins)])

    ways = {"rho": _join_rho, "epsilon": _join_epsilon, "mu_squared": _join_mu_squared}
    amounts = {kind: counted(cost) for kind, cost in ways.items()}
    quote = Quote(
        account,
        rho=None if price is None else price.rho,
        spent=amounts["rho"][0],
        increase=amounts["rho"][1],
        epsilon_spent=amounts["epsilon"][0],
        mu_squared_spent=amounts["mu_squared"][0],
        share=share,
    )
    # The last cap is in force: the publisher can replace it by a new promise.
    cap = next((entry for entry in reversed(chain) if entry.kind == "cap" and entry.account == account), None)
    if cap is None:
        return quote
    # Only the currency of the cap decides; the other two are shown.
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


def _add_amounts(parts: list[Fraction | None]) -> Fraction | None:
    """Return the sum; `None` if a part is `None`."""
    bounded = [part for part in parts if part is not None]
    return sum(bounded, Fraction(0)) if len(bounded) == len(parts) else None


def _find_head(chain: list[LedgerEntry]) -> tuple[int, str]:
    return (chain[-1].sequence, chain[-1].digest) if chain else (0, GENESIS)
